//! A checked configuration in words: who is served, where requests go, where the cache is, and what is set differently from the default.
//!
//! Printed by `loligo check`. Who is served comes from the plan, not from the file, so that a default and the same value written
//! out read alike.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use commands::units::{Size, Time};
use ipnet::IpNet;
use proxy::plan::{
    Ask, ClientDirectives, Cluster, Destinations, Direct, Forward, Forwarded, HintKind, HostPort,
    Listener, ListenerTls, Mirroring, Order, OriginTls, Plan, ProxyProtocol, Role, Route,
    StorePlan, Upstream,
};

use super::machine::{Existing, OnDisk};
use super::presets;
use super::quotas;
use super::raw::{Block, Raw};
use super::rows::Row;
use super::signing;
use super::{Settled, cluster, general, stores};
use super::{origin_http2, origin_tls};

/// The whole explanation, lines with ends.
pub fn explain(settled: &Settled, raw: &Raw) -> String {
    let plan = &settled.plan;
    let mut out = String::new();
    for listener in &plan.listeners {
        explain_listener(listener, &plan.tls, &mut out);
    }
    for upstream in &plan.upstreams {
        explain_upstream(upstream, &plan.tls, &mut out);
    }
    if !plan.quotas.is_empty() {
        head(&mut out, "limits");
        for quota in &plan.quotas {
            let _ = writeln!(out, "  {}", quotas::explain(quota));
        }
    }
    explain_peers(plan, &mut out);
    if let Some(cluster) = &plan.cluster {
        explain_cluster(cluster, !plan.stores.is_empty(), &mut out);
    }
    match &plan.admin {
        Some(admin) => {
            let title = format!("admin interface on {}", address(admin.address));
            head(&mut out, &title);
            line(&mut out, "for", &clients(&admin.allow));
        }
        None => head(&mut out, "no admin interface"),
    }
    head(&mut out, "cache");
    let memory = match plan.memory_bytes {
        0 => "none".to_owned(),
        bytes => Size(bytes).to_string(),
    };
    line(&mut out, "memory", &memory);
    if plan.stores.is_empty() {
        line(&mut out, "disk", "none");
    }
    explain_stores(plan, &settled.stores_on_disk, &mut out);
    if let Some(zone) = &settled.time_zone {
        head(&mut out, "rules");
        line(&mut out, "hours in", zone);
    }
    if let Some(user) = &plan.user {
        head(&mut out, "process");
        let (name, uid, gid) = (&user.name, user.uid, user.gid);
        line(
            &mut out,
            "becomes",
            &format!("{name} (user {uid}, group {gid}) before anybody can connect"),
        );
    }
    differing(raw, &mut out);
    for (preset, text) in presets::written_out(raw) {
        head(&mut out, &format!("{preset} stands for"));
        for line in text.lines() {
            let _ = writeln!(out, "{}", format!("  {line}").trim_end());
        }
    }
    let more_notes = more(settled.notes.len());
    let notes = settled.notes.iter().take(TOLD_MAX).chain(&more_notes);
    for note in notes.chain(&settled.fitted) {
        let _ = writeln!(out, "\nnote: {note}");
    }
    out
}

/// The most items of a list that are printed.
const TOLD_MAX: usize = 100;

/// A line for the items beyond [`TOLD_MAX`], if a list of this length has any.
fn more(len: usize) -> Option<String> {
    (len > TOLD_MAX).then(|| format!("… and {} more", len - TOLD_MAX))
}

fn head(out: &mut String, text: &str) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}{text}");
}

fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "  {name:<13} {text}");
}

fn address(address: std::net::SocketAddr) -> String {
    match (address.ip().is_unspecified(), address.port()) {
        (_, 0) => format!("{}, any free port", address.ip()),
        (true, _) => format!("{address} (every address of this machine)"),
        (false, _) => address.to_string(),
    }
}

