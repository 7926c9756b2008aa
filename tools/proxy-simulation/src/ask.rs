//! Requests of clients, and the handling of answers, for both HTTP/1 and HTTP/2.
//!
//! Not known here: connections; the rules (`check`).

use std::{net::IpAddr, time::Duration};

use crate::{
    check::{self, Got},
    life::{Listener, Place},
    world::{About, Purge, Resource, Sent, Shared, World},
};

/// An exchange must have ended after this long (R7): all time-outs of the proxy are shorter, and few follow each other.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// The same for a client that is slow itself.
const ENDS_WITHIN_SLOW: Duration = Duration::from_secs(3000);
/// The longest body of a request: longer than the initial window of a stream of HTTP/2.
const BODY_BYTES_MAX: usize = 150_000;

/// How a client reads its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taking {
    /// As it arrives.
    Well,
    /// In small pieces, with pauses.
    Slowly,
    /// Reads nothing for minutes.
    Not,
    /// Closes in the middle.
    Leaves,
}

impl Taking {
    /// How long the exchange may last.
    pub fn ends_within(self) -> Duration {
        match self {
            Taking::Well | Taking::Leaves => ENDS_WITHIN,
            Taking::Slowly | Taking::Not => ENDS_WITHIN_SLOW,
        }
    }
}

/// The body of a request.
#[derive(Clone, Copy, Debug)]
pub struct Upload {
    /// Number of bytes.
    pub bytes: usize,
    /// The length is not announced.
    pub is_chunked: bool,
    /// The client closes after this many bytes.
    pub breaks_off: Option<usize>,
}

/// The body of a request: no two requests have the same.
pub fn upload_bytes(number: u64, bytes: usize) -> Vec<u8> {
    let first = number.wrapping_mul(37) as usize;
    (0..bytes)
        .map(|n| first.wrapping_add(n * 7 + n / 251) as u8)
        .collect()
}

/// One request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its number.
    pub number: u64,
    /// When it began, as a tick.
    pub began: u64,
    /// When it began, in virtual milliseconds.
    pub began_ms: u64,
    /// The listener by which it is sent.
    pub listener: &'static str,
    /// The requested resource.
    pub resource: usize,
    /// Whether the listener may lead to the resource.
    pub may_have_resource: bool,
    /// Method.
    pub method: &'static str,
    /// Value of X-Flavor.
    pub flavor: u64,
    /// Value of Accept-Encoding.
    pub codings: &'static str,
    /// Value of Range, or empty.
    pub range: String,
    /// Value of If-None-Match, or empty.
    pub if_none_match: String,
    /// Value of Cache-Control, or empty.
    pub directives: &'static str,
    /// It has an Authorization field.
    pub is_authorised: bool,
    /// Stale answers are allowed for this many seconds.
    pub stale_allowed_s: u64,
    /// Its body.
    pub upload: Option<Upload>,
}

impl Ask {
    /// Whether the method is unsafe.
    pub fn is_unsafe(&self) -> bool {
        !matches!(self.method, "GET" | "HEAD")
    }

    /// Its fields that are the same in all versions of HTTP.
    pub fn fields(&self, resource: &Resource) -> Vec<(&'static str, String)> {
        let authorization = match self.is_authorised {
            true => format!("Basic {}", resource.host),
            false => String::new(),
        };
        let all = [
            ("x-request", self.number.to_string()),
            ("x-flavor", self.flavor.to_string()),
            ("accept-encoding", self.codings.to_owned()),
            ("range", self.range.clone()),
            ("if-none-match", self.if_none_match.clone()),
            ("cache-control", self.directives.to_owned()),
            ("authorization", authorization),
        ];
        all.into_iter()
            .filter(|field| !field.1.is_empty())
            .collect()
    }

    /// The request by this listener as HTTP/1, and whether these are all its bytes.
    pub fn bytes(&self, listener: &Listener, resource: &Resource) -> (Vec<u8>, bool) {
        let target = match listener.is_forward {
            true => resource.url(),
            false => resource.path.clone(),
        };
        let mut head = format!(
            "{} {target} HTTP/1.1\r\nHost: {}\r\n",
            self.method, resource.host
        );
        for (name, value) in self.fields(resource) {
            head += &format!("{name}: {value}\r\n");
        }
        let Some(upload) = self.upload else {
            return ((head + "\r\n").into_bytes(), true);
        };
        let body = upload_bytes(self.number, upload.bytes);
        let sent = &body[..upload.breaks_off.unwrap_or(upload.bytes)];
        let is_whole = upload.breaks_off.is_none();
        head += &match upload.is_chunked {
            true => format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", upload.bytes),
            false => format!("Content-Length: {}\r\n\r\n", upload.bytes),
        };
        let mut out = [head.as_bytes(), sent].concat();
        if upload.is_chunked && is_whole {
            let end: &[u8] = match upload.bytes {
                0 => b"\r\n",
                _ => b"\r\n0\r\n\r\n",
            };
            out.extend_from_slice(end);
        }
        (out, is_whole)
    }
}

/// The end of an exchange.
pub enum Came {
    /// An answer.
    Answer(Got),
    /// The connection or the stream ended without an answer.
    Nothing,
    /// The exchange did not end in time.
    Never,
}

