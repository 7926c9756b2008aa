//! Why BUDDY is faster here than in Figure 4 of paper 002: the run again, in other circumstances that the paper does not exclude.
//!
//! ```text
//! cargo run --release -p lab --example buddy
//! ```

use std::collections::HashSet;
use std::io;

use lab::disks::drive::Drive;
use lab::disks::machine::Machine;
use lab::disks::ufs::Ufs;
use lab::disks::{Calls, DirId, Disk, FileId, Piece};
use lab::managers::{Kind, Settings, make};
use lab::paper::experiment::run;
use lab::paper::printed;
use lab::paper::source::{Caches, Source, Until};

/// A disk on which files of an earlier run may lie: to make one of those is to open it, as `open(O_CREAT)` does.
struct Again {
    disk: Ufs,
    known: HashSet<FileId>,
    /// Whether each write is followed by waiting for the device, as with `O_SYNC`.
    waits: bool,
}

impl Disk for Again {
    fn now_us(&self) -> u64 {
        self.disk.now_us()
    }
    fn start(&mut self) -> io::Result<()> {
        self.disk.start()
    }
    fn begin(&mut self) {
        self.disk.begin();
    }
    fn make_dir(&mut self, dir: DirId, parent: DirId) -> io::Result<()> {
        self.disk.make_dir(dir, parent)
    }
    fn create(&mut self, file: FileId) -> io::Result<()> {
        if self.known.insert(file) {
            self.disk.create(file)
        } else {
            self.disk.open(file)
        }
    }
    fn reserve(&mut self, file: FileId, bytes: u64) -> io::Result<()> {
        self.disk.reserve(file, bytes)
    }
    fn open(&mut self, file: FileId) -> io::Result<()> {
        self.disk.open(file)
    }
    fn write(&mut self, file: FileId, at_byte: u64, pieces: &[Piece]) -> io::Result<()> {
        self.disk.write(file, at_byte, pieces)?;
        if self.waits {
            self.disk.finish()
        } else {
            Ok(())
        }
    }
    fn read(&mut self, file: FileId, at_byte: u64, piece: Piece) -> io::Result<()> {
        self.disk.read(file, at_byte, piece)
    }
    fn read_together(&mut self, file: FileId, pieces: &[(u64, Piece)]) -> io::Result<()> {
        self.disk.read_together(file, pieces)
    }
    fn close(&mut self, file: FileId) -> io::Result<()> {
        self.disk.close(file)
    }
    fn delete(&mut self, file: FileId) -> io::Result<()> {
        self.known.remove(&file);
        self.disk.delete(file)
    }
    fn finish(&mut self) -> io::Result<()> {
        self.disk.finish()
    }
    fn calls(&self) -> Calls {
        self.disk.calls()
    }
    fn figures(&self) -> Vec<(String, f64)> {
        self.disk.figures()
    }
}

/// Gets a second, seconds, device reads and device writes of the last of `runs` runs.
fn buddy(
    machine: Machine,
    waits: bool,
    runs: usize,
    disk_bytes: u64,
    requests: usize,
) -> io::Result<[f64; 4]> {
    let caches = Caches {
        disk_bytes,
        ..Caches::PAPER
    };
    let load = Source::Fitted { seed: 1 }.workload(caches, Until::Requests(requests), 1, true)?;
    let mut disk = Again {
        disk: Ufs::new(machine, Box::new(Drive::of_1999())),
        known: HashSet::new(),
        waits,
    };
    let mut answer = [0.0; 4];
    for _ in 0..runs {
        let mut manager = make(Kind::Buddy, &Settings::default());
        let outcome = run(
            manager.as_mut(),
            &mut disk,
            &load.requests,
            load.counts.gets,
            |_| true,
        )?;
        let figure = |name: &str| outcome.figures.get(name).copied().unwrap_or(0.0);
        answer = [
            outcome.gets_per_s,
            outcome.seconds,
            figure("device reads"),
            figure("device writes"),
        ];
    }
    Ok(answer)
}

fn main() -> io::Result<()> {
    let usual = Machine::ultra_1;
    let small = || Machine {
        page_cache_bytes: 4 << 20,
        ..Machine::ultra_1()
    };
    println!(
        "| BUDDY | Figure 4 (gets/s) | s | device reads | device writes | a million (gets/s) |"
    );
    println!("|---|--:|--:|--:|--:|--:|");
    println!("| paper | 133 | 2993 | | | 133 |");
    for (name, machine, waits, runs) in [
        ("as in the lab", usual(), false, 1),
        ("4 MB of pages instead of 16", small(), false, 1),
        ("files left by a run before", usual(), false, 2),
        ("both", small(), false, 2),
        ("every write waited for", usual(), true, 1),
        ("files left, every write waited for", usual(), true, 2),
    ] {
        let short = buddy(
            machine.clone(),
            waits,
            runs,
            printed::FIGURE_4_DISK_BYTES,
            printed::FIGURE_4_REQUESTS,
        )?;
        let long = buddy(machine, waits, runs, printed::DISK_BYTES, printed::REQUESTS)?;
        println!(
            "| {name} | {:.0} | {:.0} | {} | {} | {:.0} |",
            short[0], short[1], short[2], short[3], long[0]
        );
    }
    Ok(())
}
