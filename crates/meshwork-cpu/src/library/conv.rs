//! Convolution as a matrix product whose left or right operand is the input, read by tables of offsets.
//!
//! With padding and input dilation done beforehand by a copy, the input element that output position `p` and tap `t`
//! (window position and input feature) multiply is at `outer[p] + depth[t]`. That is all the product asks of an
//! operand: windows are read in place, or packed panel by panel, and never written out as a whole.
//!
//! Where features are the innermost dimension of the result, positions are the rows of the product; where a spatial
//! dimension is, positions are its columns, and images its stack. Feature and batch groups are a stack as well.

use std::sync::Arc;

use meshwork_ir::Scalar;
use meshwork_ir::attr::ConvDims;
use meshwork_ir::{Attr, ElementType, Literal, OpId};
use meshwork_mesh::sort_by_key;

use super::attrs;
use super::copy::{copy, view_of};
#[cfg(target_arch = "x86_64")]
use super::dot::amx;
use super::dot::micro::Tile;
use super::dot::pack::Index;
use super::dot::product::{Product, Side};
use super::dot::{Find, complex, double, emit, int, is_same, long_int, single};
use super::movement::padded;
use super::nest::offsets;
use super::num::Complex;
use super::{depthwise, features, heads};
use crate::compile::lower::Lower;
use crate::step::View;

/// A convolution: its attributes, and the operands as views.
#[derive(Clone, Debug)]
pub(super) struct Conv {
    pub dims: ConvDims,
    pub strides: Vec<i64>,
    pub rhs_dilation: Vec<i64>,
    pub reversal: Vec<bool>,
    pub feature_groups: i64,
    pub batch_groups: i64,
    /// The input, padded.
    pub lhs: View,
    pub rhs: View,
}

/// The integers `name`, or `default` for each of `n` where it is absent.
/// `stablehlo.convolution`.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let Some(Attr::Conv(dims)) = data.attr("dimension_numbers") else {
        return Err(attrs::missing(data, "dimension_numbers", "#stablehlo.conv<...>"));
    };
    let (lhs, rhs) = (view_of(cx, data.operands()[0])?, view_of(cx, data.operands()[1])?);
    let elem = cx.shape(data.results()[0]).0;
    let types = [lhs.elem, rhs.elem, elem];
    let wide = types.contains(&ElementType::F64);
    let floats =
        if wide { types.iter().all(|&t| double(t).is_some()) } else { types.iter().all(|&t| single(t).is_some()) };
    let integers = types.iter().all(|&t| long_int(t).is_some());
    let complexes = types.iter().all(|&t| t.is_complex() && t == elem);
    if !(floats || integers || complexes) {
        return Ok(false);
    }
    let n = dims.input_spatial.len();
    let padding = attrs::ints_or(data, "padding", 2 * n, 0)?;
    let lhs_dilation = attrs::ints_or(data, "lhs_dilation", n, 1)?;
    let rank = lhs.dims.len();
    let (mut low, mut high, mut inner) = (vec![0; rank], vec![0; rank], vec![0; rank]);
    for (s, &d) in dims.input_spatial.iter().enumerate() {
        let d = d as usize;
        (low[d], high[d], inner[d]) = (padding[2 * s], padding[2 * s + 1], lhs_dilation[s] - 1);
    }
    let conv = Conv {
        dims: (**dims).clone(),
        strides: attrs::ints_or(data, "window_strides", n, 1)?,
        rhs_dilation: attrs::ints_or(data, "rhs_dilation", n, 1)?,
        reversal: attrs::flags(data, "window_reversal", n)?,
        feature_groups: attrs::index(data, "feature_group_count")?.max(1) as i64,
        batch_groups: attrs::index(data, "batch_group_count")?.max(1) as i64,
        lhs: if low.iter().chain(&high).chain(&inner).all(|&v| v == 0) {
            lhs
        } else {
            let zero = Literal::scalar(lhs.elem, Scalar::zero(lhs.elem));
            let zero = cx.constant(zero);
            padded(cx, op, &lhs, zero, [&low, &high, &inner])
        },
        rhs,
    };
    if floats && (depthwise::lower(cx, op, &conv)? || features::lower(cx, op, &conv) || heads::lower(cx, op, &conv)) {
        return Ok(true);
    }
    if integers && types.iter().any(|t| t.bits() == 64) {
        typed::<i64>(cx, op, &conv, &long_int)
    } else if integers {
        typed::<i32>(cx, op, &conv, &int)
    } else if complexes && elem == ElementType::C128 {
        typed::<Complex<f64>>(cx, op, &conv, &complex(elem))
    } else if complexes {
        typed::<Complex<f32>>(cx, op, &conv, &complex(elem))
    } else if wide {
        typed::<f64>(cx, op, &conv, &double)
    } else {
        typed::<f32>(cx, op, &conv, &single)
    }
    Ok(true)
}

