//! Forty made-up requests, and every measure of them worked out by hand.
//!
//! Two slots of a minute. The numbers are chosen so that sorted lists can be read off: hit number `i` takes `i` ms, miss `m` takes `m` ms.
//!
//! | requests | when (s) | class | sent, object (bytes) | stages (ms) |
//! |---|---|---|---|---|
//! | hits 1 to 10 | 0 to 9 | 1-4 memory, 5-7 IMS, 8-9 disk, 10 negative (404) | 1000, 900; 200, 900; 10000, 9900; 500, 400 | client connect i/10 (half of it to the first byte), proxy reply i/5 |
//! | hits 11 to 17 | 60 to 66 | 11-12 memory, 13 IMS, 14-16 disk, 17 revalidated | the same; 17: 2000, 1900 | the same; 17: proxy connect 3, server reply 4 |
//! | disk hits | | 8 and 14 in one read, 9, 15, 16 in two | | swap-in i/10, first page 0.4 |
//! | misses 100, 110 .. 190 | 20 to 29 | 100 collapsed | 100: 9000, 8900; others 1500, 1400 | proxy reply m/20; but 100: client connect m/100 (half to the first byte), proxy connect m/10 or, for 110, 120, 130 over used connections, 0.1, 0.2, 0.3; server reply m/2; swap-out m/1000, first m/10000 |
//! | misses 200, 210 .. 260 | 80 to 86 | 200 collapsed | 200: 9000, 8900; others 70000, 69900 | the same; 210 over a used connection, 0.4 |
//! | uncachable 50, 60 and 70 | 40, 41 and 90 | | 6000, 5900 | proxy connect 5, 6, 7; server reply 25, 30, 35; proxy reply 1, 2, 3; 50: client connect 5 (first byte at 1) on a used connection |
//! | error 5 | 42 | | 300, - | client connect 9.9 (first byte at 0), proxy reply 0.5 |
//! | an aborted miss | 10 to 95 | | 100, - | proxy connect 1, server reply to its end |
//! | a tunnel | 91 to 120 | | | |
//!
//! Misses 110 to 150 are in cluster 1, written from 30 to 50 s; 210 to 260 in cluster 2, written from 100 to 120 s; 160 to 190 in no cluster that is known.
//! "The 9th of 17" means the 9th smallest of 17 values.

use profile::{
    Class, Encryption, Event, Flags, Gauge, Hierarchy, Names, Protocol, Read, Record, Second,
    Stage, StageName, Subject, Write,
};
use report::model::{SourceKind, SourceReport};
use report::{Builder, Known, Options, Source, measures};
use std::time::Duration;

/// Midnight.
const BASE_US: u64 = 1_795_305_600_000_000;

fn at(seconds: u64) -> u64 {
    BASE_US + seconds * 1_000_000
}

fn us(ms: f64) -> u32 {
    (ms * 1000.0).round() as u32
}

fn stage(first_ms: f64, total_ms: f64) -> Stage {
    Stage {
        start_us: 0,
        first_us: us(first_ms),
        total_us: us(total_ms),
    }
}

fn request(seconds: u64, class: Class, status: u16, total_ms: f64, key: u64) -> Record {
    let client = match class {
        Class::Miss | Class::Collapsed => 2,
        Class::Uncachable | Class::Error | Class::Tunnel => 3,
        _ => 1,
    };
    let mut record = Record::begun(at(seconds));
    (record.class, record.status, record.total_us) = (class, status, us(total_ms));
    record.names = Some(Names {
        key,
        client,
        server: 0,
    });
    record
}

fn asks(record: &mut Record, server: u32, connect_ms: f64, reply_ms: f64) {
    record.hierarchy = Hierarchy::Direct;
    record.names.as_mut().unwrap().server = server;
    record.set_stage(StageName::ProxyConnect, stage(0.0, connect_ms));
    record.set_stage(StageName::ServerReply, stage(0.0, reply_ms));
}

