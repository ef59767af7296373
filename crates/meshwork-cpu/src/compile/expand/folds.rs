//! Reductions by bodies that no kernel knows, as loops over slices: each turn is the body on whole arrays. Of rows of a few elements
//! it is one expression, also where the winner's place is asked for.

use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::MovementOp;
use meshwork_ir::{BlockId, Direction, ElementType, Module, OpId, OpKind, Scalar, Type, ValueId};

use super::bodies::{is_elementwise, lift};
use super::{replace, scalar};
use crate::fuse::has_lanes;
use crate::library;
use crate::library::general::machine::Machine;

/// Results of one turn from which on a loop is worth it, and from which on no more are wanted.
const FEW: i64 = 16;
const ENOUGH: i64 = 512;

/// Elements from which on a loop is worth it.
const MANY: i64 = 1 << 12;

/// Elements of a row that are combined by one expression, those of stacked arrays, and rows from which on that is worth it.
const SHORT: i64 = 8;
const STACKED: i64 = 16;
const MANY_SHORT: i64 = 1 << 10;

/// A sequence of slices of several arrays of one shape.
struct Slices {
    arrays: Vec<ValueId>,
    dims: Vec<i64>,
    dim: usize,
}

impl Slices {
    /// Slice `at` of each, without the dimension.
    fn get(&self, b: &mut Builder<'_>, at: ValueId) -> Result<Vec<ValueId>, BuildError> {
        let zero = b.scalar(ElementType::I32, 0.0)?;
        let starts: Vec<ValueId> = (0..self.dims.len()).map(|d| if d == self.dim { at } else { zero }).collect();
        let mut sizes = self.dims.clone();
        sizes[self.dim] = 1;
        let mut rest = sizes.clone();
        rest.remove(self.dim);
        let mut out = vec![];
        for &x in &self.arrays {
            let piece = b.dynamic_slice(x, &starts, &sizes)?;
            out.push(b.reshape(piece, rest.clone())?);
        }
        Ok(out)
    }

    /// The same for a number that is known.
    fn known(&self, b: &mut Builder<'_>, at: i64) -> Result<Vec<ValueId>, BuildError> {
        let (mut low, mut high) = (vec![0; self.dims.len()], self.dims.clone());
        (low[self.dim], high[self.dim]) = (at, at + 1);
        let mut rest = self.dims.clone();
        rest.remove(self.dim);
        let mut out = vec![];
        for &x in &self.arrays {
            let piece = match stacked(b.module(), x, self.dim) {
                Some(parts) => parts[at as usize],
                None => b.slice(x, &low, &high, &vec![1; low.len()])?,
            };
            out.push(b.reshape(piece, rest.clone())?);
        }
        Ok(out)
    }
}

/// The arrays of extent 1 that `x` is the concatenation of along `dim`.
fn stacked(module: &Module, x: ValueId, dim: usize) -> Option<Vec<ValueId>> {
    let data = module.op(module.def_op(x)?);
    let is_stack =
        data.kind() == OpKind::Movement(MovementOp::Concatenate) && data.int("dimension") == Some(dim as i64);
    let parts = data.operands();
    (is_stack && parts.iter().all(|&p| module.ty(p).dims().get(dim) == Some(&1))).then(|| parts.to_vec())
}

/// The numbers `inits` as arrays of extents `dims`.
fn spread(b: &mut Builder<'_>, inits: &[ValueId], dims: &[i64]) -> Result<Vec<ValueId>, BuildError> {
    let mut out = vec![];
    for &init in inits {
        let ty = Type::tensor(dims.to_vec(), b.ty(init).elem().unwrap_or(ElementType::F32));
        out.push(b.broadcast_as(init, ty, &[])?);
    }
    Ok(out)
}

