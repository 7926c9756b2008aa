//! Opening a store: to read, without changing it; or exclusively, to change it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use device::{Access, AlignedBuf, Device, OpenError, OpenOptions};
use store::{
    DurabilityHandle, Found, Geometry, Identity, Inspection, OpenPlan, Settings, Settled, Store,
    Summary, Superblock, WorkOp,
};

use super::output::{Failure, note};
use super::show;

/// How long a device that refuses a request is tried again.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// A store opened to be read.
pub struct ReadStore {
    /// The device with its bytes.
    pub device: Arc<Device>,
    /// Its records.
    pub inspection: Inspection,
    /// The state of its other parts.
    pub summary: Summary,
}

impl ReadStore {
    /// Opens the store without the scan that a start might need. `direct`: past the page cache, so that reads return the
    /// bytes on the disk.
    pub fn open(path: &Path, direct: bool) -> Result<Self, Failure> {
        let options = OpenOptions {
            access: Access::ReadOnly,
            direct,
            ..OpenOptions::default()
        };
        let device = open_existing(path, options)?;
        let superblock = superblock(&device)?;
        let found = found(&device, &superblock);
        let summary = Summary::of(&superblock, &found);
        let inspection = Inspection::of(superblock, &found, &settings());
        Ok(Self {
            device,
            inspection,
            summary,
        })
    }

    /// Opens the store and finds all records, if need be by a scan.
    pub fn open_whole(path: &Path, direct: bool) -> Result<Self, Failure> {
        let this = Self::open(path, direct)?;
        let recovered = this.inspection.recovered();
        if recovered.empty || this.inspection.recovery().is_some() {
            note(format_args!("{}: {}", path.display(), recovered.words));
        }
        this.scan();
        Ok(this)
    }

    fn scan(&self) {
        let Some(progress) = self.inspection.recovery() else {
            return;
        };
        let bar = show::Bar::new("scan", progress.total_bytes);
        while let Some(read) = self.inspection.next_read() {
            let bytes = self.read(read.offset, read.len).ok();
            self.inspection.read_done(read, bytes);
            if let Some(progress) = self.inspection.recovery() {
                bar.at(progress.done_bytes);
            }
        }
    }

    /// Reads so many bytes.
    pub fn read(&self, offset: u64, len: usize) -> Result<Bytes, device::IoFault> {
        let mut bytes = vec![0; len];
        self.device.read_exact_sync(offset, &mut bytes)?;
        Ok(bytes.into())
    }
}

/// Opens a store exclusively, lets `change` invalidate records, and closes the store when the invalidations are durable.
///
/// Closing begins at once, so no region is swept or noted to make room: all records that are not invalidated stay.
pub fn change<T>(
    path: &Path,
    change: impl FnOnce(&Store) -> (T, Vec<DurabilityHandle>),
) -> Result<T, Failure> {
    let device = open_existing(path, OpenOptions::default())?;
    let unusable = |message: String| Failure::unusable(path, message);
    let superblock = superblock(&device)?;
    let found = found(&device, &superblock);
    let settings = settings().as_left(&superblock);
    let identity = identity().map_err(unusable)?.placed_as(&superblock);
    let (store, recovered) = Store::recover(superblock, &found, &settings, identity);
    if recovered.empty {
        return Err(unusable(format!(
            "{}, so there is nothing to remove; the next start of a proxy makes it anew",
            recovered.words
        )));
    }
    write_opening(&device, &store).map_err(|error| unusable(error.to_string()))?;
    let (result, handles) = change(&store);
    store.begin_close();
    close(&device, &store).map_err(unusable)?;
    let durable = |handle: &DurabilityHandle| store.settled(*handle) == Settled::Durable;
    if handles.iter().all(durable) {
        Ok(result)
    } else {
        Err(unusable(
            "the log did not take all of it, so it may not last; try again".into(),
        ))
    }
}

fn open_existing(path: &Path, options: OpenOptions) -> Result<Arc<Device>, Failure> {
    match Device::open(path, options) {
        Ok(opened) => Ok(opened.device),
        // The error's advice is for making a store.
        Err(OpenError::SizeNeeded { .. } | OpenError::TooShort { .. }) => Err(Failure::unusable(
            path,
            "this is no Loligo store: it is too short to be one",
        )),
        Err(OpenError::Missing { .. }) => Err(Failure::unusable(
            path,
            format_args!(
                "there is no such file; is the name right? To make a store: loligo store init {} --size 10GiB",
                path.display()
            ),
        )),
        Err(error) => Err(error.into()),
    }
}

