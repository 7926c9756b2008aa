//! Which origins of a plan have TLS by settings of their own, and which are believed unseen.
//!
//! Not known here: what the settings mean (`origin_tls`).

use std::sync::Arc;

use crate::{OriginTls, Plan, Role};

impl Plan {
    /// The settings of origins that have their own, each as often as it is used.
    pub fn own_tls(&self) -> impl Iterator<Item = &Arc<OriginTls>> {
        let routes = self.listeners.iter().flat_map(|it| match &it.role {
            Role::Reverse(routes) => &routes[..],
            Role::Forward(_) => &[],
        });
        let routes = routes.filter_map(|route| route.tls.as_ref());
        let upstreams = self.upstreams.iter().filter_map(|it| it.tls.as_ref());
        let parents = self.parents.iter().filter_map(|it| it.tls.as_ref());
        routes.chain(upstreams).chain(parents)
    }

    /// Whose certificates are not looked at, in words.
    pub fn unverified(&self) -> Vec<String> {
        let is_so =
            |tls: &Option<Arc<OriginTls>>| tls.as_ref().is_some_and(|it| it.believes_anybody());
        let mut words = Vec::new();
        if self.tls.is_unverified {
            words.push("all https origins that do not say `verify = true`".to_owned());
        }
        for listener in &self.listeners {
            let Role::Reverse(routes) = &listener.role else {
                continue;
            };
            let own = routes.iter().filter(|it| it.upstream.is_none());
            words.extend(own.filter(|it| is_so(&it.tls)).map(|it| it.origin_name()));
        }
        let upstreams = self.upstreams.iter().filter(|it| is_so(&it.tls));
        words.extend(upstreams.map(|it| format!("the upstream {}", it.name)));
        let parents = self.parents.iter().filter(|it| is_so(&it.tls));
        words.extend(parents.map(|it| format!("the parent {}", it.name)));
        words.dedup();
        words
    }
}
