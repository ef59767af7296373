//! Operations that move elements without computing.

use super::{Writer, list};

impl Writer<'_> {
    pub(super) fn movement(&mut self) {
        let Some(x) = self.pick(|_| true) else { return };
        let (rank, ty) = (x.rank(), x.ty());
        let d = self.numbers.below(rank);
        let mut out = x.dims.clone();
        match self.numbers.below(10) {
            0 if rank > 1 => {
                let order = self.numbers.order(rank);
                let out = order.iter().map(|&i| x.dims[i]).collect();
                let order = list(&order);
                self.push(out, x.elem, x.bound, |r, to| {
                    format!("{r} = stablehlo.transpose {}, dims = [{order}] : ({ty}) -> {to}", x.name)
                });
            }
            1 | 2 => {
                let out = self.regrouped(&x.dims);
                self.push(out, x.elem, x.bound, |r, to| format!("{r} = stablehlo.reshape {} : ({ty}) -> {to}", x.name));
            }
            3 if rank < 4 => {
                let at = self.numbers.below(rank + 1);
                let along: Vec<usize> = (0..rank).map(|i| i + usize::from(i >= at)).collect();
                out.insert(at, self.numbers.between(1, 6));
                for &i in &along {
                    if out[i] == 1 && self.numbers.one_in(2) {
                        out[i] = self.numbers.between(1, 5);
                    }
                }
                let along = list(&along);
                self.push(out, x.elem, x.bound, |r, to| {
                    format!("{r} = stablehlo.broadcast_in_dim {}, dims = [{along}] : ({ty}) -> {to}", x.name)
                });
            }
            4 | 5 if rank > 0 => {
                let mut ranges = vec![];
                for n in &mut out {
                    let start = self.numbers.between(0, *n);
                    let limit = self.numbers.between(start, *n);
                    let stride = *self.numbers.pick(&[1, 1, 1, 2, 3]);
                    if self.numbers.one_in(2) {
                        ranges.push(format!("0:{n}"));
                    } else {
                        ranges.push(format!("{start}:{limit}:{stride}"));
                        *n = (limit - start + stride - 1) / stride;
                    }
                }
                let ranges = ranges.join(", ");
                self.push(out, x.elem, x.bound, |r, to| {
                    format!("{r} = stablehlo.slice {} [{ranges}] : ({ty}) -> {to}", x.name)
                });
            }
            6 if rank > 0 => {
                let (mut low, mut high, mut interior) = (vec![0; rank], vec![0; rank], vec![0; rank]);
                (low[d], high[d]) = (self.numbers.between(-2, 3), self.numbers.between(-2, 3));
                interior[d] = i64::from(self.numbers.one_in(3));
                out[d] += low[d] + high[d] + interior[d] * (out[d] - 1).max(0);
                if out[d] < 0 {
                    return;
                }
                let fill = self.some(&[], x.elem);
                let (low, high, interior) = (list(&low), list(&high), list(&interior));
                let bound = x.bound.max(fill.bound);
                self.push(out, x.elem, bound, |r, to| {
                    let amounts = format!("low = [{low}], high = [{high}], interior = [{interior}]");
                    format!("{r} = stablehlo.pad {}, {}, {amounts} : ({ty}, {}) -> {to}", x.name, fill.name, fill.ty())
                });
            }
            7 | 8 if rank > 0 => {
                let mut pieces = vec![x.clone()];
                for _ in 0..1 + self.numbers.below(2) {
                    let fits = |v: &super::Val| {
                        v.elem == x.elem && v.rank() == rank && (0..rank).all(|i| i == d || v.dims[i] == x.dims[i])
                    };
                    pieces.extend(self.pick(fits));
                }
                out[d] = pieces.iter().map(|p| p.dims[d]).sum();
                let names: Vec<&str> = pieces.iter().map(|p| p.name.as_str()).collect();
                let types: Vec<String> = pieces.iter().map(super::Val::ty).collect();
                let (names, types) = (names.join(", "), types.join(", "));
                let bound = pieces.iter().map(|p| p.bound).fold(0.0, f64::max);
                self.push(out, x.elem, bound, |r, to| {
                    format!("{r} = stablehlo.concatenate {names}, dim = {d} : ({types}) -> {to}")
                });
            }
            9 if rank > 0 => {
                self.push(out, x.elem, x.bound, |r, ty| {
                    format!("{r} = stablehlo.reverse {}, dims = [{d}] : {ty}", x.name)
                });
            }
            _ => {}
        }
    }

    /// The extents of a reshape: neighbors joined, or one cut in two, or a one added or removed.
    fn regrouped(&mut self, dims: &[i64]) -> Vec<i64> {
        let mut out = dims.to_vec();
        for _ in 0..1 + self.numbers.below(3) {
            let d = self.numbers.below(out.len());
            match self.numbers.below(4) {
                0 if d + 1 < out.len() => {
                    let n = out.remove(d + 1);
                    out[d] *= n;
                }
                1 | 2 if !out.is_empty() && out[d] > 1 && out.len() < 5 => {
                    let n = out[d];
                    let parts: Vec<i64> = (2..n).filter(|p| n % p == 0).collect();
                    if !parts.is_empty() {
                        let p = *self.numbers.pick(&parts);
                        out[d] = p;
                        out.insert(d + 1, n / p);
                    }
                }
                3 if out.len() < 5 => out.insert(d, 1),
                _ => {}
            }
        }
        out
    }
}
