//! Figures 4 to 7 of paper 003, drawn with the paper's costs or with Loligo's.
//!
//! Our copy of the paper has no plots. Figures that its text mentions are drawn beside ours, dashed.

use lab::paper::report::{Curve, Curves, Rows, Scale, Section};
use queueing::cluster::{Costs, Shape, network};
use queueing::own::Own;
use queueing::paper::{
    FASTER_FRONT_MHZ, FRONT_MHZ, FRONTS_MAX, MIX, NODES_MAX, Unprinted, hints, hints_with_memory,
    improvement, throughput,
};

/// Costs at the paper's two speeds of a front.
pub struct Speeds {
    usual: Costs,
    faster: Costs,
    is_paper: bool,
}

impl Speeds {
    /// The paper's costs, with values for those that it does not print.
    pub fn of_paper(unprinted: &Unprinted) -> Speeds {
        Speeds {
            usual: unprinted.costs(FRONT_MHZ),
            faster: unprinted.costs(FASTER_FRONT_MHZ),
            is_paper: true,
        }
    }

    /// Loligo's costs; the faster front is faster by the same factor as the paper's.
    pub fn of_own(own: &Own) -> Speeds {
        let usual = own.costs();
        let mut faster = usual;
        let front = &mut faster.front;
        for cost in [
            &mut front.pass_us,
            &mut front.miss_us,
            &mut front.memory_hit_us,
            &mut front.forward_us,
            &mut front.balance_us,
            &mut front.look_up_us,
            &mut front.push_us,
            &mut front.take_copy_us,
            &mut front.update_us,
        ] {
            *cost *= FRONT_MHZ / FASTER_FRONT_MHZ;
        }
        Speeds {
            usual,
            faster,
            is_paper: false,
        }
    }

    fn whose(&self) -> &'static str {
        if self.is_paper {
            "the paper's costs"
        } else {
            "Loligo's costs"
        }
    }

    /// The points of a plot that the paper's text mentions.
    fn printed(&self, name: &str, points: &[(f64, f64)]) -> Option<Curve> {
        self.is_paper.then(|| Curve {
            name: format!("{name}, paper"),
            printed: true,
            points: points.to_vec(),
        })
    }
}

/// The numbers of nodes in the tables; the plots have every number.
const TABLE_NODES: [u32; 7] = [1, 2, 3, 4, 8, 12, 16];

/// A curve's name, and its value for a number of nodes.
type Line<'a> = (String, Box<dyn Fn(u32) -> f64 + 'a>);

/// Adds the same lines to the section as a table and as a plot.
fn shown(
    section: &mut Section,
    caption: &str,
    unit: &str,
    lines: &[Line],
    printed: Vec<Option<Curve>>,
    digits: usize,
) {
    let names: Vec<&str> = std::iter::once("nodes")
        .chain(lines.iter().map(|(name, _)| name.as_str()))
        .collect();
    let mut rows = Rows::new(&format!("{caption} ({unit})"), &names);
    for nodes in TABLE_NODES {
        let values = lines.iter().map(|(_, f)| format!("{:.digits$}", f(nodes)));
        rows.row(std::iter::once(nodes.to_string()).chain(values));
    }
    let curve = |(name, f): &Line| Curve {
        name: name.clone(),
        printed: false,
        points: (1..=NODES_MAX).map(|n| (f64::from(n), f(n))).collect(),
    };
    section.tables.push(rows);
    section.plots.push(Curves {
        caption: caption.to_owned(),
        x: Scale::linear("nodes"),
        y: Scale::linear(unit),
        curves: lines
            .iter()
            .map(curve)
            .chain(printed.into_iter().flatten())
            .collect(),
        ..Curves::default()
    });
}

fn section(name: &str, title: &str, text: &[&str]) -> Section {
    Section {
        name: name.to_owned(),
        title: title.to_owned(),
        text: text.iter().map(|&t| t.to_owned()).collect(),
        ..Section::default()
    }
}

fn fronts_name(fronts: u32) -> String {
    match fronts {
        0 => "no front".to_owned(),
        1 => "1 front".to_owned(),
        n => format!("{n} fronts"),
    }
}

