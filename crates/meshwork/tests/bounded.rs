//! Memory stays where it was: many shapes, many programs that come and go.

use meshwork::prelude::*;
use meshwork_cpu::kernel;
use meshwork_runtime::memory::usage;

/// What a process may keep: bytes of code, and of buffers.
fn held() -> (usize, usize) {
    (kernel::code_bytes(), usage::live_bytes())
}

/// Bytes of memory that the process has, as the system counts them.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    pages.split(' ').nth(1).and_then(|n| n.parse::<usize>().ok()).map_or(0, |n| n * 4096)
}

/// One test, because what is counted is the process's.
#[test]
fn ten_thousand_shapes_and_ten_thousand_programs_end_where_they_began() {
    let shapes = |from: i64, to: i64| {
        let f = jit(|x: Tensor| (x.sin() * 2.0).sum_all()).cache_limit(16);
        for n in from..to {
            f.call(&Array::zeros([n], F32)).unwrap();
        }
        assert_eq!(f.cached(), 16);
    };
    let programs = |from: usize, to: usize| {
        for i in from..to {
            // Each has a kernel of its own.
            let f = jit(move |x: Tensor| (x * (i as f64)).exp() + 1.0);
            f.call(&Array::zeros([5], F32)).unwrap();
        }
    };
    // What is made once and stays: threads, their stacks, memory of the allocator.
    shapes(1, 1000);
    programs(0, 1000);
    let (before, resident_before) = (held(), resident());
    shapes(1000, 11_000);
    programs(1000, 11_000);
    assert_eq!(held(), before);
    // Programs of this size take some 100 KB each, so that 20,000 would be gigabytes.
    let growth = resident().saturating_sub(resident_before);
    assert!(growth < 32 << 20, "{growth} bytes more than before");
}
