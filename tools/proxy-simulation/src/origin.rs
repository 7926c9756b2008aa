//! Origins: servers that have resources, and behave like real servers, including their faults.
//!
//! Each accepted connection is a task. A fault is drawn for each answer: it may be late, never come, be a 503, break off in the middle,
//! come slowly, end with the connection instead of a length, or be private.
//!
//! Not known here: caches.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use proxy::simulation::{Connection, Socket, pair};
use tokio::{io::AsyncWriteExt, sync::mpsc, time::sleep};

use crate::{
    chosen::{ELSEWHERE, FILES, INDEX, at, server_of},
    drill,
    http::{Framing, Head, Stream},
    tunnel,
    world::{Answer, Resource, Seen, Shared, Vary, write_body},
};

/// Bytes that each direction of a connection can hold.
const ROOM_BYTES: usize = 32 << 10;
/// The content codings, by number of the variant.
pub const CODINGS: [&str; 3] = ["identity", "gzip", "br"];

/// An accepted connection, and the address of the origin.
pub type Accepted = (Socket, SocketAddr);

/// The answer for an unknown path, including health checks.
const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nCache-Control: no-store\r\n\r\n";
/// The answer of a server that fails.
const FAILED: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nCache-Control: max-age=0\r\n\r\nfail";

/// The outcome of connecting to `to`.
pub fn connect(
    world: &Shared,
    to: SocketAddr,
    accepts: &mpsc::UnboundedSender<Accepted>,
) -> Connection {
    let mut world = world.borrow_mut();
    if let Some(server) = server_of(to) {
        let server = &mut world.servers[server];
        server.tries += 1;
        if server.is_down {
            return Connection {
                after: Duration::from_millis(1),
                outcome: Some(Err(io::ErrorKind::ConnectionRefused)),
            };
        }
    }
    let calm = world.calm;
    let random = &mut world.random;
    let after = Duration::from_millis(random.below(40));
    if !calm && random.one_in(60) {
        let refused = Err(io::ErrorKind::ConnectionRefused);
        let outcome = (!random.one_in(3)).then_some(refused);
        return Connection { after, outcome };
    }
    let local = SocketAddr::from(([198, 51, 100, 1], 40_000));
    let (ours, theirs) = pair(local, to, ROOM_BYTES);
    // The receiver lives as long as the run.
    let _ = accepts.send((theirs, to));
    Connection {
        after,
        outcome: Some(Ok(ours)),
    }
}

/// Accepts connections for all origins until the run ends.
pub async fn run(world: Shared, mut accepted: mpsc::UnboundedReceiver<Accepted>) {
    while let Some((socket, origin)) = accepted.recv().await {
        let world = Rc::clone(&world);
        tokio::task::spawn_local(async move {
            // An error means that the proxy closed the connection, which it may.
            let _ = converse(&world, Stream::new(socket), origin).await;
        });
    }
}

/// The fault of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Manner {
    Well,
    /// No byte is ever sent.
    Hangs,
    /// The connection closes instead.
    Closes,
    /// The answer is a 503.
    Fails,
    /// The body ends too early.
    BreaksOff,
    /// The body stops, and the connection stays.
    Stalls,
    /// The body comes slowly.
    Trickles,
}

async fn converse(world: &Shared, mut stream: Stream, origin: SocketAddr) -> io::Result<()> {
    if tunnel::is_server(origin) {
        tunnel::serve(world, stream).await;
        return Ok(());
    }
    let told = stream.named_client().await?;
    while let Some(head) = stream.request().await? {
        if let Some(server) = server_of(origin).filter(|_| head.target == "/health") {
            let is_ill = world.borrow().servers[server].is_ill;
            stream
                .socket
                .write_all(if is_ill { FAILED } else { NOT_FOUND })
                .await?;
            break;
        }
        let begun = world.borrow_mut().tick();
        whose(world, origin, &head, told);
        let mut framing = head.request_framing();
        let mut body = Vec::new();
        while let Some(piece) = stream.piece(&mut framing).await? {
            body.extend_from_slice(&piece);
        }
        if !answer(world, &mut stream, origin, &head, (&body, begun)).await? {
            break;
        }
    }
    Ok(())
}

/// Checks that what the origin is told of the client is true (R12).
fn whose(world: &Shared, origin: SocketAddr, head: &Head, told: Option<IpAddr>) {
    let mut world = world.borrow_mut();
    if origin == at(ELSEWHERE.0, 80) {
        world.fail(
            "R2: the mirror asks where it may not be sent".to_owned(),
            None,
        );
    }
    if origin == at(FILES.0, 80) && head.fields.get("authorization").is_some() {
        let message = "R4: who says to one host who he is, says so to another".to_owned();
        world.fail(message, None);
    }
    let number = head.fields.number("x-request").unwrap_or(u64::MAX);
    let Some(sent) = world.sent_as(number) else {
        return;
    };
    let client = sent.client.to_string();
    let by_field = head.fields.get("x-forwarded-for").unwrap_or(&client);
    let is_right = by_field == client
        && match told {
            Some(told) => told == sent.client,
            None => !sent.is_told,
        };
    if !is_right {
        let message = format!(
            "R12: request {number} is of {client}; the connection is said to be of {told:?}, the request of {by_field}"
        );
        world.fail(message, None);
    }
}

