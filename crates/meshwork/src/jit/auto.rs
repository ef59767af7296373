//! `auto`: placements that a search finds, in place of placements that somebody writes.

use std::panic::Location;
use std::sync::Arc;

use meshwork_ir::Module;
use meshwork_partition::plan::Machine;
use meshwork_planner::{Found, Planner};
use meshwork_runtime::Engine;

use super::Jit;
use crate::error::{At, JitError, Result};
use crate::function::Function;

/// What is asked of a planner.
type Ask = dyn for<'p> Fn(Planner<'p>) -> Planner<'p> + Send + Sync;

/// A search for placements.
#[derive(Clone)]
pub(super) struct Auto {
    machine: Machine,
    ask: Arc<Ask>,
}

impl Auto {
    /// What the search finds for `module`, whose mesh is declared, on the machine that was given; if none was, on what `engine`
    /// runs programs on.
    pub(super) fn search(&self, module: &Module, engine: &dyn Engine) -> Result<Found> {
        let own = if self.machine.is_given() { None } else { engine.machine() };
        let machine = own.map_or_else(|| self.machine.clone(), |own| own.within(self.machine.device.capacity));
        Ok((self.ask)(Planner::new(module, &machine)).search()?)
    }
}

impl<A, F: Function<A>> Jit<F, A> {
    /// Searches for the placements that take the least time on `machine`, when the function is traced. Placements that
    /// are given (by [`in_shardings`](Jit::in_shardings), or by arrays that are on the mesh) hold; everything else is free.
    ///
    /// `Machine::default()` stands for a machine that is not given: the search is then for what the engine runs on. For the
    /// [`Cpu`](crate::Cpu) that is this computer, whose cores all devices share; for an engine that does not say, a round accelerator.
    ///
    /// ```
    /// use meshwork::prelude::*;
    /// use meshwork::Machine;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let product = jit(|x: Tensor, w: Tensor| x.matmul(&w).tanh()).on(&mesh).auto(&Machine::default());
    /// let (x, w) = (Array::full([4096, 64], 1.0f32), Array::zeros([64, 64], F32));
    /// // The rows of x are split: nothing is sent.
    /// assert_eq!(product.plan((&x, &w))?.wire_bytes(), 0.0);
    /// assert_eq!(product.call((&x, &w))?.shape(), [4096, 64]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn auto(self, machine: &Machine) -> Self {
        self.auto_with(machine, |planner| planner)
    }

    /// As [`auto`](Jit::auto), with constraints on what is found, or with more or less time to find it.
    ///
    /// ```
    /// use meshwork::prelude::*;
    /// use meshwork::Machine;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let product = jit(|x: Tensor, w: Tensor| x.matmul(&w)).on(&mesh);
    /// // x may not be split: the columns of w are.
    /// let product = product.auto_with(&Machine::default(), |planner| planner.fix("^0$", P![]).evaluations(100));
    /// let (x, w) = (Array::full([256, 64], 1.0f32), Array::zeros([64, 4096], F32));
    /// let found = product.search((&x, &w))?;
    /// println!("{}", found.text());
    /// assert_eq!(found.why("^1$").expect("a pattern").lines().count(), 1);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn auto_with(
        self,
        machine: &Machine,
        ask: impl for<'p> Fn(Planner<'p>) -> Planner<'p> + Send + Sync + 'static,
    ) -> Self {
        let auto = Auto { machine: machine.clone(), ask: Arc::new(ask) };
        self.with(|jit| (jit.machine, jit.auto) = (auto.machine.clone(), Some(auto)))
    }

    /// What the search of [`auto`](Jit::auto) finds for these arguments, with reasons and bounds.
    #[track_caller]
    pub fn search(&self, args: F::Args<'_>) -> Result<Found> {
        let at = Location::caller();
        let search = || {
            let arguments = self.arguments(args);
            let mesh = self.mesh_for(&arguments.leaves)?;
            let auto = self.auto.as_ref().ok_or(JitError::NoMesh { options: "search needs .auto(&machine) and" })?;
            if mesh.is_none() {
                return Err(JitError::NoMesh { options: "auto needs" }.into());
            }
            let (lowered, _) = self.traced(args, &arguments.leaves, mesh, At(at))?;
            auto.search(&lowered.named(), &*self.engine)
        };
        search().map_err(|e: crate::Error| e.at(at))
    }
}
