//! Fronts, nodes and the links between them, and all events that can happen to them.
//!
//! A link is a queue of bytes in each direction. When it breaks, both are lost, and the two ends notice at different times. Pushes and
//! their answers use other connections: in any order, with any delay, even past restarts of either end.

use std::collections::{BTreeSet, VecDeque};

use hints::frames::{Beat, Frame};
use hints::registrar;
use hints::view::SILENCE_MAX_MS;
use hints::{Known, Withdrawals};

use crate::chance::Chance;
use crate::front::Front;
use crate::node::{Make, Node};
use crate::{Counts, Setting};

#[cfg(test)]
mod races;

/// Interval of a node's beats.
const BEAT_EVERY_MS: u64 = 1000;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) chance: Chance,
    pub(crate) setting: Setting,
    pub(crate) now_ms: u64,
    pub(crate) fronts: Vec<Front>,
    pub(crate) nodes: Vec<Node>,
    /// By front and node.
    links: Vec<Vec<Link>>,
    pushes: Vec<Push>,
    answers: Vec<Answer>,
    pub(crate) counts: Counts,
    /// The latest events, for the story of a failure.
    pub(crate) story: VecDeque<String>,
}

#[derive(Debug, Default)]
struct Link {
    is_up: bool,
    /// The node has not noticed yet that the link is broken.
    is_held_by_node: bool,
    to_front: VecDeque<Vec<u8>>,
    to_node: VecDeque<Vec<u8>>,
    beat_ms: u64,
    /// Withdrawals of the front for this node.
    withdrawals: Withdrawals,
    /// When the front last received something that shows that the node is alive.
    heard_ms: u64,
}

/// A push in flight.
#[derive(Clone, Copy, Debug)]
struct Push {
    front: usize,
    life: u64,
    node: usize,
    name: u64,
    known: Known,
    /// It still waits in the front's queue.
    is_queued: bool,
    /// The front no longer waits for the answer.
    is_given_up: bool,
}

/// The node's answer to a push, in flight.
#[derive(Clone, Copy, Debug)]
struct Answer {
    front: usize,
    life: u64,
    node: usize,
    name: u64,
    is_stored: bool,
}

/// Most lines of the story.
const STORY_LINES: usize = 400;

impl World {
    pub(crate) fn new(setting: Setting, make: Make, mut chance: Chance) -> World {
        let columns = setting.columns_expected;
        let fronts = (0..setting.fronts).map(|n| Front::new(n as u64, columns));
        let nodes = (0..setting.nodes).map(|n| Node::new(n as u8, make, &mut chance));
        let nodes = nodes.collect();
        let link_row = |_| (0..setting.nodes).map(|_| Link::default()).collect();
        World {
            now_ms: 1,
            fronts: fronts.collect(),
            nodes,
            links: (0..setting.fronts).map(link_row).collect(),
            pushes: Vec::new(),
            answers: Vec::new(),
            counts: Counts::default(),
            story: VecDeque::new(),
            chance,
            setting,
        }
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.setting.tells {
            self.story.push_back(line());
            if self.story.len() > STORY_LINES {
                self.story.pop_front();
            }
        }
    }

    fn any_front(&mut self) -> usize {
        self.chance.below(self.fronts.len())
    }

    fn any_node(&mut self) -> usize {
        self.chance.below(self.nodes.len())
    }

    fn any_name(&mut self) -> u64 {
        self.chance.below(self.setting.names) as u64
    }

    /// One random event.
    ///
    /// # Errors
    /// If a rule that always holds is broken.
    pub(crate) fn step(&mut self) -> Result<(), String> {
        self.now_ms += self.chance.below(200) as u64;
        self.tick()?;
        let front = self.any_front();
        let node = self.any_node();
        match self.chance.below(100) {
            0..20 => self.request(front)?,
            20..30 => self.send_queued(),
            30..42 => self.push_arrives(),
            42..47 => self.answer_arrives(),
            47..50 if self.setting.loses_pushes => self.push_is_lost(),
            47..50 => {}
            50..53 => self.own_fetch(node),
            53..56 => self.evict(node),
            56..64 => self.follow(node),
            64..69 => self.close_updates(node),
            69..81 => self.node_sends(front, node),
            81..91 => self.front_reads(front, node),
            91..95 => self.node_reads(front, node),
            95 => self.wire_errs(front, node),
            96 => self.break_link(front, node),
            97 => self.link(front, node),
            98 => self.restart(front, node),
            _ => self.rare(node),
        }
        Ok(())
    }

