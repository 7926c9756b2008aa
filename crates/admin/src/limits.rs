//! What the limits (`[[limit]]`) have come to, for `/status` and `/metrics`.

use std::{fmt, sync::atomic::Ordering};

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge};
use serde::Serialize;

use quota::{Quota, Quotas};

/// A limit and its counts.
#[derive(Clone, Debug, Serialize)]
pub struct LimitFacts {
    name: String,
    what: &'static str,
    passed: u64,
    delayed: u64,
    refused: u64,
    keys: u64,
    keys_max: u64,
    keys_shared: u64,
}

impl LimitFacts {
    fn of(quota: &Quota) -> LimitFacts {
        let counts = &quota.counts;
        LimitFacts {
            name: quota.plan.name.clone(),
            what: quota.plan.what.name(),
            passed: counts.passed.load(Ordering::Relaxed),
            delayed: counts.delayed.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
            keys: quota.keys() as u64,
            keys_max: quota.plan.keys.keys_max as u64,
            keys_shared: counts.shared.load(Ordering::Relaxed),
        }
    }

    /// All of a configuration.
    pub fn all(quotas: &Quotas) -> Vec<LimitFacts> {
        quotas.iter().map(|quota| LimitFacts::of(quota)).collect()
    }
}

type Figure = (&'static str, &'static str, fn(&LimitFacts) -> u64);

const COUNTERS: [Figure; 4] = [
    (
        "limit_passed",
        "Requests (or connections) within a limit, by its name",
        |limit| limit.passed,
    ),
    (
        "limit_delayed",
        "Requests that waited for their turn at a limit",
        |limit| limit.delayed,
    ),
    (
        "limit_refused",
        "Requests beyond a limit: answered 429 or from what is stale, not refreshed behind a client, or connections closed",
        |limit| limit.refused,
    ),
    (
        "limit_keys_shared",
        "Look-ups at a limit for clients or hosts that shared a count, because keys-max of them were busy",
        |limit| limit.keys_shared,
    ),
];

const KEYS: &str =
    "Clients, hosts or listeners that a limit counts apart now, some idle ones among them";

/// Writes their metrics.
pub fn encode(limits: &[LimitFacts], encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    if limits.is_empty() {
        return Ok(());
    }
    for (name, help, of) in COUNTERS {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for limit in limits {
            let labels = [("limit", &limit.name[..])];
            ConstCounter::new(of(limit)).encode(family.encode_family(&labels)?)?;
        }
    }
    let mut family = encoder.encode_descriptor("limit_keys", KEYS, None, MetricType::Gauge)?;
    for limit in limits {
        let labels = [("limit", &limit.name[..])];
        ConstGauge::new(limit.keys).encode(family.encode_family(&labels)?)?;
    }
    Ok(())
}
