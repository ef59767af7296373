//! `jit`: traces a function of trees of tensors, places it, splits it and runs it on arrays.

mod auto;
mod cache;
mod place;
mod program;
mod shape;

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;

use meshwork_explore::{Page, Run};
use meshwork_mesh::Mesh;
use meshwork_partition::plan::Machine;
use meshwork_partition::{Contract, Plan};
use meshwork_runtime::{Engine, Profile};
use smol_str::SmolStr;

use self::auto::Auto;
use self::cache::{Cache, Program};
use self::program::Arguments;
use crate::Array;
use crate::donate;
use crate::engine::{FromEnvironment, Place};
use crate::error::{At, JitError, Result};
use crate::function::Function;
use crate::lower::Lowered;
use crate::rule::{Rule, Rules};
use crate::tree::Tree;

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
    donated: Donated,
    contract: Option<Contract>,
    machine: Machine,
    auto: Option<Auto>,
    engine: Arc<dyn Engine>,
    cache: Cache<F::Output>,
}

/// The arguments whose memory the results may take.
#[derive(Clone, Debug)]
enum Donated {
    /// By number.
    Arguments(Vec<usize>),
    /// Members of the only argument, a tuple, by number; the argument itself is number 0 if it is none.
    Members(Vec<usize>),
}

/// An array of the arguments and its path.
pub(crate) type NamedArray = (SmolStr, Array);

/// Makes a function of tensors into one of arrays.
///
/// The function is traced once for each combination of structure, shapes, element types, static values and
/// placements of its arguments, and of the [mapping of named axes](crate::named::axis_mapping) in scope. The programs
/// used last are kept, 256 unless [`cache_limit`](Jit::cache_limit) says otherwise. It runs on one device, or, with a mesh, split over its devices. The mesh comes from
/// [`on`](Jit::on) or from the arguments.
///
/// Misusing a tensor inside the function, such as multiplying matrices of the wrong shapes, ends the trace, and
/// the call returns an [`Error`](crate::Error) with the operation, the shapes and the line.
///
/// Threads can share it if the function can be shared (is `Sync`). Each call traces on its own thread; of two threads
/// that trace the same program at once, the first to finish wins and both run its program.
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
        donated: Donated::Arguments(vec![]),
        contract: None,
        machine: Machine::default(),
        auto: None,
        engine: Arc::new(FromEnvironment),
        cache: Cache::default(),
    }
}

impl<A, F: Function<A>> Jit<F, A> {
    /// With another option, which the programs traced so far do not have.
    fn with(mut self, set: impl FnOnce(&mut Self)) -> Self {
        set(&mut self);
        self.cache = self.cache.cleared();
        self
    }

    /// Splits the program over `mesh`: a [`Mesh`], or one of the [devices of an engine](crate::Devices), on which it then
    /// runs.
    pub fn on(self, mesh: &impl Place) -> Self {
        self.with(|jit| {
            (jit.mesh, jit.single) = (Some(Arc::new(mesh.mesh().clone())), false);
            if let Some(engine) = mesh.engine() {
                jit.engine = engine;
            }
        })
    }

    /// Runs on one device, whatever placements the program and its arguments have.
    pub fn single_device(self) -> Self {
        self.with(|jit| jit.single = true)
    }

    /// How each argument is placed, in place of the placements that arrays bring: a [`P`](struct@crate::P)
    /// for all of its arrays, or a [`Rule`].
    pub fn in_shardings(self, rules: impl Rules) -> Self {
        self.with(|jit| jit.ins = Some(rules.rules()))
    }

    /// How each result is placed: one rule for a result that is not a tuple, else one per member.
    pub fn out_shardings(self, rules: impl Rules) -> Self {
        self.with(|jit| jit.outs = Some(rules.rules()))
    }

    /// How each argument is placed inside the program, wherever it comes from: a constraint on its first use. With
    /// [`in_shardings`](Jit::in_shardings) an array that is placed differently is moved before the program starts,
    /// with this as its first step.
    pub fn constrain(self, rules: impl Rules) -> Self {
        self.with(|jit| jit.constraints = Some(rules.rules()))
    }

