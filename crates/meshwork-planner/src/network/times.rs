//! The times that matter. Of the times between two changes only those are kept at which no other time has all the nodes that
//! are live, and at which more than the limit could be used at all.

use std::ops::Range;

/// Replaces times by numbers of kept times.
pub(super) struct Times {
    /// The first time of each kept segment, ascending.
    starts: Vec<usize>,
}

impl Times {
    /// The times that matter, given the spans and the most that each can use.
    pub(super) fn new(spans: &[(Range<usize>, u64)], limit: u64) -> Self {
        // (time, what starts, what ends, how much the most changes)
        let mut events: Vec<(usize, bool, i128)> = Vec::with_capacity(spans.len() * 2);
        for (times, most) in spans {
            events.push((times.start, true, i128::from(*most)));
            events.push((times.end, false, -i128::from(*most)));
        }
        events.sort_unstable();
        let mut starts = Vec::new();
        let mut used = 0i128;
        let mut at = 0;
        // The segment that began last, if a span started there and the limit could be exceeded.
        let mut open: Option<usize> = None;
        while at < events.len() {
            let time = events[at].0;
            let (mut starting, mut ending) = (false, false);
            while at < events.len() && events[at].0 == time {
                let (_, start, change) = events[at];
                starting |= start;
                ending |= !start;
                used += change;
                at += 1;
            }
            if ending && let Some(start) = open.take() {
                starts.push(start);
            }
            if starting {
                open = (used > i128::from(limit)).then_some(time);
            } else if ending {
                open = None;
            }
        }
        Self { starts }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The kept times in an interval.
    pub(super) fn within(&self, times: &Range<usize>) -> Range<usize> {
        let first = self.starts.partition_point(|start| *start < times.start);
        let end = self.starts.partition_point(|start| *start < times.end);
        first..end.max(first)
    }
}
