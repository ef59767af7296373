//! The largest or smallest element and its position, as `argmax` and `argmin` ask for them.

mod loops;

use std::sync::Arc;

use meshwork_ir::op::{BinaryOp, MixedOp};
use meshwork_ir::{Attr, BlockId, ElementType, Module, OpId, OpKind, ValueId};

use super::copy::view_of;
use super::nest::{MOST_PARTS, Nest, parts_of, piece, walk};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};
use loops::{COLUMNS, Columns, Loops, flipped, loops_of};

/// Which element wins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Which {
    Largest,
    Smallest,
}

/// Keeps the winner `(value, position)` of pairs: a NaN wins, of equal values the lower position does.
struct Extreme {
    values: (Buf, isize),
    places: (Buf, isize),
    inits: [(Buf, isize); 2],
    out: [Buf; 2],
    value_size: usize,
    place_size: usize,
    loops: Loops,
    which: Which,
    flip: u64,
    /// Operands: result number, values, positions.
    kept: Nest<3>,
    reduced: Nest<2>,
    parts: usize,
}

impl std::fmt::Debug for Extreme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} of {:?} over {:?}", self.which, self.kept.dims, self.reduced.dims)
    }
}

impl Work for Extreme {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.kept.len() * (self.reduced.len() + 5)) as u64 / 2
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let mut dims = self.kept.dims.clone();
        let mut at = [0, self.values.1, self.places.1];
        if let Some(d) = (0..dims.len()).max_by_key(|&d| dims[d]) {
            let has_neighbors = d + 1 == dims.len() && self.kept.strides[d][1] == self.value_size as isize;
            let range = piece(dims[d], self.parts, part, if has_neighbors { COLUMNS } else { 1 });
            for i in 0..3 {
                at[i] += range.start as isize * self.kept.strides[d][i];
            }
            dims[d] = range.len();
        }
        if dims.contains(&0) {
            return Ok(());
        }
        // Neighbors in the result are done together.
        let (n, outer) = dims.split_last().map_or((1, &[][..]), |(&n, outer)| (n, outer));
        let [_, by, by_place] = self.kept.strides.last().copied().unwrap_or_default();
        // SAFETY: in the whole function: the nests name elements of the buffers only.
        unsafe {
            let (values, places) = (frame.ptr(self.values.0).cast_const(), frame.ptr(self.places.0).cast_const());
            let init = self.inits.map(|(buf, at)| frame.ptr(buf).offset(at).cast_const());
            walk(outer, &self.kept.strides[..outer.len()], at, &mut |[o, v, p]| {
                for first in (0..n).step_by(COLUMNS) {
                    let count = COLUMNS.min(n - first);
                    let skipped = first as isize;
                    let to = [0, 1].map(|i| {
                        let size = if i == 0 { self.value_size } else { self.place_size };
                        frame.ptr(self.out[i]).add((o as usize + first) * size)
                    });
                    let columns = Columns {
                        values: (values.offset(v + skipped * by), by),
                        places: (places.offset(p + skipped * by_place), by_place),
                        init,
                        to,
                        count,
                    };
                    (self.loops)(&columns, &self.reduced, self.flip);
                }
            });
        }
        Ok(())
    }
}

