//! Reading traces, including faulty ones.

use super::*;
use proptest::prelude::*;

fn read(text: &[u8], format: Option<Format>) -> (Vec<Access>, Trace) {
    let bytes = io::Cursor::new(text.to_vec());
    let mut trace = Trace::from_bytes("t".as_ref(), bytes, format, None).unwrap();
    let accesses = trace.by_ref().map(Result::unwrap).collect();
    (accesses, trace)
}

const BU: &str = "\
100.5\t8\tcs17\thttp://a.bu.edu/\t1934\t0.5\n\
101.5\t8\tcs17\thttp://b.bu.edu/x\t100\t0.5\n\
101.7\t8\tcs17\thttp://a.bu.edu/\t0\t0\n\
garbage\n\
102.5\t8\tcs17\thttp://A.bu.edu/y\t7\t0.5\n\
103.0\t8\tcs17\thttp://a.bu.edu/\t1934\t0.5\n";

#[test]
fn names_become_numbers_and_times_begin_at_zero() {
    let (found, trace) = read(BU.as_bytes(), None);
    let of = |at_ms, object, server, size_bytes| Access {
        at_ms,
        object,
        server,
        size_bytes,
    };
    let want = [
        of(0, 0, 0, 1934),
        of(1000, 1, 1, 100),
        of(2000, 2, 0, 7),
        of(2500, 0, 0, 1934),
    ];
    assert_eq!((found, trace.format()), (want.to_vec(), Format::Bu));
}

#[test]
fn bad_lines_are_counted_and_shown() {
    let (_, trace) = read(BU.as_bytes(), None);
    let tally = trace.tally();
    assert_eq!((tally.lines, tally.requests, tally.bad), (6, 4, 1));
    assert_eq!(tally.skipped[Skip::Browser as usize], 1);
    assert_eq!(tally.bad_shown, ["4: the time is no time: garbage"]);
}

#[test]
fn a_304_is_as_long_as_the_object_was() {
    let line = |url: &str, status: u32, bytes: u32| {
        format!("5.0 1 c TCP_X/{status} {bytes} GET http://a/{url} - D/- -\n")
    };
    let text = [
        line("x", 304, 200),
        line("x", 200, 5000),
        line("x", 304, 200),
    ]
    .concat();
    let (found, trace) = read(text.as_bytes(), Some(Format::Squid));
    assert_eq!(
        found.iter().map(|a| a.size_bytes).collect::<Vec<_>>(),
        [5000, 5000]
    );
    assert_eq!(trace.tally().skipped[Skip::Size as usize], 1);
}

#[test]
fn formats_tell_themselves() {
    use records::tests::{dec_bytes, oracle_record, ucb_bytes};
    let dec = [vec![7; records::DEC_HEADER_BYTES], dec_bytes(1, 200, 5, 9)].concat();
    let oracle: Vec<u8> = (0..100)
        .flat_map(|n| oracle_record(n, u64::from(n), 10))
        .collect();
    for (text, want) in [
        (BU.as_bytes(), Format::Bu),
        (b"5.0 1 c TCP_MISS/200 9 GET http://a/ - D/- -\n", Format::Squid),
        (b"h - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326\n", Format::Clf),
        (b"848278028:829593 848278028:893670 848278028:895350 1.1.1.1:1 2.2.2.2:80 2 8 1 1 1 170 844 37 GET 1.gif HTTP/1.0\n",
         Format::UcbText),
        (b"time event\n841281180123456 1 1 12 4321 838012345 200 GET http 77 80 html 16 501 0 99\n", Format::DecText),
        (b"at_ms,object,server,size_bytes\n1,2,3,4\n", Format::Csv),
        (b"1,2,3\n2,3,4\n", Format::Csv),
        (&dec, Format::Dec),
        (&ucb_bytes(844, "GET 1.gif HTTP/1.0"), Format::Ucb),
        (&oracle, Format::OracleGeneral),
    ] {
        let (found, trace) = read(text, None);
        assert_eq!(trace.format(), want);
        assert!(!found.is_empty(), "{want}");
        assert_eq!(want.to_string().parse(), Ok(want));
        assert!(UnknownFormat.to_string().contains(&want.to_string()));
    }
}

#[test]
fn what_is_no_trace_is_said_to_be_unclear() {
    for text in [
        "hello\nworld\nagain\nand again\n",
        "<html>\n<body>\n</body>\n</html>\n",
    ] {
        let bytes = io::Cursor::new(text.as_bytes());
        let found = Trace::from_bytes("t".as_ref(), bytes, None, None);
        assert!(
            matches!(found, Err(TraceError::Unclear { .. })),
            "{found:?}"
        );
    }
}

#[test]
fn long_lines_are_bad_and_take_no_memory() {
    let mut text = vec![b'x'; 3 * LINE_BYTES_MAX];
    text.extend(b"\n5,1,2\n");
    let (found, trace) = read(&text, Some(Format::Csv));
    assert_eq!((found.len(), trace.tally().bad), (1, 1));
    assert!(trace.line.capacity() < 4 * LINE_BYTES_MAX);
}

#[test]
fn a_source_that_breaks_off_ends_the_row_with_an_error() {
    let packed = ruzstd::encoding::compress_to_vec(
        BU.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    let cut = io::Cursor::new(packed[..packed.len() - 10].to_vec());
    let trace = Trace::from_bytes("t".as_ref(), cut, Some(Format::Bu), None).unwrap();
    let found: Vec<_> = trace.collect();
    assert!(matches!(
        found.last(),
        Some(Err(TraceError::Unreadable { .. }))
    ));
}

const LINES: [&str; 7] = [
    "100.5\t8\tcs17\thttp://a.bu.edu/\t1934\t0.5",
    "5.0 1 c TCP_MISS/200 9 GET http://a/ - D/- -",
    "h - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326",
    "848278028:829593 848278028:893670 848278028:895350 1.1.1.1:1 2.2.2.2:80 2 8 1 1 1 170 844 37 GET 1.gif HTTP/1.0",
    "841281180123456 1 1 12 4321 838012345 200 GET http 77 80 html 16 501 0 99",
    "1,2,3,4",
    "at_ms,object,server,size_bytes",
];

proptest! {
    /// A line of one format, with bytes changed, inserted and removed, read as any format.
    #[test]
    fn no_line_stops_a_reader(
        line in prop::sample::select(&LINES[..]),
        changes in prop::collection::vec((0usize..120, prop::sample::select(&b"0129-+:.,;\t \"[]/\\\xff"[..]), 0usize..30), 0..6),
    ) {
        let mut line = line.as_bytes().to_vec();
        for (at, byte, many) in changes {
            let at = at.min(line.len());
            match many {
                0 => line.truncate(at),
                1 if at < line.len() => line[at] = byte,
                many => drop(line.splice(at..at, vec![byte; many])),
            }
        }
        for format in Format::LINES {
            parse_line(format, &mut Csv::new(None), &line);
        }
        let text = [&line[..], b"\n", &line].concat();
        if let Ok(trace) = Trace::from_bytes("t".as_ref(), io::Cursor::new(text), None, None) {
            prop_assert!(trace.count() <= 2);
        }
    }

    #[test]
    fn no_record_stops_a_reader(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for (format, _) in Format::ALL {
            let bytes = [vec![0; records::DEC_HEADER_BYTES], bytes.clone()].concat();
            let trace = Trace::from_bytes("t".as_ref(), io::Cursor::new(bytes), Some(format), None);
            prop_assert!(trace.is_ok_and(|trace| trace.count() < 1000));
        }
    }
}
