//! `config.json`: the extents of a model, and what its architecture adds to Llama's.

use std::path::Path;

use meshwork::ElementType::{self, BF16, F16, F32};
use serde_json::{Map, Value};

use crate::error::{Error, Result, in_file};
use crate::rope::Rope;

/// The extents of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of tokens.
    pub vocabulary: i64,
    /// Features of a token.
    pub features: i64,
    /// Features inside the feed-forward part.
    pub hidden: i64,
    /// Number of blocks.
    pub layers: i64,
    /// Heads of queries.
    pub heads: i64,
    /// Heads of keys and values; each is shared by `heads / groups` heads of queries.
    pub groups: i64,
    /// Features of a head.
    pub width: i64,
    /// What is added to mean squares before they divide.
    pub epsilon: f64,
    /// How positions turn queries and keys.
    pub rope: Rope,
    /// The most tokens that the model was made for.
    pub longest: i64,
    /// Whether the scores of tokens come from the table that embeds them.
    pub tied: bool,
    /// Whether queries, keys and values have a bias.
    pub bias: bool,
    /// Whether the product after the heads has one.
    pub out_bias: bool,
    /// Whether the products of the feed-forward part have one.
    pub hidden_bias: bool,
    /// How many tokens a token sees, itself included; all before it if there is none.
    pub window: Option<i64>,
    /// The tokens that end a text.
    pub ends: Vec<u32>,
    /// The type of the weights.
    pub dtype: ElementType,
}

impl Config {
    /// Reads `config.json`, and from `generation_config.json`, if there is one, the tokens that end a text.
    pub fn read(folder: &Path) -> Result<Config> {
        let path = folder.join("config.json");
        let mut config =
            Config::parse(&std::fs::read_to_string(&path).map_err(in_file(&path))?).map_err(in_file(&path))?;
        let path = folder.join("generation_config.json");
        if let Ok(text) = std::fs::read_to_string(&path) {
            let value: Value = serde_json::from_str(&text).map_err(in_file(&path))?;
            if let Some(ends) = value.get("eos_token_id").and_then(ends) {
                config.ends = ends;
            }
        }
        Ok(config)
    }

    /// Reads the text of a `config.json`.
    pub fn parse(text: &str) -> std::result::Result<Config, String> {
        let value: Map<String, Value> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let fields = Fields(&value);
        let kind = fields.text("model_type").ok_or("model_type is missing")?;
        // What architectures add: Qwen2 a bias on the way into attention, Mistral a window.
        let (bias, out_bias, window) = match kind {
            "llama" => (fields.flag("attention_bias"), fields.flag("attention_bias"), None),
            "mistral" => (false, false, fields.integer("sliding_window")?),
            "qwen2" if fields.flag("use_sliding_window") => {
                return Err("use_sliding_window: windows on some layers only are not read".into());
            }
            "qwen2" => (true, false, None),
            other => return Err(format!("model_type is {other:?}; llama, mistral and qwen2 are read")),
        };
        match fields.text("hidden_act").unwrap_or("silu") {
            "silu" => {}
            other => return Err(format!("hidden_act is {other:?}, where these architectures have \"silu\"")),
        }
        let (features, heads) = (fields.extent("hidden_size")?, fields.extent("num_attention_heads")?);
        let width = match fields.integer("head_dim")? {
            Some(width) => width,
            None if features % heads != 0 => {
                return Err(format!("hidden_size {features} in {heads} heads (num_attention_heads): give head_dim"));
            }
            None => features / heads,
        };
        let groups = fields.integer("num_key_value_heads")?.unwrap_or(heads);
        if groups < 1 || heads % groups != 0 {
            return Err(format!("num_key_value_heads {groups} does not divide num_attention_heads {heads}"));
        }
        if width < 2 || width % 2 != 0 {
            return Err(format!("a head of {width} features (head_dim), where rotations need pairs"));
        }
        let dtype = match fields.text("dtype").or(fields.text("torch_dtype")).unwrap_or("float32") {
            "float32" => F32,
            "bfloat16" => BF16,
            "float16" => F16,
            other => return Err(format!("dtype is {other:?}; float32, bfloat16 and float16 are read")),
        };
        Ok(Config {
            vocabulary: fields.extent("vocab_size")?,
            features,
            hidden: fields.extent("intermediate_size")?,
            layers: fields.extent("num_hidden_layers")?,
            heads,
            groups,
            width,
            epsilon: fields.number("rms_norm_eps").unwrap_or(1e-6),
            rope: Rope::parse(&value)?,
            longest: fields.extent("max_position_embeddings")?,
            tied: fields.flag("tie_word_embeddings"),
            bias,
            out_bias,
            hidden_bias: fields.flag("mlp_bias"),
            window,
            ends: value.get("eos_token_id").and_then(ends).unwrap_or_default(),
            dtype,
        })
    }
}

/// One token, or a list of them.
fn ends(value: &Value) -> Option<Vec<u32>> {
    let one = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match value {
        Value::Array(all) => all.iter().map(one).collect(),
        other => one(other).map(|n| vec![n]),
    }
}

/// The fields of an object, with errors that name them.
pub(crate) struct Fields<'a>(pub(crate) &'a Map<String, Value>);

impl<'a> Fields<'a> {
    pub(crate) fn text(&self, name: &str) -> Option<&'a str> {
        self.0.get(name)?.as_str()
    }

    pub(crate) fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    /// An integer, if the field is there and not null.
    fn integer(&self, name: &str) -> std::result::Result<Option<i64>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_i64().map(Some).ok_or_else(|| format!("{name} is {value}, not an integer")),
        }
    }

    /// A positive integer.
    fn extent(&self, name: &str) -> std::result::Result<i64, String> {
        match self.integer(name)? {
            Some(n) if n > 0 => Ok(n),
            Some(n) => Err(format!("{name} is {n}; it must be positive")),
            None => Err(format!("{name} is missing")),
        }
    }
}

impl Error {
    /// An option that makes no sense.
    pub(crate) fn option(what: impl Into<String>) -> Error {
        Error::Option(what.into())
    }
}
