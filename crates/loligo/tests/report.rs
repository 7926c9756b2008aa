//! `loligo report` as people use it: sources of all kinds, pages, comparisons, complaints; and the page in a browser.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;

use profile::{Class, Names, Record, Stage, StageName};
use serde_json::Value;

/// Midnight of a day in 2025, UTC.
const DAY_US: u64 = 1_763_769_600_000_000;
const MINUTE_US: u64 = 60_000_000;

fn loligo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The standard output of a report that succeeds.
fn said(arguments: &[&str]) -> String {
    let output = loligo(arguments);
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        text(&output.stderr)
    );
    text(&output.stdout)
}

/// The error message of a report that fails.
fn complaint(arguments: &[&str]) -> String {
    let output = loligo(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    assert_eq!(
        text(&output.stdout),
        "",
        "nothing is printed beside a complaint"
    );
    text(&output.stderr)
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Eight hours of a profile, a request a minute: memory hits of 2 ms and misses of `miss_ms` in turn.
fn profile_of(miss_ms: u32, began_us: u64) -> Vec<u8> {
    let mut out = Vec::new();
    profile::write_file_header(7, &mut out);
    for minute in 0..8 * 60 {
        let mut record = Record::begun(began_us + minute * MINUTE_US);
        record.status = 200;
        record.method = profile::Method::Get;
        record.bytes_out = 1000 + minute;
        record.object_bytes = record.bytes_out;
        record.names = Some(Names {
            key: minute % 100,
            client: 1 + (minute % 5) as u32,
            server: 0,
        });
        let stage = |start_us, total_us| Stage {
            start_us,
            first_us: total_us,
            total_us,
        };
        if minute % 2 == 0 {
            record.class = Class::MemoryHit;
            record.total_us = 2_000;
            record.set_stage(StageName::ProxyReply, stage(0, 2_000));
        } else {
            record.class = Class::Miss;
            record.total_us = miss_ms * 1000;
            record.hierarchy = profile::Hierarchy::Direct;
            record.set_stage(StageName::ProxyConnect, stage(0, 1_000));
            record.set_stage(
                StageName::ServerReply,
                stage(1_000, record.total_us - 2_000),
            );
            record.set_stage(StageName::ProxyReply, stage(record.total_us - 1_000, 1_000));
        }
        record.encode(&mut out);
    }
    out
}

const LOG: &str = "\
1763769660.500 100 10.0.0.1 TCP_MISS/200 5000 GET http://a.example/1 - HIER_DIRECT/192.0.2.1 text/html
1763769661.500 4 10.0.0.1 TCP_MEM_HIT/200 5000 GET http://a.example/1 - HIER_NONE/- text/html
1763769661.900 9 10.0.0.2 TCP_MISS_ABORTED/000 0 GET http://a.example/2 - HIER_DIRECT/192.0.2.1 -
this is no line
1763769662.500 0 10.0.0.3 UDP_MISS/000 60 ICP_QUERY http://a.example/1 - HIER_NONE/- -
";

fn value(json: &Value, source: usize, id: &str) -> Option<f64> {
    let measures = json["sources"][source]["measures"].as_array().unwrap();
    let found = measures.iter().find(|measure| measure["id"] == id);
    found.unwrap_or_else(|| panic!("no measure {id}"))["value"].as_f64()
}

#[test]
fn help_teaches_by_examples() {
    let help = said(&["report", "--help"]);
    for part in [
        "loligo report requests.profile --html day.html",
        "--live http://127.0.0.1:3129 --for 10m",
        "--own-scales",
        "FILE@LEVEL",
    ] {
        assert!(help.contains(part), "{part} in {help}");
    }
    assert!(said(&["report", "compare", "--help"]).contains("quartiles"));
}

#[test]
fn a_profile_becomes_text_json_page_and_drawings() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "day.profile", profile_of(80, DAY_US));
    let [html, json, svg] = ["day.html", "day.json", "svg"].map(|name| dir.path().join(name));
    let out = said(&[
        "report",
        &file,
        "--html",
        html.to_str().unwrap(),
        "--json",
        json.to_str().unwrap(),
        "--svg",
        svg.to_str().unwrap(),
    ]);
    assert!(
        out.starts_with("day: 480 requests from 2025-11-22 00:00 to 2025-11-22 07:59"),
        "{out}"
    );
    assert!(out.contains("Table 3."), "{out}");
    let json: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(value(&json, 0, "5.miss.p50"), Some(80.0));
    assert_eq!(value(&json, 0, "5.hit.p50"), Some(2.0));
    let page = std::fs::read_to_string(&html).unwrap();
    for figure in 1..=25 {
        let anchor = format!("<figure class=\"figure\" id=\"figure-{figure}\"");
        assert!(page.contains(&anchor), "{anchor}");
        assert!(page.contains(&format!("<a href=\"#figure-{figure}\">Figure {figure}. ")));
        assert!(svg.join(format!("figure-{figure}.svg")).exists());
    }
    assert!(page.contains("the paper saw"));
}

