//! Sends many commands as fast as the server takes them, without asking for replies.

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::server::Server;

/// How many bytes to send at once.
const CHUNK: usize = 1 << 16;

/// Sends packed commands. Their errors are not seen: count what they leave behind.
pub fn send(
    server: &Server,
    commands: impl Iterator<Item = Vec<u8>>,
) -> Result<(), Box<dyn Error>> {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port()))?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut chunk = reply("OFF");
    for command in commands {
        chunk.extend_from_slice(&command);
        if chunk.len() > CHUNK {
            stream.write_all(&chunk)?;
            chunk.clear();
        }
    }
    chunk.extend_from_slice(&reply("ON"));
    stream.write_all(&chunk)?;
    // The only reply, when everything is done.
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    if answer == *b"+OK\r\n" { Ok(()) } else { Err("the server did not take the load".into()) }
}

fn reply(mode: &str) -> Vec<u8> {
    redis::cmd("CLIENT").arg("REPLY").arg(mode).get_packed_command()
}