    /// Advances the time of all fronts.
    fn tick(&mut self) -> Result<(), String> {
        for at in 0..self.fronts.len() {
            let front = &mut self.fronts[at];
            front.view.tick(self.now_ms);
            for (node, link) in self.links[at].iter().enumerate() {
                let is_trusted = front
                    .view
                    .status(node as u8)
                    .is_some_and(|status| status.is_trusted);
                let silent_ms = self.now_ms.saturating_sub(link.heard_ms);
                if is_trusted && silent_ms > SILENCE_MAX_MS {
                    return Err(format!(
                        "front {at} trusts node {node}, which it has not heard for {silent_ms} ms"
                    ));
                }
            }
        }
        Ok(())
    }

    /// A client's request to a front.
    fn request(&mut self, front: usize) -> Result<(), String> {
        let name = self.any_name();
        let mask = self.fronts[front].nodes(name);
        self.counts.requests += 1;
        let asked = (0..self.nodes.len()).find(|node| mask >> node & 1 == 1);
        match asked {
            Some(node) if self.nodes[node].has(name) => self.counts.true_hits += 1,
            Some(node) => {
                self.counts.false_hits += 1;
                self.fetch(node, name);
            }
            None => {
                self.counts.misses += 1;
                let node = self.any_node();
                self.begin_push(front, node, name);
            }
        }
        Ok(())
    }

    fn begin_push(&mut self, front: usize, node: usize, name: u64) {
        let column = self.nodes[node].column_of(name) as u8;
        let known = self.fronts[front].register(node as u8, column, name);
        self.tell(|| format!("front {front} pushes {name} to node {node}, {known:?}"));
        self.pushes.push(Push {
            front,
            life: self.fronts[front].life,
            node,
            name,
            known,
            is_queued: true,
            is_given_up: false,
        });
    }

    /// Sends the next push in a front's queue.
    fn send_queued(&mut self) {
        let queued = self.pushes.iter().position(|push| push.is_queued);
        let Some(push) = queued.map(|at| &mut self.pushes[at]) else {
            return;
        };
        push.is_queued = false;
        let front = &mut self.fronts[push.front];
        if front.life == push.life {
            let column = self.nodes[push.node].column_of(push.name) as u8;
            push.known = front.carried(push.node as u8, column, push.known);
        }
    }

    /// A node receives a push, stores or refuses it, and answers.
    fn push_arrives(&mut self) {
        let sent: Vec<usize> = (0..self.pushes.len())
            .filter(|&at| !self.pushes[at].is_queued && !self.nodes[self.pushes[at].node].is_hung)
            .collect();
        if sent.is_empty() {
            return;
        }
        let at = self.chance.one_of(&sent);
        let is_refused = self.chance.percent(self.setting.refused_percent);
        // The registrar may hear of the push before the store's note, or after it.
        let is_heard_first = self.chance.percent(70);
        self.take_push(at, is_refused, is_heard_first);
    }

    fn take_push(&mut self, at: usize, is_refused: bool, is_heard_first: bool) {
        let push = self.pushes.swap_remove(at);
        let store = self.nodes[push.node].store_of(push.name);
        match is_refused {
            true => self.counts.refused += 1,
            false => {
                let front = registrar::Front(push.front as u16);
                store.pushed(push.name, front, push.known);
                if is_heard_first {
                    store.hear();
                }
                store.insert(push.name, &mut self.chance);
                self.counts.pushed += 1;
            }
        }
        self.tell(|| {
            format!(
                "node {} gets {}: refused {is_refused}",
                push.node, push.name
            )
        });
        if !push.is_given_up {
            self.answers.push(Answer {
                front: push.front,
                life: push.life,
                node: push.node,
                name: push.name,
                is_stored: !is_refused,
            });
        }
    }

    fn answer_arrives(&mut self) {
        if self.answers.is_empty() {
            return;
        }
        let at = self.chance.below(self.answers.len());
        let answer = self.answers.swap_remove(at);
        if !answer.is_stored {
            self.withdraw(answer.front, answer.life, answer.node, answer.name);
        }
    }

