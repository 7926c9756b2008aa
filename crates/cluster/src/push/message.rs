//! The format of a push from a front to a member, and the member's verdict.
//!
//! ```text
//! POST /.loligo/push HTTP/1.1
//! Content-Type: application/http
//! Content-Length: ...
//! Loligo-Push: asked=1700000000000;received=1700000000120;sent=1700000000125;column=0;incarnation=5;began=12;known=5.7
//!
//! GET http://www.example.org/a HTTP/1.1          the request as the client sent it: key, variant and rules come from it
//! ...
//!
//! HTTP/1.1 200 OK                                the response as it came, without framing
//! ...
//!
//! body
//! ```
//!
//! The member answers with its verdict.
//!
//! ```text
//! HTTP/1.1 204 No Content                        the verdict
//! Loligo-Had: ?1                                 only if the member had a copy already
//! ```
//!
//! So a member treats a push as it would treat the same response to a fetch of its own.
//!
//! Not known here: connections, storing.

use bytes::Bytes;
use hints::frames::Known;
use http1::{Limits, Reject, Scratch};
use httpcache::UnixMillis;
use message::{Framing, RequestHead, ResponseHead, Version};
use store::Sequence;

use http1::head_lines;

/// The request target of a push.
pub const TARGET: &str = "/.loligo/push";
/// The field with the terms of a push.
pub const FIELD: &[u8] = b"Loligo-Push";
/// In the answer, if it applies: the member already had a copy, not known to be stale.
pub const HAD: &[u8] = b"Loligo-Had";
/// Clocks of two members that differ by less count as equal: the message, too, takes time on its way.
const CLOCKS_DIFFER_MS: u64 = 1000;

/// What a member has to know of a push besides request and response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Terms {
    /// When the request was sent to the origin, by the front's clock.
    pub asked: UnixMillis,
    /// When the response's head arrived, by the front's clock.
    pub received: UnixMillis,
    /// When the push was sent, by the front's clock.
    pub sent: UnixMillis,
    /// The number of the member's store that owns the object.
    pub column: u8,
    /// The incarnation of that store's column.
    pub incarnation: u64,
    /// The invalidation sequence that the member had told of that store when the fetch began.
    pub began: Sequence,
    /// How far the front had followed that store when it registered the name.
    pub known: Known,
}

impl Terms {
    /// The field value.
    pub fn encode(&self) -> String {
        let (asked, received, sent) = (self.asked.0, self.received.0, self.sent.0);
        let Terms {
            column,
            incarnation,
            began,
            known,
            ..
        } = self;
        let known = format!("{}.{}", known.incarnation, known.label);
        format!(
            "asked={asked};received={received};sent={sent};column={column};incarnation={incarnation};began={began};known={known}"
        )
    }

    /// Reads a field value. `None`: it is malformed, or its column number is above 255.
    pub fn decode(value: &[u8]) -> Option<Terms> {
        let mut items = std::str::from_utf8(value).ok()?.split(';');
        let mut item = |name: &str| items.next()?.strip_prefix(name)?.strip_prefix('=');
        let terms = Terms {
            asked: UnixMillis(item("asked")?.parse().ok()?),
            received: UnixMillis(item("received")?.parse().ok()?),
            sent: UnixMillis(item("sent")?.parse().ok()?),
            column: item("column")?.parse().ok()?,
            incarnation: item("incarnation")?.parse().ok()?,
            began: item("began")?.parse().ok()?,
            known: known(item("known")?)?,
        };
        let is_whole = items.next().is_none();
        let is_ordered = terms.asked <= terms.received && terms.received <= terms.sent;
        (is_whole && is_ordered).then_some(terms)
    }

    /// When the request was sent and the head came, by the clock of the member, which now shows `now`. Differences as small as those between
    /// clocks set by NTP are ignored, so that the member stores exactly the times that the front has noted.
    pub fn by_clock(&self, now: UnixMillis) -> (UnixMillis, UnixMillis) {
        if now.0.abs_diff(self.sent.0) < CLOCKS_DIFFER_MS {
            return (self.asked, self.received);
        }
        let ago = |then: UnixMillis| UnixMillis(now.0.saturating_sub(self.sent.0 - then.0));
        (ago(self.asked), ago(self.received))
    }
}

fn known(text: &str) -> Option<Known> {
    let (incarnation, label) = text.split_once('.')?;
    let (incarnation, label) = (incarnation.parse().ok()?, label.parse().ok()?);
    Some(Known { incarnation, label })
}

