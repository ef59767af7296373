//! Which operations start a piece of a loop in every plan, as [`loops`](super::loops) explains: those that are read by operations of which
//! nothing leads to the same piece.

/// Programs with more operations are not looked into: a bit is kept for each pair.
const MOST_OPS: usize = 1 << 14;

/// What the operations of a program are, by their numbers.
pub(super) struct Kinds {
    /// Arithmetic on elements.
    pub(super) is_arithmetic: Vec<bool>,
    /// What spreads its operand or gives it another shape.
    pub(super) passes_on: Vec<bool>,
    /// Products: nothing is in one piece with them.
    pub(super) is_product: Vec<bool>,
}

/// Adds to `starts`, which has those that are known to start a piece, what follows from them. `readers` has for each operation those
/// that read its results.
pub(super) fn add(readers: &[Vec<usize>], kinds: &Kinds, starts: &mut [bool]) {
    if readers.len() > MOST_OPS {
        return;
    }
    loop {
        let ends = Ends::of(readers, kinds, starts);
        let apart = |i: usize| {
            let all = passed_to(readers, kinds, i);
            all.iter().enumerate().any(|(k, &one)| all[..k].iter().any(|&other| ends.are_apart(one, other)))
        };
        let added: Vec<usize> =
            (0..readers.len()).filter(|&i| kinds.is_arithmetic[i] && !starts[i] && apart(i)).collect();
        if added.is_empty() {
            return;
        }
        added.into_iter().for_each(|i| starts[i] = true);
    }
}

/// The arithmetic that reads what `i` computes, or what only passes that on.
fn passed_to(readers: &[Vec<usize>], kinds: &Kinds, i: usize) -> Vec<usize> {
    let (mut work, mut all) = (vec![i], vec![]);
    while let Some(at) = work.pop() {
        for &reader in &readers[at] {
            if kinds.passes_on[reader] {
                work.push(reader);
            } else if kinds.is_arithmetic[reader] {
                all.push(reader);
            }
        }
    }
    all
}

/// For each operation where its piece may end, as bits: at itself, or at what is behind it up to what starts in every plan.
struct Ends {
    /// Words for each operation.
    words: usize,
    bits: Vec<u64>,
}

impl Ends {
    fn of(readers: &[Vec<usize>], kinds: &Kinds, starts: &[bool]) -> Ends {
        let words = readers.len().div_ceil(64);
        let mut bits = vec![0u64; readers.len() * words];
        for i in (0..readers.len()).rev() {
            let (own, behind) = bits[i * words..].split_at_mut(words);
            own[i / 64] |= 1 << (i % 64);
            let behind = |r: usize| &behind[(r - i - 1) * words..][..words];
            let ends_here = starts[i] || kinds.is_product[i];
            for &r in readers[i].iter().filter(|&&r| !ends_here && !kinds.is_product[r]) {
                own.iter_mut().zip(behind(r)).for_each(|(own, other)| *own |= other);
            }
        }
        Ends { words, bits }
    }

    /// Whether no piece has both.
    fn are_apart(&self, one: usize, other: usize) -> bool {
        let of = |i: usize| &self.bits[i * self.words..][..self.words];
        of(one).iter().zip(of(other)).all(|(a, b)| a & b == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_loops_read_starts_unless_a_third_takes_both() {
        // 0 is read by 1, and by 3 in the shape that 2 gives it; these are read by products, or by 4 together.
        let kinds = Kinds {
            is_arithmetic: vec![true, true, false, true, true, false, false],
            passes_on: vec![false, false, true, false, false, false, false],
            is_product: vec![false, false, false, false, false, true, true],
        };
        let apart = [vec![1, 2], vec![5], vec![3], vec![6], vec![], vec![], vec![]];
        let mut starts = [false, true, false, true, false, false, false];
        add(&apart, &kinds, &mut starts);
        assert_eq!(starts, [true, true, false, true, false, false, false]);
        let joined = [vec![1, 2], vec![4], vec![3], vec![4], vec![5], vec![], vec![]];
        let mut starts = [false, false, false, false, true, false, false];
        add(&joined, &kinds, &mut starts);
        assert_eq!(starts, [false, false, false, false, true, false, false]);
    }
}
