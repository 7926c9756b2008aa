//! The content of all nodes, as a front follows it.
//!
//! One thread feeds the frames of all links to the view, which writes the tables that workers look up ([`Groups`], by a [`Reader`]).
//!
//! A column begins empty and untrusted: it is not used until its full copy is complete. A later full copy of the same incarnation is written over
//! it page by page while it stays in use. An update must have the label after the last one; any other label means that something was lost
//! ([`Broken::Gap`]), and the caller closes the link. The HELLO of the next link tells whether the column is the same, and the front asks for
//! what it missed, or for a full copy. A column with another incarnation, seed or shape begins empty.
//!
//! The columns of a node that has been silent for [`SILENCE_MAX_MS`], or has lost its link, are not used until the node is heard again.
//!
//! Not known here: sockets, clocks, requests, how well a node answers them.
//! Limits: [`NODES_MAX`]; [`GROUPS_MAX`] groups of at most 64 columns, [`MEMORY_BYTES_MAX`]: further columns are not followed ([`View::not_followed`]).
//! Source: paper 003, sections 2 and 5.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

mod groups;

pub use groups::{Followed, Group, Groups, NODES_MAX, Naming, Reader};
use groups::{Marks, Shelf};

use crate::frames::{Beat, Column, ColumnBeat, Frame, Full, Hello, Kind, Load, Page};
use crate::frames::{PAGE_BYTES, Subscribe, Update};
use crate::interleaved::COLUMNS_MAX;
use crate::mistakes::{Mistake, makes};

/// The columns of a node that has been silent for this long are not used.
pub const SILENCE_MAX_MS: u64 = 3000;
/// Groups at most: each costs an additional look-up.
pub const GROUPS_MAX: usize = 64;
/// Bytes of all matrices at most, unless [`View::limit_memory`] sets another limit.
pub const MEMORY_BYTES_MAX: u64 = 4 << 30;

/// Why a link has to be closed. The node's columns are kept, and are not used until the node is back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// An update or page was lost, repeated, or came out of order.
    Gap {
        /// The column.
        column: u8,
        /// The last label applied; 0: none.
        last: u64,
        /// The label found.
        found: u64,
    },
    /// The node has not announced this column.
    NoColumn(u8),
    /// A position, page or kind of entry that this column cannot have.
    Content(u8),
    /// A node number of [`NODES_MAX`] or above.
    Node(u8),
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Gap {
                column,
                last,
                found,
            } => write!(f, "column {column}: label {found} after {last}"),
            Broken::NoColumn(column) => write!(f, "column {column} was not announced"),
            Broken::Content(column) => {
                write!(f, "column {column}: content that it cannot have")
            }
            Broken::Node(node) => write!(f, "node number {node}"),
        }
    }
}

impl std::error::Error for Broken {}

/// Counters; they only grow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Updates applied.
    pub updates: u64,
    /// Entries in these updates.
    pub entries: u64,
    /// Pages of full copies applied.
    pub pages: u64,
    /// Full copies completed.
    pub full_copies: u64,
    /// Links that broke because a label was missing or repeated.
    pub gaps: u64,
    /// Frames with impossible content.
    pub senseless: u64,
    /// Times that a node was silent for too long.
    pub silences: u64,
    /// Numbers for which a directory had no room.
    pub no_room: u64,
}

/// The view; described at the head of this file.
#[derive(Debug)]
pub struct View {
    shelf: Arc<Shelf>,
    /// The same groups as in `shelf`, for changes.
    groups: Groups,
    nodes: Vec<Option<Node>>,
    columns_expected: u32,
    memory_max: u64,
    not_followed: u64,
    figures: Figures,
}

#[derive(Debug)]
struct Node {
    name: String,
    incarnation: u64,
    columns: Vec<Following>,
    is_linked: bool,
    is_silent: bool,
    heard_ms: u64,
    beat: Beat,
}

/// A column that is followed.
#[derive(Debug)]
struct Following {
    column: Column,
    /// `None`: there was no room for it.
    place: Option<Place>,
    /// A full copy was completed under this incarnation.
    was_whole: bool,
    is_subscribed: bool,
    /// The last label applied; `None` until a full copy is complete.
    label: Option<u64>,
    filling: Option<Filling>,
    /// When we last had all updates that the node's last beat had announced.
    complete_ms: Option<u64>,
    shown: Arc<Followed>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    group: usize,
    column: u32,
}

/// A full copy that is being received.
#[derive(Clone, Copy, Debug)]
struct Filling {
    label: u64,
    next_page: u32,
    pages: u32,
    received: u32,
}

