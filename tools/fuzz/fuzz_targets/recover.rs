//! Bytes laid over the books of a store (superblock, logs, journal, checkpoint): it opens or starts empty, does not panic,
//! and what it finds is what was stored.
#![no_main]

use std::sync::OnceLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use store::{
    Found, Geometry, Identity, Lookup, NewRecord, OpenPlan, Settings, Store, Superblock, WorkOp,
    Write,
};

const BYTES: usize = 4 << 20;
const KEYS: u64 = 40;

fn key(n: u64) -> Vec<u8> {
    format!("GET http://origin.example/{n}").into_bytes()
}

fn body(n: u64) -> Vec<u8> {
    (0..2000 + 97 * n).map(|at| (at ^ n) as u8).collect()
}

fn put(disk: &mut [u8], offset: u64, data: &[u8]) {
    disk[offset as usize..][..data.len()].copy_from_slice(data);
}

fn write(store: &Store, disk: &mut [u8], writes: impl IntoIterator<Item = Write>) {
    for write in writes {
        put(disk, write.offset, &write.data);
        store.write_done(write.id, true, 0);
    }
}

fn work(store: &Store, disk: &mut [u8]) {
    while let Some(work) = store.next_work(0) {
        let result = match work.op {
            WorkOp::Read { offset, len } => {
                Some(Bytes::copy_from_slice(&disk[offset as usize..][..len]))
            }
            WorkOp::Write { offset, data } => {
                put(disk, offset, &data);
                None
            }
            WorkOp::Flush | WorkOp::Yield => None,
        };
        store.work_done(work.id, Ok(result), 0);
    }
}

/// A store as a crash leaves it: a checkpoint, and some more behind it.
fn image() -> &'static (Geometry, Vec<u8>) {
    static IMAGE: OnceLock<(Geometry, Vec<u8>)> = OnceLock::new();
    IMAGE.get_or_init(|| {
        let geometry = Geometry::plan(BYTES as u64, 512).expect("large enough");
        let mut disk = vec![0; BYTES];
        let identity = || Identity::new([7; Identity::RANDOM_BYTES]);
        let mut store = Store::create(geometry.clone(), &Settings::default(), identity());
        for half in 0..2 {
            for (offset, data) in store.opening() {
                put(&mut disk, offset, &data);
            }
            work(&store, &mut disk);
            for n in (half * KEYS / 2)..(half + 1) * KEYS / 2 {
                let (key, body) = (key(n), body(n));
                let hash = store.hasher().hash(&key);
                let inserted = store.insert(
                    &NewRecord {
                        hash,
                        primary: hash,
                        key: &key,
                        meta: b"meta",
                        body: &[&body],
                        fragment: None,
                        total: None,
                        began: store.sequence(),
                        server: 0,
                    },
                    0,
                );
                write(&store, &mut disk, inserted.writes);
                if n % 5 == 0 {
                    let _ = store.invalidate(hash);
                }
                work(&store, &mut disk);
            }
            write(&store, &mut disk, store.flush());
            if half == 0 {
                store.begin_close();
                work(&store, &mut disk);
                assert!(store.is_closed());
                store = reopen(&geometry, &disk).expect("it was closed in order");
            }
        }
        (geometry, disk)
    })
}

fn reopen(geometry: &Geometry, disk: &[u8]) -> Option<Store> {
    let OpenPlan::Recover {
        superblock,
        checkpoint,
    } = OpenPlan::of(&disk[..Superblock::BYTES], geometry)
    else {
        return None;
    };
    let read = |offset: u64, len: usize| {
        let from = usize::try_from(offset).ok()?;
        disk.get(from..from.checked_add(len)?).map(Bytes::copy_from_slice)
    };
    let [log, journal] = superblock.geometry.logs();
    let found = Found {
        log: read(log.0, log.1),
        journal: read(journal.0, journal.1),
        checkpoint: checkpoint.and_then(|at| read(at.offset, usize::try_from(at.bytes).ok()?)),
    };
    let identity = Identity::new([9; Identity::RANDOM_BYTES]).after(&superblock);
    Some(Store::recover(superblock, &found, &Settings::default(), identity).0)
}

fuzz_target!(|bytes: &[u8]| {
    let (geometry, disk) = image();
    let mut disk = disk.clone();
    let books = usize::try_from(geometry.data_at).expect("small");
    // Each patch: where (three bytes), how long (one), with what.
    let mut rest = bytes;
    while let [a, b, c, len, over @ ..] = rest {
        let at = u32::from_le_bytes([*a, *b, *c, 0]) as usize % books;
        let (over, behind) = over.split_at(over.len().min(usize::from(*len)));
        for (byte, with) in disk[at..].iter_mut().zip(over) {
            *byte ^= with;
        }
        rest = behind;
    }
    let Some(store) = reopen(geometry, &disk) else {
        return;
    };
    for (offset, data) in store.opening() {
        put(&mut disk, offset, &data);
    }
    work(&store, &mut disk);
    for n in 0..KEYS {
        let key = key(n);
        let hash = store.hasher().hash(&key);
        let parts = match store.look_up(hash) {
            Lookup::Absent => continue,
            Lookup::Buffered(bytes) => store.decode(&bytes, hash),
            Lookup::OnDisk(read) => {
                let at = read.offset as usize;
                let bytes = Bytes::copy_from_slice(&disk[at..at + read.len]);
                let parts = store.decode_read(&bytes, &read);
                let _ = store.read_done(read);
                parts
            }
        };
        if let Ok(parts) = parts
            && parts.key == key
        {
            assert_eq!(parts.body, body(n));
        }
    }
    store.audit().expect("consistent");
});
