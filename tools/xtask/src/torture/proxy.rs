//! The proxy under torture: one process after the other, on the same addresses and the same store.
//!
//! It runs with little memory, so that hits come from disk, or with enough memory for hot objects. It is killed by its pid with SIGKILL.
//! Its admin interface says whether it still rebuilds its index: the member [`RECOVERY`] of a store in `/status` is null or
//! missing once there is nothing left to rebuild.
//!
//! Limits: [`READY_MAX`] from the start to the first answer, [`END_MAX`] from the kill to the end.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::origin::PING;
use super::steps;
use super::test_bed::TestBed;
use crate::failure::{During, Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::ports;
use crate::process::{CommandLine, Identity, Server, tail};
use crate::rivals::front::{self, Front};

/// The member of a store in `/status` that reports the progress of recovery.
const RECOVERY: &str = "recovery";
const READY_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(20);
/// Less than one large object, so that almost nothing is answered from memory.
const LITTLE_MEMORY: &str = "1MiB";
/// Enough memory for ranges of large objects that are requested repeatedly.
const MORE_MEMORY: &str = "32MiB";
const WORKERS: &str = "2";
/// Reads go to the disk at once, not through the queue for slow disks.
const AS_FAST: &str = "store.lazy-reads = 0\n";

/// The paths of reads in the proxy.
#[derive(Clone, Copy)]
pub struct Ways {
    /// The proxy treats the disk as fast, whatever it measures (unless a configuration is given).
    pub as_fast: bool,
    /// Hot objects come from memory.
    pub has_memory: bool,
}

/// A proxy, running or not; dropping it kills it.
pub struct Proxy {
    command: CommandLine,
    server: Option<Server>,
    /// The address for clients.
    pub address: SocketAddr,
    /// The address for purges.
    pub admin: SocketAddr,
    /// The log file.
    pub log: PathBuf,
    /// The directory whose files name the steps of an upgrade at which a process is held.
    pub holds: PathBuf,
}

impl Proxy {
    /// A proxy that is not started yet. With a second listener no configuration may be among the arguments.
    pub fn new(
        binary: &Path,
        origin: SocketAddr,
        test_bed: &TestBed,
        ways: Ways,
        front: Option<&Front>,
        extra: &[String],
    ) -> Result<Self> {
        let [address, admin] = [free()?, free()?];
        let mut args: Vec<String> = [
            "serve",
            "--admin",
            &admin.to_string(),
            "--store",
            &test_bed.store.display().to_string(),
            "--store-size",
            &test_bed.bytes.to_string(),
            "--memory",
            match ways.has_memory {
                true => MORE_MEMORY,
                false => LITTLE_MEMORY,
            },
            "--workers",
            WORKERS,
        ]
        .map(String::from)
        .to_vec();
        let mut text = String::new();
        if ways.as_fast {
            text += AS_FAST;
        }
        match front {
            Some(front) => text += &front::of_loligo(front, address, origin),
            None => args.extend([
                "--listen".into(),
                address.to_string(),
                "--reverse".into(),
                format!("http://{origin}"),
                // Obey, since the answer to a no-cache GET counts as the newest version.
                "--client-directives".into(),
                "obey".into(),
            ]),
        }
        if !text.is_empty() && !is_configured(extra) {
            let config = test_bed.dir.join("loligo.toml");
            fs::write(&config, text).during(|| format!("writing {}", config.display()))?;
            args.extend(["-c".into(), config.display().to_string()]);
        }
        args.extend(extra.iter().cloned());
        let holds = test_bed.dir.join("holds");
        fs::create_dir_all(&holds).during(|| format!("making {}", holds.display()))?;
        Ok(Self {
            command: CommandLine::new(&binary.display().to_string(), args)
                .with_env(steps::VARIABLE, &holds.display().to_string()),
            holds,
            server: None,
            address,
            admin,
            log: test_bed.dir.join("loligo.log"),
        })
    }

    /// Starts the proxy and waits for its first answer; returns how long that took.
    pub fn start(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        let mut server = self.command.spawn(&self.log)?;
        let mut ended = false;
        let address = self.address;
        let answers = interrupt::wait_until(READY_MAX, || {
            ended = server.has_ended();
            ended || answers(address)
        });
        let took = begun.elapsed();
        self.server = Some(server);
        match answers? {
            _ if ended => fail!("the proxy ended instead of starting{}", tail(&self.log)),
            false => fail!(
                "no answer within {} s of a start{}",
                READY_MAX.as_secs(),
                tail(&self.log)
            ),
            true => Ok(took),
        }
    }

    /// An error if the process has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        if self.server.as_mut().is_some_and(Server::has_ended) {
            self.server = None;
            fail!("the proxy ended by itself{}", tail(&self.log));
        }
        Ok(())
    }

    /// Sends SIGKILL, and waits for the end.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        server.identity().signal(Signal::KILL);
        let end = Instant::now() + END_MAX;
        // Not interruptible: cleaning up also goes through here.
        while !server.has_ended() {
            if Instant::now() > end {
                fail!(
                    "the proxy does not end {} s after SIGKILL",
                    END_MAX.as_secs()
                );
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.command.program
    }

    /// The process.
    pub fn identity(&self) -> Result<Identity> {
        match &self.server {
            Some(server) => Ok(server.identity()),
            None => fail!("the proxy does not run"),
        }
    }

    /// Makes another process the proxy; returns the previous one.
    pub fn adopt(&mut self, process: Identity) -> Option<Server> {
        self.server.replace(Server::adopted(process))
    }

    /// Makes the previous process the proxy again.
    pub fn take_back(&mut self, server: Server) {
        self.server = Some(server);
    }

    /// Notes that no process is running.
    pub fn adopt_none(&mut self) {
        self.server = None;
    }

    /// Whether the proxy answers.
    pub fn answers(&self) -> bool {
        answers(self.address)
    }

    /// Verifies the whole store with `loligo store verify`; no process may be using it.
    pub fn verify(&self, store: &Path) -> Result<()> {
        let args = ["store", "verify", &store.display().to_string()];
        CommandLine::new(&self.command.program, args).run(&self.log)
    }

    /// Sends SIGTERM, and waits for the end.
    pub fn stop(&mut self) -> Result<()> {
        match self.server.take() {
            Some(mut server) => server.stop(),
            None => Ok(()),
        }
    }

    /// Whether the proxy still rebuilds its index; `None` if it does not say.
    pub fn is_recovering(&self) -> Option<bool> {
        let answer = Client::new(self.admin).get("/status").ok()?;
        is_recovering(&serde_json::from_slice(&answer.body).ok()?)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if let Err(failure) = self.kill() {
            eprintln!("{failure}");
        }
    }
}

