//! Comma-separated lists (RFC 9110 §5.6.1).
//!
//! A comma inside a quoted string does not separate, and a backslash inside one escapes the byte after it (§5.6.4). A quoted
//! string that never closes runs to the end of the value. The rest is then one member, so an unclosed quote cannot be used to
//! invent a comma.
//!
//! Not known here: the meaning of a member. It keeps its quotes and parameters.

/// The members of one field value; see [`split_list`].
#[derive(Clone, Debug)]
pub struct List<'a> {
    rest: &'a [u8],
}

/// Splits one value at its commas. Trims white space around members, skips empty members, and does not split inside
/// quoted strings.
//= rfc9110 §5.6.1.2   a recipient ignores a reasonable number of empty list elements
pub fn split_list(value: &[u8]) -> List<'_> {
    List { rest: value }
}

impl<'a> Iterator for List<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while !self.rest.is_empty() {
            let end = member_end(self.rest);
            let member = trim_blanks(&self.rest[..end]);
            self.rest = self.rest.get(end + 1..).unwrap_or_default();
            if !member.is_empty() {
                return Some(member);
            }
        }
        None
    }
}

/// The position of the first comma outside quoted strings, or the length.
fn member_end(value: &[u8]) -> usize {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        match byte {
            b'"' => quoted = !quoted,
            b'\\' if quoted => at += 1,
            b',' if !quoted => return at,
            _ => {}
        }
        at += 1;
    }
    value.len()
}

/// Removes blanks and tabs at both ends (OWS, RFC 9110 §5.6.3).
#[inline]
pub fn trim_blanks(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}