/// What JAX's `argmax` or `argmin` reduces with, from `(value, position, value, position)`.
fn recognise_extreme(module: &Module, block: BlockId) -> Option<Which> {
    let (&[a, ai, b, bi], &[value, place]) = (module.block(block).args(), module.returned(block)) else { return None };
    let def = |v: ValueId, kind: OpKind| {
        let op = module.op(module.def_op(v)?);
        (op.kind() == kind && op.parent() == Some(block)).then_some(op)
    };
    let compares = |v: ValueId, direction: &str, x: ValueId, y: ValueId| {
        def(v, OpKind::Mixed(MixedOp::Compare)).is_some_and(|op| {
            let natural = !matches!(op.enum_value("compare_type"), Some("TOTALORDER"));
            natural && op.operands() == [x, y] && op.enum_value("comparison_direction") == Some(direction)
        })
    };
    let select = def(value, OpKind::Mixed(MixedOp::Select))?;
    let &[wins, x, y] = select.operands() else { return None };
    if (x, y) != (a, b) {
        return None;
    }
    // `a > b`, or with floats `a > b | a != a`.
    let order = |v: ValueId| {
        let directions = [("GT", Which::Largest), ("LT", Which::Smallest)];
        directions.into_iter().find(|(d, _)| compares(v, d, a, b)).map(|(_, w)| w)
    };
    let float = module.ty(a).elem()?.is_float();
    let which = match (def(wins, OpKind::Binary(BinaryOp::Or)), float) {
        (Some(or), true) if compares(or.operands()[1], "NE", a, a) => order(or.operands()[0])?,
        // No integer differs from itself.
        (Some(or), false) if compares(or.operands()[1], "NE", a, a) || is_false(module, or.operands()[1]) => {
            order(or.operands()[0])?
        }
        (None, false) => order(wins)?,
        _ => return None,
    };
    let select = def(place, OpKind::Mixed(MixedOp::Select))?;
    let &[earlier, x, y] = select.operands() else { return None };
    let or = def(earlier, OpKind::Binary(BinaryOp::Or))?;
    let &[first, tie] = or.operands() else { return None };
    let and = def(tie, OpKind::Binary(BinaryOp::And))?;
    let &[equal, lower] = and.operands() else { return None };
    let fits = (x, y) == (ai, bi) && first == wins && compares(equal, "EQ", a, b) && compares(lower, "LT", ai, bi);
    fits.then_some(which)
}

/// Whether `block` is such a body that the largest wins with, or the smallest.
pub(crate) fn takes_largest(module: &Module, block: BlockId) -> Option<bool> {
    recognise_extreme(module, block).map(|which| which == Which::Largest)
}

/// Whether `block` is such a body.
pub(super) fn is_known(module: &Module, block: BlockId) -> bool {
    recognise_extreme(module, block).is_some()
}

fn is_false(module: &Module, value: ValueId) -> bool {
    let attr = module.def_op(value).and_then(|op| module.op(op).attr("value"));
    matches!(attr, Some(Attr::Dense(d)) if d.to_literal().is_some_and(|l| l.len() == 1 && l.get_i64(0) == 0))
}

/// A reduction of values and their positions with JAX's body.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId, dimensions: &[i64], block: BlockId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let &[values, places, init, init_place] = data.operands() else { return Ok(false) };
    let Some(which) = recognise_extreme(cx.module, block) else { return Ok(false) };
    let (v, p) = (view_of(cx, values)?, view_of(cx, places)?);
    let inits = [view_of(cx, init)?, view_of(cx, init_place)?];
    let Some(loops) = loops_of(v.elem, p.elem) else { return Ok(false) };
    let mut reduced: Vec<usize> = dimensions.iter().map(|&d| d as usize).collect();
    reduced.sort_unstable();
    let pairs = Pairs { values: v, places: p, reduced };
    let out = [cx.result(data.results()[0]), cx.result(data.results()[1])];
    let Some(pieces) = pairs.in_pieces() else {
        add(cx, op, &pairs, &inits, out, (which, loops));
        return Ok(true);
    };
    let dims = pieces.kept(&pieces.values.dims);
    let some = [pieces.values.elem, pieces.places.elem].map(|elem| View::dense(cx.buffer(elem, &dims), elem, &dims));
    add(cx, op, &pieces, &inits, [some[0].buf, some[1].buf], (which, loops));
    let [values, places] = some;
    let winners = Pairs { values, places, reduced: vec![dims.len() - 1] };
    add(cx, op, &winners, &inits, out, (which, loops));
    Ok(true)
}

/// Values and their positions, and the dimensions along which winners are found, in ascending order.
struct Pairs {
    values: View,
    places: View,
    reduced: Vec<usize>,
}

/// Fewer results of one line each are computed in pieces of the lines, of about so many elements.
const FEW: i64 = 64;
const PIECE: usize = 1 << 14;

