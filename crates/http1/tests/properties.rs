//! Heads and bodies that were written are read back; random bytes never panic and are never accepted.
//!
//! Heads are made of likely words: random bytes would all be refused at the first check. A failure prints the case;
//! `PROPTEST_CASES=100000` runs longer.

use fields::Fields;
use http1::{
    Chunk, ChunkedDecoder, Fault, Lenient, Limits, Scratch, parse_request, parse_response,
    scan_end, write_chunk_header, write_request_line, write_status_line, write_trailers,
    written_anew,
};
use message::{Framing, remove_hop_by_hop};
use proptest::collection::vec;
use proptest::prelude::*;

fn field_lines() -> impl Strategy<Value = Vec<(String, String)>> {
    vec(
        ("X-[A-Za-z0-9]{1,12}", "([!-~]([ -~]{0,20}[!-~])?)?"),
        0..12,
    )
}

fn to_fields(lines: &[(String, String)]) -> Fields {
    lines
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        .collect()
}

/// Pieces of heads, good and bad, in any order.
fn soup() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        8 => prop::sample::select(vec![
            "GET / HTTP/1.1\r\n", "POST http://a/b HTTP/1.0\r\n", "HTTP/1.1 200 OK\r\n", "Host: a\r\n",
            "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close, x\r\n", "\r\n",
            "Expect: 100-continue\r\n", "X: y\r\n", "HTTP/1.1 304 \r\n", "5\r\nhello\r\n", "0\r\n\r\n", "1;a=b\r\nx\r\n",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        2 => prop::sample::select(vec![
            "\n", "\r", " ", "\t", "\0", ":", ",", "GET", "/", "HTTP/1.1", "Host", "chunked", "Content-Length", "0", "f",
        ]).prop_map(|text| text.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 1..4),
    ];
    vec(word, 0..10).prop_map(|words| words.concat())
}

/// A response of fields, with some odd lines.
fn odd_head() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "A: b",
        "A: b ",
        " c",
        "\tc",
        " ",
        "Content-Length: 5",
        "Content-Length: 6",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding:",
        " chunked",
        "A : b",
        "a\rb: c",
        "",
        "A: b: c",
        " D: e",
    ]);
    let end = prop::sample::select(vec!["\r\n", "\r\n", "\n", "\r\r\n"]);
    vec((line, end), 0..8).prop_map(|lines| {
        let lines = lines.into_iter().flat_map(|(line, end)| [line, end]);
        let whole = ["HTTP/1.1 200 OK", "\n"]
            .into_iter()
            .chain(lines)
            .chain(["\n\nbody"]);
        whole.collect::<String>().into_bytes()
    })
}

/// The body, the trailers and the bytes used, or the fault and the bytes used by then.
fn decode(text: &[u8], cuts: &[usize]) -> Result<Option<(Vec<u8>, Fields, usize)>, Fault> {
    let mut decoder = ChunkedDecoder::new(&Limits::default());
    let (mut body, mut used) = (Vec::new(), 0);
    let ends = cuts
        .iter()
        .map(|cut| cut % (text.len() + 1))
        .chain([text.len()]);
    for end in ends {
        while used < end {
            match decoder
                .next(&text[used..end])
                .map_err(|reject| reject.fault())?
            {
                Chunk::Data { start, end } => {
                    body.extend_from_slice(&text[used + start..used + end]);
                    used += end;
                }
                Chunk::More { consumed } => used += consumed,
                Chunk::End { consumed, trailers } => {
                    return Ok(Some((body, trailers, used + consumed)));
                }
            }
        }
    }
    Ok(None)
}

/// Properties of every head that is accepted.
fn assert_unambiguous(head: &[u8]) {
    let text: Vec<u8> = head
        .iter()
        .copied()
        .filter(|b| *b != b'\t' && *b < 0x80)
        .collect();
    let lines: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
    let (last, lines) = lines.split_last().unwrap();
    assert!(last.is_empty());
    for line in lines {
        let line = line.strip_suffix(b"\r").expect("CRLF");
        assert!(line.iter().all(|b| (b' '..=b'~').contains(b)), "{head:?}");
        assert!(!line.starts_with(b" "));
    }
    let count = |name: &str| {
        let begins = |line: &&&[u8]| line.to_ascii_lowercase().starts_with(name.as_bytes());
        lines.iter().filter(begins).count()
    };
    assert!(count("transfer-encoding") == 0 || count("content-length") == 0);
    assert!(count("transfer-encoding") <= 1);
}

