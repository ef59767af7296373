//! Checkpoints as programs use them: killed while saving, and resumed on another mesh.
#![cfg(feature = "checkpoints")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use meshwork::prelude::*;
use meshwork::save::Checkpoints;
use meshwork::train::{Optimizer, OptimizerState, Step, Trainer, Zero};
use meshwork_testing::Folder;

const CHILD: &str = "MESHWORK_TEST_SAVE_IN_A_LOOP";

fn state(step: u64, mesh: &Mesh) -> (Array, Array) {
    let x = Array::full([257, 31], step as f32).shard(mesh, P!["x"]).unwrap();
    (x, Array::full([100_000], step as i64))
}

/// Not a test: the program that the next test kills.
#[test]
fn child_that_saves_in_a_loop() {
    let Ok(folder) = std::env::var(CHILD) else { return };
    let mesh = Mesh::linear("x", 4).unwrap();
    let mut saves = Checkpoints::open(folder).unwrap().keep(2);
    let first = saves.latest().unwrap().map_or(0, |c| c.step()) + 1;
    for step in first.. {
        saves.save(step, &state(step, &mesh), &[]).unwrap();
        saves.wait().unwrap();
        println!("\nsaved {step}");
    }
}

#[test]
fn kill_9_at_any_moment_of_saving_leaves_the_last_complete_one() {
    let temporary = Folder::unused("checkpoints_kill");
    let folder = temporary.path();
    let mesh = Mesh::linear("x", 3).unwrap();
    let mut random = 12345u64;
    let (mut newest, mut unfinished) = (0, 0);
    for trial in 0..50 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_saves_in_a_loop", "--nocapture"])
            .env(CHILD, folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let saved = |line: &str| line.strip_prefix("saved ").and_then(|n| n.parse::<u64>().ok());
        // Once it saves, any moment.
        let mut reported = lines.by_ref().map_while(Result::ok).find_map(|l| saved(&l)).unwrap();
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        std::thread::sleep(Duration::from_micros((random >> 33) % 20_000));
        child.kill().unwrap();
        child.wait().unwrap();
        lines.map_while(Result::ok).filter_map(|l| saved(&l)).for_each(|n| reported = n);

        unfinished += usize::from(
            std::fs::read_dir(folder).unwrap().any(|e| e.unwrap().file_name().to_string_lossy().starts_with(".saving")),
        );
        let found = Checkpoints::open(folder).unwrap().latest().unwrap().unwrap();
        assert!(found.skipped().is_empty(), "trial {trial}: {:?}", found.skipped());
        let step = found.step();
        assert!(
            reported <= step && step <= reported + 1 && newest < step,
            "trial {trial}: {newest}, {reported}, {step}"
        );
        newest = step;
        let (x, y) = found.restore(&state(0, &mesh)).unwrap();
        assert!(x.to_vec::<f32>().unwrap().iter().all(|&v| v == step as f32));
        assert!(y.to_vec::<i64>().unwrap().iter().all(|&v| v == step as i64));
    }
    // Otherwise nothing was tried.
    assert!(unfinished > 5, "{unfinished} of 50 were killed while saving");
}

type Net = (Tensor, Tensor);
type State = (Net, OptimizerState<Net>);
type HostState = <State as Tree>::Host;

fn trainer(mesh: &Mesh) -> Step<Net, (Tensor, Tensor)> {
    let loss = |(a, b): &Net, (x, y): &(Tensor, Tensor)| (x.matmul(a).tanh().matmul(b) - y).square().mean_all();
    Trainer::new(loss, Optimizer::adam(0.05)).on(mesh).batch(P!["data"]).zero(Zero::Three, "data").build()
}

fn batch(step: u64) -> (Array, Array) {
    let x = Array::from_fn([12, 6], |i| ((i[0] * 7 + i[1] * 3 + step as i64) as f32).sin());
    (x, Array::from_fn([12, 2], |i| ((i[0] + i[1]) as f32).cos()))
}

fn start() -> (Array, Array) {
    (Array::from_fn([6, 10], |i| ((i[0] * 10 + i[1]) as f32).sin()), Array::from_fn([10, 2], |i| (i[0] as f32).cos()))
}

fn train(net: &Step<Net, (Tensor, Tensor)>, state: &mut HostState, steps: std::ops::Range<u64>) -> Vec<f32> {
    let mut losses = vec![];
    for step in steps {
        let (loss, next) = net.step(state, &batch(step)).unwrap();
        losses.push(loss.item::<f32>().unwrap());
        *state = next;
    }
    losses
}

#[test]
fn training_resumes_with_the_same_losses_on_the_same_and_on_other_meshes() {
    let temporary = Folder::unused("checkpoints_resume");
    let folder = temporary.path();
    let mesh = Mesh::linear("data", 4).unwrap();
    let net = trainer(&mesh);
    let mut state = net.init(&start()).unwrap();
    let mut saves = Checkpoints::open(folder).unwrap();
    train(&net, &mut state, 0..10);
    saves.save(10, &state, &[("schedule", "constant")]).unwrap();
    let losses = train(&net, &mut state, 10..20);
    let found = saves.latest().unwrap().unwrap();

    let mut again = found.restore(&net.init(&start()).unwrap()).unwrap();
    // Each device got its part of the moments, as the trainer places them.
    let first = again.1.first.as_ref().unwrap();
    assert_eq!(first.0.shards(), state.1.first.as_ref().unwrap().0.shards());
    assert_eq!(train(&net, &mut again, 10..20), losses, "the same mesh: bit by bit");

    for devices in [1, 2, 3] {
        let other = trainer(&Mesh::linear("data", devices).unwrap());
        let mut again = found.restore(&other.init(&start()).unwrap()).unwrap();
        let close = train(&other, &mut again, 10..20).iter().zip(&losses).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(close, "{devices} devices");
    }
}

#[test]
fn arrays_in_parts_are_refused_when_saved_and_whole_when_restored() {
    let temporary = Folder::unused("checkpoints_parts");
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let whole = || Array::from([1.0f32, 2.0, 3.0, 4.0]);
    let in_parts = || whole().shard(&mesh, P!["x"].unreduced(&["y"])).unwrap();
    let mut saves = Checkpoints::open(temporary.path()).unwrap();
    let error = saves.save(1, &in_parts(), &[]).unwrap_err().to_string();
    assert!(error.contains("in parts over the unreduced axes"), "{error}");
    assert!(error.contains("combine them in the program first"), "{error}");
    saves.save(2, &whole(), &[]).unwrap();
    let found = saves.latest().unwrap().expect("a checkpoint");
    let restored = found.restore(&in_parts()).unwrap();
    assert_eq!(restored.to_vec::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
}
