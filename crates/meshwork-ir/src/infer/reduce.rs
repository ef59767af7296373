//! Operations whose body combines elements: reduce, map, sort, and the rules of a combining body.

use smallvec::SmallVec;
use smol_str::format_smolstr;

use super::check::{Elems, dims_agree, list, shapes_agree};
use super::{Inferred, OpTypes, TypesOf, Wrong};
use crate::{DYNAMIC, Dims, ElementType, TensorType, Type};

/// Types of some operands.
type Tensors<'a> = SmallVec<[&'a TensorType; 2]>;

/// Whether a value of `from` may be accumulated in `into`: the same kind of number, integers no narrower.
fn promotable(from: ElementType, into: ElementType) -> bool {
    let kind = |e: ElementType| (e.is_float(), e.is_complex());
    if kind(from) != kind(into) {
        return false;
    }
    from.is_float() || from.bits() <= into.bits()
}

/// Whether two element types are one, up to the precision of floats.
fn same_but_precision(a: ElementType, b: ElementType) -> bool {
    a == b || a.is_float() && b.is_float()
}

/// Checks that body `index` combines `inputs` into accumulators that start as `inits`, and returns what it returns.
///
/// It takes the accumulators, then the elements, and returns the accumulators. Elements are scalars, or have
/// extents that appear in order in `allowed`.
pub(super) fn reducer<'a>(
    t: &OpTypes<'a>,
    index: usize,
    name: &'static str,
    inputs: &[&TensorType],
    inits: &[&TensorType],
    allowed: &[i64],
) -> Result<TypesOf<'a>, Wrong> {
    let n = inputs.len();
    let args = t.args(index, name)?;
    let returns = t.returns(index, name)?;
    if args.len() != 2 * n {
        return Err(t.bad_body(
            name,
            format!("takes {} arguments, but must take {}: {n} accumulator(s) and {n} element(s)", args.len(), 2 * n),
        ));
    }
    if returns.len() != n {
        return Err(t.bad_body(name, format!("returns {} value(s), but must return {n}, one per input", returns.len())));
    }
    for i in 0..n {
        combined(t, name, (args, returns), i, inputs[i], inits[i], allowed)?;
    }
    Ok(returns)
}

/// Checks that a body combines input number `i`.
fn combined(
    t: &OpTypes,
    name: &'static str,
    (args, returns): (TypesOf<'_>, TypesOf<'_>),
    i: usize,
    input: &TensorType,
    init: &TensorType,
    allowed: &[i64],
) -> Result<(), Wrong> {
    let n = returns.len();
    let (Type::Tensor(acc), Type::Tensor(first), Type::Tensor(element)) = (&returns[i], &args[i], &args[n + i]) else {
        return Err(t.bad_body(name, format!("must work on tensors, but result {i} is {}", returns[i])));
    };
    // Nearly always, all are scalars of one type.
    let one = returns.id(i);
    let scalars = args.id(i) == one && args.id(n + i) == one && acc.rank() == 0 && init.rank() == 0;
    if scalars && init.elem == acc.elem && input.elem == acc.elem {
        return Ok(());
    }
    if acc.elem != first.elem || !shapes_agree(&acc.dims, &first.dims) {
        return Err(t.bad_body(name, format!("returns {acc} as value {i}, but its argument {i} is {first}")));
    }
    if !same_but_precision(acc.elem, element.elem) || !shapes_agree(&acc.dims, &element.dims) {
        return Err(t.bad_body(name, format!("returns {acc} as value {i}, but its argument {} is {element}", n + i)));
    }
    if !shapes_agree(&init.dims, &acc.dims) || !promotable(init.elem, acc.elem) {
        return Err(t.bad_body(name, format!("returns {acc} as value {i}, which cannot start as {init}")));
    }
    if !promotable(input.elem, element.elem) {
        let detail = format!("takes {element} as argument {}, which cannot hold an element of {input}", n + i);
        return Err(t.bad_body(name, detail));
    }
    let mut rest = allowed.iter();
    if !element.dims.iter().all(|&d| rest.any(|&a| dims_agree(a, d))) {
        let among = list(allowed);
        let detail = format!("takes {element} as argument {}, whose extents are not among {among} in order", n + i);
        return Err(t.bad_body(name, detail));
    }
    Ok(())
}

/// The element type in which body `index` accumulates input number `input`; that of the input while there is no body.
pub(super) fn accumulator(t: &OpTypes, index: usize, input: usize, x: &TensorType) -> ElementType {
    let returned = t.returned(index).and_then(|returns| returns.get(input)?.elem());
    returned.unwrap_or(x.elem)
}

/// Splits the operands in inputs and as many initial values; inputs have one shape.
pub(super) fn inputs_and_inits<'a>(t: &OpTypes<'a>) -> Result<(Tensors<'a>, Tensors<'a>), Wrong> {
    t.at_least(2)?;
    let n = t.operands.len() / 2;
    if t.operands.len() != 2 * n {
        return Err(t.mismatch(format!("needs one initial value per input, but has {} operands", t.operands.len())));
    }
    let (mut inputs, mut inits) = (Tensors::new(), Tensors::new());
    for i in 0..n {
        inputs.push(t.tensor(i, "inputs")?);
        inits.push(t.tensor(n + i, "init_values")?);
    }
    for (i, x) in inputs.iter().enumerate().skip(1) {
        if !shapes_agree(&inputs[0].dims, &x.dims) {
            let expected = format_smolstr!("of the shape of input 0, {}", list(&inputs[0].dims));
            return Err(t.bad_operand(i, "inputs", expected));
        }
    }
    Ok((inputs, inits))
}

