//! Writing a loop that exchanges halos beside the interior of its blocks.
//!
//! A turn is written several times, each for a piece of the block: the interior, which reads the block alone, and the slabs along its sides,
//! which read halos. Along the first line slabs are as wide as the block, along the next they lie between those, and so on:
//!
//! ```text
//! front front front front
//! front  . interior .  behind      lines 0 (down) and 1 (across)
//! front  . interior .  behind
//! behind behind behind behind
//! ```
//!
//! What each piece reads is followed from its results backwards, so that only halos that are read are exchanged: those across corners
//! only if some element reads along two lines at once.

use std::rc::Rc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::MovementOp;
use meshwork_ir::{OpId, OpKind, ValueId};
use meshwork_mesh::sort_by_key;

use super::super::{Result, Splitter};
use super::reach::{Along, Line, Spans, WideLoop, is_outside, wanted_of};
use super::round::{Elements, Outside, Round};

/// The elements along each dimension that are read of arrays of the loop, and of arrays from outside by their number in the plan.
#[derive(Default)]
struct Reads {
    carried: HashMap<ValueId, Vec<Vec<Elements>>>,
    outside: HashMap<usize, Vec<Vec<Elements>>>,
}

/// A part of each block.
struct Piece {
    /// The line at whose ends it lies; none for the interior.
    line: Option<usize>,
    /// By line, which elements of the block.
    elements: Vec<Elements>,
}

/// How a piece is written.
struct Part<'p> {
    piece: Piece,
    round: Round<'p>,
    /// What each array of the loop is to hold; none for those that it has no part in.
    wanted: Vec<Option<Vec<Along>>>,
}

/// The dimension that lies along `line`.
fn along_line(along: &[Along], line: usize) -> Option<usize> {
    along.iter().position(|a| matches!(a, Along::Line { line: l, .. } if *l == line))
}

/// The pieces of a block, the interior first, then from the last line to the first what is in front of it and behind it. `None` if there
/// is no interior.
fn pieces(s: &Splitter<'_>, plan: &WideLoop) -> Option<Vec<Piece>> {
    let middle: Vec<Elements> = plan.lines.iter().map(|l| (l.reach.0, l.inside(s.atoms) - l.reach.1)).collect();
    if middle.iter().any(|(from, to)| from >= to) {
        return None;
    }
    let mut out = vec![Piece { line: None, elements: middle.clone() }];
    for line in (0..plan.lines.len()).rev() {
        let ((from, to), block) = (middle[line], plan.lines[line].block);
        for ends in [(0, from), (to, block)].into_iter().filter(|(from, to)| from < to) {
            let of = |l: usize| match l.cmp(&line) {
                std::cmp::Ordering::Less => middle[l],
                std::cmp::Ordering::Equal => ends,
                std::cmp::Ordering::Greater => (0, plan.lines[l].block),
            };
            out.push(Piece { line: Some(line), elements: (0..plan.lines.len()).map(of).collect() });
        }
    }
    Some(out)
}

