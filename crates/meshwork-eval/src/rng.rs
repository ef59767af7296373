//! Random bits: `rng_bit_generator`, bit for bit as XLA computes them on CPU, and `stablehlo.rng`.
//!
//! Both generators are counter-based (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): block
//! number `counter + i` is a function of the key and that number alone. The state is `ui64[2]` or, for Philox,
//! `ui64[3]`: the key, then the counter, least significant word first. Philox with a state of two words takes the
//! key as the upper half of its counter too.
//!
//! Output words are 32 bits wide; a 64-bit element takes two, the low one first; narrower elements take the low
//! bits of one. Philox fills the result in row-major order. Threefry has two words per block; for elements of at
//! most 32 bits these are neighbors along one dimension (the first of even extent, else the first of greatest),
//! and blocks are numbered in row-major order of the result with that dimension halved, rounded up.

use meshwork_ir::Scalar;
use meshwork_ir::{ElementClass, ElementType, Literal};

/// Threefry-2x32 with 20 rounds.
fn threefry(key: u64, counter: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let (k0, k1) = (key as u32, (key >> 32) as u32);
    let schedule = [k0, k1, 0x1BD1_1BDA ^ k0 ^ k1];
    let mut x0 = (counter as u32).wrapping_add(k0);
    let mut x1 = ((counter >> 32) as u32).wrapping_add(k1);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x0 = x0.wrapping_add(x1);
            x1 = x1.rotate_left(rotation) ^ x0;
        }
        x0 = x0.wrapping_add(schedule[(group + 1) % 3]);
        x1 = x1.wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    [x0, x1]
}

