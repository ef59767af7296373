//! Convolution: a window of the left operand times the right one, at every position.
//!
//! For each result position the window's tap positions in the input are worked out per spatial dimension; taps in
//! the padding, or between the elements of a dilated input, contribute nothing.

use super::fault::Fault;
use super::index::{View, Walk, extents, strides};
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
    let taps = Taps::new(lhs.dims(), rhs.dims(), &shape, conv);
    taps.evaluate(lhs, rhs, &shape, elem)
}

/// Offsets that say which products make up each element of the result.
struct Taps {
    /// Per spatial dimension and result position: (offset in the input, offset in the kernel) of each tap inside.
    spatial: Vec<Vec<Vec<(usize, usize)>>>,
    out_spatial: Vec<usize>,
    out_batch: usize,
    out_features: usize,
    /// Input features each result feature sums over, their strides in both operands.
    group_features: usize,
    in_feature_stride: usize,
    kernel_in_stride: usize,
    kernel_out_stride: usize,
    in_batch_stride: usize,
    feature_groups: usize,
    batch_groups: usize,
    /// Result strides: batch, feature, spatial.
    out_view: View,
    len: usize,
}

impl Taps {
    fn new(lhs: &[i64], rhs: &[i64], out: &[i64], conv: &Conv) -> Taps {
        let d = &conv.dims;
        let (ls, rs, os) = (strides(lhs), strides(rhs), strides(out));
        let mut spatial = vec![];
        for s in 0..d.input_spatial.len() {
            let (i, k, o) = (d.input_spatial[s] as usize, d.kernel_spatial[s] as usize, d.output_spatial[s] as usize);
            let mut positions = Vec::with_capacity(out[o] as usize);
            for at in 0..out[o] {
                let mut taps = vec![];
                for w in 0..rhs[k] {
                    let dilated = at * conv.strides[s] + w * conv.rhs_dilation[s] - conv.padding[s].0;
                    if dilated < 0 || dilated % conv.lhs_dilation[s] != 0 {
                        continue;
                    }
                    let input = dilated / conv.lhs_dilation[s];
                    if input < lhs[i] {
                        let tap = if conv.reversal[s] { rhs[k] - 1 - w } else { w };
                        taps.push((input as usize * ls[i] as usize, tap as usize * rs[k] as usize));
                    }
                }
                positions.push(taps);
            }
            spatial.push(positions);
        }
        let order = [d.output_batch, d.output_feature].into_iter().chain(d.output_spatial.iter().copied());
        Taps {
            spatial,
            out_spatial: d.output_spatial.iter().map(|&o| out[o as usize] as usize).collect(),
            out_batch: out[d.output_batch as usize] as usize,
            out_features: out[d.output_feature as usize] as usize,
            group_features: rhs[d.kernel_input_feature as usize] as usize,
            in_feature_stride: ls[d.input_feature as usize] as usize,
            kernel_in_stride: rs[d.kernel_input_feature as usize] as usize,
            kernel_out_stride: rs[d.kernel_output_feature as usize] as usize,
            in_batch_stride: ls[d.input_batch as usize] as usize,
            feature_groups: conv.feature_groups.max(1) as usize,
            batch_groups: conv.batch_groups.max(1) as usize,
            out_view: View { offset: 0, strides: order.map(|o| os[o as usize]).collect() },
            len: extents(out).iter().product(),
        }
    }
}

impl SumOfProducts for Taps {
    fn sums<T: Copy>(&self, lhs: &[T], rhs: &[T], zero: T, add: impl Fn(T, T, T) -> T) -> Vec<T> {
        let mut out = vec![zero; self.len];
        if out.is_empty() {
            return out;
        }
        let spatial_view = View { offset: 0, strides: self.out_view.strides[2..].to_vec() };
        let per_feature_group = self.out_features / self.feature_groups;
        let per_batch_group = self.out_features / self.batch_groups;
        let mut walk = Walk::new(&self.out_spatial, [&spatial_view]);
        let mut taps: Vec<(usize, usize)> = vec![];
        let mut next: Vec<(usize, usize)> = vec![];
        while let Some([spatial_at]) = walk.next() {
            // All taps of this position, as the product of those per dimension.
            taps.clear();
            taps.push((0, 0));
            for (positions, &at) in self.spatial.iter().zip(walk.index()) {
                next.clear();
                for &(i, k) in &taps {
                    next.extend(positions[at].iter().map(|&(di, dk)| (i + di, k + dk)));
                }
                std::mem::swap(&mut taps, &mut next);
            }
            for batch in 0..self.out_batch {
                for feature in 0..self.out_features {
                    let group = feature / per_feature_group.max(1);
                    let in_batch = batch
                        + self.out_batch * (feature / per_batch_group.max(1)) * usize::from(self.batch_groups > 1);
                    let in_at = in_batch * self.in_batch_stride + group * self.group_features * self.in_feature_stride;
                    let kernel_at = feature * self.kernel_out_stride;
                    let mut sum = zero;
                    for &(di, dk) in &taps {
                        let (mut i, mut k) = (in_at + di, kernel_at + dk);
                        for _ in 0..self.group_features {
                            sum = add(sum, lhs[i], rhs[k]);
                            i += self.in_feature_stride;
                            k += self.kernel_in_stride;
                        }
                    }
                    let at = spatial_at
                        + batch as isize * self.out_view.strides[0]
                        + feature as isize * self.out_view.strides[1];
                    out[at as usize] = sum;
                }
            }
        }
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
