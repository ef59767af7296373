//! Programs like those of [`programs`](super::programs): other stencils, gated blocks and reductions over split dimensions. The
//! model was first tried on them when it was done for the others.

use meshwork::prelude::*;

use super::programs::{NONE, Program, first, second, whole};

/// Periodic upwind advection.
fn advection(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..40, u.clone(), |_, u: Tensor| &u - 0.3 * (&u - u.roll(1, 0)))
}

/// Diffusion of fourth order.
fn fourth_order(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..30, u.clone(), |_, u: Tensor| {
        let near = u.slice(s![1..-3]) + u.slice(s![3..-1]);
        let far = u.slice(s![..-4]) + u.slice(s![4..]);
        let middle = u.slice(s![2..-2]);
        let inner = &middle + 0.02 * (16.0 * near - far - 30.0 * &middle);
        u.at(s![2..-2]).set(inner)
    })
}

/// Diffusion in a square.
fn square(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..20, u.clone(), |_, u: Tensor| {
        let middle = u.slice(s![1..-1, 1..-1]);
        let sides =
            u.slice(s![..-2, 1..-1]) + u.slice(s![2.., 1..-1]) + u.slice(s![1..-1, ..-2]) + u.slice(s![1..-1, 2..]);
        u.at(s![1..-1, 1..-1]).set(&middle + 0.2 * (sides - 4.0 * &middle))
    })
}

fn heat(rounds: i64, u: &Tensor) -> Tensor {
    for_loop(0..rounds, u.clone(), |_, u: Tensor| {
        let inner = 0.4 * u.slice(s![1..-1]) + 0.3 * u.slice(s![..-2]) + 0.3 * u.slice(s![2..]);
        u.at(s![1..-1]).set(inner)
    })
}

/// All of them.
pub const NEIGHBOURS: [Program; 14] = [
    Program {
        name: "heat, short array",
        f: |u, _, _| heat(100, u),
        shapes: [&[16384], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "heat, long array",
        f: |u, _, _| heat(16, u),
        shapes: [&[1 << 21], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "advection, periodic",
        f: advection,
        shapes: [&[131072], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "diffusion of fourth order",
        f: fourth_order,
        shapes: [&[65536], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "diffusion in a square",
        f: square,
        shapes: [&[256, 512], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "gated block, gelu",
        f: |x, w, u| x.matmul(w).gelu_tanh() * x.matmul(u),
        shapes: [&[256, 512], &[512, 1024], &[512, 1024]],
        specs: [first, whole, whole],
    },
    Program {
        name: "gated block, columns split",
        f: |x, w, u| {
            let h = x.layer_norm(1e-5);
            h.matmul(w).silu() * h.matmul(u)
        },
        shapes: [&[512, 256], &[256, 1024], &[256, 1024]],
        specs: [whole, second, second],
    },
    Program {
        name: "gated block with a sum",
        f: |x, w, u| {
            let h = x.rms_norm(1e-6);
            (x + h.matmul(w).tanh() * h.matmul(u).sigmoid()).square().mean_all()
        },
        shapes: [&[1024, 256], &[256, 256], &[256, 256]],
        specs: [first, whole, whole],
    },
    Program {
        name: "softmax of split columns",
        f: |x, _, _| x.softmax(0),
        shapes: [&[2048, 512], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "log softmax over a split dimension",
        f: |x, _, _| x.log_softmax(-1),
        shapes: [&[256, 4096], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "logarithm of a sum over a split dimension",
        f: |x, _, _| x.logsumexp(-1),
        shapes: [&[512, 2048], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "layer norm over a split dimension",
        f: |x, _, _| x.layer_norm(1e-5),
        shapes: [&[512, 1024], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "greatest of a split dimension",
        f: |x, _, _| x / x.abs().max(&[1]).expand_dims(1),
        shapes: [&[1024, 2048], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "sum of squares over a split dimension",
        f: |x, w, _| (x * w).square().sum(&[1]),
        shapes: [&[1024, 1024], &[1024, 1024], NONE],
        specs: [second, second, whole],
    },
];
