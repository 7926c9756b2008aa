//! `loligo explain`: the fate of a request by the rules of a configuration, without a running proxy.
//!
//! The request is parsed, located and matched by the same code that serves requests; only the reasons why a rule does not fit are computed in
//! addition. There are no look-ups, neither in a cache nor of a name.
//!
//! Not known here: the command line, stored objects.

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use http1::Scratch;
use message::RequestHead;
use serde::Serialize;
use store::KeyHasher;

use base::listening::ListenerId;
use cache::opening;
use exchange::{
    edition::{Edition, Loaded, Parts},
    listener::{ListenerState, listener_states},
    request::{
        changing::name_of,
        ruling::{url, with_question},
        target,
    },
};
use origin::{Tls, signing::Signers};
use plan::{Edit, How, Minute, Plan, Rule, Scheme, Verdict};
use quota::Quotas;
use record::{labels::Labels, rule_counts::KnownRules};
use rules::rulebook::{
    MetBy, Question, Unmet,
    edits::{AskedFor, Values},
    fits::Circumstances,
};

/// Minutes of a week.
const WEEK: u32 = 7 * 24 * 60;

/// The request to explain.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The method.
    pub method: String,
    /// A URL, or host and port for CONNECT.
    pub url: String,
    /// The client's address.
    pub client: IpAddr,
    /// The listener that receives it, by name, address or port. `None`: the first one that accepts such a request.
    pub listener: Option<String>,
    /// Its header fields.
    pub fields: Vec<(String, String)>,
    /// When it arrives, in the machine's time zone; `None`: now.
    pub at: Option<Minute>,
    /// The present time, since 1970.
    pub now: Duration,
}

/// The fate of the request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Explained {
    /// The listener: its name, or its address.
    pub listener: String,
    /// Does the listener serve this client at all?
    pub client_is_served: bool,
    /// The time of the request, if rules depend on it.
    pub time: Option<String>,
    /// The rules, in order.
    pub rules: Vec<ExplainedRule>,
    /// `served`, `denied`, `answered`, `redirected`, `refused`.
    pub outcome: &'static str,
    /// The rule that decides the outcome.
    pub by: Option<String>,
    /// What the client gets: a sentence, a status, a URL.
    pub told: Option<String>,
    /// Its tag in logs.
    pub tag: Option<String>,
    /// Is the cache bypassed?
    pub bypass: bool,
    /// The URL under which the response is stored.
    pub stored_as: Option<String>,
    /// The server that is asked.
    pub origin: Option<String>,
    /// Request fields that would change, without their values, because these come from the configuration and may be secret.
    pub request_fields: Vec<String>,
    /// Response fields of a 200 that would change, with their values.
    pub response_fields: Vec<String>,
    /// Rules that also have conditions on the response, checked later.
    pub asked_of_the_response: Vec<String>,
}

/// A rule, and whether it fits.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ExplainedRule {
    /// Its name, or its number.
    pub rule: String,
    /// Does it fit?
    pub fits: bool,
    /// The first condition that does not hold.
    pub unmet: Option<String>,
}

/// Explains a request.
///
/// # Errors
/// For people: this is not a request, or no listener accepts it.
pub fn explain(plan: &Plan, asking: &Asking) -> Result<Explained, String> {
    let without = opening::without_device(None).map_err(|error| error.to_string())?;
    let hasher = without.hasher();
    let edition = Arc::new(edition(plan, hasher));
    let listeners = listener_states(&edition, hasher);
    let is_meant = |listener: &&std::rc::Rc<ListenerState>| match &asking.listener {
        None => true,
        Some(name) => {
            let address = listener.listener.address;
            let port = name.parse::<u16>().ok();
            listener.listener.name == *name
                || *listener.name == **name
                || port == Some(address.port())
        }
    };
    let mut why = "there is no such listener; name one by its name, address or port".to_owned();
    for listener in listeners.iter().filter(is_meant) {
        match explain_at(listener, asking) {
            Ok(explained) => return Ok(explained),
            Err(refused) => why = refused,
        }
    }
    Err(why)
}

fn edition(plan: &Plan, hasher: KeyHasher) -> Edition {
    let labels = Labels::default();
    Edition::new(Parts {
        number: 1,
        ids: (0..plan.listeners.len() as u32).map(ListenerId).collect(),
        rows: labels.rows(&plan.listeners),
        rule_counts: KnownRules::default().counts(&plan.rules),
        quotas: Quotas::default(),
        upstreams_before: Vec::new(),
        signers_before: Signers::default(),
        served: Vec::new(),
        plan: plan.clone(),
        tls: Tls::only(Vec::new()).into(),
        hasher,
        via_tag: 0,
        loaded: Loaded::default(),
    })
}

