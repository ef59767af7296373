//! Communication between devices.

use crate::harness::{Check, tensor};

const GROUPS: &[(&str, &str, i64)] =
    &[("[[0, 1, 2, 3]]", "1x4", 4), ("[[0, 1], [2, 3]]", "2x2", 2), ("[[3, 1], [0, 2]]", "2x2", 2)];
const CHANNEL: &str = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";

/// A program of one operation `op` from `from` to `to`.
fn one(c: &Check, op: &str, body: &str, attrs: &str, from: &str, to: &str) {
    let source = format!(
        "func.func @main(%x: {from}) -> {to} {{
           %r = \"stablehlo.{op}\"(%x) {body} {{{attrs}, {CHANNEL}}} : ({from}) -> {to}
           return %r : {to} }}"
    );
    c.devices(&source, 4);
}

fn body(op: &str, elem: &str) -> String {
    format!(
        "({{ ^bb0(%a: tensor<{elem}>, %b: tensor<{elem}>):
           %s = stablehlo.{op} %a, %b : tensor<{elem}>
           stablehlo.return %s : tensor<{elem}> }})"
    )
}

pub fn reduce(c: &Check) {
    for elem in ["f32", "f64", "bf16", "f16", "i8", "i32", "ui64", "complex<f32>", "i1"] {
        let ops = match elem {
            "i1" => "and or xor",
            "complex<f32>" => "add multiply",
            e if e.contains('f') => "add multiply maximum minimum",
            _ => "add multiply maximum minimum and xor",
        };
        for op in ops.split(' ') {
            for dims in [&[][..], &[0], &[5], &[40, 33]] {
                for (groups, shape, _) in GROUPS {
                    let attrs =
                        format!("replica_groups = dense<{groups}> : tensor<{shape}xi64>, use_global_device_ids");
                    let ty = tensor(dims, elem);
                    one(c, "all_reduce", &body(op, elem), &attrs, &ty, &ty);
                }
            }
        }
    }
    // Groups of different sizes, on arrays that one or many tasks combine.
    for dims in [&[5][..], &[300, 333]] {
        let attrs = "replica_groups = dense<[[0, 2, 3], [1, -1, -1]]> : tensor<2x3xi64>, use_global_device_ids";
        one(c, "all_reduce", &body("add", "f32"), attrs, &tensor(dims, "f32"), &tensor(dims, "f32"));
    }
    // A body of several operations.
    let own = "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %s = stablehlo.add %a, %b : tensor<f32>
        %t = stablehlo.multiply %s, %s : tensor<f32>
        stablehlo.return %t : tensor<f32> })";
    let attrs = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids";
    one(c, "all_reduce", own, attrs, "tensor<3xf32>", "tensor<3xf32>");
}

/// Groups as axes of a mesh: whole axes in both orders, parts of an axis, and devices in another order.
pub fn by_axes(c: &Check) {
    const SQUARE: &str = "axes=[<name = \"x\", size = 2>, <name = \"y\", size = 2>]";
    const LINE: &str = "axes=[<name = \"x\", size = 4>]";
    const TURNED: &str =
        "axes=[<name = \"x\", size = 2>, <name = \"y\", size = 2>], device_ids=dense<[2, 0, 3, 1]> : tensor<4xi64>";
    let cases = [
        (SQUARE, vec!["name = \"x\""], 2),
        (SQUARE, vec!["name = \"y\""], 2),
        (SQUARE, vec!["name = \"y\"", "name = \"x\""], 4),
        (LINE, vec!["name = \"x\", sub_axis_info = (1)2"], 2),
        (LINE, vec!["name = \"x\", sub_axis_info = (2)2"], 2),
        (TURNED, vec!["name = \"x\""], 2),
        (TURNED, vec!["name = \"x\"", "name = \"y\""], 4),
    ];
    for (mesh, axes, n) in cases {
        let axes: Vec<String> = axes.iter().map(|axis| format!("#stablehlo.axis_ref<{axis}>")).collect();
        let groups = format!(
            "replica_groups = #stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<{mesh}>, axes = [{}]>",
            axes.join(", ")
        );
        let global = format!("{groups}, use_global_device_ids");
        let (small, large) = (tensor(&[3, 4], "f32"), tensor(&[3, 4 * n], "f32"));
        one(c, "all_reduce", &body("add", "f32"), &global, &small, &small);
        one(c, "all_gather", "", &format!("all_gather_dim = 1 : i64, {global}"), &small, &large);
        let scatter = format!("scatter_dimension = 1 : i64, {global}");
        one(c, "reduce_scatter", &body("add", "f32"), &scatter, &large, &small);
        let all = format!("split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = {n} : i64, {groups}");
        one(c, "all_to_all", "", &all, &large, &tensor(&[3 * n, 4], "f32"));
        one(c, "collective_broadcast", "", &groups, &small, &small);
    }
}

