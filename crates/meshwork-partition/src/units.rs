//! Rows that are cut out, computed with and put back keep the dimension they were cut along.
//!
//! `u[0, :] = 2 * u[1, :]` cuts out a row, drops its dimension of extent 1, computes, and adds the dimension again.
//! Without the dimension nothing says which device has the row, and it would be sent to all. So where what is written
//! into a slice is computed from rows of the same shape, it is computed in that shape:
//!
//! ```text
//! slice [1,n] ─ reshape [n] ─ multiply [n] ─ reshape [1,n] ─ dynamic_update_slice
//! slice [1,n] ───────────── multiply [1,n] ───────────────── dynamic_update_slice
//! ```

use meshwork_ir::attr::Dense;
use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{BodyOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, Module, OpId, OpKind, OpSpec, ValueId, Walk};
use meshwork_mesh::Sharding;
use meshwork_propagate::program::{set_sharding, sharding_of};

/// Larger computations stay as they are.
const LIMIT: usize = 64;

/// Rewrites what is written into slices of `module`.
pub fn keep_unit_dims(module: &mut Module) {
    for op in module.all_ops(Walk::PreOrder) {
        let slot = match module.op(op).kind() {
            OpKind::Movement(MovementOp::DynamicUpdateSlice) => 1,
            OpKind::Body(BodyOp::Scatter) if module.op(op).operands().len() == 3 => 2,
            _ => continue,
        };
        let update = module.op(op).operands()[slot];
        let wide = module.ty(update).dims().to_vec();
        let Some(value) = reshaped(module, update).filter(|&v| drops_units(&wide, module.ty(v).dims())) else {
            continue;
        };
        let mut web = Web { anchor: op, wide, placed: None, done: HashMap::default(), rows: 0 };
        if !web.is_of_rows(module, value) {
            continue;
        }
        // A scatter may write windows of another rank.
        let placed = sharding_of(module, module.op(op).results()[0]);
        web.placed = placed.filter(|s| s.dims.len() == web.wide.len());
        web.done.clear();
        let widened = web.widen(module, value);
        module.set_operand(op, slot, widened);
    }
}

/// What `v` is a reshape of.
fn reshaped(module: &Module, v: ValueId) -> Option<ValueId> {
    let op = module.op(module.def_op(v)?);
    (op.kind() == MovementOp::Reshape).then(|| op.operands()[0])
}

/// Whether `narrow` is `wide` without some dimensions of extent 1.
fn drops_units(wide: &[i64], narrow: &[i64]) -> bool {
    let long = |dims: &[i64]| dims.iter().copied().filter(|&n| n != 1).collect::<Vec<_>>();
    narrow.len() < wide.len() && long(wide) == long(narrow)
}

/// A computation on rows whose dimension was dropped, and what becomes of it.
struct Web {
    /// The operation that puts the result back.
    anchor: OpId,
    /// The shape with the dimension.
    wide: Vec<i64>,
    placed: Option<Sharding>,
    /// Values met, with their wide form once there is one.
    done: HashMap<ValueId, ValueId>,
    rows: usize,
}

impl Web {
    /// The elementwise operation that computes `v` next to the anchor, if one does.
    fn member(&self, module: &Module, v: ValueId) -> Option<OpId> {
        let op = module.def_op(v)?;
        let data = module.op(op);
        let near = data.parent() == module.op(self.anchor).parent();
        (near && data.kind().is_elementwise() && data.results().len() == 1).then_some(op)
    }

    /// The row that `v` was cut out as, before it lost its dimension.
    fn row(&self, module: &Module, v: ValueId) -> Option<ValueId> {
        reshaped(module, v).filter(|&row| module.ty(row).dims() == self.wide)
    }

    /// Whether `v` is computed from rows, by few operations.
    fn is_of_rows(&mut self, module: &Module, v: ValueId) -> bool {
        let dims = module.ty(v).dims().to_vec();
        let mut todo = vec![v];
        while let Some(v) = todo.pop() {
            if self.done.insert(v, v).is_some() {
                continue;
            }
            if self.done.len() > LIMIT {
                return false;
            }
            if self.row(module, v).is_some() {
                self.rows += 1;
            } else if let Some(op) = self.member(module, v) {
                todo.extend(module.op(op).operands().iter().filter(|&&o| module.ty(o).dims() == dims));
            }
        }
        self.rows > 0
    }

    /// `v` with the dimension.
    fn widen(&mut self, module: &mut Module, v: ValueId) -> ValueId {
        if let Some(&done) = self.done.get(&v) {
            return done;
        }
        let made = match (self.row(module, v), self.member(module, v)) {
            (Some(row), _) => row,
            (None, Some(op)) => {
                let dims = module.ty(v).dims().to_vec();
                let mut operands = module.op(op).operands().to_vec();
                for operand in &mut operands {
                    // Clamp and select take scalars beside tensors.
                    if module.ty(*operand).dims() == dims {
                        *operand = self.widen(module, *operand);
                    }
                }
                let attrs = module.op(op).attrs.clone();
                self.emit(module, v, OpSpec::new(module.op(op).kind()).operands(operands), Some(attrs))
            }
            (None, None) => self.leaf(module, v),
        };
        self.done.insert(v, made);
        made
    }

    /// A value other than a row, in the wide shape: created there if all its elements are one number, otherwise reshaped.
    fn leaf(&self, module: &mut Module, v: ValueId) -> ValueId {
        let wide = module.ty(v).as_tensor().map(|t| t.with_dims(self.wide.iter().copied()));
        if let (Some(op), Some(wide)) = (module.def_op(v), wide) {
            let data = module.op(op);
            match (data.kind(), data.attr("value")) {
                (OpKind::Source(SourceOp::Constant), Some(Attr::Dense(dense))) => {
                    if let Some(bytes) = dense.splat_bytes() {
                        let dense = Dense::splat(wide.into(), bytes);
                        let spec = OpSpec::new(SourceOp::Constant).attr("value", Attr::Dense(dense.into()));
                        return self.emit(module, v, spec, None);
                    }
                }
                (OpKind::Movement(MovementOp::BroadcastInDim), _) => {
                    let of = data.operands()[0];
                    if module.ty(of).rank() == Some(0) {
                        let spec = OpSpec::new(MovementOp::BroadcastInDim).operands([of]);
                        let spec = spec.attr("broadcast_dimensions", Attr::i64s(vec![]));
                        return self.emit(module, v, spec, None);
                    }
                }
                _ => {}
            }
        }
        self.emit(module, v, OpSpec::new(MovementOp::Reshape).operands([v]), None)
    }

    /// Writes the operation that makes the wide form of `v`, placed like what it goes into.
    fn emit(&self, module: &mut Module, v: ValueId, spec: OpSpec, attrs: Option<meshwork_ir::AttrDict>) -> ValueId {
        // Values of the web are tensors: they are reshaped.
        let Some(ty) = module.ty(v).as_tensor().map(|t| t.with_dims(self.wide.iter().copied())) else { return v };
        let mut spec = spec.results([ty.into()]);
        if let Some(mut attrs) = attrs {
            attrs.retain(|name, _| !name.starts_with("sdy."));
            spec.attrs = attrs;
        }
        let from = module.def_op(v).unwrap_or(self.anchor);
        (spec.loc, spec.pos) = (module.op(from).loc.clone(), module.op(from).pos);
        let made = module.push_before(self.anchor, spec);
        let made = module.result(made);
        if let Some(placed) = &self.placed {
            set_sharding(module, made, placed.clone());
        }
        made
    }
}