fn hit(i: u64) -> Record {
    // Keys: memory 1 1 2 2 1 2, IMS 1 3 3 4, disk 5 5 6 6 5, negative 7, revalidated 8.
    let (class, status, key) = match i {
        1 | 2 | 11 => (Class::MemoryHit, 200, 1),
        3 | 4 | 12 => (Class::MemoryHit, 200, 2),
        5 => (Class::ImsHit, 304, 1),
        6 | 7 => (Class::ImsHit, 304, 3),
        13 => (Class::ImsHit, 304, 4),
        8 | 9 | 16 => (Class::DiskHit, 200, 5),
        14 | 15 => (Class::DiskHit, 200, 6),
        10 => (Class::NegativeHit, 404, 7),
        17 => (Class::Revalidated, 200, 8),
        _ => unreachable!(),
    };
    let seconds = if i <= 10 { i - 1 } else { 60 + i - 11 };
    let ms = i as f64;
    let mut record = request(seconds, class, status, ms, key);
    (record.bytes_out, record.object_bytes) = match class {
        Class::MemoryHit => (1000, 900),
        Class::ImsHit => (200, 900),
        Class::DiskHit => (10_000, 9_900),
        Class::NegativeHit => (500, 400),
        _ => (2000, 1900),
    };
    record.set_stage(StageName::ClientConnect, stage(ms / 20.0, ms / 10.0));
    record.set_stage(StageName::ProxyReply, stage(0.0, ms / 5.0));
    if class == Class::DiskHit {
        record.device_reads = if i == 8 || i == 14 { 1 } else { 2 };
        record.set_stage(StageName::SwapIn, stage(0.4, ms / 10.0));
    }
    if i == 17 {
        record.flags |= Flags::VALIDATED;
        asks(&mut record, 7, 3.0, 4.0);
    }
    record
}

fn miss(m: u64) -> Record {
    let ms = m as f64;
    let is_first_slot = m < 200;
    let seconds = if is_first_slot {
        20 + (m - 100) / 10
    } else {
        80 + (m - 200) / 10
    };
    let is_collapsed = m.is_multiple_of(100);
    // Keys: 110 to 190 have 11 to 19, 210 to 260 have 21 to 26; the collapsed share that of the next.
    let key = if is_collapsed { m / 10 + 1 } else { m / 10 };
    let class = if is_collapsed {
        Class::Collapsed
    } else {
        Class::Miss
    };
    let mut record = request(seconds, class, 200, ms, key);
    record.set_stage(StageName::ProxyReply, stage(0.0, ms / 20.0));
    if is_collapsed {
        (record.bytes_out, record.object_bytes) = (9_000, 8_900);
        record.flags |= Flags::REUSED_CLIENT;
        record.set_stage(StageName::Wait, stage(0.0, ms / 2.0));
        return record;
    }
    (record.bytes_out, record.object_bytes) = if is_first_slot {
        (1500, 1400)
    } else {
        (70_000, 69_900)
    };
    let connect = match m {
        110 => 0.1,
        120 => 0.2,
        130 => 0.3,
        210 => 0.4,
        _ => ms / 10.0,
    };
    record.flags = record.flags.with(Flags::REUSED_SERVER, connect < 1.0);
    asks(&mut record, 7, connect, ms / 2.0);
    record.set_stage(StageName::ClientConnect, stage(ms / 200.0, ms / 100.0));
    record.set_stage(StageName::SwapOut, stage(ms / 10_000.0, ms / 1000.0));
    record.cluster = match m {
        110..=150 => 1,
        160..=190 => 0,
        _ => 2,
    };
    record
}

fn others() -> Vec<Record> {
    let mut others = Vec::new();
    for (i, (seconds, total)) in [(40, 50.0), (41, 60.0), (90, 70.0)].into_iter().enumerate() {
        let mut record = request(seconds, Class::Uncachable, 200, total, 31 + i as u64);
        (record.bytes_out, record.object_bytes) = (6000, 5900);
        asks(&mut record, 8, total / 10.0, total / 2.0);
        record.set_stage(StageName::ProxyReply, stage(0.0, (i + 1) as f64));
        record.flags |= Flags::REUSED_CLIENT;
        if i == 0 {
            record.set_stage(StageName::ClientConnect, stage(1.0, 5.0));
        }
        others.push(record);
    }
    let mut error = request(42, Class::Error, 400, 5.0, 34);
    error.bytes_out = 300;
    error.set_stage(StageName::ClientConnect, stage(0.0, 9.9));
    error.set_stage(StageName::ProxyReply, stage(0.0, 0.5));
    let mut aborted = request(10, Class::Miss, 200, 85_000.0, 30);
    aborted.bytes_out = 100;
    aborted.flags = Flags::CLIENT_ABORTED | Flags::REUSED_CLIENT;
    asks(&mut aborted, 9, 1.0, 85_000.0);
    let tunnel = request(91, Class::Tunnel, 200, 29_000.0, 35);
    others.extend([error, aborted, tunnel]);
    others
}

