//! The origins of a plan with settings of their own: TLS, unverified certificates, signatures, and signatures sent in plain HTTP.
//!
//! Not known here: what the settings mean (`origin_tls`, `signing`).

use std::sync::Arc;

use crate::{OriginTls, Plan, Role, Signing, routes::OriginUrl};

impl Plan {
    /// The TLS settings of origins that have their own, once for each use.
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

    /// The origins whose certificates are not verified, in words.
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

    /// The settings for signing requests to an origin, once for each use.
    pub fn signing(&self) -> impl Iterator<Item = &Arc<Signing>> {
        let routes = self.listeners.iter().flat_map(|it| match &it.role {
            Role::Reverse(routes) => &routes[..],
            Role::Forward(_) => &[],
        });
        let routes = routes.filter_map(|route| route.sign.as_ref());
        routes.chain(self.upstreams.iter().filter_map(|it| it.sign.as_ref()))
    }

    /// Origins that get signed requests in plain HTTP: an eavesdropper may reuse such a signature for some minutes.
    pub fn signed_in_plain(&self) -> Vec<String> {
        let is_plain = |url: &OriginUrl| !url.tls;
        let mut words = Vec::new();
        for listener in &self.listeners {
            let Role::Reverse(routes) = &listener.role else {
                continue;
            };
            let own = routes.iter().filter(|it| it.upstream.is_none());
            let plain = own.filter(|it| it.sign.is_some() && is_plain(&it.origin));
            words.extend(plain.map(|it| it.origin_name()));
        }
        let upstreams = self.upstreams.iter().filter(|it| {
            let is_plain =
                it.names.iter().any(|it| !it.tls) || it.servers.iter().any(|it| is_plain(&it.at));
            it.sign.is_some() && is_plain
        });
        words.extend(upstreams.map(|it| format!("the upstream {}", it.name)));
        words.dedup();
        words
    }
}
