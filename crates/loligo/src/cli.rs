//! The command line: the flags, and the settings that they become in `Raw`.
//!
//! Values of flags stay text here; they are checked like those of the file, by the same rows (`config::rows`).

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::problem::Place;
use crate::config::raw::{Block, Given, Raw, Value};
use crate::config::stores;
use crate::report::{REPORT_HELP, ReportFlags};
use crate::store_tool::{STORE_HELP, StoreCommand};

#[derive(Parser, Debug)]
#[command(
    name = "loligo",
    version,
    about = "A caching web proxy that keeps everything in one file",
    long_about = "A caching web proxy that keeps everything in one file.\n\n\
                  Without any configuration `loligo serve` is a forward proxy for this machine, on 127.0.0.1:3128.",
    after_help = "Try it:\n  \
                  loligo serve &\n  \
                  curl -x http://127.0.0.1:3128 -D - -o page http://example.org/   # again: Cache-Status says hit\n\n\
                  Each command explains itself: loligo serve --help",
    arg_required_else_help = true
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the proxy
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Flags),
    /// Run a front of a cluster: hits go to the members that hold them
    #[command(after_help = ACCELERATE_EXAMPLES)]
    Accelerate(AccelerateFlags),
    /// Explain what a configuration means, or what is wrong with it
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Flags),
    /// Say what would become of a request by the rules of a configuration, and why
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainFlags),
    /// Have a running proxy read its configuration again, without closing a connection
    #[command(after_help = RELOAD_EXAMPLES)]
    Reload(ReloadFlags),
    /// Have the program as it is now take the place of the running one, without closing a port or emptying a store
    #[command(after_help = UPGRADE_EXAMPLES)]
    Upgrade(UpgradeFlags),
    /// Print every setting of a configuration file: what it takes, its default, what it does
    Settings,
    /// What a cluster needs
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Make a store, look into it, check it, remove from it, while no proxy uses it
    #[command(subcommand, after_help = STORE_HELP)]
    Store(StoreCommand),
    /// Look on while a proxy runs: requests, hits, hosts, origins, stages, disk
    #[command(after_help = TOP_EXAMPLES)]
    Top(TopFlags),
    /// The figures of a proxy's day, from its profile or Squid's log: text, page, JSON
    #[command(after_help = REPORT_HELP)]
    Report(ReportFlags),
    /// Work with profile files (see: serve --profile)
    #[command(subcommand)]
    Profile(ProfileCommand),
}

#[derive(Subcommand, Debug)]
pub enum ClusterCommand {
    /// Print a new key: loligo cluster key > cluster.key, then copy the file to every member
    Key,
}

#[derive(Subcommand, Debug)]
pub enum ProfileCommand {
    /// Print the records of a profile file, one a line
    #[command(after_help = DUMP_EXAMPLES)]
    Dump(DumpFlags),
    /// Write profile files as one table, Parquet or CSV, for DuckDB, ClickHouse, Spark
    #[command(after_help = EXPORT_EXAMPLES)]
    Export(ExportFlags),
}

const SERVE_EXAMPLES: &str = "\
Examples:
  A forward proxy for this machine, everything by default:
    loligo serve
  In front of a web server, for everybody, 10 GiB of cache:
    loligo serve --listen 0.0.0.0:80 --allow any --reverse http://127.0.0.1:8080 --store /var/cache/loligo.store --store-size 10GiB
  A forward proxy for an office network, with a log:
    loligo serve --listen 192.0.2.1:3128 --allow 192.0.2.0/24 --access-log /var/log/loligo.log
  On two disks, the whole of each:
    loligo serve --store /dev/sdb --store /dev/sdc
  Several listeners and origins, limits, time-outs: in a file
    loligo serve -c /etc/loligo.toml

