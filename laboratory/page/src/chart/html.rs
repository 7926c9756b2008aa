//! A chart on its page: heading, choices, panels, legend, remarks, tables.
//!
//! Not known here: coordinates.   Limits: none but memory.

use std::fmt::Write as _;

use super::drawing::{Scales, curve_class, svg};
use super::{Chart, Panel, Style};
use crate::escaped;

/// Style of drawings. Colours of curves are those of Okabe and Ito, lighter on a dark background.
pub(crate) const CHART_DRAWING: &str = "\
.c0{--c:#0072b2}.c1{--c:#d55e00}.c2{--c:#009e73}.c3{--c:#b85c92}.c4{--c:#c98a00}.c5{--c:#3a97d4}.c6{--c:#8c510a}.c7{--c:#6f6f6f}
.chart .curve{fill:none;stroke:var(--c);stroke-width:1.8;stroke-linejoin:round}.chart .dot{fill:var(--c)}
.chart .hollow{fill:var(--paper);stroke:var(--c);stroke-width:1.3}.chart .area{fill:var(--c);fill-opacity:.78;stroke:var(--paper);stroke-width:.6}
.dashed{stroke-dasharray:7 4}.dotted{stroke-dasharray:1.5 3.5;stroke-linecap:round}.chart .hollow,.chart .dot{stroke-dasharray:none}
.chart .band{fill:var(--ink);fill-opacity:.07}.chart .count{fill:var(--ink);fill-opacity:.1}.chart .faint{fill:var(--faint);font-size:11px}
.chart .strip{fill:transparent}.legend .curve{stroke:var(--c);fill:none;stroke-width:2}.legend .box{fill:var(--c);fill-opacity:.78}
";
/// Style that is only on pages with charts.
pub(crate) const CHART_STYLE: &str = "\
.chart .strip:hover{fill:var(--ink);fill-opacity:.08}.chart{min-width:0}
.layer:not(.y0){display:none}
body.charts{max-width:72rem}.charts figure.figure{margin:2.4rem 0;padding-top:.6rem;border-top:1px solid var(--rule)}
.charts figcaption{font-size:1.08rem;padding-bottom:.4rem}figcaption a{color:var(--faint);text-decoration:none;font-weight:400}
.panels{display:grid;gap:.6rem 1rem;grid-template-columns:repeat(auto-fit,minmax(min(26rem,100%),1fr))}
.panels.many{grid-template-columns:repeat(auto-fill,minmax(min(21rem,100%),1fr))}
.panel h4{font-size:.92rem;font-weight:600;margin:.2rem 0 .1rem 3.4rem}.swatch{display:inline-block;width:.75em;height:.75em;background:var(--c);margin-right:.45em;border-radius:2px}
.note{color:var(--faint);border:1px dashed var(--rule);padding:2.4rem 1rem;text-align:center;margin:.3rem 0}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1.3rem;list-style:none;margin:.2rem 0 .4rem 3.4rem;padding:0;font-size:13px}
.legend svg{display:inline-block;width:26px;height:10px;min-width:0;margin-right:.4em;vertical-align:middle}
dl.remarks{display:grid;grid-template-columns:max-content 1fr;gap:.15rem .9rem;margin:.4rem 0 .4rem 3.4rem;font-size:14px;max-width:52rem}
dl.remarks dt{color:var(--faint)}dl.remarks dd{margin:0}
.charts td:not(.l){white-space:nowrap}details{margin:.3rem 0 0 3.4rem;font-size:13px}summary{cursor:pointer;color:var(--faint)}details .wide{max-height:26rem;overflow:auto}details table{font-size:12px}
nav ol{columns:20rem;list-style:none;padding:0;font-size:14px}nav a{color:inherit;text-decoration-color:var(--rule)}nav li{break-inside:avoid}
.choice{display:inline-flex;gap:.25rem;font-size:12px;font-weight:400;margin-left:.8rem;vertical-align:middle}
.choice button{font:inherit;color:inherit;background:none;border:1px solid var(--rule);border-radius:3px;padding:0 .5em;cursor:pointer}
.choice button[aria-pressed=true]{background:var(--ink);color:var(--paper);border-color:var(--ink)}
@media(max-width:40rem){.legend,dl.remarks,details,.panel h4{margin-left:0}dl.remarks{grid-template-columns:1fr}}
@media print{details,.choice,.chart .strip{display:none}figure.figure{break-inside:avoid}body.charts{max-width:none}.panels{grid-template-columns:repeat(auto-fit,minmax(45%,1fr))}}
";
/// Goes into the block for dark screens.
pub(crate) const CHART_DARK: &str = "\
.c0{--c:#4ba3e3}.c1{--c:#f08a4b}.c2{--c:#2fc79b}.c3{--c:#e08fbd}.c4{--c:#f0b429}.c5{--c:#8fd0ff}.c6{--c:#c8945a}.c7{--c:#a3a3a3}
";
/// Lets the reader choose the statistic of a chart, or of all of them.
pub(crate) const CHART_SCRIPT: &str = include_str!("script.js");

