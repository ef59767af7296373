//! Batch normalization: inference, training, and its gradient.
//!
//! Everything is computed in `f64` per feature and rounded once.

use super::fault::Fault;
use super::nums::from_f64;
use meshwork_ir::Literal;

/// Which feature each element of a tensor belongs to.
struct Features {
    count: usize,
    inner: usize,
    /// Elements per feature.
    size: f64,
}

impl Features {
    fn new(x: &Literal, index: usize) -> Result<Features, Fault> {
        let Some(&n) = x.dims().get(index) else {
            return Err(Fault::invalid(format!("feature_index is {index} for a tensor of rank {}", x.dims().len())));
        };
        let inner = x.dims()[index + 1..].iter().product::<i64>() as usize;
        Ok(Features { count: n as usize, inner, size: if n == 0 { 0.0 } else { (x.len() / n as usize) as f64 } })
    }

    fn of(&self, i: usize) -> usize {
        i / self.inner % self.count
    }

    fn sums(&self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut out = vec![0.0; self.count];
        for (i, v) in values.enumerate() {
            out[self.of(i)] += v;
        }
        out
    }
}

/// `(x - mean) / sqrt(variance + epsilon) * scale + offset`; operands in the op's order.
pub(crate) fn inference(args: &[&Literal], epsilon: f64, index: usize) -> Result<Literal, Fault> {
    let &[x, scale, offset, mean, variance] = args else {
        return Err(Fault::invalid(format!("{} operands where 5 are needed", args.len())));
    };
    let f = Features::new(x, index)?;
    let [scale, offset, mean, variance] = [scale, offset, mean, variance].map(Literal::to_f64s);
    let normal = |(i, v): (usize, f64)| {
        let k = f.of(i);
        (v - mean[k]) / (variance[k] + epsilon).sqrt() * scale[k] + offset[k]
    };
    let out: Vec<f64> = x.to_f64s().into_iter().enumerate().map(normal).collect();
    from_f64(x.dims(), x.elem(), &out)
}

fn moments(x: &[f64], f: &Features) -> (Vec<f64>, Vec<f64>) {
    let mean: Vec<f64> = f.sums(x.iter().copied()).into_iter().map(|s| s / f.size).collect();
    let squares = f.sums(x.iter().enumerate().map(|(i, v)| (v - mean[f.of(i)]).powi(2)));
    (mean, squares.into_iter().map(|s| s / f.size).collect())
}

/// The normalized tensor, and mean and variance of each feature.
pub(crate) fn training(args: &[&Literal], epsilon: f64, index: usize) -> Result<Vec<Literal>, Fault> {
    let &[x, scale, offset] = args else {
        return Err(Fault::invalid(format!("{} operands where 3 are needed", args.len())));
    };
    let f = Features::new(x, index)?;
    let (mean, variance) = moments(&x.to_f64s(), &f);
    let stat = |v: &[f64]| from_f64(scale.dims(), x.elem(), v);
    let (mean, variance) = (stat(&mean)?, stat(&variance)?);
    let out = inference(&[x, scale, offset, &mean, &variance], epsilon, index)?;
    Ok(vec![out, mean, variance])
}

/// The gradients of operand, scale and offset, from operand, scale, mean, variance and the result's gradient.
pub(crate) fn gradient(args: &[&Literal], epsilon: f64, index: usize) -> Result<Vec<Literal>, Fault> {
    let &[x, scale, mean, variance, grad] = args else {
        return Err(Fault::invalid(format!("{} operands where 5 are needed", args.len())));
    };
    let f = Features::new(x, index)?;
    let [xs, scales, mean, variance, grads] = [x, scale, mean, variance, grad].map(Literal::to_f64s);
    let deviation: Vec<f64> = variance.iter().map(|v| (v + epsilon).sqrt()).collect();
    let centered: Vec<f64> = xs.iter().enumerate().map(|(i, v)| v - mean[f.of(i)]).collect();
    let grad_sum = f.sums(grads.iter().copied());
    let product_sum = f.sums(grads.iter().zip(&centered).map(|(g, c)| g * c));
    let of_x: Vec<f64> = (0..xs.len())
        .map(|i| {
            let k = f.of(i);
            let inner = f.size * grads[i] - grad_sum[k] - product_sum[k] * centered[i] / (variance[k] + epsilon);
            scales[k] / deviation[k] / f.size * inner
        })
        .collect();
    let of_scale: Vec<f64> = product_sum.iter().zip(&deviation).map(|(p, d)| p / d).collect();
    Ok(vec![
        from_f64(x.dims(), x.elem(), &of_x)?,
        from_f64(scale.dims(), x.elem(), &of_scale)?,
        from_f64(scale.dims(), x.elem(), &grad_sum)?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::{f64s, to_f64s};

    #[test]
    fn training_normalizes_each_feature() {
        let x = f64s(&[2, 2], &[1.0, 10.0, 3.0, 30.0]);
        let out = training(&[&x, &f64s(&[2], &[1.0, 2.0]), &f64s(&[2], &[0.0, 1.0])], 0.0, 1).unwrap();
        assert_eq!(to_f64s(&out[0]), [-1.0, -1.0, 1.0, 3.0]);
        assert_eq!(to_f64s(&out[1]), [2.0, 20.0]);
        assert_eq!(to_f64s(&out[2]), [1.0, 100.0]);
    }

    #[test]
    fn gradient_agrees_with_differences() {
        let (scale, offset) = (f64s(&[1], &[1.5]), f64s(&[1], &[0.5]));
        let weights = [0.3, -1.0, 2.0];
        let loss = |x: &[f64]| {
            let out = training(&[&f64s(&[3, 1], x), &scale, &offset], 0.1, 1).unwrap();
            to_f64s(&out[0]).iter().zip(weights).map(|(a, b)| a * b).sum::<f64>()
        };
        let x = [0.5, 2.0, -1.0];
        let stats = training(&[&f64s(&[3, 1], &x), &scale, &offset], 0.1, 1).unwrap();
        let args = [&f64s(&[3, 1], &x), &scale, &stats[1], &stats[2], &f64s(&[3, 1], &weights)];
        let grads = to_f64s(&gradient(&args, 0.1, 1).unwrap()[0]);
        for i in 0..3 {
            let (mut up, mut down) = (x, x);
            up[i] += 1e-6;
            down[i] -= 1e-6;
            assert!(((loss(&up) - loss(&down)) / 2e-6 - grads[i]).abs() < 1e-6);
        }
    }
}
