//! What moves elements, makes them from nothing, or has extents that come as values.

use meshwork_ir::attr::GatherDims;
use meshwork_ir::build::Builder;
use meshwork_ir::op::{ChloOp, DynamicOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, ElementType, Literal, OpKind, OpSpec, Type, ValueId};

use super::products::Padding;
use super::value::is_inexact;
use super::{Maker, Value};

/// A value with the elements of `x`.
fn of(b: &Builder<'_>, id: ValueId, x: &Value) -> Option<Vec<Value>> {
    Some(vec![Value::moved(b, id, x.bound, x.error, x.whole)?])
}

/// A value with elements of both.
fn of_both(b: &Builder<'_>, id: ValueId, x: &Value, y: &Value) -> Option<Vec<Value>> {
    Some(vec![Value::moved(b, id, x.bound.max(y.bound), x.error.max(y.error), x.whole && y.whole)?])
}

impl Maker {
    /// Up to `n`, 0 included.
    fn upto(&mut self, n: i64) -> i64 {
        self.numbers.below(n.max(0) as usize + 1) as i64
    }

    /// A constant list of indices.
    fn list(&mut self, b: &mut Builder<'_>, dims: &[i64], items: &[i64]) -> Option<ValueId> {
        let elem = [ElementType::I32, ElementType::I64][self.numbers.below(2)];
        b.constant(&Literal::from_i64s(dims.iter().copied(), elem, items)?).ok()
    }

    /// Indices of a dimension of extent `n`: sometimes ones that are out of it, or that are computed.
    fn indices(&mut self, b: &mut Builder<'_>, scope: &[Value], dims: &[i64], n: i64) -> Option<ValueId> {
        let known = self.pick(scope, |v| v.elem == ElementType::I32 && v.dims == dims);
        if let Some(v) = known.filter(|_| self.numbers.below(2) == 0) {
            return Some(v.id);
        }
        let out = self.numbers.below(6) == 0;
        let count = dims.iter().product::<i64>();
        let items: Vec<i64> =
            (0..count).map(|_| if out { self.upto(2 * n + 2) - 2 } else { self.upto(n - 1) }).collect();
        self.list(b, dims, &items)
    }

    /// Where a slice starts: a scalar for each dimension of `x`.
    fn starts(&mut self, b: &mut Builder<'_>, scope: &[Value], x: &Value) -> Option<Vec<ValueId>> {
        let elem = [ElementType::I32, ElementType::I64][self.numbers.below(2)];
        let one = |m: &mut Maker, b: &mut Builder<'_>, &n: &i64| match m
            .pick(scope, |v| v.elem == elem && v.dims.is_empty())
        {
            Some(v) if m.numbers.below(2) == 0 => Some(v.id),
            _ => b.scalar(elem, (m.upto(n + 2) - 1) as f64).ok(),
        };
        x.dims.iter().map(|n| one(self, b, n)).collect()
    }

    /// A permutation of `n` dimensions.
    pub(super) fn shuffled(&mut self, n: usize) -> Vec<i64> {
        let mut all: Vec<i64> = (0..n as i64).collect();
        (1..n).for_each(|i| all.swap(i, self.numbers.below(i + 1)));
        all
    }

    /// Other extents of `count` elements.
    fn split(&mut self, count: i64) -> Vec<i64> {
        let (mut rest, mut dims) = (count, vec![]);
        while rest > 1 && dims.len() < 3 {
            let divisors: Vec<i64> = (1..=rest).filter(|d| rest % d == 0).collect();
            let d = divisors[self.numbers.below(divisors.len())];
            dims.push(d);
            rest /= d;
        }
        if rest != 1 || self.numbers.below(4) == 0 {
            dims.push(rest);
        }
        dims
    }

