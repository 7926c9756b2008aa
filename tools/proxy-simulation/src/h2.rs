//! HTTP/2 clients: several requests at a time on one connection, with the crate `h2`.
//!
//! Some reset a stream in the middle of a body or an answer; on some connections the client reads nothing for minutes.
//!
//! Not known here: the requests ([`crate::ask`]), the rules.

use std::{future::poll_fn, io, net::IpAddr, rc::Rc, time::Duration};

use ::h2::{
    Reason, SendStream,
    client::{Builder, SendRequest},
};
use bytes::Bytes;
use proxy::simulation::Socket;
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    ask::{self, Ask, Came, Taking, upload_bytes},
    check::Got,
    client::pause,
    http::Fields,
    life::{Listener, Place},
    tunnel,
    world::Shared,
};

/// Most simultaneous requests of a connection.
const AT_ONCE_MAX: usize = 3;
/// A connection must have ended this long after its client has ended it.
const GOES_WITHIN: Duration = Duration::from_secs(60);
/// Reset streams are remembered for longer than a run takes, because the crate does not use the simulation's clock.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);
/// Most reset streams that are remembered.
const RESETS_MAX: usize = 100_000;

/// Sends requests on a connection until it cannot be used any more.
pub async fn run(
    world: &Shared,
    place: &Rc<Place>,
    socket: Socket,
    led: &Listener,
    client: IpAddr,
) {
    let (of_stream, of_connection, is_slow) = {
        let random = &mut world.borrow_mut().random;
        (
            random.pick(&[1 << 10, 64 << 10, 1 << 20]),
            random.pick(&[64 << 10, 1 << 20]),
            random.one_in(12),
        )
    };
    let mut builder = Builder::new();
    builder
        .initial_window_size(of_stream)
        .initial_connection_window_size(of_connection)
        .max_concurrent_reset_streams(RESETS_MAX)
        .reset_stream_duration(FOR_EVER);
    let Ok((requests, connection)) = builder.handshake::<_, Bytes>(socket).await else {
        return;
    };
    let mut connection = tokio::task::spawn_local(connection);
    let rounds = 1 + world.borrow_mut().random.below(6);
    for _ in 0..rounds {
        if place.is_over() || !ask_some(world, place, &requests, led, (client, is_slow)).await {
            break;
        }
        pause(world, 4000).await;
    }
    drop(requests);
    if timeout(GOES_WITHIN, &mut connection).await.is_err() {
        connection.abort();
    }
}

/// Sends several requests at once. Returns false if the connection cannot be used again.
async fn ask_some(
    world: &Shared,
    place: &Rc<Place>,
    requests: &SendRequest<Bytes>,
    led: &Listener,
    (client, is_slow): (IpAddr, bool),
) -> bool {
    let count = 1 + world.borrow_mut().random.index(AT_ONCE_MAX);
    let mut asking = JoinSet::new();
    for _ in 0..count {
        if led.is_forward && world.borrow_mut().random.one_in(10) {
            let (world, requests, led) = (Rc::clone(world), requests.clone(), led.clone());
            asking.spawn_local(async move {
                let _ = tunnel(&world, requests, &led).await;
                true
            });
            continue;
        }
        let (ask, taking) = ask::draw(world, place, led, client);
        // A stream that is not read uses up the window of the whole connection.
        let taking = match (taking, is_slow) {
            (Taking::Slowly | Taking::Not, false) => Taking::Well,
            (_, true) => world
                .borrow_mut()
                .random
                .pick(&[Taking::Slowly, Taking::Not]),
            (taking, false) => taking,
        };
        let (world, requests) = (Rc::clone(world), requests.clone());
        asking.spawn_local(async move {
            world.borrow_mut().counts.over_h2 += 1;
            let conversing = converse(&world, requests, &ask, taking);
            let came = match timeout(taking.ends_within(), conversing).await {
                Err(_) => Came::Never,
                Ok(Ok(Some(got))) => Came::Answer(got),
                Ok(Ok(None)) => Came::Nothing,
                Ok(Err(_)) => Came::Nothing,
            };
            ask::end(&world, &ask, taking, &came);
            // A stream that was reset says nothing about the connection.
            matches!(came, Came::Answer(_)) || taking == Taking::Leaves || ask.upload.is_some()
        });
    }
    let mut stays = true;
    while let Some(asked) = asking.join_next().await {
        stays &= asked.unwrap_or(false);
    }
    stays
}

