//! nginx with `proxy_cache`: a file per object, the page cache as its memory.
//!
//! As a good administrator would set it: keep-alive to the origin, handles of cached files kept open (as many as descriptors
//! allow), temporary files in the cache directory so that storing is a rename. `tcp_nopush` is off: on loopback it
//! stalls 40 ms at 100 KB. A client's no-cache and If-Modified-Since count, as HTTP wants (Pragma, since every client that
//! reloads sends it). Asynchronous reads are off by default, since the answers are mostly in the page cache or on a
//! fast disk, where the hand-over to a thread costs more than the wait; `nginx-aio` is the variant with them on.

use super::{Plan, Setup, front};
use crate::process::CommandLine;

/// Handles kept by `open_file_cache` per worker. They count against the descriptor limit, beside the connections.
const OPEN_FILES: u32 = 8_000;
const CONNECTIONS: u32 = 11_500;
const DESCRIPTORS: u32 = 20_000;
/// A cache below this size lies in 256 directories, made beforehand; a larger one in 4096, which nginx makes as it needs them. To
/// make directories while a small cache fills would cost a slow disk more than the objects do.
const SMALL_CACHE_MIB: u64 = 1024;

/// How bodies are sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Variant {
    pub sendfile: bool,
    pub aio: bool,
}

pub(super) fn plan(setup: &Setup, variant: Variant) -> Plan {
    let on = |yes: bool| if yes { "on" } else { "off" };
    let run = setup.run.display();
    let conf = setup.run.join("nginx.conf");
    let user = if setup.as_root { "user root;\n" } else { "" };
    let access_log = if setup.logs {
        format!("access_log {run}/access.log combined buffer=64k flush=1s;")
    } else {
        "access_log off;".into()
    };
    let (levels, dirs) = if setup.cache.mebibytes() < SMALL_CACHE_MIB {
        let dirs = (0..256).map(|n| setup.data.join(format!("{n:02x}")));
        ("2", dirs.collect())
    } else {
        ("1:2", Vec::new())
    };
    let front = setup
        .front
        .as_ref()
        .map(front::of_nginx)
        .unwrap_or_default();
    let text = format!(
        "{user}worker_processes {workers};
worker_rlimit_nofile {DESCRIPTORS};
daemon off;
pid {run}/nginx.pid;
error_log {run}/error.log warn;
events {{
  worker_connections {CONNECTIONS};
}}
http {{
  {access_log}
  sendfile {sendfile};
  aio {aio};
  tcp_nopush off;
  tcp_nodelay on;
  keepalive_timeout 300s;
  keepalive_requests 1000000000;
  open_file_cache max={OPEN_FILES} inactive=300s;
  open_file_cache_valid 300s;
  open_file_cache_min_uses 1;
  client_body_temp_path {run}/body;
  proxy_temp_path {run}/proxy;
  fastcgi_temp_path {run}/fastcgi;
  uwsgi_temp_path {run}/uwsgi;
  scgi_temp_path {run}/scgi;
  proxy_cache_path {data} levels={levels} keys_zone=objects:128m max_size={cache_mib}m inactive=7d use_temp_path=off;
  upstream origin {{
    server {origin};
    keepalive 128;
    keepalive_requests 1000000000;
  }}
  server {{
    listen {address} reuseport backlog=4096;
{front}    location / {{
      proxy_pass http://origin;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_cache objects;
      proxy_force_ranges on;
      proxy_cache_bypass $http_pragma;
      if_modified_since before;
    }}
  }}
}}
",
        workers = setup.workers,
        sendfile = on(variant.sendfile),
        aio = if variant.aio { "threads" } else { "off" },
        data = setup.data.display(),
        cache_mib = setup.cache.mebibytes(),
        origin = setup.origin,
        address = setup.address,
    );
    Plan {
        dirs,
        files: vec![(conf.clone(), text)],
        servers: vec![CommandLine::new(
            "nginx",
            [
                "-p".into(),
                run.to_string(),
                "-c".into(),
                conf.display().to_string(),
                "-e".into(),
                format!("{run}/error.log"),
            ],
        )],
        ..Plan::default()
    }
}
