//! Operations that combine elements: reductions, products, windows, sorts.

use super::{MOST, Val, Writer, bound_of, list};

/// A body that combines two scalars with `kind`.
pub(super) fn combine_body(kind: &str, elem: &str) -> String {
    format!(
        "({{\n^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):\n  %s = stablehlo.{kind} %p, %q : tensor<{elem}>\n  stablehlo.return %s : tensor<{elem}>\n}})"
    )
}

/// A comparison of floats `%p` and `%q` as `%c` that is an order: both zeros are equal, and what is no number comes last.
fn total_order(elem: &str, direction: &str) -> String {
    let t = format!("tensor<{elem}>");
    let none = if elem == "f32" { "0x7FC00000" } else { "0x7FF8000000000000" };
    let one = |x: &str| {
        format!(
            "  %key_{x}0 = stablehlo.constant dense<0.0> : {t}
  %key_{x}1 = stablehlo.compare EQ, %{x}, %key_{x}0, FLOAT : ({t}, {t}) -> tensor<i1>
  %key_{x}2 = stablehlo.select %key_{x}1, %key_{x}0, %{x} : tensor<i1>, {t}
  %key_{x}3 = stablehlo.compare NE, %{x}, %{x}, FLOAT : ({t}, {t}) -> tensor<i1>
  %key_{x}4 = stablehlo.constant dense<{none}> : {t}
  %key_{x}5 = stablehlo.select %key_{x}3, %key_{x}4, %key_{x}2 : tensor<i1>, {t}
"
        )
    };
    format!(
        "{}{}  %c = stablehlo.compare {direction}, %key_p5, %key_q5, TOTALORDER : ({t}, {t}) -> tensor<i1>",
        one("p"),
        one("q")
    )
}

