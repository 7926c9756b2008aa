//! Ten configurations with mistakes, and their messages: the line, the setting, the value, and what to write instead. All
//! mistakes of a file are reported at once.

use expect_test::{Expect, expect};

use crate::config::testing::complaints;

#[track_caller]
fn wrong(text: &str, expected: Expect) {
    expected.assert_eq(&complaints(text));
}

#[test]
fn a_misspelt_setting() {
    wrong(
        "worker = 2\n[limits]\nheadmax = \"8KiB\"\n[store]\nsiez = \"1GiB\"\n[[listener]]\nadress = 1\n[[rule]]\ntll = \"1s\"\ncolour = 1\n",
        expect![[r#"
            loligo.toml:1: worker = 2: there is no such setting here; did you mean "workers"?
            loligo.toml:3: limits.headmax = "8KiB": there is no such setting here; did you mean "limits.head-max"?
            loligo.toml:5: store.siez = "1GiB": there is no such setting here; did you mean "store.size"?
            loligo.toml:7: listener.adress = 1: there is no such setting here; did you mean "address"?
            loligo.toml:9: rule.tll = "1s": there is no such setting here; did you mean "ttl"?
            loligo.toml:10: rule.colour = 1: there is no such setting here; `loligo settings` lists them all
        "#]],
    );
}

#[test]
fn a_misspelt_table() {
    wrong(
        "[timeout]\nconnect = \"1s\"\n[[listeners]]\naddress = 1\n[[limits]]\nhead-max = 1\n[colours]\nx = 1\n",
        expect![[r#"
            loligo.toml:1: timeout: there is no such table; did you mean "timeouts"?
            loligo.toml:3: listeners: there is no such table; did you mean "listener"?
            loligo.toml:5: limits: is one table: write it with one pair of brackets
            loligo.toml:7: colours: there is no such table; `loligo settings` lists them all
        "#]],
    );
}

#[test]
fn believing_everybody_or_nobody() {
    wrong(
        "[[listener]]\nproxy-protocol = \"yes\"\n[[listener]]\naddress = 3139\ntrust-forwarded = \"any\"\n[[listener]]\naddress = 3130\n\
         client-field = \"forwarded\"\n[[listener]]\naddress = 3131\ntrust-forwarded = \"10.0.0.1\"\nclient-field = \"x-real-ip\"\n",
        expect![[r#"
            loligo.toml:2: listener.proxy-protocol = "yes": "yes" is no network; write "10.0.0.0/8", "2001:db8::/32" or one address; or "require" for every connection
            loligo.toml:5: listener.trust-forwarded = "any": would believe every client whatever it says of itself; name the proxies that stand before this one
            loligo.toml:8: listener.client-field = "forwarded": is read only from proxies that are trusted; name them in trust-forwarded
            loligo.toml:12: listener.client-field = "x-real-ip": expected x-forwarded-for or forwarded
        "#]],
    );
}

#[test]
fn limits_that_make_no_sense() {
    let texts = [
        "rate = \"1/s\"",
        "name = \"a b\"\nrate = \"1/s\"",
        "name = \"c\"",
        "name = \"d\"\nrate = \"many\"",
        "name = \"e\"\nrate = 5",
        "name = \"f\"\nrate = \"1MB/s\"",
        "name = \"g\"\nrate = \"1/century\"",
        "name = \"h\"\nwhat = \"connections\"\nrate = \"5/s\"",
        "name = \"i\"\nwhat = \"connections\"\nrate = 5\nthen = \"delay=1s\"",
        "name = \"j\"\nwhat = \"requests\"\nrate = \"5/s\"\nthen = \"stale\"",
        "name = \"k\"\nrate = \"5/s\"\nthen = \"delay=5m\"",
        "name = \"l\"\nrate = \"5/s\"\nburst = 0",
        "name = \"m\"\nwhat = \"connections\"\nper = \"host\"\nrate = 5",
        "name = \"n\"\nrate = \"5/s\"\nkeys-max = 5",
        "name = \"n\"\nrate = \"5/s\"",
        "name = \"n\"\nrate = \"5/s\"",
    ];
    let limits = texts.map(|text| format!("[[limit]]\n{text}\n")).concat();
    wrong(
        &format!("{limits}[[listener]]\nlimits = [\"n\", \"zz\", \"nn\"]\n"),
        expect![[r#"
            loligo.toml:1: limit.name: every limit needs a name, such as name = "downloads"
            loligo.toml:4: limit.name = "a b": expected a word of letters, digits, - _ and ., at most 64
            loligo.toml:6: limit.rate: every limit needs a rate, such as rate = "100/s"
            loligo.toml:10: limit.rate = "many": expected a rate such as "100/s", "600/10m" or "10MB/s", or a number
            loligo.toml:13: limit.rate = 5: lacks the time, such as "100/s" or "10MB/s"
            loligo.toml:16: limit.rate = "1MB/s": misses are counted, not bytes: write a number without a unit
            loligo.toml:19: limit.rate = "1/century": expected a rate such as "100/s", "600/10m" or "10MB/s", or a number
            loligo.toml:23: limit.rate = "5/s": is a number of what may be there at once: leave the time out
            loligo.toml:28: limit.then = "delay=1s": a connection beyond the limit is closed; leave this out
            loligo.toml:33: limit.then = "stale": something stale takes the place of an origin's answer: this is for misses, miss-bytes and fetches-at-once
            loligo.toml:37: limit.then = "delay=5m": expected 429, stale, or a delay such as delay=2s, at most 1m
            loligo.toml:41: limit.burst = 0: must be at least 1, or nothing would ever pass; for that write rate = "0/s"
            loligo.toml:45: limit.per = "host": a connection has many requests, each with a host and a tag of its own; count them per client or listener
            loligo.toml:50: limit.keys-max = 5: must be from 1024 to 16000000
            loligo.toml:55: limit.name = "n": there is a limit of this name already
            loligo.toml:58: listener.limits = ["n", "zz", "nn"]: there is no limit "zz"; write a block [[limit]] with name = "zz"
            loligo.toml:58: listener.limits = ["n", "zz", "nn"]: there is no limit "nn"; did you mean "n"?
        "#]],
    );
}

#[test]
fn one_bracket_where_there_are_two() {
    wrong(
        "[listener]\naddress = 3128\n",
        expect![[r#"
        loligo.toml:1: listener: expected blocks that begin with [[listener]], two brackets
    "#]],
    );
}

#[test]
fn a_value_without_its_unit_or_of_another_kind() {
    wrong(
        "workers = \"many\"\nmemory = true\n[timeouts]\nconnect = 10\nclient-idle = \"1 hour\"\n[limits]\nhead-max = \"16K\"\n\
         waiters-max = 1.5\n[cache]\nstore-set-cookie = \"yes\"\n[log]\naccess = 5\n[dns]\nservers = { a = 1 }\n",
        expect![[r#"
            loligo.toml:1: workers = "many": expected a whole number
            loligo.toml:2: memory = true: expected a size such as "64KiB", "256MiB", "10GiB" or "500MB"
            loligo.toml:4: timeouts.connect = 10: expected a time such as "500ms", "30s", "5m", "2h" or "1d"
            loligo.toml:5: timeouts.client-idle = "1 hour": expected a time such as "500ms", "30s", "5m", "2h" or "1d"
            loligo.toml:7: limits.head-max = "16K": expected a size such as "64KiB", "256MiB", "10GiB" or "500MB"
            loligo.toml:8: limits.waiters-max = 1.5: expected a whole number
            loligo.toml:10: cache.store-set-cookie = "yes": expected true or false, without quotes
            loligo.toml:12: log.access = 5: expected text in quotes
            loligo.toml:14: dns.servers.a = 1: there is no such setting here; did you mean "dns.servers"?
        "#]],
    );
}

#[test]
fn a_value_out_of_its_range() {
    wrong(
        "workers = 0\nmemory = \"1KiB\"\n[timeouts]\nconnect = \"3m\"\n[limits]\nwaiters-max = 100000\nhead-max = \"2MiB\"\n\
         [cache]\nheuristic-percent = -1\n[store]\nsize = \"1MiB\"\nweight = 1001\nread-wait = \"1ms\"\n[[rule]]\nttl = \"400d\"\n",
        expect![[r#"
            loligo.toml:1: workers = 0: must be from 1 to 256
            loligo.toml:2: memory = "1KiB": must be from 1MiB to 1TiB
            loligo.toml:4: timeouts.connect = "3m": must be from 1s to 2m
            loligo.toml:6: limits.waiters-max = 100000: must be from 0 to 65536
            loligo.toml:7: limits.head-max = "2MiB": must be from 4KiB to 1MiB
            loligo.toml:9: cache.heuristic-percent = -1: expected a whole number
            loligo.toml:11: store.size = "1MiB": must be from 4MiB to 2TiB
            loligo.toml:12: store.weight = 1001: must be from 1 to 1000
            loligo.toml:13: store.read-wait = "1ms": must be from 100ms to 10m
            loligo.toml:15: rule.ttl = "400d": must be from 0s to 365d
        "#]],
    );
}

#[test]
fn a_word_that_is_none_of_those_known() {
    wrong(
        "[store]\nio-engine = \"aio\"\nreplacement = \"fifo\"\nadmission = \"some\"\nlazy-reads = \"on\"\n[log]\naccess-format = \"apache\"\n\
         level = \"loud\"\n[[listener]]\nforwarded = \"yes\"\nclient-directives = \"maybe\"\n",
        expect![[r#"
            loligo.toml:2: store.io-engine = "aio": expected auto, uring or threads
            loligo.toml:3: store.replacement = "fifo": expected second-chance, second-chance=PERCENT (0 to 75), reinsertion, reinsertion=PERCENT (10 to 50), lru, lru-threshold=SIZE or gdsf
            loligo.toml:4: store.admission = "some": expected all, second-hit, tinylfu or by-size
            loligo.toml:5: store.lazy-reads = "on": expected "auto" or a number, 0 for none
            loligo.toml:7: log.access-format = "apache": expected squid, json, combined, or fields such as "${client} ${status} ${uri}"
            loligo.toml:8: log.level = "loud": expected error, warn, info, debug or trace, or a filter such as info,proxy=debug
            loligo.toml:10: listener.forwarded = "yes": expected replace, append or none
            loligo.toml:11: listener.client-directives = "maybe": expected obey, revalidate or ignore
        "#]],
    );
}

#[test]
fn addresses_networks_and_origins() {
    wrong(
        "[admin]\naddress = \":3129\"\nallow = \"10.0.0.0/33\"\nnames = [\"a b\"]\n[dns]\nservers = [\"one.one.one.one\"]\n\
         [[listener]]\naddress = \"127.0.0.1\"\norigin = \"example.org\"\n[[listener]]\naddress = 1\norigin = \"ftp://a\"\n\
         [[listener]]\naddress = 2\nconnect-ports = [0]\nhttp-ports = [\"9-8\"]\nallow-destinations = [\"lo\"]\n",
        expect![[r#"
            loligo.toml:2: admin.address = ":3129": write "0.0.0.0:3129" for every IPv4 address, "[::]:3129" for every IPv6 one
            loligo.toml:3: admin.allow = "10.0.0.0/33": "10.0.0.0/33" is no network; write "10.0.0.0/8", "2001:db8::/32" or one address
            loligo.toml:4: admin.names = ["a b"]: expected a host name without port, or "*.example.org" for all names below one
            loligo.toml:6: dns.servers = ["one.one.one.one"]: "one.one.one.one" is no address; write "192.0.2.53" or "192.0.2.53:53"
            loligo.toml:8: listener.address = "127.0.0.1": the port is missing; write "127.0.0.1:3128" or "[::1]:3128"
            loligo.toml:9: listener.origin = "example.org": the scheme is missing; write "http://example.org"
            loligo.toml:12: listener.origin = "ftp://a": origins are asked by http:// or https://
            loligo.toml:15: listener.connect-ports = [0]: expected ports such as [443, 8443]
            loligo.toml:16: listener.http-ports = ["9-8"]: expected ports and ranges such as [80, 443, "1024-65535"]
            loligo.toml:17: listener.allow-destinations = ["lo"]: "lo" is no network; write "10.0.0.0/8", "2001:db8::/32" or one address
        "#]],
    );
}

#[test]
fn lenience_without_hosts_and_hosts_without_lenience() {
    wrong(
        "[[listener]]\naddress = 1\nlenient = [\"LF\"]\n[[listener]]\naddress = 2\nlenient-hosts = \"a.example\"\n\
         [[listener]]\naddress = 3\nlenient = [\"CR\"]\nlenient-hosts = \"a.example\"\n\
         [[listener]]\naddress = 4\norigin = \"http://a.example\"\nlenient = \"LF\"\nlenient-hosts = \"a.example\"\n",
        expect![[r#"
            loligo.toml:3: listener.lenient = ["LF"]: has no effect without lenient-hosts
            loligo.toml:6: listener.lenient-hosts = "a.example": has no effect without lenient
            loligo.toml:9: listener.lenient = ["CR"]: expected a list of "LF", "folding"
            loligo.toml:14: listener.lenient = "LF": is for forward proxies; this listener has an origin, so it is a reverse proxy
            loligo.toml:15: listener.lenient-hosts = "a.example": is for forward proxies; this listener has an origin, so it is a reverse proxy
        "#]],
    );
}

#[test]
fn a_listener_for_the_world_without_a_word_of_whom_it_serves() {
    wrong(
        "[[listener]]\naddress = \"0.0.0.0:3128\"\n[[listener]]\naddress = \"0.0.0.0:3128\"\nallow = \"any\"\n[admin]\naddress = \"192.0.2.1:3129\"\n",
        expect![[r#"
            loligo.toml:2: listener.address = "0.0.0.0:3128": beyond this machine it must say whom it serves: allow = ["10.0.0.0/8"] (flag --allow), or "any" for everybody
            loligo.toml:4: listener.address = "0.0.0.0:3128": 0.0.0.0:3128 is used by another listener already
            loligo.toml:7: admin.address = "192.0.2.1:3129": beyond this machine it must say whom it serves: admin.allow = ["10.0.0.0/8"] (flag --admin-allow); whoever may use it may purge the cache
        "#]],
    );
}

#[test]
fn settings_that_do_not_go_together() {
    wrong(
        "log.access = \"/x/a\"\n[dns]\nttl-min = \"1h\"\nttl-max = \"1s\"\n[[store]]\npath = \"/x/a\"\nadmission = \"all\"\n\
         [[store]]\npath = \"/x/a\"\nadmission = \"tinylfu\"\n[[store]]\nsize = \"1GiB\"\n[[listener]]\norigin = \"http://127.0.0.1:3128\"\n\
         connect-ports = [443]\n[[listener.route]]\npath = \"/a\"\n[[rule]]\nstatus = 404\nignore-query = \"*\"\n[[rule]]\nhost = \"a\"\n",
        expect![[r#"
            loligo.toml:1: log.access = "/x/a": this is the store; a log needs a file of its own
            loligo.toml:3: dns.ttl-min = "1h": must not exceed dns.ttl-max, 1s
            loligo.toml:9: store.path = "/x/a": is a store already; give each its own file or device
            loligo.toml:10: store.admission = "tinylfu": holds for all stores, and another block says "all"; say it once
            loligo.toml:11: store.path: where there are several stores, each needs a path, such as path = "/dev/sdb"
            loligo.toml:14: listener.origin = "http://127.0.0.1:3128": the origin http://127.0.0.1:3128 is this proxy itself (it listens on 127.0.0.1:3128)
            loligo.toml:15: listener.connect-ports = [443]: is for forward proxies; this listener has an origin, so it is a reverse proxy
            loligo.toml:16: listener.route.origin: every route needs an origin, such as origin = "http://127.0.0.1:8080"
            loligo.toml:20: rule.ignore-query = "*": is decided before there is a response; take status and content-type out of this rule, or write two rules
            loligo.toml:21: rule: this rule says nothing; add what is to be done, such as ttl = "5m", bypass = true or deny = true
        "#]],
    );
}

#[test]
fn what_is_not_toml() {
    wrong(
        "workers = 2\nmemory = 1GiB\n",
        expect![[r#"
        loligo.toml:2: not TOML: string values must be quoted, expected literal string
    "#]],
    );
}

#[test]
fn a_configuration_of_another_program() {
    let squid = "# Recommended minimum\nacl localnet src 10.0.0.0/8\nhttp_access allow localnet\nhttp_port 3128\n";
    let nginx = "user www-data;\nevents {\n}\nhttp {\n  server {\n    listen 80;\n  }\n}\n";
    let varnish = "vcl 4.1;\nbackend default {\n  .host = \"a\";\n}\nsub vcl_recv {\n}\n";
    let haproxy =
        "global\n  maxconn 100\nfrontend web\n  bind :80\nbackend app\n  server a 10.0.0.1:80\n";
    for (text, program) in [
        (squid, "Squid"),
        (nginx, "nginx"),
        (varnish, "Varnish"),
        (haproxy, "HAProxy"),
    ] {
        let told = crate::config::testing::raw(text).unwrap_err()[0].to_string();
        let words =
            format!("this is a configuration of {program}, and Loligo's is in TOML; docs/guide.md");
        assert!(told.contains(&words), "{told}");
    }
}

#[test]
fn slips_of_toml() {
    for (text, expected) in [
        (
            "workers = 2\nname = “edge”\n",
            "loligo.toml:2: not TOML: “ is a quotation mark of typography, which word processors put in; write \" in its place",
        ),
        (
            "[store]\npath = \"/x/a\"\n[[store]]\npath = \"/x/b\"\n",
            "loligo.toml:3: not TOML: where there are several, each begins with [[store]], the first one, too; here is a [store] with one pair of brackets",
        ),
        (
            "[listener]\naddress = 1\n[listener]\naddress = 2\n",
            "loligo.toml:3: not TOML: where there are several, each begins with [[listener]], the first one, too; here is a [listener] with one pair of brackets",
        ),
    ] {
        let told = crate::config::testing::raw(text).unwrap_err();
        assert_eq!(told[0].to_string(), expected);
    }
}

#[test]
fn words_that_other_programs_have() {
    wrong(
        "[[listener]]\nallow = \"all\"\norigin = [\"http://a\", \"http://b\"]\ncompress = true\n\
         [[listener]]\naddress = 3130\norigin = \"http://a, http://b\"\n[[listener.route]]\norigin = [\"http://a\"]\n",
        expect![[r#"
            loligo.toml:2: listener.allow = "all": "all" is no network; for everybody write "any"
            loligo.toml:3: listener.origin = ["http://a", "http://b"]: takes one server; for several write a block [[upstream]] with name = "app" and servers = ["http://…", "http://…"], and here its name, "app"
            loligo.toml:4: listener.compress = true: there is no such setting here; `loligo settings` lists them all
            loligo.toml:7: listener.origin = "http://a, http://b": takes one server; for several write a block [[upstream]] with name = "app" and servers = ["http://…", "http://…"], and here its name, "app"
            loligo.toml:9: listener.route.origin = ["http://a"]: takes one server: leave the brackets out
        "#]],
    );
}

#[test]
fn a_list_that_is_too_long_is_told_by_its_place() {
    let hosts: Vec<String> = (0..100_000).map(|n| format!("\"h{n}.example\"")).collect();
    let text = format!(
        "[[rule]]\ndeny = true\nhost = [{}, \"http://x\"]\n",
        hosts.join(", ")
    );
    wrong(
        &text,
        expect![[r#"
            loligo.toml:3: rule.host = [… 100001 values]: at most 100000 values; the others go into a second rule, hosts into a file (host-list)
        "#]],
    );
    let routes = "[[listener.route]]\n".repeat(100_001);
    wrong(
        &format!("[[listener]]\n{routes}"),
        expect![[r#"
            loligo.toml:100002: listener.route: at most 100000 routes a listener
        "#]],
    );
    let told = complaints(&format!("name = \"{}\"\n", "a".repeat(10_000)));
    assert!(told.len() < 500, "{} bytes", told.len());
}

#[test]
fn settings_in_the_wrong_place_and_what_follows_from_a_wrong_block() {
    wrong(
        "[[upstream]]\nname = \"app\"\nservers = []\n[[upstream]]\nname = \"other\"\nservers = [\"http://a\"]\nhealth = \"/x\"\n\
         [[listener]]\norigin = \"app\"\nuser = \"nobody\"\n[listener.timeouts]\nconnect = \"1s\"\n\
         [[listener]]\naddress = 3130\npreset = \"go\"\nupstream = [\"https://a\", \"https://b\"]\n\
         [[listener]]\naddress = 3131\npreset = \"oci\"\nupstream = \"https://a\"\ntoken-hosts = [\"*\"]\n\
         [[rule]]\nredirect = \"/a\"\nredirect-status = 200\n",
        expect![[r#"
            loligo.toml:3: upstream.servers = []: name one server at least: servers = ["http://10.0.0.1:8080"]
            loligo.toml:7: upstream.health = "/x": takes settings of its own, such as { path = … }; there are path, status, every, time-out, rise, fall
            loligo.toml:10: listener.user = "nobody": is a setting of the whole proxy: write it above the first [block]
            loligo.toml:11: listener.timeouts: is not part of this block: write it above the first [block], or as a block of its own, [timeouts]
            loligo.toml:16: listener.upstream = ["https://a", "https://b"]: the preset go takes one URL; see docs/mirrors.md
            loligo.toml:21: listener.route.token-hosts = ["*"]: "*": expected a host such as "files.example.org", "*.example.org" or "HOST:PORT"
            loligo.toml:24: rule.redirect-status = 200: expected 301, 302, 303, 307 or 308
        "#]],
    );
    wrong(
        "[[upstream]]\nservers = [\"http://a\"]\n[[listener]]\norigin = \"app\"\n",
        expect![[r#"
            loligo.toml:1: upstream.name: every upstream needs it: name = "app"
        "#]],
    );
}
