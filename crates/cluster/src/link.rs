//! A link that we open to another member, and open again whenever it ends.
//!
//! Discovered members come and go: when the member of a place is forgotten its link ends, and the place waits for the next member.
//!
//! The link carries the member's hints and beats to us, and our purges to the member. A member that is silent for [`SILENCE_MAX`] is no longer
//! trusted, but its link stays open, so that a process that was only stopped can resume. After [`GONE_AFTER`] the link is opened anew.
//!
//! Not known here: the meaning of frames.
//! Limits: the pause before a new attempt is [`PAUSE_MIN`], doubled after each failure up to [`PAUSE_MAX`].

use std::{io, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use hints::frames::{COLUMNS_MAX, Frame};
use tokio::{
    io::{AsyncRead, split},
    sync::mpsc,
    time::{sleep, timeout},
};

use super::{
    framing::{self, Incoming},
    member::{Member, Who},
    roll::{Said, Verdict},
    shaking,
    state::Cluster,
};
use base::member::{MemberId, Refusal};
use base::{
    access::{Destinations, Forbidden},
    chance,
    socket::Socket,
};
use origin::{ConnectError, Connector, Destination};
use plan::proof::Cover;

/// A member that has been silent for this long is not trusted. Members beat every second.
const SILENCE_MAX: Duration = Duration::from_secs(3);
/// A link that has been silent for this long is closed.
const GONE_AFTER: Duration = Duration::from_secs(30);
/// Answers to frames that may wait to be sent: those to two HELLOs.
const ANSWERS_MAX: usize = 2 * COLUMNS_MAX;
/// The pause before the first new attempt.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two attempts.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// Keeps a link to the member in this place, whichever it is, until the task is aborted.
pub async fn keep(
    rules: Rc<Destinations>,
    cluster: Arc<Cluster>,
    connector: Rc<Connector>,
    id: MemberId,
) {
    let Some(place) = cluster.place(id) else {
        return;
    };
    let Some(mut waiting) = place.take_waiting() else {
        return;
    };
    let mut watch = place.watch();
    let mut occupant = None;
    loop {
        let who = watch.borrow_and_update().clone();
        if occupant != who.as_ref().map(|who| who.occupant) {
            occupant = who.as_ref().map(|who| who.occupant);
            cluster.view().remove(id.0);
        }
        let turn = who.as_ref().map(|who| who.turn);
        let other = async {
            let is_other = |who: &Option<Arc<Who>>| who.as_ref().map(|who| who.turn) != turn;
            // The sender lives as long as the cluster, so this cannot fail.
            let _ = watch.wait_for(is_other).await;
        };
        let keeping = async {
            match who.as_deref().filter(|who| who.is_called) {
                Some(who) => {
                    let keeper = Keeper {
                        rules: &rules,
                        cluster: &cluster,
                        connector: &connector,
                        id,
                        place,
                    };
                    keeper.keep(who, &mut waiting).await
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = other => {}
            () = keeping => {}
        }
        cluster.view().lost(id.0);
        place.set_trusted(false, cluster.now_ms());
        while waiting.try_recv().is_ok() {}
        place.withdrawals.link_ended();
    }
}

/// Keeps the link to one member.
struct Keeper<'k> {
    rules: &'k Destinations,
    cluster: &'k Cluster,
    connector: &'k Connector,
    id: MemberId,
    place: &'k Member,
}

impl Keeper<'_> {
    async fn keep(&self, who: &Who, waiting: &mut mpsc::Receiver<Bytes>) {
        let (cluster, place) = (self.cluster, self.place);
        let mut pause = PAUSE_MIN;
        loop {
            match self.connect(who).await {
                Ok((socket, cover)) => {
                    let ended = Link {
                        cluster,
                        id: self.id,
                        cover,
                    }
                    .carry(socket, waiting, &mut pause)
                    .await;
                    cluster.view().lost(self.id.0);
                    let is_news = place.set_trusted(false, cluster.now_ms());
                    match (is_news, place.is_draining()) {
                        (true, false) => {
                            tracing::warn!(member = %place.name(), "the link to a cluster member has ended: {ended}");
                        }
                        (true, true) => {
                            tracing::info!(member = %place.name(), "a cluster member has ended, as it had said");
                        }
                        (false, _) => {}
                    }
                    if ended.kind() == io::ErrorKind::InvalidData {
                        let malformed = &cluster.counters.frames_malformed;
                        malformed.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                    // These frames were meant for the link that has ended. Senders that need an answer wait for it with a timeout.
                    while waiting.try_recv().is_ok() {}
                    place.withdrawals.link_ended();
                }
                Err(
                    ConnectError::Member(Refusal::Own)
                    | ConnectError::Forbidden(Forbidden::OwnListener),
                ) => {
                    cluster.is_own_address(self.id, who.turn);
                }
                Err(error) => {
                    tracing::debug!(member = %place.name(), "no link to a cluster member: {error}")
                }
            }
            tokio::select! {
                () = sleep(with_jitter(pause)) => pause = (pause * 2).min(PAUSE_MAX),
                () = place.knocked.notified() => pause = PAUSE_MIN,
            }
        }
    }

    /// Opens a link to the member at this address, if it is the member of this place.
    async fn connect(&self, who: &Who) -> Result<(Socket, Cover), ConnectError> {
        let cluster = self.cluster;
        let to = Destination {
            tls: false,
            host: who.at.host.as_str().into(),
            port: who.at.port,
            member: None,
            terms: None,
            http2: None,
        };
        let mut socket = self.connector.socket_to(&to, self.rules).await?;
        let opened = shaking::open_link(cluster, &mut socket, who).await?;
        let said = Said {
            name: &opened.name,
            incarnation: opened.incarnation,
        };
        match cluster.met(self.id, who.turn, said) {
            Verdict::Stays => Ok((socket, opened.cover)),
            Verdict::Leaves | Verdict::Waits => Err(Refusal::NotHere.into()),
        }
    }
}

/// Half of `pause` plus a random share of the other half, so that members that start together do not collide for ever.
fn with_jitter(pause: Duration) -> Duration {
    let dice = chance::u64().unwrap_or(0) % 1024;
    pause / 2 + pause / 2 * dice as u32 / 1024
}

struct Link<'l> {
    cluster: &'l Cluster,
    id: MemberId,
    cover: Cover,
}

impl Link<'_> {
    /// Carries frames both ways until the link ends; returns the reason.
    async fn carry(
        &self,
        socket: Socket,
        waiting: &mut mpsc::Receiver<Bytes>,
        pause: &mut Duration,
    ) -> io::Error {
        let withdrawals = &self.member().withdrawals;
        if withdrawals.link_begins() {
            self.cluster.view().doubt(self.id.0);
        }
        let (read, mut write) = split(socket);
        let (answer, mut answers) = mpsc::channel(ANSWERS_MAX);
        let writing = async {
            loop {
                let frame = tokio::select! {
                    Some(frame) = answers.recv() => frame,
                    Some(frame) = waiting.recv() => frame,
                    else => return Err(io::ErrorKind::BrokenPipe.into()),
                };
                framing::write(&mut write, &frame).await?;
            }
        };
        let reading = async {
            let mut incoming = Incoming::new(read);
            loop {
                let frame = self.next(&mut incoming).await?;
                *pause = PAUSE_MIN;
                if withdrawals.are_lost() {
                    return Err(io::Error::other("too many frames wait for it"));
                }
                if !self.cluster.purging.hear(self.id, &frame).await? {
                    self.received(&frame, &answer)?;
                }
            }
        };
        let ended: io::Result<()> = tokio::select! {
            ended = writing => ended,
            ended = reading => ended,
        };
        ended
            .err()
            .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    /// The next frame. Withdraws trust while the member is silent.
    async fn next<R: AsyncRead + Unpin>(&self, incoming: &mut Incoming<R>) -> io::Result<Bytes> {
        if let Ok(frame) = timeout(SILENCE_MAX, incoming.next()).await {
            return frame;
        }
        let member = self.member();
        if member.set_trusted(false, self.cluster.now_ms()) {
            tracing::warn!(member = %member.name(), "a cluster member is silent; it is not asked until it is heard");
        }
        match timeout(GONE_AFTER, incoming.next()).await {
            Ok(frame) => frame,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    fn received(&self, frame: &[u8], answer: &mpsc::Sender<Bytes>) -> io::Result<()> {
        let said = framing::decode(frame)?;
        let member = self.member();
        if member.set_trusted(true, self.cluster.now_ms()) {
            tracing::info!(member = %member.name(), "the link to a cluster member is up");
        }
        self.cluster.counters.passed(&said, frame.len());
        let wanted = self.cluster.follow(self.id, said, &self.cover);
        let wanted = wanted.map_err(|broken| io::Error::new(io::ErrorKind::InvalidData, broken))?;
        for subscribe in wanted {
            let frame = Frame::Subscribe(subscribe).to_bytes().into();
            // The queue holds the answers to two HELLOs. A member that fills it breaks the protocol.
            (answer.try_send(frame)).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
        }
        Ok(())
    }

    fn member(&self) -> &Member {
        &self.cluster.places[usize::from(self.id.0)]
    }
}
