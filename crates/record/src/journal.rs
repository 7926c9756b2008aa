//! Writes access logs and the profile, off the request path.
//!
//! A worker appends binary entries to its own buffer and hands the buffer over when it is large or a second old. The
//! journal thread turns entries into lines and writes all files. The queue between them is bounded: if the disk does
//! not keep up, records are dropped and counted, and requests never wait for a log. The same thread counts the most
//! requested hosts and URLs (`top`), if wanted, and sends the profile to its listeners (`live`).

use base::clock::Instant;
use std::{
    fmt,
    fs::{File, OpenOptions},
    io::{self, Write},
    mem,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use bytes::Bytes;
use profile::{Event, Record, access::Entry};
use tokio::sync::mpsc;

use crate::{
    lines::AccessLogs,
    live::{Listeners, Lost, Wants},
    top::Top,
};
use plan::Plan;

/// A worker hands its buffer over at this size.
const BATCH_BYTES: usize = 64 << 10;
/// The most batches waiting for the journal thread; beyond that records are dropped and counted.
const BATCHES_MAX: usize = 256;

/// How long the end of the process waits for the journal thread.
const STOP_MAX: Duration = Duration::from_secs(5);
/// How often it checks whether the thread has ended.
const STOP_STEP: Duration = Duration::from_millis(1);

/// How long a reload waits for room in the journal's queue.
const TAKEN_MAX: Duration = Duration::from_secs(2);
/// How often it tries again.
const TAKEN_STEP: Duration = Duration::from_millis(10);

enum Message {
    /// Entries of the access log.
    Access(Vec<u8>),
    /// Records of the profile, and their number.
    Profile(Vec<u8>, u64),
    /// The events of a second, their number, and the records lost so far.
    Second(Vec<u8>, u64, Lost),
    /// The first bytes for every file and every listener.
    OpenWith(Vec<u8>),
    /// A new listener.
    Listen(mpsc::Sender<Bytes>),
    Reopen,
    /// Write to these files from now on; `None`: the file stays.
    Begin(Box<(Option<AccessLogs>, Option<ProfileFile>)>),
    /// Whether to stop the access logs, and whether to stop the profile.
    End(bool, bool),
    Stop,
}

/// The journal thread.
pub struct Journal {
    sender: Option<SyncSender<Message>>,
    thread: Option<JoinHandle<()>>,
    access: bool,
    wants: Wants,
    /// The most requested hosts and URLs, if they are counted.
    top: Option<Arc<Mutex<Top>>>,
    /// Records that could not be written and that no worker has counted yet.
    lost: Arc<AtomicU64>,
}

/// A worker's end of the journal. The default discards everything.
#[derive(Default)]
pub struct JournalWriter {
    sender: Option<SyncSender<Message>>,
    access: Option<Vec<u8>>,
    profile: Vec<u8>,
    wants: Wants,
    access_entries: u64,
    profile_entries: u64,
    lost: Arc<AtomicU64>,
}

impl Journal {
    /// Opens the files and starts the thread, unless there is nothing to write and there can be no listener.
    ///
    /// `keys_id` identifies the secret that the profile's keys are hashed with; `may_listen`: listeners may come.
    pub fn open(plan: &Plan, keys_id: u32, may_listen: bool) -> io::Result<Journal> {
        let logs = &plan.logs;
        let access = AccessLogs::open(logs, &plan.addresses())?;
        let profile = logs.profile.as_deref();
        let profile = profile
            .map(|path| ProfileFile::open(path, keys_id))
            .transpose()?;
        let top = (logs.top).then(|| Arc::new(Mutex::new(Top::new(Instant::now()))));
        // `top` counts the entries of the access log.
        let has_access = access.is_some() || top.is_some();
        let wants = Wants::new(profile.is_some());
        if !has_access && profile.is_none() && !may_listen {
            return Ok(Journal {
                sender: None,
                thread: None,
                access: false,
                wants,
                top: None,
                lost: Arc::default(),
            });
        }
        let (sender, receiver) = sync_channel(BATCHES_MAX);
        let lost = Arc::<AtomicU64>::default();
        let thread = thread::Builder::new().name("journal".into()).spawn({
            let (lost, top) = (Arc::clone(&lost), top.clone());
            let profile = ProfileEnds {
                file: profile,
                listeners: Listeners::default(),
                keys_id,
                opening: Vec::new(),
            };
            move || run(&receiver, access, profile, top.as_deref(), &lost)
        })?;
        Ok(Journal {
            sender: Some(sender),
            thread: Some(thread),
            access: has_access,
            wants,
            top,
            lost,
        })
    }

    /// The most requested hosts and URLs, if they are counted.
    pub fn top(&self) -> Option<Arc<Mutex<Top>>> {
        self.top.clone()
    }

    /// A handle that tells whether a profile is wanted, now and later.
    pub fn wants(&self) -> Wants {
        self.wants.clone()
    }

    /// A worker's end.
    pub fn writer(&self) -> JournalWriter {
        JournalWriter {
            sender: self.sender.clone(),
            access: self.access.then(Vec::new),
            profile: Vec::new(),
            wants: self.wants.clone(),
            access_entries: 0,
            profile_entries: 0,
            lost: Arc::clone(&self.lost),
        }
    }

    /// The handle by which a reload changes the files.
    pub fn log_files(&self, keys_id: u32) -> LogFiles {
        LogFiles {
            sender: self.sender.clone(),
            wants: self.wants.clone(),
            keys_id,
        }
    }

    /// The handle by which a signal reopens the files.
    pub fn reopener(&self) -> Reopener {
        Reopener(self.sender.clone())
    }

    /// Writes the batches that were handed over and ends the thread. If a log hangs, the process ends without waiting for the thread
    /// after [`STOP_MAX`].
    pub fn stop(&mut self) {
        let until = std::time::Instant::now() + STOP_MAX;
        let is_late = || std::time::Instant::now() >= until;
        if let Some(sender) = self.sender.take() {
            while let Err(TrySendError::Full(_)) = sender.try_send(Message::Stop) {
                if is_late() {
                    break;
                }
                thread::sleep(STOP_STEP);
            }
        }
        let Some(thread) = self.thread.take() else {
            return;
        };
        while !thread.is_finished() && !is_late() {
            thread::sleep(STOP_STEP);
        }
        match thread.is_finished() {
            true => drop(thread.join()),
            false => tracing::error!("the log takes nothing; what it was not given yet is lost"),
        }
    }
}

/// Closes and reopens the files, for log rotation.
pub struct Reopener(Option<SyncSender<Message>>);

impl Reopener {
    /// Asks the journal thread to reopen the files. If the queue is full, the request is dropped; the next signal
    /// works again.
    pub fn reopen(&self) {
        if let Some(sender) = &self.0 {
            let _ = sender.try_send(Message::Reopen);
        }
    }
}

/// Changes the files that are written, for a reload.
pub struct LogFiles {
    sender: Option<SyncSender<Message>>,
    wants: Wants,
    keys_id: u32,
}

/// Files that were opened but are not used yet.
#[derive(Default)]
pub struct OpenedLogs {
    access: Option<AccessLogs>,
    profile: Option<ProfileFile>,
    /// Whether access logs, and whether the profile, are no longer wanted.
    ends: (bool, bool),
}

impl LogFiles {
    /// Opens the files of a plan.
    ///
    /// # Errors
    /// The setting, and why its file cannot be opened.
    pub fn open(&self, plan: &Plan) -> Result<OpenedLogs, (&'static str, io::Error)> {
        let logs = &plan.logs;
        let access = AccessLogs::open(logs, &plan.addresses());
        let access = access.map_err(|error| ("log.access or listener.access-log", error))?;
        let profile = logs.profile.as_deref();
        let profile = profile.map(|path| ProfileFile::open(path, self.keys_id));
        let opened = OpenedLogs {
            ends: (access.is_none(), logs.profile.is_none()),
            access,
            profile: profile
                .transpose()
                .map_err(|error| ("log.profile", error))?,
        };
        Ok(opened)
    }

    /// Writes to these files from now on. Must be called before workers begin to write for them.
    pub async fn begin(&self, opened: &mut OpenedLogs) {
        if opened.profile.is_some() {
            self.wants.set_file(true);
        }
        let begin = Message::Begin(Box::new((opened.access.take(), opened.profile.take())));
        self.send(begin).await;
    }

    /// Closes the files that are no longer written. Must be called when no worker writes for them any more.
    pub async fn end(&self, opened: &OpenedLogs) {
        let (access, profile) = opened.ends;
        if profile {
            self.wants.set_file(false);
        }
        self.send(Message::End(access, profile)).await;
    }

    /// Sends a message, waiting for room for [`TAKEN_MAX`]. If the journal's disk hangs, the files stay as they are.
    async fn send(&self, mut message: Message) {
        let Some(sender) = &self.sender else { return };
        let deadline = Instant::now() + TAKEN_MAX;
        while let Err(TrySendError::Full(back)) = sender.try_send(message) {
            if Instant::now() >= deadline {
                tracing::error!(
                    "the logs' disk does not keep up; logs are written as before the reload"
                );
                return;
            }
            message = back;
            tokio::time::sleep(TAKEN_STEP).await;
        }
    }
}

impl JournalWriter {
    /// From now on an access log is wanted, or not.
    pub fn follow(&mut self, wants_access: bool) {
        match (wants_access, &self.access) {
            (true, None) => self.access = Some(Vec::new()),
            (false, Some(_)) => {
                self.hand_over_access();
                self.access = None;
            }
            _ => {}
        }
    }

    /// Is an access log wanted? Only then the caller collects its data.
    #[inline]
    pub fn wants_access(&self) -> bool {
        self.access.is_some()
    }

    /// Notes a finished request. Returns how many records were lost because the queue was full.
    #[inline]
    pub fn note(&mut self, entry: &Entry<'_>) -> u64 {
        let Some(buffer) = &mut self.access else {
            return self.note_record(&entry.record);
        };
        let start = buffer.len();
        let record_bytes = entry.encode(buffer);
        let mut lost = 0;
        if self.wants.profile() {
            // A record is encoded once; log and profile hold the same bytes.
            (self.profile).extend_from_slice(&buffer[start..start + record_bytes]);
            lost += self.noted_record();
        }
        self.access_entries += 1;
        if self
            .access
            .as_ref()
            .is_some_and(|it| it.len() >= BATCH_BYTES)
        {
            lost += self.hand_over_access();
        }
        lost
    }

    /// Notes a finished request in the profile alone.
    #[inline]
    pub fn note_record(&mut self, record: &Record) -> u64 {
        if !self.wants.profile() {
            return 0;
        }
        record.encode(&mut self.profile);
        self.noted_record()
    }

    /// Counts a record that was appended to the profile.
    fn noted_record(&mut self) -> u64 {
        self.profile_entries += 1;
        match self.profile.len() >= BATCH_BYTES {
            true => self.hand_over_profile(),
            false => 0,
        }
    }

    /// Notes an event. A lost event is counted later, by a worker.
    pub fn note_event(&mut self, event: &Event) {
        event.encode(&mut self.profile);
        self.profile_entries += 1;
        if self.profile.len() >= BATCH_BYTES {
            self.hand_over_events();
        }
    }

    /// Hands over the events noted so far, at the end of a second.
    pub fn end_second(&mut self, lost: Lost) {
        let entries = mem::take(&mut self.profile_entries);
        let events = mem::take(&mut self.profile);
        let unsent = self.send(Message::Second(events, entries, lost), entries);
        self.lost.fetch_add(unsent, Ordering::Relaxed);
    }

    /// Hands over the events noted so far.
    pub fn hand_over_events(&mut self) {
        let unsent = self.hand_over_profile();
        self.lost.fetch_add(unsent, Ordering::Relaxed);
    }

    /// From now on every file and every listener gets these bytes first. They are lost if the queue is full, which it is not at the start.
    pub fn open_with(&self, opening: Vec<u8>) {
        self.send(Message::OpenWith(opening), 0);
    }

    /// Adds a listener. False: there is no journal, or its queue is full.
    pub fn let_listen(&self, queue: mpsc::Sender<Bytes>) -> bool {
        match &self.sender {
            Some(sender) => sender.try_send(Message::Listen(queue)).is_ok(),
            None => false,
        }
    }

    /// Hands the buffer over, once a second and at the end. Returns how many records were lost.
    pub fn flush(&mut self) -> u64 {
        let unwritten = self.lost.swap(0, Ordering::Relaxed);
        self.hand_over_access() + self.hand_over_profile() + unwritten
    }

    fn hand_over_access(&mut self) -> u64 {
        let entries = mem::take(&mut self.access_entries);
        match &mut self.access {
            Some(buffer) if !buffer.is_empty() => {
                let full = mem::replace(buffer, Vec::with_capacity(BATCH_BYTES + 4096));
                self.send(Message::Access(full), entries)
            }
            _ => 0,
        }
    }

    fn hand_over_profile(&mut self) -> u64 {
        let entries = mem::take(&mut self.profile_entries);
        if self.profile.is_empty() {
            return 0;
        }
        let full = mem::replace(&mut self.profile, Vec::with_capacity(BATCH_BYTES + 4096));
        self.send(Message::Profile(full, entries), entries)
    }

    fn send(&self, message: Message, entries: u64) -> u64 {
        match self.sender.as_ref().map(|s| s.try_send(message)) {
            Some(Ok(())) | None => 0,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) => entries,
        }
    }
}

