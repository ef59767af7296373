//! A token from the scores of all.

use meshwork::prelude::*;

use crate::error::{Error, Result};

/// How the next token is chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct Sampling {
    /// Scores are divided by it before they become probabilities; 0 takes the token with the highest score.
    pub temperature: f64,
    /// Only this many tokens with the highest scores are drawn from.
    pub top_k: Option<i64>,
    /// Only the fewest tokens that together have at least this probability are drawn from.
    pub top_p: Option<f64>,
    /// Another seed gives another text, the same one the same text on any mesh.
    pub seed: u64,
}

impl Sampling {
    /// The token with the highest score.
    pub fn greedy() -> Sampling {
        Sampling { temperature: 0.0, top_k: None, top_p: None, seed: 0 }
    }

    /// Whether the numbers make sense for a vocabulary of this size.
    pub fn check(&self, vocabulary: i64) -> Result<()> {
        if !(self.temperature >= 0.0 && self.temperature.is_finite()) {
            return Err(Error::option(format!("a temperature of {}; it is 0 or more", self.temperature)));
        }
        match (self.top_k, self.top_p) {
            (Some(k), _) if k < 1 || k > vocabulary => {
                Err(Error::option(format!("top-k {k}; it is from 1 to {vocabulary}, the number of tokens")))
            }
            (_, Some(p)) if !(p > 0.0 && p <= 1.0) => {
                Err(Error::option(format!("top-p {p}; it is above 0 and at most 1")))
            }
            _ => Ok(()),
        }
    }

    /// The token, an `i32` scalar, by the scores of all of them, for the token at `position` of the text.
    #[track_caller]
    pub fn draw(&self, scores: &Tensor, position: &Tensor) -> Tensor {
        if self.temperature == 0.0 {
            return scores.argmax(0);
        }
        let scores = scores / self.temperature;
        let key = Key::new(self.seed).fold_in(&position.to(UI32));
        if self.top_k.is_none() && self.top_p.is_none() {
            return key.categorical(&scores, 0);
        }
        let (mut best, tokens) = scores.top_k(self.top_k.unwrap_or(scores.dim(0)));
        if let Some(p) = self.top_p {
            // A token stays if those before it do not have enough probability.
            let shares = best.softmax(0);
            let before = shares.cumsum(0) - &shares;
            best = select(before.lt(p), &best, f64::NEG_INFINITY);
        }
        tokens.take(&key.categorical(&best, 0), 0)
    }
}
