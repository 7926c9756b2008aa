//! Measures the time and memory of a report: invented requests of a day, in the order in which they ended.
//!
//! `cargo run --release -p report --example speed -- 10000000 1200` takes ten million requests at 1,000 a second, in slots of 1,200 s.
//! The records go through the profile format, as with a file; the time to invent them is measured and subtracted.

use std::io::{self, BufRead, Read};
use std::time::{Duration, Instant};

use profile::{
    Class, Event, Flags, Hierarchy, Item, Names, Reader, Record, Stage, StageName, Write,
    write_file_header,
};
use report::model::SourceKind;
use report::{Builder, Known, Options, Source};

/// 22 November 2026.
const BEGIN_US: u64 = 1_795_305_600_000_000;
/// One request each 1,000 us: 1,000 a second.
const STEP_US: u64 = 1_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: u64 = std::env::args()
        .nth(1)
        .map_or(Ok(20_000), |text| text.parse())?;
    let made = Instant::now();
    let bytes = io::copy(&mut MadeUp::new(count), &mut io::sink())?;
    let making = made.elapsed();

    let source = Source {
        name: "made up".to_owned(),
        level: None,
        kind: SourceKind::Profile,
        known: Known::PROFILE,
    };
    let mut builder = Builder::new(source, Options::default());
    let began = Instant::now();
    for item in Reader::new(MadeUp::new(count))? {
        match item? {
            Item::Request(record) => builder.request(&record)?,
            Item::Event(event) => builder.event(&event)?,
        }
    }
    let fed = began.elapsed();
    let fed_peak = peak_bytes();
    if let Some(slot) = std::env::args().nth(2) {
        builder.set_slot(Duration::from_secs(slot.parse()?));
    }
    let report = builder.finish()?;
    let all = began.elapsed();
    println!(
        "{count} requests, {bytes} bytes of profile, {} slots of {} s: made up in {:.1} s; fed in {:.1} s, finished in {:.1} s; \
         {:.1} s without making them up: {:.0} ns a request; peak memory {} MB fed, {} MB in all; median of misses {:.3} ms",
        report.slots.len(),
        report.slot_us / 1_000_000,
        making.as_secs_f64(),
        fed.as_secs_f64(),
        (all - fed).as_secs_f64(),
        (all.saturating_sub(making)).as_secs_f64(),
        all.saturating_sub(making).as_nanos() as f64 / count as f64,
        fed_peak >> 20,
        peak_bytes() >> 20,
        report
            .measure("5.miss.p50")
            .and_then(|m| m.value)
            .unwrap_or(f64::NAN),
    );
    assert_eq!(report.requests, count);
    Ok(())
}

/// The largest resident memory of this process so far.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// A profile that is generated while it is read.
struct MadeUp {
    next: u64,
    count: u64,
    seed: u64,
    buffer: Vec<u8>,
    at: usize,
    cluster: u64,
}

impl MadeUp {
    fn new(count: u64) -> Self {
        let mut buffer = Vec::new();
        write_file_header(1, &mut buffer);
        MadeUp {
            next: 0,
            count,
            seed: 7,
            buffer,
            at: 0,
            cluster: 1,
        }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        (self.seed >> 11) % below
    }

    /// Mostly small values, some a hundred times as large.
    fn skewed(&mut self, scale: u64) -> u32 {
        let (a, b) = (self.random(1000) + 1, self.random(1000) + 1);
        (scale * 1000 / a * b / 1000 + 1) as u32
    }

    fn push(&mut self) {
        let began = BEGIN_US + self.next * STEP_US + self.random(STEP_US);
        let mut record = Record::begun(began.saturating_sub(self.random(50_000)));
        // Popular documents have small numbers.
        let key = self.random(1 << 12) * self.random(1 << 12);
        record.names = Some(Names {
            key: key.wrapping_mul(0x9e37_79b9_7f4a_7c15),
            client: self.random(800) as u32 + 1,
            server: 0,
        });
        record.bytes_out = self.skewed(4_000).into();
        record.object_bytes = record.bytes_out;
        record.status = 200;
        record.flags = Flags::default().with(Flags::REUSED_CLIENT, self.random(10) > 0);
        let kind = self.random(100);
        let mut at = 0;
        let mut add = |record: &mut Record, name: StageName, us: u32| {
            record.set_stage(
                name,
                Stage {
                    start_us: at,
                    first_us: us / 3,
                    total_us: us,
                },
            );
            at += us;
        };
        if !record.flags.contains(Flags::REUSED_CLIENT) {
            add(&mut record, StageName::ClientConnect, self.skewed(300));
        }
        match kind {
            0..30 => record.class = Class::MemoryHit,
            30..45 => {
                record.class = Class::DiskHit;
                record.device_reads = 1 + self.random(3) as u8;
                add(&mut record, StageName::SwapIn, self.skewed(500));
            }
            45..50 => (record.class, record.status) = (Class::ImsHit, 304),
            _ => {
                record.class = if kind < 85 {
                    Class::Miss
                } else {
                    Class::Uncachable
                };
                record.hierarchy = Hierarchy::Direct;
                record.bytes_in = record.bytes_out;
                add(&mut record, StageName::Dns, 0);
                add(&mut record, StageName::ProxyConnect, self.skewed(800));
                add(&mut record, StageName::ServerReply, self.skewed(20_000));
                if kind < 85 {
                    record.cluster = self.cluster;
                    add(&mut record, StageName::SwapOut, self.skewed(20));
                }
            }
        }
        add(&mut record, StageName::ProxyReply, self.skewed(200));
        record.total_us = at;
        record.encode(&mut self.buffer);
        self.next += 1;
        if self.next.is_multiple_of(100) {
            let write = Write {
                start_unix_us: began,
                total_us: self.skewed(3_000),
                bytes: 1 << 20,
                records: 35,
                store: 0,
                cluster: self.cluster,
            };
            Event::Write(write).encode(&mut self.buffer);
            self.cluster += 1;
        }
    }
}

impl BufRead for MadeUp {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.at == self.buffer.len() {
            self.buffer.clear();
            self.at = 0;
            while self.buffer.len() < 64 << 10 && self.next < self.count {
                self.push();
            }
        }
        Ok(&self.buffer[self.at..])
    }

    fn consume(&mut self, bytes: usize) {
        self.at += bytes;
    }
}

impl Read for MadeUp {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let bytes = available.len().min(into.len());
        into[..bytes].copy_from_slice(&available[..bytes]);
        self.consume(bytes);
        Ok(bytes)
    }
}
