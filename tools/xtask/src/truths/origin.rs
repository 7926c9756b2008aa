//! An origin with a think time: every answer begins a fixed time after its request.
//!
//! `/BYTES/ID` answers that many bytes. Whether they may be stored, and whether the connection stays open, is set when the origin is made.
//!
//! Limits: a head of [`HEAD_BYTES_MAX`], no request bodies; a longer head closes the connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::failure::{During, Result};
use crate::serving::Serving;

const HEAD_BYTES_MAX: usize = 16 << 10;

/// The behaviour of an origin.
#[derive(Debug, Clone, Copy)]
pub struct Manner {
    /// Time from the whole request to the answer's first byte.
    pub think: Duration,
    /// Whether the connection is closed after each answer.
    pub closes: bool,
}

/// A running origin; dropping it stops it.
pub struct Origin {
    serving: Serving,
    served: Arc<AtomicU64>,
}

impl Origin {
    /// Starts on a free port of this address.
    pub fn start(address: Ipv4Addr, manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind((address, 0))
            .during(|| format!("an origin on a free port of {address}"))?;
        let served = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&served);
        let serve = move |stream| serve(stream, manner, Arc::clone(&counter));
        Ok(Self {
            serving: Serving::start(vec![listener], serve)?,
            served,
        })
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.serving.address()
    }

    /// Requests answered so far.
    pub fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }
}

/// The path of an object.
pub fn path(bytes: usize, id: u64) -> String {
    format!("/{bytes}/{id}")
}

async fn serve(mut stream: TcpStream, manner: Manner, served: Arc<AtomicU64>) -> io::Result<()> {
    let mut head = Vec::new();
    let mut piece = [0; 4096];
    loop {
        while let Some(end) = memchr::memmem::find(&head, b"\r\n\r\n") {
            let bytes = bytes_asked(&head[..end]);
            head.drain(..end + 4);
            tokio::time::sleep(manner.think).await;
            served.fetch_add(1, Ordering::SeqCst);
            let (status, bytes) = match bytes {
                Some(bytes) => ("200 OK", bytes),
                None => ("404 Not Found", 0),
            };
            let connection = if manner.closes { "close" } else { "keep-alive" };
            let mut answer = format!(
                "HTTP/1.1 {status}\r\nContent-Length: {bytes}\r\nCache-Control: max-age=3600\r\nConnection: {connection}\r\n\r\n"
            )
            .into_bytes();
            answer.resize(answer.len() + bytes, b'x');
            stream.write_all(&answer).await?;
            if manner.closes {
                return stream.shutdown().await;
            }
        }
        match stream.read(&mut piece).await? {
            0 => return Ok(()),
            _ if head.len() > HEAD_BYTES_MAX => return Ok(()),
            n => head.extend_from_slice(&piece[..n]),
        }
    }
}

/// The size in `GET /BYTES/ID HTTP/1.1`.
fn bytes_asked(head: &[u8]) -> Option<usize> {
    const BYTES_MAX: usize = 16 << 20;
    let text = std::str::from_utf8(head).ok()?;
    let bytes = text.split(' ').nth(1)?.split('/').nth(1)?.parse().ok()?;
    (bytes <= BYTES_MAX).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::Client;
    use std::time::Instant;

    #[test]
    fn it_thinks_before_each_answer() {
        let think = Duration::from_millis(30);
        for closes in [false, true] {
            let origin = Origin::start(Ipv4Addr::LOCALHOST, Manner { think, closes }).unwrap();
            let mut client = Client::new(origin.address());
            for n in 1..=2 {
                let begun = Instant::now();
                let answer = client.get(&path(1000, n)).unwrap();
                assert!(begun.elapsed() >= think);
                assert_eq!((answer.status, answer.body.len()), (200, 1000));
                assert_eq!(origin.served(), n);
            }
            assert_eq!(client.get("/x/1").unwrap().status, 404);
        }
    }
}
