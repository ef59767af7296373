//! Goes on with a text by a model of the Llama family, in the files that Hugging Face's libraries write.
//!
//! ```text
//! cargo run --release -p meshwork-llm -- FOLDER --prompt "A mesh is" --tokens 64
//! cargo run --release -p meshwork-llm -- FOLDER --prompt "A mesh is" --devices 4 --temperature 0.8 --top-p 0.95
//! mpirun -n 2 target/release/llm FOLDER --prompt "A mesh is"                    (built with --features mpi)
//! ```

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use clap::Parser;
use meshwork::ElementType::{BF16, F16, F32};
use meshwork::{Mesh, Runtime};
use meshwork_llm::{Config, Files, Llama, Sampling, Session};
use tokenizers::Tokenizer;

/// Goes on with a text, by a model of the Llama family.
#[derive(Parser)]
#[command(name = "llm", version, about, max_term_width = 110)]
struct Args {
    /// A folder with config.json, tokenizer.json and model.safetensors, or several of them with an index
    folder: PathBuf,
    /// The text to go on with
    #[arg(long)]
    prompt: String,
    /// The most tokens to add
    #[arg(long, default_value_t = 64)]
    tokens: usize,
    /// 0 takes the most likely token each time
    #[arg(long, default_value_t = 0.0)]
    temperature: f64,
    /// Draw from this many most likely tokens
    #[arg(long)]
    top_k: Option<i64>,
    /// Draw from the fewest tokens that together have this probability
    #[arg(long)]
    top_p: Option<f64>,
    /// Another seed, another text
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Devices to split the model over; under mpirun those of all ranks
    #[arg(long)]
    devices: Option<i64>,
    /// f32, bf16 or f16; by default as in config.json
    #[arg(long)]
    dtype: Option<String>,
    /// cpu, evaluator, or pjrt:PLUGIN
    #[arg(long, default_value = "cpu")]
    engine: String,
    /// Go on after a token that ends a text
    #[arg(long)]
    ignore_end: bool,
    /// Print the numbers of the tokens instead of the text
    #[arg(long)]
    ids: bool,
    /// Show what a step communicates, and generate nothing
    #[arg(long)]
    explain: bool,
}

fn main() -> std::process::ExitCode {
    match run(&Args::parse()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("llm: {error}");
            std::process::ExitCode::from(2)
        }
    }
}

fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::init()?;
    let speaks = runtime.rank() == 0;
    let devices = match args.devices {
        Some(n) if runtime.is_distributed() && n != runtime.devices() as i64 => {
            return Err(format!("--devices {n}, but the ranks have {} together", runtime.devices()).into());
        }
        Some(n) if n < 1 => return Err(format!("--devices {n}; give 1 or more").into()),
        Some(n) => n,
        None => runtime.devices() as i64,
    };
    let mesh = Mesh::linear("model", devices)?;
    let engine = meshwork::engine(&args.engine)?;

    let start = Instant::now();
    let mut config = Config::read(&args.folder)?;
    let dtype = match args.dtype.as_deref() {
        None => config.dtype,
        Some("f32") => F32,
        Some("bf16") => BF16,
        Some("f16") => F16,
        Some(other) => return Err(format!("--dtype {other}; give f32, bf16 or f16").into()),
    };
    let path = args.folder.join("tokenizer.json");
    let tokenizer = Tokenizer::from_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let prompt = tokenizer.encode(args.prompt.as_str(), true).map_err(|e| e.to_string())?;
    let weights = Llama::load(&config, &mut Files::open(&args.folder)?, &mesh, &engine, dtype)?;
    let loaded = start.elapsed();

    if args.ignore_end {
        config.ends.clear();
    }
    let session = Session { config, weights, mesh, engine };
    if args.explain {
        let text = session.explain(prompt.len() + args.tokens)?;
        if speaks {
            println!("{text}");
        }
        return Ok(());
    }
    let sampling = Sampling { temperature: args.temperature, top_k: args.top_k, top_p: args.top_p, seed: args.seed };
    let mut stream = tokenizer.decode_stream(true);
    let mut failed = None;
    if speaks && !args.ids {
        print!("{}", args.prompt);
        std::io::stdout().flush()?;
    }
    let speed = session.generate(prompt.get_ids(), args.tokens, &sampling, |token| {
        let next = if args.ids { Ok(Some(format!("{token} "))) } else { stream.step(token) };
        let said = next.map_err(|e| e.to_string()).and_then(|text| {
            if let (Some(text), true) = (text, speaks) {
                print!("{text}");
                std::io::stdout().flush().map_err(|e| e.to_string())?;
            }
            Ok(())
        });
        match said {
            Ok(()) => ControlFlow::Continue(()),
            Err(e) => {
                failed = Some(e);
                ControlFlow::Break(())
            }
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if speaks {
        println!();
        eprintln!(
            "loaded in {:.2} s, compiled in {:.2} s, {} prompt tokens in {:.3} s, then {} tokens at {:.2} tokens/s",
            loaded.as_secs_f64(),
            speed.compile.as_secs_f64(),
            speed.prompt,
            speed.first.as_secs_f64(),
            speed.tokens,
            speed.per_second()
        );
    }
    Ok(())
}
