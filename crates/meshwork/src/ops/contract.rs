//! Matrix products and Einstein sums.

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
    labels: Vec<char>,
}

/// An Einstein sum: `einsum("bij,bjk->bik", &[&a, &b])`.
///
/// Each letter names a dimension; letters that are missing after `->` are summed over. Without `->` the result has
/// the letters that appear once, in alphabetical order. Factors are multiplied from left to right.
#[track_caller]
pub fn einsum(formula: &str, factors: &[&Tensor]) -> Tensor {
    let formula_text: String = formula.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match formula_text.split_once("->") {
        Some((left, right)) => (left, Some(right.chars().collect::<Vec<char>>())),
        None => (formula_text.as_str(), None),
    };
    let terms: Vec<Vec<char>> = left.split(',').map(|t| t.chars().collect()).collect();
    if terms.len() != factors.len() {
        fail("einsum", format!("\"{formula}\" has {} terms for {} tensors", terms.len(), factors.len()));
    }
    let mut extents: Vec<(char, i64)> = vec![];
    for (labels, x) in terms.iter().zip(factors) {
        if labels.len() != x.rank() {
            let term: String = labels.iter().collect();
            fail("einsum", format!("\"{term}\" in \"{formula}\" has {} letters for a {}", labels.len(), x.describe()));
        }
        for (i, (&c, &n)) in labels.iter().zip(x.shape()).enumerate() {
            if !c.is_ascii_alphabetic() {
                fail("einsum", format!("'{c}' in \"{formula}\" is not a letter"));
            }
            if labels[..i].contains(&c) {
                fail("einsum", format!("'{c}' stands twice in one term of \"{formula}\"; take the diagonal first"));
            }
            match extents.iter().find(|(d, _)| *d == c) {
                Some(&(_, m)) if m != n => {
                    fail("einsum", format!("'{c}' in \"{formula}\" has extent {m} and extent {n}"))
                }
                Some(_) => {}
                None => extents.push((c, n)),
            }
        }
    }
    let all: Vec<char> = terms.concat();
    let result = right.unwrap_or_else(|| {
        let mut once: Vec<char> = all.iter().copied().filter(|c| all.iter().filter(|d| *d == c).count() == 1).collect();
        once.sort_unstable();
        once
    });
    for (i, c) in result.iter().enumerate() {
        if !all.contains(c) || result[..i].contains(c) {
            fail(
                "einsum",
                format!("'{c}' of the result of \"{formula}\" has to stand in a term, and once in the result"),
            );
        }
    }
    let mut rest = terms.into_iter().zip(factors).map(|(labels, &tensor)| Labelled { tensor: tensor.clone(), labels });
    // There is a term for each tensor, and splitting a text gives at least one term.
    let Some(mut product) = rest.next() else { fail("einsum", "no tensors given") };
    let mut rest: std::collections::VecDeque<Labelled> = rest.collect();
    while let Some(next) = rest.pop_front() {
        let needed = |c: &char| result.contains(c) || rest.iter().any(|l| l.labels.contains(c));
        product = contract(sum_out(product, |c| needed(c) || next.labels.contains(c)), next, &needed);
    }
    let product = sum_out(product, |c| result.contains(c));
    let order: Vec<i64> =
        result.iter().filter_map(|c| product.labels.iter().position(|d| d == c)).map(|i| i as i64).collect();
    product.tensor.permute(&order)
}

/// Sums over the dimensions that nothing needs.
#[track_caller]
fn sum_out(x: Labelled, needed: impl Fn(&char) -> bool) -> Labelled {
    let axes: Vec<i64> = (0..x.labels.len()).filter(|&i| !needed(&x.labels[i])).map(|i| i as i64).collect();
    let tensor = if axes.is_empty() { x.tensor.clone() } else { x.tensor.sum(&axes) };
    Labelled { tensor, labels: x.labels.into_iter().filter(|c| needed(c)).collect() }
}

#[track_caller]
fn contract(a: Labelled, b: Labelled, needed: &dyn Fn(&char) -> bool) -> Labelled {
    let b = sum_out(b, |c| needed(c) || a.labels.contains(c));
    same_dtype("einsum", &a.tensor, &b.tensor);
    let mut dims = DotDims::default();
    let mut batch = vec![];
    for (i, c) in a.labels.iter().enumerate() {
        let Some(j) = b.labels.iter().position(|d| d == c) else { continue };
        if needed(c) {
            dims.lhs_batch.push(i as i64);
            dims.rhs_batch.push(j as i64);
            batch.push(*c);
        } else {
            dims.lhs_contract.push(i as i64);
            dims.rhs_contract.push(j as i64);
        }
    }
    let free = |x: &[char], y: &[char]| x.iter().copied().filter(|c| !y.contains(c)).collect::<Vec<char>>();
    let labels = [batch, free(&a.labels, &b.labels), free(&b.labels, &a.labels)].concat();
    Labelled { tensor: a.tensor.dot_general(&b.tensor, dims), labels }
}
