//! Apache Traffic Server: a cyclone cache in one file or on a raw device, with its own directory in memory.
//!
//! It looks for its files in the places it was built for, unless there is a run root; we write one. It listens only
//! when its cache is ready, so an open port shows that it is. A client's no-cache counts, as HTTP wants. All other settings are at their
//! defaults.

use super::{Plan, Setup};
use crate::process::CommandLine;

pub(super) fn plan(setup: &Setup) -> Plan {
    let run = setup.run.display();
    let etc = setup.run.join("etc");
    let logging = if setup.logs { 3 } else { 0 };
    let runroot = format!(
        "prefix: {run}
exec_prefix: /usr
bindir: /usr/bin
sbindir: /usr/sbin
sysconfdir: {run}/etc
datadir: {run}/var
includedir: /usr/include
libdir: /usr/lib/trafficserver
libexecdir: /usr/lib/trafficserver/modules
localstatedir: {run}/var
runtimedir: {run}/var
logdir: {run}/log
mandir: /usr/share/man
infodir: /usr/share/info
cachedir: {run}/var
"
    );
    let user = if setup.as_root {
        // Keep our user: Traffic Server's own user may not be able to reach the run directory.
        "CONFIG proxy.config.admin.user_id STRING #-1\n"
    } else {
        ""
    };
    let records = format!(
        "CONFIG proxy.config.exec_thread.autoconfig INT 0
CONFIG proxy.config.exec_thread.limit INT {workers}
CONFIG proxy.config.http.server_ports STRING {port}:ip-in={ip}
CONFIG proxy.config.http.wait_for_cache INT 1
CONFIG proxy.config.http.keep_alive_no_activity_timeout_in INT 300
CONFIG proxy.config.cache.ram_cache.size INT {ram}
CONFIG proxy.config.cache.ram_cache_cutoff INT 4194304
CONFIG proxy.config.http.cache.ignore_client_no_cache INT 0
CONFIG proxy.config.log.logging_enabled INT {logging}
CONFIG proxy.config.reverse_proxy.enabled INT 1
CONFIG proxy.config.url_remap.remap_required INT 1
CONFIG proxy.config.net.connections_throttle INT 19000
CONFIG proxy.config.crash_log_helper STRING NULL
{user}",
        workers = setup.workers,
        port = setup.address.port(),
        ip = setup.address.ip(),
        ram = setup.memory.0,
    );
    let storage = match &setup.device {
        Some(device) => format!("{}\n", device.display()),
        None => format!("{} {}M\n", setup.data.display(), setup.cache.mebibytes()),
    };
    let ip_allow = "ip_allow:
  - apply: in
    ip_addrs: 127.0.0.0/8
    action: allow
    methods: ALL
";
    let log_format = "logging:
  formats:
    - name: squid
      format: '%<cqtq> %<ttms> %<chi> %<crc>/%<pssc> %<psql> %<cqhm> %<pquc> %<caun> %<phr>/%<shn> %<psct>'
  logs:
    - filename: access
      format: squid
      mode: ascii
";
    let mut files = vec![
        (setup.run.join("runroot.yaml"), runroot),
        (etc.join("records.config"), records),
        (etc.join("storage.config"), storage),
        (
            etc.join("remap.config"),
            format!("map / http://{}/\n", setup.origin),
        ),
        (etc.join("ip_allow.yaml"), ip_allow.to_owned()),
        (etc.join("logging.yaml"), log_format.to_owned()),
    ];
    // Traffic Server warns about each of these files that is missing.
    let empty = [
        "plugin",
        "hosting",
        "volume",
        "parent",
        "cache",
        "splitdns",
        "ssl_multicert",
        "socks",
    ];
    files.extend(empty.map(|name| (etc.join(format!("{name}.config")), String::new())));
    Plan {
        dirs: vec![etc.clone(), setup.run.join("var"), setup.run.join("log")],
        files,
        links: vec![(
            "/etc/trafficserver/body_factory".into(),
            etc.join("body_factory"),
        )],
        servers: vec![
            CommandLine::new("traffic_server", [""; 0])
                .with_env("TS_RUNROOT", &format!("{run}/runroot.yaml")),
        ],
        ..Plan::default()
    }
}
