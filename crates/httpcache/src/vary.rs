//! To which requests a stored response applies.
//!
//! A response's Vary field names request fields; a later request matches if its values of those fields are the same. The
//! names are kept as a [`VaryList`], one per resource, and a request's values are turned into a key, so that looking up
//! a variant is looking up a key and not a comparison with each stored request.
//!
//! For Accept-Encoding, the key contains those accepted codings that the origin might choose. The origin's preferences
//! are learned from its responses ([`VaryList::learn`], docs/decisions/0037). So there is one variant for each answer,
//! however a browser writes its list. A response stored under a key has one of the codings in that key, so
//! every request with that key accepts it.
//!
//! Otherwise two requests get the same key only if RFC 9111 §4.1 says that they match. Lists of known grammar
//! (Accept and similar fields) are parsed, so that blanks and line breaks do not matter, and letter case is dropped
//! where it has no meaning. All other fields are compared byte by byte, because it is unknown which commas
//! separate members, for example in a User-Agent or a Cookie.
//!
//! Invariants:
//!   V1  names of a list are lower-case tokens, sorted, unique, at least one
//!   V2  for a given list, key bytes can be read back unambiguously: every value has its length in front
//!   V3  a response stored under a key with codings has one of those codings, or none
//!
//! Not known here: where lists are kept. The caller must keep keys made with different lists apart.
//! Limits: [`VARY_BYTES_MAX`] bytes of names; more, or a name that is no token, counts as `*`.

use std::fmt;

use fields::Fields;

use crate::codings::{Accepted, Coding, Preferences, accepted, coding_of};

/// The longest list of names that is accepted, commas included.
pub const VARY_BYTES_MAX: usize = 1017;

/// No other request matches: Vary is `*` or cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VaryStar;

impl fmt::Display for VaryStar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the response matches no other request")
    }
}

impl std::error::Error for VaryStar {}

/// The field names of Vary (lower-case, sorted, unique, joined by commas), and the knowledge of the origin's codings
/// gained from its responses.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct VaryList {
    names: Box<[u8]>,
    learned: Learned,
}

/// How Accept-Encoding selects.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Learned {
    /// By the codings that the origin might choose.
    Preferences(Preferences),
    /// By its members, byte by byte: the origin has answered with a coding that is unknown here or was not
    /// accepted.
    Exactly,
}

impl Learned {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl Default for Learned {
    fn default() -> Self {
        Learned::Preferences(Preferences::default())
    }
}

/// Ends the names if more bytes follow.
const END: u8 = 0;

impl VaryList {
    /// The encoded form in the store.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = self.names.to_vec();
        match self.learned {
            learned if learned.is_nothing() => {}
            Learned::Preferences(preferences) => {
                bytes.push(END);
                bytes.extend(preferences.to_bytes());
            }
            Learned::Exactly => bytes.push(END),
        }
        bytes
    }

