//! The proxy under test, on threads of this process.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread::{self, JoinHandle},
    time::Duration,
};

use device::Device;
use proxy::{
    Clock, Launch, Predecessor, Reading, Ready, ServeError, Stopper, Succession,
    plan::{
        Admin, AdmissionKind, ClientDirectives, Forward, Listener, OriginUrl, Plan, Role, StorePlan,
    },
};
use tempfile::TempDir;

use super::{
    Client, Origin, PATIENCE, Response, eventually,
    way::{self, Noted, Way},
};

const LOCAL: &str = "127.0.0.1:0";

type OnReady = Box<dyn FnOnce(&Ready, Stopper) + Send>;

/// A running proxy; stops when dropped.
pub struct Proxy {
    pub ready: Ready,
    stopper: Stopper,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    noted: Vec<Noted>,
}

impl Proxy {
    pub fn start(plan: Plan) -> Proxy {
        Proxy::start_at(plan, Clock::default())
    }

    /// By a clock of the test's.
    pub fn start_at(plan: Plan, clock: Clock) -> Proxy {
        let dressed = way::dressed(&plan);
        Proxy::run(&dressed, move |on_ready| {
            proxy::start_at(plan, clock, on_ready)
        })
    }

    fn run(
        dressed: &[Way],
        start: impl FnOnce(OnReady) -> Result<(), ServeError> + Send + 'static,
    ) -> Proxy {
        let (sender, receiver) = mpsc::channel();
        let on_ready = move |ready: &Ready, stopper| {
            let _ = sender.send((ready.clone(), stopper));
        };
        let thread = thread::spawn(move || start(Box::new(on_ready)));
        match receiver.recv_timeout(PATIENCE) {
            Ok((ready, stopper)) => Proxy {
                noted: vec![way::note(&ready.listeners, dressed)],
                ready,
                stopper,
                thread: Some(thread),
            },
            Err(_) => panic!("no proxy: {:?}", thread.join()),
        }
    }

    /// One that reads its configuration from there, also later.
    pub fn start_reloadable(plans: &Plans) -> Proxy {
        let (plans, dressed) = (plans.clone(), plans.dressed());
        Proxy::run(&dressed, move |on_ready| {
            let first = plans.read().expect("the first one is good");
            let reread = Box::new(move || plans.read());
            proxy::start_reloadable(first, reread, on_ready)
        })
    }

    /// One whose place others may take: see [`Heirs`].
    pub fn start_with_heirs(plans: &Plans) -> (Proxy, Heirs) {
        let (heirs, born) = mpsc::channel();
        let (plans, launch) = (plans.clone(), launch(plans.clone(), heirs));
        let dressed = plans.dressed();
        let proxy = Proxy::run(&dressed, move |on_ready| {
            let first = plans.read().expect("the first one is good");
            let reread = Box::new(move || plans.read());
            let succession = Succession {
                from: None,
                launch: Some(launch),
            };
            proxy::start_in_succession(first, reread, succession, on_ready)
        });
        (proxy, Heirs(born))
    }

    /// From now on it has the listeners of this plan, at these addresses.
    pub fn listens(&mut self, addresses: &[SocketAddr], plan: &Plan) {
        self.noted.push(way::note(addresses, &way::dressed(plan)));
    }

    /// Waits until it has ended by itself.
    pub fn ended(mut self) -> Result<(), ServeError> {
        let thread = self.thread.take().expect("ended once");
        thread.join().unwrap()
    }

    /// On this device instead of the plan's one store.
    pub fn start_on(mut plan: Plan, device: Arc<Device>) -> Proxy {
        plan.stores = vec![StorePlan::at("in-memory", None)];
        let dressed = way::dressed(&plan);
        Proxy::run(&dressed, |on_ready| {
            proxy::start_on(plan, vec![device], on_ready)
        })
    }

    /// In front of this origin, with memory and no disk.
    pub fn before(origin: &Origin) -> Proxy {
        Proxy::start(plan_for(origin))
    }

    pub fn address(&self) -> SocketAddr {
        self.ready.listeners[0]
    }

