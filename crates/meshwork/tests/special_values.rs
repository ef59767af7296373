//! Zeros of both signs, NaN, infinities, subnormal numbers and the ends of integers: values and gradients are those of
//! JAX, recorded by bench/record_special_values.py, on the evaluator and, for lengths with and without remainders of
//! vectors, on the engine.
#![cfg(feature = "npz")]

use std::collections::BTreeMap;
use std::sync::LazyLock;

use meshwork::prelude::*;
use meshwork::{Cpu, Reference, load_npz};
use meshwork_ir::{Literal, Scalar};

static RECORD: LazyLock<BTreeMap<String, Literal>> = LazyLock::new(|| {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/special_values.npz");
    let arrays = load_npz(path).expect("the recorded values");
    let literals = arrays.into_iter().map(|(name, array)| (name, array.literal().expect("numbers").clone()));
    let mut record: BTreeMap<String, Literal> = literals.collect();
    // What is constant has the slope 0, also at 0 to the power of 0, where JAX multiplies 0 by infinity.
    for ty in ["f32", "f64"] {
        let exponents = record[&format!("{ty}/b")].to_f64s();
        let slopes = record.get_mut(&format!("{ty}/binary/pow/d0")).expect("slopes");
        for i in (0..exponents.len()).filter(|&i| exponents[i] == 0.0) {
            slopes.set(i, Scalar::from_f64(slopes.elem(), 0.0));
        }
    }
    record
});

fn recorded(name: &str) -> &'static Literal {
    RECORD.get(name).unwrap_or_else(|| panic!("{name} is not recorded"))
}

type Unary = fn(&Tensor) -> Tensor;
type Binary = fn(&Tensor, &Tensor) -> Tensor;
/// A function along a dimension.
type Row = fn(&Tensor, i64) -> Tensor;

const UNARY: &[(&str, Unary)] = &[
    ("neg", |x| -x),
    ("abs", Tensor::abs),
    ("sign", Tensor::sign),
    ("floor", Tensor::floor),
    ("ceil", Tensor::ceil),
    ("round", Tensor::round),
    ("sin", Tensor::sin),
    ("cos", Tensor::cos),
    ("tan", Tensor::tan),
    ("tanh", Tensor::tanh),
    ("sinh", Tensor::sinh),
    ("cosh", Tensor::cosh),
    ("asin", Tensor::asin),
    ("acos", Tensor::acos),
    ("atan", Tensor::atan),
    ("exp", Tensor::exp),
    ("expm1", Tensor::expm1),
    ("log", Tensor::log),
    ("log1p", Tensor::log1p),
    ("sqrt", Tensor::sqrt),
    ("rsqrt", Tensor::rsqrt),
    ("cbrt", Tensor::cbrt),
    ("sigmoid", Tensor::sigmoid),
    ("erf", Tensor::erf),
    ("erf_inv", Tensor::erf_inv),
    ("lgamma", Tensor::lgamma),
    ("digamma", Tensor::digamma),
    ("square", Tensor::square),
    ("recip", Tensor::recip),
    ("relu", Tensor::relu),
    ("silu", Tensor::silu),
    ("gelu", Tensor::gelu),
    ("softplus", Tensor::softplus),
    ("clamp", |x| x.clamp(-1.0, 2.0)),
];
const TESTS: &[(&str, Unary)] = &[("is_finite", Tensor::is_finite), ("is_nan", Tensor::is_nan)];
const SIGNED: &[(&str, Unary)] = &[("neg", |x| -x), ("abs", Tensor::abs), ("sign", Tensor::sign)];
const UNSIGNED: &[(&str, Unary)] = &[];

