//! The proxy as a process of its own: to be killed, and to be measured.
//!
//! The process is this very test binary, told to run one test ([`serves_when_told_to`]) that serves until its
//! standard input ends.

use std::{
    env,
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{self, Command, Stdio},
    time::Duration,
};

use ::proxy::plan::{Admin, Listener, StorePlan};

use super::{
    Client, Origin, Proxy, Response,
    running::{local, plan, url},
};

const TOLD_TO: &str = "LOLIGO_E2E_CHILD";
/// What a process says when it serves, before its addresses.
pub const READY: &str = "READY ";

/// This test binary once more, told by a variable of the environment to run one test, which serves and says [`READY`]: the process, and
/// what it says behind that.
pub fn spawn(test: &str, (variable, told): (&str, String)) -> (process::Child, String) {
    let mut process = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, told)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(process.stdout.take().unwrap());
    let ready = said.lines().map(Result::unwrap).find_map(|line| {
        let at = line.find(READY)?;
        Some(line[at + READY.len()..].to_owned())
    });
    (process, ready.expect("the child is ready"))
}

/// A proxy in a process of its own; killed when dropped.
pub struct Child {
    process: process::Child,
    address: SocketAddr,
    /// Its admin interface.
    pub admin: SocketAddr,
}

impl Child {
    /// In front of this origin, with a store of so many MiB at this path.
    pub fn start(origin: &Origin, store: &Path, mib: u64) -> Child {
        let told = format!("{} {mib} {}", origin.address, store.display());
        let (process, ready) = spawn("harness::child::serves_when_told_to", (TOLD_TO, told));
        let (address, admin) = ready.split_once(' ').unwrap();
        let (address, admin) = (address.parse().unwrap(), admin.parse().unwrap());
        Child {
            process,
            address,
            admin,
        }
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.client().get(target)
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address)
    }

    /// The most memory it ever had, bytes.
    pub fn memory_bytes_peak(&self) -> u64 {
        let path = format!("/proc/{}/status", self.process.id());
        let status = std::fs::read_to_string(path).unwrap();
        let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
        let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib << 10
    }

    /// SIGKILL.
    pub fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Not a test: what the process started above does. Among the tests it does nothing.
#[test]
fn serves_when_told_to() {
    let Ok(told) = env::var(TOLD_TO) else { return };
    let words: Vec<&str> = told.splitn(3, ' ').collect();
    let [origin, mib, store] = words[..] else {
        panic!("{told:?}");
    };
    let listener = Listener::reverse(local(), Vec::new(), url(origin.parse().unwrap()));
    let mut plan = plan(listener);
    let bytes = mib.parse::<u64>().unwrap() << 20;
    plan.limits.object_bytes_max = 64 << 30;
    plan.storing.cluster_deadline = Duration::from_millis(10);
    plan.stores = vec![StorePlan::at(store, Some(bytes))];
    plan.admin = Some(Admin {
        address: local(),
        allow: Vec::new(),
    });
    let proxy = Proxy::start(plan);
    let admin = proxy.ready.admin.unwrap();
    println!("{READY}{} {admin}", proxy.address());
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    proxy.stop();
}
