//! `vmap` through the front: against one call per example, nested, with gradients, on meshes.

use meshwork::prelude::*;
use meshwork_testing::wave;

fn row(x: &Array, i: i64) -> Array {
    let shape = x.shape()[1..].to_vec();
    let size: i64 = shape.iter().product();
    let all = x.to_vec::<f64>().unwrap();
    Array::from_vec(shape, all[(i * size) as usize..((i + 1) * size) as usize].to_vec()).unwrap()
}

/// `f` on the rows of `x` at once and one by one.
#[track_caller]
fn check(name: &str, f: impl Fn(Tensor) -> Tensor + Copy, shape: &[i64]) {
    let x = wave(shape);
    let all = jit(move |x: Tensor| vmap(f, x)).call(&x).unwrap_or_else(|e| panic!("{name}: {e}"));
    let one = jit(f);
    for i in 0..shape[0] {
        let want = one.call(&row(&x, i)).unwrap();
        assert!(row(&all, i).all_close(&want, 1e-12), "{name}, example {i}: {} and {want}", row(&all, i));
    }
}

#[test]
fn every_family_of_operations() {
    check("arithmetic", |x| (&x * 3.0 - x.exp()).maximum(0.5), &[3, 4]);
    check("softmax", |x| x.softmax(-1) + x.logsumexp(0), &[3, 4]);
    check("layer norm", |x| x.layer_norm(1e-5), &[2, 3, 5]);
    check("products", |x| x.matmul(x.t()).matmul(&x), &[3, 2, 4]);
    check("einsum", |x| einsum("ij,kj->ik", &[&x, &x.sin()]), &[2, 3, 2]);
    check("slices", |x| x.slice(s![1..-1]) - x.slice(s![..-2]), &[3, 6]);
    check("assignment", |x| x.at(s![1..3]).set(x.slice(s![2..4])), &[3, 5]);
    check("roll", |x| x.roll(2, 0), &[3, 5]);
    check("sort", |x| x.sort(0), &[3, 5]);
    check("cumulative", |x| x.cumsum(0), &[3, 5]);
    check("take", |x| x.take(&x.argsort(0), 0), &[3, 5]);
    check("reductions", |x| x.max(&[0]) + x.mean(&[0]) + x.prod(&[0]), &[3, 4, 2]);
    check("random", |x| Key::from_tensor(&(x * 100.0).abs().to(UI32)).normal([4], F64), &[3]);
    check("loop", |x| for_loop(0..4, x, |i, x| x.sin() + i.to(F64)), &[3, 2]);
    check("while", |x| while_loop(x, |x| x.abs().lt(5.0), |x| x * 2.0), &[4]);
    check("scan", |x| scan(zeros((), F64), x, |c, x| (&c + &x, c * x)).1, &[3, 5]);
    check("cond", |x| cond(x.sum_all().gt(0.0), || x.sin(), || -&x), &[5, 2]);
    check("where", |x| select(x.gt(0.0), x.sqrt(), 0.0), &[3, 4]);
    check(
        "dynamic slice",
        |x| {
            let i = x.slice(s![0]).abs().to(I32);
            x.slice(s![i])
        },
        &[4, 3],
    );
}

#[test]
fn gradients_inside_and_around() {
    let loss = |x: Tensor| (x.matmul(x.t()).tanh()).sum_all();
    check("inside", move |x| grad(loss, x), &[3, 2, 2]);
    // The gradient of a sum of examples is the gradients of the examples.
    let x = wave(&[3, 2, 2]);
    let around = jit(move |x: Tensor| grad(|x: Tensor| vmap(loss, x).sum_all(), x)).call(&x).unwrap();
    let inside = jit(move |x: Tensor| vmap(|x: Tensor| grad(loss, x), x)).call(&x).unwrap();
    assert!(around.all_close(&inside, 1e-12));
    check("checkpoint", move |x| grad(|x: Tensor| checkpoint(loss, x), x), &[3, 2, 2]);
    check("jvp", |x| jvp(|x: Tensor| x.sin() * x.cos(), x.clone(), x).1, &[3, 2]);
}

