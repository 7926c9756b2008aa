//! Cache-Control and Pragma.
//!
//! One reader yields `name [= argument]` members. Two structs collect them, because the same directive means
//! different things in a request and in a response (RFC 9111 §5.2).
//!
//! In doubt, the cautious reading is used:
//!   D1  a restricting directive is obeyed whatever its argument looks like; a permitting one only without an argument
//!   D2  a lifetime that is no number is 0; of several lifetimes the smallest is used; of several demands, the largest
//!   D3  a broken quotation may hide any directive, so it forbids storing
//!   D4  the qualified forms `no-cache="field"` and `private="field"` have the effect of the unqualified ones
//!
//! Not known here: the consequences of a directive.

use fields::Fields;

use crate::field_list;

/// Lifetimes and ages saturate here: 2^31 seconds, over 68 years. (RFC 9111 §1.2.2)
pub const DELTA_SECONDS_MAX: u32 = 1 << 31;

/// Which of a client's directives are obeyed. They are advice (RFC 9111 §5.2.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ClientDirectives {
    /// All of them. The answer to a reload (`no-cache`, `max-age=0`) is requested from the origin after the reload
    /// arrived.
    #[default]
    Obey,
    /// All of them, but reloads of one resource share a fetch, and an origin's answer of the last second is recent
    /// enough.
    Revalidate,
    /// Only `only-if-cached`, which saves the origin work.
    Ignore,
}

/// With [`ClientDirectives::Revalidate`], reloads of a stored response ask the origin at most once in this many
/// milliseconds.
pub const RELOAD_MS: u64 = 1000;

/// Cache-Control of a request (RFC 9111 §5.2.1), Pragma included (§5.4). `default()` stands for a request with
/// neither field.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestDirectives {
    /// Use no stored response without asking the origin.
    pub no_cache: bool,
    /// Do not store the response.
    pub no_store: bool,
    /// Do not ask the origin: a stored response or 504.
    pub only_if_cached: bool,
    /// The response may be at most this old.
    pub max_age_s: Option<u32>,
    /// The response must stay fresh for at least this long.
    pub min_fresh_s: Option<u32>,
    /// The response may have been stale for this long; `u32::MAX` without an argument.
    pub max_stale_s: Option<u32>,
    /// If the origin fails, the response may have been stale for this long (RFC 5861 §4).
    pub stale_if_error_s: Option<u32>,
    /// Do not change the content. Has no effect on caching.
    pub no_transform: bool,
    /// It is a reload that a very recent answer satisfies ([`ClientDirectives::Revalidate`]).
    pub is_patient: bool,
}

impl RequestDirectives {
    /// Reads the directives of a request.
    pub fn parse(fields: &Fields) -> Self {
        let mut found = Self::default();
        let mut any = false;
        for directive in directives(fields) {
            any = true;
            found.note(&directive);
        }
        //= rfc9111 §5.4   Pragma: no-cache of HTTP/1.0 clients, which know no Cache-Control
        if !any && !fields.contains(b"cache-control") {
            found.no_cache = pragma_no_cache(fields);
        }
        found
    }

    /// Reads the directives of a request that are obeyed.
    pub fn heeded(fields: &Fields, how: ClientDirectives) -> Self {
        let all = Self::parse(fields);
        match how {
            ClientDirectives::Obey => all,
            ClientDirectives::Revalidate => Self {
                is_patient: all.is_reload(),
                ..all
            },
            ClientDirectives::Ignore => Self {
                only_if_cached: all.only_if_cached,
                no_transform: all.no_transform,
                ..Self::default()
            },
        }
    }

    /// Do the directives allow the request to share a fetch with others?
    pub fn may_share(&self) -> bool {
        self.is_plain() || self.without_reload().is_plain()
    }

    /// The directives without the reload, if the reload is patient.
    pub(crate) fn without_reload(&self) -> Self {
        match self.is_patient {
            true => Self {
                no_cache: false,
                max_age_s: self.max_age_s.filter(|&limit_s| limit_s > 0),
                is_patient: false,
                ..*self
            },
            false => *self,
        }
    }

    fn is_reload(&self) -> bool {
        self.no_cache || self.max_age_s == Some(0)
    }

