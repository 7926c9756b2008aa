//! `GET /profile` of an admin interface, as a source of bytes that ends after a given time.
//!
//! Ctrl-C ends it as well; the bytes received until then are used ([`End`]).
//!
//! Not known here: what the bytes mean.
//! Limits: [`HEAD_BYTES_MAX`]; the wait for a proxy that sends nothing lasts until the time is over.

use std::io::{self, BufRead, BufReader, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};

/// The longest head of an answer; a longer one is an error.
const HEAD_BYTES_MAX: u64 = 16 << 10;
/// The longest wait for a connection.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often a read that waits looks at the clock.
const LOOK: Duration = Duration::from_millis(100);

/// The admin interface's default port.
const ADMIN_PORT: u16 = 3129;

/// The exit status of a program that was interrupted.
const EXIT_INTERRUPTED: i32 = 130;

/// The end of listening: a time, or an interrupt.
#[derive(Clone, Debug)]
pub struct End {
    until: Instant,
    is_interrupted: Arc<AtomicBool>,
}

impl End {
    /// Ends at `until`.
    pub fn at(until: Instant) -> End {
        let is_interrupted = Arc::default();
        End {
            until,
            is_interrupted,
        }
    }

    /// Lets an interrupt end listening earlier; a second interrupt ends the program.
    ///
    /// # Errors
    /// The system gives no thread or no signals.
    pub fn or_interrupt(self) -> io::Result<End> {
        let runtime = (tokio::runtime::Builder::new_current_thread().enable_all()).build()?;
        let is_interrupted = Arc::clone(&self.is_interrupted);
        std::thread::Builder::new().spawn(move || {
            runtime.block_on(async {
                let Ok(mut interrupts) = signal(SignalKind::interrupt()) else {
                    return;
                };
                while interrupts.recv().await.is_some() {
                    if is_interrupted.swap(true, Ordering::Relaxed) {
                        std::process::exit(EXIT_INTERRUPTED);
                    }
                }
            });
        })?;
        Ok(self)
    }

    /// Has listening ended?
    pub fn is_here(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed) || Instant::now() >= self.until
    }
}

/// Tries all addresses of the name: not all addresses of `localhost` may have a listener.
fn connect(address: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::other("the name has no address");
    for address in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Asks for the profile. The source ends at `end`, or when the proxy ends.
///
/// # Errors
/// A message: the text is no URL, no proxy listens there, or the answer is not a profile.
pub fn open(url: &str, end: End) -> Result<impl Read + use<>, String> {
    let said = |what: &dyn std::fmt::Display| format!("{url}: {what}");
    let rest = url.strip_prefix("http://").unwrap_or(url);
    let authority = rest.split('/').next().unwrap_or_default();
    if url.starts_with("https://") || authority.is_empty() {
        return Err(said(
            &"must be the admin interface, such as http://127.0.0.1:3129",
        ));
    }
    let address = if authority
        .rsplit(':')
        .next()
        .is_some_and(|port| port.parse::<u16>().is_ok())
    {
        authority.to_owned()
    } else {
        format!("{authority}:{ADMIN_PORT}")
    };
    let mut stream = connect(&address).map_err(|e| {
        said(&format_args!(
            "{e}; is the proxy running, and this its admin interface?"
        ))
    })?;
    stream.set_read_timeout(Some(LOOK)).map_err(|e| said(&e))?;
    let request = format!(
        "GET /profile HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: loligo-report\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).map_err(|e| said(&e))?;
    let mut reader = BufReader::new(Until { stream, end });
    let is_chunked = head(&mut reader).map_err(|e| said(&e))?;
    Ok(Body {
        reader,
        is_chunked,
        left: 0,
        has_begun: false,
        has_ended: false,
    })
}

/// Reads the head; returns whether the body is chunked.
fn head(reader: &mut impl BufRead) -> Result<bool, String> {
    let mut limited = reader.take(HEAD_BYTES_MAX);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        let read = limited.read_until(b'\n', line).map_err(|e| e.to_string())?;
        if read == 0 || !line.ends_with(b"\n") {
            return Err("the proxy's answer has no end of its head".to_owned());
        }
        Ok(String::from_utf8_lossy(line).trim_end().to_owned())
    };
    let status = next(&mut line)?;
    let mut words = status.split(' ');
    let (version, code) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    if !version.starts_with("HTTP/1.") {
        return Err("what listens there does not speak HTTP".to_owned());
    }
    match code {
        "200" => {}
        "403" => {
            return Err("the admin interface does not serve this address (admin.allow)".to_owned());
        }
        "404" => {
            return Err(
                "there is no /profile; is this the admin interface of a Loligo?".to_owned(),
            );
        }
        "503" => return Err("too many listen already (503); end another report".to_owned()),
        _ => return Err(format!("the proxy answered \"{status}\"")),
    }
    let mut is_chunked = false;
    loop {
        let field = next(&mut line)?;
        if field.is_empty() {
            return Ok(is_chunked);
        }
        let (name, value) = field.split_once(':').unwrap_or_default();
        is_chunked |= name.eq_ignore_ascii_case("transfer-encoding")
            && value.to_ascii_lowercase().contains("chunked");
    }
}

/// A connection whose reads end at `end`.
struct Until {
    stream: TcpStream,
    end: End,
}

impl Read for Until {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.end.is_here() {
                return Ok(0);
            }
            match self.stream.read(into) {
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                done => return done,
            }
        }
    }
}

