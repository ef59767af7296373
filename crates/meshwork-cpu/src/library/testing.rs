//! Runs small modules on the library's kernels, one thread, and compares with the reference evaluator.

use meshwork_eval as eval;
use meshwork_ir::Scalar;
use meshwork_ir::op::{ControlOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, ElementClass, ElementType, Literal, Module, OpKind, ValueId, text};

use super::copy::view_of;
use super::{copy, lower};
use crate::compile::lower::Lower;
use crate::program::Node;
use crate::step::{Buf, Frame, Scratch, View};

/// Numbers between -4 and 4 (or small integers), the same for the same seed.
pub(crate) fn noise(dims: &[i64], elem: ElementType, seed: u64) -> Literal {
    let n = dims.iter().product::<i64>() as usize;
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x1234_5678_9ABC_DEF1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 24) as f64 * 8.0 - 4.0
    };
    let values = (0..n).map(|_| match elem.class() {
        ElementClass::Bool => Scalar::Bool(next() > 0.0),
        ElementClass::Signed => Scalar::from_i64(elem, next() as i64),
        ElementClass::Unsigned => Scalar::from_i64(elem, next().abs() as i64),
        ElementClass::Float => Scalar::from_f64(elem, next()),
        ElementClass::Complex => Scalar::Complex(next() as f32 as f64, next() as f32 as f64),
    });
    let values: Vec<Scalar> = values.collect();
    Literal::from_scalars(dims.iter().copied(), elem, values).expect("as many as fit")
}

/// Noise for each argument of the module's entry function.
pub(crate) fn noise_args(module: &Module) -> Vec<Literal> {
    let func = module.entry().expect("an entry function");
    let inputs = module.func_type(func).inputs;
    inputs.iter().enumerate().map(|(i, t)| noise(t.dims(), t.elem().expect("a tensor"), i as u64 + 1)).collect()
}

/// The location of the whole of `value` if the op that makes it only looks at its operand differently.
fn view_op(cx: &Lower<'_>, kind: OpKind, op: &meshwork_ir::Op) -> Option<View> {
    let x = cx.view(*op.operands().first()?)?.clone();
    let dims = cx.shape(op.results()[0]).1;
    let mut out = View { dims: dims.clone(), strides: vec![0; dims.len()], ..x.clone() };
    match kind {
        OpKind::Movement(MovementOp::Transpose) => {
            for (d, p) in op.i64s("permutation")?.into_iter().enumerate() {
                out.strides[d] = x.strides[p as usize];
            }
        }
        OpKind::Movement(MovementOp::BroadcastInDim) => {
            for (d, to) in op.i64s("broadcast_dimensions")?.into_iter().enumerate() {
                out.strides[to as usize] = if x.dims[d] == 1 { 0 } else { x.strides[d] };
            }
        }
        OpKind::Movement(MovementOp::Slice) => {
            let (start, step) = (op.i64s("start_indices")?, op.i64s("strides")?);
            for d in 0..dims.len() {
                out.offset += start[d] * x.strides[d];
                out.strides[d] = step[d] * x.strides[d];
            }
        }
        _ => return None,
    }
    Some(out)
}

/// What a run gave: the results, or `None` if some op is not covered; and the names of the steps.
pub(crate) struct Ran {
    pub results: Option<Vec<Literal>>,
    pub steps: Vec<String>,
}

