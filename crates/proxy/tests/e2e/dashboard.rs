//! Looking on while it runs: `/live`, the histories, and the page that shows them, in Chromium.
//!
//! Where no Chromium is installed the tests of the page say so and prove nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use ::proxy::plan::{Listener, Plan};
use serde_json::Value;

use super::harness::{running::*, *};

/// Names under which the browser may be found.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// The longest that a browser may take to draw a page, on a machine that is busy.
const BROWSER_MAX: Duration = Duration::from_secs(120);

/// A forward proxy that counts names, and an origin with a page, a missing page and a dead neighbour.
struct House {
    proxy: Proxy,
    origin: Origin,
    _disk: Disk,
}

impl House {
    fn start(counts_names: bool) -> House {
        let disk = Disk::of_mib(16);
        let listener = Listener::forward(local(), Vec::new());
        let mut plan = with_admin(disk.under(Plan::with_listeners(vec![listener])));
        plan.workers = 2;
        plan.logs.top = counts_names;
        House {
            proxy: Proxy::start(plan),
            origin: Origin::start(|exchange| exchange.send(ok(&[FRESH], [b'x'; 1000]))),
            _disk: disk,
        }
    }

    fn get(&self, url: &str) -> Response {
        let host = url.split('/').nth(2).unwrap();
        self.proxy.ask("GET", url, &[&format!("Host: {host}")])
    }

    /// Some misses, hits and failures.
    fn load(&self) {
        let url = |path: &str| format!("http://{}{path}", self.origin.address);
        for n in 0..5 {
            assert_eq!(self.get(&url(&format!("/{n}?<b>&amp;"))).status, 200);
        }
        eventually("it is a hit", || {
            self.get(&url("/0")).is_hit().then_some(())
        });
        let dead = format!("http://{}/", nobody());
        assert_eq!(self.get(&dead).status, 502);
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(self.proxy.admin("GET", path).text()).unwrap()
    }
}

#[test]
fn live_tells_classes_stages_origins_and_names() {
    let house = House::start(true);
    house.load();
    let live = eventually("all is counted", || {
        let live = house.json("/live");
        let rows = live["origins"]["rows"].as_array()?;
        let failures = rows.iter().filter_map(|row| row["failures"].as_u64());
        // Five misses, and at least one of those that became a hit.
        let seen = live["top"]["hosts"]["by_requests"].as_array()?.len() == 2
            && live["top"]["hosts"]["by_misses"][0]["misses"].as_u64()? >= 6
            && live["top"]["hosts"]["by_requests"][0]["requests"].as_u64()? >= 7
            && failures.sum::<u64>() == 1
            && live["minute"]["classes"].as_array()?.len() >= 3
            && !live["trend"]["requests_per_s"].as_array()?.is_empty();
        seen.then_some(live)
    });
    let names = |of: &Value| -> Vec<String> {
        let all = of.as_array().unwrap().iter();
        all.map(|row| row["name"].as_str().unwrap().to_owned())
            .collect()
    };
    let minute = &live["minute"];
    for class in ["memory-hit", "miss", "error"] {
        assert!(
            names(&minute["classes"]).contains(&class.to_owned()),
            "{live}"
        );
    }
    for stage in ["server-reply", "proxy-reply"] {
        assert!(
            names(&minute["stages"]).contains(&stage.to_owned()),
            "{live}"
        );
    }
    let host = house.origin.address.to_string();
    let top = &live["top"];
    assert_eq!(top["hosts"]["by_misses"][0]["name"], host);
    assert!(top["urls"]["by_bytes"][0]["bytes"].as_u64().unwrap() >= 1000);
    let origin = &live["origins"]["rows"];
    let of_origin = origin
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["p50_us"].is_f64());
    assert!(
        of_origin.unwrap()["requests"].as_u64().unwrap() >= 6,
        "{live}"
    );
    assert_eq!(live["disk"]["stores"].as_array().unwrap().len(), 1);
    house.proxy.stop();
}

#[test]
fn without_top_no_name_is_told() {
    let house = House::start(false);
    house.load();
    let live = eventually("the origins are counted", || {
        let live = house.json("/live");
        (live["origins"]["rest"]["requests"].as_u64()? >= 7).then_some(live)
    });
    assert!(live["top"].is_null());
    assert_eq!(live["origins"]["are_named"], false);
    assert!(
        live["origins"]["rows"].as_array().unwrap().is_empty(),
        "{live}"
    );
    let text = live.to_string();
    assert!(!text.contains(&house.origin.address.to_string()), "{text}");
    house.proxy.stop();
}

#[test]
fn both_histories_grow_and_another_step_is_refused() {
    let house = House::start(false);
    house.load();
    let fine = eventually("there are samples", || {
        let fine = house.json("/history?step=1");
        let sum: f64 = fine["requests_per_s"]
            .as_array()?
            .iter()
            .filter_map(Value::as_f64)
            .sum();
        (sum > 0.0).then_some(fine)
    });
    assert_eq!(
        (&fine["step_s"], &fine["samples_max"]),
        (&1.into(), &300.into())
    );
    assert_eq!(house.json("/history")["step_s"], 10);
    let refused = house.proxy.admin("GET", "/history?step=2");
    assert_eq!(refused.status, 400);
    assert!(
        refused.text().contains("/history?step=1"),
        "{}",
        refused.text()
    );
    house.proxy.stop();
}

/// A page as the browser had it in the end, what it wrote to its console, and every URL that the page asked for.
struct Seen {
    page: String,
    console: Vec<String>,
    asked: Vec<String>,
}

/// The browser, or a word that there is none.
fn browser() -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths)
        .flat_map(|folder| BROWSERS.map(|name| folder.join(name)))
        .find(|path| path.is_file());
    if found.is_none() {
        eprintln!("SKIPPED: no Chromium in PATH, so the dashboard's page is not tested");
    }
    found
}