fn events() -> Vec<Event> {
    let write = |cluster: u64, start: u64| {
        Event::Write(Write {
            start_unix_us: at(start),
            total_us: 20_000_000,
            cluster,
            records: 5,
            bytes: 1 << 20,
            store: 0,
        })
    };
    let read = |seconds: u64| {
        Event::Read(Read {
            start_unix_us: at(seconds),
            total_us: 300,
            ..Read::default()
        })
    };
    // The device was busy for 5.9 of the first 59 seconds, and for 12 of the next 60.
    let second = |seconds: u64, busy_us: u64, queue_us: u64| {
        Event::Second(Second {
            at_unix_us: at(seconds),
            subject: Subject::Device,
            number: 0,
            gauges: vec![
                (Gauge::DeviceBusyUs, busy_us),
                (Gauge::DeviceQueueUs, queue_us),
            ],
        })
    };
    let mut events = vec![
        write(1, 30),
        write(2, 100),
        second(0, 1_000_000, 500),
        second(59, 6_900_000, 11_800_500),
        second(119, 18_900_000, 35_800_500),
    ];
    events.extend([7, 8, 8, 63, 64, 64].map(read));
    events
}

fn requests() -> Vec<Record> {
    let misses = (10..=26).map(|tenth| miss(tenth * 10));
    (1..=17).map(hit).chain(misses).chain(others()).collect()
}

fn source(known: Known) -> Source {
    Source {
        name: "golden".to_owned(),
        level: None,
        kind: SourceKind::Profile,
        known,
    }
}

fn report_of(records: &[Record], options: Options) -> SourceReport {
    let mut builder = Builder::new(source(Known::PROFILE), options);
    records
        .iter()
        .for_each(|record| builder.request(record).unwrap());
    events()
        .iter()
        .for_each(|event| builder.event(event).unwrap());
    builder.set_slot(Duration::from_secs(60));
    builder.finish().unwrap()
}

const NONE: f64 = f64::NAN;

