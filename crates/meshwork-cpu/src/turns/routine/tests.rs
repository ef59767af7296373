//! Loops as routines, compared with the evaluator.

use meshwork_ir::{ElementType, Literal};

use crate::compile::testing::{check, check_on};

fn is_routine(text: &str) {
    assert!(text.contains("routine of") && !text.contains("while"), "{text}");
}

fn ints(dims: &[i64], values: &[i64]) -> Literal {
    Literal::from_i64s(dims.iter().copied(), ElementType::I32, values).unwrap()
}

/// How often a number is halved or tripled until it is one, the most of all up to some bound: a loop in a loop.
#[test]
fn turns_that_data_decides() {
    let source = "func.func @main(%most: tensor<i32>) -> (tensor<i32>, tensor<i32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %two = stablehlo.constant dense<2> : tensor<i32>
        %three = stablehlo.constant dense<3> : tensor<i32>
        %r:2 = stablehlo.while(%n = %one, %best = %zero) : tensor<i32>, tensor<i32>
        cond {
            %c = stablehlo.compare LE, %n, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
        } do {
            %s:2 = stablehlo.while(%x = %n, %k = %zero) : tensor<i32>, tensor<i32>
            cond {
                %c = stablehlo.compare NE, %x, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %c : tensor<i1>
            } do {
                %half = stablehlo.divide %x, %two : tensor<i32>
                %rest = stablehlo.remainder %x, %two : tensor<i32>
                %even = stablehlo.compare EQ, %rest, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %t = stablehlo.multiply %x, %three : tensor<i32>
                %u = stablehlo.add %t, %one : tensor<i32>
                %y = stablehlo.select %even, %half, %u : tensor<i1>, tensor<i32>
                %m = stablehlo.add %k, %one : tensor<i32>
                stablehlo.return %y, %m : tensor<i32>, tensor<i32>
            }
            %most2 = stablehlo.maximum %best, %s#1 : tensor<i32>
            %next = stablehlo.add %n, %one : tensor<i32>
            stablehlo.return %next, %most2 : tensor<i32>, tensor<i32>
        }
        return %r#0, %r#1 : tensor<i32>, tensor<i32> }";
    for most in [0, 1, 2, 30] {
        is_routine(&check_on(source, &[ints(&[], &[most])], 0.0));
    }
}

/// Carries that change places, and one that takes the value another had.
#[test]
fn carries_that_move_on() {
    for elem in ["f32", "f64", "i32", "i64", "ui8", "i16"] {
        let ty = format!("tensor<{elem}>");
        let source = format!(
            "func.func @main(%n: tensor<i32>, %x: {ty}, %y: {ty}, %z: {ty}) -> ({ty}, {ty}, {ty}) {{
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %r:4 = stablehlo.while(%i = %zero, %a = %x, %b = %y, %c = %z) : tensor<i32>, {ty}, {ty}, {ty}
            cond {{
                %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1>
            }} do {{
                %one = stablehlo.constant dense<1> : tensor<i32>
                %j = stablehlo.add %i, %one : tensor<i32>
                %d = stablehlo.subtract %c, %a : {ty}
                stablehlo.return %j, %b, %a, %d : tensor<i32>, {ty}, {ty}, {ty}
            }}
            return %r#1, %r#2, %r#3 : {ty}, {ty}, {ty} }}"
        );
        let elem = ElementType::from_text(elem).unwrap();
        let number = |x: i64| {
            Literal::from_i64s([], elem, &[x]).unwrap_or_else(|| Literal::from_f64s([], elem, &[x as f64]).unwrap())
        };
        for n in [0, 1, 2, 7] {
            is_routine(&check_on(&source, &[ints(&[], &[n]), number(3), number(5), number(11)], 0.0));
        }
    }
}