    /// A push or its answer is lost or takes too long.
    fn push_is_lost(&mut self) {
        if !self.answers.is_empty() && self.chance.percent(30) {
            let at = self.chance.below(self.answers.len());
            let Answer {
                front,
                life,
                node,
                name,
                ..
            } = self.answers.swap_remove(at);
            return self.withdraw(front, life, node, name);
        }
        let waited: Vec<usize> = (0..self.pushes.len())
            .filter(|&at| !self.pushes[at].is_given_up)
            .collect();
        if waited.is_empty() {
            return;
        }
        let at = self.chance.one_of(&waited);
        let Push {
            front,
            life,
            node,
            name,
            ..
        } = self.pushes[at];
        match self.chance.percent(50) {
            // It may still arrive.
            true => self.pushes[at].is_given_up = true,
            false => {
                self.pushes.swap_remove(at);
            }
        }
        self.withdraw(front, life, node, name);
    }

    fn withdraw(&mut self, front: usize, life: u64, node: usize, name: u64) {
        self.tell(|| format!("front {front} withdraws {name} from node {node}"));
        if self.fronts[front].life != life {
            return;
        }
        self.counts.withdrawn += 1;
        let column = self.nodes[node].column_of(name);
        let number = self.nodes[node].stores[column].trace(name);
        if let Some(frame) = self.fronts[front].withdrawn(column as u8, number) {
            let link = &mut self.links[front][node];
            let (is_up, to_node) = (link.is_up, &mut link.to_node);
            link.withdrawals.send(|| {
                if is_up {
                    to_node.push_back(frame.to_bytes());
                }
                is_up
            });
        }
    }

    fn fetch(&mut self, node: usize, name: u64) {
        self.tell(|| format!("node {node} fetches {name}"));
        let chance = &mut self.chance;
        self.nodes[node].store_of(name).insert(name, chance);
        self.counts.own_fetches += 1;
    }

    fn own_fetch(&mut self, node: usize) {
        let name = self.any_name();
        self.fetch(node, name);
    }

    /// A node evicts or purges one name, or many at once.
    fn evict(&mut self, node: usize) {
        let burst = match self.chance.percent(10) {
            true => self.setting.names / 2,
            false => 2,
        };
        for _ in 0..burst {
            let name = self.any_name();
            self.tell(|| format!("node {node} evicts {name}"));
            self.nodes[node].store_of(name).remove(name);
        }
    }

    fn follow(&mut self, node: usize) {
        let hears = self.chance.percent(70);
        for store in &mut self.nodes[node].stores {
            if hears {
                store.hear();
            }
            store.follow();
            store.list();
        }
    }

    fn close_updates(&mut self, node: usize) {
        for store in &mut self.nodes[node].stores {
            if let Some(label) = store.registrar.close_update() {
                self.counts.updates += 1;
                let _ = label;
            }
        }
    }

    /// A node sends its frames for a front, and a beat if one is due.
    fn node_sends(&mut self, front: usize, node: usize) {
        let link = &mut self.links[front][node];
        if self.nodes[node].is_hung || !link.is_held_by_node {
            return;
        }
        let number = registrar::Front(front as u16);
        for store in &mut self.nodes[node].stores {
            for _ in 0..self.chance.below(4) {
                let Some(frame) = store.registrar.next_frame(number) else {
                    break;
                };
                if link.is_up {
                    link.to_front.push_back(frame.to_bytes());
                }
            }
        }
        if link.is_up && self.now_ms >= link.beat_ms + BEAT_EVERY_MS {
            link.beat_ms = self.now_ms;
            let frame = Frame::Beat(Beat::default());
            link.to_front.push_back(frame.to_bytes());
        }
    }

    /// A front reads a frame.
    fn front_reads(&mut self, front: usize, node: usize) {
        let link = &mut self.links[front][node];
        let Some(bytes) = link.to_front.pop_front() else {
            return;
        };
        let (frame, _) = Frame::decode(&bytes)
            .ok()
            .flatten()
            .expect("the wire changes no bytes");
        if matches!(frame, Frame::Beat(_) | Frame::Hello(_)) {
            link.heard_ms = self.now_ms;
        }
        let line = format!("front {front} reads from {node}: {frame:?}");
        let result = self.fronts[front].handle(node as u8, &frame, self.now_ms);
        self.tell(|| format!("{line} -> {result:?}"));
        match result {
            Ok(subscribes) => {
                let said = |subscribe| Frame::Subscribe(subscribe).to_bytes();
                let said = subscribes.into_iter().map(said);
                self.links[front][node].to_node.extend(said);
            }
            Err(_) => {
                self.counts.gaps += 1;
                self.break_link(front, node);
            }
        }
    }

