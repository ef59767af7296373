//! A small training run that tests interrupt: on four devices, on any number of processes, with checkpoints.

use std::path::Path;

use meshwork::prelude::*;
use meshwork::save::Checkpoints;
use meshwork::train::{Optimizer, OptimizerState, Step, Trainer, Zero};

pub const DEVICES: i64 = 4;

type Net = (Tensor, Tensor);
type State = (Net, OptimizerState<Net>);

/// Its arrays are so small that sums are the same to the bit on any number of processes.
fn trainer() -> Step<Net, Tensor> {
    let mesh = Mesh::linear("data", DEVICES).unwrap();
    let loss = |(a, b): &Net, x: &Tensor| (x.matmul(a).tanh().matmul(b) - x).square().mean_all();
    Trainer::new(loss, Optimizer::adam(0.02)).on(&mesh).batch(P!["data"]).zero(Zero::Three, "data").build()
}

fn batch(step: u64) -> Array {
    Array::from_fn([8, 16], |i| ((i[0] * 7 + i[1] * 3 + step as i64 % 64) as f32).sin())
}

fn start() -> (Array, Array) {
    let f = |shape: [i64; 2]| Array::from_fn(shape, |i| ((i[0] * 37 + i[1] * 11) as f32).sin() * 0.1);
    (f([16, 32]), f([32, 16]))
}

/// Trains up to step `last`, from the last checkpoint in `folder`, and saves every second step. Reports `resumed STEP`,
/// `loss STEP BITS`, and `saved STEP` for what is saved for certain.
pub fn train(folder: &Path, last: u64, report: impl Fn(String)) {
    let net = trainer();
    let mut state = net.init(&start()).unwrap();
    let mut saves = Checkpoints::open(folder).unwrap().keep(3);
    let mut step = 0;
    if let Some((found, resumed)) = saves.resume(&state).unwrap() {
        assert!(found.skipped().is_empty(), "{:?}", found.skipped());
        (state, step) = (resumed, found.step());
        report(format!("resumed {step}"));
    }
    let mut saving = None;
    while step < last {
        let (loss, next) = net.step(&state, &batch(step)).unwrap();
        report(format!("loss {step} {}", loss.item::<f32>().unwrap().to_bits()));
        (state, step) = (next, step + 1);
        if step.is_multiple_of(2) {
            saves.save(step, &state, &[]).unwrap();
            // `save` has waited for the one before.
            saving.replace(step).into_iter().for_each(|step| report(format!("saved {step}")));
        }
    }
    saves.wait().unwrap();
    saving.into_iter().for_each(|step| report(format!("saved {step}")));
}

/// The losses, as bits, of a run in this process to which nothing happens.
pub struct Undisturbed {
    net: Step<Net, Tensor>,
    state: Option<<State as Tree>::Host>,
    losses: Vec<u32>,
}

impl Undisturbed {
    pub fn new() -> Undisturbed {
        let net = trainer();
        Undisturbed { state: net.init(&start()).ok(), net, losses: vec![] }
    }

    pub fn loss(&mut self, step: u64) -> u32 {
        while self.losses.len() as u64 <= step {
            let state = self.state.take().unwrap();
            let (loss, next) = self.net.step(&state, &batch(self.losses.len() as u64)).unwrap();
            self.losses.push(loss.item::<f32>().unwrap().to_bits());
            self.state = Some(next);
        }
        self.losses[step as usize]
    }
}

/// What a run has reported.
#[derive(Clone, Default, Debug)]
pub struct Reported {
    pub resumed: Option<u64>,
    pub saved: Option<u64>,
    pub losses: Vec<(u64, u32)>,
}

impl Reported {
    pub fn read(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["resumed", step] => self.resumed = step.parse().ok(),
            ["saved", step] => self.saved = step.parse().ok(),
            ["loss", step, bits] => {
                if let (Ok(step), Ok(bits)) = (step.parse(), bits.parse()) {
                    self.losses.push((step, bits));
                }
            }
            _ => {}
        }
    }

    /// The run went on where the checkpoint `before` was, and had the losses of one to which nothing happened.
    pub fn check(&self, before: Option<u64>, undisturbed: &mut Undisturbed) {
        assert_eq!(self.resumed, before, "{self:?}");
        let first = before.unwrap_or(0);
        for (i, &(step, loss)) in self.losses.iter().enumerate() {
            assert_eq!(step, first + i as u64, "{self:?}");
            assert_eq!(loss, undisturbed.loss(step), "the loss of step {step}");
        }
    }
}

/// The step of the last checkpoint in `folder`, which is whole, as is everything that has a name.
pub fn last_saved(folder: &Path) -> Option<u64> {
    let found = Checkpoints::open(folder).unwrap().latest().unwrap()?;
    assert!(found.skipped().is_empty(), "{:?}", found.skipped());
    found.verify().unwrap();
    Some(found.step())
}
