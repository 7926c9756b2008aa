//! `cargo xtask dist --probe`: tests the package and the image.
//!
//! The package is installed by dpkg in a clean root; the command of its unit file runs there as the package's user, and answers over
//! HTTP: a miss, a hit, its logs reopened, a hit from disk after a restart. Then the package is installed over a changed configuration,
//! removed and purged; no file may be left. The image's root file system runs without other files, as its own user.
//!
//! Where systemd can run in its own name spaces, it runs in a second clean root and starts the package's service ([`Booted`]). Where
//! `systemd-analyze` is installed, it judges the restrictions of the unit file.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::booted::Booted;
use super::clean_root::{Root, inside};
use super::{container, done, said};
use crate::failure::{During, Failure, Result, fail};
use crate::http::{Answer, Client};
use crate::interrupt::wait_until;
use crate::origin::{self, Origin};
use crate::{ports, workspace};

/// Longest wait for a start, an end, or a line in a log.
const PATIENCE: Duration = Duration::from_secs(60);
const BYTES: u64 = 20_000;
const CONFIG: &str = "/etc/loligo/loligo.toml";

/// Tests both.
pub fn run(out: &Path, deb: &Path, lab_deb: &Path, image: &Path) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        fail!("--probe installs a package in a root of its own (chroot): run it as root");
    }
    unit_file()?;
    package(out, deb)?;
    laboratory(out, deb, lab_deb)?;
    service(out, deb)?;
    image_runs(out, image)
}

/// Prints the judgement of systemd on the unit file.
fn unit_file() -> Result<()> {
    if workspace::program("systemd-analyze").is_none() {
        println!("unit file: not judged, there is no systemd-analyze");
        return Ok(());
    }
    let unit = workspace::root().join("deploy/debian/loligo.service");
    let mut analyze = Command::new("systemd-analyze");
    analyze
        .args(["security", "--offline=true", "--threshold=25"])
        .arg(&unit);
    let said = said(&mut analyze)
        .during(|| "the sandbox of the unit file is weaker than it was".into())?;
    let level = said.lines().rfind(|line| line.contains("exposure level"));
    println!("unit file: {}", level.unwrap_or("judged").trim());
    Ok(())
}

fn package(out: &Path, deb: &Path) -> Result<()> {
    let root = Root::make(&out.join("clean-root"))?;
    let before = root.paths()?;
    fs::copy(deb, root.path().join("tmp/loligo.deb")).during(|| "copying the package".into())?;
    let dpkg = |words: &[&str]| said(&mut root.command(None, &[&["dpkg"], words].concat()));

    dpkg(&["--install", "/tmp/loligo.deb"])?;
    let changed = dpkg(&["--verify", "loligo"])?;
    if !changed.trim().is_empty() {
        fail!("installed files differ from the package's: {changed}");
    }
    said(&mut root.command(Some("loligo:loligo"), &["loligo", "check", "-c", CONFIG]))?;
    println!("package: installed, and its configuration is right");

    let log = out.join("probe-package.log");
    let unit = root.path().join("lib/systemd/system/loligo.service");
    let start = exec_start(&unit)?;
    let start = |flags: &[String]| {
        let words: Vec<&str> = start.iter().chain(flags).map(String::as_str).collect();
        root.command(Some("loligo:loligo"), &words)
    };
    served_twice(&start, &log, |running, proxy| {
        logs_are_reopened(&root, running, proxy)
    })?;
    println!(
        "package: served a miss, a hit and, started again, a hit from disk; its logs were reopened"
    );

    let config = root.path().join(&CONFIG[1..]);
    let text = fs::read_to_string(&config).during(|| "reading the configuration".into())?;
    fs::write(&config, text + "# mine\n").during(|| "changing the configuration".into())?;
    dpkg(&["--install", "/tmp/loligo.deb"])?;
    dpkg(&["--remove", "loligo"])?;
    if root.path().join("usr/bin/loligo").exists() {
        fail!("the program is still there after dpkg --remove");
    }
    let kept = fs::read_to_string(&config)
        .during(|| "reading the configuration that a removal leaves".into())?;
    if !kept.ends_with("# mine\n") {
        fail!("the operator's configuration was lost: {kept}");
    }
    dpkg(&["--purge", "loligo"])?;
    let left: Vec<_> = root
        .paths()?
        .difference(&before)
        .filter(|path| !may_stay(path))
        .cloned()
        .collect();
    if !left.is_empty() {
        fail!("left after dpkg --purge: {left:?}");
    }
    let lost: BTreeSet<_> = before.difference(&root.paths()?).cloned().collect();
    if lost.iter().any(|path| !may_stay(path)) {
        fail!("gone with dpkg --purge, and not the package's: {lost:?}");
    }
    println!(
        "package: installed over a changed configuration, which it kept; removed; purged, nothing left but its user"
    );
    fs::remove_dir_all(root.path()).during(|| "removing the clean root".into())
}

