//! From a function and its arguments to a program, each traced once.

use std::fmt::{Debug, Write};
use std::rc::Rc;
use std::sync::Arc;

use meshwork_autodiff::{CHECKPOINT, CUSTOM, inline_computations};
use meshwork_ir::op::MovementOp;
use meshwork_ir::{Attr, Module, OpId, OpKind};
use meshwork_mesh::Mesh;

use super::cache::Program;
use super::{Jit, NamedArray};
use crate::annotate::Annotations;
use crate::donate;
use crate::error::{At, JitError, Result, catch};
use crate::function::Function;
use crate::lower::{Lowered, Names};
use crate::ops::STOP_GRADIENT;
use crate::scope;
use crate::trace::{self, Placing};
use crate::tree::{Path, Tree, Visit};
use crate::{Array, Tensor};

/// Everything that a program depends on, beside the function.
pub(super) struct Key {
    mesh: Option<Arc<Mesh>>,
    /// Shape, element type and placement of each array.
    arrays: Vec<Array>,
    facts: String,
}

impl Key {
    fn new(mesh: Option<Arc<Mesh>>, arguments: &Arguments) -> Key {
        let arrays = arguments.leaves.iter().map(|(_, a)| a.outline()).collect();
        Key { mesh, arrays, facts: arguments.facts.clone() }
    }

    fn fits(&self, mesh: &Option<Arc<Mesh>>, arguments: &Arguments) -> bool {
        let same = |(a, (_, b)): (&Array, &NamedArray)| {
            a.ty() == b.ty() && a.placement().map(|p| &p.sharding) == b.placement().map(|p| &p.sharding)
        };
        self.mesh == *mesh
            && self.facts == arguments.facts
            && self.arrays.len() == arguments.leaves.len()
            && self.arrays.iter().zip(&arguments.leaves).all(same)
    }
}

/// What a call is made with.
#[derive(Default)]
pub(super) struct Arguments {
    pub(super) leaves: Vec<NamedArray>,
    /// Static values, lengths and names, and what is in scope, as text.
    facts: String,
}

impl Visit for Arguments {
    fn array(&mut self, path: &str, array: &Array) {
        self.leaves.push((path.into(), array.clone()));
    }

    fn fact(&mut self, fact: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = write!(self.facts, "{fact:?};");
    }
}

impl<A, F: Function<A>> Jit<F, A> {
    pub(super) fn arguments(&self, args: F::Args<'_>) -> Arguments {
        let mut arguments = Arguments::default();
        F::visit(args, &mut Path::default(), &mut arguments);
        scope::describe(&mut arguments.facts);
        arguments
    }

    /// The program for these arguments, traced if it is not known yet. No lock is held while the function is traced:
    /// it may call this `Jit` again.
    pub(super) fn entry(&self, args: F::Args<'_>, arguments: &Arguments, at: At) -> Result<Program<F::Output>> {
        let mesh = self.mesh_for(&arguments.leaves)?;
        let fits = |key: &Key| key.fits(&mesh, arguments);
        if let Some(program) = self.cache.get(fits) {
            return Ok(program);
        }
        let program = Arc::new(self.trace(args, &arguments.leaves, mesh.clone(), at)?);
        if let (Some(contract), Some(_)) = (&self.contract, program.0.mesh()) {
            program.0.check(contract)?;
        }
        Ok(self.cache.insert(Key::new(mesh.clone(), arguments), program, fits))
    }

    pub(super) fn mesh_for(&self, leaves: &[NamedArray]) -> Result<Option<Arc<Mesh>>> {
        if self.single {
            return Ok(None);
        }
        self.mesh_of(leaves)
    }

    /// The mesh of [`on`](Jit::on), else that of the first argument which is on one, else that in scope. Other arguments may
    /// be on other meshes over the same number of devices.
    pub(super) fn mesh_of(&self, leaves: &[NamedArray]) -> Result<Option<Arc<Mesh>>> {
        let mut mesh = self.mesh.clone();
        for (path, array) in leaves {
            let Some(own) = array.placement().map(|p| &p.mesh) else { continue };
            match &mesh {
                None => mesh = Some(own.clone()),
                Some(mesh) if mesh == own || mesh.device_count() == own.device_count() => {}
                Some(mesh) => {
                    let (found, program) = (own.clone(), mesh.clone());
                    return Err(JitError::OtherMesh { argument: path.to_string(), found, program }.into());
                }
            }
        }
        Ok(mesh.or_else(|| scope::current::<scope::MeshInScope>().map(|scoped| scoped.0)))
    }

