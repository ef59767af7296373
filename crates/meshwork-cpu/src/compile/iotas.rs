//! Iotas that something reads from memory: numbers along one dimension are enough, and one computation before the loops.
//!
//! ```text
//! dynamic_slice(iota, i)            ──►  iota of the slice + clamp(i)
//! for …: argmax(x, iota 64×64)      ──►  t = broadcast(iota 64);  for …: argmax(x, t)
//! ```
//!
//! In fused loops an iota costs nothing, so there it stays where it is used.

use meshwork_ir::op::{BinaryOp, BodyOp, ControlOp, MixedOp, MovementOp, SourceOp};
use meshwork_ir::{Attr, Dense, ElementType, Module, OpId, OpKind, OpSpec, TensorType, Type, ValueId, ValueMap, Walk};

use crate::fuse::{is_fusible, is_moved_slice, is_pick, is_row_pick};

/// A slice of an iota at a place that is data is that place and an iota.
pub(crate) fn slice_of_iota(module: &mut Module, op: OpId) -> bool {
    let data = module.op(op);
    let (Some((&operand, starts)), &[result]) = (data.operands().split_first(), data.results()) else { return false };
    let Some(iota) = module.def_op(operand).filter(|&def| module.op(def).kind() == SourceOp::Iota) else {
        return false;
    };
    let Some(d) = module.op(iota).int("iota_dimension").map(|d| d as usize) else { return false };
    let (Some(from), Some(to)) = (module.ty(operand).as_tensor(), module.ty(result).as_tensor()) else { return false };
    let (n, to, loc) = (from.dims[d], to.clone(), data.loc.clone());
    let start = starts[d];
    let Some(index) = module.ty(start).elem() else { return false };
    let is_wide = |e: ElementType| matches!(e, ElementType::I32 | ElementType::I64);
    // Where it is rounded, it has to be once, as an integer: the sum is taken first.
    let fits = is_wide(to.elem) || matches!(to.elem, ElementType::UI32 | ElementType::F32 | ElementType::F64);
    if !is_wide(index) || !fits || n > i64::from(i32::MAX) {
        return false;
    }
    let mut push = |kind: OpKind, operands: Vec<ValueId>, ty: Type, attrs: Vec<(&'static str, Attr)>| {
        let spec = OpSpec::new(kind).operands(operands).results([ty]).loc(loc.clone());
        let spec = attrs.into_iter().fold(spec, |spec, (name, value)| spec.attr(name, value));
        let op = module.push_before(op, spec);
        module.result(op)
    };
    let scalar = Type::tensor([], index);
    let mut constant = |x: i64| {
        let value = Dense::splat(TensorType::new([], index).into(), &x.to_le_bytes()[..index.storage_bytes()]);
        push(OpKind::Source(SourceOp::Constant), vec![], scalar.clone(), vec![("value", Attr::Dense(value.into()))])
    };
    let (low, high) = (constant(0), constant(n - to.dims[d]));
    let whole = Type::tensor(to.dims.clone(), index);
    let at = push(OpKind::Mixed(MixedOp::Clamp), vec![low, start, high], scalar, vec![]);
    let dims = ("broadcast_dimensions", Attr::i64s(vec![]));
    let mut value = push(OpKind::Movement(MovementOp::BroadcastInDim), vec![at], whole.clone(), vec![dims]);
    if to.dims[d] > 1 {
        let along = ("iota_dimension", Attr::i64(d as i64));
        let places = push(OpKind::Source(SourceOp::Iota), vec![], whole.clone(), vec![along]);
        value = push(OpKind::Binary(BinaryOp::Add), vec![places, value], whole, vec![]);
    }
    if to.elem != index {
        value = push(OpKind::Mixed(MixedOp::Convert), vec![value], to.into(), vec![]);
    }
    module.replace_op(op, &[value]);
    true
}

