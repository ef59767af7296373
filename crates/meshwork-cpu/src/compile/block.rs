//! Blocks of the module to blocks of nodes: one arm per kind of op.

use std::sync::Arc;

use meshwork_eval::EvalError;
use meshwork_ir::DeviceGrid;
use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, CheckOp, ChloOp, ControlOp, MovementOp, SdyOp, SourceOp, TokenOp, UnaryOp};
use meshwork_ir::{Attr, BlockId, Module, OpId, OpKind, Type, ValueId, Walk};

use super::carries;
use super::lower::Lower;
use super::strips::Strips;
use super::views::view_of;
use super::{LoadError, Span, collective, ids, trips};
use crate::fuse::{self, is_fusible, is_renaming};
use crate::memory::place::ALIGN;
use crate::program::{Block, Case, Node, Program, While};
use crate::step::{Buf, View};
use crate::{exec, library, turns};

/// Compiles `func` of a prepared module.
pub(crate) fn program(
    module: &Arc<Module>,
    func: OpId,
    (grid, span): (DeviceGrid, Span),
    strips: HashMap<OpId, Strips>,
) -> Result<Program, LoadError> {
    let Some(body) = module.body_of(func, 0) else {
        return Err(LoadError::unsupported(module, func, "a function without a body"));
    };
    let mut c = Compiler {
        cx: Lower::new(module, grid.len()),
        grid,
        span,
        fuse: fuse::State::default(),
        strips: Arc::new(strips),
    };
    let args = module.block(body).args().to_vec();
    if let Some(&arg) = args.iter().find(|&&a| module.ty(a).as_tensor().is_none()) {
        return Err(LoadError::unsupported(module, func, format!("an argument of type {}", module.ty(arg))));
    }
    let donated = (0..args.len()).map(|i| is_donated(module, func, i)).collect();
    let main = c.block(body)?;
    let Lower { bufs, fallbacks, .. } = c.cx;
    Ok(Program { module: module.clone(), bufs, main, donated, fallbacks })
}

fn is_donated(module: &Module, func: OpId, arg: usize) -> bool {
    ["tf.aliasing_output", "jax.buffer_donor"].iter().any(|name| module.arg_attr(func, arg, name).is_some())
}

pub(crate) struct Compiler<'m> {
    pub cx: Lower<'m>,
    pub grid: DeviceGrid,
    pub span: Span,
    pub fuse: fuse::State,
    /// Groups that run strip by strip, by the operation that stands for each.
    pub strips: Arc<HashMap<OpId, Strips>>,
}

