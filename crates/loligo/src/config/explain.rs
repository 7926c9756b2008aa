//! A checked configuration in words: what it listens on, whom it serves, what it keeps where.
//!
//! Printed by `loligo check`; the words come from the plan, not from what was written, so that a default and the
//! same value written out read alike.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use proxy::plan::{
    AccessFormat, AdmissionKind, Destinations, Forward, Forwarded, IoEngine, LazyMode, Listener,
    LocalityMode, LogTarget, Plan, PolicyKind, Replacement, Role, Route, StorePlan, Storing,
};

use crate::config::into_plan::Settled;
use crate::config::machine::{Existing, OnDisk};
use crate::config::raw::{Given, Raw, Value};
use crate::config::rules;
use crate::config::settings::{Kind, Setting};
use crate::config::stores;
use crate::config::table::{STORE, TOP};
use crate::units::{Size, Time};

/// The whole explanation, lines with ends.
pub fn explain(settled: &Settled, raw: &Raw) -> String {
    let plan = &settled.plan;
    let mut out = String::new();
    for listener in &plan.listeners {
        explain_listener(listener, &mut out);
    }
    match &plan.admin {
        Some(admin) => {
            head(
                &mut out,
                &format!("admin interface on {}", address(admin.address)),
            );
            line(&mut out, "for", &clients(&admin.allow));
            let names = [
                &["IP addresses, localhost".to_owned()],
                &plan.admin_names[..],
            ]
            .concat();
            line(&mut out, "asked by", &names.join(", "));
            line(&mut out, "offers", "/metrics, /status, /healthz, PURGE");
            if plan.logs.top {
                line(&mut out, "counts", "the hosts and URLs asked for most");
            }
        }
        None => head(&mut out, "no admin interface"),
    }
    head(&mut out, "cache");
    line(&mut out, "memory", &memory(plan));
    if plan.stores.is_empty() {
        line(&mut out, "disk", "none");
    } else {
        explain_stores(settled, &mut out);
    }
    let cache = &plan.cache;
    if !(cache.stale_while_revalidate.is_zero() && cache.stale_if_error.is_zero()) {
        let text = format!(
            "{} while revalidated, {} if the origin fails, where it says nothing",
            Time(cache.stale_while_revalidate),
            Time(cache.stale_if_error)
        );
        line(&mut out, "stale for", &text);
    }
    for (n, rule) in plan.rules.iter().enumerate() {
        line(&mut out, &format!("rule {}", n + 1), &rules::explain(rule));
    }
    head(&mut out, "runs with");
    line(&mut out, "workers", &count(plan.workers, "thread"));
    line(
        &mut out,
        "clients",
        &format!(
            "at most {} connections at once",
            plan.limits.connections_max
        ),
    );
    line(
        &mut out,
        "heads",
        &format!(
            "at most {} and {} fields, {} of those that are not complete",
            Size(plan.limits.head_bytes_max as u64),
            plan.limits.fields_max,
            Size(plan.limits.head_buffer_bytes)
        ),
    );
    line(
        &mut out,
        "transfers",
        &format!(
            "at most {} of bodies on their way",
            Size(plan.limits.transfer_buffer_bytes)
        ),
    );
    line(
        &mut out,
        "stopping",
        &format!(
            "waits up to {} for running requests",
            Time(plan.timeouts.drain)
        ),
    );
    explain_logs(settled, &mut out);
    changed(raw, &mut out);
    for note in settled.notes.iter().chain(&settled.fitted) {
        let _ = writeln!(out, "\nnote: {note}");
    }
    out
}

fn head(out: &mut String, text: &str) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}{text}");
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<13} {text}");
}

