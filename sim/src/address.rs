//! Addresses of clients: only what is one in full is taken for one.

use std::io::Write;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// An address as it stands in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address<'a> {
    /// The address. One that maps IPv4 into IPv6 is the IPv4 address.
    pub ip: IpAddr,
    /// Its text, without port and zone.
    pub text: &'a [u8],
}

/// The length of the networks by which the middlewares count IPv6 clients.
pub const IPV6_PREFIX: u8 = 64;

impl<'a> Address<'a> {
    /// Reads an address, after which an IPv6 zone may stand (`fe80::1%eth0`), and nothing else.
    pub fn parse(text: &'a [u8]) -> Option<Address<'a>> {
        let (text, zone) = match split_last(text, b'%') {
            Some((text, zone)) => (text, Some(zone)),
            None => (text, None),
        };
        let ip = match memchr::memchr(b':', text) {
            Some(_) => ipv6(text)?.into(),
            None => IpAddr::V4(str::from_utf8(text).ok()?.parse().ok()?),
        };
        let may_stand = |zone: &[u8]| ip.is_ipv6() && !zone.is_empty();
        zone.is_none_or(may_stand).then_some(Address { ip: ip.to_canonical(), text })
    }

    /// Reads `203.0.113.9:443`, `[2001:db8::1]:443` or `2001:db8::1:443`: what follows the last
    /// colon is the port.
    pub fn with_port(text: &'a [u8]) -> Option<Address<'a>> {
        let (text, port) = split_last(text, b':')?;
        str::from_utf8(port).ok()?.parse::<u16>().ok()?;
        match text.strip_prefix(b"[") {
            Some(text) => Address::parse(text.strip_suffix(b"]")?),
            None => Address::parse(text),
        }
    }

    /// Reads an address, with a port or without, where that leaves no doubt: an IPv6 address before
    /// a port stands in brackets.
    pub fn parse_any(text: &'a [u8]) -> Option<Address<'a>> {
        Address::parse(text).or_else(|| {
            str::from_utf8(text).ok()?.parse::<SocketAddr>().ok()?;
            Address::with_port(text)
        })
    }

    /// Writes what the address counts as: an IPv4 address itself, an IPv6 address its network.
    pub fn write_network(&self, ipv6_prefix: u8, out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = match self.ip {
            // There is one way only to write it.
            IpAddr::V4(_) if !self.text.contains(&b':') => out.write_all(self.text),
            IpAddr::V4(ip) => write!(out, "{ip}"),
            IpAddr::V6(ip) if ipv6_prefix >= 128 => write!(out, "{ip}"),
            IpAddr::V6(ip) => write!(out, "{}/{ipv6_prefix}", network(ip, ipv6_prefix)),
        };
    }
}

/// Reads an IPv6 address as the standard library does, which takes several times as long.
fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    if text.contains(&b'.') {
        return str::from_utf8(text).ok()?.parse().ok();
    }
    let (mut groups, mut count, mut gap) = ([0_u16; 8], 0, None);
    let mut rest = text;
    if let Some(tail) = rest.strip_prefix(b"::") {
        (gap, rest) = (Some(count), tail);
    }
    while !rest.is_empty() {
        let mut digits = 0;
        let group = groups.get_mut(count)?;
        while let [digit, tail @ ..] = rest
            && let Some(digit) = char::from(*digit).to_digit(16)
        {
            *group = *group << 4 | digit as u16;
            (digits, rest) = (digits + 1, tail);
        }
        count += 1;
        rest = match rest {
            _ if !(1..=4).contains(&digits) => return None,
            [b':', b':', tail @ ..] if gap.is_none() => {
                gap = Some(count);
                tail
            }
            [b':', tail @ ..] if !tail.is_empty() => tail,
            [] => rest,
            _ => return None,
        };
    }
    match gap {
        // What stands behind the gap moves to the end.
        Some(at) if count < groups.len() => groups.get_mut(at..)?.rotate_right(8 - count),
        None if count == groups.len() => {}
        _ => return None,
    }
    Some(groups.into())
}

/// The network of this length to which an address belongs.
pub fn network(ip: Ipv6Addr, prefix: u8) -> Ipv6Addr {
    let host_bits = 128_u32.saturating_sub(prefix.into());
    let mask = u128::MAX.checked_shl(host_bits).unwrap_or(0);
    Ipv6Addr::from_bits(ip.to_bits() & mask)
}

fn split_last(text: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let end = memchr::memrchr(at, text)?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

/// Whether this is more than one address, as `X-Forwarded-For` and fields made of it have it.
pub fn is_list(text: &[u8]) -> bool {
    memchr::memchr(b',', text).is_some()
}

/// The address at such a place from the right of an `X-Forwarded-For`, from 1.
pub fn forwarded(list: &[u8], place: usize) -> Option<Address<'_>> {
    let entry = list.rsplit(|byte| *byte == b',').nth(place.checked_sub(1)?)?;
    Address::parse_any(entry.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts_as(text: &str, ipv6_prefix: u8) -> String {
        let mut out = Vec::new();
        let address = Address::parse(text.as_bytes()).expect("an address");
        address.write_network(ipv6_prefix, &mut out);
        String::from_utf8(out).expect("ASCII")
    }

    #[test]
    fn only_an_address_is_one() {
        for text in ["203.0.113.9", "::1", "2001:DB8::1", "::ffff:203.0.113.9"] {
            let address = Address::parse(text.as_bytes()).expect(text);
            assert_eq!(address.text, text.as_bytes());
        }
        assert_eq!(Address::parse(b"fe80::1%eth0").expect("one").text, b"fe80::1");
        for text in [
            "",
            "-",
            "Oct",
            "www.example.com",
            "203.0.113",
            "203.0.113.09",
            "203.0.113.256",
            " 203.0.113.9",
            "203.0.113.9,",
            "203.0.113.9:80",
            "203.0.113.9%eth0",
            "203.0.113.9/32",
            "fe80::1%",
            "[::1]",
            "\u{feff}203.0.113.9",
            "unix:",
            "::ffff:203.0.113.9:80",
        ] {
            assert_eq!(Address::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn ipv6_addresses_are_those_of_the_standard_library() {
        let mut state = 7_u64;
        let mut below = |bound: u64| {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            (state >> 33) % bound
        };
        let (mut read, pieces) = (0, [":", ":", "::", "0", "1", "fF", "a0b", "12345", ".", "g"]);
        for _ in 0..300_000 {
            // Eight groups are rare among random pieces.
            let mut text =
                ["", "1:2:3:4:5:6", "1:2:3:4:5:6:7:", "::1.2.3.4"][below(4) as usize].to_owned();
            (0..below(8)).for_each(|_| text.push_str(pieces[below(10) as usize]));
            assert_eq!(ipv6(text.as_bytes()), text.parse().ok(), "{text}");
            read += u32::from(ipv6(text.as_bytes()).is_some());
        }
        assert!(read > 3000, "{read}");
    }

    #[test]
    fn a_port_is_read_where_the_format_has_one() {
        let text = |text: &'static str| {
            let address = Address::with_port(text.as_bytes())?;
            str::from_utf8(address.text).ok()
        };
        assert_eq!(text("10.0.1.2:33317"), Some("10.0.1.2"));
        assert_eq!(text("2001:db8::1:33317"), Some("2001:db8::1"));
        assert_eq!(text("[2001:db8::1]:443"), Some("2001:db8::1"));
        assert_eq!(text("::ffff:10.0.1.2:65535"), Some("::ffff:10.0.1.2"));
        for none in ["10.0.1.2", "10.0.1.2:", "10.0.1.2:65536", "www.example.com:443", "unix:1"] {
            assert_eq!(text(none), None, "{none}");
        }
        let any = |text: &'static str| Address::parse_any(text.as_bytes()).map(|a| a.ip);
        assert_eq!(any("[2001:db8::1]:443"), any("2001:db8::1"));
        assert_eq!(any("10.0.1.2:80"), any("10.0.1.2"));
        // The last group may be one of the address.
        assert_eq!(any("2001:db8::1:443"), "2001:db8::1:443".parse().ok());
        assert_eq!(any("www.example.com:443"), None);
    }

    #[test]
    fn an_ipv6_address_counts_as_its_network() {
        assert_eq!(counts_as("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
        assert_eq!(counts_as("2001:0DB8:1::6", 64), "2001:db8:1::/64");
        assert_eq!(counts_as("2001:db8:1:2:3:4:5:6", 56), "2001:db8:1::/56");
        assert_eq!(counts_as("2001:db8:1:2:3:4:5:6", 128), "2001:db8:1:2:3:4:5:6");
        assert_eq!(counts_as("ffff::", 1), "8000::/1");
        assert_eq!(counts_as("fe80::1%eth0", 64), "fe80::/64");
        assert_eq!(counts_as("::ffff:203.0.113.9", 64), "203.0.113.9");
        assert_eq!(counts_as("203.0.113.9", 64), "203.0.113.9");
    }

    #[test]
    fn a_list_counts_from_the_right() {
        let list = b"198.51.100.1, 203.0.113.9,[2001:db8::1]:80";
        let at = |place| forwarded(list, place).map(|address| address.ip.to_string());
        assert_eq!(at(1).as_deref(), Some("2001:db8::1"));
        assert_eq!(at(2).as_deref(), Some("203.0.113.9"));
        assert_eq!(at(3).as_deref(), Some("198.51.100.1"));
        assert_eq!((at(0), at(4)), (None, None));
        assert_eq!(forwarded(b"unknown, 10.0.0.1", 2), None);
    }
}
