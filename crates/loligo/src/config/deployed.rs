//! The files in `deploy/` are files that this program takes, and agree with each other.
//!
//! Whether Kubernetes and Compose take theirs, their own schemas say: `deploy/README.md` has the commands.

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

/// What a file means for the member of this name.
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
    for (node, front) in [
        ("kubernetes/node.toml", "kubernetes/front.toml"),
        ("compose/node.toml", "compose/front.toml"),
    ] {
        let names = members(node);
        assert_eq!(names, members(front));
        for name in &names {
            let is_front = name.contains("front");
            let plan = settled(if is_front { front } else { node }, name).plan;
            let cluster = plan.cluster.expect("a cluster");
            assert_eq!(
                (&cluster.name, cluster.members.len()),
                (name, names.len() - 1)
            );
            assert_eq!(
                (cluster.front, plan.stores.is_empty()),
                (is_front, is_front)
            );
        }
    }
}

#[test]
fn pods_are_as_many_as_the_lists_name() {
    let names = members("kubernetes/node.toml");
    for (file, kind) in [("nodes", "loligo-node-"), ("fronts", "loligo-front-")] {
        let replicas = values(&format!("kubernetes/{file}.yaml"), "replicas:");
        let count: usize = replicas[0].parse().expect("a number");
        let expected: Vec<String> = (0..count).map(|pod| format!("{kind}{pod}")).collect();
        let listed: Vec<&String> = names.iter().filter(|n| n.starts_with(kind)).collect();
        assert_eq!(listed, expected.iter().collect::<Vec<_>>());
    }
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
