//! A traced program: its text, its plan, and what running it needs.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshwork_explore::{Page, Program};
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Loc, LocKind, Module, OpId, OpKind, ValueId, Walk};
use meshwork_mesh::Mesh;
use meshwork_partition::plan::{Detail, Explainer, Simulation, loc_name, simulate, table};
use meshwork_partition::{Causes, CompileOptions, Compiled, Contract, Machine, Plan, compile};
use meshwork_runtime::{Engine, Executable, Profile};
use smol_str::SmolStr;

use crate::captured::large_constants;
use crate::error::{JitError, Result};
use crate::jit::NamedArray;
use crate::{Array, Tensor};

/// A traced program with the placements it was given. Splitting it happens when it is first asked for.
pub struct Lowered {
    module: Module,
    mesh: Option<Arc<Mesh>>,
    names: Names,
    /// The arguments whose memory the caller gives away, by number.
    donated: Vec<usize>,
    machine: Machine,
    compiled: OnceLock<Compiled>,
    /// Compiled with the history of its placements, which plans and explanations quote.
    traced: OnceLock<Compiled>,
    loaded: OnceLock<Arc<dyn Executable>>,
    /// Held while it is compiled or loaded, so that threads which ask at once do it once.
    working: Mutex<()>,
}

/// The paths of arguments and results.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    pub(crate) arguments: Vec<SmolStr>,
    pub(crate) results: Vec<String>,
}

impl Names {
    /// Results are called `result`, and their paths stand behind that.
    pub(crate) fn new(arguments: &[NamedArray], results: &[(String, Tensor)]) -> Names {
        let result = |path: &str| if path.is_empty() { "result".to_string() } else { format!("result/{path}") };
        Names {
            arguments: arguments.iter().map(|(path, _)| path.clone()).collect(),
            results: results.iter().map(|(path, _)| result(path)).collect(),
        }
    }

    /// Notes the paths of arguments and results in the program, where plans and explanations find them.
    fn write(&self, module: &mut Module) {
        let Some(func) = module.entry() else { return };
        for (i, path) in self.results.iter().enumerate() {
            module.set_res_attr(func, i, "jax.result_info", Some(Attr::str(path)));
        }
        let Some(body) = module.body_of(func, 0) else { return };
        let name = |path: &SmolStr| Loc::from(LocKind::Name { name: path.as_str().into(), child: None });
        module.block_mut(body).arg_locs = self.arguments.iter().map(name).collect();
    }
}

impl Lowered {
    pub(crate) fn new(
        module: Module,
        mesh: Option<Arc<Mesh>>,
        names: Names,
        donated: Vec<usize>,
        machine: Machine,
    ) -> Lowered {
        Lowered {
            module,
            mesh,
            names,
            donated,
            machine,
            compiled: OnceLock::new(),
            traced: OnceLock::new(),
            loaded: OnceLock::new(),
            working: Mutex::new(()),
        }
    }

    /// The program.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The program with the paths of its arguments and results in it.
    pub(crate) fn named(&self) -> Module {
        let mut module = self.module.clone();
        self.names.write(&mut module);
        module
    }

    /// The same with other placements in the program, for this machine.
    pub(crate) fn planned(self, module: Module, machine: Machine) -> Lowered {
        Lowered::new(module, self.mesh, self.names, self.donated, machine)
    }

    /// The arguments whose memory the caller gives away, by number.
    pub(crate) fn donated(&self) -> &[usize] {
        &self.donated
    }

    /// The number of arrays that it returns.
    pub(crate) fn result_count(&self) -> usize {
        self.names.results.len()
    }

