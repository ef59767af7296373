//! Functions that `jit` takes: closures of up to six trees.

use crate::tree::{Path, Tree, Visit};
use crate::{Array, Tensor};

/// A function from trees to a tree. `A` is the tuple of its arguments.
#[diagnostic::on_unimplemented(
    message = "`jit` cannot trace this function",
    label = "not a function of up to six trees of tensors that returns one",
    note = "arguments and result are tensors, tuples, `Vec`, `Option`, maps, or structs with `#[derive(Tree)]`; other values are wrapped in `Static`",
    note = "write the types of the arguments: `jit(|x: Tensor, n: Static<i64>| ..)`",
    note = "it returns tensors, no `Result`: a misused tensor ends the trace, and `call` returns the error",
    note = "an `Array` is given to `call`; inside, its place is taken by a `Tensor`"
)]
pub trait Function<A> {
    /// References to the arguments on the host: `&x` for one, a tuple of references for several.
    type Args<'a>: Copy;
    /// What it returns.
    type Output: Tree;
    /// How many arguments it takes.
    const COUNT: usize;

    /// Shows each array of the arguments.
    fn visit(args: Self::Args<'_>, path: &mut Path, visit: &mut dyn Visit);
    /// Calls it with tensors in place of the arrays.
    fn call(&self, args: Self::Args<'_>, next: &mut dyn FnMut(&Array) -> Tensor) -> Self::Output;
}

impl<F, X, O> Function<(X,)> for F
where
    F: Fn(X) -> O,
    X: Tree,
    X::Host: 'static,
    O: Tree,
{
    type Args<'a> = &'a X::Host;
    type Output = O;
    const COUNT: usize = 1;

    fn visit(args: &X::Host, path: &mut Path, visit: &mut dyn Visit) {
        path.member(0, |p| X::visit_host(args, p, visit));
    }

    fn call(&self, args: &X::Host, next: &mut dyn FnMut(&Array) -> Tensor) -> O {
        self(X::from_host(args, next))
    }
}

macro_rules! functions {
    ($($count:literal: $($name:ident $index:tt),*;)*) => {
        $(
            impl<Func, $($name,)* O> Function<($($name,)*)> for Func
            where
                Func: Fn($($name),*) -> O,
                $($name: Tree, $name::Host: 'static,)*
                O: Tree,
            {
                type Args<'a> = ($(&'a $name::Host,)*);
                type Output = O;
                const COUNT: usize = $count;

                fn visit(args: Self::Args<'_>, path: &mut Path, visit: &mut dyn Visit) {
                    $(path.member($index, |p| $name::visit_host(args.$index, p, visit));)*
                }

                fn call(&self, args: Self::Args<'_>, next: &mut dyn FnMut(&Array) -> Tensor) -> O {
                    self($($name::from_host(args.$index, next)),*)
                }
            }
        )*
    };
}

functions! {
    2: A 0, B 1;
    3: A 0, B 1, C 2;
    4: A 0, B 1, C 2, D 3;
    5: A 0, B 1, C 2, D 3, E 4;
    6: A 0, B 1, C 2, D 3, E 4, F 5;
}
