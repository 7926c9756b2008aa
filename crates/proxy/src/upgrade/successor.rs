//! The old process: starts the process that replaces it, hands over, and ends.
//!
//! A thread does this, since its waits block; requests continue meanwhile. See [`super`] for the order and why it is safe.
//!
//! Limits: [`RELOAD_MAX`] for a reload in progress, [`START_MAX`] for the start of the new process, [`FREEZE_MAX`], [`READY_MAX`],
//! [`SERVING_MAX`]; [`TOLD_MAX`] for an invalidation told to the new process.

use std::{
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream,
    },
    process::Child,
    sync::{Arc, atomic::Ordering, mpsc},
    thread,
    time::{Duration, Instant},
};

use store::Heard;
use tokio::sync::oneshot;

use super::{
    Go, Hello, Offer, OfferedSockets, OfferedStore, Said, Word,
    link::{Came, DESCRIPTORS_MAX, Link},
    step::{self, Step},
};
use base::upgrades::{Outcome, lock};
use base::{clock::unix_ms, notify::Manager, phase::Stopper};
use exchange::state::Shared;

/// How long an upgrade waits for the end of reloads. Between two successive reloads there is a pause.
const RELOAD_MAX: Duration = Duration::from_secs(10);
/// How often an upgrade checks for that end: more often than such a pause is long.
const RELOAD_STEP: Duration = Duration::from_millis(5);
/// How long the new process may take to read its configuration and to listen on its addresses.
const START_MAX: Duration = Duration::from_secs(60);
/// How long the disks may take for the last writes and a checkpoint.
const FREEZE_MAX: Duration = Duration::from_secs(30);
/// How long the new process may take to read the stores. Nothing is stored meanwhile, and purges wait.
const READY_MAX: Duration = Duration::from_secs(60);
/// How long the new process may take to mark the stores and to accept. No client is served meanwhile.
const SERVING_MAX: Duration = Duration::from_secs(60);
/// How long the new process may take to make an invalidation durable.
const TOLD_MAX: Duration = Duration::from_secs(10);
/// How often to check whether this process is asked to end.
const STEP: Duration = Duration::from_millis(50);
/// How often to check whether the stores are frozen.
const FREEZE_STEP: Duration = Duration::from_millis(1);
/// How often to check for invalidations to tell, if no wake-up has come.
const TELL_STEP: Duration = Duration::from_millis(20);
/// How long a process may take to end after its sockets were closed.
const ENDED_MAX: Duration = Duration::from_secs(1);

/// Starts an upgrade, and waits for its outcome.
pub async fn ask(shared: Arc<Shared>) -> Outcome {
    let this = &shared.upgrades;
    let deadline = Instant::now() + RELOAD_MAX;
    while shared.reloads.are_under_way() && Instant::now() < deadline {
        tokio::time::sleep(RELOAD_STEP).await;
    }
    may_begin(&shared)?;
    let (answer, answered) = oneshot::channel();
    let (ends, ended) = mpsc::channel();
    *lock(&this.thread) = Some(ended);
    this.is_under_way.store(true, Ordering::SeqCst);
    let all = Arc::clone(&shared);
    let started = thread::Builder::new()
        .name("upgrade".into())
        .spawn(move || {
            run(&all, answer);
            let _ = ends.send(());
        });
    if let Err(error) = started {
        this.is_under_way.store(false, Ordering::SeqCst);
        return Err(format!("no thread could be started for it: {error}"));
    }
    let ended = "the process ended meanwhile".to_owned();
    answered.await.unwrap_or(Err(ended))
}

