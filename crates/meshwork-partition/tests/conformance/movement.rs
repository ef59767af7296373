//! Operations that move elements.

use crate::cases::{Program, SIZES, conform, list, program, t};

fn pairs() -> impl Iterator<Item = (i64, i64)> {
    SIZES.iter().flat_map(|&n| [(n, 4), (n, 3)])
}

#[test]
fn transpose() {
    conform(
        pairs().map(|(n, m)| {
            let (a, r) = (t(&[n, m], "i32"), t(&[m, n], "i32"));
            program(&[&a], &[&r], format!("%r0 = stablehlo.transpose %a0, dims = [1, 0] : ({a}) -> {r}"))
        }),
        40,
    );
    let (a, r) = (t(&[2, 3, 4], "i32"), t(&[4, 2, 3], "i32"));
    conform([program(&[&a], &[&r], format!("%r0 = stablehlo.transpose %a0, dims = [2, 0, 1] : ({a}) -> {r}"))], 14);
}

fn reshape_program(from: &[i64], to: &[i64]) -> Program {
    let (a, r) = (t(from, "i32"), t(to, "i32"));
    program(&[&a], &[&r], format!("%r0 = stablehlo.reshape %a0 : ({a}) -> {r}"))
}

#[test]
fn reshape() {
    let shapes: &[(&[i64], &[i64])] = &[
        (&[4, 2], &[8]),
        (&[3, 4], &[12]),
        (&[12], &[4, 3]),
        (&[12], &[3, 4]),
        (&[2, 6], &[4, 3]),
        (&[6, 2], &[3, 4]),
        (&[7], &[1, 7]),
        (&[1, 7], &[7, 1]),
        (&[5, 1], &[5]),
        (&[1, 1], &[]),
        (&[], &[1]),
        (&[0, 3], &[3, 0]),
        (&[0], &[0, 2]),
        (&[2, 2, 2], &[8]),
        (&[8], &[2, 2, 2]),
        (&[4, 3, 2], &[4, 6]),
        (&[5, 2], &[10]),
        (&[10], &[5, 2]),
        (&[3, 1, 4], &[3, 4]),
        (&[4, 9], &[6, 6]),
        (&[6, 35], &[14, 15]),
    ];
    conform(shapes.iter().map(|(from, to)| reshape_program(from, to)), 10);
}

#[test]
fn broadcast_in_dim() {
    let shapes: &[(&[i64], &[i64], &[i64])] = &[
        (&[], &[], &[4]),
        (&[], &[], &[3, 0]),
        (&[4], &[0], &[4, 3]),
        (&[3], &[1], &[4, 3]),
        (&[1], &[0], &[7]),
        (&[1, 4], &[0, 1], &[3, 4]),
        (&[5, 1], &[0, 1], &[5, 3]),
        (&[3, 2], &[1, 0], &[2, 3]),
        (&[7], &[2], &[1, 2, 7]),
        (&[0], &[0], &[0, 2]),
    ];
    conform(
        shapes.iter().map(|(from, dims, to)| {
            let (a, r) = (t(from, "i32"), t(to, "i32"));
            let dims = list(dims);
            program(&[&a], &[&r], format!("%r0 = stablehlo.broadcast_in_dim %a0, dims = [{dims}] : ({a}) -> {r}"))
        }),
        30,
    );
}

fn slice_program(n: i64, start: i64, limit: i64, stride: i64) -> Program {
    let m = (limit - start + stride - 1) / stride;
    let (a, r) = (t(&[n, 3], "i32"), t(&[m, 3], "i32"));
    program(&[&a], &[&r], format!("%r0 = stablehlo.slice %a0 [{start}:{limit}:{stride}, 0:3] : ({a}) -> {r}"))
}

#[test]
fn slice() {
    let mut programs = vec![];
    for &n in SIZES {
        for start in 0..=n {
            for limit in [start, (start + 1).min(n), (n + start + 1) / 2, n] {
                for stride in [1, 2, 3] {
                    programs.push(slice_program(n, start, limit, stride));
                }
            }
        }
    }
    conform(programs, 2);
}

/// A slice that others compute with: frames meet.
#[test]
fn sum_of_slices() {
    let mut programs = vec![];
    for n in [4, 7, 8, 11] {
        for (i, j, k) in [(0, 1, 2), (2, 0, 1), (1, 1, 2), (2, 2, 0)] {
            let m = n - 2;
            let (a, s) = (t(&[n, 2], "i32"), t(&[m, 2], "i32"));
            let cut =
                |name: &str, at: i64| format!("%{name} = stablehlo.slice %a0 [{at}:{}, 0:2] : ({a}) -> {s}\n", at + m);
            let body = format!(
                "{}{}{}%p = stablehlo.add %x, %y : {s}\n%r0 = stablehlo.multiply %p, %z : {s}",
                cut("x", i),
                cut("y", j),
                cut("z", k)
            );
            programs.push(program(&[&a], &[&s], body));
        }
    }
    conform(programs, 7);
}

