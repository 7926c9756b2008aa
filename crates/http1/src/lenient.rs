//! Two oddities of old servers' heads, written anew as the grammar has them.
//!
//! A line that ends in LF alone gets its CR; a field line that is folded over several becomes one, with one blank where it was folded.
//! Nothing else changes, and the result goes through the strict parser: what is read leniently is what the strict parser reads of the
//! text that [`written_anew`] gives.
//!
//! Left as they are, and so refused: a fold behind the status line, for it folds no field; a fold of Content-Length or Transfer-Encoding,
//! for readers that skip folded lines would find another end of the body; a CR alone. A head of two lengths is as ambiguous as ever.
//!
//! Only responses are read so, and only of hosts that the operator names: a client's request never.
//!
//! Not known here: what a head means.   Source: RFC 9112 §2.2 (LF alone), §5.2 (folded lines).

use message::Seen;

/// What is read though the grammar forbids it. Nothing, unless the operator says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lenient {
    /// Lines that end in LF alone.
    pub bare_lf: bool,
    /// Field lines that go on in the next line, which begins with a blank.
    pub folding: bool,
}

impl Lenient {
    /// Everything as the grammar has it.
    pub const NOTHING: Lenient = Lenient {
        bare_lf: false,
        folding: false,
    };

    /// Is anything read that the grammar forbids?
    pub fn is_any(self) -> bool {
        self != Self::NOTHING
    }
}

/// The head with its lines as the grammar has them, as far as this is permitted. `head`: from its first byte to its empty line.
pub fn written_anew(head: &[u8], lenient: Lenient) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len() + 64);
    // Where the last field line begins, if one can be folded.
    let mut field: Option<usize> = None;
    for (number, line) in head.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let (text, end) = match line {
            [text @ .., b'\r', b'\n'] => (text, &b"\r\n"[..]),
            [text @ .., b'\n'] if lenient.bare_lf => (text, &b"\r\n"[..]),
            [text @ .., b'\n'] => (text, &b"\n"[..]),
            text => (text, &b""[..]),
        };
        let goes_on = lenient.folding && matches!(text, [b' ' | b'\t', ..]);
        match field {
            //= rfc9112 §5.2   replace each received obs-fold with one or more SP octets
            Some(start) if goes_on && out.ends_with(b"\r\n") && !decides(&out[start..]) => {
                out.truncate(out.len() - b"\r\n".len());
                let blanks = out.iter().rev().take_while(|it| is_blank(**it)).count();
                out.truncate(out.len() - blanks);
                out.push(b' ');
                out.extend_from_slice(text.trim_ascii_start());
            }
            _ => {
                // Behind the status line.
                field = (number > 0 && !goes_on).then_some(out.len());
                out.extend_from_slice(text);
            }
        }
        out.extend_from_slice(end);
    }
    out
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Does the field in this line say where the body ends?
fn decides(line: &[u8]) -> bool {
    let name = line.split(|&byte| byte == b':').next().unwrap_or_default();
    let deciding = Seen::CONTENT_LENGTH.union(Seen::TRANSFER_ENCODING);
    Seen::of(name.trim_ascii()).intersects(deciding)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn anew(lenient: &str, head: &str) -> String {
        let lenient = Lenient {
            bare_lf: lenient.contains("LF"),
            folding: lenient.contains("folding"),
        };
        String::from_utf8(written_anew(head.as_bytes(), lenient)).unwrap()
    }

    #[test]
    fn lines_get_their_cr() {
        let strict = "HTTP/1.1 200 OK\r\na: b\r\n\r\n";
        assert_eq!(anew("LF", "HTTP/1.1 200 OK\na: b\n\n"), strict);
        assert_eq!(anew("LF", "HTTP/1.1 200 OK\r\na: b\n\r\n"), strict);
        for same in ["HTTP/1.1 200 OK\na: b\n\n", "a\rb\n"] {
            assert_eq!(anew("folding", same), same);
        }
        assert_eq!(anew("LF", "a\rb\n"), "a\rb\r\n", "refused by the parser");
    }

    #[test]
    fn folded_lines_become_one() {
        let anew = |text: &str| anew("folding", &format!("HTTP/1.1 200 OK\r\n{text}\r\n\r\n"));
        let line = |text: &str| format!("HTTP/1.1 200 OK\r\n{text}\r\n\r\n");
        assert_eq!(anew("a: b \r\n\t c\r\n d"), line("a: b c d"));
        assert_eq!(anew("a: b\r\n \r\nc: d"), line("a: b \r\nc: d"));
        for same in [
            " a: b",
            "Content-Length: 1\r\n 2",
            "content-length : 1\r\n 2",
            "Transfer-Encoding:\r\n chunked",
            "a: b\r\nc: d",
        ] {
            assert_eq!(anew(same), line(same));
        }
    }

    #[test]
    fn folds_of_lines_with_lf_alone() {
        assert_eq!(
            anew("LF, folding", "s\na: b\n c\n\n"),
            "s\r\na: b c\r\n\r\n"
        );
        assert_eq!(anew("folding", "s\na: b\n c\n\n"), "s\na: b\n c\n\n");
    }
}
