//! What a program is compared with: another program, or a lock file.

use meshwork_partition::Lock;
use serde_json::{Value, json};

use crate::program::Program;

/// What a program is compared with.
pub enum Against {
    /// A plan that was kept in a lock file.
    Lock(Lock),
    /// Another program, or the same on another mesh.
    Program(Box<Program>),
}

impl Against {
    /// The facts of both plans and what changed, as `explain --check` says it.
    pub(crate) fn data(&self, name: &str, program: &Program) -> Value {
        let now = Lock::of(&program.compiled.plan);
        let other;
        let was = match self {
            Against::Lock(lock) => lock,
            Against::Program(program) => {
                other = Lock::of(&program.compiled.plan);
                &other
            }
        };
        let changes = was.changes(&now);
        json!({
            "name": name,
            "was": was.facts(),
            "is": now.facts(),
            "changes": changes.iter().map(|c| json!([c.name, c.was, c.is])).collect::<Value>(),
            "text": match self {
                Against::Lock(_) => Value::Null,
                Against::Program(program) => program.text.as_str().into(),
            },
        })
    }
}
