//! Trees: derived structs, maps, paths, static fields.

use std::collections::{BTreeMap, HashMap};

use meshwork::prelude::*;
use meshwork::{Tree, named_arrays};

#[derive(Clone, Debug, Tree)]
struct Pair<A, B>(A, B);

#[derive(Clone, Debug, Tree)]
struct Net<T = Tensor, const N: usize = 2> {
    layers: [Pair<T, Option<T>>; N],
    named: BTreeMap<String, T>,
    by_number: HashMap<u32, Vec<T>>,
    boxed: Box<T>,
    #[tree(skip)]
    name: &'static str,
}

#[derive(Clone, Debug, Tree)]
struct Plain {
    w: Tensor,
    more: Vec<(Tensor, Tensor)>,
    #[tree(skip)]
    times: i64,
}

#[derive(Clone, Debug, Tree)]
struct Empty;

fn net() -> Net<Array> {
    let a = |v: f32| Array::scalar(v);
    Net {
        layers: [Pair(a(1.0), Some(a(2.0))), Pair(a(3.0), None)],
        named: [("x".to_string(), a(4.0))].into(),
        by_number: [(10, vec![a(7.0)]), (9, vec![a(5.0), a(6.0)])].into(),
        boxed: a(8.0).into(),
        name: "net",
    }
}

#[test]
fn paths_name_every_leaf_in_order() {
    let found = named_arrays::<Net>(&net());
    let paths: Vec<&str> = found.iter().map(|(p, _)| p.as_str()).collect();
    assert_eq!(
        paths,
        [
            "layers/0/0",
            "layers/0/1",
            "layers/1/0",
            "named/x",
            "by_number/9/0",
            "by_number/9/1",
            "by_number/10/0",
            "boxed"
        ]
    );
    let values: Vec<f32> = found.iter().map(|(_, a)| a.item().unwrap()).collect();
    assert_eq!(values, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
}

#[test]
fn derived_structs_go_in_and_come_out() {
    let double = jit(|net: Net| {
        assert_eq!(net.name, "net");
        let one = |t: &Tensor| t * 2.0;
        Net {
            layers: net.layers.map(|Pair(a, b)| Pair(one(&a), b.as_ref().map(one))),
            named: net.named.iter().map(|(k, v)| (k.clone(), one(v))).collect(),
            by_number: net.by_number.iter().map(|(k, v)| (*k, v.iter().map(one).collect())).collect(),
            boxed: Box::new(one(&net.boxed)),
            name: "doubled",
        }
    });
    let out = double.call(&net()).unwrap();
    assert_eq!(out.name, "doubled");
    let values: Vec<f32> = named_arrays::<Net>(&out).iter().map(|(_, a)| a.item().unwrap()).collect();
    assert_eq!(values, [2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]);
}

#[test]
fn a_struct_without_parameters_has_a_host_struct() {
    let f = jit(|p: Plain| Plain { w: p.w * p.times, ..p });
    let a = || Array::scalar(3.0f32);
    let plain = PlainHost { w: a(), more: vec![(a(), a())], times: 2 };
    assert_eq!(f.call(&plain).unwrap().w.item::<f32>().unwrap(), 6.0);
    // Another static value is another program.
    assert_eq!(f.call(&PlainHost { times: 5, ..plain }).unwrap().w.item::<f32>().unwrap(), 15.0);
    let _: EmptyHost = jit(|e: Empty| e).call(&EmptyHost).unwrap();
}

#[test]
fn gradients_have_the_structure_of_the_parameters() {
    let slope = jit(|p: Pair<Tensor, Vec<Tensor>>| {
        grad(|p: Pair<Tensor, Vec<Tensor>>| (p.0.square() * &p.1[0] + &p.1[1]).sum_all(), p)
    });
    let a = |v: f32| Array::scalar(v);
    let out = slope.call(&Pair(a(3.0), vec![a(2.0), a(1.0)])).unwrap();
    let values: Vec<f32> = [&out.0, &out.1[0], &out.1[1]].map(|x| x.item().unwrap()).to_vec();
    assert_eq!(values, [12.0, 9.0, 1.0]);
}
