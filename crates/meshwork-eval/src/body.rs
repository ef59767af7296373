//! Bodies of reductions, sorts, scatters and maps, called once per element.

use std::collections::HashMap;

use super::fault::Fault;
use super::machine::Machine;
use super::scalar::{ScalarOp, apply};
use meshwork_ir::op::SourceOp;
use meshwork_ir::{Attr, BlockId, ElementType, Literal, OpId, OpKind, Scalar, ValueId};

/// A region that takes and returns scalars.
pub(crate) struct Body {
    op: OpId,
    block: BlockId,
    args: Vec<ElementType>,
    /// The region, if all it does is elementwise operations on scalars; else it runs as a block.
    scalars: Option<Scalars>,
}

/// Elementwise operations on scalars, decoded once.
struct Scalars {
    /// The arguments, constants, values from outside and results.
    values: Vec<Scalar>,
    /// Each operation with the places of its operands and of its result.
    ops: Vec<(ScalarOp, Vec<usize>, usize)>,
    results: Vec<usize>,
}

impl Body {
    /// Region `region` of `op`.
    pub(crate) fn new(m: &Machine<'_>, op: OpId, region: usize) -> Result<Body, Fault> {
        let missing = || Fault::invalid(format!("region {region} is missing or empty"));
        let block = m.module.body_of(op, region).ok_or_else(missing)?;
        let elem = |&arg: &ValueId| {
            let ty = m.module.ty(arg);
            ty.elem().ok_or_else(|| Fault::invalid(format!("body argument of type {ty}")))
        };
        let args = m.module.block(block).args().iter().map(elem).collect::<Result<_, _>>()?;
        Ok(Body { op, block, args, scalars: Scalars::new(m, block) })
    }

    /// Calls the body; `out` has one place per result.
    pub(crate) fn call(&mut self, m: &mut Machine<'_>, args: &[Scalar], out: &mut [Scalar]) -> Result<(), Fault> {
        if let Some(scalars) = &mut self.scalars {
            scalars.call(args, out);
            return Ok(());
        }
        let args = args.iter().zip(&self.args).map(|(&v, &elem)| m.hold(Literal::scalar(elem, v))).collect();
        let results = m.run_block(self.block, args, self.op)?;
        for (o, r) in out.iter_mut().zip(&results) {
            *o = r.tensor()?.get(0);
        }
        Ok(())
    }

    /// `acc = body(acc, x)`, one value per operand.
    pub(crate) fn fold(&mut self, m: &mut Machine<'_>, acc: &mut [Scalar], x: &[Scalar]) -> Result<(), Fault> {
        let args = [acc, x].concat();
        self.call(m, &args, acc)
    }
}

impl Scalars {
    fn new(m: &Machine<'_>, block: BlockId) -> Option<Scalars> {
        let module = m.module;
        let mut places: HashMap<ValueId, usize> = HashMap::new();
        let mut values = vec![];
        let mut add = |places: &mut HashMap<ValueId, usize>, id: ValueId, value: Scalar| {
            places.insert(id, values.len());
            values.push(value);
            values.len() - 1
        };
        let is_scalar = |v: ValueId| module.ty(v).as_tensor().is_some_and(|ty| ty.rank() == 0);
        for &arg in module.block(block).args().iter().filter(|&&arg| is_scalar(arg)) {
            add(&mut places, arg, Scalar::Bool(false));
        }
        if places.len() != module.block(block).args().len() {
            return None;
        }
        let mut ops = vec![];
        for id in module.ops_in(block) {
            let op = module.op(id);
            let mut operands = vec![];
            for &v in op.operands() {
                operands.push(match places.get(&v) {
                    Some(&place) => place,
                    None => add(&mut places, v, m.scalar(v)?),
                });
            }
            match op.kind() {
                kind if kind.is_terminator() => return Some(Scalars { values, ops, results: operands }),
                OpKind::Source(SourceOp::Constant) if is_scalar(*op.results().first()?) => {
                    let Attr::Dense(dense) = op.attr("value")? else { return None };
                    add(&mut places, op.results()[0], dense.to_literal()?.get(0));
                }
                kind if kind.is_elementwise() => {
                    let decoded = ScalarOp::decode(module, id).ok()?;
                    let result = add(&mut places, op.results()[0], Scalar::Bool(false));
                    ops.push((decoded, operands, result));
                }
                _ => return None,
            }
        }
        None
    }

    fn call(&mut self, args: &[Scalar], out: &mut [Scalar]) {
        self.values[..args.len()].copy_from_slice(args);
        for (op, operands, result) in &self.ops {
            let mut given = [Scalar::Bool(false); 3];
            given.iter_mut().zip(operands).for_each(|(g, &place)| *g = self.values[place]);
            self.values[*result] = apply(op, &given[..operands.len()]);
        }
        out.iter_mut().zip(&self.results).for_each(|(o, &place)| *o = self.values[place]);
    }
}
