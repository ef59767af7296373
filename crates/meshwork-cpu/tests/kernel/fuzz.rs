//! Random bodies give the same bytes compiled and interpreted, for any layout of their arguments.

use meshwork_cpu::kernel::ir::*;
use meshwork_cpu::kernel::{Backend, Kernel, jit_is_available};
use meshwork_cpu::step::Scratch;
use meshwork_ir::ElementType;
use meshwork_testing::Numbers;

const ELEMS: [ElementType; 13] = {
    use ElementType::*;
    [I1, I8, UI8, I16, UI16, I32, UI32, I64, UI64, BF16, F16, F32, F64]
};

/// A random body that the check accepts.
fn random_body(numbers: &mut Numbers) -> Body {
    // A few types at a time, so that values meet.
    let palette: Vec<ElementType> = (0..1 + numbers.below(3)).map(|_| *numbers.pick(&ELEMS)).collect();
    let access = [
        Access::Unit,
        Access::Unit,
        Access::Listed,
        Access::Zero,
        Access::Fixed,
        Access::Pair,
        Access::Triple,
        Access::Strided,
    ];
    let inputs = 1 + numbers.below(4);
    let mut args: Vec<Arg> = (0..inputs)
        .map(|_| Arg { elem: *numbers.pick(&palette), access: *numbers.pick(&access), output: false })
        .collect();
    for _ in 0..1 + numbers.below(3) {
        let access = *numbers.pick(&[Access::Unit, Access::Unit, Access::Pair, Access::Strided]);
        args.push(Arg { elem: *numbers.pick(&palette), access, output: true });
    }
    let mut body = Body { args, temps: vec![], scalars: 0, phases: vec![] };
    let mut scalars: Vec<(u16, Ty)> = vec![];
    let mut temps: Vec<u16> = vec![];
    for _ in 0..1 + numbers.below(3) {
        random_phase(numbers, &mut body, &mut scalars, &mut temps, inputs);
    }
    body
}

