//! Where the scenarios are played: one origin, one proxy, one clock for a way of running them.
//!
//! Every scenario has paths of its own (`/s17/…`), so that one proxy serves them all, one after the other. The clock is
//! held: it moves when a scenario says `wait`, and never back. The origin follows the script that was last set.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use proxy::{
    Clock,
    plan::{ClientDirectives, Heeds, KeyRule, Listener, Plan, Role, Rule},
};

use crate::{
    harness::{Client, Disk, Exchange, Gate, Origin, Proxy, running, way},
    parser::{Answer, Expected, Scenario, duration},
};

/// A way of running the scenarios.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mode {
    pub name: &'static str,
    /// Kept on disk alone; else in memory alone.
    pub disk: bool,
    pub forward: bool,
    /// What follows a miss at once comes while that is still under way.
    pub overlap: bool,
}

const fn mode(name: &'static str, disk: bool, forward: bool, overlap: bool) -> Mode {
    Mode {
        name,
        disk,
        forward,
        overlap,
    }
}

impl Mode {
    /// Is the origin sent its own Host instead of the client's? One mode of the reverse ones.
    fn own_host(self) -> bool {
        self.disk && !self.forward
    }
}

pub const MODES: [Mode; 6] = [
    mode("memory, reverse", false, false, false),
    mode("memory, forward", false, true, false),
    mode("disk, reverse", true, false, false),
    mode("disk, forward", true, true, false),
    mode("fetch in progress, reverse", false, false, true),
    mode("fetch in progress, forward", true, true, true),
];

/// The origin's part.
#[derive(Default)]
pub struct Script {
    pub prefix: String,
    pub answers: Vec<Answer>,
    pub requests: usize,
    /// Hold the next answer in mid-body at this gate, if it can be.
    pub hold_next: Option<Gate>,
    pub gates: HashMap<String, Gate>,
    /// What a request was not as it should have been, with the line that says so.
    pub faults: Vec<(usize, String)>,
}

impl Script {
    pub fn gate(&mut self, name: &str) -> Gate {
        self.gates.entry(name.to_owned()).or_default().clone()
    }
}

pub struct Lab {
    pub mode: Mode,
    pub clock: Clock,
    pub script: Arc<Mutex<Script>>,
    pub origin: Origin,
    plan: Plan,
    proxy: Option<Proxy>,
    _disk: Option<Disk>,
}

impl Lab {
    pub fn new(mode: Mode, with: &[String]) -> Lab {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let clock = Clock::held_at(now.as_millis() as u64);
        let script = Arc::new(Mutex::new(Script::default()));
        let origin = {
            let (script, clock) = (Arc::clone(&script), clock.clone());
            Origin::start(move |exchange| serve(exchange, mode, &script, &clock))
        };
        let mut plan = if mode.forward {
            running::plan(Listener::forward(running::local(), Vec::new()))
        } else {
            running::plan_for(&origin)
        };
        if let Role::Reverse(routes) = &mut plan.listeners[0].role {
            routes[0].pass_host = !mode.own_host();
        }
        plan = running::with_admin(plan);
        if with.iter().any(|setting| setting == "default-directives") {
            plan.listeners[0].heeds = match mode.forward {
                true => Heeds::FORWARD,
                false => Heeds::REVERSE,
            };
        }
        for setting in with {
            set(&mut plan, setting);
        }
        let disk = mode.disk.then(|| Disk::of_mib(16));
        if let Some(disk) = &disk {
            plan = disk.under(plan);
            plan.memory_bytes = 0;
        }
        let mut lab = Lab {
            mode,
            clock,
            script,
            origin,
            plan,
            proxy: None,
            _disk: disk,
        };
        lab.restart();
        lab
    }

