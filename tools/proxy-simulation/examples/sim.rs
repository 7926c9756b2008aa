//! Quick runs.
fn main() {
    let mut args = std::env::args().skip(1);
    let mode = args.next().unwrap_or_default();
    let mut args = args.map(|a| a.parse::<u64>().unwrap());
    let (from, n) = (args.next().unwrap_or(1), args.next().unwrap_or(1));
    let run = |seed, mistake| proxy_simulation::run(proxy_simulation::Options { seed, mistake });
    if mode == "mistakes" {
        for &mistake in proxy::Mistake::ALL {
            let found = (from..from + n).find_map(|seed| Some((seed, run(seed, Some(mistake)).1?)));
            match found {
                Some((seed, f)) => println!("{:20} seed {seed}: {}", mistake.name(), f.message),
                None => println!("{:20} NOT NOTICED", mistake.name()),
            }
        }
        return;
    }
    if let Some(&mistake) = proxy::Mistake::ALL.iter().find(|m| m.name() == mode) {
        if let Some(f) = run(from, Some(mistake)).1 {
            println!("{f}");
        }
        return;
    }
    let mut sum = proxy_simulation::Report::default();
    let began = std::time::Instant::now();
    let mut bad = 0;
    for seed in from..from + n {
        let (report, failure) = run(seed, None);
        if let Some(f) = failure {
            if n == 1 {
                println!("{f}");
            } else {
                println!(
                    "seed {seed}: {}",
                    f.message.lines().take(2).collect::<Vec<_>>().join(" ")
                );
            }
            bad += 1;
        }
        sum.merge(&report);
    }
    println!("{bad} bad of {n}, {:?} {:?}", sum, began.elapsed());
}
