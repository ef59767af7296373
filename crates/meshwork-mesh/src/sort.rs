//! Sorting with little code.
//!
//! The standard library's sorts are made for long lists: each list type and each closure gets eight kilobytes of code, which all
//! have to be compiled. Lists that compilers sort by closures are mostly short, so here one copy of that sort does for all.

use std::cmp::Ordering;

/// Lists of up to so many elements are sorted in place.
const SHORT: usize = 16;

/// Sorts a list; equal elements stay in order.
pub fn sort_by<T>(list: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    if list.len() <= SHORT {
        for end in 1..list.len() {
            let mut at = end;
            while at > 0 && compare(&list[at - 1], &list[at]).is_gt() {
                list.swap(at - 1, at);
                at -= 1;
            }
        }
        return;
    }
    let mut order = order(list.len(), &|a, b| compare(&list[a], &list[b]));
    for start in 0..order.len() {
        // Around a cycle: each place gets its element, and what was there moves on.
        let mut at = start;
        loop {
            let from = std::mem::replace(&mut order[at], at);
            if from == start {
                break;
            }
            list.swap(at, from);
            at = from;
        }
    }
}

/// Sorts a list by a key of its elements; equal ones stay in order.
pub fn sort_by_key<T, K: Ord>(list: &mut [T], key: impl Fn(&T) -> K) {
    sort_by(list, |a, b| key(a).cmp(&key(b)));
}

/// The places of `count` elements in their order.
fn order(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| compare(a, b));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_as_the_standard_library() {
        for n in [0, 1, 2, 3, 15, 16, 17, 40, 1000] {
            let mixed: Vec<(usize, usize)> = (0..n).map(|i| (i * 7919 % 11, i)).collect();
            let distinct: Vec<(usize, usize)> = (0..n).map(|i| (i * 7919 % 1009, i)).collect();
            for list in [mixed, distinct] {
                let (mut ours, mut theirs) = (list.clone(), list);
                sort_by_key(&mut ours, |&(key, _)| key);
                theirs.sort_by_key(|&(key, _)| key);
                assert_eq!(ours, theirs);
                sort_by(&mut ours, |a, b| b.1.cmp(&a.1));
                theirs.sort_by_key(|&(_, i)| std::cmp::Reverse(i));
                assert_eq!(ours, theirs);
            }
        }
    }
}
