//! `loligo store` as people use it: on a store that was closed, left by a crash, damaged, or is in use.

mod filler;

use std::path::PathBuf;
use std::process::{Command, Output};

use filler::Filler;
use serde_json::Value;

/// The output of a command, and its exit status.
struct Said {
    out: Vec<u8>,
    text: String,
    error: String,
    code: i32,
}

fn loligo(arguments: &[&str]) -> Said {
    let Output {
        status,
        stdout,
        stderr,
    } = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .arg("store")
        .args(arguments)
        .output()
        .unwrap();
    Said {
        text: String::from_utf8_lossy(&stdout).into_owned(),
        out: stdout,
        error: String::from_utf8(stderr).unwrap(),
        code: status.code().unwrap(),
    }
}

impl Said {
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.text, self.error);
        self
    }

    fn fails(self, code: i32, why: &str) {
        assert_eq!(self.code, code, "{}{}", self.text, self.error);
        assert!(self.error.contains(why), "{:?} has no {why:?}", self.error);
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// JSON lines, by URL.
    fn lines(&self) -> Vec<Value> {
        let mut lines: Vec<Value> = self
            .text
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        lines.sort_by_key(|line| line["url"].to_string() + &line["variant"].to_string());
        lines
    }
}

/// A store in a directory that is removed with it.
struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("the.store");
        Self { _dir: dir, path }
    }

    fn empty() -> Self {
        let place = Self::new();
        loligo(&["init", place.name(), "--size", "16MiB"]).ok();
        place
    }

    /// A store with five objects, one of them in fragments, two of them variants.
    fn full(cleanly: bool) -> Self {
        let place = Self::empty();
        let filler = Filler::open(&place.path);
        filler.put("http://h/a", 60, b"the body of a");
        filler.put("http://h/stale", 0, &[b'x'; 5000]);
        filler.put_large("http://h/large", &large(), 30_000);
        filler.put_variant("http://h/v", "gzip", b"zipped");
        filler.put_variant("http://h/v", "br", b"brotli");
        filler.settle();
        if cleanly {
            filler.close();
        }
        place
    }

    fn name(&self) -> &str {
        self.path.to_str().unwrap()
    }

    fn ls(&self) -> Vec<Value> {
        loligo(&["ls", self.name(), "--json"]).ok().lines()
    }

    fn urls(&self) -> Vec<String> {
        let url = |line: &Value| line["url"].as_str().unwrap().to_owned();
        self.ls().iter().map(url).collect()
    }

    /// Changes the bytes that come first after `pattern`.
    fn damage(&self, pattern: &[u8]) {
        let mut bytes = std::fs::read(&self.path).unwrap();
        let at = bytes.windows(pattern.len()).position(|w| w == pattern);
        bytes[at.unwrap() + pattern.len() - 1] ^= 1;
        std::fs::write(&self.path, bytes).unwrap();
    }
}

fn large() -> Vec<u8> {
    (0..100_000u32)
        .map(|n| (n.wrapping_mul(n).wrapping_mul(0x9e37_79b9) >> 24) as u8)
        .collect()
}

const ALL: [&str; 5] = [
    "http://h/a",
    "http://h/large",
    "http://h/stale",
    "http://h/v",
    "http://h/v",
];

#[test]
fn help_teaches_by_examples() {
    for command in ["init", "inspect", "ls", "get", "verify", "rm"] {
        let said = loligo(&[command, "--help"]).ok();
        let example = format!("  loligo store {command} /var/cache/loligo.store");
        assert!(said.text.contains(&example), "{}", said.text);
    }
}

#[test]
fn a_new_store_is_empty_and_whole() {
    let place = Place::new();
    loligo(&["init", place.name()]).fails(2, "--size 10GiB");
    loligo(&["init", place.name(), "--size", "1MiB"]).fails(2, "at least 4194304 bytes");
    assert!(!place.path.exists());
    let said = loligo(&["init", place.name(), "--size", "16MiB", "--json"])
        .ok()
        .json();
    assert_eq!(said["bytes"], 16 << 20);
    assert!(place.ls().is_empty());
    let said = loligo(&["verify", place.name(), "--json"]).ok().json();
    assert_eq!((&said["ok"], &said["records"]), (&true.into(), &0.into()));
    let said = loligo(&["inspect", place.name(), "--json"]).ok().json();
    assert_eq!(said["state"], "open");
    assert_eq!(said["start"]["scan_bytes"], 0);
    assert_eq!(
        said["space"]["never_written_bytes"],
        said["geometry"]["data_bytes"]
    );
}

