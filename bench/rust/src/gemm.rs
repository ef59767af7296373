//! Matrix products and convolutions of the runtime's library on one thread; products compared with the `gemm` crate
//! (feature `compare`).

use std::process::ExitCode;

use meshwork_cpu::compile::lower::Lower;
use meshwork_cpu::library;
use meshwork_cpu::program::Node;
use meshwork_cpu::step::{Frame, Scratch};
use meshwork_ir::text;

use crate::timing::{on_processor, wall};

/// Rows, columns, depth, how `A` and `B` are stored, batch.
#[derive(Clone, Debug)]
struct Shape {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    ta: bool,
    tb: bool,
}

fn parse(text: &str) -> Option<Shape> {
    let (sizes, flags) = text.split_once(':').unwrap_or((text, ""));
    let sizes: Vec<usize> = sizes.split('x').map(str::parse).collect::<Result<_, _>>().ok()?;
    let (batch, rest) = match sizes.len() {
        3 => (1, &sizes[..]),
        4 => (sizes[0], &sizes[1..]),
        _ => return None,
    };
    Some(Shape { batch, m: rest[0], n: rest[1], k: rest[2], ta: flags.contains('a'), tb: flags.contains('t') })
}

const DEFAULT: &[&str] = &[
    "8x8x8",
    "64x64x64",
    "256x256x256",
    "512x512x512",
    "1024x1024x1024",
    "1024x1024x1024:a",
    "1024x1024x1024:t",
    "1024x1024x1024:at",
    "2048x2048x2048",
    "2048x3072x768",
    "2048x768x3072",
    "512x1024x784",
    "1x1024x1024",
    "1x1024x1024:t",
    "1024x1x1024",
    "4x1024x1024",
    "8x1024x1024",
    "8x1024x1024:t",
    "512x10x1024",
    "1024x32x1024",
    "1024x1024x32",
    "4096x256x64",
    "64x256x256x32",
    "64x256x256x32:t",
    "64x256x32x256",
    "64x256x32x256:a",
];

/// Runs the shapes given, or the usual ones.
pub fn run(args: &[String]) -> ExitCode {
    let names: Vec<&str> = if args.is_empty() { DEFAULT.to_vec() } else { args.iter().map(String::as_str).collect() };
    println!("{:24} {:>10} {:>10} {:>10} {:>10}", "shape", "ours µs", "GF/s", "gemm µs", "ratio");
    for name in names {
        let Some(shape) = parse(name) else {
            eprintln!("'{name}' is not a shape such as 512x512x512, 8x64x64x64 or 512x512x512:at");
            return ExitCode::FAILURE;
        };
        measure(name, &shape);
    }
    ExitCode::SUCCESS
}

/// Convolutions: name, dimension numbers, input, kernel, result, window, groups.
const CONVOLUTIONS: &[[&str; 7]] = &[
    [
        "NHWC 56² 64 3x3",
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
        "8x56x56x64",
        "3x3x64x64",
        "8x56x56x64",
        "pad = [[1, 1], [1, 1]]",
        "1",
    ],
    [
        "NHWC 28² 128 3x3",
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
        "8x28x28x128",
        "3x3x128x128",
        "8x28x28x128",
        "pad = [[1, 1], [1, 1]]",
        "1",
    ],
    [
        "NHWC 7² 512 3x3",
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
        "8x7x7x512",
        "3x3x512x512",
        "8x7x7x512",
        "pad = [[1, 1], [1, 1]]",
        "1",
    ],
    [
        "NHWC 224² 3 7x7/2",
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
        "1x224x224x3",
        "7x7x3x64",
        "1x112x112x64",
        "stride = [2, 2], pad = [[3, 3], [3, 3]]",
        "1",
    ],
    ["NHWC 56² 64 1x1", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]", "8x56x56x64", "1x1x64x256", "8x56x56x256", "", "1"],
    [
        "NCHW 56² 64 3x3",
        "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
        "8x64x56x56",
        "64x64x3x3",
        "8x64x56x56",
        "pad = [[1, 1], [1, 1]]",
        "1",
    ],
    [
        "to weights 56² 64",
        "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
        "8x56x56x64",
        "8x56x56x64",
        "3x3x64x64",
        "pad = [[1, 1], [1, 1]]",
        "1",
    ],
    [
        "depthwise 56² 128",
        "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
        "8x56x56x128",
        "3x3x1x128",
        "8x56x56x128",
        "pad = [[1, 1], [1, 1]]",
        "128",
    ],
];

/// Runs the usual convolutions.
pub fn convolutions() -> ExitCode {
    println!("{:24} {:>10} {:>10}", "convolution", "µs", "GF/s");
    for [name, numbers, lhs, rhs, out, window, groups] in CONVOLUTIONS {
        let source = format!(
            "func.func @main(%a: tensor<{lhs}xf32>, %b: tensor<{rhs}xf32>) -> tensor<{out}xf32> {{
            %r = stablehlo.convolution(%a, %b) dim_numbers = {numbers}, window = {{{window}}}
                {{batch_group_count = 1 : i64, feature_group_count = {groups} : i64}} : (tensor<{lhs}xf32>, tensor<{rhs}xf32>) -> tensor<{out}xf32>
            return %r : tensor<{out}xf32> }}"
        );
        let product = |dims: &str| dims.split('x').map(|d| d.parse::<f64>().unwrap_or(1.0)).product::<f64>();
        // Each element of the kernel is used once for each image and position.
        let feature = numbers.split("->").nth(1).and_then(|t| t.find('f')).map_or(0, |at| (at - 1) / 3);
        let features: f64 = out.split('x').nth(feature).and_then(|d| d.parse().ok()).unwrap_or(1.0);
        let flops = 2.0 * product(out) / features * product(rhs);
        time(name, &source, flops, &mut |_, _| None);
    }
    ExitCode::SUCCESS
}

