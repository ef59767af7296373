//! Donation, counted in bytes: an update of a donated array happens in place.
//!
//! One test, because the counters are those of the process.

use meshwork::prelude::*;
use meshwork_runtime::memory::usage;

const BYTES: usize = 4 << 20;

/// How many bytes of buffers `work` needs at once, beyond those that are there.
fn needs<R>(work: impl FnOnce() -> R) -> (usize, R) {
    usage::restart();
    let before = usage::live_bytes();
    let out = work();
    (usage::peak_bytes() - before, out)
}

#[test]
fn updates_of_donated_arrays_take_no_memory() {
    for mesh in [None, Some(Mesh::linear("x", 1).unwrap()), Some(Mesh::linear("x", 4).unwrap())] {
        let place = |a: Array| match &mesh {
            None => a,
            Some(mesh) => a.shard(mesh, P!["x"]).unwrap(),
        };
        let n = BYTES as i64 / 4;
        // On the devices, as what a step before has left there.
        let ones = || jit(|x: Tensor| x + 1.0).call(&place(Array::zeros([n], F32))).unwrap();
        let point = |u: Tensor| u.at(s![5..9]).set(7.0);
        let steps = |u: Tensor| for_loop(0..10, u, |i, u| u.roll(1, 0) * 0.5 + i.to(F32));
        let (keep, give) = (jit(point), jit(point).donate([0]));

        // Compile first.
        keep.call(&ones()).unwrap();
        give.call(&ones()).unwrap();
        let u = ones();
        let (kept, v) = needs(|| keep.call(&u).unwrap());
        assert!((BYTES..BYTES + BYTES / 4).contains(&kept), "a new array, and little more: {kept}, {mesh:?}");
        drop(v);
        let (given, v) = needs(|| give.call(&u).unwrap());
        assert!(given < BYTES / 64, "four elements are written, {given} bytes are needed, {mesh:?}");
        assert_eq!(v.to_vec::<f32>().unwrap()[4..10], [1.0, 7.0, 7.0, 7.0, 7.0, 1.0]);
        drop(v);

        // Ten times over: each result is the next argument.
        let mut u = ones();
        let (given, ()) = needs(|| {
            for _ in 0..10 {
                u = give.call(&u).unwrap();
            }
        });
        assert!(given < BYTES / 64, "{given} bytes are needed, {mesh:?}");
        drop(u);

        // Where somebody has the shards still, they are left alone.
        let u = ones();
        let same = jit(|u: Tensor| u).call(&u).unwrap();
        give.call(&u).unwrap();
        assert_eq!(same.to_vec::<f32>().unwrap()[5], 1.0);
        drop((u, same));

        // A loop over the whole array needs its second buffer once, not twice.
        let (keep, give) = (jit(steps), jit(steps).donate([0]));
        let want = keep.call(&ones()).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(give.call(&ones()).unwrap().to_vec::<f32>().unwrap(), want);
        let u = ones();
        let (kept, v) = needs(|| keep.call(&u).unwrap());
        drop(v);
        let (given, _) = needs(|| give.call(&u).unwrap());
        assert!(given < kept, "{given} bytes with donation, {kept} without, {mesh:?}");
    }
}
