//! The stores at a start: looked at before clients can connect, opened after everything else is prepared.
//!
//! Not known here: how a store is opened (`cache::opening`), the other steps of a start.

use std::sync::Arc;

use device::Device;

use super::error::ServeError;
use crate::upgrade::predecessor::Predecessor;
use cache::opening::{self, Absent, Candidates, Opened};
use cluster::purges;
use plan::Plan;

/// The stores of a start.
pub(super) struct Stores {
    /// The open stores.
    pub opened: Option<Opened>,
    /// The stores that could not be opened.
    pub absent: Vec<Absent>,
    /// The devices of the previous process, until it hands them over.
    pub passed: Vec<Arc<Device>>,
    /// The journal of the cluster's purges.
    pub purges: Option<purges::Opened>,
}

/// Looks at the stores of a plan. `None`: the previous process has them, and this plan can take them over.
pub(super) fn look(
    plan: &Plan,
    devices: Option<Vec<Arc<Device>>>,
    from: Option<&Predecessor>,
) -> Result<Option<Candidates>, ServeError> {
    match from {
        Some(from) => from
            .check(plan)
            .map_err(ServeError::TakeOver)
            .map(|()| None),
        None => Ok(Some(opening::look(plan, devices)?)),
    }
}

impl Stores {
    /// Opens the stores. Those of the previous process are not marked as in use yet.
    pub fn open(
        plan: &Plan,
        candidates: Option<Candidates>,
        from: Option<&mut Predecessor>,
    ) -> Result<Stores, ServeError> {
        let are_passed_on = from.is_some();
        let mut passed = Vec::new();
        let candidates = match (candidates, from) {
            (Some(candidates), _) => candidates,
            (None, Some(from)) => {
                passed = from.freeze().map_err(ServeError::TakeOver)?;
                opening::look_at_passed(plan, &passed)?
            }
            (None, None) => opening::look(plan, None)?,
        };
        let purges = plan.cluster.as_ref().map(purges::Opened::open);
        let purges = purges.transpose().map_err(ServeError::Purges)?;
        let candidates = match purges.as_ref().is_some_and(purges::Opened::is_fresh) {
            true => candidates.start_empty("there is no journal of the cluster's purges"),
            false => candidates,
        };
        let (opened, absent) = match are_passed_on {
            true => candidates.open_unmarked(plan)?,
            false => candidates.open(plan)?,
        };
        Ok(Stores {
            opened,
            absent,
            passed,
            purges,
        })
    }

    /// A description of each store: path, size, what was found.
    pub fn describe(&self) -> Vec<String> {
        self.opened.as_ref().map(describe).unwrap_or_default()
    }
}

fn describe(opened: &Opened) -> Vec<String> {
    let words = |(device, found): (Arc<Device>, &String)| {
        let path = device.path().display();
        let mib = device.size() >> 20;
        let how = if device.is_direct() {
            "direct"
        } else {
            "buffered"
        };
        format!("{path} ({mib} MiB, {how}): {found}")
    };
    opened.devices().zip(&opened.found).map(words).collect()
}
