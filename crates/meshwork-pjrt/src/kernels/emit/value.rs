//! What the nodes of a body are at one place of a tile.

use meshwork_ir::ElementType;

use super::super::body::{Body, Id, Node};
use super::super::scalar;
use super::super::writer::Width;
use super::{Now, Part, Walk};

impl Walk<'_> {
    /// The register or number that a node is at row `m` and column `e` of the tile.
    pub(super) fn value(&mut self, now: &mut Now, id: Id, m: i64, e: i64) -> Option<String> {
        let (by_row, by_column) = self.depends[id];
        let key = (id, if by_row { m } else { 0 }, if by_column { e } else { 0 });
        if let Some(known) = now.known.get(&key) {
            return Some(known.clone());
        }
        let elem = self.body.elem(id);
        let value = match self.body.node(id).clone() {
            Node::Const(bits) if elem == ElementType::I1 => {
                self.w.set(Width::Truth, |p| format!("mov.pred {p}, {};", u8::from(bits != 0)))
            }
            Node::Const(bits) => scalar::immediate(elem, bits)?,
            Node::Index { dim, offset, wraps } => self.index(now, dim, offset, wraps, m, e, elem)?,
            Node::Turn => self.turn(now.level, elem)?,
            Node::Scalar(input) => self.scalars.get(&input)?.clone(),
            Node::Carried { array, offset: [ds, dy, dx], .. } => {
                let slot = (now.slot + ds).rem_euclid(self.plan.slots());
                let row = m + dy + self.plan.reach[1].0;
                let column = e + dx + self.sides[array].0;
                let kept =
                    self.levels[now.level as usize - 1][array][slot as usize][row as usize][column as usize].clone();
                if elem == ElementType::I1 { self.truth(&kept) } else { kept }
            }
            Node::Held { input, at } => {
                let at = [self.value(now, at[0], m, e)?, self.value(now, at[1], m, e)?, self.value(now, at[2], m, e)?];
                self.held(input, at)?
            }
            Node::Unary(f, a) => {
                let a = self.operand(now, a, m, e)?;
                scalar::unary(self.w, f, elem, &a)?
            }
            Node::Binary(f, a, b) => {
                // Numbers can be the second operand of an instruction, not the first.
                let is_number = matches!(self.body.node(a), Node::Const(_)) && scalar::is_symmetric(f);
                let (a, b) = if is_number { (b, a) } else { (a, b) };
                let (a, b) = (self.operand(now, a, m, e)?, self.value(now, b, m, e)?);
                scalar::binary(self.w, f, elem, &a, &b)?
            }
            Node::Compare(order, a, b) => {
                let of = self.body.elem(a);
                let (a, b) = (self.operand(now, a, m, e)?, self.value(now, b, m, e)?);
                scalar::compare(self.w, order, of, &a, &b)?
            }
            Node::Select(c, a, b) => {
                let c = self.value(now, c, m, e)?;
                let (a, b) = (self.value(now, a, m, e)?, self.value(now, b, m, e)?);
                scalar::select(self.w, elem, &c, &a, &b)?
            }
            Node::Convert(a) => {
                let of = self.body.elem(a);
                let a = self.operand(now, a, m, e)?;
                scalar::convert(self.w, of, elem, &a)?
            }
        };
        now.known.insert(key, value.clone());
        Some(value)
    }

    /// Like [`value`](Walk::value), but in a register: the first operand of an instruction.
    fn operand(&mut self, now: &mut Now, id: Id, m: i64, e: i64) -> Option<String> {
        let value = self.value(now, id, m, e)?;
        if value.starts_with('%') {
            return Some(value);
        }
        let elem = self.body.elem(id);
        let suffix = scalar::suffix(elem)?;
        Some(self.w.set(scalar::width(elem)?, |r| format!("mov.{suffix} {r}, {value};")))
    }

    #[allow(clippy::too_many_arguments)]
    fn index(
        &mut self,
        now: &Now,
        dim: usize,
        offset: i64,
        wraps: bool,
        m: i64,
        e: i64,
        elem: ElementType,
    ) -> Option<String> {
        let at = match dim {
            0 => self.brought_back(0, now.s.clone()),
            1 => {
                let y = m - (self.plan.steps - now.level) * self.plan.reach[1].0;
                let y = self.w.set(Width::Single, |r| format!("add.s32 {r}, {}, {y};", self.tile.y));
                self.brought_back(1, y)
            }
            _ => self.columns[e as usize].clone(),
        };
        let at = if offset == 0 { at } else { self.w.set(Width::Single, |r| format!("add.s32 {r}, {at}, {offset};")) };
        let at = if wraps { self.wrapped(dim, at) } else { at };
        scalar::convert(self.w, ElementType::I32, elem, &at)
    }

    fn turn(&mut self, level: i64, elem: ElementType) -> Option<String> {
        let by = (level - 1) * self.args.step;
        let turn = self.w.set(Width::Double, |r| format!("add.s64 {r}, {}, {by};", self.args.turn));
        scalar::convert(self.w, ElementType::I64, elem, &turn)
    }

    fn held(&mut self, input: usize, at: [String; 3]) -> Option<String> {
        let (dims, elem) = (self.body.inputs[input].dims, self.body.inputs[input].elem);
        let mut number: Option<String> = None;
        for (at, n) in at.into_iter().zip(dims) {
            if n == 1 && number.is_none() {
                continue;
            }
            let at = if self.part == Part::Anywhere { self.clamped(at, n - 1) } else { at };
            number = Some(match number {
                None => at,
                Some(rows) => self.w.set(Width::Single, |r| format!("mad.lo.s32 {r}, {rows}, {n}, {at};")),
            });
        }
        let base = self.args.inputs[input].clone();
        let address = match number {
            None => base,
            Some(at) => {
                self.w.set(Width::Double, |r| format!("mad.wide.s32 {r}, {at}, {}, {base};", elem.storage_bytes()))
            }
        };
        self.load(elem, &address, 0)
    }
}

/// Whether each node differs from row to row, and from column to column.
pub(super) fn depends(body: &Body) -> Vec<(bool, bool)> {
    let last = body.live().last().map_or(0, |&id| id + 1);
    let mut depends = vec![(false, false); last];
    for id in body.live() {
        depends[id] = match body.node(id) {
            Node::Carried { .. } => (true, true),
            Node::Index { dim, .. } => (*dim == 1, *dim == 2),
            _ => body.operands(id).iter().fold((false, false), |d, &o| (d.0 | depends[o].0, d.1 | depends[o].1)),
        };
    }
    depends
}
