//! One trial: repeated kills, restarts and checks on one store.
//!
//! A round:
//!   1. the proxy runs under load for a while, sometimes very briefly; perhaps its device crawls or fails meanwhile
//!   2. objects that should be durable are noted, and some of them reserved: the clients do not use these
//!   3. SIGKILL; rarely, in addition to the requested kills, a regular stop
//!   4. perhaps the store is damaged
//!   5. restart at once; clients continue with the first answer, while the proxy may still rebuild its index
//!   6. when there is nothing left to rebuild, the reserved objects are requested: they should be hits
//!
//! At the end every URL is requested once more, the proxy is stopped during HTTP/2 bodies, and unless it was damaged, the store is verified.
//!
//! Limits: [`SAMPLE_MAX`] objects a round, [`RECOVERY_MAX`] for a rebuild.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::bodies::{Catalogue, Variant};
use super::clients::{self, Client, Get, Life, Shared};
use super::ledger::Ledger;
use super::origin::Origin;
use super::proxy::{self, Proxy, Ways};
use super::report::{Deeds, Figures, Report};
use super::steps::Deck;
use super::streams::Streams;
use super::test_bed::{Fault, On, TestBed};
use crate::chance::{Chance, mix};
use crate::failure::{Result, fail};
use crate::h2_load;
use crate::interrupt;
use crate::progress::Progress;
use crate::rivals::front::{Certificate, Front, KeyKind, Protocol};
use crate::size::Bytes;

const SAMPLE_MAX: usize = 150;
const RECOVERY_MAX: Duration = Duration::from_secs(120);
const TICK: Duration = Duration::from_millis(10);
/// A life this short may end during recovery.
const SHORT_LIFE_S: f64 = 0.3;
const SHORT_LIVES_PERCENT: u64 = 15;
const CLEAN_STOPS_PERCENT: u64 = 10;
/// Percentage of rounds with one of the requested faults.
const FAULTS_PERCENT: u64 = 40;
const DETACHED_S: (f64, f64) = (2.0, 4.0);
const THROTTLED_S: (f64, f64) = (3.0, 6.0);
/// Longer than any client may wait, or a wait that is too long could not be detected.
const HUNG_S: (f64, f64) = (9.0, 11.0);
const AFTER_A_HANG: Duration = Duration::from_secs(2);
const _: () = assert!(HUNG_S.0 > clients::HANG_WAIT_MAX.as_secs() as f64);

/// The settings of a trial.
#[derive(Debug, Clone)]
pub struct Plan {
    pub on: On,
    pub kills: u64,
    pub seed: u64,
    /// Bounds of the length of a life.
    pub seconds: (f64, f64),
    pub faults: Vec<Fault>,
    pub store: Bytes,
    /// An answer older than a replaced version is wrong.
    pub strict: bool,
    /// A download cut by a purge is wrong.
    pub whole_downloads: bool,
    /// A long wait for a hanging device is wrong.
    pub bounded_waits: bool,
    /// Further arguments of the proxy.
    pub extra: Vec<String>,
    /// Upgrades to another process, in addition to kills.
    pub upgrade: bool,
    /// Kills of earlier trials, for the progress bar.
    pub kills_before: u64,
    /// Part of this trial's directory name.
    pub name: String,
}

