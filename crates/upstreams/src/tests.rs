//! The choice of a server, judgements and their bound, and what outlasts an edition.

use super::*;
use plan::Plan;

fn plan(balance: Balance, servers: &[(u32, bool)]) -> Plan {
    let server = |(number, (weight, backup)): (usize, &(u32, bool))| plan::Server {
        at: OriginUrl {
            tls: false,
            host: format!("10.0.0.{number}"),
            port: 80,
            path: String::new(),
        },
        weight: *weight,
        backup: *backup,
    };
    let mut plan = Plan::with_listeners(Vec::new());
    plan.upstreams = vec![plan::Upstream {
        name: "app".to_owned(),
        servers: servers.iter().enumerate().map(server).collect(),
        balance,
        ..plan::Upstream::default()
    }];
    plan
}

fn of(balance: Balance, servers: &[(u32, bool)]) -> Arc<Upstream> {
    of_plan(&plan(balance, servers), &[]).remove(0).now()
}

/// The server of the next request, which gets this answer.
fn ask(upstream: &Upstream, outcome: Outcome, now: Instant) -> Option<usize> {
    let (number, is_trial) = upstream.choose(0, &mut Tried::default(), false, now)?;
    upstream.note(number, outcome, is_trial, now);
    Some(number)
}

fn fails(upstream: &Upstream, number: usize, outcome: Outcome, now: Instant) {
    (0..30).for_each(|_| upstream.note(number, outcome, false, now));
}

fn up(upstream: &Upstream, now: Instant) -> Vec<usize> {
    let members = upstream.members.iter().enumerate();
    let up = members.filter(|(_, it)| matches!(upstream.admits(it, now), Admits::All(_)));
    up.map(|(number, _)| number).collect()
}

#[test]
fn never_more_than_half_are_put_out_for_a_judgement() {
    for (servers, left) in [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3)] {
        for outcome in [Outcome::Bad, Outcome::Silent] {
            let upstream = of(Balance::RoundRobin, &vec![(1, false); servers]);
            let now = Instant::now();
            (0..servers).for_each(|number| fails(&upstream, number, outcome, now));
            assert_eq!(up(&upstream, now).len(), left, "{servers} {outcome:?}");
        }
    }
}

#[test]
fn what_cannot_be_reached_is_out_however_many_that_are() {
    let upstream = of(Balance::RoundRobin, &[(1, false); 3]);
    let now = Instant::now();
    (0..3).for_each(|number| fails(&upstream, number, Outcome::Unreachable, now));
    assert_eq!(ask(&upstream, Outcome::Well, now), None);
    assert_eq!(upstream.back_in(now), Duration::from_secs(1));
    // Each of them gets one trial request.
    let later = now + Duration::from_secs(1);
    let mut tried = Tried::default();
    let mut trials = Vec::new();
    while let Some((number, true)) = upstream.choose(0, &mut tried, false, later) {
        trials.push(number);
    }
    assert_eq!(trials, [0, 1, 2]);
    assert_eq!(ask(&upstream, Outcome::Well, later), None);
}

#[test]
fn backups_are_asked_if_no_other_is_up() {
    let upstream = of(Balance::RoundRobin, &[(1, false), (1, true), (1, false)]);
    let now = Instant::now();
    fails(&upstream, 0, Outcome::Unreachable, now);
    assert_eq!(ask(&upstream, Outcome::Well, now), Some(2));
    upstream.members[2].server.want(Wanted::Drained);
    assert_eq!(ask(&upstream, Outcome::Well, now), Some(1));
    upstream.members[2].server.want(Wanted::Up);
    assert_eq!(ask(&upstream, Outcome::Well, now), Some(2));
}

#[test]
fn a_trial_is_a_request_that_can_go_elsewhere() {
    let upstream = of(Balance::RoundRobin, &[(1, false); 2]);
    let now = Instant::now();
    fails(&upstream, 0, Outcome::Unreachable, now);
    let later = now + Duration::from_secs(1);
    let choose = |may_try| upstream.choose(0, &mut Tried::default(), may_try, later);
    assert_eq!(choose(false), Some((1, false)));
    assert_eq!(choose(true), Some((0, true)));
    assert_eq!(choose(true), Some((1, false)), "one trial at a time");
}

#[test]
fn turns_are_by_weight_also_when_some_are_asked_twice() {
    let upstream = of(Balance::RoundRobin, &[(3, false), (1, false), (1, false)]);
    let now = Instant::now();
    let mut counts = [0; 3];
    for _ in 0..500 {
        counts[ask(&upstream, Outcome::Well, now).unwrap()] += 1;
    }
    assert_eq!(counts, [300, 100, 100]);
}

#[test]
fn what_is_known_of_a_server_outlasts_an_edition() {
    let before = plan(Balance::RoundRobin, &[(1, false), (1, false)]);
    let mut after = before.clone();
    after.upstreams[0].servers.remove(1);
    after.upstreams[0].servers.push(plan::Server {
        weight: 5,
        ..before.upstreams[0].servers[1].clone()
    });
    after.upstreams[0].servers[0].at.port = 81;
    let groups = of_plan(&before, &[]);
    let before = groups[0].now();
    let now = Instant::now();
    fails(&before, 1, Outcome::Unreachable, now);
    fails(&before, 0, Outcome::Unreachable, now);
    let next = of_plan(&after, &groups)[0].now();
    assert_eq!(up(&next, now), [0], "another port is another server");
    assert_eq!(next.members[1].weight, 5);
    // A request of the previous edition that is still under way counts.
    next.members[1].server.want(Wanted::Up);
    assert_eq!(up(&before, now), [1]);
}

#[test]
fn a_server_is_found_by_its_url_and_by_its_host_and_port() {
    let upstream = of(Balance::RoundRobin, &[(1, false), (1, false)]);
    for name in ["http://10.0.0.1", "10.0.0.1:80"] {
        let found = upstream.server(name).unwrap();
        assert!(Arc::ptr_eq(found, &upstream.members[1].server));
    }
    assert!(upstream.server("10.0.0.1").is_none());
}
