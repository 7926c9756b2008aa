//! The servers of an `[[upstream]]`, as they are written: URLs, and names that lead to servers.
//!
//! Not known here: the other settings of an upstream (`upstreams`).

use proxy::plan::{Records, SERVERS_MAX, Server, ServerName};

use super::raw::{Given, Value};
use super::values;

/// The value of `servers`.
pub struct Servers {
    /// Servers given by URL.
    pub listed: Vec<Server>,
    /// Names that resolve to further servers.
    pub names: Vec<ServerName>,
}

/// A list of `URL [weight=N] [backup]`, `dns:HOST:PORT [weight=N] [backup]`, `srv:NAME [backup]`; `https://` before a name means TLS to the
/// servers it resolves to.
pub fn servers(given: &Given) -> Result<Servers, String> {
    let (mut listed, mut names) = (Vec::<Server>::new(), Vec::<ServerName>::new());
    for text in values::list(given)? {
        let mut words = text.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        let said = said(words)?;
        if let Some(name) = name(first, &said)? {
            if names.iter().any(|known| is_same(known, &name)) {
                return Err(format!("{name} is there twice"));
            }
            names.push(name);
            continue;
        }
        let one = server(first, &said, given)?;
        if listed.iter().any(|known| known.at == one.at) {
            return Err(format!("{} is there twice; give it a weight", one.at));
        }
        listed.push(one);
    }
    if listed.len() > SERVERS_MAX || names.len() > SERVERS_MAX {
        return Err(format!("at most {SERVERS_MAX} servers"));
    }
    let has_first = listed.iter().any(|server| !server.backup) || names.iter().any(|it| !it.backup);
    match has_first {
        true => Ok(Servers { listed, names }),
        false if listed.is_empty() && names.is_empty() => {
            Err("name one server at least: servers = [\"http://10.0.0.1:8080\"]".to_owned())
        }
        false => Err("one server at least must be no backup".to_owned()),
    }
}

/// The words after a server.
struct Said {
    weight: Option<u32>,
    backup: bool,
}

fn said<'a>(words: impl Iterator<Item = &'a str>) -> Result<Said, String> {
    let mut said = Said {
        weight: None,
        backup: false,
    };
    for word in words {
        let weight = word.strip_prefix("weight=").map(str::parse);
        match weight {
            _ if word == "backup" => said.backup = true,
            Some(Ok(weight @ 1..=Server::WEIGHT_MAX)) => said.weight = Some(weight),
            Some(_) => {
                let most = Server::WEIGHT_MAX;
                return Err(format!("\"{word}\": a weight is a number, 1 to {most}"));
            }
            None => {
                return Err(format!(
                    "\"{word}\": behind a server stand weight=N and backup"
                ));
            }
        }
    }
    Ok(said)
}

fn server(url: &str, said: &Said, given: &Given) -> Result<Server, String> {
    let at = values::origin(&Given {
        value: Value::Text(url.to_owned()),
        ..given.clone()
    })?;
    if !at.path.is_empty() {
        return Err(format!(
            "\"{url}\": a server has no path; write it into the route, origin = \"NAME{}\"",
            at.path
        ));
    }
    Ok(Server {
        at,
        weight: said.weight.unwrap_or(1),
        backup: said.backup,
    })
}

/// `dns:HOST:PORT` or `srv:NAME`, with or without `https://` before the name; `None`: the text begins with neither.
fn name(text: &str, said: &Said) -> Result<Option<ServerName>, String> {
    let Some((kind @ ("dns" | "srv"), rest)) = text.split_once(':') else {
        return Ok(None);
    };
    let name = rest.strip_prefix("https://");
    let (tls, rest) = (name.is_some(), name.unwrap_or(rest));
    if rest.contains('/') {
        return Err(format!(
            "\"{text}\": a name of servers is no URL: \"dns:app.internal:8080\" or \"srv:_http._tcp.app.internal\", and with TLS \"dns:https://app.internal:8443\""
        ));
    }
    let (host, records) = match kind {
        "dns" => {
            let parts = rest.rsplit_once(':');
            let port = parts.and_then(|(_, port)| port.parse().ok());
            let (Some((host, _)), Some(port @ 1..)) = (parts, port) else {
                return Err(format!("\"{text}\": expected dns:HOST:PORT"));
            };
            let weight = said.weight.unwrap_or(1);
            (host, Records::Addresses { port, weight })
        }
        _ if said.weight.is_some() => {
            let message = "the weights are those of the SRV records";
            return Err(format!("\"{text}\": {message}"));
        }
        _ => (rest, Records::Services),
    };
    if !is_host(host) {
        return Err(format!("\"{text}\": \"{host}\" is no name of a host"));
    }
    let name = ServerName {
        host: host.to_ascii_lowercase(),
        tls,
        records,
        backup: said.backup,
    };
    if tls && name.certified().starts_with('_') {
        let message = "no certificate can carry this name; write the domain behind it";
        return Err(format!("\"{text}\": {message}"));
    }
    Ok(Some(name))
}

