//! Moves: what is one decision away from an assignment.
//!
//! The list of a space is always the same, so that a search can go on behind the move that it came to, from whatever
//! assignment it is at by then.

use meshwork_mesh::sort_by;

use crate::seeds::{Products, State, small, with_more};
use crate::site::SiteKind;
use crate::space::{Assignment, Choice, Space};

/// A change to an assignment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Move {
    /// An axis splits the rest of the state. To split some of it may be worse than all or none: what is left is still summed up everywhere.
    SplitState {
        /// The axis.
        axis: usize,
        /// How much of it.
        state: State,
        /// A site that is left to propagation: an embedding may be dear to gather where the layers are not.
        except: Option<usize>,
    },
    /// What an axis splits of state is left to propagation.
    FreeState {
        /// The axis.
        axis: usize,
    },
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

/// All moves of a space: exchanges; those of all state; those of `colours`, in this order; then those of single sites, arguments first and
/// of these the largest.
pub fn moves(space: &Space, colours: &[usize]) -> Vec<Move> {
    let axes = 0..space.axes();
    let mut out = vec![];
    for second in axes.clone() {
        out.extend((0..second).map(|first| Move::Exchange { first, second }));
    }
    let small = small(space);
    let is_large = |s: &usize| space.sites[*s].kind == SiteKind::State && space.sites[*s].bytes > small;
    let large: Vec<usize> = (0..space.sites.len()).filter(is_large).collect();
    for axis in axes.clone() {
        for state in [State::AllSplit, State::Split] {
            let excepted = std::iter::once(None).chain(large.iter().map(|&s| Some(s)));
            out.extend(excepted.map(|except| Move::SplitState { axis, state, except }));
        }
        out.push(Move::FreeState { axis });
    }
    for axis in axes.clone() {
        for &colour in colours {
            out.extend([Move::Split { axis, colour }, Move::Free { axis, colour }]);
        }
    }
    let mut sites: Vec<usize> = (0..space.sites.len()).collect();
    let is_product = |s: usize| space.sites[s].kind == SiteKind::Product;
    let bytes = |s: usize| space.sites[s].bytes;
    sort_by(&mut sites, |&a, &b| is_product(a).cmp(&is_product(b)).then(bytes(b).total_cmp(&bytes(a))));
    for site in sites {
        for axis in axes.clone() {
            out.extend(space.domains[site][axis].iter().map(|&choice| Move::Set { site, axis, choice }));
        }
        if space.axes() > 1 {
            out.push(Move::Clear { site });
        }
    }
    out
}

impl Move {
    /// `from` with this change; `None` if it changes nothing or does not fit.
    pub fn apply(self, space: &Space, from: &[Choice]) -> Option<Assignment> {
        let axes = space.axes();
        let mut out = from.to_vec();
        match self {
            Move::SplitState { axis, state, except } => {
                out = with_more(space, from, (state, Products::AsFound), axis)?;
                if let Some(s) = except {
                    out[s * axes + axis] = space.domains[s][axis][0];
                }
            }
            Move::FreeState { axis } => {
                for s in (0..space.sites.len()).filter(|&s| space.sites[s].kind == SiteKind::State) {
                    out[s * axes + axis] = space.domains[s][axis][0];
                }
            }
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

    /// Gradient descent on two weights of 16 x 128, both split along 128 over `b`, and a bias of 16.
    #[test]
    fn the_rest_of_the_state_is_split_where_there_is_room() {
        let text = "func.func @main(%x: tensor<8x16xf32>, %w: tensor<16x128xf32>, %v: tensor<128x16xf32>, %c: tensor<16xf32>)
              -> (tensor<16x128xf32>, tensor<128x16xf32>, tensor<16xf32>) {
            %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x128xf32>) -> tensor<8x128xf32>
            %1 = stablehlo.dot_general %0, %v, contracting_dims = [1] x [0] : (tensor<8x128xf32>, tensor<128x16xf32>) -> tensor<8x16xf32>
            %2 = stablehlo.broadcast_in_dim %c, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32>
            %3 = stablehlo.add %1, %2 : tensor<8x16xf32>
            %4 = stablehlo.dot_general %0, %3, contracting_dims = [0] x [0] : (tensor<8x128xf32>, tensor<8x16xf32>) -> tensor<128x16xf32>
            %5 = stablehlo.dot_general %x, %0, contracting_dims = [0] x [0] : (tensor<8x16xf32>, tensor<8x128xf32>) -> tensor<16x128xf32>
            %6 = stablehlo.subtract %w, %5 : tensor<16x128xf32>
            %7 = stablehlo.subtract %v, %4 : tensor<128x16xf32>
            %8 = stablehlo.negate %c : tensor<16xf32>
            return %6, %7, %8 : tensor<16x128xf32>, tensor<128x16xf32>, tensor<16xf32> }";
        let base = Base::of(&text::parse(text).expect("a program"), Annotated::Kept).expect("a program");
        let placed = |a: i64, b: i64| {
            let mesh = Mesh::grid(("a", a), ("b", b)).expect("a mesh");
            let space = base.on(&mesh, &[], Layers::Auto).expect("a problem").space;
            let nothing = space.nothing();
            // The hidden dimension over b, and the rest of the state over a.
            let columns =
                Move::Split { axis: 1, colour: space.sites[1].colours[1] }.apply(&space, &nothing).expect("a move");
            let split = |except| {
                let split = Move::SplitState { axis: 0, state: State::AllSplit, except };
                split.apply(&space, &columns).expect("a move")
            };
            let (split, but) = (split(None), split(Some(1)));
            assert!(space.fits(&split));
            assert_eq!((but[2], &but[4..]), (Choice::Free, &split[4..]));
            let freed = Move::FreeState { axis: 0 }.apply(&space, &split);
            assert_eq!(freed, Some(columns));
            (1..4).map(|s| split[2 * s]).collect::<Vec<_>>()
        };
        let dim = |d: u8| Choice::Dim(d);
        // 32 are left of 128, then 16, then too few.
        assert_eq!(placed(2, 4), [dim(1), dim(0), dim(0)]);
        assert_eq!(placed(2, 8), [dim(0), dim(1), dim(0)]);
        assert_eq!(placed(16, 16), [dim(0), dim(1), dim(0)]);
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
