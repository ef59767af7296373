//! What the model of a program proposes: data parallelism, Megatron's columns and rows, and FSDP, each where it pays.

use std::fmt::Write;

use meshwork_autodiff::{GradOptions, grad};
use meshwork_ir::transform::inline::inline_all;
use meshwork_ir::{Module, text};
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::Machine;
use meshwork_planner::network::Effort;
use meshwork_planner::{Model, Proposal};

fn machine() -> Machine {
    "* 1 50\ndevice=100,1000".parse().expect("a machine")
}

fn parse(program: &str) -> Module {
    text::parse(program).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

fn linear() -> Mesh {
    Mesh::linear("x", 8).expect("a mesh")
}

fn propose(module: &Module, mesh: &Mesh, memory: Option<u64>) -> Proposal {
    let mut model = Model::new(module, mesh, &machine()).expect("a model");
    let found = model.solve(memory, &Effort::default(), &|| false).expect("a proposal");
    assert!(found.bound <= found.seconds * (1.0 + 1e-9), "{} > {}", found.bound, found.seconds);
    found
}

/// The dimension that an axis splits.
fn dim(sharding: &Sharding, axis: &str) -> Option<usize> {
    sharding.dims.iter().position(|d| d.axes.iter().any(|a| *a.name == *axis))
}

fn dims(shardings: &[Sharding], axis: &str) -> Vec<Option<usize>> {
    shardings.iter().map(|s| dim(s, axis)).collect()
}

fn mlp(rows: i64, a: i64, b: i64) -> Module {
    parse(&format!(
        "func.func @main(%x: tensor<{rows}x{a}xf32>, %w1: tensor<{a}x{b}xf32>, %w2: tensor<{b}x{a}xf32>) -> tensor<{rows}x{a}xf32> {{
          %0 = stablehlo.dot_general %x, %w1, contracting_dims = [1] x [0] : (tensor<{rows}x{a}xf32>, tensor<{a}x{b}xf32>) -> tensor<{rows}x{b}xf32>
          %1 = stablehlo.tanh %0 : tensor<{rows}x{b}xf32>
          %2 = stablehlo.dot_general %1, %w2, contracting_dims = [1] x [0] : (tensor<{rows}x{b}xf32>, tensor<{b}x{a}xf32>) -> tensor<{rows}x{a}xf32>
          return %2 : tensor<{rows}x{a}xf32>
        }}"
    ))
}

/// A transformer's sizes.
#[derive(Clone, Copy)]
struct Sizes {
    layers: usize,
    batch: i64,
    sequence: i64,
    width: i64,
    heads: i64,
    hidden: i64,
}

/// The parameters of a layer.
const WEIGHTS: [&str; 6] = ["q", "k", "v", "o", "up", "down"];

impl Sizes {
    fn stream(self) -> String {
        format!("tensor<{}x{}x{}xf32>", self.batch, self.sequence, self.width)
    }

    fn weight(self, name: &str) -> String {
        let Sizes { width, heads, hidden, .. } = self;
        let each = width / heads;
        match name {
            "o" => format!("tensor<{heads}x{each}x{width}xf32>"),
            "up" => format!("tensor<{width}x{hidden}xf32>"),
            "down" => format!("tensor<{hidden}x{width}xf32>"),
            _ => format!("tensor<{width}x{heads}x{each}xf32>"),
        }
    }

    /// Bytes of all parameters.
    fn bytes(self) -> u64 {
        let Sizes { layers, width, hidden, .. } = self;
        4 * layers as u64 * (4 * width * width + 2 * width * hidden) as u64
    }

    /// `%x` and the parameters, each layer's in order.
    fn arguments(self) -> String {
        let mut out = format!("%x: {}", self.stream());
        for layer in 0..self.layers {
            for name in WEIGHTS {
                write!(out, ", %{name}{layer}: {}", self.weight(name)).unwrap();
            }
        }
        out
    }

