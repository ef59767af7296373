//! Matrix products and Einstein sums.

use std::borrow::Cow;
use std::collections::VecDeque;

use meshwork_ir::attr::DotDims;

use super::broadcast::{common_shape, same_dtype};
use crate::Tensor;
use crate::error::fail;
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
            let dims = DotDims {
                lhs_contract: vec![inner_a as i64],
                rhs_contract: vec![inner_b as i64],
                ..DotDims::default()
            };
            return emit("matmul", &[self, other], |b, v| b.dot_general(v[0], v[1], dims));
        }
        let batch = common_shape("matmul", batch_a, batch_b);
        let x = self.broadcast_to([&batch[..], &a[a.len().saturating_sub(2)..]].concat());
        let y = other.broadcast_to([&batch[..], &b[b.len() - 2..]].concat());
        let n = batch.len() as i64;
        let dims = DotDims {
            lhs_batch: (0..n).collect(),
            rhs_batch: (0..n).collect(),
            lhs_contract: vec![x.rank() as i64 - 1],
            rhs_contract: vec![n],
        };
        emit("matmul", &[&x, &y], |b, v| b.dot_general(v[0], v[1], dims))
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

/// A tensor and the letter of each of its dimensions.
struct Labelled {
    tensor: Tensor,
    labels: Vec<u8>,
}

/// An Einstein sum: `einsum("bij,bjk->bik", &[&a, &b])`.
///
/// Each letter names a dimension; letters that are missing after `->` are summed over. Without `->` the result has
/// the letters that appear once, in alphabetical order. Factors are multiplied from left to right.
#[track_caller]
pub fn einsum(formula: &str, factors: &[&Tensor]) -> Tensor {
    let text: Cow<'_, str> = match formula.contains(char::is_whitespace) {
        true => formula.split_whitespace().collect::<String>().into(),
        false => formula.into(),
    };
    let (left, right) = text.split_once("->").map_or((&*text, None), |(left, right)| (left, Some(right)));
    let count = left.bytes().filter(|&c| c == b',').count() + 1;
    if count != factors.len() {
        fail("einsum", format!("\"{formula}\" has {count} terms for {} tensors", factors.len()));
    }
    check_terms(formula, left, factors);
    let once = |c: &u8| left.bytes().filter(|d| d == c).count() == 1;
    let result: Vec<u8> = match right {
        Some(right) => right.bytes().collect(),
        None => (b'A'..=b'z').filter(|c| c.is_ascii_alphabetic() && once(c)).collect(),
    };
    for (i, c) in result.iter().enumerate() {
        if !(c.is_ascii_alphabetic() && left.as_bytes().contains(c)) || result[..i].contains(c) {
            let c = char::from(*c);
            fail(
                "einsum",
                format!("'{c}' of the result of \"{formula}\" has to stand in a term, and once in the result"),
            );
        }
    }
    let labelled = |(term, tensor): (&str, &&Tensor)| Labelled { tensor: (*tensor).clone(), labels: term.into() };
    let mut rest = left.split(',').zip(factors).map(labelled);
    // There is a term for each tensor, and splitting a text gives at least one term.
    let Some(mut product) = rest.next() else { fail("einsum", "no tensors given") };
    let mut rest: VecDeque<Labelled> = rest.collect();
    while let Some(next) = rest.pop_front() {
        let needed = |c: &u8| result.contains(c) || rest.iter().any(|l| l.labels.contains(c));
        product = contract(sum_out(product, |c| needed(c) || next.labels.contains(c)), next, &needed);
    }
    let product = sum_out(product, |c| result.contains(c));
    let order: Vec<i64> =
        result.iter().filter_map(|c| product.labels.iter().position(|d| d == c)).map(|i| i as i64).collect();
    product.tensor.permute(&order)
}

/// Checks that each term fits its tensor, and that each letter has one extent.
#[track_caller]
fn check_terms(formula: &str, left: &str, factors: &[&Tensor]) {
    let mut extents = [None; 128];
    for (term, x) in left.split(',').zip(factors) {
        if let Some(c) = term.chars().find(|c| !c.is_ascii_alphabetic()) {
            fail("einsum", format!("'{c}' in \"{formula}\" is not a letter"));
        }
        if term.len() != x.rank() {
            fail("einsum", format!("\"{term}\" in \"{formula}\" has {} letters for a {}", term.len(), x.describe()));
        }
        for (i, (c, &n)) in term.bytes().zip(x.shape()).enumerate() {
            let letter = char::from(c);
            if term.as_bytes()[..i].contains(&c) {
                fail(
                    "einsum",
                    format!("'{letter}' stands twice in one term of \"{formula}\"; take the diagonal first"),
                );
            }
            match extents[usize::from(c)].replace(n) {
                Some(m) if m != n => {
                    fail("einsum", format!("'{letter}' in \"{formula}\" has extent {m} and extent {n}"))
                }
                _ => {}
            }
        }
    }
}

/// Sums over the dimensions that nothing needs.
#[track_caller]
fn sum_out(x: Labelled, needed: impl Fn(&u8) -> bool) -> Labelled {
    if x.labels.iter().all(&needed) {
        return x;
    }
    let axes: Vec<i64> = (0..x.labels.len()).filter(|&i| !needed(&x.labels[i])).map(|i| i as i64).collect();
    Labelled { tensor: x.tensor.sum(&axes), labels: x.labels.into_iter().filter(|c| needed(c)).collect() }
}

#[track_caller]
fn contract(a: Labelled, b: Labelled, needed: &dyn Fn(&u8) -> bool) -> Labelled {
    let b = sum_out(b, |c| needed(c) || a.labels.contains(c));
    same_dtype("einsum", &a.tensor, &b.tensor);
    let mut dims = DotDims::default();
    let mut labels = Vec::with_capacity(a.labels.len() + b.labels.len());
    for (i, c) in a.labels.iter().enumerate() {
        let Some(j) = b.labels.iter().position(|d| d == c) else { continue };
        if needed(c) {
            dims.lhs_batch.push(i as i64);
            dims.rhs_batch.push(j as i64);
            labels.push(*c);
        } else {
            dims.lhs_contract.push(i as i64);
            dims.rhs_contract.push(j as i64);
        }
    }
    labels.extend(a.labels.iter().filter(|c| !b.labels.contains(c)));
    labels.extend(b.labels.iter().filter(|c| !a.labels.contains(c)));
    Labelled { tensor: a.tensor.dot_general(&b.tensor, dims), labels }
}
