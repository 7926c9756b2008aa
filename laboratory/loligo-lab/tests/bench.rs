//! `loligo bench` as people use it: a run, its files, what is made of them. Where any report will do, the proxy is a port
//! at which nobody listens; else it is `loligo serve`.

use std::ffi::OsString;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

#[path = "bench/replay.rs"]
mod replay;

/// A process may take so long to listen.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program, where `loligo bench` hands over to it.
fn lab(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loligo-lab"));
    command.args(arguments).current_dir(dir);
    command
}

/// The words of the proxy that this program is to be, one a line.
const PROXY: &str = "LOLIGO_WORDS";

/// `loligo`: this program of tests again, since the program of another package may not have been built.
fn loligo(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "is_the_proxy_of_the_others", "--nocapture"]);
    command.env(PROXY, arguments.join("\n")).current_dir(dir);
    command.stdout(Stdio::null());
    command
}

#[test]
fn is_the_proxy_of_the_others() {
    if let Ok(words) = std::env::var(PROXY) {
        let ended = loligo::run(words.lines().map(OsString::from));
        panic!("the proxy ended: {ended:?}");
    }
}

fn bench(dir: &Path, arguments: &[&str]) -> Output {
    lab(dir, &["bench"]).args(arguments).output().unwrap()
}

/// A port of this address that was free a moment ago. Connections come from 127.0.0.1, so on another address nobody takes
/// it by chance.
fn free(address: &str) -> String {
    let listener = TcpListener::bind((address, 0)).unwrap();
    listener.local_addr().unwrap().to_string()
}

/// A process that ends with the test.
struct Running(Child);

impl Running {
    /// Starts it, and waits until it listens at `address`.
    #[track_caller]
    fn start(command: &mut Command, address: &str) -> Running {
        let child = command.stderr(Stdio::null()).spawn().unwrap();
        let mut running = Running(child);
        let began = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert_eq!(running.0.try_wait().unwrap(), None, "it ended");
            assert!(began.elapsed() < PATIENCE, "nobody listens at {address}");
            std::thread::sleep(Duration::from_millis(10));
        }
        running
    }

    /// A proxy that keeps things in memory.
    fn proxy(dir: &Path, address: &str) -> Running {
        // Robots take an answer to a reload from the cache for wrong.
        let arguments = "serve --admin none --store none --memory 16MiB --workers 1 --client-directives obey --listen";
        let mut arguments: Vec<&str> = arguments.split(' ').collect();
        arguments.push(address);
        Running::start(&mut loligo(dir, &arguments), address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Half a second of a test of what takes connections and answers nothing.
fn run(dir: &Path, more: &[&str]) -> Output {
    let mute = TcpListener::bind("127.1.0.2:0").unwrap();
    let proxy = mute.local_addr().unwrap().to_string();
    std::thread::spawn(move || mute.incoming().for_each(drop));
    let origin = free("127.1.0.1");
    let mut arguments = vec![
        "polymix",
        "--proxy",
        &proxy,
        "--origin",
        &origin,
        "--one-address",
        "--rate",
        "40",
        "--cache-size",
        "1MiB",
        "--time-scale",
        "1/28800",
        "--phases",
        "inc1,top1",
    ];
    arguments.extend(more);
    bench(dir, &arguments)
}

#[test]
fn help_teaches_by_examples() {
    let dir = tempfile::tempdir().unwrap();
    for (command, example) in [
        (
            "polymix",
            "loligo bench polymix --proxy http://127.0.0.1:3128",
        ),
        ("robots", "--share 2/2"),
        ("search", "loligo bench search --proxy 127.0.0.1:3128"),
        ("report", "loligo bench report run.json --html run.html"),
        ("compare", "loligo bench compare loligo.json squid.json"),
    ] {
        let output = bench(dir.path(), &[command, "--help"]);
        assert_eq!(output.status.code(), Some(0));
        assert!(text(&output.stdout).contains(example), "{command}");
    }
}

#[test]
fn a_run_is_reported_read_back_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let out = ["--label", "nobody", "--json", "a.json", "--html", "a.html"];
    let first = run(dir.path(), &out);
    // Answers were wrong: there were none.
    assert_eq!(first.status.code(), Some(1), "{}", text(&first.stderr));
    let said = text(&first.stdout);
    assert!(said.contains("closed without an answer"), "{said}");
    let before = "loligo: this takes about 1s\n";
    assert_eq!(text(&first.stderr), before, "progress is for terminals");
    let page = std::fs::read_to_string(dir.path().join("a.html")).unwrap();
    assert!(page.contains("nobody: PolyMix-3 at 40 requests/s"));

    let again = bench(dir.path(), &["report", "a.json", "--html", "b.html"]);
    assert_eq!(again.status.code(), Some(1));
    assert_eq!(text(&again.stdout), said);
    let page_again = std::fs::read_to_string(dir.path().join("b.html")).unwrap();
    assert_eq!(page, page_again);
    let json = bench(dir.path(), &["report", "a.json", "--json", "-"]);
    let written = std::fs::read_to_string(dir.path().join("a.json")).unwrap();
    assert_eq!(text(&json.stdout), written);

    std::fs::copy(dir.path().join("a.json"), dir.path().join("c.json")).unwrap();
    let both = bench(
        dir.path(),
        &["compare", "a.json", "c.json", "--html", "both.html"],
    );
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    assert_eq!(
        text(&both.stdout).matches("nobody").count(),
        4,
        "{}",
        text(&both.stdout)
    );
    assert!(dir.path().join("both.html").exists());
}

#[test]
fn what_is_no_report_is_refused_with_advice() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("old.json"), "{\"phases\":[]}").unwrap();
    let output = bench(dir.path(), &["report", "old.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("make it again"),
        "{}",
        text(&output.stderr)
    );
    let output = bench(dir.path(), &["report", "none.json"]);
    assert!(text(&output.stderr).contains("none.json"));
    let share = [
        "robots",
        "--proxy",
        "127.0.0.1:1",
        "--rate",
        "9",
        "--cache-size",
        "1MiB",
        "--share",
        "1/2",
    ];
    let output = bench(dir.path(), &share);
    assert!(
        text(&output.stderr).contains("--world"),
        "parts must agree on it"
    );
}

