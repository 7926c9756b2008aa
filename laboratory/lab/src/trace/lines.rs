//! Formats with one request a line.
//!
//! | format | a line |
//! |---|---|
//! | `bu` | time, user, machine, URL, bytes, seconds; tabs between; 0 and 0 where the browser's cache answered |
//! | `clf` | client ident user `[date]` "method URL version" status bytes, possibly more columns (combined) |
//! | `clf` | client ident user `[date]` "method URL version" status bytes, and whatever follows (combined) |
//! | `dec-text` | a record as printed by the tools that came with the DEC traces |
//! | `ucb-text` | a record as printed by `showtrace` of the UC Berkeley Home IP traces |
//!
//! Bytes are those of the line: with header sections in Squid's log, bodies alone in the others.
//!
//! Source: Squid's documentation (native access.log); the NCSA common log format; `formtxt` and `logparse` as the network
//! simulator ns-2 carries them (indep-utils/webtrace-conv). URLs are bytes, not text.

use super::entry::{Entry, Parsed, Result, Skip, judge, number, request, seconds_us};
use super::names::{name, name_on};

/// A line of the Boston University traces.
pub(crate) fn bu(line: &[u8]) -> Result<Parsed> {
    let mut columns = line.split(|&byte| byte == b'\t');
    let mut next = || columns.next().ok_or("fewer than six columns");
    let at_us = seconds_us(next()?)?;
    let (_user, _machine, url) = (next()?, next()?, next()?);
    let size_bytes = number(next()?)?;
    let took_us = seconds_us(next()?)?;
    if columns.next().is_some() {
        return Err("more than six columns");
    }
    if url.is_empty() {
        return Err("no URL");
    }
    if size_bytes == 0 && took_us == 0 {
        return Ok(Parsed::Skipped(Skip::Browser));
    }
    Ok(request(at_us, url, Some(size_bytes)))
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty())
}

/// A line of Squid's native access.log.
pub(crate) fn squid(line: &[u8]) -> Result<Parsed> {
    let mut words = words(line);
    let mut next = || words.next().ok_or("fewer than seven columns");
    let at_us = seconds_us(next()?)?;
    let _elapsed_ms = number(next()?.strip_prefix(b"-").unwrap_or(b"0"));
    let _client = next()?;
    let code = next()?;
    let slash = memchr::memchr(b'/', code).ok_or("no code/status")?;
    let status = number(&code[slash + 1..])?;
    let bytes = number(next()?)?;
    let (method, url) = (next()?, next()?);
    Ok(match judge(method, status, bytes) {
        Ok(size_bytes) => request(at_us, url, size_bytes),
        Err(skip) => Parsed::Skipped(skip),
    })
}

/// A line of the common or the combined log format.
pub(crate) fn clf(line: &[u8]) -> Result<Parsed> {
    let open = memchr::memchr(b'[', line).ok_or("no [date]")?;
    let close = memchr::memchr(b']', &line[open..]).ok_or("no [date]")? + open;
    let at_us = clf_date_s(&line[open + 1..close])? * 1_000_000;
    let quoted = memchr::memchr(b'"', &line[close..]).ok_or("no \"request\"")? + close + 1;
    // Some servers write a quote within the URL as \".
    let mut end = quoted;
    loop {
        end += memchr::memchr(b'"', &line[end..]).ok_or("the \"request\" does not end")?;
        if line[end - 1] != b'\\' {
            break;
        }
        end += 1;
    }
    let mut parts = words(&line[quoted..end]);
    let method = parts.next().ok_or("an empty request")?;
    let url = parts.next().ok_or("no URL")?;
    let mut rest = words(&line[end + 1..]);
    let status = number(rest.next().ok_or("no status")?)?;
    let bytes = match rest.next().ok_or("no size")? {
        b"-" => 0,
        bytes => number(bytes)?,
    };
    Ok(match judge(method, status, bytes) {
        Ok(size_bytes) => request(at_us, url, size_bytes),
        Err(skip) => Parsed::Skipped(skip),
    })
}

