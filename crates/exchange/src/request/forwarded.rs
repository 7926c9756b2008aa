//! The fields that describe the client to an origin: `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`.
//!
//! Applications trust these fields, so the client's own values must not reach an application behind a reverse listener: a forged
//! `X-Forwarded-Host` ends up in links, and the links in the cache. *Replace*, the default there, drops all of them and writes
//! what the proxy knows. *Append* is for a listener whose clients are trusted proxies. *None*, the default of forward
//! listeners, leaves the fields as they are: the proxy adds nothing about its clients.
//!
//! `Forwarded` (RFC 7239) carries the same facts in another syntax. If both are present, an application believes the one it finds
//! first, so only one should be sent: *replace* drops `Forwarded` and adds none, since applications read the older fields. *Append*
//! extends `Forwarded` if a proxy in front has begun it.
//!
//! The fields are written before the look-up, so that a response that varies by them is selected by the values that its origin
//! would see. Apart from that they are not part of the key, and a shared fetch carries those of its first client. The host is sent
//! only if it is part of the key (`target::Place::client_host`).
//!
//! Not known here: the client's identity, the cache.

use std::net::IpAddr;

use fields::Fields;

use plan::Forwarded;

/// The facts about a request's client that the fields tell.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The client's address.
    pub client: IpAddr,
    /// The host that the client asked for.
    pub host: Option<&'a str>,
    /// Is the client's connection encrypted?
    pub is_https: bool,
}

/// Writes the client's facts into the request's fields.
pub fn tell(fields: &mut Fields, how: Forwarded, known: Known<'_>) {
    let Known { client, host, .. } = known;
    let proto = if known.is_https { "https" } else { "http" };
    if how == Forwarded::None {
        return;
    }
    let client = text_of(client.to_canonical());
    match how {
        Forwarded::None => {}
        Forwarded::Replace => fields.retain(|name, _| !speaks_of_client(name)),
        Forwarded::Append => {
            // No proxy writes these names with `_`, so such a field is the client's own.
            fields.retain(|name, _| !name.contains(&b'_') || !speaks_of_client(name));
            append(fields, b"Forwarded", || element(&client, host, proto));
        }
    }
    if !append(fields, FOR, || client.clone()) {
        fields.push(FOR, client.as_bytes());
    }
    for (name, value) in [(PROTO, Some(proto)), (HOST, host)] {
        if let Some(value) = value
            && !fields.contains(name)
        {
            fields.push(name, value.as_bytes());
        }
    }
}

/// An address as text. IPv4 is formatted by hand, because the standard formatting costs ten times as much.
fn text_of(address: IpAddr) -> String {
    let IpAddr::V4(v4) = address else {
        return address.to_string();
    };
    let mut text = String::with_capacity("255.255.255.255".len());
    for (at, octet) in v4.octets().into_iter().enumerate() {
        if at > 0 {
            text.push('.');
        }
        message::push_number(octet.into(), &mut text);
    }
    text
}

const FOR: &[u8] = b"X-Forwarded-For";
const PROTO: &[u8] = b"X-Forwarded-Proto";
const HOST: &[u8] = b"X-Forwarded-Host";

/// Adds a member to a list field if the request has that field. Returns whether the request had it.
fn append(fields: &mut Fields, name: &[u8], member: impl FnOnce() -> String) -> bool {
    if !fields.contains(name) {
        return false;
    }
    let member = member();
    let mut list: Vec<&[u8]> = fields.all(name).filter(|value| !value.is_empty()).collect();
    list.push(member.as_bytes());
    let list = list.join(&b", "[..]);
    fields.set(name, &list);
    true
}