fn pad_program(n: i64, low: i64, high: i64, interior: i64) -> Option<Program> {
    let m = n + low + high + interior * (n - 1).max(0);
    if m < 0 {
        return None;
    }
    let (a, r) = (t(&[n, 2], "i32"), t(&[m, 2], "i32"));
    Some(program(
        &[&a, &t(&[], "i32")],
        &[&r],
        format!(
            "%r0 = stablehlo.pad %a0, %a1, low = [{low}, 0], high = [{high}, 0], interior = [{interior}, 0] : ({a}, tensor<i32>) -> {r}"
        ),
    ))
}

#[test]
fn pad() {
    let mut programs = vec![];
    for &n in SIZES {
        for low in [-2, -1, 0, 1, 5] {
            for high in [-3, -1, 0, 1, 2] {
                for interior in [0, 1, 2] {
                    programs.extend(pad_program(n, low, high, interior));
                }
            }
        }
    }
    conform(programs, 2);
}

/// A pad that moves elements without changing the extent.
#[test]
fn pad_that_shifts() {
    let shifts = [-3, -2, -1, 1, 2, 3];
    let programs = [4, 7, 8].into_iter().flat_map(|n| shifts.into_iter().filter_map(move |s| pad_program(n, s, -s, 0)));
    conform(programs, 14);
}

fn concatenate_program(sizes: &[i64], across: i64) -> Program {
    let total = sizes.iter().sum();
    let args: Vec<String> = sizes.iter().map(|&n| t(&[n, across], "i32")).collect();
    let r = t(&[total, across], "i32");
    let names: Vec<String> = (0..sizes.len()).map(|i| format!("%a{i}")).collect();
    let body = format!("%r0 = stablehlo.concatenate {}, dim = 0 : ({}) -> {r}", names.join(", "), args.join(", "));
    Program { args, results: vec![r], body }
}

#[test]
fn concatenate() {
    let mut programs = vec![];
    for a in [0, 1, 3, 4] {
        for b in [0, 1, 4, 7] {
            programs.push(concatenate_program(&[a, b], 3));
            for c in [0, 2, 5] {
                programs.push(concatenate_program(&[a, b, c], 2));
            }
        }
    }
    conform(programs, 4);
}

#[test]
fn reverse() {
    let mut programs = vec![];
    for (n, m) in pairs() {
        for dims in ["0", "1", "0, 1"] {
            let a = t(&[n, m], "i32");
            programs.push(program(&[&a], &[&a], format!("%r0 = stablehlo.reverse %a0, dims = [{dims}] : {a}")));
        }
    }
    conform(programs, 6);
}

/// Two slices of one array put together the other way round.
#[test]
fn roll() {
    let mut programs = vec![];
    for n in [1, 3, 4, 7, 8] {
        for by in 0..n {
            let a = t(&[n, 2], "i32");
            let (x, y) = (t(&[n - by, 2], "i32"), t(&[by, 2], "i32"));
            let body = format!(
                "%x = stablehlo.slice %a0 [{by}:{n}, 0:2] : ({a}) -> {x}
%y = stablehlo.slice %a0 [0:{by}, 0:2] : ({a}) -> {y}
%r0 = stablehlo.concatenate %x, %y, dim = 0 : ({x}, {y}) -> {a}"
            );
            programs.push(program(&[&a], &[&a], body));
        }
    }
    conform(programs, 5);
}

#[test]
fn iota_and_constants() {
    let mut programs = vec![];
    for (n, m) in pairs() {
        for d in [0, 1] {
            for elem in ["i32", "f32", "i8"] {
                let a = t(&[n, m], elem);
                let values: Vec<String> =
                    (0..n).map(|i| format!("[{}]", list(&(0..m).map(|j| i * m + j).collect::<Vec<_>>()))).collect();
                let dense = match elem {
                    "f32" => "1.5".to_string(),
                    _ if n == 0 => String::new(),
                    _ => format!("[{}]", values.join(", ")),
                };
                let body = format!(
                    "%i = stablehlo.iota dim = {d} : {a}\n%c = stablehlo.constant dense<{dense}> : {a}\n%s = stablehlo.add %i, %c : {a}\n%r0 = stablehlo.multiply %s, %a0 : {a}"
                );
                programs.push(program(&[&a], &[&a], body));
            }
        }
    }
    conform(programs, 3);
}
