//! How many rows a strip has.

use super::Limits;

/// Rows of a strip out of `rows` rows of `row_bytes` bytes each: nearly equal strips, the last one not larger.
pub(super) fn height(rows: i64, row_bytes: i64, limits: &Limits) -> i64 {
    let fitting = (limits.strip_bytes / row_bytes.max(1)).clamp(limits.fewest_rows, limits.most_rows);
    let strips = (rows + fitting - 1) / fitting;
    (rows + strips - 1) / strips.max(1)
}

#[cfg(test)]
mod tests {
    use super::Limits;

    #[test]
    fn strips_are_nearly_equal() {
        let height = |rows, bytes| super::height(rows, bytes, &Limits::default());
        assert_eq!(height(1, 4), 1);
        assert_eq!(height(120, 4), 120);
        assert_eq!(height(121, 4), 61);
        assert_eq!(height(1000, 1 << 20), 16);
        for rows in 1..300 {
            let h = height(rows, 8192);
            assert!(h >= 1 && h <= rows.min(120) && rows - (rows - 1) / h * h <= h, "{rows}: {h}");
        }
    }
}
