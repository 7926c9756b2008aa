//! Any bytes as a record of the store, and any bytes laid over a true record: no panic, and what is let through
//! is what was stored.
#![no_main]

use std::sync::OnceLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use store::{Geometry, Identity, KeyHash, Lookup, NewRecord, Settings, Store};

const KEY: &[u8] = b"GET http://origin.example/page";
const META: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n";
const BODY: &[u8] = &[b'x'; 300];

struct Fixture {
    store: Store,
    record: Bytes,
    hash: KeyHash,
}

fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(|| {
        let geometry = Geometry::plan(8 << 20, 512).expect("large enough");
        let identity = Identity::new([7; Identity::RANDOM_BYTES]);
        let store = Store::create(geometry, &Settings::default(), identity);
        // The first room is made in the background.
        while let Some(work) = store.next_work(0) {
            store.work_done(work.id, Ok(None), 0);
        }
        let hash = store.hasher().hash(KEY);
        let record = NewRecord {
            hash,
            primary: hash,
            key: KEY,
            meta: META,
            body: &[BODY],
            fragment: None,
            total: None,
            began: store.sequence(),
            server: 0,
        };
        // The write is never carried out, so the record stays in its buffer.
        let _ = store.insert(&record, 0);
        let Lookup::Buffered(record) = store.look_up(hash) else {
            panic!("just inserted");
        };
        Fixture {
            record,
            hash,
            store,
        }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Fixture {
        store,
        record,
        hash,
    } = fixture();
    let check = |bytes: Bytes| {
        if let Ok(parts) = store.decode(&bytes, *hash) {
            assert_eq!(parts.key, KEY);
            assert_eq!(parts.meta, META);
            assert_eq!(parts.body, BODY);
        }
    };
    check(Bytes::copy_from_slice(bytes));
    if let [low, high, over @ ..] = bytes {
        let at = usize::from(u16::from_le_bytes([*low, *high])) % record.len();
        let mut patched = record.to_vec();
        for (byte, with) in patched[at..].iter_mut().zip(over) {
            *byte ^= with;
        }
        check(patched.into());
    }
});
