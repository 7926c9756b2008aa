//! The arguments of `loligo model`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use commands::out::OutFlags;

#[derive(Subcommand, Debug)]
pub enum ModelCommand {
    /// Paper 003, Figure 4: throughput over nodes, with 0 to 4 fronts
    Figure4(ModelFlags),
    /// Paper 003, Figure 5: what fronts add for the price
    Figure5(ModelFlags),
    /// Paper 003, Figure 6: hints against redirecting what cannot be cached
    Figure6(ModelFlags),
    /// Paper 003, Figure 7: fronts that answer from their own memory
    Figure7(ModelFlags),
    /// What paper 003 claims of its model, and which costs meet most of it
    Claims(ModelFlags),
    /// Where a front pays with Loligo's own costs: stores apart, hashing, fronts, equals
    Fronts(ModelFlags),
    /// All of these
    #[command(after_help = ALL_EXAMPLES)]
    All(ModelFlags),
}

pub const MODEL_HELP: &str = "\
The model asks what a cluster of caches can carry, with fronts that know what the nodes hold and without: processors and disks are \
stations with queues (M/G/1), and a mix of requests visits them. docs/accelerator-model.md tells what comes out.";

const ALL_EXAMPLES: &str = "\
Examples:
  loligo model all --html model.html
  loligo model claims --paper handoff-us=200 --paper saved-us=600
  loligo model fronts --own hit=0.35 --own uncachable=0.4 --own forward-us=9
  loligo model fronts --own-file costs.json    {\"memory-hit-us\": 4.1, \"forward-us\": 9.5}
  loligo model figure4 --costs loligo --json -

Every report lists the names that --paper and --own take, with their bounds.";

/// Whose costs the figures are drawn with.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum CostsName {
    /// Those of paper 003
    Paper,
    /// Those of Loligo, with the paper's requests
    Loligo,
}

#[derive(Args, Debug)]
pub struct ModelFlags {
    /// Whose costs figures 4 to 7 are drawn with
    #[arg(long, value_name = "WHOSE", default_value = "paper")]
    pub costs: CostsName,

    /// A cost that the paper does not print; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = named)]
    pub paper: Vec<(String, f64)>,

    /// A cost of Loligo, or a share of its requests; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = named)]
    pub own: Vec<(String, f64)>,

    /// A JSON object of such names and numbers, before those of --own
    #[arg(long, value_name = "FILE")]
    pub own_file: Option<PathBuf>,

    #[command(flatten)]
    pub out: OutFlags,
}

fn named(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=VALUE")?;
    let value = value
        .parse()
        .map_err(|_| format!("{value} is not a number"))?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_number() {
        assert_eq!(named("push-us=2.5"), Ok(("push-us".to_owned(), 2.5)));
        assert!(named("push-us").is_err() && named("push-us=x").is_err());
    }
}