impl Writer<'_> {
    /// A kind of reduction for elements like those of `x`, of which `count` meet; its start; and the bound of results.
    pub(super) fn combination(&mut self, x: &Val, count: i64) -> Option<(&'static str, String, f64)> {
        let kinds: &[(&str, &str)] = match x.elem {
            "i1" => &[("and", "true"), ("or", "false")],
            "ui8" | "ui32" => &[("add", "0"), ("maximum", "0"), ("multiply", "1")],
            _ if x.is_float() => &[("add", "0.0"), ("add", "2.0"), ("maximum", "-1000.0"), ("minimum", "1000.0")],
            _ => {
                &[("add", "0"), ("add", "3"), ("maximum", "-100"), ("minimum", "100"), ("multiply", "1"), ("xor", "0")]
            }
        };
        let &(kind, init) = self.numbers.pick(kinds);
        let bound = match kind {
            _ if !x.is_float() => bound_of(x.elem),
            "add" => x.bound * count.max(1) as f64 + 2.0,
            _ => x.bound.max(1000.0),
        };
        if x.is_float() && bound > MOST {
            return None;
        }
        let init = self.constant(x.elem, init);
        Some((kind, init, bound))
    }

    pub(super) fn reduce(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0) else { return };
        let rank = x.rank();
        let mut reduced: Vec<usize> = (0..rank).filter(|_| self.numbers.one_in(2)).collect();
        if reduced.is_empty() {
            reduced.push(self.numbers.below(rank));
        }
        let out: Vec<i64> = (0..rank).filter(|d| !reduced.contains(d)).map(|d| x.dims[d]).collect();
        let dims = list(&reduced);
        let (ty, elem) = (x.ty(), x.elem);
        if self.numbers.one_in(5) && elem == "i32" {
            self.arg_max(&x, out, &dims);
            return;
        }
        let count = reduced.iter().map(|&d| x.dims[d]).product();
        let Some((kind, init, bound)) = self.combination(&x, count) else { return };
        self.push(out, elem, bound, |r, to| {
            let op = format!("stablehlo.reduce({} init: {init}) applies stablehlo.{kind}", x.name);
            format!("{r} = {op} across dimensions = [{dims}] : ({ty}, tensor<{elem}>) -> {to}")
        });
    }

    /// The greatest element and the first place of it: a reduction with a body of its own.
    fn arg_max(&mut self, x: &Val, out: Vec<i64>, dims: &str) {
        let (least, far) = (self.constant("i32", "-100000"), self.constant("i32", "100000"));
        let place = self.fresh_name();
        let (ty, to) = (x.ty(), super::tensor(&out, "i32"));
        let d = dims.split(',').next().unwrap_or("0");
        self.body += &format!("{place} = stablehlo.iota dim = {d} : {ty}\n");
        let name = self.fresh_name();
        let scalar = "tensor<i32>";
        self.body += &format!(
            "{name}:2 = stablehlo.reduce({} init: {least}), ({place} init: {far}) across dimensions = [{dims}] : ({ty}, {ty}, {scalar}, {scalar}) -> ({to}, {to})
  reducer(%p: {scalar}, %q: {scalar}) (%i: {scalar}, %j: {scalar}) {{
  %more = stablehlo.compare GT, %p, %q : ({scalar}, {scalar}) -> tensor<i1>
  %same = stablehlo.compare EQ, %p, %q : ({scalar}, {scalar}) -> tensor<i1>
  %before = stablehlo.compare LT, %i, %j : ({scalar}, {scalar}) -> tensor<i1>
  %tie = stablehlo.and %same, %before : tensor<i1>
  %first = stablehlo.or %more, %tie : tensor<i1>
  %v = stablehlo.select %first, %p, %q : tensor<i1>, {scalar}
  %w = stablehlo.select %first, %i, %j : tensor<i1>, {scalar}
  stablehlo.return %v, %w : {scalar}, {scalar}
}}\n",
            x.name
        );
        for i in 0..2 {
            self.values.push(Val { name: format!("{name}#{i}"), dims: out.clone(), elem: "i32", bound: f64::INFINITY });
        }
    }

    pub(super) fn dot(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0 && v.elem != "i1") else { return };
        let rank = x.rank();
        let order = self.numbers.order(rank);
        let batch = self.numbers.below(2).min(rank - 1);
        let contracted = 1 + self.numbers.below(rank - batch);
        let (batching, rest) = order.split_at(batch);
        let (contracting, _) = rest.split_at(contracted.min(rest.len()));
        // The other operand has the same dimensions in another order, and one of its own.
        let mut dims: Vec<(i64, Option<usize>)> =
            batching.iter().chain(contracting).map(|&d| (x.dims[d], Some(d))).collect();
        if self.numbers.one_in(2) {
            let n = self.extent();
            dims.push((n, None));
        }
        let shuffled: Vec<(i64, Option<usize>)> = self.numbers.order(dims.len()).into_iter().map(|i| dims[i]).collect();
        let y = self.some(&shuffled.iter().map(|d| d.0).collect::<Vec<_>>(), x.elem);
        let of = |d: &usize| shuffled.iter().position(|s| s.1 == Some(*d)).unwrap_or(0);
        let (right_batch, right_contracting): (Vec<usize>, Vec<usize>) =
            (batching.iter().map(of).collect(), contracting.iter().map(of).collect());
        let mut out: Vec<i64> = batching.iter().map(|&d| x.dims[d]).collect();
        out.extend((0..rank).filter(|d| !batching.contains(d) && !contracting.contains(d)).map(|d| x.dims[d]));
        out.extend(shuffled.iter().filter(|s| s.1.is_none()).map(|s| s.0));
        let count = contracting.iter().map(|&d| x.dims[d]).product::<i64>().max(1);
        let bound = if x.is_float() { x.bound * y.bound * count as f64 } else { bound_of(x.elem) };
        if x.is_float() && bound > MOST {
            return;
        }
        let batched = format!("batching_dims = [{}] x [{}], ", list(batching), list(&right_batch));
        let batched = if batching.is_empty() { String::new() } else { batched };
        let contracted = format!("contracting_dims = [{}] x [{}]", list(contracting), list(&right_contracting));
        self.push(out, x.elem, bound, |r, to| {
            let types = format!("({}, {}) -> {to}", x.ty(), y.ty());
            format!("{r} = stablehlo.dot_general {}, {}, {batched}{contracted} : {types}", x.name, y.name)
        });
    }

    /// A sum or maximum over windows, running ones included.
    pub(super) fn window(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0 && !v.is_empty() && v.elem != "i1") else { return };
        let rank = x.rank();
        let d = self.numbers.below(rank);
        let (mut window, mut stride, mut padding) = (vec![1; rank], vec![1; rank], vec![(0, 0); rank]);
        let (mut base, mut dilation) = (vec![1; rank], vec![1; rank]);
        let mut out = x.dims.clone();
        if self.numbers.one_in(3) {
            window[d] = x.dims[d];
            padding[d] = if self.numbers.one_in(2) { (x.dims[d] - 1, 0) } else { (0, x.dims[d] - 1) };
        } else {
            for d in 0..rank {
                if self.numbers.one_in(2) {
                    window[d] = self.numbers.between(1, 4);
                    stride[d] = self.numbers.between(1, 3);
                    padding[d] = (self.numbers.between(0, 2), self.numbers.between(0, 2));
                    base[d] = *self.numbers.pick(&[1, 1, 1, 2]);
                    dilation[d] = *self.numbers.pick(&[1, 1, 1, 2]);
                }
                let line = (x.dims[d] - 1) * base[d] + 1 + padding[d].0 + padding[d].1;
                let reach = (window[d] - 1) * dilation[d] + 1;
                if line < reach {
                    return;
                }
                out[d] = (line - reach) / stride[d] + 1;
            }
        }
        let Some((kind, init, bound)) = self.combination(&x, window.iter().product()) else { return };
        let (ty, elem) = (x.ty(), x.elem);
        let padding = list(&padding.iter().map(|(l, h)| format!("[{l}, {h}]")).collect::<Vec<_>>());
        let attrs = format!(
            "window_dimensions = array<i64: {}>, window_strides = array<i64: {}>, base_dilations = array<i64: {}>, window_dilations = array<i64: {}>, padding = dense<[{padding}]> : tensor<{rank}x2xi64>",
            list(&window),
            list(&stride),
            list(&base),
            list(&dilation)
        );
        let body = combine_body(kind, elem);
        self.push(out, elem, bound, |r, to| {
            let types = format!("({ty}, tensor<{elem}>) -> {to}");
            format!("{r} = \"stablehlo.reduce_window\"({}, {init}) <{{{attrs}}}> {body} : {types}", x.name)
        });
    }

    /// A stable sort of one value, with another carried along.
    pub(super) fn sort(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0 && v.elem != "i1") else { return };
        let d = self.numbers.below(x.rank());
        let (ty, elem) = (x.ty(), x.elem);
        let place = self.fresh_name();
        self.body += &format!("{place} = stablehlo.iota dim = {d} : {}\n", super::tensor(&x.dims, "i32"));
        let name = self.fresh_name();
        let (direction, places) = (*self.numbers.pick(&["LT", "GT"]), super::tensor(&x.dims, "i32"));
        let compare = match elem {
            "f32" | "f64" if self.numbers.one_in(2) => total_order(elem, direction),
            _ => {
                format!("  %c = stablehlo.compare {direction}, %p, %q : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>")
            }
        };
        self.body += &format!(
            "{name}:2 = \"stablehlo.sort\"({}, {place}) <{{dimension = {d} : i64, is_stable = true}}> ({{
^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>, %i: tensor<i32>, %j: tensor<i32>):
{compare}
  stablehlo.return %c : tensor<i1>
}}) : ({ty}, {places}) -> ({ty}, {places})\n",
            x.name
        );
        self.values.push(Val { name: format!("{name}#0"), ..x.clone() });
        self.values.push(Val { name: format!("{name}#1"), dims: x.dims, elem: "i32", bound: f64::INFINITY });
    }
}
