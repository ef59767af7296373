//! Suggests mesh axes for a model size and a number of devices, with reasons.
//!
//! Training with AdamW in mixed precision keeps 16 bytes for each parameter: 2 for the weight that is computed with, 2
//! for its gradient, 12 for the master copy and two moments. A share of each device's memory is kept for activations.

use std::fmt;

use meshwork_mesh::Mesh;

use super::Zero;
use crate::error::Result;

/// A row of the usual table: by the number of parameters, how far to split each layer and whether to cut the model into
/// stages. It knows neither the number of devices nor their memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GuideRow {
    /// The least and the most devices that share a layer.
    pub model: (i64, i64),
    /// Whether the model is cut into stages.
    pub pipeline: bool,
}

/// The row for a number of parameters: data parallel below 1e9, layers split over 2 to 4 devices below 1e10, over 8 to
/// 16 below 1e11, and stages above.
pub fn guide(parameters: u64) -> GuideRow {
    match parameters {
        0..1_000_000_000 => GuideRow { model: (1, 1), pipeline: false },
        1_000_000_000..10_000_000_000 => GuideRow { model: (2, 4), pipeline: false },
        10_000_000_000..100_000_000_000 => GuideRow { model: (8, 16), pipeline: false },
        _ => GuideRow { model: (8, 16), pipeline: true },
    }
}

/// How to split a model over devices.
#[derive(Clone, PartialEq, Debug)]
pub struct Strategy {
    /// Devices over which the batch is split.
    pub data: i64,
    /// Devices that share each layer.
    pub model: i64,
    /// Stages the model is cut into.
    pub pipeline: i64,
    /// What is split over the data axis beside the batch.
    pub zero: Zero,
    /// Bytes of parameters, gradients and optimizer state on a device.
    pub state_bytes: u64,
    /// Whether they fit into the memory kept for them.
    pub fits: bool,
    /// What the table says.
    pub guide: GuideRow,
    /// Whether this follows the table.
    pub follows_guide: bool,
    /// Why, step by step.
    pub reasons: Vec<String>,
}

impl Strategy {
    /// The mesh: pipeline, data, model, from the slowest to the fastest links; axes of one device are left out, except
    /// `data`.
    pub fn mesh(&self) -> Result<Mesh> {
        let axes = [("pipeline", self.pipeline), ("data", self.data), ("model", self.model)];
        Ok(Mesh::new(axes.into_iter().filter(|&(name, n)| n > 1 || name == "data"))?)
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (d, m, p) = (self.data, self.model, self.pipeline);
        writeln!(f, "data {d} x model {m} x pipeline {p}, ZeRO {:?}", self.zero)?;
        self.reasons.iter().try_for_each(|r| writeln!(f, "- {r}"))
    }
}

/// The share of memory for parameters, gradients and optimizer state: 3 of 5; the rest is for activations.
const SHARE: (u64, u64) = (3, 5);

