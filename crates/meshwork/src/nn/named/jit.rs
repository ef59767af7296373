//! Functions of trees with named tensors, with mappings for arguments, results and the body.

use std::sync::Arc;

use meshwork_explore::Page;
use meshwork_mesh::Mesh;

use super::Mapping;
use super::scope::{axis_mapping, current_mapping, hold_tree, shard_named};
use crate::error::{Error, Result};
use crate::jit::{Jit, LoweredFor, Profiled, jit};
use crate::tree::{Tree, map_arrays};
use crate::{Contract, Machine, Plan};

type Boxed<A, B> = Box<dyn Fn(A) -> B + Send + Sync>;

/// A function with mappings; made by [`named_jit`] and [`fsdp`].
pub struct NamedJit<A: Tree + 'static, B: Tree + 'static>
where
    A::Host: 'static,
{
    function: Arc<dyn Fn(A) -> B + Send + Sync>,
    mesh: Mesh,
    own: Own,
    options: Options,
    jit: Jit<Boxed<A, B>, (A,)>,
}

/// What else a function was given.
#[derive(Clone, Default)]
struct Options {
    donated: Vec<usize>,
    contract: Option<Contract>,
    machine: Option<Machine>,
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
    let (own, options) = (Own::default(), Options::default());
    let jit = build(&function, mesh, own.clone(), &options);
    NamedJit { function, mesh: mesh.clone(), own, options, jit }
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
    options: &Options,
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
    let mut jit = jit(boxed).on(mesh).donate_members(&options.donated);
    if let Some(contract) = &options.contract {
        jit = jit.contract(contract.clone());
    }
    if let Some(machine) = &options.machine {
        jit = jit.machine(machine.clone());
    }
    jit
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

    /// Gives the memory of these arguments, by number, to the results; see [`Jit::donate`]. An argument that has to be moved to
    /// its placement first is copied, and stays.
    pub fn donate(mut self, arguments: impl IntoIterator<Item = usize>) -> Self {
        self.options.donated = arguments.into_iter().collect();
        self.rebuilt()
    }

    /// Holds every plan to `contract`; see [`Jit::contract`].
    pub fn contract(mut self, contract: Contract) -> Self {
        self.options.contract = Some(contract);
        self.rebuilt()
    }

    /// The speed of devices and links; see [`Jit::machine`].
    pub fn machine(mut self, machine: Machine) -> Self {
        self.options.machine = Some(machine);
        self.rebuilt()
    }

    fn rebuilt(mut self) -> Self {
        self.jit = build(&self.function, &self.mesh, self.own.clone(), &self.options);
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
    pub fn lower(&self, args: &A::Host) -> Result<LoweredFor<B>> {
        self.jit.lower(&self.placed(args)?)
    }

    /// Does all that a first call does but run; see [`Jit::compile`].
    #[track_caller]
    pub fn compile(&self, args: &A::Host) -> Result<LoweredFor<B>> {
        self.jit.compile(&self.placed(args)?)
    }

    /// The plan as a table for people.
    #[track_caller]
    pub fn explain(&self, args: &A::Host) -> Result<String> {
        self.jit.explain(&self.placed(args)?)
    }

    /// Why a value is placed as it is; see [`Lowered::why`](crate::Lowered::why). The arguments are `0/0`, `0/1` and so on.
    #[track_caller]
    pub fn why(&self, args: &A::Host, name: &str) -> Result<String> {
        self.jit.why(&self.placed(args)?, name)
    }

    /// Runs the function and notes what ran when; see [`Jit::profile`].
    #[track_caller]
    pub fn profile(&self, args: &A::Host) -> Result<Profiled<B>> {
        self.jit.profile(&self.placed(args)?)
    }

    /// A page that shows the program, its shardings and its plan; see [`Lowered::explore`](crate::Lowered::explore).
    #[track_caller]
    pub fn explore(&self, args: &A::Host) -> Result<Page> {
        self.jit.explore(&self.placed(args)?)
    }
}
