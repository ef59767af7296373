//! Loads and stores: of arrays, of truth values, of scalars, and the numbers of elements.

use meshwork_ir::ElementType;

use super::code::{Code, log2};
use super::inst::{Home, Inst, NONE, V, op};
use super::lower::{Lower, Mode};
use super::triple;
use crate::kernel::Stores;
use crate::kernel::ir::{Access, Op, Ty, Val};

impl Lower<'_> {
    pub(super) fn unit_load(&self, code: &mut Code<'_>, arg: u16, size: usize, mode: Mode, u: usize) -> V {
        let scale = log2(size);
        if mode == Mode::Rest {
            let dst = code.fresh(size);
            code.insts.push(Inst::LoadRest { dst, mask: self.rest_mask(size), arg, scale });
            return dst;
        }
        let home = Home::Arg { arg, ahead: (u * self.lanes) as i32, scale };
        let width = code.width(size);
        code.unit.value(width, home)
    }

    pub(super) fn rest_mask(&self, size: usize) -> V {
        // Narrow elements are moved byte by byte.
        if size >= 4 { self.rest_masks[usize::from(log2(size))] } else { NONE }
    }

    pub(super) fn load(&mut self, code: &mut Code<'_>, at: usize, arg: u16, mode: Mode, u: usize) -> Option<V> {
        let arg_is = self.body.args[usize::from(arg)];
        let size = arg_is.elem.storage_bytes();
        let scale = log2(size);
        if self.uniform[at] {
            return Some(self.spread(code, arg, arg_is.elem));
        }
        let raw = match arg_is.access {
            Access::Unit | Access::Listed => self.unit_load(code, arg, size, mode, u),
            Access::Pair if mode != Mode::Rest && code.width(size) >= if size >= 4 { 16 } else { 8 } => {
                let dst = code.fresh(size);
                let mask = if size >= 4 { NONE } else { code.unit.splat(2 * size, (1 << (8 * size)) - 1) };
                code.insts.push(Inst::LoadPair { dst, mask, arg, ahead: (u * self.lanes) as i32, scale });
                dst
            }
            Access::Zero | Access::Fixed | Access::Pair | Access::Triple | Access::Strided => {
                let dst = code.fresh(size);
                let ahead = (u * self.lanes) as i32;
                if arg_is.access == Access::Triple
                    && matches!(mode, Mode::Group(_) | Mode::Last)
                    && let Some(masks) = triple::masks(code.unit, self.lanes, size)
                {
                    code.insts.push(Inst::LoadTriple { dst, masks, arg, ahead, scale });
                    return Some(self.loaded(code, at, arg_is.elem, dst));
                }
                code.insts.push(Inst::Gather { dst, arg, ahead, scale, count: self.count(mode) });
                dst
            }
        };
        Some(self.loaded(code, at, arg_is.elem, raw))
    }

    /// What lanes hold for elements of type `elem` that were read as `raw`.
    pub(super) fn loaded(&self, code: &mut Code<'_>, at: usize, elem: ElementType, raw: V) -> V {
        match elem {
            ElementType::I1 => self.load_mask(code, at, raw),
            ElementType::BF16 => code.widen_bf16(raw),
            ElementType::F16 => code.widen_f16(raw),
            _ => {
                if matches!(code.unit.values[raw as usize].home, Home::Arg { .. }) && self.uses.overwritten(at) {
                    code.insts.push(Inst::Touch(raw));
                }
                raw
            }
        }
    }

    /// The one element of `arg` in all lanes.
    pub(super) fn spread(&self, code: &mut Code<'_>, arg: u16, elem: ElementType) -> V {
        if elem == ElementType::I1 {
            let dst = code.unit.value(32, Home::None);
            code.insts.push(Inst::SpreadMask { dst, arg });
            return dst;
        }
        self.spread_at(code, arg, elem, (NONE, 0))
    }

    /// Bytes that are zero or not, as a mask of the size that is wanted.
    pub(super) fn load_mask(&self, code: &mut Code<'_>, at: usize, raw: V) -> V {
        let size = self.wanted[at].max(1);
        let zero = code.unit.zero();
        if size == 1 {
            let none = code.both(op::PCMPEQ[0], 1, raw, zero);
            // The load stays where it is even if a store follows: this reads it at once.
            let v = code.not(1, none);
            return code.mark_mask(v, 1);
        }
        let wide = code.widen(raw, 1, size, false);
        let v = code.rvm(op::PCMPGT[usize::from(log2(size))], size, wide, zero);
        code.mark_mask(v, size)
    }

    pub(super) fn index(&mut self, code: &mut Code<'_>, dim: u8, ty: Ty, mode: Mode, u: usize) -> V {
        // Floats count in 32-bit integers first.
        let size = if ty.is_float() { 4 } else { ty.size() };
        let scale = log2(size);
        let first = code.unit.value(32, Home::None);
        code.insts.push(Inst::Index { dst: first, dim, ahead: (u * self.lanes) as i32, scale });
        let v = if mode == Mode::Uniform {
            first
        } else {
            let slot = *self.steps.entry((dim, scale)).or_insert_with(|| code.unit.frame.slot());
            let steps = code.unit.value(32, Home::Slot(slot));
            code.both(op::PADD[usize::from(scale)], size, first, steps)
        };
        if ty.is_float() { code.i32_to_float(ty, v) } else { v }
    }

    /// A mask as bytes 0 and 1.
    pub(super) fn store_mask(&self, code: &mut Code<'_>, v: V) -> V {
        let (bytes, one) = (code.mask(v, 1), code.unit.splat(1, 1));
        code.both(op::PAND, 1, bytes, one)
    }

    pub(super) fn store(&self, code: &mut Code<'_>, arg: u16, a: Val, mode: Mode, u: usize) {
        let arg_is = self.body.args[usize::from(arg)];
        let (v, size) = (self.vals[usize::from(a)][u], arg_is.elem.storage_bytes());
        let raw = match arg_is.elem {
            ElementType::I1 => self.store_mask(code, v),
            ElementType::BF16 => {
                let rounded = matches!(self.phase.ops[usize::from(a)], Op::Round(ElementType::BF16, _));
                code.narrow_bf16(v, rounded)
            }
            ElementType::F16 => code.narrow_f16(v),
            _ => v,
        };
        let scale = log2(size);
        match (arg_is.access, mode) {
            (_, Mode::Uniform) => code.insts.push(Inst::StoreOne { src: raw, arg, scale, place: NONE, disp: 0 }),
            (Access::Unit, _) => self.unit_store(code, arg, raw, size, mode, u),
            (Access::Pair, Mode::Group(_)) if size >= 4 && code.width(size) >= 16 => {
                let mut even = [0; 32];
                even.chunks_exact_mut(2 * size).for_each(|pair| pair[..size].fill(0xFF));
                let (mask, ahead) = (code.unit.bytes(even), (u * self.lanes) as i32);
                let src = self.own_width(code, raw, size);
                code.insts.push(Inst::StorePair { src, mask, arg, ahead, scale });
            }
            _ => {
                let ahead = (u * self.lanes) as i32;
                code.insts.push(Inst::Scatter { src: raw, arg, ahead, scale, count: self.count(mode) });
            }
        }
    }

    /// A constant or scalar is known in all 32 bytes; only the vector's own are written.
    pub(super) fn own_width(&self, code: &mut Code<'_>, raw: V, size: usize) -> V {
        if usize::from(code.unit.values[raw as usize].width) == code.width(size) {
            raw
        } else {
            code.rm(op::MOVUPS, size, raw, None)
        }
    }

    pub(super) fn unit_store(&self, code: &mut Code<'_>, arg: u16, raw: V, size: usize, mode: Mode, u: usize) {
        let scale = log2(size);
        let src = self.own_width(code, raw, size);
        let src = match mode {
            // What stands in front of the rest stays: it may have been read and written already.
            Mode::Last => {
                let old = self.unit_load(code, arg, size, mode, u);
                code.blend(size, self.last_masks[usize::from(scale)], src, old)
            }
            _ => src,
        };
        code.insts.push(match mode {
            Mode::Rest => Inst::StoreRest { src, mask: self.rest_mask(size), arg, scale },
            _ => {
                let past = self.stores == Stores::PastCaches && mode != Mode::Last && self.never_read(arg);
                Inst::Store { src, arg, ahead: (u * self.lanes) as i32, scale, past }
            }
        });
    }

    /// Whether `arg` is an array that the kernel only writes.
    pub(super) fn never_read(&self, arg: u16) -> bool {
        let mut ops = self.body.phases.iter().flat_map(|p| &p.ops);
        usize::from(arg) < self.body.args.len() && !ops.any(|op| matches!(op, Op::Load(a) if *a == arg))
    }
}
