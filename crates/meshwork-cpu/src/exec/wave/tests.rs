//! Loops in waves give the bits that they give turn by turn.

use std::sync::Arc;

use meshwork_ir::DeviceGrid;
use meshwork_ir::{ElementType, Literal};

use crate::compile::testing::{ONE, run};
use crate::compile::{Span, compile};
use crate::device_program::{DeviceProgram, Replication};
use crate::exec::pool::Pool;
use crate::library::testing::noise;
use meshwork_runtime::memory::buffer::Buffer;

const TURNS: [i32; 7] = [0, 1, 2, 7, 8, 19, 70];

/// A loop around `body`, which computes `%y` from `%x`; both are `ty`. `%n` is the number of turns.
fn looped(ty: &str, body: &str) -> String {
    format!(
        "func.func @main(%a: {ty}, %n: tensor<i32>) -> ({ty}, tensor<i32>) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, {ty}
           cond {{
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           }} do {{
{body}
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %y : tensor<i32>, {ty}
           }}
           return %r#1, %r#0 : {ty}, tensor<i32> }}"
    )
}

/// `%name = x[start:limit]`, per dimension, of `%from`.
fn slice(name: &str, from: &str, dims: &[i64], range: &[(i64, i64)], elem: &str) -> String {
    let cut = range.iter().map(|(a, b)| format!("{a}:{b}")).collect::<Vec<_>>().join(", ");
    let to: Vec<i64> = range.iter().map(|(a, b)| b - a).collect();
    format!("%{name} = stablehlo.slice %{from} [{cut}] : ({}) -> {}\n", ty(dims, elem), ty(&to, elem))
}

fn ty(dims: &[i64], elem: &str) -> String {
    format!("tensor<{}{elem}>", dims.iter().map(|d| format!("{d}x")).collect::<String>())
}

/// `%name` is `%from` turned by `by` along dimension `d`.
fn roll(name: &str, from: &str, dims: &[i64], d: usize, by: i64, elem: &str) -> String {
    let whole: Vec<(i64, i64)> = dims.iter().map(|&n| (0, n)).collect();
    let at = by.rem_euclid(dims[d]);
    let (mut head, mut tail) = (whole.clone(), whole);
    head[d] = (dims[d] - at, dims[d]);
    tail[d] = (0, dims[d] - at);
    let piece = |r: &[(i64, i64)]| ty(&r.iter().map(|(a, b)| b - a).collect::<Vec<_>>(), elem);
    let (a, b) = (format!("{name}_a"), format!("{name}_b"));
    slice(&a, from, dims, &head, elem)
        + &slice(&b, from, dims, &tail, elem)
        + &format!(
            "%{name} = stablehlo.concatenate %{a}, %{b}, dim = {d} : ({}, {}) -> {}\n",
            piece(&head),
            piece(&tail),
            ty(dims, elem)
        )
}

/// The interior of an array and its neighbors along every dimension, averaged: `%new`.
fn inside(dims: &[i64]) -> (String, Vec<i64>) {
    let small: Vec<i64> = dims.iter().map(|d| d - 2).collect();
    let middle: Vec<(i64, i64)> = dims.iter().map(|d| (1, d - 1)).collect();
    let t = ty(&small, "f32");
    let mut text = slice("s0", "x", dims, &middle, "f32");
    let mut last = 0;
    for d in 0..dims.len() {
        for by in [-1, 1] {
            let mut range = middle.clone();
            range[d] = (1 + by, dims[d] - 1 + by);
            text += &slice(&format!("n{last}"), "x", dims, &range, "f32");
            text += &format!("%s{} = stablehlo.add %s{last}, %n{last} : {t}\n", last + 1);
            last += 1;
        }
    }
    text += &format!("%c = stablehlo.constant dense<0.21> : {t}\n");
    text += &format!("%new = stablehlo.multiply %s{last}, %c : {t}\n");
    (text, small)
}

fn assigned(dims: &[i64]) -> String {
    let (mut text, small) = inside(dims);
    let ones = vec!["%one"; dims.len()].join(", ");
    let ints = vec!["tensor<i32>"; dims.len()].join(", ");
    let (a, b) = (ty(dims, "f32"), ty(&small, "f32"));
    text += &format!("%y = stablehlo.dynamic_update_slice %x, %new, {ones} : ({a}, {b}, {ints}) -> {a}\n");
    text
}

