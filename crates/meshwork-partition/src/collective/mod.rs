//! Collectives as data: which devices exchange data, kept as atoms until the program is written out.

mod accumulate;
mod combine;
mod gathers;
mod linear;
pub(crate) mod optimize;
mod repeat;
pub(crate) mod rings;
mod sums;

use std::borrow::Cow;

use meshwork_ir::attr::ChannelHandle;
use meshwork_ir::{Attr, Dense, ElementType, Literal, Module, OpId, ValueId};

use crate::layout::atoms::{AtomList, Atoms};
use crate::layout::meshes::DevicePairs;
use meshwork_ir::Combine;

pub use combine::DEFAULT_COMBINE_BYTES;
pub(crate) use combine::Limit;

/// What a collective does with the local operand.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CollectiveKind {
    /// Concatenates the group's operands along a dimension.
    AllGather,
    /// Combines the group's operands.
    AllReduce(Combine),
    /// Combines and keeps one block of a dimension.
    ReduceScatter(Combine),
    /// Splits one dimension and joins another.
    AllToAll,
    /// Sends pieces whose lengths are known at run time only.
    RaggedAllToAll,
    /// Sends the operand to another device.
    Permute,
}

impl CollectiveKind {
    /// The name used in plans and statistics.
    pub fn name(&self) -> &'static str {
        match self {
            CollectiveKind::AllGather => "all-gather",
            CollectiveKind::AllReduce(_) => "all-reduce",
            CollectiveKind::ReduceScatter(_) => "reduce-scatter",
            CollectiveKind::AllToAll => "all-to-all",
            CollectiveKind::RaggedAllToAll => "ragged-all-to-all",
            CollectiveKind::Permute => "collective-permute",
        }
    }
}

/// Which devices take part together.
#[derive(Clone, PartialEq, Debug)]
pub enum Peers {
    /// Devices that differ in these atoms form a group, ordered by their index along the list.
    Group(AtomList),
    /// Shards along a list of atoms send to other shards of the same line: `from` sends to `to`.
    Line {
        /// The line.
        atoms: AtomList,
        /// Pairs of shard indices.
        moves: Vec<(i64, i64)>,
    },
    /// Every device sends its shard to where it belongs after atoms trade places: the coordinate in the first atom
    /// of a pair becomes the coordinate in the second.
    Relabel(Vec<(u8, u8)>),
    /// Each device sends to another, as between meshes of different device orders.
    Devices(DevicePairs),
    /// Devices that the program names itself.
    Given {
        /// Devices per group.
        group: i64,
        /// What the devices of a group differ in, if the program says so; empty if it lists them.
        atoms: AtomList,
        /// Share of devices that send, for permutes.
        share: f64,
    },
}

impl Peers {
    /// The share of devices that send something to another device.
    pub fn sending_share(&self, atoms: &Atoms) -> f64 {
        match self {
            Peers::Group(list) => f64::from(u8::from(atoms.product(list) > 1)),
            Peers::Given { share, .. } => *share,
            Peers::Devices(pairs) => {
                pairs.iter().filter(|(a, b)| a != b).count() as f64 / atoms.mesh().device_count() as f64
            }
            Peers::Line { atoms: list, moves } => {
                moves.iter().filter(|(a, b)| a != b).count() as f64 / atoms.product(list) as f64
            }
            Peers::Relabel(pairs) => {
                // A device stays silent when its coordinates are unchanged: all atoms of a cycle agree.
                let mut seen = vec![];
                let mut fixed = 1.0;
                for &(start, _) in pairs {
                    if seen.contains(&start) {
                        continue;
                    }
                    let (mut at, mut length) = (start, 0);
                    loop {
                        seen.push(at);
                        length += 1;
                        match pairs.iter().find(|(from, _)| *from == at) {
                            Some(&(_, next)) if next != start => at = next,
                            _ => break,
                        }
                    }
                    fixed /= (atoms.size(start) as f64).powi(length - 1);
                }
                1.0 - fixed
            }
        }
    }

    /// Device groups, a row each, for the collectives that take groups.
    pub fn groups(&self, atoms: &Atoms) -> Option<Literal> {
        let Peers::Group(list) = self else { return None };
        let line = atoms.line(list);
        let first = first_of_lines(list, atoms);
        let ids: Vec<i64> = first.iter().flat_map(|&p| line.iter().map(move |&q| atoms.device(p + q))).collect();
        i64_matrix(&ids, line.len() as i64)
    }

