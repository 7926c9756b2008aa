//! Columns separated by commas, tabs, semicolons or bars: libCacheSim's CSV, our own, and any other with named columns.
//!
//! | column | named | unit |
//! |---|---|---|
//! | time | `time`, `timestamp`, `clock_time`; `at_ms`, `time_ms` | seconds, with or without a fraction; milliseconds |
//! | object | `object`, `obj_id`, `id`, `key`, `url`, … | a number, a URL, any text |
//! | size | `size`, `obj_size`, `size_bytes`, `bytes`, … | bytes |
//! | server | `server`, `host`, `tenant` | any text; without it a URL's, or one for all |
//!
//! If no first line names the columns, [`Columns`] gives them; without that they are time, object, size, as libCacheSim writes
//! most often.
//!
//! Limits: no quotes around a cell, so no delimiter within one.
//! Source: libCacheSim's documentation (`time-col`, `obj-id-col`, `obj-size-col`).

use std::str::FromStr;

use super::entry::{Entry, Parsed, Result, number, seconds_us};
use super::names::{name, server_of};

const TIMES: &[&str] = &["time", "timestamp", "clock_time", "real_time", "ts"];
const TIMES_MS: &[&str] = &["at_ms", "time_ms", "timestamp_ms"];
const OBJECTS: &[&str] = &["object", "obj_id", "object_id", "obj", "id", "key", "url"];
const SIZES: &[&str] = &["size", "obj_size", "object_size", "size_bytes", "bytes"];
const SERVERS: &[&str] = &["server", "host", "tenant"];
const DELIMITERS: &[u8] = b",\t;|";

/// The numbers of the columns, counted from 1. Written as `time=2,object=5,size=4`, and `server=6` if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Columns {
    time: usize,
    object: usize,
    size: usize,
    server: Option<usize>,
    time_in_ms: bool,
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            time: 1,
            object: 2,
            size: 3,
            server: None,
            time_in_ms: false,
        }
    }
}

/// The text is not a list of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "columns are given as time=1,object=2,size=3 and, if there is one, server=4; time_ms= if the time is in milliseconds"
)]
pub struct UnknownColumns;

impl FromStr for Columns {
    type Err = UnknownColumns;

    fn from_str(text: &str) -> std::result::Result<Self, UnknownColumns> {
        let mut columns = Columns::default();
        for part in text.split(',') {
            let (what, place) = part.split_once('=').ok_or(UnknownColumns)?;
            let place = place.trim().parse().map_err(|_| UnknownColumns)?;
            if place == 0 {
                return Err(UnknownColumns);
            }
            match what.trim() {
                "time" => columns.time = place,
                "time_ms" => (columns.time, columns.time_in_ms) = (place, true),
                "object" => columns.object = place,
                "size" => columns.size = place,
                "server" => columns.server = Some(place),
                _ => return Err(UnknownColumns),
            }
        }
        Ok(columns)
    }
}

/// A file of columns, and its columns as far as known.
#[derive(Debug, Clone, Default)]
pub(crate) struct Csv {
    told: Option<Columns>,
    /// Columns and delimiter, known after the first line.
    found: Option<(Columns, u8)>,
}

impl Csv {
    pub(crate) fn new(told: Option<Columns>) -> Self {
        Csv { told, found: None }
    }

    pub(crate) fn parse(&mut self, line: &[u8]) -> Result<Parsed> {
        let Some((columns, delimiter)) = self.found else {
            let delimiter = delimiter_of(line);
            let named = names(line, delimiter);
            let columns = self.told.or(named).unwrap_or_default();
            self.found = Some((columns, delimiter));
            let time = cell(line, delimiter, columns.time);
            if named.is_some() || !time.is_some_and(|time| time.iter().any(u8::is_ascii_digit)) {
                return Ok(Parsed::Nothing);
            }
            return request(line, columns, delimiter);
        };
        request(line, columns, delimiter)
    }
}

