//! The constants of the models, as part of the page.
//!
//! Not known here: the values; `disks` has them.

use super::report::{Rows, Section};
use crate::disks::constants::{Constant, of_1999, of_flash};

/// Every constant with its source.
pub fn constants() -> Section {
    Section {
        name: "constants".to_owned(),
        title: "The models, constant by constant".to_owned(),
        text: vec![
            "Paper: paper 002 names it. Measured: a table of the paper or a benchmark of the time has the number. Source: OpenSolaris. \
             Known: common knowledge of that hardware, written down without a document at hand. Assumed: nobody told us."
                .to_owned(),
        ],
        tables: vec![
            table("The disk of 1999, its file system and machine", &of_1999()),
            table("The flash device", &of_flash()),
        ],
        plots: Vec::new(),
    }
}

fn table(caption: &str, constants: &[Constant]) -> Rows {
    let mut rows = Rows::new(caption, &["constant", "value", "", "from"]);
    for constant in constants {
        rows.row([
            constant.name.replace('`', ""),
            constant.value.clone(),
            constant.trust.word().to_owned(),
            constant.from.replace('`', ""),
        ]);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table in docs/lab.md agrees with the code; `UPDATE_DOCS=1` writes it.
    #[test]
    fn the_document_has_every_constant() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab.md");
        let text = std::fs::read_to_string(path).unwrap();
        let head = "| constant | value | from |\n|---|---|---|\n";
        let begin = text.find(head).expect("the table's head") + head.len();
        let end = begin + text[begin..].find("\n\n").expect("the table's end") + 1;
        let rows: String = of_1999()
            .iter()
            .map(|c| {
                format!(
                    "| {} | {} | {}: {} |\n",
                    c.name,
                    c.value,
                    c.trust.word(),
                    c.from
                )
            })
            .collect();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(path, text[..begin].to_owned() + &rows + &text[end..]).unwrap();
        } else {
            assert!(
                text[begin..end] == rows,
                "docs/lab.md is out of date: UPDATE_DOCS=1 cargo test -p lab the_document"
            );
        }
    }
}
