//! Tests that this program accepts the configuration files in `deploy/`, and that they agree with each other.
//!
//! The files for Kubernetes and Compose are checked by their own schemas: `deploy/README.md` has the commands.

use std::path::{Path, PathBuf};

use super::testing::{machine, raw};
use super::{Settled, into_plan};
use crate::cli::Flags;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(folder().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// The checked configuration of a file for the member of this name.
fn settled(path: &str, name: &str) -> Settled {
    let mut raw = raw(&read(path)).unwrap_or_else(|problems| panic!("{path}: {}", problems[0]));
    let flags = Flags {
        cluster_name: Some(name.to_owned()),
        ..Flags::default()
    };
    flags.add_to(&mut raw);
    into_plan(&raw, &machine()).unwrap_or_else(|problems| panic!("{path}: {}", problems[0]))
}

/// Names of members in the list of a file.
fn members(path: &str) -> Vec<String> {
    let settled = settled(path, "nobody");
    let cluster = settled.plan.cluster.expect("a cluster");
    cluster.members.into_iter().map(|m| m.name).collect()
}

/// The words behind `start` in lines of a file.
fn values(path: &str, start: &str) -> Vec<String> {
    let text = read(path);
    let lines = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix(start));
    lines.map(|rest| rest.trim().to_owned()).collect()
}

#[test]
fn every_member_takes_its_file_and_knows_the_others() {
    let (node, front) = ("compose/node.toml", "compose/front.toml");
    let names = members(node);
    assert_eq!(names, members(front));
    for name in &names {
        let is_front = name.contains("front");
        let cluster = of_kind(if is_front { front } else { node }, name, is_front);
        assert_eq!(cluster.members.len(), names.len() - 1);
    }
}

/// The cluster of a member that is a front without a store, or a node with one.
fn of_kind(file: &str, name: &str, is_front: bool) -> proxy::plan::Cluster {
    let plan = settled(file, name).plan;
    let cluster = plan.cluster.expect("a cluster");
    assert_eq!(
        (cluster.front, plan.stores.is_empty()),
        (is_front, is_front)
    );
    assert_eq!(cluster.name, name);
    cluster
}

#[test]
fn pods_find_each_other_by_the_service() {
    for (file, set, pod) in [
        ("node.toml", "nodes.yaml", "loligo-node-4"),
        ("front.toml", "fronts.yaml", "loligo-front-7"),
    ] {
        let cluster = of_kind(&format!("kubernetes/{file}"), pod, file == "front.toml");
        assert!(cluster.members.is_empty(), "no list to keep");
        let discover = cluster.discover.expect("a name");
        let set = format!("kubernetes/{set}");
        assert_eq!(values(&set, "serviceName:").join(" "), discover.host);
        let services = read("kubernetes/services.yaml");
        let service = services.split("---").find(|it| it.contains(&discover.host));
        let service = service.expect("the service");
        for line in [
            "clusterIP: None".to_owned(),
            "publishNotReadyAddresses: true".to_owned(),
            format!("port: {}", discover.port),
        ] {
            assert!(service.contains(&line), "{line}");
        }
        let flag = values(&set, "args:").concat();
        assert!(
            flag.contains("\"--cluster-name\", \"$(POD_NAME)\""),
            "{flag}"
        );
    }
}

#[test]
fn a_pod_that_hangs_is_killed_and_one_that_drains_is_not() {
    for set in ["kubernetes/nodes.yaml", "kubernetes/fronts.yaml"] {
        let text = read(set);
        let probe = |name: &str| {
            let rest = text.split_once(name).expect("a probe").1;
            let path = rest.split_once("path: ").expect("a path").1;
            path.lines().next().unwrap_or_default().to_owned()
        };
        assert_eq!(probe("livenessProbe:"), "/livez", "{set}");
        assert_eq!(probe("readinessProbe:"), "/healthz", "{set}");
    }
    let policy = read("kubernetes/networkpolicy.yaml");
    assert!(policy.contains("kubernetes.io/metadata.name: monitoring"));
}

#[test]
fn files_that_are_named_are_there() {
    let listed = values("kubernetes/kustomization.yaml", "- ");
    let manifests = listed.iter().filter(|name| name.ends_with(".yaml"));
    assert_eq!(
        manifests
            .map(|name| read(&format!("kubernetes/{name}")))
            .count(),
        5
    );
    let services = values("compose.yaml", "command:");
    for name in members("compose/node.toml") {
        let flag = format!("\"--cluster-name\", \"{name}\"");
        assert!(
            services.iter().any(|command| command.contains(&flag)),
            "{name}"
        );
    }
    for file in values("compose.yaml", "file:") {
        assert!(file.ends_with("cluster.key") || !read(&file).is_empty());
    }
}

#[test]
fn the_configurations_of_the_packages_are_taken_and_say_where_the_store_is() {
    for (path, store) in [
        ("debian/loligo.toml", "/var/cache/loligo/store"),
        ("container/loligo.toml", "/var/lib/loligo/store"),
    ] {
        let raw = raw(&read(path)).unwrap_or_else(|problems| panic!("{path}: {}", problems[0]));
        let settled = into_plan(&raw, &machine())
            .unwrap_or_else(|problems| panic!("{path}: {}", problems[0]));
        assert_eq!(settled.plan.stores[0].path, Path::new(store));
        assert!(settled.notes.is_empty(), "{:?}", settled.notes);
    }
}
