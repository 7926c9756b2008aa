//! gRPC from end to end: its own library at both sides, and our proxy between them.
//!
//! The server (`grpc/server.py`) listens twice, plain and with TLS. There is a proxy for each, with the same protocol on both of its
//! sides. The client (`grpc/client.py`) makes calls of four kinds and checks the answers, then makes calls that end early.

use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use super::{
    Rows,
    programs::{Origin, Serves, Setup, Started},
};
use crate::failure::{During, Result, fail};
use crate::ports;
use crate::process::CommandLine;
use crate::rivals::front::{Certificate, KeyKind};
use crate::rivals::{Request, Rival, launch};
use crate::workspace;

const SERVER: &str = include_str!("grpc/server.py");
const CLIENT: &str = include_str!("grpc/client.py");

/// The data needed to call the server.
pub struct Calls {
    /// The server's port with TLS.
    encrypted: u16,
    certificate: Certificate,
}

/// The client's report of one kind of calls.
#[derive(Deserialize)]
struct Told {
    what: String,
    asked: u64,
    failed: u64,
    seconds: f64,
    why: Option<String>,
}

/// The library's server in Python.
pub fn grpcio(setup: &Setup) -> Result<Started> {
    let certificate = Certificate::of(&setup.run);
    certificate.make(KeyKind::P256)?;
    let encrypted = ports::free()?;
    let args = [
        "-c",
        SERVER,
        &setup.address.to_string(),
        &format!("127.0.0.1:{encrypted}"),
        &certificate.chain.to_string_lossy(),
        &certificate.key.to_string_lossy(),
    ];
    let command = CommandLine::new("python3", args.map(str::to_owned));
    Ok(Started {
        servers: vec![command],
        serves: Serves::Calls(Calls {
            encrypted,
            certificate,
        }),
    })
}

/// Calls the server plain and over TLS.
pub fn try_all(of: &Calls, origin: &Origin, calls: u64, rows: &mut Rows) -> Result<()> {
    let chain = of.certificate.chain.to_string_lossy();
    let key = of.certificate.key.to_string_lossy();
    let plain = format!(
        "http2 = true\n[[listener.route]]\norigin = \"http://{}\"\nhttp2 = \"prior-knowledge\"\n",
        origin.address
    );
    let encrypted = format!(
        "tls = \"{chain},{key}\"\n[[listener.route]]\norigin = \"https://localhost:{}\"\nhttp2 = true\n\
         tls.ca-file = \"{chain}\"\n",
        of.encrypted
    );
    for (way, listener, trusted) in [("h2c", plain, None), ("TLS", encrypted, Some(&*chain))] {
        let request = Request {
            workers: 1,
            listener: Some(listener),
            ..Request::of(format!("origins-grpc-{way}"), origin.address)
        };
        let proxy = launch(Rival::Loligo, &request)?;
        let address = format!("localhost:{}", proxy.address.port());
        let python = workspace::program("python3").unwrap_or_else(|| "python3".into());
        let output = Command::new(python)
            .args(["-c", CLIENT, &address, &calls.to_string()])
            .args(trusted)
            .output()
            .during(|| "running the client of gRPC".into())?;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let told: Told =
                serde_json::from_str(line).during(|| format!("reading what is told: {line}"))?;
            let what = format!("gRPC over {way}: {}", told.what);
            let came = (told.asked, told.failed, told.why);
            rows.add("loligo", &what, came, Duration::from_secs_f64(told.seconds));
        }
        if !output.status.success() {
            let complaint = String::from_utf8_lossy(&output.stderr);
            fail!("the client of gRPC over {way}: {}", complaint.trim());
        }
        proxy.stop()?;
    }
    Ok(())
}
