//! Batches, their order, cancelled waiters, and the switch. The device holds reads, not clocks: a deadline that
//! should pass is short, one that must not is an hour.

use super::*;
use device::{Device, EngineKind, FaultPlan, Operation};

const NEVER: Duration = Duration::from_secs(3600);
const SOON: Duration = Duration::from_millis(1);
const SIZE: usize = 1 << 20;

/// A device whose byte at each multiple of 4096 is the number of that page.
fn lazy(mode: LazyMode, deadline: Duration) -> (Rc<LazyReads>, FaultPlan) {
    let plan = FaultPlan::new();
    let device = Device::faulty(SIZE, plan.clone());
    for page in 0..SIZE as u64 / 4096 {
        device.write_all_sync(page * 4096, &[page as u8]).unwrap();
    }
    let engine = Rc::new(Engine::new(EngineKind::Auto, device).unwrap());
    (
        Rc::new(LazyReads::new(engine, mode, deadline, Arc::default())),
        plan,
    )
}

/// Runs a test on a runtime like a worker's.
fn on_worker(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test);
}

type Answers = Rc<RefCell<Vec<u8>>>;

/// Reads pages, each in a task of its own, and notes the answers in the order in which they come.
fn read_pages(lazy: &Rc<LazyReads>, pages: &[u64]) -> (Answers, Vec<tokio::task::JoinHandle<()>>) {
    let answers = Answers::default();
    let task = |&page: &u64| {
        let (lazy, answers) = (Rc::clone(lazy), Rc::clone(&answers));
        tokio::task::spawn_local(async move {
            let brought = lazy.read(page * 4096, 1, 1).await.unwrap();
            answers.borrow_mut().push(brought.bytes[0]);
        })
    };
    let tasks = pages.iter().map(task).collect();
    (answers, tasks)
}

async fn all(tasks: Vec<tokio::task::JoinHandle<()>>) {
    for task in tasks {
        task.await.unwrap();
    }
}

#[test]
fn off_and_batches_of_one_go_straight() {
    on_worker(async {
        for reads in [0, 1] {
            let (lazy, _) = lazy(LazyMode::Gather(reads), NEVER);
            let brought = lazy.read(3 * 4096, 1, 4096).await.unwrap();
            assert_eq!((&brought.bytes[..], brought.is_part), (&[3][..], false));
            let straight = Gathered {
                straight: 1,
                ..Gathered::default()
            };
            assert_eq!((lazy.gathered(), lazy.is_lazy()), (straight, false));
        }
    });
}

#[test]
fn a_full_batch_goes_at_once_and_in_order() {
    on_worker(async {
        let (lazy, _) = lazy(LazyMode::Gather(4), NEVER);
        let (answers, tasks) = read_pages(&lazy, &[9, 2, 7, 5]);
        all(tasks).await;
        assert_eq!(*answers.borrow(), [2, 5, 7, 9]);
        // From where the last ended: page 9.
        let (answers, tasks) = read_pages(&lazy, &[3, 20, 1, 10]);
        all(tasks).await;
        assert_eq!(*answers.borrow(), [10, 20, 1, 3]);
        let gathered = lazy.gathered();
        assert_eq!((gathered.batches, gathered.reads), (2, 8));
    });
}

#[test]
fn a_batch_that_is_not_full_goes_at_the_deadline() {
    on_worker(async {
        let (lazy, _) = lazy(LazyMode::Gather(64), SOON);
        let (answers, tasks) = read_pages(&lazy, &[8, 4]);
        all(tasks).await;
        assert_eq!(*answers.borrow(), [4, 8]);
        assert_eq!(lazy.gathered().batches, 1);
        // The next read begins a batch of its own.
        lazy.read(0, 1, 1).await.unwrap();
        assert_eq!(lazy.gathered().batches, 2);
    });
}

#[test]
fn one_batch_is_at_the_device_and_the_rest_can_still_be_sorted() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Gather(2), NEVER);
        plan.hold(Operation::Read);
        let (answers, tasks) = read_pages(&lazy, &[1, 2, 60, 50]);
        plan.until_held(2).await;
        // These come later and lie nearer.
        let (later, more) = read_pages(&lazy, &[40, 30]);
        while lazy.gathered().reads < 6 {
            tokio::task::yield_now().await;
        }
        assert_eq!(plan.counts().reads, 0);
        plan.release(Operation::Read);
        all(tasks).await;
        all(more).await;
        assert_eq!(*answers.borrow(), [1, 2, 50, 60]);
        assert_eq!(*later.borrow(), [30, 40]);
    });
}

