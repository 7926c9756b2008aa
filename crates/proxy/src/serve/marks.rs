//! The marks of a start and a stop: facts about the machine and the configuration for reports, as JSON in the text of marks.
//!
//! | mark | members |
//! |---|---|
//! | `start` | `version`, `system`, `kernel`, `cores`, `ram_bytes`, `io_engine`, `stores`: `path`, `bytes`, `direct` of each |
//! | `configuration` | `digest`, `name`, `workers`, `memory_bytes`, `capacity_bytes`, `replacement`, `watermarks` (with a policy that has them), `admission`, `cluster_bytes`, `fragment_bytes`, `object_bytes_max`, `listeners`, `connections_max` |
//! | `stop` | `up_s` |
//! | `purge` | `what` (url, prefix, tag), `soft`, `durable`, `ms` until then |
//! | `scan-end` | `store`, `records`, `ms` |
//!
//! A text too long for one mark is split into several consecutive ones. Facts that cannot be found out are left out. The two marks of a
//! start are repeated, with their time, in each newly opened file and for each listener.
//!
//! Not known here: files, listeners.

use std::sync::Arc;

use device::Device;
use profile::{Event, MarkKind};
use serde_json::{Value, json};

use base::clock::Instant;
use cache::Cache;
use plan::{Plan, Replacement};
use record::{events, kernel};

/// The bytes of the marks of a start at this microsecond: machine and configuration.
pub fn of_start(at: u64, plan: &Plan, io_engine: &str, cache: &Cache) -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, text) in [
        (
            MarkKind::Start,
            machine(io_engine, &cache.devices).to_string(),
        ),
        (
            MarkKind::Configuration,
            configuration(plan, cache).to_string(),
        ),
    ] {
        for mark in events::marks(at, kind, &text) {
            Event::Mark(mark).encode(&mut out);
        }
    }
    out
}

/// The text of a stop's mark.
pub fn stop(began: Instant) -> String {
    json!({ "up_s": began.elapsed().as_secs() }).to_string()
}

/// Removes the members that are null.
fn known(mut object: Value) -> Value {
    if let Value::Object(members) = &mut object {
        members.retain(|_, value| !value.is_null());
    }
    object
}

fn machine(io_engine: &str, devices: &[Arc<Device>]) -> Value {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").ok();
    let stores = devices.iter().map(|device| {
        json!({
            "path": device.path(),
            "bytes": device.size(),
            "direct": device.is_direct(),
        })
    });
    known(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
        "kernel": kernel.as_deref().map(str::trim),
        "cores": std::thread::available_parallelism().ok(),
        "ram_bytes": kernel::ram_bytes(),
        "io_engine": io_engine,
        "stores": stores.collect::<Vec<_>>(),
    }))
}

fn configuration(plan: &Plan, cache: &Cache) -> Value {
    let storing = &plan.storing;
    let has_store = cache.has_disk;
    let capacity: u64 = cache.devices.iter().map(|device| device.size()).sum();
    let watermarks = match storing.replacement {
        Replacement::Ordered(_) => Some(format!(
            "{}/{} %",
            storing.watermarks.low_percent, storing.watermarks.high_percent
        )),
        Replacement::SecondChance { .. } | Replacement::Reinsertion { .. } => None,
    };
    let of_store = |value: Value| match has_store {
        true => value,
        false => Value::Null,
    };
    known(json!({
        "digest": digest(plan),
        "name": plan.name,
        "workers": plan.workers,
        "memory_bytes": plan.memory_bytes,
        "capacity_bytes": capacity,
        "replacement": of_store(json!(storing.replacement.to_string())),
        "watermarks": of_store(json!(watermarks)),
        "admission": of_store(json!(storing.admission.to_string())),
        "cluster_bytes": of_store(json!(storing.cluster_bytes)),
        "fragment_bytes": of_store(json!(storing.fragment_bytes)),
        "object_bytes_max": plan.limits.object_bytes_max,
        "connections_max": plan.limits.connections_max,
        "listeners": plan.listeners.len(),
    }))
}

/// A hash that tells two configurations of one version apart.
fn digest(plan: &Plan) -> String {
    let text = format!("{plan:?}");
    format!("{:016x}", twox_hash::XxHash3_64::oneshot(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_left_out() {
        let object = known(json!({ "a": null, "b": 0, "c": "" }));
        assert_eq!(object, json!({ "b": 0, "c": "" }));
    }

    #[test]
    fn a_digest_tells_configurations_apart() {
        let plan = Plan::with_listeners(Vec::new());
        let mut other = plan.clone();
        other.cache.heuristic_percent += 1;
        assert_eq!(digest(&plan), digest(&plan.clone()));
        assert_ne!(digest(&plan), digest(&other));
    }
}
