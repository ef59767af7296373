//! What the model proposes for a program, and how long that takes: `model FILE AXIS=N,.. [MACHINE [MEMORY…]]`.

use std::time::Instant;

use meshwork_ir::transform::inline::inline_all;
use meshwork_ir::transform::tuples;
use meshwork_mesh::Mesh;
use meshwork_partition::Machine;
use meshwork_planner::network::Effort;
use meshwork_planner::{Model, parse_bytes};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [file, mesh, rest @ ..] = args.as_slice() else {
        return Err("model FILE AXIS=N,.. [MACHINE [MEMORY…]]".into());
    };
    let mut module = meshwork_ir::read(&std::fs::read(file)?)?;
    tuples::forward(&mut module);
    inline_all(&mut module);
    let axis = |text: &str| {
        let (name, size) = text.split_once('=')?;
        Some((name.to_string(), size.parse().ok()?))
    };
    let mesh = Mesh::new(mesh.split(',').map(axis).collect::<Option<Vec<(String, i64)>>>().ok_or("AXIS=N,..")?)?;
    let machine = match rest.first() {
        Some(name) => Machine::named(name).ok_or("an unknown machine")?,
        None => Machine::default(),
    };
    let start = Instant::now();
    let mut model = Model::new(&module, &mesh, &machine)?;
    let (nodes, edges) = model.size();
    println!("{} operations: {nodes} nodes and {edges} edges in {:.2?}", module.op_ids().count(), start.elapsed());
    let limits = rest.iter().skip(1).map(|text| parse_bytes(text).map(Some)).collect::<Result<Vec<_>, _>>()?;
    for memory in [None].into_iter().chain(limits) {
        let start = Instant::now();
        let found = model.solve(memory.map(|bytes| bytes as u64), &Effort::default(), &|| false)?;
        println!(
            "within {memory:?} bytes: {:.6} s, gap {:.3}%, {} bytes missing, solved in {:.2?}",
            found.seconds,
            100.0 * found.gap(),
            found.missing,
            start.elapsed()
        );
    }
    Ok(())
}
