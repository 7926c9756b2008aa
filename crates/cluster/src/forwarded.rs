//! Request fields by which members tell each other more than clients may. All begin with `Loligo-`.
//!
//! `Loligo-From` is the address of the client for which a member asks. These fields are trusted only on a connection of a member. From other
//! clients they are removed, and `Loligo-From` is never forwarded to an origin.
//!
//! Not known here: how a connection is known to be a member's.

use std::net::IpAddr;

use fields::Fields;
use http1::RequestView;

/// The client's address.
pub const FROM: &[u8] = b"Loligo-From";
const PREFIX: &[u8] = b"loligo-";

/// The client for which a member asks, if the field is there.
pub fn client_of(view: &RequestView<'_, '_>) -> Option<IpAddr> {
    let is_from = |(name, _): &(&[u8], &[u8])| name.eq_ignore_ascii_case(FROM);
    let (_, value) = view.fields().find(is_from)?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Removes the fields that are not trusted, or have been read.
pub fn take_out(fields: &mut Fields, is_of_member: bool) {
    match is_of_member {
        true => _ = fields.remove(FROM),
        false => fields.retain(|name, _| !is_ours(name)),
    }
}

fn is_ours(name: &[u8]) -> bool {
    name.get(..PREFIX.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(PREFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_cannot_speak_like_a_member() {
        let fields = || {
            let mut fields = Fields::new();
            for name in ["Accept", "loligo-from", "Loligo-Key", "Loligo"] {
                fields.push(name.as_bytes(), b"192.0.2.1");
            }
            fields
        };
        let names = |is_of_member| {
            let mut fields = fields();
            take_out(&mut fields, is_of_member);
            let names = fields
                .iter()
                .map(|(name, _)| String::from_utf8_lossy(name).into_owned());
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false), "Accept Loligo");
        assert_eq!(names(true), "Accept Loligo-Key Loligo");
    }

    #[test]
    fn a_client_is_an_address_and_nothing_else() {
        for (value, expected) in [
            ("192.0.2.1", Some("192.0.2.1")),
            ("2001:db8::1", Some("2001:db8::1")),
            ("192.0.2.1:80", None),
            ("somebody", None),
        ] {
            let text = format!("GET / HTTP/1.1\r\nHost: a\r\nLoligo-From: {value}\r\n\r\n");
            let mut scratch = http1::Scratch::new();
            let view =
                http1::parse_request(text.as_bytes(), &http1::Limits::default(), &mut scratch);
            let client = client_of(&view.unwrap().unwrap());
            assert_eq!(
                client,
                expected.map(|text| text.parse().unwrap()),
                "{value}"
            );
        }
    }
}
