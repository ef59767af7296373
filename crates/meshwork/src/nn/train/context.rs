//! A program from typed inputs: as MLIR with `sdy` annotations, forward and backward, and what its gradients need.

use meshwork_ir::{Attr, Module, ValueMap, text};
use meshwork_mesh::Mesh;

use super::{Inputs, Sync, SyncPattern, Usage, gradient_sync_pattern};
use crate::error::{Error, Result};
use crate::jit::{Jit, jit};
use crate::rule::Rule;
use crate::spec::{MESH, P};
use crate::transform::value_and_grad;
use crate::{Array, ElementType, Plan, Shape, Tensor, Tree};

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

/// Named inputs with types, placements and roles on a mesh, from which programs are made. Their arguments are in the order in
/// which the inputs were declared.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::train::{Role, ShardedContext};
///
/// let mut context = ShardedContext::new(&Mesh::linear("batch", 4)?).mesh_name("cluster").module_name("layer");
/// context.input("x", [32, 128], F32, P::data_parallel("batch"), Role::Activation)?;
/// context.input("w", [128, 64], F32, P::replicated(), Role::Weight)?;
/// let text = context.build_sharded_module(|i| i["x"].matmul(&i["w"]).relu())?;
/// assert!(text.contains("module @layer"));
/// assert!(text.contains(r#"sdy.mesh @cluster = <["batch"=4]>"#));
/// assert!(text.contains(r#"tensor<32x128xf32> {sdy.sharding = #sdy.sharding<@cluster, [{"batch"}, {}]>}"#));
/// assert_eq!(context.gradient_sync_pattern("w")?.to_string(), "all-reduce sum over batch");
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ShardedContext {
    mesh: Mesh,
    mesh_name: String,
    module_name: String,
    inputs: Vec<(String, Input)>,
    outputs: Vec<P>,
}

#[derive(Clone, Debug)]
struct Input {
    shape: Vec<i64>,
    dtype: ElementType,
    spec: P,
    role: Role,
}

fn invalid(message: String) -> Error {
    Error::Invalid { what: "context", message }
}

impl ShardedContext {
    /// Without inputs yet.
    pub fn new(mesh: &Mesh) -> ShardedContext {
        ShardedContext {
            mesh: mesh.clone(),
            mesh_name: MESH.into(),
            module_name: "jit_main".into(),
            inputs: vec![],
            outputs: vec![],
        }
    }

    /// What programs call the mesh: `mesh` unless given, without the `@`.
    pub fn mesh_name(mut self, name: &str) -> ShardedContext {
        self.mesh_name = name.into();
        self
    }

    /// What programs are called, without the `@`.
    pub fn module_name(mut self, name: &str) -> ShardedContext {
        self.module_name = name.into();
        self
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
        if self.inputs.iter().any(|(n, _)| n == name) {
            return Err(invalid(format!("there is an input {name:?} already")));
        }
        self.inputs.push((name.to_string(), Input { shape, dtype, spec, role }));
        Ok(self)
    }

    /// How the next result of the forward program is placed. Results without a placement are left to propagation; one placement is
    /// that of all results.
    pub fn output(&mut self, spec: P) -> &mut Self {
        self.outputs.push(spec);
        self
    }

    fn arguments(&self) -> Inputs<Array> {
        let only = |i: &Input| Array::shape_only(&i.shape, i.dtype);
        self.inputs.iter().map(|(name, input)| (name.clone(), only(input))).collect()
    }

    fn rule(&self) -> Rule {
        let inputs = self.inputs.clone();
        Rule::policy(move |path, _| inputs.iter().find(|(name, _)| name == path).map(|(_, i)| i.spec.clone()))
    }

    fn forward<B: Tree, F: Fn(&Inputs) -> B>(&self, f: F) -> Jit<impl Fn(Inputs) -> B, (Inputs,)> {
        let program = jit(move |i: Inputs| f(&i)).on(&self.mesh).in_shardings([self.rule()]);
        if self.outputs.is_empty() { program } else { program.out_shardings(self.outputs.clone()) }
    }

    /// The gradient of the scalar that `f` returns by these inputs, placed like them, with the value before it.
    fn backward<F: Fn(&Inputs) -> Tensor>(
        &self,
        f: F,
        by: Vec<String>,
    ) -> Jit<impl Fn(Inputs) -> (Tensor, Inputs), (Inputs,)> {
        let program = move |inputs: Inputs| {
            let own = inputs.iter().filter(|(name, _)| by.iter().any(|n| n == name));
            let moved: Inputs = own.map(|(name, t)| (name.to_string(), t.clone())).collect();
            value_and_grad(|moved: Inputs| f(&inputs.with(&moved)), moved)
        };
        let rules = [P::replicated().into(), self.rule()];
        jit(program).on(&self.mesh).in_shardings([self.rule()]).out_shardings(rules)
    }

