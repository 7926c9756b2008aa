//! The reference of all settings, written from the rows: `loligo settings` prints it, and
//! `docs/configuration.md` is the same text.
//!
//! A test compares the two; `UPDATE_DOCS=1 cargo test -p loligo` rewrites the file.

use std::fmt::Write as _;

use commands::units::Size;
use proxy::plan::{ListenerTls, Plan, Quota, Rule, SERVERS_MAX, UPSTREAMS_MAX};

use super::file::FILE_BYTES_MAX;
use super::rows::Row;
use super::{cluster, encryption, general, listeners, peers, quotas, rules, stores, upstreams};
use crate::cli::FLAGS;

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by `UPDATE_DOCS=1 cargo test -p loligo` from the rows in crates/loligo/src/config and the numbers in crates/plan/src; change it there. -->

Loligo needs no configuration: `loligo serve` is a forward proxy for this machine on 127.0.0.1:3128. Flags change
the most common settings (`loligo serve --help`), a file changes all of them: `loligo serve -c loligo.toml`.
`loligo check -c loligo.toml` says who is served and what differs from the defaults, or what is wrong, with line and setting.

- The file is [TOML](https://toml.io). A flag overrides the file; `--store` replaces its stores, `--listen` and
  `--reverse` its listeners, `--allow` the networks of every listener, `--store-size` the size of every store.
- Sizes: `\"64KiB\"`, `\"256MiB\"`, `\"10GiB\"` (powers of 1024), `\"500MB\"` (powers of 1000), or a number of bytes.
- Times: `\"500ms\"`, `\"30s\"`, `\"5m\"`, `\"2h\"`, `\"1d\"`, also `\"1h30m\"`.
- Networks: a list such as `[\"10.0.0.0/8\", \"2001:db8::/32\", \"192.0.2.7\"]`; `\"any\"` is everybody. On the command
  line with commas.
- Paths in the file are relative to the file's directory.
- A running proxy takes a changed file over with `loligo reload` or SIGHUP, without closing a connection. Settings that are *live* hold from
  the next request on. Those that want a *restart* refuse the whole file, unless `loligo reload --partial` leaves them out. See
  [operations.md](operations.md).

## An example

```toml
";

/// A test checks that this example has no problems.
const EXAMPLE: &str = r#"memory = "512MiB"

# A forward proxy for this machine and an office network.
[[listener]]
address = "0.0.0.0:3128"
allow = ["192.0.2.0/24"]
connect-ports = [443, 8443]

# In front of two web servers, for everybody.
[[listener]]
address = "0.0.0.0:8000"
allow = ["any"]
origin = "http://127.0.0.1:8080"     # whatever no route takes

[[listener.route]]
host = "docs.example.org"
origin = "https://docs.internal.example"
pass-host = false                    # it knows itself by that name alone

[[listener.route]]
path = "/images"
origin = "http://127.0.0.1:8081"

# Two disks: 20 GiB of the system's, and the whole of one that does nothing else.
[[store]]
path = "/var/cache/loligo.store"
size = "20GiB"

[[store]]
path = "/dev/disk/by-id/ata-EXAMPLE"
weight = 4

# Campaign links are the same page, and errors do not last.
[[rule]]
host = ["docs.example.org"]
ignore-query = ["utm_*", "fbclid"]

[[rule]]
status = ["404", "5xx"]
ttl = "5s"

[log]
access = "/var/log/loligo/access.log"

[timeouts]
origin-first-byte = "2m"
"#;

/// The whole reference, in Markdown.
pub fn reference() -> String {
    let mut out = format!("{INTRODUCTION}{EXAMPLE}```\n");
    limits(&mut out);
    blocks(&mut out);
    tables(&mut out);
    out
}

