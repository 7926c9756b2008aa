//! Finds which addresses of a plan are already in use, for `loligo check`.
//!
//! The kernel's list of sockets is read (`/proc/net`); nothing is bound, so a proxy that starts meanwhile is not disturbed. `check` is often
//! run beside the proxy before it reloads its configuration. So an address that a `loligo` uses is a note, and one that another program uses
//! is a problem. Only root and the same user can see the owner of a socket; an address whose owner is unknown is a note, too.
//!
//! Not known here: whether the machine has the address at all. The address may be added later.
//!
//! Limits: [`SOCKETS_BYTES_MAX`] of a list, [`FILES_MAX`] open files of processes.

use std::fs;
use std::io::Read as _;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::Path;

use proxy::plan::Plan;

const SOCKETS_BYTES_MAX: u64 = 64 << 20;
const FILES_MAX: usize = 1 << 20;

/// States of a socket as the kernel writes them.
const LISTENING: &str = "0A";
const UNCONNECTED: &str = "07";

/// The addresses of a plan that are in use.
#[derive(Default, Debug)]
pub struct Taken {
    /// Addresses that a running proxy uses, or a process that cannot be seen.
    pub notes: Vec<String>,
    /// Addresses that another program uses.
    pub problems: Vec<String>,
}

/// A socket of this machine.
struct Socket {
    at: SocketAddr,
    uid: String,
    inode: String,
}

/// Looks up the addresses where the plan listens.
pub fn taken(plan: &Plan) -> Taken {
    let tcp = plan.listeners.iter().map(|listener| listener.address);
    let tcp = tcp.chain(plan.admin.as_ref().map(|admin| admin.address));
    let tcp: Vec<_> = tcp
        .chain(plan.cluster.as_ref().map(|cluster| cluster.address))
        .collect();
    let udp: Vec<_> = plan.icp.listen.into_iter().collect();
    let mut taken = Taken::default();
    for (wanted, lists, state) in [
        (tcp, ["/proc/net/tcp", "/proc/net/tcp6"], LISTENING),
        (udp, ["/proc/net/udp", "/proc/net/udp6"], UNCONNECTED),
    ] {
        let sockets: Vec<_> = lists.iter().flat_map(|list| sockets(list, state)).collect();
        for address in wanted {
            if let Some(socket) = sockets.iter().find(|it| excludes(it.at, address)) {
                taken.note(address, socket);
            }
        }
    }
    taken
}

impl Taken {
    fn note(&mut self, address: SocketAddr, socket: &Socket) {
        match owner(&socket.inode) {
            Some((pid, name)) if name.starts_with("loligo") => self.notes.push(format!(
                "{address} is in use by loligo (process {pid}): `loligo reload` or `loligo upgrade` brings this configuration into force; \
                 a second proxy needs another address"
            )),
            Some((pid, name)) => self.problems.push(format!(
                "{address} is in use by {name} (process {pid}); stop it, or choose another address"
            )),
            None => self.notes.push(format!(
                "{address} is in use by a process of user {} that this user may not look at: if it is not the proxy itself, a start will fail",
                socket.uid
            )),
        }
    }
}

/// Does a socket at `there` keep another from listening at `here`?
fn excludes(there: SocketAddr, here: SocketAddr) -> bool {
    let [there_ip, here_ip] = [there, here].map(|it| it.ip().to_canonical());
    let is_every =
        |ip: IpAddr, other: IpAddr| ip.is_unspecified() && ip.is_ipv4() == other.is_ipv4();
    here.port() != 0
        && there.port() == here.port()
        && (there_ip == here_ip || is_every(there_ip, here_ip) || is_every(here_ip, there_ip))
}

/// The sockets of a list that are in this state.
fn sockets(list: &str, state: &str) -> Vec<Socket> {
    let mut text = String::new();
    let file = fs::File::open(list).map(|file| file.take(SOCKETS_BYTES_MAX));
    // A kernel without IPv6 has no list of it.
    let _ = file.and_then(|mut file| file.read_to_string(&mut text));
    text.lines()
        .filter_map(|line| socket(line, state))
        .collect()
}

