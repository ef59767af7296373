//! Matrix products: `dot` and `dot_general` of any layout and element type.
//!
//! | file | what it is |
//! |---|---|
//! | `micro`, `avx2`, `avx512`, `complex` | tiles of the result in registers |
//! | `amx` | tiles of `bf16` and bytes on the processor's matrix unit |
//! | `words`, `wordwise` | the same for bytes, short integers and `bf16`: instructions that sum products of neighbors |
//! | `pack`, `group` | operands in the order in which these read them |
//! | `plan` | parts, blocks, what is packed |
//! | `factor` | operands, and conversions that are left to packing |
//! | `matvec`, `columns`, `narrow` | matrix times vector; a small one; a matrix of `bf16` or `f16` times a vector |
//! | `stacked` | stacks of small products, one in each lane |
//! | `product` | the work of a stack of products |
//! | `subnormal` | numbers that are taken as zero |
//!
//! Operands are read by their strides: a transposed, sliced or broadcast view costs nothing but its packing.

#[cfg(target_arch = "x86_64")]
pub(crate) mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod columns;
#[cfg(target_arch = "x86_64")]
mod complex;
mod factor;
#[cfg(target_arch = "x86_64")]
mod group;
mod matvec;
pub(crate) mod micro;
mod narrow;
pub(crate) mod pack;
pub(crate) mod plan;
pub(crate) mod product;
mod stacked;
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
use meshwork_mesh::sort_by_key;

use super::attrs;
use super::nest::offsets;
use super::num::{Complex, with_f32_element, with_int_element};
use crate::compile::lower::Lower;
use crate::step::{Buf, View};
use factor::{Factor, factor};
pub(crate) use factor::{converted, is_left_out, unconverted};
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

/// What tests take this processor not to have, so that they run what others do.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub(crate) enum Without {
    Nothing,
    /// A matrix unit.
    Tiles,
    /// That, nor instructions that sum products of neighbors.
    Words,
}

#[cfg(test)]
thread_local! {
    pub(crate) static WITHOUT: std::cell::Cell<Without> = const { std::cell::Cell::new(Without::Nothing) };
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

/// The same sums in another order: contracted dimensions as they follow one another in memory, in the larger operand if they are its
/// innermost, else in the other one.
fn in_memory_order(mut dims: DotDims, lhs: &View, rhs: &View) -> DotDims {
    let mut pairs: Vec<(i64, i64)> = dims.lhs_contract.iter().copied().zip(dims.rhs_contract.iter().copied()).collect();
    let stride = |view: &View, d: i64| if view.dims[d as usize] == 1 { 0 } else { view.strides[d as usize].abs() };
    let is_innermost =
        |view: &View, contract: &[i64]| contract.iter().any(|&d| stride(view, d) == view.elem.storage_bytes() as i64);
    let left = is_innermost(lhs, &dims.lhs_contract);
    let right = is_innermost(rhs, &dims.rhs_contract);
    if left || right {
        let is_left = left && !(right && rhs.len() > lhs.len());
        sort_by_key(&mut pairs, |&(l, r)| -if is_left { stride(lhs, l) } else { stride(rhs, r) });
    }
    (dims.lhs_contract, dims.rhs_contract) = pairs.into_iter().unzip();
    dims
}

/// A product to be compiled: its operands, and the type of its result.
struct Call<'a> {
    op: OpId,
    lhs: Factor,
    rhs: Factor,
    elem: ElementType,
    dims: &'a DotDims,
}

/// An operand by its strides.
struct Strided {
    buf: Buf,
    /// Byte offset of each matrix of the stack.
    batch: Arc<[isize]>,
    /// Rows of the left operand, columns of the right one; how many.
    outer: Index,
    count: usize,
    /// The direction that is summed over; how many elements.
    depth: Index,
    terms: usize,
}

impl Call<'_> {
    /// How many products there are, and their rows, columns and terms.
    fn extents(&self) -> (usize, [usize; 3]) {
        let view = &self.lhs.view;
        let size = |list: &[i64]| list.iter().map(|&d| view.dims[d as usize] as usize).product::<usize>();
        let (batch, depth) = (size(&self.dims.lhs_batch), size(&self.dims.lhs_contract));
        let [rows, columns] = [&self.lhs, &self.rhs].map(|f| f.view.len() / (batch * depth).max(1));
        (batch, [rows, columns, depth])
    }

    /// Whether it is a stack of products of small matrices.
    fn is_stack(&self) -> bool {
        let (batch, sizes) = self.extents();
        stacked::is_stack(batch, sizes)
    }

    /// Whether the left, or the right operand is a matrix that is multiplied by a vector.
    fn is_by_vector(&self) -> [bool; 2] {
        let (_, [rows, columns, _]) = self.extents();
        [columns == 1, rows == 1]
    }

    /// Both operands by their strides.
    fn strided(&self) -> [Strided; 2] {
        let d = self.dims;
        [(&self.lhs, &d.lhs_batch, &d.lhs_contract), (&self.rhs, &d.rhs_batch, &d.rhs_contract)].map(
            |(Factor { view, .. }, batch, contract)| {
                let free: Vec<i64> =
                    (0..view.dims.len() as i64).filter(|d| !batch.contains(d) && !contract.contains(d)).collect();
                let pick = |of: &[i64]| -> (Vec<i64>, Vec<i64>) {
                    of.iter().map(|&d| (view.dims[d as usize], view.strides[d as usize])).unzip()
                };
                let size = |dims: &[i64]| dims.iter().product::<i64>() as usize;
                let ((bd, bs), (od, os), (dd, ds)) = (pick(batch), pick(&free), pick(contract));
                Strided {
                    buf: view.buf,
                    batch: offsets(&bd, &bs).into_iter().map(|o| o + view.offset as isize).collect(),
                    outer: Index::new(&od, &os),
                    count: size(&od),
                    depth: Index::new(&dd, &ds),
                    terms: size(&dd),
                }
            },
        )
    }
}

