//! A copy of the module made ready: one function without calls, nothing twice, constants near their uses.

use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, ControlOp, MixedOp, MovementOp, SdyOp, SourceOp, TokenOp};
use meshwork_ir::transform::{calls, canonicalize, cse, dead, inline, symbol_dce, tuples};
use meshwork_ir::{Attr, BlockId, DeviceGrid, Module, OpId, OpKind, ValueId, ValueMap, Walk};

use super::{
    LoadError, carries, components, computed, constants, counters, dilated, expand, interleave, invariants, iotas,
    narrow, pairs, pooling, repeated, scanned, simplify, small, stencil, unroll, windows,
};
use crate::fuse::Devices;

/// Copies `module` and makes `func`, which all devices of `grid` run, free of calls and of ops that mean nothing to one device.
pub(crate) fn prepare(module: &Module, func: OpId, grid: DeviceGrid) -> Result<(Module, OpId), LoadError> {
    let mut module = module.clone();
    refuse_dynamic(&module, func)?;
    inline_all(&mut module, func)?;
    for other in module.op_list(module.body()) {
        let unused = other != func && module.op(other).kind() == OpKind::Control(ControlOp::Func);
        if unused {
            module.erase(other);
        }
    }
    symbol_dce::remove_unused(&mut module, |op| op != func);
    forward_all(&mut module, func);
    carries::forward_unchanged(&mut module, func);
    unroll::write_out(&mut module, func);
    counters::simplify(&mut module, func);
    let whole: [(OpKind, canonicalize::Pattern); 2] = [
        (OpKind::Contract(ContractOp::DotGeneral), small::of_complex),
        (OpKind::Body(BodyOp::Scatter), windows::scatter_of_complex),
    ];
    canonicalize::apply(&mut module, &whole);
    pairs::split(&mut module, func);
    let own: [(OpKind, canonicalize::Pattern); 21] = [
        (OpKind::Binary(BinaryOp::Add), interleave::sum_of_spread),
        (OpKind::Binary(BinaryOp::Or), interleave::sum_of_spread),
        (OpKind::Contract(ContractOp::Convolution), dilated::convolution),
        (OpKind::Contract(ContractOp::DotGeneral), small::stacked),
        (OpKind::Body(BodyOp::Reduce), simplify::reduce_before_ones),
        (OpKind::Body(BodyOp::Reduce), simplify::reduce_of_pairs),
        (OpKind::Body(BodyOp::Reduce), iotas::reduced_positions),
        (OpKind::Movement(MovementOp::DynamicSlice), iotas::slice_of_iota),
        (OpKind::Body(BodyOp::ReduceWindow), pooling::reduce_window),
        (OpKind::Body(BodyOp::Reduce), simplify::reduce_of_ones),
        (OpKind::Movement(MovementOp::Slice), simplify::slice_of_pad),
        (OpKind::Movement(MovementOp::Slice), simplify::slice_of_joined),
        (OpKind::Movement(MovementOp::Reshape), simplify::reshape_of_reshape),
        (OpKind::Movement(MovementOp::Transpose), simplify::transposed_stack),
        (OpKind::Movement(MovementOp::Transpose), simplify::transposed_sum),
        (OpKind::Movement(MovementOp::Transpose), simplify::transposed_product),
        (OpKind::Contract(ContractOp::Convolution), stencil::convolution),
        (OpKind::Body(BodyOp::Scatter), windows::scatter),
        (OpKind::Body(BodyOp::Scatter), components::of_scatter),
        (OpKind::Movement(MovementOp::Gather), components::of_gather),
        (OpKind::Mixed(MixedOp::Select), windows::chosen_update),
    ];
    let all = canonicalize::PATTERNS.iter().chain(expand::PATTERNS).copied().chain(own).chain(constants::patterns());
    let patterns: Vec<(OpKind, canonicalize::Pattern)> = all.collect();
    canonicalize::apply(&mut module, &patterns);
    cse::eliminate(&mut module);
    narrow::low_halves(&mut module, func, Devices::all(grid));
    invariants::hoist(&mut module);
    scanned::hoist_products(&mut module, func);
    cse::eliminate(&mut module);
    canonicalize::apply(&mut module, &[(OpKind::Contract(ContractOp::DotGeneral), computed::product)]);
    sink_constants(&mut module, func);
    iotas::lift_tables(&mut module, func);
    repeated::lay_out(&mut module, func);
    dead::remove_dead(&mut module);
    Ok((module, func))
}

fn refuse_dynamic(module: &Module, func: OpId) -> Result<(), LoadError> {
    for op in module.ops_below(func, Walk::PreOrder) {
        let data = module.op(op);
        for &v in data.operands().iter().chain(data.results()) {
            if let Some(ty) = module.ty(v).as_tensor()
                && ty.num_elements().is_none()
            {
                return Err(LoadError::unsupported(module, op, format!("values of type {ty}")));
            }
        }
    }
    Ok(())
}

