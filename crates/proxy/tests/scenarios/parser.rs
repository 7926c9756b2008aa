//! The language of the scenarios.
//!
//! A file is a list of scenarios; `#` begins a comment line. A scenario is a title, the sections it comes from, and steps:
//!
//! ```text
//! scenario A response is reused for max-age seconds [rfc9111 §5.2.2.1, rfc9111 §4.2]
//!   origin 200 | Cache-Control: max-age=60 <- GET | !If-None-Match
//!   GET /a | Accept: b -> miss v1
//!   wait 59s
//!   GET /a -> hit v1 | Age: 59
//! ```
//!
//! | step | meaning |
//! |---|---|
//! | `each A \| B …` | the scenario is there once for each, with that in place of every `{}` |
//! | `with NAME [N]` | a setting that is not the default; first of all steps |
//! | `with forward`, `with reverse` | played in that role only |
//! | `with http1` | not played over HTTP/2 |
//! | `with rule word …` | a cache rule: `path=`, `status=`, `type=`, `ttl=60`, `bypass`, `by-field=` and so on (`lab`) |
//! | `origin STATUS [word …] \| field … [<- METHOD \| expectation …]` | the n-th line answers the n-th request that gets there, the last one all others; behind `<-` what that request must look like |
//! | `METHOD [PATH] \| field … -> word … \| expectation …` | a client asks, on a connection of its own, and gets |
//! | `start NAME METHOD …`, `finish NAME -> …` | the same in two steps |
//! | `head NAME` | the head has arrived |
//! | `await origin N`, `await joined N` | so many requests have got to the origin, or have joined another's fetch |
//! | `leave NAME` | that client goes without a word |
//! | `release GATE` | lets go what the origin holds |
//! | `purge [soft] KIND WHAT` | the admin interface forgets (or makes stale) it: `url`, `prefix` or `tag` |
//! | `wait 61s` | virtual time goes by (s, m, h, d) |
//! | `restart` | the proxy stops and starts again on its store |
//! | `eventually METHOD …` | asks again until the answer is as expected |
//! | `asked N` | the origin has seen so many requests |
//!
//! Words of an origin: `close` in place of a status (no answer at all), `empty`, `chunked`, `trailer=Name:value`, `bare` (the body ends with the
//! connection), `cut` (it ends too early), `body=TEXT`, `length=N` (of a HEAD), `hold=GATE` before the head,
//! `hold-body=GATE` in mid-body, `delay=5s`. The body is `v1`, `v2`, … by the number of the request; `Date` is added unless a
//! field `!Date` forbids it.
//!
//! Words of an answer: `miss` (the origin was asked once more and its answer passed on), `hit` (it was not), `stale` (a hit
//! past its time), `revalidated` (asked; 304), `rescued` (asked in vain; stale), `collapsed`, `own` (the proxy's word),
//! `any`; a status (200 if none is given); the body, `v1` or `empty` or `body=TEXT`.
//!
//! An expectation is `Name: value` (all lines of that name, joined), `Name: ~part`, or `!Name` (no such line). In values `@n`
//! is the date n seconds from now (`@850n`, `@asctime-n`: the old forms), `$` begins a path of this scenario, `$origin` an
//! absolute URI, `$public` one as clients know it.

use std::time::Duration;

/// A scenario as written.
#[derive(Debug)]
pub struct Scenario {
    pub file: String,
    pub line: usize,
    /// With what stands for `{}`.
    pub title: String,
    /// As written.
    pub template: String,
    /// What may stand for `{}`.
    pub each: Vec<String>,
    /// `rfc9111 §4.2`
    pub sections: Vec<String>,
    pub with: Vec<String>,
    pub answers: Vec<Answer>,
    /// Each with its line.
    pub steps: Vec<(usize, Step)>,
}

/// What the origin does with a request.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub line: usize,
    /// `None`: closes without a word.
    pub status: Option<u16>,
    pub words: Vec<String>,
    pub fields: Vec<(String, String)>,
    pub forbidden: Vec<String>,
    pub method: Option<String>,
    pub expected: Vec<Expected>,
}

impl Answer {
    pub fn has(&self, word: &str) -> bool {
        self.words.iter().any(|w| w == word)
    }

    /// The value of `name=value`.
    pub fn value(&self, name: &str) -> Option<&str> {
        let value = |w: &'_ String| w.strip_prefix(name)?.strip_prefix('=').map(str::to_owned);
        let index = self.words.iter().position(|w| value(w).is_some())?;
        Some(&self.words[index][name.len() + 1..])
    }
}