#[test]
fn robots_in_two_processes_make_one_report() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, origin) = (free("127.1.0.3"), free("127.1.0.4"));
    let _proxy = Running::proxy(dir.path(), &proxy);
    let both = format!(
        "--rate 80 --time-scale 1/14400 --think-scale 0.01 --servers 2 --one-address --origin {origin}"
    );
    let both: Vec<&str> = both.split_whitespace().collect();
    let mut servers = lab(dir.path(), &["bench", "origin"]);
    let _servers = Running::start(servers.args(&both), &origin);
    let robots = ["1/2", "2/2"].map(|share| {
        let file = format!("{}.json", &share[..1]);
        let mut command = lab(dir.path(), &["bench", "robots", "--proxy", &proxy]);
        command
            .args(&both)
            .args(["--cache-size", "1MiB", "--phases"]);
        command.args(["inc1,top1", "--world", "1", "--share", share]);
        command.args(["--json", &file]).stdout(Stdio::null());
        command.spawn().unwrap()
    });
    for mut part in robots {
        assert_eq!(part.wait().unwrap().code(), Some(0), "all was right");
    }
    let files = ["report", "1.json", "2.json", "--json", "whole.json"];
    let whole = bench(dir.path(), &files);
    let said = text(&whole.stdout);
    assert_eq!(whole.status.code(), Some(0), "{}", text(&whole.stderr));
    assert!(said.contains("[1, 2] of 2") && said.contains("parts apart"));
    assert!(!said.contains("missing parts"), "{said}");
    let replies = |file: &str| {
        let written = std::fs::read(dir.path().join(file)).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&written).unwrap();
        report["total"]["replies"].as_u64().unwrap()
    };
    let (one, two) = (replies("1.json"), replies("2.json"));
    assert!(one > 5 && two > 5, "{one}, {two}");
    assert_eq!(replies("whole.json"), one + two);
    let one = bench(dir.path(), &["report", "1.json"]);
    assert!(text(&one.stdout).contains("missing parts"));
}