    /// Stops the proxy, if there is one, and starts it on the same store.
    pub fn restart(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.stop();
        }
        self.proxy = Some(Proxy::start_at(self.plan.clone(), self.clock.clone()));
    }

    /// Hands the origin the scenario's script.
    pub fn set(&self, prefix: &str, scenario: &Scenario) {
        *self.script() = Script {
            prefix: prefix.to_owned(),
            answers: scenario.answers.clone(),
            ..Script::default()
        };
    }

    pub fn script(&self) -> MutexGuard<'_, Script> {
        lock(&self.script)
    }

    pub fn client(&self) -> Client {
        self.proxy().client()
    }

    /// How many requests have joined another's fetch since the proxy came up.
    pub fn joined(&self) -> u64 {
        let status = self.proxy().admin("GET", "/status");
        let (_, rest) = status.text().split_once("\"flights_joined\":").unwrap();
        let digits = rest.trim_start().split(|c: char| !c.is_ascii_digit());
        digits.into_iter().next().unwrap().parse().unwrap()
    }

    /// Purges by the admin interface; what it says if it does not say that it is done for good.
    pub fn purge(&self, soft: bool, kind: &str, text: &str) -> Result<(), String> {
        let escaped = |c: char| match c {
            '%' | '&' | '?' | '=' | '+' | ' ' => format!("%{:02X}", c as u32),
            c => c.to_string(),
        };
        let text: String = text.chars().map(escaped).collect();
        let soft = if soft { "soft=1&" } else { "" };
        let target = format!("/cache?{soft}{kind}={text}");
        let answer = self.proxy().admin("DELETE", &target);
        let durable = answer.text().contains("\"durable\": true");
        match answer.status == 200 && durable {
            true => Ok(()),
            false => Err(format!("purge: {} {}", answer.status, answer.text())),
        }
    }

    /// What Cache-Status begins with.
    pub fn cache_name(&self) -> String {
        String::from_utf8(httpcache::cache_status::member_name(&self.plan.name)).unwrap()
    }

    fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("the proxy runs")
    }

    pub fn words(&self, prefix: &str) -> Words {
        Words {
            now: self.clock.now(),
            prefix: prefix.to_owned(),
            origin: own(self.mode, self.origin.address),
            public: public(self.mode, self.origin.address),
        }
    }
}

/// What an origin takes itself for: what Host says.
fn own(mode: Mode, origin: SocketAddr) -> String {
    match mode.own_host() {
        true => format!("http://{origin}"),
        false => public(mode, origin),
    }
}

/// A reverse proxy is known to its clients by a name of its own.
fn public(mode: Mode, origin: SocketAddr) -> String {
    match mode.forward {
        true => format!("http://{origin}"),
        false => format!("{}://test.example", way::scheme()),
    }
}

fn set(plan: &mut Plan, setting: &str) {
    let (name, value) = setting.split_once(' ').unwrap_or((setting, "0"));
    match name {
        "rule" => return plan.rules.push(rule(value)),
        "name" => return plan.name = value.to_owned(),
        "forward" | "reverse" | "http1" | "default-directives" => return,
        "client-directives" => {
            return plan.listeners[0].heeds.client_directives = directives(value);
        }
        "no-targeted" => return plan.listeners[0].heeds.targeted = false,
        _ => {}
    }
    let number: u64 = value.parse().expect("a number");
    match name {
        "stale-while-revalidate" => {
            plan.cache.stale_while_revalidate = Duration::from_secs(number);
        }
        "stale-if-error" => plan.cache.stale_if_error = Duration::from_secs(number),
        "set-cookie" => plan.cache.store_set_cookie = true,
        "heuristic-percent" => plan.cache.heuristic_percent = number as u32,
        "heuristic-max" => plan.cache.heuristic_max = Duration::from_secs(number),
        "ttl-max" => plan.cache.ttl_max = Duration::from_secs(number),
        "default-ttl" => plan.cache.default_ttl = Duration::from_secs(number),
        "negative-ttl" => plan.cache.negative_ttl = Duration::from_secs(number),
        "error-ttl" => plan.cache.error_ttl = Duration::from_secs(number),
        _ => panic!("unknown setting {setting:?}"),
    }
}

fn directives(word: &str) -> ClientDirectives {
    match word {
        "obey" => ClientDirectives::Obey,
        "revalidate" => ClientDirectives::Revalidate,
        "ignore" => ClientDirectives::Ignore,
        _ => panic!("clients' directives cannot be {word:?}"),
    }
}