/// Philox-4x32 with 10 rounds.
fn philox(key: u64, counter: u128) -> [u32; 4] {
    let word = |i: u32| (counter >> (32 * i)) as u32;
    let mut x = [word(0), word(1), word(2), word(3)];
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    for _ in 0..10 {
        let p0 = u64::from(x[0]) * 0xD251_1F53;
        let p1 = u64::from(x[2]) * 0xCD9E_8D57;
        x = [(p1 >> 32) as u32 ^ x[1] ^ k0, p1 as u32, (p0 >> 32) as u32 ^ x[3] ^ k1, p0 as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    x
}

/// `stablehlo.rng_bit_generator`: the new state and random bits of the given shape. `algorithm` is `THREE_FRY`,
/// `PHILOX` or `DEFAULT`, which is Philox.
pub(crate) fn bit_generator(
    algorithm: &str,
    state: &Literal,
    dims: &[i64],
    elem: ElementType,
) -> Result<(Literal, Literal), String> {
    let words: Vec<u64> = state.scalars().map(|s| s.as_i64() as u64).collect();
    if state.elem() != ElementType::UI64 || !elem_fits(elem) {
        return Err(format!("a state of {} and a result of {elem}", state.elem()));
    }
    let mut out = Literal::zeros(dims.iter().copied(), elem);
    let next = match (algorithm, &words[..]) {
        ("THREE_FRY", &[key, counter]) if elem.bits() == 64 => {
            for i in 0..out.len() {
                let [low, high] = threefry(key, counter.wrapping_add(i as u64));
                set_bits(&mut out, i, low, high);
            }
            vec![key, counter.wrapping_add(out.len() as u64)]
        }
        ("THREE_FRY", &[key, counter]) => {
            let blocks = fill_pairs(&mut out, |block| threefry(key, counter.wrapping_add(block)));
            vec![key, counter.wrapping_add(blocks)]
        }
        ("PHILOX" | "DEFAULT", &[key, low]) => {
            let counter = fill_philox(&mut out, key, u128::from(key) << 64 | u128::from(low));
            vec![key, counter as u64]
        }
        ("PHILOX" | "DEFAULT", &[key, low, high]) => {
            let counter = fill_philox(&mut out, key, u128::from(high) << 64 | u128::from(low));
            vec![key, counter as u64, (counter >> 64) as u64]
        }
        _ => return Err(format!("algorithm {algorithm} with a state of {} words", words.len())),
    };
    let next = next.into_iter().map(Scalar::UInt);
    let state = Literal::from_scalars([words.len() as i64], ElementType::UI64, next);
    state.map(|state| (state, out)).ok_or_else(|| "the state is not of rank 1".to_string())
}

fn elem_fits(elem: ElementType) -> bool {
    matches!(elem.bits(), 8 | 16 | 32 | 64) && !elem.is_complex()
}

/// Writes element `i` from a low and a high word.
fn set_bits(out: &mut Literal, i: usize, low: u32, high: u32) {
    let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
    let size = out.elem().storage_bytes();
    out.set_element(i, &bytes[..size]);
}

/// Fills `out` from four words a block; returns the counter after the last block.
fn fill_philox(out: &mut Literal, key: u64, start: u128) -> u128 {
    let per_block = if out.elem().bits() == 64 { 2 } else { 4 };
    let blocks = out.len().div_ceil(per_block);
    for block in 0..blocks {
        let words = philox(key, start.wrapping_add(block as u128));
        for part in 0..per_block.min(out.len() - block * per_block) {
            let (low, high) = match per_block {
                2 => (words[2 * part], words[2 * part + 1]),
                _ => (words[part], 0),
            };
            set_bits(out, block * per_block + part, low, high);
        }
    }
    start.wrapping_add(blocks as u128)
}

/// Fills `out` with the two words of each block next to each other along the split dimension; returns the
/// number of blocks.
fn fill_pairs(out: &mut Literal, block: impl Fn(u64) -> [u32; 2]) -> u64 {
    let dims = out.dims().to_vec();
    let extents = if dims.is_empty() { &[1][..] } else { &dims[..] };
    let largest = (0..extents.len()).rev().max_by_key(|&d| extents[d]).unwrap_or(0);
    let split = (0..extents.len()).find(|&d| extents[d] % 2 == 0).unwrap_or(largest);
    let extent = extents[split] as usize;
    let half = extent.div_ceil(2);
    let inner: usize = extents[split + 1..].iter().product::<i64>() as usize;
    let outer: usize = extents[..split].iter().product::<i64>() as usize;
    for o in 0..outer {
        for h in 0..half {
            for i in 0..inner {
                let words = block(((o * half + h) * inner + i) as u64);
                for (part, &word) in words.iter().enumerate() {
                    let at = 2 * h + part;
                    if at < extent {
                        set_bits(out, (o * extent + at) * inner + i, word, 0);
                    }
                }
            }
        }
    }
    (outer * half * inner) as u64
}

/// `stablehlo.rng`: numbers drawn uniformly from `[a, b)`, or normally with mean `a` and deviation `b`.
///
/// The numbers are a function of `stream` and their position alone: element `i` comes from Philox block `i` with
/// key `stream`. Uniform floats use 53 of its bits, normal ones the Box-Muller transform of two such numbers.
pub(crate) fn draw(
    distribution: &str,
    a: Scalar,
    b: Scalar,
    dims: &[i64],
    elem: ElementType,
    stream: u64,
) -> Result<Literal, String> {
    let normal = match distribution {
        "UNIFORM" => false,
        "NORMAL" if elem.is_float() => true,
        _ => return Err(format!("distribution {distribution} of {elem}")),
    };
    let mut out = Literal::zeros(dims.iter().copied(), elem);
    for i in 0..out.len() {
        let [w0, w1, w2, w3] = philox(stream, i as u128).map(u64::from);
        let (first, second) = (w1 << 32 | w0, w3 << 32 | w2);
        let value = match elem.class() {
            ElementClass::Bool => Scalar::Bool(first & 1 == 1),
            ElementClass::Signed => {
                let (low, width) = (a.as_i64(), (b.as_i64() as u64).wrapping_sub(a.as_i64() as u64));
                Scalar::Int(low.wrapping_add(first.checked_rem(width).unwrap_or(0) as i64))
            }
            ElementClass::Unsigned => {
                let (low, width) = (a.as_i64() as u64, (b.as_i64() as u64).wrapping_sub(a.as_i64() as u64));
                Scalar::UInt(low.wrapping_add(first.checked_rem(width).unwrap_or(0)))
            }
            ElementClass::Float if normal => {
                let radius = (-2.0 * (1.0 - unit(first)).ln()).sqrt();
                let angle = std::f64::consts::TAU * unit(second);
                Scalar::Float(a.as_f64() + b.as_f64() * radius * angle.cos())
            }
            ElementClass::Float => Scalar::Float(a.as_f64() + (b.as_f64() - a.as_f64()) * unit(first)),
            ElementClass::Complex => return Err(format!("distribution {distribution} of {elem}")),
        };
        out.set(i, value);
        // Rounding to a narrow type may reach the end of the half-open interval.
        if !normal && elem.is_float() && out.get(i) == b && a != b {
            out.set(i, a);
        }
    }
    Ok(out)
}

/// 53 random bits as a number in `[0, 1)`.
fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ElementType::*;

    fn generate(algorithm: &str, state: &[i64], dims: &[i64], elem: ElementType) -> (Vec<i64>, Vec<i64>) {
        let state = Literal::from_i64s([state.len() as i64], UI64, state).unwrap();
        let (next, bits) = bit_generator(algorithm, &state, dims, elem).unwrap();
        (next.to_i64s(), bits.to_i64s())
    }

    const STATE: [i64; 2] = [0x2_0000_0001, 0x4_0000_0003];

    // Values of the tests below: jax.lax.rng_bit_generator on CPU with key [1, 2, 3, 4].

    #[test]
    fn threefry_words_in_order() {
        let (next, bits) = generate("THREE_FRY", &STATE, &[5], UI32);
        assert_eq!(next, [STATE[0], STATE[1] + 3]);
        assert_eq!(bits, [0x5df433ec, 0x8617198e, 0x2c24a8a8, 0x9094fa5e, 0x91386643]);
        let (next, bits) = generate("THREE_FRY", &STATE, &[2], UI64);
        assert_eq!(next[1], STATE[1] + 2);
        assert_eq!(bits.iter().map(|&b| b as u64).collect::<Vec<_>>(), [0x8617198e5df433ec, 0x9094fa5e2c24a8a8]);
        assert_eq!(generate("THREE_FRY", &STATE, &[3], UI16).1, [0x33ec, 0x198e, 0xa8a8]);
        assert_eq!(generate("THREE_FRY", &STATE, &[], UI8), (vec![STATE[0], STATE[1] + 1], vec![0xec]));
    }

    #[test]
    fn threefry_splits_one_dimension() {
        let (next, bits) = generate("THREE_FRY", &STATE, &[3, 3], UI32);
        assert_eq!(next[1], STATE[1] + 6);
        let rows = [
            [0x5df433ec, 0x2c24a8a8, 0x91386643],
            [0x8617198e, 0x9094fa5e, 0x59491919],
            [0x4f97fb5b, 0xed54bb55, 0xe339716a],
        ];
        assert_eq!(bits, rows.concat());
        // An even dimension is preferred, a longer odd one else.
        assert_eq!(generate("THREE_FRY", &STATE, &[3, 4], UI32).0[1], STATE[1] + 6);
        assert_eq!(generate("THREE_FRY", &STATE, &[3, 5, 5], UI32).0[1], STATE[1] + 45);
        assert_eq!(generate("THREE_FRY", &STATE, &[0, 3], UI32).0[1], STATE[1]);
    }

    #[test]
    fn philox_fills_row_major() {
        let (next, bits) = generate("PHILOX", &STATE, &[5], UI32);
        assert_eq!(next, [STATE[0], STATE[1] + 2]);
        assert_eq!(bits, [0x1e8fe864, 0x4d5e0bd7, 0x4b87c9be, 0x2d689201, 0x5273487b]);
        let (next, bits) = generate("DEFAULT", &STATE, &[3], UI64);
        assert_eq!(next[1], STATE[1] + 2);
        assert_eq!(bits, [0x4d5e0bd71e8fe864, 0x2d6892014b87c9be, 0x61c056965273487b]);
        assert_eq!(generate("PHILOX", &STATE, &[2], UI8).1, [0x64, 0xd7]);
    }

    #[test]
    fn philox_counter_carries() {
        let (next, _) = generate("PHILOX", &[7, -1, 5], &[8], UI32);
        assert_eq!(next, [7, 1, 6]);
    }

    #[test]
    fn wrong_state_is_named() {
        let state = Literal::from_i64s([3], UI64, &[1, 2, 3]).unwrap();
        let error = bit_generator("THREE_FRY", &state, &[2], UI32).unwrap_err();
        assert_eq!(error, "algorithm THREE_FRY with a state of 3 words");
    }

    #[test]
    fn draws_stay_in_range_and_differ_by_stream() {
        let f =
            |stream| draw("UNIFORM", Scalar::Float(-1.0), Scalar::Float(1.0), &[1000], BF16, stream).unwrap().to_f64s();
        assert!(f(0).iter().all(|&v| (-1.0..1.0).contains(&v)));
        assert_ne!(f(0), f(1));
        let ints = draw("UNIFORM", Scalar::Int(-2), Scalar::Int(3), &[1000], I32, 0).unwrap().to_i64s();
        assert_eq!((ints.iter().min(), ints.iter().max()), (Some(&-2), Some(&2)));
        let n = draw("NORMAL", Scalar::Float(5.0), Scalar::Float(2.0), &[20_000], F64, 0).unwrap().to_f64s();
        let mean = n.iter().sum::<f64>() / n.len() as f64;
        let variance = n.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n.len() as f64;
        assert!((mean - 5.0).abs() < 0.05 && (variance - 4.0).abs() < 0.15, "{mean} {variance}");
    }
}
