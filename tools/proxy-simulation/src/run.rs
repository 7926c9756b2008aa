//! One run: what the seed chooses, who takes part, when the proxy starts and ends.
//!
//! Not known here: the rules (`check`).

use std::{
    cell::RefCell,
    net::SocketAddr,
    panic::{self, AssertUnwindSafe},
    rc::Rc,
    sync::Once,
    time::Duration,
};

use proxy::plan::{LazyMode, Listener, LocalityMode, OriginUrl, Plan, Role, StorePlan};
use simulation::{Random, areas::Areas, faults::Faults};
use store::Geometry;
use tokio::{
    runtime,
    sync::mpsc,
    task::LocalSet,
    time::{sleep, timeout},
};

use crate::{
    client,
    disk::Disk,
    life::{End, Life, Listener as Known, Place, SITE},
    operators, origin,
    report::{Failure, Report},
    world::{Resource, Shared, Vary, World},
};

/// When a run begins, by the wall clock: some day.
const UNIX_S: u64 = 1_800_000_000;
/// After so long without a request nothing is held any more (R8): longer than any time-out of the plan.
const QUIET: Duration = Duration::from_secs(200);
/// All that is under way when the run is over has ended after so long.
const OVER_MAX: Duration = Duration::from_secs(4000);

/// One run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// All chance follows from it.
    pub seed: u64,
    /// Precaution to take out.
    pub mistake: Option<proxy::Mistake>,
}