/// Unix seconds of a date like `10/Oct/2000:13:55:36 -0700`.
fn clf_date_s(date: &[u8]) -> Result<u64> {
    const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
    const WRONG: &str = "the date is no date";
    let date = std::str::from_utf8(date).map_err(|_| WRONG)?;
    if date.len() < 20 || !date.is_ascii() {
        return Err(WRONG);
    }
    let part = |from: usize, to: usize| date[from..to].parse::<i64>().map_err(|_| WRONG);
    let month = MONTHS
        .chunks(3)
        .position(|name| name.eq_ignore_ascii_case(&date.as_bytes()[3..6]))
        .ok_or(WRONG)?;
    let (day, year) = (part(0, 2)?, part(7, 11)?);
    let (hour, minute, second) = (part(12, 14)?, part(15, 17)?, part(18, 20)?);
    let zone = match date[20..].trim() {
        "" => 0,
        zone if zone.len() == 5 => zone.parse::<i64>().map_err(|_| WRONG)?,
        _ => return Err(WRONG),
    };
    let zone_s = (zone / 100 * 60 + zone % 100) * 60;
    // Days since 1970 by the civil calendar, counted in years that begin in March, so that leap days come last.
    let month = month as i64 + 1;
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = year * 365 + leap_days + day_of_year - 719_468;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second - zone_s;
    u64::try_from(seconds).map_err(|_| WRONG)
}

/// A line printed by the DEC tools: columns by position, after a heading.
pub(crate) fn dec_text(line: &[u8]) -> Result<Parsed> {
    let columns: Vec<&[u8]> = words(line).take(17).collect();
    if columns.first() == Some(&&b"time"[..]) {
        return Ok(Parsed::Nothing);
    }
    if !(15..=16).contains(&columns.len()) {
        return Err("not 15 or 16 columns");
    }
    let at_us = number(columns[0])?;
    let size_bytes = number(columns[4])?;
    let status = number(columns[6])?;
    let server = name(&[columns[9], columns[10]].join(&b':'));
    let object = match columns.get(15) {
        Some(url) if number(url)? > 0 => name(url),
        _ => name_on(server, &[columns[13], columns[14]].join(&b'?')),
    };
    Ok(match judge(columns[7], status, size_bytes) {
        Ok(size_bytes) => Parsed::Request(Entry {
            at_us,
            object,
            server,
            size_bytes,
        }),
        Err(skip) => Parsed::Skipped(skip),
    })
}

/// A line of `showtrace`.
pub(crate) fn ucb_text(line: &[u8]) -> Result<Parsed> {
    let columns: Vec<&[u8]> = words(line).take(15).collect();
    if columns.len() < 14 {
        return Err("fewer than 14 columns");
    }
    let colon = memchr::memchr(b':', columns[0]).ok_or("the time is no time")?;
    let micros = number(&columns[0][colon + 1..])?;
    let at_us = number(&columns[0][..colon])?
        .checked_mul(1_000_000)
        .and_then(|us| us.checked_add(micros))
        .ok_or("the time is beyond all times")?;
    let body_bytes = number(columns[11])?;
    // The URL is between method and version, if the sniffer saw both.
    let (method, url) = match columns.get(14) {
        Some(url) => (columns[13], *url),
        None => (&b"GET"[..], columns[13]),
    };
    Ok(ucb_request(at_us, columns[4], method, url, body_bytes))
}

