//! A transformer block written with named axes. How it is split is one mapping outside the model: data parallel,
//! tensor parallel, both, or with parameters in parts, the loss and its gradient stay the same.

use meshwork::named::{Axis, Mapping, NamedTensor, dot, fsdp, named_jit};
use meshwork::prelude::*;

#[derive(Clone, Debug, Tree)]
struct Block {
    q: NamedTensor,
    k: NamedTensor,
    v: NamedTensor,
    o: NamedTensor,
    up: NamedTensor,
    down: NamedTensor,
}

/// The axes of the model.
struct Axes {
    batch: Axis,
    position: Axis,
    embed: Axis,
    heads: Axis,
    head: Axis,
    mlp: Axis,
}

impl Axes {
    fn new() -> Axes {
        Axes {
            batch: Axis::new("batch", 4),
            position: Axis::new("position", 6),
            embed: Axis::new("embed", 8),
            heads: Axis::new("heads", 4),
            head: Axis::new("head", 2),
            mlp: Axis::new("mlp", 16),
        }
    }
}

fn init(_: ()) -> Block {
    let a = Axes::new();
    let keys = Key::new(7).split(6);
    let make = |i: usize, axes: &[&Axis]| &NamedTensor::normal(&keys[i], axes.iter().copied(), F32) * 0.3;
    Block {
        q: make(0, &[&a.embed, &a.heads, &a.head]),
        k: make(1, &[&a.embed, &a.heads, &a.head]),
        v: make(2, &[&a.embed, &a.heads, &a.head]),
        o: make(3, &[&a.heads, &a.head, &a.embed]),
        up: make(4, &[&a.embed, &a.mlp]),
        down: make(5, &[&a.mlp, &a.embed]),
    }
}

fn attention(block: &Block, x: &NamedTensor) -> NamedTensor {
    let h = x.normalize("embed", 1e-5);
    let keys = h.rename("position", "key");
    let q = dot(&[&h, &block.q], &["embed"]).auto_sharded();
    let k = dot(&[&keys, &block.k], &["embed"]).auto_sharded();
    let v = dot(&[&keys, &block.v], &["embed"]).auto_sharded();
    let scores = &dot(&[&q, &k], &["head"]) * (2f64.powf(-0.5));
    let (at, past) = (NamedTensor::arange(&Axes::new().position, F32), scores.axes()[3].clone());
    let ahead = (&at - &NamedTensor::arange(&past, F32)).apply(|d| select(d.lt(0.0), -1e9, d.zeros_like()));
    let weights = (&scores + &ahead).softmax("key");
    dot(&[&dot(&[&weights, &v], &["key"]), &block.o], &["heads", "head"]).auto_sharded()
}

fn block(block: &Block, x: &NamedTensor) -> NamedTensor {
    let x = x + &attention(block, x);
    let h = dot(&[&x.normalize("embed", 1e-5), &block.up], &["embed"]).auto_sharded().apply(|t| t.gelu());
    &x + &dot(&[&h, &block.down], &["mlp"]).auto_sharded()
}

fn loss_and_gradient((params, x): (Block, NamedTensor)) -> (Tensor, Block) {
    value_and_grad(|p: Block| block(&p, &x).apply(|t| t.square()).mean_all(), params)
}

fn main() -> Result<(), Error> {
    let a = Axes::new();
    let params = jit(init).call(&())?;
    let data = Array::from_fn([4, 6, 8], |i| ((i[0] * 48 + i[1] * 8 + i[2]) as f32 * 0.37).sin());
    let x = NamedTensor::host(data, [&a.batch, &a.position, &a.embed])?;
    let arguments = (params, x);
    let (alone, slope) = jit(loss_and_gradient).single_device().call(&arguments)?;

    let mesh = Mesh::grid(("data", 2), ("model", 2))?;
    let split = Mapping::new([("batch", "data"), ("heads", "model"), ("mlp", "model")]);
    let stored = Mapping::new([("embed", "data"), ("heads", "model"), ("mlp", "model")]);
    let ways = [
        ("one copy per device", named_jit(&mesh, loss_and_gradient).mapping(Mapping::default())),
        ("data parallel", named_jit(&mesh, loss_and_gradient).mapping(Mapping::new([("batch", "data")]))),
        ("data and tensor parallel", named_jit(&mesh, loss_and_gradient).mapping(split.clone())),
        ("parameters in parts", fsdp(&mesh, loss_and_gradient, stored, split)),
    ];
    for (name, f) in ways {
        let (value, gradient) = f.call(&arguments)?;
        assert!(value.all_close(&alone, 1e-5), "{name}");
        assert!(gradient.q.array().all_close(slope.q.array(), 1e-4), "{name}");
        assert!(gradient.down.array().all_close(slope.down.array(), 1e-4), "{name}");
        let plan = f.plan(&arguments)?;
        let held: i64 = arguments.0.up.array().size() / gradient.up.array().shard_data(0)?.size();
        let (loss, sent) = (value.item::<f32>()?, plan.wire_bytes().abs());
        println!("{name:26} loss {loss:.6}, 1/{held} of `up` per device, {sent} bytes sent by a device");
    }
    Ok(())
}
