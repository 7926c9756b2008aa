//! What a source can tell. A missing number must never look like zero.

use std::path::PathBuf;
use std::time::Duration;

use profile::StageName;

use crate::model::{Grid, Level, SourceKind};

/// A set of facts that the records of a source have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Known(u32);

const STAGES: u32 = (1 << StageName::ALL.len()) - 1;

impl Known {
    /// Only instants, classes, statuses and bytes sent.
    pub const NOTHING: Known = Known(0);
    /// Sizes of objects as they are stored.
    pub const OBJECT_BYTES: Known = Known(1 << 9);
    /// The document of a request.
    pub const KEYS: Known = Known(1 << 10);
    /// The client of a request.
    pub const CLIENTS: Known = Known(1 << 11);
    /// The server of a request.
    pub const SERVERS: Known = Known(1 << 12);
    /// Whether a request was aborted.
    pub const ABORTS: Known = Known(1 << 13);
    /// Whether a connection had been used before.
    pub const REUSE: Known = Known(1 << 14);
    /// How many reads of a device a request took.
    pub const DEVICE_READS: Known = Known(1 << 15);
    /// Whether a miss could not be cached.
    pub const UNCACHABLE: Known = Known(1 << 16);
    /// Whether a server was asked: exact with the stages for that, an upper bound without them.
    pub const OUTGOING: Known = Known(1 << 17);
    /// Writes of the disk.
    pub const WRITES: Known = Known(1 << 18);
    /// Reads of the disk.
    pub const READS: Known = Known(1 << 19);
    /// The state of the machine, second by second.
    pub const SECONDS: Known = Known(1 << 20);
    /// Connecting to the server and its reply as one time; `server-reply` holds both if their own times are not known.
    pub const SERVER_RESPONSE: Known = Known(1 << 21);
    /// The client's protocol, and whether its connection is encrypted.
    pub const PROTOCOLS: Known = Known(1 << 22);

    /// The level of a hit that was not the proxy's own.
    pub const PEERS: Known = Known(1 << 23);

    /// A profile. Facts that its files do not have, such as those of version 1, are removed while they are read.
    pub const PROFILE: Known = Known((1 << 24) - 1);
    /// Squid's native access.log.
    pub const SQUID: Known = Known(
        Self::KEYS.0
            | Self::CLIENTS.0
            | Self::SERVERS.0
            | Self::ABORTS.0
            | Self::OUTGOING.0
            | Self::PEERS.0,
    );
    /// Facts in version 1 of the profile.
    pub(crate) const VERSION_1: Known = Known(
        (STAGES & !(1 << StageName::Wait as u32) & !(1 << StageName::Peer as u32))
            | Self::UNCACHABLE.0
            | Self::SERVER_RESPONSE.0
            | Self::OUTGOING.0,
    );

    /// The times of a stage.
    pub const fn stage(name: StageName) -> Known {
        Known(1 << name as u32)
    }

    /// Adds the times of these stages.
    #[must_use]
    pub fn with_stages(self, names: &[StageName]) -> Known {
        names
            .iter()
            .fold(self, |known, &name| known.and(Known::stage(name)))
    }

    /// All facts of both.
    #[must_use]
    pub const fn and(self, other: Known) -> Known {
        Known(self.0 | other.0)
    }

    /// The facts that both have.
    #[must_use]
    pub(crate) const fn common(self, other: Known) -> Known {
        Known(self.0 & other.0)
    }

    /// The facts without those of `other`.
    #[must_use]
    pub const fn without(self, other: Known) -> Known {
        Known(self.0 & !other.0)
    }

    /// Whether all of `other` is known.
    pub const fn has(self, other: Known) -> bool {
        self.0 & other.0 == other.0
    }

    /// Why something that needs `needs` is not available; `None` if it is.
    pub(crate) fn missing(self, needs: Known, kind: SourceKind) -> Option<String> {
        let missing = needs.without(self);
        (missing != Known::NOTHING).then(|| {
            format!(
                "not recorded by this source: {}. {}",
                missing.words().join(", "),
                missing.brought_by(kind)
            )
        })
    }

    /// All facts that a profile may have and this source does not, a sentence for each way to get them.
    pub(crate) fn all_missing(self, kind: SourceKind) -> Vec<String> {
        let missing = Known::PROFILE.without(self);
        let mut ways: Vec<(&str, Known)> = Vec::new();
        for one in (0..u32::BITS).map(|bit| Known(missing.0 & 1 << bit)) {
            let way = one.brought_by(kind);
            match ways.iter_mut().find(|(other, _)| *other == way) {
                _ if one == Known::NOTHING => {}
                Some((_, of)) => *of = of.and(one),
                None => ways.push((way, one)),
            }
        }
        let sentence = |(way, of): (&str, Known)| {
            format!(
                "This source does not record: {}. {way}",
                of.words().join(", ")
            )
        };
        ways.into_iter().map(sentence).collect()
    }

