//! Replays through a tiny proxy that is right, or wrong in one way.

use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use replay::{Ask, Fault, Origin, Report, Settings, Way, play};
use wire::{Connection, Request, Response};

/// What the proxy does with answers.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    /// Keeps all.
    Keep,
    /// Keeps all, and says of misses that they were hits.
    Lie,
    /// Keeps nothing.
    Pass,
    /// Keeps all; one byte of what it kept is another.
    Spoil,
    /// Keeps all, under the name without what is behind the last slash and dot: the version is lost.
    Confuse,
    /// Answers 503 to all but the first so many.
    Refuse(u64),
    /// Sends half of what it kept, and closes.
    Cut,
    /// Closes each connection after an answer, without saying so.
    Close,
    /// Answers by itself.
    Ignore,
}

struct Proxy {
    does: Does,
    origin: SocketAddr,
    kept: Mutex<HashMap<String, (String, Vec<u8>)>>,
    asked: AtomicU64,
}

impl Proxy {
    fn start(does: Does, origin: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let proxy = Arc::new(Proxy {
            does,
            origin,
            kept: Mutex::default(),
            asked: AtomicU64::new(0),
        });
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (proxy, stream) = (proxy.clone(), stream.unwrap());
                std::thread::spawn(move || proxy.converse(stream));
            }
        });
        address
    }

    fn converse(&self, stream: TcpStream) -> Option<()> {
        let mut client = Connection::new(stream);
        loop {
            let request: Request = client.head().ok()?;
            let asked = self.asked.fetch_add(1, Ordering::SeqCst);
            match self.does {
                Does::Refuse(after) if asked >= after => {
                    let text = "HTTP/1.1 503 No\r\nContent-Length: 2\r\n\r\nno";
                    client.send(text.as_bytes()).ok()?;
                    continue;
                }
                Does::Ignore => {
                    let text = "HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n";
                    client.send(text.as_bytes()).ok()?;
                    continue;
                }
                _ => {}
            }
            self.answer(&mut client, &request)?;
            if self.does == Does::Close {
                return None;
            }
        }
    }

    fn answer(&self, client: &mut Connection<TcpStream>, request: &Request) -> Option<()> {
        let name = match self.does {
            Does::Confuse => request.target.split('.').next().map(str::to_owned)?,
            _ => request.target.clone(),
        };
        let kept = self.kept.lock().unwrap().get(&name).cloned();
        let is_hit = kept.is_some();
        let (tag, mut body) = match kept {
            Some(kept) => kept,
            None => self.fetch(&request.target),
        };
        if !is_hit && self.does != Does::Pass {
            let mut all = self.kept.lock().unwrap();
            all.insert(name, (tag.clone(), body.clone()));
        }
        let mut length = body.len();
        if is_hit && length > 0 {
            match self.does {
                Does::Spoil => body[length / 2] ^= 1,
                Does::Cut => length = body.len() / 2,
                _ => {}
            }
        }
        let says = if is_hit || self.does == Does::Lie {
            "hit"
        } else {
            "fwd=miss"
        };
        let head = format!(
            "HTTP/1.1 200 OK\r\nETag: {tag}\r\nCache-Status: tiny; {says}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        client.send(head.as_bytes()).ok()?;
        client.send(&body[..length]).ok()?;
        (length == body.len()).then_some(())
    }

    fn fetch(&self, target: &str) -> (String, Vec<u8>) {
        let mut origin = Connection::new(TcpStream::connect(self.origin).unwrap());
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        origin.send(text.as_bytes()).unwrap();
        let head: Response = origin.head().unwrap();
        assert_eq!(head.status, 200);
        let mut body = Vec::new();
        let framing = head.framing("GET").unwrap();
        let mut take = |piece: &[u8]| {
            body.extend_from_slice(piece);
            true
        };
        origin.body(framing, &mut take).unwrap();
        (head.fields.get("etag").unwrap().to_owned(), body)
    }
}

/// Ten objects of 1000 to 1009 bytes, asked for again and again.
fn row(requests: u32) -> impl Iterator<Item = Result<Ask, String>> + Send + 'static {
    (0..requests).map(|n| {
        Ok(Ask {
            object: n % 10,
            server: 0,
            version: 0,
            size_bytes: 1000 + n % 10,
        })
    })
}

fn settings(proxy: SocketAddr, origin: &Origin, requests: u64) -> Settings {
    Settings {
        trace: "row".to_owned(),
        proxy,
        way: Way::Forward {
            authority: origin.address().to_string(),
        },
        world: "w".to_owned(),
        requests,
        object_bytes: 10_045,
        warm: 0,
        connections: 4,
        pace: None,
        timeout: Duration::from_secs(20),
        pids: Vec::new(),
    }
}

/// 100 requests through such a proxy, of which the first `warm` fill it.
fn through(does: Does, warm: u64) -> Result<Report, Fault> {
    let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(does, origin.address());
    let settings = Settings {
        warm,
        ..settings(proxy, &origin, 100)
    };
    play(&settings, &origin, row(100), &|| false, &mut |_| {})
}

