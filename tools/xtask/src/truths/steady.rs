//! A steady load on an origin with a think time: the report must show the think time, and agree with Little's law.
//!
//! Each client requests a new object, then one that is in the cache, and pauses. Half of the requests are misses that
//! take the think time; the clients measure all of them, and so know the mean number of requests in flight.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::Told;
use super::figures::Figures;
use super::origin::{self, Manner, Origin};
use super::verdict::Verdict;
use crate::failure::{During, Failure, Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::rivals::{Request, Rival, launch};

const THINK: Duration = Duration::from_millis(200);
const CLIENTS: u64 = 12;
const TIME: Duration = Duration::from_secs(20);
/// Length of the report's slots.
const SLOT_S: u64 = 2;
const OBJECT_BYTES: usize = 2000;
/// First id of the objects that are requested once.
const ONCE: u64 = 1000;

/// Makes load, runs the report and compares.
pub fn tell() -> Result<Told> {
    let manner = Manner {
        think: THINK,
        closes: false,
    };
    let origin = Origin::start(Ipv4Addr::LOCALHOST, manner)?;
    let running = launch(
        Rival::Loligo,
        &Request {
            profile: true,
            ..Request::of("truths-steady", origin.address())
        },
    )?;
    let profile = running.run.join("requests.profile");
    let load = load(running.address)?;
    let from_origin = origin.served();
    running.stop()?;
    let figures = Figures::of(&profile, SLOT_S)?;
    let rate = figures.day("3", "all", "value")?;
    let mean_ms = figures.day("5", "all", "mean")?;
    let by_clients = load.waited.as_secs_f64() / load.took.as_secs_f64();
    let present = figures.day("4", "all", "mean")?;
    Ok(Told::Verdicts(vec![
        Verdict::near(
            "Figure 11, server reply of misses, ms: the origin's think time",
            THINK.as_secs_f64() * 1e3,
            figures.day("11", "miss", "p50")?,
            0.03,
        ),
        Verdict::near(
            "Figure 4, concurrent requests, in whole slots: answers that the clients waited for",
            by_clients,
            figures.whole_slots("4", "all", "mean")?,
            0.05,
        ),
        Verdict::near(
            "Figure 4, concurrent requests, of the day: answers that the clients waited for",
            by_clients,
            present,
            0.05,
        ),
        Verdict::near(
            "Figure 4, concurrent requests: rate (Figure 3) times mean response (Figure 5)",
            rate * mean_ms / 1e3,
            present,
            0.05,
        ),
        Verdict::same(
            "Figure 5, requests: those that the clients made",
            load.requests,
            figures.count("5", "all")?,
        ),
        Verdict::same(
            "Figure 11, requests: those that the origin answered",
            from_origin,
            figures.count("11", "all")?,
        ),
    ]))
}

/// The clients' measurements.
struct Load {
    requests: u64,
    /// Sum of all response times.
    waited: Duration,
    took: Duration,
}

fn load(address: SocketAddr) -> Result<Load> {
    let begun = Instant::now();
    let next = AtomicU64::new(ONCE);
    let client = |number: u64| -> Result<(u64, Duration)> {
        let mut client = Client::new(address);
        let (mut requests, mut waited) = (0, Duration::ZERO);
        while begun.elapsed() < TIME {
            interrupt::check()?;
            let once = next.fetch_add(1, Ordering::Relaxed);
            for id in [once, number] {
                let asked = Instant::now();
                let answer = client.get(&origin::path(OBJECT_BYTES, id))?;
                waited += asked.elapsed();
                if answer.status != 200 || answer.body.len() != OBJECT_BYTES {
                    fail!("status {}, {} bytes", answer.status, answer.body.len());
                }
                requests += 1;
            }
            // A pause: without it the number of requests in flight would always be the number of clients.
            interrupt::pause(Duration::from_millis(20 * (once % 8)))?;
        }
        Ok((requests, waited))
    };
    let parts: Vec<Result<(u64, Duration)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn({
                    let client = &client;
                    move || client(number)
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .map_err(|_| Failure::new("a client panicked"))
                .and_then(|part| part)
        });
        joined.collect()
    });
    let mut load = Load {
        requests: 0,
        waited: Duration::ZERO,
        took: begun.elapsed(),
    };
    for part in parts {
        let (requests, waited) = part.during(|| "loading".into())?;
        load.requests += requests;
        load.waited += waited;
    }
    Ok(load)
}