/// What must be so in a message.
#[derive(Clone, Debug)]
pub enum Expected {
    Is(String, String),
    Contains(String, String),
    Absent(String),
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: String,
    pub path: String,
    pub fields: Vec<(String, String)>,
}

/// What is expected of its answer.
#[derive(Clone, Debug)]
pub struct Want {
    pub outcome: String,
    pub status: u16,
    pub body: Option<String>,
    pub expected: Vec<Expected>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Client(Ask, Want),
    Eventually(Ask, Want),
    Start(String, Ask),
    Head(String),
    Finish(String, Want),
    AwaitOrigin(usize),
    AwaitJoined(u64),
    Release(String),
    Leave(String),
    Wait(Duration),
    Restart,
    Asked(usize),
    Purge(Purge),
}

/// An order to the admin interface.
#[derive(Clone, Debug)]
pub struct Purge {
    pub soft: bool,
    /// `url`, `prefix`, `tag`
    pub kind: String,
    pub text: String,
}

const OUTCOMES: [&str; 8] = [
    "miss",
    "hit",
    "stale",
    "revalidated",
    "rescued",
    "collapsed",
    "own",
    "any",
];

/// All scenarios of a file.
pub fn parse(file: &str, text: &str) -> Vec<Scenario> {
    let lines = text.lines().enumerate();
    let lines = lines.map(|(index, line)| (index + 1, line.trim()));
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut block: Vec<(usize, &str)> = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with("scenario ") {
            scenarios.extend(each(file, &block));
            block.clear();
        }
        block.push((number, line));
    }
    scenarios.extend(each(file, &block));
    scenarios
}

/// The scenarios that one block of lines stands for.
fn each(file: &str, block: &[(usize, &str)]) -> Vec<Scenario> {
    let Some((_, title)) = block.first() else {
        return Vec::new();
    };
    let values = block
        .iter()
        .find_map(|(_, line)| line.strip_prefix("each "));
    let Some(values) = values else {
        return vec![scenario(file, block, title, &[], "")];
    };
    let values: Vec<String> = values.split(" | ").map(|v| v.trim().to_owned()).collect();
    let one = |value: &String| scenario(file, block, title, &values, value);
    values.iter().map(one).collect()
}

fn scenario(
    file: &str,
    block: &[(usize, &str)],
    first: &str,
    values: &[String],
    value: &str,
) -> Scenario {
    let (line, _) = block[0];
    let Some((template, sections)) = first.trim_start_matches("scenario ").split_once('[') else {
        panic!("{file}:{line}: a scenario is a title and its sections")
    };
    let template = template.trim().to_owned();
    let sections = sections.trim_end_matches(']').split(',');
    let mut scenario = Scenario {
        file: file.to_owned(),
        line,
        title: template.replace("{}", value),
        template,
        each: values.to_vec(),
        sections: sections.map(|s| s.trim().to_owned()).collect(),
        with: Vec::new(),
        answers: Vec::new(),
        steps: Vec::new(),
    };
    for (number, line) in &block[1..] {
        let line = &line.replace("{}", value);
        let fail = |why: String| -> ! { panic!("{file}:{number}: {why}: {line:?}") };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "each" => {}
            "with" => scenario.with.push(rest.to_owned()),
            "origin" => {
                let answer = answer(*number, rest).unwrap_or_else(|why| fail(why));
                scenario.answers.push(answer);
            }
            _ => {
                let step = step(word, rest, line).unwrap_or_else(|why| fail(why));
                scenario.steps.push((*number, step));
            }
        }
    }
    scenario
}

