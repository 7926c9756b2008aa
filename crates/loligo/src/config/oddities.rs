//! Notes on settings that work, but probably not as meant.
//!
//! None of them is refused: some people may mean them, and a file that was good must stay good with a newer version.
//!
//! Not known here: rules that never have an effect (`shadowed`), what the machine lacks (`surroundings`).

use ipnet::IpNet;
use proxy::plan::{Listener, Role};

use super::problem::Problem;
use super::raw::{Block, Given, Raw, Value};

/// Settings whose texts may contain variables.
const WITH_VARIABLES: [&str; 5] = [
    "rule.redirect",
    "rule.request-set",
    "rule.request-add",
    "rule.response-set",
    "rule.response-add",
];

/// Adds all notes. `listeners` are the plans of the listeners' blocks.
pub fn note(raw: &Raw, listeners: &[Listener], notes: &mut Vec<String>) {
    let mut problems = Vec::new();
    let default = [Block::default()];
    let blocks = match &raw.listeners[..] {
        [] => &default,
        blocks => blocks,
    };
    for (block, listener) in blocks.iter().zip(listeners) {
        problems.extend(stars(block));
        problems.extend(purges_by_all(block, listener));
        problems.extend(open_proxy(block, listener));
    }
    let texts = raw.rules.iter().flat_map(|rule| &rule.given);
    problems.extend(texts.filter_map(bare_variable));
    notes.extend(problems.iter().map(Problem::to_string));
}

/// Stars in the paths of routes, which are not patterns.
fn stars(block: &Block) -> impl Iterator<Item = Problem> {
    block.routes.iter().filter_map(|route| {
        let given = route.find("listener.route.path")?;
        let Value::Text(path) = &given.value else {
            return None;
        };
        let (before, _) = path.split_once('*')?;
        let meant = match before.trim_end_matches('/') {
            "" => "/",
            path => path,
        };
        Some(given.problem(format!(
            "the * stands for itself: a route takes its path and all below it; write \"{meant}\""
        )))
    })
}

fn purges_by_all(block: &Block, listener: &Listener) -> Option<Problem> {
    let given = block.find("listener.purge-from")?;
    has_everybody(&listener.purge_from).then(|| {
        given.problem(
            "whoever may use this listener may empty the cache with PURGE; name the machines on which the application runs",
        )
    })
}

fn open_proxy(block: &Block, listener: &Listener) -> Option<Problem> {
    let is_forward = matches!(listener.role, Role::Forward(_));
    let is_local = listener.address.ip().to_canonical().is_loopback();
    let knows_clients = (listener.tls.as_ref())
        .and_then(|tls| tls.clients.as_ref())
        .is_some_and(|clients| clients.are_required);
    let is_open = is_forward && !is_local && !knows_clients && has_everybody(&listener.allow);
    is_open.then(|| {
        block.problem(
            "listener.allow",
            "everybody may use this forward proxy, and strangers will, to hide behind its address; name your networks, unless a \
             firewall or rules keep the others out",
        )
    })
}

fn has_everybody(networks: &[IpNet]) -> bool {
    networks.iter().any(|network| network.prefix_len() == 0)
}

/// A variable written as in nginx, such as `$host`.
fn bare_variable(given: &Given) -> Option<Problem> {
    let key = given.key.as_str();
    let may_have = |setting: &str| {
        let rest = key.strip_prefix(setting);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    if !WITH_VARIABLES.into_iter().any(may_have) {
        return None;
    }
    let Value::Text(text) = &given.value else {
        return None;
    };
    let name = text.split('$').skip(1).find_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = &rest[..end.unwrap_or(rest.len())];
        name.starts_with(|c: char| c.is_ascii_lowercase())
            .then_some(name)
    })?;
    // A part of a secret is secret, too.
    let name = if given.is_secret() { "…" } else { name };
    Some(given.problem(format!(
        "${name} is sent as it stands here; a variable has braces, such as ${{host}} or ${{path}}"
    )))
}

#[cfg(test)]
mod tests {
    use crate::config::testing::settle;

    fn notes(text: &str) -> Vec<String> {
        settle(text).unwrap().notes
    }

    #[test]
    fn a_star_in_the_path_of_a_route_is_noted() {
        let route = |path: &str| {
            format!("[[listener]]\n[[listener.route]]\npath = \"{path}\"\norigin = \"http://a\"\n")
        };
        assert_eq!(notes(&route("/api")), [""; 0]);
        for (path, meant) in [("/api/*", "/api"), ("/*", "/"), ("/a/*/b", "/a")] {
            assert_eq!(
                notes(&route(path)),
                [format!(
                    "loligo.toml:3: listener.route.path = \"{path}\": the * stands for itself: a route takes its path and all below it; write \"{meant}\""
                )]
            );
        }
    }

    #[test]
    fn a_variable_without_braces_is_noted() {
        let told = notes(
            "[[rule]]\nscheme = \"http\"\nredirect = \"https://$host$request_uri\"\n[[rule]]\nhost = \"b\"\nredirect = \"https://${host}/a$1\"\n\
             [[rule]]\npath = \"/c\"\nresponse-set = { X-Cost = \"5 $\", X-From = \"$remote_addr\" }\n\
             [[rule]]\npath = \"/d\"\nrequest-set = { X-Secret = \"$secret\" }\n",
        );
        assert_eq!(
            told,
            [
                "loligo.toml:3: rule.redirect = \"https://$host$request_uri\": $host is sent as it stands here; a variable has braces, such as ${host} or ${path}",
                "loligo.toml:9: rule.response-set.X-From = \"$remote_addr\": $remote_addr is sent as it stands here; a variable has braces, such as ${host} or ${path}",
                "loligo.toml:12: rule.request-set.X-Secret = …: $… is sent as it stands here; a variable has braces, such as ${host} or ${path}",
            ]
        );
    }

    #[test]
    fn purges_by_everybody_and_open_proxies_are_noted() {
        let told = notes(
            "[[listener]]\naddress = \"0.0.0.0:80\"\nallow = \"any\"\norigin = \"http://10.0.0.1\"\npurge-from = \"any\"\n\
             [[listener]]\naddress = \"0.0.0.0:3128\"\nallow = \"any\"\n[[listener]]\naddress = \"127.0.0.1:3131\"\nallow = \"any\"\n\
             [[listener]]\naddress = \"0.0.0.0:3132\"\nallow = \"10.0.0.0/8\"\npurge-from = \"10.0.0.1\"\n",
        );
        assert_eq!(
            told,
            [
                "loligo.toml:5: listener.purge-from = \"any\": whoever may use this listener may empty the cache with PURGE; name the machines on which the application runs",
                "loligo.toml:8: listener.allow = \"any\": everybody may use this forward proxy, and strangers will, to hide behind its address; name your networks, unless a firewall or rules keep the others out",
            ]
        );
    }
}
