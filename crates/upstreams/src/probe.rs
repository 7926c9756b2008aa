//! Checks the health of servers, on the control thread: one check at a time for each server, however many workers there are.
//!
//! A check is a GET of `health.path` on a connection of its own, signed if requests to the upstream are. A status in `health.status` within
//! `health.time-out` counts as healthy, everything else as failed. Errors that this proxy caused do not count (nor do credentials that the
//! server refuses). A server that was not checked yet counts as healthy.
//!
//! Limits: [`PROBES_MAX`] checks at once; others that are due wait. A head of [`HEAD_BYTES_MAX`].
//! Not known here: what follows from a check (`upstreams`).

use std::{net::SocketAddr, rc::Rc, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::sleep_until};

use super::{Group, Member, Server, Upstream, Wanted, locked};
use base::{access::Destinations, clock::Instant};
use origin::{
    Connector, OriginContext, OriginsTls, Settings, once, outcome::UpstreamError, signing::Signers,
};
use plan::HealthCheck;

/// The most checks at once.
const PROBES_MAX: usize = 64;
/// The longest head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The longest pause while no check is due, because the operator may have set a server up again.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// The effect of a check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// The server has become unhealthy, for this reason.
    Ill(String),
    /// The server is healthy again.
    Well,
}

/// The results of a server's checks.
#[derive(Default)]
pub(super) struct Checked {
    is_ill: bool,
    /// Checks of one result in a row.
    well: u32,
    ill: u32,
    /// When the next check is due; `None`: at once.
    next: Option<Instant>,
    is_under_way: bool,
    last: Option<Look>,
}

/// The last check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// When it ended.
    pub at: Instant,
    /// Why it failed.
    pub fault: Option<String>,
}

impl Checked {
    /// Is the server unhealthy, and so not to be asked?
    pub(super) fn is_ill(&self) -> bool {
        self.is_ill
    }

    /// The last check.
    pub(super) fn last(&self) -> Option<&Look> {
        self.last.as_ref()
    }

    /// Notes the result of a check.
    pub(super) fn note(
        &mut self,
        result: Result<(), String>,
        check: &HealthCheck,
        now: Instant,
    ) -> Change {
        self.last = Some(Look {
            at: now,
            fault: result.as_ref().err().cloned(),
        });
        match result {
            Ok(()) => {
                (self.well, self.ill) = (self.well.saturating_add(1), 0);
                if self.is_ill && self.well >= check.rise {
                    self.is_ill = false;
                    return Change::Well;
                }
            }
            Err(why) => {
                (self.well, self.ill) = (0, self.ill.saturating_add(1));
                if !self.is_ill && self.ill >= check.fall {
                    self.is_ill = true;
                    return Change::Ill(why);
                }
            }
        }
        Change::None
    }

    /// Counts the server as healthy, and makes a check due at once.
    pub(super) fn forget(&mut self) {
        (self.is_ill, self.well, self.ill, self.next) = (false, 0, 0, None);
    }

    /// When the next check is due; `None`: a check is under way.
    fn due(&self, now: Instant) -> Option<Instant> {
        (!self.is_under_way).then(|| self.next.unwrap_or(now))
    }

    fn begin(&mut self, check: &HealthCheck, now: Instant) {
        (self.is_under_way, self.next) = (true, Some(now + check.every));
    }
}

/// The servers to check, and the settings for it.
pub struct Looks {
    /// The upstreams; those with a health check are checked.
    pub upstreams: Vec<Arc<Group>>,
    /// The addresses of this proxy, which no server can have.
    pub own_addresses: Vec<SocketAddr>,
    /// The limits for heads, except their size, which is `HEAD_BYTES_MAX`.
    pub limits: http1::Limits,
    /// Settings for connections.
    pub connecting: (Settings, OriginsTls),
    /// Sign checks, if requests to the upstream are signed.
    pub signers: Signers,
}

/// Checks servers for as long as the process serves. `looks_of` reads an edition of the configuration. To be called
/// on a `LocalRuntime`.
pub async fn run<E>(mut editions: watch::Receiver<Arc<E>>, looks_of: impl Fn(&E) -> Looks) {
    let now = |editions: &mut watch::Receiver<Arc<E>>| {
        let edition = Arc::clone(&editions.borrow_and_update());
        Rc::new(looks_of(&edition))
    };
    let mut wanted = now(&mut editions);
    let (settings, tls) = wanted.connecting.clone();
    let context = Rc::new(OriginContext::apart(Connector::new(settings, tls.all)));
    let mut looks = JoinSet::new();
    loop {
        let next = begin_those_due(&wanted, &context, &mut looks);
        tokio::select! {
            changed = editions.changed() => {
                if changed.is_err() {
                    return;
                }
                wanted = now(&mut editions);
                let (settings, tls) = wanted.connecting.clone();
                context.connector.follow(settings, tls.all);
            }
            Some(_) = looks.join_next(), if !looks.is_empty() => {}
            () = sleep_until(next), if looks.len() < PROBES_MAX => {}
        }
    }
}