fn explain_listener(listener: &Listener, of_all: &OriginTls, out: &mut String) {
    let kind = match &listener.role {
        Role::Forward(_) => "forward",
        Role::Reverse(_) => "reverse",
    };
    head(
        out,
        &format!("{kind} proxy on {}", address(listener.address)),
    );
    line(out, "for", &clients(&listener.allow));
    match &listener.tls {
        Some(tls) => explain_tls(tls, listener.http2, out),
        None if listener.http2 => {
            let text = "HTTP/1.1, and HTTP/2 with clients that begin in it";
            line(out, "speaks", text);
        }
        None => {}
    }
    let naming = &listener.naming;
    match &naming.proxy_protocol {
        ProxyProtocol::Never => {}
        ProxyProtocol::Always => line(out, "PROXY header", "required of every connection"),
        ProxyProtocol::From(balancers) => {
            let from = format!("required from {}", networks(balancers));
            line(out, "PROXY header", &from);
        }
    }
    if !naming.trusted.is_empty() {
        let (field, trusted) = (naming.field.name(), networks(&naming.trusted));
        line(out, "client", &format!("as {field} says, from {trusted}"));
    }
    if !listener.quotas.is_empty() {
        line(out, "limits", &listener.quotas.join(", "));
    }
    if !listener.purge_from.is_empty() {
        line(out, "purges from", &networks(&listener.purge_from));
    }
    let directives = match listener.heeds.client_directives {
        ClientDirectives::Obey => "of clients obeyed, reloads by a request made after they came",
        ClientDirectives::Revalidate => "of clients obeyed, reloads by one request a second",
        ClientDirectives::Ignore => "of clients ignored, but for only-if-cached",
    };
    line(out, "directives", directives);
    match &listener.role {
        Role::Forward(forward) => {
            line(out, "fetches", &destinations(&forward.destinations));
            line(out, "to ports", &http_ports(forward));
            line(out, "tunnels", &tunnels(forward));
        }
        Role::Reverse(routes) => {
            for route in routes.iter().take(TOLD_MAX) {
                line(out, "route", &explain_route(route, of_all));
            }
            if let Some(more) = more(routes.len()) {
                line(out, "routes", &more);
            }
            if !(routes.iter()).any(|route| route.host.is_none() && route.path_prefix == "/") {
                line(out, "otherwise", "requests are refused");
            }
            if !listener.heeds.targeted {
                line(out, "ignores", "CDN-Cache-Control of origins");
            }
        }
    }
    line(out, "tells origins", &forwarded(listener));
}

fn explain_tls(tls: &ListenerTls, http2: bool, out: &mut String) {
    let versions = match tls.only_tls13 {
        true => "TLS 1.3",
        false => "TLS 1.2 and 1.3",
    };
    let http = match http2 {
        true => "HTTP/2 and HTTP/1.1",
        false => "HTTP/1.1",
    };
    line(out, "speaks", &format!("{http} over {versions}"));
    if tls.is_acme {
        line(out, "certificate", "ordered (acme)");
    }
    let in_files = tls.certificates.get(usize::from(tls.is_acme)..);
    let in_files = in_files.unwrap_or_default();
    for files in in_files.iter().take(TOLD_MAX) {
        let words = match proxy::look_at_certificate(files) {
            Ok(shown) => shown.words(),
            Err(why) => why.to_string(),
        };
        line(out, "certificate", &words);
    }
    if let Some(more) = more(in_files.len()) {
        line(out, "certificates", &more);
    }
    if tls.is_self_signed {
        line(out, "certificate", "made at the start; nobody trusts it");
    }
    if tls.early_data {
        let words = "a fresh hit is answered before the handshake is complete";
        line(out, "early data", words);
    }
    if let Some(clients) = &tls.clients {
        let how = match clients.are_required {
            true => "required of clients",
            false => "clients may show one",
        };
        let ca = clients.ca.display();
        line(out, "theirs", &format!("{how}, signed by {ca}"));
    }
}

