//! Random bits by counter: `rng_bit_generator`, the same bits as the evaluator gives.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId};

use super::copy::dense;
use super::nest::{parts_of, piece};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Algorithm {
    Threefry,
    Philox,
}

/// Fills a tensor with random bits.
#[derive(Debug)]
struct Bits {
    algorithm: Algorithm,
    /// Words of the state.
    words: usize,
    state: Buf,
    next: Buf,
    out: Buf,
    size: usize,
    len: usize,
    /// Threefry's neighbors: extents before, along and after the dimension along which they are neighbors.
    split: [usize; 3],
    parts: usize,
}

/// Threefry-2x32 with 20 rounds.
#[inline(always)]
fn threefry(key: u64, counter: u64) -> [u32; 2] {
    const ROTATIONS: [[u32; 4]; 2] = [[13, 15, 26, 6], [17, 29, 16, 24]];
    let (k0, k1) = (key as u32, (key >> 32) as u32);
    let schedule = [k0, k1, 0x1BD1_1BDA ^ k0 ^ k1];
    let mut x = [(counter as u32).wrapping_add(k0), ((counter >> 32) as u32).wrapping_add(k1)];
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x[0] = x[0].wrapping_add(x[1]);
            x[1] = x[1].rotate_left(rotation) ^ x[0];
        }
        x[0] = x[0].wrapping_add(schedule[(group + 1) % 3]);
        x[1] = x[1].wrapping_add(schedule[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// Philox-4x32 with 10 rounds.
#[inline(always)]
fn philox(key: u64, counter: u128) -> [u32; 4] {
    let mut x: [u32; 4] = std::array::from_fn(|i| (counter >> (32 * i)) as u32);
    let (mut k0, mut k1) = (key as u32, (key >> 32) as u32);
    for _ in 0..10 {
        let (p0, p1) = (u64::from(x[0]) * 0xD251_1F53, u64::from(x[2]) * 0xCD9E_8D57);
        x = [(p1 >> 32) as u32 ^ x[1] ^ k0, p1 as u32, (p0 >> 32) as u32 ^ x[3] ^ k1, p0 as u32];
        k0 = k0.wrapping_add(0x9E37_79B9);
        k1 = k1.wrapping_add(0xBB67_AE85);
    }
    x
}

impl Bits {
    fn blocks(&self) -> usize {
        match (self.algorithm, self.size) {
            (Algorithm::Threefry, 8) => self.len,
            (Algorithm::Threefry, _) => self.split[0] * self.split[1].div_ceil(2) * self.split[2],
            (Algorithm::Philox, 8) => self.len.div_ceil(2),
            (Algorithm::Philox, _) => self.len.div_ceil(4),
        }
    }

    /// # Safety
    /// `out` is valid for the tensor.
    #[inline(always)]
    unsafe fn set(&self, out: *mut u8, i: usize, low: u32, high: u32) {
        let bytes = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
        // SAFETY: the caller's; `i` is an element.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.add(i * self.size), self.size) };
    }
}

impl Work for Bits {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        self.blocks() as u64 * 12
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        // SAFETY: in the whole function: words of the states, elements of the result; blocks are disjoint.
        unsafe {
            let word = |i: usize| frame.ptr(self.state).cast::<u64>().add(i).read_unaligned();
            let (key, low) = (word(0), word(1));
            let out = frame.ptr(self.out);
            let blocks = self.blocks();
            let counter = u128::from(low) | u128::from(if self.words == 3 { word(2) } else { key }) << 64;
            if part == 0 {
                let after = counter.wrapping_add(blocks as u128);
                for i in 0..self.words {
                    let value = match (i, self.algorithm) {
                        (0, _) => key,
                        (1, Algorithm::Threefry) => low.wrapping_add(blocks as u64),
                        (i, _) => (after >> (64 * (i - 1))) as u64,
                    };
                    frame.ptr(self.next).cast::<u64>().add(i).write_unaligned(value);
                }
            }
            let half = self.split[1].div_ceil(2);
            for block in piece(blocks, self.parts, part, 1) {
                match (self.algorithm, self.size) {
                    (Algorithm::Threefry, 8) => {
                        let [a, b] = threefry(key, low.wrapping_add(block as u64));
                        self.set(out, block, a, b);
                    }
                    (Algorithm::Threefry, _) => {
                        let words = threefry(key, low.wrapping_add(block as u64));
                        let (i, rest) = (block % self.split[2], block / self.split[2]);
                        let (h, o) = (rest % half, rest / half);
                        for (p, w) in words.into_iter().enumerate() {
                            let at = 2 * h + p;
                            if at < self.split[1] {
                                self.set(out, (o * self.split[1] + at) * self.split[2] + i, w, 0);
                            }
                        }
                    }
                    (Algorithm::Philox, 8) => {
                        let w = philox(key, counter.wrapping_add(block as u128));
                        for p in 0..2.min(self.len - 2 * block) {
                            self.set(out, 2 * block + p, w[2 * p], w[2 * p + 1]);
                        }
                    }
                    (Algorithm::Philox, _) => {
                        let w = philox(key, counter.wrapping_add(block as u128));
                        for p in 0..4.min(self.len - 4 * block) {
                            self.set(out, 4 * block + p, w[p], 0);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// `stablehlo.rng_bit_generator`.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let &[next, bits] = data.results() else { return Ok(false) };
    let (elem, dims) = cx.shape(bits);
    let (state, words) = cx.shape(data.operands()[0]);
    let algorithm = match (data.enum_value("rng_algorithm"), &words[..]) {
        (Some("THREE_FRY"), [2]) => Algorithm::Threefry,
        (Some("PHILOX" | "DEFAULT"), [2 | 3]) => Algorithm::Philox,
        _ => return Ok(false),
    };
    if state != ElementType::UI64 || !matches!(elem.bits(), 8 | 16 | 32 | 64) || elem.is_complex() {
        return Ok(false);
    }
    let state = dense(cx, op, data.operands()[0])?;
    let extents: Vec<usize> = if dims.is_empty() { vec![1] } else { dims.iter().map(|&d| d as usize).collect() };
    // The first even dimension, else the first of the longest.
    let longest = (0..extents.len()).rev().max_by_key(|&d| extents[d]).unwrap_or(0);
    let along = (0..extents.len()).find(|&d| extents[d].is_multiple_of(2)).unwrap_or(longest);
    let product = |list: &[usize]| list.iter().product::<usize>();
    let split = [product(&extents[..along]), extents[along], product(&extents[along + 1..])];
    let (next, out) = (cx.result(next), cx.result(bits));
    let len = product(&extents);
    let parts = parts_of(len, 1 << 13, 64);
    let (words, size) = (words[0] as usize, elem.storage_bytes());
    let work = Bits { algorithm, words, state, next, out, size, len, split, parts };
    cx.step(op, format!("random bits {elem} {dims:?}"), Arc::new(work), vec![state], vec![next, out]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::check_on;
    use meshwork_ir::{ElementType, Literal};

    #[test]
    fn bits_of_all_widths_and_shapes() {
        for (algorithm, words) in [("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 2)] {
            for shape in ["", "5x", "3x3x", "3x4x", "2x5x7x", "0x3x", "20001x"] {
                for elem in ["ui8", "ui16", "ui32", "i32", "ui64", "f32"] {
                    let state = [-1, -2, 77];
                    let state = Literal::from_i64s([words], ElementType::UI64, &state[..words as usize]).unwrap();
                    let source = format!(
                        "func.func @main(%s: tensor<{words}xui64>) -> (tensor<{words}xui64>, tensor<{shape}{elem}>) {{
                        %n, %b = stablehlo.rng_bit_generator %s, algorithm = {algorithm} : (tensor<{words}xui64>) -> (tensor<{words}xui64>, tensor<{shape}{elem}>)
                        return %n, %b : tensor<{words}xui64>, tensor<{shape}{elem}> }}"
                    );
                    check_on(&source, &[state], 0.0);
                }
            }
        }
    }
}
