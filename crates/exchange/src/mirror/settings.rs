//! What a route does for its origin, as its settings say: what listeners, targets and requests know of mirrors.
//!
//! Not known here: how it is done.

use std::{
    cell::RefCell,
    net::{IpAddr, SocketAddr},
    rc::Rc,
};

use ipnet::IpNet;

use super::{replace::Needle, token::Tokens, verify};
use base::access::Destinations;
use plan::Mirroring;

/// A route's settings, ready for use by one worker.
pub struct Mirror {
    pub(super) plan: Mirroring,
    /// What is replaced.
    pub needle: Option<Needle>,
    /// Where redirects and tokens may lead.
    pub(super) elsewhere: Destinations,
    pub(super) tokens: RefCell<Tokens>,
}

impl Mirror {
    /// `own`: addresses of this process, to which nothing leads. `None`: answers of this route need no look.
    pub fn new(plan: &Mirroring, own: &[SocketAddr]) -> Option<Rc<Mirror>> {
        if !plan.is_active() {
            return None;
        }
        let named = plan.follow.iter().chain(plan.tokens.iter().flatten());
        let allow = named.filter_map(|named| named.host.parse::<IpAddr>().ok().map(IpNet::from));
        Some(Rc::new(Mirror {
            needle: plan.replace.as_ref().map(Needle::new),
            elsewhere: Destinations {
                loopback: false,
                link_local: false,
                allow: allow.collect(),
                own: own.to_vec(),
                connect_ports: Vec::new(),
            },
            tokens: RefCell::default(),
            plan: plan.clone(),
        }))
    }

    /// Are bodies of this target wanted whole and as they are?
    pub fn wants_identity(&self, method: &str, target: &str) -> bool {
        takes(method)
            && (self.plan.replace.is_some()
                || self.plan.verify && verify::digest_of(target).is_some())
    }
}

/// Are the answers to this method looked at?
pub fn takes(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

/// Fields of a request that would bring another body than the whole one as it is.
pub fn asks_for_less(name: &[u8]) -> bool {
    [&b"accept-encoding"[..], b"range", b"if-range"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_that_changes_nothing_has_no_mirror() {
        assert!(Mirror::new(&Mirroring::default(), &[]).is_none());
        let strips = Mirroring {
            strip: "/a".to_owned(),
            ..Mirroring::default()
        };
        assert!(Mirror::new(&strips, &[]).is_none());
    }
}