#[test]
fn what_is_empty_says_why_and_what_fills_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "day.profile", profile_of(80, DAY_US));
    let [html, svg] = ["day.html", "svg"].map(|name| dir.path().join(name));
    let places = [&html, &svg].map(|path| path.to_str().unwrap());
    let out = said(&["report", &file, "--html", places[0], "--svg", places[1]]);
    assert!(
        out.contains("day: Table 22. One I/O and its overhead"),
        "{out}"
    );
    let page = std::fs::read_to_string(&html).unwrap();
    let (before, _) = page.split_once("id=\"figure-1\"").unwrap();
    assert!(before.contains("Table 22. One I/O and its overhead"));
    assert!(before.contains("two reads"), "{before}");
    let figure = page.split("id=\"figure-23\"").nth(1).unwrap();
    let figure = figure.split("</figure>").next().unwrap();
    assert!(figure.contains("A run with range requests"), "{figure}");
    // A separate drawing has its text in lines that fit.
    let drawing = std::fs::read_to_string(svg.join("figure-23.svg")).unwrap();
    assert!(
        drawing.matches("text-anchor=\"middle\"").count() > 2,
        "{drawing}"
    );
    for (figure, word) in [("figure-8b", "[[parent]]"), ("figure-20b", "once a second")] {
        let here = page.split(&format!("id=\"{figure}\"")).nth(1).unwrap();
        let here = here.split("</figure>").next().unwrap();
        assert!(here.contains(word), "{figure}: {here}");
    }
}

#[test]
fn what_json_holds_is_a_source_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "day.profile", profile_of(80, DAY_US));
    let json = said(&["report", &file, "--json", "-"]);
    let again = write(dir.path(), "day.json", &json);
    assert_eq!(said(&["report", &again, "--json", "-"]), json);
    assert_eq!(said(&["report", &again]), said(&["report", &file]));
}

#[test]
fn names_are_told_where_they_are_wanted_and_known() {
    let dir = tempfile::tempdir().unwrap();
    let log = write(dir.path(), "access.log", LOG);
    assert!(!said(&["report", &log]).contains("a.example"));
    let out = said(&["report", &log, "--top", "5"]);
    for row in [
        "a.example     3 requests, 2 misses, 10000 bytes, hits 33.3 %, of bytes 50.0 %",
        "text/html  2 requests, 1 misses, 10000 bytes, hits 50.0 %, of bytes 50.0 %",
        "http://a.example/2  1 requests, 1 misses",
    ] {
        let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(squeezed(&out).contains(&squeezed(row)), "{row}: {out}");
    }
    let profile = write(dir.path(), "leaf.profile", profile_of(80, DAY_US));
    let out = said(&["report", &profile, "--top", "5"]);
    assert!(
        out.contains("Hosts with the most requests: not recorded by this source"),
        "{out}"
    );
}

#[test]
fn squid_and_loligo_stand_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let profile = write(dir.path(), "leaf.profile", profile_of(80, DAY_US));
    let log = write(dir.path(), "access.log", LOG);
    let (leaf, squid) = (format!("{profile}@leaf"), format!("squid={log}@root"));
    let html = dir.path().join("both.html");
    let out = said(&["report", &leaf, &squid, "--html", html.to_str().unwrap()]);
    assert!(
        out.contains("leaf (leaf): 480 requests") && out.contains("squid (root): 3 requests"),
        "{out}"
    );
    assert!(
        out.contains("1 places could not be used, the rest was: "),
        "{out}"
    );
    assert!(
        out.contains("access.log: line 4: has 4 fields of 10"),
        "{out}"
    );
    assert!(out.contains("1 queries of other proxies"), "{out}");
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("not recorded by this source"));
    let json: Value = serde_json::from_str(&said(&["report", &squid, "--json", "-"])).unwrap();
    assert_eq!(value(&json, 0, "5.hit.p50"), Some(4.0));
    assert_eq!(
        value(&json, 0, "5.miss.p50"),
        Some(100.0),
        "the aborted one is left out"
    );
    assert_eq!(
        value(&json, 0, "20.all.value"),
        None,
        "not recorded is not zero"
    );
}