/// Does a proxy describe its client in this field? `_` counts as `-`, because many applications treat them alike.
fn speaks_of_client(name: &[u8]) -> bool {
    let same = |ours: &[u8], name: &[u8]| {
        let fits = |(a, b): (&u8, &u8)| *a == b.to_ascii_lowercase() || (*a == b'-' && *b == b'_');
        ours.len() == name.len() && ours.iter().zip(name).all(fits)
    };
    const PREFIX: &[u8] = b"x-forwarded-";
    let begins = name.get(..PREFIX.len());
    begins.is_some_and(|begin| same(PREFIX, begin))
        || same(b"x-real-ip", name)
        || same(b"forwarded", name)
}

/// Our member of Forwarded.
//= rfc7239 §4, §6   an IPv6 address stands in brackets, and so in quotes
fn element(client: &str, host: Option<&str>, proto: &str) -> String {
    let node = match client.contains(':') {
        true => format!("\"[{client}]\""),
        false => client.to_owned(),
    };
    let quotable = host.filter(|host| !host.contains(['"', '\\']));
    let host = quotable.map_or_else(String::new, |host| format!(";host=\"{host}\""));
    format!("for={node}{host};proto={proto}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(how: Forwarded, client: &str, host: Option<&str>, given: &[(&str, &str)]) -> String {
        let mut fields = Fields::new();
        for (name, value) in given {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let known = Known {
            client: client.parse().unwrap(),
            host,
            is_https: false,
        };
        tell(&mut fields, how, known);
        String::from_utf8(fields.as_wire().to_vec()).unwrap()
    }

    #[test]
    fn what_a_client_says_of_itself_is_replaced() {
        let given = [
            ("Accept", "a"),
            ("X-Forwarded-For", "6.6.6.6"),
            ("x-FORWARDED-anything", "6"),
            ("X_Forwarded_Host", "evil"),
            ("X-Real-IP", "6.6.6.6"),
            ("X_Real_IP", "6.6.6.6"),
            ("Forwarded", "for=6.6.6.6"),
            ("X-Forward", "is another field"),
        ];
        assert_eq!(
            told(
                Forwarded::Replace,
                "::ffff:192.0.2.1",
                Some("a.example:81"),
                &given
            ),
            "Accept: a\r\nX-Forward: is another field\r\nX-Forwarded-For: 192.0.2.1\r\n\
             X-Forwarded-Proto: http\r\nX-Forwarded-Host: a.example:81\r\n"
        );
        assert_eq!(
            told(Forwarded::Replace, "2001:db8::1", None, &[]),
            "X-Forwarded-For: 2001:db8::1\r\nX-Forwarded-Proto: http\r\n"
        );
    }

    #[test]
    fn a_trusted_proxy_is_added_to() {
        let given = [
            ("X-Forwarded-For", "192.0.2.1"),
            ("X-Forwarded-For", "192.0.2.2"),
            ("X-Forwarded-Proto", "https"),
            ("X-Real-IP", "192.0.2.1"),
            ("Forwarded", "for=192.0.2.1"),
            ("X_Forwarded_For", "6.6.6.6"),
        ];
        assert_eq!(
            told(Forwarded::Append, "2001:db8::1", Some("a.example"), &given),
            "X-Forwarded-Proto: https\r\nX-Real-IP: 192.0.2.1\r\n\
             Forwarded: for=192.0.2.1, for=\"[2001:db8::1]\";host=\"a.example\";proto=http\r\n\
             X-Forwarded-For: 192.0.2.1, 192.0.2.2, 2001:db8::1\r\nX-Forwarded-Host: a.example\r\n"
        );
        assert_eq!(
            told(Forwarded::Append, "192.0.2.3", None, &[]),
            "X-Forwarded-For: 192.0.2.3\r\nX-Forwarded-Proto: http\r\n"
        );
    }

    #[test]
    fn none_leaves_all_as_it_comes() {
        let given = [("X-Forwarded-For", "6.6.6.6")];
        let told = told(Forwarded::None, "192.0.2.1", Some("a"), &given);
        assert_eq!(told, "X-Forwarded-For: 6.6.6.6\r\n");
    }
}