fn measure(name: &str, s: &Shape) {
    let lead = format!("{}x", s.batch);
    let a = if s.ta { format!("{lead}{}x{}xf32", s.k, s.m) } else { format!("{lead}{}x{}xf32", s.m, s.k) };
    let b = if s.tb { format!("{lead}{}x{}xf32", s.n, s.k) } else { format!("{lead}{}x{}xf32", s.k, s.n) };
    let r = format!("{lead}{}x{}xf32", s.m, s.n);
    let (ca, cb) = (1 + usize::from(!s.ta), 1 + usize::from(s.tb));
    let source = format!(
        "func.func @main(%a: tensor<{a}>, %b: tensor<{b}>) -> tensor<{r}> {{
        %r = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [{ca}] x [{cb}] : (tensor<{a}>, tensor<{b}>) -> tensor<{r}>
        return %r : tensor<{r}> }}"
    );
    let flops = 2.0 * (s.batch * s.m * s.n * s.k) as f64;
    time(name, &source, flops, &mut |ptrs, inner| reference(s, ptrs, inner));
}

/// Times the only operation of `source` and `other` on the same buffers, several times in a row.
fn time(name: &str, source: &str, flops: f64, other: &mut dyn FnMut(&[*mut u8], usize) -> Option<f64>) {
    let Ok(module) = text::parse(source) else { return eprintln!("{source} does not parse") };
    let Some(block) = module.entry().and_then(|f| module.body_of(f, 0)) else { return };
    let mut cx = Lower::new(&module, 1);
    for &arg in module.block(block).args() {
        cx.result(arg);
    }
    let Some(op) = module.block(block).first() else { return };
    if !library::lower(&mut cx, op).unwrap_or(false) {
        return eprintln!("{name}: no kernel");
    }
    let mut memory: Vec<Vec<[u64; 8]>> =
        cx.bufs.iter().map(|b| vec![[0x3F80_1234_3F70_4321; 8]; b.bytes / 64 + 2]).collect();
    let ptrs: Vec<*mut u8> =
        memory.iter_mut().map(|m| m.as_mut_ptr().cast::<u8>().wrapping_add(64 - m.as_ptr() as usize % 64)).collect();
    let frame = Frame { ptrs: &ptrs, device: 0, partition: 0, replica: 0 };
    let mut scratch = Scratch::default();
    let mut ours = || {
        for node in &cx.nodes {
            let Node::Step(step) = node else { continue };
            for part in 0..step.work.parts() {
                #[allow(unsafe_code)]
                // SAFETY: every buffer has memory of its size, nothing else uses it.
                let done = unsafe { step.work.run(&frame, &mut scratch, part) };
                if let Err(fault) = done {
                    eprintln!("{name}: {fault}");
                }
            }
        }
    };
    let rounds = ((2e9 / flops) as usize).clamp(5, 2000);
    let inner = ((1e5 / flops) as usize).clamp(1, 1000);
    let (mut best, mut theirs) = (f64::MAX, f64::MAX);
    for _ in 0..rounds {
        best = best.min(seconds(flops, || (0..inner).for_each(|_| ours())) / inner as f64);
        if let Some(seconds) = other(&ptrs, inner) {
            theirs = theirs.min(seconds);
        }
    }
    let rate = flops / best / 1e9;
    if theirs < f64::MAX {
        println!("{name:24} {:10.1} {rate:10.1} {:10.1} {:10.2}", best * 1e6, theirs * 1e6, theirs / best)
    } else {
        println!("{name:24} {:10.1} {rate:10.1}", best * 1e6)
    }
}

/// What `work` takes: where that is long enough to be interrupted, by the processor's clock.
fn seconds(flops: f64, work: impl FnOnce()) -> f64 {
    let ((), time) = if flops > 1e8 { on_processor(work) } else { wall(work) };
    time.as_secs_f64()
}

#[cfg(not(feature = "compare"))]
fn reference(_: &Shape, _: &[*mut u8], _: usize) -> Option<f64> {
    None
}

/// Seconds of the `gemm` crate on the same buffers: arguments are the first two, the result the third.
#[cfg(feature = "compare")]
fn reference(s: &Shape, ptrs: &[*mut u8], inner: usize) -> Option<f64> {
    let (m, n, k) = (s.m as isize, s.n as isize, s.k as isize);
    let (a, b, c) = (ptrs[0].cast::<f32>(), ptrs[1].cast::<f32>(), ptrs[2].cast::<f32>());
    let (a_row, a_col) = if s.ta { (1, m) } else { (k, 1) };
    let (b_row, b_col) = if s.tb { (1, k) } else { (n, 1) };
    let work = || {
        for _ in 0..inner {
            for i in 0..s.batch as isize {
                #[allow(unsafe_code)]
                // SAFETY: the buffers hold `batch` matrices of these sizes.
                unsafe {
                    gemm::gemm(
                        s.m,
                        s.n,
                        s.k,
                        c.offset(i * m * n),
                        1,
                        n,
                        false,
                        a.offset(i * m * k),
                        a_col,
                        a_row,
                        b.offset(i * k * n),
                        b_col,
                        b_row,
                        0.0,
                        1.0,
                        false,
                        false,
                        false,
                        gemm::Parallelism::None,
                    );
                }
            }
        }
    };
    let flops = 2.0 * (s.batch * s.m * s.n * s.k) as f64;
    Some(seconds(flops, work) / inner as f64)
}
