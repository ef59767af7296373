//! Einstein sums: products over common letters, sums over letters that go, and a transpose.

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
    // All white space is below the letters.
    let text = if formula.bytes().any(|c| c <= b' ') {
        Cow::Owned(formula.bytes().filter(|c| !c.is_ascii_whitespace()).collect())
    } else {
        Cow::Borrowed(formula.as_bytes())
    };
    let sum = match Sum::new(formula, &text, factors) {
        Ok(sum) => sum,
        Err(message) => fail("einsum", message),
    };
    for pair in factors.windows(2) {
        same_dtype("einsum", pair[0], pair[1]);
    }
    if sum.has_sums {
        // All factors are of one type.
        Combine::Sum.check("einsum", factors[0]);
    }
    compose_list("einsum", factors, |s, values| sum.run(s, values))
}

/// A formula that fits its factors.
struct Sum<'f> {
    /// The letters of each factor.
    terms: Terms<'f>,
    result: Cow<'f, [u8]>,
    /// Whether a letter of one term alone goes.
    has_sums: bool,
}

impl<'f> Sum<'f> {
    fn new(formula: &str, text: &'f [u8], factors: &[&Tensor]) -> Result<Sum<'f>, String> {
        let (left, right) = match text.windows(2).position(|pair| pair == b"->") {
            Some(at) => (&text[..at], Some(&text[at + 2..])),
            None => (text, None),
        };
        let terms: Terms = left.split(|&c| c == b',').collect();
        if terms.len() != factors.len() {
            return Err(format!("\"{formula}\" has {} terms for {} tensors", terms.len(), factors.len()));
        }
        let (known, shared) = check_terms(formula, &terms, factors)?;
        let result = match right {
            Some(right) => Cow::Borrowed(right),
            None => {
                let once = |c: &u8| left.iter().filter(|d| *d == c).count() == 1;
                (b'A'..=b'z').filter(|c| c.is_ascii_alphabetic() && once(c)).collect()
            }
        };
        let mut kept = Letters::default();
        for &c in &*result {
            if !(c.is_ascii_alphabetic() && known.has(c)) || kept.has(c) {
                let right = String::from_utf8_lossy(right.unwrap_or_default());
                let c = right.chars().find(|c| !c.is_ascii()).unwrap_or(char::from(c));
                return Err(format!(
                    "'{c}' of the result of \"{formula}\" must appear in a term, and only once in the result"
                ));
            }
            kept = kept.with(c);
        }
        Ok(Sum { terms, result, has_sums: known.0 & !shared.0 & !kept.0 != 0 })
    }

    /// Adds the operations. There is a value for each factor, and at least one factor.
    fn run(&self, s: &mut Composer<'_>, values: &[ValueId]) -> ValueId {
        let kept = Letters::of(&self.result);
        let (mut product, mut labels) = (values[0], Labels::from_slice(self.terms[0]));
        for (i, (term, &value)) in self.terms.iter().zip(values).enumerate().skip(1) {
            let needed = self.terms[i + 1..].iter().fold(kept, |set, term| set.or(Letters::of(term)));
            product = contract(s, (product, &mut labels), (value, term), needed);
        }
        product = sum_out(s, product, &mut labels, kept);
        if labels[..] == *self.result {
            return product;
        }
        let order = dims(self.result.iter().filter_map(|&c| position(&labels, c)));
        s.build(|b| b.transpose(product, &order))
    }
}

/// The letters of some dimensions.
type Labels = SmallVec<[u8; 8]>;

/// The letters of each factor; most formulas have two.
type Terms<'f> = SmallVec<[&'f [u8]; 2]>;

fn position(labels: &[u8], letter: u8) -> Option<i64> {
    labels.iter().position(|&c| c == letter).map(|i| i as i64)
}

/// A set of letters, each the bit that its lowest six bits say.
#[derive(Clone, Copy, Default)]
struct Letters(u64);

impl Letters {
    fn of(labels: &[u8]) -> Letters {
        labels.iter().fold(Letters::default(), |set, &c| set.with(c))
    }

    fn with(self, letter: u8) -> Letters {
        Letters(self.0 | 1 << (letter & 63))
    }

    fn or(self, other: Letters) -> Letters {
        Letters(self.0 | other.0)
    }

    fn and(self, other: Letters) -> Letters {
        Letters(self.0 & other.0)
    }

    fn has(self, letter: u8) -> bool {
        self.0 >> (letter & 63) & 1 == 1
    }
}

/// Checks that each term fits its tensor, and that each letter has one extent. Returns all letters, and those that
/// several terms have.
fn check_terms(formula: &str, terms: &[&[u8]], factors: &[&Tensor]) -> Result<(Letters, Letters), String> {
    let (mut known, mut shared, mut extents) = (Letters::default(), Letters::default(), [0; 64]);
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
            let (letter, extent) = (char::from(c), &mut extents[usize::from(c & 63)]);
            if own.has(c) {
                return Err(format!("'{letter}' appears twice in one term of \"{formula}\"; take the diagonal first"));
            }
            if known.has(c) && *extent != n {
                return Err(format!("'{letter}' in \"{formula}\" has extent {extent} and extent {n}"));
            }
            *extent = n;
            own = own.with(c);
        }
        shared = shared.or(known.and(own));
        known = known.or(own);
    }
    Ok((known, shared))
}

/// `x` without the dimensions whose letters nothing needs.
fn sum_out(s: &mut Composer<'_>, x: ValueId, labels: &mut Labels, needed: Letters) -> ValueId {
    if Letters::of(labels).0 & !needed.0 == 0 {
        return x;
    }
    let gone = dims((0..labels.len()).filter(|&i| !needed.has(labels[i])).map(|i| i as i64));
    labels.retain(|c| needed.has(*c));
    s.reduce(Combine::Sum, x, &gone)
}

/// The product of two tensors. The letters of the first become those of the product: common ones that are needed later,
/// then the others of both.
fn contract(s: &mut Composer<'_>, a: (ValueId, &mut Labels), b: (ValueId, &[u8]), needed: Letters) -> ValueId {
    let ((x, of_x), (y, mut of_y)) = (a, (b.0, Labels::from_slice(b.1)));
    let (in_x, in_y) = (Letters::of(of_x), Letters::of(&of_y));
    let x = sum_out(s, x, of_x, needed.or(in_y));
    let y = sum_out(s, y, &mut of_y, needed.or(in_x));
    let (mut batch, mut over, mut labels) = (<[Dims; 2]>::default(), <[Dims; 2]>::default(), Labels::new());
    for (i, &c) in of_x.iter().enumerate() {
        let Some(j) = position(&of_y, c) else { continue };
        let pair = if needed.has(c) { &mut batch } else { &mut over };
        pair[0].push(i as i64);
        pair[1].push(j);
        if needed.has(c) {
            labels.push(c);
        }
    }
    of_x.iter().filter(|&&c| !in_y.has(c)).for_each(|&c| labels.push(c));
    of_y.iter().filter(|&&c| !in_x.has(c)).for_each(|&c| labels.push(c));
    *of_x = labels;
    let ([batch_x, batch_y], [over_x, over_y]) = (&batch, &over);
    s.build(|b| b.dot_over(x, y, [batch_x, batch_y], [over_x, over_y]))
}
