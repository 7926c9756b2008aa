//! Any bytes as a record of the store, and any bytes laid over a true record, or over a fragment that is read by its front and
//! parts: no panic, and what is let through is what was stored.
#![no_main]

use std::sync::OnceLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use store::{
    Fragment, Geometry, Identity, KeyHash, Lookup, NewRecord, Read, Settings, Store, Write,
};

const KEY: &[u8] = b"GET http://origin.example/page";
const META: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n";
const BODY: &[u8] = &[b'x'; 300];
const FRAGMENT_KEY: &[u8] = b"GET http://origin.example/large 1";
const FRAGMENT_BODY: &[u8] = &[b'y'; 10_000];

struct Fixture {
    store: Store,
    record: Bytes,
    hash: KeyHash,
    fragment: Bytes,
    /// Where it lies; never done, so it stays there.
    read: Read,
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
        let (fragment, read) = put_fragment(&store);
        Fixture {
            record,
            hash,
            fragment,
            read,
            store,
        }
    })
}

/// A fragment that is written, and the read that would bring it.
fn put_fragment(store: &Store) -> (Bytes, Read) {
    let hash = store.hasher().hash(FRAGMENT_KEY);
    let record = NewRecord {
        hash,
        primary: hash,
        key: FRAGMENT_KEY,
        meta: b"",
        body: &[FRAGMENT_BODY],
        fragment: Some(Fragment {
            fetch_id: 1,
            number: 0,
        }),
        total: None,
        began: store.sequence(),
        server: 0,
    };
    let mut writes: Vec<Write> = store.insert(&record, 0).writes.into_iter().collect();
    writes.extend(store.flush());
    for write in &writes {
        store.write_done(write.id, true, 0);
    }
    let Lookup::OnDisk(read) = store.look_up(hash) else {
        panic!("just written");
    };
    let record = writes.iter().find_map(|write| {
        let at = read.offset.checked_sub(write.offset)? as usize;
        let len = at + read.len;
        (len <= write.data.len()).then(|| write.data.slice(at..len))
    });
    (record.expect("one of the writes has it"), read)
}

/// What of a fragment is let through, whole and in parts.
fn check_fragment(fixture: &Fixture, bytes: &Bytes) {
    let Fixture { store, read, .. } = fixture;
    if let Ok(parts) = store.decode_read(bytes, read) {
        assert_eq!(parts.body, FRAGMENT_BODY);
    }
    let Ok(front) = store.decode_front(bytes, read) else {
        return;
    };
    assert_eq!(front.key, FRAGMENT_KEY);
    assert_eq!(front.body_len, FRAGMENT_BODY.len() as u64);
    for part in [0..1, 0..10_000, 5000..9000, 9999..10_000] {
        let around = front.around(part.clone());
        let blocks = &bytes[around.start as usize..around.end as usize];
        if let Ok(place) = store.decode_part(&front, around.start, blocks, part.clone()) {
            let wanted = &FRAGMENT_BODY[part.start as usize..part.end as usize];
            assert_eq!(blocks[place], *wanted);
        }
    }
    // Whatever is said to lie there.
    let at = u64::from(bytes[bytes.len() / 2]) << 6;
    let _ = store.decode_part(&front, at, bytes, 0..front.body_len + at);
}

fuzz_target!(|bytes: &[u8]| {
    let Fixture {
        store,
        record,
        hash,
        fragment,
        ..
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
        let at = usize::from(u16::from_le_bytes([*low, *high])) % fragment.len();
        let mut patched = fragment.to_vec();
        for (byte, with) in patched[at..].iter_mut().zip(over) {
            *byte ^= with;
        }
        check_fragment(fixture(), &patched.into());
    }
});