#[test]
fn days_lie_over_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let monday = write(dir.path(), "monday.profile", profile_of(80, DAY_US));
    let tuesday = write(
        dir.path(),
        "tuesday.profile",
        profile_of(40, DAY_US + 24 * 60 * MINUTE_US),
    );
    let html = dir.path().join("days.html");
    said(&[
        "report",
        &monday,
        &tuesday,
        "--days",
        "--html",
        html.to_str().unwrap(),
    ]);
    let page = std::fs::read_to_string(&html).unwrap();
    let figure = page.split("id=\"figure-5\"").nth(1).unwrap();
    let figure = figure.split("</figure>").next().unwrap();
    assert!(figure.contains(">24:00</text>"), "an axis of a whole day");
    let legend = figure.split("class=\"legend\"").nth(1).unwrap();
    assert!(legend.contains("</svg>monday</li>") && legend.contains("</svg>tuesday</li>"));
}

#[test]
fn two_reports_are_compared_and_joined() {
    let dir = tempfile::tempdir().unwrap();
    let before = write(dir.path(), "before.profile", profile_of(80, DAY_US));
    let after = write(dir.path(), "after.profile", profile_of(60, DAY_US));
    let out = said(&["report", "compare", &before, &after]);
    assert!(out.starts_with("after against before"), "{out}");
    assert!(out.contains("-25.0 %"), "80 ms became 60: {out}");
    let json: Value = serde_json::from_str(&said(&[
        "report", "compare", &before, &after, "--json", "-",
    ]))
    .unwrap();
    let row = json
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["id"] == "5.miss.p50")
        .unwrap();
    assert_eq!(row["difference_percent"].as_f64(), Some(-25.0));

    let joined = said(&[
        "report", "join", &before, &after, "--name", "both", "--json", "-",
    ]);
    let joined: Value = serde_json::from_str(&joined).unwrap();
    assert_eq!(joined["sources"][0]["requests"], 960);
    assert_eq!(joined["sources"][0]["name"], "both");
    assert!(complaint(&["report", "compare", &before]).contains("there are 1 sources in these"));
    assert!(complaint(&["report", "join", &before]).contains("two or more can be joined"));
}

#[test]
fn the_list_names_every_measure() {
    let list = said(&["report", "--list"]);
    assert!(list.lines().count() > 190, "{list}");
    assert!(
        list.lines().any(|line| line.starts_with("5.hit.p50 ")),
        "{list}"
    );
}

#[test]
fn a_torn_profile_is_used_up_to_where_it_is_torn() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = profile_of(80, DAY_US);
    bytes.truncate(bytes.len() - 3);
    let file = write(dir.path(), "torn.profile", bytes);
    let out = said(&["report", &file]);
    assert!(out.contains("torn: 479 requests"), "{out}");
    assert!(
        out.contains("bytes at offset") && out.contains("are not a whole record"),
        "{out}"
    );
}

#[test]
fn what_cannot_be_a_source_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let empty = write(dir.path(), "empty", "");
    let foreign = write(dir.path(), "foreign", "hello world\n");
    let gzip = write(dir.path(), "log.gz", [0x1f, 0x8b, 8, 0]);
    let json = write(dir.path(), "other.json", "{\"a\": 1}");
    let mut future = profile_of(80, DAY_US);
    future[8] = 99;
    let future = write(dir.path(), "future.profile", future);
    let directory = dir.path().to_str().unwrap();
    for (file, why) in [
        ("/no/such/file", "No such file"),
        (&empty, "is empty"),
        (&foreign, "is neither a profile"),
        (&gzip, "zcat FILE | loligo report"),
        (&json, "is no report that loligo report --json wrote"),
        (&future, "version 99 is not known here"),
        (directory, "is a directory"),
        (
            "day.profile@leave",
            "levels are leaf, intermediate, top, root",
        ),
    ] {
        let said = complaint(&["report", file]);
        assert!(
            said.starts_with("loligo: ") && said.contains(why),
            "{file}: {said}"
        );
    }
    assert!(complaint(&["report", "-", "-"]).contains("only one of the sources"));
    assert_eq!(loligo(&["report"]).status.code(), Some(2));
    assert_eq!(
        loligo(&["report", "x", "--slot", "1"]).status.code(),
        Some(2)
    );
}

#[test]
fn standard_input_is_a_source() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["report", "day=-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(LOG.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let out = text(&output.stdout);
    assert!(out.starts_with("day: 3 requests"), "{out}");
}

/// A stub of the admin interface: it sends this profile, tells `has_sent`, and keeps the connection open until the report closes it.
fn admin_stub(profile: Vec<u8>, has_sent: mpsc::Sender<()>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let proxy = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            reader.read_line(&mut line).unwrap();
        }
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n")
            .unwrap();
        stream.write_all(&profile).unwrap();
        has_sent.send(()).unwrap();
        let _ = reader.read_line(&mut line);
    });
    (url, proxy)
}

