//! Fused kernels on one core: time per call, bytes moved, and the share of what a plain copy moves.
#![allow(unsafe_code)] // kernels work on raw pointers

use std::process::ExitCode;
use std::time::Instant;

use meshwork_cpu::kernel::ir::*;
use meshwork_cpu::kernel::{Backend, Kernel};
use meshwork_cpu::step::Scratch;
use meshwork_ir::ElementType::{BF16, F32, F64, UI8};

/// A kernel, its shape, and the layout of its arguments.
struct Case {
    name: &'static str,
    body: Body,
    rows: usize,
    n: usize,
    /// Per argument: elements from one row to the next (0: the same row), and elements before the first one.
    layout: Vec<(usize, usize)>,
    /// Bytes that must move at least.
    bytes: usize,
}

fn unit(elem: meshwork_ir::ElementType, output: bool) -> Arg {
    Arg { elem, access: Access::Unit, output }
}

fn one(elem: meshwork_ir::ElementType, output: bool) -> Arg {
    Arg { elem, access: Access::Zero, output }
}

fn c(x: f32) -> Op {
    Op::Const(Ty::F32, x.to_bits().into())
}

fn row(ops: Vec<Op>) -> Phase {
    Phase { extent: Extent::Row, ops }
}

fn once(ops: Vec<Op>) -> Phase {
    Phase { extent: Extent::Once, ops }
}

/// A body of one phase with unit arguments of type f32, the last of which is the output.
fn map(inputs: usize, ops: Vec<Op>) -> Body {
    let mut args = vec![unit(F32, false); inputs];
    args.push(unit(F32, true));
    Body { args, temps: vec![], scalars: 0, phases: vec![row(ops)] }
}

fn heat(elem: meshwork_ir::ElementType) -> Body {
    let ty = if elem == F64 { Ty::F64 } else { Ty::F32 };
    let num = |x: f64| Op::Const(ty, if elem == F64 { x.to_bits() } else { u64::from((x as f32).to_bits()) });
    let ops = vec![
        Op::Load(0),
        Op::Load(1),
        Op::Load(2),
        num(2.0),
        Op::Binary(BinaryOp::Multiply, 1, 3),
        Op::Binary(BinaryOp::Subtract, 0, 4),
        Op::Binary(BinaryOp::Add, 5, 2),
        num(0.1),
        Op::Binary(BinaryOp::Multiply, 6, 7),
        Op::Binary(BinaryOp::Add, 1, 8),
        Op::Store(3, 9),
    ];
    let mut args = vec![unit(elem, false); 3];
    args.push(unit(elem, true));
    Body { args, temps: vec![], scalars: 0, phases: vec![row(ops)] }
}

fn function(f: UnaryOp) -> Body {
    map(1, vec![Op::Load(0), Op::Unary(f, 0), Op::Store(1, 1)])
}

/// The gradient of the tanh form of GELU, times the incoming gradient.
fn gelu_backward() -> Body {
    use BinaryOp::{Add, Multiply as Mul, Subtract as Sub};
    map(
        2,
        vec![
            Op::Load(0),
            Op::Load(1),
            Op::Binary(Mul, 0, 0),
            Op::Binary(Mul, 2, 0),
            c(0.044715),
            Op::Binary(Mul, 3, 4),
            Op::Binary(Add, 0, 5),
            c(0.797_884_6),
            Op::Binary(Mul, 6, 7),
            Op::Unary(UnaryOp::Tanh, 8),
            c(1.0),
            Op::Binary(Mul, 9, 9),
            Op::Binary(Sub, 10, 11),
            c(0.134145),
            Op::Binary(Mul, 2, 13),
            Op::Binary(Add, 14, 10),
            Op::Binary(Mul, 15, 7),
            Op::Binary(Mul, 12, 16),
            Op::Binary(Mul, 17, 0),
            Op::Binary(Add, 10, 9),
            Op::Binary(Add, 19, 18),
            c(0.5),
            Op::Binary(Mul, 20, 21),
            Op::Binary(Mul, 22, 1),
            Op::Store(2, 23),
        ],
    )
}

fn softmax() -> Body {
    Body {
        args: vec![unit(F32, false), unit(F32, true)],
        temps: vec![Ty::F32],
        scalars: 3,
        phases: vec![
            row(vec![Op::Load(0), Op::Reduce(Combine::Max, 0, 0)]),
            row(vec![
                Op::Load(0),
                Op::Scalar(0, Ty::F32),
                Op::Binary(BinaryOp::Subtract, 0, 1),
                Op::Unary(UnaryOp::Exponential, 2),
                Op::StoreTemp(0, 3),
                Op::Reduce(Combine::Add, 1, 3),
            ]),
            once(vec![c(1.0), Op::Scalar(1, Ty::F32), Op::Binary(BinaryOp::Divide, 0, 1), Op::SetScalar(2, 2)]),
            row(vec![
                Op::LoadTemp(0, Ty::F32),
                Op::Scalar(2, Ty::F32),
                Op::Binary(BinaryOp::Multiply, 0, 1),
                Op::Store(1, 2),
            ]),
        ],
    }
}

