//! The search: Levenberg's and Marquardt's method on the logarithms of the parameters, within bounds, with Broyden's derivatives.
//!
//! Loss: for each fitted row (ln(seen / printed) / ln(1 + tolerance))², and for each parameter (ln(value / first) / ln 2)². The second
//! part keeps a parameter that no row decides where it was; moving it by a factor of two costs as much as a row that is off by its
//! tolerance.
//!
//! A search is bounded by how often it asks for rows, not by time, so that it ends in the same place on every machine.
//!
//! Not known here: what the rows are. [`Problem`] gets them as a function, so that a test can give another.

use lab::generate::DecLike;

/// A parameter, and within which bounds it is looked for.
pub struct Parameter {
    /// As in [`DecLike`].
    pub name: &'static str,
    /// Reads it.
    pub get: fn(&DecLike) -> f64,
    /// Sets it.
    pub set: fn(&mut DecLike, f64),
    /// Lowest and highest.
    pub bounds: (f64, f64),
    /// Why these bounds; `None`: it is not fitted, only changed by `tenth`.
    pub why: Option<&'static str>,
}

macro_rules! parameter {
    ($field:ident, $low:expr, $high:expr, $why:expr) => {
        Parameter {
            name: stringify!($field),
            get: |like| like.$field,
            set: |like, value| like.$field = value,
            bounds: ($low, $high),
            why: $why,
        }
    };
    ($field:ident: u32, $low:expr, $high:expr, $why:expr) => {
        Parameter {
            name: stringify!($field),
            get: |like| f64::from(like.$field),
            set: |like, value| like.$field = value.round() as u32,
            bounds: ($low, $high),
            why: $why,
        }
    };
}

/// Where parameters are pulled to: what was taken from the literature, or chosen, before the figures were looked at.
pub fn first() -> DecLike {
    DecLike {
        again: 0.285,
        popular: 0.222,
        changed: 0.2,
        size_median: 3_090.0,
        size_spread: 0.9,
        images_max: 4.0,
        image_shared: 0.1,
        clients: 100,
        stays: 0.7,
        new_server: 0.5,
        popular_slope: 0.85,
        popular_pages: 100_000,
        back_max: 400_000,
        large: 0.007,
        ..DecLike::default()
    }
}

/// Where searches begin. There are several, since between the places where the figures fall there is no slope to follow.
pub fn starts() -> [DecLike; 5] {
    let from = |changed,
                images_max,
                [again, popular, size_median]: [f64; 3],
                [clients, slope, stays]: [f64; 3]| DecLike {
        changed,
        images_max,
        again,
        popular,
        size_median,
        clients: clients as u32,
        popular_slope: slope,
        stays,
        ..first()
    };
    let usual = [100.0, 0.85, 0.7];
    [
        first(),
        from(0.24, 6.0, [0.3, 0.25, 3050.0], usual),
        from(0.28, 8.0, [0.315, 0.285, 3000.0], usual),
        from(0.33, 10.0, [0.33, 0.33, 2850.0], [80.0, 0.85, 0.7]),
        from(0.313, 10.0, [0.322, 0.308, 3080.0], [140.0, 0.8, 0.6]),
    ]
}

/// What is fitted, and what else the stream depends on.
#[rustfmt::skip]
pub const PARAMETERS: [Parameter; 14] = [
    parameter!(again, 0.05, 0.5, Some("a share; half of all visits at most")),
    parameter!(popular, 0.05, 0.45, Some("a share; with `again` below 1")),
    parameter!(size_median, 2_000.0, 4_500.0, Some("section 3.2: 3 KB, of another proxy; half as much more, a third less")),
    parameter!(changed, 0.01, 0.35, Some("BU: a third of the repeated requests find another size")),
    parameter!(images_max, 2.0, 16.0, Some("one to eight images a page in the mean")),
    parameter!(clients: u32, 30.0, 290.0, Some("section 3.6: hundreds of KB between a client's objects; 3.5 KB a get are written")),
    parameter!(popular_slope, 0.6, 0.95, Some("objects' slope of proxies: 0.64 to 0.83 (Breslau 1999)")),
    parameter!(stays, 0.3, 0.95, Some("about 5 to 80 objects a server (BU: 20)")),
    parameter!(new_server, 0.2, 0.95, None),
    parameter!(image_shared, 0.02, 0.4, None),
    parameter!(popular_pages: u32, 30_000.0, 300_000.0, None),
    parameter!(back_max: u32, 100_000.0, 1_000_000.0, None),
    parameter!(size_spread, 0.7, 1.4, None),
    parameter!(large, 0.002, 0.02, None),
];

/// A row of the loss: how far off, in tolerances.
pub type Residuals = Vec<f64>;

/// Sum of squares.
pub fn loss(residuals: &[f64]) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

