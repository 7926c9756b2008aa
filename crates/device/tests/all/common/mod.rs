//! What the tests share: devices of all sorts, and a worker to run an engine on.
#![allow(dead_code, reason = "each test file uses its part")]

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use device::{Device, Engine, EngineKind, OpenOptions, Opened, uring_available};

/// A directory on a real disk if there is one: `/tmp` is often memory.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// A new file device, and its directory, which must outlive it.
pub fn file(size: u64, direct: bool) -> (tempfile::TempDir, PathBuf, Arc<Device>) {
    let directory = directory();
    let path = directory.path().join("store");
    let opened = create(&path, size, direct).unwrap();
    assert!(opened.created);
    (directory, path, opened.device)
}

pub fn create(
    path: &std::path::Path,
    size: u64,
    direct: bool,
) -> Result<Opened, device::OpenError> {
    Device::open(
        path,
        OpenOptions {
            size_bytes: Some(size),
            create: true,
            direct,
            ..OpenOptions::default()
        },
    )
}

/// The engines that work here for a file.
pub fn kinds() -> Vec<EngineKind> {
    match uring_available() {
        Ok(()) => vec![EngineKind::Uring, EngineKind::Threads],
        Err(error) => {
            eprintln!("without io_uring: {error}");
            vec![EngineKind::Threads]
        }
    }
}

/// Runs a test on a started engine, as a worker would.
pub fn on_worker(kind: EngineKind, device: Arc<Device>, test: impl AsyncFnOnce(Rc<Engine>)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let engine = Rc::new(Engine::new(kind, device).unwrap());
        engine.start();
        test(engine).await;
    });
}

/// Runs a test with every engine on a new file, direct and buffered.
pub fn on_every_file(size: u64, test: impl AsyncFn(Rc<Engine>)) {
    for kind in kinds() {
        for direct in [true, false] {
            let (_directory, _, device) = file(size, direct);
            on_worker(kind, device, async |engine| test(engine).await);
        }
    }
}

/// Bytes that tell where they belong.
pub fn pattern(at: u64, len: usize) -> Vec<u8> {
    (at..at + len as u64)
        .map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8)
        .collect()
}
