//! A program from typed inputs: as MLIR with `sdy` annotations, forward and backward, and what its gradients need.

use std::collections::BTreeMap;

use meshwork_mesh::Mesh;

use super::{SyncPattern, Usage, gradient_sync_pattern};
use crate::error::{Error, Result};
use crate::jit::{Jit, jit};
use crate::rule::Rule;
use crate::spec::{MESH, P};
use crate::transform::value_and_grad;
use crate::{Array, ElementType, Plan, Shape, Tensor};

/// What an input is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A parameter: it has a gradient that is used for a step.
    Weight,
    /// Data, or what is computed from it.
    Activation,
    /// The scalar that is made small.
    Loss,
}

/// The inputs of a program by name.
pub type Inputs = BTreeMap<String, Tensor>;

/// Named inputs with types, placements and roles on a mesh, from which programs are made.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::train::{Role, ShardedContext};
///
/// let mut context = ShardedContext::new(&Mesh::linear("batch", 4)?);
/// context.input("x", [32, 128], F32, P::data_parallel("batch"), Role::Activation)?;
/// context.input("w", [128, 64], F32, P::replicated(), Role::Weight)?;
/// let text = context.build_sharded_module(|i| i["x"].matmul(&i["w"]).relu())?;
/// assert!(text.contains(r#"sdy.mesh @mesh = <["batch"=4]>"#));
/// assert!(text.contains(r#"tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"batch"}, {}]>}"#));
/// assert_eq!(context.gradient_sync_pattern("w")?.to_string(), "all-reduce sum over batch");
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShardedContext {
    mesh: Mesh,
    inputs: BTreeMap<String, Input>,
    output: Option<P>,
}

#[derive(Clone, Debug)]
struct Input {
    shape: Vec<i64>,
    dtype: ElementType,
    spec: P,
    role: Role,
}

impl ShardedContext {
    /// Without inputs yet.
    pub fn new(mesh: &Mesh) -> ShardedContext {
        ShardedContext { mesh: mesh.clone(), inputs: BTreeMap::new(), output: None }
    }

    /// Adds an input. An axis that the mesh lacks, a rank that does not fit and a name that is taken are errors here.
    pub fn input(
        &mut self,
        name: &str,
        shape: impl Shape,
        dtype: ElementType,
        spec: P,
        role: Role,
    ) -> Result<&mut Self> {
        let shape = shape.extents().to_vec();
        let what = || format!("{spec} for the input {name} of shape {shape:?}");
        let checked = spec.sharding(MESH.into(), &self.mesh, shape.len());
        checked.map_err(|error| Error::Sharding { what: what(), error: error.into() })?;
        if self.inputs.contains_key(name) {
            return Err(Error::Invalid { what: "context", message: format!("there is an input {name:?} already") });
        }
        self.inputs.insert(name.to_string(), Input { shape, dtype, spec, role });
        Ok(self)
    }

    /// How the result of the forward program is placed; left to propagation otherwise.
    pub fn output(&mut self, spec: P) -> &mut Self {
        self.output = Some(spec);
        self
    }

    fn arguments(&self) -> BTreeMap<String, Array> {
        let only = |i: &Input| Array::shape_only(&i.shape, i.dtype);
        self.inputs.iter().map(|(name, input)| (name.clone(), only(input))).collect()
    }

    fn rule(&self) -> Rule {
        let inputs = self.inputs.clone();
        Rule::policy(move |path, _| inputs.get(path).map(|i| i.spec.clone()))
    }

    fn forward<F: Fn(&Inputs) -> Tensor>(&self, f: F) -> Jit<impl Fn(Inputs) -> Tensor, (Inputs,)> {
        let out = self.output.clone().map_or(Rule::Free, Rule::All);
        jit(move |i: Inputs| f(&i)).on(&self.mesh).in_shardings([self.rule()]).out_shardings([out])
    }

    /// The gradient of the scalar that `f` returns by every weight, placed like the weight, with the value before it.
    fn backward<F: Fn(&Inputs) -> Tensor>(&self, f: F) -> Jit<impl Fn(Inputs) -> (Tensor, Inputs), (Inputs,)> {
        let weights: Vec<String> = self.named(Role::Weight).map(|(name, _)| name.clone()).collect();
        let program = move |inputs: Inputs| {
            let (held, moved): (Inputs, Inputs) = inputs.into_iter().partition(|(name, _)| !weights.contains(name));
            value_and_grad(
                |moved: Inputs| {
                    let mut all = held.clone();
                    all.extend(moved);
                    f(&all)
                },
                moved,
            )
        };
        let rules = [P::replicated().into(), self.rule()];
        jit(program).on(&self.mesh).in_shardings([self.rule()]).out_shardings(rules)
    }

    /// The program of `f` as MLIR with its mesh and the placement of each input.
    pub fn build_sharded_module(&self, f: impl Fn(&Inputs) -> Tensor) -> Result<String> {
        Ok(self.forward(f).lower(&self.arguments())?.text())
    }

    /// The program of the scalar that `f` returns and of its gradient by every weight, as MLIR.
    pub fn build_sharded_gradient(&self, f: impl Fn(&Inputs) -> Tensor) -> Result<String> {
        Ok(self.backward(f).lower(&self.arguments())?.text())
    }

    /// What the gradient program communicates.
    pub fn gradient_plan(&self, f: impl Fn(&Inputs) -> Tensor) -> Result<Plan> {
        self.backward(f).plan(&self.arguments())
    }

    /// What an input and its gradient need: the batch is split like the first dimensions of the activations, the outputs
    /// of matrices like the last dimensions of the weights.
    pub fn gradient_sync_pattern(&self, name: &str) -> Result<SyncPattern> {
        let Some(input) = self.inputs.get(name) else {
            let known: Vec<&String> = self.inputs.keys().collect();
            return Err(Error::Invalid {
                what: "context",
                message: format!("there is no input {name:?}; there are {known:?}"),
            });
        };
        let usage = self.usage();
        gradient_sync_pattern(&self.mesh, &input.spec, input.shape.len(), input.role, &usage)
    }

    /// What splits the batch and the outputs of matrices.
    pub fn usage(&self) -> Usage {
        let axes = |role: Role, dim: fn(&Input) -> usize| {
            let mut out: Vec<String> = vec![];
            for (_, input) in self.named(role) {
                let entry = input.spec.dims().get(dim(input)).map(|d| &d.axes[..]).unwrap_or_default();
                out.extend(entry.iter().map(|a| a.name.to_string()).filter(|a| !out.contains(a)).collect::<Vec<_>>());
            }
            out
        };
        let batch = axes(Role::Activation, |_| 0);
        let mut columns = axes(Role::Weight, |input| input.shape.len().saturating_sub(1));
        columns.retain(|a| !batch.contains(a));
        Usage { batch, columns, ..Usage::default() }
    }

    fn named(&self, role: Role) -> impl Iterator<Item = (&String, &Input)> {
        self.inputs.iter().filter(move |(_, input)| input.role == role)
    }
}
