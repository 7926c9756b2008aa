//! Screens as text, from states after keys and answers.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::thread;

use expect_test::expect;
use proxy::live::OriginRow;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use super::*;
use crate::top::tables::Kind;

fn live() -> Live {
    let ranked = |name: &str, requests: u64, misses: u64, bytes: u64, over: u64| json!({ "name": name, "requests": requests, "misses": misses, "bytes": bytes, "share": 0.25, "over": over });
    let requests = [
        ranked("www.example:80", 4000, 120, 9_000_000, 0),
        ranked("img.example", 90, 3, 1 << 32, 7),
    ];
    let document = json!({
        "version": "0.1.0", "phase": "running", "uptime_s": 7260.5, "workers": 2,
        "connections_open": 1200, "connections_max": 10000,
        "now": { "requests_per_s": 12345.6, "response_bytes_per_s": 1.2e8, "errors_per_s": 0.4,
                 "disk_reads_per_s": 400.0, "disk_writes_per_s": 12.0, "disk_write_bytes_per_s": 3.3e6,
                 "handshakes": { "full_per_s": 5.0, "resumed_per_s": 15.0, "failed_per_s": 0.5 } },
        "minute": {
            "seconds": 60.0, "hit_ratio": { "documents": 0.632, "bytes": 0.41 },
            "latency_us": { "mean": 900.0, "p50": 84.0, "p90": 500.0, "p99": 12000.0 },
            "protocols": [
                { "protocol": "HTTP/1.1", "tls": "none", "session": "none", "requests_per_s": 3000.0, "share": 0.25, "connections_open": 700 },
                { "protocol": "HTTP/1.1", "tls": "TLSv1.3", "session": "full", "requests_per_s": 3000.0, "share": 0.25, "connections_open": 300 },
                { "protocol": "HTTP/2", "tls": "TLSv1.2", "session": "full", "requests_per_s": 3000.0, "share": 0.25, "connections_open": 100 },
                { "protocol": "HTTP/2", "tls": "TLSv1.3", "session": "resumed", "requests_per_s": 3000.0, "share": 0.25, "connections_open": 100 },
            ],
            "classes": [
                { "name": "memory-hit", "requests_per_s": 9000.0, "share": 0.73, "response_bytes_per_s": 9e7,
                  "latency_us": { "p50": 20.0, "p99": 300.0 } },
                { "name": "tunnel", "requests_per_s": 1.5, "share": 0.0, "response_bytes_per_s": 10.0, "latency_us": null },
                { "name": "miss", "requests_per_s": 3300.0, "share": 0.27, "response_bytes_per_s": 3e7,
                  "latency_us": { "p50": 3000.0, "p99": 20000.0 } },
            ],
            "stages": [
                { "name": "dns", "requests_per_s": 3.0, "p50_us": 10.0, "p99_us": 40000.0 },
                { "name": "server-reply", "requests_per_s": 3300.0, "p50_us": 2500.0, "p99_us": 19000.0 },
            ],
        },
        "origins": {
            "are_named": true,
            "rows": [
                { "name": "http://dead:80", "requests": 5, "failures": 5, "p50_us": null, "p99_us": null },
                { "name": "http://slow:80", "requests": 50, "failures": 1, "p50_us": 90000.0, "p99_us": 2.5e6 },
                { "name": "http://fast:80", "requests": 9000, "failures": 0, "p50_us": 400.0, "p99_us": 900.0 },
            ],
            "rest": { "name": "other", "requests": 3, "failures": 0, "p50_us": 1000.0, "p99_us": 1000.0 },
        },
        "disk": { "reads_under_way": 12, "reads_waiting": 3, "writes_under_way": 2,
                  "stores": [{ "path": "/s", "is_paused": false, "is_aside": false }] },
        "cpu_cores": 1.43, "resident_bytes": 851_443_712,
        "top": {
            "hosts": { "by_requests": requests, "by_misses": [ranked("www.example:80", 4000, 120, 9_000_000, 0)], "by_bytes": [] },
            "urls": { "by_requests": [ranked("http://www.example:80/a\u{1b}[2Jb", 1, 1, 1, 0)], "by_misses": [], "by_bytes": [] },
        },
        "trend": { "step_s": 1, "requests_per_s": [0.0, 100.0, 200.0, 400.0, 800.0], "hits_per_s": [] },
    });
    serde_json::from_value(document).unwrap()
}

