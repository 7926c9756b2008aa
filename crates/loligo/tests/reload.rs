//! `loligo reload`, SIGHUP and messages to the service manager, with the binary as people run it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy with a file of its own.
struct Serving {
    child: Child,
    admin: String,
    file: PathBuf,
    manager: UnixDatagram,
    /// Its standard error, kept open.
    _stderr: BufReader<ChildStderr>,
    _dir: tempfile::TempDir,
}

impl Serving {
    fn start(text: &str) -> Serving {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("loligo.toml");
        std::fs::write(&file, text).unwrap();
        let socket = dir.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .arg("-c")
            .arg(&file)
            .env("NOTIFY_SOCKET", &socket)
            .env("WATCHDOG_USEC", "400000")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut admin, mut line) = (String::new(), String::new());
        while !line.contains("ready, ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some((_, address)) = line.trim().split_once("admin interface on http://") {
                admin = address.to_owned();
            }
        }
        Serving {
            child,
            admin,
            file,
            manager,
            _stderr: stderr,
            _dir: dir,
        }
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.file, text).unwrap();
    }

    fn reload(&self, more: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["reload", &self.admin])
            .args(more)
            .output()
            .unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([name, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// The configuration's part of `/status`.
    fn configuration(&self) -> serde_json::Value {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        let request = format!(
            "GET /status HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.admin
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let status: serde_json::Value = serde_json::from_str(body).unwrap();
        status["configuration"].clone()
    }

    /// Waits until the manager gets a message with this word, and returns the message.
    fn told(&self, word: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        let mut words = [0; 512];
        loop {
            let n = self.manager.recv(&mut words).unwrap();
            let words = String::from_utf8_lossy(&words[..n]);
            if words.contains(word) {
                return words.into_owned();
            }
            assert!(Instant::now() < deadline, "never told {word}");
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn check(file: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["check", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .arg("-c")
        .arg(file)
        .output()
        .unwrap();
    text(&output.stdout)
}

const FIRST: &str = "name = \"first\"\nworkers = 1\nstore.path = \"none\"\n";

#[test]
fn reload_says_what_check_says_or_why_it_is_refused() {
    let serving = Serving::start(FIRST);
    assert!(serving.configuration()["running"].as_array().unwrap().len() > 3);
    serving.write("name = \"second\"\nworkers = 1\nstore.path = \"none\"\nlog.level = \"debug\"\n");
    let done = serving.reload(&[]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let said = text(&done.stdout);
    assert!(said.starts_with(check(&serving.file).trim_end()), "{said}");
    assert!(said.ends_with("in force as edition 2\n"), "{said}");
    let before = serving.configuration();
    assert!(before["running"].to_string().contains("second"), "{before}");

    serving.write("name = \"third\"\nworkers = 1\n[timeouts]\ndrain = \"2y\"\nx = 1\n");
    let refused = serving.reload(&[]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        said.contains("loligo.toml:4: timeouts.drain = \"2y\": "),
        "{said}"
    );
    assert!(said.contains("loligo.toml:5: timeouts.x = 1: "), "{said}");
    let after = serving.configuration();
    assert_eq!(
        (&after["edition"], &after["running"]),
        (&before["edition"], &before["running"])
    );
    assert_eq!(after["reloads_refused"], 1);

    serving.write("name = \"third\"\nworkers = 2\nstore.path = \"none\"\n");
    let refused = serving.reload(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("workers changed"));
    assert_eq!(serving.reload(&["--partial"]).status.code(), Some(0));
    let partial = serving.configuration();
    assert_eq!(partial["wanting_a_restart"][0], "workers");
    assert!(partial["running"].to_string().contains("third"));

    std::fs::remove_file(&serving.file).unwrap();
    let refused = serving.reload(&[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(text(&refused.stderr).contains("loligo.toml: No such file"));
}

#[test]
fn a_store_of_no_size_in_the_file_is_the_same_store_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    std::fs::File::create(&store)
        .unwrap()
        .set_len(64 << 20)
        .unwrap();
    let of_name = |name: &str| {
        format!(
            "name = \"{name}\"\nworkers = 1\nstore.path = \"{}\"\n",
            store.display()
        )
    };
    let serving = Serving::start(&of_name("first"));
    serving.write(&of_name("second"));
    let done = serving.reload(&[]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
}

#[test]
fn the_service_manager_hears_of_start_reload_health_and_end() {
    let mut serving = Serving::start(FIRST);
    assert!(serving.told("READY=1").contains("edition 1"));
    serving.told("WATCHDOG=1");
    serving.write("name = \"second\"\nworkers = 1\nstore.path = \"none\"\n");
    serving.signal("-HUP");
    assert!(serving.told("RELOADING=1").contains("MONOTONIC_USEC="));
    assert!(serving.told("READY=1").contains("edition 2"));
    let configuration = serving.configuration();
    assert_eq!(configuration["by"], "SIGHUP");
    serving.write("colour = 1\n");
    serving.signal("-HUP");
    serving.told("RELOADING=1");
    assert!(serving.told("READY=1").contains("refused"));
    assert_eq!(serving.configuration()["edition"], 2);
    serving.signal("-TERM");
    serving.told("STOPPING=1");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn nobody_to_reload_is_said() {
    let output = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["reload", "127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("does not answer"));
    let output = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["reload", "https://h"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