/// `0: 0100007F:0C38 00000000:0000 0A 00000000:00000000 00:00000000 00000000 1000 0 12345 …`
fn socket(line: &str, state: &str) -> Option<Socket> {
    let words: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
    let [_, local, _, is, _, _, _, uid, _, inode] = words[..] else {
        return None;
    };
    let (ip, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    // Every four bytes are a number in this machine's byte order.
    let word = |at: usize| {
        let number = u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?;
        Some(number.to_ne_bytes())
    };
    let ip: IpAddr = match ip.len() {
        8 => word(0)?.into(),
        32 => {
            let mut bytes = [0; 16];
            for (part, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                part.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).into()
        }
        _ => return None,
    };
    (is == state).then(|| Socket {
        at: SocketAddr::new(ip, port),
        uid: uid.to_owned(),
        inode: inode.to_owned(),
    })
}

/// The number and the name of the process that has this socket, as far as it can be seen.
fn owner(inode: &str) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let mut left = FILES_MAX;
    for process in fs::read_dir("/proc").ok()?.flatten() {
        let pid: Option<u32> = process.file_name().to_str().and_then(|it| it.parse().ok());
        let Some(pid) = pid else { continue };
        let files = fs::read_dir(process.path().join("fd"))
            .into_iter()
            .flatten();
        for file in files.flatten() {
            left = left.checked_sub(1)?;
            if fs::read_link(file.path()).is_ok_and(|to| to == Path::new(&wanted)) {
                let name = match runs_this_program(&process.path()) {
                    true => "loligo".to_owned(),
                    false => fs::read_to_string(process.path().join("comm")).unwrap_or_default(),
                };
                return Some((pid, name.trim().to_owned()));
            }
        }
    }
    None
}

/// Does this process (a folder of `/proc`) run the file that runs here, whatever it is called? An upgrade may have replaced the file.
fn runs_this_program(process: &Path) -> bool {
    let file_of = |process: &Path| {
        let file = fs::read_link(process.join("exe")).ok()?;
        let text = file.to_string_lossy().into_owned();
        Some(text.trim_end_matches(" (deleted)").to_owned())
    };
    let own = file_of(Path::new("/proc/self"));
    own.is_some() && own == file_of(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_file() {
        let of = |pid: u32| runs_this_program(&Path::new("/proc").join(pid.to_string()));
        assert!(of(std::process::id()));
        let mut other = std::process::Command::new("sleep");
        let mut other = other.arg("60").spawn().expect("sleep is there");
        assert!(!of(other.id()));
        other.kill().expect("it runs");
        other.wait().expect("it was killed");
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let v4 = u32::from_ne_bytes([127, 0, 0, 1]);
        let line = format!(
            "   0: {v4:08X}:0C38 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0 100 0 0 10 0"
        );
        let found = socket(&line, LISTENING).unwrap();
        assert_eq!(found.at, "127.0.0.1:3128".parse().unwrap());
        assert_eq!((&*found.uid, &*found.inode), ("1000", "12345"));
        assert!(socket(&line, UNCONNECTED).is_none());
        let last = u32::from_ne_bytes([0, 0, 0, 1]);
        let line = line.replace(&format!("{v4:08X}"), &format!("{:024}{last:08X}", 0));
        let found = socket(&line, LISTENING).unwrap();
        assert_eq!(found.at, "[::1]:3128".parse().unwrap());
        for line in [
            "",
            "sl local_address rem_address st",
            "0: x:y z 0A 0 0 0 0 0 0",
        ] {
            assert!(socket(line, LISTENING).is_none());
        }
    }

    #[test]
    fn every_address_excludes_each_of_its_kind() {
        let excludes = |there: &str, here: &str| {
            super::excludes(there.parse().unwrap(), here.parse().unwrap())
        };
        assert!(excludes("127.0.0.1:1", "127.0.0.1:1"));
        assert!(excludes("0.0.0.0:1", "127.0.0.1:1"));
        assert!(excludes("127.0.0.1:1", "0.0.0.0:1"));
        assert!(excludes("[::]:1", "[::1]:1"));
        assert!(!excludes("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!excludes("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!excludes("[::1]:1", "0.0.0.0:1"));
        assert!(!excludes("0.0.0.0:0", "0.0.0.0:0"));
    }
}
