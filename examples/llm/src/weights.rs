//! Which weights a model has, how they are placed on a mesh, and reading them.
//!
//! The axis `model` splits what each product makes, or what it takes: queries, keys, values and the feed-forward part's hidden
//! features by row, what comes after them by column, the table of tokens by token. So a block has two sums over the devices,
//! one after attention and one after the feed-forward part. Heads that do not divide stay whole.

use meshwork::prelude::*;
use meshwork::{Engine, Mesh};
use std::sync::Arc;

use crate::config::Config;
use crate::error::{Error, Result};
use crate::files::Files;
use crate::model::{Block, Llama};

/// How each kind of weight is placed.
struct Places {
    rows: P,
    columns: P,
    vector: P,
    queries: P,
    keys: P,
    from_heads: P,
}

impl Places {
    fn new(config: &Config, devices: i64) -> Places {
        let if_divides = |n: i64, place: P| if n % devices == 0 { place } else { P![] };
        Places {
            rows: P!["model"],
            columns: P![_, "model"],
            vector: P![],
            queries: if_divides(config.heads, P!["model"]),
            keys: if_divides(config.groups, P!["model"]),
            from_heads: if_divides(config.heads, P![_, "model"]),
        }
    }
}

/// How keys and values of earlier tokens are placed: as those who make them.
pub(crate) fn cache_place(config: &Config, mesh: &Mesh) -> P {
    if config.groups % mesh.device_count() == 0 { P![_, _, "model", _] } else { P![] }
}

impl Llama<Array> {
    /// Reads the weights to the devices of `mesh`, which has the axis `model`, as elements of type `dtype`.
    pub fn load(
        config: &Config,
        files: &mut Files,
        mesh: &Mesh,
        engine: &Arc<dyn Engine>,
        dtype: ElementType,
    ) -> Result<Llama<Array>> {
        let places = Places::new(config, mesh.device_count());
        let convert = jit(move |x: Tensor| x.to(dtype)).on(mesh).engine(engine.clone());
        let folder = files.folder().to_path_buf();
        let mut get = |name: String, shape: &[i64], place: &P| -> Result<Array> {
            let Some(file) = files.of(&name) else {
                return Err(Error::NoWeight { folder: folder.clone(), name, layers: config.layers });
            };
            let (found, elem) = file.describe(&name)?;
            if found != shape {
                return Err(Error::Shape { folder: folder.clone(), name, found, wanted: shape.to_vec() });
            }
            let weight = file.sharded(&name, mesh, place)?;
            // Other engines have memory of their own, to which weights go once.
            if elem == dtype && engine.name() == "cpu" { Ok(weight) } else { Ok(convert.call(&weight)?) }
        };
        let (d, h) = (config.features, config.hidden);
        let (all, few) = (config.heads * config.width, config.groups * config.width);
        let embed = get("model.embed_tokens.weight".into(), &[config.vocabulary, d], &places.rows)?;
        let mut blocks = vec![];
        for layer in 0..config.layers {
            let mut own =
                |name: &str, shape: &[i64], place: &P| get(format!("model.layers.{layer}.{name}"), shape, place);
            let mut bias =
                |there: bool, name: &str, n: i64, place: &P| there.then(|| own(name, &[n], place)).transpose();
            let biases = [
                bias(config.bias, "self_attn.q_proj.bias", all, &places.queries)?,
                bias(config.bias, "self_attn.k_proj.bias", few, &places.keys)?,
                bias(config.bias, "self_attn.v_proj.bias", few, &places.keys)?,
                bias(config.out_bias, "self_attn.o_proj.bias", d, &places.vector)?,
                bias(config.hidden_bias, "mlp.gate_proj.bias", h, &places.rows)?,
                bias(config.hidden_bias, "mlp.up_proj.bias", h, &places.rows)?,
                bias(config.hidden_bias, "mlp.down_proj.bias", d, &places.vector)?,
            ];
            blocks.push(Block {
                attention_norm: own("input_layernorm.weight", &[d], &places.vector)?,
                query: own("self_attn.q_proj.weight", &[all, d], &places.queries)?,
                key: own("self_attn.k_proj.weight", &[few, d], &places.keys)?,
                value: own("self_attn.v_proj.weight", &[few, d], &places.keys)?,
                out: own("self_attn.o_proj.weight", &[d, all], &places.from_heads)?,
                hidden_norm: own("post_attention_layernorm.weight", &[d], &places.vector)?,
                gate: own("mlp.gate_proj.weight", &[h, d], &places.rows)?,
                up: own("mlp.up_proj.weight", &[h, d], &places.rows)?,
                down: own("mlp.down_proj.weight", &[d, h], &places.columns)?,
                biases,
            });
        }
        let norm = get("model.norm.weight".into(), &[d], &places.vector)?;
        let head =
            if config.tied { None } else { Some(get("lm_head.weight".into(), &[config.vocabulary, d], &places.rows)?) };
        Ok(Llama { embed, blocks, norm, head })
    }
}
