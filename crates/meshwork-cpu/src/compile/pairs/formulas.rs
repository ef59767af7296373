//! Functions of complex numbers in terms of their parts.
//!
//! Numbers are scaled by powers of two where squares would leave the range, and the rules for infinities and zeros are those of
//! the evaluator.

use meshwork_ir::build::{BuildError, Builder, Direction};
use meshwork_ir::op::{BinaryOp, MixedOp, SourceOp, UnaryOp};
use meshwork_ir::{Attr, ElementType, OpId, OpKind, Type, ValueId};

use super::Parts;

/// What an operation gives.
pub(super) enum Made {
    Parts(ValueId, ValueId),
    Real(ValueId),
}

type Value = Result<ValueId, BuildError>;
type Both = Result<(ValueId, ValueId), BuildError>;

/// What `op` gives for operands with these parts; `None` if it has no formula.
pub(super) fn written(b: &mut Builder<'_>, op: OpId, complex: &[Parts]) -> Result<Option<Made>, BuildError> {
    let data = b.module().op(op);
    let (kind, operands) = (data.kind(), data.operands().to_vec());
    let result = b.ty(data.results()[0]).clone();
    let unequal = data.enum_value("comparison_direction") == Some("NE");
    let part = result.elem().map_or(ElementType::F32, ElementType::real_part);
    let dims = complex.first().map_or_else(|| result.dims().to_vec(), |p| b.ty(p.0).dims().to_vec());
    let elem = complex.first().and_then(|p| b.ty(p.0).elem()).unwrap_or(part);
    let mut f = Formula { b, dims, elem };
    let (re, im) = match (kind, complex) {
        (OpKind::Binary(BinaryOp::Complex), _) => (operands[0], operands[1]),
        (OpKind::Mixed(MixedOp::Convert), &[(x, y)]) => (f.b.convert(x, part)?, f.b.convert(y, part)?),
        (OpKind::Mixed(MixedOp::Convert), _) => {
            let zero = f.b.splat(f.dims.clone(), part, 0.0)?;
            (f.b.convert(operands[0], part)?, zero)
        }
        (OpKind::Mixed(MixedOp::Select), &[(a, b), (c, d)]) => {
            (f.b.select(operands[0], a, c)?, f.b.select(operands[0], b, d)?)
        }
        (OpKind::Mixed(MixedOp::Compare), &[(a, b), (c, d)]) => {
            let direction = if unequal { Direction::Ne } else { Direction::Eq };
            let (x, y) = (f.b.compare(direction, a, c)?, f.b.compare(direction, b, d)?);
            return Ok(Some(Made::Real(if unequal { f.b.or(x, y)? } else { f.b.and(x, y)? })));
        }
        (OpKind::Unary(UnaryOp::Real), &[(x, _)]) => return Ok(Some(Made::Real(x))),
        (OpKind::Unary(UnaryOp::Imag), &[(_, y)]) => return Ok(Some(Made::Real(y))),
        (OpKind::Unary(UnaryOp::Abs), &[(x, y)]) => return Ok(Some(Made::Real(f.abs(x, y)?))),
        (OpKind::Binary(BinaryOp::Add), &[(a, b), (c, d)]) => (f.b.add(a, c)?, f.b.add(b, d)?),
        (OpKind::Binary(BinaryOp::Subtract), &[(a, b), (c, d)]) => (f.b.subtract(a, c)?, f.b.subtract(b, d)?),
        (OpKind::Binary(BinaryOp::Multiply), &[x, y]) => f.product(x, y)?,
        (OpKind::Binary(BinaryOp::Divide), &[x, y]) => f.quotient(x, y)?,
        (OpKind::Binary(BinaryOp::Power), &[x, y]) => f.power(x, y)?,
        (OpKind::Unary(UnaryOp::Negate), &[(x, y)]) => (f.b.negate(x)?, f.b.negate(y)?),
        (OpKind::Unary(UnaryOp::Conj), &[(x, y)]) => (x, f.b.negate(y)?),
        (OpKind::Unary(UnaryOp::Square), &[(x, y)]) => f.square(x, y)?,
        (OpKind::Unary(UnaryOp::Exponential), &[(x, y)]) => f.exp(x, y)?,
        (OpKind::Unary(UnaryOp::Sqrt), &[(x, y)]) => f.sqrt(x, y)?,
        (OpKind::Unary(UnaryOp::Log), &[(x, y)]) => f.log(x, y)?,
        _ => return Ok(None),
    };
    Ok(Some(Made::Parts(re, im)))
}

