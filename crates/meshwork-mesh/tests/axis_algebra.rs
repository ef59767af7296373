//! The axis algebra against a model that knows only positions.
//!
//! The model of a reference to an axis of `n` positions is the index each position has along it. Two
//! references coexist when some way to write `n` as a product has both as runs of its factors. All pairs
//! of references to axes of up to 24 positions are tried.

mod common;

use common::references;
use meshwork_mesh::{AxisRef, Mesh};

const SIZES: std::ops::RangeInclusive<i64> = 1..=24;

/// The index of every position along a reference, written out from the definition.
fn indices(axis: &AxisRef, n: i64) -> Vec<i64> {
    let (pre, size) = axis.sub.map_or((1, n), |sub| (sub.pre_size, sub.size));
    let mut indices = Vec::new();
    for _ in 0..pre {
        for index in 0..size {
            indices.extend(std::iter::repeat_n(index, (n / (pre * size)) as usize));
        }
    }
    indices
}

/// All ways to write `n` as an ordered product, each as its running products `1 .. n`.
fn factorings(n: i64) -> Vec<Vec<i64>> {
    let mut all = Vec::new();
    let mut open = vec![vec![1]];
    while let Some(products) = open.pop() {
        let last = products[products.len() - 1];
        if last == n {
            all.push(products);
            continue;
        }
        for next in (last + 1..=n).filter(|next| next % last == 0 && n % next == 0) {
            open.push(products.iter().copied().chain([next]).collect());
        }
    }
    all
}

struct Model {
    n: i64,
    mesh: Mesh,
    factorings: Vec<Vec<i64>>,
}

impl Model {
    fn new(n: i64) -> Self {
        Self { n, mesh: Mesh::linear("a", n).unwrap(), factorings: factorings(n) }
    }

    fn size(&self, axis: &AxisRef) -> i64 {
        indices(axis, self.n).iter().max().unwrap() + 1
    }

    fn coexist(&self, a: &AxisRef, b: &AxisRef) -> bool {
        let bounds = |axis: &AxisRef| axis.sub.map_or([1, self.n], |s| [s.pre_size, s.pre_size * s.size]);
        self.factorings.iter().any(|products| bounds(a).iter().chain(&bounds(b)).all(|bound| products.contains(bound)))
    }

    /// The positions that share all else with the first position.
    fn line(&self, axis: &AxisRef) -> Vec<i64> {
        let others = |c: i64| {
            let (pre, size) = axis.sub.map_or((1, self.n), |sub| (sub.pre_size, sub.size));
            (c / (self.n / pre), c % (self.n / (pre * size)))
        };
        (0..self.n).filter(|&c| others(c) == others(0)).collect()
    }

    fn overlap(&self, a: &AxisRef, b: &AxisRef) -> bool {
        let line = self.line(b);
        self.line(a).iter().filter(|c| line.contains(c)).count() > 1
    }

    fn contains(&self, whole: &AxisRef, part: &AxisRef) -> bool {
        let (whole, part) = (indices(whole, self.n), indices(part, self.n));
        let size = part.iter().max().unwrap() + 1;
        (1..=self.n).any(|stride| whole.iter().zip(&part).all(|(w, p)| w / stride % size == *p))
    }

    fn prefix(&self, part: &AxisRef, whole: &AxisRef) -> bool {
        let rest = self.size(whole) / self.size(part);
        rest * self.size(part) == self.size(whole)
            && indices(whole, self.n).iter().zip(indices(part, self.n)).all(|(w, p)| w / rest == p)
    }

    fn suffix(&self, part: &AxisRef, whole: &AxisRef) -> bool {
        let size = self.size(part);
        self.size(whole) % size == 0
            && indices(whole, self.n).iter().zip(indices(part, self.n)).all(|(w, p)| w % size == p)
    }
}

fn for_all_pairs(check: impl Fn(&Model, &[AxisRef], &AxisRef, &AxisRef)) {
    for n in SIZES {
        let model = Model::new(n);
        let all = references("a", n);
        for a in &all {
            for b in &all {
                check(&model, &all, a, b);
            }
        }
    }
}

#[test]
fn coordinate_is_the_index_along_the_axis() {
    for_all_pairs(|model, _, a, _| {
        let indices = indices(a, model.n);
        for position in 0..model.n {
            assert_eq!(a.coordinate(&[position], &model.mesh), indices[position as usize], "{a}");
        }
    });
}

#[test]
fn coexist_when_some_factoring_has_both() {
    for_all_pairs(|model, _, a, b| {
        assert_eq!(a.can_coexist(b), model.coexist(a, b), "{a} {b} of {}", model.n);
    });
}

#[test]
fn contains_when_the_index_follows_from_the_other() {
    for_all_pairs(|model, _, a, b| {
        let expected = model.contains(a, b);
        // As in Shardy, containment itself does not ask whether both can coexist.
        assert_eq!(a.contains(b) && a.can_coexist(b), expected, "{a} {b} of {}", model.n);
        assert_eq!(a.strictly_contains(b), a.contains(b) && a != b);
    });
}

#[test]
fn prefix_and_suffix_are_quotient_and_remainder() {
    for_all_pairs(|model, _, a, b| {
        let coexist = a.can_coexist(b);
        assert_eq!(a.prefix_of(b) && coexist, model.prefix(a, b), "{a} {b} of {}", model.n);
        assert_eq!(a.suffix_of(b, &model.mesh) && coexist, model.suffix(a, b), "{a} {b} of {}", model.n);
        assert_eq!(a.strict_prefix_of(b), a.prefix_of(b) && a != b);
        assert_eq!(a.strict_suffix_of(b, &model.mesh), a.suffix_of(b, &model.mesh) && a != b);
    });
}