/// The body, without the framing of its chunks.
struct Body<R> {
    reader: BufReader<R>,
    is_chunked: bool,
    /// Bytes left of the chunk.
    left: u64,
    has_begun: bool,
    has_ended: bool,
}

impl<R: Read> Body<R> {
    /// Reads the size of the next chunk. The body ends at the last chunk, or when the connection ends.
    fn next_chunk(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        if self.has_begun {
            self.reader.by_ref().take(2).read_to_end(&mut line)?;
            line.clear();
        }
        self.has_begun = true;
        self.reader.by_ref().take(64).read_until(b'\n', &mut line)?;
        if !line.ends_with(b"\n") {
            self.has_ended = true;
            return Ok(());
        }
        let text = String::from_utf8_lossy(&line);
        let size = text.split(';').next().unwrap_or_default().trim();
        self.left = u64::from_str_radix(size, 16)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a chunk without a size"))?;
        self.has_ended = self.left == 0;
        Ok(())
    }
}

impl<R: Read> Read for Body<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if !self.is_chunked {
            return self.reader.read(into);
        }
        if self.left == 0 && !self.has_ended {
            self.next_chunk()?;
        }
        if self.has_ended {
            return Ok(0);
        }
        let most = usize::try_from(self.left)
            .unwrap_or(usize::MAX)
            .min(into.len());
        let read = self.reader.read(&mut into[..most])?;
        self.left -= read as u64;
        self.has_ended = read == 0;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    /// The bytes that a report reads from a proxy that sends this answer, then nothing.
    fn from(answer: &'static str) -> Result<Vec<u8>, String> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while !asked.ends_with("\r\n\r\n") {
                reader.read_line(&mut asked).unwrap();
            }
            stream.write_all(answer.as_bytes()).unwrap();
            // Keep the connection open until the report closes it.
            let _ = reader.read_line(&mut asked);
            asked
        });
        let end = End::at(Instant::now() + 3 * LOOK);
        let read = open(&url, end).map(|mut body| {
            let mut bytes = Vec::new();
            body.read_to_end(&mut bytes).unwrap();
            bytes
        });
        let asked = proxy.join().unwrap();
        assert!(
            asked.starts_with("GET /profile HTTP/1.1\r\nHost: 127.0.0.1:"),
            "{asked}"
        );
        read
    }

    #[test]
    fn a_body_ends_when_the_time_is_over() {
        assert_eq!(from("HTTP/1.1 200 OK\r\n\r\nabc").unwrap(), b"abc");
    }

    #[test]
    fn chunks_are_taken_out_of_their_frames() {
        let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        assert_eq!(from(answer).unwrap(), b"abc0123456789");
        let cut = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n01";
        assert_eq!(from(cut).unwrap(), b"abc01");
    }

    #[test]
    fn answers_that_are_no_profile_say_what_to_do() {
        for (answer, what) in [
            (
                "HTTP/1.1 404 Not Found\r\n\r\n",
                "is this the admin interface",
            ),
            ("HTTP/1.1 403 Forbidden\r\n\r\n", "admin.allow"),
            ("HTTP/1.1 503 Busy\r\n\r\n", "too many listen already"),
            (
                "HTTP/1.1 500 Oops\r\n\r\n",
                "answered \"HTTP/1.1 500 Oops\"",
            ),
            ("SSH-2.0-x\r\n\r\n", "does not speak HTTP"),
            ("HTTP/1.1 200 OK\r\nX: y", "no end of its head"),
        ] {
            let said = from(answer).unwrap_err();
            assert!(said.contains(what), "{answer}: {said}");
        }
    }

    #[test]
    fn nobody_there_is_said() {
        let end = End::at(Instant::now() + LOOK);
        let said = |url: &str| open(url, end.clone()).err().unwrap();
        assert!(said("https://127.0.0.1:1").contains("such as http://"));
        // A port that was free a moment ago.
        let free = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        assert!(said(&format!("http://{free}")).contains("is the proxy running"));
    }
}
