//! Writing rings into the per-device program.

use meshwork_ir::op::{BinaryOp, CollectiveOp};
use meshwork_ir::{Module, OpId, OpKind, OpSpec, Type, ValueId, ValueMap};

use super::{Factor, Kept, Ring, Round, step_of};
use crate::algorithm::Algorithm;
use crate::collective::{Collective, Origin};
use crate::layout::atoms::Atoms;
use crate::plan::human_seconds;
use crate::split::index_type;
use crate::split::local::LocalBuilder;

/// Puts `rings` in the place of the collectives and products that they were found for. Steps stand in the list where the
/// collectives stood.
pub fn write(module: Module, collectives: Vec<Collective>, rings: &[Ring], atoms: &Atoms) -> (Module, Vec<Collective>) {
    let Some(entry) = module.entry().and_then(|func| module.body_of(func, 0)) else { return (module, collectives) };
    let index = index_type(&module);
    let mut writer = Writer { local: LocalBuilder::new(module, entry, atoms, index), steps: vec![] };
    let mut list = vec![];
    for (i, c) in collectives.into_iter().enumerate() {
        let Some(ring) = rings.iter().find(|ring| ring.index == i) else {
            list.push(c);
            continue;
        };
        match &ring.round {
            Round::Operand { products, kept } => writer.operand(ring, &c, products, *kept),
            Round::Result { product, pad } => writer.result(ring, &c, *product, *pad),
        }
        list.append(&mut writer.steps);
    }
    debug_assert!(writer.local.failure.is_none(), "{:?}", writer.local.failure);
    (writer.local.module, list)
}

struct Writer<'a> {
    local: LocalBuilder<'a>,
    /// What was sent since the last ring.
    steps: Vec<Collective>,
}

