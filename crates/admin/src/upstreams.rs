//! Sets the operator's state of an upstream's server, through the admin interface.
//!
//! Not known here: which clients may do this.

use std::sync::Arc;

use super::http::Answer;
use exchange::request::purge::percent_decode;
use upstreams::{Group, Wanted};

/// The form of an order, for people.
pub const HOW: &str = "say POST /upstreams/NAME/HOST:PORT?state=drain, or up, or down";

/// Carries out an order. `path`: the part after `/upstreams/`.
pub fn order(upstreams: &[Arc<Group>], path: &str, query: Option<&str>) -> Answer {
    let word = query.and_then(|query| query.strip_prefix("state="));
    let wanted = Wanted::ALL
        .into_iter()
        .find(|(name, _)| Some(*name) == word);
    let (Some((word, wanted)), Some((name, server))) = (wanted, path.split_once('/')) else {
        return Answer::text(400, HOW);
    };
    let Some(upstream) = upstreams.iter().find(|it| it.name() == name) else {
        return Answer::text(404, &format!("there is no upstream {name}"));
    };
    let upstream = upstream.now();
    let server = percent_decode(server).unwrap_or_default();
    let Some(found) = upstream.server(&server) else {
        let names = upstream.members.iter().map(|it| &it.server.name[..]);
        let names: Vec<_> = names.collect();
        let words = format!("{name} has no server {server}; it has {}", names.join(", "));
        return Answer::text(404, &words);
    };
    found.want(wanted);
    tracing::info!(
        upstream = name,
        server = found.name,
        state = word,
        "the operator says so"
    );
    Answer::text(200, &format!("{} of {name}: {word}", found.name))
}