/// Answers one request. Returns false if the connection closes, perhaps unannounced.
async fn answer(
    world: &Shared,
    stream: &mut Stream,
    origin: SocketAddr,
    head: &Head,
    (body, begun): (&[u8], u64),
) -> io::Result<bool> {
    let stays = answer_it(world, stream, origin, head, (body, begun)).await?;
    let closes_in = {
        let random = &mut world.borrow_mut().random;
        let pause = random.pick(&[0, 1, 1000]);
        (random.one_in(12)).then(|| Duration::from_millis(random.below(pause + 1)))
    };
    if let Some(pause) = closes_in.filter(|_| stays) {
        // Requests that arrive meanwhile are not read.
        sleep(pause).await;
        return Ok(false);
    }
    Ok(stays)
}

async fn answer_it(
    world: &Shared,
    stream: &mut Stream,
    origin: SocketAddr,
    head: &Head,
    (body, begun): (&[u8], u64),
) -> io::Result<bool> {
    let (manner, late, closes) = {
        let mut world = world.borrow_mut();
        world.counts.asked += 1;
        if let Some(server) = server_of(origin) {
            world.servers[server].asked += 1;
        }
        let calm = world.calm;
        let random = &mut world.random;
        let manner = match random.below(if calm { 40 } else { 60 }) {
            _ if head.target.starts_with(drill::CLOSES) => Manner::Closes,
            // A POST that may have been carried out: a wrong proxy would send it again.
            _ if head.first == "POST" && !calm && random.one_in(3) => Manner::Closes,
            0..40 => Manner::Well,
            40 => Manner::Hangs,
            41..43 => Manner::Closes,
            43..46 => Manner::Fails,
            46..52 => Manner::BreaksOff,
            52..53 => Manner::Stalls,
            _ => Manner::Trickles,
        };
        let late = match random.below(6) {
            0 => random.below(3000),
            1..3 => random.below(300),
            _ => random.below(20),
        };
        let closes = random.one_in(12);
        let became = match manner {
            Manner::Closes => Seen::Closed,
            _ => Seen::Taken,
        };
        let request = head.fields.number("x-request").unwrap_or(u64::MAX);
        if let Err(broken) = world.received(request, body, became) {
            world.fail(format!("{broken} ({})", head.first), None);
        }
        (manner, late, closes)
    };
    let is_drill = head.target.starts_with("/drill/");
    if !is_drill {
        sleep(Duration::from_millis(late)).await;
    }
    match manner {
        Manner::Hangs => {
            // Waits until the proxy closes.
            let _ = stream.request().await;
            return Ok(false);
        }
        Manner::Closes => return Ok(false),
        _ => {}
    }
    let host = head.fields.get("host").unwrap_or_default();
    let found = world.borrow().find(origin, host, &head.target);
    let fails = server_of(origin).is_some_and(|server| world.borrow().servers[server].fails);
    if manner == Manner::Fails || fails && head.first != "GET" {
        stream.socket.write_all(FAILED).await?;
        return Ok(true);
    }
    if head.target.starts_with("/drill/slow") {
        sleep(drill::SLOW).await;
    }
    let Some(number) = found else {
        stream.socket.write_all(NOT_FOUND).await?;
        return Ok(true);
    };
    let is_file = world.borrow().resources[number].is_file;
    if is_file && !matches!(head.first.as_str(), "GET" | "HEAD") {
        stream.socket.write_all(NOT_FOUND).await?;
        return Ok(true);
    }
    if is_file && origin == at(INDEX, 80) && redirect(world, stream, head).await? {
        return Ok(true);
    }
    if !matches!(head.first.as_str(), "GET" | "HEAD") {
        return change(world, stream, head, number).await;
    }
    let made = make(world, head, number, begun, closes, manner);
    send(world, stream, head, &made, manner).await?;
    Ok(!made.closes)
}

/// Redirects a request for a file to its host, or to one that is not allowed. Returns false if the file is here.
async fn redirect(world: &Shared, stream: &mut Stream, head: &Head) -> io::Result<bool> {
    let (to, says) = {
        let mut world = world.borrow_mut();
        let to = (world.random).pick(&["", FILES.1, FILES.1, FILES.1, ELSEWHERE.1]);
        let says = world
            .random
            .pick(&["max-age=1", "public, max-age=1", "no-store"]);
        if says == "no-store" && !to.is_empty() {
            world.binds(head.fields.number("x-request").unwrap_or(u64::MAX));
        }
        (to, says)
    };
    if to.is_empty() {
        return Ok(false);
    }
    let answer = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{to}{}\r\nContent-Length: 0\r\nCache-Control: {says}\r\n\r\n",
        head.target
    );
    stream.socket.write_all(answer.as_bytes()).await?;
    Ok(true)
}

