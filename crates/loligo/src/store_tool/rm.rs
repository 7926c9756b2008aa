//! `loligo store rm`: durable invalidations in a store that is not open elsewhere.
//!
//! Removals go into the store's log, as in a running proxy, so they also apply to records that only a scan would find. The space
//! is used again when the hand comes by.

use serde_json::json;

use super::args::RmFlags;
use super::opened::change;
use super::output::{Failure, say};
use super::stored::{key_of_prefix, key_of_url};

/// The kind of predicate that matches keys beginning with the pattern, see [`store::Settings::manner`].
const PREFIX: u8 = 1;

pub fn rm(flags: &RmFlags) -> Result<(), Failure> {
    let what = &flags.what;
    let name = match (&what.url, &what.prefix) {
        (Some(url), _) => url.clone(),
        (_, Some(prefix)) => format!("everything that begins with {prefix}"),
        _ => "everything".to_owned(),
    };
    let key = match &what.url {
        None => None,
        Some(url) => Some(key_of_url(url, None).ok_or_else(|| {
            Failure::wanting(format!(
                "{url}: this is no URL of a web page; write it whole, with http:// or https://"
            ))
        })?),
    };
    let prefix = what.prefix.as_deref().map(key_of_prefix);
    let found = change(&flags.path, |store| match &key {
        // The URL with all its tags and variants.
        Some(key) => {
            let invalidated = store.invalidate(store.hasher().hash(key));
            // Before a scan, a record that is not in the index may still be on disk.
            let all_known = store.recovery().is_none();
            let found = (invalidated.indexed || all_known).then_some(invalidated.indexed);
            (Ok(found), vec![invalidated.handle])
        }
        None => match store.invalidate_matching(PREFIX, &prefix.unwrap_or_default()) {
            Ok(handle) => (Ok(None), vec![handle]),
            Err(error) => (Err(error), Vec::new()),
        },
    })?;
    let found = found.map_err(|error| Failure::wanting(format!("{name}: {error}")))?;
    if flags.json {
        return say(json!({ "removed": name, "found": found }));
    }
    match found {
        Some(false) => say(format_args!(
            "{name}: nothing known under this URL; whatever there was is not valid any more"
        )),
        _ => say(format_args!("{name}: removed")),
    }
}