/// Tests the laboratory's package alone and together with the server's, which reports it as missing if it is not installed.
fn laboratory(out: &Path, deb: &Path, lab_deb: &Path) -> Result<()> {
    const HELP: [&str; 4] = ["loligo", "bench", "polymix", "--help"];
    let root = Root::make(&out.join("clean-root"))?;
    for (from, name) in [(deb, "loligo.deb"), (lab_deb, "loligo-lab.deb")] {
        let to = root.path().join("tmp").join(name);
        fs::copy(from, to).during(|| "copying the package".into())?;
    }
    let dpkg = |words: &[&str]| said(&mut root.command(None, &[&["dpkg"], words].concat()));
    dpkg(&["--install", "/tmp/loligo-lab.deb"])?;
    said(&mut root.command(None, &["loligo-lab", "model", "claims"]))?;
    dpkg(&["--install", "/tmp/loligo.deb"])?;
    let help = said(&mut root.command(None, &HELP))?;
    if !help.contains("--cache-size") {
        fail!("loligo bench polymix --help says something else: {help}");
    }
    let changed = dpkg(&["--verify", "loligo-lab"])?;
    if !changed.trim().is_empty() {
        fail!("installed files differ from the package's: {changed}");
    }
    dpkg(&["--purge", "loligo-lab"])?;
    let missed = root.command(None, &HELP).output();
    let missed = missed.during(|| "running loligo bench".into())?;
    let words = String::from_utf8_lossy(&missed.stderr).into_owned();
    if missed.status.success() || !words.contains("install the package loligo-lab") {
        fail!("without its package loligo bench says: {words}");
    }
    println!("package loligo-lab: installed alone, run by loligo, purged and missed");
    fs::remove_dir_all(root.path()).during(|| "removing the clean root".into())
}

/// Tests the package's service under systemd.
fn service(out: &Path, deb: &Path) -> Result<()> {
    // A store of the default size is not needed.
    const SMALL: &str = "[Service]\nExecStart=\nExecStart=/usr/bin/loligo serve --config /etc/loligo/loligo.toml --store-size 64MiB\n";
    let root = Root::make(&out.join("clean-root"))?;
    let deb_inside = root.path().join("var/loligo.deb");
    fs::copy(deb, deb_inside).during(|| "copying the package".into())?;
    let small = root
        .path()
        .join("etc/systemd/system/loligo.service.d/small.conf");
    super::write(&small, SMALL, 0o644)?;
    if let Some(booted) = Booted::boot(root.path(), &out.join("probe-systemd.log"))? {
        booted.try_package("/var/loligo.deb")?;
        booted.run(&["dpkg", "--remove", "loligo"])?;
        booted.is_stopped()?;
        booted.run(&["dpkg", "--purge", "loligo"])?;
        println!("systemd: the removal of the package stopped the service");
    }
    fs::remove_dir_all(root.path()).during(|| "removing the clean root".into())
}

/// Whether a path may stay after the purge: the list of users, dpkg's own records, and the package file.
fn may_stay(path: &Path) -> bool {
    const STAY: [&str; 10] = [
        "etc/passwd",
        "etc/group",
        "etc/shadow",
        "etc/gshadow",
        "etc/subuid",
        "etc/subgid",
        "etc/.pwd.lock",
        "var/lib/dpkg",
        "var/log",
        "tmp/loligo.deb",
    ];
    let path_text = path.to_string_lossy();
    let is_ours = path_text.contains("loligo") && path_text != "tmp/loligo.deb";
    !is_ours && STAY.iter().any(|stay| path_text.starts_with(stay))
}

/// The arguments of `ExecStart=`.
fn exec_start(unit: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(unit).during(|| format!("reading {}", unit.display()))?;
    match text
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
    {
        Some(words) => Ok(words.split_whitespace().map(str::to_owned).collect()),
        None => fail!("{} has no ExecStart", unit.display()),
    }
}

fn image_runs(out: &Path, image: &Path) -> Result<()> {
    // Run a copy, so that its writes do not change the image. The folders are mount points, which every engine makes itself.
    let root = out.join("container/probed");
    super::empty(&root)?;
    done(Command::new("cp").arg("-a").arg(image.join(".")).arg(&root))?;
    for folder in ["dev", "proc"] {
        fs::create_dir_all(root.join(folder)).during(|| "copying the image".into())?;
    }
    let user = container::USER;
    let state = root.join("var/lib/loligo");
    std::os::unix::fs::chown(&state, Some(user), Some(user))
        .during(|| "copying the image".into())?;
    let user = format!("{user}:{user}");
    let start = |flags: &[String]| {
        let words = ["/usr/bin/loligo", "serve", "--config", CONFIG];
        let words: Vec<&str> = words
            .into_iter()
            .chain(flags.iter().map(String::as_str))
            .collect();
        inside(&root, Some(&user), &words)
    };
    served_twice(&start, &out.join("probe-image.log"), |_, _| Ok(()))?;
    println!("image: as user {user} it served a miss, a hit and, started again, a hit from disk");
    fs::remove_dir_all(&root).during(|| "removing the copy of the image".into())
}

