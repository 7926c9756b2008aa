//! The storing side of a fetch: keeping the body while it arrives.
//!
//! A body that fits one record is kept in pieces until it is complete, and then stored whole. A longer body is cut into
//! fragments, each stored when it is full, so that it needs memory for one fragment only. The last record, the head with the
//! total, makes the fragments visible (docs/decisions/0009). If the body breaks off, the stored fragments are published as an object
//! with holes (docs/decisions/0021), provided that later parts can be proven to be of the same version.

use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use store::{Fragment, Sequence};

use crate::{
    fetch::{
        flight::{Flight, Keeping},
        place::Place,
        response::{FetchRequest, Response},
    },
    storage::Storage,
};
use base::clock::Instant;
use cache::{
    disk::DiskIo,
    object::{self, Large, Object},
};
use http1::head_lines;
use ledger::{
    Promise,
    room::{ROOM_BYTES_MIN, Room},
};
use record::facts::{Handed, SwapOut};

/// Ids of fetches whose bodies are stored in fragments: unique across restarts of a store.
static FETCH_ID: AtomicU64 = AtomicU64::new(0);

/// How a body is stored.
pub enum Storing {
    /// Not at all.
    No,
    /// Kept until complete.
    Whole(Kept),
    /// Cut into fragments.
    Fragments(Kept, Cut),
}

/// The part that is not yet stored.
pub struct Kept {
    place: Place,
    head: Bytes,
    response: Draft,
    pieces: Vec<Bytes>,
    /// The room that all pieces lie in, if there is one.
    room: Option<Room>,
    /// The ledger's promise for bytes that are still to come, or that lie where the ledger does not count them.
    promise: Promise,
    /// The length of the whole body, as promised by the head.
    length: Option<u64>,
    /// There is one piece, and it keeps no more memory than it has bytes.
    is_exact: bool,
    bytes: u64,
    fragment_bytes: u64,
    object_bytes_max: u64,
    to_disk: bool,
    /// May it be stored with holes?
    is_divisible: bool,
    /// The records handed to the store so far.
    swap_out: Option<SwapOut>,
}

/// The numbers of the response that the object needs.
struct Draft {
    status: u16,
    content_type: (u16, u16),
    standing: httpcache::Standing,
    bodiless: bool,
}

/// The progress of cutting a body into fragments.
pub struct Cut {
    fetch_id: u64,
    number: u32,
    stored: u64,
    /// The invalidation sequence of the fragments: that of the fetch, or a later one if a purge came meanwhile.
    began: Sequence,
}

