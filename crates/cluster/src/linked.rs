//! A link that another member has opened to us: we send our hints and beats, and the member sends its subscriptions.
//!
//! We first send HELLO and a beat, and both again whenever our columns change. After that we send a beat every second, and the columns that the
//! member follows as fast as it reads them.
//!
//! Not known here: how the link was made, and what frames mean to their sender.

use std::{cell::Cell, io, rc::Rc, sync::Arc, time::Duration};

use hints::frames::{Beat, Frame, Hello};
use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval},
};

use super::{
    framing::{self, Incoming},
    state::Cluster,
};
use base::member::MemberId;
use base::{clock::Instant, phase::Phase, socket::Socket};
use plan::proof::Cover;

/// How often a beat is sent.
const BEATS_EVERY: Duration = Duration::from_secs(1);

/// The link.
pub struct Linked {
    /// Whether the process serves.
    pub phases: watch::Receiver<Phase>,
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// The member that opened the link.
    pub member: MemberId,
    /// Encrypts the seeds of our columns.
    pub cover: Cover,
    /// Changes when there are new hints to send.
    pub news: watch::Receiver<u64>,
    /// Set once the member has been told that we are shutting down.
    pub has_heard: Rc<Cell<bool>>,
}

impl Linked {
    /// Serves the link until it ends; returns the reason.
    pub async fn serve(self, socket: Socket) -> io::Error {
        let (read, write) = split(socket);
        let asked = Rc::new(Notify::new());
        let ended: io::Result<()> = tokio::select! {
            ended = self.write(write, &asked) => ended,
            ended = self.read(read, &asked) => ended,
        };
        ended
            .err()
            .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }

    async fn write<W: AsyncWrite + Unpin>(&self, mut stream: W, asked: &Notify) -> io::Result<()> {
        let mut beats = interval(BEATS_EVERY);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut news = self.news.clone();
        let mut phase = self.phases.clone();
        let mut purging = self.cluster.purging.linked(self.member);
        let (mut announced, hello) = self.hello();
        self.send(&mut stream, &Frame::Hello(hello)).await?;
        loop {
            tokio::select! {
                _ = beats.tick() => self.send(&mut stream, &Frame::Beat(self.beat())).await?,
                _ = phase.changed() => self.send(&mut stream, &Frame::Beat(self.beat())).await?,
                changed = news.changed() => changed.map_err(|_| io::ErrorKind::BrokenPipe)?,
                () = asked.notified() => {}
                said = purging.recv() => {
                    let said = said.ok_or(io::ErrorKind::BrokenPipe)?;
                    framing::write(&mut stream, &said).await?;
                }
            }
            let (now, hello) = self.hello();
            if now != announced {
                announced = now;
                self.send(&mut stream, &Frame::Hello(hello)).await?;
                // A front pushes nothing until a beat has told it the sequences.
                self.send(&mut stream, &Frame::Beat(self.beat())).await?;
            }
            let mut beat_at = Instant::now();
            // Make each frame only when the one before has been written, so that a slow member gets the state of that moment.
            while let Some(frame) = self.next_frame() {
                self.send(&mut stream, &frame).await?;
                // Send purges between the frames of a full copy, so that they need not wait for its end.
                while let Ok(said) = purging.try_recv() {
                    framing::write(&mut stream, &said).await?;
                }
                // Keep beating during a full copy that takes long, or the member would stop trusting us.
                if beat_at.elapsed() >= BEATS_EVERY {
                    beat_at = Instant::now();
                    self.send(&mut stream, &Frame::Beat(self.beat())).await?;
                }
            }
        }
    }

    async fn read<R: AsyncRead + Unpin>(&self, stream: R, asked: &Notify) -> io::Result<()> {
        let mut incoming = Incoming::new(stream);
        loop {
            let frame = incoming.next().await?;
            if !self.cluster.purging.hear(self.member, &frame).await? {
                self.received(&frame, asked)?;
            }
        }
    }

    fn received(&self, frame: &[u8], asked: &Notify) -> io::Result<()> {
        match framing::decode(frame)? {
            Frame::Subscribe(wanted) => {
                let mut publishing = self.cluster.publishing();
                let is_taken = publishing
                    .as_mut()
                    .is_none_or(|it| it.subscribe(self.member, &wanted));
                asked.notify_one();
                is_taken
                    .then_some(())
                    .ok_or_else(|| io::ErrorKind::InvalidData.into())
            }
            Frame::Withdrawn(withdrawn) => {
                if let Some(publishing) = self.cluster.publishing().as_mut() {
                    publishing.withdrawn(withdrawn.column.into(), withdrawn.number);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn hello(&self) -> (u64, Hello) {
        match self.cluster.publishing().as_ref() {
            Some(publishing) => (publishing.announced, publishing.hello(&self.cover)),
            None => (0, self.cluster.hello_without_store()),
        }
    }

    fn beat(&self) -> Beat {
        let is_leaving = *self.phases.borrow() != Phase::Running;
        match self.cluster.publishing().as_ref() {
            Some(publishing) => publishing.beat(is_leaving),
            None => Beat {
                is_leaving,
                ..Beat::default()
            },
        }
    }

    fn next_frame(&self) -> Option<Frame> {
        let mut publishing = self.cluster.publishing();
        publishing.as_mut()?.next_frame(self.member)
    }

    async fn send<W: AsyncWrite + Unpin>(&self, stream: &mut W, frame: &Frame) -> io::Result<()> {
        let bytes = frame.to_bytes();
        self.cluster.counters.passed(frame, bytes.len());
        framing::write(stream, &bytes).await?;
        if matches!(frame, Frame::Beat(beat) if beat.is_leaving) {
            self.has_heard.set(true);
        }
        Ok(())
    }
}
