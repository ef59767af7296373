//! Factorizations and triangular systems whose results are whole numbers.

use super::{MOST, Val, Writer, tensor};

impl Writer<'_> {
    /// A system with ones on its diagonal and -1, 0 and 1 beside it, from either side.
    pub(super) fn triangular_solve(&mut self) {
        let fits = |v: &Val| matches!(v.elem, "f32" | "f64") && v.rank() >= 2 && !v.is_empty();
        let Some(b) = self.pick(fits) else { return };
        let (rank, left) = (b.rank(), self.numbers.one_in(2));
        let n = b.dims[if left { rank - 2 } else { rank - 1 }];
        // Each unknown is at most as large as the right-hand side and all unknowns before it.
        let bound = b.bound * f64::from(1 << (n - 1).min(30));
        if bound > MOST {
            return;
        }
        let dims = [&b.dims[..rank - 2], &[n, n]].concat();
        let Some(a) = self.signs(&dims, b.elem) else { return };
        let lower = self.numbers.one_in(2);
        let transpose = *self.numbers.pick(&["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"]);
        self.push(b.dims.clone(), b.elem, bound, |r, to| {
            let attrs = format!(
                "left_side = {left}, lower = {lower}, unit_diagonal = true, transpose_a = #stablehlo<transpose {transpose}>"
            );
            let types = format!("({}, {}) -> {to}", a.ty(), b.ty());
            format!("{r} = \"stablehlo.triangular_solve\"({}, {}) <{{{attrs}}}> : {types}", a.name, b.name)
        });
    }

    /// The factor of a triangle of -1, 0 and 1 with powers of 2 on its diagonal, times its transpose: that triangle.
    pub(super) fn cholesky(&mut self) {
        let (n, elem) = (self.extent(), *self.numbers.pick(&["f32", "f64"]));
        let dims = [n, n];
        let Some(a) = self.signs(&dims, elem) else { return };
        let (ty, places, mask) = (tensor(&dims, elem), tensor(&dims, "i32"), tensor(&dims, "i1"));
        let (lower, heavy) = (self.numbers.one_in(2), self.numbers.pick(&["1.0", "2.0", "4.0"]).to_string());
        let keep = if lower { "GE" } else { "LE" };
        let names: Vec<String> = (0..11).map(|_| self.fresh_name()).collect();
        let [row, column, below, middle, zero, diagonal, part, triangle, square, factor, kept] = &names[..] else {
            return;
        };
        self.body += &format!(
            "{row} = stablehlo.iota dim = 0 : {places}
{column} = stablehlo.iota dim = 1 : {places}
{below} = stablehlo.compare GT, {row}, {column} : ({places}, {places}) -> {mask}
{middle} = stablehlo.compare EQ, {row}, {column} : ({places}, {places}) -> {mask}
{kept} = stablehlo.compare {keep}, {row}, {column} : ({places}, {places}) -> {mask}
{zero} = stablehlo.constant dense<0.0> : {ty}
{diagonal} = stablehlo.constant dense<{heavy}> : {ty}
{part} = stablehlo.select {below}, {}, {zero} : {mask}, {ty}
{triangle} = stablehlo.select {middle}, {diagonal}, {part} : {mask}, {ty}
{square} = stablehlo.dot_general {triangle}, {triangle}, contracting_dims = [1] x [1] : ({ty}, {ty}) -> {ty}
{factor} = stablehlo.cholesky {square}, lower = {lower} : {ty}\n",
            a.name
        );
        // The other triangle is not specified.
        self.push(dims.to_vec(), elem, 4.0, |r, to| {
            format!("{r} = stablehlo.select {kept}, {factor}, {zero} : {mask}, {to}")
        });
    }

    /// -1, 0 and 1: what is left of some value when it is divided by 2.
    fn signs(&mut self, dims: &[i64], elem: &'static str) -> Option<Val> {
        let (x, two) = (self.some(dims, elem), self.fresh_name());
        let ty = x.ty();
        self.body += &format!("{two} = stablehlo.constant dense<2.0> : {ty}\n");
        let before = self.values.len();
        self.push(dims.to_vec(), elem, 1.0, |r, to| format!("{r} = stablehlo.remainder {}, {two} : {to}", x.name));
        self.values.get(before).cloned()
    }
}
