//! Collectives over axes: the sharding that comes out is the one that goes in, changed as the operation says.

use std::borrow::Cow;

use meshwork_mesh::verify::AxisUse;
use meshwork_mesh::{AxisRef, Mesh, Reduction, Sharding, axis_list};

use super::{Check, Context, Unreduced, fits, placement, shard_error, sharding_attr};
use crate::attr::AllToAllParam;
use crate::op::SdyOp;
use crate::{Attr, Def, Diagnostic, OpId, OpKind};

/// The parts that all collectives have.
struct Collective<'c, 'm> {
    cx: &'c Context<'m>,
    op: OpId,
    from: Cow<'c, Sharding>,
    to: &'c Sharding,
    mesh: &'c Mesh,
}

/// Checks a collective of the `sdy` dialect.
pub(super) fn check(cx: &Context, op: OpId) -> Check {
    let module = cx.module;
    let kind = module.op(op).kind();
    let operand = module.op(op).operands()[0];
    let known = placement(module, operand);
    let may_miss = matches!(kind, OpKind::Sdy(SdyOp::AllSlice | SdyOp::AllReduce | SdyOp::ReduceScatter));
    if known.is_none() && !may_miss {
        return Err(cx.error(op, "has an operand without sharding, so there is nothing to change"));
    }
    let to = sharding_attr(cx, op, "out_sharding")?;
    fits(cx, to, module.ty(operand)).map_err(|e| shard_error(cx, op, &e))?;
    let mesh = to.resolve_mesh(|name| cx.meshes.get(name).copied()).map_err(|e| cx.error(op, e))?;
    let from =
        known.unwrap_or_else(|| Cow::Owned(Sharding::fully_open(&to.mesh, module.ty(operand).rank().unwrap_or(0))));
    let from_mesh = from.resolve_mesh(|name| cx.meshes.get(name).copied()).map_err(|e| cx.error(op, e))?.clone();
    let operand_pos = match module.value(operand).def() {
        Def::Result(def, _) => cx.pos(def),
        Def::Arg(block, _) => module.block_parent_op(block).map_or_else(Default::default, |p| cx.pos(p)),
    };
    if kind != OpKind::Sdy(SdyOp::CollectivePermute) && from_mesh != *mesh {
        let mut e = cx.error(
            op,
            format_args!("changes the mesh from {from_mesh} to {mesh}, which only sdy.collective_permute can"),
        );
        e.notes.push((operand_pos, format!("operand mesh: {from_mesh}")));
        return Err(e);
    }
    if from.dims.len() != to.dims.len() {
        let detail =
            format!("has an operand sharding of rank {} and out_sharding of rank {}", from.dims.len(), to.dims.len());
        return Err(cx.error(op, detail));
    }
    let c = Collective { cx, op, from, to, mesh };
    match kind {
        OpKind::Sdy(SdyOp::AllGather) => c.per_dim("gathering_axes", Collective::gathered),
        OpKind::Sdy(SdyOp::AllSlice) => c.per_dim("slicing_axes", Collective::sliced),
        OpKind::Sdy(SdyOp::ReduceScatter) => {
            let change = Unreduced { add: None, remove: Some(c.reduction()) };
            change.check(cx, op, &c.from, to)?;
            c.per_dim("reduce_scatter_axes", Collective::sliced)
        }
        OpKind::Sdy(SdyOp::ShardedToUnreduced) => c.sharded_to_unreduced(),
        OpKind::Sdy(SdyOp::ReplicatedToUnreduced) => c.replicated_to_unreduced(),
        OpKind::Sdy(SdyOp::AllReduce) => c.all_reduce(),
        OpKind::Sdy(SdyOp::AllToAll) => c.all_to_all(),
        _ => c.permute(&from_mesh, operand_pos),
    }
}

impl Collective<'_, '_> {
    fn error(&self, detail: impl std::fmt::Display) -> Diagnostic {
        self.cx.error(self.op, detail)
    }

    fn reduction(&self) -> Reduction {
        match self.cx.module.op(self.op).enum_value("reduction_op").map(str::to_ascii_lowercase).as_deref() {
            Some("max") => Reduction::Max,
            Some("min") => Reduction::Min,
            _ => Reduction::Sum,
        }
    }

