//! The operator's rules: which rules apply to an exchange, and their combined effect.
//!
//! All rules are checked in order. For each effect, the first rule that applies and has it counts. (The changes to a key are
//! one effect.) So special rules come first, general ones last.
//!
//! Once a request: the conditions about host, path and method give one bit for each rule ([`Met`]). From these bits follow
//! the key ([`Shape`]), whether the cache is bypassed, and whether cookies are removed. Once a response: the rules that were
//! met are checked against its status and type, which gives the [`Decision`]. Without rules all this costs a look at an empty
//! list.
//!
//! Keys: ignored parameters are cut from the URI in the key; the origin gets all of them. Fields and cookies in the key are
//! in the key of the variant, name and value, as if the response had named them in Vary. So a purge of the URI takes all of
//! them, and a request that meets other rules finds none of them.
//!
//! Keys are the same for all methods, because a POST invalidates what a GET stored. So the rules about keys are checked as
//! for GET.
//!
//! Paths are compared after undoing escapes of unreserved characters, so that `/%61` does not evade a rule for `/a`.
//!
//! Limits: those of [`Rule`]. A Cookie field of 64 KiB may make a key too long for any store; the object is then kept in
//! memory only.
//! Not known here: stored objects, sockets.

use bytes::Bytes;
use fields::Fields;

use crate::plan::{ClientDirectives, KeyRule, Rule, When, host_fits};

/// The rules of a plan.
#[derive(Debug, Default)]
pub struct Rulebook {
    rules: Vec<Rule>,
    /// Each rule's changes to keys.
    shapes: Vec<Option<Shape>>,
    /// Bits of the rules that are not for this listener.
    others: u128,
}

const _: () = assert!(Rule::RULES_MAX <= u128::BITS as usize);

/// The rules whose conditions about the request hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met(u128);

/// The combined effect on a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ruled<'a> {
    /// The rules to check against the response.
    pub met: Met,
    /// The change of the key.
    pub shape: Option<&'a Shape>,
    /// Bypass the cache?
    pub bypass: bool,
    /// Remove its cookies?
    pub strip_cookies: bool,
    /// The client directives that count, if a rule says so and not the listener.
    pub client_directives: Option<ClientDirectives>,
}

/// The combined effect on a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Lifetimes.
    pub rules: httpcache::Rules,
    /// May it be stored?
    pub stores: bool,
    /// The longest object to store.
    pub object_bytes_max: u64,
    /// Remove its cookies?
    pub strip_set_cookie: bool,
}

impl Decision {
    /// The decision without a rule.
    pub fn general(rules: &httpcache::Rules) -> Decision {
        Decision {
            rules: *rules,
            stores: true,
            object_bytes_max: u64::MAX,
            strip_set_cookie: false,
        }
    }

    /// The cookies, as field lines, that only the requesting client gets, while the rest is for all.
    pub fn cookies_of(&self, response: &Fields) -> Bytes {
        let mut lines = Vec::new();
        if !self.rules.store_set_cookie && !self.strip_set_cookie {
            httpcache::take_cookies(&mut response.clone()).write_to(&mut lines);
        }
        lines.into()
    }
}

impl Rulebook {
    /// Prepares rules for a listener. What other listeners' rules do to keys is known all the same.
    pub fn of_listener(rules: &[Rule], number: usize) -> Rulebook {
        let is_of_another = |rule: &Rule| {
            let listeners = &rule.when.listeners;
            !listeners.is_empty() && !listeners.contains(&number)
        };
        let bits = rules.iter().enumerate();
        let bit = |(at, rule)| u128::from(is_of_another(rule)) << at;
        Rulebook {
            others: bits.map(bit).fold(0, |all, bit| all | bit),
            ..Rulebook::new(rules)
        }
    }

    /// Prepares rules.
    pub fn new(rules: &[Rule]) -> Rulebook {
        assert!(rules.len() <= Rule::RULES_MAX, "{} rules", rules.len());
        let shape = |rule: &Rule| rule.then.key.as_ref().map(Shape::new);
        Rulebook {
            shapes: rules.iter().map(shape).collect(),
            rules: rules.to_vec(),
            others: 0,
        }
    }