fn close(device: &Device, store: &Store) -> Result<(), String> {
    let start = Instant::now();
    // Time since the start: the store needs a monotonic clock, not the date.
    let now_ms = || start.elapsed().as_millis() as u64;
    let mut refused = None;
    loop {
        while let Some(work) = store.next_work(now_ms()) {
            let done = match work.op {
                WorkOp::Write { offset, data } => device.write_all_sync(offset, &data),
                WorkOp::Flush => device.flush_sync(),
                // A scan does not continue while the store closes.
                WorkOp::Read { .. } | WorkOp::Yield => Ok(()),
            };
            let done = done.map(|()| None).map_err(|error| refused = Some(error));
            store.work_done(work.id, done, now_ms());
        }
        if store.is_closed() {
            return Ok(());
        }
        if start.elapsed() >= PATIENCE && refused.is_some() {
            let why = refused.map_or_else(String::new, |error| error.to_string());
            return Err(format!("not everything could be made durable: {why}"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Writes the marks of an open store, each flushed before the next.
pub fn write_opening(device: &Device, store: &Store) -> Result<(), device::IoFault> {
    for (offset, data) in store.opening() {
        device.write_all_sync(offset, &data)?;
        device.flush_sync()?;
    }
    Ok(())
}

/// Randomness for a new store.
pub fn identity() -> Result<Identity, String> {
    let mut random = [0; Identity::RANDOM_BYTES];
    getrandom::fill(&mut random)
        .map_err(|error| format!("the system gives no random numbers: {error}"))?;
    Ok(Identity::new(random))
}

/// The first bytes of the device: as many bytes as a superblock has, or all bytes of a shorter device.
pub fn start_of(device: &Device) -> Result<Vec<u8>, device::IoFault> {
    let mut start = vec![0; Superblock::BYTES.min(device.size() as usize)];
    device.read_exact_sync(0, &mut start)?;
    Ok(start)
}

/// The superblock; the error says what else is on the device, and what to do.
fn superblock(device: &Device) -> Result<Superblock, Failure> {
    let path = device.path();
    let unusable = |message: String| Failure::unusable(path, message);
    let start = start_of(device).map_err(|error| unusable(error.to_string()))?;
    // Any geometry will do: it only decides distinctions that are not needed here.
    let any = Geometry::plan(Geometry::MIN_STORE_BYTES, Geometry::CHUNK_BYTES_DEFAULT)
        .map_err(|error| unusable(error.to_string()))?;
    let superblock = match OpenPlan::of(&start, &any) {
        OpenPlan::Recover { superblock, .. }
        | OpenPlan::Fresh {
            previous: Some(superblock),
            ..
        } => superblock,
        OpenPlan::Fresh {
            previous: None,
            reason,
        } => {
            let blank = start.iter().all(|&byte| byte == 0);
            let what = if blank {
                "there is no store here yet".to_owned()
            } else {
                format!("{reason}, and nothing of it can be read")
            };
            let force = if blank { "" } else { " --force" };
            return Err(unusable(format!(
                "{what}; make an empty one: loligo store init{force} {}",
                path.display()
            )));
        }
        OpenPlan::Refused { message } => return Err(unusable(message)),
    };
    let total = superblock.geometry.total_bytes;
    if total > device.size() {
        return Err(unusable(format!(
            "the store has {total} bytes, but only {} are here: it was cut, or copied in part; copy it again, or remove it",
            device.size()
        )));
    }
    Ok(superblock)
}

fn found(device: &Device, superblock: &Superblock) -> Found {
    let read = |offset: u64, len: usize| {
        let mut bytes = AlignedBuf::zeroed(len);
        let read = device.read_exact_sync(offset, &mut bytes);
        read.ok().map(|()| bytes.into_bytes())
    };
    let [log, journal] = superblock.geometry.logs();
    Found {
        log: read(log.0, log.1),
        journal: read(journal.0, journal.1),
        checkpoint: superblock
            .index
            .and_then(|place| read(place.offset, usize::try_from(place.bytes).ok()?)),
    }
}

/// The proxy's settings, as far as they decide which records are valid.
fn settings() -> Settings {
    Settings {
        manner: proxy::stored::manner,
        words: proxy::stored::words,
        ..Settings::default()
    }
}
