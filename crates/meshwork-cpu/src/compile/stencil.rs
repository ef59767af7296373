//! Convolutions of one channel with a small kernel as sums of shifted arrays, which fuse with what is around them.

use meshwork_ir::attr::ConvDims;
use meshwork_ir::op::{BinaryOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, ElementType, Module, OpId, OpKind, OpSpec, Type, ValueId};

/// Taps of a kernel that is still small.
const MAX_TAPS: i64 = 32;

struct Shape {
    numbers: ConvDims,
    /// Per spatial dimension.
    window: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<(i64, i64)>,
    dilation: Vec<i64>,
    out: Vec<i64>,
}

/// Replaces a convolution of one input and one output channel by products and sums of slices.
pub(crate) fn convolution(module: &mut Module, op: OpId) -> bool {
    let Some(shape) = shape_of(module, op) else { return false };
    let data = module.op(op);
    let (x, kernel, result) = (data.operands()[0], data.operands()[1], data.results()[0]);
    let (Some(from), Some(elem)) = (module.ty(x).as_tensor().cloned(), module.ty(result).elem()) else { return false };
    let mut e = Emitter { module, op };
    let n = &shape.numbers;
    let zero = e.zero(elem);
    let (mut low, mut high) = (vec![0; from.dims.len()], vec![0; from.dims.len()]);
    let mut padded = from.dims.to_vec();
    for (i, &d) in n.input_spatial.iter().enumerate() {
        (low[d as usize], high[d as usize]) = shape.padding[i];
        padded[d as usize] += shape.padding[i].0 + shape.padding[i].1;
    }
    let x = e.pad(x, zero, &low, &high);
    let mut cut = padded.clone();
    n.input_spatial.iter().zip(&shape.out).for_each(|(&d, &o)| cut[d as usize] = o);
    let cut_ty = Type::tensor(cut.clone(), elem);
    let mut sum: Option<ValueId> = None;
    let taps: i64 = shape.window.iter().product();
    for tap in 0..taps {
        let mut rest = tap;
        let mut at = vec![0; shape.window.len()];
        for i in (0..at.len()).rev() {
            at[i] = rest % shape.window[i];
            rest /= shape.window[i];
        }
        let (mut start, mut limit, mut steps) = (vec![0; padded.len()], padded.clone(), vec![1; padded.len()]);
        for (i, &d) in n.input_spatial.iter().enumerate() {
            let d = d as usize;
            start[d] = at[i] * shape.dilation[i];
            limit[d] = start[d] + (shape.out[i] - 1) * shape.stride[i] + 1;
            steps[d] = shape.stride[i];
        }
        let shifted = e.slice(x, start, limit, steps, cut_ty.clone());
        let mut place = vec![0; at.len() + 2];
        n.kernel_spatial.iter().zip(&at).for_each(|(&d, &a)| place[d as usize] = a);
        let weight = e.weight(kernel, &place, &cut_ty, elem);
        let product = e.binary(OpKind::Binary(BinaryOp::Multiply), shifted, weight, &cut_ty);
        sum = Some(match sum {
            Some(before) => e.binary(OpKind::Binary(BinaryOp::Add), before, product, &cut_ty),
            None => product,
        });
    }
    let Some(sum) = sum else { return false };
    // From the order of the input's dimensions to that of the result's.
    let mut order = vec![0; cut.len()];
    order[n.output_batch as usize] = n.input_batch;
    order[n.output_feature as usize] = n.input_feature;
    n.output_spatial.iter().zip(&n.input_spatial).for_each(|(&o, &i)| order[o as usize] = i);
    let ty = e.module.ty(result).clone();
    let turned = e.add(
        OpSpec::new(OpKind::Movement(MovementOp::Transpose)).operands([sum]).attr("permutation", Attr::i64s(order)),
        ty,
    );
    module.replace_op(op, &[turned]);
    true
}

fn shape_of(module: &Module, op: OpId) -> Option<Shape> {
    let data = module.op(op);
    let &[x, kernel] = data.operands() else { return None };
    let (xt, kt) = (module.ty(x).as_tensor()?, module.ty(kernel).as_tensor()?);
    let out = module.ty(data.results()[0]).as_tensor()?;
    let Some(Attr::Conv(n)) = data.attr("dimension_numbers") else { return None };
    let rank = n.input_spatial.len();
    let ints = |name: &str| match data.attr(name) {
        Some(a) => a.as_i64s(),
        None => Some(vec![1; rank]),
    };
    let window: Vec<i64> = n.kernel_spatial.iter().map(|&d| kt.dims[d as usize]).collect();
    let padding = match data.attr("padding") {
        Some(a) => a.as_i64s()?,
        None => vec![0; 2 * rank],
    };
    let reversed = data.bools("window_reversal", rank)?.contains(&true);
    let shape = Shape {
        window,
        stride: ints("window_strides")?,
        padding: padding.chunks_exact(2).map(|p| (p[0], p[1])).collect(),
        dilation: ints("rhs_dilation")?,
        out: n.output_spatial.iter().map(|&d| out.dims[d as usize]).collect(),
        numbers: (**n).clone(),
    };
    let one_channel = xt.dims[n.input_feature as usize] == 1
        && kt.dims[n.kernel_output_feature as usize] == 1
        && kt.dims[n.kernel_input_feature as usize] == 1
        && data.int("batch_group_count").unwrap_or(1) == 1;
    let plain = ints("lhs_dilation")?.iter().all(|&d| d == 1) && !reversed && out.num_elements()? > 0;
    let same = xt.elem == kt.elem && xt.elem == out.elem && xt.elem.is_float();
    let taps: i64 = shape.window.iter().product();
    let sizes = shape.padding.len() == rank && shape.stride.len() == rank && shape.dilation.len() == rank;
    (one_channel && plain && same && sizes && (1..=MAX_TAPS).contains(&taps)).then_some(shape)
}

