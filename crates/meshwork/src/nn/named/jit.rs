//! Functions of trees with named tensors, with mappings for arguments, results and the body.

use std::sync::Arc;

use meshwork_mesh::Mesh;

use super::Mapping;
use super::scope::{axis_mapping, current_mapping, hold_tree, shard_named};
use crate::error::{Error, Result};
use crate::jit::{Jit, jit};
use crate::tree::{Tree, map_arrays};
use crate::{Lowered, Plan};

type Boxed<A, B> = Box<dyn Fn(A) -> B + Send + Sync>;

/// A function with mappings; made by [`named_jit`] and [`fsdp`].
pub struct NamedJit<A: Tree + 'static, B: Tree + 'static>
where
    A::Host: 'static,
{
    function: Arc<dyn Fn(A) -> B + Send + Sync>,
    mesh: Mesh,
    own: Own,
    jit: Jit<Boxed<A, B>, (A,)>,
}

/// The mappings that a function was given.
#[derive(Clone, Default)]
struct Own {
    inside: Option<Mapping>,
    input: Option<Mapping>,
    output: Option<Mapping>,
}

impl Own {
    /// That of arguments.
    fn input(&self) -> Option<Mapping> {
        self.input.clone().or_else(|| self.inside.clone()).or_else(|| self.in_scope())
    }

    /// That of results.
    fn output(&self) -> Option<Mapping> {
        self.output.clone().or_else(|| self.inside.clone()).or_else(|| self.in_scope())
    }

    /// The mapping in scope, if there is none of its own.
    fn in_scope(&self) -> Option<Mapping> {
        let has_own = self.inside.is_some() || self.input.is_some() || self.output.is_some();
        current_mapping().filter(|_| !has_own)
    }
}

/// Makes a function of a tree with named tensors into one of named arrays. Several arguments are a tuple.
///
/// Without a mapping of its own it takes the one [in scope](super::axis_mapping) when it is called. If there is none,
/// arguments stay where they are and results where propagation puts them.
pub fn named_jit<A: Tree + 'static, B: Tree + 'static>(
    mesh: &Mesh,
    f: impl Fn(A) -> B + Send + Sync + 'static,
) -> NamedJit<A, B>
where
    A::Host: 'static,
{
    let function: Arc<dyn Fn(A) -> B + Send + Sync> = Arc::new(f);
    let own = Own::default();
    let jit = build(&function, mesh, own.clone());
    NamedJit { function, mesh: mesh.clone(), own, jit }
}

/// A function whose arguments and results are stored as `parameters` says, and computed with as `compute` says: that
/// mapping is in scope inside, for [`sharded`](super::NamedTensor::sharded) and
/// [`auto_sharded`](super::NamedTensor::auto_sharded).
pub fn fsdp<A: Tree + 'static, B: Tree + 'static>(
    mesh: &Mesh,
    f: impl Fn(A) -> B + Send + Sync + 'static,
    parameters: Mapping,
    compute: Mapping,
) -> NamedJit<A, B>
where
    A::Host: 'static,
{
    named_jit(mesh, f).mapping(compute).inputs(parameters.clone()).outputs(parameters)
}

fn build<A: Tree + 'static, B: Tree + 'static>(
    function: &Arc<dyn Fn(A) -> B + Send + Sync>,
    mesh: &Mesh,
    own: Own,
) -> Jit<Boxed<A, B>, (A,)>
where
    A::Host: 'static,
{
    let function = function.clone();
    let boxed: Boxed<A, B> = Box::new(move |args| {
        let out = match &own.inside {
            Some(mapping) => axis_mapping(mapping.clone(), || function(args)),
            None => function(args),
        };
        match own.output() {
            Some(mapping) => hold_tree(&out, &mapping),
            None => out,
        }
    });
    jit(boxed).on(mesh)
}

impl<A: Tree + 'static, B: Tree + 'static> NamedJit<A, B>
where
    A::Host: 'static,
{
    /// The mapping in scope inside, and of arguments and results without one of their own.
    pub fn mapping(mut self, mapping: Mapping) -> Self {
        self.own.inside = Some(mapping);
        self.rebuilt()
    }

    /// How named arguments are placed.
    pub fn inputs(mut self, mapping: Mapping) -> Self {
        self.own.input = Some(mapping);
        self.rebuilt()
    }

    /// How named results are placed.
    pub fn outputs(mut self, mapping: Mapping) -> Self {
        self.own.output = Some(mapping);
        self.rebuilt()
    }

    fn rebuilt(mut self) -> Self {
        self.jit = build(&self.function, &self.mesh, self.own.clone());
        self
    }

    fn placed(&self, args: &A::Host) -> Result<A::Host> {
        match self.own.input() {
            Some(mapping) => shard_named::<A>(args, &mapping, &self.mesh),
            None => map_arrays::<A, Error>(args, |_, array| Ok(array.clone())),
        }
    }

    /// Runs the function.
    #[track_caller]
    pub fn call(&self, args: &A::Host) -> Result<B::Host> {
        self.jit.call(&self.placed(args)?)
    }

    /// What it communicates.
    #[track_caller]
    pub fn plan(&self, args: &A::Host) -> Result<Plan> {
        self.jit.plan(&self.placed(args)?)
    }

    /// The program for these arguments.
    #[track_caller]
    pub fn lower(&self, args: &A::Host) -> Result<impl std::ops::Deref<Target = Lowered>> {
        self.jit.lower(&self.placed(args)?)
    }
}
