//! Engines on real files: both kinds, direct and through the page cache.

use std::fs::OpenOptions as StdOpenOptions;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use crate::common::*;
use bytes::Bytes;
use device::{AlignedBuf, Engine, EngineKind, IoFault};
use tokio::task::spawn_local;

const MIB: u64 = 1 << 20;

/// Begins an operation as a task would, and leaves it at once.
fn begin_and_leave(operation: impl Future) {
    let mut operation = Box::pin(operation);
    let _ = operation
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()));
}

/// Waits until nothing is in flight, by doing other things.
async fn drain(engine: &Engine) {
    while engine.in_flight() > 0 {
        engine.read(0, 1).await.unwrap();
        tokio::task::yield_now().await;
    }
}

#[test]
fn many_writes_and_reads_at_once_keep_apart() {
    on_every_file(8 * MIB, async |engine| {
        let writes: Vec<_> = (0..128u64)
            .map(|n| {
                let engine = Rc::clone(&engine);
                spawn_local(async move {
                    engine
                        .write(n * 65_536, pattern(n * 65_536, 65_536).into())
                        .await
                })
            })
            .collect();
        for write in writes {
            write.await.unwrap().unwrap();
        }
        engine.flush().await.unwrap();
        let reads: Vec<_> = (0..1000u64)
            .map(|n| {
                let engine = Rc::clone(&engine);
                let (at, len) = (n * 7919 % (7 * MIB), (n * 131 % 20_000 + 1) as usize);
                spawn_local(async move { (at, len, engine.read(at, len).await) })
            })
            .collect();
        for read in reads {
            let (at, len, bytes) = read.await.unwrap();
            assert!(bytes.unwrap() == pattern(at, len), "{len} bytes at {at}");
        }
        assert_eq!(engine.in_flight(), 0);
    });
}

#[test]
fn five_thousand_reads_go_through_a_ring_of_256() {
    on_every_file(8 * MIB, async |engine| {
        engine
            .device()
            .write_all_sync(0, &pattern(0, 8 << 20))
            .unwrap();
        let reads: Vec<_> = (0..5000u64)
            .map(|n| {
                let engine = Rc::clone(&engine);
                let at = n * 1600 % (7 * MIB);
                spawn_local(async move { (at, engine.read(at, 10_240).await) })
            })
            .collect();
        for read in reads {
            let (at, bytes) = read.await.unwrap();
            assert!(bytes.unwrap() == pattern(at, 10_240), "at {at}");
        }
    });
}

#[test]
fn operations_go_on_when_their_waiter_leaves() {
    on_every_file(8 * MIB, async |engine| {
        for n in 0..100u64 {
            let data = Bytes::from(pattern(n * 4096, 4096));
            begin_and_leave(engine.write(n * 4096, data));
            begin_and_leave(engine.read(4 * MIB + n * 4096, 4096));
        }
        drain(&engine).await;
        let bytes = engine.read(0, 409_600).await.unwrap();
        assert!(bytes == pattern(0, 409_600));
    });
}

#[test]
fn waiters_leave_while_the_kernel_works_and_memory_stays_whole() {
    on_every_file(8 * MIB, async |engine| {
        engine
            .device()
            .write_all_sync(0, &pattern(0, 8 << 20))
            .unwrap();
        for round in 0..20u64 {
            let tasks: Vec<_> = (0..64u64)
                .map(|n| {
                    let engine = Rc::clone(&engine);
                    let at = (round * 64 + n) * 5000;
                    spawn_local(async move {
                        assert!(engine.read(at, 9000).await.unwrap() == pattern(at, 9000))
                    })
                })
                .collect();
            // The tasks run, the driver submits; then every second waiter goes.
            tokio::task::yield_now().await;
            tasks.iter().step_by(2).for_each(|task| task.abort());
            for task in tasks {
                match task.await {
                    Ok(()) => {}
                    Err(error) => assert!(error.is_cancelled(), "{error}"),
                }
            }
        }
        drain(&engine).await;
    });
}

#[test]
fn any_alignment_can_be_read_and_whole_blocks_written() {
    on_every_file(MIB, async |engine| {
        let device = engine.device();
        device.write_all_sync(0, &pattern(0, 1 << 20)).unwrap();
        for (at, len) in [
            (0, 1),
            (1, 511),
            (511, 2),
            (4095, 4098),
            (MIB - 1, 1),
            (MIB - 10_000, 10_000),
        ] {
            assert!(
                engine.read(at, len).await.unwrap() == pattern(at, len),
                "{len} bytes at {at}"
            );
        }
        assert!(engine.read(77, 0).await.unwrap().is_empty());
        // Memory that begins anywhere is copied; a range that is not whole blocks cannot be written in one go.
        let block = device.logical_block_bytes() as usize;
        let anywhere = Bytes::from(vec![7; block + 1]).slice(1..);
        engine.write(block as u64, anywhere).await.unwrap();
        assert_eq!(
            engine.read(block as u64, block).await.unwrap(),
            vec![7; block]
        );
        let odd = engine
            .write(block as u64 + 1, Bytes::from(vec![8; block]))
            .await;
        if device.is_direct() {
            assert!(matches!(odd, Err(IoFault::Misaligned { .. })));
        } else {
            odd.unwrap();
        }
        // Blocking writes may: the neighbours stay.
        device.write_all_sync(100_001, b"squid").unwrap();
        let mut around = [0; 7];
        device.read_exact_sync(100_000, &mut around).unwrap();
        let expected = [&pattern(100_000, 1), &b"squid"[..], &pattern(100_006, 1)].concat();
        assert_eq!(&around[..], expected);
    });
}

