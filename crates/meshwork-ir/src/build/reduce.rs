//! Operations whose body combines elements.

use super::attrs::pairs;
use super::{BuildError, Builder, OpenOp, Place};
use crate::infer::infer_results;
use crate::module::TypeId;
use crate::op::BodyOp;
use crate::{Attr, OpId, OpKind, OpSpec, ValueId, Values};

/// A sliding window. Empty lists mean ones and zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Size per dimension.
    pub sizes: Vec<i64>,
    /// Step per dimension.
    pub strides: Vec<i64>,
    /// Dilation of the operand per dimension.
    pub base_dilations: Vec<i64>,
    /// Dilation of the window per dimension.
    pub window_dilations: Vec<i64>,
    /// Low and high padding per dimension.
    pub padding: Vec<(i64, i64)>,
}

/// Whether equal elements keep their order in a sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// They keep it.
    Stable,
    /// Their order is unspecified.
    Unstable,
}

impl Window {
    fn attrs(&self, mut spec: OpSpec) -> OpSpec {
        let lists = [
            ("window_strides", &self.strides),
            ("base_dilations", &self.base_dilations),
            ("window_dilations", &self.window_dilations),
        ];
        spec = spec.attr("window_dimensions", Attr::i64s(self.sizes.iter().copied()));
        for (name, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
            spec = spec.attr(name, Attr::I64Array(list.as_slice().into()));
        }
        if self.padding.is_empty() { spec } else { spec.attr("padding", pairs(&self.padding)) }
    }
}

impl Builder<'_> {
    /// `inputs` reduced over `dims`, starting from `inits`; `combine` takes accumulators, then elements.
    pub fn reduce<R: IntoIterator<Item = ValueId>>(
        &mut self,
        inputs: &[ValueId],
        inits: &[ValueId],
        dims: &[i64],
        combine: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<Values, BuildError> {
        let args = self.scalars_of(inits.iter().chain(inputs));
        let dims = self.list("dimensions", dims);
        let op = self.open_op(BodyOp::Reduce, &[inputs, inits].concat(), dims);
        self.op_with_bodies(op, |bodies| bodies.add(&args, combine))
    }

    /// `x` reduced over `dims` by the operation `kind` of two scalars, starting from `init`.
    pub fn reduce_by(&mut self, kind: OpKind, x: ValueId, init: ValueId, dims: &[i64]) -> Result<ValueId, BuildError> {
        let scalar = self.module.type_id(init);
        if !self.is_element(init, x) {
            return Ok(self.reduce(&[x], &[init], dims, |b, args| Ok([b.apply(kind, args)?]))?[0]);
        }
        let dims = self.list("dimensions", dims);
        let op = self.emit(BodyOp::Reduce.into(), &[x, init], dims, &[])?;
        match self.combining_body(op, kind, scalar) {
            Ok(()) => Ok(self.module.result(op)),
            Err(error) => {
                self.module.erase(op);
                Err(error)
            }
        }
    }

    /// Gives `op` the body that applies `kind` to two scalars of this type and returns the result.
    fn combining_body(&mut self, op: OpId, kind: OpKind, scalar: TypeId) -> Result<(), BuildError> {
        let open = OpenOp(op);
        let block = self.add_body(&open, &[scalar, scalar]);
        let args = [0, 1].map(|i| self.module.block(block).args[i]);
        let outer = std::mem::replace(&mut self.place, Place::End(block));
        let combined = self.apply(kind, &args);
        self.place = outer;
        let combined = combined?;
        self.end_body(&open, block, [combined]);
        // If that is of the same type, the type rule has nothing to add to what it said without the body.
        if self.module.type_id(combined) == scalar {
            return Ok(());
        }
        match infer_results(self.module, op) {
            Ok(_) => Ok(()),
            Err(wrong) => Err(self.error(wrong)),
        }
    }

    /// `inputs` reduced over each position of a window; `combine` takes accumulators, then elements.
    pub fn reduce_window<R: IntoIterator<Item = ValueId>>(
        &mut self,
        inputs: &[ValueId],
        inits: &[ValueId],
        window: &Window,
        combine: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<Values, BuildError> {
        let spec =
            window.attrs(OpSpec::new(OpKind::Body(BodyOp::ReduceWindow)).operands(inputs.iter().chain(inits).copied()));
        let args = self.scalars_of(inits.iter().chain(inputs));
        let op = self.open(spec);
        self.op_with_bodies(op, |bodies| bodies.add(&args, combine))
    }

    /// Each element of `source` combined into the element of its window of `x` that `select` prefers.
    pub fn select_and_scatter<S: IntoIterator<Item = ValueId>, R: IntoIterator<Item = ValueId>>(
        &mut self,
        x: ValueId,
        source: ValueId,
        init: ValueId,
        window: &Window,
        select: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<S, BuildError>,
        scatter: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<ValueId, BuildError> {
        let spec = window.attrs(OpSpec::new(OpKind::Body(BodyOp::SelectAndScatter)).operands([x, source, init]));
        let (pair, sum) = (self.scalars_of([x, x].iter()), self.scalars_of([init, source].iter()));
        let op = self.open(spec);
        let out = self.op_with_bodies(op, |bodies| {
            bodies.add(&pair, select)?;
            bodies.add(&sum, scatter)
        })?;
        Ok(out[0])
    }

    /// `inputs` sorted together along `dim`; `less` takes two elements of each input and returns whether the first
    /// comes first.
    pub fn sort<R: IntoIterator<Item = ValueId>>(
        &mut self,
        inputs: &[ValueId],
        dim: i64,
        stability: Stability,
        less: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<Values, BuildError> {
        let spec = OpSpec::new(OpKind::Body(BodyOp::Sort))
            .operands(inputs.iter().copied())
            .attr("dimension", Attr::i64(dim))
            .attr("is_stable", Attr::Bool(stability == Stability::Stable));
        let args = self.scalars_of(inputs.iter().flat_map(|v| [v, v]));
        let op = self.open(spec);
        self.op_with_bodies(op, |bodies| bodies.add(&args, less))
    }

    /// A scalar function of each element of `inputs`, which have one shape.
    pub fn map<R: IntoIterator<Item = ValueId>>(
        &mut self,
        inputs: &[ValueId],
        apply: impl FnOnce(&mut Builder<'_>, &[ValueId]) -> Result<R, BuildError>,
    ) -> Result<ValueId, BuildError> {
        let rank = inputs.first().map_or(0, |&x| self.ty(x).dims().len());
        let spec = OpSpec::new(OpKind::Body(BodyOp::Map))
            .operands(inputs.iter().copied())
            .attr("dimensions", Attr::i64s(0..rank as i64));
        let args = self.scalars_of(inputs.iter());
        let op = self.open(spec);
        Ok(self.op_with_bodies(op, |bodies| bodies.add(&args, apply))?[0])
    }
}
