//! The proxy that is tortured: one process after the other, on the same addresses and the same store.
//!
//! Started with little memory, so that hits come from the disk, or with so much that what is hot is in memory. Killed by its pid with SIGKILL. Whether it still
//! rebuilds its index is asked of its admin interface: a member [`RECOVERY`] of `/status`, whatever it lies in, is null or
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

/// The member of a store in `/status` that says how far recovery has come.
const RECOVERY: &str = "recovery";
const READY_MAX: Duration = Duration::from_secs(60);
const END_MAX: Duration = Duration::from_secs(20);
/// Less than one large object, so that next to nothing is answered from memory.
const LITTLE_MEMORY: &str = "1MiB";
/// Parts of large objects that are asked for again are in memory, too.
const MORE_MEMORY: &str = "32MiB";
const WORKERS: &str = "2";
/// Reads go to the disk at once, and not through the queue for slow ones.
const AS_FAST: &str = "store.lazy-reads = 0\n";

/// The ways that what is read takes.
#[derive(Clone, Copy)]
pub struct Ways {
    /// It takes the disk for a fast one, whatever it measures (unless a configuration is given).
    pub as_fast: bool,
    /// What is hot comes from memory.
    pub has_memory: bool,
}

/// A proxy, running or not; dropping it kills it.
pub struct Proxy {
    command: CommandLine,
    server: Option<Server>,
    /// Where clients connect.
    pub address: SocketAddr,
    /// Where it is asked to purge.
    pub admin: SocketAddr,
    /// What it says.
    pub log: PathBuf,
    /// Where it is said at which step of an upgrade it is held.
    pub holds: PathBuf,
}

impl Proxy {
    /// Not started yet. With a second listener no configuration may be among the arguments.
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
                // The answer to a no-cache GET counts as the newest version.
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

    /// Starts it and waits for its first answer; how long that took.
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

    /// An error if it has ended by itself.
    pub fn check_alive(&mut self) -> Result<()> {
        if self.server.as_mut().is_some_and(Server::has_ended) {
            self.server = None;
            fail!("the proxy ended by itself{}", tail(&self.log));
        }
        Ok(())
    }

    /// SIGKILL, and waits for its end.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut server) = self.server.take() else {
            return Ok(());
        };
        server.identity().signal(Signal::KILL);
        let end = Instant::now() + END_MAX;
        // Not interruptible: this is also how everything is undone.
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

    /// Another process is the proxy now; the one before.
    pub fn adopt(&mut self, process: Identity) -> Option<Server> {
        self.server.replace(Server::adopted(process))
    }

    /// It is still this one.
    pub fn take_back(&mut self, server: Server) {
        self.server = Some(server);
    }

    /// There is none.
    pub fn adopt_none(&mut self) {
        self.server = None;
    }

    /// Does it answer?
    pub fn answers(&self) -> bool {
        answers(self.address)
    }

    /// Has `loligo store verify` read the whole store, which no process may use.
    pub fn verify(&self, store: &Path) -> Result<()> {
        let args = ["store", "verify", &store.display().to_string()];
        CommandLine::new(&self.command.program, args).run(&self.log)
    }

    /// SIGTERM, and waits for its end.
    pub fn stop(&mut self) -> Result<()> {
        match self.server.take() {
            Some(mut server) => server.stop(),
            None => Ok(()),
        }
    }

    /// Does it still rebuild its index? None: it does not say.
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

/// Is a configuration among these arguments?
pub fn is_configured(extra: &[String]) -> bool {
    let is_config = |arg: &String| arg.starts_with("-c") || arg.starts_with("--config");
    extra.iter().any(is_config)
}

/// An address of this machine that nobody listens at.
pub fn free() -> Result<SocketAddr> {
    Ok((Ipv4Addr::LOCALHOST, ports::free()?).into())
}

/// Does one of the stores of this `/status` rebuild its index? None: it has no store, or one that does not say.
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
