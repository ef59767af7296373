//! What if: the plan of an annotated program on another mesh, another machine or with another batch.

use meshwork_ir::Module;
use meshwork_mesh::Mesh;
use meshwork_partition::{CompileError, Machine, Plan, mesh_of};

use crate::error::PlannerError;
use crate::judge::{Verdict, plan_of};
use crate::scale::scale_batch;
use crate::space::declare_mesh;

/// What may be different.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The machine.
    pub machine: Machine,
    /// The mesh; the program's own if there is none. Annotations stay, so it needs the axes that they name.
    pub mesh: Option<Mesh>,
    /// How many times as large the batch is.
    pub batch: Option<f64>,
}

/// What a case comes to.
pub struct Outcome {
    /// What the plan costs.
    pub verdict: Verdict,
    /// The plan.
    pub plan: Plan,
}

/// Plans `module`, with the annotations that it has, as `case` says.
///
/// ```
/// use meshwork_mesh::Mesh;
/// use meshwork_planner::{Case, what_if};
///
/// let text = r#"sdy.mesh @mesh = <["x"=2]>
///   func.func @main(%a: tensor<1024x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<64x64xf32> {
///   %0 = stablehlo.dot_general %a, %a, contracting_dims = [0] x [0] : (tensor<1024x64xf32>, tensor<1024x64xf32>) -> tensor<64x64xf32>
///   return %0 : tensor<64x64xf32> }"#;
/// let module = meshwork_ir::text::parse(text)?;
/// let as_it_is = what_if(&module, &Case::default())?;
/// let on_eight = what_if(&module, &Case { mesh: Some(Mesh::linear("x", 8)?), ..Case::default() })?;
/// assert!(on_eight.verdict.compute < as_it_is.verdict.compute);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn what_if(module: &Module, case: &Case) -> Result<Outcome, PlannerError> {
    let mut changed = match case.batch {
        Some(times) => scale_batch(module, times)?,
        None => module.clone(),
    };
    if let Some(mesh) = &case.mesh {
        declare_mesh(&mut changed, mesh);
    } else if mesh_of(module).is_none() {
        return Err(PlannerError::NoMesh);
    }
    let failed = |e: CompileError| PlannerError::Compile(e.to_string());
    let (verdict, plan) = plan_of(&changed, &case.machine).map_err(failed)?;
    Ok(Outcome { verdict, plan })
}