/// Bytes of parameters, gradients and optimizer state on a device, for `parts` devices per copy and `data` copies.
fn state_bytes(parameters: u64, parts: u64, data: u64, zero: Zero) -> u64 {
    let each = |bytes: u64, over: u64| (parameters * bytes).div_ceil(parts * over);
    match zero {
        Zero::None => each(16, 1),
        Zero::One => each(4, 1) + each(12, data),
        Zero::Two => each(2, 1) + each(14, data),
        Zero::Three => each(16, data),
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// How to split a model of `parameters` over `devices` with `memory` bytes each: the row of the [`guide`] where it
/// fits, with as little splitting as that takes; more than the row says where it does not fit; and where splitting the
/// state alone makes data parallelism fit, that, since it needs no change to the model.
///
/// ```
/// use meshwork::train::{Zero, suggest};
///
/// // As the table says: small models are copied.
/// let small = suggest(300_000_000, 8, 80 << 30);
/// assert_eq!((small.data, small.model, small.zero, small.follows_guide), (8, 1, Zero::None, true));
/// // 7e9 parameters are 112 GB of state: 4 devices of 80 GB per copy, or, as cheap and simpler, split state.
/// let seven = suggest(7_000_000_000, 64, 80 << 30);
/// assert_eq!((seven.model, seven.pipeline), (4, 1));
/// ```
pub fn suggest(parameters: u64, devices: i64, memory: u64) -> Strategy {
    let devices = devices.max(1);
    let row = guide(parameters);
    let room = memory / SHARE.1 * SHARE.0;
    let mut reasons = vec![format!(
        "{parameters} parameters are {} of state: 16 bytes each for the weight, its gradient, a master copy and two \
         moments; a device has room for {}",
        gigabytes(parameters * 16),
        gigabytes(room)
    )];
    let powers =
        |least: i64| (0..62).map(|k| 1i64 << k).filter(move |&n| n >= least && n <= devices && devices % n == 0);
    let fits = |model: i64, pipeline: i64, zero: Zero| {
        let parts = (model * pipeline) as u64;
        state_bytes(parameters, parts, (devices as u64 / parts).max(1), zero) <= room
    };
    // The row of the table as it is: with the least splitting it allows.
    let mut chosen = None;
    let stages = |pipeline: bool| if pipeline { powers(2).collect::<Vec<_>>() } else { vec![1] };
    'row: for pipeline in stages(row.pipeline) {
        for model in powers(row.model.0).filter(|&m| m <= row.model.1 && devices % (m * pipeline) == 0) {
            if fits(model, pipeline, Zero::None) {
                chosen = Some((model, pipeline, Zero::None));
                break 'row;
            }
        }
    }
    let follows_guide = chosen.is_some();
    let name = |row: GuideRow| match (row.model, row.pipeline) {
        ((1, 1), _) => "data parallelism only".to_string(),
        ((a, b), false) => format!("each layer over {a} to {b} devices"),
        ((a, b), true) => format!("each layer over {a} to {b} devices, and stages"),
    };
    match chosen {
        Some((model, pipeline, _)) => {
            reasons.push(format!("the table for this size says {}, and {model} x {pipeline} fits", name(row)));
        }
        None => {
            let why = format!("the table for this size says {}, which does not fit on these devices", name(row));
            reasons.push(why);
            // Splitting the state comes first: it changes nothing about the model.
            let zeros = [Zero::One, Zero::Two, Zero::Three];
            'search: for pipeline in powers(1) {
                for model in powers(1).filter(|&m| m <= 16 && devices % (m * pipeline) == 0) {
                    if let Some(&zero) = zeros.iter().find(|&&zero| fits(model, pipeline, zero)) {
                        chosen = Some((model, pipeline, zero));
                        break 'search;
                    }
                }
            }
            match chosen {
                Some((model, pipeline, zero)) => reasons.push(format!(
                    "splitting state over the data axis (ZeRO {zero:?}) with model {model} and pipeline {pipeline} fits"
                )),
                None => {
                    let least = (parameters * 16).div_ceil(room.max(1));
                    reasons.push(format!("nothing fits: the state alone needs {least} such devices"));
                }
            }
        }
    }
    let fitting = chosen.is_some();
    let (model, pipeline, zero) = chosen.unwrap_or((devices.min(16), 1, Zero::Three));
    let model = powers(1).rfind(|&m| m <= model).unwrap_or(1);
    let data = devices / (model * pipeline);
    if !follows_guide || row.model.1 == 1 {
        if data > 1 && zero == Zero::None {
            reasons.push("every device holds all of the state; gradients are all-reduced over data".into());
        }
    } else if let Some(&alone) =
        [Zero::One, Zero::Two, Zero::Three].iter().find(|&&zero| model * pipeline > 1 && fits(1, 1, zero))
    {
        reasons.push(format!(
            "the table is more than is needed here: data parallelism with split state (ZeRO {alone:?}) would fit too, \
             without any change to the model"
        ));
    }
    if model > 1 {
        reasons
            .push("model is the innermost axis: it communicates in every layer, so it wants the fastest links".into());
    }
    if pipeline > 1 {
        reasons.push("pipeline is the outermost axis: stages only pass activations to the next".into());
    }
    let bytes = state_bytes(parameters, (model * pipeline) as u64, data as u64, zero);
    reasons.push(format!("a device then holds {} of state", gigabytes(bytes)));
    Strategy { data, model, pipeline, zero, state_bytes: bytes, fits: fitting, guide: row, follows_guide, reasons }
}
