//! Takes requests and events of one source in any order, and makes its report.
//!
//! All records are first stored by time (`spill`), because the length of a slot is known only at the end. `finish` then reads them slot
//! by slot. So memory does not depend on the length of the source.
//!
//! Not known here: where the records come from.   Limits: those of `spill`, `uniques`, `cells`; [`MARKS_MAX`].

use std::time::Duration;

use profile::{Event, Hierarchy, Mark, MarkKind, Record, StageName, Write};

use crate::asked::{Asked, Names};
use crate::cells::asked_a_server;
use crate::kinds::{Group, HITS, MISSES};
use crate::known::{Known, Options, Source};
use crate::model::{Moment, Troubles};
use crate::slots::{Seconds, auto_slot, whole};
use crate::spill::{Spill, SpillError};
use crate::uniques::{Access, Distinct, Documents};

/// Most marks that are kept; later ones are only counted.
const MARKS_MAX: usize = 1000;
/// Most bytes of a mark's text, all its pieces together.
const MARK_TEXT_MAX: usize = 4000;
/// 1995 to 2200. An instant outside means a wrong clock.
const INSTANTS_US: std::ops::Range<u64> = 788_918_400_000_000..7_258_118_400_000_000;

/// First byte of a stored record: a request.
pub(crate) const REQUEST: u8 = 0;
/// A request of profile version 1.
pub(crate) const REQUEST_1: u8 = 1;
/// An event.
pub(crate) const EVENT: u8 = 2;

/// A report under construction.
pub struct Builder {
    pub(crate) source: Source,
    pub(crate) options: Options,
    pub(crate) things: Spill,
    pub(crate) writes: Spill,
    pub(crate) documents: Documents,
    pub(crate) clients: Distinct,
    pub(crate) servers: Distinct,
    /// `None` until a request is named.
    pub(crate) names: Option<Names>,
    pub(crate) seconds: Seconds,
    pub(crate) began: Option<u64>,
    pub(crate) last_began: u64,
    pub(crate) ended: u64,
    pub(crate) requests: u64,
    pub(crate) marks: Vec<Moment>,
    pub(crate) marks_left_out: u64,
    pub(crate) troubles: Troubles,
    pub(crate) notes: Vec<String>,
    pub(crate) seen: Seen,
}

/// The kinds of data that were present in the records.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) version_1: u64,
    keys: bool,
    clients: bool,
    servers: bool,
    peers: bool,
    writes: bool,
    reads: bool,
    seconds: bool,
}

impl Builder {
    /// An empty builder. Temporary files are created only when buffers are full.
    pub fn new(source: Source, options: Options) -> Self {
        Builder {
            things: Spill::new(&options.spill_dir),
            writes: Spill::new(&options.spill_dir),
            documents: Documents::new(&options.spill_dir),
            source,
            options,
            clients: Distinct::default(),
            servers: Distinct::default(),
            names: None,
            seconds: Seconds::default(),
            began: None,
            last_began: 0,
            ended: 0,
            requests: 0,
            marks: Vec::new(),
            marks_left_out: 0,
            troubles: Troubles::default(),
            notes: Vec::new(),
            seen: Seen::default(),
        }
    }

    /// Adds a finished request. If it began before 1995 or after 2200, it is left out and counts as a trouble.
    ///
    /// # Errors
    /// If a temporary file cannot be written.
    pub fn request(&mut self, record: &Record) -> Result<(), SpillError> {
        let at = record.began_unix_us;
        if !INSTANTS_US.contains(&at) {
            self.troubles.add(format!(
                "a request that began {at} us after 1970 is left out: its clock was wrong"
            ));
            return Ok(());
        }
        self.requests += 1;
        self.began = Some(self.began.map_or(at, |began| began.min(at)));
        self.last_began = self.last_began.max(at);
        self.ended = self.ended.max(record.ended_unix_us());
        self.seconds.see(at);
        self.seen.version_1 += u64::from(record.version == 1);
        self.seen.peers |= !matches!(record.hierarchy, Hierarchy::None | Hierarchy::Direct);
        if let Some(names) = record.names {
            self.seen.keys = true;
            if names.client != 0 {
                self.seen.clients = true;
                self.clients.see(names.client);
            }
            if names.server != 0 {
                self.seen.servers = true;
                self.servers.see(names.server);
            }
            self.document(record, names.key)?;
        }
        let kind = if record.version == 1 {
            REQUEST_1
        } else {
            REQUEST
        };
        let record = Record {
            names: None,
            ..*record
        };
        self.things.put(at, |out| {
            out.push(kind);
            record.encode(out);
        })
    }

    /// Adds the names of a finished request, if the source has names. Counted only with [`Options::top`].
    pub fn named(&mut self, record: &Record, asked: &Asked) {
        if self.options.top > 0 {
            self.names.get_or_insert_default().see(record, asked);
        }
    }

