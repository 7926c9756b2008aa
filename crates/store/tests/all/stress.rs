//! Many threads on one store: fills, reads, invalidations, failing writes, audits, all at once.
//!
//! A body tells its key and version. A fill draws its version after it has noted the sequence; an invalidation
//! draws one before it begins, and when it has returned, raises the key's floor to it: no read that ends
//! from then on may serve a version below the floor.

use crate::common::{Random, Shell, body};
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use store::{Corrupt, Lookup, NewRecord, Outcome, Settings, Store, WorkOp, Write};

const THREADS: u64 = 4;
const STEPS: usize = 20_000;
const KEYS: u64 = 1500;
const BETWEEN_AUDITS: Duration = Duration::from_millis(1);

struct World {
    store: Arc<Store>,
    /// In stripes, as a device keeps sectors, so that threads do not wait for each other.
    disk: Vec<Mutex<Vec<u8>>>,
    versions: AtomicU64,
    floors: Vec<AtomicU64>,
    clock_ms: AtomicU64,
    served: AtomicU64,
    withheld: AtomicU64,
    done: AtomicBool,
}

const STRIPE_BYTES: usize = 64 * 1024;

fn version_of(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[8..16].try_into().unwrap())
}

impl World {
    fn new(policy: &str) -> Self {
        let total_bytes = 4 << 20;
        let settings = Settings {
            cluster_bytes: 64 * 1024,
            shards: 8,
            locality_buffers: 2,
            replacement: policy.parse().unwrap(),
            ..Settings::default()
        };
        Self {
            store: Shell::new(total_bytes, settings).store,
            disk: (0..total_bytes as usize / STRIPE_BYTES)
                .map(|_| Mutex::new(vec![0; STRIPE_BYTES]))
                .collect(),
            versions: AtomicU64::new(1),
            floors: (0..KEYS).map(|_| AtomicU64::new(0)).collect(),
            clock_ms: AtomicU64::new(1),
            served: AtomicU64::new(0),
            withheld: AtomicU64::new(0),
            done: AtomicBool::new(false),
        }
    }

    fn write(&self, write: Write, ok: bool) {
        let Write {
            id, offset, data, ..
        } = write;
        if ok {
            for (number, sector) in data.chunks(512).enumerate() {
                let at = offset as usize + number * 512;
                let mut stripe = self.disk[at / STRIPE_BYTES].lock().unwrap();
                stripe[at % STRIPE_BYTES..][..512].copy_from_slice(sector);
            }
        }
        drop(data);
        self.store.write_done(id, ok, self.clock_ms.load(SeqCst));
    }

    /// Some pieces of background work. Log, journal and checkpoints go nowhere: nobody reads them.
    fn background(&self) {
        for _ in 0..20 {
            let now_ms = self.clock_ms.load(SeqCst);
            let Some(work) = self.store.next_work(now_ms) else {
                return;
            };
            assert!(!matches!(work.op, WorkOp::Read { .. }));
            self.store.work_done(work.id, Ok(None), now_ms);
        }
    }

    fn read(&self, offset: u64, len: usize) -> Bytes {
        let mut bytes = Vec::with_capacity(len);
        for at in (offset as usize..offset as usize + len).step_by(512) {
            let stripe = self.disk[at / STRIPE_BYTES].lock().unwrap();
            bytes.extend_from_slice(&stripe[at % STRIPE_BYTES..][..512]);
        }
        Bytes::from(bytes)
    }

    fn fill(&self, key: u64, random: &mut Random, writes: &mut Vec<Write>) {
        let began = self.store.sequence();
        let version = self.versions.fetch_add(1, SeqCst);
        let len = if random.one_in(50) {
            random.below(60_000)
        } else {
            random.below(12_000)
        };
        let bytes = body(key, version, len as usize);
        if random.one_in(4) {
            std::thread::yield_now();
        }
        let name = key.to_le_bytes();
        let hash = self.store.hasher().hash(&name);
        let record = NewRecord {
            hash,
            primary: hash,
            key: &name,
            meta: b"",
            body: &[&bytes],
            fragment: None,
            total: None,
            began,
            server: key % 3,
        };
        let inserted = self
            .store
            .insert(&record, self.clock_ms.fetch_add(1, SeqCst));
        assert_ne!(inserted.outcome, Outcome::TooLarge);
        writes.extend(inserted.writes);
    }

