//! `y[i] = Σ M[k][i] x[k]` for a matrix that stays in the caches: a stretch of `y` is in registers from the first term to the last.

use super::micro::Tile;

/// A matrix whose column `k` begins `k * step` numbers after the first, and the vector of the sums.
#[derive(Clone, Copy)]
pub(super) struct Columns<T> {
    pub matrix: *const T,
    pub step: isize,
    pub x: *const T,
    pub depth: usize,
    pub y: *mut T,
    pub rows: usize,
}

/// Bytes of a matrix that is read with large steps.
pub(super) const MOST_BYTES: usize = 512 << 10;

impl<T: Tile> Columns<T> {
    /// Computes all rows.
    ///
    /// # Safety
    /// All elements named are valid, and `y` overlaps none of the others.
    pub(super) unsafe fn run(&self) {
        #[cfg(target_arch = "x86_64")]
        if super::has_fma() {
            // SAFETY: the processor has these instructions; the rest is the caller's.
            return unsafe { self.run_fused() };
        }
        // SAFETY: the caller's.
        unsafe { self.tiles::<false>() };
    }

    /// # Safety
    /// As [`run`](Columns::run), on a processor with AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn run_fused(&self) {
        // SAFETY: the caller's.
        unsafe { self.tiles::<true>() };
    }

    /// # Safety
    /// As [`run`](Columns::run).
    #[inline(always)]
    unsafe fn tiles<const FUSED: bool>(&self) {
        let mut at = 0;
        // Fewer rows have more sums each, so that additions do not wait for each other.
        // SAFETY: in the whole block: the caller's; the tiles are inside the rows.
        unsafe {
            // Only code for the processor's longer vectors is worth tiles of several sizes.
            if FUSED || cfg!(not(target_arch = "x86_64")) {
                while at + 64 <= self.rows {
                    self.tile::<64, 1, FUSED>(at);
                    at += 64;
                }
                if at + 32 <= self.rows {
                    self.tile::<32, 2, FUSED>(at);
                    at += 32;
                }
                if at + 16 <= self.rows {
                    self.tile::<16, 4, FUSED>(at);
                    at += 16;
                }
            }
            while at + 8 <= self.rows {
                self.tile::<8, 8, FUSED>(at);
                at += 8;
            }
            while at < self.rows {
                self.tile::<1, 4, FUSED>(at);
                at += 1;
            }
        }
    }

    /// `N` rows from `at` on, each as `SUMS` sums.
    ///
    /// # Safety
    /// As [`run`](Columns::run); the rows are there.
    #[inline(always)]
    unsafe fn tile<const N: usize, const SUMS: usize, const FUSED: bool>(&self, at: usize) {
        let mut sums = [[T::default(); N]; SUMS];
        // SAFETY: in the whole block: the caller's.
        unsafe {
            let mut column = self.matrix.add(at);
            let mut k = 0;
            while k + SUMS <= self.depth {
                for sum in &mut sums {
                    let x = *self.x.add(k);
                    for (i, s) in sum.iter_mut().enumerate() {
                        *s = s.add_product::<FUSED>(*column.add(i), x);
                    }
                    column = column.offset(self.step);
                    k += 1;
                }
            }
            while k < self.depth {
                let x = *self.x.add(k);
                for (i, s) in sums[0].iter_mut().enumerate() {
                    *s = s.add_product::<FUSED>(*column.add(i), x);
                }
                column = column.offset(self.step);
                k += 1;
            }
            let mut count = SUMS;
            while count > 1 {
                count /= 2;
                for u in 0..count {
                    for i in 0..N {
                        sums[u][i] = sums[u][i].plus(sums[u + count][i]);
                    }
                }
            }
            self.y.add(at).cast::<[T; N]>().write_unaligned(sums[0]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_sizes() {
        for rows in [0, 1, 2, 7, 8, 9, 15, 16, 31, 32, 47, 64, 65, 100, 129, 200] {
            for depth in [0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 33] {
                for gap in [0, 3] {
                    let step = rows + gap;
                    let matrix: Vec<f64> = (0..step * depth + 1).map(|i| ((i * 7919) % 101) as f64 - 50.0).collect();
                    let x: Vec<f64> = (0..depth).map(|i| (i * i % 17) as f64 - 8.0).collect();
                    let mut y = vec![f64::NAN; rows + 1];
                    let columns = Columns {
                        matrix: matrix.as_ptr(),
                        step: step as isize,
                        x: x.as_ptr(),
                        depth,
                        y: y.as_mut_ptr(),
                        rows,
                    };
                    // SAFETY: the lists hold what the numbers say.
                    unsafe { columns.run() };
                    for (i, &got) in y[..rows].iter().enumerate() {
                        let want: f64 = (0..depth).map(|k| matrix[k * step + i] * x[k]).sum();
                        assert_eq!(got, want, "{rows} rows, depth {depth}, row {i}");
                    }
                    assert!(y[rows].is_nan());
                }
            }
        }
    }
}