/// Records the end of an exchange, and checks the answer.
pub fn end(world: &Shared, ask: &Ask, taking: Taking, came: &Came) {
    let mut world = world.borrow_mut();
    let world = &mut *world;
    let got = match came {
        Came::Answer(got) => got,
        Came::Nothing => {
            world.note(ask.number);
            world.tell(ask.resource, || {
                format!("request {} ends without an answer", ask.number)
            });
            return;
        }
        Came::Never => {
            let within = taking.ends_within().as_secs();
            let message = format!("R7: request {} did not end within {within} s", ask.number);
            world.fail(message, Some(ask.resource));
            return;
        }
    };
    world.note(ask.number << 16 | u64::from(got.status));
    world.note(got.body.len() as u64);
    world.note(got.fields.number("x-serial").unwrap_or(u64::MAX));
    world.note(world.now_ms());
    world.tell(ask.resource, || {
        let field = |name| got.fields.get(name).unwrap_or("-").to_owned();
        format!(
            "request {} is answered {}, serial {}, {} bytes, complete: {}, {}",
            ask.number,
            got.status,
            field("x-serial"),
            got.body.len(),
            got.is_complete,
            field("cache-status")
        )
    });
    if let Err(broken) = check::check(world, ask, got) {
        world.fail(
            format!("{broken} (request {})", ask.number),
            Some(ask.resource),
        );
    }
    if ask.is_unsafe() && (200..400).contains(&got.status) {
        let is_purge = ask.method == "PURGE";
        let (acknowledged, life) = (world.tick(), world.life);
        world.purged(Purge {
            about: About::One(ask.resource),
            soft: false,
            by: ask.method,
            issued: ask.began,
            acknowledged,
            durable: is_purge,
            life,
        });
    }
}

/// Draws the next request of this client by this listener, and records it.
pub fn draw(world: &Shared, place: &Place, led: &Listener, client: IpAddr) -> (Ask, Taking) {
    let mut world = world.borrow_mut();
    let (ask, taking) = drawn(&mut world, place, led);
    world.sent(Sent {
        client,
        upload: ask.upload.map_or(0, |upload| upload.bytes),
        is_whole: ask.upload.is_none_or(|upload| upload.breaks_off.is_none()),
        is_told: led.tells_client,
        is_authorised: ask.is_authorised,
        is_bound: false,
        may_repeat: matches!(ask.method, "PUT" | "DELETE"),
        is_unsafe: ask.is_unsafe(),
        seen: None,
    });
    world.tell(ask.resource, || {
        format!(
            "request {} begins at tick {}: {ask:?}, {taking:?}",
            ask.number, ask.began
        )
    });
    (ask, taking)
}

fn drawn(world: &mut World, place: &Place, led: &Listener) -> (Ask, Taking) {
    let number = world.next_request();
    let (began, began_ms) = (world.tick(), world.now_ms());
    // Half of all requests are for a few resources.
    let known: Vec<usize> = (0..world.resources.len())
        .filter(|&n| led.names(&world.resources[n]))
        .collect();
    let random = &mut world.random;
    let few = known.len().min(3);
    let resource = match random.one_in(2) {
        true => known[random.index(few)],
        false => known[random.index(known.len())],
    };
    let may_have_resource = led.leads_to(&world.resources[resource]);
    let wanted = &world.resources[resource];
    let length = wanted.length(wanted.version);
    let method = match random.below(40) {
        0 => "POST",
        1 => "PUT",
        2 => "DELETE",
        3 if !led.is_forward => "PURGE",
        3..6 => "HEAD",
        _ => "GET",
    };
    let is_get = method == "GET";
    let range = match random.below(12) {
        0 if is_get => {
            let from = random.below(length);
            format!("bytes={from}-{}", from + random.below(length))
        }
        1 if is_get => format!("bytes={}-", random.below(length)),
        2 if is_get => format!("bytes=-{}", 1 + random.below(length)),
        3 if is_get => {
            let (one, two) = (random.below(length / 2 + 1), random.below(length / 4 + 1));
            format!(
                "bytes={one}-{},{}-{}",
                one + 50,
                length / 2 + two,
                length / 2 + two + 60
            )
        }
        _ => String::new(),
    };
    let (flavor, codings) = (
        random.below(3),
        random.pick(&["", "gzip", "br", "gzip, br", "identity"]),
    );
    let version = wanted.version.saturating_sub(random.below(2));
    let if_none_match = match random.below(10) {
        0 if !ask_unsafe(method) => Resource::etag(version, random.below(3)),
        _ => String::new(),
    };
    let (directives, stale_allowed_s) = match random.below(24) {
        0 => ("no-cache", 0),
        1 => ("max-age=0", 0),
        2 => ("only-if-cached", 0),
        3 => ("no-store", 0),
        4 => ("max-stale=60", 60),
        _ => ("", 0),
    };
    let upload = (method == "POST" || method == "PUT").then(|| {
        let bytes = match random.below(6) {
            0 => random.index(BODY_BYTES_MAX),
            1 => 0,
            _ => random.index(5000),
        };
        Upload {
            bytes,
            is_chunked: random.one_in(2),
            breaks_off: (bytes > 0 && random.one_in(4)).then(|| random.index(bytes)),
        }
    });
    let ask = Ask {
        number,
        began,
        began_ms,
        listener: led.name,
        resource,
        may_have_resource,
        method,
        flavor,
        codings,
        range,
        if_none_match,
        directives,
        is_authorised: random.one_in(12),
        stale_allowed_s: stale_allowed_s.max(place.stale_allowed_s),
        upload,
    };
    let taking = match random.below(60) {
        0 => Taking::Slowly,
        1 => Taking::Not,
        2..4 => Taking::Leaves,
        _ => Taking::Well,
    };
    (ask, taking)
}

fn ask_unsafe(method: &str) -> bool {
    !matches!(method, "GET" | "HEAD")
}
