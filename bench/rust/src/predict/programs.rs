//! The programs whose times are predicted and measured: those that showed what the model lacked.

use meshwork::prelude::*;

/// A program of three arrays, split over the axis `x`.
pub struct Program {
    /// What it is.
    pub name: &'static str,
    /// What it computes.
    pub f: fn(&Tensor, &Tensor, &Tensor) -> Tensor,
    /// The arrays.
    pub shapes: [&'static [i64]; 3],
    /// How they are split.
    pub specs: [fn() -> P; 3],
}

/// No array.
pub const NONE: &[i64] = &[1];

/// On every device.
pub fn whole() -> P {
    P![]
}

/// The first dimension is split.
pub fn first() -> P {
    P!["x"]
}

/// The second dimension is split.
pub fn second() -> P {
    P![_, "x"]
}

fn attention(q: &Tensor, k: &Tensor, v: &Tensor) -> Tensor {
    let scores = einsum("bhtk,bhsk->bhts", &[q, k]) / 8.0;
    einsum("bhts,bhsk->bhtk", &[&scores.softmax(-1), v])
}

fn loss(x: &Tensor, w: &Tensor, u: &Tensor) -> Tensor {
    x.matmul(w).gelu_tanh().matmul(u).square().mean_all()
}

fn heat(u: &Tensor, _: &Tensor, _: &Tensor) -> Tensor {
    for_loop(0..50, u.clone(), |_, u: Tensor| {
        let inner = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
        u.at(s![1..-1]).set(inner)
    })
}

fn recurrence(x: &Tensor, w: &Tensor, u: &Tensor) -> Tensor {
    let driven = x.matmul(w);
    for_loop(0..8, driven.clone(), |_, h: Tensor| (&driven + h.matmul(u)).tanh())
}

/// All of them.
pub const PROGRAMS: [Program; 20] = [
    Program {
        name: "mlp, batch split",
        f: |x, w, u| x.matmul(w).gelu_tanh().matmul(u),
        shapes: [&[512, 512], &[512, 1024], &[1024, 512]],
        specs: [first, whole, whole],
    },
    Program {
        name: "mlp, weights split",
        f: |x, w, u| x.matmul(w).gelu_tanh().matmul(u),
        shapes: [&[512, 512], &[512, 1024], &[1024, 512]],
        specs: [whole, second, first],
    },
    Program {
        name: "mlp gradient, batch split",
        f: |x, w, u| grad(|w: Tensor| loss(x, &w, u), w.clone()),
        shapes: [&[512, 256], &[256, 512], &[512, 256]],
        specs: [first, whole, whole],
    },
    Program {
        name: "mlp gradient, weights split",
        f: |x, w, u| grad(|w: Tensor| loss(x, &w, u), w.clone()),
        shapes: [&[512, 256], &[256, 512], &[512, 256]],
        specs: [whole, second, first],
    },
    Program {
        name: "attention, batch split",
        f: attention,
        shapes: [&[8, 8, 128, 64], &[8, 8, 128, 64], &[8, 8, 128, 64]],
        specs: [first, first, first],
    },
    Program {
        name: "attention, heads split",
        f: attention,
        shapes: [&[2, 8, 256, 64], &[2, 8, 256, 64], &[2, 8, 256, 64]],
        specs: [second, second, second],
    },
    Program {
        name: "softmax",
        f: |x, _, _| x.softmax(-1),
        shapes: [&[1024, 1024], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "softmax over a split dimension",
        f: |x, _, _| x.softmax(-1),
        shapes: [&[1024, 1024], NONE, NONE],
        specs: [second, whole, whole],
    },
    Program {
        name: "layer norm",
        f: |x, _, _| x.layer_norm(1e-5),
        shapes: [&[2048, 512], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "chain of functions",
        f: |x, _, _| (x.gelu_tanh() + x.sin()).exp().tanh(),
        shapes: [&[512, 1024], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "product, rows split",
        f: |x, w, _| x.matmul(w),
        shapes: [&[768, 768], &[768, 768], NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "product, sum split",
        f: |x, w, _| x.matmul(w),
        shapes: [&[512, 2048], &[2048, 512], NONE],
        specs: [second, first, whole],
    },
    Program {
        name: "stack of products",
        f: |x, w, _| einsum("bij,bjk->bik", &[x, w]),
        shapes: [&[64, 128, 128], &[64, 128, 128], NONE],
        specs: [first, first, whole],
    },
    Program {
        name: "sum of everything",
        f: |x, _, _| x.square().sum_all(),
        shapes: [&[2048, 2048], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "means of columns",
        f: |x, _, _| x.mean(&[0]),
        shapes: [&[4096, 512], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "standardized columns",
        f: |x, _, _| (x - x.mean(&[0])) / (x.var(&[0]) + 1e-5).sqrt(),
        shapes: [&[4096, 256], NONE, NONE],
        specs: [first, whole, whole],
    },
    Program {
        name: "convolution",
        f: |x, k, _| x.conv(k, &Conv { padding: Padding::Same, ..Conv::default() }).relu(),
        shapes: [&[8, 32, 32, 32], &[3, 3, 32, 32], NONE],
        specs: [first, whole, whole],
    },
    Program { name: "heat equation", f: heat, shapes: [&[65536], NONE, NONE], specs: [first, whole, whole] },
    Program {
        name: "recurrence",
        f: recurrence,
        shapes: [&[256, 256], &[256, 256], &[256, 256]],
        specs: [first, whole, whole],
    },
    Program {
        name: "gated block",
        f: |x, w, u| {
            let h = x.rms_norm(1e-6);
            h.matmul(w).silu() * h.matmul(u) + x
        },
        shapes: [&[512, 512], &[512, 512], &[512, 512]],
        specs: [first, whole, whole],
    },
];
