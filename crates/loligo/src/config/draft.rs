//! The plan in the making: what single settings say, before they are looked at together.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use proxy::plan::{
    AccessFormat, ClientDirectives, Destinations, Forwarded, LogTarget, OriginUrl, Plan, StorePlan,
};

use ipnet::IpNet;

use crate::config::problem::Place;

/// Where clients connect without a word from the user.
pub const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3128);
/// Where the admin interface listens without a word from the user.
pub const ADMIN: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 3129);
/// What is said on standard error without a word from the user.
pub const LOG_LEVEL: &str = "info";

/// Settings of the whole.
#[derive(Clone, PartialEq, Debug)]
pub struct Draft {
    /// Holds what needs no second look.
    pub plan: Plan,
    /// `None`: by the machine.
    pub workers: Option<usize>,
    /// `None`: by the machine; 0: none.
    pub memory: Option<u64>,
    /// `None`: no admin interface.
    pub admin: Option<SocketAddr>,
    /// Who may use it.
    pub admin_allow: Vec<IpNet>,
    /// Where the access log goes.
    pub access: Option<LogTarget>,
    /// How it looks.
    pub access_format: AccessFormat,
    /// Was `limits.connections-max` given?
    pub connections_given: bool,
    /// A filter for what is said on standard error.
    pub log_level: String,
}

/// Settings of a store.
#[derive(Clone, PartialEq, Debug)]
pub struct StoreDraft {
    /// Where it is.
    pub path: StorePath,
    /// `None`: by the machine.
    pub size: Option<u64>,
    /// Its other settings; path and size are not.
    pub plan: StorePlan,
}

impl Default for StoreDraft {
    fn default() -> Self {
        StoreDraft {
            path: StorePath::Default,
            size: None,
            plan: StorePlan::at("", None),
        }
    }
}

/// Where a store is.
#[derive(Clone, PartialEq, Debug)]
pub enum StorePath {
    /// In the user's cache directory.
    Default,
    /// There is none.
    None,
    /// Here.
    At(PathBuf),
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
            plan: Plan::with_listeners(Vec::new()),
            workers: None,
            memory: None,
            admin: Some(ADMIN),
            admin_allow: Vec::new(),
            access: None,
            access_format: AccessFormat::default(),
            connections_given: false,
            log_level: LOG_LEVEL.to_owned(),
        }
    }
}

/// Settings of a listener.
#[derive(Clone, PartialEq, Debug)]
pub struct ListenerDraft {
    /// Where the block begins.
    pub place: Place,
    /// Where clients connect.
    pub address: Option<SocketAddr>,
    /// Who may use it.
    pub allow: Vec<IpNet>,
    /// Whose PURGE is obeyed.
    pub purge_from: Vec<IpNet>,
    /// The origin of what no route takes.
    pub origin: Option<OriginUrl>,
    /// For `origin`.
    pub pass_host: Option<bool>,
    /// Forward only.
    pub connect_ports: Option<Vec<u16>>,
    /// How much clients may demand.
    pub client_directives: Option<ClientDirectives>,
    /// Reverse only.
    pub targeted: Option<bool>,
    /// Forward only.
    pub http_ports: Option<Vec<RangeInclusive<u16>>>,
    /// Forward only.
    pub destinations: Option<Destinations>,
    /// What origins are told of clients.
    pub forwarded: Option<Forwarded>,
    /// Its routes.
    pub routes: Vec<RouteDraft>,
}

impl ListenerDraft {
    /// A listener of which nothing is said yet.
    pub fn new(place: Place) -> Self {
        ListenerDraft {
            place,
            address: None,
            allow: Vec::new(),
            purge_from: Vec::new(),
            client_directives: None,
            targeted: None,
            origin: None,
            pass_host: None,
            connect_ports: None,
            http_ports: None,
            destinations: None,
            forwarded: None,
            routes: Vec::new(),
        }
    }
}

/// Settings of a route.
#[derive(Clone, PartialEq, Debug)]
pub struct RouteDraft {
    /// Where the block begins.
    pub place: Place,
    /// Which hosts; `None`: any.
    pub host: Option<String>,
    /// Which paths.
    pub path: String,
    /// Where to.
    pub origin: Option<OriginUrl>,
    /// Send the client's Host?
    pub pass_host: bool,
}

impl RouteDraft {
    /// A route of which nothing is said yet.
    pub fn new(place: Place) -> Self {
        RouteDraft {
            place,
            host: None,
            path: "/".to_owned(),
            origin: None,
            pass_host: true,
        }
    }
}