/// `reduce`.
pub(super) fn reduce(t: &OpTypes) -> Inferred {
    let (inputs, inits) = inputs_and_inits(t)?;
    let dims = t.ints("dimensions")?;
    t.distinct_dims("dimensions", &dims, inputs[0].rank())?;
    let mut shape = Dims::new();
    for (d, &size) in (0..).zip(&inputs[0].dims) {
        if !dims.contains(&d) {
            shape.push(size);
        }
    }
    let returns = if t.regions.is_empty() {
        for (i, (x, init)) in inputs.iter().zip(&inits).enumerate() {
            if init.rank() != 0 || !promotable(init.elem, x.elem) {
                let expected = format_smolstr!("a scalar to reduce {x} with");
                return Err(t.bad_operand(inputs.len() + i, "init_values", expected));
            }
        }
        None
    } else {
        Some(reducer(t, 0, "body", &inputs, &inits, &shape)?)
    };
    let result = |(i, x): (usize, &&TensorType)| {
        let elem = returns.and_then(|returns| returns[i].elem());
        t.result(&shape, elem.unwrap_or(x.elem))
    };
    match inputs.len() {
        1 => Ok(result((0, &inputs[0])).into()),
        _ => Ok(inputs.iter().enumerate().map(result).collect()),
    }
}

/// `map`: a scalar body applied to each element.
pub(super) fn map(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    let inputs = t.tensors(0, "inputs")?;
    let dims = t.ints("dimensions")?;
    for (i, x) in inputs.iter().enumerate() {
        if !shapes_agree(&inputs[0].dims, &x.dims) {
            let expected = format_smolstr!("of the shape of input 0, {}", list(&inputs[0].dims));
            return Err(t.bad_operand(i, "inputs", expected));
        }
    }
    if !dims.iter().copied().eq(0..inputs[0].rank() as i64) {
        let detail = format!("must list all {} dimensions in order, but is {}", inputs[0].rank(), list(&dims));
        return Err(t.bad_attr("dimensions", detail));
    }
    let args = t.args(0, "computation")?;
    if args.len() != inputs.len() {
        let detail = format!("takes {} arguments, but there are {} inputs", args.len(), inputs.len());
        return Err(t.bad_body("computation", detail));
    }
    for (i, (arg, x)) in args.iter().zip(&inputs).enumerate() {
        if arg.rank() != Some(0) || arg.elem() != Some(x.elem) {
            let detail = format!("takes {arg} as argument {i}, but must take a scalar of input {i}, {x}");
            return Err(t.bad_body("computation", detail));
        }
    }
    let returns = t.returns(0, "computation")?;
    match returns.only() {
        Some(Type::Tensor(r)) if r.rank() == 0 => {
            let dims = inputs.iter().fold(inputs[0].dims.clone(), |mut dims, x| {
                dims.iter_mut().zip(&x.dims).filter(|(d, _)| **d == DYNAMIC).for_each(|(d, &s)| *d = s);
                dims
            });
            Ok(t.result(&dims, r.elem).into())
        }
        _ => {
            let detail = format!("must return one scalar tensor, but returns {}", super::type_list(returns.iter()));
            Err(t.bad_body("computation", detail))
        }
    }
}

/// `sort`: inputs in, the same types out, permuted by the comparator.
pub(super) fn sort(t: &OpTypes) -> Inferred {
    t.at_least(1)?;
    let inputs = t.tensors(0, "inputs")?;
    let rank = inputs[0].rank() as i64;
    for (i, x) in inputs.iter().enumerate() {
        if !shapes_agree(&inputs[0].dims, &x.dims) {
            let expected = format_smolstr!("of the shape of input 0, {}", list(&inputs[0].dims));
            return Err(t.bad_operand(i, "inputs", expected));
        }
    }
    let d = t.int_or("dimension", -1)?;
    if d < -rank || d >= rank {
        return Err(
            t.bad_attr("dimension", format!("is {d}, but must be from {} to {} for {}", -rank, rank - 1, inputs[0]))
        );
    }
    let args = t.args(0, "comparator")?;
    if args.len() != 2 * inputs.len() {
        let detail = format!("takes {} arguments, but must take two per input, {}", args.len(), 2 * inputs.len());
        return Err(t.bad_body("comparator", detail));
    }
    for (i, arg) in args.iter().enumerate() {
        let x = inputs[i / 2];
        if arg.rank() != Some(0) || arg.elem() != Some(x.elem) {
            let detail = format!("takes {arg} as argument {i}, but must take a scalar of input {}, {x}", i / 2);
            return Err(t.bad_body("comparator", detail));
        }
    }
    predicate(t, 0, "comparator")?;
    Ok(t.operands.same())
}

/// Checks that body `index` returns one `tensor<i1>`.
pub(super) fn predicate(t: &OpTypes, index: usize, name: &'static str) -> Result<(), Wrong> {
    let returns = t.returns(index, name)?;
    match returns.only() {
        Some(Type::Tensor(r)) if r.rank() == 0 && Elems::PRED.has(r.elem) => Ok(()),
        _ => {
            let detail = format!("must return tensor<i1>, but returns {}", super::type_list(returns.iter()));
            Err(t.bad_body(name, detail))
        }
    }
}
