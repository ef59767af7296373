//! Combining the elements of two arrays, as reductions between devices need it.

use meshwork_ir::eval::scalar::{ScalarOp, apply};
use meshwork_ir::eval::{EvalError, SingleOp};
use meshwork_ir::{ElementClass, ElementType, Literal, Module, OpId, OpKind};

use crate::kernel::ir::Combine;
use crate::program::Reducer;
use crate::step::Fault;

/// `to[i] = a[i] ∘ b[i]` for arrays of one element type. `to` may be `a`.
#[derive(Debug)]
pub(crate) enum Combiner {
    /// Compiled: pointers and the number of elements.
    Fast(unsafe fn(*mut u8, *const u8, *const u8, usize)),
    /// The evaluator's arithmetic.
    Scalar(ScalarOp, ElementType),
    /// The body of an operation.
    Body(Box<SingleOp>, ElementType),
}

impl Combiner {
    /// What `reducer` does on elements of type `elem`.
    pub(crate) fn new(reducer: &Reducer, elem: ElementType, module: &Module) -> Result<Combiner, String> {
        let combine = match reducer {
            Reducer::Combine(combine) => *combine,
            Reducer::Body(op) => return body(module, *op, elem).map_err(|e| e.to_string()),
        };
        if let Some(fast) = fast(combine, elem) {
            return Ok(Combiner::Fast(fast));
        }
        let kind = match combine {
            Combine::Add => OpKind::Add,
            Combine::Mul => OpKind::Multiply,
            Combine::Max => OpKind::Maximum,
            Combine::Min => OpKind::Minimum,
            Combine::And => OpKind::And,
            Combine::Or => OpKind::Or,
            Combine::Xor => OpKind::Xor,
        };
        let scalar = ScalarOp::new(kind, elem, elem).ok_or_else(|| format!("no {combine:?} of {elem}"))?;
        Ok(Combiner::Scalar(scalar, elem))
    }

    /// Combines `n` elements.
    ///
    /// # Safety
    /// The arrays have `n` elements; `b` overlaps neither of the others, and `to` is `a` or does not overlap it.
    pub(crate) unsafe fn run(&self, to: *mut u8, a: *const u8, b: *const u8, n: usize) -> Result<(), Fault> {
        let (elem, literals) = match self {
            Combiner::Fast(f) => {
                // SAFETY: the contract is the same.
                unsafe { f(to, a, b, n) };
                return Ok(());
            }
            Combiner::Scalar(_, elem) | Combiner::Body(_, elem) => (*elem, |p: *const u8| {
                // SAFETY: the array has `n` elements.
                let bytes = unsafe { std::slice::from_raw_parts(p, n * elem.storage_bytes()) };
                Literal::from_bytes([n as i64], *elem, bytes.to_vec())
            }),
        };
        let wrong = || Fault(format!("{n} elements of {elem} are no array"));
        let (mut x, y) = (literals(a).ok_or_else(wrong)?, literals(b).ok_or_else(wrong)?);
        match self {
            Combiner::Scalar(op, _) => {
                for i in 0..n {
                    x.set(i, apply(op, &[x.get(i), y.get(i)]));
                }
            }
            Combiner::Body(op, _) => {
                // The body works on single elements.
                for i in 0..n {
                    let pick = |from: &Literal| Literal::from_bytes([], elem, from.element(i).to_vec());
                    let args = vec![pick(&x).ok_or_else(wrong)?, pick(&y).ok_or_else(wrong)?];
                    let result = op.run(args, 0, 0).map_err(|e| Fault(e.to_string()))?;
                    x.set_element(i, result.first().ok_or_else(wrong)?.element(0));
                }
            }
            Combiner::Fast(_) => {}
        }
        // SAFETY: the target has `n` elements.
        unsafe { std::ptr::copy_nonoverlapping(x.bytes().as_ptr(), to, x.bytes().len()) };
        Ok(())
    }
}

fn body(module: &Module, op: OpId, elem: ElementType) -> Result<Combiner, EvalError> {
    Ok(Combiner::Body(Box::new(SingleOp::body(module, op, 0)?), elem))
}

type Kernel = unsafe fn(*mut u8, *const u8, *const u8, usize);

/// # Safety
/// As [`Combiner::run`], for elements of type `T`.
#[inline(always)]
unsafe fn map2<T: Copy>(to: *mut u8, a: *const u8, b: *const u8, n: usize, f: impl Fn(T, T) -> T) {
    let (to, a, b) = (to.cast::<T>(), a.cast::<T>(), b.cast::<T>());
    for i in 0..n {
        // SAFETY: `i` is below the number of elements; the arrays may start anywhere.
        unsafe {
            let value = f(a.add(i).read_unaligned(), b.add(i).read_unaligned());
            to.add(i).write_unaligned(value);
        }
    }
}

macro_rules! kernel {
    ($ty:ty, $f:expr) => {{
        unsafe fn run(to: *mut u8, a: *const u8, b: *const u8, n: usize) {
            // SAFETY: the same contract.
            unsafe { map2::<$ty>(to, a, b, n, $f) }
        }
        Some(run as Kernel)
    }};
}

