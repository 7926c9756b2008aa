//! Finds the differences between two configurations that need a restart.
//!
//! All other differences can be reloaded. The list is the table of `docs/operations.md`; a new part of [`Plan`] must be added to
//! [`PARTS`] or to `live_parts` of the tests.
//!
//! Not known here: how a configuration is applied.

use plan::{Listener, Parent, Plan};

/// A part of the configuration that is read only at the start.
struct Part {
    /// The part's name in a configuration.
    name: &'static str,
    differs: fn(&Plan, &Plan) -> bool,
    /// Copies the part from the first plan to the second.
    keep: fn(&Plan, &mut Plan),
}

/// A part that is one field of the plan.
macro_rules! part {
    ($name:literal: $($field:ident).+) => {
        Part {
            name: $name,
            differs: |old, new| old.$($field).+ != new.$($field).+,
            keep: |old, new| new.$($field).+ = old.$($field).+.clone(),
        }
    };
}

const PARTS: &[Part] = &[
    part!("workers": workers),
    part!("user, group": user),
    part!("[[store]]": stores),
    part!("[store]": storing),
    part!("admin.top": logs.top),
    Part {
        name: "[[parent]]",
        differs: |old, new| without_tls(old) != without_tls(new),
        keep: |old, new| new.parents = old.parents.clone(),
    },
    part!("[[sibling]]": siblings),
    part!("[icp]": icp),
    part!("[digest]": digests),
    part!("[cluster]": cluster),
    Part {
        name: "admin.address",
        differs: |old, new| address_of_admin(old) != address_of_admin(new),
        keep: |old, new| match (&old.admin, &mut new.admin) {
            (Some(old), Some(new)) => new.address = old.address,
            (old, new) => *new = old.clone(),
        },
    },
    // Linked members of a cluster name listeners by their position in the list.
    Part {
        name: "[[listener]] of a member of a cluster, if one comes or goes or has another address or name",
        differs: |old, new| old.cluster.is_some() && places(old) != places(new),
        keep: |old, new| {
            new.listeners = old.listeners.clone();
            // The names of logs refer to listeners by position, too.
            new.logs.of_listeners = old.logs.of_listeners.clone();
        },
    },
];

/// The parents without TLS, which is reloaded with the edition.
fn without_tls(plan: &Plan) -> Vec<Parent> {
    let parents = plan.parents.iter().cloned();
    parents
        .map(|parent| Parent {
            tls: None,
            ..parent
        })
        .collect()
}

fn address_of_admin(plan: &Plan) -> Option<std::net::SocketAddr> {
    plan.admin.as_ref().map(|admin| admin.address)
}

fn places(plan: &Plan) -> Vec<(std::net::SocketAddr, &str)> {
    let place = |listener: &'_ Listener| listener.address;
    let listeners = plan.listeners.iter();
    listeners
        .map(|listener| (place(listener), listener.name.as_str()))
        .collect()
}

/// The names of the parts of `new` that need a restart.
pub fn wanting_a_restart(old: &Plan, new: &Plan) -> Vec<&'static str> {
    let parts = PARTS.iter().filter(|part| (part.differs)(old, new));
    parts.map(|part| part.name).collect()
}

