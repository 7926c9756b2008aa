//! When the next order is due.
//!
//! At once if there is no certificate of this authority for these names. Else when a third of its lifetime is left, up to a thirtieth earlier, so
//! that many proxies do not ask at once. Not before the last attempt allows it, unless that was for other names or another authority.
//!
//! Not known here: clocks, files.

use std::time::Duration;

use super::files::{Attempt, Held};
use plan::Acme;

/// The longest pause between two attempts.
pub const RETRY_MAX: Duration = Duration::from_secs(12 * 3600);

/// When the next order is due, since 1970.
pub fn when(held: Option<&Held>, acme: &Acme, attempt: Option<&Attempt>, jitter: f64) -> Duration {
    let wanted = match held {
        Some(held) if held.directory == acme.directory && covers(held, acme) => {
            let (from, until) = (held.facts.from_unix_s, held.facts.until_unix_s);
            let lifetime = until.saturating_sub(from).max(0);
            let earlier = (lifetime as f64 * jitter / 30.0) as i64;
            let at = until.saturating_sub(lifetime / 3).saturating_sub(earlier);
            Duration::from_secs(u64::try_from(at).unwrap_or(0))
        }
        _ => Duration::ZERO,
    };
    let allowed = attempt.filter(|attempt| attempt.is_for(acme));
    let allowed = allowed.map_or(Duration::ZERO, |it| Duration::from_secs(it.next_unix_s));
    wanted.max(allowed)
}

fn covers(held: &Held, acme: &Acme) -> bool {
    (acme.names.iter()).all(|name| held.facts.names.contains(name))
}

/// The pause after this many failures in a row.
pub fn pause(retry: Duration, failures: u32, jitter: f64) -> Duration {
    let doubled = retry.saturating_mul(1 << failures.saturating_sub(1).min(16));
    doubled.min(RETRY_MAX).mul_f64(1.0 + jitter / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::x509::Facts;

    const DAY: i64 = 86_400;

    fn acme() -> Acme {
        Acme {
            directory: "https://ca.example/dir".to_owned(),
            names: vec!["a.example".to_owned()],
            ..Acme::default()
        }
    }

    fn held(from: i64, until: i64) -> Held {
        Held {
            directory: acme().directory,
            facts: Facts {
                names: vec!["a.example".to_owned()],
                from_unix_s: from,
                until_unix_s: until,
                ..Facts::default()
            },
        }
    }

    fn days(at: Duration) -> u64 {
        at.as_secs() / DAY as u64
    }

    #[test]
    fn it_is_renewed_when_a_third_of_its_time_is_left_or_a_little_earlier() {
        let held = held(0, 90 * DAY);
        assert_eq!(days(when(Some(&held), &acme(), None, 0.0)), 60);
        assert_eq!(days(when(Some(&held), &acme(), None, 1.0)), 57);
        assert_eq!(when(None, &acme(), None, 0.5), Duration::ZERO);
        let backwards = self::held(90 * DAY, 0);
        assert_eq!(days(when(Some(&backwards), &acme(), None, 1.0)), 0);
    }

    #[test]
    fn other_names_and_another_authority_are_due_at_once() {
        let held = held(0, 90 * DAY);
        let mut more = acme();
        more.names.push("b.example".to_owned());
        let mut elsewhere = acme();
        elsewhere.directory.push('2');
        for wanted in [more, elsewhere] {
            assert_eq!(when(Some(&held), &wanted, None, 0.0), Duration::ZERO);
            // An attempt for other names or another authority does not delay these.
            let attempt = Attempt::after_success(&acme(), Duration::ZERO, RETRY_MAX);
            assert_eq!(
                when(Some(&held), &wanted, Some(&attempt), 0.0),
                Duration::ZERO
            );
        }
    }

    #[test]
    fn failures_are_followed_by_longer_and_longer_pauses() {
        let retry = Duration::from_secs(300);
        let pauses = [1, 2, 3, 8, 9, u32::MAX].map(|n| pause(retry, n, 0.0).as_secs());
        assert_eq!(pauses, [300, 600, 1200, 38_400, 43_200, 43_200]);
        let now = Duration::from_secs(1000);
        let first = Attempt::after_failure(&acme(), now, retry, None, 0.0);
        let second = Attempt::after_failure(&acme(), now, retry, Some(&first), 0.0);
        assert_eq!(when(None, &acme(), Some(&second), 0.0).as_secs(), 1600);
    }
}
