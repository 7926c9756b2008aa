//! Stations with queues, and open networks of them.
//!
//! A *station* is a processor or a disk, or several of the same type (*copies*) with an even share of the work each. Each copy has one
//! queue, first come first served. Work comes as *events*, each with visits a request, a mean service time and a variability
//! (the squared coefficient of variation: 0 constant, 1 exponential). With Poisson arrivals (M/G/1; Pollaczek, Khinchine) the
//! mean wait of a copy is `lambda E[S^2] / (2 (1 - rho))`.
//!
//! The *capacity* of a network is the rate of requests at which its busiest station has no idle time left.
//!
//! Not known here: what the stations are.   Limits: means only; arrivals in a network are taken as Poisson everywhere.

const US_PER_S: f64 = 1e6;

/// Steps of the bisection for a rate: more than the 53 binary digits of an `f64`.
const HALVINGS: u32 = 60;

/// Whether the client waits for an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// The answer waits for the event.
    Waited,
    /// The event does not delay the answer: a push, an update of hints, a write.
    Aside,
}

/// One kind of work at a station.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// The work.
    pub name: &'static str,
    /// Number of times a request to the whole network; may be above 1.
    pub visits: f64,
    /// Mean service time in microseconds.
    pub mean_us: f64,
    /// Variance over the square of the mean: 0 constant, 1 exponential.
    pub variability: f64,
    /// Whether the client waits for it.
    pub path: Path,
}

/// Copies of one server, each with its own queue and an even share of the work.
#[derive(Debug, Clone, PartialEq)]
pub struct Station {
    /// Its name: `front`, `node`, `disk`.
    pub name: &'static str,
    /// Number of copies, at least one.
    pub copies: u32,
    /// The work at this station.
    pub events: Vec<Event>,
}

/// The stations of a request, and time without a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// The stations, in any order.
    pub stations: Vec<Station>,
    /// Mean time that a request spends outside of the stations, microseconds: at the origin.
    pub delay_us: f64,
}

impl Station {
    /// Mean service time that one request costs each copy, in microseconds.
    pub fn demand_us(&self) -> f64 {
        let work = self.events.iter().map(|e| e.visits * e.mean_us);
        work.sum::<f64>() / f64::from(self.copies)
    }

    /// Share of the time that a copy is busy at `rate` requests a second to the network; above 1 it is overloaded.
    pub fn busy(&self, rate: f64) -> f64 {
        rate * self.demand_us() / US_PER_S
    }

    /// Mean wait in the queue at `rate` requests a second, in microseconds; `None` if the queue grows for ever.
    pub fn wait_us(&self, rate: f64) -> Option<f64> {
        let busy = self.busy(rate);
        if busy >= 1.0 {
            return None;
        }
        let second_moments = self
            .events
            .iter()
            .map(|e| e.visits * e.mean_us * e.mean_us * (1.0 + e.variability));
        let arriving = rate / US_PER_S / f64::from(self.copies);
        Some(arriving * second_moments.sum::<f64>() / (2.0 * (1.0 - busy)))
    }

    /// Mean time that a request spends here while its client waits, in microseconds; `None` if the queue grows for ever.
    pub fn response_us(&self, rate: f64) -> Option<f64> {
        let wait = self.wait_us(rate)?;
        let waited = self.events.iter().filter(|e| e.path == Path::Waited);
        Some(waited.map(|e| e.visits * (wait + e.mean_us)).sum())
    }
}

impl Network {
    /// The rate at which the busiest station has no idle time left, in requests a second; infinite if there is no work.
    pub fn capacity(&self) -> f64 {
        US_PER_S / self.largest().map_or(0.0, Station::demand_us)
    }

