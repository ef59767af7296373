//! Trains on four devices, stops, and resumes on two from the last checkpoint.
//!
//! The state is saved in the pieces that the devices hold, and read in the pieces that others need.

use meshwork::prelude::*;
use meshwork::save::Checkpoints;
use meshwork::train::{Optimizer, Step, Trainer, Zero};

type Data = (Tensor, Tensor);

fn trainer(devices: i64) -> Result<Step<Tensor, Data>, Error> {
    let loss = |w: &Tensor, (x, y): &Data| (x.matmul(w) - y).square().mean_all();
    let mesh = Mesh::linear("data", devices)?;
    Ok(Trainer::new(loss, Optimizer::adam(0.05)).on(&mesh).batch(P!["data"]).zero(Zero::Three, "data").build())
}

/// Trains up to step `last`, from the newest checkpoint if there is one; saves every 10 steps.
fn train(devices: i64, last: u64, folder: &std::path::Path) -> Result<Vec<f32>, Error> {
    let trainer = trainer(devices)?;
    let mut saves = Checkpoints::open(folder)?.keep(2);
    let mut state = trainer.init(&Array::zeros([8, 1], F32))?;
    let mut step = 0;
    if let Some((found, resumed)) = saves.resume(&state)? {
        println!("{devices} devices: resumed from step {}", found.step());
        (state, step) = (resumed, found.step());
    }
    let mut losses = vec![];
    while step < last {
        let x = Array::from_fn([16, 8], |i| ((i[0] * 3 + i[1] * 5 + step as i64) as f32).sin());
        let y = Array::from_fn([16, 1], |i| (i[0] as f32).cos());
        let (loss, next) = trainer.step(&state, &(x, y))?;
        losses.push(loss.item::<f32>()?);
        (state, step) = (next, step + 1);
        if step % 10 == 0 {
            saves.save(step, &state, &[])?;
        }
    }
    saves.wait()?;
    Ok(losses)
}

fn main() -> Result<(), Error> {
    let folder = std::env::temp_dir().join(format!("meshwork_example_checkpoint_{}", std::process::id()));
    let through = train(4, 40, &folder.join("through"))?;
    // Stopped after step 25, of which the last 5 are lost and done again.
    train(4, 25, &folder.join("stopped"))?;
    let resumed = train(2, 40, &folder.join("stopped"))?;
    assert!(through[20..].iter().zip(&resumed).all(|(a, b)| (a - b).abs() < 1e-4));
    println!("the losses of steps 20 to 40 are the same: {:.4} to {:.4}", resumed[0], resumed[19]);
    let failed = |e: std::io::Error| Error::File { path: folder.display().to_string(), what: e.to_string() };
    std::fs::remove_dir_all(&folder).map_err(failed)?;
    Ok(())
}
