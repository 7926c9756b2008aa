//! One end of a connection: reads and writes messages, and raw bytes between them.

use std::fmt;
use std::io::{self, Read, Write};

use crate::head::{Fields, Framing, HEAD_BYTES_MAX, Head, Malformed};

const READ_BYTES: usize = 64 << 10;
/// Most digits in a chunk's size.
const CHUNK_DIGITS_MAX: usize = 16;

/// Why a message is incomplete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cut {
    /// The peer has finished sending.
    Closed,
    /// The connection broke.
    Reset,
    /// The peer sent nothing, or took nothing, for the stream's time limit.
    Silent,
    /// The bytes are not HTTP.
    Malformed(Malformed),
    /// The sink of the body asked to stop.
    Enough,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("closed before the end"),
            Self::Reset => f.write_str("the connection was reset"),
            Self::Silent => f.write_str("nothing came for too long"),
            Self::Malformed(Malformed(why)) => write!(f, "not HTTP: {why}"),
            Self::Enough => f.write_str("left in the middle"),
        }
    }
}

impl From<Malformed> for Cut {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Reset,
        }
    }
}

/// Takes a body piece by piece; returns false to stop.
pub type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> bool;

/// One end of a connection over a blocking stream. The stream sets the time limits.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    /// Bytes that were read and not yet used: `buffer[used..filled]`.
    buffer: Vec<u8>,
    used: usize,
    filled: usize,
}

impl<S: Read + Write> Connection<S> {
    /// A connection of which nothing has been read yet.
    pub fn new(stream: S) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            used: 0,
            filled: 0,
        }
    }

    /// The stream. Bytes that were read ahead are no longer in it.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream, mutable.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Bytes that were read and not yet used.
    #[must_use]
    pub fn unused(&self) -> &[u8] {
        &self.buffer[self.used..self.filled]
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// If the peer does not take them.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Cut> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Reads the next head.
    ///
    /// # Errors
    /// If no head arrives, or a malformed one.
    pub fn head<H: Head>(&mut self) -> Result<H, Cut> {
        self.parsed(H::parse)
    }

    /// Reads a body with this framing, piece by piece; returns its trailers.
    ///
    /// # Errors
    /// If the body does not end as framed. Earlier bytes have been passed to the sink.
    pub fn body(&mut self, framing: Framing, to: Sink<'_>) -> Result<Fields, Cut> {
        match framing {
            Framing::Empty => {}
            Framing::Length(length) => self.exactly(length, to)?,
            Framing::Chunked => return self.chunks(to),
            Framing::Close => loop {
                match self.at_most(usize::MAX, to) {
                    Ok(_) => {}
                    Err(Cut::Closed) => break,
                    Err(cut) => return Err(cut),
                }
            },
        }
        Ok(Fields::default())
    }

    /// Reads `length` bytes without interpreting them.
    ///
    /// # Errors
    /// If fewer bytes arrive.
    pub fn exactly(&mut self, length: u64, to: Sink<'_>) -> Result<(), Cut> {
        let mut left = length;
        while left > 0 {
            left -= self.at_most(usize::try_from(left).unwrap_or(usize::MAX), to)? as u64;
        }
        Ok(())
    }

    /// Reads the bytes that have arrived, at least one and at most `most`; returns their number.
    ///
    /// # Errors
    /// If no bytes arrive.
    pub fn at_most(&mut self, most: usize, to: Sink<'_>) -> Result<usize, Cut> {
        if self.used == self.filled {
            self.fill()?;
        }
        let n = most.min(self.filled - self.used);
        let piece = &self.buffer[self.used..self.used + n];
        self.used += n;
        if to(piece) { Ok(n) } else { Err(Cut::Enough) }
    }

    //= rfc9112 §7.1   no extensions: nobody here has a use for them
    fn chunks(&mut self, to: Sink<'_>) -> Result<Fields, Cut> {
        loop {
            let size = self.parsed(|bytes| {
                let Some(digits) = line(bytes, CHUNK_DIGITS_MAX)? else {
                    return Ok(None);
                };
                let text = std::str::from_utf8(digits).unwrap_or_default();
                let is_size = text.bytes().all(|b| b.is_ascii_hexdigit());
                match u64::from_str_radix(text, 16) {
                    Ok(size) if is_size => Ok(Some((size, digits.len() + 2))),
                    _ => Err(Malformed(format!("a chunk size of {digits:?}"))),
                }
            })?;
            if size == 0 {
                return self.parsed(Fields::parse);
            }
            self.exactly(size, to)?;
            self.parsed(|bytes| Ok(line(bytes, 0)?.map(|_| ((), 2))))?;
        }
    }

    /// Reads until `parse` returns a value and the number of its bytes.
    fn parsed<T>(
        &mut self,
        parse: impl Fn(&[u8]) -> Result<Option<(T, usize)>, Malformed>,
    ) -> Result<T, Cut> {
        loop {
            if let Some((found, bytes)) = parse(self.unused())? {
                self.used += bytes;
                return Ok(found);
            }
            self.fill()?;
        }
    }

    /// Reads at least one more byte.
    fn fill(&mut self) -> Result<(), Cut> {
        if self.used == self.filled {
            (self.used, self.filled) = (0, 0);
        } else if self.filled == self.buffer.len() {
            self.buffer.copy_within(self.used..self.filled, 0);
            self.filled -= self.used;
            self.used = 0;
        }
        if self.filled == self.buffer.len() {
            assert!(
                self.filled <= HEAD_BYTES_MAX + READ_BYTES,
                "a head that no parser refuses"
            );
            self.buffer.resize(self.filled + READ_BYTES, 0);
        }
        match self.stream.read(&mut self.buffer[self.filled..])? {
            0 => Err(Cut::Closed),
            n => {
                self.filled += n;
                Ok(())
            }
        }
    }
}