#[test]
fn a_search_is_written_read_back_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let proxy = free("127.1.0.5");
    let _proxy = Running::proxy(dir.path(), &proxy);
    // Tiny, and so patient that any machine stands it. The servers have addresses of their own, as ever.
    let search = "search --origin 127.1.0.1:0 --servers 2 --first 40 --least 40 --most 60 --tolerance 1 --top 0.5 --think-scale 0.01 --pause 0.01 --response-limit 20000 --hit-points 100 --label one";
    let mut arguments: Vec<&str> = search.split_whitespace().collect();
    arguments.extend(["--proxy", &proxy, "--json", "one.json"]);
    arguments.extend(["--html", "one.html", "--svg", "one"]);
    let first = bench(dir.path(), &arguments);
    let said = text(&first.stdout);
    assert_eq!(first.status.code(), Some(0), "{said}");
    assert!(said.contains("At least 60 req/s") && said.contains("under 20000 ms"));
    let read = |name: &str| std::fs::read_to_string(dir.path().join(name)).unwrap();
    let page = read("one.html");
    for part in ["PolyMix: the peak of one", "one at 60 req/s", "Figure 6.2"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(read("one/hit-ratio.svg").contains("</svg>"));

    let again = bench(dir.path(), &["report", "one.json", "--html", "again.html"]);
    assert_eq!(text(&again.stdout), said);
    assert!(read("again.html") == page);

    let two = read("one.json").replacen("\"label\":\"one\"", "\"label\":\"two\"", 1);
    std::fs::write(dir.path().join("two.json"), two).unwrap();
    let files = ["compare", "one.json", "two.json", "--svg", "both"];
    let both = bench(dir.path(), &files);
    let said = text(&both.stdout);
    assert_eq!(both.status.code(), Some(0), "{}", text(&both.stderr));
    assert!(
        said.contains("think scale") && !said.contains("differ"),
        "{said}"
    );
    assert!(read("both/response-time.svg").contains("two"));
}

#[test]
fn a_run_leaves_a_log_and_what_there_is_so_far() {
    let dir = tempfile::tempdir().unwrap();
    let first = run(dir.path(), &["--json", "a.json", "--log", "a.log"]);
    assert_eq!(first.status.code(), Some(1), "{}", text(&first.stderr));
    let log = std::fs::read_to_string(dir.path().join("a.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    // The last phase is in the report.
    assert!(lines.len() == 1 && lines[0].starts_with("inc1 over after "));
}

#[test]
fn servers_have_names_and_the_bench_answers_for_them() {
    let dir = tempfile::tempdir().unwrap();
    let (proxy, origin, names) = (free("127.1.0.6"), free("127.1.0.7"), free("127.1.0.8"));
    let file = format!("[dns]\nservers = [\"{names}\"]\n");
    std::fs::write(dir.path().join("names.toml"), file).unwrap();
    let arguments = "serve -c names.toml --admin none --store none --memory 16MiB --workers 1 --client-directives obey --listen";
    let mut arguments: Vec<&str> = arguments.split_whitespace().collect();
    arguments.push(&proxy);
    let _proxy = Running::start(&mut loligo(dir.path(), &arguments), &proxy);
    let bench_of = format!(
        "polymix --polymix 4 --proxy {proxy} --origin {origin} --one-address --names --name-server {names} --rate 200 --servers 3 --think-scale 0.01 --cache-size 1MiB --time-scale 1/14400 --phases inc1,top1 --json a.json"
    );
    let bench_of: Vec<&str> = bench_of.split_whitespace().collect();
    let done = bench(dir.path(), &bench_of);
    let said = text(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{said}{}", text(&done.stderr));
    assert!(said.contains("with names") && !said.contains("instead of names"));
    let json = std::fs::read(dir.path().join("a.json")).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(report["total"]["replies"].as_u64().unwrap() > 50, "{said}");
}

#[test]
fn a_load_on_nobody_says_so_at_once() {
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let proxy = nobody.to_string();
    let arguments = ["polymix", "--rate", "10", "--cache-size", "1MiB"];
    let dir = tempfile::tempdir().unwrap();
    let output = bench(dir.path(), &[&arguments[..], &["--proxy", &proxy]].concat());
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(
        said.contains(&proxy) && said.contains("is the proxy running"),
        "{said}"
    );
}
