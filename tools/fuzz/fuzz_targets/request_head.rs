//! Any bytes as a request: no panic; every prefix agrees with the whole; what passes has strict lines and
//! reads the same once we have written it ourselves.
#![no_main]

use http1::{Limits, Scratch, parse_request, parse_target, scan_end, write_request_line};
use message::{Authority, Framing, RequestHead, remove_hop_by_hop};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits {
        head_bytes_max: 4096,
        fields_max: 32,
        target_bytes_max: 1024,
        ..Limits::default()
    };
    let mut scratch = Scratch::new();
    let Ok(Some(view)) = parse_request(bytes, &limits, &mut scratch) else {
        return;
    };
    let head_bytes = view.head_bytes;
    assert_eq!(scan_end(bytes, 0), Some(head_bytes));
    assert_ne!(view.framing, Framing::UntilClose);
    if let Some(host) = view.host {
        assert!(Authority::parse(host).is_some());
    }
    let _ = parse_target(view.method, view.target);
    assert_strict(&bytes[..head_bytes]);

    for len in 0..head_bytes {
        assert!(matches!(
            parse_request(&bytes[..len], &limits, &mut Scratch::new()),
            Ok(None)
        ));
    }

    let head = view.to_owned();
    let mut written = Vec::new();
    write_request_line(&head.method, &head.target, &mut written);
    head.fields.write_to(&mut written);
    written.extend_from_slice(b"\r\n");
    if written.len() <= limits.head_bytes_max && head.version == message::Version::Http11 {
        let mut scratch = Scratch::new();
        let again = parse_request(&written, &limits, &mut scratch);
        let again = again
            .expect("our own head is valid")
            .expect("and complete")
            .to_owned();
        assert_eq!(again.head_parts(), head.head_parts());
    }

    let mut fields = head.fields.clone();
    remove_hop_by_hop(&mut fields);
    fields.audit().expect("the list is sound");
    for name in [
        "Connection",
        "Transfer-Encoding",
        "TE",
        "Upgrade",
        "Keep-Alive",
    ] {
        assert!(!fields.contains(name.as_bytes()));
    }
    assert_eq!(fields.first(b"Host").is_some(), head.host.is_some());
});

trait Parts {
    fn head_parts(
        &self,
    ) -> (
        &str,
        &str,
        &fields::Fields,
        Framing,
        Option<&str>,
        bool,
        bool,
    );
}

impl Parts for RequestHead {
    fn head_parts(
        &self,
    ) -> (
        &str,
        &str,
        &fields::Fields,
        Framing,
        Option<&str>,
        bool,
        bool,
    ) {
        let host = self.host.as_deref();
        (
            &self.method,
            &self.target,
            &self.fields,
            self.framing,
            host,
            self.keep_alive,
            self.expect_continue,
        )
    }
}

fn assert_strict(head: &[u8]) {
    for (at, &byte) in head.iter().enumerate() {
        match byte {
            b'\r' => assert_eq!(head[at + 1], b'\n'),
            b'\n' => assert_eq!(head[at - 1], b'\r'),
            b'\t' => {}
            _ => assert!(!byte.is_ascii_control()),
        }
    }
}
