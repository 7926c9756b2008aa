//! `cargo xtask bench attacks`: the cost of an attack over HTTP/2 or TLS to the server, and its effect on another client.
//!
//! The program runs with one worker, so that attacker and honest client share it. An honest client requests a hit of 10 KB again
//! and again, on a connection of its own, alternately alone and during an attack ([`list`]). Wanted: its 99th percentile is
//! at most twice the one without attack, and no answer fails.
//!
//! The attacker has a fixed rate ([`attacker`]): it shares two cores with the server, and at full speed the scheduler would be measured.
//!
//! | file | story |
//! |---|---|
//! | `list` | the attacks |
//! | `attacker` | the client that sends them |
//! | `honest` | the client that must not be delayed |
//! | `held` | clients that do not read, and the memory held for them |

mod attacker;
mod held;
mod honest;
mod list;

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio_rustls::rustls::client::Resumption;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use self::attacker::Done;
use self::list::{Attack, Opening};
use super::stats::Spread;
use super::table::Table;
use crate::failure::{During, Failure, Result, fail};
use crate::http::Client;
use crate::interrupt;
use crate::origin::{self, Origin};
use crate::progress::Progress;
use crate::rivals::front::{Front, Protocol};
use crate::rivals::{Request, Rival, Running, build_loligo, launch};
use crate::size::Bytes;

/// Wanted ratio of the honest client's 99th percentiles with and without the attack.
const WANTED: f64 = 2.0;
/// How often the server's memory is read.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How to measure.
#[derive(Debug, Args)]
pub struct Options {
    /// Only attacks whose names contain one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Measurements with and without each attack; the median counts
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Instead: what is held for clients that take nothing, by each protocol
    #[arg(long)]
    held: bool,
}

/// The results of one measurement.
struct Found {
    p50_us: f64,
    p99_us: f64,
    cpu_ms_per_s: f64,
    /// Growth of memory since the beginning of the measurement.
    grown_bytes: u64,
    done: Done,
}

/// Measures and prints; fails if the honest client is delayed too much.
pub fn run(options: &Options) -> Result<()> {
    build_loligo()?;
    let origin = Origin::start(0, 1)?;
    if options.held {
        return held(options, &origin);
    }
    let is_asked =
        |it: &&Attack| options.only.is_empty() || options.only.iter().any(|o| it.name.contains(o));
    let attacks: Vec<&Attack> = list::ALL.iter().filter(is_asked).collect();
    if attacks.is_empty() {
        fail!("no attack of that name");
    }
    let mut table = Table::new([
        "attack",
        "rounds/s",
        "connections/s",
        "ended",
        "CPU ms/s",
        "without",
        "memory +KiB",
        "p50 us",
        "without",
        "p99 us",
        "without",
        "ratio",
    ]);
    let steps = attacks.len() as u64 * u64::from(options.rounds);
    let mut progress = Progress::new("attacking", steps);
    let mut missed = Vec::new();
    for protocol in [Protocol::H2c, Protocol::H2] {
        let is_here = |it: &&&Attack| is_over_tls(it) == (protocol == Protocol::H2);
        let attacks: Vec<_> = attacks.iter().filter(is_here).collect();
        if attacks.is_empty() {
            continue;
        }
        let running = start(protocol, &origin)?;
        for attack in attacks {
            let (mut without, mut with) = (Vec::new(), Vec::new());
            for _ in 0..options.rounds {
                interrupt::check()?;
                progress.say(attack.name);
                without.push(measure(&running, None, options)?);
                with.push(measure(&running, Some(attack), options)?);
                progress.step();
            }
            let ratio = row(attack, &with, &without, &mut table);
            if ratio > WANTED {
                missed.push(format!("{}: {ratio:.2}", attack.name));
            }
        }
        running.stop()?;
    }
    drop(progress);
    print!("{}", table.render());
    println!(
        "Medians of {} rounds of {} s; one worker; an attacker of one thread, paced, with {} new connections a second at most. Wanted: p99 at most {WANTED} times what it is without.",
        options.rounds,
        options.seconds,
        attacker::OPENED_PER_S
    );
    match missed.is_empty() {
        true => Ok(()),
        false => fail!("the honest client waits too long: {}", missed.join(", ")),
    }
}

