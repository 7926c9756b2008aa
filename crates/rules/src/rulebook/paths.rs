//! How paths match patterns, and the ways in which a server may read a path.
//!
//! A rule sees a path with the escapes of unreserved characters undone, as all servers do: `/%61` is `/a`. Some servers do more: they
//! undo other escapes (`%2F`), some of them twice, treat `\` as `/`, merge slashes, and remove dot segments. A rule that refuses must
//! match however the origin reads a path, so it is checked against all these readings ([`readings`]), and one match is enough. A rule
//! that allows must match all of them. So must a rule that stores or shares more; it must also match readings cut at an escaped delimiter
//! ([`readings_to_share`]). Otherwise a server that reads `/account%3bx.css` as `/account` would have the account page stored for all.
//!
//! Not known here: rules.

use std::borrow::Cow;

/// Path and query of a target.
pub fn split(target: Option<&str>) -> (Option<&str>, &str) {
    let Some(target) = target else {
        return (None, "");
    };
    let target = match memchr::memchr(b'#', target.as_bytes()) {
        Some(at) => &target[..at],
        None => target,
    };
    let (path, query) = match memchr::memchr(b'?', target.as_bytes()) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, ""),
    };
    // An empty path (`http://host?query`) is "/".
    (Some(if path.is_empty() { "/" } else { path }), query)
}

/// `/a` matches `/a` and `/a/b`; a pattern with `*` must match the whole path.
pub fn path_fits(pattern: &[u8], path: &str) -> bool {
    let path = Plain(path.as_bytes());
    if pattern.contains(&b'*') {
        return glob_fits(pattern, path);
    }
    let mut rest = path;
    let begins = pattern.iter().all(|&byte| rest.next() == Some(byte));
    begins && (pattern.ends_with(b"/") || matches!(rest.next(), None | Some(b'/')))
}

/// Greedy; backtracks to the last `*` only, so it takes at most as many steps as the product of both lengths.
fn glob_fits(pattern: &[u8], text: Plain<'_>) -> bool {
    let (mut at, mut text) = (0, text);
    let mut star: Option<(usize, Plain<'_>)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, text));
            continue;
        }
        let mut rest = text;
        match (rest.next(), pattern.get(at)) {
            (None, None) => return true,
            (Some(byte), Some(&wanted)) if byte == wanted => (at, text) = (at + 1, rest),
            _ => {
                // Let the star match one byte more.
                let Some((behind, from)) = &mut star else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                (at, text) = (*behind, *from);
            }
        }
    }
}

/// A path with the escapes of unreserved characters undone.
pub fn plain(path: &str) -> Cow<'_, [u8]> {
    match memchr::memchr(b'%', path.as_bytes()) {
        None => path.as_bytes().into(),
        Some(_) => Plain(path.as_bytes()).collect(),
    }
}

/// A path's bytes, with escapes of unreserved characters undone.
//= rfc3986 §6.2.2.2   an escaped unreserved character is the same as the character
#[derive(Clone, Copy)]
struct Plain<'a>(&'a [u8]);

impl Iterator for Plain<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if let [b'%', high, low, rest @ ..] = self.0
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            let byte = high << 4 | low;
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0 = rest;
                return Some(byte);
            }
        }
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).map(|digit| digit as u8)
}

/// How often escapes are undone, at most; some servers undo them twice.
const ROUNDS_MAX: usize = 4;

/// The readings of a path (without query) beyond the one that [`path_fits`] makes; none for nearly all paths.
pub fn readings(path: &str) -> Vec<String> {
    read(path, |_| true, ends_path)
}

/// The readings that a rule must match if it stores or shares more; none for nearly all paths. Escapes that change no segment
/// (`%20`) stay as they are, as in the rule.
pub fn readings_to_share(path: &str) -> Vec<String> {
    read(path, is_structure, is_delimiter)
}

/// Does this byte end a path, for a server that undoes escapes first?
fn ends_path(byte: u8) -> bool {
    byte.is_ascii_control() || b"#?".contains(&byte)
}

/// Does this byte end a name in a path?
fn is_delimiter(byte: u8) -> bool {
    ends_path(byte) || b"/\\;".contains(&byte)
}