thread_local! {
    static PANICKED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Tasks swallow panics, so a hook notes them.
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

/// Runs it.
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
            // What was acknowledged a moment ago must be durable by now.
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

fn at(ip: [u8; 4], port: u16) -> SocketAddr {
    SocketAddr::from((ip, port))
}

/// Origins that anybody may be led to, and one inside.
const OUTSIDE: [([u8; 4], &str); 2] = [
    ([203, 0, 113, 1], "203.0.113.1"),
    ([203, 0, 113, 2], "203.0.113.2"),
];
const INSIDE: ([u8; 4], u16, &str) = ([127, 0, 0, 9], 8080, "127.0.0.9:8080");

fn choose_plan(random: &mut Random) -> (Plan, Vec<Known>) {
    let networks = || vec!["10.0.0.0/8".parse().expect("a network")];
    let forward = |name, port, leads_inside| {
        let mut listener = Listener::forward(at([192, 0, 2, 1], port), networks());
        if let Role::Forward(forward) = &mut listener.role {
            forward.destinations.loopback = leads_inside;
        }
        let known = Known {
            name,
            is_forward: true,
            leads_inside,
            origin: None,
        };
        (listener, known)
    };
    let reverse = |called, port, (ip, name): ([u8; 4], &str)| {
        let origin = OriginUrl {
            tls: false,
            host: name.to_owned(),
            port: 80,
            path: String::new(),
        };
        let mut listener = Listener::reverse(at([192, 0, 2, 1], port), networks(), origin);
        listener.purge_from = networks();
        let known = Known {
            name: called,
            is_forward: false,
            leads_inside: true,
            origin: Some(at(ip, 80)),
        };
        (listener, known)
    };
    let both = [
        forward("forward inside", 3128, true),
        forward("forward", 3129, false),
        reverse("reverse 1", 8001, OUTSIDE[0]),
        reverse("reverse 2", 8002, OUTSIDE[1]),
    ];
    let (listeners, known): (Vec<_>, Vec<_>) = both.into_iter().unzip();
    let mut plan = Plan::with_listeners(listeners);
    let seconds = |random: &mut Random, most| Duration::from_secs(1 + random.below(most));
    for listener in &mut plan.listeners {
        listener.http2 = true;
    }
    plan.workers = 1 + random.index(2);
    plan.memory_bytes = random.pick(&[0, 1 << 20, 16 << 20]);
    if !random.one_in(6) {
        plan.stores = vec![StorePlan::at(
            "simulated",
            Some(random.pick(&[8 << 20, 16 << 20])),
        )];
    }
    let storing = &mut plan.storing;
    storing.cluster_bytes = random.pick(&[64 << 10, 256 << 10]);
    storing.cluster_deadline = Duration::from_millis(random.pick(&[10, 300, 1000]));
    storing.fragment_bytes = 64 << 10;
    storing.lazy_reads = LazyMode::Gather(random.pick(&[0, 4]));
    storing.locality = LocalityMode::Servers(random.pick(&[0, 8]));
    storing.read_wait = Duration::from_millis(random.pick(&[200, 1000, 5000]));
    let limits = &mut plan.limits;
    limits.memory_object_bytes_max = random.pick(&[8 << 10, 1 << 20]);
    limits.transfer_bytes_max = random.pick(&[64 << 10, 1 << 20]);
    limits.transfer_buffer_bytes = 4 << 20;
    limits.waiters_max = random.pick(&[1, 4, 1024]);
    let timeouts = &mut plan.timeouts;
    timeouts.client_idle = seconds(random, 30);
    timeouts.client_write = seconds(random, 30);
    timeouts.connect = seconds(random, 5);
    timeouts.origin_first_byte = seconds(random, 10);
    timeouts.origin_idle_read = seconds(random, 10);
    timeouts.pool_idle = seconds(random, 30);
    timeouts.drain = seconds(random, 10);
    plan.pool.per_origin_max = random.pick(&[2, 8, 1024]);
    if random.one_in(3) {
        plan.cache.stale_while_revalidate = Duration::from_secs(20);
        plan.cache.stale_if_error = Duration::from_secs(60);
    }
    (plan, known)
}

fn choose_resources(random: &mut Random) -> Vec<Resource> {
    let count = 6 + random.index(20);
    let one = |n: usize, random: &mut Random| {
        let outside = OUTSIDE[n % 2];
        let (host, origin) = match random.below(6) {
            0 => (INSIDE.2, at(INSIDE.0, INSIDE.1)),
            1..4 => (outside.1, at(outside.0, 80)),
            _ => (SITE, at(outside.0, 80)),
        };
        Resource {
            host,
            path: format!("/{}/{}", random.pick(&["a", "b"]), n / 2),
            origin,
            vary: random.pick(&[Vary::Nothing, Vary::Nothing, Vary::Flavor, Vary::Coding]),
            bytes: match random.below(8) {
                0 => 0,
                1 | 2 => 70_000 + random.below(400_000),
                3..5 => 20_000 + random.below(60_000),
                _ => random.below(8_000),
            },
            max_age_s: random.pick(&[0, 2, 10, 60, 600]),
            stale_while_s: random.pick(&[0, 0, 0, 10]),
            has_etag: !random.one_in(4),
            has_ranges: !random.one_in(3),
            knows_if_range: !random.one_in(3),
            is_public: random.one_in(2),
            private_one_in: random.pick(&[0, 0, 0, 3]),
            tag: random.pick(&["", "red", "blue"]),
            version: 1,
        }
    };
    let mut all: Vec<Resource> = (0..count).map(|n| one(n, random)).collect();
    // Of each place at least one, so that every listener has something to lead to.
    for (n, (host, origin)) in [
        (INSIDE.2, at(INSIDE.0, INSIDE.1)),
        (SITE, at(OUTSIDE[0].0, 80)),
        (SITE, at(OUTSIDE[1].0, 80)),
    ]
    .into_iter()
    .enumerate()
    {
        let mut resource = one(n, random);
        (resource.host, resource.origin, resource.path) = (host, origin, "/a/common".to_owned());
        if random.one_in(2) {
            // Large, and its origin would mix versions if nobody looked.
            resource.bytes = 200_000 + random.below(200_000);
            (resource.has_etag, resource.has_ranges) = (true, true);
            (resource.knows_if_range, resource.is_public) = (false, true);
            (resource.private_one_in, resource.max_age_s) = (0, 60);
            resource.vary = Vary::Nothing;
        }
        all.push(resource);
    }
    // A path may have come twice.
    all.sort_by_key(|r| (r.origin, r.host, r.path.clone()));
    all.dedup_by_key(|r| (r.origin, r.host, r.path.clone()));
    all
}
