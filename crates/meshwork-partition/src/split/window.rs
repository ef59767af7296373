//! Sliding windows: reduce_window and convolution over split dimensions, with halos; cumulative reductions.

use std::sync::Arc;

use meshwork_ir::attr::{ConvDims, OpShardingRule};
use meshwork_ir::op::{BinaryOp, BodyOp};
use meshwork_ir::{Attr, Combine, Dense, Direction, ElementType, Literal, OpId, OpKind, ValueId};

use super::{Result, Splitter};
use crate::layout::{DimLayout, Layout};
use crate::reshard::fetch::Window;
use crate::split::strategy::{Choice, Problem, Splittable};

/// A window along one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slide {
    /// Taps.
    pub size: i64,
    /// Step between windows.
    pub stride: i64,
    /// Step between taps.
    pub dilation: i64,
    /// Step between elements of the operand.
    pub base_dilation: i64,
    /// Padding in front, negative to cut.
    pub low: i64,
    /// Padding behind, negative to cut.
    pub high: i64,
}

impl Slide {
    /// Whether every window is one element at its own place.
    pub fn is_trivial(&self) -> bool {
        (self.size, self.stride, self.base_dilation, self.low, self.high) == (1, 1, 1, 0, 0)
    }

    /// Elements from the first to the last tap.
    pub fn span(&self) -> i64 {
        (self.size - 1) * self.dilation + 1
    }
}

/// A rule with one factor per dimension that all tensors of full rank share.
pub fn shared_dims_rule(
    sizes: &[i64],
    operands: usize,
    scalars: usize,
    results: usize,
    permuted: Vec<usize>,
) -> OpShardingRule {
    let full: Vec<Vec<usize>> = (0..sizes.len()).map(|d| vec![d]).collect();
    let mut all = vec![full.clone(); operands];
    all.extend(vec![vec![]; scalars]);
    OpShardingRule {
        factor_sizes: sizes.to_vec(),
        operands: all,
        results: vec![full; results],
        permutation: permuted,
        ..OpShardingRule::default()
    }
}

/// Pairs of a `[[low, high], ...]` attribute; zeros if it is absent.
pub fn padding_pairs(attr: Option<&Attr>, count: usize) -> Vec<(i64, i64)> {
    let flat = attr.and_then(Attr::as_i64s).unwrap_or_else(|| vec![0; 2 * count]);
    flat.chunks_exact(2).map(|p| (p[0], p[1])).collect()
}

/// The attribute of `pairs`.
pub fn padding_attr(pairs: &[(i64, i64)]) -> Attr {
    let bytes = pairs.iter().flat_map(|&(l, h)| [l, h]).flat_map(i64::to_le_bytes).collect();
    let literal = Literal::from_bytes([pairs.len() as i64, 2], ElementType::I64, bytes);
    Attr::Dense(Arc::new(Dense::from_literal(&literal.unwrap_or_else(|| Literal::zeros([0, 2], ElementType::I64)))))
}