/// The state of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnStatus {
    /// The last label applied; `None` until the first full copy is complete.
    pub label: Option<u64>,
    /// Progress of a full copy, percent.
    pub filled_percent: Option<u8>,
    /// False: there was no room for it.
    pub is_followed: bool,
    /// Bits or numbers set here, including those that pushes have registered; 0 until the first full copy is complete.
    pub marks: u64,
    /// When we last had all updates that the node's last beat had announced; `None`: never yet. Changes that the node has not put into an update yet
    /// do not count.
    pub complete_ms: Option<u64>,
    /// Its state by the node's last beat.
    pub beat: ColumnBeat,
}

/// The state of a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Number of its process.
    pub incarnation: u64,
    /// Are its columns used?
    pub is_trusted: bool,
    /// It is shutting down.
    pub is_leaving: bool,
    /// When its last frame came.
    pub heard_ms: u64,
    /// Its load.
    pub load: Load,
    /// Its columns.
    pub columns: Vec<ColumnStatus>,
}

impl View {
    /// A view without nodes. Groups are made for this number of columns (stores of all nodes). Further columns form another group, which costs one
    /// more look-up.
    pub fn new(columns_expected: u32) -> View {
        View {
            shelf: Arc::default(),
            groups: Groups::default(),
            nodes: (0..NODES_MAX).map(|_| None).collect(),
            columns_expected: columns_expected.clamp(1, COLUMNS_MAX),
            memory_max: MEMORY_BYTES_MAX,
            not_followed: 0,
            figures: Figures::default(),
        }
    }

    /// Sets the number of columns that new groups are made for.
    pub fn expect_columns(&mut self, columns: u32) {
        self.columns_expected = columns.clamp(1, COLUMNS_MAX);
    }

    /// Limits the bytes of all matrices together. A column whose group would exceed the limit is not followed.
    pub fn limit_memory(&mut self, bytes: u64) {
        self.memory_max = bytes;
    }

    /// A reader for a worker.
    pub fn reader(&self) -> Reader {
        Reader::new(Arc::clone(&self.shelf))
    }

    /// Counters since the start.
    pub fn figures(&self) -> Figures {
        self.figures
    }

    /// Columns for which there was no room, since the start.
    pub fn not_followed(&self) -> u64 {
        self.not_followed
    }

    /// Bytes of memory of all groups.
    pub fn memory_bytes(&self) -> usize {
        self.groups.memory_bytes()
    }

    /// The state of a node; `None` if it was never heard.
    pub fn status(&self, node: u8) -> Option<NodeStatus> {
        let node = self.nodes.get(usize::from(node))?.as_ref()?;
        let status = |(number, following): (usize, &Following)| ColumnStatus {
            label: following.label,
            filled_percent: following
                .filling
                .map(|f| (u64::from(f.next_page) * 100 / u64::from(f.pages)) as u8),
            is_followed: following.place.is_some(),
            marks: (following.place)
                .filter(|_| following.was_whole)
                .map_or(0, |place| {
                    self.groups.groups[place.group].marks.count(place.column)
                }),
            complete_ms: following.complete_ms,
            beat: node.beat.columns.get(number).copied().unwrap_or_default(),
        };
        Some(NodeStatus {
            name: node.name.clone(),
            incarnation: node.incarnation,
            is_trusted: node.is_trusted(),
            is_leaving: node.beat.is_leaving,
            heard_ms: node.heard_ms,
            load: node.beat.load,
            columns: node.columns.iter().enumerate().map(status).collect(),
        })
    }

