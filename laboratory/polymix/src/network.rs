//! The network between proxy and servers, as the specification has it: 40 ms of delay each way, and one packet in two
//! thousand lost.
//!
//! The servers imitate it, because a machine without netem or dummynet cannot delay packets. They know what a TCP sender knows: how
//! many bytes may be in flight, and so the bursts in which a reply is sent. The model is TCP as in Linux:
//!
//! - A connection costs a round trip. The kernel accepts it at once, so the delay is added to the first request.
//! - A request takes one delay, and the first byte of its reply another one.
//! - A reply is sent in bursts, one in each round trip. The first has `WINDOW_FIRST` segments, each next one twice as many. A
//!   connection keeps its window until it has been idle for a timeout.
//! - Of a burst, the bytes before a lost segment arrive. If three segments follow the lost one, their acknowledgements report the
//!   loss, and the rest comes a round trip later, in half the window. Otherwise it comes after a timeout, one segment first.
//! - A lost request waits for a timeout, a lost SYN or SYN-ACK for a second.
//!
//! Not imitated: lost acknowledgements (the next one covers them), queues, limited bandwidth, reordering. Segments behind a lost one are
//! sent again, which delays large objects a little more than selective acknowledgements would. A proxy that opens connections ahead
//! of need does not see their cost.
//!
//! Not known here: sockets, clocks; random numbers come from the caller.   Limits: a window of `WINDOW_MAX` segments.
//! Source: spec section 3; RFC 5681, RFC 6298, RFC 6928.

use std::time::Duration;

use crate::random::Chance;

/// Payload of a segment on an Ethernet, with time stamps.
const SEGMENT_BYTES: u64 = 1_448;
/// Segments of a new connection's first burst. rfc6928 §2
const WINDOW_FIRST: u64 = 10;
/// Largest window in segments: about 1 MiB in flight.
const WINDOW_MAX: u64 = 724;
/// The sender learns of a loss when it has acknowledgements of this many segments behind the lost one.
const DUPLICATES: u64 = 3; // rfc5681 §3.2
/// Linux's timeout is at least this much longer than a round trip.
const TIMEOUT_MARGIN: Duration = Duration::from_millis(200);
const SYN_TIMEOUT: Duration = Duration::from_secs(1); // rfc6298 §2.1

/// Delay and loss on the servers' side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Network {
    /// Delay of a packet, one way.
    pub delay: Duration,
    /// Share of packets that are lost, each way.
    pub loss: f64,
    /// Time from a lost packet to its repetition, if no acknowledgements report the loss.
    timeout: Duration,
    syn_timeout: Duration,
}

impl Network {
    /// No delay, no loss.
    pub const NONE: Self = Self {
        delay: Duration::ZERO,
        loss: 0.0,
        timeout: Duration::ZERO,
        syn_timeout: Duration::ZERO,
    };

    /// The network of the specification.
    #[must_use]
    pub fn specified() -> Self {
        //= spec section 3   40 ms delay and 0.05 % packet loss in each direction
        Self::new(Duration::from_millis(40), 0.000_5)
    }

    /// A network with this delay and loss, one way.
    #[must_use]
    pub fn new(delay: Duration, loss: f64) -> Self {
        assert!((0.0..1.0).contains(&loss), "loss {loss}");
        Self {
            delay,
            loss,
            timeout: delay * 2 + TIMEOUT_MARGIN,
            syn_timeout: SYN_TIMEOUT,
        }
    }

    /// The same network with all times multiplied by `by`; `NONE` if `by` is 0 or less.
    #[must_use]
    pub fn scaled(self, by: f64) -> Self {
        if by <= 0.0 {
            return Self::NONE;
        }
        Self {
            delay: self.delay.mul_f64(by),
            timeout: self.timeout.mul_f64(by),
            syn_timeout: self.syn_timeout.mul_f64(by),
            ..self
        }
    }

    fn is_none(&self) -> bool {
        self.delay.is_zero() && self.loss <= 0.0
    }

    fn round_trip(&self) -> Duration {
        self.delay * 2
    }
}

/// The state of one connection in the network.
#[derive(Debug, Clone)]
pub struct Path {
    network: Network,
    /// Segments that may be in flight.
    window: u64,
}

/// Bytes that arrive together, and the wait until the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Number of bytes; 0 if the first segment is lost.
    pub bytes: u64,
    /// Wait before the next burst, if there is one.
    pub pause: Duration,
}

impl Path {
    /// The path of a new connection.
    #[must_use]
    pub fn new(network: Network) -> Self {
        Self {
            network,
            window: WINDOW_FIRST,
        }
    }

    /// Time to connect.
    pub fn connecting(&self, chance: &mut Chance) -> Duration {
        let lost = |chance: &mut Chance| u32::from(self.lost_first(1, chance).is_some());
        let packets = lost(chance) + lost(chance);
        self.network.round_trip() + self.network.syn_timeout * packets
    }

    /// Time from sending a request of this many bytes to its arrival.
    pub fn request(&self, bytes: u64, chance: &mut Chance) -> Duration {
        let segments = bytes.div_ceil(SEGMENT_BYTES).max(1);
        let late = match self.lost_first(segments, chance) {
            Some(at) if segments - at > DUPLICATES => self.network.round_trip(),
            Some(_) => self.network.timeout,
            None => Duration::ZERO,
        };
        self.network.delay + late
    }