/// Whether a configuration is among these arguments.
pub fn is_configured(extra: &[String]) -> bool {
    let is_config = |arg: &String| arg.starts_with("-c") || arg.starts_with("--config");
    extra.iter().any(is_config)
}

/// An address of this machine without a listener.
pub fn free() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, ports::free()?).into())
}

/// Whether a store of this `/status` rebuilds its index; `None` without a store, or if one does not say.
fn is_recovering(status: &serde_json::Value) -> Option<bool> {
    let stores = status.get("stores")?.as_array()?;
    let left: Option<Vec<&serde_json::Value>> = stores.iter().map(|it| it.get(RECOVERY)).collect();
    let left = left.filter(|left| !left.is_empty())?;
    Some(left.iter().any(|left| !left.is_null()))
}

fn answers(address: SocketAddr) -> bool {
    Client::new(address)
        .get(PING)
        .is_ok_and(|answer| answer.status == 200)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recovery_is_over_when_every_store_says_so() {
        let of = |stores: serde_json::Value| is_recovering(&serde_json::json!({"stores": stores}));
        let (over, left) = (
            serde_json::json!({"recovery": null}),
            serde_json::json!({"recovery": {"done_bytes": 1}}),
        );
        assert_eq!(of(serde_json::json!([over])), Some(false));
        assert_eq!(of(serde_json::json!([over, left])), Some(true));
        assert_eq!(of(serde_json::json!([over, {}])), None);
        assert_eq!(of(serde_json::json!([])), None);
        assert_eq!(is_recovering(&serde_json::json!({"store": over})), None);
    }
}
