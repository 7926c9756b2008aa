//! The cost of a random read of 10 KiB: CPU time of the whole process per read, by engine, direct and through the
//! page cache.
//!
//! `cargo bench -p device` measures; `-- --test` only runs it, tiny. `-- --dir DIR` says on which file system.
//! Buffered reads find pages in the cache that were read before. To keep their share small, the pages are dropped
//! before each run, and the reads touch a small part of the file.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use device::{AlignedBuf, Device, Engine, EngineKind, OpenOptions};
use rustix::fs::Advice;
use rustix::time::{ClockId, clock_gettime};

const READ_BYTES: usize = 10 << 10;
const SLOT_BYTES: u64 = 12 << 10;

struct Plan {
    file_bytes: u64,
    reads: u64,
    runs: usize,
    tasks: u64,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let tiny = arguments.iter().any(|a| a == "--test") || !arguments.iter().any(|a| a == "--bench");
    let plan = if tiny {
        Plan {
            file_bytes: 8 << 20,
            reads: 200,
            runs: 1,
            tasks: 16,
        }
    } else {
        Plan {
            file_bytes: 4 << 30,
            reads: 30_000,
            runs: 5,
            tasks: 32,
        }
    };
    let parent = arguments
        .iter()
        .position(|a| a == "--dir")
        .and_then(|i| arguments.get(i + 1));
    let parent = parent.map_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let directory = tempfile::tempdir_in(parent).expect("a directory for the file");
    let path = directory.path().join("bench");

    let open = |direct| {
        let options = OpenOptions {
            size_bytes: Some(plan.file_bytes),
            create: true,
            direct,
            ..OpenOptions::default()
        };
        Device::open(&path, options)
            .expect("the bench's own file opens")
            .device
    };
    let device = open(true);
    let mut piece = AlignedBuf::zeroed(1 << 20);
    for at in (0..plan.file_bytes).step_by(1 << 20) {
        piece.fill((at >> 20) as u8);
        device
            .write_all_sync(at, &piece)
            .expect("the file takes its data");
    }
    device.flush_sync().expect("the file is flushed");
    println!(
        "{} reads of {READ_BYTES} bytes, {} at once, file of {} MiB",
        plan.reads,
        plan.tasks,
        plan.file_bytes >> 20
    );
    drop(device);

    let kinds = [EngineKind::Uring, EngineKind::Threads];
    let cases: Vec<_> = [true, false]
        .into_iter()
        .flat_map(|direct| kinds.map(|kind| (kind, direct)))
        .collect();
    let mut figures = vec![Vec::new(); cases.len()];
    for run in 0..plan.runs {
        for (&(kind, direct), figures) in cases.iter().zip(&mut figures) {
            // If direct I/O is refused, the figure would measure buffered reads: stop.
            let device = open(direct);
            if device.is_direct() != direct {
                continue;
            }
            drop_pages(&path);
            if let Some(figure) = measure(kind, device, &plan, run as u64) {
                figures.push(figure);
            }
        }
    }
    for ((kind, direct), mut figures) in cases.into_iter().zip(figures) {
        let how = if direct { "direct" } else { "buffered" };
        figures.sort_by(|a: &Figure, b| a.cpu_us.total_cmp(&b.cpu_us));
        match figures.get(figures.len() / 2) {
            Some(middle) => println!(
                "{:8} {how:9} {:6.2} us CPU a read ({:.2} to {:.2}), {:6.0} reads/s",
                format!("{kind:?}"),
                middle.cpu_us,
                figures[0].cpu_us,
                figures[figures.len() - 1].cpu_us,
                middle.rate
            ),
            None => println!("{:8} {how:9} not to be had here", format!("{kind:?}")),
        }
    }
}

#[derive(Clone, Copy)]
struct Figure {
    cpu_us: f64,
    rate: f64,
}

fn measure(kind: EngineKind, device: Arc<Device>, plan: &Plan, seed: u64) -> Option<Figure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    let slots = device.size() / SLOT_BYTES;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let engine = Rc::new(Engine::new(kind, device).ok()?);
        engine.start();
        let (cpu, began) = (cpu_us(), Instant::now());
        let tasks: Vec<_> = (0..plan.tasks)
            .map(|task| {
                let (engine, reads) = (Rc::clone(&engine), plan.reads / plan.tasks);
                tokio::task::spawn_local(async move {
                    let mut random = seed << 32 | task << 16 | 1;
                    for _ in 0..reads {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let at = (random >> 20) % slots * SLOT_BYTES;
                        let bytes = engine.read(at, READ_BYTES).await.expect("a read");
                        assert_eq!(bytes[0], (at >> 20) as u8);
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("a reader");
        }
        let reads = (plan.reads / plan.tasks * plan.tasks) as f64;
        Some(Figure {
            cpu_us: (cpu_us() - cpu) / reads,
            rate: reads / began.elapsed().as_secs_f64(),
        })
    })
}

/// CPU of all threads of the process, user and system, in microseconds.
fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

fn drop_pages(path: &std::path::Path) {
    let file = std::fs::File::open(path).expect("the bench's own file opens");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("the kernel takes advice");
}
