//! Each operation against its obvious result.

use meshwork::prelude::*;

/// Runs `f` on a matrix `[[0, 1, 2], [3, 4, 5]]` of f32.
fn matrix<O: Tree<Host = Array>>(f: impl Fn(Tensor) -> O) -> (Vec<i64>, Vec<f64>) {
    let x = Array::from_fn([2, 3], |i| (3 * i[0] + i[1]) as f32);
    let y = jit(f).call(&x).unwrap();
    (y.shape().to_vec(), y.to_f64s().unwrap())
}

/// Runs `f` on a vector of f32.
fn vector(x: &[f32], f: impl Fn(Tensor) -> Tensor) -> Vec<f64> {
    jit(f).call(&Array::from(x)).unwrap().to_f64s().unwrap()
}

fn close(a: &[f64], b: &[f64]) {
    assert_eq!(a.len(), b.len(), "{a:?} and {b:?}");
    assert!(a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-5 || x == y), "{a:?} and {b:?}");
}

#[test]
fn operators_take_tensors_and_numbers_on_both_sides() {
    assert_eq!(vector(&[1.0, 2.0], |x| &x + 1), [2.0, 3.0]);
    assert_eq!(vector(&[1.0, 2.0], |x| 1.0 - &x), [0.0, -1.0]);
    assert_eq!(vector(&[1.0, 2.0], |x| 2 * &x * &x), [2.0, 8.0]);
    assert_eq!(vector(&[1.0, 2.0], |x| 1.0 / x), [1.0, 0.5]);
    assert_eq!(vector(&[5.0, -5.0], |x| -(x % 3.0)), [-2.0, 2.0]);
    assert_eq!(
        vector(&[1.0, 2.0], |x| {
            let mut y = x.clone();
            y += &x;
            y *= 3.0;
            y
        }),
        [6.0, 12.0]
    );
    assert_eq!(vector(&[1.0, 2.0, 3.0], |x| ((x.gt(1.0) & x.lt(3.0)) | x.eq(3.0)).to(F32)), [0.0, 1.0, 1.0]);
    assert_eq!(vector(&[5.0], |x| (((x.to(I32) << 2) >> 1) ^ 3).to(F32)), [9.0]);
    assert_eq!(vector(&[0.0, 1.0], |x| (!x.ne(0.0)).to(F32)), [1.0, 0.0]);
}

#[test]
fn shapes_broadcast() {
    let (shape, y) = matrix(|x| &x + Tensor::constant(&Array::from([10.0f32, 20.0, 30.0])));
    assert_eq!((shape, y), (vec![2, 3], vec![10., 21., 32., 13., 24., 35.]));
    let (shape, y) = matrix(|x| x.slice(s![.., 0..1]) * x.slice(s![0]));
    assert_eq!((shape, y), (vec![2, 3], vec![0., 0., 0., 0., 3., 6.]));
    let (shape, _) = matrix(|x| x.broadcast_to([4, 2, 3]));
    assert_eq!(shape, [4, 2, 3]);
}

