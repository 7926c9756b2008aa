//! Random operations, many at once, against a plain array of bytes.

use std::rc::Rc;
use std::sync::Arc;

use crate::common::{file, kinds, on_worker};
use bytes::Bytes;
use device::{Device, EngineKind, FaultPlan, Operation};
use proptest::prelude::*;
use tokio::task::spawn_local;

const SIZE: usize = 256 << 10;
const BLOCK: usize = 4096;
const BLOCKS: usize = SIZE / BLOCK;

/// What happens together: writes of whole blocks, then, when they are answered, reads of any range.
#[derive(Clone, Debug)]
struct Round {
    /// (first block, blocks, byte); where two overlap the later is left out, as their order would be anybody's guess
    writes: Vec<(usize, usize, u8)>,
    /// (at, len, the waiter stays)
    reads: Vec<(usize, usize, bool)>,
}

fn round() -> impl Strategy<Value = Round> {
    let writes = prop::collection::vec((0..BLOCKS, 1usize..9, any::<u8>()), 0..20);
    let reads = prop::collection::vec((0..SIZE, 1usize..30_000, prop::bool::weighted(0.8)), 0..20);
    (writes, reads).prop_map(|(writes, reads)| Round { writes, reads })
}

fn check(kind: EngineKind, device: Arc<Device>, rounds: &[Round]) {
    let mut model = vec![0u8; SIZE];
    device.write_all_sync(0, &model).unwrap();
    on_worker(kind, device, async |engine| {
        for round in rounds {
            let mut taken = [false; BLOCKS];
            let mut tasks = Vec::new();
            for &(first, blocks, byte) in &round.writes {
                let last = (first + blocks).min(BLOCKS);
                if taken[first..last].contains(&true) {
                    continue;
                }
                taken[first..last].fill(true);
                model[first * BLOCK..last * BLOCK].fill(byte);
                let (engine, data) = (Rc::clone(&engine), vec![byte; (last - first) * BLOCK]);
                tasks.push(spawn_local(async move {
                    engine
                        .write((first * BLOCK) as u64, Bytes::from(data))
                        .await
                        .unwrap();
                }));
            }
            for task in tasks.drain(..) {
                task.await.unwrap();
            }
            for &(at, len, stays) in &round.reads {
                let (engine, len) = (Rc::clone(&engine), len.min(SIZE - at));
                let expected = model[at..at + len].to_vec();
                let task = spawn_local(async move {
                    assert!(
                        engine.read(at as u64, len).await.unwrap() == expected,
                        "{len} bytes at {at}"
                    );
                });
                if stays {
                    tasks.push(task);
                } else {
                    tokio::task::yield_now().await;
                    task.abort();
                }
            }
            for task in tasks {
                task.await.unwrap();
            }
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn files_are_arrays_of_bytes(rounds in prop::collection::vec(round(), 1..6), direct: bool) {
        for kind in kinds() {
            let (_directory, _, device) = file(SIZE as u64, direct);
            check(kind, device, &rounds);
        }
    }

    #[test]
    fn memory_is_an_array_of_bytes_also_piece_by_piece(
        rounds in prop::collection::vec(round(), 1..6), read_max in 1usize..5000, write_max in 1usize..5000,
    ) {
        for kind in [EngineKind::Auto, EngineKind::Threads] {
            let plan = FaultPlan::new();
            plan.shorten(Operation::Read, read_max);
            plan.shorten(Operation::Write, write_max);
            check(kind, Device::faulty(SIZE, plan), &rounds);
        }
    }
}