    /// The setting or run that brings what a source of that kind is missing.
    fn brought_by(self, kind: SourceKind) -> &'static str {
        const STAGES_OF_LOGFORMAT: Known = Known::stage(StageName::Dns)
            .and(Known::stage(StageName::ProxyConnect))
            .and(Known::stage(StageName::ServerReply))
            .and(Known::SERVER_RESPONSE);
        if self.has(Known::PEERS) {
            return "No request of it asked a parent, a sibling or a member of a cluster (`[[parent]]`, `[[sibling]]`, `[cluster]`), or its \
                version does not say whether they had it.";
        }
        match kind {
            SourceKind::Squid if STAGES_OF_LOGFORMAT.has(self) => {
                "Squid writes it with the `logformat` of docs/report.md."
            }
            SourceKind::Squid => {
                "A log of Squid does not have it; a profile of Loligo does (`log.profile`)."
            }
            SourceKind::Joined => "One of the reports that were joined does not have it.",
            SourceKind::Profile if self.has(Known::KEYS) => "`log.profile-keys = true` records it.",
            SourceKind::Profile if self.has(Known::CLIENTS) => {
                "`log.profile-keys` and `log.profile-clients`, both true, record it."
            }
            SourceKind::Profile if self.has(Known::SERVERS) => {
                "Requests that ask a server have it, if `log.profile-keys` is true."
            }
            SourceKind::Profile if self.has(Known::WRITES) || self.has(Known::READS) => {
                "Nothing of it happened: it takes a `[[store]]`, for writes something that may be stored, for reads hits that memory no \
                 longer has (a smaller `memory`, a larger set of URLs, or a restart)."
            }
            SourceKind::Profile if self.has(Known::SECONDS) => {
                "It is written once a second: a run of more than two seconds has it."
            }
            SourceKind::Profile => "A profile of a later version has it.",
        }
    }

    /// The facts in words.
    pub(crate) fn words(self) -> Vec<&'static str> {
        const WORDS: [&str; 24] = [
            "time to connect to the client",
            "time to resolve names",
            "time to connect to the server",
            "time of the server's reply",
            "time to read from the disk",
            "time to write to the disk",
            "time of the reply to the client",
            "time that collapsed requests wait",
            "time to ask siblings",
            "sizes of stored objects",
            "which document was asked for",
            "which client asked",
            "which server was asked",
            "whether a request was aborted",
            "whether a connection was used before",
            "reads of the disk for a request",
            "which requests could not be cached",
            "whether a server was asked",
            "each write of the disk",
            "each read of the disk",
            "the state of the machine each second",
            "time of the server",
            "protocols of clients",
            "hits at peers",
        ];
        (0..WORDS.len())
            .filter(|i| self.0 & 1 << i != 0)
            .map(|i| WORDS[i])
            .collect()
    }
}

/// A source of requests and events.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its name on the page.
    pub name: String,
    /// Its place in a hierarchy.
    pub level: Option<Level>,
    /// The format of its data.
    pub kind: SourceKind,
    /// What the source can tell.
    pub known: Known,
}

/// How to make a report.
#[derive(Clone, Debug)]
pub struct Options {
    /// The length of a slot, whole seconds up to an hour; `None` means [`crate::auto_slot`].
    pub slot: Option<Duration>,
    /// How concurrency and utilisation are shown.
    pub grid: Grid,
    /// Whether the times include aborted requests.
    pub with_aborted: bool,
    /// Rows of the tables of hosts, content types and URLs; 0 means no such tables.
    pub top: usize,
    /// Directory of temporary files; about 50 bytes a request.
    pub spill_dir: PathBuf,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            slot: None,
            grid: Grid::default(),
            with_aborted: false,
            top: 0,
            spill_dir: std::env::temp_dir(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        let needs = Known::KEYS.and(Known::stage(StageName::SwapIn));
        assert_eq!(Known::PROFILE.missing(needs, SourceKind::Profile), None);
        assert_eq!(
            Known::SQUID.missing(needs, SourceKind::Squid).unwrap(),
            "not recorded by this source: time to read from the disk. \
             A log of Squid does not have it; a profile of Loligo does (`log.profile`)."
        );
        let reply = Known::stage(StageName::ServerReply);
        let why = Known::SQUID.missing(reply, SourceKind::Squid).unwrap();
        assert!(why.contains("logformat"), "{why}");
        let more = Known::SQUID.with_stages(&[StageName::SwapIn]);
        assert_eq!(more.missing(needs, SourceKind::Squid), None);
        assert_eq!(Known::PROFILE.words().len(), 24);
        assert!(!Known::VERSION_1.has(Known::stage(StageName::Wait)));
    }
}