fn layer_norm(n: usize) -> Body {
    use BinaryOp::{Add, Multiply as Mul, Subtract as Sub};
    let count = 1.0 / n as f32;
    Body {
        args: vec![unit(F32, false), unit(F32, false), unit(F32, false), unit(F32, true)],
        temps: vec![],
        scalars: 4,
        phases: vec![
            row(vec![Op::Load(0), Op::Reduce(Combine::Add, 0, 0)]),
            once(vec![Op::Scalar(0, Ty::F32), c(count), Op::Binary(Mul, 0, 1), Op::SetScalar(1, 2)]),
            row(vec![
                Op::Load(0),
                Op::Scalar(1, Ty::F32),
                Op::Binary(Sub, 0, 1),
                Op::Binary(Mul, 2, 2),
                Op::Reduce(Combine::Add, 2, 3),
            ]),
            once(vec![
                Op::Scalar(2, Ty::F32),
                c(count),
                Op::Binary(Mul, 0, 1),
                c(1e-5),
                Op::Binary(Add, 2, 3),
                Op::Unary(UnaryOp::Rsqrt, 4),
                Op::SetScalar(3, 5),
            ]),
            row(vec![
                Op::Load(0),
                Op::Scalar(1, Ty::F32),
                Op::Binary(Sub, 0, 1),
                Op::Scalar(3, Ty::F32),
                Op::Binary(Mul, 2, 3),
                Op::Load(1),
                Op::Binary(Mul, 4, 5),
                Op::Load(2),
                Op::Binary(Add, 6, 7),
                Op::Store(3, 8),
            ]),
        ],
    }
}

fn reduce(how: Combine, square: bool) -> Body {
    let mut ops = vec![Op::Load(0)];
    if square {
        ops.push(Op::Binary(BinaryOp::Multiply, 0, 0));
    }
    ops.push(Op::Reduce(how, 0, u16::from(square)));
    Body {
        args: vec![unit(F32, false), one(F32, true)],
        temps: vec![],
        scalars: 1,
        phases: vec![row(ops), once(vec![Op::Scalar(0, Ty::F32), Op::Store(1, 0)])],
    }
}

fn life() -> Body {
    let mut ops: Vec<Op> = (0..9).map(Op::Load).collect();
    let mut sum = 0;
    for k in [1, 2, 3, 5, 6, 7, 8] {
        ops.push(Op::Binary(BinaryOp::Add, sum, k));
        sum = ops.len() as Val - 1;
    }
    let n = ops.len() as Val;
    ops.extend([
        Op::Const(Ty::U8, 3),
        Op::Compare(Cmp::Eq, sum, n),
        Op::Binary(BinaryOp::Or, sum, 4),
        Op::Compare(Cmp::Eq, n + 2, n),
        Op::Binary(BinaryOp::Or, n + 1, n + 3),
        Op::Convert(Ty::U8, n + 4),
        Op::Store(9, n + 5),
    ]);
    let mut args = vec![unit(UI8, false); 9];
    args.push(unit(UI8, true));
    Body { args, temps: vec![], scalars: 0, phases: vec![row(ops)] }
}