Flags override the file: --store replaces its stores, --listen and --reverse its listeners, --allow the
networks of every listener, --client-directives what its clients may demand, --store-size the size of every store. Sizes are written 64KiB, 256MiB, 10GiB, networks 10.0.0.0/8,2001:db8::/32.
`loligo check` with the same flags explains what they mean; `loligo settings` lists all that a file may say.

SIGTERM, SIGINT and SIGQUIT finish running requests and leave the store clean. SIGHUP reopens the logs and reads the configuration
again, as `loligo reload` does; SIGUSR1 reopens the logs alone.";

const CHECK_EXAMPLES: &str = "\
Examples:
  loligo check -c /etc/loligo.toml
  loligo check                                  what `loligo serve` without arguments would do
  loligo check --listen 0.0.0.0:3128            what is wrong with these flags

Exit status: 0 all is well, 1 something is wrong with the configuration, 2 the command line is not
understood or the file can not be read.";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  loligo explain -c loligo.toml http://www.example.org/a
  loligo explain -c loligo.toml CONNECT bad.example:443 --client 10.0.0.7 --time 'We 09:30'
  loligo explain -c loligo.toml POST http://www.example.org/api --header 'User-Agent: curl' --json

Each rule is told with the first condition that does not hold, then what happens, and which rule decides it. No proxy need run; no cache and no name
is looked up. docs/rules.md describes rules.

Exit status: 0 it is told; 1 the configuration is wrong, or this is no request that a listener takes; 2 the command line is not understood or
the file can not be read.";

const RELOAD_EXAMPLES: &str = "\
Examples:
  loligo check -c /etc/loligo.toml && loligo reload
  loligo reload http://192.0.2.1:3129           another proxy, if it lets this machine (admin.allow)
  loligo reload --partial                       all but what wants a restart

The proxy reads the file and the flags that it was started with. It takes the configuration as a whole, or refuses it and goes on as
before. No connection is closed. `loligo settings` says which settings are live and which want a restart; `/status` says which
configuration is in force. SIGHUP does the same, without --partial.

Exit status: 0 it is in force, and what it means is printed; 1 it was refused, or the proxy does not answer, and why; 2 the address is none.";

const UPGRADE_EXAMPLES: &str = "\
Examples:
  apt install loligo && loligo upgrade          the package's new program
  install loligo.new /usr/local/bin/loligo && loligo upgrade
  loligo upgrade http://192.0.2.1:3129          another proxy, if it lets this machine (admin.allow)

The running process starts the file that it was started from, with the same arguments. The new process takes over its listening sockets
and stores; the old one ends its requests (timeouts.drain limits that). The configuration is read anew, as at a restart. If the new
process does not come up, the old one serves on, and this says why. What is only in memory is not taken over.

Exit status: 0 the new process serves; 1 it was refused, or the proxy does not answer, and why; 2 the address is none.";

const ACCELERATE_EXAMPLES: &str = "\
Examples:
  loligo cluster key > cluster.key                                  once, for all members
  loligo accelerate -c front.toml
  loligo accelerate -c front.toml --dry-run http://www.example.org/ where a request would go, and why

front.toml, with two nodes that run `loligo serve`:
  [[listener]]
  address = \"0.0.0.0:80\"
  allow = \"any\"
  origin = \"http://10.0.0.5:8080\"
  [cluster]
  name = \"front\"
  address = \"10.0.0.10:3130\"
  key-file = \"cluster.key\"
  [[cluster.member]]
  name = \"n1\"
  address = \"10.0.0.11:3130\"
  [[cluster.member]]
  name = \"n2\"
  address = \"10.0.0.12:3130\"

It is `loligo serve` with front = true, and without a store unless one is given. Listeners are those of the nodes, by name or order,
since a request is forwarded to the listener of the same name. --dry-run asks the running front by its admin interface.
Every node can be a front for the others: front = true under [cluster] in `serve`.";

const DUMP_EXAMPLES: &str = "\
Examples:
  loligo profile dump requests.profile | less -S
  loligo profile dump requests.profile --json | jq 'select(.class == \"miss\").stages[\"server-reply\"]'

