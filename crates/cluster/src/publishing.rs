//! Tells the members that follow us what our stores hold.
//!
//! Each store is a *column* with a `hints::Registrar`. The cluster's thread calls [`Publishing::work`] again and again. At first it lists the
//! index, a few segments a call; the store records later changes in listed segments, and they are collected here. Once a period the changes
//! become an update. If records of changes were lost, or too many counters are stuck, the index is listed again. If the store holds far more
//! entries than planned, the column begins anew with a larger filter.
//!
//! Columns are announced once all have been fully listed, because an incomplete column would make others miss what we hold.
//!
//! Not known here: links, the wire format, which members follow.
//! Limits: [`SEGMENTS_AT_ONCE`] segments a call; those of `hints::registrar`.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use hints::{
    Shape,
    digest::IndexShape,
    frames::{Beat, Column, ColumnBeat, Frame, Hello, Kind, Known, Load, Subscribe},
    registrar::{By, Front, Limits, Registrar},
};
use store::{Set, Store, Traced};

use base::member::MemberId;
use base::{chance, clock::Instant};
use cache::Cache;
use plan::HintKind;
use plan::proof::Cover;
use record::metrics::Counters;

/// Segments listed in one call: some 10,000 entries, a millisecond.
const SEGMENTS_AT_ONCE: u32 = 4;
/// Pause between two such calls.
const LISTED_EVERY: Duration = Duration::from_millis(10);
/// The longest pause between collections of changes: the store has little room for them.
const COLLECTED_EVERY_MAX: Duration = Duration::from_secs(1);
/// Expected mean length of a body, to plan the number of objects.
const MEAN_OBJECT_BYTES: u64 = 13 << 10;
/// Capacity for changes that is kept between collections.
const CHANGES_KEPT: usize = 1 << 14;

/// Our columns and our load, as other members are told them.
pub struct Publishing {
    name: String,
    incarnation: u64,
    columns: Vec<Publisher>,
    /// Grows whenever the announced columns change.
    pub announced: u64,
    update_period: Duration,
    push_max_bytes: u64,
    next_update: Instant,
    rates: Rates,
    load: Load,
    /// Buffer for collected changes.
    changes: Vec<Traced>,
    traces: Vec<u64>,
}

/// Counters of what we have told others.
#[derive(Clone, Copy, Default, Debug)]
pub struct Figures {
    /// Updates made so far.
    pub updates: u64,
    /// Entries in these updates.
    pub entries: u64,
    /// Names that we tell now.
    pub names: u64,
    /// Bytes of memory that the columns use.
    pub memory_bytes: u64,
}

/// A store as a column.
struct Publisher {
    store: Arc<Store>,
    number: u8,
    id: u64,
    weight: u32,
    index: IndexShape,
    kind: HintKind,
    bits_per_object: u8,
    /// Objects that its filter was sized for.
    planned: u64,
    registrar: Registrar,
    /// Segments listed so far, of all shards.
    listed: u32,
    /// The registrar has been cleared, and the listing under way fills it again.
    is_anew: bool,
    /// Every segment has been listed once since the column began, so it may be announced.
    was_whole: bool,
}

