//! Random rules and requests: what `loligo explain` says is what becomes of the request.

use std::time::Duration;

use ::proxy::{
    explain::{Asking, Explained, explain},
    plan::{Canned, Edit, FieldFits, FieldIs, How, Plan, Rule, Text, Then, Verdict, When},
};

use crate::harness::{running::own_host_plan, *};

const PLANS: u64 = 16;
const REQUESTS: u64 = 25;

/// Numbers that look random and repeat with their seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = (self.0)
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }

    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

fn when(chance: &mut Chance) -> When {
    let mut when = When::default();
    let mut one = |percent, words: &[&str]| -> Vec<String> {
        match chance.percent(percent) {
            true => vec![chance.of(words).to_owned()],
            false => Vec::new(),
        }
    };
    when.hosts = one(40, &["a.example", "*.example", "b.a.example", "[*]"]);
    when.paths = one(50, &["/a", "/a/b", "*.jpg", "/a/", "*b*"]);
    when.methods = one(15, &["GET", "POST"]);
    when.queries = one(15, &["q", "q=1", "*=2"]);
    if chance.percent(25) {
        let how = match chance.below(3) {
            0 => FieldIs::There(chance.percent(50)),
            _ => FieldIs::One(vec![chance.of(&["*bot*", "x", "b*"]).to_owned()]),
        };
        when.fields = vec![FieldFits {
            name: "user-agent".to_owned(),
            how,
        }];
    }
    if chance.percent(20) {
        let network = chance.of(&["127.0.0.1/32", "127.0.0.0/8", "10.0.0.0/8"]);
        when.clients = vec![network.parse().unwrap()];
    }
    when
}

fn then(chance: &mut Chance, number: usize) -> Then {
    let mut then = Then::default();
    match chance.below(6) {
        0 => then.verdict = Some(Verdict::Allow),
        1 => {
            let words = format!("rule {number} says no");
            then.verdict = Some(Verdict::Deny { words: Some(words) });
        }
        2 => {
            then.verdict = Some(Verdict::Answer(Canned {
                status: 210 + number as u16,
                body: "here".into(),
                content_type: None,
            }));
        }
        3 => {
            let to = Text::parse(&format!("/{number}${{path}}"), false).unwrap();
            then.verdict = Some(Verdict::Redirect { to, status: 307 });
        }
        4 => then.bypass = Some(chance.percent(70)),
        _ => {}
    }
    let is_empty = then.verdict.is_none() && then.bypass.is_none();
    if is_empty || chance.percent(30) {
        let value = format!("{number} of ${{host}}");
        then.response_edits = vec![Edit {
            name: "X-Rule".to_owned(),
            how: How::Set(Text::parse(&value, true).unwrap()),
        }];
        then.request_edits = vec![Edit {
            name: "X-Asked".to_owned(),
            how: How::Set(Text::plain(&number.to_string())),
        }];
    }
    then
}

fn plan(origin: &Origin, chance: &mut Chance) -> Plan {
    let mut plan = own_host_plan(origin);
    let count = 1 + chance.below(12);
    let rule = |number| Rule {
        name: None,
        when: when(chance),
        then: then(chance, number),
    };
    plan.rules = (0..count).map(rule).collect();
    plan
}

/// What explain says, in the words of an answer.
fn expected(explained: &Explained, method: &str) -> String {
    let told = explained.told.as_deref().unwrap_or_default();
    match explained.outcome {
        // The sentence is in the body.
        "denied" if method == "HEAD" => "403 ".to_owned(),
        "denied" => format!("403 {told}"),
        "answered" => told.split(',').next().unwrap().to_owned(),
        "redirected" => told.to_owned(),
        "served" => "200".to_owned(),
        other => panic!("{other}"),
    }
}

