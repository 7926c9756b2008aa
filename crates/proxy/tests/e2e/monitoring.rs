//! The alert rules and the dashboard in `deploy/monitoring` ask for metrics that the proxy has.

use std::collections::BTreeSet;

use ::proxy::plan::{Listener, Plan, Role, Route, Server, Upstream, What};

use super::{
    harness::{
        running::*,
        tls::{Authority, listener_tls},
        *,
    },
    limits::hourly,
};

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
    let authority = Authority::new();
    // What is told only of those that are there: servers behind a name, a limit, a certificate.
    let mut other = Listener::reverse(local(), Vec::new(), url(local()));
    other.role = Role::Reverse(vec![Route::everything_to_upstream("app", "")]);
    other.tls = Some(listener_tls(&[&authority.sign("a", &["a.example"])]));
    other.quotas = vec!["q".to_owned()];
    let mut plan = Plan::with_listeners(vec![listener, other]);
    plan.upstreams = vec![Upstream {
        name: "app".to_owned(),
        servers: vec![Server::at(url(local()))],
        ..Upstream::default()
    }];
    plan.quotas = vec![hourly(What::Misses, 1)];
    let proxy = Proxy::start(with_admin(disk.under(plan)));
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