    /// Time from sending a reply's first byte to its arrival.
    #[must_use]
    pub fn reply(&self) -> Duration {
        self.network.delay
    }

    /// The connection was idle for this long.
    pub fn rested(&mut self, idle: Duration) {
        if idle > self.network.timeout {
            self.window = WINDOW_FIRST;
        }
    }

    /// The next burst of a reply of which `left` bytes are still to be sent.
    pub fn burst(&mut self, left: u64, chance: &mut Chance) -> Burst {
        if self.network.is_none() {
            let pause = Duration::ZERO;
            return Burst { bytes: left, pause };
        }
        let segments = left.div_ceil(SEGMENT_BYTES).min(self.window);
        match self.lost_first(segments, chance) {
            Some(at) if segments - at > DUPLICATES => {
                self.window = (self.window / 2).max(2);
                Burst {
                    bytes: at * SEGMENT_BYTES,
                    pause: self.network.round_trip(),
                }
            }
            Some(at) => {
                self.window = 1;
                Burst {
                    bytes: at * SEGMENT_BYTES,
                    pause: self.network.timeout,
                }
            }
            None => {
                self.window = (self.window * 2).min(WINDOW_MAX);
                Burst {
                    bytes: left.min(segments * SEGMENT_BYTES),
                    pause: self.network.round_trip(),
                }
            }
        }
    }

    /// Position of the first lost packet among this many; mostly none.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss
    )] // fewer than WINDOW_MAX
    fn lost_first(&self, packets: u64, chance: &mut Chance) -> Option<u64> {
        if self.network.loss <= 0.0 {
            return None;
        }
        // The number of packets before the first lost one has a geometric distribution.
        let arrive = (1.0 - chance.unit()).ln() / (1.0 - self.network.loss).ln();
        (arrive < packets as f64).then_some(arrive as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(40);

    /// The bursts of a reply: bytes, and milliseconds until the next one.
    fn bursts(path: &mut Path, mut left: u64, chance: &mut Chance) -> Vec<(u64, u128)> {
        let mut all = Vec::new();
        while left > 0 {
            let burst = path.burst(left, chance);
            left -= burst.bytes;
            all.push((burst.bytes, burst.pause.as_millis()));
        }
        all
    }

    #[test]
    fn a_reply_leaves_in_bursts_that_double() {
        let mut chance = Chance::new(1);
        let mut path = Path::new(Network::new(DELAY, 0.0));
        assert_eq!(path.connecting(&mut chance), DELAY * 2);
        assert_eq!(path.request(300, &mut chance), DELAY);
        let sent = bursts(&mut path, 50_000, &mut chance);
        assert_eq!(sent, [(14_480, 80), (28_960, 80), (6_560, 80)]);
        // The window is kept, until the connection has been idle.
        assert_eq!(bursts(&mut path, 50_000, &mut chance).len(), 1);
        path.rested(Duration::from_secs(1));
        assert_eq!(bursts(&mut path, 50_000, &mut chance).len(), 3);
    }

    #[test]
    fn nothing_is_changed_without_a_network() {
        let mut chance = Chance::new(1);
        let mut path = Path::new(Network::NONE);
        let waits = path.connecting(&mut chance) + path.request(9_000, &mut chance) + path.reply();
        assert_eq!(waits, Duration::ZERO);
        assert_eq!(bursts(&mut path, 1 << 30, &mut chance), [(1 << 30, 0)]);
        let scaled = Network::specified().scaled(0.0);
        assert_eq!(scaled, Network::NONE);
    }

    #[test]
    fn a_loss_shows_as_a_round_trip_or_a_timeout() {
        let mut chance = Chance::new(2);
        let network = Network::new(DELAY, 0.05);
        let (mut fast, mut slow, mut segments) = (0, 0, 0);
        for _ in 0..20_000 {
            let mut path = Path::new(network);
            let burst = path.burst(14_480, &mut chance);
            segments += 10;
            match (burst.bytes / SEGMENT_BYTES, burst.pause.as_millis()) {
                (10, 80) => {}
                (0..=6, 80) => {
                    fast += 1;
                    assert_eq!(path.window, 5);
                }
                (7..=9, 280) => {
                    slow += 1;
                    assert_eq!(path.window, 1);
                }
                other => panic!("{other:?}"),
            }
        }
        // The first lost segment of ten: 1 - 0.95^7, and 0.95^7 - 0.95^10.
        assert!((5_800..6_240).contains(&fast), "{fast} of {segments}");
        assert!((1_880..2_110).contains(&slow), "{slow} of {segments}");
    }

    #[test]
    fn packets_are_lost_as_often_as_specified() {
        let mut chance = Chance::new(3);
        let path = Path::new(Network::specified());
        let late = (0..400_000)
            .filter(|_| path.request(300, &mut chance) > DELAY)
            .count();
        // 200 expected, plus or minus four standard deviations.
        assert!((143..=257).contains(&late), "{late}");
    }
}
