//! To which requests a stored response applies.
//!
//! A response's Vary field names request fields; a later request matches if its values of those fields are the same. The
//! names are kept as a [`VaryList`], one per resource, and a request's values are turned into a key, so that looking up
//! a variant is looking up a key and not a comparison with each stored request.
//!
//! Two requests get the same key only if RFC 9111 §4.1 says that they match. Lists whose grammar we know (Accept and its
//! kin) are taken apart, so that blanks and line breaks do not matter; where letter case has no meaning it is dropped.
//! Of all other fields the lines are put together, and compared byte by byte: in a User-Agent or a Cookie we do not know
//! which comma separates.
//!
//! Invariants:
//!   V1  names of a list are lower-case tokens, sorted, unique, at least one
//!   V2  for a given list, key bytes can be read back unambiguously: every value goes with its length
//!
//! Not known here: where the lists are kept. Keys made with different lists must be kept apart by the caller.
//! Limits: [`VARY_BYTES_MAX`] bytes of names; more, or a name that is no token, counts as `*`.

use std::fmt;

use fields::Fields;

/// The longest list of names that is understood, with its commas.
pub const VARY_BYTES_MAX: usize = 1024;

/// No other request matches: the response says `*`, or something that cannot be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VaryStar;

impl fmt::Display for VaryStar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response matches no other request")
    }
}

impl std::error::Error for VaryStar {}

/// The field names of Vary: lower-case, sorted, unique, joined by commas.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VaryList(Box<[u8]>);

impl VaryList {
    /// As kept in the store.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The inverse of [`VaryList::as_bytes`]; `None` if these bytes are no such list.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut previous: &[u8] = b"";
        for name in bytes.split(|&byte| byte == b',') {
            let lower_case = !name.iter().any(u8::is_ascii_uppercase);
            if !is_token(name) || !lower_case || name <= previous {
                return None;
            }
            previous = name;
        }
        (bytes.len() <= VARY_BYTES_MAX).then(|| VaryList(bytes.into()))
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b',')
    }
}

/// The field names of Vary; `None` without the field, an error for `*`. (RFC 9110 §12.5.5)
pub fn vary_list(response: &Fields) -> Result<Option<VaryList>, VaryStar> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    for member in response.members(b"vary") {
        bytes += member.len() + 1;
        if member == b"*" || !is_token(member) || bytes > VARY_BYTES_MAX {
            return Err(VaryStar);
        }
        names.push(member.to_ascii_lowercase());
    }
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(VaryList(names.join(&b","[..]).into())))
}

/// Appends the request's values of those fields, in the order of the list: for each field 0 if it is absent, else one
/// more than the number of its values, and each value behind its length (numbers in seven-bit groups, low first).
pub fn vary_key(list: &VaryList, request: &Fields, out: &mut Vec<u8>) {
    vary_key_of(list.as_bytes(), request, out);
}

/// [`vary_key`] for a list as it is kept, [`VaryList::as_bytes`]: no allocation but for `out`.
pub fn vary_key_of(names: &[u8], request: &Fields, out: &mut Vec<u8>) {
    for name in names.split(|&byte| byte == b',') {
        //= rfc9111 §4.1   absent from a request, it can only match another request if it is also absent there
        if !request.contains(name) {
            out.push(0);
            continue;
        }
        match name {
            b"accept" => put_values(out, request, name, |value, out| {
                out.extend_from_slice(value)
            }),
            //= rfc9110 §8.4.1   content codings are case-insensitive; so are charsets and language ranges
            b"accept-charset" | b"accept-encoding" | b"accept-language" => {
                put_values(out, request, name, put_unified);
            }
            _ => put_combined(out, request, name),
        }
    }
}

fn put_values(out: &mut Vec<u8>, request: &Fields, name: &[u8], put: impl Fn(&[u8], &mut Vec<u8>)) {
    put_number(out, request.members(name).count() + 1);
    for member in request.members(name) {
        put_counted(out, |out| put(member, out));
    }
}

//= rfc9111 §4.1   combining multiple header field lines with the same field name
fn put_combined(out: &mut Vec<u8>, request: &Fields, name: &[u8]) {
    put_number(out, 1 + 1);
    put_counted(out, |out| {
        for (index, line) in request.all(name).enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            out.extend_from_slice(line.trim_ascii());
        }
    });
}

/// `GZIP ; q=0.5` -> `gzip;q=0.5`. Blanks elsewhere stay: they are no part of the grammar, and so make a difference.
fn put_unified(member: &[u8], out: &mut Vec<u8>) {
    for (index, part) in member.split(|&byte| byte == b';').enumerate() {
        if index > 0 {
            out.push(b';');
        }
        out.extend(part.trim_ascii().iter().map(u8::to_ascii_lowercase));
    }
}

