//! The content of one store of a node, and the frames that tell fronts of it.
//!
//! ```text
//!   came, left  ->  held (counts)  ->  log  --close_update, every period-->  history  --next_frame, each front at its own pace-->
//! ```
//!
//! A change goes to the *log* when a mark (a position of the filter, or a number of the directory) begins or ceases to be told.
//! [`Registrar::close_update`] turns the log into an update with the next *label*; a full log closes itself. A subscriber gets every update in
//! order, if necessary after a full copy, sent page by page as fast as it reads. Pages show the marks at the time of sending; later updates may
//! repeat some of that, and the last change of each mark is the right one.
//!
//! *Eager registration.* A front registers a push in its own view before pushing, so the entries of a push go to all fronts except the pusher. A
//! push carries what the front *knew* when it registered: the label last applied. Three rules keep this right:
//! E1  A mark is told to the pusher too if it was cleared in an update that the pusher had not applied: that clearing will follow its own
//!     setting.
//! E2  A mark is told to the pusher too if the pusher has got a full copy since, which has wiped its own settings. Each full copy has its own
//!     label, greater than any before.
//! E3  A mark is told to the pusher too if the label is of another incarnation.
//! The rules matter only for marks that begin to be told; marks that are told already are known to every front. A push that seems not to be
//! stored is withdrawn ([`Registrar::withdrawn`]): its marks are cleared if no name has them.
//!
//! The paper has a buffer for each pushing front, and one for the node itself. We have one log whose entries name the pusher: two buffers lose the
//! order of setting and clearing a mark, and if a set is applied before an older clear, the name is not found any more.
//!
//! *Rebuilding.* At the start, when changes were lost, or when too many counters are stuck, the caller lists all names between
//! [`Registrar::begin_anew`] and [`Registrar::end_anew`]. Marks told before stay told meanwhile. Afterwards every subscriber gets a full copy: a
//! name that was pushed to an unlisted segment and left it again was not recorded, but its pusher still believes in it.
//!
//! Not known here: time, the store, links.
//! Limits: [`Limits`]; [`SUBSCRIBERS_MAX`]; [`EXPECTED_MAX`].
//! Source: paper 003, section 5 (Hint Update Protocol, Web Proxy Software Extension). As in the paper, replacing an object by a newer version makes
//! no update; the caller has to ensure that.

use std::collections::{BTreeMap, VecDeque};

mod held;

use held::Held;

use crate::bloom::Shape;
use crate::counting::Width;
use crate::directory::NumberMap;
use crate::frames::{ENTRIES_MAX, Entry, Frame, Full, Kind, Known, PAGE_NUMBERS, Page, Update};
use crate::mistakes::{Mistake, makes};
use crate::name::Name;

/// Subscribers of a store at most.
pub const SUBSCRIBERS_MAX: usize = 64;
/// Pushed names that the store has not reported yet, at most. The oldest is forgotten; its pusher is then told of it too.
pub const EXPECTED_MAX: usize = 1 << 16;

/// A front, by a number that the caller assigns for the lifetime of both.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Front(pub u16);

/// How a name came into the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    /// The node fetched the object, or had it already.
    Node,
    /// A front pushed it, and knew this when it registered the name.
    Front(Front, Known),
}

/// Bounds of what is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Entries of an update, at most [`ENTRIES_MAX`]. A full one is closed before its time.
    pub entries: usize,
    /// Entries of all updates kept for fronts that are behind. A front that is further behind gets a full copy.
    pub history: usize,
    /// Bits of a counter.
    pub width: Width,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            entries: ENTRIES_MAX,
            history: 3 * ENTRIES_MAX,
            width: Width::Four,
        }
    }
}

/// Counters; they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Updates that were closed with entries in them.
    pub updates: u64,
    /// Entries in these updates.
    pub entries: u64,
    /// Entries of the largest update.
    pub entries_max: u64,
    /// Entries not sent to a front because it had pushed them.
    pub spared: u64,
    /// Entries of a push that were sent to its pusher too (E1 to E3).
    pub told_pushers: u64,
    /// Full copies begun.
    pub full_copies: u64,
    /// Full copies begun for fronts that were too far behind.
    pub fell_behind: u64,
    /// Marks cleared because a push was withdrawn.
    pub undone: u64,
    /// Rebuildings begun.
    pub anew: u64,
    /// Expected names that were forgotten because there were too many.
    pub expected_lost: u64,
}

