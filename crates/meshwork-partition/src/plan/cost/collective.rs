//! How long a collective takes over the levels of a machine: the best of the ways in which it can go.
//!
//! A group of devices has a number of members at each level. Bytes are those of the array that the collective is about: the
//! result of an all-gather, the operand of the others.

use super::level::{Level, Shape};
use crate::collective::CollectiveKind;

/// Where the devices of a group stand in the order of all devices: `size` of them, `stride` apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// The distance.
    pub stride: i64,
    /// How many.
    pub size: i64,
}

/// How a collective goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Round one ring of all devices.
    Ring,
    /// Along a tree, in as many steps as it is deep.
    Tree,
    /// Level by level.
    Hierarchy,
    /// From every device to every other.
    Direct,
}

/// How many members a group has at each of `levels`: their product is its size.
pub(super) fn members(levels: &[Level], spans: &[Span]) -> Vec<i64> {
    let mut block = Some(1_i64);
    let mut inside = 1;
    let mut out = vec![];
    for level in levels {
        block = block.zip(level.size).map(|(block, size)| block.saturating_mul(size));
        let in_block = |span: &Span| match block {
            Some(block) => (block / span.stride.max(1)).clamp(1, span.size.max(1)),
            None => span.size.max(1),
        };
        let now = spans.iter().map(in_block).product::<i64>();
        out.push((now / inside).max(1));
        inside = inside.max(now);
    }
    // What the outermost level has no room for goes over it all the same.
    if let Some(last) = out.last_mut() {
        let all = spans.iter().map(|span| span.size.max(1)).product::<i64>();
        *last *= (all / inside).max(1);
    }
    out
}

/// The seconds of the fastest way for a collective over the devices of `spans` with an operand of `operand` bytes.
pub(super) fn fastest(levels: &[Level], kind: &CollectiveKind, spans: &[Span], operand: f64) -> (f64, Way) {
    let counts = members(levels, spans);
    let total: i64 = counts.iter().product();
    if total <= 1 || levels.is_empty() {
        return (0.0, Way::Direct);
    }
    let bytes = match kind {
        CollectiveKind::AllGather => operand * total as f64,
        _ => operand,
    };
    let group = Group { levels, spans, counts, total };
    let mut ways = vec![];
    match kind {
        CollectiveKind::AllReduce(_) => {
            ways.push((2.0 * group.ring(bytes), Way::Ring));
            ways.push((2.0 * group.hierarchy(bytes), Way::Hierarchy));
            ways.extend(group.tree(bytes).map(|seconds| (2.0 * seconds, Way::Tree)));
        }
        CollectiveKind::AllGather | CollectiveKind::ReduceScatter(_) => {
            ways.push((group.ring(bytes), Way::Ring));
            ways.push((group.hierarchy(bytes), Way::Hierarchy));
        }
        CollectiveKind::AllToAll | CollectiveKind::RaggedAllToAll => ways.push((group.all_to_all(bytes), Way::Direct)),
        CollectiveKind::Permute => ways.push((group.shift(bytes), Way::Direct)),
    }
    ways.into_iter().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, Way::Direct))
}

/// A group of devices.
struct Group<'a> {
    levels: &'a [Level],
    spans: &'a [Span],
    /// Members at each level.
    counts: Vec<i64>,
    total: i64,
}

/// A level as a group uses it.
struct Used {
    shape: Shape,
    /// Members at it.
    n: f64,
    /// Members in each of these.
    below: f64,
    /// Groups of such members.
    above: f64,
    /// Seconds.
    latency: f64,
    /// Bytes per second of one link in one direction.
    link: f64,
    /// Bytes per second of all links that a device can use at once to pass data round.
    speed: f64,
    /// Steps until everything has been everywhere.
    hops: f64,
}

