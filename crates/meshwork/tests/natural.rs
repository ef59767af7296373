//! What Rust programmers write without looking it up: numbers of all types, shapes, indices, lists of rules, stencils.

use meshwork::prelude::*;
use meshwork::{Contract, Number};

#[test]
fn numbers_of_all_types_meet_tensors() {
    let f = jit(|x: Tensor| {
        let (rate, count, small, half) = (0.5f32, 3usize, 2u8, half::bf16::from_f32(0.5));
        let right = &x * rate + count - 1i32 + small + half + 1u64 + 7i16;
        let left = 2.0 * &x + 1 - &x;
        (right, (Number::from(rate) * &x + left).sum_all())
    });
    let (right, left) = f.call(&Array::from([2.0f32, 4.0])).unwrap();
    assert_eq!(right.to_vec::<f32>().unwrap(), [13.5, 14.5]);
    assert_eq!(left.item::<f32>().unwrap(), 1.0 + 3.0 + 2.0 + 5.0);
}

/// A literal has one type to the left of a tensor, so that methods of the result are found; variables of all types stand there
/// by reference, as they come out of an iterator, and truth values and half floats by value.
#[test]
fn numbers_of_all_types_stand_to_the_left() {
    let f = jit(|x: Tensor| {
        let (rate, count, small, half) = (0.5f32, 3usize, 2u8, half::bf16::from_f32(0.5));
        let k = 1.0 / 4.0;
        let literals =
            (2.0 * &x).sum_all() + (2 * x.clone()).sum_all() + (k * &x).sum_all() + (k - x.clone()).sum_all();
        let mut sum = (&rate * &x).sum_all() + (&count * &x + &small * x.clone()).sum_all() + (half * &x).sum_all();
        for scale in &[1.0f32, 2.0] {
            sum += (scale - &x + scale).sum_all() + (&x / scale).sum_all();
        }
        let mask = x.gt(3.0);
        (literals, sum, true ^ &mask, (7 % x.to(I32)).sum_all(), &1u8 << x.to(I32))
    });
    let (literals, sum, mask, rest, bits) = f.call(&Array::from([2.0f32, 4.0])).unwrap();
    assert_eq!(literals.item::<f32>().unwrap(), 12.0 + 12.0 + 1.5 - 5.5);
    assert_eq!(sum.item::<f32>().unwrap(), 3.0 + 30.0 + 3.0 + (-2.0 + 6.0) + (2.0 + 3.0));
    assert_eq!((mask.to_vec::<bool>().unwrap(), rest.item::<i32>().unwrap()), (vec![true, false], 1 + 3));
    assert_eq!(bits.to_vec::<i32>().unwrap(), [4, 16]);

    let a = Array::from([2.0f32, 4.0]);
    let (rate, count) = (0.5f32, 3usize);
    #[allow(clippy::op_ref)] // both ways of writing it compile
    let sum =
        (2.0 * &a).to_vec::<f32>().unwrap().len() as i64 + &a * rate + &count * &a - 1u8 + a.clone() / &count * 3i32;
    assert_eq!(sum.to_vec::<f32>().unwrap(), [10.0, 19.0]);
}

#[test]
fn shapes_and_indices_of_all_integer_types() {
    let (rows, columns, row) = (2usize, 3u32, 1usize);
    let f = jit(move |x: Tensor| {
        let y = x.reshape([rows, 3]);
        let counted = for_loop(0..rows, zeros((), F32), |_, n| n + 1.0);
        let ones = ones(vec![columns], F32);
        (y.slice(s![row, ..]) + ones, y.slice(s![0u32, 1..]), y.slice(s![-1, -1]), counted, arange(columns, F32))
    });
    let x = Array::from([0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0]);
    let (a, b, c, counted, count) = f.call(&x).unwrap();
    assert_eq!((a.shape(), a.to_vec::<f32>().unwrap()), (&[3][..], vec![4.0, 5.0, 6.0]));
    assert_eq!((b.shape(), b.to_vec::<f32>().unwrap()), (&[2][..], vec![1.0, 2.0]));
    assert_eq!((c.shape().len(), c.item::<f32>().unwrap(), counted.item::<f32>().unwrap()), (0, 5.0, 2.0));
    assert_eq!(count.to_vec::<f32>().unwrap(), [0.0, 1.0, 2.0]);
}

#[test]
fn captured_arrays_are_constants_and_large_ones_are_named() {
    let table = Array::from([10.0f32, 20.0]);
    let f = jit(|x: Tensor| x + &table);
    assert_eq!(f.call(&Array::from([1.0f32, 2.0])).unwrap().to_vec::<f32>().unwrap(), [11.0, 22.0]);
    assert!(f.lower(&Array::from([1.0f32, 2.0])).unwrap().warnings().is_empty());

    let large = Array::from_fn([5 << 20], |i| i[0] as f32);
    let line = line!() + 1;
    let f = jit(|x: Tensor| x + &large);
    let lowered = f.lower(&Array::shape_only([5 << 20], F32)).unwrap();
    let [warning] = &lowered.warnings()[..] else { panic!("one warning") };
    assert!(warning.contains(&format!("natural.rs:{line}: an array of 20.0 MiB (f32[5242880])")), "{warning}");
}

