//! A store in a file, filled as a proxy fills one.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bytes::Bytes;
use httpcache::{Standing, StandingFlags, UnixMillis};
use proxy::stored::{Object, fragment_key, hash_of_key, name_of_key, variant_key};
use store::{
    Found, Fragment, Geometry, Identity, KeyHash, NewRecord, ObjectTotal, OpenPlan, Outcome,
    Settings, Store, Superblock, WorkOp,
};

pub struct Filler {
    file: File,
    pub store: Store,
    now_ms: u64,
}

impl Filler {
    pub fn open(path: &Path) -> Self {
        Self::open_with(path, &Settings::default())
    }

    pub fn open_with(path: &Path, settings: &Settings) -> Self {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let geometry = Geometry::plan(file.metadata().unwrap().len(), 512).unwrap();
        let read = |offset: u64, len: usize| {
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, offset).unwrap();
            bytes
        };
        let OpenPlan::Recover {
            superblock,
            checkpoint,
        } = OpenPlan::of(&read(0, Superblock::BYTES), &geometry)
        else {
            panic!("not a store of ours");
        };
        let [log, journal] = geometry.logs();
        let found = Found {
            log: Some(read(log.0, log.1).into()),
            journal: Some(read(journal.0, journal.1).into()),
            checkpoint: checkpoint.map(|place| read(place.offset, place.bytes as usize).into()),
        };
        let identity = Identity::new([7; Identity::RANDOM_BYTES]);
        let (store, recovered) = Store::recover(superblock, &found, settings, identity);
        assert!(!recovered.empty, "{recovered:?}");
        let now_ms = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
        let filler = Self {
            file,
            store,
            now_ms,
        };
        for (offset, data) in filler.store.opening() {
            filler.file.write_all_at(&data, offset).unwrap();
        }
        // The first sweep takes a few rounds of background work.
        for _ in 0..10 {
            filler.work();
        }
        filler
    }

    /// Does all waiting background work.
    fn work(&self) {
        while let Some(work) = self.store.next_work(self.now_ms) {
            let mut read = None;
            match work.op {
                WorkOp::Write { offset, data } => self.file.write_all_at(&data, offset).unwrap(),
                WorkOp::Read { offset, len } => {
                    let mut bytes = vec![0; len];
                    self.file.read_exact_at(&mut bytes, offset).unwrap();
                    read = Some(Bytes::from(bytes));
                }
                WorkOp::Flush | WorkOp::Yield => {}
            }
            self.store.work_done(work.id, Ok(read), self.now_ms);
        }
    }

    fn write(&self, writes: store::Writes) {
        for write in writes {
            self.file.write_all_at(&write.data, write.offset).unwrap();
            self.store.write_done(write.id, true, self.now_ms);
        }
    }

    fn insert(&self, record: &NewRecord<'_>) {
        let inserted = self.store.insert(record, self.now_ms);
        assert_eq!(inserted.outcome, Outcome::Stored);
        self.write(inserted.writes);
        self.work();
    }

    fn object(&self, key: &[u8], primary: KeyHash, lifetime_s: u32) -> Object {
        Object {
            key: Bytes::copy_from_slice(key),
            hash: hash_of_key(self.store.hasher(), key),
            primary,
            status: 200,
            standing: Standing {
                received: UnixMillis(self.now_ms),
                initial_age_s: 0,
                lifetime_s,
                stale_while_revalidate_s: 0,
                stale_if_error_s: 0,
                flags: StandingFlags::default(),
            },
            content_type: (31, 10),
            head: Bytes::from_static(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"),
            body: Bytes::new(),
            large: None,
        }
    }

    /// Stores an object. `url` includes the tag, if there is one.
    pub fn put(&self, url: &str, lifetime_s: u32, body: &[u8]) {
        let key = format!("GET {url}").into_bytes();
        let primary = self.store.hasher().hash(name_of_key(&key));
        self.put_key(&key, primary, lifetime_s, body);
    }

    fn put_key(&self, key: &[u8], primary: KeyHash, lifetime_s: u32, body: &[u8]) {
        let object = self.object(key, primary, lifetime_s);
        self.insert(&NewRecord {
            hash: object.hash,
            primary,
            key,
            meta: &object.encode_meta(),
            body: &[body],
            fragment: None,
            total: None,
            began: self.store.sequence(),
            server: 0,
        });
    }

    /// Stores a variant for requests with this Accept-Encoding.
    pub fn put_variant(&self, url: &str, encoding: &str, body: &[u8]) {
        let resource = format!("GET {url}").into_bytes();
        let primary = self.store.hasher().hash(name_of_key(&resource));
        let began = self.store.sequence();
        let list = b"accept-encoding";
        let marker = self.store.set_marker(primary, list, began).unwrap();
        let mut request = fields::Fields::new();
        request.push(b"Accept-Encoding", encoding.as_bytes());
        let key = variant_key(&resource, marker.salt, list, &request, b"");
        self.put_key(&key, primary, 60, body);
    }

    /// Stores an object in fragments of `size` bytes.
    pub fn put_large(&self, url: &str, body: &[u8], size: usize) {
        let key = format!("GET {url}").into_bytes();
        let hasher = self.store.hasher();
        let primary = hasher.hash(name_of_key(&key));
        let (fetch_id, began) = (77, self.store.sequence());
        let bare = NewRecord {
            hash: primary,
            primary,
            key: &key,
            meta: &[],
            body: &[],
            fragment: None,
            total: None,
            began,
            server: 0,
        };
        let pieces = body.chunks(size);
        let fragments = pieces.len() as u32;
        for (number, piece) in (0..).zip(pieces) {
            let key = fragment_key(&key, fetch_id, number);
            self.insert(&NewRecord {
                hash: hasher.hash(&key),
                key: &key,
                body: &[piece],
                fragment: Some(Fragment { fetch_id, number }),
                ..bare
            });
        }
        let meta = self.object(&key, primary, 600).encode_meta();
        self.insert(&NewRecord {
            total: Some(ObjectTotal {
                fetch_id,
                fragments,
                bytes: body.len() as u64,
            }),
            meta: &meta,
            ..bare
        });
    }

    /// Writes everything stored to the file.
    pub fn settle(&self) {
        self.write(self.store.flush());
        self.work();
    }

    /// Stops cleanly; dropping the filler without this is a crash.
    pub fn close(self) {
        self.settle();
        self.store.begin_close();
        self.work();
        assert!(self.store.is_closed());
    }
}
