//! The operator's rules: which of them apply to an exchange, and their combined effect.
//!
//! All rules are checked in order. Each effect is taken from the first applicable rule that has it. (The changes to a key are
//! one effect.) So special rules come first, general ones last.
//!
//! Once per connection, client, listener and time are looked up ([`Standing`]). Once per request, `index` finds the rules whose conditions
//! hold ([`Met`]), all at once. These rules determine whether the request is served ([`Verdict`]), the key ([`Shape`]), whether the
//! cache is bypassed, and which fields are changed (`edits`). Once per response, the rules that were met are checked against its
//! status and type, which gives the [`Decision`]. Without rules all this costs one check of an empty
//! list.
//!
//! The first rule that allows, denies, answers or redirects decides whether a request is served. The effects of other rules on the cache, on
//! fields and on tags still apply. A request forwarded by a cluster member gets no verdict here; that member has made it.
//!
//! Keys: ignored parameters are cut from the URI in the key; the origin gets all of them. Fields and cookies in the key are
//! in the key of the variant, name and value, as if the response had named them in Vary. So a purge of the URI covers all
//! variants, and a request that meets other rules finds none of them.
//!
//! Keys are the same for all methods, because a POST invalidates what a GET stored. So rules about keys are checked as if
//! the method were GET.
//!
//! Limits: those of [`Rule`]. A Cookie field of 64 KiB may make a key too long for any store; the object is then kept in
//! memory only.
//! Not known here: stored objects, sockets.

pub mod edits;
pub mod fits;
mod index;
mod paths;
mod shape;
mod standing;

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use fields::Fields;
use smallvec::SmallVec;

use plan::{ClientDirectives, Edit, Rule, Verdict, When};

use fits::{Circumstances, Seen, unmet_by_connection};
pub use fits::{Question, Unmet};
pub use index::Among;
use index::Index;
pub use shape::Shape;
pub use standing::{Clock, Standing};

/// The rules of a plan.
#[derive(Debug, Default)]
pub struct Rulebook {
    rules: Vec<Rule>,
    /// Each rule's changes to keys.
    shapes: Vec<Option<Shape>>,
    /// The changes to keys without duplicates.
    shapes_once: Vec<Shape>,
    /// The conditions of the rules.
    index: Index,
    /// The effects of each rule.
    says: Vec<Says>,
    /// The effects that any rule has.
    any_says: Says,
    /// The tags without duplicates.
    tags: Vec<String>,
    /// Each rule's tag.
    tag_of: Vec<Option<Tag>>,
    clock: Clock,
}

/// The kinds of effects and conditions that a rule has, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Says(u16);

impl Says {
    const VERDICT: Says = Says(1);
    const TAG: Says = Says(1 << 1);
    const REQUEST_EDITS: Says = Says(1 << 2);
    const RESPONSE_EDITS: Says = Says(1 << 3);
    const SHAPE: Says = Says(1 << 4);
    const BYPASS: Says = Says(1 << 5);
    const STRIP_COOKIES: Says = Says(1 << 6);
    const CLIENT_DIRECTIVES: Says = Says(1 << 7);
    const QUOTAS: Says = Says(1 << 8);
    /// It has a condition about the response.
    const ASKS_OF_RESPONSE: Says = Says(1 << 9);
    /// It has a condition about the time.
    const TIME: Says = Says(1 << 10);

    fn of(rule: &Rule) -> Says {
        let (when, then) = (&rule.when, &rule.then);
        let said = [
            (then.verdict.is_some(), Says::VERDICT),
            (then.tag.is_some(), Says::TAG),
            (!then.request_edits.is_empty(), Says::REQUEST_EDITS),
            (!then.response_edits.is_empty(), Says::RESPONSE_EDITS),
            (then.key.is_some(), Says::SHAPE),
            (then.bypass.is_some(), Says::BYPASS),
            (then.strip_cookies.is_some(), Says::STRIP_COOKIES),
            (then.client_directives.is_some(), Says::CLIENT_DIRECTIVES),
            (!then.quotas.is_empty(), Says::QUOTAS),
            (when.asks_of_response(), Says::ASKS_OF_RESPONSE),
            (!when.hours.is_empty(), Says::TIME),
        ];
        let said = said.into_iter().filter(|(is_said, _)| *is_said);
        said.fold(Says::default(), |all, (_, one)| all.or(one))
    }

    fn or(self, other: Says) -> Says {
        Says(self.0 | other.0)
    }