/// One exchange of a value and itself, or parts of it: whatever result is written first, the others still read the value.
pub fn equal_operands(c: &Check) {
    let attrs = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids";
    let body = body("add", "f32");
    for (rows, cols) in [(4, 3), (160, 128)] {
        let (t, half) = (tensor(&[rows, cols], "f32"), tensor(&[rows / 2, cols], "f32"));
        let lower = format!("%h = stablehlo.slice %v [0:{}, 0:{cols}] : ({t}) -> {half}", rows / 2);
        for (operands, types) in [
            ("%v, %v", format!("{t}, {t}")),
            ("%v, %w, %v", format!("{t}, {t}, {t}")),
            ("%v, %h", format!("{t}, {half}")),
            ("%h, %v", format!("{half}, {t}")),
            ("%h, %h, %v, %w", format!("{half}, {half}, {t}, {t}")),
        ] {
            let n = operands.split(',').count();
            let results: Vec<String> = (0..n).map(|i| format!("%r#{i}")).collect();
            let results = results.join(", ");
            c.devices(
                &format!(
                    "func.func @main(%x: {t}, %y: {t}) -> ({types}) {{
                       %v = stablehlo.dot_general %x, %y, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [] : ({t}, {t}) -> {t}
                       %w = stablehlo.reverse %v, dims = [0] : {t}
                       {lower}
                       %r:{n} = \"stablehlo.all_reduce\"({operands}) {body} {{{attrs}, {CHANNEL}}} : ({types}) -> ({types})
                       return {results} : {types} }}"
                ),
                4,
            );
        }
    }
}

pub fn gather(c: &Check) {
    for elem in ["f32", "i8", "complex<f64>"] {
        for (groups, shape, n) in GROUPS {
            for dim in 0..2 {
                let mut to = [3, 5];
                to[dim] *= n;
                let attrs = format!(
                    "all_gather_dim = {dim} : i64, replica_groups = dense<{groups}> : tensor<{shape}xi64>, \
                     use_global_device_ids"
                );
                one(c, "all_gather", "", &attrs, &tensor(&[3, 5], elem), &tensor(&to, elem));
            }
        }
    }
}

pub fn scatter(c: &Check) {
    for elem in ["f32", "i32"] {
        for (groups, shape, n) in GROUPS {
            for dim in 0..2 {
                let (from, mut to) = ([8, 12], [8, 12]);
                to[dim] /= n;
                let attrs = format!(
                    "scatter_dimension = {dim} : i64, replica_groups = dense<{groups}> : tensor<{shape}xi64>, \
                     use_global_device_ids"
                );
                one(c, "reduce_scatter", &body("add", elem), &attrs, &tensor(&from, elem), &tensor(&to, elem));
            }
        }
    }
}