/// Derivatives are taken over this step of a logarithm: large against what seeds differ by.
const STEP: f64 = 0.08;
/// No parameter changes by more than this in one step of the search.
const STRIDE_MAX: f64 = 0.25;
/// So many steps in a row that gain nothing: the derivatives are taken anew, or the search ends.
const FAILURES_MAX: usize = 3;
/// Of the loss: a step to no less than this gains next to nothing.
const WORTH_IT: f64 = 0.99;
/// With derivatives that were just taken.
const DAMPING: f64 = 0.1;

/// What is to be made small: rows and pulls, as functions of the parameters' logarithms.
pub struct Problem<F> {
    off: F,
    bounds: Vec<(f64, f64)>,
    first: Vec<f64>,
    /// How often `off` was asked.
    calls: usize,
}

impl<F: FnMut(&[f64]) -> Residuals> Problem<F> {
    /// `off` says how far off each row is; parameters stay within `bounds` and are pulled to `first`.
    pub fn new(off: F, bounds: Vec<(f64, f64)>, first: Vec<f64>) -> Problem<F> {
        Problem {
            off,
            bounds,
            first,
            calls: 0,
        }
    }

    /// Rows, then parameters.
    fn residuals(&mut self, x: &[f64]) -> Residuals {
        self.calls += 1;
        let mut all = (self.off)(x);
        let moved = x.iter().zip(&self.first);
        all.extend(moved.map(|(x, first)| (x - first) / std::f64::consts::LN_2));
        all
    }

    fn next(&self, x: &[f64], step: &[f64]) -> Vec<f64> {
        let bounded = |at: usize| {
            let (low, high) = self.bounds[at];
            (x[at] + step[at].clamp(-STRIDE_MAX, STRIDE_MAX)).clamp(low, high)
        };
        (0..x.len()).map(bounded).collect()
    }

    /// By parameter: how each residual changes.
    fn slopes(&mut self, x: &[f64], here: &[f64]) -> Vec<Vec<f64>> {
        (0..x.len())
            .map(|at| {
                let mut next = x.to_vec();
                // Away from the nearer bound.
                let (low, high) = self.bounds[at];
                let step = if high - x[at] > x[at] - low {
                    STEP
                } else {
                    -STEP
                };
                next[at] += step;
                let there = self.residuals(&next);
                let change = there.iter().zip(here);
                change.map(|(a, b)| (a - b) / step).collect()
            })
            .collect()
    }
}

/// A search that can be gone on with: where it is, and what it knows of the slopes there.
///
/// Derivatives are taken once, kept up by Broyden's rule with what each step found, and taken anew when steps gain nothing any more; if
/// even those help nothing, the search has ended.
pub struct Search {
    x: Vec<f64>,
    /// Empty before the first call.
    here: Residuals,
    /// Empty if they have to be taken.
    slopes: Vec<Vec<f64>>,
    damping: f64,
    failures: usize,
    /// Nothing was gained since the derivatives were taken.
    fresh: bool,
    ended: bool,
}

impl Search {
    /// Begins at `x`.
    pub fn at(x: Vec<f64>) -> Search {
        Search {
            x,
            here: Vec::new(),
            slopes: Vec::new(),
            damping: DAMPING,
            failures: 0,
            fresh: true,
            ended: false,
        }
    }

    /// Where it is.
    pub fn x(&self) -> &[f64] {
        &self.x
    }

    /// The loss there; infinite before the first call.
    pub fn loss(&self) -> f64 {
        if self.here.is_empty() {
            f64::INFINITY
        } else {
            loss(&self.here)
        }
    }

    /// Goes on for at most so many calls of the problem. `tell` hears of each step that gains.
    pub fn go_on<F: FnMut(&[f64]) -> Residuals>(
        &mut self,
        problem: &mut Problem<F>,
        calls: usize,
        mut tell: impl FnMut(f64, &[f64]),
    ) {
        let end = problem.calls + calls;
        while !self.ended && problem.calls < end {
            if self.here.is_empty() {
                self.here = problem.residuals(&self.x);
                tell(self.loss(), &self.x);
            } else if self.slopes.is_empty() {
                if problem.calls + self.x.len() > end {
                    break;
                }
                self.slopes = problem.slopes(&self.x, &self.here);
                (self.damping, self.failures, self.fresh) = (DAMPING, 0, true);
            } else if self.step(problem) {
                tell(self.loss(), &self.x);
            }
        }
    }

    /// Whether it gained.
    fn step<F: FnMut(&[f64]) -> Residuals>(&mut self, problem: &mut Problem<F>) -> bool {
        let step = solve(&self.slopes, &self.here, self.damping);
        let next = problem.next(&self.x, &step);
        let there = problem.residuals(&next);
        broyden(&mut self.slopes, (&self.x, &self.here), (&next, &there));
        let before = self.loss();
        let gains = loss(&there) < before;
        if gains {
            (self.x, self.here) = (next, there);
            self.damping = (self.damping / 4.0).max(1e-3);
        } else {
            self.damping *= 4.0;
        }
        if self.loss() < WORTH_IT * before {
            (self.failures, self.fresh) = (0, false);
        } else {
            self.failures += 1;
        }
        if self.failures == FAILURES_MAX {
            self.ended = self.fresh;
            self.slopes.clear();
        }
        gains
    }
}

