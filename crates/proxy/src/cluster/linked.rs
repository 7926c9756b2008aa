//! A link that another member has opened to us: we tell it what we hold and how we are, and it tells us what is purged.
//!
//! Not known here: how it is kept open.

use std::{io, sync::Arc, time::Duration};

use tokio::{io::split, time::interval};

use super::{
    Cluster, MemberId,
    framing::{self, Incoming},
};
use crate::socket::Socket;

/// How often a member says how it is.
const BEATS_EVERY: Duration = Duration::from_secs(1);

/// Serves the link until it ends; why it did.
pub async fn serve(cluster: Arc<Cluster>, member: MemberId, socket: Socket) -> io::Error {
    let (read, mut write) = split(socket);
    let writing = async {
        let mut beats = interval(BEATS_EVERY);
        let mut purging = cluster.purging.linked(member);
        loop {
            tokio::select! {
                _ = beats.tick() => framing::write(&mut write, &[0; 4]).await?,
                said = purging.recv() => {
                    let said = said.ok_or(io::ErrorKind::BrokenPipe)?;
                    framing::write(&mut write, &said).await?;
                }
            }
        }
    };
    let reading = async {
        let mut incoming = Incoming::new(read);
        loop {
            let frame = incoming.next().await?;
            cluster.purging.hear(member, &frame).await?;
        }
    };
    let ended: io::Result<()> = tokio::select! {
        ended = writing => ended,
        ended = reading => ended,
    };
    ended
        .err()
        .unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
}
