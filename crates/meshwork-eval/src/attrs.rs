//! Attributes of an operation as the evaluator needs them, or a fault that names the missing one.

use super::conv::Conv;
use super::fault::Fault;
use super::window::Window;
use meshwork_ir::{Attr, Literal, Op};

/// The integer `name`.
pub(crate) fn int(op: &Op, name: &str) -> Result<i64, Fault> {
    op.int(name).ok_or_else(|| missing(name, "an integer"))
}

/// The non-negative integer `name`, an index or a count.
pub(crate) fn index(op: &Op, name: &str) -> Result<usize, Fault> {
    let value = int(op, name)?;
    usize::try_from(value).map_err(|_| Fault::invalid(format!("attribute '{name}' is {value}, below 0")))
}

/// The integers `name`.
pub(crate) fn ints(op: &Op, name: &str) -> Result<Vec<i64>, Fault> {
    op.i64s(name).ok_or_else(|| missing(name, "a list of integers"))
}

/// The integers `name`, or `default` for each of `count` where it is absent.
pub(crate) fn ints_or(op: &Op, name: &str, count: usize, default: i64) -> Result<Vec<i64>, Fault> {
    match op.attr(name) {
        None => Ok(vec![default; count]),
        Some(_) => ints(op, name),
    }
}

/// The booleans `name`, or false for each of `count` where it is absent.
pub(crate) fn flags_or_false(op: &Op, name: &str, count: usize) -> Result<Vec<bool>, Fault> {
    op.bools(name, count).ok_or_else(|| missing(name, "a list of booleans, one per dimension"))
}

/// The float `name`.
pub(crate) fn float(op: &Op, name: &str) -> Result<f64, Fault> {
    match op.attr(name) {
        Some(Attr::Float(v, _)) => Ok(*v),
        _ => Err(missing(name, "a float")),
    }
}

/// Low and high padding per dimension, zero where absent.
pub(crate) fn padding(op: &Op, count: usize) -> Result<Vec<(i64, i64)>, Fault> {
    let flat = ints_or(op, "padding", 2 * count, 0)?;
    if flat.len() != 2 * count {
        return Err(Fault::invalid(format!("{} padding amounts for {count} dimensions", flat.len())));
    }
    Ok(flat.chunks_exact(2).map(|p| (p[0], p[1])).collect())
}

/// The windows of `reduce_window` and `select_and_scatter`.
pub(crate) fn window(op: &Op, rank: usize) -> Result<Window, Fault> {
    let list = |name: &str| {
        let values = ints_or(op, name, rank, 1)?;
        let fits = values.len() == rank && values.iter().all(|&v| v > 0);
        fits.then_some(values).ok_or_else(|| missing(name, &format!("{rank} positive integers")))
    };
    Ok(Window {
        size: ints_or(op, "window_dimensions", rank, 1)?,
        strides: list("window_strides")?,
        base_dilations: list("base_dilations")?,
        window_dilations: list("window_dilations")?,
        padding: padding(op, rank)?,
    })
}

/// The dense constant `value`.
pub(crate) fn constant(op: &Op) -> Result<Literal, Fault> {
    match op.attr("value") {
        Some(Attr::Dense(dense)) => {
            dense.to_literal().ok_or_else(|| Fault::invalid("the elements of the constant are not in the file"))
        }
        _ => Err(missing("value", "a dense constant")),
    }
}

/// A convolution with this padding per spatial dimension.
pub(crate) fn convolution(op: &Op, padding: Vec<(i64, i64)>) -> Result<Conv, Fault> {
    let Some(Attr::Conv(dims)) = op.attr("dimension_numbers") else {
        return Err(missing("dimension_numbers", "#stablehlo.conv<...>"));
    };
    let spatial = dims.input_spatial.len();
    if padding.len() != spatial || padding.iter().any(|p| p.0.unsigned_abs().max(p.1.unsigned_abs()) > 1 << 40) {
        return Err(Fault::invalid(format!("padding {padding:?} for {spatial} spatial dimensions")));
    }
    Ok(Conv {
        dims: (**dims).clone(),
        strides: ints_or(op, "window_strides", spatial, 1)?,
        padding,
        lhs_dilation: ints_or(op, "lhs_dilation", spatial, 1)?,
        rhs_dilation: ints_or(op, "rhs_dilation", spatial, 1)?,
        reversal: flags_or_false(op, "window_reversal", spatial)?,
        feature_groups: int(op, "feature_group_count")?,
        batch_groups: int(op, "batch_group_count")?,
    })
}

pub(crate) fn missing(name: &str, kind: &str) -> Fault {
    Fault::invalid(format!("attribute '{name}' is not {kind}"))
}
