//! Positions as rotations (RoPE): each pair of features of a head is turned by an angle that grows with the position, each
//! pair at a rate of its own.

use meshwork::ElementType::F32;
use meshwork::{Array, Tensor, concatenate};
use serde_json::{Map, Value};

use crate::config::Fields;

/// How fast pairs of features turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The slowest pair turns once in about this many positions, times 2π.
    pub base: f64,
    /// How rates are stretched for more positions than a model was first trained with.
    pub stretch: Stretch,
}

/// How rates are stretched.
#[derive(Clone, Debug, PartialEq)]
pub enum Stretch {
    /// Not at all.
    None,
    /// All by one factor.
    Linear(f64),
    /// As in Llama 3: slow pairs by `factor`, fast ones not at all, and those between by something between.
    Llama3 {
        /// By how much slow pairs are slowed down.
        factor: f64,
        /// Pairs that turn less often than this in `first` positions are slow.
        low: f64,
        /// Pairs that turn more often than this in `first` positions are fast.
        high: f64,
        /// The positions of the first training.
        first: f64,
    },
}

impl Rope {
    /// From a `config.json`: its `rope_parameters`, or in older files `rope_theta` and `rope_scaling`.
    pub(crate) fn parse(config: &Map<String, Value>) -> Result<Rope, String> {
        let inside = ["rope_parameters", "rope_scaling"].iter().find_map(|name| config.get(*name)?.as_object());
        let own = inside.map(Fields);
        let of_own = |name: &str| own.as_ref().and_then(|f| f.number(name));
        let base = of_own("rope_theta").or(Fields(config).number("rope_theta")).unwrap_or(10_000.0);
        let kind = own.as_ref().and_then(|f| f.text("rope_type").or(f.text("type"))).unwrap_or("default");
        let needed = |name: &str| of_own(name).ok_or_else(|| format!("rope_type {kind:?} without a number {name}"));
        let stretch = match kind {
            "default" => Stretch::None,
            "linear" => Stretch::Linear(needed("factor")?),
            "llama3" => Stretch::Llama3 {
                factor: needed("factor")?,
                low: needed("low_freq_factor")?,
                high: needed("high_freq_factor")?,
                first: needed("original_max_position_embeddings")?,
            },
            other => return Err(format!("rope_type is {other:?}; default, linear and llama3 are read")),
        };
        Ok(Rope { base, stretch })
    }

    /// The angle per position of each pair of a head with `width` features.
    pub fn rates(&self, width: i64) -> Vec<f32> {
        let rate = |pair: i64| {
            let rate = self.base.powf(-2.0 * pair as f64 / width as f64);
            match self.stretch {
                Stretch::None => rate,
                Stretch::Linear(factor) => rate / factor,
                Stretch::Llama3 { factor, low, high, first } => {
                    let turns = first * rate / std::f64::consts::TAU;
                    let fast = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    rate * (fast + (1.0 - fast) / factor)
                }
            }
        };
        (0..width / 2).map(|pair| rate(pair) as f32).collect()
    }

    /// Cosines and sines, `[positions, width / 2]`, at these positions, a vector of integers.
    #[track_caller]
    pub fn angles(&self, positions: &Tensor, width: i64) -> (Tensor, Tensor) {
        let rates = Tensor::constant(&Array::from(self.rates(width)));
        let angles = positions.to(F32).expand_dims(1) * rates.expand_dims(0);
        (angles.cos(), angles.sin())
    }
}

/// `[batch, positions, heads, width]` turned by these angles. A pair is a feature of the first half and the one at the same
/// place of the second.
#[track_caller]
pub(crate) fn turn(x: &Tensor, (cos, sin): &(Tensor, Tensor)) -> Tensor {
    let halves = x.to(F32).split(2, -1);
    let (a, b) = (&halves[0], &halves[1]);
    let (cos, sin) = (cos.expand_dims(1), sin.expand_dims(1));
    concatenate(&[a * &cos - b * &sin, b * &cos + a * &sin], -1).to(x.dtype())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(text: &str) -> Result<Rope, String> {
        let value: Value = serde_json::from_str(text).expect("JSON");
        Rope::parse(value.as_object().expect("an object"))
    }

    #[test]
    fn old_and_new_files_say_the_same() {
        let old = rope(r#"{"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}"#);
        let new = rope(r#"{"rope_parameters": {"rope_theta": 5e5, "rope_type": "linear", "factor": 2.0}}"#);
        assert_eq!(old, new);
        assert_eq!(rope("{}").expect("the default").base, 1e4);
    }

    #[test]
    fn unknown_kinds_and_missing_numbers_are_errors() {
        let error = rope(r#"{"rope_scaling": {"rope_type": "yarn"}}"#).unwrap_err();
        assert!(error.starts_with("rope_type is \"yarn\""), "{error}");
        let error = rope(r#"{"rope_scaling": {"rope_type": "llama3", "factor": 8}}"#).unwrap_err();
        assert!(error.contains("low_freq_factor"), "{error}");
    }

    #[test]
    fn llama3_slows_slow_pairs_only() {
        let stretch = Stretch::Llama3 { factor: 8.0, low: 1.0, high: 4.0, first: 8192.0 };
        let plain = Rope { base: 5e5, stretch: Stretch::None }.rates(128);
        let slowed = Rope { base: 5e5, stretch }.rates(128);
        assert_eq!(plain[0], slowed[0]);
        assert_eq!(plain[63] / 8.0, slowed[63]);
        assert!(plain.iter().zip(&slowed).all(|(p, s)| (p / 8.0..=*p).contains(s)));
    }
}