/// Measures and prints the memory held for clients that do not read; fails if it is too much.
fn held(options: &Options, origin: &Origin) -> Result<()> {
    let mut table = Table::new([
        "protocol", "way", "MiB", "ended", "p99 us", "without", "ratio",
    ]);
    let mut missed = Vec::new();
    let most = 2 * held::SETTING_BYTES + held::BESIDE_BYTES;
    for protocol in [Protocol::H1, Protocol::Tls, Protocol::H2c, Protocol::H2] {
        for &way in held::Way::of(protocol) {
            interrupt::check()?;
            let name = format!("{} {}", protocol.name(), way.name());
            if !options.only.is_empty() && !options.only.iter().any(|only| name.contains(only)) {
                continue;
            }
            let running = start_small(protocol, origin)?;
            let (without, _, _) = beside(&running, None, options)?;
            let (with, bytes, ended) = beside(&running, Some(way), options)?;
            running.stop()?;
            let ratio = with / without;
            table.row([
                protocol.name().into(),
                way.name().into(),
                (bytes >> 20).to_string(),
                ended.to_string(),
                format!("{with:.0}"),
                format!("{without:.0}"),
                format!("{ratio:.2}"),
            ]);
            if bytes > most {
                missed.push(format!("{name}: {} MiB", bytes >> 20));
            }
            if ratio > WANTED {
                missed.push(format!("{name}: {ratio:.2} times as long"));
            }
        }
    }
    print!("{}", table.render());
    println!(
        "Memory and transfer buffer {} MiB each; wanted: {} MiB resident at most, p99 at most {WANTED} times what it is without.",
        held::SETTING_BYTES >> 20,
        most >> 20
    );
    match missed.is_empty() {
        true => Ok(()),
        false => fail!("too much is held, or too long: {}", missed.join(", ")),
    }
}

/// A server with little memory.
fn start_small(protocol: Protocol, origin: &Origin) -> Result<Running> {
    let running = launch(
        Rival::Loligo,
        &Request {
            front: Some(protocol),
            workers: 1,
            memory: Bytes(held::SETTING_BYTES),
            limits: format!("transfer-buffer = {}\n", held::SETTING_BYTES),
            ..Request::of(format!("bench-held-{}", protocol.name()), origin.address())
        },
    )?;
    running.await_caching(origin)?;
    Ok(running)
}

/// The honest client's 99th percentile in microseconds together with clients that do not read, the largest resident memory, and how many
/// of those clients were ended.
fn beside(
    running: &Running,
    way: Option<held::Way>,
    options: &Options,
) -> Result<(f64, u64, usize)> {
    let front = running.front.as_ref().expect("it was asked for");
    let config = config(front)?;
    let (are_open, is_stopped) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut peak = running.resident_bytes();
    let (latencies, ended) = std::thread::scope(|scope| {
        let mut look_until = |is_over: &dyn Fn() -> bool| {
            while !is_over() {
                std::thread::sleep(LOOK_EVERY);
                peak = peak.max(running.resident_bytes());
            }
        };
        let holder = way.map(|way| {
            let (config, flags) = (&config, (&are_open, &is_stopped));
            scope.spawn(move || held::hold(way, front, config, flags))
        });
        if let Some(holder) = &holder {
            look_until(&|| are_open.load(Ordering::Relaxed) || holder.is_finished());
            let until = Instant::now() + held::SETTLED;
            look_until(&|| Instant::now() >= until);
        }
        let honest = scope.spawn(|| honest::hits(running.address, &is_stopped));
        let until = Instant::now() + Duration::from_secs(options.seconds);
        look_until(&|| Instant::now() >= until || honest.is_finished());
        is_stopped.store(true, Ordering::Relaxed);
        let ended = holder.map(|it| it.join().expect("no panic")).transpose();
        (honest.join().expect("no panic"), ended)
    });
    let latencies = latencies?;
    let p99 = f64::from(latencies[(latencies.len() - 1) * 99 / 100]);
    Ok((p99, peak, ended?.unwrap_or_default()))
}

fn is_over_tls(attack: &Attack) -> bool {
    matches!(attack.opening, Opening::Hello | Opening::Handshake)
}

