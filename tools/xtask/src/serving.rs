//! Servers within this process: listening sockets, a thread with a runtime of its own for each, a task a connection.
//!
//! Not known here: what is served.   Limits: none of its own; the function that serves a connection bounds what it reads.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::failure::{During, Result};

/// Running servers; dropping it stops them.
pub struct Serving {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    threads: Vec<JoinHandle<()>>,
}

impl Serving {
    /// Serves the connections of each listener on a thread of its own. `serve` is called for each connection; that one ended
    /// with an error is no event.
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
                // An error here is a listener that cannot be registered: no request would be answered.
                if let Err(e) = runtime.block_on(accept(listener, serve, stopped)) {
                    eprintln!("a server stopped: {e}");
                }
            }));
        }
        Ok(serving)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // Without a receiver the threads have ended already.
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
            // Out of descriptors, or gone before it was accepted: the next one may do.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let served = serve(stream);
            tokio::task::spawn_local(async move {
                // A client that goes away is no event for a server.
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
