//! Keeps digests up to date: ours with the stores, those of siblings by fetching them.
//!
//! These are tasks of the control thread. A sibling's digest is fetched at the start and then every `digest.fetch-interval`, up to a tenth earlier
//! or later, so that siblings do not all ask at once. After a failure it is fetched sooner ([`RETRIED_AFTER`], doubled up to the interval). A
//! distrusted digest is fetched again after [`DISTRUST_PAUSE`], doubled for each distrust in a row, up to eight intervals. Loligo's format is
//! asked for first, then Squid's; later the format that was found comes first.
//!
//! Requests are HTTP/1.0 on separate connections, so that a response ends by its length or with its connection.
//!
//! Not known here: the contents of digests.
//! Limits: [`FETCH_MAX`] for a whole response; [`HEAD_BYTES_MAX`] for its head; the format's limit for its body.

use std::{rc::Rc, sync::Arc, sync::atomic::Ordering, time::Duration};

use http1::Limits;
use message::Framing;

use crate::{
    digest::{
        Digests,
        theirs::{Content, Format, Theirs},
    },
    known::destination,
};
use base::{access::Destinations, chance, clock::Instant};
use origin::{Connector, OriginContext, once, outcome::UpstreamError};
use plan::{PeerAddress, Plan};

/// Time limit of a fetch.
const FETCH_MAX: Duration = Duration::from_secs(30);
/// Pause after the first failed fetch.
const RETRIED_AFTER: Duration = Duration::from_secs(10);
/// Pause before a digest that was distrusted for the first time is fetched again.
const DISTRUST_PAUSE: Duration = Duration::from_secs(30);
/// The longest such pause, in fetch intervals, if that is longer than [`DISTRUST_PAUSE`].
const DISTRUST_INTERVALS_MAX: u32 = 8;
/// The longest head of a response.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// What fetching needs.
pub struct Means {
    /// Makes the connector of one fetch.
    pub connector: Box<dyn Fn() -> Connector>,
    /// Destinations that siblings may have.
    pub rules: Destinations,
}

/// Starts the tasks. Must be called in a `LocalSet` or local runtime.
pub fn start(digests: &Arc<Digests>, plan: &Plan, means: Means) {
    let means = Rc::new(means);
    if digests.own.is_some() {
        tokio::task::spawn_local(keep_ours(Arc::clone(digests)));
    }
    for number in digests.siblings() {
        let Some(sibling) = plan.siblings.get(number) else {
            continue;
        };
        let (digests, means) = (Arc::clone(digests), Rc::clone(&means));
        let (at, interval) = (sibling.at.clone(), plan.digests.fetch_interval);
        tokio::task::spawn_local(async move {
            keep_theirs(&digests, &means, number, &at, interval).await;
        });
    }
}

async fn keep_ours(digests: Arc<Digests>) {
    while let Some(own) = &digests.own {
        let pause = own.work(&digests.counters.begun_anew);
        tokio::time::sleep(pause).await;
    }
}