fn padded(dims: &[i64]) -> String {
    let (mut text, small) = inside(dims);
    let (a, b) = (ty(dims, "f32"), ty(&small, "f32"));
    let (ones, zeros) = (vec!["1"; dims.len()].join(", "), vec!["0"; dims.len()].join(", "));
    text += "%f = stablehlo.constant dense<0.0> : tensor<f32>\n";
    text += &format!(
        "%w = stablehlo.pad %new, %f, low = [{ones}], high = [{ones}], interior = [{zeros}] : ({b}, tensor<f32>) -> {a}\n"
    );
    text + &format!(
        "%h = stablehlo.constant dense<0.5> : {a}\n%k = stablehlo.multiply %x, %h : {a}\n%y = stablehlo.add %k, %w : {a}\n"
    )
}

fn rolled(dims: &[i64]) -> String {
    let t = ty(dims, "i32");
    let mut text = String::from("%s0 = stablehlo.add %x, %x : T\n");
    let mut last = 0;
    for d in 0..dims.len() {
        for by in [-1, 1] {
            text += &roll(&format!("n{last}"), "x", dims, d, by, "i32");
            text += &format!("%s{} = stablehlo.add %s{last}, %n{last} : T\n", last + 1);
            last += 1;
        }
    }
    text += &format!("%c = stablehlo.constant dense<7> : T\n%y = stablehlo.subtract %s{last}, %c : T\n");
    text.replace(": T", &format!(": {t}"))
}

fn bits(results: Vec<Vec<Arc<Buffer>>>) -> Vec<Vec<u8>> {
    results.iter().flatten().map(|b| b.as_slice().to_vec()).collect()
}

/// Runs `source` on one device with several numbers of threads, and turn by turn. How many loops were run in waves.
fn same_bits(source: &str, dims: &[i64], elem: ElementType) -> usize {
    let module = meshwork_ir::text::parse(source).unwrap_or_else(|e| panic!("{e:?}\n{source}"));
    let program = compile(&module, None, ONE, Span::OneProcess).unwrap_or_else(|e| panic!("{e}\n{source}"));
    let x = noise(dims, elem, 1);
    let mut waves = 0;
    for threads in [2, 3] {
        let exe =
            DeviceProgram::new(program.clone(), ONE, Arc::new(Pool::new(threads)), Replication::default()).unwrap();
        waves = exe.waves();
        for n in TURNS {
            let n = Literal::from_bytes([], ElementType::I32, n.to_le_bytes().to_vec()).unwrap();
            let want: Vec<Vec<u8>> =
                run(&program, &[x.clone(), n.clone()]).iter().map(|r| r.bytes().to_vec()).collect();
            let args = [&x, &n].map(|a| vec![Arc::new(Buffer::from_bytes(a.bytes()).unwrap())]);
            let got = bits(exe.run(args.to_vec()).unwrap());
            assert!(got == want, "{threads} threads, {:?} turns\n{program}", n.bytes());
        }
    }
    waves
}

/// As [`same_bits`], for a loop that must be run in waves.
fn check(source: &str, dims: &[i64], elem: ElementType) {
    assert_eq!(same_bits(source, dims, elem), 1, "{source}");
}

#[test]
fn slice_assign_and_pad_of_lines_and_areas() {
    for dims in [vec![700_001], vec![613, 859], vec![90, 71, 83], vec![20_000, 26], vec![9, 60_000]] {
        check(&looped(&ty(&dims, "f32"), &assigned(&dims)), &dims, ElementType::F32);
        check(&looped(&ty(&dims, "f32"), &padded(&dims)), &dims, ElementType::F32);
    }
}

#[test]
fn what_wraps_around() {
    for dims in [vec![700_001], vec![613, 859], vec![20_000, 26], vec![8, 70_000]] {
        check(&looped(&ty(&dims, "i32"), &rolled(&dims)), &dims, ElementType::I32);
    }
}

#[test]
fn without_neighbours() {
    let t = "tensor<700001xf32>";
    let body = format!(
        "%c = stablehlo.constant dense<0.7> : {t}\n%m = stablehlo.multiply %x, %c : {t}\n%y = stablehlo.add %m, %c : {t}\n"
    );
    check(&looped(t, &body), &[700_001], ElementType::F32);
}

