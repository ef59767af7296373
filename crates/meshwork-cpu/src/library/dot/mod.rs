//! Matrix products: `dot` and `dot_general` of any layout and element type.
//!
//! | file | what it is |
//! |---|---|
//! | `micro`, `avx2`, `avx512` | tiles of the result in registers |
//! | `words`, `wordwise` | the same for bytes, short integers and `bf16`: instructions that sum products of neighbors |
//! | `pack`, `group` | operands in the order in which these read them |
//! | `plan` | parts, blocks, what is packed |
//! | `matvec`, `narrow` | matrix times vector; a matrix of `bf16` times a vector |
//! | `product` | the work of a stack of products |
//! | `subnormal` | numbers that are taken as zero |
//!
//! Operands are read by their strides: a transposed, sliced or broadcast view costs nothing but its packing.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod group;
mod matvec;
pub(crate) mod micro;
mod narrow;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod product;
mod subnormal;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod words;
#[cfg(all(test, target_arch = "x86_64"))]
mod words_tests;
#[cfg(target_arch = "x86_64")]
mod wordwise;

use std::sync::Arc;

use meshwork_ir::attr::DotDims;
use meshwork_ir::op::ContractOp;
use meshwork_ir::{Attr, ElementType, OpId, OpKind};

use super::attrs;
use super::copy::view_of;
use super::nest::offsets;
use super::num::{Complex, with_f32_element, with_int_element};
use crate::compile::lower::Lower;
use crate::step::{Buf, View};
use micro::{Packed, Tile};
use pack::{Elements, Index, Of, Packer, Writer};
use product::{PackB, Product, Side};

/// Whether the processor has AVX2 and FMA.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_fma() -> bool {
    std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma")
}

/// Whether the processor has AVX-512.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn has_avx512() -> bool {
    std::arch::is_x86_feature_detected!("avx512f")
}

/// The dimension numbers of a `dot` or `dot_general`.
pub fn dimensions(cx: &Lower<'_>, op: OpId) -> Result<DotDims, String> {
    let data = cx.module.op(op);
    match (data.kind(), data.attr("dot_dimension_numbers")) {
        (OpKind::Contract(ContractOp::DotGeneral), Some(Attr::Dot(dims))) => Ok((**dims).clone()),
        (OpKind::Contract(ContractOp::Dot), _) => {
            let rank = cx.shape(data.operands()[0]).1.len() as i64;
            Ok(DotDims { lhs_contract: vec![rank - 1], rhs_contract: vec![0], ..DotDims::default() })
        }
        _ => Err(attrs::missing(data, "dot_dimension_numbers", "#stablehlo.dot<...>")),
    }
}

/// A product to be compiled: its operands, and the type of its result.
struct Call<'a> {
    op: OpId,
    lhs: View,
    rhs: View,
    elem: ElementType,
    dims: &'a DotDims,
}

/// Adds the steps of a `dot` or `dot_general`; false if its element types are not covered.
pub fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let dims = dimensions(cx, op)?;
    let data = cx.module.op(op);
    let (lhs, rhs) = (view_of(cx, data.operands()[0])?, view_of(cx, data.operands()[1])?);
    let elem = cx.shape(data.results()[0]).0;
    let call = Call { op, lhs, rhs, elem, dims: &dims };
    let types = [call.lhs.elem, call.rhs.elem, elem];
    if narrow::lower(cx, &call) {
        return Ok(true);
    }
    #[cfg(target_arch = "x86_64")]
    if words::lower(cx, &call) {
        return Ok(true);
    }
    let wide = types.iter().any(|t| matches!(t, ElementType::F64 | ElementType::C128));
    if types.iter().any(|t| t.is_complex()) {
        return Ok(if wide {
            typed::<Complex<f64>>(cx, &call, &complex(ElementType::C128))
        } else {
            typed::<Complex<f32>>(cx, &call, &complex(ElementType::C64))
        });
    }
    if types.iter().any(|t| t.is_float()) {
        return Ok(if wide { typed::<f64>(cx, &call, &double) } else { typed::<f32>(cx, &call, &single) });
    }
    let long = types.iter().any(|t| t.bits() == 64);
    Ok(if long { typed::<i64>(cx, &call, &long_int) } else { typed::<i32>(cx, &call, &int) })
}

/// Finds an element type for numbers of type `T`.
pub(crate) type Find<'a, T> = &'a dyn Fn(ElementType) -> Option<Arc<dyn Elements<T>>>;

/// Elements of a type that compute in `f32`.
pub(crate) fn single(elem: ElementType) -> Option<Arc<dyn Elements<f32>>> {
    if elem.is_float() && elem.bits() <= 8 {
        return Some(Arc::new(Of(super::num::Narrow::of_products(elem))));
    }
    with_f32_element!(elem, e => Some(Arc::new(Of(e))), else None)
}

/// Elements of a type that compute in `f64`.
pub(crate) fn double(elem: ElementType) -> Option<Arc<dyn Elements<f64>>> {
    use super::num::{Cast, Same};
    match elem {
        ElementType::F64 => Some(Arc::new(Of(Same))),
        ElementType::F32 => Some(Arc::new(Of(Cast::<f32>(std::marker::PhantomData)))),
        _ => None,
    }
}

/// Elements of a type that compute in `i32`.
pub(crate) fn int(elem: ElementType) -> Option<Arc<dyn Elements<i32>>> {
    with_int_element!(elem, i32, e => Some(Arc::new(Of(e))), else None)
}

/// Elements of a type that compute in `i64`.
pub(crate) fn long_int(elem: ElementType) -> Option<Arc<dyn Elements<i64>>> {
    with_int_element!(elem, i64, e => Some(Arc::new(Of(e))), else None)
}