fn explain_at(listener: &ListenerState, asking: &Asking) -> Result<Explained, String> {
    let head = head(listener, asking)?;
    let book = &listener.book;
    let unix_ms = asking.now.as_millis() as u64;
    let mut at = book.circumstances(asking.client, listener.number, unix_ms);
    if let Some(local) = asking.at {
        (at.utc, at.local) = (moved(at.utc, at.local, local), local);
    }
    let said = with_question(listener, &head, |question| {
        say(listener, &head, &at, question)
    });
    let mut explained = said.ok_or_else(|| {
        let misplaced = target::locate(listener, &head.method, &head.target, head.host.as_deref());
        match misplaced {
            Err(misplaced) => misplaced.answer().1.into_owned(),
            Ok(_) => "CONNECT needs host:port".to_owned(),
        }
    })?;
    explained.client_is_served = listener.clients.permits(asking.client);
    if !explained.client_is_served {
        explained.outcome = "refused";
        explained.told = Some("the listener does not serve this client: allow".to_owned());
    }
    if head.method == "CONNECT" && explained.outcome == "served" {
        let port = message::Authority::parse(&head.target).and_then(|to| to.port);
        if port.is_some_and(|port| listener.destinations.check_connect_port(port).is_err()) {
            explained.outcome = "refused";
            explained.told = Some("tunnels to this port are not allowed: connect-ports".to_owned());
        }
    }
    Ok(explained)
}

/// The UTC minute that corresponds to `local`.
fn moved(utc: Minute, local_now: Minute, local: Minute) -> Minute {
    let of_week = |it: Minute| u32::from(it.day) * 24 * 60 + u32::from(it.minute);
    let at = (of_week(local) + WEEK + of_week(utc) - of_week(local_now)) % WEEK;
    Minute {
        day: (at / (24 * 60)) as u8,
        minute: (at % (24 * 60)) as u16,
    }
}

/// The request head as a client would send it.
fn head(listener: &ListenerState, asking: &Asking) -> Result<RequestHead, String> {
    let is_forward = listener.routes.is_empty();
    if let Some((scheme, ..)) = message::split_absolute(&asking.url)
        && Scheme::parse(scheme).is_none()
    {
        return Err("only http and https URLs can be asked for".to_owned());
    }
    let (authority, target) = match message::split_absolute(&asking.url) {
        Some((_, authority, path)) if is_forward || asking.method == "CONNECT" => (
            authority,
            match path {
                "" => format!("{}/", asking.url),
                _ => asking.url.clone(),
            },
        ),
        Some((_, authority, path)) => (
            authority,
            match path.starts_with('/') {
                true => path.to_owned(),
                false => format!("/{path}"),
            },
        ),
        None => (asking.url.as_str(), asking.url.clone()),
    };
    let mut text = format!("{} {target} HTTP/1.1\r\n", asking.method);
    let is_host = |(name, _): &(String, String)| name.eq_ignore_ascii_case("host");
    if !asking.fields.iter().any(is_host) {
        let authority = if authority.starts_with('/') {
            ""
        } else {
            authority
        };
        text += &format!("Host: {authority}\r\n");
    }
    for (name, value) in &asking.fields {
        text += &format!("{name}: {value}\r\n");
    }
    text += "\r\n";
    let mut scratch = Scratch::new();
    let parsed = http1::parse_request(text.as_bytes(), &listener.edition.limits, &mut scratch);
    match parsed {
        Ok(Some(view)) if view.head_bytes == text.len() => Ok(view.to_owned()),
        Ok(_) => Err("this is no request: a field has a line end".to_owned()),
        Err(reject) => Err(format!("this is no request: {}", reject.reason())),
    }
}

fn say(
    listener: &ListenerState,
    head: &RequestHead,
    at: &Circumstances,
    question: &Question<'_>,
) -> Explained {
    let book = &listener.book;
    let reasons = book.reasons(at, question);
    let met: MetBy = book.met(&book.among(at), question);
    let ruled = book.request(met, true);
    let names = book.rules().iter().enumerate();
    let rules = names
        .zip(reasons)
        .map(|((number, rule), unmet)| ExplainedRule {
            rule: rule.told(number),
            fits: unmet.is_none(),
            unmet: unmet.map(|unmet| told_of(unmet, rule, at, listener)),
        });
    let rules: Vec<_> = rules.collect();
    let values = Values {
        client: at.client,
        listener: name_of(listener),
        asked: AskedFor::of(question),
        id: 0,
        cache_status: b"",
        status: 200,
    };
    let (outcome, told) = decided(ruled.verdict.map(|(_, it)| it), question, &values);
    let place = target::locate(listener, &head.method, &head.target, head.host.as_deref()).ok();
    let is_cached = matches!(question.method, "GET" | "HEAD") && outcome == "served";
    let stored_as = place
        .as_ref()
        .filter(|_| is_cached && !ruled.bypass)
        .map(|place| {
            let mut key = Vec::new();
            let name_bytes = place.write_key(ruled.shape, &mut key);
            let name = &key[rules::key::KEY_PREFIX.len()..name_bytes];
            String::from_utf8_lossy(name).into_owned()
        });
    let origin = match (&place, outcome) {
        (Some(place), "served") => Some(place.ask().destination.as_host_and_port()),
        (None, "served") => Some(head.target.clone()),
        _ => None,
    };
    let asked_of_the_response = rules
        .iter()
        .zip(book.rules())
        .filter(|(told, rule)| told.fits && rule.when.asks_of_response())
        .map(|(told, _)| told.rule.clone());
    let of_response = book.response_edits(&ruled.met, 200, b"");
    Explained {
        listener: name_of(listener).to_owned(),
        client_is_served: true,
        time: (book.asks_for_the_time()).then(|| format!("{} here, {} UTC", at.local, at.utc)),
        outcome,
        by: ruled
            .verdict
            .map(|(number, _)| book.rules()[number].told(number)),
        told,
        tag: Some(String::from_utf8_lossy(book.tag(ruled.tag)).into_owned())
            .filter(|tag| !tag.is_empty()),
        bypass: ruled.bypass,
        stored_as,
        origin,
        request_fields: book
            .request_edits(&ruled.met)
            .into_iter()
            .map(|edit| told_change(edit, None))
            .collect(),
        response_fields: of_response
            .into_iter()
            .map(|edit| told_change(edit, Some(&values)))
            .collect(),
        asked_of_the_response: asked_of_the_response.collect(),
        rules,
    }
}

