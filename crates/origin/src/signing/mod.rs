//! Requests that are signed for an object store.
//!
//! A [`Signer`] stands for one `sign` of the configuration. It has the credentials that its source gave last (`source`, `keeping`), and how
//! much the store's clock differs from ours, as far as a refusal has told. Each time a request is sent it is signed anew (`v4`); what the
//! store says against that is told in the log and not to clients (`refusal`).
//!
//! Rules kept here:
//!   S1  only GET and HEAD are signed, unless the operator wants writes signed, too; OPTIONS goes out as it is
//!   S2  fields of the client that give or claim rights do not go out: Authorization, and with GET and HEAD every `x-amz-`
//!   S3  a URL that the client has signed itself goes out as it came
//!   S4  no path is signed that some server would resolve to another one
//!   S5  Host and every `x-amz-` are signed; a body never is. Ranges and conditions are not, so that they may change on the way
//!
//! Not known here: caching. What is stored is judged by the client's request, which the signature is no part of.

mod credentials;
pub mod keeping;
mod refusal;
pub mod source;
pub mod unsigned;
mod v4;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use base::clock::{self, Instant};
use http1::head_lines;
use message::ResponseHead;
use plan::{Plan, Signing};
use tokio::{
    sync::{Notify, watch},
    time::timeout,
};

use credentials::Credentials;
use refusal::Refusal;
use unsigned::Unsigned;
use v4::{Signature, Signed, UNSIGNED_PAYLOAD, canonical_path, canonical_query};

use crate::outcome::UpstreamError;

/// How long a request waits for the first credentials after a start.
const FIRST_MAX: Duration = Duration::from_secs(5);
/// A line of the same kind is written again after this time.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// Clocks that differ by more are the reason of a refusal without a body. Stores allow 15 minutes.
const SKEW_MIN_S: i64 = 300;

/// What is known of credentials.
#[derive(Clone)]
enum Known {
    /// Nobody has looked yet.
    Nothing,
    /// There are none.
    None,
    /// These.
    These(Arc<Credentials>),
}

/// Signs requests by one `sign` of the configuration.
pub struct Signer {
    settings: Arc<Signing>,
    known: watch::Sender<Known>,
    /// How far the store's clock is ahead of ours, seconds.
    ahead_s: AtomicI64,
    /// The credentials were refused: their source may have others.
    doubted: Notify,
    /// When each kind of line was written last; there are as many as codes of refusals.
    told: Mutex<HashMap<String, Instant>>,
}

/// A request that may go out.
enum Allowed<'a> {
    /// As it came: S1, S3.
    Unsigned,
    /// Signed, with this path and query in canonical form.
    Signed(Parts<'a>),
}

/// A request without a body, as it was written for an origin.
struct Parts<'a> {
    method: &'a str,
    path: String,
    query: String,
    /// The whole head.
    head: &'a [u8],
}

impl Signer {
    /// One that has no credentials yet.
    pub fn new(settings: Arc<Signing>) -> Signer {
        Signer {
            settings,
            known: watch::Sender::new(Known::Nothing),
            ahead_s: AtomicI64::new(0),
            doubted: Notify::new(),
            told: Mutex::default(),
        }
    }

    /// May this request go out, and are there credentials for it? After a start it waits for them, a while.
    ///
    /// # Errors
    /// It may not, or there are none.
    pub async fn ready(&self, request: &[u8]) -> Result<(), UpstreamError> {
        self.ready_within(request, FIRST_MAX).await
    }

    async fn ready_within(&self, request: &[u8], wait: Duration) -> Result<(), UpstreamError> {
        if let Allowed::Unsigned = self.allowed(request)? {
            return Ok(());
        }
        let mut known = self.known.subscribe();
        let looked = known.wait_for(|known| !matches!(known, Known::Nothing));
        let _ = timeout(wait, looked).await;
        self.credentials()?;
        Ok(())
    }

