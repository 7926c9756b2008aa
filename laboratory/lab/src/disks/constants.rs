//! The constants of the models: each with its value, as the code has it, and its source.
//!
//! Not known here: what the models make of them.

use super::{drive, flash, free_space, machine, ufs};

/// How far a constant can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The paper states it.
    Paper,
    /// A table of the paper, or a benchmark of the time, has the number.
    Measured,
    /// The published source of OpenSolaris has it.
    Source,
    /// Common knowledge of that hardware, written down without a document at hand.
    Known,
    /// No source; assumed.
    Assumed,
}

impl Trust {
    /// The word for reports.
    pub fn word(self) -> &'static str {
        match self {
            Trust::Paper => "paper",
            Trust::Measured => "measured",
            Trust::Source => "source",
            Trust::Known => "known",
            Trust::Assumed => "assumed",
        }
    }
}

/// A constant of a model, or several that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    /// Its name in the code, or what it describes.
    pub name: &'static str,
    /// The value with its unit.
    pub value: String,
    /// How far the value can be trusted.
    pub trust: Trust,
    /// The source.
    pub from: &'static str,
}

impl Constant {
    pub(super) fn new(
        name: &'static str,
        value: impl Into<String>,
        trust: Trust,
        from: &'static str,
    ) -> Constant {
        Constant {
            name,
            value: value.into(),
            trust,
            from,
        }
    }
}

/// The constants of the disk of 1999, with its machine and file system.
pub fn of_1999() -> Vec<Constant> {
    [
        drive::constants(),
        free_space::constants(),
        ufs::constants(),
        machine::constants(),
    ]
    .concat()
}

/// The constants of the flash device.
pub fn of_flash() -> Vec<Constant> {
    flash::constants()
}
