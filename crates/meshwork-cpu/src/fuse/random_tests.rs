//! Random programs of everything that fuses, against the evaluator.

use crate::compile::testing::check;

/// A small generator of numbers, always the same.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((self.0 >> 33) as usize) % n
    }
}

/// Values of a program so far: name, extents.
struct Writer {
    dice: Dice,
    elem: &'static str,
    values: Vec<(String, Vec<i64>)>,
    text: String,
}

fn ty(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

fn list(values: impl IntoIterator<Item = i64>) -> String {
    values.into_iter().map(|v| v.to_string()).collect::<Vec<_>>().join(", ")
}

impl Writer {
    fn is_complex(&self) -> bool {
        self.elem.starts_with("complex")
    }

    fn any(&mut self) -> (String, Vec<i64>) {
        // Recent values more often, so that chains are long.
        let n = self.values.len();
        let back = self.dice.roll(n.min(5)).min(n - 1);
        let i = if self.dice.roll(3) == 0 { self.dice.roll(n) } else { n - 1 - back };
        self.values[i].clone()
    }

    fn like(&mut self, dims: &[i64]) -> String {
        let fitting: Vec<String> = self.values.iter().filter(|v| v.1 == dims).map(|v| v.0.clone()).collect();
        fitting[self.dice.roll(fitting.len())].clone()
    }

    fn add(&mut self, dims: Vec<i64>, line: impl Fn(&str) -> String) {
        let name = format!("%v{}", self.values.len());
        self.text += &format!("  {}\n", line(&name));
        self.values.push((name, dims));
    }

    fn op(&mut self) {
        let (x, dims) = self.any();
        let e = self.elem;
        let t = ty(&dims, e);
        let d = if dims.is_empty() { 0 } else { self.dice.roll(dims.len()) };
        match self.dice.roll(if dims.is_empty() { 2 } else { 12 }) {
            0 | 1 => {
                let y = self.like(&dims);
                // Complex numbers have no order.
                let functions = ["add", "subtract", "multiply", "maximum", "minimum"];
                let f = functions[self.dice.roll(if self.is_complex() { 3 } else { 5 })];
                self.add(dims, |n| format!("{n} = stablehlo.{f} {x}, {y} : {t}"));
            }
            2 => {
                let (y, z) = (self.like(&dims), self.like(&dims));
                let p = ty(&dims, "i1");
                let f = if self.is_complex() {
                    ["EQ", "NE"][self.dice.roll(2)]
                } else {
                    ["LT", "GE", "EQ"][self.dice.roll(3)]
                };
                self.text +=
                    &format!("  %p{} = stablehlo.compare {f}, {x}, {y} : ({t}, {t}) -> {p}\n", self.values.len());
                self.add(dims, |n| format!("{n} = stablehlo.select %p{}, {z}, {x} : {p}, {t}", &n[2..]));
            }
            3 | 4 => {
                let mut to = dims.clone();
                let (start, step) = (self.dice.roll(2) as i64, 1 + self.dice.roll(2) as i64);
                if dims[d] <= start + 1 {
                    return;
                }
                let limit = dims[d] - self.dice.roll(2) as i64;
                if limit <= start {
                    return;
                }
                to[d] = (limit - start + step - 1) / step;
                let ranges: Vec<String> = (0..dims.len())
                    .map(|i| if i == d { format!("{start}:{limit}:{step}") } else { format!("0:{}", dims[i]) })
                    .collect();
                let u = ty(&to, e);
                self.add(to, |n| format!("{n} = stablehlo.slice {x} [{}] : ({t}) -> {u}", ranges.join(", ")));
            }
            5 | 6 => {
                let (low, high) = (self.dice.roll(3) as i64 - 1, self.dice.roll(3) as i64 - 1);
                let mut to = dims.clone();
                to[d] += low + high;
                if to[d] <= 0 {
                    return;
                }
                let at = |v: i64| list((0..dims.len()).map(|i| if i == d { v } else { 0 }));
                let (l, h, i, u) = (at(low), at(high), at(0), ty(&to, e));
                self.add(to, |n| {
                    format!("{n} = stablehlo.pad {x}, %k, low = [{l}], high = [{h}], interior = [{i}] : ({t}, tensor<{e}>) -> {u}")
                });
            }
            7 => {
                let y = self.like(&dims);
                let mut to = dims.clone();
                to[d] *= 2;
                if to[d] > 40 {
                    return;
                }
                let u = ty(&to, e);
                self.add(to, |n| format!("{n} = stablehlo.concatenate {x}, {y}, dim = {d} : ({t}, {t}) -> {u}"));
            }
            8 => self.add(dims, |n| format!("{n} = stablehlo.reverse {x}, dims = [{d}] : {t}")),
            9 if dims.len() == 2 => {
                let to = vec![dims[1], dims[0]];
                let u = ty(&to, e);
                self.add(to, |n| format!("{n} = stablehlo.transpose {x}, dims = [1, 0] : ({t}) -> {u}"));
            }
            10 => {
                let mut to = dims.clone();
                to.remove(d);
                let u = ty(&to, e);
                self.add(to, |n| {
                    format!("{n} = stablehlo.reduce({x} init: %k) applies stablehlo.add across dimensions = [{d}] : ({t}, tensor<{e}>) -> {u}")
                });
            }
            _ => {
                if dims.len() > 1 {
                    return;
                }
                let at = self.dice.roll(2);
                let to = if at == 0 { vec![dims[0], 5] } else { vec![5, dims[0]] };
                let u = ty(&to, e);
                self.add(to, |n| format!("{n} = stablehlo.broadcast_in_dim {x}, dims = [{at}] : ({t}) -> {u}"));
            }
        }
    }
}

fn program(seed: u64, elem: &'static str) -> String {
    let mut w = Writer { dice: Dice(seed), elem, values: vec![], text: String::new() };
    w.values.push(("%a".into(), vec![6, 9]));
    w.values.push(("%b".into(), vec![6, 9]));
    w.values.push(("%c".into(), vec![9]));
    for _ in 0..25 {
        w.op();
    }
    let mut results: Vec<(String, Vec<i64>)> = vec![];
    for _ in 0..3 {
        let v = w.any();
        results.push(v);
    }
    let one = if w.is_complex() { "(1.0, -0.5)" } else { "1" };
    let types = results.iter().map(|r| ty(&r.1, elem)).collect::<Vec<_>>().join(", ");
    let names = results.iter().map(|r| r.0.clone()).collect::<Vec<_>>().join(", ");
    format!(
        "func.func @main(%a: tensor<6x9x{elem}>, %b: tensor<6x9x{elem}>, %c: tensor<9x{elem}>) -> ({types}) {{
  %k = stablehlo.constant dense<{one}> : tensor<{elem}>
{}  return {names} : {types}
}}",
        w.text
    )
}

#[test]
fn random_programs_of_integers() {
    for seed in 0..150 {
        check(&program(seed, "i32"), 0.0);
    }
}

#[test]
fn random_programs_of_bytes() {
    for seed in 1000..1060 {
        check(&program(seed, "ui8"), 0.0);
    }
}

#[test]
fn random_programs_of_complex_numbers() {
    for seed in 2000..2100 {
        check(&program(seed, "complex<f64>"), 1e-9);
    }
}