#[test]
fn what_the_origin_did_not_see_was_a_hit_whatever_is_said() {
    for does in [Does::Keep, Does::Lie, Does::Close] {
        let report = through(does, 0).unwrap();
        let counted = &report.counted;
        assert_eq!(
            (counted.requests, counted.failed, counted.wrong),
            (100, 0, 0)
        );
        assert_eq!((counted.hits, counted.misses), (90, 10));
        assert_eq!((counted.hit_bytes, counted.missed_bytes), (90_405, 10_045));
        assert_eq!(
            (counted.origin.requests, counted.origin.bytes),
            (10, 10_045)
        );
    }
    let report = through(Does::Pass, 0).unwrap();
    assert_eq!((report.counted.hits, report.counted.misses), (0, 100));
}

#[test]
fn the_part_that_fills_is_not_counted() {
    let report = through(Does::Keep, 15).unwrap();
    assert_eq!((report.warming.hits, report.warming.misses), (5, 10));
    assert_eq!((report.counted.hits, report.counted.misses), (85, 0));
    assert_eq!(report.counted.origin.bytes, 0);
    assert!((report.object_hit_percent() - 100.0).abs() < 1e-9);
}

#[test]
fn a_wrong_byte_and_a_wrong_version_are_seen() {
    let report = through(Does::Spoil, 0).unwrap();
    assert_eq!((report.wrong(), report.counted.misses), (90, 10));
    assert!(
        report.examples[0].starts_with("WRONG: "),
        "{:?}",
        report.examples
    );

    let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(Does::Confuse, origin.address());
    let mut settings = settings(proxy, &origin, 2);
    settings.way = Way::Reverse {
        host: "a".to_owned(),
    };
    let versions = (0..2).map(|version| {
        Ok(Ask {
            object: 1,
            server: 0,
            version,
            size_bytes: 7,
        })
    });
    let report = play(&settings, &origin, versions, &|| false, &mut |_| {}).unwrap();
    assert_eq!(report.wrong(), 1);
    assert!(report.examples[0].contains("ETag"), "{:?}", report.examples);
}

#[test]
fn what_fails_is_counted_by_reason_and_without_end_it_ends() {
    // One more proves that the proxy asks the origin.
    let report = through(Does::Refuse(31), 0).unwrap();
    assert_eq!(
        (report.counted.failures["status 503"], report.failed()),
        (70, 70)
    );
    assert_eq!(report.counted.hits + report.counted.misses, 30);
    assert_eq!(report.cut_short, None);

    let report = through(Does::Cut, 0).unwrap();
    let cut = "in the body: closed before the end";
    assert_eq!((report.counted.failures[cut], report.wrong()), (90, 0));

    let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(Does::Refuse(1), origin.address());
    let settings = settings(proxy, &origin, 10_000);
    let report = play(&settings, &origin, row(10_000), &|| false, &mut |_| {}).unwrap();
    assert!(report.cut_short.unwrap().contains("in a row failed"));
    assert!(
        report.counted.requests < 1000,
        "{}",
        report.counted.requests
    );
}

#[test]
fn a_proxy_that_does_not_ask_the_origin_is_told_from_one_that_is_not_there() {
    // Waiting for a proxy that is just starting has no use for a test.
    let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(Does::Ignore, origin.address());
    let stop = || true;
    let ignored = play(
        &settings(proxy, &origin, 1),
        &origin,
        row(1),
        &stop,
        &mut |_| {},
    );
    let why = ignored.unwrap_err().to_string();
    assert!(
        why.contains("status 404") && why.contains("--reverse"),
        "{why}"
    );

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let unreachable = play(
        &settings(address, &origin, 1),
        &origin,
        row(1),
        &stop,
        &mut |_| {},
    );
    assert!(matches!(unreachable, Err(Fault::Unreachable(..))));
}

#[test]
fn who_wants_to_stop_gets_a_report_of_what_there_is() {
    let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(Does::Keep, origin.address());
    let mut settings = settings(proxy, &origin, 1_000_000);
    settings.pace = Some(2000.0);
    let told = AtomicU64::new(0);
    let stop = || told.load(Ordering::SeqCst) >= 100;
    let report = play(&settings, &origin, row(1_000_000), &stop, &mut |begun| {
        told.store(begun, Ordering::SeqCst);
    });
    let report = report.unwrap();
    assert_eq!(report.cut_short.as_deref(), Some("interrupted"));
    let counted = report.counted;
    assert!(
        (90..100_000).contains(&counted.requests),
        "{}",
        counted.requests
    );
    assert_eq!(counted.requests, counted.hits + counted.misses);
}

#[test]
fn a_row_that_can_not_be_read_on_is_a_fault() {
    let origin = Origin::bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let proxy = Proxy::start(Does::Keep, origin.address());
    let broken = row(3).chain(std::iter::once(Err("cut off".to_owned())));
    let found = play(
        &settings(proxy, &origin, 4),
        &origin,
        broken,
        &|| false,
        &mut |_| {},
    );
    assert_eq!(found, Err(Fault::Row("cut off".to_owned())));
}
