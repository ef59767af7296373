//! Goes on with a text by candle's Llama, greedily; prints the numbers of the tokens, then how fast it was.
//!
//! ```text
//! cd bench/llm/candle && RUSTFLAGS="-C target-cpu=native" cargo build --release
//! target/release/llm-candle FOLDER PROMPT TOKENS bf16
//! ```

use std::path::{Path, PathBuf};
use std::time::Instant;

use candle_core::{DType, Device, Result, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::llama::{Cache, Llama, LlamaConfig};
use tokenizers::Tokenizer;

fn main() -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [folder, prompt, count, dtype] = args.as_slice() else {
        return Err("usage: llm-candle FOLDER PROMPT TOKENS f32|bf16|f16".into());
    };
    let folder = Path::new(folder);
    let dtype = match dtype.as_str() {
        "f32" => DType::F32,
        "bf16" => DType::BF16,
        "f16" => DType::F16,
        other => return Err(format!("dtype {other}; give f32, bf16 or f16").into()),
    };
    let tokenizer = Tokenizer::from_file(folder.join("tokenizer.json"))?;
    let ids = tokenizer.encode(prompt.as_str(), true)?.get_ids().to_vec();
    let mut model = Model::load(folder, dtype)?;

    let count: usize = count.parse()?;
    let start = Instant::now();
    let mut made = vec![model.next(&ids)?];
    let first = start.elapsed();
    let start = Instant::now();
    while made.len() < count {
        made.push(model.next(&made[made.len() - 1..])?);
    }
    let rest = start.elapsed();
    println!("{}", made.iter().map(u32::to_string).collect::<Vec<_>>().join(" "));
    let more = made.len() - 1;
    eprintln!(
        "{} prompt tokens in {:.3} s, then {more} tokens at {:.2} tokens/s",
        ids.len(),
        first.as_secs_f64(),
        more as f64 / rest.as_secs_f64()
    );
    Ok(())
}

/// A model and the keys and values of a text.
struct Model {
    model: Llama,
    cache: Cache,
    position: usize,
}

impl Model {
    fn load(folder: &Path, dtype: DType) -> std::result::Result<Model, Box<dyn std::error::Error + Send + Sync>> {
        let config: LlamaConfig = serde_json::from_slice(&std::fs::read(folder.join("config.json"))?)?;
        let config = config.into_config(false);
        let mut files: Vec<PathBuf> = vec![];
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|e| e == "safetensors") {
                files.push(path);
            }
        }
        // SAFETY: nothing writes to the files while they are mapped.
        let weights = unsafe { VarBuilder::from_mmaped_safetensors(&files, dtype, &Device::Cpu)? };
        let cache = Cache::new(true, dtype, &config, &Device::Cpu)?;
        Ok(Model { model: Llama::load(weights, &config)?, cache, position: 0 })
    }

    /// The most likely token after `tokens`, which follow those of earlier calls.
    fn next(&mut self, tokens: &[u32]) -> Result<u32> {
        let input = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let scores = self.model.forward(&input, self.position, &mut self.cache)?;
        self.position += tokens.len();
        scores.squeeze(0)?.argmax(0)?.to_scalar()
    }
}
