//! StableHLO's structured attributes; fields with their default value are left out.

use super::write::{push_dims, push_int};
use crate::Attr;
use crate::attr::ConvDims;

/// Appends `#stablehlo.dot<...>`, `#stablehlo.gather<...>`, `#stablehlo.scatter<...>` or a channel handle.
pub(super) fn push_struct(out: &mut String, attr: &Attr) {
    match attr {
        Attr::Dot(d) => Fields::new(out, "#stablehlo.dot<")
            .dims("lhs_batching_dimensions", &d.lhs_batch)
            .dims("rhs_batching_dimensions", &d.rhs_batch)
            .dims("lhs_contracting_dimensions", &d.lhs_contract)
            .dims("rhs_contracting_dimensions", &d.rhs_contract)
            .end(),
        Attr::Gather(g) => Fields::new(out, "#stablehlo.gather<")
            .dims("offset_dims", &g.offset_dims)
            .dims("collapsed_slice_dims", &g.collapsed_slice_dims)
            .dims("operand_batching_dims", &g.operand_batching_dims)
            .dims("start_indices_batching_dims", &g.start_indices_batching_dims)
            .dims("start_index_map", &g.start_index_map)
            .number("index_vector_dim", g.index_vector_dim)
            .end(),
        Attr::Scatter(s) => Fields::new(out, "#stablehlo.scatter<")
            .dims("update_window_dims", &s.update_window_dims)
            .dims("inserted_window_dims", &s.inserted_window_dims)
            .dims("input_batching_dims", &s.input_batching_dims)
            .dims("scatter_indices_batching_dims", &s.scatter_indices_batching_dims)
            .dims("scatter_dims_to_operand_dims", &s.scatter_dims_to_operand_dims)
            .number("index_vector_dim", s.index_vector_dim)
            .end(),
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

struct Fields<'o> {
    out: &'o mut String,
    first: bool,
}

impl<'o> Fields<'o> {
    fn new(out: &'o mut String, open: &str) -> Self {
        out.push_str(open);
        Fields { out, first: true }
    }

    fn name(&mut self, name: &str) {
        if !std::mem::take(&mut self.first) {
            self.out.push_str(", ");
        }
        self.out.push_str(name);
        self.out.push_str(" = ");
    }

    fn dims(mut self, name: &str, dims: &[i64]) -> Self {
        if !dims.is_empty() {
            self.name(name);
            push_dims(self.out, dims);
        }
        self
    }

    fn number(mut self, name: &str, value: i64) -> Self {
        if value != 0 {
            self.name(name);
            push_int(self.out, value);
        }
        self
    }

    fn end(self) {
        self.out.push('>');
    }
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
    Fields::new(out, "#stablehlo.conv<raw ")
        .number("input_batch_dimension", c.input_batch)
        .number("input_feature_dimension", c.input_feature)
        .dims("input_spatial_dimensions", &c.input_spatial)
        .number("kernel_input_feature_dimension", c.kernel_input_feature)
        .number("kernel_output_feature_dimension", c.kernel_output_feature)
        .dims("kernel_spatial_dimensions", &c.kernel_spatial)
        .number("output_batch_dimension", c.output_batch)
        .number("output_feature_dimension", c.output_feature)
        .dims("output_spatial_dimensions", &c.output_spatial)
        .end();
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
