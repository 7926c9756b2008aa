//! Records as lines: columns for people, JSON for programs.

use std::fmt::Write as _;

use crate::text;
use crate::{Encryption, Event, Flags, Record, StageName};

/// The width of a stage's column.
const STAGE_WIDTH: usize = 20;

/// The line above the columns of [`dump_line`], without a line end.
pub fn dump_header() -> String {
    let mut out = format!(
        "{:<27} {:<12} {:<7} {:>6} {:>12} {:>10}",
        "began", "class", "method", "status", "bytes-out", "total-us"
    );
    for name in StageName::ALL {
        out.push_str(&format!(" {:>STAGE_WIDTH$}", name.as_str()));
    }
    out
}

/// Appends one record in columns, with a line end. A stage is `start+first/total` in microseconds: `start` counts from the
/// beginning of the request, the other two from the stage's own start. It is `-` if the request did not pass through the stage.
pub fn dump_line(record: &Record, out: &mut String) {
    let mut began = Vec::new();
    text::time(record.began_unix_us, &mut began);
    let mut line = || -> std::fmt::Result {
        write!(
            out,
            "{:<27} {:<12} {:<7} {:>6} {:>12} {:>10}",
            String::from_utf8_lossy(&began),
            record.class.as_str(),
            record.method.as_str(),
            record.status,
            record.bytes_out,
            record.total_us
        )?;
        for name in StageName::ALL {
            match record.stage(name) {
                None => write!(out, " {:>STAGE_WIDTH$}", "-")?,
                Some(s) => {
                    let stage = format!("{}+{}/{}", s.start_us, s.first_us, s.total_us);
                    write!(out, " {stage:>STAGE_WIDTH$}")?;
                }
            }
        }
        writeln!(out)
    };
    line().expect("a String takes every write");
}

/// Appends one record as a JSON object, with a line end.
pub fn dump_json(record: &Record, out: &mut Vec<u8>) {
    out.push(b'{');
    json_members(record, record.method.as_str().as_bytes(), out);
    out.extend_from_slice(b"}\n");
}

/// The members of a record's JSON object, shared with the access log.
pub(crate) fn json_members(record: &Record, method: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\"began\":\"");
    text::time(record.began_unix_us, out);
    out.extend_from_slice(b"\",\"class\":\"");
    out.extend_from_slice(record.class.as_str().as_bytes());
    for (name, n) in [
        (&b"\",\"status\":"[..], u64::from(record.status)),
        (b",\"bytes_out\":", record.bytes_out),
        (b",\"total_us\":", record.total_us.into()),
    ] {
        out.extend_from_slice(name);
        text::number(n, out);
    }
    out.extend_from_slice(b",\"method\":");
    text::json_string(method, out);
    if record.version > 1 {
        json_since_2(record, out);
    }
    out.extend_from_slice(b",\"stages\":{");
    let mut first = true;
    for name in StageName::ALL {
        let Some(stage) = record.stage(name) else {
            continue;
        };
        if !first {
            out.push(b',');
        }
        first = false;
        out.push(b'"');
        out.extend_from_slice(name.as_str().as_bytes());
        for (key, us) in [
            (&b"\":{\"start_us\":"[..], stage.start_us),
            (b",\"first_us\":", stage.first_us),
            (b",\"total_us\":", stage.total_us),
        ] {
            out.extend_from_slice(key);
            text::number(us.into(), out);
        }
        out.push(b'}');
    }
    out.push(b'}');
}

/// The members that version 2 added, each after a comma.
fn json_since_2(record: &Record, out: &mut Vec<u8>) {
    for (name, n) in [
        (&b",\"object_bytes\":"[..], record.object_bytes),
        (b",\"server_bytes\":", record.bytes_in),
        (b",\"worker\":", record.worker.into()),
        (b",\"store\":", record.store.into()),
        (b",\"cluster\":", record.cluster),
        (b",\"device_reads\":", record.device_reads.into()),
    ] {
        out.extend_from_slice(name);
        text::number(n, out);
    }
    if let Some(names) = &record.names {
        let text = format!(
            ",\"key\":\"{:016x}\",\"client_id\":\"{:08x}\",\"server_id\":\"{:08x}\"",
            names.key, names.client, names.server
        );
        out.extend_from_slice(text.as_bytes());
    }
    for (name, protocol) in [
        (&b",\"http_client\":\""[..], record.http_client),
        (b",\"http_server\":\"", record.http_server),
    ] {
        out.extend_from_slice(name);
        out.extend_from_slice(protocol.as_str().as_bytes());
        out.push(b'"');
    }
    let encryption = record.encryption;
    if encryption != Encryption::None {
        out.extend_from_slice(b",\"tls_version\":\"");
        out.extend_from_slice(encryption.version().as_bytes());
        out.extend_from_slice(match encryption.is_resumed() {
            true => b"\",\"tls_session\":\"resumed\"",
            false => b"\",\"tls_session\":\"full\"",
        });
    }
    out.extend_from_slice(b",\"forwarded\":\"");
    out.extend_from_slice(record.hierarchy.as_str().as_bytes());
    out.extend_from_slice(b"\",\"flags\":[");
    let set = Flags::ALL
        .iter()
        .filter(|(flag, _)| record.flags.contains(*flag));
    for (i, (_, name)) in set.enumerate() {
        out.extend_from_slice(if i == 0 { b"\"" } else { b",\"" });
        out.extend_from_slice(name.as_bytes());
        out.push(b'"');
    }
    out.push(b']');
}