    /// One layer: attention without a mask, then an MLP, both added to the stream.
    fn layer(self, n: usize, x: &str) -> (String, String) {
        let Sizes { batch: b, sequence: s, width: d, heads: h, hidden: f, .. } = self;
        let e = d / h;
        let (stream, heads) = (self.stream(), format!("tensor<{b}x{s}x{h}x{e}xf32>"));
        let (scores, mixed) = (format!("tensor<{b}x{h}x{s}x{s}xf32>"), format!("tensor<{b}x{h}x{s}x{e}xf32>"));
        let (sums, up) = (format!("tensor<{b}x{h}x{s}xf32>"), format!("tensor<{b}x{s}x{f}xf32>"));
        let mut out = String::new();
        for name in ["q", "k", "v"] {
            let weight = self.weight(name);
            writeln!(out, "%l{n}{name} = stablehlo.dot_general {x}, %{name}{n}, contracting_dims = [2] x [0] : ({stream}, {weight}) -> {heads}").unwrap();
        }
        let (o, w1, w2) = (self.weight("o"), self.weight("up"), self.weight("down"));
        write!(
            out,
            "%l{n}s = stablehlo.dot_general %l{n}q, %l{n}k, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3] : ({heads}, {heads}) -> {scores}
             %l{n}e = stablehlo.exponential %l{n}s : {scores}
             %l{n}t = stablehlo.reduce(%l{n}e init: %zero) applies stablehlo.add across dimensions = [3] : ({scores}, tensor<f32>) -> {sums}
             %l{n}b = stablehlo.broadcast_in_dim %l{n}t, dims = [0, 1, 2] : ({sums}) -> {scores}
             %l{n}p = stablehlo.divide %l{n}e, %l{n}b : {scores}
             %l{n}m = stablehlo.dot_general %l{n}p, %l{n}v, batching_dims = [0, 1] x [0, 2], contracting_dims = [3] x [1] : ({scores}, {heads}) -> {mixed}
             %l{n}o = stablehlo.dot_general %l{n}m, %o{n}, contracting_dims = [1, 3] x [0, 1] : ({mixed}, {o}) -> {stream}
             %l{n}a = stablehlo.add {x}, %l{n}o : {stream}
             %l{n}u = stablehlo.dot_general %l{n}a, %up{n}, contracting_dims = [2] x [0] : ({stream}, {w1}) -> {up}
             %l{n}h = stablehlo.tanh %l{n}u : {up}
             %l{n}d = stablehlo.dot_general %l{n}h, %down{n}, contracting_dims = [2] x [0] : ({up}, {w2}) -> {stream}
             %l{n}y = stablehlo.add %l{n}a, %l{n}d : {stream}\n"
        )
        .unwrap();
        (out, format!("%l{n}y"))
    }

    fn forward(self) -> Module {
        let (mut body, mut x) = (String::new(), "%x".to_string());
        for n in 0..self.layers {
            let (text, next) = self.layer(n, &x);
            body += &text;
            x = next;
        }
        let stream = self.stream();
        parse(&format!(
            "func.func @main({}) -> tensor<f32> {{
             %zero = stablehlo.constant dense<0.0> : tensor<f32>
             {body}
             %sq = stablehlo.multiply {x}, {x} : {stream}
             %loss = stablehlo.reduce(%sq init: %zero) applies stablehlo.add across dimensions = [0, 1, 2] : ({stream}, tensor<f32>) -> tensor<f32>
             return %loss : tensor<f32> }}",
            self.arguments()
        ))
    }

    /// A step of gradient descent: the new parameters, which take the place of the old ones.
    fn training(self) -> Module {
        let count = self.layers * WEIGHTS.len();
        let options = GradOptions { wrt: (1..=count).collect(), keep_value: false };
        let gradients = text::print(&grad(&self.forward(), "main", &options).expect("gradients"));
        let gradients = gradients.replace("@main", "@gradients");
        let inner = gradients.trim().strip_prefix("module {").and_then(|t| t.strip_suffix('}')).unwrap_or(&gradients);
        let types: Vec<String> = (0..self.layers).flat_map(|_| WEIGHTS.map(|name| self.weight(name))).collect();
        let names: Vec<String> = (0..self.layers).flat_map(|n| WEIGHTS.map(|name| format!("%{name}{n}"))).collect();
        let mut body = String::new();
        for (i, ty) in types.iter().enumerate() {
            writeln!(
                body,
                "%r{i} = stablehlo.constant dense<0.01> : {ty}\n%s{i} = stablehlo.multiply %g#{i}, %r{i} : {ty}"
            )
            .unwrap();
            writeln!(body, "%n{i} = stablehlo.subtract {}, %s{i} : {ty}", names[i]).unwrap();
        }
        let (stream, all) = (self.stream(), types.join(", "));
        let new: Vec<String> = (0..count).map(|i| format!("%n{i}")).collect();
        let mut module = parse(&format!(
            "{inner}
             func.func public @main({}) -> ({all}) {{
             %g:{count} = func.call @gradients(%x, {}) : ({stream}, {all}) -> ({all})
             {body} return {} : {all} }}",
            self.arguments(),
            names.join(", "),
            new.join(", ")
        ));
        inline_all(&mut module);
        module
    }
}

#[test]
fn many_rows_are_split_and_nothing_is_sent() {
    let found = propose(&mlp(1 << 16, 256, 1024), &linear(), None);
    assert_eq!(dims(&found.arguments, "x"), [Some(0), None, None]);
    assert!(found.gap() < 1e-6, "{}", found.gap());
}

#[test]
fn few_rows_and_large_weights_give_columns_and_rows() {
    let found = propose(&mlp(64, 4096, 16384), &linear(), None);
    assert_eq!(dims(&found.arguments[1..], "x"), [Some(1), Some(0)]);
    assert_eq!(dim(&found.products[0].1, "x"), Some(1));
}

