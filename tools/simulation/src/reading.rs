//! Look-ups: a record is found, read, verified and served, as in a proxy.
//!
//! A record on disk takes a read, and anything may happen until that ends. Then, in this order: verify, end the read, ask whether its
//! primary was invalidated meanwhile (a variant or fragment is not the primary's own record, so ending its read does not tell),
//! compare the key. Only a record that passes all is served, and then checked.
//!
//! Variants are reached only through their marker, fragments only through their head record.
//!
//! Every other read extends beyond its record. A companion is published, as in a proxy, if it is a primary's own record and was not
//! invalidated since the look-up. It is then checked like a requested record.

use std::ops::Range;

use bytes::Bytes;
use store::{Companion, KeyHash, Lookup, Marker, Read, RecordParts, Renewal, Sequence};

use crate::check::{self, Served};
use crate::disk::Op;
use crate::run::{Run, Tag};
use crate::simulated_store::NotServed;
use crate::world::FullKey;

/// Most bytes of an extended read.
const REACH_BYTES: usize = 64 << 10;

/// A read under way.
#[derive(Debug)]
pub(crate) struct Reading {
    full_key: FullKey,
    read: Read,
    looked_up: Sequence,
}

/// The result of a look-up that need not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Served,
    Missed,
}

impl Run {
    /// A look-up; if it needs a read, the read takes time.
    pub fn look_up(&mut self, full_key: FullKey) -> Result<(), String> {
        let hash = self.hash_of(full_key)?;
        let looked_up = self.store()?.sequence();
        match self.store()?.look_up(hash) {
            Lookup::Absent => {
                self.report.misses += 1;
                self.about(full_key, || "absent".into());
            }
            Lookup::Buffered(bytes) => {
                self.buffered(full_key, hash, &bytes)?;
            }
            Lookup::OnDisk(read) => {
                let wanted = if looked_up.is_multiple_of(2) {
                    REACH_BYTES
                } else {
                    0
                };
                let len = self.store()?.reach(&read, wanted);
                let op = Op::Read {
                    offset: read.offset,
                    len,
                };
                let reading = Reading {
                    full_key,
                    read,
                    looked_up,
                };
                let mistakable = match len == reading.read.len {
                    true => self.older_copy(full_key, &reading.read),
                    false => None,
                };
                let tag = Tag::Reading(Box::new(reading));
                self.disk
                    .submit_mistakable(tag, op, self.now_ms, mistakable)?;
            }
        }
        Ok(())
    }

    /// A place where an older record with the same key and length was written, and may still lie.
    fn older_copy(&mut self, full_key: FullKey, read: &Read) -> Option<u64> {
        let versions = &self.world.full_keys[full_key as usize].versions;
        let copies = versions
            .iter()
            .flat_map(|&version| &self.world.versions[version as usize].copies);
        let same_length = |range: &Range<u64>| range.end - range.start == read.len as u64;
        let older: Vec<u64> = copies
            .map(|copy| copy.range.clone())
            .filter(|range| range.start != read.offset && same_length(range))
            .map(|range| range.start)
            .collect();
        (!older.is_empty()).then(|| self.random.pick(&older))
    }

    /// A look-up that completes at once, on a disk without faults.
    pub fn look_up_now(&mut self, full_key: FullKey) -> Result<Answer, String> {
        let hash = self.hash_of(full_key)?;
        let looked_up = self.store()?.sequence();
        match self.store()?.look_up(hash) {
            Lookup::Absent => {
                self.report.misses += 1;
                Ok(Answer::Missed)
            }
            Lookup::Buffered(bytes) => self.buffered(full_key, hash, &bytes),
            Lookup::OnDisk(read) => {
                let range = read.offset..read.offset + read.len as u64;
                let bytes = Bytes::copy_from_slice(self.disk.peek(range));
                let reading = Reading {
                    full_key,
                    read,
                    looked_up,
                };
                self.end_reading(reading, Ok(Some(bytes)), false)
            }
        }
    }

