//! Arrays whose elements all differ, the same in every run.

use meshwork::Array;

/// The sine of a number that differs at each `index`.
fn at(phase: f64, index: &[i64]) -> f64 {
    index.iter().fold(phase, |sum, &n| 1.7 * sum + n as f64).sin()
}

/// An f64 array of values in `-1..1`.
pub fn wave(shape: &[i64]) -> Array {
    Array::from_fn(shape, |i| at(1.0, i))
}

/// An f32 array of values in `-1..1`.
pub fn wave_f32(shape: &[i64]) -> Array {
    Array::from_fn(shape, |i| at(1.0, i) as f32)
}

/// An f32 array of values in `-0.5..0.5`, small enough to be weights. Another `phase` gives other values.
pub fn half_wave(shape: &[i64], phase: f64) -> Array {
    Array::from_fn(shape, |i| 0.5 * at(phase, i) as f32)
}
