//! Marks entity tags with the file that a redirect has led to.
//!
//! A tag tells the versions of one file apart; a date does so less well. If a redirect leads to another file than before, the same tag may
//! mean other bytes: many servers derive tags from time and size. So the tag of a redirect's final file (its *end*) is extended by a mark
//! of the end's place. A request to the end contains only the end's own tags, without the mark, so an end can confirm and complete only
//! responses that came from itself.
//! | the end says | the answer further on |
//! | the end sends | the answer has |
//! |---|---|
//! | `"x"`, `W/"x"` | `"x~MARK"`, `W/"x~MARK"` |
//! | only Last-Modified, or a tag that cannot be parsed | `W/"~MARK"`: a date alone would complete any file |
//! | neither | neither |
//!
//! The mark is a hash of scheme, host and path, or of the path alone if it has a digest, because such files lie on several hosts. The query
//! is left out, since a signed one is different each time.
//!
//! Not known here: which redirects are followed, what is stored.   Source: RFC 9110 §8.8, §13.1.

use std::borrow::Cow;

use fields::Fields;
use ring::digest::{SHA256, digest};

use super::redirect::{self, Next};

/// So many hexadecimal digits in a row count as a digest.
const DIGEST_DIGITS: usize = 32;
/// Bytes of the hash in a mark.
const HASH_BYTES: usize = 8;

/// The mark of one end: `~` and sixteen digits.
pub struct Mark(String);

impl Mark {
    /// The mark of this end.
    pub fn of(end: &Next) -> Mark {
        let path = end.target.split('?').next().unwrap_or_default();
        let mut runs = path.split(|c: char| !c.is_ascii_hexdigit());
        let place = match runs.any(|run| run.len() >= DIGEST_DIGITS) {
            true => path.to_owned(),
            false => format!("{}{path}", end.destination),
        };
        let hash = digest(&SHA256, place.as_bytes());
        let hash = hash.as_ref()[..HASH_BYTES].iter();
        Mark(
            ["~".to_owned()]
                .into_iter()
                .chain(hash.map(|byte| format!("{byte:02x}")))
                .collect(),
        )
    }

    /// Marks the validators of an answer from the end.
    pub fn put(&self, status: u16, fields: &mut Fields) {
        let tag = fields.first(b"etag").filter(|_| fields.count(b"etag") == 1);
        let marked = match tag.and_then(only_tag) {
            Some(tag) => [&tag[..tag.len() - 1], self.0.as_bytes(), b"\""].concat(),
            // The 304 refers to the tag in the request.
            None if status == 304 => return,
            None if !fields.contains(b"last-modified") && !fields.contains(b"etag") => return,
            None => ["W/\"", &self.0, "\""].concat().into_bytes(),
        };
        fields.set(b"ETag", &marked);
    }

    /// The request with only the conditions for this end.
    pub fn conditions(&self, request: &[u8]) -> Vec<u8> {
        let mut out = request.to_vec();
        let mut is_dated = false;
        if let Some(asked) = Asked::of(request, b"if-none-match") {
            let ours = asked.of_end(self);
            // If-Modified-Since belongs to the tag if there is only one.
            is_dated = !ours.is_empty() && asked.tags().count() == 1;
            let ours: Vec<_> = ours.into_iter().filter(|tag| !is_made_up(tag)).collect();
            out = match (asked.is_any(), ours.is_empty()) {
                (true, _) => out,
                (false, true) => redirect::without(&out, &[b"if-none-match"]),
                (false, false) => {
                    redirect::with_field(&out, b"If-None-Match", &ours.join(&b", "[..]))
                }
            };
        }
        if !is_dated {
            out = redirect::without(&out, &[b"if-modified-since"]);
        }
        if let Some(asked) = Asked::of(request, b"if-match")
            && !asked.is_any()
        {
            let mut ours = asked.of_end(self);
            if ours.is_empty() {
                // A tag that no file has.
                ours.push(["\"", &self.0, "\""].concat().into_bytes());
            }
            out = redirect::with_field(&out, b"If-Match", &ours.join(&b", "[..]));
        }
        if let Some(asked) = Asked::of(request, b"if-range") {
            out = match &asked.of_end(self)[..] {
                [ours] => redirect::with_field(&out, b"If-Range", ours),
                //= rfc9110 §13.1.5   if it does not hold, Range is ignored
                _ => redirect::without(&out, &[b"if-range", b"range"]),
            };
        }
        out
    }

