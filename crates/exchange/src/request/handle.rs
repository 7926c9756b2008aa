//! The steps of a request that is not a plain, fresh hit in memory, in order.
//!
//! The first step that answers the request ends the list.

use crate::{
    conn::{port_purge, switch},
    fetch::{pass, receiving},
    range::part::MayWait,
    reply::After,
    request::{
        cached, digest_serving, exchange::Exchange, incoming::Incoming, methods, paying, refusing,
        ruling, wanting,
    },
};

/// Answers one request.
pub async fn handle(ex: &mut Exchange<'_>, incoming: Incoming) -> After {
    match answered(ex, incoming).await {
        Ok(after) | Err(after) => after,
    }
}

/// `Err`: a step before the last has answered the request.
async fn answered(ex: &mut Exchange<'_>, mut incoming: Incoming) -> Result<After, After> {
    incoming.clean(ex.worker.shared.cluster.is_some(), ex.member.is_some());
    refusing::barred(ex, &incoming).await?;
    refusing::circles(ex, &incoming.head).await?;
    receiving::push(ex, &incoming.head).await?;
    ruling::ask(ex, &mut incoming).await?;
    switch::connect(ex, &incoming.head).await?;
    port_purge::purge(ex, &incoming.head).await?;
    methods::end_here(ex, &incoming.head).await?;
    digest_serving::serve(ex, &incoming.head).await?;
    let has_passed = incoming.has_passed;
    let wanted = wanting::want_or_refuse(ex, incoming).await?;
    paying::admit(ex, has_passed).await?;
    Ok(match wanted.passes_by() {
        // Boxed, so that the future of every request stays small. The other rare ways are boxed for the same reason.
        Some(why) => Box::pin(pass::answer(ex, &wanted, why)).await,
        None => cached::answer(ex, &wanted, MayWait::ForAll).await,
    })
}
