//! Figures 2 to 8. The paper's plots are lost; ours are compared with the numbers in its text and captions.

use std::io;

use super::bench::{Bench, Load, Until};
use super::experiment::{Job, Outcome, each};
use super::printed;
use super::report::{Curve, Curves, Rows, Scale, Section};
use super::source::Source;
use super::tables::{figure_4, job, million, minutes};
use super::workload::Counts;
use crate::disks::{FileId, Piece, ROOT};
use crate::managers::{Kind, SLOT_BYTES, Settings};

/// Shares of the file in use, for Figures 6 to 8: the paper's 71, 72, 76 and 95 per cent, and some between.
pub(super) const UTILISATIONS: [f64; 8] = [0.60, 0.66, 0.71, 0.76, 0.82, 0.88, 0.92, 0.95];

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
    let figure_2 = |gib: u64| Load::paper(gib << 30, Until::Gets(printed::FIGURE_2_GETS));
    let counts = each(&GIB, |&gib| bench.counts(figure_2(gib)));
    bench.watch.end();
    let loads: Vec<Counts> = counts.into_iter().collect::<io::Result<_>>()?;
    // A trace has its own sizes and length.
    let sizes = GIB.map(|gib| bench.scaled(figure_2(gib)).disk_bytes as f64 / f64::from(1 << 30));
    let mut rows = Rows::new(
        &format!("Figure 2: disk requests of {} gets", loads[0].gets),
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
    for (gib, counts) in sizes.iter().zip(&loads) {
        rows.row([
            format!("{gib:.2}"),
            counts.writes.to_string(),
            counts.reads.to_string(),
            counts.deletes.to_string(),
            share(counts.memory_hits, counts.gets),
            share(counts.reads, counts.gets),
        ]);
    }
    let points = |value: &dyn Fn(usize) -> u64| {
        let at = |n: usize| (sizes[n], value(n) as f64);
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
            caption: format!("Figure 2: disk requests of {} gets", loads[0].gets),
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

/// The cost of making and removing a file: 64 files made, then removed, as the paper's benchmark does.
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

const FIGURE_4: [Kind; 4] = [Kind::Simple, Kind::Squid, Kind::MultipleDirs, Kind::Buddy];

/// Runs Figure 4: SIMPLE, SQUID, MULTIPLE-DIRS, BUDDY.
pub(super) fn figure4_outcomes(bench: &Bench) -> io::Result<Vec<Outcome>> {
    let jobs = FIGURE_4.map(|kind| job(bench, kind, printed::TABLE_1_UTILISATION));
    bench.run("figure 4", figure_4(), &jobs)
}

/// Completion time of a file for each object, against BUDDY.
pub fn figure4(bench: &Bench) -> io::Result<Section> {
    let outcomes = figure4_outcomes(bench)?;
    let load = bench.load(figure_4())?;
    let caption = format!("Figure 4: time for {} disk requests", load.requests.len());
    let mut rows = Rows::new(
        &caption,
        &[
            "manager",
            "paper (s)",
            "here (s)",
            "paper (requests/s)",
            "here (requests/s)",
            "paper (gets/s)",
            "here (gets/s)",
        ],
    );
    // On a trace: the paper's time for as many requests as the trace has.
    let requests = load.requests.len() as f64;
    let rates = FIGURE_4.map(|kind| printed::rate(kind.name()).expect("it is in Table 2"));
    let paper_s = |at: usize| requests / rates[at].requests_per_s;
    for (at, (kind, outcome)) in FIGURE_4.iter().zip(&outcomes).enumerate() {
        rows.row([
            kind.name().to_owned(),
            format!("{:.0}", paper_s(at)),
            format!("{:.0}", outcome.seconds),
            format!("{:.1}", rates[at].requests_per_s),
            format!("{:.1}", outcome.requests_per_s),
            format!("{:.1}", rates[at].gets_per_s),
            format!("{:.1}", outcome.gets_per_s),
        ]);
    }
    let bars = |value: &dyn Fn(usize) -> f64| (0..4).map(|n| (n as f64, value(n))).collect();
    let Counts {
        gets,
        reads,
        writes,
        deletes,
        ..
    } = load.counts;
    Ok(Section {
        name: "figure4".to_owned(),
        title: "Figure 4: a file for each object, or not".to_owned(),
        text: vec![
            "The paper: 300,000 disk requests of 398,034 gets on a disk of 1 GB. Of a trace: three tenths of its disk requests, on \
             half its disk. The paper's times are its rates over as many requests as here."
                .to_owned(),
            format!(
                "{}: {gets} gets, {writes} writes, {reads} reads, {deletes} deletes.",
                bench.source.name()
            ),
        ],
        tables: vec![rows],
        plots: vec![Curves {
            caption,
            x: Scale::linear(""),
            y: Scale::linear("time (s)"),
            joined: false,
            names: FIGURE_4.map(|kind| kind.name().to_owned()).to_vec(),
            curves: vec![
                dashes("paper", bars(&paper_s)),
                curve("here", bars(&|n| outcomes[n].seconds)),
            ],
        }],
    })
}

/// Thresholds of Figure 5, in blocks of 512 bytes.
pub(super) const FIGURE_5_BLOCKS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Runs Figure 5: BUDDY with each of [`FIGURE_5_BLOCKS`].
pub(super) fn figure5_outcomes(bench: &Bench) -> io::Result<Vec<Outcome>> {
    let jobs = FIGURE_5_BLOCKS.map(|blocks| Job {
        settings: Settings {
            threshold_bytes: blocks * SLOT_BYTES,
            ..Settings::default()
        },
        ..job(bench, Kind::Buddy, printed::TABLE_1_UTILISATION)
    });
    bench.run("figure 5", figure_5(), &jobs)
}

fn figure_5() -> Load {
    let until = Until::Requests(printed::FIGURE_5_REQUESTS);
    Load::paper(printed::DISK_BYTES, until)
}

/// BUDDY against its threshold.
pub fn figure5(bench: &Bench) -> io::Result<Section> {
    const BLOCKS: [u32; 10] = FIGURE_5_BLOCKS;
    let outcomes = figure5_outcomes(bench)?;
    let requests = bench.load(figure_5())?.requests.len();
    let caption = format!("Figure 5: time of BUDDY for {requests} disk requests");
    let mut rows = Rows::new(
        &caption,
        &["threshold (blocks)", "time (s)", "requests/s", "files made"],
    );
    for (blocks, outcome) in BLOCKS.iter().zip(&outcomes) {
        rows.row([
            blocks.to_string(),
            format!("{:.0}", outcome.seconds),
            format!("{:.1}", outcome.requests_per_s),
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
            caption,
            x: Scale::log("threshold (blocks of 512 bytes)"),
            y: Scale::linear("time (s)"),
            joined: false,
            names: Vec::new(),
            curves: vec![curve("BUDDY", points)],
        }],
    })
}

/// Runs managers at all [`UTILISATIONS`], one manager after the other.
pub(super) fn at_utilisations(
    bench: &Bench,
    what: &str,
    managers: &[(String, Job)],
) -> io::Result<Vec<Vec<Outcome>>> {
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
    let each = outcomes.chunks(UTILISATIONS.len());
    Ok(each.map(<[Outcome]>::to_vec).collect())
}

/// Runs managers at all [`UTILISATIONS`]; returns tables and curves.
fn against_utilisation(
    bench: &Bench,
    figure: &str,
    managers: &[(String, Job)],
) -> io::Result<(Vec<Rows>, Curves)> {
    let outcomes = at_utilisations(bench, figure, managers)?;
    let requests = bench.load(million())?.requests.len();
    let caption = format!("{figure}: time for {requests} disk requests");
    let mut columns = vec!["utilisation (%)"];
    columns.extend(managers.iter().map(|(name, _)| name.as_str()));
    let table = |caption: &str, cell: &dyn Fn(&Outcome) -> String| {
        let mut rows = Rows::new(caption, &columns);
        for (at, utilisation) in UTILISATIONS.iter().enumerate() {
            let mut cells = vec![format!("{:.0}", utilisation * 100.0)];
            cells.extend(outcomes.iter().map(|of| cell(&of[at])));
            rows.row(cells);
        }
        rows
    };
    let tables = vec![
        table(&format!("{caption} (min:s)"), &|o| minutes(o.seconds)),
        table(&format!("{figure}: disk requests a second"), &|o| {
            format!("{:.1}", o.requests_per_s)
        }),
    ];
    let curves = managers.iter().zip(&outcomes).map(|((name, _), of)| {
        let points = UTILISATIONS.iter().zip(of);
        let points = points.map(|(&u, o)| (u * 100.0, o.seconds / 60.0));
        curve(name, points.collect())
    });
    Ok((
        tables,
        Curves {
            caption,
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

/// The managers of Figure 6.
pub(super) fn figure6_managers(bench: &Bench) -> Vec<(String, Job)> {
    let kinds = [Kind::Buddy, Kind::Stream, Kind::StreamPacketizer];
    kinds.map(|kind| named(bench, kind)).to_vec()
}

/// BUDDY, STREAM, STREAM-PACKETIZER against utilisation.
pub fn figure6(bench: &Bench) -> io::Result<Section> {
    let (tables, mut curves) = against_utilisation(bench, "Figure 6", &figure6_managers(bench))?;
    if let Source::Fitted { .. } = bench.source {
        //= paper 002 section 3.6   Table 1: STREAM-PACKETIZER at 71 %
        let best = printed::TABLE_1[0].0 * bench.scale / 60.0;
        curves.curves.push(dashes(
            "STREAM-PACKETIZER, paper's best",
            vec![(60.0, best), (72.0, best)],
        ));
    }
    Ok(Section {
        name: "figure6".to_owned(),
        title: "Figure 6: writing in a stream".to_owned(),
        text: vec![
            "The paper: at 95 % STREAM and STREAM-PACKETIZER are about as fast as BUDDY; below 72 % twice and 2.5 times as \
             fast."
                .to_owned(),
        ],
        tables,
        plots: vec![curves],
    })
}

/// LAZY-READS against utilisation.
pub fn figure7(bench: &Bench) -> io::Result<Section> {
    let managers = [Kind::StreamPacketizer, Kind::LazyReads].map(|kind| named(bench, kind));
    let (tables, mut curves) = against_utilisation(bench, "Figure 7", &managers)?;
    curves.y = Scale::near("time (min)");
    Ok(Section {
        name: "figure7".to_owned(),
        title: "Figure 7: reads ten at a time".to_owned(),
        text: vec!["The paper: LAZY-READS improves STREAM-PACKETIZER by 10 %.".to_owned()],
        tables,
        plots: vec![curves],
    })
}

/// The managers of Figure 8: STREAM-PACKETIZER, LAZY-READS, and 8 to 128 buffers.
pub(super) fn figure8_managers(bench: &Bench) -> Vec<(String, Job)> {
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
    managers
}

/// Locality buffers against utilisation.
pub fn figure8(bench: &Bench) -> io::Result<Section> {
    let (tables, mut curves) = against_utilisation(bench, "Figure 8", &figure8_managers(bench))?;
    curves.y = Scale::near("time (min)");
    Ok(Section {
        name: "figure8".to_owned(),
        title: "Figure 8: locality buffers".to_owned(),
        text: vec![
            "The paper: even eight buffers are better than LAZY-READS alone; 128 of them are at least 30 % better, and 2.5 times \
             at 76 %. Its Table 1 has them 24.5 % better at 71 %."
                .to_owned(),
        ],
        tables,
        plots: vec![curves],
    })
}
