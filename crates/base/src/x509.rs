//! Facts of a certificate besides its key: names, subject, and period of validity.
//!
//! rustls judges certificates and exposes none of this. Only fields at fixed places in X.509 are read (DER, RFC 5280 §4.1). For a
//! certificate of another structure there are no facts, and the caller refuses it.
//!
//! Not known here: files, keys, signatures.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most names that are taken from one certificate.
pub const NAMES_MAX: usize = 1024;
/// The longest subject, in bytes; a longer one is cut.
const SUBJECT_BYTES_MAX: usize = 256;

/// Facts of a certificate.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// DNS names, lower case; `*.` in front of a wildcard.
    pub names: Vec<String>,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// `CN=a, O=b`; unprintable characters become `?`.
    pub subject: String,
    /// The last common name of the subject, lower case.
    pub common_name: Option<String>,
    /// Start of validity, seconds since 1970.
    pub from_unix_s: i64,
    /// End of validity, seconds since 1970.
    pub until_unix_s: i64,
    /// The certificate says that its key may sign others.
    pub is_authority: bool,
}

const BOOLEAN: u8 = 0x01;
const BITS: u8 = 0x03;
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const OID: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const VERSION: u8 = 0xa0;
const RESPONSE_BYTES: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// 2.5.29.19
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 0x13];
/// 2.5.29.17
const SUBJECT_ALT_NAME: &[u8] = &[0x55, 0x1d, 0x11];

impl Facts {
    /// The facts of a certificate in DER; `None`: its structure is another one.
    pub fn of(der: &[u8]) -> Option<Facts> {
        let mut whole = der;
        let mut certificate = take(&mut whole, SEQUENCE)?;
        let mut rest = take(&mut certificate, SEQUENCE)?;
        if rest.first() == Some(&VERSION) {
            next(&mut rest)?;
        }
        // Serial number, algorithm, issuer.
        for _ in 0..3 {
            next(&mut rest)?;
        }
        let mut validity = take(&mut rest, SEQUENCE)?;
        let (from, until) = (time(&mut validity)?, time(&mut validity)?);
        let mut facts = Facts {
            from_unix_s: from,
            until_unix_s: until,
            ..Facts::default()
        };
        let name = take(&mut rest, SEQUENCE)?;
        facts.subject = subject(name);
        facts.common_name = common_name(name);
        // The key; then optional fields, the extensions last.
        next(&mut rest)?;
        while let Some((tag, value)) = next(&mut rest) {
            if tag == EXTENSIONS {
                facts.read_extensions(value)?;
            }
        }
        Some(facts)
    }

    /// Is it for this name? A wildcard matches exactly one label, the first. A certificate without alternative names is for its
    /// common name, as in the time before there were such names.
    pub fn is_for_name(&self, name: &str) -> bool {
        let fits = |of: &String| match of.strip_prefix("*.") {
            Some(parent) => {
                let below = name.split_once('.').map(|(_, below)| below);
                below.is_some_and(|below| below.eq_ignore_ascii_case(parent))
            }
            None => name.eq_ignore_ascii_case(of),
        };
        match self.has_names() {
            true => self.names.iter().any(fits),
            false => self.common_name.iter().any(fits),
        }
    }

    /// Is the certificate for this address?
    pub fn is_for_address(&self, address: IpAddr) -> bool {
        match self.has_names() {
            true => self.addresses.contains(&address),
            false => self.common_name.as_deref() == Some(&address.to_string()),
        }
    }

    fn has_names(&self) -> bool {
        !self.names.is_empty() || !self.addresses.is_empty()
    }

    fn read_extensions(&mut self, mut value: &[u8]) -> Option<()> {
        let mut list = take(&mut value, SEQUENCE)?;
        while !list.is_empty() {
            let mut extension = take(&mut list, SEQUENCE)?;
            let id = take(&mut extension, OID)?;
            if extension.first() == Some(&BOOLEAN) {
                next(&mut extension)?;
            }
            let mut octets = take(&mut extension, OCTETS)?;
            if id == SUBJECT_ALT_NAME {
                self.read_names(take(&mut octets, SEQUENCE)?);
            } else if id == BASIC_CONSTRAINTS {
                //= rfc5280 §4.2.1.9   cA comes first, and is false if it is left out
                let mut constraints = take(&mut octets, SEQUENCE)?;
                self.is_authority = take(&mut constraints, BOOLEAN) == Some(&[0xff]);
            }
        }
        Some(())
    }