fn seen(answer: &Response, outcome: &str) -> String {
    match outcome {
        "denied" => {
            assert!(answer.field("proxy-status").is_some());
            let words = answer.text().lines().find(|it| it.contains("says no"));
            format!("{} {}", answer.status, words.unwrap_or_default().trim())
        }
        "redirected" => format!("{} {}", answer.status, answer.field("location").unwrap()),
        _ => answer.status.to_string(),
    }
}

#[test]
fn what_explain_says_becomes_of_the_request() {
    let origin = Origin::start(|exchange| {
        let asked = exchange.request.field("x-asked").unwrap_or("-").to_owned();
        exchange.send(ok(&[FRESH, &format!("X-Was-Asked: {asked}")], "body"));
    });
    let mut outcomes = std::collections::BTreeMap::new();
    for seed in 0..PLANS {
        let mut chance = Chance(seed);
        let plan = plan(&origin, &mut chance);
        let proxy = Proxy::start(plan.clone());
        for _ in 0..REQUESTS {
            let host = chance.of(&["a.example", "b.a.example", "c", "127.0.0.1", "A.EXAMPLE."]);
            let path = chance.of(&[
                "/", "/a", "/a/b", "/ab", "/x.jpg", "/%61", "/c/../a", "/a//b", "/a/b.jpg",
            ]);
            let query = chance.of(&["", "", "?q", "?q=1", "?x=2&q", "?qq"]);
            let method = chance.of(&["GET", "GET", "HEAD", "POST"]);
            let agent = chance.of(&["", "x", "a bot", "bee"]);
            let mut fields = Vec::new();
            if !agent.is_empty() {
                fields.push(("User-Agent".to_owned(), agent.to_owned()));
            }
            let asking = Asking {
                method: method.to_owned(),
                url: format!("http://{host}{path}{query}"),
                client: "127.0.0.1".parse().unwrap(),
                listener: None,
                fields,
                at: None,
                now: Duration::from_secs(1_700_000_000),
            };
            let explained = explain(&plan, &asking).unwrap();
            let mut lines = vec![format!("Host: {host}")];
            if !agent.is_empty() {
                lines.push(format!("User-Agent: {agent}"));
            }
            if method == "POST" {
                lines.push("Content-Length: 0".to_owned());
            }
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let target = format!("{path}{query}");
            // The second time it may come from memory, on the short way.
            for round in 0..2 {
                let answer = proxy.ask(method, &target, &lines);
                let at = format!(
                    "seed {seed}, {method} {host} {target} {agent:?}, round {round}\n{explained}\n{:#?}",
                    plan.rules
                );
                assert_eq!(
                    seen(&answer, explained.outcome),
                    expected(&explained, method),
                    "{at}"
                );
                let edit = answer
                    .field("x-rule")
                    .map(|value| format!("set X-Rule: {value}"));
                let edits = explained.response_fields.iter();
                // What is said there has the variable's name in place of its value.
                let host = host.trim_end_matches('.').to_ascii_lowercase();
                let edits: Vec<_> = edits.map(|it| it.replace("${host}", &host)).collect();
                let edit: Vec<_> = edit.into_iter().collect();
                assert_eq!(edit, edits, "{at}");
                if explained.outcome == "served" {
                    // What is stored may have been fetched for another one.
                    if !answer.is_hit() {
                        let was_asked = answer.field("x-was-asked") != Some("-");
                        assert_eq!(was_asked, !explained.request_fields.is_empty(), "{at}");
                    }
                    let may_hit = round == 1 && explained.stored_as.is_some();
                    if explained.bypass {
                        assert!(!answer.is_hit(), "{at}");
                    } else if may_hit && method == "GET" {
                        assert!(answer.is_hit(), "{at}");
                    }
                }
            }
            *outcomes.entry(explained.outcome).or_insert(0) += 1;
        }
    }
    // Else it would show nothing.
    for outcome in ["served", "denied", "answered", "redirected"] {
        assert!(
            outcomes.get(outcome).is_some_and(|n| *n >= 10),
            "{outcomes:?}"
        );
    }
}
