//! The stored results: docs/papers.toml, compiled into this program.
//!
//! Not known here: how they are shown.

use jiff::civil::Date;
use serde::Deserialize;

const STORED: &str = include_str!("../../../../docs/papers.toml");

/// The numbers of the papers.
pub const NUMBERS: [&str; 5] = ["000", "001", "002", "003", "004"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    paper: Vec<Paper>,
}

/// A paper and its claims.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// One of [`NUMBERS`].
    pub number: String,
    /// The title, in a word or two.
    pub title: String,
    /// The claims, in the order of the page.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A claim, its figures, and the verdict. Texts are Markdown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The claim, a sentence with its unit.
    pub claim: String,
    /// The figure printed in the paper.
    pub printed: String,
    model: Option<String>,
    machine: Option<String>,
    ours: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// The commands that measure the figures again: links to pages beside docs/papers.md.
    pub command: String,
    #[serde(default)]
    measured: Measured,
}

/// Whether a claim holds here.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// True here, with its figure.
    #[serde(rename = "holds")]
    Holds,
    /// True, with another figure.
    #[serde(rename = "holds in direction")]
    HoldsInDirection,
    /// The opposite is true, or there is no effect.
    #[serde(rename = "does not hold")]
    DoesNotHold,
    /// Nothing measures it, or the workload decides it.
    #[serde(rename = "cannot be told")]
    CannotBeTold,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Measured {
    model: Option<When>,
    machine: Option<When>,
    ours: Option<When>,
}

/// When a figure was measured; of several dates, the oldest.
#[derive(Deserialize, Clone, PartialEq, Eq, Debug)]
#[serde(try_from = "String")]
pub struct When {
    /// The day.
    pub on: Date,
    /// The commit that added the figure, whose date is used; `None`: the page of the command has the date.
    pub commit: Option<String>,
}

impl TryFrom<String> for When {
    type Error = String;

    fn try_from(text: String) -> Result<When, String> {
        let (day, commit) = match text.split_once(", commit ") {
            Some((day, commit)) => (day, Some(commit.to_owned())),
            None => (text.as_str(), None),
        };
        let on = day.parse().map_err(|e| format!("{text}: {e}"))?;
        Ok(When { on, commit })
    }
}

impl When {
    /// Whole days from the measurement to `today`.
    pub fn age_days(&self, today: Date) -> i32 {
        (today - self.on).get_days()
    }
}

/// A figure measured with Loligo's tools.
pub struct Figure<'a> {
    /// Its kind, in JSON.
    pub key: &'static str,
    /// Its kind, in words.
    pub of: &'static str,
    /// `None`: not measured.
    pub text: Option<&'a str>,
    /// `None`: the text is not a measured figure.
    pub when: Option<&'a When>,
}

fn figure<'a>(
    [key, of]: [&'static str; 2],
    text: &'a Option<String>,
    when: &'a Option<When>,
) -> Figure<'a> {
    Figure {
        key,
        of,
        text: text.as_deref(),
        when: when.as_ref(),
    }
}

impl Claim {
    /// All three figures, measured or not.
    pub fn figures(&self) -> [Figure<'_>; 3] {
        let when = &self.measured;
        [
            figure(["model", "model of 1999"], &self.model, &when.model),
            figure(["machine", "this machine"], &self.machine, &when.machine),
            figure(["ours", "running program"], &self.ours, &when.ours),
        ]
    }

    /// When its figures were measured, the oldest first.
    pub fn days(&self) -> Vec<&When> {
        let figures = [
            &self.measured.model,
            &self.measured.machine,
            &self.measured.ours,
        ];
        let mut days: Vec<&When> = figures.into_iter().flatten().collect();
        days.sort_by_key(|when| when.on);
        days
    }
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Verdict; 4] = [
        Verdict::Holds,
        Verdict::HoldsInDirection,
        Verdict::DoesNotHold,
        Verdict::CannotBeTold,
    ];

    /// The name in the stored results.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::HoldsInDirection => "holds in direction",
            Verdict::DoesNotHold => "does not hold",
            Verdict::CannotBeTold => "cannot be told",
        }
    }
}

/// All stored results.
pub fn stored() -> Vec<Paper> {
    let stored: Stored = toml::from_str(STORED).expect("docs/papers.toml is checked by a test");
    stored.paper
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_day_and_every_day_a_figure() {
        let papers = stored();
        let numbers: Vec<&str> = papers.iter().map(|paper| paper.number.as_str()).collect();
        assert_eq!(numbers, NUMBERS);
        for claim in papers.iter().flat_map(|paper| &paper.claims) {
            for figure in claim.figures() {
                let text = figure.text.unwrap_or("not measured");
                let is_figure = !NO_FIGURES.iter().any(|words| text.starts_with(words));
                assert_eq!(
                    is_figure,
                    figure.when.is_some(),
                    "{}: {}: {text}",
                    claim.claim,
                    figure.of
                );
            }
            let nothing = claim.days().is_empty();
            assert!(
                !nothing || claim.verdict == Verdict::CannotBeTold,
                "{}",
                claim.claim
            );
        }
    }

    /// Texts that may stand in place of a figure.
    const NO_FIGURES: [&str; 3] = ["not measured", "no file is made", "the same code"];

    #[test]
    fn a_day_is_a_day_with_or_without_a_commit() {
        let read = |text: &str| When::try_from(text.to_owned());
        let with = read("2026-11-22, commit 2fde86ca").unwrap();
        assert_eq!(with.commit.as_deref(), Some("2fde86ca"));
        assert_eq!(with.age_days(jiff::civil::date(2026, 12, 1)), 9);
        assert_eq!(read("2026-11-22").unwrap().commit, None);
        for wrong in ["", "2026-11-31", "2026-11-22 commit 1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
