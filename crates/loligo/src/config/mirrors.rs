//! Mirroring by a route: from a `[[listener.route]]` block to `proxy::plan::Mirroring`.
//!
//! Rules kept here:
//!   M1  the stripped prefix is the route's path, or the front of it
//!   M2  a route has one Host for its origin
//!   M3  a replacement has both texts
//!
//! Presets (`presets`) write these settings.

use proxy::plan::{HostPort, Mirroring, Replace};

use super::problem::Problem;
use super::raw::{Block, Given};
use super::rows::{Row, rows};
use super::values::{self, split_authority};

/// The values of a route's block that are about mirroring.
#[derive(Default)]
pub struct MirrorDraft {
    strip: Option<String>,
    origin_host: Option<String>,
    follow: Option<Vec<HostPort>>,
    from: Option<String>,
    to: Option<String>,
    types: Option<Vec<String>>,
    verify: Option<bool>,
    tokens: Option<Option<Vec<HostPort>>>,
}

/// Settings of a `[[listener.route]]` for mirrors.
pub fn rows() -> Vec<Row<MirrorDraft>> {
    rows![MirrorDraft:
        /// Taken from the front of the path before it goes to the origin: the route's `path`, or the front of it.
        "listener.route.strip": "begins with `/`", "nothing" => strip = values::route_path;
        /// The Host that the origin gets, where it is another than the origin's own. Needs `pass-host = false`.
        "listener.route.origin-host": "`HOST` or `HOST:PORT`", "the origin's" => origin_host = authority;
        /// Redirects of GET and HEAD to these hosts are followed here, three at most, and their end is stored under the URL that the client
        /// asked for. Other redirects go to the client. Cookies and credentials stay with the origin; nothing goes from https to http.
        /// Names that lead to this machine or to a link-local address are refused: such an address must be in the list itself.
        "listener.route.follow-redirects": "a list of `HOST`, `*.HOST`, `HOST:PORT`", "none" => follow = host_ports;
        /// A text that is replaced in bodies, such as the URL of a file server in an index. With it the origin is asked for bodies that are
        /// whole and not compressed; one that is compressed all the same is passed on as it is, and not stored.
        "listener.route.replace-host.from": "8 to 256 bytes", "none" => from = needle;
        /// What is written in its place: a URL of this proxy, or a path. End both with `/`, or other hosts may begin like this one.
        "listener.route.replace-host.to": "up to 256 bytes", "none" => to = replacement;
        /// The media types of bodies that are looked through; `*` at the beginning or the end is any text.
        "listener.route.replace-host.types": "a list of types", "text/html, text/plain, application/json, *+json, *+html"
            => types = media_types;
        /// A path that ends in `sha256:` and a digest is that of a body with this digest: a body with another one is cut off, and not stored.
        "listener.route.verify-digest": "`true`, `false`", "false" => verify = values::switch;
        /// A 401 that asks for a bearer token (registries do) is answered here with a token that everybody gets, from the origin or one of
        /// these hosts. Clients that send credentials of their own are passed on as they are.
        "listener.route.token-hosts": "a list of `HOST`, `*.HOST`, `HOST:PORT`, or `[]` for the origin alone", "none: a 401 goes to the client"
            => tokens = |given| host_ports(given).map(Some);
    ]
}

/// Checks the settings together. `path`: the route's; `pass_host`: the setting as written.
pub fn settle(
    draft: MirrorDraft,
    block: &Block,
    path: &str,
    pass_host: Option<bool>,
    problems: &mut Vec<Problem>,
) -> Mirroring {
    let mut complain = |key: &str, message: String| {
        problems.push(block.problem(&format!("listener.route.{key}"), message));
    };
    let strip = draft.strip.unwrap_or_default();
    let strip = strip.trim_end_matches('/');
    // M1
    let rest = path.strip_prefix(strip);
    if !rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/')) {
        complain(
            "strip",
            format!("must be the route's path, {path}, or the front of it"),
        );
    }
    // M2
    if draft.origin_host.is_some() && pass_host != Some(false) {
        let message = "takes the place of the origin's own Host; write pass-host = false, too";
        complain("origin-host", message.into());
    }
    // M3
    let types = draft.types.is_some();
    let replace = match (draft.from, draft.to) {
        (Some(from), Some(to)) => Some(Replace {
            from,
            to,
            types: draft
                .types
                .unwrap_or_else(|| Replace::TYPES.map(str::to_owned).to_vec()),
        }),
        (Some(_), None) if !block.says("listener.route.replace-host.to") => {
            complain(
                "replace-host.from",
                "is replaced by what? write replace-host.to".into(),
            );
            None
        }
        (None, Some(_)) if !block.says("listener.route.replace-host.from") => {
            complain(
                "replace-host.to",
                "takes the place of what? write replace-host.from".into(),
            );
            None
        }
        (None, None) if types => {
            let message = "belongs to replace-host.from, which is missing";
            complain("replace-host.types", message.into());
            None
        }
        _ => None,
    };
    Mirroring {
        strip: strip.to_owned(),
        origin_host: draft.origin_host,
        follow: draft.follow.unwrap_or_default(),
        replace,
        verify: draft.verify.unwrap_or(false),
        tokens: draft.tokens.flatten(),
    }
}

fn authority(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    match split_authority(text) {
        Some(_) => Ok(text.to_ascii_lowercase()),
        None => Err("expected a host, or HOST:PORT".to_owned()),
    }
}

/// Hosts with or without a port.
pub fn host_ports(given: &Given) -> Result<Vec<HostPort>, String> {
    let words = values::list(given)?;
    if words.len() > Mirroring::HOSTS_MAX {
        return Err(format!("at most {} hosts", Mirroring::HOSTS_MAX));
    }
    let one = |word: &String| {
        let (wild, rest) = match word.strip_prefix("*.") {
            Some(rest) => ("*.", rest),
            None => ("", word.as_str()),
        };
        let wrong = || {
            format!(
                "\"{word}\": expected a host such as \"files.example.org\", \"*.example.org\" or \"HOST:PORT\""
            )
        };
        let (host, port) = split_authority(rest).ok_or_else(wrong)?;
        let host = format!("{wild}{}", host.to_ascii_lowercase());
        Ok(HostPort { host, port })
    };
    words.iter().map(one).collect()
}

fn needle(given: &Given) -> Result<String, String> {
    let text = replacement(given)?;
    match text.len() < Replace::FROM_BYTES_MIN {
        true => Err(format!(
            "a text of at least {} bytes, such as \"https://files.example.org/\": a shorter one would be found where nobody meant it",
            Replace::FROM_BYTES_MIN
        )),
        false => Ok(text),
    }
}

fn replacement(given: &Given) -> Result<String, String> {
    let text = values::text(given)?;
    let is_sound =
        text.len() <= Replace::BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_graphic());
    match is_sound && !text.contains(['"', '<', '>', '\\']) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "expected at most {} visible ASCII characters, without quotes, <, > and \\",
            Replace::BYTES_MAX
        )),
    }
}

fn media_types(given: &Given) -> Result<Vec<String>, String> {
    let words = values::list(given)?;
    let is_type = |word: &String| {
        let bare = word.trim_matches('*');
        !bare.is_empty()
            && bare
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'*' && b != b';')
    };
    match words.iter().find(|word| !is_type(word)) {
        Some(word) => Err(format!(
            "\"{word}\": expected a media type, \"text/*\" or \"*+json\""
        )),
        None if words.is_empty() => Err("expected at least one media type".to_owned()),
        None => Ok(words.iter().map(|word| word.to_ascii_lowercase()).collect()),
    }
}
