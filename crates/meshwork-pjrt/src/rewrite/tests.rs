//! Rewritten programs give the same bits, on programs in every spelling and on random ones.

use meshwork_ir::{Module, text, verify};
use meshwork_partition::{CompileOptions, compile};
use meshwork_runtime::{Array, Engine, Evaluator};
use meshwork_testing::Numbers;

use super::{Rewriting, rewrite};

/// One step of a stencil: each inner element becomes a sum of its neighbors, `(offset, weight)`.
pub(crate) struct Stencil {
    pub dims: Vec<i64>,
    /// Elements that stay, before and behind, per dimension.
    pub low: Vec<i64>,
    pub high: Vec<i64>,
    pub terms: Vec<(Vec<i64>, f64)>,
}

/// How the step is written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Spelling {
    UpdateSlice,
    Scatter,
    Concatenate,
    Pad,
}

pub(crate) const SPELLINGS: [Spelling; 4] =
    [Spelling::UpdateSlice, Spelling::Scatter, Spelling::Concatenate, Spelling::Pad];

fn tensor(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

impl Stencil {
    fn inner(&self) -> Vec<i64> {
        (0..self.dims.len()).map(|d| self.dims[d] - self.low[d] - self.high[d]).collect()
    }

    /// The step from `%x` to `%y`.
    fn step(&self, spelling: Spelling) -> String {
        let (whole, inner) = (tensor(&self.dims, "f32"), tensor(&self.inner(), "f32"));
        let mut text = String::new();
        for (k, (offset, weight)) in self.terms.iter().enumerate() {
            let ranges: Vec<String> = (0..self.dims.len())
                .map(|d| {
                    let start = self.low[d] + offset[d];
                    format!("{start}:{}", start + self.inner()[d])
                })
                .collect();
            text += &format!(
                "%s{k} = stablehlo.slice %x [{}] : ({whole}) -> {inner}
                 %c{k} = stablehlo.constant dense<{weight:?}> : tensor<f32>
                 %w{k} = stablehlo.broadcast_in_dim %c{k}, dims = [] : (tensor<f32>) -> {inner}
                 %p{k} = stablehlo.multiply %w{k}, %s{k} : {inner}\n",
                ranges.join(", ")
            );
            text += &match k {
                0 => format!("%t0 = stablehlo.negate %p0 : {inner}\n"),
                _ => format!("%t{k} = stablehlo.subtract %t{}, %p{k} : {inner}\n", k - 1),
            };
        }
        text += &format!("%i = stablehlo.negate %t{} : {inner}\n", self.terms.len() - 1);
        text + &self.assign(spelling, &whole, &inner)
    }

    fn assign(&self, spelling: Spelling, whole: &str, inner: &str) -> String {
        let (rank, list) = (self.dims.len(), |v: &[i64]| format!("{v:?}"));
        let windows: Vec<i64> = (0..rank as i64).collect();
        match spelling {
            Spelling::UpdateSlice => {
                let mut text = String::new();
                for d in 0..rank {
                    text += &format!("%a{d} = stablehlo.constant dense<{}> : tensor<i32>\n", self.low[d]);
                }
                let starts: String = (0..rank).map(|d| format!(", %a{d}")).collect();
                let types = ", tensor<i32>".repeat(rank);
                text + &format!("%y = stablehlo.dynamic_update_slice %x, %i{starts} : ({whole}, {inner}{types}) -> {whole}\n")
            }
            Spelling::Scatter => format!(
                "%at = stablehlo.constant dense<{}> : tensor<{rank}xi32>
                 %y = \"stablehlo.scatter\"(%x, %at, %i) <{{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<
                   update_window_dims = {w}, scatter_dims_to_operand_dims = {w}>, unique_indices = true}}> ({{
                   ^bb0(%old: tensor<f32>, %new: tensor<f32>):
                     stablehlo.return %new : tensor<f32>
                 }}) : ({whole}, tensor<{rank}xi32>, {inner}) -> {whole}\n",
                list(&self.low),
                w = list(&windows),
            ),
            Spelling::Pad => {
                let zeros = vec![0; rank];
                format!(
                    "%z = stablehlo.constant dense<0.5> : tensor<f32>
                     %q = stablehlo.pad %i, %z, low = {}, high = {}, interior = {} : ({inner}, tensor<f32>) -> {whole}
                     %y = stablehlo.add %x, %q : {whole}\n",
                    list(&self.low),
                    list(&self.high),
                    list(&zeros),
                )
            }
            Spelling::Concatenate => {
                let (mut text, mut have, mut at) = (String::new(), "i".to_string(), self.inner());
                for d in (0..rank).rev() {
                    let mut parts = vec![];
                    for (name, start, size) in [("b", 0, self.low[d]), ("e", self.dims[d] - self.high[d], self.high[d])] {
                        let ranges: Vec<String> = (0..rank)
                            .map(|k| match k.cmp(&d) {
                                std::cmp::Ordering::Less => format!("{}:{}", self.low[k], self.dims[k] - self.high[k]),
                                std::cmp::Ordering::Equal => format!("{start}:{}", start + size),
                                std::cmp::Ordering::Greater => format!("0:{}", self.dims[k]),
                            })
                            .collect();
                        let mut ty = at.clone();
                        ty[d] = size;
                        let ty = tensor(&ty, "f32");
                        if size > 0 {
                            text += &format!("%{name}{d} = stablehlo.slice %x [{}] : ({whole}) -> {ty}\n", ranges.join(", "));
                            parts.push((format!("%{name}{d}"), ty));
                        }
                    }
                    let middle = (format!("%{have}"), tensor(&at, "f32"));
                    parts.insert(usize::from(self.low[d] > 0), middle);
                    at[d] = self.dims[d];
                    have = format!("k{d}");
                    let names: Vec<&str> = parts.iter().map(|p| p.0.as_str()).collect();
                    let types: Vec<&str> = parts.iter().map(|p| p.1.as_str()).collect();
                    text += &format!(
                        "%{have} = stablehlo.concatenate {}, dim = {d} : ({}) -> {}\n",
                        names.join(", "),
                        types.join(", "),
                        tensor(&at, "f32")
                    );
                }
                text + &format!("%y = stablehlo.abs %{have} : {whole}\n")
            }
        }
    }

    /// `steps` steps.
    pub fn program(&self, spelling: Spelling, steps: i64) -> String {
        let ty = tensor(&self.dims, "f32");
        format!(
            "func.func @main(%u: {ty}) -> {ty} {{
               %zero = stablehlo.constant dense<0> : tensor<i32>
               %r:2 = stablehlo.while(%n = %zero, %x = %u) : tensor<i32>, {ty}
               cond {{
                 %end = stablehlo.constant dense<{steps}> : tensor<i32>
                 %more = stablehlo.compare LT, %n, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
                 stablehlo.return %more : tensor<i1>
               }} do {{
                 {}
                 %one = stablehlo.constant dense<1> : tensor<i32>
                 %next = stablehlo.add %n, %one : tensor<i32>
                 stablehlo.return %next, %y : tensor<i32>, {ty}
               }}
               return %r#1 : {ty} }}",
            self.step(spelling)
        )
    }
}

