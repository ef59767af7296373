//! Einstein sums: a formula and types become a plan, and a plan becomes operations.

use std::borrow::Cow;

use meshwork_ir::{Dims, ValueId};
use smallvec::SmallVec;

use super::broadcast::same_dtype;
use super::reduce::Combine;
use crate::Tensor;
use crate::error::fail;
use crate::tensor::dims;
use crate::trace::compose::{Composer, compose_list};

/// An Einstein sum: `einsum("bij,bjk->bik", &[&a, &b])`.
///
/// Each letter names a dimension; letters that are missing after `->` are summed over. Without `->` the result has
/// the letters that appear once, in alphabetical order. Factors are multiplied from left to right.
#[track_caller]
pub fn einsum(formula: &str, factors: &[&Tensor]) -> Tensor {
    let plan = match Plan::new(formula, factors) {
        Ok(plan) => plan,
        Err(message) => fail("einsum", message),
    };
    for pair in factors.windows(2) {
        same_dtype("einsum", pair[0], pair[1]);
    }
    if plan.has_sums() {
        // All factors are of one type.
        Combine::Sum.check("einsum", factors[0]);
    }
    compose_list("einsum", factors, |s, values| plan.run(s, values))
}

/// The operations of an Einstein sum.
#[derive(Debug, PartialEq)]
struct Plan {
    /// How each factor but the first joins the product of those before it.
    pairs: SmallVec<[Pair; 1]>,
    /// What is summed over at the end.
    sum: Dims,
    /// The order of the dimensions that are left, if it is another.
    order: Option<Dims>,
}

/// The product of two tensors.
#[derive(Debug, Default, PartialEq)]
struct Pair {
    /// What is summed over before, in each of them.
    sums: [Dims; 2],
    batch: [Dims; 2],
    over: [Dims; 2],
}

impl Plan {
    fn new(formula: &str, factors: &[&Tensor]) -> Result<Plan, String> {
        let text = if formula.contains(|c: char| c.is_ascii_whitespace()) {
            Cow::Owned(formula.bytes().filter(|c| !c.is_ascii_whitespace()).collect())
        } else {
            Cow::Borrowed(formula.as_bytes())
        };
        let (left, right) = match text.windows(2).position(|pair| pair == b"->") {
            Some(at) => (&text[..at], Some(&text[at + 2..])),
            None => (&text[..], None),
        };
        let terms: SmallVec<[&[u8]; 4]> = left.split(|&c| c == b',').collect();
        if terms.len() != factors.len() {
            return Err(format!("\"{formula}\" has {} terms for {} tensors", terms.len(), factors.len()));
        }
        let known = check_terms(formula, &terms, factors)?;
        let result = match right {
            Some(right) => Labels::from_slice(right),
            None => {
                let once = |c: &u8| left.iter().filter(|d| *d == c).count() == 1;
                (b'A'..=b'z').filter(|c| c.is_ascii_alphabetic() && once(c)).collect()
            }
        };
        let mut kept = Letters::default();
        for &c in &result {
            if !(c.is_ascii_alphabetic() && known.has(c)) || kept.has(c) {
                let right = String::from_utf8_lossy(right.unwrap_or_default());
                let c = right.chars().find(|c| !c.is_ascii()).unwrap_or(char::from(c));
                return Err(format!(
                    "'{c}' of the result of \"{formula}\" must appear in a term, and only once in the result"
                ));
            }
            kept = kept.with(c);
        }
        let mut product = Labels::from_slice(terms[0]);
        let mut pairs = SmallVec::new();
        for (i, term) in terms.iter().enumerate().skip(1) {
            let needed = terms[i + 1..].iter().fold(kept, |set, term| set.or(Letters::of(term)));
            let (pair, labels) = contract(product, Labels::from_slice(term), needed);
            pairs.push(pair);
            product = labels;
        }
        let sum = sum_out(&mut product, kept);
        let order = dims(result.iter().filter_map(|c| position(&product, *c)));
        let order = (!order.iter().copied().eq(0..order.len() as i64)).then_some(order);
        Ok(Plan { pairs, sum, order })
    }

    fn has_sums(&self) -> bool {
        !self.sum.is_empty() || self.pairs.iter().any(|p| p.sums.iter().any(|dims| !dims.is_empty()))
    }