    fn read_names(&mut self, mut names: &[u8]) {
        while let Some((tag, value)) = next(&mut names) {
            if self.names.len() + self.addresses.len() >= NAMES_MAX {
                return;
            }
            match tag {
                DNS_NAME if value.is_ascii() => {
                    let name = String::from_utf8_lossy(value).to_ascii_lowercase();
                    self.names.push(name);
                }
                IP_ADDRESS => self.addresses.extend(address(value)),
                _ => {}
            }
        }
    }

    /// Names and addresses for display; without any, the subject.
    pub fn called(&self) -> String {
        let addresses = self.addresses.iter().map(IpAddr::to_string);
        let all: Vec<String> = self.names.iter().cloned().chain(addresses).collect();
        match all.is_empty() {
            true => self.subject.clone(),
            false => all.join(", "),
        }
    }
}

/// The public key of a certificate in DER, including its algorithm (SubjectPublicKeyInfo).
pub fn key(der: &[u8]) -> Option<&[u8]> {
    let mut whole = der;
    let mut certificate = take(&mut whole, SEQUENCE)?;
    let mut rest = take(&mut certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        next(&mut rest)?;
    }
    // Serial number, algorithm, issuer, validity, subject.
    for _ in 0..5 {
        next(&mut rest)?;
    }
    let from = rest;
    take(&mut rest, SEQUENCE)?;
    Some(&from[..from.len() - rest.len()])
}

/// A public key, of which only the contents are at hand: as it is in a certificate.
pub fn key_of_contents(contents: &[u8]) -> Vec<u8> {
    let mut key = vec![SEQUENCE];
    let len = contents.len().to_be_bytes();
    let long = &len[len.iter().take_while(|&&byte| byte == 0).count()..];
    // From 128 on the length has a length.
    if contents.len() >= 0x80 {
        key.push(0x80 | long.len() as u8);
    }
    key.extend_from_slice(if long.is_empty() { &[0] } else { long });
    key.extend_from_slice(contents);
    key
}

/// The parts of a public key: which algorithm it is of, and its bits.
pub fn parts_of_key(key: &[u8]) -> Option<(&[u8], &[u8])> {
    let mut whole = key;
    let mut parts = take(&mut whole, SEQUENCE)?;
    let algorithm = take(&mut parts, SEQUENCE)?;
    // The first byte is the number of unused bits at the end, here none.
    let bits = take(&mut parts, BITS)?.strip_prefix(&[0])?;
    Some((algorithm, bits))
}

/// The last common name of a name.
fn common_name(mut name: &[u8]) -> Option<String> {
    let mut found = None;
    while let Some(mut set) = take(&mut name, SET) {
        while let Some(mut pair) = take(&mut set, SEQUENCE) {
            if take(&mut pair, OID) == Some(&[0x55, 0x04, 0x03])
                && let Some((_, value)) = next(&mut pair)
            {
                let text = std::str::from_utf8(value).ok();
                found = text.map(str::to_ascii_lowercase);
            }
        }
    }
    found
}

/// Is this OCSP response about other certificates than this one? False if it cannot be read: clients judge such a response.
//= rfc6960 §4.2.1   each single response names its certificate by issuer and serial number
pub fn is_about_another(response: &[u8], certificate: &[u8]) -> bool {
    let (Some(serials), Some(own)) = (serials_of(response), serial_of(certificate)) else {
        return false;
    };
    !serials.contains(&own)
}

fn serial_of(mut certificate: &[u8]) -> Option<&[u8]> {
    let mut rest = take(&mut take(&mut certificate, SEQUENCE)?, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        next(&mut rest)?;
    }
    take(&mut rest, INTEGER)
}

