//! One training step of a transformer on many GPUs, for comparison with published tables.
//!
//! The operations of a layer on one device are predicted one by one by the machine's cost model, and the collectives by
//! its levels. The host starts kernels ahead of the device, so a stage takes as long as its work or as starting all of it,
//! whichever is longer. What our own programs do not have (microbatches, a pipeline with one forward and one backward in turn, its
//! interleaving) is a closed form: m + (p - 1) / v turns of the slowest stage.

use meshwork_ir::{Combine, ElementType};
use meshwork_partition::collective::CollectiveKind;
use meshwork_partition::plan::{Class, Machine, Span};

/// A decoder.
#[derive(Clone, Copy, Debug)]
pub struct Model {
    pub hidden: f64,
    pub heads: f64,
    /// Heads of keys and values.
    pub kv_heads: f64,
    pub layers: f64,
    /// Hidden features of the feed-forward block, and how many matrices lead there.
    pub ffn: f64,
    pub gates: f64,
    pub sequence: f64,
    pub vocabulary: f64,
}

impl Model {
    /// A GPT: four times the hidden features, one matrix to them.
    pub fn gpt(hidden: f64, heads: f64, layers: f64, sequence: f64, vocabulary: f64) -> Model {
        Model { hidden, heads, kv_heads: heads, layers, ffn: 4.0 * hidden, gates: 1.0, sequence, vocabulary }
    }

    /// Numbers in a layer.
    fn layer_parameters(&self) -> f64 {
        let kv = self.hidden * self.kv_heads / self.heads;
        self.hidden * (2.0 * self.hidden + 2.0 * kv) + (self.gates + 1.0) * self.hidden * self.ffn
    }

    /// Numbers in all.
    pub fn parameters(&self) -> f64 {
        self.layers * self.layer_parameters() + self.vocabulary * self.hidden
    }

    /// Arithmetic of a token's forward and backward pass, as utilization is usually counted.
    pub fn flops_per_token(&self) -> f64 {
        6.0 * self.parameters() + 12.0 * self.layers * self.hidden * self.sequence
    }
}

/// What is computed again in the backward pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Recompute {
    Nothing,
    /// Scores, softmax and their product.
    Attention,
    Everything,
}

/// How a step is spread.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub tensor: f64,
    pub context: f64,
    pub data: f64,
    pub pipeline: f64,
    pub interleave: f64,
    /// Sequences of a step and of a microbatch.
    pub batch: f64,
    pub micro: f64,
    pub recompute: Recompute,
    /// Whether what is not split by tensor parallelism is split by sequence.
    pub sequence_parallel: bool,
    /// Whether scores never leave the chip.
    pub flash: bool,
    /// Whether parameters are split over data, gathered for use and their gradients scattered, beside the arithmetic.
    pub sharded: bool,
    /// Whether sums over tensor parallelism and gradients are exchanged beside the arithmetic.
    pub overlapped: bool,
    /// Bytes of a gradient on the wire.
    pub gradient_bytes: f64,
}

/// Bytes of an activation or parameter.
const ELEMENT: f64 = 2.0;
/// Bytes that Adam reads and writes per parameter: gradient, moments and master copy, and the parameter in 16 bits.
const UPDATE: f64 = 30.0;

/// Kernels.
#[derive(Clone, Copy, Default)]
struct Work {
    /// Seconds that the device works.
    seconds: f64,
    /// How many there are.
    starts: f64,
}

impl std::ops::Add for Work {
    type Output = Work;
    fn add(self, other: Work) -> Work {
        Work { seconds: self.seconds + other.seconds, starts: self.starts + other.starts }
    }
}

impl std::ops::Mul<Work> for f64 {
    type Output = Work;
    fn mul(self, work: Work) -> Work {
        Work { seconds: self * work.seconds, starts: self * work.starts }
    }
}

struct Device<'a>(&'a Machine);

impl Device<'_> {
    fn kernel(&self, class: Class, flops: f64, bytes: f64) -> Work {
        let device = &self.0.device;
        let arithmetic = device.arithmetic_seconds(class, ElementType::BF16, flops);
        Work { seconds: arithmetic.max(device.memory_seconds(bytes)), starts: 1.0 }
    }

    fn product(&self, batch: f64, m: f64, k: f64, n: f64) -> Work {
        let bytes = ELEMENT * batch * (m * k + k * n + m * n);
        self.kernel(Class::Product, 2.0 * batch * m * k * n, bytes)
    }

    fn elementwise(&self, bytes: f64) -> Work {
        self.kernel(Class::Elementwise, 0.0, bytes)
    }

    /// Seconds of kernels that are started one after the other, ahead of the device, with `waits` for others in between.
    fn queued(&self, work: Work, waits: f64) -> f64 {
        let start = self.0.device.curve(Class::Elementwise).microseconds * 1e-6;
        (work.seconds + waits).max(work.starts * start)
    }

    fn collective(&self, kind: CollectiveKind, stride: f64, size: f64, bytes: f64) -> f64 {
        let span = Span { stride: stride.max(1.0) as i64, size: size as i64 };
        self.0.links.group_seconds(&kind, &[span], bytes)
    }
}