impl Storing {
    /// Decides whether and how a storable response is kept; if not, why not, for Cache-Status.
    pub fn begin(
        storage: &Storage,
        flight: &Flight,
        fetch_request: &FetchRequest,
        response: &Response,
    ) -> Result<Storing, &'static str> {
        let cache = &storage.cache;
        let store = cache.store.of(flight.primary);
        let rule_bytes_max = response.decision.object_bytes_max;
        let length = response.length.unwrap_or(0);
        let record_bytes = || response.stored_bytes(length.min(u64::from(store.fragment_bytes())));
        let admitted = cache.has_disk
            && cache.admits(flight.primary, length)
            && store.policy_takes(|| {
                object::META_FIXED_BYTES as u64 + fetch_request.key.len() as u64 + record_bytes()
            });
        let to_disk = admitted && !store.is_paused(base::clock::unix_ms());
        let (fragment_bytes, object_bytes_max) = if to_disk {
            let of_plan = fetch_request.listener.edition.plan.limits.object_bytes_max;
            let most = of_plan.min(store.object_bytes_max()).min(rule_bytes_max);
            (u64::from(store.fragment_bytes()), most)
        } else {
            let most = cache.memory.object_bytes_max().min(rule_bytes_max);
            (most, most)
        };
        let beside = object::memory_bytes(&response.head, &fetch_request.key);
        let is_too_long = |length: u64| {
            let fits_memory = || cache.memory.admits(length.saturating_add(beside));
            length > object_bytes_max || !(to_disk || fits_memory())
        };
        if response.length.is_some_and(is_too_long) {
            let fits_disk =
                cache.has_disk && length <= rule_bytes_max.min(store.object_bytes_max());
            return Err(match fits_disk {
                true if !admitted => "not-admitted",
                true if !to_disk => "store-paused",
                _ => "too-large",
            });
        }
        // Memory for a body of unknown length is promised as the body arrives.
        let most_kept = response.length.unwrap_or(0).min(fragment_bytes);
        if !storage.has_room_for(most_kept) {
            return Err("no-room");
        }
        let place = Place::of(storage, flight.began, fetch_request, response);
        let Some(place) = place else {
            return Err("vary");
        };
        if let (Some(disk), false) = (&storage.disk, to_disk) {
            // The disk does not take the object, but memory still may.
            let number = disk.number_of_store(place.primary);
            let refused = SwapOut::after(None, Instant::now(), number, Handed::Refused);
            flight.note_swap_out(refused);
        }
        let (head, content_type) = head_to_store(response);
        let mut kept = Kept {
            place,
            head,
            response: Draft {
                status: response.status,
                content_type,
                standing: response.standing,
                bodiless: response.bodiless,
            },
            pieces: Vec::new(),
            room: None,
            promise: storage.ledger.promise(),
            length: response.length,
            is_exact: false,
            bytes: 0,
            fragment_bytes,
            object_bytes_max,
            to_disk,
            // Only determined for a body that may be cut, because it parses two dates.
            is_divisible: (response.length).is_none_or(|bytes| bytes > fragment_bytes)
                && is_divisible(fetch_request, response),
            swap_out: None,
        };
        kept.room = kept.room_of_first(storage);
        if kept.room.is_none() {
            kept.promise.set(most_kept);
        }
        Ok(Storing::Whole(kept))
    }

    /// The room that the next piece of the body is to be received into, if there is one.
    pub fn room(&mut self) -> Option<&mut Room> {
        match self {
            Storing::No => None,
            Storing::Whole(kept) | Storing::Fragments(kept, _) => kept.room.as_mut(),
        }
    }

    /// The key that the object will be found under.
    pub fn key(&self) -> Option<&Bytes> {
        match self {
            Storing::No => None,
            Storing::Whole(kept) | Storing::Fragments(kept, _) => Some(&kept.place.key),
        }
    }

    /// The bytes that the flight must keep for storing.
    pub fn keeping(&self) -> Keeping {
        match self {
            Storing::No => Keeping::Nothing,
            Storing::Whole(_) => Keeping::All,
            Storing::Fragments(kept, _) => Keeping::Fragments {
                bytes: kept.fragment_bytes,
            },
        }
    }

    /// The length so far of a body that goes to the disk in one record.
    pub fn whole_bytes(&self) -> Option<u64> {
        match self {
            Storing::Whole(kept) if kept.to_disk => Some(kept.bytes),
            _ => None,
        }
    }

    /// Takes the next piece of the body. `is_exact`: the piece is the whole body, and keeps no more memory than it has bytes.
    pub fn take(&mut self, storage: &Storage, flight: &Flight, piece: &Bytes, is_exact: bool) {
        let kept = match self {
            Storing::No => return,
            Storing::Whole(kept) | Storing::Fragments(kept, _) => kept,
        };
        kept.pieces.push(piece.clone());
        kept.is_exact = is_exact && kept.pieces.len() == 1;
        kept.bytes += piece.len() as u64;
        if !kept.is_exact && !kept.is_promised(storage, piece) {
            self.give_up(flight);
            return;
        }
        let before = match self {
            Storing::Fragments(_, cut) => cut.stored,
            _ => 0,
        };
        let (Storing::Whole(kept) | Storing::Fragments(kept, _)) = self else {
            return;
        };
        let too_long = before + kept.bytes > kept.object_bytes_max;
        if too_long || (kept.bytes > kept.fragment_bytes && !kept.to_disk) {
            self.give_up(flight);
            return;
        }
        // A full fragment is stored at once only if more is known to follow: a body of unknown length may end here, and be stored whole.
        let is_full = kept.bytes == kept.fragment_bytes
            && kept
                .length
                .is_some_and(|length| length > before + kept.bytes);
        if kept.bytes <= kept.fragment_bytes && !is_full {
            return;
        }
        if let Storing::Whole(_) = self {
            self.begin_cutting(flight);
        }
        self.cut_full_fragments(storage, flight);
    }

    /// The body is complete: publishes the object. `length`: as promised by the head.
    pub fn complete(&mut self, storage: &Storage, flight: &Flight, length: Option<u64>) {
        match std::mem::replace(self, Storing::No) {
            Storing::No => {}
            Storing::Whole(kept) => {
                if length.is_none_or(|l| l == kept.bytes) {
                    kept.publish_whole(storage, flight);
                }
            }
            Storing::Fragments(mut kept, mut cut) => {
                let total = cut.stored + kept.bytes;
                let complete = length.is_none_or(|l| l == total);
                if complete && (kept.bytes == 0 || cut.store(storage, flight, &mut kept)) {
                    kept.publish_large(storage, flight, &cut, cut.stored);
                } else {
                    flight.give_up_storing();
                }
            }
        }
    }

    /// The body has broken off: publishes the stored fragments. `length`: as promised by the head.
    pub fn break_off(&mut self, storage: &Storage, flight: &Flight, length: Option<u64>) {
        if let (Storing::Fragments(kept, cut), Some(length)) =
            (std::mem::replace(self, Storing::No), length)
            && kept.is_divisible
            && (1..length).contains(&cut.stored)
        {
            kept.publish_large(storage, flight, &cut, length);
        }
    }

    fn give_up(&mut self, flight: &Flight) {
        *self = Storing::No;
        flight.give_up_storing();
    }

    fn begin_cutting(&mut self, flight: &Flight) {
        if let Storing::Whole(kept) = std::mem::replace(self, Storing::No) {
            flight.keep_fragments(kept.fragment_bytes);
            let cut = Cut {
                fetch_id: next_fetch_id(),
                number: 0,
                stored: 0,
                began: flight.began,
            };
            *self = Storing::Fragments(kept, cut);
        }
    }

    fn cut_full_fragments(&mut self, storage: &Storage, flight: &Flight) {
        let Storing::Fragments(kept, cut) = self else {
            return;
        };
        while kept.bytes >= kept.fragment_bytes {
            let rest = kept.split_fragment();
            let stored = cut.store(storage, flight, kept);
            kept.bytes = rest.iter().map(|p| p.len() as u64).sum();
            kept.pieces = rest;
            if !stored {
                self.give_up(flight);
                return;
            }
        }
        kept.room = match kept.bytes {
            0 => kept.room_of_fragment(storage, cut.stored),
            _ => None,
        };
        let left = (kept.length).map_or(0, |length| length.saturating_sub(cut.stored + kept.bytes));
        let most = kept.fragment_bytes - kept.bytes;
        (kept.promise).set(if kept.room.is_some() {
            0
        } else {
            left.min(most)
        });
    }
}

