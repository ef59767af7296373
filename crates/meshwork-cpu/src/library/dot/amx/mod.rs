//! Products on the processor's matrix unit (AMX): of `bf16`, of what `bf16` holds exactly, of `f16`, and of bytes.
//!
//! | file | what it is |
//! |---|---|
//! | `unit` | the registers and instructions; [`multiply`](unit::multiply) is a product of packed tiles |
//! | `source` | elements in memory as words of tiles |
//! | `split` | `f16` as sums of two `bf16` |
//! | `pack` | panels of tiles |
//! | `plan` | parts, and who packs |
//! | `product` | the work of a stack of products |
//!
//! Sums are in `f32` or `i32`. Those of `bf16` take subnormal numbers as zero, as all products of floats do here.

pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod product;
pub(crate) mod source;
pub(crate) mod split;
#[cfg(test)]
mod tests;
pub(crate) mod unit;

use std::sync::Arc;

use meshwork_ir::ElementType;

use super::micro::Packed;
use super::pack::Index;
use super::product::Side;
use super::words::byte;
use super::{Call, int, name_of, single};
use crate::compile::lower::Lower;
use crate::library::num::Narrow;
use crate::step::Buf;
use pack::{By, Pack, Role};
use plan::Plan;
use product::{Operand, Out, Packing, Product};
use unit::Kind;

/// Adds the steps of a product on the matrix unit; false if it is none, or there is no unit.
pub(super) fn lower(cx: &mut Lower<'_>, call: &Call<'_>) -> bool {
    let factors = [&call.lhs, &call.rhs].map(|x| (x.view.elem, x.elem));
    let Some(Elements { kind, packs: [a, b], out }) = elements(factors, call.elem) else { return false };
    let [lhs, rhs] = call.strided();
    let (batch, depth) = (lhs.batch.len(), lhs.terms);
    // A tile has 16 rows and columns: others do less for vectors.
    if lhs.count == 1 || rhs.count == 1 {
        return false;
    }
    let name = name_of(batch, [lhs.count, rhs.count, depth], call.elem);
    let operand = |x: super::Strided, pack| Operand {
        buf: x.buf,
        batch: x.batch,
        outer: x.outer,
        count: x.count,
        depth: x.depth,
        pack,
        packed: None,
    };
    let out_size = call.elem.storage_bytes();
    let c_row = rhs.count * out_size;
    let matrix = (lhs.count * c_row) as isize;
    let c = cx.result(cx.module.op(call.op).results()[0]);
    let product = Product {
        kind,
        a: operand(lhs, a),
        b: operand(rhs, b),
        depth,
        c,
        c_batch: (0..batch as isize).map(|b| b * matrix).collect(),
        c_row,
        out,
        out_size,
        swollen: None,
        plan: Plan::default(),
    };
    emit(cx, call.op, name, product);
    true
}

/// `product`, whose elements are of type `types` (of `A`, `B` and the result), on the matrix unit: a convolution, of which the operand
/// that is windows is `windows`. `None` if there is no unit, or it would not be faster.
pub(crate) fn convolution<T: Packed>(
    product: &super::Product<T>,
    types: [ElementType; 3],
    windows: Role,
) -> Option<Product> {
    let Elements { kind, packs: [a, b], out } = elements([(types[0], types[0]), (types[1], types[1])], types[2])?;
    let side = if windows == Role::Rows { &product.a } else { &product.b };
    let size = if windows == Role::Rows { types[0] } else { types[1] }.storage_bytes() as isize;
    // Windows are read by vectors along the taps or along positions.
    let runs = |x: &Index, n: usize| x.step() == size && x.run(0, n) == n;
    if product.rows < 8 || product.columns < 8 || !(runs(&side.depth, 8) || runs(&side.outer, 16)) {
        return None;
    }
    let operand = |x: &Side<T>, count: usize, pack| Operand {
        buf: x.buf,
        batch: x.batch.clone(),
        outer: x.outer.clone(),
        count,
        depth: x.depth.clone(),
        pack,
        packed: None,
    };
    Some(Product {
        kind,
        a: operand(&product.a, product.rows, a),
        b: operand(&product.b, product.columns, b),
        depth: product.depth,
        c: product.c,
        c_batch: product.c_batch.clone(),
        c_row: product.c_row,
        out,
        out_size: product.out_size,
        swollen: Some(windows),
        plan: Plan::default(),
    })
}