    fn axes_per_dim(&self, name: &str) -> Result<&[Vec<AxisRef>], Diagnostic> {
        match self.cx.module.op(self.op).attr(name) {
            Some(Attr::AxesPerDim(axes)) => Ok(axes),
            _ => Err(self.error(format_args!("needs attribute '{name}': axes per dimension"))),
        }
    }

    fn axes(&self, name: &str) -> Result<&[AxisRef], Diagnostic> {
        match self.cx.module.op(self.op).attr(name) {
            Some(Attr::Axes(axes)) => Ok(axes),
            _ => Err(self.error(format_args!("needs attribute '{name}': a list of axes"))),
        }
    }

    /// The axes of dimension `dim` without `axes`, which end them.
    fn gathered(&self, dim: usize, axes: &[AxisRef]) -> Result<Vec<AxisRef>, Diagnostic> {
        let mut rest = self.from.dims[dim].axes.clone();
        for axis in axes.iter().rev() {
            match rest.pop() {
                Some(last) if axis.suffix_of(&last, self.mesh) => rest.extend(last.prefix_without_overlap(axis)),
                _ => {
                    let detail = format!(
                        "cannot take axis {axis} off dimension {dim}, which is not sharded by it last: {}",
                        self.from
                    );
                    return Err(self.error(detail));
                }
            }
        }
        Ok(rest)
    }

    /// The axes of dimension `dim` followed by `axes`.
    fn sliced(&self, dim: usize, axes: &[AxisRef]) -> Result<Vec<AxisRef>, Diagnostic> {
        let mut all = self.from.dims[dim].axes.clone();
        axis_list::extend(&mut all, axes.iter().cloned(), self.mesh);
        Ok(all)
    }

    fn expect(&self, dim: usize, axes: &[AxisRef]) -> Check {
        if self.to.dims[dim].axes == axes {
            return Ok(());
        }
        let list: Vec<String> = axes.iter().map(AxisRef::to_string).collect();
        Err(self.error(format_args!(
            "should have axes {{{}}} on dimension {dim} of out_sharding {}",
            list.join(", "),
            self.to
        )))
    }

    fn per_dim(
        &self,
        name: &str,
        change: impl Fn(&Self, usize, &[AxisRef]) -> Result<Vec<AxisRef>, Diagnostic>,
    ) -> Check {
        let per_dim = self.axes_per_dim(name)?;
        let mut used = AxisUse::new(self.mesh);
        for axes in per_dim {
            used.list(axes).map_err(|e| self.error(e))?;
        }
        if per_dim.len() != self.to.dims.len() {
            let detail =
                format!("lists axes for {} dimensions, but out_sharding has {}", per_dim.len(), self.to.dims.len());
            return Err(self.error(detail));
        }
        for (dim, axes) in per_dim.iter().enumerate() {
            self.expect(dim, &change(self, dim, axes)?)?;
        }
        Ok(())
    }

    fn sum_only(&self) -> Check {
        match self.to.reduction {
            Reduction::Sum => Ok(()),
            other => Err(self.error(format_args!("makes axes unreduced by sum, but out_sharding says {other:?}"))),
        }
    }

    /// The unreduced axes that come out are those that go in and `more`.
    fn unreduced_are(&self, more: impl Iterator<Item = AxisRef>) -> Check {
        let mut all: Vec<AxisRef> = self.from.unreduced.iter().cloned().chain(more).collect();
        axis_list::sort_and_merge(&mut all, self.mesh);
        if all == self.to.unreduced {
            Ok(())
        } else {
            let list: Vec<String> = all.iter().map(AxisRef::to_string).collect();
            Err(self.error(format_args!(
                "should have unreduced axes {{{}}} in out_sharding {}",
                list.join(", "),
                self.to
            )))
        }
    }

    fn sharded_to_unreduced(&self) -> Check {
        self.sum_only()?;
        self.per_dim("axes", Collective::gathered)?;
        self.unreduced_are(self.axes_per_dim("axes")?.iter().flatten().cloned())
    }

