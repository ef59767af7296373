//! Gradients through the front, against finite differences and on meshes.

use meshwork::prelude::*;
use meshwork_testing::wave;

/// Compares the gradient of `f` with differences, in f64.
#[track_caller]
fn check(name: &str, f: impl Fn(Tensor) -> Tensor + Copy, shape: &[i64]) {
    let x = wave(shape);
    let gradient = jit(|x: Tensor| grad(f, x)).call(&x).unwrap_or_else(|e| panic!("{name}: {e}")).to_f64s().unwrap();
    let value = jit(f);
    let elements = x.to_vec::<f64>().unwrap();
    let step = 1e-6;
    for i in 0..elements.len() {
        let at = |d: f64| {
            let mut moved = elements.clone();
            moved[i] += d;
            value.call(&Array::from_vec(shape, moved).unwrap()).unwrap().item::<f64>().unwrap()
        };
        let slope = (at(step) - at(-step)) / (2.0 * step);
        assert!((slope - gradient[i]).abs() < 1e-5 * slope.abs().max(1.0), "{name}[{i}]: {slope} and {}", gradient[i]);
    }
}

#[test]
fn gradients_agree_with_differences() {
    check("polynomial", |x| (&x * &x * 3.0 - &x / 2.0 + 1.0).sum_all(), &[5]);
    check("elementary", |x| (x.sin() * x.exp() + x.tanh().square()).sum_all(), &[4]);
    check("broadcast", |x| (&x * x.slice(s![0])).sum_all(), &[3, 2]);
    check("mean and variance", |x| (x.var(&[1]) * x.mean(&[1])).sum_all(), &[2, 4]);
    check("softmax", |x| (x.softmax(-1) * x.cos()).sum_all(), &[2, 3]);
    check("log softmax", |x| x.log_softmax(-1).slice(s![.., 1]).sum_all(), &[2, 3]);
    check("layer norm", |x| (x.layer_norm(1e-5) * x.sin()).sum_all(), &[2, 5]);
    check("matmul", |x| x.matmul(x.t()).sin().sum_all(), &[3, 2]);
    check("einsum", |x| einsum("ij,kj,i->k", &[&x, &x.sin(), &x.slice(s![.., 0])]).square().sum_all(), &[3, 2]);
    check("slices", |x| (x.slice(s![1..]) * x.slice(s![..-1])).sum_all(), &[6]);
    check("assignment", |x| (x.at(s![1..-1]).set(x.slice(s![..-2]).square())).sin().sum_all(), &[6]);
    check("strided assignment", |x| (x.at(s![..; 2]).mul(x.slice(s![..; 2]))).sin().sum_all(), &[5]);
    check("roll and pad", |x| (x.roll(1, 0) * x.pad(&[(2, -2)], 1.0)).sum_all(), &[5]);
    check("concatenate", |x| concatenate(&[x.sin(), x.square()], 0).slice(s![2..6]).prod_all(), &[4]);
    check("extremes", |x| x.max(&[0]).square().sum_all() + x.min_all(), &[3, 2]);
    check("select", |x| select(x.gt(0.1), x.square(), x.sin()).sum_all(), &[6]);
    check("cumulative", |x| x.cumsum(0).square().sum_all(), &[5]);
    check("take", |x| x.take(&Tensor::constant(&Array::from([2i32, 0, 2])), 0).square().sum_all(), &[3, 2]);
    check("gelu", |x| x.gelu().sum_all(), &[4]);
}

#[test]
fn gradients_of_loops_and_branches() {
    check("for loop", |x| for_loop(0..4, x, |_, x| x.sin() * &x).sum_all(), &[3]);
    check("captured", |x| for_loop(0..3, x.ones_like(), |i, y| y * &x + i.to(F64)).sum_all(), &[2]);
    check("scan", |x| scan(x.slice(s![0]), x, |c, x| (c.sin() * &x, c + x)).1.square().sum_all(), &[4, 2]);
    check("branch", |x| cond(x.sum_all().gt(0.0), || x.square().sum_all(), || x.cos().sum_all()), &[3]);
}

