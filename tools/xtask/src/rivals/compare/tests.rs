//! The report of a comparison that nobody had to run.

use polymix::pages::paper::{Point, Tested};

use super::book::{Book, Extra};
use super::contest::{Measured, Outcome, Run};
use super::disk::Speed;
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

fn tested(rate: f64, hit_ms: f64) -> Tested {
    Tested {
        name: String::new(),
        point: Point {
            rate,
            response_ms: 30.0,
            miss_ms: 60.0,
            hit_ms,
            hit_percent: 57.5,
            offered_percent: 58.0,
        },
        reply_rate: rate - 1.0,
        errors_percent: 0.0,
        length_s: 36.0,
        phases: "top1".into(),
    }
}

pub fn measured(hit_ms: f64, objection: Option<&str>) -> Measured {
    Measured {
        phase: "top1".into(),
        planned_rate: 100.0,
        reply_rate: 99.0,
        response: summary(1000, 30.0),
        hit: summary(500, hit_ms),
        miss: summary(400, 60.0),
        first_byte: summary(1000, 20.0),
        offered_percent: 58.0,
        repeated_percent: 59.5,
        cachable_percent: 80.25,
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
        tested: tested(100.0, hit_ms),
        left_out: vec!["servers think 50 ms".to_owned()],
        objection: objection.map(str::to_owned),
        generator: Vec::new(),
    }
}

