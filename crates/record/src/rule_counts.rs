//! Counts of the decisions of the operator's rules, by rule, and of requests by tag.
//!
//! A rule is identified by its name, or else by its number. A label keeps its count as long as the process lives, so that counts never fall
//! when the configuration changes. Workers share the counts, since few requests are counted here.
//!
//! Limits: [`LABELS_MAX`] labels; later ones are counted as `other`.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use serde::Serialize;

use plan::{Rule, Verdict};
use rules::rulebook::{Tag, tags_of};

/// The most labels, including those of earlier configurations.
const LABELS_MAX: usize = 1024;
/// The name for rules and tags without a label of their own.
const OTHER: &str = "other";
/// The decision of counts of a tag.
const TAGGED: &str = "tagged";

/// All counts since the start.
#[derive(Debug, Default)]
pub struct KnownRules(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    rows: Vec<Row>,
    /// The index of each row.
    by_label: HashMap<(&'static str, String), usize>,
}

#[derive(Debug)]
struct Row {
    what: &'static str,
    name: String,
    count: Arc<AtomicU64>,
}

/// The counts of the rules of a configuration.
#[derive(Debug, Default)]
pub struct RuleCounts {
    /// By rule.
    decided: Vec<Option<Arc<AtomicU64>>>,
    /// By tag.
    tagged: Vec<Arc<AtomicU64>>,
}

/// One count.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct RuleCount {
    /// `denied`, `answered`, `redirected`; for a tag `tagged`.
    pub decision: &'static str,
    /// The rule's name or number, or the tag.
    pub name: String,
    /// How many requests.
    pub requests: u64,
}

impl RuleCount {
    /// Is it the count of a tag?
    pub fn is_of_a_tag(&self) -> bool {
        self.decision == TAGGED
    }
}

impl KnownRules {
    /// The counts for these rules.
    pub fn counts(&self, rules: &[Rule]) -> RuleCounts {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let decided = rules.iter().enumerate().map(|(at, rule)| {
            let what = decision(rule.then.verdict.as_ref()?)?;
            Some(row(&mut known, what, &rule.told(at)))
        });
        let decided = decided.collect();
        let tags = tags_of(rules);
        let tagged = tags
            .iter()
            .map(|tag| row(&mut known, TAGGED, tag))
            .collect();
        RuleCounts { decided, tagged }
    }

    /// All counts: of rules, then of tags.
    pub fn all(&self) -> Vec<RuleCount> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |row: &Row| RuleCount {
            decision: row.what,
            name: row.name.clone(),
            requests: row.count.load(Ordering::Relaxed),
        };
        let mut all: Vec<_> = known.rows.iter().map(count).collect();
        all.sort_by_key(RuleCount::is_of_a_tag);
        all
    }
}

fn decision(verdict: &Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Allow => None,
        Verdict::Deny { .. } => Some("denied"),
        Verdict::Answer(_) => Some("answered"),
        Verdict::Redirect { .. } => Some("redirected"),
    }
}

fn row(known: &mut Known, what: &'static str, name: &str) -> Arc<AtomicU64> {
    let find = |known: &Known, name: &str| {
        let at = known.by_label.get(&(what, name.to_owned()))?;
        Some(Arc::clone(&known.rows[*at].count))
    };
    if let Some(count) = find(known, name) {
        return count;
    }
    // Four rows are reserved, one for each kind of `other`.
    let name = match known.rows.len() < LABELS_MAX - 4 {
        true => name,
        false => OTHER,
    };
    find(known, name).unwrap_or_else(|| {
        let count = Arc::default();
        let label = (what, name.to_owned());
        known.by_label.insert(label, known.rows.len());
        known.rows.push(Row {
            what,
            name: name.to_owned(),
            count: Arc::clone(&count),
        });
        count
    })
}

impl RuleCounts {
    /// Counts a decision of the rule with this number.
    pub fn decided(&self, rule: usize) {
        if let Some(Some(count)) = self.decided.get(rule) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a finished request with this tag.
    pub fn tagged(&self, tag: Tag) {
        if let Some(count) = self.tagged.get(tag.0 as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::Then;

    fn rule(name: Option<&str>, verdict: Option<Verdict>, tag: Option<&str>) -> Rule {
        Rule {
            name: name.map(str::to_owned),
            then: Then {
                verdict,
                tag: tag.map(str::to_owned),
                ..Then::default()
            },
            ..Rule::default()
        }
    }

    #[test]
    fn counts_stay_with_their_names() {
        let known = KnownRules::default();
        let deny = || Some(Verdict::Deny { words: None });
        let first = known.counts(&[
            rule(None, deny(), Some("a")),
            rule(Some("ads"), deny(), Some("a")),
            rule(None, Some(Verdict::Allow), Some("b")),
        ]);
        first.decided(0);
        first.decided(1);
        first.decided(2);
        first.tagged(Tag(1));
        let second = known.counts(&[rule(Some("ads"), deny(), Some("b"))]);
        second.decided(0);
        second.tagged(Tag(0));
        let all: Vec<_> = known
            .all()
            .into_iter()
            .map(|it| (it.decision, it.name, it.requests))
            .collect();
        assert_eq!(
            all,
            [
                ("denied", "rule 1".to_owned(), 1),
                ("denied", "ads".to_owned(), 2),
                ("tagged", "a".to_owned(), 0),
                ("tagged", "b".to_owned(), 2),
            ]
        );
        for n in 0..3000 {
            let name = format!("n{n}");
            known
                .counts(&[rule(Some(&name), deny(), Some(&name))])
                .decided(0);
        }
        let all = known.all();
        assert!(all.len() <= LABELS_MAX);
        let sum: u64 = all
            .iter()
            .filter(|it| !it.is_of_a_tag())
            .map(|it| it.requests)
            .sum();
        assert_eq!(sum, 3003);
    }
}