    //= paper 001 section 6.1.2   we count only the first access to a document
    fn document(&mut self, record: &Record, key: u64) -> Result<(), SpillError> {
        let Some(group) = Group::of(record, asked_a_server(record)) else {
            return Ok(());
        };
        // A log has no sizes of stored objects, but an answer with status 200 is as large as the object.
        let bytes = if self.source.known.has(Known::OBJECT_BYTES) {
            record.object_bytes
        } else if record.status == 200 {
            record.bytes_out
        } else {
            0
        };
        let (is_hit, is_miss) = (HITS.contains(&group), MISSES.contains(&group));
        let curves = [
            is_hit,
            is_miss,
            record.stage(StageName::SwapIn).is_some(),
            record.stage(StageName::SwapOut).is_some(),
        ];
        let bits = |bits: u8, (i, is_on): (usize, &bool)| bits | u8::from(*is_on) << i;
        self.documents.put(Access {
            key,
            at_unix_us: record.began_unix_us,
            bytes,
            curves: curves.iter().enumerate().fold(0, bits),
        })
    }

    /// Adds an event of the source.
    ///
    /// # Errors
    /// If a temporary file cannot be written.
    pub fn event(&mut self, event: &Event) -> Result<(), SpillError> {
        let at = match event {
            Event::Write(write) => write.start_unix_us,
            Event::Read(read) => read.start_unix_us,
            Event::Second(second) => second.at_unix_us,
            Event::Mark(mark) => {
                self.mark(mark);
                return Ok(());
            }
            Event::Unknown => return Ok(()),
        };
        if !INSTANTS_US.contains(&at) {
            self.troubles.add(format!(
                "an event {at} us after 1970 is left out: its clock was wrong"
            ));
            return Ok(());
        }
        match event {
            Event::Write(write) => {
                self.seen.writes = true;
                self.writes.put(at, |out| write_bytes(write, out))?;
            }
            Event::Read(_) => self.seen.reads = true,
            _ => self.seen.seconds = true,
        }
        self.things.put(at, |out| {
            out.push(EVENT);
            event.encode(out);
        })
    }

    fn mark(&mut self, mark: &Mark) {
        let kind = mark.kind.as_str();
        // A long text is split into several marks.
        let has_room = self.marks.len() < MARKS_MAX;
        let same = (self.marks.iter_mut().rev().take(8))
            .find(|moment| moment.at_unix_us == mark.at_unix_us && moment.kind == kind)
            .filter(|_| mark.kind != MarkKind::Purge);
        match same {
            // The mark was repeated when a new file began.
            Some(moment) if is_complete(&moment.text) => {}
            Some(moment) if moment.text.len() + mark.text.len() <= MARK_TEXT_MAX => {
                moment.text.push_str(&mark.text);
            }
            Some(_) => {}
            None if has_room => self.marks.push(Moment {
                at_unix_us: mark.at_unix_us,
                kind: kind.to_owned(),
                text: mark.text.clone(),
            }),
            None => self.marks_left_out += 1,
        }
    }

    /// Adds a part of the input that could not be used; `text` has file and line or offset.
    pub fn trouble(&mut self, text: impl Into<String>) {
        self.troubles.add(text);
    }

    /// Adds a note for readers of this source's figures.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// When the first and the last request began, microseconds since 1970; `None` if there are no requests.
    pub fn span(&self) -> Option<(u64, u64)> {
        self.began.map(|began| (began, self.last_began))
    }

    /// Number of requests so far.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Sets the length of a slot, rounded up to whole seconds, at most an hour, so that several sources have the same slots.
    pub fn set_slot(&mut self, slot: Duration) {
        self.options.slot = Some(slot);
    }

    /// Frees most of its memory until it is finished, for when several sources are built.
    ///
    /// # Errors
    /// If a temporary file cannot be written.
    pub fn rest(&mut self) -> Result<(), SpillError> {
        self.documents.forget_recent();
        self.things.flush()?;
        self.writes.flush()
    }

    pub(crate) fn slot(&self) -> Duration {
        let (first, last) = self.span().unwrap_or_default();
        whole(self.options.slot.unwrap_or_else(|| auto_slot(first, last)))
    }

    /// What the source can tell, after all its records were seen.
    pub(crate) fn known(&self) -> Known {
        let mut known = self.source.known;
        if self.requests > 0 && self.seen.version_1 == self.requests {
            known = known.common(Known::VERSION_1);
        }
        for (was_seen, what) in [
            (self.seen.keys, Known::KEYS),
            (self.seen.clients, Known::CLIENTS),
            (self.seen.servers, Known::SERVERS),
            // Without requests, no peer can have been asked.
            (self.seen.peers || self.requests == 0, Known::PEERS),
            (self.seen.writes, Known::WRITES),
            (self.seen.reads, Known::READS),
            (self.seen.seconds, Known::SECONDS),
        ] {
            if !was_seen {
                known = known.without(what);
            }
        }
        known
    }
}

fn write_bytes(write: &Write, out: &mut Vec<u8>) {
    let end = write.start_unix_us.saturating_add(write.total_us.into());
    for number in [write.cluster, write.start_unix_us, end] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}
/// Whether this is complete JSON.
fn is_complete(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}
