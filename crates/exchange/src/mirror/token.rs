//! Bearer tokens of registries: the challenge of a 401, the request for a token, and the valid tokens.
//!
//! A registry answers 401 and names a token server (`WWW-Authenticate: Bearer realm=…,service=…,scope=…`). The proxy fetches a token in
//! place of its clients, without credentials, so the token is one that every client gets.
//!
//! Not known here: sockets.

use std::{collections::HashMap, rc::Rc, time::Duration};

use fields::Fields;
use message::{Named, Scheme};

use crate::mirror::redirect::Next;
use base::clock::Instant;
use origin::Destination;

/// The most tokens that a worker keeps for a route.
const TOKENS_MAX: usize = 1024;
/// The longest answer of a token server, bytes.
pub const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The longest token, bytes.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// How long a token is valid if its server does not say (the Docker registry's rule).
const GOOD_FOR: Duration = Duration::from_secs(60);
/// The longest time that a token is used.
const GOOD_FOR_MAX: Duration = Duration::from_secs(3600);
/// A token is not used in the last seconds of its validity.
const MARGIN: Duration = Duration::from_secs(5);

/// The challenge of a 401.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Challenge {
    realm: String,
    service: Option<String>,
    scope: Option<String>,
}

impl Challenge {
    /// The first bearer challenge in an answer's fields.
    pub fn of(fields: &Fields) -> Option<Challenge> {
        fields.all(b"www-authenticate").find_map(|value| {
            let value = std::str::from_utf8(value).ok()?;
            let begin = value.to_ascii_lowercase().find("bearer ")?;
            Challenge::parse(&value[begin + "bearer ".len()..])
        })
    }

    fn parse(mut text: &str) -> Option<Challenge> {
        let mut challenge = Challenge::default();
        loop {
            text = text.trim_start_matches([' ', '\t', ',']);
            let Some((name, rest)) = text.split_once('=') else {
                break;
            };
            let name = name.trim().to_ascii_lowercase();
            if name.contains(' ') {
                break; // the next challenge
            }
            let (value, rest) = match rest.strip_prefix('"') {
                Some(quoted) => unquoted(quoted)?,
                None => {
                    let end = rest.find([',', ' ']).unwrap_or(rest.len());
                    (rest[..end].to_owned(), &rest[end..])
                }
            };
            match name.as_str() {
                "realm" => challenge.realm = value,
                "service" => challenge.service = Some(value),
                "scope" => challenge.scope = Some(value),
                _ => {}
            }
            text = rest;
        }
        (!challenge.realm.is_empty()).then_some(challenge)
    }

    /// The token server, and the target of the request to it.
    pub fn leads(&self) -> Option<Next> {
        let named = Named::parse(&self.realm)?;
        let mut target = match named.path {
            "" => "/".to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("/{path}"),
        };
        let asked = [("service", &self.service), ("scope", &self.scope)];
        for (name, value) in asked {
            let Some(value) = value else { continue };
            target.push(if target.contains('?') { '&' } else { '?' });
            target.push_str(name);
            target.push('=');
            escape(value, &mut target);
        }
        Some(Next {
            destination: Destination {
                tls: named.scheme == Scheme::Https,
                host: named.authority.host.to_ascii_lowercase().into(),
                port: named.port(),
                member: None,
                terms: None,
                http2: None,
            },
            target,
        })
    }
}

/// Parses a quoted string behind its first quote. Returns the rest behind it as well.
fn unquoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            char => value.push(char),
        }
    }
    None
}

fn escape(value: &str, out: &mut String) {
    for byte in value.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
}

/// The scope of a token: the repository of a target (`/v2/library/alpine/…`), or the target itself.
pub fn scope_of(target: &str) -> &str {
    let path = target.split('?').next().unwrap_or_default();
    let ends = ["/manifests/", "/blobs/", "/tags/", "/referrers/"];
    let end = ends.iter().filter_map(|end| path.rfind(end)).max();
    &path[..end.unwrap_or(path.len())]
}

/// The token in a token server's answer, and how long it is valid.
pub fn token_of(answer: &[u8]) -> Option<(Rc<str>, Duration)> {
    let answer: serde_json::Value = serde_json::from_slice(answer).ok()?;
    let field = |name: &str| answer.get(name)?.as_str();
    let token = field("token").or_else(|| field("access_token"))?;
    let is_sound = !token.is_empty()
        && token.len() <= TOKEN_BYTES_MAX
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    let seconds = answer.get("expires_in").and_then(|value| value.as_u64());
    let good_for = seconds.map_or(GOOD_FOR, Duration::from_secs);
    let good_for = good_for.min(GOOD_FOR_MAX).saturating_sub(MARGIN);
    is_sound.then(|| (token.into(), good_for))
}

