//! The same program with a batch of another size.

use std::collections::BTreeSet;
use std::sync::Arc;

use meshwork_ir::attr::Dense;
use meshwork_ir::verify::verify;
use meshwork_ir::{Attr, Module, Severity, TensorType, Type, ValueId, Walk};

use crate::colours::{Colours, census};
use crate::error::PlannerError;
use crate::problem::{Annotated, Base};
use crate::site::{Layers, SiteKind, sites};

/// Attributes that list extents or positions by dimension.
const EXTENTS: [&str; 3] = ["limit_indices", "slice_sizes", "window_dimensions"];

/// `module` with its batch `times` as large: the extents of all dimensions that a split of the batch would pass to. The batch is
/// the first dimension of an argument that is not state: of several, the one with the most arithmetic that is also a dimension
/// of a result, where one is.
pub fn scale_batch(module: &Module, times: f64) -> Result<Module, PlannerError> {
    let misfit = |why: String| PlannerError::Misfit { constraint: format!("batch {times}x"), why };
    let mut out = Base::of(module, Annotated::Kept)?.module;
    let func = out.entry().ok_or(PlannerError::NoEntry)?;
    let body = out.body_of(func, 0).ok_or(PlannerError::NoEntry)?;
    let mut colours = Colours::of(&out);
    let class = vec![String::new(); out.block(body).args().len()];
    let (sites, _) = sites(&out, &mut colours, Layers::Untied, &class);
    let weights = census(&out, &colours).weights;
    let returned: BTreeSet<usize> = out.returned(body).iter().flat_map(|&v| colours.of_value(v)).collect();
    let first = sites.iter().filter(|site| site.kind == SiteKind::Input).map(|site| site.colours[0]);
    let key = |c: &usize| (returned.contains(c), weights.get(c).map_or(0.0, |w| w.flops + w.bytes * 1e-9));
    let batch = first
        .max_by(|a, b| key(a).partial_cmp(&key(b)).unwrap_or(std::cmp::Ordering::Equal))
        .ok_or_else(|| misfit("no argument has a batch dimension".into()))?;
    let scale = |extent: i64| {
        let scaled = extent as f64 * times;
        if scaled >= 1.0 && scaled.fract() == 0.0 {
            Ok(scaled as i64)
        } else {
            Err(misfit(format!("{extent} times {times} is no extent")))
        }
    };
    let mut values: Vec<ValueId> = out.block(body).args().to_vec();
    let ops = out.ops_below(func, Walk::PreOrder);
    for &op in &ops {
        values.extend(out.op(op).results());
        for region in out.op(op).regions().to_vec() {
            for &block in out.region(region).blocks() {
                values.extend(out.block(block).args());
            }
        }
    }
    values.sort_unstable();
    values.dedup();
    for &op in &ops {
        scale_attributes(&mut out, op, &colours, batch, &scale)?;
    }
    for v in values {
        let Some(ty) = out.ty(v).as_tensor().cloned() else { continue };
        if let Some(scaled) = scaled(&ty, &colours.of_value(v), batch, &scale)? {
            out.set_ty(v, Type::Tensor(Arc::new(scaled)));
        }
    }
    let inputs: Vec<Type> = out.block(body).args().iter().map(|&v| out.ty(v).clone()).collect();
    let results: Vec<Type> = out.returned(body).iter().map(|&v| out.ty(v).clone()).collect();
    out.edit_func_type(func, |ty| (ty.inputs, ty.results) = (inputs, results));
    match verify(&out).iter().find(|d| d.severity >= Severity::Error) {
        Some(diagnostic) => Err(misfit(format!("the program is written for its batch: {diagnostic}"))),
        None => Ok(out),
    }
}

fn scaled(
    ty: &TensorType,
    colours: &[usize],
    batch: usize,
    scale: &impl Fn(i64) -> Result<i64, PlannerError>,
) -> Result<Option<TensorType>, PlannerError> {
    if !colours.contains(&batch) {
        return Ok(None);
    }
    let dims: Result<Vec<i64>, PlannerError> =
        ty.dims.iter().zip(colours).map(|(&n, &c)| if c == batch { scale(n) } else { Ok(n) }).collect();
    Ok(Some(ty.with_dims(dims?)))
}

/// Scales what the attributes of `op` say about the batch: constants of one value, and extents of whole dimensions.
fn scale_attributes(
    module: &mut Module,
    op: meshwork_ir::OpId,
    colours: &Colours,
    batch: usize,
    scale: &impl Fn(i64) -> Result<i64, PlannerError>,
) -> Result<(), PlannerError> {
    let data = module.op(op);
    let Some(&result) = data.results().first() else { return Ok(()) };
    if let Some(Attr::Dense(dense)) = data.attr("value")
        && let Some(ty) = scaled(&dense.ty, &colours.of_value(result), batch, scale)?
    {
        let Some(bytes) = dense.splat_bytes() else {
            let why = format!("{} is a constant of the batch's extent with different elements", module.describe(op));
            return Err(PlannerError::Misfit { constraint: "batch".into(), why });
        };
        let splat = Attr::Dense(Arc::new(Dense::splat(Arc::new(ty), bytes)));
        module.op_mut(op).attrs.set("value", splat);
        return Ok(());
    }
    let Some(&operand) = data.operands().first() else { return Ok(()) };
    let (own, extents) = (colours.of_value(operand), module.ty(operand).dims().to_vec());
    for name in EXTENTS {
        let Some(mut list) = module.op(op).i64s(name).filter(|list| list.len() == own.len()) else { continue };
        for d in 0..list.len() {
            if own[d] == batch && list[d] == extents[d] {
                list[d] = scale(list[d])?;
            }
        }
        module.op_mut(op).attrs.set(name, Attr::i64s(list));
    }
    Ok(())
}