/// A request of the Home IP traces. They have no status: an answer without a body was not modified, or cut short.
pub(crate) fn ucb_request(
    at_us: u64,
    server: &[u8],
    method: &[u8],
    url: &[u8],
    body_bytes: u64,
) -> Parsed {
    if !method.eq_ignore_ascii_case(b"GET") {
        return Parsed::Skipped(Skip::Method);
    }
    let server = name(server);
    let known = body_bytes > 0 && body_bytes < u64::from(u32::MAX);
    Parsed::Request(Entry {
        at_us,
        object: name_on(server, url),
        server,
        size_bytes: known.then_some(body_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::names::server_of;

    fn url(at_us: u64, url: &str, size_bytes: Option<u64>) -> Result<Parsed> {
        Ok(request(at_us, url.as_bytes(), size_bytes))
    }

    #[test]
    fn boston_university() {
        let line = b"785433179.434793\t8\tcs17\thttp://cs-www.bu.edu/\t1934\t0.532466";
        assert_eq!(
            bu(line),
            url(785_433_179_434_793, "http://cs-www.bu.edu/", Some(1934))
        );
        let cached = b"785433179.434793\t8\tcs17\thttp://cs-www.bu.edu/\t0\t0";
        assert_eq!(bu(cached), Ok(Parsed::Skipped(Skip::Browser)));
        assert_eq!(
            bu(b"1.5\t8\tcs17\thttp://a/\t1934"),
            Err("fewer than six columns")
        );
        assert_eq!(
            bu(b"1.5\t8\tcs17\thttp://a/\t1\t1\t1"),
            Err("more than six columns")
        );
    }

    #[test]
    fn squids_own() {
        let line = b"1066036250.603 310342 190.116.197.4 TCP_MISS/200 67112 GET http://a.org/x - DIRECT/a.org text/html";
        assert_eq!(
            squid(line),
            url(1_066_036_250_603_000, "http://a.org/x", Some(67_112))
        );
        let ims = b"1066036250.603     10 190.116.197.4 TCP_IMS_HIT/304 212 GET http://a.org/x - NONE/- -";
        assert_eq!(
            squid(ims),
            url(1_066_036_250_603_000, "http://a.org/x", None)
        );
        let post =
            b"1066036250.603 10 1.1.1.1 TCP_MISS/200 67 POST http://a.org/x - DIRECT/a.org -";
        assert_eq!(squid(post), Ok(Parsed::Skipped(Skip::Method)));
        let denied = b"1066036250.603 10 1.1.1.1 TCP_DENIED/403 67 GET http://a.org/x - NONE/- -";
        assert_eq!(squid(denied), Ok(Parsed::Skipped(Skip::Status)));
        assert!(squid(b"1066036250.603 10 1.1.1.1 TCP_MISS 67 GET http://a.org/x").is_err());
    }

    #[test]
    fn common_and_combined() {
        let line =
            br#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /a.gif HTTP/1.0" 200 2326"#;
        assert_eq!(clf(line), url(971_211_336_000_000, "/a.gif", Some(2326)));
        let combined = br#"a - - [01/Mar/1996:00:00:00 +0000] "GET /q?\"x\" HTTP/1.0" 304 - "http://r/" "agent 1.0""#;
        assert_eq!(clf(combined), url(825_638_400_000_000, r#"/q?\"x\""#, None));
        for bad in [
            r#"a - - "GET / HTTP/1.0" 200 1"#,
            r#"a - - [32/Foo/1996:00:00:00 +0000] "GET / HTTP/1.0" 200 1"#,
            r#"a - - [01/Mar/1996:00:00:00 +0000] "GET / HTTP/1.0 200 1"#,
            r#"a - - [01/Mar/1996:00:00:00 +0000] "" 200 1"#,
            r#"a - - [01/Mar/1996:00:00:00 +0000] "GET / HTTP/1.0" 200"#,
        ] {
            assert!(clf(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (date, want) in [
            ("01/Jan/1970:00:00:00 +0000", 0),
            ("29/Feb/2000:12:00:00 +0000", 951_825_600),
            ("31/Dec/1999:23:59:59 -0130", 946_690_199),
            ("01/Jan/2100:00:00:00", 4_102_444_800),
        ] {
            assert_eq!(clf_date_s(date.as_bytes()), Ok(want), "{date}");
        }
        assert!(clf_date_s(b"10/Oct/2000:13:55:36 +9223372036854775807").is_err());
    }

    #[test]
    fn digital() {
        let heading = b"           time   event    server client    size last mod status";
        assert_eq!(dec_text(heading), Ok(Parsed::Nothing));
        let line = b"841281180123456  1200   900    12    4321 838012345    200    GET   http     77     80   html     16    501      0     99";
        let Ok(Parsed::Request(entry)) = dec_text(line) else {
            panic!("no request")
        };
        assert_eq!(
            (entry.at_us, entry.size_bytes),
            (841_281_180_123_456, Some(4321))
        );
        assert_eq!((entry.object, entry.server), (name(b"99"), name(b"77:80")));
        let first_version = &line[..line.len() - 7];
        let Ok(Parsed::Request(entry)) = dec_text(first_version) else {
            panic!("no request")
        };
        assert_eq!(entry.object, name_on(name(b"77:80"), b"501?0"));
        assert!(dec_text(b"1 2 3").is_err());
    }

    #[test]
    fn berkeley() {
        let line = b"848278028:829593 848278028:893670 848278028:895350 23.240.8.98:1462 207.36.205.194:80 2 8 \
                     4294967295 4294967295 835418853 170 844 37 GET 9168504434183313441..gif HTTP/1.0";
        let Ok(Parsed::Request(entry)) = ucb_text(line) else {
            panic!("no request")
        };
        assert_eq!(
            (entry.at_us, entry.size_bytes),
            (848_278_028_829_593, Some(844))
        );
        let server = name(b"207.36.205.194:80");
        assert_eq!(
            (entry.object, entry.server),
            (name_on(server, b"9168504434183313441..gif"), server)
        );
        assert_ne!(entry.server, server_of(b"/"));
        assert!(ucb_text(b"848278028:829593 848278028:893670").is_err());
        let beyond = [&b"9999999999999999999"[..], &line[9..]].concat();
        assert_eq!(ucb_text(&beyond), Err("the time is beyond all times"));
    }
}
