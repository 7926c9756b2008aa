//! Records as lines: columns for people, JSON for programs.

use crate::text;
use crate::{Record, StageName};

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

/// Appends one record in columns, with a line end. A stage is `start+first/total` in microseconds (`start`
/// since the request began, the other two since the stage did), `-` if the request did not pass through it.
pub fn dump_line(record: &Record, out: &mut String) {
    use std::fmt::Write as _;
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
            began                       class        method  status    bytes-out   total-us       client-connect                  dns        proxy-connect         server-reply              swap-in             swap-out          proxy-reply
            2023-11-14T22:13:20.123456Z memory-hit   GET        200        10480         84               0+0/31                    -                    -                    -                    -                    -              40+2/44
        "#]]
        .assert_eq(&out);
    }

    #[test]
    fn json_names_every_number() {
        let mut out = Vec::new();
        dump_json(&memory_hit(), &mut out);
        expect![[r#"
            {"began":"2023-11-14T22:13:20.123456Z","class":"memory-hit","status":200,"bytes_out":10480,"total_us":84,"method":"GET","stages":{"client-connect":{"start_us":0,"first_us":0,"total_us":31},"proxy-reply":{"start_us":40,"first_us":2,"total_us":44}}}
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