fn random_phase(
    numbers: &mut Numbers,
    body: &mut Body,
    scalars: &mut Vec<(u16, Ty)>,
    temps: &mut Vec<u16>,
    inputs: usize,
) {
    let extent = if numbers.below(5) == 0 && !scalars.is_empty() { Extent::Once } else { Extent::Row };
    let row = extent == Extent::Row;
    let mut made: Vec<(Val, Ty)> = vec![];
    let mut ops: Vec<Op> = vec![];
    let mut set: Vec<(u16, Ty)> = vec![];
    let mut written: Vec<u16> = vec![];
    let most = if numbers.below(4) == 0 { 60 } else { 14 };
    let count = 3 + numbers.below(most);
    while ops.len() < count {
        let any = if made.is_empty() { None } else { Some(*numbers.pick(&made)) };
        let like = |numbers: &mut Numbers, ty: Ty| {
            let same: Vec<Val> = made.iter().filter(|m| m.1 == ty).map(|m| m.0).collect();
            *numbers.pick(&same)
        };
        let op = match (numbers.below(20), any) {
            (0..=3, _) | (_, None) => {
                let arg = numbers.below(inputs);
                if row || body.args[arg].access == Access::Zero {
                    Op::Load(arg as u16)
                } else {
                    let (s, ty) = *numbers.pick(scalars);
                    Op::Scalar(s, ty)
                }
            }
            (4, Some((_, ty))) => Op::Const(ty, constant(numbers, ty)),
            (5, _) if !scalars.is_empty() => {
                let (s, ty) = *numbers.pick(scalars);
                Op::Scalar(s, ty)
            }
            (5, _) => Op::Index(numbers.below(2) as u8, *numbers.pick(&Ty::ALL[1..])),
            (6, _) if row && !temps.is_empty() => {
                let t = *numbers.pick(temps);
                Op::LoadTemp(t, body.temps[usize::from(t)])
            }
            (7 | 8, Some((v, ty))) => {
                let list: &[UnaryOp] = match ty {
                    Ty::Pred => &[UnaryOp::Not],
                    _ if ty.is_float() => {
                        use UnaryOp::*;
                        &[Negate, Abs, Sign, Sqrt, Floor, Ceil, RoundNearestEven, RoundNearestAfz, IsFinite]
                    }
                    _ => &[UnaryOp::Negate, UnaryOp::Abs, UnaryOp::Sign, UnaryOp::Not],
                };
                Op::Unary(*numbers.pick(list), v)
            }
            (9..=12, Some((v, ty))) => {
                use BinaryOp::*;
                let list: &[BinaryOp] = match ty {
                    Ty::Pred => &[Add, Multiply, Maximum, Minimum, And, Or, Xor],
                    _ if ty.is_float() => &[Add, Subtract, Multiply, Divide, Maximum, Minimum],
                    _ if ty.size() >= 4 => &[
                        Add,
                        Subtract,
                        Multiply,
                        Maximum,
                        Minimum,
                        And,
                        Or,
                        Xor,
                        ShiftLeft,
                        ShiftRightArithmetic,
                        ShiftRightLogical,
                    ],
                    _ => &[Add, Subtract, Multiply, Maximum, Minimum, And, Or, Xor],
                };
                Op::Binary(*numbers.pick(list), v, like(numbers, ty))
            }
            (13, Some((v, ty))) => {
                let list = [Cmp::Eq, Cmp::Ne, Cmp::Lt, Cmp::Le, Cmp::Gt, Cmp::Ge];
                Op::Compare(*numbers.pick(&list), v, like(numbers, ty))
            }
            (14 | 15, Some((v, ty))) if made.iter().any(|m| m.1 == Ty::Pred) => {
                let p = like(numbers, Ty::Pred);
                Op::Select(p, v, like(numbers, ty))
            }
            (16, Some((v, ty))) if ty != Ty::Pred => Op::MulAdd(v, like(numbers, ty), like(numbers, ty)),
            (17, Some((v, _))) => Op::Convert(*numbers.pick(&Ty::ALL), v),
            (18, Some((v, Ty::F32))) => {
                if numbers.below(2) == 0 {
                    Op::Bitcast(*numbers.pick(&[Ty::I32, Ty::U32]), v)
                } else {
                    Op::Round(*numbers.pick(&[ElementType::BF16, ElementType::F16]), v)
                }
            }
            (19, Some((v, ty))) if row => {
                if numbers.below(2) == 0 {
                    let known = temps.iter().copied().find(|&t| body.temps[usize::from(t)] == ty);
                    let t = known.unwrap_or_else(|| {
                        body.temps.push(ty);
                        body.temps.len() as u16 - 1
                    });
                    if !temps.contains(&t) {
                        temps.push(t);
                    }
                    Op::StoreTemp(t, v)
                } else {
                    let list: &[Combine] = if ty.is_float() {
                        &[Combine::Add, Combine::Mul, Combine::Max, Combine::Min]
                    } else {
                        use Combine::*;
                        &[Add, Mul, Max, Min, And, Or, Xor]
                    };
                    let s = body.scalars;
                    body.scalars += 1;
                    set.push((s, ty));
                    Op::Reduce(*numbers.pick(list), s, v)
                }
            }
            (_, Some((v, ty))) if !row => {
                let s = body.scalars;
                body.scalars += 1;
                set.push((s, ty));
                Op::SetScalar(s, v)
            }
            (_, Some((v, ty))) => {
                // Each output is written at most once in a phase, and not before the middle.
                let fits = |k: &usize| Ty::of(body.args[*k].elem) == Some(ty) && !written.contains(&(*k as u16));
                let outputs: Vec<usize> = (inputs..body.args.len()).filter(fits).collect();
                if outputs.is_empty() || ops.len() < 3 {
                    continue;
                }
                let k = *numbers.pick(&outputs) as u16;
                written.push(k);
                Op::Store(k, v)
            }
        };
        ops.push(op);
        body.phases.push(Phase { extent, ops: ops.clone() });
        let types = meshwork_cpu::kernel::check::check(body);
        body.phases.pop();
        // A scalar set in this phase is not read in it.
        match types.map(|t| t.last().and_then(|t| t.last().copied().flatten())) {
            Ok(Some(ty)) => made.push((ops.len() as Val - 1, ty)),
            Ok(None) => {}
            Err(e) => panic!("{e}\n{body}\n{ops:?}"),
        }
    }
    for k in inputs..body.args.len() {
        let same = made.iter().rev().find(|m| Some(m.1) == Ty::of(body.args[k].elem));
        if let (Some(&(v, _)), true, false) = (same, row, written.contains(&(k as u16))) {
            ops.push(Op::Store(k as u16, v));
        }
    }
    scalars.extend(set);
    body.phases.push(Phase { extent, ops });
}