/// Writes what `put` appends behind its length, without a second buffer: the number goes in front afterwards.
fn put_counted(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    put(out);
    let end = out.len();
    put_number(out, end - start);
    let number_len = out.len() - end;
    out[start..].rotate_right(number_len);
}

fn put_number(out: &mut Vec<u8>, mut number: usize) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// (RFC 9110 §5.6.2)
fn is_token(text: &[u8]) -> bool {
    let is_tchar = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    fn list(text: &str) -> Result<Option<VaryList>, VaryStar> {
        vary_list(&fields(text))
    }

    fn names(text: &str) -> String {
        let list = list(text).expect("not a star").expect("a list");
        assert_eq!(VaryList::from_bytes(list.as_bytes()).as_ref(), Some(&list));
        String::from_utf8(list.as_bytes().to_vec()).unwrap()
    }

    fn same(vary: &str, a: &str, b: &str) -> bool {
        let list = list(&format!("Vary: {vary}")).unwrap().unwrap();
        let key = |text: &str| {
            let mut out = Vec::new();
            vary_key(&list, &fields(text), &mut out);
            out
        };
        key(a) == key(b)
    }

    #[test]
    fn names_are_sorted_and_unique() {
        assert_eq!(names("Vary: Accept-Encoding"), "accept-encoding");
        assert_eq!(
            names("Vary: User-Agent, accept & Vary: ACCEPT,, b"),
            "accept,b,user-agent"
        );
        assert_eq!(list("Date: @0"), Ok(None));
        assert_eq!(list("Vary:"), Ok(None));
    }

    #[test]
    fn stars() {
        assert_eq!(list("Vary: *"), Err(VaryStar));
        assert_eq!(list("Vary: Accept, *"), Err(VaryStar));
        assert_eq!(list("Vary: Accept & Vary: *"), Err(VaryStar));
        assert_eq!(list("Vary: a b"), Err(VaryStar));
        assert_eq!(list("Vary: \"accept\""), Err(VaryStar));
        assert_eq!(
            list(&format!("Vary: {}", "abcdefg,".repeat(200))),
            Err(VaryStar)
        );
    }

    #[test]
    fn only_proper_lists_are_read_back() {
        for bytes in ["", ",", "a,", "b,a", "a,a", "A", "a b", "a,,b"] {
            assert_eq!(VaryList::from_bytes(bytes.as_bytes()), None, "{bytes}");
        }
    }

    #[test]
    fn known_lists_are_normalised() {
        assert!(same(
            "accept-encoding",
            "Accept-Encoding: gzip, br",
            "accept-encoding: GZIP,br,"
        ));
        assert!(same(
            "accept-encoding",
            "Accept-Encoding: gzip, br",
            "Accept-Encoding: gzip & Accept-Encoding: br"
        ));
        assert!(same(
            "accept-encoding",
            "Accept-Encoding: gzip;q=0.5",
            "Accept-Encoding: gzip ; q=0.5"
        ));
        assert!(!same(
            "accept-encoding",
            "Accept-Encoding: gzip, br",
            "Accept-Encoding: br, gzip"
        ));
        assert!(!same(
            "accept-encoding",
            "Accept-Encoding: gzip",
            "Accept-Encoding: g zip"
        ));
        assert!(same("accept", "Accept: a/b, c/d", "Accept: a/b,c/d"));
        assert!(!same("accept", "Accept: a/b;x=Y", "Accept: a/b;x=y"));
        assert!(!same(
            "accept",
            "Accept: a/b;x=\"1,2\"",
            "Accept: a/b;x=\"1, 2\""
        ));
    }

    #[test]
    fn other_fields_are_compared_as_they_are() {
        assert!(same("cookie", "Cookie: a=b", "cookie: a=b"));
        assert!(!same("cookie", "Cookie: a=b", "Cookie: A=b"));
        assert!(!same(
            "user-agent",
            "User-Agent: x (a, b)",
            "User-Agent: x (a,b)"
        ));
        assert!(!same("foo", "Foo: a & Foo: b", "Foo: b & Foo: a"));
        assert!(same("foo", "Foo: a & Foo: b", "Foo: a, b"));
        assert!(!same("foo", "Foo: a & Foo: b", "Foo: a,b"));
        assert!(!same("foo", "Foo: a", "Foo: a & Foo:"));
        assert!(same("foo", "Foo: a & Bar: 1", "Bar: 2 & Foo: a"));
    }

    #[test]
    fn absent_differs_from_empty() {
        assert!(same("foo", "Bar: 1", "Bar: 2"));
        assert!(!same("foo", "Foo:", "Bar: 1"));
        assert!(!same("accept-encoding", "Accept-Encoding:", "Bar: 1"));
        assert!(!same("foo, bar", "Foo: 1", "Bar: 1"));
    }
}
