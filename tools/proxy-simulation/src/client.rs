//! Clients, operators and editors: they ask, purge and change.
//!
//! A client has one connection at a time, to one listener, and asks again and again, in all the ways there are. It is checked at once
//! what it gets ([`crate::check`]). Some read slowly, stop reading, or go away.
//!
//! Not known here: what is right.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    time::{sleep, timeout},
};

use crate::{
    check::{self, Got},
    http::Stream,
    life::{Listener, Place},
    world::{About, Purge, Resource, Shared, Vary, World},
};

/// An exchange has ended after so long (R7): no wait of the proxy is longer than this, and few follow each other.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// With a client that is slow itself.
const ENDS_WITHIN_SLOW: Duration = Duration::from_secs(3000);

/// How a client takes its answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Taking {
    Well,
    /// In small pieces, with pauses.
    Slowly,
    /// Nothing for minutes.
    Not,
    /// It closes in the middle.
    Leaves,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Its number.
    pub number: u64,
    /// When it began.
    pub began: u64,
    /// The same as time.
    pub began_ms: u64,
    /// By which listener.
    pub listener: &'static str,
    /// For what.
    pub resource: usize,
    /// May the listener lead there?
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
    /// It says who it is.
    pub is_authorised: bool,
    /// Stale answers are fine, for so many seconds.
    pub stale_allowed_s: u64,
    /// Bytes of body, and whether they come in chunks.
    body: Option<(usize, bool)>,
}

impl Ask {
    /// May it change something?
    pub fn is_unsafe(&self) -> bool {
        !matches!(self.method, "GET" | "HEAD")
    }

    fn bytes(&self, listener: &Listener, resource: &Resource) -> Vec<u8> {
        let target = match listener.is_forward {
            true => resource.url(),
            false => resource.path.clone(),
        };
        let mut out = format!(
            "{} {target} HTTP/1.1\r\nHost: {}\r\nX-Request: {}\r\nX-Flavor: {}\r\n",
            self.method, resource.host, self.number, self.flavor
        );
        let mut field = |name: &str, value: &str| {
            if !value.is_empty() {
                out += &format!("{name}: {value}\r\n");
            }
        };
        field("Accept-Encoding", self.codings);
        field("Range", &self.range);
        field("If-None-Match", &self.if_none_match);
        field("Cache-Control", self.directives);
        field(
            "Authorization",
            if self.is_authorised {
                "Basic c3F1aWQ="
            } else {
                ""
            },
        );
        match self.body {
            None => out += "\r\n",
            Some((bytes, false)) => {
                out += &format!("Content-Length: {bytes}\r\n\r\n");
                out += &"x".repeat(bytes);
            }
            Some((bytes, true)) => {
                let body = "y".repeat(bytes);
                out +=
                    &format!("Transfer-Encoding: chunked\r\n\r\n{bytes:x}\r\n{body}\r\n0\r\n\r\n");
            }
        }
        out.into_bytes()
    }
}

/// Asks until the run is over.
pub async fn run(world: Shared, place: Rc<Place>, number: usize) {
    let peer = SocketAddr::from(([10, 0, 0, number as u8], 50_000));
    while !place.is_over() {
        let (worker, listener, room) = {
            let mut world = world.borrow_mut();
            let random = &mut world.random;
            let room = random.pick(&[2 << 10, 16 << 10, 128 << 10]);
            (
                random.index(place.workers),
                random.index(place.count()),
                room,
            )
        };
        match place.connect(worker, listener, peer, room) {
            Some(socket) => {
                let mut stream = Stream::new(socket);
                let led = place.listener(listener);
                while !place.is_over() && exchange(&world, &place, &mut stream, &led).await {
                    pause(&world, 4000).await;
                }
            }
            None => sleep(Duration::from_millis(500)).await,
        }
        pause(&world, 2000).await;
    }
}

async fn pause(world: &Shared, ms_max: u64) {
    let ms = {
        let mut world = world.borrow_mut();
        match world.random.below(3) {
            0 => 0,
            1 => world.random.below(100),
            _ => world.random.below(ms_max),
        }
    };
    sleep(Duration::from_millis(ms)).await;
}