    pub(super) fn movement(&mut self, b: &mut Builder<'_>, scope: &[Value], op: MovementOp) -> Option<Vec<Value>> {
        let x = self.any(scope)?;
        let (rank, d) = (x.rank(), if x.rank() == 0 { 0 } else { self.numbers.below(x.rank()) });
        let needs_rank = !matches!(
            op,
            MovementOp::BitcastConvert | MovementOp::Broadcast | MovementOp::BroadcastInDim | MovementOp::Reshape
        );
        if rank == 0 && needs_rank {
            return None;
        }
        match op {
            MovementOp::BitcastConvert => {
                let to = self.elem();
                let fits = x.is_exact() && x.elem.bits() == to.bits() && !is_inexact(to) && to != ElementType::I1;
                if !fits || x.elem.bits() < 8 {
                    return None;
                }
                let id = b.bitcast_convert(x.id, Type::tensor(x.dims.iter().copied(), to)).ok()?;
                Some(vec![Value::computed(b, id, f64::INFINITY, 0.0, true, 0.0)?])
            }
            MovementOp::Broadcast => {
                let sizes = [self.extent()];
                let spec = OpSpec::new(OpKind::Movement(op)).operands([x.id]);
                let id = b.value(spec.attr("broadcast_sizes", Attr::i64s(sizes))).ok()?;
                of(b, id, &x)
            }
            MovementOp::BroadcastInDim => {
                let mut dims: Vec<Option<usize>> = (0..rank).map(Some).collect();
                for _ in 0..1 + self.numbers.below(2) {
                    let at = self.numbers.below(dims.len() + 1);
                    dims.insert(at, None);
                }
                if rank > 1 && self.numbers.below(4) == 0 {
                    dims.reverse();
                }
                let mut map = vec![0; rank];
                let mut to = vec![];
                for (i, from) in dims.iter().enumerate() {
                    to.push(match *from {
                        Some(k) => {
                            map[k] = i as i64;
                            if x.dims[k] == 1 && self.numbers.below(2) == 0 { self.extent() } else { x.dims[k] }
                        }
                        None => self.extent(),
                    });
                }
                let id = b.broadcast_in_dim(x.id, to, &map).ok()?;
                of(b, id, &x)
            }
            MovementOp::Concatenate => {
                let others: Vec<Value> = (0..1 + self.numbers.below(3))
                    .filter_map(|_| {
                        let fits = |v: &Value| {
                            v.elem == x.elem && v.rank() == rank && (0..rank).all(|i| i == d || v.dims[i] == x.dims[i])
                        };
                        self.pick(scope, fits)
                    })
                    .collect();
                let ids: Vec<ValueId> = others.iter().chain([&x]).map(|v| v.id).collect();
                let all = others.iter().fold(x.clone(), |a, v| Value {
                    bound: a.bound.max(v.bound),
                    error: a.error.max(v.error),
                    whole: a.whole && v.whole,
                    ..a
                });
                let id = b.concatenate(&ids, d as i64).ok()?;
                of(b, id, &all)
            }
            MovementOp::DynamicSlice => {
                let sizes: Vec<i64> = x.dims.iter().map(|&n| self.upto(n).max(n.min(1))).collect();
                let starts = self.starts(b, scope, &x)?;
                let id = b.dynamic_slice(x.id, &starts, &sizes).ok()?;
                of(b, id, &x)
            }
            MovementOp::DynamicUpdateSlice => {
                let inside =
                    |v: &Value| v.elem == x.elem && v.rank() == rank && v.dims.iter().zip(&x.dims).all(|(a, b)| a <= b);
                let update = self.pick(scope, inside)?;
                let starts = self.starts(b, scope, &x)?;
                let id = b.dynamic_update_slice(x.id, update.id, &starts).ok()?;
                of_both(b, id, &x, &update)
            }
            MovementOp::Gather => self.gather(b, scope, &x, d),
            MovementOp::GetDimensionSize => {
                let spec = OpSpec::new(OpKind::Movement(op)).operands([x.id]).attr("dimension", Attr::i64(d as i64));
                let id = b.value(spec).ok()?;
                Some(vec![Value::moved(b, id, 1e4, 0.0, true)?])
            }
            MovementOp::Pad => {
                let with = self.like(b, scope, x.elem, &[])?;
                let inner: Vec<i64> = (0..rank).map(|_| [0, 0, 0, 1, 2][self.numbers.below(5)]).collect();
                let edge = |m: &mut Maker| (0..rank).map(|_| m.upto(4) - 1).collect::<Vec<_>>();
                let (low, high) = (edge(self), edge(self));
                let id = b.pad(x.id, with.id, &low, &high, &inner).ok()?;
                of_both(b, id, &x, &with)
            }
            MovementOp::Reshape => {
                if x.count() == 0 {
                    return None;
                }
                let dims = self.split(x.count());
                let id = b.reshape(x.id, dims).ok()?;
                of(b, id, &x)
            }
            MovementOp::Reverse => {
                let dims: Vec<i64> = (0..rank as i64).filter(|_| self.numbers.below(2) == 0).collect();
                let id = b.reverse(x.id, &dims).ok()?;
                of(b, id, &x)
            }
            MovementOp::Slice => {
                let start: Vec<i64> = x.dims.iter().map(|&n| self.upto(n) / 2).collect();
                let limit: Vec<i64> = x.dims.iter().zip(&start).map(|(&n, &s)| n - self.upto(n - s) / 2).collect();
                let stride: Vec<i64> = (0..rank).map(|_| [1, 1, 1, 2, 3][self.numbers.below(5)]).collect();
                let id = b.slice(x.id, &start, &limit, &stride).ok()?;
                of(b, id, &x)
            }
            MovementOp::TorchIndexSelect => {
                let n = x.dims[d];
                let count = self.extent();
                if n == 0 {
                    return None;
                }
                let items: Vec<i64> = (0..count).map(|_| self.upto(n - 1)).collect();
                let at = self.list(b, &[count], &items)?;
                let spec = OpSpec::new(OpKind::Movement(op)).operands([x.id, at]);
                let spec = spec.attr("dim", Attr::i64(d as i64)).attr("batch_dims", Attr::i64(0));
                let id = b.value(spec).ok()?;
                of(b, id, &x)
            }
            MovementOp::Transpose => {
                let permutation = self.shuffled(rank);
                let id = b.transpose(x.id, &permutation).ok()?;
                of(b, id, &x)
            }
            // Its result has an extent that is known at run time only.
            MovementOp::SetDimensionSize => None,
        }
    }

