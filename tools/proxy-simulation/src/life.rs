//! The proxy's lives: starts and ends, clean or not, on one disk.
//!
//! Not known here: requests.

use std::{
    cell::{Cell, RefCell},
    future::pending,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use device::Device;
use proxy::{
    plan::Plan,
    simulation::{Proxy, Socket},
};
use tokio::{
    task::{JoinHandle, LocalSet},
    time::sleep,
};

use crate::{
    disk::Disk,
    world::{Resource, Shared},
};

/// A listener as clients know it.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Its name in the simulation.
    pub name: &'static str,
    /// Clients name the destination.
    pub is_forward: bool,
    /// It names the client to origins, with the PROXY protocol.
    pub tells_client: bool,
    /// It may lead to loopback addresses.
    pub leads_inside: bool,
    /// The authority in requests of its clients.
    pub site: &'static str,
    /// Its origin, for a reverse listener.
    pub origin: Option<SocketAddr>,
}

/// The authority of the site behind the reverse listeners.
pub const SITE: &str = "www.site.example";
/// The authority of the site behind the mirror.
pub const MIRROR_SITE: &str = "www.mirror.example";
/// The authority of the group's site.
pub const GROUP_SITE: &str = "www.group.example";

impl Listener {
    /// Whether it may lead to the origin of this resource.
    pub fn leads_to(&self, resource: &Resource) -> bool {
        match self.origin {
            Some(origin) => resource.origin == origin,
            None => self.leads_inside || !resource.origin.ip().is_loopback(),
        }
    }

    /// Whether its clients can request this resource by its name.
    pub fn names(&self, resource: &Resource) -> bool {
        match self.origin {
            Some(origin) => resource.host == self.site && resource.origin == origin,
            None => !resource.host.ends_with(".example"),
        }
    }
}

/// Where clients connect to the proxy.
pub struct Place {
    listeners: RefCell<Vec<Listener>>,
    /// Number of workers.
    pub workers: usize,
    /// Whether the proxy checks the health of servers.
    pub has_checks: bool,
    /// Seconds for which the settings allow stale answers.
    pub stale_allowed_s: u64,
    proxy: RefCell<Option<Rc<Proxy>>>,
    is_over: Cell<bool>,
}

impl Place {
    /// A place at which no proxy runs yet.
    pub fn new(listeners: Vec<Listener>, plan: &Plan) -> Place {
        Place {
            listeners: RefCell::new(listeners),
            workers: plan.workers,
            has_checks: plan.upstreams.iter().any(|of| of.health.is_some()),
            stale_allowed_s: (plan.cache.stale_while_revalidate)
                .max(plan.cache.stale_if_error)
                .as_secs(),
            proxy: RefCell::default(),
            is_over: Cell::default(),
        }
    }

    /// Number of listeners.
    pub fn count(&self) -> usize {
        self.listeners.borrow().len()
    }

    /// The listener with this number.
    pub fn listener(&self, number: usize) -> Listener {
        self.listeners.borrow()[number].clone()
    }

    /// The present number of the listener with this name.
    pub fn number_of(&self, name: &str) -> usize {
        let listeners = self.listeners.borrow();
        let number = listeners.iter().position(|listener| listener.name == name);
        number.expect("listeners are asked for by the names that they were given")
    }

    /// Reorders the listeners between two lives, as an operator may; clients must not notice.
    pub fn reorder(&self, plan: &mut Plan, by: usize) {
        self.listeners.borrow_mut().rotate_left(by);
        plan.listeners.rotate_left(by);
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        self.is_over.get()
    }

    /// Ends the run: clients send no more requests.
    pub fn end(&self) {
        self.is_over.set(true);
    }

    /// The proxy, if it is running.
    pub fn proxy(&self) -> Option<Rc<Proxy>> {
        self.proxy.borrow().clone()
    }

    /// Connects to the proxy.
    pub fn connect(
        &self,
        worker: usize,
        listener: usize,
        peer: SocketAddr,
        room: usize,
    ) -> Option<Socket> {
        self.proxy()?.connect(worker, listener, peer, room)
    }
}

/// How a life ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// A clean stop.
    Stop,
    /// A kill; the disk keeps all completed writes.
    Kill,
    /// A power cut; writes that were not flushed may be lost.
    PowerCut,
}

/// A running proxy.
pub struct Life {
    place: Rc<Place>,
    disk: Option<Arc<Disk>>,
    set: Rc<LocalSet>,
    pump: JoinHandle<()>,
}

impl Life {
    /// Starts a proxy. Must be called in the run's own [`LocalSet`].
    pub async fn start(
        world: &Shared,
        place: &Rc<Place>,
        plan: &Plan,
        disk: Option<&Arc<Disk>>,
    ) -> Result<Life, String> {
        let devices = disk.map(|disk| {
            let bytes = plan.stores[0].size_bytes.unwrap_or(0);
            let path = plan.stores[0].path.clone();
            Device::simulated(bytes, path, Arc::clone(disk) as Arc<_>)
        });
        let set = Rc::new(LocalSet::new());
        disk.inspect(|disk| disk.set_calm(true));
        let devices = devices.into_iter().collect();
        let started = set.run_until(Proxy::start(plan.clone(), devices)).await;
        disk.inspect(|disk| disk.set_calm(false));
        let proxy = Rc::new(started.map_err(|error| error.to_string())?);
        place.proxy.replace(Some(proxy));
        {
            let mut world = world.borrow_mut();
            world.life += 1;
            world.is_ending = false;
            world.counts.lives += 1;
            world.life_began = world.tick();
            world.tell_all("the proxy has started");
        }
        let own = Rc::clone(&set);
        let pump = tokio::task::spawn_local(async move { own.run_until(pending::<()>()).await });
        if let Some(disk) = disk {
            let (disk, place) = (Arc::clone(disk), Rc::clone(place));
            // In the life's own set, so that the task ends with it.
            set.spawn_local(async move {
                while place.proxy().is_some_and(|proxy| !proxy.is_recovered()) {
                    sleep(Duration::from_millis(100)).await;
                }
                disk.heal();
            });
        }
        Ok(Life {
            place: Rc::clone(place),
            disk: disk.cloned(),
            set,
            pump,
        })
    }

    /// Ends the proxy.
    pub async fn end(self, world: &Shared, how: End) {
        {
            let mut world = world.borrow_mut();
            world.is_ending = true;
            world.tell_all(&format!("the proxy's life ends: {how:?}"));
        }
        if how == End::Stop
            && let Some(proxy) = self.place.proxy()
        {
            proxy.stop().await;
        }
        self.place.proxy.replace(None);
        self.pump.abort();
        let _ = self.pump.await;
        drop(self.set);
        world.borrow_mut().ends += 1;
        if let Some(disk) = &self.disk {
            disk.end(how == End::PowerCut);
        }
    }
}
