//! Zeros of both signs, infinities and NaN: results and gradients are those of JAX, recorded by
//! bench/record_special_values.py, on the engine and on the evaluator.

use std::collections::BTreeMap;

use meshwork::prelude::*;
use meshwork::{Cpu, Engine, Reference};

fn recorded() -> BTreeMap<&'static str, Vec<Option<f64>>> {
    let number = |text: &'static str| if text == "?" { None } else { Some(text.parse().expect("a number")) };
    let line = |line: &'static str| {
        let (name, values) = line.split_once(": ").expect("a name");
        (name, values.split(' ').map(number).collect())
    };
    include_str!("data/special_values.txt").lines().map(line).collect()
}

type One = fn(&Tensor) -> Tensor;
type Two = fn(&Tensor, &Tensor) -> Tensor;

const ONE: &[(&str, One)] = &[
    ("abs", |x| x.abs()),
    ("sign", |x| x.sign()),
    ("negate", |x| -x),
    ("floor", |x| x.floor()),
    ("ceil", |x| x.ceil()),
    ("round", |x| x.round()),
    ("sqrt", |x| x.sqrt()),
    ("rsqrt", |x| x.rsqrt()),
    ("cbrt", |x| x.cbrt()),
    ("exp", |x| x.exp()),
    ("log", |x| x.log()),
    ("log1p", |x| x.log1p()),
    ("expm1", |x| x.expm1()),
    ("tanh", |x| x.tanh()),
    ("sigmoid", |x| x.sigmoid()),
    ("erf", |x| x.erf()),
    ("is_finite", |x| x.is_finite()),
    ("is_nan", |x| x.is_nan()),
    ("relu", |x| x.relu()),
    ("square", |x| x.square()),
    ("clamp", |x| x.clamp(-1, 1)),
];

const TWO: &[(&str, Two)] = &[
    ("maximum", |x, y| x.maximum(y)),
    ("minimum", |x, y| x.minimum(y)),
    ("eq", |x, y| x.eq(y)),
    ("ne", |x, y| x.ne(y)),
    ("lt", |x, y| x.lt(y)),
    ("le", |x, y| x.le(y)),
    ("gt", |x, y| x.gt(y)),
    ("ge", |x, y| x.ge(y)),
    ("add", |x, y| x + y),
    ("sub", |x, y| x - y),
    ("mul", |x, y| x * y),
    ("div", |x, y| x / y),
    ("rem", |x, y| x % y),
    ("pow", |x, y| x.pow(y)),
    ("atan2", |x, y| x.atan2(y)),
];

const ROW: &[(&str, One)] = &[
    ("max", |x| x.max(&[1])),
    ("min", |x| x.min(&[1])),
    ("argmax", |x| x.argmax(1)),
    ("argmin", |x| x.argmin(1)),
    ("sum", |x| x.sum(&[1])),
    ("sort", |x| x.sort(1)),
    ("argsort", |x| x.argsort(1)),
    ("cummax", |x| x.cummax(1)),
    ("cummin", |x| x.cummin(1)),
    ("top_k", |x| x.top_k(2).0),
    ("top_k_at", |x| x.top_k(2).1),
    ("logsumexp", |x| x.logsumexp(1)),
    ("softmax", |x| x.softmax(1)),
];

/// `y`, or `y` times 1, 2, … along its rows if it has the rows of `x`.
fn weighted(y: Tensor, x: &Tensor) -> Tensor {
    if y.rank() < 2 { y } else { &y * (arange(y.dim(-1), x.dtype()) + 1) }
}

/// Of what is recorded as `name`, the result on `args`.
fn run(engine: impl Engine + 'static, name: &str, dtype: ElementType, args: &[Array]) -> Vec<f64> {
    let (grad_of, base) = match name.split_once(' ') {
        Some((grad, base)) => (Some(if grad == "grad1" { 1 } else { 0 }), base),
        None => (None, name),
    };
    let one = ONE.iter().find(|f| f.0 == base).map(|f| f.1);
    let row = ROW.iter().find(|f| f.0 == base).map(|f| f.1);
    let two = TWO.iter().find(|f| f.0 == base).map(|f| f.1);
    let program = move |args: Vec<Tensor>| {
        let args: Vec<Tensor> = args.into_iter().map(|a| a.to(dtype)).collect();
        let value = move |args: &[Tensor]| match (one, row, two) {
            (Some(f), ..) => f(&args[0]),
            (_, Some(f), _) => f(&args[0]),
            (.., Some(f)) => f(&args[0], &args[1]),
            _ => panic!("a program without a name"),
        };
        let out = match grad_of {
            None => value(&args),
            Some(i) => {
                let sum = move |args: Vec<Tensor>| weighted(value(&args), &args[0]).to(F32).sum_all();
                grad(sum, args).swap_remove(i)
            }
        };
        out.to(F32)
    };
    let result = jit(program).engine(engine).call(&args.to_vec()).unwrap_or_else(|e| panic!("{name}: {e}"));
    result.to_f64s().unwrap()
}

fn check<E: Engine + 'static>(engine: impl Fn() -> E) {
    let recorded = recorded();
    let list = |name: &str| recorded[name].iter().map(|v| v.expect("a number") as f32).collect::<Vec<f32>>();
    let numbers = list("numbers");
    let n = numbers.len();
    let first: Vec<f32> = numbers.iter().flat_map(|&a| vec![a; n]).collect();
    let second: Vec<f32> = numbers.iter().flat_map(|_| numbers.clone()).collect();
    let rows = list("rows");
    let array = |shape: &[i64], v: Vec<f32>| Array::from_vec(shape, v).unwrap();
    let mut wrong = vec![];
    for (line, want) in &recorded {
        let mut words = line.splitn(3, ' ');
        let (kind, dtype, name) = (words.next().unwrap(), words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let args = match kind {
            "one" => vec![array(&[n as i64], numbers.clone())],
            "two" => vec![array(&[(n * n) as i64], first.clone()), array(&[(n * n) as i64], second.clone())],
            "row" => vec![array(&[rows.len() as i64 / 3, 3], rows.clone())],
            _ => continue,
        };
        let (dtype, tolerance) = if dtype == "bf16" { (BF16, 1e-2) } else { (F32, 1e-5) };
        let got = run(engine(), name, dtype, &args);
        let count = want.len();
        assert_eq!(got.len(), count, "{line}");
        for (i, (got, want)) in got.iter().zip(want).enumerate() {
            let Some(want) = want else { continue };
            let same = match want {
                w if w.is_nan() => got.is_nan(),
                w if *w == 0.0 || w.is_infinite() => got.to_bits() == w.to_bits(),
                w => (got - w).abs() <= tolerance * w.abs(),
            };
            if !same {
                let of = match kind {
                    "one" => format!("{}", numbers[i]),
                    "two" => format!("{} and {}", first[i], second[i]),
                    _ => format!("{:?}", &rows[i / (count * 3 / rows.len()) * 3..][..3]),
                };
                wrong.push(format!("{line} of {of}: {got} instead of {want}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn on_the_engine() {
    check(|| Cpu::new(1));
}

#[test]
fn on_the_evaluator() {
    check(|| Reference);
}