    /// A node reads a frame.
    fn node_reads(&mut self, front: usize, node: usize) {
        if self.nodes[node].is_hung {
            return;
        }
        let Some(bytes) = self.links[front][node].to_node.pop_front() else {
            return;
        };
        let (frame, _) = Frame::decode(&bytes)
            .ok()
            .flatten()
            .expect("the wire changes no bytes");
        self.tell(|| format!("node {node} reads from {front}: {frame:?}"));
        let number = registrar::Front(front as u16);
        match frame {
            Frame::Subscribe(subscribe) => {
                let store = &mut self.nodes[node].stores[usize::from(subscribe.column)];
                let known = subscribe.from.map(|label| Known {
                    incarnation: subscribe.incarnation,
                    label,
                });
                assert!(store.registrar.subscribe(number, known));
            }
            Frame::Withdrawn(withdrawn) => {
                let store = &mut self.nodes[node].stores[usize::from(withdrawn.column)];
                store.withdrawn(withdrawn.number);
            }
            other => panic!("a node got {other:?}"),
        }
    }

    /// A frame is lost, repeated, or swapped with the next one.
    fn wire_errs(&mut self, front: usize, node: usize) {
        let chance = &mut self.chance;
        let queue = &mut self.links[front][node].to_front;
        if queue.len() < 2 {
            return;
        }
        let at = chance.below(queue.len() - 1);
        let is_content = |bytes: &Vec<u8>| {
            matches!(
                Frame::decode(bytes),
                Ok(Some((Frame::Update(_) | Frame::Full(_), _)))
            )
        };
        if !is_content(&queue[at]) {
            return;
        }
        match chance.below(3) {
            0 => {
                queue.remove(at);
            }
            1 => {
                let twice = queue[at].clone();
                queue.insert(at, twice);
            }
            _ => queue.swap(at, at + 1),
        }
        self.counts.wire_errors += 1;
    }

    fn break_link(&mut self, front: usize, node: usize) {
        let link = &mut self.links[front][node];
        if !link.is_up {
            // The node notices at last.
            if std::mem::take(&mut link.is_held_by_node) {
                for store in &mut self.nodes[node].stores {
                    store.registrar.unsubscribe(registrar::Front(front as u16));
                }
            }
            return;
        }
        link.is_up = false;
        link.to_front.clear();
        link.to_node.clear();
        link.withdrawals.link_ended();
        self.fronts[front].view.lost(node as u8);
        self.counts.links_broken += 1;
        self.tell(|| format!("the link from front {front} to node {node} breaks"));
    }

    /// A front connects to a node.
    pub(crate) fn link(&mut self, front: usize, node: usize) {
        if self.links[front][node].is_up || self.nodes[node].is_hung {
            return;
        }
        let hello = self.nodes[node].hello().to_bytes();
        let link = &mut self.links[front][node];
        link.is_up = true;
        link.is_held_by_node = true;
        if link.withdrawals.link_begins() {
            self.fronts[front].view.doubt(node as u8);
        }
        for store in &mut self.nodes[node].stores {
            let number = registrar::Front(front as u16);
            store.registrar.unsubscribe(number);
        }
        let link = &mut self.links[front][node];
        link.beat_ms = self.now_ms;
        link.to_front.push_back(hello);
        self.tell(|| format!("front {front} links to node {node}"));
    }

    fn restart(&mut self, front: usize, node: usize) {
        if self.chance.percent(40) {
            return self.restart_front(front);
        }
        if self.chance.percent(40) {
            self.restart_node(node);
        }
    }

    fn restart_front(&mut self, front: usize) {
        self.tell(|| format!("front {front} starts anew"));
        for node in 0..self.nodes.len() {
            self.break_link(front, node);
        }
        let life = self.chance.next();
        self.fronts[front] = Front::new(life, self.setting.columns_expected);
        // Its queued pushes are lost; those that were sent may still arrive.
        self.pushes
            .retain(|push| push.front != front || !push.is_queued);
        self.counts.front_restarts += 1;
    }

