//! Reads the body of a loop: a value at `i` is found from what it is made of, at `i` and at places around it.

use std::collections::HashMap;

use meshwork_ir::op::{BinaryOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, BlockId, Def, Direction, ElementClass, ElementType, Module, OpId, OpKind, Type, ValueId};

use super::body::{Body, Id, Input, Node};
use crate::rewrite::assigned_part;

/// Where a value is looked at: at `i + offset`, brought back into the array in dimensions that wrap.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
struct Place {
    offset: [i64; 3],
    wraps: [bool; 3],
}

/// What the arguments of a loop's body are.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Carry {
    /// The counter.
    Counter,
    /// A carried array, by its number.
    Array(usize),
    /// What no turn changes.
    Fixed,
}

/// The body of the loop `op` of `module` whose arguments are `carries`; `None` if it is not element-wise work on shifted arrays.
pub(super) fn read(module: &Module, op: OpId, carries: &[Carry]) -> Option<Body> {
    let block = module.body_of(op, 1)?;
    let args = module.block(block).args();
    let arrays: Vec<usize> = (0..args.len()).filter(|&k| matches!(carries[k], Carry::Array(_))).collect();
    let types: Vec<&Type> = arrays.iter().map(|&k| module.ty(args[k])).collect();
    let dims = types.first()?.dims().to_vec();
    let elems: Option<Vec<ElementType>> = types.iter().map(|ty| ty.elem().filter(|_| ty.dims() == dims)).collect();
    let count = dims.iter().try_fold(1i64, |total, &n| total.checked_mul(n))?;
    // Indices are numbers of 32 bits, with room for what is beside an array.
    if dims.is_empty() || dims.len() > 3 || count == 0 || count > 1 << 30 {
        return None;
    }
    let body = Body::new(padded(&dims), elems?);
    let mut reader =
        Reader { module, block, carries, rank: dims.len(), body, done: HashMap::new(), fixed: HashMap::new() };
    let mut results = vec![];
    for &k in &arrays {
        results.push(reader.at(*module.returned(block).get(k)?, Place::default())?);
    }
    reader.body.results = results;
    Some(reader.body)
}

/// The dimension of kernels that dimension `d` of arrays is: the last is always `x`, the first of several `s`.
fn axis_of(rank: usize, d: usize) -> usize {
    if d + 1 == rank { 2 } else { d }
}

/// Extents of three dimensions.
fn padded(dims: &[i64]) -> [i64; 3] {
    let mut all = [1; 3];
    dims.iter().enumerate().for_each(|(d, &n)| all[axis_of(dims.len(), d)] = n);
    all
}

struct Reader<'m> {
    module: &'m Module,
    block: BlockId,
    carries: &'m [Carry],
    rank: usize,
    body: Body,
    done: HashMap<(ValueId, Place), Id>,
    fixed: HashMap<ValueId, bool>,
}

