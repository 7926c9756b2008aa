//! What a connection tells the rules, kept between its requests.
//!
//! Looked at anew when the configuration, the client behind the connection, or the minute has changed; the minute counts only where a rule
//! asks for the time.
//!
//! Not known here: sockets, requests.

use std::net::IpAddr;

use jiff::{Timestamp, tz::TimeZone};

use crate::zone::zone;
use plan::Minute;

use super::{Among, Rulebook, Says, fits::Circumstances};

/// Milliseconds.
const MINUTE: u64 = 60_000;

/// The machine's time zone, where rules ask for the time.
#[derive(Debug, Default)]
pub struct Clock(Option<TimeZone>);

impl Clock {
    /// Reads the time zone, if it is asked for.
    pub fn new(is_asked: bool) -> Clock {
        // `check` and `serve` refuse a zone that is not known.
        let zone = || zone().map_or(TimeZone::UTC, |(zone, _)| zone);
        Clock(is_asked.then(zone))
    }

    /// The minute of the week, here and in UTC.
    fn minutes(&self, unix_ms: u64) -> (Minute, Minute) {
        let Some(zone) = &self.0 else {
            return Default::default();
        };
        let now = i64::try_from(unix_ms).ok();
        let now = now.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let now = now.unwrap_or_default();
        let minute = |zone: &TimeZone| {
            let at = zone.to_datetime(now);
            Minute {
                day: at.weekday().to_monday_zero_offset() as u8,
                minute: at.hour() as u16 * 60 + at.minute() as u16,
            }
        };
        (minute(zone), minute(&TimeZone::UTC))
    }
}

/// What a connection tells.
#[derive(Clone, Debug, Default)]
pub struct Standing(Option<Known>);

#[derive(Clone, Debug)]
struct Known {
    edition: u32,
    client: IpAddr,
    minute: u64,
    among: Among,
}

impl Standing {
    /// What its next request is asked with. `listener`: the listener's number in the plan.
    #[inline]
    pub fn of(
        &mut self,
        book: &Rulebook,
        edition: u32,
        client: IpAddr,
        listener: usize,
        unix_ms: u64,
    ) -> &Among {
        let minute = match book.asks_for_the_time() {
            false => 0,
            true => unix_ms / MINUTE,
        };
        let is_known = |known: &mut Known| {
            known.edition == edition && known.client == client && known.minute == minute
        };
        if self.0.as_mut().is_none_or(|known| !is_known(known)) {
            self.0 = None;
        }
        let known = self.0.get_or_insert_with(|| Known {
            edition,
            client,
            minute,
            among: book.may_meet(client, listener, unix_ms),
        });
        &known.among
    }
}

impl Rulebook {
    /// Does a rule ask for the time?
    pub fn asks_for_the_time(&self) -> bool {
        self.any_says.has(Says::TIME)
    }

    /// What a connection of this client to this listener tells at this time.
    pub fn may_meet(&self, client: IpAddr, listener: usize, unix_ms: u64) -> Among {
        self.among(&self.circumstances(client, listener, unix_ms))
    }

    /// What is known of a connection.
    pub fn circumstances(&self, client: IpAddr, listener: usize, unix_ms: u64) -> Circumstances {
        let (local, utc) = self.clock.minutes(unix_ms);
        Circumstances {
            client,
            listener,
            local,
            utc,
        }
    }
}
