//! StableHLO's structured attributes; fields with their default value are left out.

use super::write::{push_dims, push_int};
use crate::Attr;
use crate::attr::{ConvDims, Field, Fields};

/// Appends `#stablehlo.dot<...>`, `#stablehlo.gather<...>`, `#stablehlo.scatter<...>` or a channel handle.
pub(super) fn push_struct(out: &mut String, attr: &Attr) {
    match attr {
        Attr::Dot(d) => push_fields(out, "#stablehlo.dot<", &**d),
        Attr::Gather(g) => push_fields(out, "#stablehlo.gather<", &**g),
        Attr::Scatter(s) => push_fields(out, "#stablehlo.scatter<", &**s),
        Attr::Channel(c) => {
            out.push_str("#stablehlo.channel_handle<handle = ");
            push_int(out, c.handle);
            out.push_str(", type = ");
            push_int(out, c.channel_type);
            out.push('>');
        }
        _ => {}
    }
}

/// Appends `open`, the fields that are not zero or empty, and `>`.
fn push_fields(out: &mut String, open: &str, value: &impl Fields) {
    out.push_str(open);
    let mut between = "";
    for (name, field) in value.clone().fields() {
        if matches!(&field, Field::Int(0)) || matches!(&field, Field::Ints(dims) if dims.is_empty()) {
            continue;
        }
        for part in [between, name, " = "] {
            out.push_str(part);
        }
        match field {
            Field::Int(number) => push_int(out, *number),
            Field::Ints(dims) => push_dims(out, dims),
        }
        between = ", ";
    }
    out.push('>');
}

/// Appends `#stablehlo.conv<...>`; field by field if the numbers are no numbering of the dimensions.
pub(super) fn push_conv_attr(out: &mut String, c: &ConvDims) {
    let start = out.len();
    out.push_str("#stablehlo.conv<");
    if push_conv(out, c).is_some() {
        out.push('>');
        return;
    }
    out.truncate(start);
    push_fields(out, "#stablehlo.conv<raw ", c);
}

/// Appends `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`; `None` if it has no such form.
pub(super) fn push_conv(out: &mut String, c: &ConvDims) -> Option<()> {
    push_order(out, &c.input_spatial, [(c.input_batch, "b"), (c.input_feature, "f")])?;
    out.push('x');
    push_order(out, &c.kernel_spatial, [(c.kernel_input_feature, "i"), (c.kernel_output_feature, "o")])?;
    out.push_str("->");
    push_order(out, &c.output_spatial, [(c.output_batch, "b"), (c.output_feature, "f")])
}

/// What each dimension is: a letter, or the number of the spatial dimension.
fn push_order(out: &mut String, spatial: &[i64], named: [(i64, &str); 2]) -> Option<()> {
    out.push('[');
    for dim in 0..spatial.len() as i64 + 2 {
        if dim > 0 {
            out.push_str(", ");
        }
        if let Some((_, name)) = named.iter().find(|(d, _)| *d == dim) {
            out.push_str(name);
        } else {
            push_int(out, spatial.iter().position(|&d| d == dim)? as i64);
        }
    }
    out.push(']');
    Some(())
}