#[test]
fn overlap_is_what_both_lines_share() {
    for_all_pairs(|model, all, a, b| {
        if model.n == 1 {
            return; // The only axis of one position overlaps with itself by name.
        }
        let overlap = a.overlap(b);
        if !a.can_coexist(b) {
            assert_eq!(overlap, None);
            return;
        }
        assert_eq!(a.overlaps(b), model.overlap(a, b), "{a} {b} of {}", model.n);
        let common: Vec<i64> = model.line(a).into_iter().filter(|c| model.line(b).contains(c)).collect();
        let expected = all.iter().find(|axis| model.line(axis) == common && model.coexist(axis, a));
        assert_eq!(overlap.as_ref(), expected, "{a} {b} of {}", model.n);
    });
}

#[test]
fn what_is_left_before_and_after_is_the_largest_that_does_not_overlap() {
    for_all_pairs(|model, all, a, b| {
        if model.n == 1 {
            return;
        }
        let largest = |fits: &dyn Fn(&AxisRef) -> bool| {
            let fit = all.iter().filter(|r| fits(r) && model.coexist(r, b) && !model.overlap(r, b));
            fit.max_by_key(|r| model.size(r)).filter(|_| model.coexist(a, b)).cloned()
        };
        let before = a.prefix_without_overlap(b);
        assert_eq!(before, largest(&|r| model.prefix(r, a)), "{a} {b} of {}", model.n);
        let after = a.suffix_without_overlap(b, &model.mesh);
        assert_eq!(after, largest(&|r| model.suffix(r, a)), "{a} {b} of {}", model.n);
    });
}

#[test]
fn greatest_common_prefix_is_the_largest_prefix_of_both() {
    for_all_pairs(|model, all, a, b| {
        let both = all.iter().filter(|r| model.prefix(r, a) && model.prefix(r, b));
        let expected = both.max_by_key(|r| model.size(r)).filter(|_| model.coexist(a, b));
        assert_eq!(a.greatest_common_prefix(b).as_ref(), expected, "{a} {b} of {}", model.n);
    });
}

#[test]
fn merged_index_is_the_mixed_radix_of_both() {
    for_all_pairs(|model, all, a, b| {
        let size = model.size(b);
        let index: Vec<i64> =
            std::iter::zip(indices(a, model.n), indices(b, model.n)).map(|(a, b)| a * size + b).collect();
        let both_parts = !a.is_full() && !b.is_full();
        let expected = all.iter().find(|m| both_parts && indices(m, model.n) == index);
        assert_eq!(a.merge(b, &model.mesh).as_ref(), expected, "{a} {b} of {}", model.n);
        assert_eq!(a.can_merge(b), expected.is_some(), "{a} {b} of {}", model.n);
    });
}

#[test]
fn next_pre_size_and_between_are_inverse() {
    for_all_pairs(|model, _, a, _| {
        let next = a.next_pre_size(&model.mesh);
        assert_eq!(next, a.pre_size() * a.size(&model.mesh));
        assert_eq!(AxisRef::between("a", a.pre_size(), next, &model.mesh), *a);
    });
}

#[test]
fn orders_are_total_and_follow_shardy() {
    let mesh = Mesh::new([("b", 8), ("a", 12)]).unwrap();
    let text = [
        r#""b":(1)2"#,
        r#""b":(1)4"#,
        r#""b""#,
        r#""b":(2)2"#,
        r#""b":(2)4"#,
        r#""b":(4)2"#,
        r#""a":(1)2"#,
        r#""a""#,
        r#""a":(2)2"#,
    ];
    let in_mesh: Vec<AxisRef> = text.iter().map(|text| text.parse().unwrap()).collect();
    let mut shuffled: Vec<AxisRef> = in_mesh.iter().rev().cloned().collect();
    shuffled.sort_by(|a, b| a.cmp_in(b, &mesh));
    assert_eq!(shuffled, in_mesh);
    shuffled.sort();
    assert!(shuffled[..3].iter().all(|axis| &*axis.name == "a"), "{shuffled:?}");
    assert_eq!(shuffled[3..], in_mesh[..6]);
}

#[test]
fn other_names_are_unrelated() {
    let mesh = Mesh::grid(("a", 8), ("b", 8)).unwrap();
    for a in references("a", 8) {
        for b in references("b", 8) {
            assert!(!a.contains(&b) && !a.overlaps(&b) && !a.prefix_of(&b) && !a.can_merge(&b));
            assert!(a.can_coexist(&b) && !a.suffix_of(&b, &mesh));
            assert_eq!((a.overlap(&b), a.greatest_common_prefix(&b)), (None, None));
            assert_eq!(a.prefix_without_overlap(&b).as_ref(), Some(&a));
            assert_eq!(a.suffix_without_overlap(&b, &mesh).as_ref(), Some(&a));
        }
    }
}

#[test]
fn invalid_references_do_not_panic() {
    let mesh = Mesh::from_raw([("a", 0), ("b", -3)], None);
    let sizes = [i64::MIN, -1, 0, 1, 2, 3, i64::MAX];
    let mut all = vec![AxisRef::full("a"), AxisRef::full("b"), AxisRef::full("c")];
    all.extend(sizes.iter().flat_map(|&p| sizes.iter().map(move |&k| AxisRef::sub("a", p, k))));
    for a in &all {
        a.coordinate(&[1, 2], &mesh);
        for b in &all {
            let _ = (a.contains(b), a.overlap(b), a.merge(b, &mesh), a.greatest_common_prefix(b));
            let _ = (a.prefix_without_overlap(b), a.suffix_without_overlap(b, &mesh), a.cmp_in(b, &mesh));
        }
    }
}
