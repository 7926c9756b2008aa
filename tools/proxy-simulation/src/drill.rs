//! Drills: tests of an operator's settings, after all clients have gone and while origins behave well.
//!
//! Rules that hold under any interleaving are checked while clients send requests. Some rules can be tested only by many requests with
//! nothing else going on: that a server that is down is left alone and a recovered one is not (R13), that an unused quota admits as much
//! as it says, and no more (R14), and that a POST whose connection closes reaches the origin once (R9).
//!
//! Not known here: how the proxy does it.

use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{
    http::Stream,
    life::{GROUP_SITE, Place, SITE},
    world::{Sent, Server, Shared},
};

/// A request must have its answer after this long.
const ENDS_WITHIN: Duration = Duration::from_secs(100);
/// After this long any trouble of a server is forgotten or tried again: the longest pause is half of that.
pub const FORGOTTEN: Duration = Duration::from_secs(60);
/// Connections to a server that is down, in ten seconds: three until it is put out, and a trial after one, two and four seconds.
const TRIES_MAX: u64 = 8;
/// Interval of the servers' health checks.
pub const CHECK_EVERY: Duration = Duration::from_secs(2);
/// Simultaneous requests to an origin that a quota permits, and simultaneous connections of a client.
pub const AT_ONCE: usize = 2;
/// Time that an origin takes for `/drill/slow`: less than the shortest time-out of any run.
pub const SLOW: Duration = Duration::from_millis(900);
/// An origin closes the connection after receiving a whole request for a path that begins like this.
pub const CLOSES: &str = "/drill/closes";

/// Sends one request on its own connection; returns its status, or 0 if there is none.
async fn ask(
    world: &Shared,
    place: &Place,
    (listener, host): (&str, &str),
    client: u8,
    line: &str,
) -> u16 {
    let client = IpAddr::from([10, 0, 1, client]);
    let (method, _) = line.split_once(' ').unwrap_or_default();
    let (number, led) = {
        let mut world = world.borrow_mut();
        let number = world.next_request();
        let led = place.listener(place.number_of(listener));
        world.sent(Sent {
            client,
            upload: 0,
            is_whole: true,
            is_told: led.tells_client,
            is_authorised: false,
            is_bound: false,
            is_unsafe: method != "GET",
            may_repeat: method == "DELETE",
            seen: None,
        });
        (number, led)
    };
    let Some(socket) = place.connect(
        0,
        place.number_of(led.name),
        SocketAddr::from((client, 50_000)),
        16 << 10,
    ) else {
        return 0;
    };
    let mut stream = Stream::new(socket);
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nX-Request: {number}\r\nConnection: close\r\n\r\n"
    );
    let asking = async {
        stream.socket.write_all(request.as_bytes()).await?;
        stream.response().await
    };
    let status = match timeout(ENDS_WITHIN, asking).await {
        Ok(Ok(Some(head))) => head.status(),
        Ok(_) => 0,
        Err(_) => {
            world
                .borrow_mut()
                .fail(format!("R7: {line} has no end by {listener}"), None);
            0
        }
    };
    let mut world = world.borrow_mut();
    world.note(u64::from(status));
    status
}

