//! Client connections: reading heads within their budget, the short way for plain hits, tunnels.

pub mod client;
pub mod fast;
pub mod pace;
pub mod port_purge;
pub mod proxy_header;
pub mod socket;
pub mod switch;
pub mod tunnel;
pub mod who;
