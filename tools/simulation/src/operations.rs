//! Random operations of a proxy on a store: fills, invalidations, closing clusters.
//!
//! Not known here: reading (`reading`), ends of life (`crash`).

use store::{Fragment, Lookup, Marker, NewRecord, ObjectTotal, Outcome, Sequence};

use crate::hostile::{self, Guess};
use crate::reading::fragment_key;
use crate::run::{Fill, Run};
use crate::world::{Content, FullKey, PREFIX, SOFT_TAG, TAG, TAGS, Target};

/// Most fetches under way.
const FILLS_MAX: usize = 12;

/// A record to be inserted.
#[derive(Debug)]
struct Incoming {
    full_key: FullKey,
    sequence: Sequence,
    began: u64,
    content: Content,
    fragment: Option<Fragment>,
    total: Option<ObjectTotal>,
}

impl Run {
    /// One random operation.
    pub fn operate(&mut self) -> Result<(), String> {
        match self.random.below(200) {
            0..52 => self.put_now(),
            52..66 => self.begin_fill(),
            66..82 => self.end_fill(),
            82..130 => {
                let key = self.any_key();
                let full_key = self.plain(key);
                self.look_up(full_key)
            }
            130..138 => self.put_variant(),
            138..148 => self.look_up_variant(),
            148..160 => {
                let key = self.any_key();
                self.invalidate(key)
            }
            160..162 => self.invalidate_matching(),
            162 => self.crowd_predicates(),
            163 => self.doubt(),
            164..168 => self.unsafe_method(),
            168..172 => self.put_in_fragments(),
            172..176 => self.put_hostile(),
            176..184 => self.not_modified(),
            184..186 => self.forget(),
            186..188 => {
                let write = self.store()?.flush();
                self.submit_writes(write)
            }
            188..196 => {
                let write = self.store()?.tick(self.now_ms);
                self.submit_writes(write)
            }
            196 | 197 => self.need_or_release(),
            _ => {
                self.now_ms += self.random.below(20);
                Ok(())
            }
        }
    }

    fn put_now(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        let content = self.any_content();
        self.put_plain(key, sequence, began, content)
    }

    fn put_plain(
        &mut self,
        key: u32,
        sequence: Sequence,
        began: u64,
        content: Content,
    ) -> Result<(), String> {
        let full_key = self.plain(key);
        self.put_at_once(full_key, sequence, began, content)
    }

    fn put_at_once(
        &mut self,
        full_key: FullKey,
        sequence: Sequence,
        began: u64,
        content: Content,
    ) -> Result<(), String> {
        let incoming = Incoming {
            full_key,
            sequence,
            began,
            content,
            fragment: None,
            total: None,
        };
        self.put(incoming).map(|_| ())
    }

    fn put(&mut self, incoming: Incoming) -> Result<Outcome, String> {
        let Incoming {
            full_key,
            sequence,
            began,
            content,
            fragment,
            total,
        } = incoming;
        let tag = self.random.below(u64::from(TAGS)) as u8;
        let number = self.world.hand_in(full_key, began, content, tag);
        let full = &self.world.full_keys[full_key as usize];
        let version = &self.world.versions[number as usize];
        let body = version.content.bytes();
        let body_bytes = body.len() as u64;
        // In two pieces, as from a network.
        let (front, rear) = body.split_at(body.len() / 3);
        let store = self.store()?;
        let record = NewRecord {
            hash: store.hash(&full.key),
            primary: store.hash(&self.name(full.primary)),
            key: &full.key,
            meta: &version.meta,
            body: &[front, rear],
            fragment,
            total,
            began: sequence,
            server: u64::from(full.primary) % self.habits.hosts,
        };
        let in_recovery = store.recovery().is_some();
        let inserted = store.insert(&record, self.now_ms);
        self.report.no_space += u64::from(inserted.outcome == Outcome::NoSpace);
        if inserted.outcome == Outcome::Stored {
            self.world.taken(number, sequence, in_recovery);
            self.report.stored += 1;
            self.report.stored_bytes += body_bytes;
            self.about(full_key, || {
                format!("version {number} stored, recovering {in_recovery}")
            });
            self.tell("stored", u64::from(full_key), u64::from(number));
        } else {
            self.say(format!(
                "{} version {number}: {:?}",
                self.key_text(full_key),
                inserted.outcome
            ));
        }
        self.submit_writes(inserted.writes)?;
        Ok(inserted.outcome)
    }