const WHOLE: &[(&str, Binary)] = &[
    ("add", |a, b| a + b),
    ("sub", |a, b| a - b),
    ("mul", |a, b| a * b),
    ("div", |a, b| a / b),
    ("rem", |a, b| a.rem(b)),
    ("maximum", |a, b| a.maximum(b)),
    ("minimum", |a, b| a.minimum(b)),
];
const REAL: &[(&str, Binary)] = &[("pow", |a, b| a.pow(b)), ("atan2", |a, b| a.atan2(b))];
const COMPARISONS: &[(&str, Binary)] = &[
    ("eq", |a, b| a.eq(b)),
    ("ne", |a, b| a.ne(b)),
    ("lt", |a, b| a.lt(b)),
    ("le", |a, b| a.le(b)),
    ("gt", |a, b| a.gt(b)),
    ("ge", |a, b| a.ge(b)),
];

/// Those that IEEE 754 rounds correctly.
const ROUNDED: &[(&str, Unary)] = &[
    ("neg", |x| -x),
    ("abs", Tensor::abs),
    ("sign", Tensor::sign),
    ("floor", Tensor::floor),
    ("ceil", Tensor::ceil),
    ("round", Tensor::round),
    ("sqrt", Tensor::sqrt),
    ("square", Tensor::square),
    ("recip", Tensor::recip),
];
const ROUNDED_PAIRS: &[(&str, Binary)] = &[
    ("add", |a, b| a + b),
    ("sub", |a, b| a - b),
    ("mul", |a, b| a * b),
    ("div", |a, b| a / b),
    ("maximum", |a, b| a.maximum(b)),
    ("minimum", |a, b| a.minimum(b)),
];

const FLOATS: &[(&str, ElementType)] = &[("float16", F16), ("bfloat16", BF16), ("float32", F32), ("float64", F64)];
const WHOLES: &[(&str, ElementType)] =
    &[("int8", I8), ("int32", I32), ("int64", I64), ("uint8", UI8), ("uint32", UI32), ("uint64", UI64), ("bool", I1)];

const ORDER: &[(&str, Row)] = &[
    ("max", |x, d| x.max(&[d])),
    ("min", |x, d| x.min(&[d])),
    ("cummax", Tensor::cummax),
    ("cummin", Tensor::cummin),
    ("sort", Tensor::sort),
];
const PLACES: &[(&str, Row)] = &[("argmax", Tensor::argmax), ("argmin", Tensor::argmin), ("argsort", Tensor::argsort)];
const SUMS: &[(&str, Row)] = &[
    ("sum", |x, d| x.sum(&[d])),
    ("cumsum", Tensor::cumsum),
    ("logsumexp", Tensor::logsumexp),
    ("softmax", Tensor::softmax),
    ("log_softmax", Tensor::log_softmax),
];
const PRODUCTS: &[(&str, Row)] = &[("prod", |x, d| x.prod(&[d])), ("cumprod", Tensor::cumprod)];
/// Rows of each length in the record.
const ROWS: usize = 8;

/// The elements of `all` at `places`.
fn pick(all: &Literal, dims: &[i64], places: impl IntoIterator<Item = usize>) -> Literal {
    let bytes = places.into_iter().flat_map(|i| all.element(i).to_vec()).collect();
    Literal::from_bytes(dims.iter().copied(), all.elem(), bytes).expect("as many as places")
}

/// Whether the sign of a zero counts: in sums it depends on what is added first.
#[derive(Clone, Copy, PartialEq)]
enum Zeros {
    Signed,
    Equal,
}

/// What differs, if anything does. NaN is NaN, infinities are infinite; numbers differ by rounding to `precision`, if any.
fn difference(got: &Literal, want: &Literal, precision: Option<ElementType>, zeros: Zeros) -> Option<String> {
    assert_eq!(got.len(), want.len());
    // Relative, and of numbers that are smaller than the second.
    let (near, small) = match precision {
        Some(F64) => (1e-11, 0.05),
        Some(F32) => (2e-5, 0.05),
        Some(F16) => (4e-3, 0.25),
        Some(BF16) => (3e-2, 0.25),
        _ => (0.0, 0.0),
    };
    (0..got.len()).find_map(|i| {
        let same = if got.elem().is_float() {
            let (g, w) = (got.get(i).as_complex().0, want.get(i).as_complex().0);
            let sign = zeros == Zeros::Equal || g.is_sign_negative() == w.is_sign_negative();
            let bits = (w.is_nan() && g.is_nan()) || (g == w && sign);
            bits || (w.is_finite() && g != w && (g - w).abs() <= near * w.abs().max(small))
        } else {
            got.get_i64(i) == want.get_i64(i)
        };
        (!same).then(|| format!("element {i} of {} is {:?}, and {:?} in JAX", got.len(), got.get(i), want.get(i)))
    })
}

