//! Values are defined before they are used, in the same block or around it.

use super::Check;
use crate::{Diagnostic, Module, OpId, Trait};

/// Which values can be named at the current place.
///
/// Each value carries the number of the isolated operation it can be named in; zero means nowhere.
pub(super) struct Visible<'m> {
    module: &'m Module,
    scope_of: Vec<u32>,
    scope: u32,
    scopes: u32,
    /// The isolated operations around the current place, outermost first.
    isolated: Vec<OpId>,
}

impl<'m> Visible<'m> {
    pub(super) fn new(module: &'m Module) -> Visible<'m> {
        Visible { module, scope_of: vec![0; module.value_slots()], scope: 1, scopes: 1, isolated: vec![] }
    }

    /// Checks the operands of `op` and of everything in it, then lets its results be named.
    pub(super) fn check_op(&mut self, op: OpId) -> Check {
        let module = self.module;
        let data = module.op(op);
        for (i, v) in data.operands().iter().enumerate() {
            if self.scope_of[v.index()] != self.scope {
                return Err(self.undefined(op, i));
            }
        }
        if !data.regions().is_empty() {
            self.check_bodies(op)?;
        }
        for v in data.results() {
            self.scope_of[v.index()] = self.scope;
        }
        Ok(())
    }

    fn check_bodies(&mut self, op: OpId) -> Check {
        let module = self.module;
        let outer = self.scope;
        let isolated = module.op(op).kind().has(Trait::Isolated);
        if isolated {
            self.scopes += 1;
            self.scope = self.scopes;
            self.isolated.push(op);
        }
        for &region in module.op(op).regions() {
            for &block in module.region(region).blocks() {
                for v in module.block(block).args() {
                    self.scope_of[v.index()] = self.scope;
                }
                for inner in module.ops_in(block) {
                    self.check_op(inner)?;
                }
            }
            // What a body defines cannot be named after it.
            for &block in module.region(region).blocks() {
                let results = module.ops_in(block).flat_map(|inner| module.op(inner).results());
                for v in module.block(block).args().iter().chain(results) {
                    self.scope_of[v.index()] = 0;
                }
            }
        }
        self.scope = outer;
        if isolated {
            self.isolated.pop();
        }
        Ok(())
    }

    fn undefined(&self, op: OpId, operand: usize) -> Diagnostic {
        let module = self.module;
        let value = module.op(op).operands()[operand];
        let def = module.def_op(value);
        let from = match def {
            Some(def) => format!("a result of {}", module.describe(def)),
            None => "a block argument".into(),
        };
        let name = module.op(op).name();
        // Named in another scope: it is defined, but around an isolated operation.
        let around = self.isolated.last().filter(|_| self.scope_of[value.index()] != 0);
        let message = match around {
            Some(&owner) => {
                let owner = module.op(owner).name();
                format!("'{name}' op operand {operand} is {from}, which is outside {owner}: pass it in")
            }
            None => format!("'{name}' op operand {operand} is {from}, which is not defined here"),
        };
        let mut e = Diagnostic::at(module.op(op), message);
        if let Some(&owner) = around {
            e.notes.push((module.op(owner).pos, "its body sees only its own values".into()));
        } else if let Some(def) = def {
            e.notes.push((module.op(def).pos, "operand defined here".into()));
        }
        e
    }
}