fn explain_peers(plan: &Plan, out: &mut String) {
    let hosts = |domains: &[String]| match domains {
        [] => "all hosts".to_owned(),
        domains => domains.join(", "),
    };
    if !plan.parents.is_empty() {
        head(out, "parents");
    }
    for parent in &plan.parents {
        let order = match parent.order {
            Order::First => "in this order",
            Order::Hash => "by the hash of the URL",
            Order::RoundRobin => "in turn",
        };
        let direct = match parent.direct {
            Direct::Never => "never the origin",
            Direct::Fallback => "the origin if none answers",
            Direct::Prefer => "after the origin",
        };
        let text = format!(
            "at {}{}, for {}, {order}; {direct}",
            parent.at,
            parent
                .tls
                .as_deref()
                .map(|tls| format!(" (TLS{})", origin_tls::explain(tls)))
                .unwrap_or_default(),
            hosts(&parent.domains)
        );
        line(out, &parent.name, &text);
    }
    if !plan.siblings.is_empty() {
        head(out, "siblings");
    }
    for sibling in &plan.siblings {
        let ask = match sibling.ask {
            Ask::Icp { port } => format!("asked by ICP on port {port}"),
            Ask::Digest => "known by its digest".to_owned(),
            Ask::Try => "tried".to_owned(),
        };
        let text = format!("at {}, for {}, {ask}", sibling.at, hosts(&sibling.domains));
        line(out, &sibling.name, &text);
    }
}

fn explain_cluster(cluster: &Cluster, has_store: bool, out: &mut String) {
    let title = format!(
        "member {} of a cluster, on {}",
        cluster.name,
        address(cluster.address)
    );
    head(out, &title);
    let part = match (cluster.front, has_store) {
        (true, true) => {
            "front and node: it routes by what others hold, and others ask it for what it holds"
        }
        (true, false) => "front: it routes by what others hold",
        (false, _) => "node: others ask it for what it holds",
    };
    line(out, "is", part);
    for member in &cluster.members {
        line(out, "member", &format!("{} at {}", member.name, member.at));
    }
    if let Some(name) = &cluster.discover {
        let text = format!(
            "all addresses of {name}, asked every {}; and whoever proves the key. One that has left is forgotten after {}",
            Time(cluster.discover_every),
            Time(cluster.forget_after)
        );
        line(out, "members", &text);
    }
    let kind = match cluster.hints {
        HintKind::Bloom => format!("filters, {} bits an object", cluster.bits_per_object),
        HintKind::Directory => "tables of all objects".to_owned(),
    };
    line(
        out,
        "hints",
        &format!("{kind}, every {}", Time(cluster.update_period)),
    );
    match &cluster.state {
        Some(path) => line(out, "journal", &path.display().to_string()),
        None => line(
            out,
            "journal",
            "in memory: a restart forgets purges that a member which is away has not heard",
        ),
    }
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
    let show = |net: &IpNet| match net.prefix_len() == net.max_prefix_len() {
        true => net.addr().to_string(),
        false => net.to_string(),
    };
    nets.iter().map(show).collect::<Vec<_>>().join(", ")
}

fn destinations(allowed: &Destinations) -> String {
    let kinds = [
        (allowed.loopback, "this machine"),
        (allowed.link_local, "link-local addresses"),
    ];
    let of = |wanted: bool| {
        let kinds = kinds.iter().filter(|(permitted, _)| *permitted == wanted);
        kinds
            .map(|(_, kind)| *kind)
            .collect::<Vec<_>>()
            .join(" and ")
    };
    let mut text = "from anywhere".to_owned();
    for (permitted, verb) in [(true, "included"), (false, "refused")] {
        let kinds = of(permitted);
        if !kinds.is_empty() {
            let _ = write!(text, "; {kinds} {verb}");
        }
    }
    if !of(false).is_empty() && !allowed.allow.is_empty() {
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

fn tunnels(forward: &Forward) -> String {
    let ports: Vec<_> = forward.connect_ports.iter().map(u16::to_string).collect();
    match ports.is_empty() {
        true => "none: CONNECT is refused".to_owned(),
        false => format!("CONNECT to {}", ports.join(", ")),
    }
}

/// The fields by which a listener tells origins about its clients.
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
        Forwarded::None => "nothing of clients; what they say of themselves passes".to_owned(),
    }
}