/// Arithmetic on arrays of one shape and type.
struct Formula<'b, 'm> {
    b: &'b mut Builder<'m>,
    dims: Vec<i64>,
    elem: ElementType,
}

impl Formula<'_, '_> {
    fn number(&mut self, value: f64) -> Value {
        self.b.splat(self.dims.clone(), self.elem, value)
    }

    fn is_single(&self) -> bool {
        self.elem == ElementType::F32
    }

    fn word(&self) -> ElementType {
        if self.is_single() { ElementType::I32 } else { ElementType::I64 }
    }

    fn bits(&mut self, x: ValueId) -> Value {
        let ty = Type::tensor(self.dims.clone(), self.word());
        self.b.bitcast_convert(x, ty)
    }

    fn of_bits(&mut self, x: ValueId) -> Value {
        let ty = Type::tensor(self.dims.clone(), self.elem);
        self.b.bitcast_convert(x, ty)
    }

    fn pattern(&mut self, single: u32, double: u64) -> Value {
        let bytes = if self.is_single() { single.to_le_bytes().to_vec() } else { double.to_le_bytes().to_vec() };
        self.b.splat_bytes(&self.dims.clone(), self.word(), &bytes)
    }

    /// The bits of `x` without its sign: integers in the order of sizes, with infinity above all numbers and NaN above that.
    fn size(&mut self, x: ValueId) -> Value {
        let (bits, rest) = (self.bits(x)?, self.pattern(!(1 << 31), !(1 << 63))?);
        self.b.and(bits, rest)
    }

    /// The size of infinity.
    fn endless(&mut self) -> Value {
        self.pattern(0x7F80_0000, 0x7FF0_0000_0000_0000)
    }

    /// Whether the number of this [`size`](Formula::size) is infinite.
    fn is_endless(&mut self, size: ValueId) -> Value {
        let endless = self.endless()?;
        self.b.compare(Direction::Eq, size, endless)
    }

    /// Whether the number of this [`size`](Formula::size) is finite.
    fn is_bounded(&mut self, size: ValueId) -> Value {
        let endless = self.endless()?;
        self.b.compare(Direction::Lt, size, endless)
    }

    fn is_zero(&mut self, x: ValueId) -> Value {
        let zero = self.number(0.0)?;
        self.b.compare(Direction::Eq, x, zero)
    }

    /// `size`, which is not negative, with the sign of `x`.
    fn with_sign(&mut self, size: ValueId, x: ValueId) -> Value {
        let (x, size) = (self.bits(x)?, self.bits(size)?);
        let sign = self.pattern(1 << 31, 1 << 63)?;
        let sign = self.b.and(x, sign)?;
        let both = self.b.or(sign, size)?;
        self.of_bits(both)
    }

    /// The power of two below the number of [`size`](Formula::size) `larger`, away from the ends of the range, and its inverse.
    fn scale(&mut self, larger: ValueId) -> Both {
        let exponent = self.endless()?;
        let power = self.b.and(larger, exponent)?;
        let least = self.pattern(0x0080_0000, 0x0010_0000_0000_0000)?;
        let most = self.pattern(0x7E80_0000, 0x7FD0_0000_0000_0000)?;
        let power = self.b.maximum(power, least)?;
        let power = self.b.minimum(power, most)?;
        let sum = self.pattern(0x7F00_0000, 0x7FE0_0000_0000_0000)?;
        let inverse = self.b.subtract(sum, power)?;
        Ok((self.of_bits(power)?, self.of_bits(inverse)?))
    }

    fn sum_of_squares(&mut self, x: ValueId, y: ValueId) -> Value {
        let (xx, yy) = (self.b.multiply(x, x)?, self.b.multiply(y, y)?);
        self.b.add(xx, yy)
    }

