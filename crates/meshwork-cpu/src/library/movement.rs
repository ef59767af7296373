//! Concatenation, padding and reversal as copies of boxes.

use std::sync::Arc;

use meshwork_ir::Scalar;
use meshwork_ir::{Literal, OpId};

use super::attrs;
use super::copy::{BoxCopy, Copies, spread, view_of};
use crate::compile::lower::Lower;
use crate::step::View;

/// The part of `view` where dimension `dim` is `start`, `start + step`, ...: `count` of them.
fn cut(view: &View, dim: usize, start: i64, step: i64, count: i64) -> View {
    let mut out = view.clone();
    out.offset += start * out.strides[dim];
    out.strides[dim] *= step;
    out.dims[dim] = count;
    out
}

/// `stablehlo.concatenate`.
pub(super) fn concatenate(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let module = cx.module;
    let dim = attrs::index(module.op(op), "dimension")?;
    let parts = module.op(op).operands().iter().map(|&v| view_of(cx, v)).collect::<Result<Vec<_>, _>>()?;
    let result = module.op(op).results()[0];
    let buf = cx.result(result);
    let (elem, dims) = cx.shape(result);
    let whole = View::dense(buf, elem, &dims);
    let mut boxes = vec![];
    let mut at = 0;
    for part in &parts {
        let n = part.dims[dim];
        boxes.push(BoxCopy::new(part, &cut(&whole, dim, at, 1, n)));
        at += n;
    }
    let reads = parts.iter().map(|p| p.buf).collect();
    cx.step(op, format!("concatenate {elem} {dims:?}"), Arc::new(Copies::new(boxes)), reads, vec![buf]);
    Ok(true)
}

/// `stablehlo.pad`.
pub(super) fn pad(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let (low, inner) = (attrs::ints(data, "edge_padding_low")?, attrs::ints(data, "interior_padding")?);
    let (from, value) = (view_of(cx, data.operands()[0])?, view_of(cx, data.operands()[1])?);
    let buf = cx.result(data.results()[0]);
    let (elem, dims) = cx.shape(data.results()[0]);
    pad_into(cx, op, &from, &value, View::dense(buf, elem, &dims), [&low, &inner]);
    Ok(true)
}

/// A new dense buffer with the elements of `from` padded by the one element of `value`: at the low and the high end
/// of each dimension, and between elements.
pub(super) fn padded(
    cx: &mut Lower<'_>,
    op: OpId,
    from: &View,
    value: crate::step::Buf,
    [low, high, inner]: [&[i64]; 3],
) -> View {
    let extent = |d: usize| {
        let dilated = if from.dims[d] == 0 { 0 } else { (from.dims[d] - 1) * (inner[d] + 1) + 1 };
        (low[d] + dilated + high[d]).max(0)
    };
    let dims: Vec<i64> = (0..from.dims.len()).map(extent).collect();
    let to = View::dense(cx.buffer(from.elem, &dims), from.elem, &dims);
    pad_into(cx, op, from, &View::dense(value, from.elem, &[]), to.clone(), [low, inner]);
    to
}

/// Adds the step that writes the operand's elements, and boxes of the padding value around and between them.
fn pad_into(cx: &mut Lower<'_>, op: OpId, from: &View, value: &View, to: View, [low, inner]: [&[i64]; 2]) {
    let (mut from, mut to) = (from.clone(), to);
    let (buf, elem, dims) = (to.buf, to.elem, to.dims.clone());
    let reads = vec![from.buf, value.buf];
    let mut boxes = vec![];
    for d in 0..dims.len() {
        let step = inner[d] + 1;
        // Operand elements first..last fall inside the result; the first at `start`.
        let first = if low[d] < 0 { (-low[d] + step - 1) / step } else { 0 }.min(from.dims[d]);
        let last = match dims[d] - low[d] {
            room if room <= 0 => 0,
            room => ((room - 1) / step + 1).min(from.dims[d]),
        };
        let count = (last - first).max(0);
        let start = low[d] + first * step;
        let mut pad = |start: i64, step: i64, count: i64| {
            if count > 0 {
                let hole = cut(&to, d, start, step, count);
                boxes.push(BoxCopy::new(&spread(value.buf, value.offset, elem, &hole.dims), &hole));
            }
        };
        if count == 0 {
            pad(0, 1, dims[d]);
        } else {
            pad(0, 1, start);
            let end = start + (count - 1) * step + 1;
            pad(end, 1, dims[d] - end);
            for gap in 1..step {
                pad(start + gap, step, count - 1);
            }
        }
        from = cut(&from, d, first, 1, count);
        to = cut(&to, d, start, step, count);
    }
    boxes.push(BoxCopy::new(&from, &to));
    cx.step(op, format!("pad {elem} {dims:?}"), Arc::new(Copies::new(boxes)), reads, vec![buf]);
}

