//! Convolution: a window of the left operand times the right one, at every position.
//!
//! Window elements in the padding, or between the elements of a dilated input, contribute nothing.

use super::fault::Fault;
use super::index::{each_index, position};
use super::nums::SumOfProducts;
use meshwork_ir::attr::ConvDims;
use meshwork_ir::{ElementType, Literal};

/// Everything about a convolution but its operands.
#[derive(Clone, Debug)]
pub(crate) struct Conv {
    pub dims: ConvDims,
    pub strides: Vec<i64>,
    pub padding: Vec<(i64, i64)>,
    pub lhs_dilation: Vec<i64>,
    pub rhs_dilation: Vec<i64>,
    pub reversal: Vec<bool>,
    pub feature_groups: i64,
    pub batch_groups: i64,
}

impl Conv {
    /// Extents of the result.
    pub(crate) fn result_dims(&self, lhs: &[i64], rhs: &[i64]) -> Vec<i64> {
        let d = &self.dims;
        let mut out = vec![0; lhs.len()];
        out[d.output_batch as usize] = lhs[d.input_batch as usize] / self.batch_groups.max(1);
        out[d.output_feature as usize] = rhs[d.kernel_output_feature as usize];
        for s in 0..d.output_spatial.len() {
            let dilated = |n: i64, by: i64| if n == 0 { 0 } else { (n - 1) * by + 1 };
            let input = dilated(lhs[d.input_spatial[s] as usize], self.lhs_dilation[s]);
            let padded = self.padding[s].0 + input + self.padding[s].1;
            let window = dilated(rhs[d.kernel_spatial[s] as usize], self.rhs_dilation[s]);
            out[d.output_spatial[s] as usize] =
                if window > padded || padded <= 0 { 0 } else { (padded - window) / self.strides[s] + 1 };
        }
        out
    }
}

/// `stablehlo.convolution`.
pub(crate) fn convolution(lhs: &Literal, rhs: &Literal, conv: &Conv, elem: ElementType) -> Result<Literal, Fault> {
    let shape = conv.result_dims(lhs.dims(), rhs.dims());
    Taps { conv, lhs: lhs.dims(), rhs: rhs.dims(), out: &shape }.evaluate(lhs, rhs, &shape, elem)
}

/// Which products make up each element of the result.
struct Taps<'a> {
    conv: &'a Conv,
    lhs: &'a [i64],
    rhs: &'a [i64],
    out: &'a [i64],
}

impl Taps<'_> {
    /// The indices in input and kernel that the window element `window` at the result's `index` multiplies, for the
    /// first feature; `None` in the padding and between the elements of a dilated input.
    fn at(&self, index: &[i64], window: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
        let (c, d) = (self.conv, &self.conv.dims);
        let (mut input, mut kernel) = (vec![0; self.lhs.len()], vec![0; self.rhs.len()]);
        for (s, &w) in window.iter().enumerate() {
            let (i, k) = (d.input_spatial[s] as usize, d.kernel_spatial[s] as usize);
            let dilated = index[d.output_spatial[s] as usize] * c.strides[s] + w * c.rhs_dilation[s] - c.padding[s].0;
            input[i] = dilated / c.lhs_dilation[s];
            kernel[k] = if c.reversal[s] { self.rhs[k] - 1 - w } else { w };
            if dilated < 0 || dilated % c.lhs_dilation[s] != 0 || input[i] >= self.lhs[i] {
                return None;
            }
        }
        let (batch, feature) = (index[d.output_batch as usize], index[d.output_feature as usize]);
        let features = self.out[d.output_feature as usize];
        let group = |groups: i64| feature / (features / groups.max(1)).max(1);
        let batch_group = if c.batch_groups > 1 { group(c.batch_groups) } else { 0 };
        input[d.input_batch as usize] = batch + self.out[d.output_batch as usize] * batch_group;
        input[d.input_feature as usize] = group(c.feature_groups) * self.rhs[d.kernel_input_feature as usize];
        kernel[d.kernel_output_feature as usize] = feature;
        Some((input, kernel))
    }
}