/// Runs the trial. Faults of the proxy are in the report; an error means that the trial could not begin, or was interrupted.
pub fn run(plan: &Plan, binary: &Path, progress: &mut Progress) -> Result<Report> {
    let mut report = Report::new(plan.on, plan.seed, plan.store.0, plan.kills);
    let test_bed = TestBed::make(plan.on, plan.store, &plan.name)?;
    let mut faults = Vec::new();
    for fault in &plan.faults {
        match test_bed.bears(*fault) {
            Ok(()) => faults.push(*fault),
            Err(why) => report.left_out.push(format!("{fault:?}: {why}")),
        }
    }
    let catalogue = Arc::new(Catalogue::new(plan.seed, plan.store.0));
    let ledger = Arc::new(Ledger::new(catalogue.len_of_all()));
    let origin = Origin::start(Arc::clone(&catalogue), Arc::clone(&ledger))?;
    // Trials come in pairs: one treats the disk as slow, one as fast, and their reads take different paths.
    let ways = Ways {
        as_fast: plan.seed.is_multiple_of(2),
        has_memory: plan.seed % 4 >= 2,
    };
    let front = match plan.upgrade {
        true if proxy::is_configured(&plan.extra) => {
            let why = "HTTP/2: the configuration is not this command's";
            report.left_out.push(why.into());
            None
        }
        true => Some(encrypted(&test_bed.dir)?),
        false => None,
    };
    let (at, extra) = (origin.address(), &plan.extra);
    let proxy = Proxy::new(binary, at, &test_bed, ways, front.as_ref(), extra)?;
    let shared = Arc::new(Shared {
        catalogue,
        ledger,
        life: Life::default(),
        figures: Figures::default(),
        wrongs: Mutex::default(),
        cuts_forgiven: AtomicBool::new(false),
        stop: AtomicBool::new(false),
        repeats: plan.upgrade,
        strict: plan.strict,
        whole_downloads: plan.whole_downloads,
        bounded_waits: plan.bounded_waits,
        address: proxy.address,
        admin: proxy.admin,
        begun: Instant::now(),
    });
    shared.life.turn();
    let mut trial = Trial {
        plan,
        faults,
        chance: Chance::new(mix(plan.seed)),
        crowd: Crowd {
            shared: Arc::clone(&shared),
            threads: clients::start(&shared, plan.seed),
        },
        front,
        streams: None,
        proxy,
        test_bed: &test_bed,
        report: &mut report,
        sample: Vec::new(),
        recovering_since: None,
        stopped_in_order: false,
        upgrade_ms: 0.0,
        deck: Deck::default(),
    };
    let outcome = trial.carry_out(progress);
    drop(trial);
    drop(origin);
    interrupt::check()?;
    report.trouble = outcome.err().map(|failure| failure.to_string());
    report.seconds = shared.begun.elapsed().as_secs_f64();
    report.count(&shared.figures);
    report
        .wrongs
        .append(&mut shared.wrongs.lock().expect("no thread panics holding this"));
    Ok(report)
}

/// The listener for HTTP/2, with a certificate of its own.
fn encrypted(dir: &Path) -> Result<Front> {
    let front = Front {
        address: proxy::free()?,
        protocol: Protocol::H2,
        certificate: Certificate::of(dir),
    };
    front.certificate.make(KeyKind::P256)?;
    Ok(front)
}

/// The clients; dropping it ends them.
struct Crowd {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                self.shared.wrong("a client of the torture panicked");
            }
        }
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.end();
    }
}

// Fields are dropped in this order: the proxy is killed first, so that no client waits.
pub(super) struct Trial<'a> {
    pub(super) proxy: Proxy,
    crowd: Crowd,
    /// The HTTP/2 listener, and its clients.
    front: Option<Front>,
    streams: Option<Streams>,
    pub(super) plan: &'a Plan,
    faults: Vec<Fault>,
    pub(super) chance: Chance,
    test_bed: &'a TestBed,
    pub(super) report: &'a mut Report,
    /// Reserved objects, to be requested after recovery.
    sample: Vec<(usize, Variant)>,
    pub(super) recovering_since: Option<Instant>,
    /// The last end was a regular stop, not a kill.
    pub(super) stopped_in_order: bool,
    /// The longest upgrade so far.
    pub(super) upgrade_ms: f64,
    /// Kills at steps of upgrades.
    pub(super) deck: Deck,
}

