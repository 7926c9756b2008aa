//! A cluster: proxies (members) that know what the others hold, and purge together.
//!
//! Every member opens a *link* to every other and keeps it open. Over the link that A opened to B, A learns what B holds and how B is,
//! and tells B what is purged; B does the same over its own link to A. Requests use separate pooled connections, like those to origins.
//! Both kinds of connection begin with a handshake in which each side proves that it has the cluster's key.
//!
//! | file | story |
//! |---|---|
//! | `state` | what all threads share: [`Cluster`] |
//! | `member` | identity, state and load of each other member |
//! | `roll`, `discovering` | the list of members when it changes at run time |
//! | `shaking` | the handshake (`hints::handshake`) over a connection |
//! | `framing` | frames on a link |
//! | `routing`, `choosing` | which members are asked for a request |
//! | `answered` | response fields that tell how a member answered |
//! | `forwarded` | fields that members add to requests they send each other |
//! | `thread` | the thread that runs the links, and the socket that members connect to |
//! | `push` | sending an object that a front has fetched to the member that shall store it |
//! | `hot` | which keys are asked for often |
//! | `link` | a link opened by this member |
//! | `linked` | a link opened by another member |
//! | `purges` | purges of the whole cluster; `purging` decides, this does the I/O |
//! | `publishing` | tells the others what our stores hold |
//! | `standing` | the state of a member in one word |
//! | `status` | the state of the cluster, for people |
//! | `following` | what the others hold, in a view that workers read |
//!
//! [`Cluster`] is shared by all threads. A proxy without a cluster has no `Cluster`; its only cost is one check a connection.
//!
//! Not known here: HTTP, and how a request is routed.
//! Limits: [`MEMBERS_MAX`](plan::MEMBERS_MAX) other members at a time.
#![forbid(unsafe_code)]

pub mod answered;
pub mod choosing;
pub mod discovering;
pub mod following;
pub mod forwarded;
pub mod framing;
pub mod hot;
pub mod link;
pub mod linked;
pub mod member;
pub mod publishing;
pub mod purges;
pub mod push;
pub mod roll;
pub mod routing;
pub mod shaking;
pub mod standing;
pub mod state;
pub mod status;
mod thread;

pub use member::{Member, Who};
pub use standing::Standing;
pub use state::Cluster;
pub use status::{ClusterStatus, MemberStatus};
pub use thread::{ClusterThread, Start};

/// A new random key.
///
/// # Errors
/// The system provides no random numbers.
pub fn new_cluster_key() -> std::io::Result<plan::ClusterKey> {
    let mut bytes = [0; plan::ClusterKey::BYTES];
    base::chance::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(plan::ClusterKey::new(bytes))
}