/// A host name, which may contain `_` as names of services do, and is not an address.
fn is_host(text: &str) -> bool {
    let is_of_it = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let is_label = |it: &str| (1..=63).contains(&it.len()) && it.bytes().all(is_of_it);
    let name = text.strip_suffix('.').unwrap_or(text);
    let is_number = |it: &str| it.bytes().all(|b| b.is_ascii_digit());
    name.len() <= 253
        && name.split('.').all(is_label)
        && !name.rsplit('.').next().is_some_and(is_number)
}

/// Do both names resolve to the same servers?
fn is_same(one: &ServerName, other: &ServerName) -> bool {
    let port = |it: &ServerName| match it.records {
        Records::Addresses { port, .. } => Some(port),
        Records::Services => None,
    };
    (&one.host, one.tls, port(one)) == (&other.host, other.tls, port(other))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{complaints, settle};

    fn with(servers: &str) -> String {
        format!("[[upstream]]\nname = \"app\"\nservers = {servers}\n")
    }

    #[test]
    fn names_stand_beside_urls() {
        let text = with(
            "[\"http://a\", \"dns:App.internal:8080 weight=3\", \"srv:_http._tcp.app.internal\", \"dns:spare:80 backup\", \
             \"dns:https://app.internal:8443\", \"srv:https://_https._tcp.App.internal\"]",
        );
        let app = &settle(&text).unwrap().plan.upstreams[0];
        assert_eq!(app.servers.len(), 1);
        let told: Vec<_> = app
            .names
            .iter()
            .map(|it| format!("{it} {}", it.backup))
            .collect();
        assert_eq!(
            told,
            [
                "dns:app.internal:8080 weight=3 false",
                "srv:_http._tcp.app.internal false",
                "dns:spare:80 true",
                "dns:https://app.internal:8443 false",
                "srv:https://_https._tcp.app.internal false"
            ]
        );
        let certified: Vec<_> = app.names[3..].iter().map(|it| it.certified()).collect();
        assert_eq!(certified, ["app.internal"; 2]);
        assert!(settle(&with("[\"dns:a:80\", \"dns:a:81\"]")).is_ok());
    }

    #[test]
    fn what_is_wrong_with_a_name_is_told_with_what_to_do() {
        for (servers, words) in [
            ("[\"dns:a\"]", "expected dns:HOST:PORT"),
            ("[\"dns:a:0\"]", "expected dns:HOST:PORT"),
            ("[\"dns:a:99999\"]", "expected dns:HOST:PORT"),
            ("[\"dns:10.0.0.1:80\"]", "is no name of a host"),
            ("[\"dns:[::1]:80\"]", "is no name of a host"),
            ("[\"dns::80\"]", "is no name of a host"),
            ("[\"srv:\"]", "is no name of a host"),
            ("[\"dns:http://a:443\"]", "is no URL"),
            ("[\"dns:https://a:443/b\"]", "is no URL"),
            ("[\"dns:https://a\"]", "expected dns:HOST:PORT"),
            ("[\"srv:https://_https._tcp\"]", "the domain behind it"),
            ("[\"dns:https://a:80\", \"dns:https://a:80\"]", "twice"),
            ("[\"srv:a weight=2\"]", "those of the SRV records"),
            ("[\"dns:a:80 backup\"]", "must be no backup"),
            ("[\"dns:a:80\", \"dns:A:80 weight=2\"]", "twice"),
            ("[\"dns:a:80 bakcup\"]", "weight=N and backup"),
        ] {
            let told = complaints(&with(servers));
            assert!(told.contains(words), "{servers}: {told}");
        }
    }
}
