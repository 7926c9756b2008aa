//! systemd in the clean root: tests the unit file as it will be used.
//!
//! systemd runs as the first process of its own name spaces, so it may mount, count processes and start services as on a real machine;
//! everything vanishes with that process. It has no network but loopback, so the package's own ports are free.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::said;
use crate::failure::{During, Result, fail};
use crate::interrupt::wait_until;

/// Longest time for systemd to start.
const PATIENCE: Duration = Duration::from_secs(60);

/// Run in the new name spaces; `$1` is the root. `/dev` is as in a container, since systemd makes a smaller one from it for services.
const BOOT: &str = r#"
set -e
ip link set lo up
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir -p dev/pts dev/shm .old
ln -s pts/ptmx dev/ptmx
pivot_root . .old
umount -l /.old
exec /usr/bin/env -i container=probe PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --system --unit=basic.target --show-status=0
"#;

/// A root in which systemd runs. Dropping it ends all its processes.
pub struct Booted {
    outer: Child,
    /// The process id of its systemd.
    init: u32,
}

impl Booted {
    /// Boots systemd. `None`, with a message: systemd cannot run here.
    ///
    /// # Errors
    /// The commands for it are not installed.
    pub fn boot(root: &Path, log: &Path) -> Result<Option<Booted>> {
        let file = fs::File::create(log).during(|| format!("making {}", log.display()))?;
        let too = file.try_clone().during(|| "a second handle".into())?;
        let spaces = [
            "--mount",
            "--pid",
            "--fork",
            "--cgroup",
            "--net",
            "--uts",
            "--ipc",
            "--kill-child",
        ];
        let mut unshare = Command::new("unshare");
        unshare
            .args(spaces)
            .args(["sh", "-c", BOOT, "sh"])
            .arg(root);
        unshare.stdin(Stdio::null()).stdout(file).stderr(too);
        let outer = unshare.spawn().during(|| "running unshare".into())?;
        let mut booted = Booted { outer, init: 0 };
        // A stopped target leaves systemd "degraded", which is good enough for services.
        let is_up = wait_until(PATIENCE, || {
            booted.init = booted.find_init().unwrap_or(0);
            let state = booted.command(&["systemctl", "is-system-running"]).output();
            let state = state.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
            booted.init != 0 && state.is_ok_and(|it| it == "running" || it == "degraded")
        })?;
        if !is_up {
            println!(
                "systemd: does not come up in name spaces here, see {}; not tried",
                log.display()
            );
            return Ok(None);
        }
        // Debian's policy file for images forbids services to start.
        let _ = fs::remove_file(root.join("usr/sbin/policy-rc.d"));
        Ok(Some(booted))
    }