async fn keep_theirs(
    digests: &Digests,
    means: &Means,
    number: usize,
    at: &PeerAddress,
    interval: Duration,
) {
    let Some(theirs) = digests.theirs(number) else {
        return;
    };
    let mut pause = RETRIED_AFTER;
    let mut was_well = true;
    let mut distrusted = 0;
    loop {
        match fetch(means, theirs, at).await {
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
            // A failed fetch says nothing about the value of the digest before it, so the count stays.
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

/// The pause before a distrusted digest is fetched again. `before`: earlier distrusts in a row.
fn distrust_pause(before: u32, interval: Duration) -> Duration {
    let longest = DISTRUST_PAUSE.max(interval * DISTRUST_INTERVALS_MAX);
    let factor = 1 << before.min(16);
    (DISTRUST_PAUSE * factor).min(longest)
}

/// The pause, up to a tenth longer or shorter.
fn jittered(pause: Duration) -> Duration {
    let chance = chance::u64().unwrap_or(0) % 1000;
    pause.mul_f64(0.9 + chance as f64 / 5000.0)
}

/// Fetches a digest in the first format that the sibling has. Returns its length too.
async fn fetch(means: &Means, theirs: &Theirs, at: &PeerAddress) -> Result<(Content, u64), String> {
    let context = OriginContext::apart((means.connector)());
    let mut reasons = Vec::new();
    for format in theirs.formats() {
        let body = match get(&context, &means.rules, at, format).await {
            Ok(body) => body,
            Err(UpstreamError::Timeout) => {
                return Err(format!("no whole answer within {FETCH_MAX:?}"));
            }
            Err(error) => Err(error.to_string().replace("the origin", "the sibling")),
        };
        match body.and_then(|body| Ok((format.decode(&body)?, body.len() as u64))) {
            Ok(fetched) => {
                theirs.found(format);
                return Ok(fetched);
            }
            Err(reason) => reasons.push(format!("{}: {reason}", format.path())),
        }
    }
    Err(reasons.join("; "))
}

/// The body of a 200 response, or why the response is unusable.
async fn get(
    context: &OriginContext,
    rules: &Destinations,
    at: &PeerAddress,
    format: Format,
) -> Result<Result<Vec<u8>, String>, UpstreamError> {
    let request = format!(
        "GET {} HTTP/1.0\r\nHost: {at}\r\nAccept: {}\r\nConnection: close\r\n\r\n",
        format.path(),
        format.media_type()
    );
    let request = once::Request {
        to: &destination(at, false),
        access: rules,
        method: "GET",
        bytes: request.as_bytes(),
        signer: None,
        limits: Limits {
            head_bytes_max: HEAD_BYTES_MAX,
            fields_max: 100,
            ..Limits::default()
        },
        within: FETCH_MAX,
    };
    let answer = request.send(context).await?;
    if answer.head.status != 200 {
        return Ok(Err(format!("the answer is {}", answer.head.status)));
    }
    let most = format.bytes_max();
    let refused = match answer.head.framing {
        Framing::Length(length) if length > most as u64 => {
            format!("{length} bytes are announced, more than {most}")
        }
        Framing::Length(_) | Framing::UntilClose => {
            let body = answer.body(most).await?;
            return Ok(body.ok_or_else(|| format!("the answer is longer than {most} bytes")));
        }
        _ => "the answer's body has no length, though HTTP/1.0 was asked for".to_owned(),
    };
    Ok(Err(refused))
}

#[cfg(test)]
mod tests {
    use super::*;
    use origin::{Settings, Tls};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    #[test]
    fn a_digest_that_is_wrong_again_and_again_is_fetched_less_and_less_often() {
        let seconds = |interval: u64| {
            let pause = |before| distrust_pause(before, Duration::from_secs(interval)).as_secs();
            [0, 1, 2, 3, 4, u32::MAX].map(pause)
        };
        assert_eq!(seconds(60), [30, 60, 120, 240, 480, 480]);
        assert_eq!(seconds(1), [30; 6], "never more often than at first");
    }

    #[tokio::test]
    async fn what_is_no_digest_by_its_head_is_not_read() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = PeerAddress {
            host: "127.0.0.1".to_owned(),
            port: listener.local_addr().unwrap().port(),
        };
        let connector = Connector::new(Settings::default(), Tls::only(Vec::new()));
        let (context, rules) = (OriginContext::apart(connector), Destinations::default());
        for (answer, expected) in [
            ("1.0 200 OK\r\n\r\nall", Ok("all")),
            ("1.1 404 No\r\n\r\n", Err("the answer is 404")),
            (
                "1.1 200 OK\r\nContent-Length: 9999999999\r\n\r\n",
                Err("9999999999 bytes are announced, more than"),
            ),
            (
                "1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                Err("the answer's body has no length"),
            ),
        ] {
            let serving = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let answer = format!("HTTP/{answer}");
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                let mut request = String::new();
                stream.read_to_string(&mut request).await.unwrap();
                request
            };
            let (got, request) = tokio::join!(get(&context, &rules, &at, Format::Squid), serving);
            assert!(
                request.contains(" HTTP/1.0\r\nHost: 127.0.0.1:"),
                "{request}"
            );
            match (got.unwrap(), expected) {
                (Ok(body), Ok(all)) => assert_eq!(body, all.as_bytes()),
                (Err(why), Err(words)) => assert!(why.starts_with(words), "{why}"),
                other => panic!("{other:?}"),
            }
        }
        drop(listener);
        let refused = get(&context, &rules, &at, Format::Squid).await.unwrap_err();
        assert!(matches!(refused, UpstreamError::Connect(_)), "{refused}");
    }
}
