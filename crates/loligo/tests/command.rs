//! The binary as people use it: help, check, dump, exit status.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use tempfile::TempDir;

fn loligo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn help_teaches_by_examples() {
    for (command, example) in [
        (
            &["serve", "--help"][..],
            "loligo serve --listen 0.0.0.0:80 --allow any",
        ),
        (&["check", "--help"], "loligo check -c /etc/loligo.toml"),
        (
            &["profile", "dump", "--help"],
            "loligo profile dump requests.profile --json",
        ),
        (&["top", "--help"], "loligo top http://192.0.2.1:3129"),
        (&["--help"], "curl -x http://127.0.0.1:3128"),
    ] {
        let output = loligo(command);
        assert_eq!(output.status.code(), Some(0));
        assert!(
            text(&output.stdout).contains(example),
            "{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn settings_lists_them_all() {
    let said = text(&loligo(&["settings"]).stdout);
    assert!(said.contains("| `io-engine`<br>`--io-engine` |"), "{said}");
}

#[test]
fn check_explains_a_good_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "store.path = \"the-store\"\nstore.size = \"64MiB\"\n",
    );
    // Port 0 cannot be in use.
    let (any, admin) = ("127.0.0.1:0", "127.0.0.1:0");
    let output = loligo(&["check", "-c", &file, "--listen", any, "--admin", admin]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(said.contains("forward proxy on 127.0.0.1, any"), "{said}");
    assert!(
        said.contains(&format!("{}/the-store", dir.path().display())),
        "{said}"
    );
    assert!(
        !dir.path().join("the-store").exists(),
        "check changes nothing"
    );
}

#[test]
fn check_tells_file_line_key_and_value() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "workers = 1\n\n[store]\nsize = \"1KiB\"\nsiez = 3\n",
    );
    let output = loligo(&["check", "-c", &file, "--store", "none"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("a.toml:4: store.size = \"1KiB\": must be from 4MiB to 2TiB"),
        "{said}"
    );
    assert!(
        said.contains(
            "a.toml:5: store.siez = 3: there is no such setting here; did you mean \"store.size\"?"
        ),
        "{said}"
    );
}

#[test]
fn exit_status_2_is_for_what_can_not_be_read() {
    assert_eq!(
        loligo(&["check", "-c", "/no/such/file"]).status.code(),
        Some(2)
    );
    assert_eq!(loligo(&["serve", "--no-such-flag"]).status.code(), Some(2));
    assert_eq!(
        loligo(&["serve", "--store-size", "1"]).status.code(),
        Some(1)
    );
}

#[test]
fn a_profile_is_dumped_as_columns_and_as_json() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = Vec::new();
    profile::write_file_header(0, &mut bytes);
    let mut record = profile::Record::begun(1_700_000_000_000_000);
    record.class = profile::Class::DiskHit;
    record.encode(&mut bytes);
    record.encode(&mut bytes);
    let file = write(dir.path(), "p", &bytes[..bytes.len() - 1]);

    let output = loligo(&["profile", "dump", &file]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        text(&output.stdout).lines().count(),
        2,
        "a header and one whole record"
    );
    assert!(
        text(&output.stderr).contains("not a whole record"),
        "{}",
        text(&output.stderr)
    );

    let output = loligo(&["profile", "dump", "--json", &file]);
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["class"], "disk-hit");

    let other = write(dir.path(), "q", "not a profile at all");
    let output = loligo(&["profile", "dump", &other]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("this is not a profile file"));
}