/// `path=*/a ttl=60 strip-cookies`
fn rule(text: &str) -> Rule {
    let mut rule = Rule::default();
    let (when, then) = (&mut rule.when, &mut rule.then);
    let mut key = KeyRule::default();
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, "0"));
        let owned = value.to_owned();
        let number = || value.parse::<u64>().expect("a number");
        let time = || Some(Duration::from_secs(number()));
        match name {
            "path" => when.paths.push(owned),
            "method" => when.methods.push(owned),
            "status" => when.statuses.push((number() as u16, number() as u16)),
            "type" => when.content_types.push(owned),
            "bypass" => then.bypass = Some(true),
            "no-bypass" => then.bypass = Some(false),
            "strip-cookies" => then.strip_cookies = Some(true),
            "strip-set-cookie" => then.strip_set_cookie = Some(true),
            "ttl" => then.ttl = time(),
            "ttl-min" => then.ttl_min = time(),
            "ttl-max" => then.ttl_max = time(),
            "default-ttl" => then.default_ttl = time(),
            "negative-ttl" => then.negative_ttl = time(),
            "stale-while-revalidate" => then.stale_while_revalidate = time(),
            "stale-if-error" => then.stale_if_error = time(),
            "client-directives" => then.client_directives = Some(directives(value)),
            "bytes-max" => then.object_bytes_max = Some(number()),
            "ignore-query" => key.ignore_query.push(owned),
            "by-field" => key.fields.push(owned),
            "by-cookie" => key.cookies.push(owned),
            _ => panic!("no rule can say {word:?}"),
        }
    }
    then.key = (key != KeyRule::default()).then_some(key);
    rule
}

/// What stands for something in values.
pub struct Words {
    now: Duration,
    prefix: String,
    origin: String,
    /// What clients take the origin for.
    public: String,
}

impl Words {
    pub fn expand(&self, value: &str) -> String {
        if let Some(offset) = value.strip_prefix('@') {
            return self.date(offset);
        }
        let absolute = format!("{}{}", self.origin, self.prefix);
        let public = format!("{}{}", self.public, self.prefix);
        let value = value.replace("$origin", &absolute);
        value.replace("$public", &public).replace('$', &self.prefix)
    }

    fn date(&self, offset: &str) -> String {
        let (form, offset) = if let Some(offset) = offset.strip_prefix("850") {
            ("850", offset)
        } else if let Some(offset) = offset.strip_prefix("asctime") {
            ("asctime", offset)
        } else {
            ("", offset)
        };
        let offset: i64 = offset.parse().expect("@ and a number");
        let at = UNIX_EPOCH + Duration::from_secs(self.now.as_secs().saturating_add_signed(offset));
        let date = httpdate::fmt_http_date(at);
        let (weekday, rest) = date.split_once(", ").unwrap();
        let [day, month, year, time, _] = rest.split(' ').collect::<Vec<_>>()[..] else {
            unreachable!("{date}");
        };
        let long = [
            "Monday",
            "Tuesday",
            "Wednesday",
            "Thursday",
            "Friday",
            "Saturday",
            "Sunday",
        ];
        match form {
            "850" => {
                let weekday = long.iter().find(|long| long.starts_with(weekday)).unwrap();
                format!("{weekday}, {day}-{month}-{} {time} GMT", &year[2..])
            }
            "asctime" => {
                let day = day.trim_start_matches('0');
                format!("{weekday} {month} {day:>2} {time} {year}")
            }
            _ => date,
        }
    }

