//! `loligo upgrade` with the binary as people run it: two processes, a store, a service manager; and one of them may end meanwhile.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// Answers each path with its own name, for an hour.
fn origin() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in socket.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let mut writer = stream;
                while let Some(path) = request(&mut reader) {
                    let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=3600\r\n";
                    let _ = write!(writer, "{head}Content-Length: {}\r\n\r\n{path}", path.len());
                }
            });
        }
    });
    address
}

fn request(reader: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    reader.read_line(&mut first).ok().filter(|n| *n > 0)?;
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    }
    first.split(' ').nth(1).map(str::to_owned)
}

fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    socket.local_addr().unwrap().port()
}

/// A proxy in front of an origin, with its own configuration file and store; an upgrade changes its process.
struct Serving {
    /// The first process.
    child: Child,
    listen: String,
    admin: String,
    program: PathBuf,
    file: PathBuf,
    manager: UnixDatagram,
    log: PathBuf,
    dir: tempfile::TempDir,
}

impl Serving {
    fn start() -> Serving {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("loligo.toml");
        let (listen, admin) = (free_port(), free_port());
        std::fs::write(&file, configuration(dir.path(), listen, admin)).unwrap();
        // A copy of the program, so that it can be replaced.
        let program = dir.path().join("loligo");
        std::fs::copy(env!("CARGO_BIN_EXE_loligo"), &program).unwrap();
        let socket = dir.path().join("notify");
        let manager = UnixDatagram::bind(&socket).unwrap();
        manager.set_read_timeout(Some(PATIENCE)).unwrap();
        let log = dir.path().join("log");
        let start = || {
            Command::new(&program)
                .args(["serve", "-c"])
                .arg(&file)
                .env("NOTIFY_SOCKET", &socket)
                .stderr(std::fs::File::create(&log).unwrap())
                .spawn()
        };
        let deadline = Instant::now() + PATIENCE;
        let child = loop {
            match start() {
                // Another test may fork while the copy is open for writing: its child keeps the file open until exec.
                Err(e)
                    if e.kind() == ErrorKind::ExecutableFileBusy && Instant::now() < deadline =>
                {
                    thread::yield_now();
                }
                started => break started.unwrap(),
            }
        };
        let serving = Serving {
            child,
            listen: format!("127.0.0.1:{listen}"),
            admin: format!("127.0.0.1:{admin}"),
            program,
            file,
            manager,
            log,
            dir,
        };
        assert!(serving.heard("READY=1").contains("edition 1"));
        serving
    }

    fn upgrade(&self) -> Output {
        let command = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["upgrade", &self.admin])
            .output();
        command.unwrap()
    }

    /// The next message to the service manager that contains `wanted`.
    fn heard(&self, wanted: &str) -> String {
        let mut words = [0; 512];
        loop {
            let n = self.manager.recv(&mut words).expect("the manager hears it");
            let words = String::from_utf8_lossy(&words[..n]).into_owned();
            if words.contains(wanted) {
                return words;
            }
        }
    }

    fn get(&self, target: &str, more: &str) -> String {
        let mut stream = TcpStream::connect(&self.listen).unwrap();
        let host = &self.listen;
        let head = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        stream
            .write_all(format!("{head}{more}\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn is_stored(&self, target: &str) -> bool {
        let answer = self.get(target, "Cache-Control: only-if-cached\r\n");
        assert!(!answer.is_empty());
        answer.starts_with("HTTP/1.1 200") && answer.contains("; hit")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

fn configuration(dir: &Path, listen: u16, admin: u16) -> String {
    let store = dir.join("store");
    let origin = origin();
    format!(
        "admin.address = \"127.0.0.1:{admin}\"\nworkers = 2\n[[listener]]\naddress = \"127.0.0.1:{listen}\"\n\
         origin = \"http://{origin}\"\nclient-directives = \"obey\"\n[store]\npath = \"{}\"\nsize = \"64MiB\"\n",
        store.display()
    )
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Kill all processes with our configuration.
        for pid in pids_with(&self.file) {
            let _ = Command::new("kill").args(["-9", &pid]).status();
        }
        let _ = self.child.wait();
        let _ = self.dir.path();
    }
}

/// The processes that were started with this configuration.
fn pids_with(file: &Path) -> Vec<String> {
    let wanted = file.to_str().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().map_while(Result::ok);
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let is_ours = |pid: &String| {
        pid.bytes().all(|byte| byte.is_ascii_digit())
            && std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).contains(wanted))
    };
    names.filter(is_ours).collect()
}