/// One dimension of a loop: its extent and byte strides in the input, the kernel and the result.
#[derive(Clone, Copy, Debug)]
struct Loop {
    n: i64,
    lhs: i64,
    rhs: i64,
    out: i64,
}

/// A convolution as loops over positions, taps, features, and a stack of products.
struct Loops {
    stack: Vec<Loop>,
    /// In the order of the result's memory, so that rows or columns of the product are neighbors there.
    positions: Vec<Loop>,
    taps: Vec<Loop>,
    features: [Loop; 1],
    rhs_offset: i64,
    /// Whether features are the columns of the product, or else its rows.
    features_last: bool,
    /// The result as the product writes it: in its own buffer and order if no order of the result suits.
    out: View,
}

/// Byte offsets of an operand: of the products of the stack, along rows or columns, along the depth.
type Offsets = (Arc<[isize]>, Index, Index);

impl Loops {
    fn new(cx: &mut Lower<'_>, conv: &Conv, target: &View) -> Loops {
        let (d, lhs, rhs, shape) = (&conv.dims, &conv.lhs, &conv.rhs, &target.dims);
        // The layout of the result: features or a spatial dimension innermost, or else in an order of our own.
        let last = shape.len() as i64 - 1;
        let mut spatial_dims = d.output_spatial.clone();
        spatial_dims.sort();
        let spatial_last =
            !spatial_dims.is_empty() && spatial_dims.iter().rev().zip((0..=last).rev()).all(|(&d, at)| d == at);
        let natural = d.output_feature == last || spatial_last;
        let mut out = target.clone();
        if !natural {
            let order = [&[d.output_batch], &d.output_spatial[..], &[d.output_feature]].concat();
            let order: Vec<usize> = order.into_iter().map(|d| d as usize).collect();
            let ordered: Vec<i64> = order.iter().map(|&d| shape[d]).collect();
            out.buf = cx.buffer(target.elem, &ordered);
            let dense = View::dense(out.buf, target.elem, &ordered);
            order.iter().zip(dense.strides).for_each(|(&d, stride)| out.strides[d] = stride);
        }

        let at = |x: &View, d: i64| x.strides[d as usize];
        let groups = conv.feature_groups.max(conv.batch_groups);
        let per_group = shape[d.output_feature as usize] / groups;
        let batch = Loop {
            n: shape[d.output_batch as usize],
            lhs: at(lhs, d.input_batch),
            rhs: 0,
            out: at(&out, d.output_batch),
        };
        let feature =
            Loop { n: per_group, lhs: 0, rhs: at(rhs, d.kernel_output_feature), out: at(&out, d.output_feature) };
        let channels = rhs.dims[d.kernel_input_feature as usize];
        let group = Loop {
            n: groups,
            lhs: if conv.batch_groups > 1 { batch.n * batch.lhs } else { channels * at(lhs, d.input_feature) },
            rhs: per_group * feature.rhs,
            out: per_group * feature.out,
        };
        let channel = Loop { n: channels, lhs: at(lhs, d.input_feature), rhs: at(rhs, d.kernel_input_feature), out: 0 };
        let (mut positions, mut taps, mut rhs_offset) = (vec![], vec![channel], rhs.offset);
        for s in 0..d.input_spatial.len() {
            let (i, k, o) = (d.input_spatial[s], d.kernel_spatial[s], d.output_spatial[s]);
            positions.push(Loop { n: shape[o as usize], lhs: at(lhs, i) * conv.strides[s], rhs: 0, out: at(&out, o) });
            let (n, mut step) = (rhs.dims[k as usize], at(rhs, k));
            if conv.reversal[s] && n > 0 {
                rhs_offset += (n - 1) * step;
                step = -step;
            }
            taps.push(Loop { n, lhs: at(lhs, i) * conv.rhs_dilation[s], rhs: step, out: 0 });
        }
        let features_last = d.output_feature == last || !natural;
        let mut stack = vec![group];
        if features_last {
            positions.push(batch)
        } else {
            stack.push(batch)
        }
        sort_by_key(&mut positions, |l| std::cmp::Reverse(l.out));
        // Longest runs of whichever operand the micro-kernel may read in place.
        sort_by_key(&mut taps, |l| std::cmp::Reverse(if features_last { l.lhs.abs() } else { l.rhs.abs() }));
        Loops { stack, positions, taps, features: [feature], rhs_offset, features_last, out }
    }

