//! A disk that takes nothing, and a store whose keys another store owns by now.

use super::*;
use crate::background::BackgroundThread;
use crate::companions::PROBE_EVERY;
use crate::keeping::{NOT_AGAIN_FOR, OBJECT_WAIT};
use device::{Device, Engine, EngineKind, FaultPlan, Operation};
use httpcache::{Standing, StandingFlags};
use plan::LazyMode;
use rules::key::KEY_PREFIX;
use std::sync::atomic::Ordering;
use store::{Geometry, Identity, Replacement, Settings};

const STORE_BYTES: u64 = 32 << 20;
const BODY_BYTES: usize = 4000;

/// A store on a device in memory, with a background thread of its own.
struct TestBed {
    store: Arc<Store>,
    device: Arc<Device>,
    faults: FaultPlan,
    wake_up: Arc<WakeUp>,
    counters: Arc<Counters>,
    background_thread: BackgroundThread,
}

impl TestBed {
    fn new() -> Self {
        let faults = FaultPlan::new();
        let device = Device::faulty(STORE_BYTES as usize, faults.clone());
        let geometry = Geometry::plan(STORE_BYTES, Geometry::CHUNK_BYTES_DEFAULT).unwrap();
        let store = Arc::new(empty_store(geometry, 1));
        for (offset, data) in store.opening() {
            device.write_all_sync(offset, &data).unwrap();
        }
        let wake_up = Arc::new(WakeUp::default());
        let stores = vec![(Arc::clone(&store), Arc::clone(&device))];
        let (background_thread, ready) = BackgroundThread::start(
            stores,
            (EngineKind::Auto, Duration::from_secs(5)),
            Arc::clone(&wake_up),
            Arc::default(),
        )
        .unwrap();
        ready.blocking_recv().unwrap().unwrap();
        Self {
            store,
            device,
            faults,
            wake_up,
            counters: Arc::default(),
            background_thread,
        }
    }

    /// A worker's disks with `set` as the stores; only the first store is used.
    fn disk(&self, set: Set) -> DiskIo {
        self.disk_reading(set, LazyMode::Gather(2))
    }

    fn disk_reading(&self, set: Set, lazily: LazyMode) -> DiskIo {
        let engine = Engine::new(EngineKind::Auto, Arc::clone(&self.device)).unwrap();
        engine.start();
        let soon = Duration::from_millis(1);
        let reads = LazyReads::new(Rc::new(engine), lazily, soon, Arc::default());
        DiskIo::new(
            Arc::new(set),
            vec![reads],
            (Arc::clone(&self.counters), Arc::default()),
            Arc::clone(&self.wake_up),
            &Storing::default(),
            Clock::default(),
        )
    }

    fn close(self) {
        for closed in self.background_thread.close() {
            closed.unwrap();
        }
    }
}

/// The last of the random bytes are the seed of the hashes, which all stores of a set share.
fn empty_store(geometry: Geometry, number: u8) -> Store {
    let mut random = [0; Identity::RANDOM_BYTES];
    random[0] = number;
    let identity = Identity::new(random);
    let settings = Settings {
        // Deterministic: what is written again does not depend on how soon the disk reads.
        replacement: Replacement::SecondChance {
            window_percent: Replacement::WINDOW_PERCENT,
        },
        ..Settings::default()
    };
    Store::create(geometry, &settings, identity)
}

/// A fresh object of one server.
fn object(store: &Store, n: u64) -> Object {
    let path = format!("http://a.example/{n}");
    let key = [KEY_PREFIX, path.as_bytes()].concat();
    let hash = store.hasher().hash(&key);
    Object {
        key: key.into(),
        hash,
        primary: hash,
        status: 200,
        standing: Standing {
            received: UnixMillis(unix_ms()),
            initial_age_s: 0,
            lifetime_s: 3600,
            stale_while_revalidate_s: 0,
            stale_if_error_s: 0,
            flags: StandingFlags::HEURISTIC,
        },
        content_type: (0, 0),
        head: Bytes::from_static(b"HTTP/1.1 200 OK\r\n"),
        body: vec![n as u8; BODY_BYTES].into(),
        large: None,
    }
}

fn put(disk: &DiskIo, object: &Object) -> bool {
    let began = disk.set.sequence(object.primary);
    (disk.store_object(object, &[&object.body], None, began)).is_stored()
}

/// Runs a test on a runtime like a worker's.
fn on_worker(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

/// The time of a wait for room.
async fn wait_for_room(disk: &DiskIo, object: &Object) -> Duration {
    let start = Instant::now();
    disk.room_for_object(object.primary, BODY_BYTES as u64)
        .await;
    start.elapsed()
}

#[test]
fn an_object_waits_for_a_disk_that_is_behind_but_not_each_for_one_that_takes_nothing() {
    let bed = TestBed::new();
    on_worker(async {
        let disk = bed.disk(Set::of_one(Arc::clone(&bed.store)));
        bed.faults.hold(Operation::Write);
        let mut stored = 0;
        while put(&disk, &object(&bed.store, stored)) {
            stored += 1;
        }
        // It may not be given more, or has nowhere to put it before its journal is written.
        let has_room = bed.store.has_room_for(BODY_BYTES as u64);
        assert!(bed.store.is_behind() || !has_room, "{stored}");
        let next = object(&bed.store, stored);
        let waits = || {
            bed.counters
                .disk_waits
                .load(std::sync::atomic::Ordering::Relaxed)
        };
        assert!(wait_for_room(&disk, &next).await >= OBJECT_WAIT);
        // The wait failed, so no object waits for a while.
        assert!(wait_for_room(&disk, &next).await < OBJECT_WAIT / 2);
        assert_eq!(waits(), 1);
        // The while is over.
        let long_ago = Instant::now().checked_sub(NOT_AGAIN_FOR);
        disk.writes.waited_in_vain.set(long_ago);
        assert!(wait_for_room(&disk, &next).await >= OBJECT_WAIT);
        assert_eq!(waits(), 2);
        // The disk takes writes again; a waiting object goes on as soon as there is room.
        disk.writes.waited_in_vain.set(long_ago);
        let faults = bed.faults.clone();
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            faults.release(Operation::Write);
        });
        assert!(wait_for_room(&disk, &next).await < OBJECT_WAIT);
        assert_eq!((waits(), disk.writes.waited_in_vain.get()), (3, None));
        assert!(put(&disk, &next));
        disk.settle().await;
    });
    bed.close();
}

