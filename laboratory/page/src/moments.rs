//! Ticks of moments on an axis: where they are in a day, an hour or a minute, and their texts.
//!
//! Moments are seconds since 1970, in UTC. Leap seconds are not counted, as in Unix time.
//!
//! Not known here: plots.   Limits: years 1970 to 9999; other moments are shown as the nearest end of that range.

/// Steps between ticks, in seconds: parts of a minute, an hour, a day; then days.
const STEPS: [f64; 21] = [
    1.0,
    2.0,
    5.0,
    10.0,
    15.0,
    30.0,
    60.0,
    120.0,
    300.0,
    600.0,
    900.0,
    1_800.0,
    3_600.0,
    7_200.0,
    10_800.0,
    21_600.0,
    43_200.0,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
    28.0 * DAY,
];
const DAY: f64 = 86_400.0;
const LAST_SECOND: f64 = 253_402_300_799.0;
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// About `most` ticks at most from `low` to `high`, with their texts. At midnight the text is the date instead of 00:00, unless the axis
/// is a day without a date.
pub(crate) fn ticks(low: f64, high: f64, most: f64, has_dates: bool) -> Vec<(f64, String)> {
    let fits = |step: &&f64| (high - low) / **step <= most;
    let step = *STEPS.iter().find(fits).unwrap_or(&STEPS[STEPS.len() - 1]);
    let first = (low / step - 1e-9).ceil() as i64;
    let last = ((high / step + 1e-9).floor() as i64).min(first + 100);
    let text = |at: f64| {
        let is_midnight = at.rem_euclid(DAY) == 0.0;
        if !has_dates {
            // The end of a day is 24:00, not 00:00.
            return clock(if at == DAY { at } else { at.rem_euclid(DAY) }, step < 60.0);
        }
        if is_midnight || step >= DAY {
            date(at)
        } else {
            clock(at.rem_euclid(DAY), step < 60.0)
        }
    };
    (first..=last)
        .map(|n| n as f64 * step)
        .map(|at| (at, text(at)))
        .collect()
}

fn clock(second_of_day: f64, has_seconds: bool) -> String {
    let whole = second_of_day as u64;
    let (hours, minutes, seconds) = (whole / 3600, whole / 60 % 60, whole % 60);
    if has_seconds {
        format!("{hours:02}:{minutes:02}:{seconds:02}")
    } else {
        format!("{hours:02}:{minutes:02}")
    }
}

/// Day and month: `3 Feb`.
fn date(at: f64) -> String {
    let (_, month, day) = civil(at);
    format!("{day} {}", MONTHS[month - 1])
}

/// A moment in full: `2026-11-22 10:54:28`, without seconds if they are 0.
pub fn utc_text(unix_s: f64) -> String {
    let (year, month, day) = civil(unix_s);
    let second = unix_s.clamp(0.0, LAST_SECOND).floor().rem_euclid(DAY);
    let clock = clock(second, second.rem_euclid(60.0) != 0.0);
    format!("{year}-{month:02}-{day:02} {clock}")
}

/// A time of day: `10:54`, or `10:54:28`.
pub fn clock_text(second_of_day: f64) -> String {
    clock(
        second_of_day.clamp(0.0, DAY),
        second_of_day.rem_euclid(60.0) != 0.0,
    )
}

/// Year, month (1 to 12) and day (1 to 31) in the Gregorian calendar.
fn civil(unix_s: f64) -> (i64, usize, i64) {
    // Days are counted from 1 March of year 0, so that a leap day is the last of a year.
    let days = (unix_s.clamp(0.0, LAST_SECOND) / DAY).floor() as i64 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(low: f64, high: f64, has_dates: bool) -> Vec<String> {
        let ticks = ticks(low, high, 9.0, has_dates);
        ticks.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn a_day_has_hours_and_the_dates_at_its_ends() {
        let midnight = 1_763_769_600.0; // 2025-11-22
        assert_eq!(
            texts(midnight, midnight + DAY, true),
            [
                "22 Nov", "03:00", "06:00", "09:00", "12:00", "15:00", "18:00", "21:00", "23 Nov"
            ]
        );
        assert_eq!(
            texts(midnight + 100.0, midnight + 120.0, true),
            ["00:01:40", "00:01:45", "00:01:50", "00:01:55", "00:02:00"]
        );
        assert_eq!(texts(0.0, DAY, false).last().unwrap(), "24:00");
        assert_eq!(texts(midnight, midnight + 30.0 * DAY, true).len(), 4);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (at, text) in [
            (0.0, "1970-01-01 00:00"),
            (951_782_400.0, "2000-02-29 00:00"),
            (951_868_799.0, "2000-02-29 23:59:59"),
            (4_107_542_400.0, "2100-03-01 00:00"),
            (1_795_344_868.0, "2026-11-22 10:54:28"),
            (LAST_SECOND, "9999-12-31 23:59:59"),
        ] {
            assert_eq!(utc_text(at), text);
        }
        assert_eq!(utc_text(f64::MAX), utc_text(LAST_SECOND));
        assert_eq!(utc_text(-5.0), "1970-01-01 00:00");
        assert_eq!(
            (clock_text(60.0), clock_text(86_399.0)),
            ("00:01".into(), "23:59:59".into())
        );
    }

    #[test]
    fn a_span_of_a_thousand_years_has_few_ticks() {
        assert!(ticks(0.0, LAST_SECOND, 9.0, true).len() <= 101);
    }
}