#[test]
fn neighbours_are_answered_by_one_read() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Gather(3), NEVER);
        let before = plan.counts().reads;
        let (a, b, c) = tokio::join!(
            lazy.read(8 * 4096, 4096, 3 * 4096),
            lazy.read(9 * 4096, 1, 1),
            lazy.read(9 * 4096, 4096, 4096),
        );
        assert_eq!(plan.counts().reads - before, 1);
        let (a, b, c) = (a.unwrap(), b.unwrap(), c.unwrap());
        assert_eq!((a.bytes.len(), a.is_part), (3 * 4096, true));
        assert_eq!((a.bytes[0], a.bytes[4096], a.bytes[2 * 4096]), (8, 9, 10));
        assert_eq!((&b.bytes[..], b.is_part), (&[9][..], true));
        assert_eq!((c.bytes[0], c.bytes.len(), c.is_part), (9, 4096, true));
        assert_eq!(lazy.gathered().along, 2);
    });
}

#[test]
fn workers_answer_each_other() {
    on_worker(async {
        let (one, plan) = lazy(LazyMode::Gather(2), NEVER);
        let device = Arc::clone(one.engine().device());
        let engine = Rc::new(Engine::new(EngineKind::Auto, device).unwrap());
        let queue = Arc::clone(&one.waiting.queue);
        let mode = LazyMode::Gather(2);
        let other = Rc::new(LazyReads::new(engine, mode, NEVER, queue));
        plan.hold(Operation::Read);
        let before = plan.counts().reads;
        // The first worker has the most windows under way, and more reads waiting.
        let (_, far) = read_pages(&one, &[60, 80]);
        plan.until_held(2).await;
        let (_, near) = read_pages(&one, &[20, 23]);
        while one.gathered().reads < 4 {
            tokio::task::yield_now().await;
        }
        // The second worker reads something beside them, and takes them along.
        let (answers, tasks) = read_pages(&other, &[20, 23]);
        plan.until_held(4).await;
        plan.release(Operation::Read);
        for tasks in [tasks, near, far] {
            all(tasks).await;
        }
        assert_eq!(*answers.borrow(), [20, 23]);
        assert_eq!(plan.counts().reads - before, 4);
        assert_eq!((one.gathered().along, other.gathered().along), (0, 2));
    });
}

#[test]
fn what_cannot_be_read_together_is_read_alone() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Gather(2), NEVER);
        plan.fail(Operation::Read, 0);
        let (a, b) = tokio::join!(
            lazy.read(4096, 4096, 64 << 10),
            lazy.read(2 * 4096, 4096, 64 << 10),
        );
        let (a, b) = (a.unwrap(), b.unwrap());
        assert_eq!((a.bytes[0], a.bytes.len(), a.is_part), (1, 4096, false));
        assert_eq!((b.bytes[0], b.bytes.len(), b.is_part), (2, 4096, false));
    });
}

#[test]
fn who_goes_away_stalls_nobody_and_is_not_read_for() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Gather(3), NEVER);
        // The first one, which began the batch, leaves before it is full.
        let (_, first) = read_pages(&lazy, &[1]);
        tokio::task::yield_now().await;
        first[0].abort();
        tokio::task::yield_now().await;
        let before = plan.counts().reads;
        let (answers, tasks) = read_pages(&lazy, &[6, 5]);
        all(tasks).await;
        assert_eq!(*answers.borrow(), [5, 6]);
        assert_eq!(plan.counts().reads - before, 2);

        // And one leaves while the disk works.
        plan.hold(Operation::Read);
        let (answers, tasks) = read_pages(&lazy, &[7, 8, 9]);
        plan.until_held(3).await;
        tasks[0].abort();
        plan.release(Operation::Read);
        for task in tasks {
            let _ = task.await;
        }
        assert_eq!(*answers.borrow(), [8, 9]);
    });
}

#[test]
fn all_may_go_away() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Gather(8), SOON);
        let before = plan.counts().reads;
        let (_, tasks) = read_pages(&lazy, &[1, 2]);
        tokio::task::yield_now().await;
        tasks.iter().for_each(|task| task.abort());
        tokio::time::sleep(SOON * 5).await;
        assert_eq!(plan.counts().reads, before);
        assert_eq!(lazy.gathered(), Gathered::default());
        lazy.read(0, 1, 1).await.unwrap();
    });
}

