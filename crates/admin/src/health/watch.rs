//! Watches the devices of the stores, the workers and the background thread.
//!
//! A device that has reads to do and finishes none for a while is *set aside* (`device::Health`). Until it answers again it gets no operations, its
//! records count as absent, and nothing is stored on it. It answers again when one of its outstanding reads ends, or a *probe*: a read on a
//! separate thread, which may hang. Each change is logged once.
//!
//! A worker or background thread that makes no progress cannot be repaired, so `/healthz` fails and a supervisor can restart the process.
//!
//! This runs on the control thread, which never does device I/O itself.
//!
//! Not known here: the content of reads, the work of the background thread.
//!
//! Limits: [`PROBES_MAX`] probes of a device at a time. A silent device is found up to [`STEP`] late. Only reads are watched; writes are bounded by
//! limits of the store.

use base::clock::Instant;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use device::Device;

use base::{phase::Phase, pulse::Pulse};
use cache::{Cache, opening::Absent};
use exchange::state::Shared;

/// The interval between two checks.
const STEP: Duration = Duration::from_millis(250);
/// A device is silent when it has finished nothing for `store.read-wait`, within these bounds: a disk that spins up or is reset takes seconds, and
/// an operator with a long wait still wants to be told.
const SILENT_MIN: Duration = Duration::from_secs(1);
const SILENT_MAX: Duration = Duration::from_secs(30);
/// The first interval between two probes; it doubles up to the maximum.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const PROBE_PAUSE_MAX: Duration = Duration::from_secs(30);
/// Hanging probes of one device, at most. There are no further ones until the device answers one of them, or a read.
const PROBES_MAX: u64 = 8;
/// If a device is set aside again this soon after it answered, the interval between probes continues from its last value.
const RELAPSE: Duration = Duration::from_secs(120);

/// A worker beats ten times a second, between requests. No request takes a hundredth of this time.
const WORKER_STILL_MAX: Duration = Duration::from_secs(10);
/// The background thread beats as often, but also computes checkpoints of large indexes.
const BACKGROUND_STILL_MAX: Duration = Duration::from_secs(60);
/// The limit for the background work of one store: a flush on a busy disk with a large cache may take a minute.
const STORE_STILL_MAX: Duration = Duration::from_secs(300);

/// Watches until the process ends.
pub async fn run(shared: Arc<Shared>) {
    let silent_max = shared.edition().plan.storing.read_wait;
    let silent_max = silent_max.clamp(SILENT_MIN, SILENT_MAX);
    let devices = shared.cache.devices.iter().cloned();
    let mut watched: Vec<_> = devices.map(Watched::new).collect();
    let mut was_still = false;
    loop {
        tokio::time::sleep(STEP).await;
        for device in &mut watched {
            device.look(silent_max, Instant::now());
        }
        let phase = *shared.phase.borrow();
        let still = standstill(phase, &shared.pulses, &shared.cache);
        match (&still, was_still) {
            (Some(cause), false) => tracing::error!("{cause}"),
            (None, true) => tracing::warn!("what did not move moves again"),
            _ => {}
        }
        was_still = still.is_some();
    }
}

/// Why the process cannot go on serving; `None`: it can. `pulses`: those of the workers.
pub fn standstill(phase: Phase, pulses: &[Pulse], cache: &Cache) -> Option<String> {
    if phase != Phase::Running {
        return None; // threads are ending
    }
    let age = |age: Duration| age.as_secs();
    for (index, pulse) in pulses.iter().enumerate() {
        if pulse.age() > WORKER_STILL_MAX {
            let age = age(pulse.age());
            return Some(format!("worker {index} has not moved for {age} s"));
        }
    }
    if let Some(pulse) = cache.wake_up.background_pulse()
        && pulse.age() > BACKGROUND_STILL_MAX
    {
        let age = age(pulse.age());
        return Some(format!("the background thread has not moved for {age} s"));
    }
    let mut works = cache.wake_up.works().iter().zip(&cache.devices);
    works.find_map(|(work, device)| {
        let is_still = work.still_for() > STORE_STILL_MAX && !device.health().is_aside();
        let (path, age) = (work.path.display(), age(work.still_for()));
        is_still.then(|| format!("store {path} has done nothing of its work for {age} s"))
    })
}