    fn serve(&self, key: u64, writes: &mut Vec<Write>) {
        let hash = self.store.hasher().hash(&key.to_le_bytes());
        let floor = self.floors[key as usize].load(SeqCst);
        let (parts, floor) = match self.store.look_up(hash) {
            Lookup::Absent => return,
            Lookup::Buffered(bytes) => (self.store.decode(&bytes, hash).unwrap(), floor),
            Lookup::OnDisk(read) => {
                let bytes = self.read(read.offset, read.len);
                let parts = match self.store.decode_read(&bytes, &read) {
                    Ok(parts) => parts,
                    Err(corrupt) => {
                        assert_eq!(
                            corrupt,
                            Corrupt::Invalidated,
                            "by another thread, meanwhile"
                        );
                        let may_serve = self.store.read_done(read);
                        assert!(!may_serve, "it was killed by the same invalidation");
                        self.withheld.fetch_add(1, SeqCst);
                        return;
                    }
                };
                let renewal = read.renewal();
                // Let another thread come between now and then.
                if version_of(&parts.body).is_multiple_of(4) {
                    std::thread::yield_now();
                    let again = self.read(read.offset, read.len);
                    assert_eq!(again, bytes, "the bytes under a reader stay");
                }
                let floor = self.floors[key as usize].load(SeqCst);
                if !self.store.read_done(read) {
                    self.withheld.fetch_add(1, SeqCst);
                    return;
                }
                if let Some(renewal) = renewal {
                    let renewed = self
                        .store
                        .renew(renewal, &parts, self.clock_ms.load(SeqCst));
                    writes.extend(renewed.writes);
                }
                (parts, floor)
            }
        };
        let version = version_of(&parts.body);
        assert_eq!(parts.body, body(key, version, parts.body.len()));
        assert!(
            version >= floor,
            "key {key}: version {version} was invalidated, the floor is {floor}"
        );
        self.served.fetch_add(1, SeqCst);
    }

    fn invalidate(&self, key: u64) {
        let floor = self.versions.fetch_add(1, SeqCst);
        let _ = self
            .store
            .invalidate(self.store.hasher().hash(&key.to_le_bytes()));
        self.floors[key as usize].fetch_max(floor, SeqCst);
    }

    fn work(&self, seed: u64) {
        let mut random = Random(seed);
        let mut writes = Vec::new();
        for _ in 0..STEPS {
            let key = random.below(KEYS).min(random.below(KEYS));
            match random.below(100) {
                0..25 => self.fill(key, &mut random, &mut writes),
                25..85 => self.serve(key, &mut writes),
                85..92 => self.invalidate(key),
                92..94 => self
                    .store
                    .forget(self.store.hasher().hash(&key.to_le_bytes())),
                94..96 => writes.extend(self.store.tick(self.clock_ms.fetch_add(20, SeqCst))),
                _ => (),
            }
            if random.one_in(4) {
                self.background();
            }
            if random.one_in(3) && !writes.is_empty() {
                let number = random.below(writes.len() as u64) as usize;
                let ok = !random.one_in(100);
                self.write(writes.swap_remove(number), ok);
                if !ok {
                    self.clock_ms.fetch_add(1000, SeqCst);
                }
            }
        }
        writes.into_iter().for_each(|write| self.write(write, true));
    }
}

#[test]
fn nothing_wrong_is_served_under_load() {
    under_load("second-chance");
}

#[test]
fn nothing_wrong_is_served_under_load_with_lru() {
    under_load("lru");
}

fn under_load(policy: &str) {
    let world = World::new(policy);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let world = &world;
                    move || world.work(thread + 1)
                })
            })
            .collect();
        scope.spawn(|| {
            while !world.done.load(SeqCst) {
                world.store.audit().unwrap();
                // An audit takes every lock, and may have them again before a waiting thread wakes: on a busy machine
                // the others would hardly get on.
                std::thread::sleep(BETWEEN_AUDITS);
            }
        });
        let failed = workers
            .into_iter()
            .map(|worker| worker.join())
            .filter(Result::is_err)
            .count();
        world.done.store(true, SeqCst);
        assert_eq!(failed, 0, "threads failed");
    });
    world
        .store
        .flush()
        .into_iter()
        .for_each(|write| world.write(write, true));
    world.store.audit().unwrap();
    let figures = world.store.figures();
    assert_eq!((figures.clusters_in_flight, figures.reads_pinned), (0, 0));
    let (served, withheld) = (world.served.load(SeqCst), world.withheld.load(SeqCst));
    println!("{served} served, {withheld} withheld, {figures:?}");
    assert!(served > 2_000 && figures.evictions > 100 && figures.replaced > 100);
    world.store.begin_close();
    while !world.store.is_closed() {
        world.background();
        world.clock_ms.fetch_add(1000, SeqCst);
    }
}