/// The positions that a reduction of several operands takes, as `argmax` does, are numbers along one dimension.
pub(crate) fn reduced_positions(module: &mut Module, op: OpId) -> bool {
    let operands = module.op(op).operands().to_vec();
    if operands.len() < 4 {
        return false;
    }
    let mut any = false;
    for (i, &v) in operands.iter().enumerate() {
        let Some(iota) = module.def_op(v).filter(|&def| module.op(def).kind() == SourceOp::Iota) else { continue };
        let Some(ty) = module.ty(v).as_tensor().cloned().filter(|t| t.dims.len() > 1) else { continue };
        let Some(d) = module.op(iota).int("iota_dimension") else { continue };
        let line = OpSpec::new(OpKind::Source(SourceOp::Iota))
            .results([Type::tensor([ty.dims[d as usize]], ty.elem)])
            .attr("iota_dimension", Attr::i64(0));
        let line = module.push_before(op, line);
        let wide = OpSpec::new(OpKind::Movement(MovementOp::BroadcastInDim))
            .operands([module.result(line)])
            .results([ty.into()])
            .attr("broadcast_dimensions", Attr::i64s(vec![d]));
        let wide = module.push_before(op, wide);
        module.set_operand(op, i, module.result(wide));
        any = true;
    }
    any
}

/// Computes iotas before the loops of `func` in which something reads them from memory.
pub(crate) fn lift_tables(module: &mut Module, func: OpId) {
    for op in module.ops_below(func, Walk::PostOrder) {
        let is_loop = module.op(op).kind() == OpKind::Control(ControlOp::While);
        let Some(body) = module.body_of(op, 1).filter(|_| is_loop) else { continue };
        let mut copies = ValueMap::default();
        for user in module.ops_below_block(body, Walk::PreOrder) {
            for i in 0..module.op(user).operands().len() {
                let value = module.op(user).operands()[i];
                if !reads_memory(module, user, i) || !is_table(module, op, value) {
                    continue;
                }
                let copy = copy_before(module, op, value, &mut copies);
                module.set_operand(user, i, copy);
            }
        }
    }
}

/// Whether `user` needs its operand `i` in memory.
fn reads_memory(module: &Module, user: OpId, i: usize) -> bool {
    let data = module.op(user);
    let is_body = |kind: OpKind| matches!(kind, OpKind::Body(BodyOp::Reduce | BodyOp::Scatter | BodyOp::Sort));
    let is_library =
        is_body(data.kind()) || matches!(data.kind(), OpKind::Movement(MovementOp::Gather) | OpKind::Contract(_));
    let is_from_memory = is_moved_slice(module, user) || is_pick(module, user);
    (is_library && !is_fusible(module, user)) || (i == 0 && is_from_memory) || is_row_pick(module, user)
}

/// Whether `value` is an iota inside the loop `op`, or moved elements of one.
fn is_table(module: &Module, op: OpId, value: ValueId) -> bool {
    let Some(def) = module.def_op(value).filter(|&def| module.is_inside(def, op)) else { return false };
    let data = module.op(def);
    match data.kind() {
        OpKind::Source(SourceOp::Iota) => module.ty(value).dims().iter().product::<i64>() > 1,
        OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape) => is_table(module, op, data.operands()[0]),
        _ => false,
    }
}

