//! The rows of request counters: by listener, and for a reverse listener by origin.
//!
//! Only the origins of routes are counted, since clients can name any number of origins. Rows are numbered when the
//! configuration is loaded, so a request costs one array look-up. Two routes of a listener to one origin share a row. A label keeps its
//! row as long as the process lives.
//!
//! Limits: [`ROWS_MAX`] rows for origins, and one row with `origin` = `other` for each of [`LISTENERS_MAX`] listeners, for all their
//! other requests. The last row counts requests for which no row is left.

use std::sync::{Mutex, MutexGuard, PoisonError};

use plan::{Listener, Plan, Role};

/// The most pairs of a listener and an origin; further origins are `other`.
const ROWS_MAX: usize = 256;
/// The most listeners that are counted, including those that reloads have removed; further ones share the last row.
const LISTENERS_MAX: usize = 2 * Plan::LISTENERS_MAX;
/// The number of rows in a set of counters.
pub const COUNTED_MAX: usize = ROWS_MAX + LISTENERS_MAX + 1;

/// The label of requests without a counted route.
const OTHER: &str = "other";

/// The label of a row that counts nothing yet.
const UNUSED: &str = "";

/// The labels of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// The listener's address.
    pub listener: String,
    /// An origin of a route, or `other`.
    pub origin: String,
}

/// The rows of one listener.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    own: usize,
    routes: Box<[usize]>,
}

impl Rows {
    /// The row of a request with this route.
    #[inline]
    pub fn of(&self, route: Option<usize>) -> usize {
        route
            .and_then(|route| self.routes.get(route))
            .copied()
            .unwrap_or(self.own)
    }
}

/// The labels of all rows used since the start. A row keeps its label, so that counters never fall.
#[derive(Debug, Default)]
pub struct Labels(Mutex<Vec<Label>>);

impl Labels {
    /// The rows of each listener of a configuration.
    pub fn rows(&self, listeners: &[Listener]) -> Vec<Rows> {
        rows(&mut self.labels(), listeners)
    }

    /// The label of each row.
    pub fn all(&self) -> Vec<Label> {
        let mut all = self.labels().clone();
        if !has_room_for_a_listener(&all) {
            let unused = Label {
                listener: UNUSED.to_owned(),
                origin: UNUSED.to_owned(),
            };
            all.resize(COUNTED_MAX - 1, unused);
            all.push(Label {
                listener: OTHER.to_owned(),
                origin: OTHER.to_owned(),
            });
        }
        all
    }

    fn labels(&self) -> MutexGuard<'_, Vec<Label>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn has_room_for_an_origin(labels: &[Label]) -> bool {
    labels.iter().filter(|label| label.origin != OTHER).count() < ROWS_MAX
}

fn has_room_for_a_listener(labels: &[Label]) -> bool {
    labels.iter().filter(|label| label.origin == OTHER).count() < LISTENERS_MAX
}

fn rows(labels: &mut Vec<Label>, listeners: &[Listener]) -> Vec<Rows> {
    let rows = listeners.iter().map(|listener| {
        let name = listener.address.to_string();
        let mut row = |origin: &str, has_room: fn(&[Label]) -> bool| {
            let label = Label {
                listener: name.clone(),
                origin: origin.to_owned(),
            };
            let known = labels.iter().position(|known| *known == label);
            known.or_else(|| {
                has_room(labels).then(|| {
                    labels.push(label);
                    labels.len() - 1
                })
            })
        };
        let own = row(OTHER, has_room_for_a_listener).unwrap_or(COUNTED_MAX - 1);
        let routes = match &listener.role {
            Role::Forward(_) => &[][..],
            Role::Reverse(routes) => routes,
        };
        let routes = routes.iter().map(|route| {
            let origin = route.origin_name();
            row(&origin, has_room_for_an_origin).unwrap_or(own)
        });
        Rows {
            own,
            routes: routes.collect(),
        }
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{OriginUrl, Route};

    fn reverse(port: u16, origins: impl IntoIterator<Item = usize>) -> Listener {
        let routes = origins.into_iter().map(|n| {
            Route::everything_to(OriginUrl {
                tls: false,
                host: format!("o{n}"),
                port: 80,
                path: String::new(),
            })
        });
        let mut listener = Listener::forward(([127, 0, 0, 1], port).into(), Vec::new());
        listener.role = Role::Reverse(routes.collect());
        listener
    }

    #[test]
    fn routes_to_one_origin_share_a_row_and_a_listener_has_its_own() {
        let forward = Listener::forward(([127, 0, 0, 1], 1).into(), Vec::new());
        let known = Labels::default();
        let listeners = [forward, reverse(2, [1, 2, 1]), reverse(3, [1])];
        let rows = known.rows(&listeners);
        let labels = known.all();
        let labels: Vec<_> = labels
            .iter()
            .map(|l| format!("{} {}", l.listener, l.origin))
            .collect();
        assert_eq!(
            labels,
            [
                "127.0.0.1:1 other",
                "127.0.0.1:2 other",
                "127.0.0.1:2 http://o1",
                "127.0.0.1:2 http://o2",
                "127.0.0.1:3 other",
                "127.0.0.1:3 http://o1",
            ]
        );
        assert_eq!((rows[0].of(None), rows[0].of(Some(7))), (0, 0));
        let second = [None, Some(0), Some(1), Some(2)].map(|route| rows[1].of(route));
        assert_eq!(second, [1, 2, 3, 2]);
        assert_eq!(rows[2].of(Some(0)), 5);
    }

    #[test]
    fn more_origins_than_rows_are_other() {
        let known = Labels::default();
        let rows = known.rows(&[reverse(1, 0..1000), reverse(2, 0..1)]);
        let labels = known.all();
        assert_eq!(labels.len(), ROWS_MAX + 2);
        assert_eq!(rows[0].of(Some(ROWS_MAX)), 0);
        assert_eq!(rows[1].of(Some(0)), labels.len() - 1);
    }

    #[test]
    fn a_row_stays_with_its_label_and_too_many_listeners_share_one() {
        let known = Labels::default();
        let before = known.rows(&[reverse(1, [1, 2])]);
        let after = known.rows(&[reverse(2, [1]), reverse(1, [2, 3])]);
        assert_eq!(after[1].of(None), before[0].of(None));
        assert_eq!(after[1].of(Some(0)), before[0].of(Some(1)));
        assert_eq!(after[0].of(None), 3);
        for port in 3..1000 {
            let rows = known.rows(&[reverse(port, [1])]);
            assert!(rows[0].of(Some(0)) < COUNTED_MAX);
        }
        let labels = known.all();
        assert_eq!(labels.len(), COUNTED_MAX);
        let last = &labels[COUNTED_MAX - 1];
        assert_eq!((&*last.listener, &*last.origin), (OTHER, OTHER));
        let rows = known.rows(&[reverse(2000, [])]);
        assert_eq!(rows[0].of(None), COUNTED_MAX - 1);
    }
}