fn constant(numbers: &mut Numbers, ty: Ty) -> u64 {
    let small = numbers.below(9) as i64 - 4;
    match ty {
        Ty::Pred => small as u64 & 1,
        Ty::F32 => (small as f32 / 2.0).to_bits().into(),
        Ty::F64 => (small as f64 / 2.0).to_bits(),
        _ => small as u64 & (u64::MAX >> (64 - 8 * ty.size())),
    }
}

/// Bytes of elements that are mostly ordinary numbers.
fn fill(numbers: &mut Numbers, elem: ElementType, bytes: &mut [u8]) {
    for chunk in bytes.chunks_exact_mut(elem.storage_bytes()) {
        let bits = numbers.bits();
        let bits = match (elem, bits >> 60) {
            (ElementType::I1, _) => bits & 1,
            (_, 0) if elem.is_float() => bits,
            (_, 1) if elem.is_float() => meshwork_ir::float::encode(elem, -0.0),
            _ if elem.is_float() => meshwork_ir::float::encode(elem, (bits as i64 >> 44) as f64 / 8192.0),
            (_, 0..8) => bits,
            _ => (bits as i8 >> 4) as u64,
        };
        chunk.copy_from_slice(&bits.to_le_bytes()[..elem.storage_bytes()]);
    }
}

/// The row strides of a call: rows of listed arguments, whose lists come with them, are read in another order.
fn listed(body: &Body, ptrs: &[*mut u8], row_strides: &[isize], rows: usize) -> (Vec<isize>, Vec<Vec<*mut u8>>) {
    let list = |k: usize| -> Vec<*mut u8> {
        (1..=rows).map(|r| ptrs[k].wrapping_offset((rows - r) as isize * row_strides[k])).collect()
    };
    let lists: Vec<Vec<*mut u8>> = (0..ptrs.len()).map(list).collect();
    let stride = |k: usize| match body.args[k].access {
        Access::Listed => lists[k].as_ptr().expose_provenance() as isize,
        _ => row_strides[k],
    };
    ((0..ptrs.len()).map(stride).collect(), lists)
}

/// Runs `kernel` on a copy of `memory` and gives the copy.
fn run(kernel: &Kernel, memory: &[u64], starts: &[usize], shape: (usize, usize), strides: [&[isize]; 2]) -> Vec<u64> {
    let mut memory = memory.to_vec();
    let base = memory.as_mut_ptr().cast::<u8>();
    // SAFETY: the starts are inside the memory, and so is all that the strides reach.
    let ptrs: Vec<*mut u8> = starts.iter().map(|&s| unsafe { base.add(s) }).collect();
    let index = [[3, 7, 1], [-5, 2, 3]];
    let (row_strides, _lists) = listed(kernel.body(), &ptrs, strides[0], shape.0);
    let call =
        Call { ptrs: &ptrs, row_strides: &row_strides, strides: strides[1], rows: shape.0, n: shape.1, index: &index };
    // SAFETY: as above.
    unsafe { kernel.run(&call, &mut Scratch::default()) };
    memory
}