/// The most frequent delimiter of the first line.
fn delimiter_of(line: &[u8]) -> u8 {
    let count = |delimiter: &&u8| memchr::memchr_iter(**delimiter, line).count();
    // In a tie the first in the list.
    *DELIMITERS.iter().rev().max_by_key(count).unwrap_or(&b',')
}

fn cell(line: &[u8], delimiter: u8, place: usize) -> Option<&[u8]> {
    line.split(|&byte| byte == delimiter)
        .nth(place - 1)
        .map(<[u8]>::trim_ascii)
}

/// The columns that the first line names, if they include at least time, object and size.
fn names(line: &[u8], delimiter: u8) -> Option<Columns> {
    let cells: Vec<String> = line
        .split(|&byte| byte == delimiter)
        .map(|cell| {
            String::from_utf8_lossy(cell.trim_ascii())
                .trim_start_matches('#')
                .to_ascii_lowercase()
        })
        .collect();
    let place = |known: &[&str]| {
        cells
            .iter()
            .position(|cell| known.contains(&cell.as_str()))
            .map(|at| at + 1)
    };
    let in_ms = place(TIMES_MS);
    Some(Columns {
        time: in_ms.or_else(|| place(TIMES))?,
        object: place(OBJECTS)?,
        size: place(SIZES)?,
        server: place(SERVERS),
        time_in_ms: in_ms.is_some(),
    })
}

fn request(line: &[u8], columns: Columns, delimiter: u8) -> Result<Parsed> {
    let at = |place| cell(line, delimiter, place).ok_or("fewer columns than there should be");
    let time = at(columns.time)?;
    let at_us = if columns.time_in_ms {
        number(time)?
            .checked_mul(1000)
            .ok_or("the time is beyond all times")?
    } else {
        seconds_us(time)?
    };
    let object = at(columns.object)?;
    if object.is_empty() {
        return Err("no object");
    }
    let size_bytes = Some(number(at(columns.size)?)?);
    let server = match columns.server {
        Some(place) => name(at(place)?),
        None => server_of(object),
    };
    Ok(Parsed::Request(Entry {
        at_us,
        object: name(object),
        server,
        size_bytes,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(told: Option<&str>, lines: &[&str]) -> Vec<Result<Parsed>> {
        let mut csv = Csv::new(told.map(|text| text.parse().unwrap()));
        lines
            .iter()
            .map(|line| csv.parse(line.as_bytes()))
            .collect()
    }

    fn entry(at_us: u64, object: &str, server: &str, size_bytes: u64) -> Result<Parsed> {
        Ok(Parsed::Request(Entry {
            at_us,
            object: name(object.as_bytes()),
            server: name(server.as_bytes()),
            size_bytes: Some(size_bytes),
        }))
    }

    #[test]
    fn the_first_line_may_name_columns() {
        let found = entries(None, &["at_ms,object,server,size_bytes", "1500,7,a,10"]);
        assert_eq!(found, [Ok(Parsed::Nothing), entry(1_500_000, "7", "a", 10)]);
        let found = entries(None, &["# Time\tURL\tsize", "1.5\thttp://a.org/x\t10"]);
        assert_eq!(found[1], entry(1_500_000, "http://a.org/x", "a.org", 10));
    }

    #[test]
    fn without_names_it_is_time_object_size_or_as_told() {
        assert_eq!(
            entries(None, &["5,77,100,extra"]),
            [entry(5_000_000, "77", "", 100)]
        );
        let told = "time=2,object=5,size=4";
        assert_eq!(
            entries(Some(told), &["version;time;x;y;z", "0;5;0;100;77"]),
            [Ok(Parsed::Nothing), entry(5_000_000, "77", "", 100)]
        );
    }

    #[test]
    fn what_is_missing_is_told() {
        let found = entries(None, &["5,77,100", "5,77", "x,77,1", "5,,1", "5,77,-1"]);
        assert!(
            found[0].is_ok() && found[1..].iter().all(Result::is_err),
            "{found:?}"
        );
        for wrong in ["", "time=0", "size", "colour=1"] {
            assert_eq!(wrong.parse::<Columns>(), Err(UnknownColumns), "{wrong}");
        }
    }
}