fn explain_route(route: &Route, of_all: &OriginTls) -> String {
    let host = match route.host.as_deref() {
        None => "any host".to_owned(),
        Some(name) => name
            .strip_prefix("*.")
            .map_or_else(|| name.to_owned(), |suffix| format!("hosts below {suffix}")),
    };
    let path = match route.path_prefix.as_str() {
        "/" => String::new(),
        path => format!(", {path}"),
    };
    let sent = match route.pass_host {
        true => "the client's Host",
        false if route.upstream.is_some() => "the upstream's Host",
        false => "its own Host",
    };
    if route.upstream.is_some() {
        return format!(
            "{host}{path} -> {}, see below ({sent})",
            route.origin_name()
        );
    }
    let checked = match (&route.tls, route.origin.tls) {
        (Some(tls), _) => origin_tls::explain(tls),
        (None, true) => origin_tls::explain(of_all),
        (None, false) => String::new(),
    };
    let told = match route.tells_client {
        true => ", PROXY header",
        false => "",
    };
    let signed = route.sign.as_deref().map(signing::explain);
    let signed = signed.unwrap_or_default();
    let more = explain_mirror(&route.mirror);
    let by = origin_http2::explain(route.http2);
    format!(
        "{host}{path} -> {} ({sent}{checked}{by}{told}{more}{signed})",
        route.origin
    )
}

/// The mirroring of a route, in words.
fn explain_mirror(mirror: &Mirroring) -> String {
    let hosts = |hosts: &[HostPort]| {
        let words = hosts.iter().map(|host| match host.port {
            Some(port) => format!("{}:{port}", host.host),
            None => host.host.clone(),
        });
        words.collect::<Vec<_>>().join(", ")
    };
    let mut said = String::new();
    if !mirror.strip.is_empty() {
        said += &format!(", without {}", mirror.strip);
    }
    if let Some(host) = &mirror.origin_host {
        said += &format!(", as {host}");
    }
    if !mirror.follow.is_empty() {
        said += &format!(", redirects followed to {}", hosts(&mirror.follow));
    }
    if let Some(replace) = &mirror.replace {
        said += &format!(", {} replaced by {:?}", replace.from, replace.to);
    }
    if mirror.verify {
        said += ", digests checked";
    }
    match mirror.tokens.as_deref() {
        None => {}
        Some([]) => said += ", with its tokens",
        Some(listed) => said += &format!(", with tokens of its own or of {}", hosts(listed)),
    }
    said
}

fn explain_upstream(upstream: &Upstream, of_all: &OriginTls, out: &mut String) {
    head(out, &format!("upstream {}", upstream.name));
    let checked = |tls: bool| match tls {
        true => origin_tls::explain(upstream.tls.as_deref().unwrap_or(of_all)),
        false => String::new(),
    };
    let all = |backup| (upstream.servers.iter()).filter(move |it| it.backup == backup);
    for is_backup in [false, true] {
        let weights: u32 = all(is_backup).map(|it| it.weight).sum();
        for server in all(is_backup) {
            let checked = checked(server.at.tls);
            let percent = server.weight * 100 / weights.max(1);
            let share = match is_backup {
                true => format!("{percent}% if no other is up"),
                false => format!("{percent}%"),
            };
            line(out, "server", &format!("{} ({share}{checked})", server.at));
        }
    }
    for name in &upstream.names {
        let backup = if name.backup {
            ", if no other is up"
        } else {
            ""
        };
        let mut checked = checked(name.tls);
        if name.tls && upstream.tls.as_deref().unwrap_or(of_all).name.is_none() {
            checked += &format!(", as {}", name.certified());
        }
        line(out, "servers", &format!("those of {name}{backup}{checked}"));
    }
    line(out, "chosen by", upstream.balance.word());
    let by = origin_http2::explain(upstream.http2);
    if let Some(by) = by.strip_prefix(", ") {
        line(out, "asked by", by);
    }
    if let Some(signing) = &upstream.sign {
        line(
            out,
            "requests",
            signing::explain(signing).trim_start_matches(", "),
        );
    }
    let health = match &upstream.health {
        Some(check) => {
            let every = Time(check.every);
            format!("GET {} every {every}, and by requests", check.path)
        }
        None => "by requests alone".to_owned(),
    };
    line(out, "health", &health);
}

