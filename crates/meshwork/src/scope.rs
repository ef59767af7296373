//! Values in scope: what traced code may read beside its arguments. Programs are cached by them too.

use std::any::Any;
use std::cell::RefCell;
use std::fmt::Debug;
use std::sync::Arc;

use meshwork_mesh::Mesh;

/// The mesh of programs that have none of their own.
#[derive(Clone, Debug)]
pub(crate) struct MeshInScope(pub(crate) Arc<Mesh>);

/// A value, and itself as text.
type InScope = (Box<dyn Any>, String);

thread_local! {
    static SCOPE: RefCell<Vec<InScope>> = const { RefCell::new(vec![]) };
}

/// Ends the scope of a value, also by unwinding.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        SCOPE.with_borrow_mut(Vec::pop);
    }
}

/// Runs `work` with `value` in scope, in place of one of the same type. Scopes belong to a thread. Values that differ must
/// differ as text.
pub(crate) fn with<T: Debug + 'static, R>(value: T, work: impl FnOnce() -> R) -> R {
    let text = format!("{value:?}");
    SCOPE.with_borrow_mut(|scope| scope.push((Box::new(value), text)));
    let _leave = Leave;
    work()
}

/// The value of a type in scope.
pub(crate) fn current<T: Clone + 'static>() -> Option<T> {
    SCOPE.with_borrow(|scope| scope.iter().rev().find_map(|(value, _)| value.downcast_ref::<T>()).cloned())
}

/// Everything in scope as text, innermost last.
pub(crate) fn describe(out: &mut String) {
    SCOPE.with_borrow(|scope| {
        for (i, (value, text)) in scope.iter().enumerate() {
            let is_hidden = |(other, _): &InScope| (**other).type_id() == (**value).type_id();
            if !scope[i + 1..].iter().any(is_hidden) {
                out.push_str(text);
            }
        }
    });
}
