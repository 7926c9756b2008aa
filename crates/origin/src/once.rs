//! One request on a connection of its own, and its answer: for checks of servers, digests, certificates.
//!
//! The connection is opened even if the last attempt failed a moment ago, and closed after the answer. One time limit covers
//! everything, from connecting to the last byte of the body.
//!
//! Not known here: the content of the request, and its purpose.
//! Limits: [`Request::within`], [`Request::limits`] for the head, and the bound that [`Answer::body`] is given.

use std::{
    borrow::Cow,
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use http1::Limits;
use message::ResponseHead;
use tokio::time::timeout_at;

use crate::{
    ConnectError, ConnectTimes, Connector, Destination, Lease, OriginContext, OriginWaits,
    body::Body,
    connect::Riding,
    outcome::UpstreamError,
    signing::Signer,
    trip::Trip,
    upstream::{FIRST_READ_BYTES, Upstream, is_interim},
};
use base::{
    access::Destinations,
    clock::Instant,
    deadline::{Deadlines, Watch},
    heads::{HeadBudget, Heads},
};
use ledger::Ledger;

/// The bytes of answers that a thread without clients may hold. Callers have smaller bounds.
const APART_BYTES_MAX: u64 = 16 << 20;

impl OriginContext {
    /// A context for a thread without clients: with its own budgets, and counters that nobody reads.
    pub fn apart(connector: Connector) -> OriginContext {
        OriginContext {
            connector,
            heads: Heads::new(Arc::new(HeadBudget::new(APART_BYTES_MAX, 1))),
            ledger: Ledger::new(APART_BYTES_MAX),
            input: Rc::new(RefCell::new(vec![0; FIRST_READ_BYTES].into())),
            counters: Arc::default(),
        }
    }
}

/// A request.
pub struct Request<'a> {
    /// The server.
    pub to: &'a Destination,
    /// Where connections may go.
    pub access: &'a Destinations,
    /// The method,
    pub method: &'a str,
    /// and the whole request, which includes `Connection: close`.
    pub bytes: &'a [u8],
    /// Signs the request, if it needs a signature.
    pub signer: Option<&'a Signer>,
    /// The limits for the head of an answer.
    pub limits: Limits,
    /// The limit for everything together.
    pub within: Duration,
}

/// The answer.
pub struct Answer<'a> {
    /// The final head.
    pub head: ResponseHead,
    body: Body,
    context: &'a OriginContext,
    watch: Watch,
    ends: Instant,
}

impl Request<'_> {
    /// Sends the request and waits for the final head.
    ///
    /// # Errors
    /// It cannot be signed, its signature is refused, or no answer comes in time; [`ConnectError::Busy`] if the time was spent waiting for a slot.
    pub async fn send(self, context: &OriginContext) -> Result<Answer<'_>, UpstreamError> {
        let ends = Instant::now() + self.within;
        let waits = OriginWaits {
            first_byte: self.within,
            write: self.within,
            idle_read: self.within,
            limits: self.limits,
        };
        // A table of its own, which nothing sweeps: `ends` is the only limit.
        let watch = Deadlines::new().watch();
        let has_place = Cell::new(false);
        let asked = timeout_at(ends, async {
            let bytes = self.signed().await?;
            let shared = match self.to.http2 {
                Some(_) => self.seat(context, &waits, &has_place).await?,
                None => None,
            };
            let lease = match shared {
                Some(lease) => lease,
                None => {
                    (context.connector)
                        .connect_anew(self.to, self.access, &has_place)
                        .await?
                }
            };
            let mut upstream = Upstream::new(lease, Trip::new(), waits);
            upstream.send(context, &watch, &bytes).await?;
            loop {
                let head = upstream.head(context, &watch, self.method).await?;
                if !is_interim(&head) {
                    if let Some(signer) = self.signer {
                        upstream.accepted(context, &watch, signer, &head).await?;
                    }
                    return Ok((upstream.body(&head), head));
                }
            }
        });
        let answered = asked.await.unwrap_or_else(|_| match has_place.get() {
            true => Err(UpstreamError::Timeout),
            false => Err(ConnectError::Busy.into()),
        });
        let (mut body, head) = answered?;
        body.forbid_reuse();
        Ok(Answer {
            head,
            body,
            context,
            watch,
            ends,
        })
    }

    async fn signed(&self) -> Result<Cow<'_, [u8]>, UpstreamError> {
        let Some(signer) = self.signer else {
            return Ok(Cow::Borrowed(self.bytes));
        };
        signer.ready(self.bytes).await?;
        Ok(Cow::Owned(signer.sign(self.bytes)?))
    }
}

