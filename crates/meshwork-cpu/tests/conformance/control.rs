//! Loops, branches and errors.

use crate::harness::Check;

pub fn loops(c: &Check) {
    // Carries that stay, that trade places, that are copied, and one from outside.
    c.single(
        "func.func @main(%x: tensor<5xf32>, %y: tensor<5xf32>) -> (tensor<i32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %n = stablehlo.constant dense<7> : tensor<i32>
           %r:4 = stablehlo.while(%i = %zero, %a = %x, %b = %y, %k = %x) : tensor<i32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
           cond {
             %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           } do {
             %j = stablehlo.add %i, %one : tensor<i32>
             %s = stablehlo.add %a, %y : tensor<5xf32>
             %t = stablehlo.reverse %s, dims = [0] : tensor<5xf32>
             stablehlo.return %j, %b, %t, %k : tensor<i32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>
           }
           return %r#0, %r#1, %r#2, %r#3 : tensor<i32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32> }",
    );
    // No turn at all, and the same value twice.
    c.single(
        "func.func @main(%x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
           %p = stablehlo.constant dense<false> : tensor<i1>
           %r:3 = stablehlo.while(%g = %p, %a = %x, %b = %x) : tensor<i1>, tensor<3xf64>, tensor<3xf64>
           cond { stablehlo.return %g : tensor<i1> }
           do { stablehlo.return %g, %b, %b : tensor<i1>, tensor<3xf64>, tensor<3xf64> }
           return %r#1, %r#2 : tensor<3xf64>, tensor<3xf64> }",
    );
}

/// Branches and loops read a value that the block around them needs afterwards, too: in other shapes, and in what is
/// computed from it. What an inner block does for itself is not done outside.
pub fn captured(c: &Check) {
    let t = "tensor<4x4xf32>";
    let afterwards = [
        "%d = stablehlo.subtract %x, %b : tensor<4x4xf32>",
        "%d = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>",
        "%d = stablehlo.add %v, %b : tensor<4x4xf32>",
        "%u = stablehlo.reshape %v : (tensor<4x4xf32>) -> tensor<16xf32>
         %d = stablehlo.reshape %u : (tensor<16xf32>) -> tensor<4x4xf32>",
    ];
    let inside = [
        "%1 = stablehlo.negate %x : tensor<4x4xf32>",
        "%1 = stablehlo.multiply %x, %v : tensor<4x4xf32>",
        "%w = stablehlo.reshape %v : (tensor<4x4xf32>) -> tensor<2x8xf32>
         %n = stablehlo.negate %w : tensor<2x8xf32>
         %1 = stablehlo.reshape %n : (tensor<2x8xf32>) -> tensor<4x4xf32>",
        "%1 = stablehlo.dot_general %v, %x, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>",
    ];
    for (first, second) in inside.iter().flat_map(|a| inside.iter().map(move |b| (a, b))) {
        for after in afterwards {
            for index in 0..2 {
                c.single(&format!(
                    "func.func @main(%a: {t}) -> ({t}, {t}, {t}) {{
                       %z = stablehlo.constant dense<0.0> : tensor<f32>
                       %i = stablehlo.constant dense<{index}> : tensor<i32>
                       %x = stablehlo.sine %a : {t}
                       %v = stablehlo.transpose %x, dims = [1, 0] : ({t}) -> {t}
                       %m = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : ({t}, tensor<f32>) -> tensor<4xf32>
                       %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf32>) -> {t}
                       {after}
                       %c:2 = \"stablehlo.case\"(%i) ({{
                         {first}
                         stablehlo.return %1, %v : {t}, {t}
                       }}, {{
                         {second}
                         stablehlo.return %1, %b : {t}, {t}
                       }}) : (tensor<i32>) -> ({t}, {t})
                       return %c#0, %c#1, %d : {t}, {t}, {t} }}"
                ));
            }
        }
    }
    // A loop of no turn, and of two.
    for turns in [0, 2] {
        for (step, after) in inside.iter().flat_map(|a| afterwards.iter().map(move |b| (a, b))) {
            c.single(&format!(
                "func.func @main(%a: {t}) -> ({t}, {t}) {{
                   %z = stablehlo.constant dense<0.0> : tensor<f32>
                   %k = stablehlo.constant dense<{turns}> : tensor<i32>
                   %o = stablehlo.constant dense<0> : tensor<i32>
                   %x = stablehlo.sine %a : {t}
                   %v = stablehlo.transpose %x, dims = [1, 0] : ({t}) -> {t}
                   %m = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : ({t}, tensor<f32>) -> tensor<4xf32>
                   %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<4xf32>) -> {t}
                   {after}
                   %r:2 = stablehlo.while(%i = %o, %y = %b) : tensor<i32>, {t}
                   cond {{ %p = stablehlo.compare LT, %i, %k : (tensor<i32>, tensor<i32>) -> tensor<i1>
                           stablehlo.return %p : tensor<i1> }}
                   do {{ {step}
                         %e = stablehlo.constant dense<1> : tensor<i32>
                         %j = stablehlo.add %i, %e : tensor<i32>
                         %q = stablehlo.add %y, %1 : {t}
                         stablehlo.return %j, %q : tensor<i32>, {t} }}
                   return %r#1, %d : {t}, {t} }}"
            ));
        }
    }
}