#[test]
fn windows_have_gradients() {
    let kernel = || Tensor::constant(&wave(&[3, 1, 2]));
    check("convolution", |x| x.reshape([1, 7, 1]).conv(&kernel(), &Conv::default()).square().sum_all(), &[7]);
    check(
        "kernel",
        |k| {
            let image = Tensor::constant(&wave(&[2, 6, 1]));
            image.conv(&k, &Conv { padding: Padding::Same, strides: vec![2], ..Conv::default() }).square().sum_all()
        },
        &[3, 1, 2],
    );
    check("max pool", |x| x.max_pool(&[2], &[2], Padding::Valid).square().sum_all(), &[6]);
    check("mean pool", |x| x.avg_pool(&[3], &[1], Padding::Same).square().sum_all(), &[6]);
}

#[test]
fn what_is_stopped_and_what_is_captured_has_no_gradient() {
    let f = jit(|x: Tensor, y: Tensor| grad(|x: Tensor| (&x * x.stop_gradient() * &y).sum_all(), x));
    let g = f.call((&Array::from([2.0f32, 3.0]), &Array::from([5.0f32, 7.0]))).unwrap();
    assert_eq!(g.to_vec::<f32>().unwrap(), [10.0, 21.0]);
    // The detour that stops gradients is gone from the program.
    let text = jit(|x: Tensor| x.stop_gradient() + 1.0).lower(&Array::shape_only([2], F32)).unwrap().text();
    assert!(!text.contains("bitcast"), "{text}");
}

#[test]
fn gradients_of_gradients() {
    let f = jit(|x: Tensor| grad(|x: Tensor| grad(|x: Tensor| x.pow(3.0).sum_all(), x).sum_all(), x));
    assert_eq!(f.call(&Array::from([1.0f32, 2.0])).unwrap().to_vec::<f32>().unwrap(), [6.0, 12.0]);
}

#[test]
fn a_function_without_a_scalar_has_no_gradient() {
    let error = jit(|x: Tensor| grad(|x: Tensor| x.sin(), x)).call(&wave(&[3])).unwrap_err().to_string();
    assert!(
        error.starts_with("grad: the function returns an f64 tensor of shape [3]; it must be a float scalar"),
        "{error}"
    );
    assert!(error.contains("tests/gradients.rs:"), "{error}");
}

#[derive(Clone, Debug, Tree)]
struct Params<T = Tensor> {
    w1: T,
    b1: T,
    w2: T,
}

/// The gradient of a network is the same for every placement of weights and batch.
#[test]
fn gradients_do_not_depend_on_the_mesh() {
    let loss = |p: Params, x: Tensor, y: Tensor| {
        value_and_grad(|p: Params| ((x.matmul(&p.w1) + &p.b1).relu().matmul(&p.w2) - &y).square().mean_all(), p)
    };
    let params = Params { w1: wave(&[4, 6]), b1: wave(&[6]), w2: wave(&[6, 2]) };
    let (x, y) = (wave(&[9, 4]), wave(&[9, 2]));
    let (value, alone) = jit(loss).call((&params, &x, &y)).unwrap();
    let mesh = Mesh::grid(("a", 2), ("b", 2)).unwrap();
    let weights = [
        Rule::by_name([]),
        Rule::by_name([("w1", P![_, "b"]), ("b1", P!["b"]), ("w2", P!["b"])]),
        Rule::by_name([("w1", P!["b"]), ("w2", P![_, "b"])]),
        meshwork::rules::FsdpRule::new("a").least(1).uneven().into(),
    ];
    for rule in weights {
        for batch in [P![], P!["a"], P![["a", "b"]]] {
            let rules = [rule.clone(), batch.clone().into(), batch.clone().into()];
            let f = jit(loss).on(&mesh).in_shardings(rules);
            let (other, split) = f.call((&params, &x, &y)).unwrap_or_else(|e| panic!("{batch}: {e}"));
            assert!(other.all_close(&value, 1e-9));
            for (a, b) in [(&split.w1, &alone.w1), (&split.b1, &alone.b1), (&split.w2, &alone.w2)] {
                assert!(a.all_close(b, 1e-9), "{batch}: {a} and {b}");
            }
        }
    }
}