impl Splitter<'_> {
    /// Whether the loop of `plan` has an interior that needs no exchange.
    pub(super) fn has_interior(&self, plan: &WideLoop) -> bool {
        let args = self.src.block(plan.body).args();
        let in_place = args.iter().zip(&plan.layouts).filter_map(|(arg, layout)| Some((plan.spans.get(arg)?, layout)));
        let on_blocks = in_place.flat_map(|(along, layout)| along.iter().zip(&layout.dims)).all(|(a, frame)| match a {
            Along::Whole => true,
            Along::Line { line, .. } => frame.block == plan.lines[*line].block && frame.offset == 0,
        });
        on_blocks && pieces(self, plan).is_some()
    }

    /// The values that the loop of `plan` ends with, if halos are exchanged beside the interior.
    pub(super) fn write_overlapped(&mut self, plan: &WideLoop) -> Result<Vec<ValueId>> {
        let Some(pieces) = pieces(self, plan) else {
            return self.unsupported(plan.op, "internal error: its blocks have no interior");
        };
        let values = self.carried(plan)?;
        let mut read = Reads::default();
        let mut parts: Vec<Part<'_>> = pieces.into_iter().map(|piece| self.part(plan, piece, &mut read)).collect();
        for (i, (value, layout)) in self.arrays_from_outside(plan)?.into_iter().enumerate() {
            let (v, along) = &plan.outside[i];
            let extents = self.extents(*v);
            let read = read.outside.get(&i).map_or(&[][..], |read| read);
            let tiles = Rc::new(self.exchange_sides(plan, value, &layout, &extents, along, read));
            parts.iter_mut().for_each(|part| part.round.outside.push(Outside::Tiles(tiles.clone())));
        }
        let share = |(l, piece): (&Line, &Elements)| (piece.1 - piece.0) as f64 / l.block as f64;
        let interior = plan.lines.iter().zip(&parts[0].piece.elements).map(share).product();
        let from = self.collectives.len();
        let made =
            self.repeat_turns(plan.turns, &values, |s, args| s.overlapped_turn(plan, &mut parts, &read, args))?;
        self.give_overlap_reasons(from, interior);
        Ok(made)
    }

    /// How `piece` is written. Adds what it reads to `read`.
    fn part<'p>(&self, plan: &'p WideLoop, piece: Piece, read: &mut Reads) -> Part<'p> {
        let held = piece.elements.iter().zip(&plan.lines).map(|(e, l)| (e.0 - l.reach.0, e.1 + l.reach.1));
        let mut round = Round { held: held.collect(), ..Round::wide(plan, 1) };
        let wanted = self.src.block(plan.body).args().iter().map(|arg| {
            let along = plan.spans.get(arg)?;
            let has_line = piece.line.is_none_or(|line| along_line(along, line).is_some());
            has_line.then(|| along.iter().map(|&a| round.exactly(a, &piece.elements)).collect())
        });
        let wanted: Vec<Option<Vec<Along>>> = wanted.collect();
        let returned = self.src.returned(plan.body).iter().zip(&wanted);
        let asked = returned.filter_map(|(&v, along)| Some((v, along.clone()?))).collect();
        round.spans = self.spans_for(&round, asked, read);
        Part { piece, round, wanted }
    }

    /// One turn: the exchange, the pieces, and the blocks that they make up.
    fn overlapped_turn(
        &mut self,
        plan: &WideLoop,
        parts: &mut [Part<'_>],
        read: &Reads,
        values: &[ValueId],
    ) -> Result<Vec<ValueId>> {
        let args = self.src.block(plan.body).args().to_vec();
        let (results, returned) = (self.src.op(plan.op).results().to_vec(), self.src.returned(plan.body).to_vec());
        self.reason = "the loop reads its halo".into();
        let mut tiles = HashMap::default();
        for (i, &value) in values.iter().enumerate() {
            let Some(along) = plan.spans.get(&args[i]) else { continue };
            let extents = self.extents(results[i]);
            self.tensor = Some(results[i]);
            let read = read.carried.get(&args[i]).map_or(&[][..], |read| read);
            tiles.insert(args[i], self.exchange_sides(plan, value, &plan.layouts[i], &extents, along, read));
        }
        let mut made: Vec<Vec<Option<ValueId>>> = vec![];
        for Part { round, wanted, .. } in parts.iter_mut() {
            std::mem::swap(&mut round.tiles, &mut tiles);
            self.write_ops(round)?;
            let mut out = vec![];
            for (&v, wanted) in returned.iter().zip(wanted) {
                out.push(match wanted {
                    Some(wanted) => Some(self.returned(round, v, wanted)?),
                    None => None,
                });
            }
            made.push(out);
            std::mem::swap(&mut round.tiles, &mut tiles);
        }
        let mut out = vec![];
        for (i, &value) in values.iter().enumerate() {
            let mut joined = made[0][i].unwrap_or(value);
            for line in (0..plan.lines.len()).rev() {
                let Some(d) = plan.spans.get(&args[i]).and_then(|along| along_line(along, line)) else { continue };
                let start = |part: &Part<'_>| part.piece.elements[line].0;
                let at_ends = parts.iter().zip(&made).filter(|(part, _)| part.piece.line == Some(line));
                let mut ends: Vec<(i64, ValueId)> =
                    at_ends.filter_map(|(part, made)| Some((start(part), made[i]?))).collect();
                ends.push((start(&parts[0]), joined));
                sort_by_key(&mut ends, |(from, _)| *from);
                let side_by_side: Vec<ValueId> = ends.into_iter().map(|(_, value)| value).collect();
                joined = self.local.concatenate(&side_by_side, d);
            }
            out.push(joined);
        }
        Ok(out)
    }

    /// What the arrays of a turn have to hold so that values hold what is `asked` of them, and no more. Adds what of the loop's arrays is
    /// read to `read`.
    fn spans_for(&self, round: &Round<'_>, asked: Vec<(ValueId, Vec<Along>)>, read: &mut Reads) -> Spans {
        let mut spans = Spans::default();
        for (v, along) in asked {
            self.ask(round, &mut spans, read, v, &along);
        }
        for op in self.src.op_list(round.plan.body).into_iter().rev() {
            let results = self.src.op(op).results().to_vec();
            let own = results.iter().filter_map(|r| spans.get(r).cloned()).reduce(|a, b| both(&a, &b));
            let Some(along) = own else { continue };
            self.ask_operands(round, &mut spans, read, op, &along);
            for r in results {
                spans.insert(r, along.clone());
            }
        }
        spans
    }

    /// Notes that `v` is to hold `along`. What only moves elements is written wherever it is read, for what is read of it there: a pad that is
    /// read along two lines would reach across the corner else.
    fn ask(&self, round: &Round<'_>, spans: &mut Spans, read: &mut Reads, v: ValueId, along: &[Along]) {
        let plan = round.plan;
        let note = |all: &mut Vec<Vec<Elements>>| {
            let extents = self.extents(v);
            let elements = along.iter().zip(&extents).map(|(&a, &n)| round.elements(a, n)).collect();
            if !all.contains(&elements) {
                all.push(elements);
            }
        };
        if self.src.block(plan.body).args().contains(&v) && plan.spans.contains_key(&v) {
            note(read.carried.entry(v).or_default());
        } else if plan.spans.contains_key(&v) && !self.moves_only(plan, v) {
            let more = spans.get(&v).map(|own| both(own, along));
            spans.insert(v, more.unwrap_or_else(|| along.to_vec()));
        } else if is_outside(self, plan, v) {
            let full: Vec<Along> = along.iter().map(|a| a.full()).collect();
            let outer = plan.outer(v);
            if let Some(i) = plan.outside.iter().position(|(other, along)| *other == outer && *along == full) {
                note(read.outside.entry(i).or_default());
            }
        } else if let Some(op) = self.src.def_op(v) {
            self.ask_operands(round, spans, read, op, along);
        }
    }

    fn ask_operands(&self, round: &Round<'_>, spans: &mut Spans, read: &mut Reads, op: OpId, along: &[Along]) {
        for (v, links) in self.links(op, &round.plan.spans, &round.plan.lines).unwrap_or_default() {
            self.ask(round, spans, read, v, &wanted_of(along, &links));
        }
        for &v in self.src.op(op).operands().iter().filter(|v| self.src.ty(**v).rank() == Some(0)) {
            self.ask(round, spans, read, v, &[]);
        }
    }

    /// Whether `v` is made of the elements of one array, and numbers.
    fn moves_only(&self, plan: &WideLoop, v: ValueId) -> bool {
        let mut moves: usize = 0;
        let mut at = v;
        while let Some(op) = self.src.def_op(at).filter(|&op| self.src.is_inside(op, plan.op)) {
            let data = self.src.op(op);
            at = match data.kind() {
                OpKind::Movement(MovementOp::Slice | MovementOp::Pad | MovementOp::Transpose | MovementOp::Reshape) => {
                    data.operands()[0]
                }
                OpKind::Movement(MovementOp::Concatenate) => match self.rotation(op, &plan.spans, &plan.lines) {
                    Some(rotation) => rotation.source,
                    None => break,
                },
                _ => break,
            };
            moves += 1;
        }
        // Some of a long chain are kept, or each of many readers would write all of it.
        !moves.is_multiple_of(4)
    }
}

/// What holds all that two arrays hold.
fn both(a: &[Along], b: &[Along]) -> Vec<Along> {
    let of = |(a, b): (&Along, &Along)| match (*a, *b) {
        (Along::Line { line, lo, hi }, Along::Line { lo: l, hi: h, .. }) => {
            Along::Line { line, lo: lo.min(l), hi: hi.max(h) }
        }
        (a, _) => a,
    };
    a.iter().zip(b).map(of).collect()
}