impl Trial<'_> {
    pub(super) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.crowd.shared)
    }

    fn carry_out(&mut self, progress: &mut Progress) -> Result<()> {
        self.start()?;
        if let Some(front) = &self.front {
            let connector = h2_load::connector(&front.certificate.chain, b"h2")?;
            let streams = Streams::start(&self.shared(), front.address, connector)?;
            self.streams = Some(streams);
        }
        let outcome = self.rounds(progress);
        if let Some(mut streams) = self.streams.take() {
            streams.end();
            self.report.streams = Some(streams.came());
        }
        outcome?;
        match self.plan.faults.is_empty() {
            // The verification would find the deliberate damage.
            false => Ok(()),
            true => self.proxy.verify(&self.test_bed.store),
        }
    }

    /// All rounds, up to the final stop.
    fn rounds(&mut self, progress: &mut Progress) -> Result<()> {
        loop {
            let done = match self.plan.upgrade {
                true => self.report.upgrades.tried(),
                false => self.report.deeds.kills,
            };
            progress.at(self.plan.kills_before + done);
            if done >= self.plan.kills {
                break;
            }
            match self.plan.upgrade {
                true => self.upgrade_round(progress)?,
                false => self.round(progress)?,
            }
            let wrongs = self.shared().wrongs.lock().map_or(0, |w| w.len());
            if wrongs >= clients::WRONGS_MAX {
                fail!("too much is wrong to go on");
            }
        }
        progress.say("asking for everything once more");
        self.live(Duration::from_secs(1))?;
        self.await_recovery()?;
        self.crowd.end();
        self.ask_for_everything();
        self.proxy.check_alive()?;
        if let Some(streams) = &self.streams {
            streams.expect_stop();
        }
        self.proxy.stop()
    }

    fn round(&mut self, progress: &Progress) -> Result<()> {
        let fault = match self.faults.len() {
            0 => None,
            n if self.chance.percent(FAULTS_PERCENT) => {
                Some(self.faults[self.chance.below(n as u64) as usize])
            }
            _ => None,
        };
        // Damage after a regular stop meets an index that is complete.
        let in_order =
            matches!(fault, None | Some(Fault::Flip)) && self.chance.percent(CLEAN_STOPS_PERCENT);
        let (from, to) = self.plan.seconds;
        let life = match self.chance.percent(SHORT_LIVES_PERCENT) {
            true => self.chance.seconds(0.0, SHORT_LIFE_S.min(to)),
            false => self.chance.seconds(from, to),
        };
        progress.say("under load");
        self.live(life)?;

        let shared = self.shared();
        let (mut detached, mut hung_at) = (None, None);
        match fault {
            Some(Fault::Throttle) => {
                progress.say("on a crawling device");
                shared.ledger.device_crawls(true);
                let throttled = self.test_bed.throttle()?;
                let crawl = self.chance.seconds(THROTTLED_S.0, THROTTLED_S.1);
                let lived = self.live(crawl.min(life.max(Duration::from_secs(1)) * 2));
                drop(throttled);
                shared.ledger.device_crawls(false);
                lived?;
                self.report.deeds.throttles += 1;
            }
            Some(Fault::Hang) => {
                progress.say("on a hanging device");
                shared.ledger.device_hangs(true);
                hung_at = Some(Instant::now());
                let hung = self.test_bed.hang()?;
                let time = self.chance.seconds(HUNG_S.0, HUNG_S.1);
                let lived = self.live(time);
                drop(hung);
                shared.ledger.device_hangs(false);
                lived?;
                // Waiting clients are answered now, and their wait is reported; a kill would excuse it.
                self.live(AFTER_A_HANG)?;
                self.report.deeds.hangs += 1;
            }
            Some(Fault::Detach) => {
                shared.ledger.device_fails(true);
                shared.cuts_forgiven.store(true, Ordering::SeqCst);
                let made = self.test_bed.detach(&mut self.chance)?;
                progress.say(format!("on a failing device: {}", made.words));
                detached = Some(made);
                let time = self.chance.seconds(DETACHED_S.0, DETACHED_S.1);
                self.live(time)?;
                self.report.deeds.detaches += 1;
            }
            Some(Fault::Flip) | None => {}
        }

        progress.say("killed");
        let end = if in_order { "stopped" } else { "killed" };
        self.report.lives.push(format!(
            "life {} ended at {:.3} s: {fault:?}, {end}",
            shared.life.number() / 2,
            shared.begun.elapsed().as_secs_f64()
        ));
        // URLs reserved for this life and not yet checked are released.
        self.release();
        if self.recovering_since.take().is_some() {
            self.report.deeds.kills_during_recovery += 1;
        }
        // Not earlier: objects hit in memory meanwhile would count as durable.
        if let Some(hung_at) = hung_at {
            shared.ledger.doubt_since(hung_at);
        }
        if fault != Some(Fault::Detach) {
            self.reserve();
        }
        self.stopped_in_order = in_order;
        shared.life.turn();
        let killed_at = Instant::now();
        if in_order {
            self.proxy.stop()?;
            self.report.deeds.clean_stops += 1;
        } else {
            self.proxy.kill()?;
            self.report.deeds.kills += 1;
        }
        shared.ledger.killed(killed_at);
        shared.catalogue.leftovers(|| self.test_bed.leftovers());
        if detached.take().is_some() {
            shared.ledger.device_fails(false);
            shared.ledger.doubt();
        }
        if fault == Some(Fault::Flip) {
            let words = self.test_bed.flip(&mut self.chance)?;
            progress.say(format!("damaged: {words}"));
            shared.ledger.doubt();
            shared.cuts_forgiven.store(true, Ordering::SeqCst);
            self.release();
            self.report.deeds.flips += 1;
        }
        self.start()
    }

    fn start(&mut self) -> Result<()> {
        let begun = Instant::now();
        let took = self.proxy.start()?.as_secs_f64();
        let longest = &mut self.report.deeds.first_answer_s_max;
        *longest = longest.max(took);
        self.recovering_since = Some(begun);
        self.shared().life.turn();
        Ok(())
    }

    /// Lets the proxy run for this time, and checks the sample after recovery.
    pub(super) fn live(&mut self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            self.proxy.check_alive()?;
            self.look_at_recovery()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            interrupt::pause(left.min(TICK))?;
        }
    }

    fn look_at_recovery(&mut self) -> Result<()> {
        let Some(since) = self.recovering_since else {
            return Ok(());
        };
        // A crawling proxy may be late with this answer too; the check is repeated soon.
        if self.proxy.is_recovering() != Some(false) {
            if since.elapsed() > RECOVERY_MAX {
                fail!("recovery takes longer than {} s", RECOVERY_MAX.as_secs());
            }
            return Ok(());
        }
        self.recovering_since = None;
        let longest = &mut self.report.deeds.recovery_s_max;
        *longest = longest.max(since.elapsed().as_secs_f64());
        self.look_at_sample()
    }

    fn await_recovery(&mut self) -> Result<()> {
        while self.recovering_since.is_some() {
            self.live(TICK)?;
        }
        Ok(())
    }

    /// Objects stored before the last this many bytes may have been evicted.
    fn durable_bytes(&self) -> u64 {
        self.plan.store.0 / 2
    }

    pub(super) fn reserve(&mut self) {
        let ledger = &self.crowd.shared.ledger;
        let mut durable = ledger.durable(Instant::now(), self.durable_bytes());
        while self.sample.len() < SAMPLE_MAX && !durable.is_empty() {
            let choice = self.chance.below(durable.len() as u64) as usize;
            let (id, variant) = durable.swap_remove(choice);
            ledger.reserve(id, true);
            self.sample.push((id, variant));
        }
    }

    pub(super) fn release(&mut self) {
        for (id, _) in self.sample.drain(..) {
            self.crowd.shared.ledger.reserve(id, false);
        }
    }

    fn look_at_sample(&mut self) -> Result<()> {
        let shared = self.shared();
        let mut client = Client::new(&shared);
        let hits = |deeds: &Deeds| {
            (
                deeds.durable_hits + deeds.stopped_hits,
                deeds.durable_asked + deeds.stopped_asked,
            )
        };
        let before = hits(&self.report.deeds);
        while let Some((id, variant)) = self.sample.pop() {
            // A request in flight when the URL was reserved may have changed it, and during a slow end of the old process much may be stored.
            if shared
                .ledger
                .is_still_durable(id, variant, self.durable_bytes())
            {
                let url = shared.catalogue.url(id);
                if let Some(seen) = client.get(&Get::plain(url, variant)) {
                    let deeds = &mut self.report.deeds;
                    let (asked, hits) = match self.stopped_in_order {
                        true => (&mut deeds.stopped_asked, &mut deeds.stopped_hits),
                        false => (&mut deeds.durable_asked, &mut deeds.durable_hits),
                    };
                    *asked += 1;
                    *hits += u64::from(seen.hit);
                }
            }
            shared.ledger.reserve(id, false);
            interrupt::check()?;
        }
        let after = hits(&self.report.deeds);
        self.report.lives.push(format!(
            "life {}: {} of {} durable objects hit again",
            shared.life.number() / 2,
            after.0 - before.0,
            after.1 - before.1
        ));
        Ok(())
    }

    fn ask_for_everything(&mut self) {
        let shared = self.shared();
        let mut client = Client::new(&shared);
        for id in 0..shared.catalogue.len() {
            if interrupt::check().is_err() {
                return;
            }
            let url = shared.catalogue.url(id);
            if shared.catalogue.is_ready(&url) {
                client.get(&Get::plain(url, Variant::Identity));
            }
        }
    }
}