/// The registrar of one store; described at the head of this file.
#[derive(Debug)]
pub struct Registrar {
    kind: Kind,
    incarnation: u64,
    column: u8,
    limits: Limits,
    held: Held,
    names: u64,
    is_anew: bool,
    /// The last label given.
    label: u64,
    /// Changes since that label, in order.
    log: Vec<Noted>,
    history: VecDeque<Closed>,
    /// Number of entries in `history`.
    history_entries: usize,
    cleared_at: ClearedAt,
    expected: Expected,
    subscribers: BTreeMap<Front, Subscriber>,
    /// Changes are recorded: a front follows, or may come back and go on from its label.
    is_noting: bool,
    figures: Figures,
}

/// A change, and the front that need not be told of it.
#[derive(Clone, Copy, Debug)]
struct Noted {
    entry: Entry,
    spared: Option<Front>,
}

/// A closed update. Labels in the history are consecutive.
#[derive(Debug)]
struct Closed {
    label: u64,
    entries: Box<[Noted]>,
}

#[derive(Debug)]
struct Subscriber {
    /// The label of the last full copy, or the one from which the front went on. Pushes registered before it are told to the front (E2).
    full_at: u64,
    /// The last label sent.
    sent: u64,
    copying: Option<Copying>,
}

/// A full copy under way.
#[derive(Debug)]
struct Copying {
    page: u32,
    pages: u32,
    sent: u32,
    /// Of a directory: all numbers when the copy began.
    numbers: Vec<u64>,
}

impl Registrar {
    /// A registrar for a store that is about to be listed, as after [`Self::begin_anew`]; the caller ends that with [`Self::end_anew`].
    /// `incarnation`: not 0, and never used before.
    pub fn new(column: u8, kind: Kind, incarnation: u64, limits: Limits) -> Registrar {
        assert!(
            incarnation != 0,
            "0 is what a front knows that knows nothing"
        );
        let entries = limits.entries.clamp(1, ENTRIES_MAX);
        let limits = Limits {
            entries,
            history: limits.history.max(entries),
            ..limits
        };
        Registrar {
            kind,
            incarnation,
            column,
            limits,
            held: Held::new(kind, limits.width),
            names: 0,
            is_anew: true,
            label: 0,
            log: Vec::new(),
            history: VecDeque::new(),
            history_entries: 0,
            cleared_at: ClearedAt::new(kind),
            expected: Expected::default(),
            subscribers: BTreeMap::new(),
            is_noting: false,
            figures: Figures::default(),
        }
    }

    /// The form of its hints.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its incarnation.
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The last label given.
    pub fn label(&self) -> u64 {
        self.label
    }

    /// Names in it.
    pub fn names(&self) -> u64 {
        self.names
    }

    /// Number of set bits, or of numbers.
    pub fn marks(&self) -> u64 {
        self.held.marks_held()
    }

    /// Counters since the start.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Bytes of memory.
    pub fn memory_bytes(&self) -> usize {
        let copies: usize = self
            .subscribers
            .values()
            .filter_map(|subscriber| subscriber.copying.as_ref())
            .map(|copying| copying.numbers.len() * 8)
            .sum();
        self.held.memory_bytes()
            + (self.log.capacity() + self.history_entries) * size_of::<Noted>()
            + self.cleared_at.0.len() * 8
            + self.expected.order.capacity() * 40
            + copies
    }

    /// A front has pushed a name, and the store is about to report it as stored.
    pub fn expect<N: Name>(&mut self, name: &N, front: Front, known: Known) {
        let lost = self.expected.add(name.number(), front, known);
        self.figures.expected_lost += u64::from(lost);
    }

    /// A name was stored. If it was expected and `by` is [`By::Node`], it counts as pushed.
    pub fn came<N: Name>(&mut self, name: &N, by: By) {
        let by = match by {
            By::Node => self.expected.take(name.number()).unwrap_or(By::Node),
            By::Front(..) => by,
        };
        self.names += 1;
        self.each_mark(name, |registrar, mark| {
            if registrar.held.raise(mark) {
                let spared = registrar.spared(mark, by);
                registrar.note(Entry { mark, set: true }, spared);
            }
        });
    }