/// A table that two updates of a turn overwrite, while other numbers of it are read as they were.
#[test]
fn tables_are_read_before_they_are_overwritten() {
    let source = "func.func @main(%x: tensor<9xf32>, %at: tensor<6xi32>) -> (tensor<9xf32>, tensor<f32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : tensor<f32>
        %r:3 = stablehlo.while(%i = %zero, %t = %x, %s = %none) : tensor<i32>, tensor<9xf32>, tensor<f32>
        cond {
            %n = stablehlo.constant dense<5> : tensor<i32>
            %big = stablehlo.constant dense<100.0> : tensor<f32>
            %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %q = stablehlo.compare LT, %s, %big : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %c = stablehlo.and %p, %q : tensor<i1>
            stablehlo.return %c : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %k0 = stablehlo.dynamic_slice %at, %i, sizes = [1] : (tensor<6xi32>, tensor<i32>) -> tensor<1xi32>
            %k = stablehlo.reshape %k0 : (tensor<1xi32>) -> tensor<i32>
            %l0 = stablehlo.dynamic_slice %at, %j, sizes = [1] : (tensor<6xi32>, tensor<i32>) -> tensor<1xi32>
            %l = stablehlo.reshape %l0 : (tensor<1xi32>) -> tensor<i32>
            %a = stablehlo.dynamic_slice %t, %k, sizes = [1] : (tensor<9xf32>, tensor<i32>) -> tensor<1xf32>
            %t1 = stablehlo.dynamic_update_slice %t, %a, %l : (tensor<9xf32>, tensor<1xf32>, tensor<i32>) -> tensor<9xf32>
            %b = stablehlo.dynamic_slice %t, %l, sizes = [1] : (tensor<9xf32>, tensor<i32>) -> tensor<1xf32>
            %idx = stablehlo.reshape %k : (tensor<i32>) -> tensor<1xi32>
            %v = stablehlo.reshape %b : (tensor<1xf32>) -> tensor<f32>
            %t2 = \"stablehlo.scatter\"(%t1, %idx, %v) ({
            ^bb0(%p: tensor<f32>, %q: tensor<f32>):
                %w = stablehlo.add %p, %q : tensor<f32>
                stablehlo.return %w : tensor<f32>
            }) {scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
                scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}
                : (tensor<9xf32>, tensor<1xi32>, tensor<f32>) -> tensor<9xf32>
            %sum = stablehlo.reduce(%t init: %none) applies stablehlo.add across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
            stablehlo.return %j, %t2, %sum : tensor<i32>, tensor<9xf32>, tensor<f32>
        }
        return %r#1, %r#2 : tensor<9xf32>, tensor<f32> }";
    let x = crate::library::testing::noise(&[9], ElementType::F32, 3);
    for at in [[0, 1, 2, 3, 4, 5], [8, 8, 3, -4, 20, 1], [9, -1, 0, 8, 2, 2]] {
        is_routine(&check_on(source, &[x.clone(), ints(&[6], &at)], 1e-6));
    }
}

/// Branches that update a table, return it as it is, or change numbers.
#[test]
fn branches_with_tables() {
    let source = "func.func @main(%code: tensor<7xi32>, %x: tensor<5xf32>) -> (tensor<5xf32>, tensor<f32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : tensor<f32>
        %r:3 = stablehlo.while(%i = %zero, %t = %x, %s = %none) : tensor<i32>, tensor<5xf32>, tensor<f32>
        cond {
            %n = stablehlo.constant dense<7> : tensor<i32>
            %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %k0 = stablehlo.dynamic_slice %code, %i, sizes = [1] : (tensor<7xi32>, tensor<i32>) -> tensor<1xi32>
            %k = stablehlo.reshape %k0 : (tensor<1xi32>) -> tensor<i32>
            %y:2 = \"stablehlo.case\"(%k) ({
                %v0 = stablehlo.dynamic_slice %t, %k, sizes = [1] : (tensor<5xf32>, tensor<i32>) -> tensor<1xf32>
                %w = stablehlo.tanh %v0 : tensor<1xf32>
                %u = stablehlo.dynamic_update_slice %t, %w, %i : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
                stablehlo.return %u, %s : tensor<5xf32>, tensor<f32>
            }, {
                %e = stablehlo.exponential %s : tensor<f32>
                stablehlo.return %t, %e : tensor<5xf32>, tensor<f32>
            }, {
                %v = stablehlo.reshape %s : (tensor<f32>) -> tensor<1xf32>
                %u1 = stablehlo.dynamic_update_slice %t, %v, %k : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
                %u2 = stablehlo.dynamic_update_slice %u1, %v, %i : (tensor<5xf32>, tensor<1xf32>, tensor<i32>) -> tensor<5xf32>
                %z0 = stablehlo.dynamic_slice %u2, %one, sizes = [1] : (tensor<5xf32>, tensor<i32>) -> tensor<1xf32>
                %z = stablehlo.reshape %z0 : (tensor<1xf32>) -> tensor<f32>
                stablehlo.return %u2, %z : tensor<5xf32>, tensor<f32>
            }) : (tensor<i32>) -> (tensor<5xf32>, tensor<f32>)
            %m = stablehlo.add %y#1, %s : tensor<f32>
            stablehlo.return %j, %y#0, %m : tensor<i32>, tensor<5xf32>, tensor<f32>
        }
        return %r#1, %r#2 : tensor<5xf32>, tensor<f32> }";
    let x = crate::library::testing::noise(&[5], ElementType::F32, 3);
    for code in [[0, 1, 2, 0, 1, 2, 0], [2, 2, 5, -1, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1]] {
        is_routine(&check_on(source, &[ints(&[7], &code), x.clone()], 1e-5));
    }
}

