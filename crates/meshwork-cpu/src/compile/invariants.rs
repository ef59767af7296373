//! What is computed once in front of a loop because every turn would compute the same.
//!
//! ```text
//! for …: x = (a + aᵀ)·x     ──►  b = a + aᵀ;  for …: x = b·x
//! for …: u = exp(k)·u       ──►  e = exp(k);  for …: u = e·u
//! ```
//!
//! Anything else that is cheap is better computed in the loops of a turn than read from memory there.

use meshwork_ir::op::{BinaryOp, BodyOp, ContractOp, ControlOp, MovementOp, UnaryOp};
use meshwork_ir::transform::hoist::hoist_chains;
use meshwork_ir::{Module, OpId, OpKind, ValueId};

use crate::fuse::is_renaming;
use crate::library::dot::converted;

/// Moves what is worth it out of the loops of `module`.
pub(crate) fn hoist(module: &mut Module) {
    hoist_chains(module, is_worth_hoisting);
}

/// Scalars; what a fused loop cannot compute on the way; sums and other reductions, which read more than they give; what is
/// in memory anyway for who reads it; functions that cost more than reading their results.
fn is_worth_hoisting(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let is_scalar = |v: ValueId| module.ty(v).as_tensor().is_some_and(|t| t.num_elements() == Some(1));
    let is_heavy = matches!(
        data.kind(),
        OpKind::Contract(ContractOp::DotGeneral | ContractOp::Convolution)
            | OpKind::Movement(MovementOp::Gather)
            | OpKind::Linalg(_)
            | OpKind::Body(BodyOp::Reduce)
    );
    let is_stored = |v: ValueId| !is_renaming(data.kind()) && is_read_from_memory(module, v);
    is_heavy
        || data.results().iter().all(|&r| is_scalar(r))
        || data.results().iter().any(|&r| is_stored(r) || is_index(module, r))
        || is_costly(data.kind()) && data.results().iter().all(|&r| bytes(module, r) <= MOST_BYTES)
}

/// Results of functions that are kept for all turns: no more than stays in the caches.
const MOST_BYTES: i64 = 1 << 20;

fn bytes(module: &Module, v: ValueId) -> i64 {
    let bytes = |elements: i64| Some(elements * module.ty(v).elem()?.bits() as i64 / 8);
    module.ty(v).as_tensor().and_then(|t| t.num_elements()).and_then(bytes).unwrap_or(i64::MAX)
}

/// Whether `v` are the indices of a gather or scatter.
fn is_index(module: &Module, v: ValueId) -> bool {
    let names = |op: OpId| match module.op(op).kind() {
        OpKind::Movement(MovementOp::Gather) => module.op(op).operands().get(1) == Some(&v),
        OpKind::Body(BodyOp::Scatter) => {
            let count = module.op(op).operands().len();
            module.op(op).operands().get(count / 2) == Some(&v)
        }
        _ => false,
    };
    module.value(v).uses().iter().any(|u| names(u.op))
}

/// Whether something that is no fused loop reads `v`, and not before a conversion that it does itself.
fn is_read_from_memory(module: &Module, v: ValueId) -> bool {
    module.value(v).uses().iter().any(|u| match module.op(u.op).kind() {
        OpKind::Contract(_) => converted(module, u.op, v).is_none(),
        OpKind::Linalg(_) | OpKind::Control(ControlOp::CustomCall) | OpKind::Body(BodyOp::Sort) => true,
        kind if is_renaming(kind) => module.op(u.op).results().iter().any(|&r| is_read_from_memory(module, r)),
        _ => false,
    })
}