impl Pairs {
    /// What `list` says of the dimensions that stay.
    fn kept(&self, list: &[i64]) -> Vec<i64> {
        (0..list.len()).filter(|d| !self.reduced.contains(d)).map(|d| list[d]).collect()
    }

    /// Few long lines as pieces of them, along a dimension of their own. All pieces have the same length: neighbors
    /// have a few elements in common, and a pair may win twice.
    fn in_pieces(&self) -> Option<Pairs> {
        let &[d] = &self.reduced[..] else { return None };
        let (lines, n) = (self.kept(&self.values.dims).iter().product::<i64>(), self.values.dims[d]);
        let pieces = parts_of(n as usize, PIECE, MOST_PARTS / lines.max(1) as usize) as i64;
        let is_contiguous = self.values.strides[d] == self.values.elem.storage_bytes() as i64;
        if lines >= FEW || pieces < 2 || !is_contiguous {
            return None;
        }
        let apart = n / pieces;
        let cut = |view: &View| {
            let mut view = view.clone();
            view.dims[d] = n - (pieces - 1) * apart;
            let stride = view.strides[d] * apart;
            // Behind all that stay, where it is the last one of the winners.
            view.dims.push(pieces);
            view.strides.push(stride);
            view
        };
        Some(Pairs { values: cut(&self.values), places: cut(&self.places), reduced: vec![d] })
    }
}

/// Adds the step that writes the winners of `pairs` to `out`.
fn add(cx: &mut Lower<'_>, op: OpId, pairs: &Pairs, inits: &[View; 2], out: [Buf; 2], (which, loops): (Which, Loops)) {
    let (v, p) = (&pairs.values, &pairs.places);
    let dims = pairs.kept(&v.dims);
    let numbers = View::dense(Buf(0), ElementType::UI8, &dims).strides;
    let kept = Nest::new(&dims, [&numbers, &pairs.kept(&v.strides), &pairs.kept(&p.strides)]);
    // Row-major order decides which of equal pairs comes first.
    let reduced = Nest {
        dims: pairs.reduced.iter().map(|&d| v.dims[d] as usize).collect(),
        strides: pairs.reduced.iter().map(|&d| [v.strides[d] as isize, p.strides[d] as isize]).collect(),
    };
    let longest = kept.dims.iter().copied().max().unwrap_or(1).max(1);
    let parts = parts_of(kept.len() * reduced.len().max(1), 1 << 13, longest);
    let reads = vec![v.buf, p.buf, inits[0].buf, inits[1].buf];
    let work = Extreme {
        values: (v.buf, v.offset as isize),
        places: (p.buf, p.offset as isize),
        inits: [0, 1].map(|i| (inits[i].buf, inits[i].offset as isize)),
        out,
        value_size: v.elem.storage_bytes(),
        place_size: p.elem.storage_bytes(),
        loops,
        which,
        flip: flipped(v.elem, which),
        kept,
        reduced,
        parts,
    };
    let name = format!("arg{} {} {:?}", if which == Which::Largest { "max" } else { "min" }, v.elem, v.dims);
    cx.step(op, name, Arc::new(work), reads, out.to_vec());
}