    fn has(self, one: Says) -> bool {
        self.0 & one.0 != 0
    }
}

/// The rules whose conditions about connection and request hold, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Met(SmallVec<[u32; 6]>);

impl Met {
    /// These rules, in order.
    fn of(rules: &[u32]) -> Met {
        Met(SmallVec::from_slice(rules))
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers of the rules, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|&at| at as usize)
    }
}

/// The number of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u32);

/// The rules that a request meets, and the rules that it would meet as a GET.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MetBy {
    met: Met,
    /// Only if they differ from `met`.
    as_get: Option<Met>,
}

/// The combined effect on a request.
#[derive(Clone, Debug, Default)]
pub struct Ruled<'a> {
    /// The rules to check against the response.
    pub met: Met,
    /// The decision whether the request is served, and the number of the rule that made it.
    pub verdict: Option<(usize, &'a Verdict)>,
    /// The request's tag, see [`Rulebook::tag`].
    pub tag: Option<Tag>,
    /// The change of the key.
    pub shape: Option<&'a Shape>,
    /// Bypass the cache?
    pub bypass: bool,
    /// Remove its cookies?
    pub strip_cookies: bool,
    /// The client directives that are obeyed, if a rule overrides the listener.
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

    /// The Set-Cookie lines that only the requesting client gets, while the rest of the response is shared.
    pub fn cookies_of(&self, response: &Fields) -> Bytes {
        let mut lines = Vec::new();
        if !self.rules.store_set_cookie && !self.strip_set_cookie {
            httpcache::take_cookies(&mut response.clone()).write_to(&mut lines);
        }
        lines.into()
    }
}

impl Rulebook {
    /// Prepares the rules of a plan.
    pub fn new(rules: &[Rule]) -> Rulebook {
        let says: Vec<Says> = rules.iter().map(Says::of).collect();
        let any_says = says.iter().copied().fold(Says::default(), Says::or);
        let shape = |rule: &Rule| rule.then.key.as_ref().map(Shape::new);
        let shapes: Vec<Option<Shape>> = rules.iter().map(shape).collect();
        let tags = tags_of(rules);
        Rulebook {
            shapes_once: once(&shapes),
            shapes,
            index: Index::new(rules),
            says,
            any_says,
            tag_of: tags_by_rule(rules, &tags),
            tags,
            clock: Clock::new(any_says.has(Says::TIME)),
            rules: rules.to_vec(),
        }
    }

    /// Is the book empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that a request meets. `among`: the values found for its connection.
    pub fn met(&self, among: &Among, question: &Question<'_>) -> MetBy {
        if self.is_empty() {
            return MetBy::default();
        }
        let as_get = match question.method {
            "GET" | "HEAD" => None,
            // For other methods only the rules about keys are checked as for GET.
            _ if !self.any_says.has(Says::SHAPE) => None,
            _ => Some(self.index.met(among, question, "GET")),
        };
        MetBy {
            met: self.index.met(among, question, question.method),
            as_get,
        }
    }

