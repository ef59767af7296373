//! How a product of tiles is cut, and who packs its operands.

use super::pack::Role;
use super::unit::PANEL;

/// The size of a stack of products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Problem {
    pub batch: usize,
    pub rows: usize,
    pub columns: usize,
    /// Elements of the depth.
    pub depth: usize,
    /// Devices that compute such a product at the same time.
    pub devices: usize,
    /// An operand that is much larger packed than unpacked, so that each part packs what it needs of it.
    pub swollen: Option<Role>,
}

/// Decisions about a product; functions of the [`Problem`] alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    /// Parts in the directions of batch, rows and columns.
    pub batch_parts: usize,
    pub row_parts: usize,
    pub column_parts: usize,
    /// Whether a step before packs all of `A` (`B`) for all parts.
    pub shared_a: bool,
    pub shared_b: bool,
}

/// Operations of a part that is worth a thread.
const PART: f64 = 3e7;

/// Rows and columns of a part are at least so many, if there are.
const LEAST: usize = 4 * PANEL;

/// More rows at a time would not stay in the second-level cache; the sums of more columns would not, of a long depth.
pub(super) const MOST_ROWS: usize = 8 * PANEL;
const MOST_COLUMNS: usize = 32 * PANEL;

impl Plan {
    /// The plan for `p`.
    pub(crate) fn new(p: &Problem) -> Plan {
        let operations = 2.0 * p.batch as f64 * p.rows as f64 * p.columns as f64 * p.depth as f64;
        let want = ((operations / PART) as usize).clamp(1, 48);
        let batch_parts = if p.batch >= want { p.batch.min(if want > 16 { 48 } else { want }) } else { p.batch.max(1) };
        let (mut row_parts, mut column_parts) =
            (p.rows.div_ceil(MOST_ROWS).max(1), p.columns.div_ceil(MOST_COLUMNS).max(1));
        // No step has more than some hundred parts.
        row_parts = row_parts.min((128 / batch_parts).max(1));
        column_parts = column_parts.min((256 / batch_parts / row_parts).max(1));
        while batch_parts * row_parts * column_parts * 3 / 2 < want {
            let (rows, columns) = (p.rows / row_parts, p.columns / column_parts);
            if columns >= rows && columns >= 2 * LEAST {
                column_parts *= 2;
            } else if rows >= 2 * LEAST {
                row_parts *= 2;
            } else if columns >= 2 * LEAST {
                column_parts *= 2;
            } else {
                break;
            }
        }
        // What devices have in common is packed once for all.
        let common = p.devices > 1 && p.batch == 1 && p.rows >= PANEL;
        let shared_a = column_parts > 1 && p.swollen != Some(Role::Rows);
        let shared_b = (row_parts > 1 || common) && p.swollen != Some(Role::Columns);
        Plan { batch_parts, row_parts, column_parts, shared_a, shared_b }
    }
}