/// The destinations of the profile.
struct ProfileEnds {
    file: Option<ProfileFile>,
    listeners: Listeners,
    keys_id: u32,
    /// The first bytes for a file that is opened, and for a listener.
    opening: Vec<u8>,
}

impl ProfileEnds {
    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        match &mut self.file {
            Some(file) => file.write(batch),
            None => Ok(()),
        }
    }

    fn batch(&mut self, batch: Vec<u8>, entries: u64) -> io::Result<()> {
        let written = self.write(&batch);
        self.listeners.give(&batch.into(), entries);
        written
    }

    fn second(&mut self, mut events: Vec<u8>, entries: u64, lost: Lost) -> io::Result<()> {
        self.listeners.give_second(&events, entries, lost);
        lost.encode(&mut events);
        self.write(&events)
    }

    fn open_with(&mut self, opening: Vec<u8>) -> io::Result<()> {
        let written = self.write(&opening);
        self.opening = opening;
        written
    }

    fn reopen(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        file.reopen()?;
        file.write(&self.opening)
    }

    fn listen(&mut self, queue: mpsc::Sender<Bytes>) {
        let mut first = Vec::new();
        profile::write_file_header(self.keys_id, &mut first);
        first.extend_from_slice(&self.opening);
        self.listeners.add(queue, first.into());
    }
}

