//! What is said about files that are missing, damaged or of another architecture.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use meshwork::ElementType::F32;
use meshwork::{Cpu, Engine, Mesh};
use meshwork_llm::{Config, Error, Files, Llama, Sampling, Session};

/// A copy of a model's folder, removed at the end.
struct Copied(PathBuf);

impl Copied {
    fn new(name: &str) -> Copied {
        let to = std::env::temp_dir().join(format!("meshwork_llm_{name}_{}", std::process::id()));
        std::fs::create_dir_all(&to).expect("a folder");
        for file in std::fs::read_dir(model()).expect("files") {
            let file = file.expect("a file").path();
            std::fs::copy(&file, to.join(file.file_name().expect("a name"))).expect("a copy");
        }
        Copied(to)
    }

    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.0.join(file);
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(path, text.replace(from, to)).expect("a file");
    }

    fn open(&self) -> Result<Session, Error> {
        open(&self.0)
    }

    /// What is said on opening it.
    fn error(&self) -> String {
        match self.open() {
            Ok(_) => panic!("{} was opened", self.0.display()),
            Err(error) => error.to_string().replace(&self.0.display().to_string(), "FOLDER"),
        }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn model() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/llama")
}

fn open(folder: &Path) -> Result<Session, Error> {
    let mesh = Mesh::linear("model", 2).expect("a mesh");
    let engine: Arc<dyn Engine> = Arc::new(Cpu);
    let config = Config::read(folder)?;
    let weights = Llama::load(&config, &mut Files::open(folder)?, &mesh, &engine, F32)?;
    Ok(Session { config, weights, mesh, engine })
}

#[test]
fn missing_files_are_named() {
    let copied = Copied::new("missing");
    std::fs::remove_file(copied.0.join("model-00002-of-00003.safetensors")).expect("a file");
    assert!(copied.error().starts_with("FOLDER/model-00002-of-00003.safetensors: No such file"), "{}", copied.error());
    std::fs::remove_file(copied.0.join("model.safetensors.index.json")).expect("a file");
    let wanted = "FOLDER: there is neither model.safetensors nor model.safetensors.index.json";
    assert_eq!(copied.error(), wanted);
    std::fs::write(copied.0.join("pytorch_model.bin"), "").expect("a file");
    assert!(copied.error().contains("save_pretrained writes safetensors"), "{}", copied.error());
    std::fs::remove_file(copied.0.join("config.json")).expect("a file");
    assert!(copied.error().starts_with("FOLDER/config.json: No such file"), "{}", copied.error());
}

#[test]
fn damaged_files_are_named() {
    let copied = Copied::new("damaged");
    let path = copied.0.join("model-00001-of-00003.safetensors");
    let bytes = std::fs::read(&path).expect("bytes");
    std::fs::write(&path, &bytes[..bytes.len() - 8]).expect("a file");
    assert!(copied.error().contains("model-00001-of-00003.safetensors"), "{}", copied.error());
    assert!(copied.error().contains("where its header says"), "{}", copied.error());
}

#[test]
fn other_extents_than_the_weights_are_found() {
    let copied = Copied::new("extents");
    copied.edit("config.json", "\"intermediate_size\": 48", "\"intermediate_size\": 64");
    let wanted =
        "FOLDER: weight \"model.layers.0.mlp.gate_proj.weight\" has the shape [48, 32]; by config.json it is [64, 32]";
    assert_eq!(copied.error(), wanted);
    copied.edit("config.json", "\"intermediate_size\": 64", "\"intermediate_size\": 48");
    copied.edit("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3");
    assert!(copied.error().contains("there is no weight \"model.layers.2."), "{}", copied.error());
}

#[test]
fn other_architectures_are_refused() {
    let copied = Copied::new("architectures");
    copied.edit("config.json", "\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"");
    assert_eq!(copied.error(), "FOLDER/config.json: model_type is \"gpt2\"; llama, mistral and qwen2 are read");
    copied.edit("config.json", "\"model_type\": \"gpt2\"", "\"model_type\": \"llama\"");
    copied.edit("config.json", "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3");
    let wanted = "FOLDER/config.json: num_key_value_heads 3 does not divide num_attention_heads 4";
    assert_eq!(copied.error(), wanted);
    copied.edit("config.json", "\"hidden_size\": 32,", "");
    assert_eq!(copied.error(), "FOLDER/config.json: hidden_size is missing");
}

#[test]
fn wrong_requests_are_refused() {
    let session = open(&model()).expect("a model");
    let ask = |prompt: &[u32], count: usize, sampling: &Sampling| {
        let outcome = session.generate(prompt, count, sampling, |_| ControlFlow::Continue(()));
        outcome.expect_err("a refusal").to_string()
    };
    let greedy = Sampling::greedy();
    assert!(ask(&[], 1, &greedy).contains("no tokens"));
    assert!(
        ask(&[2, 3], 255, &greedy).starts_with("a prompt of 2 tokens and 255 more, but the model sees at most 256")
    );
    assert!(ask(&[400], 1, &greedy).starts_with("the prompt has token 400, and the model's last is 319"));
    let cold = Sampling { temperature: -1.0, ..greedy.clone() };
    assert_eq!(ask(&[2], 1, &cold), "a temperature of -1; it is 0 or more");
    let few = Sampling { temperature: 1.0, top_k: Some(0), ..greedy.clone() };
    assert!(ask(&[2], 1, &few).starts_with("top-k 0; it is from 1 to 320"));
    let none = Sampling { temperature: 1.0, top_p: Some(0.0), ..greedy };
    assert!(ask(&[2], 1, &none).starts_with("top-p 0"));
}
