//! What a [`Study`] says: tables for a terminal, a page with plots for a browser.

use page::{Axis, Page, Plot, Series, Table};
use replacement::AdmissionKind;

use super::{Contender, Hits, Study};

/// A figure of a cache, in percent.
type Measure = fn(&Hits) -> f64;

/// Document hit ratio, byte hit ratio, bytes written: a row a contender, a column a size.
pub fn tables(study: &Study) -> Vec<Table> {
    let measures: [(&str, Measure); 3] = [
        ("Document hit ratio (%)", Hits::document_percent),
        ("Byte hit ratio (%)", Hits::byte_percent),
        ("Bytes taken in, of 100 answered", Hits::written_percent),
    ];
    measures
        .map(|(name, measure)| table(study, name, measure))
        .into()
}

fn table(study: &Study, name: &str, measure: Measure) -> Table {
    let sizes = sizes(study);
    let mut columns = vec!["policy".to_owned()];
    columns.extend(sizes.iter().map(|&bytes| size_text(bytes)));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(&format!("{}: {name}", study.stream), &columns);
    for contender in contenders(study) {
        let of_it = study
            .points
            .iter()
            .filter(|point| point.contender == contender);
        let cells = of_it.map(|point| format!("{:.1}", measure(&point.hits)));
        table.row(std::iter::once(contender.to_string()).chain(cells));
    }
    let boundless = sizes
        .iter()
        .map(|_| format!("{:.1}", measure(&study.boundless)));
    table.row(std::iter::once("without limit".to_owned()).chain(boundless));
    table
}

/// All studies on one page.
pub fn page(studies: &[Study]) -> Page {
    let mut page = Page::new("Replacement and admission");
    page.text(
        "Hit ratios against the size of the cache. The first quarter of each stream fills the caches and is not counted. \
         The dashed line is a cache without limit.",
    );
    for study in studies {
        page.heading(&study.stream);
        page.text(&format!(
            "{} requests; the different objects are {} together.",
            study.requests,
            size_text(study.object_bytes)
        ));
        let everything = |contender: &Contender| contender.admission == AdmissionKind::All;
        page.plot(&plot(
            study,
            "documents",
            "document hit ratio, everything comes in",
            Hits::document_percent,
            everything,
        ));
        page.plot(&plot(
            study,
            "bytes",
            "byte hit ratio, everything comes in",
            Hits::byte_percent,
            everything,
        ));
        let ruled: Vec<_> = contenders(study)
            .into_iter()
            .filter(|c| !everything(c))
            .collect();
        if !ruled.is_empty() {
            let near =
                |contender: &Contender| ruled.iter().any(|other| other.policy == contender.policy);
            page.plot(&plot(
                study,
                "admission",
                "document hit ratio, by what comes in",
                Hits::document_percent,
                near,
            ));
            page.plot(&plot(
                study,
                "written",
                "bytes taken in, of 100 answered",
                Hits::written_percent,
                near,
            ));
        }
        for table in tables(study) {
            page.table(&table);
        }
    }
    page
}

fn plot(
    study: &Study,
    name: &str,
    caption: &str,
    measure: Measure,
    shown: impl Fn(&Contender) -> bool,
) -> Plot {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let stream = stream_name(&study.stream);
    let caption = format!("{stream}: {caption}");
    // From 0 all policies would be one line.
    let y = Axis::linear("percent").without_zero();
    let mut plot = Plot::new(&caption, Axis::log("cache (MiB)"), y)
        .called(&format!("policies-{stream}-{name}"));
    for contender in contenders(study)
        .into_iter()
        .filter(|contender| shown(contender))
    {
        let of_it = study
            .points
            .iter()
            .filter(|point| point.contender == contender);
        let points = of_it.map(|point| (mib(point.bytes), measure(&point.hits)));
        plot = plot.with(Series::line(&contender.to_string(), points.collect()));
    }
    let sizes = sizes(study);
    let ends = sizes.first().into_iter().chain(sizes.last());
    let limit = ends.map(|&bytes| (mib(bytes), measure(&study.boundless)));
    plot.with(Series::dashes("without limit", limit.collect()))
}

fn contenders(study: &Study) -> Vec<Contender> {
    let mut all: Vec<Contender> = Vec::new();
    for point in &study.points {
        if !all.contains(&point.contender) {
            all.push(point.contender);
        }
    }
    all
}

fn sizes(study: &Study) -> Vec<u64> {
    let first = study.points.first().map(|point| point.contender);
    let of_first = study
        .points
        .iter()
        .filter(|point| Some(point.contender) == first);
    of_first.map(|point| point.bytes).collect()
}

/// A stream in a word: `bu-1994-95` for `bu-1994-95.tsv.zst (bu)`.
pub(crate) fn stream_name(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split(['.', ' ']).next().unwrap_or(file)
}

/// Three digits or more, and a unit.
pub(crate) fn size_text(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1024.0 && unit + 1 < UNITS.len() {
        size /= 1024.0;
        unit += 1;
    }
    match size {
        size if unit > 0 && size < 10.0 => format!("{size:.2} {}", UNITS[unit]),
        size if unit > 0 && size < 100.0 => format!("{size:.1} {}", UNITS[unit]),
        size => format!("{size:.0} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_called_by_a_word() {
        assert_eq!(stream_name("bu-1994-95.tsv.zst (bu)"), "bu-1994-95");
        assert_eq!(stream_name("logs/access.log"), "access");
        assert_eq!(stream_name("dec"), "dec");
    }

    #[test]
    fn sizes_are_short() {
        let texts = [0, 1023, 1024, 20 << 10, 200 << 20, 5_400_000_000].map(size_text);
        assert_eq!(
            texts,
            [
                "0 B", "1023 B", "1.00 KiB", "20.0 KiB", "200 MiB", "5.03 GiB"
            ]
        );
    }
}
