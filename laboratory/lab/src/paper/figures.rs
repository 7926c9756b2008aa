//! Figures 2 to 8. The plots themselves did not come down to us; beside ours stands what text and captions say in numbers.

use std::io;

use super::bench::{Bench, Load, Until};
use super::experiment::{Job, each};
use super::printed;
use super::report::{Curve, Curves, Rows, Scale, Section};
use super::tables::{figure_4, job, million, minutes};
use crate::disks::{FileId, Piece, ROOT};
use crate::managers::{Kind, SLOT_BYTES, Settings};

/// How full the file is, in Figures 6 to 8: the paper's 71, 72, 76 and 95 per cent, and some between.
const UTILISATIONS: [f64; 8] = [0.60, 0.66, 0.71, 0.76, 0.82, 0.88, 0.92, 0.95];

fn curve(name: &str, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        name: name.to_owned(),
        printed: false,
        points,
    }
}

fn dashes(name: &str, points: Vec<(f64, f64)>) -> Curve {
    Curve {
        printed: true,
        ..curve(name, points)
    }
}

/// Reads and writes against the size of the disk.
pub fn figure2(bench: &Bench) -> io::Result<Section> {
    const GIB: [u64; 6] = [1, 2, 3, 4, 6, 8];
    bench.watch.begin("figure 2", 0);
    let loads = each(&GIB, |gib| {
        let until = Until::Gets(printed::FIGURE_2_GETS);
        bench.counts(Load::paper(gib << 30, until))
    });
    bench.watch.end();
    let mut rows = Rows::new(
        "Figure 2: disk requests of five million gets",
        &[
            "disk (GiB)",
            "writes",
            "reads",
            "deletes",
            "memory hits (%)",
            "disk hits (%)",
        ],
    );
    let share = |part: u64, of: u64| format!("{:.1}", 100.0 * part as f64 / of as f64);
    for (gib, counts) in GIB.iter().zip(&loads) {
        rows.row([
            gib.to_string(),
            counts.writes.to_string(),
            counts.reads.to_string(),
            counts.deletes.to_string(),
            share(counts.memory_hits, counts.gets),
            share(counts.reads, counts.gets),
        ]);
    }
    let points = |value: &dyn Fn(usize) -> u64| {
        let at = |n: usize| (GIB[n] as f64, value(n) as f64);
        (0..GIB.len()).map(at).collect()
    };
    Ok(Section {
        name: "figure2".to_owned(),
        title: "Figure 2: what the disk is asked".to_owned(),
        text: vec![
            "The paper: around three million writes, slowly fewer as the disk grows; below half a million reads, more as it \
             grows; 3.4 million together."
                .to_owned(),
        ],
        tables: vec![rows],
        plots: vec![Curves {
            caption: "Figure 2: disk requests of five million gets".to_owned(),
            x: Scale::linear("disk (GiB)"),
            y: Scale::linear("requests"),
            joined: false,
            names: Vec::new(),
            curves: vec![
                curve("writes", points(&|n| loads[n].writes)),
                curve("reads", points(&|n| loads[n].reads)),
            ],
        }],
    })
}

/// What it costs to make and to remove a file: 64 files made, then removed, as the paper's benchmark does.
pub fn figure3(bench: &Bench) -> io::Result<Section> {
    const KB: [u32; 8] = [0, 1, 2, 4, 6, 8, 9, 10];
    const FILES: u32 = 64;
    const ROUNDS: u32 = 4;
    let measure = |kb: &u32| -> io::Result<(f64, f64)> {
        let mut disk = bench.model.make();
        let (mut create, mut delete) = (0, 0);
        let bytes = kb * 1024;
        let data = Piece {
            object: 0,
            server: 0,
            size_bytes: bytes,
            from_byte: 0,
            bytes,
        };
        for _ in 0..ROUNDS {
            let begin = disk.now_us();
            for number in 0..FILES {
                let file = FileId { dir: ROOT, number };
                disk.create(file)?;
                if bytes > 0 {
                    disk.write(file, 0, &[data])?;
                }
                disk.close(file)?;
            }
            let made = disk.now_us();
            for number in 0..FILES {
                disk.delete(FileId { dir: ROOT, number })?;
            }
            create += made - begin;
            delete += disk.now_us() - made;
        }
        let ms = |us: u64| us as f64 / 1e3 / f64::from(FILES * ROUNDS);
        Ok((ms(create), ms(delete)))
    };
    let costs = KB.iter().map(measure).collect::<io::Result<Vec<_>>>()?;
    let mut rows = Rows::new(
        "Figure 3: a file made and removed",
        &[
            "size (KB)",
            "create (ms)",
            "delete (ms)",
            "both (ms)",
            "paper",
        ],
    );
    for (kb, (create, delete)) in KB.iter().zip(&costs) {
        let paper = match kb {
            0 => "create above 20",
            4 => "both close to 50",
            10 => "create close to 40, delete 10 to 20 or above 20",
            _ => "",
        };
        rows.row([
            kb.to_string(),
            format!("{create:.1}"),
            format!("{delete:.1}"),
            format!("{:.1}", create + delete),
            paper.to_owned(),
        ]);
    }
    let points = |value: &dyn Fn(usize) -> f64| {
        let at = |n: usize| (f64::from(KB[n]), value(n));
        (0..KB.len()).map(at).collect()
    };
    Ok(Section {
        name: "figure3".to_owned(),
        title: "Figure 3: what a file costs".to_owned(),
        text: vec![
            "The paper's text and caption differ on deletes: above 20 ms, and between 10 and 20 ms.".to_owned(),
        ],
        tables: vec![rows],
        plots: vec![Curves {
            caption: "Figure 3: a file made and removed".to_owned(),
            x: Scale::linear("size (KB)"),
            y: Scale::linear("time (ms)"),
            joined: false,
            names: Vec::new(),
            curves: vec![
                curve("create", points(&|n| costs[n].0)),
                curve("delete", points(&|n| costs[n].1)),
                dashes("create, paper", vec![(0.0, 20.0), (10.0, 40.0)]),
            ],
        }],
    })
}

