//! Elementwise operations and `bitcast_convert` on whole tensors.

use super::EvalError;
use super::scalar::{ScalarOp, apply};
use meshwork_ir::Dims;
use meshwork_ir::Scalar;
use meshwork_ir::op::MixedOp;
use meshwork_ir::{ElementType, Literal, Module, OpId, OpKind};

/// The result of the elementwise operation `op`. Operands are of one shape, except that the predicate of a
/// `select` and the bounds of a `clamp` may be of rank 0.
pub(crate) fn evaluate(module: &Module, op: OpId, args: &[&Literal]) -> Result<Literal, EvalError> {
    let decoded = ScalarOp::decode(module, op)?;
    if args.len() != decoded.arity() {
        let message = format!("{} operands where {} are needed", args.len(), decoded.arity());
        return Err(EvalError::invalid(module, op, message));
    }
    // Which operand has the shape of the result: in the middle of min, x, max and pred, x, y.
    let main = args[args.len() / 2];
    let kind = module.op(op).kind();
    for (i, arg) in args.iter().enumerate() {
        let spread = arg.dims().is_empty()
            && (kind == OpKind::Mixed(MixedOp::Clamp) || (kind == OpKind::Mixed(MixedOp::Select) && i == 0));
        if arg.dims() != main.dims() && !spread {
            let message = format!("operand {i} has shape {:?} where {:?} is needed", arg.dims(), main.dims());
            return Err(EvalError::invalid(module, op, message));
        }
    }
    if let (&[pred, on_true, on_false], OpKind::Mixed(MixedOp::Select)) = (args, kind) {
        return Ok(select(pred, on_true, on_false));
    }
    let mut out = Literal::zeros(main.dims().iter().copied(), decoded.result());
    let mut elements = [Scalar::Bool(false); 3];
    for i in 0..main.len() {
        for (element, arg) in elements.iter_mut().zip(args) {
            *element = arg.get(if arg.dims().is_empty() { 0 } else { i });
        }
        out.set(i, apply(&decoded, &elements[..args.len()]));
    }
    Ok(out)
}

/// Elements are moved as they are stored, so that NaN payloads survive.
fn select(pred: &Literal, on_true: &Literal, on_false: &Literal) -> Literal {
    let mut out = on_false.clone();
    for i in 0..out.len() {
        let chosen = pred.bytes()[if pred.dims().is_empty() { 0 } else { i }] != 0;
        if chosen {
            out.set_element(i, on_true.element(i));
        }
    }
    out
}

/// The bits of `x` read as elements of type `to`.
///
/// Types of one width keep the shape. A wider operand gains a last dimension of the parts, least significant
/// first; a narrower one loses its last dimension, which must hold exactly the parts of one element.
pub(crate) fn bitcast_convert(x: &Literal, to: ElementType) -> Result<Literal, String> {
    let (from_bits, to_bits) = (x.elem().bits(), to.bits());
    let mut dims: Dims = x.dims().into();
    if from_bits > to_bits && from_bits.is_multiple_of(to_bits) {
        dims.push((from_bits / to_bits) as i64);
    } else if from_bits < to_bits {
        let parts = (to_bits / from_bits) as i64;
        if to_bits % from_bits != 0 || dims.pop() != Some(parts) {
            return Err(format!("{} of shape {:?} does not hold whole elements of {to}", x.elem(), x.dims()));
        }
    } else if from_bits != to_bits {
        return Err(format!("{} of {from_bits} bits does not split into {to} of {to_bits} bits", x.elem()));
    }
    let mut out = Literal::zeros(dims, to);
    let (split, join) = (from_bits.div_ceil(to_bits), to_bits.div_ceil(from_bits));
    for wide in 0..x.len() / join {
        let mut bits =
            (0..join).fold(0u128, |bits, part| bits | element_bits(x, wide * join + part) << (part * from_bits));
        for part in 0..split {
            set_element_bits(&mut out, wide * split + part, bits);
            bits = bits.checked_shr(to_bits as u32).unwrap_or(0);
        }
    }
    Ok(out)
}

/// The bits of element `i`, those of its type's width only.
fn element_bits(x: &Literal, i: usize) -> u128 {
    let mut wide = [0; 16];
    let bytes = x.element(i);
    wide[..bytes.len()].copy_from_slice(bytes);
    let unused = 128 - x.elem().bits() as u32;
    u128::from_le_bytes(wide) << unused >> unused
}

