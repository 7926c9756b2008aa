//! The thread that writes and reads the journal, so that nothing else of the cluster waits for its disk.
//!
//! Jobs are done in the order in which they are given; all that have come meanwhile are made durable at once.
//!
//! Not known here: members, what an entry says.
//! Limits: as many jobs as purges wait (`telling`, `following`).

use std::{
    io,
    sync::mpsc,
    thread::{self, JoinHandle},
};

use tokio::sync::mpsc as results;

use super::super::MemberId;
use super::{
    journal::{Entry, Journal, Position},
    stamp::{Stamp, Vector},
};
use crate::clock;

/// What is to be done.
#[derive(Debug)]
pub enum Job {
    /// Append it.
    Append(Entry),
    /// Make all that was appended durable, then [`Event::Synced`].
    Sync(Synced),
    /// Hear of all that, without the entries; then [`Event::Synced`].
    Adopt(Vector, Synced),
    /// What was stored before a new journal has been dropped.
    Trust,
    /// Where to begin for a member, then [`Event::Found`].
    Find(MemberId, u64, Option<Vector>),
    /// Some entries for a member, then [`Event::Read`].
    Read(MemberId, u64, Position),
}

/// For whom the journal is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synced {
    /// For a purge of ours.
    Own(Stamp),
    /// For purges of others, up to this number in the order in which they came.
    Followed(u64),
}

/// What came of it.
#[derive(Debug)]
pub enum Event {
    /// It is durable, or will not be.
    Synced(Synced, bool),
    /// Where a member's reading begins, or all that was heard if something that it lacks is gone.
    Found(MemberId, u64, Result<Position, Vector>),
    /// Entries, and where the next are.
    Read(MemberId, u64, Option<(Vec<Entry>, Position)>),
}

/// The thread.
#[derive(Debug)]
pub struct Keeper {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts it. What comes of the jobs comes out of the second.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start(journal: Journal) -> io::Result<(Keeper, results::UnboundedReceiver<Event>)> {
        let (jobs, waiting) = mpsc::channel();
        let (events, results) = results::unbounded_channel();
        let desk = Desk {
            journal,
            events,
            is_failing: false,
        };
        let thread = thread::Builder::new()
            .name("purges".into())
            .spawn(move || desk.work(&waiting))?;
        let keeper = Keeper {
            jobs: Some(jobs),
            thread: Some(thread),
        };
        Ok((keeper, results))
    }

    /// Gives it a job.
    pub fn give(&self, job: Job) {
        if let Some(jobs) = &self.jobs {
            // It ends before us only by a panic, which ends the process.
            let _ = jobs.send(job);
        }
    }
}

impl Drop for Keeper {
    /// Waits until everything is durable.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Desk {
    journal: Journal,
    events: results::UnboundedSender<Event>,
    /// Its last write or read failed, and that was said.
    is_failing: bool,
}

impl Desk {
    fn work(mut self, waiting: &mpsc::Receiver<Job>) {
        let mut to_sync = Vec::new();
        while let Ok(job) = waiting.recv() {
            let mut next = Some(job);
            while let Some(job) = next {
                self.carry_out(job, &mut to_sync);
                next = waiting.try_recv().ok();
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
        let event = match job {
            Job::Append(entry) => {
                let done = self.journal.append(&entry, now_s());
                self.said(done, "cannot be written");
                return;
            }
            Job::Sync(whom) => return to_sync.push(whom),
            Job::Adopt(heard, whom) => {
                let done = self.journal.adopt(&heard, now_s());
                self.said(done, "cannot be written");
                return to_sync.push(whom);
            }
            Job::Trust => {
                let done = self.journal.trust();
                self.said(done, "cannot be written");
                return;
            }
            Job::Find(member, token, heard) => {
                let place = match heard {
                    None if self.journal.heard().is_empty() => {
                        self.journal.position_for(&Vector::default())
                    }
                    None => None,
                    Some(heard) => self.journal.position_for(&heard),
                };
                let place = place.ok_or_else(|| self.journal.heard().clone());
                Event::Found(member, token, place)
            }
            Job::Read(member, token, from) => {
                let brought = self.journal.read(from);
                if let Err(error) = &brought {
                    self.said(Err(io::Error::other(error.to_string())), "cannot be read");
                    // Whoever needs what is in it has lost it.
                    let _ = self.journal.adopt(&Vector::default(), now_s());
                }
                Event::Read(member, token, brought.unwrap_or_default())
            }
        };
        let _ = self.events.send(event);
    }

    /// Logs the first of errors in a row; true if there is none.
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
