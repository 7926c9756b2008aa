//! The new process: takes over from the process that has started it.
//!
//! Everything but the last part happens before this process serves, so it blocks the control thread. The last part (invalidations that
//! the old process still makes) has a thread. See [`super`] for the order and why it is safe.
//!
//! Limits: [`OFFER_MAX`], [`FROZEN_MAX`] and [`GO_MAX`] for messages of the old process; [`GONE_MAX`] for its end.

use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpListener},
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use device::Device;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, pidfd_open},
};
use store::{HeldChunks, Told};

use super::{
    Hello, Offer, Said, Word,
    link::{Came, Link},
    step::{self, Step},
};
use base::clock::Clock;
use cache::{Cache, predicate::Predicate};
use exchange::state::Shared;
use plan::Plan;

/// How long the old process may take to offer its sockets and stores.
const OFFER_MAX: Duration = Duration::from_secs(60);
/// How long the old process may take to freeze its stores; more than its own limit, so that it gives up first.
const FROZEN_MAX: Duration = Duration::from_secs(60);
/// How long the old process may take to hand its stores over.
const GO_MAX: Duration = Duration::from_secs(60);
/// How long a process may take to end after its sockets were closed.
const GONE_MAX: Duration = Duration::from_secs(10);
/// How long an invalidation may take to become durable.
const DURABLE_MAX: Duration = Duration::from_secs(9);
/// How long the thread waits at a time for a message.
const STEP: Duration = Duration::from_secs(1);

/// The process that this one replaces.
#[derive(Debug)]
pub struct Predecessor {
    link: Link,
    offer: Offer,
    sockets: Vec<(bool, SocketAddr, Vec<TcpListener>)>,
    devices: Vec<OwnedFd>,
    /// Readable when that process has ended.
    process: Option<OwnedFd>,
}

/// The result of taking over.
pub(crate) struct Taken {
    /// For each store: the chunks that the old process still reads.
    pub held: Vec<Vec<HeldChunks>>,
}

impl Predecessor {
    /// Connects to the process that has started this one.
    ///
    /// # Errors
    /// That process does not answer, or has another protocol.
    pub fn meet(stream: UnixStream) -> Result<Predecessor, String> {
        let mut link = Link::new(stream).map_err(|error| error.to_string())?;
        step::at(Step::NewBegins);
        let sent = link.send(&Word::Hello(Hello::of_this()), &[]);
        sent.map_err(|error| format!("the old process cannot be spoken to: {error}"))?;
        let (word, _) = next(&mut link, OFFER_MAX)?;
        let Word::Offer(offer) = word else {
            return Err(unexpected(word, "Offer"));
        };
        offer.from.is_understood()?;
        let sockets: usize = offer.sockets.iter().map(|it| it.count).sum();
        let all = sockets + offer.stores.len();
        let mut descriptors = VecDeque::new();
        while descriptors.len() < all {
            let (word, some) = next(&mut link, OFFER_MAX)?;
            let Word::Descriptors = word else {
                return Err(unexpected(word, "Descriptors"));
            };
            if some.is_empty() {
                return Err("the old process passes on less than it has offered".to_owned());
            }
            descriptors.extend(some);
        }
        let mut sockets = Vec::new();
        for offered in &offer.sockets {
            let some = descriptors.drain(..offered.count).map(TcpListener::from);
            sockets.push((offered.is_admin, offered.configured, some.collect()));
        }
        step::at(Step::NewHasAll);
        let pid = i32::try_from(offer.from.pid).ok().and_then(Pid::from_raw);
        Ok(Predecessor {
            link,
            sockets,
            devices: descriptors.into(),
            process: pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            offer,
        })
    }

    /// The paths of the old process's stores.
    pub fn store_paths(&self) -> Vec<PathBuf> {
        let stores = self.offer.stores.iter();
        stores.map(|store| store.path.clone()).collect()
    }

    /// Tells the old process why this one does not take over; the old one continues to serve.
    pub fn refuse(&self, why: &str) {
        let _ = self.link.send(&Word::Refused(why.to_owned()), &[]);
    }

