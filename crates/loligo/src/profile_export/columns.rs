//! The two tables of an export, column by column: requests and events.
//!
//! A row has a cell for each column, in the table's order. A missing value is null, never zero: a stage that the request did not pass
//! through, a server that was not asked, and all columns that files of version 1 do not have.
//!
//! Not known here: CSV, Parquet, files.

use profile::{Encryption, Event, Flags, Hierarchy, Record, StageName};

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Microseconds since 1970, UTC.
    Time,
    /// UTF-8; few values, often repeated.
    Text,
    /// True or false.
    Flag,
    /// 8 bits without sign.
    U8,
    /// 16 bits without sign.
    U16,
    /// 32 bits without sign.
    U32,
    /// 64 bits without sign.
    U64,
}

impl Kind {
    /// The name of the type in SQL, as DuckDB calls it.
    #[cfg(test)]
    pub fn sql(self) -> &'static str {
        match self {
            Kind::Time => "TIMESTAMPTZ",
            Kind::Text => "VARCHAR",
            Kind::Flag => "BOOLEAN",
            Kind::U8 => "UTINYINT",
            Kind::U16 => "USMALLINT",
            Kind::U32 => "UINTEGER",
            Kind::U64 => "UBIGINT",
        }
    }
}

/// One column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The type.
    pub kind: Kind,
    /// False: the column is never null.
    pub is_nullable: bool,
}

/// One value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A number or a time.
    Number(u64),
    /// Text.
    Text(&'a str),
    /// True or false.
    Flag(bool),
}

impl<N: Into<u64>> From<N> for Cell<'_> {
    fn from(number: N) -> Self {
        Cell::Number(number.into())
    }
}

impl<'a> Cell<'a> {
    fn if_some<N: Into<u64>>(number: Option<N>) -> Cell<'a> {
        number.map_or(Cell::Null, Cell::from)
    }
}

/// The profile that rows come from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The file, as typed.
    pub name: &'a str,
    /// The identifier of the secret with which keys are hashed; 0: there are no keys.
    pub keys_id: u32,
}

fn column(name: impl Into<String>, kind: Kind) -> Column {
    Column {
        name: name.into(),
        kind,
        is_nullable: true,
    }
}

fn filled(name: &str, kind: Kind) -> Column {
    Column {
        is_nullable: false,
        ..column(name, kind)
    }
}

/// The columns of the table of requests.
pub fn of_requests() -> Vec<Column> {
    let mut all = vec![
        filled("source", Kind::Text),
        filled("began", Kind::Time),
        filled("total_us", Kind::U32),
        filled("class", Kind::Text),
        filled("method", Kind::Text),
        column("hierarchy", Kind::Text),
        column("status", Kind::U16),
        filled("bytes_out", Kind::U64),
        column("bytes_in", Kind::U64),
        column("object_bytes", Kind::U64),
        column("keys_id", Kind::U32),
        column("key", Kind::U64),
        column("server", Kind::U32),
        column("client", Kind::U32),
        column("http_client", Kind::Text),
        column("http_server", Kind::Text),
        column("tls_version", Kind::Text),
        column("tls_resumed", Kind::Flag),
        column("worker", Kind::U8),
        column("peer", Kind::U8),
        column("store", Kind::U8),
        column("device_reads", Kind::U8),
        column("cluster", Kind::U64),
    ];
    all.extend(Flags::ALL.map(|(_, name)| column(name, Kind::Flag)));
    for stage in StageName::ALL {
        let stage = stage.as_str().replace('-', "_");
        for part in ["start", "first", "total"] {
            all.push(column(format!("{stage}_{part}_us"), Kind::U32));
        }
    }
    all
}

/// Replaces `row` by the cells of one request.
pub fn request<'a>(record: &Record, source: Source<'a>, row: &mut Vec<Cell<'a>>) {
    let some = |is_so: bool, cell: Cell<'a>| if is_so { cell } else { Cell::Null };
    let is_2 = record.version > 1;
    let asked = record.hierarchy != Hierarchy::None;
    let asked_a_peer = asked && record.hierarchy != Hierarchy::Direct;
    let writes = record.stage(StageName::SwapOut).is_some();
    let swaps = writes || record.stage(StageName::SwapIn).is_some();
    let names = record.names;
    let client = names.map(|names| names.client).filter(|&id| id != 0);
    let server = names.map(|names| names.server).filter(|_| asked);
    row.clear();
    row.extend([
        Cell::Text(source.name),
        record.began_unix_us.into(),
        record.total_us.into(),
        Cell::Text(record.class.as_str()),
        Cell::Text(record.method.as_str()),
        some(is_2, Cell::Text(record.hierarchy.as_str())),
        some(record.status != 0, record.status.into()),
        record.bytes_out.into(),
        some(asked, record.bytes_in.into()),
        some(record.object_bytes != 0, record.object_bytes.into()),
        some(names.is_some(), source.keys_id.into()),
        Cell::if_some(names.map(|names| names.key)),
        Cell::if_some(server),
        Cell::if_some(client),
        protocol(record.http_client.as_str()),
        protocol(record.http_server.as_str()),
        protocol(record.encryption.version()),
        some(
            record.encryption != Encryption::None,
            Cell::Flag(record.encryption.is_resumed()),
        ),
        some(is_2, record.worker.into()),
        some(asked_a_peer, record.peer.into()),
        some(is_2 && swaps, record.store.into()),
        some(is_2, record.device_reads.into()),
        some(writes && record.cluster != 0, record.cluster.into()),
    ]);
    row.extend(Flags::ALL.map(|(flag, _)| some(is_2, Cell::Flag(record.flags.contains(flag)))));
    for name in StageName::ALL {
        let stage = record.stage(name);
        row.push(Cell::if_some(stage.map(|it| it.start_us)));
        row.push(Cell::if_some(stage.map(|it| it.first_us)));
        row.push(Cell::if_some(stage.map(|it| it.total_us)));
    }
}