impl Splitter<'_> {
    /// The part of the operand that the windows of this shard's block of `target` cover, with `fill` outside the
    /// operand. The local windows then need no padding.
    #[allow(clippy::too_many_arguments)] // the numbers of one window
    pub fn slide_over(
        &mut self,
        value: ValueId,
        dim: usize,
        frame: &DimLayout,
        n: i64,
        target: &DimLayout,
        slide: &Slide,
        fill: ValueId,
    ) -> ValueId {
        let window = Window {
            scale: target.block * slide.stride,
            offset: frame.offset - target.offset * slide.stride - slide.low,
            divisor: 1,
            length: if target.block == 0 { 0 } else { (target.block - 1) * slide.stride + slide.span() },
            useful: (frame.offset, frame.offset + n),
        };
        self.fetch_filled(value, dim, frame, &window, fill)
    }

    /// The window of `value` with `fill` at the positions that are not useful.
    pub fn fetch_filled(
        &mut self,
        value: ValueId,
        dim: usize,
        frame: &DimLayout,
        window: &Window,
        fill: ValueId,
    ) -> ValueId {
        let fetched = self.fetch(value, dim, frame, window);
        // Mask by position: the windows of the border shards hang over the ends.
        let (lo, hi) = window.useful;
        let parts = self.atoms.product(&frame.atoms);
        if window.length == 0 || (window.start(0) >= lo && window.start(parts - 1) + window.length <= hi) {
            return fetched;
        }
        let line = DimLayout { atoms: frame.atoms.clone(), block: window.length, offset: 0 };
        let start = self.local.shard_offset(&frame.atoms, window.scale, window.offset);
        let mask = self.position_mask_from(start, &line, lo, hi);
        self.local.mask_dim(fetched, dim, mask, fill)
    }

    /// Which of the `line.block` positions from the scalar `start` on are in `lo..hi`.
    fn position_mask_from(&mut self, start: ValueId, line: &DimLayout, lo: i64, hi: i64) -> ValueId {
        let e = &mut self.local;
        let dims = [line.block];
        let iota = e.iota(&dims, 0, e.index);
        let start = e.broadcast(start, &dims, &[]);
        let position = e.same(OpKind::Binary(BinaryOp::Add), &[iota, start]);
        let bound = |e: &mut crate::split::local::LocalBuilder<'_>, direction: Direction, at: i64| {
            let at = e.index_constant(at);
            let at = e.broadcast(at, &dims, &[]);
            e.compare(direction, position, at)
        };
        let above = bound(e, Direction::Ge, lo);
        let below = bound(e, Direction::Lt, hi);
        e.same(OpKind::Binary(BinaryOp::And), &[above, below])
    }

    /// Splits a `reduce_window`.
    pub fn reduce_window(&mut self, op: OpId) -> Result<()> {
        let results = self.src.op(op).results().to_vec();
        let inputs = self.src.op(op).operands().len() / 2;
        let operand = self.src.op(op).operands()[0];
        let (n, out) = (self.extents(operand), self.extents(results[0]));
        let slides = self.slides(op, n.len());
        if let Some(dim) = self.cumulative_dim(op, &slides, &n) {
            return self.cumulative(op, dim, &slides[dim]);
        }
        let permuted = (0..n.len()).filter(|&d| !slides[d].is_trivial()).collect();
        let rule = shared_dims_rule(&out, inputs, inputs, results.len(), permuted);
        let mut problem = self.problem(op, Arc::new(rule), None);
        problem.permutation = Splittable::Yes;
        problem.whole = (0..n.len()).filter(|&d| slides[d].base_dilation != 1).collect();
        let assignment = self.choose(&problem).assignment;
        let result_layout = problem.layout(&problem.rule.results[0], &out, &assignment, self.atoms);
        let result_layout = match results[..] {
            [result] => self.frame_of_windows(result, &result_layout, |_| true),
            _ => result_layout,
        };
        self.reason = "windows reach over the border of a shard".into();
        let mut locals = vec![];
        for i in 0..inputs {
            let (v, init) = (problem.operands[i], problem.operands[inputs + i]);
            let fill = self.get(init, &Layout::replicated(&[]))?;
            let layout = problem.layout(&problem.rule.operands[i], &n, &assignment, self.atoms);
            let layout = self.keep_frames(v, &layout, |_| true);
            let mut value = self.get(v, &layout)?;
            for d in 0..n.len() {
                if result_layout.dims[d].is_split() {
                    value = self.slide_over(value, d, &layout.dims[d], n[d], &result_layout.dims[d], &slides[d], fill);
                }
            }
            locals.push(value);
        }
        for i in 0..inputs {
            locals.push(self.get(problem.operands[inputs + i], &Layout::replicated(&[]))?);
        }
        let padding: Vec<(i64, i64)> = (0..n.len())
            .map(|d| if result_layout.dims[d].is_split() { (0, 0) } else { (slides[d].low, slides[d].high) })
            .collect();
        let mut types = vec![];
        for &r in &results {
            types.push(self.local_type(r, &result_layout)?);
        }
        let spec = self.spec_of(op).operands(locals).results(types).attr("padding", padding_attr(&padding));
        let copy = self.local.push(spec);
        self.copy_regions(op, copy)?;
        self.register(op, copy, vec![result_layout; results.len()]);
        Ok(())
    }

    /// `layout` with the frames that `v` already has in the dimensions that windows slide over, where the atoms are the same.
    fn keep_frames(&mut self, v: ValueId, layout: &Layout, slides: impl Fn(usize) -> bool) -> Layout {
        let current = self.current(v);
        let mut out = layout.clone();
        for (d, (have, want)) in current.dims.iter().zip(&mut out.dims).enumerate() {
            if slides(d) && have.atoms == want.atoms {
                *want = have.clone();
            }
        }
        out
    }

    pub(super) fn slides(&self, op: OpId, rank: usize) -> Vec<Slide> {
        let data = self.src.op(op);
        let list = |name: &str, default: i64| data.i64s(name).unwrap_or_else(|| vec![default; rank]);
        let (size, stride) = (list("window_dimensions", 1), list("window_strides", 1));
        let (dilation, base) = (list("window_dilations", 1), list("base_dilations", 1));
        let padding = padding_pairs(data.attr("padding"), rank);
        (0..rank)
            .map(|d| Slide {
                size: size[d],
                stride: stride[d],
                dilation: dilation[d],
                base_dilation: base[d],
                low: padding[d].0,
                high: padding[d].1,
            })
            .collect()
    }

    /// The dimension along which `op` is a running sum (or product, maximum, ...) that is split where it is wanted.
    fn cumulative_dim(&mut self, op: OpId, slides: &[Slide], n: &[i64]) -> Option<usize> {
        let body = self.src.body_of(op, 0)?;
        let combine = Combine::of_body(self.src, body)?;
        if !self.is_identity(*self.src.op(op).operands().get(1)?, combine) {
            return None;
        }
        let moving: Vec<usize> = (0..n.len()).filter(|&d| !slides[d].is_trivial()).collect();
        let [d] = moving[..] else { return None };
        let s = &slides[d];
        let running = (s.size, s.stride, s.dilation, s.base_dilation) == (n[d], 1, 1, 1)
            && ((s.low, s.high) == (n[d] - 1, 0) || (s.low, s.high) == (0, n[d] - 1));
        let result = self.src.op(op).results()[0];
        (running && n[d] > 1 && self.want(result).dims[d].is_split()).then_some(d)
    }

    /// A running reduction: each shard runs over its own block, then adds what all shards before it amount to.
    fn cumulative(&mut self, op: OpId, dim: usize, slide: &Slide) -> Result<()> {
        let (operand, init, result) =
            (self.src.op(op).operands()[0], self.src.op(op).operands()[1], self.src.op(op).results()[0]);
        let n = self.extents(operand);
        let layout = self.want(result);
        let frame = layout.dims[dim].clone();
        let combine = self.src.body_of(op, 0).and_then(|b| Combine::of_body(self.src, b)).unwrap_or(Combine::Add);
        let fill = self.get(init, &Layout::replicated(&[]))?;
        let mut value = self.get(operand, &layout)?;
        if let Some(mask) = self.local.element_mask(&frame, n[dim]) {
            value = self.local.mask_dim(value, dim, mask, fill);
        }
        let forward = slide.low > 0;
        let mut windows = vec![1; n.len()];
        windows[dim] = frame.block;
        let mut padding = vec![(0, 0); n.len()];
        padding[dim] = if forward { (frame.block - 1, 0) } else { (0, frame.block - 1) };
        let ty = self.local.module.ty(value).clone();
        let spec = self
            .spec_of(op)
            .operands([value, fill])
            .results([ty.clone()])
            .attr("window_dimensions", Attr::i64s(windows))
            .attr("padding", padding_attr(&padding));
        let local = self.local.push(spec);
        self.copy_regions(op, local)?;
        let running = self.local.module.result(local);
        self.reason = "a running reduction needs the totals of the shards before".into();
        let last = if forward { frame.block - 1 } else { 0 };
        let total = self.local.slice(running, dim, last, last + 1);
        let form = crate::reshard::moves::Form {
            value: total,
            layout: {
                let mut l = layout.clone();
                l.dims[dim].block = 1;
                l
            },
        };
        let parts = self.atoms.product(&frame.atoms);
        let mut extents = n.clone();
        extents[dim] = parts;
        let all = self.all_gather(form, &extents, dim, frame.atoms.len()).value;
        // Keep the totals of the shards before this one (behind it when running backwards) and reduce them.
        let me = self.local.shard_index(&frame.atoms);
        let dims = [parts];
        let iota = self.local.iota(&dims, 0, self.local.index);
        let me = self.local.broadcast(me, &dims, &[]);
        let mask = self.local.compare(if forward { Direction::Lt } else { Direction::Gt }, iota, me);
        let all = self.local.mask_dim(all, dim, mask, fill);
        let mut kept = self.local.dims(all);
        kept.remove(dim);
        let elem = self.local.elem(all);
        let spec = meshwork_ir::OpSpec::new(BodyOp::Reduce)
            .operands([all, fill])
            .results([meshwork_ir::Type::tensor(kept.iter().copied(), elem)])
            .attr("dimensions", Attr::i64s([dim as i64]));
        let before = self.local.push(spec);
        self.copy_regions(op, before)?;
        let before = self.local.module.result(before);
        let local_dims = self.local.dims(running);
        let along: Vec<i64> = (0..n.len() as i64).filter(|&d| d != dim as i64).collect();
        let before = self.local.broadcast(before, &local_dims, &along);
        let value = self.local.op(combine.op(), &[before, running], ty, &[]);
        self.set(result, crate::reshard::moves::Form { value, layout });
        Ok(())
    }

    /// Splits a convolution: batch, features and, with halos, spatial dimensions.
    pub fn convolution(&mut self, op: OpId) -> Result<()> {
        let [lhs, rhs] = self.src.op(op).operands()[..] else { return self.whole(op) };
        let result = self.src.op(op).results()[0];
        let Some(Attr::Conv(dims)) = self.src.op(op).attr("dimension_numbers").cloned() else { return self.whole(op) };
        let (n, k, out) = (self.extents(lhs), self.extents(rhs), self.extents(result));
        let slides = self.conv_slides(op, &dims, &k);
        let groups = self.src.op(op).int("feature_group_count").unwrap_or(1);
        let batch_groups = self.src.op(op).int("batch_group_count").unwrap_or(1);
        let summed = self.summed_spatial(op, &dims, &k, &out);
        let rule = conv_rule(&dims, &k, &out, groups, batch_groups, &summed);
        // Taps of a split kernel must be whole: a tap of padding would still multiply elements.
        let mut even: Vec<usize> = (0..slides.len()).filter(|&i| summed[i]).map(|i| 4 + i).collect();
        if groups > 1 || batch_groups > 1 {
            even.push(3);
        }
        let problem = Problem {
            operands: vec![lhs, rhs],
            results: vec![result],
            rule: Arc::new(rule),
            combine: Some(Combine::Add),
            permutation: Splittable::Yes,
            even,
            whole: vec![],
            work: self.work(op),
        };
        let Choice { assignment, weighed } = self.choose(&problem);
        self.reason = format!("its operands are not placed as it needs them{weighed}").into();
        let layout = problem.layout(&problem.rule.results[0], &out, &assignment, self.atoms);
        let layout = self.frame_of_windows(result, &layout, |d| dims.output_spatial.contains(&(d as i64)));
        let lhs_layout = problem.layout(&problem.rule.operands[0], &n, &assignment, self.atoms);
        let lhs_layout = self.keep_frames(lhs, &lhs_layout, |d| dims.input_spatial.contains(&(d as i64)));
        let rhs_layout = problem.layout(&problem.rule.operands[1], &k, &assignment, self.atoms);
        let mut image = self.get(lhs, &lhs_layout)?;
        let mut kernel = self.get(rhs, &rhs_layout)?;
        let feature = |d: i64| move |x: usize| x as i64 == d;
        image = self.mask_dims(image, lhs, &lhs_layout, feature(dims.input_feature), Combine::Add);
        kernel = self.mask_dims(kernel, rhs, &rhs_layout, feature(dims.kernel_input_feature), Combine::Add);
        self.reason = "the kernel reaches over the border of a shard".into();
        let elem = self.local.elem(image);
        let zero = self.local.zeros(&[], elem);
        let mut padding = vec![];
        let mut base_dilation = vec![];
        for (i, slide) in slides.iter().enumerate() {
            let (d, o) = (dims.input_spatial[i] as usize, dims.output_spatial[i] as usize);
            if !lhs_layout.dims[d].is_split() {
                padding.push((slide.low, slide.high));
                base_dilation.push(slide.base_dilation);
                continue;
            }
            let mut frame = lhs_layout.dims[d].clone();
            let mut extent = n[d];
            if slide.base_dilation > 1 {
                // Spread the elements first: then the window slides over an ordinary line.
                extent = (n[d] - 1).max(0) * slide.base_dilation + i64::from(n[d] > 0);
                let target = DimLayout::split(extent, frame.atoms.clone(), self.atoms);
                image = self.spread_dim(image, d, &frame, &target, (n[d], extent, slide.base_dilation), zero);
                frame = target;
            }
            image = if summed[i] {
                // This shard's taps, at every place of the result.
                let taps = rhs_layout.dims[dims.kernel_spatial[i] as usize].block;
                let window = Window {
                    scale: taps * slide.dilation,
                    offset: frame.offset - slide.low,
                    divisor: 1,
                    length: (out[o] - 1) * slide.stride + (taps - 1) * slide.dilation + 1,
                    useful: (frame.offset, frame.offset + extent),
                };
                self.fetch_filled(image, d, &frame, &window, zero)
            } else {
                self.slide_over(image, d, &frame, extent, &layout.dims[o], slide, zero)
            };
            padding.push((0, 0));
            base_dilation.push(1);
        }
        let ty = self.local_type(result, &layout)?;
        let mut spec = self
            .spec_of(op)
            .operands([image, kernel])
            .results([ty])
            .attr("padding", padding_attr(&padding))
            .attr("lhs_dilation", Attr::i64s(base_dilation));
        let parts = |f: usize| self.atoms.product(&assignment[f]);
        if groups > 1 {
            spec = spec.attr("feature_group_count", Attr::i64(groups / parts(3)));
        }
        if batch_groups > 1 {
            spec = spec.attr("batch_group_count", Attr::i64(batch_groups / parts(3)));
        }
        let copy = self.local.push(spec);
        self.reason = format!("each device has a part of the sum{weighed}").into();
        let partial = problem.partial(&assignment);
        self.register(op, copy, vec![layout.with_partial(partial, Combine::Add)]);
        Ok(())
    }

    /// Spatial dimensions along which the kernel is longer than the result, as in the gradient by a kernel: there the
    /// sum over taps is split rather than the result.
    fn summed_spatial(&self, op: OpId, dims: &ConvDims, kernel: &[i64], out: &[i64]) -> Vec<bool> {
        let reversal = self.src.op(op).bools("window_reversal", dims.input_spatial.len());
        let reversed = |i: usize| reversal.as_ref().is_none_or(|list| list[i]);
        let longer = |i: usize| {
            let o = out[dims.output_spatial[i] as usize];
            o > 0 && kernel[dims.kernel_spatial[i] as usize] > o && !reversed(i)
        };
        (0..dims.input_spatial.len()).map(longer).collect()
    }

    fn conv_slides(&self, op: OpId, dims: &ConvDims, kernel: &[i64]) -> Vec<Slide> {
        let data = self.src.op(op);
        let count = dims.input_spatial.len();
        let list = |name: &str| data.i64s(name).unwrap_or_else(|| vec![1; count]);
        let (stride, base, dilation) = (list("window_strides"), list("lhs_dilation"), list("rhs_dilation"));
        let padding = padding_pairs(data.attr("padding"), count);
        (0..count)
            .map(|i| Slide {
                size: kernel[dims.kernel_spatial[i] as usize],
                stride: stride[i],
                dilation: dilation[i],
                base_dilation: base[i],
                low: padding[i].0,
                high: padding[i].1,
            })
            .collect()
    }
}

