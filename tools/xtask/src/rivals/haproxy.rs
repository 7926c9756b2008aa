//! HAProxy with its cache: memory only, lost with the process.
//!
//! One thread a core, connections to the origin shared between them, an object limit well above the bench's largest.

use super::{Plan, Setup, front};
use crate::process::CommandLine;

/// HAProxy refuses a larger cache than this.
const CACHE_MIB_MAX: u64 = 4095;
/// A connection takes two descriptors, and their limit is usually 20,000.
const CONNECTIONS_MAX: u32 = 9_500;

pub(super) fn plan(setup: &Setup) -> Plan {
    let conf = setup.run.join("haproxy.cfg");
    let cache_mib = setup.memory.mebibytes().min(CACHE_MIB_MAX);
    let object_bytes_max = (cache_mib << 20) / 2;
    let (log, option) = if setup.logs {
        (
            "  log stdout format raw local0 info\n",
            "  log global\n  option httplog\n",
        )
    } else {
        ("", "")
    };
    let front = setup
        .front
        .as_ref()
        .map(front::of_haproxy)
        .unwrap_or_default();
    let text = format!(
        "global
  nbthread {workers}
  maxconn {CONNECTIONS_MAX}
{log}defaults
  mode http
{option}  timeout connect 5s
  timeout client 300s
  timeout server 30s
  timeout http-keep-alive 300s
  option http-keep-alive
  http-reuse always
cache objects
  total-max-size {cache_mib}
  max-object-size {object_bytes_max}
  max-age 86400
frontend clients
  bind {address} backlog 4096
{front}  default_backend origin
backend origin
  http-request cache-use objects
  http-response cache-store objects
  server origin {origin} pool-max-conn -1
",
        workers = setup.workers,
        address = setup.address,
        origin = setup.origin,
    );
    Plan {
        files: vec![(conf.clone(), text)],
        servers: vec![CommandLine::new(
            "haproxy",
            ["-db", "-f", &conf.display().to_string()],
        )],
        ..Plan::default()
    }
}
