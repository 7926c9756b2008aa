//! At which level a response was a hit, by its Cache-Status (RFC 9211).
//!
//! Each cache on the way appends its member after those of caches nearer to the origin. So the last member is from the peer that was asked, the
//! others are from proxies beyond it. A peer that writes none, such as Squid before version 6, may write X-Cache instead. X-Cache is the
//! peer's own if its name is the last one in Via; then all members of Cache-Status are from proxies beyond.
//!
//! Not known here: which peer was asked.

use fields::Fields;
use profile::Flags;

/// Reads the fields of a peer's response: [`Flags::PEER_HIT`], [`Flags::FARTHER_HIT`], both or neither.
pub fn of(fields: &Fields) -> Flags {
    let mut levels = Flags::NONE;
    let x_cache = fields.members(b"x-cache").last();
    let x_hit = x_cache.is_some_and(|last| last.starts_with(b"HIT "));
    let is_own = x_cache.is_some_and(|last| is_of_last_in_via(last, fields));
    let mut peer = None;
    for member in fields.members(b"cache-status") {
        if let Some(farther) = peer.replace(says_hit(member)) {
            levels = levels.with(Flags::FARTHER_HIT, farther);
        }
    }
    if is_own && let Some(farther) = peer.replace(x_hit) {
        levels = levels.with(Flags::FARTHER_HIT, farther);
    }
    let is_hit = peer.unwrap_or(x_hit);
    levels.with(Flags::PEER_HIT, is_hit)
}

/// Is the X-Cache (`HIT from NAME`) from the proxy that wrote the last member of Via (`1.1 NAME (comment)`)?
fn is_of_last_in_via(x_cache: &[u8], fields: &Fields) -> bool {
    let mut words = x_cache.split(|&byte| byte == b' ').skip(1);
    let name = (words.next() == Some(b"from"))
        .then(|| words.next())
        .flatten();
    let via = fields.members(b"via").last();
    let by = via.and_then(|via| via.split(|&byte| byte == b' ').nth(1));
    name.is_some() && name == by
}

/// Has this member the parameter `hit`? Without a value it is true.
fn says_hit(member: &[u8]) -> bool {
    parameters(member).any(|parameter| matches!(parameter, b"hit" | b"hit=?1"))
}

/// The parameters of a member of Cache-Status, as they are written.
pub fn parameters(member: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let parameters = member.split(move |&byte| {
        is_quoted ^= byte == b'"';
        byte == b';' && !is_quoted
    });
    parameters.skip(1).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_is_the_peers_own() {
        let (peer, farther) = (Flags::PEER_HIT, Flags::FARTHER_HIT);
        for (lines, expected) in [
            (&["top; hit; ttl=5"][..], peer),
            (&["top;fwd=uri-miss;stored"], Flags::NONE),
            (&["root; hit; ttl=5", "top; fwd=uri-miss"], farther),
            (&["root; hit, mid; fwd=stale, top; hit"], peer | farther),
            (&["top; hit=?0"], Flags::NONE),
            (&["top; fwd=miss; detail=\"a; hit\""], Flags::NONE),
            (&["\"t; hit\"; fwd=miss"], Flags::NONE),
            (&[], Flags::NONE),
        ] {
            let mut fields = Fields::new();
            for line in lines {
                fields.push(b"Cache-Status", line.as_bytes());
            }
            assert_eq!(of(&fields), expected, "{lines:?}");
        }
    }

    #[test]
    fn without_it_x_cache_counts() {
        let of_line = |name: &[u8], value: &[u8]| {
            let mut fields = Fields::new();
            fields.push(name, value);
            of(&fields)
        };
        assert_eq!(of_line(b"X-Cache", b"HIT from top"), Flags::PEER_HIT);
        assert_eq!(of_line(b"X-Cache", b"MISS from top"), Flags::NONE);
    }

    #[test]
    fn a_squid_between_two_that_write_cache_status_is_known_by_via() {
        let of_lines = |x_cache: &str, via: &str, status: &str| {
            let mut fields = Fields::new();
            fields.push(b"X-Cache", x_cache.as_bytes());
            fields.push(b"Via", via.as_bytes());
            fields.push(b"Cache-Status", status.as_bytes());
            of(&fields)
        };
        let (squid, root) = (
            "1.1 root (loligo), 1.1 top (squid/5.7)",
            "root; fwd=uri-miss",
        );
        assert_eq!(of_lines("HIT from top", squid, root), Flags::PEER_HIT);
        assert_eq!(
            of_lines("MISS from top", squid, "root; hit"),
            Flags::FARTHER_HIT
        );
        // Written by a proxy beyond the peer.
        let loligo = "1.1 root (squid/5.7), 1.1 top";
        assert_eq!(
            of_lines("HIT from root", loligo, "top; fwd=uri-miss"),
            Flags::NONE
        );
    }
}
