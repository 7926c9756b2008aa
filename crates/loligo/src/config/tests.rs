//! Tests of configurations: their plans, or the messages about them.

use expect_test::{Expect, expect};
use proxy::plan::{Admin, ClientDirectives, Destinations, Forwarded, Heeds, Listener, Role};

use super::general::{ADMIN, memory_default};
use super::raw::Given;
use super::testing::{complaints, complaints_of, machine, raw, settle};
use super::values::LISTEN;
use super::*;
use crate::cli::Flags;

#[track_caller]
fn wrong(text: &str, expected: Expect) {
    expected.assert_eq(&complaints(text));
}

#[test]
fn nothing_said_is_a_forward_proxy_for_this_machine() {
    let settled = settle("").unwrap();
    let plan = &settled.plan;
    assert_eq!(plan.listeners, [Listener::forward(LISTEN, Vec::new())]);
    assert_eq!(
        plan.admin,
        Some(Admin {
            address: ADMIN,
            allow: Vec::new()
        })
    );
    assert_eq!((plan.workers, plan.memory_bytes), (4, 512 << 20));
    assert_eq!(plan.stores.len(), 1);
    let store = &plan.stores[0];
    assert_eq!(
        store.path,
        std::path::Path::new("/home/u/.cache/loligo/store")
    );
    assert_eq!(store.size_bytes, Some(10 << 30));
    assert_eq!(plan.logs.access, None);
    assert_eq!(settled.notes, [""; 0]);
}

#[test]
fn nobody_purges_on_a_listener_but_whom_it_names() {
    let named = "[[listener]]\naddress = 8080\norigin = \"http://o\"\npurge-from = [\"127.0.0.1\", \"10.0.0.0/8\"]\n";
    let plan = settle(named).unwrap().plan;
    let from = ["127.0.0.1/32", "10.0.0.0/8"].map(|net| net.parse().unwrap());
    assert_eq!(plan.listeners[0].purge_from, from);
    assert_eq!(settle("").unwrap().plan.listeners[0].purge_from, []);
}

#[test]
fn memory_is_an_eighth_of_the_ram_within_bounds() {
    assert_eq!(memory_default(4 << 30), 512 << 20);
    assert_eq!(memory_default(1 << 40), 1 << 30);
    assert_eq!(memory_default(0), 1 << 20);
}

#[test]
fn clients_beyond_loopback_do_not_reach_this_machine() {
    let plan =
        settle("[[listener]]\naddress = \"0.0.0.0:3128\"\nallow = [\"10.0.0.7/8\", \"192.0.2.7\"]")
            .unwrap()
            .plan;
    assert_eq!(
        plan.listeners[0].allow,
        [
            "10.0.0.0/8".parse().unwrap(),
            "192.0.2.7/32".parse().unwrap()
        ]
    );
    let Role::Forward(forward) = &plan.listeners[0].role else {
        panic!()
    };
    assert_eq!(forward.destinations, Destinations::default());
}

#[test]
fn several_listeners_with_routes_by_host_and_path() {
    let plan = settle(
        r#"
        [[listener]]
        address = "127.0.0.1:8000"
        origin = "http://127.0.0.1:8080/base/"
        [[listener.route]]
        path = "/images"
        origin = "http://[::1]:8081"
        pass-host = false
        [[listener.route]]
        host = "*.Example.org"
        origin = "https://example.net"
        [[listener]]
        address = 3200
        connect-ports = []
        http-ports = [80, "8000 - 8100", 25]
        forwarded = "append"
        allow-destinations = ["127.0.0.2"]
        "#,
    )
    .unwrap()
    .plan;
    let Role::Reverse(routes) = &plan.listeners[0].role else {
        panic!()
    };
    let shown: Vec<_> = routes
        .iter()
        .map(|r| {
            (
                r.host.as_deref(),
                r.path_prefix.as_str(),
                r.origin.to_string(),
                r.pass_host,
            )
        })
        .collect();
    assert_eq!(
        shown,
        [
            (
                Some("*.example.org"),
                "/",
                "https://example.net".to_owned(),
                true
            ),
            (None, "/images", "http://[::1]:8081".to_owned(), false),
            (None, "/", "http://127.0.0.1:8080/base".to_owned(), true),
        ]
    );
    assert_eq!(plan.listeners[1].address, "127.0.0.1:3200".parse().unwrap());
    let Role::Forward(forward) = &plan.listeners[1].role else {
        panic!()
    };
    assert!(forward.connect_ports.is_empty());
    assert_eq!(forward.http_ports, [80..=80, 8000..=8100, 25..=25]);
    let forwarded = plan.listeners.iter().map(|listener| listener.forwarded);
    assert!(forwarded.eq([Forwarded::Replace, Forwarded::Append]));
    let expected = Destinations {
        allow: vec!["127.0.0.2/32".parse().unwrap()],
        ..Destinations::default()
    };
    assert_eq!(forward.destinations, expected);
}

