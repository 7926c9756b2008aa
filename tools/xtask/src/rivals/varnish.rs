//! Varnish with malloc or file storage: a thread a request, a log in shared memory that is always written.
//!
//! With logs on, `varnishncsa` runs beside it and its CPU time is counted: without it Varnish keeps no access log.
//! File storage is one mapped file; it is gone after a restart. A client's no-cache counts and nothing stale is served, as HTTP
//! wants; by default Varnish does neither.

use super::record::SHARED_MEMORY;
use super::{Plan, Setup};
use crate::process::CommandLine;

pub(super) fn plan(setup: &Setup, on_disk: bool) -> Plan {
    let run = setup.run.display();
    let vcl = setup.run.join("default.vcl");
    let service = format!("xtask{}-", setup.address.port());
    // In memory, as the manual advises: the log is always written, and would otherwise go to a disk.
    let work = format!("{SHARED_MEMORY}/{service}varnish");
    let text = format!(
        "vcl 4.1;
backend default {{
  .host = \"{}\";
  .port = \"{}\";
}}
sub vcl_recv {{
  if (req.http.Cache-Control ~ \"no-cache\" || req.http.Pragma ~ \"no-cache\") {{
    set req.hash_always_miss = true;
  }}
}}
",
        setup.origin.ip(),
        setup.origin.port()
    );
    let storage = if on_disk {
        let file = setup.data.join("storage.bin");
        format!("file,{},{}M", file.display(), setup.cache.mebibytes())
    } else {
        format!("malloc,{}M", setup.memory.mebibytes())
    };
    let mut args: Vec<String> = ["-F", "-j", "none", "-T", "none", "-n"]
        .map(String::from)
        .into();
    args.extend([
        work.clone(),
        "-a".into(),
        setup.address.to_string(),
        "-f".into(),
        vcl.display().to_string(),
        "-s".into(),
        storage,
    ]);
    let parameters = [
        format!("thread_pools={}", setup.workers),
        "thread_pool_min=200".into(),
        "timeout_idle=300".into(),
        "nuke_limit=1000".into(),
        "default_grace=0".into(),
    ];
    for parameter in parameters {
        args.extend(["-p".into(), parameter]);
    }
    let mut servers = vec![CommandLine::new("varnishd", args)];
    if setup.logs {
        servers.push(CommandLine::new(
            "varnishncsa",
            ["-n", &work, "-w", &format!("{run}/access.log")],
        ));
    }
    Plan {
        files: vec![(vcl, text)],
        servers,
        shared_memory: Some(service),
        ..Plan::default()
    }
}
