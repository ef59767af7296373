//! Operations that apply a body to elements.

use meshwork_ir::attr::ScatterDims;
use meshwork_ir::build::{Builder, Direction, Stability, Window};
use meshwork_ir::op::{BinaryOp, BodyOp};
use meshwork_ir::{ElementClass, ElementType, Literal, OpKind, Type, ValueId};

use super::{Maker, Value};

impl Maker {
    /// A function that combines elements of `x` in any order.
    pub(super) fn combiner(&mut self, x: &Value) -> BinaryOp {
        use BinaryOp::*;
        let all = match x.class() {
            ElementClass::Bool => &[And, Or, Xor, Add, Maximum][..],
            ElementClass::Complex => &[Add, Multiply],
            ElementClass::Float => &[Add, Add, Maximum, Minimum, Multiply],
            ElementClass::Signed | ElementClass::Unsigned => &[Add, Multiply, Maximum, Minimum, And, Or, Xor],
        };
        all[self.numbers.below(all.len())]
    }

    /// The result `id` of combining `n` elements of `x` and `init` by `op`.
    pub(super) fn combined(
        &self,
        b: &Builder<'_>,
        id: ValueId,
        op: BinaryOp,
        (x, init): (&Value, &Value),
        n: i64,
    ) -> Option<Value> {
        let n = n.max(0) as f64;
        let whole = x.whole && init.whole;
        match op {
            BinaryOp::Add => Value::computed(b, id, n * x.bound + init.bound, n * x.error + init.error, whole, n + 1.0),
            BinaryOp::Maximum | BinaryOp::Minimum => {
                Value::moved(b, id, x.bound.max(init.bound), x.error.max(init.error), whole)
            }
            BinaryOp::Multiply => {
                let bound = x.bound.max(1.0).powf(n) * init.bound.max(1.0);
                let error = bound * (n * x.error + init.error);
                Value::computed(b, id, bound, error, whole, 4.0 * (n + 1.0))
            }
            _ => Value::computed(b, id, f64::INFINITY, 0.0, true, 0.0),
        }
    }

    /// A start for a reduction: what changes nothing, or something else.
    fn init(&mut self, b: &mut Builder<'_>, scope: &[Value], x: &Value, op: BinaryOp) -> Option<Value> {
        let number = match op {
            BinaryOp::Add | BinaryOp::Or | BinaryOp::Xor => 0.0,
            BinaryOp::Multiply => 1.0,
            _ => return self.like(b, scope, x.elem, &[]),
        };
        if self.numbers.below(3) == 0 {
            return self.like(b, scope, x.elem, &[]);
        }
        let id = b.scalar(x.elem, number).ok()?;
        Some(Value { id, elem: x.elem, dims: vec![], bound: number, error: 0.0, whole: true })
    }

    fn window(&mut self, rank: usize) -> Window {
        let mut list =
            |items: &[i64]| -> Vec<i64> { (0..rank).map(|_| items[self.numbers.below(items.len())]).collect() };
        let sizes = list(&[1, 1, 2, 3]);
        let strides = list(&[1, 1, 2]);
        let (low, high) = (list(&[0, 0, 1, 2]), list(&[0, 0, 1]));
        let (base, window) = (list(&[1, 1, 1, 2]), list(&[1, 1, 1, 2]));
        let padding = low.into_iter().zip(high).collect();
        Window { sizes, strides, base_dilations: base, window_dilations: window, padding }
    }