    /// True if no directive affects serving and storing, so that [`Standing::is_fresh`] alone decides.
    ///
    /// [`Standing::is_fresh`]: crate::Standing::is_fresh
    pub fn is_plain(&self) -> bool {
        Self {
            no_transform: false,
            ..*self
        } == Self::default()
    }

    fn note(&mut self, directive: &Directive) {
        let name = directive.name;
        if directive.malformed {
            self.no_cache = true;
            self.no_store = true;
        } else if is(name, "no-cache") {
            self.no_cache = true;
        } else if is(name, "no-store") {
            self.no_store = true;
        } else if is(name, "only-if-cached") {
            self.only_if_cached = true;
        } else if is(name, "no-transform") {
            self.no_transform = true;
        } else if is(name, "max-age") {
            lower(&mut self.max_age_s, directive.seconds_or_zero());
        } else if is(name, "min-fresh") {
            let asked = directive.seconds().unwrap_or(DELTA_SECONDS_MAX);
            self.min_fresh_s = Some(self.min_fresh_s.map_or(asked, |other| other.max(asked)));
        } else if is(name, "max-stale") {
            if directive.argument.is_none() {
                lower(&mut self.max_stale_s, u32::MAX);
            } else if let Some(seconds) = directive.seconds() {
                lower(&mut self.max_stale_s, seconds);
            }
        } else if is(name, "stale-if-error") {
            lower(&mut self.stale_if_error_s, directive.seconds_or_zero());
        }
        //= rfc9111 §5.2.3   unrecognised directives are ignored
    }
}

/// Cache-Control of a response (RFC 9111 §5.2.2, RFC 5861, RFC 8246).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ResponseDirectives {
    /// May be stored even if something else would forbid it.
    pub public: bool,
    /// Meant for a single user. Not set for `private` with a list of fields; see [`take_withheld`].
    ///
    /// [`take_withheld`]: crate::take_withheld
    pub private: bool,
    /// `private` came with a list of fields that cannot be obeyed.
    pub private_fields: bool,
    /// Not to be reused without asking the origin. Not set for `no-cache` with a list of fields.
    pub no_cache: bool,
    /// `no-cache` came with a list of fields that cannot be obeyed.
    pub no_cache_fields: bool,
    /// Not to be stored.
    pub no_store: bool,
    /// Not to be changed.
    pub no_transform: bool,
    /// Not to be used stale by any cache; lets a shared cache keep the answer to an authorised request.
    pub must_revalidate: bool,
    /// Not to be used stale by a shared cache.
    pub proxy_revalidate: bool,
    /// Only a cache that understands the status code may store it; such a cache may ignore `no-store`.
    pub must_understand: bool,
    /// Will not change while fresh (RFC 8246).
    pub immutable: bool,
    /// Lifetime in seconds.
    pub max_age_s: Option<u32>,
    /// Lifetime for shared caches in seconds.
    pub s_maxage_s: Option<u32>,
    /// Seconds after it becomes stale during which it may be served while it is revalidated (RFC 5861 §3).
    pub stale_while_revalidate_s: Option<u32>,
    /// Seconds after it becomes stale during which it may be served if the origin fails (RFC 5861 §4).
    pub stale_if_error_s: Option<u32>,
    /// A quoted string is broken, and directives may be hidden in it.
    pub malformed: bool,
    /// The directives come from a targeted field (RFC 9213): Cache-Control, Expires and Pragma are ignored.
    pub targeted: bool,
    /// There is a targeted field, but it is not obeyed.
    pub passed_over: bool,
}

impl ResponseDirectives {
    /// Reads the directives from the Cache-Control of a response.
    pub(crate) fn of_cache_control(fields: &Fields) -> Self {
        let mut found = Self::default();
        for directive in directives(fields) {
            //= rfc9111 §5.2.2.4   the qualified form speaks of the listed fields alone
            //= rfc9111 §5.2.2.7   the same for private
            if directive.usable_list().is_none() {
                found.note(&directive);
            }
        }
        found
    }

    /// Is the response intended for shared caches, by `public` or a positive `s-maxage`?
    pub(crate) fn shared_on_purpose(&self) -> bool {
        self.public || self.s_maxage_s.is_some_and(|seconds| seconds > 0)
    }

