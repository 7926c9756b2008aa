//! The operator's rules: which rules apply to an exchange, and their combined effect.
//!
//! All rules are checked in order. For each effect, the first rule that applies and has it counts. (The changes to a key are
//! one effect.) So special rules come first, general ones last.
//!
//! Once a connection: the conditions about client, listener and time leave some rules ([`Standing`]). Once a request: of those, the conditions
//! about the request (`index`) give one bit for each rule ([`Met`]). From these bits follow whether it is served ([`Verdict`]), the key
//! ([`Shape`]), whether the cache is bypassed, and which fields are changed (`edits`). Once a response: the rules that were
//! met are checked against its status and type, which gives the [`Decision`]. Without rules all this costs a look at an empty
//! list.
//!
//! The first rule that allows, denies, answers or redirects ends the question whether a request is served; what other rules say of the
//! cache, of fields and tags counts all the same. What a member of our cluster forwards was asked there.
//!
//! Keys: ignored parameters are cut from the URI in the key; the origin gets all of them. Fields and cookies in the key are
//! in the key of the variant, name and value, as if the response had named them in Vary. So a purge of the URI takes all of
//! them, and a request that meets other rules finds none of them.
//!
//! Keys are the same for all methods, because a POST invalidates what a GET stored. So the rules about keys are checked as
//! for GET.
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

use bytes::Bytes;
use fields::Fields;

use plan::{ClientDirectives, Edit, Rule, Verdict, When};

use fits::{Circumstances, Seen, unmet_by_connection};
pub use fits::{Question, Unmet};
use index::Index;
pub use shape::Shape;
pub use standing::{Clock, Standing};

/// The rules of a plan.
#[derive(Debug, Default)]
pub struct Rulebook {
    rules: Vec<Rule>,
    /// Each rule's changes to keys.
    shapes: Vec<Option<Shape>>,
    /// Their conditions about requests.
    index: Index,
    /// Which rules say what.
    says: Says,
    /// The tags, each once.
    tags: Vec<String>,
    /// Each rule's tag.
    tag_of: Vec<Option<Tag>>,
    clock: Clock,
}

/// Which rules say a thing.
#[derive(Clone, Copy, Debug, Default)]
struct Says {
    verdict: Met,
    tag: Met,
    request_edits: Met,
    response_edits: Met,
    shape: Met,
    bypass: Met,
    strip_cookies: Met,
    client_directives: Met,
    quotas: Met,
    /// Those with a condition about the response.
    asks_of_response: Met,
    /// Those with a condition about the time.
    time: Met,
}

const _: () = assert!(Rule::RULES_MAX <= u128::BITS as usize);

/// The rules whose conditions about the request hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Met(u128);

impl Met {
    /// No rule.
    pub const NONE: Met = Met(0);

    /// Is there none?
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn and(self, other: Met) -> Met {
        Met(self.0 & other.0)
    }

    fn but(self, other: Met) -> Met {
        Met(self.0 & !other.0)
    }

    fn first(self) -> Option<usize> {
        (self.0 != 0).then(|| self.0.trailing_zeros() as usize)
    }

    /// The numbers of the rules, in order.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let at = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(at)
        })
    }
}

/// The number of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u8);

/// The rules that a request meets, and those that it would meet as a GET.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MetBy {
    met: Met,
    as_get: Met,
}

