//! Operators and editors: they purge, and change resources of origins.
//!
//! Not known here: the rules.

use std::rc::Rc;

use crate::{
    client::pause,
    life::Place,
    world::{About, Purge, Resource, Server, Shared, Vary, World},
};

/// Purges from time to time, by URL, prefix and tag, hard and soft, until the run is over.
pub async fn operate(world: Shared, place: Rc<Place>) {
    while !place.is_over() {
        pause(&world, 12_000).await;
        purge(&world, &place).await;
    }
}

/// Draws a purge: its target, the query for the admin interface, and whether it is soft.
fn draw_purge(world: &mut World) -> (About, String, bool) {
    let count = world.resources.len();
    // Half of all purges are of a few resources.
    let of = match world.random.one_in(2) {
        true => count.min(4),
        false => count,
    };
    let resource = world.random.index(of);
    let resource = world.resources[resource].clone();
    let soft = world.random.one_in(3);
    let url = resource.url();
    let (about, query) = match world.random.below(6) {
        0 => {
            let prefix = url[..url.rfind('/').unwrap_or(0) + 1].to_owned();
            let query = format!("prefix={prefix}");
            (About::Prefix(prefix), query)
        }
        1 if !resource.tag.is_empty() => {
            (About::Tag(resource.tag), format!("tag={}", resource.tag))
        }
        _ => {
            let query = format!("url={url}");
            (About::Url(url), query)
        }
    };
    let query = if soft { query + "&soft=1" } else { query };
    (about, query, soft)
}

/// Sends one purge and waits until it is acknowledged.
pub async fn purge(world: &Shared, place: &Place) {
    let Some(proxy) = place.proxy() else { return };
    let (about, query, soft, issued, life) = {
        let mut world = world.borrow_mut();
        let (about, query, soft) = draw_purge(&mut world);
        (about, query, soft, world.tick(), world.life)
    };
    let purged = proxy.purge(&query).await;
    drop(proxy);
    let mut world = world.borrow_mut();
    match purged {
        // If the proxy has ended meanwhile, its acknowledgement reaches nobody.
        Ok(_) if world.life != life || place.proxy().is_none() => {}
        Ok(durable) => {
            let acknowledged = world.tick();
            world.purged(Purge {
                about,
                soft,
                by: "a purge",
                issued,
                acknowledged,
                durable,
                life,
            });
        }
        Err(why) => world.fail(format!("a purge was refused: {why}: {query}"), None),
    }
}

/// Makes servers of the group go down, come back, and fail health checks, until the run is over.
pub async fn trouble(world: Shared, place: Rc<Place>) {
    while !place.is_over() {
        pause(&world, 20_000).await;
        let mut world = world.borrow_mut();
        let count = world.servers.len();
        let number = world.random.index(count);
        let (is_down, is_ill) = (world.random.one_in(3), world.random.one_in(4));
        world.servers[number] = Server {
            is_down,
            is_ill,
            ..Server::default()
        };
    }
}

/// Changes resources of the origins without telling the proxy.
pub async fn edit(world: Shared, place: Rc<Place>) {
    while !place.is_over() {
        pause(&world, 5000).await;
        let mut world = world.borrow_mut();
        let count = world.resources.len();
        let n = world.random.index(count);
        if world.resources[n].is_file {
            continue;
        }
        world.resources[n].version += 1;
        if world.random.one_in(6) {
            world.resources[n].vary =
                world
                    .random
                    .pick(&[Vary::Nothing, Vary::Flavor, Vary::Coding]);
        }
        let Resource { version, vary, .. } = world.resources[n];
        world.tell(n, || {
            format!("the origin has version {version} now, by {vary:?}")
        });
    }
}
