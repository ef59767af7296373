//! Makes any function of a module its entry, for stages that work on the entry function only.

use super::symbol_dce;
use crate::{Attr, Module, OpId, Walk};

/// Renames `func` to `main` and removes the functions that it does not need. A function that is called `main` before
/// and is needed gets another name.
pub fn make_entry(module: &mut Module, func: OpId) {
    for other in module.funcs().collect::<Vec<_>>() {
        let visibility = if other == func { "public" } else { "private" };
        module.op_mut(other).attrs.set("sym_visibility", Attr::str(visibility));
    }
    let is_func: Vec<OpId> = module.funcs().collect();
    symbol_dce::remove_unused(module, |op| is_func.contains(&op));
    if module.symbol_name(func) == Some("main") {
        return;
    }
    if let Some(old) = module.symbol("main") {
        let fresh = (0..).map(|i| format!("main_{i}")).find(|name| module.symbol(name).is_none());
        // The range is endless and the module is not, so there is a free name.
        let fresh = fresh.unwrap_or_default();
        rename(module, old, &fresh);
    }
    rename(module, func, "main");
}

fn rename(module: &mut Module, symbol: OpId, to: &str) {
    let Some(from) = module.symbol_name(symbol).map(str::to_string) else { return };
    for op in module.all_ops(Walk::PreOrder) {
        let calls: Vec<_> = module.op(op).attrs.iter().filter(|(_, a)| a.as_symbol() == Some(&from)).collect();
        let names: Vec<_> = calls.into_iter().map(|(name, _)| name.to_string()).collect();
        for name in names {
            module.op_mut(op).attrs.set(name, Attr::Symbol(to.into()));
        }
    }
    module.op_mut(symbol).attrs.set("sym_name", Attr::str(to));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn the_old_main_steps_aside() {
        let source = "func.func @main() {\n  return\n}\n\
            func.func @unused() {\n  return\n}\n\
            func.func @other() {\n  call @main() : () -> ()\n  return\n}\n";
        let mut module = text::parse(source).unwrap();
        let other = module.func("other").unwrap();
        make_entry(&mut module, other);
        assert_eq!(module.entry(), Some(other));
        let printed = text::print(&module);
        assert!(printed.contains("func.func private @main_0()") && printed.contains("call @main_0()"), "{printed}");
        assert!(!printed.contains("unused"), "{printed}");
    }
}