/// `stablehlo.reverse`: nothing but another view.
pub(super) fn reverse(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let mut view = view_of(cx, data.operands()[0])?;
    if !view.is_empty() {
        for d in attrs::ints(data, "dimensions")? {
            let d = d as usize;
            view.offset += view.strides[d] * (view.dims[d] - 1);
            view.strides[d] = -view.strides[d];
        }
    }
    cx.set_view(data.results()[0], view);
    Ok(true)
}

/// `stablehlo.iota`: a view of one line of numbers.
pub(super) fn iota(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let result = data.results()[0];
    let dim = attrs::index(data, "iota_dimension")?;
    let (elem, dims) = cx.shape(result);
    let Some(&n) = dims.get(dim) else { return Err(format!("{} along dimension {dim} of {dims:?}", data.name())) };
    let numbers = (0..n).map(|i| Scalar::from_i64(elem, i));
    let numbers: Vec<Scalar> = numbers.collect();
    let Some(line) = Literal::from_scalars([n], elem, numbers) else { return Ok(false) };
    let buf = cx.constant(line);
    let mut view = spread(buf, 0, elem, &dims);
    view.strides[dim] = elem.storage_bytes() as i64;
    cx.set_view(result, view);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    #[test]
    fn concatenates_views_and_nothing() {
        for elem in ["f32", "i8", "complex<f64>", "i1"] {
            check(
                &format!(
                    "func.func @main(%a: tensor<3x5x{elem}>, %b: tensor<5x2x{elem}>, %c: tensor<0x5x{elem}>) -> tensor<5x5x{elem}> {{
                    %t = stablehlo.transpose %b, dims = [1, 0] : (tensor<5x2x{elem}>) -> tensor<2x5x{elem}>
                    %r = stablehlo.concatenate %a, %c, %t, dim = 0 : (tensor<3x5x{elem}>, tensor<0x5x{elem}>, tensor<2x5x{elem}>) -> tensor<5x5x{elem}>
                    return %r : tensor<5x5x{elem}> }}"
                ),
                0.0,
            );
        }
    }

    #[test]
    fn counts_along_a_dimension() {
        for elem in ["i1", "i8", "ui32", "f32", "bf16", "complex<f32>"] {
            for dim in 0..2 {
                check(
                    &format!(
                        "func.func @main() -> tensor<3x5x{elem}> {{
                        %r = stablehlo.iota dim = {dim} : tensor<3x5x{elem}>
                        return %r : tensor<3x5x{elem}> }}"
                    ),
                    0.0,
                );
            }
        }
    }

    #[test]
    fn pads_low_high_interior_negative() {
        for (n, low, high, inner) in [
            (3, 1, 2, 1),
            (3, -1, -1, 1),
            (3, -3, 1, 0),
            (0, 1, 1, 4),
            (5, -2, 0, 2),
            (5, 0, -4, 2),
            (1, 3, 0, 0),
            (7, -1, 3, 3),
        ] {
            let m = low + high + if n == 0 { 0 } else { (n - 1) * (inner + 1) + 1 };
            check(
                &format!(
                    "func.func @main(%a: tensor<4x{n}xf32>, %v: tensor<f32>) -> tensor<6x{m}xf32> {{
                    %r = stablehlo.pad %a, %v, low = [1, {low}], high = [1, {high}], interior = [0, {inner}]
                        : (tensor<4x{n}xf32>, tensor<f32>) -> tensor<6x{m}xf32>
                    return %r : tensor<6x{m}xf32> }}"
                ),
                0.0,
            );
        }
    }

    #[test]
    fn materialises_transposes_broadcasts_and_reversals() {
        for elem in ["ui8", "bf16", "f32", "f64", "complex<f64>"] {
            check(
                &format!(
                    "func.func @main(%a: tensor<33x7x19x{elem}>, %s: tensor<{elem}>)
                        -> (tensor<19x33x7x{elem}>, tensor<7x19x33x{elem}>, tensor<33x19x7x{elem}>, tensor<7x2x40x{elem}>, tensor<5x130x{elem}>) {{
                    %0 = stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<33x7x19x{elem}>) -> tensor<19x33x7x{elem}>
                    %1 = stablehlo.reverse %a, dims = [0, 2] : tensor<33x7x19x{elem}>
                    %2 = stablehlo.transpose %1, dims = [1, 2, 0] : (tensor<33x7x19x{elem}>) -> tensor<7x19x33x{elem}>
                    %3 = stablehlo.transpose %1, dims = [0, 2, 1] : (tensor<33x7x19x{elem}>) -> tensor<33x19x7x{elem}>
                    %4 = stablehlo.slice %a [3:4, 0:7, 1:19:17] : (tensor<33x7x19x{elem}>) -> tensor<1x7x2x{elem}>
                    %5 = stablehlo.broadcast_in_dim %4, dims = [2, 0, 1] : (tensor<1x7x2x{elem}>) -> tensor<7x2x40x{elem}>
                    %6 = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<{elem}>) -> tensor<5x130x{elem}>
                    return %0, %2, %3, %5, %6 : tensor<19x33x7x{elem}>, tensor<7x19x33x{elem}>, tensor<33x19x7x{elem}>, tensor<7x2x40x{elem}>, tensor<5x130x{elem}> }}"
                ),
                0.0,
            );
        }
    }

    /// Lines that are interleaved into one or taken apart, whole or in slices, and neighbors of neither side.
    #[test]
    fn transposes_of_few_rows_or_columns() {
        for elem in ["ui8", "bf16", "f32", "complex<f32>", "complex<f64>"] {
            for (n, few) in [(2, 2), (37, 2), (2, 37), (3, 100), (100, 3), (4, 50), (65, 5), (7, 19), (2048, 6), (1, 9)]
            {
                check(
                    &format!(
                        "func.func @main(%a: tensor<5x{n}x{few}x{elem}>) -> (tensor<5x{few}x{n}x{elem}>, tensor<{n}x2x{few}x{elem}>, tensor<{few}x{n}x5x{elem}>) {{
                        %0 = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<5x{n}x{few}x{elem}>) -> tensor<5x{few}x{n}x{elem}>
                        %1 = stablehlo.slice %a [0:4:3, 0:{n}, 0:{few}] : (tensor<5x{n}x{few}x{elem}>) -> tensor<2x{n}x{few}x{elem}>
                        %2 = stablehlo.reverse %1, dims = [2] : tensor<2x{n}x{few}x{elem}>
                        %3 = stablehlo.transpose %2, dims = [1, 0, 2] : (tensor<2x{n}x{few}x{elem}>) -> tensor<{n}x2x{few}x{elem}>
                        %4 = stablehlo.transpose %a, dims = [2, 1, 0] : (tensor<5x{n}x{few}x{elem}>) -> tensor<{few}x{n}x5x{elem}>
                        return %0, %3, %4 : tensor<5x{few}x{n}x{elem}>, tensor<{n}x2x{few}x{elem}>, tensor<{few}x{n}x5x{elem}> }}"
                    ),
                    0.0,
                );
            }
        }
    }

    #[test]
    fn transposes_to_a_few_columns() {
        for elem in ["i8", "bf16", "f32", "f64", "complex<f64>"] {
            for (rows, columns) in [(1, 3), (2, 9), (3, 130), (5, 2), (7, 300), (3, 4001)] {
                for order in [[0, 2, 1], [2, 0, 1], [2, 1, 0]] {
                    let dims = [4, rows, columns];
                    let [a, b, c] = order.map(|d: usize| dims[d]);
                    let to = format!("tensor<{a}x{b}x{c}x{elem}>");
                    check(
                        &format!(
                            "func.func @main(%a: tensor<4x{rows}x{columns}x{elem}>) -> {to} {{
                            %t = stablehlo.transpose %a, dims = {order:?} : (tensor<4x{rows}x{columns}x{elem}>) -> {to}
                            return %t : {to} }}"
                        ),
                        0.0,
                    );
                }
            }
        }
    }

    #[test]
    fn large_transposes_in_many_parts() {
        check(
            "func.func @main(%a: tensor<517x601xf32>) -> tensor<601x517xf32> {
            %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<517x601xf32>) -> tensor<601x517xf32>
            return %0 : tensor<601x517xf32> }",
            0.0,
        );
    }
}
