//! Asks a proxy's admin interface, for `/live` above all.
//!
//! Each request has its own connection: HTTP/1.1 with `Connection: close`, read to the end. Every failure is a sentence for the user.
//!
//! Limits: [`WAIT_MAX`] to connect and for each read, [`ANSWER_BYTES_MAX`].

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::Duration;

use crate::top::live::Live;
use crate::top::words::harmless;

/// The default URL of the admin interface.
pub const URL: &str = "http://127.0.0.1:3129";
/// The longest wait for a connection, and for the next bytes.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest wait for the answer to a command that may take minutes.
const LONG_MAX: Duration = Duration::from_secs(300);
/// The longest wait for the answer to a command.
const DONE_MAX: Duration = Duration::from_secs(15);
/// The longest answer that is read. The longest real one has 240 names and 256 origins of 256 bytes.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// The most characters of a refusal that are shown.
const REFUSAL_CHARS_MAX: usize = 120;

/// A proxy's admin interface.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// Host and port, as in the Host field.
    authority: String,
}

impl Place {
    /// `http://HOST:PORT`, `HOST:PORT` or `HOST`.
    ///
    /// # Errors
    /// A sentence: it is none of these.
    pub fn parse(url: &str) -> Result<Place, String> {
        let wrong = |why: &str| {
            Err(format!(
                "\"{}\" is no address of an admin interface: {why}; such as {URL}",
                harmless(url)
            ))
        };
        let rest = match url.split_once("://") {
            Some(("http", rest)) => rest,
            Some(_) => return wrong("it speaks http"),
            None => url,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ']) {
            return wrong("host and port are wanted, and nothing else");
        }
        if authority.chars().any(char::is_control) {
            return wrong("it holds a control character");
        }
        let behind_host = match authority.rsplit_once(']') {
            Some((host, behind)) if host.starts_with('[') => behind,
            Some(_) => return wrong("the brackets are not in order"),
            None if authority.matches(':').count() > 1 => {
                return wrong("an IPv6 address stands in brackets");
            }
            None => authority.find(':').map_or("", |at| &authority[at..]),
        };
        match behind_host.strip_prefix(':').map(str::parse::<u16>) {
            Some(Ok(1..)) => Ok(Place {
                authority: authority.to_owned(),
            }),
            None if behind_host.is_empty() => Ok(Place {
                authority: format!("{authority}:3129"),
            }),
            _ => wrong("the port is no number from 1 to 65535"),
        }
    }

    /// The URL, to be shown.
    pub fn url(&self) -> String {
        format!("http://{}", self.authority)
    }

    /// Asks for `/live`.
    ///
    /// # Errors
    /// A sentence that names the place.
    pub fn ask(&self) -> Result<Live, String> {
        let body = self.get("/live")?;
        serde_json::from_slice(&body).map_err(|error| {
            format!(
                "{} answers with something else than a Loligo's /live: {error}",
                self.authority
            )
        })
    }

    /// The body of a 200.
    ///
    /// # Errors
    /// A sentence that names the place.
    pub fn get(&self, target: &str) -> Result<Vec<u8>, String> {
        let bytes = self
            .exchange("GET", target, WAIT_MAX)
            .map_err(|why| format!("{} does not answer: {why}", self.authority))?;
        let body = body_of(&bytes).map_err(|why| format!("{}: {why}", self.authority))?;
        Ok(body.to_vec())
    }

    /// Sends a command (POST); returns status and body of the answer, which may take [`DONE_MAX`].
    ///
    /// # Errors
    /// A sentence that names the place.
    pub fn post(&self, target: &str) -> Result<(u16, Vec<u8>), String> {
        self.post_for(target, DONE_MAX)
    }

    /// Like [`Place::post`], for a command that may take minutes.
    ///
    /// # Errors
    /// A sentence that names the place.
    pub fn post_patiently(&self, target: &str) -> Result<(u16, Vec<u8>), String> {
        self.post_for(target, LONG_MAX)
    }