    /// A name that was stored before has left.
    pub fn left<N: Name>(&mut self, name: &N) {
        self.names = self.names.saturating_sub(1);
        self.each_mark(name, |registrar, mark| {
            if registrar.held.lower(mark) {
                registrar.clear(mark);
            }
        });
    }

    /// A front has registered a name whose push seems not to have been stored.
    pub fn withdrawn<N: Name>(&mut self, name: &N) {
        if makes(Mistake::KeepWithdrawn) {
            return;
        }
        self.expected.take(name.number());
        self.each_mark(name, |registrar, mark| {
            if !registrar.held.is_told(mark) {
                registrar.clear(mark);
                registrar.figures.undone += 1;
            }
        });
    }

    fn each_mark<N: Name>(&mut self, name: &N, mut each: impl FnMut(&mut Registrar, u64)) {
        let mut marks = [0; crate::bloom::FUNCTIONS_MAX as usize];
        let mut n = 0;
        self.held.marks(name, |mark| {
            marks[n] = mark;
            n += 1;
        });
        for &mark in &marks[..n] {
            each(self, mark);
        }
    }

    /// The front that need not be told of setting this mark.
    fn spared(&mut self, mark: u64, by: By) -> Option<Front> {
        let By::Front(front, known) = by else {
            return None;
        };
        let subscriber = self.subscribers.get(&front)?;
        let is_of_now = known.incarnation == self.incarnation || makes(Mistake::ForgetIncarnation);
        //= paper 003 section 5   the pushed content carries the label of the most recent update enacted
        let is_cleared = self.cleared_at.get(mark) > known.label && !makes(Mistake::ForgetCleared);
        let is_wiped = subscriber.full_at > known.label && !makes(Mistake::ForgetFullCopy);
        let is_right = is_of_now && !is_cleared && !is_wiped;
        match is_right {
            true => self.figures.spared += 1,
            false => self.figures.told_pushers += 1,
        }
        is_right.then_some(front)
    }

    fn clear(&mut self, mark: u64) {
        self.cleared_at.set(mark, self.label + 1);
        if !makes(Mistake::KeepLeft) {
            self.note(Entry { mark, set: false }, None);
        }
    }

    fn note(&mut self, entry: Entry, spared: Option<Front>) {
        // No front would get the entry, and a later subscriber gets a full copy.
        if !self.is_noting {
            return;
        }
        self.log.push(Noted { entry, spared });
        if self.log.len() >= self.limits.entries {
            self.close_update();
        }
    }

    /// Makes an update of the changes in the log, if there are any, and returns its label.
    pub fn close_update(&mut self) -> Option<u64> {
        if self.log.is_empty() {
            return None;
        }
        Some(self.close())
    }

    fn close(&mut self) -> u64 {
        let mut log = std::mem::take(&mut self.log);
        if makes(Mistake::PushesLast) {
            log.sort_by_key(|noted| noted.spared.is_some());
        }
        let entries = log.len() as u64;
        self.label += 1;
        self.figures.updates += u64::from(entries > 0);
        self.figures.entries += entries;
        self.figures.entries_max = self.figures.entries_max.max(entries);
        self.history_entries += log.len();
        self.history.push_back(Closed {
            label: self.label,
            entries: log.into(),
        });
        while self.history_entries > self.limits.history || self.history.len() > HISTORY_MAX {
            let Some(oldest) = self.history.pop_front() else {
                break;
            };
            self.history_entries -= oldest.entries.len();
            // Without this update, a front that comes back cannot go on from its label.
            self.is_noting &= !self.subscribers.is_empty();
        }
        if !self.is_noting {
            self.history.clear();
            self.history_entries = 0;
        }
        self.label
    }

    /// Subscribes a front, over a new link or to a column that has begun anew. The front gets the updates after what it knows, or a full copy. False:
    /// there are [`SUBSCRIBERS_MAX`] subscribers already.
    pub fn subscribe(&mut self, front: Front, known: Option<Known>) -> bool {
        let is_new = !self.subscribers.contains_key(&front);
        if is_new && self.subscribers.len() >= SUBSCRIBERS_MAX {
            return false;
        }
        let known = known.filter(|known| known.incarnation == self.incarnation);
        let is_kept = |label| self.is_kept(label) || makes(Mistake::SkipForgotten);
        match known.filter(|known| known.label <= self.label && is_kept(known.label)) {
            Some(known) => {
                let subscriber = Subscriber {
                    full_at: known.label,
                    sent: known.label,
                    copying: None,
                };
                self.subscribers.insert(front, subscriber);
            }
            None => self.copy_to(front),
        }
        self.is_noting = true;
        true
    }