fn decided(
    verdict: Option<&Verdict>,
    question: &Question<'_>,
    values: &Values<'_>,
) -> (&'static str, Option<String>) {
    let is_tunnel = question.method == "CONNECT";
    match verdict {
        None | Some(Verdict::Allow) => ("served", None),
        Some(Verdict::Deny { words }) => ("denied", words.clone()),
        Some(Verdict::Answer(canned)) if !is_tunnel || canned.status >= 400 => {
            let bytes = canned.body.len();
            (
                "answered",
                Some(format!("{}, {bytes} bytes", canned.status)),
            )
        }
        Some(Verdict::Redirect { to, status }) if !is_tunnel => match url(values, to) {
            Some(url) => {
                let url = String::from_utf8_lossy(&url).into_owned();
                ("redirected", Some(format!("{status} {url}")))
            }
            None => ("denied", None),
        },
        Some(_) => (
            "denied",
            Some("a tunnel is not answered otherwise".to_owned()),
        ),
    }
}

fn told_change(edit: &Edit, values: Option<&Values<'_>>) -> String {
    let name = &edit.name;
    let (how, text) = match &edit.how {
        How::Remove => return format!("remove {name}"),
        How::Set(text) => ("set", text),
        How::Add(text) => ("add", text),
    };
    match values {
        None => format!("{how} {name}"),
        Some(_) if !text.is_plain() => format!("{how} {name}: {text}"),
        Some(values) => match values.fill(text) {
            Some(value) => format!("{how} {name}: {}", String::from_utf8_lossy(&value)),
            None => format!("{how} {name}: nothing, for its value would be none"),
        },
    }
}

/// An unmet condition, and the actual value.
fn told_of(unmet: Unmet, rule: &Rule, at: &Circumstances, listener: &ListenerState) -> String {
    let setting = unmet.setting();
    match unmet {
        Unmet::Client => format!("{setting}: {} is in none of its networks", at.client),
        Unmet::Listener => format!("{setting}: it comes by {}", name_of(listener)),
        Unmet::Time => format!("{setting}: it is {} here, {} UTC", at.local, at.utc),
        Unmet::Field(number) => match rule.when.fields.get(number) {
            Some(field) => format!("{setting}: {}", field.name),
            None => setting.to_owned(),
        },
        _ => setting.to_owned(),
    }
}

impl fmt::Display for Explained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "listener {}", self.listener)?;
        match &self.time {
            Some(time) => writeln!(f, ", {time}")?,
            None => writeln!(f)?,
        }
        for rule in &self.rules {
            match &rule.unmet {
                None => writeln!(f, "  {}: fits", rule.rule)?,
                Some(unmet) => writeln!(f, "  {}: no, for {unmet}", rule.rule)?,
            }
        }
        write!(f, "{}", self.outcome)?;
        if let Some(by) = &self.by {
            write!(f, " by {by}")?;
        }
        if let Some(told) = &self.told {
            write!(f, ": {told}")?;
        }
        writeln!(f)?;
        if let Some(tag) = &self.tag {
            writeln!(f, "  tag {tag}")?;
        }
        if self.bypass {
            writeln!(f, "  the cache is passed by")?;
        }
        if let Some(stored_as) = &self.stored_as {
            writeln!(f, "  stored as {stored_as}")?;
        }
        if let Some(origin) = &self.origin {
            writeln!(f, "  asks {origin}")?;
        }
        for change in &self.request_fields {
            writeln!(f, "  request: {change}")?;
        }
        for change in &self.response_fields {
            writeln!(f, "  answer: {change}")?;
        }
        for rule in &self.asked_of_the_response {
            writeln!(f, "  {rule} looks at the response, too")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
