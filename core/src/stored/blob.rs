//! An encoded effect. It lies on the stack unless it is long, since an allocation would cost as
//! much as the decision.

use super::varint::{MAX_LEN, Sink};

/// The number of bytes that fit onto the stack: enough for any effect without the name of a lease.
const STACK_BYTES: usize = 96;

/// The bytes of an encoded effect.
pub struct Blob {
    stack: [u8; STACK_BYTES],
    /// All of the bytes, once they do not fit onto the stack.
    heap: Vec<u8>,
    len: usize,
}

impl Default for Blob {
    fn default() -> Blob {
        Blob::new()
    }
}

impl Blob {
    /// An empty blob.
    pub fn new() -> Blob {
        Blob { stack: [0; STACK_BYTES], heap: Vec::new(), len: 0 }
    }

    /// Forgets all bytes.
    pub fn clear(&mut self) {
        self.heap.clear();
        self.len = 0;
    }

    /// The bytes put so far.
    pub fn bytes(&self) -> &[u8] {
        let bytes = if self.heap.is_empty() { &self.stack[..] } else { &self.heap };
        bytes.get(..self.len).unwrap_or_default()
    }
}

impl Sink for Blob {
    fn put(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        match self.stack.get_mut(self.len..end) {
            Some(place) if self.heap.is_empty() => place.copy_from_slice(bytes),
            _ => {
                if self.heap.is_empty() {
                    self.heap.extend_from_slice(self.stack.get(..self.len).unwrap_or_default());
                }
                self.heap.extend_from_slice(bytes);
            }
        }
        self.len = end;
    }

    fn put_byte(&mut self, byte: u8) {
        match self.stack.get_mut(self.len) {
            Some(place) if self.heap.is_empty() => {
                *place = byte;
                self.len += 1;
            }
            _ => self.put(&[byte]),
        }
    }

    fn room(&mut self) -> Option<&mut [u8; MAX_LEN]> {
        let room = self.stack.get_mut(self.len..)?.first_chunk_mut();
        room.filter(|_| self.heap.is_empty())
    }

    fn grow(&mut self, len: usize) {
        self.len += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stored::varint::write;

    #[test]
    fn what_is_put_is_there_however_long_it_gets() {
        let (mut blob, mut expected) = (Blob::new(), Vec::new());
        for round in 0..2 {
            for n in 0..60u64 {
                write(&mut blob, n << n);
                write(&mut expected, n << n);
                blob.put(&[7; 3][..(n % 4) as usize]);
                expected.put(&[7; 3][..(n % 4) as usize]);
                blob.put_byte(n as u8);
                expected.put_byte(n as u8);
                assert_eq!(blob.bytes(), expected, "round {round}, {n}");
            }
            blob.clear();
            expected.clear();
            assert!(blob.bytes().is_empty());
        }
    }
}