/// Loads a page in the browser and lets it live for some seconds of the page's time.
fn look(browser: &Path, url: &str, window: &str, scheme: u8) -> Seen {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let (page, log, net) = (at("page"), at("log"), at("net.json"));
    let mut child = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--no-first-run",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-extensions",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=8000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", at("profile").display()))
        .arg(format!("--log-net-log={}", net.display()))
        .arg(format!("--window-size={window}"))
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(url)
        .stdin(Stdio::null())
        .stdout(fs::File::create(&page).unwrap())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + BROWSER_MAX;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() >= deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("the browser did not come to an end");
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let log = String::from_utf8_lossy(&fs::read(&log).unwrap()).into_owned();
    assert!(status.success(), "{status}: {log}");
    let console = log.lines().filter(|line| line.contains("CONSOLE"));
    Seen {
        page: String::from_utf8(fs::read(&page).unwrap()).unwrap(),
        console: console.map(str::to_owned).collect(),
        asked: asked_by_page(&fs::read_to_string(&net).unwrap()),
    }
}

/// The URLs that pages asked for: not those that the browser asked for itself, which have no origin for initiator.
fn asked_by_page(net_log: &str) -> Vec<String> {
    // An event a line. The last line may be cut off.
    let events = net_log.lines().filter_map(|line| {
        let line = line.trim().trim_end_matches(',');
        serde_json::from_str::<Value>(line).ok()
    });
    let asked = events.filter_map(|event| {
        let params = event.get("params")?;
        let initiator = params.get("initiator")?.as_str()?;
        let url = params.get("url")?.as_str()?;
        initiator.starts_with("http").then(|| url.to_owned())
    });
    asked.collect()
}

/// What stands between the tags behind `id="..."`, to the end of that table or list.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let from = page.find(&format!("id=\"{id}\"")).unwrap();
    let rest = &page[from..];
    let end = rest
        .find("</tbody>")
        .into_iter()
        .chain(rest.find("</dl>"))
        .min();
    &rest[..end.unwrap()]
}

#[test]
fn the_page_shows_numbers_and_asks_nobody_else() {
    let Some(browser) = browser() else { return };
    let house = House::start(true);
    house.load();
    eventually("names are counted", || {
        let live = house.json("/live");
        (live["top"]["hosts"]["by_requests"].as_array()?.len() == 2 && live["minute"].is_object())
            .then_some(())
    });
    let admin = house.proxy.ready.admin.unwrap();
    for (window, scheme) in [("1280,900", 1), ("500,900", 0)] {
        let seen = look(
            &browser,
            &format!("http://{admin}/dashboard"),
            window,
            scheme,
        );
        assert!(seen.console.is_empty(), "{:?}", seen.console);
        let own = format!("http://{admin}/");
        let outside: Vec<_> = seen
            .asked
            .iter()
            .filter(|url| !url.starts_with(&own))
            .collect();
        assert!(outside.is_empty(), "{outside:?}");
        for path in ["live", "status", "history"] {
            let url = format!("{own}{path}");
            assert!(seen.asked.contains(&url), "{url} in {:?}", seen.asked);
        }
        let page = &seen.page;
        assert!(page.contains(">running for "), "{page}");
        for (id, part) in [
            ("large", "requests/s"),
            ("large", " %</dd>"),
            ("stages", "<td>server-reply</td>"),
            ("hosts", &house.origin.address.to_string()),
            // As text, not as markup.
            ("urls", "&lt;b&gt;&amp;amp;"),
            ("classes", "<td>memory-hit</td>"),
            ("slowest", "class=\"bad\">1</td>"),
        ] {
            let section = section(page, id);
            assert!(section.contains(part), "{part} in {id}: {section}");
        }
        assert_eq!(page.matches("<svg ").count(), 10);
        assert!(page.contains("<section id=\"cluster\" hidden"), "{page}");
    }
    house.proxy.stop();
}

#[test]
fn the_page_of_a_front_shows_the_other_members() {
    let Some(browser) = browser() else { return };
    let origin = Origin::start(|exchange| exchange.send(ok(&[FRESH], "a")));
    let all = cluster::addresses(3);
    let disk = Disk::of_mib(16);
    let node = Proxy::start(disk.under(cluster::member(plan_for(&origin), 0, &all)));
    let front = Proxy::start(cluster::front(plan_for(&origin), 2, &all));
    node.get("/a");
    cluster::await_hint(&front, "http://test.example/a", "n1");
    assert_eq!(front.get("/a").status, 200);
    let admin = front.ready.admin.unwrap();
    let seen = look(
        &browser,
        &format!("http://{admin}/dashboard"),
        "1280,900",
        1,
    );
    assert!(seen.console.is_empty(), "{:?}", seen.console);
    let page = &seen.page;
    assert!(
        page.contains("<section id=\"cluster\"><h2>Cluster</h2>"),
        "{page}"
    );
    assert!(
        page.contains("This is n3, a front with a store of its own. 1 of 2 other members are up."),
        "{page}"
    );
    let members = section(page, "members");
    let rows: Vec<&str> = members.split("<tr>").skip(1).collect();
    assert_eq!(rows.len(), 2, "{members}");
    for (row, parts) in rows.iter().zip([
        [
            ">n1</td>",
            "class=\"words state up\">up</td>",
            "class=\"group \">1</td>",
        ],
        [
            ">n2</td>",
            "its link is down, or it says nothing\">away</td>",
            "class=\"group \">0</td>",
        ],
    ]) {
        for part in parts {
            assert!(row.contains(part), "{part} in {row}");
        }
    }
    assert!(section(page, "trouble").contains("members of the cluster that are not up"));
}