/// Adds the steps of `product`.
pub(crate) fn emit(cx: &mut Lower<'_>, op: meshwork_ir::OpId, name: String, mut product: Product) {
    product.plan = Plan::new(&product.problem(cx.devices));
    let mut reads = vec![];
    for (role, shared) in [(Role::Rows, product.plan.shared_a), (Role::Columns, product.plan.shared_b)] {
        let operand = if role == Role::Rows { &product.a } else { &product.b };
        let buf = operand.buf;
        if !shared {
            reads.push(buf);
            continue;
        }
        let to: Buf = cx.temp(operand.batch.len() * product.packed_bytes(operand));
        let packing = Packing { product: product.clone(), role, to };
        cx.step(op, format!("pack for {name}"), Arc::new(packing), vec![buf], vec![to]);
        reads.push(to);
        let operand = if role == Role::Rows { &mut product.a } else { &mut product.b };
        operand.packed = Some(to);
    }
    let c = product.c;
    cx.step(op, name, Arc::new(product), reads, vec![c]);
}

/// What the elements of a product are for the unit, what packs them, and how sums become results.
struct Elements {
    kind: Kind,
    packs: [Arc<dyn Pack>; 2],
    out: Out,
}

/// The elements of a product by what its factors are in memory and as what it takes them, and what its results are. `None` if
/// the unit has no such product, or there is no unit.
fn elements([a, b]: [(ElementType, ElementType); 2], elem: ElementType) -> Option<Elements> {
    if !unit::is_available() {
        return None;
    }
    if let (Some(a), Some(b)) = (half(a), half(b)) {
        return Some(Elements { kind: Kind::Bf16, packs: [a, b], out: floats(elem)? });
    }
    if [a, b].iter().all(|&types| types == (ElementType::F16, ElementType::F16)) {
        let packs: [Arc<dyn Pack>; 2] = [Arc::new(By(split::Split::Both)), Arc::new(By(split::Split::First))];
        return Some(Elements { kind: Kind::F16, packs, out: floats(elem)? });
    }
    let (a, b) = (byte(a.0)?, byte(b.0)?);
    let out = match elem {
        ElementType::I32 | ElementType::UI32 => Out::Same,
        _ => Out::Int(int(elem)?),
    };
    let bytes = || Arc::new(By(source::Bytes)) as Arc<dyn Pack>;
    Some(Elements { kind: Kind::Bytes { a, b }, packs: [bytes(), bytes()], out })
}

/// How sums in `f32` become results of type `elem`.
fn floats(elem: ElementType) -> Option<Out> {
    match elem {
        ElementType::F32 => Some(Out::Same),
        ElementType::BF16 => Some(Out::Bf16),
        ElementType::F16 => Some(Out::F16),
        _ => Some(Out::Float(single(elem)?)),
    }
}

/// What packs elements of the first type, taken as the second, as `bf16`; if that holds them exactly.
fn half(types: (ElementType, ElementType)) -> Option<Arc<dyn Pack>> {
    match types {
        (ElementType::BF16, _) => Some(Arc::new(By(source::Halves))),
        (ElementType::F32, ElementType::BF16) => Some(Arc::new(By(source::Rounded))),
        // The least of them is subnormal.
        (ElementType::F8E8M0FNU, _) => None,
        (elem, _) if elem.is_float() && elem.bits() <= 8 => Some(Arc::new(By(source::Eighths::new(Narrow::new(elem))))),
        _ => None,
    }
}
