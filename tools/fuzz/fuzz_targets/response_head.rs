//! Any bytes as a response: no panic; every prefix agrees with the whole; what passes has strict lines and
//! reads the same once we have written it ourselves. The first byte picks the method it answers.
#![no_main]

use http1::{Limits, parse_response, scan_end, write_status_line};
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
    let Ok(Some((head, head_bytes))) = parse_response(bytes, &limits, to) else {
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
