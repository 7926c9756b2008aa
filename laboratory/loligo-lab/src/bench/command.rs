//! The commands below `loligo bench`, and their help.

use clap::Subcommand;

use super::args::{LoadFlags, OriginFlags, ReportFlags};
use super::search_args::SearchFlags;

#[derive(Subcommand, Debug)]
pub enum BenchCommand {
    /// Load a proxy with PolyMix: robots and servers on this machine
    #[command(after_help = POLYMIX_EXAMPLES)]
    Polymix(LoadFlags),
    /// The servers alone, until interrupted
    #[command(after_help = HALVES_EXAMPLES)]
    Origin(OriginFlags),
    /// The robots alone; the servers are another process, started with the same flags
    #[command(after_help = HALVES_EXAMPLES)]
    Robots(LoadFlags),
    /// Search the highest rate that a proxy stands
    #[command(after_help = SEARCH_EXAMPLES)]
    Search(SearchFlags),
    /// Show what --json wrote: of a run, of its parts joined, of a search
    #[command(after_help = REPORT_EXAMPLES)]
    Report(ReportFlags),
    /// Show several runs, or several searches, side by side
    #[command(after_help = REPORT_EXAMPLES)]
    Compare(ReportFlags),
}

pub const BENCH_HELP: &str = "\
The workload is PolyMix-3 or 4 of Web Polygraph. Every byte of every answer is compared; what is wrong is told by name.
See docs/bench.md for what the figures mean.";

const POLYMIX_EXAMPLES: &str = "\
Examples:
  A minute for each of the four hours:
    loligo bench polymix --proxy http://127.0.0.1:3128 --rate 100 --cache-size 64MiB --time-scale 1/240
  How many requests a core can do, without the servers' think time:
    loligo bench polymix --proxy 127.0.0.1:3128 --rate 5000 --cache-size 1GiB --time-scale 1/240 --think-scale 0.02
  The workload as it was (about 13 hours), with a page to look at:
    loligo bench polymix --proxy 10.0.0.2:3128 --rate 500 --cache-size 20GiB --json run.json --html run.html

Exit status: 0 every answer was right, 1 some were wrong, 2 the run could not be made.";

const HALVES_EXAMPLES: &str = "\
Example: the servers, and two processes of robots, each on a core; then one report of both:
    loligo bench origin --rate 4000 --time-scale 1/240
    loligo bench robots --proxy 10.0.0.2:3128 --rate 4000 --cache-size 1GiB --time-scale 1/240 --world 1 --share 1/2 --json 1.json
    loligo bench robots --proxy 10.0.0.2:3128 --rate 4000 --cache-size 1GiB --time-scale 1/240 --world 1 --share 2/2 --json 2.json
    loligo bench report 1.json 2.json --html run.html

--rate, --cache-size, --robots and --robot-addresses are those of the whole; each process takes its share.";

const SEARCH_EXAMPLES: &str = "\
Each step is a run of its own: objects that the proxy has not seen, the cache filled, the peak held for --top seconds.
The rate doubles until it is not stood, then the gap is halved until it is narrower than --tolerance. A load is stood if the
mean response is short enough, nothing is wrong, and the document hit ratio is near what is offered.

Examples:
    loligo bench search --proxy 127.0.0.1:3128 --first 100 --json search.json --html search.html
  Where the CPU is the question, with a hundredth of the think time (the limit of the response shrinks with it):
    loligo bench search --proxy 127.0.0.1:3128 --first 1000 --think-scale 0.01 --tolerance 0.1

Exit status: 0 a peak was found, 1 none was (the load generator gave out, or nothing was stood), 2 no run could be made.";

const REPORT_EXAMPLES: &str = "\
Examples:
    loligo bench report run.json --html run.html
    loligo bench report part1.json part2.json --json whole.json
    loligo bench compare loligo.json squid.json nginx.json --html compare.html

Parts of one run (bench robots --share) are joined. Runs are called by their --label, or by the name of the file.";
