//! Operations with a shape as operand, made those that have it as attribute.

use meshwork_ir::op::{BinaryOp, BodyOp, ChloOp, ContractOp, ControlOp, DynamicOp, MovementOp, SourceOp};
use meshwork_ir::{
    Attr, BlockId, Dense, ElementType, Literal, Module, Op, OpId, OpKind, OpSpec, Type, ValueId, ValueMap,
};

use super::{EvalError, Refiner};

impl Refiner {
    /// Replaces `op` by an operation without shapes among its operands, if they are known.
    pub(super) fn make_static(&mut self, op: OpId) -> Result<Option<OpId>, EvalError> {
        let data = self.module.op(op);
        let spec = match data.kind() {
            OpKind::Dynamic(DynamicOp::Slice) if self.operand(data, 1).is_none() => return Ok(self.moving_slice(op)),
            OpKind::Dynamic(kind) => self.dynamic(data, kind),
            OpKind::Control(ControlOp::CustomCall) => match data.call_target() {
                Some("stablehlo.dynamic_reduce_window") => return Ok(self.reduce_window(op)),
                Some("stablehlo.dynamic_top_k") => self.top_k(data),
                Some("stablehlo.dynamic_rng_bit_generator") => self.random_bits(data),
                Some(target) => self.call(data, target == "stablehlo.dynamic_approx_top_k"),
                None => None,
            },
            _ => None,
        };
        Ok(spec.map(|spec| self.replace(op, spec)))
    }

    /// Puts an operation in the place of another.
    fn replace(&mut self, op: OpId, spec: OpSpec) -> OpId {
        let data = self.module.op(op);
        let (loc, pos) = (data.loc.clone(), data.pos);
        let new = self.module.push_before(op, OpSpec { loc, pos, ..spec });
        let results = self.module.op(new).results().to_vec();
        self.module.replace_op(op, &results);
        new
    }

    /// An operation of this kind with the attributes of `op`, on the first `operands` of it.
    fn like(&self, op: &Op, kind: impl Into<OpKind>, operands: usize) -> OpSpec {
        let mut spec = OpSpec::new(kind).operands(op.operands()[..operands].iter().copied());
        spec.attrs = op.attrs.clone();
        spec.results(op.results().iter().map(|&v| self.module.ty(v).clone()))
    }

    fn operand(&self, op: &Op, i: usize) -> Option<Vec<i64>> {
        self.ints(*op.operands().get(i)?)
    }

    fn dynamic(&self, op: &Op, kind: DynamicOp) -> Option<OpSpec> {
        let shaped = |spec: OpSpec, dims: Vec<i64>| {
            let elem = self.module.ty(*op.results().first()?).elem()?;
            Some(spec.results([Type::tensor(dims, elem)]))
        };
        match kind {
            DynamicOp::BroadcastInDim => {
                let mut spec = self.like(op, MovementOp::BroadcastInDim, 1);
                spec.attrs.remove("known_expanding_dimensions");
                spec.attrs.remove("known_nonexpanding_dimensions");
                shaped(spec, self.operand(op, 1)?)
            }
            DynamicOp::Iota => shaped(self.like(op, SourceOp::Iota, 0), self.operand(op, 0)?),
            DynamicOp::Reshape => shaped(self.like(op, MovementOp::Reshape, 1), self.operand(op, 1)?),
            DynamicOp::Pad => {
                let spec = self.like(op, MovementOp::Pad, 2);
                let spec = spec.attr("edge_padding_low", Attr::i64s(self.operand(op, 2)?));
                let spec = spec.attr("edge_padding_high", Attr::i64s(self.operand(op, 3)?));
                Some(spec.attr("interior_padding", Attr::i64s(self.operand(op, 4)?)))
            }
            DynamicOp::Slice => {
                let spec = self.like(op, MovementOp::Slice, 1);
                let spec = spec.attr("start_indices", Attr::i64s(self.operand(op, 1)?));
                let spec = spec.attr("limit_indices", Attr::i64s(self.operand(op, 2)?));
                Some(spec.attr("strides", Attr::i64s(self.operand(op, 3)?)))
            }
            DynamicOp::Gather => {
                let sizes = Attr::i64s(self.operand(op, 2)?);
                Some(self.like(op, MovementOp::Gather, 2).attr("slice_sizes", sizes))
            }
            DynamicOp::Conv => {
                let padding = pairs(self.operand(op, 2)?)?;
                Some(self.like(op, ContractOp::Convolution, 2).attr("padding", padding))
            }
        }
    }

    /// A slice of known extents at a place that is not known: it ends at its start plus the extents.
    fn moving_slice(&mut self, op: OpId) -> Option<OpId> {
        let data = self.module.op(op);
        let &[x, starts, limits, _] = data.operands() else { return None };
        let end = self.module.op(self.module.def_op(limits)?);
        let sizes = match *end.operands() {
            [a, b] if end.kind() == BinaryOp::Add && a == starts => self.ints(b)?,
            [a, b] if end.kind() == BinaryOp::Add && b == starts => self.ints(a)?,
            _ => return None,
        };
        if self.operand(data, 3)?.iter().any(|&stride| stride != 1) {
            return None;
        }
        let elem = self.module.ty(x).elem()?;
        let index = self.module.ty(starts).elem()?;
        let mut operands = vec![x];
        for d in 0..sizes.len() as i64 {
            let one = OpSpec::new(MovementOp::Slice)
                .operands([starts])
                .results([Type::tensor([1], index)])
                .attr("start_indices", Attr::i64s([d]))
                .attr("limit_indices", Attr::i64s([d + 1]))
                .attr("strides", Attr::i64s([1]));
            let one = self.module.push_before(op, one);
            let scalar = OpSpec::new(MovementOp::Reshape).operands([self.module.result(one)]);
            let scalar = self.module.push_before(op, scalar.results([Type::tensor([], index)]));
            operands.push(self.module.result(scalar));
        }
        let spec =
            OpSpec::new(MovementOp::DynamicSlice).operands(operands).attr("slice_sizes", Attr::i64s(sizes.clone()));
        Some(self.replace(op, spec.results([Type::tensor(sizes, elem)])))
    }