/// Loops whose turns depend on all of the turn before, or on sums over it: in waves or not, the bits are the same.
#[test]
fn what_is_reduced_in_a_turn() {
    let dims = [20_011, 40];
    let (t, row, column) = (ty(&dims, "f32"), ty(&dims[1..], "f32"), ty(&dims[..1], "f32"));
    let reduce = |to: &str, from: &str, how: &str, init: &str, d: i64, r: &str| {
        format!(
            "%{to}_0 = stablehlo.constant dense<{init}> : tensor<f32>
             %{to} = stablehlo.reduce(%{from} init: %{to}_0) applies stablehlo.{how} across dimensions = [{d}] : ({t}, tensor<f32>) -> {r}\n"
        )
    };
    let spread = |to: &str, from: &str, d: i64, r: &str| {
        format!("%{to} = stablehlo.broadcast_in_dim %{from}, dims = [{d}] : ({r}) -> {t}\n")
    };
    let binary = |to: &str, how: &str, a: &str, b: &str| format!("%{to} = stablehlo.{how} %{a}, %{b} : {t}\n");
    let softmax = reduce("max", "x", "maximum", "0xFF800000", 1, &column)
        + &spread("maxs", "max", 0, &column)
        + &binary("down", "subtract", "x", "maxs")
        + &format!("%exp = stablehlo.exponential %down : {t}\n")
        + &reduce("sum", "exp", "add", "0.0", 1, &column)
        + &spread("sums", "sum", 0, &column)
        + &binary("p", "divide", "exp", "sums");
    let columns = reduce("all", "p", "add", "0.0", 0, &row) + &spread("alls", "all", 1, &row);
    let bodies = [
        softmax.clone() + &columns + &binary("y", "divide", "p", "alls"),
        softmax + &columns + &binary("q", "multiply", "p", "alls") + &binary("y", "add", "q", "x"),
        reduce("all", "x", "add", "0.0", 0, &row)
            + &spread("alls", "all", 1, &row)
            + &binary("z", "subtract", "x", "alls")
            + &format!("%y = stablehlo.tanh %z : {t}\n"),
        reduce("all", "x", "maximum", "0xFF800000", 1, &column)
            + &spread("alls", "all", 0, &column)
            + &format!("%flip = stablehlo.reverse %x, dims = [0] : {t}\n")
            + &binary("y", "subtract", "flip", "alls"),
    ];
    for body in bodies {
        same_bits(&looped(&t, &body), &dims, ElementType::F32);
    }
}

/// Soft k-means: every step of a turn reads all that the one before has written, and many of them are short.
#[test]
fn means_of_a_cloud() {
    let (points, centers, dim) = (20_011, 32, 8);
    let t = |dims: &[i64]| ty(dims, "f32");
    let (cloud, mean, all) = (t(&[points, dim]), t(&[centers, dim]), t(&[points, centers, dim]));
    let (near, point, center) = (t(&[points, centers]), t(&[points]), t(&[centers]));
    let source = format!(
        "func.func @main(%a: {cloud}, %n: tensor<i32>) -> ({mean}, tensor<i32>) {{
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %f = stablehlo.constant dense<0.0> : tensor<f32>
           %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
           %start = stablehlo.slice %a [0:{centers}, 0:{dim}] : ({cloud}) -> {mean}
           %r:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, {mean}
           cond {{
             %go = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %go : tensor<i1>
           }} do {{
             %p0 = stablehlo.broadcast_in_dim %a, dims = [0, 2] : ({cloud}) -> {all}
             %p1 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : ({mean}) -> {all}
             %d = stablehlo.subtract %p0, %p1 : {all}
             %dd = stablehlo.multiply %d, %d : {all}
             %far = stablehlo.reduce(%dd init: %f) applies stablehlo.add across dimensions = [2] : ({all}, tensor<f32>) -> {near}
             %s = stablehlo.negate %far : {near}
             %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [1] : ({near}, tensor<f32>) -> {point}
             %ms = stablehlo.broadcast_in_dim %m, dims = [0] : ({point}) -> {near}
             %e = stablehlo.subtract %s, %ms : {near}
             %w = stablehlo.exponential %e : {near}
             %sum = stablehlo.reduce(%w init: %f) applies stablehlo.add across dimensions = [1] : ({near}, tensor<f32>) -> {point}
             %sums = stablehlo.broadcast_in_dim %sum, dims = [0] : ({point}) -> {near}
             %p = stablehlo.divide %w, %sums : {near}
             %moved = stablehlo.dot_general %p, %a, contracting_dims = [0] x [0] : ({near}, {cloud}) -> {mean}
             %weight = stablehlo.reduce(%p init: %f) applies stablehlo.add across dimensions = [0] : ({near}, tensor<f32>) -> {center}
             %weights = stablehlo.broadcast_in_dim %weight, dims = [0] : ({center}) -> {mean}
             %y = stablehlo.divide %moved, %weights : {mean}
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %y : tensor<i32>, {mean}
           }}
           return %r#1, %r#0 : {mean}, tensor<i32> }}"
    );
    assert_eq!(same_bits(&source, &[points, dim], ElementType::F32), 0, "cells that take turns on one thread are slow");
}