fn run(server: &str, rate: f64, mut outcome: Outcome) -> Run {
    if let Outcome::Measured(measured) = &mut outcome {
        measured.tested = tested(rate, measured.hit.mean_ms);
    }
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
        disk: Speed::Slow,
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
    let text = comparison().text(&Extra::default());
    for part in [
        "mean response 4000 ms",
        "squid-ufs at 200/s failed: fell over",
        "loligo at 50/s: 3 times stale",
        "left out of the specification at 50/s: servers think 50 ms",
        "cachable %",
        "80.2        59.5       58.0",
        "loligo at 50/s: such as stale: http://a/b (Get, Basic)",
        "offered %  LRU %  DHR %",
        "58.0   57.8   57.5",
        "7.50        80.2",
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
    let text = comparison.text(&Extra::default());
    for part in [
        "unclear: mean response 4000 ms",
        "squid-ufs at 100/s: the robots were late by 90.0 ms on average",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn the_papers_tables_stand_beside_ours() {
    let text = words(&paper000::laid_out(&[], &comparison()).tables);
    for part in [
        // Open, close, delete, read and write of the paper's Squid at 100/s, each 1000 requests.
        "\npaper: Squid-2.4 100 771 771 380 563 1371\n",
        // Of the low-end machine it does not say how many requests there were, nor for all of the high-end one.
        "\nlow-end 10 1830968 1830967 1002896 534704 255763 4318921 1575083\n",
        "\nlow-end 120 5224545 5224545 2698164 3806434 1906340 9781763 3573648\n",
        "\nhigh-end 170 6683492 6683492 3697432 4514545 2193743 12871436 4638126\n",
        "\nhigh-end 250 8800143 8800143 5718264 5683479 2748622 19635487 7256498\n",
        "\npaper: UNIFIED 120~130 250~300\n",
        "\nhere: loligo at least 100 -\n",
        "\nhere: squid-ufs 50~100 -\n",
        "\nhit time 6 to 22 2 to 9 10.0 to 225.0\n",
        "\npeak, ours over Squid's 2.27 1.57 2.0\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert!(!text.contains("\nlow-end 150 ") && !text.contains("\nhigh-end 50 "));
}

#[test]
fn table_3_of_paper_000_has_both_disks() {
    let fast = Comparison {
        disk: Speed::Fast,
        runs: vec![run("squid-ufs", 400.0, Outcome::Failed("fell over".into()))],
        ..comparison()
    };
    let text = words(&paper000::laid_out(&[comparison()], &fast).tables);
    for part in [
        "\nhere: loligo at least 100 -\n",
        "\nhere: squid-ufs 50~100 below 400\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
}

#[test]
fn a_run_that_asked_for_nothing_is_no_figure() {
    let taken = |rate| {
        run(
            "squid-ufs",
            rate,
            Outcome::NotAsked("its port is taken".into()),
        )
    };
    let fast = Comparison {
        disk: Speed::Fast,
        runs: vec![taken(25.0), taken(50.0)],
        ..comparison()
    };
    assert!(!fast.runs[0].was_asked());
    let text = words(&paper000::laid_out(&[comparison()], &fast).tables);
    assert!(text.contains("\nhere: squid-ufs 50~100 -\n"), "{text}");
    let text = fast.text(&Extra::default());
    let told = "squid-ufs at 25/s was asked for nothing, so this is no figure: its port is taken";
    assert!(text.contains(told), "{text}");
}

/// The comparison as if its runs had been a search.
fn searched() -> Comparison {
    let peak = |server: &str, carried, refused| PeakOf {
        server: server.into(),
        peak: peak::Peak { carried, refused },
    };
    Comparison {
        peaks: vec![
            peak("loligo", Some(100.0), None),
            peak("squid-ufs", Some(50.0), Some(100.0)),
        ],
        ..comparison()
    }
}

/// Tables as text with one space between cells, whatever their widths.
fn words(tables: &[page::Table]) -> String {
    let text: String = tables.iter().map(page::Table::text).collect();
    let lines = text.lines();
    let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.fold("\n".to_owned(), |all, line| all + &line + "\n")
}

#[test]
fn one_search_gives_all_of_paper_004() {
    let laid_out = paper004::laid_out(&searched(), 50.0);
    let text = words(&laid_out.tables);
    for part in [
        "\nhere: loligo at 50/s 49.00 30.00 60.00 2.00 57.50 0.00 0.010 top1\n",
        "here: squid-ufs at 50/s ",
        "Table 6.2: (2) Squid 2.4 stable 6 139.96 ",
        "\npeak request rate (req/s) 60 140 400 450 100 50\n",
        "\ncompared to (2) (req/s) - - +260 +310 -40 -90\n",
        "Table 6.6: by request rate, loligo (carried up to 100/s)",
        "Table 6.6: by request rate, squid-ufs (carried up to 50/s)",
        // Past the peak the curve goes on.
        "\n100 30.00 60.00 900.00 57.50 58.00\n",
        "\n450 2630.19 4720.21 1039.02 52.11\n",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    assert_eq!(laid_out.plots.len(), 4);
    // Rates that only one proxy was run at are not compared; a proxy without runs has no curve.
    let text: String = paper004::laid_out(&searched(), 75.0).tables[0].text();
    assert!(!text.contains("here:"), "{text}");
    let begun = Comparison {
        runs: Vec::new(),
        peaks: Vec::new(),
        ..comparison()
    };
    assert!(paper004::laid_out(&begun, 50.0).plots.is_empty());
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
    let layout = |_: &[Comparison], this: &Comparison| paper004::laid_out(this, 50.0);
    let mut book = Book::new("t", &layout, &conditions);
    book.begin(searched());
    book.write().unwrap();
    let page = std::fs::read_to_string(html).unwrap();
    assert!(page.matches("<svg").count() >= 8 && page.contains("<polyline"));
    for part in [
        "Figure 6.1: request rate versus response time, miss time and hit time, loligo",
        "Figure 6.2: request rate versus hit ratio, squid-ufs",
        "Table 6.6 as printed",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(json["runs"][4]["outcome"]["failed"], "fell over");
    assert_eq!(json["runs"][0]["outcome"]["measured"]["replies"], 1000);
}

#[test]
fn two_comparisons_make_one_report() {
    let dir = tempfile::tempdir().unwrap();
    let (json, html) = (dir.path().join("a.json"), dir.path().join("a.html"));
    let conditions = Conditions {
        json: Some(json.clone()),
        html: Some(html.clone()),
        ..conditions()
    };
    let mut book = Book::new("both", &paper000::laid_out, &conditions);
    for (title, disk) in [
        ("on the slow one", Speed::Slow),
        ("on the fast one", Speed::Fast),
    ] {
        book.begin(Comparison {
            title: title.into(),
            disk,
            ..comparison()
        });
    }
    book.write().unwrap();
    let text = book.text_of_part();
    let both = |line: &str| line.matches("at least 100").count() == 2;
    assert!(text.lines().any(both), "{text}");
    let page = std::fs::read_to_string(html).unwrap();
    for part in [
        "<h1>both</h1>",
        "<h2>on the slow one</h2>",
        "<h2>on the fast one</h2>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    assert_eq!(
        (&json[0]["disk"], &json[1]["disk"]),
        (&"slow".into(), &"fast".into())
    );
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