pub fn exchange(c: &Check) {
    for (groups, shape, n) in GROUPS {
        for (split, concat) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let mut to = [8, 12];
            to[split] /= n;
            to[concat] *= n;
            let attrs = format!(
                "split_dimension = {split} : i64, concat_dimension = {concat} : i64, split_count = {n} : i64, \
                 replica_groups = dense<{groups}> : tensor<{shape}xi64>"
            );
            one(c, "all_to_all", "", &attrs, &tensor(&[8, 12], "f32"), &tensor(&to, "f32"));
        }
    }
    let attrs = "replica_groups = dense<[[2, 0, 1, 3]]> : tensor<1x4xi64>";
    one(c, "collective_broadcast", "", attrs, "tensor<3xf32>", "tensor<3xf32>");
}

/// A `ragged_all_to_all` of `rows` rows from `from` to `to` elements; `size` is the length by sender, receiver and row.
fn ragged_program(
    (groups, shape, n): (&str, &str, i64),
    (rows, from, to): (i64, i64, i64),
    elem: &str,
    size: impl Fn(i64, i64, i64) -> i64,
) -> String {
    let row = |a: i64, b: i64| (0..rows).map(|r| size(a, b, r).to_string()).collect::<Vec<_>>().join(", ");
    let sender = |a: i64| (0..n).map(|b| format!("[{}]", row(a, b))).collect::<Vec<_>>().join(", ");
    let sizes = (0..n).map(|a| format!("[{}]", sender(a))).collect::<Vec<_>>().join(", ");
    let (x, y, table) = (tensor(&[rows, from], elem), tensor(&[rows, to], elem), tensor(&[n, n, rows], "i32"));
    format!(
        "func.func @main(%x: {x}) -> {y} {{
           %s = stablehlo.constant dense<[{sizes}]> : {table}
           %r = \"meshwork.ragged_all_to_all\"(%x, %s) {{
             replica_groups = dense<{groups}> : tensor<{shape}xi64>, {CHANNEL}}} : ({x}, {table}) -> {y}
           return %r : {y} }}"
    )
}

pub fn ragged(c: &Check) {
    for elem in ["f32", "i8", "f64", "complex<f32>"] {
        for &(groups, shape, n) in GROUPS {
            // Short rows, and rows longer than fit in a message with others.
            for (rows, each) in [(1, 3), (3, 5), (2, 4000)] {
                let size = |a: i64, b: i64, row: i64| each * ((a + 2 * b + row) % 3);
                let room = 2 * n * each;
                c.devices(&ragged_program((groups, shape, n), (rows, room, room), elem, size), 4);
            }
            // All to one, and nothing.
            let size = |_: i64, b: i64, _: i64| if b == 1 { 7 } else { 0 };
            c.devices(&ragged_program((groups, shape, n), (2, 7, 7 * n), elem, size), 4);
            c.devices(&ragged_program((groups, shape, n), (2, 7, 3), elem, |_, _, _| 0), 4);
        }
    }
}

/// Tables that do not fit the rows are refused before anything is written.
pub fn ragged_misfits(c: &Check) {
    let all = GROUPS[0];
    let words = ["device 0 of the group is to send 8 elements of row 0, which has 7"];
    c.fails(&ragged_program(all, (1, 7, 100), "f32", |_, _, _| 2), 4, &words, &[]);
    let words = ["device 1 of the group is to receive 28 elements of row 0, which has room for 27"];
    let to_one = |_: i64, b: i64, _: i64| if b == 1 { 7 } else { 0 };
    c.fails(&ragged_program(all, (1, 7, 27), "f32", to_one), 4, &words, &[]);
    let words = ["device 0 of the group is to send -1 elements of row 0 to 0"];
    c.fails(&ragged_program(all, (1, 7, 27), "f32", |_, _, _| -1), 4, &words, &[]);
}

pub fn permute(c: &Check) {
    let ring = "source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>";
    // Nothing sends to device 0, which gets zeros.
    let shift = "source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>";
    for pairs in [ring, shift] {
        for dims in [&[][..], &[0], &[1, 3], &[300, 200]] {
            one(c, "collective_permute", "", pairs, &tensor(dims, "f32"), &tensor(dims, "f32"));
        }
    }
}

