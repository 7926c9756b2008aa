//! Priorities of answers (RFC 9218): urgency 0 to 7, and whether parts of the answer are of use.
//!
//! A client sends them in the `priority` field of a request, and in PRIORITY_UPDATE. Both are read leniently: an unknown or malformed
//! member is ignored, as RFC 9218 §4 demands.
//!
//! Not known here: the tree of RFC 7540, which we tell clients not to use.

use fields::trim_blanks;

/// The urgencies.
pub(crate) const URGENCIES: usize = 8;

/// How soon an answer is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Priority {
    /// 0 (soonest) to 7.
    pub urgency: u8,
    /// Parts of the answer are of use before the whole has come, so it may take turns with other answers of its urgency.
    pub incremental: bool,
}

impl Default for Priority {
    //= rfc9218 §4.1   the default urgency is 3;  §4.2   the default is false
    fn default() -> Self {
        Self {
            urgency: 3,
            incremental: false,
        }
    }
}

impl Priority {
    /// Reads the value of a `priority` field: a dictionary of structured fields, of which `u` and `i` count.
    pub fn parse(value: &[u8]) -> Priority {
        Priority::default().and_then(value)
    }

    /// Applies a further line of a `priority` field to the lines read so far.
    //= rfc9651 §3.2   the lines of a dictionary are one; of members with one key the last counts
    pub(crate) fn and_then(mut self, line: &[u8]) -> Priority {
        let mut rest = line;
        while !rest.is_empty() {
            let member = take_until_comma(&mut rest);
            // Parameters of a member are ignored.
            let member = member
                .split(|&byte| byte == b';')
                .next()
                .unwrap_or_default();
            match trim_blanks(member) {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = digit - b'0',
                b"i" | b"i=?1" => self.incremental = true,
                b"i=?0" => self.incremental = false,
                _ => {}
            }
        }
        self
    }
}

/// Takes the text before the next comma that is not in a string.
fn take_until_comma<'v>(rest: &mut &'v [u8]) -> &'v [u8] {
    let (mut in_string, mut is_escaped) = (false, false);
    let ends = |&byte: &u8| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'"' => in_string = !in_string,
            b'\\' => is_escaped = in_string,
            b',' => return !in_string,
            _ => {}
        }
        false
    };
    let (member, behind) = match rest.iter().position(ends) {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (*rest, &b""[..]),
    };
    *rest = behind;
    member
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (value, urgency, incremental) in [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=5, i", 5, true),
            ("i=?1;x=y , u=7;a", 7, true),
            ("i, i=?0", 3, false),
            (
                "u=8, u=-1, u=1.0, u=\"2\", U=1, u = 1, uu=1, i=1, x",
                3,
                false,
            ),
            ("u=1,u=2", 2, false),
            ("x=\"a, u=1, \\\", i\", u=4", 4, false),
        ] {
            let expected = Priority {
                urgency,
                incremental,
            };
            assert_eq!(Priority::parse(value.as_bytes()), expected, "{value}");
        }
        let lines = Priority::parse(b"u=1").and_then(b"i");
        assert_eq!((lines.urgency, lines.incremental), (1, true));
    }
}
