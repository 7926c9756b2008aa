//! The small language of the tests.
//!
//! Fields are written `Name: value & Name: value`. A value `@n` is the date n seconds after [`EPOCH`]; an exchange is
//!
//! ```text
//! GET Name: value & … | 200 Name: value & … | sent -3, after 30, ask Name: value & …
//! ```
//!
//! The request is sent at EPOCH (or `sent` seconds from it) and answered at EPOCH. `after` seconds later a GET request with
//! the fields behind `ask` asks for the response.

use fields::Fields;

use crate::{Request, Response, UnixMillis, format_date};

/// When responses arrive: Sun, 06 Nov 1994 08:49:37 GMT.
pub(crate) const EPOCH: UnixMillis = UnixMillis(784_111_777_000);

/// `Name: value & Name: value`
pub(crate) fn fields(text: &str) -> Fields {
    let mut fields = Fields::new();
    for line in text.split(" & ").filter(|line| !line.trim().is_empty()) {
        let (name, value) = line
            .split_once(':')
            .unwrap_or_else(|| panic!("no colon in {line:?}"));
        let value = value.trim();
        match value
            .strip_prefix('@')
            .and_then(|offset| offset.parse().ok())
        {
            Some(offset_s) => fields.push(name.trim().as_bytes(), &format_date(at(offset_s))),
            None => fields.push(name.trim().as_bytes(), value.as_bytes()),
        }
    }
    fields
}

/// The time `offset_s` seconds after EPOCH.
pub(crate) fn at(offset_s: i64) -> UnixMillis {
    UnixMillis(EPOCH.0.saturating_add_signed(offset_s * 1000))
}

pub(crate) struct Exchange {
    pub(crate) method: String,
    pub(crate) request: Fields,
    pub(crate) status: u16,
    pub(crate) response: Fields,
    pub(crate) sent: UnixMillis,
    pub(crate) now: UnixMillis,
    pub(crate) ask: Fields,
}

impl Exchange {
    pub(crate) fn parse(text: &str) -> Self {
        let mut parts = text.split('|').map(str::trim);
        let (method, request) = head(parts.next().unwrap_or_default());
        let (status, response) = head(parts.next().unwrap_or_default());
        let later = parts.next().unwrap_or_default();
        let (times, ask) = later.split_once("ask ").unwrap_or((later, ""));
        let seconds = |word: &str| {
            let found = times
                .split(',')
                .find_map(|part| part.trim().strip_prefix(word));
            found.map_or(0, |number| number.trim().parse().expect("seconds"))
        };
        Exchange {
            method: method.into(),
            request,
            status: status.parse().expect("a status"),
            response,
            sent: at(seconds("sent")),
            now: at(seconds("after")),
            ask: fields(ask),
        }
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request {
            method: &self.method,
            fields: &self.request,
        }
    }

    pub(crate) fn response(&self) -> Response<'_> {
        Response {
            status: self.status,
            fields: &self.response,
        }
    }
}

fn head(text: &str) -> (&str, Fields) {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    (word, fields(rest))
}