pub fn identity(c: &Check) {
    c.devices(
        "func.func @main() -> (tensor<ui32>, tensor<ui32>) {
           %p = stablehlo.partition_id : tensor<ui32>
           %q = stablehlo.replica_id : tensor<ui32>
           return %p, %q : tensor<ui32>, tensor<ui32> }",
        4,
    );
}

pub fn loops_with_communication(c: &Check) {
    // A heat step by hand: one element from each neighbor in every turn.
    c.devices(
        "func.func @main(%x: tensor<1000xf32>) -> tensor<1000xf32> {
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %n = stablehlo.constant dense<9> : tensor<i32>
           %h = stablehlo.constant dense<0.5> : tensor<1000xf32>
           %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<1000xf32>
           cond {
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           } do {
             %last = stablehlo.slice %a [999:1000] : (tensor<1000xf32>) -> tensor<1xf32>
             %left = \"stablehlo.collective_permute\"(%last) {source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>} : (tensor<1xf32>) -> tensor<1xf32>
             %head = stablehlo.slice %a [0:999] : (tensor<1000xf32>) -> tensor<999xf32>
             %s = stablehlo.concatenate %left, %head, dim = 0 : (tensor<1xf32>, tensor<999xf32>) -> tensor<1000xf32>
             %t = stablehlo.add %a, %s : tensor<1000xf32>
             %u = stablehlo.multiply %t, %h : tensor<1000xf32>
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %u : tensor<i32>, tensor<1000xf32>
           }
           return %r#1 : tensor<1000xf32> }",
        4,
    );
    // Pairs of devices run different numbers of iterations; then all communicate.
    c.devices(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
           %id = stablehlo.partition_id : tensor<ui32>
           %two = stablehlo.constant dense<2> : tensor<ui32>
           %n = stablehlo.divide %id, %two : tensor<ui32>
           %zero = stablehlo.constant dense<0> : tensor<ui32>
           %one = stablehlo.constant dense<1> : tensor<ui32>
           %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<ui32>, tensor<8xf32>
           cond {
             %p = stablehlo.compare LE, %i, %n : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           } do {
             %s = \"stablehlo.all_reduce\"(%a) ({ ^bb0(%b: tensor<f32>, %c: tensor<f32>):
               %d = stablehlo.add %b, %c : tensor<f32>
               stablehlo.return %d : tensor<f32> }) {replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
             %j = stablehlo.add %i, %one : tensor<ui32>
             stablehlo.return %j, %s : tensor<ui32>, tensor<8xf32>
           }
           %t = \"stablehlo.all_reduce\"(%r#1) ({ ^bb0(%b: tensor<f32>, %c: tensor<f32>):
             %d = stablehlo.add %b, %c : tensor<f32>
             stablehlo.return %d : tensor<f32> }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, channel_handle = #stablehlo.channel_handle<handle = 2, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
           return %t : tensor<8xf32> }",
        4,
    );
}

pub fn torn_groups(c: &Check) {
    c.fails(
        "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
           %id = stablehlo.partition_id : tensor<ui32>
           %zero = stablehlo.constant dense<0> : tensor<ui32>
           %p = stablehlo.compare EQ, %id, %zero : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
           %r = \"stablehlo.if\"(%p) ({
             %s = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%b: tensor<f32>, %c: tensor<f32>):
               %d = stablehlo.add %b, %c : tensor<f32>
               stablehlo.return %d : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<8xf32>) -> tensor<8xf32>
             stablehlo.return %s : tensor<8xf32>
           }, { stablehlo.return %x : tensor<8xf32> }) : (tensor<i1>) -> tensor<8xf32>
           return %r : tensor<8xf32> }",
        2,
        &["'stablehlo.all_reduce' at line 6", "devices 1"],
        &["devices 1 do not reach it"],
    );
}