#[test]
fn a_running_proxy_is_listened_to() {
    let (has_sent, _sent) = mpsc::channel();
    // The last record is incomplete.
    let mut profile = profile_of(80, DAY_US);
    profile.pop();
    let (url, proxy) = admin_stub(profile, has_sent);
    // The other address has no listener.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let nobody = format!("http://{}", free.unwrap());
    // Long enough to read all of it on a busy machine.
    let live = ["report", "--live", &url, "--live", &nobody, "--for", "10s"];
    let output = loligo(&[&live[..], &["--quiet"]].concat());
    proxy.join().unwrap();
    let (out, complaints) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{complaints}");
    assert!(out.contains(": 479 requests from"), "{out}");
    let is_cut_trouble = out.contains("could not be used");
    assert!(!is_cut_trouble, "the cut record is no trouble: {out}");
    assert!(complaints.contains("left out"), "{complaints}");
    let alone = complaint(&["report", "--live", &nobody, "--for", "1s"]);
    assert!(alone.contains("is the proxy running"), "{alone}");
}

#[test]
fn an_interrupt_ends_listening_and_not_the_report() {
    // More than the kernel buffers: once all is sent, the report must have read a part.
    const BYTES: usize = 16 << 20;
    let (has_sent, sent) = mpsc::channel();
    let mut profile = Vec::new();
    profile::write_file_header(7, &mut profile);
    let records = profile_of(80, DAY_US).split_off(profile.len());
    profile.extend(records.iter().cycle().take(BYTES));
    let (url, proxy) = admin_stub(profile, has_sent);
    let report = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["report", "--live", &url, "--for", "10m"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    sent.recv().unwrap();
    let id = i32::try_from(report.id()).unwrap();
    let process = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    let output = report.wait_with_output().unwrap();
    proxy.join().unwrap();
    let out = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(out.contains(" requests from"), "{out}");
}

/// Chromium, if it is installed.
fn chromium(profile: &Path, page: &Path, arguments: &[&str]) -> Option<Output> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .iter()
        .find(|name| {
            Command::new(name)
                .arg("--version")
                .output()
                .is_ok_and(|output| output.status.success())
        });
    let Some(browser) = found else {
        eprintln!("skipped: there is no Chromium here");
        return None;
    };
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--virtual-time-budget=2000",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        // Requests for anything but this file fail, and would be errors on the console.
        .arg("--host-resolver-rules=MAP * 0.0.0.0")
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    Some(output)
}

#[test]
fn the_page_works_in_a_browser_from_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(dir.path(), "day.profile", profile_of(80, DAY_US));
    let log = write(dir.path(), "access.log", LOG);
    let html = dir.path().join("page.html");
    said(&["report", &file, &log, "--html", html.to_str().unwrap()]);
    let source = std::fs::read_to_string(&html).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link"] {
        assert!(
            !source.contains(outside),
            "the page asks for nothing: {outside}"
        );
    }
    // Choose p99 everywhere, as a reader would, and record what is then visible.
    let chosen = source.replace(
        "</body>",
        "<script>document.querySelectorAll('p .choice button')[3].click();\
         const seen = [...document.querySelectorAll('#figure-5 .layer')].filter(l => getComputedStyle(l).display != 'none');\
         document.body.dataset.seen = [...new Set(seen.map(l => l.classList[1]))].join(' ');</script></body>",
    );
    let chosen = write(dir.path(), "chosen.html", chosen);
    let home = dir.path().join("home");
    let Some(output) = chromium(&home, Path::new(&chosen), &["--dump-dom"]) else {
        return;
    };
    let (dom, log) = (
        text(&output.stdout),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    assert!(!log.contains("CONSOLE"), "{log}");
    assert!(
        dom.contains("data-seen=\"y3\""),
        "p99 alone is seen in Figure 5"
    );
    for figure in 1..=25 {
        assert!(
            dom.contains(&format!("id=\"figure-{figure}\"")),
            "figure {figure}"
        );
    }
    assert!(
        dom.contains("<button type=\"button\" aria-pressed=\"true\">p99</button>"),
        "{log}"
    );

    let picture = dir.path().join("page.png");
    let screenshot = format!("--screenshot={}", picture.display());
    chromium(&home, &html, &[&screenshot, "--window-size=1200,2000"]).unwrap();
    let bytes = std::fs::read(&picture).unwrap();
    assert!(
        bytes.starts_with(b"\x89PNG") && bytes.len() > 50_000,
        "{} bytes",
        bytes.len()
    );
}