    /// The tag without the mark, if it has this mark.
    fn off(&self, tag: &[u8]) -> Option<Vec<u8>> {
        let inside = tag.strip_suffix(b"\"")?.strip_suffix(self.0.as_bytes())?;
        Some([inside, b"\""].concat())
    }
}

/// The request for the first server. A date alone cannot confirm a response from another end, and some servers do not support tags.
pub fn first_conditions(request: &[u8]) -> Cow<'_, [u8]> {
    let is_marked =
        Asked::of(request, b"if-none-match").is_some_and(|asked| asked.tags().any(has_mark));
    match is_marked {
        true => redirect::without(request, &[b"if-modified-since"]).into(),
        false => request.into(),
    }
}

/// Does the tag look like a marked one?
fn has_mark(tag: &[u8]) -> bool {
    let inside = tag.strip_suffix(b"\"").unwrap_or_default();
    let at = inside.len().checked_sub(1 + 2 * HASH_BYTES);
    at.is_some_and(|at| inside[at] == b'~' && inside[at + 1..].iter().all(u8::is_ascii_hexdigit))
}

/// Is the tag empty without its mark?
fn is_made_up(tag: &[u8]) -> bool {
    tag.ends_with(b"\"\"")
}

/// The values of a field with entity tags.
struct Asked(Vec<u8>);

impl Asked {
    /// `None`: the request does not have the field.
    fn of(request: &[u8], name: &[u8]) -> Option<Asked> {
        let values = redirect::values(request, name);
        (!values.is_empty()).then(|| Asked(values.join(&b", "[..])))
    }

    fn is_any(&self) -> bool {
        self.0.trim_ascii() == b"*"
    }

    /// The tags up to the first malformed one.
    fn tags(&self) -> impl Iterator<Item = &[u8]> {
        let mut left = &self.0[..];
        std::iter::from_fn(move || {
            let at = left.iter().position(|byte| !b" \t,".contains(byte))?;
            let (tag, rest) = left[at..].split_at(tag_len(&left[at..])?);
            left = rest;
            Some(tag)
        })
    }

    fn of_end(&self, end: &Mark) -> Vec<Vec<u8>> {
        self.tags().filter_map(|tag| end.off(tag)).collect()
    }
}

/// Length of the entity tag at the beginning of `text`.
fn tag_len(text: &[u8]) -> Option<usize> {
    let opaque = text.strip_prefix(b"W/").unwrap_or(text);
    let inside = opaque.strip_prefix(b"\"")?;
    let len = inside
        .iter()
        .position(|byte| matches!(byte, 0..=b' ' | b'"' | 0x7f))?;
    (inside[len] == b'"').then_some(text.len() - inside.len() + len + 1)
}

