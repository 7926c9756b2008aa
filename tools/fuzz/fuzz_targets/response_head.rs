//! Any bytes as a response: no panic; every prefix agrees with the whole; what passes has strict lines and
//! reads the same once we have written it ourselves. What is read leniently is what is read strictly of the text with its lines
//! written anew. The first byte picks the method it answers, and which oddities are permitted.
#![no_main]

use http1::{Lenient, Limits, parse_response, scan_end, write_status_line, written_anew};
use message::{Framing, remove_hop_by_hop};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else {
        return;
    };
    let to = ["GET", "HEAD", "CONNECT", "POST"][usize::from(choice % 4)];
    let limits = Limits {
        head_bytes_max: 4096,
        fields_max: 32,
        ..Limits::default()
    };
    let strict = parse_response(bytes, &limits, to);
    let lenient = Lenient {
        bare_lf: choice & 4 != 0,
        folding: choice & 8 != 0,
    };
    let permitting = Limits { lenient, ..limits };
    match (&strict, parse_response(bytes, &permitting, to)) {
        (Ok(Some((head, head_bytes))), Ok(Some((same, same_bytes)))) => {
            assert_eq!((head_bytes, &head.fields), (&same_bytes, &same.fields));
        }
        (Ok(None), Ok(None)) | (Err(_), Err(_)) => {}
        (Err(_), Ok(None)) => assert!(lenient.is_any() && scan_end(bytes, 0).is_none()),
        (Err(_), Ok(Some((head, head_bytes)))) => {
            assert!(lenient.is_any());
            assert_eq!(scan_end(bytes, 0), Some(head_bytes));
            let anew = written_anew(&bytes[..head_bytes], lenient);
            let long = Limits {
                head_bytes_max: anew.len(),
                ..limits
            };
            let of_anew = parse_response(&anew, &long, to).expect("it is strict");
            let (again, again_bytes) = of_anew.expect("and complete");
            assert_eq!(again_bytes, anew.len());
            assert_eq!(
                (again.status, &again.fields, again.framing, again.keep_alive),
                (head.status, &head.fields, head.framing, head.keep_alive)
            );
        }
        (strict, lenient) => panic!("{strict:?} became {lenient:?}"),
    }
    let Ok(Some((head, head_bytes))) = strict else {
        return;
    };
    assert_eq!(scan_end(bytes, 0), Some(head_bytes));
    assert!((100..=999).contains(&head.status));
    assert!(head.framing != Framing::UntilClose || !head.keep_alive);
    assert!(head.fields.count(b"Content-Length") <= 1);
    for (at, &byte) in bytes[..head_bytes].iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(bytes[at + 1], b'\n'),
            b'\n' => assert_eq!(bytes[at - 1], b'\r'),
            b'\t' => {}
            _ => assert!(!byte.is_ascii_control()),
        }
    }
    for len in 0..head_bytes {
        assert!(matches!(
            parse_response(&bytes[..len], &limits, to),
            Ok(None)
        ));
    }

    let mut written = Vec::new();
    write_status_line(head.status, &head.reason, &mut written);
    head.fields.write_to(&mut written);
    written.extend_from_slice(b"\r\n");
    if written.len() <= limits.head_bytes_max && head.version == message::Version::Http11 {
        let again = parse_response(&written, &limits, to).expect("our own head is valid");
        let (again, _) = again.expect("and complete");
        assert_eq!(
            (again.status, &again.fields, again.framing),
            (head.status, &head.fields, head.framing)
        );
        assert_eq!(again.keep_alive, head.keep_alive);
    }

    let mut fields = head.fields;
    remove_hop_by_hop(&mut fields);
    fields.audit().expect("the list is sound");
    assert!(!fields.contains(b"Connection") && !fields.contains(b"Transfer-Encoding"));
});
