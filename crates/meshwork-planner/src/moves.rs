//! Moves: what is one decision away from an assignment.
//!
//! The list of a space is always the same, so that a search can go on behind the move that it came to, from whatever
//! assignment it is at by then.

use crate::site::SiteKind;
use crate::space::{Assignment, Choice, Space};

/// A change to an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// An axis splits all arguments that have this colour along it.
    Split {
        /// The axis.
        axis: usize,
        /// The colour.
        colour: usize,
    },
    /// What an axis splits along this colour is left to propagation.
    Free {
        /// The axis.
        axis: usize,
        /// The colour.
        colour: usize,
    },
    /// An axis does this to a site.
    Set {
        /// The site.
        site: usize,
        /// The axis.
        axis: usize,
        /// What it does.
        choice: Choice,
    },
    /// Nothing is said about a site.
    Clear {
        /// The site.
        site: usize,
    },
    /// Two axes change places.
    Exchange {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
    },
}

/// All moves of a space: those of `colours`, in this order; those of single sites, arguments first and of these the largest; then
/// exchanges.
pub fn moves(space: &Space, colours: &[usize]) -> Vec<Move> {
    let axes = 0..space.axes();
    let mut out = vec![];
    for axis in axes.clone() {
        for &colour in colours {
            out.extend([Move::Split { axis, colour }, Move::Free { axis, colour }]);
        }
    }
    let mut sites: Vec<usize> = (0..space.sites.len()).collect();
    let is_product = |s: usize| space.sites[s].kind == SiteKind::Product;
    let bytes = |s: usize| space.sites[s].bytes;
    sites.sort_by(|&a, &b| is_product(a).cmp(&is_product(b)).then(bytes(b).total_cmp(&bytes(a))));
    for site in sites {
        for axis in axes.clone() {
            out.extend(space.domains[site][axis].iter().map(|&choice| Move::Set { site, axis, choice }));
        }
        if space.axes() > 1 {
            out.push(Move::Clear { site });
        }
    }
    for second in axes {
        out.extend((0..second).map(|first| Move::Exchange { first, second }));
    }
    out
}

impl Move {
    /// `from` with this change; `None` if it changes nothing or does not fit.
    pub fn apply(self, space: &Space, from: &[Choice]) -> Option<Assignment> {
        let axes = space.axes();
        let mut out = from.to_vec();
        match self {
            Move::Split { axis, colour } => {
                for (s, d) in coloured(space, colour) {
                    if space.domains[s][axis].contains(&d) {
                        out[s * axes + axis] = d;
                    }
                }
            }
            Move::Free { axis, colour } => {
                for (s, d) in coloured(space, colour) {
                    if out[s * axes + axis] == d {
                        out[s * axes + axis] = space.domains[s][axis][0];
                    }
                }
            }
            Move::Set { site, axis, choice } => out[site * axes + axis] = choice,
            Move::Clear { site } => {
                for axis in 0..axes {
                    out[site * axes + axis] = space.domains[site][axis][0];
                }
            }
            Move::Exchange { first, second } => {
                for s in 0..space.sites.len() {
                    out.swap(s * axes + first, s * axes + second);
                }
                let may_be = |i: usize| space.domains[i / axes][i % axes].contains(&out[i]);
                if !(0..out.len()).all(may_be) {
                    return None;
                }
            }
        }
        (out != from && space.fits(&out)).then_some(out)
    }
}

/// The sites of arguments that have `colour`, with the dimension that has it.
fn coloured(space: &Space, colour: usize) -> impl Iterator<Item = (usize, Choice)> + '_ {
    let arguments = space.sites.iter().enumerate().filter(|(_, site)| site.kind != SiteKind::Product);
    arguments.filter_map(move |(s, site)| {
        let d = site.colours.iter().position(|&c| c == colour)?;
        Some((s, Choice::Dim(d as u8)))
    })
}

/// `from` with what `others`, each a few decisions away from it, change; of two that change the same the first counts. `None` if it
/// does not fit.
pub fn together<'a>(
    space: &Space,
    from: &[Choice],
    others: impl IntoIterator<Item = &'a Assignment>,
) -> Option<Assignment> {
    let mut out = from.to_vec();
    for other in others {
        let changed: Vec<usize> = (0..from.len()).filter(|&i| other[i] != from[i]).collect();
        if changed.iter().all(|&i| out[i] == from[i]) {
            changed.into_iter().for_each(|i| out[i] = other[i]);
        }
    }
    space.fits(&out).then_some(out)
}

#[cfg(test)]
mod tests {
    use meshwork_ir::text;
    use meshwork_mesh::Mesh;

    use super::*;
    use crate::problem::{Annotated, Base, Problem};
    use crate::site::Layers;

    fn problem() -> Problem {
        let text = "func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x4xf32>) -> tensor<8x4xf32> {
            %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
            return %0 : tensor<8x4xf32> }";
        let base = Base::of(&text::parse(text).expect("a program"), Annotated::Kept).expect("a program");
        base.on(&Mesh::grid(("a", 2), ("b", 4)).expect("a mesh"), &[], Layers::Auto).expect("a problem")
    }

    #[test]
    fn a_colour_moves_all_arguments_that_have_it() {
        let space = problem().space;
        let nothing = space.nothing();
        // The dimension that is summed over: the columns of x, the rows of w.
        let colour = space.sites[0].colours[1];
        let split = Move::Split { axis: 1, colour }.apply(&space, &nothing).expect("a move");
        let changed: Vec<usize> = (0..split.len()).filter(|&i| split[i] != nothing[i]).collect();
        assert_eq!(changed, [1, 3]);
        assert_eq!((split[1], split[3]), (Choice::Dim(1), Choice::Dim(0)));
        assert_eq!(Move::Free { axis: 1, colour }.apply(&space, &split), Some(nothing.clone()));
        assert_eq!(Move::Free { axis: 1, colour }.apply(&space, &nothing), None);
        let cleared = Move::Clear { site: 0 }.apply(&space, &split).expect("a move");
        assert_eq!((cleared[1], cleared[3]), (nothing[1], split[3]));
    }

    #[test]
    fn of_two_moves_of_one_decision_the_first_counts() {
        let space = problem().space;
        let nothing = space.nothing();
        let set = |site: usize, axis: usize, d: u8| {
            Move::Set { site, axis, choice: Choice::Dim(d) }.apply(&space, &nothing).expect("a move")
        };
        let both = together(&space, &nothing, &[set(0, 0, 0), set(0, 0, 1), set(1, 1, 1)]).expect("they fit");
        assert_eq!((both[0], both[3]), (Choice::Dim(0), Choice::Dim(1)));
        // 4 columns are not enough for both axes.
        assert_eq!(together(&space, &nothing, &[set(1, 0, 1), set(1, 1, 1)]), None);
    }

    #[test]
    fn every_move_changes_something() {
        let space = problem().space;
        let all = moves(&space, &space.sites[0].colours);
        let nothing = space.nothing();
        let moved: Vec<Assignment> = all.iter().filter_map(|m| m.apply(&space, &nothing)).collect();
        assert!(moved.len() > 10 && moved.iter().all(|m| *m != nothing && space.fits(m)));
    }
}