/// Returns the text if it is exactly one entity tag.
fn only_tag(text: &[u8]) -> Option<&[u8]> {
    (tag_len(text)? == text.len()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use origin::Destination;

    fn end(host: &str, target: &str) -> Next {
        let destination = Destination {
            tls: true,
            host: host.into(),
            port: 443,
            member: None,
            terms: None,
            http2: None,
        };
        let target = target.to_owned();
        Next {
            destination,
            target,
        }
    }

    #[test]
    fn a_mark_is_of_the_place_without_the_query() {
        let mark = |host, target: &str| Mark::of(&end(host, target)).0;
        let digest = format!("/blobs/{}", "0123456789abcdef".repeat(2));
        assert_eq!(mark("a", "/x?sig=1"), mark("a", "/x?sig=2"));
        assert_ne!(mark("a", "/x"), mark("b", "/x"));
        assert_ne!(mark("a", "/x"), mark("a", "/y"));
        assert_eq!(mark("a", &digest), mark("b", &digest));
        assert_ne!(mark("a", &digest), mark("a", &digest[..digest.len() - 1]));
        assert!(has_mark(format!("W/\"x{}\"", mark("a", "/x")).as_bytes()));
        for no in [
            "\"x\"",
            "\"\"",
            "\"~0123456789abcde\"",
            "\"~0123456789abcdex\"",
        ] {
            assert!(!has_mark(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn an_answer_gets_the_mark_into_its_tag() {
        let mark = Mark("~m".to_owned());
        let dated = "Last-Modified: Sun, 08 Nov 2020 08:49:37 GMT";
        for (status, before, after) in [
            (200, &["ETag: \"x\""][..], Some("\"x~m\"")),
            (206, &["ETag: W/\"x\"", dated], Some("W/\"x~m\"")),
            (304, &["ETag: \"x\""], Some("\"x~m\"")),
            (200, &[dated], Some("W/\"~m\"")),
            (206, &["ETag: x", dated], Some("W/\"~m\"")),
            (200, &["ETag: \"x\"y\"", dated], Some("W/\"~m\"")),
            (
                200,
                &["ETag: \"x\"", "ETag: \"y\"", dated],
                Some("W/\"~m\""),
            ),
            (200, &["ETag: \"x\"", "ETag: \"x\""], Some("W/\"~m\"")),
            (200, &["ETag: \"x y\""], Some("W/\"~m\"")),
            (304, &[dated], None),
            (200, &[], None),
        ] {
            let mut fields = Fields::new();
            for line in before {
                let (name, value) = line.split_once(": ").unwrap();
                fields.push(name.as_bytes(), value.as_bytes());
            }
            mark.put(status, &mut fields);
            assert_eq!(
                fields.first(b"etag"),
                after.map(str::as_bytes),
                "{before:?}"
            );
        }
    }

    /// The conditions that an end with the mark `~m` gets from a request with these fields.
    fn asked(lines: &str) -> String {
        let text = |lines: &str| lines.replace(" & ", "\r\n");
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n\r\n", text(lines));
        let asked = Mark("~m".to_owned()).conditions(request.as_bytes());
        let asked = String::from_utf8(asked).unwrap();
        let fields = asked.strip_prefix("GET / HTTP/1.1\r\nHost: a\r\n").unwrap();
        fields
            .strip_suffix("\r\n")
            .unwrap()
            .trim_end()
            .replace("\r\n", " & ")
    }

    #[test]
    fn an_end_hears_only_of_its_own_tags() {
        for (before, after) in [
            ("Accept: x", "Accept: x"),
            (
                "If-None-Match: \"x~m\" & If-Modified-Since: y",
                "If-Modified-Since: y & If-None-Match: \"x\"",
            ),
            ("If-None-Match: W/\"x~m\"", "If-None-Match: W/\"x\""),
            ("If-None-Match: \"x~n\" & If-Modified-Since: y", ""),
            ("If-None-Match: \"x\" & If-Modified-Since: y", ""),
            ("If-Modified-Since: y", ""),
            (
                "If-None-Match: W/\"~m\" & If-Modified-Since: y",
                "If-Modified-Since: y",
            ),
            ("If-None-Match: W/\"~m\"", ""),
            (
                "If-None-Match: W/\"~m\", W/\"~n\" & If-Modified-Since: y",
                "",
            ),
            (
                "If-None-Match: \"x~n\", W/\"a,b~m\" & if-none-match: \"~m\", \"z~m\" & If-Modified-Since: y",
                "If-None-Match: W/\"a,b\", \"z\"",
            ),
            (
                "If-None-Match: * & If-Modified-Since: y",
                "If-None-Match: *",
            ),
            ("If-None-Match: x~m\"", ""),
            ("Range: bytes=0-1", "Range: bytes=0-1"),
            (
                "Range: bytes=0-1 & If-Range: \"x~m\"",
                "Range: bytes=0-1 & If-Range: \"x\"",
            ),
            ("Range: bytes=0-1 & If-Range: \"x~n\"", ""),
            ("Range: bytes=0-1 & If-Range: \"x\"", ""),
            (
                "Range: bytes=0-1 & If-Range: Sun, 08 Nov 2020 08:49:37 GMT",
                "",
            ),
            ("If-Match: \"x~m\", \"y\"", "If-Match: \"x\""),
            ("If-Match: \"x\"", "If-Match: \"~m\""),
            ("If-Match: *", "If-Match: *"),
        ] {
            assert_eq!(asked(before), after, "{before}");
        }
    }

    #[test]
    fn the_first_server_hears_no_date_of_what_came_from_elsewhere() {
        let request = |tag: &str| {
            format!("GET / HTTP/1.1\r\nIf-None-Match: {tag}\r\nIf-Modified-Since: y\r\n\r\n")
        };
        let other = request("\"x\"");
        assert_eq!(first_conditions(other.as_bytes()), other.as_bytes());
        let marked = request("W/\"~0123456789abcdef\"");
        let first = first_conditions(marked.as_bytes());
        assert_eq!(
            first,
            marked.replace("If-Modified-Since: y\r\n", "").as_bytes()
        );
    }
}
