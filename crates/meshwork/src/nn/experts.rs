//! Mixture of experts: each token goes to a few of many networks, which are split over a mesh axis.
//!
//! Tokens come in groups `[groups, tokens, features]`, the groups split over the axis. Each group picks for each of its
//! tokens the most probable experts, up to a capacity per expert. What goes to an expert is brought to its device by an
//! all-to-all, and back by another.

use crate::ElementType::F32;
use crate::error::fail;
use crate::ops::einsum;
use crate::spec::P;
use crate::trace::{Placing, placing};
use crate::transform::vmap;
use crate::tree::leaves;
use crate::{Tensor, Tree};

/// How tokens are given to experts.
#[derive(Clone, PartialEq, Debug)]
pub struct Routing {
    /// The mesh axis of the experts, which also splits the groups of tokens.
    pub axis: String,
    /// How many experts each token goes to.
    pub top: usize,
    /// Room per expert, as a multiple of its share if tokens were spread evenly. Tokens beyond it are dropped: they
    /// come out as 0.
    pub capacity: f64,
}

impl Routing {
    /// The two most probable experts, with room for twice the even share.
    pub fn new(axis: &str) -> Routing {
        Routing { axis: axis.to_string(), top: 2, capacity: 2.0 }
    }

    /// Places in each expert for the tokens of one group.
    pub fn places(&self, tokens: i64, experts: i64) -> i64 {
        ((tokens as f64 * self.top as f64 * self.capacity / experts.max(1) as f64).ceil() as i64).max(1)
    }
}

/// What a mixture returns.
#[derive(Clone, Debug, Tree)]
pub struct Mixture<T = Tensor> {
    /// The weighted sum of what each token's experts made of it, shaped like the tokens.
    pub output: T,
    /// Small if all experts get the same number of tokens: to be added to the loss, with a small factor.
    pub balance: T,
    /// The share of choices that found no place.
    pub dropped: T,
}

/// Sends `tokens` of `[groups, tokens, features]` to experts by `router` of `[features, experts]`. `params` has one
/// slice per expert along the first dimension of each of its tensors; `expert` makes of one slice and `[places,
/// features]` another tensor of that shape.
///
/// ```
/// use meshwork::experts::{Routing, mixture};
/// use meshwork::prelude::*;
///
/// let f = |x: Tensor, router: Tensor, w: Tensor| {
///     mixture(&Routing::new("expert"), &x, &router, &w, |w, x| x.matmul(&w).relu()).output
/// };
/// let wave = |n: i64| move |i: &[i64]| (i.iter().fold(n, |s, i| 3 * s + i) as f32).sin();
/// let x = Array::from_fn([4, 8, 6], wave(1));
/// let (router, w) = (Array::from_fn([6, 4], wave(2)), Array::from_fn([4, 6, 6], wave(3)));
/// let mesh = Mesh::linear("expert", 4)?;
/// let split = jit(f).on(&mesh).in_shardings([P!["expert"], P![], P!["expert"]]).out_shardings([P!["expert"]]);
/// assert_eq!(split.plan((&x, &router, &w))?.totals()["all-to-all"].count, 2);
/// assert!(split.call((&x, &router, &w))?.all_close(&jit(f).single_device().call((&x, &router, &w))?, 1e-5));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn mixture<A: Tree>(
    routing: &Routing,
    tokens: &Tensor,
    router: &Tensor,
    params: &A,
    expert: impl FnOnce(A, Tensor) -> Tensor,
) -> Mixture {
    let (&[groups, length, features], &[inner, experts]) = (tokens.shape(), router.shape()) else {
        let (t, r) = (tokens.shape(), router.shape());
        fail(
            "mixture",
            format!("tokens {t:?} and router {r:?}; they are [groups, tokens, features] and [features, experts]"),
        )
    };
    if inner != features || leaves(params).iter().any(|p| p.shape().first() != Some(&experts)) {
        let shapes: Vec<Vec<i64>> = leaves(params).iter().map(|p| p.shape().to_vec()).collect();
        let router = router.shape();
        fail("mixture", format!("{features} features, a router of {router:?} and parameters of {shapes:?} do not fit"));
    }
    if routing.top < 1 || routing.top as i64 > experts {
        fail("mixture", format!("the {} most probable of {experts} experts", routing.top));
    }
    let places = routing.places(length, experts);
    let probable = tokens.to(F32).matmul(router.to(F32)).softmax(-1);
    let (combine, taken, first) = assign(&probable, routing.top, places);
    let dispatch = combine.gt(0.0).to(tokens.dtype());
    let sent = einsum("gsec,gsd->egcd", &[&dispatch, tokens]);
    let sent = over(routing, 0, &over(routing, 1, &sent)).reshape([experts, groups * places, features]);
    let work = |(p, x): (A, Tensor)| expert(p, x);
    let done = vmap(work, (params.map(&mut Tensor::clone), over(routing, 0, &sent)));
    if done.shape() != [experts, groups * places, features] {
        fail("mixture", format!("an expert makes {:?} of [{}, {features}]", &done.shape()[1..], groups * places));
    }
    let back = over(routing, 1, &over(routing, 0, &done.reshape([experts, groups, places, features])));
    let output = einsum("gsec,egcd->gsd", &[&combine.to(tokens.dtype()), &back]);
    let share = first.mean(&[0, 1]) * probable.mean(&[0, 1]);
    let all = (groups * length * routing.top as i64) as f64;
    Mixture { output, balance: share.sum_all() * experts as f64, dropped: 1.0 - taken / all }
}

/// The weight of each token in each place `[groups, tokens, experts, places]`, how many choices found a place, and the
/// first choice of each token.
fn assign(probable: &Tensor, top: usize, places: i64) -> (Tensor, Tensor, Tensor) {
    let experts = probable.dim(-1);
    let mut left = probable.clone();
    let mut used = probable.slice(crate::s![.., 0..1, ..]).zeros_like();
    let (mut combine, mut taken, mut first): (Option<Tensor>, Option<Tensor>, Option<Tensor>) = (None, None, None);
    for _ in 0..top {
        let choice = left.argmax(-1).one_hot(experts, F32).stop_gradient();
        // The place of a token: how many before it chose the same expert.
        let place = ((choice.cumsum(1) - 1.0 + &used) * &choice).stop_gradient();
        let fits = &choice * place.lt(places).to(F32);
        let at = place.sum(&[2]).to(crate::ElementType::I32).one_hot(places, F32);
        let weight = (probable * &fits).expand_dims(3) * at.expand_dims(2);
        taken = Some(taken.map_or(fits.sum_all(), |t| t + fits.sum_all()));
        combine = Some(combine.map_or(weight.clone(), |c| c + weight));
        used += choice.sum(&[1]).expand_dims(1);
        left *= 1.0 - &choice;
        first.get_or_insert(choice);
    }
    // The loop runs at least once: `mixture` asks for at least one choice.
    let (Some(combine), Some(taken), Some(first)) = (combine, taken, first) else {
        unreachable!("one choice at least")
    };
    (combine, taken, first)
}

/// One dimension over the axis of the experts, the others whole.
fn over(routing: &Routing, dim: usize, x: &Tensor) -> Tensor {
    match placing("mixture") {
        Placing::On(_) => x.shard(P::replicated().with_axis(dim, &routing.axis)),
        Placing::Ignored(_) | Placing::NoMesh => x.clone(),
    }
}