    /// Source-target pairs for a permute.
    pub fn pairs(&self, atoms: &Atoms) -> Option<Literal> {
        let mut ids = vec![];
        let count = atoms.mesh().device_count();
        match self {
            Peers::Group(_) | Peers::Given { .. } => return None,
            Peers::Devices(pairs) => ids.extend(pairs.iter().flat_map(|&(from, to)| [from, to])),
            Peers::Line { atoms: list, moves } => {
                let line = atoms.line(list);
                let mut targets = vec![vec![]; line.len()];
                for &(from, to) in moves {
                    let (from, to) = (from as usize, to as usize);
                    targets[from].push(line[to] - line[from]);
                }
                let mut index = vec![0; count as usize];
                for first in first_of_lines(list, atoms) {
                    line.iter().enumerate().for_each(|(t, &p)| index[(first + p) as usize] = t);
                }
                for (position, &t) in (0..count).zip(&index) {
                    for &distance in &targets[t] {
                        ids.extend([position, position + distance].map(|p| atoms.device(p)));
                    }
                }
            }
            Peers::Relabel(pairs) => {
                for position in 0..count {
                    let target = pairs.iter().fold(position, |target, &(from, to)| {
                        let (f, t) = (atoms.info(from), atoms.info(to));
                        let coordinate = (position / f.stride) % f.size;
                        target + (coordinate - (position / t.stride) % t.size) * t.stride
                    });
                    // A device keeps its own shard by sending it to itself: a permute leaves zeros otherwise.
                    ids.extend([position, target].map(|p| atoms.device(p)));
                }
            }
        }
        i64_matrix(&ids, 2)
    }
}

/// The positions with index 0 along `list`, in mesh order: where each group or line starts.
fn first_of_lines(list: &[u8], atoms: &Atoms) -> Vec<i64> {
    atoms.line(&atoms.without(list))
}

fn i64_matrix(ids: &[i64], columns: i64) -> Option<Literal> {
    let mut bytes = Vec::with_capacity(ids.len() * 8);
    ids.iter().for_each(|i| bytes.extend_from_slice(&i.to_le_bytes()));
    Literal::from_bytes([ids.len() as i64 / columns.max(1), columns], ElementType::I64, bytes)
}

/// The `dense` attribute of a matrix of device ids.
pub fn matrix_attr(matrix: &Literal) -> Attr {
    Attr::Dense(std::sync::Arc::new(Dense::from_literal(matrix)))
}

/// The place of the global program that needs a collective.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Site {
    /// An operation.
    Op(OpId),
    /// A result of the function, which is returned in a placement of its own.
    Result(usize),
}

impl Default for Site {
    fn default() -> Self {
        Site::Result(0)
    }
}

/// What needed a collective, in ids of the global program.
#[derive(Clone, PartialEq, Debug)]
pub struct Origin {
    /// The place that needs it.
    pub site: Site,
    /// The value that moves.
    pub tensor: Option<ValueId>,
    /// Why it moves.
    pub reason: Cow<'static, str>,
    /// Bytes a device sends for it each time.
    pub wire_bytes: f64,
}

/// One collective of a plan.
#[derive(Clone, PartialEq, Debug)]
pub struct Collective {
    /// What it does.
    pub kind: CollectiveKind,
    /// Who takes part.
    pub peers: Peers,
    /// Bytes of the local operands.
    pub operand_bytes: i64,
    /// Bytes a device sends under the ring model, on average over the devices.
    pub wire_bytes: f64,
    /// How often it runs: the product of the trip counts of the loops around it.
    pub times: i64,
    /// Whether a loop around it has a trip count that is not known (counted once).
    pub times_unknown: bool,
    /// The operation of the per-device program.
    pub emitted: OpId,
    /// What needs it: one entry, or one for each collective that was combined into this one.
    pub origins: Vec<Origin>,
}

