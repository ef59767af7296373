//! The heat equation in five spellings on any engine: they give the same numbers, and on a GPU they take the same time.
//!
//! ```text
//! cargo run --release --example heat_spellings
//! cargo run --release --example heat_spellings -- --engine pjrt:cuda --points 10000000 --steps 200 --runs 10
//! cargo run --release --example heat_spellings -- --engine pjrt:cuda --points 4096x4096 --steps 100 --runs 10
//! ```

use std::time::Instant;

use meshwork::prelude::*;

/// How a step is written.
#[derive(Clone, Copy, Debug)]
enum Spelling {
    Assign,
    Concatenate,
    Pad,
    Roll,
    Convolution,
}

const SPELLINGS: [Spelling; 5] =
    [Spelling::Assign, Spelling::Concatenate, Spelling::Pad, Spelling::Roll, Spelling::Convolution];

/// Each inner point moves towards the mean of its neighbors; the border stays.
fn step(u: Tensor, spelling: Spelling) -> Tensor {
    let rank = u.rank() as i64;
    let weight = 0.5 / (rank as f64 + 1.0);
    let all: Vec<(i64, i64)> = vec![(1, 1); rank as usize];
    let inside = |shift: &[i64]| {
        let cut: Vec<(i64, i64)> = shift.iter().map(|s| (-1 - s, s - 1)).collect();
        u.pad(&cut, 0.0)
    };
    let unit = |d: i64, by: i64| (0..rank).map(|k| if k == d { by } else { 0 }).collect::<Vec<_>>();
    let middle = inside(&vec![0; rank as usize]);
    let sides = || (0..rank).flat_map(|d| [unit(d, -1), unit(d, 1)]);
    let change = || {
        let sum = sides().map(|side| inside(&side)).reduce(|a, b| a + b).expect("a dimension");
        weight * (sum - 2.0 * rank as f64 * &middle)
    };
    match spelling {
        Spelling::Assign if rank == 1 => u.at(s![1..-1]).set(&middle + change()),
        Spelling::Assign => u.at(s![1..-1, 1..-1]).set(&middle + change()),
        Spelling::Pad => &u + change().pad(&all, 0.0),
        Spelling::Concatenate if rank == 1 => {
            concatenate(&[u.slice(s![..1]), &middle + change(), u.slice(s![-1..])], 0)
        }
        Spelling::Concatenate => {
            let [left, right] = [u.slice(s![1..-1, ..1]), u.slice(s![1..-1, -1..])];
            let rows = concatenate(&[left, &middle + change(), right], 1);
            concatenate(&[u.slice(s![..1, ..]), rows, u.slice(s![-1.., ..])], 0)
        }
        Spelling::Roll => {
            let sum = (0..rank).flat_map(|d| [u.roll(1, d), u.roll(-1, d)]).reduce(|a, b| a + b).expect("a dimension");
            let is_inner = (0..rank).map(|d| {
                let i = iota(u.shape(), I32, d);
                i.gt(0) & i.lt(u.dim(d) - 1)
            });
            let is_inner = is_inner.reduce(|a, b| a & b).expect("a dimension");
            select(is_inner, &u + weight * (sum - 2.0 * rank as f64 * &u), &u)
        }
        Spelling::Convolution => {
            let shape: Vec<i64> = [&[1], u.shape(), &[1]].concat();
            let mut taps = vec![0.0f32; 3usize.pow(rank as u32)];
            let center = taps.len() / 2;
            taps[center] = (-2.0 * rank as f64 * weight) as f32;
            for d in 0..rank as u32 {
                taps[center - 3usize.pow(d)] = weight as f32;
                taps[center + 3usize.pow(d)] = weight as f32;
            }
            let kernel: Vec<i64> = [vec![3; rank as usize], vec![1, 1]].concat();
            let kernel = Tensor::constant(&Array::from(taps)).reshape(kernel);
            let change = u.reshape(shape).conv(&kernel, &Conv::default());
            let inner: Vec<i64> = u.shape().iter().map(|n| n - 2).collect();
            &u + change.reshape(inner).pad(&all, 0.0)
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut engine, mut points, mut steps, mut runs) = ("cpu".to_string(), vec![1000i64], 50, 2);
    let mut args = std::env::args().skip(1);
    while let Some(option) = args.next() {
        let value = args.next().ok_or_else(|| format!("{option} needs a value"))?;
        match option.as_str() {
            "--engine" => engine = value,
            "--points" => points = value.split('x').map(str::parse).collect::<Result<_, _>>()?,
            "--steps" => steps = value.parse()?,
            "--runs" => runs = value.parse()?,
            _ => return Err(format!("{option}: not an option; see the top of the example").into()),
        }
    }
    let engine = meshwork::engine(&engine)?;
    let start = Array::from_fn(points.clone(), |i| ((i.iter().sum::<i64>() * 7919) % 1000) as f32 / 1000.0);
    let mut first: Option<Array> = None;
    for spelling in SPELLINGS {
        // The corner comes as well: reading it waits for the run.
        let heat = jit(move |u: Tensor| {
            let u = for_loop(0..steps, u, |_, u| step(u, spelling));
            let corner = u.reshape([u.size()]).slice(s![..1]);
            (u, corner)
        });
        let heat = heat.engine(engine.clone());
        let (result, corner) = heat.call(&start)?;
        corner.item::<f32>()?;
        let mut best = f64::INFINITY;
        for _ in 0..runs {
            let begin = Instant::now();
            heat.call(&start)?.1.item::<f32>()?;
            best = best.min(begin.elapsed().as_secs_f64());
        }
        println!("{:12} {:9.3} ms", format!("{spelling:?}").to_lowercase(), best * 1e3);
        let reference = first.get_or_insert_with(|| result.clone());
        assert!(result.all_close(reference, 1e-4), "{spelling:?} gives other numbers");
    }
    Ok(())
}