fn count(n: usize, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

fn address(address: std::net::SocketAddr) -> String {
    match (address.ip().is_unspecified(), address.port()) {
        (_, 0) => format!("{}, any free port", address.ip()),
        (true, _) => format!("{address} (every address of this machine)"),
        (false, _) => address.to_string(),
    }
}

fn explain_listener(listener: &Listener, out: &mut String) {
    match &listener.role {
        Role::Forward(forward) => {
            head(
                out,
                &format!("forward proxy on {}", address(listener.address)),
            );
            line(out, "for", &clients(&listener.allow));
            explain_purges(listener, out);
            line(out, "fetches", &destinations(&forward.destinations));
            line(out, "to ports", &http_ports(forward));
            line(out, "tunnels", &tunnels(forward));
            line(out, "directives", &directives(listener));
            if listener.forwarded != Forwarded::None {
                line(out, "says", &forwarded(listener));
            }
        }
        Role::Reverse(routes) => {
            head(
                out,
                &format!("reverse proxy on {}", address(listener.address)),
            );
            line(out, "for", &clients(&listener.allow));
            line(out, "directives", &directives(listener));
            explain_purges(listener, out);
            for route in routes {
                line(out, "route", &explain_route(route));
            }
            if !routes
                .iter()
                .any(|route| route.host.is_none() && route.path_prefix == "/")
            {
                line(out, "otherwise", "requests are refused");
            }
            line(out, "says", &forwarded(listener));
        }
    }
}

fn explain_purges(listener: &Listener, out: &mut String) {
    if !listener.purge_from.is_empty() {
        line(out, "purges from", &networks(&listener.purge_from));
    }
}

/// Whose word counts in matters of caching.
fn directives(listener: &Listener) -> String {
    let heeds = &listener.heeds;
    let clients = rules::directives_in_words(heeds.client_directives);
    let targeted = match (&listener.role, heeds.targeted) {
        (Role::Reverse(_), false) => "; CDN-Cache-Control not obeyed",
        _ => "",
    };
    format!("of clients {clients}{targeted}")
}

fn clients(allow: &[IpNet]) -> String {
    if allow.is_empty() {
        return "this machine only".to_owned();
    }
    let everybody = |v4: bool| {
        allow
            .iter()
            .any(|net| net.prefix_len() == 0 && net.addr().is_ipv4() == v4)
    };
    if everybody(true) && everybody(false) {
        return "everybody".to_owned();
    }
    format!("this machine and {}", networks(allow))
}

fn networks(nets: &[IpNet]) -> String {
    let nets: Vec<_> = nets
        .iter()
        .map(|net| {
            if net.prefix_len() == net.max_prefix_len() {
                net.addr().to_string()
            } else {
                net.to_string()
            }
        })
        .collect();
    nets.join(", ")
}

fn destinations(allowed: &Destinations) -> String {
    let mut text = match (allowed.loopback, allowed.link_local) {
        (true, true) => "from anywhere, this machine and link-local addresses included".to_owned(),
        (true, false) => {
            "from anywhere, this machine included, link-local addresses refused".to_owned()
        }
        (false, true) => {
            "from anywhere, link-local addresses included, this machine refused".to_owned()
        }
        (false, false) => "from anywhere; this machine and link-local addresses refused".to_owned(),
    };
    let some_refused = !allowed.loopback || !allowed.link_local;
    if some_refused && !allowed.allow.is_empty() {
        let _ = write!(text, ", except {}", networks(&allowed.allow));
    }
    text
}

fn http_ports(forward: &Forward) -> String {
    let range = |range: &RangeInclusive<u16>| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    let ranges: Vec<_> = forward.http_ports.iter().map(range).collect();
    match ranges.is_empty() {
        true => "none: only tunnels".to_owned(),
        false => ranges.join(", "),
    }
}

/// What origins are told.
fn forwarded(listener: &Listener) -> String {
    let is_host_told = match &listener.role {
        Role::Forward(_) => false,
        Role::Reverse(routes) => routes.iter().any(|route| route.pass_host),
    };
    let fields = match is_host_told {
        true => "X-Forwarded-For, -Proto and -Host",
        false => "X-Forwarded-For and -Proto",
    };
    match listener.forwarded {
        Forwarded::Replace => format!("{fields}, in place of the client's"),
        Forwarded::Append => format!("{fields}, added to the client's"),
        Forwarded::None => "nothing of the client; what it says of itself passes".to_owned(),
    }
}

fn tunnels(forward: &Forward) -> String {
    let ports: Vec<_> = forward.connect_ports.iter().map(u16::to_string).collect();
    match ports.len() {
        0 => "none: CONNECT is refused".to_owned(),
        1 => format!("CONNECT to port {}", ports[0]),
        _ => format!("CONNECT to ports {}", ports.join(", ")),
    }
}

fn explain_route(route: &Route) -> String {
    let host = match &route.host {
        None => "any host".to_owned(),
        Some(name) => match name.strip_prefix("*.") {
            Some(suffix) => format!("hosts below {suffix}"),
            None => name.clone(),
        },
    };
    let path = if route.path_prefix == "/" {
        ""
    } else {
        route.path_prefix.as_str()
    };
    let sent = host_sent(route);
    format!(
        "{host}{}{path} -> {} ({sent})",
        if path.is_empty() { "" } else { ", " },
        route.origin
    )
}

fn host_sent(route: &Route) -> &'static str {
    match (route.pass_host, route.origin.tls) {
        (true, false) => "the client's Host",
        (true, true) => "the client's Host, certificate checked",
        (false, false) => "its own Host",
        (false, true) => "its own Host, certificate checked",
    }
}

