//! Tests of what a chart shows, and where.

use super::*;
use crate::Page;

fn html(chart: &Chart) -> String {
    let mut out = String::new();
    chart.html(&mut out);
    out
}

fn chart() -> Chart {
    Chart::new("figure-1", "Title", Axis::linear("x"), Axis::linear("y"))
}

fn spots(values: &[f64]) -> Vec<Spot> {
    let numbered = values.iter().enumerate();
    numbered.map(|(n, &y)| Spot::new(n as f64, y)).collect()
}

/// The texts at the ticks of a drawing.
fn ticks(svg: &str) -> Vec<&str> {
    let ends = svg.split("text-anchor=\"end\">").skip(1);
    ends.filter_map(|rest| rest.split('<').next()).collect()
}

#[test]
fn curves_break_at_gaps_and_weak_points_are_hollow() {
    let mut points = spots(&[1.0, 2.0, f64::NAN, 3.0, 4.0, 2.0, 1.0]);
    points[5].is_weak = true;
    let html = html(&chart().with(Panel::new("").curve(Curve::line("c", 0, vec![points]))));
    assert_eq!(html.matches("<polyline").count(), 2);
    assert_eq!(html.matches("class=\"hollow").count(), 1);
    assert_eq!(
        html.matches("class=\"dot").count(),
        1,
        "the last stands alone"
    );
}

#[test]
fn panels_share_a_scale_unless_told() {
    let two = |own| {
        let panel = |top| Panel::new("p").curve(Curve::line("c", 0, vec![spots(&[1.0, top])]));
        html(
            &chart()
                .own_scales(own)
                .with(panel(10.0))
                .with(panel(1000.0)),
        )
    };
    let shared = two(false);
    let svgs: Vec<&str> = shared.split("<svg class=\"chart\"").skip(1).collect();
    assert_eq!(ticks(svgs[0]), ticks(svgs[1]));
    let own = two(true);
    let svgs: Vec<&str> = own.split("<svg class=\"chart\"").skip(1).collect();
    assert!(ticks(svgs[0]).contains(&"10") && !ticks(svgs[1]).contains(&"10"));
}

#[test]
fn every_statistic_is_a_layer_with_its_own_axis() {
    let curve = Curve::line("c", 1, vec![spots(&[1.0, 2.0]), spots(&[100.0, 200.0])]);
    let html = html(
        &chart()
            .statistics(&["p50", "p99"])
            .with(Panel::new("").curve(curve)),
    );
    assert!(html.contains("data-choices=\"p50|p99\""));
    let (first, second) = html.split_once("class=\"layer y1\"").unwrap();
    assert!(ticks(first).contains(&"2") && ticks(second).contains(&"200"));
    assert!(html.contains("\nc: p50 2, p99 200</title>"), "{html}");
}

#[test]
fn areas_stand_on_each_other() {
    let panel = Panel::new("")
        .curve(Curve::area("a", 0, vec![spots(&[40.0, 40.0])]))
        .curve(Curve::area("b", 1, vec![spots(&[60.0, 60.0])]));
    let html = html(&chart().with(panel));
    let polygons: Vec<&str> = html.split("points=\"").skip(1).collect();
    let heights = |polygon: &str| -> Vec<String> {
        let pairs = polygon
            .split('"')
            .next()
            .unwrap()
            .split(' ')
            .filter(|p| !p.is_empty());
        pairs
            .map(|pair| pair.split_once(',').unwrap().1.to_owned())
            .collect()
    };
    let (lower, upper) = (heights(polygons[0]), heights(polygons[1]));
    assert_eq!(
        lower[0], upper[2],
        "the foot of the upper one is the top of the lower"
    );
    assert_eq!(upper[0], "12.0", "100 is the top");
}

#[test]
fn what_cannot_be_drawn_says_so() {
    let html = html(&chart().with(Panel::new("squid").without("not recorded by <this> source")));
    assert!(html.contains("not recorded by &lt;this&gt; source"));
    assert!(!html.contains("<svg class=\"chart\""));
}