/// Does undoing this byte's escape change the segments of a path, or make another escape?
fn is_structure(byte: u8) -> bool {
    is_delimiter(byte) || b".%".contains(&byte)
}

/// The readings of a path after undoing the escapes that `undoes` selects, each also cut at the first escape that `ends` selects.
fn read(path: &str, undoes: fn(u8) -> bool, ends: fn(u8) -> bool) -> Vec<String> {
    let bytes = path.as_bytes();
    let has_escape = || escapes(bytes).any(|(_, byte)| undoes(byte));
    let is_odd = match memchr::memchr3(b'%', b'\\', b';', bytes) {
        Some(at) if bytes[at] == b'%' => {
            has_escape() || bytes.contains(&b'\\') || bytes.contains(&b';')
        }
        Some(_) => true,
        None => false,
    };
    let has_dots = || {
        let mut slashes = memchr::memchr_iter(b'/', bytes);
        slashes.any(|at| matches!(bytes.get(at + 1), Some(b'/' | b'.')))
    };
    if !is_odd && !has_dots() {
        return Vec::new();
    }
    let mut readings: Vec<String> = Vec::new();
    let mut decoded = bytes.to_vec();
    for _ in 0..=ROUNDS_MAX {
        let cut = escapes(&decoded).find(|(_, byte)| ends(*byte));
        let cut = cut.map(|(at, _)| &decoded[..at]);
        for form in [Some(&decoded[..]), cut].into_iter().flatten() {
            for reading in [resolved(form, false), resolved(form, true)] {
                if reading != path && !readings.contains(&reading) {
                    readings.push(reading);
                }
            }
        }
        match undone(&decoded, undoes) {
            Some(next) => decoded = next,
            None => break,
        }
    }
    readings
}

/// The escapes of a text, each with its position and the byte it encodes.
fn escapes(text: &[u8]) -> impl Iterator<Item = (usize, u8)> {
    memchr::memchr_iter(b'%', text).filter_map(|at| match text[at + 1..] {
        [high, low, ..] => Some((at, digit(high)? << 4 | digit(low)?)),
        _ => None,
    })
}

/// The path with the selected escapes undone once; `None`: there are none.
fn undone(path: &[u8], undoes: fn(u8) -> bool) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let (mut rest, mut has_any) = (path, false);
    while let Some((&byte, behind)) = rest.split_first() {
        if let [b'%', high, low, behind @ ..] = rest
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
            && undoes(high << 4 | low)
        {
            out.push(high << 4 | low);
            (rest, has_any) = (behind, true);
        } else {
            out.push(byte);
            rest = behind;
        }
    }
    has_any.then_some(out)
}

/// The path without dot segments and empty ones. `cuts_parameters`: also without parameters of a segment as some servers see them
/// (`/a;x/b`), and cut at a NUL.
fn resolved(path: &[u8], cuts_parameters: bool) -> String {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_slash = false;
    for segment in path.split(|&byte| byte == b'/' || byte == b'\\') {
        let segment = match memchr::memchr2(b';', 0, segment) {
            Some(at) if cuts_parameters => &segment[..at],
            _ => segment,
        };
        ends_in_slash = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut out = vec![b'/'];
    out.extend_from_slice(&kept.join(&b'/'));
    if ends_in_slash && !kept.is_empty() {
        out.push(b'/');
    }
    // Invalid UTF-8 becomes U+FFFD; a pattern is not expected to contain it.
    String::from_utf8_lossy(&out).into_owned()
}

/// Does a text match a pattern in which `*` is any number of any bytes? Linear in the text, for a pattern of few stars.
pub fn text_fits(pattern: &str, text: &[u8]) -> bool {
    let Some((front, rest)) = pattern.split_once('*') else {
        return pattern.as_bytes() == text;
    };
    let Some(mut text) = text.strip_prefix(front.as_bytes()) else {
        return false;
    };
    let mut parts = rest.split('*').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return text.ends_with(part.as_bytes());
        }
        match memchr::memmem::find(text, part.as_bytes()) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    true
}

