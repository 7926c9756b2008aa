//! How a setting is described, read and kept.
//!
//! A [`Row`] has the name of a setting, the values it takes, its default, a description, and the field for its value. Numbers come from
//! `proxy::plan`, where their fields are ([`numbers`]); for other settings, `rows!` names a function of `values`. The check of a
//! configuration, the list of changed settings in `loligo check`, and the reference use these rows: a setting is declared in one place.

use proxy::plan::{Bounds, Setting, Unit};

use super::raw::{Given, Value};
use super::values::{number, show};

/// A setting of `T`, for example of a store, a listener, a route or a rule.
pub struct Row<T> {
    /// Its whole name: `store.size`.
    pub key: String,
    /// The values it takes, for the reference.
    pub form: String,
    /// The default in words, for the reference.
    pub default: String,
    /// What the setting does, and when to change it.
    pub doc: &'static str,
    /// How the value is read, and where it goes.
    pub takes: Takes<T>,
}

type Put<T> = Box<dyn Fn(&mut T, u64)>;
type Set<T> = dyn Fn(&mut T, &Given) -> Result<(), String>;

/// How a value is read, and where it goes.
pub enum Takes<T> {
    /// A number within bounds.
    Number(Bounds, Put<T>),
    /// Something else; the error says what is expected.
    Own(Box<Set<T>>),
}

/// The rows of `T` that are read by functions of their own.
macro_rules! rows {
    ($target:ty: $( $(#[doc = $doc:literal])+ $key:literal: $form:literal, $default:literal => $($field:ident).+ = $read:expr; )*) => {
        vec![ $( $crate::config::rows::Row {
            key: $key.to_owned(),
            form: $form.to_owned(),
            default: $default.to_owned(),
            doc: concat!($($doc),+),
            takes: $crate::config::rows::Takes::Own(Box::new(|target: &mut $target, given| {
                $crate::config::rows::put(&mut target.$($field).+, $read, given)
            })),
        }, )* ]
    };
}

pub(super) use rows;

/// Reads a value into a field, which may be an `Option` of its type.
pub fn put<F: From<V>, V>(
    field: &mut F,
    read: impl Fn(&Given) -> Result<V, String>,
    given: &Given,
) -> Result<(), String> {
    *field = F::from(read(given)?);
    Ok(())
}

/// The rows of the numbers in a part of `T`.
pub fn numbers<T: 'static, P: 'static>(
    scope: &str,
    settings: &'static [Setting<P>],
    part: impl Fn(&mut T) -> &mut P + Copy + 'static,
) -> impl Iterator<Item = Row<T>> {
    settings.iter().map(move |setting| {
        let bounds = setting.bounds;
        Row {
            key: scope.to_owned() + &setting.field.replace("_bytes", "").replace('_', "-"),
            form: form(bounds),
            default: setting
                .default_words
                .map_or_else(|| show(bounds, bounds.default), str::to_owned),
            doc: setting.doc,
            takes: Takes::Number(
                bounds,
                Box::new(move |it, number| (setting.set)(part(it), number)),
            ),
        }
    })
}

/// The values that these bounds permit, for the reference.
fn form(bounds: Bounds) -> String {
    let what = match bounds.unit {
        Unit::Bytes => "size",
        Unit::Millis => "time",
        Unit::Count => "number",
        Unit::Switch => return "`true`, `false`".to_owned(),
    };
    let [min, max] = [bounds.min, bounds.max].map(|number| show(bounds, number));
    format!("a {what}, {min} to {max}")
}

impl<T: 'static> Row<T> {
    /// The same setting, for a type that has `T` as a part.
    pub fn within<U: 'static>(self, part: fn(&mut U) -> &mut T) -> Row<U> {
        Row {
            key: self.key,
            form: self.form,
            default: self.default,
            doc: self.doc,
            takes: match self.takes {
                Takes::Number(bounds, put) => {
                    Takes::Number(bounds, Box::new(move |it, number| put(part(it), number)))
                }
                Takes::Own(set) => Takes::Own(Box::new(move |it, given| set(part(it), given))),
            },
        }
    }
}