    /// How the values that the program names by [`annotate`](crate::annotate) are placed. A name that the program does
    /// not have is an error; one that is not given here is only a name.
    pub fn annotations<'n, R: Into<Rule>>(self, rules: impl IntoIterator<Item = (&'n str, R)>) -> Self {
        let rules = rules.into_iter().map(|(name, rule)| (name.to_string(), rule.into())).collect();
        self.with(|jit| jit.annotations = rules)
    }

    /// Gives the memory of these arguments, by number, to the results: an update happens in place. The call
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
    pub fn donate(self, arguments: impl IntoIterator<Item = usize>) -> Self {
        self.with(|jit| jit.donated = Donated::Arguments(arguments.into_iter().collect()))
    }

    /// As [`donate`](Jit::donate), for members of the only argument, which is a tuple.
    pub(crate) fn donate_members(self, members: &[usize]) -> Self {
        self.with(|jit| jit.donated = Donated::Members(members.to_vec()))
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
    pub fn contract(self, contract: Contract) -> Self {
        self.with(|jit| jit.contract = Some(contract))
    }

    /// The speed of devices and of the links between them. Of several ways to split a program, the fastest by these
    /// rates is taken, and [`explain`](Jit::explain) estimates times from them.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let (x, w) = (Array::zeros([512, 64], F32), Array::zeros([64, 4096], F32));
    /// let plan = |rates: &str| {
    ///     let product = jit(|x: Tensor, w: Tensor| x.matmul(&w)).on(&mesh).in_shardings([P![_, "x"], P![]]);
    ///     product.machine(rates.parse().expect("rates of a machine")).plan((&x, &w))
    /// };
    /// // Slow links: gather the small operand and repeat the product. Slow devices: add up parts of the product.
    /// assert!(plan("* 1 1\ndevice=100,1000")?.totals().contains_key("all-gather"));
    /// assert!(plan("* 1 1000\ndevice=0.001,1000")?.totals().contains_key("all-reduce"));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn machine(self, machine: Machine) -> Self {
        self.with(|jit| jit.machine = machine)
    }

    /// Runs on another engine than the [`Cpu`](crate::Cpu), or the one that the variable `MESHWORK_ENGINE` names: the evaluator ([`Reference`](crate::Reference)), or any other
    /// [`Engine`].
    pub fn engine(self, engine: impl Engine + 'static) -> Self {
        self.with(|jit| jit.engine = Arc::new(engine))
    }

    /// Keeps at most `programs` programs, at least one. When another is traced, the one whose last call is longest ago
    /// is dropped, and traced again if it is called again.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let double = jit(|x: Tensor| x * 2.0).cache_limit(8);
    /// for n in 1..100 {
    ///     double.call(&Array::zeros([n], F32))?;
    /// }
    /// assert_eq!(double.cached(), 8);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn cache_limit(mut self, programs: usize) -> Self {
        self.cache = Cache::of(programs);
        self
    }

    /// How many programs it holds.
    pub fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Runs the function.
    #[track_caller]
    pub fn call(&self, args: F::Args<'_>) -> Result<<F::Output as Tree>::Host> {
        let at = Location::caller();
        self.run(args, At(at)).map_err(|e| e.at(at))
    }

    fn run(&self, args: F::Args<'_>, at: At) -> Result<<F::Output as Tree>::Host> {
        let arguments = self.arguments(args);
        let entry = self.entry(args, &arguments, at)?;
        let run = |lowered: &Lowered, inputs| Ok((lowered.run(&*self.engine, inputs)?, ()));
        Ok(Self::run_on(&entry, arguments, at, run)?.0)
    }

    /// Runs the function and notes what ran when: the steps and collectives of each device, on which thread, and how long each
    /// took. The first call of a program also compiles it, which is not part of the profile.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let f = jit(|x: Tensor| x.tanh().sum_all()).on(&mesh).in_shardings([P!["x"]]);
    /// let run = f.profile(&Array::zeros([8], F32))?;
    /// assert_eq!(run.results.item::<f32>()?, 0.0);
    /// println!("{}", run.profile.table(10));
    /// let trace = run.profile.chrome_trace(); // for Perfetto
    /// # assert!(trace.contains("traceEvents"));
    /// let page = run.page()?; // the program, its plan and this run
    /// # assert!(page.html().len() > trace.len());
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn profile(&self, args: F::Args<'_>) -> Result<Profiled<F::Output>> {
        let at = Location::caller();
        let run = || {
            let arguments = self.arguments(args);
            let entry = self.entry(args, &arguments, At(at))?;
            let run = |lowered: &Lowered, inputs| lowered.run_profiled(&*self.engine, inputs);
            let (results, profile) = Self::run_on(&entry, arguments, At(at), run)?;
            Ok(Profiled { results, profile, program: LoweredFor(entry), at })
        };
        run().map_err(|e: crate::Error| e.at(at))
    }

    /// Runs a program by `run`, which also returns something of its own.
    fn run_on<R>(
        entry: &Program<F::Output>,
        arguments: Arguments,
        at: At,
        run: impl FnOnce(&Lowered, Vec<Array>) -> Result<(Vec<Array>, R)>,
    ) -> Result<(<F::Output as Tree>::Host, R)> {
        let (lowered, out) = &**entry;
        for (path, array) in &arguments.leaves {
            array
                .check_present()
                .map_err(|e| JitError::Argument { argument: path.to_string(), error: Box::new(e.into()) })?;
        }
        let inputs = donate::take_inputs(arguments.leaves, lowered.donated(), at)?;
        let (results, own) = run(lowered, inputs)?;
        let wanted = lowered.result_count();
        if results.len() != wanted {
            return Err(JitError::ResultCount { given: results.len(), wanted }.into());
        }
        let mut next = results.into_iter();
        // As many arrays as the tree has tensors, as counted above.
        Ok((out.to_host(&mut |_| next.next().expect("an array for each tensor")), own))
    }

    /// Does all that a first call does but run: traces, places, splits and loads the program for these arguments, which
    /// may be [only shapes](Array::shape_only). A call with such arguments then only runs it.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let double = jit(|x: Tensor| x * 2.0);
    /// double.compile(&Array::shape_only([1000], F32))?;
    /// assert_eq!(double.cached(), 1);
    /// double.call(&Array::zeros([1000], F32))?;
    /// assert_eq!(double.cached(), 1);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn compile(&self, args: F::Args<'_>) -> Result<LoweredFor<F::Output>> {
        let at = Location::caller();
        let lowered = self.lower(args)?;
        lowered.load(&*self.engine).map_err(|e| e.at(at))?;
        Ok(lowered)
    }

    /// The program for these arguments, which may be [only shapes](Array::shape_only).
    #[track_caller]
    pub fn lower(&self, args: F::Args<'_>) -> Result<LoweredFor<F::Output>> {
        let at = Location::caller();
        let entry = self.entry(args, &self.arguments(args), At(at));
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

    /// A page that shows the program, its shardings and its plan; see [`Lowered::explore`].
    ///
    /// ```no_run
    /// # use meshwork::prelude::*;
    /// # fn page() -> Result<(), Box<dyn std::error::Error>> {
    /// let step = jit(|x: Tensor, w: Tensor| x.matmul(&w)).on(&Mesh::linear("x", 4)?).in_shardings([P!["x"], P![]]);
    /// step.explore((&Array::zeros([8, 2], F32), &Array::zeros([2, 4], F32)))?.write("page.html")?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn explore(&self, args: F::Args<'_>) -> Result<Page> {
        let at = Location::caller();
        self.lower(args)?.explore(&title(at))
    }

    /// The plan as a table for people, and what the engine [notes](Jit::notes) about the program.
    #[track_caller]
    pub fn explain(&self, args: F::Args<'_>) -> Result<String> {
        let lowered = self.lower(args)?;
        let mut text = lowered.explain()?;
        for note in lowered.notes(&*self.engine)? {
            text.push_str(&format!("\nnote: {note}\n"));
        }
        Ok(text)
    }

    /// What the engine says about how it runs the program for these arguments: on a GPU that it multiplies `f32` in TF32, for
    /// instance, or on the CPU which steps are slow: gathers of single elements, sorts by comparators that it does not know.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let product = jit(|x: Tensor, y: Tensor| x.matmul(&y));
    /// let x = Array::zeros([4, 4], F32);
    /// assert!(product.notes((&x, &x))?.is_empty());
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn notes(&self, args: F::Args<'_>) -> Result<Vec<String>> {
        self.lower(args)?.notes(&*self.engine)
    }
}

