//! Sorting, and what follows from it, of a long line that is split over devices: no device sees the whole of it.

use meshwork::prelude::*;

const N: i64 = 2_000_003;

/// Numbers of which some are equal.
fn numbers() -> Array {
    Array::from_fn([N], |i| ((i[0] * 7919) % 90_021) as f32 / 16.0 - 1000.0)
}

/// `f` gives on eight devices what it gives on one, and sends less than `share` of what gathering the line would.
fn check<O: Tree<Host = Array>>(name: &str, share: f64, f: impl Fn(Tensor) -> O + Copy) {
    let mesh = Mesh::linear("x", 8).unwrap();
    let (whole, split) = (numbers(), numbers().shard(&mesh, P!["x"]).unwrap());
    let one = jit(f).call(&whole).unwrap();
    let many = jit(f);
    assert!(many.call(&split).unwrap().all_close(&one, 0.0), "{name}");
    let gathered = (N * 4) as f64 * 7.0 / 8.0;
    let sent = many.plan(&split).unwrap().wire_bytes();
    assert!(sent < share * gathered, "{name} sends {sent} bytes of {gathered}:\n{}", many.explain(&split).unwrap());
}

#[test]
fn a_long_line_is_sorted_where_it_is() {
    check("sort", 0.2, |x| x.sort(0));
    check("argsort", 0.35, |x| x.argsort(0));
    check("sort_key_val", 0.35, |x| x.sort_key_val(&(-&x), 0).1);
    check("lexsort", 0.7, |x| Tensor::lexsort(&[x.clone(), (&x * 0.1).floor()]));
}

#[test]
fn so_is_what_follows_from_sorting() {
    check("median", 0.2, |x| x.median(0));
    check("quantile", 0.2, |x| x.quantile(0.3, 0));
    check("permutation", 0.7, |x| Key::new(3).permutation_of(&x, 0));
    check("unique", 0.6, |x| x.unique(100, 0.0));
    check("top_k", 0.35, |x| x.top_k(1000).0);
}