fn protocol(name: &'static str) -> Cell<'static> {
    if name.is_empty() {
        Cell::Null
    } else {
        Cell::Text(name)
    }
}

/// The columns of the table of events. A second takes a row for each of its gauges.
pub fn of_events() -> Vec<Column> {
    vec![
        filled("source", Kind::Text),
        filled("happened", Kind::Time),
        filled("event", Kind::Text),
        column("total_us", Kind::U32),
        column("wait_us", Kind::U32),
        column("bytes", Kind::U64),
        column("records", Kind::U32),
        column("objects", Kind::U32),
        column("store", Kind::U8),
        column("cluster", Kind::U64),
        column("subject", Kind::Text),
        column("number", Kind::U8),
        column("gauge", Kind::Text),
        column("value", Kind::U64),
        column("mark", Kind::Text),
        column("text", Kind::Text),
    ]
}

/// The cells after `source`, `happened` and `event`.
const EVENT_CELLS: usize = 13;

/// Passes the rows of one event to `take`; none for an event of an unknown kind.
///
/// # Errors
/// Those of `take`.
pub fn event<E>(
    event: &Event,
    source: Source<'_>,
    mut take: impl FnMut(&[Cell<'_>]) -> Result<(), E>,
) -> Result<(), E> {
    let mut row = |at: u64, kind: &'static str, cells: [Cell<'_>; EVENT_CELLS]| {
        let mut row = [Cell::Null; 3 + EVENT_CELLS];
        row[..3].copy_from_slice(&[Cell::Text(source.name), at.into(), Cell::Text(kind)]);
        row[3..].copy_from_slice(&cells);
        take(&row)
    };
    match event {
        Event::Write(it) => {
            let mut cells = [Cell::Null; EVENT_CELLS];
            cells[0] = it.total_us.into();
            cells[2] = it.bytes.into();
            cells[3] = it.records.into();
            cells[5] = it.store.into();
            cells[6] = it.cluster.into();
            row(it.start_unix_us, "write", cells)
        }
        Event::Read(it) => {
            let mut cells = [Cell::Null; EVENT_CELLS];
            cells[0] = it.total_us.into();
            cells[1] = it.wait_us.into();
            cells[2] = it.bytes.into();
            cells[4] = it.objects.into();
            cells[5] = it.store.into();
            row(it.start_unix_us, "read", cells)
        }
        Event::Second(it) => {
            for &(gauge, value) in &it.gauges {
                let mut cells = [Cell::Null; EVENT_CELLS];
                cells[7] = Cell::Text(it.subject.as_str());
                cells[8] = it.number.into();
                cells[9] = Cell::Text(gauge.as_str());
                cells[10] = value.into();
                row(it.at_unix_us, "second", cells)?;
            }
            Ok(())
        }
        Event::Mark(it) => {
            let mut cells = [Cell::Null; EVENT_CELLS];
            cells[11] = Cell::Text(it.kind.as_str());
            cells[12] = Cell::Text(&it.text);
            row(it.at_unix_us, "mark", cells)
        }
        Event::Unknown => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use profile::{Class, Gauge, Mark, MarkKind, Names, Read, Second, Stage, Subject, Write};

    const SOURCE: Source<'_> = Source {
        name: "a",
        keys_id: 7,
    };

    /// `name=value` for each cell that is not null; asserts that each fits its column.
    pub(crate) fn shown(columns: &[Column], row: &[Cell<'_>]) -> String {
        assert_eq!(columns.len(), row.len());
        let cells = columns.iter().zip(row).filter_map(|(column, cell)| {
            let name = &column.name;
            match (column.kind, cell) {
                (_, Cell::Null) => {
                    assert!(column.is_nullable, "{name}");
                    None
                }
                (Kind::Text, Cell::Text(text)) => Some(format!("{name}={text}")),
                (Kind::Flag, Cell::Flag(is_so)) => is_so.then(|| name.clone()),
                (kind, Cell::Number(number)) => {
                    let max = match kind {
                        Kind::U8 => u8::MAX.into(),
                        Kind::U16 => u16::MAX.into(),
                        Kind::U32 => u32::MAX.into(),
                        Kind::Time | Kind::U64 => u64::MAX,
                        Kind::Text | Kind::Flag => panic!("{name} is no number"),
                    };
                    assert!(*number <= max, "{name}");
                    Some(format!("{name}={number}"))
                }
                (kind, cell) => panic!("{name} is {kind:?}, not {cell:?}"),
            }
        });
        cells.collect::<Vec<_>>().join(" ")
    }

    fn shown_request(record: &Record) -> String {
        let mut row = vec![Cell::Null];
        request(record, SOURCE, &mut row);
        shown(&of_requests(), &row)
    }

    #[test]
    fn a_request_has_what_it_went_through() {
        let mut record = Record::begun(1_700_000_000_000_000);
        assert_eq!(
            shown_request(&record),
            "source=a began=1700000000000000 total_us=0 class=error method=- hierarchy=none bytes_out=0 worker=0 device_reads=0"
        );
        record.class = Class::Miss;
        record.status = 200;
        record.hierarchy = Hierarchy::Direct;
        record.flags = Flags::REUSED_CLIENT;
        (record.cluster, record.bytes_in, record.object_bytes) = (9, 300, 250);
        record.names = Some(Names {
            key: u64::MAX,
            client: 0,
            server: 3,
        });
        let stage = Stage {
            start_us: 1,
            first_us: 2,
            total_us: 3,
        };
        record.set_stage(StageName::SwapOut, stage);
        assert_eq!(
            shown_request(&record),
            "source=a began=1700000000000000 total_us=0 class=miss method=- hierarchy=direct status=200 bytes_out=0 bytes_in=300 \
             object_bytes=250 keys_id=7 key=18446744073709551615 server=3 worker=0 store=0 device_reads=0 cluster=9 reused_client \
             swap_out_start_us=1 swap_out_first_us=2 swap_out_total_us=3"
        );
    }

    #[test]
    fn version_1_has_nulls_where_it_says_nothing() {
        let mut record = Record::begun(5);
        record.version = 1;
        assert_eq!(
            shown_request(&record),
            "source=a began=5 total_us=0 class=error method=- bytes_out=0"
        );
    }

    #[test]
    fn events_are_rows() {
        let gauges = vec![(Gauge::UserUs, 5), (Gauge::SystemUs, 6)];
        let events = [
            Event::Write(Write {
                start_unix_us: 1,
                total_us: 2,
                bytes: 3,
                records: 4,
                store: 5,
                cluster: 6,
            }),
            Event::Read(Read {
                start_unix_us: 1,
                wait_us: 2,
                total_us: 3,
                bytes: 4,
                objects: 5,
                store: 6,
            }),
            Event::Second(Second {
                at_unix_us: 1,
                subject: Subject::Process,
                number: 0,
                gauges,
            }),
            Event::Mark(Mark {
                at_unix_us: 1,
                kind: MarkKind::Purge,
                text: "url".to_owned(),
            }),
            Event::Unknown,
        ];
        let mut lines = Vec::new();
        for it in &events {
            let taken: Result<(), ()> = event(it, SOURCE, |row| {
                lines.push(shown(&of_events(), row));
                Ok(())
            });
            taken.unwrap();
        }
        assert_eq!(
            lines,
            [
                "source=a happened=1 event=write total_us=2 bytes=3 records=4 store=5 cluster=6",
                "source=a happened=1 event=read total_us=3 wait_us=2 bytes=4 objects=5 store=6",
                "source=a happened=1 event=second subject=process number=0 gauge=user_us value=5",
                "source=a happened=1 event=second subject=process number=0 gauge=system_us value=6",
                "source=a happened=1 event=mark mark=purge text=url",
            ]
        );
    }

    #[test]
    fn the_documentation_has_every_column() {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/profile-export.md"
        ))
        .unwrap();
        let mut rows = text.lines().filter(|line| line.starts_with("| `"));
        for column in of_requests().iter().chain(&of_events()) {
            // Each stage has three columns, which are described once for all stages.
            let stage = StageName::ALL.map(|it| it.as_str().replace('-', "_"));
            if stage
                .iter()
                .any(|stage| column.name.starts_with(&format!("{stage}_")))
            {
                continue;
            }
            let begin = format!("| `{}` | {} |", column.name, column.kind.sql());
            assert!(rows.any(|row| row.starts_with(&begin)), "{begin}");
        }
    }
}