/// Complex numbers of one type.
pub(crate) fn complex<T: Tile>(of: ElementType) -> impl Fn(ElementType) -> Option<Arc<dyn Elements<T>>> {
    move |elem| (elem == of).then(|| Arc::new(Of(super::num::Same)) as Arc<dyn Elements<T>>)
}

/// Whether elements of type `elem` are numbers of type `T` as they are in memory.
pub(crate) fn is_same<T: 'static>(elem: ElementType) -> bool {
    use std::any::TypeId;
    let id = match elem {
        ElementType::F32 => TypeId::of::<f32>(),
        ElementType::F64 => TypeId::of::<f64>(),
        ElementType::I32 => TypeId::of::<i32>(),
        ElementType::I64 => TypeId::of::<i64>(),
        ElementType::C64 => TypeId::of::<Complex<f32>>(),
        ElementType::C128 => TypeId::of::<Complex<f64>>(),
        _ => return false,
    };
    id == TypeId::of::<T>()
}

fn typed<T: Tile>(cx: &mut Lower<'_>, call: &Call<'_>, find: Find<'_, T>) -> bool {
    let (Some(a), Some(b), Some(out)) = (find(call.lhs.elem), find(call.rhs.elem), find(call.elem)) else {
        return false;
    };
    let product = product_of(call, a, b, out);
    let c = cx.result(cx.module.op(call.op).results()[0]);
    emit(cx, call.op, product, c, call.elem);
    true
}

/// The product that `call` asks for, its operands packed by `a` and `b`.
fn product_of<T: Packed>(
    &Call { ref lhs, ref rhs, elem, dims, .. }: &Call<'_>,
    a: Arc<dyn Packer<T>>,
    b: Arc<dyn Packer<T>>,
    out: Arc<dyn Writer<T::Sum>>,
) -> Product<T> {
    let free = |x: &View, batch: &[i64], contract: &[i64]| -> Vec<i64> {
        (0..x.dims.len() as i64).filter(|d| !batch.contains(d) && !contract.contains(d)).collect()
    };
    let (l_free, r_free) =
        (free(lhs, &dims.lhs_batch, &dims.lhs_contract), free(rhs, &dims.rhs_batch, &dims.rhs_contract));
    let pick = |x: &View, of: &[i64]| -> (Vec<i64>, Vec<i64>) {
        of.iter().map(|&d| (x.dims[d as usize], x.strides[d as usize])).unzip()
    };
    let side = |x: &View, batch: &[i64], outer: &[i64], depth: &[i64], packer| {
        let ((bd, bs), (od, os), (dd, ds)) = (pick(x, batch), pick(x, outer), pick(x, depth));
        Side {
            buf: x.buf,
            batch: offsets(&bd, &bs).into_iter().map(|o| o + x.offset as isize).collect(),
            outer: Index::new(&od, &os),
            depth: Index::new(&dd, &ds),
            packer,
            same: is_same::<T>(x.elem),
        }
    };
    let size = |x: &View, of: &[i64]| of.iter().map(|&d| x.dims[d as usize] as usize).product::<usize>();
    Product {
        a: side(lhs, &dims.lhs_batch, &l_free, &dims.lhs_contract, a),
        b: side(rhs, &dims.rhs_batch, &r_free, &dims.rhs_contract, b),
        c: Buf(0),
        c_batch: Arc::new([]),
        c_row: 0,
        dense: true,
        rows: size(lhs, &l_free),
        columns: size(rhs, &r_free),
        depth: size(lhs, &dims.lhs_contract),
        out,
        out_size: elem.storage_bytes(),
        out_same: is_same::<T::Sum>(elem),
        accumulate: false,
        swollen_b: false,
        packed: None,
        tile: Default::default(),
        plan: Default::default(),
        panels: Arc::new([]),
        blocks: Arc::new([]),
    }
}

/// Adds the steps of `product` into `c`.
pub(crate) fn emit<T: Tile>(cx: &mut Lower<'_>, op: OpId, product: Product<T>, c: Buf, elem: ElementType) {
    if let Some(work) = matvec::Matvec::new(Product { c, ..product.clone() }) {
        let reads = work.reads();
        cx.step(op, name_of(&product, elem), Arc::new(work), reads, vec![c]);
    } else {
        emit_packed(cx, op, product, c, elem);
    }
}

/// What profiles call a product.
fn name_of<T: Packed>(product: &Product<T>, elem: ElementType) -> String {
    let (b, m, n, k) = (product.a.batch.len(), product.rows, product.columns, product.depth);
    if b == 1 { format!("dot {elem} {m}×{n}×{k}") } else { format!("dot {elem} {b} of {m}×{n}×{k}") }
}

/// The same for what is not a matrix times a vector.
fn emit_packed<T: Packed>(cx: &mut Lower<'_>, op: OpId, mut product: Product<T>, c: Buf, elem: ElementType) {
    let name = name_of(&product, elem);
    product.c = c;
    if product.dense {
        product.c_row = product.columns * product.out_size;
        let matrix = (product.rows * product.c_row) as isize;
        product.c_batch = (0..product.a.batch.len() as isize).map(|b| b * matrix).collect();
    }
    product.replan();
    let mut reads = vec![product.a.buf];
    if product.plan.shared_b {
        let bytes = product.b.batch.len() * product.packed_len() * size_of::<T>();
        let to = cx.temp(bytes);
        let pack = PackB { product: product.clone(), to };
        cx.step(op, format!("pack for {name}"), Arc::new(pack), vec![product.b.buf], vec![to]);
        product.packed = Some(to);
        reads.push(to);
    } else {
        reads.push(product.b.buf);
    }
    cx.step(op, name, Arc::new(product), reads, vec![c]);
}