    pub(super) fn body(&mut self, b: &mut Builder<'_>, scope: &[Value], op: BodyOp) -> Option<Vec<Value>> {
        match op {
            BodyOp::Map => {
                let x = self.any(scope)?;
                let y = self.like(b, scope, x.elem, &x.dims)?;
                let f = self.combiner(&x);
                let id = b.map(&[x.id, y.id], |b, args| Ok([b.apply(OpKind::Binary(f), args)?])).ok()?;
                Some(vec![self.combined(b, id, f, (&x, &y), 1)?])
            }
            BodyOp::Reduce if self.numbers.below(4) == 0 => self.argmax(b, scope),
            BodyOp::Reduce => {
                let x = self.pick(scope, |v| v.rank() > 0)?;
                let f = self.combiner(&x);
                let init = self.init(b, scope, &x, f)?;
                let mut over: Vec<i64> = (0..x.rank() as i64).filter(|_| self.numbers.below(2) == 0).collect();
                if over.is_empty() {
                    over.push(self.numbers.below(x.rank()) as i64);
                }
                let n = over.iter().map(|&d| x.dims[d as usize]).product();
                let id = b.reduce_by(OpKind::Binary(f), x.id, init.id, &over).ok()?;
                Some(vec![self.combined(b, id, f, (&x, &init), n)?])
            }
            BodyOp::ReduceWindow => {
                let x = self.pick(scope, |v| v.rank() > 0 && v.class() != ElementClass::Complex)?;
                let f = self.combiner(&x);
                let init = self.init(b, scope, &x, f)?;
                let window = self.window(x.rank());
                let n: i64 = window.sizes.iter().product();
                let out = b
                    .reduce_window(&[x.id], &[init.id], &window, |b, args| Ok([b.apply(OpKind::Binary(f), args)?]))
                    .ok()?;
                // What is added around it counts as elements, too.
                let wide = Value { bound: x.bound.max(init.bound), error: x.error.max(init.error), ..x };
                Some(vec![self.combined(b, out[0], f, (&wide, &init), n)?])
            }
            BodyOp::SelectAndScatter => {
                let x = self.pick(scope, |v| v.is_exact() && v.rank() == 2 && (v.is_int() || v.is_float()))?;
                let (strides, sizes) = (vec![2, 1], vec![2, 1]);
                if x.dims[0] < 2 {
                    return None;
                }
                let source = self.like(b, scope, x.elem, &[(x.dims[0] - 2) / 2 + 1, x.dims[1]])?;
                let init = self.like(b, scope, x.elem, &[])?;
                let window = Window { sizes, strides, ..Window::default() };
                let direction = [Direction::Ge, Direction::Gt, Direction::Le][self.numbers.below(3)];
                let id = b
                    .select_and_scatter(
                        x.id,
                        source.id,
                        init.id,
                        &window,
                        |b, args| Ok([b.compare(direction, args[0], args[1])?]),
                        |b, args| Ok([b.apply(OpKind::Binary(BinaryOp::Add), args)?]),
                    )
                    .ok()?;
                Some(vec![self.combined(b, id, BinaryOp::Add, (&source, &init), 1)?])
            }
            BodyOp::Sort => {
                let x = self.pick(scope, |v| v.is_exact() && v.rank() > 0 && v.class() != ElementClass::Complex)?;
                let with = self.pick(scope, |v| v.dims == x.dims)?;
                let d = self.numbers.below(x.rank()) as i64;
                let direction = [Direction::Lt, Direction::Gt][self.numbers.below(2)];
                let both = self.numbers.below(2) == 0;
                let inputs = if both { vec![x.id, with.id] } else { vec![x.id] };
                let out = b
                    .sort(&inputs, d, Stability::Stable, |b, args| Ok([b.compare(direction, args[0], args[1])?]))
                    .ok()?;
                let mut made = vec![Value::moved(b, out[0], x.bound, 0.0, x.whole)?];
                if both {
                    made.push(Value::moved(b, out[1], with.bound, with.error, with.whole)?);
                }
                Some(made)
            }
            BodyOp::Scatter => self.scatter(b, scope),
        }
    }

    /// The largest element along a dimension, and the first place where it is.
    fn argmax(&mut self, b: &mut Builder<'_>, scope: &[Value]) -> Option<Vec<Value>> {
        let x = self.pick(scope, |v| v.is_exact() && v.rank() > 0 && (v.is_int() || v.is_float()))?;
        let d = self.numbers.below(x.rank()) as i64;
        let at = b.iota(Type::tensor(x.dims.iter().copied(), ElementType::I32), d).ok()?;
        let least = self.like(b, scope, x.elem, &[])?;
        let zero = b.scalar(ElementType::I32, 0.0).ok()?;
        let out = b
            .reduce(&[x.id, at], &[least.id, zero], &[d], |b, args| {
                let &[v, i, w, j] = args else { unreachable!("two of each") };
                let larger = b.compare(Direction::Gt, v, w)?;
                let equal = b.compare(Direction::Eq, v, w)?;
                let first = b.compare(Direction::Lt, i, j)?;
                let tie = b.and(equal, first)?;
                let keep = b.or(larger, tie)?;
                Ok([b.select(larger, v, w)?, b.select(keep, i, j)?])
            })
            .ok()?;
        let largest = Value::moved(b, out[0], x.bound.max(least.bound), least.error, x.whole && least.whole)?;
        // A start that is not certain decides nothing for sure.
        let place = Value::moved(b, out[1], 1e4, 0.0, true)?;
        least.is_exact().then(|| vec![largest, place])
    }

    /// Rows of updates combined into rows of `x`.
    fn scatter(&mut self, b: &mut Builder<'_>, scope: &[Value]) -> Option<Vec<Value>> {
        let x = self.pick(scope, |v| v.rank() > 0 && v.dims[0] > 0)?;
        let rows = self.extent();
        let update = self.like(b, scope, x.elem, &[&[rows], &x.dims[1..]].concat())?;
        let replaces = self.numbers.below(3) == 0;
        let n = x.dims[0];
        // Of two that replace one row, which comes last is not said.
        let items: Vec<i64> = match replaces {
            true if rows > n + 2 => return None,
            true => self.shuffled((n + 2).max(rows) as usize)[..rows as usize].to_vec(),
            false => (0..rows).map(|_| self.numbers.below(n as usize + 1) as i64).collect(),
        };
        let indices = b.constant(&Literal::from_i64s([rows, 1], ElementType::I32, &items)?).ok()?;
        let dims = ScatterDims {
            update_window_dims: (1..x.rank() as i64).collect(),
            inserted_window_dims: vec![0],
            scatter_dims_to_operand_dims: vec![0],
            index_vector_dim: 1,
            ..ScatterDims::default()
        };
        let f = self.combiner(&x);
        let out = b
            .scatter(&[x.id], indices, &[update.id], dims, |b, args| {
                Ok([if replaces { args[1] } else { b.apply(OpKind::Binary(f), args)? }])
            })
            .ok()?;
        let made = match replaces {
            true => {
                let (bound, error) = (x.bound.max(update.bound), x.error.max(update.error));
                Value::moved(b, out[0], bound, error, x.whole && update.whole)?
            }
            false => self.combined(b, out[0], f, (&update, &x), rows)?,
        };
        Some(vec![made])
    }
}
