//! A mirrored route's settings: the only part of mirrors that listeners, targets and requests use.
//!
//! Not known here: how the settings are carried out.

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
    /// The text to replace.
    pub needle: Option<Needle>,
    /// The addresses that redirects and tokens may lead to.
    pub(super) elsewhere: Destinations,
    pub(super) tokens: RefCell<Tokens>,
}

impl Mirror {
    /// `own`: addresses of this process, which redirects must not lead to. `None`: the route changes nothing.
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

    /// Must the body of this target be requested whole and uncompressed?
    pub fn wants_identity(&self, method: &str, target: &str) -> bool {
        takes(method)
            && (self.plan.replace.is_some()
                || self.plan.verify && verify::digest_of(target).is_some())
    }
}

/// Are answers to this method changed?
pub fn takes(method: &str) -> bool {
    matches!(method, "GET" | "HEAD")
}

/// Would this request field ask for a part or a compressed form of the body?
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
