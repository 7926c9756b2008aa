//! The rules: what an answer may contain.
//!
//!   R1  only bytes that an origin sent for that resource, version and variant; a complete answer has all of them
//!   R2  nothing from an origin that the listener does not lead to
//!   R3  nothing whose purge was acknowledged before the request began; after a soft purge it is no fresh hit
//!   R4  nothing that is for one request alone (private, no-store, Authorization, cookies) in the answer to another
//!   R5  no variant that the request did not select
//!   R6  no hit beyond its lifetime, unless it is marked as stale and stale answers are allowed
//!   R7  every exchange ends (checked where its end is awaited: `ask`, `h2`, `tunnel`, `drill`, `run`)
//!   R8  in the end nothing is held any more (checked in `run`)
//!   R9  a request reaches an origin as its client sent it, whole or not at all, and once if it may not be repeated (checked where it
//!       arrives, in `world`)
//!   R10 no client that does not delay is answered 408
//!   R11 bytes leave a tunnel in the order in which they entered, and all of them if no side breaks off (checked in `tunnel`)
//!   R12 what an origin is told of the client is true of each request (checked where it arrives, in `origin`)
//!   R13 of several servers the healthy ones are asked, and the others are not (tested in `drill`, as the next)
//!   R14 an unused quota admits as much as it says, and no more
//!
//! Not known here: how the answer was received.

use std::ops::Range;

use crate::{
    ask::Ask,
    http::{Fields, find},
    origin::CODINGS,
    world::{Answer, Resource, Vary, World, write_body},
};

/// Tolerance in seconds: clocks agree, but seconds are rounded and a head takes time.
const SLACK_S: u64 = 5;

/// An answer as the client received it.
pub struct Got {
    /// Its status.
    pub status: u16,
    /// Its fields.
    pub fields: Fields,
    /// The received bytes of its body.
    pub body: Vec<u8>,
    /// Whether the body is complete.
    pub is_complete: bool,
    /// When its head was complete.
    pub head_ms: u64,
}

