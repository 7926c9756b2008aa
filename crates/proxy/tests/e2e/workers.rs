//! Several workers: connections are spread over them, and an address belongs to one proxy.

use proxy::ServeError;

use crate::harness::{FRESH, Origin, Proxy, ok, plan_for, running::with_admin};

/// Connections open on each worker, as `/status` says.
fn open(proxy: &Proxy) -> Vec<u64> {
    let answer = proxy.admin("GET", "/status");
    let status: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    let workers = status["workers"].as_array().unwrap();
    let of = |worker: &serde_json::Value| worker["connections_open"].as_u64().unwrap();
    workers.iter().map(of).collect()
}

#[test]
fn connections_are_spread_evenly_and_all_of_them_are_served() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    let mut plan = with_admin(plan_for(&origin));
    plan.workers = 3;
    let proxy = Proxy::start(plan);
    let mut clients = Vec::new();
    for count in 1..=21u64 {
        let mut client = proxy.client();
        assert_eq!(client.get("/a").text(), "hello");
        clients.push(client);
        let open = open(&proxy);
        let (least, most) = (open.iter().min().unwrap(), open.iter().max().unwrap());
        assert_eq!(open.iter().sum::<u64>(), count);
        assert!(most - least <= 1, "{open:?}");
    }
    for mut client in clients {
        assert_eq!(client.get("/a").text(), "hello");
    }
}

#[test]
fn a_second_proxy_does_not_get_the_address() {
    let origin = Origin::sending(ok(&[FRESH], "hello"));
    for workers in [1, 2] {
        let mut plan = plan_for(&origin);
        plan.workers = workers;
        let proxy = Proxy::start(plan.clone());
        plan.listeners[0].address = proxy.address();
        let second = proxy::start(plan, |_, stopper| stopper.stop());
        assert!(
            matches!(second, Err(ServeError::Listen { .. })),
            "{second:?}"
        );
        assert_eq!(proxy.get("/a").text(), "hello");
    }
}