    /// The request as it goes out now. `request`: its head, as it was written for the origin.
    ///
    /// # Errors
    /// As [`Signer::ready`].
    pub fn sign(&self, request: &[u8]) -> Result<Vec<u8>, UpstreamError> {
        let Allowed::Signed(parts) = self.allowed(request)? else {
            return Ok(request.to_vec());
        };
        let credentials = self.credentials()?;
        let at = jiff::Timestamp::from_second(self.store_unix_s()).unwrap_or_default();
        let at = at.strftime("%Y%m%dT%H%M%SZ").to_string();
        Ok(signed(&parts, &self.settings, &credentials, &at))
    }

    /// S1, S3, S4
    fn allowed<'a>(&self, request: &'a [u8]) -> Result<Allowed<'a>, Unsigned> {
        let line = request.split(|&b| b == b'\r').next().unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| Unsigned::Path)?;
        let mut words = line.split(' ');
        let (method, target) = (words.next(), words.next());
        let (method, target) = method.zip(target).ok_or(Unsigned::Path)?;
        match method {
            "GET" | "HEAD" => {}
            "OPTIONS" => return Ok(Allowed::Unsigned),
            _ if self.settings.writes => {}
            _ => return Err(Unsigned::Method),
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query = canonical_query(query);
        if query
            .split('&')
            .any(|it| it.starts_with("X-Amz-Signature="))
        {
            return Ok(Allowed::Unsigned);
        }
        Ok(Allowed::Signed(Parts {
            method,
            path: canonical_path(path).ok_or(Unsigned::Path)?,
            query,
            head: request,
        }))
    }

    fn credentials(&self) -> Result<Arc<Credentials>, Unsigned> {
        let Known::These(credentials) = &*self.known.borrow() else {
            return Err(Unsigned::NoCredentials);
        };
        let now = self.store_unix_s().unsigned_abs();
        match credentials.until_unix_s.is_none_or(|until| now < until) {
            true => Ok(Arc::clone(credentials)),
            false => Err(Unsigned::NoCredentials),
        }
    }

    /// Seconds since 1970 by the store's clock.
    fn store_unix_s(&self) -> i64 {
        clock::unix().as_secs() as i64 + self.ahead_s.load(Ordering::Relaxed)
    }

    /// What a refusal means, if it is one of our signature. `answer`: the beginning of its body. It is told in the log. `None`: it is the client's.
    pub(crate) fn judge(&self, head: &ResponseHead, answer: &[u8], origin: &str) -> Option<Judged> {
        let answer = String::from_utf8_lossy(answer);
        let known = self.ahead_s.load(Ordering::Relaxed);
        // What is known already is no news.
        let ahead = store_ahead_s(head).filter(|ahead| (ahead - known).abs() > SKEW_MIN_S);
        let (refusal, code, advice) = match refusal::refusal(&answer) {
            Some(found) => found,
            // An answer to HEAD says nothing but its date.
            None if answer.is_empty() && head.status == 403 => {
                ahead?;
                (Refusal::Skewed, "HEAD", String::new())
            }
            None => return None,
        };
        if refusal == Refusal::Skewed
            && let Some(ahead) = ahead
        {
            self.ahead_s.store(ahead, Ordering::Relaxed);
            self.tell("clock", || format!(
                "sign.aws: the clock of the store at {origin} is {} s {} ours; requests are signed by it, but set the clock of this machine by NTP",
                ahead.unsigned_abs(),
                if ahead > 0 { "ahead of" } else { "behind" },
            ));
            return Some(Judged::ClockLearned);
        }
        self.doubted.notify_one();
        self.tell(code, || format!(
            "sign.aws: the store at {origin} refuses requests that are signed for region {} with the credentials of {} ({} {code}): {advice}",
            self.settings.region, self.settings.credentials, head.status,
        ));
        Some(Judged::Refused)
    }

    /// Writes a line, unless one of its kind was written a moment ago.
    fn tell(&self, kind: &str, line: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |at: &Instant| at.elapsed() >= TELL_AGAIN;
        if told.get(kind).is_none_or(is_old) {
            tracing::warn!("{}", line());
            told.insert(kind.to_owned(), Instant::now());
        }
    }
}