#[test]
fn init_takes_nothing_that_may_be_needed() {
    let place = Place::full(true);
    let before = std::fs::read(&place.path).unwrap();
    loligo(&["init", place.name()]).fails(2, "a Loligo store here; nothing was written");
    assert_eq!(std::fs::read(&place.path).unwrap(), before);
    loligo(&["init", "--force", place.name()]).ok();
    assert!(place.ls().is_empty());

    std::fs::write(&place.path, vec![b'a'; 8 << 20]).unwrap();
    loligo(&["init", place.name()]).fails(2, "loligo store init --force");
    loligo(&["init", "--force", place.name(), "--chunk", "4096"]).ok();
    let said = loligo(&["inspect", place.name(), "--json"]).ok().json();
    assert_eq!(said["geometry"]["chunk_bytes"], 4096);
}

#[test]
fn everything_is_listed_after_a_stop_and_after_a_crash() {
    for cleanly in [true, false] {
        let place = Place::full(cleanly);
        let before = std::fs::read(&place.path).unwrap();
        assert_eq!(place.urls(), ALL);
        let lines = place.ls();
        assert_eq!(lines[0]["status"], 200);
        assert_eq!(lines[0]["body_bytes"], 13);
        assert_eq!(
            (&lines[0]["fresh"], &lines[2]["fresh"]),
            (&true.into(), &false.into())
        );
        assert_eq!(lines[0]["content_type"], "text/plain");
        assert_eq!(lines[1]["body_bytes"], 100_000);
        assert_eq!(
            (&lines[1]["fragments"], &lines[1]["complete"]),
            (&4.into(), &true.into())
        );
        assert_eq!(lines[3]["variant"]["accept-encoding"], "br");
        assert_eq!(lines[0]["variant"], Value::Null);

        let said = loligo(&["ls", place.name(), "--prefix", "http://h/s", "--long"]).ok();
        assert_eq!(said.text.lines().count(), 2, "{}", said.text);
        assert!(said.text.contains("   200    4.9 KiB"), "{}", said.text);
        let said = loligo(&["ls", place.name(), "--limit", "2"]).ok();
        assert_eq!(said.text.lines().count(), 3, "{}", said.text);

        let said = loligo(&["inspect", place.name(), "--json"]).ok().json();
        assert_eq!(said["state"], if cleanly { "clean" } else { "open" });
        // Objects stored after the last checkpoint are known only after a scan.
        assert_eq!(said["start"]["markers"], u64::from(cleanly));
        assert_eq!(said["start"]["scan_bytes"] == 0, cleanly, "{said}");
        assert!(said["journal"]["opened"].as_u64().unwrap() > 0);
        if cleanly {
            let bytes = |name: &str| said["space"][name].as_u64().unwrap();
            let parts = ["live_bytes", "dead_bytes", "never_written_bytes"].map(bytes);
            assert_eq!(
                parts.iter().sum::<u64>(),
                said["geometry"]["data_bytes"].as_u64().unwrap()
            );
            assert!(parts[0] > 100_000 && parts[2] > 0, "{said}");
        } else {
            assert_eq!(said["space"], Value::Null, "not known before the scan");
        }
        let text = loligo(&["inspect", place.name()]).ok().text;
        assert_eq!(text.contains("1 URL with variants"), cleanly, "{text}");
        for jargon in ["kind ", "sequence", "epoch", "generation", "marker"] {
            assert!(!text.contains(jargon), "{jargon} in {text}");
        }
        let said = loligo(&["verify", place.name(), "--json"]).ok().json();
        assert_eq!(
            (&said["objects"], &said["fragments"]),
            (&5.into(), &4.into()),
            "{said}"
        );
        assert!(
            std::fs::read(&place.path).unwrap() == before,
            "readers changed the store"
        );
    }
}

