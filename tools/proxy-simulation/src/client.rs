//! Clients: they send requests of all kinds, one after the other.
//!
//! A client has one connection at a time, to one listener, with HTTP/1 or HTTP/2 (`h2`). Each answer is checked at once. Some clients read
//! slowly, stop reading, or disconnect.
//!
//! Not known here: the requests ([`crate::ask`]), the rules.

use std::{io, net::SocketAddr, rc::Rc, time::Duration};

use tokio::{
    io::AsyncWriteExt,
    time::{sleep, timeout},
};

use crate::{
    ask::{self, Ask, Came, Taking},
    check::Got,
    h2,
    http::Stream,
    life::{Listener, Place},
    tunnel,
    world::Shared,
};

/// Sends requests until the run is over.
pub async fn run(world: Shared, place: Rc<Place>, number: usize) {
    let peer = SocketAddr::from(([10, 0, 0, number as u8], 50_000));
    while !place.is_over() {
        let (worker, listener, room, kind) = {
            let mut world = world.borrow_mut();
            let random = &mut world.random;
            let room = random.pick(&[2 << 10, 16 << 10, 128 << 10]);
            (
                random.index(place.workers),
                random.index(place.count()),
                room,
                random.below(12),
            )
        };
        match place.connect(worker, listener, peer, room) {
            Some(socket) if kind == 0 && place.listener(listener).is_forward => {
                tunnel::run(&world, socket, &place.listener(listener)).await;
            }
            Some(socket) if kind <= 2 => {
                let led = place.listener(listener);
                h2::run(&world, &place, socket, &led, peer.ip()).await;
            }
            Some(socket) => {
                let mut stream = Stream::new(socket);
                let led = place.listener(listener);
                while !place.is_over() && exchange(&world, &place, &mut stream, &led, peer).await {
                    pause(&world, 4000).await;
                }
            }
            None => sleep(Duration::from_millis(500)).await,
        }
        pause(&world, 2000).await;
    }
}

/// Waits for no time, a moment, or at most `ms_max`.
pub async fn pause(world: &Shared, ms_max: u64) {
    let ms = {
        let mut world = world.borrow_mut();
        match world.random.below(3) {
            0 => 0,
            1 => world.random.below(100),
            _ => world.random.below(ms_max),
        }
    };
    sleep(Duration::from_millis(ms)).await;
}

/// Sends one request and reads its answer. Returns false if the connection cannot be used again.
async fn exchange(
    world: &Shared,
    place: &Place,
    stream: &mut Stream,
    led: &Listener,
    peer: SocketAddr,
) -> bool {
    let (ask, taking) = ask::draw(world, place, led, peer.ip());
    let (bytes, is_whole) = ask.bytes(led, &world.borrow().resources[ask.resource]);
    stream.step = match taking {
        Taking::Slowly => 700,
        _ => 64 << 10,
    };
    let conversing = async {
        stream.socket.write_all(&bytes).await?;
        match is_whole {
            true => converse(world, stream, &ask, taking).await,
            false => Ok(None),
        }
    };
    let (came, stays) = match timeout(taking.ends_within(), conversing).await {
        Err(_) => (Came::Never, false),
        Ok(Ok(Some((got, stays)))) => {
            let stays = stays && got.is_complete;
            (Came::Answer(got), stays)
        }
        Ok(_) => (Came::Nothing, false),
    };
    ask::end(world, &ask, taking, &came);
    stays
}

/// Reads the answer; returns whether the connection stays open.
async fn converse(
    world: &Shared,
    stream: &mut Stream,
    ask: &Ask,
    taking: Taking,
) -> io::Result<Option<(Got, bool)>> {
    if taking == Taking::Not {
        sleep(Duration::from_secs(200)).await;
    }
    let Some(head) = stream.response().await? else {
        return Ok(None);
    };
    let head_ms = world.borrow().now_ms();
    let mut framing = head.response_framing(ask.method);
    let mut body = Vec::new();
    let is_complete = loop {
        match stream.piece(&mut framing).await {
            Ok(Some(piece)) => body.extend_from_slice(&piece),
            Ok(None) => break true,
            Err(_) => break false,
        }
        match taking {
            Taking::Slowly => sleep(Duration::from_millis(20)).await,
            Taking::Leaves => break false,
            Taking::Well | Taking::Not => {}
        }
    };
    let stays = head.fields.get("connection") != Some("close");
    let got = Got {
        status: head.status(),
        fields: head.fields,
        body,
        is_complete,
        head_ms,
    };
    Ok(Some((got, stays)))
}
