//! The sockets at a start: taken over from the previous process, or bound.
//!
//! Not known here: the readers of the sockets.

use std::net::{self, SocketAddr};

use tokio::net::TcpListener;

use super::error::ServeError;
use crate::upgrade::predecessor::Predecessor;
use base::{accepting, listening::Listening};
use peers::icp::Icp;
use plan::Plan;

/// The sockets for a plan.
pub(super) struct Sockets {
    /// The sockets of each listener, with its address as configured, which may have port 0.
    pub listeners: Vec<(SocketAddr, Vec<net::TcpListener>)>,
    pub admin: Option<TcpListener>,
    pub cluster: Option<net::TcpListener>,
    pub icp: Option<Icp>,
    /// Sockets that can be passed on to another process; at first only the admin interface's.
    pub listening: Listening,
}

impl Sockets {
    /// Listens. The plan's addresses get the ports that the system chose.
    pub fn open(
        plan: &mut Plan,
        mut from: Option<&mut Predecessor>,
    ) -> Result<Sockets, ServeError> {
        let mut taken = |is_admin, as_read| match &mut from {
            Some(from) => from.sockets(is_admin, as_read),
            None => Vec::new(),
        };
        let mut listeners = Vec::new();
        for listener in &mut plan.listeners {
            let as_read = listener.address;
            let taken = taken(false, as_read);
            let sockets = listen_with(taken, &mut listener.address, plan.workers)?;
            listeners.push((as_read, sockets));
        }
        let listening = Listening::default();
        let admin = match &mut plan.admin {
            Some(admin) => {
                let as_read = admin.address;
                let sockets = listen_with(taken(true, as_read), &mut admin.address, 1)?;
                let socket = sockets.into_iter().next();
                socket
                    .iter()
                    .for_each(|socket| listening.keep_admin(as_read, socket));
                socket.map(TcpListener::from_std).transpose()?
            }
            None => None,
        };
        let cluster = match &mut plan.cluster {
            Some(cluster) => listen(&mut cluster.address, 1)?.into_iter().next(),
            None => None,
        };
        Ok(Sockets {
            listeners,
            admin,
            cluster,
            icp: open_icp(plan)?,
            listening,
        })
    }
}

/// Listens with another process's sockets, if there are any, and binds the missing ones beside them. A socket that cannot be bound is
/// left out: workers without one get connections from the others.
fn listen_with(
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

/// Listens with so many sockets. The address gets the port that the system chose.
fn listen(address: &mut SocketAddr, sockets: usize) -> Result<Vec<net::TcpListener>, ServeError> {
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

/// The ICP socket. Its address gets the port that the system chose.
fn open_icp(plan: &mut Plan) -> Result<Option<Icp>, ServeError> {
    let icp =
        Icp::open(plan).map_err(|(address, source)| ServeError::Listen { address, source })?;
    if let (Some(listen), Some(icp)) = (&mut plan.icp.listen, &icp) {
        *listen = icp.address()?;
    }
    Ok(icp)
}