    /// Adds the operations. There is a value for each factor, and at least one factor.
    fn run(&self, s: &mut Composer<'_>, values: &[ValueId]) -> ValueId {
        let sum =
            |s: &mut Composer<'_>, x, dims: &Dims| if dims.is_empty() { x } else { s.reduce(Combine::Sum, x, dims) };
        let mut product = values[0];
        for (pair, &next) in self.pairs.iter().zip(&values[1..]) {
            let (a, b) = (sum(s, product, &pair.sums[0]), sum(s, next, &pair.sums[1]));
            let ([batch_a, batch_b], [over_a, over_b]) = (&pair.batch, &pair.over);
            product = s.build(|builder| builder.dot_over(a, b, [batch_a, batch_b], [over_a, over_b]));
        }
        product = sum(s, product, &self.sum);
        match &self.order {
            Some(order) => s.build(|b| b.transpose(product, order)),
            None => product,
        }
    }
}

/// The letters of some dimensions.
type Labels = SmallVec<[u8; 8]>;

fn position(labels: &[u8], letter: u8) -> Option<i64> {
    labels.iter().position(|&c| c == letter).map(|i| i as i64)
}

/// A set of letters.
#[derive(Clone, Copy, Default)]
struct Letters(u64);

impl Letters {
    fn of(labels: &[u8]) -> Letters {
        labels.iter().fold(Letters::default(), |set, &c| set.with(c))
    }

    fn with(self, letter: u8) -> Letters {
        Letters(self.0 | 1 << (letter.wrapping_sub(b'A') & 63))
    }

    fn or(self, other: Letters) -> Letters {
        Letters(self.0 | other.0)
    }

    fn has(self, letter: u8) -> bool {
        self.0 >> (letter.wrapping_sub(b'A') & 63) & 1 == 1
    }
}

/// Checks that each term fits its tensor, and that each letter has one extent. Returns all letters.
fn check_terms(formula: &str, terms: &[&[u8]], factors: &[&Tensor]) -> Result<Letters, String> {
    let (mut known, mut extents) = (Letters::default(), [0; 64]);
    for (term, x) in terms.iter().zip(factors) {
        let text = || String::from_utf8_lossy(term);
        if !term.iter().all(u8::is_ascii_alphabetic) {
            let odd = text().chars().find(|c| !c.is_ascii_alphabetic()).unwrap_or_default();
            return Err(format!("'{odd}' in \"{formula}\" is not a letter"));
        }
        if term.len() != x.rank() {
            let text = text();
            return Err(format!("\"{text}\" in \"{formula}\" has {} letters for {}", term.len(), x.describe()));
        }
        let mut own = Letters::default();
        for (&c, &n) in term.iter().zip(x.shape()) {
            let (letter, extent) = (char::from(c), &mut extents[usize::from(c - b'A')]);
            if own.has(c) {
                return Err(format!("'{letter}' appears twice in one term of \"{formula}\"; take the diagonal first"));
            }
            if known.has(c) && *extent != n {
                return Err(format!("'{letter}' in \"{formula}\" has extent {extent} and extent {n}"));
            }
            *extent = n;
            own = own.with(c);
        }
        known = known.or(own);
    }
    Ok(known)
}

/// Takes out the letters that nothing needs, and returns their dimensions.
fn sum_out(labels: &mut Labels, needed: Letters) -> Dims {
    let gone = dims((0..labels.len()).filter(|&i| !needed.has(labels[i])).map(|i| i as i64));
    labels.retain(|c| needed.has(*c));
    gone
}

/// How two tensors are multiplied, and the letters of the product: common ones that are needed later, then the others of
/// both.
fn contract(mut a: Labels, mut b: Labels, needed: Letters) -> (Pair, Labels) {
    let sums = [sum_out(&mut a, needed.or(Letters::of(&b))), sum_out(&mut b, needed.or(Letters::of(&a)))];
    let (of_a, of_b) = (Letters::of(&a), Letters::of(&b));
    let (mut pair, mut labels) = (Pair { sums, ..Pair::default() }, Labels::new());
    for (i, &c) in a.iter().enumerate() {
        let Some(j) = position(&b, c) else { continue };
        let dims = if needed.has(c) { &mut pair.batch } else { &mut pair.over };
        dims[0].push(i as i64);
        dims[1].push(j);
        if needed.has(c) {
            labels.push(c);
        }
    }
    labels.extend(a.into_iter().filter(|c| !of_b.has(*c)));
    labels.extend(b.into_iter().filter(|c| !of_a.has(*c)));
    (pair, labels)
}
