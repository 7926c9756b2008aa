//! POSTs, which a proxy may not repeat: one after the other, and with pauses of about the time for which the origin keeps a connection.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::{
    Rows,
    asking::{Whole, sha256},
    programs::{By, DIGEST, KEPT},
};
use crate::chance::Chance;
use crate::failure::{Result, fail};
use crate::http::{Client, Ended, Request};
use crate::rivals::{Rival, Running};

const SENT: &[u8] = b"hello";
/// Clients that make pauses.
const CLIENTS: u64 = 12;
/// POSTs of each of these clients.
const PAUSED: u64 = 5;

/// Our proxy, and the installed ones of `beside`, which speak HTTP/1.1 to the origin.
pub fn proxies(by: By, beside: &[String]) -> Result<Vec<Rival>> {
    let mut proxies = vec![Rival::Loligo];
    if by == By::Http2 {
        return Ok(proxies);
    }
    for name in beside {
        match Rival::of_name(name) {
            Some(rival @ (Rival::Haproxy | Rival::Nginx)) => proxies.push(rival),
            _ => fail!("{name}: there are haproxy and nginx"),
        }
    }
    proxies.retain(|it| it.is_installed());
    Ok(proxies)
}

/// Tries both kinds of POSTs through a proxy.
pub fn try_all(proxy: &Running, posts: u64, rows: &mut Rows) -> Result<()> {
    crate::interrupt::check()?;
    let (address, name) = (proxy.address, proxy.rival.name());
    let began = Instant::now();
    let in_turn = in_turn(address, DIGEST, posts, |_| Duration::ZERO);
    let what = format!("POST x {posts}, one client");
    rows.add(name, &what, in_turn, began.elapsed());
    let began = Instant::now();
    let all = Mutex::new((0, 0, None));
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let all = &all;
            scope.spawn(move || {
                let mut chance = Chance::new(client + 1);
                // Pauses from a fifth below to a fifth above the time for which connections are kept.
                let kept_ms = KEPT.as_millis() as u64;
                let mut pause =
                    |_| Duration::from_millis(kept_ms * 4 / 5 + chance.below(kept_ms * 2 / 5));
                let (asked, failed, why) = self::in_turn(address, DIGEST, PAUSED, &mut pause);
                let mut all = all.lock().expect("no thread panics holding this");
                *all = (all.0 + asked, all.1 + failed, all.2.take().or(why));
            });
        }
    });
    let all = all.into_inner().expect("no thread panics holding this");
    let what = format!("POST x {}, as connections end", CLIENTS * PAUSED);
    rows.add(name, &what, all, began.elapsed());
    Ok(())
}

/// Sends POSTs in turn. Returns how many were sent, how many failed, and the first error.
fn in_turn(
    proxy: SocketAddr,
    target: &str,
    posts: u64,
    mut pause: impl FnMut(u64) -> Duration,
) -> (u64, u64, Option<String>) {
    let mut client = Client::new(proxy);
    let expected = sha256(SENT);
    let (mut failed, mut why) = (0, None);
    for number in 0..posts {
        let request = Request {
            body: Some(SENT),
            ..Request::of("POST", target)
        };
        let mut answer = Whole::default();
        let wrong = match client.ask(request, &mut answer) {
            Ended::Broken { reason, .. } => Some(reason),
            _ if answer.status() == 200 && answer.body == expected => None,
            _ => Some(format!("status {}", answer.status())),
        };
        if let Some(wrong) = wrong {
            failed += 1;
            why.get_or_insert(wrong);
        }
        thread::sleep(pause(number));
    }
    (posts, failed, why)
}