#[test]
fn whose_word_counts_goes_by_the_role() {
    let heeds = |text: &str| settle(text).unwrap().plan.listeners[0].heeds;
    assert_eq!(heeds(""), Heeds::FORWARD);
    let reverse = "[[listener]]\norigin = \"http://a\"\n";
    assert_eq!(heeds(reverse), Heeds::REVERSE);
    let routed = "[[listener]]\n[[listener.route]]\norigin = \"http://a\"";
    assert_eq!(heeds(routed), Heeds::REVERSE);
    let said = "targeted-cache-control = false\nclient-directives = \"revalidate\"";
    assert_eq!(
        heeds(&format!("{reverse}{said}")),
        Heeds {
            client_directives: ClientDirectives::Revalidate,
            targeted: false,
        }
    );
    let forward = heeds("[[listener]]\nclient-directives = \"ignore\"");
    assert_eq!(forward.client_directives, ClientDirectives::Ignore);
    assert!(!forward.targeted);
    // `targeted-cache-control` is refused for a forward proxy.
    wrong(
        "[[listener]]\ntargeted-cache-control = true\nclient-directives = \"maybe\"",
        expect![[r#"
            loligo.toml:2: listener.targeted-cache-control = true: is for reverse proxies; this listener has no origin
            loligo.toml:3: listener.client-directives = "maybe": expected obey, revalidate or ignore
        "#]],
    );
}

#[test]
fn settings_of_the_other_role_are_refused() {
    wrong(
        "[[listener]]\norigin = \"http://a\"\nconnect-ports = [443]\n[[listener]]\naddress = 1\npass-host = true",
        expect![[r#"
            loligo.toml:3: listener.connect-ports = [443]: is for forward proxies; this listener has an origin, so it is a reverse proxy
            loligo.toml:6: listener.pass-host = true: is for reverse proxies; this listener has no origin
        "#]],
    );
}

#[test]
fn the_origins_own_host_is_a_flag() {
    let flags = Flags {
        reverse: Some("http://127.0.0.1:8080".into()),
        origin_host: true,
        ..Flags::default()
    };
    let plan = with_flags("", flags);
    let Role::Reverse(routes) = &plan.listeners[0].role else {
        panic!()
    };
    assert!(!routes[0].pass_host);
}

#[test]
fn routes_that_can_not_be() {
    wrong(
        r#"[[listener]]
[[listener.route]]
path = "/a"
[[listener.route]]
host = "A.org"
origin = "http://x"
[[listener.route]]
host = "a.org."
origin = "http://y"
[[listener.route]]
host = "a.org:80"
path = "a"
orgin = "http://y"
"#,
        expect![[r#"
            loligo.toml:2: listener.route.origin: every route needs an origin, such as origin = "http://127.0.0.1:8080"
            loligo.toml:7: listener.route: a second route for a.org and /
            loligo.toml:10: listener.route.origin: every route needs an origin, such as origin = "http://127.0.0.1:8080"
            loligo.toml:11: listener.route.host = "a.org:80": expected a host name without port, or "*.example.org" for all names below one
            loligo.toml:12: listener.route.path = "a": expected a path that begins with /, without ? or #
            loligo.toml:13: listener.route.orgin = "http://y": there is no such setting here; did you mean "origin"?
        "#]],
    );
}

#[test]
fn an_origin_that_no_request_reaches_is_told() {
    wrong(
        "[[listener]]\norigin = \"http://a\"\n[[listener.route]]\norigin = \"http://b\"",
        expect![[r#"
            loligo.toml:2: listener.origin = "http://a": the listener's own origin is never used: a route takes every host and path
        "#]],
    );
}

#[test]
fn an_address_is_used_once() {
    wrong(
        "[[listener]]\naddress = 3128\n[[listener]]\naddress = \"localhost:3128\"\n[admin]\naddress = \"127.0.0.1:3128\"",
        expect![[r#"
            loligo.toml:4: listener.address = "localhost:3128": 127.0.0.1:3128 is used by another listener already
            loligo.toml:6: admin.address = "127.0.0.1:3128": 127.0.0.1:3128 is also a listener's address; give one of them another port
        "#]],
    );
    assert!(settle("[[listener]]\naddress = 0\n[[listener]]\naddress = 0").is_ok());
}

#[test]
fn the_proxy_is_not_its_own_origin() {
    let own = |listen: &str, origin: &str| {
        let text = format!(
            "[[listener]]\naddress = \"{listen}\"\nallow = [\"any\"]\norigin = \"{origin}\""
        );
        complaints(&text).contains("is this proxy itself")
    };
    assert!(own("127.0.0.1:3128", "http://127.0.0.1:3128"));
    assert!(own("127.0.0.1:3128", "http://localhost:3128/x"));
    assert!(own("0.0.0.0:80", "http://127.0.0.1"));
    assert!(own("[::]:80", "http://127.0.0.9"));
    assert!(own("127.0.0.1:80", "http://0.0.0.0"));
    assert!(own("192.0.2.1:80", "http://192.0.2.1"));
    assert!(
        own("127.0.0.1:3200", "http://127.0.0.1:3129"),
        "the admin interface is ours too"
    );
    assert!(!own("127.0.0.1:3128", "http://127.0.0.1:3130"));
    assert!(!own("127.0.0.1:80", "http://127.0.0.2"));
    assert!(!own("0.0.0.0:80", "http://example.org"));
    assert!(!own("0.0.0.0:80", "http://192.0.2.1"));
}

#[test]
fn a_bound_is_complained_of_where_one_was_written() {
    wrong(
        "[dns]\nttl-min = \"1h\"\nttl-max = \"1s\"\n",
        expect![[r#"
            loligo.toml:2: dns.ttl-min = "1h": must not exceed dns.ttl-max, 1s
        "#]],
    );
    wrong(
        "[dns]\n# Short.\nttl-min = \"1h\"\nttl-max = \"59m\"\n\
         [[listener]]\nallow = []\naddress = 3129\n",
        expect![[r#"
            loligo.toml:3: dns.ttl-min = "1h": must not exceed dns.ttl-max, 59m
            loligo.toml:7: listener.address = 3129: 127.0.0.1:3129 is the admin interface's address, too; give this another port, or set admin.address
        "#]],
    );
}

#[test]
fn limits_that_are_not_set_follow_from_those_that_are() {
    let limits = |text: &str| settle(text).unwrap().plan.limits;
    assert_eq!(limits("").transfer_bytes_max, 4 << 20);
    assert_eq!(limits("").target_bytes_max, 16 << 10);
    let set = limits("limits.transfer-buffer = \"4MiB\"\nlimits.head-max = \"1MiB\"");
    assert_eq!(
        (set.transfer_bytes_max, set.target_bytes_max),
        (64 << 10, 64 << 10)
    );
}

#[test]
fn addresses_networks_and_origins_are_explained() {
    wrong(
        r#"[[listener]]
address = ":3128"
allow = ["10.0.0.0/33"]
origin = "example.org"
[[listener]]
address = "127.0.0.1"
origin = "ftp://example.org"
[[listener]]
address = 99999
origin = "http://u:p@example.org"
[[listener]]
address = "example.org:80"
origin = "http://exa mple.org"
[[listener]]
address = 5
origin = "http://::1"
connect-ports = ["https"]
[[listener]]
address = 6
origin = "http://a/?q"
"#,
        expect![[r#"
            loligo.toml:2: listener.address = ":3128": write "0.0.0.0:3128" for every IPv4 address, "[::]:3128" for every IPv6 one
            loligo.toml:3: listener.allow = ["10.0.0.0/33"]: "10.0.0.0/33" is no network; write "10.0.0.0/8", "2001:db8::/32" or one address
            loligo.toml:4: listener.origin = "example.org": the scheme is missing; write "http://example.org"
            loligo.toml:6: listener.address = "127.0.0.1": the port is missing; write "127.0.0.1:3128" or "[::1]:3128"
            loligo.toml:7: listener.origin = "ftp://example.org": origins are asked by http:// or https://
            loligo.toml:9: listener.address = 99999: expected an address and a port such as "127.0.0.1:3128" or "[::1]:3128"
            loligo.toml:10: listener.origin = "http://…@example.org": a user name in an origin is not supported
            loligo.toml:12: listener.address = "example.org:80": expected an address and a port such as "127.0.0.1:3128" or "[::1]:3128"
            loligo.toml:13: listener.origin = "http://exa mple.org": expected http://HOST, http://HOST:PORT or http://HOST:PORT/PATH (IPv6 addresses in brackets)
            loligo.toml:16: listener.origin = "http://::1": expected http://HOST, http://HOST:PORT or http://HOST:PORT/PATH (IPv6 addresses in brackets)
            loligo.toml:17: listener.connect-ports = ["https"]: expected ports such as [443, 8443]
            loligo.toml:20: listener.origin = "http://a/?q": an origin may have a path, but no ? and no #
        "#]],
    );
}

#[test]
fn the_file_limit_bounds_the_connections() {
    let poor = Machine {
        files_max: 1024,
        ..machine()
    };
    let settled = into_plan(&Raw::default(), &poor).unwrap();
    assert_eq!(settled.plan.limits.connections_max, 525);
    assert_eq!((settled.notes.len(), settled.fitted.len()), (0, 1));
    let raw = Raw {
        whole: Block {
            given: vec![Given::flag("limits.connections-max", "", "1000")],
            ..Block::default()
        },
        ..Raw::default()
    };
    let settled = into_plan(&raw, &poor).unwrap();
    assert_eq!(
        (settled.plan.limits.connections_max, settled.notes.len()),
        (1000, 1)
    );
}

#[test]
fn the_pool_has_a_workers_share_of_the_files_that_clients_leave() {
    let pool = |files_max: u64, given: &[(&'static str, &str)]| {
        let machine = Machine {
            files_max,
            ..machine()
        };
        let given = given.iter().map(|(key, text)| Given::flag(key, "", text));
        let raw = Raw {
            whole: Block {
                given: given.collect(),
                ..Block::default()
            },
            ..Raw::default()
        };
        let pool = into_plan(&raw, &machine).unwrap().plan.pool;
        (pool.per_origin_max, pool.idle_per_origin_max, pool.idle_max)
    };
    let two = ("workers", "2");
    let eight = ("workers", "8");
    assert_eq!(pool(1 << 20, &[two]), (1024, 1024, 2048));
    assert_eq!(pool(20_000, &[two]), (1024, 1024, 2048));
    // 20,000 - 256 - 14,775 clients, an eighth each.
    assert_eq!(pool(20_000, &[eight]), (621, 621, 621));
    // Fewer clients leave more, up to the default.
    let few = ("limits.connections-max", "1000");
    assert_eq!(pool(20_000, &[eight, few]), (1024, 1024, 2048));
    assert_eq!(pool(1024, &[two]), (121, 121, 121));
    assert_eq!(pool(512, &[two]), (64, 64, 64));
    // A given number stays; the number of unused connections follows from it.
    let given = ("pool.per-origin-max", "300");
    assert_eq!(pool(1024, &[two, given]), (300, 121, 121));
    let few = ("pool.per-origin-max", "10");
    assert_eq!(pool(1 << 20, &[two, few]), (10, 10, 2048));
    let many = ("pool.per-origin-max", "4000");
    assert_eq!(pool(1 << 20, &[two, many]), (4000, 4000, 4000));
}

fn with_flags(text: &str, flags: Flags) -> Plan {
    let mut raw = raw(text).unwrap();
    flags.add_to(&mut raw);
    into_plan(&raw, &machine()).unwrap().plan
}

#[test]
fn flags_override_the_file() {
    let file =
        "memory = \"1GiB\"\nworkers = 2\n[[listener]]\naddress = 1\n[[listener]]\naddress = 2\n";
    let some = |text: &str| Some(text.to_owned());
    let plan = |flags| with_flags(file, flags);

    let flags = Flags {
        memory: some("none"),
        store: vec!["none".into()],
        admin: some("none"),
        ..Flags::default()
    };
    let changed = plan(flags);
    assert_eq!(
        (
            changed.memory_bytes,
            changed.workers,
            changed.listeners.len()
        ),
        (0, 2, 2)
    );
    assert_eq!((changed.stores, changed.admin), (Vec::new(), None));

    let flags = Flags {
        listen: vec!["3".into()],
        reverse: some("http://a"),
        ..Flags::default()
    };
    let changed = plan(flags);
    assert_eq!(changed.listeners.len(), 1);
    assert!(
        matches!(&changed.listeners[0].role, Role::Reverse(routes) if routes[0].origin.host == "a")
    );

    let changed = plan(Flags {
        allow: some("10.0.0.0/8,192.0.2.1"),
        ..Flags::default()
    });
    assert!(
        changed
            .listeners
            .iter()
            .all(|listener| listener.allow.len() == 2)
    );

    let changed = plan(Flags {
        reverse: some("http://a"),
        ..Flags::default()
    });
    assert_eq!(
        (changed.listeners.len(), changed.listeners[0].address),
        (1, LISTEN)
    );
}

#[test]
fn wrong_flags_are_named() {
    let some = |text: &str| Some(text.to_owned());
    let flags = Flags {
        listen: vec!["0.0.0.0:80".into()],
        memory: some("much"),
        io_engine: some("aio"),
        log_level: some("loud"),
        ..Flags::default()
    };
    expect![[r#"
        --memory much: expected a size such as "64KiB", "256MiB", "10GiB" or "500MB"
        --io-engine aio: expected auto, uring or threads
        --log-level loud: expected error, warn, info, debug or trace, or a filter such as info,proxy=debug
        --listen 0.0.0.0:80: beyond this machine it must say whom it serves: allow = ["10.0.0.0/8"] (flag --allow), or "any" for everybody
    "#]]
    .assert_eq(&complaints_of("", &flags));
}

#[test]
fn no_file_is_two_things() {
    wrong(
        "store.path = \"/x/a\"\nlog.access = \"/x/./a\"\nlog.profile = \"/x/a\"",
        expect![[r#"
            loligo.toml:2: log.access = "/x/./a": this is the store; a log needs a file of its own
            loligo.toml:3: log.profile = "/x/a": this is the store; a log needs a file of its own
            loligo.toml:3: log.profile = "/x/a": this is the access log; the profile needs a file of its own
        "#]],
    );
}

/// Writing out the defaults in the reference, as far as they are values, changes nothing.
#[test]
fn the_defaults_of_a_listener_are_as_the_reference_says() {
    let plan = settle("").unwrap().plan;
    let rows = listeners::rows();
    // The default of `access-log` in words would be read as the name of a file.
    let rows = rows.iter().filter(|row| row.key != "listener.access-log");
    let written = rows.filter(|row| {
        let name = row.key.strip_prefix("listener.").unwrap();
        let text = format!("[[listener]]\n{name} = \"{}\"", row.default);
        settle(&text).is_ok_and(|settled| {
            assert_eq!(settled.plan, plan, "{text}");
            true
        })
    });
    let written: Vec<_> = written.map(|row| row.key.as_str()).collect();
    let expected = [
        "listener.address",
        "listener.connect-ports",
        "listener.http-ports",
        "listener.tls",
        "listener.proxy-protocol",
        "listener.trust-forwarded",
    ];
    assert_eq!(written, expected);
}

#[test]
fn odd_answers_are_read_of_the_hosts_that_are_named() {
    let text = "[[listener]]\nlenient = [\"folding\", \"LF\"]\nlenient-hosts = [\"Old.Example\", \"*.cgi.example\", \"192.0.2.7\"]";
    let plan = settle(text).unwrap().plan;
    let Role::Forward(forward) = &plan.listeners[0].role else {
        panic!("a forward proxy");
    };
    assert!(forward.lenient.bare_lf && forward.lenient.folding);
    for host in ["old.example", "a.cgi.example", "192.0.2.7"] {
        assert!(forward.lenient.has(host), "{host}");
    }
    assert!(!forward.lenient.has("example"));
}

#[test]
fn a_network_of_mapped_addresses_is_one_of_ipv4() {
    let text = "[[listener]]\naddress = \"0.0.0.0:3128\"\nallow = [\"::ffff:10.0.0.0/104\"]";
    let plan = settle(text).unwrap().plan;
    assert_eq!(plan.listeners[0].allow, ["10.0.0.0/8".parse().unwrap()]);
}
