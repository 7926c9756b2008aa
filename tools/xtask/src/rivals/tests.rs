//! The configurations as they are written, so that a change in one is a decision.

use std::path::PathBuf;

use expect_test::expect;

use super::*;

fn setup() -> Setup {
    Setup {
        address: "127.0.0.1:3128".parse().unwrap(),
        admin: "127.0.0.1:3129".parse().unwrap(),
        origin: "127.0.0.1:8000".parse().unwrap(),
        run: PathBuf::from("/run"),
        data: PathBuf::from("/data"),
        device: None,
        cache: Bytes(2 << 30),
        memory: Bytes(1 << 20),
        logs: false,
        profile: false,
        workers: 2,
        as_root: false,
        extra: Vec::new(),
        front: None,
        limits: String::new(),
        listener: None,
    }
}

fn commands(rival: Rival, setup: &Setup) -> Vec<String> {
    let plan = rival.plan(setup);
    plan.prepare
        .iter()
        .chain(&plan.servers)
        .map(|c| format!("{} {}", c.program, c.args.join(" ")))
        .collect()
}

fn configuration(rival: Rival, setup: &Setup) -> String {
    let plan = rival.plan(setup);
    plan.files.into_iter().map(|(_, text)| text).collect()
}

#[test]
fn every_name_is_found_again() {
    for rival in Rival::ALL {
        assert_eq!(Rival::of_name(rival.name()), Some(rival));
    }
    assert_eq!(Rival::of_name("apache"), None);
    assert_eq!(Rival::SquidUfs.product(), "squid");
}

#[test]
fn versions_are_found_in_what_programs_say() {
    for (says, version) in [
        ("nginx version: nginx/1.22.1\n", "1.22.1"),
        (
            "HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/",
            "2.6.12-1+deb12u4",
        ),
        (
            "varnishd (varnish-7.1.1 revision 7cee1c581bead20e88d101ab3d72afb29f14d87a)",
            "7.1.1",
        ),
        ("Squid Cache: Version 5.7\nService Name: squid", "5.7"),
        ("Traffic Server 9.2.9 Apr  4 2026", "9.2.9"),
        ("loligo 0.1.0", "0.1.0"),
    ] {
        assert_eq!(version_in(says).as_deref(), Some(version));
    }
}

#[test]
fn loligo_is_started_like_everybody_else() {
    let mut setup = setup();
    let args = |setup: &Setup| Rival::Loligo.plan(setup).servers[0].args.join(" ");
    expect!["serve --listen 127.0.0.1:3128 --reverse http://127.0.0.1:8000 --client-directives obey --store /data/store.loligo --store-size 2GiB --memory 1MiB --workers 2 --admin 127.0.0.1:3129"]
        .assert_eq(&args(&setup));
    setup.logs = true;
    assert!(args(&setup).ends_with("--access-log /run/access.log --profile /run/requests.profile"));
    setup.device = Some("/dev/loop9".into());
    assert!(args(&setup).contains("--store /dev/loop9 "));
}

#[test]
fn everybody_gets_two_workers_the_origin_and_its_sizes() {
    for (rival, needles) in [
        (
            Rival::Nginx,
            &[
                "worker_processes 2;",
                "server 127.0.0.1:8000;",
                "max_size=2048m",
                "sendfile off",
            ][..],
        ),
        (Rival::NginxSendfile, &["sendfile on", "aio off"]),
        (Rival::NginxAio, &["sendfile on", "aio threads"]),
        (
            Rival::Haproxy,
            &["nbthread 2", "origin 127.0.0.1:8000", "total-max-size 1\n"],
        ),
        (
            Rival::TrafficServer,
            &[
                "exec_thread.limit INT 2",
                "map / http://127.0.0.1:8000/",
                "/data 2048M",
                "ram_cache.size INT 1048576",
            ],
        ),
        (
            Rival::SquidRock,
            &[
                "workers 2",
                "127.0.0.1 parent 8000",
                "cache_dir rock /data 2048",
                "cache_mem 1 MB",
            ],
        ),
        (
            Rival::SquidAufs,
            &["workers 1", "cache_dir aufs /data 2048"],
        ),
        (Rival::Varnish, &[".port = \"8000\""]),
    ] {
        let text = configuration(rival, &setup());
        for needle in needles {
            assert!(text.contains(needle), "{}: {needle}\n{text}", rival.name());
        }
    }
    for (rival, needle) in [
        (Rival::SquidDiskd, "cache_dir diskd /data 2048"),
        (Rival::Nginx, "levels=1:2 "),
        (Rival::Nginx, "proxy_cache_bypass $http_pragma"),
        (Rival::TrafficServer, "ignore_client_no_cache INT 0"),
        (Rival::Varnish, "set req.hash_always_miss = true"),
    ] {
        let text = configuration(rival, &setup());
        assert!(text.contains(needle), "{}: {needle}\n{text}", rival.name());
    }
    let small = Setup {
        cache: Bytes(64 << 20),
        ..setup()
    };
    assert!(configuration(Rival::Nginx, &small).contains("levels=2 "));
    assert_eq!(Rival::Nginx.plan(&small).dirs.len(), 256);
    let varnish = commands(Rival::VarnishFile, &setup());
    assert!(varnish[0].contains("-s file,/data/storage.bin,2048M"));
    assert!(varnish[0].contains("-p thread_pools=2"));
}

#[test]
fn logs_are_off_unless_asked_for() {
    let mut setup = setup();
    for (rival, off) in [
        (Rival::Nginx, "access_log off"),
        (Rival::TrafficServer, "logging_enabled INT 0"),
        (Rival::SquidRock, "access_log none"),
    ] {
        assert!(configuration(rival, &setup).contains(off));
    }
    assert_eq!(commands(Rival::Varnish, &setup).len(), 1);
    setup.logs = true;
    for (rival, on) in [
        (Rival::Nginx, "access_log /run/access.log"),
        (Rival::TrafficServer, "logging_enabled INT 3"),
        (Rival::SquidRock, "access_log stdio:/run/access.log"),
        (Rival::Haproxy, "option httplog"),
    ] {
        assert!(configuration(rival, &setup).contains(on));
    }
    assert_eq!(commands(Rival::Varnish, &setup).len(), 2);
}

#[test]
fn a_raw_device_goes_to_those_who_take_one() {
    let mut setup = setup();
    setup.device = Some("/dev/loop9".into());
    assert!(configuration(Rival::TrafficServer, &setup).contains("/dev/loop9\n"));
    assert!(!Rival::SquidRock.takes_device());
}

#[test]
fn another_build_is_there_only_when_it_was_given() {
    assert!(!Rival::LoligoBeside.is_installed());
    assert_eq!(Rival::of_name("loligo-beside"), Some(Rival::LoligoBeside));
    assert_eq!(Rival::LoligoBeside.product(), "loligo");
    assert!(Rival::LoligoBeside.is_ours() && !Rival::Nginx.is_ours());
}
