//! Holds the origin's port until the origin is there.
//!
//! The load brings its own servers, and starts after the proxy. Some proxies connect to their origin at the start. If nothing
//! listens, Squid marks it dead and answers the first requests afterwards with 502 (ERR_READ_ERROR, seen with 5.7), an error
//! caused by the comparison itself. So this socket listens from before the proxy's start until the load begins. It accepts no
//! connection and sends nothing; no other process can get the port meanwhile.
//!
//! Not known here: the clients.   Limits: some milliseconds pass between the end of this and the beginning of the load.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use crate::failure::{During, Result};
use crate::ports;

/// A port of 127.0.0.1 on which connections wait; dropping it frees the port.
#[derive(Debug)]
pub struct HeldPort {
    _listener: TcpListener,
    pub address: SocketAddr,
}

impl HeldPort {
    /// A port that was free.
    pub fn new() -> Result<Self> {
        let finding = || "finding a port".to_owned();
        let port = ports::free()?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).during(finding)?;
        let address = listener.local_addr().during(finding)?;
        Ok(Self {
            _listener: listener,
            address,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn who_looks_finds_somebody_and_the_port_is_free_afterwards() {
        let held = HeldPort::new().unwrap();
        let address = held.address;
        let _looking = TcpStream::connect(address).unwrap();
        assert!(TcpListener::bind(address).is_err());
        drop(held);
        assert!(TcpStream::connect(address).is_err());
        TcpListener::bind(address).unwrap();
    }
}