#[test]
fn a_response_comes_out_as_it_went_in() {
    let place = Place::full(false);
    let before = std::fs::read(&place.path).unwrap();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n";
    let get = |arguments: &[&str]| loligo(&[&["get", place.name()], arguments].concat());
    assert_eq!(
        get(&["http://h/a"]).ok().text,
        format!("{head}the body of a")
    );
    assert_eq!(get(&["HTTP://H:80/a", "--head"]).ok().text, head);
    assert!(get(&["http://h/large", "--body"]).ok().out == large());
    let file = place.path.with_extension("out");
    get(&["http://h/large", "--body", "-o", file.to_str().unwrap()]).ok();
    assert!(std::fs::read(&file).unwrap() == large());
    assert_eq!(
        get(&["http://h/large", "--json"]).ok().json()["body_bytes"],
        100_000
    );

    get(&["http://h/none"]).fails(1, "not in the store");
    get(&["/a"]).fails(1, "no URL of a web page");
    get(&["http://h/v"]).fails(1, "selected by accept-encoding");
    let zipped = get(&["http://h/v", "--variant", "accept-encoding: GZIP", "--body"]).ok();
    assert_eq!(zipped.text, "zipped");
    assert!(std::fs::read(&place.path).unwrap() == before);
}

#[test]
fn damage_is_found_and_named() {
    let place = Place::full(true);
    place.damage(b"the body of a");
    place.damage(&large()[30_000..30_016]);
    let said = loligo(&["verify", place.name(), "--json"]);
    assert_eq!(said.code, 1);
    let said = said.json();
    assert_eq!(
        (&said["ok"], &said["damaged_records"]),
        (&false.into(), &2.into()),
        "{said}"
    );
    let reasons: Vec<_> = said["damaged"].as_array().unwrap().iter().collect();
    assert!(
        reasons.iter().any(|one| one["url"] == "http://h/a"),
        "{said}"
    );
    assert!(
        reasons
            .iter()
            .all(|one| one["reason"] == "the checksum does not match"),
        "{said}"
    );
    loligo(&["verify", place.name()]).fails(1, "2 damaged records");
    loligo(&["get", place.name(), "http://h/a"]).fails(1, "damaged: the checksum does not match");
    let file = place.path.with_extension("out");
    let arguments = [
        "get",
        place.name(),
        "http://h/large",
        "-o",
        file.to_str().unwrap(),
    ];
    loligo(&arguments).fails(1, "fragment 1 is damaged");
    assert!(!file.exists());
}

#[test]
fn a_damaged_header_hides_one_record_only() {
    let place = Place::full(true);
    let offset = place.ls()[0]["offset"].as_u64().unwrap() as usize;
    let mut bytes = std::fs::read(&place.path).unwrap();
    bytes[offset + 40] ^= 1;
    std::fs::write(&place.path, bytes).unwrap();
    let said = loligo(&["ls", place.name(), "--json"]).ok();
    assert_eq!(said.lines().len(), 4);
    assert!(
        said.error
            .contains("1 record could not be read: loligo store verify"),
        "{}",
        said.error
    );
    let said = loligo(&["verify", place.name(), "--json"]).json();
    assert_eq!(said["damaged"][0]["offset"], offset);
}

#[test]
fn what_is_removed_stays_away() {
    for cleanly in [true, false] {
        let place = Place::full(cleanly);
        let rm = |what: &[&str]| loligo(&[&["rm", place.name()], what].concat());
        rm(&[]).fails(2, "required");
        // After a crash only a scan could tell which objects are there; removal needs no scan.
        let known = |found: bool| cleanly.then_some(found);
        let found = |url: &str| rm(&[url, "--json"]).ok().json()["found"].as_bool();
        assert_eq!(found("http://h/v"), known(true));
        assert_eq!(
            place.urls(),
            ["http://h/a", "http://h/large", "http://h/stale"]
        );
        assert_eq!(found("http://h/none"), known(false));
        loligo(&["verify", place.name()]).ok();
        rm(&["--prefix", "http://h/l"]).ok();
        assert_eq!(place.urls(), ["http://h/a", "http://h/stale"]);
        loligo(&["get", place.name(), "http://h/large"]).fails(1, "not in the store");
        loligo(&["verify", place.name()]).ok();

        // A later object under a removed URL stays, and objects that were not removed are still there.
        let filler = Filler::open(&place.path);
        filler.put("http://h/large", 60, b"small now");
        filler.close();
        assert_eq!(
            place.urls(),
            ["http://h/a", "http://h/large", "http://h/stale"]
        );
        rm(&["--all"]).ok();
        assert!(place.ls().is_empty());
        assert_eq!(
            loligo(&["verify", place.name(), "--json"]).ok().json()["ok"],
            true
        );
    }
}

