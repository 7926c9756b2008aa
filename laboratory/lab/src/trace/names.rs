//! From names to numbers: every URL and every server gets the next number when it is first seen.
//!
//! A name is kept as a hash of 128 bits. Two of a million names share one with a probability of 10^-27, and an
//! entry takes 20 to 40 bytes an object, however long the URLs are.
//!
//! Not known here: formats.   Limits: 2^32 - 2 names.

use hashbrown::HashTable;
use twox_hash::XxHash3_128;

/// A name's hash.
pub(crate) type Name = u128;

/// The hash of a name that is text.
pub(crate) fn name(bytes: &[u8]) -> Name {
    XxHash3_128::oneshot(bytes)
}

/// The hash of a name in two parts: `place` on `host`.
pub(crate) fn name_on(host: Name, place: &[u8]) -> Name {
    XxHash3_128::oneshot_with_seed(host as u64 ^ (host >> 64) as u64, place)
}

/// The server of a URL: host and port, in lower case. A path alone belongs to the one server whose log it is.
pub(crate) fn server_of(url: &[u8]) -> Name {
    let Some(at) = memchr::memmem::find(url, b"://") else {
        return name(b"");
    };
    let rest = &url[at + 3..];
    let end = rest
        .iter()
        .position(|&byte| matches!(byte, b'/' | b'?' | b'#'));
    let authority = &rest[..end.unwrap_or(rest.len())];
    let host = match memchr::memrchr(b'@', authority) {
        Some(at) => &authority[at + 1..],
        None => authority,
    };
    let host = host.strip_suffix(b":80").unwrap_or(host);
    name(&host.to_ascii_lowercase())
}

/// The numbers given to names so far.
#[derive(Debug, Default)]
pub(crate) struct Names(HashTable<(Name, u32)>);

impl Names {
    /// The number of a name; a new name gets the next one, `None` if there are no more.
    pub(crate) fn number(&mut self, name: Name) -> Option<u32> {
        // The name is a hash already.
        let hash = name as u64;
        if let Some(&(_, number)) = self.0.find(hash, |entry| entry.0 == name) {
            return Some(number);
        }
        let next = u32::try_from(self.0.len()).ok();
        let next = next.filter(|&next| next < u32::MAX - 1)?;
        self.0
            .insert_unique(hash, (name, next), |entry| entry.0 as u64);
        Some(next)
    }

    /// The number of names so far.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_appearance() {
        let mut names = Names::default();
        let numbers: Vec<_> = ["a", "b", "a", "c", "b"]
            .iter()
            .map(|text| names.number(name(text.as_bytes())).unwrap())
            .collect();
        assert_eq!((numbers, names.len()), (vec![0, 1, 0, 2, 1], 3));
    }

    #[test]
    fn servers_are_hosts_with_ports() {
        let same = |a: &str, b: &str| server_of(a.as_bytes()) == server_of(b.as_bytes());
        assert!(same("http://A.org/x", "http://a.org:80/y?z"));
        assert!(same("http://u:p@a.org/", "ftp://a.org"));
        assert!(same("http://a.org?q=/", "http://a.org#f"));
        assert!(!same("http://a.org/", "http://a.org:8080/"));
        assert!(!same("http://a.org/", "/"));
        assert!(same("/a", "/b"));
    }

    #[test]
    fn a_place_is_another_on_another_host() {
        assert_ne!(name_on(name(b"a"), b"/"), name_on(name(b"b"), b"/"));
    }
}
