//! Torn files, reopened files, and listeners.

use super::*;
use plan::{AccessFormat, AccessLog, LogTarget, Logs};
use profile::access;

/// A file on which every write fails, as on a full disk.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

fn plan(logs: Logs) -> Plan {
    Plan {
        logs,
        ..Plan::with_listeners(Vec::new())
    }
}

fn record(began_unix_us: u64) -> Vec<u8> {
    let mut out = Vec::new();
    Record::begun(began_unix_us).encode(&mut out);
    out
}

#[test]
fn behind_a_torn_profile_record_the_next_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("profile");
    let mut file = ProfileFile::open(&path, 7).unwrap();
    file.write(&record(1)).unwrap();
    // Half of a record was written before the disk was full.
    file.out.write_all(&record(2)[..3]).unwrap();
    let there = mem::replace(&mut file.out, full());
    let error = file.write(&record(3)).unwrap_err();
    assert!(error.to_string().contains("profile: "), "{error}");
    file.out = there;
    file.write(&record(4)).unwrap();
    file.write(&record(5)).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let found = profile::Reader::new(&bytes[..]).unwrap();
    assert_eq!(found.keys_id(), 7);
    let began: Vec<_> = found
        .filter_map(|item| item.ok()?.request())
        .map(|r| r.began_unix_us)
        .collect();
    assert_eq!(began, [1, 4, 5]);
}

#[test]
fn a_full_disk_is_told_when_it_begins_and_when_it_is_over() {
    let mut trouble = Trouble::default();
    let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
    let told: Vec<String> = [
        (Ok(()), 1),
        (full(), 7),
        (full(), 8),
        (Ok(()), 1),
        (Ok(()), 1),
        (full(), 2),
    ]
    .into_iter()
    .map(|(written, records)| match trouble.after(written, records) {
        Some(Turn::Begins(_)) => "begins".into(),
        Some(Turn::Over { lost }) => format!("over, {lost} lost"),
        None => "-".into(),
    })
    .collect();
    assert_eq!(told, ["-", "begins", "-", "over, 15 lost", "-", "begins"]);
    assert_eq!(trouble.lost, 2);
}

fn items(bytes: &[u8]) -> Vec<profile::Item> {
    let reader = profile::Reader::new(bytes).unwrap();
    reader.map(Result::unwrap).collect()
}

#[test]
fn a_file_that_is_opened_anew_begins_like_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let (path, moved) = (dir.path().join("profile"), dir.path().join("moved"));
    let logs = Logs {
        profile: Some(path.clone()),
        ..Logs::default()
    };
    let mut journal = Journal::open(&plan(logs), 5, false).unwrap();
    let mut writer = journal.writer();
    writer.open_with(record(1));
    writer.note_record(&Record::begun(2));
    writer.flush();
    std::fs::rename(&path, &moved).unwrap();
    journal.reopener().reopen();
    writer.note_record(&Record::begun(3));
    writer.flush();
    journal.stop();
    let began = |path: &Path| {
        let all = items(&std::fs::read(path).unwrap());
        let began = all
            .into_iter()
            .map(|it| it.request().unwrap().began_unix_us);
        began.collect::<Vec<_>>()
    };
    assert_eq!((began(&moved), began(&path)), (vec![1, 2], vec![1, 3]));
}

#[test]
fn who_listens_and_does_not_read_loses_records_and_keeps_nobody_waiting() {
    use crate::events::Events;
    use profile::{Gauge, Item, MarkKind};
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    let next = |listening: &mut crate::live::Listening| {
        let next = async {
            let limit = std::time::Duration::from_secs(20);
            tokio::time::timeout(limit, listening.next()).await
        };
        runtime.block_on(next).expect("it comes in time")
    };
    let mut journal = Journal::open(&plan(Logs::default()), 5, true).unwrap();
    let events = Events::new(&journal, base::clock::Clock::default());
    let mut writer = journal.writer();
    assert_eq!(writer.note_record(&Record::begun(1)), 0, "for nobody");
    events.open_with(record(7));
    let mut slow = events.listen().unwrap();
    let mut quick = events.listen().unwrap();
    let mut received = next(&mut quick).unwrap().to_vec();
    let batches = 200;
    for n in 0..batches {
        writer.note_record(&Record::begun(n));
        assert_eq!(writer.flush(), 0, "the worker loses nothing");
        received.extend_from_slice(&next(&mut quick).unwrap());
    }
    events.mark(MarkKind::Purge, "x");
    events.end_second(3);
    received.extend_from_slice(&next(&mut quick).unwrap());
    let all = items(&received);
    assert_eq!(
        all.len() as u64,
        1 + batches + 2,
        "opening, records, mark, loss"
    );
    let told = |item: &Item| match item {
        Item::Event(Event::Second(second)) => second.get(Gauge::RecordsLost),
        _ => None,
    };
    assert_eq!(all.last().and_then(told), Some(3));
    // The slow listener has the opening and as many batches as fitted; then it hears of its losses.
    let mut late = next(&mut slow).unwrap().to_vec();
    let mut kept = 0;
    while items(&late).len() < 64 {
        late.extend_from_slice(&next(&mut slow).unwrap());
        kept += 1;
    }
    events.end_second(3);
    late.extend_from_slice(&next(&mut slow).unwrap());
    // Lost: records, and the second with its mark.
    let lost = batches - kept + 2;
    assert_eq!(items(&late).last().and_then(told), Some(3 + lost));
    journal.stop();
    assert!(next(&mut slow).is_none(), "an end, not a wait");
}

#[test]
fn a_log_that_takes_nothing_holds_up_neither_requests_nor_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    // Another process holds it open and does not read.
    let _deaf = File::options().read(true).write(true).open(&path).unwrap();
    let logs = Logs {
        access: Some(AccessLog {
            target: LogTarget::File(path),
            format: AccessFormat::Json,
        }),
        ..Logs::default()
    };
    let mut journal = Journal::open(&plan(logs), 5, false).unwrap();
    let mut writer = journal.writer();
    let entry = entry();
    let (mut noted, mut lost) = (0_u64, 0);
    let began = std::time::Instant::now();
    // More than the queue holds.
    while lost == 0 {
        lost += writer.note(&entry);
        noted += 1;
        assert!(noted < 1 << 20, "a queue without an end");
    }
    lost += writer.flush();
    assert!(lost > 0 && lost < noted);
    journal.stop();
    let limit = STOP_MAX + std::time::Duration::from_secs(60);
    assert!(began.elapsed() < limit, "{:?}", began.elapsed());
}

fn entry() -> Entry<'static> {
    Entry {
        tls: profile::access::Tls::default(),
        record: Record::begun(1),
        client: [127, 0, 0, 1].into(),
        listener: b"127.0.0.1:3128",
        asking: access::Asking {
            method: b"GET",
            host: b"a.example",
            target: b"/",
            ..access::Asking::default()
        },
        content_type: b"",
        peer: b"",
        origin: b"",
        cache_status: b"",
        tag: b"",
    }
}