/// Factors of a convolution: 0 batch, 1 output feature, 2 input feature, 3 groups, then one per spatial dimension.
///
/// With groups, batch and features are left to the group factor, which must divide: groups are whole on a device.
/// A spatial factor is shared by the input and the result or, where `summed`, by the input and the kernel.
fn conv_rule(
    dims: &ConvDims,
    kernel: &[i64],
    out: &[i64],
    groups: i64,
    batch_groups: i64,
    summed: &[bool],
) -> OpShardingRule {
    let rank = out.len();
    let unused = 4 + dims.input_spatial.len();
    let (mut lhs, mut rhs, mut res) = (vec![vec![unused]; rank], vec![vec![unused]; rank], vec![vec![unused]; rank]);
    let mut rule = OpShardingRule { factor_sizes: vec![1; unused + 1], ..OpShardingRule::default() };
    let grouped = groups > 1 || batch_groups > 1;
    let put = |tensor: &mut Vec<Vec<usize>>, d: i64, f: usize| tensor[d as usize] = vec![f];
    rule.factor_sizes[0] = out[dims.output_batch as usize];
    rule.factor_sizes[1] = out[dims.output_feature as usize];
    rule.factor_sizes[3] = groups.max(batch_groups);
    if batch_groups == 1 {
        put(&mut lhs, dims.input_batch, 0);
        put(&mut res, dims.output_batch, 0);
    }
    if grouped {
        // Whole groups per device: the group factor comes first in each dimension it divides.
        if groups > 1 {
            put(&mut lhs, dims.input_feature, 3);
        } else {
            put(&mut lhs, dims.input_batch, 3);
        }
        put(&mut rhs, dims.kernel_output_feature, 3);
        put(&mut res, dims.output_feature, 3);
    } else {
        put(&mut lhs, dims.input_feature, 2);
        put(&mut rhs, dims.kernel_input_feature, 2);
        put(&mut rhs, dims.kernel_output_feature, 1);
        put(&mut res, dims.output_feature, 1);
        rule.reduction = vec![2];
    }
    for i in 0..dims.input_spatial.len() {
        put(&mut lhs, dims.input_spatial[i], 4 + i);
        if summed[i] {
            put(&mut rhs, dims.kernel_spatial[i], 4 + i);
            rule.factor_sizes[4 + i] = kernel[dims.kernel_spatial[i] as usize];
            rule.reduction.push(4 + i);
        } else {
            put(&mut res, dims.output_spatial[i], 4 + i);
            rule.factor_sizes[4 + i] = out[dims.output_spatial[i] as usize];
            rule.permutation.push(4 + i);
        }
    }
    rule.need_replication.push(unused);
    (rule.operands, rule.results) = (vec![lhs, rhs], vec![res]);
    rule
}
