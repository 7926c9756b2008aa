//! Records the state of workers, process, devices and network once a second, as events of the profile.
//!
//! A thread of its own reads the state, because reading `/proc` may take as long as a hundred requests. If no profile is wanted, the
//! thread only wakes up.
//!
//! Not known here: the readers of the events.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use profile::{Event, Gauge, Second, Subject};

use exchange::state::Shared;
use peers::icp;
use record::{
    events::number,
    kernel::{DeviceStat, NetworkCounts, ProcessCounts},
    lag,
};

const SECOND: Duration = Duration::from_secs(1);

/// The running thread.
pub struct Seconds {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Seconds {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub fn start(shared: Arc<Shared>) -> io::Result<Seconds> {
        let (stop, stopped) = channel();
        let thread = thread::Builder::new()
            .name("seconds".into())
            .spawn(move || {
                let mut watcher = Watcher::new(shared);
                let mut due = Instant::now() + SECOND;
                // A dropped sender means stop, too.
                while let Err(RecvTimeoutError::Timeout) =
                    stopped.recv_timeout(due.saturating_duration_since(Instant::now()))
                {
                    watcher.look();
                    // After the machine has slept, do not make up for the missed seconds.
                    due = (due + SECOND).max(Instant::now());
                }
            })?;
        Ok(Seconds { stop, thread })
    }

    /// Ends the thread.
    pub fn stop(self) {
        drop(self.stop);
        let _ = self.thread.join();
    }
}

struct Watcher {
    shared: Arc<Shared>,
    /// The last reading of each worker's lag.
    lags: Vec<lag::Read>,
    /// The statistics of each store's device.
    devices: Vec<Option<DeviceStat>>,
}

impl Watcher {
    fn new(shared: Arc<Shared>) -> Watcher {
        let lags = shared.counters.iter().map(|_| lag::Read::default());
        let devices = shared.cache.devices.iter();
        Watcher {
            lags: lags.collect(),
            devices: devices.map(|it| DeviceStat::of(it.path())).collect(),
            shared,
        }
    }

    fn look(&mut self) {
        let events = Arc::clone(&self.shared.events);
        if !events.are_wanted() {
            // Events recorded for subscribers that have gone are not for later ones.
            return events.flush();
        }
        let at_unix_us = events.unix_us();
        let note = |subject, number, gauges: Vec<(Gauge, u64)>| {
            if !gauges.is_empty() {
                events.note(&Event::Second(Second {
                    at_unix_us,
                    subject,
                    number,
                    gauges,
                }));
            }
        };
        for worker in 0..self.lags.len() {
            note(Subject::Worker, number(worker), self.worker(worker));
        }
        note(
            Subject::Process,
            0,
            [self.process(), self.siblings(), self.hints()].concat(),
        );
        for (store, device) in self.devices.iter().enumerate() {
            let gauges = device.as_ref().map(device_gauges).unwrap_or_default();
            note(Subject::Device, number(store), gauges);
        }
        note(Subject::Network, 0, network_gauges());
        let lost = |counters: &AtomicU64| counters.load(Relaxed);
        let counters = self.shared.counters.iter();
        events.end_second(counters.map(|of| lost(&of.log_records_lost)).sum());
    }

    fn worker(&mut self, worker: usize) -> Vec<(Gauge, u64)> {
        let counters = &self.shared.counters[worker];
        let load = |gauge: &AtomicU64| gauge.load(Relaxed);
        let mut gauges = vec![
            (
                Gauge::ClientConnections,
                load(&counters.client_connections_open),
            ),
            (
                Gauge::ServerConnectionsUsed,
                load(&counters.origin_connections_used_open),
            ),
            (
                Gauge::ServerConnectionsIdle,
                load(&counters.origin_connections_idle_open),
            ),
        ];
        if let Some(lag) = counters.lag.since(&mut self.lags[worker]) {
            gauges.push((Gauge::LagP50Us, lag.p50_us));
            gauges.push((Gauge::LagP99Us, lag.p99_us));
            gauges.push((Gauge::LagMaxUs, lag.max_us));
        }
        gauges
    }

    fn process(&self) -> Vec<(Gauge, u64)> {
        let counts = ProcessCounts::now();
        let held = self.shared.ledger.bytes();
        present([
            (Gauge::TransferBytes, Some(held)),
            (Gauge::UserUs, counts.user_us),
            (Gauge::SystemUs, counts.system_us),
            (Gauge::ResidentBytes, counts.resident_bytes),
            (Gauge::MinorFaults, counts.minor_faults),
            (Gauge::MajorFaults, counts.major_faults),
            (Gauge::VoluntarySwitches, counts.voluntary_switches),
            (Gauge::InvoluntarySwitches, counts.involuntary_switches),
        ])
    }

    /// The cost of publishing and following hints, if there is a cluster.
    fn hints(&self) -> Vec<(Gauge, u64)> {
        let counters = self.shared.cluster.as_ref().map(|it| &it.counters);
        present([
            (
                Gauge::HintUpdates,
                counters.map(|it| it.hint_frames.load(Relaxed)),
            ),
            (
                Gauge::HintBytes,
                counters.map(|it| it.hint_bytes.load(Relaxed)),
            ),
        ])
    }

    /// The cost of traffic with siblings: ICP if it is used, digests if any are fetched.
    fn siblings(&self) -> Vec<(Gauge, u64)> {
        let icp = self.shared.icp.as_ref().map(|icp| &icp.counters);
        let of_icp = |count: fn(&icp::Counters) -> &AtomicU64| Some(count(icp?).load(Relaxed));
        let digests = &self.shared.digests;
        let are_fetched = digests.siblings().next().is_some();
        let of_digests = |count: &AtomicU64| are_fetched.then(|| count.load(Relaxed));
        present([
            (Gauge::IcpSent, of_icp(|it| &it.icp_sent)),
            (Gauge::IcpReceived, of_icp(|it| &it.icp_received)),
            (Gauge::IcpSentBytes, of_icp(|it| &it.icp_sent_bytes)),
            (Gauge::IcpReceivedBytes, of_icp(|it| &it.icp_received_bytes)),
            (Gauge::DigestsFetched, of_digests(&digests.counters.fetched)),
            (
                Gauge::DigestFetchedBytes,
                of_digests(&digests.counters.fetched_bytes),
            ),
        ])
    }
}

fn device_gauges(stat: &DeviceStat) -> Vec<(Gauge, u64)> {
    let Some(counts) = stat.now() else {
        return Vec::new();
    };
    vec![
        (Gauge::DeviceReads, counts.reads),
        (Gauge::DeviceReadBytes, counts.read_bytes),
        (Gauge::DeviceWrites, counts.writes),
        (Gauge::DeviceWriteBytes, counts.write_bytes),
        (Gauge::DeviceQueue, counts.queue),
        (Gauge::DeviceBusyUs, counts.busy_us),
        (Gauge::DeviceQueueUs, counts.queue_us),
    ]
}

fn network_gauges() -> Vec<(Gauge, u64)> {
    let counts = NetworkCounts::now();
    present([
        (Gauge::Retransmits, counts.retransmits),
        (Gauge::ListenOverflows, counts.listen_overflows),
    ])
}

/// The gauges that could be read.
fn present<const N: usize>(gauges: [(Gauge, Option<u64>); N]) -> Vec<(Gauge, u64)> {
    let known = gauges
        .into_iter()
        .filter_map(|(gauge, value)| Some((gauge, value?)));
    known.collect()
}