    /// Is the book empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The effect on a request for this host and path (a query may follow it).
    pub fn request(&self, method: &str, host: &str, path: &str) -> Ruled<'_> {
        if self.is_empty() {
            return Ruled::default();
        }
        let met = self.met(method, host, path);
        let as_get = match method {
            "GET" | "HEAD" => met,
            _ => self.met("GET", host, path),
        };
        let before = || {
            self.of(met)
                .filter(|(_, rule)| !rule.when.asks_of_response())
        };
        let says = |what: fn(&Rule) -> Option<bool>| {
            before().find_map(|(_, rule)| what(rule)).unwrap_or(false)
        };
        Ruled {
            met,
            shape: self.of(as_get).find_map(|(at, _)| self.shapes[at].as_ref()),
            bypass: says(|rule| rule.then.bypass),
            strip_cookies: says(|rule| rule.then.strip_cookies),
            client_directives: before().find_map(|(_, rule)| rule.then.client_directives),
        }
    }

    /// The number of the first of these rules that names quotas.
    pub fn quotas_of(&self, met: Met) -> Option<usize> {
        let mut rules = self.of(met);
        let (at, _) = rules.find(|(_, rule)| !rule.then.quotas.is_empty())?;
        Some(at)
    }

    /// The effect on a response to a request that met these rules.
    pub fn response(
        &self,
        met: Met,
        status: u16,
        content_type: Option<&[u8]>,
        general: &httpcache::Rules,
    ) -> Decision {
        let mut decision = Decision::general(general);
        if met.0 == 0 {
            return decision;
        }
        let mut said = Then::default();
        for (_, rule) in self.of(met) {
            if !response_fits(&rule.when, status, content_type) {
                continue;
            }
            let then = &rule.then;
            // A rule without conditions about the response was applied before the origin was asked.
            if rule.when.asks_of_response() {
                said.bypass = said.bypass.or(then.bypass);
            } else {
                said.client_directives = said.client_directives.or(then.client_directives);
            }
            said.strip_set_cookie = said.strip_set_cookie.or(then.strip_set_cookie);
            if rule.when.keeps(status) {
                said.ttl = said.ttl.or(then.ttl.map(seconds));
                said.ttl_min = said.ttl_min.or(then.ttl_min.map(seconds));
            }
            said.ttl_max = said.ttl_max.or(then.ttl_max.map(seconds));
            said.default_ttl = said.default_ttl.or(then.default_ttl.map(seconds));
            said.negative_ttl = said.negative_ttl.or(then.negative_ttl.map(seconds));
            let while_revalidate = then.stale_while_revalidate.map(seconds);
            said.stale_while_revalidate = said.stale_while_revalidate.or(while_revalidate);
            said.stale_if_error = said.stale_if_error.or(then.stale_if_error.map(seconds));
            said.object_bytes_max = said.object_bytes_max.or(then.object_bytes_max);
        }
        decision.stores = !said.bypass.unwrap_or(false);
        decision.strip_set_cookie = said.strip_set_cookie.unwrap_or(false);
        decision.object_bytes_max = said.object_bytes_max.unwrap_or(u64::MAX);
        let rules = &mut decision.rules;
        rules.ttl_s = said.ttl;
        rules.ttl_min_s = said.ttl_min.unwrap_or(0);
        rules.ttl_max_s = said.ttl_max.unwrap_or(rules.ttl_max_s);
        rules.default_ttl_s = said.default_ttl.unwrap_or(rules.default_ttl_s);
        rules.negative_ttl_s = said.negative_ttl.unwrap_or(rules.negative_ttl_s);
        let while_revalidate_s = said.stale_while_revalidate;
        rules.stale_while_revalidate_s =
            while_revalidate_s.unwrap_or(rules.stale_while_revalidate_s);
        rules.stale_if_error_s = said.stale_if_error.unwrap_or(rules.stale_if_error_s);
        rules.client_directives = said.client_directives.unwrap_or(rules.client_directives);
        decision
    }

    /// All changes to keys, for a URL that may have met any rule.
    pub fn shapes(&self) -> impl Iterator<Item = &Shape> {
        self.shapes.iter().flatten()
    }

    fn met(&self, method: &str, host: &str, path: &str) -> Met {
        let path = path.split(['?', '#']).next().unwrap_or_default();
        // An empty path (`http://host?query`) is "/".
        let path = if path.is_empty() { "/" } else { path };
        let method = if method == "HEAD" { "GET" } else { method };
        let fits = |rule: &Rule| request_fits(&rule.when, method, host, path);
        let bits = self.rules.iter().enumerate();
        let met = bits.fold(0, |bits, (at, rule)| bits | u128::from(fits(rule)) << at);
        Met(met & !self.others)
    }

    fn of(&self, met: Met) -> impl Iterator<Item = (usize, &Rule)> {
        let is_met = move |at: &usize| met.0 >> at & 1 == 1;
        let rules = self.rules.iter().enumerate();
        rules.filter(move |(at, _)| is_met(at))
    }
}

