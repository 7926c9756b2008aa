//! Chooses the text format of a scrape: OpenMetrics if the client asks for it, otherwise the older format of Prometheus (0.0.4), which every client
//! reads.
//!
//! Prometheus asks for OpenMetrics. VictoriaMetrics, Telegraf, Datadog and scripts may not, and would then read its counters as untyped, or refuse
//! `# EOF`. The formats differ in the lines that describe a family; samples are the same:
//!
//! | | OpenMetrics | 0.0.4 |
//! |---|---|---|
//! | a counter | `# TYPE x counter`, `x_total 1` | `# TYPE x_total counter`, `x_total 1` |
//! | an info | `# TYPE x info`, `x_info{…} 1` | `# TYPE x_info gauge`, `x_info{…} 1` |
//! | an unknown | `# TYPE x unknown` | `# TYPE x untyped` |
//! | units, the end | `# UNIT`, `# EOF` | none |
//!
//! Not known here: figures (`exposition`).

use std::fmt::Write as _;

use super::exposition;

/// Media ranges of Accept that are read. Further ones are ignored.
const RANGES_MAX: usize = 32;
/// The weight 1, in thousandths.
const WEIGHT_MAX: u32 = 1000;

/// A text format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// The text format of Prometheus.
    Classic,
}

impl Format {
    /// The format for a client with this Accept.
    pub fn of(accept: Option<&[u8]>) -> Format {
        let accept = accept.unwrap_or_default();
        let mut best = (0, Format::Classic);
        for range in accept.split(|byte| *byte == b',').take(RANGES_MAX) {
            let Some((format, weight)) = std::str::from_utf8(range).ok().and_then(read) else {
                continue;
            };
            // Prefer OpenMetrics if both have the same weight.
            if weight > best.0 || weight == best.0 && weight > 0 && format == Format::OpenMetrics {
                best = (weight, format);
            }
        }
        best.1
    }

    /// The media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => exposition::CONTENT_TYPE,
            Format::Classic => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// The exposition, which is OpenMetrics, in this format.
    pub fn write(self, exposition: String) -> String {
        match self {
            Format::OpenMetrics => exposition,
            Format::Classic => classic(&exposition),
        }
    }
}

/// Reads a media range: the format that it names, and its weight in thousandths.
fn read(range: &str) -> Option<(Format, u32)> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next()?;
    let is = |name: &str| kind.eq_ignore_ascii_case(name);
    let mut weight = WEIGHT_MAX;
    let mut version = None;
    for part in parts {
        let (name, value) = part.split_once('=')?;
        if name.trim().eq_ignore_ascii_case("q") {
            //= rfc9110 §12.4.2   a weight is 0 to 1, 0 for "not acceptable"
            let q: f64 = value.trim().parse().ok()?;
            weight = (q.clamp(0.0, 1.0) * f64::from(WEIGHT_MAX)) as u32;
        } else if name.trim().eq_ignore_ascii_case("version") {
            version = Some(value.trim().trim_matches('"'));
        }
    }
    match version {
        None | Some("1.0.0" | "0.0.1") if is("application/openmetrics-text") => {
            Some((Format::OpenMetrics, weight))
        }
        None | Some("0.0.4") if is("text/plain") => Some((Format::Classic, weight)),
        _ => None,
    }
}

/// Converts an exposition to the text format of Prometheus.
fn classic(exposition: &str) -> String {
    let mut out = String::with_capacity(exposition.len() + (4 << 10));
    // HELP comes before TYPE, but the name in it depends on the type.
    let mut help = None;
    for line in exposition.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ');
        } else if let Some(described) = line.strip_prefix("# TYPE ") {
            let (name, kind) = described.split_once(' ').unwrap_or((described, "unknown"));
            let (suffix, kind) = match kind {
                "counter" => ("_total", kind),
                "info" => ("_info", "gauge"),
                "unknown" => ("", "untyped"),
                _ => ("", kind),
            };
            if let Some((_, words)) = help.take().filter(|(helped, _)| *helped == name) {
                let _ = writeln!(out, "# HELP {name}{suffix} {words}");
            }
            let _ = writeln!(out, "# TYPE {name}{suffix} {kind}");
        } else if !line.starts_with('#') {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
            application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, format) in [
            (None, Format::Classic),
            (Some(""), Format::Classic),
            (Some("*/*"), Format::Classic),
            (Some("text/html, */*;q=0.8"), Format::Classic),
            (
                Some("text/plain;version=0.0.4;q=1,*/*;q=0.1"),
                Format::Classic,
            ),
            (
                Some("text/plain, application/openmetrics-text;q=0.5"),
                Format::Classic,
            ),
            (Some("application/openmetrics-text;q=0"), Format::Classic),
            (
                Some("application/openmetrics-text; version=2.0.0"),
                Format::Classic,
            ),
            (Some("application/openmetrics-text;q=x"), Format::Classic),
            (
                Some("application/OpenMetrics-Text; version=\"1.0.0\""),
                Format::OpenMetrics,
            ),
            (
                Some("text/plain, application/openmetrics-text"),
                Format::OpenMetrics,
            ),
            (Some(prometheus), Format::OpenMetrics),
        ] {
            assert_eq!(Format::of(accept.map(str::as_bytes)), format, "{accept:?}");
        }
    }

    #[test]
    fn families_are_described_under_the_names_of_their_samples() {
        let open = "# HELP a Things\n# TYPE a counter\na_total{x=\"# b\"} 1\n# HELP b The program\n# TYPE b info\nb_info{v=\"1\"} 1\n\
            # HELP c_seconds Time\n# TYPE c_seconds histogram\n# UNIT c_seconds seconds\nc_seconds_bucket{le=\"+Inf\"} 1\n\
            # HELP d Odd\n# TYPE d unknown\nd 1\n# EOF\n";
        assert_eq!(
            Format::Classic.write(open.to_owned()),
            "# HELP a_total Things\n# TYPE a_total counter\na_total{x=\"# b\"} 1\n# HELP b_info The program\n# TYPE b_info gauge\n\
             b_info{v=\"1\"} 1\n# HELP c_seconds Time\n# TYPE c_seconds histogram\nc_seconds_bucket{le=\"+Inf\"} 1\n\
             # HELP d Odd\n# TYPE d untyped\nd 1\n"
        );
        assert_eq!(Format::OpenMetrics.write(open.to_owned()), open);
    }
}
