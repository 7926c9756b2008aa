//! Verdicts of rules on requests, and changes of fields.
//!
//! Not known here: conditions ([`When`](super::rules::When)), the order of rules (`rules::rulebook`).

use bytes::Bytes;

/// Decides whether a request is served.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is served; later rules cannot refuse it.
    Allow,
    /// It is refused with 403.
    Deny {
        /// The message for the client; `None`: a general one, that a rule refuses the request.
        words: Option<String>,
    },
    /// It gets this answer.
    Answer(Canned),
    /// It is redirected.
    Redirect {
        /// The URL.
        to: Text,
        /// 301, 302, 303, 307 or 308.
        status: u16,
    },
}

/// A fixed answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Canned {
    /// Its status, 200 to 599.
    pub status: u16,
    /// Its body.
    pub body: Bytes,
    /// The media type of the body.
    pub content_type: Option<String>,
}

impl Canned {
    /// The longest body, bytes.
    pub const BODY_BYTES_MAX: usize = 1 << 20;

    /// May an answer with this status have a body?
    pub fn has_body(status: u16) -> bool {
        !matches!(status, 204 | 205 | 304)
    }
}

/// A change of one field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Edit {
    /// The field's name, as it is sent.
    pub name: String,
    /// What is done to the field.
    pub how: How,
}

/// What is done to a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum How {
    /// All its lines are replaced by one with this value.
    Set(Text),
    /// A line with this value is added.
    Add(Text),
    /// All its lines are removed.
    Remove,
}

/// Whether an edit changes the request or the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// The request, as the origin and the cache see it.
    Request,
    /// The answer, as the client sees it.
    Response,
}

impl Edit {
    /// The most edits of one side in a rule.
    pub const EDITS_MAX: usize = 64;

    /// Why rules may not change this field, and what to use instead; `None`: they may.
    pub fn refusal(side: Side, name: &str) -> Option<&'static str> {
        let is = |names: &[&str]| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if is(&[
            "Connection",
            "Keep-Alive",
            "Proxy-Connection",
            "Proxy-Authenticate",
            "Proxy-Authorization",
            "Proxy-Authentication-Info",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
        ]) {
            return Some("is about one connection, which is the proxy's business");
        }
        if is(&[
            "Content-Length",
            "Content-Range",
            "Content-Encoding",
            "Date",
            "Via",
        ]) {
            return Some("is what the message is, or where it has been; it cannot be changed");
        }
        let begins = name.get(..7).unwrap_or_default();
        if begins.eq_ignore_ascii_case("loligo-") {
            return Some("is the proxy's own");
        }
        match side {
            Side::Request if is(&["Host"]) => {
                Some("decides which resource is meant; use the route's pass-host and origin")
            }
            Side::Request if is(&["Cache-Control", "Pragma"]) => {
                Some("is what the cache obeys; use client-directives")
            }
            Side::Request
                if is(&[
                    "Range",
                    "If-Range",
                    "If-Match",
                    "If-None-Match",
                    "If-Modified-Since",
                    "If-Unmodified-Since",
                    "Expect",
                    "Max-Forwards",
                ]) =>
            {
                Some(
                    "asks for another answer, which would be stored in the place of the one that is meant",
                )
            }
            Side::Response if is(&["Age", "Cache-Status", "Proxy-Status"]) => {
                Some("is what the proxy says of itself")
            }
            Side::Response if is(&["Vary"]) => Some("is what caches choose by; use key-fields"),
            Side::Response if is(&["ETag", "Last-Modified", "Content-Type", "Accept-Ranges"]) => {
                Some("describes the body, which rules do not change")
            }
            _ => None,
        }
    }
}

/// A text with variables, `https://${host}${path}`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Text {
    /// Its parts.
    pub pieces: Vec<Piece>,
}

/// A part of a [`Text`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Piece {
    /// Literal text.
    Plain(String),
    /// A value of the request or its answer.
    Variable(Variable),
}