fn ended(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_new_program_takes_over_and_the_manager_is_told() {
    let mut serving = Serving::start();
    for n in 0..20 {
        serving.get(&format!("/{n}"), "");
    }
    // Replace the program as packages do.
    let new = serving.dir.path().join("loligo.new");
    std::fs::copy(env!("CARGO_BIN_EXE_loligo"), &new).unwrap();
    std::fs::rename(&new, &serving.program).unwrap();
    let before = serving.child.id();
    let told = serving.upgrade();
    let words = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.status.success(), "{told:?}\n{}", serving.log());
    assert!(
        words.contains(&format!("has taken over from {before}")),
        "{words}"
    );
    let pid: u32 = words
        .strip_prefix("process ")
        .and_then(|rest| rest.split(' ').next())
        .unwrap()
        .parse()
        .unwrap();
    let heard = serving.heard("MAINPID=");
    assert!(heard.starts_with(&format!("MAINPID={pid}\n")), "{heard}");
    for n in 0..20 {
        assert!(
            serving.is_stored(&format!("/{n}")),
            "{n}\n{}",
            serving.log()
        );
    }
    assert!(ended(&mut serving.child).success());
    // Upgrade once more: the new process knows its file, too.
    let told = serving.upgrade();
    assert!(told.status.success(), "{told:?}\n{}", serving.log());
    assert!(serving.is_stored("/7"));
    let log = serving.log();
    assert_eq!(log.matches("has taken over").count(), 2, "{log}");
    assert!(
        !log.contains("starts empty") || log.matches("starts empty").count() == 1,
        "{log}"
    );
}

#[test]
fn a_program_that_does_not_come_up_changes_nothing() {
    let serving = Serving::start();
    serving.get("/a", "");
    let good = std::fs::read_to_string(&serving.file).unwrap();
    std::fs::write(&serving.file, format!("{good}nonsense = 1\n")).unwrap();
    let told = serving.upgrade();
    assert_eq!(told.status.code(), Some(1));
    let why = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(why.contains("nonsense"), "{why}");
    std::fs::write(&serving.file, good).unwrap();
    // A program that is no proxy.
    let script = "#!/bin/sh\nexit 3\n";
    let bad = serving.dir.path().join("bad");
    std::fs::write(&bad, script).unwrap();
    Command::new("chmod")
        .args(["755".as_ref(), bad.as_os_str()])
        .status()
        .unwrap();
    std::fs::rename(&bad, &serving.program).unwrap();
    let told = serving.upgrade();
    let why = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        why.contains("the new process ended (exit status: 3)"),
        "{why}"
    );
    std::fs::remove_file(&serving.program).unwrap();
    let told = serving.upgrade();
    let why = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(why.contains("No such file"), "{why}");
    assert!(serving.is_stored("/a"));
    serving.get("/b", "");
    assert!(serving.is_stored("/b"), "it stores as before");
}

/// The new program hangs for longer than the admin interface waits for a request.
#[test]
fn what_comes_of_a_program_that_hangs_is_waited_for() {
    let serving = Serving::start();
    let script = "#!/bin/sh\nsleep 11\nexit 3\n";
    let slow = serving.dir.path().join("slow");
    std::fs::write(&slow, script).unwrap();
    Command::new("chmod")
        .args(["755".as_ref(), slow.as_os_str()])
        .status()
        .unwrap();
    std::fs::rename(&slow, &serving.program).unwrap();
    let told = serving.upgrade();
    let why = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(
        why.contains("the new process ended (exit status: 3)"),
        "{why}"
    );
}

/// A process that has the variable, but no link on its standard input, starts as usual.
#[test]
fn whoever_only_has_the_variable_starts_as_ever() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.toml");
    let output = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["serve", "-c"])
        .arg(&missing)
        .env("LOLIGO_TAKEOVER", "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("missing.toml"), "{said}");
}
