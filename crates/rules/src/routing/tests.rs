//! Random routes and requests: the index finds the same route as a linear search.

use plan::OriginUrl;
use proptest::{collection::vec, option, prelude::*, sample::select};

use super::*;

fn route(host: Option<&str>, path_prefix: &str) -> Route {
    let origin = OriginUrl {
        tls: false,
        host: "o".to_owned(),
        port: 80,
        path: String::new(),
    };
    Route {
        host: host.map(str::to_owned),
        path_prefix: path_prefix.to_owned(),
        ..Route::everything_to(origin)
    }
}

fn some_route() -> impl Strategy<Value = Route> {
    let hosts = [
        "a.org",
        "b.a.org",
        "c.b.a.org",
        "org",
        "*.a.org",
        "*.b.a.org",
        "*.org",
        "A.Org",
        "*a.org",
        "*",
        "",
    ];
    let paths = [
        "/",
        "/a",
        "/a/",
        "/a/b",
        "/a/b/",
        "/ab",
        "/b",
        "",
        "/a?x",
        "/a/b/c/d/e",
        "//",
    ];
    let host = option::weighted(0.8, select(hosts.to_vec()));
    (host, select(paths.to_vec())).prop_map(|(host, path)| route(host, path))
}

fn some_path() -> impl Strategy<Value = String> {
    let pieces = ["/", "a", "b", "/a", "/b", "?", "x", "/c/d/e"];
    vec(select(pieces.to_vec()), 0..6).prop_map(|pieces| format!("/{}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]
    #[test]
    fn the_route_found_is_the_first_that_matches(
        mut routes in vec(some_route(), 0..60),
        host in select(vec!["a.org", "B.a.ORG", "x.c.b.a.org", "a.org.", "a.org..", ".a.org", "xa.org", "org", "b", "", "."]),
        path in some_path(),
        is_sorted in any::<bool>(),
    ) {
        // All configurations sort them; unsorted routes must give the same result as well.
        if is_sorted {
            routes.sort_by_key(Route::specificity);
        }
        let index = RouteIndex::new(&routes);
        let one_by_one = routes.iter().position(|route| route.matches(host, &path));
        prop_assert_eq!(index.find(host, &path), one_by_one, "{} {}", host, path);
        let all = routes.iter().enumerate().filter(|(_, route)| route.host_matches(host));
        let all: Vec<_> = all.map(|(number, _)| number).collect();
        prop_assert_eq!(index.of_host(host), all);
    }
}
