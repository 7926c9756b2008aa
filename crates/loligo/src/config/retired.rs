//! Settings of earlier versions that are no longer needed, and their replacements.
//!
//! A file may still have them: each causes a note with its line, and is otherwise ignored.

const RETIRED: &[(&str, &str)] = &[
    (
        "limits.target-max",
        "a request target may be as long as limits.head-max, at most 64KiB",
    ),
    (
        "limits.transfer-max",
        "one transfer may hold a 64th of limits.transfer-buffer",
    ),
    ("pool.idle-max", "it follows from pool.per-origin-max"),
    (
        "pool.idle-per-origin-max",
        "it follows from pool.per-origin-max",
    ),
    (
        "store.chunk",
        "a store keeps the chunks it was made with; a new one has chunks of 512 bytes or of its device's blocks, if they are larger. \
         A store of an older version starts empty; make it anew with `loligo store init --chunk`",
    ),
    (
        "store.cluster",
        "objects are gathered up to 1MiB a write; for experiments there is experimental.cluster",
    ),
    (
        "store.cluster-deadline",
        "what is gathered is written after a second at the latest",
    ),
    (
        "store.fragment",
        "objects longer than 1MiB are stored in pieces of 1MiB; for experiments there is experimental.fragment",
    ),
    (
        "store.group-reads",
        "where reads take long (store.lazy-reads) they bring along up to 64KiB; for experiments there is experimental.group-reads",
    ),
    (
        "store.high-watermark",
        "where objects leave one by one, eviction begins at 97 % and ends at 95 %; for experiments there is experimental.high-watermark",
    ),
    (
        "store.lazy-reads-deadline",
        "where reads wait for each other (store.lazy-reads), they wait 2ms at most",
    ),
    (
        "store.locality-buffers",
        "where reads take long (store.lazy-reads) objects are gathered for 128 servers, elsewhere for none; for experiments there is experimental.locality-buffers",
    ),
    (
        "store.low-watermark",
        "where objects leave one by one, eviction begins at 97 % and ends at 95 %; for experiments there is experimental.low-watermark",
    ),
];

/// The replacement of this setting, if it has retired.
pub fn instead(key: &str) -> Option<&'static str> {
    RETIRED
        .iter()
        .find(|(name, _)| *name == key)
        .map(|(_, instead)| *instead)
}

#[cfg(test)]
mod tests {
    use crate::config::testing::settle;

    #[test]
    fn a_setting_of_an_earlier_version_is_noted_and_does_nothing() {
        let old = settle("[store]\npath = \"/x/a\"\nchunk = 4096\n[pool]\nidle-max = 7\n").unwrap();
        assert_eq!(
            old.notes,
            [
                "loligo.toml:3: store.chunk = 4096: has no effect any more, take it out: a store keeps the chunks it was made with; \
                 a new one has chunks of 512 bytes or of its device's blocks, if they are larger. \
                 A store of an older version starts empty; make it anew with `loligo store init --chunk`",
                "loligo.toml:5: pool.idle-max = 7: has no effect any more, take it out: it follows from pool.per-origin-max",
            ]
        );
        assert_eq!(old.plan, settle("store.path = \"/x/a\"").unwrap().plan);
    }
}