/// The limits of a configuration file.
fn limits(out: &mut String) {
    let file = Size(FILE_BYTES_MAX);
    let (routes, rules) = (Plan::ROUTES_MAX, Rule::RULES_MAX);
    let (values, few) = (Rule::VALUES_MAX, Rule::NAMES_MAX);
    let (bytes, certificates) = (Rule::VALUE_BYTES_MAX, ListenerTls::CERTIFICATES_MAX);
    let (listeners, upstreams) = (Plan::LISTENERS_MAX, UPSTREAMS_MAX);
    let (servers, quotas) = (SERVERS_MAX, Quota::QUOTAS_MAX);
    let rows = [
        ("the file", format!("{file}")),
        ("blocks `[[listener]]`", format!("{listeners}")),
        (
            "blocks `[[listener.route]]` of a listener",
            format!("{routes}"),
        ),
        (
            "blocks `[[listener.certificate]]` of a listener",
            format!("{certificates}"),
        ),
        ("blocks `[[rule]]`", format!("{rules}")),
        (
            "values of a rule's `client`, `listener`, `host`, `path`, `query`, `method`, `port`, and of a field in `header`",
            format!("{values} each"),
        ),
        (
            "values of each other list of a rule (`host-list`, `time`, `status`, `content-type`, names of fields, parameters and cookies)",
            format!("{few} each"),
        ),
        ("a value of a rule", format!("{bytes} bytes")),
        (
            "blocks `[[upstream]]`",
            format!("{upstreams}, of {servers} servers each"),
        ),
        ("blocks `[[limit]]`", format!("{quotas}")),
    ];
    out.push_str("\n## How much a file may say\n\n| what | at most |\n|---|---|\n");
    for (what, most) in rows {
        let _ = writeln!(out, "| {what} | {most} |");
    }
    out.push_str(
        "\nWhat thousands of routes, rules and certificates cost: [operations.md](operations.md#many-sites).\n",
    );
}

/// The sections of blocks (listeners, stores, rules, other proxies), most of which can be repeated.
fn blocks(out: &mut String) {
    section(
        out,
        "[[listener]]",
        "Repeat the block for several listeners. Without any there is one, with defaults.",
        listeners::rows().iter(),
    );
    section(
        out,
        "[[listener.route]]",
        "For the listener above it. Routes make it a reverse proxy; a request no route takes goes to the listener's \
         `origin`, or is refused if there is none.",
        listeners::route_rows().iter(),
    );
    section(
        out,
        "[[listener.certificate]]",
        "For the listener above it, which then speaks TLS. The first is shown to clients that ask for a name of none of them. Files that \
         change are read again within `timeouts.certificate-files`, or by a reload. One that cannot be used (its file is not there, the key is \
         another's) is told with its file, and the others are served; its clients are shown what was read before, or else the first one. Where \
         none of a listener's can be used, or with `tls-strict`, the start or the reload is refused.",
        encryption::certificate_rows().iter(),
    );
    section(
        out,
        "[[upstream]]",
        "Several servers of the same content, which a route names in place of a URL. Repeat the block for several. See \
         [operations.md](operations.md#several-origins).",
        upstreams::rows().iter(),
    );
    section(
        out,
        "[store] or [[store]]",
        "The disk cache. One store is a block `[store]`; for several, repeat `[[store]]`: objects are spread over them by the hash \
         of their address, so each disk works for itself, and one that fails takes only its share with it. Each block says of \
         its own store:",
        stores::rows().iter(),
    );
    section(
        out,
        "[[rule]]",
        "Cache rules: for the exchanges that fit all conditions of a block, what it says. Repeat the block for several rules. Of each thing \
         that rules can say, the first rule that fits and says it counts; so special rules come first, general ones last. Changing what \
         makes up a key leaves what was stored under the old keys to be evicted. Lists may be one text with commas.",
        rules::rows().iter(),
    );
    section(
        out,
        "[[limit]]",
        "How much of something each client, host or listener may have. Repeat the block for several; a limit counts only for the listeners \
         that name it (`limits`), and the requests that meet a rule which does (`limit`). See [operations.md](operations.md#limits).",
        quotas::rows().iter(),
    );
    section(
        out,
        "[[parent]]",
        "Another proxy that forward listeners ask in place of origins; it fetches what it does not have. Repeat the block for several. A route \
         of a reverse listener names its origin, which may be a proxy. See [hierarchy.md](hierarchy.md).",
        peers::parent_rows().iter(),
    );
    section(
        out,
        "[[sibling]]",
        "Another proxy that forward listeners ask for what it has, before parents and origins are asked. It must allow this proxy as a client.",
        peers::sibling_rows().iter(),
    );
    section(
        out,
        "[cluster]",
        "Proxies that know what the others hold, and purge together. A front routes requests by that; a member with a store is asked. \
         See [accelerator.md](accelerator.md).",
        cluster::rows().iter(),
    );
    section(
        out,
        "[[cluster.member]]",
        "Another member; all members may have the same list, since each leaves out itself.",
        cluster::member_rows().iter(),
    );
}

