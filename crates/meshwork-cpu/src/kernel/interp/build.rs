//! From a checked body to a program for the interpreter: places for values, loops for operations.

use meshwork_ir::hash::HashMap;

use super::reduce::{self, MOST};
use super::{Code, Instr, Place, Program, Reduction, TILE, far, far_apart, table};
use crate::kernel::error::KernelError;
use crate::kernel::ir::{Access, Body, Extent, Op, Phase, Ty, Val};
use crate::kernel::lanes;
use crate::kernel::uses::Uses;

/// Lays out `body`; `types` are those that the check gave.
pub fn build(body: &Body, types: &[Vec<Option<Ty>>]) -> Result<Program, KernelError> {
    let scalars = 0;
    let mut layout = Layout { bytes: (8 * usize::from(body.scalars)).next_multiple_of(64) };
    let mut constants = Constants::default();
    let mut phases = vec![];
    let mut most = layout.bytes;
    // Constants stay for the whole call, so they are below the tiles of all phases.
    for phase in &body.phases {
        let last = Uses::of(phase).last;
        for (at, op) in phase.ops.iter().enumerate() {
            if let (Op::Const(ty, bits), true) = (*op, last[at] > at) {
                constants.place(&mut layout, ty, bits);
            }
        }
    }
    let first = layout.bytes;
    for (phase, types) in body.phases.iter().zip(types) {
        let layout = Layout { bytes: first };
        let mut builder =
            Builder { body, phase, types, layout, constants: &constants, free: HashMap::default(), stays: false };
        phases.push(builder.phase()?);
        most = most.max(builder.layout.bytes);
    }
    let temps = body.temps.iter().map(|ty| ty.size()).collect();
    let listed = body.args.iter().map(|a| a.access == Access::Listed).collect();
    Ok(Program { constants: constants.code, phases, temps, scalars, listed, bytes: most })
}

struct Layout {
    bytes: usize,
}

impl Layout {
    fn tile(&mut self, size: usize) -> usize {
        self.bytes += size * TILE;
        self.bytes - size * TILE
    }
}

#[derive(Default)]
struct Constants {
    code: Vec<Instr>,
    places: HashMap<(Ty, u64), usize>,
}

impl Constants {
    fn place(&mut self, layout: &mut Layout, ty: Ty, bits: u64) {
        self.places.entry((ty, bits)).or_insert_with(|| {
            let dst = layout.tile(ty.size());
            self.code.push(Instr::Const { dst, bits, size: ty.size() });
            dst
        });
    }
}

struct Builder<'a> {
    body: &'a Body,
    phase: &'a Phase,
    types: &'a [Option<Ty>],
    layout: Layout,
    constants: &'a Constants,
    /// Tiles by element size that hold nothing any more.
    free: HashMap<usize, Vec<usize>>,
    /// Whether the present value must keep its tile for the whole phase.
    stays: bool,
}

