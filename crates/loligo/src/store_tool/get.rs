//! `loligo store get`: one stored response, verified as by the proxy before it serves a copy.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use httpcache::UnixMillis;
use proxy::stored::{Object, fragment_key, hash_of_key, name_of_key};
use store::{Corrupt, ObjectTotal, Place, RecordParts};

use super::args::GetFlags;
use super::opened::ReadStore;
use super::output::{Failure, say};
use super::show;
use super::stored::{Listed, key_of_url, key_of_variant, selecting};

pub fn get(flags: &GetFlags) -> Result<(), Failure> {
    let resource = key_of_url(&flags.url, flags.tag.as_deref()).ok_or_else(|| {
        Failure::wanting(format!(
            "{}: this is no URL of a web page; write it whole, with http:// or https://",
            flags.url
        ))
    })?;
    let store = ReadStore::open_whole(&flags.path, false)?;
    let (key, hint) = key_of(&store, flags, resource);
    let absent = || {
        Failure::wanting(format!(
            "{}: not in the store; {hint}loligo store ls {} --prefix {}",
            flags.url,
            flags.path.display(),
            flags.url
        ))
    };
    let hash = hash_of_key(store.inspection.hasher(), &key);
    let place = store.inspection.find(hash).ok_or_else(absent)?;
    // Without `--tag`, the record found under the URL matches whatever its tag.
    let is_meant =
        |found: &[u8]| found == key || (flags.tag.is_none() && name_of_key(found) == key);
    let parts = match read(&store, place) {
        Ok(parts) if is_meant(&parts.key) => parts,
        // Another key's record: the index knows only part of each hash.
        Ok(_) | Err(Wrong::Corrupt(Corrupt::Invalidated)) => return Err(absent()),
        Err(wrong) => {
            return Err(Failure::wanting(format!(
                "{}: damaged: {}; the proxy would fetch it anew",
                flags.url,
                wrong.words()
            )));
        }
    };
    if flags.json {
        let head = store.head_at(place).map_err(|_| absent())?;
        return say(Listed::of(&store.inspection, &head).json(UnixMillis(show::now_ms())));
    }
    let object = Object::decode(
        hash,
        parts.key.clone(),
        &parts.meta,
        parts.body.clone(),
        None,
    );
    let object = object.ok_or_else(|| {
        Failure::wanting(format!(
            "{}: stored by another version of Loligo, whose metadata this one does not read",
            flags.url
        ))
    })?;
    if let Some(total) = parts.total.filter(|_| !flags.head) {
        check_fragments(&store, flags, &parts.key, &total)?;
    }
    match &flags.output {
        None => print(&store, flags, &object, parts.total, io::stdout().lock()),
        Some(path) => {
            let file = File::create(path).map_err(|error| at_output(path, &error))?;
            let done = print(&store, flags, &object, parts.total, file);
            if done.is_err() {
                // Remove an incomplete response.
                let _ = std::fs::remove_file(path);
            }
            done
        }
    }
}

fn at_output(path: &Path, error: &io::Error) -> Failure {
    Failure::unusable(path, format_args!("cannot be written: {error}"))
}

/// The key under which the response is stored, and the message if it is not there.
fn key_of(store: &ReadStore, flags: &GetFlags, resource: Vec<u8>) -> (Vec<u8>, String) {
    let primary = (store.inspection.hasher()).hash(name_of_key(&resource));
    let Some(marker) = store.inspection.marker(primary) else {
        return (resource, "see what is: ".into());
    };
    let fields = selecting(&marker);
    let hint = match fields.is_empty() {
        true => "see what is: ".to_owned(),
        false => format!(
            "its variants are selected by {} (--variant 'Field: value', --tag); see ",
            fields.join(", ")
        ),
    };
    (key_of_variant(&resource, &marker, &flags.variant), hint)
}

/// Why a record cannot be read.
enum Wrong {
    Device(device::IoFault),
    Corrupt(Corrupt),
}

impl Wrong {
    fn words(&self) -> String {
        match self {
            Self::Device(fault) => fault.to_string(),
            Self::Corrupt(corrupt) => corrupt.to_string(),
        }
    }
}

fn read(store: &ReadStore, place: Place) -> Result<RecordParts, Wrong> {
    let bytes = store
        .read(store.inspection.offset(place), store.inspection.len(place))
        .map_err(Wrong::Device)?;
    let decoded = store.inspection.decode(place, &bytes);
    decoded.map(|(_, parts)| parts).map_err(Wrong::Corrupt)
}

/// Checks all fragments before the first byte is written.
fn check_fragments(
    store: &ReadStore,
    flags: &GetFlags,
    key: &[u8],
    total: &ObjectTotal,
) -> Result<(), Failure> {
    let there = super::stored::fragments_there(&store.inspection, key, total);
    if there == total.fragments {
        return Ok(());
    }
    Err(Failure::wanting(format!(
        "{}: only {there} of its {} fragments are still there; the proxy would fetch it anew",
        flags.url, total.fragments
    )))
}

fn print(
    store: &ReadStore,
    flags: &GetFlags,
    object: &Object,
    total: Option<ObjectTotal>,
    out: impl Write,
) -> Result<(), Failure> {
    let mut out = BufWriter::new(out);
    if !flags.body {
        out.write_all(&object.head)?;
        out.write_all(b"\r\n")?;
    }
    if !flags.head {
        match total {
            None => out.write_all(&object.body)?,
            Some(total) => print_fragments(store, flags, &object.key, &total, &mut out)?,
        }
    }
    out.flush()?;
    Ok(())
}

fn print_fragments(
    store: &ReadStore,
    flags: &GetFlags,
    key: &[u8],
    total: &ObjectTotal,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let wrong = |number: u32, why: &str| {
        Failure::wanting(format!(
            "{}: fragment {number} is damaged: {why}; what was printed is cut short",
            flags.url
        ))
    };
    let mut bytes = 0;
    for number in 0..total.fragments {
        let key = fragment_key(key, total.fetch_id, number);
        let place = store.inspection.find(store.inspection.hasher().hash(&key));
        let place = place.ok_or_else(|| wrong(number, "it is not there"))?;
        let parts = read(store, place).map_err(|why| wrong(number, &why.words()))?;
        if parts.key != key {
            return Err(wrong(number, "another's record is there"));
        }
        bytes += parts.body.len() as u64;
        out.write_all(&parts.body)?;
    }
    if bytes != total.bytes {
        let why = format!("all together have {bytes} bytes, not {}", total.bytes);
        return Err(wrong(total.fragments, &why));
    }
    Ok(())
}
