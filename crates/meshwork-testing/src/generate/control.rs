//! Loops, branches, calls and tuples. What is inside is a random program, too.

use meshwork_ir::build::{BuildError, Builder, Direction, FuncBuilder};
use meshwork_ir::op::{ControlOp, TokenOp};
use meshwork_ir::{ElementType, Type, ValueId};

use super::value::largest;
use super::{Maker, Value};

impl Maker {
    pub(super) fn control(
        &mut self,
        b: &mut Builder<'_>,
        scope: &[Value],
        op: ControlOp,
        depth: usize,
    ) -> Option<Vec<Value>> {
        match op {
            ControlOp::OptimizationBarrier => {
                let (x, y) = (self.any(scope)?, self.any(scope)?);
                let out = b.optimization_barrier(&[x.id, y.id]).ok()?;
                Some(vec![Value { id: out[0], ..x }, Value { id: out[1], ..y }])
            }
            ControlOp::While if depth > 0 => self.while_loop(b, scope, depth - 1),
            ControlOp::Case | ControlOp::If if depth > 0 => self.branch(b, scope, op, depth - 1),
            ControlOp::Call if depth > 0 => self.call(b, scope, depth - 1),
            _ => None,
        }
    }

    pub(super) fn token(&mut self, b: &mut Builder<'_>, scope: &[Value], op: TokenOp) -> Option<Vec<Value>> {
        if op != TokenOp::GetTupleElement {
            return None;
        }
        let (x, y) = (self.any(scope)?, self.any(scope)?);
        let tuple = b.tuple(&[x.id, y.id]).ok()?;
        let at = self.numbers.below(2);
        let id = b.get_tuple_element(tuple, at as i64).ok()?;
        Some(vec![Value { id, ..[x, y][at].clone() }])
    }

    /// Some operations of an inner block.
    fn inside(&mut self, b: &mut Builder<'_>, scope: &mut Vec<Value>, depth: usize) {
        for _ in 0..1 + self.numbers.below(5) {
            self.step(b, scope, depth);
        }
    }

