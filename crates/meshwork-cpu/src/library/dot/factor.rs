//! Operands of products: where they are in memory, and which conversions are left to packing.

use std::sync::Arc;

use meshwork_ir::op::{ContractOp, MixedOp};
use meshwork_ir::{ElementClass, ElementType, Module, OpId, OpKind, ValueId};

use super::pack::{Elements, Of};
use super::single;
use crate::compile::lower::Lower;
use crate::compile::view_of;
use crate::fuse::{is_fusible, is_renaming};
use crate::library::num::Rounded;
use crate::step::View;

/// An operand in memory, and the element type that the product takes it as. They differ where a conversion is left to packing.
pub(super) struct Factor {
    pub view: View,
    pub elem: ElementType,
}

impl Factor {
    /// Its elements as the product takes them, for sums in `f32`.
    pub(super) fn single(&self) -> Option<Arc<dyn Elements<f32>>> {
        match (self.view.elem, self.elem) {
            (ElementType::F32, ElementType::BF16) => Some(Arc::new(Of(Rounded))),
            (elem, _) => single(elem),
        }
    }
}

/// The operand `value` of a product, which is in memory or left to packing.
pub(super) fn factor(cx: &Lower<'_>, op: OpId, value: ValueId) -> Result<Factor, String> {
    let elem = cx.shape(value).0;
    let view = match cx.view(value) {
        Some(view) => Some(view.clone()),
        None => unconverted(cx, op, value),
    };
    let view = view.ok_or_else(|| format!("value {} has no place in memory yet", value.index()))?;
    Ok(Factor { view, elem })
}

/// Where the elements of an operand of the product `op` are before a conversion that is left to packing.
pub(crate) fn unconverted(cx: &Lower<'_>, op: OpId, value: ValueId) -> Option<View> {
    let (source, names) = conversion(cx.module, op, value)?;
    let from = cx.view(source)?.clone();
    let elem = from.elem;
    let renamed = names.iter().rev().try_fold(from, |from, &name| view_of(cx.module, name, &from))?;
    Some(View { elem, ..renamed })
}

/// What a conversion reads that the product `op` leaves to packing its operand `value`.
pub(crate) fn converted(module: &Module, op: OpId, value: ValueId) -> Option<ValueId> {
    conversion(module, op, value).map(|(source, _)| source)
}

/// The same, and the operations that only rename its result, last first.
fn conversion(module: &Module, op: OpId, value: ValueId) -> Option<(ValueId, Vec<OpId>)> {
    if !matches!(module.op(op).kind(), OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral)) {
        return None;
    }
    let (mut value, mut names) = (value, vec![]);
    loop {
        let def = module.def_op(value).filter(|&def| module.op(def).parent() == module.op(op).parent())?;
        let [from] = *module.op(def).operands() else { return None };
        if is_renaming(module.op(def).kind()) && is_fusible(module, def) {
            names.push(def);
            value = from;
            continue;
        }
        let types = [module.ty(from).elem()?, module.ty(value).elem()?];
        let is_conversion = module.op(def).kind() == OpKind::Mixed(MixedOp::Convert) && is_packed_as(types);
        // One that fused loops do not have is computed where it stands, unless nothing but products reads it.
        let is_left = is_fusible(module, def) || is_left_out(module, def);
        return (is_conversion && is_left && is_in_memory(module, from)).then_some((from, names));
    }
}

/// Whether a conversion that fused loops do not have is left to the products that read it, all of them.
pub(crate) fn is_left_out(module: &Module, op: OpId) -> bool {
    let data = module.op(op);
    let ([from], [to]) = (data.operands(), data.results()) else { return false };
    let (Some(a), Some(b)) = (module.ty(*from).elem(), module.ty(*to).elem()) else { return false };
    let is_product = |user: OpId| {
        matches!(module.op(user).kind(), OpKind::Contract(ContractOp::Dot | ContractOp::DotGeneral))
            && module.op(user).parent() == data.parent()
    };
    data.kind() == OpKind::Mixed(MixedOp::Convert)
        && !is_fusible(module, op)
        && is_packed_as([a, b])
        && is_in_memory(module, *from)
        && module.value(*to).uses().iter().all(|u| is_product(u.op))
}