/// Sends many requests, one after the other. A request that no server answers breaks R13.
async fn ask_group(world: &Shared, place: &Place, count: u32, what: &str) -> Result<(), String> {
    for n in 0..count {
        let line = format!("GET /drill/{n}");
        let status = ask(world, place, ("group", GROUP_SITE), (n % 50) as u8, &line).await;
        if status != 404 {
            return Err(format!(
                "R13: {status} while {what}, and there are servers that are well"
            ));
        }
        sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

fn set(world: &Shared, number: usize, as_it_is: Server) {
    world.borrow_mut().servers[number] = as_it_is;
}

/// Tests a server that is down and comes back.
async fn down(world: &Shared, place: &Place) -> Result<(), String> {
    set(
        world,
        0,
        Server {
            is_down: true,
            ..Server::default()
        },
    );
    ask_group(world, place, 100, "a server is down").await?;
    let tries = world.borrow().servers[0].tries;
    if tries > TRIES_MAX {
        return Err(format!(
            "R13: in ten seconds a server that is down is tried {tries} times"
        ));
    }
    set(world, 0, Server::default());
    sleep(FORGOTTEN).await;
    (0..3).for_each(|number| set(world, number, Server::default()));
    ask_group(world, place, 90, "a server is back").await?;
    match world
        .borrow()
        .servers
        .iter()
        .position(|server| server.asked == 0)
    {
        Some(number) => Err(format!(
            "R13: server {number} is well, and of 90 requests it gets none"
        )),
        None => Ok(()),
    }
}

/// Tests a server whose health check fails although it answers.
async fn ill(world: &Shared, place: &Place) -> Result<(), String> {
    set(
        world,
        1,
        Server {
            is_ill: true,
            ..Server::default()
        },
    );
    sleep(CHECK_EVERY * 10).await;
    let before = world.borrow().servers[1].asked;
    ask_group(world, place, 30, "a server is ill").await?;
    let asked = world.borrow().servers[1].asked - before;
    set(world, 1, Server::default());
    match asked {
        0 => Ok(()),
        asked => Err(format!(
            "R13: a server whose checks fail is asked {asked} times"
        )),
    }
}

/// All servers fail: an unsafe request, which may have been carried out, must be sent only once (R9).
async fn failing(world: &Shared, place: &Place) {
    (0..3).for_each(|number| {
        set(
            world,
            number,
            Server {
                fails: true,
                ..Server::default()
            },
        )
    });
    for n in 0..10 {
        ask(
            world,
            place,
            ("group", GROUP_SITE),
            n,
            &format!("DELETE /drill/{n}"),
        )
        .await;
    }
    (0..3).for_each(|number| set(world, number, Server::default()));
}

/// A reused connection closes under a request that may not be repeated: it must reach the origin once (R9).
async fn closing(world: &Shared, place: &Place) {
    for n in 0..6 {
        let to = [("reverse 2", SITE), ("group", GROUP_SITE)][usize::from(n % 2)];
        // Leaves a connection for reuse.
        ask(world, place, to, n, &format!("GET /drill/{n}")).await;
        ask(world, place, to, n, &format!("POST {CLOSES}{n}")).await;
    }
}

/// Tests that a quota of fetches and one of connections admit as much as they say.
async fn quotas(world: &Shared, place: &Rc<Place>) -> Result<(), String> {
    let mut asking = JoinSet::new();
    for client in 0..=AT_ONCE {
        let (world, place) = (Rc::clone(world), Rc::clone(place));
        asking.spawn_local(async move {
            // One after the other, so that it is known which request is one too many.
            sleep(Duration::from_millis(20) * client as u32).await;
            let line = format!("GET /drill/slow{client}");
            ask(&world, &place, ("reverse 2", SITE), client as u8, &line).await
        });
    }
    let mut answers = asking.join_all().await;
    answers.sort_unstable();
    let expected: Vec<_> = [404; AT_ONCE].into_iter().chain([429]).collect();
    if answers != expected {
        return Err(format!(
            "R14: of {AT_ONCE} fetches at once, and one more, come {answers:?}"
        ));
    }
    let number = place.number_of("reverse 2");
    // A client that has sent requests before.
    let peer = |port| SocketAddr::from(([10, 0, 0, 0], port));
    let mut held = Vec::new();
    for port in 0..=AT_ONCE {
        let socket = place.connect(0, number, peer(50_000 + port as u16), 16 << 10);
        let Some(socket) = socket else { return Ok(()) };
        let mut stream = Stream::new(socket);
        let is_taken = timeout(Duration::from_millis(500), stream.request())
            .await
            .is_err();
        held.push((is_taken, stream));
    }
    let taken: Vec<_> = held.iter().map(|held| held.0).collect();
    let expected: Vec<_> = [true; AT_ONCE].into_iter().chain([false]).collect();
    match taken == expected {
        true => Ok(()),
        false => Err(format!(
            "R14: of {AT_ONCE} connections at once, and one more, are taken {taken:?}"
        )),
    }
}

/// Runs all drills, one after the other.
///
/// # Errors
/// The rule that is broken.
pub async fn run(world: &Shared, place: &Rc<Place>) -> Result<(), String> {
    (0..3).for_each(|number| set(world, number, Server::default()));
    sleep(FORGOTTEN).await;
    quotas(world, place).await?;
    match place.has_checks {
        true => ill(world, place).await?,
        false => down(world, place).await?,
    }
    failing(world, place).await;
    closing(world, place).await;
    Ok(())
}
