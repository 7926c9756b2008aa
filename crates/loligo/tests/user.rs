//! A proxy that is started as root does not stay root. The tests need root; without it they print a line and pass.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A user and a group that do not exist on the machine.
const USER: u32 = 64_321;
const GROUP: u32 = 64_322;
const PATIENCE: Duration = Duration::from_secs(60);

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can become somebody else");
    }
    is_root
}

/// A port that only root may bind.
fn low_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    (600..1000).find(is_free).expect("a free port below 1000")
}

struct Serving {
    child: Child,
    said: String,
    // Kept open: a closed pipe is another test.
    stderr: BufReader<std::process::ChildStderr>,
}

impl Serving {
    fn start(config: &Path) -> Serving {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["serve", "-c"])
            .arg(config)
            .env("NO_COLOR", "1")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("ready, ") {
            assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
        }
        Serving {
            child,
            said,
            stderr,
        }
    }

    fn wait_until_it_says(&mut self, words: &str) {
        while !self.said.contains(words) {
            let read = self.stderr.read_line(&mut self.said).unwrap();
            assert!(read > 0, "it ended: {}", self.said);
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args([name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    fn stop(mut self) {
        self.signal("-TERM");
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An origin that answers every connection once, and its address.
fn origin() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                if stream.read_line(&mut line).unwrap() == 0 {
                    break;
                }
            }
            let answer = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
            let _ = stream.get_mut().write_all(answer);
        }
    });
    address
}

fn get(port: u16, url: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let host = url.trim_start_matches("http://").split('/').next().unwrap();
    let request = format!("GET {url} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn wait_for(path: &Path, text: &str) {
    let until = Instant::now() + PATIENCE;
    while !fs::read_to_string(path).is_ok_and(|content| content.contains(text)) {
        assert!(Instant::now() < until, "no {text} in {}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Checks the ids, groups and capabilities of every thread.
fn assert_no_thread_is_more_than_the_user(pid: u32) {
    let mut threads = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap_or_else(|| panic!("{name} in {status}"))
                .trim()
                .to_owned()
        };
        let four = |number: u32| {
            [
                number.to_string(),
                number.to_string(),
                number.to_string(),
                number.to_string(),
            ]
            .join("\t")
        };
        assert_eq!(field("Uid:"), four(USER), "{status}");
        assert_eq!(field("Gid:"), four(GROUP), "{status}");
        assert_eq!(field("Groups:"), "", "{status}");
        for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
            assert_eq!(field(set), "0000000000000000", "{set} {status}");
        }
        assert_eq!(field("NoNewPrivs:"), "1", "{status}");
        threads += 1;
    }
    assert!(
        threads >= 4,
        "{threads} threads: workers, journal, background, diagnostics"
    );
}

#[test]
fn no_thread_keeps_a_right_of_roots_and_logs_and_stores_can_be_opened_again() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
    let logs = dir.path().join("logs");
    fs::create_dir(&logs).unwrap();
    chown(&logs, Some(USER), Some(GROUP)).unwrap();
    let (port, log, store) = (
        low_port(),
        logs.join("access.log"),
        dir.path().join("store"),
    );
    let config = dir.path().join("loligo.toml");
    let text = format!(
        "user = {USER}\ngroup = {GROUP}\nworkers = 2\n[admin]\naddress = \"127.0.0.1:0\"\n[[listener]]\naddress = \"127.0.0.1:{port}\"\n\
         [store]\npath = \"store\"\nsize = \"16MiB\"\n[log]\naccess = \"logs/access.log\"\n"
    );
    fs::write(&config, &text).unwrap();
    let origin = origin();

    let serving = Serving::start(&config);
    assert_no_thread_is_more_than_the_user(serving.child.id());
    assert!(get(port, &format!("http://{origin}/first")).ends_with("ok"));
    assert_no_thread_is_more_than_the_user(serving.child.id());
    wait_for(&log, "/first");
    let owners = |path: &Path| {
        let about = fs::metadata(path).unwrap();
        (about.uid(), about.gid())
    };
    assert_eq!(owners(&log), (USER, GROUP));
    assert_eq!(owners(&store), (USER, GROUP));

    fs::rename(&log, logs.join("access.log.1")).unwrap();
    serving.signal("-USR1");
    let until = Instant::now() + PATIENCE;
    while !log.exists() {
        assert!(Instant::now() < until, "the log is not made anew");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(get(port, &format!("http://{origin}/second")).ends_with("ok"));
    wait_for(&log, "/second");

    // Reload as the user. The store stays; a changed user takes effect only at a start.
    let other = logs.join("other.log");
    let changed = text.replace("logs/access.log", "logs/other.log");
    fs::write(&config, &changed).unwrap();
    serving.signal("-HUP");
    let until = Instant::now() + PATIENCE;
    while !other.exists() {
        assert!(Instant::now() < until, "the reload is not in force");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(get(port, &format!("http://{origin}/third")).ends_with("ok"));
    wait_for(&other, "/third");
    assert_eq!(owners(&other), (USER, GROUP));
    assert_no_thread_is_more_than_the_user(serving.child.id());
    fs::write(&config, changed.replace("user = 64321", "user = 64323")).unwrap();
    let mut serving = serving;
    serving.signal("-HUP");
    serving.wait_until_it_says("user, group changed, and that wants a restart");
    fs::write(&config, &text).unwrap();
    serving.stop();

    let again = Serving::start(&config);
    let answer = get(port, &format!("http://{origin}/first"));
    assert!(answer.contains("loligo; hit"), "{answer}");
    assert!(!again.said.contains("WARN"), "{}", again.said);
    again.stop();
}

#[test]
fn a_log_that_the_user_could_not_reopen_ends_the_start() {
    if !is_root() {
        return;
    }
    // A folder that belongs to root.
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("loligo.toml");
    let text = format!(
        "user = {USER}\ngroup = {GROUP}\n[admin]\naddress = \"none\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n[store]\npath = \"none\"\n\
         [log]\naccess = \"access.log\"\n"
    );
    fs::write(&config, text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["serve", "-c"])
        .arg(&config)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("opened as user {USER}")), "{said}");
    assert!(said.contains("access.log: Permission denied"), "{said}");
}
