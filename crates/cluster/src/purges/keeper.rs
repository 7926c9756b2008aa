//! The journal's thread: it does all reads and writes, so that no other part of the cluster waits for the journal's disk.
//!
//! Jobs are done in order. All that have arrived meanwhile are made durable with one flush.
//!
//! While the disk hangs, jobs wait. When too many wait, the journal *skips* new entries: members with a link are still told, but nothing
//! reports the entries as durable. When the disk works again, skipped entries are marked as heard but not kept, so that a member that
//! needs one is told that it is lost.
//!
//! Not known here: members, the contents of entries.
//! Limits: [`JOBS_MAX`] jobs of [`WAITING_BYTES_MAX`] bytes together, plus one of each kind that is never skipped. Shutdown waits for at
//! most [`END_MAX`].

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use tokio::sync::mpsc as results;

use base::clock;
use base::member::MemberId;
use purging::{
    journal::{Entry, Journal, Line, Position},
    stamp::{Stamp, Vector},
};

/// Waiting jobs at most.
const JOBS_MAX: u64 = 256 << 10;
/// Waiting bytes of entries at most.
const WAITING_BYTES_MAX: u64 = 64 << 20;
/// How long shutdown waits for the journal's disk.
const END_MAX: Duration = Duration::from_secs(5);

/// A task for the journal.
#[derive(Debug)]
pub enum Job {
    /// Append an entry.
    Append(Entry),
    /// Make all appended entries durable, then send [`Event::Synced`].
    Sync(Synced),
    /// Mark all of this as heard without having its entries, then send [`Event::Synced`].
    Adopt(Vector, Synced),
    /// Record that the objects stored before a new journal have been dropped.
    Trust,
    /// Record a change from a member's summary. The flag: it is the first of the summary.
    Also(MemberId, bytes::Bytes, bool),
    /// The member has told its whole summary, up to this.
    Upto(MemberId, Vector),
    /// Find where reading begins for a member, then send [`Event::Found`].
    Find(MemberId, u64, Option<Vector>),
    /// Read some lines for a member, then send [`Event::Read`].
    Read(MemberId, u64, Position),
}

impl Job {
    fn bytes(&self) -> u64 {
        match self {
            Job::Append(entry) => entry.change.len() as u64,
            Job::Also(_, change, _) => change.len() as u64,
            _ => 0,
        }
    }
}

/// What waits for the journal to be durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synced {
    /// A purge of ours.
    Own(Stamp),
    /// Purges of other members, up to this batch number.
    Followed(u64),
}

/// The result of a job.
#[derive(Debug)]
pub enum Event {
    /// Whether it is durable now; false: it will not be.
    Synced(Synced, bool),
    /// Where reading begins for a member. `Err`: entries that it lacks are gone; all that was heard here.
    Found(MemberId, u64, Result<Position, Vector>),
    /// Lines that were read, and the position of the next.
    Read(MemberId, u64, Option<(Vec<Line>, Position)>),
}

/// What a refused job means. Jobs are refused when too many wait.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The journal will lack this entry.
    Entry,
    /// This purge of ours will not be durable.
    Own(Stamp),
    /// This member has to be asked again.
    Telling(MemberId),
}

/// A handle to the journal's thread.
#[derive(Debug)]
pub struct Keeper {
    jobs: Option<mpsc::Sender<Job>>,
    /// Counts of waiting jobs and their bytes.
    waiting: Arc<Waiting>,
    /// Skipped entries, to be marked as heard once the disk works again; `None`: none is skipped.
    skipped: Option<Vector>,
    /// A [`Job::Sync`] or [`Job::Adopt`] of others that was put off.
    sync_later: Option<Synced>,
    /// [`Job::Trust`] was put off.
    trust_later: bool,
    /// Members whose summary was skipped in part, a bit each.
    broken: u64,
    ended: mpsc::Receiver<()>,
}

#[derive(Debug, Default)]
struct Waiting {
    jobs: AtomicU64,
    bytes: AtomicU64,
}