    /// Handles a frame from the link to a node. Returns the subscriptions to send back. Frames that are not about hints are ignored.
    ///
    /// # Errors
    /// The link has to be closed; then call [`Self::lost`].
    pub fn handle(
        &mut self,
        node: u8,
        frame: &Frame,
        now_ms: u64,
    ) -> Result<Vec<Subscribe>, Broken> {
        let result = match frame {
            Frame::Hello(hello) => self.hello(node, hello, now_ms),
            Frame::Full(full) => self.full(node, full).map(|()| Vec::new()),
            Frame::Update(update) => self.update(node, update).map(|()| Vec::new()),
            Frame::Beat(beat) => {
                self.beat(node, beat, now_ms);
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        };
        if result.is_ok() && matches!(frame, Frame::Full(_) | Frame::Update(_)) {
            self.note_complete(node, now_ms);
        }
        match result {
            Err(Broken::Gap { .. }) => self.figures.gaps += 1,
            Err(_) => self.figures.senseless += 1,
            Ok(_) => {}
        }
        result
    }

    /// A node announces its columns, with unsealed seeds. Columns that have changed begin anew.
    ///
    /// # Errors
    /// [`Broken::Node`].
    pub fn hello(
        &mut self,
        number: u8,
        hello: &Hello,
        now_ms: u64,
    ) -> Result<Vec<Subscribe>, Broken> {
        let slot = self.nodes.get_mut(usize::from(number));
        let known = slot.ok_or(Broken::Node(number))?.take();
        let mut before: Vec<Option<Following>> = match known {
            Some(node) => node.columns.into_iter().map(Some).collect(),
            None => Vec::new(),
        };
        before.resize_with(before.len().max(hello.columns.len()), || None);
        // Release old columns first, so that their places are free for new ones.
        for (old, new) in before
            .iter_mut()
            .zip((hello.columns.iter().map(Some)).chain(std::iter::repeat(None)))
        {
            let stays = |old: &Following| Some(&old.column) == new || makes(Mistake::KeepColumn);
            if let Some(left) = old.take_if(|old| !stays(old)) {
                self.release(left);
            }
        }
        let mut columns = Vec::new();
        let mut subscribes = Vec::new();
        for (at, (column, old)) in hello.columns.iter().zip(before).enumerate() {
            let mut following = match old {
                Some(old) => old,
                None => self.follow(number, at as u8, *column),
            };
            if following.place.is_some() && !following.is_subscribed {
                following.is_subscribed = true;
                subscribes.push(Subscribe {
                    column: at as u8,
                    incarnation: column.incarnation,
                    from: following.label,
                });
            }
            columns.push(following);
        }
        self.nodes[usize::from(number)] = Some(Node {
            name: hello.name.clone(),
            incarnation: hello.incarnation,
            columns,
            is_linked: true,
            is_silent: false,
            heard_ms: now_ms,
            beat: Beat::default(),
        });
        self.publish();
        Ok(subscribes)
    }

    /// The link to a node has ended. Its columns are kept for its return.
    pub fn lost(&mut self, node: u8) {
        let Some(Some(node)) = self.nodes.get_mut(usize::from(node)) else {
            return;
        };
        node.is_linked = false;
        for following in &mut node.columns {
            following.is_subscribed = false;
            following.filling = None;
        }
        self.trust();
    }

    /// A node may not have heard of a withdrawal. Its columns stay in use, but will be followed from a new full copy. To be called while the node has
    /// no link.
    pub fn doubt(&mut self, node: u8) {
        if makes(Mistake::ForgetLost) {
            return;
        }
        if let Some(Some(node)) = self.nodes.get_mut(usize::from(node)) {
            node.columns.iter_mut().for_each(Following::forget);
        }
    }

    /// A node has ceased to be a member.
    pub fn remove(&mut self, node: u8) {
        let slot = self.nodes.get_mut(usize::from(node));
        let Some(node) = slot.and_then(Option::take) else {
            return;
        };
        for following in node.columns {
            self.release(following);
        }
        self.publish();
    }

    /// To be called about once a second. Returns the nodes that have become silent since the last call, as a mask.
    pub fn tick(&mut self, now_ms: u64) -> u64 {
        let mut fell_silent = 0;
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let Some(node) = node else { continue };
            let is_silent = now_ms.saturating_sub(node.heard_ms) > SILENCE_MAX_MS;
            if is_silent && node.is_linked && !node.is_silent && !makes(Mistake::TrustSilent) {
                node.is_silent = true;
                fell_silent |= 1 << number;
                self.figures.silences += 1;
            }
        }
        if fell_silent != 0 {
            self.trust();
        }
        fell_silent
    }

    /// Takes the beat of a node.
    pub fn beat(&mut self, number: u8, beat: &Beat, now_ms: u64) {
        let Some(Some(node)) = self.nodes.get_mut(usize::from(number)) else {
            return;
        };
        for (following, column) in node.columns.iter().zip(&beat.columns) {
            let shown = &following.shown.sequence;
            shown.store(column.sequence, Ordering::Release);
        }
        node.beat = beat.clone();
        node.heard_ms = now_ms;
        if std::mem::take(&mut node.is_silent) {
            self.trust();
        }
        self.note_complete(number, now_ms);
    }