/// Whether a function of elements takes longer than reading its result.
fn is_costly(kind: OpKind) -> bool {
    match kind {
        OpKind::Unary(f) => !matches!(
            f,
            UnaryOp::Abs
                | UnaryOp::Ceil
                | UnaryOp::Conj
                | UnaryOp::CountLeadingZeros
                | UnaryOp::Floor
                | UnaryOp::Imag
                | UnaryOp::IsFinite
                | UnaryOp::IsInf
                | UnaryOp::IsNegInf
                | UnaryOp::IsPosInf
                | UnaryOp::Negate
                | UnaryOp::Not
                | UnaryOp::Popcnt
                | UnaryOp::Real
                | UnaryOp::RoundNearestAfz
                | UnaryOp::RoundNearestEven
                | UnaryOp::Rsqrt
                | UnaryOp::Sign
                | UnaryOp::Sqrt
                | UnaryOp::Square
        ),
        OpKind::Binary(f) => {
            matches!(f, BinaryOp::Atan2 | BinaryOp::Polygamma | BinaryOp::Power | BinaryOp::Zeta)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use meshwork_ir::op::ControlOp;
    use meshwork_ir::{OpKind, Walk};

    use crate::compile::testing::{check, parse};

    /// A loop over `x` whose `step` makes `%next` of `%x`, of `%a`, which stays, and of the number `%i` of the turn.
    fn looped(turns: usize, a: &str, x: &str, step: &str) -> String {
        format!(
            "func.func @main(%a0: {a}, %x0: {x}) -> {x} {{
               %i0 = stablehlo.constant dense<0> : tensor<i32>
               %0:3 = stablehlo.while(%i = %i0, %a = %a0, %x = %x0) : tensor<i32>, {a}, {x}
                 cond {{
                   %n = stablehlo.constant dense<{turns}> : tensor<i32>
                   %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                   stablehlo.return %c : tensor<i1>
                 }} do {{
                   %one = stablehlo.constant dense<1> : tensor<i32>
                   %j = stablehlo.add %i, %one : tensor<i32>
                   {step}
                   stablehlo.return %j, %a, %next : tensor<i32>, {a}, {x}
                 }}
               return %0#2 : {x}
             }}"
        )
    }

    /// The names of the operations that stay in the loop. Results are compared with the evaluator's, for all numbers of turns.
    fn left(a: &str, x: &str, step: &str) -> Vec<&'static str> {
        for turns in [0, 1, 3] {
            check(&looped(turns, a, x, step), 1e-4);
        }
        let mut module = parse(&looped(3, a, x, step));
        super::hoist(&mut module);
        let all = module.all_ops(Walk::PreOrder);
        let is_loop = |&op: &_| module.op(op).kind() == OpKind::Control(ControlOp::While);
        let body = all.into_iter().find(is_loop).and_then(|op| module.body_of(op, 1)).expect("the program has a loop");
        module.ops_in(body).map(|op| module.op(op).kind().name()).collect()
    }

    #[test]
    fn operands_of_products_leave() {
        for n in [1, 7, 33] {
            let (a, x) = (format!("tensor<{n}x{n}xf32>"), format!("tensor<{n}xf32>"));
            let step = format!(
                "%t = stablehlo.transpose %a, dims = [1, 0] : ({a}) -> {a}
                 %b = stablehlo.add %a, %t : {a}
                 %y = stablehlo.dot_general %b, %x, contracting_dims = [1] x [0] : ({a}, {x}) -> {x}
                 %few = stablehlo.constant dense<0.01> : {x}
                 %z = stablehlo.multiply %y, %few : {x}
                 %next = stablehlo.sine %z : {x}"
            );
            let left = left(&a, &x, &step);
            assert_eq!(left.iter().filter(|&&name| name == "stablehlo.add").count(), 1, "{left:?}");
        }
    }

    /// What a product reads before a conversion stays where it is: it converts on the way.
    #[test]
    fn conversions_stay() {
        let (a, x) = ("tensor<8x8xbf16>", "tensor<8xf32>");
        let step = format!(
            "%b = stablehlo.convert %a : ({a}) -> tensor<8x8xf32>
             %next = stablehlo.dot_general %b, %x, contracting_dims = [1] x [0] : (tensor<8x8xf32>, {x}) -> {x}"
        );
        assert!(left(a, x, &step).contains(&"stablehlo.convert"));
    }

    #[test]
    fn functions_and_sums_leave_and_cheap_ones_stay() {
        let (a, x) = ("tensor<6x5xf32>", "tensor<6xf32>");
        let step = format!(
            "%zero = stablehlo.constant dense<0.0> : tensor<f32>
             %square = stablehlo.multiply %a, %a : {a}
             %sum = stablehlo.reduce(%square init: %zero) applies stablehlo.add across dimensions = [1]
               : ({a}, tensor<f32>) -> {x}
             %e = stablehlo.tanh %sum : {x}
             %n = stablehlo.negate %e : {x}
             %next = stablehlo.multiply %x, %n : {x}"
        );
        let left = left(a, x, &step);
        for (name, stays) in [("stablehlo.reduce", false), ("stablehlo.tanh", false), ("stablehlo.negate", true)] {
            assert_eq!(left.contains(&name), stays, "{name} in {left:?}");
        }
    }

    /// A body that uses what the turn makes.
    #[test]
    fn reductions_by_the_turn_stay() {
        let (a, x) = ("tensor<6x5xf32>", "tensor<6xf32>");
        let step = format!(
            "%zero = stablehlo.constant dense<0.0> : tensor<f32>
             %f = stablehlo.convert %i : (tensor<i32>) -> tensor<f32>
             %sum = stablehlo.reduce(%a init: %f) applies stablehlo.add across dimensions = [1]
               : ({a}, tensor<f32>) -> {x}
             %next = stablehlo.multiply %x, %sum : {x}"
        );
        assert!(left(a, x, &step).contains(&"stablehlo.reduce"));
    }
}
