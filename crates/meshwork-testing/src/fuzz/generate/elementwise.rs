//! Operations element by element, and values made of nothing.

use super::{MOST, Writer, bound_of};

impl Writer<'_> {
    pub(super) fn binary(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let y = self.some(&x.dims, x.elem);
        let (kinds, bound): (&[&str], _) = match x.elem {
            "i1" => (&["and", "or", "xor", "maximum"], 1.0),
            _ if x.is_float() => {
                (&["add", "subtract", "maximum", "minimum", "multiply"], (x.bound + y.bound).max(x.bound * y.bound))
            }
            _ => (&["add", "subtract", "multiply", "maximum", "minimum", "and", "xor"], bound_of(x.elem)),
        };
        let kind = *self.numbers.pick(kinds);
        if x.is_float() && bound > MOST {
            return;
        }
        self.push(x.dims, x.elem, bound, |r, ty| format!("{r} = stablehlo.{kind} {}, {} : {ty}", x.name, y.name));
    }

    pub(super) fn unary(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let kinds: &[&str] = match x.elem {
            "i1" => &["not"],
            "ui8" | "ui32" => &["not", "negate"],
            _ if x.is_float() => &["negate", "abs"],
            _ => &["not", "negate", "abs", "sign"],
        };
        let kind = *self.numbers.pick(kinds);
        self.push(x.dims, x.elem, x.bound, |r, ty| format!("{r} = stablehlo.{kind} {} : {ty}", x.name));
    }

    /// A comparison and a choice by it; a clamp between scalars.
    pub(super) fn select(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let y = self.some(&x.dims, x.elem);
        if x.elem != "i1" && self.numbers.one_in(3) {
            let (low, high) = if x.is_float() { ("-3.0", "4.0") } else { ("2", "9") };
            let (low, high) = (self.constant(x.elem, low), self.constant(x.elem, high));
            let (ty, elem) = (x.ty(), x.elem);
            self.push(x.dims, elem, x.bound.max(9.0), |r, _| {
                format!(
                    "{r} = stablehlo.clamp {low}, {}, {high} : (tensor<{elem}>, {ty}, tensor<{elem}>) -> {ty}",
                    x.name
                )
            });
            return;
        }
        let direction = *self.numbers.pick(&["LT", "GE", "EQ", "NE"]);
        let (ty, bound) = (x.ty(), x.bound.max(y.bound));
        self.push(x.dims.clone(), "i1", 1.0, |r, to| {
            format!("{r} = stablehlo.compare {direction}, {}, {} : ({ty}, {ty}) -> {to}", x.name, y.name)
        });
        let Some(mask) = self.values.last().filter(|v| v.elem == "i1" && v.dims == x.dims).cloned() else { return };
        self.push(x.dims, x.elem, bound, |r, ty| {
            format!("{r} = stablehlo.select {}, {}, {} : {}, {ty}", mask.name, x.name, y.name, mask.ty())
        });
    }

    pub(super) fn convert(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let to = self.elem();
        let exact = match (x.is_float(), to) {
            (true, "i32" | "i64" | "f32" | "f64") => true,
            (true, _) => false,
            (false, "f32" | "f64") => x.bound <= MOST,
            (false, _) => true,
        };
        if exact {
            let (from, bound) = (x.ty(), if x.is_float() || to.starts_with('f') { x.bound } else { bound_of(to) });
            self.push(x.dims, to, bound, |r, ty| format!("{r} = stablehlo.convert {} : ({from}) -> {ty}", x.name));
        }
    }

    /// An iota, a constant, or a scalar spread out.
    pub(super) fn source(&mut self) {
        let (dims, elem) = (self.dims(), self.elem());
        match self.numbers.below(3) {
            0 if !dims.is_empty() && elem != "i1" => {
                let dim = self.numbers.below(dims.len());
                self.push(dims, elem, bound_of(elem), |r, ty| format!("{r} = stablehlo.iota dim = {dim} : {ty}"));
            }
            1 => {
                if let Some(x) = self.pick(|v| v.rank() == 0) {
                    let from = x.ty();
                    self.push(dims, x.elem, x.bound, |r, ty| {
                        format!("{r} = stablehlo.broadcast_in_dim {}, dims = [] : ({from}) -> {ty}", x.name)
                    });
                }
            }
            _ => {
                let (scale, offset) = (self.numbers.between(1, 7), self.numbers.between(-3, 4));
                self.counting(dims, elem, scale, offset);
            }
        }
    }
}