/// A line of at most `max` bytes, without its CRLF.
fn line(bytes: &[u8], max: usize) -> Result<Option<&[u8]>, Malformed> {
    let is_end = |b: &u8| matches!(b, b'\r' | b'\n');
    match bytes.iter().take(max + 1).position(is_end) {
        Some(end) => match &bytes[end..] {
            [b'\r', b'\n', ..] => Ok(Some(&bytes[..end])),
            [b'\r'] => Ok(None),
            _ => Err(Malformed("a bare CR or LF in a chunked body".to_owned())),
        },
        None if bytes.len() <= max => Ok(None),
        None => {
            let begin = String::from_utf8_lossy(&bytes[..=max]);
            Err(Malformed(format!(
                "{begin:?} where a line of a chunked body should end"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::head::Response;

    /// A stream that delivers this many bytes a read, and then ends.
    struct Trickle(&'static [u8], usize);

    impl Read for Trickle {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let n = self.1.min(self.0.len()).min(into.len());
            into[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    impl Write for Trickle {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The body of the next response with its trailers, or why there is none.
    fn next(connection: &mut Connection<Trickle>) -> Result<(String, Fields), Cut> {
        let head: Response = connection.head()?;
        let mut body = Vec::new();
        let trailers = connection.body(head.framing("GET")?, &mut |piece| {
            body.extend_from_slice(piece);
            true
        })?;
        Ok((String::from_utf8(body).unwrap(), trailers))
    }

    const THREE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n02\r\nlo\r\n0\r\nA: b\r\n\r\n\
        HTTP/1.1 200 OK\r\n\r\nhello";

    #[test]
    fn bodies_by_length_by_chunks_and_by_close_in_pieces_of_any_size() {
        for size in [1, 2, 3, 7, 50, 1000] {
            let mut connection = Connection::new(Trickle(THREE, size));
            assert_eq!(next(&mut connection).unwrap().0, "hello");
            let (body, trailers) = next(&mut connection).unwrap();
            assert_eq!((body.as_str(), trailers.first("a")), ("hello", Some("b")));
            assert_eq!(next(&mut connection).unwrap().0, "hello");
            assert_eq!(next(&mut connection), Err(Cut::Closed));
        }
    }

    #[test]
    fn what_is_cut_says_so() {
        let cut = |text: &'static str| next(&mut Connection::new(Trickle(text.as_bytes(), 4)));
        assert_eq!(cut("HTTP/1.1 200 OK\r\n"), Err(Cut::Closed));
        assert_eq!(
            cut("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"),
            Err(Cut::Closed)
        );
        let chunked = [
            ("5\r\nhell", true),
            ("5\r\nhello\r\n", true),
            ("5\r\nhello\r\n0\r\n", true),
            ("5\r\nhello!\r\n", false),
            ("5\nhello", false),
            ("5;a=b\r\nhello\r\n0\r\n\r\n", false),
            ("+5\r\nhello\r\n0\r\n\r\n", false),
            ("\r\n", false),
            ("00000000000000005\r\nhello\r\n", false),
            ("5\r\nhello\r\n0\r\nno colon\r\n\r\n", false),
            ("5\r\nhello\r\n0\r\nA: b\n\n", false),
        ];
        for (body, is_closed) in chunked {
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let text = format!("{head}{body}").leak();
            match cut(text) {
                Err(Cut::Closed) => assert!(is_closed, "{body:?}"),
                Err(Cut::Malformed(_)) => assert!(!is_closed, "{body:?}"),
                other => panic!("{body:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_reader_may_leave_and_raw_bytes_follow_a_message() {
        let mut connection = Connection::new(Trickle(THREE, 1000));
        let _: Response = connection.head().unwrap();
        let left = connection.body(Framing::Length(5), &mut |_| false);
        assert_eq!(left, Err(Cut::Enough));
        assert!(connection.unused().starts_with(b"HTTP/1.1 200"));
        let mut raw = Vec::new();
        connection
            .exactly(8, &mut |piece| {
                raw.extend_from_slice(piece);
                true
            })
            .unwrap();
        assert_eq!(raw, b"HTTP/1.1");
    }
}