/// Runs `turn` with `carry` for each number of `turns`.
fn repeat(
    b: &mut Builder<'_>,
    turns: std::ops::Range<i64>,
    carry: Vec<ValueId>,
    turn: impl FnOnce(&mut Builder<'_>, ValueId, &[ValueId]) -> Result<Option<Vec<ValueId>>, BuildError>,
) -> Result<Option<Vec<ValueId>>, BuildError> {
    if turns.is_empty() {
        return Ok(Some(carry));
    }
    let index = ElementType::I32;
    let mut inits = vec![b.scalar(index, turns.start as f64)?];
    inits.extend(&carry);
    let mut fits = true;
    let done = b.while_loop(
        &inits,
        |b, carry| {
            let end = b.scalar(index, turns.end as f64)?;
            Ok([b.compare(Direction::Lt, carry[0], end)?])
        },
        |b, carry| {
            let one = b.scalar(index, 1.0)?;
            let mut next = vec![b.add(carry[0], one)?];
            match turn(b, carry[0], &carry[1..])? {
                Some(values) => next.extend(values),
                None => {
                    fits = false;
                    next.extend(&carry[1..]);
                }
            }
            Ok(next)
        },
    )?;
    Ok(fits.then(|| done.into_iter().skip(1).collect()))
}

/// The body of `op` if it is elementwise operations on types that fused loops have.
fn body(module: &Module, op: OpId) -> Option<BlockId> {
    let block = module.body_of(op, 0).filter(|&b| is_elementwise(module, b))?;
    let known = |&v: &ValueId| module.ty(v).elem().is_some_and(has_lanes);
    module.ops_in(block).all(|o| module.op(o).results().iter().all(known)).then_some(block)
}

/// `stablehlo.reduce` over one dimension.
pub(super) fn reduce(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(block) = body(module, op) else { return false };
    let Some([dim]) = data.i64s("dimensions").and_then(|d| <[i64; 1]>::try_from(d).ok()) else { return false };
    let count = data.operands().len() / 2;
    let (inputs, inits) = data.operands().split_at(count);
    let (inputs, inits) = (inputs.to_vec(), inits.to_vec());
    let (dims, dim) = (module.ty(inputs[0]).dims().to_vec(), dim as usize);
    let n = dims[dim];
    let mut kept = dims.clone();
    kept.remove(dim);
    let lanes: i64 = kept.iter().product();
    let same = |(i, &r): (usize, &ValueId)| module.ty(r).elem() == module.ty(inputs[i]).elem();
    if !data.results().iter().enumerate().all(same) {
        return false;
    }
    // Arrays that are stacked to find a place among them need not be in memory as one; what else combines them is fused.
    let is_stack = n <= STACKED && stacked(module, inputs[0], dim).is_some();
    let is_short = ((1..=SHORT).contains(&n) || is_stack) && lanes >= MANY_SHORT;
    if library::has_reduction(module, op) && !(is_short && count > 1) {
        return false;
    }
    let whole = Slices { arrays: inputs.clone(), dims: dims.clone(), dim };
    if is_short {
        return replace(module, op, |b| {
            let mut acc = spread(b, &inits, &kept)?;
            for at in 0..n {
                let x = whole.known(b, at)?;
                let Some(next) = lift(b, block, &[&acc[..], &x[..]].concat(), &kept)? else { return Ok(None) };
                acc = next;
            }
            Ok(Some(acc))
        });
    }
    if lanes * n < MANY {
        return false;
    }
    // Long ones in pieces side by side: a body is associative.
    let pieces = if lanes >= ENOUGH / 2 { 1 } else { (ENOUGH / lanes).min(n / 8).max(1) };
    if lanes * pieces < FEW {
        return false;
    }
    replace(module, op, |b| {
        let mut acc = spread(b, &inits, &kept)?;
        let each = n / pieces;
        let begun = if pieces == 1 {
            0
        } else {
            // Pieces of equal length as a dimension of their own.
            let (mut high, mut split) = (dims.clone(), dims.clone());
            high[dim] = pieces * each;
            split[dim] = each;
            split.insert(dim, pieces);
            let mut arrays = vec![];
            for &x in &inputs {
                let part = b.slice(x, &vec![0; dims.len()], &high, &vec![1; dims.len()])?;
                arrays.push(b.reshape(part, split.clone())?);
            }
            let parts = Slices { arrays, dims: split.clone(), dim: dim + 1 };
            let first = b.scalar(ElementType::I32, 0.0)?;
            let first = parts.get(b, first)?;
            let mut side = split;
            side.remove(dim + 1);
            let folded = repeat(b, 1..each, first, |b, at, acc| {
                let x = parts.get(b, at)?;
                lift(b, block, &[acc, &x[..]].concat(), &side)
            })?;
            let Some(arrays) = folded else { return Ok(None) };
            let totals = Slices { arrays, dims: side, dim };
            let folded = repeat(b, 0..pieces, acc, |b, at, acc| {
                let x = totals.get(b, at)?;
                lift(b, block, &[acc, &x[..]].concat(), &kept)
            })?;
            let Some(folded) = folded else { return Ok(None) };
            acc = folded;
            pieces * each
        };
        repeat(b, begun..n, acc, |b, at, acc| {
            let x = whole.get(b, at)?;
            lift(b, block, &[acc, &x[..]].concat(), &kept)
        })
    })
}

/// `stablehlo.reduce_window` that runs along one dimension: all that is before an element, or behind it.
pub(super) fn running(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let Some(block) = body(module, op).filter(|_| !library::has_windows(module, op)) else { return false };
    let count = data.operands().len() / 2;
    let (inputs, inits) = data.operands().split_at(count);
    let (inputs, inits) = (inputs.to_vec(), inits.to_vec());
    let dims = module.ty(inputs[0]).dims().to_vec();
    let list = |name: &str, each: i64| data.i64s(name).unwrap_or(vec![each; dims.len()]);
    let ones = |name: &str| list(name, 1).iter().all(|&v| v == 1);
    if !(ones("window_strides") && ones("base_dilations") && ones("window_dilations")) {
        return false;
    }
    let (size, padding) = (list("window_dimensions", 1), data.attr("padding").and_then(|a| a.as_i64s()));
    let padding = padding.unwrap_or(vec![0; 2 * dims.len()]);
    let along: Vec<usize> = (0..dims.len()).filter(|&d| size[d] != 1 || padding[2 * d..2 * d + 2] != [0, 0]).collect();
    let &[dim] = &along[..] else { return false };
    let n = dims[dim];
    let back = match padding[2 * dim..2 * dim + 2] {
        [low, 0] if low == n - 1 => false,
        [0, high] if high == n - 1 => true,
        _ => return false,
    };
    let mut kept = dims.clone();
    kept.remove(dim);
    let lanes: i64 = kept.iter().product();
    let same = |(i, &r): (usize, &ValueId)| module.ty(r).elem() == module.ty(inputs[i]).elem();
    let known = size[dim] == n && n > 1 && data.results().iter().enumerate().all(same);
    // Windows by themselves take as many steps as there are pairs of an element and one before it, however few the rows.
    let few = lanes.saturating_mul(n).saturating_mul(n) / 2 < MANY;
    if !known || few || !is_still(module, block, &inits) {
        return false;
    }
    replace(module, op, |b| {
        let mut carry = vec![];
        for (&x, &init) in inputs.iter().zip(&inits) {
            let elem = b.ty(x).elem().unwrap_or(ElementType::F32);
            carry.push(b.broadcast_as(init, Type::tensor(kept.clone(), elem), &[])?);
        }
        for &x in &inputs {
            let elem = b.ty(x).elem().unwrap_or(ElementType::F32);
            carry.push(b.splat(dims.clone(), elem, 0.0)?);
        }
        let slices = Slices { arrays: inputs.clone(), dims: dims.clone(), dim };
        let done = repeat(b, 0..n, carry, |b, turn, carry| {
            let (acc, out) = carry.split_at(count);
            let at = if back {
                let last = b.scalar(ElementType::I32, n as f64 - 1.0)?;
                b.subtract(last, turn)?
            } else {
                turn
            };
            let x = slices.get(b, at)?;
            let given = if back { [&x[..], acc].concat() } else { [acc, &x[..]].concat() };
            let Some(next) = lift(b, block, &given, &kept)? else { return Ok(None) };
            let zero = b.scalar(ElementType::I32, 0.0)?;
            let starts: Vec<ValueId> = (0..dims.len()).map(|d| if d == dim { at } else { zero }).collect();
            let mut piece = dims.clone();
            piece[dim] = 1;
            let mut all = next.clone();
            for (&whole, &value) in out.iter().zip(&next) {
                let value = b.reshape(value, piece.clone())?;
                all.push(b.dynamic_update_slice(whole, value, &starts)?);
            }
            Ok(Some(all))
        })?;
        Ok(done.map(|values| values[count..].to_vec()))
    })
}

/// Whether the initial values combined with themselves are the same: then those in the padding do not count.
fn is_still(module: &Module, block: BlockId, inits: &[ValueId]) -> bool {
    let Some(values) = inits.iter().map(|&v| scalar(module, v)).collect::<Option<Vec<Scalar>>>() else { return false };
    let Some(machine) = Machine::new(module, block, &|_| None).filter(Machine::is_closed) else { return false };
    let mut registers = machine.fresh();
    for (i, &value) in values.iter().chain(&values).enumerate() {
        registers[i] = value;
    }
    machine.call(&mut registers);
    (0..values.len()).all(|i| machine.result(i, &registers) == values[i])
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// The place of the greatest of a few elements, and what else a body finds, in one loop; of equal ones the first is meant.
    #[test]
    fn short_rows_are_one_expression() {
        for (dims, out, over) in [
            ("1500x3", "1500", 1),
            ("4x1031", "1031", 0),
            ("40x2x30", "40x30", 1),
            ("1100x1", "1100", 1),
            ("1100x8", "1100", 1),
        ] {
            for (elem, direction) in [("f32", "GT"), ("f64", "LT"), ("ui8", "GT"), ("i32", "LT")] {
                let (x, y) = (format!("tensor<{dims}x{elem}>"), format!("tensor<{out}x{elem}>"));
                let (i, j) = (format!("tensor<{dims}xi32>"), format!("tensor<{out}xi32>"));
                let text = check(
                    &format!(
                        "func.func @main(%x: {x}, %first: tensor<{elem}>) -> ({y}, {j}) {{
                        %i = stablehlo.iota dim = {over} : {i}
                        %none = stablehlo.constant dense<0> : tensor<i32>
                        %r:2 = stablehlo.reduce(%x init: %first), (%i init: %none) across dimensions = [{over}]
                            : ({x}, {i}, tensor<{elem}>, tensor<i32>) -> ({y}, {j})
                        reducer(%a: tensor<{elem}>, %b: tensor<{elem}>) (%p: tensor<i32>, %q: tensor<i32>) {{
                            %g = stablehlo.compare {direction}, %a, %b : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                            %n = stablehlo.compare NE, %a, %a : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                            %w = stablehlo.or %g, %n : tensor<i1>
                            %e = stablehlo.compare EQ, %a, %b : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>
                            %l = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>
                            %t = stablehlo.and %e, %l : tensor<i1>
                            %s = stablehlo.or %w, %t : tensor<i1>
                            %v = stablehlo.select %w, %a, %b : tensor<i1>, tensor<{elem}>
                            %k = stablehlo.select %s, %p, %q : tensor<i1>, tensor<i32>
                            stablehlo.return %v, %k : tensor<{elem}>, tensor<i32>
                        }}
                        return %r#0, %r#1 : {y}, {j} }}"
                    ),
                    0.0,
                );
                assert!(text.contains("fused ") && !text.contains("arg"), "{dims} {elem}: {text}");
            }
        }
    }

    /// Which of several conditions holds first, as `jnp.select` asks: the conditions are not stored.
    #[test]
    fn stacked_conditions_are_one_expression() {
        let (part, stack, bits, places) =
            ("tensor<1x1031xi1>", "tensor<5x1031xi1>", "tensor<1031xi1>", "tensor<1031xi32>");
        let text = check(
            &format!(
                "func.func @main(%a: {part}, %b: {part}, %c: {part}) -> {places} {{
                %s = stablehlo.concatenate %a, %b, %a, %c, %b, dim = 0 : ({part}, {part}, {part}, {part}, {part}) -> {stack}
                %i = stablehlo.iota dim = 0 : tensor<5x1031xi32>
                %first = stablehlo.constant dense<false> : tensor<i1>
                %none = stablehlo.constant dense<0> : tensor<i32>
                %r:2 = stablehlo.reduce(%s init: %first), (%i init: %none) across dimensions = [0]
                    : ({stack}, tensor<5x1031xi32>, tensor<i1>, tensor<i32>) -> ({bits}, {places})
                reducer(%p: tensor<i1>, %q: tensor<i1>) (%j: tensor<i32>, %k: tensor<i32>) {{
                    %g = stablehlo.compare GT, %p, %q : (tensor<i1>, tensor<i1>) -> tensor<i1>
                    %n = stablehlo.compare NE, %p, %p : (tensor<i1>, tensor<i1>) -> tensor<i1>
                    %w = stablehlo.or %g, %n : tensor<i1>
                    %e = stablehlo.compare EQ, %p, %q : (tensor<i1>, tensor<i1>) -> tensor<i1>
                    %l = stablehlo.compare LT, %j, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    %t = stablehlo.and %e, %l : tensor<i1>
                    %o = stablehlo.or %w, %t : tensor<i1>
                    %v = stablehlo.select %w, %p, %q : tensor<i1>, tensor<i1>
                    %m = stablehlo.select %o, %j, %k : tensor<i1>, tensor<i32>
                    stablehlo.return %v, %m : tensor<i1>, tensor<i32>
                }}
                return %r#1 : {places} }}"
            ),
            0.0,
        );
        assert!(text.contains("fused ") && !text.contains("arg") && !text.contains("concatenate"), "{text}");
    }

    /// Few long rows too, and a single one: what is before each element is not folded again for the next.
    #[test]
    fn running_folds_of_few_rows() {
        for (rows, n) in [(1, 150), (2, 97), (5, 64), (17, 40)] {
            for padding in [format!("[0, 0], [{}, 0]", n - 1), format!("[0, 0], [0, {}]", n - 1)] {
                let text = check(
                    &format!(
                        "func.func @main(%x: tensor<{rows}x{n}xf32>) -> tensor<{rows}x{n}xf32> {{
                        %start = stablehlo.constant dense<0xFF800000> : tensor<f32>
                        %y = \"stablehlo.reduce_window\"(%x, %start) <{{padding = dense<[{padding}]> : tensor<2x2xi64>,
                            window_dimensions = array<i64: 1, {n}>}}> ({{
                        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                            %most = stablehlo.maximum %a, %b : tensor<f32>
                            %d = stablehlo.subtract %a, %b : tensor<f32>
                            %same = stablehlo.compare NE, %d, %d, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
                            %sum = stablehlo.add %a, %b : tensor<f32>
                            %far = stablehlo.abs %d : tensor<f32>
                            %near = stablehlo.negate %far : tensor<f32>
                            %e = stablehlo.exponential %near : tensor<f32>
                            %l = stablehlo.log_plus_one %e : tensor<f32>
                            %more = stablehlo.add %most, %l : tensor<f32>
                            %r = stablehlo.select %same, %sum, %more : tensor<i1>, tensor<f32>
                            stablehlo.return %r : tensor<f32>
                        }}) : (tensor<{rows}x{n}xf32>, tensor<f32>) -> tensor<{rows}x{n}xf32>
                        return %y : tensor<{rows}x{n}xf32> }}"
                    ),
                    1e-4,
                );
                assert!(!text.contains("scalar windows"), "{rows} {n}: {text}");
            }
        }
    }
}