    /// Are all updates after this label still kept?
    fn is_kept(&self, label: u64) -> bool {
        let oldest = self.history.front().map_or(self.label + 1, |c| c.label);
        self.is_noting && oldest <= label + 1
    }

    /// Unsubscribes a front, because its link has ended or is about to be replaced. Its pushes stay. Must be called before anything is sent over a
    /// new link, or frames of the old subscription would be taken for the new one's.
    pub fn unsubscribe(&mut self, front: Front) {
        self.subscribers.remove(&front);
    }

    /// Makes every front that comes back with a label from before get a full copy.
    fn forget_history(&mut self) {
        self.close();
        self.history.clear();
        self.history_entries = 0;
    }

    /// Begins a full copy, with a label of its own.
    fn copy_to(&mut self, front: Front) {
        if makes(Mistake::DropPending) {
            self.log.clear();
        }
        let label = self.close();
        let (pages, numbers) = match self.held.bitmap_pages() {
            Some(pages) => (pages, Vec::new()),
            None => {
                let numbers = self.held.numbers();
                (numbers.len().div_ceil(PAGE_NUMBERS).max(1) as u32, numbers)
            }
        };
        let subscriber = Subscriber {
            full_at: label,
            sent: label,
            copying: Some(Copying {
                page: 0,
                pages,
                sent: 0,
                numbers,
            }),
        };
        self.subscribers.insert(front, subscriber);
        self.figures.full_copies += 1;
    }

    /// Is there a frame for this front?
    pub fn has_news(&self, front: Front) -> bool {
        let subscriber = self.subscribers.get(&front);
        subscriber.is_some_and(|s| s.copying.is_some() || s.sent < self.label)
    }

    /// The next frame for a front: a page of its full copy, or an update. `None`: it has everything that is closed. The frames have to be sent in
    /// this order; otherwise the front has to subscribe again.
    pub fn next_frame(&mut self, front: Front) -> Option<Frame> {
        let subscriber = self.subscribers.get(&front)?;
        if subscriber.copying.is_some() {
            return self.next_page(front).map(Frame::Full);
        }
        let next = subscriber.sent + 1;
        if next > self.label {
            return None;
        }
        let Some(oldest) = self.history.front().map(|closed| closed.label) else {
            return self.fall_behind(front);
        };
        if oldest > next && !makes(Mistake::SkipForgotten) {
            return self.fall_behind(front);
        }
        self.update(front, next.max(oldest)).map(Frame::Update)
    }

    fn fall_behind(&mut self, front: Front) -> Option<Frame> {
        self.figures.fell_behind += 1;
        self.copy_to(front);
        self.next_page(front).map(Frame::Full)
    }

    fn update(&mut self, front: Front, label: u64) -> Option<Update> {
        let oldest = self.history.front()?.label;
        let closed = self.history.get((label - oldest) as usize)?;
        let heard = closed.entries.iter().filter(|noted| match noted.spared {
            Some(pusher) if makes(Mistake::TellPusherOnly) => pusher == front,
            spared => spared != Some(front),
        });
        let entries = heard.map(|noted| noted.entry).collect();
        self.subscribers.get_mut(&front)?.sent = label;
        Some(Update {
            column: self.column,
            label,
            is_directory: self.kind == Kind::Directory,
            entries,
        })
    }