/// Writes the head of a request for the member to read.
pub fn write_request<'f>(
    method: &str,
    target: &str,
    host: Option<&str>,
    version: Version,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.as_bytes());
    out.extend_from_slice(match version {
        Version::Http10 => b" HTTP/1.0\r\n",
        // Members speak HTTP/1.1 to each other.
        Version::Http11 | Version::Http2 => b" HTTP/1.1\r\n",
    });
    if let Some(host) = host {
        head_lines::write_field(b"Host", host.as_bytes(), &mut out);
    }
    write_fields(fields, &[b"host"], &mut out);
    out.into()
}

/// Writes the head of a response for the member to read. `without_cookies`: leave out those, because they were meant for one client.
pub fn write_response(head: &ResponseHead, without_cookies: bool) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(match head.version {
        Version::Http10 => b"HTTP/1.0 ",
        Version::Http11 | Version::Http2 => b"HTTP/1.1 ",
    });
    message::write_decimal(u64::from(head.status), &mut out);
    out.push(b' ');
    out.extend_from_slice(head.reason.as_bytes());
    out.extend_from_slice(b"\r\n");
    let cookies: &[&[u8]] = &[b"set-cookie", b"set-cookie2"];
    let mut fields = head.fields.clone();
    message::remove_hop_by_hop(&mut fields);
    write_fields(
        fields.iter(),
        if without_cookies { cookies } else { &[] },
        &mut out,
    );
    out.into()
}

