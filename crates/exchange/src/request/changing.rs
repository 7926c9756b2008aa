//! Changes the fields of a request or of its answer as the operator's rules say.
//!
//! Not known here: which rules a request meets.

use std::{net::IpAddr, rc::Rc};

use fields::Fields;
use message::Scheme;

use crate::listener::ListenerState;
use rules::rulebook::{
    Met, Question,
    edits::{self, AskedFor, Values},
};

/// The rules that change a request's or an answer's fields, and the values their texts may use.
pub struct Changing {
    /// The rules that match the request.
    met: Met,
    client: IpAddr,
    listener: Rc<ListenerState>,
    method: String,
    scheme: Option<Scheme>,
    host: String,
    port: u16,
    path: String,
    /// A number unique to this request.
    pub id: u64,
}

impl Changing {
    /// For a request to this listener that matches the rules `met`. `id`: a number unique to this request.
    pub fn of(
        listener: &Rc<ListenerState>,
        client: IpAddr,
        question: &Question<'_>,
        met: Met,
        id: u64,
    ) -> Changing {
        let asked = AskedFor::of(question);
        Changing {
            met,
            client,
            listener: Rc::clone(listener),
            method: asked.method.to_owned(),
            scheme: asked.scheme,
            host: asked.host.to_owned(),
            port: asked.port,
            path: asked.path.to_owned(),
            id,
        }
    }

    /// The values that a rule's text may use.
    pub fn values<'a>(&'a self, cache_status: &'a [u8], status: u16) -> Values<'a> {
        Values {
            client: self.client,
            listener: name_of(&self.listener),
            asked: AskedFor {
                method: &self.method,
                scheme: self.scheme,
                host: &self.host,
                port: self.port,
                path: &self.path,
            },
            id: self.id,
            cache_status,
            status,
        }
    }

    /// Changes the lines of an answer's head.
    pub fn change_answer(
        &self,
        (status, content_type): (u16, &[u8]),
        cache_status: &[u8],
        lines: &mut Vec<u8>,
    ) {
        let changes = (self.listener.book).response_edits(&self.met, status, content_type);
        edits::change_head(lines, &changes, &self.values(cache_status, status));
    }

    /// Changes the fields of the request.
    pub fn change_request(&self, fields: &mut Fields) {
        let changes = self.listener.book.request_edits(&self.met);
        edits::change_request(fields, &changes, &self.values(b"", 0));
    }
}

/// The listener's name as rule variables show it: the configured name, or the address.
pub fn name_of(listener: &ListenerState) -> &str {
    match listener.listener.name.as_str() {
        "" => &listener.name,
        name => name,
    }
}

/// The rules that change the head of a hit on the short way, and the values their texts may use.
pub struct HitChanging<'a> {
    /// The rules that match the request.
    pub met: Met,
    /// The resource asked for.
    pub asked: AskedFor<'a>,
    /// The client's address.
    pub client: IpAddr,
    /// A number unique to this request.
    pub id: u64,
}

impl HitChanging<'_> {
    /// Changes the head's lines.
    pub fn change(
        &self,
        listener: &ListenerState,
        (status, content_type): (u16, &[u8]),
        cache_status: &[u8],
        lines: &mut Vec<u8>,
    ) {
        let changes = listener
            .book
            .response_edits(&self.met, status, content_type);
        let values = Values {
            client: self.client,
            listener: name_of(listener),
            asked: self.asked,
            id: self.id,
            cache_status,
            status,
        };
        edits::change_head(lines, &changes, &values);
    }
}
