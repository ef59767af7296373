//! Offsets in an arena: things that are never alive at the same time may share bytes.

/// Alignment of everything.
pub const ALIGN: usize = 64;
/// From one large thing to the next: see [`pages`](super::pages).
const STAGGER: usize = 1088;
const PAGE: usize = 4096;
/// The number of items above which the search for holes considers only time.
const THOROUGH: usize = 3000;

/// Something that needs memory.
#[derive(Clone, Debug)]
pub struct Item {
    /// How much.
    pub bytes: usize,
    /// When: intervals with both ends included, in order.
    pub alive: Vec<(u32, u32)>,
}

/// An offset for each item, and the size of the arena.
pub fn place(items: &[Item]) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..items.len()).filter(|&i| items[i].bytes > 0).collect();
    let thorough = order.len() <= THOROUGH;
    // Large ones first leave the fewest holes; in order of time holes are found faster.
    if thorough {
        meshwork_mesh::sort_by_key(&mut order, |&i| (std::cmp::Reverse(items[i].bytes), span(&items[i]).0, i))
    } else {
        meshwork_mesh::sort_by_key(&mut order, |&i| (span(&items[i]).0, std::cmp::Reverse(items[i].bytes), i))
    }
    let mut offsets = vec![0; items.len()];
    let mut total = 0;
    let mut placed: Vec<usize> = vec![];
    for (count, &i) in order.iter().enumerate() {
        let item = &items[i];
        if !thorough {
            let now = span(item).0;
            placed.retain(|&p| span(&items[p]).1 >= now);
        }
        let mut taken: Vec<(usize, usize)> = placed
            .iter()
            .filter(|&&p| overlap(&items[p], item))
            .map(|&p| (offsets[p], offsets[p] + items[p].bytes))
            .collect();
        taken.sort_unstable();
        let shift = if item.bytes >= PAGE { count * STAGGER % PAGE } else { 0 };
        let start = |at: usize| {
            if item.bytes >= PAGE {
                // The first offset from `at` on with the wanted place in its page.
                at + (shift + PAGE - at % PAGE) % PAGE
            } else {
                at.next_multiple_of(ALIGN)
            }
        };
        let mut at = start(0);
        for (from, to) in taken {
            if at + item.bytes <= from {
                break;
            }
            at = at.max(start(to));
        }
        offsets[i] = at;
        total = total.max(at + item.bytes);
        placed.push(i);
    }
    (offsets, total.next_multiple_of(ALIGN))
}

fn span(item: &Item) -> (u32, u32) {
    (item.alive.first().map_or(0, |a| a.0), item.alive.last().map_or(0, |a| a.1))
}

fn overlap(a: &Item, b: &Item) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.alive.len() && j < b.alive.len() {
        let (x, y) = (a.alive[i], b.alive[j]);
        if x.1 < y.0 {
            i += 1;
        } else if y.1 < x.0 {
            j += 1;
        } else {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(bytes: usize, alive: &[(u32, u32)]) -> Item {
        Item { bytes, alive: alive.to_vec() }
    }

    #[test]
    fn items_alive_together_do_not_overlap() {
        let items = [
            item(100, &[(0, 3)]),
            item(64, &[(2, 5)]),
            item(100, &[(4, 6)]),
            item(10, &[(0, 0), (6, 7)]),
            item(0, &[(0, 7)]),
            item(10_000, &[(8, 8)]),
        ];
        let (at, total) = place(&items);
        for i in 0..items.len() {
            assert_eq!(at[i] % ALIGN, 0);
            for j in 0..i {
                let apart = at[i] + items[i].bytes <= at[j] || at[j] + items[j].bytes <= at[i];
                assert!(apart || !overlap(&items[i], &items[j]), "{i} and {j}: {at:?}");
            }
        }
        // The two of 100 bytes take turns.
        assert_eq!(at[0], at[2]);
        assert!(total < 10_000 + PAGE + 400, "{total}");
    }

    #[test]
    fn long_chains_need_two_places() {
        let items: Vec<Item> = (0..THOROUGH as u32 + 10).map(|i| item(64, &[(i, i + 1)])).collect();
        assert_eq!(place(&items).1, 128);
    }
}