fn may_begin(shared: &Shared) -> Result<(), String> {
    let upgrades = &shared.upgrades;
    let plan = &shared.edition().plan;
    let why_not = if upgrades.launch.is_none() {
        "this process cannot start another one"
    } else if shared.is_draining() {
        "the process is draining"
    } else if upgrades.are_under_way() {
        "an upgrade is under way already"
    } else if shared.reloads.are_under_way() {
        "a reload is under way; ask again"
    } else if upgrades.has_predecessor.load(Ordering::SeqCst) {
        "the process before this one still ends its requests (timeouts.drain limits that); ask again later"
    } else if plan.cluster.is_some() {
        "a member of a cluster is upgraded by a restart: the others answer for it meanwhile"
    } else if plan.icp.listen.is_some() {
        "with icp.listen an upgrade wants a restart"
    } else if !shared.cache.absent.is_empty() {
        "a store could not be opened at the start and is left out; restart, so that it is tried again"
    } else {
        return Ok(());
    };
    Err(why_not.to_owned())
}

/// The conversation with the new process.
struct Talk<'a> {
    shared: &'a Shared,
    link: Link,
    child: Option<Child>,
}

fn run(shared: &Arc<Shared>, answer: oneshot::Sender<Outcome>) {
    let upgrades = &shared.upgrades;
    let began = Instant::now();
    let begun = Talk::begin(shared).map_err(|error| error.to_string());
    let mut talk = match begun {
        Ok(talk) => talk,
        Err(why) => {
            upgrades.is_under_way.store(false, Ordering::SeqCst);
            let _ = answer.send(Err(why));
            return;
        }
    };
    let gone = match talk.hand_over() {
        Ok(gone) => gone,
        Err(why) => {
            talk.give_up(&why);
            upgrades.is_under_way.store(false, Ordering::SeqCst);
            tracing::error!("the upgrade is given up, and this process serves on: {why}");
            let _ = answer.send(Err(why));
            return;
        }
    };
    // From here on the upgrade cannot be undone.
    step::at(Step::OldStops);
    Stopper(shared.phase.clone()).stop();
    step::at(Step::OldDrains);
    if let Err(why) = talk.expect(SERVING_MAX, "Serving", |word| matches!(word, Word::Serving)) {
        upgrades.has_failed.store(true, Ordering::SeqCst);
        tracing::error!("the new process has taken over and does not serve: {why}");
        let _ = answer.send(Err(format!(
            "the new process has taken over and does not serve: {why}; start one"
        )));
        return;
    }
    step::at(Step::OldTells);
    let pid = gone.pid;
    if shared.is_process {
        Manager::of_environment().is_succeeded_by(pid);
    }
    let times = format!(
        "nothing was stored for {} ms, and who connected waited for {} ms",
        gone.frozen.elapsed().as_millis(),
        gone.over.elapsed().as_millis()
    );
    tracing::info!(
        pid,
        version = gone.version,
        ms = began.elapsed().as_millis(),
        "another process has taken over; {times}; this one ends its requests"
    );
    let _ = answer.send(Ok(format!(
        "process {pid} (version {}) has taken over from {}; {times}",
        gone.version,
        std::process::id()
    )));
    shared.cache.memory.clear();
    talk.tell_until_drained();
}

/// The process that has taken over, and the times of the hand-over.
struct Gone {
    pid: u32,
    version: String,
    frozen: Instant,
    over: Instant,
}

