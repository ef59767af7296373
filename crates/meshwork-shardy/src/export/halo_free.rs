//! Slices and pads of split dimensions that need no exchange between shards.

use meshwork_mesh::ceil_div;

/// Whether a slice from `start` of a dimension, of extents `(before, after)`, leaves every element on its shard when
/// both are split into `shards`.
pub fn is_free_slice(start: i64, stride: i64, (before, after): (i64, i64), shards: i64) -> bool {
    shards <= 1 || (start == 0 && stride == 1 && ceil_div(before, shards) == ceil_div(after, shards))
}

/// Whether a pad by `low` in front and without `interior` padding, of extents `(before, after)`, leaves every element
/// on its shard when both are split into `shards`.
pub fn is_free_pad(low: i64, interior: i64, (before, after): (i64, i64), shards: i64) -> bool {
    if shards <= 1 {
        return true;
    }
    let (from, to) = (ceil_div(before, shards), ceil_div(after, shards));
    let stays = |shard: i64| {
        let first = (shard * to - low).max(0);
        let last = (shard * to - low + to - 1).min(before - 1);
        first > last || (first / from == shard && last / from == shard)
    };
    interior == 0 && (0..shards).all(stays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tails_are_cut_without_exchange() {
        assert!(is_free_slice(0, 1, (8, 7), 4));
        assert!(is_free_slice(0, 1, (8, 6), 4));
        assert!(!is_free_slice(0, 1, (8, 4), 4));
        assert!(!is_free_slice(1, 1, (8, 7), 4));
        assert!(!is_free_slice(0, 2, (8, 8), 4));
        assert!(is_free_slice(1, 2, (8, 3), 1));
    }

    #[test]
    fn a_shift_is_an_exchange_whatever_the_extent() {
        assert!(is_free_pad(0, 0, (7, 8), 4));
        assert!(!is_free_pad(-1, 0, (8, 8), 2));
        assert!(!is_free_pad(1, 0, (7, 8), 4));
        assert!(!is_free_pad(0, 1, (4, 7), 4));
    }
}
