//! Finds the wind that carried a cloud: a simulation in two dimensions, fitted by its gradient, on 2 x 2 devices.
use meshwork::prelude::*;

/// What is looked for: the speed along both axes, and how fast the cloud decays.
#[derive(Clone, Debug, Tree)]
struct Wind<T = Tensor> {
    x: T,
    y: T,
    decay: T,
}

/// One step of upwind advection on a torus, for winds of either sign.
fn step(u: Tensor, wind: &Wind, source: &Tensor) -> Tensor {
    let flow = |speed: &Tensor, axis: i64| {
        let (behind, ahead) = (&u - u.roll(1, axis), u.roll(-1, axis) - &u);
        speed.maximum(0.0) * behind + speed.minimum(0.0) * ahead
    };
    let change = flow(&wind.x, 0) + flow(&wind.y, 1) + &wind.decay * &u - source;
    u - 0.2 * change
}

/// The cloud after one step for each source, and how much of it there was at each time.
fn simulate(wind: Wind, cloud: Tensor, sources: Tensor) -> (Tensor, Tensor) {
    scan(cloud, sources, |u, source| {
        let u = step(u, &wind, &source);
        (u.clone(), u.sum_all())
    })
}

fn main() -> Result<(), Error> {
    let mesh = Mesh::grid(("x", 2), ("y", 2))?;
    let far = |i: &[i64]| ((i[0] - 15).pow(2) + (i[1] - 20).pow(2)) as f32;
    let cloud = Array::from_fn([50, 50], |i| (-far(i) / 20.0).exp()).shard(&mesh, P!["x", "y"])?;
    let sources = Array::from_fn([20, 50, 50], |i| if i[1] == 25 && i[2] == 25 { 0.1f32 } else { 0.0 });
    let sources = sources.shard(&mesh, P![_, "x", "y"])?;
    let wind = |x, y, decay| Wind { x: Array::scalar(x), y: Array::scalar(y), decay: Array::scalar(decay) };
    let seen = jit(simulate).call((&wind(0.8f32, -0.5f32, 0.02f32), &cloud, &sources))?.0;

    let learn = jit(|wind: Wind, cloud: Tensor, sources: Tensor, seen: Tensor| {
        let error = |w: Wind| (simulate(w, cloud.clone(), sources.clone()).0 - &seen).square().mean_all();
        let (loss, slope) = value_and_grad(error, wind.clone());
        (loss, tree_map([&wind, &slope], |[w, s]| w - 2.0 * s))
    });
    // Edges to neighbors and sums of single numbers; anything larger would be an error.
    let learn = learn.contract(Contract {
        allowed: Some(vec!["collective-permute".into(), "all-reduce".into()]),
        ..Contract::default()
    });
    let (mut guess, mut loss) = (wind(0.3, -0.1, 0.0), Array::scalar(f32::MAX));
    for round in 0..120 {
        (loss, guess) = learn.call((&guess, &cloud, &sources, &seen))?;
        if round % 40 == 0 {
            println!("{round:3} loss {:.2e}", loss.item::<f32>()?);
        }
    }
    println!("wind {:.3}, {:.3}", guess.x.item::<f32>()?, guess.y.item::<f32>()?);
    assert!(loss.item::<f32>()? < 1e-4);
    Ok(())
}