impl Kept {
    /// Takes a piece that has arrived off the promise, since the receiver counts it. False: it was not promised and there is no room.
    fn is_promised(&mut self, storage: &Storage, piece: &Bytes) -> bool {
        if self.room.is_some() {
            return true;
        }
        let left = self.promise.bytes().saturating_sub(piece.len() as u64);
        self.promise.set(left);
        self.length.is_some() || storage.has_room_for(0)
    }

    /// Room for the whole body, or for its first fragment.
    fn room_of_first(&self, storage: &Storage) -> Option<Room> {
        let length = self.length.filter(|_| self.to_disk)?;
        match length <= self.fragment_bytes {
            true if length < ROOM_BYTES_MIN => None,
            true => {
                let object = self.object(length, Bytes::new(), None);
                let layout = storage.disk.as_ref()?.layout_of_object(&object, length)?;
                storage.cache.rooms.room(layout, length)
            }
            false => self.room_of_fragment(storage, 0),
        }
    }

    /// Room for the fragment that begins there.
    fn room_of_fragment(&self, storage: &Storage, begin: u64) -> Option<Room> {
        let bytes = self.length?.checked_sub(begin)?.min(self.fragment_bytes);
        let (disk, Place { key, primary, .. }) = (storage.disk.as_ref()?, &self.place);
        let layout = disk.layout_of_fragment(key, *primary, bytes)?;
        storage.cache.rooms.room(layout, bytes)
    }