#[test]
fn weights_that_do_not_fit_are_stored_in_parts_and_gathered() {
    let module = mlp(1 << 16, 1024, 4096);
    let free = propose(&module, &linear(), None);
    assert_eq!(dims(&free.arguments, "x"), [Some(0), None, None]);
    // What the activations need at the tanh, and half of the weights.
    let activations = 4 * ((1 << 16) / 8) * (1024 + 2 * 4096);
    let found = propose(&module, &linear(), Some(activations + 4 * 1024 * 4096));
    assert_eq!(found.missing, 0);
    assert_eq!(dim(&found.arguments[0], "x"), Some(0));
    assert!(dims(&found.arguments[1..], "x").iter().filter(|d| d.is_some()).count() >= 1, "{:?}", found.arguments);
    assert!(found.products.iter().all(|(_, s)| dim(s, "x") == Some(0)), "{:?}", found.products);
    assert!(found.seconds > free.seconds);
}

#[test]
fn heads_are_split_in_attention() {
    // So few tokens that reading the weights is all that takes time.
    let sizes = Sizes { layers: 1, batch: 1, sequence: 4, width: 8192, heads: 16, hidden: 32768 };
    let found = propose(&sizes.forward(), &linear(), None);
    let expected = [Some(1), Some(1), Some(1), Some(0), Some(1), Some(0)];
    assert_eq!(dims(&found.arguments[1..], "x"), expected);
}

#[test]
fn a_transformer_step_of_few_tokens_is_split_as_megatron_does() {
    let sizes = Sizes { layers: 2, batch: 1, sequence: 64, width: 2048, heads: 16, hidden: 8192 };
    let found = propose(&sizes.training(), &linear(), None);
    let layer = [Some(1), Some(1), Some(1), Some(0), Some(1), Some(0)];
    assert_eq!(dims(&found.arguments[1..], "x"), [layer, layer].concat());
}

#[test]
fn a_transformer_step_of_many_tokens_is_data_parallel_or_fsdp_as_memory_asks() {
    let sizes = Sizes { layers: 2, batch: 64, sequence: 256, width: 512, heads: 8, hidden: 2048 };
    let module = sizes.training();
    let free = propose(&module, &linear(), None);
    assert_eq!(dim(&free.arguments[0], "x"), Some(0));
    assert!(dims(&free.arguments[1..], "x").contains(&None), "{:?}", free.arguments);
    let mut model = Model::new(&module, &linear(), &machine()).expect("a model");
    // The least memory there is a proposal for, to a hundredth.
    let (mut low, mut high) = (0, sizes.bytes() * 64);
    while high - low > high / 100 {
        let middle = (low + high) / 2;
        let found = model.solve(Some(middle), &Effort::default(), &|| false).expect("a proposal");
        if found.missing == 0 { high = middle } else { low = middle }
    }
    let tight = propose(&module, &linear(), Some(high));
    assert_eq!(tight.missing, 0);
    // The batch stays split, and so are all parameters.
    assert_eq!(dim(&tight.arguments[0], "x"), Some(0));
    assert!(!dims(&tight.arguments[1..], "x").contains(&None), "{:?}", tight.arguments);
    let more = propose(&module, &linear(), Some(high + high / 10));
    println!("{} and, with a tenth more memory, {} of the time could be saved", tight.gap(), more.gap());
    assert!(more.gap() < 0.02 && more.seconds <= tight.seconds, "{}", more.gap());
}

#[test]
fn closed_annotations_hold() {
    let text = "sdy.mesh @mesh = <[\"x\"=8]>
        func.func @main(%x: tensor<4096x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {\"x\"}]>}, %w: tensor<64x64xf32>) -> tensor<4096x64xf32> {
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x64xf32>, tensor<64x64xf32>) -> tensor<4096x64xf32>
          return %0 : tensor<4096x64xf32> }";
    let found = propose(&parse(text), &linear(), None);
    assert_eq!(dim(&found.arguments[0], "x"), Some(1));
}

#[test]
fn loops_carry_their_places() {
    let text = "func.func @main(%x: tensor<4096x64xf32>, %w: tensor<64x64xf32>) -> tensor<4096x64xf32> {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %ten = stablehlo.constant dense<10> : tensor<i32>
          %one = stablehlo.constant dense<1> : tensor<i32>
          %r:2 = stablehlo.while(%i = %zero, %c = %x) : tensor<i32>, tensor<4096x64xf32>
          cond {
            %p = stablehlo.compare LT, %i, %ten : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          } do {
            %n = stablehlo.add %i, %one : tensor<i32>
            %y = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<4096x64xf32>, tensor<64x64xf32>) -> tensor<4096x64xf32>
            %t = stablehlo.tanh %y : tensor<4096x64xf32>
            stablehlo.return %n, %t : tensor<i32>, tensor<4096x64xf32>
          }
          return %r#1 : tensor<4096x64xf32> }";
    let found = propose(&parse(text), &linear(), None);
    assert_eq!(dims(&found.arguments, "x"), [Some(0), None]);
    assert!(found.gap() < 1e-6);
}

#[test]
fn programs_without_arguments_operations_or_axes() {
    let empty = parse("func.func @main() { return }");
    let found = propose(&empty, &linear(), Some(0));
    assert_eq!((found.arguments.len(), found.seconds, found.missing), (0, 0.0, 0));
    let one = Mesh::linear("x", 1).expect("a mesh");
    let found = propose(&mlp(8, 8, 8), &one, None);
    assert_eq!(dims(&found.arguments, "x"), [None; 3]);
}
