//! Command lines, and the contestants they choose.

use super::contestants::{Wanted, chosen};
use crate::rivals::Rival;

fn names(wanted: &[&str], only: &[&str]) -> Vec<String> {
    let wanted: Vec<Wanted> = wanted.iter().map(|text| text.parse().unwrap()).collect();
    let only: Vec<String> = only.iter().map(|&name| name.to_owned()).collect();
    let chosen = chosen(&wanted, &only).unwrap();
    chosen.into_iter().map(|it| it.name).collect()
}

#[test]
fn settings_become_lines_of_a_configuration() {
    let text = "a:admission=by-size,lazy-reads=0,memory.size=4MiB,replacement=second-chance=25";
    let wanted: Vec<Wanted> = vec![text.parse().unwrap(), "plain".parse().unwrap()];
    let chosen = chosen(&wanted, &["loligo".to_owned()]).unwrap();
    assert_eq!(
        chosen[0].settings,
        [
            "store.admission = \"by-size\"",
            "store.lazy-reads = 0",
            "memory.size = \"4MiB\"",
            "store.replacement = \"second-chance=25\"",
        ]
    );
    assert!(chosen[1].settings.is_empty());
    for bad in ["", ":a=b", "a b", "a:admission"] {
        assert!(bad.parse::<Wanted>().is_err(), "{bad}");
    }
}

#[test]
fn products_and_names_choose() {
    assert_eq!(names(&[], &["loligo"]).len(), 4);
    assert_eq!(
        names(&["x"], &["loligo", "squid-rock", "nginx"]),
        ["loligo-x", "squid-rock", "nginx"]
    );
    assert_eq!(names(&[], &["squid"]).len(), 3);
    assert!(chosen(&[], &["apache".to_owned()]).is_err());
    let twice: Vec<Wanted> = ["a", "a"].map(|it| it.parse().unwrap()).into();
    assert!(chosen(&twice, &[]).is_err());
}

/// Squid takes a policy only for the folders that follow it.
#[test]
fn squid_is_told_its_policy_before_its_folder() {
    let all = chosen(&[], &["squid-aufs-gdsf".to_owned()]).unwrap();
    assert_eq!(all[0].rival, Rival::SquidAufs);
    let setup = crate::rivals::Setup {
        address: "127.0.0.1:3128".parse().unwrap(),
        admin: "127.0.0.1:3129".parse().unwrap(),
        origin: "127.0.0.1:8000".parse().unwrap(),
        run: "/run".into(),
        data: "/data".into(),
        device: None,
        cache: crate::size::Bytes(1 << 30),
        memory: crate::size::Bytes(1 << 20),
        logs: false,
        profile: false,
        workers: 2,
        as_root: false,
        extra: all[0].settings.clone(),
        front: None,
        limits: String::new(),
        listener: None,
    };
    let text = all[0].rival.plan(&setup).files[0].1.clone();
    let at = |needle: &str| {
        text.find(needle)
            .unwrap_or_else(|| panic!("{needle}: {text}"))
    };
    assert!(at("cache_replacement_policy heap GDSF\n") < at("cache_dir aufs"));
}
