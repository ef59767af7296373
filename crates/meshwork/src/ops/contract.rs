//! Matrix products and Einstein sums.

use std::borrow::Cow;

use meshwork_ir::Dims;
use meshwork_ir::attr::DotDims;
use smallvec::SmallVec;

use super::broadcast::{common_shape, same_dtype};
use crate::Tensor;
use crate::error::fail;
use crate::tensor::dims;
use crate::trace::emit;

impl Tensor {
    /// The product of matrices, by NumPy's rules: leading dimensions are batches and broadcast; a vector on the left
    /// is a row, on the right a column, and the dimension it stands for goes away.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let f = jit(|a: Tensor, b: Tensor| a.matmul(&b));
    /// let a = Array::from_vec([2, 2], vec![1.0f32, 2.0, 3.0, 4.0])?;
    /// assert_eq!(f.call((&a, &Array::from([1.0f32, 10.0])))?.to_vec::<f32>()?, [21.0, 43.0]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: impl AsRef<Tensor>) -> Tensor {
        let other = other.as_ref();
        let (a, b) = (self.shape(), other.shape());
        same_dtype("matmul", self, other);
        if a.is_empty() || b.is_empty() {
            fail("matmul", format!("{a:?} x {b:?}: a scalar is no matrix; multiply with *"));
        }
        let (inner_a, inner_b) = (a.len() - 1, b.len().saturating_sub(2));
        if a[inner_a] != b[inner_b] {
            fail(
                "matmul",
                format!(
                    "{a:?} x {b:?}: the last extent of the left ({}) has to equal the {} extent of the right ({})",
                    a[inner_a],
                    if b.len() == 1 { "only" } else { "last but one" },
                    b[inner_b]
                ),
            );
        }
        let batch_a = &a[..a.len().saturating_sub(2)];
        let batch_b = &b[..b.len().saturating_sub(2)];
        if batch_b.is_empty() {
            // The batches of the left are further rows.
            let over = [[inner_a as i64], [inner_b as i64]];
            return emit("matmul", &[self, other], |b, v| b.dot_over(v[0], v[1], [&[], &[]], [&over[0], &over[1]]));
        }
        let batch = common_shape("matmul", batch_a, batch_b);
        let whole = |own: &[i64]| dims(batch.iter().chain(own).copied());
        let x = self.broadcast_to(whole(&a[a.len().saturating_sub(2)..]));
        let y = other.broadcast_to(whole(&b[b.len() - 2..]));
        let n = batch.len() as i64;
        let (batch, over) = (dims(0..n), [[x.rank() as i64 - 1], [n]]);
        emit("matmul", &[&x, &y], |b, v| b.dot_over(v[0], v[1], [&batch, &batch], [&over[0], &over[1]]))
    }

    /// The product over given pairs of dimensions; see StableHLO's `dot_general`.
    #[track_caller]
    pub fn dot_general(&self, other: &Tensor, dims: DotDims) -> Tensor {
        same_dtype("dot_general", self, other);
        emit("dot_general", &[self, other], |b, v| b.dot_general(v[0], v[1], dims))
    }
}

impl AsRef<Tensor> for Tensor {
    fn as_ref(&self) -> &Tensor {
        self
    }
}

/// The letters of some dimensions.
type Labels = SmallVec<[u8; 8]>;

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

/// A tensor and the letter of each of its dimensions.
struct Labelled {
    tensor: Tensor,
    labels: Labels,
}

