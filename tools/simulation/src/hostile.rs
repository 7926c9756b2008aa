//! Bodies that look like records.
//!
//! An origin may send anything. Here it even knows what lies on the disk (in reality it cannot): its bodies contain real records of other
//! keys, of this epoch and of earlier ones, intact or with changed fields, one at each chunk. A scan that looks at every chunk
//! therefore meets them. The origin does not know the secret, so a changed header has the MAC of the unchanged one.
//!
//! Not known here: where the record will lie; the driver guesses that from the previous record.
//! Limits: [`SAMPLES_MAX`] records are kept for later bodies.

use bytes::Bytes;
use store::layout::{Field, record, record_marker};
use store::{Geometry, HEADER_BYTES};

use crate::random::Random;

const EPOCH: usize = place_of(record::FIELDS, "EPOCH");
const FIRST: usize = place_of(record::FIELDS, "FIRST");
const CHUNKS: usize = place_of(record::FIELDS, "CHUNKS");
const SEQUENCE: usize = place_of(record::FIELDS, "SEQUENCE");
const BEGAN: usize = place_of(record::FIELDS, "BEGAN");
const KEY_LEN: usize = place_of(record::FIELDS, "KEY_LEN");
const META_LEN: usize = place_of(record::FIELDS, "META_LEN");
const FLAGS: usize = place_of(record::FIELDS, "FLAGS");
const LIST_LEN: usize = place_of(record_marker::FIELDS, "LIST_LEN");
const BODY_LEN: usize = place_of(record::FIELDS, "BODY_LEN");

/// The flag of a record that has its marker in front of the metadata.
const HAS_MARKER: u8 = 4;

/// The offset of a field, from a table that the store publishes.
const fn place_of(fields: &[Field], name: &str) -> usize {
    let mut n = 0;
    while n < fields.len() {
        if is_equal(fields[n].name.as_bytes(), name.as_bytes()) {
            return fields[n].at;
        }
        n += 1;
    }
    panic!("there is no such field")
}

const fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let mut n = 0;
    while n < a.len() && n < b.len() && a[n] == b[n] {
        n += 1;
    }
    n == a.len() && n == b.len()
}

/// Most records that are kept.
const SAMPLES_MAX: usize = 48;
/// Larger records are not kept.
const SAMPLE_BYTES_MAX: usize = 4096;

/// Real records seen on the disk.
#[derive(Debug, Default)]
pub struct Samples(Vec<Bytes>);

/// The probable position of the body.
#[derive(Clone, Copy, Debug)]
pub struct Guess {
    /// The first chunk of the record.
    pub first: u32,
    /// Bytes of its header, key and metadata.
    pub before_body: usize,
}

impl Samples {
    /// Offers a record that was written; it may be kept.
    pub fn offer(&mut self, record: Bytes, random: &mut Random) {
        if record.len() > SAMPLE_BYTES_MAX || record.len() < HEADER_BYTES {
            return;
        }
        // Copied, because a slice would keep the whole cluster in memory.
        let record = Bytes::copy_from_slice(&record);
        if self.0.len() < SAMPLES_MAX {
            self.0.push(record);
        } else if random.one_in(8) {
            let at = random.index(SAMPLES_MAX);
            self.0[at] = record;
        }
    }

    /// A body of forged records, about `len` bytes; none if no record has been seen yet.
    pub fn body(
        &self,
        guess: Guess,
        len: usize,
        geometry: &Geometry,
        random: &mut Random,
    ) -> Option<Bytes> {
        if self.0.is_empty() {
            return None;
        }
        let chunk_bytes = geometry.chunk_bytes as usize;
        let first_whole = guess.before_body.next_multiple_of(chunk_bytes);
        let mut body = vec![0xa5; first_whole - guess.before_body];
        while body.len() < len {
            let chunk = guess.first + ((guess.before_body + body.len()) / chunk_bytes) as u32;
            let mut record = self.0[random.index(self.0.len())].to_vec();
            forge(&mut record, chunk, random);
            body.extend(&record);
            body.resize(
                (guess.before_body + body.len()).next_multiple_of(chunk_bytes) - guess.before_body,
                0,
            );
        }
        Some(body.into())
    }
}

/// Changes a header in one of several ways, or not at all.
fn forge(record: &mut [u8], chunk: u32, random: &mut Random) {
    let later = |record: &mut [u8], at: usize, by: u64| {
        let bytes: [u8; 8] = std::array::from_fn(|n| record[at + n]);
        let value = u64::from_le_bytes(bytes).wrapping_add(by);
        record[at..at + 8].copy_from_slice(&value.to_le_bytes());
    };
    let way = random.below(8);
    if way > 0 {
        record[FIRST..FIRST + 4].copy_from_slice(&chunk.to_le_bytes());
    }
    if way > 1 {
        let by = random.pick(&[1, 100, 10_000, 1 << 40]);
        later(record, SEQUENCE, by);
        later(record, BEGAN, by);
    }
    match way {
        5 => later(record, EPOCH, 1),
        6 => later(record, BODY_LEN, random.below(1 << 20)),
        7 => {
            let at = random.index(HEADER_BYTES);
            record[at] = record[at].wrapping_add(1);
        }
        _ => (),
    }
}

/// The records in a cluster write: offset and bytes of each.
pub fn records_of(data: &Bytes, geometry: &Geometry) -> Vec<(usize, Bytes)> {
    let chunk_bytes = geometry.chunk_bytes as usize;
    let mut records = Vec::new();
    let mut at = 0;
    while let Some(header) = data.get(at..at + HEADER_BYTES) {
        let chunks = u32_at(header, CHUNKS) as usize;
        let len = chunks.saturating_mul(chunk_bytes);
        if header[..4] != *b"LgRc" || len == 0 || len > data.len() - at {
            // The end of the last record.
            break;
        }
        records.push((at, data.slice(at..at + len)));
        at += len;
    }
    records
}

/// The metadata in the bytes of a new record.
pub fn meta_of(record: &[u8]) -> Option<&[u8]> {
    let header = record.get(..HEADER_BYTES)?;
    let key_len = u32_at(header, KEY_LEN) as usize;
    let meta_len = u32_at(header, META_LEN) as usize;
    let at = HEADER_BYTES + key_len;
    let mut meta = record.get(at..at + meta_len)?;
    if header[FLAGS] & HAS_MARKER != 0 {
        let list_len = usize::from(*meta.get(LIST_LEN)?);
        meta = meta.get(record_marker::BYTES + list_len..)?;
    }
    Some(meta)
}

/// The first chunk after a new record.
pub fn behind(record: &[u8]) -> Option<u32> {
    let header = record.get(..HEADER_BYTES)?;
    let first = u32_at(header, FIRST);
    first.checked_add(u32_at(header, CHUNKS))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_body_has_a_header_at_every_record() {
        let geometry = Geometry::plan(4 << 20, 512).unwrap();
        let mut random = Random::new(3);
        let mut samples = Samples::default();
        let guess = Guess {
            first: 7,
            before_body: 200,
        };
        assert!(samples.body(guess, 5000, &geometry, &mut random).is_none());
        let mut record = vec![1; 1024];
        record[..4].copy_from_slice(b"LgRc");
        samples.offer(record.into(), &mut random);
        let body = samples.body(guess, 5000, &geometry, &mut random).unwrap();
        assert!(body.len() >= 5000 && (200 + body.len()).is_multiple_of(512));
        let headers = body[312..].chunks(1024);
        let real = headers.filter(|bytes| bytes.starts_with(b"LgRc")).count();
        assert!(real >= 3, "{real}");
    }
}
