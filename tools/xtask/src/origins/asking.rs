//! The single requests of one client: hits, ranges, HEAD, validation, large bodies.
//!
//! Cache-Status shows how the proxy has answered; bytes are compared with the files.

use std::io::Write as _;
use std::net::SocketAddr;

use wire::Response;

use super::{
    Rows,
    programs::{DIGEST, Origin},
};
use crate::failure::{Result, fail};
use crate::http::{Client, Ended, Receiver, Request};

/// An answer with its head.
#[derive(Debug, Default)]
pub struct Whole {
    /// The head.
    pub head: Option<Response>,
    /// The body.
    pub body: Vec<u8>,
}

impl Receiver for Whole {
    fn head(&mut self, head: &Response) -> bool {
        self.head = Some(head.clone());
        true
    }

    fn body(&mut self, piece: &[u8]) -> bool {
        self.body.extend_from_slice(piece);
        true
    }
}

impl Whole {
    /// The status of the answer; 0: there is none.
    pub fn status(&self) -> u16 {
        self.head.as_ref().map_or(0, |head| head.status)
    }

    /// A field of the answer.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.as_ref()?.fields.get(name)
    }

    /// Does Cache-Status contain this?
    fn says(&self, what: &str) -> bool {
        self.field("cache-status")
            .is_some_and(|it| it.contains(what))
    }

    fn told(&self) -> String {
        let status = self.field("cache-status").unwrap_or("no Cache-Status");
        format!("{}, {} bytes, {status}", self.status(), self.body.len())
    }
}

/// Sends a request and reads the whole answer.
pub fn ask(client: &mut Client, request: Request<'_>) -> Result<Whole> {
    let mut whole = Whole::default();
    match client.ask_repeatably(request, &mut whole) {
        Ended::Broken { reason, .. } => fail!("{} {}: {reason}", request.method, request.target),
        Ended::Whole | Ended::HungUp => Ok(whole),
    }
}

fn get<'a>(target: &'a str, fields: &'a [(&'a str, &'a str)]) -> Request<'a> {
    Request {
        fields,
        ..Request::of("GET", target)
    }
}

/// Tries all these requests through the proxy at this address.
pub fn try_all(proxy: SocketAddr, origin: &Origin, rows: &mut Rows) {
    let (small, large) = (&origin.files.small, &origin.files.large);
    let mut client = Client::new(proxy);
    let client = &mut client;
    rows.once("loligo", "GET, miss", || {
        let answer = ask(client, get(&small.target, &[]))?;
        expect(
            answer.status() == 200 && answer.body == small.bytes && answer.says("fwd="),
            &answer,
        )
    });
    rows.once("loligo", "GET, hit", || {
        let answer = ask(client, get(&small.target, &[]))?;
        expect(answer.body == small.bytes && answer.says("; hit"), &answer)
    });
    rows.once("loligo", "HEAD", || {
        let length = small.bytes.len().to_string();
        for target in [&small.target, &large.target] {
            let answer = ask(client, Request::of("HEAD", target))?;
            let is_bare = answer.status() == 200 && answer.body.is_empty();
            let is_well =
                target == &large.target || answer.field("content-length") == Some(&length);
            expect(is_bare && is_well, &answer)?;
        }
        Ok(())
    });
    rows.once("loligo", "range of what is stored", || {
        let answer = ask(client, get(&small.target, &[("Range", "bytes=10-19")]))?;
        expect(
            answer.status() == 206 && answer.body == small.bytes[10..20],
            &answer,
        )
    });
    rows.once("loligo", "range of what is not", || {
        let answer = ask(client, get(&large.target, &[("Range", "bytes=1000-1999")]))?;
        let is_part = answer.status() == 206 && answer.body == large.bytes[1000..2000];
        let is_whole = answer.status() == 200 && answer.body == large.bytes;
        expect(is_part || is_whole, &answer)
    });
    rows.once("loligo", "304 to a client", || {
        let Some(tag) = ask(client, get(&small.target, &[]))?
            .field("etag")
            .map(str::to_owned)
        else {
            fail!("the origin sends no ETag");
        };
        let answer = ask(client, get(&small.target, &[("If-None-Match", &tag)]))?;
        expect(answer.status() == 304 && answer.body.is_empty(), &answer)
    });
    rows.once("loligo", "304 of the origin", || {
        let answer = ask(
            client,
            get(&small.target, &[("Cache-Control", "max-age=0")]),
        )?;
        let is_validated = answer.says("fwd-status=304");
        expect(answer.body == small.bytes && is_validated, &answer)
    });
    rows.once("loligo", "large body down", || {
        let answer = ask(client, get(&large.target, &[]))?;
        expect(
            answer.status() == 200 && answer.body == large.bytes,
            &answer,
        )
    });
    rows.once("loligo", "large body up", || {
        let request = Request {
            body: Some(&large.bytes),
            ..Request::of("POST", DIGEST)
        };
        let answer = ask(client, request)?;
        expect(
            answer.status() == 200 && answer.body == sha256(&large.bytes),
            &answer,
        )
    });
}

/// If not `is_well`, a failure that describes the answer.
pub fn expect(is_well: bool, came: &Whole) -> Result<()> {
    match is_well {
        true => Ok(()),
        false => fail!("{}", came.told()),
    }
}

/// The SHA-256 in hexadecimal digits.
pub fn sha256(bytes: &[u8]) -> Vec<u8> {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let mut out = Vec::new();
    for byte in digest.as_ref() {
        let _ = write!(out, "{byte:02x}");
    }
    out
}
