//! Heads by example: one that passes, and one for each fault.

use super::*;
use crate::hpack::{Decoder, write_field};

/// Reads a head of these lines; returns it as one line of text, or its fault.
fn read(lines: &[(&str, &str)], ends: bool) -> Result<String, Fault> {
    let mut block = Vec::new();
    for (name, value) in lines {
        // Literal, without a table, whatever the bytes are.
        block.extend_from_slice(&[0, name.len() as u8]);
        block.extend_from_slice(name.as_bytes());
        block.push(value.len() as u8);
        block.extend_from_slice(value.as_bytes());
    }
    let limits = Limits {
        head_bytes_max: 1000,
        fields_max: 12,
        ..Limits::default()
    };
    let mut head = HeadBuffer::default();
    head.begin();
    Decoder::new(4096)
        .decode(&block, |field| head.add(field, Part::Request, &limits))
        .unwrap();
    head.finish_request(ends)?;
    let view = head.view(ends);
    let fields: Vec<String> = view
        .fields
        .iter()
        .map(|(name, value)| {
            format!(
                "{}={}",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            )
        })
        .collect();
    Ok(format!(
        "{} {} {} [{}]",
        view.method,
        view.authority,
        view.path,
        fields.join(", ")
    ))
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.example"),
    (":path", "/x?y"),
];

fn get_and(more: &[(&'static str, &'static str)]) -> Result<String, Fault> {
    read(&[&GET[..], more].concat(), true)
}

fn without(name: &str) -> Vec<(&'static str, &'static str)> {
    GET.into_iter()
        .filter(|(other, _)| *other != name)
        .collect()
}

fn with(name: &str, value: &'static str) -> Vec<(&'static str, &'static str)> {
    GET.into_iter()
        .map(|(other, old)| (other, if other == name { value } else { old }))
        .collect()
}

#[test]
fn a_plain_request() {
    assert_eq!(
        get_and(&[
            ("accept", "*/*"),
            ("cookie", "a=1"),
            ("te", "trailers"),
            ("cookie", "b=2")
        ])
        .unwrap(),
        "GET a.example /x?y [accept=*/*, te=trailers, cookie=a=1; b=2, host=a.example]"
    );
}

#[test]
fn host_stands_in_for_authority() {
    let lines = [without(":authority"), vec![("host", "b:80")]].concat();
    assert_eq!(read(&lines, true).unwrap(), "GET b:80 /x?y [host=b:80]");
    assert_eq!(
        get_and(&[("host", "A.EXAMPLE")]).unwrap(),
        "GET a.example /x?y [host=A.EXAMPLE]"
    );
}

#[test]
fn malformed_heads() {
    let faults: &[(&[(&'static str, &'static str)], Fault)] = &[
        (&[("Accept", "x")], Fault::FieldName),
        (&[("a b", "x")], Fault::FieldName),
        (&[("", "x")], Fault::FieldName),
        (&[("content_length", "0")], Fault::FieldName),
        (&[("a", "x\ny")], Fault::FieldValue),
        (&[("a", " x")], Fault::FieldValue),
        (&[(":path", "/")], Fault::PseudoRepeated),
        (&[("a", "x"), (":protocol", "y")], Fault::PseudoAfterField),
        (&[(":status", "200")], Fault::PseudoUnknown),
        (&[("connection", "close")], Fault::ConnectionField),
        (&[("transfer-encoding", "chunked")], Fault::ConnectionField),
        (&[("upgrade", "x")], Fault::ConnectionField),
        (&[("te", "gzip")], Fault::Te),
        (&[("te", "trailers"), ("te", "trailers")], Fault::Te),
        (&[("host", "b")], Fault::HostDiffers),
        (
            &[("host", "a.example"), ("host", "a.example")],
            Fault::HostDiffers,
        ),
        (
            &[("content-length", "0"), ("content-length", "0")],
            Fault::ContentLength,
        ),
        (&[("content-length", "+1")], Fault::ContentLength),
        (&[("content-length", "5")], Fault::LengthDiffers),
        (&[(":protocol", "websocket")], Fault::Connect),
        (&[("a", ""); 12], Fault::TooManyFields),
    ];
    for (more, fault) in faults {
        assert_eq!(get_and(more), Err(*fault), "{more:?}");
    }
    let long = "x".repeat(120);
    // Crumbs count as one field, each as its text and a separator.
    let crumbs = |count| {
        GET.into_iter()
            .chain(std::iter::repeat_n(("cookie", &long[..]), count))
    };
    assert!(read(&crumbs(7).collect::<Vec<_>>(), true).is_ok());
    let many: Vec<(&str, &str)> = crumbs(8).collect();
    assert_eq!(read(&many, true), Err(Fault::HeadTooLarge));
    for (lines, fault) in [
        (without(":method"), Fault::PseudoMissing),
        (without(":scheme"), Fault::PseudoMissing),
        (without(":path"), Fault::PseudoMissing),
        (without(":authority"), Fault::AuthorityMissing),
        (with(":method", "G T"), Fault::Method),
        (with(":method", ""), Fault::Method),
        (with(":scheme", "ftp"), Fault::Scheme),
        (with(":path", ""), Fault::Path),
        (with(":path", "*"), Fault::Path),
        (with(":path", "x"), Fault::Path),
        (with(":path", "/a b"), Fault::Path),
        (with(":path", "/a#b"), Fault::Path),
        (with(":path", "/\u{e4}"), Fault::Path),
        (with(":authority", "u@a"), Fault::Authority),
        (with(":authority", "a/b"), Fault::Authority),
        (with(":authority", ""), Fault::Authority),
        (with(":authority", "\u{e4}"), Fault::Authority),
    ] {
        assert_eq!(read(&lines, true), Err(fault), "{lines:?}");
    }
}

#[test]
fn connect_and_options() {
    let connect = [(":method", "CONNECT"), (":authority", "a:443")];
    assert_eq!(
        read(&connect, false).unwrap(),
        "CONNECT a:443  [host=a:443]"
    );
    assert_eq!(read(&connect, true), Err(Fault::Connect));
    assert_eq!(
        read(&[connect[0], (":authority", "a")], false),
        Err(Fault::Connect)
    );
    assert_eq!(
        read(&[connect[0], ("host", "a:443")], false),
        Err(Fault::AuthorityMissing)
    );
    assert_eq!(
        read(&[&connect[..], &[(":path", "/")]].concat(), false),
        Err(Fault::Connect)
    );
    assert_eq!(
        read(&[&connect[..], &[("content-length", "0")]].concat(), false),
        Err(Fault::Connect)
    );
    let extended = [
        &with(":method", "CONNECT")[..],
        &[(":protocol", "websocket")],
    ]
    .concat();
    assert_eq!(
        read(&extended, false).unwrap(),
        "CONNECT a.example /x?y [host=a.example]"
    );
    let options = [
        (":method", "OPTIONS"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "*"),
    ];
    assert_eq!(read(&options, true).unwrap(), "OPTIONS a * [host=a]");
}

#[test]
fn what_our_encoder_writes_is_read() {
    let mut block = Vec::new();
    for (name, value) in GET {
        write_field(name.as_bytes(), value.as_bytes(), &mut block);
    }
    let mut head = HeadBuffer::default();
    head.begin();
    Decoder::new(0)
        .decode(&block, |field| {
            head.add(field, Part::Request, &Limits::default())
        })
        .unwrap();
    head.finish_request(true).unwrap();
    assert_eq!(head.view(true).path, "/x?y");
}