fn explain_stores(plan: &Plan, on_disk: &[OnDisk], out: &mut String) {
    let weights: u64 = plan.stores.iter().map(|s| u64::from(s.weight)).sum();
    for (store, on_disk) in plan.stores.iter().zip(on_disk) {
        line(out, "disk", &store.path.display().to_string());
        line(out, "size", &store_size(store, on_disk));
        if plan.stores.len() > 1 {
            let percent = u64::from(store.weight) * 100 / weights.max(1);
            line(out, "share", &format!("{percent}% of the objects"));
        }
    }
}

fn store_size(store: &StorePlan, on_disk: &OnDisk) -> String {
    match (store.size_bytes, &on_disk.existing) {
        (None, Some(Existing::File(bytes))) => {
            format!("{}, the file's size as it is", Size(*bytes))
        }
        (None, _) => "the whole device".to_owned(),
        (Some(bytes), Some(Existing::Device)) => format!("{} of the device", Size(bytes)),
        (Some(bytes), Some(Existing::File(1..))) => format!("{}, as the file has", Size(bytes)),
        (Some(bytes), _) => format!("{}, to be made at the first start", Size(bytes)),
    }
}

/// Settings that differ from their defaults. Left out: those of listeners, and paths and sizes of stores, which are explained above.
fn differing(raw: &Raw, out: &mut String) {
    let (of_all, blocks) = stores::split(raw, &mut Vec::new());
    let mut lines = Vec::new();
    for block in &blocks {
        let rows = stores::rows();
        let told = ["store.path", "store.size"];
        set_in(
            block,
            rows.iter().filter(|row| !told.contains(&row.key.as_str())),
            &mut lines,
        );
    }
    let whole = Block {
        given: [of_all, raw.whole.given.clone()].concat(),
        ..Block::default()
    };
    set_in(&whole, general::rows().iter(), &mut lines);
    if let Some(block) = &raw.cluster {
        let told = [
            "cluster.name",
            "cluster.address",
            "cluster.key-file",
            "cluster.state",
        ];
        let rows = cluster::rows();
        set_in(
            block,
            rows.iter().filter(|row| !told.contains(&row.key.as_str())),
            &mut lines,
        );
    }
    for (n, rule) in raw.rules.iter().enumerate().take(TOLD_MAX) {
        let said = rule.given.iter().map(|given| {
            let key = given.key.strip_prefix("rule.").unwrap_or(&given.key);
            match given.is_secret() {
                true => format!("{key} = …"),
                false => format!("{key} = {}", given.value.excerpt()),
            }
        });
        lines.push(format!(
            "rule {}: {}",
            n + 1,
            said.collect::<Vec<_>>().join(", ")
        ));
    }
    lines.extend(more(raw.rules.len()).map(|more| format!("rules: {more}")));
    if !lines.is_empty() {
        head(out, "set differently from the default");
    }
    for line in lines {
        let _ = writeln!(out, "  {line}");
    }
}