#[test]
fn a_fault_is_that_reads_own() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Gather(3), NEVER);
        plan.fail(Operation::Read, 1);
        let (a, b, c) = tokio::join!(
            lazy.read(3 * 4096, 1, 1),
            lazy.read(4096, 1, 1),
            lazy.read(2 * 4096, 1, 1)
        );
        assert!(matches!(c, Err(IoFault::Device { at: 8192, .. })), "{c:?}");
        assert_eq!((a.unwrap().bytes[0], b.unwrap().bytes[0]), (3, 1));
    });
}

/// One read of this duration, and one more that begins when the first is measured.
async fn slow_reads(lazy: &Rc<LazyReads>, plan: &FaultPlan, reads: u64, us: u64) {
    for page in 0..reads {
        plan.hold(Operation::Read);
        let (_, tasks) = read_pages(lazy, &[page]);
        plan.until_held(1).await;
        std::thread::sleep(Duration::from_micros(us));
        plan.release(Operation::Read);
        all(tasks).await;
    }
}

#[test]
fn a_slow_disk_is_noticed() {
    on_worker(async {
        let (lazy, plan) = lazy(LazyMode::Measured, SOON);
        slow_reads(&lazy, &plan, READS_BETWEEN_SWITCHES, ON_US).await;
        assert!(!lazy.is_lazy(), "not yet for long enough");
        slow_reads(&lazy, &plan, 2, ON_US).await;
        assert!(lazy.is_lazy());
        let gathered = lazy.gathered();
        assert_eq!(
            (gathered.straight, gathered.reads),
            (READS_BETWEEN_SWITCHES + 1, 1)
        );
    });
}

fn measured(reads: u64, mean_us: u64) -> Latency {
    Latency {
        reads,
        mean_us,
        ..Latency::default()
    }
}

/// Slow for as many reads as it takes.
fn switched_on() -> Switch {
    let first = Switch::default().after(measured(1, 1000));
    assert!(!first.on);
    let on = first.after(measured(1 + READS_BETWEEN_SWITCHES, 1000));
    assert!(on.on);
    on
}

#[test]
fn the_switch_has_two_thresholds_and_takes_its_time() {
    let off = Switch::default();
    assert!(!off.after(measured(127, 9000)).on, "too few reads to tell");
    assert!(!off.after(measured(1000, 999)).on);
    let on = switched_on();
    let at = 1 + READS_BETWEEN_SWITCHES;
    assert!(on.after(measured(at + 127, 100)).on, "just switched");
    assert!(on.after(measured(at + 128, 100)).on, "slow not long ago");
    assert!(
        on.after(measured(at + 1024, 501)).on,
        "between the thresholds"
    );
    assert!(!on.after(measured(at + 1024, 500)).on);
    let again = on.after(measured(at + 500, 1000));
    assert!(
        again.after(measured(at + 1024, 500)).on,
        "slow again meanwhile"
    );
    assert!(!again.after(measured(at + 1524, 500)).on);
}

#[test]
fn a_hiccup_switches_nothing() {
    // The longest that counts: a mean that falls from 31 ms by a thirty-second part each read.
    let mut switch = Switch::default();
    let mut mean = 31_250.0;
    for reads in 1000..1200 {
        switch = switch.after(measured(reads, mean as u64));
        assert!(!switch.on, "{reads}");
        mean = mean * 31.0 / 32.0 + 100.0 / 32.0;
    }
}

#[test]
fn a_disk_said_to_have_a_head_is_slow_until_measured() {
    let first = Switch::first(true);
    assert!(first.after(measured(0, 0)).on);
    assert!(first.after(measured(127, 100)).on);
    assert!(!first.after(measured(128, 100)).on);
    assert!(!Switch::first(false).after(measured(0, 0)).on);
}

#[test]
fn a_mean_that_wavers_between_the_thresholds_switches_no_more() {
    let mut switch = switched_on();
    for n in 200..10_000 {
        switch = switch.after(measured(n, if n % 2 == 0 { 1400 } else { 600 }));
        assert!(switch.on, "{n}");
    }
    let mut switch = Switch::default();
    for n in 0..10_000 {
        switch = switch.after(measured(n, if n % 2 == 0 { 1400 } else { 600 }));
        assert!(!switch.on, "never slow in a row: {n}");
    }
}
