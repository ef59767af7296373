//! Machines that are known by name.

/// Their names.
pub const NAMES: [&str; 7] = ["a100", "cpu", "h100", "h200", "tpu-v4", "tpu-v5e", "tpu-v5p"];

/// The file of a machine.
pub(super) fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "a100" => include_str!("machines/a100.machine"),
        "cpu" => include_str!("machines/cpu.machine"),
        "h100" => include_str!("machines/h100.machine"),
        "h200" => include_str!("machines/h200.machine"),
        "tpu-v4" => include_str!("machines/tpu-v4.machine"),
        "tpu-v5e" => include_str!("machines/tpu-v5e.machine"),
        "tpu-v5p" => include_str!("machines/tpu-v5p.machine"),
        _ => return None,
    })
}