/// Like [`crate::plan::Then`], in seconds, while it is collected from several rules.
#[derive(Default)]
struct Then {
    bypass: Option<bool>,
    strip_set_cookie: Option<bool>,
    ttl: Option<u32>,
    ttl_min: Option<u32>,
    ttl_max: Option<u32>,
    default_ttl: Option<u32>,
    negative_ttl: Option<u32>,
    stale_while_revalidate: Option<u32>,
    stale_if_error: Option<u32>,
    client_directives: Option<ClientDirectives>,
    object_bytes_max: Option<u64>,
}

fn seconds(time: std::time::Duration) -> u32 {
    u32::try_from(time.as_secs()).unwrap_or(u32::MAX)
}

fn request_fits(when: &When, method: &str, host: &str, path: &str) -> bool {
    let any = |list: &[String], fits: &dyn Fn(&str) -> bool| {
        list.is_empty() || list.iter().any(|one| fits(one))
    };
    any(&when.methods, &|one| one == method)
        && any(&when.hosts, &|one| host_fits(one, host))
        && any(&when.paths, &|one| path_fits(one.as_bytes(), path))
}

fn response_fits(when: &When, status: u16, content_type: Option<&[u8]>) -> bool {
    let statuses = &when.statuses;
    let of_status = |&(first, last): &(u16, u16)| first <= status && status <= last;
    if !statuses.is_empty() && !statuses.iter().any(of_status) {
        return false;
    }
    if when.content_types.is_empty() {
        return true;
    }
    let Some(value) = content_type else {
        return false;
    };
    let bare = value.split(|&b| b == b';').next().unwrap_or_default();
    let bare = bare.trim_ascii();
    when.content_types
        .iter()
        .any(|one| match one.strip_suffix('*') {
            Some(front) => {
                let head = bare.get(..front.len());
                head.is_some_and(|head| head.eq_ignore_ascii_case(front.as_bytes()))
            }
            None => bare.eq_ignore_ascii_case(one.as_bytes()),
        })
}

/// `/a` matches `/a` and `/a/b`; a pattern with `*` must match the whole path.
fn path_fits(pattern: &[u8], path: &str) -> bool {
    let path = Plain(path.as_bytes());
    if pattern.contains(&b'*') {
        return glob_fits(pattern, path);
    }
    let mut rest = path;
    let begins = pattern.iter().all(|&byte| rest.next() == Some(byte));
    begins && (pattern.ends_with(b"/") || matches!(rest.next(), None | Some(b'/')))
}

/// Greedy, backtracking to the last `*` only: at most as many steps as the product of both lengths.
fn glob_fits(pattern: &[u8], text: Plain<'_>) -> bool {
    let (mut at, mut text) = (0, text);
    let mut star: Option<(usize, Plain<'_>)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, text));
            continue;
        }
        let mut rest = text;
        match (rest.next(), pattern.get(at)) {
            (None, None) => return true,
            (Some(byte), Some(&wanted)) if byte == wanted => (at, text) = (at + 1, rest),
            _ => {
                // Let the star match one byte more.
                let Some((behind, from)) = &mut star else {
                    return false;
                };
                if from.next().is_none() {
                    return false;
                }
                (at, text) = (*behind, *from);
            }
        }
    }
}

