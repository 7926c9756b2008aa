//! Requests and connections of clients by protocol and encryption.
//!
//! A connection is counted once its protocol is known: after the handshake, and after the preface if HTTP/2 is served. A connection
//! of HTTP/1.0 counts as HTTP/1.1, because each of its requests may use another version.
//!
//! Not known here: requests, the outcome of a handshake.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use profile::{Encryption, Protocol};

use crate::metrics::{self, Counters};

const ENCRYPTIONS: usize = Encryption::ALL.len();
/// The number of rows: one for each protocol with each encryption.
pub const ROWS: usize = Protocol::ALL.len() * ENCRYPTIONS;

/// A worker's counts, by row.
pub struct Protocols([Row; ROWS]);

impl Default for Protocols {
    fn default() -> Self {
        Protocols(std::array::from_fn(|_| Row::default()))
    }
}

#[derive(Default)]
struct Row {
    requests: AtomicU64,
    connections: AtomicU64,
    open: AtomicU64,
}

impl Protocols {
    fn row(&self, protocol: Protocol, encryption: Encryption) -> &Row {
        &self.0[protocol as usize * ENCRYPTIONS + encryption as usize]
    }

    /// Counts a finished request.
    #[inline]
    pub fn request(&self, protocol: Protocol, encryption: Encryption) {
        metrics::add(&self.row(protocol, encryption).requests, 1);
    }

    /// Counts a connection that was opened.
    pub fn opened(&self, protocol: Protocol, encryption: Encryption) {
        let row = self.row(protocol, encryption);
        metrics::add(&row.connections, 1);
        metrics::add(&row.open, 1);
    }

    /// Counts a connection that has ended.
    pub fn closed(&self, protocol: Protocol, encryption: Encryption) {
        metrics::sub(&self.row(protocol, encryption).open, 1);
    }
}

/// A connection, counted as open while this lives.
pub struct Spoken {
    counters: Arc<Counters>,
    protocol: Protocol,
    encryption: Encryption,
}

impl Spoken {
    /// Counts a connection.
    pub fn count(counters: &Arc<Counters>, protocol: Protocol, encryption: Encryption) -> Spoken {
        counters.protocols.opened(protocol, encryption);
        Spoken {
            counters: Arc::clone(counters),
            protocol,
            encryption,
        }
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        let counts = &self.counters.protocols;
        counts.closed(self.protocol, self.encryption);
    }
}

/// The sum of all workers' counts for one protocol with one encryption.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProtocolFigures {
    /// The protocol.
    pub protocol: Protocol,
    /// The encryption.
    pub encryption: Encryption,
    /// Requests finished.
    pub requests: u64,
    /// Connections.
    pub connections: u64,
    /// Connections open now.
    pub open: u64,
}

impl ProtocolFigures {
    /// All rows, with all counts 0.
    pub fn none() -> Vec<ProtocolFigures> {
        let all = Protocol::ALL.into_iter();
        all.flat_map(|protocol| Encryption::ALL.map(|encryption| (protocol, encryption)))
            .map(|(protocol, encryption)| ProtocolFigures {
                protocol,
                encryption,
                requests: 0,
                connections: 0,
                open: 0,
            })
            .collect()
    }

    /// Adds a worker's counts to all rows.
    pub fn add(all: &mut [ProtocolFigures], counts: &Protocols) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        for (sum, row) in all.iter_mut().zip(&counts.0) {
            sum.requests += of(&row.requests);
            sum.connections += of(&row.connections);
            sum.open = sum.open.wrapping_add(of(&row.open));
        }
    }

    /// The counts since `then`, with the connections open now.
    pub fn since(&self, then: &ProtocolFigures) -> ProtocolFigures {
        ProtocolFigures {
            requests: self.requests.wrapping_sub(then.requests),
            connections: self.connections.wrapping_sub(then.connections),
            ..*self
        }
    }

    /// Is any count not 0?
    pub fn occurs(&self) -> bool {
        self.requests > 0 || self.connections > 0 || self.open > 0
    }

    /// Values of the labels `protocol`, `tls` and `session`.
    pub fn labels(&self) -> [(&'static str, &'static str); 3] {
        let (tls, session) = match (self.encryption, self.encryption.is_resumed()) {
            (Encryption::None, _) => ("none", "none"),
            (tls, true) => (tls.version(), "resumed"),
            (tls, false) => (tls.version(), "full"),
        };
        [
            ("protocol", name_of(self.protocol)),
            ("tls", tls),
            ("session", session),
        ]
    }
}

/// The name as in a request line; `none` if no request was understood.
pub fn name_of(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Unknown => "none",
        known => known.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_in_its_row_and_what_is_open_is_no_sum() {
        let counts = Protocols::default();
        counts.opened(Protocol::Http2, Encryption::Tls13Resumed);
        counts.request(Protocol::Http2, Encryption::Tls13Resumed);
        counts.request(Protocol::Http11, Encryption::None);
        let mut then = ProtocolFigures::none();
        ProtocolFigures::add(&mut then, &counts);
        counts.opened(Protocol::Http11, Encryption::None);
        counts.request(Protocol::Http11, Encryption::None);
        counts.closed(Protocol::Http2, Encryption::Tls13Resumed);
        let mut now = ProtocolFigures::none();
        ProtocolFigures::add(&mut now, &counts);
        let told = |all: &[ProtocolFigures]| -> Vec<_> {
            let occurring = all.iter().filter(|row| row.occurs());
            occurring
                .map(|row| {
                    (
                        row.labels().map(|(_, is)| is),
                        row.requests,
                        row.connections,
                        row.open,
                    )
                })
                .collect()
        };
        assert_eq!(
            told(&now),
            [
                (["HTTP/1.1", "none", "none"], 2, 1, 1),
                (["HTTP/2", "TLSv1.3", "resumed"], 1, 1, 0),
            ]
        );
        let passed: Vec<_> = now
            .iter()
            .zip(&then)
            .map(|(now, then)| now.since(then))
            .collect();
        assert_eq!(told(&passed), [(["HTTP/1.1", "none", "none"], 1, 1, 1)]);
    }
}
