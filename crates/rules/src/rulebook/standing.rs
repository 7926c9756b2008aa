//! The rules that a connection may meet, kept between its requests.
//!
//! Looked at anew when the configuration, the client behind the connection, or the minute has changed; the minute counts only where a rule
//! asks for the time.
//!
//! Not known here: sockets, requests.

use std::net::IpAddr;

use jiff::{Timestamp, tz::TimeZone};

use crate::zone::zone;
use plan::Minute;

use super::{Met, Rulebook, fits::Circumstances};

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

/// The rules that a connection may meet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing(Option<Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    edition: u32,
    client: IpAddr,
    minute: u64,
    may_meet: Met,
}

impl Standing {
    /// The rules that its next request may meet. `listener`: the listener's number in the plan.
    #[inline]
    pub fn of(
        &mut self,
        book: &Rulebook,
        edition: u32,
        client: IpAddr,
        listener: usize,
        unix_ms: u64,
    ) -> Met {
        if book.is_empty() {
            return Met::NONE;
        }
        let minute = match book.says.time.is_empty() {
            true => 0,
            false => unix_ms / MINUTE,
        };
        match &self.0 {
            Some(known)
                if known.edition == edition && known.client == client && known.minute == minute =>
            {
                known.may_meet
            }
            _ => {
                let may_meet = book.may_meet(client, listener, unix_ms);
                self.0 = Some(Known {
                    edition,
                    client,
                    minute,
                    may_meet,
                });
                may_meet
            }
        }
    }
}

impl Rulebook {
    /// Does a rule ask for the time?
    pub fn asks_for_the_time(&self) -> bool {
        !self.says.time.is_empty()
    }

    /// The rules that a client may meet by this listener at this time.
    pub fn may_meet(&self, client: IpAddr, listener: usize, unix_ms: u64) -> Met {
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