/// Whether two memories hold the same bytes, except that all NaNs count as equal.
fn same(elem: ElementType, a: &[u8], b: &[u8]) -> bool {
    a == b || {
        let (x, y) = (meshwork_ir::float::read(elem, a), meshwork_ir::float::read(elem, b));
        // The sign of a zero that is the extreme of a row is not specified, and of a NaN neither.
        elem.is_float() && ((x.is_nan() && y.is_nan()) || (x == 0.0 && y == 0.0))
    }
}

fn try_one(seed: u64, body: impl Fn(&mut Numbers) -> Body, compiled: &mut usize) {
    let mut numbers = Numbers(seed);
    let body = body(&mut numbers);
    let fast = Kernel::new(body.clone()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{body}"));
    let slow = Kernel::interpreted(body.clone()).unwrap();
    if fast.backend() != Backend::Compiled {
        return;
    }
    *compiled += 1;
    for n in [0, 1, 7, 8, 9, 31, 33, 65, 1000, 1027 + numbers.below(9000)] {
        let rows = 1 + numbers.below(3);
        let (mut starts, mut row_strides, mut strides) = (vec![], vec![], vec![]);
        let mut at = 64;
        let mut spans = vec![];
        for (k, arg) in body.args.iter().enumerate() {
            let size = arg.elem.storage_bytes();
            let step = match arg.access {
                Access::Unit | Access::Listed => 1,
                Access::Zero | Access::Fixed => 0,
                Access::Pair => 2,
                Access::Triple => 3,
                Access::Strided => 1 + numbers.below(3),
            };
            let gap = numbers.below(3);
            let row = if arg.access == Access::Fixed { 0 } else { n * step + gap };
            at += size * numbers.below(7);
            at = at.next_multiple_of(size);
            // Some outputs are in place of an input of the same form.
            let twin = (0..k).find(|&j| {
                let a = body.args[j];
                arg.output && a.elem == arg.elem && a.access == arg.access && !a.output
            });
            let twin = twin.filter(|&j| arg.access == Access::Unit && !spans.contains(&j) && seed.is_multiple_of(2));
            if let Some(j) = twin {
                spans.push(j);
                starts.push(starts[j]);
                row_strides.push(row_strides[j]);
                strides.push(strides[j]);
                continue;
            }
            let extra = size * (row * rows + 1) + 64;
            starts.push(at);
            row_strides.push((size * row) as isize);
            strides.push((size * step) as isize);
            at += extra;
        }
        let mut memory = vec![0x5555_5555_5555_5555u64; at.div_ceil(8) + 8];
        let mut order: Vec<usize> = (0..starts.len()).collect();
        order.sort_by_key(|&k| starts[k]);
        // SAFETY: bytes of a vector of words.
        let bytes = unsafe { std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), at) };
        for &k in &order {
            let size = body.args[k].elem.storage_bytes();
            let row = row_strides[k] as usize / size;
            fill(&mut numbers, body.args[k].elem, &mut bytes[starts[k]..starts[k] + size * (row * rows + 1)]);
        }
        // In place only where every phase reads before it writes: one phase over the row.
        if !spans.is_empty() && body.phases.len() > 1 {
            continue;
        }
        let strides = [&row_strides[..], &strides[..]];
        let got = run(&fast, &memory, &starts, (rows, n), strides);
        let want = run(&slow, &memory, &starts, (rows, n), strides);
        let bytes = |v: &[u64]| v.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
        let (got, want) = (bytes(&got), bytes(&want));
        if got == want {
            continue;
        }
        let mut checked = vec![false; got.len()];
        for (k, arg) in body.args.iter().enumerate().filter(|(_, a)| a.output) {
            let size = arg.elem.storage_bytes();
            for r in 0..rows {
                for i in 0..n {
                    let p = starts[k] + r * strides[0][k] as usize + i * strides[1][k] as usize;
                    let (a, b) = (&got[p..p + size], &want[p..p + size]);
                    assert!(
                        same(arg.elem, a, b),
                        "seed {seed} n {n} rows {rows}: argument {k} row {r} element {i} is {a:?}, should be {b:?} \
                         ({:e} {:e})\n{body}",
                        meshwork_ir::float::read(arg.elem, a),
                        meshwork_ir::float::read(arg.elem, b),
                    );
                    checked[p..p + size].fill(true);
                }
            }
        }
        let stray = (0..got.len()).find(|&i| got[i] != want[i] && !checked[i]);
        assert_eq!(stray, None, "seed {seed} n {n} rows {rows}: a byte outside was written\n{body}");
    }
}