/// Every measure. Hits: 17. Misses: 17, 15 of them not collapsed, and the aborted one.
const GOLDEN: &[(&str, &[f64])] = &[
    // Hits: 200 four times, 500, 1000 six times, 2000, 10000 five times: the 9th, 16th and 17th of 17.
    ("1.hit.p50 p90 p99", &[1000.0, 10_000.0, 10_000.0]),
    // 100, 1500 nine times, 9000 twice, 70000 six times: the 9th, 17th and 18th of 18, as the aborted one counts.
    ("1.miss.p50 p90 p99", &[1500.0, 70_000.0, 70_000.0]),
    // Both, 300 and 6000 three times: the 20th, 36th and 39th of 39.
    ("1.all.p50 p90 p99", &[1500.0, 70_000.0, 70_000.0]),
    // 9900 five times.
    ("1.swap-in.p50 p90 p99", &[9900.0, 9900.0, 9900.0]),
    // 1400 nine times, 69900 six times: the 8th, 14th and 15th of 15.
    ("1.swap-out.p50 p90 p99", &[1400.0, 69_900.0, 69_900.0]),
    // All twenty: the 10th is the first of the 9900.
    ("1.swap-all.p50 p90 p99", &[9900.0, 69_900.0, 69_900.0]),
    // Keys 1 to 4: 900; 5, 6: 9900; 7: 400; 8: 1900: the 4th and the 8th of 8.
    ("2.hit.p50 p90 p99", &[900.0, 9900.0, 9900.0]),
    // Keys 11 and 21 were collapsed first: 8900; 12 to 19: 1400; 22 to 26: 69900: the 8th, 14th and 15th of 15.
    ("2.miss.p50 p90 p99", &[1400.0, 69_900.0, 69_900.0]),
    // Keys 5 and 6.
    ("2.swap-in.p50 p90 p99", &[9900.0, 9900.0, 9900.0]),
    // Keys 11 to 19 and 21 to 26.
    ("2.swap-out.p50 p90 p99", &[1400.0, 69_900.0, 69_900.0]),
    // 40, 18 and 17 in 120 s.
    ("3.all.value", &[40.0 / 120.0]),
    ("3.miss.value", &[0.15]),
    ("3.hit.value", &[17.0 / 120.0]),
    // Nobody asked a peer: not known is not zero.
    ("3.peer.value", &[NONE]),
    // The aborted miss is there for 85 of 120 s; nothing else lasts.
    ("4.all.value", &[1.0]),
    ("4.miss.value", &[1.0]),
    ("4.hit.value", &[0.0]),
    ("4.peer.value", &[NONE]),
    // 1 to 17.
    ("5.hit.p50 p90 p99", &[9.0, 16.0, 17.0]),
    // 100 to 260 in tens.
    ("5.miss.p50 p90 p99", &[180.0, 250.0, 260.0]),
    // 18 up to 17 (there are two 5), 50, 60, 70, misses: the 19th, 35th and 38th of 38.
    ("5.all.p50 p90 p99", &[50.0, 230.0, 260.0]),
    ("5.peer.p50 p90 p99", &[NONE, NONE, NONE]),
    // 2000 bytes: hit 17. 10000 bytes: the 3rd of 8 9 14 15 16.
    ("6.hit.at-1k at-8k at-64k", &[17.0, 14.0, NONE]),
    // 1500 bytes: the 5th of 110 .. 190. 9000: the 1st of 100, 200. 70000: the 3rd of 210 .. 260.
    ("6.miss.at-1k at-8k at-64k", &[150.0, 100.0, 230.0]),
    // 17 of 39; 59300 of 529200 bytes.
    ("7.document.value", &[1700.0 / 39.0]),
    ("7.byte.value", &[5_930_000.0 / 529_200.0]),
    ("7.document-peers.value", &[NONE]),
    ("7.byte-peers.value", &[NONE]),
    // Of 17.
    ("8.memory.value", &[600.0 / 17.0]),
    ("8.disk.value", &[500.0 / 17.0]),
    ("8.ims.value", &[400.0 / 17.0]),
    ("8.negative.value", &[100.0 / 17.0]),
    ("8.other.value", &[100.0 / 17.0]),
    // Again the aborted one.
    ("9.all.value", &[1.0]),
    ("9.miss.value", &[1.0]),
    ("9.hit.value", &[0.0]),
    ("9.peer.value", &[NONE]),
    // Hit 17 alone.
    ("10.hit.p50 p90 p99", &[3.0, 3.0, 3.0]),
    // 0.1 0.2 0.3 0.4, 14 to 19, 22 to 26: the 8th, 14th and 15th of 15.
    ("10.miss.p50 p90 p99", &[17.0, 25.0, 26.0]),
    // And 3 5 6 7: the 10th, 18th and 19th of 19.
    ("10.all.p50 p90 p99", &[15.0, 25.0, 26.0]),
    // Without the first four: the 8th, 14th and 15th of 15.
    ("10.new.p50 p90 p99", &[17.0, 25.0, 26.0]),
    // 0.1 0.2 0.3 0.4: the 2nd and the 4th.
    ("10.reused.p50 p90 p99", &[0.2, 0.4, 0.4]),
    ("11.hit.p50 p90 p99", &[4.0, 4.0, 4.0]),
    // 55 to 95 and 105 to 130 in fives: the 8th, 14th and 15th of 15.
    ("11.miss.p50 p90 p99", &[90.0, 125.0, 130.0]),
    // 4 25 30 35 and these: the 10th, 18th and 19th of 19.
    ("11.all.p50 p90 p99", &[80.0, 125.0, 130.0]),
    ("11.peer.p50 p90 p99", &[NONE, NONE, NONE]),
    // 1900 bytes: hit 17.
    ("12.hit.at-1k at-8k at-64k", &[4.0, NONE, NONE]),
    // 1400 bytes: the 5th of 55 .. 95. The collapsed asked nobody. 69900: the 3rd of 105 .. 130.
    ("12.miss.at-1k at-8k at-64k", &[75.0, NONE, 115.0]),
    ("13.hit.p50 p90 p99", &[7.0, 7.0, 7.0]),
    // 55.1 60.2 65.3 84 90 96 102 105.4 108 114 132 138 144 150 156.
    ("13.miss.p50 p90 p99", &[105.4, 150.0, 156.0]),
    // 7 30 36 42 and these: the 10th, 18th and 19th of 19.
    ("13.all.p50 p90 p99", &[96.0, 150.0, 156.0]),
    // 0.1 to 1.7.
    ("14.hit.p50 p90 p99", &[0.9, 1.6, 1.7]),
    // 1.1 to 1.9, 2.1 to 2.6: the 8th, 14th and 15th of 15.
    ("14.miss.p50 p90 p99", &[1.8, 2.5, 2.6]),
    // Both and 9.9, not the 5 of a used connection: the 17th, 30th and 33rd of 33.
    ("14.all.p50 p90 p99", &[1.4, 2.4, 9.9]),
    // Half of each, 4 of the used connection, 9.9: the 17th, 31st and 34th of 34.
    ("14.head.p50 p90 p99", &[0.7, 1.25, 9.9]),
    // 0.2 to 3.4.
    ("15.hit.p50 p90 p99", &[1.8, 3.2, 3.4]),
    // 5 to 13 in halves: the 9th, 16th and 17th of 17.
    ("15.miss.p50 p90 p99", &[9.0, 12.5, 13.0]),
    // Hits and 0.5 1 2 3 are 21 up to 3.4, then misses: the 19th, 35th and 38th of 38.
    ("15.all.p50 p90 p99", &[3.0, 11.5, 13.0]),
    // Hits 5 6 7 13: the 2nd and the 4th.
    ("16.hit-304.p50 p90 p99", &[1.2, 2.6, 2.6]),
    // Hits 1 2 3 4 8 9 11 12 14 15 16 17: the 6th, 11th and 12th.
    ("16.hit-200.p50 p90 p99", &[1.8, 3.2, 3.4]),
    ("16.miss.p50 p90 p99", &[9.0, 12.5, 13.0]),
    // As in 6, a fifth of the hits' and a twentieth of the misses' response time.
    ("17.hit-200.at-1k at-8k at-64k", &[3.4, 2.8, NONE]),
    ("17.miss.at-1k at-8k at-64k", &[7.5, 5.0, 11.5]),
    // 20, 5, 15, 6 and 2 in 120 s.
    ("18.all.value", &[20.0 / 120.0]),
    ("18.swap-in.value", &[5.0 / 120.0]),
    ("18.swap-out.value", &[15.0 / 120.0]),
    ("18.device-reads.value", &[0.05]),
    ("18.device-writes.value", &[2.0 / 120.0]),
    // Five swap-outs for 20 s, six for 20 s, hardly anything in the other 80 of 120 s: the 90th second is one with five.
    ("19.all.value", &[0.0]),
    ("19.all-p75.value", &[5.0]),
    ("19.swap-in.value", &[0.0]),
    ("19.swap-in-p75.value", &[0.0]),
    ("19.swap-out.value", &[0.0]),
    ("19.swap-out-p75.value", &[5.0]),
    // 35.8 s of waiting in 119 s.
    ("19.device.value", &[35.8 / 119.0]),
    // Swap-ins 0.8 0.9 1.4 1.5 1.6 ms; writes 40 s, and 160 170 180 190 us handed over to no cluster that is known.
    ("20.all.value", &[(40.0 + 0.000_7 + 0.006_2) / 1.2]),
    ("20.swap-in.value", &[0.006_2 / 1.2]),
    ("20.swap-out.value", &[(40.0 + 0.000_7) / 1.2]),
    // 5.9 and 12 s in 119 s.
    ("20.device.value", &[17.9 / 1.19]),
    // The 3rd and 5th of 5.
    ("21.swap-in.p50 p90 p99", &[1.4, 1.6, 1.6]),
    // 0.11 to 0.19, 0.21 to 0.26: the 8th, 14th and 15th of 15.
    ("21.swap-out.p50 p90 p99", &[0.18, 0.25, 0.26]),
    // Begun at 21 .. 25 s and on disk at 50: 29 .. 25 s. Begun at 81 .. 86 and on disk at 120: 39 .. 34 s. The 6th, 10th and 11th of 11.
    (
        "21.swap-out-disk.p50 p90 p99",
        &[34_000.0, 38_000.0, 39_000.0],
    ),
    ("22.swap-in.at-1k at-8k at-64k", &[NONE, 1.4, NONE]),
    ("22.swap-in-first.at-1k at-8k at-64k", &[NONE, 0.4, NONE]),
    // The 5th of nine, the 3rd of six.
    ("22.swap-out.at-1k at-8k at-64k", &[0.15, NONE, 0.23]),
    (
        "22.swap-out-first.at-1k at-8k at-64k",
        &[0.015, NONE, 0.023],
    ),
    // 0.9 1.5 1.6 less 0.4.
    ("23.swap-in.p50 p90 p99", &[1.1, 1.2, 1.2]),
    // Without the two collapsed, the 8th of 15: 1.8, 17, 90 and 9. Together 117.8.
    ("24.client-connect.value", &[180.0 / 117.8]),
    ("24.proxy-connect.value", &[1700.0 / 117.8]),
    ("24.server-reply.value", &[9000.0 / 117.8]),
    ("24.proxy-reply.value", &[900.0 / 117.8]),
    // 200 hits but 17: the 6th of 11 is hit 9 with 0.9 and 1.8; five read the disk and six did not, so the 6th is 0.
    ("25.client-connect.value", &[100.0 / 3.0]),
    ("25.swap-in.value", &[0.0]),
    ("25.proxy-reply.value", &[200.0 / 3.0]),
    // All but the tunnel.
    ("table-3.documents", &[39.0]),
    // 1 to 8, 11 to 19, 21 to 26, 30 to 34; a tunnel is no document.
    ("table-3.unique-documents", &[28.0]),
    ("table-3.unique-clients", &[3.0]),
    ("table-3.unique-servers", &[3.0]),
    ("total.bytes", &[529_200.0]),
    ("total.document-hit-ratio", &[1700.0 / 39.0]),
    ("total.byte-hit-ratio", &[5_930_000.0 / 529_200.0]),
    ("total.peer-hits", &[NONE]),
    ("total.document-hit-ratio-with-peers", &[NONE]),
    ("total.byte-hit-ratio-with-peers", &[NONE]),
    ("total.uncachable", &[7.5]),
    ("total.collapsed", &[5.0]),
    ("total.errors", &[2.5]),
    ("total.aborted", &[1.0]),
];