macro_rules! integer {
    ($combine:expr, $ty:ty) => {
        match $combine {
            Combine::Add => kernel!($ty, |a, b| a.wrapping_add(b)),
            Combine::Mul => kernel!($ty, |a, b| a.wrapping_mul(b)),
            Combine::Max => kernel!($ty, |a, b| a.max(b)),
            Combine::Min => kernel!($ty, |a, b| a.min(b)),
            Combine::And => kernel!($ty, |a, b| a & b),
            Combine::Or => kernel!($ty, |a, b| a | b),
            Combine::Xor => kernel!($ty, |a, b| a ^ b),
        }
    };
}

macro_rules! float {
    ($combine:expr, $ty:ty) => {
        match $combine {
            Combine::Add => kernel!($ty, |a, b| a + b),
            Combine::Mul => kernel!($ty, |a, b| a * b),
            // Not a number if either is not; of zeros the positive one is the larger.
            Combine::Max => {
                kernel!($ty, |a, b| { if a > b || a.is_nan() || (a == b && b.is_sign_negative()) { a } else { b } })
            }
            Combine::Min => {
                kernel!($ty, |a, b| { if a < b || a.is_nan() || (a == b && a.is_sign_negative()) { a } else { b } })
            }
            Combine::And | Combine::Or | Combine::Xor => None,
        }
    };
}

/// bf16 numbers are the high half of an f32.
#[inline(always)]
fn bf16(f: impl Fn(f32, f32) -> f32) -> impl Fn(u16, u16) -> u16 {
    let wide = |x: u16| f32::from_bits(u32::from(x) << 16);
    move |a, b| {
        let bits = f(wide(a), wide(b)).to_bits();
        if bits & 0x7fff_ffff > 0x7f80_0000 {
            return (bits >> 16) as u16 | 0x40;
        }
        // To the nearest, ties to even.
        ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
    }
}

/// A compiled loop, for the types and combinations that programs use.
fn fast(combine: Combine, elem: ElementType) -> Option<Kernel> {
    match elem {
        ElementType::F32 => float!(combine, f32),
        ElementType::F64 => float!(combine, f64),
        ElementType::BF16 => match combine {
            Combine::Add => kernel!(u16, bf16(|a, b| a + b)),
            Combine::Mul => kernel!(u16, bf16(|a, b| a * b)),
            _ => None,
        },
        ElementType::I8 => integer!(combine, i8),
        ElementType::I16 => integer!(combine, i16),
        ElementType::I32 => integer!(combine, i32),
        ElementType::I64 | ElementType::Index => integer!(combine, i64),
        ElementType::UI8 => integer!(combine, u8),
        ElementType::UI16 => integer!(combine, u16),
        ElementType::UI32 => integer!(combine, u32),
        ElementType::UI64 => integer!(combine, u64),
        ElementType::C64 if combine == Combine::Add => {
            kernel!([f32; 2], |a: [f32; 2], b: [f32; 2]| [a[0] + b[0], a[1] + b[1]])
        }
        ElementType::C128 if combine == Combine::Add => {
            kernel!([f64; 2], |a: [f64; 2], b: [f64; 2]| [a[0] + b[0], a[1] + b[1]])
        }
        _ if elem.class() == ElementClass::Bool => match combine {
            Combine::Add | Combine::Max | Combine::Or => kernel!(u8, |a, b| a | b),
            Combine::Mul | Combine::Min | Combine::And => kernel!(u8, |a, b| a & b),
            Combine::Xor => kernel!(u8, |a, b| a ^ b),
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_ir::eval::scalar::Scalar;

    /// Every type and combination equals the evaluator's scalar arithmetic, special values included.
    #[test]
    fn fast_loops_agree_with_scalar_arithmetic() {
        let all = [Combine::Add, Combine::Mul, Combine::Max, Combine::Min, Combine::And, Combine::Or, Combine::Xor];
        let numbers =
            [0.0, -0.0, 1.0, -1.0, 3.7, 1e30, -2.5e-3, 127.0, 255.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for &elem in ElementType::ALL {
            for combine in all {
                if fast(combine, elem).is_none() {
                    continue;
                }
                let run = Combiner::new(&Reducer::Combine(combine), elem, &Module::new()).unwrap();
                let kind = match combine {
                    Combine::Add => OpKind::Add,
                    Combine::Mul => OpKind::Multiply,
                    Combine::Max => OpKind::Maximum,
                    Combine::Min => OpKind::Minimum,
                    Combine::And => OpKind::And,
                    Combine::Or => OpKind::Or,
                    Combine::Xor => OpKind::Xor,
                };
                let slow = ScalarOp::new(kind, elem, elem).unwrap();
                let n = numbers.len() * numbers.len();
                let (mut a, mut b) = (Literal::zeros([n as i64], elem), Literal::zeros([n as i64], elem));
                for i in 0..n {
                    a.set(i, Scalar::from_f64(elem, numbers[i / numbers.len()]));
                    b.set(i, Scalar::from_f64(elem, numbers[i % numbers.len()]));
                }
                let mut to = Literal::zeros([n as i64], elem);
                // SAFETY: all three have `n` elements.
                unsafe { run.run(to.bytes_mut().as_mut_ptr(), a.bytes().as_ptr(), b.bytes().as_ptr(), n).unwrap() };
                for i in 0..n {
                    let want = apply(&slow, &[a.get(i), b.get(i)]);
                    let same = to.get(i) == want || (to.get(i).is_nan() && want.is_nan());
                    assert!(
                        same,
                        "{combine:?} of {elem}: {} and {} give {}, not {want}",
                        a.get(i),
                        b.get(i),
                        to.get(i)
                    );
                }
            }
        }
    }
}
