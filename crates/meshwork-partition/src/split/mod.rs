//! The driver: walks the global program and emits the per-device one, op by op.

mod assign;
mod cholesky;
mod constant;
mod copy;
mod dynamic;
mod elementwise;
mod fft;
pub(crate) mod flow;
mod frames;
mod gather;
mod generic;
pub(crate) mod local;
mod manual;
mod movement;
mod parts;
mod placements;
mod pool;
mod ranks;
mod reduce;
mod scatter;
mod single;
mod solve;
pub(crate) mod sort;
pub(crate) mod strategy;
mod top_k;
pub(crate) mod wide;
pub(crate) mod window;

use std::borrow::Cow;
use std::sync::Arc;

use meshwork_ir::hash::HashSet;
use meshwork_ir::op::{BodyOp, ChloOp, ContractOp, ControlOp, LinalgOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::{BlockId, Def, ElementType, FuncSig, FunctionType, Module, OpId, OpKind, OpSpec, Type, ValueId};
use meshwork_mesh::Mesh;
use meshwork_propagate::program;
use smallvec::SmallVec;

use crate::PartitionError;
use crate::algorithm::Algorithms;
use crate::collective::{Collective, Site};
use crate::layout::Layout;
use crate::layout::atoms::Atoms;
use crate::layout::meshes::{Meshes, Relation};
use crate::plan::cost::Machine;
use crate::reshard::Paths;
use crate::reshard::moves::Form;
use crate::split::local::LocalBuilder;
use crate::split::wide::{Exchange, Halos};

type Result<T> = std::result::Result<T, PartitionError>;

/// Splits one function.
pub struct Splitter<'a> {
    /// The global program.
    pub src: &'a Module,
    /// The mesh in atoms.
    pub atoms: &'a Atoms,
    /// Writes the per-device program.
    pub local: LocalBuilder<'a>,
    /// Every collective so far.
    pub collectives: Vec<Collective>,
    /// What is being split, for the plan.
    pub site: Site,
    /// The global value that was asked for last, for the plan.
    pub tensor: Option<ValueId>,
    /// Why the next collectives are needed, for the plan.
    pub reason: Cow<'static, str>,
    /// How often the code being emitted runs.
    pub times: i64,
    /// Whether some loop around has an unknown trip count.
    pub times_unknown: bool,
    /// Known ways between layouts.
    pub paths: Paths,
    /// What the program is to run on.
    pub machine: Machine,
    /// 10⁹ bytes per second over the fastest links.
    pub fastest: f64,
    /// Which algorithms for split dimensions are used.
    pub algorithms: Algorithms,
    /// When loops exchange halos.
    pub halos: Halos,
    forms: Vec<SmallVec<[Form; 1]>>,
    // Values that got a form, and the local value, in order: a region forgets what was added inside it.
    trail: Vec<(ValueId, ValueId)>,
    // Length of the trail when each open region was entered.
    marks: Vec<usize>,
    wants: Vec<Option<Layout>>,
    // Operands that stand for their parts: they have the forms they have, and no others can be made.
    held: HashSet<ValueId>,
    loops: Vec<Loop>,
    meshes: Meshes,
    // Values that differ from device to device beside how they are split; known if a device computes alone.
    device_dependent: HashSet<ValueId>,
}

/// A loop being split, and which of its arguments are values from outside that it never changes.
struct Loop {
    /// The global loop.
    src: OpId,
    /// The local loop; code that does not depend on it can go just before it.
    op: OpId,
    /// The block the loop stands in.
    at: BlockId,
    /// Argument inside, value outside.
    unchanged: Vec<(ValueId, ValueId)>,
    /// How often the code around the loop runs.
    times: (i64, bool),
    /// Length of the trail and number of open regions when the loop was entered.
    mark: (usize, usize),
}

/// The per-device function and what it was made of.
pub struct SplitFunction {
    /// The per-device program.
    pub module: Module,
    /// Its collectives, in order.
    pub collectives: Vec<Collective>,
    /// Placement of the arguments.
    pub inputs: Vec<Placed>,
    /// Placement of the results.
    pub outputs: Vec<Placed>,
    /// When loops exchange halos, and which could do it otherwise.
    pub halos: Halos,
}

