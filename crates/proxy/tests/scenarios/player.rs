//! Plays a scenario, step by step, and says what was not as expected.
//!
//! Where a plain GET that misses is followed at once by another GET, and fetches in progress are what is tried, the
//! second comes while half of the first one's body is still held back: what would have been a hit must then be the
//! very same answer, collapsed.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{
    harness::{Client, Gate, PATIENCE, Response},
    lab::Lab,
    parser::{Ask, Scenario, Step, Want},
};

/// A request under way.
struct Started {
    client: Client,
    ask: Ask,
    head: Option<Response>,
    asked_before: usize,
}

/// What went wrong, each with the line.
pub type Faults = Vec<(usize, String)>;

/// Plays it under paths that begin with `prefix`.
pub fn play(lab: &mut Lab, prefix: &str, scenario: &Scenario) -> Faults {
    lab.set(prefix, scenario);
    let joined = match scenario
        .steps
        .iter()
        .any(|s| matches!(s.1, Step::AwaitJoined(_)))
    {
        true => lab.joined(),
        false => 0,
    };
    let mut play = Play {
        lab,
        prefix,
        started: HashMap::new(),
        joined,
        faults: Vec::new(),
    };
    let mut at = 0;
    while at < scenario.steps.len() {
        let (line, step) = &scenario.steps[at];
        let next = scenario.steps.get(at + 1);
        at += match (step, next) {
            (Step::Client(ask, want), Some((then, Step::Client(second, wanted))))
                if play.lab.mode.overlap && overlaps((ask, want), (second, wanted)) =>
            {
                play.overlap((*line, ask, want), (*then, second, wanted));
                2
            }
            _ => {
                play.step(*line, step);
                1
            }
        };
        let faults = std::mem::take(&mut play.lab.script().faults);
        play.faults.extend(faults);
        if !play.faults.is_empty() {
            break;
        }
    }
    // Nobody must be left waiting at a gate.
    for gate in play.lab.script().gates.values() {
        gate.open();
    }
    play.faults
}

/// Does it make sense to have the second come while the first is under way? Not if it has demands of its own, nor if the
/// first one's answer has no body to be held.
fn overlaps((first, want): (&Ask, &Want), (second, wanted): (&Ask, &Want)) -> bool {
    let demands = ["cache-control", "pragma", "range"];
    let is_plain = |ask: &Ask| {
        let demanding = |name: &str| demands.iter().any(|d| name.eq_ignore_ascii_case(d));
        ask.method == "GET" && !ask.fields.iter().any(|field| demanding(&field.0))
    };
    // With a condition of its own it is the only one to ask.
    let is_conditional = first.fields.iter().any(|field| field.0.starts_with("If-"));
    is_plain(first)
        && !is_conditional
        && is_plain(second)
        && want.outcome == "miss"
        && want.body.as_ref().is_some_and(|body| body.len() > 1)
        && !matches!(want.status, 204 | 304)
        && matches!(wanted.outcome.as_str(), "hit" | "miss" | "any")
        && first.path == second.path
}

struct Play<'a> {
    lab: &'a mut Lab,
    prefix: &'a str,
    started: HashMap<String, Started>,
    joined: u64,
    faults: Faults,
}