    /// The name of the busiest station, the first one if several are equal; empty without stations.
    pub fn bottleneck(&self) -> &'static str {
        self.largest().map_or("", |station| station.name)
    }

    fn largest(&self) -> Option<&Station> {
        let mut largest: Option<&Station> = None;
        for station in &self.stations {
            if largest.is_none_or(|other| station.demand_us() > other.demand_us()) {
                largest = Some(station);
            }
        }
        largest
    }

    /// Mean time that a request at `rate` spends in the stations, without the origin, in microseconds; `None` above the capacity.
    pub fn stay_us(&self, rate: f64) -> Option<f64> {
        self.stations.iter().map(|s| s.response_us(rate)).sum()
    }

    /// Mean time from request to answer at `rate`, in microseconds; `None` above the capacity.
    pub fn response_us(&self, rate: f64) -> Option<f64> {
        Some(self.stay_us(rate)? + self.delay_us)
    }

    /// The rate at which the stay in the stations is twice that of an idle network, in requests a second.
    ///
    /// The time at the origin is not counted: it is the same at every rate and would hide the queues.
    pub fn comfortable(&self) -> f64 {
        let limit_us = 2.0 * self.stay_us(0.0).unwrap_or(0.0);
        let (mut below, mut above) = (0.0, self.capacity());
        if !above.is_finite() {
            return above;
        }
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(below, above);
            if self.stay_us(middle).is_some_and(|stay| stay <= limit_us) {
                below = middle;
            } else {
                above = middle;
            }
        }
        below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(visits: f64, mean_us: f64, variability: f64) -> Event {
        Event {
            name: "work",
            visits,
            mean_us,
            variability,
            path: Path::Waited,
        }
    }

    fn station(copies: u32, events: Vec<Event>) -> Station {
        Station {
            name: "s",
            copies,
            events,
        }
    }

    fn near(found: f64, expected: f64) {
        assert!(
            (found - expected).abs() < 1e-6 * expected.abs().max(1.0),
            "{found} for {expected}"
        );
    }

    #[test]
    fn known_queues() {
        // M/M/1 with 1 ms at half load: wait 1 ms. M/D/1: half of that.
        near(
            station(1, vec![event(1.0, 1000.0, 1.0)])
                .wait_us(500.0)
                .unwrap(),
            1000.0,
        );
        near(
            station(1, vec![event(1.0, 1000.0, 0.0)])
                .wait_us(500.0)
                .unwrap(),
            500.0,
        );
        // Two types: 0.5 x 1 ms and 0.5 x 3 ms; E[S] = 2 ms, E[S^2] = 5 ms^2; at 250/s rho is 0.5.
        let mixed = station(1, vec![event(0.5, 1000.0, 0.0), event(0.5, 3000.0, 0.0)]);
        near(mixed.wait_us(250.0).unwrap(), 1250.0);
        assert_eq!(mixed.wait_us(500.0), None);
    }

    #[test]
    fn copies_share_the_work() {
        let two = station(2, vec![event(1.0, 1000.0, 1.0)]);
        near(two.wait_us(1000.0).unwrap(), 1000.0);
        near(two.busy(1000.0), 0.5);
    }

    #[test]
    fn the_busiest_station_decides() {
        let network = Network {
            stations: vec![
                Station {
                    name: "front",
                    ..station(1, vec![event(1.0, 100.0, 0.0)])
                },
                Station {
                    name: "node",
                    ..station(4, vec![event(0.5, 1000.0, 0.0)])
                },
            ],
            delay_us: 7.0,
        };
        near(network.capacity(), 8000.0);
        assert_eq!(network.bottleneck(), "node");
        near(network.response_us(0.0).unwrap(), 607.0);
        assert_eq!(network.response_us(8000.0), None);
        let rate = network.comfortable();
        near(network.stay_us(rate).unwrap(), 1200.0);
    }

    #[test]
    fn what_happens_beside_the_answer_makes_others_wait_only() {
        let mut aside = event(1.0, 1000.0, 0.0);
        aside.path = Path::Aside;
        let both = station(1, vec![event(1.0, 1000.0, 0.0), aside]);
        near(both.response_us(0.0).unwrap(), 1000.0);
        near(both.busy(250.0), 0.5);
    }
}
