//! A link with a delay of 20 ms to the origin: proxy connect takes 40 ms.
//!
//! A relay cannot delay a TCP handshake: the kernel answers it at once. So proxy and origin are put into a network namespace of
//! their own with a TUN device, and a small program ([`DELAY`]) returns each packet sent into the device after 20 ms, with source and
//! destination exchanged. A connection to the far address thus reaches a server on the near one, and every packet, including the
//! handshake's, is delayed. No packet leaves the machine.
//!
//! The real duration of a handshake there is measured by our own connects, made between the requests, since a program that delays packets
//! is itself late on a busy machine. Figure 10 must show that duration.
//!
//! Limits: needs root, `unshare`, `ip`, `/dev/net/tun` and Python 3. Addresses of RFC 2544 (198.18.0.0/15), within the namespace only.

use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Told;
use super::figures::Figures;
use super::origin::{self, Manner, Origin};
use super::verdict::Verdict;
use crate::block::tool;
use crate::failure::{During, Failure, Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::rivals::{Request, Rival, launch, loligo_binary};
use crate::workspace;

const DELAY: &str = include_str!("delay.py");
/// Delay of each packet.
const ONE_WAY: Duration = Duration::from_millis(20);
const DEVICE: &str = "far";
const NEAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const REQUESTS: u64 = 150;
/// After this many requests there is one connect of our own.
const OWN_EVERY: u64 = 3;

/// Runs [`inside`] in a network of its own.
pub fn tell() -> Result<Told> {
    if !rustix::process::geteuid().is_root() {
        return Ok(Told::Untold("a network of its own needs root".into()));
    }
    for program in ["unshare", "ip", "python3"] {
        if workspace::program(program).is_none() {
            return Ok(Told::Untold(format!("{program} is not installed")));
        }
    }
    if !Path::new("/dev/net/tun").exists() {
        return Ok(Told::Untold("there is no /dev/net/tun".into()));
    }
    let this = std::env::current_exe().during(|| "looking for this program".into())?;
    let output = Command::new("unshare")
        .args(["--net", "--"])
        .arg(this)
        .arg("--binary")
        .arg(loligo_binary())
        .args(["truths", "--inside"])
        .stderr(Stdio::inherit())
        .output()
        .during(|| "running unshare".into())?;
    if !output.status.success() {
        fail!("it ended with {}", output.status);
    }
    let verdicts = serde_json::from_slice(&output.stdout).during(|| "reading verdicts".into())?;
    Ok(Told::Verdicts(verdicts))
}

/// Makes load, runs the report and compares; prints the verdicts as JSON.
pub fn inside() -> Result<()> {
    tool("ip", &["link", "set", "lo", "up"])?;
    let _far = Far::open()?;
    let manner = Manner {
        think: Duration::ZERO,
        closes: true,
    };
    let origin = Origin::start(NEAR, manner)?;
    let far = SocketAddr::from((FAR, origin.address().port()));
    let running = launch(
        Rival::Loligo,
        &Request {
            profile: true,
            ..Request::of("truths-connect", far)
        },
    )?;
    let profile = running.run.join("requests.profile");
    let mut client = Client::new(running.address);
    let mut own = Vec::new();
    for n in 0..REQUESTS {
        interrupt::check()?;
        let answer = client.get(&origin::path(1000, n))?;
        if answer.status != 200 {
            fail!("status {}", answer.status);
        }
        if n % OWN_EVERY == 0 {
            own.push(handshake(far)?);
        }
    }
    running.stop()?;
    own.sort();
    let own_ms = own[own.len() / 2].as_secs_f64() * 1e3;
    let found = Figures::of(&profile, 3600)?.day("10", "miss", "p50")?;
    let verdicts = [Verdict::near(
        format!(
            "Figure 10, proxy connect, ms: a handshake on the same way ({} if packets are on time)",
            2 * ONE_WAY.as_millis()
        ),
        own_ms,
        found,
        0.10,
    )];
    let text = serde_json::to_string(&verdicts).during(|| "writing verdicts".into())?;
    println!("{text}");
    Ok(())
}

fn handshake(to: SocketAddr) -> Result<Duration> {
    let begun = Instant::now();
    TcpStream::connect(to).during(|| format!("connecting to {to}"))?;
    Ok(begun.elapsed())
}

/// The far address; dropping it ends the delaying program, and the kernel removes the device.
struct Far(Child);

impl Far {
    fn open() -> Result<Self> {
        let delay_ms = (ONE_WAY.as_secs_f64() * 1e3).to_string();
        let mut child = Command::new("python3")
            .args(["-c", DELAY, DEVICE, &delay_ms])
            // The program ends when this is closed, also if this process is killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .during(|| "running python3".into())?;
        let said = child.stdout.take().expect("it is piped");
        let far = Self(child);
        let mut line = String::new();
        BufReader::new(said)
            .read_line(&mut line)
            .during(|| "waiting for the device".into())?;
        if line.trim() != "ready" {
            return Err(Failure::new("the device could not be made"));
        }
        tool("ip", &["addr", "add", &format!("{NEAR}/30"), "dev", DEVICE])?;
        tool("ip", &["link", "set", DEVICE, "up"])?;
        Ok(far)
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // The exit status carries no further information.
        let _ = self.0.wait();
    }
}