fn state() -> State {
    let mut state = State::new("http://127.0.0.1:3129".to_owned());
    state.answered(Ok(live()));
    state
}

#[test]
fn servers_behind_names_have_a_tab_where_there_are_some() {
    let mut live = live();
    let server = |server: &str, state: &str, backup: bool, why: Option<&str>| {
        json!({ "server": server, "state": state, "why": why, "backup": backup, "weight": 1, "in_flight": 3, "requests": 90210,
            "failures": 12, "ejections": 1 })
    };
    let app = json!([{ "name": "app", "balance": "hash-url", "servers": [
        server("http://10.0.0.1:8080", "up", false, None),
        server("http://10.0.0.2:8080", "unreachable", false, Some("connections could not be made")),
        server("http://10.0.1.9", "up", true, None),
    ] }]);
    live.upstreams = serde_json::from_value(app).unwrap();
    let mut state = state();
    assert!(!screen(&state, 90, 24).contains("upstreams"));
    state.answered(Ok(live));
    state.pressed(Key::Char('6'));
    assert_eq!(state.shown, Kind::Upstreams);
    expect![[r#"
        Loligo 0.1.0  http://127.0.0.1:3129  running for 2 h 1 min  2 workers
        req/s 12,346    hits 63.2 %     of bytes 41.0 % p50 84 us       p99 12.0 ms
        sent/s 114 MiB  errors/s 0.4    clients 1,200   CPUs 1.43       RSS 812 MiB
        HTTP/2 50.0 %   TLS 75.0 %      h2 clients 200  full/s 5.0      resumed/s 15.0
        disk reads 12 + 3 waiting       writes 2        reads/s 400     write/s 3.15 MiB
         hosts   keys   origins   classes   stages   upstreams
        server v                                           state  now  requests  failures  put out
        app http://10.0.0.1:8080                              up    3       90k        12        1
        app http://10.0.0.2:8080                     unreachable    3       90k        12        1
        app http://10.0.1.9                          up (backup)    3       90k        12        1




        Counts since the start; now: requests on their way. http://10.0.0.2:8080: connections
        could not be made.
        q quit   tab or arrows: table   s sort   p pause   ? help
    "#]]
    .assert_eq(&screen(&state, 90, 17));
    state.pressed(Key::Next);
    assert_eq!(state.shown, Kind::Hosts, "there is no cluster");
    state.pressed(Key::Previous);
    assert_eq!(state.shown, Kind::Upstreams);
    // The table disappears with the upstreams.
    state.answered(Ok(self::live()));
    assert_eq!(state.shown, Kind::Origins);
}

/// Like `live`, for a front of a cluster.
fn of_front() -> Live {
    let member = |name: &str, state: &str, lag_ms: Option<u64>, of: [u64; 3]| {
        let live = json!({ "name": name, "state": state, "trusted": state != "away", "since_s": 7300, "lag_ms": lag_ms,
            "hits": { "true": of[0], "false": of[1], "stale": of[2] },
            "pushes": { "stored": 812, "policy": 3, "size": 4, "lost": 1 }, "requests_per_s": 431 });
        serde_json::from_value(live).unwrap()
    };
    let mut live = live();
    live.cluster = Some(live::Cluster {
        name: "front".to_owned(),
        front: true,
        pushes: true,
        purges: live::Purges {
            told: 1200,
            waiting: 1,
            away: 2,
        },
        members: vec![
            member("n1", "up", Some(640), [123_456, 12, 7]),
            member("n2", "away", Some(61_000), [9, 0, 0]),
            member("n\u{1b}3", "catching-up", None, [0, 99, 0]),
        ],
    });
    live
}

/// The screen, lines without the blanks at their end.
fn screen(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw::draw(state, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let lines = buffer.content().chunks(usize::from(width));
    let text = |cells: &[ratatui::buffer::Cell]| -> String {
        cells.iter().map(ratatui::buffer::Cell::symbol).collect()
    };
    let lines: Vec<String> = lines
        .map(|cells| text(cells).trim_end().to_owned() + "\n")
        .collect();
    lines.concat()
}

#[test]
fn a_screen_of_eighty_by_twenty_four_has_all_of_it() {
    expect![[r#"
        Loligo 0.1.0  http://127.0.0.1:3129  running for 2 h 1 min  2 workers
        req/s 12,346    hits 63.2 %     of bytes 41.0 % p50 84 us       p99 12.0 ms
        sent/s 114 MiB  errors/s 0.4    clients 1,200   CPUs 1.43       RSS 812 MiB
        HTTP/2 50.0 %   TLS 75.0 %      h2 clients 200  full/s 5.0      resumed/s 15.0
        disk reads 12 + 3 waiting       writes 2        reads/s 400     write/s 3.15 MiB
        requests a second, the last 5 s, at most 800
                                                                                       █
                                                                                      ▄█
                                                                                    ▃▆██
         hosts   keys   origins   classes   stages
        host                                   requests v    misses     bytes      share
        www.example:80                              4,000       120  8.58 MiB     25.0 %
        img.example                                    90         3  4.00 GiB  <= 25.0 %









        By requests. Counts fade by half in ten minutes; share of all.
        q quit   tab or arrows: table   s sort   p pause   ? help
    "#]]
    .assert_eq(&screen(&state(), 80, 24));
}

#[test]
fn each_table_has_its_rows_and_is_sorted_by_s() {
    let mut state = state();
    let first = |state: &State| {
        let screen = screen(state, 80, 24);
        let at = screen
            .lines()
            .position(|line| line.contains("classes"))
            .unwrap();
        let rows = screen.lines().skip(at + 2).take(4);
        let names = rows.map(|line| line.split_whitespace().next().unwrap_or("").to_owned());
        names.collect::<Vec<_>>()
    };
    state.pressed(Key::Char('3'));
    assert_eq!(state.shown, Kind::Origins);
    // Origins that never answered count as the slowest; the sum of the others comes last.
    assert_eq!(
        first(&state),
        [
            "http://dead:80",
            "http://slow:80",
            "http://fast:80",
            "other"
        ]
    );
    state.pressed(Key::Char('s'));
    state.pressed(Key::Char('s'));
    state.pressed(Key::Char('s'));
    assert_eq!(first(&state)[0], "http://fast:80", "by requests");
    state.pressed(Key::Next);
    assert_eq!(first(&state)[..3], ["memory-hit", "tunnel", "miss"]);
    state.pressed(Key::Char('s'));
    state.pressed(Key::Char('s'));
    assert_eq!(first(&state)[0], "miss", "by p50");
    state.pressed(Key::Next);
    state.pressed(Key::Char('s'));
    assert_eq!(first(&state)[..2], ["server-reply", "dns"]);
    state.pressed(Key::Next);
    assert_eq!(state.shown, Kind::Hosts);
    state.pressed(Key::Char('s'));
    let misses = screen(&state, 80, 24);
    assert!(
        misses.contains("misses v") && !misses.contains("img.example"),
        "{misses}"
    );
    state.pressed(Key::Previous);
    assert_eq!(state.shown, Kind::Stages);
}

#[test]
fn a_front_has_a_table_of_the_other_members() {
    let mut state = State::new("http://127.0.0.1:3129".to_owned());
    state.answered(Ok(of_front()));
    state.pressed(Key::Char('6'));
    expect![[r#"
        Loligo 0.1.0  http://127.0.0.1:3129  running for 2 h 1 min  2 workers
        req/s 12,346    hits 63.2 %     of bytes 41.0 % p50 84 us       p99 12.0 ms
        sent/s 114 MiB  errors/s 0.4    clients 1,200   CPUs 1.43       RSS 812 MiB
        HTTP/2 50.0 %   TLS 75.0 %      h2 clients 200  full/s 5.0      resumed/s 15.0
        disk reads 12 + 3 waiting       writes 2        reads/s 400     write/s 3.15 MiB
        requests a second, the last 5 s, at most 800
                                                                                                 █
                                                                                                ▄█
                                                                                              ▃▆██
         hosts   keys   origins   classes   stages   cluster
        member v                   state     lag  hits  false  stale  pushed  refused  lost  req/s
        n1                        up 2 h  640 ms  123k     12      7     812        7     1    431
        n2                      away 2 h  61.0 s     9      0      0     812        7     1      -
        n�3              catching-up 2 h       -     0     99      0     812        7     1    431







        This is front, a front that pushes what it fetches. Purges: 1,200 told, 1 wait, 2 while a
        member was away. Counts since the start. Lag: how old is what is known of what it holds.
        q quit   tab or arrows: table   s sort   p pause   ? help
    "#]]
    .assert_eq(&screen(&state, 90, 24));
    let first = |state: &State| {
        let screen = screen(state, 90, 24);
        let mut rows = screen
            .lines()
            .skip_while(|line| !line.starts_with("member"));
        let row = rows.nth(1).unwrap();
        row.split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(first(&state), "n1");
    state.pressed(Key::Char('s'));
    assert_eq!(first(&state), "n\u{fffd}3", "nothing is known of it");
    state.pressed(Key::Char('s'));
    assert_eq!(first(&state), "n1", "by hits");
    state.pressed(Key::Char('s'));
    assert_eq!(first(&state), "n\u{fffd}3", "by false hits");
    // The table disappears with the cluster.
    state.answered(Ok(live()));
    assert_eq!(state.shown, Kind::Origins);
    state.pressed(Key::Char('6'));
    assert_eq!(state.shown, Kind::Origins);
    let said = text::text("u", &of_front());
    assert!(
        said.contains("\ncluster\nThis is front, a front that pushes what it fetches."),
        "{said}"
    );
    assert!(!text::text("u", &live()).contains("cluster"));
}

#[test]
fn a_name_that_clients_chose_is_shown_and_does_nothing() {
    let mut state = state();
    state.pressed(Key::Char('2'));
    let shown = screen(&state, 80, 24);
    assert!(shown.contains("/a\u{fffd}[2Jb"), "{shown}");
    assert!(!shown.contains('\u{1b}'));
    assert!(!text::text("u", &live()).contains('\u{1b}'));
}

#[test]
fn any_size_can_be_drawn() {
    let mut state = state();
    state.answered(Ok(of_front()));
    for helps in [false, true] {
        state.helps = helps;
        for kind in Kind::ALL {
            state.shown = kind;
            for (width, height) in [
                (1, 1),
                (39, 24),
                (40, 10),
                (41, 12),
                (60, 17),
                (80, 18),
                (200, 60),
                (500, 200),
            ] {
                let shown = screen(&state, width, height);
                let wants_more = width < 40 || height < 10;
                // The help may cover the title of the screen, but its own title is visible.
                let head = if helps {
                    " loligo top "
                } else {
                    "Loligo 0.1.0"
                };
                assert_eq!(
                    shown.contains(head),
                    !wants_more,
                    "{width} x {height}:\n{shown}"
                );
            }
        }
    }
}

#[test]
fn scrolling_stops_at_the_ends() {
    let mut state = state();
    let mut many = live();
    many.origins.rows = (0..100)
        .map(|n| OriginRow {
            name: format!("origin-{n:02}"),
            p99_us: Some(f64::from(1000 - n)),
            ..OriginRow::default()
        })
        .collect();
    state.answered(Ok(many));
    state.pressed(Key::Char('3'));
    assert!(screen(&state, 80, 24).contains("origin-00"));
    state.pressed(Key::Down(1));
    assert!(!screen(&state, 80, 24).contains("origin-00"));
    state.pressed(Key::Down(10_000));
    let last = screen(&state, 80, 24);
    assert!(
        last.contains("origin-99") && last.contains("other"),
        "{last}"
    );
    state.pressed(Key::Home);
    assert!(screen(&state, 80, 24).contains("origin-00"));
}

#[test]
fn a_proxy_that_goes_away_is_said_and_comes_back() {
    let mut state = state();
    state.answered(Err(
        "127.0.0.1:3129 does not answer: connection refused".to_owned()
    ));
    state.answered(Err(
        "127.0.0.1:3129 does not answer: connection refused".to_owned()
    ));
    let shown = screen(&state, 80, 24);
    assert!(
        shown.contains("connection refused (2 times); trying again"),
        "{shown}"
    );
    // The last figures stay.
    assert!(shown.contains("12,346"), "{shown}");
    state.answered(Ok(live()));
    assert!(!screen(&state, 80, 24).contains("trying again"));
}

#[test]
fn a_pause_holds_the_figures() {
    let mut state = state();
    state.pressed(Key::Char('p'));
    let mut other = live();
    other.now.as_mut().unwrap().requests_per_s = 7.0;
    state.answered(Ok(other.clone()));
    let shown = screen(&state, 80, 24);
    assert!(
        shown.contains("12,346") && shown.contains("  paused"),
        "{shown}"
    );
    state.pressed(Key::Char('p'));
    state.answered(Ok(other));
    assert!(screen(&state, 80, 24).contains("req/s 7.0"));
}

#[test]
fn help_comes_and_goes_and_q_ends() {
    let mut state = state();
    state.pressed(Key::Char('?'));
    assert!(screen(&state, 80, 24).contains("choose the table"));
    state.pressed(Key::Escape);
    assert!(!screen(&state, 80, 24).contains("choose the table") && !state.is_over);
    state.pressed(Key::Char('q'));
    assert!(state.is_over);
}

#[test]
fn where_names_are_not_counted_it_begins_with_origins_and_says_how() {
    let mut state = State::new("u".to_owned());
    assert!(screen(&state, 80, 24).contains("asking..."));
    let mut unnamed = live();
    unnamed.top = None;
    state.answered(Ok(unnamed));
    assert_eq!(state.shown, Kind::Origins);
    state.pressed(Key::Char('1'));
    assert!(screen(&state, 80, 24).contains("set top = true"));
}

#[test]
fn a_store_that_stores_nothing_is_told() {
    let mut halted = live();
    halted.disk.stores[0].is_paused = true;
    let mut state = State::new("u".to_owned());
    state.answered(Ok(halted));
    assert!(screen(&state, 80, 24).contains("NOT STORING 1 of 1"));
}

#[test]
fn as_text_it_has_every_table() {
    let said = text::text("http://127.0.0.1:3129", &live());
    for part in [
        "req/s 12,346",
        "hits 63.2 %",
        "\nhosts\n",
        "\nstages\n",
        "2.50 s  http://slow:80",
        "19.0 ms  server-reply",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
}

/// Answers one question with these bytes.
fn served(answer: &'static [u8]) -> Result<Live, String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::parse(&listener.local_addr().unwrap().to_string()).unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(answer).unwrap();
        String::from_utf8(head).unwrap()
    });
    let asked = place.ask();
    let head = server.join().unwrap();
    assert!(
        head.starts_with("GET /live HTTP/1.1\r\nHost: 127.0.0.1:"),
        "{head}"
    );
    asked
}

#[test]
fn a_document_is_read_and_a_foreign_one_refused() {
    let live = served(
        b"HTTP/1.1 200 OK\r\n\r\n{\"version\":\"9\",\"phase\":\"running\",\"uptime_s\":1,\"workers\":1,\"origins\":{},\"what\":[\"is to come\", 1234]}",
    )
    .unwrap();
    assert_eq!(live.version, "9");
    let said = served(b"HTTP/1.1 200 OK\r\n\r\n{}").unwrap_err();
    assert!(
        said.contains("something else than a Loligo's /live"),
        "{said}"
    );
    // The address of a closed listener has no listener.
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let said = Place::parse(&closed.to_string())
        .unwrap()
        .ask()
        .unwrap_err();
    assert!(said.contains("does not answer"), "{said}");
}