fn run(module: &Module, dims: &[i64]) -> Vec<u32> {
    let program = compile(module, &CompileOptions::default()).expect("it compiles");
    let x = Array::from_fn(dims.to_vec(), |i| {
        let place: i64 = i.iter().enumerate().map(|(d, &n)| n * (7 + 4 * d as i64)).sum();
        (place % 23) as f32 * 0.125 - 1.0
    });
    let y = Evaluator.load(&program).expect("it loads").run(vec![x]).expect("it runs").swap_remove(0);
    y.to_vec::<f32>().expect("f32").iter().map(|x| x.to_bits()).collect()
}

/// The rewritten program, which gives the same bits.
fn check(source: &str, dims: &[i64], turns: u64) -> String {
    let before = text::parse(source).unwrap_or_else(|e| panic!("{e:?}\n{source}"));
    let mut after = before.clone();
    rewrite(&mut after, Rewriting { turns, kernels: None });
    let shown = text::print(&after);
    assert_eq!(verify::verify(&after), [], "{shown}");
    assert_eq!(run(&before, dims), run(&after, dims), "{source}\nis not\n{shown}");
    shown
}

fn heat(dims: &[i64]) -> Stencil {
    let rank = dims.len();
    let unit = |d: usize, by: i64| (0..rank).map(|k| if k == d { by } else { 0 }).collect::<Vec<i64>>();
    let mut terms = vec![(vec![0; rank], 0.5)];
    for d in 0..rank {
        terms.extend([(unit(d, -1), 0.125), (unit(d, 1), 0.375)]);
    }
    Stencil { dims: dims.to_vec(), low: vec![1; rank], high: vec![1; rank], terms }
}

#[test]
fn every_spelling_of_heat_becomes_a_choice_of_shifted_arrays() {
    for dims in [&[41][..], &[9, 14]] {
        for spelling in SPELLINGS {
            let text = check(&heat(dims).program(spelling, 10), dims, 4);
            for gone in ["scatter", "update_slice", "concatenate", "stablehlo.slice"] {
                assert!(!text.contains(gone), "{spelling:?} {dims:?}: {text}");
            }
            // Four steps in the loop, and the two that are left behind it.
            assert_eq!(
                text.matches("stablehlo.select").count(),
                6 * if spelling == Spelling::Concatenate { dims.len() } else { 1 },
                "{text}"
            );
            assert!(text.contains("dense<8> : tensor<i32>"), "{text}");
        }
    }
}

