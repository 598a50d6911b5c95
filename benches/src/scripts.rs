//! Our own Lua versions of what people use without a module, loaded once and called by EVALSHA.

use std::error::Error;

use crate::server::Server;

/// The SHA1 of each script, as the server knows it.
pub struct Scripts {
    /// `INCR` and `EXPIRE`.
    pub window: String,
    /// Token bucket in a hash.
    pub bucket: String,
    /// Sliding log in a sorted set.
    pub log: String,
    /// Several sliding limits, all or nothing.
    pub two_phase: String,
}

impl Scripts {
    /// Loads all of them.
    pub fn load(server: &mut Server) -> Result<Scripts, Box<dyn Error>> {
        let mut load = |source: &str| -> redis::RedisResult<String> {
            redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut server.connection)
        };
        Ok(Scripts {
            window: load(include_str!("lua/window.lua"))?,
            bucket: load(include_str!("lua/bucket.lua"))?,
            log: load(include_str!("lua/log.lua"))?,
            two_phase: load(include_str!("lua/two_phase.lua"))?,
        })
    }
}