/// What a refusal means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    /// The store's clock is known now: signed again, the request will do better.
    ClockLearned,
    /// It will not.
    Refused,
}

/// May an answer with this head be a refusal of our signature?
pub(crate) fn may_be_refusal(head: &ResponseHead) -> bool {
    refusal::may_be_refusal(head.status)
}

/// How far the clock of whoever sent this is ahead of ours, seconds.
fn store_ahead_s(head: &ResponseHead) -> Option<i64> {
    let date = std::str::from_utf8(head.fields.first(b"date")?).ok()?;
    let at = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(at.as_second() - clock::unix().as_secs() as i64)
}

/// S2, S5
fn signed(parts: &Parts<'_>, settings: &Signing, by: &Credentials, at: &str) -> Vec<u8> {
    let mut fields: Vec<(String, String)> = vec![
        ("x-amz-content-sha256".into(), UNSIGNED_PAYLOAD.into()),
        ("x-amz-date".into(), at.to_owned()),
    ];
    if let Some(token) = &by.session_token {
        fields.push(("x-amz-security-token".into(), token.clone()));
    }
    let ours = fields.len();
    let question = if parts.query.is_empty() { "" } else { "?" };
    let target = [&parts.path, question, &parts.query].concat();
    let mut out = Vec::with_capacity(parts.head.len() + 1024);
    http1::write_request_line(parts.method, &target, &mut out);
    let is_read = matches!(parts.method, "GET" | "HEAD");
    for (name, value) in head_lines::fields_of_head(parts.head).iter() {
        let lower = String::from_utf8_lossy(name).to_ascii_lowercase();
        let is_amazons = lower.starts_with("x-amz-");
        let is_claim = matches!(
            &*lower,
            "authorization" | "x-amz-content-sha256" | "x-amz-date" | "x-amz-security-token"
        );
        if is_claim || is_amazons && is_read {
            continue;
        }
        head_lines::write_field(name, value, &mut out);
        if is_amazons || lower == "host" {
            let value = String::from_utf8_lossy(value);
            put(&mut fields, lower, &one_blank(&value));
        }
    }
    for (name, value) in &fields[..ours] {
        head_lines::write_field(name.as_bytes(), value.as_bytes(), &mut out);
    }
    fields.sort();
    let signature = Signature {
        access_key: &by.access_key,
        secret_key: &by.secret_key,
        region: &settings.region,
        service: &settings.service,
        at,
    };
    let authorization = signature.authorization(&Signed {
        method: parts.method,
        path: &parts.path,
        query: &parts.query,
        fields: &fields,
        payload: UNSIGNED_PAYLOAD,
    });
    head_lines::write_field(b"Authorization", authorization.as_bytes(), &mut out);
    out.extend_from_slice(b"\r\n");
    out
}

/// A field that comes twice is signed as one, its values behind each other.
fn put(fields: &mut Vec<(String, String)>, name: String, value: &str) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, values)) => {
            values.push(',');
            values.push_str(value);
        }
        None => fields.push((name, value.to_owned())),
    }
}

/// Blanks that follow each other are signed as one.
fn one_blank(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The signers of a plan.
#[derive(Clone, Default)]
pub struct Signers(HashMap<Arc<Signing>, Arc<Signer>>);

impl Signers {
    /// Those of a plan; what `before` has of them stays itself, with what it knows.
    pub fn of(plan: &Plan, before: &Signers) -> Signers {
        let signer = |settings: &Arc<Signing>| match before.0.get(settings) {
            Some(known) => Arc::clone(known),
            None => Arc::new(Signer::new(Arc::clone(settings))),
        };
        let all = plan.signing();
        Signers(all.map(|it| (Arc::clone(it), signer(it))).collect())
    }

    /// The one of these settings.
    pub fn by(&self, settings: Option<&Arc<Signing>>) -> Option<Arc<Signer>> {
        self.0.get(settings?).cloned()
    }

    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Signer>> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests;
