//! A deep network cut into four stages, one per device, trained with gradients through the pipeline. More micro-batches
//! leave less idle time.

use meshwork::pipeline::{bubble_share, from_micro_batches, into_micro_batches, pipeline};
use meshwork::prelude::*;
use meshwork::train::{Optimizer, Trainer};

const STAGES: i64 = 4;
const MICRO: i64 = 8;

fn loss(w: &Tensor, (x, y): &(Tensor, Tensor)) -> Tensor {
    let out = pipeline("stage", w, &into_micro_batches(x, MICRO), |w, x| &x + x.matmul(&w).tanh());
    (from_micro_batches(&out) - y).square().mean_all()
}

fn main() -> Result<(), Error> {
    let w = Array::from_fn([STAGES, 4, 4], |i| ((i[0] * 16 + i[1] * 4 + i[2]) as f32).sin() * 0.3);
    let x = Array::from_fn([32, 4], |i| ((i[0] * 4 + i[1]) as f32 * 0.7).sin());
    let y = Array::from_fn([32, 4], |i| ((i[0] * 4 + i[1]) as f32 * 0.7).cos());
    let mesh = Mesh::linear("stage", STAGES)?;
    let split = Trainer::new(loss, Optimizer::adam(0.02)).on(&mesh).params(P!["stage"]).build();
    let alone = Trainer::new(loss, Optimizer::adam(0.02)).build();
    let (mut a, mut b) = (split.init(&w)?, alone.init(&w)?);
    let batch = (x, y);
    for step in 0..=20 {
        let ((one, next_a), (other, next_b)) = (split.step(&a, &batch)?, alone.step(&b, &batch)?);
        (a, b) = (next_a, next_b);
        assert!(one.all_close(&other, 1e-4));
        if step % 10 == 0 {
            println!("step {step:2}  loss {:.5}", one.item::<f32>()?);
        }
    }
    for micro in [4, MICRO, 32] {
        println!("{micro:2} micro-batches: {:.0} % of the time idle", 100.0 * bubble_share(STAGES, micro));
    }
    Ok(())
}
