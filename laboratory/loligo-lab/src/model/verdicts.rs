//! The results of the model in words: the paper's claims, and where a front pays for Loligo.

use lab::paper::report::{Curve, Curves, Rows, Scale, Section};
use queueing::Parameter;
use queueing::claims::{CLAIMS, Claim, claims as computed};
use queueing::fit::{POINTS, fit};
use queueing::own::Own;
use queueing::paper::Unprinted;
use queueing::pays::{Line, SIZES, Use, break_even, compare};

/// The claims with these costs, and with the costs that meet most of them.
pub fn claims(unprinted: &Unprinted) -> Vec<Section> {
    let (table, searched, (met, _)) = of_paper(unprinted);
    let judged = Section {
        name: "claims".to_owned(),
        title: "What the paper claims".to_owned(),
        text: vec![format!(
            "{met} of {CLAIMS} claims are met by these costs. About a printed number is within a tenth of it."
        )],
        tables: vec![table],
        plots: Vec::new(),
    };
    vec![judged, searched]
}

/// The claims with these costs, the costs that meet most of them, how many are met, and how many there are.
pub fn of_paper(unprinted: &Unprinted) -> (Rows, Section, (usize, usize)) {
    let found = computed(unprinted);
    let fitted = fit(unprinted);
    let met = found.iter().filter(|c| c.is_met()).count();
    let mut best = Rows::new(
        "Costs of the paper that it does not print",
        &["name", "here", "meets most", "from", "to", "what", "source"],
    );
    let values = unprinted.values().into_iter().zip(fitted.best.values());
    for (parameter, (here, best_value)) in Unprinted::TABLE.iter().zip(values) {
        best.row([
            parameter.name.to_owned(),
            number(here),
            number(best_value),
            number(parameter.low),
            number(parameter.high),
            parameter.what.to_owned(),
            parameter.source.to_owned(),
        ]);
    }
    let pairs = fitted.never_together.iter();
    let pairs: Vec<String> = pairs.map(|(a, b)| format!("{a} and {b}")).collect();
    let table = claims_table(
        "Claims of the paper, with these costs",
        &found,
        &fitted.met_by,
    );
    let searched = Section {
        name: "fit".to_owned(),
        title: "Which unprinted costs meet most claims".to_owned(),
        text: vec![
            format!(
                "Of {POINTS} sets of costs the best meets {} of {CLAIMS} claims. No set meets all, and none can: two fronts and four nodes \
                 are one front and two nodes twice, so to beat sixteen nodes one front must make two nodes four times as fast, not three; and a \
                 front at the price of a node that doubles four nodes adds 60 % for the price, not 40 %.",
                fitted.met()
            ),
            format!(
                "Met by some set each, by none together: {}.",
                pairs.join("; ")
            ),
        ],
        tables: vec![best],
        plots: Vec::new(),
    };
    (table, searched, (met, CLAIMS))
}

fn claims_table(caption: &str, found: &[Claim; CLAIMS], met_by: &[usize; CLAIMS]) -> Rows {
    let columns = [
        "claim",
        "where",
        "the paper says",
        "wanted",
        "found",
        "verdict",
        "met by sets",
    ];
    let mut rows = Rows::new(caption, &columns);
    for (claim, sets) in found.iter().zip(met_by) {
        rows.row([
            claim.name.to_owned(),
            claim.place.to_owned(),
            claim.says.to_owned(),
            wanted(claim),
            format!("{:.2}", claim.found),
            if claim.is_met() { "met" } else { "not met" }.to_owned(),
            format!("{sets} of {POINTS}"),
        ]);
    }
    rows
}

fn wanted(claim: &Claim) -> String {
    match claim.printed {
        Some(printed) => format!("about {printed}"),
        None if claim.high.is_finite() => format!("at most {:.2}", claim.high),
        None => format!("above {:.2}", claim.low),
    }
}

