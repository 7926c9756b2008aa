//! A cluster: members that know what the others hold, and purge together.
//!
//! Every member opens a *link* to every other and keeps it open. Over the link that A opened to B, A learns what B holds and how B is,
//! and tells B what is purged; B does the same over its own link to A. Requests go over connections of their own, which are pooled like
//! those to origins. Both kinds begin with a handshake in which each side proves that it has the cluster's key.
//!
//! | file | story |
//! |---|---|
//! | `state` | what all threads share: [`Cluster`] |
//! | `member` | who the others are, and how they are |
//! | `roll`, `discovering` | which members there are, if they come and go |
//! | `shaking` | carrying the handshake (`hints::handshake`) over a connection |
//! | `framing` | frames on a link |
//! | `routing`, `choosing` | which members are asked for a request |
//! | `answered` | what members say of their answers |
//! | `forwarded` | what members tell each other in a request's fields |
//! | `thread` | the thread that all of this runs on, and the socket that members connect to |
//! | `push` | what a front fetched goes to a member |
//! | `hot` | which keys are asked for often |
//! | `link` | a link that we opened |
//! | `linked` | a link that another opened |
//! | `purges` | purges of the whole cluster, as `purging` decides |
//! | `publishing` | what our stores hold, told to the others |
//! | `standing` | how a member stands, in a word |
//! | `status` | how all of it stands, for people |
//! | `following` | what the others hold, in a view that workers look up in |
//!
//! [`Cluster`] is what all threads share. A proxy without a cluster has none, and asks once a connection whether there is one.
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

/// A key that nobody has had.
///
/// # Errors
/// The system gives no random numbers.
pub fn new_cluster_key() -> std::io::Result<plan::ClusterKey> {
    let mut bytes = [0; plan::ClusterKey::BYTES];
    base::chance::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(plan::ClusterKey::new(bytes))
}