/// Throughput over nodes, a curve for each number of fronts.
pub fn figure4(speeds: &Speeds) -> Section {
    let mut section = section(
        "figure4",
        "Figure 4: throughput with fronts",
        &[
            "Capacity is the rate at which the busiest station has no idle time. Comfortable is the rate at which requests stay \
             twice as long in the stations as when there are no others.",
        ],
    );
    let lines = |comfortable: bool| -> Vec<Line<'_>> {
        (0..=FRONTS_MAX)
            .map(|fronts| -> Line<'_> {
                let rate = move |nodes| {
                    let network = network(&speeds.usual, &MIX, hints(fronts, nodes));
                    if comfortable {
                        network.comfortable()
                    } else {
                        network.capacity()
                    }
                };
                (fronts_name(fronts), Box::new(rate))
            })
            .collect()
    };
    let alone = |nodes| throughput(&speeds.usual, hints(0, nodes));
    let printed = vec![speeds.printed("1 front", &[(2.0, 3.0 * alone(2)), (4.0, 2.0 * alone(4))])];
    let capacity = format!("Capacity, {}", speeds.whose());
    shown(
        &mut section,
        &capacity,
        "requests/s",
        &lines(false),
        printed,
        0,
    );
    let comfortable = format!("Comfortable rate, {}", speeds.whose());
    shown(
        &mut section,
        &comfortable,
        "requests/s",
        &lines(true),
        Vec::new(),
        0,
    );
    section
}

/// What fronts gain for the price of the machines.
pub fn figure5(speeds: &Speeds) -> Section {
    let mut section = section(
        "figure5",
        "Figure 5: cost-performance with fronts",
        &["A front costs what a node costs."],
    );
    let speed = [("450 MHz", &speeds.usual), ("700 MHz", &speeds.faster)];
    let mut lines: Vec<Line> = Vec::new();
    for (mhz, costs) in speed {
        for fronts in [1, 2] {
            let gain = move |nodes| 100.0 * improvement(costs, fronts, nodes);
            lines.push((format!("{}, {mhz}", fronts_name(fronts)), Box::new(gain)));
        }
    }
    let printed = vec![speeds.printed("1 front, 450 MHz", &[(2.0, 60.0), (4.0, 40.0)])];
    let caption = format!("Gain in cost-performance, {}", speeds.whose());
    shown(&mut section, &caption, "%", &lines, printed, 1);
    section
}

/// Hints compared with redirecting uncachable requests.
pub fn figure6(speeds: &Speeds) -> Section {
    let mut section = section(
        "figure6",
        "Figure 6: hints against redirection",
        &[
            "Redirection answers at the front what cannot be cached, and hands over the rest without knowing whether it hits.",
        ],
    );
    let costs = &speeds.usual;
    let mut lines: Vec<Line> = Vec::new();
    for fronts in [1, 2] {
        let name = fronts_name(fronts);
        lines.push((
            format!("hints, {name}"),
            Box::new(move |nodes| throughput(costs, hints(fronts, nodes))),
        ));
        lines.push((
            format!("redirection, {name}"),
            Box::new(move |nodes| throughput(costs, Shape::Redirect { fronts, nodes })),
        ));
    }
    lines.push((
        "no front".to_owned(),
        Box::new(|nodes| throughput(costs, hints(0, nodes))),
    ));
    let caption = format!("Capacity, {}", speeds.whose());
    shown(&mut section, &caption, "requests/s", &lines, Vec::new(), 0);
    section
}

/// Fronts that answer a share of the hits from their own memory.
pub fn figure7(speeds: &Speeds) -> Section {
    let mut section = section(
        "figure7",
        "Figure 7: fronts that cache",
        &[
            "A node sends a copy of every fourth hit to a front that caches. What it costs to take that copy is not printed.",
        ],
    );
    let costs = &speeds.usual;
    let lines: Vec<Line> = [0.0, 0.25, 0.5, 0.75]
        .into_iter()
        .map(|share| -> Line {
            let rate = move |nodes| throughput(costs, hints_with_memory(1, nodes, share));
            let name = if share == 0.0 {
                "no cache".to_owned()
            } else {
                format!("{:.0} % of the hits", share * 100.0)
            };
            (name, Box::new(rate))
        })
        .collect();
    let caption = format!("Capacity with one front, {}", speeds.whose());
    shown(&mut section, &caption, "requests/s", &lines, Vec::new(), 0);
    section
}
