//! Losses and gradients compared with those of JAX, recorded by bench/record_gradients.py: on one device and on meshes.

use meshwork::prelude::*;

/// The numbers of a recorded program, taken from the front.
struct Record(std::vec::IntoIter<f32>);

impl Record {
    fn of(file: &[u8]) -> Record {
        let numbers = Array::from_literal(meshwork_ir::npy::read(file).expect("a recorded file"));
        Record(numbers.to_vec::<f32>().expect("numbers of f32").into_iter())
    }

    fn array(&mut self, shape: &[i64]) -> Array {
        let count = shape.iter().product::<i64>() as usize;
        Array::from_vec(shape, self.0.by_ref().take(count).collect()).expect("enough numbers")
    }

    fn arrays(&mut self, shapes: &[&[i64]]) -> Vec<Array> {
        shapes.iter().map(|s| self.array(s)).collect()
    }
}

/// Compares loss and gradients of `loss` with the record; data of `integers` are labels. `batch` places the data.
#[track_caller]
fn check(
    file: &[u8],
    params: &[&[i64]],
    data: &[&[i64]],
    integers: &[usize],
    batch: P,
    loss: impl Fn(&[Tensor], &[Tensor]) -> Tensor + Copy + 'static,
) {
    let mut record = Record::of(file);
    let p = record.arrays(params);
    let mut d = record.arrays(data);
    for &i in integers {
        d[i] = jit(|x: Tensor| x.to(I32)).call(&d[i]).unwrap();
    }
    let value = record.array(&[]);
    let gradients = record.arrays(params);
    assert_eq!(record.0.len(), 0, "numbers are left over");

    let program = move |p: Vec<Tensor>, d: Vec<Tensor>| value_and_grad(|p: Vec<Tensor>| loss(&p, &d), p);
    let compare = |(v, g): (Array, Vec<Array>), how: &str| {
        assert!(v.all_close(&value, 1e-5), "{how}: a loss of {v}, JAX has {value}");
        for (i, (a, b)) in g.iter().zip(&gradients).enumerate() {
            let largest = b.to_f64s().unwrap().iter().fold(1.0, |m: f64, x| m.max(x.abs()));
            assert!(a.all_close(b, 2e-5 * largest), "{how}: the gradient of parameter {i} is {a}, JAX has {b}");
        }
    };
    compare(jit(program).call((&p, &d)).unwrap(), "one device");
    let mesh = Mesh::linear("x", 2).unwrap();
    compare(jit(program).on(&mesh).in_shardings([P![], batch.clone()]).call((&p, &d)).unwrap(), "batch in two");
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let rules: [Rule; 2] = [meshwork::rules::FsdpRule::new("y").least(2).uneven().into(), batch.into()];
    compare(jit(program).on(&mesh).in_shardings(rules).call((&p, &d)).unwrap(), "batch in two, parameters in two");
}

fn surprise(logits: Tensor, labels: &Tensor) -> Tensor {
    let classes = logits.dim(-1);
    -(logits.log_softmax(-1) * labels.one_hot(classes, F32)).sum(&[-1]).mean_all()
}

fn norm(x: &Tensor, scale: &Tensor, bias: &Tensor) -> Tensor {
    x.layer_norm(1e-5) * scale + bias
}

fn attend(x: &Tensor, w: &[Tensor]) -> Tensor {
    let [q, k, v] = [0, 1, 2].map(|i| einsum("btd,dhk->bhtk", &[x, &w[i]]));
    let scores = einsum("bhtk,bhsk->bhts", &[&q, &k]) / (q.dim(-1) as f64).sqrt();
    let n = x.dim(1);
    let past = iota([n, n], I32, 0).ge(iota([n, n], I32, 1));
    let weights = select(past, scores, -1e9).softmax(-1);
    einsum("bhts,bhsk,hkd->btd", &[&weights, &v, &w[3]])
}

#[test]
fn mlp() {
    let params: [&[i64]; 4] = [&[8, 16], &[16], &[16, 4], &[4]];
    check(include_bytes!("data/mlp.npy"), &params, &[&[6, 8], &[6]], &[1], P!["x"], |p, d| {
        let hidden = (d[0].matmul(&p[0]) + &p[1]).tanh();
        surprise(hidden.matmul(&p[2]) + &p[3], &d[1])
    });
}

#[test]
fn cnn() {
    let params: [&[i64]; 3] = [&[3, 3, 3, 4], &[3, 3, 4, 6], &[6, 5]];
    check(include_bytes!("data/cnn.npy"), &params, &[&[4, 8, 8, 3], &[4]], &[1], P!["x"], |p, d| {
        let same = |step: i64| Conv { padding: Padding::Same, strides: vec![step; 2], ..Conv::default() };
        let x = d[0].conv(&p[0], &same(1)).relu().max_pool(&[1, 2, 2, 1], &[1, 2, 2, 1], Padding::Valid);
        let x = x.conv(&p[1], &same(2)).relu().mean(&[1, 2]);
        surprise(x.matmul(&p[2]), &d[1])
    });
}

#[test]
fn attention() {
    let params: [&[i64]; 4] = [&[8, 2, 4], &[8, 2, 4], &[8, 2, 4], &[2, 4, 8]];
    check(include_bytes!("data/attention.npy"), &params, &[&[2, 5, 8]], &[], P!["x"], |p, d| {
        attend(&d[0], p).square().mean_all()
    });
}

#[test]
fn layer_norm() {
    let params: [&[i64]; 3] = [&[4, 6], &[6], &[6]];
    check(include_bytes!("data/layer_norm.npy"), &params, &[&[4, 6]], &[], P!["x"], |p, d| {
        (norm(&p[0], &p[1], &p[2]).sin() * &d[0]).sum_all()
    });
}

#[test]
fn gpt() {
    let block: [&[i64]; 10] =
        [&[8], &[8], &[8, 2, 4], &[8, 2, 4], &[8, 2, 4], &[2, 4, 8], &[8], &[8], &[8, 32], &[32, 8]];
    let ends: [&[i64]; 3] = [&[8], &[8], &[8, 11]];
    let params = [&[&[11, 8][..], &[6, 8]], &block[..], &block[..], &ends[..]].concat();
    check(include_bytes!("data/gpt.npy"), &params, &[&[4, 6], &[4, 6]], &[0, 1], P!["x"], |p, d| {
        let (blocks, ends) = p[2..].split_at(20);
        let x = p[0].take(&d[0], 0) + &p[1];
        let x = blocks.chunks(10).fold(x, |x, b| {
            let x = &x + attend(&norm(&x, &b[0], &b[1]), &b[2..6]);
            &x + norm(&x, &b[6], &b[7]).matmul(&b[8]).gelu().matmul(&b[9])
        });
        surprise(norm(&x, &ends[0], &ends[1]).matmul(&ends[2]), &d[1])
    });
}

#[test]
fn rnn() {
    let params: [&[i64]; 3] = [&[4, 6], &[6, 6], &[6]];
    check(include_bytes!("data/rnn.npy"), &params, &[&[7, 4, 4], &[7, 4, 6]], &[], P![_, "x"], |p, d| {
        let (_, states) = scan(zeros([4, 6], F32), d[0].clone(), |h, x| {
            let h = (x.matmul(&p[0]) + h.matmul(&p[1]) + &p[2]).tanh();
            (h.clone(), h)
        });
        (states - &d[1]).square().mean_all()
    });
}
