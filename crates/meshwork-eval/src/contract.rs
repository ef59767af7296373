//! Contractions: `dot`, `dot_general`, `einsum` and `ragged_dot`.
//!
//! Operands are brought to `[batch, rows, depth]` and `[batch, columns, depth]` and multiplied; sums are taken in the
//! order of the contracted dimensions.

use super::fault::Fault;
use super::index::{each_index, position};
use super::movement::transpose;
use super::nums::SumOfProducts;
use super::value::{allocate, filled};
use meshwork_ir::attr::DotDims;
use meshwork_ir::{ElementType, Literal, Scalar};

/// `stablehlo.dot_general`.
pub(crate) fn dot_general(lhs: &Literal, rhs: &Literal, dims: &DotDims, elem: ElementType) -> Result<Literal, Fault> {
    let l_free = free_dims(lhs, &dims.lhs_batch, &dims.lhs_contract);
    let r_free = free_dims(rhs, &dims.rhs_batch, &dims.rhs_contract);
    let size = |x: &Literal, of: &[i64]| of.iter().map(|&d| x.dims()[d as usize] as usize).product::<usize>();
    let (batch, depth) = (size(lhs, &dims.lhs_batch), size(lhs, &dims.lhs_contract));
    let (rows, columns) = (size(lhs, &l_free), size(rhs, &r_free));
    let mut shape: Vec<i64> = dims.lhs_batch.iter().chain(&l_free).map(|&d| lhs.dims()[d as usize]).collect();
    shape.extend(r_free.iter().map(|&d| rhs.dims()[d as usize]));
    let l = transpose(lhs, &[&dims.lhs_batch[..], &l_free, &dims.lhs_contract].concat())?;
    let r = transpose(rhs, &[&dims.rhs_batch[..], &r_free, &dims.rhs_contract].concat())?;
    Product { batch, rows, depth, columns }.evaluate(&l, &r, &shape, elem)
}

fn free_dims(x: &Literal, batch: &[i64], contract: &[i64]) -> Vec<i64> {
    (0..x.dims().len() as i64).filter(|d| !batch.contains(d) && !contract.contains(d)).collect()
}

/// A stack of matrix products.
struct Product {
    batch: usize,
    rows: usize,
    depth: usize,
    columns: usize,
}

impl SumOfProducts for Product {
    fn sums<T: Copy>(&self, lhs: &[T], rhs: &[T], zero: T, add: impl Fn(T, T, T) -> T) -> Vec<T> {
        let mut out = vec![];
        for batch in 0..self.batch {
            for row in 0..self.rows {
                for column in 0..self.columns {
                    let l = (batch * self.rows + row) * self.depth;
                    let r = (batch * self.columns + column) * self.depth;
                    out.push((0..self.depth).fold(zero, |sum, k| add(sum, lhs[l + k], rhs[r + k])));
                }
            }
        }
        out
    }
}

/// `stablehlo.dot`: vectors and matrices.
pub(crate) fn dot(lhs: &Literal, rhs: &Literal, elem: ElementType) -> Result<Literal, Fault> {
    let dims = DotDims { lhs_contract: vec![lhs.dims().len() as i64 - 1], rhs_contract: vec![0], ..DotDims::default() };
    dot_general(lhs, rhs, &dims, elem)
}