fn memory(plan: &Plan) -> String {
    match plan.memory_bytes {
        0 => "none".to_owned(),
        bytes => format!(
            "{} for objects up to {}",
            Size(bytes),
            Size(plan.limits.memory_object_bytes_max)
        ),
    }
}

fn explain_stores(settled: &Settled, out: &mut String) {
    let plan = &settled.plan;
    let weights: u64 = plan.stores.iter().map(|s| u64::from(s.weight)).sum();
    for (store, on_disk) in plan.stores.iter().zip(&settled.stores_on_disk) {
        line(out, "disk", &store.path.display().to_string());
        line(out, "size", &store_size(store, on_disk));
        if plan.stores.len() > 1 {
            let percent = u64::from(store.weight) * 100 / weights.max(1);
            line(out, "share", &format!("{percent}% of the objects"));
        }
        if store.force {
            line(
                out,
                "what is there",
                "is overwritten, whoever it belongs to",
            );
        }
        if !store.direct {
            line(out, "goes", "through the page cache");
        }
    }
    if plan.stores.len() > 1 {
        let text = "each works for itself; the share of one that fails is fetched from the origins";
        line(out, "together", text);
    }
    explain_storing(plan, out);
}

fn store_size(store: &StorePlan, on_disk: &OnDisk) -> String {
    match (store.size_bytes, &on_disk.existing) {
        (None, Some(Existing::File(bytes))) => {
            format!("{}, the file's size as it is", Size(*bytes))
        }
        (None, _) => "the whole device".to_owned(),
        (Some(bytes), Some(Existing::File(now @ 1..))) if *now != bytes => {
            format!("{}; the file there has {}", Size(bytes), Size(*now))
        }
        (Some(bytes), Some(Existing::Device)) => format!("{} of the device", Size(bytes)),
        (Some(bytes), Some(Existing::File(1..))) => format!("{}, as the file has", Size(bytes)),
        (Some(bytes), _) => format!("{}, to be made at the first start", Size(bytes)),
    }
}

fn explain_storing(plan: &Plan, out: &mut String) {
    let storing = &plan.storing;
    line(
        out,
        "objects",
        &format!("up to {}", Size(plan.limits.object_bytes_max)),
    );
    line(
        out,
        "comes in",
        match storing.admission {
            AdmissionKind::All => "all that may be stored",
            AdmissionKind::SecondHit => "what was missed before, lately",
            AdmissionKind::TinyLfu => {
                "while there is room, all; then what was asked for twice lately"
            }
        },
    );
    line(out, "goes out", &replacement(plan));
    let together = |servers: usize| {
        let servers = count(servers, "server");
        format!("objects of one server together, for {servers} at a time")
    };
    match storing.locality {
        LocalityMode::Servers(0) => {}
        LocalityMode::Servers(servers) => line(out, "written", &together(servers.into())),
        LocalityMode::Measured => {
            let text = together(storing.locality.buffers());
            line(out, "written", &format!("where reads are slow, {text}"));
        }
    }
    let wait = Time(storing.lazy_reads_deadline);
    let mut reads = match storing.lazy_reads {
        LazyMode::Measured => format!(
            "at once; where they are measured to be slow, up to {} together, waiting up to {wait}",
            Storing::LAZY_READS.default
        ),
        LazyMode::Gather(0 | 1) => "at once".to_owned(),
        LazyMode::Gather(n) => format!("up to {n} together, waiting up to {wait}"),
    };
    let by_hand = matches!(storing.replacement, Replacement::SecondChance { .. });
    let is_lazy = !matches!(storing.lazy_reads, LazyMode::Gather(0 | 1));
    if storing.group_bytes > 0 && by_hand && is_lazy {
        let group = Size(u64::from(storing.group_bytes));
        let _ = write!(reads, ", and then {group} at a time, for what lies beside");
    }
    let patience = Time(storing.read_wait);
    let _ = write!(
        reads,
        "; what has not come after {patience}, from the origin"
    );
    line(out, "read", &reads);
    let engine = match storing.io_engine {
        IoEngine::Auto => "io_uring where the kernel allows it, else threads",
        IoEngine::Uring => "io_uring, or it does not start",
        IoEngine::Threads => "threads",
    };
    let direct = plan.stores.iter().all(|store| store.direct);
    let direct = if direct { "; past the page cache" } else { "" };
    line(out, "disk I/O", &format!("{engine}{direct}"));
}