/// A query parameter with its escapes undone, and `+` read as a space.
pub fn parameter(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return text.into();
    }
    let spaced = text
        .iter()
        .map(|&byte| if byte == b'+' { b' ' } else { byte });
    let spaced: Vec<u8> = spaced.collect();
    undone(&spaced, |_| true).unwrap_or(spaced).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readings_of_a_path_have_what_a_server_may_make_of_it() {
        for (path, reading) in [
            ("/a/../admin", "/admin"),
            ("/a/%2e%2e/admin", "/admin"),
            ("/a/%2E./admin", "/admin"),
            ("/a%2f..%2fadmin", "/admin"),
            ("//admin", "/admin"),
            ("/./admin/", "/admin/"),
            ("/a\\..\\admin", "/admin"),
            ("/a%5c..%5cadmin", "/admin"),
            ("/%2561dmin", "/admin"),
            ("/a/%252e%252e/admin", "/admin"),
            ("/a;x/..;y/admin;z", "/admin"),
            ("/y/..%2Fadmin/%252e%252e/x", "/admin/%2e%2e/x"),
            ("/../../admin", "/admin"),
            ("/admin/.", "/admin/"),
            ("/admin%00", "/admin\0"),
            ("/admin%3fx", "/admin"),
            ("/a/..%2fadmin%2523x", "/admin"),
            ("/a/..%00/admin", "/admin"),
        ] {
            let readings = readings(path);
            assert!(
                readings.iter().any(|it| it == reading),
                "{path}: {readings:?}"
            );
        }
        for path in ["/", "/a/b.html", "/a.b/c..d", "/~a"] {
            assert_eq!(readings(path), [""; 0], "{path}");
        }
    }

    #[test]
    fn what_is_shared_is_read_with_an_end_at_every_escaped_delimiter() {
        for (path, reading) in [
            ("/account%2fx.css", "/account"),
            ("/account%5Cx.css", "/account"),
            ("/account%3bx.css", "/account"),
            ("/account%23x.css", "/account"),
            ("/account%3fx.css", "/account"),
            ("/account%00x.css", "/account"),
            ("/account%0ax.css", "/account"),
            ("/account%253bx.css", "/account"),
            ("/account;x.css", "/account"),
            ("/static/..%2faccount", "/account"),
            ("/static/..%3bx/account", "/account"),
            ("/static/..%00/account", "/"),
            ("/static/..%00/account", "/account"),
        ] {
            let readings = readings_to_share(path);
            assert!(
                readings.iter().any(|it| it == reading),
                "{path}: {readings:?}"
            );
        }
        for path in ["/", "/a%20b/%C3%A4.css", "/a/b.css", "/50%/a%2", "/~a%40b"] {
            assert_eq!(readings_to_share(path), [""; 0], "{path}");
        }
    }

    #[test]
    fn readings_are_few_and_take_no_longer_than_the_path() {
        let path = format!("/{}", "%25".repeat(20_000));
        assert!(readings(&path).len() <= 4 * (ROUNDS_MAX + 1));
        assert!(readings_to_share(&path).len() <= 4 * (ROUNDS_MAX + 1));
        let dots = "/..".repeat(20_000);
        assert_eq!(readings(&dots), ["/"]);
    }

    #[test]
    fn texts_match_patterns() {
        for (pattern, text) in [
            ("", ""),
            ("a", "a"),
            ("*", ""),
            ("*", "ab"),
            ("a*", "ab"),
            ("*b", "ab"),
            ("a*c*e", "abcde"),
            ("**", "x"),
            ("*a*a*", "aa"),
            ("a*a", "aba"),
        ] {
            assert!(text_fits(pattern, text.as_bytes()), "{pattern} {text}");
        }
        for (pattern, text) in [
            ("", "a"),
            ("a", "ab"),
            ("a*a", "a"),
            ("*a*a*", "a"),
            ("a*c*e", "abcd"),
            ("a", "A"),
        ] {
            assert!(!text_fits(pattern, text.as_bytes()), "{pattern} {text}");
        }
        let long = "a".repeat(60_000);
        let pattern = format!("*{}b*", "a".repeat(250));
        assert!(!text_fits(&pattern, long.as_bytes()));
    }
}