fn set_in<'a, T: 'a>(
    block: &Block,
    rows: impl Iterator<Item = &'a Row<T>>,
    lines: &mut Vec<String>,
) {
    for row in rows {
        let given = block.find(&row.key).filter(|given| !row.is_default(given));
        lines.extend(given.map(|given| {
            let (key, value, default) = (&row.key, given.value.excerpt(), &row.default);
            format!("{key} = {value}   (default: {default})")
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::testing::{machine, raw};
    use expect_test::{Expect, expect};

    #[track_caller]
    fn check(text: &str, expected: Expect) {
        let raw = raw(text).unwrap();
        let settled = crate::config::into_plan(&raw, &machine()).unwrap();
        expected.assert_eq(&explain(&settled, &raw));
    }

    #[test]
    fn the_default_in_words() {
        check(
            "",
            expect![[r#"
                forward proxy on 127.0.0.1:3128
                  for           this machine only
                  directives    of clients obeyed, reloads by one request a second
                  fetches       from anywhere; this machine and link-local addresses included
                  to ports      80, 443, 1024-65535
                  tunnels       CONNECT to 443
                  tells origins nothing of clients; what they say of themselves passes

                admin interface on 127.0.0.1:3129
                  for           this machine only

                cache
                  memory        512MiB
                  disk          /home/u/.cache/loligo/store
                  size          10GiB, to be made at the first start
            "#]],
        );
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
            timeouts.client-idle = "65s"
            limits.head-max = "64KiB"
            log.access = "-"
            log.level = "info"
            [[listener]]
            address = "0.0.0.0:3128"
            allow = ["10.0.0.0/8", "192.0.2.7"]
            connect-ports = [443, 8443]
            allow-destinations = ["127.0.0.2"]
            [[listener]]
            address = "127.0.0.1:0"
            purge-from = ["10.0.0.1"]
            [[listener.route]]
            host = "*.example.org"
            path = "/docs"
            origin = "https://docs.example"
            [[listener.route]]
            host = "example.org"
            origin = "http://127.0.0.1:8080"
            pass-host = true
            [[rule]]
            status = [404, "5xx"]
            ttl = "5s"
            "#,
            expect![[r#"
                forward proxy on 0.0.0.0:3128 (every address of this machine)
                  for           this machine and 10.0.0.0/8, 192.0.2.7
                  directives    of clients obeyed, reloads by one request a second
                  fetches       from anywhere; this machine and link-local addresses refused, except 127.0.0.2
                  to ports      80, 443, 1024-65535
                  tunnels       CONNECT to 443, 8443
                  tells origins nothing of clients; what they say of themselves passes

                reverse proxy on 127.0.0.1, any free port
                  for           this machine only
                  purges from   10.0.0.1
                  directives    of clients ignored, but for only-if-cached
                  route         example.org -> http://127.0.0.1:8080 (the client's Host)
                  route         hosts below example.org, /docs -> https://docs.example (the client's Host, certificate checked)
                  otherwise     requests are refused
                  tells origins X-Forwarded-For, -Proto and -Host, in place of the client's

                no admin interface

                cache
                  memory        none
                  disk          /x/half-gib
                  size          512MiB, the file's size as it is

                set differently from the default
                  store.direct = false   (default: true)
                  workers = 1   (default: one a core)
                  memory = "none"   (default: an eighth of the RAM, at most 1GiB)
                  admin.address = "none"   (default: 127.0.0.1:3129)
                  log.access = "-"   (default: none)
                  limits.head-max = "64KiB"   (default: 16KiB)
                  timeouts.drain = "1m"   (default: 30s)
                  rule 1: status = [404, "5xx"], ttl = "5s"
            "#]],
        );
    }

    #[test]
    fn several_stores_in_words() {
        check(
            r#"
            admin.top = true
            admin.address = "0.0.0.0:3129"
            admin.allow = "10.0.0.0/8"
            [[store]]
            path = "/x/half-gib"
            direct = false
            [[store]]
            path = "/x/device"
            weight = 3
            force = true
            replacement = "lru-threshold=1MiB"
            lazy-reads = 10
            chunk = "4KiB"
            "#,
            expect![[r#"
                forward proxy on 127.0.0.1:3128
                  for           this machine only
                  directives    of clients obeyed, reloads by one request a second
                  fetches       from anywhere; this machine and link-local addresses included
                  to ports      80, 443, 1024-65535
                  tunnels       CONNECT to 443
                  tells origins nothing of clients; what they say of themselves passes

                admin interface on 0.0.0.0:3129 (every address of this machine)
                  for           this machine and 10.0.0.0/8

                cache
                  memory        512MiB
                  disk          /x/half-gib
                  size          512MiB, the file's size as it is
                  share         25% of the objects
                  disk          /x/device
                  size          the whole device
                  share         75% of the objects

                set differently from the default
                  store.direct = false   (default: true)
                  store.weight = 3   (default: 1)
                  store.force = true   (default: false)
                  admin.address = "0.0.0.0:3129"   (default: 127.0.0.1:3129)
                  admin.allow = "10.0.0.0/8"   (default: none: this machine only)
                  admin.top = true   (default: false)
                  store.replacement = "lru-threshold=1MiB"   (default: reinsertion)
                  store.lazy-reads = 10   (default: auto)

                note: loligo.toml:14: store.chunk = "4KiB": has no effect any more, take it out: a store keeps the chunks it was made with; a new one has chunks of 512 bytes or of its device's blocks, if they are larger. A store of an older version starts empty; make it anew with `loligo store init --chunk`

                note: /x/device is taken as a store whatever is on it (force); take force out after the first start
            "#]],
        );
    }
}