/// Placement of an argument or result of the function.
pub struct Placed {
    /// Its layout.
    pub layout: Layout,
    /// The program's mesh in another device order, if it is on that.
    pub reordered: Option<Arc<Mesh>>,
}

/// Splits function `func` of `src`, in which every call is inlined and every value has its final placement. Loops exchange halos as
/// `exchange` says, where they can.
pub fn split_function(
    src: &Module,
    func: OpId,
    atoms: &Atoms,
    machine: &Machine,
    algorithms: &Algorithms,
    exchange: Exchange,
) -> Result<SplitFunction> {
    let global = src.func_type(func);
    let block = src.body_of(func, 0).ok_or_else(|| PartitionError::Invalid {
        op: src.place(func),
        what: "a function without a body cannot be partitioned".into(),
    })?;
    let mut out = Module::new();
    out.name = src.name.clone();
    let name = src.symbol_name(func).unwrap_or("main").into();
    let local_func = out.add_func(FuncSig { name, visibility: Some("public".into()), ..FuncSig::default() });
    let entry = out.body_of(local_func, 0).expect("a new function has a body");
    let mut s = Splitter {
        src,
        atoms,
        local: LocalBuilder::new(out, entry, atoms, index_type(src)),
        collectives: vec![],
        site: Site::default(),
        tensor: None,
        reason: Cow::Borrowed(""),
        times: 1,
        times_unknown: false,
        paths: Paths::default(),
        machine: machine.clone(),
        fastest: machine.links.fastest(atoms.mesh()),
        algorithms: algorithms.clone(),
        halos: Halos { exchange, ..Halos::default() },
        forms: vec![SmallVec::new(); src.value_slots()],
        trail: vec![],
        marks: vec![],
        wants: vec![None; src.value_slots()],
        held: HashSet::default(),
        loops: vec![],
        meshes: Meshes::of(src, atoms),
        device_dependent: HashSet::default(),
    };
    s.check_placements(func, block)?;
    s.find_device_dependent(block);
    let mut inputs = vec![];
    for &arg in src.block(block).args() {
        let layout = s.placed(arg);
        let ty = s.local_type(arg, &layout)?;
        let value = s.local.module.add_block_arg(entry, ty);
        let sharding = program::sharding_of(src, arg);
        let (value, reordered) = s.enter(value, sharding.as_ref(), "the argument is on other devices");
        s.set(arg, Form { value, layout: layout.clone() });
        inputs.push(Placed { layout, reordered });
    }
    s.block(block)?;
    let mut outputs = vec![];
    let mut results = vec![];
    for (i, &v) in src.returned(block).iter().enumerate() {
        let sharding = program::func_result_sharding(src, func, i);
        let layout = match sharding {
            Some(sharding) => s.layout_of_sharding(sharding, &s.extents(v), src.terminator(block).unwrap_or(func))?,
            None => s.want(v),
        };
        s.local_type(v, &layout)?;
        s.site = Site::Result(i);
        s.reason = "the function returns it in this placement".into();
        let value = s.get(v, &layout)?;
        let (value, reordered) = s.leave(value, sharding);
        results.push(value);
        outputs.push(Placed { layout, reordered });
    }
    s.check_built(func)?;
    let out = &mut s.local.module;
    out.push(entry, OpSpec::new(ControlOp::FuncReturn).operands(results.iter().copied()));
    let types = |out: &Module, values: &[ValueId]| values.iter().map(|&v| out.ty(v).clone()).collect::<Vec<Type>>();
    let ty = FunctionType { inputs: types(out, out.block(entry).args()), results: types(out, &results) };
    out.set_func_type(local_func, ty);
    debug_assert_eq!(global.inputs.len(), inputs.len());
    Ok(SplitFunction { module: s.local.module, collectives: s.collectives, inputs, outputs, halos: s.halos })
}

/// `i32` unless an extent (or a line with its padding) needs more.
pub(crate) fn index_type(src: &Module) -> ElementType {
    let widest = src.value_types().flat_map(|t| t.dims()).max();
    if widest.is_none_or(|&n| n < 1 << 30) { ElementType::I32 } else { ElementType::I64 }
}