pub fn branches(c: &Check) {
    for index in -1..4 {
        c.single(&format!(
            "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
               %i = stablehlo.constant dense<{index}> : tensor<i32>
               %r:2 = \"stablehlo.case\"(%i) ({{
                 %s = stablehlo.add %x, %y : tensor<4xf32>
                 stablehlo.return %s, %x : tensor<4xf32>, tensor<4xf32>
               }}, {{
                 stablehlo.return %y, %y : tensor<4xf32>, tensor<4xf32>
               }}, {{
                 %s = stablehlo.multiply %x, %y : tensor<4xf32>
                 stablehlo.return %s, %s : tensor<4xf32>, tensor<4xf32>
               }}) : (tensor<i32>) -> (tensor<4xf32>, tensor<4xf32>)
               return %r#0, %r#1 : tensor<4xf32>, tensor<4xf32> }}"
        ));
    }
    for flag in ["true", "false"] {
        c.single(&format!(
            "func.func @main(%x: tensor<2xi32>) -> tensor<2xi32> {{
               %p = stablehlo.constant dense<{flag}> : tensor<i1>
               %r = \"stablehlo.if\"(%p) ({{
                 %s = stablehlo.add %x, %x : tensor<2xi32>
                 stablehlo.return %s : tensor<2xi32>
               }}, {{ stablehlo.return %x : tensor<2xi32> }}) : (tensor<i1>) -> tensor<2xi32>
               return %r : tensor<2xi32> }}"
        ));
    }
}

/// A loop that writes its step's row into a carry and reads another.
const SCAN: &str = "func.func @main(%x: tensor<6x9xf32>) -> (tensor<6x9xf32>, tensor<9xf32>) {
   %zero = stablehlo.constant dense<0> : tensor<i32>
   %one = stablehlo.constant dense<1> : tensor<i32>
   %n = stablehlo.constant dense<6> : tensor<i32>
   %empty = stablehlo.constant dense<0.0> : tensor<6x9xf32>
   %start = stablehlo.constant dense<0.25> : tensor<9xf32>
   %r:3 = stablehlo.while(%i = %zero, %ys = %empty, %h = %start) : tensor<i32>, tensor<6x9xf32>, tensor<9xf32>
   cond {
     %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
     stablehlo.return %p : tensor<i1>
   } do {
     %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 9] : (tensor<6x9xf32>, tensor<i32>, tensor<i32>) -> tensor<1x9xf32>
     %v = stablehlo.reshape %row : (tensor<1x9xf32>) -> tensor<9xf32>
     %m = stablehlo.multiply %h, %v : tensor<9xf32>
     %t = stablehlo.tanh %m : tensor<9xf32>
     %u = stablehlo.reshape %t : (tensor<9xf32>) -> tensor<1x9xf32>
     %next = stablehlo.dynamic_update_slice %ys, %u, %i, %zero : (tensor<6x9xf32>, tensor<1x9xf32>, tensor<i32>, tensor<i32>) -> tensor<6x9xf32>
     %j = stablehlo.add %i, %one : tensor<i32>
     stablehlo.return %j, %next, %t : tensor<i32>, tensor<6x9xf32>, tensor<9xf32>
   }
   return %r#1, %r#2 : tensor<6x9xf32>, tensor<9xf32> }";

pub fn scans(c: &Check) {
    c.single(SCAN);
}

pub fn nested(c: &Check) {
    c.single(
        "func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<i32>) {
           %zero = stablehlo.constant dense<0> : tensor<i32>
           %one = stablehlo.constant dense<1> : tensor<i32>
           %three = stablehlo.constant dense<3> : tensor<i32>
           %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<4xf32>
           cond {
             %p = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %p : tensor<i1>
           } do {
             %in:2 = stablehlo.while(%j = %zero, %b = %a) : tensor<i32>, tensor<4xf32>
             cond {
               %p = stablehlo.compare LE, %j, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>
               stablehlo.return %p : tensor<i1>
             } do {
               %v = stablehlo.reverse %b, dims = [0] : tensor<4xf32>
               %w = stablehlo.add %v, %a : tensor<4xf32>
               %j2 = stablehlo.add %j, %one : tensor<i32>
               stablehlo.return %j2, %w : tensor<i32>, tensor<4xf32>
             }
             %p = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
             %c = \"stablehlo.if\"(%p) ({ stablehlo.return %in#1 : tensor<4xf32> }, {
               %s = stablehlo.subtract %in#1, %x : tensor<4xf32>
               stablehlo.return %s : tensor<4xf32>
             }) : (tensor<i1>) -> tensor<4xf32>
             %i2 = stablehlo.add %i, %one : tensor<i32>
             stablehlo.return %i2, %c : tensor<i32>, tensor<4xf32>
           }
           return %r#1, %r#0 : tensor<4xf32>, tensor<i32> }",
    );
}