fn run(
    receiver: &Receiver<Message>,
    mut access: Option<AccessLogs>,
    mut profile: ProfileEnds,
    top: Option<&Mutex<Top>>,
    lost: &AtomicU64,
) {
    let mut of_profile = Trouble::default();
    while let Ok(message) = receiver.recv() {
        let (written, entries) = match message {
            Message::Access(batch) => {
                if let Some(top) = top {
                    let mut top = top.lock().unwrap_or_else(PoisonError::into_inner);
                    top.note(&batch, Instant::now());
                }
                let unwritten = access.as_mut().map_or(0, |logs| logs.write(&batch));
                lost.fetch_add(unwritten, Ordering::Relaxed);
                continue;
            }
            Message::Profile(batch, entries) => {
                let written = profile.batch(batch, entries);
                (written, entries)
            }
            Message::Second(events, entries, lost) => {
                let written = profile.second(events, entries, lost);
                (written, entries)
            }
            Message::OpenWith(opening) => (profile.open_with(opening), 0),
            Message::Listen(queue) => {
                profile.listen(queue);
                continue;
            }
            Message::Reopen => {
                let access = access.as_mut().map(AccessLogs::reopen);
                let errors = access.into_iter().flatten();
                for error in errors.chain(profile.reopen().err()) {
                    tracing::error!(%error, "cannot open the log anew; what was open is written on");
                }
                continue;
            }
            Message::Begin(files) => {
                let (begun, profile_file) = *files;
                access = match (begun, access) {
                    (Some(begun), before) => Some(begun.instead_of(before)),
                    (None, before) => before,
                };
                match profile_file {
                    None => continue,
                    Some(file) => profile.file = Some(file),
                }
                let opening = mem::take(&mut profile.opening);
                (profile.open_with(opening), 0)
            }
            Message::End(ends_access, ends_profile) => {
                if ends_access && let Some(access) = access.take() {
                    access.tell_the_end();
                }
                profile.file = profile.file.take().filter(|_| !ends_profile);
                continue;
            }
            Message::Stop => break,
        };
        if written.is_err() {
            lost.fetch_add(entries, Ordering::Relaxed);
        }
        of_profile.tell(written, entries);
    }
    if let Some(access) = &access {
        access.tell_the_end();
    }
    of_profile.tell_the_end();
}

