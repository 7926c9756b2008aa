//! Requests that are signed for an object store.
//!
//! A [`Signer`] stands for one `sign` of the configuration. It holds the latest credentials from its source (`source`, `keeping`), and the
//! difference between the store's clock and ours, once a refusal has shown one. A request is signed anew each time it is sent (`v4`). If the
//! store refuses the signature, the reason goes to the log and not to the client (`refusal`).
//!
//! Rules kept here:
//!   S1  only GET and HEAD are signed, unless the operator wants writes signed too; OPTIONS is sent unsigned
//!   S2  the client's fields that give or claim rights are removed: Authorization, and with GET and HEAD every `x-amz-`
//!   S3  a URL that the client has signed itself is sent as it came
//!   S4  a path that some server would resolve to another path is not signed
//!   S5  Host and every `x-amz-` are signed; the body never is. Ranges and conditions are not, so that they may change on the way
//!
//! Not known here: caching. The cache key comes from the client's request, which does not contain the signature.

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
/// The shortest time between two log lines of the same kind.
const TELL_AGAIN: Duration = Duration::from_secs(60);
/// A refusal without a body is blamed on the clocks if they differ by more than this. Stores allow 15 minutes.
const SKEW_MIN_S: i64 = 300;

/// The state of a signer's credentials.
#[derive(Clone)]
enum Known {
    /// The source was not asked yet.
    Nothing,
    /// The source has none.
    None,
    /// The credentials.
    These(Arc<Credentials>),
}

/// Signs requests by one `sign` of the configuration.
pub struct Signer {
    settings: Arc<Signing>,
    known: watch::Sender<Known>,
    /// How far the store's clock is ahead of ours, seconds.
    ahead_s: AtomicI64,
    /// Notified when a store refuses the credentials: the source may have newer ones.
    doubted: Notify,
    /// When a line of each kind was last logged; there are as many kinds as codes of refusals.
    told: Mutex<HashMap<String, Instant>>,
}

/// How a request may be sent.
enum Allowed<'a> {
    /// As it came: S1, S3.
    Unsigned,
    /// Signed, with this path and query in canonical form.
    Signed(Parts<'a>),
}

/// A request in the form written for an origin, without its body.
struct Parts<'a> {
    method: &'a str,
    path: String,
    query: String,
    /// The whole head.
    head: &'a [u8],
}

impl Signer {
    /// A signer without credentials.
    pub fn new(settings: Arc<Signing>) -> Signer {
        Signer {
            settings,
            known: watch::Sender::new(Known::Nothing),
            ahead_s: AtomicI64::new(0),
            doubted: Notify::new(),
            told: Mutex::default(),
        }
    }

    /// May this request be sent, and are there credentials for it? After a start this waits up to `FIRST_MAX` for the first credentials.
    ///
    /// # Errors
    /// The request may not be sent, or there are no credentials.
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

    /// The signed request. `request`: the head written for the origin.
    ///
    /// # Errors
    /// As for [`Signer::ready`].
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

    /// Judges an answer that may refuse our signature, and logs the reason. `answer`: the first bytes of its body. `None`: it is no such refusal.
    pub(crate) fn judge(&self, head: &ResponseHead, answer: &[u8], origin: &str) -> Option<Judged> {
        let answer = String::from_utf8_lossy(answer);
        let known = self.ahead_s.load(Ordering::Relaxed);
        // A difference that is known already cannot be the reason.
        let ahead = store_ahead_s(head).filter(|ahead| (ahead - known).abs() > SKEW_MIN_S);
        let (refusal, code, advice) = match refusal::refusal(&answer) {
            Some(found) => found,
            // An answer to HEAD has no body, only a date.
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

    /// Logs a line, unless one of its kind was logged within [`TELL_AGAIN`].
    fn tell(&self, kind: &str, line: impl FnOnce() -> String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |at: &Instant| at.elapsed() >= TELL_AGAIN;
        if told.get(kind).is_none_or(is_old) {
            tracing::warn!("{}", line());
            told.insert(kind.to_owned(), Instant::now());
        }
    }
}

/// The meaning of a refusal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    /// The store's clock is known now: signing again may succeed.
    ClockLearned,
    /// Signing again would not help.
    Refused,
}

/// May an answer with this head be a refusal of our signature?
pub(crate) fn may_be_refusal(head: &ResponseHead) -> bool {
    refusal::may_be_refusal(head.status)
}

/// How far the store's clock is ahead of ours, seconds, by the Date of its answer.
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

/// A field that comes twice is signed as one field, with its values joined by commas.
fn put(fields: &mut Vec<(String, String)>, name: String, value: &str) {
    match fields.iter_mut().find(|(known, _)| *known == name) {
        Some((_, values)) => {
            values.push(',');
            values.push_str(value);
        }
        None => fields.push((name, value.to_owned())),
    }
}

/// Runs of blanks are signed as one blank.
fn one_blank(value: &str) -> String {
    value.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

/// The signers of a plan.
#[derive(Clone, Default)]
pub struct Signers(HashMap<Arc<Signing>, Arc<Signer>>);

impl Signers {
    /// The signers of a plan. Those that `before` has are reused, with their state.
    pub fn of(plan: &Plan, before: &Signers) -> Signers {
        let signer = |settings: &Arc<Signing>| match before.0.get(settings) {
            Some(known) => Arc::clone(known),
            None => Arc::new(Signer::new(Arc::clone(settings))),
        };
        let all = plan.signing();
        Signers(all.map(|it| (Arc::clone(it), signer(it))).collect())
    }

    /// The signer for these settings.
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