/// Adds ops before `op`.
pub(super) struct Emitter<'m> {
    pub module: &'m mut Module,
    pub op: OpId,
}

impl Emitter<'_> {
    pub fn add(&mut self, spec: OpSpec, ty: Type) -> ValueId {
        let loc = self.module.op(self.op).loc.clone();
        let op = self.module.push_before(self.op, spec.results([ty]).loc(loc));
        self.module.result(op)
    }

    pub fn zero(&mut self, elem: meshwork_ir::ElementType) -> ValueId {
        let literal = meshwork_ir::Literal::zeros([], elem);
        let dense = meshwork_ir::Dense::from_literal(&literal);
        self.add(
            OpSpec::new(OpKind::Source(SourceOp::Constant)).attr("value", Attr::Dense(dense.into())),
            Type::tensor([], elem),
        )
    }

    pub fn binary(&mut self, kind: OpKind, a: ValueId, b: ValueId, ty: &Type) -> ValueId {
        self.add(OpSpec::new(kind).operands([a, b]), ty.clone())
    }

    pub fn slice(&mut self, x: ValueId, start: Vec<i64>, limit: Vec<i64>, steps: Vec<i64>, ty: Type) -> ValueId {
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Slice))
            .operands([x])
            .attr("start_indices", Attr::i64s(start))
            .attr("limit_indices", Attr::i64s(limit))
            .attr("strides", Attr::i64s(steps));
        self.add(spec, ty)
    }

    /// Element `place` of the kernel, everywhere: a constant if the kernel is one.
    fn weight(&mut self, kernel: ValueId, place: &[i64], ty: &Type, elem: meshwork_ir::ElementType) -> ValueId {
        let number = match self.constant(kernel, place) {
            Some(dense) => self.add(
                OpSpec::new(OpKind::Source(SourceOp::Constant)).attr("value", Attr::Dense(dense.into())),
                Type::tensor([], elem),
            ),
            None => {
                let limit = place.iter().map(|p| p + 1).collect();
                let one = Type::tensor(vec![1; place.len()], elem);
                let x = self.slice(kernel, place.to_vec(), limit, vec![1; place.len()], one);
                self.add(OpSpec::new(OpKind::Movement(MovementOp::Reshape)).operands([x]), Type::tensor([], elem))
            }
        };
        self.everywhere(number, ty)
    }

    /// `x` with `value` before and behind it in each dimension.
    pub fn pad(&mut self, x: ValueId, value: ValueId, low: &[i64], high: &[i64]) -> ValueId {
        let dims = self.module.ty(x).dims().iter().zip(low.iter().zip(high)).map(|(n, (l, h))| n + l + h);
        let ty = Type::tensor(dims.collect::<Vec<_>>(), self.module.ty(x).elem().unwrap_or(ElementType::F32));
        let spec = OpSpec::new(OpKind::Movement(MovementOp::Pad))
            .operands([x, value])
            .attr("edge_padding_low", Attr::i64s(low.to_vec()))
            .attr("edge_padding_high", Attr::i64s(high.to_vec()))
            .attr("interior_padding", Attr::i64s(vec![0; low.len()]));
        self.add(spec, ty)
    }

    /// A number as an array of type `ty`.
    pub fn everywhere(&mut self, number: ValueId, ty: &Type) -> ValueId {
        let none: Vec<i64> = vec![];
        let spec = OpSpec::new(OpKind::Movement(MovementOp::BroadcastInDim)).operands([number]);
        self.add(spec.attr("broadcast_dimensions", Attr::i64s(none)), ty.clone())
    }

    fn constant(&self, kernel: ValueId, place: &[i64]) -> Option<meshwork_ir::Dense> {
        let op = self.module.op(self.module.def_op(kernel)?);
        let Some(Attr::Dense(dense)) = op.attr("value") else { return None };
        let literal = dense.to_literal()?;
        let at = place.iter().zip(literal.dims()).fold(0, |at, (&p, &d)| at * d + p);
        let element = literal.element(at as usize).to_vec();
        let scalar = meshwork_ir::Literal::from_bytes([], literal.elem(), element)?;
        Some(meshwork_ir::Dense::from_literal(&scalar))
    }
}
