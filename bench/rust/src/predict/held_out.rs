//! Programs that were written down before the model was changed for the neighbours, and run after that: how the model did on
//! these the first time says more than how it does on the others.

use meshwork::prelude::*;

use super::programs::{NONE, Program, first, second, whole};

/// A string: the next position of each point from this one and the last.
fn string(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    let last = for_loop(0..40, (u.clone(), u.clone()), |_, (now, before): (Tensor, Tensor)| {
        let inner = 1.6 * now.slice(s![1..-1]) + 0.2 * (now.slice(s![..-2]) + now.slice(s![2..]));
        let next = now.at(s![1..-1]).set(inner - before.slice(s![1..-1]));
        (next, now)
    });
    last.0
}

/// The mean of each point and its eight neighbours, round and round.
fn blur(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..10, u.clone(), |_, u: Tensor| {
        let rows = &u + u.roll(1, 0) + u.roll(-1, 0);
        (&rows + rows.roll(1, 1) + rows.roll(-1, 1)) / 9.0
    })
}

/// Heat in a rod of several materials.
fn rod(u: &Tensor, k: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..25, u.clone(), |_, u: Tensor| {
        let middle = u.slice(s![1..-1]);
        let bend = u.slice(s![..-2]) - 2.0 * &middle + u.slice(s![2..]);
        u.at(s![1..-1]).set(&middle + k.slice(s![1..-1]) * bend)
    })
}

/// All of them.
pub const HELD_OUT: [Program; 8] = [
    Program { name: "string", f: string, shapes: [&[65536], NONE, NONE], specs: [first, whole, whole] },
    Program { name: "blur", f: blur, shapes: [&[384, 384], NONE, NONE], specs: [first, whole, whole] },
    Program { name: "rod", f: rod, shapes: [&[98304], &[98304], NONE], specs: [first, first, whole] },
    Program {
        name: "block with a gate and a way back",
        f: |x, w, u| {
            let h = x.rms_norm(1e-6);
            x + (h.matmul(w).silu() * h.matmul(w)).matmul(u)
        },
        shapes: [&[384, 384], &[384, 768], &[768, 384]],
        specs: [first, whole, whole],
    },
    Program {
        name: "gate of a softmax",
        f: |x, w, u| x.matmul(w).softmax(-1) * x.matmul(u),
        shapes: [&[768, 256], &[256, 384], &[256, 384]],
        specs: [first, whole, whole],
    },
    Program {
        name: "norm over a split dimension",
        f: |x, _, _| x.rms_norm(1e-6),
        shapes: [&[768, 1536], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "sum of exponentials",
        f: |x, _, _| x.exp().sum_all().log(),
        shapes: [&[1024, 1536], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "variances of split columns",
        f: |x, _, _| x.var(&[0]),
        shapes: [&[3072, 384], NONE, NONE],
        specs: [first, whole, whole],
    },
];