fn head_of(world: &Shared, ask: &Ask) -> Option<::http::Request<()>> {
    let world = world.borrow();
    let resource = &world.resources[ask.resource];
    let mut request = ::http::Request::builder()
        .version(::http::Version::HTTP_2)
        .method(ask.method)
        .uri(resource.url());
    for (name, value) in ask.fields(resource) {
        request = request.header(name, value);
    }
    if let Some(upload) = ask.upload.filter(|upload| !upload.is_chunked) {
        request = request.header("content-length", upload.bytes);
    }
    request.body(()).ok()
}

/// Sends a request and reads its answer.
async fn converse(
    world: &Shared,
    requests: SendRequest<Bytes>,
    ask: &Ask,
    taking: Taking,
) -> Result<Option<Got>, ::h2::Error> {
    let Some(request) = head_of(world, ask) else {
        return Ok(None);
    };
    let mut requests = requests.ready().await?;
    let ends = ask.upload.is_none_or(|upload| upload.bytes == 0);
    let (answer, mut out) = requests.send_request(request, ends)?;
    // While this handle exists, other requests wait for their places.
    drop(requests);
    if let Some(upload) = ask.upload
        && !ends
    {
        let body = upload_bytes(ask.number, upload.bytes);
        let sent = upload.breaks_off.unwrap_or(upload.bytes);
        let is_whole = upload.breaks_off.is_none();
        // The answer may come before the whole body was sent.
        let _ = send(&mut out, &body[..sent], is_whole).await;
        if !is_whole {
            pause(world, 100).await;
            out.send_reset(Reason::CANCEL);
            return Ok(None);
        }
    }
    if taking == Taking::Not {
        sleep(Duration::from_secs(200)).await;
    }
    let (head, mut incoming) = answer.await?.into_parts();
    let head_ms = world.borrow().now_ms();
    let mut body = Vec::new();
    let is_complete = loop {
        match incoming.data().await {
            Some(Ok(piece)) => {
                body.extend_from_slice(&piece);
                if taking == Taking::Slowly {
                    sleep(Duration::from_millis(20)).await;
                }
                let _ = incoming.flow_control().release_capacity(piece.len());
            }
            None => break incoming.is_end_stream(),
            Some(Err(_)) => break false,
        }
        if taking == Taking::Leaves {
            out.send_reset(Reason::CANCEL);
            break false;
        }
    };
    Ok(Some(Got {
        status: head.status.as_u16(),
        fields: Fields::of_map(&head.headers),
        body,
        is_complete,
        head_ms,
    }))
}

/// Opens a tunnel, and talks through it.
async fn tunnel(
    world: &Shared,
    requests: SendRequest<Bytes>,
    led: &Listener,
) -> Result<(), ::h2::Error> {
    let (number, to) = tunnel::draw(&mut world.borrow_mut(), led);
    let request = ::http::Request::connect(&*to).body(());
    let Ok(request) = request else { return Ok(()) };
    let mut requests = requests.ready().await?;
    let (answer, out) = requests.send_request(request, false)?;
    drop(requests);
    let answer = match timeout(Taking::Well.ends_within(), answer).await {
        Ok(answer) => answer?,
        Err(_) => {
            let message = format!("R7: nobody answers CONNECT to {to} over HTTP/2");
            world.borrow_mut().fail(message, None);
            return Ok(());
        }
    };
    if tunnel::is_opened(world, number, answer.status().as_u16(), &to) {
        tunnel::run_on_stream(world, number, answer.into_body(), out).await;
    }
    Ok(())
}

/// Sends bytes as far as the windows allow.
pub async fn send(out: &mut SendStream<Bytes>, bytes: &[u8], ends: bool) -> io::Result<()> {
    let mut left = bytes;
    while !left.is_empty() {
        out.reserve_capacity(left.len());
        let room = poll_fn(|cx| out.poll_capacity(cx)).await;
        let room = room.ok_or(io::ErrorKind::BrokenPipe)?;
        let room = room.map_err(io::Error::other)?.min(left.len());
        let (now, later) = left.split_at(room);
        left = later;
        let is_last = ends && left.is_empty();
        if room > 0 {
            out.send_data(Bytes::copy_from_slice(now), is_last)
                .map_err(io::Error::other)?;
        }
    }
    match ends && bytes.is_empty() {
        true => out.send_data(Bytes::new(), true).map_err(io::Error::other),
        false => Ok(()),
    }
}
