//! Where a request would go, and why, in words, for `loligo accelerate --dry-run` and `GET /cluster/route?url=`.
//!
//! No other host is asked: the answer comes from what is known now.
//!
//! Not known here: how a request is sent.

use std::{fmt::Write as _, rc::Rc};

use hints::view::Groups;

use cache::Cache;
use cluster::{Cluster, Standing, choosing, following::trace_of, routing::Reason};
use exchange::{listener::ListenerState, request::target};
use plan::{ClusterMiss, ClusterRoute};
use rules::key::{KEY_PREFIX, name_of_key};

/// Why there is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unexplained {
    /// This proxy has no cluster, or is not a front.
    #[error("this proxy is no front: [cluster] with front = true, or loligo accelerate")]
    NoFront,
    /// This is not an absolute URL, or no listener accepts it.
    #[error("no listener takes this URL; a whole one is wanted, such as http://www.example.org/")]
    NoListener,
}

/// Describes the fate of a plain GET of this URL, listener by listener.
///
/// # Errors
/// No listener accepts such a URL, or this proxy is not a front.
pub fn explain(
    cluster: Option<&Cluster>,
    cache: &Cache,
    listeners: &[Rc<ListenerState>],
    url: &str,
    now_ms: u64,
) -> Result<String, Unexplained> {
    let cluster = cluster.ok_or(Unexplained::NoFront)?;
    let mut reader = cluster.reader().ok_or(Unexplained::NoFront)?;
    let hints = reader.groups();
    let mut out = String::new();
    for (listener, name) in listeners.iter().zip(&cluster.listeners) {
        let Ok(place) = target::locate(listener, "GET", url, None) else {
            continue;
        };
        let ruled = place.ruled_plain(listener, now_ms);
        let mut key = Vec::new();
        place.write_key(ruled.shape, &mut key);
        let _ = writeln!(out, "listener {name} ({}):", listener.name);
        match ruled.bypass {
            true => out += "  a rule says that the cache is passed by: the origin is asked\n",
            false => one(cache, (cluster, hints), &key, &mut out),
        }
    }
    match out.is_empty() {
        true => Err(Unexplained::NoListener),
        false => Ok(out),
    }
}

/// Describes it for one key.
fn one(cache: &Cache, (cluster, hints): (&Cluster, &Groups), key: &[u8], out: &mut String) {
    let name = name_of_key(key);
    let primary = cache.hasher().hash(name);
    let uri = String::from_utf8_lossy(name.strip_prefix(KEY_PREFIX).unwrap_or(name));
    let _ = writeln!(out, "  is stored as {uri}");
    if cache.memory.get(primary, key).is_some() || cache.store.of(primary).may_answer(primary) {
        *out += "  is stored here: it is answered from here, or validated\n";
        return;
    }
    *out += "  is not stored here\n";
    let holders = hints.nodes(trace_of(name));
    for (id, member) in cluster.members() {
        let holding = choosing::is_node(hints, id).then_some(holders & id.bit() != 0);
        let standing = cluster.standing(id);
        let _ = write!(out, "  member {}: {}", member.name(), standing.as_str());
        if let Some(meaning) = standing.meaning() {
            let _ = write!(out, " ({meaning})");
        }
        match standing {
            // Hints of a member that is away are not used.
            Standing::Away => out.push('\n'),
            _ => {
                let _ = writeln!(out, "; {}", holds(holding));
            }
        }
    }
    let _ = writeln!(out, "  so {}", decision(cluster, hints, name));
}

/// Whether a member seems to hold the object. `holding`: do hints say so; `None`: it has no store.
fn holds(holding: Option<bool>) -> &'static str {
    match holding {
        None => "has no store, or has not said yet what is in it",
        Some(true) => "seems to have it",
        Some(false) => "does not seem to have it",
    }
}

fn decision(cluster: &Cluster, hints: &Groups, name: &[u8]) -> String {
    let Some(route) = cluster.route(hints, name) else {
        return match (cluster.plan.route, cluster.plan.miss) {
            (ClusterRoute::Hints, ClusterMiss::Own) => "this proxy fetches it itself".to_owned(),
            _ => "this proxy fetches it itself, for it is its home or nobody else can be asked"
                .to_owned(),
        };
    };
    let members = route.members.iter().flatten();
    let names = members.filter_map(|id| Some(cluster.member(*id)?.name()));
    let names: Vec<std::sync::Arc<str>> = names.collect();
    let why = match route.reason {
        Reason::Hint => "by hints",
        Reason::Home => "the home of what no member has",
        Reason::Order => "by route",
    };
    format!(
        "{} is asked ({why}), then this proxy fetches it itself",
        names.join(", then ")
    )
}
