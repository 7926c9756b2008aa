//! HTTP/2 to origins: `http2` of routes and upstreams.
//!
//! Rules kept here, and nowhere else:
//!   V1  `true` needs TLS, which agrees on it; `prior-knowledge` is for plain TCP
//!   V2  a route to an upstream does not set `http2`: the upstream sets it for all its routes
//!   V3  no PROXY header: it names one client for the whole connection, and an HTTP/2 connection has requests of many clients

use proxy::plan::{Http2, Route};

use super::problem::Problem;
use super::raw::{Block, Given, Value};

/// `true`, `false` or `prior-knowledge`.
pub fn http2(given: &Given) -> Result<Option<Http2>, String> {
    match &given.value {
        Value::Switch(true) => Ok(Some(Http2::Negotiated)),
        Value::Switch(false) => Ok(None),
        Value::Text(text) if text == "prior-knowledge" => Ok(Some(Http2::Known)),
        _ => Err("expected true, false or \"prior-knowledge\"".to_owned()),
    }
}

/// V1. `at`: block and key. `tls`: is there a server with TLS, and one without?
pub fn settle(
    (block, key): (&Block, &str),
    http2: Option<Http2>,
    (has_tls, has_plain): (bool, bool),
    problems: &mut Vec<Problem>,
) -> Option<Http2> {
    let message = match http2? {
        Http2::Negotiated if !has_tls => {
            "`true` asks TLS whether the origin speaks it, and this is asked in plain HTTP: write \"prior-knowledge\" if you know that it does, or https://"
        }
        Http2::Known if !has_plain => {
            "\"prior-knowledge\" is for http://; over TLS write true: the handshake says whether the origin speaks it"
        }
        _ => return http2,
    };
    problems.push(block.problem(key, message));
    None
}

/// V1, V2, V3, for a route.
pub fn of_route(
    at: &Block,
    said: Option<Http2>,
    (route, tells_client): (&Route, bool),
    problems: &mut Vec<Problem>,
) -> Option<Http2> {
    let key = "listener.route.http2";
    let http2 = match &route.upstream {
        Some(_) => {
            if let Some(given) = at.find(key) {
                let message = "is said once for an upstream, for all its routes; write it into its block [[upstream]]";
                problems.push(given.problem(message));
            }
            route.http2
        }
        None => {
            let is_tls = route.origin.tls;
            settle((at, key), said, (is_tls, !is_tls), problems)
        }
    };
    if tells_client && http2.is_some() {
        let message = "names one client for a whole connection, which http2 shares among clients: leave one of the two out";
        problems.push(at.problem("listener.route.proxy-protocol", message));
    }
    http2
}

/// In words, to follow the words about TLS.
pub fn explain(http2: Option<Http2>) -> &'static str {
    match http2 {
        None => "",
        Some(Http2::Negotiated) => ", HTTP/2 if it agrees",
        Some(Http2::Known) => ", HTTP/2",
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{complaints, settle as settled};
    use super::*;
    use proxy::plan::Role;

    fn of(text: &str) -> Option<Http2> {
        let plan = settled(text).unwrap().plan;
        let Role::Reverse(routes) = &plan.listeners[0].role else {
            panic!("a route makes it reverse");
        };
        routes[0].http2
    }

    #[test]
    fn routes_and_upstreams_have_it() {
        let route = |origin: &str, more: &str| {
            format!("[[listener]]\n[[listener.route]]\norigin = \"{origin}\"\n{more}")
        };
        assert_eq!(of(&route("https://a.test", "")), None);
        assert_eq!(of(&route("https://a.test", "http2 = false")), None);
        assert_eq!(
            of(&route("https://a.test", "http2 = true")),
            Some(Http2::Negotiated)
        );
        assert_eq!(
            of(&route("http://a.test", "http2 = \"prior-knowledge\"")),
            Some(Http2::Known)
        );
        let upstream = "[[upstream]]\nname = \"app\"\nservers = [\"http://10.0.0.1\"]\nhttp2 = \"prior-knowledge\"\n";
        let text = format!("{}{upstream}", route("app", ""));
        assert_eq!(of(&text), Some(Http2::Known));
    }

    #[test]
    fn what_cannot_work_is_refused() {
        for (origin, more, said) in [
            ("http://a.test", "http2 = true", "write \"prior-knowledge\""),
            (
                "https://a.test",
                "http2 = \"prior-knowledge\"",
                "over TLS write true",
            ),
            ("https://a.test", "http2 = \"yes\"", "expected true, false"),
            (
                "https://a.test",
                "http2 = true\nproxy-protocol = \"v2\"",
                "leave one of the two out",
            ),
            ("app", "http2 = true", "write it into its block"),
        ] {
            let upstream = "[[upstream]]\nname = \"app\"\nservers = [\"https://10.0.0.1\"]\n";
            let text = format!(
                "[[listener]]\n[[listener.route]]\norigin = \"{origin}\"\n{more}\n{upstream}"
            );
            let problems = complaints(&text);
            assert!(problems.contains(said), "{more}: {problems}");
        }
    }
}