    /// Slices of `x` at indices of its dimension `d`: single elements of it or windows, the others whole or in part,
    /// sometimes with a dimension that both have.
    fn gather(&mut self, b: &mut Builder<'_>, scope: &[Value], x: &Value, d: usize) -> Option<Vec<Value>> {
        let rank = x.rank();
        let batch = (rank > 1 && self.numbers.below(3) == 0).then_some(if d == 0 { 1 } else { 0 });
        let mut sizes: Vec<i64> = x.dims.clone();
        sizes[d] = if self.numbers.below(2) == 0 { 1 } else { self.upto(x.dims[d]).max(1) };
        (0..rank).filter(|&i| i != d).for_each(|i| {
            if self.numbers.below(4) == 0 {
                sizes[i] = self.upto(x.dims[i]).max(1);
            }
        });
        let collapsed = sizes[d] == 1 && self.numbers.below(3) > 0;
        let mut of_indices = vec![];
        if let Some(batch) = batch {
            sizes[batch] = 1;
            of_indices.push(x.dims[batch]);
        }
        let rows = self.extent();
        of_indices.push(rows);
        let vector = self.numbers.below(2) == 0;
        if vector {
            of_indices.push(1);
        }
        let indices = self.indices(b, scope, &of_indices, x.dims[d])?;
        let outer = of_indices.len() - usize::from(vector);
        let kept: Vec<usize> = (0..rank).filter(|&i| !(i == d && collapsed) && Some(i) != batch).collect();
        let first = if self.numbers.below(2) == 0 { 0 } else { outer };
        let dims = GatherDims {
            offset_dims: (0..kept.len()).map(|i| (first + i) as i64).collect(),
            collapsed_slice_dims: if collapsed { vec![d as i64] } else { vec![] },
            operand_batching_dims: batch.iter().map(|&i| i as i64).collect(),
            start_indices_batching_dims: batch.iter().map(|_| 0).collect(),
            start_index_map: vec![d as i64],
            index_vector_dim: outer as i64,
        };
        let id = b.gather(x.id, indices, dims, &sizes).ok()?;
        of(b, id, x)
    }

    pub(super) fn source(&mut self, b: &mut Builder<'_>, scope: &[Value], op: SourceOp) -> Option<Vec<Value>> {
        let (elem, dims) = (self.elem(), self.dims());
        match op {
            SourceOp::Constant => Some(vec![self.constant(b, elem, &dims)?]),
            SourceOp::Iota => {
                let d = (!dims.is_empty()).then(|| self.numbers.below(dims.len()))?;
                let bound = dims[d] as f64;
                let id = b.iota(Type::tensor(dims.iter().copied(), elem), d as i64).ok()?;
                Some(vec![Value::computed(b, id, bound, 0.0, true, 1.0)?])
            }
            SourceOp::PartitionId | SourceOp::ReplicaId if self.devices == 1 => None,
            SourceOp::PartitionId => {
                let id = b.partition_id().ok()?;
                Some(vec![Value::moved(b, id, self.devices as f64, 0.0, true)?])
            }
            SourceOp::ReplicaId => {
                let id = b.replica_id().ok()?;
                Some(vec![Value::moved(b, id, 0.0, 0.0, true)?])
            }
            SourceOp::RngBitGenerator => {
                let state = self.pick(scope, |v| v.elem == ElementType::UI64 && v.dims == [2]);
                let state = match state {
                    Some(v) => v.id,
                    None => b.constant(&Literal::from_i64s([2], ElementType::UI64, &[7, 9])?).ok()?,
                };
                let algorithm = ["THREE_FRY", "PHILOX"][self.numbers.below(2)];
                let elem = [ElementType::UI32, ElementType::UI64, ElementType::UI8][self.numbers.below(3)];
                let (next, bits) =
                    b.rng_bit_generator(algorithm, state, Type::tensor(dims.iter().copied(), elem)).ok()?;
                let made = |id| Value::computed(b, id, f64::INFINITY, 0.0, true, 0.0);
                Some(vec![made(next)?, made(bits)?])
            }
            // Which numbers come is the engine's choice.
            SourceOp::Rng => None,
        }
    }