/// Replaces calls by what they call, down to operations.
fn inline_all(module: &mut Module, func: OpId) -> Result<(), LoadError> {
    calls::simplify(module);
    let size = calls::size(module, func).map_err(|call| LoadError::unsupported(module, call, "a recursive call"))?;
    if size > MOST_OPS {
        return Err(LoadError::unsupported(module, func, format!("calls that stand for {size} operations")));
    }
    let mut work = module.ops_below(func, Walk::PreOrder);
    while let Some(op) = work.pop() {
        let kind = module.op(op).kind();
        let callee = match kind {
            OpKind::Control(ControlOp::Call) => "callee",
            OpKind::Control(ControlOp::Composite) => "decomposition",
            OpKind::Sdy(SdyOp::NamedComputation) | OpKind::Control(ControlOp::AsyncStart) => {
                // What is in it has been visited, or will be.
                open_body(module, op)?;
                continue;
            }
            _ => continue,
        };
        for inlined in inline_one(module, op, callee)? {
            work.extend(module.ops_below(inlined, Walk::PreOrder));
        }
    }
    Ok(())
}

/// A program of more operations is not compiled.
const MOST_OPS: u64 = 1 << 22;

/// Replaces the call `op` by a copy of its callee, and gives the operations of the copy.
fn inline_one(module: &mut Module, op: OpId, attr: &str) -> Result<Vec<OpId>, LoadError> {
    let callee = module.op(op).attr(attr).and_then(Attr::as_symbol).and_then(|name| module.func(name));
    let Some(callee) = callee else {
        return Err(LoadError::invalid(module, op, format!("attribute '{attr}' names no function")));
    };
    let call = match module.op(op).kind() {
        OpKind::Control(ControlOp::Composite) => inline::composite_to_call(module, op).unwrap_or(op),
        _ => op,
    };
    module.op_mut(call).attrs.remove("no_inline");
    let kept = module.op_mut(callee).attrs.remove("no_inline");
    let done = inline::inline_call(module, call, callee);
    if let Some(flag) = kept {
        module.op_mut(callee).attrs.set("no_inline", flag);
    }
    done.ok_or_else(|| LoadError::unsupported(module, call, "a call of a function without a body of one block"))
}

/// Puts the only body of `op`, which runs once, in its place. What `async_start` starts is done at once.
fn open_body(module: &mut Module, op: OpId) -> Result<(), LoadError> {
    let Some(returned) = inline::move_out_body(module, op) else {
        return Err(LoadError::invalid(module, op, "its body is missing"));
    };
    let results = module.op(op).results().to_vec();
    if module.op(op).kind() == OpKind::Control(ControlOp::AsyncStart) {
        let users: Vec<OpId> = results.iter().flat_map(|&r| module.value(r).uses().iter().map(|u| u.op)).collect();
        for user in users {
            if module.op(user).kind() != OpKind::Control(ControlOp::AsyncDone) {
                return Err(LoadError::unsupported(module, user, "a started operation other than to wait for it"));
            }
            module.replace_op(user, &returned);
        }
        module.erase(op);
    } else {
        module.replace_op(op, &returned);
    }
    Ok(())
}

/// Takes out operations whose results are their operands.
fn forward_all(module: &mut Module, func: OpId) {
    for op in module.ops_below(func, Walk::PreOrder) {
        let data = module.op(op);
        let same: Option<Vec<ValueId>> = match data.kind() {
            OpKind::Control(ControlOp::OptimizationBarrier)
            | OpKind::Sdy(
                SdyOp::DataFlowEdge
                | SdyOp::FuncDataFlowEdge
                | SdyOp::PropagationBarrier
                | SdyOp::Reshard
                | SdyOp::ShardingConstraint,
            ) => Some(data.operands().to_vec()),
            OpKind::Sdy(SdyOp::ShardingGroup) => Some(vec![]),
            OpKind::Control(ControlOp::CustomCall) if data.is_placement_call() => Some(data.operands().to_vec()),
            OpKind::Token(TokenOp::GetTupleElement) => tuples::element(module, op).map(|element| vec![element]),
            _ => None,
        };
        let Some(same) = same else { continue };
        let results = module.op(op).results().to_vec();
        let typed =
            results.len() <= same.len() && results.iter().zip(&same).all(|(&r, &v)| module.ty(r) == module.ty(v));
        if typed {
            module.replace_op(op, &same);
        }
    }
}

