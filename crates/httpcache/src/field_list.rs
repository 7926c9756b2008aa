//! The lists of field names in `private="a, b"` and `no-cache="a, b"`.
//!
//! A list must be names and commas in quotation marks, or one name without them. It must not name a field that the
//! cache itself needs, or that changes the meaning of the content.
//!
//! Not known here: what happens to the listed fields (`withheld`).
//! Source: RFC 9111 §5.2.2.4, §5.2.2.7.

/// Fields that cannot be left out without changing the response or how it is cached.
const ESSENTIAL: [&str; 15] = [
    "age",
    "cache-control",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "location",
    "pragma",
    "transfer-encoding",
    "vary",
];

/// Can the cache obey this argument of `private` or `no-cache` by leaving fields out?
pub(crate) fn is_usable(list: &[u8]) -> bool {
    members(list).next().is_some() && members(list).all(is_optional)
}

fn is_optional(name: &[u8]) -> bool {
    let lower = name.to_ascii_lowercase();
    // The names of all targeted fields end in this.
    let is_control = lower.ends_with(b"cache-control");
    let is_essential = ESSENTIAL.iter().any(|one| one.as_bytes() == lower);
    message::is_token(name) && !is_control && !is_essential
}

/// The names in a list.
pub(crate) fn members(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let members = list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    members.filter(|member| !member.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_cannot_be_obeyed() {
        for list in [
            "",
            ",",
            "a b",
            "a, \\\"b\\\"",
            "vary",
            "a, Content-Type",
            "CDN-Cache-Control",
            "etag",
        ] {
            assert!(!is_usable(list.as_bytes()), "{list}");
        }
        assert!(is_usable(b"set-cookie, ,x-a"));
    }
}
