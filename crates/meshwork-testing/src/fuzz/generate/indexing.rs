//! Places known at run time: gather, scatter, dynamic slices and updates, with any dimension numbers.

use super::reductions::combine_body;
use super::{MOST, Val, Writer, bound_of, list};

/// Dimension numbers that gather and scatter share.
struct Places {
    /// Extents of the indices.
    indices: Vec<i64>,
    /// Batch extents of the result or updates.
    batch: Vec<i64>,
    vector_dim: usize,
    /// Which operand dimension each component of an index is for.
    map: Vec<usize>,
    /// Operand dimensions and the dimensions of the indices they go along with.
    batching: Vec<(usize, usize)>,
    /// Operand dimensions that the slices leave out.
    dropped: Vec<usize>,
    /// Extents of a slice in every operand dimension.
    sizes: Vec<i64>,
    /// Where the dimensions of slices stand among those of the result or updates.
    window: Vec<usize>,
    /// Extents of the result or updates.
    result: Vec<i64>,
}

impl Writer<'_> {
    fn places(&mut self, n: &[i64]) -> Places {
        let rank = n.len();
        let order = self.numbers.order(rank);
        let batched = usize::from(rank > 1 && self.numbers.one_in(4));
        let (batching, rest) = order.split_at(batched);
        let mut map: Vec<usize> = rest[..self.numbers.below(rest.len() + 1)].to_vec();
        let implicit = self.numbers.one_in(3);
        if implicit {
            map = vec![rest[0]];
        }
        // Batch extents, those of batching dimensions somewhere among them.
        let mut batch: Vec<(i64, Option<usize>)> =
            (0..self.numbers.below(3)).map(|_| (self.numbers.between(1, 5), None)).collect();
        for &d in batching {
            let at = self.numbers.below(batch.len() + 1);
            batch.insert(at, (n[d], Some(d)));
        }
        let vector_dim = if implicit { batch.len() } else { self.numbers.below(batch.len() + 1) };
        let mut indices: Vec<i64> = batch.iter().map(|b| b.0).collect();
        if !implicit {
            indices.insert(vector_dim, map.len() as i64);
        }
        let place = |i: usize| i + usize::from(!implicit && i >= vector_dim);
        let batching: Vec<(usize, usize)> =
            batch.iter().enumerate().filter_map(|(i, b)| Some((b.1?, place(i)))).collect();
        let is_batching = |d: usize| batching.iter().any(|b| b.0 == d);
        let mut sizes = vec![1; rank];
        for d in (0..rank).filter(|&d| !is_batching(d)) {
            sizes[d] = match self.numbers.below(4) {
                0 | 1 => n[d],
                2 => 1.min(n[d]),
                _ => self.numbers.between(1.min(n[d]), n[d]),
            };
        }
        let dropped: Vec<usize> =
            (0..rank).filter(|&d| sizes[d] == 1 && !is_batching(d) && !self.numbers.one_in(3)).collect();
        let kept: Vec<i64> = (0..rank).filter(|d| !dropped.contains(d) && !is_batching(*d)).map(|d| sizes[d]).collect();
        let mut window: Vec<usize> = self.numbers.order(batch.len() + kept.len())[..kept.len()].to_vec();
        window.sort_unstable();
        let batch: Vec<i64> = batch.iter().map(|b| b.0).collect();
        let (mut slices, mut batches) = (kept.iter(), batch.iter());
        let result = (0..batch.len() + kept.len())
            .filter_map(|i| if window.contains(&i) { slices.next() } else { batches.next() }.copied())
            .collect();
        Places { indices, batch, vector_dim, map, batching, dropped, sizes, window, result }
    }

    fn indices(&mut self, dims: &[i64]) -> Val {
        let elem = *self.numbers.pick(&["i32", "i32", "i32", "i64", "i8", "ui8", "ui32"]);
        self.some(dims, elem)
    }

    pub(super) fn gather(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0 && !v.is_empty()) else { return };
        let p = self.places(&x.dims);
        let at = self.indices(&p.indices);
        let mut numbers = vec![format!("offset_dims = [{}]", list(&p.window))];
        numbers.push(format!("collapsed_slice_dims = [{}]", list(&p.dropped)));
        let (operand, indices): (Vec<usize>, Vec<usize>) = p.batching.iter().copied().unzip();
        if !operand.is_empty() {
            numbers.push(format!("operand_batching_dims = [{}]", list(&operand)));
            numbers.push(format!("start_indices_batching_dims = [{}]", list(&indices)));
        }
        numbers.push(format!("start_index_map = [{}], index_vector_dim = {}", list(&p.map), p.vector_dim));
        let (numbers, sizes) = (numbers.join(", "), list(&p.sizes));
        let types = format!("({}, {})", x.ty(), at.ty());
        self.push(p.result, x.elem, x.bound, |r, to| {
            let attrs = format!("dimension_numbers = #stablehlo.gather<{numbers}>, slice_sizes = array<i64: {sizes}>");
            format!("{r} = \"stablehlo.gather\"({}, {}) <{{{attrs}}}> : {types} -> {to}", x.name, at.name)
        });
    }

    pub(super) fn scatter(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0 && !v.is_empty()) else { return };
        let p = self.places(&x.dims);
        let at = self.indices(&p.indices);
        if p.result.iter().product::<i64>() > super::MOST_ELEMENTS {
            return;
        }
        let updates = self.some(&p.result, x.elem);
        let kinds: &[&str] = match x.elem {
            "i1" => &["or", "and"],
            "ui8" | "ui32" => &["add", "maximum", ""],
            _ => &["add", "add", "maximum", "minimum", ""],
        };
        let kind = *self.numbers.pick(kinds);
        // In which order equal places are overwritten is open, but for slices that stand behind all batch dimensions
        // it is theirs under every order in use.
        if kind.is_empty() && p.window.iter().any(|&w| w < p.batch.len()) {
            return;
        }
        let count = p.batch.iter().product::<i64>().max(1) as f64;
        let bound = if x.is_float() { x.bound + count * updates.bound } else { bound_of(x.elem) };
        if x.is_float() && bound > MOST {
            return;
        }
        let (ty, elem) = (x.ty(), x.elem);
        let body = match kind {
            "" => format!(
                "({{\n^bb0(%p: tensor<{elem}>, %q: tensor<{elem}>):\n  stablehlo.return %q : tensor<{elem}>\n}})"
            ),
            kind => combine_body(kind, elem),
        };
        let mut numbers = vec![format!("update_window_dims = [{}]", list(&p.window))];
        numbers.push(format!("inserted_window_dims = [{}]", list(&p.dropped)));
        let (operand, indices): (Vec<usize>, Vec<usize>) = p.batching.iter().copied().unzip();
        if !operand.is_empty() {
            numbers.push(format!("input_batching_dims = [{}]", list(&operand)));
            numbers.push(format!("scatter_indices_batching_dims = [{}]", list(&indices)));
        }
        let map = list(&p.map);
        numbers.push(format!("scatter_dims_to_operand_dims = [{map}], index_vector_dim = {}", p.vector_dim));
        let (numbers, types) = (numbers.join(", "), format!("({ty}, {}, {})", at.ty(), updates.ty()));
        self.push(x.dims, elem, bound, |r, to| {
            let attrs = format!("scatter_dimension_numbers = #stablehlo.scatter<{numbers}>");
            let operands = format!("{}, {}, {}", x.name, at.name, updates.name);
            format!("{r} = \"stablehlo.scatter\"({operands}) <{{{attrs}}}> {body} : {types} -> {to}")
        });
    }

    fn starts(&mut self, rank: usize) -> (String, String) {
        let elem = *self.numbers.pick(&["i32", "i32", "i64", "ui32", "i8"]);
        let starts: Vec<String> = (0..rank).map(|_| self.some(&[], elem).name).collect();
        (starts.join(", "), vec![format!("tensor<{elem}>"); rank].join(", "))
    }

    pub(super) fn dynamic_slice(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0) else { return };
        let sizes: Vec<i64> =
            x.dims.iter().map(|&n| if self.numbers.one_in(2) { n } else { self.numbers.between(0, n) }).collect();
        let (starts, types) = self.starts(x.rank());
        let (ty, text) = (x.ty(), list(&sizes));
        self.push(sizes, x.elem, x.bound, |r, to| {
            format!("{r} = stablehlo.dynamic_slice {}, {starts}, sizes = [{text}] : ({ty}, {types}) -> {to}", x.name)
        });
    }

    pub(super) fn dynamic_update_slice(&mut self) {
        let Some(x) = self.pick(|v| v.rank() > 0) else { return };
        let sizes: Vec<i64> =
            x.dims.iter().map(|&n| if self.numbers.one_in(2) { n } else { self.numbers.between(0, n) }).collect();
        let update = self.some(&sizes, x.elem);
        let (starts, types) = self.starts(x.rank());
        let types = format!("({}, {}, {types})", x.ty(), update.ty());
        let bound = x.bound.max(update.bound);
        self.push(x.dims, x.elem, bound, |r, to| {
            format!("{r} = stablehlo.dynamic_update_slice {}, {}, {starts} : {types} -> {to}", x.name, update.name)
        });
    }
}