    /// The read of a look-up has ended.
    pub fn end_reading(
        &mut self,
        reading: Reading,
        result: Result<Option<Bytes>, ()>,
        spoiled: bool,
    ) -> Result<Answer, String> {
        let Reading {
            full_key,
            read,
            looked_up,
        } = reading;
        let hash = read.hash();
        let Ok(Some(bytes)) = result else {
            self.store()?.read_failed(read);
            self.world.forgotten(full_key);
            self.about(full_key, || "read failed".into());
            self.report.misses += 1;
            return Ok(Answer::Missed);
        };
        let (offset, renewal) = (read.offset, read.renewal());
        let own = bytes.slice(..read.len.min(bytes.len()));
        let decoded = self.store()?.decode_read(&own, &read);
        let is_whole_fragment = matches!(&decoded, Ok(parts) if parts.fragment.is_some());
        self.check_parts(full_key, &own, &read, is_whole_fragment)?;
        let companions = self.store()?.companions(&bytes, &read);
        let may_serve = self.store()?.read_done(read);
        let primary = self.primary_of(full_key)?;
        let overtaken = self.store()?.invalidated_since(primary, looked_up);
        for companion in companions {
            self.came_along(&companion, looked_up)?;
        }
        match decoded {
            Err(NotServed::Dead | NotServed::OtherKey) => {
                self.report.misses += 1;
                Ok(Answer::Missed)
            }
            Err(NotServed::Corrupt(why)) => {
                self.report.unverified += 1;
                self.about(full_key, || format!("at {offset} does not verify: {why}"));
                self.store()?.forget(hash);
                self.world.forgotten(full_key);
                self.say(format!(
                    "{} at {offset} does not verify: {}",
                    self.key_text(full_key),
                    why
                ));
                if !spoiled && may_serve {
                    let damages = self.disk.damages();
                    let recovering = self.store()?.recovery().is_some();
                    let place = recovering.then_some(offset);
                    check::unverified(&self.world, damages, full_key, place, &why)
                        .or_else(|message| self.waive(message))?;
                }
                Ok(Answer::Missed)
            }
            Ok(_) if !may_serve || overtaken => {
                self.report.misses += 1;
                Ok(Answer::Missed)
            }
            Ok(parts) => {
                let answer = self.serve(full_key, hash, &parts)?;
                self.renew(renewal, &parts)?;
                Ok(answer)
            }
        }
    }

    /// A fragment can also be read by its front and parts of its body. Parts that verify must be those that were stored, even if the rest of
    /// the record is damaged.
    fn check_parts(
        &mut self,
        full_key: FullKey,
        bytes: &Bytes,
        read: &Read,
        is_whole_fragment: bool,
    ) -> Result<(), String> {
        let Some((front, body)) = self.store()?.body_by_parts(bytes, read) else {
            return match is_whole_fragment {
                true => Err("R4: the parts of a whole fragment do not verify".into()),
                false => Ok(()),
            };
        };
        self.report.by_parts += 1;
        let served = Served {
            key: &front.key,
            meta: &front.meta,
            body: &body,
            doubted: true,
        };
        let checked = check::served(&self.world, self.disk.damages(), full_key, served, false);
        match checked {
            // Whether the record may be served is checked with the whole record.
            Err(message) if message.starts_with("R1") => self.waive(message),
            _ => Ok(()),
        }
    }

    /// A companion: a record that was read along with another one.
    fn came_along(&mut self, companion: &Companion, looked_up: Sequence) -> Result<(), String> {
        let parts = &companion.parts;
        let is_own = companion.hash == parts.primary && parts.total.is_none();
        if !is_own
            || self.store()?.marker(parts.primary).is_some()
            || self.store()?.invalidated_since(parts.primary, looked_up)
        {
            return Ok(());
        }
        let full_key = self.world.known(&parts.key);
        let full_key = full_key.ok_or("R1: what nobody ever stored came along with a read")?;
        self.report.came_along += 1;
        self.serve(full_key, companion.hash, parts)?;
        self.renew(companion.renewal, parts)
    }

    /// Renews a record that was read in the window in front of the hand.
    fn renew(&mut self, renewal: Option<Renewal>, parts: &RecordParts) -> Result<(), String> {
        if let Some(renewal) = renewal {
            let inserted = self.store()?.renew(renewal, parts, self.now_ms);
            self.submit_writes(inserted.writes)?;
        }
        Ok(())
    }

    fn buffered(
        &mut self,
        full_key: FullKey,
        hash: KeyHash,
        bytes: &Bytes,
    ) -> Result<Answer, String> {
        match self.store()?.decode(bytes, hash) {
            Ok(parts) => self.serve(full_key, hash, &parts),
            Err(NotServed::Dead | NotServed::OtherKey) => {
                self.report.misses += 1;
                Ok(Answer::Missed)
            }
            Err(NotServed::Corrupt(why)) => Err(format!(
                "R4: {} does not verify in its buffer: {}",
                self.key_text(full_key),
                why
            )),
        }
    }