/// Completion time of a file for each object, against BUDDY.
pub fn figure4(bench: &Bench) -> io::Result<Section> {
    const KINDS: [Kind; 4] = [Kind::Simple, Kind::Squid, Kind::MultipleDirs, Kind::Buddy];
    let jobs = KINDS.map(|kind| job(bench, kind, printed::TABLE_1_UTILISATION));
    let outcomes = bench.run("figure 4", figure_4(), &jobs)?;
    let counts = bench.load(figure_4()).counts;
    let mut rows = Rows::new(
        "Figure 4: 300,000 disk requests, disk of 1 GB",
        &[
            "manager",
            "paper (s)",
            "here (s)",
            "paper (gets/s)",
            "here (gets/s)",
        ],
    );
    let paper_s = |at: usize| printed::FIGURE_4_GETS as f64 * bench.scale / printed::TABLE_2[at].1;
    for (at, (kind, outcome)) in KINDS.iter().zip(&outcomes).enumerate() {
        rows.row([
            kind.name().to_owned(),
            format!("{:.0}", paper_s(at)),
            format!("{:.0}", outcome.seconds),
            format!("{}", printed::TABLE_2[at].1),
            format!("{:.1}", outcome.gets_per_s),
        ]);
    }
    let bars = |value: &dyn Fn(usize) -> f64| (0..4).map(|n| (n as f64, value(n))).collect();
    Ok(Section {
        name: "figure4".to_owned(),
        title: "Figure 4: a file for each object, or not".to_owned(),
        text: vec![format!(
            "{} gets made these requests (paper: {}): {} writes, {} reads, {} deletes. BUDDY is further from the paper here than \
             with a million requests: most of its slots are new, at the end of its files, and nothing is read before it is \
             written.",
            counts.gets,
            printed::FIGURE_4_GETS,
            counts.writes,
            counts.reads,
            counts.deletes
        )],
        tables: vec![rows],
        plots: vec![Curves {
            caption: "Figure 4: time for 300,000 disk requests".to_owned(),
            x: Scale::linear(""),
            y: Scale::linear("time (s)"),
            joined: false,
            names: KINDS.map(|kind| kind.name().to_owned()).to_vec(),
            curves: vec![
                dashes("paper", bars(&paper_s)),
                curve("here", bars(&|n| outcomes[n].seconds)),
            ],
        }],
    })
}

/// BUDDY against its threshold.
pub fn figure5(bench: &Bench) -> io::Result<Section> {
    const BLOCKS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
    let until = Until::Requests(printed::FIGURE_5_REQUESTS);
    let load = Load::paper(printed::DISK_BYTES, until);
    let jobs = BLOCKS.map(|blocks| Job {
        settings: Settings {
            threshold_bytes: blocks * SLOT_BYTES,
            ..Settings::default()
        },
        ..job(bench, Kind::Buddy, printed::TABLE_1_UTILISATION)
    });
    let outcomes = bench.run("figure 5", load, &jobs)?;
    let mut rows = Rows::new(
        "Figure 5: BUDDY, 400,000 disk requests",
        &["threshold (blocks)", "time (s)", "files made"],
    );
    for (blocks, outcome) in BLOCKS.iter().zip(&outcomes) {
        rows.row([
            blocks.to_string(),
            format!("{:.0}", outcome.seconds),
            outcome.calls.creates.to_string(),
        ]);
    }
    let points = BLOCKS.iter().zip(&outcomes);
    let points = points.map(|(&b, o)| (f64::from(b), o.seconds)).collect();
    Ok(Section {
        name: "figure5".to_owned(),
        title: "Figure 5: the threshold of BUDDY".to_owned(),
        text: vec![
            "The paper: the time falls fast up to ten blocks, then slower, and is almost at its best at 256 (128 KB)."
                .to_owned(),
        ],
        tables: vec![rows],
        plots: vec![Curves {
            caption: "Figure 5: time of BUDDY for 400,000 disk requests".to_owned(),
            x: Scale::log("threshold (blocks of 512 bytes)"),
            y: Scale::linear("time (s)"),
            joined: false,
            names: Vec::new(),
            curves: vec![curve("BUDDY", points)],
        }],
    })
}

