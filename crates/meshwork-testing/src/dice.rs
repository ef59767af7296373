//! Numbers that look random and are the same in every run.

/// A generator of numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence number `seed`.
    pub fn new(seed: u64) -> Dice {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d);
        dice.roll(2);
        dice
    }

    /// A number below `sides`, which counts as 1 if it is 0.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 16) as usize % sides.max(1)
    }
}