/// Writes the low bits of `bits` as element `i`, narrow integers extended as the storage format wants it.
fn set_element_bits(x: &mut Literal, i: usize, bits: u128) {
    let elem = x.elem();
    if elem.is_integer() {
        let value = if elem.class() == meshwork_ir::ElementClass::Signed {
            Scalar::Int(bits as i64)
        } else {
            Scalar::UInt(bits as u64)
        };
        return x.set(i, value);
    }
    let unused = 128 - elem.bits() as u32;
    let bytes = (bits << unused >> unused).to_le_bytes();
    x.set_element(i, &bytes[..elem.storage_bytes()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;
    use meshwork_ir::op::{BinaryOp, MixedOp, SourceOp};
    use meshwork_ir::{Loc, OpSpec, Type};

    fn run(kind: OpKind, args: &[&Literal], result: ElementType) -> Result<Literal, EvalError> {
        let mut module = Module::new();
        let mut operands = vec![];
        for arg in args {
            let source = module.create(OpSpec::new(OpKind::Source(SourceOp::Iota)).results([arg.ty()]));
            operands.push(module.op(source).results()[0]);
        }
        let dims = args[args.len() / 2].dims().to_vec();
        let spec =
            OpSpec::new(kind).operands(operands).results([Type::tensor(dims, result)]).loc(Loc::file("t.py", 3, 1));
        let op = module.create(spec);
        evaluate(&module, op, args)
    }

    fn f32s(values: &[f64]) -> Literal {
        Literal::from_f64s([values.len() as i64], F32, values).unwrap()
    }

    #[test]
    fn adds_and_rounds() {
        let sum = run(OpKind::Binary(BinaryOp::Add), &[&f32s(&[1.0, 16777216.0]), &f32s(&[2.0, 1.0])], F32).unwrap();
        assert_eq!(sum.to_f64s(), [3.0, 16777216.0]);
        let none = run(OpKind::Binary(BinaryOp::Add), &[&f32s(&[]), &f32s(&[])], F32).unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn bounds_and_predicate_may_be_scalars() {
        let at = |v| Literal::scalar(F32, Scalar::Float(v));
        let x = f32s(&[-1.0, 0.5, 2.0, f64::NAN]);
        let clamped = run(OpKind::Mixed(MixedOp::Clamp), &[&at(0.0), &x, &at(1.0)], F32).unwrap().to_f64s();
        assert_eq!(clamped[..3], [0.0, 0.5, 1.0]);
        assert!(clamped[3].is_nan());
        let yes = Literal::scalar(I1, Scalar::Bool(true));
        assert_eq!(run(OpKind::Mixed(MixedOp::Select), &[&yes, &x, &f32s(&[0.0; 4])], F32).unwrap().bytes(), x.bytes());
    }

    #[test]
    fn shapes_and_types_are_checked() {
        let message =
            run(OpKind::Binary(BinaryOp::Add), &[&f32s(&[1.0]), &f32s(&[1.0, 2.0])], F32).unwrap_err().to_string();
        assert_eq!(message, "'stablehlo.add' at t.py:3:1: operand 0 has shape [1] where [2] is needed");
        let message = run(OpKind::Binary(BinaryOp::And), &[&f32s(&[1.0]), &f32s(&[1.0])], F32).unwrap_err().to_string();
        assert_eq!(message, "'stablehlo.and' at t.py:3:1: not supported: elements of type f32 to f32");
    }

    #[test]
    fn bitcast_splits_and_joins() {
        let x = Literal::from_i64s([2], UI32, &[0x0102_0304, 0x7F80_0000]).unwrap();
        let bytes = bitcast_convert(&x, UI8).unwrap();
        assert_eq!((bytes.dims(), &bytes.to_i64s()[..]), (&[2i64, 4][..], &[4i64, 3, 2, 1, 0, 0, 0x80, 0x7F][..]));
        assert_eq!(bitcast_convert(&bytes, UI32).unwrap(), x);
        assert_eq!(bitcast_convert(&x, F32).unwrap().get(1), Scalar::Float(f64::INFINITY));
        let nibbles = bitcast_convert(&Literal::from_i64s([1], UI8, &[0x8F]).unwrap(), I4).unwrap();
        assert_eq!(nibbles.to_i64s(), [-1, -8]);
        assert_eq!(bitcast_convert(&nibbles, UI8).unwrap().to_i64s(), [0x8F]);
        assert!(bitcast_convert(&bytes, F64).is_err());
        let pair = bitcast_convert(&Literal::from_f64s([1, 2], F32, &[1.0, 2.0]).unwrap(), C64).unwrap();
        assert_eq!(pair.get(0), Scalar::Complex(1.0, 2.0));
    }
}
