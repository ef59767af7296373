//! Generation beside what `transformers` computed with the same files: `make_model.py` makes the models and the recordings.

use std::ops::ControlFlow;
use std::path::PathBuf;

use meshwork::ElementType::{self, BF16, F32};
use meshwork::{Cpu, Engine, Mesh};
use meshwork_llm::{Config, Files, Llama, Sampling, Session};
use serde_json::Value;
use std::sync::Arc;
use tokenizers::Tokenizer;

const MODELS: [&str; 3] = ["llama", "mistral", "qwen2"];

fn folder(model: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(model)
}

struct Recorded(Value);

impl Recorded {
    fn read(model: &str) -> Recorded {
        let text = std::fs::read_to_string(folder(model).join("recorded.json")).expect("a recording");
        Recorded(serde_json::from_str(&text).expect("JSON"))
    }

    fn tokens(&self, name: &str) -> Vec<u32> {
        self.0[name].as_array().expect("a list").iter().map(|t| t.as_u64().expect("a token") as u32).collect()
    }

    fn scores(&self, name: &str) -> Vec<f64> {
        self.0[name].as_array().expect("a list").iter().map(|t| t.as_f64().expect("a score")).collect()
    }
}

fn session(model: &str, devices: i64, dtype: ElementType) -> Session {
    let mesh = Mesh::linear("model", devices).expect("a mesh");
    let engine: Arc<dyn Engine> = Arc::new(Cpu);
    let config = Config::read(&folder(model)).expect("a config");
    let mut files = Files::open(&folder(model)).expect("files");
    let weights = Llama::load(&config, &mut files, &mesh, &engine, dtype).expect("weights");
    Session { config, weights, mesh, engine }
}

fn generate(session: &Session, prompt: &[u32], count: usize, sampling: &Sampling) -> Vec<u32> {
    let mut out = vec![];
    let each = |token| {
        out.push(token);
        ControlFlow::Continue(())
    };
    session.generate(prompt, count, sampling, each).expect("a text");
    out
}

fn furthest(a: &[f32], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max)
}

fn check_generation(devices: i64) {
    for model in MODELS {
        let recorded = Recorded::read(model);
        let (prompt, wanted) = (recorded.tokens("ids"), recorded.tokens("generated"));
        let session = session(model, devices, F32);
        let made = generate(&session, &prompt, wanted.len(), &Sampling::greedy());
        assert_eq!(made, wanted, "{model} on {devices} devices");
        let far = furthest(&session.scores(&prompt).expect("scores"), &recorded.scores("float32"));
        assert!(far < 1e-4, "{model} on {devices} devices: scores differ by {far}");
    }
}

#[test]
fn one_device_generates_what_transformers_does() {
    check_generation(1);
}

#[test]
fn two_devices_generate_what_transformers_does() {
    check_generation(2);
}

/// More devices than heads of keys and values in all models but one.
#[test]
fn four_devices_generate_what_transformers_does() {
    check_generation(4);
}

/// Three divides neither heads nor features.
#[test]
fn uneven_devices_generate_what_transformers_does() {
    check_generation(3);
}

/// In bf16 the order of sums decides the last of eight bits: scores differ by as much as those of `transformers` in bf16 and f32
/// do.
#[test]
fn scores_in_bf16_are_within_rounding() {
    for model in MODELS {
        let recorded = Recorded::read(model);
        let exact = recorded.scores("float32");
        let theirs = recorded.scores("bfloat16").iter().zip(&exact).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        for devices in [1, 2] {
            let ours = session(model, devices, BF16).scores(&recorded.tokens("ids")).expect("scores");
            let far = furthest(&ours, &exact);
            assert!(far < 2.0 * theirs, "{model} on {devices} devices: {far} from exact, transformers {theirs}");
            assert!(far > 0.0, "{model} was not computed in bf16");
        }
    }
}

/// A prompt may end anywhere: what it is padded with is not seen.
#[test]
fn a_longer_prompt_goes_on_the_same_way() {
    let recorded = Recorded::read("llama");
    let (mut prompt, wanted) = (recorded.tokens("ids"), recorded.tokens("generated"));
    let session = session("llama", 2, F32);
    prompt.extend(&wanted[..5]);
    assert_eq!(prompt.len(), 16, "a prompt that needs no padding");
    assert_eq!(generate(&session, &prompt, wanted.len() - 5, &Sampling::greedy()), wanted[5..]);
    prompt.extend(&wanted[5..6]);
    assert_eq!(generate(&session, &prompt, wanted.len() - 6, &Sampling::greedy()), wanted[6..]);
}