    /// Notes the time for each column of a node that has all updates its last beat announced; without a beat, for none.
    fn note_complete(&mut self, node: u8, now_ms: u64) {
        let Some(Some(node)) = self.nodes.get_mut(usize::from(node)) else {
            return;
        };
        for (following, told) in node.columns.iter_mut().zip(&node.beat.columns) {
            let has_all = following.label.is_some_and(|label| label >= told.label);
            if has_all && following.filling.is_none() {
                following.complete_ms = Some(now_ms);
            }
        }
    }

    fn update(&mut self, node: u8, update: &Update) -> Result<(), Broken> {
        let (following, groups) = self.following(node, update.column)?;
        let Some(place) = following.place else {
            return Ok(());
        };
        let last = following.label.filter(|_| following.filling.is_none());
        let is_next = last.is_some_and(|last| last.checked_add(1) == Some(update.label));
        let is_taken = is_next || makes(Mistake::IgnoreGap) && following.label.is_some();
        if !is_taken {
            return Err(Broken::Gap {
                column: update.column,
                last: following.label.unwrap_or(0),
                found: update.label,
            });
        }
        let content = Broken::Content(update.column);
        let bits = match following.column.kind {
            Kind::Bloom(shape) => Some(u64::from(shape.bits())),
            Kind::Directory => None,
        };
        if update.is_directory != bits.is_none() {
            return Err(content);
        }
        let mut no_room = 0;
        let marks = &groups.groups[place.group].marks;
        for entry in &update.entries {
            if bits.is_some_and(|bits| entry.mark >= bits) {
                following.forget();
                return Err(content);
            }
            no_room += u64::from(!marks.set(place.column, entry.mark, entry.set));
        }
        following.enact(update.label);
        self.figures.updates += 1;
        self.figures.entries += update.entries.len() as u64;
        self.figures.no_room += no_room;
        Ok(())
    }

    fn full(&mut self, node: u8, full: &Full) -> Result<(), Broken> {
        let (following, groups) = self.following(node, full.column)?;
        let Some(place) = following.place else {
            return Ok(());
        };
        let marks = Arc::clone(&groups.groups[place.group].marks);
        let filling = match following.filling {
            Some(filling) => filling,
            None => {
                following.forget();
                if let Marks::Directory(directory) = &*marks {
                    directory.clear(place.column);
                }
                Filling {
                    label: full.label,
                    next_page: 0,
                    pages: full.pages,
                    received: 0,
                }
            }
        };
        let is_same = filling.label == full.label && filling.pages == full.pages;
        let is_next = full.page >= filling.next_page
            && (full.sent_before == filling.received || makes(Mistake::IgnoreGap));
        if !is_same || !is_next || full.label == 0 {
            following.forget();
            return Err(Broken::Gap {
                column: full.column,
                last: filling.label,
                found: full.label,
            });
        }
        if !write_page(&marks, place.column, filling.next_page, full) {
            following.forget();
            return Err(Broken::Content(full.column));
        }
        let is_whole = full.page + 1 == full.pages;
        following.filling = (!is_whole).then_some(Filling {
            next_page: full.page + 1,
            received: filling.received.saturating_add(1),
            ..filling
        });
        if is_whole {
            following.was_whole = true;
            following.enact(full.label);
        }
        self.figures.pages += 1;
        self.figures.full_copies += u64::from(is_whole);
        if is_whole {
            self.trust();
        }
        Ok(())
    }

    fn following(&mut self, node: u8, column: u8) -> Result<(&mut Following, &mut Groups), Broken> {
        let slot = self.nodes.get_mut(usize::from(node));
        let node = slot.and_then(Option::as_mut).ok_or(Broken::Node(node))?;
        let following = node.columns.get_mut(usize::from(column));
        let following = following.filter(|following| following.is_subscribed);
        Ok((following.ok_or(Broken::NoColumn(column))?, &mut self.groups))
    }

    /// Follows a column, and finds a place for it.
    fn follow(&mut self, node: u8, number: u8, column: Column) -> Following {
        let shown = Arc::new(Followed::new(node, number, column));
        let place = self.place(&column);
        match place {
            Some(place) => {
                let owners = &mut self.groups.groups[place.group].owners;
                owners[place.column as usize] = Some(Arc::clone(&shown));
            }
            None => self.not_followed += 1,
        }
        Following {
            column,
            place,
            was_whole: false,
            is_subscribed: false,
            label: None,
            filling: None,
            complete_ms: None,
            shown,
        }
    }