#[cfg(test)]
mod tests {
    use crate::library::testing::{check, check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    fn source(elem: &str, direction: &str, dims: &str, out: &str, over: i64) -> String {
        let nan = if elem.contains('f') {
            format!(
                "%n = stablehlo.compare NE, %x, %x : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>\n%w = stablehlo.or %g, %n : tensor<i1>"
            )
        } else {
            "%w = stablehlo.or %g, %g : tensor<i1>".into()
        };
        let w = if elem.contains('f') { "%w" } else { "%g" };
        format!(
            "func.func @main(%a: tensor<{dims}x{elem}>, %i: tensor<{dims}xi32>, %v: tensor<{elem}>) -> (tensor<{out}{elem}>, tensor<{out}i32>) {{
            %c = stablehlo.constant dense<0> : tensor<i32>
            %r:2 = stablehlo.reduce(%a init: %v), (%i init: %c) across dimensions = [{over}]
                : (tensor<{dims}x{elem}>, tensor<{dims}xi32>, tensor<{elem}>, tensor<i32>) -> (tensor<{out}{elem}>, tensor<{out}i32>)
            reducer(%x: tensor<{elem}>, %y: tensor<{elem}>) (%xi: tensor<i32>, %yi: tensor<i32>) {{
                %g = stablehlo.compare {direction}, %x, %y : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                {nan}
                %e = stablehlo.compare EQ, %x, %y : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                %l = stablehlo.compare LT, %xi, %yi : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %t = stablehlo.and %e, %l : tensor<i1>
                %s = stablehlo.or {w}, %t : tensor<i1>
                %p = stablehlo.select {w}, %x, %y : tensor<i1>, tensor<{elem}>
                %q = stablehlo.select %s, %xi, %yi : tensor<i1>, tensor<i32>
                stablehlo.return %p, %q : tensor<{elem}>, tensor<i32>
            }}
            return %r#0, %r#1 : tensor<{out}{elem}>, tensor<{out}i32> }}"
        )
    }

    #[test]
    fn largest_and_smallest_of_all_types() {
        for elem in ["f32", "f64", "bf16", "f16", "i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"] {
            for direction in ["GT", "LT"] {
                for (dims, out, over) in [
                    ("5x7", "5x", 1),
                    ("5x7", "7x", 0),
                    ("1", "", 0),
                    ("3x0", "3x", 1),
                    ("6x16", "6x", 1),
                    ("3x33", "3x", 1),
                    ("3x700", "3x", 1),
                    ("300x10", "300x", 1),
                    ("37x2", "37x", 1),
                    ("9x600", "600x", 0),
                    ("100003", "", 0),
                    ("2x50001", "2x", 1),
                    ("6x4", "4x", 0),
                    ("12x13", "13x", 0),
                    ("3x32", "32x", 0),
                    ("3x33", "33x", 0),
                ] {
                    let steps = check(&source(elem, direction, dims, out, over), 0.0);
                    assert!(steps.iter().any(|s| s.starts_with("arg")), "{steps:?}");
                }
            }
        }
    }

    /// Of equal values the lowest position wins, wherever it is, and the last value, whose sign may differ.
    #[test]
    fn equal_values() {
        for n in [5usize, 40, 300, 40_007] {
            let falling: Vec<i64> = (0..n as i64).rev().collect();
            let mixed: Vec<i64> = (0..n as i64).map(|i| i * 7 % n as i64).collect();
            for places in [falling, mixed] {
                let i = Literal::from_i64s([n as i64], ElementType::I32, &places).unwrap();
                let x: Vec<f64> = (0..n).map(|i| [0.0, -1.0, -0.0, -2.5][i * i % 4]).collect();
                let x = Literal::from_f64s([n as i64], ElementType::F32, &x).unwrap();
                let v = Literal::from_f64s([], ElementType::F32, &[f64::NEG_INFINITY]).unwrap();
                check_on(&source("f32", "GT", &n.to_string(), "", 0), &[x, i.clone(), v], 0.0);
                let x = Literal::zeros([n as i64], ElementType::I1);
                let v = Literal::zeros([], ElementType::I1);
                check_on(&source("i1", "GT", &n.to_string(), "", 0), &[x, i, v], 0.0);
            }
        }
    }

    #[test]
    fn a_nan_wins() {
        let x = Literal::from_f64s([4], ElementType::F32, &[1.0, f64::NAN, 7.0, f64::NAN]).unwrap();
        let i = Literal::from_i64s([4], ElementType::I32, &[0, 1, 2, 3]).unwrap();
        let v = Literal::from_f64s([], ElementType::F32, &[f64::NEG_INFINITY]).unwrap();
        check_on(&source("f32", "GT", "4", "", 0), &[x, i, v], 0.0);
        let args =
            [noise(&[1, 4], ElementType::F32, 1), noise(&[1, 4], ElementType::I32, 2), noise(&[], ElementType::F32, 3)];
        check_on(&source("f32", "GT", "1x4", "1x", 1), &args, 0.0);
    }
}