/// Writes all fields except those of framing and those in `but`, then the empty line.
fn write_fields<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    but: &[&[u8]],
    out: &mut Vec<u8>,
) {
    const FRAMING: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
    for (name, value) in fields {
        let is_left_out = |other: &&[u8]| name.eq_ignore_ascii_case(other);
        if !FRAMING.iter().any(is_left_out) && !but.iter().any(is_left_out) {
            head_lines::write_field(name, value, out);
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// The head of the POST, for a body of this length.
pub fn write_head(host: &str, terms: &Terms, body_bytes: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(320);
    http1::write_request_line("POST", TARGET, &mut out);
    head_lines::write_field(b"Host", host.as_bytes(), &mut out);
    head_lines::write_field(b"Content-Type", b"application/http", &mut out);
    head_lines::write_number_field(b"Content-Length", body_bytes, &mut out);
    head_lines::write_field(FIELD, terms.encode().as_bytes(), &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

/// The contents of a push.
#[derive(Debug)]
pub struct Pushed {
    /// The client's request.
    pub request: RequestHead,
    /// The response to it. Its framing is the length of `body`.
    pub response: ResponseHead,
    /// The response's body.
    pub body: Bytes,
}

/// Reads the body of a POST. `requests`, `responses`: limits for the two heads.
///
/// # Errors
/// It is not a GET request with a response to it.
pub fn read(message: &Bytes, requests: &Limits, responses: &Limits) -> Result<Pushed, Malformed> {
    let mut scratch = Scratch::new();
    let view = http1::parse_request(message, requests, &mut scratch)?;
    let request = view.ok_or(Malformed)?;
    let after_request = request.head_bytes;
    let request = request.to_owned();
    let rest = &message[after_request..];
    let (mut response, head_bytes) =
        http1::parse_response(rest, responses, "GET")?.ok_or(Malformed)?;
    let body = message.slice(after_request + head_bytes..);
    if request.method != "GET" || request.framing != Framing::None {
        return Err(Malformed);
    }
    if response.framing == Framing::UntilClose {
        response.framing = Framing::Length(body.len() as u64);
    } else if response.framing != Framing::None || !body.is_empty() {
        return Err(Malformed);
    }
    Ok(Pushed {
        request,
        response,
        body,
    })
}

/// The message is not a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed;

impl From<Reject> for Malformed {
    fn from(_: Reject) -> Malformed {
        Malformed
    }
}

/// What a member did with a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Stored.
    Stored,
    /// The member's rules or its admission policy refuse it.
    Policy,
    /// Longer than the member stores.
    Size,
    /// A purge after the fetch began covers it.
    Invalidated,
    /// The member stores nothing at present.
    Paused,
    /// The store did not accept it.
    Disk,
    /// The member could not read the push.
    Malformed,
}

/// Each verdict with its status code and name.
const VERDICTS: [(Verdict, u16, &str); 7] = [
    (Verdict::Stored, 204, "stored"),
    (Verdict::Policy, 403, "policy"),
    (Verdict::Size, 413, "size"),
    (Verdict::Invalidated, 409, "invalidated"),
    (Verdict::Paused, 503, "paused"),
    (Verdict::Disk, 507, "disk"),
    (Verdict::Malformed, 400, "malformed"),
];

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; VERDICTS.len()] = {
        let mut all = [Verdict::Stored; VERDICTS.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = VERDICTS[at].0;
            // Counters are indexed by the number of a verdict, and reported in this order.
            assert!(all[at] as usize == at);
            at += 1;
        }
        all
    };

    /// The status code of the answer.
    pub fn status(self) -> u16 {
        self.row().1
    }

    /// The verdict of a status code; a code that no member sends counts as `Malformed`.
    pub fn of_status(status: u16) -> Verdict {
        let row = VERDICTS.iter().find(|row| row.1 == status);
        row.map_or(Verdict::Malformed, |row| row.0)
    }

    /// Its name in logs and metrics.
    pub fn as_str(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Verdict, u16, &'static str) {
        let row = VERDICTS.iter().find(|row| row.0 == self);
        row.expect("each verdict has its row")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms() -> Terms {
        Terms {
            asked: UnixMillis(10_000),
            received: UnixMillis(10_200),
            sent: UnixMillis(10_300),
            column: 1,
            incarnation: 5,
            began: 9,
            known: known("5.12").unwrap(),
        }
    }

    #[test]
    fn terms_are_read_as_they_are_written() {
        assert_eq!(Terms::decode(terms().encode().as_bytes()), Some(terms()));
    }

    #[test]
    fn terms_that_are_not_whole_or_run_backwards_are_refused() {
        let whole = terms().encode();
        // A missing last digit cannot be detected.
        for end in 0..whole.len() - 1 {
            assert_eq!(Terms::decode(&whole.as_bytes()[..end]), None, "{end}");
        }
        assert_eq!(Terms::decode(format!("{whole};more=1").as_bytes()), None);
        let late = Terms {
            received: UnixMillis(20_000),
            ..terms()
        };
        assert_eq!(Terms::decode(late.encode().as_bytes()), None);
    }

    #[test]
    fn clocks_that_differ_shift_the_times_and_small_differences_do_not() {
        let times = |now| terms().by_clock(UnixMillis(now));
        assert_eq!(times(10_900), (UnixMillis(10_000), UnixMillis(10_200)));
        assert_eq!(times(70_300), (UnixMillis(70_000), UnixMillis(70_200)));
        assert_eq!(times(100), (UnixMillis(0), UnixMillis(0)));
    }

    const LIMITS: Limits = Limits {
        head_bytes_max: 4096,
        target_bytes_max: 1024,
        fields_max: 32,
        lenient: http1::Lenient::NOTHING,
    };

    fn message(request: &str, response: &str) -> Result<Pushed, Malformed> {
        read(&Bytes::from([request, response].concat()), &LIMITS, &LIMITS)
    }

    const GET: &str = "GET /a HTTP/1.1\r\nHost: o\r\n\r\n";

    #[test]
    fn what_was_written_is_read() {
        let pushed = message(GET, "HTTP/1.0 200 Fine\r\nEtag: \"1\"\r\n\r\nbody").unwrap();
        let request = &pushed.request;
        let again = write_request(
            "GET",
            &request.target,
            request.host.as_deref(),
            request.version,
            request.fields.iter(),
        );
        assert_eq!(again, GET);
        let response = write_response(&pushed.response, false);
        assert_eq!(response, "HTTP/1.0 200 Fine\r\nEtag: \"1\"\r\n\r\n");
        assert_eq!(
            (pushed.response.framing, &pushed.body[..]),
            (Framing::Length(4), &b"body"[..])
        );
    }

    #[test]
    fn framing_and_cookies_stay_behind() {
        let head = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nTransfer-Encoding: chunked\r\nConnection: x\r\nX: 1\r\nY: 2\r\n\r\n";
        let (head, _) = http1::parse_response(head.as_bytes(), &LIMITS, "GET")
            .unwrap()
            .unwrap();
        assert_eq!(
            write_response(&head, true),
            "HTTP/1.1 200 OK\r\nY: 2\r\n\r\n"
        );
        assert!(
            write_response(&head, false).starts_with(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\n")
        );
    }

    #[test]
    fn a_message_that_is_no_get_with_its_response_is_refused() {
        let ok = "HTTP/1.1 200 OK\r\n\r\n";
        assert!(message(GET, ok).is_ok());
        assert!(message(GET, "").is_err());
        assert!(message(GET, "HTTP/1.1 200").is_err());
        assert!(message("POST /a HTTP/1.1\r\nHost: o\r\n\r\n", ok).is_err());
        assert!(
            message(
                "GET /a HTTP/1.1\r\nHost: o\r\nContent-Length: 2\r\n\r\n",
                ok
            )
            .is_err()
        );
        assert!(message(GET, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nbody").is_err());
        assert!(message(GET, "HTTP/1.1 204 No Content\r\n\r\nbody").is_err());
    }

    #[test]
    fn verdicts_are_read_as_they_are_told() {
        for verdict in Verdict::ALL {
            assert_eq!(Verdict::of_status(verdict.status()), verdict);
        }
        assert_eq!(Verdict::of_status(502), Verdict::Malformed);
    }
}
