//! What a worker needs for pushing.
//!
//! Not known here: the objects.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hints::view::{Groups, Reader};

use crate::state::Cluster;
use base::{access::Destinations, clock::Clock, deadline::Deadlines};
use cache::Cache;
use origin::OriginContext;

/// What pushing needs of its worker, if this proxy is a front.
pub struct PushContext {
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// Hints of what members hold.
    pub hints: RefCell<Reader>,
    /// Our own cache.
    pub cache: Arc<Cache>,
    /// Connections to members.
    pub origin: Rc<OriginContext>,
    /// Destinations that members may have.
    pub rules: Destinations,
    /// Timers.
    pub deadlines: Deadlines,
    /// The wall clock.
    pub clock: Clock,
}

impl PushContext {
    /// The newest hints of what members hold.
    pub fn groups(&self) -> Arc<Groups> {
        Arc::clone(self.hints.borrow_mut().groups())
    }
}
