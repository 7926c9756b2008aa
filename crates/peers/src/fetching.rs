//! Keeps digests up to date: ours with the stores, those of siblings by fetching them.
//!
//! Tasks of the control thread. A sibling's digest is fetched at once, then every `digest.fetch-interval`, a tenth of that earlier or later
//! so that siblings do not ask all at once; after a failure sooner ([`RETRIED_AFTER`], doubled up to the interval), and at once when it
//! is distrusted, but not within a [`DISTRUST_PAUSE`], which each distrust in a row doubles, up to eight intervals. Loligo's format is asked for first, then Squid's; the one that was found comes first from then on.
//!
//! The request is HTTP/1.0 on a connection of its own, so that the answer ends with its length or its connection.
//!
//! Not known here: what a digest says.
//! Limits: [`FETCH_MAX`] for all of a fetch; [`HEAD_BYTES_MAX`] of head; the format's length of body.

use std::{io, sync::Arc, sync::atomic::Ordering, time::Duration};

use http1::Limits;
use message::Framing;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::digest::{
    Digests,
    theirs::{Content, Format, Theirs},
};
use base::{chance, clock::Instant};
use plan::{PeerAddress, Plan};

/// How long a fetch may take.
const FETCH_MAX: Duration = Duration::from_secs(30);
/// When a failed fetch is tried again for the first time.
const RETRIED_AFTER: Duration = Duration::from_secs(10);
/// How long a digest that is distrusted for the first time is not fetched again,
const DISTRUST_PAUSE: Duration = Duration::from_secs(30);
/// and after how many intervals it is in any case, if that is longer.
const DISTRUST_INTERVALS_MAX: u32 = 8;
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// Starts the tasks; call it where tasks of one thread run.
pub fn start(digests: &Arc<Digests>, plan: &Plan) {
    if digests.own.is_some() {
        tokio::task::spawn_local(keep_ours(Arc::clone(digests)));
    }
    for number in digests.siblings() {
        let Some(sibling) = plan.siblings.get(number) else {
            continue;
        };
        let (digests, at) = (Arc::clone(digests), sibling.at.clone());
        let interval = plan.digests.fetch_interval;
        tokio::task::spawn_local(async move { keep_theirs(&digests, number, &at, interval).await });
    }
}

async fn keep_ours(digests: Arc<Digests>) {
    while let Some(own) = &digests.own {
        let pause = own.work(&digests.counters.begun_anew);
        tokio::time::sleep(pause).await;
    }
}

