//! Subnormal numbers, which are zero in products of floats.
//!
//! Some processors take a hundred times longer for an operation on them, and gradients are full of them: what a softmax over many
//! classes gives back times an input, say. XLA takes them as zero everywhere.

/// Restores on drop how this thread took subnormal numbers before.
pub(crate) struct Subnormals {
    #[cfg(target_arch = "x86_64")]
    before: u32,
}

impl Subnormals {
    /// Operands and results that are subnormal are zero.
    pub(crate) fn are_zero() -> Subnormals {
        #[cfg(target_arch = "x86_64")]
        let before = control();
        #[cfg(target_arch = "x86_64")]
        set_control(before | ZERO);
        Subnormals {
            #[cfg(target_arch = "x86_64")]
            before,
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for Subnormals {
    fn drop(&mut self) {
        set_control(self.before);
    }
}

/// The bits of the control register that say so of results and of operands.
#[cfg(target_arch = "x86_64")]
const ZERO: u32 = 1 << 15 | 1 << 6;

/// The control register of vector arithmetic.
#[cfg(target_arch = "x86_64")]
fn control() -> u32 {
    let mut control = 0u32;
    // SAFETY: four bytes are written.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut control, options(nostack, preserves_flags)) };
    control
}

#[cfg(target_arch = "x86_64")]
fn set_control(control: u32) {
    // SAFETY: four bytes are read; they are those of the register but for two bits, which change no result but to zero.
    unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const control, options(nostack, preserves_flags)) };
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn what_was_before_comes_back() {
        let small = |x: f32| black_box(x) * black_box(0.5);
        assert!(small(f32::MIN_POSITIVE) > 0.0);
        {
            let _zero = Subnormals::are_zero();
            assert_eq!(small(f32::MIN_POSITIVE), 0.0);
        }
        assert!(small(f32::MIN_POSITIVE) > 0.0);
    }
}
