//! Copies between arrays whose dimensions are in different orders.

/// Dimensions of a row-major array from minor to major.
pub(crate) fn minor_to_major(rank: usize) -> Vec<i64> {
    (0..rank as i64).rev().collect()
}

/// Bytes from one index of each dimension to the next, for dimensions that lie in memory from `minor_to_major`.
pub(crate) fn strides(dims: &[i64], minor_to_major: &[i64], size: usize) -> Vec<i64> {
    let mut strides = vec![0; dims.len()];
    let mut step = size as i64;
    for &d in minor_to_major {
        strides[d as usize] = step;
        step *= dims[d as usize];
    }
    strides
}

/// Whether arrays of these extents with either strides have their elements at the same places.
pub(crate) fn is_same_order(dims: &[i64], a: &[i64], b: &[i64]) -> bool {
    dims.iter().zip(a).zip(b).all(|((&n, a), b)| n <= 1 || a == b) || dims.contains(&0)
}

/// Copies all elements of `size` bytes from one array to another of the same extents.
///
/// # Safety
///
/// All elements of both arrays are inside memory that may be read, and written respectively.
pub(crate) unsafe fn copy_strided(dims: &[i64], from: (*const u8, &[i64]), to: (*mut u8, &[i64]), size: usize) {
    if dims.contains(&0) {
        return;
    }
    let Some((&count, outer)) = dims.split_last() else {
        // SAFETY: the only element of both.
        return unsafe { std::ptr::copy_nonoverlapping(from.0, to.0, size) };
    };
    let (from_step, to_step) = (from.1[outer.len()], to.1[outer.len()]);
    let mut index = vec![0i64; outer.len()];
    loop {
        let at = |strides: &[i64]| index.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>() as isize;
        // SAFETY: these are elements of both arrays.
        unsafe {
            let (mut from, mut to) = (from.0.offset(at(from.1)), to.0.offset(at(to.1)));
            if from_step == size as i64 && to_step == size as i64 {
                std::ptr::copy_nonoverlapping(from, to, size * count as usize);
            } else {
                for i in 0..count {
                    std::ptr::copy_nonoverlapping(from, to, size);
                    if i + 1 < count {
                        (from, to) = (from.offset(from_step as isize), to.offset(to_step as isize));
                    }
                }
            }
        }
        let Some(d) = (0..outer.len()).rev().find(|&d| index[d] + 1 < outer[d]) else { return };
        index[d] += 1;
        index[d + 1..].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transposed_array_is_read_in_order() {
        let columns: Vec<u8> = vec![1, 4, 2, 5, 3, 6];
        let mut rows = [0u8; 6];
        let from = strides(&[2, 3], &[0, 1], 1);
        let to = strides(&[2, 3], &minor_to_major(2), 1);
        // SAFETY: both have six bytes.
        unsafe { copy_strided(&[2, 3], (columns.as_ptr(), &from), (rows.as_mut_ptr(), &to), 1) };
        assert_eq!(rows, [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn orders_are_compared_by_where_elements_are() {
        assert!(is_same_order(&[2, 3], &[12, 4], &[12, 4]));
        assert!(is_same_order(&[1, 3], &[99, 4], &[12, 4]));
        assert!(is_same_order(&[0, 3], &[0, 0], &[12, 4]));
        assert!(!is_same_order(&[2, 3], &[4, 8], &[12, 4]));
    }
}