/// One of several devices in a ring: it has some rows, and gets the ones next to them. Of two devices both are sent at once
/// if they are `joined`.
fn ring(dims: &[i64], devices: i64, joined: bool) -> String {
    let (t, row) = (ty(dims, "f32"), [&[1], &dims[1..]].concat());
    let edge = |at: i64| [&[(at, at + 1)][..], &dims[1..].iter().map(|&n| (0, n)).collect::<Vec<_>>()].concat();
    let pairs = |by: i64| {
        (0..devices).map(|d| format!("[{d}, {}]", (d + by).rem_euclid(devices))).collect::<Vec<_>>().join(", ")
    };
    let permute = |to: &str, from: &str, by: i64, t: &str| {
        format!(
            "%{to} = \"stablehlo.collective_permute\"(%{from}) {{source_target_pairs = dense<[{}]> : tensor<{devices}x2xi64>, \
             channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}} : ({t}) -> {t}\n",
            pairs(by),
        )
    };
    let rest = |r: (i64, i64)| [&[r][..], &edge(0)[1..]].concat();
    let most = ty(&[&[dims[0] - 1], &dims[1..]].concat(), "f32");
    let (r, both) = (ty(&row, "f32"), [&[2], &dims[1..]].concat());
    let sent = if joined {
        format!("%edges = stablehlo.concatenate %last, %first, dim = 0 : ({r}, {r}) -> {}\n", ty(&both, "f32"))
            + &permute("got", "edges", 1, &ty(&both, "f32"))
            + &slice("above", "got", &both, &edge(0), "f32")
            + &slice("below", "got", &both, &edge(1), "f32")
    } else {
        permute("above", "last", 1, &r) + &permute("below", "first", -1, &r)
    };
    slice("first", "x", dims, &edge(0), "f32")
        + &slice("last", "x", dims, &edge(dims[0] - 1), "f32")
        + &sent
        + &slice("upper", "x", dims, &rest((0, dims[0] - 1)), "f32")
        + &slice("lower", "x", dims, &rest((1, dims[0])), "f32")
        + &format!(
            "%up = stablehlo.concatenate %above, %upper, dim = 0 : ({r}, {most}) -> {t}
             %down = stablehlo.concatenate %lower, %below, dim = 0 : ({most}, {r}) -> {t}
             %s = stablehlo.add %up, %down : {t}
             %u = stablehlo.add %s, %x : {t}
             %c = stablehlo.constant dense<0.33> : {t}
             %y = stablehlo.multiply %u, %c : {t}\n"
        )
}

#[test]
fn rings_of_devices() {
    for (devices, joined) in [(2, false), (2, true), (3, false), (4, false), (8, false)] {
        for dims in [vec![1_200_007 / devices], vec![1301 / devices, 517]] {
            let source = looped(&ty(&dims, "f32"), &ring(&dims, devices, joined));
            let module = meshwork_ir::text::parse(&source).unwrap_or_else(|e| panic!("{e:?}\n{source}"));
            let grid = DeviceGrid { replicas: 1, partitions: devices as usize };
            let program = compile(&module, None, grid, Span::OneProcess).unwrap_or_else(|e| panic!("{e}\n{source}"));
            let shards: Vec<Arc<Buffer>> = (0..devices)
                .map(|d| Arc::new(Buffer::from_bytes(noise(&dims, ElementType::F32, d as u64 + 1).bytes()).unwrap()))
                .collect();
            let new = |threads: usize| {
                DeviceProgram::new(program.clone(), grid, Arc::new(Pool::new(threads)), Replication::default()).unwrap()
            };
            let (plain, some) = (new(2).turn_by_turn(), [new(1), new(2), new(5)]);
            assert_eq!((plain.waves(), some[0].waves()), (0, 1), "{source}\n{program}");
            for n in TURNS {
                let n = Arc::new(Buffer::from_bytes(&n.to_le_bytes()).unwrap());
                let n = vec![n; devices as usize];
                let result = |exe: &DeviceProgram| bits(exe.run(vec![shards.clone(), n.clone()]).unwrap());
                let want = result(&plain);
                assert!(some.iter().all(|exe| result(exe) == want), "{devices} devices, {:?} turns", n[0].as_slice());
            }
        }
    }
}
