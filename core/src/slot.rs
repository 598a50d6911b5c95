//! The hash slot of a key in a Redis Cluster, for servers whose module API cannot compute it.
//!
//! CRC-16/XMODEM of the key, or of its hash tag, modulo 16384: Redis Cluster specification, "Key
//! distribution model" and "Hash tags".

const SLOTS: u16 = 16_384;

const TABLE: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = (i as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// The part of a key that is hashed: the bytes between its first `{` and the next `}`, or the
/// whole key if there are none.
fn hash_tag(key: &[u8]) -> &[u8] {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let inner = key.get(open + 1..)?;
        let close = inner.iter().position(|byte| *byte == b'}').filter(|close| *close > 0)?;
        inner.get(..close)
    });
    tag.unwrap_or(key)
}

/// A key in this slot that no other client uses, for servers that block clients only on keys.
///
/// ```
/// use rl_core::slot::{name_in, slot};
///
/// assert_eq!(slot(&name_in(12_182)), 12_182);
/// ```
pub fn name_in(slot: u16) -> Vec<u8> {
    let mut name = b"redis-rl waits ".to_vec();
    // Any CRC can reach any other through two more bytes. They are the CRC before them, XORed with
    // the CRC from which two zero bytes would lead to the slot.
    let last = crc(&name) ^ crc_before_zeroes(slot);
    name.extend_from_slice(&last.to_be_bytes());
    name
}

/// The CRC from which two zero bytes lead to this one.
fn crc_before_zeroes(mut crc: u16) -> u16 {
    for _ in 0..16 {
        crc = if crc & 1 != 0 { (crc ^ 0x1021) >> 1 | 0x8000 } else { crc >> 1 };
    }
    crc
}

/// The slot of a key, 0 to 16383.
///
/// ```
/// use rl_core::slot::slot;
///
/// assert_eq!(slot(b"{user1000}.following"), slot(b"{user1000}.followers"));
/// ```
pub fn slot(key: &[u8]) -> u16 {
    crc(hash_tag(key)) % SLOTS
}

fn crc(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ TABLE[usize::from((crc >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_specification() {
        // The check value of the CRC, and slots as CLUSTER KEYSLOT returns them.
        assert_eq!(slot(b"123456789"), 0x31c3 % SLOTS);
        assert_eq!(slot(b"foo"), 12_182);
        assert_eq!(slot(b"somekey"), 11_058);
        assert_eq!(slot(b"foo{hash_tag}"), 2_515);
        assert_eq!(slot(b""), 0);
    }

    #[test]
    fn each_slot_has_a_name_of_its_own() {
        for wanted in 0..SLOTS {
            assert_eq!(slot(&name_in(wanted)), wanted);
        }
    }

    #[test]
    fn the_first_pair_of_braces_counts_unless_it_is_empty() {
        assert_eq!(slot(b"foo{}{bar}"), slot_of_whole(b"foo{}{bar}"));
        assert_eq!(slot(b"foo{{bar}}zap"), slot(b"{bar"));
        assert_eq!(slot(b"foo{bar}{zap}"), slot(b"bar"));
        assert_eq!(slot(b"foo{bar"), slot_of_whole(b"foo{bar"));
    }

    fn slot_of_whole(key: &[u8]) -> u16 {
        let mut crc = 0u16;
        for byte in key {
            crc ^= u16::from(*byte) << 8;
            for _ in 0..8 {
                crc = if crc & 0x8000 != 0 { crc << 1 ^ 0x1021 } else { crc << 1 };
            }
        }
        crc % SLOTS
    }
}