impl Writer<'_> {
    /// Operands of `products` go round instead of being gathered by `c`.
    fn operand(&mut self, ring: &Ring, c: &Collective, products: &[Factor], kept: Option<Kept>) {
        let own = self.local.module.op(c.emitted).operands()[0];
        let mut results: Vec<ValueId> = products.iter().map(|product| self.empty_result(ring, product, own)).collect();
        let mut here = own;
        for t in 0..ring.steps {
            self.stand_before(products[0].op);
            // The next block is on its way while this one is multiplied.
            let next = (t + 1 < ring.steps).then(|| self.send(ring, c, here));
            let shard = self.shard_before(ring, t);
            for (product, result) in products.iter().zip(&mut results) {
                self.stand_before(product.op);
                let length = self.local.dims(here)[product.dim];
                let part = self.part(product, here, length);
                let start = self.scaled(shard, length);
                *result = self.local.update_slice(*result, part, product.result_dim, start);
            }
            here = next.unwrap_or(here);
        }
        for (product, result) in products.iter().zip(results) {
            self.stand_before(product.op);
            let result = match kept {
                Some(kept) => self.local.slice(result, product.result_dim, kept.from, kept.to),
                None => result,
            };
            self.replace(product.op, result);
        }
        if let Some(kept) = kept {
            self.local.module.erase(kept.slice);
        }
        self.local.module.erase(c.emitted);
    }

    /// Sums of blocks of the result of `product` go round instead of being added by `c`.
    fn result(&mut self, ring: &Ring, c: &Collective, product: Factor, pad: Option<OpId>) {
        let operand = self.local.module.op(product.op).operands()[product.operand];
        let added = self.local.module.op(c.emitted).operands()[0];
        let filled = self.local.dims(added)[product.result_dim];
        let length = filled / ring.steps;
        self.stand_before(c.emitted);
        // What fills up the operand fills up the result; what it holds there is not asked for.
        let operand = self.local.pad(operand, product.dim, 0, filled - self.local.dims(operand)[product.dim]);
        let mut sum: Option<ValueId> = None;
        for t in 0..ring.steps {
            let before = sum.map(|sum| self.send(ring, c, sum));
            let shard = self.shard_before(ring, t + 1);
            let start = self.scaled(shard, length);
            let block = self.local.dynamic_slice(operand, product.dim, start, length);
            let part = self.part(&product, block, length);
            sum = Some(match before {
                Some(before) => self.local.same(OpKind::Binary(BinaryOp::Add), &[before, part]),
                None => part,
            });
        }
        if let Some(sum) = sum {
            self.replace(c.emitted, sum);
            pad.into_iter().chain([product.op]).for_each(|op| self.local.module.erase(op));
        }
    }

    fn stand_before(&mut self, op: OpId) {
        let data = self.local.module.op(op);
        (self.local.loc, self.local.pos) = (data.loc.clone(), data.pos);
        self.local.before = Some(op);
    }

    /// What the result of `product` is written into, for as many blocks like `block` as the ring has devices.
    fn empty_result(&mut self, ring: &Ring, product: &Factor, block: ValueId) -> ValueId {
        self.stand_before(product.op);
        let result = self.local.module.result(product.op);
        let (mut dims, elem) = (self.local.dims(result), self.local.elem(result));
        dims[product.result_dim] = self.local.dims(block)[product.dim] * ring.steps;
        self.local.zeros(&dims, elem)
    }

    /// `product` with `block`, which is `length` long, in place of the operand that goes round.
    fn part(&mut self, product: &Factor, block: ValueId, length: i64) -> ValueId {
        let module = &mut self.local.module;
        let ty = module.ty(module.result(product.op)).as_tensor().cloned();
        let copy = module.clone_op(product.op, &mut ValueMap::default());
        module.set_operand(copy, product.operand, block);
        if let Some(anchor) = self.local.before {
            module.insert_before(anchor, copy);
        }
        let part = module.result(copy);
        if let Some(ty) = ty {
            let mut dims = ty.dims.clone();
            dims[product.result_dim] = length;
            module.set_ty(part, Type::from(ty.with_dims(dims)));
        }
        part
    }

    /// Which shard came here in `t` steps: that of the device `t` places before.
    fn shard_before(&mut self, ring: &Ring, t: i64) -> ValueId {
        let here = self.local.shard_index(&ring.atoms);
        let places = (ring.steps - t).rem_euclid(ring.steps);
        if places == 0 {
            return here;
        }
        let (places, all) = (self.local.index_constant(places), self.local.index_constant(ring.steps));
        let sum = self.local.same(OpKind::Binary(BinaryOp::Add), &[here, places]);
        self.local.same(OpKind::Binary(BinaryOp::Remainder), &[sum, all])
    }

    fn scaled(&mut self, shard: ValueId, by: i64) -> ValueId {
        let by = self.local.index_constant(by);
        self.local.same(OpKind::Binary(BinaryOp::Multiply), &[shard, by])
    }

    /// Sends `value` to the next device of the ring that takes the place of `c`.
    fn send(&mut self, ring: &Ring, c: &Collective, value: ValueId) -> ValueId {
        let ty = self.local.module.ty(value).clone();
        let kind = OpKind::Collective(CollectiveOp::CollectivePermute);
        let emitted = self.local.push(OpSpec::new(kind).operands([value]).results([ty]));
        let (what, instead) = match ring.round {
            Round::Operand { .. } => ("blocks of the operand go round", "gathering it first"),
            Round::Result { .. } => ("sums of blocks go round", "adding them behind it"),
        };
        let times = ring.seconds.map(human_seconds);
        let reason = format!(
            "{}: {what} beside the product ({}; {instead} would take {})",
            Algorithm::RingProducts,
            times[0],
            times[1]
        );
        let step = step_of(c, ring, self.local.atoms);
        let share = step.wire_bytes / c.wire_bytes.max(f64::MIN_POSITIVE);
        let origin = |o: &Origin| Origin {
            reason: format!("{reason}; {}", o.reason).into(),
            wire_bytes: o.wire_bytes * share,
            ..o.clone()
        };
        let origins = c.origins.iter().map(origin).collect();
        self.steps.push(Collective { emitted, origins, ..step });
        self.local.module.result(emitted)
    }

    /// Lets `value` be what `op` gives.
    fn replace(&mut self, op: OpId, value: ValueId) {
        let result = self.local.module.result(op);
        self.local.module.replace_all_uses(result, value);
        self.local.module.erase(op);
    }
}