/// Writes the device lists and channel numbers of `collectives` into the operations of `module`.
pub fn write_device_lists(module: &mut Module, collectives: &[Collective], atoms: &Atoms) {
    let mut known: Vec<(&Peers, Attr)> = vec![];
    let first_free = 1 + explicit_channels(module, collectives);
    for (i, c) in collectives.iter().enumerate() {
        let name = match &c.peers {
            Peers::Group(_) => "replica_groups",
            Peers::Line { .. } | Peers::Relabel(_) | Peers::Devices(_) => "source_target_pairs",
            // The program wrote them.
            Peers::Given { .. } => continue,
        };
        let list = match known.iter().find(|(peers, _)| *peers == &c.peers) {
            Some((_, list)) => list.clone(),
            None => {
                let Some(matrix) = c.peers.groups(atoms).or_else(|| c.peers.pairs(atoms)) else { continue };
                let list = matrix_attr(&matrix);
                known.push((&c.peers, list.clone()));
                list
            }
        };
        // Channel ids distinguish the collectives of a program; type 1 is device to device.
        let channel = ChannelHandle { handle: first_free + i as i64, channel_type: 1 };
        let attrs = &mut module.op_mut(c.emitted).attrs;
        attrs.set(name, list);
        attrs.set("channel_handle", Attr::Channel(channel));
    }
}

/// The highest channel number that the program uses itself.
fn explicit_channels(module: &Module, collectives: &[Collective]) -> i64 {
    let given = collectives.iter().filter(|c| matches!(c.peers, Peers::Given { .. }));
    let channels = given.filter_map(|c| match module.op(c.emitted).attr("channel_handle") {
        Some(Attr::Channel(channel)) => Some(channel.handle),
        _ => None,
    });
    channels.max().unwrap_or(0).max(0)
}

/// Bytes a device sends under the ring model.
pub fn wire_bytes(kind: &CollectiveKind, peers: &Peers, operand_bytes: i64, atoms: &Atoms) -> f64 {
    let bytes = operand_bytes as f64;
    let group = match peers {
        Peers::Group(list) => atoms.product(list) as f64,
        Peers::Given { group, .. } => *group as f64,
        Peers::Line { .. } | Peers::Relabel(_) | Peers::Devices(_) => 1.0,
    };
    match kind {
        CollectiveKind::AllGather => (group - 1.0) * bytes,
        CollectiveKind::AllReduce(_) => 2.0 * (group - 1.0) / group * bytes,
        CollectiveKind::ReduceScatter(_) | CollectiveKind::AllToAll => (group - 1.0) / group * bytes,
        // At most: what a device keeps is not known.
        CollectiveKind::RaggedAllToAll => bytes,
        CollectiveKind::Permute => bytes * peers.sending_share(atoms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_mesh::Mesh;

    fn i64s(l: Literal) -> Vec<i64> {
        (0..l.len()).map(|i| l.get_i64(i)).collect()
    }

    #[test]
    fn groups_follow_the_order_of_the_list() {
        let atoms = Atoms::of(&Mesh::new([("x", 2), ("y", 2)]).unwrap());
        let groups = |list: &[u8]| i64s(Peers::Group(list.iter().copied().collect()).groups(&atoms).unwrap());
        assert_eq!(groups(&[0]), [0, 2, 1, 3]);
        assert_eq!(groups(&[1, 0]), [0, 2, 1, 3]);
        assert_eq!(groups(&[0, 1]), [0, 1, 2, 3]);
    }

    #[test]
    fn relabel_swaps_coordinates() {
        let atoms = Atoms::of(&Mesh::new([("x", 2), ("y", 2)]).unwrap());
        let peers = Peers::Relabel(vec![(0, 1), (1, 0)]);
        assert_eq!(i64s(peers.pairs(&atoms).unwrap()), [0, 0, 1, 2, 2, 1, 3, 3]);
        assert_eq!(peers.sending_share(&atoms), 0.5);
    }

    #[test]
    fn line_moves_stay_in_their_line() {
        let atoms = Atoms::of(&Mesh::new([("x", 2), ("y", 2)]).unwrap());
        let peers = Peers::Line { atoms: [1].into_iter().collect(), moves: vec![(0, 1)] };
        assert_eq!(i64s(peers.pairs(&atoms).unwrap()), [0, 1, 2, 3]);
        assert_eq!(peers.sending_share(&atoms), 0.5);
    }
}
