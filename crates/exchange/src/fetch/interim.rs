//! Interim responses on their way from an origin to the client.

use message::ResponseHead;

use crate::{
    edition::Edition,
    reply::Gone,
    request::{body::BodyError, exchange::Exchange, onward::via_of, wanted::Wanted},
};

/// Sends an interim response to the client, 100 (Continue) only if the request expects it.
pub async fn pass_on(
    ex: &mut Exchange<'_>,
    wanted: &Wanted,
    interim: &ResponseHead,
) -> Result<(), BodyError> {
    if interim.status == 100 && !wanted.head.expect_continue {
        return Ok(());
    }
    let head = as_it_goes_on(ex.edition(), interim);
    let shown = ex.reply.interim(head.status, &head.reason, &head.fields);
    shown.await.map_err(|Gone| BodyError::Gone)
}

/// An interim response without hop-by-hop fields, with our Via.
pub fn as_it_goes_on(edition: &Edition, head: &ResponseHead) -> ResponseHead {
    let mut head = head.clone();
    message::remove_hop_by_hop(&mut head.fields);
    //= rfc9110 §8.6   a server MUST NOT send Content-Length with status 1xx
    head.fields.remove(b"content-length");
    let via = via_of(edition, head.version);
    head.fields.push(b"Via", &via);
    head
}
