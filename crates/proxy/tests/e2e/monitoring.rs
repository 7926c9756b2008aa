//! The alert rules and the dashboard in `deploy/monitoring` ask for metrics that the proxy has.

use std::collections::BTreeSet;

use ::proxy::plan::{Listener, Plan};

use super::harness::{running::*, *};

/// The metrics that a member of a cluster has besides.
const OF_CLUSTERS: &str = "loligo_cluster_";

/// Every name of a metric in a text.
fn names(text: &str) -> BTreeSet<&str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("loligo_") || word.starts_with("process_"))
        .collect()
}

#[test]
fn alerts_and_dashboard_ask_for_metrics_that_are_there() {
    let disk = Disk::of_mib(16);
    let listener = Listener::forward(local(), Vec::new());
    let plan = with_admin(disk.under(Plan::with_listeners(vec![listener])));
    let proxy = Proxy::start(plan);
    let origin = Origin::start(|exchange| exchange.send(ok(&[FRESH], b"x")));
    let host = format!("Host: {}", origin.address);
    let url = format!("http://{}/", origin.address);
    assert_eq!(proxy.ask("GET", &url, &[&host]).status, 200);

    // Some lines come with the first request that they count.
    for name in [
        include_str!("../../../../deploy/monitoring/alerts.yaml"),
        include_str!("../../../../deploy/monitoring/grafana.json"),
    ]
    .into_iter()
    .flat_map(names)
    .filter(|name| !name.starts_with(OF_CLUSTERS))
    {
        eventually(name, || {
            let answer = proxy.admin("GET", "/metrics");
            names(answer.text()).contains(name).then_some(())
        });
    }
}