    /// Leaves exactly one fragment in `pieces` and returns the bytes after it.
    fn split_fragment(&mut self) -> Vec<Bytes> {
        let mut room = self.fragment_bytes as usize;
        let mut at = 0;
        while at < self.pieces.len() && self.pieces[at].len() <= room {
            room -= self.pieces[at].len();
            at += 1;
        }
        let mut rest = self.pieces.split_off(at);
        if room > 0
            && let Some(first) = rest.first_mut()
        {
            self.pieces.push(first.split_to(room));
        }
        self.bytes = self.fragment_bytes;
        rest
    }

    fn object(&self, head_length: u64, body: Bytes, large: Option<Large>) -> Object {
        const NAME: &[u8] = b"Content-Length: ";
        // Allocate exactly the final length, so that no memory is wasted.
        let digits = head_length.max(1).ilog10() as usize + 1;
        let length_line = match self.response.bodiless {
            true => 0,
            false => NAME.len() + digits + b"\r\n".len(),
        };
        let mut head = Vec::with_capacity(self.head.len() + length_line);
        head.extend_from_slice(&self.head);
        if !self.response.bodiless {
            head.extend_from_slice(NAME);
            message::write_decimal(head_length, &mut head);
            head.extend_from_slice(b"\r\n");
        }
        Object {
            key: self.place.key.clone(),
            hash: self.place.hash,
            primary: self.place.primary,
            status: self.response.status,
            standing: self.response.standing,
            content_type: self.response.content_type,
            head: head.into(),
            body,
            large,
        }
    }

    /// Notes a record that was given to the store at `start`.
    fn handed(&mut self, disk: &DiskIo, flight: &Flight, start: Instant, handed: Handed) {
        let store = disk.number_of_store(self.place.primary);
        let out = SwapOut::after(self.swap_out, start, store, handed);
        self.swap_out = Some(out);
        flight.note_swap_out(out);
    }

    fn publish_whole(mut self, storage: &Storage, flight: &Flight) {
        let cache = &storage.cache;
        let mut object = self.object(self.bytes, Bytes::new(), None);
        match &storage.disk {
            Some(disk) if self.to_disk => {
                let start = Instant::now();
                let pieces: Vec<&[u8]> = self.pieces.iter().map(|p| &p[..]).collect();
                let room = self.room.as_mut().filter(|room| room.has_all(self.bytes));
                let handed = disk.store_object(&object, &pieces, room, flight.began);
                self.handed(disk, flight, start, handed);
                cache.take_back_hidden(&object);
            }
            Some(disk) => disk.forget(&object),
            None => {}
        }
        // The older version in memory must go, even if the new one is too large for memory.
        let cost = object.memory_bytes() + self.bytes;
        if !cache.memory.admits(cost) {
            cache.memory.remove(object.hash);
            return;
        }
        if !cache.still_valid(&object, flight.began) && !cache.is_purged(&object, flight.began) {
            // The fetch took so long that a purge meanwhile cannot be ruled out. The older version is out of date in any
            // case.
            cache.memory.remove(object.hash);
            return;
        }
        let room = self.room.take().filter(|room| room.has_all(self.bytes));
        object.body = match self.pieces.pop() {
            _ if let Some(room) = room => room.into_body(),
            Some(piece) if self.is_exact && self.pieces.is_empty() => piece,
            last => {
                // Copy, so that the object keeps no partly filled read buffer alive.
                self.pieces.extend(last);
                self.pieces.concat().into()
            }
        };
        cache
            .memory
            .insert(object, |object| cache.may_publish(object, flight.began));
    }

