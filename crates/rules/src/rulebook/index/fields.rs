//! Conditions on fields of a request.
//!
//! Each field name takes one look-up, and only if it is the key of a rule or a candidate has a condition on it.
//!
//! Not known here: rules.

use std::collections::HashMap;

use plan::{FieldFits, FieldIs};

use super::{
    globs::Globs,
    numbers::{Found, Next},
};
use crate::rulebook::fits::FieldLines;

/// Fields by name. A name occurs twice if one rule has two conditions on it, both of which must hold.
#[derive(Debug, Default)]
pub struct Fields {
    fields: Vec<Field>,
    /// The indexes of the fields with a name.
    by_name: HashMap<String, Vec<u32>>,
}

#[derive(Debug, Default)]
struct Field {
    name: String,
    /// The values for "the request has the field" and "the request lacks it".
    there: Option<u32>,
    absent: Option<u32>,
    values: Globs,
}

impl Fields {
    /// The number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// For each condition of a rule: its field, and the numbers of its values.
    pub fn numbers(&mut self, conditions: &[FieldFits], next: Next<'_>) -> Vec<(u32, Vec<u32>)> {
        let mut seen: HashMap<&str, usize> = HashMap::new();
        let mut all = Vec::with_capacity(conditions.len());
        for FieldFits { name, how } in conditions {
            let nth = seen.entry(name).or_default();
            let known = self.by_name.entry(name.clone()).or_default();
            if *nth == known.len() {
                known.push(self.fields.len() as u32);
                self.fields.push(Field {
                    name: name.clone(),
                    ..Field::default()
                });
            }
            let at = known[*nth];
            *nth += 1;
            all.push((at, self.fields[at as usize].numbers(how, next)));
        }
        all
    }

    /// Must be called once all values are numbered.
    pub fn finish(&mut self) {
        for field in &mut self.fields {
            field.values.finish();
        }
    }

    /// The values of field `at` that match a request.
    pub fn of(&self, at: usize, fields: &dyn FieldLines) -> Found {
        let field = &self.fields[at];
        let mut found = Found::new();
        let mut look = |value: &[u8]| {
            field.values.look(value, &mut found);
            // Continue with the other lines.
            false
        };
        let is_there = fields.any(&field.name, &mut look).is_some();
        found.extend(if is_there { field.there } else { field.absent });
        // A client may send one line a thousand times.
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl Field {
    fn numbers(&mut self, how: &FieldIs, next: Next<'_>) -> Vec<u32> {
        match how {
            FieldIs::There(true) => vec![*self.there.get_or_insert_with(next)],
            FieldIs::There(false) => vec![*self.absent.get_or_insert_with(next)],
            FieldIs::One(patterns) => {
                let patterns = patterns.iter();
                patterns.map(|it| self.values.number(it, next)).collect()
            }
        }
    }
}