/// The combined effect on a request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ruled<'a> {
    /// The rules to check against the response.
    pub met: Met,
    /// What ends the question whether it is served, and the number of that rule.
    pub verdict: Option<(usize, &'a Verdict)>,
    /// What it is called, see [`Rulebook::tag`].
    pub tag: Option<Tag>,
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
    /// Prepares rules.
    pub fn new(rules: &[Rule]) -> Rulebook {
        assert!(rules.len() <= Rule::RULES_MAX, "{} rules", rules.len());
        let shape = |rule: &Rule| rule.then.key.as_ref().map(Shape::new);
        let those = |say: fn(&Rule) -> bool| {
            let bits = rules.iter().enumerate();
            Met(bits.fold(0, |bits, (at, rule)| bits | u128::from(say(rule)) << at))
        };
        let time = those(|rule| !rule.when.hours.is_empty());
        let tags = tags_of(rules);
        Rulebook {
            shapes: rules.iter().map(shape).collect(),
            index: Index::new(rules),
            says: Says {
                verdict: those(|rule| rule.then.verdict.is_some()),
                tag: those(|rule| rule.then.tag.is_some()),
                request_edits: those(|rule| !rule.then.request_edits.is_empty()),
                response_edits: those(|rule| !rule.then.response_edits.is_empty()),
                shape: those(|rule| rule.then.key.is_some()),
                bypass: those(|rule| rule.then.bypass.is_some()),
                strip_cookies: those(|rule| rule.then.strip_cookies.is_some()),
                client_directives: those(|rule| rule.then.client_directives.is_some()),
                quotas: those(|rule| !rule.then.quotas.is_empty()),
                asks_of_response: those(|rule| rule.when.asks_of_response()),
                time,
            },
            tag_of: rules.iter().map(|rule| tag_of(rule, &tags)).collect(),
            tags,
            clock: Clock::new(!time.is_empty()),
            rules: rules.to_vec(),
        }
    }

    /// Is the book empty?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that a request meets. `among`: those that its connection may meet.
    pub fn met(&self, among: Met, question: &Question<'_>) -> MetBy {
        if among.is_empty() {
            return MetBy::default();
        }
        let met = self.met_as(among, question, question.method);
        let as_get = match question.method {
            "GET" | "HEAD" => met,
            // Of these only the rules about keys are looked at.
            _ => self.met_as(among.and(self.says.shape), question, "GET"),
        };
        MetBy { met, as_get }
    }

    fn met_as(&self, among: Met, question: &Question<'_>, method: &str) -> Met {
        self.index.met(among, question, method)
    }

    /// The effect on a request that meets these rules. `is_own`: it was not asked about by a member of our cluster already.
    pub fn request(&self, met: MetBy, is_own: bool) -> Ruled<'_> {
        let MetBy { met, as_get } = met;
        if met.is_empty() && as_get.is_empty() {
            return Ruled::default();
        }
        let says = &self.says;
        let before = met.but(says.asks_of_response);
        let rule = |among: Met, say: Met| among.and(say).first().map(|at| &self.rules[at].then);
        let verdict = before.and(says.verdict).first().filter(|_| is_own);
        Ruled {
            met,
            verdict: verdict.and_then(|at| Some((at, self.rules[at].then.verdict.as_ref()?))),
            tag: before.and(says.tag).first().and_then(|at| self.tag_of[at]),
            shape: as_get
                .and(says.shape)
                .first()
                .and_then(|at| self.shapes[at].as_ref()),
            bypass: rule(before, says.bypass).and_then(|then| then.bypass) == Some(true),
            strip_cookies: rule(before, says.strip_cookies).and_then(|then| then.strip_cookies)
                == Some(true),
            client_directives: rule(before, says.client_directives)
                .and_then(|then| then.client_directives),
        }
    }

    /// The number of the first of these rules that names quotas.
    pub fn quotas_of(&self, met: Met) -> Option<usize> {
        met.and(self.says.quotas).first()
    }

    /// The rules that a connection may meet.
    pub fn among(&self, at: &Circumstances) -> Met {
        let rules = self.rules.iter().enumerate();
        let may = rules.filter(|(_, rule)| unmet_by_connection(&rule.when, at).is_none());
        Met(may.fold(0, |bits, (number, _)| bits | 1 << number))
    }

    /// For each rule the first condition that does not hold, in the order in which rules are asked.
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
        let tag = tag.and_then(|tag| self.tags.get(usize::from(tag.0)));
        tag.map_or(b"", |tag| tag.as_bytes())
    }

    /// Does a rule among these change fields of the request?
    pub fn changes_requests(&self, met: Met) -> bool {
        !met.and(self.says.request_edits).is_empty()
    }

    /// Does a rule among these change fields of the answer?
    #[inline]
    pub fn changes_answers(&self, met: Met) -> bool {
        !met.and(self.says.response_edits).is_empty()
    }

    /// The changes of a request that meets these rules.
    pub fn request_edits(&self, met: Met) -> Vec<&Edit> {
        let before = met.but(self.says.asks_of_response);
        let speaking = before.and(self.says.request_edits).iter();
        edits::that_count(speaking.map(|at| &self.rules[at].then.request_edits[..]))
    }

    /// The changes of an answer to a request that meets these rules.
    pub fn response_edits(&self, met: Met, status: u16, content_type: &[u8]) -> Vec<&Edit> {
        let speaking = met.and(self.says.response_edits).iter();
        let content_type = Some(content_type).filter(|it| !it.is_empty());
        let fitting =
            speaking.filter(|&at| response_fits(&self.rules[at].when, status, content_type));
        edits::that_count(fitting.map(|at| &self.rules[at].then.response_edits[..]))
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

    fn of(&self, met: Met) -> impl Iterator<Item = (usize, &Rule)> {
        met.iter().map(|at| (at, &self.rules[at]))
    }
}

/// The tags of rules, each once.
pub fn tags_of(rules: &[Rule]) -> Vec<String> {
    let mut tags: Vec<String> = Vec::new();
    for tag in rules.iter().filter_map(|rule| rule.then.tag.as_ref()) {
        if !tags.contains(tag) {
            tags.push(tag.clone());
        }
    }
    tags
}

fn tag_of(rule: &Rule, tags: &[String]) -> Option<Tag> {
    let at = tags
        .iter()
        .position(|known| Some(known) == rule.then.tag.as_ref())?;
    u8::try_from(at).ok().map(Tag)
}

/// Like [`plan::Then`], in seconds, while it is collected from several rules.
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