proptest! {
    #[test]
    fn requests_read_back(
        method in "[A-Z]{1,10}", target in "/[a-zA-Z0-9/?&=%._~|]{0,40}", lines in field_lines(), length in any::<Option<u32>>(),
    ) {
        prop_assume!(method != "CONNECT" && method != "TRACE");
        let mut fields = to_fields(&lines);
        fields.push(b"host", b"example.com:80");
        if let Some(length) = length {
            fields.push(b"Content-Length", length.to_string().as_bytes());
        }
        let mut head = Vec::new();
        write_request_line(&method, &target, &mut head);
        fields.write_to(&mut head);
        head.extend_from_slice(b"\r\n");

        let mut scratch = Scratch::new();
        let view = parse_request(&head, &Limits::default(), &mut scratch).unwrap().unwrap();
        prop_assert_eq!(view.head_bytes, head.len());
        prop_assert_eq!(scan_end(&head, 0), Some(head.len()));
        prop_assert_eq!(view.framing, length.map_or(Framing::None, |length| Framing::Length(length.into())));
        let read = view.to_owned();
        prop_assert_eq!((read.method, read.target, read.fields), (method, target, fields));
    }

    #[test]
    fn responses_read_back(status in 200u16..600, reason in "[A-Za-z][A-Za-z ]{0,20}", lines in field_lines()) {
        let fields = to_fields(&lines);
        let mut head = Vec::new();
        write_status_line(status, &reason, &mut head);
        fields.write_to(&mut head);
        head.extend_from_slice(b"\r\n");
        let (read, _) = parse_response(&head, &Limits::default(), "GET").unwrap().unwrap();
        prop_assert_eq!((read.status, read.reason, read.fields), (status, reason, fields));
    }

    #[test]
    fn what_passes_is_unambiguous(text in soup()) {
        let limits = Limits::default();
        let mut scratch = Scratch::new();
        if let Ok(Some(view)) = parse_request(&text, &limits, &mut scratch) {
            assert_unambiguous(&text[..view.head_bytes]);
            prop_assert_ne!(view.framing, Framing::UntilClose);
        }
        for to in ["GET", "HEAD", "CONNECT"] {
            if let Ok(Some((head, head_bytes))) = parse_response(&text, &limits, to) {
                assert_unambiguous(&text[..head_bytes]);
                let mut fields = head.fields;
                remove_hop_by_hop(&mut fields);
                prop_assert!(!fields.contains(b"Connection") && !fields.contains(b"Transfer-Encoding"));
            }
        }
    }

    #[test]
    fn a_verdict_is_final(text in soup(), more in soup()) {
        // More bytes do not change a refusal or a complete head.
        let limits = Limits::default();
        let whole = [text.as_slice(), &more].concat();
        let (mut first, mut second) = (Scratch::new(), Scratch::new());
        let before = parse_request(&text, &limits, &mut first);
        let after = parse_request(&whole, &limits, &mut second);
        match before {
            Err(_) => prop_assert!(after.is_err()),
            Ok(Some(view)) => prop_assert_eq!(view.head_bytes, after.unwrap().unwrap().head_bytes),
            Ok(None) => {}
        }
        if let Ok(Some((_, head_bytes))) = parse_response(&text, &limits, "GET") {
            let (_, after) = parse_response(&whole, &limits, "GET").unwrap().unwrap();
            prop_assert_eq!(head_bytes, after);
        }
    }

    #[test]
    fn leniently_is_strictly_of_the_text_written_anew(text in odd_head(), bare_lf: bool, folding: bool) {
        let lenient = Lenient { bare_lf, folding };
        let limits = Limits::default();
        let strict = parse_response(&text, &limits, "GET");
        let read = parse_response(&text, &Limits { lenient, ..limits }, "GET");
        match (strict, read) {
            (Ok(strict), Ok(read)) => prop_assert_eq!(format!("{strict:?}"), format!("{read:?}")),
            (Err(_), Err(_)) => {}
            (Err(_), Ok(None)) => prop_assert!(lenient.is_any() && scan_end(&text, 0).is_none()),
            (Err(_), Ok(Some((head, head_bytes)))) => {
                prop_assert!(lenient.is_any());
                prop_assert_eq!(scan_end(&text, 0), Some(head_bytes));
                let anew = written_anew(&text[..head_bytes], lenient);
                assert_unambiguous(&anew);
                let (again, again_bytes) = parse_response(&anew, &limits, "GET").unwrap().unwrap();
                prop_assert_eq!(again_bytes, anew.len());
                prop_assert_eq!(format!("{again:?}"), format!("{head:?}"));
            }
            (strict, read) => prop_assert!(false, "{strict:?} became {read:?}"),
        }
    }

    #[test]
    fn the_end_is_found_where_the_parser_finds_it(text in soup(), from in 0usize..200) {
        let mut scratch = Scratch::new();
        if let Ok(Some(view)) = parse_request(&text, &Limits::default(), &mut scratch) {
            prop_assert_eq!(scan_end(&text, 0), Some(view.head_bytes));
            let from = from % view.head_bytes;
            prop_assert_eq!(scan_end(&text, from), Some(view.head_bytes));
        }
    }

    #[test]
    fn chunked_bodies_read_back(pieces in vec(vec(any::<u8>(), 1..40), 0..6), lines in field_lines(), cuts in vec(any::<usize>(), 0..6)) {
        let trailers = to_fields(&lines);
        let mut text = Vec::new();
        for piece in &pieces {
            write_chunk_header(piece.len(), &mut text);
            text.extend_from_slice(piece);
            text.extend_from_slice(b"\r\n");
        }
        write_trailers(&trailers, &mut text);
        let end = text.len();
        text.extend_from_slice(b"GET /");
        prop_assert_eq!(decode(&text, &cuts), Ok(Some((pieces.concat(), trailers, end))));
    }

    #[test]
    fn cuts_change_nothing(text in soup(), head in prop::sample::select(vec!["", "3\r\nabc\r\n", "0\r\n"]), cuts in vec(any::<usize>(), 0..8)) {
        let text = [head.as_bytes(), &text].concat();
        prop_assert_eq!(decode(&text, &cuts), decode(&text, &[]));
    }

    #[test]
    fn random_bytes_never_panic(text in vec(any::<u8>(), 0..300), limit in 0usize..400) {
        let limits = Limits { head_bytes_max: limit, fields_max: limit, target_bytes_max: limit, ..Limits::default() };
        let parsed = parse_request(&text, &limits, &mut Scratch::new()).map(|view| view.is_some());
        prop_assert!(parsed != Ok(false) || text.len() < limit);
        let parsed = parse_response(&text, &limits, "GET").map(|head| head.is_some());
        prop_assert!(parsed != Ok(false) || text.len() < limit);
        let _ = ChunkedDecoder::new(&limits).next(&text);
        let _ = scan_end(&text, limit);
        let lossy = String::from_utf8_lossy(&text);
        let _ = http1::parse_target("GET", &lossy);
        let _ = message::Authority::parse(&lossy);
    }
}