    fn restart_node(&mut self, node: usize) {
        let stores = self.nodes[node].stores.len();
        let keeps_percent = self.chance.one_of(&[0, 80, 100]);
        let mut names = vec![BTreeSet::new(); stores];
        for (column, kept) in names.iter_mut().enumerate() {
            for &name in &self.nodes[node].stores[column].names {
                if self.chance.percent(keeps_percent) {
                    kept.insert(name);
                }
            }
        }
        self.restart_node_with(node, names);
    }

    fn restart_node_with(&mut self, node: usize, names: Vec<BTreeSet<u64>>) {
        self.tell(|| format!("node {node} starts anew"));
        self.nodes[node].start(names, &mut self.chance);
        for front in 0..self.fronts.len() {
            self.break_link(front, node);
            self.links[front][node].is_held_by_node = false;
        }
        self.counts.node_restarts += 1;
    }

    fn rare(&mut self, node: usize) {
        match self.chance.below(4) {
            0 => {
                self.nodes[node].is_hung ^= true;
                self.counts.hangs += 1;
            }
            1 => self.now_ms += SILENCE_MAX_MS + 1,
            _ => {
                for store in &mut self.nodes[node].stores {
                    if store.is_settled() {
                        store.begin_anew();
                        self.counts.made_anew += 1;
                    }
                }
            }
        }
    }

    /// Delivers everything in flight. The only new events are fetches and evictions at each node, so that earlier losses show.
    ///
    /// # Errors
    /// If things do not come to rest.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        self.tell(|| "everything comes to rest".into());
        for node in 0..self.nodes.len() {
            self.nodes[node].is_hung = false;
        }
        while !self.pushes.is_empty() {
            self.send_queued();
            self.push_arrives();
        }
        while !self.answers.is_empty() {
            self.answer_arrives();
        }
        for node in 0..self.nodes.len() {
            // For each store, one name that comes and one that leaves.
            for _ in 0..2 * self.nodes[node].stores.len() {
                self.own_fetch(node);
                self.evict(node);
            }
        }
        self.settle_stores();
        self.deliver_all()
    }

    pub(crate) fn settle_stores(&mut self) {
        for store in self.nodes.iter_mut().flat_map(|node| &mut node.stores) {
            while !store.is_settled() {
                store.hear();
                store.follow();
                while store.list() {}
            }
        }
    }

    /// Restores all links and delivers all frames.
    ///
    /// # Errors
    /// If that does not end.
    pub(crate) fn deliver_all(&mut self) -> Result<(), String> {
        for _ in 0..ROUNDS_MAX {
            let mut is_quiet = true;
            for node in 0..self.nodes.len() {
                self.close_updates(node);
                for front in 0..self.fronts.len() {
                    is_quiet &= self.deliver(front, node);
                }
            }
            if is_quiet {
                return Ok(());
            }
        }
        Err("frames go to and fro without an end".into())
    }

    /// Returns true if there was nothing to do.
    fn deliver(&mut self, front: usize, node: usize) -> bool {
        let mut is_quiet = self.links[front][node].is_up;
        self.link(front, node);
        while !self.links[front][node].to_node.is_empty() {
            self.node_reads(front, node);
            is_quiet = false;
        }
        for store in &mut self.nodes[node].stores {
            store.hear();
            is_quiet &= store.registrar.close_update().is_none();
        }
        is_quiet &= !self.node_sends_all(front, node);
        let beat = Frame::Beat(Beat::default()).to_bytes();
        self.links[front][node].to_front.push_back(beat);
        while !self.links[front][node].to_front.is_empty() {
            self.front_reads(front, node);
        }
        let link = &self.links[front][node];
        is_quiet && link.is_up && link.to_node.is_empty()
    }

    /// Returns true if there was something to send.
    fn node_sends_all(&mut self, front: usize, node: usize) -> bool {
        let queue = &mut self.links[front][node].to_front;
        let before = queue.len();
        for store in &mut self.nodes[node].stores {
            let number = registrar::Front(front as u16);
            let frames = std::iter::from_fn(|| store.registrar.next_frame(number));
            queue.extend(frames.map(|frame| frame.to_bytes()));
        }
        queue.len() > before
    }
}

/// Rounds in which all frames must have arrived.
const ROUNDS_MAX: usize = 100;