pub fn errors(c: &Check) {
    let source = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
           %y = stablehlo.add %x, %x : tensor<2xf32>
           check.expect_eq_const %y, dense<7.0> : tensor<2xf32>
           return %y : tensor<2xf32> }";
    c.fails(source, 1, &["'check.expect_eq_const' at line 3", "check failed at index [0]"], &[]);
    c.fails(source, 3, &["check failed"], &["on device 0"]);
}

/// Programs whose bits must not depend on timing: reductions of many parts, between devices, in loops.
pub const DETERMINISM: &[(&str, usize)] = &[
    (SCAN, 1),
    (
        "func.func @main(%x: tensor<300x1000xf32>) -> (tensor<f32>, tensor<1000xf32>, tensor<300xf32>) {
           %z = stablehlo.constant dense<0.0> : tensor<f32>
           %e = stablehlo.exponential %x : tensor<300x1000xf32>
           %a = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0, 1] : (tensor<300x1000xf32>, tensor<f32>) -> tensor<f32>
           %b = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [0] : (tensor<300x1000xf32>, tensor<f32>) -> tensor<1000xf32>
           %c = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [1] : (tensor<300x1000xf32>, tensor<f32>) -> tensor<300xf32>
           return %a, %b, %c : tensor<f32>, tensor<1000xf32>, tensor<300xf32> }",
        1,
    ),
    (
        "func.func @main(%x: tensor<50000xf32>) -> tensor<50000xf32> {
           %r = \"stablehlo.all_reduce\"(%x) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
             %s = stablehlo.add %a, %b : tensor<f32>
             stablehlo.return %s : tensor<f32> })
             {replica_groups = dense<[[0, 1, 2, 3, 4]]> : tensor<1x5xi64>, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids} : (tensor<50000xf32>) -> tensor<50000xf32>
           return %r : tensor<50000xf32> }",
        5,
    ),
    (
        "func.func @main(%x: tensor<160x120xf32>, %y: tensor<120x90xf32>) -> tensor<160x90xf32> {
           %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<160x120xf32>, tensor<120x90xf32>) -> tensor<160x90xf32>
           return %r : tensor<160x90xf32> }",
        3,
    ),
    // Attention in strips, with sums over the rows in several chunks.
    (
        "func.func @main(%x: tensor<2x2520x8xf32>, %y: tensor<2x2520x8xf32>) -> (tensor<2x2520x8xf32>, tensor<2x2520x8xf32>) {
           %s = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x2520x8xf32>, tensor<2x2520x8xf32>) -> tensor<2x2520x2520xf32>
           %z = stablehlo.constant dense<0.0> : tensor<f32>
           %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
           %m = stablehlo.reduce(%s init: %low) applies stablehlo.maximum across dimensions = [2] : (tensor<2x2520x2520xf32>, tensor<f32>) -> tensor<2x2520xf32>
           %mb = stablehlo.broadcast_in_dim %m, dims = [0, 1] : (tensor<2x2520xf32>) -> tensor<2x2520x2520xf32>
           %t = stablehlo.subtract %s, %mb : tensor<2x2520x2520xf32>
           %e = stablehlo.exponential %t : tensor<2x2520x2520xf32>
           %l = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [2] : (tensor<2x2520x2520xf32>, tensor<f32>) -> tensor<2x2520xf32>
           %lb = stablehlo.broadcast_in_dim %l, dims = [0, 1] : (tensor<2x2520xf32>) -> tensor<2x2520x2520xf32>
           %p = stablehlo.divide %e, %lb : tensor<2x2520x2520xf32>
           %o = stablehlo.dot_general %p, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x2520x2520xf32>, tensor<2x2520x8xf32>) -> tensor<2x2520x8xf32>
           %g = stablehlo.dot_general %p, %x, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x2520x2520xf32>, tensor<2x2520x8xf32>) -> tensor<2x2520x8xf32>
           return %o, %g : tensor<2x2520x8xf32>, tensor<2x2520x8xf32> }",
        1,
    ),
];
