//! Tables 1 to 3 of paper 000, exactly as printed.
//!
//! Counts are of a whole run. The paper states the number of requests of a run only for four rates of the high-end machine, in round
//! numbers. Only these rows can be compared with a shorter run.
//!
//! Not known here: our figures.   Source: paper 000, sections 3.1, 5.1 and 5.5.

/// One of the paper's two test machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// one IDE disk
    LowEnd,
    /// five SCSI disks
    HighEnd,
}

impl Machine {
    /// As the paper calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::LowEnd => "low-end",
            Self::HighEnd => "high-end",
        }
    }
}

/// A row of Tables 1 and 2.
#[derive(Debug, Clone, Copy)]
pub struct Printed {
    /// which part of the table: (a) or (b)
    pub machine: Machine,
    /// requests a second
    pub rate: f64,
    /// of the run, in millions, where the paper says it (section 3.1)
    pub requests_m: Option<f64>,
    /// open, close, delete, of Squid only: the paper's own system does none of them
    pub files: [f64; 3],
    /// Squid, then the paper's own system
    pub read: [f64; 2],
    /// as `read`
    pub write: [f64; 2],
}

const fn row(
    machine: Machine,
    rate: f64,
    requests_m: Option<f64>,
    files: [f64; 3],
    read: [f64; 2],
    write: [f64; 2],
) -> Printed {
    Printed {
        machine,
        rate,
        requests_m,
        files,
        read,
        write,
    }
}

use Machine::{HighEnd, LowEnd};

//= paper 000 section 5.1   Tables 1 and 2, (a) and (b); requests from the text to Figure 2
/// Tables 1 and 2.
#[rustfmt::skip]
pub const PRINTED: [Printed; 13] = [
    row(LowEnd, 10.0, None, [1_830_968.0, 1_830_967.0, 1_002_896.0], [534_704.0, 255_763.0], [4_318_921.0, 1_575_083.0]),
    row(LowEnd, 20.0, None, [2_108_715.0, 2_108_715.0, 1_182_368.0], [976_325.0, 468_838.0], [4_588_152.0, 1_691_836.0]),
    row(LowEnd, 30.0, None, [2_400_413.0, 2_400_413.0, 1_204_749.0], [1_208_030.0, 618_340.0], [4_877_634.0, 1_781_951.0]),
    row(LowEnd, 40.0, None, [2_894_680.0, 2_894_680.0, 1_409_723.0], [1_588_713.0, 808_123.0], [5_281_763.0, 1_987_364.0]),
    row(LowEnd, 50.0, None, [3_378_287.0, 3_378_287.0, 1_659_489.0], [1_931_362.0, 996_848.0], [6_520_977.0, 2_381_317.0]),
    row(LowEnd, 100.0, None, [4_726_937.0, 4_726_937.0, 2_206_019.0], [3_454_337.0, 1_796_287.0], [8_027_956.0, 2_930_528.0]),
    row(LowEnd, 120.0, None, [5_224_545.0, 5_224_545.0, 2_698_164.0], [3_806_434.0, 1_906_340.0], [9_781_763.0, 3_573_648.0]),
    row(HighEnd, 50.0, Some(4.3), [3_220_714.0, 3_220_714.0, 1_691_382.0], [1_844_889.0, 809_374.0], [6_608_094.0, 2_411_219.0]),
    row(HighEnd, 100.0, Some(6.0), [4_627_888.0, 4_627_888.0, 2_281_725.0], [3_379_529.0, 1_622_303.0], [8_228_432.0, 3_005_464.0]),
    row(HighEnd, 150.0, Some(7.8), [6_080_883.0, 6_080_883.0, 3_235_120.0], [4_305_185.0, 2_124_848.0], [10_814_209.0, 3_955_914.0]),
    row(HighEnd, 170.0, None, [6_683_492.0, 6_683_492.0, 3_697_432.0], [4_514_545.0, 2_193_743.0], [12_871_436.0, 4_638_126.0]),
    row(HighEnd, 200.0, Some(9.5), [7_477_177.0, 7_477_177.0, 4_404_863.0], [4_705_627.0, 2_350_592.0], [14_005_715.0, 5_126_464.0]),
    row(HighEnd, 250.0, None, [8_800_143.0, 8_800_143.0, 5_718_264.0], [5_683_479.0, 2_748_622.0], [19_635_487.0, 7_256_498.0]),
];

//= paper 000 section 5.5   Table 3
/// Table 3: system, then its peak on the low-end and the high-end machine; carried is the first rate, the second is not.
pub const PEAKS: [[&str; 3]; 2] = [
    ["Squid-2.4", "50~60", "170~180"],
    ["UNIFIED", "120~130", "250~300"],
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_printed_counts_have_the_papers_shares() {
        // The text gives these: opens 76 % of the requests and deletes 40 % (Figure 2); half the reads saved, 63 % of the writes.
        for row in &PRINTED {
            let [open, close, delete] = row.files;
            if let Some(requests_m) = row.requests_m {
                let share = open / (requests_m * 1e6);
                assert!((0.72..0.80).contains(&share), "{share}");
                let share = delete / (requests_m * 1e6);
                assert!((0.35..0.48).contains(&share), "{share}");
            }
            assert!((0.4..0.6).contains(&(row.read[1] / row.read[0])), "{row:?}");
            let written = row.write[1] / row.write[0];
            assert!((0.35..0.39).contains(&written), "{row:?}");
            assert!((open - close).abs() < 2.0, "{row:?}");
        }
        // Of each machine, more of everything at a higher rate.
        for pair in PRINTED.windows(2).filter(|p| p[0].machine == p[1].machine) {
            let all = |row: &Printed| [row.files.as_slice(), &row.read, &row.write].concat();
            let grows = all(&pair[0])
                .into_iter()
                .zip(all(&pair[1]))
                .all(|(a, b)| a < b);
            assert!(grows && pair[0].rate < pair[1].rate, "{pair:?}");
        }
    }
}