/// Large equal results are in memory shared by a group: no device may see another device's later work in it, neither
/// while others still read it nor in a later iteration.
pub fn shared_results(c: &Check) {
    let sum = "({ ^bb0(%k: tensor<f32>, %l: tensor<f32>):
               %m = stablehlo.add %k, %l : tensor<f32>
               stablehlo.return %m : tensor<f32> })";
    let groups = |list: &str, shape: &str| {
        format!("replica_groups = dense<{list}> : tensor<{shape}xi64>, {CHANNEL}, use_global_device_ids")
    };
    let (pairs, all) = (groups("[[0, 2], [1, 3]]", "2x2"), groups("[[0, 1, 2, 3]]", "1x4"));
    let own = "%id = stablehlo.partition_id : tensor<ui32>
           %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
           %own = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<64x80xf32>";
    // A sum is read after the devices have continued independently; the next sum reuses its memory.
    c.devices(
        &format!(
            "func.func @main(%x: tensor<64x80xf32>) -> (tensor<64x80xf32>, tensor<64x80xf32>, tensor<128x80xf32>) {{
           {own}
           %s = \"stablehlo.all_reduce\"(%x) {sum} {{{pairs}}} : (tensor<64x80xf32>) -> tensor<64x80xf32>
           %t = stablehlo.multiply %s, %own : tensor<64x80xf32>
           %u = \"stablehlo.all_reduce\"(%t) {sum} {{{all}}} : (tensor<64x80xf32>) -> tensor<64x80xf32>
           %v = stablehlo.subtract %u, %s : tensor<64x80xf32>
           %w = \"stablehlo.all_reduce\"(%v) {sum} {{{pairs}}} : (tensor<64x80xf32>) -> tensor<64x80xf32>
           %y = stablehlo.add %w, %own : tensor<64x80xf32>
           %g = \"stablehlo.all_gather\"(%y) {{all_gather_dim = 0 : i64, {pairs}}} : (tensor<64x80xf32>) -> tensor<128x80xf32>
           return %y, %w, %g : tensor<64x80xf32>, tensor<64x80xf32>, tensor<128x80xf32> }}"
        ),
        4,
    );
    // In a loop, with a carry that is a sum itself and one that is made of one.
    c.devices(
        &format!(
            "func.func @main(%x: tensor<64x80xf32>) -> (tensor<64x80xf32>, tensor<64x80xf32>) {{
           {own}
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %n = stablehlo.constant dense<3> : tensor<i32>
           %r:3 = stablehlo.while(%i = %zero, %a = %x, %b = %x) : tensor<i32>, tensor<64x80xf32>, tensor<64x80xf32>
           cond {{
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           }} do {{
             %s = \"stablehlo.all_reduce\"(%a) {sum} {{{all}}} : (tensor<64x80xf32>) -> tensor<64x80xf32>
             %t = stablehlo.add %s, %own : tensor<64x80xf32>
             %u = \"stablehlo.all_reduce\"(%b) {sum} {{{pairs}}} : (tensor<64x80xf32>) -> tensor<64x80xf32>
             %j = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %j, %t, %u : tensor<i32>, tensor<64x80xf32>, tensor<64x80xf32>
           }}
           return %r#1, %r#2 : tensor<64x80xf32>, tensor<64x80xf32> }}"
        ),
        4,
    );
}