fn cases() -> Vec<Case> {
    let mut list = vec![];
    let mut add = |name, body: Body, rows, n, layout: Vec<(usize, usize)>, bytes| {
        list.push(Case { name, body, rows, n, layout, bytes });
    };
    let flat = |k: usize| vec![(0, 0); k];
    for (name, n) in [("copy 10^4", 10_000), ("copy 10^6", 1_000_000), ("copy 10^7", 10_000_000)] {
        add(name, map(1, vec![Op::Load(0), Op::Store(1, 0)]), 1, n, flat(2), 8 * n);
    }
    let stencil = vec![(0, 0), (0, 1), (0, 2), (0, 0)];
    for (name, n) in [("heat 10^4", 10_000), ("heat 10^6", 1_000_000), ("heat 10^7", 10_000_000)] {
        add(name, heat(F32), 1, n, stencil.clone(), 8 * n);
    }
    add("heat f64 10^6", heat(F64), 1, 1_000_000, stencil, 16_000_000);
    let functions = [
        ("exp", UnaryOp::Exponential),
        ("log", UnaryOp::Log),
        ("tanh", UnaryOp::Tanh),
        ("erf", UnaryOp::Erf),
        ("logistic", UnaryOp::Logistic),
        ("expm1", UnaryOp::ExponentialMinusOne),
        ("log1p", UnaryOp::LogPlusOne),
        ("sin", UnaryOp::Sine),
        ("rsqrt", UnaryOp::Rsqrt),
    ];
    for (name, f) in functions {
        add(name, function(f), 1, 10_000, flat(2), 80_000);
    }
    add("gelu backward 10^4", gelu_backward(), 1, 10_000, flat(3), 120_000);
    add("gelu backward 10^6", gelu_backward(), 1, 1_000_000, flat(3), 12_000_000);
    let rows = |k: usize, n: usize| vec![(n, 0); k];
    add("softmax 4096x1024", softmax(), 4096, 1024, rows(2, 1024), 1 << 25);
    add("layernorm 4096x1024", layer_norm(1024), 4096, 1024, vec![(1024, 0), (0, 0), (0, 0), (1024, 0)], 1 << 25);
    add("sum rows 4096x1024", reduce(Combine::Add, false), 4096, 1024, vec![(1024, 0), (1, 0)], 1 << 24);
    add("max rows 4096x1024", reduce(Combine::Max, false), 4096, 1024, vec![(1024, 0), (1, 0)], 1 << 24);
    add("sum of squares 4M", reduce(Combine::Add, true), 1, 1 << 22, flat(2), 1 << 24);
    let columns = vec![Op::Load(0), Op::Load(1), Op::Binary(BinaryOp::Add, 0, 1), Op::Store(2, 2)];
    add("sum columns 4096x1024", map(2, columns), 4096, 1024, vec![(1024, 0), (0, 0), (0, 0)], 1 << 24);
    let relu = vec![
        Op::Load(0),
        Op::Load(1),
        Op::Binary(BinaryOp::Add, 0, 1),
        c(0.0),
        Op::Binary(BinaryOp::Maximum, 2, 3),
        Op::Store(2, 4),
    ];
    add("bias+relu 4096x1024", map(2, relu.clone()), 4096, 1024, vec![(1024, 0), (0, 0), (1024, 0)], 1 << 25);
    add("bias+relu 131072x8", map(2, relu.clone()), 131_072, 8, vec![(8, 0), (0, 0), (8, 0)], 1 << 23);
    add("bias+relu 131072x3", map(2, relu.clone()), 131_072, 3, vec![(3, 0), (0, 0), (3, 0)], 3 << 20);
    add("bias+relu 512x256", map(2, relu.clone()), 512, 256, vec![(256, 0), (0, 0), (256, 0)], 1 << 20);
    add("bias+relu 512x256 in place", map(2, relu), 512, 256, vec![(256, 0), (0, 0), (256, 0)], 1 << 20);
    let half = vec![
        Op::Load(0),
        c(0.5),
        Op::Binary(BinaryOp::Add, 0, 1),
        c(0.0),
        Op::Binary(BinaryOp::Maximum, 2, 3),
        Op::Store(1, 4),
    ];
    let body =
        Body { args: vec![unit(BF16, false), unit(BF16, true)], temps: vec![], scalars: 0, phases: vec![row(half)] };
    add("bf16 relu(x+c) 10^6", body, 1, 1_000_000, flat(2), 4_000_000);
    let body = Body {
        args: vec![Arg { elem: F32, access: Access::Strided, output: false }, unit(F32, true)],
        temps: vec![],
        scalars: 0,
        phases: vec![row(vec![Op::Load(0), Op::Store(1, 0)])],
    };
    add("every second of 10^4", body, 1, 10_000, flat(2), 80_000);
    let (w, h) = (4096, 4096);
    let neighbours = (0..9).map(|k| (w + 64, (k / 3) * (w + 64) + k % 3));
    let layout = neighbours.chain([(w + 64, w + 65)]).collect();
    add("life u8 4096^2", life(), h, w, layout, 2 * w * h);
    list
}

/// Zeroed memory on large pages where the system has them.
struct Memory {
    start: *mut u8,
    layout: std::alloc::Layout,
}

