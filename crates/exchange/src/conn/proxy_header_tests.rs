//! Examples of headers, and hostile ones.

use super::*;

fn v2(command: u8, family: u8, length: u16, body: &[u8]) -> Vec<u8> {
    let mut out = V2_BEGINS.to_vec();
    out.extend([command, family]);
    out.extend(length.to_be_bytes());
    out.extend(body);
    out
}

fn whole(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
    v2(command, family, body.len() as u16, body)
}

fn v4_addresses() -> Vec<u8> {
    [&[192, 0, 2, 7, 10, 0, 0, 1][..], &[0x1f, 0x90, 0, 80]].concat()
}

fn named(text: &str) -> Named {
    Named::Client(text.parse().unwrap())
}

#[test]
fn version_1_names_the_client() {
    let long = "PROXY TCP6 ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    for (line, expected) in [
        (
            "PROXY TCP4 192.0.2.7 10.0.0.1 8080 80\r\n",
            named("192.0.2.7:8080"),
        ),
        (
            "PROXY TCP6 2001:db8::1 ::1 1 80\r\n",
            named("[2001:db8::1]:1"),
        ),
        (
            "PROXY TCP6 ::ffff:192.0.2.7 ::1 1 80\r\n",
            named("192.0.2.7:1"),
        ),
        ("PROXY UNKNOWN\r\n", Named::Nobody),
        ("PROXY UNKNOWN ffff::f whatever\r\n", Named::Nobody),
        (
            long,
            named("[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535"),
        ),
    ] {
        let followed = [line.as_bytes(), b"GET / HTTP/1.1\r\n"].concat();
        assert_eq!(read(&followed), Ok(Some((expected, line.len()))), "{line}");
    }
}

#[test]
fn version_1_is_taken_only_as_it_is_specified() {
    for line in [
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080 80 1\r\n",
        "PROXY TCP4  192.0.2.7 10.0.0.1 8080 80\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 8080 80\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 65536 80\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 080 80\r\n",
        "PROXY TCP4 192.0.2.7 10.0.0.1 +80 80\r\n",
        "PROXY TCP4 192.0.2.007 10.0.0.1 80 80\r\n",
        "PROXY TCP4 ::1 ::1 80 80\r\n",
        "PROXY TCP6 192.0.2.7 10.0.0.1 80 80\r\n",
        "PROXY UDP4 192.0.2.7 10.0.0.1 80 80\r\n",
        "PROXY \r\n",
        "PROXY TCP4 a\u{e9} b 1 2\r\n",
    ] {
        assert_eq!(read(line.as_bytes()), Err(Fault::Malformed), "{line}");
    }
    for other in [
        "GET / HTTP/1.1\r\n",
        "proxy TCP4",
        "PROXYX",
        "X",
        "\r\nGET",
        "\r\n\r\n\0\r\nQUIX",
    ] {
        assert_eq!(read(other.as_bytes()), Err(Fault::Missing), "{other:?}");
    }
    let endless = ["PROXY ", &"x".repeat(V1_BYTES_MAX)].concat();
    assert_eq!(read(endless.as_bytes()), Err(Fault::Long));
    assert_eq!(read(&endless.as_bytes()[..V1_BYTES_MAX - 1]), Ok(None));
}

#[test]
fn version_2_names_the_client() {
    let v6 = {
        let (source, destination) = (Ipv6Addr::LOCALHOST.octets(), Ipv6Addr::LOCALHOST.octets());
        [&source[..], &destination, &[0, 9, 0, 80]].concat()
    };
    let with_values = [&v4_addresses()[..], &[1, 0, 2, b'h', b'2', 0xee, 0, 0]].concat();
    for (header, expected) in [
        (whole(0x21, 0x11, &v4_addresses()), named("192.0.2.7:8080")),
        (whole(0x21, 0x11, &with_values), named("192.0.2.7:8080")),
        (whole(0x21, 0x21, &v6), named("[::1]:9")),
        (whole(0x21, 0x12, &v4_addresses()), Named::Nobody),
        (whole(0x21, 0x31, &[0; 216]), Named::Nobody),
        (whole(0x21, 0x00, b"any"), Named::Nobody),
        (whole(0x20, 0x00, b""), Named::Nobody),
        (whole(0x20, 0x77, b"garbage"), Named::Nobody),
    ] {
        let followed = [&header[..], b"GET"].concat();
        assert_eq!(
            read(&followed),
            Ok(Some((expected, header.len()))),
            "{header:?}"
        );
    }
}

