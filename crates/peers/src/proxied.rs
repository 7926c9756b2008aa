//! A request in the form for another proxy: with the whole URL in its first line.
//!
//! Not known here: which proxy gets it.

use http1::head_lines;
use origin::Destination;

/// The absolute URL of a request, without a fragment. `*` (the server itself) becomes the URL without a path (RFC 9112 §3.2.4).
pub fn url(destination: &Destination, target: &str) -> String {
    let target = match target {
        "*" => "",
        target => target,
    };
    format!("{destination}{target}")
}

/// The request in absolute form. `request`: as it would go to the origin. `more`: additional fields.
//= rfc9112 §3.2.2   absolute-form, when making a request to a proxy
pub fn request(
    (destination, target): (&Destination, &str),
    request: &[u8],
    more: &[(&[u8], &[u8])],
) -> Vec<u8> {
    let method_end = memchr::memchr(b' ', request).map_or(0, |at| at + 1);
    let target_end = method_end + target.len();
    let fields_end = request.len() - b"\r\n".len();
    let url = url(destination, target);
    let mut out = Vec::with_capacity(request.len() + url.len() + 64);
    out.extend_from_slice(&request[..method_end]);
    out.extend_from_slice(url.as_bytes());
    out.extend_from_slice(&request[target_end..fields_end]);
    for (name, value) in more {
        head_lines::write_field(name, value, &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out
}

/// A CONNECT request for a tunnel through a parent.
//= rfc9110 §9.3.6   authority-form, and Host the same
pub fn connect<'a>(authority: &str, more: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Vec<u8> {
    let mut out = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
    for (name, value) in more {
        head_lines::write_field(name, value, &mut out);
    }
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(tls: bool, host: &str, port: u16) -> Destination {
        Destination {
            tls,
            host: host.into(),
            port,
            member: None,
            terms: None,
            http2: None,
        }
    }

    #[test]
    fn the_first_line_has_the_whole_url() {
        let direct = b"GET /a?b HTTP/1.1\r\nHost: x.example\r\n\r\n";
        let to_proxy = request(
            (&server(false, "x.example", 80), "/a?b"),
            direct,
            &[(b"A", b"b")],
        );
        assert_eq!(
            String::from_utf8(to_proxy).unwrap(),
            "GET http://x.example/a?b HTTP/1.1\r\nHost: x.example\r\nA: b\r\n\r\n"
        );
        for (server, target, expected) in [
            (server(true, "x.example", 443), "/", "https://x.example/"),
            (
                server(false, "2001:db8::1", 81),
                "/",
                "http://[2001:db8::1]:81/",
            ),
            (server(false, "x.example", 80), "*", "http://x.example"),
        ] {
            assert_eq!(url(&server, target), expected);
        }
    }

    #[test]
    fn a_request_for_the_server_has_no_path() {
        let direct = b"OPTIONS * HTTP/1.1\r\nHost: x.example\r\n\r\n";
        let to_proxy = request(
            (&server(false, "x.example", 80), "*"),
            direct,
            &[(b"A", b"b")],
        );
        assert!(to_proxy.starts_with(b"OPTIONS http://x.example HTTP/1.1\r\n"));
    }

    #[test]
    fn a_tunnel_names_its_end_twice() {
        let tunnel = connect("x.example:443", [(&b"A"[..], &b"b"[..])].into_iter());
        let expected = "CONNECT x.example:443 HTTP/1.1\r\nHost: x.example:443\r\nA: b\r\n\r\n";
        assert_eq!(String::from_utf8(tunnel).unwrap(), expected);
    }
}