    /// Must no shared cache serve it stale?
    //= rfc9111 §5.2.2.10   s-maxage incorporates the semantics of proxy-revalidate
    pub(crate) fn must_not_be_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage_s.is_some()
    }

    fn note(&mut self, directive: &Directive) {
        let name = directive.name;
        let bare = directive.argument.is_none();
        if directive.malformed {
            self.malformed = true;
        } else if is(name, "max-age") {
            lower(&mut self.max_age_s, directive.seconds_or_zero());
        } else if is(name, "s-maxage") {
            lower(&mut self.s_maxage_s, directive.seconds_or_zero());
        } else if is(name, "stale-while-revalidate") {
            lower(
                &mut self.stale_while_revalidate_s,
                directive.seconds_or_zero(),
            );
        } else if is(name, "stale-if-error") {
            lower(&mut self.stale_if_error_s, directive.seconds_or_zero());
        } else if is(name, "no-store") {
            self.no_store = true;
        } else if is(name, "no-cache") {
            // An unusable list is treated as no list.
            self.no_cache = true;
            self.no_cache_fields |= !bare;
        } else if is(name, "private") {
            self.private = true;
            self.private_fields |= !bare;
        } else if is(name, "must-revalidate") {
            // With an argument it still restricts (D1) but no longer permits.
            self.must_revalidate |= bare;
            self.proxy_revalidate |= !bare;
        } else if is(name, "proxy-revalidate") {
            self.proxy_revalidate = true;
        } else if is(name, "no-transform") {
            self.no_transform = true;
        } else if is(name, "public") {
            self.public |= bare;
        } else if is(name, "immutable") {
            self.immutable |= bare;
        } else if is(name, "must-understand") {
            // It restricts storing to known statuses, and permits ignoring no-store.
            self.must_understand |= bare;
        }
        //= rfc9111 §5.2.3   unrecognised directives are ignored
    }
}

/// Is `no-cache` among the members of Pragma?
pub(crate) fn pragma_no_cache(fields: &Fields) -> bool {
    fields
        .members(b"pragma")
        .any(|member| member.eq_ignore_ascii_case(b"no-cache"))
}

/// Reads digits, saturating; `None` for anything else. (RFC 9111 §1.2.2)
pub(crate) fn delta_seconds(digits: &[u8]) -> Option<u32> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let saturate = |sum: u32, digit: &u8| {
        let sum = sum
            .saturating_mul(10)
            .saturating_add(u32::from(digit - b'0'));
        sum.min(DELTA_SECONDS_MAX)
    };
    Some(digits.iter().fold(0, saturate))
}

struct Directive<'a> {
    name: &'a [u8],
    /// The text without its quotation marks. Escapes are kept.
    argument: Option<&'a [u8]>,
    /// Blanks around `=`: readable, but against the grammar.
    sloppy: bool,
    /// A quotation mark in the wrong place.
    malformed: bool,
}

impl Directive<'_> {
    fn seconds(&self) -> Option<u32> {
        if self.sloppy {
            None
        } else {
            delta_seconds(self.argument?)
        }
    }

    /// The list of fields of a `private` or `no-cache`, if it can be obeyed.
    fn usable_list(&self) -> Option<&[u8]> {
        let qualified = is(self.name, "private") || is(self.name, "no-cache");
        let list = self.argument.filter(|_| qualified && !self.sloppy)?;
        (!self.malformed && field_list::is_usable(list)).then_some(list)
    }

    //= rfc9111 §4.2.1   invalid freshness information: consider the response stale
    fn seconds_or_zero(&self) -> u32 {
        self.seconds().unwrap_or(0)
    }
}

/// False: [`lists`] finds nothing. Called for every response that is fetched, and nearly always false, because no line contains the name
/// of a directive that may have a list.
pub(crate) fn may_have_lists(fields: &Fields) -> bool {
    let has = |line: &[u8], name: &[u8]| {
        line.windows(name.len())
            .any(|part| part.eq_ignore_ascii_case(name))
    };
    fields
        .all(b"cache-control")
        .any(|line| has(line, b"private") || has(line, b"no-cache"))
}

/// The lists of fields in `private` and `no-cache` of a response, as far as they can be obeyed.
pub(crate) fn lists(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    directives(fields).filter_map(|directive| {
        directive
            .usable_list()
            .is_some()
            .then_some(directive.argument)?
    })
}

