//! What can go wrong in planning.

use thiserror::Error;

/// Why there is no plan.
#[derive(Clone, PartialEq, Error)]
pub enum PlannerError {
    /// The program has no entry function.
    #[error("the program has no entry function; call one of its functions main")]
    NoEntry,
    /// Neither a mesh nor a number of devices is given, and the program has no mesh.
    #[error("the program has no mesh; give one, as data=2,model=4; a search also takes a number of devices")]
    NoMesh,
    /// The program is annotated for another mesh.
    #[error(
        "the program is annotated for {own}, not for {wanted}; plan it afresh, without its annotations, or for its own mesh"
    )]
    OtherMesh {
        /// Its mesh.
        own: String,
        /// The one that is asked for.
        wanted: String,
    },
    /// Time or evaluations were used up before anything was compiled.
    #[error("no plan was made within the limit; give more time or more evaluations")]
    NoTime,
    /// A number of devices that makes no mesh.
    #[error("{devices} devices make no mesh; give at least 1")]
    Devices {
        /// The number.
        devices: i64,
    },
    /// A pattern that is not a regular expression.
    #[error("{constraint}: '{pattern}' is not a pattern: {why}")]
    Pattern {
        /// The constraint it is in.
        constraint: String,
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        why: String,
    },
    /// A constraint that is about nothing.
    #[error("{constraint}: no argument is called so; the arguments: {arguments}")]
    Unmatched {
        /// The constraint.
        constraint: String,
        /// The first names.
        arguments: String,
    },
    /// A constraint that does not fit the program or the mesh.
    #[error("{constraint}: {why}")]
    Misfit {
        /// The constraint.
        constraint: String,
        /// What is wrong.
        why: String,
    },
    /// The text of a constraint that cannot be read.
    #[error("'{text}' is not {wanted}")]
    Text {
        /// The text.
        text: String,
        /// What it should be.
        wanted: &'static str,
    },
    /// The program cannot be compiled with any annotation that was tried.
    #[error("the program does not compile: {0}")]
    Compile(String),
    /// No plan keeps to the limits.
    #[error("{}", infeasible(.missing, .least, .conflict))]
    Infeasible {
        /// The bytes by which the best plan misses the memory limit; 0 if it is not about memory.
        missing: i64,
        /// The least peak that was found.
        least: i64,
        /// The smallest set of constraints found that cannot hold together.
        conflict: Vec<String>,
    },
}

meshwork_mesh::debug_as_display!(PlannerError);

fn infeasible(missing: &i64, least: &i64, conflict: &[String]) -> String {
    use meshwork_partition::plan::human_bytes;
    let mut text = "no plan was found that keeps to the constraints".to_string();
    if *missing > 0 {
        text += &format!(
            "; the one that needs the least memory needs {}, {} more than allowed",
            human_bytes(*least as f64),
            human_bytes(*missing as f64)
        );
    }
    match conflict {
        [] => {}
        [one] => text += &format!("\n  without this there is one: {one}"),
        several => {
            text += &format!("\n  these cannot hold together: {}", several.join("; "));
            text += "\n  without any one of them there is a plan";
        }
    }
    text
}
