//! Finds the client of a request that came through trusted balancers.
//!
//! Each proxy on the way appends the address it was asked by to a list: `X-Forwarded-For`, or `Forwarded` (RFC 7239). So the last
//! entry was written by our peer, the entry before it by the host that the last entry names, and so on. An entry is believed only
//! if its author is trusted: the client is the last address in the list that is not trusted itself. Earlier entries may be
//! inventions of the client and are not read.
//!
//! The operator names one of the two fields, and only that field is read. A balancer that writes one of them commonly forwards the
//! other unchanged, so reading both would mean believing the client.
//!
//! An entry with a loopback or hidden address (`unknown`, `_secret`) is ignored and its author counts as the client: only the author
//! itself reaches that loopback address. A malformed list is refused: an open quote from the client would swallow the balancer's entry.
//!
//! Not known here: connections. Limits: at most [`HOPS_MAX`] trusted addresses in a row; then the last of them counts as the client.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use plan::ClientField;

/// Trusted addresses that are followed in one list.
const HOPS_MAX: usize = 32;

/// The list cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// The client of a request that came from `hop`, a trusted address. `lines`: the field's values, in order.
///
/// # Errors
/// A part of the list that has to be believed is malformed.
pub fn client<'a>(
    trusted: &[IpNet],
    field: ClientField,
    hop: SocketAddr,
    lines: impl Iterator<Item = &'a [u8]>,
) -> Result<SocketAddr, Unreadable> {
    let lines: Vec<&[u8]> = lines.collect();
    let mut walk = Walk {
        trusted,
        client: hop,
        left: HOPS_MAX,
    };
    for line in lines.into_iter().rev() {
        let is_over = match field {
            ClientField::XForwardedFor => walk.addresses(line)?,
            ClientField::Forwarded => walk.elements(line)?,
        };
        if is_over {
            break;
        }
    }
    Ok(walk.client)
}

/// Is this address in one of the networks?
pub fn covers(networks: &[IpNet], address: IpAddr) -> bool {
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// Walks the list from the last entry to the first while the entries' authors are trusted.
struct Walk<'a> {
    trusted: &'a [IpNet],
    /// The address found so far; its author is trusted.
    client: SocketAddr,
    left: usize,
}