/// Objects with tags (of routes, and of listeners with rules of their own) are listed under their URL and removed with it.
#[test]
fn tags_are_shown_asked_for_and_removed_with_their_url() {
    let place = Place::empty();
    let filler = Filler::open(&place.path);
    filler.put("http://h/a\thttp://origin:80", 60, b"by the route");
    filler.put_large("http://h/large\thttp://origin:80", &large(), 30_000);
    filler.put_variant("http://h/v\t0123456789abcdef", "gzip", b"zipped");
    filler.put_variant("http://h/v", "gzip", b"public");
    filler.close();
    let said = loligo(&["ls", place.name()]).ok().text;
    assert!(said.contains("http://h/a [tag http://origin:80]"), "{said}");
    let tags: Vec<Value> = place.ls().iter().map(|line| line["tag"].clone()).collect();
    let route = Value::from("http://origin:80");
    let listener = Value::from("0123456789abcdef");
    assert_eq!(tags, [route.clone(), route, listener, Value::Null]);
    loligo(&["verify", place.name()]).ok();

    let get = |rest: &[&str]| {
        let arguments = [&["get", place.name(), "--body"], rest].concat();
        loligo(&arguments)
    };
    for tag in [&[][..], &["--tag", "http://origin:80"]] {
        assert_eq!(
            get(&[&["http://h/a"], tag].concat()).ok().text,
            "by the route"
        );
    }
    get(&["http://h/a", "--tag", "http://other:80"]).fails(1, "not in the store");
    let path = place.path.with_extension("out");
    get(&["http://h/large", "-o", path.to_str().unwrap()]).ok();
    assert!(std::fs::read(path).unwrap() == large());
    let gzip = ["http://h/v", "--variant", "Accept-Encoding: gzip"];
    assert_eq!(get(&gzip).ok().text, "public");
    let tagged = [&gzip[..], &["--tag", "0123456789abcdef"]].concat();
    assert_eq!(get(&tagged).ok().text, "zipped");

    for url in ["http://h/v", "http://h/a", "http://h/large"] {
        let said = loligo(&["rm", place.name(), url, "--json"]).ok().json();
        assert_eq!(said["found"], true, "{url}");
        assert!(!place.urls().iter().any(|left| left == url));
    }
}

#[test]
fn a_store_in_use_is_left_alone() {
    let place = Place::full(true);
    let held = device::Device::open(&place.path, device::OpenOptions::default()).unwrap();
    let commands = [
        &["inspect"][..],
        &["ls"],
        &["verify"],
        &["get", "http://h/a"],
        &["rm", "http://h/a"],
        &["init", "--force"],
    ];
    // In parallel, because each command waits a while for the lock: the lock of a killed process may be released late.
    std::thread::scope(|scope| {
        for command in commands {
            let arguments = [&command[..1], &[place.name()], &command[1..]].concat();
            scope.spawn(move || {
                let said = loligo(&arguments);
                let me = std::process::id().to_string();
                assert!(said.error.contains(&me), "{}", said.error);
                said.fails(2, "in use by another process (");
            });
        }
    });
    drop(held);
    assert_eq!(place.urls(), ALL);
}

#[test]
fn what_is_no_store_of_this_version_is_told_apart() {
    let place = Place::new();
    loligo(&["ls", place.name()]).fails(2, "there is no such file");
    std::fs::write(&place.path, vec![0; 8 << 20]).unwrap();
    loligo(&["ls", place.name()]).fails(
        2,
        "no store here yet; make an empty one: loligo store init ",
    );
    std::fs::write(&place.path, "no store").unwrap();
    loligo(&["ls", place.name()]).fails(2, "too short to be one");
    std::fs::write(&place.path, vec![b'a'; 8 << 20]).unwrap();
    loligo(&["ls", place.name()]).fails(2, "this is not a Loligo store");

    let place = Place::full(true);
    let whole = std::fs::read(&place.path).unwrap();
    let with = |change: fn(&mut Vec<u8>)| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        std::fs::write(&place.path, bytes).unwrap();
        place.name()
    };
    let newer = with(|bytes| [0, 32 << 10].into_iter().for_each(|at| bytes[at + 8] = 99));
    for command in ["inspect", "ls", "verify"] {
        loligo(&[command, newer]).fails(2, "the store has format version 99, this program");
    }
    loligo(&["init", newer]).fails(2, "another format version");
    let older = with(|bytes| [0, 32 << 10].into_iter().for_each(|at| bytes[at + 8] = 3));
    for command in ["inspect", "ls", "verify"] {
        loligo(&[command, older]).fails(2, "an older Loligo wrote it, in a format that");
    }
    loligo(&["init", older]).fails(2, "a Loligo store here; nothing was written");
    let cut = with(|bytes| bytes.truncate(9 << 20));
    loligo(&["inspect", cut]).fails(2, "it was cut");
    let damaged = with(|bytes| [0, 32 << 10].into_iter().for_each(|at| bytes[at + 30] ^= 1));
    loligo(&["inspect", damaged]).fails(2, "loligo store init --force");
    // One copy of the superblock, the log's and the journal's is enough.
    let half = with(|bytes| bytes[30] ^= 1);
    loligo(&["verify", half]).ok();
    assert_eq!(place.urls(), ALL);
}