A stage is printed as start+first/total in microseconds: when it started after the request began, how long
until its first byte, how long until its last; - if the request did not pass through it.";

const TOP_EXAMPLES: &str = "\
Examples:
  loligo top                                  the proxy of this machine
  loligo top http://192.0.2.1:3129            another one, if it lets this machine (admin.allow)
  loligo top --once | head -5                 one look, as text

Keys: tab or arrows choose the table, s sorts it, p pauses, ? helps, q quits. Hosts and keys (URLs) are only counted with top = true
under [admin] of the proxy's configuration.";

/// The flags of `explain`.
#[derive(Args, Debug)]
pub struct ExplainFlags {
    /// The method [default: GET], and a URL; for CONNECT host and port
    #[arg(value_name = "[METHOD] URL", num_args = 1..=2, required = true)]
    pub request: Vec<String>,
    /// Read settings from this file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The client's address
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub client: std::net::IpAddr,
    /// The listener by which it comes, by name, address or port [default: the first that takes it]
    #[arg(long, value_name = "LISTENER")]
    pub listener: Option<String>,
    /// A field of the request; may be repeated
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// When it comes, in this machine's time zone: 'We 09:30' [default: now]
    #[arg(long, value_name = "DAY HH:MM")]
    pub time: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The flags of `reload`.
#[derive(Args, Debug)]
pub struct ReloadFlags {
    /// The proxy's admin interface [default: http://127.0.0.1:3129]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Leave out changes that want a restart, instead of refusing all of them
    #[arg(long)]
    pub partial: bool,
}

/// The flags of `upgrade`.
#[derive(Args, Debug)]
pub struct UpgradeFlags {
    /// The proxy's admin interface [default: http://127.0.0.1:3129]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
}

/// The flags of `top`.
#[derive(Args, Debug)]
pub struct TopFlags {
    /// The proxy's admin interface [default: http://127.0.0.1:3129]
    #[arg(value_name = "URL")]
    pub url: Option<String>,
    /// Print one look as text and end; so it is wherever there is no terminal
    #[arg(long)]
    pub once: bool,
}

const EXPORT_EXAMPLES: &str = "\
Examples:
  loligo profile export requests.profile --parquet requests.parquet
  duckdb -c \"SELECT class, count(*), median(total_us) FROM 'requests.parquet' GROUP BY ALL\"
  loligo profile export monday.profile tuesday.profile --csv - | head
  loligo profile export requests.profile --events --csv events.csv

One row a request, with a column for each number of the record; null where the request had none. With --events the
rows are the other things that a profile holds: writes and reads of the disk, the gauges of each second, marks.
docs/profile-export.md describes the columns and has the SQL of five figures of `loligo report`.";

/// The flags of `accelerate`.
#[derive(Args, Debug)]
pub struct AccelerateFlags {
    /// Say where a GET of this URL would go now, and why, and end
    #[arg(long, value_name = "URL")]
    pub dry_run: Option<String>,
    #[command(flatten)]
    pub flags: Flags,
}

/// The flags of `serve` and `check`.
#[derive(Args, Debug, Default)]
pub struct Flags {
    /// Read settings from this file (TOML)
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Address clients connect to [default: 127.0.0.1:3128]; may be repeated
    #[arg(
        short,
        long,
        value_name = "ADDRESS:PORT",
        help_heading = "Who is served"
    )]
    pub listen: Vec<String>,

    /// Be a reverse proxy for this origin, http or https; without it: a forward proxy
    #[arg(short, long, value_name = "URL", help_heading = "Who is served")]
    pub reverse: Option<String>,

    /// Send the origin of --reverse its own name as Host, instead of the one the client asked for
    #[arg(long, help_heading = "Who is served", requires = "reverse")]
    pub origin_host: bool,

    /// Speak TLS to clients with this certificate (CERT.pem,KEY.pem), or on loopback with one made for trying out (self-signed)
    #[arg(long, value_name = "FILES", help_heading = "Who is served")]
    pub tls: Option<String>,

    /// Networks of clients served beside this machine, or "any"; required to listen beyond loopback
    #[arg(long, value_name = "NETWORKS", help_heading = "Who is served")]
    pub allow: Option<String>,

    /// How much a client's no-cache and max-age count: obey, revalidate, ignore [default: revalidate, in front of an origin ignore]
    #[arg(long, value_name = "WORD", help_heading = "Who is served")]
    pub client_directives: Option<String>,

    /// Address of the admin interface, or "none" [default: 127.0.0.1:3129]
    #[arg(long, value_name = "ADDRESS:PORT", help_heading = "Who is served")]
    pub admin: Option<String>,

    /// Networks that may use the admin interface beside this machine
    #[arg(long, value_name = "NETWORKS", help_heading = "Who is served")]
    pub admin_allow: Option<String>,

    /// File or block device of the disk cache, or "none" [default: loligo/store in ~/.cache]; may be repeated
    #[arg(short, long, value_name = "PATH", help_heading = "The cache")]
    pub store: Vec<String>,

    /// Its size, or that of each [default: as it is; a new one 10GiB or half of the free space]
    #[arg(long, value_name = "SIZE", help_heading = "The cache")]
    pub store_size: Option<String>,

    /// Size of the memory tier, or "none" [default: an eighth of the RAM, at most 1GiB]
    #[arg(short, long, value_name = "SIZE", help_heading = "The cache")]
    pub memory: Option<String>,

    /// How the disk is read and written: auto, uring, threads [default: auto]
    #[arg(long, value_name = "ENGINE", help_heading = "The cache")]
    pub io_engine: Option<String>,

    /// Worker threads [default: one a core]
    #[arg(short, long, value_name = "N", help_heading = "Running")]
    pub workers: Option<String>,

    /// Write an access log to this file, or "-" for standard output [default: none]
    #[arg(long, value_name = "PATH", help_heading = "What is written")]
    pub access_log: Option<String>,

    /// Format of the access log: squid, json, combined [default: squid]
    #[arg(long, value_name = "FORMAT", help_heading = "What is written")]
    pub access_log_format: Option<String>,

    /// Write a profile record of every request to this file
    #[arg(long, value_name = "FILE", help_heading = "What is written")]
    pub profile: Option<String>,

    /// How much is logged on standard error: error, warn, info, debug, trace [default: info]
    #[arg(long, value_name = "LEVEL", help_heading = "What is written")]
    pub log_level: Option<String>,

    /// Name of this member of the cluster, so that all members can have one file
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
}