fn replacement(plan: &Plan) -> String {
    let marks = plan.storing.watermarks;
    let order = match plan.storing.replacement {
        Replacement::SecondChance { window_percent: 0 } => {
            return "what was written longest ago, used or not".to_owned();
        }
        Replacement::SecondChance { .. } => {
            return "what was written longest ago and is not used".to_owned();
        }
        Replacement::Ordered(PolicyKind::LruThreshold { size_max }) => format!(
            "what was used longest ago; nothing longer than {} comes in",
            Size(size_max)
        ),
        Replacement::Ordered(PolicyKind::Lru) => "what was used longest ago".to_owned(),
        Replacement::Ordered(kind) => format!("object by object, as {kind} says"),
    };
    format!(
        "{order}; from {}% full down to {}%",
        marks.high_percent, marks.low_percent
    )
}

fn explain_logs(settled: &Settled, out: &mut String) {
    let logs = &settled.plan.logs;
    let access = match &logs.access {
        None => "none".to_owned(),
        Some(log) => {
            let format = match log.format {
                AccessFormat::Squid => "Squid's format",
                AccessFormat::Json => "JSON lines",
                AccessFormat::Combined => "the combined format",
            };
            match &log.target {
                LogTarget::Stdout => format!("standard output, {format}"),
                LogTarget::File(path) => format!("{}, {format}", path.display()),
            }
        }
    };
    line(out, "access log", &access);
    line(
        out,
        "profile",
        &logs
            .profile
            .as_ref()
            .map_or("none".to_owned(), |path| path.display().to_string()),
    );
    line(
        out,
        "says",
        &format!("{} on standard error", settled.log_level),
    );
}

/// Numbers and switches that were set, beside their defaults: what is easily overlooked in a long file.
fn changed(raw: &Raw, out: &mut String) {
    let (given, stores, _) = stores::split(raw);
    let mut lines = differing(
        "store.",
        STORE,
        stores.iter().map(|store| store.given.as_slice()),
    );
    lines.extend(differing("", TOP, [given.as_slice()]));
    if lines.is_empty() {
        return;
    }
    head(out, "set differently from the default");
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}