    /// The next page that is not empty, or the last one.
    fn next_page(&mut self, front: Front) -> Option<Full> {
        let subscriber = self.subscribers.get_mut(&front)?;
        let (label, copying) = (subscriber.full_at, subscriber.copying.as_mut()?);
        let pages = copying.pages;
        loop {
            let page = copying.page;
            copying.page += 1;
            let is_last = copying.page == pages;
            let content = match self.held.bitmap_page(page) {
                Some(bitmap) => bitmap,
                None => {
                    let from = page as usize * PAGE_NUMBERS;
                    let to = copying.numbers.len().min(from + PAGE_NUMBERS);
                    let numbers = copying.numbers[from.min(to)..to].iter().copied();
                    // Leave out numbers that have left since, because the update that clears them may have been sent already.
                    Page::Numbers(numbers.filter(|&n| self.held.is_told(n)).collect())
                }
            };
            let is_empty = match &content {
                Page::Bitmap(bytes) => bytes.iter().all(|&byte| byte == 0),
                Page::Numbers(numbers) => numbers.is_empty(),
            };
            if is_empty && !is_last {
                continue;
            }
            let sent_before = copying.sent;
            copying.sent += 1;
            if is_last {
                subscriber.copying = None;
            }
            return Some(Full {
                column: self.column,
                label,
                page,
                pages,
                sent_before,
                content,
            });
        }
    }

    /// Are so many counters stuck that the registrar should be rebuilt?
    pub fn is_worn(&self) -> bool {
        self.held.is_worn() && !self.is_anew
    }

    /// Forgets all names. The caller lists them again ([`Self::came`]), then calls [`Self::end_anew`]. Changes are reported as usual meanwhile.
    pub fn begin_anew(&mut self) {
        self.held.begin_anew();
        (self.names, self.is_anew) = (0, true);
        self.figures.anew += 1;
    }

    /// All names have been listed again. Every subscriber gets a full copy.
    pub fn end_anew(&mut self) {
        self.held.end_anew();
        self.is_anew = false;
        if makes(Mistake::AnewQuietly) {
            return;
        }
        // Marks that were told before and are gone have no entry, so no front may go on from an earlier label.
        if !makes(Mistake::ResumeAcrossAnew) {
            self.forget_history();
        }
        let fronts: Vec<Front> = self.subscribers.keys().copied().collect();
        for front in fronts {
            self.copy_to(front);
        }
    }

    /// Is this mark (position or number) told? For tests: what a front believes after it has applied all frames.
    pub fn is_told(&self, mark: u64) -> bool {
        self.held.is_told(mark)
    }
}

/// Updates kept for fronts that are behind, whatever their size.
const HISTORY_MAX: usize = 4096;

/// The label at which marks were last cleared, in a small table whose places several marks share. A label that is too high costs an extra entry.
#[derive(Debug)]
struct ClearedAt(Box<[u64]>);

impl ClearedAt {
    /// A place for every 64 bits of a filter; 8 KiB to 8 MiB in all.
    fn new(kind: Kind) -> ClearedAt {
        let places = match kind {
            Kind::Bloom(shape) => Shape::bits(shape) as usize / 64,
            Kind::Directory => 1 << 16,
        };
        let places = places.next_power_of_two().clamp(1 << 10, 1 << 20);
        ClearedAt(vec![0; places].into())
    }

    fn place(&self, mark: u64) -> usize {
        (mark.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & (self.0.len() - 1)
    }

    fn get(&self, mark: u64) -> u64 {
        self.0[self.place(mark)]
    }

    fn set(&mut self, mark: u64, label: u64) {
        let place = self.place(mark);
        self.0[place] = label;
    }
}

/// Pushed names that the store has not reported yet. A name that is never reported, because the store had it already, is forgotten in its turn.
/// Until then it may be taken for a later arrival of the same name, which the rules allow.
#[derive(Debug, Default)]
struct Expected {
    by: NumberMap<(Front, Known, u64)>,
    /// By age. A name that was taken leaves its place behind.
    order: VecDeque<(u64, u64)>,
    next: u64,
}

impl Expected {
    /// Adds a name. True: another one had to be forgotten.
    fn add(&mut self, number: u64, front: Front, known: Known) -> bool {
        self.next += 1;
        self.by.insert(number, (front, known, self.next));
        self.order.push_back((number, self.next));
        if self.order.len() <= EXPECTED_MAX {
            return false;
        }
        let oldest = self.order.pop_front();
        oldest.is_some_and(|(number, at)| {
            let is_there = self.by.get(&number).is_some_and(|&(.., own)| own == at);
            is_there && self.by.remove(&number).is_some()
        })
    }

    fn take(&mut self, number: u64) -> Option<By> {
        let (front, known, _) = self.by.remove(&number)?;
        Some(By::Front(front, known))
    }
}

#[cfg(test)]
mod tests;