    /// The process id of systemd: the child of `unshare`.
    fn find_init(&self) -> Option<u32> {
        let pid = self.outer.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    /// A command run inside.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args([
            "--target",
            &self.init.to_string(),
            "--mount",
            "--pid",
            "--cgroup",
            "--net",
            "--uts",
            "--ipc",
        ]);
        command.args(words).env_clear();
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.env("DEBIAN_FRONTEND", "noninteractive");
        command.stdin(Stdio::null());
        command
    }

    /// The output of a command run inside.
    ///
    /// # Errors
    /// The command failed.
    pub fn run(&self, words: &[&str]) -> Result<String> {
        said(&mut self.command(words))
    }

    /// A property of the service, such as `MainPID`.
    fn property(&self, name: &str) -> Result<String> {
        let text = self.run(&[
            "systemctl",
            "show",
            "--property",
            name,
            "--value",
            "loligo.service",
        ])?;
        Ok(text.trim().to_owned())
    }

    /// Installs the package file in the root, and tests the service that it starts.
    ///
    /// # Errors
    /// A test failed.
    pub fn try_package(&self, deb: &str) -> Result<()> {
        self.run(&["dpkg", "--install", deb])?;
        let is_ready = || {
            let log = self.run(&["journalctl", "--no-pager", "--unit", "loligo.service"]);
            log.is_ok_and(|text| text.contains("ready, "))
        };
        if !wait_until(PATIENCE, is_ready)? {
            let status = self.command(&[
                "systemctl",
                "status",
                "--no-pager",
                "--full",
                "loligo.service",
            ]);
            let status = { status }.output().during(|| "asking systemd".into())?;
            fail!(
                "the service does not start:\n{}",
                String::from_utf8_lossy(&status.stdout)
            );
        }
        let status = fs::read_to_string(
            self.root_of_init()
                .join("proc")
                .join(self.property("MainPID")?)
                .join("status"),
        );
        let status = status.during(|| "reading the status of the service".into())?;
        let is_root = status
            .lines()
            .any(|line| line.starts_with("Uid:") && line.split_whitespace().nth(1) == Some("0"));
        if is_root || !status.contains("NoNewPrivs:\t1") || !status.contains("Seccomp:\t2") {
            fail!("the service has rights that it should not have:\n{status}");
        }
        let log = self.run(&["journalctl", "--no-pager", "--unit", "loligo.service"])?;
        let engine = log
            .lines()
            .find_map(|line| line.split_once("disk I/O by "))
            .map_or("?", |it| it.1);
        println!(
            "systemd: started by the package, in its sandbox, not as root; disk I/O by {engine}"
        );
        self.try_reload()?;
        self.try_upgrade(deb)?;
        self.run(&["systemctl", "restart", "loligo.service"])?;
        if !wait_until(PATIENCE, || {
            self.property("ActiveState").is_ok_and(|it| it == "active")
        })? {
            fail!("the service does not come back after a restart");
        }
        Ok(())
    }

    /// Changes the configuration of the running service: first to a valid one, then to an invalid one.
    fn try_reload(&self) -> Result<()> {
        let config = self.root_of_init().join("etc/loligo/loligo.toml");
        let before = fs::read_to_string(&config).during(|| "reading the configuration".into())?;
        let write = |more: &str| {
            fs::write(&config, format!("{before}{more}"))
                .during(|| "changing the configuration".into())
        };
        let pid = self.property("MainPID")?;
        let reload = || self.run(&["systemctl", "reload", "loligo.service"]);
        write("\n[timeouts]\nconnect = \"7s\"\n")?;
        reload()?;
        write("\n[timeouts]\nconnect = \"seven\"\n")?;
        if reload().is_ok() {
            fail!("systemctl reload does not fail with a wrong configuration");
        }
        let log = self.run(&["journalctl", "--no-pager", "--unit", "loligo.service"])?;
        for words in ["the configuration is in force", "timeouts.connect"] {
            if !log.contains(words) {
                fail!("the journal does not say {words:?} after reloads:\n{log}");
            }
        }
        let (state, now) = (self.property("ActiveState")?, self.property("MainPID")?);
        if state != "active" || now != pid {
            fail!("after reloads the service is {state}, process {now}; it was {pid}");
        }
        write("")?;
        reload()?;
        println!("systemd: reloaded without a restart; a wrong configuration was refused");
        Ok(())
    }

    /// Installs the package again while the service runs: the new program takes over, and systemd does not restart the service.
    fn try_upgrade(&self, deb: &str) -> Result<()> {
        let since = || self.property("ActiveEnterTimestampMonotonic");
        let (pid, began) = (self.property("MainPID")?, since()?);
        self.run(&["dpkg", "--install", deb])?;
        let (now, begins) = (self.property("MainPID")?, since()?);
        if now == pid || begins != began {
            let log = self.run(&["journalctl", "--no-pager", "--unit", "loligo.service"])?;
            fail!(
                "installing the package again restarts the service, or leaves the old program (process {pid}, now {now}):\n{log}"
            );
        }
        println!("systemd: installed again, the new program took over without a restart");
        Ok(())
    }

    /// Checks that the service has stopped, after the package was removed.
    ///
    /// # Errors
    /// The service still runs.
    pub fn is_stopped(&self) -> Result<()> {
        match self.property("MainPID")?.as_str() {
            "0" | "" => Ok(()),
            pid => fail!("the package is removed and its service still runs as process {pid}"),
        }
    }

    /// The root as seen by its processes, through `/proc`.
    fn root_of_init(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.init))
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // When the first process of its name space ends, all others end too, and its mounts vanish.
        let _ = self.outer.kill();
        let _ = self.outer.wait();
    }
}