    /// Can this configuration take over from the old process?
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), String> {
        if plan.cluster.is_some() {
            return Err("a member of a cluster is upgraded by a restart".to_owned());
        }
        let offered = &self.offer.stores;
        let same = |(store, offered): (&plan::StorePlan, &super::OfferedStore)| {
            store.path == offered.path
                && (store.size_bytes)
                    .is_none_or(|wanted| wanted / 4096 * 4096 == offered.size_bytes)
        };
        if plan.stores.len() != offered.len() || !plan.stores.iter().zip(offered).all(same) {
            return Err("the stores of the configuration are not those of the running process; that wants a restart".to_owned());
        }
        Ok(())
    }

    /// The seed of key hashes, if there is no store that has it.
    pub(crate) fn hash_seed(&self) -> Option<u64> {
        self.offer.hash_seed
    }

    /// The sockets of a configured address; none if the old process does not listen there.
    pub(crate) fn sockets(&mut self, is_admin: bool, configured: SocketAddr) -> Vec<TcpListener> {
        let wanted = |(of_admin, address, _): &(bool, SocketAddr, Vec<TcpListener>)| {
            *of_admin == is_admin && *address == configured
        };
        match self.sockets.iter().position(wanted) {
            Some(at) => self.sockets.swap_remove(at).2,
            None => Vec::new(),
        }
    }

    /// Call when everything is prepared that does not need the stores. On return they are as after a clean stop, and must not be written to.
    pub(crate) fn freeze(&mut self) -> Result<Vec<Arc<Device>>, String> {
        let devices = std::mem::take(&mut self.devices);
        let devices = devices
            .into_iter()
            .zip(&self.offer.stores)
            .map(|(fd, store)| Device::passed_on(fd, store.passport()));
        let devices: Result<Vec<_>, _> = devices.collect();
        let devices = devices.map_err(|error| error.to_string())?;
        step::at(Step::NewPrepares);
        self.say(&Word::Prepared)?;
        match next(&mut self.link, FROZEN_MAX)? {
            (Word::Frozen, _) => {
                step::at(Step::NewReads);
                Ok(devices)
            }
            (word, _) => Err(unexpected(word, "Frozen")),
        }
    }

    /// Call when everything is ready. On return the stores belong to this process.
    pub(crate) fn take_over(&mut self, devices: &[Arc<Device>]) -> Result<Taken, String> {
        step::at(Step::NewIsReady);
        self.say(&Word::Ready)
            .or_else(|why| self.has_ended().then_some(()).ok_or(why))?;
        let held = match self.link.receive::<Word>(GO_MAX) {
            Ok(Came::Message(Word::Go(go), _)) => go.held,
            Ok(Came::Message(word, _)) => return Err(unexpected(word, "Go")),
            // The old process has frozen its stores and ended, so it can neither write nor read.
            Ok(Came::End) if self.has_ended() => {
                tracing::warn!(
                    "the old process has ended before it had handed everything over; going on without it"
                );
                Vec::new()
            }
            Ok(Came::End) => return Err("the old process has closed the link".to_owned()),
            Ok(Came::Nothing) => return Err(format!("no Go within {GO_MAX:?}")),
            Err(error) => return Err(error.to_string()),
        };
        step::at(Step::NewMarks);
        for device in devices {
            device.take_over();
        }
        let chunks = |(first, len)| HeldChunks { first, len };
        let of_store = |held: Vec<(u32, u32)>| held.into_iter().map(chunks).collect();
        Ok(Taken {
            held: held.into_iter().map(of_store).collect(),
        })
    }

    /// Has the old process ended, or does it end within [`GONE_MAX`]?
    fn has_ended(&self) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let longest = Timespec {
            tv_sec: GONE_MAX.as_secs() as i64,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN)];
        matches!(poll(&mut fds, Some(&longest)), Ok(ready) if ready > 0)
    }

    /// Call when clients are served. Carries out the old process's further invalidations here.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn listen_on(mut self, shared: &Arc<Shared>) -> std::io::Result<()> {
        shared
            .upgrades
            .has_predecessor
            .store(true, Ordering::SeqCst);
        let shared = Arc::clone(shared);
        thread::Builder::new()
            .name("predecessor".into())
            .spawn(move || {
                step::at(Step::NewServes);
                let _ = self.say(&Word::Serving);
                step::at(Step::NewListens);
                self.obey(&shared.cache, &shared.clock);
                for store in shared.cache.store.stores() {
                    store.unprotect();
                }
                let upgrades = &shared.upgrades;
                upgrades.has_predecessor.store(false, Ordering::SeqCst);
                tracing::info!("the old process has ended its requests");
            })
            .map(drop)
    }

    fn obey(&mut self, cache: &Cache, clock: &Clock) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        loop {
            match self.link.receive::<Word>(STEP) {
                Ok(Came::Message(Word::Tell(entries), _)) => {
                    let handles = invalidate(cache, clock, entries);
                    let is_durable = match (&runtime, handles) {
                        (Ok(runtime), Some(handles)) => {
                            runtime.block_on(cache.settle(&handles, DURABLE_MAX))
                        }
                        _ => false,
                    };
                    let _ = self.say(&Word::Told(is_durable));
                }
                // The old process no longer reads the stores, whichever way it ended.
                Ok(Came::Message(Word::Drained, _)) => return,
                Ok(Came::End) => {
                    self.has_ended();
                    return;
                }
                Ok(Came::Message(word, _)) => {
                    tracing::warn!("the old process says {} now", word.name());
                }
                Ok(Came::Nothing) => {}
                Err(error) => {
                    tracing::warn!(%error, "the old process is not understood any more");
                    self.has_ended();
                    return;
                }
            }
        }
    }

    fn say(&self, word: &Word) -> Result<(), String> {
        let sent = self.link.send(word, &[]);
        sent.map_err(|error| format!("the old process cannot be spoken to: {error}"))
    }
}

/// Carries out the old process's invalidations here. `None`: not all of them were possible.
fn invalidate(
    cache: &Cache,
    clock: &Clock,
    entries: Vec<Said>,
) -> Option<Vec<store::set::DurabilityHandles>> {
    let now = httpcache::UnixMillis(clock.now().as_millis() as u64);
    let mut all = Some(Vec::new());
    for entry in entries {
        let handles = match entry.meant() {
            Told::Key(primary) => Some(cache.invalidate(primary).1),
            Told::Doubt(primary) => Some(cache.doubt(primary, now).1),
            Told::Matching { kind, pattern } => Predicate::decode(kind, &pattern)
                .and_then(|predicate| cache.invalidate_matching(&predicate, now).ok()),
        };
        // Carry out the other ones nevertheless.
        all = all.zip(handles).map(|(mut all, handles)| {
            all.push(handles);
            all
        });
    }
    all
}

fn next(link: &mut Link, longest: Duration) -> Result<(Word, Vec<OwnedFd>), String> {
    match link.receive::<Word>(longest) {
        Ok(Came::Message(word, descriptors)) => Ok((word, descriptors)),
        Ok(Came::End) => Err("the old process has closed the link".to_owned()),
        Ok(Came::Nothing) => Err(format!("the old process says nothing for {longest:?}")),
        Err(error) => Err(format!("the old process is not understood: {error}")),
    }
}

fn unexpected(word: Word, wanted: &str) -> String {
    match word {
        Word::Refused(why) => why,
        word => format!("the old process says {} instead of {wanted}", word.name()),
    }
}