#[test]
fn a_checkpoint_that_is_damaged_costs_a_scan() {
    let place = Place::full(true);
    let said = loligo(&["inspect", place.name(), "--json"]).ok().json();
    let at = said["checkpoint"]["offset"].as_u64().unwrap() as usize + 4096;
    let mut bytes = std::fs::read(&place.path).unwrap();
    bytes[at + 100] ^= 1;
    std::fs::write(&place.path, bytes).unwrap();
    let said = loligo(&["inspect", place.name(), "--json"]).ok().json();
    assert!(said["checkpoint"]["error"].is_string(), "{said}");
    assert!(said["start"]["scan_bytes"].as_u64().unwrap() > 0);
    assert_eq!(place.urls(), ALL);
}

#[test]
fn secrets_are_not_shown() {
    let place = Place::full(true);
    let bytes = std::fs::read(&place.path).unwrap();
    // See docs/format.md: the secret follows state, uuid and epoch.
    let secret: String = bytes[40..56]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    for arguments in [
        &["inspect", place.name()][..],
        &["inspect", "--json", place.name()],
    ] {
        let said = loligo(arguments).ok();
        assert!(!said.text.contains(&secret));
        assert!(!said.text.contains("secret"));
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let place = Place::full(true);
    let mut child = Command::new(env!("CARGO_BIN_EXE_loligo"))
        .args(["store", "get", place.name(), "http://h/large"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_store_that_has_gone_round_is_well() {
    for cleanly in [true, false] {
        let place = Place::empty();
        let filler = Filler::open(&place.path);
        for round in 0..60 {
            filler.put_large(&format!("http://h/large{round}"), &large(), 30_000);
            for n in 0..50 {
                filler.put(
                    &format!("http://h/{round}/{n}"),
                    60,
                    &vec![b'x'; 100 * n + 5000],
                );
            }
        }
        filler.settle();
        if cleanly {
            filler.close();
        }
        let said = loligo(&["verify", place.name(), "--json"]).ok().json();
        let listed = place.ls();
        assert_eq!(said["objects"], listed.len(), "{said}");
        assert!(
            listed.len() > 500 && listed.len() < 3060,
            "{}",
            listed.len()
        );
        let incomplete = listed
            .iter()
            .filter(|line| line["complete"] == false)
            .count();
        assert_eq!(said["incomplete"], incomplete, "{said}");
    }
}

#[test]
fn a_store_of_another_policy_is_taken_as_it_is() {
    let settings = store::Settings {
        replacement: "gdsf".parse().unwrap(),
        ..store::Settings::default()
    };
    for cleanly in [true, false] {
        let place = Place::empty();
        let filler = Filler::open_with(&place.path, &settings);
        filler.put("http://h/a", 60, b"a");
        filler.put("http://h/b", 60, b"b");
        filler.put_large("http://h/large", &large(), 30_000);
        filler.settle();
        if cleanly {
            filler.close();
        }
        assert_eq!(place.urls(), ["http://h/a", "http://h/b", "http://h/large"]);
        loligo(&["rm", place.name(), "http://h/a"]).ok();
        assert_eq!(place.urls(), ["http://h/b", "http://h/large"]);
        loligo(&["verify", place.name()]).ok();
        let said = loligo(&["inspect", place.name(), "--json"]).ok().json();
        assert_eq!(said["policy"], "ordered");
        assert_eq!(said["start"]["scan_bytes"] == 0, cleanly);
        Filler::open_with(&place.path, &settings).close();
        assert_eq!(place.urls(), ["http://h/b", "http://h/large"]);
    }
}
