//! Transforms for some of the parameters, chosen by their paths.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Params, Transform};
use crate::Tensor;

/// `inner` for the parameters whose path `chosen` accepts; other gradients pass.
pub fn masked(inner: Transform, chosen: impl Fn(&str) -> bool + Send + Sync + 'static) -> Transform {
    only("masked", inner, chosen)
}

fn only(name: &'static str, inner: Transform, chosen: impl Fn(&str) -> bool + Send + Sync + 'static) -> Transform {
    let chosen = Arc::new(chosen);
    let places = move |params: &Params| -> Vec<usize> { (0..params.len()).filter(|&i| chosen(&params[i].0)).collect() };
    let pick =
        |params: &Params, at: &[usize]| -> Vec<(String, Tensor)> { at.iter().map(|&i| params[i].clone()).collect() };
    let (slots, init, update) = (inner.clone(), inner.clone(), inner);
    let (first, second, third) = (places.clone(), places.clone(), places);
    Transform::new(
        name,
        move |params| (slots.slots)(&pick(params, &first(params))),
        move |params| (init.init)(&pick(params, &second(params))),
        move |mut updates, state, params| {
            let at = third(params);
            let own: Vec<Tensor> = at.iter().map(|&i| updates[i].clone()).collect();
            let (own, kept) = (update.update)(own, state, &pick(params, &at));
            for (&i, update) in at.iter().zip(own) {
                updates[i] = update;
            }
            (updates, kept)
        },
    )
}

/// A transform for each label; `label` gives the one of a parameter by its path. What no transform is for stays.
pub fn partition(
    transforms: impl IntoIterator<Item = (&'static str, Transform)>,
    label: impl Fn(&str) -> &'static str + Send + Sync + 'static,
) -> Transform {
    let label = Arc::new(label);
    let named: BTreeMap<&'static str, Transform> = transforms.into_iter().collect();
    let known: Vec<&'static str> = named.keys().copied().collect();
    let mut parts = vec![];
    for (name, inner) in named {
        let label = label.clone();
        parts.push(only("partition", inner, move |path| label(path) == name));
    }
    parts.push(only("partition", super::set_to_zero(), move |path| !known.contains(&label(path))));
    super::chain(parts)
}
