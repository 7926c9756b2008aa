//! The store as a whole: its figures, and every invariant. Each goes through all parts.

use crate::evict::need;
use crate::evict::room::Room;
use crate::figures::Figures;
use crate::lock::lock;
use crate::store::Store;
use extent::{Extent, Unified};
use std::sync::atomic::Ordering;

impl Store {
    /// How many records can be looked up, and how many bytes of the data area they take. Waits for no background work.
    pub fn held(&self) -> (u64, u64) {
        let (mut records, mut chunks) = (0, 0);
        for number in 0..self.shards.len() {
            let shard = self.shard(number);
            records += shard.len() as u64;
            chunks += shard.index.chunks();
        }
        (records, chunks * u64::from(self.geometry.chunk_bytes))
    }

    /// The state of the store now, and counts of its work.
    pub fn figures(&self) -> Figures {
        let mut figures = self.counters.read();
        let never_written;
        {
            let background = self.background();
            let mut writer = self.writer();
            let mut ahead = 0;
            match &writer.room {
                Room::Hand(hand) => ahead = hand.chunks_ahead(),
                Room::Book(_) => self.reclaim(&mut writer),
            }
            let space = &writer.space;
            let free = u64::from(space.free_chunks().0);
            never_written = match &writer.room {
                Room::Hand(hand) => hand.chunks_never_written(&background.journal, free),
                Room::Book(_) => free,
            };
            figures.total_chunks = u64::from(space.total().0);
            figures.ready_chunks = u64::from(space.free_chunks().0) + ahead;
            figures.free_pieces = space.pieces() as u64;
            figures.largest_free_chunks = space.largest().map_or(0, |piece| u64::from(piece.len.0));
            figures.space_bytes = space.memory_bytes() as u64;
        }
        figures.chunk_bytes = u64::from(self.geometry.chunk_bytes);
        figures.needed_bytes = self.needed_bytes.load(Ordering::Relaxed);
        figures.gathered_bytes = self.gathered_bytes.load(Ordering::Relaxed) as u64;
        {
            let predicates = lock(&self.predicates);
            figures.predicates = predicates.len() as u64;
            figures.predicates_percent = predicates.percent_taken();
            figures.predicates_bytes = predicates.memory_bytes() as u64;
        }
        figures.clusters_in_flight = lock(&self.flights).len() as u64;
        for number in 0..self.shards.len() {
            let shard = self.shard(number);
            figures.records += shard.len() as u64;
            figures.markers += shard.index.markers() as u64;
            figures.reads_pinned += shard.pins() as u64;
            figures.index_bytes += shard.memory_bytes() as u64;
            figures.live_bytes += shard.index.chunks();
        }
        // The figures are read one after the other while others write; saturate where they do not add up for a
        // moment.
        let chunks = [figures.live_bytes, never_written];
        let dead = chunks
            .iter()
            .fold(figures.total_chunks, |all, part| all.saturating_sub(*part));
        figures.live_bytes *= figures.chunk_bytes;
        figures.dead_bytes = dead * figures.chunk_bytes;
        figures.never_written_bytes = never_written * figures.chunk_bytes;
        figures
    }

    /// Checks every invariant in full; for tests and simulation. Stops all threads meanwhile.
    ///
    /// # Errors
    /// The invariant that does not hold.
    pub fn audit(&self) -> Result<(), String> {
        let writer = self.writer();
        let shards: Vec<_> = (0..self.shards.len())
            .map(|number| self.shard(number))
            .collect();
        let flights = lock(&self.flights);
        let freed = lock(&self.freed);
        writer.space.audit()?;
        Self::audit_gathered(&writer, &shards)?;
        let sums = shards.iter().map(|shard| need::sums(&shard.needed));
        self.audit_needed(sums.fold((0, 0), |(a, b), (c, d)| (a + c, b + d)))?;
        // All extents in use; no two of them may overlap.
        let mut used: Vec<Extent> = freed.clone();
        used.extend(writer.open.iter().filter_map(|open| open.tail()));
        used.extend(&writer.protected.owed);
        for shard in &shards {
            shard.audit()?;
            used.extend(shard.held_extents());
            for entry in shard.entries() {
                let extent = entry.extent();
                used.push(extent);
                let buffered = flights.iter().any(|flight| flight.extent.covers(extent))
                    || writer.open.iter().any(|open| open.covers(extent));
                if entry.is_writing() && !buffered {
                    return Err(format!("{extent} is being written, but by no cluster"));
                }
            }
        }
        let rebuilt = Unified::from_used(writer.space.total(), used.iter().copied())
            .map_err(|e| e.to_string())?;
        match &writer.room {
            // Space without records that the allocator does not have is dead, or ahead of the writer.
            Room::Hand(hand) => {
                if let Some(extent) = used.iter().find(|extent| !writer.space.is_used(**extent)) {
                    return Err(format!("{extent} is in use, and free for the allocator"));
                }
                for region in hand.empty_regions() {
                    let region = hand.grid.extent(region..region + 1);
                    let inhabitant = shards
                        .iter()
                        .flat_map(|shard| shard.entries())
                        .find(|entry| region.overlaps(entry.extent()));
                    if let Some(entry) = inhabitant {
                        return Err(format!(
                            "{} lies in the region {region}, which is to be used again",
                            entry.extent()
                        ));
                    }
                }
            }
            Room::Book(_) => {
                let bad = lock(&self.bad).clone();
                let takes = self.open_for_records.load(Ordering::SeqCst);
                if takes && bad.is_empty() && rebuilt.free_pieces() != writer.space.free_pieces() {
                    return Err("the allocator's used chunks are not those of the records".into());
                }
            }
        }
        Ok(())
    }
}
