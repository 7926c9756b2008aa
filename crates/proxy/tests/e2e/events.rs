//! The profile, beside the requests' own stages: what the disk did, seconds, marks, and listening to it while it is written.

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use device::{Device, FaultPlan, Operation};
use profile::{
    Class, Event, Flags, Gauge, Item, MarkKind, Reader, Record, Second, StageName, Subject,
};
use proxy::plan::{LazyMode, Plan, StorePlan};
use serde_json::Value;

use super::disk::send_tagged;
use super::harness::{
    Child, Disk, FRESH, Origin, PATIENCE, Proxy, assert_same, await_hit_by_read, eventually, ok,
    pattern, plan_for, running::with_admin,
};

/// A folder for a profile.
struct Profile(tempfile::TempDir);

impl Profile {
    fn new() -> Profile {
        Profile(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("profile")
    }

    fn under(&self, mut plan: Plan) -> Plan {
        plan.logs.profile = Some(self.path());
        plan
    }

    /// All of it, once the proxy has stopped.
    fn items(&self, proxy: Proxy) -> Vec<Item> {
        proxy.stop();
        items(&std::fs::read(self.path()).unwrap())
    }
}

fn items(bytes: &[u8]) -> Vec<Item> {
    Reader::new(bytes).unwrap().map(Result::unwrap).collect()
}

fn requests(items: &[Item]) -> Vec<Record> {
    let requests = items.iter().cloned().filter_map(Item::request);
    requests.collect()
}

fn events(items: &[Item]) -> impl Iterator<Item = &Event> {
    items.iter().filter_map(|item| match item {
        Item::Event(event) => Some(event),
        Item::Request(_) => None,
    })
}

fn writes(items: &[Item]) -> Vec<profile::Write> {
    let write = |event: &Event| match event {
        Event::Write(write) => Some(*write),
        _ => None,
    };
    events(items).filter_map(write).collect()
}

fn reads(items: &[Item]) -> Vec<profile::Read> {
    let read = |event: &Event| match event {
        Event::Read(read) => Some(*read),
        _ => None,
    };
    events(items).filter_map(read).collect()
}

fn seconds(items: &[Item]) -> Vec<Second> {
    let second = |event: &Event| match event {
        Event::Second(second) => Some(second.clone()),
        _ => None,
    };
    events(items).filter_map(second).collect()
}

/// The texts of the marks of a kind; those of one moment together.
fn marks(items: &[Item], kind: MarkKind) -> Vec<Value> {
    let mut texts: Vec<(u64, String)> = Vec::new();
    for event in events(items) {
        match event {
            Event::Mark(mark) if mark.kind == kind => match texts.last_mut() {
                Some((at, text)) if *at == mark.at_unix_us => *text += &mark.text,
                _ => texts.push((mark.at_unix_us, mark.text.clone())),
            },
            _ => {}
        }
    }
    let json = |(_, text): &(u64, String)| serde_json::from_str(text).expect(text);
    texts.iter().map(json).collect()
}

#[test]
fn swap_in_is_all_that_was_read_and_so_lasts_as_long_as_the_sending() {
    // A slow disk has neighbours read as one. It is not left to the disk of this machine.
    for gathered in [1, 10] {
        reads_of_a_whole_and_a_part(LazyMode::Gather(gathered));
    }
}

fn reads_of_a_whole_and_a_part(lazy_reads: LazyMode) {
    let body = pattern(20 << 20);
    let sent = body.clone();
    let origin = Origin::start(move |exchange| send_tagged(exchange, &sent));
    let profile = Profile::new();
    let disk = Disk::of_mib(128);
    let mut plan = profile.under(disk.under(plan_for(&origin)));
    plan.storing.lazy_reads = lazy_reads;
    let first = Proxy::start(plan.clone());
    assert_same(&first.get("/large").body, &body);
    first.stop();
    std::fs::remove_file(profile.path()).unwrap();
    let proxy = Proxy::start(plan);
    let answer = proxy.get("/large");
    assert!(answer.is_hit());
    assert_same(&answer.body, &body);
    // A beginning is reckoned back from its end: under load it is said too late by as much as that takes.
    let slack_us = 500_000;
    std::thread::sleep(Duration::from_micros(2 * slack_us));
    let part = proxy.ask("GET", "/large", &["Range: bytes=3000000-3400000"]);
    assert_same(&part.body, &body[3_000_000..=3_400_000]);
    let items = profile.items(proxy);
    let requests = requests(&items);
    let [whole, part] = requests[..] else {
        panic!("{requests:#?}");
    };

    let swap_in = whole.stage(StageName::SwapIn).unwrap();
    let reply = whole.stage(StageName::ProxyReply).unwrap();
    assert_eq!((whole.class, whole.device_reads), (Class::DiskHit, 15));
    assert!(swap_in.first_us > 0 && swap_in.first_us < swap_in.total_us);
    // It ends with the last fragment in memory, while the one before may still be on its way.
    let end = |stage: profile::Stage| stage.start_us + stage.total_us;
    assert!(end(swap_in) <= whole.total_us, "{whole:#?}");
    assert!(end(swap_in) > reply.start_us + reply.first_us, "{whole:#?}");

    // Parts of some fragments; the head is in memory.
    assert!((2..=10).contains(&part.device_reads), "{part:#?}");
    let swap_in = part.stage(StageName::SwapIn).unwrap();
    assert!(swap_in.first_us < swap_in.total_us && end(swap_in) <= part.total_us);

    let reads = reads(&items);
    let (of_part, of_whole): (Vec<profile::Read>, Vec<profile::Read>) = reads
        .iter()
        .copied()
        .partition(|read| read.start_unix_us + slack_us >= part.began_unix_us);
    // Each that a request asks for counts, though one read of the device served several.
    let asked: u32 = of_part.iter().map(|read| read.objects).sum();
    assert_eq!(asked, u32::from(part.device_reads), "{of_part:#?}");
    assert!(of_whole.len() > 20, "{}", of_whole.len());
    let bytes: u64 = of_whole.iter().map(|read| read.bytes).sum();
    assert!((20 << 20..24 << 20).contains(&bytes), "{bytes}");
    for read in reads {
        assert!(read.total_us >= read.wait_us, "{read:?}");
        assert!(
            read.objects == 1 || lazy_reads != LazyMode::Gather(1),
            "{read:?}"
        );
        assert!(
            read.start_unix_us + slack_us >= whole.began_unix_us,
            "{read:?}"
        );
    }
}

#[test]
fn swap_out_names_the_write_that_holds_the_last_byte() {
    let body = pattern(3 << 20);
    let origin = Origin::start(move |exchange| {
        let len = if exchange.path() == "/large" {
            3 << 20
        } else {
            5000
        };
        exchange.send(ok(&[FRESH], &body[..len]));
    });
    let (profile, disk) = (Profile::new(), Disk::of_mib(64));
    let mut plan = profile.under(disk.under(plan_for(&origin)));
    let beside = disk.path().with_file_name("beside");
    plan.stores.push(StorePlan::at(beside, Some(64 << 20)));
    plan.storing.cluster_deadline = Duration::from_millis(10);
    let proxy = Proxy::start(plan);
    for n in 0..20 {
        proxy.get(&format!("/small-{n}"));
    }
    proxy.get("/large");
    let items = profile.items(proxy);
    let (requests, writes) = (requests(&items), writes(&items));
    assert_eq!(requests.len(), 21);
    let numbers: std::collections::BTreeSet<_> = writes.iter().map(|it| it.cluster).collect();
    assert_eq!(numbers.len(), writes.len(), "no number is used twice");
    assert!(!numbers.contains(&0));
    let mut of_store = [0, 0];
    for request in &requests {
        let swap_out = request.stage(StageName::SwapOut).unwrap();
        let of_it = writes.iter().find(|it| it.cluster == request.cluster);
        let write = of_it.unwrap_or_else(|| panic!("{request:#?} {writes:#?}"));
        assert_eq!(write.store, request.store);
        of_store[usize::from(write.store)] += 1;
        let given = request.began_unix_us + u64::from(swap_out.start_us);
        let on_disk = write.start_unix_us + u64::from(write.total_us);
        assert!(on_disk > given, "{request:#?} {write:#?}");
        assert!(!request.flags.contains(Flags::NOT_KEPT));
        assert_eq!(request.device_reads, 0);
    }
    assert!(of_store[0] > 0 && of_store[1] > 0, "{of_store:?}");
    // Each request has one record, and the large one its fragments and its head.
    let records: u32 = writes.iter().map(|it| it.records).sum();
    assert!(records > 20 + 3, "{records}");
    let bytes: u64 = writes.iter().map(|it| it.bytes).sum();
    assert!(bytes > (3 << 20) + 20 * 5000);
    let large = requests.last().unwrap();
    let swap_out = large.stage(StageName::SwapOut).unwrap();
    assert!(swap_out.first_us < swap_out.total_us, "{large:#?}");
}

#[test]
fn what_is_written_at_the_stop_is_in_the_profile() {
    let origin = Origin::sending(ok(&[FRESH], pattern(5000)));
    let (profile, disk) = (Profile::new(), Disk::of_mib(16));
    let mut plan = profile.under(disk.under(plan_for(&origin)));
    plan.storing.cluster_deadline = Duration::from_secs(600);
    let proxy = Proxy::start(plan);
    proxy.get("/a");
    let items = profile.items(proxy);
    let cluster = requests(&items)[0].cluster;
    assert!(cluster > 0);
    let written: Vec<_> = writes(&items).iter().map(|it| it.cluster).collect();
    assert_eq!(written, [cluster]);
    let last = items.last();
    assert!(matches!(last, Some(Item::Event(Event::Mark(it))) if it.kind == MarkKind::Stop));
}

#[test]
fn what_the_store_refuses_or_loses_has_no_write() {
    let origin = Origin::start(|exchange| {
        let len = if exchange.path() == "/long" {
            50_000
        } else {
            5000
        };
        exchange.send(ok(&[FRESH], pattern(len)));
    });
    let profile = Profile::new();
    let mut plan = profile.under(plan_for(&origin));
    plan.limits.object_bytes_max = 10_000;
    plan.storing.cluster_deadline = Duration::from_millis(10);
    let faults = FaultPlan::new();
    let device = Device::faulty(64 << 20, faults.clone());
    let proxy = Proxy::start_on(with_admin(plan), device);
    proxy.get("/long");
    faults.fail_all(Operation::Write);
    proxy.get("/lost");
    eventually("its write fails", || {
        (proxy.counter("disk_write_errors") > 0).then_some(())
    });
    proxy.get("/refused");
    faults.clear();
    let items = profile.items(proxy);
    let requests = requests(&items);
    let [long, lost, refused] = requests[..] else {
        panic!("{requests:#?}");
    };
    for request in [long, refused] {
        assert!(request.flags.contains(Flags::NOT_KEPT), "{request:#?}");
        assert_eq!(request.stage(StageName::SwapOut), None);
    }
    // It was taken; the request was over when the write failed.
    assert!(lost.stage(StageName::SwapOut).is_some() && lost.cluster > 0);
    assert!(writes(&items).iter().all(|it| it.cluster != lost.cluster));
}

#[test]
fn a_read_that_the_device_delays_is_as_long_in_the_profile() {
    let origin = Origin::sending(ok(&[FRESH], pattern(20_000)));
    let faults = FaultPlan::new();
    let device = Device::faulty(64 << 20, faults.clone());
    let profile = Profile::new();
    let mut plan = with_admin(profile.under(plan_for(&origin)));
    plan.memory_bytes = 0;
    plan.storing.cluster_deadline = Duration::from_millis(10);
    let proxy = Proxy::start_on(plan, device);
    proxy.get("/1");
    await_hit_by_read(&proxy, "/1");
    faults.hold(Operation::Read);
    let mut client = proxy.client();
    client.ask("GET", "/1", &[]);
    eventually("the read is held", || (faults.held() > 0).then_some(()));
    let held = Instant::now();
    // The request waits for nothing else, so whatever this takes is time of the read.
    eventually("some time has passed", || {
        (held.elapsed() > Duration::from_millis(50)).then_some(())
    });
    let held_us = held.elapsed().as_micros() as u32;
    faults.release(Operation::Read);
    assert!(client.read("GET").is_hit());
    let items = profile.items(proxy);
    let delayed = *requests(&items).last().unwrap();
    let swap_in = delayed.stage(StageName::SwapIn).unwrap();
    assert!(swap_in.total_us >= held_us, "{held_us} {delayed:#?}");
    assert_eq!(delayed.device_reads, 1);
    let read = *reads(&items).last().unwrap();
    // It is held by the device, so what it waited for its turn comes on top.
    assert!(read.total_us - read.wait_us >= held_us, "{read:?}");
}

/// Somebody who listens.
struct Live {
    stream: TcpStream,
    raw: Vec<u8>,
}

impl Live {
    fn connect(proxy: &Proxy) -> Live {
        let admin = proxy.ready.admin.unwrap();
        let mut stream = TcpStream::connect(admin).unwrap();
        let head = format!("GET /profile HTTP/1.1\r\nHost: {admin}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let step = Some(Duration::from_millis(20));
        stream.set_read_timeout(step).unwrap();
        Live {
            stream,
            raw: Vec::new(),
        }
    }

    /// What has come so far; false at the end.
    fn take(&mut self) -> bool {
        let mut space = [0; 64 << 10];
        match self.stream.read(&mut space) {
            Ok(0) => false,
            Ok(n) => {
                self.raw.extend_from_slice(&space[..n]);
                true
            }
            Err(e) => matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn status(&mut self) -> String {
        eventually("there is an answer", || {
            self.take();
            let text = String::from_utf8_lossy(&self.raw).into_owned();
            text.contains("\r\n\r\n").then_some(text)
        })
    }

    /// The items of whole chunks.
    fn items(&self) -> Vec<Item> {
        let Some(at) = memchr::memmem::find(&self.raw, b"\r\n\r\n") else {
            return Vec::new();
        };
        let (mut rest, mut profile) = (&self.raw[at + 4..], Vec::new());
        while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
            let len = std::str::from_utf8(&rest[..end]).unwrap();
            let len = usize::from_str_radix(len, 16).unwrap();
            let Some(chunk) = rest.get(end + 2..end + 2 + len) else {
                break;
            };
            profile.extend_from_slice(chunk);
            rest = rest.get(end + 4 + len..).unwrap_or_default();
        }
        match profile.is_empty() {
            true => Vec::new(),
            false => items(&profile),
        }
    }

    fn until(&mut self, what: &str, is_there: impl Fn(&[Item]) -> bool) -> Vec<Item> {
        eventually(what, || {
            assert!(self.take(), "it ended");
            let items = self.items();
            is_there(&items).then_some(items)
        })
    }
}

#[test]
fn who_listens_gets_all_and_who_does_not_read_disturbs_nobody() {
    let origin = Origin::sending(ok(&[FRESH], pattern(2000)));
    let proxy = Proxy::start(with_admin(plan_for(&origin)));
    let idle = (0..7).map(|_| Live::connect(&proxy));
    let mut idle: Vec<Live> = idle.collect();
    for one in &mut idle {
        assert!(one.status().starts_with("HTTP/1.1 200 "));
    }
    let mut live = Live::connect(&proxy);
    let first = live.until("the opening", |items| !items.is_empty());
    let start = &marks(&first, MarkKind::Start)[0];
    assert_eq!(start["version"], env!("CARGO_PKG_VERSION"));
    assert!(start["cores"].as_u64() > Some(0), "{start}");
    let mut ninth = Live::connect(&proxy);
    assert!(ninth.status().starts_with("HTTP/1.1 503 "));
    let head = proxy.admin("HEAD", "/profile");
    assert_eq!(head.status, 200);

    let mut client = proxy.client();
    for n in 0..300 {
        client.get(&format!("/{}", n % 7));
    }
    let all = live.until("every request", |items| requests(items).len() >= 300);
    let records = requests(&all);
    assert_eq!(records.len(), 300);
    let hits = records.iter().filter(|it| it.class == Class::MemoryHit);
    assert_eq!(hits.count(), 293);

    let all = live.until("a second", |items| {
        let told = |subject, gauge| {
            let mut of = seconds(items)
                .into_iter()
                .filter(|it| it.subject == subject);
            of.any(|it| it.get(gauge).is_some())
        };
        told(Subject::Worker, Gauge::LagP99Us)
            && told(Subject::Worker, Gauge::ClientConnections)
            && told(Subject::Process, Gauge::UserUs)
            && told(Subject::Process, Gauge::RecordsLost)
            && told(Subject::Network, Gauge::Retransmits)
    });
    let lost = |it: &Second| it.get(Gauge::RecordsLost).unwrap_or(0);
    assert_eq!(seconds(&all).iter().map(lost).max(), Some(0));
    drop(idle);
    eventually("there is room again", || {
        Live::connect(&proxy)
            .status()
            .starts_with("HTTP/1.1 200 ")
            .then_some(())
    });
    proxy.begin_to_stop();
    let deadline = Instant::now() + PATIENCE;
    while live.take() {
        assert!(Instant::now() < deadline, "it ends with the proxy");
    }
}

#[test]
fn marks_tell_of_start_configuration_purges_and_stop() {
    let origin = Origin::sending(ok(&[FRESH], pattern(2000)));
    let (profile, disk) = (Profile::new(), Disk::of_mib(16));
    let proxy = Proxy::start(profile.under(disk.under(with_admin(plan_for(&origin)))));
    proxy.get("/1");
    let url = format!("http://test.example/{}", 1);
    assert_eq!(proxy.admin("PURGE", &format!("/{url}")).status, 200);
    assert_eq!(proxy.admin("DELETE", "/cache?tag=a&soft=1").status, 200);
    let items = profile.items(proxy);
    let start = &marks(&items, MarkKind::Start)[0];
    assert!(start["kernel"].is_string() && start["ram_bytes"].as_u64() > Some(1 << 20));
    assert_eq!(start["stores"][0]["bytes"], 16 << 20);
    let configuration = &marks(&items, MarkKind::Configuration)[0];
    assert_eq!(configuration["capacity_bytes"], 16 << 20);
    assert_eq!(configuration["replacement"], "reinsertion");
    assert_eq!(configuration["digest"].as_str().unwrap().len(), 16);
    let purges = marks(&items, MarkKind::Purge);
    assert_eq!(purges.len(), 2, "{purges:?}");
    assert_eq!(
        (&purges[0]["what"], &purges[0]["soft"]),
        (&"url".into(), &false.into())
    );
    assert_eq!(
        (&purges[1]["what"], &purges[1]["soft"]),
        (&"tag".into(), &true.into())
    );
    assert!(
        purges
            .iter()
            .all(|it| it["durable"] == true && it["ms"].is_u64())
    );
    let text = format!("{items:?}");
    assert!(!text.contains("test.example"), "no names in a profile");
    assert_eq!(marks(&items, MarkKind::Stop).len(), 1);
    assert!(
        matches!(items.last(), Some(Item::Event(Event::Mark(it))) if it.kind == MarkKind::Stop)
    );
}

#[test]
fn the_end_of_a_scan_is_marked() {
    let body = pattern(30_000);
    let origin = Origin::sending(ok(&[FRESH], &body));
    let (profile, disk) = (Profile::new(), Disk::of_mib(16));
    let child = Child::start(&origin, &disk.path(), 16);
    child.get("/kept");
    await_written(&disk.path(), &body);
    child.kill();
    let proxy = Proxy::start(profile.under(disk.under(plan_for(&origin))));
    let marked = eventually("the scan ends", || {
        let bytes = std::fs::read(profile.path()).unwrap();
        // The last record may be on its way.
        let items: Vec<Item> = Reader::new(&bytes[..])
            .unwrap()
            .map_while(Result::ok)
            .collect();
        marks(&items, MarkKind::ScanEnd).pop()
    });
    assert_eq!(
        (&marked["store"], &marked["records"]),
        (&0.into(), &1.into())
    );
    assert!(
        reads(&profile.items(proxy))
            .iter()
            .any(|it| it.objects == 0)
    );
}

#[track_caller]
fn await_written(store: &Path, body: &[u8]) {
    eventually("it is on disk", || {
        let bytes = std::fs::read(store).unwrap();
        memchr::memmem::find(&bytes, body).map(drop)
    });
}
