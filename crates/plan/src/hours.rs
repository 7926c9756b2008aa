//! Hours of a week: `Mo-Fr 08:00-18:00`.
//!
//! Hours are in the time zone of the machine (`TZ`, else `/etc/localtime`) with its summer time, because office hours are. `UTC` at the
//! end means UTC instead. Hours that pass midnight belong to the day on which they begin.
//!
//! Not known here: clocks, time zones.

use std::fmt;

/// Days of the week, Monday first.
const DAYS: [&str; 7] = ["Mo", "Tu", "We", "Th", "Fr", "Sa", "Su"];
/// Minutes of a day.
const DAY: u16 = 24 * 60;

/// Hours on some days of the week.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Hours {
    /// Bit 0 is Monday.
    days: u8,
    /// Minutes after midnight. The end is exclusive, and on the next day if it is not after the beginning.
    from: u16,
    to: u16,
    /// In UTC, not in the machine's zone?
    pub is_utc: bool,
}

/// A minute of the week.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Minute {
    /// 0 is Monday.
    pub day: u8,
    /// Minutes after midnight.
    pub minute: u16,
}

impl Hours {
    /// The expected form, for error messages.
    pub const FORM: &str = "hours such as \"Mo-Fr 08:00-18:00\", \"Sa 22:00-06:00\", \"12:00-13:00\" or \"Su\", with UTC at the end if they are not of this machine's time zone";

    /// Reads `[DAY[-DAY]] [HH:MM-HH:MM] [UTC]`; days or hours must be present.
    pub fn parse(text: &str) -> Option<Hours> {
        let mut words: Vec<&str> = text.split_ascii_whitespace().collect();
        let is_utc = words.pop_if(|word| *word == "UTC").is_some();
        let (days, hours) = match words[..] {
            [one] if one.contains(':') => (None, Some(one)),
            [days] => (Some(days), None),
            [days, hours] => (Some(days), Some(hours)),
            _ => return None,
        };
        let (from, to) = hours.map_or(Some((0, DAY)), |hours| {
            let (from, to) = hours.split_once('-')?;
            let (from, to) = (minute(from)?, minute(to)?);
            (from != to && from < DAY).then_some((from, to))
        })?;
        Some(Hours {
            days: days.map_or(Some(0x7f), parse_days)?,
            from,
            to,
            is_utc,
        })
    }

    /// Is `now` within these hours?
    pub fn contains(&self, now: Minute) -> bool {
        let is_on = |day: u8| self.days >> day & 1 == 1;
        if self.from < self.to {
            return is_on(now.day) && (self.from..self.to).contains(&now.minute);
        }
        let yesterday = (now.day + 6) % 7;
        is_on(now.day) && now.minute >= self.from || is_on(yesterday) && now.minute < self.to
    }
}

impl Minute {
    /// Reads `We 09:30`.
    pub fn parse(text: &str) -> Option<Minute> {
        let (day, at) = text.split_once(' ')?;
        let day = DAYS.iter().position(|known| *known == day)? as u8;
        let minute = minute(at.trim()).filter(|&minute| minute < DAY)?;
        Some(Minute { day, minute })
    }
}

impl fmt::Display for Minute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let day = DAYS[usize::from(self.day % 7)];
        write!(f, "{day} {:02}:{:02}", self.minute / 60, self.minute % 60)
    }
}

fn parse_days(text: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|known| *known == name);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (day(first)?, day(last)?);
    let mut days = 1 << last;
    let mut at = first;
    while at != last {
        days |= 1 << at;
        at = (at + 1) % 7;
    }
    Some(days)
}

fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<u16>().ok()).flatten()
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_of_the_day_on_which_they_begin() {
        for (hours, within, beyond) in [
            (
                "Mo-Fr 08:00-18:00",
                &["Mo 08:00", "Fr 17:59"][..],
                &["Mo 07:59", "Fr 18:00", "Sa 12:00"][..],
            ),
            (
                "Fr 22:00-06:00",
                &["Fr 22:00", "Fr 23:59", "Sa 05:59"],
                &["Fr 05:00", "Sa 06:00", "Sa 22:00"],
            ),
            (
                "Su-Mo",
                &["Su 00:00", "Mo 23:59"],
                &["Sa 23:59", "Tu 00:00"],
            ),
            ("12:00-13:00", &["We 12:30"], &["We 13:00"]),
            ("Su 23:00-24:00 UTC", &["Su 23:59"], &["Mo 00:00"]),
            ("Su 23:00-00:00", &["Su 23:59"], &["Mo 00:00"]),
            ("Su 23:00-00:30", &["Mo 00:29"], &["Su 00:29", "Mo 00:30"]),
        ] {
            let read = Hours::parse(hours).unwrap();
            let minute = |text: &&str| Minute::parse(text).unwrap();
            assert!(
                within.iter().map(minute).all(|at| read.contains(at)),
                "{hours}"
            );
            assert!(
                !beyond.iter().map(minute).any(|at| read.contains(at)),
                "{hours}"
            );
            assert_eq!(read.is_utc, hours.ends_with("UTC"));
        }
        assert_eq!(Minute::parse("Th 09:05").unwrap().to_string(), "Th 09:05");
    }

    #[test]
    fn what_is_no_hour_is_refused() {
        for text in [
            "",
            "UTC",
            "Mon",
            "Mo-",
            "08:00",
            "8:00-9:00",
            "08:00-08:00",
            "24:00-01:00",
            "08:60-09:00",
            "00:00-24:01",
            "Mo Tu",
            "Mo 08:00-09:00 CET",
            "Mo,Tu",
            "-Mo",
            "Mo 08:00-09:00 UTC UTC",
        ] {
            assert_eq!(Hours::parse(text), None, "{text}");
        }
    }
}
