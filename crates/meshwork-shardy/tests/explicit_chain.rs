//! The chain of explicit passes against the evaluator: each op, with its operand and its result split in all ways that
//! a mesh of 2 by 4 devices has, gives on every device what it gives on one.
//!
//! Arguments and results are copied to all devices; what is split, evenly or not, is split in between.

use meshwork_eval as eval;
use meshwork_ir::DeviceGrid;
use meshwork_ir::{Literal, Module, PassOptions, text};
use meshwork_shardy::passes;

/// One program: declarations and values before `OP`, the operand `%a` that is resharded first, and the op.
struct Case {
    name: &'static str,
    /// Type of the operand `%a`.
    from: &'static str,
    /// Type of the result.
    to: &'static str,
    /// What stands before the op.
    setup: &'static str,
    /// The op on `%a`, with `ATTR` for its placement.
    op: &'static str,
}

const CASES: &[Case] = &[
    Case {
        name: "exponential",
        from: "5x6xf32",
        to: "5x6xf32",
        setup: "",
        op: "stablehlo.exponential %a {ATTR} : tensor<5x6xf32>",
    },
    Case {
        name: "pad that shifts",
        from: "8xi32",
        to: "8xi32",
        setup: "%c = stablehlo.constant dense<9> : tensor<i32>",
        op: "stablehlo.pad %a, %c, low = [-1], high = [1], interior = [0] {ATTR} : (tensor<8xi32>, tensor<i32>) -> tensor<8xi32>",
    },
    Case {
        name: "pad with holes",
        from: "5x3xi32",
        to: "12x4xi32",
        setup: "%c = stablehlo.constant dense<9> : tensor<i32>",
        op: "stablehlo.pad %a, %c, low = [1, -1], high = [2, 2], interior = [1, 0] {ATTR} : (tensor<5x3xi32>, tensor<i32>) -> tensor<12x4xi32>",
    },
    Case {
        name: "pad of two dimensions, one of them in place",
        from: "4x6xi32",
        to: "8x7xi32",
        setup: "%c = stablehlo.constant dense<9> : tensor<i32>",
        op: "stablehlo.pad %a, %c, low = [2, 1], high = [2, 0], interior = [0, 0] {ATTR} : (tensor<4x6xi32>, tensor<i32>) -> tensor<8x7xi32>",
    },
    Case {
        name: "slice",
        from: "9x6xi32",
        to: "5x6xi32",
        setup: "",
        op: "stablehlo.slice %a [3:8, 0:6] {ATTR} : (tensor<9x6xi32>) -> tensor<5x6xi32>",
    },
    Case {
        name: "slice with strides",
        from: "8x9xi32",
        to: "4x4xi32",
        setup: "",
        op: "stablehlo.slice %a [0:8:2, 1:8:2] {ATTR} : (tensor<8x9xi32>) -> tensor<4x4xi32>",
    },
    Case {
        name: "reverse",
        from: "5x6xi32",
        to: "5x6xi32",
        setup: "",
        op: "stablehlo.reverse %a, dims = [0, 1] {ATTR} : tensor<5x6xi32>",
    },
    Case {
        name: "reshape that splits",
        from: "6x2xi32",
        to: "2x3x2xi32",
        setup: "",
        op: "stablehlo.reshape %a {ATTR} : (tensor<6x2xi32>) -> tensor<2x3x2xi32>",
    },
    Case {
        name: "reshape that joins",
        from: "3x4xi32",
        to: "12xi32",
        setup: "",
        op: "stablehlo.reshape %a {ATTR} : (tensor<3x4xi32>) -> tensor<12xi32>",
    },
    Case {
        name: "transpose",
        from: "5x6xi32",
        to: "6x5xi32",
        setup: "",
        op: "stablehlo.transpose %a, dims = [1, 0] {ATTR} : (tensor<5x6xi32>) -> tensor<6x5xi32>",
    },
    Case {
        name: "sum of what is not zero in the padding",
        from: "5x6xf32",
        to: "6xf32",
        setup: "%c = stablehlo.constant dense<0.0> : tensor<f32>\n%e = stablehlo.exponential %arg0 : tensor<5x6xf32>",
        op: "stablehlo.reduce(%a init: %c) applies stablehlo.add across dimensions = [0] {ATTR} : (tensor<5x6xf32>, tensor<f32>) -> tensor<6xf32>",
    },
    Case {
        name: "maximum",
        from: "5x6xi32",
        to: "5xi32",
        setup: "%c = stablehlo.constant dense<-2147483648> : tensor<i32>",
        op: "stablehlo.reduce(%a init: %c) applies stablehlo.maximum across dimensions = [1] {ATTR} : (tensor<5x6xi32>, tensor<i32>) -> tensor<5xi32>",
    },
    Case {
        name: "product",
        from: "5x3xi32",
        to: "3xi32",
        setup: "%c = stablehlo.constant dense<1> : tensor<i32>",
        op: "stablehlo.reduce(%a init: %c) applies stablehlo.multiply across dimensions = [0] {ATTR} : (tensor<5x3xi32>, tensor<i32>) -> tensor<3xi32>",
    },
    Case {
        name: "dot",
        from: "5x7xf32",
        to: "5x5xf32",
        setup: "%b = stablehlo.transpose %arg0, dims = [1, 0] : (tensor<5x7xf32>) -> tensor<7x5xf32>",
        op: "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] {ATTR} : (tensor<5x7xf32>, tensor<7x5xf32>) -> tensor<5x5xf32>",
    },
    Case {
        name: "concatenate",
        from: "3x5xi32",
        to: "6x5xi32",
        setup: "",
        op: "stablehlo.concatenate %a, %a, dim = 0 {ATTR} : (tensor<3x5xi32>, tensor<3x5xi32>) -> tensor<6x5xi32>",
    },
    Case {
        name: "windows that reach across shards",
        from: "8x4xi32",
        to: "6x4xi32",
        setup: "%c = stablehlo.constant dense<0> : tensor<i32>",
        op: "\"stablehlo.reduce_window\"(%a, %c) ({\n^bb0(%p: tensor<i32>, %q: tensor<i32>):\n%s = stablehlo.add %p, %q : tensor<i32>\nstablehlo.return %s : tensor<i32>\n}) {window_dimensions = array<i64: 3, 1>, ATTR} : (tensor<8x4xi32>, tensor<i32>) -> tensor<6x4xi32>",
    },
    Case {
        name: "gather of rows",
        from: "7x3xi32",
        to: "4x3xi32",
        setup: "%i = stablehlo.constant dense<[[6], [0], [9], [2]]> : tensor<4x1xi32>",
        op: "\"stablehlo.gather\"(%a, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>, ATTR} : (tensor<7x3xi32>, tensor<4x1xi32>) -> tensor<4x3xi32>",
    },
    Case {
        name: "scatter of split updates",
        from: "5x3xi32",
        to: "7x3xi32",
        setup: "%x = stablehlo.constant dense<1> : tensor<7x3xi32>\n%i = stablehlo.constant dense<[[6], [0], [9], [2], [0]]> : tensor<5x1xi32>",
        op: "\"stablehlo.scatter\"(%x, %i, %a) ({\n^bb0(%p: tensor<i32>, %q: tensor<i32>):\n%s = stablehlo.add %p, %q : tensor<i32>\nstablehlo.return %s : tensor<i32>\n}) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, ATTR} : (tensor<7x3xi32>, tensor<5x1xi32>, tensor<5x3xi32>) -> tensor<7x3xi32>",
    },
    Case {
        name: "dynamic slice",
        from: "5x6xi32",
        to: "2x6xi32",
        setup: "%i = stablehlo.constant dense<2> : tensor<i32>\n%z = stablehlo.constant dense<0> : tensor<i32>",
        op: "stablehlo.dynamic_slice %a, %i, %z, sizes = [2, 6] {ATTR} : (tensor<5x6xi32>, tensor<i32>, tensor<i32>) -> tensor<2x6xi32>",
    },
    Case {
        name: "dynamic update of a part",
        from: "7x3xi32",
        to: "7x3xi32",
        setup: "%u = stablehlo.constant dense<5> : tensor<2x3xi32>\n%i = stablehlo.constant dense<4> : tensor<i32>\n%z = stablehlo.constant dense<0> : tensor<i32>",
        op: "stablehlo.dynamic_update_slice %a, %u, %i, %z {ATTR} : (tensor<7x3xi32>, tensor<2x3xi32>, tensor<i32>, tensor<i32>) -> tensor<7x3xi32>",
    },
    Case {
        name: "sort",
        from: "5x6xi32",
        to: "5x6xi32",
        setup: "",
        op: "\"stablehlo.sort\"(%a) ({\n^bb0(%p: tensor<i32>, %q: tensor<i32>):\n%s = stablehlo.compare LT, %p, %q : (tensor<i32>, tensor<i32>) -> tensor<i1>\nstablehlo.return %s : tensor<i1>\n}) {dimension = 1 : i64, ATTR} : (tensor<5x6xi32>) -> tensor<5x6xi32>",
    },
];

