//! `loligo store init`: an empty store in a new file, or on a block device.
//!
//! The device crate refuses a file or device that is in use or has a foreign signature; other content is refused here. With
//! `--force` both ends are wiped first, so that no program finds the former content's signature on the store.

use std::path::Path;

use device::{Device, OpenOptions};
use serde_json::json;
use store::{Geometry, OpenPlan, Settings, Store};

use super::args::InitFlags;
use super::opened::{identity, start_of, write_opening};
use super::output::{Failure, say};
use super::show;

pub fn init(flags: &InitFlags) -> Result<(), Failure> {
    let path = &flags.path;
    let unusable = |message: String| Failure::unusable(path, message);
    // Get randomness before anything is created.
    let identity = identity().map_err(unusable)?;
    let chunk_bytes = u32::try_from(flags.chunk).unwrap_or(u32::MAX);
    let plan = |size, chunk_bytes| {
        Geometry::plan(size, chunk_bytes).map_err(|error| unusable(error.to_string()))
    };
    plan(flags.size.unwrap_or(u64::from(u32::MAX)), chunk_bytes)?;
    let options = OpenOptions {
        size_bytes: flags.size,
        create: true,
        force: flags.force,
        ..OpenOptions::default()
    };
    let opened = Device::open(path, options).map_err(|error| match error {
        device::OpenError::SizeNeeded { .. } => unusable(
            "there is no such file yet: say how large it shall be, for example --size 10GiB".into(),
        ),
        error => error.into(),
    })?;
    let device = opened.device;
    let io = |error: device::IoFault| unusable(error.to_string());
    if !opened.created {
        refuse_what_is_there(path, &start_of(&device).map_err(io)?, flags.force)?;
    }
    let geometry = plan(device.size(), chunk_bytes.max(device.logical_block_bytes()))?;
    // Wipe last, after all checks that could still fail.
    if !opened.created && flags.force {
        device.wipe_signatures().map_err(io)?;
    }
    let store = Store::create(geometry, &Settings::default(), identity);
    write_opening(&device, &store).map_err(io)?;
    let geometry = store.geometry();
    if flags.json {
        return say(json!({
            "path": path.display().to_string(),
            "bytes": geometry.total_bytes,
            "data_bytes": geometry.data_bytes(),
            "chunk_bytes": geometry.chunk_bytes,
        }));
    }
    say(format_args!(
        "{}: an empty store of {}, {} of it for objects",
        path.display(),
        show::size(geometry.total_bytes),
        show::size(geometry.data_bytes())
    ))?;
    say(format_args!(
        "use it: loligo serve --store {}",
        path.display()
    ))
}

fn refuse_what_is_there(path: &Path, start: &[u8], force: bool) -> Result<(), Failure> {
    if force || start.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    let any = Geometry::plan(Geometry::MIN_STORE_BYTES, Geometry::CHUNK_BYTES_DEFAULT);
    let any = any.map_err(|error| Failure::unusable(path, error))?;
    let what = match OpenPlan::of(start, &any) {
        OpenPlan::Recover { .. } | OpenPlan::Fresh { .. } => "there is a Loligo store here",
        // A store of another version, or other content.
        OpenPlan::Refused { message } if message.contains("version") => {
            "there is a Loligo store of another format version here"
        }
        OpenPlan::Refused { .. } => "there is something else here",
    };
    Err(Failure::unusable(
        path,
        format_args!(
            "{what}; nothing was written. If it is not needed: loligo store init --force {}",
            path.display()
        ),
    ))
}