#[test]
fn the_end_of_the_file_is_short_and_never_moves() {
    for kind in kinds() {
        for direct in [true, false] {
            let (_directory, path, device) = file(MIB, direct);
            on_worker(kind, device, async |engine| {
                let past = engine
                    .write(MIB - 4096, AlignedBuf::zeroed(8192).into_bytes())
                    .await;
                assert!(matches!(past, Err(IoFault::PastEnd { .. })));
                let beyond = engine.read(MIB - 100, 200).await;
                assert!(
                    matches!(
                        beyond,
                        Err(IoFault::Short {
                            got: 100,
                            wanted: 200,
                            ..
                        })
                    ),
                    "{beyond:?}"
                );
                let far = engine.read(u64::MAX - 4, 200).await;
                assert!(matches!(far, Err(IoFault::Short { got: 0, .. })), "{far:?}");
                // Somebody cuts the file behind our back.
                StdOpenOptions::new()
                    .write(true)
                    .open(&path)
                    .unwrap()
                    .set_len(10_000)
                    .unwrap();
                let cut = engine.read(8192, 4096).await;
                assert!(
                    matches!(cut, Err(IoFault::Short { got: 1808, .. })),
                    "{cut:?}"
                );
                engine.read(9000, 1000).await.unwrap();
            });
        }
    }
}

#[test]
fn an_engine_dropped_at_work_finishes_its_writes() {
    for kind in kinds() {
        let (_directory, path, device) = file(4 * MIB, true);
        on_worker(kind, device, async |engine| {
            for n in 0..1024u64 {
                begin_and_leave(engine.write(n * 4096, Bytes::from(pattern(n * 4096, 4096))));
            }
            // Two more turns: some are with the kernel now, some wait.
            tokio::task::yield_now().await;
            for n in 0..100u64 {
                begin_and_leave(engine.read(n * 4096, 100_000));
            }
            if engine.name() == "threads" {
                drain(&engine).await;
            }
        });
        let read = std::fs::read(&path).unwrap();
        assert!(read == pattern(0, 4 << 20), "{kind:?}");
    }
}

#[test]
fn a_dropped_engine_leaves_nothing_behind() {
    for kind in kinds() {
        let (_directory, path, device) = file(MIB, true);
        let kept = Arc::clone(&device);
        on_worker(kind, device, async |engine| {
            engine.read(0, 4096).await.unwrap();
            drop(engine);
            tokio::task::yield_now().await;
            assert_eq!(Arc::strong_count(&kept), 1, "the driver has stopped");
        });
        drop(kept);
        create(&path, MIB, true).expect("the lock is free again");
    }
}

#[test]
fn operations_begun_before_start_wait_for_it() {
    for kind in kinds() {
        let (_directory, _, device) = file(MIB, false);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let engine = Rc::new(Engine::new(kind, device).unwrap());
            let reader = Rc::clone(&engine);
            let early = spawn_local(async move { reader.read(0, 100).await });
            tokio::task::yield_now().await;
            engine.start();
            engine.start();
            assert_eq!(early.await.unwrap().unwrap(), vec![0; 100]);
        });
    }
}

#[test]
fn two_engines_share_a_device() {
    for kind in kinds() {
        let (_directory, _, device) = file(MIB, true);
        let workers: Vec<_> = (0..2u64)
            .map(|n| {
                let device = Arc::clone(&device);
                std::thread::spawn(move || {
                    on_worker(kind, device, async |engine| {
                        for i in 0..50u64 {
                            let at = (2 * i + n) * 4096;
                            engine
                                .write(at, Bytes::from(pattern(at, 4096)))
                                .await
                                .unwrap();
                            assert!(engine.read(at, 4096).await.unwrap() == pattern(at, 4096));
                        }
                    });
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        let mut all = vec![0; 409_600];
        device.read_exact_sync(0, &mut all).unwrap();
        assert!(all == pattern(0, 409_600));
    }
}

#[test]
fn auto_takes_the_best_there_is() {
    let best = kinds()[0];
    let (_directory, _, device) = file(MIB, false);
    on_worker(EngineKind::Auto, device, async |engine| {
        assert_eq!(
            engine.name(),
            if best == EngineKind::Uring {
                "io_uring"
            } else {
                "threads"
            }
        );
    });
}

#[test]
fn what_the_kernels_threads_carry_out_is_the_same() {
    on_every_file(8 * MIB, async |engine| {
        engine.device().health().submit_aside();
        for at in (0..8 * MIB).step_by(1 << 20) {
            engine.write(at, pattern(at, 1 << 20).into()).await.unwrap();
        }
        engine.flush().await.unwrap();
        for at in [0, 4096, 700_001] {
            assert_eq!(engine.read(at, 70_000).await.unwrap(), pattern(at, 70_000));
        }
    });
}