impl Memory {
    fn new(bytes: usize) -> Option<Memory> {
        let layout = std::alloc::Layout::from_size_align(bytes.next_multiple_of(1 << 21), 1 << 21).ok()?;
        // SAFETY: the size is not zero; the advice changes nothing that can be seen.
        unsafe {
            let start = std::alloc::alloc(layout);
            if start.is_null() {
                return None;
            }
            libc::madvise(start.cast(), layout.size(), libc::MADV_HUGEPAGE);
            start.write_bytes(0, layout.size());
            Some(Memory { start, layout })
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: made with this layout.
        unsafe { std::alloc::dealloc(self.start, self.layout) }
    }
}

/// The shortest time of a call in microseconds.
fn time(case: &Case, kernel: &Kernel, budget: f64) -> Option<f64> {
    let mut memories = vec![];
    let (mut ptrs, mut row_strides, mut strides) = (vec![], vec![], vec![]);
    for (k, (arg, &(per_row, before))) in case.body.args.iter().zip(&case.layout).enumerate() {
        let size = arg.elem.storage_bytes();
        // The shifted views of a stencil are one array, and so is an accumulator that is read and written.
        let shares = k > 0 && !arg.output && before > 0 && case.body.args[0].elem == arg.elem;
        let twin = k == 2 && (case.name.starts_with("sum columns") || case.name.ends_with("in place"));
        let of = usize::from(case.name.starts_with("sum columns"));
        let elements = per_row.max(1) * case.rows + 3 * case.n + before + 8192;
        // Different places in their pages, so that input and output do not collide in the cache.
        let stagger = 1088 * (k + 1);
        if !shares && !twin {
            let memory = Memory::new(size * elements + 8192 * 4)?;
            if !arg.output {
                // SAFETY: inside the memory.
                unsafe { fill(memory.start.add(stagger), arg.elem, elements) };
            }
            memories.push(memory);
        }
        let base = if shares {
            ptrs[0]
        } else if twin {
            ptrs[of]
        } else {
            // SAFETY: inside the memory.
            unsafe { memories[memories.len() - 1].start.add(stagger) }
        };
        // SAFETY: inside the memory.
        ptrs.push(if twin { base } else { unsafe { base.add(size * before) } });
        row_strides.push((size * per_row) as isize);
        strides.push(match arg.access {
            Access::Unit | Access::Listed => size as isize,
            Access::Zero | Access::Fixed => 0,
            Access::Pair | Access::Strided => 2 * size as isize,
            Access::Triple => 3 * size as isize,
        });
    }
    let call =
        Call { ptrs: &ptrs, row_strides: &row_strides, strides: &strides, rows: case.rows, n: case.n, index: &[] };
    let mut scratch = Scratch::default();
    let mut least = f64::INFINITY;
    let start = Instant::now();
    let mut repeat = 1;
    while start.elapsed().as_secs_f64() < budget {
        let now = Instant::now();
        for _ in 0..repeat {
            // SAFETY: the memory holds what the call reaches.
            unsafe { kernel.run(&call, &mut scratch) };
        }
        let spent = now.elapsed().as_secs_f64() * 1e6;
        least = least.min(spent / f64::from(repeat));
        if spent < 20.0 {
            repeat *= 2;
        }
    }
    Some(least)
}

unsafe fn fill(start: *mut u8, elem: meshwork_ir::ElementType, n: usize) {
    for i in 0..n {
        let x = (i * 7919 % 4001) as f32 / 1000.0 - 2.0;
        // SAFETY: the caller's promise.
        unsafe {
            match elem {
                F32 => start.cast::<f32>().add(i).write(x),
                F64 => start.cast::<f64>().add(i).write(x.into()),
                BF16 => start.cast::<u16>().add(i).write((x.to_bits() >> 16) as u16),
                _ => start.add(i).write((i * 37 % 11 < 4).into()),
            }
        }
    }
}

/// Runs all cases whose names contain one of `args`; `--interpreter` adds the interpreter's times.
pub fn run(args: &[String]) -> ExitCode {
    let both = args.iter().any(|a| a == "--interpreter");
    let names: Vec<&String> = args.iter().filter(|a| !a.starts_with("--")).collect();
    println!("{:<27} {:>10} {:>8}  {:<9} {:>6}", "kernel", "us", "GB/s", "in flight", "compile us");
    for case in cases() {
        if !names.is_empty() && !names.iter().any(|n| case.name.contains(n.as_str())) {
            continue;
        }
        let mut compile = f64::INFINITY;
        let mut made = None;
        for _ in 0..20 {
            let start = Instant::now();
            match Kernel::new(case.body.clone()) {
                Ok(kernel) => made = Some(kernel),
                Err(error) => {
                    eprintln!("{}: {error}", case.name);
                    return ExitCode::FAILURE;
                }
            }
            compile = compile.min(start.elapsed().as_secs_f64() * 1e6);
        }
        let Some(kernel) = made else { return ExitCode::FAILURE };
        let Some(us) = time(&case, &kernel, 0.4) else {
            eprintln!("{}: no memory", case.name);
            return ExitCode::FAILURE;
        };
        let flight = match kernel.backend() {
            Backend::Compiled => format!("{:?}", kernel.interleave().unwrap_or_default()),
            Backend::Interpreter => "interpreted".into(),
        };
        print!("{:<27} {us:>10.2} {:>8.1}  {flight:<9} {compile:>6.0}", case.name, case.bytes as f64 / us / 1e3);
        if both && let Ok(slow) = Kernel::interpreted(case.body.clone()) {
            print!("   interpreter {:>10.2}", time(&case, &slow, 0.2).unwrap_or(0.0));
        }
        println!();
    }
    ExitCode::SUCCESS
}