#[test]
fn compiled_and_interpreted_agree() {
    if !jit_is_available() {
        return;
    }
    let (mut compiled, tries) = (0, 400);
    let first = std::env::var("KERNEL_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1u64);
    for seed in first..first + tries {
        try_one(seed, random_body, &mut compiled);
    }
    assert!(compiled * 2 > tries as usize, "only {compiled} of {tries} were compiled");
}

/// A body of much arithmetic on lanes of one size, between two reads and a write or reductions: such loops have wider registers where
/// there are any.
fn long_body(numbers: &mut Numbers) -> Body {
    let (float, int, elem) = match numbers.below(2) {
        0 => (Ty::F32, Ty::I32, ElementType::F32),
        _ => (Ty::F64, Ty::I64, ElementType::F64),
    };
    let functions = [
        UnaryOp::Exponential,
        UnaryOp::Log,
        UnaryOp::LogPlusOne,
        UnaryOp::Logistic,
        UnaryOp::Tanh,
        UnaryOp::Abs,
        UnaryOp::Floor,
        UnaryOp::Sign,
        UnaryOp::Sqrt,
    ];
    let sums = [BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Multiply, BinaryOp::Maximum, BinaryOp::Minimum];
    let bits = [BinaryOp::And, BinaryOp::Or, BinaryOp::Xor, BinaryOp::Add, BinaryOp::Subtract, BinaryOp::Maximum];
    let shifts = [BinaryOp::ShiftLeft, BinaryOp::ShiftRightLogical, BinaryOp::ShiftRightArithmetic];
    let mut ops = vec![Op::Load(0), Op::Load(1)];
    // What may be an operand of the next, all floats.
    let mut known: Vec<Val> = vec![0, 1];
    for _ in 0..6 + numbers.below(6) {
        let pick = |numbers: &mut Numbers| known[known.len() - 1 - numbers.below(known.len().min(3))];
        let (a, b) = (pick(numbers), pick(numbers));
        let next = ops.len() as Val;
        match numbers.below(6) {
            0 | 1 => ops.push(Op::Unary(functions[numbers.below(functions.len())], a)),
            2 => ops.push(Op::Binary(sums[numbers.below(sums.len())], a, b)),
            3 => ops.push(Op::MulAdd(a, b, known[0])),
            4 => {
                let by = [Cmp::Lt, Cmp::Ge, Cmp::Eq, Cmp::Ne][numbers.below(4)];
                ops.extend([Op::Const(float, constant(numbers, float)), Op::Compare(by, a, next)]);
                ops.push(Op::Select(next + 1, b, a));
            }
            _ => {
                // The bits of a NaN are not specified.
                let one = Op::Const(float, if float == Ty::F32 { 1f32.to_bits().into() } else { 1f64.to_bits() });
                ops.extend([one, Op::Compare(Cmp::Ne, a, a), Op::Select(next + 1, next, a)]);
                ops.extend([Op::Compare(Cmp::Ne, b, b), Op::Select(next + 3, next, b)]);
                ops.extend([Op::Bitcast(int, next + 2), Op::Bitcast(int, next + 4)]);
                ops.push(Op::Binary(bits[numbers.below(bits.len())], next + 5, next + 6));
                ops.push(Op::Const(int, 1 + numbers.below(20) as u64));
                ops.push(Op::Binary(shifts[numbers.below(shifts.len())], next + 7, next + 8));
                // A choice by the sign.
                ops.extend([Op::Const(int, 0), Op::Compare(Cmp::Lt, next + 7, next + 10)]);
                ops.extend([Op::Select(next + 11, next + 9, next + 5), Op::Bitcast(float, next + 12)]);
            }
        }
        known.push(ops.len() as Val - 1);
    }
    let (last, other) = (known[known.len() - 1], known[known.len() - 2]);
    let how = [Combine::Add, Combine::Max, Combine::Min];
    let reduced = numbers.below(3) as u16;
    for scalar in 0..reduced {
        ops.push(Op::Reduce(how[numbers.below(3)], scalar, if scalar == 0 { last } else { other }));
    }
    let unit = |output| Arg { elem, access: Access::Unit, output };
    let mut args = vec![unit(false), unit(false)];
    let mut phases = vec![Phase { extent: Extent::Row, ops }];
    if reduced == 0 || numbers.below(2) == 0 {
        phases[0].ops.push(Op::Store(args.len() as u16, last));
        args.push(unit(true));
    }
    for scalar in 0..reduced {
        let ops = vec![Op::Scalar(scalar, float), Op::Store(args.len() as u16, 0)];
        phases.push(Phase { extent: Extent::Once, ops });
        args.push(Arg { elem, access: Access::Zero, output: true });
    }
    Body { args, temps: vec![], scalars: reduced, phases }
}

#[test]
fn loops_of_much_arithmetic() {
    if !jit_is_available() {
        return;
    }
    let (mut compiled, tries) = (0, 300);
    for seed in 1..=tries {
        try_one(seed, long_body, &mut compiled);
    }
    assert!(compiled * 2 > tries as usize, "only {compiled} of {tries} were compiled");
}

/// Memory whose last byte is followed by an inaccessible page.
struct Guarded {
    start: *mut u8,
    size: usize,
}

const PAGE: usize = 4096;

impl Guarded {
    fn new(bytes: usize) -> Guarded {
        let size = bytes.next_multiple_of(PAGE) + PAGE;
        // SAFETY: a mapping of our own.
        unsafe {
            let (both, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let start = libc::mmap(std::ptr::null_mut(), size, both, flags, -1, 0).cast::<u8>();
            assert_ne!(start.cast(), libc::MAP_FAILED);
            assert_eq!(libc::mprotect(start.add(size - PAGE).cast(), PAGE, libc::PROT_NONE), 0);
            Guarded { start, size }
        }
    }

    /// Where `bytes` bytes start that end at the page.
    fn last(&self, bytes: usize) -> *mut u8 {
        // SAFETY: inside the mapping.
        unsafe { self.start.add(self.size - PAGE - bytes) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: mapped with this size.
        unsafe { libc::munmap(self.start.cast(), self.size) };
    }
}

#[test]
fn nothing_beyond_the_last_element_is_touched() {
    for seed in 1..150 {
        let mut numbers = Numbers(seed);
        let body = random_body(&mut numbers);
        let kernel = Kernel::new(body.clone()).unwrap();
        for n in [1, 3, 8, 15, 33, 70, 1001] {
            let rows = 2;
            let (mut ptrs, mut row_strides, mut strides, mut memory) = (vec![], vec![], vec![], vec![]);
            for arg in &body.args {
                let size = arg.elem.storage_bytes();
                let step = match arg.access {
                    Access::Unit | Access::Listed => 1,
                    Access::Zero | Access::Fixed => 0,
                    Access::Pair | Access::Strided => 2,
                    Access::Triple => 3,
                };
                let row = if arg.access == Access::Fixed { 0 } else { (n * step).max(1) };
                let bytes = size * (row * (rows - 1) + (n - 1) * step + 1);
                let guarded = Guarded::new(bytes);
                ptrs.push(guarded.last(bytes));
                row_strides.push((size * row) as isize);
                strides.push((size * step) as isize);
                memory.push(guarded);
            }
            let index = [[3, 7, 1], [-5, 2, 3]];
            let (row_strides, _lists) = listed(&body, &ptrs, &row_strides, rows);
            let call = Call { ptrs: &ptrs, row_strides: &row_strides, strides: &strides, rows, n, index: &index };
            // SAFETY: the memory ends with the last element that the call reaches.
            unsafe { kernel.run(&call, &mut Scratch::default()) };
        }
    }
}
