//! Copies that go past the caches: for more bytes than these hold, where lines fetched only to be overwritten would
//! cost a third of the traffic.

/// Copies `n` bytes.
///
/// # Safety
/// `from` can be read and `to` be written for `n` bytes, and they do not overlap.
pub unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    #[cfg(target_arch = "x86_64")]
    if n >= 4096 && std::is_x86_feature_detected!("avx") {
        // SAFETY: the caller's promise, and the processor has the instructions.
        unsafe { past_caches(from, to, n) };
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, n) };
}

/// Copies with stores that bypass the caches.
///
/// # Safety
/// As for [`copy`]; the processor has AVX.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx")]
unsafe fn past_caches(from: *const u8, to: *mut u8, n: usize) {
    use std::arch::x86_64::{__m256i, _mm_sfence, _mm256_loadu_si256, _mm256_stream_si256};
    let head = to.align_offset(64).min(n);
    let lines = (n - head) / 128;
    let done = head + lines * 128;
    // SAFETY: head, lines and the rest are `n` bytes together; from the head on the target is aligned.
    unsafe {
        std::ptr::copy_nonoverlapping(from, to, head);
        let (mut source, mut target) = (from.add(head).cast::<__m256i>(), to.add(head).cast::<__m256i>());
        for _ in 0..lines {
            let four = [0, 1, 2, 3].map(|i| _mm256_loadu_si256(source.add(i)));
            (0..4).for_each(|i| _mm256_stream_si256(target.add(i), four[i]));
            (source, target) = (source.add(4), target.add(4));
        }
        // Others may look once the thread says that it is done: the stores come first.
        _mm_sfence();
        std::ptr::copy_nonoverlapping(from.add(done), to.add(done), n - done);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn any_length_and_alignment_arrives() {
        let from: Vec<u8> = (0..20_000u32).map(|i| (i * 7 % 251) as u8).collect();
        for (a, b, n) in [(0, 0, 0), (0, 0, 4096), (1, 3, 5000), (64, 32, 8192), (7, 0, 12_345), (0, 63, 100)] {
            let mut to = vec![0u8; 20_000];
            // SAFETY: both arrays are long enough.
            unsafe { super::copy(from.as_ptr().add(a), to.as_mut_ptr().add(b), n) };
            assert_eq!(to[b..b + n], from[a..a + n]);
            assert!(to[..b].iter().chain(&to[b + n..]).all(|&x| x == 0));
        }
    }
}