    /// The length of the number; infinite if a part is.
    fn abs(&mut self, x: ValueId, y: ValueId) -> Value {
        let (a, b) = (self.size(x)?, self.size(y)?);
        let larger = self.b.maximum(a, b)?;
        let (power, inverse) = self.scale(larger)?;
        let (xs, ys) = (self.b.multiply(x, inverse)?, self.b.multiply(y, inverse)?);
        let squares = self.sum_of_squares(xs, ys)?;
        let length = self.b.sqrt(squares)?;
        let length = self.b.multiply(length, power)?;
        let (a, b) = (self.is_endless(a)?, self.is_endless(b)?);
        let (far, infinity) = (self.b.or(a, b)?, self.number(f64::INFINITY)?);
        self.b.select(far, infinity, length)
    }

    fn product(&mut self, (a, b): Parts, (c, d): Parts) -> Both {
        let (ac, bd) = (self.b.multiply(a, c)?, self.b.multiply(b, d)?);
        let (ad, bc) = (self.b.multiply(a, d)?, self.b.multiply(b, c)?);
        Ok((self.b.subtract(ac, bd)?, self.b.add(ad, bc)?))
    }

    /// The real part as a product of sums, so that it does not cancel; the sum of large parts may be infinite.
    fn square(&mut self, x: ValueId, y: ValueId) -> Both {
        let (less, more) = (self.b.subtract(x, y)?, self.b.add(x, y)?);
        let (xy, re) = (self.b.multiply(x, y)?, self.b.multiply(less, more)?);
        let (x, y) = (self.size(x)?, self.size(y)?);
        let (equal, bounded) = (self.b.compare(Direction::Eq, x, y)?, self.is_bounded(x)?);
        let (diagonal, zero) = (self.b.and(equal, bounded)?, self.number(0.0)?);
        Ok((self.b.select(diagonal, zero, re)?, self.b.add(xy, xy)?))
    }

    /// Where a quotient is out of range, a part that should cancel may be infinite, too.
    fn quotient(&mut self, (a, b): Parts, (c, d): Parts) -> Both {
        if self.is_constant_zero(d) {
            return Ok((self.b.divide(a, c)?, self.b.divide(b, c)?));
        }
        let (one, zero) = (self.number(1.0)?, self.number(0.0)?);
        let (c_size, d_size) = (self.size(c)?, self.size(d)?);
        let larger = self.b.maximum(c_size, d_size)?;
        let (_, inverse) = self.scale(larger)?;
        let (cs, ds) = (self.b.multiply(c, inverse)?, self.b.multiply(d, inverse)?);
        // Of an infinite divisor, the infinite parts are one and the others zero, and the quotient is zero.
        let (c_far, d_far) = (self.is_endless(c_size)?, self.is_endless(d_size)?);
        let far = self.b.or(c_far, d_far)?;
        let units = (self.unit(c, c_far)?, self.unit(d, d_far)?);
        let (cs, ds) = (self.b.select(far, units.0, cs)?, self.b.select(far, units.1, ds)?);
        let inverse = self.b.select(far, zero, inverse)?;
        let squares = self.sum_of_squares(cs, ds)?;
        let over = self.b.divide(one, squares)?;
        // Neither is above one, so that the products stay in range.
        let (u, v) = (self.b.multiply(cs, over)?, self.b.multiply(ds, over)?);
        let (re, im) = self.times_conjugate((a, b), (u, v))?;
        let (re, im) = (self.b.multiply(re, inverse)?, self.b.multiply(im, inverse)?);
        let found =
            if self.is_finite(a) && self.is_finite(b) { (re, im) } else { self.of_infinite((a, b), (c, d), (re, im))? };
        // By zero as for real numbers.
        let none = self.pattern(0, 0)?;
        let by_zero = self.b.compare(Direction::Eq, larger, none)?;
        let infinity = self.number(f64::INFINITY)?;
        let signed = self.with_sign(infinity, c)?;
        let (x, y) = (self.b.multiply(signed, a)?, self.b.multiply(signed, b)?);
        Ok((self.b.select(by_zero, x, found.0)?, self.b.select(by_zero, y, found.1)?))
    }

