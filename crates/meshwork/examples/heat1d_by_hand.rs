//! The heat equation of `heat1d`, written the way of message passing: four workers, each with its own points and a copy
//! of one point of each neighbor, sending and receiving by hand. Compare with `step` of the sharded program below.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use meshwork::prelude::*;

const POINTS: usize = 102;
const WORKERS: usize = 4;
const STEPS: usize = 100;

/// The ends of the lines to one neighbor.
type Line = (Sender<f32>, Receiver<f32>);

/// One worker: `u` are its points, with room for a neighbor's point at each side that has a neighbor.
fn worker(mut u: Vec<f32>, left: Option<Line>, right: Option<Line>) -> Vec<f32> {
    let last = u.len() - 1;
    for _ in 0..STEPS {
        let sides = [(&left, 0, 1), (&right, last, last - 1)];
        for (line, _, own) in &sides {
            line.iter().for_each(|(to, _)| to.send(u[*own]).expect("the neighbour listens"));
        }
        for (line, halo, _) in &sides {
            line.iter().for_each(|(_, from)| u[*halo] = from.recv().expect("the neighbour sends"));
        }
        u = (0..=last)
            .map(|i| if i == 0 || i == last { u[i] } else { 0.5 * u[i] + 0.25 * u[i - 1] + 0.25 * u[i + 1] })
            .collect();
    }
    u[usize::from(left.is_some())..=last - usize::from(right.is_some())].to_vec()
}

fn by_hand(rod: &[f32]) -> Vec<f32> {
    let block = POINTS.div_ceil(WORKERS);
    let mut left = None;
    let mut workers = vec![];
    for w in 0..WORKERS {
        let own = w * block..((w + 1) * block).min(POINTS);
        let (to_next, from_here) = channel();
        let (to_here, from_next) = channel();
        let right = (w + 1 < WORKERS).then_some((to_next, from_next));
        let u = rod[own.start - usize::from(w > 0)..own.end + usize::from(right.is_some())].to_vec();
        let line = left.replace((to_here, from_here));
        workers.push(thread::spawn(move || worker(u, line, right)));
    }
    workers.into_iter().flat_map(|w| w.join().expect("a worker ends well")).collect()
}

fn step(u: Tensor) -> Tensor {
    let inner = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
    u.at(s![1..-1]).set(inner)
}

fn main() -> Result<(), Error> {
    let rod = Array::from_fn([POINTS as i64], |i| if i[0] < 20 { 1.0f32 } else { 0.0 });
    let mesh = Mesh::linear("x", WORKERS as i64)?;
    let sharded = jit(|u: Tensor| for_loop(0..STEPS as i64, u, |_, u| step(u)));
    let sharded = sharded.call(&rod.clone().shard(&mesh, P!["x"])?)?.to_vec::<f32>()?;
    let manual = by_hand(&rod.to_vec::<f32>()?);
    assert!(sharded.iter().zip(&manual).all(|(a, b)| (a - b).abs() <= 1e-6));
    println!("point 20 has {:.4} by hand and {:.4} sharded", manual[20], sharded[20]);
    Ok(())
}