    pub(super) fn dynamic(&mut self, b: &mut Builder<'_>, scope: &[Value], op: DynamicOp) -> Option<Vec<Value>> {
        let x = self.pick(scope, |v| v.rank() > 0)?;
        let rank = x.rank();
        let ty = |dims: &[i64]| Type::tensor(dims.iter().copied(), x.elem);
        let spec = OpSpec::new(OpKind::Dynamic(op));
        match op {
            DynamicOp::BroadcastInDim => {
                let dims = [&[self.extent()], &x.dims[..]].concat();
                let shape = self.list(b, &[dims.len() as i64], &dims)?;
                let spec = spec.operands([x.id, shape]).results([ty(&dims)]);
                let id = b.value(spec.attr("broadcast_dimensions", Attr::i64s(1..=rank as i64))).ok()?;
                of(b, id, &x)
            }
            DynamicOp::Iota => {
                let shape = self.list(b, &[rank as i64], &x.dims)?;
                let spec = spec.operands([shape]).results([ty(&x.dims)]).attr("iota_dimension", Attr::i64(0));
                let id = b.value(spec).ok()?;
                Some(vec![Value::computed(b, id, x.dims[0] as f64, 0.0, true, 1.0)?])
            }
            DynamicOp::Pad => {
                let with = self.like(b, scope, x.elem, &[])?;
                let low: Vec<i64> = (0..rank).map(|_| self.upto(2)).collect();
                let zeros = vec![0; rank];
                let dims: Vec<i64> = x.dims.iter().zip(&low).map(|(n, l)| n + l).collect();
                let (low, zeros) = (self.list(b, &[rank as i64], &low)?, self.list(b, &[rank as i64], &zeros)?);
                let id = b.value(spec.operands([x.id, with.id, low, zeros, zeros]).results([ty(&dims)])).ok()?;
                of_both(b, id, &x, &with)
            }
            DynamicOp::Reshape => {
                let dims = [x.count()];
                let shape = self.list(b, &[1], &dims)?;
                let id = b.value(spec.operands([x.id, shape]).results([ty(&dims)])).ok()?;
                of(b, id, &x)
            }
            DynamicOp::Slice => {
                let start: Vec<i64> = x.dims.iter().map(|&n| n / 2).collect();
                let dims: Vec<i64> = x.dims.iter().zip(&start).map(|(n, s)| n - s).collect();
                let n = [rank as i64];
                let lists = [self.list(b, &n, &start)?, self.list(b, &n, &x.dims)?, self.list(b, &n, &vec![1; rank])?];
                let id = b.value(spec.operands([x.id].into_iter().chain(lists)).results([ty(&dims)])).ok()?;
                of(b, id, &x)
            }
            DynamicOp::Conv => self.convolution(b, scope, Padding::Operand),
            // As `gather`, whose lists of attributes it has.
            DynamicOp::Gather => None,
        }
    }

    pub(super) fn chlo(&mut self, b: &mut Builder<'_>, scope: &[Value], op: ChloOp) -> Option<Vec<Value>> {
        match op {
            ChloOp::TopK => {
                let x = self.pick(scope, |v| v.is_exact() && v.rank() > 0 && (v.is_int() || v.is_float()))?;
                let k = self.upto(*x.dims.last()?);
                let (values, at) = b.top_k(x.id, k).ok()?;
                Some(vec![Value::moved(b, values, x.bound, 0.0, x.whole)?, Value::moved(b, at, 1e4, 0.0, true)?])
            }
            ChloOp::ConstantLike => {
                let x = self.pick(scope, |v| v.is_float() || v.elem == ElementType::I32)?;
                let number = if x.is_float() { Attr::Float(2.0, x.elem) } else { Attr::i32(2) };
                let spec = OpSpec::new(OpKind::Chlo(op)).operands([x.id]).attr("value", number);
                let id = b.value(spec).ok()?;
                Some(vec![Value::moved(b, id, 2.0, 0.0, true)?])
            }
            ChloOp::RaggedDot => self.ragged_dot(b, scope),
            ChloOp::Scan => self.scan(b, scope),
            // As `stablehlo.constant`.
            ChloOp::Constant => None,
        }
    }
}