/// Copies constants, iotas and broadcasts of them into the loops and branches that use them: there they cost nothing,
/// while a value from outside has to be in memory.
fn sink_constants(module: &mut Module, func: OpId) {
    let Some(outer) = module.body_of(func, 0) else { return };
    for op in module.ops_below_block(outer, Walk::PreOrder) {
        let kind = module.op(op).kind();
        if !matches!(kind, OpKind::Control(ControlOp::While | ControlOp::Case | ControlOp::If)) {
            continue;
        }
        for region in 0..module.op(op).regions().len() {
            if let Some(block) = module.body_of(op, region) {
                sink_into(module, block);
            }
        }
    }
}

fn sink_into(module: &mut Module, block: BlockId) {
    let mut copies = ValueMap::default();
    for user in module.ops_below_block(block, Walk::PreOrder) {
        for i in 0..module.op(user).operands().len() {
            let value = module.op(user).operands()[i];
            if let Some(copy) = copy_into(module, block, value, &mut copies) {
                module.set_operand(user, i, copy);
            }
        }
    }
}

/// The copy of `value` at the start of `block`, if it is a constant expression from outside.
fn copy_into(module: &mut Module, block: BlockId, value: ValueId, copies: &mut ValueMap) -> Option<ValueId> {
    if let Some(&copy) = copies.get(&value) {
        return Some(copy);
    }
    let op = module.def_op(value)?;
    if is_below(module, op, block) || !is_constant(module, op, 0) {
        return None;
    }
    for operand in module.op(op).operands().to_vec() {
        copy_into(module, block, operand, copies);
    }
    let copy = module.clone_op(op, copies);
    // After the copies of its operands, which stand at the start too.
    let last =
        module.op(copy).operands().iter().filter_map(|&v| module.def_op(v)).find(|&d| is_below(module, d, block));
    match last {
        Some(after) => module.insert_after(after, copy),
        None => module.prepend(block, copy),
    }
    copies.get(&value).copied()
}

fn is_below(module: &Module, op: OpId, block: BlockId) -> bool {
    let mut at = Some(op);
    while let Some(op) = at {
        if module.op(op).parent() == Some(block) {
            return true;
        }
        at = module.parent_op(op);
    }
    false
}

fn is_constant(module: &Module, op: OpId, depth: usize) -> bool {
    let data = module.op(op);
    let of_constants = || {
        depth < 4
            && data.operands().iter().all(|&v| module.def_op(v).is_some_and(|d| is_constant(module, d, depth + 1)))
    };
    match data.kind() {
        OpKind::Source(SourceOp::Constant | SourceOp::Iota) => true,
        OpKind::Movement(MovementOp::BroadcastInDim | MovementOp::Reshape) | OpKind::Mixed(MixedOp::Convert) => {
            of_constants()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use meshwork_ir::text::parse;

    use crate::compile::testing::ONE;
    use crate::compile::{Span, compile};

    /// Functions that each call the next one twice.
    fn tree(depth: usize, leaf: &str) -> String {
        let ty = "(tensor<f32>) -> tensor<f32>";
        let level = |i: usize| {
            let name = if i == 0 { "main".into() } else { format!("f{i}") };
            format!(
                "func.func @{name}(%a: tensor<f32>) -> tensor<f32> {{
                   %0 = func.call @f{next}(%a) : {ty}
                   %1 = func.call @f{next}(%0) : {ty}
                   return %1 : tensor<f32> }}\n",
                next = i + 1
            )
        };
        let levels: String = (0..depth).map(level).collect();
        format!("{levels}func.func @f{depth}(%a: tensor<f32>) -> tensor<f32> {{ {leaf} }}")
    }

    #[test]
    fn trees_of_calls() {
        let nothing = parse(&tree(60, "return %a : tensor<f32>")).unwrap();
        let program = compile(&nothing, None, ONE, Span::OneProcess).unwrap();
        assert!(program.main.nodes.is_empty(), "{program}");
        let sine = "%s = stablehlo.sine %a : tensor<f32> return %s : tensor<f32>";
        let few = compile(&parse(&tree(3, sine)).unwrap(), None, ONE, Span::OneProcess).unwrap();
        assert_eq!(few.main.nodes.len(), 1, "{few}");
        let error = compile(&parse(&tree(60, sine)).unwrap(), None, ONE, Span::OneProcess).unwrap_err();
        assert!(error.to_string().contains("operations"), "{error}");
    }

    /// A chain deeper than any stack.
    #[test]
    fn chains_of_calls() {
        let mut text = String::new();
        for i in 0..500 {
            let name = if i == 0 { "main".into() } else { format!("f{i}") };
            text += &format!(
                "func.func @{name}(%a: tensor<f32>) -> tensor<f32> {{
                   %0 = func.call @f{}(%a) : (tensor<f32>) -> tensor<f32>
                   %1 = stablehlo.add %0, %a : tensor<f32>
                   return %1 : tensor<f32> }}\n",
                i + 1
            );
        }
        text += "func.func @f500(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }";
        compile(&parse(&text).unwrap(), None, ONE, Span::OneProcess).unwrap();
    }
}