#[test]
fn elementwise_functions() {
    let x: [f32; 3] = [0.5, 1.0, 2.0];
    type Case = (fn(&Tensor) -> Tensor, fn(f64) -> f64);
    let cases: [Case; 17] = [
        (Tensor::sin, f64::sin),
        (Tensor::cos, f64::cos),
        (Tensor::tan, f64::tan),
        (Tensor::tanh, f64::tanh),
        (Tensor::sinh, f64::sinh),
        (Tensor::cosh, f64::cosh),
        (Tensor::atan, f64::atan),
        (Tensor::exp, f64::exp),
        (Tensor::expm1, f64::exp_m1),
        (Tensor::log, f64::ln),
        (Tensor::log1p, f64::ln_1p),
        (Tensor::sqrt, f64::sqrt),
        (Tensor::cbrt, f64::cbrt),
        (Tensor::floor, f64::floor),
        (Tensor::ceil, f64::ceil),
        (Tensor::square, |x| x * x),
        (Tensor::sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
    ];
    for (ours, theirs) in cases {
        close(&vector(&x, |x| ours(&x)), &x.map(|v| theirs(v.into())));
    }
    assert_eq!(vector(&[-2.0, 0.0, 3.0], |x| x.sign()), [-1.0, 0.0, 1.0]);
    assert_eq!(vector(&[-2.0, 0.5, 3.0], |x| x.clamp(-1.0, 1.0)), [-1.0, 0.5, 1.0]);
    assert_eq!(vector(&[2.0, 3.0], |x| x.pow(2.0)), [4.0, 9.0]);
    assert_eq!(vector(&[0.5, 1.5, 2.5], |x| x.round()), [0.0, 2.0, 2.0]);
    close(&vector(&[1.0], |x| x.atan2(-1.0)), &[3.0 * std::f64::consts::FRAC_PI_4]);
    assert_eq!(vector(&[1.0, f32::NAN], |x| x.is_nan().to(F32)), [0.0, 1.0]);
}

#[test]
fn slices_follow_python() {
    let x: Vec<f32> = (0..7).map(|i| i as f32).collect();
    let n = 5usize;
    assert_eq!(vector(&x, |x| x.slice(s![1..-1])), [1., 2., 3., 4., 5.]);
    assert_eq!(vector(&x, |x| x.slice(s![-2..])), [5., 6.]);
    assert_eq!(vector(&x, |x| x.slice(s![..n])), [0., 1., 2., 3., 4.]);
    assert_eq!(vector(&x, |x| x.slice(s![1..; 2])), [1., 3., 5.]);
    assert_eq!(vector(&x, |x| x.slice(s![..; -3])), [6., 3., 0.]);
    assert_eq!(vector(&x, |x| x.slice(s![5..1; -2])), [5., 3.]);
    assert_eq!(vector(&x, |x| x.slice(s![2..=-1])), [2., 3., 4., 5., 6.]);
    assert_eq!(vector(&x, |x| x.slice(s![5..100])), [5., 6.]);
    assert_eq!(vector(&x, |x| x.slice(s![4..2])), [0.0; 0]);
    assert_eq!(vector(&x, |x| x.slice(s![-1])), [6.]);
    assert_eq!(vector(&x, |x| x.slice(s![x.slice(s![3]).to(I32)])), [3.]);
    assert_eq!(matrix(|x| x.slice(s![1, NEW_AXIS, 1..])), (vec![1, 2], vec![4., 5.]));
    assert_eq!(matrix(|x| x.slice(s![.., -1])), (vec![2], vec![2., 5.]));
}

#[test]
fn parts_are_assigned() {
    let x = [0.0, 1.0, 2.0, 3.0, 4.0];
    assert_eq!(vector(&x, |x| x.at(s![1..-1]).set(9.0)), [0., 9., 9., 9., 4.]);
    assert_eq!(vector(&x, |x| x.at(s![1..3]).set(x.slice(s![3..]))), [0., 3., 4., 3., 4.]);
    assert_eq!(vector(&x, |x| x.at(s![..; 2]).add(10.0)), [10., 1., 12., 3., 14.]);
    assert_eq!(vector(&x, |x| x.at(s![..; -1]).set(&x)), [4., 3., 2., 1., 0.]);
    assert_eq!(
        vector(&x, |x| x.at(s![..; -2]).set(Tensor::constant(&Array::from([7f32, 8., 9.])))),
        [9., 1., 8., 3., 7.]
    );
    assert_eq!(vector(&x, |x| x.at(s![3..]).mul(2.0)), [0., 1., 2., 6., 8.]);
    assert_eq!(vector(&x, |x| x.at(s![..]).min(2.0)), [0., 1., 2., 2., 2.]);
    assert_eq!(vector(&x, |x| x.at(s![..]).max(2.0)), [2., 2., 2., 3., 4.]);
    assert_eq!(vector(&x, |x| x.at(s![2..2]).set(1.0)), [0., 1., 2., 3., 4.]);
    assert_eq!(vector(&x, |x| x.at(s![x.slice(s![2]).to(I32)]).set(-1.0)), [0., 1., -1., 3., 4.]);
    assert_eq!(matrix(|x| x.at(s![.., 1]).set(0.0)).1, [0., 0., 2., 3., 0., 5.]);
    assert_eq!(matrix(|x| x.at(s![.., ..;2]).set(0.0)).1, [0., 1., 0., 0., 4., 0.]);
}

#[test]
fn movement() {
    assert_eq!(matrix(|x| x.reshape([3, -1])), (vec![3, 2], vec![0., 1., 2., 3., 4., 5.]));
    assert_eq!(matrix(|x| x.t()), (vec![3, 2], vec![0., 3., 1., 4., 2., 5.]));
    assert_eq!(matrix(|x| x.flip(&[-1])).1, [2., 1., 0., 5., 4., 3.]);
    assert_eq!(matrix(|x| x.roll(1, 1)).1, [2., 0., 1., 5., 3., 4.]);
    assert_eq!(matrix(|x| x.roll(-1, 0)).1, [3., 4., 5., 0., 1., 2.]);
    assert_eq!(matrix(|x| x.roll(3, 1)).1, [0., 1., 2., 3., 4., 5.]);
    assert_eq!(matrix(|x| x.pad(&[(0, 0), (1, -1)], 7.0)).1, [7., 0., 1., 7., 3., 4.]);
    assert_eq!(matrix(|x| concatenate(&[x.clone(), x], 0)).0, [4, 3]);
    assert_eq!(
        matrix(|x| stack(&[x.clone(), x], -1)),
        (vec![2, 3, 2], vec![0., 0., 1., 1., 2., 2., 3., 3., 4., 4., 5., 5.])
    );
    assert_eq!(matrix(|x| x.slice(s![0]).tile(2, 0)), (vec![6], vec![0., 1., 2., 0., 1., 2.]));
    assert_eq!(matrix(|x| x.split(3, 1)[1].clone()), (vec![2, 1], vec![1., 4.]));
    assert_eq!(matrix(|x| x.expand_dims(-1).squeeze(-1)).0, [2, 3]);
    assert_eq!(matrix(|x| x.tril(0)).1, [0., 0., 0., 3., 4., 0.]);
}

#[test]
fn reductions() {
    assert_eq!(matrix(|x| x.sum(&[0])), (vec![3], vec![3., 5., 7.]));
    assert_eq!(matrix(|x| x.sum(&[-1])), (vec![2], vec![3., 12.]));
    assert_eq!(matrix(|x| x.mean(&[1])).1, [1., 4.]);
    assert_eq!(matrix(|x| x.max_all()).1, [5.]);
    assert_eq!(matrix(|x| x.min(&[0])).1, [0., 1., 2.]);
    assert_eq!(matrix(|x| (x + 1.0).prod(&[1])).1, [6., 120.]);
    close(&matrix(|x| x.var(&[1])).1, &[2.0 / 3.0, 2.0 / 3.0]);
    assert_eq!(matrix(|x| x.gt(1.0).any(&[1]).to(F32)).1, [1., 1.]);
    assert_eq!(matrix(|x| x.gt(1.0).all(&[1]).to(F32)).1, [0., 1.]);
    assert_eq!(vector(&[1., 5., 5., 2.], |x| x.argmax(0)), [1.]);
    assert_eq!(vector(&[3., 0., 5., 0.], |x| x.argmin(0)), [1.]);
    assert_eq!(vector(&[3., 7.], |x| x.to(I32).max_all()), [7.]);
    assert_eq!(vector(&[], |x| x.sum_all()), [0.]);
    assert_eq!(vector(&[], |x| x.max_all()), [f64::NEG_INFINITY]);
}

#[test]
fn running_totals() {
    for n in [0, 1, 2, 5, 8, 13] {
        let x: Vec<f32> = (0..n).map(|i| (i * i % 7) as f32 - 2.0).collect();
        let running = |f: fn(f64, f64) -> f64| {
            let mut out: Vec<f64> = x.iter().map(|&v| v.into()).collect();
            (1..out.len()).for_each(|i| out[i] = f(out[i - 1], out[i]));
            out
        };
        close(&vector(&x, |x| x.cumsum(0)), &running(|a, b| a + b));
        close(&vector(&x, |x| x.cumprod(0)), &running(|a, b| a * b));
        close(&vector(&x, |x| x.cummax(0)), &running(f64::max));
        close(&vector(&x, |x| x.cummin(0)), &running(f64::min));
    }
}

#[test]
fn products() {
    assert_eq!(matrix(|x| x.matmul(x.t())), (vec![2, 2], vec![5., 14., 14., 50.]));
    assert_eq!(matrix(|x| x.matmul(x.slice(s![0]))).1, [5., 14.]);
    assert_eq!(matrix(|x| x.slice(s![.., 0]).matmul(&x)).1, [9., 12., 15.]);
    let (shape, y) = matrix(|x| x.broadcast_to([4, 2, 3]).matmul(x.t().broadcast_to([4, 3, 2])));
    assert_eq!((shape, &y[12..]), (vec![4, 2, 2], &[5., 14., 14., 50.][..]));
    assert_eq!(matrix(|x| einsum("ij,kj->ik", &[&x, &x])).1, [5., 14., 14., 50.]);
    assert_eq!(matrix(|x| einsum("ij->ji", &[&x])), (vec![3, 2], vec![0., 3., 1., 4., 2., 5.]));
    assert_eq!(matrix(|x| einsum("ij,ij->", &[&x, &x])).1, [55.]);
    assert_eq!(matrix(|x| einsum("ij,jk,k", &[&x, &x.t(), &x.slice(s![.., 0])])).1, [42., 150.]);
    assert_eq!(matrix(|x| einsum("ij,k->i", &[&x, &x.slice(s![0])])).1, [9., 36.]);
}

#[test]
fn a_formula_is_worked_out_for_each_combination_of_types() {
    for turn in 0..3 {
        assert_eq!(matrix(|x| einsum("ij,jk->ki", &[&x, &x.t()])).1, [5., 14., 14., 50.], "turn {turn}");
        assert_eq!(matrix(|x| einsum("ij,jk->ki", &[&x.t(), &x])).1, [9., 12., 15., 12., 17., 22., 15., 22., 29.]);
        assert_eq!(matrix(|x| einsum("ij,jk->ik", &[&x.to(F64), &x.t().to(F64)]).to(F32)).1, [5., 14., 14., 50.]);
        // More formulas than are remembered.
        for n in 1..20 {
            assert_eq!(matrix(|x| einsum("ij,k->", &[&x, &ones([n], F32)])).1, [15. * n as f64]);
        }
    }
}

#[test]
fn windows() {
    let x: Vec<f32> = (0..6).map(|i| i as f32).collect();
    let image = |x: &Tensor| x.reshape([1, 6, 1]);
    let kernel = || Tensor::constant(&Array::from_vec([3, 1, 1], vec![1f32, 2., 4.]).unwrap());
    assert_eq!(vector(&x, |x| image(&x).conv(&kernel(), &Conv::default())), [10., 17., 24., 31.]);
    let same = Conv { padding: Padding::Same, ..Conv::default() };
    assert_eq!(vector(&x, |x| image(&x).conv(&kernel(), &same)), [4., 10., 17., 24., 31., 14.]);
    let strided = Conv { strides: vec![2], dilation: vec![2], ..Conv::default() };
    assert_eq!(vector(&x, |x| image(&x).conv(&kernel(), &strided)), [20.]);
    assert_eq!(vector(&x, |x| x.max_pool(&[2], &[2], Padding::Valid)), [1., 3., 5.]);
    // One window extent per spatial dimension.
    let spatial = |x: Tensor| x.reshape([1, 6, 1]).sum_pool(&[2], &[2], Padding::Explicit(vec![(1, 1)])).reshape([4]);
    assert_eq!(vector(&x, spatial), [0., 3., 7., 5.]);
    assert_eq!(vector(&x, |x| x.sum_pool(&[3], &[1], Padding::Same)), [1., 3., 6., 9., 12., 9.]);
    assert_eq!(vector(&x, |x| x.avg_pool(&[3], &[3], Padding::Explicit(vec![(1, 0)]))), [0.5, 3.]);
}

#[test]
fn lookups() {
    let ids = || Tensor::constant(&Array::from([2i32, 0, 2]));
    assert_eq!(matrix(|x| x.take(&ids(), 1)), (vec![2, 3], vec![2., 0., 2., 5., 3., 5.]));
    assert_eq!(matrix(|x| x.t().take(&ids().reshape([3, 1]), 0)).0, [3, 1, 2]);
    assert_eq!(matrix(|x| x.take_along(&ids().slice(s![..2]).reshape([2, 1]), 1)).1, [2., 3.]);
    assert_eq!(matrix(|x| x.scatter_add(&ids(), &ones([2, 3], F32), 1)).1, [1., 1., 4., 4., 4., 7.]);
    assert_eq!(matrix(|x| x.scatter_set(&ids().slice(s![..2]), &zeros([2, 2], F32), 1)).1, [0., 1., 0., 0., 4., 0.]);
    assert_eq!(matrix(|x| x.scatter_max(&ids(), &full([2, 3], F32, 3), 1)).1, [3., 1., 3., 3., 4., 5.]);
    assert_eq!(vector(&[1., 0.], |x| x.to(I32).one_hot(3, F32)), [0., 1., 0., 1., 0., 0.]);
}

#[test]
fn order() {
    let x = [3., 1., 2., 1.];
    assert_eq!(vector(&x, |x| x.sort(0)), [1., 1., 2., 3.]);
    assert_eq!(vector(&x, |x| x.argsort(0)), [1., 3., 2., 0.]);
    assert_eq!(vector(&x, |x| x.top_k(2).0), [3., 2.]);
    assert_eq!(vector(&x, |x| x.top_k(3).1), [0., 2., 1.]);
    // NaN is the largest, and zeros of both signs are equal.
    let x = [f32::NAN, 1., 0., -0., f32::NEG_INFINITY];
    assert_eq!(vector(&x, |x| x.argsort(0)), [4., 2., 3., 1., 0.]);
    assert_eq!(vector(&x, |x| x.top_k(3).1), [0., 1., 2.]);
    assert!(vector(&x, |x| x.sort(0))[4].is_nan());
}

#[test]
fn the_softmax_family() {
    let e = std::f64::consts::E;
    close(&vector(&[1000., 1001.], |x| x.softmax(0)), &[1.0 / (1.0 + e), e / (1.0 + e)]);
    close(&vector(&[0., 1.], |x| x.log_softmax(0).exp()), &[1.0 / (1.0 + e), e / (1.0 + e)]);
    close(&vector(&[0., 1.], |x| x.logsumexp(0)), &[(1.0 + e).ln()]);
    close(&vector(&[1., 3.], |x| x.layer_norm(0.0)), &[-1., 1.]);
    close(&vector(&[-1., 0., 1.], |x| x.gelu()), &[-0.158_655, 0.0, 0.841_345]);
    close(&vector(&[0.], |x| x.softplus()), &[2f64.ln()]);
    assert_eq!(vector(&[-1., 2.], |x| x.relu()), [0., 2.]);
    // At 0 it is flat, and a maximum is shared.
    let at = [-1., -0., 0., 2.];
    assert_eq!(vector(&at, |x| grad(|x: Tensor| x.relu().sum_all(), x)), [0., 0., 0., 1.]);
    assert_eq!(vector(&at, |x| grad(|x: Tensor| x.maximum(0).sum_all(), x)), [0., 0.5, 0.5, 1.]);
    assert!(vector(&[f32::NAN], |x| x.relu())[0].is_nan());
}

#[test]
fn fourier_transforms_invert() {
    let x = [1., 2., 0., -3., 5.];
    close(&vector(&x, |x| x.rfft(1).irfft(1, 5)), &x.map(f64::from));
    close(&vector(&x, |x| x.complex(0.0).fft(1).ifft(1).real()), &x.map(f64::from));
    close(&vector(&x, |x| x.rfft(1).abs().slice(s![0])), &[5.0]);
}

#[test]
fn sources() {
    let none = |f: fn(()) -> Tensor| jit(f).call(&()).unwrap().to_f64s().unwrap();
    assert_eq!(none(|()| arange(3, I32)), [0., 1., 2.]);
    assert_eq!(none(|()| iota([2, 2], F32, 0)), [0., 0., 1., 1.]);
    assert_eq!(none(|()| linspace(0.0, 1.0, 3, F32)), [0., 0.5, 1.]);
    assert_eq!(none(|()| eye(2, F32)), [1., 0., 0., 1.]);
    assert_eq!(none(|()| full([2], I32, -3)), [-3., -3.]);
    assert_eq!(none(|()| ones([2], I1).to(F32)), [1., 1.]);
}

#[test]
fn loops_and_branches() {
    assert_eq!(vector(&[1.0], |x| for_loop(0..0, x, |_, x| x + 1.0)), [1.0]);
    let nested = |x: Tensor| for_loop(0..3, x, |i, x| for_loop(0..4, x, |j, x| x + (&i * 10 + j).to(F32)));
    assert_eq!(vector(&[0.0], nested), [(0..3).flat_map(|i| (0..4).map(move |j| f64::from(10 * i + j))).sum::<f64>()]);
    let fib = |x: Tensor| while_loop((x.clone(), x), |(a, _)| a.slice(s![0]).lt(50.0), |(a, b)| (&a + &b, a)).0;
    assert_eq!(vector(&[1.0], fib), [55.0]);
    // A loop that captures a tensor, and one inside a branch.
    assert_eq!(vector(&[2.0], |x| for_loop(0..3, x.ones_like(), |_, y| y * &x)), [8.0]);
    let branch = |x: Tensor| cond(x.slice(s![0]).gt(0.0), || for_loop(0..2, x.clone(), |_, y| y * 3.0), || x.abs());
    assert_eq!(vector(&[2.0], branch), [18.0]);
    assert_eq!(vector(&[-2.0], branch), [2.0]);
}

#[test]
fn scans_stack_their_outputs() {
    let x = Array::from_fn([4, 2], |i| (2 * i[0] + i[1]) as f32);
    let f = jit(|x: Tensor| {
        let bias = x.slice(s![0, 1]);
        scan(zeros([2], F32), (x.clone(), x), |c, (x, y)| {
            let c = c + x + &bias;
            (c.clone(), (c.sum_all(), y * 2.0))
        })
    });
    let (carry, (sums, doubled)) = f.call(&x).unwrap();
    assert_eq!(carry.to_f64s().unwrap(), [16., 20.]);
    assert_eq!(sums.to_f64s().unwrap(), [3., 10., 21., 36.]);
    assert_eq!(doubled.shape(), [4, 2]);
}
