//! The state of a lowering: which view each value of the module has, which buffers there are, what has been emitted.

use std::sync::Arc;

use meshwork_ir::hash::HashSet;
use meshwork_ir::{ElementType, Literal, Module, OpId, ValueId};

use crate::program::{BufInfo, Node};
use crate::step::{Buf, Step, View, Work};

/// A lowering in progress. Each family of ops adds its nodes through it.
pub struct Lower<'m> {
    /// The per-device module.
    pub module: &'m Module,
    /// Devices that run it at the same time.
    pub devices: usize,
    /// All buffers so far.
    pub bufs: Vec<BufInfo>,
    /// Nodes of the block being lowered.
    pub nodes: Vec<Node>,
    /// Operations left to the evaluator.
    pub fallbacks: Vec<OpId>,
    /// Buffers that stay as they are while the steps run many times: what is made of them is worth keeping.
    pub lasting: HashSet<Buf>,
    views: Vec<Option<View>>,
    /// What the views set in the blocks being lowered were before.
    shadowed: Vec<(ValueId, Option<View>)>,
}

/// The state of a lowering before it began a block.
pub(crate) struct Outer {
    nodes: Vec<Node>,
    views: usize,
}

impl<'m> Lower<'m> {
    /// Nothing lowered yet.
    pub fn new(module: &'m Module, devices: usize) -> Lower<'m> {
        let views = vec![None; module.value_slots()];
        Lower {
            module,
            devices,
            bufs: vec![],
            nodes: vec![],
            fallbacks: vec![],
            lasting: HashSet::default(),
            views,
            shadowed: vec![],
        }
    }

    /// A new buffer for a value of this type.
    pub fn buffer(&mut self, elem: ElementType, dims: &[i64]) -> Buf {
        let bytes = dims.iter().product::<i64>() as usize * elem.storage_bytes();
        self.bufs.push(BufInfo { bytes, elem, dims: dims.to_vec(), constant: None });
        Buf(self.bufs.len() as u32 - 1)
    }

    /// A new buffer that holds `literal`.
    pub fn constant(&mut self, literal: Literal) -> Buf {
        let buf = self.buffer(literal.elem(), literal.dims());
        self.bufs[buf.0 as usize].constant = Some(literal);
        buf
    }

    /// A temporary of `bytes` bytes.
    pub fn temp(&mut self, bytes: usize) -> Buf {
        self.buffer(ElementType::UI8, &[bytes as i64])
    }

    /// The layout of `value` in memory, if it has been lowered.
    pub fn view(&self, value: ValueId) -> Option<&View> {
        self.views[value.index()].as_ref()
    }

    /// Sets the layout of `value` in memory.
    pub fn set_view(&mut self, value: ValueId, view: View) {
        let before = self.views[value.index()].replace(view);
        self.shadowed.push((value, before));
    }

    /// Begins a block and returns the nodes of the outer one, for [`leave`](Lower::leave).
    pub(crate) fn enter(&mut self) -> Outer {
        Outer { nodes: std::mem::take(&mut self.nodes), views: self.shadowed.len() }
    }

    /// Ends the block and returns its nodes. They may not run, so what they put into memory is unknown outside: a value of
    /// an outer block is again where it was.
    pub(crate) fn leave(&mut self, outer: Outer) -> Vec<Node> {
        for (value, before) in self.shadowed.drain(outer.views..).rev() {
            self.views[value.index()] = before;
        }
        std::mem::replace(&mut self.nodes, outer.nodes)
    }

    /// A new dense buffer for `value`, which the caller's step will write.
    pub fn result(&mut self, value: ValueId) -> Buf {
        let (elem, dims) = self.shape(value);
        let buf = self.buffer(elem, &dims);
        self.set_view(value, View::dense(buf, elem, &dims));
        buf
    }

    /// Element type and extents of a tensor value.
    pub fn shape(&self, value: ValueId) -> (ElementType, Vec<i64>) {
        let ty = self.module.ty(value);
        (ty.elem().unwrap_or(ElementType::UI8), ty.dims().to_vec())
    }

    /// Adds a step without in-place pairs.
    pub fn step(&mut self, op: OpId, name: String, work: Arc<dyn Work>, reads: Vec<Buf>, writes: Vec<Buf>) {
        self.nodes.push(Node::Step(Step { work, reads, writes, in_place: vec![], op, name }));
    }
}