/// A path's bytes, with escapes of unreserved characters undone.
//= rfc3986 §6.2.2.2   an escaped unreserved character is the same as the character
#[derive(Clone, Copy)]
struct Plain<'a>(&'a [u8]);

impl Iterator for Plain<'_> {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        if let [b'%', high, low, rest @ ..] = self.0
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            let byte = high << 4 | low;
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.0 = rest;
                return Some(byte);
            }
        }
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }
}

fn digit(hex: u8) -> Option<u8> {
    char::from(hex).to_digit(16).map(|digit| digit as u8)
}

/// A rule's changes to keys.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shape(KeyRule);

impl Shape {
    fn new(key: &KeyRule) -> Shape {
        let mut key = key.clone();
        key.fields.sort_unstable();
        key.fields.dedup();
        key.cookies.sort_unstable();
        key.cookies.dedup();
        Shape(key)
    }

    /// Are fields or cookies part of the key?
    pub fn has_extras(&self) -> bool {
        !self.0.fields.is_empty() || !self.0.cookies.is_empty()
    }

    /// Cuts ignored parameters from the URI that begins at `from`.
    pub fn cut_query(&self, out: &mut Vec<u8>, from: usize) {
        if self.0.ignore_query.is_empty() {
            return;
        }
        let Some(mark) = memchr::memchr(b'?', &out[from..]) else {
            return;
        };
        let start = from + mark + 1;
        let (mut read, mut write, end) = (start, start, out.len());
        let mut kept = 0;
        loop {
            let stop = memchr::memchr(b'&', &out[read..end]).map_or(end, |len| read + len);
            if !self.ignores(&out[read..stop]) {
                if kept > 0 {
                    out[write] = b'&';
                    write += 1;
                }
                kept += 1;
                out.copy_within(read..stop, write);
                write += stop - read;
            }
            if stop == end {
                break;
            }
            read = stop + 1;
        }
        out.truncate(if kept == 0 { start - 1 } else { write });
    }

    fn ignores(&self, parameter: &[u8]) -> bool {
        let name = parameter.split(|&b| b == b'=').next().unwrap_or_default();
        // Some origins treat `;` like `&`: after it there may be a parameter that is not ignored.
        let hides = memchr::memchr(b';', parameter).is_some();
        self.0.ignore_query.iter().any(|one| {
            let one = one.as_bytes();
            match one.strip_suffix(b"*") {
                Some(b"") => true,
                Some(front) => !hides && name.starts_with(front),
                None => !hides && name == one,
            }
        })
    }

    /// The fields and cookies with the request's values: for each its name and `=`, the number of values, and each value
    /// after its length.
    pub fn extras(&self, request: &Fields) -> Vec<u8> {
        let mut out = Vec::new();
        for name in &self.0.fields {
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            httpcache::vary_key_of(name.as_bytes(), request, &mut out);
        }
        for name in &self.0.cookies {
            out.extend_from_slice(b"cookie:");
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            // All cookies of that name, because the origin may use any of them.
            let values: Vec<&[u8]> = cookies(request, name.as_bytes()).collect();
            out.extend_from_slice(&(values.len() as u32).to_le_bytes());
            for value in values {
                out.extend_from_slice(&(value.len() as u32).to_le_bytes());
                out.extend_from_slice(value);
            }
        }
        out
    }
}

/// The values of the cookies of that name (RFC 6265 §4.2.1; names are case-sensitive).
fn cookies<'a>(request: &'a Fields, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let lines = request.all(b"cookie");
    let pairs = lines.flat_map(|line| line.split(|&b| b == b';'));
    pairs.filter_map(move |pair| {
        let (found, value) = pair.split_at(memchr::memchr(b'=', pair)?);
        (found.trim_ascii() == name).then(|| value[1..].trim_ascii())
    })
}

#[cfg(test)]
mod tests;
