//! Lines of a log, each with its number, in bounded memory.
//!
//! Not known here: the content of lines.   Limits: [`LINE_BYTES_MAX`]; the rest of a longer line is skipped, and `is_cut` is set.

use std::io::{self, BufRead};

use memchr::memchr;

/// The longest line that is read whole. Squid cuts URLs at 8 KiB, and a line with headers is seldom longer than 20 KiB.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// A source of lines.
pub struct Lines<R> {
    source: R,
    line: Vec<u8>,
    number: u64,
    offset: u64,
}

/// A line without its end.
pub struct Line<'a> {
    /// Counted from 1.
    pub number: u64,
    pub bytes: &'a [u8],
    /// The rest of the line was skipped.
    pub is_cut: bool,
}

impl<R: BufRead> Lines<R> {
    pub fn new(source: R) -> Lines<R> {
        Lines {
            source,
            line: Vec::new(),
            number: 0,
            offset: 0,
        }
    }

    /// Bytes read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line; `None` at the end.
    pub fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        self.line.clear();
        let mut is_cut = false;
        let mut any = false;
        loop {
            let piece = match self.source.fill_buf() {
                Ok(piece) => piece,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if piece.is_empty() {
                break;
            }
            any = true;
            let end = memchr(b'\n', piece);
            let taken = end.unwrap_or(piece.len());
            let room = LINE_BYTES_MAX - self.line.len();
            is_cut |= taken > room;
            self.line.extend_from_slice(&piece[..taken.min(room)]);
            let used = end.map_or(taken, |end| end + 1);
            self.source.consume(used);
            self.offset += used as u64;
            if end.is_some() {
                break;
            }
        }
        if !any {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(Line {
            number: self.number,
            bytes: &self.line,
            is_cut,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &[u8]) -> Vec<(u64, usize, bool)> {
        let mut lines = Lines::new(io::BufReader::with_capacity(5, text));
        let mut out = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            out.push((line.number, line.bytes.len(), line.is_cut));
        }
        assert_eq!(lines.offset(), text.len() as u64);
        out
    }

    #[test]
    fn lines_are_numbered_and_the_last_needs_no_end() {
        assert_eq!(
            all(b"a\n\nlong line\nlast"),
            [(1, 1, false), (2, 0, false), (3, 9, false), (4, 4, false)]
        );
        assert_eq!(all(b""), []);
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let text = [vec![b'x'; 3 * LINE_BYTES_MAX], b"\nnext".to_vec()].concat();
        assert_eq!(all(&text), [(1, LINE_BYTES_MAX, true), (2, 4, false)]);
    }
}
