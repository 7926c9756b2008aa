//! The outputs of a report: text or JSON to standard output, a page, drawings.
//!
//! Not known here: the contents of the report.

use std::path::{Path, PathBuf};

use clap::Args;
use page::Page;

/// Where the report goes, besides standard output.
#[derive(Args, Debug)]
pub struct OutFlags {
    /// Write the report as JSON; - is standard output, in place of the text
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write the report as a page that needs nothing besides itself
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// Write each plot as an SVG file of its own to this directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
}

impl OutFlags {
    /// Writes the requested outputs. JSON on standard output replaces the text.
    pub fn write(
        &self,
        text: &str,
        json: impl FnOnce() -> String,
        page: impl FnOnce() -> Page,
    ) -> Result<(), String> {
        let put = |path: &Path, content: &str| {
            std::fs::write(path, content).map_err(|e| format!("{}: {e}", path.display()))
        };
        match &self.json {
            Some(path) if path.as_os_str() == "-" => crate::print(&json()),
            Some(path) => {
                crate::print(text);
                put(path, &json())?;
            }
            None => crate::print(text),
        }
        if self.html.is_none() && self.svg.is_none() {
            return Ok(());
        }
        let page = page();
        if let Some(dir) = &self.svg {
            crate::drawings::write(dir, &page)?;
        }
        match &self.html {
            Some(path) => put(path, &page.html()),
            None => Ok(()),
        }
    }
}
