//! How a setting is described, checked and kept.
//!
//! A row of the tables in `table` says what a setting is called, what it takes, its default and bounds, its flag,
//! what it does, and where in the draft of the plan it goes. The check of a configuration, the command line's flags
//! and the reference all come from these rows; a setting is added in one place (and its field in `Plan`).

use std::time::Duration;

use proxy::plan::Bounds;

use crate::config::problem::{Problem, did_you_mean};
use crate::config::raw::{Given, Value};
use crate::units::{SIZE_FORM, Size, TIME_FORM, Time, parse_size, parse_time};

/// A setting of `T`: of the whole draft, of a listener, of a route.
pub struct Setting<T: 'static> {
    /// Its name: `store.size`.
    pub key: &'static str,
    /// Its flag of `loligo serve`, if it has one.
    pub flag: Option<&'static str>,
    /// What it takes and where that goes.
    pub kind: Kind<T>,
    /// What it does and when one would change it.
    pub doc: &'static str,
}

/// What a setting takes, and where the checked value goes.
pub enum Kind<T: 'static> {
    /// A size in bytes.
    Size(Bounds<u64>, fn(&mut T, u64)),
    /// A time.
    Time(Bounds<Duration>, fn(&mut T, Duration)),
    /// A number.
    Count(Bounds<u64>, fn(&mut T, u64)),
    /// `true` or `false`, with the default.
    Switch(bool, fn(&mut T, bool)),
    /// Anything else, checked by its own function.
    Own {
        /// What it takes, for the reference.
        form: &'static str,
        /// The default in words, for the reference.
        default: &'static str,
        /// Checks and keeps it.
        set: fn(&mut T, &Given) -> Result<(), Problem>,
    },
}

impl<T> Kind<T> {
    /// What it takes, in words, for the reference.
    pub fn form(&self) -> String {
        match self {
            Kind::Size(b, _) => format!("a size, {} to {}", Size(b.min), Size(b.max)),
            Kind::Time(b, _) => format!("a time, {} to {}", Time(b.min), Time(b.max)),
            Kind::Count(b, _) => format!("a number, {} to {}", b.min, b.max),
            Kind::Switch(..) => "`true`, `false`".to_owned(),
            Kind::Own { form, .. } => (*form).to_owned(),
        }
    }

    /// The default in words.
    pub fn default(&self) -> String {
        match self {
            Kind::Size(b, _) => Size(b.default).to_string(),
            Kind::Time(b, _) => Time(b.default).to_string(),
            Kind::Count(b, _) => b.default.to_string(),
            Kind::Switch(on, _) => on.to_string(),
            Kind::Own { default, .. } => (*default).to_owned(),
        }
    }

    fn set(&self, target: &mut T, given: &Given) -> Result<(), Problem> {
        match self {
            Kind::Size(bounds, set) => set(target, size(given, *bounds)?),
            Kind::Time(bounds, set) => set(target, time(given, *bounds)?),
            Kind::Count(bounds, set) => set(target, count(given, *bounds)?),
            Kind::Switch(_, set) => match &given.value {
                Value::Switch(on) => set(target, *on),
                _ => return Err(given.problem("expected true or false, without quotes")),
            },
            Kind::Own { set, .. } => set(target, given)?,
        }
        Ok(())
    }
}

/// Checks settings against a table and puts them where they belong. `scope` is put before names in messages.
pub fn apply<T>(
    table: &'static [Setting<T>],
    scope: &str,
    given: &[Given],
    target: &mut T,
    problems: &mut Vec<Problem>,
) {
    for one in given {
        let mut done = match table.iter().find(|setting| setting.key == one.key) {
            Some(setting) => setting.kind.set(target, one),
            None => Err(unknown(one, table.iter().map(|setting| setting.key))),
        };
        if let Err(problem) = &mut done {
            problem.key.insert_str(0, scope);
        }
        problems.extend(done.err());
    }
}

/// There is no such setting; these are.
pub fn unknown<'a>(given: &Given, known: impl Iterator<Item = &'a str>) -> Problem {
    let message = match did_you_mean(&given.key, known) {
        Some(meant) => format!("there is no such setting here; did you mean \"{meant}\"?"),
        None => "there is no such setting here; `loligo settings` lists them all".to_owned(),
    };
    given.problem(message)
}

/// A size within bounds.
pub fn size(given: &Given, bounds: Bounds<u64>) -> Result<u64, Problem> {
    let bytes = match &given.value {
        Value::Text(text) => parse_size(text),
        Value::Number(n) => u64::try_from(*n).ok(),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| given.problem(format!("expected {SIZE_FORM}")))?;
    within(given, bytes, bounds, Size(bounds.min), Size(bounds.max))
}