#[test]
fn a_seed_gives_one_text_on_any_mesh() {
    let prompt = Recorded::read("llama").tokens("ids");
    let (alone, split) = (session("llama", 1, F32), session("llama", 4, F32));
    let free = Sampling { temperature: 1.0, top_k: None, top_p: None, seed: 1 };
    let narrow = Sampling { top_k: Some(20), top_p: Some(0.9), ..free.clone() };
    for sampling in [free.clone(), narrow] {
        let text = generate(&alone, &prompt, 12, &sampling);
        assert_eq!(text, generate(&split, &prompt, 12, &sampling));
        assert_ne!(text, generate(&alone, &prompt, 12, &Sampling { seed: 2, ..sampling }));
    }
    // Where one token is left to draw from, it is the best.
    let greedy = generate(&alone, &prompt, 6, &Sampling::greedy());
    let one = Sampling { top_k: Some(1), ..free.clone() };
    let little = Sampling { top_p: Some(1e-6), ..free };
    assert_eq!(generate(&alone, &prompt, 6, &one), greedy);
    assert_eq!(generate(&split, &prompt, 6, &little), greedy);
}

/// Tokens are drawn as often as their scores say.
#[test]
fn draws_follow_the_probabilities() {
    use meshwork::prelude::*;
    let scores = Array::from([2.0f32, 1.0, 0.0, -1.0, 1.5]);
    let sampling = Sampling { temperature: 1.0, top_k: Some(4), top_p: Some(0.9), seed: 5 };
    let draws = 2000;
    let draw = jit(move |scores: Tensor| meshwork::map(|at: Tensor| sampling.draw(&scores, &at), arange(draws, I32)));
    let drawn = draw.call(&scores).expect("draws").to_vec::<i32>().expect("tokens");
    // Of the four best 2, 1.5, 1 and 0, the first three have nine tenths.
    let weights: Vec<f64> = [2.0f64, 1.5, 1.0].map(f64::exp).to_vec();
    let all: f64 = weights.iter().sum();
    for (token, weight) in [0, 4, 1].into_iter().zip(weights) {
        let share = drawn.iter().filter(|&&t| t == token).count() as f64 / draws as f64;
        assert!((share - weight / all).abs() < 0.04, "token {token}: {share}, not {}", weight / all);
    }
    assert!(drawn.iter().all(|t| [0, 4, 1].contains(t)));
}

#[test]
fn tokenizers_agree() {
    for model in MODELS {
        let recorded = Recorded::read(model);
        let tokenizer = Tokenizer::from_file(folder(model).join("tokenizer.json")).expect("a tokenizer");
        let prompt = recorded.0["prompt"].as_str().expect("text");
        assert_eq!(tokenizer.encode(prompt, true).expect("tokens").get_ids(), recorded.tokens("ids"));
    }
}

/// The command prints the text as it comes, says how fast, and ends with status 2 where there is no model.
#[test]
fn the_command_prints_the_text() {
    let run = |folder: PathBuf, more: &[&str]| {
        let recorded = Recorded::read("llama");
        let prompt = recorded.0["prompt"].as_str().expect("text").to_string();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_llm"));
        let output = command.arg(folder).args(["--prompt", &prompt]).args(more).output().expect("the command runs");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
        (output.status.code(), text(output.stdout), text(output.stderr), prompt)
    };
    let tokenizer = Tokenizer::from_file(folder("llama").join("tokenizer.json")).expect("a tokenizer");
    let mut stream = tokenizer.decode_stream(true);
    let tokens = Recorded::read("llama").tokens("generated");
    let wanted: String = tokens.iter().filter_map(|&token| stream.step(token).expect("a token")).collect();
    let (status, text, speed, prompt) = run(folder("llama"), &["--tokens", "24", "--devices", "2", "--dtype", "f32"]);
    assert_eq!((status, text), (Some(0), format!("{prompt}{wanted}\n")), "{speed}");
    assert!(speed.contains("11 prompt tokens in ") && speed.contains("then 23 tokens at "), "{speed}");

    let (status, _, error, _) = run(folder("nothing"), &[]);
    assert_eq!(status, Some(2));
    assert!(error.starts_with("llm: ") && error.contains("nothing/config.json"), "{error}");
    let (status, plan, _, _) = run(folder("llama"), &["--explain", "--devices", "2"]);
    assert!(status == Some(0) && plan.starts_with("2 devices (model=2): "), "{plan}");
    let (status, _, error, _) = run(folder("llama"), &["--dtype", "int4"]);
    assert!(status == Some(2) && error.contains("give f32, bf16 or f16"), "{error}");
}
