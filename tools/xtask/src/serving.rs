//! Servers within this process: for each listening socket a thread with its own runtime, for each connection a task.
//!
//! Not known here: the protocol.   Limits: none of its own; the function that serves a connection bounds its reads.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::failure::{During, Result};

/// Running servers; dropping this stops them.
pub struct Serving {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Serving {
    /// Serves the connections of each listener on a thread of its own. `serve` is called for each connection; its errors
    /// are ignored.
    pub fn start<F>(
        listeners: Vec<std::net::TcpListener>,
        serve: impl Fn(TcpStream) -> F + Clone + Send + 'static,
    ) -> Result<Self>
    where
        F: Future<Output = io::Result<()>> + 'static,
    {
        let (stop, stopped) = watch::channel(false);
        let address = listeners[0]
            .local_addr()
            .during(|| "a server's address".into())?;
        let mut serving = Self {
            address,
            stop,
            threads: Vec::new(),
        };
        for listener in listeners {
            listener
                .set_nonblocking(true)
                .during(|| "a server's socket".into())?;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .during(|| "a server's runtime".into())?;
            let (serve, stopped) = (serve.clone(), stopped.clone());
            serving.threads.push(std::thread::spawn(move || {
                // An error here means that the listener cannot be registered: no request would be answered.
                if let Err(e) = runtime.block_on(accept(listener, serve, stopped)) {
                    eprintln!("a server stopped: {e}");
                }
            }));
        }
        Ok(serving)
    }

    /// The listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // An error means that the threads have ended already.
        let _ = self.stop.send(true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

async fn accept<F>(
    listener: std::net::TcpListener,
    serve: impl Fn(TcpStream) -> F,
    mut stopped: watch::Receiver<bool>,
) -> io::Result<()>
where
    F: Future<Output = io::Result<()>> + 'static,
{
    let listener = TcpListener::from_std(listener)?;
    let local = tokio::task::LocalSet::new();
    let serving = local.run_until(async {
        loop {
            // No descriptors left, or the client has gone: try the next connection.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let served = serve(stream);
            tokio::task::spawn_local(async move {
                // A client that disconnects is not an error of the server.
                let _ = served.await;
            });
        }
    });
    tokio::select! {
        () = serving => {}
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    Ok(())
}