impl Group<'_> {
    /// The levels that it goes through.
    fn used(&self) -> impl Iterator<Item = Used> {
        let all = self.levels.iter().zip(&self.counts).enumerate().filter(|(_, (_, n))| **n > 1);
        all.map(move |(i, (level, &n))| {
            let link = level.each();
            let speed = link.gigabytes_per_second * 1e9;
            let (directions, hops) = match level.shape {
                Shape::Torus { wrap } => self.on_grid(wrap),
                Shape::Ring | Shape::Switch => (1.0, n as f64 - 1.0),
            };
            Used {
                shape: level.shape,
                n: n as f64,
                below: self.counts[..i].iter().product::<i64>() as f64,
                above: self.counts[i + 1..].iter().product::<i64>() as f64,
                latency: link.latency_us * 1e-6,
                link: speed,
                speed: speed * directions,
                hops,
            }
        })
    }

    /// The mesh axes that it extends along.
    fn axes(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter().filter(|span| span.size > 1)
    }

    /// How many directions data can go at once on a grid, and in how many steps it is everywhere.
    fn on_grid(&self, wrap: i64) -> (f64, f64) {
        let of = |span: &Span| {
            let n = span.size as f64;
            if is_closed(span, wrap) { (2.0, (n / 2.0).floor()) } else { (1.0, n - 1.0) }
        };
        self.axes().map(of).fold((0.0, 0.0), |(directions, hops), (d, h)| (directions + d, hops + h))
    }

    /// Seconds to bring every member everything, round one ring that uses the links of all members of a level at once.
    fn ring(&self, bytes: f64) -> f64 {
        let n = self.total as f64;
        let hops: f64 = self.used().map(|l| l.hops * l.above * l.latency).sum();
        hops + bytes * (n - 1.0) / n / self.slowest()
    }

    /// Bytes per second through the narrowest level.
    fn slowest(&self) -> f64 {
        self.used().map(|l| l.below * l.speed).fold(f64::INFINITY, f64::min)
    }

    /// As `ring`, one level after the other: what the members below share is brought by one of them each.
    fn hierarchy(&self, bytes: f64) -> f64 {
        let stage = |l: Used| {
            let steps = if l.shape == Shape::Switch { l.n.log2().ceil() } else { l.hops };
            steps * l.latency + bytes / l.below * (l.n - 1.0) / l.n / l.speed
        };
        self.used().map(stage).sum()
    }

    /// As `ring`, along two trees that each bring half; where there are switches only.
    fn tree(&self, bytes: f64) -> Option<f64> {
        if self.used().any(|l| l.shape != Shape::Switch) {
            return None;
        }
        let depth: f64 = self.used().map(|l| l.n.log2().ceil() * l.latency).sum();
        Some(depth + bytes / self.slowest())
    }

    /// Seconds for every member to send each other an equal part of its `bytes`. What passes the middle of a level
    /// decides.
    fn all_to_all(&self, bytes: f64) -> f64 {
        let time = |l: Used| {
            // What a device sends over this level.
            let out = bytes * (l.n - 1.0) * l.below / self.total as f64;
            match l.shape {
                // One message to each, or a half of everything in as many rounds as the number of members has bits.
                Shape::Switch => {
                    let rounds = l.n.log2().ceil();
                    let by_rounds = rounds * (l.latency + bytes / 2.0 / l.speed);
                    ((l.n - 1.0) * l.latency + out / l.speed).min(by_rounds)
                }
                // Two links cross the middle of a ring.
                Shape::Ring => l.hops * l.latency + out * l.n / 8.0 / l.link,
                Shape::Torus { wrap } => {
                    let across = |s: &Span| s.size as f64 / if is_closed(s, wrap) { 8.0 } else { 4.0 };
                    l.hops * l.latency + out * self.axes().map(across).fold(0.0, f64::max) / l.link
                }
            }
        };
        self.used().map(time).fold(0.0, f64::max)
    }

    /// Seconds to send `bytes` to one other member: the farthest.
    fn shift(&self, bytes: f64) -> f64 {
        self.used().map(|l| l.latency + bytes / l.link).fold(0.0, f64::max)
    }
}

/// Whether an axis of a grid is closed to a ring.
fn is_closed(span: &Span, wrap: i64) -> bool {
    wrap > 0 && span.size % wrap == 0
}

#[cfg(test)]
mod tests {
    use meshwork_ir::Combine;

    use super::super::link::Link;
    use super::*;

    fn level(size: Option<i64>, shape: Shape, latency_us: f64, gbps: f64) -> Level {
        let link = Link { latency_us, gigabytes_per_second: gbps };
        Level { name: "level".into(), size, shape, link, shared: 1, lost: 0.0 }
    }

    fn cluster() -> Vec<Level> {
        vec![level(Some(8), Shape::Switch, 1.0, 400.0), level(None, Shape::Switch, 10.0, 50.0)]
    }

    fn seconds(levels: &[Level], kind: CollectiveKind, spans: &[(i64, i64)], bytes: f64) -> (f64, Way) {
        let spans: Vec<Span> = spans.iter().map(|&(stride, size)| Span { stride, size }).collect();
        fastest(levels, &kind, &spans, bytes)
    }