#[test]
fn a_figure_has_anchor_alternative_remarks_and_table() {
    let mut table = Table::new("p", &["x", "c"]);
    table.row(["0".to_owned(), "1".to_owned()]);
    let chart = chart()
        .alternative("Curves \"of\" time")
        .with(
            Panel::new("leaf")
                .colour(2)
                .curve(Curve::line("c", 0, vec![spots(&[1.0])])),
        )
        .remark("The paper saw", "less")
        .table(table);
    let mut page = Page::new("t");
    page.chart(&chart).with_contents();
    let html = page.html();
    for part in [
        "id=\"figure-1\"",
        "<a href=\"#figure-1\">Title</a>",
        "role=\"img\" aria-label=\"Curves &quot;of&quot; time, leaf\"",
        "<dt>The paper saw</dt><dd>less</dd>",
        "<details><summary>The numbers</summary>",
        "swatch c2",
    ] {
        assert!(html.contains(part), "{part} in {html}");
    }
    for outside in ["http://", "https://", "@import", "src=", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(html.matches("<script>").count(), 1);
}

#[test]
fn only_pages_with_charts_have_their_style_and_script() {
    let html = Page::new("t").html();
    assert!(!html.contains("<script") && !html.contains(".panels") && !html.contains("charts"));
}

#[test]
fn counts_have_an_axis_of_their_own() {
    let panel = Panel::new("")
        .curve(Curve::line("c", 0, vec![spots(&[1.0, 2.0])]))
        .counts(vec![(0.0, 5000.0), (1.0, 20_000.0)]);
    let html = html(&chart().with(panel));
    assert_eq!(html.matches("class=\"count\"").count(), 2);
    assert!(html.contains(">20k</text>"), "{html}");
}

#[test]
fn nothing_foreign_breaks_a_drawing() {
    let wild = [f64::NAN, f64::INFINITY, -1e300, 1e300, 0.0].map(|y| Spot::new(y, y));
    for axis in [
        Axis::linear("y"),
        Axis::log("y"),
        Axis::bytes("y"),
        Axis::utc("y"),
        Axis::spread("y"),
    ] {
        let panel = Panel::new("")
            .curve(Curve::line("c", 99, vec![wild.to_vec()]))
            .bands(vec![(f64::NAN, 1.0)]);
        let html = html(&Chart::new("f", "t", axis.clone(), axis).with(panel));
        assert!(!html.contains("NaN") && !html.contains("inf"), "{html}");
    }
}

#[test]
fn a_chart_is_a_file_of_its_own() {
    let panel = |name: &str| {
        Panel::new(name)
            .colour(1)
            .curve(Curve::line(
                "a",
                0,
                vec![spots(&[1.0, 2.0]), spots(&[7.0, 8.0])],
            ))
            .curve(Curve::area("b", 1, vec![spots(&[1.0, 2.0])]))
    };
    let chart = chart()
        .statistics(&["p50", "p99"])
        .with(panel("leaf"))
        .with(Panel::new("squid").without("not <recorded>"));
    let mut page = Page::new("t");
    let files = page.chart(&chart).svg_files();
    assert_eq!(files[0].0, "figure-1.svg");
    let svg = &files[0].1;
    assert_eq!(svg.matches("<svg").count(), svg.matches("</svg>").count());
    assert!(!svg.contains("class=\"layer"), "only the first statistic");
    for part in [
        "not &lt;recorded&gt;",
        ">leaf</text>",
        ">Title</text>",
        "class=\"box c1 area\"",
        "--ink:",
    ] {
        assert!(svg.contains(part), "{part} in {svg}");
    }
}

#[test]
fn different_days_side_by_side_have_axes_of_their_own() {
    let panel = |from: f64| {
        let spots = [from, from + 3600.0].map(|x| Spot::new(x, 1.0)).to_vec();
        Panel::new("p").curve(Curve::line("c", 0, vec![spots]))
    };
    let two = |second: f64| {
        let chart = Chart::new("f", "t", Axis::utc("x"), Axis::linear("y"));
        html(&chart.with(panel(0.0)).with(panel(second)))
    };
    let lines = |html: &str| -> Vec<String> {
        let curves = html.split("class=\"curve c0\" points=\"").skip(1);
        curves
            .map(|rest| rest.split('"').next().unwrap().to_owned())
            .collect()
    };
    let apart = lines(&two(10.0 * 86_400.0));
    assert_eq!(apart[0], apart[1], "each fills its own axis");
    let near = lines(&two(600.0));
    assert_ne!(near[0], near[1], "one axis for both");
}