    fn replicated_to_unreduced(&self) -> Check {
        self.sum_only()?;
        if self.from.dims != self.to.dims {
            return Err(
                self.error(format_args!("must keep the sharding of all dimensions: {} becomes {}", self.from, self.to))
            );
        }
        let axes = self.axes("axes")?;
        if axes.is_empty() {
            return Err(self.error("names no axes"));
        }
        AxisUse::new(self.mesh).sorted_list("given", axes).map_err(|e| self.error(e))?;
        for axis in axes {
            if self.from.dim_axes().chain(&self.from.unreduced).any(|used| used.overlaps(axis)) {
                return Err(
                    self.error(format_args!("axis {axis} is not replicated in the operand's sharding {}", self.from))
                );
            }
        }
        self.unreduced_are(axes.iter().cloned())
    }

    fn all_reduce(&self) -> Check {
        let axes_of = |s: &Sharding| s.dims.iter().map(|d| d.axes.clone()).collect::<Vec<_>>();
        let same = axes_of(&self.from) == axes_of(self.to)
            && (self.from.is_fully_replicated() || self.from.mesh == self.to.mesh);
        if !same {
            return Err(
                self.error(format_args!("must keep the sharding of all dimensions: {} becomes {}", self.from, self.to))
            );
        }
        let axes = self.axes("reduction_axes")?;
        AxisUse::new(self.mesh).sorted_list("reduction", axes).map_err(|e| self.error(e))?;
        for axis in axes {
            if self.from.dim_axes().chain(&self.from.replicated).any(|used| used.overlaps(axis)) {
                let detail = format!("reduces over axis {axis}, which shards or replicates the operand: {}", self.from);
                return Err(self.error(detail));
            }
            if self.to.unreduced.iter().any(|left| left.overlaps(axis)) {
                return Err(self.error(format_args!(
                    "reduces over axis {axis}, which out_sharding leaves unreduced: {}",
                    self.to
                )));
            }
        }
        let change = Unreduced { add: None, remove: Some(self.reduction()) };
        change.check(self.cx, self.op, &self.from, self.to)
    }

    fn all_to_all(&self) -> Check {
        let params: &[AllToAllParam] = match self.cx.module.op(self.op).attr("params") {
            Some(Attr::AllToAll(params)) => params,
            _ => &[],
        };
        if params.is_empty() {
            return Err(self.error("needs at least one parameter"));
        }
        let rank = self.to.dims.len();
        let mut used = AxisUse::new(self.mesh);
        let mut moved = vec![false; rank];
        let mut last = -1;
        for p in params {
            used.list(&p.axes).map_err(|e| self.error(e))?;
            for dim in [p.src, p.tgt] {
                let Some(seen) = usize::try_from(dim).ok().and_then(|d| moved.get_mut(d)) else {
                    return Err(self.error(format_args!("names dimension {dim} of a tensor of rank {rank}")));
                };
                if std::mem::replace(seen, true) {
                    return Err(self.error(format_args!("names dimension {dim} twice")));
                }
            }
            if p.src <= last {
                return Err(self.error(format_args!("source dimensions must ascend, but {} comes after {last}", p.src)));
            }
            last = p.src;
        }
        for p in params {
            let (src, tgt) = (p.src as usize, p.tgt as usize);
            self.expect(src, &self.gathered(src, &p.axes)?)?;
            self.expect(tgt, &self.sliced(tgt, &p.axes)?)?;
        }
        for dim in (0..rank).filter(|&d| !moved[d]) {
            self.expect(dim, &self.from.dims[dim].axes)?;
        }
        Ok(())
    }

    fn permute(&self, from_mesh: &Mesh, operand_pos: crate::TextPos) -> Check {
        let differ = |detail: String| {
            let mut e = self.error(detail);
            e.notes.push((operand_pos, format!("operand mesh: {from_mesh}")));
            e
        };
        if self.mesh.axes() != from_mesh.axes() {
            return Err(differ(format!("changes the mesh from {from_mesh} to {}, which has other axes", self.mesh)));
        }
        if self.from.mesh != self.to.mesh && self.mesh.device_ids() == from_mesh.device_ids() {
            return Err(differ("has out_sharding on another mesh with the same devices".into()));
        }
        for (dim, (a, b)) in self.from.dims.iter().zip(&self.to.dims).enumerate() {
            let (before, after) = (a.num_shards(self.mesh), b.num_shards(self.mesh));
            if before != after {
                return Err(
                    self.error(format_args!("splits dimension {dim} in {after}, but its operand is split in {before}"))
                );
            }
        }
        Ok(())
    }
}