/// Appends an event as a line for people.
pub fn dump_event(event: &Event, out: &mut String) {
    let (at, words) = event_words(event);
    let mut when = Vec::new();
    text::time(at, &mut when);
    out.push_str(&String::from_utf8_lossy(&when));
    for (name, value) in words {
        out.push_str(&format!(" {name}={value}"));
    }
    out.push('\n');
}

/// Appends an event as a JSON object, with a line end.
pub fn dump_json_event(event: &Event, out: &mut Vec<u8>) {
    let (at, words) = event_words(event);
    out.extend_from_slice(b"{\"at\":\"");
    text::time(at, out);
    out.push(b'"');
    for (name, value) in words {
        out.extend_from_slice(b",\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\":");
        match value {
            Word::Number(number) => text::number(number, out),
            Word::Text(text) => text::json_string(text.as_bytes(), out),
        }
    }
    out.extend_from_slice(b"}\n");
}

/// A value of an event.
enum Word<'a> {
    Number(u64),
    Text(&'a str),
}

impl std::fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Word::Number(number) => number.fmt(f),
            // A file from elsewhere may contain control characters for the terminal.
            Word::Text(text) => text
                .chars()
                .map(|c| if c.is_control() { '\u{fffd}' } else { c })
                .try_for_each(|c| f.write_char(c)),
        }
    }
}

/// The time of an event, and its names and values.
fn event_words(event: &Event) -> (u64, Vec<(&'static str, Word<'_>)>) {
    use Word::{Number, Text};
    match event {
        Event::Write(it) => (
            it.start_unix_us,
            vec![
                ("event", Text("write")),
                ("total_us", Number(it.total_us.into())),
                ("bytes", Number(it.bytes)),
                ("records", Number(it.records.into())),
                ("store", Number(it.store.into())),
                ("cluster", Number(it.cluster)),
            ],
        ),
        Event::Read(it) => (
            it.start_unix_us,
            vec![
                ("event", Text("read")),
                ("wait_us", Number(it.wait_us.into())),
                ("total_us", Number(it.total_us.into())),
                ("bytes", Number(it.bytes)),
                ("objects", Number(it.objects.into())),
                ("store", Number(it.store.into())),
            ],
        ),
        Event::Second(it) => {
            let mut words = vec![
                ("event", Text("second")),
                ("of", Text(it.subject.as_str())),
                ("number", Number(it.number.into())),
            ];
            let gauges = it.gauges.iter();
            words.extend(gauges.map(|(gauge, value)| (gauge.as_str(), Number(*value))));
            (it.at_unix_us, words)
        }
        Event::Mark(it) => (
            it.at_unix_us,
            vec![
                ("event", Text("mark")),
                ("what", Text(it.kind.as_str())),
                ("text", Text(&it.text)),
            ],
        ),
        Event::Unknown => (0, vec![("event", Text("unknown"))]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::{any_record, memory_hit};
    use expect_test::expect;
    use proptest::prelude::*;

    #[test]
    fn columns_stand_under_their_names() {
        let mut out = dump_header();
        out.push('\n');
        dump_line(&memory_hit(), &mut out);
        expect![[r#"
            began                       class        method  status    bytes-out   total-us       client-connect                  dns        proxy-connect         server-reply              swap-in             swap-out          proxy-reply                 wait                 peer
            2023-11-14T22:13:20.123456Z memory-hit   GET        200        10480         84               0+0/31                    -                    -                    -                    -                    -              40+2/44                    -                    -
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn json_names_every_number() {
        let mut out = Vec::new();
        dump_json(&memory_hit(), &mut out);
        expect![[r#"
            {"began":"2023-11-14T22:13:20.123456Z","class":"memory-hit","status":200,"bytes_out":10480,"total_us":84,"method":"GET","object_bytes":10460,"server_bytes":0,"worker":0,"store":0,"cluster":0,"device_reads":0,"key":"0123456789abcdef","client_id":"00000007","server_id":"00000000","http_client":"HTTP/1.1","http_server":"","forwarded":"none","flags":["reused_client"],"stages":{"client-connect":{"start_us":0,"first_us":0,"total_us":31},"proxy-reply":{"start_us":40,"first_us":2,"total_us":44}}}
        "#]]
        .assert_eq(&String::from_utf8(out).unwrap());
    }

    proptest! {
        #[test]
        fn every_record_is_valid_json(record in any_record()) {
            let mut out = Vec::new();
            dump_json(&record, &mut out);
            let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
            prop_assert_eq!(value["bytes_out"].as_u64(), Some(record.bytes_out));
        }
    }
}