    fn weights(&self) -> Vec<String> {
        self.named(Role::Weight).map(|(name, _)| name.clone()).collect()
    }

    /// A program as text, with the names of this context.
    fn text(&self, mut module: Module) -> Result<String> {
        module.attrs.remove("sym_name");
        module.name = Some(self.module_name.as_str().into());
        let printed = renamed(&text::print(&module), MESH, &self.mesh_name);
        match text::parse(&printed) {
            Ok(_) => Ok(printed),
            Err(e) => Err(invalid(format!("{:?} and {:?} are no names: {e}", self.module_name, self.mesh_name))),
        }
    }

    /// The program of `f`, which returns a tensor or a tuple of them, as MLIR with its mesh and the placements of its inputs.
    pub fn build_sharded_module<B: Tree>(&self, f: impl Fn(&Inputs) -> B) -> Result<String> {
        self.text(self.forward(f).lower(&self.arguments())?.module().clone())
    }

    /// The program of the scalar that `f` returns and of its gradient by every weight, as MLIR.
    pub fn build_sharded_gradient(&self, f: impl Fn(&Inputs) -> Tensor) -> Result<String> {
        self.text(self.backward(f, self.weights()).lower(&self.arguments())?.module().clone())
    }

    /// One text with two functions: `@forward`, which is `f`, and `@backward`, the scalar that `loss` returns and its gradient by
    /// every weight.
    ///
    /// ```
    /// use meshwork::prelude::*;
    /// use meshwork::train::{Inputs, Role, ShardedContext};
    ///
    /// let mut context = ShardedContext::new(&Mesh::linear("batch", 4)?);
    /// context.input("x", [32, 128], F32, P!["batch"], Role::Activation)?;
    /// context.input("w", [128, 64], F32, P![], Role::Weight)?;
    /// let model = |i: &Inputs| i["x"].matmul(&i["w"]);
    /// let text = context.build_sharded_pair(model, |i| model(i).square().mean_all())?;
    /// assert!(text.contains("@forward(") && text.contains("@backward("));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn build_sharded_pair<B: Tree>(
        &self,
        f: impl Fn(&Inputs) -> B,
        loss: impl Fn(&Inputs) -> Tensor,
    ) -> Result<String> {
        let mut module = self.forward(f).lower(&self.arguments())?.module().clone();
        let backward = self.backward(loss, self.weights()).lower(&self.arguments())?;
        let one_function = |module: &Module| match (module.entry(), module.funcs().count()) {
            (Some(entry), 1) => Ok(entry),
            (_, count) => Err(invalid(format!("a program of {count} functions cannot stand beside another"))),
        };
        let (first, second) = (one_function(&module)?, one_function(backward.module())?);
        let body = module.body();
        let copied = module.import_op(backward.module(), second, body, &mut ValueMap::default()).map_err(invalid)?;
        for (func, name) in [(first, "forward"), (copied, "backward")] {
            module.op_mut(func).attrs.set("sym_name", Attr::str(name));
        }
        self.text(module)
    }

    /// What the gradient program communicates.
    pub fn gradient_plan(&self, f: impl Fn(&Inputs) -> Tensor) -> Result<Plan> {
        self.backward(f, self.weights()).plan(&self.arguments())
    }

    fn of_name(&self, name: &str) -> Result<&Input> {
        let found = self.inputs.iter().find(|(n, _)| n == name).map(|(_, input)| input);
        found.ok_or_else(|| {
            let known: Vec<&String> = self.inputs.iter().map(|(name, _)| name).collect();
            invalid(format!("there is no input {name:?}; there are {known:?}"))
        })
    }

    /// What an input and its gradient need: the batch is split like the first dimensions of the activations, the outputs
    /// of matrices like the last dimensions of the weights.
    pub fn gradient_sync_pattern(&self, name: &str) -> Result<SyncPattern> {
        let input = self.of_name(name)?;
        let usage = self.usage();
        gradient_sync_pattern(&self.mesh, &input.spec, input.shape.len(), input.role, &usage)
    }

    /// What an input and its gradient need in the program of the scalar that `f` returns, read from its plan: reductions of values
    /// with the type of the input, in whatever order of dimensions, that the forward program does not have, and gathers of the input
    /// before its use. Where it is cheaper to gather the batch than to add up gradients, the plan does that, and there is no reduction.
    ///
    /// ```
    /// use meshwork::prelude::*;
    /// use meshwork::train::{Role, ShardedContext};
    ///
    /// let mut context = ShardedContext::new(&Mesh::linear("batch", 4)?);
    /// context.input("x", [1024, 128], F32, P!["batch"], Role::Activation)?;
    /// context.input("w", [128, 64], F32, P![], Role::Weight)?;
    /// let pattern = context.planned_sync_pattern("w", |i| i["x"].matmul(&i["w"]).square().mean_all())?;
    /// assert_eq!(pattern.to_string(), "all-reduce sum over batch");
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn planned_sync_pattern(&self, name: &str, f: impl Fn(&Inputs) -> Tensor) -> Result<SyncPattern> {
        let input = self.of_name(name)?;
        let arguments = self.arguments();
        let alone = jit(|i: Inputs| f(&i)).on(&self.mesh).in_shardings([self.rule()]).plan(&arguments)?;
        let whole = self.backward(&f, vec![name.to_string()]).plan(&arguments)?;
        let dims: Vec<String> = input.shape.iter().map(ToString::to_string).collect();
        let own = sorted(&format!("{}[{}]", input.dtype, dims.join(",")));
        let argument = format!("0/{name}");
        let mut before: Vec<_> = alone.collectives.iter().map(what).collect();
        let mut pattern = SyncPattern::default();
        let dim_of = |axis: &str| input.spec.dims().iter().position(|d| d.axes.iter().any(|a| *a.name == *axis));
        for collective in &whole.collectives {
            let axes: Vec<String> = collective.axes.iter().map(|a| a.name.to_string()).collect();
            let of_input = collective.causes.iter().any(|c| c.argument == argument);
            let of_gradient =
                collective.causes.iter().any(|c| sorted(&c.tensor) == own && !c.argument.starts_with("0/"));
            let known = before.iter().position(|b| *b == what(collective));
            if let Some(i) = known {
                before.swap_remove(i);
            }
            let each = |make: fn(String, usize) -> Sync| {
                axes.iter().filter_map(|axis| Some(make(axis.clone(), dim_of(axis)?))).collect::<Vec<_>>()
            };
            match collective.collective.kind.name() {
                "all-gather" if of_input => {
                    let new = each(|axis, dim| Sync::AllGather { axis, dim });
                    let fresh = new.into_iter().filter(|sync| !pattern.forward.contains(sync)).collect::<Vec<_>>();
                    pattern.forward.extend(fresh);
                }
                "all-reduce" if of_gradient && known.is_none() => pattern.backward.push(Sync::AllReduceSum { axes }),
                "reduce-scatter" if of_gradient && known.is_none() => {
                    pattern.backward.extend(each(|axis, dim| Sync::ReduceScatter { axis, dim, mean: false }));
                }
                _ => {}
            }
        }
        Ok(pattern)
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
        self.inputs.iter().filter(move |(_, input)| input.role == role).map(|(name, input)| (name, input))
    }
}

/// The text of a type with its extents in order: a gradient may be computed transposed.
fn sorted(ty: &str) -> (String, Vec<String>) {
    let (elem, dims) = ty.split_once('[').unwrap_or((ty, ""));
    let mut dims: Vec<String> = dims.trim_end_matches(']').split(',').map(String::from).collect();
    dims.sort();
    (elem.to_string(), dims)
}

/// What distinguishes a collective from others, where two programs are compared.
fn what(c: &meshwork_partition::plan::PlannedCollective) -> (String, String, Vec<(String, String)>) {
    let causes = c.causes.iter().map(|cause| (cause.op.clone(), cause.tensor.clone())).collect();
    (c.collective.kind.name().to_string(), c.axes_text(), causes)
}

/// The text of a program with the symbol `from` under another name.
fn renamed(text: &str, from: &str, to: &str) -> String {
    let symbol = format!("@{from}");
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(&symbol) {
        let (before, after) = (&rest[..at], &rest[at + symbol.len()..]);
        let is_whole = !after.starts_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '.' | '-'));
        out.push_str(before);
        out.push_str(if is_whole { "@" } else { &symbol });
        if is_whole {
            out.push_str(to);
        }
        rest = after;
    }
    out + rest
}