/// A way to use machines, and its part of a comparison.
type Way = (&'static str, fn(&Line) -> &Use);

/// The machines used in four ways, where a front pays, and the costs behind that.
pub fn fronts(own: &Own) -> Vec<Section> {
    let lines: Vec<Line> = SIZES
        .iter()
        .map(|&machines| compare(own, machines))
        .collect();
    let mut rates = Rows::new(
        "Capacity of the same machines",
        &[
            "machines",
            "apart (requests/s)",
            "hashing (requests/s)",
            "fronts (requests/s)",
            "equals (requests/s)",
            "fronts + nodes",
            "fronts, first busy",
            "origin, apart (%)",
            "origin, the others (%)",
        ],
    );
    for line in &lines {
        rates.row([
            line.machines.to_string(),
            format!("{:.0}", line.apart.rate),
            format!("{:.0}", line.hashing.rate),
            format!("{:.0}", line.fronts.rate),
            format!("{:.0}", line.equals.rate),
            format!("{} + {}", line.fronts.fronts, line.fronts.nodes),
            line.fronts.bottleneck.to_owned(),
            format!("{:.1}", 100.0 * line.apart.to_origin),
            format!("{:.1}", 100.0 * line.equals.to_origin),
        ]);
    }
    let ways: [Way; 4] = [
        ("apart", |line| &line.apart),
        ("hashing", |line| &line.hashing),
        ("fronts", |line| &line.fronts),
        ("equals", |line| &line.equals),
    ];
    let curve = |(name, of): &Way| Curve {
        name: (*name).to_owned(),
        printed: false,
        points: lines
            .iter()
            .map(|line| (f64::from(line.machines), of(line).rate))
            .collect(),
    };
    let compared = Section {
        name: "fronts".to_owned(),
        title: "Loligo's own costs: the same machines in four ways".to_owned(),
        text: vec![
            "Apart: a store for each node, requests dealt by connections. Hashing: HTTP balancers that give each URL to one node. Fronts: \
             fronts that know what nodes hold. Equals: nodes that know what the others hold. The first holds less, because the same object is in many stores; \
             the other three hold as much as one large store. Of the splits into fronts and nodes the best for the price is shown."
                .to_owned(),
        ],
        tables: vec![rates],
        plots: vec![Curves {
            caption: "Capacity of the same machines".to_owned(),
            x: Scale::linear("machines"),
            y: Scale::linear("requests/s"),
            curves: ways.iter().map(curve).collect(),
            ..Curves::default()
        }],
    };
    vec![compared, pays(own), costs(own)]
}

/// The number of machines for which the price is computed.
const MACHINES: u32 = 8;

/// The highest price at which a front pays, by the mix of requests.
fn pays(own: &Own) -> Section {
    let mut rows = Rows::new(
        "Most that a front may cost, in prices of a node (8 machines, against equals)",
        &[
            "uncachable (%)",
            "10 % hits",
            "30 % hits",
            "50 % hits",
            "70 % hits",
            "90 % hits",
        ],
    );
    for uncachable in [0.0, 0.2, 0.4, 0.6, 0.8] {
        let prices = [0.1, 0.3, 0.5, 0.7, 0.9].map(|hit| {
            let own = Own {
                uncachable,
                hit,
                ..*own
            };
            match (own.check(), break_even(&own, MACHINES)) {
                (Err(_), _) => String::new(),
                (Ok(()), Some(price)) => format!("{price:.2}"),
                (Ok(()), None) => "never".to_owned(),
            }
        });
        rows.row(std::iter::once(format!("{:.0}", 100.0 * uncachable)).chain(prices));
    }
    Section {
        name: "pays".to_owned(),
        title: "Where a front pays".to_owned(),
        text: advice(own),
        tables: vec![rows],
        plots: Vec::new(),
    }
}

fn advice(own: &Own) -> Vec<String> {
    let line = compare(own, MACHINES);
    let share = |rate: f64, of: f64| format!("{:.0} %", 100.0 * rate / of);
    let mut text = vec![format!(
        "With these costs {MACHINES} machines as fronts and nodes ({} + {}) carry {} of what {MACHINES} equals carry, {} of what a hashing balancer \
         carries, and {} of what nodes with stores apart carry; the latter send {:.1} % of the requests to the origin, the others {:.1} %.",
        line.fronts.fronts,
        line.fronts.nodes,
        share(line.fronts.rate, line.equals.rate),
        share(line.fronts.rate, line.hashing.rate),
        share(line.fronts.rate, line.apart.rate),
        100.0 * line.apart.to_origin,
        100.0 * line.equals.to_origin,
    )];
    text.push(match break_even(own, MACHINES) {
        Some(price) if price >= own.front_price => format!(
            "A front pays against equals as long as it costs at most {price:.2} of a node; here it costs {:.2}.",
            own.front_price
        ),
        Some(price) => format!(
            "A front would pay against equals if it cost at most {price:.2} of a node; here it costs {:.2}.",
            own.front_price
        ),
        None => "A front does not pay against equals, even if it costs nothing.".to_owned(),
    });
    text
}

fn costs(own: &Own) -> Section {
    let mut rows = Rows::new(
        "Loligo's costs and requests",
        &[
            "name",
            "here",
            "from",
            "to",
            "what",
            "source of the default",
        ],
    );
    for (parameter, here) in Own::TABLE.iter().zip(own.values()) {
        rows.row([
            parameter.name.to_owned(),
            number(here) + changed(parameter, here),
            number(parameter.low),
            number(parameter.high),
            parameter.what.to_owned(),
            parameter.source.to_owned(),
        ]);
    }
    Section {
        name: "costs".to_owned(),
        title: "The costs behind it".to_owned(),
        text: vec!["A star marks what was set. The rest are defaults.".to_owned()],
        tables: vec![rows],
        plots: Vec::new(),
    }
}

fn changed(parameter: &Parameter, here: f64) -> &'static str {
    if here == parameter.default { "" } else { " *" }
}

/// The shortest text for the number.
fn number(value: f64) -> String {
    format!("{value}")
}