impl Keeper {
    /// Starts the thread. The results of jobs come out of the receiver.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(journal: Journal) -> io::Result<(Keeper, results::UnboundedReceiver<Event>)> {
        Keeper::start_with(journal, || ())
    }

    /// The same, calling `before` before each job.
    fn start_with(
        journal: Journal,
        before: impl Fn() + Send + 'static,
    ) -> io::Result<(Keeper, results::UnboundedReceiver<Event>)> {
        let (jobs, given) = mpsc::channel();
        // Unbounded, but there are no more events than jobs.
        let (events, results) = results::unbounded_channel();
        let (ends, ended) = mpsc::channel();
        let waiting = Arc::new(Waiting::default());
        let desk = Desk {
            journal,
            events,
            waiting: Arc::clone(&waiting),
            is_failing: false,
        };
        thread::Builder::new()
            .name("purges".into())
            .spawn(move || {
                desk.work(&given, before);
                drop(ends);
            })?;
        let keeper = Keeper {
            jobs: Some(jobs),
            waiting,
            skipped: None,
            sync_later: None,
            trust_later: false,
            broken: 0,
            ended,
        };
        Ok((keeper, results))
    }

    /// Gives the thread a job. If too many wait the job is not done, and the result says what follows from that.
    pub fn give(&mut self, job: Job) -> Option<Refused> {
        self.catch_up();
        if self.skipped.is_none() && self.has_room(&job) {
            self.send(job);
            return None;
        }
        if self.skipped.is_none() {
            tracing::error!(
                "the cluster's journal of purges does not keep up with its disk: members that are away now must drop what they have stored when they come back"
            );
        }
        let skipped = self.skipped.get_or_insert_default();
        match job {
            Job::Append(entry) => {
                skipped.hear(entry.origin, entry.stamp, entry.unix_s);
                return Some(Refused::Entry);
            }
            Job::Sync(Synced::Own(stamp)) => return Some(Refused::Own(stamp)),
            Job::Sync(followed) => self.sync_later = Some(followed),
            Job::Adopt(heard, followed) => {
                skipped.hear_all(&heard);
                self.sync_later = Some(followed);
            }
            Job::Trust => self.trust_later = true,
            Job::Also(member, ..) => self.broken |= member.bit(),
            Job::Upto(member, heard) => {
                self.broken &= !member.bit();
                skipped.hear_all(&heard);
            }
            Job::Find(member, ..) | Job::Read(member, ..) => {
                return Some(Refused::Telling(member));
            }
        }
        None
    }

    /// Gives the thread what was put off, if the disk works again. To be called regularly.
    pub fn catch_up(&mut self) {
        if self.skipped.is_none() || self.waiting.jobs.load(Ordering::Acquire) != 0 {
            return;
        }
        let Some(skipped) = self.skipped.take() else {
            return;
        };
        // The journal marks skipped entries as heard but lacks them, so a member that needs one is told that it is lost.
        let followed = self.sync_later.take().unwrap_or(Synced::Followed(0));
        self.send(Job::Adopt(skipped, followed));
        if std::mem::take(&mut self.trust_later) {
            self.send(Job::Trust);
        }
    }

    fn has_room(&self, job: &Job) -> bool {
        let (jobs, bytes) = (&self.waiting.jobs, &self.waiting.bytes);
        jobs.load(Ordering::Relaxed) < JOBS_MAX
            && bytes.load(Ordering::Relaxed) + job.bytes() <= WAITING_BYTES_MAX
    }

    fn send(&mut self, job: Job) {
        if let Job::Also(member, _, true) = &job {
            self.broken &= !member.bit();
        }
        let job = match job {
            // Part of the summary was skipped, so only mark it as heard.
            Job::Upto(member, heard) if self.broken & member.bit() != 0 => {
                self.broken &= !member.bit();
                Job::Adopt(heard, Synced::Followed(0))
            }
            job => job,
        };
        self.waiting.jobs.fetch_add(1, Ordering::Relaxed);
        self.waiting.bytes.fetch_add(job.bytes(), Ordering::Relaxed);
        if let Some(jobs) = &self.jobs {
            // The thread ends before us only by a panic, which ends the process.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Keeper {
    /// Waits until everything is durable, but at most [`END_MAX`] if the disk hangs.
    fn drop(&mut self) {
        self.catch_up();
        self.jobs = None;
        // Nothing is ever sent: the thread drops the sender when it ends.
        if self.ended.recv_timeout(END_MAX) == Err(RecvTimeoutError::Timeout) {
            tracing::error!(
                "the disk of the cluster's journal of purges does not answer; the process ends without it: what it does not have, other members tell at the next start"
            );
        }
    }
}

struct Desk {
    journal: Journal,
    events: results::UnboundedSender<Event>,
    waiting: Arc<Waiting>,
    /// The last write or read failed, and this was logged.
    is_failing: bool,
}

impl Desk {
    fn work(mut self, given: &mpsc::Receiver<Job>, before: impl Fn()) {
        let mut to_sync = Vec::new();
        while let Ok(job) = given.recv() {
            let mut next = Some(job);
            while let Some(job) = next {
                let bytes = job.bytes();
                before();
                self.carry_out(job, &mut to_sync);
                self.waiting.bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.waiting.jobs.fetch_sub(1, Ordering::Release);
                next = given.try_recv().ok();
            }
            if !to_sync.is_empty() {
                let done = self.journal.sync();
                let is_done = self.said(done, "cannot be made durable");
                for whom in to_sync.drain(..) {
                    let _ = self.events.send(Event::Synced(whom, is_done));
                }
            }
        }
        let done = self.journal.sync();
        self.said(done, "cannot be made durable");
    }

    fn carry_out(&mut self, job: Job, to_sync: &mut Vec<Synced>) {
        let written = match job {
            Job::Append(entry) => self.journal.append(&entry, now_s()),
            Job::Sync(whom) => return to_sync.push(whom),
            Job::Adopt(heard, whom) => {
                to_sync.push(whom);
                // If all of it is heard already, no entries need to be given up.
                match self.journal.heard().covers(&heard) {
                    true => Ok(()),
                    false => self.journal.adopt(&heard, now_s()),
                }
            }
            Job::Trust => self.journal.trust(),
            Job::Also(member, change, is_first) => {
                (self.journal).also(member.0.into(), &change, is_first)
            }
            Job::Upto(member, heard) => self.journal.upto(member.0.into(), &heard, now_s()),
            Job::Find(member, token, heard) => {
                let place = self.place_for(heard);
                let _ = self.events.send(Event::Found(member, token, place));
                return;
            }
            Job::Read(member, token, from) => {
                let lines = self.read(from);
                let _ = self.events.send(Event::Read(member, token, lines));
                return;
            }
        };
        self.said(written, "cannot be written");
    }

    /// Where reading begins for a member that has heard this (`None`: it has no journal). `Err`: all that was heard here.
    fn place_for(&self, heard: Option<Vector>) -> Result<Position, Vector> {
        let known = self.journal.heard();
        let place = match heard {
            None if known.is_empty() => self.journal.position_for(&Vector::default()),
            None => None,
            Some(heard) => self.journal.position_for(&heard),
        };
        place.ok_or_else(|| known.clone())
    }

    fn read(&mut self, from: Position) -> Option<(Vec<Line>, Position)> {
        self.journal.read(from).unwrap_or_else(|error| {
            self.said(Err(error), "cannot be read");
            // The lines are unreadable, so treat them as lost for members that need them.
            let _ = self.journal.adopt(&Vector::default(), now_s());
            None
        })
    }

    /// Logs the first of consecutive errors; true if there is no error.
    fn said(&mut self, done: io::Result<()>, what: &str) -> bool {
        let was_failing = std::mem::replace(&mut self.is_failing, done.is_err());
        match &done {
            Err(error) if !was_failing => tracing::error!(
                %error,
                "the cluster's journal of purges {what}: members that are away now must drop what they have stored when they come back"
            ),
            Ok(()) if was_failing => tracing::info!("the cluster's journal of purges works again"),
            _ => {}
        }
        done.is_ok()
    }
}

fn now_s() -> u64 {
    clock::unix_ms() / 1000
}

#[cfg(test)]
mod tests {
    use std::{
        sync::{Mutex, MutexGuard},
        time::Instant,
    };

    use super::*;
    use purging::{
        change::Change,
        journal::Limits,
        medium::Medium,
        stamp::{Origin, Stamp},
    };

    const LIMITS: Limits = Limits {
        bytes_max: 1 << 20,
        age_max_s: 1000,
    };
    const A: MemberId = MemberId(1);

    /// A keeper whose disk hangs while the lock is held.
    fn hanging(
        disk: &'static Mutex<()>,
    ) -> (
        Keeper,
        results::UnboundedReceiver<Event>,
        MutexGuard<'static, ()>,
    ) {
        let hangs = disk.lock().unwrap();
        let medium = Medium::Memory(std::collections::BTreeMap::new());
        let (journal, _) = Journal::open(medium, LIMITS, Origin(1), 0).unwrap();
        let wait = || drop(disk.lock().unwrap());
        let (keeper, events) = Keeper::start_with(journal, wait).unwrap();
        (keeper, events, hangs)
    }

    fn entry(n: u64, bytes: usize) -> Job {
        let names = vec![vec![b'a'; bytes]];
        Job::Append(Entry {
            origin: Origin(1),
            stamp: Stamp(n),
            before: Stamp(n - 1),
            unix_s: n,
            change: Change::of_unsafe_method(names).encode().unwrap().into(),
        })
    }

    #[test]
    fn the_end_does_not_wait_for_a_disk_that_hangs() {
        static DISK: Mutex<()> = Mutex::new(());
        let (mut keeper, _events, hangs) = hanging(&DISK);
        assert_eq!(keeper.give(entry(1, 10)), None);
        let began = Instant::now();
        drop(keeper);
        let took = began.elapsed();
        assert!(took >= END_MAX && took < END_MAX * 2, "{took:?}");
        drop(hangs);
    }

    #[test]
    fn a_journal_that_has_heard_of_it_all_keeps_what_it_has() {
        static DISK: Mutex<()> = Mutex::new(());
        let (mut keeper, mut events, hangs) = hanging(&DISK);
        drop(hangs);
        for heard in [Vector::default(), heard_upto(1)] {
            assert_eq!(keeper.give(entry(1, 10)), None);
            assert_eq!(keeper.give(Job::Adopt(heard, Synced::Followed(0))), None);
        }
        assert_eq!(keeper.give(Job::Find(A, 1, Some(Vector::default()))), None);
        let found = std::iter::from_fn(|| events.blocking_recv()).find_map(|event| match event {
            Event::Found(_, _, place) => Some(place),
            _ => None,
        });
        assert!(
            found.is_some_and(|place| place.is_ok()),
            "it can still be told"
        );
    }

    fn heard_upto(n: u64) -> Vector {
        let mut heard = Vector::default();
        heard.hear(Origin(1), Stamp(n), 0);
        heard
    }

    #[test]
    fn what_does_not_fit_is_heard_of_and_lost_for_those_who_need_it() {
        static DISK: Mutex<()> = Mutex::new(());
        let (mut keeper, mut events, hangs) = hanging(&DISK);
        let longest = 500 << 10;
        let most = WAITING_BYTES_MAX / longest as u64 + 1;
        for n in 1..=most - 1 {
            assert_eq!(keeper.give(entry(n, longest)), None, "{n}");
        }
        assert_eq!(keeper.give(entry(most, longest)), Some(Refused::Entry));
        // Entries that would fit are refused too, because the journal must not have gaps.
        assert_eq!(keeper.give(entry(most + 1, 10)), Some(Refused::Entry));
        let own = Synced::Own(Stamp(most + 1));
        assert_eq!(
            keeper.give(Job::Sync(own)),
            Some(Refused::Own(Stamp(most + 1)))
        );
        assert_eq!(keeper.give(Job::Sync(Synced::Followed(3))), None);
        assert_eq!(
            keeper.give(Job::Find(A, 7, None)),
            Some(Refused::Telling(A))
        );
        assert!(events.try_recv().is_err());
        drop(hangs);
        let began = Instant::now();
        while keeper.skipped.is_some() && began.elapsed() < Duration::from_secs(10) {
            keeper.catch_up();
            thread::yield_now();
        }
        let followed = events.blocking_recv().unwrap();
        assert!(
            matches!(followed, Event::Synced(Synced::Followed(3), true)),
            "{followed:?}"
        );
        assert_eq!(keeper.give(entry(most + 2, 10)), None);
        let heard = |upto| {
            let mut vector = Vector::default();
            vector.hear(Origin(1), Stamp(upto), 0);
            Some(vector)
        };
        assert_eq!(keeper.give(Job::Find(A, 8, heard(most - 1))), None);
        assert_eq!(keeper.give(Job::Find(A, 9, heard(most + 1))), None);
        let lost = events.blocking_recv().unwrap();
        assert!(
            matches!(&lost, Event::Found(A, 8, Err(heard)) if heard.last(Origin(1)) == Stamp(most + 2)),
            "{lost:?}"
        );
        let found = events.blocking_recv().unwrap();
        assert!(matches!(found, Event::Found(A, 9, Ok(_))), "{found:?}");
    }
}
