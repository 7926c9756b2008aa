fn main() {
    let mut args = std::env::args().skip(1).map(|a| a.parse::<u64>().unwrap());
    let (from, n) = (args.next().unwrap_or(1), args.next().unwrap_or(1));
    let mut sum = proxy_simulation::Report::default();
    let began = std::time::Instant::now();
    let mut bad = 0;
    for seed in from..from + n {
        let (report, failure) = proxy_simulation::run(proxy_simulation::Options {
            seed,
            mistake: None,
        });
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
