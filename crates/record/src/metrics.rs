//! Counters: one set for each worker, summed on request.
//!
//! A worker is the only writer of its set, so counting is a plain load and store. Every counter is defined once, in
//! the table below, with its Prometheus name and its meaning.

use std::sync::atomic::{AtomicU64, Ordering};

use profile::{Class, STAGES, Stage};

use crate::buckets::{BUCKETS, Counts, bucket_of};
use crate::lag::Lag;
use crate::origins::Origins;
use crate::protocols::Protocols;

/// Diagnostic messages dropped because standard error was not read. For the whole process: the command counts them.
pub static DIAGNOSTICS_LOST: AtomicU64 = AtomicU64::new(0);

/// TLS sessions dropped for newer ones. For the whole process, because listeners share them.
pub static SESSIONS_FORGOTTEN: AtomicU64 = AtomicU64::new(0);

macro_rules! counters {
    ($($field:ident, $help:literal;)*) => {
        /// A worker's counters. Gauges are counted up and down.
        #[derive(Default)]
        pub struct Counters {
            /// Requests by class (index: `Class as usize`).
            pub requests: [AtomicU64; 11],
            /// Bytes sent to clients by class, heads included.
            pub bytes: [AtomicU64; 11],
            /// Latency by class, see [`bucket_of`].
            pub latency: Box<[Counts<BUCKETS>; 11]>,
            /// How late the worker's loop was.
            pub lag: Lag,
            /// Sum of the latencies by class, microseconds.
            pub latency_us: [AtomicU64; 11],
            /// Times of the stages of all requests except memory hits: see [`Counters::staged`].
            pub stages: Box<[Counts<BUCKETS>; STAGES]>,
            /// Requests and connections by protocol and encryption.
            pub protocols: Box<Protocols>,
            /// Times and failures of the origins.
            pub origins: Origins,
            /// Answers by listener, origin and class of status; see `labels`.
            pub rows: Box<[Row]>,
            /// Answers by status, except 200, which is the difference to all.
            pub statuses: Box<Counts<STATUSES_MAX>>,
            /// Failures of origins by cause: see [`CAUSES`].
            pub causes: [AtomicU64; CAUSES.len()],
            /// Violations of HTTP/2 by clients, in the order of [`http2::Fault::ALL`].
            pub h2_faults: Box<Counts<{ http2::Fault::ALL.len() }>>,
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        impl Counters {
            /// Name, meaning and value of each simple counter.
            pub fn simple(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($field), $help, self.$field.load(Ordering::Relaxed)),)*].into_iter()
            }
        }
    };
}