/// A run with what ran when. Made by [`Jit::profile`].
pub struct Profiled<O: Tree> {
    /// What the function returned.
    pub results: O::Host,
    /// What ran when, as a table or as a trace for Chrome and Perfetto.
    pub profile: Profile,
    program: LoweredFor<O>,
    at: &'static Location<'static>,
}

/// What a page is called: the file and line that asked for it.
fn title(at: &Location<'_>) -> String {
    let file = std::path::Path::new(at.file()).file_name().map_or("program".into(), |name| name.to_string_lossy());
    format!("{file}:{}", at.line())
}

impl<O: Tree> Profiled<O> {
    /// Shows the table of the run in a notebook of evcxr; [`page`](Profiled::page) shows everything.
    pub fn evcxr_display(&self) {
        self.profile.evcxr_display();
    }

    /// A page that shows the program and its plan, with this run beside the simulated one; see [`Lowered::explore`].
    pub fn page(&self) -> Result<Page> {
        let run = Run::parse(&self.profile.chrome_trace()).expect("a trace that was just written");
        Ok(self.program.explore(&title(self.at))?.with_run(&run))
    }
}

/// A program for certain arguments; see [`Lowered`].
pub struct LoweredFor<O>(Program<O>);

impl<O> std::ops::Deref for LoweredFor<O> {
    type Target = Lowered;

    fn deref(&self) -> &Lowered {
        &self.0.0
    }
}
