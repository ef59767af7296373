//! Positions of elements in row-major order, and walks over all indices of a tensor.

use super::fault::Fault;
use meshwork_ir::{ElementType, Literal};

/// The row-major position of `index` in a tensor of extents `dims`.
pub(crate) fn position(dims: &[i64], index: &[i64]) -> usize {
    dims.iter().zip(index).fold(0, |at, (&n, &i)| at * n + i) as usize
}

/// Calls `visit(position, index)` for every index below `dims`, in row-major order.
pub(crate) fn each_index(dims: &[i64], mut visit: impl FnMut(usize, &[i64]) -> Result<(), Fault>) -> Result<(), Fault> {
    if dims.contains(&0) {
        return Ok(());
    }
    let mut index = vec![0; dims.len()];
    for at in 0.. {
        visit(at, &index)?;
        let Some(d) = (0..dims.len()).rev().find(|&d| index[d] + 1 < dims[d]) else { break };
        index[d] += 1;
        index[d + 1..].fill(0);
    }
    Ok(())
}

/// Element `i` of an index tensor; unsigned values beyond `i64` become the largest one.
pub(crate) fn index_at(x: &Literal, i: usize) -> i64 {
    match x.get_i64(i) {
        v if v < 0 && x.elem() == ElementType::UI64 => i64::MAX,
        v => v,
    }
}

/// All elements of an index tensor.
pub(crate) fn indices_of(x: &Literal) -> Vec<i64> {
    (0..x.len()).map(|i| index_at(x, i)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk(dims: &[i64]) -> Vec<(usize, Vec<i64>)> {
        let mut seen = vec![];
        each_index(dims, |at, index| {
            assert_eq!(position(dims, index), at);
            seen.push((at, index.to_vec()));
            Ok(())
        })
        .unwrap();
        seen
    }

    #[test]
    fn walks_row_major_and_stops() {
        let seen: Vec<Vec<i64>> = walk(&[2, 3]).into_iter().map(|(_, index)| index).collect();
        assert_eq!(seen, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]);
    }

    #[test]
    fn scalar_has_one_index_and_empty_none() {
        assert_eq!(walk(&[]), [(0, vec![])]);
        assert_eq!(walk(&[3, 0]), []);
    }
}
