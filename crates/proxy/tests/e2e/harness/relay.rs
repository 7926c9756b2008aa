//! An address that is known before the proxy behind it is: bytes are carried both ways, as they come.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, OnceLock},
    thread,
};

/// Carries connections to wherever it is told. It lasts as long as the process.
pub struct Relay {
    pub address: SocketAddr,
    to: Arc<OnceLock<SocketAddr>>,
}

impl Relay {
    pub fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let to = Arc::new(OnceLock::new());
        let target = Arc::clone(&to);
        thread::spawn(move || {
            for inward in listener.incoming() {
                let (Ok(inward), Some(to)) = (inward, target.get()) else {
                    continue;
                };
                let Ok(outward) = TcpStream::connect(to) else {
                    continue;
                };
                let back = (outward.try_clone().unwrap(), inward.try_clone().unwrap());
                thread::spawn(move || carry(inward, outward));
                thread::spawn(move || carry(back.0, back.1));
            }
        });
        Relay { address, to }
    }

    /// From now on connections lead here.
    pub fn lead_to(&self, to: SocketAddr) {
        self.to.set(to).expect("told once");
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut piece = [0; 16 << 10];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
    let _ = from.shutdown(Shutdown::Read);
}
