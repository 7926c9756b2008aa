//! The ports that requests through a forward listener may go to.
//!
//! A client chooses the text of its request. Servers of many older protocols read text line by line and ignore lines that
//! they do not understand: a POST to port 25 whose body is a mail delivers the mail. So requests go only to the ports of web
//! servers. The port of a line protocol is allowed only if the operator lists it singly; a range does not include it.
//!
//! CONNECT has a list of its own (`access`). The origins of routes are configured by the operator and not checked.
//!
//! Not known here: addresses, HTTP.

use std::ops::RangeInclusive;

const WORDS: usize = (u16::MAX as usize + 1) / 64;

/// A set of ports; a look-up takes one step, whatever its size.
#[derive(Clone)]
pub struct Ports(Box<[u64; WORDS]>);

impl Ports {
    /// All ports in the ranges except those of line protocols, and the ports that are listed singly.
    pub fn new(ranges: &[RangeInclusive<u16>]) -> Ports {
        let mut ports = Ports(Box::new([0; WORDS]));
        for range in ranges {
            let is_named = range.start() == range.end();
            for port in range.clone() {
                if port != 0 && (is_named || protocol(port).is_none()) {
                    ports.0[usize::from(port) / 64] |= 1 << (port % 64);
                }
            }
        }
        ports
    }

    /// May a request go to this port?
    #[inline]
    pub fn contains(&self, port: u16) -> bool {
        self.0[usize::from(port) / 64] & (1 << (port % 64)) != 0
    }
}

/// Why no request goes to this port, in words for the client.
pub fn refusal(port: u16) -> String {
    match protocol(port) {
        Some(name) => format!(
            "port {port} belongs to another protocol ({name}); this proxy sends no HTTP requests there"
        ),
        None => format!(
            "this proxy sends no requests to port {port}; its operator may allow it (http-ports)"
        ),
    }
}

/// The protocol of a port that is not used by web servers.
fn protocol(port: u16) -> Option<&'static str> {
    let at = LINE_PROTOCOLS.binary_search_by_key(&port, |&(port, _)| port);
    Some(LINE_PROTOCOLS[at.ok()?].1)
}

/// Ports of other protocols, as browsers refuse them too: the "bad ports" of the WHATWG's fetch standard. Ascending.
const LINE_PROTOCOLS: [(u16, &str); 83] = [
    (0, "reserved"),
    (1, "tcpmux"),
    (7, "echo"),
    (9, "discard"),
    (11, "systat"),
    (13, "daytime"),
    (15, "netstat"),
    (17, "qotd"),
    (19, "chargen"),
    (20, "ftp-data"),
    (21, "ftp"),
    (22, "ssh"),
    (23, "telnet"),
    (25, "smtp"),
    (37, "time"),
    (42, "name"),
    (43, "whois"),
    (53, "dns"),
    (69, "tftp"),
    (77, "private relay"),
    (79, "finger"),
    (87, "private terminal link"),
    (95, "supdup"),
    (101, "hostname"),
    (102, "iso-tsap"),
    (103, "gppitnp"),
    (104, "acr-nema"),
    (109, "pop2"),
    (110, "pop3"),
    (111, "sunrpc"),
    (113, "auth"),
    (115, "sftp"),
    (117, "uucp-path"),
    (119, "nntp"),
    (123, "ntp"),
    (135, "epmap"),
    (137, "netbios-ns"),
    (139, "netbios-ssn"),
    (143, "imap"),
    (161, "snmp"),
    (179, "bgp"),
    (389, "ldap"),
    (427, "svrloc"),
    (465, "submissions"),
    (512, "exec"),
    (513, "login"),
    (514, "shell"),
    (515, "printer"),
    (526, "tempo"),
    (530, "courier"),
    (531, "chat"),
    (532, "netnews"),
    (540, "uucp"),
    (548, "afp"),
    (554, "rtsp"),
    (556, "remotefs"),
    (563, "nntps"),
    (587, "submission"),
    (601, "syslog"),
    (636, "ldaps"),
    (989, "ftps-data"),
    (990, "ftps"),
    (993, "imaps"),
    (995, "pop3s"),
    (1719, "h323gatestat"),
    (1720, "h323hostcall"),
    (1723, "pptp"),
    (2049, "nfs"),
    (3659, "apple-sasl"),
    (4045, "lockd"),
    (4190, "sieve"),
    (5060, "sip"),
    (5061, "sips"),
    (6000, "x11"),
    (6566, "sane"),
    (6665, "irc"),
    (6666, "irc"),
    (6667, "irc"),
    (6668, "irc"),
    (6669, "irc"),
    (6679, "ircs"),
    (6697, "ircs"),
    (10080, "amanda"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Forward;

    #[test]
    fn requests_go_where_web_servers_are() {
        let ports = Ports::new(&Forward::http_ports_default());
        for port in [80, 443, 1024, 3000, 8080, 8443, 65535] {
            assert!(ports.contains(port), "{port}");
        }
        for port in [0, 22, 25, 81, 110, 143, 465, 587, 1023, 2049, 6000, 6667] {
            assert!(!ports.contains(port), "{port}");
        }
    }

    #[test]
    fn a_number_opens_what_a_range_does_not() {
        assert!(!Ports::new(&[1..=u16::MAX]).contains(25));
        assert!(Ports::new(&[25..=25]).contains(25));
        assert!(Ports::new(&[1..=u16::MAX]).contains(81));
        assert!(!Ports::new(&[0..=0]).contains(0), "no port at all");
        assert!(!Ports::new(&[]).contains(80));
    }

    #[test]
    fn the_table_is_in_order_and_says_why() {
        assert!(LINE_PROTOCOLS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(refusal(25).contains("smtp"));
        assert!(refusal(81).contains("http-ports"));
    }
}
