//! Squid with rock (one database file, SMP workers), or a file per object: aufs (threads), diskd (a process for the disk) or
//! ufs (blocking).
//!
//! Only rock can be shared by several workers; the other stores run one. Squid does not run as root. Under root it therefore
//! gets its own user, who must be able to reach the run directory. SMP workers use shared memory under `/dev/shm`, named
//! after the service. A killed Squid leaves it behind, so the clean-up removes files of that name.

use super::{Plan, Setup};
use crate::process::CommandLine;

/// The store types of `cache_dir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Storage {
    Rock,
    Aufs,
    Diskd,
    Ufs,
}

/// The user the package brings.
const USER: &str = "proxy";

pub(super) fn plan(setup: &Setup, storage: Storage) -> Plan {
    let run = setup.run.display();
    let data = setup.data.display();
    let conf = setup.run.join("squid.conf").display().to_string();
    let service = format!("xtask{}", setup.address.port());
    let mib = setup.cache.mebibytes();
    let (cache_dir, workers) = match storage {
        Storage::Rock => (format!("rock {data} {mib}"), setup.workers),
        Storage::Aufs => (format!("aufs {data} {mib} 16 256"), 1),
        Storage::Diskd => (format!("diskd {data} {mib} 16 256"), 1),
        Storage::Ufs => (format!("ufs {data} {mib} 16 256"), 1),
    };
    let user = if setup.as_root {
        format!("cache_effective_user {USER}\n")
    } else {
        String::new()
    };
    let access_log = if setup.logs {
        format!("access_log stdio:{run}/access.log squid\nbuffered_logs on")
    } else {
        "access_log none".into()
    };
    // Before `cache_dir`, because a replacement policy holds for those that follow it.
    let extra: String = setup.extra.iter().map(|line| format!("{line}\n")).collect();
    let text = format!(
        "{extra}http_port {address} accel defaultsite={address}
cache_peer {ip} parent {port} 0 no-query no-digest originserver name=origin
http_access allow all
workers {workers}
cache_mem {memory} MB
maximum_object_size_in_memory 4 MB
maximum_object_size 1 GB
cache_dir {cache_dir}
max_filedescriptors 20000
client_idle_pconn_timeout 5 minutes
shutdown_lifetime 0 seconds
pinger_enable off
digest_generation off
icp_port 0
netdb_filename none
visible_hostname localhost
{user}{access_log}
cache_store_log none
cache_log {run}/cache.log
pid_filename {run}/squid.pid
coredump_dir {run}
logfile_rotate 0
",
        address = setup.address,
        ip = setup.origin.ip(),
        port = setup.origin.port(),
        memory = setup.memory.mebibytes(),
    );
    let squid = |args: &[&str]| {
        let common = ["-n", &service, "-f", &conf];
        CommandLine::new("squid", common.iter().chain(args).copied())
    };
    Plan {
        files: vec![(setup.run.join("squid.conf"), text)],
        // Makes the directories or the database if they are missing.
        prepare: vec![squid(&["-z", "-N"])],
        servers: vec![squid(&["--foreground"])],
        owner: setup.as_root.then_some(USER),
        shared_memory: Some(format!("{service}-")),
        ready_log: Some((setup.run.join("cache.log"), "storage from disk")),
        ..Plan::default()
    }
}
