//! The client of a request that came through balancers, as far as they are believed.
//!
//! Each proxy on the way adds the address it was asked by to the end of a list: `X-Forwarded-For`, or `Forwarded` (RFC 7239). So the
//! last entry is the word of whoever connected to us, the one before it the word of the last entry's address, and so on. An entry is
//! believed only if its author is trusted: the client is the last address that is not trusted itself. Whatever stands before it is
//! the client's own invention, and is not even looked at.
//!
//! One of the two fields counts, whichever the operator names. A balancer that writes one of them commonly passes the other on as it
//! comes, so believing both would mean believing the client.
//!
//! An entry that names a loopback address leaves the address of its author: nobody else can be reached by it. So does one that hides
//! the address (`unknown`, `_secret`). A broken list is no list: the request is refused, since a quote that a client leaves open would swallow what the balancer adds behind it.
//!
//! Not known here: connections. Limits: [`HOPS_MAX`] trusted addresses in a row, then the last one of them counts.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

use plan::ClientField;

/// Proxies in a row that are believed.
const HOPS_MAX: usize = 32;

/// The list cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreadable;

/// The client of a request that came from `hop`, an address that is trusted. `lines`: the field's values, in order.
///
/// # Errors
/// The list is broken where it would have to be believed.
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

/// From the last entry to the first, as long as they are believed.
struct Walk<'a> {
    trusted: &'a [IpNet],
    /// The last address that is believed.
    client: SocketAddr,
    left: usize,
}

impl Walk<'_> {
    /// The entries of a line of X-Forwarded-For. True: the client is found.
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

    /// The elements of a line of Forwarded. True: the client is found.
    fn elements(&mut self, line: &[u8]) -> Result<bool, Unreadable> {
        // A line is read from its beginning, because only so is it known what is quoted. The last entries are kept.
        let mut last = [const { None }; HOPS_MAX];
        let (mut count, mut rest) = (0, line);
        while let Some((node, behind)) = element(rest)? {
            last[count % HOPS_MAX] = node;
            (count, rest) = (count + 1, behind);
        }
        for back in 1..=count.min(HOPS_MAX) {
            let node = match last[(count - back) % HOPS_MAX] {
                // The address is written only where it is looked at: the client may have written nonsense before it.
                Some(text) => node(text)?,
                None => Node::Hidden,
            };
            if self.meets(node) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Takes the next entry. True: it is the client's, or there is nothing more to be known.
    fn meets(&mut self, node: Node) -> bool {
        let Node::Address(address) = node else {
            return true;
        };
        // Only its author can be reached by that: it speaks of itself.
        if address.ip().is_loopback() && !self.client.ip().to_canonical().is_loopback() {
            return true;
        }
        self.client = address;
        self.left -= 1;
        self.left == 0 || !covers(self.trusted, address.ip())
    }
}

/// What an entry says of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    /// It is this one; port 0 if none is said.
    Address(SocketAddr),
    /// It is not told.
    Hidden,
}

/// An address with or without port, IPv6 with or without brackets, or a word in place of one.
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

/// The value of an element's `for`, and what is behind the element.
type Element<'a> = (Option<&'a [u8]>, &'a [u8]);

/// Reads an element from the beginning of a list: the value of its `for`, and what is behind it. `None`: the list has ended.
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

/// A token (with what addresses have beside: colons and brackets, since not everybody quotes them) or a quoted string, and what is
/// behind it. An escaped character stays escaped: no address has one.
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

    /// It would have the rights of this machine.
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

    /// A client that leaves a quote open cannot swallow what a balancer adds to the same line, and be somebody else.
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
        // Of trusted ones, so many are believed.
        of_list(&[&many("10.0.0.2", "10.0.0.3")], "10.0.0.2:0");
        of_forwarded(&[&many("for=10.0.0.2", "for=10.0.0.3")], "10.0.0.2:0");
    }
}
