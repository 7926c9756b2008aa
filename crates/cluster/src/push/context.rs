//! What pushing needs of a worker.
//!
//! Not known here: what is pushed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hints::view::{Groups, Reader};

use crate::state::Cluster;
use base::{access::Destinations, clock::Clock, deadline::Deadlines};
use cache::Cache;
use origin::OriginContext;

/// What pushing needs of the thread that it runs on, if this is a front.
pub struct PushContext {
    /// Our cluster.
    pub cluster: Arc<Cluster>,
    /// What members hold.
    pub hints: RefCell<Reader>,
    /// What is stored here.
    pub cache: Arc<Cache>,
    /// What members are asked with.
    pub origin: Rc<OriginContext>,
    /// Where members may be.
    pub rules: Destinations,
    /// Time-outs.
    pub deadlines: Deadlines,
    /// Wall time.
    pub clock: Clock,
}

impl PushContext {
    /// What members hold.
    pub fn groups(&self) -> Arc<Groups> {
        Arc::clone(self.hints.borrow_mut().groups())
    }
}