impl Request<'_> {
    /// A place in a session of HTTP/2 that is retired after the answer, or a connection on which TLS agreed on HTTP/1.1. `None`: the origin
    /// is known to speak HTTP/1.1.
    async fn seat(
        &self,
        context: &OriginContext,
        waits: &OriginWaits,
        has_place: &Cell<bool>,
    ) -> Result<Option<Lease>, ConnectError> {
        let riding = Riding {
            is_once: true,
            recalls: false,
            waits,
            input: &context.input,
        };
        has_place.set(true);
        let mut times = ConnectTimes::default();
        let asked = (context.connector).lease_h2(self.to, self.access, &riding, &mut times);
        let mut lease = asked.await?;
        if let Some(seat) = lease.as_mut().and_then(Lease::seat) {
            seat.session().retire();
        }
        Ok(lease)
    }
}

impl Answer<'_> {
    /// The body; `None`: it is longer than this bound.
    ///
    /// # Errors
    /// The body does not come, or not in time.
    pub async fn body(mut self, bytes_max: usize) -> Result<Option<Vec<u8>>, UpstreamError> {
        let reading = self.body.whole(self.context, &self.watch, bytes_max);
        let read = timeout_at(self.ends, reading).await;
        read.unwrap_or(Err(UpstreamError::Timeout))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Settings, Tls};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    /// The status and body (`None`: too long) of a request to a server that sends this answer, then closes the connection or keeps it open.
    async fn asked(
        answer: &str,
        closes: bool,
        bytes_max: usize,
    ) -> Result<(u16, Option<Vec<u8>>), UpstreamError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = Destination {
            tls: false,
            host: "127.0.0.1".into(),
            port: listener.local_addr().unwrap().port(),
            member: None,
            terms: None,
            http2: None,
        };
        let serving = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut got = [0; 4];
            stream.read_exact(&mut got).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            match closes {
                true => drop(stream),
                false => assert_eq!(stream.read(&mut got).await.unwrap(), 0),
            }
        };
        let asking = async {
            let tls = Tls::only(Vec::new());
            let context = OriginContext::apart(Connector::new(Settings::default(), tls));
            let request = Request {
                to: &to,
                access: &Destinations::default(),
                method: "GET",
                bytes: b"ask.",
                signer: None,
                limits: Limits {
                    head_bytes_max: 1000,
                    ..Limits::default()
                },
                within: Duration::from_millis(300),
            };
            let answer = request.send(&context).await?;
            let status = answer.head.status;
            let body = answer.body(bytes_max).await?;
            assert_eq!(context.connector.pool().idle(), 0);
            Ok((status, body))
        };
        tokio::join!(asking, serving).0
    }

    const CHUNKS: &str = "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n\
        HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";

    #[tokio::test]
    async fn the_final_head_and_a_body_of_any_framing_come() {
        let whole = |body: &[u8]| Some(body.to_vec());
        assert_eq!(
            asked(CHUNKS, false, 5).await.unwrap(),
            (404, whole(b"abcde"))
        );
        let length = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!(asked(length, false, 2).await.unwrap(), (200, whole(b"ab")));
        let open = "HTTP/1.0 200 OK\r\n\r\nabc";
        assert_eq!(asked(open, true, 3).await.unwrap(), (200, whole(b"abc")));
    }

    #[tokio::test]
    async fn nothing_is_unbounded() {
        assert_eq!(asked(CHUNKS, false, 4).await.unwrap(), (404, None));
        let open = "HTTP/1.0 200 OK\r\n\r\nabc";
        assert_eq!(asked(open, true, 2).await.unwrap(), (200, None));
        let long = format!("HTTP/1.1 200 OK\r\nX: {}", "x".repeat(1000));
        let long = asked(&long, false, 0).await;
        assert!(matches!(long, Err(UpstreamError::Malformed(_))), "{long:?}");
        for begun in ["", "HTTP/1.1 200", "HTTP/1.0 200 OK\r\n\r\nab"] {
            let late = asked(begun, false, 9).await;
            assert!(matches!(late, Err(UpstreamError::Timeout)), "{late:?}");
            if !begun.ends_with("ab") {
                let cut = asked(begun, true, 9).await;
                assert!(matches!(cut, Err(UpstreamError::Closed(_))), "{cut:?}");
            }
        }
    }
}