/// Adds the steps of a `dot` or `dot_general`; false if its element types are not covered.
pub fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let dims = dimensions(cx, op)?;
    let data = cx.module.op(op);
    let (lhs, rhs) = (factor(cx, op, data.operands()[0])?, factor(cx, op, data.operands()[1])?);
    let elem = cx.shape(data.results()[0]).0;
    let dims = in_memory_order(dims, &lhs.view, &rhs.view);
    let call = Call { op, lhs, rhs, elem, dims: &dims };
    let types = [call.lhs.elem, call.rhs.elem, elem];
    if !call.is_stack() {
        if narrow::lower(cx, &call) {
            return Ok(true);
        }
        #[cfg(target_arch = "x86_64")]
        if amx::lower(cx, &call) || words::lower(cx, &call) {
            return Ok(true);
        }
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
        return Ok(if wide {
            typed::<f64>(cx, &call, &double)
        } else {
            put(cx, &call, [call.lhs.single(), call.rhs.single()], single(elem))
        });
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
    put(cx, call, [find(call.lhs.view.elem), find(call.rhs.view.elem)], find(call.elem))
}

/// Adds the steps of a product of numbers of type `T`; false if there is no such product of these elements.
fn put<T: Tile>(
    cx: &mut Lower<'_>,
    call: &Call<'_>,
    factors: [Option<Arc<dyn Elements<T>>>; 2],
    out: Option<Arc<dyn Elements<T>>>,
) -> bool {
    let ([Some(a), Some(b)], Some(out)) = (factors, out) else { return false };
    let product = product_of(call, a, b, out);
    let c = cx.result(cx.module.op(call.op).results()[0]);
    emit(cx, call.op, product, c, call.elem);
    true
}

/// The product that `call` asks for, its operands packed by `a` and `b`.
fn product_of<T: Packed>(
    call: &Call<'_>,
    a: Arc<dyn Packer<T>>,
    b: Arc<dyn Packer<T>>,
    out: Arc<dyn Writer<T::Sum>>,
) -> Product<T> {
    let [lhs, rhs] = call.strided();
    let (rows, columns, depth) = (lhs.count, rhs.count, lhs.terms);
    let side = |x: Strided, of: &Factor, packer| Side {
        buf: x.buf,
        batch: x.batch,
        outer: x.outer,
        depth: x.depth,
        packer,
        same: of.view.elem == of.elem && is_same::<T>(of.elem),
    };
    Product {
        a: side(lhs, &call.lhs, a),
        b: side(rhs, &call.rhs, b),
        c: Buf(0),
        c_batch: Arc::new([]),
        c_row: 0,
        dense: true,
        rows,
        columns,
        depth,
        out,
        out_size: call.elem.storage_bytes(),
        out_same: is_same::<T::Sum>(call.elem),
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
    let product = Product { c, ..product };
    if let Some(work) = stacked::Stacked::new(&product) {
        cx.step(op, product.name(elem), Arc::new(work), vec![product.a.buf, product.b.buf], vec![c]);
    } else if let Some(work) = matvec::Matvec::new(product.clone()) {
        let reads = work.reads();
        cx.step(op, product.name(elem), Arc::new(work), reads, vec![c]);
    } else {
        emit_packed(cx, op, product, c, elem);
    }
}

/// What profiles call a stack of products of so many rows, columns and terms.
fn name_of(batch: usize, [m, n, k]: [usize; 3], elem: ElementType) -> String {
    if batch == 1 { format!("dot {elem} {m}×{n}×{k}") } else { format!("dot {elem} {batch} of {m}×{n}×{k}") }
}

/// The same for what is not a matrix times a vector.
fn emit_packed<T: Packed>(cx: &mut Lower<'_>, op: OpId, mut product: Product<T>, c: Buf, elem: ElementType) {
    let name = product.name(elem);
    product.c = c;
    if product.dense {
        product.c_row = product.columns * product.out_size;
        let matrix = (product.rows * product.c_row) as isize;
        product.c_batch = (0..product.a.batch.len() as isize).map(|b| b * matrix).collect();
    }
    product.replan();
    if cx.lasting.contains(&product.b.buf) {
        product.plan.share_b(size_of::<T>(), product.tile);
    }
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
