//! Random numbers: the bits are JAX's, and what is made of them differs by rounding.

use meshwork::prelude::*;

use super::{Case, whole};

fn key(x: &[Tensor]) -> Key {
    Key::from_tensor(&x[0])
}

/// One case for each float type. Numbers of 16 bits are compared as `f32`, as they are recorded.
macro_rules! floats {
    ($($name:literal $dtype:ident $near:literal),* $(,)?) => {
        pub(super) const CASES: &[Case] = &[
            $(
                whole(concat!("random.uniform.", $name), |x| vec![key(x).uniform([3, 5], $dtype).to(F64)]).near(0.0),
                whole(concat!("random.normal.", $name), |x| vec![key(x).normal([3, 5], $dtype).to(F64)]).near($near),
                whole(concat!("random.exponential.", $name), |x| {
                    vec![key(x).exponential([3, 5], $dtype).to(F64)]
                }).near($near),
                whole(concat!("random.gumbel.", $name), |x| vec![key(x).gumbel([3, 5], $dtype).to(F64)]).near($near),
                whole(concat!("random.laplace.", $name), |x| vec![key(x).laplace([3, 5], $dtype).to(F64)]).near($near),
                whole(concat!("random.logistic.", $name), |x| {
                    vec![key(x).logistic([3, 5], $dtype).to(F64)]
                }).near($near),
                whole(concat!("random.cauchy.", $name), |x| vec![key(x).cauchy([3, 5], $dtype).to(F64)]).near($near),
                whole(concat!("random.truncated_normal.", $name), |x| {
                    vec![key(x).truncated_normal(-1.0, 2.0, [3, 5], $dtype).to(F64)]
                }).near($near),
            )*
            whole("random.split", |x| vec![key(x).split_many(3).tensor()]),
            whole("random.fold_in", |x| vec![key(x).fold_in(&full((), UI32, 5)).tensor()]),
            whole("random.randint.int8", |x| vec![key(x).randint([7], 3, 100, I8)]),
            whole("random.randint.int16", |x| vec![key(x).randint([7], 3, 100, ElementType::I16)]),
            whole("random.randint.int32", |x| vec![key(x).randint([7], 3, 100, I32)]),
            whole("random.randint.int64", |x| vec![key(x).randint([7], 3, 100, I64)]),
            whole("random.randint.uint8", |x| vec![key(x).randint([7], 3, 100, UI8)]),
            whole("random.randint.uint32", |x| vec![key(x).randint([7], 3, 100, UI32)]),
            whole("random.randint.negative", |x| vec![key(x).randint([7], -50, 1000, I32)]),
            whole("random.randint.all", |x| vec![key(x).randint([7], -128, 128, I8)]),
            whole("random.permutation", |x| vec![key(x).permutation(20)]),
            whole("random.permutation.rows", |x| vec![key(x).permutation_of(&x[1], 0)]),
            whole("random.choice", |x| vec![key(x).choice(9, [2, 3])]),
            whole("random.choice.without", |x| vec![key(x).choice_without_replacement(9, 4)]),
            whole("random.choice.p", |x| vec![key(x).choice_by(&x[1], [6])]),
            whole("random.choice.p.without", |x| vec![key(x).choice_by_without_replacement(&x[1], 3)]),
            whole("random.categorical", |x| vec![key(x).categorical(&x[1], -1)]),
            whole("random.bernoulli", |x| vec![key(x).bernoulli(&x[1], [3, 4])]),
            whole("random.rademacher", |x| vec![key(x).rademacher([5])]),
            whole("random.gamma.float32", |x| vec![key(x).gamma(&x[1], [2, 4], F32)]),
            whole("random.gamma.float64", |x| vec![key(x).gamma(x[1].to(F64), [2, 4], F64)]),
            whole("random.loggamma.float32", |x| vec![key(x).loggamma(&x[1], [2, 4], F32)]),
            whole("random.loggamma.float64", |x| vec![key(x).loggamma(x[1].to(F64), [2, 4], F64)]),
            whole("random.beta.float32", |x| vec![key(x).beta(&x[1], 1.5, [2, 4], F32)]),
            whole("random.beta.float64", |x| vec![key(x).beta(x[1].to(F64), 1.5, [2, 4], F64)]),
            whole("random.chisquare", |x| vec![key(x).chisquare(&x[1], [4], F32)]),
            whole("random.t", |x| vec![key(x).student_t(&x[1], [4], F32)]),
            whole("random.dirichlet", |x| vec![key(x).dirichlet(&x[1], [2])]),
            whole("random.weibull_min", |x| vec![key(x).weibull_min(2.0, 1.5, [5], F32)]),
            whole("random.lognormal", |x| vec![key(x).lognormal(0.5, [5], F32)]),
            whole("random.pareto", |x| vec![key(x).pareto(2.5, [5], F32)]),
            whole("random.rayleigh", |x| vec![key(x).rayleigh(2.5, [5], F32)]),
            whole("random.geometric", |x| vec![key(x).geometric(0.3, [5])]),
            whole("random.poisson", |x| vec![key(x).poisson(&x[1], [4])]),
            whole("random.binomial", |x| vec![key(x).binomial(&x[1], &x[2], [4], F32)]),
            whole("random.multivariate_normal", |x| vec![key(x).multivariate_normal(&x[1], &x[2], [3])]),
        ];
    };
}

floats! { "float16" F16 4e-3, "bfloat16" BF16 3e-2, "float32" F32 2e-5, "float64" F64 1e-9 }