/// One request and its answer. `false`: the connection is of no more use.
async fn exchange(world: &Shared, place: &Place, stream: &mut Stream, led: &Listener) -> bool {
    let (ask, taking) = draw(world, place, led);
    let bytes = {
        let mut world = world.borrow_mut();
        let resource = world.resources[ask.resource].clone();
        world.tell(ask.resource, || {
            format!(
                "request {} begins at tick {}: {ask:?}, {taking:?}",
                ask.number, ask.began
            )
        });
        ask.bytes(led, &resource)
    };
    let within = match taking {
        Taking::Well | Taking::Leaves => ENDS_WITHIN,
        Taking::Slowly | Taking::Not => ENDS_WITHIN_SLOW,
    };
    stream.step = match taking {
        Taking::Slowly => 700,
        _ => 64 << 10,
    };
    let answered = timeout(within, converse(world, stream, &ask, taking, &bytes)).await;
    let mut world = world.borrow_mut();
    let world = &mut *world;
    let Ok(answered) = answered else {
        let message = format!(
            "R7: request {} did not end within {} s",
            ask.number,
            within.as_secs()
        );
        world.fail(message, Some(ask.resource));
        return false;
    };
    let Ok(Some((got, stays))) = answered else {
        world.note(ask.number);
        world.tell(ask.resource, || {
            format!("request {} ends without an answer", ask.number)
        });
        return false;
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
    if let Err(broken) = check::check(world, &ask, &got) {
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
    stays && got.is_complete
}

/// Sends a request and reads its answer; and whether the connection stays.
async fn converse(
    world: &Shared,
    stream: &mut Stream,
    ask: &Ask,
    taking: Taking,
    bytes: &[u8],
) -> io::Result<Option<(Got, bool)>> {
    stream.socket.write_all(bytes).await?;
    if taking == Taking::Not {
        sleep(Duration::from_secs(200)).await;
    }
    let Some(head) = stream.response().await? else {
        return Ok(None);
    };
    let head_ms = world.borrow().now_ms();
    let mut framing = head.response_framing(ask.method);
    let mut body = Vec::new();
    let is_complete = loop {
        match stream.piece(&mut framing).await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => break true,
            Err(_) => break false,
        }
        match taking {
            Taking::Slowly => sleep(Duration::from_millis(20)).await,
            Taking::Leaves => break false,
            Taking::Well | Taking::Not => {}
        }
    };
    let stays = head.fields.get("connection") != Some("close");
    let got = Got {
        status: head.status(),
        fields: head.fields,
        body,
        is_complete,
        head_ms,
    };
    Ok(Some((got, stays)))
}

/// What is asked next.
fn draw(world: &Shared, place: &Place, led: &Listener) -> (Ask, Taking) {
    let mut world = world.borrow_mut();
    let world = &mut *world;
    let number = world.next_request();
    let (began, began_ms) = (world.tick(), world.now_ms());
    // Half of all requests are for a few.
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
        body: (method == "POST" || method == "PUT").then(|| (random.index(5000), random.one_in(2))),
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

/// Purges now and then, by URL, beginning and tag, hard and soft, until the run is over.
pub async fn operate(world: Shared, place: Rc<Place>) {
    while !place.is_over() {
        pause(&world, 12_000).await;
        purge(&world, &place).await;
    }
}

/// A purge as it is drawn: of what, in the admin interface's words, and whether it is soft.
fn draw_purge(world: &mut World) -> (About, String, bool) {
    let count = world.resources.len();
    // Half of all purges are of a few.
    let of = match world.random.one_in(2) {
        true => count.min(4),
        false => count,
    };
    let resource = world.random.index(of);
    let resource = world.resources[resource].clone();
    let soft = world.random.one_in(3);
    let url = resource.url();
    let (about, query) = match world.random.below(6) {
        0 => {
            let prefix = url[..url.rfind('/').unwrap_or(0) + 1].to_owned();
            let query = format!("prefix={prefix}");
            (About::Prefix(prefix), query)
        }
        1 if !resource.tag.is_empty() => {
            (About::Tag(resource.tag), format!("tag={}", resource.tag))
        }
        _ => {
            let query = format!("url={url}");
            (About::Url(url), query)
        }
    };
    let query = if soft { query + "&soft=1" } else { query };
    (about, query, soft)
}

/// One purge, until it is acknowledged.
pub async fn purge(world: &Shared, place: &Place) {
    let Some(proxy) = place.proxy() else { return };
    let (about, query, soft, issued, life) = {
        let mut world = world.borrow_mut();
        let (about, query, soft) = draw_purge(&mut world);
        (about, query, soft, world.tick(), world.life)
    };
    let purged = proxy.purge(&query).await;
    drop(proxy);
    let mut world = world.borrow_mut();
    match purged {
        // What a proxy did that has ended meanwhile is told to nobody.
        Ok(_) if world.life != life || place.proxy().is_none() => {}
        Ok(durable) => {
            let acknowledged = world.tick();
            world.purged(Purge {
                about,
                soft,
                by: "a purge",
                issued,
                acknowledged,
                durable,
                life,
            });
        }
        Err(why) => world.fail(format!("a purge was refused: {why}: {query}"), None),
    }
}

/// Changes what there is at the origins, and nobody is told.
pub async fn edit(world: Shared, place: Rc<Place>) {
    while !place.is_over() {
        pause(&world, 5000).await;
        let mut world = world.borrow_mut();
        let count = world.resources.len();
        let n = world.random.index(count);
        world.resources[n].version += 1;
        if world.random.one_in(6) {
            world.resources[n].vary =
                world
                    .random
                    .pick(&[Vary::Nothing, Vary::Flavor, Vary::Coding]);
        }
        let Resource { version, vary, .. } = world.resources[n];
        world.tell(n, || {
            format!("the origin has version {version} now, by {vary:?}")
        });
    }
}