impl<'a> Splitter<'a> {
    /// Extents of a global value.
    pub fn extents(&self, v: ValueId) -> SmallVec<[i64; 4]> {
        self.src.ty(v).dims().into()
    }

    /// Bytes of one element.
    pub fn element_bytes(&self, v: ValueId) -> f64 {
        self.src.ty(v).elem().map_or(1.0, |e| e.storage_bytes() as f64)
    }

    /// Registers a form of `v`.
    pub fn set(&mut self, v: ValueId, form: Form) {
        self.trail.push((v, form.value));
        self.forms[v.index()].push(form);
    }

    /// The layout in which `v` was produced, its parts combined; for constants, which get forms on demand, the wanted
    /// one.
    pub fn current(&mut self, v: ValueId) -> Layout {
        match self.forms[v.index()].first() {
            Some(form) => form.layout.reduced(),
            None => self.want(v),
        }
    }

    /// The form in which `v` was produced, if it has one.
    pub fn produced(&self, v: ValueId) -> Option<&Form> {
        self.forms[v.index()].first()
    }

    /// Bytes a device sends to have `v` in `layout`; those over slower links count as often as they take longer.
    pub fn cost_to(&mut self, v: ValueId, layout: &Layout) -> f64 {
        if self.is_free(v) {
            return 0.0;
        }
        let extents = self.extents(v);
        let forms: SmallVec<[Layout; 2]> = self.forms[v.index()].iter().map(|f| f.layout.clone()).collect();
        let costs = forms.iter().map(|f| self.paths.cost(f, layout, &extents, self.atoms));
        costs.fold(f64::INFINITY, f64::min) * self.element_bytes(v)
    }

    /// The local value of `v` in `layout`, made from its cheapest form if it is not there yet.
    pub fn get(&mut self, v: ValueId, layout: &Layout) -> Result<ValueId> {
        self.tensor = Some(v);
        if let Some(form) = self.forms[v.index()].iter().find(|f| f.layout == *layout) {
            return Ok(form.value);
        }
        if let Some(value) = self.free_form(v, &layout.reduced())? {
            let whole = Form { value, layout: layout.reduced() };
            let form = self.reshard(whole, layout, &self.extents(v));
            let value = form.value;
            self.set(v, form);
            return Ok(value);
        }
        if let Some(value) = self.outside_form(v, layout)? {
            self.set(v, Form { value, layout: layout.clone() });
            return Ok(value);
        }
        let extents = self.extents(v);
        let forms = self.forms[v.index()].clone();
        let mut best: Option<(f64, Form)> = None;
        for form in forms {
            let cost = self.paths.cost(&form.layout, layout, &extents, self.atoms);
            if best.as_ref().is_none_or(|b| cost < b.0) {
                best = Some((cost, form));
            }
        }
        let Some((_, form)) = best else {
            return Err(PartitionError::Invalid {
                op: self.src.def_op(v).map_or("block argument".into(), |op| self.src.place(op)),
                what: "is used before it is computed".into(),
            });
        };
        let made = self.reshard(form, layout, &extents);
        let value = made.value;
        self.set(v, made);
        Ok(value)
    }

    /// If `v` is the same in every round of a loop: its value in `layout`, made once outside the loop.
    fn outside_form(&mut self, v: ValueId, layout: &Layout) -> Result<Option<ValueId>> {
        if self.held.contains(&v) {
            return Ok(None);
        }
        let changed = |l: &Loop| match self.src.value(v).def() {
            Def::Result(op, _) => self.src.is_inside(op, l.src),
            Def::Arg(block, _) => self.src.block_parent_op(block).is_some_and(|p| self.src.is_inside(p, l.src)),
        };
        // Out of as many loops as do not compute it, or through one that hands it on.
        let depth = self.loops.iter().position(|l| !changed(l));
        let through = self.loops.iter().rposition(|l| l.unchanged.iter().any(|(inner, _)| *inner == v));
        let (depth, outer) = match (through, depth) {
            (Some(i), _) => {
                let outer = self.loops[i].unchanged.iter().find(|(inner, _)| *inner == v);
                (i, outer.map_or(v, |o| o.1))
            }
            (None, Some(i)) => (i, v),
            (None, None) => return Ok(None),
        };
        // Work in the surroundings of that loop: its place, its frequency, and none of the loops inside it.
        let inner = self.loops.split_off(depth);
        let Loop { op, at, times, mark, .. } = &inner[0];
        let here = (self.local.block, self.local.before, self.times, self.times_unknown);
        (self.local.block, self.local.before) = (*at, Some(*op));
        (self.times, self.times_unknown) = *times;
        let before = self.trail.len();
        let value = self.get(outer, layout);
        // What was made out there stays known when the loop ends.
        let added = self.trail.split_off(before);
        let shift = added.len();
        self.trail.splice(mark.0..mark.0, added);
        self.marks[mark.1..].iter_mut().for_each(|m| *m += shift);
        (self.local.block, self.local.before, self.times, self.times_unknown) = here;
        self.loops.extend(inner);
        for l in &mut self.loops[depth..] {
            l.mark.0 += shift;
        }
        value.map(Some)
    }