impl<'a> Talk<'a> {
    fn begin(shared: &'a Shared) -> io::Result<Talk<'a>> {
        let launch = shared.upgrades.launch.as_ref();
        let launch = launch.ok_or_else(|| io::Error::other("this process cannot start another"))?;
        step::at(Step::OldStarts);
        let (ours, theirs) = UnixStream::pair()?;
        let child = (lock(launch))(theirs)?;
        Ok(Talk {
            shared,
            link: Link::new(ours)?,
            child,
        })
    }

    /// The steps up to Go, after which the stores belong to the new process.
    fn hand_over(&mut self) -> Result<Gone, String> {
        let shared = self.shared;
        let Word::Hello(hello) =
            self.expect(START_MAX, "Hello", |word| matches!(word, Word::Hello(_)))?
        else {
            return Err("it says what was not asked for".to_owned());
        };
        hello.is_understood()?;
        step::at(Step::OldOffers);
        self.offer().map_err(|error| error.to_string())?;
        self.expect(START_MAX, "Prepared", |word| matches!(word, Word::Prepared))?;
        step::at(Step::OldFreezes);
        let frozen = Instant::now();
        self.freeze()?;
        step::at(Step::OldHasFrozen);
        self.say(&Word::Frozen)?;
        step::at(Step::OldWaits);
        self.expect(READY_MAX, "Ready", |word| matches!(word, Word::Ready))?;
        let over = Instant::now();
        let held = shared.hand_over();
        let of_store =
            |held: Vec<store::HeldChunks>| held.iter().map(|it| (it.first, it.len)).collect();
        step::at(Step::OldLetsGo);
        let go = Word::Go(Go {
            held: held.into_iter().map(of_store).collect(),
        });
        if let Err(why) = self.say(&go) {
            // The new process has not received all of Go, so it has not taken over.
            shared.take_back();
            return Err(why);
        }
        Ok(Gone {
            pid: hello.pid,
            version: hello.version,
            frozen,
            over,
        })
    }

    fn say(&self, word: &Word) -> Result<(), String> {
        let sent = self.link.send(word, &[]);
        sent.map_err(|error| format!("the new process cannot be spoken to: {error}"))
    }

    /// Waits for a message. `Err`: why it has not arrived.
    fn expect(
        &mut self,
        longest: Duration,
        name: &str,
        is_it: impl Fn(&Word) -> bool,
    ) -> Result<Word, String> {
        let deadline = Instant::now() + longest;
        loop {
            match self.link.receive::<Word>(STEP) {
                Ok(Came::Message(word, _)) if is_it(&word) => return Ok(word),
                Ok(Came::Message(Word::Refused(why), _)) => return Err(why),
                Ok(Came::Message(word, _)) => {
                    return Err(format!("it says {} instead of {name}", word.name()));
                }
                Ok(Came::End) => return Err(self.how_it_ended()),
                Ok(Came::Nothing) => {}
                Err(error) => return Err(format!("the new process is not understood: {error}")),
            }
            let has_it = self.shared.is_handed_over.load(Ordering::SeqCst);
            if !has_it && self.shared.is_draining() {
                return Err("this process was asked to stop".to_owned());
            }
            if Instant::now() >= deadline {
                return Err(format!(
                    "the new process does not say {name} within {longest:?}"
                ));
            }
        }
    }

    fn how_it_ended(&mut self) -> String {
        let deadline = Instant::now() + ENDED_MAX;
        let mut status = None;
        while let Some(child) = &mut self.child
            && status.is_none()
            && Instant::now() < deadline
        {
            status = child.try_wait().ok().flatten();
            thread::sleep(FREEZE_STEP);
        }
        match status {
            Some(status) => format!("the new process ended ({status}); the log has why"),
            None => "the new process ended".to_owned(),
        }
    }

    /// Sends the offer, and passes on the descriptors.
    fn offer(&self) -> io::Result<()> {
        let shared = self.shared;
        let passed = shared.listening.pass_on()?;
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        let mut offer = Offer {
            from: Hello::of_this(),
            sockets: Vec::new(),
            stores: Vec::new(),
            hash_seed: (!shared.cache.has_disk).then(|| shared.cache.hasher().seed()),
        };
        for passed in passed {
            offer.sockets.push(OfferedSockets {
                is_admin: passed.is_admin,
                configured: passed.configured,
                count: passed.sockets.len(),
            });
            descriptors.extend(passed.sockets);
        }
        for device in &shared.cache.devices {
            let (fd, passport) = device
                .to_pass_on()
                .ok_or_else(|| io::Error::other("a store in memory cannot be handed over"))?;
            offer.stores.push(OfferedStore::of(passport));
            descriptors.push(fd.try_clone_to_owned()?);
        }
        self.link.send(&Word::Offer(offer), &[])?;
        for some in descriptors.chunks(DESCRIPTORS_MAX) {
            let some: Vec<_> = some.iter().map(|fd| fd.as_fd()).collect();
            self.link.send(&Word::Descriptors, &some)?;
        }
        Ok(())
    }

    /// Brings the disks to the state of a clean stop.
    fn freeze(&self) -> Result<(), String> {
        let shared = self.shared;
        let deadline = Instant::now() + FREEZE_MAX;
        let stores: Vec<_> = shared.cache.store.stores().collect();
        for (number, store) in stores.iter().enumerate() {
            let writes = store
                .freeze()
                .map_err(|why| format!("a store cannot be handed over now: {why}"))?;
            for write in writes {
                let device = shared.cache.devices.get(number);
                let written =
                    device.is_some_and(|it| it.write_all_sync(write.offset, &write.data).is_ok());
                let id = write.id;
                // Dropping the write returns its buffer to the store.
                drop(write);
                store.write_done(id, written, unix_ms());
            }
        }
        shared.cache.wake_up.ring();
        while !stores.iter().all(|store| store.is_frozen()) {
            if shared.is_draining() {
                return Err("this process was asked to stop".to_owned());
            }
            if Instant::now() >= deadline {
                return Err(
                    "a disk did not take the last writes in time; nothing was handed over"
                        .to_owned(),
                );
            }
            thread::sleep(FREEZE_STEP);
        }
        Ok(())
    }

    /// Gives up the upgrade: this process continues as before.
    fn give_up(&mut self, why: &str) {
        let shared = self.shared;
        // Before the stores are thawed: the new process may still run, but without Go it does not write.
        let _ = self.link.send(&Word::Refused(why.to_owned()), &[]);
        for store in shared.cache.store.stores() {
            store.thaw();
        }
        shared.cache.wake_up.ring();
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Tells the new process each invalidation made here, until no request can make another.
    fn tell_until_drained(&mut self) {
        let shared = self.shared;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        let wait = || match &runtime {
            Ok(runtime) => runtime.block_on(shared.cache.wake_up.rung(TELL_STEP)),
            Err(_) => thread::sleep(TELL_STEP),
        };
        let mut is_heard = true;
        loop {
            // Read before the last look at the stores, so that none is missed.
            let is_last = shared.upgrades.is_drained.load(Ordering::SeqCst);
            if is_heard && let Err(why) = self.tell() {
                is_heard = false;
                tracing::warn!(
                    "purges of this process are not known to be durable any more: {why}"
                );
            }
            // Not earlier: until Drained, the new process spares the chunks that are still read here.
            if is_last {
                let _ = self.say(&Word::Drained);
                return;
            }
            wait();
        }
    }

    fn tell(&mut self) -> Result<(), String> {
        let shared = self.shared;
        let stores: Vec<_> = shared.cache.store.stores().map(Arc::clone).collect();
        for store in &stores {
            loop {
                let entries = store.next_told();
                if entries.is_empty() {
                    break;
                }
                let count = entries.len();
                let heard = self.told(entries.into_iter().map(Said::of).collect());
                match &heard {
                    Ok(Heard::NotDurable) => tracing::warn!(
                        "{count} purges of this process hold in the new one, which could not make them durable"
                    ),
                    Ok(_) => {}
                    // The new process will not hear the invalidations of the other stores either.
                    Err(_) => stores.iter().for_each(|it| it.told_done(Heard::NoMore)),
                }
                if let Ok(heard) = heard {
                    store.told_done(heard);
                }
                shared.cache.wake_up.tell_done();
                heard?;
            }
        }
        Ok(())
    }

    /// `Err`: the new process does not hear any more.
    fn told(&mut self, entries: Vec<Said>) -> Result<Heard, String> {
        self.say(&Word::Tell(entries))?;
        match self.expect(TOLD_MAX, "Told", |word| matches!(word, Word::Told(_)))? {
            Word::Told(true) => Ok(Heard::Durable),
            _ => Ok(Heard::NotDurable),
        }
    }
}
