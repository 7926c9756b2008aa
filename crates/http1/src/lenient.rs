//! Two malformations in heads of old servers, rewritten according to the grammar.
//!
//! A line that ends in LF alone gets its CR; a folded field line becomes one line, with one blank at each fold. Nothing else
//! changes. The strict parser then reads the text that [`written_anew`] returns, so a lenient reading never differs from the
//! strict reading of that text.
//!
//! Left unchanged, and so refused: a fold after the status line, because it folds no field; a fold of Content-Length or
//! Transfer-Encoding, because readers that skip folded lines find another end of the body; a lone CR. Two lengths stay ambiguous.
//!
//! Only responses are rewritten, and only from hosts that the operator names; requests of clients never are.
//!
//! Not known here: the meaning of a head.   Source: RFC 9112 §2.2 (LF alone), §5.2 (folded lines).

use message::Seen;

/// The malformations that are accepted. By default none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Lenient {
    /// Lines that end in LF alone.
    pub bare_lf: bool,
    /// Field lines that go on in the next line, which begins with a blank.
    pub folding: bool,
}

impl Lenient {
    /// Accepts nothing but the grammar.
    pub const NOTHING: Lenient = Lenient {
        bare_lf: false,
        folding: false,
    };

    /// Is any malformation accepted?
    pub fn is_any(self) -> bool {
        self != Self::NOTHING
    }
}

/// Rewrites the lines of a head according to the grammar, as far as `lenient` permits. `head`: up to and including its empty line.
pub fn written_anew(head: &[u8], lenient: Lenient) -> Vec<u8> {
    let mut out = Vec::with_capacity(head.len() + 64);
    // Where the last field line begins, if it can be folded.
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
                // A field line can begin only after the status line.
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

/// Does the field in this line determine where the body ends?
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
