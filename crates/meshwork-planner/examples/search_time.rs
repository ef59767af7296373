//! How long a search takes and what it finds: `search_time FILE AXIS=N,.. [SECONDS [MACHINE [MEMORY]]]`.
//!
//! The annotations of the program are dropped for the search; with them it is judged first, as the expert's plan.

use std::time::Instant;

use meshwork_mesh::Mesh;
use meshwork_partition::Machine;
use meshwork_planner::{Case, Planner, parse_bytes, verdict_text, what_if};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, mesh, rest @ ..] = args.as_slice() else { return Err("FILE AXIS=N,..".into()) };
    let module = meshwork_ir::read(&std::fs::read(file)?)?;
    let machine = match rest.get(1) {
        Some(name) => Machine::named(name).ok_or("an unknown machine")?,
        None => Machine::default(),
    };
    let axis = |text: &str| {
        let (name, size) = text.split_once('=')?;
        Some((name.to_string(), size.parse().ok()?))
    };
    let mesh = match mesh.parse::<i64>() {
        Ok(_) => None,
        Err(_) => {
            Some(Mesh::new(mesh.split(',').map(axis).collect::<Option<Vec<(String, i64)>>>().ok_or("AXIS=N,..")?)?)
        }
    };
    let case = Case { machine: machine.clone(), mesh: mesh.clone(), batch: None };
    let start = Instant::now();
    if let Ok(expert) = what_if(&module, &case) {
        println!("as annotated: {} (planned in {:.0?})", verdict_text(&expert.verdict), start.elapsed());
    }
    let mut planner = Planner::new(&module, &machine).fresh().seconds(rest.first().map_or(Ok(60.0), |s| s.parse())?);
    planner = match mesh {
        Some(mesh) => planner.mesh(mesh),
        None => planner.devices(args[1].parse()?),
    };
    if let Some(memory) = rest.get(2) {
        planner = planner.memory(parse_bytes(memory)?);
    }
    let found = planner.search()?;
    for improvement in found.improvements() {
        println!("after {:.1} s: {}", improvement.after, verdict_text(&improvement.verdict));
    }
    println!("{}", found.text());
    Ok(())
}
