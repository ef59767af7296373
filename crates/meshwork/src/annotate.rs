//! Named values: the program names them, its caller places them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use meshwork_ir::LocKind;

use crate::Tensor;
use crate::error::{JitError, Result, fail};
use crate::rule::{Leaf, Rule};
use crate::spec::MESH;
use crate::trace::{Placing, Trace, with_top};
use crate::tree::{Path, Tree, replace};

/// The placements of named values, and which names the program has.
#[derive(Debug, Default)]
pub(crate) struct Annotations {
    pub(crate) rules: BTreeMap<String, Rule>,
    met: RefCell<BTreeSet<String>>,
    /// The number of `shard_alike` groups so far.
    groups: Cell<i64>,
}

impl Annotations {
    /// With these placements.
    pub(crate) fn new(rules: &BTreeMap<String, Rule>) -> Annotations {
        Annotations { rules: rules.clone(), ..Annotations::default() }
    }

    /// The number of a new `shard_alike` group.
    pub(crate) fn next_group(&self) -> i64 {
        self.groups.replace(self.groups.get() + 1)
    }

    /// Every placement belongs to a value of the program.
    pub(crate) fn check_used(&self) -> Result<()> {
        let met = self.met.borrow();
        match self.rules.keys().find(|name| !met.contains(*name)) {
            None => Ok(()),
            Some(name) => {
                let annotated = met.iter().cloned().collect();
                Err(JitError::UnusedAnnotation { name: name.clone(), annotated }.into())
            }
        }
    }
}

/// `x`, a tensor or a tree of them, under a name: [`Jit::annotations`](crate::Jit::annotations) says how it is placed.
///
/// So a model can be written without knowing any mesh. A value without a placement is only named:
/// [`Lowered::why`](crate::Lowered::why) knows the name.
///
/// ```
/// use meshwork::prelude::*;
///
/// let model = |x: Tensor| annotate("hidden", x.sin()) * 2.0;
/// let x = Array::from_fn([8], |i| i[0] as f32);
/// let one = jit(model).call(&x)?;
///
/// let mesh = Mesh::linear("x", 4)?;
/// let four = jit(model).on(&mesh).annotations([("hidden", P!["x"])]);
/// assert!(four.call(&x)?.all_close(&one, 1e-6));
///
/// let wrong = jit(model).on(&mesh).annotations([("hiden", P!["x"])]);
/// let error = wrong.call(&x).unwrap_err().to_string();
/// assert!(error.starts_with(r#"jit: annotations has "hiden", but the program annotates "hidden""#));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn annotate<T: Tree>(name: &str, x: T) -> T {
    let mut tensors: Vec<(String, Tensor)> = vec![];
    x.tensors(&mut Path::default(), &mut |p, t| tensors.push((p.to_string(), t.clone())));
    let paths: Vec<&str> = tensors.iter().map(|(path, _)| path.as_str()).collect();
    let unused = |trace: &mut Trace| trace.annotations.rules.get(name)?.check_names(&paths).err();
    if let Some(e) = with_top("annotate", unused) {
        fail("annotate", e.to_string());
    }
    let mut placed = vec![];
    for (path, tensor) in tensors {
        let full = if path.is_empty() { name.to_string() } else { format!("{name}/{path}") };
        placed.push(hold(name, &full, &path, &tensor));
    }
    replace(&x, &placed)
}

#[track_caller]
fn hold(name: &str, full: &str, path: &str, x: &Tensor) -> Tensor {
    with_top("annotate", |trace| {
        let annotations = trace.annotations.clone();
        annotations.met.borrow_mut().insert(name.to_string());
        let Placing::On(mesh) = trace.placing.clone() else { return x.clone() };
        let rule = annotations.rules.get(name).unwrap_or(&Rule::Free);
        let spec = match rule.spec(&Leaf::new(path, &x.ty), &mesh) {
            Ok(Some(spec)) => spec,
            Ok(None) => {
                let value = trace.resolve("annotate", x);
                // An argument has its path for a name.
                if let Some(op) = trace.module.def_op(value) {
                    let op = trace.module.op_mut(op);
                    op.loc = LocKind::Name { name: full.into(), child: Some(op.loc.clone()) }.into();
                }
                return x.clone();
            }
            Err(e) => trace.fail("annotate", e.to_string()),
        };
        let sharding = match spec.sharding(MESH.into(), &mesh, x.rank()) {
            Ok(sharding) => sharding,
            Err(e) => fail("annotate", format!("{spec} for {full:?}, {}: {e}", x.describe())),
        };
        if let Some(axis) = trace.manual_axis(&sharding) {
            trace.fail("annotate", format!("{spec} for {full:?} names {axis}, which is manual here"));
        }
        let value = trace.resolve("annotate", x);
        let child = Some(trace.loc());
        let held = trace.build("annotate", |b| {
            b.set_loc(LocKind::Name { name: full.into(), child }.into());
            b.sharding_constraint(value, sharding)
        });
        trace.tensor("annotate", held)
    })
}