#[test]
fn what_another_store_has_taken_over_does_not_come_along() {
    let bed = TestBed::new();
    on_worker(async {
        let alone = bed.disk(Set::of_one(Arc::clone(&bed.store)));
        let all: Vec<_> = (0..8).map(|n| object(&bed.store, n)).collect();
        assert!(all.iter().all(|object| put(&alone, object)));
        alone.settle().await;
        let load = |disk: DiskIo, object: &Object| {
            let (primary, hash, key) = (object.primary, object.hash, object.key.clone());
            async move { disk.load(primary, hash, &key).await.unwrap() }
        };
        let beside = load(alone, &all[0]).await.beside;
        let came: Vec<_> = beside.iter().map(|(object, _)| object.hash).collect();
        assert_eq!(came, all[1..].iter().map(|o| o.hash).collect::<Vec<_>>());

        // Now a second store has its share of the keys.
        let other = empty_store(bed.store.geometry().clone(), 2);
        let set = Set::new([(Arc::clone(&bed.store), 1, 1), (Arc::new(other), 2, 1)]);
        let is_ours = |object: &&Object| set.owner(object.primary) == 0;
        let ours: Vec<_> = all.iter().filter(is_ours).cloned().collect();
        assert!((2..all.len()).contains(&ours.len()), "{}", ours.len());
        let beside = load(bed.disk(set), &ours[0]).await.beside;
        let came: Vec<_> = beside.iter().map(|(object, _)| object.hash).collect();
        assert_eq!(came, ours[1..].iter().map(|o| o.hash).collect::<Vec<_>>());
    });
    bed.close();
}

/// How often companions are asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Always,
    Never,
    /// Never, and each read is a probe.
    Probed,
}

/// Stores eight objects, and others until the hand has come near them, while the first of the eight is read. Its companions at last,
/// and the second chances that were given.
fn second_chances(asked: Asked) -> (usize, u64) {
    let bed = TestBed::new();
    let mut beside = 0;
    on_worker(async {
        let disk = bed.disk(Set::of_one(Arc::clone(&bed.store)));
        let group: Vec<_> = (0..8).map(|n| object(&bed.store, n)).collect();
        assert!(group.iter().all(|object| put(&disk, object)));
        let first = &group[0];
        let server = disk.set.hasher().hash(server_of_key(&first.key));
        for came in (0..1000).filter_map(|_| disk.companions.may_come(server)) {
            if asked == Asked::Always {
                disk.companions.asked(came, u64::MAX);
            }
        }
        let mut fillers = 100..;
        while bed.store.figures().second_chances == 0 {
            for n in fillers.by_ref().take(200) {
                let filler = object(&bed.store, n);
                wait_for_room(&disk, &filler).await;
                assert!(put(&disk, &filler));
            }
            disk.settle().await;
            if asked == Asked::Probed {
                while disk.companions.may_come(server).is_none() {}
                (1..PROBE_EVERY).for_each(|_| assert!(disk.companions.may_come(server).is_none()));
            }
            let loaded = disk.load(first.primary, first.hash, &first.key).await;
            let loaded = loaded.unwrap();
            assert_eq!(loaded.object.body, first.body);
            beside = loaded.beside.len();
        }
    });
    let chances = bed.store.figures().second_chances;
    bed.close();
    (beside, chances)
}

#[test]
fn a_group_gets_a_second_chance_together_if_its_companions_are_asked_for() {
    let (beside, chances) = second_chances(Asked::Always);
    assert!((7..=15).contains(&beside), "{beside}");
    assert_eq!(chances, beside as u64 + 1);
    assert_eq!(second_chances(Asked::Never), (0, 1));
    assert_eq!(second_chances(Asked::Probed), (beside, 1));
}

#[test]
fn a_device_that_keeps_too_much_for_nobody_is_asked_for_nothing_more() {
    let bed = TestBed::new();
    on_worker(async {
        let set = Set::of_one(Arc::clone(&bed.store));
        let disk = bed.disk_reading(set, LazyMode::Gather(0));
        let mut long = object(&bed.store, 1);
        long.body = vec![7; 60_000].into();
        assert!(put(&disk, &long));
        disk.settle().await;
        let load = || disk.load(long.primary, long.hash, &long.key);
        assert!(load().await.is_ok());

        bed.faults.hold(Operation::Read);
        let mut left = 0;
        while !disk.is_shut(long.primary) {
            let mut load = Box::pin(load());
            std::future::poll_fn(|cx| {
                assert!(load.as_mut().poll(cx).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            left += 1;
        }
        assert!((1000..=1125).contains(&left), "{left}");
        let untried = || (bed.counters.disk_reads_untried).load(Ordering::Relaxed);
        assert_eq!(untried(), 0);
        assert!(load().await.is_err());
        assert_eq!(untried(), 1);
        assert!(!put(&disk, &object(&bed.store, 2)), "and nothing is stored");

        bed.faults.release(Operation::Read);
        while disk.is_shut(long.primary) {
            tokio::task::yield_now().await;
        }
        assert!(load().await.is_ok());
    });
    bed.close();
}