    /// The effect on a request that meets these rules. `is_own`: no cluster member has decided on it already.
    pub fn request(&self, met: MetBy, is_own: bool) -> Ruled<'_> {
        let MetBy { met, as_get } = met;
        let mut ruled = Ruled::default();
        let (mut said, mut shapes) = (Says::default(), None);
        for at in met.iter() {
            let (says, then) = (self.says[at], &self.rules[at].then);
            if says.has(Says::SHAPE) && shapes.is_none() {
                shapes = Some(at);
            }
            if says.has(Says::ASKS_OF_RESPONSE) {
                continue;
            }
            // True for the first rule with this effect.
            let new = |what: Says| says.has(what) && !said.has(what);
            if new(Says::VERDICT) && is_own {
                ruled.verdict = then.verdict.as_ref().map(|verdict| (at, verdict));
            }
            if new(Says::TAG) {
                ruled.tag = self.tag_of[at];
            }
            if new(Says::BYPASS) {
                ruled.bypass = then.bypass == Some(true);
            }
            if new(Says::STRIP_COOKIES) {
                ruled.strip_cookies = then.strip_cookies == Some(true);
            }
            if new(Says::CLIENT_DIRECTIVES) {
                ruled.client_directives = then.client_directives;
            }
            said = said.or(says);
        }
        if let Some(as_get) = as_get {
            shapes = as_get.iter().find(|&at| self.says[at].has(Says::SHAPE));
        }
        ruled.shape = shapes.and_then(|at| self.shapes[at].as_ref());
        ruled.met = met;
        ruled
    }

    /// The number of the first of these rules that names quotas.
    pub fn quotas_of(&self, met: &Met) -> Option<usize> {
        met.iter().find(|&at| self.says[at].has(Says::QUOTAS))
    }

    /// The values found for a connection.
    pub fn among(&self, at: &Circumstances) -> Among {
        self.index.among(at)
    }

    /// For each rule, the first condition that does not hold, in the order in which conditions are checked.
    pub fn reasons(&self, at: &Circumstances, question: &Question<'_>) -> Vec<Option<Unmet>> {
        let seen = Seen::of(*question, question.method);
        let reason = |rule: &Rule| unmet_by_connection(&rule.when, at).or_else(|| seen.unmet(rule));
        self.rules.iter().map(reason).collect()
    }

    /// The rules.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The name of a tag.
    pub fn tag(&self, tag: Option<Tag>) -> &[u8] {
        let tag = tag.and_then(|tag| self.tags.get(tag.0 as usize));
        tag.map_or(b"", |tag| tag.as_bytes())
    }

    /// Does a rule among these change fields of the request?
    pub fn changes_requests(&self, met: &Met) -> bool {
        met.iter().any(|at| self.says[at].has(Says::REQUEST_EDITS))
    }

    /// Does a rule among these change fields of the answer?
    #[inline]
    pub fn changes_answers(&self, met: &Met) -> bool {
        met.iter().any(|at| self.says[at].has(Says::RESPONSE_EDITS))
    }

    /// The changes of a request that meets these rules.
    pub fn request_edits(&self, met: &Met) -> Vec<&Edit> {
        let before = (met.iter()).filter(|&at| !self.says[at].has(Says::ASKS_OF_RESPONSE));
        edits::that_count(before.map(|at| &self.rules[at].then.request_edits[..]))
    }

    /// The changes of an answer to a request that meets these rules.
    pub fn response_edits(&self, met: &Met, status: u16, content_type: &[u8]) -> Vec<&Edit> {
        let speaking = (met.iter()).filter(|&at| self.says[at].has(Says::RESPONSE_EDITS));
        let content_type = Some(content_type).filter(|it| !it.is_empty());
        let fitting =
            speaking.filter(|&at| response_fits(&self.rules[at].when, status, content_type));
        edits::that_count(fitting.map(|at| &self.rules[at].then.response_edits[..]))
    }

    /// The effect on a response to a request that met these rules.
    pub fn response(
        &self,
        met: &Met,
        status: u16,
        content_type: Option<&[u8]>,
        general: &httpcache::Rules,
    ) -> Decision {
        let mut decision = Decision::general(general);
        if met.is_empty() {
            return decision;
        }
        let mut said = Then::default();
        for rule in met.iter().map(|at| &self.rules[at]) {
            if !response_fits(&rule.when, status, content_type) {
                continue;
            }
            let then = &rule.then;
            // `bypass` of a rule without conditions on the response was applied before the origin was asked.
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

    /// All changes to keys, without duplicates, for a URL that any rule may apply to.
    pub fn shapes(&self) -> &[Shape] {
        &self.shapes_once
    }
}

/// The tags of rules, without duplicates.
pub fn tags_of(rules: &[Rule]) -> Vec<String> {
    let mut seen = HashSet::new();
    let tags = rules.iter().filter_map(|rule| rule.then.tag.as_ref());
    tags.filter(|tag| seen.insert(*tag)).cloned().collect()
}

fn tags_by_rule(rules: &[Rule], tags: &[String]) -> Vec<Option<Tag>> {
    let numbers: HashMap<&str, u32> = tags.iter().map(String::as_str).zip(0..).collect();
    let number = |tag: &String| numbers.get(tag.as_str()).copied().map(Tag);
    let tags = rules.iter().map(|rule| rule.then.tag.as_ref());
    tags.map(|tag| tag.and_then(number)).collect()
}

/// The changes to keys without duplicates.
fn once(shapes: &[Option<Shape>]) -> Vec<Shape> {
    let mut seen = HashSet::new();
    let shapes = shapes.iter().flatten();
    shapes
        .filter(|shape| seen.insert(*shape))
        .cloned()
        .collect()
}

/// Like [`plan::Then`], in seconds; collects the effects of several rules.
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

#[cfg(test)]
mod cost;
#[cfg(test)]
mod tests;