/// Starts the checks that are due. Returns the time when the next one is due.
fn begin_those_due(
    wanted: &Rc<Looks>,
    context: &Rc<OriginContext>,
    looks: &mut JoinSet<()>,
) -> Instant {
    let now = Instant::now();
    let mut next = now + PAUSE_MAX;
    for upstream in wanted.upstreams.iter().map(|group| group.now()) {
        let Some(check) = &upstream.plan.health else {
            continue;
        };
        for (number, member) in upstream.members.iter().enumerate() {
            if member.server.wanted() == Wanted::Down {
                continue;
            }
            let mut checked = locked(&member.server.checked);
            match checked.due(now) {
                Some(due) if due > now => next = next.min(due),
                Some(_) if looks.len() < PROBES_MAX => {
                    checked.begin(check, now);
                    next = next.min(now + check.every);
                    let (context, wanted) = (Rc::clone(context), Rc::clone(wanted));
                    looks.spawn_local(look(context, wanted, Arc::clone(&upstream), number));
                }
                _ => {}
            }
        }
    }
    next
}

async fn look(
    context: Rc<OriginContext>,
    wanted: Rc<Looks>,
    upstream: Arc<Upstream>,
    number: usize,
) {
    let member = &upstream.members[number];
    let server = &member.server;
    let _ended = Ended(server);
    let Some(check) = &upstream.plan.health else {
        return;
    };
    let result = match ask(&context, &wanted, &upstream, member, check).await {
        Err(error) if error.is_ours() => {
            tracing::debug!(server = server.name, %error, "could not be checked");
            return;
        }
        Err(UpstreamError::Timeout) => Err("no answer in time".to_owned()),
        Err(error) => Err(error.to_string()),
        Ok(status) if check.status.iter().any(|it| it.contains(&status)) => Ok(()),
        Ok(status) => Err(format!("{} answers {status}", check.path)),
    };
    upstream.note_check(server, check, result);
}

/// Allows the next check, when dropped.
struct Ended<'a>(&'a Server);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        locked(&self.0.checked).is_under_way = false;
    }
}

/// The status of the server's answer.
async fn ask(
    context: &OriginContext,
    wanted: &Looks,
    upstream: &Upstream,
    member: &Member,
    check: &HealthCheck,
) -> Result<u16, UpstreamError> {
    // The operator named the servers: any address but our own is fine.
    let access = Destinations {
        loopback: true,
        link_local: true,
        allow: Vec::new(),
        own: wanted.own_addresses.clone(),
        connect_ports: Vec::new(),
    };
    let host = upstream.plan.host();
    let terms = wanted.connecting.1.of_upstream(&upstream.plan);
    let signer = wanted.signers.by(upstream.plan.sign.as_ref());
    let request = format!(
        "GET {} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: loligo\r\nConnection: close\r\n\r\n",
        check.path
    );
    let request = once::Request {
        to: &member.destination(terms.as_ref(), upstream.plan.http2),
        access: &access,
        method: "GET",
        bytes: request.as_bytes(),
        signer: signer.as_deref(),
        limits: http1::Limits {
            head_bytes_max: HEAD_BYTES_MAX,
            ..wanted.limits
        },
        within: check.time_out,
    };
    Ok(request.send(context).await?.head.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_looks_in_a_row_make_it_ill_and_well() {
        let (check, now) = (HealthCheck::default(), Instant::now());
        let mut checked = Checked::default();
        let ill = || Err("x".to_owned());
        let mut note = |result| checked.note(result, &check, now);
        for _ in 0..2 {
            assert_eq!(note(ill()), Change::None);
            assert_eq!(note(ill()), Change::None);
            assert_eq!(note(Ok(())), Change::None);
        }
        note(ill());
        note(ill());
        assert_eq!(note(ill()), Change::Ill("x".to_owned()));
        assert_eq!(note(ill()), Change::None);
        assert_eq!(note(Ok(())), Change::None);
        assert_eq!(note(ill()), Change::None);
        assert_eq!(note(Ok(())), Change::None);
        assert_eq!(note(Ok(())), Change::Well);
        assert!(!checked.is_ill());
    }
}