/// A sentence for each part that fails while the rest works.
pub fn ailments(cache: &Cache) -> Vec<String> {
    let aside = (cache.devices.iter())
        .filter(|device| device.health().is_aside())
        .map(|device| {
            let path = device.path().display();
            format!("store {path}: its device does not answer; what is stored there comes from the origin")
        });
    let absent = cache.absent.iter().map(|absent| {
        let Absent { path, why } = absent;
        format!("store {}: left out: {why}", path.display())
    });
    absent.chain(aside).collect()
}

/// A device and what is known of its silence.
struct Watched {
    device: Arc<Device>,
    /// `Some` while the device is set aside.
    aside: Option<Aside>,
    pause: Duration,
    answered_at: Option<Instant>,
    probes: u64,
    /// Number of probes under way.
    probing: Arc<AtomicU64>,
}

#[derive(Clone, Copy)]
struct Aside {
    since: Instant,
    last_answer_ms: u64,
    probe_at: Instant,
}

impl Watched {
    fn new(device: Arc<Device>) -> Watched {
        Watched {
            device,
            aside: None,
            pause: PROBE_PAUSE,
            answered_at: None,
            probes: 0,
            probing: Arc::default(),
        }
    }

    fn look(&mut self, silent_max: Duration, now: Instant) {
        let device = Arc::clone(&self.device);
        let (health, path) = (device.health(), device.path().display());
        match self.aside {
            None => {
                let silent = health.silent_for();
                if silent < silent_max {
                    return;
                }
                let seconds = silent.as_secs();
                tracing::error!(
                    %path,
                    "the store's device has answered no read for {seconds} s: it is set aside, and what is stored there comes from the origin"
                );
                health.set_aside(true);
                let answered_well = |at: Instant| now.duration_since(at) > RELAPSE;
                if self.answered_at.is_none_or(answered_well) {
                    self.pause = PROBE_PAUSE;
                }
                self.aside = Some(Aside {
                    since: now,
                    last_answer_ms: health.answered_ms(),
                    probe_at: now + self.pause,
                });
            }
            Some(aside) if health.answered_ms() != aside.last_answer_ms => {
                let seconds = now.duration_since(aside.since).as_secs();
                tracing::warn!(%path, "the store's device answers again, after {seconds} s; it is used again");
                health.set_aside(false);
                self.answered_at = Some(now);
                self.aside = None;
            }
            Some(aside) if aside.probe_at <= now => {
                self.probe();
                self.pause = (self.pause * 2).min(PROBE_PAUSE_MAX);
                self.aside = Some(Aside {
                    probe_at: now + self.pause,
                    ..aside
                });
            }
            Some(_) => {}
        }
    }

    /// Reads from the device on a separate thread.
    fn probe(&mut self) {
        if self.probing.load(Relaxed) >= PROBES_MAX {
            return;
        }
        self.probes += 1;
        let (device, nth) = (Arc::clone(&self.device), self.probes);
        let probing = Arc::clone(&self.probing);
        probing.fetch_add(1, Relaxed);
        #[cfg(feature = "simulation")]
        if device::simulated::is_simulated(&device) {
            tokio::task::spawn_local(async move {
                device::simulated::probe(&device, nth).await;
                probing.fetch_sub(1, Relaxed);
            });
            return;
        }
        let probe = move || {
            device.probe(nth);
            probing.fetch_sub(1, Relaxed);
        };
        let builder = thread::Builder::new().name("probe".into());
        if let Err(error) = builder.spawn(probe) {
            self.probing.fetch_sub(1, Relaxed);
            tracing::debug!(%error, "no thread to probe a device");
        }
    }
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