    /// What is not as expected.
    pub fn check(&self, fields: &[(String, String)], expected: &[Expected]) -> Vec<String> {
        let found = |name: &str| -> Option<String> {
            let of_name = fields.iter().filter(|f| f.0.eq_ignore_ascii_case(name));
            let values: Vec<_> = of_name.map(|f| f.1.as_str()).collect();
            (!values.is_empty()).then(|| values.join(", "))
        };
        let mut faults = Vec::new();
        for one in expected {
            let (name, good, wanted) = match one {
                Expected::Is(name, value) => {
                    let value = self.expand(value);
                    let good = found(name).as_ref() == Some(&value);
                    (name, good, value)
                }
                Expected::Contains(name, part) => {
                    let part = self.expand(part);
                    let good = found(name).is_some_and(|f| f.contains(&part));
                    (name, good, format!("something with {part}"))
                }
                Expected::Absent(name) => (name, found(name).is_none(), "nothing".to_owned()),
            };
            if !good {
                faults.push(format!(
                    "{name}: expected {wanted}, found {:?}",
                    found(name)
                ));
            }
        }
        faults
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers one request by the script.
fn serve(exchange: &mut Exchange, mode: Mode, script: &Mutex<Script>, clock: &Clock) {
    let mut state = lock(script);
    let Some(path) = exchange.path().strip_prefix(state.prefix.as_str()) else {
        // A straggler of an earlier scenario.
        return exchange.send("HTTP/1.1 500 Late\r\nContent-Length: 0\r\n\r\n");
    };
    let _ = path;
    state.requests += 1;
    let nth = state.requests;
    let count = state.answers.len();
    let Some(answer) = state
        .answers
        .get((nth - 1).min(count.saturating_sub(1)))
        .cloned()
    else {
        state
            .faults
            .push((0, "nobody should have been asked".to_owned()));
        return exchange.send("HTTP/1.1 500 Unasked\r\nContent-Length: 0\r\n\r\n");
    };
    let address = exchange.wire.stream().local_addr().unwrap();
    let words = |state: &Script| Words {
        now: clock.now(),
        prefix: state.prefix.clone(),
        origin: own(mode, address),
        public: public(mode, address),
    };
    let method = exchange.request.method.clone();
    let mut faults = words(&state).check(&exchange.request.fields.0, &answer.expected);
    if answer
        .method
        .as_ref()
        .is_some_and(|wanted| *wanted != method)
    {
        faults.push(format!("the method is {method}"));
    }
    let faults = faults
        .into_iter()
        .map(|f| (answer.line, format!("request {nth}: {f}")));
    state.faults.extend(faults);
    let before = answer.value("hold").map(|name| state.gate(name));
    let mut within = answer.value("hold-body").map(|name| state.gate(name));
    if let Some(gate) = state.hold_next.take() {
        within = within.or(Some(gate));
    }
    if let Some(by) = answer.value("delay") {
        clock.advance(duration(by).unwrap());
    }
    drop(state);
    exchange.body();
    if let Some(gate) = before {
        gate.pass();
    }
    let words = words(&lock(script));
    send(exchange, &answer, &method, nth, &words, within);
}

fn send(
    exchange: &mut Exchange,
    answer: &Answer,
    method: &str,
    nth: usize,
    words: &Words,
    within: Option<Gate>,
) {
    let Some(status) = answer.status else {
        return exchange.close();
    };
    let body = match answer.value("body") {
        Some(text) => text.to_owned(),
        None if answer.has("empty") => String::new(),
        None => format!("v{nth}"),
    };
    let bodiless = method == "HEAD" || status == 304 || status == 204;
    let mut head = format!("HTTP/1.1 {status} Said\r\n");
    let mut line = |name: &str, value: &str| head += &format!("{name}: {value}\r\n");
    let has_date = answer
        .fields
        .iter()
        .any(|f| f.0.eq_ignore_ascii_case("date"));
    if !has_date && !answer.forbidden.iter().any(|name| name == "date") {
        line("Date", &words.expand("@0"));
    }
    for (name, value) in &answer.fields {
        line(name, &words.expand(value));
    }
    if let Some(length) = answer.value("length") {
        line("Content-Length", length);
    } else if answer.has("chunked") && !bodiless {
        line("Transfer-Encoding", "chunked");
    } else if method == "HEAD" || (!bodiless && !answer.has("bare")) {
        line("Content-Length", &body.len().to_string());
    }
    head += "\r\n";
    exchange.send(head);
    if bodiless {
        return;
    }
    let (first, second) = body.split_at(body.len() / 2);
    let coded = |part: &str| match answer.has("chunked") && !part.is_empty() {
        true => format!("{:x}\r\n{part}\r\n", part.len()),
        false => part.to_owned(),
    };
    exchange.send(coded(first));
    if let Some(gate) = within {
        gate.pass();
    }
    if answer.has("cut") {
        return exchange.close();
    }
    exchange.send(coded(second));
    if answer.has("chunked") {
        let trailer = answer
            .value("trailer")
            .map_or(String::new(), |t| format!("{t}\r\n"));
        exchange.send(format!("0\r\n{trailer}\r\n"));
    }
    if answer.has("bare") {
        exchange.close();
    }
}
