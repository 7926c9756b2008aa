//! The counters of a request: by listener, and on a reverse listener by origin.
//!
//! Only the origins of routes are counted, since clients can name any number of origins. The rows are numbered at the
//! start, so a request costs one array look-up. Two routes of a listener to one origin share a row.
//!
//! Limits: [`ROWS_MAX`] rows, and one for each listener with everything else: its `origin` is `other`.

use crate::plan::{Listener, Role};

/// The most pairs of a listener and an origin; further origins are `other`.
const ROWS_MAX: usize = 256;

/// The label of requests without a counted route.
const OTHER: &str = "other";

/// The labels of a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label {
    /// Its address.
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

/// The labels of each row, and the rows of each listener.
pub fn rows(listeners: &[Listener]) -> (Vec<Label>, Vec<Rows>) {
    let mut labels = Vec::new();
    let mut left = ROWS_MAX;
    let rows = listeners.iter().map(|listener| {
        let name = listener.address.to_string();
        let own = labels.len();
        let mut add = |origin: String| {
            labels.push(Label {
                listener: name.clone(),
                origin,
            });
            labels.len() - 1
        };
        add(OTHER.to_owned());
        let mut seen: Vec<(String, usize)> = Vec::new();
        let routes = match &listener.role {
            Role::Forward(_) => &[][..],
            Role::Reverse(routes) => routes,
        };
        let routes = routes.iter().map(|route| {
            let origin = route.origin.to_string();
            if let Some((_, row)) = seen.iter().find(|(known, _)| *known == origin) {
                return *row;
            }
            if left == 0 {
                return own;
            }
            left -= 1;
            let row = add(origin.clone());
            seen.push((origin, row));
            row
        });
        Rows {
            own,
            routes: routes.collect(),
        }
    });
    let rows = rows.collect();
    (labels, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{OriginUrl, Route};

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
        let (labels, rows) = rows(&[forward, reverse(2, [1, 2, 1]), reverse(3, [1])]);
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
        let (labels, rows) = rows(&[reverse(1, 0..1000), reverse(2, 0..1)]);
        assert_eq!(labels.len(), ROWS_MAX + 2);
        assert_eq!(rows[0].of(Some(ROWS_MAX)), 0);
        assert_eq!(rows[1].of(Some(0)), labels.len() - 1);
    }
}
