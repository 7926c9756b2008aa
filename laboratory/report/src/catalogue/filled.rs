//! Which requests or events fill a figure: the text for an empty one.
//!
//! Not known here: whether a figure is empty, and whether the source could fill it.

/// One sentence. It begins with what is counted, and names the run or the setting that brings it.
pub(crate) fn filled_by(id: &str) -> &'static str {
    match id {
        "1" | "3" | "4" | "5" | "6" | "7" | "bandwidth" | "shares" => {
            "Filled by any request that is no tunnel, while `log.profile` is on."
        }
        "2" => "Filled by the first request for each document, if `log.profile-keys` is true.",
        "8" => {
            "Filled by hits: requests for what was stored before. Ask for the same URLs again, or let the run last longer."
        }
        "8b" | "peer" => {
            "Filled by requests that ask a peer: `[[parent]]`, `[[sibling]]` or `[cluster]` in the configuration."
        }
        "9" | "10" | "11" | "12" | "13" => {
            "Filled by requests for which a server is asked: misses, and hits that are validated."
        }
        "14" => "Filled by the first request of each client connection.",
        "15" | "16" | "17" => "Filled by requests that were answered to the end.",
        "18" | "18b" | "19" | "20" | "21" | "21b" => {
            "Filled by requests that read from the disk or write to it: a `[[store]]`, and objects that are asked for again when memory \
             no longer has them (a smaller `memory`, a larger set of URLs, or a restart)."
        }
        "22" => {
            "Filled by reads and writes of the disk with a known size of the object: a `[[store]]`, and hits that memory no longer has."
        }
        "23" => TWO_READS,
        "20b" => {
            "Filled by the kernel's counts of the device under each store, once a second: a `[[store]]` on a device that /sys/block has."
        }
        "24" | "24b" => {
            "Filled by misses that ask a server themselves; collapsed requests and hits at peers are not among them."
        }
        "25" | "25b" => "Filled by hits with status 200 for which no server was asked.",
        "dns" | "dns-shares" => {
            "Filled by requests to servers that are called by name: an address needs no look-up."
        }
        "collapsed" => {
            "Filled by requests that wait for another's fetch of the same URL: several clients that ask at the same time for what is not stored."
        }
        "loop-lag" | "cpu" | "switches" | "memory" | "connections" | "network" | "lost" => {
            "Filled once a second while `log.profile` is on: a run of more than two seconds has it."
        }
        "icp" | "icp-bytes" => {
            "Filled once a second where `[[sibling]]` asks by ICP or digest, or in a `[cluster]`, which sends hints."
        }
        "device-time" | "device-bytes" | "cluster" => {
            "Filled by reads and writes of the stores' devices: a `[[store]]`, and hits that memory no longer has."
        }
        _ => "",
    }
}

/// The requests behind Figure 23 and Table 22.
pub(crate) const TWO_READS: &str = "Filled by swap-ins of exactly two reads of the disk. An object of up to 1 MiB (a fragment) takes one read and a \
    longer one at least three, so these are mostly ranges within one fragment of a long object whose head is in memory. \
    A run with range requests for objects of some megabytes has them.";
