//! What is opened and decided before the first worker starts: sockets, certificates, the I/O engine, the filter of what is kept.
//!
//! Not known here: threads, the order in which things come up.

use std::net::{self, SocketAddr};
use std::sync::{Arc, Mutex, atomic::AtomicBool};

use device::{Device, EngineKind};
use replacement::Admission;
use store::Set;

use super::ServeError;
use base::accepting;
use base::clock::Clock;
use cache::{
    Cache, Fetches,
    fragments::FragmentMemory,
    memory::MemoryTier,
    opening::{Absent, Opened},
};
use ledger::room::Rooms;
use origin::Tls;
use peers::icp::Icp;
use plan::{AdmissionKind, IoEngine, Plan};
use tls::served::{self as serving, ServedTls};

/// Listens with the sockets that another process had, if there are any, and with more if that were fewer. Then its place is not tried
/// first, and what cannot be bound is done without: workers are dealt connections by the others.
pub(super) fn listen_with(
    mut taken: Vec<net::TcpListener>,
    address: &mut SocketAddr,
    sockets: usize,
) -> Result<Vec<net::TcpListener>, ServeError> {
    let Some(first) = taken.first() else {
        return listen(address, sockets);
    };
    *address = first.local_addr()?;
    if taken.len() < sockets {
        let missing = sockets - taken.len();
        match accepting::listen_beside(*address, missing) {
            Ok(more) => taken.extend(more),
            Err(error) => {
                tracing::info!(%address, %error, "fewer sockets than workers; connections are dealt");
            }
        }
    }
    Ok(taken)
}

/// Listens, with so many sockets; the address gets the port the system chose.
pub(super) fn listen(
    address: &mut SocketAddr,
    sockets: usize,
) -> Result<Vec<net::TcpListener>, ServeError> {
    let error = |source| ServeError::Listen {
        address: *address,
        source,
    };
    let listening = accepting::listen(*address, sockets).map_err(error)?;
    if let Some(socket) = listening.first() {
        *address = socket.local_addr()?;
    }
    Ok(listening)
}

/// The ICP socket; its address gets the port the system chose.
pub(super) fn open_icp(plan: &mut Plan) -> Result<Option<Icp>, ServeError> {
    let icp =
        Icp::open(plan).map_err(|(address, source)| ServeError::Listen { address, source })?;
    if let (Some(listen), Some(icp)) = (&mut plan.icp.listen, &icp) {
        *listen = icp.address()?;
    }
    Ok(icp)
}

pub(super) fn choose_engine(
    plan: &Plan,
    in_memory: bool,
) -> (EngineKind, &'static str, Option<String>) {
    if in_memory {
        return (EngineKind::Auto, "inline", None);
    }
    if plan.stores.is_empty() {
        return (EngineKind::Threads, "none", None);
    }
    match plan.storing.io_engine {
        IoEngine::Threads => (EngineKind::Threads, "threads", None),
        IoEngine::Uring => (EngineKind::Uring, "io_uring", None),
        IoEngine::Auto => match device::uring_available() {
            Ok(()) => (EngineKind::Uring, "io_uring", None),
            Err(why) => (EngineKind::Threads, "threads", Some(why.to_string())),
        },
    }
}

pub(super) fn tls(plan: &Plan) -> Result<Tls, ServeError> {
    let extra = match &plan.tls.ca_file {
        Some(path) => Tls::read_pem(path).map_err(|source| ServeError::Certificates {
            path: path.display().to_string(),
            source,
        })?,
        None => Vec::new(),
    };
    Ok(Tls::system(extra))
}

/// TLS to clients. Its files are read as the user that the process has become, for that is who will read them when they are renewed.
pub(super) fn served(
    plan: &Plan,
    clock: &Clock,
) -> Result<Vec<Option<Arc<ServedTls>>>, ServeError> {
    let served = serving::load(plan, &[], clock.now());
    let served = served.map_err(|unusable| ServeError::Served(unusable.to_string()))?;
    for trouble in served
        .iter()
        .flatten()
        .flat_map(|it| it.troubles(clock.now()))
    {
        tracing::error!("{trouble}");
    }
    for (listener, served) in plan.listeners.iter().zip(&served) {
        if served.as_ref().is_some_and(|it| it.is_self_signed()) {
            let address = listener.address;
            tracing::warn!(
                "the listener on {address} shows a certificate that was made just now and that nobody trusts: for trying out only"
            );
        }
    }
    Ok(served)
}

/// The bytes of body that an object is expected to have, to guess how many there will be.
const MEAN_OBJECT_BYTES: u64 = 13 << 10;

/// What decides what is kept on disk; None: everything is.
fn admission(plan: &Plan, opened: Option<&Opened>) -> Option<Mutex<Admission>> {
    let kind = plan.storing.admission;
    if kind == AdmissionKind::All {
        return None;
    }
    let bytes: u64 = opened?.devices().map(|device| device.size()).sum();
    let objects = usize::try_from(bytes / MEAN_OBJECT_BYTES).unwrap_or(usize::MAX);
    Some(Mutex::new(Admission::new(kind, objects)))
}

pub(super) fn describe(opened: &Opened) -> Vec<String> {
    let words = |(device, found): (Arc<Device>, &String)| {
        let path = device.path().display();
        let mib = device.size() >> 20;
        let how = if device.is_direct() {
            "direct"
        } else {
            "buffered"
        };
        format!("{path} ({mib} MiB, {how}): {found}")
    };
    opened.devices().zip(&opened.found).map(words).collect()
}

/// Both tiers of what is stored, empty memory before these stores.
pub(super) fn cache_of(
    plan: &Plan,
    store: Arc<Set>,
    opened: Option<&Opened>,
    absent: Vec<Absent>,
    fetches: Arc<dyn Fetches>,
) -> Cache {
    Cache {
        rooms: Rooms::new(plan.limits.transfer_buffer_bytes),
        memory: MemoryTier::new(plan.memory_bytes, plan.limits.memory_object_bytes_max)
            .with_burst(burst_max(plan)),
        fragments: FragmentMemory::new(plan.memory_bytes, opened.map_or(0, fragment_bytes)),
        store,
        wake_up: Arc::default(),
        admission: admission(plan, opened),
        devices: opened.iter().copied().flat_map(Opened::devices).collect(),
        read_queues: (opened.iter().copied().flat_map(Opened::devices))
            .map(|_| Arc::default())
            .collect(),
        has_disk: opened.is_some(),
        absent,
        predicates_refused: AtomicBool::new(false),
        fetches,
    }
}

/// The longest fragment of any of the stores.
fn fragment_bytes(opened: &Opened) -> u32 {
    let each = opened.set.stores().map(|store| store.fragment_bytes());
    each.max().unwrap_or(0)
}

/// The most objects that a newcomer may drive out of memory: a front without a store has a bound. (What one with a store does not keep in
/// memory would be read from its own disk.)
fn burst_max(plan: &Plan) -> Option<usize> {
    let cluster = plan.cluster.as_ref();
    let cluster = cluster.filter(|cluster| cluster.front && plan.stores.is_empty())?;
    cluster.replacement_burst.map(|most| most as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Cluster, StorePlan};

    #[test]
    fn a_front_without_a_store_keeps_what_is_short() {
        let mut plan = Plan::with_listeners(Vec::new());
        assert_eq!(burst_max(&plan), None);
        plan.cluster = Some(Cluster {
            front: true,
            ..Cluster::default()
        });
        assert_eq!(burst_max(&plan), Some(10));
        plan.stores = vec![StorePlan::at("store", None)];
        assert_eq!(burst_max(&plan), None);
    }
}