#[test]
fn jacobians_from_vmap_of_vjp_and_jvp() {
    let f = |x: &Tensor| x.matmul(arange(6, F64).reshape([2, 3])).sin();
    let forward = jit(move |x: Tensor| {
        let column = |d: Tensor| jvp(|x: Tensor| f(&x), x.clone(), d).1;
        Vmap::new().out_axes(1).map(column, eye(2, F64))
    });
    let backward = jit(move |x: Tensor| vmap(vjp(|x: Tensor| f(&x), x).1, eye(3, F64)));
    let x = wave(&[2]);
    assert!(forward.call(&x).unwrap().all_close(&backward.call(&x).unwrap(), 1e-12));
    assert_eq!(forward.call(&x).unwrap().shape(), [3, 2]);
}

#[test]
fn nested_with_axes() {
    let (x, y) = (wave(&[2, 3]), wave(&[2, 4]));
    let outer = jit(|x: Tensor, y: Tensor| {
        let dot = |(x, y): (Tensor, Tensor)| (x * y).sum_all();
        let row = move |(x, y): (Tensor, Tensor)| Vmap::new().in_axes([None, Some(-1)]).map(dot, (x, y));
        Vmap::new().in_axes([Some(1), None]).map(row, (x, y))
    });
    let product = jit(|x: Tensor, y: Tensor| x.t().matmul(&y));
    assert!(outer.call((&x, &y)).unwrap().all_close(&product.call((&x, &y)).unwrap(), 1e-12));
}

#[test]
fn captured_tensors_are_shared() {
    let f = jit(|x: Tensor, w: Tensor| vmap(|x: Tensor| x.matmul(&w), x));
    let g = jit(|x: Tensor, w: Tensor| x.matmul(&w));
    let (x, w) = (wave(&[3, 2]), wave(&[2, 4]));
    assert!(f.call((&x, &w)).unwrap().all_close(&g.call((&x, &w)).unwrap(), 1e-12));
}

#[test]
fn on_a_mesh_the_examples_are_split() {
    let mesh = Mesh::grid(("data", 4), ("model", 2)).unwrap();
    let f = |x: Tensor| (x.sin().shard(P!["model"]) * 2.0).sum_all();
    let split = jit(move |x: Tensor| Vmap::new().over("data").map(f, x)).on(&mesh).in_shardings([P!["data"]]);
    let x = wave(&[8, 6]);
    let one = jit(move |x: Tensor| vmap(f, x)).single_device();
    assert!(split.call(&x).unwrap().all_close(&one.call(&x).unwrap(), 1e-12));
    assert!(split.lower(&x).unwrap().text().contains(r#"[{"data"}, {"model"}]"#));
    // The examples stay where they are: only the sums over the model axis are exchanged.
    assert_eq!(split.plan(&x).unwrap().totals().keys().copied().collect::<Vec<_>>(), ["all-reduce"]);
}

#[test]
fn errors_name_what_does_not_fit() {
    let (x, y) = (wave(&[3, 2]), wave(&[4]));
    let f = jit(|x: Tensor, y: Tensor| vmap(|(x, y): (Tensor, Tensor)| x * y, (x, y)));
    let error = f.call((&x, &y)).unwrap_err().to_string();
    assert!(error.starts_with(r#"vmap: 4 examples at "1", but 3 at "0": an f64 tensor of shape [4]"#), "{error}");
    assert!(error.contains("tests/vmap.rs:"), "{error}");
    let f = jit(|x: Tensor| Vmap::new().in_axes(None).map(|x: Tensor| x, x));
    assert!(f.call(&x).unwrap_err().to_string().contains("no argument has a dimension of examples"));
    let f = jit(|x: Tensor| Vmap::new().in_axes(2).map(|x: Tensor| x, x));
    assert!(f.call(&x).unwrap_err().to_string().contains("axis 2 is out of range"));
    let f = jit(|x: Tensor| Vmap::new().out_axes(None).map(|x: Tensor| x, x));
    assert!(f.call(&x).unwrap_err().to_string().contains("result 0 depends on a batched argument"));
}