    fn top_k(&self, op: &Op) -> Option<OpSpec> {
        let &k = self.operand(op, 1)?.first()?;
        let results = op.results().iter().map(|&v| self.module.ty(v).clone());
        let k = Attr::i64(k);
        Some(OpSpec::new(ChloOp::TopK).operands([op.operands()[0]]).results(results).attr("k", k))
    }

    fn random_bits(&self, op: &Op) -> Option<OpSpec> {
        let (dims, &[state, bits]) = (self.operand(op, 1)?, op.results()) else { return None };
        let types = [self.module.ty(state).clone(), Type::tensor(dims, self.module.ty(bits).elem()?)];
        let algorithm = op.attr("rng_algorithm")?.clone();
        let spec = OpSpec::new(SourceOp::RngBitGenerator).operands([op.operands()[0]]).results(types);
        Some(spec.attr("rng_algorithm", algorithm))
    }

    /// A custom call whose last operands are the shapes of its results; of an approximate top-k, the number before them
    /// becomes an entry of its configuration.
    fn call(&self, op: &Op, has_k: bool) -> Option<OpSpec> {
        let places = op.i64s("indices_of_shape_operands")?;
        let shapes = places.iter().map(|&i| self.operand(op, usize::try_from(i).ok()?));
        let shapes: Vec<Vec<i64>> = shapes.collect::<Option<_>>()?;
        if shapes.len() != op.results().len() {
            return None;
        }
        let mut kept: Vec<usize> = (0..op.operands().len()).filter(|&i| !places.contains(&(i as i64))).collect();
        let mut spec = OpSpec::new(ControlOp::CustomCall);
        spec.attrs = op.attrs.clone();
        spec.attrs.remove("indices_of_shape_operands");
        if has_k {
            let &k = self.operand(op, kept.pop()?)?.first()?;
            let Some(Attr::Dict(config)) = op.attr("mhlo.backend_config") else { return None };
            let mut config = (**config).clone();
            config.set("top_k", Attr::i64(k));
            let config = Attr::Dict(config.into());
            spec = spec.attr("mhlo.backend_config", config).attr("call_target_name", Attr::str("ApproxTopK"));
        }
        if let Some(layouts) = op.attr("operand_layouts").and_then(Attr::as_array) {
            let kept = kept.iter().filter_map(|&i| layouts.get(i).cloned());
            spec = spec.attr("operand_layouts", Attr::Array(kept.collect::<Vec<_>>().into()));
        }
        let types =
            op.results().iter().zip(shapes).map(|(&v, dims)| Some(Type::tensor(dims, self.module.ty(v).elem()?)));
        Some(spec.operands(kept.into_iter().map(|i| op.operands()[i])).results(types.collect::<Option<Vec<_>>>()?))
    }

    /// The windows are the last five operands, the computation a function.
    fn reduce_window(&mut self, op: OpId) -> Option<OpId> {
        let data = self.module.op(op);
        let count = data.operands().len().checked_sub(5)?;
        let windows = |i: usize| self.operand(data, count + i).map(Attr::i64s);
        let callee = data.attr("called_computations").and_then(Attr::as_array).and_then(|a| a.first()?.as_symbol())?;
        let from = self.module.body_of(self.module.func(callee)?, 0)?;
        let mut spec = OpSpec::new(BodyOp::ReduceWindow)
            .operands(data.operands()[..count].iter().copied())
            .results(data.results().iter().map(|&v| self.module.ty(v).clone()))
            .attr("window_dimensions", windows(0)?)
            .attr("window_strides", windows(1)?)
            .attr("base_dilations", windows(2)?)
            .attr("window_dilations", windows(3)?)
            .attr("padding", pairs(self.operand(data, count + 4)?)?);
        if let Some(sharding) = data.attr("sdy.sharding") {
            spec = spec.attr("sdy.sharding", sharding.clone());
        }
        let new = self.replace(op, spec);
        copy_body(&mut self.module, from, new);
        Some(new)
    }
}

/// A body for `op` with the operations of `from`, a function's.
fn copy_body(module: &mut Module, from: BlockId, op: OpId) {
    let args: Vec<ValueId> = module.block(from).args().to_vec();
    let types: Vec<Type> = args.iter().map(|&v| module.ty(v).clone()).collect();
    let body = module.add_body(op, types);
    let mut map: ValueMap = args.into_iter().zip(module.block(body).args().to_vec()).collect();
    let returned = module.returned(from).to_vec();
    let terminator = module.terminator(from);
    for inner in module.op_list(from).into_iter().filter(|&inner| Some(inner) != terminator) {
        let copy = module.clone_op(inner, &mut map);
        module.append(body, copy);
    }
    let returned = returned.into_iter().map(|v| *map.get(&v).unwrap_or(&v));
    module.push(body, OpSpec::new(ControlOp::HloReturn).operands(returned));
}

/// Pairs of numbers as an attribute of two columns.
fn pairs(flat: Vec<i64>) -> Option<Attr> {
    let bytes = flat.iter().flat_map(|n| n.to_le_bytes()).collect();
    let literal = Literal::from_bytes([flat.len() as i64 / 2, 2], ElementType::I64, bytes)?;
    Some(Attr::Dense(Dense::from_literal(&literal).into()))
}