/// `stablehlo.einsum` and, with one operand, `stablehlo.unary_einsum`: `ij,jk->ik`. An ellipsis stands for leading
/// dimensions, aligned at the right.
pub(crate) fn einsum(parts: &[&Literal], config: &str, elem: ElementType) -> Result<Literal, Fault> {
    let spec: String = config.chars().filter(|c| !c.is_whitespace()).collect();
    let bad = || Fault::invalid(format!("einsum configuration '{config}' does not fit {} operands", parts.len()));
    let (inputs, output) = spec.split_once("->").ok_or_else(bad)?;
    let inputs: Vec<&str> = inputs.split(',').collect();
    if inputs.len() != parts.len() {
        return Err(bad());
    }
    let labels: Vec<Vec<char>> = inputs
        .iter()
        .zip(parts)
        .map(|(text, x)| expand_ellipsis(text, x.dims().len()).ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    let hidden = labels.iter().flatten().filter(|c| !c.is_alphabetic()).max().map_or(0, |&c| ellipsis_number(c) + 1);
    let visible = output.replace("...", "").chars().count();
    let output = expand_ellipsis(output, visible + if output.contains("...") { hidden } else { 0 }).ok_or_else(bad)?;

    let (a, a_labels) = diagonal_sum(parts[0], &labels[0], &[&labels[1..].concat()[..], &output].concat())?;
    let (result, have) = match parts.get(1) {
        None => (a, a_labels),
        Some(b) => {
            let (b, b_labels) = diagonal_sum(b, &labels[1], &[&a_labels[..], &output].concat())?;
            let mut dims = DotDims::default();
            let mut have = vec![];
            for (i, label) in a_labels.iter().enumerate() {
                let Some(j) = b_labels.iter().position(|l| l == label) else { continue };
                if output.contains(label) {
                    dims.lhs_batch.push(i as i64);
                    dims.rhs_batch.push(j as i64);
                    have.push(*label);
                } else {
                    dims.lhs_contract.push(i as i64);
                    dims.rhs_contract.push(j as i64);
                }
            }
            have.extend(a_labels.iter().filter(|l| !b_labels.contains(l)));
            have.extend(b_labels.iter().filter(|l| !a_labels.contains(l)));
            (dot_general(&a, &b, &dims, elem)?, have)
        }
    };
    let order: Vec<i64> = output
        .iter()
        .map(|l| have.iter().position(|h| h == l).map(|i| i as i64).ok_or_else(bad))
        .collect::<Result<_, _>>()?;
    if order.len() != have.len() {
        return Err(bad());
    }
    transpose(&result, &order)
}

/// Labels of an operand of this rank; the dimensions of an ellipsis are numbered from the right by private
/// characters.
fn expand_ellipsis(text: &str, rank: usize) -> Option<Vec<char>> {
    match text.split_once("...") {
        None => (text.chars().count() == rank).then(|| text.chars().collect()),
        Some((before, after)) => {
            let hidden = rank.checked_sub(before.chars().count() + after.chars().count())?;
            let numbers = (0..hidden).rev().filter_map(|n| char::from_u32(0xE000 + n as u32));
            Some(before.chars().chain(numbers).chain(after.chars()).collect())
        }
    }
}

fn ellipsis_number(c: char) -> usize {
    (c as usize).saturating_sub(0xE000)
}

/// Takes the diagonal over repeated labels and sums over labels that are not in `needed`.
fn diagonal_sum(x: &Literal, labels: &[char], needed: &[char]) -> Result<(Literal, Vec<char>), Fault> {
    let mut kept: Vec<char> = vec![];
    let mut summed: Vec<char> = vec![];
    for &l in labels {
        let list = if needed.contains(&l) { &mut kept } else { &mut summed };
        if !list.contains(&l) {
            list.push(l);
        }
    }
    if kept.len() == labels.len() {
        return Ok((x.clone(), kept));
    }
    // The diagonal, then a product with ones over the summed labels.
    let all: Vec<char> = kept.iter().chain(&summed).copied().collect();
    let place = |l: char| all.iter().position(|&a| a == l).unwrap_or(0);
    let extent = |&l: &char| labels.iter().zip(x.dims()).filter(|(m, _)| **m == l).map(|(_, &n)| n).min().unwrap_or(1);
    let dims: Vec<i64> = all.iter().map(extent).collect();
    let mut diagonal = allocate(&dims, x.elem())?;
    each_index(&dims, |at, index| {
        let from: Vec<i64> = labels.iter().map(|&l| index[place(l)]).collect();
        diagonal.set_element(at, x.element(position(x.dims(), &from)));
        Ok(())
    })?;
    if summed.is_empty() {
        return Ok((diagonal, kept));
    }
    let ones = filled(&dims[kept.len()..], &Literal::scalar(x.elem(), Scalar::Int(1)))?;
    let dot = DotDims {
        lhs_contract: (kept.len() as i64..all.len() as i64).collect(),
        rhs_contract: (0..summed.len() as i64).collect(),
        ..DotDims::default()
    };
    Ok((dot_general(&diagonal, &ones, &dot, x.elem())?, kept))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{f64s, i64s};

    #[test]
    fn matrix_product_and_empty_depth() {
        let a = i64s(&[2, 3], &[1, 2, 3, 4, 5, 6]);
        let b = i64s(&[3, 1], &[1, 0, -1]);
        assert_eq!(dot(&a, &b, ElementType::I64).unwrap(), i64s(&[2, 1], &[-2, -2]));
        let none = dot(&i64s(&[2, 0], &[]), &i64s(&[0, 2], &[]), ElementType::I64).unwrap();
        assert_eq!(none, i64s(&[2, 2], &[0, 0, 0, 0]));
    }

    #[test]
    fn batch_dimensions_come_first() {
        let a = f64s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let dims = DotDims { lhs_batch: vec![1], rhs_batch: vec![0], ..DotDims::default() };
        let out = dot_general(&a, &a, &dims, ElementType::F64).unwrap();
        assert_eq!(out, f64s(&[2, 2, 2], &[1.0, 2.0, 3.0, 6.0, 6.0, 8.0, 12.0, 16.0]));
    }

    #[test]
    fn einsum_products_traces_and_ellipsis() {
        let a = i64s(&[2, 2], &[1, 2, 3, 4]);
        let run = |parts: &[&Literal], config| einsum(parts, config, ElementType::I64);
        assert_eq!(run(&[&a, &a], "ij,jk->ki").unwrap(), i64s(&[2, 2], &[7, 15, 10, 22]));
        assert_eq!(run(&[&a], "ii->").unwrap(), i64s(&[], &[5]));
        assert_eq!(run(&[&a], "ij->j").unwrap(), i64s(&[2], &[4, 6]));
        assert_eq!(run(&[&a], "ij->ji").unwrap(), i64s(&[2, 2], &[1, 3, 2, 4]));
        assert_eq!(run(&[&a, &a], "...i,...i->...").unwrap(), i64s(&[2], &[5, 25]));
        assert!(run(&[&a], "ijk->i").is_err());
    }
}
