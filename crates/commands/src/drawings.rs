//! `--svg DIR`: writes the plots of a report as separate files.
//!
//! Not known here: what is drawn.   Limits: files of the same names are overwritten.

use std::path::Path;

use page::Page;

/// Writes each plot of `page` to `dir`, which is created if it is missing. `Err`: the message for the user.
pub fn write(dir: &Path, page: &Page) -> Result<(), String> {
    std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    for (name, svg) in page.svg_files() {
        let path = dir.join(name);
        std::fs::write(&path, svg).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use page::{Axis, Plot, Series};

    use super::*;

    #[test]
    fn every_plot_is_a_file() {
        let dir = tempfile::tempdir().unwrap();
        let into = dir.path().join("figures");
        let plot = |name: &str| {
            let plot = Plot::new(name, Axis::linear("x"), Axis::linear("y"));
            plot.with(Series::line("s", vec![(0.0, 1.0)]))
        };
        let mut page = Page::new("t");
        page.plot(&plot("Hit ratio")).plot(&plot("Reads a hit"));
        write(&into, &page).unwrap();
        let read = |name: &str| std::fs::read_to_string(into.join(name)).unwrap();
        assert!(
            read("hit-ratio.svg").contains("</svg>") && read("reads-a-hit.svg").contains("<style>")
        );
        assert!(write(&into.join("hit-ratio.svg"), &page).is_err());
    }
}
