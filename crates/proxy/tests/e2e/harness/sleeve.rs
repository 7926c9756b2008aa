//! TLS around a plain connection of loopback: for tests in which two threads share a client's socket, on the way `tls` ([`super::way`]).
//!
//! One thread carries bytes both ways. An end is passed on as an end, each way on its own.

use std::{
    io,
    net::{SocketAddr, TcpListener},
    sync::Arc,
    thread,
    time::Duration,
};

use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;

/// A plain connection that reaches this address over TLS.
pub fn open(proxy: SocketAddr, config: Arc<ClientConfig>) -> io::Result<std::net::TcpStream> {
    // First, so that a proxy that takes no connection shows.
    let far = std::net::TcpStream::connect(proxy)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let test = std::net::TcpStream::connect(listener.local_addr()?)?;
    let (near, _) = listener.accept()?;
    for socket in [&near, &far] {
        socket.set_nodelay(true)?;
        socket.set_nonblocking(true)?;
    }
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        // A handshake that fails is seen at the other end.
        let _ = runtime.block_on(carry(near, far, config));
        runtime.shutdown_timeout(Duration::ZERO);
    });
    Ok(test)
}

async fn carry(
    near: std::net::TcpStream,
    far: std::net::TcpStream,
    config: Arc<ClientConfig>,
) -> io::Result<()> {
    let (near, far) = (TcpStream::from_std(near)?, TcpStream::from_std(far)?);
    let name = ServerName::try_from("localhost").expect("it is a name");
    let far = TlsConnector::from(config).connect(name, far).await?;
    let (near_read, near_write) = near.into_split();
    let (far_read, far_write) = tokio::io::split(far);
    // Each on its own: an answer arrives though the proxy takes no more of the request.
    tokio::join!(one_way(near_read, far_write), one_way(far_read, near_write));
    Ok(())
}

async fn one_way(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin) {
    // That it broke is seen at the other end.
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}