/// Those of a table, block by block.
fn differing<'a, T>(
    scope: &str,
    table: &[Setting<T>],
    blocks: impl IntoIterator<Item = &'a [Given]>,
) -> Vec<String> {
    let mut lines = Vec::new();
    for block in blocks {
        for setting in table {
            let Some(given) = block.iter().rfind(|given| given.key == setting.key) else {
                continue;
            };
            let value = match &given.value {
                Value::Text(text) => text.clone(),
                value => value.to_string(),
            };
            let default = setting.kind.default();
            if matches!(setting.kind, Kind::Own { .. }) || value == default {
                continue;
            }
            lines.push(format!(
                "{scope}{} = {value}   (default {default})",
                setting.key
            ));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::settle_raw;
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        let (raw, settled) = settle_raw(text);
        expected.assert_eq(&explain(&settled.unwrap(), &raw));
    }

    #[test]
    fn the_default_in_words() {
        check(
            "",
            expect![[r#"
                forward proxy on 127.0.0.1:3128
                  for           this machine only
                  fetches       from anywhere, this machine and link-local addresses included
                  to ports      80, 443, 1024-65535
                  tunnels       CONNECT to port 443
                  directives    of clients obeyed, reloads by one request a second

                admin interface on 127.0.0.1:3129
                  for           this machine only
                  asked by      IP addresses, localhost
                  offers        /metrics, /status, /healthz, PURGE

                cache
                  memory        512MiB for objects up to 1MiB
                  disk          /home/u/.cache/loligo/store
                  size          10GiB, to be made at the first start
                  objects       up to 1GiB
                  comes in      all that may be stored
                  goes out      what was written longest ago and is not used
                  written       where reads are slow, objects of one server together, for 128 servers at a time
                  read          at once; where they are measured to be slow, up to 10 together, waiting up to 2ms, and then 64KiB at a time, for what lies beside; what has not come after 5s, from the origin
                  disk I/O      io_uring where the kernel allows it, else threads; past the page cache

                runs with
                  workers       4 threads
                  clients       at most 16384 connections at once
                  heads         at most 16KiB and 128 fields, 64MiB of those that are not complete
                  transfers     at most 256MiB of bodies on their way
                  stopping      waits up to 30s for running requests
                  access log    none
                  profile       none
                  says          info on standard error
            "#]],
        );
    }

    #[test]
    fn who_purges_and_what_is_counted_is_said() {
        let text = "admin.top = true\n[[listener]]\naddress = 8080\norigin = \"http://o\"\npurge-from = [\"10.0.0.1\"]";
        let (raw, settled) = settle_raw(text);
        let words = explain(&settled.unwrap(), &raw);
        for line in [
            "  counts        the hosts and URLs asked for most\n",
            "  purges from   10.0.0.1\n",
        ] {
            assert!(words.contains(line), "{words}");
        }
    }

    #[test]
    fn a_full_configuration_in_words() {
        check(
            r#"
            workers = 1
            memory = "none"
            admin.address = "none"
            store.path = "/x/half-gib"
            store.direct = false
            timeouts.drain = "1m"
            limits.head-max = "64KiB"
            log.access = "-"
            log.profile = "/x/profile"
            [[listener]]
            address = "0.0.0.0:3128"
            allow = ["10.0.0.0/8", "192.0.2.7"]
            connect-ports = [443, 8443]
            allow-destinations = ["127.0.0.2"]
            [[listener]]
            address = "127.0.0.1:0"
            [[listener.route]]
            host = "*.example.org"
            path = "/docs"
            origin = "https://docs.example"
            [[listener.route]]
            host = "example.org"
            origin = "http://127.0.0.1:8080"
            pass-host = true
            "#,
            expect![[r#"
                forward proxy on 0.0.0.0:3128 (every address of this machine)
                  for           this machine and 10.0.0.0/8, 192.0.2.7
                  fetches       from anywhere; this machine and link-local addresses refused, except 127.0.0.2
                  to ports      80, 443, 1024-65535
                  tunnels       CONNECT to ports 443, 8443
                  directives    of clients obeyed, reloads by one request a second

                reverse proxy on 127.0.0.1, any free port
                  for           this machine only
                  directives    of clients ignored, but for only-if-cached
                  route         example.org -> http://127.0.0.1:8080 (the client's Host)
                  route         hosts below example.org, /docs -> https://docs.example (the client's Host, certificate checked)
                  otherwise     requests are refused
                  says          X-Forwarded-For, -Proto and -Host, in place of the client's

                no admin interface

                cache
                  memory        none
                  disk          /x/half-gib
                  size          512MiB, the file's size as it is
                  goes          through the page cache
                  objects       up to 1GiB
                  comes in      all that may be stored
                  goes out      what was written longest ago and is not used
                  written       where reads are slow, objects of one server together, for 128 servers at a time
                  read          at once; where they are measured to be slow, up to 10 together, waiting up to 2ms, and then 64KiB at a time, for what lies beside; what has not come after 5s, from the origin
                  disk I/O      io_uring where the kernel allows it, else threads

                runs with
                  workers       1 thread
                  clients       at most 16384 connections at once
                  heads         at most 64KiB and 128 fields, 64MiB of those that are not complete
                  transfers     at most 256MiB of bodies on their way
                  stopping      waits up to 1m for running requests
                  access log    standard output, Squid's format
                  profile       /x/profile
                  says          info on standard error

                set differently from the default
                  store.direct = false   (default true)
                  limits.head-max = 64KiB   (default 16KiB)
                  timeouts.drain = 1m   (default 30s)
            "#]],
        );
    }

    #[test]
    fn several_stores_in_words() {
        let text = r#"
            [[store]]
            path = "/x/half-gib"
            direct = false
            [[store]]
            path = "/x/device"
            weight = 3
            force = true
            replacement = "lru-threshold=1MiB"
            admission = "second-hit"
            locality-buffers = 32
            lazy-reads = 10
            "#;
        let (raw, settled) = settle_raw(text);
        let said = explain(&settled.unwrap(), &raw);
        let cache = &said[said.find("cache\n").unwrap()..said.find("\nruns with").unwrap()];
        expect![[r#"
            cache
              memory        512MiB for objects up to 1MiB
              disk          /x/half-gib
              size          512MiB, the file's size as it is
              share         25% of the objects
              goes          through the page cache
              disk          /x/device
              size          the whole device
              share         75% of the objects
              what is there is overwritten, whoever it belongs to
              together      each works for itself; the share of one that fails is fetched from the origins
              objects       up to 1GiB
              comes in      what was missed before, lately
              goes out      what was used longest ago; nothing longer than 1MiB comes in; from 97% full down to 95%
              written       objects of one server together, for 32 servers at a time
              read          up to 10 together, waiting up to 2ms; what has not come after 5s, from the origin
              disk I/O      io_uring where the kernel allows it, else threads
        "#]].assert_eq(cache);
        let (_, rest) = said.split_once("set differently").unwrap();
        expect![[r#"
             from the default
              store.direct = false   (default true)
              store.weight = 3   (default 1)
              store.force = true   (default false)

            note: /x/device is taken as a store whatever is on it (force); take force out after the first start
        "#]].assert_eq(rest);
    }
}