/// The evaluator, or the engine.
#[derive(Clone, Copy, PartialEq, Debug)]
enum On {
    Evaluator,
    Engine,
}

/// Results of `f`, and its gradients if `smooth`, of arguments that are converted to `dtype` first.
fn run(on: On, dtype: ElementType, smooth: bool, f: impl Fn(&[Tensor]) -> Tensor, args: Vec<Literal>) -> Vec<Literal> {
    let program = jit(|args: Vec<Tensor>| -> Vec<Tensor> {
        let args: Vec<Tensor> = args.iter().map(|x| x.to(dtype)).collect();
        if !smooth {
            return vec![f(&args)];
        }
        let (y, back) = vjp(|args: Vec<Tensor>| f(&args), args);
        let ones = y.ones_like();
        std::iter::once(y).chain(back(ones)).collect()
    });
    let program = if on == On::Engine { program.engine(Cpu) } else { program.engine(Reference) };
    let results = program.call(&args.into_iter().map(Array::from_literal).collect::<Vec<_>>()).expect("results");
    results.iter().map(|r| r.literal().expect("numbers").clone()).collect()
}

/// Collects what differs, so that one run shows all of it.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn check(&mut self, name: &str, got: &[Literal], wants: &[Literal], precision: Option<ElementType>) {
        for (i, (got, want)) in got.iter().zip(wants).enumerate() {
            let summed = SUMS.iter().any(|(f, _)| name.contains(&format!("/rows/{f} ")));
            // IEEE 754 leaves open which zero is the larger one, and NumPy's sign of one is 0.
            let open = name.contains("-subnormal/");
            let zeros = if i > 0 || summed || open { Zeros::Equal } else { Zeros::Signed };
            if let Some(what) = difference(got, want, precision, zeros) {
                let part = if i == 0 { "value".into() } else { format!("gradient {}", i - 1) };
                self.0.push(format!("{name}, {part}: {what}"));
            }
        }
    }

    #[track_caller]
    fn none(self) {
        assert!(self.0.is_empty(), "{} differences:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// All lengths of vectors and their remainders for the most used type, some for the others.
fn lengths(dtype: ElementType) -> Vec<usize> {
    if dtype == F32 { (1..=40).collect() } else { vec![1, 2, 3, 5, 8, 15, 17, 33, 40] }
}

/// A function of elements: the evaluator on all of them, the engine on windows of all lengths.
fn elements(
    found: &mut Differences,
    (name, dtype, smooth): (&str, ElementType, bool),
    f: impl Fn(&[Tensor]) -> Tensor,
    args: &[&Literal],
) {
    let precision = if name.contains("/to/") { recorded(name).elem() } else { dtype };
    let precision = (!name.contains("-subnormal/")).then_some(precision);
    let parts = if smooth { args.len() } else { 0 };
    let wants: Vec<&Literal> =
        std::iter::once(recorded(name)).chain((0..parts).map(|i| recorded(&format!("{name}/d{i}")))).collect();
    let count = args[0].len();
    let mut window = |on: On, from: usize, n: usize| {
        let at = |all: &Literal| pick(all, &[n as i64], (0..n).map(|i| (from + i) % count));
        let got = run(on, dtype, smooth, &f, args.iter().map(|a| at(a)).collect());
        let wants: Vec<Literal> = wants.iter().map(|w| at(w)).collect();
        found.check(&format!("{name} on the {on:?}, {n} from {from}"), &got, &wants, precision);
    };
    window(On::Evaluator, 0, count);
    window(On::Engine, 0, count);
    lengths(dtype).into_iter().for_each(|n| window(On::Engine, 7 * n, n));
}

fn singles(ty: &str, dtype: ElementType, smooth: bool, functions: &[(&str, Unary)]) {
    let (mut found, x) = (Differences::default(), recorded(&format!("{ty}/x")));
    for (name, f) in functions {
        elements(&mut found, (&format!("{ty}/unary/{name}"), dtype, smooth), |a| f(&a[0]), &[x]);
    }
    found.none();
}

fn conversions(ty: &str, dtype: ElementType, types: &[(&str, ElementType)]) {
    let (mut found, x) = (Differences::default(), recorded(&format!("{ty}/x")));
    for &(name, to) in types.iter().filter(|&&(_, to)| to != dtype) {
        elements(&mut found, (&format!("{ty}/to/{name}"), dtype, false), |a| a[0].to(to), &[x]);
    }
    found.none();
}

fn pairs(ty: &str, dtype: ElementType, smooth: bool, functions: &[(&str, Binary)]) {
    let (mut found, a, b) = (Differences::default(), recorded(&format!("{ty}/a")), recorded(&format!("{ty}/b")));
    for (name, f) in functions {
        elements(&mut found, (&format!("{ty}/binary/{name}"), dtype, smooth), |x| f(&x[0], &x[1]), &[a, b]);
    }
    found.none();
}

/// What of the slopes of rows does not depend on the order in which elements are combined.
#[derive(Clone, Copy, PartialEq)]
enum Slopes {
    /// Each of them.
    Each,
    /// Sums over equal elements: running extremes share among them.
    OfEquals,
    /// Those of rows without infinities: sums of running products of them have infinite parts of both signs.
    OfFinite,
}

impl Slopes {
    fn of(function: &str) -> Slopes {
        match function {
            "cummax" | "cummin" => Slopes::OfEquals,
            "cumprod" => Slopes::OfFinite,
            _ => Slopes::Each,
        }
    }

    /// `slopes` of rows of `n` elements, with what depends on the order left out.
    fn compared(self, slopes: &Literal, elements: &Literal, n: usize) -> Literal {
        let (slope, x) = (slopes.to_f64s(), elements.to_f64s());
        let one = |i: usize| {
            let row = i / n * n..(i / n + 1) * n;
            match self {
                Slopes::Each => slope[i],
                Slopes::OfFinite if row.clone().any(|j| x[j].is_infinite()) => 0.0,
                Slopes::OfEquals => row.filter(|&j| j == i || x[j] == x[i]).map(|j| slope[j]).sum(),
                Slopes::OfFinite => slope[i],
            }
        };
        let compared: Vec<f64> = (0..slope.len()).map(one).collect();
        Literal::from_f64s([slope.len() as i64], F64, &compared).expect("as many as elements")
    }
}

/// A function of rows: side by side along the last dimension, and one above the other along the first.
fn rows(kind: &str, ty: &str, dtype: ElementType, smooth: bool, functions: &[(&str, Row)]) {
    let mut found = Differences::default();
    let (all, lengths) = (recorded(&format!("{ty}/{kind}")), recorded("lengths").to_i64s());
    for (name, f) in functions {
        let slopes = if smooth { Slopes::of(name) } else { Slopes::Each };
        let name = format!("{ty}/{kind}/{name}");
        let want = recorded(&name);
        let (mut from, mut out) = (0, 0);
        for &n in &lengths {
            let n = n as usize;
            // Either one result of each row, one of each element, or some.
            let each = if want.len() == ROWS * lengths.len() {
                1
            } else if want.len() == all.len() {
                n
            } else {
                n.min(3)
            };
            let block = pick(all, &[ROWS as i64, n as i64], from..from + ROWS * n);
            let mut wants = vec![pick(want, &[(ROWS * each) as i64], out..out + ROWS * each)];
            if smooth {
                let slopes = recorded(&format!("{name}/d0"));
                wants.push(pick(slopes, &[(ROWS * n) as i64], from..from + ROWS * n));
            }
            let compared = |mut results: Vec<Literal>| {
                if slopes != Slopes::Each {
                    results[1] = slopes.compared(&results[1], &block, n);
                }
                results
            };
            let wants = compared(wants);
            for on in [On::Evaluator, On::Engine] {
                let beside = run(on, dtype, smooth, |x| f(&x[0], -1), vec![block.clone()]);
                found.check(&format!("{name} on the {on:?}, rows of {n}"), &compared(beside), &wants, Some(dtype));
                if !name.ends_with("top_k") && !name.ends_with("places") {
                    let back = |y: Tensor| if y.rank() == 2 { y.t() } else { y };
                    let above = run(on, dtype, smooth, |x| back(f(&x[0].t(), 0)), vec![block.clone()]);
                    found.check(
                        &format!("{name} on the {on:?}, columns of {n}"),
                        &compared(above),
                        &wants,
                        Some(dtype),
                    );
                }
            }
            from += ROWS * n;
            out += ROWS * each;
        }
    }
    found.none();
}

const TOP: &[(&str, Row)] = &[("top_k", |x, d| x.top_k(x.dim(d).min(3)).0)];
const TOP_PLACES: &[(&str, Row)] = &[("top_k_places", |x, d| x.top_k(x.dim(d).min(3)).1)];

macro_rules! floats {
    ($($name:ident: $dtype:expr, $smooth:expr;)*) => { $(
        mod $name {
            use super::*;

            const TY: &str = stringify!($name);

            #[test]
            fn functions() {
                singles(TY, $dtype, $smooth, UNARY);
                singles(TY, $dtype, false, TESTS);
            }

            #[test]
            fn to_other_types() {
                conversions(TY, $dtype, FLOATS);
                conversions(TY, $dtype, WHOLES);
            }

            #[test]
            fn of_two() {
                pairs(TY, $dtype, $smooth, WHOLE);
                pairs(TY, $dtype, $smooth, REAL);
                pairs(TY, $dtype, false, COMPARISONS);
            }

            #[test]
            fn extremes_and_sorts() {
                rows("rows", TY, $dtype, $smooth, ORDER);
                rows("rows", TY, $dtype, $smooth, TOP);
                rows("rows", TY, $dtype, false, TOP_PLACES);
                rows("rows", TY, $dtype, false, PLACES);
            }

            #[test]
            fn sums() {
                rows("rows", TY, $dtype, $smooth, SUMS);
            }

            #[test]
            fn products() {
                rows("factors", TY, $dtype, $smooth, PRODUCTS);
            }

            #[test]
            fn subnormal_numbers() {
                let ty = format!("{TY}-subnormal");
                singles(&ty, $dtype, false, ROUNDED);
                singles(&ty, $dtype, false, TESTS);
                pairs(&ty, $dtype, false, ROUNDED_PAIRS);
                pairs(&ty, $dtype, false, COMPARISONS);
                conversions(&ty, $dtype, FLOATS);
            }
        }
    )* };
}

floats! {
    f32: F32, true;
    f64: F64, true;
    f16: F16, false;
    bf16: BF16, false;
}

macro_rules! integers {
    ($($name:ident: $dtype:expr, $unary:expr;)*) => { $(
        #[test]
        fn $name() {
            let ty = stringify!($name);
            singles(ty, $dtype, false, $unary);
            conversions(ty, $dtype, FLOATS);
            conversions(ty, $dtype, WHOLES);
            pairs(ty, $dtype, false, WHOLE);
            pairs(ty, $dtype, false, COMPARISONS);
            rows("rows", ty, $dtype, false, ORDER);
            rows("rows", ty, $dtype, false, TOP);
            rows("rows", ty, $dtype, false, TOP_PLACES);
            rows("rows", ty, $dtype, false, PLACES);
            rows("factors", ty, $dtype, false, PRODUCTS);
        }
    )* };
}

integers! {
    i8: I8, SIGNED;
    i32: I32, SIGNED;
    i64: I64, SIGNED;
    ui8: UI8, UNSIGNED;
    ui32: UI32, UNSIGNED;
}
