//! Engines on memory that fails when told to.

use std::rc::Rc;
use std::sync::Arc;

use crate::common::on_worker;
use bytes::Bytes;
use device::{Device, Engine, EngineKind, FaultPlan, IoFault, Operation};
use tokio::task::spawn_local;

/// Runs a test with both engines that memory can have.
fn on_memory(test: impl AsyncFn(Rc<Engine>, FaultPlan)) {
    for (kind, name) in [
        (EngineKind::Auto, "inline"),
        (EngineKind::Threads, "threads"),
    ] {
        let plan = FaultPlan::new();
        on_worker(
            kind,
            Device::faulty(1 << 20, plan.clone()),
            async |engine| {
                assert_eq!(engine.name(), name);
                test(engine, plan).await;
            },
        );
    }
}

#[test]
fn memory_needs_no_plan() {
    on_worker(EngineKind::Auto, Device::memory(8192), async |engine| {
        engine
            .write(4096, Bytes::from_static(b"squid"))
            .await
            .unwrap();
        assert_eq!(engine.read(4095, 6).await.unwrap(), &b"\0squid"[..]);
        assert!(matches!(
            engine.read(8190, 6).await,
            Err(IoFault::Short { got: 2, .. })
        ));
    });
    assert!(Engine::new(EngineKind::Uring, Device::memory(8192)).is_err());
}

#[test]
fn the_nth_operation_fails() {
    on_memory(async |engine, plan| {
        plan.fail(Operation::Read, 1);
        plan.fail(Operation::Flush, 0);
        engine.read(0, 512).await.unwrap();
        assert!(matches!(
            engine.read(0, 512).await,
            Err(IoFault::Device {
                at: 0,
                len: 512,
                ..
            })
        ));
        engine.read(0, 512).await.unwrap();
        assert!(engine.flush().await.is_err());
        assert_eq!(plan.counts().faults, 2);
    });
}

#[test]
fn short_transfers_are_continued() {
    on_memory(async |engine, plan| {
        plan.shorten(Operation::Write, 1000);
        plan.shorten(Operation::Read, 700);
        let data = Bytes::from(crate::common::pattern(0, 65_536));
        engine.write(512, data.clone()).await.unwrap();
        assert!(engine.read(512, 65_536).await.unwrap() == data);
    });
}

#[test]
fn held_operations_wait_for_the_test_and_survive_their_waiter() {
    on_memory(async |engine, plan| {
        plan.hold(Operation::Write);
        let writer = Rc::clone(&engine);
        let task = spawn_local(async move { writer.write(0, Bytes::from_static(b"squid")).await });
        plan.until_held(1).await;
        assert_eq!((plan.held(), engine.in_flight()), (1, 1));
        assert_eq!(
            engine.read(0, 5).await.unwrap(),
            &b"\0\0\0\0\0"[..],
            "reads are not held"
        );
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        plan.release(Operation::Write);
        // A later write is behind the held one only by luck, so ask until it has ended.
        while engine.in_flight() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(engine.read(0, 5).await.unwrap(), &b"squid"[..]);
        assert_eq!(plan.held(), 0);
    });
}

#[test]
fn a_held_read_sees_what_is_there_when_it_is_released() {
    on_memory(async |engine, plan| {
        plan.hold(Operation::Read);
        let reader = Rc::clone(&engine);
        let task = spawn_local(async move { reader.read(0, 5).await });
        plan.until_held(1).await;
        engine.write(0, Bytes::from_static(b"squid")).await.unwrap();
        plan.corrupt_byte(0, 0x20);
        plan.release(Operation::Read);
        assert_eq!(task.await.unwrap().unwrap(), &b"Squid"[..]);
    });
}

#[test]
fn a_torn_write_fails_and_a_lost_one_does_not() {
    on_memory(async |engine, plan| {
        plan.tear(0, 2);
        plan.lose(1);
        assert!(engine.write(0, Bytes::from_static(b"squid")).await.is_err());
        assert!(
            engine
                .write(512, Bytes::from_static(b"squid"))
                .await
                .is_ok()
        );
        assert_eq!(engine.read(0, 5).await.unwrap(), &b"sq\0\0\0"[..]);
        assert_eq!(engine.read(512, 5).await.unwrap(), &b"\0\0\0\0\0"[..]);
    });
}

#[test]
fn content_stays_from_engine_to_engine() {
    let device = Device::memory(4096);
    let first = Arc::clone(&device);
    on_worker(EngineKind::Auto, first, async |engine| {
        engine.write(0, Bytes::from_static(b"squid")).await.unwrap();
    });
    on_worker(EngineKind::Threads, device, async |engine| {
        assert_eq!(engine.read(0, 5).await.unwrap(), &b"squid"[..]);
    });
}

#[test]
fn a_device_that_hangs_holds_up_no_other() {
    let plan = FaultPlan::new();
    let hanging = Device::faulty(1 << 20, plan.clone());
    plan.hold(Operation::Read);
    on_worker(EngineKind::Threads, hanging, async |engine| {
        // More than one device has threads.
        let reads = (0..40).map(|_| {
            let engine = Rc::clone(&engine);
            spawn_local(async move { engine.read(0, 512).await })
        });
        let reads: Vec<_> = reads.collect();
        plan.until_held(16).await;
        let other = Engine::new(EngineKind::Threads, Device::memory(4096)).unwrap();
        other.read(0, 512).await.unwrap();
        plan.release(Operation::Read);
        for read in reads {
            read.await.unwrap().unwrap();
        }
    });
}

#[test]
fn what_was_left_at_a_silent_device_is_counted_until_it_answers() {
    on_memory(async |engine, plan| {
        let health = Rc::clone(&engine);
        let health = health.device().health();
        plan.hold(Operation::Read);
        let reads: Vec<_> = (0..3)
            .map(|_| {
                let engine = Rc::clone(&engine);
                spawn_local(async move { engine.read(0, 512).await })
            })
            .collect();
        plan.until_held(3).await;
        assert_eq!(health.abandoned_bytes(), 0);
        for read in reads {
            read.abort();
            assert!(read.await.unwrap_err().is_cancelled());
        }
        assert_eq!(health.abandoned_bytes(), 3 * 512);
        while health.silent_for().is_zero() {
            tokio::task::yield_now().await;
        }
        plan.release(Operation::Read);
        while engine.in_flight() > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(health.abandoned_bytes(), 0);
        assert!(health.silent_for().is_zero());
    });
}

#[test]
fn a_probe_waits_as_reads_do_and_then_says_that_the_device_answers() {
    let plan = FaultPlan::new();
    let device = Device::faulty(1 << 20, plan.clone());
    plan.hold(Operation::Read);
    let probing = std::thread::spawn({
        let device = Arc::clone(&device);
        move || device.probe(1)
    });
    while plan.held() == 0 {
        std::thread::yield_now();
    }
    plan.fail_all(Operation::Read);
    plan.release(Operation::Read);
    probing.join().unwrap();
    assert_eq!(plan.counts().faults, 1, "an error is an answer");
}
