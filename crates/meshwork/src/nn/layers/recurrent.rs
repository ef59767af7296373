//! Long short-term memory.

use super::init::symmetric_uniform;
use crate::ElementType::F32;
use crate::control::scan;
use crate::ops::zeros;
use crate::{Int, Key, Tensor, Tree};

/// Long short-term memory: a state that gates write to and read from.
#[derive(Clone, Debug, Tree)]
pub struct Lstm<T = Tensor> {
    /// From the input to the gates, `[inputs, 4 * size]`: in, forget, new, out.
    pub input: T,
    /// From the state to the gates, `[size, 4 * size]`.
    pub state: T,
    /// `[4 * size]`.
    pub bias: T,
}

/// What an [`Lstm`] remembers.
#[derive(Clone, Debug, Tree)]
pub struct LstmState<T = Tensor> {
    /// What it shows, `[batch, size]`.
    pub hidden: T,
    /// What it keeps, `[batch, size]`.
    pub cell: T,
}

impl LstmState {
    /// Zeros.
    #[track_caller]
    pub fn zeros(batch: impl Int, size: impl Int) -> LstmState {
        let shape = [batch.int(), size.int()];
        LstmState { hidden: zeros(shape, F32), cell: zeros(shape, F32) }
    }
}

impl Lstm {
    /// Uniform between plus and minus the root of `1 / size`, as Equinox and PyTorch do.
    #[track_caller]
    pub fn init(key: &Key, inputs: impl Int, size: impl Int) -> Lstm {
        let (inputs, size) = (inputs.int(), size.int());
        let keys = key.split(3);
        let limit = (1.0 / size as f64).sqrt();
        Lstm {
            input: symmetric_uniform(&keys[0], [inputs, 4 * size], limit),
            state: symmetric_uniform(&keys[1], [size, 4 * size], limit),
            bias: symmetric_uniform(&keys[2], [4 * size], limit),
        }
    }

    /// One step on `[batch, inputs]`. What it shows is also its result.
    #[track_caller]
    pub fn step(&self, x: &Tensor, state: &LstmState) -> LstmState {
        let gates = x.matmul(&self.input) + state.hidden.matmul(&self.state) + &self.bias;
        let parts = gates.split(4, -1);
        let [i, f, g, o] = &parts[..] else { unreachable!("a split in four has four parts") };
        let cell = f.sigmoid() * &state.cell + i.sigmoid() * g.tanh();
        LstmState { hidden: o.sigmoid() * cell.tanh(), cell }
    }

    /// All steps of `[time, batch, inputs]`: the state after them, and what was shown at each, `[time, batch, size]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, state: LstmState) -> (LstmState, Tensor) {
        scan(state, x.clone(), |state, x| {
            let state = self.step(&x, &state);
            let shown = state.hidden.clone();
            (state, shown)
        })
    }
}
