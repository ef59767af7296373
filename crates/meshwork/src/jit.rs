//! `jit`: traces a function of trees of tensors, places it, splits it and runs it on arrays.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;

use meshwork_autodiff::{CHECKPOINT, inline_computations};
use meshwork_ir::{Attr, AttrDict, Module, OpId, OpKind, TensorType, Type};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::{Contract, Plan};

use crate::annotate::Notes;
use crate::array::Placement;
use crate::donate;
use crate::engine::{Cpu, Engine};
use crate::error::{At, Error, Result, TraceError};
use crate::function::Function;
use crate::lower::{Lowered, Names};
use crate::ops::STOP_GRADIENT;
use crate::rules::{Leaf, Rule};
use crate::spec::{MESH, P};
use crate::trace::{self, Placing};
use crate::tree::{Path, Tree, Visit};
use crate::{Array, Tensor};

/// A function that is traced for the shapes it is called with, split over a mesh and run. Made by [`jit`].
pub struct Jit<F, A>
where
    F: Function<A>,
{
    function: F,
    mesh: Option<Arc<Mesh>>,
    single: bool,
    ins: Option<Vec<Rule>>,
    outs: Option<Vec<Rule>>,
    constraints: Option<Vec<Rule>>,
    annotations: BTreeMap<String, Rule>,
    donated: Vec<usize>,
    contract: Option<Contract>,
    engine: Rc<dyn Engine>,
    cache: Cache<F::Output>,
}

/// Programs by what they were traced for, each with the structure of its result.
type Cache<O> = RefCell<HashMap<Key, Rc<(Lowered, O)>>>;

/// Everything that a program depends on, beside the function.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    mesh: Option<Arc<Mesh>>,
    /// Shape, element type and placement of each array.
    arrays: Vec<(Arc<TensorType>, Option<Sharding>)>,
    /// Static values, lengths and names, as text.
    facts: String,
}

impl Visit for Key {
    fn array(&mut self, _: &str, array: &Array) {
        self.arrays.push((array.ty().clone(), array.placement().map(|p| p.sharding.clone())));
    }

    fn fact(&mut self, fact: &dyn Debug) {
        // Writing to a string does not fail.
        let _ = write!(self.facts, "{fact:?};");
    }
}

/// Makes a function of tensors into one of arrays.
///
/// The function is traced once for each combination of structure, shapes, element types, static values and
/// placements of its arguments. It runs on one device, or, with a mesh, split over its devices. The mesh comes from
/// [`on`](Jit::on) or from the arguments.
///
/// A misuse of a tensor inside of the function, such as a product of matrices that do not fit, ends the trace, and
/// the call returns an [`Error`] with the operation, the shapes and the line.
///
/// ```
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::linear("x", 4)?;
/// let f = jit(|x: Tensor| (x.roll(1, 0) + x.roll(-1, 0)) * 0.5).on(&mesh).in_shardings([P!["x"]]);
/// let x = Array::from_fn([8], |i| i[0] as f32);
/// assert_eq!(f.call(&x)?.to_vec::<f32>()?, [4.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 3.0]);
/// assert_eq!(f.plan(&x)?.totals()["collective-permute"].count, 2);
///
/// let wrong = jit(|a: Tensor, b: Tensor| a.matmul(&b));
/// let (a, b) = (Array::zeros([2, 3], F32), Array::zeros([4, 5], F32));
/// let error = wrong.call((&a, &b)).unwrap_err().to_string();
/// assert!(error.starts_with("matmul: [2, 3] x [4, 5]"));
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn jit<A, F: Function<A>>(function: F) -> Jit<F, A> {
    Jit {
        function,
        mesh: None,
        single: false,
        ins: None,
        outs: None,
        constraints: None,
        annotations: BTreeMap::new(),
        donated: vec![],
        contract: None,
        engine: Rc::new(Cpu),
        cache: RefCell::default(),
    }
}

impl<A, F: Function<A>> Jit<F, A> {
    /// Splits the program over `mesh`.
    pub fn on(mut self, mesh: &Mesh) -> Self {
        self.mesh = Some(Arc::new(mesh.clone()));
        self.single = false;
        self
    }

    /// Runs on one device, whatever placements the program and its arguments have.
    pub fn single_device(mut self) -> Self {
        self.single = true;
        self
    }