/// Whether a log can be written; so a full disk is reported once and not with every batch.
#[derive(Default)]
pub struct Trouble {
    is_on: bool,
    /// Records lost since writing began to fail.
    lost: u64,
}

/// A change to report.
#[derive(Debug)]
enum Turn {
    Begins(io::Error),
    Over { lost: u64 },
}

impl Trouble {
    /// Notes an attempt to write this many records, and reports when writing begins to fail and when it works again.
    pub fn tell(&mut self, written: io::Result<()>, records: u64) {
        match self.after(written, records) {
            Some(Turn::Begins(error)) => {
                tracing::error!(%error, "cannot write the log; records are lost until it can be written again");
            }
            Some(Turn::Over { lost }) => {
                tracing::warn!(
                    lost,
                    "the log can be written again; so many records are missing in it"
                );
            }
            None => {}
        }
    }

    /// Reports missing records when the log is closed.
    pub fn tell_the_end(&self) {
        if self.lost > 0 {
            tracing::warn!(
                lost = self.lost,
                "the log could not be written to the end; so many records are missing in it"
            );
        }
    }

    /// Notes an attempt to write this many records.
    fn after(&mut self, written: io::Result<()>, records: u64) -> Option<Turn> {
        let was_on = mem::replace(&mut self.is_on, written.is_err());
        match written {
            Ok(()) => was_on.then(|| Turn::Over {
                lost: mem::take(&mut self.lost),
            }),
            Err(error) => {
                self.lost += records;
                (!was_on).then_some(Turn::Begins(error))
            }
        }
    }
}

