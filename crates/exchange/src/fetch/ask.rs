//! A request without a body, sent to whoever is to be asked; the answer is as the route changes it.

use message::ResponseHead;

use crate::{
    fetch::whom::{self, AskContext, To},
    mirror::{asking, settings::takes},
};
use base::deadline::Watch;
use origin::{
    outcome::UpstreamError,
    upstream::{Upstream, is_interim},
};

/// Sends a request without a body to whoever is to be asked, and waits for the first head, which may be that of an interim response.
/// `request`: in the form for the origin. The answer is as the route changes it ([`crate::mirror`]).
pub async fn ask(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    match &to.asked.mirror {
        Some(mirror) if takes(method) => {
            // Boxed, because it is rare and would double the future of every fetch.
            Box::pin(asking::ask(context, watch, to, mirror, method, request)).await
        }
        _ => whom::ask_first(context, watch, to, method, request).await,
    }
}

/// As [`ask`], and waits for the final head. Interim responses are dropped.
pub async fn ask_final(
    context: &AskContext,
    watch: &Watch,
    to: To<'_>,
    method: &str,
    request: &[u8],
) -> Result<(Upstream, ResponseHead), UpstreamError> {
    let (mut upstream, mut head) = ask(context, watch, to, method, request).await?;
    while is_interim(&head) {
        head = whom::next_head(context, watch, &mut upstream, method).await?;
    }
    whom::note_levels(&upstream, &head);
    Ok((upstream, head))
}
