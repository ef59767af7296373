//! Lists of rules: arrays and `Vec`s of one type, tuples of several.

use super::Rule;

/// A rule for each argument or result: a list of [`P`](struct@crate::P)s or of [`Rule`]s, or a tuple that mixes them.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::rules::FsdpRule;
///
/// let mesh = Mesh::linear("x", 2)?;
/// let f = jit(|w: Tensor, x: Tensor| x.matmul(&w)).on(&mesh).in_shardings((FsdpRule::new("x").least(1), P!["x"]));
/// let y = f.call((&Array::full([4, 4], 1.0f32), &Array::full([2, 4], 1.0f32)))?;
/// assert_eq!(y.to_vec::<f32>()?, [4.0; 8]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of placements",
    note = "one for each argument: `[P![\"x\"], P![]]`, a `Vec`, or a tuple that mixes kinds, `(P![\"x\"], Rule::Free)`"
)]
pub trait Rules {
    /// The rules, in order.
    fn rules(self) -> Vec<Rule>;
}

impl<R: Into<Rule>, const N: usize> Rules for [R; N] {
    fn rules(self) -> Vec<Rule> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<R: Into<Rule>> Rules for Vec<R> {
    fn rules(self) -> Vec<Rule> {
        self.into_iter().map(Into::into).collect()
    }
}

impl<R: Clone + Into<Rule>> Rules for &[R] {
    fn rules(self) -> Vec<Rule> {
        self.iter().cloned().map(Into::into).collect()
    }
}

impl<R: Clone + Into<Rule>, const N: usize> Rules for &[R; N] {
    fn rules(self) -> Vec<Rule> {
        self[..].rules()
    }
}

impl<R: Clone + Into<Rule>> Rules for &Vec<R> {
    fn rules(self) -> Vec<Rule> {
        self[..].rules()
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),*);)*) => {
        $(
            impl<$($name: Into<Rule>),*> Rules for ($($name,)*) {
                fn rules(self) -> Vec<Rule> {
                    vec![$(self.$index.into()),*]
                }
            }
        )*
    };
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}