    /// The inverse of [`VaryList::to_bytes`]; `None` if the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == END);
        let (names, learned) = bytes.split_at(end.unwrap_or(bytes.len()));
        let learned = match learned {
            [] => Learned::default(),
            [_] => Learned::Exactly,
            [_, preferences @ ..] => {
                let preferences = Preferences::from_bytes(preferences.try_into().ok()?)?;
                let learned = Learned::Preferences(preferences);
                (!learned.is_nothing()).then_some(learned)?
            }
        };
        let list = Self::of_names(names)?;
        let is_sound = list.has_codings() || learned.is_nothing();
        is_sound.then_some(Self { learned, ..list })
    }

    pub(crate) fn has_codings(&self) -> bool {
        self.has(ACCEPT_ENCODING)
    }

    /// Is `name`, in lower case, one of the names?
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        self.names().any(|own| own == name)
    }

    /// Does it contain all names of the other list, if there is one?
    pub(crate) fn has_all_of(&self, other: Option<&VaryList>) -> bool {
        other.is_none_or(|other| other.names().all(|name| self.has(name)))
    }

    fn of_names(bytes: &[u8]) -> Option<Self> {
        let mut previous: &[u8] = b"";
        for name in bytes.split(|&byte| byte == b',') {
            let lower_case = !name.iter().any(u8::is_ascii_uppercase);
            if !message::is_token(name) || !lower_case || name <= previous {
                return None;
            }
            previous = name;
        }
        (bytes.len() <= VARY_BYTES_MAX).then(|| VaryList {
            names: bytes.into(),
            learned: Learned::default(),
        })
    }

    /// Have both lists the same names?
    pub fn has_names_of(&self, other: &VaryList) -> bool {
        self.names == other.names
    }

    /// May responses stored under keys made with `before` be found and used with keys made with this list? If not, the caller
    /// must keep them apart.
    pub fn continues(&self, before: &VaryList) -> bool {
        let is_exact = |list: &VaryList| list.learned == Learned::Exactly;
        self.has_names_of(before) && is_exact(self) == is_exact(before)
    }

    /// Learns from a response: which codings the request accepted, and which one the response has.
    pub fn learn(&mut self, request: &Fields, response: &Fields) {
        let Learned::Preferences(mut preferences) = self.learned else {
            return;
        };
        let Accepted::These {
            codings,
            no_identity,
        } = accepted(request)
        else {
            return;
        };
        if !self.has_codings() {
            return;
        }
        let chosen = coding_of(response);
        self.learned = match chosen {
            Coding::Known(coding) if !codings.contains(coding) => Learned::Exactly,
            Coding::Other => Learned::Exactly,
            Coding::Known(_) | Coding::Identity => {
                preferences.learn(codings, no_identity, chosen);
                Learned::Preferences(preferences)
            }
        };
    }

    /// Do both requests agree in the fields of this list, so that the second may get `response`, the answer to
    /// the first?
    pub fn agrees(&self, first: &Fields, second: &Fields, response: &Fields) -> bool {
        let key = |list: &VaryList, request: &Fields| {
            let mut key = Vec::new();
            vary_key(list, request, &mut key);
            key
        };
        if key(self, first) != key(self, second) {
            return false;
        }
        let is_readable = match (accepted(second), coding_of(response)) {
            (Accepted::These { codings, .. }, Coding::Known(coding)) => codings.contains(coding),
            (Accepted::These { .. }, Coding::Other) => false,
            _ => true,
        };
        let exactly = VaryList {
            names: self.names.clone(),
            learned: Learned::Exactly,
        };
        is_readable || key(&exactly, first) == key(&exactly, second)
    }

    /// The names in order.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.split(|&byte| byte == b',')
    }
}

const ACCEPT_ENCODING: &[u8] = b"accept-encoding";

/// The field names of Vary; `None` without the field, an error for `*`. (RFC 9110 §12.5.5)
pub fn vary_list(response: &Fields) -> Result<Option<VaryList>, VaryStar> {
    let mut names: Vec<Vec<u8>> = Vec::new();
    let mut bytes = 0;
    for member in response.members(b"vary") {
        bytes += member.len() + 1;
        if member == b"*" || !message::is_token(member) || bytes > VARY_BYTES_MAX {
            return Err(VaryStar);
        }
        names.push(member.to_ascii_lowercase());
    }
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return Ok(None);
    }
    Ok(Some(VaryList {
        names: names.join(&b","[..]).into(),
        learned: Learned::default(),
    }))
}

/// Appends the request's values of the listed fields, in the order of the list: for each field 0 if it is absent, else the
/// number of its values plus one, and each value after its length (numbers in seven-bit groups, low first).
pub fn vary_key(list: &VaryList, request: &Fields, out: &mut Vec<u8>) {
    put_key(&list.names, list.learned, request, out);
}

/// [`vary_key`] for the names in an operator's rule, sorted and joined by commas. The values are used byte by byte.
pub fn vary_key_of(names: &[u8], request: &Fields, out: &mut Vec<u8>) {
    put_key(names, Learned::Exactly, request, out);
}

