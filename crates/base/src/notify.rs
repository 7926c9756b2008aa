//! Messages to the service manager: systemd's `sd_notify(3)`, `Type=notify-reload`.
//!
//! A datagram of lines goes to the socket that `NOTIFY_SOCKET` names; without that variable nothing is sent. If the manager does not
//! take a datagram, it is dropped. The protocol is stable and three lines long, so no library is used.
//!
//! Not known here: when the process is ready or well.

use std::{
    ffi::OsStr,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

/// The socket of the service manager. The default has none and sends nothing.
#[derive(Default)]
pub struct Manager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often the manager expects a sign of life.
    watchdog: Option<Duration>,
}

impl Manager {
    /// The manager that the environment names.
    pub fn of_environment() -> Manager {
        let variable = |name: &str| std::env::var_os(name);
        Manager::at(
            variable("NOTIFY_SOCKET").as_deref(),
            variable("WATCHDOG_USEC").as_deref(),
            variable("WATCHDOG_PID").as_deref(),
        )
    }

    fn at(
        socket: Option<&OsStr>,
        watchdog_us: Option<&OsStr>,
        watchdog_pid: Option<&OsStr>,
    ) -> Manager {
        let to = socket.and_then(|name| {
            let opened = address(name).and_then(|to| Ok((UnixDatagram::unbound()?, to)));
            let opened = opened.and_then(|(socket, to)| {
                socket.set_nonblocking(true)?;
                Ok((socket, to))
            });
            opened
                .inspect_err(|error| tracing::warn!(%error, "NOTIFY_SOCKET cannot be used; the service manager is told nothing"))
                .ok()
        });
        let number = |text: &OsStr| text.to_str()?.parse::<u64>().ok();
        let is_ours = watchdog_pid.is_none_or(|pid| number(pid) == Some(std::process::id().into()));
        let watchdog = watchdog_us.and_then(number).filter(|us| *us > 0 && is_ours);
        Manager {
            // Twice in the time, as sd_watchdog_enabled(3) advises.
            watchdog: watchdog
                .filter(|_| to.is_some())
                .map(|us| Duration::from_micros(us) / 2),
            to,
        }
    }

    /// How often [`Self::is_well`] must be called; `None`: never.
    pub fn watchdog(&self) -> Option<Duration> {
        self.watchdog
    }

    /// The process serves clients; or a reload is over, whether it succeeded or not.
    pub fn is_ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={status}"));
    }

    /// A reload begins.
    pub fn reloads(&self) {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let us = time.tv_sec as i128 * 1_000_000 + time.tv_nsec as i128 / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={us}"));
    }

    /// The process begins to drain.
    pub fn stops(&self) {
        self.tell("STOPPING=1\nSTATUS=draining");
    }

    /// Process `pid` is the service's main process from now on. The old process sends this, because the manager still accepts its messages.
    pub fn is_succeeded_by(&self, pid: u32) {
        self.tell(&format!(
            "MAINPID={pid}\nSTATUS=another process has taken over"
        ));
    }

    /// All threads make progress.
    pub fn is_well(&self) {
        self.tell("WATCHDOG=1");
    }

    fn tell(&self, words: &str) {
        if let Some((socket, to)) = &self.to
            && let Err(error) = socket.send_to_addr(words.as_bytes(), to)
        {
            tracing::debug!(%error, "the service manager does not listen");
        }
    }
}

/// `/path`, or `@name` in the abstract namespace.
fn address(name: &OsStr) -> std::io::Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives_and_nobody_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager_socket = UnixDatagram::bind(&path).unwrap();
        let heard = || {
            let mut words = [0; 256];
            let n = manager_socket.recv(&mut words).unwrap();
            String::from_utf8(words[..n].to_vec()).unwrap()
        };
        let us = OsStr::new("2000000");
        let manager = Manager::at(Some(path.as_os_str()), Some(us), None);
        assert_eq!(manager.watchdog(), Some(Duration::from_secs(1)));
        manager.is_ready("edition 1");
        assert_eq!(heard(), "READY=1\nSTATUS=edition 1");
        manager.reloads();
        let words = heard();
        let us = words.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").unwrap();
        assert!(us.parse::<u64>().unwrap() > 0, "{words}");
        manager.is_well();
        assert_eq!(heard(), "WATCHDOG=1");
        drop(manager_socket);
        manager.stops();
    }

    #[test]
    fn without_a_manager_or_for_another_process_nothing_is_said() {
        let us = Some(OsStr::new("2000000"));
        let nobody = Manager::at(None, us, None);
        assert_eq!(nobody.watchdog(), None);
        nobody.is_ready("");
        let abstracted = OsStr::new("@loligo-test-of-notify");
        for (watchdog, pid, wanted) in [
            (us, Some("1"), None),
            (Some(OsStr::new("no number")), None, None),
            (Some(OsStr::new("0")), None, None),
            (us, None, Some(Duration::from_secs(1))),
        ] {
            let manager = Manager::at(Some(abstracted), watchdog, pid.map(OsStr::new));
            assert_eq!(manager.watchdog(), wanted, "{watchdog:?} {pid:?}");
        }
        let long = "x".repeat(200);
        assert_eq!(
            Manager::at(Some(OsStr::new(&long)), us, None).watchdog(),
            None
        );
    }
}