impl Walk<'_> {
    /// Reads a line of X-Forwarded-For. True: the client is found.
    fn addresses(&mut self, line: &[u8]) -> Result<bool, Unreadable> {
        for entry in line.rsplit(|&b| b == b',') {
            //= rfc9110 §5.6.1.2   a recipient ignores a reasonable number of empty list elements
            let entry = entry.trim_ascii();
            if !entry.is_empty() && self.meets(node(entry)?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads a line of Forwarded. True: the client is found.
    fn elements(&mut self, line: &[u8]) -> Result<bool, Unreadable> {
        // Quotes can only be parsed from the beginning of the line, so parse forwards and keep the last `HOPS_MAX` entries.
        let mut last = [const { None }; HOPS_MAX];
        let (mut count, mut rest) = (0, line);
        while let Some((node, behind)) = element(rest)? {
            last[count % HOPS_MAX] = node;
            (count, rest) = (count + 1, behind);
        }
        for back in 1..=count.min(HOPS_MAX) {
            let node = match last[(count - back) % HOPS_MAX] {
                // Parse an address only when the walk reaches it: entries further left are the client's and may be malformed.
                Some(text) => node(text)?,
                None => Node::Hidden,
            };
            if self.meets(node) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the next entry. True: the walk is over, because `client` is final or nothing more can be known.
    fn meets(&mut self, node: Node) -> bool {
        let Node::Address(address) = node else {
            return true;
        };
        // A loopback address can be reached by its author only, so the author is the client.
        if address.ip().is_loopback() && !self.client.ip().to_canonical().is_loopback() {
            return true;
        }
        self.client = address;
        self.left -= 1;
        self.left == 0 || !covers(self.trusted, address.ip())
    }
}

/// What an entry says about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    /// This address; port 0 if the entry has no port.
    Address(SocketAddr),
    /// The entry hides the address.
    Hidden,
}

/// Parses an address with or without port, IPv6 with or without brackets, or a word in place of an address.
//= rfc7239 §6   node = nodename [ ":" node-port ]; a port may be a word, too
fn node(text: &[u8]) -> Result<Node, Unreadable> {
    let text = std::str::from_utf8(text).map_err(|_| Unreadable)?;
    let is_word = |text: &str| {
        let mut bytes = text.bytes();
        let good = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        bytes.next() == Some(b'_') && bytes.len() > 0 && bytes.all(good)
    };
    let (name, port) = if let Some(inner) = text.strip_prefix('[') {
        let (address, behind) = inner.split_once(']').ok_or(Unreadable)?;
        let address: std::net::Ipv6Addr = address.parse().map_err(|_| Unreadable)?;
        let port = match behind {
            "" => None,
            behind => Some(behind.strip_prefix(':').ok_or(Unreadable)?),
        };
        (Ok(IpAddr::from(address)), port)
    } else if let Ok(address) = text.parse::<IpAddr>() {
        (Ok(address), None)
    } else {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        let address = name.parse::<std::net::Ipv4Addr>().map(IpAddr::from);
        (address.map_err(|_| name), port)
    };
    let port = match port {
        None => 0,
        Some(port) if is_word(port) => 0,
        Some(port) if port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()) => {
            port.parse().map_err(|_| Unreadable)?
        }
        Some(_) => return Err(Unreadable),
    };
    match name {
        Ok(address) => Ok(Node::Address(SocketAddr::new(address.to_canonical(), port))),
        Err(name) if name.eq_ignore_ascii_case("unknown") || is_word(name) => Ok(Node::Hidden),
        Err(_) => Err(Unreadable),
    }
}

/// The value of an element's `for` parameter, and the rest of the list.
type Element<'a> = (Option<&'a [u8]>, &'a [u8]);

/// Parses an element at the beginning of a list: its `for` value, and the rest. `None`: the list has ended.
//= rfc7239 §4   forwarded-element = [ forwarded-pair ] *( ";" [ forwarded-pair ] ); a parameter not more than once
fn element(list: &[u8]) -> Result<Option<Element<'_>>, Unreadable> {
    let mut rest = list;
    // Empty elements.
    while let [b' ' | b'\t' | b',', behind @ ..] = rest {
        rest = behind;
    }
    if rest.is_empty() {
        return Ok(None);
    }
    let mut of = None;
    loop {
        rest = rest.trim_ascii_start();
        match rest {
            [] => return Ok(Some((of, rest))),
            [b',', behind @ ..] => return Ok(Some((of, behind))),
            [b';', behind @ ..] => {
                rest = behind;
                continue;
            }
            _ => {}
        }
        let equals = memchr::memchr(b'=', rest).ok_or(Unreadable)?;
        let name = &rest[..equals];
        if name.is_empty() || !name.iter().all(|&b| message::is_token_byte(b)) {
            return Err(Unreadable);
        }
        let (value, behind) = value(&rest[equals + 1..])?;
        if name.eq_ignore_ascii_case(b"for") && of.replace(value).is_some() {
            return Err(Unreadable);
        }
        rest = behind.trim_ascii_start();
        if !matches!(rest, [] | [b',' | b';', ..]) {
            return Err(Unreadable);
        }
    }
}

/// Parses a quoted string, or a token in which colons and brackets are allowed too, since some senders do not quote addresses. Returns
/// the rest behind it as well. Escapes are not decoded: no address contains one.
fn value(text: &[u8]) -> Result<(&[u8], &[u8]), Unreadable> {
    let Some(quoted) = text.strip_prefix(b"\"") else {
        let good = |&b: &u8| message::is_token_byte(b) || b":[]".contains(&b);
        let end = text.iter().position(|b| !good(b)).unwrap_or(text.len());
        return match end {
            0 => Err(Unreadable),
            end => Ok(text.split_at(end)),
        };
    };
    let mut at = 0;
    loop {
        match quoted.get(at).ok_or(Unreadable)? {
            b'"' => return Ok((&quoted[..at], &quoted[at + 1..])),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUSTED: [&str; 2] = ["10.0.0.0/8", "2001:db8:1::/48"];

    fn found(field: ClientField, lines: &[&str]) -> String {
        let trusted: Vec<IpNet> = TRUSTED.iter().map(|net| net.parse().unwrap()).collect();
        let hop = "10.0.0.1:4711".parse().unwrap();
        match client(
            &trusted,
            field,
            hop,
            lines.iter().map(|line| line.as_bytes()),
        ) {
            Ok(client) => client.to_string(),
            Err(Unreadable) => "unreadable".to_owned(),
        }
    }

    #[track_caller]
    fn of_list(lines: &[&str], expected: &str) {
        assert_eq!(
            found(ClientField::XForwardedFor, lines),
            expected,
            "{lines:?}"
        );
    }

    #[track_caller]
    fn of_forwarded(lines: &[&str], expected: &str) {
        assert_eq!(found(ClientField::Forwarded, lines), expected, "{lines:?}");
    }

    #[test]
    fn the_client_is_the_last_address_that_is_not_trusted() {
        of_list(&[], "10.0.0.1:4711");
        of_list(&["192.0.2.7"], "192.0.2.7:0");
        of_list(&["192.0.2.7:80"], "192.0.2.7:80");
        of_list(&["192.0.2.7, 10.0.0.2, 10.9.9.9"], "192.0.2.7:0");
        of_list(&["6.6.6.6, 192.0.2.7"], "192.0.2.7:0");
        of_list(&["127.0.0.1", "192.0.2.7 ,, 10.0.0.2", ""], "192.0.2.7:0");
        of_list(&["2001:db8::7"], "[2001:db8::7]:0");
        of_list(&["2001:db8::7, 2001:db8:1::2"], "[2001:db8::7]:0");
        of_list(&["[2001:db8::7]:99"], "[2001:db8::7]:99");
        of_list(&["::ffff:192.0.2.7"], "192.0.2.7:0");
        of_list(&["10.0.0.3, 10.0.0.2"], "10.0.0.3:0");
    }

    /// The client would otherwise have the rights of this machine.
    #[test]
    fn a_loopback_address_is_that_of_the_proxy_that_says_it() {
        of_list(&["127.0.0.1"], "10.0.0.1:4711");
        of_list(&["192.0.2.7, ::1, 10.0.0.2"], "10.0.0.2:0");
    }

    #[test]
    fn what_hides_its_client_leaves_its_own_address() {
        of_list(&["192.0.2.7, unknown"], "10.0.0.1:4711");
        of_list(&["unknown, 10.0.0.2"], "10.0.0.2:0");
        of_forwarded(&["for=_secret"], "10.0.0.1:4711");
        of_forwarded(&["for=192.0.2.7, proto=http"], "10.0.0.1:4711");
        of_forwarded(&["for=_a-b.c_, for=\"10.0.0.2:_p\""], "10.0.0.2:0");
    }

    #[test]
    fn forwarded_is_read_as_it_is_written_by_all_kinds() {
        of_forwarded(&["for=192.0.2.7"], "192.0.2.7:0");
        of_forwarded(
            &["For=\"192.0.2.7:47\";proto=http;by=203.0.113.43"],
            "192.0.2.7:47",
        );
        of_forwarded(&["for=192.0.2.7:47"], "192.0.2.7:47");
        of_forwarded(
            &["proto=https ; for=\"[2001:db8::7]:4711\""],
            "[2001:db8::7]:4711",
        );
        of_forwarded(&["for=\"[2001:db8::7]\""], "[2001:db8::7]:0");
        of_forwarded(
            &["for=6.6.6.6,for=192.0.2.7;host=\"a,b\", ,for=10.0.0.2"],
            "192.0.2.7:0",
        );
        of_forwarded(&["for=6.6.6.6", "for=192.0.2.7"], "192.0.2.7:0");
        of_forwarded(&["for=nonsense, for=192.0.2.7"], "192.0.2.7:0");
    }

    #[test]
    fn what_is_broken_where_it_counts_is_no_list() {
        for broken in [
            "192.0.2.7 x",
            "192.0.2.7:99999",
            "a.example",
            "[::1",
            "[::1]x",
            "_",
            "1.2.3.4:",
        ] {
            of_list(&[broken], "unreadable");
            of_list(&[broken, "192.0.2.7"], "192.0.2.7:0");
        }
        for broken in [
            "for=\"",
            "for=\"192.0.2.7",
            "for=192.0.2.7 x",
            "for",
            "for=",
            "=1.2.3.4",
            "f or=1.2.3.4",
            "for=1.2.3.4;for=1.2.3.4",
            "for=\"1.2.3.4\"x",
            "for=\"1.2.3.4\\",
        ] {
            of_forwarded(&[broken], "unreadable");
        }
    }

    /// A client that leaves a quote open cannot swallow the entry that a balancer appends, and so pass for another client.
    #[test]
    fn an_open_quote_does_not_make_another_client() {
        for ours in [
            "for=192.0.2.7",
            "for=\"[2001:db8::7]\"",
            "for=192.0.2.7;host=\"a\";proto=http",
            "for=192.0.2.7;by=\"_x\"",
        ] {
            for theirs in [
                "for=6.6.6.6;x=\"",
                "for=6.6.6.6;x=\"\\",
                "for=\"6.6.6.6",
                "for=6.6.6.6,x=\"a\\\"",
            ] {
                let line = format!("{theirs}, {ours}");
                of_forwarded(&[&line], "unreadable");
            }
        }
    }

    #[test]
    fn a_thousand_entries_are_a_list_like_any_other() {
        let many = |one: &str, last: &str| format!("{}{last}", format!("{one}, ").repeat(1000));
        of_list(&[&many("6.6.6.6", "192.0.2.7")], "192.0.2.7:0");
        of_forwarded(&[&many("for=6.6.6.6", "for=192.0.2.7")], "192.0.2.7:0");
        // Of trusted addresses only `HOPS_MAX` are followed.
        of_list(&[&many("10.0.0.2", "10.0.0.3")], "10.0.0.2:0");
        of_forwarded(&[&many("for=10.0.0.2", "for=10.0.0.3")], "10.0.0.2:0");
    }
}