    fn begin_fill(&mut self) -> Result<(), String> {
        if self.fills.len() >= FILLS_MAX {
            return self.end_fill();
        }
        let key = self.any_key();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        let marker = match self.random.one_in(4) {
            true => self.any_marker(key, sequence)?,
            false => None,
        };
        self.fills.push(Fill {
            key,
            marker,
            sequence,
            began,
        });
        Ok(())
    }

    fn end_fill(&mut self) -> Result<(), String> {
        if self.fills.is_empty() {
            return Ok(());
        }
        let at = self.random.index(self.fills.len());
        let fill = self.fills.swap_remove(at);
        let full_key = match &fill.marker {
            Some(marker) => self.any_variant(fill.key, marker),
            None => self.plain(fill.key),
        };
        let content = self.any_content();
        self.put_at_once(full_key, fill.sequence, fill.began, content)
    }

    fn any_content(&mut self) -> Content {
        let mean = self.habits.mean_body;
        let len = match self.random.below(40) {
            0 | 1 => 0,
            2..16 => self.random.below(1500),
            16..38 => self.random.below(2 * mean),
            38 => self.random.below(8 * mean),
            _ => self.random.below(self.habits.large_body),
        };
        Content::random(len as usize, &mut self.random)
    }

    fn put_variant(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        let Some(marker) = self.any_marker(key, sequence)? else {
            return Ok(());
        };
        let full_key = self.any_variant(key, &marker);
        let content = self.any_content();
        self.put_at_once(full_key, sequence, began, content)
    }

    /// Sets a marker, mostly the present one; sometimes with more in its list, and rarely until its salts are used up.
    fn any_marker(&mut self, key: u32, sequence: Sequence) -> Result<Option<Marker>, String> {
        let list: &[u8] = self.random.pick(&[b"accept", b"accept", b"cookie"]);
        let hash = self.store()?.hash(&self.name(key));
        if let Some(present) = self.store()?.marker(hash)
            && self.random.one_in(2)
        {
            if self.random.one_in(4) {
                return Ok(Some(present));
            }
            let family = present.list.split(|&byte| byte == b'+').next();
            let more = [
                family.unwrap_or_default(),
                b"+",
                &[self.random.below(4) as u8],
            ]
            .concat();
            return Ok(self.store()?.resume_marker(hash, present.salt, &more));
        }
        // With another policy, variants of an earlier era stay for as long as they may, and would hide later ones (R5).
        if self.random.one_in(400) && self.choice.fills_in_turn() {
            for n in 0..1 << 16 {
                let other = [b"a", b"b"][n % 2];
                self.store()?.set_marker(hash, other, sequence);
            }
        }
        Ok(self.store()?.set_marker(hash, list, sequence))
    }

    /// An object larger than a cluster: its fragments, and then its head, if the fragments were stored.
    fn put_in_fragments(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        let fetch_id = self.next_fetch;
        self.next_fetch += 1;
        let fragments = 2 + self.random.below(3) as u32;
        let mut bytes = 0;
        for number in 0..fragments {
            let name = fragment_key(&self.name(key), fetch_id, number);
            let full_key = self.world.full_key(&name, key, false);
            let len = self.random.below(self.habits.large_body / 2) as usize;
            bytes += len as u64;
            let content = Content::random(len, &mut self.random);
            let fragment = Some(Fragment { fetch_id, number });
            let incoming = Incoming {
                full_key,
                sequence,
                began,
                content,
                fragment,
                total: None,
            };
            if self.put(incoming)? != Outcome::Stored {
                return Ok(());
            }
            // Sometimes another operation comes in between.
            match self.random.below(20) {
                0 => self.invalidate(key)?,
                1 => return Ok(()),
                _ => (),
            }
        }
        let full_key = self.plain(key);
        let total = Some(ObjectTotal {
            fetch_id,
            fragments,
            bytes,
        });
        let incoming = Incoming {
            full_key,
            sequence,
            began,
            content: Content::random(0, &mut self.random),
            fragment: None,
            total,
        };
        self.put(incoming).map(|_| ())
    }