/// A time within bounds.
pub fn time(given: &Given, bounds: Bounds<Duration>) -> Result<Duration, Problem> {
    let time = match &given.value {
        Value::Text(text) => parse_time(text),
        _ => None,
    };
    let time = time.ok_or_else(|| given.problem(format!("expected {TIME_FORM}")))?;
    within(given, time, bounds, Time(bounds.min), Time(bounds.max))
}

/// A number within bounds; text is read as one, for flags.
pub fn count(given: &Given, bounds: Bounds<u64>) -> Result<u64, Problem> {
    let n = match &given.value {
        Value::Number(n) => u64::try_from(*n).ok(),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    };
    let n = n.ok_or_else(|| given.problem("expected a whole number"))?;
    within(given, n, bounds, bounds.min, bounds.max)
}

fn within<T: PartialOrd + Copy>(
    given: &Given,
    value: T,
    bounds: Bounds<T>,
    min: impl std::fmt::Display,
    max: impl std::fmt::Display,
) -> Result<T, Problem> {
    if bounds.contains(value) {
        return Ok(value);
    }
    Err(given.problem(format!("must be from {min} to {max}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::draft::{Draft, StoreDraft};
    use crate::config::problem::Place;
    use crate::config::table::{STORE, TOP};

    fn given(key: &str, value: Value) -> Given {
        Given {
            key: key.to_owned(),
            value,
            place: Place::Default,
        }
    }

    fn complaint(key: &str, value: Value) -> String {
        let mut problems = Vec::new();
        apply(
            TOP,
            "",
            &[given(key, value)],
            &mut Draft::default(),
            &mut problems,
        );
        problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn every_bounded_setting_accepts_its_default_and_its_ends_and_no_more() {
        holds_its_bounds(TOP);
        holds_its_bounds(STORE);
    }

    fn holds_its_bounds<T: Default>(table: &'static [Setting<T>]) {
        for setting in table {
            let fits = |value: String| {
                let mut problems = Vec::new();
                let given = given(setting.key, Value::Text(value));
                apply(table, "", &[given], &mut T::default(), &mut problems);
                problems.is_empty()
            };
            let (good, bad) = match &setting.kind {
                Kind::Size(b, _) => (
                    [b.min, b.default, b.max].map(|n| Size(n).to_string()),
                    (b.max + 1).to_string(),
                ),
                Kind::Time(b, _) => (
                    [b.min, b.default, b.max].map(|t| Time(t).to_string()),
                    Time(b.max + Duration::from_secs(1)).to_string(),
                ),
                Kind::Count(b, _) => (
                    [b.min, b.default, b.max].map(|n| n.to_string()),
                    (b.max + 1).to_string(),
                ),
                Kind::Switch(..) | Kind::Own { .. } => continue,
            };
            for value in good {
                assert!(fits(value), "{}", setting.key);
            }
            assert!(!fits(bad), "{}", setting.key);
        }
    }

    #[test]
    fn the_defaults_in_words_are_those_of_the_plan() {
        assert_eq!(with_stated_defaults(TOP).plan, Draft::default().plan);
        assert_eq!(with_stated_defaults(STORE).plan, StoreDraft::default().plan);
    }

    /// Applying every stated default should change nothing.
    fn with_stated_defaults<T: Default>(table: &'static [Setting<T>]) -> T {
        let mut draft = T::default();
        let mut problems = Vec::new();
        for setting in table {
            let value = match &setting.kind {
                Kind::Switch(on, _) => Value::Switch(*on),
                Kind::Own { .. } => continue,
                kind => Value::Text(kind.default()),
            };
            let given = given(setting.key, value);
            apply(table, "", &[given], &mut draft, &mut problems);
        }
        assert_eq!(problems, []);
        draft
    }

    #[test]
    fn complaints_name_key_value_and_way_out() {
        for (key, value, text) in [
            (
                "timeouts.drain",
                Value::Number(30),
                "timeouts.drain = 30: expected a time such as \"500ms\", \"30s\", \"5m\", \"2h\" or \"1d\"",
            ),
            (
                "limits.waiters-max",
                Value::Switch(true),
                "limits.waiters-max = true: expected a whole number",
            ),
            (
                "cache.store-set-cookie",
                Value::Text("yes".into()),
                "cache.store-set-cookie = \"yes\": expected true or false, without quotes",
            ),
            (
                "limits.waiter-max",
                Value::Number(3),
                "limits.waiter-max = 3: there is no such setting here; did you mean \"limits.waiters-max\"?",
            ),
        ] {
            assert_eq!(complaint(key, value), text);
        }
    }
}