    /// The mesh it is for.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.mesh.as_deref()
    }

    /// The program as StableHLO text, which XLA compiles and [`Imported`](crate::Imported) reads.
    pub fn text(&self) -> String {
        meshwork_ir::text::print(&self.module)
    }

    /// What is likely a mistake though it runs: arrays of many bytes that the function has captured.
    pub fn warnings(&self) -> Vec<String> {
        large_constants(&self.module)
    }

    /// The program placed and split over its mesh.
    pub fn compiled(&self) -> Result<&Compiled> {
        self.needs_mesh()?;
        self.compile(Causes::Operations)
    }

    /// The same with the history of its placements, so that causes name the annotations to blame.
    fn explained(&self) -> Result<&Compiled> {
        self.needs_mesh()?;
        self.compile(Causes::Annotations)
    }

    fn needs_mesh(&self) -> Result<()> {
        if self.mesh.is_none() {
            return Err(JitError::NothingToSplit.into());
        }
        Ok(())
    }

    /// Compiles it at most twice: without a history to run it, and with one when somebody asks. One with a history runs
    /// as well.
    fn compile(&self, causes: Causes) -> Result<&Compiled> {
        let cell = match causes {
            Causes::Operations if self.traced.get().is_none() => &self.compiled,
            Causes::Operations | Causes::Annotations => &self.traced,
        };
        if let Some(done) = cell.get() {
            return Ok(done);
        }
        let _working = self.working();
        if let Some(done) = cell.get() {
            return Ok(done);
        }
        let module = self.named();
        let machine = self.machine.clone();
        let options = CompileOptions { causes, machine, ..CompileOptions::default() };
        let done = compile(&module, &options)?;
        Ok(cell.get_or_init(|| done))
    }

    /// The lock of those who compile or load. It guards no data, so a panic of its holder does no harm.
    fn working(&self) -> MutexGuard<'_, ()> {
        self.working.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why a value is placed as it is: for each dimension the operations that its axes came through, back to what was
    /// annotated, and the axes that it did not take.
    ///
    /// The name is the path of an argument (`0/w`), `result` or the path of one (`result/1`), a name given by
    /// [`annotate`](crate::annotate), or a line of the program (`train.rs:42`).
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let f = jit(|a: Tensor, b: Tensor| a.matmul(&b)).on(&mesh).in_shardings([P!["x"], P![]]);
    /// let lowered = f.lower((&Array::zeros([8, 2], F32), &Array::zeros([2, 4], F32)))?;
    /// let why = lowered.why("result")?;
    /// assert!(why.contains(r#"dimension 0 (8): split by "x""#));
    /// assert!(why.contains("annotated: argument 0 (0)"));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn why(&self, name: &str) -> Result<String> {
        let compiled = self.explained()?;
        let Some(provenance) = &compiled.provenance else { return Ok(String::new()) };
        let values = self.find(&provenance.module, name)?;
        let explainer = Explainer { written: &self.module, provenance };
        Ok(values.into_iter().map(|v| explainer.explain(v, None)).collect())
    }

    /// The values of `module`, a stage of this program, that `name` stands for.
    fn find(&self, module: &Module, name: &str) -> Result<Vec<ValueId>> {
        let body = module.entry().and_then(|f| module.body_of(f, 0));
        let (args, returned) = body.map_or((&[][..], &[][..]), |b| (module.block(b).args(), module.returned(b)));
        let argument = self.names.arguments.iter().position(|n| **n == *name).and_then(|i| args.get(i));
        let result = || self.names.results.iter().position(|n| n == name).and_then(|i| returned.get(i));
        if let Some(&v) = argument.or_else(result) {
            return Ok(vec![v]);
        }
        let here = |op: OpId| {
            let loc = &module.op(op).loc;
            loc_name(loc).is_some_and(|n| n == name || n.strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
                || loc.source().is_some_and(|(file, line, _)| {
                    name.rsplit_once(':').is_some_and(|(f, l)| file.ends_with(f) && l.parse() == Ok(line))
                })
        };
        let ops = module.all_ops(Walk::PreOrder).into_iter().filter(|&op| here(op));
        let ops = ops.filter(|&op| {
            !matches!(module.op(op).kind(), OpKind::Control(ControlOp::Func) | OpKind::Sdy(SdyOp::DataFlowEdge))
        });
        let found: Vec<ValueId> = ops.flat_map(|op| module.op(op).results().to_vec()).collect();
        if found.is_empty() {
            let Names { arguments, results } = self.names.clone();
            return Err(JitError::UnknownName { name: name.into(), arguments, results }.into());
        }
        Ok(found)
    }

    /// Every collective with its cause, and the memory a device needs.
    pub fn plan(&self) -> Result<&Plan> {
        Ok(&self.explained()?.plan)
    }

    /// Holds the plan to a contract: an error names the collective that breaks it and its cause.
    pub fn check(&self, contract: &Contract) -> Result<()> {
        Ok(self.plan()?.check(contract)?)
    }

    /// The plan as a table for people.
    pub fn explain(&self) -> Result<String> {
        let mut text = table(self.explained()?, &self.machine, Detail::Short);
        for warning in self.warnings() {
            text.push_str(&format!("\nwarning: {warning}\n"));
        }
        Ok(text)
    }

    /// A predicted run on the machine of the [`jit`](crate::jit): time, what of it is waiting, memory, every operation.
    ///
    /// ```
    /// use meshwork::{Machine, prelude::*};
    ///
    /// let mesh = Mesh::linear("x", 8)?;
    /// let (x, w) = (Array::shape_only([4096, 8192], BF16), Array::shape_only([8192, 8192], BF16));
    /// let layer = jit(|x: Tensor, w: Tensor| x.matmul(&w)).on(&mesh).in_shardings([P![_, "x"], P!["x"]]);
    /// let h100 = Machine::named("h100").expect("a machine that is known");
    /// let run = layer.machine(h100).lower((&x, &w))?.simulate()?;
    /// assert!(run.exposed_seconds() > 0.0 && run.seconds > run.compute_seconds);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn simulate(&self) -> Result<Simulation> {
        Ok(simulate(self.compiled()?, &self.machine))
    }

    /// One HTML file that shows the program, the blocks of its values, its communication with the reasons, its memory and its
    /// predicted time. It needs no server and no network.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let f = jit(|a: Tensor| a.sum_all()).on(&mesh).in_shardings([P!["x"]]);
    /// let page = f.lower(&Array::zeros([8], F32))?.explore("sum")?;
    /// assert!(page.html().contains("<title>sum"));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn explore(&self, title: &str) -> Result<Page> {
        let program = Program::compile(self.named(), None, &self.machine, CompileOptions::default().combine_bytes)?;
        Ok(Page::new(title, &program))
    }

    /// The program with the placement of every value, as text.
    pub fn placed_text(&self) -> Result<String> {
        Ok(meshwork_ir::text::print(&self.explained()?.placed))
    }

    /// The program that each device runs, as text.
    pub fn device_text(&self) -> Result<String> {
        Ok(meshwork_ir::text::print(&self.compiled()?.module))
    }

    /// What `engine` says about how it runs the program.
    pub(crate) fn notes(&self, engine: &dyn Engine) -> Result<Vec<String>> {
        Ok(engine.notes(self.compile(Causes::Operations)?))
    }

    /// The program on `engine`, which is the same in every call.
    pub(crate) fn load(&self, engine: &dyn Engine) -> Result<&Arc<dyn Executable>> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let compiled = self.compile(Causes::Operations)?;
        let _working = self.working();
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!("load").entered();
        let loaded = engine.load(compiled)?;
        Ok(self.loaded.get_or_init(|| loaded))
    }

    /// Runs it on global arrays and notes what runs when.
    pub(crate) fn run_profiled(&self, engine: &dyn Engine, inputs: Vec<Array>) -> Result<(Vec<Array>, Profile)> {
        Ok(self.load(engine)?.run_profiled(inputs)?)
    }

    /// Runs it on global arrays; the engine is the same in every call.
    pub(crate) fn run(&self, engine: &dyn Engine, inputs: Vec<Array>) -> Result<Vec<Array>> {
        let loaded = self.load(engine)?;
        #[cfg(feature = "tracing")]
        let _span = tracing::info_span!("run").entered();
        Ok(loaded.run(inputs)?)
    }
}