/// Runs managers at all utilisations; the times as a table and curves.
fn against_utilisation(
    bench: &Bench,
    what: &str,
    caption: &str,
    managers: &[(String, Job)],
) -> io::Result<(Rows, Curves)> {
    let jobs: Vec<Job> = managers
        .iter()
        .flat_map(|(_, job)| {
            UTILISATIONS.iter().map(|&utilisation| Job {
                utilisation,
                ..job.clone()
            })
        })
        .collect();
    let outcomes = bench.run(what, million(), &jobs)?;
    let mut columns = vec!["utilisation (%)"];
    columns.extend(managers.iter().map(|(name, _)| name.as_str()));
    let mut rows = Rows::new(&format!("{caption} (min:s)"), &columns);
    for (at, utilisation) in UTILISATIONS.iter().enumerate() {
        let mut cells = vec![format!("{:.0}", utilisation * 100.0)];
        for manager in 0..managers.len() {
            cells.push(minutes(outcomes[manager * UTILISATIONS.len() + at].seconds));
        }
        rows.row(cells);
    }
    let curves = managers.iter().enumerate().map(|(manager, (name, _))| {
        let times = &outcomes[manager * UTILISATIONS.len()..];
        let points = UTILISATIONS.iter().zip(times);
        curve(
            name,
            points
                .map(|(&u, o)| (u * 100.0, o.seconds / 60.0))
                .collect(),
        )
    });
    Ok((
        rows,
        Curves {
            caption: caption.to_owned(),
            x: Scale::near("utilisation (%)"),
            y: Scale::linear("time (min)"),
            joined: false,
            names: Vec::new(),
            curves: curves.collect(),
        },
    ))
}

fn named(bench: &Bench, kind: Kind) -> (String, Job) {
    (kind.name().to_owned(), job(bench, kind, 0.0))
}

/// BUDDY, STREAM, STREAM-PACKETIZER against utilisation.
pub fn figure6(bench: &Bench) -> io::Result<Section> {
    let managers = [Kind::Buddy, Kind::Stream, Kind::StreamPacketizer];
    let managers = managers.map(|kind| named(bench, kind));
    let caption = "Figure 6: time for a million disk requests";
    let (rows, mut curves) = against_utilisation(bench, "figure 6", caption, &managers)?;
    let best = printed::GETS as f64 * bench.scale / 358.0 / 60.0;
    curves.curves.push(dashes(
        "STREAM-PACKETIZER, paper's best",
        vec![(60.0, best), (72.0, best)],
    ));
    Ok(Section {
        name: "figure6".to_owned(),
        title: "Figure 6: writing in a stream".to_owned(),
        text: vec![
            "The paper: at 95 % STREAM and STREAM-PACKETIZER are about as fast as BUDDY; below 72 % twice and 2.5 times as \
             fast. Here they lose less at 95 %: LRU deletes objects in about the order in which they were written, so that what \
             is free lies together ahead of the writer, however little it is."
                .to_owned(),
        ],
        tables: vec![rows],
        plots: vec![curves],
    })
}

/// LAZY-READS against utilisation.
pub fn figure7(bench: &Bench) -> io::Result<Section> {
    let managers = [Kind::StreamPacketizer, Kind::LazyReads].map(|kind| named(bench, kind));
    let caption = "Figure 7: time for a million disk requests";
    let (rows, mut curves) = against_utilisation(bench, "figure 7", caption, &managers)?;
    curves.y = Scale::near("time (min)");
    Ok(Section {
        name: "figure7".to_owned(),
        title: "Figure 7: reads ten at a time".to_owned(),
        text: vec!["The paper: LAZY-READS improves STREAM-PACKETIZER by 10 %.".to_owned()],
        tables: vec![rows],
        plots: vec![curves],
    })
}

/// Locality buffers against utilisation.
pub fn figure8(bench: &Bench) -> io::Result<Section> {
    let mut managers = vec![
        named(bench, Kind::StreamPacketizer),
        named(bench, Kind::LazyReads),
    ];
    for locality_buffers in [8, 16, 32, 64, 128] {
        let settings = Settings {
            locality_buffers,
            ..Settings::default()
        };
        let job = Job {
            settings,
            ..job(bench, Kind::LazyReadsLoc, 0.0)
        };
        managers.push((format!("LOC-{locality_buffers}"), job));
    }
    let caption = "Figure 8: time for a million disk requests";
    let (rows, mut curves) = against_utilisation(bench, "figure 8", caption, &managers)?;
    curves.y = Scale::near("time (min)");
    Ok(Section {
        name: "figure8".to_owned(),
        title: "Figure 8: locality buffers".to_owned(),
        text: vec![
            "The paper: even eight buffers are better than LAZY-READS alone; 128 of them are at least 30 % better, and 2.5 times \
             at 76 %."
                .to_owned(),
        ],
        tables: vec![rows],
        plots: vec![curves],
    })
}