    /// How each argument is placed, in place of the placements that arrays bring: a [`P`] for all of its arrays, or a
    /// [`Rule`].
    pub fn in_shardings<R: Into<Rule>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        self.ins = Some(rules.into_iter().map(Into::into).collect());
        self
    }

    /// How each result is placed: one rule for a result that is not a tuple, else one per member.
    pub fn out_shardings<R: Into<Rule>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        self.outs = Some(rules.into_iter().map(Into::into).collect());
        self
    }

    /// How each argument is placed inside of the program, wherever it comes from: a constraint on its first use. With
    /// [`in_shardings`](Jit::in_shardings) an array that lies otherwise is brought there before the program starts,
    /// with this as its first step.
    pub fn constrain<R: Into<Rule>>(mut self, rules: impl IntoIterator<Item = R>) -> Self {
        self.constraints = Some(rules.into_iter().map(Into::into).collect());
        self
    }

    /// How the values that the program names by [`annotate`](crate::annotate) are placed. A name that the program does
    /// not have is an error, as is one that it has and that is not given here.
    pub fn annotations<'n, R: Into<Rule>>(mut self, rules: impl IntoIterator<Item = (&'n str, R)>) -> Self {
        self.annotations = rules.into_iter().map(|(name, rule)| (name.to_string(), rule.into())).collect();
        self
    }

    /// Gives the memory of these arguments, by number, to the results: an update happens where the array lies. The call
    /// takes the elements out of their arrays; using one of them, or a clone, later is an error that names the call.
    ///
    /// In the program they are marked as JAX marks them: `tf.aliasing_output` with the result of the same type and
    /// placement that takes the memory, or `jax.buffer_donor` if there is none. An engine may use it or not.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let step = jit(|x: Tensor, dx: Tensor| x + dx).donate([0]);
    /// let x = Array::from([1.0f32, 2.0]);
    /// let dx = Array::from([0.5f32, 0.5]);
    /// assert!(step.lower((&x, &dx))?.text().contains("tf.aliasing_output = 0"));
    /// let y = step.call((&x, &dx))?;
    /// assert_eq!(y.to_vec::<f32>()?, [1.5, 2.5]);
    /// let error = step.call((&x, &dx)).unwrap_err().to_string();
    /// assert!(error.starts_with("jit: argument 0: the array of shape [2] was donated to the call at "));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn donate(mut self, arguments: impl IntoIterator<Item = usize>) -> Self {
        self.donated = arguments.into_iter().collect();
        self
    }

    /// Holds every plan to `contract`: a program that would communicate otherwise is an error, not a slow run.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let neighbours = Contract { allowed: Some(vec!["collective-permute".into()]), ..Contract::default() };
    /// let f = jit(|x: Tensor| x.sum_all()).contract(neighbours);
    /// let x = Array::from_fn([8], |i| i[0] as f32).shard(&mesh, P!["x"])?;
    /// assert!(f.call(&x).unwrap_err().to_string().contains("all-reduce"));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn contract(mut self, contract: Contract) -> Self {
        self.contract = Some(contract);
        self
    }

    /// Runs on another engine.
    pub fn engine(mut self, engine: impl Engine + 'static) -> Self {
        self.engine = Rc::new(engine);
        self
    }

    /// Runs the function.
    #[track_caller]
    pub fn call(&self, args: F::Args<'_>) -> Result<<F::Output as Tree>::Host> {
        let at = Location::caller();
        self.run(args, At(at)).map_err(|e| e.at(at))
    }

    fn run(&self, args: F::Args<'_>, at: At) -> Result<<F::Output as Tree>::Host> {
        let leaves = self.arguments(args)?;
        let entry = self.entry(args, &leaves)?;
        let (lowered, out) = &*entry;
        for (path, array) in &leaves {
            array.check_present().map_err(|e| Error::Jit(format!("argument {path}: {e}")))?;
        }
        let inputs = donate::hand_over(leaves, lowered.donated(), at)?;
        let results = lowered.run(&*self.engine, inputs)?;
        let placements: Vec<Option<Placement>> = match lowered.mesh() {
            None => vec![None; results.len()],
            Some(mesh) => {
                let mesh = Arc::new(mesh.clone());
                let inline = |s: &Sharding| Sharding { mesh: mesh.clone().into(), ..s.clone() };
                let outputs = &lowered.compiled()?.program.outputs;
                outputs.iter().map(|s| Some(Placement { mesh: mesh.clone(), sharding: inline(s) })).collect()
            }
        };
        let mut next = results.into_iter().zip(placements);
        let mut missing = false;
        let host = out.to_host(&mut |t| match next.next() {
            Some((array, placement)) => array.with_placement(placement),
            None => {
                missing = true;
                Array::shape_only(t.shape(), t.dtype())
            }
        });
        match missing {
            true => Err(Error::Jit("the engine returned too few results".into())),
            false => Ok(host),
        }
    }

    /// The program for these arguments, which may be [only shapes](Array::shape_only).
    #[track_caller]
    pub fn lower(&self, args: F::Args<'_>) -> Result<LoweredFor<F::Output>> {
        let at = Location::caller();
        let entry = self.arguments(args).and_then(|leaves| self.entry(args, &leaves));
        entry.map(LoweredFor).map_err(|e| e.at(at))
    }

    /// The plan for these arguments: every collective with its cause.
    #[track_caller]
    pub fn plan(&self, args: F::Args<'_>) -> Result<Plan> {
        self.lower(args)?.plan().cloned()
    }

    /// Why a value is placed as it is; see [`Lowered::why`].
    #[track_caller]
    pub fn why(&self, args: F::Args<'_>, name: &str) -> Result<String> {
        self.lower(args)?.why(name)
    }

    /// The plan as a table for people.
    #[track_caller]
    pub fn explain(&self, args: F::Args<'_>) -> Result<String> {
        self.lower(args)?.explain()
    }

    fn arguments(&self, args: F::Args<'_>) -> Result<Vec<(String, Array)>> {
        struct Collect(Vec<(String, Array)>);
        impl Visit for Collect {
            fn array(&mut self, path: &str, array: &Array) {
                self.0.push((path.to_string(), array.clone()));
            }
            fn fact(&mut self, _: &dyn Debug) {}
        }
        let mut collect = Collect(vec![]);
        F::visit(args, &mut Path::default(), &mut collect);
        Ok(collect.0)
    }

    /// The program for these arguments, traced if it is not known yet.
    fn entry(&self, args: F::Args<'_>, leaves: &[(String, Array)]) -> Result<Rc<(Lowered, F::Output)>> {
        let mesh = self.mesh_for(leaves)?;
        let mut key = Key { mesh: mesh.clone(), arrays: Vec::with_capacity(leaves.len()), facts: String::new() };
        F::visit(args, &mut Path::default(), &mut key);
        if let Some(entry) = self.cache.borrow().get(&key) {
            return Ok(entry.clone());
        }
        let entry = Rc::new(self.trace(args, leaves, mesh)?);
        if let (Some(contract), Some(_)) = (&self.contract, entry.0.mesh()) {
            entry.0.check(contract)?;
        }
        self.cache.borrow_mut().insert(key, entry.clone());
        Ok(entry)
    }

    fn mesh_for(&self, leaves: &[(String, Array)]) -> Result<Option<Arc<Mesh>>> {
        if self.single {
            return Ok(None);
        }
        self.mesh_of(leaves)
    }

    /// The mesh of the arguments and of [`on`](Jit::on), which have to agree.
    fn mesh_of(&self, leaves: &[(String, Array)]) -> Result<Option<Arc<Mesh>>> {
        let mut mesh = self.mesh.clone();
        for (path, array) in leaves {
            let Some(own) = array.placement().map(|p| &p.mesh) else { continue };
            match &mesh {
                None => mesh = Some(own.clone()),
                Some(mesh) if mesh == own => {}
                Some(mesh) => {
                    return Err(Error::Jit(format!("argument {path} is on the mesh {own}, the program on {mesh}")));
                }
            }
        }
        Ok(mesh)
    }

    fn trace(
        &self,
        args: F::Args<'_>,
        leaves: &[(String, Array)],
        mesh: Option<Arc<Mesh>>,
    ) -> Result<(Lowered, F::Output)> {
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!("trace").entered();
        let placing = match (&mesh, self.single) {
            (_, true) => Placing::Ignored(self.mesh_of(leaves)?),
            (Some(mesh), _) => Placing::On(mesh.clone()),
            (None, _) => Placing::NoMesh,
        };
        let types: Vec<Arc<TensorType>> = leaves.iter().map(|(_, a)| a.ty().clone()).collect();
        let notes = Rc::new(Notes::new(&self.annotations));
        let constraints = self.constraints_of(leaves, mesh.as_deref())?;
        let traced = catch_unwind(AssertUnwindSafe(|| {
            let (guard, mut tensors) = trace::start(&types, placing);
            trace::with_top("jit", |trace| {
                trace.notes = notes.clone();
                trace.manual = vec![];
            });
            for (tensor, spec) in tensors.iter_mut().zip(&constraints) {
                if let Some(spec) = spec {
                    *tensor = tensor.shard(spec);
                }
            }
            let mut next = tensors.into_iter();
            // `leaves` are the arrays of `args` in the order in which they are asked for.
            let out = self.function.call(args, &mut |_| next.next().expect("a tensor for each array"));
            let mut results: Vec<(String, Tensor)> = vec![];
            out.tensors(&mut Path::default(), &mut |p, t| results.push((p.to_string(), t.clone())));
            let tensors: Vec<Tensor> = results.iter().map(|(_, t)| t.clone()).collect();
            (trace::finish(guard, "jit", &tensors), out, results)
        }));
        let (finished, out, results) = match traced {
            Ok(done) => done,
            Err(payload) => match payload.downcast::<TraceError>() {
                Ok(error) => return Err((*error).into()),
                Err(other) => resume_unwind(other),
            },
        };
        if let Some(captured) = finished.captures.first() {
            return Err(Error::Jit(format!(
                "the function uses a {} of the trace around it; pass it as an argument",
                captured.describe()
            )));
        }
        notes.check_used()?;
        let mut module = finished.module;
        drop_markers(&mut module);
        // JAX runs modules that have a name.
        module.attrs.set("sym_name", Attr::str("jit_main"));
        if let Some(mesh) = &mesh {
            trace::declare_mesh(&mut module, mesh);
            self.place_arguments(&mut module, finished.func, leaves, mesh)?;
            self.place_results(&mut module, finished.func, &results, mesh)?;
        } else if !self.single && (self.ins.is_some() || self.outs.is_some()) {
            return Err(Error::Jit("in_shardings and out_shardings need a mesh: give jit one with .on(&mesh)".into()));
        }
        let donated = self.donated_of(leaves)?;
        donate::mark(&mut module, finished.func, &donated);
        let types = results.iter().map(|(_, t)| Type::Tensor(t.ty.clone())).collect();
        Ok((Lowered::new(module, mesh, types, Names::new(leaves, &results), donated), out))
    }

    /// The placement that each argument is held to inside of the program.
    fn constraints_of(&self, leaves: &[(String, Array)], mesh: Option<&Mesh>) -> Result<Vec<Option<P>>> {
        let Some(rules) = self.constraints.as_ref().filter(|_| !self.single) else {
            return Ok(vec![None; leaves.len()]);
        };
        self.check_count("constrain", rules.len())?;
        let Some(mesh) = mesh else {
            return Err(Error::Jit("constrain needs a mesh: give jit one with .on(&mesh)".into()));
        };
        let of = |(path, array): &(String, Array)| {
            let (rule, inside) = rule_for(rules, path);
            rule.spec(&Leaf::new(inside, array.ty()), mesh)
        };
        Ok(leaves.iter().map(of).collect::<Result<_, _>>()?)
    }

    /// The numbers of the arrays of donated arguments.
    fn donated_of(&self, leaves: &[(String, Array)]) -> Result<Vec<usize>> {
        if let Some(number) = self.donated.iter().find(|&&n| n >= F::COUNT) {
            return Err(Error::Jit(format!("donate names argument {number}, but there are {}", F::COUNT)));
        }
        let argument = |path: &str| path.split('/').next().and_then(|n| n.parse::<usize>().ok());
        let given =
            |(_, (path, _)): &(usize, &(String, Array))| argument(path).is_some_and(|n| self.donated.contains(&n));
        Ok(leaves.iter().enumerate().filter(given).map(|(i, _)| i).collect())
    }

    fn check_count(&self, what: &str, given: usize) -> Result<()> {
        match given == F::COUNT {
            true => Ok(()),
            false => Err(Error::Jit(format!("{what} has {given} rules for {} arguments", F::COUNT))),
        }
    }

    fn place_arguments(&self, module: &mut Module, func: OpId, leaves: &[(String, Array)], mesh: &Mesh) -> Result<()> {
        if let Some(rules) = &self.ins {
            self.check_count("in_shardings", rules.len())?;
        }
        let (mut known, none) = (Known::default(), Attr::Dict(Arc::default()));
        let mut slots = Vec::with_capacity(leaves.len());
        for (path, array) in leaves {
            let sharding = match &self.ins {
                None => array.placement().map(|p| slot(Sharding { mesh: MESH.into(), ..p.sharding.clone() })),
                Some(rules) => {
                    let (rule, inside) = rule_for(rules, path);
                    known.place(
                        "argument",
                        path,
                        rule.spec(&Leaf::new(inside, array.ty()), mesh)?,
                        mesh,
                        array.shape(),
                    )?
                }
            };
            slots.push(sharding.unwrap_or_else(|| none.clone()));
        }
        if slots.iter().any(|s| *s != none) {
            module.op_mut(func).attrs.set("arg_attrs", Attr::Array(slots.into()));
        }
        Ok(())
    }

    fn place_results(&self, module: &mut Module, func: OpId, results: &[(String, Tensor)], mesh: &Mesh) -> Result<()> {
        let Some(rules) = &self.outs else { return Ok(()) };
        let members = results.iter().filter_map(|(p, _)| p.split('/').next()?.parse::<usize>().ok()).max();
        let count = members.map_or(1, |m| m + 1);
        if rules.len() != 1 && rules.len() != count {
            return Err(Error::Jit(format!("out_shardings has {} rules for {count} results", rules.len())));
        }
        let (mut known, none) = (Known::default(), Attr::Dict(Arc::default()));
        let mut slots = Vec::with_capacity(results.len());
        for (path, tensor) in results {
            let (rule, inside) = match path.split_once('/').unwrap_or((path, "")) {
                (number, inside) if rules.len() > 1 => (number.parse().ok().and_then(|n: usize| rules.get(n)), inside),
                _ => (rules.first(), path.as_str()),
            };
            let spec = rule.unwrap_or(&Rule::Free).spec(&Leaf::new(inside, &tensor.ty), mesh)?;
            let placed = known.place("result", path, spec, mesh, tensor.shape())?;
            slots.push(placed.unwrap_or_else(|| none.clone()));
        }
        if slots.iter().any(|s| *s != none) {
            module.op_mut(func).attrs.set("res_attrs", Attr::Array(slots.into()));
        }
        Ok(())
    }
}

