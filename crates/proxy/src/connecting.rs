//! Settings of connections to origins, from a plan.

use exchange::edition::Edition;
use origin::{Connector, Settings};
use plan::Plan;

/// A connector with the settings of this edition.
pub fn connector(edition: &Edition) -> Connector {
    Connector::new(connector_settings(&edition.plan), edition.tls.all.clone())
}

/// The settings of a connector for this plan.
pub fn connector_settings(plan: &Plan) -> Settings {
    Settings {
        connect_timeout: plan.timeouts.connect,
        dns: origin::DnsSettings {
            servers: plan.dns.servers.clone(),
            timeout: plan.dns.timeout,
            attempts: plan.dns.attempts,
            ttl_min: plan.dns.ttl_min,
            ttl_max: plan.dns.ttl_max,
            negative_ttl_max: plan.dns.negative_ttl_max,
            names_max: plan.dns.names_max,
        },
        pool: origin::Limits {
            per_destination_max: plan.pool.per_origin_max,
            idle_per_destination_max: plan.pool.idle_per_origin_max,
            idle_max: plan.pool.idle_max,
            // A waiting request costs no more than its connection, and the number of clients bounds it: an origin that stalls for a tenth of a
            // second makes thousands wait.
            waiting_per_destination_max: plan.limits.connections_max.max(1),
            idle_timeout: plan.timeouts.pool_idle,
            max_age: plan.pool.max_age,
        },
        failure_ttl: plan.cache.unreachable_ttl,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_may_wait_for_an_origin_as_there_may_be_clients() {
        let mut plan = Plan::with_listeners(Vec::new());
        plan.limits.connections_max = 5000;
        plan.limits.waiters_max = 3;
        let pool = connector_settings(&plan).pool;
        assert_eq!(pool.waiting_per_destination_max, 5000);
        assert_eq!(pool.per_destination_max, plan.pool.per_origin_max);
        assert_eq!(pool.idle_per_destination_max, plan.pool.per_origin_max);
    }
}