/// The seconds of a step.
pub fn seconds(model: &Model, setup: &Setup, machine: &Machine) -> f64 {
    let device = Device(machine);
    let (t, cp, d, p) = (setup.tensor, setup.context, setup.data, setup.pipeline);
    let tokens = setup.micro * model.sequence / cp;
    let h = model.hidden;
    let kv = model.kv_heads / model.heads;
    let split = if setup.sequence_parallel { t } else { 1.0 };
    // A forward pass of a layer; a factor of 2 gives the backward pass: gradients of both operands of each product.
    let head = h / model.heads;
    let attention = |times: f64| {
        let heads = setup.micro * model.heads / t;
        let rows = model.sequence / cp;
        let scores = heads * rows * model.sequence * ELEMENT;
        let products = if setup.flash {
            let flops = 4.0 * heads * rows * model.sequence * head;
            device.kernel(Class::Other, flops * times, 0.0)
        } else {
            (times * 2.0) * device.product(heads, rows, head, model.sequence)
        };
        // Masked softmax, and dropout with its mask.
        let masked = || device.elementwise(2.0 * scores) + device.elementwise(2.5 * scores);
        let rest = if setup.flash { Work::default() } else { masked() };
        products + times.min(1.5) * rest
    };
    let pass = |times: f64| {
        let products = device.product(1.0, tokens, h, h * (1.0 + 2.0 * kv) / t)
            + device.product(1.0, tokens, h / t, h)
            + model.gates * device.product(1.0, tokens, h, model.ffn / t)
            + device.product(1.0, tokens, model.ffn / t, h);
        let stream = tokens * h * ELEMENT / split;
        let norms = 2.0 * device.elementwise(2.0 * stream) + 2.0 * device.elementwise(3.5 * stream);
        let activation = device.elementwise((1.0 + model.gates) * tokens * model.ffn / t * ELEMENT);
        times * products + times.min(1.5) * (norms + activation) + attention(times)
    };
    let again = match setup.recompute {
        Recompute::Nothing => Work::default(),
        Recompute::Attention => attention(1.0),
        Recompute::Everything => pass(1.0),
    };
    let reduce = || CollectiveKind::AllReduce(Combine::Add);
    let sums = if setup.recompute == Recompute::Everything { 6.0 } else { 4.0 };
    let exchange = if t > 1.0 { sums * device.collective(reduce(), 1.0, t, tokens * h * ELEMENT) } else { 0.0 };
    // Keys and values of the whole sequence for each part of it, forward and backward.
    let context = if cp > 1.0 {
        let bytes = 2.0 * tokens * h * kv / t * ELEMENT;
        let gather = device.collective(CollectiveKind::AllGather, t, cp, bytes);
        gather + device.collective(CollectiveKind::ReduceScatter(Combine::Add), t, cp, bytes * cp)
    } else {
        0.0
    };
    let computed = pass(1.0) + pass(2.0) + again;
    let lost = machine.links.levels.iter().map(|level| level.lost).fold(0.0, f64::max);
    let beside = |sent: f64, computed: f64| (sent - computed).max(0.0) + lost * sent.min(computed);
    let waits = if setup.overlapped { beside(exchange + context, computed.seconds) } else { exchange + context };
    let logits = 3.0 * device.product(1.0, tokens, h, model.vocabulary / t)
        + device.elementwise(6.0 * tokens * model.vocabulary / t * ELEMENT);
    let microbatches = (setup.batch / (d * setup.micro)).max(1.0);
    let outer = t * cp;
    let parameters = model.parameters() / (t * p);
    let mut waits = waits;
    let mut after = Work::default();
    let mut sent_after = 0.0;
    if setup.sharded {
        // Gathered for the forward and the backward pass, gradients scattered, for each microbatch, beside the arithmetic.
        let own = model.layer_parameters() / t;
        let gather = device.collective(CollectiveKind::AllGather, outer, d, own * ELEMENT / d);
        let scatter =
            device.collective(CollectiveKind::ReduceScatter(Combine::Add), outer, d, own * setup.gradient_bytes);
        let sent = 2.0 * gather + scatter;
        waits += beside(sent, device.queued(computed, waits));
        after = after + device.elementwise(parameters / d * UPDATE);
    } else {
        if d > 1.0 {
            let sent = device.collective(reduce(), outer, d, parameters * setup.gradient_bytes);
            let layers = model.layers / p * device.queued(computed, waits);
            sent_after = if setup.overlapped { beside(sent, layers) } else { sent };
        }
        after = after + device.elementwise(parameters * UPDATE);
    }
    let (layers, waits) = (model.layers / p, model.layers / p * waits);
    let stage = device.queued(layers * computed, waits);
    let slowest = device.queued(layers * computed + logits, waits);
    let handed = if p > 1.0 {
        // Each device of a tensor-parallel group hands on its part.
        let bytes = tokens * h * ELEMENT / t;
        2.0 * setup.interleave * device.collective(CollectiveKind::Permute, outer * d, p, bytes)
    } else {
        0.0
    };
    microbatches * (slowest + handed)
        + (p - 1.0) / setup.interleave * (stage + handed)
        + device.queued(after, sent_after)
}
