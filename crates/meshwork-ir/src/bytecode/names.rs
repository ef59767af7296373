//! Operation names, and which of an operation's attributes its properties are.

use super::container::Name;
use crate::op::{CollectiveOp, ContractOp, ControlOp, DynamicOp, MovementOp, SdyOp};
use crate::{OpKind, text};

/// A name as the program uses it.
pub(super) struct OpName {
    /// The operation; `vhlo.return_v1` is StableHLO's here, whatever it ends.
    pub kind: OpKind,
    /// The full name, for operations that are not in the table.
    pub full: String,
    /// Its properties in order; `None` if they are not known.
    pub properties: Option<Vec<Property>>,
    /// Whether VHLO spells its attributes.
    pub vhlo: bool,
}

/// One property of an operation.
pub(super) struct Property {
    /// The attribute.
    pub name: &'static str,
    /// Whether it may be absent.
    pub optional: bool,
}

/// The operation that `name` stands for; the error says what is unknown.
pub(super) fn resolve(name: Name<'_>) -> Result<OpName, String> {
    let full = format!("{}.{}", name.dialect, name.op);
    if name.dialect != "vhlo" {
        let Some(kind) = OpKind::from_name(&full) else {
            if !text::may_be_unknown(&full) {
                return Err(format!("'{full}' is not an operation"));
            }
            return Ok(OpName { kind: OpKind::Unregistered, full, properties: None, vhlo: false });
        };
        let mut names = kind.own_attrs().to_vec();
        names.sort_unstable();
        let property = |name| Property { name, optional: is_optional(kind, name) };
        return Ok(OpName { kind, full, properties: Some(names.into_iter().map(property).collect()), vhlo: false });
    }
    let unknown = || format!("'{full}' is not an operation of VHLO that this version knows");
    let (stem, version) = name.op.rsplit_once("_v").ok_or_else(unknown)?;
    let version = version.parse().ok().filter(|v| (1..=2).contains(v)).ok_or_else(unknown)?;
    let dialect = if matches!(stem, "func" | "call") { "func" } else { "stablehlo" };
    let kind = OpKind::from_name(&format!("{dialect}.{stem}")).ok_or_else(unknown)?;
    let properties = vhlo_names(kind, version).into_iter().map(|name| Property { name, optional: false });
    Ok(OpName { kind, properties: Some(properties.collect()), full, vhlo: true })
}

/// Attributes of operations outside VHLO that may be absent.
fn is_optional(kind: OpKind, name: &str) -> bool {
    match kind {
        OpKind::Control(ControlOp::Module) => true,
        OpKind::Control(ControlOp::Func | ControlOp::Call) => {
            matches!(name, "sym_visibility" | "arg_attrs" | "res_attrs" | "no_inline")
        }
        OpKind::Sdy(SdyOp::DataFlowEdge) => name == "sharding",
        OpKind::Sdy(SdyOp::NamedComputation) => name != "name",
        OpKind::Sdy(SdyOp::AllReduce | SdyOp::ReduceScatter) => name == "reduction_op",
        _ => false,
    }
}

const DOT: &[&str] =
    &["lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions", "rhs_contracting_dimensions"];

pub(super) const ALGORITHM: &[&str] = &[
    "lhs_precision_type",
    "rhs_precision_type",
    "accumulation_type",
    "lhs_component_count",
    "rhs_component_count",
    "num_primitive_operations",
    "allow_imprecise_accumulation",
];

const CONVOLUTION: &[&str] = &[
    "input_batch_dimension",
    "input_feature_dimension",
    "input_spatial_dimensions",
    "kernel_input_feature_dimension",
    "kernel_output_feature_dimension",
    "kernel_spatial_dimensions",
    "output_batch_dimension",
    "output_feature_dimension",
    "output_spatial_dimensions",
];

/// Those of version 1, then those that version 2 adds.
const GATHER: [&[&str]; 2] = [
    &["offset_dims", "collapsed_slice_dims", "start_index_map", "index_vector_dim"],
    &["operand_batching_dims", "start_indices_batching_dims"],
];

/// Those of version 1, then those that version 2 adds.
const SCATTER: [&[&str]; 2] = [
    &["update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims", "index_vector_dim"],
    &["input_batching_dims", "scatter_indices_batching_dims"],
];

/// The attributes of this version of an operation as VHLO names them, in order.
fn vhlo_names(kind: OpKind, version: u32) -> Vec<&'static str> {
    let mut names = vec![];
    for &name in kind.own_attrs() {
        let parts: &[&[&'static str]] = match (kind, name) {
            (_, "dot_dimension_numbers") => &[DOT],
            (_, "algorithm") => &[&[], ALGORITHM],
            (OpKind::Contract(ContractOp::Convolution) | OpKind::Dynamic(DynamicOp::Conv), "dimension_numbers") => {
                &[CONVOLUTION]
            }
            (OpKind::Movement(MovementOp::Gather) | OpKind::Dynamic(DynamicOp::Gather), "dimension_numbers") => &GATHER,
            (_, "scatter_dimension_numbers") => &SCATTER,
            (OpKind::Token(_), "channel_handle") => &[&["channel_id", "channel_type"]],
            (_, "channel_handle") => &[&["channel_id"]],
            (OpKind::Control(ControlOp::Func | ControlOp::Call), "no_inline")
            | (OpKind::Control(ControlOp::Call), "arg_attrs" | "res_attrs") => &[],
            (_, "result_accuracy" | "result_tilings")
            | (OpKind::Token(_), "source_target_pairs")
            | (OpKind::Collective(CollectiveOp::CollectiveBroadcast), "has_dynamic_root") => &[&[], &[name]],
            _ => &[&[name]],
        };
        names.extend(parts.iter().take(version as usize).copied().flatten());
    }
    if version == 1 && kind == OpKind::Dynamic(DynamicOp::Conv) {
        names.push("padding");
    }
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(op: &str) -> Vec<&'static str> {
        let name = resolve(Name { dialect: "vhlo", op }).unwrap();
        name.properties.unwrap().iter().map(|p| p.name).collect()
    }

    #[test]
    fn structured_attributes_are_several_properties() {
        assert_eq!(names("all_gather_v2"), ["all_gather_dim", "channel_id", "replica_groups", "use_global_device_ids"]);
        assert_eq!(names("send_v1"), ["channel_id", "channel_type", "is_host_transfer"]);
        assert_eq!(names("scatter_v1").len(), 6);
        assert_eq!(names("scatter_v2").len(), 8);
        assert_eq!(names("dot_general_v1").len(), 5);
        assert_eq!(names("dot_general_v2").len(), 12);
        assert_eq!(names("dynamic_conv_v1").len(), names("dynamic_conv_v2").len() + 1);
    }

    #[test]
    fn versions_differ_in_what_they_have() {
        assert_eq!(names("tanh_v1"), [""; 0]);
        assert_eq!(names("tanh_v2"), ["result_accuracy"]);
        assert_eq!(names("func_v1"), ["arg_attrs", "function_type", "res_attrs", "sym_name", "sym_visibility"]);
        assert_eq!(names("call_v1"), ["callee"]);
        for op in ["add_v3", "add", "no_such_v1", "add_v0"] {
            assert!(resolve(Name { dialect: "vhlo", op }).is_err(), "{op}");
        }
    }

    #[test]
    fn unknown_operations_of_other_dialects_are_kept() {
        let name = resolve(Name { dialect: "mhlo", op: "whatever" }).unwrap();
        assert!(name.kind == OpKind::Unregistered && name.properties.is_none());
        assert!(resolve(Name { dialect: "sdy", op: "whatever" }).is_err());
    }
}
