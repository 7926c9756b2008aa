//! The condition values of a connection, kept between its requests.
//!
//! They are looked up again when the configuration, the client behind the connection, or the minute has changed; the minute matters
//! only if a rule has a condition on the time.
//!
//! Not known here: sockets, requests.

use std::net::IpAddr;

use jiff::{Timestamp, tz::TimeZone};

use crate::zone::zone;
use plan::Minute;

use super::{Among, Rulebook, Says, fits::Circumstances};

/// One minute in milliseconds.
const MINUTE: u64 = 60_000;

/// The machine's time zone, if rules have conditions on the time.
#[derive(Debug, Default)]
pub struct Clock(Option<TimeZone>);

impl Clock {
    /// Reads the time zone, if `is_asked`.
    pub fn new(is_asked: bool) -> Clock {
        // `check` and `serve` have refused an unknown zone before.
        let zone = || zone().map_or(TimeZone::UTC, |(zone, _)| zone);
        Clock(is_asked.then(zone))
    }

    /// The minute of the week, in the machine's zone and in UTC.
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

/// The condition values of a connection.
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
    /// The values for the connection's next request. `listener`: the listener's number in the plan.
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
    /// Has a rule a condition on the time?
    pub fn asks_for_the_time(&self) -> bool {
        self.any_says.has(Says::TIME)
    }

    /// The condition values of a connection of this client to this listener at this time.
    pub fn may_meet(&self, client: IpAddr, listener: usize, unix_ms: u64) -> Among {
        self.among(&self.circumstances(client, listener, unix_ms))
    }

    /// The facts of a connection that rules check.
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