    /// A body that looks like records. A small record before it tells where it will lie.
    fn put_hostile(&mut self) -> Result<(), String> {
        if !self.habits.hostile {
            return Ok(());
        }
        let probe = self.any_key();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        let content = Content::random(64, &mut self.random);
        self.put_plain(probe, sequence, began, content)?;
        let hash = self.store()?.hash(&self.name(probe));
        let bytes = match self.store()?.look_up(hash) {
            Lookup::Buffered(bytes) => bytes,
            Lookup::OnDisk(read) => {
                let _ = self.store()?.read_done(read);
                return Ok(());
            }
            Lookup::Absent => return Ok(()),
        };
        let key = self.any_key();
        let number = self.world.versions.len();
        let guess = Guess {
            first: hostile::behind(&bytes).unwrap_or(0),
            before_body: store::HEADER_BYTES
                + self.name(key).len()
                + crate::world::meta_bytes(number as u32),
        };
        let len = self.random.below(self.habits.mean_body * 4) as usize;
        let body = self
            .samples
            .body(guess, len, &self.geometry, &mut self.random);
        let Some(body) = body else {
            return Ok(());
        };
        self.say(format!("{} bytes of forgeries", body.len()));
        self.put_plain(key, sequence, began, Content::Own(body))
    }

    /// A 304: the same body with new metadata.
    fn not_modified(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let full_key = self.plain(key);
        let Some(newest) = self.world.newest(full_key) else {
            return Ok(());
        };
        let content = self.world.versions[newest as usize].content.clone();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        if matches!(content, Content::Own(_)) {
            return Ok(());
        }
        self.put_plain(key, sequence, began, content)
    }

    pub fn invalidate(&mut self, key: u32) -> Result<(), String> {
        let number = self.world.invalidate(Target::Primary(key));
        let full_key = self.plain(key);
        self.about(full_key, || format!("invalidation {number}"));
        let hash = self.store()?.hash(&self.name(key));
        let handle = match number % 2 {
            0 => self.store()?.invalidate(hash),
            _ => self.store()?.invalidate_stored(hash),
        };
        self.report.invalidations += 1;
        self.handles.push((handle, number));
        self.tell("invalidation of key", u64::from(number), u64::from(key));
        Ok(())
    }

    fn invalidate_matching(&mut self) -> Result<(), String> {
        if !self.habits.predicates {
            return Ok(());
        }
        let (kind, pattern) = if self.random.one_in(2) {
            let kind = self.random.pick(&[TAG, SOFT_TAG]);
            (kind, vec![self.random.below(u64::from(TAGS)) as u8])
        } else {
            let host = self.random.below(self.habits.hosts);
            let digit = self.random.below(10);
            (
                PREFIX,
                format!("http://h{host}.example/{digit}").into_bytes(),
            )
        };
        let Some(handle) = self.store()?.invalidate_matching(kind, &pattern) else {
            return Ok(());
        };
        let target = Target::Predicate(kind, pattern.into());
        let number = self.world.invalidate(target);
        self.report.invalidations += 1;
        self.report.predicates += 1;
        self.handles.push((handle, number));
        let target = &self.world.invalidations[number as usize].target;
        self.say(format!("invalidation {number} of {target:?}"));
        Ok(())
    }

    /// A soft purge of one key.
    pub fn doubt(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let number = self.world.invalidate(Target::Soft(key));
        let full_key = self.plain(key);
        self.about(full_key, || format!("soft purge {number}"));
        let hash = self.store()?.hash(&self.name(key));
        let handle = self.store()?.doubt(hash);
        self.report.invalidations += 1;
        self.handles.push((handle, number));
        self.tell("soft purge of key", u64::from(number), u64::from(key));
        Ok(())
    }

    /// Many purges by tags that no record has, so that the store has to weed.
    fn crowd_predicates(&mut self) -> Result<(), String> {
        if !self.habits.predicates {
            return Ok(());
        }
        let mut taken = 0;
        for _ in 0..20 + self.random.below(100) {
            let pattern = [&[255], &self.random.number().to_le_bytes()[..]].concat();
            taken += u64::from(self.store()?.invalidate_matching(TAG, &pattern).is_some());
        }
        self.report.predicates += taken;
        self.tell("purges by tags that nothing has", taken, 0);
        Ok(())
    }

    /// A POST while a GET of the same key is under way, and a GET after it.
    fn unsafe_method(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let (sequence, began) = (self.store()?.sequence(), self.world.begin());
        let full_key = self.plain(key);
        self.look_up(full_key)?;
        self.invalidate(key)?;
        let content = self.any_content();
        self.put_plain(key, sequence, began, content)?;
        self.look_up(full_key)
    }

    fn forget(&mut self) -> Result<(), String> {
        let key = self.any_key();
        let hash = self.store()?.hash(&self.name(key));
        self.store()?.forget(hash);
        let full_key = self.plain(key);
        self.world.forgotten(full_key);
        self.about(full_key, || "forgotten".into());
        self.tell("forgotten", u64::from(key), 0);
        Ok(())
    }
}
