//! Ends a request for a part when nothing is stored in parts: the answer is treated like any other, passed on, or refused.
//!
//! Not known here: the choice between these.

use bytes::Bytes;
use message::ResponseHead;
use profile::Class;

use super::{Outcome, Parts};
use crate::{
    deliver::{arriving, stored},
    fetch::{flight::FirstEvent, pass, task, upload::Upload},
    range::validation::Validation,
    reply::Length,
    request::exchange::{Said, forwarded},
};
use origin::{outcome::UpstreamError, upstream::Upstream};

impl Parts<'_, '_> {
    /// Treats an answer that is not a part like that of any other fetch.
    pub(super) async fn adopted(&mut self, upstream: Upstream, head: ResponseHead) -> Outcome {
        let (worker, wanted) = (self.ex.worker, self.wanted);
        let validation = self.validation.take().and_then(Validation::into_reader);
        let reader = validation.unwrap_or_else(|| {
            // No other request may join: the fetch began before purges that may have come by now.
            (worker.shared.flights).start_alone(wanted.primary, self.began)
        });
        let flight = std::sync::Arc::clone(&reader.flight);
        let (fetch_request, asked_at) = (self.fetch_request.clone(), self.asked_at);
        task::adopt(worker, flight, fetch_request, upstream, head, asked_at);
        let FirstEvent::Response(response) = reader.first_event().await else {
            return Outcome::Pass;
        };
        let class = match response.storable {
            Ok(()) => Class::Miss,
            Err(_) => Class::Uncachable,
        };
        if !response.stored {
            self.fill_lock = None; // nothing will be stored, so release the waiters
        }
        if response.storable.is_err() {
            worker.range_pass_list.note(wanted.primary, worker.now_ms());
        }
        let status = forwarded(self.ex.edition(), self.why, |line| {
            response.say_why_not(response.say_stored(line))
        });
        arriving::response(self.ex, wanted, &reader, &response, class, status)
            .await
            .map_or(Outcome::Pass, Outcome::Answered)
    }

    /// Passes an answer on unchanged.
    pub(super) async fn relayed(&mut self, upstream: Upstream, head: &ResponseHead) -> Outcome {
        let status = forwarded(self.ex.edition(), self.why, |line| line.detail("pass"));
        let no_body = Upload::default();
        Outcome::Answered(
            pass::relay(self.ex, upstream, head, no_body, Class::Uncachable, status).await,
        )
    }

    /// The origin sends other parts than requested, so from now on it gets clients' ranges unchanged.
    pub(super) fn passed_from_now_on(&self) -> Outcome {
        let worker = self.ex.worker;
        let now = worker.now_ms();
        worker.range_pass_list.note(self.wanted.primary, now);
        Outcome::Pass
    }

    pub(super) async fn unsatisfied(&mut self, total: u64) -> Outcome {
        let said = Said {
            class: Class::Uncachable,
            content_type: b"",
            age_s: None,
            cache_status: forwarded(self.ex.edition(), self.why, |line| line.forward_status(206)),
        };
        let (head, length) = (stored::unsatisfied_head(self.ex, total), Length::Known(0));
        let now = base::clock::Instant::now();
        let answered = self.ex.answer(said, head, length, Bytes::new(), now);
        Outcome::Answered(answered.await)
    }

    pub(super) async fn failed(&mut self, error: &UpstreamError) -> Outcome {
        tracing::debug!(%error, "there is no answer");
        let (status, reason) = (error.status(), error.for_client());
        let (why, after_s) = (self.why, error.retry_after_s());
        let answered = (self.ex).failed_for_now(why, status, error.token(), &reason, after_s);
        Outcome::Answered(answered.await)
    }
}