/// An Einstein sum: `einsum("bij,bjk->bik", &[&a, &b])`.
///
/// Each letter names a dimension; letters that are missing after `->` are summed over. Without `->` the result has
/// the letters that appear once, in alphabetical order. Factors are multiplied from left to right.
#[track_caller]
pub fn einsum(formula: &str, factors: &[&Tensor]) -> Tensor {
    let text: Cow<'_, [u8]> = match formula.bytes().any(|c| c <= b' ' || !c.is_ascii()) {
        true => formula.split_whitespace().collect::<String>().into_bytes().into(),
        false => formula.as_bytes().into(),
    };
    let arrow = text.windows(2).position(|pair| pair == b"->");
    let (left, right) = arrow.map_or((&text[..], None), |at| (&text[..at], Some(&text[at + 2..])));
    let count = left.iter().filter(|&&c| c == b',').count() + 1;
    if count != factors.len() {
        fail("einsum", format!("\"{formula}\" has {count} terms for {} tensors", factors.len()));
    }
    let terms = || left.split(|&c| c == b',').zip(factors.iter().copied());
    let known = check_terms(formula, terms());
    let once = |c: &u8| left.iter().filter(|&d| d == c).count() == 1;
    let result: Labels = match right {
        Some(right) => Labels::from_slice(right),
        None => (b'A'..=b'z').filter(|c| c.is_ascii_alphabetic() && once(c)).collect(),
    };
    let mut kept = Letters::default();
    for &c in &result {
        if !(c.is_ascii_alphabetic() && known.has(c)) || kept.has(c) {
            let c = char::from(c);
            fail(
                "einsum",
                format!("'{c}' of the result of \"{formula}\" has to stand in a term, and once in the result"),
            );
        }
        kept = kept.with(c);
    }
    let labelled = |(term, tensor): (&[u8], &Tensor)| Labelled { tensor: tensor.clone(), labels: term.into() };
    let mut rest = terms();
    // There is a term for each tensor, and splitting a text gives at least one term.
    let Some(mut product) = rest.next().map(labelled) else { fail("einsum", "no tensors given") };
    while let Some(next) = rest.next().map(labelled) {
        let needed = rest.clone().fold(kept, |set, (term, _)| set.or(Letters::of(term)));
        product = contract(sum_out(product, needed.or(Letters::of(&next.labels))), next, needed);
    }
    let product = sum_out(product, kept);
    let order = result.iter().filter_map(|c| product.labels.iter().position(|d| d == c));
    product.tensor.permute(&dims(order.map(|i| i as i64)))
}

/// Checks that each term fits its tensor, and that each letter has one extent. Returns all letters.
#[track_caller]
fn check_terms<'t>(formula: &str, terms: impl Iterator<Item = (&'t [u8], &'t Tensor)>) -> Letters {
    let (mut known, mut extents) = (Letters::default(), [0; 64]);
    for (term, x) in terms {
        if !term.iter().all(u8::is_ascii_alphabetic) {
            let text = String::from_utf8_lossy(term);
            let odd = text.chars().find(|c| !c.is_ascii_alphabetic()).unwrap_or_default();
            fail("einsum", format!("'{odd}' in \"{formula}\" is not a letter"));
        }
        if term.len() != x.rank() {
            let (text, letters) = (String::from_utf8_lossy(term), term.len());
            fail("einsum", format!("\"{text}\" in \"{formula}\" has {letters} letters for a {}", x.describe()));
        }
        let mut own = Letters::default();
        for (&c, &n) in term.iter().zip(x.shape()) {
            let (letter, extent) = (char::from(c), &mut extents[usize::from(c - b'A')]);
            if own.has(c) {
                fail(
                    "einsum",
                    format!("'{letter}' stands twice in one term of \"{formula}\"; take the diagonal first"),
                );
            }
            if known.has(c) && *extent != n {
                fail("einsum", format!("'{letter}' in \"{formula}\" has extent {extent} and extent {n}"));
            }
            *extent = n;
            own = own.with(c);
        }
        known = known.or(own);
    }
    known
}

/// Sums over the dimensions that nothing needs.
#[track_caller]
fn sum_out(x: Labelled, needed: Letters) -> Labelled {
    if x.labels.iter().all(|&c| needed.has(c)) {
        return x;
    }
    let axes = dims((0..x.labels.len()).filter(|&i| !needed.has(x.labels[i])).map(|i| i as i64));
    Labelled { tensor: x.tensor.sum(&axes), labels: x.labels.into_iter().filter(|&c| needed.has(c)).collect() }
}

#[track_caller]
fn contract(a: Labelled, b: Labelled, needed: Letters) -> Labelled {
    let of_a = Letters::of(&a.labels);
    let b = sum_out(b, needed.or(of_a));
    let of_b = Letters::of(&b.labels);
    same_dtype("einsum", &a.tensor, &b.tensor);
    let (mut batch, mut over, mut labels) = ([Dims::new(), Dims::new()], [Dims::new(), Dims::new()], Labels::new());
    for (i, &c) in a.labels.iter().enumerate().filter(|(_, c)| of_b.has(**c)) {
        let Some(j) = b.labels.iter().position(|&d| d == c) else { continue };
        if needed.has(c) {
            batch[0].push(i as i64);
            batch[1].push(j as i64);
            labels.push(c);
        } else {
            over[0].push(i as i64);
            over[1].push(j as i64);
        }
    }
    a.labels.iter().filter(|c| !of_b.has(**c)).for_each(|&c| labels.push(c));
    b.labels.iter().filter(|c| !of_a.has(**c)).for_each(|&c| labels.push(c));
    let tensor = emit("einsum", &[&a.tensor, &b.tensor], |b, v| {
        b.dot_over(v[0], v[1], [&batch[0], &batch[1]], [&over[0], &over[1]])
    });
    Labelled { tensor, labels }
}