    /// Publishes the head of a body whose first fragments (or all of them) are stored. `length` is that of the whole body.
    fn publish_large(mut self, storage: &Storage, flight: &Flight, cut: &Cut, length: u64) {
        let fragments = u32::try_from(length.div_ceil(self.fragment_bytes));
        let (Ok(fragments), false) = (fragments, cut.is_overtaken(flight)) else {
            return;
        };
        let large = Large {
            fetch_id: cut.fetch_id,
            fragments,
            bytes: length,
        };
        let object = self.object(length, Bytes::new(), Some(large));
        if let Some(disk) = &storage.disk {
            let start = Instant::now();
            let handed = disk.store_object(&object, &[], None, flight.began);
            self.handed(disk, flight, start, handed);
            storage.cache.take_back_hidden(&object);
        }
        storage.cache.memory.remove(object.hash);
    }
}

impl Cut {
    /// Did a purge come after the fetch began? Then the fragments are for the readers of this fetch only.
    fn is_overtaken(&self, flight: &Flight) -> bool {
        self.began != flight.began
    }

    fn store(&mut self, storage: &Storage, flight: &Flight, kept: &mut Kept) -> bool {
        let Some(disk) = &storage.disk else {
            return false;
        };
        let start = Instant::now();
        let Place { key, primary, .. } = &kept.place;
        let pieces: Vec<&[u8]> = kept.pieces.iter().map(|p| &p[..]).collect();
        let fragment = Fragment {
            fetch_id: self.fetch_id,
            number: self.number,
        };
        let mut room = kept.room.take().filter(|room| room.has_all(kept.bytes));
        let mut put =
            |began| disk.store_fragment(key, *primary, fragment, (&pieces, room.as_mut()), began);
        let mut handed = put(self.began);
        if !handed.is_stored() && flight.readers() > 1 {
            // These readers joined before the purge, and one of them may lag. No head will lead other requests to these
            // fragments.
            let store = &storage.cache.store;
            let is_purged = store.invalidated_since(*primary, self.began)
                || store.predicates_since(*primary, self.began);
            if is_purged {
                let began = store.sequence(*primary);
                handed = put(began);
                self.began = began;
                flight.store_for_readers();
            }
        }
        let stored = handed.is_stored();
        if stored {
            self.number += 1;
            self.stored += kept.bytes;
            flight.note_stored(self.stored, &kept.place.key, self.fetch_id);
        }
        kept.handed(disk, flight, start, handed);
        stored
    }
}

/// Status line and fields as they are stored, and where the value of Content-Type lies.
//= rfc9111 §3.1   trailers are not stored: nothing says then that they follow
fn head_to_store(response: &Response) -> (Bytes, (u16, u16)) {
    if !response.fields.contains(b"trailer") {
        return (response.head.clone(), response.content_type);
    }
    let mut fields = response.fields.clone();
    fields.remove(b"trailer");
    let mut head = Vec::with_capacity(response.head.len());
    let reason = message::reason_phrase(response.status);
    let content_type = head_lines::write_head(response.status, reason, &fields, &mut head);
    (head.into(), content_type)
}

/// May the body be stored with holes: can later parts be proven to be of the same version, and does no check need the whole body?
fn is_divisible(fetch_request: &FetchRequest, response: &Response) -> bool {
    //= rfc9111 §3.4   only if they all share the same strong validator
    response.status == 200
        && httpcache::has_strong_validator(&response.fields)
        // A digest can be checked only at the end of the body.
        && fetch_request.asked.mirror.is_none()
        //= rfc9111 §3.5   a response to a request with Authorization is not combined with parts for all
        && !fetch_request.request.contains(b"authorization")
}

/// A new id: the start time in the upper bits, a counter in the lower, so that no restart repeats one.
pub fn next_fetch_id() -> u64 {
    (base::clock::unix_ms() << 22) ^ base::chance::count(&FETCH_ID)
}