    /// Quotients of an infinite number by a finite one, where both parts of `otherwise` are NaN; `otherwise` for all others.
    fn of_infinite(&mut self, (a, b): Parts, (c, d): Parts, otherwise: Parts) -> Both {
        let infinity = self.number(f64::INFINITY)?;
        let [a_size, b_size, c_size, d_size] = [a, b, c, d].map(|x| self.size(x));
        let (a_far, b_far) = (self.is_endless(a_size?)?, self.is_endless(b_size?)?);
        let above = self.b.or(a_far, b_far)?;
        let below = self.b.maximum(c_size?, d_size?)?;
        let below = self.is_bounded(below)?;
        let (no_x, no_y) = (self.is_nan(otherwise.0)?, self.is_nan(otherwise.1)?);
        let neither = self.b.and(no_x, no_y)?;
        let case = self.b.and(above, below)?;
        let case = self.b.and(case, neither)?;
        let units = (self.unit(a, a_far)?, self.unit(b, b_far)?);
        let (x, y) = self.times_conjugate(units, (c, d))?;
        let (x, y) = (self.b.multiply(x, infinity)?, self.b.multiply(y, infinity)?);
        Ok((self.b.select(case, x, otherwise.0)?, self.b.select(case, y, otherwise.1)?))
    }

    /// `(a + ib)(c - id)`.
    fn times_conjugate(&mut self, (a, b): Parts, (c, d): Parts) -> Both {
        let (ac, bd) = (self.b.multiply(a, c)?, self.b.multiply(b, d)?);
        let (bc, ad) = (self.b.multiply(b, c)?, self.b.multiply(a, d)?);
        Ok((self.b.add(ac, bd)?, self.b.subtract(bc, ad)?))
    }

    fn is_nan(&mut self, x: ValueId) -> Value {
        self.b.compare(Direction::Ne, x, x)
    }

    /// One if `x` is infinite, as `far` says, and zero if not, with its sign.
    fn unit(&mut self, x: ValueId, far: ValueId) -> Value {
        let (one, zero) = (self.number(1.0)?, self.number(0.0)?);
        let size = self.b.select(far, one, zero)?;
        self.with_sign(size, x)
    }

    /// Far from zero in two steps, so that neither overflow nor underflow comes too early.
    fn exp(&mut self, x: ValueId, y: ValueId) -> Both {
        let (limit, far) = if self.is_single() { (80.0, 64.0) } else { (700.0, 512.0) };
        let (high, low) = (self.number(limit)?, self.number(-limit)?);
        let (above, below) = (self.b.compare(Direction::Gt, x, high)?, self.b.compare(Direction::Lt, x, low)?);
        let mut choose = |if_above: f64, if_below: f64, between: f64| {
            let [a, b, c] = [if_above, if_below, between].map(|n| self.number(n));
            let lower = self.b.select(below, b?, c?)?;
            self.b.select(above, a?, lower)
        };
        let (step, factor) = (choose(far, -far, 0.0)?, choose(far.exp(), (-far).exp(), 1.0)?);
        let rest = self.b.subtract(x, step)?;
        let size = self.b.exponential(rest)?;
        let (cos, sin) = (self.b.cosine(y)?, self.b.sine(y)?);
        let (re, im) = (self.b.multiply(size, cos)?, self.b.multiply(size, sin)?);
        let (re, im) = (self.b.multiply(re, factor)?, self.b.multiply(im, factor)?);
        let on_axis = self.is_zero(y)?;
        Ok((re, self.b.select(on_axis, y, im)?))
    }

    /// The root in the right half plane.
    fn sqrt(&mut self, x: ValueId, y: ValueId) -> Both {
        let (x_size, y_size) = (self.size(x)?, self.size(y)?);
        let larger = self.b.maximum(x_size, y_size)?;
        // A power of four, whose root is exact: the mean of large parts times the power may be out of range.
        let odd = self.pattern(0x0080_0000, 0x0010_0000_0000_0000)?;
        let larger = self.b.or(larger, odd)?;
        let (power, inverse) = self.scale(larger)?;
        let (half, two, zero) = (self.number(0.5)?, self.number(2.0)?, self.number(0.0)?);
        let infinity = self.number(f64::INFINITY)?;
        let (xs, ys) = (self.b.multiply(x, inverse)?, self.b.multiply(y, inverse)?);
        let squares = self.sum_of_squares(xs, ys)?;
        let (length, size) = (self.b.sqrt(squares)?, self.b.abs(xs)?);
        let sum = self.b.add(length, size)?;
        let mean = self.b.multiply(sum, half)?;
        let (mean, power) = (self.b.sqrt(mean)?, self.b.sqrt(power)?);
        let large = self.b.multiply(mean, power)?;
        let (x_far, y_far) = (self.is_endless(x_size)?, self.is_endless(y_size)?);
        let large = self.b.select(x_far, infinity, large)?;
        let (size, twice) = (self.b.abs(y)?, self.b.multiply(large, two)?);
        let small = self.b.divide(size, twice)?;
        let on_axis = self.is_zero(y)?;
        let small = self.b.select(on_axis, zero, small)?;
        let right = self.b.compare(Direction::Ge, x, zero)?;
        let (re, im) = (self.b.select(right, large, small)?, self.b.select(right, small, large)?);
        let im = self.with_sign(im, y)?;
        Ok((self.b.select(y_far, infinity, re)?, self.b.select(y_far, y, im)?))
    }