/// Slices at places that depend on the device, between arithmetic: in one and two dimensions, past the rim (where the
/// start is moved back), before a reduction, and on more devices than get loops of their own.
pub fn slices_by_device(c: &Check) {
    for devices in [1, 2, 3, 4, 17] {
        c.devices(
            "func.func @main(%x: tensor<40x37xf32>) -> (tensor<40x37xf32>, tensor<37xf32>, tensor<30x30xf32>) {
           %id = stablehlo.partition_id : tensor<ui32>
           %i = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %two = stablehlo.constant dense<2> : tensor<i32>
           %nine = stablehlo.constant dense<9> : tensor<i32>
           %f = stablehlo.constant dense<0.0> : tensor<f32>
           %d = stablehlo.subtract %one, %i : tensor<i32>
           %h = stablehlo.remainder %i, %two : tensor<i32>
           %far = stablehlo.multiply %i, %nine : tensor<i32>
           %y = stablehlo.multiply %x, %x : tensor<40x37xf32>
           %a = stablehlo.dynamic_slice %y, %d, %zero, sizes = [39, 37] : (tensor<40x37xf32>, tensor<i32>, tensor<i32>) -> tensor<39x37xf32>
           %b = stablehlo.negate %a : tensor<39x37xf32>
           %p = stablehlo.pad %b, %f, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<39x37xf32>, tensor<f32>) -> tensor<41x37xf32>
           %q = stablehlo.dynamic_slice %p, %h, %zero, sizes = [40, 37] : (tensor<41x37xf32>, tensor<i32>, tensor<i32>) -> tensor<40x37xf32>
           %r = stablehlo.add %x, %q : tensor<40x37xf32>
           %s = stablehlo.reduce(%q init: %f) applies stablehlo.add across dimensions = [0] : (tensor<40x37xf32>, tensor<f32>) -> tensor<37xf32>
           %t = stablehlo.dynamic_slice %r, %far, %d, sizes = [30, 30] : (tensor<40x37xf32>, tensor<i32>, tensor<i32>) -> tensor<30x30xf32>
           %u = stablehlo.exponential %t : tensor<30x30xf32>
           return %r, %s, %u : tensor<40x37xf32>, tensor<37xf32>, tensor<30x30xf32> }",
            devices,
        );
    }
}

/// Operands that are rows of a larger buffer, which is or is not needed later.
pub fn parts_of_buffers(c: &Check) {
    let groups = "replica_groups = dense<[[3, 1], [0, 2]]> : tensor<2x2xi64>, use_global_device_ids";
    let ring = "source_target_pairs = dense<[[0, 1], [1, 2], [2, 3], [3, 0]]> : tensor<4x2xi64>";
    // Rows of 64 bytes and of 20: from the start, from a multiple of a cache line, and from elsewhere.
    for (columns, start) in [(16, 0), (16, 2), (5, 0), (5, 1)] {
        let (whole, part) = (tensor(&[9, columns], "f32"), tensor(&[6, columns], "f32"));
        let (add, half) = (body("add", "f32"), tensor(&[3, columns], "f32"));
        let wide = tensor(&[12, columns], "f32");
        let moves = [
            ("all_gather", "", format!("all_gather_dim = 0 : i64, {groups}"), &wide),
            ("all_reduce", &add[..], groups.to_string(), &part),
            ("reduce_scatter", &add[..], format!("scatter_dimension = 0 : i64, {groups}"), &half),
            ("collective_permute", "", ring.to_string(), &part),
        ];
        for (op, body, attrs, to) in moves {
            for later in ["%x", "%y"] {
                let source = format!(
                    "func.func @main(%x: {whole}) -> ({to}, {whole}) {{
                       %y = stablehlo.exponential %x : {whole}
                       %p = stablehlo.slice %y [{start}:{end}, 0:{columns}] : ({whole}) -> {part}
                       %r = \"stablehlo.{op}\"(%p) {body} {{{attrs}, {CHANNEL}}} : ({part}) -> {to}
                       %z = stablehlo.add {later}, {later} : {whole}
                       return %r, %z : {to}, {whole} }}",
                    end = start + 6,
                );
                c.devices(&source, 4);
            }
        }
    }
}

/// More than the caches hold is written past them, also where runs are short or not aligned.
pub fn past_the_caches(c: &Check) {
    let groups = "replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids";
    let (from, to) = (tensor(&[1028, 2803], "f32"), tensor(&[257, 2803], "f32"));
    let attrs = format!("scatter_dimension = 0 : i64, {groups}");
    one(c, "reduce_scatter", &body("add", "f32"), &attrs, &from, &to);
    let (from, to) = (tensor(&[700, 4004], "f32"), tensor(&[700, 1001], "f32"));
    let attrs = format!("scatter_dimension = 1 : i64, {groups}");
    one(c, "reduce_scatter", &body("maximum", "f32"), &attrs, &from, &to);
}