/// `5.hit.p50 p90` stands for `5.hit.p50` and `5.hit.p90`.
fn ids(names: &str) -> Vec<String> {
    let (curve, statistics) = match names.rsplit_once('.') {
        Some((curve, statistics)) => (curve, statistics),
        None => panic!("{names}"),
    };
    statistics
        .split(' ')
        .map(|statistic| format!("{curve}.{statistic}"))
        .collect()
}

fn is_equal(found: Option<f64>, want: f64) -> bool {
    match found {
        None => want.is_nan(),
        Some(found) => (found - want).abs() <= 1e-9 * want.abs().max(1.0),
    }
}

fn check(report: &SourceReport) {
    let mut checked = Vec::new();
    let mut wrong = Vec::new();
    for (names, values) in GOLDEN {
        let ids = ids(names);
        assert_eq!(ids.len(), values.len(), "{names}");
        for (id, &want) in ids.into_iter().zip(*values) {
            let found = report
                .measure(&id)
                .unwrap_or_else(|| panic!("no measure {id}"))
                .value;
            if !is_equal(found, want) {
                wrong.push(format!("{id}: {found:?}, by hand {want}"));
            }
            checked.push(id);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let all: Vec<String> = measures().into_iter().map(|measure| measure.id).collect();
    assert_eq!(checked, all, "every measure is worked out");
}

#[test]
fn every_measure_is_as_worked_out_by_hand() {
    let records = requests();
    assert_eq!(records.len(), 40);
    check(&report_of(&records, Options::default()));
}

#[test]
fn the_order_of_records_does_not_matter() {
    let mut records = requests();
    records.reverse();
    check(&report_of(&records, Options::default()));
    records.sort_by_key(|record| record.names.unwrap().key % 7);
    check(&report_of(&records, Options::default()));
}

#[test]
fn an_even_and_an_odd_slot() {
    let report = report_of(&requests(), Options::default());
    let medians = |figure: &str, curve: &str| -> Vec<f64> {
        let curve = report.figure(figure).unwrap().curve(curve).unwrap();
        curve.points.iter().map(|point| point.value).collect()
    };
    // Ten hits 1 to 10: the 5th. Seven hits 11 to 17: the 4th.
    assert_eq!(medians("5", "hit"), [5.0, 14.0]);
    // Ten misses 100 to 190: the 5th. Seven misses 200 to 260: the 4th.
    assert_eq!(medians("5", "miss"), [140.0, 230.0]);
    // 24 and 16 requests in a minute.
    assert_eq!(medians("3", "all"), [0.4, 16.0 / 60.0]);
    // The aborted one is there for 50 s of the first and 35 s of the second minute.
    assert_eq!(medians("4", "miss"), [1.0, 1.0]);
    // 5.9 of 59 s, 12 of 60 s.
    assert_eq!(medians("20", "device"), [10.0, 20.0]);
    let hits = report.measure("5.hit.p50").unwrap();
    assert_eq!(hits.quartiles, Some([5.0, 5.0, 14.0]));
    // Fewer than 30 values are hollow.
    let figure = report.figure("5").unwrap();
    assert!(
        figure
            .curves
            .iter()
            .flat_map(|curve| &curve.points)
            .all(|point| point.is_hollow)
    );
    assert!(
        report
            .slots
            .iter()
            .all(|slot| !slot.is_idle && !slot.is_partial)
    );
    let starts: Vec<u64> = report.slots.iter().map(|slot| slot.start_unix_us).collect();
    assert_eq!(starts, [at(0), at(60)]);
}

#[test]
fn table_22_is_the_model_of_the_paper() {
    let report = report_of(&requests(), Options::default());
    let table = report.tables.iter().find(|table| table.id == "22").unwrap();
    let values: Vec<&str> = table.facts.iter().map(|fact| fact.value.as_str()).collect();
    // One read: 0.8 and 1.4, the 1st of 2. Two: 0.9 1.5 1.6, the 2nd of 3.
    assert_eq!(values, ["0.800 ms", "1.500 ms", "0.700 ms", "0.100 ms"]);
    let ours = |id: &str| report.figure(id).unwrap().ours.clone();
    assert_eq!(
        ours("22"),
        "One I/O takes 0.700 ms, its overhead is 0.100 ms."
    );
    // 5 of 20, 17 of 39 and 59300 of 529200.
    assert_eq!(ours("18"), "The swap-in ratio is 25.0 %.");
    assert_eq!(ours("7"), "DHR 43.6 %, BHR 11.2 %: 32.4 points apart.");
    // Hits take 153 ms together, misses 3060: 34 take 94.5 on average, 17 misses 180. Medians: the 17th is 17, the 9th 180.
    let saving = "The cache saves 47.5 % of the mean response time, 90.6 % of the median.";
    assert!(ours("5").ends_with(saving), "{}", ours("5"));
}

#[test]
fn requests_are_told_by_protocol_and_encryption() {
    let mut all = requests();
    for (record, encryption) in all
        .iter_mut()
        .zip([Encryption::Tls13, Encryption::Tls13Resumed])
    {
        (record.http_client, record.encryption) = (Protocol::Http2, encryption);
        record.flags |= Flags::TLS_CLIENT;
    }
    let report = report_of(&all, Options::default());
    let told = |report: &SourceReport| -> Vec<String> {
        let table = report.tables.iter().find(|table| table.id == "protocols");
        let table = table.unwrap();
        assert_eq!(table.not_recorded, None);
        let facts = table.facts.iter();
        facts
            .map(|fact| format!("{}: {}", fact.name, fact.value))
            .collect()
    };
    let [full, resumed, rest] = &told(&report)[..] else {
        panic!("{:?}", told(&report));
    };
    assert_eq!(
        full,
        "HTTP/2, TLSv1.3, full: 1 requests (2.5 %), 1000 bytes (0.2 %), hits 100.0 %"
    );
    assert!(
        resumed.starts_with("HTTP/2, TLSv1.3, resumed: 1 requests"),
        "{resumed}"
    );
    assert!(
        rest.starts_with("no request understood, plain: 38 requests"),
        "{rest}"
    );
    let twice = report::join("both", &[report.clone(), report]).unwrap();
    assert_eq!(
        told(&twice)[0],
        "HTTP/2, TLSv1.3, full: 2 requests (2.5 %), 2000 bytes (0.2 %), hits 100.0 %"
    );
}

#[test]
fn aborted_requests_are_in_the_times_if_wanted() {
    let options = Options {
        with_aborted: true,
        ..Options::default()
    };
    let report = report_of(&requests(), options);
    // 18 misses now: the 9th is the same, the last is the aborted one.
    let value = |id: &str| report.measure(id).unwrap().value.unwrap();
    assert_eq!(
        (value("5.miss.p50"), value("5.miss.p99")),
        (180.0, 85_000.0)
    );
}