/// The serial numbers of the certificates that an OCSP response is about.
fn serials_of(mut response: &[u8]) -> Option<Vec<&[u8]>> {
    let mut response = take(&mut response, SEQUENCE)?;
    take(&mut response, ENUMERATED)?;
    let mut typed = take(&mut take(&mut response, RESPONSE_BYTES)?, SEQUENCE)?;
    take(&mut typed, OID)?;
    let mut basic = take(&mut typed, OCTETS)?;
    let mut data = take(&mut take(&mut basic, SEQUENCE)?, SEQUENCE)?;
    if data.first() == Some(&VERSION) {
        next(&mut data)?;
    }
    // The responder, and the time of the response.
    next(&mut data)?;
    take(&mut data, GENERALIZED_TIME)?;
    let mut responses = take(&mut data, SEQUENCE)?;
    let mut serials = Vec::new();
    while !responses.is_empty() {
        let mut single = take(&mut responses, SEQUENCE)?;
        let mut certificate = take(&mut single, SEQUENCE)?;
        // Algorithm, and hashes of the issuer's name and key.
        for _ in 0..3 {
            next(&mut certificate)?;
        }
        serials.push(take(&mut certificate, INTEGER)?);
    }
    Some(serials)
}

fn address(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value)
            .ok()
            .map(|v4| Ipv4Addr::from(v4).into()),
        16 => <[u8; 16]>::try_from(value)
            .ok()
            .map(|v6| Ipv6Addr::from(v6).into()),
        _ => None,
    }
}

/// The next element: its tag and its value.
fn next<'a>(der: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let len = match first {
        0..=0x7f => usize::from(first),
        0x81..=0x83 => {
            let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
            rest = behind;
            bytes
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(len)?;
    *der = rest;
    Some((tag, value))
}

/// The next element's value, if its tag is `tag`.
fn take<'a>(der: &mut &'a [u8], tag: u8) -> Option<&'a [u8]> {
    next(der)
        .filter(|found| found.0 == tag)
        .map(|found| found.1)
}