    #[test]
    fn members_follow_from_strides() {
        let count = |spans: &[(i64, i64)]| {
            members(&cluster(), &spans.iter().map(|&(stride, size)| Span { stride, size }).collect::<Vec<_>>())
        };
        assert_eq!(count(&[(1, 8)]), [8, 1]);
        assert_eq!(count(&[(1, 64)]), [8, 8]);
        assert_eq!(count(&[(8, 4)]), [1, 4]);
        assert_eq!(count(&[(2, 8)]), [4, 2]);
        assert_eq!(count(&[(32, 2), (1, 4)]), [4, 2]);
        let bounded = vec![level(Some(8), Shape::Switch, 1.0, 1.0)];
        assert_eq!(members(&bounded, &[Span { stride: 1, size: 32 }]), [32]);
    }

    #[test]
    fn large_arrays_go_round_rings_and_small_ones_along_trees() {
        let sum = || CollectiveKind::AllReduce(Combine::Add);
        let (time, way) = seconds(&cluster(), sum(), &[(1, 8)], 1e9);
        assert_eq!(way, Way::Hierarchy);
        assert!((time - 2.0 * (3e-6 + 1e9 * 7.0 / 8.0 / 400e9)).abs() < 1e-9, "{time}");
        let (time, way) = seconds(&cluster(), sum(), &[(1, 64)], 4.0);
        assert_eq!(way, Way::Tree);
        assert!((time - 2.0 * (3e-6 + 30e-6)).abs() < 1e-8, "{time}");
        // All eight cards of a node work for one ring, as many bytes pass as through one link inside the node.
        let (time, way) = seconds(&cluster(), sum(), &[(1, 64)], 1e11);
        assert_eq!(way, Way::Ring);
        assert!((time / (2.0 * 1e11 * 63.0 / 64.0 / 400e9) - 1.0).abs() < 1e-2, "{time}");
    }

    #[test]
    fn a_group_with_one_member_a_node_has_one_card_each() {
        let (time, _) = seconds(&cluster(), CollectiveKind::AllGather, &[(8, 4)], 1e9);
        assert!((time / (3e9 / 50e9) - 1.0).abs() < 1e-3, "{time}");
        let mut shared = cluster();
        shared[1].shared = 2;
        let (slower, _) = seconds(&shared, CollectiveKind::AllGather, &[(8, 4)], 1e9);
        assert!((slower / time - 2.0).abs() < 1e-3);
    }

    #[test]
    fn axes_of_a_torus_work_together_and_close_when_they_are_whole() {
        let torus = [level(None, Shape::Torus { wrap: 4 }, 1.0, 50.0)];
        let gather = |spans: &[(i64, i64)]| {
            let n: i64 = spans.iter().map(|s| s.1).product();
            seconds(&torus, CollectiveKind::AllGather, spans, 1e9 / n as f64).0
        };
        let bytes = |n: f64| 1e9 * (n - 1.0) / n;
        assert!((gather(&[(1, 8)]) - (4e-6 + bytes(8.0) / 100e9)).abs() < 1e-9);
        assert!((gather(&[(1, 2)]) - (1e-6 + bytes(2.0) / 50e9)).abs() < 1e-9);
        assert!((gather(&[(1, 4), (4, 4)]) - (4e-6 + bytes(16.0) / 200e9)).abs() < 1e-9);
    }

    #[test]
    fn all_to_all_goes_through_the_middle() {
        let ring = [level(None, Shape::Ring, 0.0, 50.0)];
        let (time, _) = seconds(&ring, CollectiveKind::AllToAll, &[(1, 16)], 16e9);
        assert!((time - 15e9 * 2.0 / 50e9).abs() < 1e-9, "{time}");
        let (time, _) = seconds(&cluster(), CollectiveKind::AllToAll, &[(1, 16)], 16e9);
        // Half of it leaves the node.
        assert!((time / (8e9 / 50e9) - 1.0).abs() < 1e-3, "{time}");
    }

    #[test]
    fn a_group_of_one_takes_no_time() {
        for kind in [CollectiveKind::AllGather, CollectiveKind::AllToAll, CollectiveKind::Permute] {
            assert_eq!(seconds(&cluster(), kind, &[(1, 1)], 1e9).0, 0.0);
        }
    }
}
