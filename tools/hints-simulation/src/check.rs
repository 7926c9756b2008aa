//! The rules that must hold when everything has come to rest.

use std::collections::BTreeSet;

use hints::Kind;

use crate::node::Store;
use crate::world::World;

/// Checks R1, R2 and R3.
///
/// # Errors
/// The rule that does not hold, and where.
pub(crate) fn at_rest(world: &mut World) -> Result<(), String> {
    for node in 0..world.nodes.len() {
        for name in 0..world.setting.names as u64 {
            if world.nodes[node].has(name) {
                found_by_all(world, node, name, "R1")?;
            }
        }
        believed_by_all(world, node)?;
        for store in &world.nodes[node].stores {
            true_to_itself(store, world.setting.names)
                .map_err(|message| format!("node {node}: {message}"))?;
        }
    }
    Ok(())
}

fn found_by_all(world: &mut World, node: usize, name: u64, rule: &str) -> Result<(), String> {
    for (number, front) in world.fronts.iter_mut().enumerate() {
        if front.nodes(name) >> node & 1 == 0 {
            let status = front.view.status(node as u8);
            return Err(format!(
                "{rule}: node {node} has {name}, and front {number} does not find it there: {status:?}"
            ));
        }
    }
    Ok(())
}

/// Marks to check: all bits of a filter, or a directory's numbers of all names.
fn marks(store: &Store, names: usize) -> Vec<u64> {
    match store.registrar.kind() {
        Kind::Bloom(shape) => (0..u64::from(shape.bits())).collect(),
        Kind::Directory => (0..names as u64).map(|name| store.trace(name)).collect(),
    }
}

fn believed_by_all(world: &mut World, node: usize) -> Result<(), String> {
    let stores = &world.nodes[node].stores;
    for mark in marks(&stores[0], world.setting.names) {
        let is_told = stores.iter().any(|store| store.registrar.is_told(mark));
        for (number, front) in world.fronts.iter_mut().enumerate() {
            let is_believed = front.nodes_with_mark(mark) >> node & 1 == 1;
            if is_believed != is_told {
                return Err(format!(
                    "R2: node {node} tells of mark {mark}: {is_told}, front {number} believes: {is_believed}"
                ));
            }
        }
    }
    Ok(())
}

fn true_to_itself(store: &Store, names: usize) -> Result<(), String> {
    let kind = store.registrar.kind();
    let mut told = BTreeSet::new();
    for &name in &store.names {
        let trace = store.trace(name);
        match kind {
            Kind::Bloom(shape) => told.extend(shape.positions(trace).map(u64::from)),
            Kind::Directory => {
                told.insert(trace);
            }
        }
    }
    for mark in marks(store, names) {
        let (is_told, is_there) = (store.registrar.is_told(mark), told.contains(&mark));
        if is_there && !is_told || kind == Kind::Directory && is_there != is_told {
            return Err(format!(
                "R3: mark {mark} is there: {is_there}, told: {is_told}"
            ));
        }
    }
    Ok(())
}

/// Checks R4 while counts are only half made anew and names leave.
///
/// # Errors
/// If R4 does not hold, or things do not come to rest again.
pub(crate) fn half_anew(world: &mut World) -> Result<(), String> {
    let before: Vec<Vec<BTreeSet<u64>>> = world
        .nodes
        .iter()
        .map(|node| {
            node.stores
                .iter()
                .map(|store| store.names.clone())
                .collect()
        })
        .collect();
    for store in world.nodes.iter_mut().flat_map(|node| &mut node.stores) {
        store.begin_anew();
        store.list();
        store.list();
        // Removes every other one of the names that the registrar knows again.
        let listed: Vec<u64> = store.names.iter().copied().collect();
        let listed = listed.into_iter().filter(|&name| store.is_listed(name));
        for name in listed.step_by(2).collect::<Vec<_>>() {
            store.remove(name);
            store.follow();
        }
    }
    world.deliver_all()?;
    for (node, stores) in before.into_iter().enumerate() {
        for name in stores.into_iter().flatten() {
            if world.nodes[node].has(name) {
                found_by_all(world, node, name, "R4")?;
            }
        }
    }
    world.settle_stores();
    world.deliver_all()?;
    at_rest(world)
}