/// An unsafe method: changes the resource.
async fn change(
    world: &Shared,
    stream: &mut Stream,
    head: &Head,
    number: usize,
) -> io::Result<bool> {
    let refuses = {
        let mut world = world.borrow_mut();
        let refuses = world.random.one_in(5);
        if !refuses {
            let resource = &mut world.resources[number];
            resource.version += 1;
            let version = resource.version;
            world.tell(number, || {
                format!("{} makes it version {version}", head.first)
            });
        }
        refuses
    };
    let answer: &[u8] = match refuses {
        true => b"HTTP/1.1 409 Conflict\r\nContent-Length: 0\r\n\r\n",
        false => b"HTTP/1.1 204 No Content\r\n\r\n",
    };
    stream.socket.write_all(answer).await?;
    Ok(true)
}

/// An answer, ready to be sent.
struct Made {
    head: Vec<u8>,
    framing: Framing,
    resource: usize,
    variant: u64,
    version: u64,
    range: std::ops::Range<u64>,
    closes: bool,
    is_wrong: bool,
}

fn variant_of(vary: Vary, head: &Head) -> u64 {
    match vary {
        Vary::Nothing => 0,
        Vary::Flavor => head.fields.number("x-flavor").unwrap_or(0),
        Vary::Coding => {
            let accepted = head.fields.get("accept-encoding").unwrap_or_default();
            let best = (1..CODINGS.len())
                .rev()
                .find(|&n| accepted.contains(CODINGS[n]));
            best.unwrap_or(0) as u64
        }
    }
}

/// Chooses an answer, and records it.
fn make(
    world: &Shared,
    head: &Head,
    number: usize,
    begun: u64,
    closes: bool,
    manner: Manner,
) -> Made {
    let mut world = world.borrow_mut();
    let resource = world.resources[number].clone();
    let request = head.fields.number("x-request").unwrap_or(0);
    // Also for the target of a redirect that was for this client alone.
    let sent = world.sent_as(request);
    let is_bound = resource.is_file && sent.is_some_and(|sent| sent.is_bound);
    let is_authorised = head.fields.get("authorization").is_some()
        || resource.is_file && sent.is_some_and(|sent| sent.is_authorised);
    let (version, variant) = (resource.version, variant_of(resource.vary, head));
    let length = resource.length(version);
    let etag = Resource::etag(version, variant);
    let is_private = resource.private_one_in > 0 && world.random.one_in(resource.private_one_in);
    let (mut says, mut private) = (String::new(), None);
    if is_private {
        let (why, said) = world
            .random
            .pick(&[("private", "private, "), ("no-store", "no-store, ")]);
        (private, says) = (Some(why), said.to_owned());
    } else if resource.is_public {
        says.push_str("public, ");
    } else if is_authorised {
        private = Some("authorization");
    }
    if is_bound {
        private = Some("redirect");
    }
    let sets_cookie = resource.private_one_in > 0 && world.random.one_in(4);
    let is_wrong = resource.is_file && !world.calm && world.random.one_in(5);
    let serial = world.answers.len();
    let sent_ms = world.now_ms();
    world.answers.push(Answer {
        resource: number,
        version,
        variant,
        request,
        begun,
        sent_ms,
        private,
        vary: resource.vary,
        max_age_s: resource.max_age_s,
        stale_while_s: resource.stale_while_s,
        is_wrong,
        looks_whole: false,
    });

    let is_same = resource.has_etag
        && head
            .fields
            .get("if-none-match")
            .is_some_and(|tags| tags.contains(&etag));
    let range = head
        .fields
        .get("range")
        .filter(|_| resource.has_ranges && !is_same && head.first == "GET");
    let if_range = head.fields.get("if-range");
    let may_be_part =
        !resource.knows_if_range || if_range.is_none_or(|tag| tag == etag && resource.has_etag);
    let range = range
        .filter(|_| may_be_part)
        .and_then(|range| one_range(range, length));
    let status = match (is_same, &range) {
        (true, _) => "304 Not Modified",
        (false, Some(_)) => "206 Partial Content",
        (false, None) => "200 OK",
    };
    let mut out = format!(
        "HTTP/1.1 {status}\r\nX-Serial: {serial}\r\nCache-Control: {says}max-age={}",
        resource.max_age_s
    );
    if resource.stale_while_s > 0 {
        out += &format!(", stale-while-revalidate={}", resource.stale_while_s);
    }
    out += "\r\n";
    match resource.vary {
        Vary::Nothing => {}
        Vary::Flavor => out += "Vary: X-Flavor\r\n",
        Vary::Coding => out += "Vary: Accept-Encoding\r\n",
    }
    if resource.vary == Vary::Coding && variant > 0 {
        out += &format!("Content-Encoding: {}\r\n", CODINGS[variant as usize]);
    }
    if resource.has_etag {
        out += &format!("ETag: {etag}\r\n");
    }
    if resource.has_ranges {
        out += "Accept-Ranges: bytes\r\n";
    }
    if !resource.tag.is_empty() {
        out += &format!("Surrogate-Key: {}\r\n", resource.tag);
    }
    if sets_cookie {
        out += &format!("Set-Cookie: request={request}\r\n");
    }
    if let Some(range) = &range {
        out += &format!(
            "Content-Range: bytes {}-{}/{length}\r\n",
            range.start,
            range.end - 1
        );
    }
    let range = if is_same {
        0..0
    } else {
        range.unwrap_or(0..length)
    };
    let bytes = range.end - range.start;
    let framing = match (is_same, world.random.below(8)) {
        (true, _) => Framing::None,
        (false, 0..2) => Framing::Chunked,
        (false, 2) => Framing::Close,
        (false, _) => Framing::Length(bytes),
    };
    let closes = closes || framing == Framing::Close;
    world.answers[serial].looks_whole = framing == Framing::Close && manner == Manner::BreaksOff;
    match framing {
        Framing::Chunked => out += "Transfer-Encoding: chunked\r\n",
        Framing::Length(bytes) => out += &format!("Content-Length: {bytes}\r\n"),
        Framing::None | Framing::Close => {}
    }
    if closes {
        out += "Connection: close\r\n";
    }
    out += "\r\n";
    world.tell(number, || {
        format!("origin answers request {request} (seen at tick {begun}): serial {serial}, {status}, version {version}, variant {variant}, {private:?}, {range:?} of {length} by {framing:?}")
    });
    Made {
        head: out.into_bytes(),
        framing,
        resource: number,
        variant,
        version,
        range,
        closes,
        is_wrong,
    }
}