/// Checks that the answer keeps the rules.
pub fn check(world: &mut World, ask: &Ask, got: &Got) -> Result<(), String> {
    cookies(ask, got)?;
    if got.status == 408 {
        return Err("R10: a client that was not late is told that it is".to_owned());
    }
    let Some(serial) = got.fields.number("x-serial") else {
        // A mirror may redirect to another host, and the redirect may reach its clients.
        let is_own = got.status == 302 || got.status >= 400 || got.status == 304 || ask.is_unsafe();
        world.counts.refused += u64::from(got.status >= 400);
        return match is_own {
            true => Ok(()),
            false => Err(format!("R1: a {} that no origin has sent", got.status)),
        };
    };
    let answer = world.answers.get(serial as usize).cloned();
    let answer = answer.ok_or_else(|| format!("R1: serial {serial} was never sent"))?;
    let wanted = &world.resources[ask.resource];
    if answer.resource != ask.resource {
        let other = &world.resources[answer.resource];
        let (wanted_url, url) = (wanted.url(), other.url());
        let rule = if wanted_url == url { "R2" } else { "R1" };
        return Err(format!(
            "{rule}: serial {serial} is of {url} at {}, and {wanted_url} at {} was asked for by listener {}",
            other.origin, wanted.origin, ask.listener
        ));
    }
    if !ask.may_have_resource {
        return Err(format!(
            "R2: listener {} does not lead to {}",
            ask.listener, wanted.origin
        ));
    }
    for soft in [false, true] {
        let Some(purge) = world.purged_before(ask, soft) else {
            continue;
        };
        let is_older = answer.begun < purge.issued;
        let is_fresh_hit = ttl(&got.fields).is_some_and(|ttl| ttl > 0);
        if is_older && (!soft || is_fresh_hit) {
            return Err(format!(
                "R3: serial {serial} was asked for at tick {}; {} (soft: {soft}) of tick {} was acknowledged at {}, before the request began at {}",
                answer.begun, purge.by, purge.issued, purge.acknowledged, ask.began
            ));
        }
    }
    if let Some(why) = answer.private.filter(|_| answer.request != ask.number) {
        return Err(format!(
            "R4: serial {serial} is for request {} alone ({why})",
            answer.request
        ));
    }
    let selected = match answer.vary {
        Vary::Nothing => answer.variant == 0,
        Vary::Flavor => answer.variant == ask.flavor,
        Vary::Coding => {
            answer.variant == 0 || ask.codings.contains(CODINGS[answer.variant as usize])
        }
    };
    if !selected {
        return Err(format!(
            "R5: serial {serial} is variant {} by {:?}",
            answer.variant, answer.vary
        ));
    }
    if let Some(ttl) = ttl(&got.fields) {
        let age_s = got.head_ms.saturating_sub(answer.sent_ms) / 1000;
        let allowed = match ttl > 0 {
            true => answer.max_age_s,
            false => answer.max_age_s + answer.stale_while_s.max(ask.stale_allowed_s),
        };
        let slack = SLACK_S + got.head_ms.saturating_sub(ask.began_ms) / 1000;
        if age_s > allowed + slack {
            return Err(format!(
                "R6: serial {serial} is a hit at the age of {age_s} s, allowed are {allowed} s"
            ));
        }
        world.counts.hits += 1;
        world.counts.recovered_hits += u64::from(answer.begun < world.life_began);
    }
    if let Some(etag) = got.fields.get("etag")
        && etag != Resource::etag(answer.version, answer.variant)
    {
        return Err(format!("R1: serial {serial} came with {etag}"));
    }
    world.counts.compared += 1;
    world.counts.broken += u64::from(!got.is_complete);
    let mut first = None;
    for version in versions(world, ask, &answer, got) {
        match body(world, ask, &answer, version, got) {
            Ok(()) => return Ok(()),
            Err(broken) => _ = first.get_or_insert(broken),
        }
    }
    first.map_or(Ok(()), Err)
}

/// The versions whose body the answer may have. With an entity tag it is one. Without, a HEAD may have freshened the stored response
/// (RFC 9111 section 4.3.5), so any version that an origin sent after the last purge is allowed.
fn versions(world: &World, ask: &Ask, answer: &Answer, got: &Got) -> Vec<u64> {
    let mut all = vec![answer.version];
    if got.fields.get("etag").is_none() {
        let purged = world.purged_before(ask, false);
        let from = purged.map_or(0, |purge| purge.issued);
        let of_it = world.answers.iter().filter(|other| {
            (other.resource, other.variant) == (answer.resource, answer.variant)
                && other.begun >= from
        });
        all.extend(of_it.map(|other| other.version));
        all.dedup();
    }
    all
}

/// Checks that the body is that of this version.
fn body(
    world: &mut World,
    ask: &Ask,
    answer: &Answer,
    version: u64,
    got: &Got,
) -> Result<(), String> {
    if answer.is_wrong && !got.is_complete {
        // Nobody can know before the end that it is wrong; the client must then see an incomplete body.
        return Ok(());
    }
    let length = world.resources[answer.resource].length(version);
    let same = |from: u64, bytes: &[u8]| {
        let mut expected = vec![0; bytes.len()];
        write_body(
            answer.resource,
            answer.variant,
            version,
            from,
            &mut expected,
        );
        match (0..bytes.len()).find(|&n| bytes[n] != expected[n]) {
            None => Ok(()),
            Some(n) => Err(format!(
                "R1: byte {} of version {version} is wrong",
                from + n as u64
            )),
        }
    };
    match got.status {
        200 if ask.method == "HEAD" => Ok(()),
        200 => {
            same(0, &got.body)?;
            exactly(got, length, answer)
        }
        206 => {
            for (range, total, bytes) in parts(got)? {
                if total != length || range.end > total {
                    return Err(format!(
                        "R1: {range:?} of {total} bytes, of a body with {length}"
                    ));
                }
                same(range.start, &bytes)?;
                if !ask.range.contains(',') {
                    exactly(got, range.end - range.start, answer)?;
                } else if bytes.len() as u64 != range.end - range.start
                    && got.is_complete
                    && !answer.looks_whole
                {
                    return Err(format!("R1: a part of {range:?} has {} bytes", bytes.len()));
                }
            }
            world.counts.parts += 1;
            Ok(())
        }
        304 => {
            let etag = Resource::etag(version, answer.variant);
            match ask.if_none_match.contains(&etag) {
                true => Ok(()),
                false => Err(format!(
                    "R1: a 304 of {etag}, and {:?} was asked for",
                    ask.if_none_match
                )),
            }
        }
        status => Err(format!(
            "R1: an answer of an origin came with status {status}"
        )),
    }
}

