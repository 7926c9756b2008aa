//! How paths match patterns, and the ways in which a server may read a path.
//!
//! A rule sees a path with the escapes of unreserved characters undone, so that `/%61` is `/a`. That is what all servers do. Some do more:
//! they undo other escapes (`%2F`), some twice, take `\` for `/`, merge slashes, and remove dot segments. A rule that refuses must hold
//! however the origin reads a path, so it is asked about each of these readings ([`readings`]) and one is enough. A rule that allows
//! must hold for all of them.
//!
//! Not known here: rules.

use std::borrow::Cow;

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

/// Greedy, backtracking to the last `*` only: at most as many steps as the product of both lengths.
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

/// How often escapes are undone, at most: some servers do it twice.
const ROUNDS_MAX: usize = 4;

/// Further readings of a path (without query) than [`path_fits`] makes by itself; none for nearly all paths.
pub fn readings(path: &str) -> Vec<String> {
    let bytes = path.as_bytes();
    let is_odd = memchr::memchr3(b'%', b'\\', b';', bytes).is_some()
        || bytes.windows(2).any(|two| two == b"//" || two == b"/.");
    if !is_odd {
        return Vec::new();
    }
    let mut readings: Vec<String> = Vec::new();
    let mut decoded = bytes.to_vec();
    for _ in 0..=ROUNDS_MAX {
        for reading in [resolved(&decoded, false), resolved(&decoded, true)] {
            if reading != path && !readings.contains(&reading) {
                readings.push(reading);
            }
        }
        match undone(&decoded) {
            Some(next) => decoded = next,
            None => break,
        }
    }
    readings
}

/// With all escapes undone once; `None`: there is none.
fn undone(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(path.len());
    let (mut rest, mut has_any) = (path, false);
    while let Some((&byte, behind)) = rest.split_first() {
        if let [b'%', high, low, behind @ ..] = rest
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
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

/// Without dot segments and empty ones, and, if asked for, without what some servers take for parameters of a segment (`/a;x/b`).
fn resolved(path: &[u8], cuts_parameters: bool) -> String {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut ends_in_slash = false;
    for segment in path.split(|&byte| byte == b'/' || byte == b'\\') {
        let segment = match memchr::memchr(b';', segment) {
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
    // An escape of its own is kept apart from a character: patterns have no escapes but those.
    String::from_utf8_lossy(&out).into_owned()
}

/// Does a text match a pattern in which `*` is any number of any bytes? In time of the text's length, for a pattern of few stars.
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

/// With the escapes of a query's parameter undone, and `+` for a space.
pub fn parameter(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return text.into();
    }
    let spaced = text
        .iter()
        .map(|&byte| if byte == b'+' { b' ' } else { byte });
    let spaced: Vec<u8> = spaced.collect();
    undone(&spaced).unwrap_or(spaced).into()
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
    fn readings_are_few_and_take_no_longer_than_the_path() {
        let path = format!("/{}", "%25".repeat(20_000));
        assert!(readings(&path).len() <= 2 * (ROUNDS_MAX + 1));
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