/// A copy of the table `value` before the loop `op`.
fn copy_before(module: &mut Module, op: OpId, value: ValueId, copies: &mut ValueMap) -> ValueId {
    if let Some(&copy) = copies.get(&value) {
        return copy;
    }
    let Some(def) = module.def_op(value) else { return value };
    for operand in module.op(def).operands().to_vec() {
        copy_before(module, op, operand, copies);
    }
    let copy = module.clone_op(def, copies);
    module.insert_before(op, copy);
    copies.get(&value).copied().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::{check, check_on};
    use meshwork_ir::{ElementType, Literal};

    #[test]
    fn slices_of_iotas() {
        for elem in ["i32", "i64", "ui32", "f32", "f64", "i16"] {
            for index in ["i32", "i64", "ui32"] {
                for (dims, along, sizes) in
                    [("7x5", 0, [3, 2]), ("7x5", 1, [1, 1]), ("9x4", 0, [9, 4]), ("1x3", 1, [1, 3])]
                {
                    let [a, b] = sizes;
                    let source = format!(
                        "func.func @main(%i: tensor<{index}>, %j: tensor<{index}>) -> tensor<{a}x{b}x{elem}> {{
                        %0 = stablehlo.iota dim = {along} : tensor<{dims}x{elem}>
                        %1 = stablehlo.dynamic_slice %0, %i, %j, sizes = [{a}, {b}]
                            : (tensor<{dims}x{elem}>, tensor<{index}>, tensor<{index}>) -> tensor<{a}x{b}x{elem}>
                        return %1 : tensor<{a}x{b}x{elem}> }}"
                    );
                    let ty = match index {
                        "i32" => ElementType::I32,
                        "i64" => ElementType::I64,
                        _ => ElementType::UI32,
                    };
                    for at in [0, 1, 2, 4, 100] {
                        let place = |x: i64| Literal::from_i64s([], ty, &[x]).unwrap();
                        check_on(&source, &[place(at), place(at / 2)], 0.0);
                        if index != "ui32" {
                            check_on(&source, &[place(-at), place(at)], 0.0);
                        }
                    }
                }
            }
        }
    }

    /// The positions of an `argmax` inside two loops are computed once, along one dimension.
    #[test]
    fn positions_leave_loops() {
        let body = |inner: &str| {
            format!(
                "cond {{
                    %n = stablehlo.constant dense<3> : tensor<i32>
                    %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                    stablehlo.return %c : tensor<i1>
                }} do {{ {inner} }}"
            )
        };
        let turn = "
            %one2 = stablehlo.constant dense<1> : tensor<i32>
            %zero2 = stablehlo.constant dense<0> : tensor<i32>
            %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
            %places = stablehlo.iota dim = 0 : tensor<6x80xi32>
            %r:2 = stablehlo.reduce(%y init: %low), (%places init: %zero2) across dimensions = [0]
                : (tensor<6x80xf32>, tensor<6x80xi32>, tensor<f32>, tensor<i32>) -> (tensor<80xf32>, tensor<80xi32>)
            reducer(%p: tensor<f32>, %q: tensor<f32>) (%pi: tensor<i32>, %qi: tensor<i32>) {
                %g = stablehlo.compare GT, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %nan = stablehlo.compare NE, %p, %p : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %w = stablehlo.or %g, %nan : tensor<i1>
                %e = stablehlo.compare EQ, %p, %q : (tensor<f32>, tensor<f32>) -> tensor<i1>
                %l = stablehlo.compare LT, %pi, %qi : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %t = stablehlo.and %e, %l : tensor<i1>
                %s = stablehlo.or %w, %t : tensor<i1>
                %v = stablehlo.select %w, %p, %q : tensor<i1>, tensor<f32>
                %x = stablehlo.select %s, %pi, %qi : tensor<i1>, tensor<i32>
                stablehlo.return %v, %x : tensor<f32>, tensor<i32>
            }
            %f = stablehlo.convert %r#1 : (tensor<80xi32>) -> tensor<80xf32>
            %wide = stablehlo.broadcast_in_dim %f, dims = [1] : (tensor<80xf32>) -> tensor<6x80xf32>
            %z = stablehlo.subtract %y, %wide : tensor<6x80xf32>
            %own = stablehlo.convert %places : (tensor<6x80xi32>) -> tensor<6x80xf32>
            %both = stablehlo.add %z, %own : tensor<6x80xf32>
            %next = stablehlo.add %i, %one2 : tensor<i32>
            stablehlo.return %next, %both : tensor<i32>, tensor<6x80xf32>";
        let inner = format!(
            "%zero1 = stablehlo.constant dense<0> : tensor<i32>
             %one1 = stablehlo.constant dense<1> : tensor<i32>
             %more = stablehlo.add %k, %one1 : tensor<i32>
             %in:2 = stablehlo.while(%i = %zero1, %y = %u) : tensor<i32>, tensor<6x80xf32> {}
             stablehlo.return %more, %in#1 : tensor<i32>, tensor<6x80xf32>",
            body(turn)
        );
        let text = check(
            &format!(
                "func.func @main(%a: tensor<6x80xf32>) -> tensor<6x80xf32> {{
                %zero = stablehlo.constant dense<0> : tensor<i32>
                %out:2 = stablehlo.while(%k = %zero, %u = %a) : tensor<i32>, tensor<6x80xf32> {}
                return %out#1 : tensor<6x80xf32> }}",
                body(&inner).replacen("%i, %n", "%k, %n", 1)
            ),
            1e-5,
        );
        let (before, inside) = text.split_once("while").unwrap_or(("", &text));
        assert!(before.contains("iota 6") && !inside.contains("fused iota"), "{text}");
    }
}