    /// Where it takes ICP queries.
    pub fn icp(&self) -> SocketAddr {
        self.ready.icp.expect("the plan has icp.listen")
    }

    pub fn client(&self) -> Client {
        Client::connect(self.address())
    }

    /// One request on a connection of its own.
    #[track_caller]
    pub fn ask(&self, method: &str, target: &str, fields: &[&str]) -> Response {
        self.client().ask(method, target, fields).read(method)
    }

    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.ask("GET", target, &[])
    }

    /// One request at the admin interface, which the plan must have.
    #[track_caller]
    pub fn admin(&self, method: &str, target: &str) -> Response {
        let admin = self.ready.admin.expect("the plan has an admin interface");
        let host = format!("Host: {admin}");
        let mut client = Client::connect(admin);
        client.ask(method, target, &[&host]).read(method)
    }

    /// A counter by its name in `/metrics`.
    #[track_caller]
    pub fn counter(&self, name: &str) -> u64 {
        let answer = self.admin("GET", "/metrics");
        let name = format!("loligo_{name}_total ");
        let mut lines = answer.text().lines();
        let value = lines.find_map(|line| line.strip_prefix(&name));
        value.expect("it is exposed").parse().unwrap()
    }

    /// Waits until a counter has just this value: an answer may come before it is counted.
    #[track_caller]
    pub fn await_count(&self, name: &str, wanted: u64) {
        let first = self.counter(name);
        eventually(&format!("{name} is {wanted}; it was {first}"), || {
            (self.counter(name) == wanted).then_some(())
        });
    }

    /// Begins to drain, and returns at once.
    pub fn begin_to_stop(&self) {
        self.stopper.stop();
    }

    /// A clean stop.
    pub fn stop(mut self) {
        way::forget(&self.noted);
        self.stopper.stop();
        let thread = self.thread.take().expect("stopped once");
        thread.join().unwrap().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        way::forget(&self.noted);
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Heir {
    ready: mpsc::Receiver<(Ready, Stopper)>,
    thread: JoinHandle<Result<(), ServeError>>,
    dressed: Vec<Way>,
}

/// The proxies that take each other's place, each on threads of this process.
pub struct Heirs(mpsc::Receiver<Heir>);

impl Heirs {
    /// The next one, once it serves.
    #[track_caller]
    pub fn next(&self) -> Proxy {
        let heir = self.0.recv_timeout(PATIENCE).expect("one was started");
        match heir.ready.recv_timeout(PATIENCE) {
            Ok((ready, stopper)) => Proxy {
                noted: vec![way::note(&ready.listeners, &heir.dressed)],
                ready,
                stopper,
                thread: Some(heir.thread),
            },
            Err(_) => panic!("it does not serve: {:?}", heir.thread.join()),
        }
    }

    /// Why the next one has not taken over.
    #[track_caller]
    pub fn failure(&self) -> String {
        let heir = self.0.recv_timeout(PATIENCE).expect("one was started");
        let ended = heir.thread.join().unwrap();
        ended.expect_err("it does not take over").to_string()
    }
}

/// Starts those that take over.
fn launch(plans: Plans, heirs: mpsc::Sender<Heir>) -> Launch {
    Box::new(move |stream| {
        let (plans, more) = (plans.clone(), heirs.clone());
        let (serves, ready) = mpsc::channel();
        let dressed = plans.dressed();
        let thread = thread::spawn(move || {
            let from = Predecessor::meet(stream).map_err(ServeError::TakeOver)?;
            let first = match plans.read() {
                Ok(first) => first,
                Err(why) => {
                    from.refuse(&why);
                    return Err(ServeError::TakeOver(why));
                }
            };
            let succession = Succession {
                from: Some(from),
                launch: Some(launch(plans.clone(), more)),
            };
            let reread = Box::new(move || plans.read());
            proxy::start_in_succession(first, reread, succession, |ready: &Ready, stopper| {
                let _ = serves.send((ready.clone(), stopper));
            })
        });
        let _ = heirs.send(Heir {
            ready,
            thread,
            dressed,
        });
        Ok(None)
    })
}

/// What a proxy finds when it reads its configuration.
#[derive(Clone)]
pub struct Plans(Arc<Mutex<Result<Plan, String>>>);

impl Plans {
    pub fn of(plan: &Plan) -> Plans {
        Plans(Arc::new(Mutex::new(Ok(plan.clone()))))
    }

    pub fn set(&self, plan: Result<Plan, String>) {
        *self.0.lock().unwrap() = plan;
    }

    fn dressed(&self) -> Vec<Way> {
        let plan = self.0.lock().unwrap();
        plan.as_ref().map_or_else(|_| Vec::new(), way::dressed)
    }

    fn read(&self) -> Result<Reading, String> {
        self.0.lock().unwrap().clone().map(Reading::of)
    }
}

/// A reverse proxy with one worker, 64 MiB of memory and no disk.
pub fn plan_for(origin: &Origin) -> Plan {
    plan(Listener::reverse(local(), Vec::new(), url(origin.address)))
}

/// A reverse proxy that sends the origin its own Host: what is stored has the origin's name.
pub fn own_host_plan(origin: &Origin) -> Plan {
    let mut plan = plan_for(origin);
    if let Role::Reverse(routes) = &mut plan.listeners[0].role {
        routes[0].pass_host = false;
    }
    plan
}

/// A forward proxy that may tunnel to these ports.
pub fn forward_plan(connect_ports: &[u16]) -> Plan {
    let mut listener = Listener::forward(local(), Vec::new());
    listener.role = Role::Forward(Forward {
        connect_ports: connect_ports.to_vec(),
        ..Forward::for_address(listener.address.ip())
    });
    plan(listener)
}

/// With an admin interface for whoever is on this machine.
pub fn with_admin(mut plan: Plan) -> Plan {
    plan.admin = Some(Admin {
        address: local(),
        allow: Vec::new(),
    });
    plan
}

/// With this listener and a short drain. Clients' directives are obeyed in either role, so that tests can speak of them. A disk that has
/// other things to do is waited for: what is stored and cannot be read in time would be a miss, or cut.
pub fn plan(mut listener: Listener) -> Plan {
    listener.heeds.client_directives = ClientDirectives::Obey;
    let mut plan = Plan::with_listeners(vec![way::dress(listener)]);
    plan.timeouts.drain = Duration::from_secs(3);
    // A test that fills the store asks for each object once.
    plan.storing.admission = AdmissionKind::All;
    plan.storing.read_wait = 3 * PATIENCE;
    plan
}

/// With a drain as long as a test waits for anything: for one that does something while the proxy drains.
pub fn draining_long(mut plan: Plan) -> Plan {
    plan.timeouts.drain = PATIENCE;
    plan
}

/// An address where nobody listens, and nobody will: what tests start listens at [`local`].
pub fn nobody() -> SocketAddr {
    let port = std::net::TcpListener::bind(local())
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    ([127, 0, 0, 9], port).into()
}

pub fn local() -> SocketAddr {
    LOCAL.parse().unwrap()
}

pub fn url(address: SocketAddr) -> OriginUrl {
    OriginUrl {
        tls: false,
        host: address.ip().to_string(),
        port: address.port(),
        path: String::new(),
    }
}

/// A store file of its own, which outlives the proxies on it.
pub struct Disk {
    dir: TempDir,
    mib: u64,
}

impl Disk {
    pub fn of_mib(mib: u64) -> Disk {
        let dir = tempfile::tempdir().unwrap();
        Disk { dir, mib }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The plan with this store.
    pub fn under(&self, plan: Plan) -> Plan {
        self.named("store", plan)
    }

    /// The plan with a store of another name beside it.
    pub fn named(&self, name: &str, mut plan: Plan) -> Plan {
        let path: &Path = self.dir.path();
        // Short fragments in a small store, so that large objects need not be large.
        plan.storing.fragment_bytes = (self.mib as u32)
            .saturating_mul(1016)
            .clamp(65_024, 1 << 20);
        Plan {
            stores: vec![StorePlan::at(path.join(name), Some(self.mib << 20))],
            ..plan
        }
    }
}