    /// Where the elements of an operand are.
    fn side(&self, offset: i64, of: fn(&Loop) -> i64, outer: &[Loop]) -> Offsets {
        let batch = offsets(&pick(&self.stack, |l| l.n), &pick(&self.stack, of));
        (
            batch.into_iter().map(|o| o + offset as isize).collect(),
            Index::new(&pick(outer, |l| l.n), &pick(outer, of)),
            Index::new(&pick(&self.taps, |l| l.n), &pick(&self.taps, of)),
        )
    }
}

fn pick(loops: &[Loop], of: fn(&Loop) -> i64) -> Vec<i64> {
    loops.iter().map(of).collect()
}

fn count(loops: &[Loop]) -> usize {
    loops.iter().map(|l| l.n).product::<i64>() as usize
}

fn typed<T: Tile>(cx: &mut Lower<'_>, op: OpId, conv: &Conv, find: Find<'_, T>) {
    let result = cx.module.op(op).results()[0];
    let (elem, shape) = cx.shape(result);
    let (lhs, rhs) = (&conv.lhs, &conv.rhs);
    let (Some(l), Some(r), Some(out_packer)) = (find(lhs.elem), find(rhs.elem), find(elem)) else { return };
    let target = View::dense(cx.result(result), elem, &shape);
    let loops = Loops::new(cx, conv, &target);
    let Loops { positions, features, features_last, out, .. } = &loops;
    let features_last = *features_last;
    let side = |view: &View, (batch, outer, depth): Offsets, packer| Side {
        buf: view.buf,
        batch,
        outer,
        depth,
        packer,
        same: is_same::<T>(view.elem),
    };
    let input = side(lhs, loops.side(lhs.offset, |l| l.lhs, positions), l);
    let kernel = side(rhs, loops.side(loops.rhs_offset, |l| l.rhs, features), r);
    let (a, b, rows, columns, c_row) = if features_last {
        let row = positions.iter().rev().find(|l| l.n != 1).map_or(0, |l| l.out);
        (input, kernel, count(positions), count(features), row)
    } else {
        (kernel, input, count(features), count(positions), features[0].out)
    };
    let product = Product {
        a,
        b,
        c: out.buf,
        c_batch: loops.side(0, |l| l.out, &[]).0,
        c_row: c_row as usize,
        dense: false,
        rows,
        columns,
        depth: count(&loops.taps),
        out: out_packer,
        out_size: elem.storage_bytes(),
        out_same: is_same::<T>(elem),
        accumulate: false,
        swollen_b: !features_last,
        packed: None,
        tile: Default::default(),
        plan: Default::default(),
        panels: Arc::new([]),
        blocks: Arc::new([]),
    };
    #[cfg(target_arch = "x86_64")]
    let tiles = if features_last {
        amx::convolution(&product, [lhs.elem, rhs.elem, elem], amx::pack::Role::Rows)
    } else {
        amx::convolution(&product, [rhs.elem, lhs.elem, elem], amx::pack::Role::Columns)
    };
    #[cfg(not(target_arch = "x86_64"))]
    let tiles: Option<std::convert::Infallible> = None;
    match tiles {
        #[cfg(target_arch = "x86_64")]
        Some(tiles) => amx::emit(cx, op, product.name(elem), tiles),
        _ => emit(cx, op, product, out.buf, elem),
    }
    if out.buf != target.buf {
        copy(cx, op, out, &target);
    }
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check;

    /// A convolution in two spatial dimensions: dimension numbers, extents of input, kernel and result, the rest.
    struct Case {
        numbers: &'static str,
        lhs: &'static str,
        rhs: &'static str,
        out: &'static str,
        window: &'static str,
        groups: (i64, i64),
    }

    fn source(c: &Case, elem: &str, out: &str) -> String {
        let (l, r, o) = (format!("{}x{elem}", c.lhs), format!("{}x{elem}", c.rhs), format!("{}x{out}", c.out));
        format!(
            "func.func @main(%a: tensor<{l}>, %b: tensor<{r}>) -> tensor<{o}> {{
            %r = stablehlo.convolution(%a, %b) dim_numbers = {}, window = {{{}}}
                {{batch_group_count = {} : i64, feature_group_count = {} : i64}} : (tensor<{l}>, tensor<{r}>) -> tensor<{o}>
            return %r : tensor<{o}> }}",
            c.numbers, c.window, c.groups.1, c.groups.0
        )
    }

    const CASES: &[Case] = &[
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x7x9x5",
            rhs: "3x3x5x4",
            out: "2x5x7x4",
            window: "",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x7x9x20",
            rhs: "3x3x20x33",
            out: "2x7x9x33",
            window: "pad = [[1, 1], [1, 1]]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
            lhs: "2x5x9x8",
            rhs: "7x5x3x2",
            out: "2x7x5x5",
            window: "stride = [2, 2], pad = [[1, 1], [1, 2]]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "1x6x6x4",
            rhs: "3x3x2x6",
            out: "1x6x6x6",
            window: "pad = [[2, 2], [2, 2]], rhs_dilate = [2, 2]",
            groups: (2, 1),
        },
        Case {
            numbers: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
            lhs: "4x3x5x5",
            rhs: "6x3x2x2",
            out: "2x6x4x4",
            window: "reverse = [1, 0]",
            groups: (1, 2),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x4x5x3",
            rhs: "3x3x3x2",
            out: "2x8x10x2",
            window: "pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2], reverse = [1, 1]",
            groups: (1, 1),
        },
        Case {
            numbers: "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
            lhs: "8x9x9x5",
            rhs: "8x4x4x6",
            out: "3x3x5x6",
            window: "rhs_dilate = [2, 2]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[0, b, f, 1]",
            lhs: "2x4x5x3",
            rhs: "2x2x3x2",
            out: "3x2x2x4",
            window: "",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[f, 0, 1, b]",
            lhs: "2x4x5x3",
            rhs: "2x2x3x2",
            out: "2x3x4x2",
            window: "",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x6x7x37",
            rhs: "3x3x1x37",
            out: "2x6x7x37",
            window: "pad = [[1, 1], [1, 1]]",
            groups: (37, 1),
        },
        Case {
            numbers: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
            lhs: "2x3x6x40",
            rhs: "6x1x3x3",
            out: "2x6x4x38",
            window: "",
            groups: (3, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x6x7x4",
            rhs: "1x1x4x8",
            out: "2x3x4x8",
            window: "stride = [2, 2]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x6x7x0",
            rhs: "1x1x0x8",
            out: "2x6x7x8",
            window: "",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "0x6x7x3",
            rhs: "1x1x3x8",
            out: "0x6x7x8",
            window: "",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "1x6x7x3",
            rhs: "2x2x3x8",
            out: "1x3x5x8",
            window: "pad = [[-1, -1], [0, -1]]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, f]x[0, i, o]->[b, 0, f]",
            lhs: "3x50x6",
            rhs: "5x6x9",
            out: "3x50x9",
            window: "pad = [[4, 0]]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, 0, 1, 2, f]x[0, 1, 2, i, o]->[b, 0, 1, 2, f]",
            lhs: "1x4x5x6x2",
            rhs: "2x3x2x2x3",
            out: "1x3x3x5x3",
            window: "",
            groups: (1, 1),
        },
        Case { numbers: "[b, f]x[i, o]->[b, f]", lhs: "3x5", rhs: "5x2", out: "3x2", window: "", groups: (1, 1) },
        // To few features, along neighbors.
        Case {
            numbers: "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
            lhs: "3x7x6x37",
            rhs: "3x6x5x1",
            out: "3x3x37x1",
            window: "pad = [[1, 0], [0, 1]]",
            groups: (1, 1),
        },
        Case {
            numbers: "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
            lhs: "3x7x9x17",
            rhs: "3x3x4x3",
            out: "3x4x17x3",
            window: "pad = [[0, 0], [1, 0]], rhs_dilate = [2, 2], reverse = [1, 0]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]",
            lhs: "2x5x6x40",
            rhs: "2x5x3x2",
            out: "2x2x3x41",
            window: "stride = [2, 1], pad = [[1, 1], [1, 1]]",
            groups: (1, 1),
        },
        Case {
            numbers: "[b, f, 0, 1]x[o, i, 0, 1]->[b, 0, f, 1]",
            lhs: "1x3x4x8",
            rhs: "4x3x3x1",
            out: "1x2x4x8",
            window: "",
            groups: (1, 1),
        },
    ];

    #[test]
    fn all_kinds_of_windows_and_layouts() {
        for case in CASES {
            for (elem, out, tolerance) in
                [("f32", "f32", 1e-6), ("f64", "f64", 1e-12), ("bf16", "bf16", 8e-3), ("f16", "f32", 1e-3)]
            {
                check(&source(case, elem, out), tolerance);
            }
        }
    }

    /// To few features, whose inputs are neighbors: runs of one tap and of several, in lines of one position and more.
    #[test]
    fn to_few_features_by_dot_products() {
        let images = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]";
        let apart = "[b, 0, 1, f]x[0, 1, i, o]->[b, f, 0, 1]";
        let lines = "[b, 0, f]x[0, i, o]->[b, 0, f]";
        for (numbers, lhs, rhs, out, window) in [
            (images, "2x7x9x17", "3x3x17x3", "2x7x9x3", "pad = [[1, 1], [1, 1]]"),
            (images, "2x9x11x16", "3x3x16x1", "2x4x5x1", "stride = [2, 2]"),
            (apart, "1x9x9x16", "3x2x16x2", "1x2x5x6", "rhs_dilate = [2, 3], reverse = [1, 0]"),
            (
                images,
                "1x4x5x16",
                "3x3x16x2",
                "1x8x10x2",
                "pad = [[1, 2], [1, 2]], lhs_dilate = [2, 2], reverse = [1, 1]",
            ),
            (images, "2x3x3x20", "1x1x20x1", "2x3x3x1", ""),
            (images, "5x2x2x16", "2x2x16x1", "5x1x1x1", ""),
            (lines, "3x13x6", "4x6x2", "3x10x2", ""),
            (lines, "0x13x6", "4x6x2", "0x10x2", ""),
        ] {
            let case = Case { numbers, lhs, rhs, out, window, groups: (1, 1) };
            check(&source(&case, "f32", "f32"), 1e-5);
            check(&source(&case, "f64", "f64"), 1e-12);
            check(&source(&case, "bf16", "f32"), 1e-5);
        }
    }

    #[test]
    fn larger_ones_in_several_parts() {
        for (lhs, rhs, out, numbers) in [
            ("2x20x19x48", "3x3x48x40", "2x20x19x40", "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"),
            ("3x24x20x19", "40x24x3x3", "3x40x20x19", "[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]"),
        ] {
            let case = Case { numbers, lhs, rhs, out, window: "pad = [[1, 1], [1, 1]]", groups: (1, 1) };
            for (elem, out) in [("f32", "f32"), ("bf16", "f32"), ("f8E4M3FN", "f32"), ("i8", "i32"), ("ui8", "i32")] {
                check(&source(&case, elem, out), 1e-5);
            }
            check(&source(&case, "bf16", "bf16"), 8e-3);
        }
        let gradient = Case {
            numbers: "[f, 0, 1, b]x[i, 0, 1, o]->[0, 1, b, f]",
            lhs: "9x20x19x24",
            rhs: "9x20x19x2",
            out: "3x3x24x2",
            window: "pad = [[1, 1], [1, 1]]",
            groups: (1, 1),
        };
        check(&source(&gradient, "f32", "f32"), 1e-5);
        check(&source(&gradient, "f64", "f64"), 1e-12);
        let strided = Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "2x31x29x5",
            rhs: "7x7x5x24",
            out: "2x16x15x24",
            window: "stride = [2, 2], pad = [[3, 3], [3, 3]]",
            groups: (1, 1),
        };
        let grouped = Case {
            numbers: "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]",
            lhs: "3x12x13x64",
            rhs: "3x3x32x48",
            out: "3x10x11x48",
            window: "",
            groups: (2, 1),
        };
        for case in [strided, grouped] {
            check(&source(&case, "bf16", "f32"), 1e-5);
            check(&source(&case, "i8", "i32"), 0.0);
        }
    }

    #[test]
    fn integers_and_complex_numbers() {
        for case in CASES {
            check(&source(case, "i32", "i32"), 0.0);
            check(&source(case, "i64", "i64"), 0.0);
            check(&source(case, "i8", "i32"), 0.0);
            check(&source(case, "complex<f32>", "complex<f32>"), 1e-4);
        }
    }
}