/// Checks the length: a complete answer has exactly these bytes, an incomplete one has no more.
fn exactly(got: &Got, bytes: u64, answer: &Answer) -> Result<(), String> {
    let came = got.body.len() as u64;
    let is_right = match got.is_complete {
        true if !answer.looks_whole => came == bytes,
        _ => came <= bytes,
    };
    match is_right {
        true => Ok(()),
        false => Err(format!(
            "R1: {came} bytes came of {bytes}, complete: {}",
            got.is_complete
        )),
    }
}

/// Checks that a cookie is only in the answer to its own request.
fn cookies(ask: &Ask, got: &Got) -> Result<(), String> {
    let own = format!("request={}", ask.number);
    match got.fields.all("set-cookie").find(|cookie| *cookie != own) {
        None => Ok(()),
        Some(other) => Err(format!(
            "R4: the cookie {other:?} in the answer to request {}",
            ask.number
        )),
    }
}

/// The remaining lifetime of a hit, as stated by the proxy; none if it is no hit.
fn ttl(fields: &Fields) -> Option<i64> {
    let said = fields.get("cache-status")?;
    let mut words = said.split(';').map(str::trim);
    let is_hit = said.split(';').any(|word| word.trim() == "hit");
    let ttl = words
        .find_map(|word| word.strip_prefix("ttl="))?
        .parse()
        .ok()?;
    is_hit.then_some(ttl)
}

type Part = (Range<u64>, u64, Vec<u8>);

/// The parts of a 206.
fn parts(got: &Got) -> Result<Vec<Part>, String> {
    let content_type = got.fields.get("content-type").unwrap_or_default();
    let Some(boundary) = content_type.strip_prefix("multipart/byteranges; boundary=") else {
        let range = got.fields.get("content-range").and_then(content_range);
        let (range, total) = range.ok_or("R1: a 206 without Content-Range")?;
        return Ok(vec![(range, total, got.body.clone())]);
    };
    let delimiter = format!("--{}", boundary.trim_matches('"'));
    let mut found = Vec::new();
    let mut rest = &got.body[..];
    while let Some(at) = find(rest, delimiter.as_bytes()) {
        rest = &rest[at + delimiter.len()..];
        let Some(end) = find(rest, b"\r\n\r\n") else {
            break;
        };
        let head = String::from_utf8_lossy(&rest[..end]).to_ascii_lowercase();
        let line = head
            .lines()
            .find_map(|line| line.strip_prefix("content-range:"));
        let (range, total) = line
            .and_then(|l| content_range(l.trim()))
            .ok_or("R1: a part without Content-Range")?;
        let bytes = (range.end - range.start) as usize;
        let body = &rest[end + 4..];
        found.push((range, total, body[..bytes.min(body.len())].to_vec()));
        rest = &body[bytes.min(body.len())..];
    }
    match found.is_empty() && got.is_complete {
        true => Err("R1: a multipart body without parts".into()),
        false => Ok(found),
    }
}

fn content_range(value: &str) -> Option<(Range<u64>, u64)> {
    let (range, total) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    Some((
        first.parse().ok()?..last.parse::<u64>().ok()? + 1,
        total.parse().ok()?,
    ))
}
