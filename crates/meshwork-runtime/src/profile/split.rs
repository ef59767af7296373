//! Which part of a collective is waiting for others, and which is moving data.
//!
//! A device has come to a collective when what it did before has ended. The collective can begin when the last device of
//! its group has come: until then the others wait, after that data moves. A collective that was started and is awaited
//! later can begin when the last has started it.

use std::collections::HashSet;

use meshwork_ir::hash::HashMap;
use meshwork_mesh::sort_by_key;

use super::gather::Noted;
use super::recorder::What;
use super::{Activity, Event};

/// The events of `noted`, which are in order of their starts. `groups` gives the devices that a collective needs together.
pub(super) fn events<'g>(noted: Vec<Noted>, groups: &impl Fn(u32) -> &'g [Vec<usize>]) -> Vec<Event> {
    let arrivals = Arrivals::new(&noted);
    // These only start at their place and wait for no other device.
    let started: HashSet<u32> = noted.iter().filter(|n| n.raw.what == What::Await).map(|n| n.raw.number).collect();
    let mut turns: HashMap<(What, u32, u32), usize> = HashMap::default();
    // When each device has done all it did so far.
    let mut free: HashMap<u32, u64> = HashMap::default();
    let mut out = vec![];
    for Noted { raw, name, rank } in noted {
        let event = |name: String, activity, start_ns, end_ns| Event {
            name,
            activity,
            rank,
            device: raw.device,
            thread: raw.thread,
            start_ns,
            end_ns,
            bytes: raw.bytes,
        };
        let before = free.get(&raw.device).copied();
        free.entry(raw.device).and_modify(|t| *t = raw.end.max(*t)).or_insert(raw.end);
        match raw.what {
            What::Step => out.push(event(name, Activity::Computing, raw.start, raw.end)),
            What::Allocate => out.push(event(name, Activity::Allocating, raw.start, raw.end)),
            What::Move => out.push(event(name, Activity::Moving, raw.start, raw.end)),
            What::Exchange | What::Await => {
                let turn = turns.entry((raw.what, raw.number, raw.device)).or_default();
                let needs_others = raw.what == What::Await || !started.contains(&raw.number);
                let all_here = arrivals.last(raw.number, raw.device, *turn, groups(raw.number));
                let all_here = all_here.filter(|_| needs_others);
                *turn += 1;
                let come = before.map_or(raw.start, |t| t.min(raw.start));
                let begins = all_here.map_or(raw.start, |t| t.clamp(raw.start, raw.end.max(raw.start)));
                if begins > come {
                    out.push(event(format!("wait for {name}"), Activity::Waiting, come, begins));
                }
                out.push(event(name, Activity::Moving, begins, raw.end.max(begins)));
            }
        }
    }
    sort_by_key(&mut out, |e| (e.start_ns, e.end_ns, e.device));
    out
}

/// When each device began each collective, in order.
struct Arrivals(HashMap<(u32, u32), Vec<u64>>);

impl Arrivals {
    fn new(noted: &[Noted]) -> Arrivals {
        let mut begun: HashMap<(u32, u32), Vec<u64>> = HashMap::default();
        for Noted { raw, .. } in noted.iter().filter(|n| n.raw.what == What::Exchange) {
            begun.entry((raw.number, raw.device)).or_default().push(raw.start);
        }
        Arrivals(begun)
    }

    /// When the last of those that `device` needs began the collective for the `turn`-th time.
    fn last(&self, number: u32, device: u32, turn: usize, groups: &[Vec<usize>]) -> Option<u64> {
        let own = groups.iter().filter(|g| g.contains(&(device as usize))).flatten();
        let began = |&d: &usize| self.0.get(&(number, d as u32))?.get(turn).copied();
        own.filter_map(began).max()
    }
}

#[cfg(test)]
mod tests {
    use super::super::recorder::Raw;
    use super::*;

    fn noted(what: What, device: u32, start: u64, end: u64) -> Noted {
        let raw = Raw { what, number: 0, device, thread: 0, start, end, bytes: 0 };
        Noted { raw, name: if what == What::Step { "dot" } else { "sum" }.into(), rank: device }
    }

    fn seen(mut list: Vec<Noted>, device: u32) -> Vec<(String, Activity, u64, u64)> {
        let groups = [vec![0, 1], vec![2]];
        list.sort_by_key(|n| n.raw.start);
        let all = events(list, &|_| &groups);
        let own = all.into_iter().filter(|e| e.device == device);
        own.map(|e| (e.name, e.activity, e.start_ns, e.end_ns)).collect()
    }

    #[test]
    fn the_first_waits_for_the_last_of_its_group() {
        let list = || {
            vec![
                noted(What::Step, 0, 0, 10),
                noted(What::Exchange, 0, 12, 50),
                noted(What::Step, 1, 0, 30),
                noted(What::Exchange, 1, 31, 50),
                noted(What::Step, 2, 0, 60),
                noted(What::Exchange, 2, 60, 61),
                // The second turn, which no device waits for.
                noted(What::Exchange, 0, 50, 55),
                noted(What::Exchange, 1, 50, 56),
            ]
        };
        use Activity::{Computing, Moving, Waiting};
        let event = |name: &str, activity, start, end| (name.to_string(), activity, start, end);
        assert_eq!(
            seen(list(), 0),
            [
                event("dot", Computing, 0, 10),
                event("wait for sum", Waiting, 10, 31),
                event("sum", Moving, 31, 50),
                event("sum", Moving, 50, 55),
            ]
        );
        // The last waits only until the collective is begun for it.
        assert_eq!(seen(list(), 1)[1..3], [event("wait for sum", Waiting, 30, 31), event("sum", Moving, 31, 50)]);
        assert_eq!(seen(list(), 2)[1..], [event("sum", Moving, 60, 61)]);
    }

    #[test]
    fn what_was_started_is_waited_for_only_at_its_end() {
        let list = vec![
            noted(What::Exchange, 0, 0, 1),
            noted(What::Step, 0, 1, 20),
            noted(What::Await, 0, 20, 45),
            noted(What::Exchange, 1, 40, 41),
            noted(What::Await, 1, 41, 44),
        ];
        let activities: Vec<_> = seen(list.clone(), 0).into_iter().map(|(_, a, s, e)| (a, s, e)).collect();
        use Activity::{Computing, Moving, Waiting};
        // Device 1 has not come while device 0 sends, which takes nobody else.
        assert_eq!(activities[..2], [(Moving, 0, 1), (Computing, 1, 20)]);
        assert_eq!(activities[2..], [(Waiting, 20, 40), (Moving, 40, 45)]);
        assert_eq!(seen(list, 1).iter().map(|e| e.1).collect::<Vec<_>>(), [Moving, Moving]);
    }
}
