//! Whether the conditions of a rule hold for a request, and if not, the first that does not.
//!
//! Conditions that do not depend on the request (client, listener, time) are the `Standing` of a connection: they are checked once, and
//! again when the client, the configuration or the minute has changed. All other conditions are checked against a [`Question`].
//!
//! This module checks the conditions of a rule one by one and so knows why a rule does not match, for `loligo explain`. For requests that
//! are served, [`super::index`] checks all rules at once; tests compare the two.
//!
//! Not known here: the effect of a rule.

use std::{borrow::Cow, cell::OnceCell, net::IpAddr};

use fields::Fields;
use http1::RequestView;
use message::Scheme;

use plan::{FieldFits, FieldIs, Minute, Rule, Verdict, When, address, host_fits};

use super::paths::{parameter, path_fits, readings, readings_to_share, split, text_fits};

/// A request in the form that rules check.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The method.
    pub method: &'a str,
    /// The scheme of the URL; a CONNECT has none.
    pub scheme: Option<Scheme>,
    /// The host as named by the client, without port and brackets; empty if there is none.
    pub host: &'a str,
    /// The port.
    pub port: u16,
    /// Path and query; `None` for CONNECT, and for a request about the whole server.
    pub path: Option<&'a str>,
    /// The fields.
    pub fields: &'a dyn FieldLines,
}

/// The fields of a request, in any representation.
pub trait FieldLines {
    /// Does `fits` accept the value of a line of this name? `None`: there is no such line.
    fn any(&self, name: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<bool>;
}

impl FieldLines for Fields {
    fn any(&self, name: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<bool> {
        let name = name.as_bytes();
        self.contains(name).then(|| self.all(name).any(fits))
    }
}

impl FieldLines for RequestView<'_, '_> {
    fn any(&self, name: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<bool> {
        let name = name.as_bytes();
        let mut is_there = None;
        for (found, value) in self.fields() {
            if found.eq_ignore_ascii_case(name) {
                if fits(value) {
                    return Some(true);
                }
                is_there = Some(false);
            }
        }
        is_there
    }
}

/// A condition that does not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unmet {
    /// `client`.
    Client,
    /// `listener`.
    Listener,
    /// `time`.
    Time,
    /// `method`.
    Method,
    /// `scheme`.
    Scheme,
    /// `host`.
    Host,
    /// `host-list`.
    HostList,
    /// `port`.
    Port,
    /// `path`.
    Path,
    /// `query`.
    Query,
    /// `header`, the condition with this number.
    Field(usize),
}

impl Unmet {
    /// The name of the condition in a configuration.
    pub fn setting(self) -> &'static str {
        match self {
            Unmet::Client => "client",
            Unmet::Listener => "listener",
            Unmet::Time => "time",
            Unmet::Method => "method",
            Unmet::Scheme => "scheme",
            Unmet::Host => "host",
            Unmet::HostList => "host-list",
            Unmet::Port => "port",
            Unmet::Path => "path",
            Unmet::Query => "query",
            Unmet::Field(_) => "header",
        }
    }
}

/// The facts of a connection that rules check.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// The client's address.
    pub client: IpAddr,
    /// The number of the listener in the plan.
    pub listener: usize,
    /// The time in the machine's time zone.
    pub local: Minute,
    /// The time in UTC.
    pub utc: Minute,
}

/// The first condition about the connection that does not hold.
pub fn unmet_by_connection(when: &When, at: &Circumstances) -> Option<Unmet> {
    let client = at.client.to_canonical();
    if !when.clients.is_empty() && !when.clients.iter().any(|net| net.contains(&client)) {
        return Some(Unmet::Client);
    }
    if !when.listeners.is_empty() && !when.listeners.contains(&at.listener) {
        return Some(Unmet::Listener);
    }
    let is_hour =
        |hours: &plan::Hours| hours.contains(if hours.is_utc { at.utc } else { at.local });
    if !when.hours.is_empty() && !when.hours.iter().any(is_hour) {
        return Some(Unmet::Time);
    }
    None
}

/// A question, with its parts in the forms that conditions compare.
pub struct Seen<'a> {
    question: Question<'a>,
    /// The method; GET stands for HEAD, too.
    method: &'a str,
    /// In lower case, without a dot at the end; addresses in their canonical form.
    host: Cow<'a, str>,
    is_address: OnceCell<bool>,
    path: Option<&'a str>,
    query: &'a str,
    /// Further readings of the path.
    readings: OnceCell<Vec<String>>,
}

