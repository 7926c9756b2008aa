//! The report on a [`Study`]: tables for a terminal, a page with plots for a browser.

use page::{Axis, Page, Plot, Series, Table};

use super::{Contender, DiskKind, Hits, RuleKind, Study};
use crate::cache::PolicyKind;

/// A quantity of a contender, in percent or as a ratio.
type Measure = fn(&Hits) -> f64;

/// Document hit ratio / byte hit ratio, bytes written and read to make room: a row a contender, a column a size, and one for memory hits.
pub fn tables(study: &Study) -> Vec<Table> {
    let sizes = sizes(study);
    let mut columns = vec!["policy".to_owned()];
    columns.extend(sizes.iter().map(|&bytes| size_text(bytes)));
    columns.push("memory %".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        &format!(
            "{}: documents/bytes hit (%), bytes written (+read to make room) for each asked for; memory {}, new versions: {}",
            study.stream,
            size_text(study.memory_bytes),
            study.versions
        ),
        &columns,
    );
    for contender in contenders(study) {
        let of_it = study.points.iter().filter(|it| it.contender == contender);
        let all: Vec<Hits> = of_it.map(|point| point.hits).collect();
        let memory = all.first().map_or(0.0, Hits::memory_percent);
        let cells = all.iter().map(cell).chain([format!("{memory:.1}")]);
        table.row(std::iter::once(contender.to_string()).chain(cells));
    }
    let boundless = sizes.iter().map(|_| cell(&study.boundless));
    table.row(std::iter::once("without limit".to_owned()).chain(boundless));
    vec![table]
}

fn cell(hits: &Hits) -> String {
    let read = match hits.swept_bytes {
        0 => String::new(),
        _ => format!(" +{:.2}", hits.swept_per_asked()),
    };
    format!(
        "{:.1}/{:.1}, {:.2}{read}",
        hits.document_percent(),
        hits.byte_percent(),
        hits.written_per_asked()
    )
}

/// All studies on one page.
pub fn page(studies: &[Study]) -> Page {
    let mut page = Page::new("Replacement and admission");
    page.text(
        "Hit ratios and bytes written against the size of the disk, behind a memory. The first third of each stream fills the \
         caches and is not counted. The dashed line is a cache without limit.",
    );
    for study in studies {
        page.heading(&study.stream);
        page.text(&format!(
            "{} requests; the different objects are {} together; the memory has {}. New versions: {}.",
            study.requests,
            size_text(study.object_bytes),
            size_text(study.memory_bytes),
            study.versions
        ));
        let plain = |it: &Contender| it.rule == RuleKind::ALL && it.memory == PolicyKind::LRU;
        let ruled: Vec<Contender> = contenders(study)
            .into_iter()
            .filter(|it| !plain(it))
            .collect();
        let near = |it: &Contender| {
            it.disk == DiskKind::Belady || ruled.iter().any(|other| other.disk == it.disk)
        };
        for curves in CURVES {
            // Only sweeps read to make room.
            if study
                .points
                .iter()
                .all(|it| (curves.measure)(&it.hits) <= 0.0)
            {
                continue;
            }
            page.plot(&plot(study, &curves, "", "everything comes to disk", plain));
            if !ruled.is_empty() {
                let caption = "by what comes to disk and what memory keeps";
                page.plot(&plot(study, &curves, "-ruled", caption, near));
            }
        }
        for table in tables(study) {
            page.table(&table);
        }
    }
    page
}

/// The description of a plot.
struct Curves {
    name: &'static str,
    what: &'static str,
    unit: &'static str,
    measure: Measure,
}

const CURVES: [Curves; 4] = [
    Curves {
        name: "documents",
        what: "document hit ratio",
        unit: "percent",
        measure: Hits::document_percent,
    },
    Curves {
        name: "bytes",
        what: "byte hit ratio",
        unit: "percent",
        measure: Hits::byte_percent,
    },
    Curves {
        name: "written",
        what: "bytes written for each asked for",
        unit: "bytes a byte",
        measure: Hits::written_per_asked,
    },
    Curves {
        name: "read",
        what: "bytes read to make room for each asked for",
        unit: "bytes a byte",
        measure: Hits::swept_per_asked,
    },
];

fn plot(
    study: &Study,
    curves: &Curves,
    suffix: &str,
    caption: &str,
    shown: impl Fn(&Contender) -> bool,
) -> Plot {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let Curves { name, measure, .. } = curves;
    let stream = stream_name(&study.stream);
    let caption = format!("{stream}: {}, {caption}", curves.what);
    // With an axis from 0 all policies would look like one line.
    let y = Axis::linear(curves.unit).without_zero();
    let mut plot = Plot::new(&caption, Axis::log("disk (MiB)"), y)
        .called(&format!("policies-{stream}-{name}{suffix}"));
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

/// A short name of a stream: `bu-1994-95` for `bu-1994-95.tsv.zst (bu)`.
pub(crate) fn stream_name(name: &str) -> &str {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.split(['.', ' ']).next().unwrap_or(file)
}

/// A size with three digits or more, and a unit.
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
