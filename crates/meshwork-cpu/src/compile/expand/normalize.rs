//! Batch normalization in arithmetic and sums.

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::BinaryOp;
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, Type, ValueId};

use super::replace;

/// The operands in a type wide enough to sum in, and what is needed of the attributes.
struct Site {
    x: Type,
    feature: i64,
    epsilon: f64,
    /// The type of the operands, and that of the arithmetic.
    elem: ElementType,
    wide: ElementType,
}

impl Site {
    fn new(module: &Module, op: OpId) -> Option<Site> {
        let data = module.op(op);
        let x = module.ty(*data.operands().first()?).clone();
        let Attr::Float(epsilon, _) = data.attr("epsilon")? else { return None };
        let elem = x.elem()?;
        let wide = if elem == ElementType::F64 { elem } else { ElementType::F32 };
        Some(Site { feature: data.int("feature_index")?, epsilon: *epsilon, elem, wide, x })
    }

    fn widen(&self, b: &mut Builder<'_>, value: ValueId) -> Result<ValueId, BuildError> {
        if self.elem == self.wide { Ok(value) } else { b.convert(value, self.wide) }
    }

    fn narrow(&self, b: &mut Builder<'_>, value: ValueId) -> Result<ValueId, BuildError> {
        if self.elem == self.wide { Ok(value) } else { b.convert(value, self.elem) }
    }

    /// One number per feature, for all elements.
    fn spread(&self, b: &mut Builder<'_>, value: ValueId) -> Result<ValueId, BuildError> {
        b.broadcast_as(value, Type::tensor(self.x.dims().to_vec(), self.wide), &[self.feature])
    }

    /// Sums per feature.
    fn sums(&self, b: &mut Builder<'_>, value: ValueId) -> Result<ValueId, BuildError> {
        let zero = b.scalar(self.wide, 0.0)?;
        let dims: Vec<i64> = (0..self.x.dims().len() as i64).filter(|&d| d != self.feature).collect();
        b.reduce_by(OpKind::Binary(BinaryOp::Add), value, zero, &dims)
    }

    /// Elements per feature.
    fn count(&self) -> f64 {
        let dims = self.x.dims().iter().enumerate();
        dims.filter(|(d, _)| *d as i64 != self.feature).map(|(_, &n)| n as f64).product()
    }

    fn number(&self, b: &mut Builder<'_>, like: ValueId, value: f64) -> Result<ValueId, BuildError> {
        b.splat(b.ty(like).dims().to_vec(), self.wide, value)
    }

    /// `1 / sqrt(variance + epsilon)`.
    fn inverse(&self, b: &mut Builder<'_>, variance: ValueId) -> Result<ValueId, BuildError> {
        let epsilon = self.number(b, variance, self.epsilon)?;
        let sum = b.add(variance, epsilon)?;
        let (one, root) = (self.number(b, variance, 1.0)?, b.sqrt(sum)?);
        b.divide(one, root)
    }

    fn normal(&self, b: &mut Builder<'_>, args: [ValueId; 5]) -> Result<ValueId, BuildError> {
        let [x, scale, offset, mean, variance] = args;
        let inverse = self.inverse(b, variance)?;
        let (mean, inverse) = (self.spread(b, mean)?, self.spread(b, inverse)?);
        let (scale, offset) = (self.spread(b, scale)?, self.spread(b, offset)?);
        let centered = b.subtract(x, mean)?;
        let normal = b.multiply(centered, inverse)?;
        let scaled = b.multiply(normal, scale)?;
        b.add(scaled, offset)
    }
}

pub(super) fn inference(module: &mut Module, op: OpId) -> bool {
    let Some(site) = Site::new(module, op) else { return false };
    let Ok(args) = <[ValueId; 5]>::try_from(module.op(op).operands()) else { return false };
    replace(module, op, |b| {
        let mut wide = args;
        for v in &mut wide {
            *v = site.widen(b, *v)?;
        }
        let out = site.normal(b, wide)?;
        Ok(Some(vec![site.narrow(b, out)?]))
    })
}

pub(super) fn training(module: &mut Module, op: OpId) -> bool {
    let Some(site) = Site::new(module, op) else { return false };
    let Ok(args) = <[ValueId; 3]>::try_from(module.op(op).operands()) else { return false };
    replace(module, op, |b| {
        let [x, scale, offset] = args;
        let (x, scale, offset) = (site.widen(b, x)?, site.widen(b, scale)?, site.widen(b, offset)?);
        let sum = site.sums(b, x)?;
        let count = site.number(b, sum, site.count())?;
        let mean = b.divide(sum, count)?;
        let spread = site.spread(b, mean)?;
        let centered = b.subtract(x, spread)?;
        let squares = b.multiply(centered, centered)?;
        let squares = site.sums(b, squares)?;
        let variance = b.divide(squares, count)?;
        // What is returned is what it is normalized by.
        let (mean, variance) = (site.narrow(b, mean)?, site.narrow(b, variance)?);
        let (wide_mean, wide_variance) = (site.widen(b, mean)?, site.widen(b, variance)?);
        let out = site.normal(b, [x, scale, offset, wide_mean, wide_variance])?;
        Ok(Some(vec![site.narrow(b, out)?, mean, variance]))
    })
}

pub(super) fn gradient(module: &mut Module, op: OpId) -> bool {
    let Some(site) = Site::new(module, op) else { return false };
    let Ok(args) = <[ValueId; 5]>::try_from(module.op(op).operands()) else { return false };
    replace(module, op, |b| {
        let mut wide = args;
        for v in &mut wide {
            *v = site.widen(b, *v)?;
        }
        let [x, scale, mean, variance, grad] = wide;
        let inverse = site.inverse(b, variance)?;
        let mean = site.spread(b, mean)?;
        let centered = b.subtract(x, mean)?;
        let product = b.multiply(grad, centered)?;
        let (grads, products) = (site.sums(b, grad)?, site.sums(b, product)?);
        let of_scale = b.multiply(products, inverse)?;
        // scale / deviation / n * (n g - Σg - c Σgc / (variance + epsilon))
        let count = site.number(b, grad, site.count())?;
        let first = b.multiply(count, grad)?;
        let spread = site.spread(b, grads)?;
        let first = b.subtract(first, spread)?;
        let squared = b.multiply(inverse, inverse)?;
        let slope = b.multiply(products, squared)?;
        let slope = site.spread(b, slope)?;
        let second = b.multiply(slope, centered)?;
        let inner = b.subtract(first, second)?;
        let count = site.number(b, scale, site.count())?;
        let factor = b.multiply(scale, inverse)?;
        let factor = b.divide(factor, count)?;
        let factor = site.spread(b, factor)?;
        let of_x = b.multiply(factor, inner)?;
        Ok(Some(vec![site.narrow(b, of_x)?, site.narrow(b, of_scale)?, site.narrow(b, grads)?]))
    })
}
