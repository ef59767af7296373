//! How a matrix product is cut: into parts, blocks for the caches, and which operands are packed.

use super::micro::Shape;

/// The size of a product and what its operands allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub batch: usize,
    pub rows: usize,
    pub columns: usize,
    pub depth: usize,
    /// Bytes of a number.
    pub size: usize,
    pub tile: Shape,
    /// Whether the micro-kernel can read `A` (`B`) in place.
    pub plain_a: Contiguity,
    pub plain_b: Contiguity,
    /// Whether `B` is to be packed piece by piece.
    pub swollen_b: bool,
}

/// The layout of an operand, for the micro-kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Contiguity {
    /// The direction in which the micro-kernel is wide (rows of `A`, columns of `B`) is contiguous.
    Across,
    /// The depth is contiguous.
    Along,
    /// It must be packed: other strides or element type.
    Other,
}

/// Decisions about a product; functions of the [`Problem`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// Parts in the directions of batch, rows and columns.
    pub batch_parts: usize,
    pub row_parts: usize,
    pub column_parts: usize,
    /// Block of the depth and of columns that is worked on at a time.
    pub depth_block: usize,
    pub column_block: usize,
    /// Whether `A` and `B` are read in place.
    pub direct_a: bool,
    pub direct_b: bool,
    /// Whether a step before packs all of `B` for all parts.
    pub shared_b: bool,
}

/// Floating-point operations of a part that is worth a thread.
const PART_FLOPS: f64 = 2e6;

/// Rows of a part are at most so many, and at least so many, if there are: each part reads its columns of `B`.
const MOST_ROWS: usize = 480;
const LEAST_ROWS: usize = 48;

/// Columns of a part are at least so many, if there are: each part reads its rows of `A`, or packs them.
const LEAST_COLUMNS: usize = 64;
const LEAST_COLUMNS_OF_PACKED: usize = 512;

impl Plan {
    /// The plan for `p`.
    pub(crate) fn new(p: &Problem) -> Plan {
        let flops = 2.0 * p.batch as f64 * p.rows as f64 * p.columns as f64 * p.depth.max(1) as f64;
        let want = ((flops / PART_FLOPS) as usize).clamp(1, 48);
        let direct_a = match p.plain_a {
            Contiguity::Along => true,
            Contiguity::Across => p.columns <= 64,
            Contiguity::Other => false,
        };
        let (mut batch_parts, mut row_parts, mut column_parts) = (want.min(p.batch).max(1), 1, 1);
        if batch_parts * 2 <= want {
            [row_parts, column_parts] = blocks(p, direct_a, want / batch_parts, 200 / batch_parts);
        } else if batch_parts > 16 {
            batch_parts = p.batch.min(48);
        }
        let direct_b =
            p.plain_b == Contiguity::Across && (p.rows <= p.tile.rows || p.depth * p.columns * p.size <= 24 << 10);
        let shared_b = !direct_b && row_parts > 1;
        // A panel of B for the first-level cache, or for the second if it is wide.
        let depth_block = match (p.size, p.tile.columns) {
            (..=4, ..=16) => 384,
            _ => 256,
        };
        let columns = if direct_b || shared_b { in_place(p.size) } else { (512 << 10) / (p.depth.max(1) * p.size) };
        let column_block = (columns / p.tile.columns * p.tile.columns).clamp(p.tile.columns, 1024);
        Plan { batch_parts, row_parts, column_parts, depth_block, column_block, direct_a, direct_b, shared_b }
    }

    /// Lets a step before pack all of `B`, unless it is read in place.
    pub(crate) fn share_b(&mut self, size: usize, tile: Shape) {
        if !self.direct_b && !self.shared_b {
            self.shared_b = true;
            self.column_block = (in_place(size) / tile.columns * tile.columns).clamp(tile.columns, 1024);
        }
    }
}

/// In how many parts rows and columns are cut so that there are about `want` blocks, as square as they can be.
fn blocks(p: &Problem, direct_a: bool, want: usize, most: usize) -> [usize; 2] {
    let least_rows = if p.swollen_b { MOST_ROWS } else { LEAST_ROWS };
    let least_columns = p.tile.columns.max(if direct_a { LEAST_COLUMNS } else { LEAST_COLUMNS_OF_PACKED });
    let mut parts = [p.rows.div_ceil(MOST_ROWS).min(most).max(1), 1];
    while parts[0] * parts[1] * 3 / 2 < want {
        let [rows, columns] = [p.rows / parts[0], p.columns / parts[1]];
        match (rows >= 2 * least_rows, columns >= 2 * least_columns) {
            (true, is_wide) if !is_wide || rows >= columns => parts[0] *= 2,
            (_, true) => parts[1] *= 2,
            _ => break,
        }
    }
    parts
}

/// Columns of `B` that are worked on at a time where it need not be packed: their sums fit the second-level cache.
fn in_place(size: usize) -> usize {
    (256 << 10) / (120 * size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(batch: usize, [rows, columns, depth]: [usize; 3], plain_a: Contiguity) -> usize {
        let tile = Shape { rows: 6, columns: 64 };
        let plain_b = Contiguity::Across;
        let p = Plan::new(&Problem { batch, rows, columns, depth, size: 4, tile, plain_a, plain_b, swollen_b: false });
        p.batch_parts * p.row_parts * p.column_parts
    }

    #[test]
    fn products_of_moderate_size_have_parts_for_many_threads() {
        for plain_a in [Contiguity::Along, Contiguity::Across] {
            for size in [[1024, 1024, 1024], [2048, 512, 512], [512, 2048, 4096], [1600, 1600, 1600]] {
                assert!((24..=200).contains(&parts(1, size, plain_a)), "{size:?}, {plain_a:?}");
            }
        }
        for size in [[512, 512, 512], [256, 1024, 1024], [1024, 256, 1024], [64, 4096, 256], [4096, 64, 256]] {
            assert!(parts(1, size, Contiguity::Along) >= 24, "{size:?}");
        }
        assert!((8..=16).contains(&parts(1, [256, 256, 256], Contiguity::Along)));
        assert_eq!(parts(1, [64, 64, 64], Contiguity::Along), 1);
    }

    #[test]
    fn no_product_has_too_many_parts() {
        for size in [[100_000, 100_000, 10], [1_000_000, 3, 3], [3, 1_000_000, 3], [1, 1, 1_000_000], [0, 5, 5]] {
            for batch in [1, 3, 100, 10_000] {
                assert!(parts(batch, size, Contiguity::Along) <= 256, "{batch} of {size:?}");
            }
        }
    }
}
