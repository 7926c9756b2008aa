//! From the settings a person wrote to the plan of the proxy: [`Raw`] and [`Machine`] in, `Plan` out, or all problems.
//!
//! Each setting is read by its row (`rows`, `values`) into a draft. Then settings are checked together, and defaults for the machine filled in:
//!
//! | file | settings of |
//! |---|---|
//! | `general` | the whole |
//! | `listeners` | `[[listener]]` and `[[listener.route]]` |
//! | `acme` | the certificate that is ordered |
//! | `origin_tls` | `[tls]`, and `tls` of routes, upstreams and parents |
//! | `origin_http2` | `http2` of routes and upstreams |
//! | `signing` | `sign` of routes and upstreams |
//! | `encryption` | `[[listener.certificate]]`, TLS of listeners |
//! | `mirrors`, `presets` | mirroring by a route; presets of mirrors |
//! | `stores` | `[[store]]` |
//! | `rules`, `conditions`, `verdicts`, `shadowed` | `[[rule]]` |
//! | `quotas` | `[[limit]]` |
//! | `peers` | `[[parent]]`, `[[sibling]]` |
//! | `upstreams` | `[[upstream]]`, and the origins of routes |
//! | `cluster` | `[cluster]`, `[[cluster.member]]` |
//! | `user` | the user and group of the process |
//! | `addresses` | addresses that are already in use, for `loligo check` alone |
//! | `surroundings` | checks that the machine has what the plan needs |
//!
//! `rows` says how a setting is described and kept, `apply` reads by that what was given. `foreign` knows configurations of other programs, `retired` settings that went, `experimental` those that only experiments need, `oddities` what is good but hardly meant; `explain` is `loligo check`, `reference` is `loligo settings`.

mod acme;
pub mod addresses;
mod apply;
pub mod cluster;
mod conditions;
#[cfg(test)]
mod deployed;
#[cfg(test)]
mod documented;
pub mod encryption;
mod experimental;
pub mod explain;
pub mod file;
mod foreign;
pub mod general;
pub mod listeners;
pub mod machine;
mod mirrors;
#[cfg(test)]
mod mistakes;
mod oddities;
mod origin_http2;
mod origin_tls;
mod ours;
mod peers;
pub mod presets;
pub mod problem;
mod quotas;
pub mod raw;
pub mod reference;
mod retired;
pub mod rows;
mod rules;
mod servers;
mod shadowed;
mod signing;
pub mod stores;
mod surroundings;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod upstreams;
mod user;
mod values;
mod verdicts;

use proxy::plan::Plan;

use general::Draft;
use machine::{Machine, OnDisk};
use problem::{Found, Problem};
use raw::{Block, Raw};

/// A checked configuration.
#[derive(Clone, PartialEq, Debug)]
pub struct Settled {
    /// The plan of the proxy.
    pub plan: Plan,
    /// The filter for log lines on standard error.
    pub log_level: String,
    /// The file or device found at the path of each store.
    pub stores_on_disk: Vec<OnDisk>,
    /// Things that are allowed but may surprise.
    pub notes: Vec<String>,
    /// Defaults that were lowered to fit this machine; they are not warnings, because the user set nothing higher.
    pub fitted: Vec<String>,
    /// The time zone for the hours in rules, if a rule has hours that are not in UTC.
    pub time_zone: Option<String>,
}

/// Checks everything.
pub fn into_plan(raw: &Raw, machine: &Machine) -> Result<Settled, Vec<Problem>> {
    let mut found = Found {
        problems: raw.problems.clone(),
        notes: raw.notes.iter().map(Problem::to_string).collect(),
        fitted: Vec::new(),
    };
    let raw = &presets::expand(raw, &mut found.problems);
    let (of_all, blocks) = stores::split(raw, &mut found.problems);
    let whole = Block {
        given: [of_all, raw.whole.given.clone()].concat(),
        ..Block::default()
    };
    let draft = draft_of(&whole, &mut found.problems);
    let upstreams = upstreams::settle(&raw.upstreams, &draft.plan.tls, &mut found.problems);
    let mut listeners = listeners::settle(
        (&raw.listeners, &upstreams),
        &draft,
        &whole,
        &mut found.problems,
    );
    upstreams::check(&raw.upstreams, &upstreams, &listeners, &draft, &mut found);
    let (stores, stores_on_disk) = stores::settle(&blocks, machine, &mut found);
    oddities::note(raw, &listeners, &mut found.notes);
    let rules = rules::settle(&raw.rules, &listeners, &mut found);
    let time_zone = rules::time_zone(&raw.rules, &rules, machine, &mut found.problems);
    let quotas = quotas::settle(
        &raw.quotas,
        (&raw.listeners, &listeners),
        (&raw.rules, &rules),
        &mut found,
    );
    let blocks_of_peers = [&raw.parents[..], &raw.siblings];
    let problems = &mut found.problems;
    let (parents, siblings) = peers::settle(blocks_of_peers, &listeners, &draft, problems);
    let cluster = cluster::settle(raw, &draft, &stores, machine, problems);
    surroundings::look(&draft, &whole, machine, &mut found);
    origin_tls::look(raw, &whole, machine, &mut found);
    signing::look(raw, machine, &mut found);
    let log_level = draft.log_level.clone();
    let own_logs = listeners::logs(&raw.listeners, &draft);
    surroundings::look_at_logs(&own_logs, &raw.listeners, machine, &mut found);
    let mut general = general::settle(draft, &whole, &stores, machine, &mut found);
    general.logs.of_listeners = own_logs;
    acme::give(
        &general.acme,
        &mut listeners,
        &raw.listeners,
        &whole,
        &mut found.problems,
    );
    encryption::look(&listeners, &raw.listeners, machine, &mut found);
    if !found.problems.is_empty() {
        found.problems.sort_by_key(Problem::line);
        found.problems.dedup();
        return Err(found.problems);
    }
    let plan = Plan {
        listeners,
        stores,
        rules,
        quotas,
        upstreams,
        parents,
        siblings,
        cluster,
        ..general
    };
    found.notes.extend(origin_tls::unverified(&plan));
    found.notes.extend(signing::in_plain(&plan));
    Ok(Settled {
        plan,
        log_level,
        stores_on_disk,
        notes: found.notes,
        fitted: found.fitted,
        time_zone,
    })
}

/// The settings outside blocks, as written.
fn draft_of(whole: &Block, problems: &mut Vec<Problem>) -> Draft {
    let mut draft = Draft::default();
    apply::apply(&general::rows(), &whole.given, &mut draft, problems);
    let shown = (draft.certificate.take(), draft.certificate_key.take());
    origin_tls::settle_all(&mut draft.plan.tls, shown, whole, problems);
    draft
}
