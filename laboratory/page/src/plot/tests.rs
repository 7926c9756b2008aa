//! Tests of what a plot shows, and where.

use super::*;

fn plot() -> Plot {
    Plot::new("t", Axis::linear("x"), Axis::log("y"))
}

#[test]
fn curves_begin_and_end_where_their_values_are() {
    let svg = plot()
        .with(Series::line("s", vec![(0.0, 1.0), (10.0, 100.0)]))
        .svg();
    let low = format!("{LEFT:.1},{:.1}", HEIGHT - BOTTOM);
    let high = format!("{:.1},{TOP:.1}", WIDTH - RIGHT);
    assert!(svg.contains(&format!("points=\"{low} {high} \"")), "{svg}");
}

#[test]
fn what_an_axis_cannot_show_is_left_out() {
    let svg = plot()
        .with(Series::points(
            "s",
            vec![(1.0, 0.0), (1.0, f64::NAN), (2.0, 5.0)],
        ))
        .svg();
    assert_eq!(svg.matches("class=\"point\" d=").count() - 1, 1);
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn marks_are_where_they_belong_or_not_at_all() {
    let svg = plot()
        .with(Series::line("s", vec![(1.0, 1.0), (100.0, 5.0)]))
        .mark(50.0, "half<way")
        .mark(9e9, "beyond")
        .svg();
    assert_eq!(svg.matches("class=\"mark\"").count(), 1);
    assert!(svg.contains(">half&lt;way</text>") && !svg.contains("beyond"));
}

#[test]
fn many_points_are_thinned() {
    let points = (0..POINTS_MAX * 3).map(|n| (n as f64, 1.0)).collect();
    let svg = plot().with(Series::points("s", points)).svg();
    assert_eq!(svg.matches("class=\"point\" d=").count() - 1, POINTS_MAX);
}

#[test]
fn bars_stand_side_by_side_under_names() {
    let svg = Plot::new("t", Axis::linear(""), Axis::linear("y"))
        .named(&["a<", "b"])
        .with(Series::bars("one", vec![(0.0, 1.0), (1.0, 2.0)]))
        .with(Series::bars("two", vec![(0.0, 3.0), (1.0, 4.0)]))
        .svg();
    assert!(svg.contains(">a&lt;</text>"));
    let lefts: Vec<f64> = svg
        .lines()
        .filter(|line| line.starts_with("<rect x=") && line.contains("<title>"))
        .filter_map(|line| line.split('"').nth(1)?.parse().ok())
        .collect();
    assert_eq!(lefts.len(), 4);
    assert!(
        lefts[0] < lefts[2] && lefts[2] < lefts[1] && lefts[1] < lefts[3],
        "{lefts:?}"
    );
}

#[test]
fn names_that_would_cover_each_other_are_turned() {
    let bars = |names: &[&str]| {
        let points = (0..names.len()).map(|n| (n as f64, 1.0)).collect();
        let plot = Plot::new("t", Axis::linear(""), Axis::linear("y"));
        plot.named(names).with(Series::bars("s", points)).body()
    };
    let (short, low) = bars(&["SIMPLE"; 10]);
    let (long, high) = bars(&["STREAM-PACKETIZER-LOC"; 10]);
    assert!(!short.contains("rotate(-30)") && long.matches("rotate(-30)").count() == 10);
    assert!(high > low + 50.0, "no room for turned names: {low} {high}");
}

#[test]
fn only_what_is_drawn_is_in_the_legend() {
    let svg = plot()
        .with(Series::line("seen", vec![(1.0, 1.0)]))
        .with(Series::line("never run", vec![]))
        .svg();
    assert!(svg.contains(">seen</text>") && !svg.contains("never run"));
    let only = Plot::new("t", Axis::linear(""), Axis::linear("ms"))
        .named(&["a", "b"])
        .with(Series::bars("hidden", vec![(0.0, 1.0), (1.0, 2.0)]))
        .svg();
    assert!(!only.contains("hidden"), "the caption says it");
}

#[test]
fn what_the_paper_has_is_dashed_in_the_colour_of_ours() {
    let points = || vec![(1.0, 1.0), (2.0, 2.0)];
    let looks = plot()
        .with(Series::line("hits", points()))
        .with(Series::dashes("hits, paper", points()))
        .with(Series::line("misses", points()))
        .with(Series::dashes("limit", points()))
        .looks();
    let nths: Vec<usize> = looks.iter().map(|look| look.nth).collect();
    assert_eq!(nths, [0, 0, 1, 2]);
    assert!(looks[1].dashed && !looks[2].dashed);
}

#[test]
fn bars_have_their_values_where_there_is_room() {
    let bars = |count: usize| {
        let names = vec!["a"; count];
        let points = (0..count).map(|n| (n as f64, 12.5)).collect();
        let plot = Plot::new("t", Axis::linear(""), Axis::linear("y")).named(&names);
        plot.with(Series::bars("s", points)).svg()
    };
    assert_eq!(bars(4).matches("class=\"value\"").count(), 4);
    assert_eq!(bars(60).matches("class=\"value\"").count(), 0);
}

#[test]
fn a_file_of_its_own_has_style_ground_and_caption() {
    let file = Plot::new("Gets/s: <all>", Axis::linear("x"), Axis::linear("y"))
        .with(Series::line("s", vec![(1.0, 1.0)]));
    assert_eq!(file.stem(), "gets-s-all");
    assert_eq!(file.clone().called("Table 2").stem(), "table-2");
    let svg = file.svg_file();
    assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" width="));
    assert!(svg.contains("fill=\"#fff\"/>") && svg.contains(">Gets/s: &lt;all&gt;</text>"));
    // No CSS that only the page defines: an image viewer does not have it.
    assert!(!svg.contains("var(") && svg.contains(".grid{stroke:#"));
}