/// Changes the derivatives as little as is needed for them to tell what the step from `x` to `next` did.
fn broyden(slopes: &mut [Vec<f64>], (x, here): (&[f64], &[f64]), (next, there): (&[f64], &[f64])) {
    let step: Vec<f64> = next.iter().zip(x).map(|(a, b)| a - b).collect();
    let length: f64 = step.iter().map(|s| s * s).sum();
    if length == 0.0 {
        return;
    }
    for row in 0..here.len() {
        let told: f64 = step.iter().zip(&*slopes).map(|(s, by)| s * by[row]).sum();
        let missing = there[row] - here[row] - told;
        for (by, s) in slopes.iter_mut().zip(&step) {
            by[row] += missing * s / length;
        }
    }
}

/// The step that makes the linearised residuals smallest: (JᵀJ + damping diag JᵀJ) step = -Jᵀr.
fn solve(slopes: &[Vec<f64>], here: &[f64], damping: f64) -> Vec<f64> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let size = slopes.len();
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|i| {
            let mut row: Vec<f64> = (0..size).map(|j| dot(&slopes[i], &slopes[j])).collect();
            row[i] *= 1.0 + damping;
            row.push(-dot(&slopes[i], here));
            row
        })
        .collect();
    // Gauss and Jordan; the matrix is positive definite, since each parameter has a residual of its own.
    for i in 0..size {
        let pivot = rows[i].clone();
        for (j, row) in rows.iter_mut().enumerate() {
            if j != i {
                let factor = row[i] / pivot[i];
                for (a, b) in row.iter_mut().zip(&pivot) {
                    *a -= factor * b;
                }
            }
        }
    }
    (0..size).map(|i| rows[i][size] / rows[i][i]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curved_valley_is_followed_to_its_end_within_bounds() {
        let search = |high: f64| {
            // Rosenbrock's, whose least is at (1, 1).
            let off = |x: &[f64]| vec![100.0 * (x[1] - x[0] * x[0]), 10.0 * (1.0 - x[0])];
            let bounds = vec![(-3.0, high), (-3.0, 3.0)];
            let mut problem = Problem::new(off, bounds, vec![-1.2, 1.0]);
            let mut search = Search::at(vec![-1.2, 1.0]);
            search.go_on(&mut problem, 100, |_, _| ());
            search.x
        };
        let free = search(3.0);
        assert!(
            (free[0] - 1.0).abs() < 0.1 && (free[1] - 1.0).abs() < 0.2,
            "{free:?}"
        );
        let bounded = search(0.5);
        assert!(
            bounded[0] <= 0.5 && (bounded[1] - 0.25).abs() < 0.1,
            "{bounded:?}"
        );
    }

    #[test]
    fn a_search_asks_no_more_than_it_may_and_goes_on_where_it_was() {
        let off = |x: &[f64]| vec![100.0 * (x[1] - x[0] * x[0]), 10.0 * (1.0 - x[0])];
        let problem = || Problem::new(off, vec![(-3.0, 3.0); 2], vec![-1.2, 1.0]);
        let (mut whole, mut parts) = (problem(), problem());
        let (mut once, mut often) = (Search::at(vec![-1.2, 1.0]), Search::at(vec![-1.2, 1.0]));
        once.go_on(&mut whole, 33, |_, _| ());
        for _ in 0..11 {
            let before = parts.calls;
            often.go_on(&mut parts, 3, |_, _| ());
            assert!(parts.calls - before <= 3, "{} calls", parts.calls - before);
        }
        assert_eq!(whole.calls, 33);
        // Where derivatives did not fit into a part they were taken in the next, so the parts may be a step behind, on the same way.
        let mut steps = Vec::new();
        let mut again = problem();
        Search::at(vec![-1.2, 1.0]).go_on(&mut again, 33, |_, x| steps.push(x.to_vec()));
        assert!(steps.contains(&often.x), "{:?} {steps:?}", often.x);
        assert_eq!(once.x, steps[steps.len() - 1]);
        assert!(often.loss() <= loss(&problem().residuals(&[-1.2, 1.0])));
    }

    #[test]
    fn parameters_are_read_where_they_are_written_and_begin_within_bounds() {
        let like = first();
        for parameter in &PARAMETERS {
            let mut other = like;
            (parameter.set)(&mut other, parameter.bounds.1);
            assert_ne!(other, like, "{}", parameter.name);
            assert_eq!(
                (parameter.get)(&other),
                parameter.bounds.1,
                "{}",
                parameter.name
            );
            let begin = (parameter.get)(&like);
            assert!(
                (parameter.bounds.0..=parameter.bounds.1).contains(&begin),
                "{}",
                parameter.name
            );
        }
    }
}