/// The sections of tables outside blocks.
fn tables(out: &mut String) {
    let of_whole = general::rows();
    for (name, title, words) in [
        (
            "",
            "General",
            "Written at the top of the file, before any block.",
        ),
        ("admin", "[admin]", ""),
        (
            "store",
            "[store], of all stores",
            "For all stores together. Written into `[store]`, or into one of the `[[store]]` blocks: it holds for every store \
             wherever it stands. Two blocks that say different things are a mistake. Single mechanisms can be switched off for experiments, in a \
             table of their own, `[experimental]`: [rivals.md](rivals.md#each-mechanism-alone).",
        ),
        ("log", "[log]", ""),
        ("limits", "[limits]", ""),
        ("timeouts", "[timeouts]", "Every wait ends."),
        ("cache", "[cache]", "The choices RFC 9111 leaves."),
        ("dns", "[dns]", ""),
        ("pool", "[pool]", "Connections to origins, for each worker."),
        (
            "icp",
            "[icp]",
            "Answers to siblings that ask by ICP. See [hierarchy-icp.md](hierarchy-icp.md).",
        ),
        ("digest", "[digest]", "What siblings learn of the content."),
        (
            "tls",
            "[tls]",
            "For https origins, upstreams and parents, where these do not say their own `tls`. See [operations.md](operations.md#tls-to-origins).",
        ),
        (
            "acme",
            "[acme]",
            "A certificate that is ordered. See [operations.md](operations.md#tls-to-clients).",
        ),
    ] {
        let in_section = |key: &str| key.split_once('.').map_or("", |(section, _)| section) == name;
        section(
            out,
            title,
            words,
            of_whole.iter().filter(|row| in_section(&row.key)),
        );
    }
}

fn section<'a, T: 'a>(
    out: &mut String,
    title: &str,
    words: &str,
    rows: impl Iterator<Item = &'a Row<T>>,
) {
    let _ = write!(out, "\n## {title}\n\n");
    if !words.is_empty() {
        let _ = write!(out, "{words}\n\n");
    }
    out.push_str("| setting | takes | default | reload | what it does |\n|---|---|---|---|---|\n");
    for row in rows {
        // Tables that contain tables.
        let tables = ["upstream.", "parent.", "listener.route.", "tls."];
        let mut in_table = tables.iter().filter_map(|it| row.key.strip_prefix(it));
        let last = || row.key.rsplit('.').next().unwrap_or_default();
        let name = in_table.next().unwrap_or_else(last);
        let flag = FLAGS.iter().find(|(_, key)| *key == row.key);
        let flag = flag.map_or(String::new(), |(flag, _)| format!("<br>`{flag}`"));
        let [form, default, doc] =
            [&row.form, &row.default, row.doc()].map(|text| text.replace('|', "\\|"));
        let reload = if wants_restart(&row.key) {
            "restart"
        } else {
            "live"
        };
        let _ = writeln!(
            out,
            "| `{name}`{flag} | {form} | {default} | {reload} | {doc} |"
        );
    }
}

/// Is a setting read only at the start? `proxy::reload` compares these parts of a plan.
fn wants_restart(key: &str) -> bool {
    let parts = [
        "store.", "parent.", "sibling.", "icp.", "digest.", "cluster.",
    ];
    let keys = ["workers", "user", "group", "admin.address", "admin.top"];
    let is_of_part = parts.iter().any(|part| key.starts_with(part));
    keys.contains(&key) || is_of_part && !key.starts_with("parent.tls.")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::experimental;
    use crate::config::testing::settle;

    const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

    #[test]
    fn the_reference_is_up_to_date() {
        let path = Path::new(PATH);
        let wanted = reference();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, &wanted).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == wanted,
            "docs/configuration.md is out of date: UPDATE_DOCS=1 cargo test -p loligo"
        );
    }

    #[test]
    fn every_setting_has_its_section() {
        let text = reference();
        let rows = text.lines().filter(|line| line.starts_with("| `")).count();
        let blocks = stores::rows().len() + rules::rows().len() + quotas::rows().len();
        let listeners = listeners::rows().len()
            + listeners::route_rows().len()
            + encryption::certificate_rows().len();
        let peers = peers::parent_rows().len() + peers::sibling_rows().len();
        let peers =
            peers + upstreams::rows().len() + cluster::rows().len() + cluster::member_rows().len();
        let is_told = |row: &&Row<_>| !row.key.starts_with(experimental::SCOPE);
        let general = general::rows().iter().filter(is_told).count();
        assert_eq!(rows, general + blocks + listeners + peers);
    }

    #[test]
    fn the_example_is_without_a_fault() {
        let plan = settle(EXAMPLE).unwrap().plan;
        assert_eq!((plan.listeners.len(), plan.stores.len()), (2, 2));
    }
}