/// Runs the entry function of `module` on the library's kernels; parts in the given order.
pub(crate) fn run(module: &Module, args: &[Literal], backwards: bool, in_place: bool) -> Ran {
    let func = module.entry().expect("an entry function");
    let block = module.body_of(func, 0).expect("a body");
    let mut cx = Lower::new(module, 1);
    let mut inputs = vec![];
    for &arg in module.block(block).args() {
        inputs.push(cx.result(arg));
    }
    for op in module.ops_in(block) {
        let data = module.op(op);
        match data.kind() {
            OpKind::Control(ControlOp::FuncReturn) => {}
            OpKind::Source(SourceOp::Constant) => {
                let Some(Attr::Dense(d)) = data.attr("value") else { panic!("a constant") };
                let literal = d.to_literal().expect("elements");
                let (elem, dims) = (literal.elem(), literal.dims().to_vec());
                let buf = cx.constant(literal);
                cx.set_view(data.results()[0], View::dense(buf, elem, &dims));
            }
            kind => match view_op(&cx, kind, data) {
                Some(view) => cx.set_view(data.results()[0], view),
                None => {
                    if !lower(&mut cx, op).expect("lowers") {
                        return Ran { results: None, steps: vec![] };
                    }
                }
            },
        }
    }
    let returned: Vec<ValueId> = module.returned(block).to_vec();
    let outputs: Vec<Buf> = returned
        .iter()
        .map(|&v| copy::dense(&mut cx, module.terminator(block).expect("a return"), v).expect("a place"))
        .collect();
    let shapes: Vec<View> = returned.iter().map(|&v| view_of(&cx, v).expect("a place")).collect();

    // Each buffer between guards that must stay as they are.
    const GUARD: usize = 64;
    let mut memory: Vec<Vec<u64>> =
        cx.bufs.iter().map(|b| vec![0xA5A5_A5A5_A5A5_A5A5; (b.bytes + 2 * GUARD + 64).div_ceil(8)]).collect();
    let mut ptrs: Vec<*mut u8> = memory
        .iter_mut()
        .map(|m| {
            let at = m.as_mut_ptr().cast::<u8>();
            // SAFETY: there is room for the guard and the alignment.
            unsafe { at.add(GUARD + (64 - at as usize % 64) % 64) }
        })
        .collect();
    let fill = |ptrs: &[*mut u8], buf: Buf, literal: &Literal| {
        // SAFETY: the buffer was made for this literal.
        unsafe { std::ptr::copy_nonoverlapping(literal.bytes().as_ptr(), ptrs[buf.0 as usize], literal.bytes().len()) }
    };
    for (i, b) in cx.bufs.iter().enumerate() {
        if let Some(c) = &b.constant {
            fill(&ptrs, Buf(i as u32), c);
        }
    }
    for (&buf, x) in inputs.iter().zip(args) {
        fill(&ptrs, buf, x);
    }
    let mut scratch = Scratch::default();
    let mut steps = vec![];
    for node in &cx.nodes {
        let Node::Step(step) = node else { panic!("a step") };
        steps.push(step.name.clone());
        if in_place {
            for &(read, written) in &step.in_place {
                ptrs[written.0 as usize] = ptrs[read.0 as usize];
            }
        }
        let frame = Frame { ptrs: &ptrs, device: 0, partition: 0, replica: 0 };
        let n = step.work.parts();
        assert!((1..=256).contains(&n), "{n} parts of {}", step.name);
        step.work.cost();
        for part in 0..n {
            let part = if backwards { n - 1 - part } else { part };
            // SAFETY: every buffer has memory of its size; in-place pairs are those the step allows.
            unsafe { step.work.run(&frame, &mut scratch, part) }.expect("runs");
        }
    }
    for (b, m) in cx.bufs.iter().zip(&memory) {
        let bytes: Vec<u8> = m.iter().flat_map(|w| w.to_le_bytes()).collect();
        let at = GUARD + (64 - m.as_ptr() as usize % 64) % 64;
        assert!(bytes[..at].iter().chain(&bytes[at + b.bytes..]).all(|&x| x == 0xA5), "writes stay inside");
    }
    let results = outputs.iter().zip(&shapes).map(|(&buf, view)| {
        let bytes = view.len() * view.elem.storage_bytes();
        // SAFETY: as above.
        let bytes = unsafe { std::slice::from_raw_parts(ptrs[buf.0 as usize], bytes) }.to_vec();
        Literal::from_bytes(view.dims.iter().copied(), view.elem, bytes).expect("as many as fit")
    });
    Ran { results: Some(results.collect()), steps }
}

/// Checks the library against the evaluator on `args`: floats may differ by `tolerance` relative to the largest
/// magnitude of the result, everything else must be the same.
pub(crate) fn check_on(source: &str, args: &[Literal], tolerance: f64) -> Vec<String> {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{d:?} in {source}"));
    let expected = eval::run(&module, None, args).unwrap_or_else(|e| panic!("{e} in {source}"));
    let mut steps = vec![];
    for (backwards, in_place) in [(false, false), (true, true)] {
        let ran = run(&module, args, backwards, in_place);
        let results = ran.results.unwrap_or_else(|| panic!("not covered: {source}"));
        steps = ran.steps;
        for (got, want) in results.iter().zip(&expected) {
            assert_close(got, want, tolerance, source);
        }
    }
    steps
}

/// [`check_on`] noise.
pub(crate) fn check(source: &str, tolerance: f64) -> Vec<String> {
    let module = text::parse(source).unwrap_or_else(|d| panic!("{d:?} in {source}"));
    check_on(source, &noise_args(&module), tolerance)
}

fn assert_close(got: &Literal, want: &Literal, tolerance: f64, source: &str) {
    assert_eq!((got.dims(), got.elem()), (want.dims(), want.elem()), "{source}");
    let parts = |x: &Literal| -> Vec<f64> {
        x.scalars()
            .flat_map(|s| match s {
                Scalar::Complex(re, im) => vec![re, im],
                other => vec![other.as_f64()],
            })
            .collect()
    };
    if tolerance == 0.0 || !(got.elem().is_float() || got.elem().is_complex()) {
        let differ = (0..got.len()).find(|&i| got.element(i) != want.element(i));
        let both_nan = |i: usize| got.get(i).is_nan() && want.get(i).is_nan();
        if let Some(i) = differ.filter(|&i| !both_nan(i)) {
            panic!("element {i} is {} instead of {} in {source}", got.get(i), want.get(i));
        }
        return;
    }
    let (a, b) = (parts(got), parts(want));
    let scale = b.iter().filter(|v| v.is_finite()).fold(1e-30f64, |m, v| m.max(v.abs()));
    for (i, (x, y)) in a.iter().zip(&b).enumerate() {
        let close = (x.is_nan() && y.is_nan()) || x == y || (x - y).abs() <= tolerance * scale;
        assert!(close, "element {i} is {x:e} instead of {y:e} (scale {scale:e}) in {source}");
    }
}
