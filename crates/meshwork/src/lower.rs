//! A traced program: its text, its plan, and what running it needs.

use std::cell::OnceCell;
use std::sync::Arc;

use meshwork_ir::{Literal, Module, Type};
use meshwork_mesh::Mesh;
use meshwork_partition::cost::Links;
use meshwork_partition::explain::{self, Detail};
use meshwork_partition::{Compiled, Contract, Plan, compile};

use crate::engine::{Engine, Program};
use crate::error::{Error, Result};

/// A traced program with the placements it was given. Splitting it happens when it is first asked for.
pub struct Lowered {
    module: Module,
    mesh: Option<Arc<Mesh>>,
    results: Vec<Type>,
    compiled: OnceCell<Compiled>,
}

impl Lowered {
    pub(crate) fn new(module: Module, mesh: Option<Arc<Mesh>>, results: Vec<Type>) -> Lowered {
        Lowered { module, mesh, results, compiled: OnceCell::new() }
    }

    /// The program.
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The mesh it is for.
    pub fn mesh(&self) -> Option<&Mesh> {
        self.mesh.as_deref()
    }

    /// The program as StableHLO text.
    pub fn text(&self) -> String {
        meshwork_ir::text::print(&self.module)
    }

    /// The program placed and split over its mesh.
    pub fn compiled(&self) -> Result<&Compiled> {
        if self.mesh.is_none() {
            return Err(Error::Jit(
                "there is no mesh to split the program over; give jit one with .on(&mesh), or pass an array that is on \
                 one"
                .into(),
            ));
        }
        if let Some(done) = self.compiled.get() {
            return Ok(done);
        }
        let done = compile(&self.module)?;
        Ok(self.compiled.get_or_init(|| done))
    }

    /// Every collective with its cause, and the memory a device needs.
    pub fn plan(&self) -> Result<&Plan> {
        Ok(&self.compiled()?.program.plan)
    }

    /// Holds the plan to a contract: an error names the collective that breaks it and its cause.
    pub fn check(&self, contract: &Contract) -> Result<()> {
        Ok(self.plan()?.check(contract)?)
    }

    /// The plan as a table for people.
    pub fn explain(&self) -> Result<String> {
        Ok(explain::table(self.plan()?, &Links::default(), Detail::Short))
    }

    /// The program with the placement of every value, as text.
    pub fn placed_text(&self) -> Result<String> {
        Ok(meshwork_ir::text::print(&self.compiled()?.placed))
    }

    /// The program that each device runs, as text.
    pub fn device_text(&self) -> Result<String> {
        Ok(meshwork_ir::text::print(&self.compiled()?.program.module))
    }

    pub(crate) fn run(&self, engine: &dyn Engine, inputs: &[Literal]) -> Result<Vec<Literal>> {
        let program = match self.mesh {
            None => Program::Single(&self.module),
            Some(_) => Program::Split(&self.compiled()?.program),
        };
        engine.run(program, inputs, &self.results)
    }
}