//= rfc5280 §4.1.2.5   UTCTime of two digits: 50 to 99 are the last century
fn time(der: &mut &[u8]) -> Option<i64> {
    let (tag, text) = next(der)?;
    let text = text.strip_suffix(b"Z")?;
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |from: usize, len: usize| {
        let digits = text.get(from..from + len)?;
        Some(
            digits
                .iter()
                .fold(0, |n, digit| n * 10 + i64::from(digit - b'0')),
        )
    };
    let (year, at) = match tag {
        UTC_TIME => match number(0, 2)? {
            year @ 50.. => (1900 + year, 2),
            year => (2000 + year, 2),
        },
        GENERALIZED_TIME => (number(0, 4)?, 4),
        _ => return None,
    };
    let (month, day) = (number(at, 2)?, number(at + 2, 2)?);
    let (hour, minute, second) = (number(at + 4, 2)?, number(at + 6, 2)?, number(at + 8, 2)?);
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) || hour > 23 || minute > 59 {
        return None;
    }
    Some(days_before(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Days from 1970-01-01 to this date, in the Gregorian calendar.
fn days_before(year: i64, month: i64, day: i64) -> i64 {
    // Counting years from March puts the leap day last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// A moment, as in `2026-01-31 12:00 UTC`.
pub fn day(unix_s: i64) -> String {
    let days = unix_s.div_euclid(86_400) + 719_468;
    let of_day = unix_s.rem_euclid(86_400);
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    let (hour, minute) = (of_day / 3600, of_day / 60 % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// A name as `CN=a, O=b`.
fn subject(mut name: &[u8]) -> String {
    let mut out = String::new();
    while let Some(mut set) = take(&mut name, SET) {
        while let Some(mut pair) = take(&mut set, SEQUENCE) {
            let (Some(id), Some((_, value))) = (take(&mut pair, OID), next(&mut pair)) else {
                continue;
            };
            let kind = match id {
                [0x55, 0x04, 0x03] => "CN",
                [0x55, 0x04, 0x06] => "C",
                [0x55, 0x04, 0x07] => "L",
                [0x55, 0x04, 0x08] => "ST",
                [0x55, 0x04, 0x0a] => "O",
                [0x55, 0x04, 0x0b] => "OU",
                _ => continue,
            };
            if !out.is_empty() {
                out.push_str(", ");
            }
            out.push_str(kind);
            out.push('=');
            let text = String::from_utf8_lossy(value);
            out.extend(text.chars().map(|c| match c {
                c if c.is_control() || c == char::REPLACEMENT_CHARACTER => '?',
                c => c,
            }));
        }
    }
    if out.len() > SUBJECT_BYTES_MAX {
        let mut end = SUBJECT_BYTES_MAX;
        while !out.is_char_boundary(end) {
            end -= 1;
        }
        out.truncate(end);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_compared_as_clients_compare_them() {
        let of = |names: &[&str], common: &str| Facts {
            names: names.iter().map(|&name| name.to_owned()).collect(),
            common_name: Some(common.to_owned()),
            ..Facts::default()
        };
        let listed = of(&["a.test", "*.b.test"], "c.test");
        for (name, fits) in [
            ("a.test", true),
            ("A.test", true),
            ("x.b.test", true),
            ("b.test", false),
            ("x.y.b.test", false),
            ("c.test", false),
        ] {
            assert_eq!(listed.is_for_name(name), fits, "{name}");
        }
        let bare = of(&[], "c.test");
        assert!(bare.is_for_name("c.test") && !bare.is_for_name("a.test"));
        let ip = "192.0.2.1".parse().unwrap();
        assert!(of(&[], "192.0.2.1").is_for_address(ip));
        assert!(!bare.is_for_address(ip) && !of(&["a.test"], "192.0.2.1").is_for_address(ip));
    }
    use proptest::prelude::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    fn certificate() -> Vec<u8> {
        let names = ["A.example", "*.b.example", "192.0.2.1", "2001:db8::1"];
        let mut params = CertificateParams::new(names.map(str::to_owned)).unwrap();
        params.not_before = rcgen::date_time_ymd(2024, 2, 29);
        params.not_after = rcgen::date_time_ymd(2051, 1, 1);
        params.distinguished_name = rcgen::DistinguishedName::new();
        (params.distinguished_name).push(DnType::CommonName, "Zoë\nx");
        (params.distinguished_name).push(DnType::OrganizationName, "O");
        let key = KeyPair::generate().unwrap();
        params.self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn names_and_times_are_those_of_the_certificate() {
        let facts = Facts::of(&certificate()).unwrap();
        assert_eq!(facts.names, ["a.example", "*.b.example"]);
        assert_eq!(
            facts.called(),
            "a.example, *.b.example, 192.0.2.1, 2001:db8::1"
        );
        assert_eq!(facts.subject, "CN=Zoë?x, O=O");
        // From `date -d 2024-02-29 +%s`, and the same for 2051-01-01.
        assert_eq!(facts.from_unix_s, 1_709_164_800);
        assert_eq!(facts.until_unix_s, 2_556_144_000);
    }

    #[test]
    fn a_moment_is_written_as_a_date() {
        for (unix_s, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (1_709_164_800 + 86_399, "2024-02-29 23:59 UTC"),
            (2_556_144_000, "2051-01-01 00:00 UTC"),
            (951_868_740, "2000-02-29 23:59 UTC"),
        ] {
            assert_eq!(day(unix_s), text);
        }
    }

    #[test]
    fn what_is_cut_off_has_no_facts() {
        let whole = certificate();
        for len in 0..whole.len() {
            assert_eq!(Facts::of(&whole[..len]), None, "{len}");
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_end_without_a_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..500, byte: u8
        ) {
            let _ = Facts::of(&bytes);
            let mut damaged = certificate();
            let at = at % damaged.len();
            damaged[at] = byte;
            let _ = Facts::of(&damaged);
        }
    }
}