/// All ways to split `rank` dimensions over the mesh, each axis at most once.
fn splits(rank: usize) -> Vec<String> {
    const LISTS: [(&str, u8); 6] =
        [("", 0), ("\"x\"", 1), ("\"y\"", 2), ("\"x\", \"y\"", 3), ("\"y\", \"x\"", 3), ("\"y\":(1)2", 2)];
    let mut all: Vec<(Vec<&str>, u8)> = vec![(vec![], 0)];
    for _ in 0..rank {
        let longer = |(dims, used): &(Vec<&'static str>, u8)| {
            let free = LISTS.iter().filter(|(_, axes)| axes & used == 0);
            free.map(|(list, axes)| ([dims.clone(), vec![list]].concat(), used | axes)).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let show = |(dims, _): (Vec<&str>, u8)| {
        let dims: Vec<String> = dims.iter().map(|axes| format!("{{{axes}}}")).collect();
        format!("#sdy.sharding<@mesh, [{}]>", dims.join(", "))
    };
    all.into_iter().map(show).collect()
}

fn program(case: &Case, from: &str, to: &str) -> String {
    let op = case.op.replace("ATTR", &format!("sdy.sharding = #sdy.sharding_per_value<[{to}]>"));
    let operand = if case.setup.contains("%e =") { "%e" } else { "%arg0" };
    let bare = from.trim_start_matches("#sdy.sharding");
    format!(
        "sdy.mesh @mesh = <[\"x\"=2, \"y\"=4]>\n\
         func.func @main(%arg0: tensor<{0}>) -> tensor<{1}> {{\n{2}\n%a = sdy.reshard {operand} {bare} : tensor<{0}>\n\
         %r = {op}\nreturn %r : tensor<{1}>\n}}\n",
        case.from, case.to, case.setup,
    )
}

fn rank(ty: &str) -> usize {
    ty.matches('x').count()
}

/// Numbers that are small, distinct and not in order.
fn input(module: &Module) -> Literal {
    let func = module.entry().expect("a function");
    let ty = module.func_type(func).inputs[0].as_tensor().expect("a tensor").clone();
    let count = ty.num_elements().expect("static");
    let values: Vec<f64> = (0..count).map(|i| ((i * 7 + 3) % 23 - 5) as f64).collect();
    Literal::from_f64s(ty.dims.iter().copied(), ty.elem, &values)
        .or_else(|| {
            Literal::from_i64s(ty.dims.iter().copied(), ty.elem, &values.iter().map(|&v| v as i64).collect::<Vec<_>>())
        })
        .expect("values that fit")
}

/// The program that each device runs.
fn localize(source: &str, halo: &str) -> Result<Module, String> {
    let mut module = text::parse(source).map_err(|d| d.to_string())?;
    let all = passes();
    let steps = [
        ("sdy-insert-explicit-reshards", vec![("enable-full-version", "true")]),
        ("sdy-resolve-permutation-factors", vec![("enable-halo-exchange", halo)]),
        ("sdy-reshard-to-collectives", vec![]),
        ("sdy-pad-for-divisibility", vec![]),
        ("sdy-convert-global-to-local", vec![]),
        ("sdy-drop-sharding-and-mesh", vec![]),
    ];
    for (name, options) in steps {
        let pass = all.iter().find(|p| p.name == name).ok_or("a pass is missing")?;
        let options = PassOptions(options.into_iter().map(|(k, v)| (k.to_string(), v.to_string())).collect());
        let mut diagnostics = vec![];
        if (pass.run)(&mut module, &options, &mut diagnostics).is_err() {
            return Err(format!("{name}: {diagnostics:?}\n{}", text::print(&module)));
        }
    }
    Ok(module)
}

fn close(expected: &Literal, got: &Literal) -> bool {
    if !expected.elem().is_float() {
        return expected == got;
    }
    let (x, y) = (expected.to_f64s(), got.to_f64s());
    let scale = x.iter().fold(1.0f64, |m, v| m.max(v.abs()));
    x.len() == y.len() && x.iter().zip(&y).all(|(a, b)| (a - b).abs() <= 1e-5 * scale)
}

fn check(case: &Case, from: &str, to: &str, halo: &str) -> Result<(), String> {
    let source = program(case, from, to);
    let whole = text::parse(&source).map_err(|d| format!("{d}\n{source}"))?;
    let input = input(&whole);
    let expected = eval::run(&whole, None, std::slice::from_ref(&input)).map_err(|e| e.to_string())?;
    let local = localize(&source, halo).map_err(|e| format!("{e}\n{source}"))?;
    let grid = DeviceGrid { replicas: 1, partitions: 8 };
    let inputs = vec![vec![input]; grid.len()];
    let outputs = eval::run_devices(&local, None, inputs, grid).map_err(|e| format!("{e}\n{}", text::print(&local)))?;
    for (device, got) in outputs.iter().enumerate() {
        if !close(&expected[0], &got[0]) {
            return Err(format!("device {device} differs\n{source}\n{}", text::print(&local)));
        }
    }
    Ok(())
}

/// Every operand split with a few result splits, and every result split with a few operand splits.
fn check_case(case: &Case) {
    let (froms, tos) = (splits(rank(case.from)), splits(rank(case.to)));
    let mut failures = vec![];
    for i in 0..froms.len().max(tos.len()) {
        for shift in [0, 1, 3, 4, 7] {
            let (from, to) = (&froms[i % froms.len()], &tos[(i + shift) % tos.len()]);
            let halo = if (i + shift) % 3 == 2 { "false" } else { "true" };
            if let Err(message) = check(case, from, to, halo) {
                failures.push(format!("{}: {from} to {to}, halo {halo}: {message}", case.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures, the first:\n{}", failures.len(), failures[0]);
}

#[test]
fn movement_gives_the_same_on_every_device() {
    CASES[..10].iter().for_each(check_case);
}

#[test]
fn computation_gives_the_same_on_every_device() {
    CASES[10..].iter().for_each(check_case);
}
