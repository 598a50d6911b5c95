//! The arguments of a command.

/// The most keys of one call.
pub const MAX_KEYS: usize = 1024;

/// The arguments of a command, without its name.
pub trait Arguments {
    /// The number of arguments.
    fn count(&self) -> usize;
    /// The argument at an index below [`Arguments::count`]; empty beyond.
    fn get(&self, index: usize) -> &[u8];
}

impl Arguments for [&[u8]] {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, index: usize) -> &[u8] {
        <[&[u8]]>::get(self, index).copied().unwrap_or_default()
    }
}
