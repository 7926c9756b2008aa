//! The records of requests, as the profile has them.

use std::{fs::File, io::BufReader, path::PathBuf};

use ::proxy::plan::Plan;
use profile::{Encryption, Flags, Item, Reader, Record, Stage, StageName};
use tempfile::TempDir;

use super::{
    Proxy, eventually,
    way::{self, Way},
};

/// A profile file of its own.
pub struct Profile(TempDir);

impl Profile {
    pub fn new() -> Profile {
        Profile(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("profile")
    }

    /// The plan with this profile.
    pub fn under(&self, mut plan: Plan) -> Plan {
        plan.logs.profile = Some(self.path());
        plan
    }

    /// Until the record of a request is in the file.
    #[track_caller]
    pub fn await_request(&self) {
        eventually("a request has its record", || {
            let file = BufReader::new(File::open(self.path()).ok()?);
            // The last record may be on its way.
            let mut items = Reader::new(file).ok()?.map_while(Result::ok);
            items.find_map(Item::request).map(drop)
        });
    }

    /// Stops the proxy; the records of all requests, in the order in which they began.
    #[track_caller]
    pub fn records(&self, proxy: Proxy) -> Vec<Record> {
        proxy.stop();
        let file = BufReader::new(File::open(self.path()).unwrap());
        let items = Reader::new(file).unwrap();
        let items = items.map(|item| item.expect("the file is whole"));
        let mut records: Vec<_> = items.filter_map(Item::request).collect();
        records.sort_by_key(|record| record.began_unix_us);
        // The way of the run is not what the test is about.
        if way::way() != Way::Plain {
            for record in &mut records {
                assert!(record.flags.contains(Flags::TLS_CLIENT), "{record:#?}");
                record.flags = record.flags.without(Flags::TLS_CLIENT);
                record.encryption = Encryption::None;
            }
        }
        for record in &records {
            assert_sound(record);
        }
        records
    }

    /// Of a proxy that had one request.
    #[track_caller]
    pub fn only(&self, proxy: Proxy) -> Record {
        let records = self.records(proxy);
        assert_eq!(records.len(), 1, "{records:#?}");
        records[0]
    }
}

/// A stage that must be there.
#[track_caller]
pub fn stage(record: &Record, name: StageName) -> Stage {
    let stage = record.stage(name);
    stage.unwrap_or_else(|| panic!("no {}: {record:#?}", name.as_str()))
}

/// The stages that are there.
pub fn stages(record: &Record) -> Vec<&'static str> {
    let all = StageName::ALL.into_iter();
    let there = all.filter(|&name| record.stage(name).is_some());
    there.map(StageName::as_str).collect()
}

/// What holds for every record: each stage lies within its request, its first byte within the stage, and a request that shared
/// another's fetch claims nothing of the server.
#[track_caller]
pub fn assert_sound(record: &Record) {
    for name in StageName::ALL {
        let Some(Stage {
            start_us,
            first_us,
            total_us,
        }) = record.stage(name)
        else {
            continue;
        };
        let name = name.as_str();
        assert!(first_us <= total_us, "{name}: first byte: {record:#?}");
        let end = u64::from(start_us) + u64::from(total_us);
        assert!(end <= record.total_us.into(), "{name}: end: {record:#?}");
    }
    let server = [
        StageName::Dns,
        StageName::ProxyConnect,
        StageName::ServerReply,
        StageName::SwapOut,
    ];
    if record.class == profile::Class::Collapsed {
        assert!(record.stage(StageName::Wait).is_some(), "{record:#?}");
        for name in server {
            assert_eq!(record.stage(name), None, "{record:#?}");
        }
        assert_eq!(record.hierarchy, profile::Hierarchy::None);
    }
    let starts = server.map(|name| record.stage(name).map(|stage| stage.start_us));
    let starts: Vec<u32> = starts[..3].iter().copied().flatten().collect();
    assert!(starts.is_sorted(), "in order: {record:#?}");
}