fn put_key(names: &[u8], learned: Learned, request: &Fields, out: &mut Vec<u8>) {
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
            //= rfc9111 §4.1   normalizing both header field values in a way that is known to have identical semantics
            b"accept-encoding" if let Some(members) = codings_that_matter(learned, request) => {
                put_number(out, members.len() + 1);
                for member in members {
                    put_counted(out, |out| out.extend_from_slice(member));
                }
            }
            //= rfc9110 §8.4.1   content codings are case-insensitive; so are charsets and language ranges
            b"accept-charset" | b"accept-encoding" | b"accept-language" => {
                put_values(out, request, name, put_unified);
            }
            _ => put_combined(out, request, name),
        }
    }
}

/// The accepted codings that the origin might choose, as members of a list. `None` if the field cannot be read with
/// certainty; its members are then compared byte by byte. (No list written here is malformed, so the two cannot be
/// confused.)
fn codings_that_matter(learned: Learned, request: &Fields) -> Option<Vec<&'static [u8]>> {
    let Learned::Preferences(preferences) = learned else {
        return None;
    };
    let Accepted::These {
        codings,
        no_identity,
    } = accepted(request)
    else {
        return None;
    };
    let mut members: Vec<_> = preferences.best(codings, no_identity).names().collect();
    if no_identity {
        members.push(b"identity;q=0");
    }
    Some(members)
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

/// `GZIP ; q=0.5` -> `gzip;q=0.5`. Blanks elsewhere violate the grammar; they are kept and make the value different.
fn put_unified(member: &[u8], out: &mut Vec<u8>) {
    for (index, part) in member.split(|&byte| byte == b';').enumerate() {
        if index > 0 {
            out.push(b';');
        }
        out.extend(part.trim_ascii().iter().map(u8::to_ascii_lowercase));
    }
}

