//! Loops, branches, calls, tuples and tokens.

use super::{BuildError, Builder};
use crate::module::TypeIds;
use crate::op::{ControlOp, TokenOp};
use crate::{Attr, AttrDict, OpKind, OpSpec, Type, ValueId, Values};

impl Builder<'_> {
    /// Runs `body` on the values while `cond` returns true of them.
    pub fn while_loop<C: IntoIterator<Item = ValueId>, R: IntoIterator<Item = ValueId>>(
        &mut self,
        inits: &[ValueId],
        cond: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<C, BuildError>,
        body: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<Values, BuildError> {
        let types: TypeIds = inits.iter().map(|&v| self.module.type_id(v)).collect();
        let op = self.open_op(ControlOp::While, inits, AttrDict::new());
        self.op_with_bodies(op, |bodies| {
            bodies.add(&types, cond)?;
            bodies.add(&types, body)
        })
    }

    /// What `yes` returns if the scalar `pred` holds, else what `no` returns.
    pub fn if_else<Y: IntoIterator<Item = ValueId>, N: IntoIterator<Item = ValueId>>(
        &mut self,
        pred: ValueId,
        yes: impl FnOnce(&mut Builder<'_>) -> Result<Y, BuildError>,
        no: impl FnOnce(&mut Builder<'_>) -> Result<N, BuildError>,
    ) -> Result<Values, BuildError> {
        let op = self.open_op(ControlOp::If, &[pred], AttrDict::new());
        self.op_with_bodies(op, |bodies| {
            bodies.add(&[], |b, _| yes(b))?;
            bodies.add(&[], |b, _| no(b))
        })
    }

    /// What branch `index` of `count` returns; `branch` builds each of them. An index out of range means the last.
    pub fn case<R: IntoIterator<Item = ValueId>>(
        &mut self,
        index: ValueId,
        count: usize,
        mut branch: impl FnMut(&mut Builder<'_>, usize) -> Result<R, BuildError>,
    ) -> Result<Values, BuildError> {
        let op = self.open_op(ControlOp::Case, &[index], AttrDict::new());
        self.op_with_bodies(op, |bodies| (0..count).try_for_each(|i| bodies.add(&[], |b, _| branch(b, i))))
    }

    /// Calls function `callee`, which returns values of these types.
    pub fn call(
        &mut self,
        callee: &str,
        args: &[ValueId],
        results: impl IntoIterator<Item = Type>,
    ) -> Result<Values, BuildError> {
        let spec = OpSpec::new(OpKind::Control(ControlOp::Call)).operands(args.iter().copied()).results(results);
        self.values(spec.attr("callee", Attr::Symbol(callee.into())))
    }

    /// The values, not to be moved past each other.
    pub fn optimization_barrier(&mut self, values: &[ValueId]) -> Result<Values, BuildError> {
        self.values(OpSpec::new(OpKind::Control(ControlOp::OptimizationBarrier)).operands(values.iter().copied()))
    }

    /// The values as one tuple.
    pub fn tuple(&mut self, values: &[ValueId]) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Token(TokenOp::Tuple)).operands(values.iter().copied()))
    }

    /// Part `index` of a tuple.
    pub fn get_tuple_element(&mut self, tuple: ValueId, index: i64) -> Result<ValueId, BuildError> {
        self.value(
            OpSpec::new(OpKind::Token(TokenOp::GetTupleElement)).operands([tuple]).attr("index", Attr::i32(index)),
        )
    }

    /// A call to something outside the program, with results of these types.
    pub fn custom_call(
        &mut self,
        target: &str,
        args: &[ValueId],
        results: impl IntoIterator<Item = Type>,
    ) -> Result<Values, BuildError> {
        let spec = OpSpec::new(OpKind::Control(ControlOp::CustomCall)).operands(args.iter().copied()).results(results);
        self.values(spec.attr("call_target_name", Attr::str(target)))
    }

    /// A new token.
    pub fn create_token(&mut self) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Token(TokenOp::CreateToken)))
    }

    /// A token that comes after all these.
    pub fn after_all(&mut self, tokens: &[ValueId]) -> Result<ValueId, BuildError> {
        self.value(OpSpec::new(OpKind::Token(TokenOp::AfterAll)).operands(tokens.iter().copied()))
    }
}