fn directives(fields: &Fields) -> impl Iterator<Item = Directive<'_>> {
    fields.members(b"cache-control").map(directive)
}

fn directive(member: &[u8]) -> Directive<'_> {
    let Some(equals) = member.iter().position(|&byte| byte == b'=') else {
        let malformed = member.contains(&b'"');
        return Directive {
            name: member,
            argument: None,
            sloppy: false,
            malformed,
        };
    };
    let (name, argument) = (&member[..equals], &member[equals + 1..]);
    let (name_trimmed, argument_trimmed) = (name.trim_ascii(), argument.trim_ascii());
    let sloppy = name_trimmed.len() != name.len() || argument_trimmed.len() != argument.len();
    let unquoted = quotation(argument_trimmed);
    let malformed = name.contains(&b'"') || (unquoted.is_none() && argument.contains(&b'"'));
    let argument = Some(unquoted.unwrap_or(argument_trimmed));
    Directive {
        name: name_trimmed,
        argument,
        sloppy,
        malformed,
    }
}

/// The content of `text` if it is one quoted string. (RFC 9110 §5.6.4)
fn quotation(text: &[u8]) -> Option<&[u8]> {
    let inside = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut escaped = false;
    for &byte in inside {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return None,
            _ => {}
        }
    }
    (!escaped).then_some(inside)
}

fn is(name: &[u8], directive: &str) -> bool {
    name.eq_ignore_ascii_case(directive.as_bytes())
}

