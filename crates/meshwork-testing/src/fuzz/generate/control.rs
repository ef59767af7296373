//! Loops, branches and calls.

use super::{Scope, Val, Writer};

/// Regions nest no deeper than this.
const MOST_DEPTH: usize = 2;

impl Writer<'_> {
    /// Writes a region: `inside` adds to an empty text that is returned; values of the region are forgotten.
    pub(super) fn region<T>(
        &mut self,
        scope: Scope,
        values: Vec<Val>,
        inside: impl FnOnce(&mut Self) -> T,
    ) -> (String, T) {
        let around = (std::mem::take(&mut self.body), std::mem::replace(&mut self.scope, scope));
        let known = std::mem::replace(&mut self.values, values);
        let out = inside(self);
        let text = std::mem::replace(&mut self.body, around.0);
        (self.scope, self.values) = (around.1, known);
        (text, out)
    }

    pub(super) fn deeper(&self) -> Scope {
        Scope { depth: self.scope.depth + 1, ..self.scope.clone() }
    }

    /// A value of the type of `like`, the latest if there are several.
    fn latest(&self, like: &Val) -> Val {
        let same = |v: &&Val| v.dims == like.dims && v.elem == like.elem;
        self.values.iter().rev().find(same).unwrap_or(like).clone()
    }

    /// A loop of a few rounds. It carries integers only: floats would outgrow their bounds.
    pub(super) fn loop_(&mut self) {
        if self.scope.depth >= MOST_DEPTH {
            return;
        }
        let mut carried = vec![];
        for _ in 0..1 + self.numbers.below(3) {
            carried.extend(self.pick(|v| !v.is_float()));
        }
        let (zero, trips) = (self.constant("i32", "0"), self.numbers.between(0, 3));
        let counter = self.fresh_name();
        let names: Vec<String> = carried.iter().map(|_| self.fresh_name()).collect();
        let inner: Vec<Val> = carried.iter().zip(&names).map(|(v, n)| Val { name: n.clone(), ..v.clone() }).collect();
        let mut values = self.values.clone();
        values.extend(inner.iter().cloned());
        values.push(Val { name: counter.clone(), dims: vec![], elem: "i32", bound: f64::INFINITY });
        let count = 1 + self.numbers.below(4);
        let (text, returned) = self.region(self.deeper(), values, |w| {
            w.steps(count);
            inner.iter().map(|v| w.latest(v)).collect::<Vec<Val>>()
        });
        let types: Vec<String> = carried.iter().map(Val::ty).collect();
        let types = [vec!["tensor<i32>".to_string()], types].concat().join(", ");
        let starts: Vec<String> =
            inner.iter().zip(&carried).map(|(a, b)| format!(", {} = {}", a.name, b.name)).collect();
        let back: Vec<String> = returned.iter().map(|v| format!(", {}", v.name)).collect();
        let name = self.fresh_name();
        self.body += &format!(
            "{name}:{} = stablehlo.while({counter} = {zero}{}) : {types}
cond {{
  %limit = stablehlo.constant dense<{trips}> : tensor<i32>
  %go = stablehlo.compare LT, {counter}, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %go : tensor<i1>
}} do {{
{text}  %one = stablehlo.constant dense<1> : tensor<i32>
  %next = stablehlo.add {counter}, %one : tensor<i32>
  stablehlo.return %next{} : {types}
}}\n",
            1 + carried.len(),
            starts.concat(),
            back.concat(),
        );
        for (i, v) in carried.into_iter().enumerate() {
            self.values.push(Val { name: format!("{name}#{}", i + 1), ..v });
        }
    }

    pub(super) fn branch(&mut self) {
        if self.scope.depth >= MOST_DEPTH {
            return;
        }
        let choice = self.some(&[], "i32");
        let Some(like) = self.pick(|_| true) else { return };
        let mut bodies = vec![];
        let mut bound = like.bound;
        for _ in 0..1 + self.numbers.below(3) {
            let count = self.numbers.below(4);
            // Devices that differ along manual axes may go different ways: they must not meet inside.
            let scope = Scope { diverges: true, ..self.deeper() };
            let (text, v) = self.region(scope, self.values.clone(), |w| {
                w.steps(count);
                w.latest(&like)
            });
            bound = bound.max(v.bound);
            bodies.push(format!("{{\n{text}  stablehlo.return {} : {}\n}}", v.name, v.ty()));
        }
        self.push(like.dims, like.elem, bound, |r, to| {
            format!("{r} = \"stablehlo.case\"({}) ({}) : (tensor<i32>) -> {to}", choice.name, bodies.join(", "))
        });
    }

    /// A function of its own, and one or two calls of it.
    pub(super) fn call(&mut self) {
        if self.scope.depth >= MOST_DEPTH || !self.scope.manual.is_empty() {
            return;
        }
        let mut given = vec![];
        for _ in 0..1 + self.numbers.below(2) {
            given.extend(self.pick(|_| true));
        }
        let params: Vec<Val> =
            given.iter().enumerate().map(|(i, v)| Val { name: format!("%p{i}"), ..v.clone() }).collect();
        let scope = Scope { sees_arguments: false, ..self.deeper() };
        let count = 1 + self.numbers.below(4);
        let (text, result) = self.region(scope, params.clone(), |w| {
            w.steps(count);
            w.values.last().cloned()
        });
        let Some(result) = result else { return };
        self.next += 1;
        let name = format!("@f{}", self.next);
        let list: Vec<String> = params.iter().map(|v| format!("{}: {}", v.name, v.ty())).collect();
        let (list, to) = (list.join(", "), result.ty());
        self.functions +=
            &format!("func.func private {name}({list}) -> {to} {{\n{text}return {} : {to}\n}}\n", result.name);
        let (names, types): (Vec<String>, Vec<String>) = given.iter().map(|v| (v.name.clone(), v.ty())).unzip();
        for _ in 0..1 + self.numbers.below(2) {
            self.push(result.dims.clone(), result.elem, result.bound, |r, to| {
                format!("{r} = call {name}({}) : ({}) -> {to}", names.join(", "), types.join(", "))
            });
        }
    }
}