fn step(word: &str, rest: &str, line: &str) -> Result<Step, String> {
    let count = |text: &str| text.parse().map_err(|_| "a number is missing".to_owned());
    Ok(match word {
        "wait" => Step::Wait(duration(rest)?),
        "restart" => Step::Restart,
        "release" => Step::Release(rest.to_owned()),
        "leave" => Step::Leave(rest.to_owned()),
        "head" => Step::Head(rest.to_owned()),
        "asked" => Step::Asked(count(rest)?),
        "await" => match rest.split_once(' ') {
            Some(("origin", n)) => Step::AwaitOrigin(count(n)?),
            Some(("joined", n)) => Step::AwaitJoined(count(n)? as u64),
            _ => return Err("await what?".to_owned()),
        },
        "start" => {
            let (name, rest) = rest.split_once(' ').ok_or("start whom?")?;
            Step::Start(name.to_owned(), ask(rest)?)
        }
        "finish" => {
            let (name, rest) = rest.split_once("->").ok_or("no expectation")?;
            Step::Finish(name.trim().to_owned(), want(rest)?)
        }
        "purge" => {
            let (soft, rest) = match rest.strip_prefix("soft ") {
                Some(rest) => (true, rest),
                None => (false, rest),
            };
            let (kind, text) = rest.split_once(' ').ok_or("nothing to purge")?;
            let (kind, text) = (kind.to_owned(), text.to_owned());
            Step::Purge(Purge { soft, kind, text })
        }
        "eventually" => {
            let (request, rest) = rest.split_once("->").ok_or("no expectation")?;
            Step::Eventually(ask(request)?, want(rest)?)
        }
        _ if word.bytes().all(|b| b.is_ascii_uppercase() || b == b'-') => {
            let (request, rest) = line.split_once("->").ok_or("no expectation")?;
            Step::Client(ask(request)?, want(rest)?)
        }
        _ => return Err("unknown step".to_owned()),
    })
}

fn answer(line: usize, text: &str) -> Result<Answer, String> {
    let (said, asked) = text.split_once("<-").unwrap_or((text, ""));
    let mut parts = said.split(" | ").map(str::trim);
    let mut words = parts.next().unwrap_or_default().split_whitespace();
    let mut out = Answer {
        line,
        ..Answer::default()
    };
    out.status = match words.next() {
        Some("close") => None,
        Some(status) => Some(status.parse().map_err(|_| "no status")?),
        None => return Err("no status".to_owned()),
    };
    out.words = words.map(str::to_owned).collect();
    for part in parts {
        match part.strip_prefix('!') {
            Some(name) => out.forbidden.push(name.to_ascii_lowercase()),
            None => out.fields.push(field(part)?),
        }
    }
    let mut parts = asked.split(" | ").map(str::trim).filter(|p| !p.is_empty());
    for (index, part) in parts.by_ref().enumerate() {
        if index == 0 && part.bytes().all(|b| b.is_ascii_uppercase()) {
            out.method = Some(part.to_owned());
        } else {
            out.expected.push(expected(part)?);
        }
    }
    Ok(out)
}

fn ask(text: &str) -> Result<Ask, String> {
    let mut parts = text.split(" | ").map(str::trim);
    let mut words = parts.next().unwrap_or_default().split_whitespace();
    Ok(Ask {
        method: words.next().ok_or("no method")?.to_owned(),
        path: words.next().unwrap_or("/").to_owned(),
        fields: parts.map(field).collect::<Result<_, _>>()?,
    })
}

fn want(text: &str) -> Result<Want, String> {
    let mut parts = text.split(" | ").map(str::trim);
    let mut out = Want {
        outcome: String::new(),
        status: 200,
        body: None,
        expected: Vec::new(),
    };
    for word in parts.next().unwrap_or_default().split_whitespace() {
        if OUTCOMES.contains(&word) {
            out.outcome = word.to_owned();
        } else if let Ok(status) = word.parse() {
            out.status = status;
        } else if word == "empty" {
            out.body = Some(String::new());
        } else {
            out.body = Some(word.strip_prefix("body=").unwrap_or(word).to_owned());
        }
    }
    if out.outcome.is_empty() {
        return Err("no outcome".to_owned());
    }
    out.expected = parts.map(expected).collect::<Result<_, _>>()?;
    Ok(out)
}

fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("a field has a colon")?;
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn expected(text: &str) -> Result<Expected, String> {
    if let Some(name) = text.strip_prefix('!') {
        return Ok(Expected::Absent(name.to_owned()));
    }
    let (name, value) = field(text)?;
    Ok(match value.strip_prefix('~') {
        Some(part) => Expected::Contains(name, part.trim().to_owned()),
        None => Expected::Is(name, value),
    })
}

/// `61s`, `5m`, `2h`, `400d`
pub fn duration(text: &str) -> Result<Duration, String> {
    let (digits, unit) = text.split_at(text.len().saturating_sub(1));
    let unit_s = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("a time ends in s, m, h or d".to_owned()),
    };
    let count: u64 = digits.parse().map_err(|_| "no time")?;
    Ok(Duration::from_secs(count * unit_s))
}
