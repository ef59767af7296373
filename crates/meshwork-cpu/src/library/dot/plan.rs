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
            // Blocks of few rows read B too often; as many as are wanted, none above 480 rows.
            let each = want / batch_parts;
            row_parts = (p.rows / if p.swollen_b { 480 } else { 96 })
                .clamp(1, each)
                .max(p.rows.div_ceil(480))
                .min(200 / batch_parts);
            if row_parts * 2 <= each {
                // Each part packs its rows of A, if they are packed.
                column_parts = (p.columns / if direct_a { 256 } else { 512 }).clamp(1, each / row_parts);
            }
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

/// Columns of `B` that are worked on at a time where it need not be packed: their sums fit the second-level cache.
fn in_place(size: usize) -> usize {
    (256 << 10) / (120 * size)
}
