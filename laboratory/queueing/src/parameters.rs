//! Named numbers with bounds, which a user may set, and the sources of their defaults.
//!
//! [`parameters!`] makes a struct of `f64` fields and its table. Help texts, documentation and checks are made from that table, so they
//! always agree with the struct.
//!
//! Not known here: what the numbers mean.

/// A number that a user may set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parameter {
    /// The name: words and hyphens, the unit last.
    pub name: &'static str,
    /// The smallest accepted value.
    pub low: f64,
    /// The largest accepted value.
    pub high: f64,
    /// The value if the user sets none.
    pub default: f64,
    /// A description.
    pub what: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

impl Parameter {
    /// Checks that `value` is within bounds; returns an error message if not.
    pub fn check(&self, value: f64) -> Result<(), String> {
        if (self.low..=self.high).contains(&value) {
            return Ok(());
        }
        Err(format!(
            "{} is from {} to {}, not {value}",
            self.name, self.low, self.high
        ))
    }
}

/// Makes a struct of numbers, its defaults, and its table.
macro_rules! parameters {
    ($(#[$doc:meta])* $name:ident { $($field:ident = $text:literal, $low:literal ..= $high:literal, $default:literal, $what:literal, $source:literal;)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name {
            $(#[doc = $what] pub $field: f64,)*
        }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $default,)* }
            }
        }

        impl $name {
            /// The numbers that can be set, with bounds and the sources of the defaults.
            pub const TABLE: &[$crate::parameters::Parameter] = &[
                $($crate::parameters::Parameter {
                    name: $text,
                    low: $low,
                    high: $high,
                    default: $default,
                    what: $what,
                    source: $source,
                },)*
            ];

            /// Sets the number called `name`. Returns an error message if there is none, or if the value is out of bounds.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), String> {
                let Some(parameter) = Self::TABLE.iter().find(|p| p.name == name) else {
                    let names: Vec<&str> = Self::TABLE.iter().map(|p| p.name).collect();
                    return Err(format!("there is no {name}; there are {}", names.join(", ")));
                };
                parameter.check(value)?;
                match name {
                    $($text => self.$field = value,)*
                    _ => {}
                }
                Ok(())
            }

            /// The numbers in the order of the table.
            pub fn values(&self) -> Vec<f64> {
                vec![$(self.$field,)*]
            }
        }
    };
}
pub(crate) use parameters;

#[cfg(test)]
mod tests {
    parameters! {
        /// Two numbers.
        Two {
            first_us = "first-us", 0.0..=10.0, 1.0, "the first", "nowhere";
            second = "second", 1.0..=2.0, 2.0, "the second", "nowhere";
        }
    }

    #[test]
    fn what_is_set_is_named_and_within_bounds() {
        let mut two = Two::default();
        two.set("first-us", 10.0).unwrap();
        assert_eq!(two.values(), [10.0, 2.0]);
        assert_eq!(
            two.set("first-us", 11.0),
            Err("first-us is from 0 to 10, not 11".to_owned())
        );
        assert!(two.set("first-us", f64::NAN).is_err());
        assert!(
            two.set("third", 1.0)
                .unwrap_err()
                .contains("first-us, second")
        );
        assert_eq!((two.first_us, two.second), (10.0, 2.0));
    }
}