impl Builder<'_> {
    fn ty(&self, v: Val) -> Ty {
        self.types[usize::from(v)].unwrap_or(Ty::Pred)
    }

    fn take(&mut self, size: usize) -> usize {
        let reused = if self.stays { None } else { self.free.get_mut(&size).and_then(Vec::pop) };
        reused.unwrap_or_else(|| self.layout.tile(size))
    }

    /// Per value, whether it is the same all along the row.
    fn uniform(&self) -> Vec<bool> {
        let mut out: Vec<bool> = vec![];
        for op in &self.phase.ops {
            let same = match *op {
                Op::Const(..) | Op::Scalar(..) => true,
                Op::Load(arg) => {
                    let arg = &self.body.args[usize::from(arg)];
                    matches!(arg.access, Access::Zero | Access::Fixed) && !arg.output
                }
                Op::LoadTemp(..) | Op::Index(..) => false,
                _ => !op.is_effect() && op.operands().all(|a| out[usize::from(a)]),
            };
            out.push(same || self.phase.extent == Extent::Once);
        }
        out
    }

    fn phase(&mut self) -> Result<Code, KernelError> {
        let phase = self.phase;
        let uniform = self.uniform();
        let uses = Uses::of(phase);
        let mut code = Code { extent: phase.extent, uniform: vec![], tile: vec![], reductions: vec![] };
        let mut places: Vec<Place> = vec![];
        // Tiles whose value is last used by an op.
        let mut dying: HashMap<usize, Vec<(usize, usize)>> = HashMap::default();
        for (at, &op) in phase.ops.iter().enumerate() {
            let mut out = vec![];
            self.stays = uniform[at];
            let place = self.op(at, op, &places, &uses, &mut out, &mut code.reductions)?;
            places.push(place);
            if let (Place::Tile(dst), Some(ty), false) = (place, self.types[at], matches!(op, Op::Bitcast(..))) {
                if matches!(op, Op::Scalar(..)) {
                    out.push(Instr::Fill { dst, size: ty.size() });
                }
                if !uniform[at] {
                    dying.entry(uses.last[at]).or_default().push((ty.size(), dst));
                }
            }
            for (size, tile) in dying.remove(&at).unwrap_or_default() {
                self.free.entry(size).or_default().push(tile);
            }
            if uniform[at] { code.uniform.append(&mut out) } else { code.tile.append(&mut out) }
        }
        Ok(code)
    }

    /// Emits one op and returns the location of its value.
    fn op(
        &mut self,
        at: usize,
        op: Op,
        places: &[Place],
        uses: &Uses,
        out: &mut Vec<Instr>,
        reductions: &mut Vec<Reduction>,
    ) -> Result<Place, KernelError> {
        let place = |v: Val| places[usize::from(v)];
        let nowhere = Place::Tile(0);
        let size = self.types[at].map_or(0, Ty::size);
        let found = match op {
            Op::Const(ty, bits) => {
                return Ok(self.constants.places.get(&(ty, bits)).map_or(nowhere, |&at| Place::Tile(at)));
            }
            Op::Scalar(scalar, _) => {
                let dst = self.take(size);
                out.push(Instr::Scalar { dst, scalar, size });
                return Ok(Place::Tile(dst));
            }
            Op::Load(arg) => return Ok(self.load(at, arg, uses, out)),
            Op::LoadAt(arg, at) => {
                let elem = self.body.args[usize::from(arg)].elem;
                let Some(convert) = table::load(elem) else {
                    let dst = self.take(size);
                    out.push(Instr::LoadAt { arg, size, at: place(at), dst });
                    return Ok(Place::Tile(dst));
                };
                // A tile of its own, since the result of the conversion must not overlap it.
                let stored = elem.storage_bytes();
                let raw = self.layout.tile(stored);
                out.push(Instr::LoadAt { arg, size: stored, at: place(at), dst: raw });
                let dst = self.take(size);
                out.push(Instr::Map { f: convert.best(), dst, src: [Place::Tile(raw); 3] });
                return Ok(Place::Tile(dst));
            }
            Op::StoreAt(arg, at, a) => {
                out.push(Instr::StoreAt { arg, size: self.ty(a).size(), at: place(at), src: place(a) });
                return Ok(nowhere);
            }
            Op::LoadTemp(temp, _) => {
                let from = Place::Temp(temp, size);
                if uses.overwritten(at) {
                    let dst = self.take(size);
                    out.push(Instr::Copy { dst, src: from, size });
                    return Ok(Place::Tile(dst));
                }
                return Ok(from);
            }
            Op::Index(dim, ty) => {
                let dst = self.take(size);
                out.push(Instr::Index { dim, ty, dst });
                return Ok(Place::Tile(dst));
            }
            Op::Bitcast(_, a) => return Ok(place(a)),
            Op::Store(arg, a) => {
                let arg_is = &self.body.args[usize::from(arg)];
                let size = arg_is.elem.storage_bytes();
                let unit = arg_is.access.is_unit();
                let f = table::store(arg_is.elem).map(|f| f.best());
                let tmp = if f.is_some() && !unit { self.layout.tile(size) } else { 0 };
                out.push(Instr::Store { arg, f, src: place(a), tmp, size, unit });
                return Ok(nowhere);
            }
            Op::StoreTemp(temp, a) => {
                out.push(Instr::StoreTemp { temp, src: place(a), size: self.ty(a).size() });
                return Ok(nowhere);
            }
            Op::SetScalar(scalar, a) => {
                out.push(Instr::SetScalar { scalar, src: place(a), size: self.ty(a).size() });
                return Ok(nowhere);
            }
            Op::Reduce(how, scalar, a) => {
                let ty = self.ty(a);
                let lanes = lanes::lanes(self.types);
                let missing = KernelError::Missing { op, ty };
                let (Some(accumulate), Some(fold)) = (reduce::accumulate(how, ty), reduce::fold(how, ty)) else {
                    return Err(missing);
                };
                let acc = self.layout.bytes;
                self.layout.bytes += 2 * MOST * 8;
                out.push(Instr::Accumulate { reduction: reductions.len(), src: place(a) });
                reductions.push(Reduction {
                    accumulate: accumulate.best(),
                    fold: fold.best(),
                    acc,
                    second: acc + MOST * 8,
                    identity: ty.identity(how),
                    size: ty.size(),
                    lanes,
                    group: lanes * lanes::interleave(self.phase),
                    blocks: lanes::folds(how, ty),
                    scalar,
                });
                return Ok(nowhere);
            }
            Op::Unary(f, a) => table::unary(f, self.ty(a)),
            Op::Binary(f, a, _) => table::binary(f, self.ty(a)),
            Op::Compare(f, a, _) => Some(table::compare(f, self.ty(a))),
            Op::Select(_, a, _) => Some(table::select(self.ty(a).size())),
            Op::MulAdd(a, _, _) => table::mul_add(self.ty(a)),
            Op::FarApart(f, a, ..) => far_apart(f, self.ty(a)),
            Op::Far(f, a, _) => far(f, self.ty(a)),
            Op::Convert(to, a) => Some(table::convert(self.ty(a), to)),
            Op::Round(elem, _) => table::round(elem),
        };
        let operands: Vec<Val> = op.operands().collect();
        let ty = operands.first().map_or(Ty::Pred, |&a| self.ty(a));
        let f = found.ok_or(KernelError::Missing { op, ty })?.best();
        let mut src = [nowhere; 3];
        for (slot, &a) in src.iter_mut().zip(&operands) {
            *slot = place(a);
        }
        let dst = self.take(size);
        out.push(Instr::Map { f, dst, src });
        Ok(Place::Tile(dst))
    }

    fn load(&mut self, at: usize, arg: u16, uses: &Uses, out: &mut Vec<Instr>) -> Place {
        let arg_is = self.body.args[usize::from(arg)];
        let (size, lane) = (arg_is.elem.storage_bytes(), self.types[at].map_or(0, Ty::size));
        let convert = table::load(arg_is.elem).map(|f| f.best());
        let raw = Place::Arg(arg);
        let raw = match arg_is.access {
            Access::Unit | Access::Listed if convert.is_some() || !uses.overwritten(at) => raw,
            Access::Unit | Access::Listed => {
                let dst = self.take(size);
                out.push(Instr::Copy { dst, src: raw, size });
                return Place::Tile(dst);
            }
            Access::Zero | Access::Fixed | Access::Pair | Access::Triple | Access::Strided => {
                // A tile of its own where a conversion follows, since the result must not overlap it.
                let dst = if convert.is_some() { self.layout.tile(size) } else { self.take(size) };
                out.push(Instr::Gather { arg, size, dst });
                Place::Tile(dst)
            }
        };
        match convert {
            None => raw,
            Some(f) => {
                let dst = self.take(lane);
                out.push(Instr::Map { f, dst, src: [raw; 3] });
                Place::Tile(dst)
            }
        }
    }
}