impl Play<'_> {
    fn step(&mut self, line: usize, step: &Step) {
        match step {
            Step::Client(ask, want) => {
                let started = self.start(ask);
                self.finish(line, started, want, true);
            }
            Step::Eventually(ask, want) => self.eventually(line, ask, want),
            Step::Start(name, ask) => {
                let started = self.start(ask);
                self.started.insert(name.clone(), started);
            }
            Step::Head(name) => {
                let started = self.started.get_mut(name).expect("it was started");
                started.head = Some(started.client.read_head());
            }
            Step::Finish(name, want) => {
                let started = self.started.remove(name).expect("it was started");
                self.finish(line, started, want, false);
            }
            Step::AwaitOrigin(count) => {
                self.until(line, "the origin is asked", |lab| {
                    lab.script().requests >= *count
                });
            }
            Step::AwaitJoined(count) => {
                let wanted = self.joined + count;
                self.until(line, "a fetch is joined", |lab| lab.joined() >= wanted);
            }
            Step::Release(name) => self.lab.script().gate(name).open(),
            Step::Leave(name) => {
                let started = self.started.remove(name).expect("it was started");
                started.client.vanish();
            }
            Step::Wait(time) => self.lab.clock.advance(*time),
            Step::Purge(order) => {
                let text = self.lab.words(self.prefix).expand(&order.text);
                if let Err(fault) = self.lab.purge(order.soft, &order.kind, &text) {
                    self.fault(line, fault);
                }
            }
            Step::Restart => self.lab.restart(),
            Step::Asked(count) => {
                let found = self.lab.script().requests;
                if found != *count {
                    self.fault(line, format!("the origin was asked {found} times"));
                }
            }
        }
    }

    fn start(&mut self, ask: &Ask) -> Started {
        let words = self.lab.words(self.prefix);
        let mut fields: Vec<String> = Vec::new();
        for (name, value) in &ask.fields {
            fields.push(format!("{name}: {}", words.expand(value)));
        }
        let path = format!("{}{}", self.prefix, ask.path);
        let target = match self.lab.mode.forward {
            true => {
                fields.push(format!("Host: {}", self.lab.origin.address));
                format!("http://{}{path}", self.lab.origin.address)
            }
            false => path,
        };
        let asked_before = self.lab.script().requests;
        let mut client = self.lab.client();
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        client.ask(&ask.method, &target, &fields);
        Started {
            client,
            ask: ask.clone(),
            head: None,
            asked_before,
        }
    }

    /// `counts`: nobody else asked meanwhile.
    fn finish(&mut self, line: usize, mut started: Started, want: &Want, counts: bool) {
        let mut response = complete(&mut started);
        // The fetch that stores the answer has delivered its last byte and is about to end: a moment later this is a hit.
        let deadline = Instant::now() + PATIENCE;
        while want.outcome == "hit" && is_collapsed(&response) && Instant::now() < deadline {
            response = complete(&mut self.start(&started.ask));
        }
        let asked = self.lab.script().requests - started.asked_before;
        for fault in self.compare(&response, want, counts.then_some(asked)) {
            self.fault(line, fault);
        }
    }

    fn overlap(
        &mut self,
        (line, ask, want): (usize, &Ask, &Want),
        (then, second, wanted): (usize, &Ask, &Want),
    ) {
        let gate = Gate::new();
        self.lab.script().hold_next = Some(gate.clone());
        let mut first = self.start(ask);
        first.head = Some(first.client.read_head());
        self.lab.script().hold_next = None;
        let mut other = self.start(second);
        let mut wanted = wanted.clone();
        let shared = matches!(wanted.outcome.as_str(), "hit" | "collapsed");
        if shared {
            other.head = Some(other.client.read_head());
            // An earlier variant may be there already.
            wanted.outcome = "shared".to_owned();
            gate.open();
        }
        let response = complete(&mut other);
        let asked = self.lab.script().requests - other.asked_before;
        for fault in self.compare(&response, &wanted, Some(asked)) {
            self.fault(then, format!("while it was being fetched: {fault}"));
        }
        gate.open();
        let response = complete(&mut first);
        for fault in self.compare(&response, want, None) {
            self.fault(line, fault);
        }
    }

    fn eventually(&mut self, line: usize, ask: &Ask, want: &Want) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut started = self.start(ask);
            let response = complete(&mut started);
            let faults = self.compare(&response, want, None);
            if faults.is_empty() {
                return;
            }
            if Instant::now() > deadline {
                return self.fault(line, format!("never: {faults:?}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn until(&mut self, line: usize, what: &str, so: impl Fn(&Lab) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !so(self.lab) {
            if Instant::now() > deadline {
                return self.fault(line, format!("never: {what}"));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn compare(&self, response: &Response, want: &Want, asked: Option<usize>) -> Vec<String> {
        let mut faults = Vec::new();
        let cache = response.fields.all("cache-status");
        let cache = cache.last().copied().unwrap_or_default();
        let ttl = cache.split("ttl=").nth(1).unwrap_or("none");
        let name = self.lab.cache_name();
        let own = cache.strip_prefix(&name).unwrap_or_default();
        let is_hit = own.starts_with("; hit");
        let is_forwarded = own.starts_with("; fwd=");
        let is_collapsed = is_collapsed(response);
        let is_stale = ttl.starts_with('-') || ttl == "0";
        let (good, times) = match want.outcome.as_str() {
            "hit" => (is_hit && !is_stale, Some(0)),
            "stale" => (is_hit && is_stale, None),
            "miss" => (
                is_forwarded && !is_collapsed && !cache.contains("fwd-status=304"),
                Some(1),
            ),
            "revalidated" => (is_forwarded && cache.contains("fwd-status=304"), Some(1)),
            "rescued" => (cache.contains("stale-if-error"), None),
            "collapsed" => (is_collapsed, None),
            "shared" => (is_hit || is_collapsed, Some(0)),
            "own" => (!is_hit, None),
            _ => (true, None),
        };
        if !good {
            faults.push(format!(
                "expected a {}, found Cache-Status: {cache}",
                want.outcome
            ));
        }
        if let (Some(asked), Some(times)) = (asked, times)
            && asked != times
        {
            faults.push(format!("the origin was asked {asked} times"));
        }
        if response.status != want.status {
            faults.push(format!("status {}", response.status));
        }
        if let Some(body) = &want.body
            && response.text() != body
        {
            faults.push(format!("body {:?}", response.text()));
        }
        let words = self.lab.words(self.prefix);
        faults.extend(words.check(&response.fields.0, &want.expected));
        faults
    }

    fn fault(&mut self, line: usize, what: String) {
        self.faults.push((line, what));
    }
}

fn complete(started: &mut Started) -> Response {
    let mut response = match started.head.take() {
        Some(head) => head,
        None => started.client.read_head(),
    };
    started
        .client
        .wire
        .response_body(&started.ask.method, &mut response);
    response
}

/// Did it share the answer of another request's fetch?
fn is_collapsed(response: &Response) -> bool {
    let cache = response.fields.all("cache-status");
    let cache = cache.last().copied().unwrap_or_default();
    cache.contains("; fwd=") && cache.contains("; collapsed") && !cache.contains("=?0")
}