/// The flags of `profile dump`.
#[derive(Args, Debug)]
pub struct DumpFlags {
    /// The profile file; - is standard input
    pub file: PathBuf,
    /// One JSON object a line, instead of columns
    #[arg(long)]
    pub json: bool,
}

/// The flags of `profile export`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("format").required(true).args(["parquet", "csv"]))]
pub struct ExportFlags {
    /// Profile files; - is standard input
    #[arg(required = true, value_name = "PROFILE")]
    pub files: Vec<PathBuf>,
    /// Write Parquet to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub parquet: Option<PathBuf>,
    /// Write CSV (RFC 4180) to this file; - is standard output
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// The events instead of the requests
    #[arg(long)]
    pub events: bool,
}

/// The flags that stand for a setting.
pub const FLAGS: [(&str, &str); 17] = [
    ("--admin", "admin.address"),
    ("--admin-allow", "admin.allow"),
    ("--memory", "memory"),
    ("--io-engine", "store.io-engine"),
    ("--workers", "workers"),
    ("--access-log", "log.access"),
    ("--access-log-format", "log.access-format"),
    ("--profile", "log.profile"),
    ("--log-level", "log.level"),
    ("--cluster-name", "cluster.name"),
    ("--store", "store.path"),
    ("--store-size", "store.size"),
    ("--listen", "listener.address"),
    ("--reverse", "listener.origin"),
    ("--tls", "listener.tls"),
    ("--allow", "listener.allow"),
    ("--client-directives", "listener.client-directives"),
];

