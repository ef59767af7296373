//! Contractions: dot_general and convolution.

use crate::cases::{Program, SIZES, conform, list, program, t};

struct Dot<'a> {
    lhs: &'a [i64],
    rhs: &'a [i64],
    batch: (&'a [i64], &'a [i64]),
    contracting: (&'a [i64], &'a [i64]),
}

fn dot_program(dot: &Dot<'_>, elem: &str) -> Program {
    let free = |dims: &[i64], b: &[i64], c: &[i64]| -> Vec<i64> {
        (0..dims.len()).filter(|d| !b.contains(&(*d as i64)) && !c.contains(&(*d as i64))).map(|d| dims[d]).collect()
    };
    let mut out: Vec<i64> = dot.batch.0.iter().map(|&d| dot.lhs[d as usize]).collect();
    out.extend(free(dot.lhs, dot.batch.0, dot.contracting.0));
    out.extend(free(dot.rhs, dot.batch.1, dot.contracting.1));
    let (l, r, o) = (t(dot.lhs, elem), t(dot.rhs, elem), t(&out, elem));
    let batching = if dot.batch.0.is_empty() {
        String::new()
    } else {
        format!("batching_dims = [{}] x [{}], ", list(dot.batch.0), list(dot.batch.1))
    };
    let body = format!(
        "%r0 = stablehlo.dot_general %a0, %a1, {batching}contracting_dims = [{}] x [{}] : ({l}, {r}) -> {o}",
        list(dot.contracting.0),
        list(dot.contracting.1)
    );
    program(&[&l, &r], &[&o], body)
}

#[test]
fn matrix_products() {
    let mut programs = vec![];
    for &k in SIZES {
        for (m, n) in [(4, 3), (3, 4), (1, 7), (0, 2)] {
            let dot = Dot { lhs: &[m, k], rhs: &[k, n], batch: (&[], &[]), contracting: (&[1], &[0]) };
            programs.push(dot_program(&dot, "i32"));
            let dot = Dot { lhs: &[m, k], rhs: &[n, k], batch: (&[], &[]), contracting: (&[1], &[1]) };
            programs.push(dot_program(&dot, "f32"));
        }
    }
    conform(programs, 6);
}

#[test]
fn batched_and_multiply_contracted() {
    let mut programs = vec![];
    for &n in &SIZES[1..] {
        let dot = Dot { lhs: &[n, 3, 2], rhs: &[n, 2, 4], batch: (&[0], &[0]), contracting: (&[2], &[1]) };
        programs.push(dot_program(&dot, "i32"));
        let dot = Dot { lhs: &[2, n, 3], rhs: &[3, n, 2], batch: (&[], &[]), contracting: (&[1, 2], &[1, 0]) };
        programs.push(dot_program(&dot, "i32"));
        let dot = Dot { lhs: &[2, 3], rhs: &[n], batch: (&[], &[]), contracting: (&[], &[]) };
        programs.push(dot_program(&dot, "i32"));
        let dot = Dot { lhs: &[n], rhs: &[n], batch: (&[], &[]), contracting: (&[0], &[0]) };
        programs.push(dot_program(&dot, "i32"));
        let dot = Dot { lhs: &[n, 3], rhs: &[n, 3], batch: (&[0], &[0]), contracting: (&[1], &[1]) };
        programs.push(dot_program(&dot, "i32"));
    }
    conform(programs, 6);
}

struct Conv {
    size: i64,
    kernel: i64,
    stride: i64,
    low: i64,
    high: i64,
    lhs_dilation: i64,
    rhs_dilation: i64,
}

/// A convolution over one spatial dimension; `features` are input features, output features, groups, batch groups.
fn conv_program(c: &Conv, batch: i64, features: (i64, i64, i64, i64), reversed: &str) -> Option<Program> {
    let (input, output, groups, batch_groups) = features;
    let spread = |n: i64, by: i64| if n == 0 { 0 } else { (n - 1) * by + 1 };
    let line = spread(c.size, c.lhs_dilation) + c.low + c.high;
    let span = spread(c.kernel, c.rhs_dilation);
    let out = if line < span || line <= 0 { 0 } else { (line - span) / c.stride + 1 };
    if line < 0 {
        return None;
    }
    let (l, r) = (t(&[batch, c.size, input], "i32"), t(&[c.kernel, input / groups, output], "i32"));
    let o = t(&[batch / batch_groups, out, output], "i32");
    let body = format!(
        "%r0 = stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {{stride = [{}], pad = [[{}, {}]], lhs_dilate = [{}], rhs_dilate = [{}], reverse = [{reversed}]}} {{batch_group_count = {batch_groups} : i64, feature_group_count = {groups} : i64}} : ({l}, {r}) -> {o}",
        c.stride, c.low, c.high, c.lhs_dilation, c.rhs_dilation
    );
    Some(program(&[&l, &r], &[&o], body))
}

#[test]
fn convolution_windows() {
    let mut programs = vec![];
    for size in [1, 3, 4, 7, 8] {
        for kernel in [1, 2, 3, 5] {
            for stride in [1, 2, 3] {
                for (low, high) in [(0, 0), (1, 1), (2, 0), (-1, 1), (3, 4)] {
                    for (lhs_dilation, rhs_dilation) in [(1, 1), (2, 1), (1, 2), (3, 2)] {
                        let c = Conv { size, kernel, stride, low, high, lhs_dilation, rhs_dilation };
                        programs.extend(conv_program(&c, 2, (2, 2, 1, 1), if stride == 1 { "true" } else { "false" }));
                    }
                }
            }
        }
    }
    conform(programs.into_iter().step_by(5), 2);
}

#[test]
fn convolution_batch_features_and_groups() {
    let mut programs = vec![];
    let c = Conv { size: 6, kernel: 3, stride: 1, low: 1, high: 1, lhs_dilation: 1, rhs_dilation: 1 };
    for batch in [4, 6, 8] {
        for features in [
            (3, 5, 1, 1),
            (4, 4, 1, 1),
            (4, 8, 4, 1),
            (6, 6, 3, 1),
            (2, 4, 1, 2),
            (3, 8, 1, 4),
            (8, 8, 8, 1),
            (2, 6, 2, 1),
        ] {
            if batch % features.3 == 0 {
                programs.extend(conv_program(&c, batch, features, "false"));
            }
        }
    }
    conform(programs, 6);
}

/// The gradient of a convolution by its kernel: a convolution whose kernel is the large tensor.
#[test]
fn convolution_with_a_split_kernel() {
    let mut programs = vec![];
    for (size, kernel, low, high) in [(8, 8, 1, 1), (7, 7, 1, 1), (8, 4, 0, 1), (12, 12, 2, 2), (5, 4, 1, 0)] {
        for (stride, lhs_dilation, rhs_dilation) in [(1, 1, 1), (1, 1, 2), (2, 1, 1), (1, 2, 1)] {
            let c = Conv {
                size,
                kernel,
                stride,
                low: low * rhs_dilation,
                high: high + (kernel - 1) * (rhs_dilation - 1),
                lhs_dilation,
                rhs_dilation,
            };
            programs.extend(conv_program(&c, 2, (3, 2, 1, 1), "false"));
            programs.extend(conv_program(&c, 2, (3, 2, 1, 1), "true"));
        }
    }
    conform(programs, 3);
}