/// The first requested range, if it can be served.
fn one_range(text: &str, length: u64) -> Option<std::ops::Range<u64>> {
    let first = text.strip_prefix("bytes=")?.split(',').next()?.trim();
    let (from, to) = first.split_once('-')?;
    let range = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => from..(to + 1).min(length),
        (Ok(from), Err(_)) => from..length,
        (Err(_), Ok(last)) => length.saturating_sub(last)..length,
        _ => return None,
    };
    (range.start < range.end).then_some(range)
}

async fn send(
    world: &Shared,
    stream: &mut Stream,
    head: &Head,
    made: &Made,
    manner: Manner,
) -> io::Result<()> {
    if world.borrow_mut().random.one_in(15) {
        let hint = b"HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload\r\n\r\n";
        stream.socket.write_all(hint).await?;
    }
    stream.socket.write_all(&made.head).await?;
    if head.first == "HEAD" || made.framing == Framing::None {
        return Ok(());
    }
    let bytes = made.range.end - made.range.start;
    let stops = match manner {
        Manner::BreaksOff | Manner::Stalls => world.borrow_mut().random.below(bytes.max(1)),
        _ => u64::MAX,
    };
    let (mut at, mut sent) = (made.range.start, 0);
    let mut piece = vec![0; 16 << 10];
    while at < made.range.end {
        let (most, pause) = match manner {
            Manner::Trickles => {
                let mut world = world.borrow_mut();
                (1 + world.random.below(8 << 10), world.random.below(400))
            }
            _ => (piece.len() as u64, 0),
        };
        let n = most
            .min(made.range.end - at)
            .min(stops.saturating_sub(sent)) as usize;
        if n == 0 {
            if manner == Manner::Stalls {
                let _ = stream.request().await;
            }
            return Err(io::ErrorKind::Other.into());
        }
        write_body(
            made.resource,
            made.variant,
            made.version,
            at,
            &mut piece[..n],
        );
        if made.is_wrong && at == made.range.start {
            piece[0] ^= 1;
        }
        if made.framing == Framing::Chunked {
            stream
                .socket
                .write_all(format!("{n:x}\r\n").as_bytes())
                .await?;
        }
        stream.socket.write_all(&piece[..n]).await?;
        if made.framing == Framing::Chunked {
            stream.socket.write_all(b"\r\n").await?;
        }
        (at, sent) = (at + n as u64, sent + n as u64);
        if pause > 0 {
            sleep(Duration::from_millis(pause)).await;
        }
    }
    if made.framing == Framing::Chunked {
        stream.socket.write_all(b"0\r\n\r\n").await?;
    }
    Ok(())
}