fn lower(slot: &mut Option<u32>, seconds: u32) {
    *slot = Some(slot.map_or(seconds, |other| other.min(seconds)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rules;
    use crate::testing::fields;

    fn response(value: &str) -> ResponseDirectives {
        ResponseDirectives::parse(
            &fields(&format!("Cache-Control: {value}")),
            &Rules::default(),
        )
    }

    fn request(text: &str) -> RequestDirectives {
        RequestDirectives::parse(&fields(text))
    }

    #[test]
    fn what_counts_of_a_request() {
        let all = "Cache-Control: no-cache, no-store, max-age=0, min-fresh=3, max-stale=9, stale-if-error=4, \
                   only-if-cached, no-transform";
        let heeded = |text: &str, how| RequestDirectives::heeded(&fields(text), how);
        assert_eq!(heeded(all, ClientDirectives::Obey), request(all));
        let patient = heeded(all, ClientDirectives::Revalidate);
        assert!(patient.is_patient && patient.no_store && !patient.may_share());
        assert_eq!(
            heeded(all, ClientDirectives::Ignore),
            RequestDirectives {
                only_if_cached: true,
                no_transform: true,
                ..RequestDirectives::default()
            }
        );
        for reload in [
            "Cache-Control: no-cache",
            "Cache-Control: max-age=0",
            "Pragma: no-cache",
        ] {
            assert!(heeded(reload, ClientDirectives::Revalidate).may_share());
            assert!(!heeded(reload, ClientDirectives::Revalidate).is_plain());
            assert!(!heeded(reload, ClientDirectives::Obey).may_share());
            assert!(heeded(reload, ClientDirectives::Ignore).is_plain());
        }
        assert!(!heeded("Cache-Control: max-age=1", ClientDirectives::Revalidate).may_share());
    }

    #[test]
    fn lifetimes() {
        for (value, expected) in [
            ("max-age=60", Some(60)),
            ("MAX-AGE=60", Some(60)),
            ("max-age=\"60\"", Some(60)),
            ("max-age=060", Some(60)),
            ("public, max-age=60", Some(60)),
            ("public,max-age=60,", Some(60)),
            ("max-age=60, max-age=30", Some(30)),
            ("max-age=60 & Cache-Control: max-age=30", Some(30)),
            ("max-age=2147483648", Some(1 << 31)),
            ("max-age=2147483649", Some(1 << 31)),
            ("max-age=99999999999999999999999", Some(1 << 31)),
            ("max-age=-1", Some(0)),
            ("max-age=+1", Some(0)),
            ("max-age=1.5", Some(0)),
            ("max-age=1e3", Some(0)),
            ("max-age=60s", Some(0)),
            ("max-age=", Some(0)),
            ("max-age", Some(0)),
            ("max-age=\"\"", Some(0)),
            ("max-age='60'", Some(0)),
            ("max-age = 60", Some(0)),
            ("max-age= 60", Some(0)),
            ("max-age=60, max-age=oops", Some(0)),
            ("max-age=60 no-transform", Some(0)),
            ("xmax-age=60", None),
            ("max-agee=60", None),
            ("ext=\"max-age=60\"", None),
            ("", None),
        ] {
            assert_eq!(response(value).max_age_s, expected, "{value}");
        }
    }

    #[test]
    fn restrictions_are_believed_however_written() {
        assert!(response("NO-STORE").no_store);
        assert!(response("no-store=1").no_store);
        assert!(response("no-store =\"x\"").no_store);
        assert!(response("private=\"set-cookie b\"").private);
        assert!(response("private=\"\"").private);
        assert!(response("private=\"\"").private_fields);
        assert!(!response("no-cache").no_cache_fields);
        assert!(response("private =set-cookie").private);
        assert!(response("private=set-cookie, private").private);
        assert!(response("no-cache=\"a, vary\", max-age=3").no_cache);
        assert_eq!(
            response("no-cache=\"a, max-age=9\", max-age=3").max_age_s,
            Some(3)
        );
        assert!(response("must-revalidate=1").must_not_be_stale());
        assert!(!response("must-revalidate=1").must_revalidate);
    }

    #[test]
    fn a_list_of_fields_speaks_of_them_alone() {
        assert!(!response("private=\"set-cookie\"").private);
        assert!(!response("private=set-cookie").private);
        assert!(!response("no-cache=\"a, b\", max-age=3").no_cache);
        assert!(response("no-cache=\"a, b\", private").private);
    }

    #[test]
    fn permissions_must_be_written_correctly() {
        assert!(response("Public").public);
        assert!(!response("public=1").public);
        assert!(!response("immutable=yes").immutable);
        assert!(response("s-maxage=60").shared_on_purpose());
        assert!(!response("s-maxage=x").shared_on_purpose());
    }

    #[test]
    fn broken_quotations_may_hide_anything() {
        for value in [
            "foo=\"bar, no-store",
            "foo=a\"b, no-store",
            "\"foo, no-store",
            "f\"o=1, no-store",
            "a=\"b\\\"",
        ] {
            let found = response(value);
            assert!(found.malformed || found.no_store, "{value}");
        }
        assert!(!response("foo=\"b\\\"ar\", max-age=3").malformed);
        let asked = request("Cache-Control: foo=\"bar");
        assert!(asked.no_store && asked.no_cache);
    }

    #[test]
    fn demands() {
        let asked = request(
            "Cache-Control: max-age=5, min-fresh=3, min-fresh=7, max-stale, only-if-cached",
        );
        assert_eq!(asked.max_age_s, Some(5));
        assert_eq!(asked.min_fresh_s, Some(7));
        assert_eq!(asked.max_stale_s, Some(u32::MAX));
        assert!(asked.only_if_cached && !asked.is_plain());
        assert_eq!(
            request("Cache-Control: max-stale=9, max-stale").max_stale_s,
            Some(9)
        );
        assert_eq!(request("Cache-Control: max-stale=x").max_stale_s, None);
        assert_eq!(
            request("Cache-Control: min-fresh=x").min_fresh_s,
            Some(DELTA_SECONDS_MAX)
        );
        assert_eq!(
            request("Cache-Control: stale-if-error=4").stale_if_error_s,
            Some(4)
        );
    }

    #[test]
    fn plain_requests() {
        assert!(request("Host: a").is_plain());
        assert!(request("Cache-Control: no-transform, foo=bar").is_plain());
        assert!(!request("Cache-Control: max-age=0").is_plain());
    }

    #[test]
    fn pragma_counts_only_alone() {
        assert!(request("Pragma: no-cache").no_cache);
        assert!(request("Pragma: foo, No-Cache").no_cache);
        assert!(!request("Pragma: no-cache & Cache-Control: max-age=5").no_cache);
        assert!(!request("Pragma: no-cache & Cache-Control:").no_cache);
        assert!(!request("Pragma: foo").no_cache);
    }
}