impl Publishing {
    /// The columns of these stores.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn new(
        plan: &plan::Cluster,
        incarnation: u64,
        set: &Set,
    ) -> Result<Publishing, getrandom::Error> {
        let mut columns = Vec::new();
        for (number, (store, id, weight)) in set.placed().enumerate() {
            columns.push(Publisher::new(plan, number as u8, store, id, weight)?);
        }
        Ok(Publishing {
            name: plan.name.clone(),
            incarnation,
            columns,
            announced: 0,
            update_period: plan.update_period,
            push_max_bytes: plan.push_max_bytes,
            next_update: Instant::now(),
            rates: Rates::default(),
            load: Load::default(),
            changes: Vec::new(),
            traces: Vec::new(),
        })
    }

    /// Does the next piece of work. Returns when to call again, and whether there is something to send to followers.
    ///
    /// # Errors
    /// The system provides no random numbers.
    pub fn work(&mut self, now: Instant) -> Result<(Duration, bool), getrandom::Error> {
        let were_announced = self.are_announced();
        let mut is_listed = true;
        let mut is_other = false;
        for column in &mut self.columns {
            is_other |= column.work(&mut self.changes, &mut self.traces)?;
            is_listed &= column.is_listed();
        }
        self.changes.shrink_to(CHANGES_KEPT);
        let is_news = is_other && were_announced || were_announced != self.are_announced();
        self.announced += u64::from(is_news);
        let is_due = now >= self.next_update;
        if is_due {
            self.next_update = now + self.update_period;
            for column in &mut self.columns {
                column.registrar.close_update();
            }
        }
        let pause = match is_listed {
            true => COLLECTED_EVERY_MAX.min(self.update_period),
            false => LISTED_EVERY,
        };
        Ok((pause, is_news || is_due))
    }

    fn are_announced(&self) -> bool {
        self.columns.iter().all(|column| column.was_whole)
    }

    /// Our HELLO, which begins a link. The seeds in it are encrypted.
    pub fn hello(&self, cover: &Cover) -> Hello {
        let column = |column: &Publisher| {
            let told = column.told();
            Column {
                seed: cover.apply(u64::from(column.number), told.seed),
                ..told
            }
        };
        Hello {
            incarnation: self.incarnation,
            name: self.name.clone(),
            columns: match self.are_announced() {
                true => self.columns.iter().map(column).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Subscribes a member to a column. False: there is no such column, or the member cannot follow it.
    pub fn subscribe(&mut self, member: MemberId, wanted: &Subscribe) -> bool {
        let Some(column) = self.columns.get_mut(usize::from(wanted.column)) else {
            return false;
        };
        if column.registrar.incarnation() != wanted.incarnation {
            // A later HELLO tells it of the present column.
            return true;
        }
        let incarnation = wanted.incarnation;
        let known = wanted.from.map(|label| Known { incarnation, label });
        column.registrar.subscribe(front(member), known)
    }

    /// Ends all subscriptions of a member.
    pub fn unsubscribe(&mut self, member: MemberId) {
        for column in &mut self.columns {
            column.registrar.unsubscribe(front(member));
        }
    }

    /// The next frame for a subscribed member.
    pub fn next_frame(&mut self, member: MemberId) -> Option<Frame> {
        let mut columns = self.columns.iter_mut();
        columns.find_map(|column| column.registrar.next_frame(front(member)))
    }

    /// The incarnation of a column.
    pub fn incarnation(&self, store: u8) -> Option<u64> {
        let column = self.columns.get(usize::from(store))?;
        Some(column.registrar.incarnation())
    }

    /// A member's push is about to be stored in this store. `known`: how far the member had followed the column when it registered the name.
    pub fn expect(&mut self, store: usize, trace: u64, member: MemberId, known: Known) {
        if let Some(column) = self.columns.get_mut(store) {
            column.registrar.expect(&trace, front(member), known);
        }
    }

    /// A member had registered a name whose push, as far as it knows, we have not stored.
    pub fn withdrawn(&mut self, store: usize, trace: u64) {
        if let Some(column) = self.columns.get_mut(store) {
            column.registrar.withdrawn(&trace);
        }
    }

    /// Measures our load; to be called every second.
    pub fn weigh(&mut self, counters: &[Arc<Counters>], cache: &Cache) {
        self.load = self.rates.load(counters, cache);
    }

    /// Our beat. `is_leaving`: we are shutting down.
    pub fn beat(&self, is_leaving: bool) -> Beat {
        let stand = |column: &Publisher| ColumnBeat {
            label: column.registrar.label(),
            sequence: column.store.sequence(),
            entries: column.registrar.names(),
        };
        let are_announced = self.are_announced();
        Beat {
            is_leaving,
            load: self.load,
            push_max_bytes: self.push_max_bytes,
            columns: match are_announced {
                true => self.columns.iter().map(stand).collect(),
                false => Vec::new(),
            },
        }
    }

    /// Sums over all columns.
    pub fn figures(&self) -> Figures {
        let mut sum = Figures::default();
        for Publisher { registrar, .. } in &self.columns {
            let figures = registrar.figures();
            sum.updates += figures.updates;
            sum.entries += figures.entries;
            sum.names += registrar.names();
            sum.memory_bytes += registrar.memory_bytes() as u64;
        }
        sum
    }
}

fn front(member: MemberId) -> Front {
    Front(u16::from(member.0))
}

impl Publisher {
    fn new(
        plan: &plan::Cluster,
        number: u8,
        store: &Arc<Store>,
        id: u64,
        weight: u32,
    ) -> Result<Publisher, getrandom::Error> {
        let tracing = store.tracing();
        let planned = (store.geometry().data_bytes() / MEAN_OBJECT_BYTES).max(1);
        Ok(Publisher {
            store: Arc::clone(store),
            number,
            id,
            weight,
            index: IndexShape {
                shards: tracing.shards,
                segments: tracing.segments,
            },
            kind: plan.hints,
            bits_per_object: plan.bits_per_object,
            planned,
            registrar: registrar(number, plan.hints, planned, plan.bits_per_object)?,
            listed: 0,
            is_anew: false,
            was_whole: false,
        })
    }

    fn told(&self) -> Column {
        Column {
            seed: self.store.tracing().seed,
            index: self.index,
            kind: self.registrar.kind(),
            epoch: self.store.epoch(),
            incarnation: self.registrar.incarnation(),
            store: self.id,
            weight: self.weight,
        }
    }

    fn is_listed(&self) -> bool {
        self.listed == self.index.shards * self.index.segments
    }

    /// Does the next piece of work. True: the column has begun anew.
    fn work(
        &mut self,
        changes: &mut Vec<Traced>,
        traces: &mut Vec<u64>,
    ) -> Result<bool, getrandom::Error> {
        let mut are_whole = true;
        for shard in 0..self.index.shards {
            are_whole &= self.store.traced(shard, changes);
        }
        for change in changes.drain(..) {
            match change {
                Traced::Came(trace) => self.registrar.came(&trace, By::Node),
                Traced::Left(trace) => self.registrar.left(&trace),
            }
        }
        if self.registrar.names() > self.planned.saturating_mul(2) && self.may_grow() {
            return self.grow().map(|()| true);
        }
        if !are_whole || self.registrar.is_worn() {
            self.store.untrace();
            self.registrar.begin_anew();
            (self.listed, self.is_anew) = (0, true);
        }
        self.list(traces);
        Ok(false)
    }

    /// Lists some more segments, if any are left.
    fn list(&mut self, traces: &mut Vec<u64>) {
        if self.is_listed() {
            return;
        }
        for _ in 0..SEGMENTS_AT_ONCE {
            let (shard, segment) = (
                self.listed / self.index.segments,
                self.listed % self.index.segments,
            );
            self.store.trace_segment(shard, segment, traces);
            for trace in traces.drain(..) {
                self.registrar.came(&trace, By::Node);
            }
            self.listed += 1;
            if self.is_listed() {
                if std::mem::take(&mut self.is_anew) {
                    self.registrar.end_anew();
                }
                self.was_whole = true;
                return;
            }
        }
    }

    fn may_grow(&self) -> bool {
        let larger = Shape::for_numbers(self.planned * 2, self.bits_per_object);
        self.kind == HintKind::Bloom && larger.is_some()
    }

    fn grow(&mut self) -> Result<(), getrandom::Error> {
        self.store.untrace();
        self.planned *= 2;
        self.registrar = registrar(self.number, self.kind, self.planned, self.bits_per_object)?;
        (self.listed, self.is_anew, self.was_whole) = (0, false, false);
        Ok(())
    }
}

fn registrar(
    number: u8,
    kind: HintKind,
    planned: u64,
    bits_per_object: u8,
) -> Result<Registrar, getrandom::Error> {
    let incarnation = chance::u64()?.max(1);
    let kind = match kind {
        HintKind::Bloom => Kind::Bloom(shape(planned, bits_per_object)),
        HintKind::Directory => Kind::Directory,
    };
    Ok(Registrar::new(number, kind, incarnation, Limits::default()))
}

/// The largest possible filter for at most this number of objects.
fn shape(planned: u64, bits_per_object: u8) -> Shape {
    let fewer = std::iter::successors(Some(planned), |planned| Some(planned / 2));
    fewer
        .take_while(|planned| *planned > 0)
        .find_map(|planned| Shape::for_numbers(planned, bits_per_object))
        .expect("one object has a filter")
}

/// Computes our load from counters, between two calls.
#[derive(Default)]
struct Rates {
    last: Option<(Instant, u64, u64)>,
}

impl Rates {
    fn load(&mut self, counters: &[Arc<Counters>], cache: &Cache) -> Load {
        let now = Instant::now();
        let (mut requests, mut reads) = (0, 0);
        for counters in counters {
            let classes = counters.requests.iter();
            requests += classes.map(|n| n.load(Ordering::Relaxed)).sum::<u64>();
            reads += counters.disk_reads.load(Ordering::Relaxed);
        }
        let (at, requests_before, reads_before) = self
            .last
            .replace((now, requests, reads))
            .unwrap_or((now, requests, reads));
        let passed_ms = (now.duration_since(at).as_millis() as u64).max(1);
        let a_second = |n: u64| u32::try_from(n * 1000 / passed_ms).unwrap_or(u32::MAX);
        let (mut pinned, mut free_bytes) = (0, 0);
        for store in cache.store.stores().take(cache.devices.len()) {
            let figures = store.figures();
            pinned += figures.reads_pinned;
            free_bytes += figures.dead_bytes + figures.never_written_bytes;
        }
        let reads_a_second = a_second(reads.saturating_sub(reads_before));
        // Little's law: the mean time of a read is the reads in progress divided by the reads that end in a second.
        let queue_ms = pinned * 1000 / u64::from(reads_a_second.max(1));
        let mut devices = cache.devices.iter();
        let hangs = devices.len() > 0 && devices.all(|device| device.health().is_aside());
        Load {
            requests_per_s: a_second(requests.saturating_sub(requests_before)),
            disk_reads_per_s: reads_a_second,
            queue_ms: match reads_a_second {
                _ if hangs => Load::HANGS,
                0 => 0,
                _ => u32::try_from(queue_ms)
                    .unwrap_or(u32::MAX)
                    .min(Load::HANGS - 1),
            },
            free_mib: u32::try_from(free_bytes >> 20).unwrap_or(u32::MAX),
        }
    }
}