impl Compiler<'_> {
    /// Compiles all of `block`: new buffers for its arguments, dense ones for what it returns.
    fn block(&mut self, block: BlockId) -> Result<Block, LoadError> {
        let module = self.cx.module;
        let outer = self.cx.enter();
        let args = module.block(block).args().iter().map(|&a| self.argument(a)).collect();
        self.enter(block);
        for op in module.ops_in(block) {
            self.op(op)?;
        }
        let returned = self.returned(block)?;
        let results = returned.into_iter().map(|v| self.dense(v)).collect::<Result<_, _>>()?;
        Ok(Block { args, nodes: self.cx.leave(outer), results })
    }

    /// A buffer for a block argument; a token takes no memory.
    fn argument(&mut self, value: ValueId) -> Buf {
        match self.cx.module.ty(value).as_tensor() {
            Some(_) => self.cx.result(value),
            None => self.token(value),
        }
    }

    fn token(&mut self, value: ValueId) -> Buf {
        let buf = self.cx.temp(0);
        self.cx.set_view(value, View::dense(buf, meshwork_ir::ElementType::UI8, &[0]));
        buf
    }

    /// What `block` returns, tuples flattened; the entry function leaves tokens out.
    fn returned(&self, block: BlockId) -> Result<Vec<ValueId>, LoadError> {
        let module = self.cx.module;
        let is_entry =
            module.block_parent_op(block).is_some_and(|op| module.op(op).kind() == OpKind::Control(ControlOp::Func));
        let mut out = vec![];
        let mut work: Vec<ValueId> = module.returned(block).iter().rev().copied().collect();
        while let Some(value) = work.pop() {
            match module.ty(value) {
                Type::Tuple(_) => {
                    let op = module.def_op(value).filter(|&op| module.op(op).kind() == OpKind::Token(TokenOp::Tuple));
                    let Some(op) = op else {
                        let at = module.terminator(block).or(module.block_parent_op(block));
                        let what = "a tuple that is not made here";
                        return Err(match at {
                            Some(at) => LoadError::unsupported(module, at, what),
                            None => LoadError::Unsupported { op: "block".into(), what: what.into() },
                        });
                    };
                    work.extend(module.op(op).operands().iter().rev());
                }
                Type::Token if is_entry => {}
                _ => out.push(value),
            }
        }
        Ok(out)
    }

    /// A dense buffer that holds `value` and nothing else.
    pub(crate) fn dense(&mut self, value: ValueId) -> Result<Buf, LoadError> {
        let view = self.view(value)?;
        let whole = self.cx.bufs[view.buf.0 as usize].bytes == view.len() * view.elem.storage_bytes();
        if view.is_dense() && whole {
            return Ok(view.buf);
        }
        let buf = self.cx.buffer(view.elem, &view.dims);
        let to = View::dense(buf, view.elem, &view.dims);
        if let Some(op) = self.owner(value) {
            library::copy::copy(&mut self.cx, op, &view, &to);
        }
        self.cx.set_view(value, to);
        Ok(buf)
    }

    /// Makes `value` one run of bytes, row-major, in whatever buffer. Messages to other processes are of whole buffers.
    fn packed(&mut self, value: ValueId) -> Result<(), LoadError> {
        let mut view = self.view(value)?;
        let is_aligned = view.offset % ALIGN as i64 == 0;
        view.offset = 0;
        if view.is_empty() || !view.is_dense() || !is_aligned || self.span == Span::Processes {
            self.dense(value)?;
        }
        Ok(())
    }

    /// The location of `value`.
    pub(crate) fn view(&mut self, value: ValueId) -> Result<View, LoadError> {
        self.force(value)?;
        let missing = || LoadError::Invalid { op: "value".into(), message: "value has no buffer".into() };
        self.cx.view(value).cloned().ok_or_else(missing)
    }

    /// The op that makes `value`, or whose region's argument it is.
    fn owner(&self, value: ValueId) -> Option<OpId> {
        match self.cx.module.value(value).def() {
            meshwork_ir::Def::Arg(block, _) => self.cx.module.block_parent_op(block),
            meshwork_ir::Def::Result(op, _) => Some(op),
        }
    }

    pub(super) fn op(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        let data = module.op(op);
        let kind = data.kind();
        if matches!(kind, OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter)) {
            for &v in data.operands().iter().skip(1).filter(|_| !is_fusible(module, op)) {
                self.view(v)?;
            }
            self.finish_slices(op)?;
        }
        if is_fusible(module, op) {
            // What only renames elements in memory is done at once.
            let in_memory = data.operands().first().is_some_and(|&v| self.cx.view(v).is_some());
            return if is_renaming(kind) && in_memory { self.rename(op) } else { self.postpone(op) };
        }
        if let Some(strips) = self.strips.clone().get(&op) {
            return self.strips(op, strips);
        }
        let outside = || Err(LoadError::unsupported(module, op, "this operation"));
        match kind {
            OpKind::Unary(UnaryOp::Real | UnaryOp::Imag) => self.rename(op),
            // Of an element type that kernels do not have, or with an attribute they do not know.
            OpKind::Mixed(_) if library::dot::is_left_out(module, op) => Ok(()),
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => self.opaque(op),
            OpKind::Source(source) => match source {
                SourceOp::Constant => self.constant(op),
                SourceOp::PartitionId | SourceOp::ReplicaId => {
                    ids::lower(&mut self.cx, op);
                    Ok(())
                }
                SourceOp::Iota | SourceOp::Rng | SourceOp::RngBitGenerator => self.opaque(op),
            },
            OpKind::Movement(movement) => match movement {
                MovementOp::Slice
                | MovementOp::Reverse
                | MovementOp::Transpose
                | MovementOp::BroadcastInDim
                | MovementOp::Broadcast
                | MovementOp::Reshape
                | MovementOp::BitcastConvert => self.rename(op),
                MovementOp::Concatenate
                | MovementOp::DynamicSlice
                | MovementOp::DynamicUpdateSlice
                | MovementOp::Gather
                | MovementOp::GetDimensionSize
                | MovementOp::Pad
                | MovementOp::SetDimensionSize
                | MovementOp::TorchIndexSelect => self.opaque(op),
            },
            OpKind::Body(BodyOp::Reduce) if fuse::reduce_kind(module, op).is_some() => self.reduce_in_stages(op),
            // The library decides what it has a kernel for.
            OpKind::Body(_) | OpKind::Contract(_) | OpKind::Linalg(_) | OpKind::Dynamic(_) => self.opaque(op),
            OpKind::Control(control) => match control {
                ControlOp::FuncReturn | ControlOp::HloReturn => Ok(()),
                ControlOp::While => self.while_loop(op),
                ControlOp::Case | ControlOp::If => self.branch(op),
                ControlOp::AsyncStart | ControlOp::AsyncDone => outside(),
                ControlOp::Module
                | ControlOp::Func
                | ControlOp::Call
                | ControlOp::Composite
                | ControlOp::CustomCall
                | ControlOp::OptimizationBarrier => self.opaque(op),
            },
            OpKind::Token(token) => match token {
                TokenOp::Tuple => Ok(()),
                TokenOp::AfterAll | TokenOp::CreateToken => {
                    self.token(data.results()[0]);
                    Ok(())
                }
                TokenOp::GetTupleElement | TokenOp::Infeed | TokenOp::Outfeed | TokenOp::Recv | TokenOp::Send => {
                    outside()
                }
            },
            OpKind::Collective(_) => {
                for &v in data.operands() {
                    self.packed(v)?;
                }
                collective::lower(&mut self.cx, op, self.grid)
            }
            OpKind::Chlo(ChloOp::Constant) => self.constant(op),
            OpKind::Chlo(_) => self.opaque(op),
            OpKind::Sdy(sdy) => match sdy {
                SdyOp::Return => Ok(()),
                SdyOp::Constant => self.constant(op),
                // Placing and splitting take these away.
                SdyOp::ManualComputation
                | SdyOp::AllGather
                | SdyOp::AllReduce
                | SdyOp::AllSlice
                | SdyOp::AllToAll
                | SdyOp::CollectivePermute
                | SdyOp::ReduceScatter
                | SdyOp::ReplicatedToUnreduced
                | SdyOp::ShardedToUnreduced => outside(),
                SdyOp::DataFlowEdge
                | SdyOp::FuncDataFlowEdge
                | SdyOp::Mesh
                | SdyOp::NamedComputation
                | SdyOp::PropagationBarrier
                | SdyOp::Reshard
                | SdyOp::ShardingConstraint
                | SdyOp::ShardingGroup => self.opaque(op),
            },
            OpKind::Check(check) => match check {
                CheckOp::Print | CheckOp::Probe | CheckOp::RunParallel | CheckOp::ExpectSerializedEq => outside(),
                CheckOp::ExpectAlmostEq
                | CheckOp::ExpectAlmostEqConst
                | CheckOp::ExpectClose
                | CheckOp::ExpectEq
                | CheckOp::ExpectEqConst => self.opaque(op),
            },
            OpKind::Unregistered => outside(),
        }
    }

    /// A constant; one number for all elements takes the room of one.
    fn constant(&mut self, op: OpId) -> Result<(), LoadError> {
        let data = self.cx.module.op(op);
        let Some(Attr::Dense(dense)) = data.attr("value") else {
            return Err(LoadError::invalid(self.cx.module, op, "attribute 'value' is not a dense constant"));
        };
        let (elem, dims) = (dense.ty.elem, dense.ty.dims.to_vec());
        let missing = || LoadError::invalid(self.cx.module, op, "the elements of the constant are not in the file");
        let view = match dense.splat_bytes() {
            Some(bytes) if dense.ty.num_elements() != Some(0) => {
                let scalar = meshwork_ir::Literal::from_bytes([], elem, bytes.to_vec()).ok_or_else(missing)?;
                let buf = self.cx.constant(scalar);
                View { buf, elem, strides: vec![0; dims.len()], dims, offset: 0 }
            }
            _ => {
                let literal = dense.to_literal().ok_or_else(missing)?;
                let buf = self.cx.constant(literal);
                View::dense(buf, elem, &dims)
            }
        };
        self.cx.set_view(data.results()[0], view);
        Ok(())
    }

    /// An op that only renames elements, or else copies them.
    pub(crate) fn rename(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        let (operand, result) = (module.op(op).operands()[0], module.op(op).results()[0]);
        let from = self.view(operand)?;
        if let Some(to) = view_of(module, op, &from) {
            self.cx.set_view(result, to);
            return Ok(());
        }
        let is_whole = |v: ValueId| module.ty(v).elem().is_some_and(meshwork_ir::ElementType::is_complex);
        let joins = module.op(op).kind() == OpKind::Movement(MovementOp::BitcastConvert)
            && is_whole(result)
            && !is_whole(operand);
        if joins || module.op(op).kind() == OpKind::Movement(MovementOp::Reshape) {
            let buf = self.dense(operand)?;
            let (elem, dims) = self.cx.shape(result);
            self.cx.set_view(result, View::dense(buf, elem, &dims));
            return Ok(());
        }
        self.opaque(op)
    }

    /// An op of the library, or else one for the evaluator.
    pub(crate) fn opaque(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        let mut operands = module.op(op).operands().to_vec();
        operands.extend(captured(module, op));
        for v in operands.into_iter().filter(|&v| module.ty(v).as_tensor().is_some()) {
            if self.cx.view(v).is_none()
                && let Some(source) = library::dot::converted(module, op, v)
            {
                self.view(source)?;
                if library::dot::unconverted(&self.cx, op, v).is_some() {
                    continue;
                }
            }
            self.view(v)?;
        }
        if is_renaming(module.op(op).kind()) {
            let from = self.view(module.op(op).operands()[0])?;
            if let Some(to) = view_of(module, op, &from) {
                self.cx.set_view(module.op(op).results()[0], to);
                return Ok(());
            }
        }
        let wrong = |message: String| LoadError::Invalid { op: module.describe(op), message };
        if library::lower(&mut self.cx, op).map_err(wrong)? {
            return Ok(());
        }
        for &v in module.op(op).operands().iter().filter(|&&v| module.ty(v).as_tensor().is_some()) {
            if let Some(def) = module.def_op(v).filter(|&def| library::dot::is_left_out(module, def)) {
                self.opaque(def)?;
            }
            self.view(v)?;
        }
        exec::fallback::lower(&mut self.cx, op).map_err(|e| match e {
            EvalError::Unsupported { op, what } => LoadError::Unsupported { op: op.to_string(), what },
            other => wrong(other.to_string()),
        })?;
        for &token in module.op(op).results().iter().filter(|&&r| module.ty(r).as_tensor().is_none()) {
            self.token(token);
        }
        Ok(())
    }

    fn while_loop(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        for v in captured(module, op) {
            self.view(v)?;
        }
        let missing = |i| LoadError::invalid(module, op, format!("region {i} is missing"));
        let cond = module.body_of(op, 0).ok_or_else(|| missing(0))?;
        let body = module.body_of(op, 1).ok_or_else(|| missing(1))?;
        for &v in module.op(op).operands().iter().filter(|&&v| module.ty(v).as_tensor().is_some()) {
            self.view(v)?;
        }
        if turns::lower(&mut self.cx, op) {
            return Ok(());
        }
        let kept: Vec<bool> = (0..module.op(op).operands().len()).map(|i| !carries::is_idle(module, op, i)).collect();
        let init = module.op(op).operands().iter().zip(&kept).filter(|&(_, &kept)| kept).map(|(&v, _)| self.dense(v));
        let init = init.collect::<Result<Vec<_>, _>>()?;
        let (mut cond, mut body) = (self.block(cond)?, self.block(body)?);
        for list in [&mut cond.args, &mut body.args, &mut body.results] {
            let mut kept = kept.iter();
            list.retain(|_| kept.next() == Some(&true));
        }
        let trips = trips::trip_count(module, op);
        let results = module.op(op).results().iter().zip(&kept).filter(|&(_, &kept)| kept).map(|(&r, _)| r);
        for (result, &carry) in results.zip(&body.args) {
            let (elem, dims) = self.cx.shape(result);
            let dims = if module.ty(result).as_tensor().is_some() { dims } else { vec![0] };
            self.cx.set_view(result, View::dense(carry, elem, &dims));
        }
        self.cx.nodes.push(Node::While(While { init, cond, body, trips, op }));
        Ok(())
    }

    fn branch(&mut self, op: OpId) -> Result<(), LoadError> {
        let module = self.cx.module;
        for v in captured(module, op) {
            self.view(v)?;
        }
        let index = self.dense(module.op(op).operands()[0])?;
        let missing = || LoadError::invalid(module, op, "a region is empty");
        let mut branches = vec![];
        for i in 0..module.op(op).regions().len() {
            let body = module.body_of(op, i).ok_or_else(missing)?;
            branches.push(self.block(body)?);
        }
        let results = module.op(op).results().iter().map(|&r| self.argument(r)).collect();
        self.cx.nodes.push(Node::Case(Case { index, branches, results, op }));
        Ok(())
    }
}

/// Values from outside that the regions of `op` use.
pub(crate) fn captured(module: &Module, op: OpId) -> Vec<ValueId> {
    let mut out: Vec<ValueId> = vec![];
    if module.op(op).regions().is_empty() {
        return out;
    }
    for inner in module.ops_below(op, Walk::PreOrder).into_iter().skip(1) {
        for &v in module.op(inner).operands() {
            let outside = match module.value(v).def() {
                meshwork_ir::Def::Result(def, _) => !module.is_inside(def, op),
                meshwork_ir::Def::Arg(block, _) => {
                    module.block_parent_op(block).is_none_or(|owner| owner != op && !module.is_inside(owner, op))
                }
            };
            if outside && !out.contains(&v) {
                out.push(v);
            }
        }
    }
    out
}
