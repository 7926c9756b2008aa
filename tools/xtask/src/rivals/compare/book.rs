//! The report of a command: one comparison, or several in turn (a slow disk, then a fast one), and the tables and figures of a paper.
//!
//! It is written after every run, so that earlier results survive if a later run fails.
//!
//! Not known here: the content of a part (`report`), how a paper's tables are made (`paper000`, `paper004`).   Limits: none.

use std::path::{Path, PathBuf};

use page::{Page, Plot, Table};

use super::options::Conditions;
use super::report::Comparison;
use crate::failure::{During, Result};

/// Further content of a part: the tables and figures of a paper.
#[derive(Debug, Clone, Default)]
pub struct Extra {
    /// after ours
    pub tables: Vec<Table>,
    /// before ours; a page only
    pub plots: Vec<Plot>,
}

/// Makes the further content of a comparison's part. The first argument has the comparisons before it.
pub type Layout<'a> = &'a dyn Fn(&[Comparison], &Comparison) -> Extra;

/// All comparisons of a command so far.
pub struct Book<'a> {
    /// of the whole report; a part has its own
    title: String,
    parts: Vec<Comparison>,
    layout: Layout<'a>,
    json: Option<PathBuf>,
    html: Option<PathBuf>,
}

impl<'a> Book<'a> {
    /// Without comparisons yet; `conditions` say where to write.
    pub fn new(title: &str, layout: Layout<'a>, conditions: &Conditions) -> Self {
        Self {
            title: title.to_owned(),
            parts: Vec::new(),
            layout,
            json: conditions.json.clone(),
            html: conditions.html.clone(),
        }
    }

    /// A new part begins.
    pub fn begin(&mut self, part: Comparison) {
        self.parts.push(part);
    }

    /// The part that is being made.
    pub fn part(&mut self) -> &mut Comparison {
        self.parts.last_mut().expect("runs are made after `begin`")
    }

    /// All parts.
    pub fn parts(&self) -> &[Comparison] {
        &self.parts
    }

    /// The last part for a terminal.
    pub fn text_of_part(&self) -> String {
        let laid_out = self.laid_out();
        let last = laid_out.last();
        last.map_or_else(String::new, |(part, extra)| part.text(extra))
    }

    /// Writes the files that were asked for.
    pub fn write(&self) -> Result<()> {
        let put = |path: &Path, text: String| {
            std::fs::write(path, text).during(|| format!("writing {}", path.display()))
        };
        if let Some(path) = &self.json {
            put(path, self.json_text()? + "\n")?;
        }
        if let Some(path) = &self.html {
            put(path, self.page().html())?;
        }
        Ok(())
    }

    /// One comparison as it is, several as a list.
    fn json_text(&self) -> Result<String> {
        let text = match self.parts.as_slice() {
            [only] => serde_json::to_string_pretty(only),
            several => serde_json::to_string_pretty(several),
        };
        text.during(|| "making JSON".into())
    }

    fn page(&self) -> Page {
        if let [(only, extra)] = self.laid_out().as_slice() {
            let mut page = Page::new(&only.title);
            only.put_on(&mut page, extra);
            return page;
        }
        let mut page = Page::new(&self.title);
        for (part, extra) in self.laid_out() {
            page.heading(&part.title);
            part.put_on(&mut page, &extra);
        }
        page
    }

    fn laid_out(&self) -> Vec<(&Comparison, Extra)> {
        let parts = self.parts.iter().enumerate();
        parts
            .map(|(n, part)| (part, (self.layout)(&self.parts[..n], part)))
            .collect()
    }
}