impl<T> Row<T> {
    /// The sentence of the reference.
    pub fn doc(&self) -> &'static str {
        self.doc.trim()
    }

    /// Is this value the default, as far as the default does not depend on the machine?
    pub fn is_default(&self, given: &Given) -> bool {
        match (&self.takes, &given.value) {
            (Takes::Number(bounds, _), _) => number(given, *bounds) == Ok(bounds.default),
            (Takes::Own(_), Value::Text(text)) => *text == self.default,
            (Takes::Own(_), value) => value.to_string() == self.default,
        }
    }

    /// Reads a setting into its field; the error says what is expected.
    pub fn set(&self, target: &mut T, given: &Given) -> Result<(), String> {
        match &self.takes {
            Takes::Number(bounds, set) => set(target, number(given, *bounds)?),
            Takes::Own(set) => set(target, given)?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::apply::apply;
    use crate::config::cluster::{self, ClusterDraft};
    use crate::config::encryption;
    use crate::config::general::{self, Draft};
    use crate::config::listeners;
    use crate::config::peers::{self, ParentDraft, SiblingDraft};
    use crate::config::problem::Place;
    use crate::config::quotas::{self, QuotaDraft};
    use crate::config::rules::{self, RuleDraft};
    use crate::config::stores::{self, StoreDraft};

    use proxy::plan::Plan;

    fn given(key: &str, value: Value) -> Given {
        Given {
            key: key.to_owned(),
            value,
            place: Place::Default,
        }
    }

    fn written(bounds: Bounds, number: u64) -> Value {
        match bounds.unit {
            Unit::Switch => Value::Switch(number != 0),
            _ => Value::Text(show(bounds, number)),
        }
    }

    #[test]
    fn every_number_accepts_its_default_and_its_ends_and_no_more() {
        holds_its_bounds::<Draft>(&general::rows());
        holds_its_bounds::<StoreDraft>(&stores::rows());
        holds_its_bounds::<RuleDraft>(&rules::rows());
        holds_its_bounds::<QuotaDraft>(&quotas::rows());
        holds_its_bounds::<ParentDraft>(&peers::parent_rows());
        holds_its_bounds::<SiblingDraft>(&peers::sibling_rows());
        holds_its_bounds::<ClusterDraft>(&cluster::rows());
    }

    fn holds_its_bounds<T: Default>(rows: &[Row<T>]) {
        for row in rows {
            let Takes::Number(bounds, _) = row.takes else {
                continue;
            };
            let fits = |value| {
                let mut problems = Vec::new();
                apply(
                    rows,
                    &[given(&row.key, value)],
                    &mut T::default(),
                    &mut problems,
                );
                problems.is_empty()
            };
            for number in [bounds.min, bounds.default, bounds.max] {
                assert!(fits(written(bounds, number)), "{}", row.key);
            }
            if bounds.unit != Unit::Switch {
                let beyond = bounds.max + if bounds.unit == Unit::Millis { 1000 } else { 1 };
                assert!(!fits(written(bounds, beyond)), "{}", row.key);
            }
        }
    }

    /// The defaults that the reference says, as far as they can be written.
    #[test]
    fn writing_the_defaults_out_changes_nothing() {
        let rows = general::rows();
        let mut written = 0;
        for row in &rows {
            let value = match row.default.as_str() {
                "true" => Value::Switch(true),
                "false" => Value::Switch(false),
                // These defaults in words would be read as the name of a file.
                _ if ["tls.ca-file", "acme.state"].contains(&row.key.as_str()) => continue,
                _ if row.key.starts_with("tls.client-certificate.") => continue,
                text => Value::Text(text.to_owned()),
            };
            let one = given(&row.key, value);
            assert!(row.is_default(&one), "{}", row.key);
            let (mut draft, mut problems) = (Draft::default(), Vec::new());
            apply(&rows, &[one], &mut draft, &mut problems);
            let in_words = matches!(row.takes, Takes::Own(_)) && !problems.is_empty();
            assert!(in_words || problems.is_empty(), "{problems:?}");
            assert_eq!(draft, Draft::default(), "{}", row.key);
            written += usize::from(!in_words);
        }
        assert_eq!(
            rows.len() - written,
            15,
            "workers, memory, user, group, admin.allow, admin.names, dns.servers, tls.ca-file, tls.client-certificate, icp.allow, digest.allow, acme.directory, acme.names, acme.state"
        );
        for (key, bounds) in [("workers", Plan::WORKERS), ("memory", Plan::MEMORY_BYTES)] {
            let row = rows.iter().find(|row| row.key == key).unwrap();
            assert!(row.form.starts_with(&form(bounds)), "{key}");
        }
    }

    #[test]
    fn names_are_unique_and_every_sentence_ends() {
        let mut keys = Vec::new();
        fn add<T>(keys: &mut Vec<String>, rows: Vec<Row<T>>) {
            for row in rows {
                assert!(row.doc().ends_with(['.', ')']), "{}", row.key);
                keys.push(row.key);
            }
        }
        add(&mut keys, general::rows());
        add(&mut keys, stores::rows());
        add(&mut keys, listeners::rows());
        add(&mut keys, listeners::route_rows());
        add(&mut keys, encryption::certificate_rows());
        add(&mut keys, rules::rows());
        add(&mut keys, quotas::rows());
        add(&mut keys, peers::parent_rows());
        add(&mut keys, peers::sibling_rows());
        add(&mut keys, cluster::rows());
        add(&mut keys, cluster::member_rows());
        let set: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(set.len(), keys.len());
    }
}