#[test]
fn random_stencils_give_the_same_bits() {
    let mut numbers = Numbers(21);
    for case in 0..60 {
        let rank = 1 + numbers.below(2);
        let between = |numbers: &mut Numbers, low, high| numbers.between(low, high);
        let low: Vec<i64> = (0..rank).map(|_| between(&mut numbers, 0, 2)).collect();
        let high: Vec<i64> = (0..rank).map(|_| between(&mut numbers, 0, 2)).collect();
        let dims: Vec<i64> = (0..rank).map(|d| low[d] + high[d] + between(&mut numbers, 1, 12)).collect();
        let terms = (0..1 + numbers.below(4)).map(|_| {
            let offset = (0..rank).map(|d| between(&mut numbers, -low[d], high[d])).collect();
            (offset, between(&mut numbers, -4, 4) as f64 * 0.25)
        });
        let stencil = Stencil { terms: terms.collect(), dims: dims.clone(), low, high };
        let spelling = SPELLINGS[case % SPELLINGS.len()];
        let (steps, turns) = (between(&mut numbers, 0, 9), between(&mut numbers, 1, 5) as u64);
        check(&stencil.program(spelling, steps), &dims, turns);
    }
}

/// A part at a place that is clamped, and one that is not written because it does not fit.
#[test]
fn parts_past_the_end() {
    let mut stencil = heat(&[20]);
    let source = stencil
        .program(Spelling::UpdateSlice, 3)
        .replace("%a0 = stablehlo.constant dense<1>", "%a0 = stablehlo.constant dense<9>");
    let text = check(&source, &[20], 1);
    assert!(text.contains("stablehlo.select") && !text.contains("update_slice"), "{text}");
    stencil.low = vec![1];
    let source = stencil.program(Spelling::Scatter, 3).replace("dense<[1]>", "dense<[5]>");
    let text = check(&source, &[20], 1);
    assert!(text.contains("scatter"), "{text}");
}

/// Small parts are written in place.
#[test]
fn small_parts_stay() {
    let stencil =
        Stencil { dims: vec![40], low: vec![3], high: vec![30], terms: vec![(vec![1], 0.5), (vec![-2], 0.25)] };
    let text = check(&stencil.program(Spelling::UpdateSlice, 3), &[40], 4);
    assert!(text.contains("dynamic_update_slice"), "{text}");
}

#[test]
fn convolutions_become_sums() {
    let source = "func.func @main(%u: tensor<30xf32>) -> tensor<30xf32> {
        %k = stablehlo.constant dense<[0.25, -0.5, 0.25]> : tensor<3xf32>
        %x = stablehlo.broadcast_in_dim %u, dims = [2] : (tensor<30xf32>) -> tensor<1x1x30xf32>
        %w = stablehlo.broadcast_in_dim %k, dims = [2] : (tensor<3xf32>) -> tensor<1x1x3xf32>
        %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], window = {stride = [1], pad = [[0, 0]]}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x1x30xf32>, tensor<1x1x3xf32>) -> tensor<1x1x28xf32>
        %d = stablehlo.reshape %c : (tensor<1x1x28xf32>) -> tensor<28xf32>
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %p = stablehlo.pad %d, %z, low = [1], high = [1], interior = [0] : (tensor<28xf32>, tensor<f32>) -> tensor<30xf32>
        %y = stablehlo.add %u, %p : tensor<30xf32>
        return %y : tensor<30xf32> }";
    // Numbers of few bits, which any order of sums adds up to the same.
    let text = check(source, &[30], 4);
    assert!(!text.contains("convolution") && !text.contains("reshape"), "{text}");
}

#[test]
fn transposes_that_undo_each_other_are_gone() {
    let source = "func.func @main(%x: tensor<3x4x5xf32>) -> tensor<3x4x5xf32> {
        %a = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<3x4x5xf32>) -> tensor<5x3x4xf32>
        %b = stablehlo.transpose %a, dims = [1, 2, 0] : (tensor<5x3x4xf32>) -> tensor<3x4x5xf32>
        %c = stablehlo.transpose %a, dims = [0, 2, 1] : (tensor<5x3x4xf32>) -> tensor<5x4x3xf32>
        %d = stablehlo.transpose %c, dims = [2, 1, 0] : (tensor<5x4x3xf32>) -> tensor<3x4x5xf32>
        %y = stablehlo.add %b, %d : tensor<3x4x5xf32>
        return %y : tensor<3x4x5xf32> }";
    let text = check(source, &[3, 4, 5], 1);
    assert!(!text.contains("transpose"), "{text}");
}