    fn post_for(&self, target: &str, patience: Duration) -> Result<(u16, Vec<u8>), String> {
        let bytes = self
            .exchange("POST", target, patience)
            .map_err(|why| format!("{} does not answer: {why}", self.authority))?;
        let (code, body) =
            status_and_body(&bytes).map_err(|why| format!("{}: {why}", self.authority))?;
        Ok((code, body.to_vec()))
    }

    fn exchange(&self, method: &str, target: &str, patience: Duration) -> std::io::Result<Vec<u8>> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(WAIT_MAX))?;
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            self.authority
        );
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        Ok(answer)
    }

    /// Tries every address of the name.
    fn connect(&self) -> std::io::Result<TcpStream> {
        let addresses: Vec<SocketAddr> = self.authority.to_socket_addrs()?.collect();
        let mut last = std::io::Error::other("the name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, WAIT_MAX) {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The body of a 200, complete.
fn body_of(answer: &[u8]) -> Result<&[u8], String> {
    let (code, body) = status_and_body(answer)?;
    match code {
        200 => Ok(body),
        404 => Err(
            "it has no /live; is it the admin interface of an older Loligo, or of something else?"
                .to_owned(),
        ),
        code => {
            let said: String = String::from_utf8_lossy(body)
                .lines()
                .next()
                .unwrap_or_default()
                .chars()
                .take(REFUSAL_CHARS_MAX)
                .collect();
            Err(format!("it refuses with {code}: {}", harmless(&said)))
        }
    }
}

/// Status and body of an answer, complete.
fn status_and_body(answer: &[u8]) -> Result<(u16, &[u8]), String> {
    let no_http = || "this is no HTTP".to_owned();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
    let end = end.ok_or_else(no_http)?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let body = &answer[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap_or_default();
    let code = status
        .strip_prefix("HTTP/1.1 ")
        .or_else(|| status.strip_prefix("HTTP/1.0 "))
        .and_then(|rest| rest.get(..3)?.parse().ok());
    let code = code.ok_or_else(no_http)?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        let is_it = name.eq_ignore_ascii_case("content-length");
        is_it.then(|| value.trim().parse::<usize>().ok()).flatten()
    });
    match length {
        Some(length) if length > body.len() => Err("its answer was cut off".to_owned()),
        Some(length) => Ok((code, &body[..length])),
        None => Ok((code, body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_understood_or_explained() {
        for (url, shown) in [
            ("http://127.0.0.1:3129", "http://127.0.0.1:3129"),
            ("http://127.0.0.1:3129/", "http://127.0.0.1:3129"),
            ("cache.example", "http://cache.example:3129"),
            ("localhost:80", "http://localhost:80"),
            ("http://[::1]:3129", "http://[::1]:3129"),
            ("[::1]", "http://[::1]:3129"),
        ] {
            assert_eq!(Place::parse(url).unwrap().url(), shown, "{url}");
        }
        for (url, why) in [
            ("https://h", "it speaks http"),
            ("", "host and port"),
            ("http://h/live", "nothing else"),
            ("http://user@h", "nothing else"),
            ("::1", "in brackets"),
            ("a]b", "brackets"),
            ("h:", "the port"),
            ("h:0", "the port"),
            ("h:65536", "the port"),
            ("h\r\nX: y", "host and port"),
            ("h\r\nX:y", "control"),
        ] {
            let said = Place::parse(url).unwrap_err();
            assert!(said.contains(why) && said.contains(URL), "{url}: {said}");
            assert!(!said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn an_answer_that_is_none_is_told() {
        let ok = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(body_of(ok).unwrap(), b"{}");
        for (answer, why) in [
            (&b""[..], "no HTTP"),
            (b"220 smtp.example\r\n\r\n", "no HTTP"),
            (b"HTTP/1.1 404 Not Found\r\n\r\n", "older Loligo"),
            (
                b"HTTP/1.1 421 x\r\n\r\nask by \x1b[2J name\nmore",
                "421: ask by \u{fffd}[2J name",
            ),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n{}", "cut off"),
        ] {
            let said = body_of(answer).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }
}