/// Adds a row; returns the ratio of the 99th percentiles.
fn row(attack: &Attack, with: &[Found], without: &[Found], table: &mut Table) -> f64 {
    let median = |all: &[Found], of: fn(&Found) -> f64| Spread::of(all.iter().map(of)).median;
    let p50 = |all| median(all, |it| it.p50_us);
    let p99 = |all| median(all, |it| it.p99_us);
    let cpu = |all| median(all, |it| it.cpu_ms_per_s);
    let grown = with.iter().map(|it| it.grown_bytes).max().unwrap_or(0);
    let seconds: f64 = with.iter().map(|it| it.done.seconds).sum();
    let sum = |of: fn(&Done) -> u64| with.iter().map(|it| of(&it.done)).sum::<u64>();
    let ratio = p99(with) / p99(without);
    table.row([
        attack.name.into(),
        format!("{:.0}", sum(|it| it.rounds) as f64 / seconds),
        format!("{:.1}", sum(|it| it.connections) as f64 / seconds),
        sum(|it| it.ended).to_string(),
        format!("{:.0}", cpu(with)),
        format!("{:.0}", cpu(without)),
        (grown / 1024).to_string(),
        format!("{:.0}", p50(with)),
        format!("{:.0}", p50(without)),
        format!("{:.0}", p99(with)),
        format!("{:.0}", p99(without)),
        format!("{ratio:.2}"),
    ]);
    ratio
}

fn start(protocol: Protocol, origin: &Origin) -> Result<Running> {
    let running = launch(
        Rival::Loligo,
        &Request {
            front: Some(protocol),
            workers: 1,
            ..Request::of(
                format!("bench-attacks-{}", protocol.name()),
                origin.address(),
            )
        },
    )?;
    running.await_caching(origin)?;
    let warmed = Client::new(running.address).get(&origin::path(list::HIT_BYTES, list::HIT_ID))?;
    if warmed.status != 200 {
        fail!("the object is answered {}", warmed.status);
    }
    Ok(running)
}

fn measure(running: &Running, attack: Option<&Attack>, options: &Options) -> Result<Found> {
    let front = running.front.as_ref().expect("it was asked for");
    let config = config(front)?;
    let of_honest = front.protocol.is_encrypted().then(|| Arc::clone(&config));
    let is_stopped = AtomicBool::new(false);
    let before = running.resident_bytes();
    let mut peak = before;
    let (began, cpu) = (Instant::now(), running.cpu());
    let (latencies, done) = std::thread::scope(|scope| {
        let honest = scope.spawn(|| honest::ask(front, of_honest, &is_stopped));
        let attacker = attack.map(|attack| {
            let (config, is_stopped) = (&config, &is_stopped);
            scope.spawn(move || attacker::attack(attack, front, config, is_stopped))
        });
        let until = began + Duration::from_secs(options.seconds);
        while Instant::now() < until && !honest.is_finished() {
            std::thread::sleep(LOOK_EVERY);
            peak = peak.max(running.resident_bytes());
        }
        is_stopped.store(true, Ordering::Relaxed);
        let done = attacker.map(|it| it.join().expect("no panic")).transpose();
        (honest.join().expect("no panic"), done)
    });
    let cpu = running.cpu().saturating_sub(cpu).as_secs_f64();
    let seconds = began.elapsed().as_secs_f64();
    let latencies = latencies?;
    let at = |share: usize| f64::from(latencies[(latencies.len() - 1) * share / 100]);
    Ok(Found {
        p50_us: at(50),
        p99_us: at(99),
        cpu_ms_per_s: cpu * 1000.0 / seconds,
        grown_bytes: peak.saturating_sub(before),
        done: done?.unwrap_or_default(),
    })
}

/// The configuration of a client without session resumption.
fn config(front: &Front) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    if front.protocol.is_encrypted() {
        let chain = &front.certificate.chain;
        let wrong = |error: String| Failure::new(format!("{}: {error}", chain.display()));
        let pem = fs::read(chain).during(|| format!("reading {}", chain.display()))?;
        let certificate =
            CertificateDer::from_pem_slice(&pem).map_err(|error| wrong(error.to_string()))?;
        roots
            .add(certificate)
            .map_err(|error| wrong(error.to_string()))?;
    }
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.resumption = Resumption::disabled();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}