impl SumOfProducts for Taps<'_> {
    fn sums<T: Copy>(&self, lhs: &[T], rhs: &[T], zero: T, add: impl Fn(T, T, T) -> T) -> Vec<T> {
        let d = &self.conv.dims;
        let window: Vec<i64> = d.kernel_spatial.iter().map(|&k| self.rhs[k as usize]).collect();
        let mut out = vec![];
        let visit = |_: usize, index: &[i64]| {
            let mut sum = zero;
            each_index(&window, |_, window| {
                let Some((mut input, mut kernel)) = self.at(index, window) else { return Ok(()) };
                for _ in 0..self.rhs[d.kernel_input_feature as usize] {
                    sum = add(sum, lhs[position(self.lhs, &input)], rhs[position(self.rhs, &kernel)]);
                    input[d.input_feature as usize] += 1;
                    kernel[d.kernel_input_feature as usize] += 1;
                }
                Ok(())
            })?;
            out.push(sum);
            Ok(())
        };
        // The visit never fails.
        let _ = each_index(self.out, visit);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::i64s;

    /// One spatial dimension: input `[b, f, 0]`, kernel `[o, i, 0]`, result `[b, f, 0]`.
    fn plain() -> Conv {
        Conv {
            dims: ConvDims {
                input_batch: 0,
                input_feature: 1,
                input_spatial: vec![2],
                kernel_output_feature: 0,
                kernel_input_feature: 1,
                kernel_spatial: vec![2],
                output_batch: 0,
                output_feature: 1,
                output_spatial: vec![2],
            },
            strides: vec![1],
            padding: vec![(0, 0)],
            lhs_dilation: vec![1],
            rhs_dilation: vec![1],
            reversal: vec![false],
            feature_groups: 1,
            batch_groups: 1,
        }
    }

    fn run(lhs: &Literal, rhs: &Literal, conv: &Conv) -> Literal {
        convolution(lhs, rhs, conv, ElementType::I64).unwrap()
    }

    #[test]
    fn padding_stride_dilation_reversal() {
        let x = i64s(&[1, 1, 5], &[1, 2, 3, 4, 5]);
        let k = i64s(&[1, 1, 2], &[1, 10]);
        assert_eq!(run(&x, &k, &plain()), i64s(&[1, 1, 4], &[21, 32, 43, 54]));
        let padded = Conv { padding: vec![(1, 1)], strides: vec![2], ..plain() };
        assert_eq!(run(&x, &k, &padded), i64s(&[1, 1, 3], &[10, 32, 54]));
        let cut = Conv { padding: vec![(-1, -1)], ..plain() };
        assert_eq!(run(&x, &k, &cut), i64s(&[1, 1, 2], &[32, 43]));
        let wide = Conv { rhs_dilation: vec![3], ..plain() };
        assert_eq!(run(&x, &k, &wide), i64s(&[1, 1, 2], &[41, 52]));
        let sparse = Conv { lhs_dilation: vec![2], reversal: vec![true], ..plain() };
        assert_eq!(run(&x, &k, &sparse), i64s(&[1, 1, 8], &[10, 2, 20, 3, 30, 4, 40, 5]));
    }

    #[test]
    fn feature_and_batch_groups() {
        let x = i64s(&[1, 2, 2], &[1, 2, 3, 4]);
        let k = i64s(&[2, 1, 1], &[10, 100]);
        let groups = Conv { feature_groups: 2, ..plain() };
        assert_eq!(run(&x, &k, &groups), i64s(&[1, 2, 2], &[10, 20, 300, 400]));
        let x = i64s(&[2, 1, 2], &[1, 2, 3, 4]);
        let batches = Conv { batch_groups: 2, ..plain() };
        assert_eq!(run(&x, &k, &batches), i64s(&[1, 2, 2], &[10, 20, 300, 400]));
    }

    #[test]
    fn empty_and_too_small_inputs() {
        let k = i64s(&[1, 1, 2], &[1, 10]);
        assert_eq!(run(&i64s(&[1, 1, 1], &[1]), &k, &plain()).dims(), [1, 1, 0]);
        assert_eq!(run(&i64s(&[0, 1, 3], &[]), &k, &plain()).dims(), [0, 1, 2]);
        let no_features = run(&i64s(&[1, 0, 3], &[]), &i64s(&[1, 0, 2], &[]), &plain());
        assert_eq!(no_features, i64s(&[1, 1, 2], &[0, 0]));
    }
}