    fn serve(
        &mut self,
        full_key: FullKey,
        hash: KeyHash,
        parts: &RecordParts,
    ) -> Result<Answer, String> {
        if *parts.key != *self.world.full_keys[full_key as usize].key {
            // Two keys with one hash. That is practically impossible, so this record is forged.
            self.store()?.forget(hash);
        }
        let served = Served {
            key: &parts.key,
            meta: &parts.meta,
            body: &parts.body,
            // A fragment is reached through its head, which is checked for this.
            doubted: parts.doubted || parts.fragment.is_some(),
        };
        let knows_all = self.choice.fills_in_turn() && self.store()?.recovery().is_none();
        let damages = self.disk.damages();
        let number = match check::served(&self.world, damages, full_key, served, knows_all) {
            Ok(number) => number,
            Err(message) => {
                self.waive(message)?;
                return Ok(Answer::Missed);
            }
        };
        self.report.compared += 1;
        self.about(full_key, || format!("version {number} served"));
        self.tell("served", u64::from(full_key), u64::from(number));
        if let Some(total) = parts.total {
            return self.serve_fragments(full_key, total.fetch_id, total.fragments);
        }
        Ok(Answer::Served)
    }

    fn serve_fragments(
        &mut self,
        head: FullKey,
        fetch_id: u64,
        fragments: u32,
    ) -> Result<Answer, String> {
        let full = &self.world.full_keys[head as usize];
        let (name, primary) = (full.key.clone(), full.primary);
        for number in 0..fragments {
            let key = fragment_key(&name, fetch_id, number);
            let fragment = self.world.full_key(&key, primary, false);
            if self.look_up_now(fragment)? == Answer::Missed {
                return Ok(Answer::Missed);
            }
        }
        Ok(Answer::Served)
    }

    /// Looks up a variant as a proxy does.
    pub fn look_up_variant(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let hash = self.store()?.hash(&self.name(key));
        if let Some(marker) = self.store()?.marker(hash) {
            let full_key = self.any_variant(key, &marker);
            self.look_up(full_key)?;
        }
        Ok(())
    }

    /// A random variant to which a marker leads.
    pub fn any_variant(&mut self, key: u32, marker: &Marker) -> FullKey {
        let value = self.random.below(3);
        let name = variant_key(&self.name(key), marker.salt, value);
        (self.world).variant(&name, key, marker.salt, &marker.list)
    }

    /// Whether it can be found. A variant only if its resource has the marker under which it was stored.
    pub fn is_in_reach(&self, full_key: FullKey) -> Result<bool, String> {
        let full = &self.world.full_keys[full_key as usize];
        let Some((salt, _)) = full.salt else {
            return Ok(true);
        };
        let marker = self.store()?.marker(self.primary_of(full_key)?);
        Ok(marker.is_some_and(|marker| marker.salt == salt))
    }

    /// Sets the list of a variant to that of the marker that leads to it now.
    pub fn ask_by_marker(&mut self, full_key: FullKey) -> Result<(), String> {
        let marker = self.store()?.marker(self.primary_of(full_key)?);
        let full = &mut self.world.full_keys[full_key as usize];
        if let (Some((_, list)), Some(marker)) = (&mut full.salt, marker) {
            *list = (*marker.list).into();
        }
        Ok(())
    }

    pub fn hash_of(&self, full_key: FullKey) -> Result<KeyHash, String> {
        Ok(self
            .store()?
            .hash(&self.world.full_keys[full_key as usize].key))
    }

    fn primary_of(&self, full_key: FullKey) -> Result<KeyHash, String> {
        let primary = self.world.full_keys[full_key as usize].primary;
        Ok(self.store()?.hash(&self.name(primary)))
    }

    pub fn key_text(&self, full_key: FullKey) -> String {
        self.world.full_keys[full_key as usize]
            .key
            .escape_ascii()
            .to_string()
    }
}

/// The full key of a fragment.
pub(crate) fn fragment_key(name: &[u8], fetch_id: u64, number: u32) -> Vec<u8> {
    [name, &fetch_id.to_le_bytes(), &number.to_le_bytes()].concat()
}

/// The full key of a variant. The list is not in it, so that a salt with two lists is noticed.
fn variant_key(name: &[u8], salt: u64, value: u64) -> Vec<u8> {
    [name, &salt.to_le_bytes(), &[value as u8]].concat()
}