/// A program for certain arguments; see [`Lowered`].
pub struct LoweredFor<O>(Rc<(Lowered, O)>);

impl<O> std::ops::Deref for LoweredFor<O> {
    type Target = Lowered;

    fn deref(&self) -> &Lowered {
        &self.0.0
    }
}

/// The rule for the array at `path`, which starts with the number of its argument, and the path inside of that.
fn rule_for<'a>(rules: &'a [Rule], path: &'a str) -> (&'a Rule, &'a str) {
    let (number, inside) = path.split_once('/').unwrap_or((path, ""));
    (number.parse().ok().and_then(|n: usize| rules.get(n)).unwrap_or(&Rule::Free), inside)
}

/// The attributes of an argument or result that is placed so.
fn slot(sharding: Sharding) -> Attr {
    let dict: AttrDict = [("sdy.sharding", Attr::Sharding(sharding.into()))].into_iter().collect();
    Attr::Dict(dict.into())
}

/// Placements that were worked out already, by rank: most arrays of a program share a few.
#[derive(Default)]
struct Known(Vec<(P, usize, Attr)>);

impl Known {
    fn place(&mut self, kind: &str, path: &str, spec: Option<P>, mesh: &Mesh, shape: &[i64]) -> Result<Option<Attr>> {
        let Some(spec) = spec else { return Ok(None) };
        if let Some((_, _, known)) = self.0.iter().find(|(p, rank, _)| *rank == shape.len() && *p == spec) {
            return Ok(Some(known.clone()));
        }
        let name = if path.is_empty() { kind.to_string() } else { format!("{kind} {path}") };
        let what = || format!("{spec} for {name} of shape {shape:?}");
        let sharding = spec.sharding(MESH.into(), mesh, shape.len());
        let attrs = slot(sharding.map_err(|error| Error::Sharding { what: what(), error: error.into() })?);
        self.0.push((spec, shape.len(), attrs.clone()));
        Ok(Some(attrs))
    }
}

/// Takes what only gradients need out of a program that no gradient will be taken of any more: the frames of
/// `checkpoint` and the detours of `stop_gradient`.
fn drop_markers(module: &mut Module) {
    inline_computations(module, |name| name == CHECKPOINT);
    let Some(func) = module.entry() else { return };
    for op in module.ops_below(func, meshwork_ir::Walk::PreOrder) {
        if module.op(op).kind() != OpKind::BitcastConvert || module.op(op).attr(STOP_GRADIENT).is_none() {
            continue;
        }
        let Some(bits) = module.def_op(module.op(op).operands()[0]) else { continue };
        let (from, to) = (module.result(op), module.op(bits).operands()[0]);
        module.replace_all_uses(from, to);
        module.erase(op);
        if module.value(module.result(bits)).uses().is_empty() {
            module.erase(bits);
        }
    }
}