macro_rules! variables {
    ($($(#[doc = $doc:literal])+ $name:ident $text:literal,)+) => {
        /// A value of a request or its answer, for use in a [`Text`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Variable { $($(#[doc = $doc])+ $name,)+ }

        impl Variable {
            /// All of them.
            pub const ALL: &[Variable] = &[$(Variable::$name,)+];

            /// The name used in a configuration.
            pub const fn as_str(self) -> &'static str {
                match self { $(Variable::$name => $text,)+ }
            }
        }
    };
}

variables! {
    /// The client's address.
    Client "client",
    /// The listener's name, or its address.
    Listener "listener",
    /// `http`, `https`.
    Scheme "scheme",
    /// The requested host, in lower case, without port.
    Host "host",
    /// The requested port.
    Port "port",
    /// The method.
    Method "method",
    /// The path, as received.
    Path "path",
    /// The query with its `?`, as received; empty without one.
    Query "query",
    /// A unique number of this request.
    Id "id",
    /// Our Cache-Status, in answers.
    CacheStatus "cache-status",
    /// The status, in answers.
    Status "status",
}

impl Variable {
    /// Is it known only once there is an answer?
    pub fn is_of_answer(self) -> bool {
        matches!(self, Variable::CacheStatus | Variable::Status)
    }
}

impl Text {
    /// The longest text, bytes.
    pub const BYTES_MAX: usize = 4096;

    /// A text without variables.
    pub fn plain(text: &str) -> Text {
        Text {
            pieces: vec![Piece::Plain(text.to_owned())],
        }
    }

    /// Reads a text. `of_answer`: may it use variables of the answer?
    ///
    /// # Errors
    /// A message for people: what is wrong with the text.
    pub fn parse(text: &str, of_answer: bool) -> Result<Text, String> {
        if text.len() > Self::BYTES_MAX {
            return Err(format!("at most {} bytes", Self::BYTES_MAX));
        }
        if !text.bytes().all(is_of_value) {
            return Err("a value has no line ends and no other control characters".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            let Some(end) = rest[at..].find('}') else {
                return Err(format!("\"{}\" is not ended by a bracket", &rest[at..]));
            };
            let name = &rest[at + 2..at + end];
            let may_stand = |it: &&Variable| of_answer || !it.is_of_answer();
            let known = Variable::ALL.iter().filter(may_stand);
            let Some(variable) = known.clone().find(|known| known.as_str() == name) else {
                let known: Vec<_> = known.map(|known| known.as_str()).collect();
                let known = known.join(", ");
                return Err(format!("there is no ${{{name}}} here; there are {known}"));
            };
            if at > 0 {
                pieces.push(Piece::Plain(rest[..at].to_owned()));
            }
            pieces.push(Piece::Variable(*variable));
            rest = &rest[at + end + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Plain(rest.to_owned()));
        }
        Ok(Text { pieces })
    }

    /// Has it no variable?
    pub fn is_plain(&self) -> bool {
        let is_plain = |piece: &Piece| matches!(piece, Piece::Plain(_));
        self.pieces.iter().all(is_plain)
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Plain(text) => f.write_str(text),
            Piece::Variable(variable) => write!(f, "${{{}}}", variable.as_str()),
        })
    }
}

/// May this byte occur in a field value?
//= rfc9110 §5.5   CR, LF and NUL are dangerous; other control characters but the tab are not legal either
pub fn is_of_value(byte: u8) -> bool {
    byte == b'\t' || byte >= b' ' && byte != 0x7f
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_told() {
        for text in [
            "",
            "a",
            "${host}",
            "a${client}b${path}${query}c",
            "$ {} $x {host}",
        ] {
            assert_eq!(Text::parse(text, false).unwrap().to_string(), text);
        }
        for text in [
            "${",
            "a${hos}",
            "a\r\nb",
            "a\0",
            "${cache-status}",
            "${status}",
            "${HOST}",
        ] {
            assert!(Text::parse(text, false).is_err(), "{text}");
        }
        assert!(Text::parse("${cache-status}", true).is_ok());
        assert!(Text::parse(&"a".repeat(Text::BYTES_MAX + 1), true).is_err());
    }

    #[test]
    fn what_breaks_http_is_refused() {
        for (side, name) in [
            (Side::Request, "host"),
            (Side::Request, "RANGE"),
            (Side::Request, "connection"),
            (Side::Request, "Cache-Control"),
            (Side::Request, "Loligo-Cluster-Lacking"),
            (Side::Response, "vary"),
            (Side::Response, "Age"),
            (Side::Response, "content-length"),
            (Side::Response, "ETag"),
        ] {
            assert!(Edit::refusal(side, name).is_some(), "{name}");
        }
        for (side, name) in [
            (Side::Request, "X-Api-Key"),
            (Side::Request, "Vary"),
            (Side::Response, "Cache-Control"),
            (Side::Response, "Set-Cookie"),
            (Side::Response, "Host"),
        ] {
            assert_eq!(Edit::refusal(side, name), None, "{name}");
        }
    }
}
