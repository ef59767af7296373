//! A text, token after token.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwork::layers::KvCache;
use meshwork::prelude::*;
use meshwork::{Engine, Mesh};

use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::Llama;
use crate::sample::Sampling;
use crate::weights::cache_place;

/// A model on its devices, ready to go on with a text.
pub struct Session {
    /// The extents of the model.
    pub config: Config,
    /// Its weights.
    pub weights: Llama<Array>,
    /// Where they are: a mesh with the axis `model`.
    pub mesh: Mesh,
    /// What runs the programs.
    pub engine: Arc<dyn Engine>,
}

/// How long a text took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Speed {
    /// Tokens of the prompt.
    pub prompt: usize,
    /// From the prompt to the first token, without the time to compile.
    pub first: Duration,
    /// Tokens after the first.
    pub tokens: usize,
    /// How long they took.
    pub rest: Duration,
    /// Tracing, splitting and compiling the programs.
    pub compile: Duration,
}

impl Speed {
    /// Tokens per second after the first.
    pub fn per_second(&self) -> f64 {
        self.tokens as f64 / self.rest.as_secs_f64().max(1e-9)
    }
}

impl Session {
    /// Goes on with a prompt by up to `count` tokens, and gives each to `each` as soon as it is there, which says whether to
    /// go on. Tokens that end a text are given too, and end it unless `each` has done so.
    pub fn generate(
        &self,
        prompt: &[u32],
        count: usize,
        sampling: &Sampling,
        mut each: impl FnMut(u32) -> ControlFlow<()>,
    ) -> Result<Speed> {
        sampling.check(self.config.vocabulary)?;
        let room = self.room(prompt, count)?;
        let mut speed = Speed { prompt: prompt.len(), ..Speed::default() };
        if count == 0 {
            return Ok(speed);
        }
        let (config, sampling) = (self.config.clone(), sampling.clone());
        let next = jit(move |model: Llama, cache: Vec<KvCache>, tokens: Tensor, position: Tensor, last: Tensor| {
            let (scores, cache) = model.next(&config, &tokens, &position, &last, &cache);
            // All devices choose, each with all scores.
            let token = sampling.draw(&scores.shard(P![]), &(position + last));
            (token.reshape([1]), cache)
        });
        let cache_place = cache_place(&self.config, &self.mesh);
        let next = next.on(&self.mesh).engine(self.engine.clone()).out_shardings([P![], cache_place]).donate([1]);

        let mut cache = self.cache(room)?;
        let mut position = prompt.len();
        let (tokens, last) = padded(prompt, room);
        let (zero, last) = (Array::scalar(0i32), Array::scalar(last as i32));
        let start = Instant::now();
        next.compile((&self.weights, &cache, &tokens, &zero, &last))?;
        next.compile((&self.weights, &cache, &Array::shape_only([1], I32), &zero, &zero))?;
        speed.compile = start.elapsed();

        let start = Instant::now();
        let (mut token, made) = next.call((&self.weights, &cache, &tokens, &zero, &last))?;
        cache = made;
        let mut number = number(&token)?;
        speed.first = start.elapsed();
        let start = Instant::now();
        while each(number).is_continue() && !self.config.ends.contains(&number) && position + 1 < prompt.len() + count {
            let at = Array::scalar(position as i32);
            (token, cache) = next.call((&self.weights, &cache, &token, &at, &zero))?;
            number = self::number(&token)?;
            position += 1;
            speed.tokens += 1;
            speed.rest = start.elapsed();
        }
        Ok(speed)
    }

    /// The scores of the token after a prompt.
    pub fn scores(&self, prompt: &[u32]) -> Result<Vec<f32>> {
        let room = self.room(prompt, 0)?;
        let (tokens, last) = padded(prompt, room);
        let config = self.config.clone();
        let scores = jit(move |model: Llama, cache: Vec<KvCache>, tokens: Tensor, last: Tensor| {
            model.next(&config, &tokens, &zeros((), I32), &last, &cache).0
        });
        let scores = scores.on(&self.mesh).engine(self.engine.clone()).out_shardings([P![]]);
        let scores = scores.call((&self.weights, &self.cache(room)?, &tokens, &Array::scalar(last as i32)))?;
        Ok(scores.to_vec().map_err(meshwork::Error::from)?)
    }

    /// What a step of one token with this much room communicates, as a table.
    pub fn explain(&self, room: usize) -> Result<String> {
        let config = self.config.clone();
        let step = jit(move |model: Llama, cache: Vec<KvCache>, tokens: Tensor, position: Tensor| {
            model.next(&config, &tokens, &position, &zeros((), I32), &cache)
        });
        let place = cache_place(&self.config, &self.mesh);
        let step = step.on(&self.mesh).out_shardings([P![], place]);
        let (token, position) = (Array::shape_only([1], I32), Array::shape_only((), I32));
        Ok(step.explain((&self.weights, &self.cache(room as i64)?, &token, &position))?)
    }

    /// How many tokens the cache must hold: the prompt, padded, and those to come.
    fn room(&self, prompt: &[u32], count: usize) -> Result<i64> {
        if prompt.is_empty() {
            return Err(Error::EmptyPrompt);
        }
        if let Some(token) = prompt.iter().find(|&&t| i64::from(t) >= self.config.vocabulary) {
            let most = self.config.vocabulary - 1;
            return Err(Error::option(format!(
                "the prompt has token {token}, and the model's last is {most}: is tokenizer.json another model's?"
            )));
        }
        let longest = self.config.longest as usize;
        if prompt.len() + count > longest {
            return Err(Error::TooLong { prompt: prompt.len(), more: count, longest });
        }
        let padded = prompt.len().next_power_of_two().max(SHORTEST);
        Ok(padded.max((prompt.len() + count).next_multiple_of(SHORTEST)) as i64)
    }

    /// A cache without tokens.
    fn cache(&self, room: i64) -> Result<Vec<KvCache<Array>>> {
        let Config { layers, groups, width, .. } = self.config;
        let dtype = self.weights.embed.dtype();
        let empty = jit(move |_: ()| {
            (0..layers).map(|_| KvCache::empty(1, room, groups, groups * width, dtype)).collect::<Vec<_>>()
        });
        let place = cache_place(&self.config, &self.mesh);
        Ok(empty.on(&self.mesh).engine(self.engine.clone()).out_shardings([place]).call(&())?)
    }
}

/// The shortest program for prompts.
const SHORTEST: usize = 16;

/// A prompt with zeros behind it, so that prompts of different lengths share a program, and the number of its last token. What
/// the zeros leave in the cache is ahead of every query until it is replaced.
fn padded(prompt: &[u32], room: i64) -> (Array, usize) {
    let length = prompt.len().next_power_of_two().max(SHORTEST).min(room as usize);
    let mut tokens: Vec<i32> = prompt.iter().map(|&t| t as i32).collect();
    tokens.resize(length, 0);
    (Array::from(tokens), prompt.len() - 1)
}

fn number(token: &Array) -> Result<u32> {
    Ok(token.to_vec::<i32>().map_err(meshwork::Error::from)?[0] as u32)
}
