//! A device becomes silent, is probed, and comes back.

use super::*;
use device::{Engine, EngineKind, FaultPlan, Operation};
use std::rc::Rc;

const SILENT: Duration = Duration::from_millis(5);

/// Runs a test on a runtime like that of a worker.
fn on_worker(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

/// A device that hangs with this many reads and has been found silent.
async fn hanging(reads: usize) -> (Watched, FaultPlan) {
    let plan = FaultPlan::new();
    let device = Device::faulty(1 << 20, plan.clone());
    let engine = Rc::new(Engine::new(EngineKind::Auto, Arc::clone(&device)).unwrap());
    plan.hold(Operation::Read);
    for _ in 0..reads {
        let engine = Rc::clone(&engine);
        tokio::task::spawn_local(async move { engine.read(0, 512).await });
    }
    plan.until_held(reads).await;
    let mut watched = Watched::new(device);
    while !watched.device.health().is_aside() {
        watched.look(SILENT, Instant::now());
        tokio::task::yield_now().await;
    }
    (watched, plan)
}

#[test]
fn a_device_without_reads_is_left_alone() {
    let device = Device::memory(1 << 20);
    let mut watched = Watched::new(Arc::clone(&device));
    watched.look(Duration::ZERO + SILENT, Instant::now());
    assert!(!device.health().is_aside());
}

#[test]
fn it_is_back_when_a_read_is_answered() {
    on_worker(async {
        let (mut watched, plan) = hanging(1).await;
        let now = Instant::now();
        watched.look(SILENT, now);
        assert!(watched.device.health().is_aside());
        plan.release(Operation::Read);
        while watched.device.health().is_aside() {
            tokio::task::yield_now().await;
            watched.look(SILENT, Instant::now());
        }
        assert_eq!(watched.probes, 0);
    });
}

#[test]
fn probes_are_few_and_ever_further_apart() {
    on_worker(async {
        let (mut watched, plan) = hanging(1).await;
        let start = Instant::now();
        let mut began = Vec::new();
        for second in 0..600 {
            let before = watched.probes;
            watched.look(SILENT, start + Duration::from_secs(second));
            if watched.probes > before {
                began.push(second);
            }
        }
        assert_eq!(began.len(), PROBES_MAX as usize, "{began:?}");
        let pauses: Vec<_> = began.windows(2).map(|two| two[1] - two[0]).collect();
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert!(pauses.iter().all(|&pause| pause <= 31), "{pauses:?}");
        plan.release(Operation::Read);
        while watched.probing.load(Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn a_probe_that_is_answered_is_enough_and_a_relapse_is_probed_later() {
    on_worker(async {
        let (mut watched, plan) = hanging(1).await;
        let start = Instant::now();
        watched.look(SILENT, start + Duration::from_secs(2));
        watched.look(SILENT, start + Duration::from_secs(5));
        assert_eq!(watched.probes, 2);
        plan.release(Operation::Read);
        while watched.device.health().is_aside() {
            tokio::task::yield_now().await;
            watched.look(SILENT, Instant::now());
        }
        assert!(watched.pause > PROBE_PAUSE);
    });
}