    fn place(&mut self, column: &Column) -> Option<Place> {
        let naming = Naming::of(column);
        let is_alike = |group: &Group| group.naming == naming && group.kind == column.kind;
        let has_room = |group: &Group| group.owners.iter().any(Option::is_none);
        let mut groups = self.groups.groups.iter();
        let group = match groups.position(|group| is_alike(group) && has_room(group)) {
            Some(group) => group,
            None => self.new_group(naming, column.kind)?,
        };
        let owners = &self.groups.groups[group].owners;
        let free = owners.iter().position(Option::is_none)?;
        Some(Place {
            group,
            column: free as u32,
        })
    }

    fn new_group(&mut self, naming: Naming, kind: Kind) -> Option<usize> {
        // Reuse the place of a group without columns, so that the numbers of the other groups stay.
        let groups = &self.groups.groups;
        let unused = groups
            .iter()
            .position(|group| group.followed().next().is_none());
        let is_kept = |(at, _): &(usize, &Group)| Some(*at) != unused;
        let kept = groups.iter().enumerate().filter(is_kept);
        let bytes: u64 = kept.map(|(_, group)| group.memory_bytes() as u64).sum();
        if bytes + Marks::bytes(kind, self.columns_expected) > self.memory_max {
            return None;
        }
        let marks = Marks::new(kind, self.columns_expected);
        let group = Group {
            naming,
            kind,
            owners: vec![None; marks.columns() as usize],
            marks: Arc::new(marks),
            trusted: Arc::default(),
        };
        let groups = &mut self.groups.groups;
        match unused {
            Some(unused) => groups[unused] = group,
            None if groups.len() < GROUPS_MAX => groups.push(group),
            None => return None,
        }
        unused.or(Some(groups.len() - 1))
    }

    /// Gives the place of a column back.
    fn release(&mut self, following: Following) {
        following.shown.label.store(0, Ordering::Release);
        let Some(place) = following.place else {
            return;
        };
        let group = &mut self.groups.groups[place.group];
        group.owners[place.column as usize] = None;
        let bit = 1u64 << place.column;
        group.trusted.fetch_and(!bit, Ordering::AcqRel);
        if let Marks::Directory(directory) = &*group.marks {
            directory.clear(place.column);
        }
    }

    /// Publishes to workers which group has which columns.
    fn publish(&mut self) {
        self.trust();
        self.shelf.put(self.groups.clone());
    }

    /// Recomputes which columns are used.
    fn trust(&mut self) {
        let mut masks = vec![0u64; self.groups.groups.len()];
        for node in self.nodes.iter().flatten().filter(|n| n.is_trusted()) {
            let whole = node.columns.iter().filter(|following| following.was_whole);
            for place in whole.filter_map(|following| following.place) {
                masks[place.group] |= 1 << place.column;
            }
        }
        for (group, mask) in self.groups.groups.iter().zip(masks) {
            group.trusted.store(mask, Ordering::Release);
        }
    }
}

impl Node {
    fn is_trusted(&self) -> bool {
        self.is_linked && !self.is_silent
    }
}

impl Following {
    fn enact(&mut self, label: u64) {
        self.label = Some(label);
        self.shown.label.store(label, Ordering::Release);
    }

    /// Forgets how far the column was followed; its content stays.
    fn forget(&mut self) {
        self.label = None;
        self.filling = None;
        self.shown.label.store(0, Ordering::Release);
    }
}

/// Writes a page, and clears the pages left out before it. False: the column cannot have such a page.
fn write_page(marks: &Marks, column: u32, next_page: u32, full: &Full) -> bool {
    match (marks, &full.content) {
        (Marks::Bloom(matrix), Page::Bitmap(bytes)) => {
            const POSITIONS: u64 = PAGE_BYTES as u64 * 8;
            let bits = u64::from(matrix.shape().bits());
            let from = u64::from(full.page) * POSITIONS;
            let page_bytes = (bits.saturating_sub(from).min(POSITIONS) / 8) as usize;
            let is_sound =
                u64::from(full.pages) == bits.div_ceil(POSITIONS) && bytes.len() == page_bytes;
            if !is_sound {
                return false;
            }
            if !makes(Mistake::KeepSkippedPages) {
                let cleared = u64::from(next_page) * POSITIONS;
                matrix.clear(column, cleared as u32, from as u32);
            }
            matrix.write(column, from as u32, bytes);
            true
        }
        (Marks::Directory(directory), Page::Numbers(numbers)) => {
            let all = numbers.iter();
            // Numbers without room are not found, which costs a miss.
            let _ = all
                .filter(|&&number| !directory.set(column, number, true))
                .count();
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