/// Writes a length and then the bytes that `put` appends. The length is inserted afterwards, which saves a second buffer.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::fields;

    fn list(text: &str) -> Result<Option<VaryList>, VaryStar> {
        vary_list(&fields(text))
    }

    fn names(text: &str) -> String {
        let list = list(text).expect("not a star").expect("a list");
        assert_eq!(VaryList::from_bytes(&list.to_bytes()).as_ref(), Some(&list));
        String::from_utf8(list.to_bytes()).unwrap()
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
            "Accept-Encoding: gzip",
            "Accept-Encoding: g zip"
        ));
        assert!(!same(
            "accept-language",
            "Accept-Language: de, en",
            "Accept-Language: en, de"
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

    const CHROME: &str = "Accept-Encoding: gzip, deflate, br, zstd";
    const SAFARI: &str = "Accept-Encoding: gzip, deflate, br";
    const CURL: &str = "Accept-Encoding: deflate, gzip";
    const NOTHING: &str = "Accept-Encoding: identity";

    fn key(list: &VaryList, request: &str) -> Vec<u8> {
        let mut out = Vec::new();
        vary_key(list, &fields(request), &mut out);
        out
    }

    fn learning(exchanges: &[(&str, &str)]) -> VaryList {
        let mut list = list("Vary: Accept-Encoding").unwrap().unwrap();
        for (request, coding) in exchanges {
            let response = format!("Content-Encoding: {coding}");
            list.learn(&fields(request), &fields(&response));
            assert_eq!(VaryList::from_bytes(&list.to_bytes()).as_ref(), Some(&list));
        }
        list
    }

    #[test]
    fn only_codings_that_the_origin_answers_with_make_variants() {
        // The origin was offered all codings and chose br, so every client that accepts br gets br, however it asks.
        let list = learning(&[(CHROME, "br")]);
        assert_eq!(key(&list, CHROME), key(&list, SAFARI));
        assert_eq!(key(&list, CHROME), key(&list, "Accept-Encoding: br;q=0.1"));
        assert_ne!(key(&list, CHROME), key(&list, CURL));
        assert_ne!(key(&list, CURL), key(&list, NOTHING));
        // Other clients get gzip. Requests that accept br keep their key.
        let also_gzip = learning(&[(CHROME, "br"), (CURL, "gzip")]);
        for browser in [CHROME, SAFARI] {
            assert_eq!(key(&also_gzip, browser), key(&list, CHROME));
        }
        assert_eq!(
            key(&also_gzip, CURL),
            key(&also_gzip, "Accept-Encoding: gzip")
        );
        assert_ne!(key(&also_gzip, CURL), key(&also_gzip, NOTHING));
        assert_ne!(key(&also_gzip, CURL), key(&also_gzip, CHROME));
        // A response without coding, though codings were accepted, is one variant for all.
        let plain = learning(&[(CHROME, "identity")]);
        for request in [CHROME, SAFARI, CURL, NOTHING] {
            assert_eq!(key(&plain, request), key(&plain, NOTHING));
        }
        // The origin chooses sometimes one, sometimes the other, so both are in the key.
        let wavering = learning(&[(CHROME, "br"), (CHROME, "gzip")]);
        assert_eq!(
            key(&wavering, CHROME),
            key(&wavering, "Accept-Encoding: br, gzip")
        );
        assert_ne!(
            key(&wavering, CHROME),
            key(&wavering, "Accept-Encoding: br")
        );
    }

    #[test]
    fn what_the_origin_was_not_offered_is_offered_once() {
        let list = learning(&[(CURL, "gzip")]);
        assert_ne!(key(&list, CURL), key(&list, SAFARI));
        assert_ne!(key(&list, SAFARI), key(&list, CHROME));
        let list = learning(&[(CURL, "gzip"), (CHROME, "gzip")]);
        assert_eq!(key(&list, CURL), key(&list, SAFARI));
        assert_eq!(key(&list, CURL), key(&list, CHROME));
    }

    #[test]
    fn who_says_nothing_and_who_is_not_understood_keep_apart() {
        let list = learning(&[(CHROME, "gzip")]);
        for apart in [
            "Host: a",
            "Accept-Encoding: gzip;q=2",
            "Accept-Encoding: gzip, identity;q=0",
        ] {
            assert_ne!(key(&list, apart), key(&list, CURL), "{apart}");
        }
        let malformed = learning(&[("Accept-Encoding: gzip;q=2", "gzip"), ("Host: a", "gzip")]);
        assert_eq!(malformed, learning(&[]));
    }

    #[test]
    fn an_origin_that_sends_what_was_not_asked_for_or_is_not_known_is_asked_by_each_spelling() {
        for exchange in [
            (NOTHING, "gzip"),
            (CHROME, "dcb"),
            (CHROME, "gzip, br"),
            (CURL, "br"),
        ] {
            let list = learning(&[(CHROME, "br"), exchange]);
            assert_ne!(key(&list, CHROME), key(&list, SAFARI), "{exchange:?}");
            assert_eq!(
                key(&list, CHROME),
                key(&list, "Accept-Encoding: GZIP,deflate,br,zstd")
            );
            assert!(!list.continues(&learning(&[(CHROME, "br")])));
        }
        let (before, after) = (learning(&[(CURL, "gzip")]), learning(&[(CHROME, "br")]));
        assert!(after.continues(&before));
    }

    #[test]
    fn nobody_shares_what_he_cannot_read() {
        let shares = |a: &str, b: &str, coding: &str| {
            let list = list("Vary: Accept-Encoding").unwrap().unwrap();
            let response = fields(&format!("Content-Encoding: {coding}"));
            list.agrees(&fields(a), &fields(b), &response)
        };
        assert!(shares(
            CHROME,
            "Accept-Encoding: zstd, br, gzip, deflate",
            "br"
        ));
        assert!(!shares(CHROME, SAFARI, "br"));
        assert!(shares(CURL, CURL, "foo"));
        assert!(!shares(
            "Accept-Encoding: gzip, foo",
            "Accept-Encoding: gzip",
            "foo"
        ));
        assert!(!shares(NOTHING, "Accept-Encoding:", "gzip"));
        assert!(shares(NOTHING, "Accept-Encoding:", "identity"));
    }
}