#[test]
fn version_2_is_bounded_and_framed() {
    let garbage = |values: &[u8]| whole(0x21, 0x11, &[&v4_addresses()[..], values].concat());
    for (header, fault) in [
        (v2(0x21, 0x11, 65535, b""), Fault::Long),
        (
            v2(0x21, 0x11, (V2_BYTES_MAX - V2_HEAD_BYTES + 1) as u16, b""),
            Fault::Long,
        ),
        (v2(0x21, 0x11, 11, b""), Fault::Malformed),
        (v2(0x21, 0x21, 35, b""), Fault::Malformed),
        (v2(0x21, 0x31, 100, b""), Fault::Malformed),
        (v2(0x11, 0x11, 12, b""), Fault::Malformed),
        (v2(0x22, 0x11, 12, b""), Fault::Malformed),
        (v2(0x21, 0x41, 12, b""), Fault::Malformed),
        (garbage(&[1]), Fault::Malformed),
        (garbage(&[1, 0]), Fault::Malformed),
        (garbage(&[1, 0, 5, 1]), Fault::Malformed),
        (garbage(&[1, 255, 255]), Fault::Malformed),
    ] {
        assert_eq!(read(&header), Err(fault), "{header:?}");
    }
    let longest = v2(
        0x20,
        0,
        (V2_BYTES_MAX - V2_HEAD_BYTES) as u16,
        &[0; V2_BYTES_MAX],
    );
    assert_eq!(read(&longest), Ok(Some((Named::Nobody, V2_BYTES_MAX))));
}

/// A header that arrives byte by byte is read with its last byte and not before. Bytes that begin otherwise are refused at once.
#[test]
fn every_beginning_of_a_header_wants_more() {
    let headers = [
        b"PROXY TCP4 192.0.2.7 10.0.0.1 8080 80\r\n".to_vec(),
        whole(
            0x21,
            0x11,
            &[&v4_addresses()[..], &[4, 0, 3, 1, 2, 3]].concat(),
        ),
        whole(0x20, 0, &[7; 100]),
    ];
    for header in headers {
        for end in 0..header.len() {
            assert_eq!(read(&header[..end]), Ok(None), "{end} bytes");
        }
        assert!(matches!(read(&header), Ok(Some((_, n))) if n == header.len()));
    }
}

/// Whatever arrives, the parser waits for no more bytes than its bound.
#[test]
fn no_bytes_make_it_wait_for_more_than_the_bound() {
    let mut seed = 7_u64;
    let mut random = move || {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u8
    };
    for round in 0..20_000 {
        let mut bytes = match round % 3 {
            0 => V2_BEGINS.to_vec(),
            1 => V1_BEGINS.to_vec(),
            _ => Vec::new(),
        };
        if round % 3 == 0 {
            bytes.extend([
                0x20 | random() & 1,
                [0, 0x11, 0x21, 0x31][usize::from(random() % 4)],
            ]);
            bytes.extend([random() & 3, random()]);
        }
        bytes.extend((0..V2_BYTES_MAX).map(|_| random()));
        match read(&bytes) {
            Ok(Some((_, n))) => assert!(n <= V2_BYTES_MAX),
            Ok(None) => panic!("{} bytes, and more are wanted: {bytes:?}", bytes.len()),
            Err(_) => {}
        }
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (client, ours, read_as) in [
        ("192.0.2.7:5", "10.0.0.1:80", "192.0.2.7:5"),
        ("[2001:db8::7]:5", "[::1]:80", "[2001:db8::7]:5"),
        ("192.0.2.7:5", "[::]:80", "192.0.2.7:5"),
        ("[2001:db8::7]:5", "10.0.0.1:80", "[2001:db8::7]:5"),
        ("[::ffff:192.0.2.7]:0", "10.0.0.1:80", "192.0.2.7:0"),
    ] {
        let header = write(client.parse().unwrap(), ours.parse().unwrap());
        assert_eq!(read(&header), Ok(Some((named(read_as), header.len()))));
    }
}
