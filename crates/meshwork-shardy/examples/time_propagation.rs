//! Times propagation over a program: `cargo run --release --example time_propagation FILE [REPEATS]`.

use std::time::Instant;

use meshwork_ir::PassOptions;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: time_propagation FILE [REPEATS]")?;
    let repeats: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let module = meshwork_ir::text::parse(&std::fs::read_to_string(path)?)?;
    let passes = meshwork_shardy::passes();
    let names = ["sdy-add-data-flow-edges", "sdy-user-priority-propagate", "sdy-sink-data-flow-edges"];
    let mut best = f64::INFINITY;
    for _ in 0..repeats {
        let mut copy = module.clone();
        let mut diagnostics = vec![];
        let start = Instant::now();
        for name in names {
            let pass = passes.iter().find(|p| p.name == name).ok_or("no such pass")?;
            (pass.run)(&mut copy, &PassOptions::default(), &mut diagnostics)
                .map_err(|_| diagnostics.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        }
        best = best.min(start.elapsed().as_secs_f64() * 1e3);
    }
    println!("{} ops, best of {repeats}: {best:.1} ms", module.op_slots());
    Ok(())
}