impl Reader<'_> {
    /// Whether no turn changes `value`.
    fn is_fixed(&mut self, value: ValueId) -> bool {
        if let Some(&known) = self.fixed.get(&value) {
            return known;
        }
        let fixed = match self.module.value(value).def() {
            Def::Arg(block, index) => block != self.block || self.carries[index as usize] == Carry::Fixed,
            _ => match self.module.def_op(value) {
                Some(op) if self.module.op(op).parent() == Some(self.block) => {
                    let data = self.module.op(op);
                    let moves = matches!(
                        data.kind(),
                        OpKind::Movement(_) | OpKind::Source(SourceOp::Constant | SourceOp::Iota)
                    );
                    let operands = data.operands().to_vec();
                    (moves || data.kind().is_elementwise())
                        && data.regions().is_empty()
                        && operands.into_iter().all(|v| self.is_fixed(v))
                }
                _ => true,
            },
        };
        self.fixed.insert(value, fixed);
        fixed
    }

    fn axis(&self, d: usize) -> usize {
        axis_of(self.rank, d)
    }

    fn index(&mut self, axis: usize, place: Place, elem: ElementType) -> Option<Id> {
        self.body.add(Node::Index { dim: axis, offset: place.offset[axis], wraps: place.wraps[axis] }, elem)
    }

    fn at(&mut self, value: ValueId, place: Place) -> Option<Id> {
        let dims = self.module.ty(value).dims().to_vec();
        let elem = self.module.ty(value).elem()?;
        if !dims.is_empty() && dims.len() != self.rank {
            return None;
        }
        let place = if dims.is_empty() { Place::default() } else { place };
        if let Some(&id) = self.done.get(&(value, place)) {
            return Some(id);
        }
        let id = self.look(value, &dims, elem, place)?;
        self.done.insert((value, place), id);
        Some(id)
    }

    fn look(&mut self, value: ValueId, dims: &[i64], elem: ElementType, place: Place) -> Option<Id> {
        let module = self.module;
        // What wraps does so at the ends of the carried arrays.
        let extents = padded(dims);
        if (0..3).any(|d| place.wraps[d] && extents[d] > self.body.dims[d]) {
            return None;
        }
        if let Def::Arg(block, index) = module.value(value).def()
            && block == self.block
        {
            match self.carries[index as usize] {
                Carry::Counter => return self.body.add(Node::Turn, elem),
                Carry::Array(array) => {
                    let Place { mut offset, mut wraps } = place;
                    // What is far on one side of an array that has it is near on the other if the array is taken to go round.
                    for d in 0..3 {
                        let n = extents[d];
                        if 2 * offset[d].abs() > n {
                            offset[d] -= n * offset[d].signum();
                            wraps[d] = true;
                        }
                    }
                    return self.body.add(Node::Carried { array, offset, wraps }, elem);
                }
                Carry::Fixed => {}
            }
        }
        let op = module.def_op(value);
        if let Some(known) = op.and_then(|op| self.source(op, elem, place)) {
            return known;
        }
        if self.is_fixed(value) {
            return self.input(value, dims, elem, place);
        }
        let op = op?;
        if let Some((x, part, starts)) = assigned_part(module, op) {
            return self.assign(x, part, &starts, place);
        }
        match module.op(op).kind() {
            OpKind::Movement(kind) => self.movement(op, kind, place),
            kind if kind.is_elementwise() && module.op(op).results().len() == 1 => self.work(op, kind, elem, place),
            _ => None,
        }
    }

    /// Numbers that need no memory: constants of one number, indices, and what is made of scalars.
    fn source(&mut self, op: OpId, elem: ElementType, place: Place) -> Option<Option<Id>> {
        let data = self.module.op(op);
        match data.kind() {
            OpKind::Source(SourceOp::Constant) => match data.attr("value") {
                Some(Attr::Dense(dense)) => {
                    let bytes = dense.splat_bytes()?;
                    let mut bits = [0; 8];
                    bits.get_mut(..bytes.len())?.copy_from_slice(bytes);
                    Some(self.body.add(Node::Const(u64::from_le_bytes(bits)), elem))
                }
                _ => None,
            },
            OpKind::Source(SourceOp::Iota) => {
                let axis = self.axis(data.int("iota_dimension")? as usize);
                let as_is = matches!(elem, ElementType::I32 | ElementType::I64);
                let index = self.index(axis, place, if as_is { elem } else { ElementType::I32 });
                Some(if as_is { index } else { index.and_then(|i| self.body.add(Node::Convert(i), elem)) })
            }
            OpKind::Movement(MovementOp::BroadcastInDim) if self.module.ty(data.operands()[0]).dims().is_empty() => {
                Some(self.at(data.operands()[0], place))
            }
            _ => None,
        }
    }

    /// An element of what no turn changes.
    fn input(&mut self, value: ValueId, dims: &[i64], elem: ElementType, place: Place) -> Option<Id> {
        let input = Input { value, dims: padded(dims), elem };
        let number = self.body.inputs.iter().position(|i| *i == input).unwrap_or_else(|| {
            self.body.inputs.push(input);
            self.body.inputs.len() - 1
        });
        if dims.is_empty() {
            return self.body.add(Node::Scalar(number), elem);
        }
        let mut at = [0; 3];
        for (axis, index) in at.iter_mut().enumerate() {
            *index = self.index(axis, place, ElementType::I32)?;
        }
        self.body.add(Node::Held { input: number, at }, elem)
    }

    fn movement(&mut self, op: OpId, kind: MovementOp, place: Place) -> Option<Id> {
        let data = self.module.op(op);
        match kind {
            MovementOp::Slice => {
                let is_dense = data.i64s("strides")?.iter().all(|&s| s == 1);
                let starts = data.i64s("start_indices")?;
                if !is_dense {
                    return None;
                }
                self.at(data.operands()[0], self.moved(place, |d| starts[d]))
            }
            MovementOp::Pad => self.pad(op, place),
            MovementOp::Concatenate => match self.rotation(op) {
                Some((x, d, by)) => {
                    let mut there = place;
                    let axis = self.axis(d);
                    there.offset[axis] += by;
                    there.wraps[axis] = true;
                    self.at(x, there)
                }
                None => self.concatenate(op, place),
            },
            MovementOp::BroadcastInDim => {
                let x = data.operands()[0];
                (self.module.ty(x).dims() == self.module.ty(data.results()[0]).dims()).then(|| self.at(x, place))?
            }
            _ => None,
        }
    }

    fn moved(&self, mut place: Place, by: impl Fn(usize) -> i64) -> Place {
        (0..self.rank).for_each(|d| place.offset[self.axis(d)] += by(d));
        place
    }

    /// `index >= low` and `index < high` where these are not sure, for an index from 0 to `extent`.
    fn between(
        &mut self,
        axis: usize,
        place: Place,
        (low, high): (i64, i64),
        extent: i64,
        tests: &mut Vec<Id>,
    ) -> Option<()> {
        for (order, bound, matters) in [(Direction::Ge, low, low > 0), (Direction::Lt, high, high < extent)] {
            if matters {
                let index = self.index(axis, place, ElementType::I32)?;
                let bound = self.body.add(Node::Const(bound as i32 as u32 as u64), ElementType::I32)?;
                tests.push(self.body.add(Node::Compare(order, index, bound), ElementType::I1)?);
            }
        }
        Some(())
    }

    fn pad(&mut self, op: OpId, place: Place) -> Option<Id> {
        let data = self.module.op(op);
        let &[x, fill] = data.operands() else { return None };
        let (low, interior) = (data.i64s("edge_padding_low")?, data.i64s("interior_padding")?);
        if interior.iter().any(|&n| n != 0) {
            return None;
        }
        let (inner, outer) = (self.module.ty(x).dims().to_vec(), self.module.ty(data.results()[0]).dims().to_vec());
        let inside = self.at(x, self.moved(place, |d| -low[d]))?;
        let mut tests = vec![];
        for d in 0..self.rank {
            self.between(self.axis(d), place, (low[d], low[d] + inner[d]), outer[d], &mut tests)?;
        }
        let elem = self.module.ty(x).elem()?;
        let Some(mask) = self.all(&tests)? else { return Some(inside) };
        let fill = self.at(fill, place)?;
        self.body.add(Node::Select(mask, inside, fill), elem)
    }

    /// `x` with `part` in place of what starts at `starts`.
    fn assign(&mut self, x: ValueId, part: ValueId, starts: &[i64], place: Place) -> Option<Id> {
        let (inner, outer) = (self.module.ty(part).dims().to_vec(), self.module.ty(x).dims().to_vec());
        let around = self.at(x, place)?;
        if inner.contains(&0) {
            return Some(around);
        }
        let inside = self.at(part, self.moved(place, |d| -starts[d]))?;
        let mut tests = vec![];
        for d in 0..self.rank {
            self.between(self.axis(d), place, (starts[d], starts[d] + inner[d]), outer[d], &mut tests)?;
        }
        let elem = self.module.ty(x).elem()?;
        match self.all(&tests)? {
            Some(mask) => self.body.add(Node::Select(mask, inside, around), elem),
            None => Some(inside),
        }
    }

    /// Whether all tests hold; `None` inside if there are none.
    fn all(&mut self, tests: &[Id]) -> Option<Option<Id>> {
        let Some((&first, rest)) = tests.split_first() else { return Some(None) };
        let mut all = first;
        for &test in rest {
            all = self.body.add(Node::Binary(BinaryOp::And, all, test), ElementType::I1)?;
        }
        Some(Some(all))
    }

    /// The array, dimension and distance by which a concatenation turns an array round: its end put before its beginning.
    fn rotation(&self, op: OpId) -> Option<(ValueId, usize, i64)> {
        let data = self.module.op(op);
        let d = data.int("dimension")? as usize;
        let &[first, second] = data.operands() else { return None };
        let part = |v: ValueId| {
            let slice = self.module.op(self.module.def_op(v)?);
            let is_slice = slice.kind() == OpKind::Movement(MovementOp::Slice);
            let dense = slice.i64s("strides").is_some_and(|s| s.iter().all(|&s| s == 1));
            let starts = slice.i64s("start_indices").filter(|_| is_slice && dense)?;
            let others = starts.iter().enumerate().all(|(k, &s)| k == d || s == 0);
            others.then(|| (slice.operands()[0], starts[d], self.module.ty(v).dims()[d]))
        };
        let ((x, start, size), (y, begin, rest)) = (part(first)?, part(second)?);
        let dims = self.module.ty(x).dims();
        let whole = dims == self.module.ty(data.results()[0]).dims() && dims[d] == self.body.dims[self.axis(d)];
        let turned = x == y && begin == 0 && start + size == dims[d] && rest == start;
        // The shorter way round.
        let by = if start > dims[d] / 2 { start - dims[d] } else { start };
        (whole && turned).then_some((x, d, by))
    }

    fn concatenate(&mut self, op: OpId, place: Place) -> Option<Id> {
        let data = self.module.op(op);
        let (d, elem) = (data.int("dimension")? as usize, self.module.ty(data.results()[0]).elem()?);
        let axis = self.axis(d);
        let (mut ends, mut parts, mut at) = (vec![], vec![], 0);
        for &part in data.operands() {
            let size = self.module.ty(part).dims()[d];
            if size > 0 {
                parts.push(self.at(part, self.moved(place, |k| if k == d { -at } else { 0 }))?);
                at += size;
                ends.push(at);
            }
        }
        let mut value = parts.pop()?;
        for (part, end) in parts.into_iter().zip(ends).rev() {
            let mut test = vec![];
            self.between(axis, place, (0, end), i64::MAX, &mut test)?;
            value = self.body.add(Node::Select(test[0], part, value), elem)?;
        }
        Some(value)
    }

    fn work(&mut self, op: OpId, kind: OpKind, elem: ElementType, place: Place) -> Option<Id> {
        let data = self.module.op(op);
        let operands = data.operands().iter().map(|&v| self.at(v, place)).collect::<Option<Vec<Id>>>()?;
        let node = match (kind, &operands[..]) {
            (OpKind::Unary(f), &[a]) => Node::Unary(f, a),
            (OpKind::Binary(f), &[a, b]) => Node::Binary(f, a, b),
            (OpKind::Mixed(MixedOp::Convert), &[a]) => Node::Convert(a),
            (OpKind::Mixed(MixedOp::Select), &[c, a, b]) => Node::Select(c, a, b),
            (OpKind::Mixed(MixedOp::Compare), &[a, b]) => {
                let is_total = data.enum_value("compare_type") == Some("TOTALORDER");
                let is_float = self.body.elem(a).class() == ElementClass::Float;
                if is_total && is_float {
                    return None;
                }
                let order = Direction::from_text(data.enum_value("comparison_direction")?)?;
                Node::Compare(order, a, b)
            }
            (OpKind::Mixed(MixedOp::Clamp), &[low, x, high]) => {
                let x = self.body.add(Node::Binary(BinaryOp::Maximum, low, x), elem)?;
                Node::Binary(BinaryOp::Minimum, x, high)
            }
            _ => return None,
        };
        self.body.add(node, elem)
    }
}