    /// Branches that return values like some of `scope`: computed there, or from outside.
    fn branch(&mut self, b: &mut Builder<'_>, scope: &[Value], op: ControlOp, depth: usize) -> Option<Vec<Value>> {
        let index = match op {
            ControlOp::If => self.pick(scope, |v| v.elem == ElementType::I1 && v.dims.is_empty()),
            _ => self.pick(scope, |v| v.elem == ElementType::I32 && v.dims.is_empty()),
        };
        let elem = if op == ControlOp::If { ElementType::I1 } else { ElementType::I32 };
        let index = match index {
            Some(v) => v.id,
            None => b.scalar(elem, self.numbers.below(3) as f64).ok()?,
        };
        // Devices that take different branches may not communicate in them.
        let devices = std::mem::replace(&mut self.devices, 1);
        let kinds = self.kinds.clone();
        self.kinds.pop();
        let like: Vec<Value> = (0..1 + self.numbers.below(3)).filter_map(|_| self.any(scope)).collect();
        let mut made: Vec<Value> = vec![];
        let mut one = |m: &mut Maker, b: &mut Builder<'_>| -> Result<Vec<ValueId>, BuildError> {
            let mut inner = scope.to_vec();
            m.inside(b, &mut inner, depth);
            let mut ids = vec![];
            for (i, wanted) in like.iter().enumerate() {
                let found = m.pick(&inner, |v| v.elem == wanted.elem && v.dims == wanted.dims);
                let found = found.unwrap_or_else(|| wanted.clone());
                ids.push(found.id);
                match made.get_mut(i) {
                    None => made.push(found),
                    Some(all) => {
                        all.bound = all.bound.max(found.bound);
                        all.error = all.error.max(found.error);
                        all.whole &= found.whole;
                    }
                }
            }
            Ok(ids)
        };
        let out = match op {
            ControlOp::If => {
                let cell = std::cell::RefCell::new((self, &mut one));
                let run = |b: &mut Builder<'_>| {
                    let (m, one) = &mut *cell.borrow_mut();
                    one(m, b)
                };
                let out = b.if_else(index, run, run);
                let (m, _) = cell.into_inner();
                (m.devices, m.kinds) = (devices, kinds);
                out.ok()?
            }
            _ => {
                let count = 1 + self.numbers.below(3);
                let out = b.case(index, count, |b, _| one(self, b));
                (self.devices, self.kinds) = (devices, kinds);
                out.ok()?
            }
        };
        Some(made.into_iter().zip(out).map(|(v, id)| Value { id, ..v }).collect())
    }

    /// A loop of a few turns. A carry may grow from turn to turn, so it is exact, or held to its first size: integers wrap
    /// around, and floats are clamped.
    fn while_loop(&mut self, b: &mut Builder<'_>, scope: &[Value], depth: usize) -> Option<Vec<Value>> {
        let mut carries: Vec<Value> = (0..1 + self.numbers.below(3)).filter_map(|_| self.any(scope)).collect();
        carries.retain(|v| v.elem != ElementType::C64 && v.elem != ElementType::C128 && v.is_exact());
        let zero = b.scalar(ElementType::I32, 0.0).ok()?;
        let turns = *self.numbers.pick(&[0, 1, 2, 3, 5, 9]);
        let limit = b.scalar(ElementType::I32, turns as f64).ok()?;
        let inits: Vec<ValueId> = [zero].into_iter().chain(carries.iter().map(|v| v.id)).collect();
        // What is known of a carry in any turn.
        let known: Vec<Value> = carries
            .iter()
            .map(|v| match v.is_float() {
                true => Value { bound: v.bound.max(4.0), ..v.clone() },
                false => Value { bound: largest(v.elem), ..v.clone() },
            })
            .collect();
        let out = b
            .while_loop(
                &inits,
                |b, args| Ok([b.compare(Direction::Lt, args[0], limit)?]),
                |b, args| {
                    let mut inner = scope.to_vec();
                    inner.extend(known.iter().zip(&args[1..]).map(|(v, &id)| Value { id, ..v.clone() }));
                    inner.push(Value::argument(args[0], ElementType::I32, &[], true));
                    self.inside(b, &mut inner, depth);
                    let one = b.scalar(ElementType::I32, 1.0)?;
                    let mut next = vec![b.add(args[0], one)?];
                    for (i, v) in known.iter().enumerate() {
                        let fits =
                            |w: &Value| w.elem == v.elem && w.dims == v.dims && w.is_exact() && (w.whole || !v.whole);
                        let found = self.pick(&inner, fits);
                        let found = found.unwrap_or(Value { id: args[1 + i], ..v.clone() });
                        next.push(match found.bound > v.bound {
                            true => {
                                let (low, high) = (b.scalar(v.elem, -v.bound)?, b.scalar(v.elem, v.bound)?);
                                b.clamp(low, found.id, high)?
                            }
                            false => found.id,
                        });
                    }
                    Ok(next)
                },
            )
            .ok()?;
        Some(known.into_iter().zip(&out[1..]).map(|(v, &id)| Value { id, ..v }).collect())
    }

    /// A function of its own, called once or twice.
    fn call(&mut self, b: &mut Builder<'_>, scope: &[Value], depth: usize) -> Option<Vec<Value>> {
        let args: Vec<Value> = (0..1 + self.numbers.below(3)).filter_map(|_| self.any(scope)).collect();
        let name = format!("f{}", self.functions);
        self.functions += 1;
        let types: Vec<Type> = args.iter().map(|v| b.ty(v.id).clone()).collect();
        let mut f = FuncBuilder::new(b.module_mut(), &name, types);
        let mut inner: Vec<Value> = args.iter().enumerate().map(|(i, v)| Value { id: f.arg(i), ..v.clone() }).collect();
        self.inside(&mut f, &mut inner, depth);
        let results: Vec<Value> = inner.iter().rev().take(2).cloned().collect();
        let types: Vec<Type> = results.iter().map(|v| f.ty(v.id).clone()).collect();
        f.finish(results.iter().map(|v| v.id)).ok()?;
        let ids: Vec<ValueId> = args.iter().map(|v| v.id).collect();
        let out = b.call(&name, &ids, types.clone()).ok()?;
        let mut made: Vec<Value> = results.iter().zip(&out).map(|(v, &id)| Value { id, ..v.clone() }).collect();
        if self.numbers.below(2) == 0 {
            let again = b.call(&name, &ids, types).ok()?;
            made.extend(results.into_iter().zip(again).map(|(v, id)| Value { id, ..v }));
        }
        Some(made)
    }
}