impl Chart {
    /// Appends the figure.
    pub(crate) fn html(&self, out: &mut String) {
        let _ = write!(
            out,
            "<figure class=\"figure\" id=\"{id}\"{}>\n<figcaption>{} <a href=\"#{id}\" aria-label=\"link to this figure\">#</a></figcaption>\n",
            self.choices(),
            escaped(&self.title),
            id = escaped(&self.id),
        );
        let drawn: Vec<&Panel> = self
            .panels
            .iter()
            .filter(|panel| panel.is_drawn())
            .collect();
        let shared = Scales::of(self, &drawn);
        let many = if self.panels.len() > 2 { " many" } else { "" };
        let _ = writeln!(out, "<div class=\"panels{many}\">");
        for panel in &self.panels {
            self.panel(panel, &shared, out);
        }
        out.push_str("</div>\n");
        self.legend(&drawn, out);
        if !self.remarks.is_empty() {
            out.push_str("<dl class=\"remarks\">");
            for (term, text) in &self.remarks {
                let _ = write!(out, "<dt>{}</dt><dd>{}</dd>", escaped(term), escaped(text));
            }
            out.push_str("</dl>\n");
        }
        if !self.tables.is_empty() {
            out.push_str("<details><summary>The numbers</summary>\n");
            self.tables.iter().for_each(|table| table.html(out));
            out.push_str("</details>\n");
        }
        out.push_str("</figure>\n");
    }

    /// The attribute that tells the script which statistics there are.
    fn choices(&self) -> String {
        if self.layers() < 2 {
            return String::new();
        }
        format!(" data-choices=\"{}\"", escaped(&self.statistics.join("|")))
    }

    fn panel(&self, panel: &Panel, shared: &Scales, out: &mut String) {
        out.push_str("<div class=\"panel\">");
        if !panel.title.is_empty() {
            let swatch = panel.colour.map_or(String::new(), |colour| {
                format!(
                    "<span class=\"swatch c{}\"></span>",
                    colour % super::COLOURS
                )
            });
            let _ = writeln!(out, "<h4>{swatch}{}</h4>", escaped(&panel.title));
        }
        match &panel.note {
            Some(why) => {
                let _ = write!(out, "<p class=\"note\">{}</p>", escaped(why));
            }
            None => {
                let scales = Scales::beside(shared, self, panel);
                out.push_str(&svg(self, panel, &scales, self.size()));
            }
        }
        out.push_str("</div>\n");
    }

    /// Number of panels and layers.
    fn size(&self) -> (usize, usize) {
        (self.panels.len(), self.layers())
    }

    fn legend(&self, drawn: &[&Panel], out: &mut String) {
        let entries = self.entries(drawn);
        // A single curve is described by the title.
        if entries.len() < 2 {
            return;
        }
        out.push_str("<ul class=\"legend\">");
        for entry in entries {
            let _ = write!(
                out,
                "<li><svg viewBox=\"0 0 26 10\" aria-hidden=\"true\">{}</svg>{}</li>",
                entry.sample,
                escaped(&entry.name)
            );
        }
        out.push_str("</ul>\n");
    }

    /// One entry for each name and style.
    pub(super) fn entries(&self, drawn: &[&Panel]) -> Vec<Entry> {
        let mut entries: Vec<(&str, String, Style)> = Vec::new();
        for curve in drawn.iter().flat_map(|panel| &panel.curves) {
            let class = curve_class(curve);
            let has = entries
                .iter()
                .any(|(name, other, _)| *name == curve.name && *other == class);
            if !has && curve.layer(0).iter().any(|spot| spot.y.is_finite()) {
                entries.push((&curve.name, class, curve.style));
            }
        }
        let entry = |(name, class, style): (&str, String, Style)| Entry {
            name: name.to_owned(),
            sample: match style {
                Style::Area => {
                    format!("<rect class=\"box {class}\" x=\"6\" width=\"14\" height=\"10\"/>")
                }
                _ => format!("<line class=\"curve {class}\" x2=\"26\" y1=\"5\" y2=\"5\"/>"),
            },
        };
        entries.into_iter().map(entry).collect()
    }
}

/// An entry of the legend.
pub(super) struct Entry {
    pub name: String,
    /// SVG of 26 by 10.
    pub sample: String,
}