counters! {
    client_connections_open, "Client connections open now";
    client_connections, "Client connections accepted";
    client_connections_refused, "Client connections closed at once, because the limit was reached or the client is not served";
    tls_handshakes_open, "TLS handshakes with clients going on now";
    tls_handshakes_full, "TLS handshakes with clients that were completed, of new sessions";
    tls_handshakes_resumed, "TLS handshakes with clients that were completed, of sessions resumed by a ticket";
    tls_handshakes_failed, "TLS handshakes with clients that failed: nothing in common, or not understood";
    tls_handshakes_declined, "TLS handshakes that the client broke off with an alert, mostly because it does not trust the certificate";
    tls_handshakes_uncertified, "TLS handshakes refused because the client had no certificate, or none that client-ca has signed";
    tls_handshakes_left, "TLS handshakes during which the client's connection ended";
    tls_handshakes_timed_out, "TLS handshakes that took longer than timeouts.client-handshake";
    tls_handshakes_plain, "Connections to a TLS port on which something else was spoken";
    tls_handshakes_crowded, "Connections closed at once because a worker had limits.handshakes-max handshakes going on, none of them for long";
    tls_handshakes_given_up, "TLS handshakes that lasted a second or more, given up for another one because a worker had limits.handshakes-max";
    tls_early_connections, "Connections on which a request came before the handshake was complete (early-data)";
    tls_early_hits, "Requests that came so and were answered at once, from the cache; others waited for the handshake";
    h2_connections_open, "Connections of clients that speak HTTP/2, open now";
    h2_connections, "Connections of clients that spoke HTTP/2";
    h2_streams_open, "Requests of HTTP/2 being answered now, but for hits in memory";
    h2_streams, "Requests that came by HTTP/2";
    h2_streams_refused, "Requests of HTTP/2 refused because limits.streams-max were being answered";
    h2_resets, "Requests of HTTP/2 that the client has reset before their answer ended";
    proxy_headers, "PROXY headers read: connections of balancers that name their client, or say that there is none";
    proxy_headers_refused, "Connections closed because the PROXY header that they must begin with was missing, broken, too long or late";
    requests_malformed, "Requests refused because their framing was wrong or ambiguous";
    heads_shed, "Heads given up, of clients with 408 or 431 and of origins, because those that are not complete took more than limits.head-buffer";
    client_connections_slow, "Clients disconnected because they took what they were sent too slowly (timeouts.client-write, limits.client-rate-min)";
    client_aborts, "Responses a client did not stay for";
    siblings_spared, "Fetches for which no sibling was asked, because what they are for was purged or written to in the last five minutes, or there was a purge by pattern";
    origin_requests, "Requests sent to origins";
    origin_connections, "Connections opened to origins";
    origin_connections_idle_open, "Pooled connections to origins that wait for a request, a second ago at most";
    origin_connections_used_open, "Connections to origins in use, a second ago at most";
    origin_failures_noted, "Failures to connect that are remembered for a moment, a second ago at most";
    origin_failures_recalled, "Times a remembered failure was given instead of trying to connect, a second ago at most";
    origin_errors, "Answers of origins that failed (connect, time-out, broken response); by cause in origin_failures";
    origin_bytes, "Bytes of body received from origins";
    mirror_redirects_followed, "Redirects of origins that were followed here (follow-redirects)";
    mirror_bodies_replaced, "Bodies of origins that were looked through for a text to replace (replace-host)";
    mirror_bodies_coded, "Bodies that came compressed although they were asked for as they are: passed on as they came, and not stored";
    mirror_digests_wrong, "Bodies with another digest than their path says: cut off, and not stored";
    mirror_tokens_fetched, "Tokens fetched for registries";
    mirror_tokens_dropped, "Tokens for registries that made room for newer ones before their time";
    revalidations, "Requests to origins that asked whether what is stored is still true (If-None-Match, If-Modified-Since)";
    revalidations_not_modified, "Revalidations answered 304: what is stored is still true";
    flights_joined, "Requests that joined a fetch in progress";
    flights_queued, "Fetches for reloads that waited until the one before was answered";
    flights_left, "Requests that joined a fetch and then had to ask for themselves";
    flights_hit_for_pass, "Requests that fetched for themselves at once, because the last answer for their URL could not be shared";
    flights_hit_for_pass_noted, "Answers that could not be shared, so that for a while nobody waits for the next one of their URL";
    flights_hit_for_pass_dropped, "Such notes that made room for newer ones before their time";
    fetches_stopped, "Fetches stopped because all their clients had left, and too little had come to go on for the store (limits.quick-abort-left)";
    stored_objects, "Responses handed to the store";
    stored_bytes, "Bytes of body handed to the store";
    not_stored, "Storable responses the store did not take";
    disk_reads, "Records read from the device";
    disk_read_bytes, "Bytes that were read for them; of a fragment only the blocks that are wanted";
    disk_read_errors, "Reads from the device that failed";
    disk_reads_given_up, "Reads that waited too long for the disk, so that the origin was asked";
    disk_reads_untried, "Records that were not read because their device does not answer";
    disk_corrupt, "Records read whose checksum, key or place was wrong; the origin was asked";
    disk_companions, "Objects that came along with the read of another one of their server";
    disk_reads_without_companions, "Reads that could have brought companions and did not, because those of their server are not asked for (memory_companions_asked)";
    disk_waits, "Responses whose end waited for a disk that was behind with writing";
    disk_lazy_reads, "Reads that waited for others, to go to the device in the order of their places, a second ago at most";
    disk_lazy_batches, "How many times such reads were due, all that were gathered at once; a second ago at most";
    disk_lazy_along, "Those of these reads that were answered by the read of another one close to it, a second ago at most";
    disk_writes, "Writes of records given to the device";
    disk_write_bytes, "Bytes given to the device for writing";
    disk_write_errors, "Writes of records that failed";
    purges, "Purges carried out, through the admin interface or on a listener's port";
    invalidations_not_durable, "Unsafe requests whose invalidation the disk did not take in time: it holds until a crash";
    log_records_lost, "Log and profile records dropped because the disk could not keep up";
    bodies_completed, "Large bodies of which a part was lost from disk while they were sent, and asked of the origin";
    tunnels, "CONNECT tunnels and upgraded connections";
    fragments_given_back, "Times a client that took nothing gave back the fragment that was held for it, because more than half of limits.transfer-buffer was taken";
    body_bytes_uncopied, "Bytes of large bodies that the kernel sent from memory without a copy: in plain HTTP/1.1, to clients on other machines";
    transfers_paused, "Times that a body was not read any further because its client's connection held more than its share of limits.transfer-buffer";
    transfers_cut, "Connections, and streams of HTTP/2, that were cut because they held much of limits.transfer-buffer and took nothing for 10 seconds while others waited for room";
    fragments_read_ahead, "Fragments of large bodies that were read while an earlier one was sent";
    body_laggards_cut, "Clients disconnected because they fell behind a shared fetch";
}