/// The tokens of a route.
#[derive(Default)]
pub struct Tokens {
    known: HashMap<Box<str>, (Rc<str>, Instant)>,
}

impl Tokens {
    /// The valid token for this scope, if there is one.
    pub fn get(&self, scope: &str, now: Instant) -> Option<Rc<str>> {
        let (token, until) = self.known.get(scope)?;
        (*until > now).then(|| Rc::clone(token))
    }

    /// Stores a token. Returns whether a valid one was dropped to make room.
    pub fn put(&mut self, scope: &str, token: Rc<str>, until: Instant, now: Instant) -> bool {
        if self.known.len() >= TOKENS_MAX && !self.known.contains_key(scope) {
            self.known.retain(|_, (_, until)| *until > now);
        }
        let mut has_dropped = false;
        if self.known.len() >= TOKENS_MAX && !self.known.contains_key(scope) {
            let first = self.known.iter().min_by_key(|(_, (_, until))| *until);
            if let Some(scope) = first.map(|(scope, _)| scope.clone()) {
                self.known.remove(&scope);
                has_dropped = true;
            }
        }
        self.known.insert(scope.into(), (token, until));
        has_dropped
    }

    /// Removes a token that the registry did not accept.
    pub fn forget(&mut self, scope: &str) {
        self.known.remove(scope);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn challenge(value: &str) -> Option<Challenge> {
        let mut fields = Fields::new();
        fields.push(b"WWW-Authenticate", value.as_bytes());
        Challenge::of(&fields)
    }

    #[test]
    fn a_challenge_says_where_a_token_is() {
        let found = challenge(
            r#"Basic realm="x", Bearer realm="https://auth.example/token?a=b",service="reg \"1\"", scope="repository:a/b:pull,push""#,
        )
        .unwrap();
        let next = found.leads().unwrap();
        assert_eq!(next.destination.to_string(), "https://auth.example");
        assert_eq!(
            next.target,
            "/token?a=b&service=reg%20%221%22&scope=repository:a/b:pull%2Cpush"
        );
        assert_eq!(
            challenge("bearer realm=http://a/t")
                .unwrap()
                .leads()
                .unwrap()
                .target,
            "/t"
        );
        for none in [
            "Basic realm=\"x\"",
            "Bearer",
            "Bearer realm=\"",
            "Bearer service=\"x\"",
        ] {
            assert_eq!(challenge(none), None, "{none}");
        }
        for nowhere in ["Bearer realm=\"/token\"", "Bearer realm=\"ftp://a/\""] {
            assert!(challenge(nowhere).unwrap().leads().is_none());
        }
    }

    #[test]
    fn tokens_are_for_repositories() {
        for (target, scope) in [
            ("/v2/a/b/manifests/latest", "/v2/a/b"),
            ("/v2/a/b/blobs/sha256:00?ns=x", "/v2/a/b"),
            ("/v2/blobs/blobs/blobs/x", "/v2/blobs/blobs"),
            ("/v2/", "/v2/"),
        ] {
            assert_eq!(scope_of(target), scope);
        }
    }

    #[test]
    fn only_sound_answers_count() {
        let (token, good_for) = token_of(br#"{"access_token":"t","expires_in":300}"#).unwrap();
        assert_eq!((&*token, good_for), ("t", Duration::from_secs(295)));
        let (_, good_for) = token_of(br#"{"token":"t","expires_in":99999999999}"#).unwrap();
        assert!(good_for <= GOOD_FOR_MAX);
        for bad in [
            &b"{}"[..],
            br#"{"token":"a\r\nb"}"#,
            br#"{"token":""}"#,
            b"[",
            br#"{"token":1}"#,
        ] {
            assert!(token_of(bad).is_none());
        }
    }

    #[test]
    fn the_table_is_bounded_and_says_what_it_drops() {
        let mut tokens = Tokens::default();
        let now = Instant::now();
        let until = |seconds| now + Duration::from_secs(seconds);
        for number in 0..TOKENS_MAX as u64 {
            assert!(!tokens.put(&number.to_string(), "t".into(), until(number), now));
        }
        // The first token has expired by now.
        assert!(!tokens.put("x", "t".into(), until(5000), now));
        assert!(tokens.put("y", "t".into(), until(5000), now));
        assert_eq!(tokens.known.len(), TOKENS_MAX);
        assert!(tokens.get("1", now).is_none() && tokens.get("2", now).is_some());
        assert!(tokens.get("2", until(3)).is_none());
    }
}