/// The least of a few numbers and where it is, found in every turn; truth values in memory.
#[test]
fn queues_and_flags() {
    let source = "func.func @main(%gap: tensor<12xf32>, %busy: tensor<4xi1>) -> (tensor<4xf32>, tensor<4xi1>, tensor<12xi32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %free = stablehlo.constant dense<0.0> : tensor<4xf32>
        %log = stablehlo.constant dense<0> : tensor<12xi32>
        %r:4 = stablehlo.while(%i = %zero, %f = %free, %b = %busy, %l = %log) : tensor<i32>, tensor<4xf32>, tensor<4xi1>, tensor<12xi32>
        cond {
            %n = stablehlo.constant dense<12> : tensor<i32>
            %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %inf = stablehlo.constant dense<0x7F800000> : tensor<f32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %where = stablehlo.iota dim = 0 : tensor<4xi32>
            %m:2 = stablehlo.reduce(%f init: %inf), (%where init: %zero) across dimensions = [0]
                : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
            reducer(%p: tensor<f32>, %q: tensor<f32>) (%pi: tensor<i32>, %qi: tensor<i32>) {
                %g = stablehlo.compare LE, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %v = stablehlo.select %g, %p, %q : tensor<i1>, tensor<f32>
                %w = stablehlo.select %g, %pi, %qi : tensor<i1>, tensor<i32>
                stablehlo.return %v, %w : tensor<f32>, tensor<i32>
            }
            %d = stablehlo.dynamic_slice %gap, %i, sizes = [1] : (tensor<12xf32>, tensor<i32>) -> tensor<1xf32>
            %least = stablehlo.reshape %m#0 : (tensor<f32>) -> tensor<1xf32>
            %abs = stablehlo.abs %d : tensor<1xf32>
            %u = stablehlo.add %least, %abs : tensor<1xf32>
            %f2 = stablehlo.dynamic_update_slice %f, %u, %m#1 : (tensor<4xf32>, tensor<1xf32>, tensor<i32>) -> tensor<4xf32>
            %o0 = stablehlo.dynamic_slice %b, %m#1, sizes = [1] : (tensor<4xi1>, tensor<i32>) -> tensor<1xi1>
            %o = stablehlo.not %o0 : tensor<1xi1>
            %b2 = stablehlo.dynamic_update_slice %b, %o, %m#1 : (tensor<4xi1>, tensor<1xi1>, tensor<i32>) -> tensor<4xi1>
            %who = stablehlo.reshape %m#1 : (tensor<i32>) -> tensor<1xi32>
            %l2 = stablehlo.dynamic_update_slice %l, %who, %i : (tensor<12xi32>, tensor<1xi32>, tensor<i32>) -> tensor<12xi32>
            stablehlo.return %j, %f2, %b2, %l2 : tensor<i32>, tensor<4xf32>, tensor<4xi1>, tensor<12xi32>
        }
        return %r#1, %r#2, %r#3 : tensor<4xf32>, tensor<4xi1>, tensor<12xi32> }";
    is_routine(&check(source, 1e-6));
}

/// A turn whose arrays are large stays a loop.
#[test]
fn large_arrays_stay_in_loops() {
    let source = "func.func @main(%x: tensor<300xf32>) -> tensor<300xf32> {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %none = stablehlo.constant dense<0.0> : tensor<f32>
        %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<300xf32>
        cond {
            %few = stablehlo.constant dense<9> : tensor<i32>
            %p = stablehlo.compare LT, %i, %few : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %sum = stablehlo.reduce(%a init: %none) applies stablehlo.add across dimensions = [0] : (tensor<300xf32>, tensor<f32>) -> tensor<f32>
            %some = stablehlo.constant dense<1.0e9> : tensor<f32>
            %q = stablehlo.compare LT, %sum, %some : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %c = stablehlo.and %p, %q : tensor<i1>
            stablehlo.return %c : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %b = stablehlo.add %a, %a : tensor<300xf32>
            stablehlo.return %j, %b : tensor<i32>, tensor<300xf32>
        }
        return %r#1 : tensor<300xf32> }";
    let text = check(source, 1e-5);
    assert!(text.contains("while") && !text.contains("routine"), "{text}");
}

