//! The report of a comparison that nobody had to run.

use super::contest::{Measured, Outcome, Run};
use super::load::Samples;
use super::report::{Comparison, Contestant};
use super::*;

fn summary(count: u64, mean_ms: f64) -> polymix::report::Summary {
    polymix::report::Summary {
        count,
        mean_ms,
        p50_ms: mean_ms,
        p90_ms: mean_ms,
        p99_ms: mean_ms * 3.0,
        max_ms: mean_ms * 9.0,
    }
}

fn measured(hit_ms: f64, objection: Option<&str>) -> Measured {
    Measured {
        phase: "top1".into(),
        planned_rate: 100.0,
        reply_rate: 99.0,
        response: summary(1000, 30.0),
        hit: summary(500, hit_ms),
        miss: summary(400, 60.0),
        first_byte: summary(1000, 20.0),
        offered_percent: 58.0,
        lru_percent: 57.75,
        dhr_percent: 57.5,
        bhr_percent: 50.0,
        dhr_traffic_percent: None,
        bhr_traffic_percent: None,
        replies: 1000,
        errors: 0,
        faults: [("stale".to_owned(), 3)].into(),
        fault_examples: vec!["stale: http://a/b (Get, Basic)".to_owned()],
        condition_ignored: 0,
        cpu_ms_per_reply: 0.12,
        used: Samples::default().between(0.0, 10.0),
        file_pages_bytes: None,
        calls: None,
        queued: summary(1000, 7.5),
        to_store_bytes: 1000.0 * 4505.6,
        lag: summary(1000, 1.0),
        robots_cpu_percent: 1.0,
        origin_cpu_percent: None,
        fill_response_ms: None,
        fill_s: None,
        series: Vec::new(),
        objection: objection.map(str::to_owned),
        generator: Vec::new(),
    }
}

fn run(server: &str, rate: f64, outcome: Outcome) -> Run {
    Run {
        server: server.into(),
        rate,
        watched: false,
        load: [0.5, 0.7],
        seconds: 60.0,
        outcome,
    }
}

fn comparison() -> Comparison {
    let good = |hit_ms| Outcome::Measured(Box::new(measured(hit_ms, None)));
    let bad = Outcome::Measured(Box::new(measured(900.0, Some("mean response 4000 ms"))));
    let contestant = |server: &str| Contestant {
        server: server.into(),
        version: None,
        what: "a store".into(),
    };
    Comparison {
        title: "t".into(),
        command: "cargo xtask rivals compare".into(),
        machine: "m".into(),
        conditions: vec![("disk".into(), "slow".into())],
        advice: Vec::new(),
        proof: None,
        ceilings: Vec::new(),
        contestants: vec![contestant("loligo"), contestant("squid-ufs")],
        runs: vec![
            run("loligo", 50.0, good(2.0)),
            run("loligo", 100.0, good(4.0)),
            run("squid-ufs", 50.0, good(20.0)),
            run("squid-ufs", 100.0, bad),
            run("squid-ufs", 200.0, Outcome::Failed("fell over".into())),
        ],
        peaks: Vec::new(),
    }
}

#[test]
fn the_text_says_who_carried_what_and_what_was_wrong() {
    let text = comparison().text(&[]);
    for part in [
        "mean response 4000 ms",
        "squid-ufs at 200/s failed: fell over",
        "loligo at 50/s: 3 times stale",
        "loligo at 50/s: such as stale: http://a/b (Get, Basic)",
        "offered %  LRU %  DHR %",
        "58.0   57.8   57.5",
        "7.50       58.0",
        "KB to store/reply",
        "load of the machine before and after the runs: 0.5 to 0.7",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn what_the_load_generator_may_be_to_blame_for_is_unclear() {
    let mut late = measured(900.0, Some("mean response 4000 ms"));
    late.generator = vec!["the robots were late by 90.0 ms on average".to_owned()];
    let mut comparison = comparison();
    comparison.runs[3] = run("squid-ufs", 100.0, Outcome::Measured(Box::new(late)));
    let text = comparison.text(&[]);
    for part in [
        "unclear: mean response 4000 ms",
        "squid-ufs at 100/s: the robots were late by 90.0 ms on average",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_papers_tables_stand_beside_ours() {
    let text: String = paper000::tables(&comparison())
        .iter()
        .map(page::Table::text)
        .collect();
    for part in [
        // Open, close, delete, read and write of the paper's Squid at 100/s, each 1000 requests.
        "paper: Squid-2.4         100   771    771     380   563   1371",
        " 100 / -\n",
        " 50 / 100\n",
        "10.0 to 225.0",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_page_has_curves_for_several_rates() {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (dir.path().join("a.json"), dir.path().join("a.html"));
    let conditions = Conditions {
        json: Some(json.clone()),
        html: Some(html.clone()),
        ..conditions()
    };
    comparison().write(&conditions, &[]).unwrap();
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.matches("<svg").count() >= 8 && page.contains("<polyline"));
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["runs"][4]["outcome"]["failed"], "fell over");
    assert_eq!(json["runs"][0]["outcome"]["measured"]["replies"], 1000);
}

fn conditions() -> Conditions {
    use clap::Parser;
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        conditions: Conditions,
    }
    Line::parse_from(["x"]).conditions
}