/// Answers of one row, by class of status, and their bytes: a cache line.
#[derive(Default)]
pub struct Row {
    /// By the status's first digit; see [`STATUS_CLASSES`].
    pub answers: [AtomicU64; STATUS_CLASSES.len()],
    /// Bytes sent, heads included.
    pub bytes: AtomicU64,
}

const _: () = assert!(size_of::<Row>() <= 64);

/// The classes of status, by their first digit. The first: nothing was sent.
pub const STATUS_CLASSES: [&str; 6] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx"];

/// Statuses are counted one by one up to 599. Any other status of an origin counts as none.
pub const STATUSES_MAX: usize = 100 * STATUS_CLASSES.len();

/// Why an origin's answer failed: the error types of RFC 9209 §2.3 that this proxy uses, as in Cache-Status. All others
/// are counted in the last one.
pub const CAUSES: [&str; 18] = [
    "dns_timeout",
    "dns_error",
    "destination_unavailable",
    "destination_ip_prohibited",
    "destination_ip_unroutable",
    "connection_refused",
    "connection_terminated",
    "connection_timeout",
    "connection_read_timeout",
    "connection_limit_reached",
    "tls_protocol_error",
    "tls_certificate_error",
    "tls_alert_received",
    "http_protocol_error",
    "proxy_loop_detected",
    "proxy_configuration_error",
    "proxy_internal_error",
    "other",
];

/// A function that returns the number of client connections of each of these workers.
pub fn open_of(workers: &[std::sync::Arc<Counters>]) -> impl Fn(usize) -> u64 {
    |worker| {
        let open = &workers[worker].client_connections_open;
        open.load(Ordering::Relaxed)
    }
}

/// Adds to a counter of which this thread is the only writer.
#[inline]
pub fn add(counter: &AtomicU64, n: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(n),
        Ordering::Relaxed,
    );
}

/// Takes from a gauge of which this thread is the only writer.
#[inline]
pub fn sub(counter: &AtomicU64, n: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_sub(n),
        Ordering::Relaxed,
    );
}

impl Counters {
    /// Counters with this many rows.
    pub fn with_rows(rows: usize) -> Counters {
        Counters {
            rows: (0..rows).map(|_| Row::default()).collect(),
            ..Counters::default()
        }
    }

    /// Counts the answer to a finished request.
    #[inline]
    pub fn answered(&self, row: usize, status: u16, bytes: u64) {
        let status = match usize::from(status) {
            known @ 0..STATUSES_MAX => known,
            _ => 0,
        };
        if let Some(row) = self.rows.get(row) {
            add(&row.answers[status / 100], 1);
            add(&row.bytes, bytes);
        }
        if status != 200 {
            add(&self.statuses.0[status], 1);
        }
    }

    /// Counts a failed answer of an origin by its error type.
    pub fn origin_failed(&self, cause: &str) {
        add(&self.origin_errors, 1);
        let found = CAUSES.iter().position(|known| *known == cause);
        add(&self.causes[found.unwrap_or(CAUSES.len() - 1)], 1);
    }

    /// Counts one finished request.
    #[inline]
    pub fn finish(&self, class: Class, bytes: u64, us: u32) {
        let class = class as usize;
        add(&self.requests[class], 1);
        add(&self.bytes[class], bytes);
        add(&self.latency[class].0[bucket_of(us)], 1);
        add(&self.latency_us[class], u64::from(us));
    }

    /// Counts the stages of a finished request. Memory hits are left out: they have hardly any stages, their class has the latency, and
    /// counting would slow them down.
    #[inline]
    pub fn staged(&self, class: Class, stages: &[Option<Stage>; STAGES]) {
        if class == Class::MemoryHit {
            return;
        }
        for (counts, stage) in self.stages.iter().zip(stages) {
            if let Some(stage) = stage {
                add(&counts.0[bucket_of(stage.total_us)], 1);
            }
        }
    }
}