    /// The logarithm of the length in wider numbers, in which squares are exact.
    fn log(&mut self, x: ValueId, y: ValueId) -> Both {
        let angle = self.b.atan2(y, x)?;
        let (x_far, y_far) = (self.size(x)?, self.size(y)?);
        let (x_far, y_far) = (self.is_endless(x_far)?, self.is_endless(y_far)?);
        let far = self.b.or(x_far, y_far)?;
        let infinity = self.number(f64::INFINITY)?;
        let length = {
            let (x, y) = (self.b.convert(x, ElementType::F64)?, self.b.convert(y, ElementType::F64)?);
            let mut wide = Formula { b: &mut *self.b, dims: self.dims.clone(), elem: ElementType::F64 };
            let squares = wide.sum_of_squares(x, y)?;
            let (one, half) = (wide.number(1.0)?, wide.number(0.5)?);
            // Near the unit circle, the difference from one is what counts.
            let (less, more) = (wide.b.subtract(x, one)?, wide.b.add(x, one)?);
            let (a, b) = (wide.b.multiply(less, more)?, wide.b.multiply(y, y)?);
            let rest = wide.b.add(a, b)?;
            let (near, log) = (wide.b.log_plus_one(rest)?, wide.b.log(squares)?);
            let (low, high) = (wide.number(0.25)?, wide.number(4.0)?);
            let (a, b) = (wide.b.compare(Direction::Gt, squares, low)?, wide.b.compare(Direction::Lt, squares, high)?);
            let close = wide.b.and(a, b)?;
            let log = wide.b.select(close, near, log)?;
            wide.b.multiply(log, half)?
        };
        let length = self.b.convert(length, ElementType::F32)?;
        Ok((self.b.select(far, infinity, length)?, angle))
    }

    /// By logarithm and exponential. To the power of zero it is one; powers of zero are zero.
    fn power(&mut self, (a, b): Parts, (c, d): Parts) -> Both {
        let log = self.log(a, b)?;
        let (x, y) = self.product((c, d), log)?;
        let found = self.exp(x, y)?;
        let (zero, one) = (self.number(0.0)?, self.number(1.0)?);
        let [a, b, c_none, d] = [a, b, c, d].map(|x| self.is_zero(x));
        let (base, exponent) = (self.b.and(a?, b?)?, self.b.and(c_none?, d?)?);
        let positive = self.b.compare(Direction::Gt, c, zero)?;
        let lost = self.b.and(base, positive)?;
        let (x, y) = (self.b.select(lost, zero, found.0)?, self.b.select(lost, zero, found.1)?);
        Ok((self.b.select(exponent, one, x)?, self.b.select(exponent, zero, y)?))
    }

    fn is_constant_zero(&self, value: ValueId) -> bool {
        self.constant(value).is_some_and(|bytes| bytes.iter().all(|&b| b == 0))
    }

    /// Whether all of `value` is one number that is neither infinite nor NaN.
    fn is_finite(&self, value: ValueId) -> bool {
        self.constant(value).is_some_and(|bytes| match *bytes {
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_finite(),
            [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]).is_finite(),
            _ => false,
        })
    }

    /// The bytes of the number that all of `value` is, if that is a constant.
    fn constant(&self, value: ValueId) -> Option<&[u8]> {
        let module = self.b.module();
        let data = module.op(module.def_op(value)?);
        match (data.kind(), data.attr("value"), data.operands()) {
            (OpKind::Source(SourceOp::Constant), Some(Attr::Dense(dense)), _) => dense.splat_bytes(),
            (OpKind::Movement(_), _, &[from]) => self.constant(from),
            _ => None,
        }
    }
}