/// Quotients and remainders by numbers that vary, zero, minus one and the least number among them.
#[test]
fn single_numbers_are_divided() {
    for elem in ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"] {
        let ty = format!("tensor<{elem}>");
        let source = format!(
            "func.func @main(%n: tensor<i32>, %x: {ty}, %y: {ty}) -> ({ty}, {ty}, {ty}) {{
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %q0 = stablehlo.constant dense<0> : {ty}
            %r:4 = stablehlo.while(%i = %zero, %a = %x, %q = %q0, %s = %q0) : tensor<i32>, {ty}, {ty}, {ty}
            cond {{
                %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                stablehlo.return %p : tensor<i1>
            }} do {{
                %one = stablehlo.constant dense<1> : tensor<i32>
                %j = stablehlo.add %i, %one : tensor<i32>
                %d = stablehlo.divide %a, %y : {ty}
                %e = stablehlo.remainder %a, %y : {ty}
                %f = stablehlo.subtract %e, %d : {ty}
                stablehlo.return %j, %f, %d, %e : tensor<i32>, {ty}, {ty}, {ty}
            }}
            return %r#1, %r#2, %r#3 : {ty}, {ty}, {ty} }}"
        );
        let elem = ElementType::from_text(elem).unwrap();
        let least = [i64::from(i8::MIN), i64::from(i16::MIN), i64::from(i32::MIN), i64::MIN]
            [elem.storage_bytes().ilog2() as usize];
        let number = |x: i64| Literal::from_i64s([], elem, &[x]).unwrap();
        for x in [0, 1, 100, -7, least] {
            for y in [0, 1, 3, -1, -5, least] {
                for n in [1, 2] {
                    is_routine(&check_on(&source, &[ints(&[], &[n]), number(x), number(y)], 0.0));
                }
            }
        }
    }
}

/// Until a small system settles: the matrix, which is larger than what is computed, is loaded where it is used.
#[test]
fn matrices_from_outside() {
    let source = "func.func @main(%a: tensor<9x9xf32>, %x: tensor<9xf32>) -> (tensor<9xf32>, tensor<i32>) {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %far = stablehlo.constant dense<1.0e9> : tensor<f32>
        %r:3 = stablehlo.while(%v = %x, %d = %far, %n = %zero) : tensor<9xf32>, tensor<f32>, tensor<i32>
        cond {
            %near = stablehlo.constant dense<1.0e-3> : tensor<f32>
            %most = stablehlo.constant dense<40> : tensor<i32>
            %p = stablehlo.compare GT, %d, %near : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %q = stablehlo.compare LT, %n, %most : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %c = stablehlo.and %p, %q : tensor<i1>
            stablehlo.return %c : tensor<i1>
        } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %tenth = stablehlo.constant dense<0.05> : tensor<9xf32>
            %least = stablehlo.constant dense<0.0> : tensor<f32>
            %b = stablehlo.dot_general %a, %v, contracting_dims = [1] x [0] : (tensor<9x9xf32>, tensor<9xf32>) -> tensor<9xf32>
            %s = stablehlo.multiply %b, %tenth : tensor<9xf32>
            %y = stablehlo.add %s, %x : tensor<9xf32>
            %e = stablehlo.subtract %y, %v : tensor<9xf32>
            %abs = stablehlo.abs %e : tensor<9xf32>
            %m = stablehlo.reduce(%abs init: %least) applies stablehlo.maximum across dimensions = [0] : (tensor<9xf32>, tensor<f32>) -> tensor<f32>
            %k = stablehlo.add %n, %one : tensor<i32>
            stablehlo.return %y, %m, %k : tensor<9xf32>, tensor<f32>, tensor<i32>
        }
        return %r#0, %r#2 : tensor<9xf32>, tensor<i32> }";
    is_routine(&check(source, 1e-4));
}