#[test]
fn a_start_without_configuration_warns_of_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // A limit of files below what the defaults need; ports of the system's choice, because others may be in use.
    let mut child = Command::new("sh")
        .args([
            "-c",
            "ulimit -n 2000; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_loligo"),
        ])
        .args(["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .args(["--store-size", "64MiB"])
        .env("XDG_CACHE_HOME", dir.path())
        .env("NO_COLOR", "1")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = String::new();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    while !said.contains("ready, ") {
        assert!(stderr.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(said.contains("connections are limited to"), "{said}");
    // This note appears if the tests run as root.
    let others: String = (said.lines())
        .filter(|line| !line.contains("stays root"))
        .collect();
    assert!(
        !others.contains("WARN") && !others.contains("ERROR"),
        "{said}"
    );
}

#[test]
fn check_looks_where_serve_would() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "memory = \"900GiB\"\n[tls]\nca-file = \"ca.pem\"\n[log]\naccess = \"no/access.log\"\n\
         [store]\npath = \"store\"\nsize = \"2TiB\"\n[[listeners]]\n",
    );
    for command in ["check", "serve"] {
        let output = loligo(&[command, "-c", &file]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        for told in [
            "a.toml:1: memory = \"900GiB\": this process may use ",
            "a.toml:3: tls.ca-file = \"ca.pem\": ",
            "a.toml:5: log.access = \"no/access.log\": there is no directory ",
            "a.toml:8: store.size = \"2TiB\": 2TiB do not fit: only ",
            "a.toml:9: listeners: there is no such table; did you mean \"listener\"?",
        ] {
            assert!(said.contains(told), "{told} in {said}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn hours_count_in_the_time_zone_that_tz_names() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "store.path = \"none\"\n[[rule]]\ntime = \"Mo-Fr 08:00-18:00\"\ndeny = true\n\
         [admin]\naddress = \"none\"\n[[listener]]\naddress = \"127.0.0.1:0\"\n",
    );
    let with_zone = |zone: &str, arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(arguments)
            .env("TZ", zone)
            .output()
            .unwrap()
    };
    let explain = ["explain", "-c", &file, "--time", "We 12:00", "http://a/"];
    for (zone, utc) in [
        ("Asia/Tokyo", "We 03:00 UTC"),
        (":Asia/Tokyo", "We 03:00 UTC"),
        ("JST-9", "We 03:00 UTC"),
        ("America/Bogota", "We 17:00 UTC"),
        ("", "We 12:00 UTC"),
    ] {
        let said = text(&with_zone(zone, &explain).stdout);
        assert!(said.contains(utc), "TZ={zone}: {said}");
    }
    let check = ["check", "-c", &file];
    let said = text(&with_zone("Asia/Tokyo", &check).stdout);
    assert!(said.contains("hours in      Asia/Tokyo\n"), "{said}");
    for command in ["check", "serve"] {
        let output = with_zone("Asia/Tokio", &[command, "-c", &file]);
        assert_eq!(output.status.code(), Some(1), "{command}");
        let said = text(&output.stderr);
        let told = "a.toml:3: rule.time = \"Mo-Fr 08:00-18:00\": TZ=Asia/Tokio is no time zone that is known here; set TZ to a name";
        assert!(said.contains(told), "{said}");
    }
    // This configuration needs no time zone.
    let nothing = [
        "check",
        "--store",
        "none",
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "none",
    ];
    let output = with_zone("Asia/Tokio", &nothing);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn check_says_who_has_an_address() {
    let dir = tempfile::tempdir().unwrap();
    let check = |address: &str| {
        let content = format!(
            "admin.address = \"none\"\nstore.path = \"none\"\n[[listener]]\naddress = \"{address}\"\n"
        );
        let file = write(dir.path(), "a.toml", content);
        let output = loligo(&["check", "-c", &file]);
        (
            output.status.code(),
            text(&output.stdout),
            text(&output.stderr),
        )
    };
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = other.local_addr().unwrap().to_string();
    let (code, _, said) = check(&address);
    assert!(said.contains(&format!("{address} is in use by ")), "{said}");
    let told = "; stop it, or choose another address";
    assert!(said.contains(told) && code == Some(1), "{said}");
    drop(other);
    // The proxy whose configuration is about to be read again.
    let store = dir.path().join("store");
    let serving = Serving::with(&["--store", store.to_str().unwrap(), "--store-size", "8MiB"]);
    let (code, said, complaint) = check(&serving.proxy);
    assert_eq!(code, Some(0), "{complaint}");
    let pid = serving.child.id();
    let told = format!(
        "note: {} is in use by loligo (process {pid})",
        serving.proxy
    );
    assert!(said.contains(&told), "{said}");
}

/// A proxy of the binary itself, on ports of the system's choice.
struct Serving {
    child: Child,
    /// Where clients connect.
    proxy: String,
    admin: String,
    stderr: Option<BufReader<ChildStderr>>,
}

impl Serving {
    fn start(store: &str) -> Self {
        Self::with(&["--store", store])
    }

    fn with(more: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--admin", "127.0.0.1:0", "--workers", "1"])
            .args(more)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (mut proxy, mut admin, mut line) = (String::new(), String::new(), String::new());
        while !line.contains("ready, ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended");
            if let Some((_, address)) = line.trim().split_once("admin interface on http://") {
                admin = address.to_owned();
            } else if let Some((_, address)) = line.trim().split_once(" proxy on ") {
                proxy = address.to_owned();
            }
        }
        Self {
            child,
            proxy,
            admin,
            stderr: Some(stderr),
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args([name, &pid]).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn who_cannot_say_anything_any_more_goes_on() {
    let mut serving = Serving::start("none");
    // From now on every write of a log line fails.
    drop(serving.stderr.take());
    for _ in 0..2 {
        let mut admin = TcpStream::connect(&serving.admin).unwrap();
        let purge = format!(
            "PURGE /http://www.example.org/a HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            serving.admin
        );
        admin.write_all(purge.as_bytes()).unwrap();
        let mut answer = String::new();
        admin.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
    }
    serving.signal("-TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_store_keeps_the_chunks_it_was_made_with() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("store").to_str().unwrap().to_owned();
    let init = loligo(&["store", "init", &file, "--size", "64MiB", "--chunk", "4096"]);
    assert_eq!(init.status.code(), Some(0), "{}", text(&init.stderr));
    let mut serving = Serving::start(&file);
    serving.signal("-TERM");
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    let said = loligo(&["store", "inspect", &file, "--json"]).stdout;
    let said: serde_json::Value = serde_json::from_slice(&said).unwrap();
    assert_eq!(said["geometry"]["chunk_bytes"], 4096);
    assert_eq!(said["state"], "clean");
}

/// A stub of `loligo-lab`: it prints its arguments, and waits for the exit status on standard input.
const LAB: &str = "#!/bin/sh\necho \"$# $*, process $$\"\nread -r word\nexit \"$word\"\n";

/// A folder for programs, where a link to `loligo` can be.
fn folder() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A link to `loligo` in that folder.
fn installed(dir: &Path) -> PathBuf {
    let program = dir.join("loligo");
    std::fs::hard_link(env!("CARGO_BIN_EXE_loligo"), &program).unwrap();
    program
}

fn install_lab(dir: &Path, script: &str) {
    let lab = write(dir, "loligo-lab", script);
    std::fs::set_permissions(lab, Permissions::from_mode(0o755)).unwrap();
}

fn piped(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn commands_of_the_laboratory_are_another_program_in_the_same_process() {
    let dir = folder();
    let program = installed(dir.path());
    install_lab(dir.path(), LAB);
    for (typed, count) in [
        (
            &["bench", "polymix", "--proxy", "a b", "--", "--help"][..],
            6,
        ),
        (&["lab", "--help"], 2),
        (&["help", "model"], 2),
    ] {
        let mut child = piped(&program, typed).spawn().unwrap();
        let pid = child.id();
        child.stdin.take().unwrap().write_all(b"7\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let said = format!("{count} {}, process {pid}\n", typed.join(" "));
        assert_eq!(text(&output.stdout), said);
        assert_eq!(output.status.code(), Some(7));
    }
    // A signal reaches the stub, and ends it.
    let mut child = piped(&program, &["bench", "origin"]).spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    let pid = child.id().to_string();
    assert!(line.ends_with(&format!("process {pid}\n")), "{line}");
    let sent = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn the_laboratory_is_looked_for_in_path_and_missed_with_advice() {
    let (alone, elsewhere) = (folder(), folder());
    let program = installed(alone.path());
    let output = piped(&program, &["model", "claims"])
        .env("PATH", elsewhere.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    for part in [
        "neither beside this program nor in PATH",
        "install the package loligo-lab",
        "cargo build",
        "--package loligo-lab",
    ] {
        assert!(said.contains(part), "{said}");
    }
    install_lab(elsewhere.path(), "#!/bin/sh\necho found\n");
    let output = piped(&program, &["model", "claims"])
        .env("PATH", elsewhere.path())
        .output()
        .unwrap();
    assert_eq!(text(&output.stdout), "found\n");
    // A program that is there but cannot be run is reported.
    install_lab(alone.path(), "#!/no/such/interpreter\n");
    let output = piped(&program, &["lab"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
}

/// What a server at this address answers to one request.
fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// An origin that answers every connection once, until the test ends.
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
            let answer = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n";
            let body = "x".repeat(1000);
            let _ = (stream.get_mut()).write_all((answer.to_owned() + &body).as_bytes());
        }
    });
    address
}

#[test]
fn top_without_a_terminal_is_one_look_of_a_running_proxy() {
    let origin = format!("http://{}", origin());
    let serving = Serving::with(&["--store", "none", "--reverse", &origin]);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    let get = |path: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let answer = ask(&serving.proxy, &request);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer:?}");
        answer
    };
    get("/b");
    // The answer is stored shortly after it was sent.
    while !get("/a").contains("; hit") {
        assert!(std::time::Instant::now() < deadline);
    }
    let url = format!("http://{}", serving.admin);
    // Origins and the time on the processors are counted once a second: the first look may come
    // between two counts.
    let unknown = ["hits -", "of bytes -", "p50 -", "p99 -", "CPUs -", "RSS -"];
    let misses = |said: &str| -> u32 {
        let line = said.lines().find(|line| line.ends_with(&origin));
        line.map_or(0, |line| {
            line.split_whitespace().next().unwrap().parse().unwrap()
        })
    };
    let said = loop {
        let output = loligo(&["top", &url]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        if misses(&said) >= 2 && !unknown.iter().any(|unknown| said.contains(unknown)) {
            break said;
        }
        assert!(std::time::Instant::now() < deadline, "{said}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    // Each text shows that a part of the document is read as the proxy writes it.
    for part in [
        "running for ",
        ", 1 workers",
        "disk none",
        "set top = true",
        "  memory-hit\n",
        "  server-reply\n",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let lines = |name: &str| said.lines().find(|line| line.ends_with(name)).unwrap();
    let of_origin: Vec<&str> = lines(&origin).split_whitespace().collect();
    assert_eq!(of_origin[1], "0", "{said}");
    assert!(of_origin.len() == 7, "p50 and p99 with their units: {said}");
    drop(serving);
    let gone = loligo(&["top", &url]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(text(&gone.stderr).contains("does not answer"));
}