    /// The program, its placements searched for if that is asked.
    pub(super) fn trace(
        &self,
        args: F::Args<'_>,
        leaves: &[NamedArray],
        mesh: Option<Arc<Mesh>>,
        at: At,
    ) -> Result<(Lowered, F::Output)> {
        let (lowered, out) = self.traced(args, leaves, mesh, at)?;
        let Some(auto) = self.auto.as_ref().filter(|_| !self.single) else { return Ok((lowered, out)) };
        if lowered.mesh().is_none() {
            return Err(JitError::NoMesh { options: "auto needs" }.into());
        }
        let found = auto.search(&lowered.named(), &*self.engine)?;
        let best = found.best();
        Ok((lowered.planned(best.module(), best.machine().clone()), out))
    }

    /// The program with the placements that it is given.
    pub(super) fn traced(
        &self,
        args: F::Args<'_>,
        leaves: &[NamedArray],
        mesh: Option<Arc<Mesh>>,
        at: At,
    ) -> Result<(Lowered, F::Output)> {
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!("trace").entered();
        let placing = match (&mesh, self.single) {
            (_, true) => Placing::Ignored(self.mesh_of(leaves)?),
            (Some(mesh), _) => Placing::On(mesh.clone()),
            (None, _) => Placing::NoMesh,
        };
        let types = leaves.iter().map(|(_, a)| a.ty());
        let annotations = Rc::new(Annotations::new(&self.annotations));
        let constraints = self.constraints_of(leaves, mesh.as_deref())?;
        let (finished, out, results) = catch(|| {
            let (guard, mut tensors) = trace::start(types, placing);
            trace::with_top("jit", |trace| {
                trace.annotations = annotations.clone();
                trace.manual = vec![];
                trace.called_at = at.0;
            });
            for (i, spec) in &constraints {
                tensors[*i] = tensors[*i].shard(spec);
            }
            let mut next = tensors.into_iter();
            // `leaves` are the arrays of `args` in the order in which they are asked for.
            let out = self.function.call(args, &mut |_| next.next().expect("a tensor for each array"));
            let mut results: Vec<(String, Tensor)> = vec![];
            out.tensors(&mut Path::default(), &mut |p, t| results.push((p.to_string(), t.clone())));
            let tensors: Vec<Tensor> = results.iter().map(|(_, t)| t.clone()).collect();
            (trace::finish(guard, "jit", &tensors), out, results)
        })?;
        if let Some(captured) = finished.captures.first() {
            return Err(JitError::Captured { tensor: captured.describe() }.into());
        }
        annotations.check_used()?;
        let mut module = finished.module;
        if finished.was_below {
            drop_markers(&mut module);
        }
        // JAX runs modules that have a name.
        module.attrs.set("sym_name", Attr::str("jit_main"));
        if let Some(mesh) = &mesh {
            trace::declare_mesh(&mut module, mesh);
            self.place(&mut module, finished.func, leaves, &results, mesh)?;
        } else if !self.single && (self.ins.is_some() || self.outs.is_some()) {
            return Err(JitError::NoMesh { options: "in_shardings and out_shardings need" }.into());
        }
        let donated = self.donated_of(leaves)?;
        donate::mark(&mut module, finished.func, &donated);
        let lowered = Lowered::new(module, mesh, Names::new(leaves, &results), donated, self.machine.clone());
        for warning in lowered.warnings() {
            eprintln!("warning: {warning}");
        }
        Ok((lowered, out))
    }
}

/// Takes what only gradients need out of a program that no gradient will be taken of any more: the frames of
/// `checkpoint` and the detours of `stop_gradient`.
fn drop_markers(module: &mut Module) {
    inline_computations(module, |name| name == CHECKPOINT || name == CUSTOM);
    let stops = |op: &OpId| {
        module.op(*op).kind() == OpKind::Movement(MovementOp::BitcastConvert)
            && module.op(*op).attr(STOP_GRADIENT).is_some()
    };
    for op in module.op_ids().filter(stops).collect::<Vec<_>>() {
        let Some(bits) = module.def_op(module.op(op).operands()[0]) else { continue };
        let value = module.op(bits).operands()[0];
        module.replace_op(op, &[value]);
        if module.value(module.result(bits)).uses().is_empty() {
            module.erase(bits);
        }
    }
}
