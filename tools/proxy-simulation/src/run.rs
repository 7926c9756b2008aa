//! One run: the choices of the seed, the participants, starts and ends of the proxy.
//!
//! Not known here: the rules (`check`).

use std::{
    cell::RefCell,
    panic::{self, AssertUnwindSafe},
    rc::Rc,
    sync::Once,
    time::Duration,
};

use proxy::plan::Plan;
use simulation::{Random, areas::Areas, faults::Faults};
use store::Geometry;
use tokio::{
    runtime,
    sync::mpsc,
    task::LocalSet,
    time::{sleep, timeout},
};

use crate::{
    chosen::{choose_plan, choose_resources},
    client,
    disk::Disk,
    drill,
    life::{End, Life, Place},
    operators, origin,
    report::{Failure, Report},
    world::{Shared, World},
};

/// The wall-clock time at which a run begins: an arbitrary day.
const UNIX_S: u64 = 1_800_000_000;
/// After this long without a request nothing may be held (R8): longer than any time-out of the plan.
const QUIET: Duration = Duration::from_secs(200);
/// After the end of a run, everything under way must have ended after this long.
const OVER_MAX: Duration = Duration::from_secs(4000);

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Determines all random choices.
    pub seed: u64,
    /// A precaution to disable.
    pub mistake: Option<proxy::Mistake>,
}

thread_local! {
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Tasks swallow panics, so a hook records them.
fn note_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            PANICKED.with_borrow_mut(|panicked| _ = panicked.get_or_insert(info.to_string()));
            before(info);
        }));
    });
}

/// Runs a seed.
pub fn run(options: Options) -> (Report, Option<Failure>) {
    note_panics();
    PANICKED.take();
    proxy::make_mistake(options.mistake);
    let runtime = runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    let ran = panic::catch_unwind(AssertUnwindSafe(|| {
        let runtime = runtime.expect("a runtime without I/O needs nothing of the system");
        let set = LocalSet::new();
        let ran = runtime.block_on(set.run_until(live(options.seed)));
        drop(set);
        ran
    }));
    proxy::simulation::set_network(None);
    proxy::make_mistake(None);
    let (report, mut broken) = ran.unwrap_or_default();
    if let Some(panicked) = PANICKED.take() {
        broken = Some((panicked, Vec::new()));
    }
    let failure = broken.map(|(message, story)| Failure {
        seed: options.seed,
        message,
        story,
    });
    (report, failure)
}

type Broken = Option<(String, Vec<String>)>;

async fn live(seed: u64) -> (Report, Broken) {
    proxy::simulation::begin(seed, Duration::from_secs(UNIX_S));
    let mut random = Random::new(seed);
    let (plan, listeners) = choose_plan(&mut random);
    let resources = choose_resources(&mut random);
    let disk = plan.stores.first().map(|store| {
        let bytes = store.size_bytes.unwrap_or(0);
        let geometry = Geometry::plan(bytes, Geometry::CHUNK_BYTES_DEFAULT)
            .expect("the plan's store is large enough");
        let faults = Faults::choose(&mut random);
        Disk::new(
            bytes,
            Areas::of(&geometry),
            faults,
            Random::new(random.number()),
        )
    });
    let world: Shared = Rc::new(RefCell::new(World::new(resources, random)));
    let (accepts, accepted) = mpsc::unbounded_channel();
    let network = Rc::clone(&world);
    proxy::simulation::set_network(Some(Rc::new(move |to| {
        origin::connect(&network, to, &accepts)
    })));
    tokio::task::spawn_local(origin::run(Rc::clone(&world), accepted));
    if let Some(disk) = &disk {
        tokio::task::spawn_local(std::sync::Arc::clone(disk).run());
    }
    let place = Rc::new(Place::new(listeners, &plan));
    let mut taking_part = Vec::new();
    let clients = 4 + world.borrow_mut().random.index(12);
    for number in 0..clients {
        let client = client::run(Rc::clone(&world), Rc::clone(&place), number);
        taking_part.push(tokio::task::spawn_local(client));
    }
    taking_part.push(tokio::task::spawn_local(operators::operate(
        Rc::clone(&world),
        Rc::clone(&place),
    )));
    taking_part.push(tokio::task::spawn_local(operators::trouble(
        Rc::clone(&world),
        Rc::clone(&place),
    )));
    taking_part.push(tokio::task::spawn_local(operators::edit(
        Rc::clone(&world),
        Rc::clone(&place),
    )));
    if let Err(message) = lives(&world, &place, plan, disk.as_ref(), taking_part).await {
        world.borrow_mut().fail(message, None);
    }
    if let Some(broken) = disk.and_then(|disk| disk.broken()) {
        world.borrow_mut().fail(
            format!("the store asked for what it must not: {broken}"),
            None,
        );
    }
    let world = world.borrow();
    let report = Report {
        seeds: 1,
        counts: world.counts,
        digest: world.digest,
        seconds: world.now_ms() / 1000,
    };
    let broken = world.failure.clone();
    let broken =
        broken.map(|(message, of)| (message, of.map(|n| world.story(n)).unwrap_or_default()));
    (report, broken)
}

async fn lives(
    world: &Shared,
    place: &Rc<Place>,
    mut plan: Plan,
    disk: Option<&std::sync::Arc<Disk>>,
    taking_part: Vec<tokio::task::JoinHandle<()>>,
) -> Result<(), String> {
    let lives = 1 + world.borrow_mut().random.below(4);
    for life in 1..=lives {
        let by = world.borrow_mut().random.index(place.count());
        place.reorder(&mut plan, by);
        let started = Life::start(world, place, &plan, disk).await;
        let running = started.map_err(|error| format!("the proxy does not start: {error}"))?;
        let (seconds, how) = {
            let mut world = world.borrow_mut();
            let how = world.random.pick(&[End::Stop, End::Kill, End::PowerCut]);
            (5 + world.random.below(60), how)
        };
        for _ in 0..seconds {
            sleep(Duration::from_secs(1)).await;
            if world.borrow().failure.is_some() {
                return Ok(());
            }
        }
        if life < lives {
            // A purge that was acknowledged a moment ago must be durable by now.
            if world.borrow_mut().random.one_in(2) {
                operators::purge(world, place).await;
            }
            running.end(world, how).await;
            continue;
        }
        world.borrow_mut().calm = true;
        place.end();
        let over = async {
            for part in taking_part {
                let _ = part.await;
            }
        };
        timeout(OVER_MAX, over)
            .await
            .map_err(|_| "R7: somebody never came to an end")?;
        drill::run(world, place).await?;
        sleep(QUIET).await;
        let left = place
            .proxy()
            .map(|proxy| proxy.leftovers())
            .unwrap_or_default();
        if !left.is_empty() {
            return Err(format!(
                "R8: long after the last request there is left: {}",
                left.join(", ")
            ));
        }
        running.end(world, End::Stop).await;
        return Ok(());
    }
    Ok(())
}