impl<'a> Seen<'a> {
    /// Prepares a question; `method` is used in place of its own.
    pub fn of(question: Question<'a>, method: &'a str) -> Seen<'a> {
        let (path, query) = split(question.path);
        Seen {
            question,
            method: if method == "HEAD" { "GET" } else { method },
            host: plain_host(question.host),
            is_address: OnceCell::new(),
            path,
            query,
            readings: OnceCell::new(),
        }
    }

    /// The first condition on the request that does not hold.
    pub fn unmet(&self, rule: &Rule) -> Option<Unmet> {
        let when = &rule.when;
        if !when.methods.is_empty() && !when.methods.iter().any(|one| one == self.method) {
            return Some(Unmet::Method);
        }
        if when.scheme.is_some() && when.scheme != self.question.scheme {
            return Some(Unmet::Scheme);
        }
        if !when.hosts.is_empty() && !when.hosts.iter().any(|one| self.is_host(one)) {
            return Some(Unmet::Host);
        }
        if !when.ports.is_empty() && !when.ports.iter().any(|it| it.contains(&self.question.port)) {
            return Some(Unmet::Port);
        }
        if !when.paths.is_empty() && !self.path_fits(rule) {
            return Some(Unmet::Path);
        }
        if !when.queries.is_empty() && !when.queries.iter().any(|one| self.has_parameter(one)) {
            return Some(Unmet::Query);
        }
        let mut fields = when.fields.iter();
        if let Some(at) = fields.position(|field| !self.field_fits(field)) {
            return Some(Unmet::Field(at));
        }
        // Last, because it is the slowest.
        if !when.host_lists.is_empty()
            && !when.host_lists.iter().any(|list| list.contains(&self.host))
        {
            return Some(Unmet::HostList);
        }
        None
    }

    fn is_host(&self, pattern: &str) -> bool {
        if pattern == When::ANY_ADDRESS {
            return *(self.is_address).get_or_init(|| address(&self.host).is_some());
        }
        host_fits(pattern, &self.host)
    }

    fn path_fits(&self, rule: &Rule) -> bool {
        let Some(path) = self.path else {
            return false;
        };
        let fits = |path: &str| {
            let mut paths = rule.when.paths.iter();
            paths.any(|one| path_fits(one.as_bytes(), path))
        };
        let readings = || self.readings.get_or_init(|| readings(path)).iter();
        let shared = || readings_to_share(path).into_iter();
        let may_share = || !rule.then.shares_more() || shared().all(|it| fits(&it));
        match rule.then.verdict {
            None if rule.then.shares_less() => {
                fits(path) || readings().any(|it| fits(it)) || shared().any(|it| fits(&it))
            }
            None => fits(path) && may_share(),
            Some(Verdict::Allow) => fits(path) && readings().all(|it| fits(it)) && may_share(),
            Some(_) => fits(path) || readings().any(|it| fits(it)),
        }
    }

    fn has_parameter(&self, pattern: &str) -> bool {
        let mut parameters = self.query.split(['&', ';']).filter(|it| !it.is_empty());
        parameters.any(|it| {
            let it = parameter(it.as_bytes());
            match pattern.contains(['*', '=']) {
                true => text_fits(pattern, &it),
                false => it.split(|&byte| byte == b'=').next() == Some(pattern.as_bytes()),
            }
        })
    }

    fn field_fits(&self, field: &FieldFits) -> bool {
        let fields = self.question.fields;
        match &field.how {
            FieldIs::There(wanted) => fields.any(&field.name, &mut |_| true).is_some() == *wanted,
            FieldIs::One(patterns) => {
                let mut fits = |value: &[u8]| patterns.iter().any(|one| text_fits(one, value));
                fields.any(&field.name, &mut fits) == Some(true)
            }
        }
    }
}

/// A host in the form that rules use.
pub fn plain_host(host: &str) -> Cow<'_, str> {
    if host.contains(':')
        && let Some(address) = address(host)
    {
        return address.to_string().into();
    }
    let bare = host.strip_suffix('.').unwrap_or(host);
    match bare.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => bare.to_ascii_lowercase().into(),
        false => bare.into(),
    }
}