/// Whether `value` is in memory whoever reads it: an argument or the result of something that is no fused loop, or a view of one.
fn is_in_memory(module: &Module, value: ValueId) -> bool {
    let mut value = value;
    while let Some(op) = module.def_op(value) {
        if !is_fusible(module, op) {
            return !is_left_out(module, op);
        }
        if !is_renaming(module.op(op).kind()) {
            return false;
        }
        value = module.op(op).operands()[0];
    }
    true
}

/// Whether packers read elements of the first type as those of the second: where that is exact, and `f32` as `bf16`.
fn is_packed_as([from, to]: [ElementType; 2]) -> bool {
    use ElementType as E;
    match (from, to) {
        (E::F32, E::BF16) | (E::BF16, E::F32) => true,
        (E::F8E8M0FNU, _) => false,
        (_, E::BF16 | E::F32) if from.is_float() => from.bits() <= 8,
        _ => {
            let is_integer = |e: E| matches!(e.class(), ElementClass::Signed | ElementClass::Unsigned);
            let keeps_sign = from.class() == to.class() || to.class() == ElementClass::Signed;
            is_integer(from) && is_integer(to) && from.bits() < to.bits() && to.bits() <= 32 && keeps_sign
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::{WITHOUT, Without};
    use crate::compile::testing::check;

    /// Checks a program on all kinds of processors, and whether its conversions are left to packing.
    fn left(source: &str, steps: usize) {
        for without in [Without::Nothing, Without::Tiles, Without::Words] {
            WITHOUT.set(without);
            let text = check(source, 1e-2);
            let others = text.lines().filter(|l| l.contains(" = ") && !l.contains("dot ")).count();
            assert_eq!(others, steps, "{text}");
        }
        WITHOUT.set(Without::Nothing);
    }

    /// A product of `m × k` and `k × n` elements of `from` that are converted to `to`.
    fn product([a, b]: [&str; 2], to: &str, out: &str, [m, n, k]: [usize; 3]) -> String {
        let convert = |name: &str, from: &str, dims: String| {
            if from == to {
                format!("%{name}c = stablehlo.reshape %{name} : (tensor<{dims}x{from}>) -> tensor<{dims}x{to}>")
            } else {
                format!("%{name}c = stablehlo.convert %{name} : (tensor<{dims}x{from}>) -> tensor<{dims}x{to}>")
            }
        };
        format!(
            "func.func @main(%a: tensor<{m}x{k}x{a}>, %b: tensor<{k}x{n}x{b}>) -> tensor<{m}x{n}x{out}> {{
            {}
            {}
            %r = stablehlo.dot_general %ac, %bc, contracting_dims = [1] x [0]
                : (tensor<{m}x{k}x{to}>, tensor<{k}x{n}x{to}>) -> tensor<{m}x{n}x{out}>
            return %r : tensor<{m}x{n}x{out}> }}",
            convert("a", a, format!("{m}x{k}")),
            convert("b", b, format!("{k}x{n}")),
        )
    }

    #[test]
    fn conversions_of_arguments_are_left_to_packing() {
        for (from, to, out) in [
            (["f32", "f32"], "bf16", "bf16"),
            (["f32", "bf16"], "bf16", "f32"),
            (["bf16", "bf16"], "f32", "f32"),
            (["bf16", "f32"], "f32", "f32"),
            (["f8E4M3FN", "f8E5M2"], "bf16", "f32"),
            (["f8E4M3FN", "f32"], "bf16", "bf16"),
            (["f8E4M3FN", "f8E4M3FN"], "f32", "f32"),
            (["i8", "i8"], "i32", "i32"),
            (["ui8", "i8"], "i32", "i32"),
            (["ui8", "i32"], "i32", "i32"),
        ] {
            for size in [[5, 7, 9], [33, 47, 70], [1, 20, 30], [20, 1, 30], [1, 1, 5], [3, 4, 0]] {
                left(&product(from, to, out, size), 0);
            }
        }
    }

    #[test]
    fn converted_values_that_others_read_are_right_too() {
        let source = "func.func @main(%x: tensor<20x40xf32>, %w: tensor<40x30xf32>) -> (tensor<20x30xf32>, tensor<40x20xbf16>, tensor<20x20xbf16>) {
            %a = stablehlo.convert %x : (tensor<20x40xf32>) -> tensor<20x40xbf16>
            %b = stablehlo.convert %w : (tensor<40x30xf32>) -> tensor<40x30xbf16>
            %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<20x40xbf16>) -> tensor<40x20xbf16>
            %r = stablehlo.dot_general %t, %b, contracting_dims = [0] x [0] : (tensor<40x20xbf16>, tensor<40x30xbf16>) -> tensor<20x30xf32>
            %s = stablehlo.dot_general %a, %t, contracting_dims = [1] x [0] : (tensor<20x40xbf16>, tensor<40x20xbf16>) -> tensor<20x20xbf16>
            return %r, %t, %s : tensor<20x30xf32>, tensor<40x20xbf16>, tensor<20x20xbf16> }";
        check(source, 1e-2);
        // What is computed before the conversion is not stored twice.
        let source = "func.func @main(%x: tensor<20x40xf32>, %w: tensor<40x30xbf16>) -> tensor<20x30xf32> {
            %y = stablehlo.tanh %x : tensor<20x40xf32>
            %a = stablehlo.convert %y : (tensor<20x40xf32>) -> tensor<20x40xbf16>
            %r = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<20x40xbf16>, tensor<40x30xbf16>) -> tensor<20x30xf32>
            return %r : tensor<20x30xf32> }";
        left(source, 1);
    }

    #[test]
    fn conversions_before_loops_and_of_narrow_floats_that_are_returned() {
        let source = "func.func @main(%x: tensor<20x20xf32>, %w: tensor<20x20xf32>) -> tensor<20x20xbf16> {
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %one = stablehlo.constant dense<1> : tensor<i32>
            %three = stablehlo.constant dense<3> : tensor<i32>
            %a = stablehlo.convert %x : (tensor<20x20xf32>) -> tensor<20x20xbf16>
            %b = stablehlo.convert %w : (tensor<20x20xf32>) -> tensor<20x20xbf16>
            %r:2 = stablehlo.while(%i = %zero, %y = %a) : tensor<i32>, tensor<20x20xbf16>
            cond {
              %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
            } do {
              %p = stablehlo.dot_general %y, %b, contracting_dims = [1] x [0] : (tensor<20x20xbf16>, tensor<20x20xbf16>) -> tensor<20x20xbf16>
              %q = stablehlo.tanh %p : tensor<20x20xbf16>
              %n = stablehlo.add %i, %one : tensor<i32>
              stablehlo.return %n, %q : tensor<i32>, tensor<20x20xbf16>
            }
            return %r#1 : tensor<20x20xbf16> }";
        check(source, 3e-2);
        let source = "func.func @main(%x: tensor<20x40xf8E4M3FN>, %w: tensor<40x30xbf16>) -> (tensor<20x30xf32>, tensor<20x40xbf16>) {
            %a = stablehlo.convert %x : (tensor<20x40xf8E4M3FN>) -> tensor<20x40xbf16>
            %r = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<20x40xbf16>, tensor<40x30xbf16>) -> tensor<20x30xf32>
            return %r, %a : tensor<20x30xf32>, tensor<20x40xbf16> }";
        check(source, 1e-2);
    }
}
