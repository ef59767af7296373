//! select_and_scatter over split dimensions: every device takes all windows that touch its block, with halos.

use std::sync::Arc;

use meshwork_ir::{Attr, Combine, OpId, ValueId};

use super::window::{Slide, padding_attr, padding_pairs, shared_dims_rule};
use super::{Result, Splitter};
use crate::layout::{DimLayout, Layout};
use crate::reshard::fetch::Window;
use crate::split::strategy::Splittable;

impl Splitter<'_> {
    /// Splits a `select_and_scatter`.
    pub fn select_and_scatter(&mut self, op: OpId) -> Result<()> {
        let [operand, source, init] = self.src.op(op).operands()[..] else { return self.whole(op) };
        let result = self.src.op(op).results()[0];
        let (n, m) = (self.extents(operand), self.extents(source));
        let slides = self.pool_slides(op, n.len());
        let adds = self.src.body_of(op, 1).and_then(|b| Combine::of_body(self.src, b)) == Some(Combine::Add);
        let moving: Vec<usize> = (0..n.len()).filter(|&d| !slides[d].is_trivial()).collect();
        let rule = shared_dims_rule(&n, 2, 1, 1, moving.clone());
        let mut problem = self.problem(op, Arc::new(rule), None);
        problem.permutation = Splittable::Yes;
        // Windows must start at the same places of every block, and are inside: a window of padding selects nothing.
        let inside = |s: &Slide| adds && s.low == 0 && s.high == 0;
        problem.whole = moving.iter().copied().filter(|&d| !inside(&slides[d])).collect();
        let mut assignment = self.choose(&problem).assignment;
        for &d in &moving {
            let block = DimLayout::split(n[d], assignment[d].clone(), self.atoms).block;
            if block % slides[d].stride != 0 {
                assignment[d].clear();
            }
        }
        let layout = problem.layout(&problem.rule.results[0], &n, &assignment, self.atoms);
        let source_layout = problem.layout(&problem.rule.operands[1], &m, &assignment, self.atoms);
        let mut image = self.get(operand, &layout)?;
        let mut parts = self.get(source, &source_layout)?;
        let start = self.get(init, &Layout::replicated(&[]))?;
        self.reason = "windows reach over the border of a shard".into();
        let elem = self.local.elem(parts);
        let zero = self.local.zeros(&[], elem);
        let mut padding = vec![];
        let mut cuts = vec![];
        for (d, slide) in slides.iter().enumerate() {
            let frame = layout.dims[d].clone();
            if slide.is_trivial() || !frame.is_split() {
                padding.push((slide.low, slide.high));
                continue;
            }
            // The first window that touches block t begins at t*block + first; this is how many do.
            let first = (slide.stride - slide.size).div_euclid(slide.stride) * slide.stride;
            let count = (frame.block - 1 - first).div_euclid(slide.stride) + 1;
            let window = Window {
                scale: frame.block,
                offset: first,
                divisor: 1,
                // All of the block, and all of the last window.
                length: (frame.block - first).max((count - 1) * slide.stride + slide.size),
                useful: (0, n[d]),
            };
            let from = Window {
                scale: frame.block / slide.stride,
                offset: first / slide.stride,
                divisor: 1,
                length: count,
                useful: (0, m[d]),
            };
            image = self.fetch(image, d, &frame, &window);
            parts = self.fetch_filled(parts, d, &source_layout.dims[d], &from, zero);
            cuts.push((d, -first, frame.block));
            padding.push((0, 0));
        }
        let ty = self.local.module.ty(image).clone();
        let spec = self.spec_of(op).operands([image, parts, start]).results([ty]);
        let copy = self.local.push(spec.attr("padding", padding_attr(&padding)));
        self.copy_regions(op, copy)?;
        let mut value: ValueId = self.local.module.result(copy);
        for (d, at, block) in cuts {
            value = self.local.slice(value, d, at, at + block);
        }
        self.set(result, crate::reshard::moves::Form { value, layout });
        Ok(())
    }

    fn pool_slides(&self, op: OpId, rank: usize) -> Vec<Slide> {
        let data = self.src.op(op);
        let list = |name: &str| data.attr(name).and_then(Attr::as_i64s).unwrap_or_else(|| vec![1; rank]);
        let (size, stride) = (list("window_dimensions"), list("window_strides"));
        let padding = padding_pairs(data.attr("padding"), rank);
        let slide = |d: usize| Slide {
            size: size[d],
            stride: stride[d],
            dilation: 1,
            base_dilation: 1,
            low: padding[d].0,
            high: padding[d].1,
        };
        (0..rank).map(slide).collect()
    }
}