/// Opens a log for appending.
pub fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(|e| naming(path.display(), &e))
}

/// The error with the name of its file.
pub fn naming(what: impl fmt::Display, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

struct ProfileFile {
    path: PathBuf,
    keys_id: u32,
    out: File,
    /// The last write may have ended within a record. A header is then written first, because a reader resumes there.
    is_torn: bool,
}

impl ProfileFile {
    fn open(path: &Path, keys_id: u32) -> io::Result<ProfileFile> {
        let mut file = ProfileFile {
            path: path.to_owned(),
            keys_id,
            out: append_to(path)?,
            // An existing file may end within a record, too.
            is_torn: true,
        };
        file.write(&[])?;
        Ok(file)
    }

    fn reopen(&mut self) -> io::Result<()> {
        *self = ProfileFile::open(&self.path, self.keys_id)?;
        Ok(())
    }

    fn write(&mut self, batch: &[u8]) -> io::Result<()> {
        let mut header = Vec::new();
        if self.is_torn {
            profile::write_file_header(self.keys_id, &mut header);
        }
        let written = (self.out.write_all(&header)).and_then(|()| self.out.write_all(batch));
        self.is_torn = written.is_err();
        written.map_err(|error| naming(self.path.display(), &error))
    }
}

#[cfg(test)]
#[path = "journal_tests.rs"]
mod tests;