    /// Runs `inside` with forms of its own: what it adds is forgotten afterwards.
    pub fn scoped<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.marks.push(self.trail.len());
        let place = (self.local.block, self.local.before);
        let result = inside(self);
        (self.local.block, self.local.before) = place;
        let mark = self.marks.pop().unwrap_or(0);
        for (v, local) in self.trail.drain(mark..).rev() {
            let forms = &mut self.forms[v.index()];
            if let Some(i) = forms.iter().rposition(|f| f.value == local) {
                forms.remove(i);
            }
        }
        result
    }

    /// Splits every operation of `block` but its terminator.
    pub fn block(&mut self, block: meshwork_ir::BlockId) -> Result<()> {
        for op in self.src.op_list(block) {
            if !self.src.op(op).kind().is_terminator() {
                self.op(op)?;
                self.check_built(op)?;
            }
        }
        Ok(())
    }

    /// An error if an operation that was emitted for `op` could not be built.
    fn check_built(&self, op: OpId) -> Result<()> {
        match &self.local.failure {
            None => Ok(()),
            Some(error) => {
                let what = format!("internal error: splitting it gives an invalid operation: {error}");
                Err(PartitionError::Invalid { op: self.src.place(op), what })
            }
        }
    }

    /// Registers a fresh result. If it is partial it is brought to the layout its users expect; parts stay as they are
    /// where its placement asks for them.
    pub fn finish(&mut self, v: ValueId, form: Form) {
        let form = match &form.layout.partial {
            Some((made, combine)) => {
                self.tensor = Some(v);
                let (placed, extents) = (self.placed(v), self.extents(v));
                let kept = placed.partial.as_ref().filter(|p| p.1 == *combine);
                let kept = made.iter().copied().filter(|a| kept.is_some_and(|p| p.0.contains(a))).collect();
                let wanted = placed.reduced().with_partial(kept, *combine);
                self.reshard(form, &wanted, &extents)
            }
            None => form,
        };
        self.set(v, form);
    }

    fn op(&mut self, op: OpId) -> Result<()> {
        self.local.loc = self.src.op(op).loc.clone();
        self.local.pos = self.src.op(op).pos;
        (self.site, self.tensor) = (Site::Op(op), None);
        self.reason = "its operands are not placed as it needs them".into();
        if let Some(device) = self.alone_on(op) {
            return self.on_one_device(op, device);
        }
        if self.on_parts(op)? { Ok(()) } else { self.dispatch(op) }
    }

    /// Splits `op` in the way of its kind.
    fn dispatch(&mut self, op: OpId) -> Result<()> {
        match self.src.op(op).kind() {
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => self.elementwise(op),
            OpKind::Source(source) => match source {
                SourceOp::Constant | SourceOp::Iota => Ok(()), // made where they are used
                SourceOp::PartitionId | SourceOp::ReplicaId | SourceOp::Rng | SourceOp::RngBitGenerator => {
                    self.generic(op)
                }
            },
            OpKind::Movement(movement) => match movement {
                MovementOp::Slice => self.slice(op),
                MovementOp::Pad => self.pad(op),
                MovementOp::Concatenate => self.concatenate(op),
                MovementOp::Reverse => self.reverse(op),
                MovementOp::DynamicSlice => self.dynamic_slice(op),
                MovementOp::Gather => self.gather(op),
                MovementOp::DynamicUpdateSlice => self.update(op),
                MovementOp::BitcastConvert
                | MovementOp::Broadcast
                | MovementOp::BroadcastInDim
                | MovementOp::GetDimensionSize
                | MovementOp::Reshape
                | MovementOp::SetDimensionSize
                | MovementOp::TorchIndexSelect
                | MovementOp::Transpose => self.generic(op),
            },
            OpKind::Body(body) => match body {
                BodyOp::Scatter => self.update(op),
                BodyOp::Reduce => self.reduce(op),
                BodyOp::ReduceWindow => self.reduce_window(op),
                BodyOp::SelectAndScatter => self.select_and_scatter(op),
                BodyOp::Sort => self.sort(op),
                BodyOp::Map => self.generic(op),
            },
            OpKind::Contract(contract) => match contract {
                ContractOp::Convolution => self.convolution(op),
                ContractOp::Dot | ContractOp::DotGeneral | ContractOp::Einsum | ContractOp::UnaryEinsum => {
                    self.generic(op)
                }
            },
            OpKind::Linalg(linalg) => match linalg {
                LinalgOp::Fft => self.fft(op),
                LinalgOp::Cholesky => self.cholesky(op),
                LinalgOp::TriangularSolve => self.triangular_solve(op),
                LinalgOp::BatchNormGrad | LinalgOp::BatchNormInference | LinalgOp::BatchNormTraining => {
                    self.generic(op)
                }
            },
            OpKind::Control(control) => match control {
                ControlOp::While => self.while_loop(op),
                ControlOp::Case | ControlOp::If => self.branches(op),
                ControlOp::OptimizationBarrier => self.pass_on(op),
                ControlOp::Module
                | ControlOp::Func
                | ControlOp::Call
                | ControlOp::FuncReturn
                | ControlOp::HloReturn
                | ControlOp::AsyncDone
                | ControlOp::AsyncStart
                | ControlOp::Composite
                | ControlOp::CustomCall => self.generic(op),
            },
            OpKind::Collective(_) => self.explicit_collective(op),
            OpKind::Chlo(chlo) => match chlo {
                ChloOp::TopK => self.top_k(op),
                ChloOp::Constant | ChloOp::ConstantLike | ChloOp::RaggedDot | ChloOp::Scan => self.generic(op),
            },
            OpKind::Sdy(sdy) => match sdy {
                SdyOp::Constant => Ok(()), // made where it is used
                SdyOp::ManualComputation => self.manual_computation(op),
                SdyOp::NamedComputation => self.named_computation(op),
                SdyOp::ShardingConstraint
                | SdyOp::Reshard
                | SdyOp::AllGather
                | SdyOp::AllSlice
                | SdyOp::AllToAll
                | SdyOp::AllReduce
                | SdyOp::ReduceScatter
                | SdyOp::ReplicatedToUnreduced
                | SdyOp::ShardedToUnreduced
                | SdyOp::CollectivePermute => self.pass_on(op),
                SdyOp::DataFlowEdge
                | SdyOp::FuncDataFlowEdge
                | SdyOp::Mesh
                | SdyOp::PropagationBarrier
                | SdyOp::Return
                | SdyOp::ShardingGroup => self.generic(op),
            },
            OpKind::Dynamic(_) | OpKind::Token(_) | OpKind::Check(_) | OpKind::Unregistered => self.generic(op),
        }
    }

    /// Results are the operands, asked for in their own placement.
    fn pass_on(&mut self, op: OpId) -> Result<()> {
        let (operands, results) = (self.src.op(op).operands().to_vec(), self.src.op(op).results().to_vec());
        for (v, r) in operands.into_iter().zip(results) {
            let layout = self.placed(r);
            self.reason = "the program asks for this placement".into();
            let value = self.get(v, &layout)?;
            self.set(r, Form { value, layout });
        }
        Ok(())
    }

    /// An error that names `op`.
    pub fn unsupported<T>(&self, op: OpId, what: impl Into<String>) -> Result<T> {
        Err(PartitionError::Unsupported { op: self.src.place(op), what: what.into() })
    }
}