/// The setting of a flag.
fn given(flag: &'static str, text: &str) -> Given {
    let row = FLAGS.iter().find(|(name, _)| *name == flag);
    let (_, key) = row.expect("a flag that is read is in the table of flags");
    Given::flag(key, flag, text)
}

impl Flags {
    /// Adds the flags after the settings of the file; a later setting takes precedence.
    pub fn add_to(&self, raw: &mut Raw) {
        for (flag, text) in [
            ("--admin", &self.admin),
            ("--admin-allow", &self.admin_allow),
            ("--memory", &self.memory),
            ("--io-engine", &self.io_engine),
            ("--workers", &self.workers),
            ("--access-log", &self.access_log),
            ("--access-log-format", &self.access_log_format),
            ("--profile", &self.profile),
            ("--log-level", &self.log_level),
        ] {
            let one = text.as_ref().map(|text| given(flag, text));
            raw.whole.given.extend(one);
        }
        if let Some(name) = &self.cluster_name {
            let cluster = raw.cluster.get_or_insert_default();
            cluster.given.push(given("--cluster-name", name));
        }
        self.add_stores(raw);
        self.add_listeners(raw);
    }

    fn add_stores(&self, raw: &mut Raw) {
        if !self.store.is_empty() {
            // Settings of the file's single stores do not apply to these stores; settings of all stores stay.
            let all = raw.stores.drain(..).flat_map(|store| store.given);
            let (replaced, of_all): (Vec<Given>, Vec<Given>) = all.partition(stores::is_own);
            raw.replaced = replaced;
            raw.stores = blocks("--store", &self.store);
            raw.stores[0].given.extend(of_all);
        } else if raw.stores.is_empty() && self.store_size.is_some() {
            raw.stores.push(Block::default());
        }
        for store in &mut raw.stores {
            let size = self.store_size.as_ref();
            store
                .given
                .extend(size.map(|text| given("--store-size", text)));
        }
    }

    fn add_listeners(&self, raw: &mut Raw) {
        if !self.listen.is_empty() {
            raw.listeners = blocks("--listen", &self.listen);
        } else if self.reverse.is_some() || raw.listeners.is_empty() {
            // The default listener, so that the other flags have a listener to apply to.
            raw.listeners = vec![Block::default()];
        }
        for listener in &mut raw.listeners {
            let flags = [
                ("--reverse", &self.reverse),
                ("--tls", &self.tls),
                ("--allow", &self.allow),
                ("--client-directives", &self.client_directives),
            ];
            for (flag, text) in flags {
                let one = text.as_ref().map(|text| given(flag, text));
                listener.given.extend(one);
            }
            if self.origin_host {
                listener.given.push(Given {
                    key: "listener.pass-host".to_owned(),
                    value: Value::Switch(false),
                    place: Place::Flag("--origin-host"),
                });
            }
        }
    }
}

/// A block for each time a flag was given.
fn blocks(flag: &'static str, texts: &[String]) -> Vec<Block> {
    let block = |text: &String| Block {
        place: Place::Flag(flag),
        given: vec![given(flag, text)],
        ..Block::default()
    };
    texts.iter().map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
        commands::help::assert_fits(&crate::command());
    }

    #[test]
    fn every_flag_is_typed_and_is_a_setting() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        let reference = crate::config::reference::reference();
        for (flag, key) in FLAGS {
            let is_typed = |arg: &clap::Arg| arg.get_long() == flag.strip_prefix("--");
            assert!(serve.get_arguments().any(is_typed), "{flag}");
            let name = key.rsplit('.').next().unwrap();
            let row = format!("| `{name}`<br>`{flag}` |");
            assert!(reference.contains(&row), "{flag}");
        }
    }
}