#[test]
fn static_values_deref_and_rules_mix() {
    let f = jit(|x: Tensor, name: Static<String>| x * name.len());
    let doubled = f.call((&Array::from([1.0f32]), &Static("ab".to_string()))).unwrap();
    assert_eq!(doubled.to_vec::<f32>().unwrap(), [2.0]);

    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|x: Tensor, y: Tensor| (&x + 1.0, y * 2.0)).on(&mesh);
    let f = f.in_shardings((P!["x"], Rule::Free)).out_shardings((P!["x"], Rule::policy(|_, _| Some(P![]))));
    let (x, y) = f.call((&Array::full(4, 1.0f32), &Array::full(4, 1.0f32))).unwrap();
    assert_eq!((&x.shards()[1].slice[0], &y.shards()[1].slice[0]), (&(2..4), &(0..4)));
}

/// One step of the wave equation with absorbing edges and a source, as one writes it for one device.
fn wave(u: Tensor, before: Tensor) -> (Tensor, Tensor) {
    let c = u.slice(s![1..-1, 1..-1]);
    let around =
        u.slice(s![2.., 1..-1]) + u.slice(s![..-2, 1..-1]) + u.slice(s![1..-1, 2..]) + u.slice(s![1..-1, ..-2]);
    let next = 2.0 * &c - before.slice(s![1..-1, 1..-1]) + 0.25 * (around - 4.0 * c);
    let w = u.at(s![1..-1, 1..-1]).set(next);
    let k = -1.0 / 3.0;
    let w = w.at(s![0, ..]).set(u.slice(s![1, ..]) + k * (w.slice(s![1, ..]) - u.slice(s![0, ..])));
    let w = w.at(s![-1, ..]).set(u.slice(s![-2, ..]) + k * (w.slice(s![-2, ..]) - u.slice(s![-1, ..])));
    let w = w.at(s![.., 0]).set(u.slice(s![.., 1]) + k * (w.slice(s![.., 1]) - u.slice(s![.., 0])));
    let w = w.at(s![.., -1]).set(u.slice(s![.., -2]) + k * (w.slice(s![.., -2]) - u.slice(s![.., -1])));
    (w.at(s![12, 13]).add(1.0), u)
}

#[test]
fn the_wave_equation_needs_neighbours_only() {
    let field = |seed: i64| Array::from_fn([24, 26], move |i| ((seed + 7 * i[0] + 3 * i[1]) as f32 * 0.1).sin());
    let (u, before) = (field(1), field(2));
    let run = |u: Tensor, before: Tensor| for_loop(0..5, (u, before), |_, (u, before)| wave(u, before));
    let alone = jit(run).call((&u, &before)).unwrap().0;
    for (rows, columns) in [(1, 4), (2, 2), (4, 1), (8, 1), (1, 8), (2, 4)] {
        let mesh = Mesh::grid(("x", rows), ("y", columns)).unwrap();
        let neighbours = Contract { allowed: Some(vec!["collective-permute".into()]), ..Contract::default() };
        let f = jit(run).on(&mesh).in_shardings([P!["x", "y"], P!["x", "y"]]).contract(neighbours);
        let split = f.call((&u, &before)).unwrap_or_else(|e| panic!("{rows} x {columns}: {e}")).0;
        assert!(split.all_close(&alone, 1e-5), "{rows} x {columns}");
    }
}

#[test]
fn a_row_that_has_one_owner_stays_there() {
    let x = Array::from_fn([24, 8], |i| (8 * i[0] + i[1]) as f32);
    let mesh = Mesh::linear("x", 4).unwrap();
    let double_edges = |u: Tensor| {
        let u = u.at(s![0, ..]).set(u.slice(s![1, ..]) * 2.0);
        let u = u.at(s![-1, ..]).set(u.slice(s![-2, ..]) * 2.0 + 1.0);
        u.at(s![13, 5]).add(x_of(&u))
    };
    let split = jit(double_edges).on(&mesh).in_shardings([P!["x"]]).out_shardings([P!["x"]]);
    assert!(split.plan(&x).unwrap().totals().is_empty(), "{}", split.explain(&x).unwrap());
    assert!(split.call(&x).unwrap().all_close(&jit(double_edges).call(&x).unwrap(), 0.0));

    // Rows 5 and 6 are on neighbours: one row moves.
    let across = |u: Tensor| u.at(s![6, ..]).set(u.slice(s![5, ..]) * 2.0);
    let split = jit(across).on(&mesh).in_shardings([P!["x"]]).out_shardings([P!["x"]]);
    let totals = split.plan(&x).unwrap().totals();
    assert_eq!(totals.keys().collect::<Vec<_>>(), [&"collective-permute"]);
    assert!(split.call(&x).unwrap().all_close(&jit(across).call(&x).unwrap(), 0.0));
}

/// A number that all devices know.
fn x_of(u: &Tensor) -> f64 {
    u.rank() as f64
}
