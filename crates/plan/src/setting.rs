//! Numeric settings, each declared once: field in the plan, unit, default, range, and its description in the reference.
//!
//! `settings!` declares a struct of settings. The command reads values by [`Setting`], and prints the reference from it. The name
//! of a setting is its field's, with dashes and without the unit: `head_bytes_max` is `head-max`.
//!
//! Not known here: the syntax of values (`64KiB`, `5s`), and their source.

use std::time::Duration;

pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// The unit of a number, which decides its syntax.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes: `64KiB`.
    Bytes,
    /// Milliseconds: `5s`.
    Millis,
    /// A number: `42`.
    Count,
    /// 0 or 1: `false` or `true`.
    Switch,
}

/// The default of a setting and its range, both ends included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The unit.
    pub unit: Unit,
    /// The smallest value accepted.
    pub min: u64,
    /// The default.
    pub default: u64,
    /// The largest value accepted.
    pub max: u64,
}

impl Bounds {
    const fn new(unit: Unit, [min, default, max]: [u64; 3]) -> Self {
        Bounds {
            unit,
            min,
            default,
            max,
        }
    }
}

/// Bounds of a size, in bytes.
pub const fn bytes(min: u64, default: u64, max: u64) -> Bounds {
    Bounds::new(Unit::Bytes, [min, default, max])
}

/// Bounds of a time, in milliseconds.
pub const fn millis(min: u64, default: u64, max: u64) -> Bounds {
    Bounds::new(Unit::Millis, [min, default, max])
}

/// Bounds of a time, in seconds.
pub const fn seconds(min: u64, default: u64, max: u64) -> Bounds {
    millis(min * 1000, default * 1000, max * 1000)
}

/// Bounds of a count.
pub const fn count(min: u64, default: u64, max: u64) -> Bounds {
    Bounds::new(Unit::Count, [min, default, max])
}

/// Bounds of a switch.
pub const fn switch(default: bool) -> Bounds {
    Bounds::new(Unit::Switch, [0, default as u64, 1])
}

/// A numeric setting of `T`.
pub struct Setting<T> {
    /// The field of `T`.
    pub field: &'static str,
    /// Its effect, and when to change it.
    pub doc: &'static str,
    /// Its unit, default and range.
    pub bounds: Bounds,
    /// The default in words, for an `Option` field that is `None` by default.
    pub default_words: Option<&'static str>,
    /// Puts a number within the bounds into the field.
    pub set: fn(&mut T, u64),
}

/// The type of a numeric setting in a plan.
pub trait Numeric: Sized {
    /// The value for a number within its bounds.
    fn of(number: u64) -> Self;

    /// The default.
    fn default_of(bounds: Bounds) -> Self {
        Self::of(bounds.default)
    }
}

macro_rules! numeric {
    ($($type:ty)*) => {$(
        impl Numeric for $type {
            fn of(number: u64) -> Self {
                Self::try_from(number).expect("the bounds of a setting fit the type of its field")
            }
        }
    )*};
}

numeric!(u8 u32 u64 usize);

impl Numeric for bool {
    fn of(number: u64) -> Self {
        number != 0
    }
}

impl Numeric for Duration {
    fn of(number: u64) -> Self {
        Duration::from_millis(number)
    }
}

impl<N: Numeric> Numeric for Option<N> {
    fn of(number: u64) -> Self {
        Some(N::of(number))
    }

    fn default_of(_: Bounds) -> Self {
        None
    }
}

/// Declares a struct whose first fields are numeric settings: `field: type = bounds`, and `=> "default in words"` if the
/// field is an `Option`. After `besides` come ordinary fields with their defaults.
macro_rules! settings {
    (
        $(#[$about:meta])*
        pub struct $name:ident {
            $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $bounds:expr $(=> $words:literal)?, )*
        }
        besides {
            $( $(#[doc = $other_doc:literal])+ $other:ident: $other_type:ty = $default:expr, )*
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
            $( $(#[doc = $other_doc])+ pub $other: $other_type, )*
        }

        impl $name {
            /// The numeric settings.
            pub const SETTINGS: &[$crate::setting::Setting<Self>] = &[
                $( $crate::setting::Setting {
                    field: stringify!($field),
                    doc: concat!($($doc),+),
                    bounds: $bounds,
                    default_words: { let _words: Option<&'static str> = None; $( let _words = Some($words); )? _words },
                    set: |it, number| it.$field = $crate::setting::Numeric::of(number),
                }, )*
            ];
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $( $field: $crate::setting::Numeric::default_of($bounds), )*
                    $( $other: $default, )*
                }
            }
        }
    };
}

pub(super) use settings;
