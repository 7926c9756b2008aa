//! BUDDY in Figure 4 of paper 002, in circumstances that the paper does not exclude, and what those make of the paper's other statement about
//! BUDDY: streams are 2.0 and 2.5 times as fast.
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
use lab::paper::experiment::{Outcome, run};
use lab::paper::printed;
use lab::paper::source::{Caches, Source, Until};
use lab::paper::workload::Workload;

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

/// Circumstances that the paper does not exclude.
struct Circumstances {
    name: &'static str,
    /// Bytes of the file system's page cache.
    pages_bytes: u64,
    /// Whether a run before has left its files.
    left: bool,
    /// Whether every write is waited for.
    waits: bool,
}

impl Circumstances {
    fn run(&self, kind: Kind, load: &Workload) -> io::Result<Outcome> {
        let machine = Machine {
            page_cache_bytes: self.pages_bytes,
            ..Machine::ultra_1()
        };
        let mut disk = Again {
            disk: Ufs::new(machine, Box::new(Drive::of_1999())),
            known: HashSet::new(),
            waits: self.waits,
        };
        let settings = Settings {
            file_bytes: load.file_bytes(0.71),
            ..Settings::default()
        };
        let mut once = || {
            let mut manager = make(kind, &settings);
            let gets = load.counts.gets;
            run(manager.as_mut(), &mut disk, &load.requests, gets, |_| true)
        };
        if self.left {
            once()?;
        }
        once()
    }
}

fn main() -> io::Result<()> {
    let load = |disk_bytes, requests| {
        let caches = Caches {
            disk_bytes,
            ..Caches::PAPER
        };
        let source = Source::Fitted { seed: 1 };
        source.workload(caches, Until::Requests(requests), 1, true)
    };
    let short = load(printed::FIGURE_4_DISK_BYTES, printed::FIGURE_4_REQUESTS)?;
    let long = load(printed::DISK_BYTES, printed::REQUESTS)?;
    let usual = Machine::ultra_1().page_cache_bytes;
    let few = 4 << 20;
    println!(
        "| | BUDDY, Figure 4: ms a request | requests/s | gets/s | a million: requests/s | gets/s | STREAM / BUDDY | STREAM-PACKETIZER / BUDDY |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    println!("| paper | below 9 | 133 | | | | 2.0 | 2.5 |");
    let all = [
        ("as in the lab", usual, false, false),
        ("4 MB of pages instead of 16", few, false, false),
        ("files left by a run before", usual, true, false),
        ("both", few, true, false),
        ("every write waited for", usual, false, true),
        ("files left, every write waited for", usual, true, true),
    ];
    for (name, pages_bytes, left, waits) in all {
        let here = Circumstances {
            name,
            pages_bytes,
            left,
            waits,
        };
        let figure_4 = here.run(Kind::Buddy, &short)?;
        let [buddy, stream, pack] =
            [Kind::Buddy, Kind::Stream, Kind::StreamPacketizer].map(|kind| here.run(kind, &long));
        let buddy = buddy?;
        println!(
            "| {} | {:.2} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} |",
            here.name,
            1e3 / figure_4.requests_per_s,
            figure_4.requests_per_s,
            figure_4.gets_per_s,
            buddy.requests_per_s,
            buddy.gets_per_s,
            stream?.requests_per_s / buddy.requests_per_s,
            pack?.requests_per_s / buddy.requests_per_s
        );
    }
    Ok(())
}