/// `new`, with the parts that need a restart copied from `old`.
pub fn without_a_restart(old: &Plan, mut new: Plan) -> Plan {
    for part in PARTS {
        if (part.differs)(old, &new) {
            (part.keep)(old, &mut new);
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Admin, Cluster, Sibling, StorePlan, User};

    fn plan() -> Plan {
        let address = "127.0.0.1:3128".parse().unwrap();
        let mut plan = Plan::with_listeners(vec![Listener::forward(address, Vec::new())]);
        plan.admin = Some(Admin {
            address: "127.0.0.1:3129".parse().unwrap(),
            allow: Vec::new(),
        });
        plan
    }

    /// Applies a change and returns the parts that need a restart. With `--partial` none of them may be left.
    #[track_caller]
    fn wants(change: impl FnOnce(&mut Plan)) -> Vec<&'static str> {
        let (old, mut new) = (plan(), plan());
        change(&mut new);
        assert_ne!(old, new);
        let wanting = wanting_a_restart(&old, &new);
        let kept = without_a_restart(&old, new.clone());
        assert_eq!(wanting_a_restart(&old, &kept), [""; 0]);
        assert_eq!(kept == new, wanting.is_empty());
        wanting
    }

    #[test]
    fn what_is_read_at_the_start_wants_a_restart() {
        let none: [&str; 0] = [];
        assert_eq!(wanting_a_restart(&plan(), &plan()), none);
        assert_eq!(wants(|plan| plan.workers = 2), ["workers"]);
        let user = |plan: &mut Plan| {
            plan.user = Some(User {
                name: "somebody".to_owned(),
                uid: 1,
                gid: 1,
            });
        };
        assert_eq!(wants(user), ["user, group"]);
        let store = |plan: &mut Plan| plan.stores.push(StorePlan::at("/x", None));
        assert_eq!(wants(store), ["[[store]]"]);
        assert_eq!(wants(|plan| plan.storing.cluster_bytes = 1), ["[store]"]);
        assert_eq!(wants(|plan| plan.logs.top = true), ["admin.top"]);
        assert_eq!(
            wants(|plan| plan.parents = vec![Parent::default()]),
            ["[[parent]]"]
        );
        assert_eq!(
            wants(|plan| plan.siblings = vec![Sibling::default()]),
            ["[[sibling]]"]
        );
        assert_eq!(wants(|plan| plan.icp.rate_max = 1), ["[icp]"]);
        assert_eq!(wants(|plan| plan.digests.serve = true), ["[digest]"]);
        assert_eq!(
            wants(|plan| plan.cluster = Some(Cluster::default())),
            ["[cluster]"]
        );
        assert_eq!(wants(|plan| plan.admin = None), ["admin.address"]);
        let both = wants(|plan| {
            plan.workers = 2;
            plan.admin.as_mut().unwrap().address.set_port(1);
        });
        assert_eq!(both, ["workers", "admin.address"]);
    }

    #[test]
    fn all_else_is_live() {
        let live_parts: &[fn(&mut Plan)] = &[
            |plan| plan.listeners.clear(),
            |plan| plan.listeners[0].allow.push("10.0.0.0/8".parse().unwrap()),
            |plan| {
                plan.admin
                    .as_mut()
                    .unwrap()
                    .allow
                    .push("10.0.0.0/8".parse().unwrap())
            },
            |plan| plan.admin_names.push("a".to_owned()),
            |plan| plan.memory_bytes = 1,
            |plan| plan.name = "other".to_owned(),
            |plan| plan.logs.profile = Some("/p".into()),
            |plan| plan.logs.profile_keys = false,
            |plan| plan.logs.of_listeners = [(0, None)].into(),
            |plan| plan.limits.connections_max = 1,
            |plan| plan.timeouts.drain = std::time::Duration::ZERO,
            |plan| plan.cache.heuristic_percent = 1,
            |plan| plan.rules.push(plan::Rule::default()),
            |plan| plan.upstreams.push(plan::Upstream::default()),
            |plan| plan.dns.attempts = 1,
            |plan| plan.pool.per_origin_max = 1,
            |plan| plan.tls.ca_file = Some("/ca".into()),
            |plan| plan.acme = Some(plan::Acme::default()),
        ];
        for (number, change) in live_parts.iter().enumerate() {
            assert_eq!(wants(change), [""; 0], "change {number}");
        }
    }

    #[test]
    fn a_member_of_a_cluster_keeps_its_listeners() {
        let in_cluster = || Plan {
            cluster: Some(Cluster::default()),
            ..plan()
        };
        let (old, mut new) = (in_cluster(), in_cluster());
        new.listeners[0].allow.push("10.0.0.0/8".parse().unwrap());
        assert_eq!(wanting_a_restart(&old, &new), [""; 0]);
        new.listeners[0].address.set_port(1);
        assert_eq!(wanting_a_restart(&old, &new).len(), 1);
        assert_eq!(without_a_restart(&old, new).listeners, old.listeners);
    }

    #[test]
    fn tls_to_a_parent_is_live() {
        let with = |only_tls13: bool| {
            let tls = plan::OriginTls {
                only_tls13,
                ..plan::OriginTls::default()
            };
            let mut plan = plan();
            plan.parents = vec![Parent {
                tls: Some(std::sync::Arc::new(tls)),
                ..Parent::default()
            }];
            plan
        };
        let (old, new) = (with(false), with(true));
        assert_eq!(wanting_a_restart(&old, &new), [""; 0]);
        assert_eq!(without_a_restart(&old, new.clone()), new);
    }
}