async fn keep_theirs(digests: &Digests, number: usize, at: &PeerAddress, interval: Duration) {
    let Some(theirs) = digests.theirs(number) else {
        return;
    };
    let mut pause = RETRIED_AFTER;
    let mut was_well = true;
    let mut distrusted = 0;
    loop {
        match fetch(theirs, at).await {
            Ok((content, bytes)) => {
                let counters = &digests.counters;
                counters.fetched.fetch_add(1, Ordering::Relaxed);
                counters.fetched_bytes.fetch_add(bytes, Ordering::Relaxed);
                let objects = content.objects();
                tracing::debug!(sibling = %at, objects, bytes, "its digest was fetched");
                if !was_well {
                    tracing::info!(sibling = %at, objects, "the sibling's digest could be fetched again");
                }
                theirs.keep(content, Instant::now());
                (pause, was_well) = (interval, true);
            }
            Err(reason) => {
                digests.counters.failed.fetch_add(1, Ordering::Relaxed);
                if was_well {
                    tracing::warn!(sibling = %at, reason, "the sibling's digest could not be fetched; further failures are only counted");
                }
                pause = match was_well {
                    true => RETRIED_AFTER.min(interval),
                    false => (pause * 2).min(interval),
                };
                was_well = false;
            }
        }
        tokio::select! {
            // A failure says nothing of what the digest before it was worth.
            () = tokio::time::sleep(jittered(pause)) => {
                if was_well {
                    distrusted = 0;
                }
            }
            () = theirs.wanted.notified() => {
                if distrusted == 0 {
                    tracing::warn!(sibling = %at, "the sibling lacked too much of what its digest said; it is fetched anew, and less and less often while that goes on");
                }
                let pause = distrust_pause(distrusted, interval);
                distrusted += 1;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

/// How long a digest that is distrusted is not fetched again. `before`: how often in a row it was distrusted before.
fn distrust_pause(before: u32, interval: Duration) -> Duration {
    let longest = DISTRUST_PAUSE.max(interval * DISTRUST_INTERVALS_MAX);
    let factor = 1 << before.min(16);
    (DISTRUST_PAUSE * factor).min(longest)
}

/// Up to a tenth more or less.
fn jittered(pause: Duration) -> Duration {
    let chance = chance::u64().unwrap_or(0) % 1000;
    pause.mul_f64(0.9 + chance as f64 / 5000.0)
}

/// Fetches a digest in the first format in which there is one. Its length, too.
async fn fetch(theirs: &Theirs, at: &PeerAddress) -> Result<(Content, u64), String> {
    let mut reasons = Vec::new();
    for format in theirs.formats() {
        let body = tokio::time::timeout(FETCH_MAX, get(at, format)).await;
        let body = match body {
            Ok(Ok(body)) => body,
            Ok(Err(reason)) => {
                reasons.push(format!("{}: {reason}", format.path()));
                continue;
            }
            Err(_) => return Err(format!("no whole answer within {FETCH_MAX:?}")),
        };
        match format.decode(&body) {
            Ok(content) => {
                theirs.found(format);
                return Ok((content, body.len() as u64));
            }
            Err(reason) => reasons.push(format!("{}: {reason}", format.path())),
        }
    }
    Err(reasons.join("; "))
}

/// The body of a 200.
async fn get(at: &PeerAddress, format: Format) -> Result<Vec<u8>, String> {
    let words = |error: io::Error| error.to_string();
    let mut stream = TcpStream::connect((at.host.as_str(), at.port))
        .await
        .map_err(words)?;
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {at}\r\nAccept: {}\r\nConnection: close\r\n\r\n",
        format.path(),
        format.media_type()
    );
    stream.write_all(request.as_bytes()).await.map_err(words)?;
    let limits = Limits {
        head_bytes_max: HEAD_BYTES_MAX,
        fields_max: 100,
        ..Limits::default()
    };
    let mut bytes = Vec::new();
    let (head, head_bytes) = loop {
        match http1::parse_response(&bytes, &limits, "GET") {
            Ok(Some(head)) => break head,
            Ok(None) => {}
            Err(reject) => return Err(format!("the answer is malformed: {}", reject.reason())),
        }
        if read(&mut stream, &mut bytes).await.map_err(words)? == 0 {
            return Err("the connection ended before the answer's head".to_owned());
        }
    };
    if head.status != 200 {
        return Err(format!("the answer is {}", head.status));
    }
    bytes.drain(..head_bytes);
    let most = format.bytes_max();
    let length = match head.framing {
        Framing::Length(length) if length > most as u64 => {
            return Err(format!("{length} bytes are announced, more than {most}"));
        }
        Framing::Length(length) => Some(length as usize),
        Framing::UntilClose => None,
        _ => {
            return Err(
                "the answer's body has no length, though HTTP/1.0 was asked for".to_owned(),
            );
        }
    };
    while length.is_none_or(|length| bytes.len() < length) {
        if bytes.len() > most {
            return Err(format!("the answer is longer than {most} bytes"));
        }
        if read(&mut stream, &mut bytes).await.map_err(words)? == 0 {
            match length {
                None => break,
                Some(length) => {
                    return Err(format!("{} of {length} bytes came", bytes.len()));
                }
            }
        }
    }
    bytes.truncate(length.unwrap_or(bytes.len()));
    Ok(bytes)
}

async fn read(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> io::Result<usize> {
    bytes.reserve(READ_BYTES);
    stream.read_buf(bytes).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_that_is_wrong_again_and_again_is_fetched_less_and_less_often() {
        let seconds = |interval: u64| {
            let pause = |before| distrust_pause(before, Duration::from_secs(interval)).as_secs();
            [0, 1, 2, 3, 4, u32::MAX].map(pause)
        };
        assert_eq!(seconds(60), [30, 60, 120, 240, 480, 480]);
        assert_eq!(seconds(1), [30; 6], "never more often than at first");
    }
}