/// Tests a miss and a hit; then, after a restart, a hit from disk. `between` is called during the first run.
fn served_twice(
    start: &dyn Fn(&[String]) -> Command,
    log: &Path,
    between: impl FnOnce(&Running, &mut dyn FnMut() -> Result<()>) -> Result<()>,
) -> Result<()> {
    let origin = Origin::start(0, 1)?;
    let ask = |running: &Running, id: &str| -> Result<()> {
        let url = format!("http://{}{}", origin.address(), origin::path(BYTES, id));
        let answer: Answer = Client::new(running.proxy).get(&url)?;
        let is_right = answer.body.len() as u64 == BYTES && origin::is_body_of(&answer.body, id);
        if answer.status != 200 || !is_right {
            fail!(
                "GET {url} through the proxy: status {}, {} bytes; see {}",
                answer.status,
                answer.body.len(),
                log.display()
            );
        }
        Ok(())
    };
    let fetched = |expected: u64, when: &str| match origin.served() {
        served if served == expected => Ok(()),
        served => fail!(
            "{when}: the origin was asked {served} times, not {expected}; see {}",
            log.display()
        ),
    };
    let running = Running::start(start, log)?;
    ask(&running, "a")?;
    fetched(1, "after a miss")?;
    ask(&running, "a")?;
    fetched(1, "after a hit")?;
    between(&running, &mut || ask(&running, "a"))?;
    running.stop()?;
    let running = Running::start(start, log)?;
    ask(&running, "a")?;
    fetched(1, "after a restart")?;
    running.stop()
}

/// Renames the logs and reopens them, as logrotate does.
fn logs_are_reopened(
    root: &Root,
    running: &Running,
    ask: &mut dyn FnMut() -> Result<()>,
) -> Result<()> {
    let log = root.path().join("var/log/loligo/access.log");
    let old = log.with_extension("log.1");
    fs::rename(&log, &old).during(|| format!("rotating {}", log.display()))?;
    running.signal(Signal::USR1)?;
    let is_new = wait_until(PATIENCE, || log.exists())?;
    ask()?;
    let has_line = || fs::read_to_string(&log).is_ok_and(|text| text.contains("/size/"));
    if !is_new || !wait_until(PATIENCE, has_line)? {
        fail!(
            "after SIGUSR1 nothing is written to a new {}",
            log.display()
        );
    }
    Ok(())
}

/// A running proxy; dropping it kills it.
struct Running {
    child: Child,
    proxy: SocketAddr,
    log: PathBuf,
}

impl Running {
    fn start(start: &dyn Fn(&[String]) -> Command, log: &Path) -> Result<Self> {
        let [proxy, admin] =
            [ports::free()?, ports::free()?].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
        let flags = [
            "--listen".to_owned(),
            proxy.to_string(),
            "--admin".into(),
            admin.to_string(),
            "--store-size".into(),
            "64MiB".into(),
        ];
        let file = fs::File::options().create(true).append(true).open(log);
        let file = file.during(|| format!("opening {}", log.display()))?;
        let too = file.try_clone().during(|| "a second handle".into())?;
        let child = start(&flags)
            .stdout(file)
            .stderr(too)
            .spawn()
            .during(|| "starting the proxy".into())?;
        let mut running = Self {
            child,
            proxy,
            log: log.to_owned(),
        };
        let is_up = || {
            !matches!(running.child.try_wait(), Ok(None))
                || std::net::TcpStream::connect(admin).is_ok()
        };
        let is_up = wait_until(PATIENCE, is_up)?;
        if !is_up || !matches!(running.child.try_wait(), Ok(None)) {
            fail!("the proxy did not start: see {}", log.display());
        }
        match Client::new(admin).get("/healthz")?.status {
            200 => Ok(running),
            status => fail!("/healthz says {status}: see {}", log.display()),
        }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Failure::new("a process without a number"))?;
        kill_process(pid, signal).during(|| "a signal to the proxy".into())
    }

    /// Stops it with SIGTERM.
    fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let mut status = None;
        let ended = wait_until(PATIENCE, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        })?;
        match status {
            Some(status) if ended && status.success() => Ok(()),
            Some(status) => fail!(
                "after SIGTERM it ended with {status}: see {}",
                self.log.display()
            ),
            None => fail!(
                "it has not ended {} s after SIGTERM: see {}",
                PATIENCE.as_secs(),
                self.log.display()
            ),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_stay_is_not_the_packages_own() {
        for yes in [
            "etc/passwd-",
            "var/lib/dpkg/status-old",
            "var/log/dpkg.log",
            "tmp/loligo.deb",
        ] {
            assert!(may_stay(Path::new(yes)), "{yes}");
        }
        for no in [
            "var/log/loligo/access.log",
            "etc/loligo",
            "usr/share/man/man1/loligo.1.gz",
            "var/lib/dpkg/info/loligo.list",
        ] {
            assert!(!may_stay(Path::new(no)), "{no}");
        }
    }
}
