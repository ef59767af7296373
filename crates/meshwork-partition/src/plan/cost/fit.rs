//! Fitting the figures of a model to measurements: least squares on relative errors, within bounds.
//!
//! Figures are positive and fitted by their logarithms, by Levenberg and Marquardt's method with differences for
//! derivatives. A measurement that is far off counts less than its square.

/// A figure to fit.
#[derive(Clone, PartialEq, Debug)]
pub struct Parameter {
    /// What it is.
    pub name: String,
    /// Where to start.
    pub value: f64,
    /// The least that it can be.
    pub low: f64,
    /// The most.
    pub high: f64,
}

impl Parameter {
    /// Whether it was stopped by one of its bounds: then the measurements do not determine it.
    pub fn is_at_bound(&self) -> bool {
        let near = |bound: f64| (self.value / bound).ln().abs() < 1e-3;
        near(self.low) || near(self.high)
    }
}

/// Errors of predictions, as shares of what was measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Errors {
    /// Half of the predictions are closer.
    pub median: f64,
    /// Nine of ten are closer.
    pub percentile_90: f64,
    /// How many there are.
    pub count: usize,
}

impl Errors {
    /// Those of pairs of a prediction and a measurement.
    pub fn of(pairs: impl IntoIterator<Item = (f64, f64)>) -> Errors {
        let mut all: Vec<f64> = pairs.into_iter().map(|(p, m)| (p / m - 1.0).abs()).collect();
        meshwork_mesh::sort_by(&mut all, f64::total_cmp);
        let at = |share: f64| all.get(((all.len() as f64 * share) as usize).min(all.len().saturating_sub(1)));
        Errors {
            median: at(0.5).copied().unwrap_or(0.0),
            percentile_90: at(0.9).copied().unwrap_or(0.0),
            count: all.len(),
        }
    }
}

/// Relative errors beyond this count linearly.
const FAR: f64 = 0.1;
const MOST_STEPS: usize = 200;
const MOST_LEAPS: usize = 4;

/// The values of `parameters` for which `predict` comes closest to `measured`.
///
/// ```
/// use meshwork_partition::plan::{Parameter, fit};
/// let parameter = |name: &str| Parameter { name: name.into(), value: 1.0, low: 1e-3, high: 1e3 };
/// // Seconds of three transfers over a link: latency and bytes over speed.
/// let bytes = [0.0, 10.0, 100.0];
/// let fitted = fit(&[parameter("latency"), parameter("speed")], &[2.0, 4.0, 22.0], |p| {
///     bytes.iter().map(|b| p[0] + b / p[1]).collect()
/// });
/// assert!((fitted[0].value - 2.0).abs() < 1e-3 && (fitted[1].value - 5.0).abs() < 1e-3);
/// ```
pub fn fit(parameters: &[Parameter], measured: &[f64], mut predict: impl FnMut(&[f64]) -> Vec<f64>) -> Vec<Parameter> {
    let mut errors = |x: &[f64]| -> Vec<f64> {
        let predicted = predict(&x.iter().map(|x| x.exp()).collect::<Vec<_>>());
        predicted.iter().zip(measured).map(|(p, m)| (p / m).max(1e-9).ln()).collect()
    };
    let start = parameters.iter().map(|p| within(p.value.ln(), p)).collect();
    let mut x = descend(parameters, start, &mut errors);
    for _ in 0..MOST_LEAPS {
        match leap(parameters, &x, &mut errors) {
            Some(better) => x = descend(parameters, better, &mut errors),
            None => break,
        }
    }
    parameters.iter().zip(&x).map(|(p, x)| Parameter { value: x.exp(), ..p.clone() }).collect()
}

/// The logarithm `x` of a figure within its bounds.
fn within(x: f64, parameter: &Parameter) -> f64 {
    x.clamp(parameter.low.ln(), parameter.high.ln())
}

/// Changes one figure after the other by large factors. Where an operation takes the longer of two times, the other time has no
/// slope: from there only a leap leads back. `None` if nothing is gained.
fn leap(parameters: &[Parameter], x: &[f64], errors: &mut impl FnMut(&[f64]) -> Vec<f64>) -> Option<Vec<f64>> {
    let (mut x, mut least) = (x.to_vec(), cost(&errors(x)));
    let before = least;
    for (j, parameter) in parameters.iter().enumerate() {
        for factor in [0.1, 0.2, 0.4, 0.7, 1.5, 3.0, 10.0] {
            let mut moved = x.clone();
            moved[j] = within(x[j] + f64::ln(factor), parameter);
            let then = cost(&errors(&moved));
            if then < least {
                (x, least) = (moved, then);
            }
        }
    }
    (least < before * (1.0 - 1e-3)).then_some(x)
}

/// Goes down from `x` until nothing is gained.
fn descend(parameters: &[Parameter], mut x: Vec<f64>, errors: &mut impl FnMut(&[f64]) -> Vec<f64>) -> Vec<f64> {
    let mut now = errors(&x);
    let mut damping = 1e-2;
    for _ in 0..MOST_STEPS {
        let columns: Vec<Vec<f64>> = (0..x.len())
            .map(|j| {
                let step = if x[j] + 1e-4 > parameters[j].high.ln() { -1e-4 } else { 1e-4 };
                let mut moved = x.clone();
                moved[j] += step;
                errors(&moved).iter().zip(&now).map(|(a, b)| (a - b) / step).collect()
            })
            .collect();
        let weights: Vec<f64> = now.iter().map(|e| 1.0 / (1.0 + (e / FAR).powi(2)).sqrt()).collect();
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).zip(&weights).map(|((a, b), w)| a * b * w).sum::<f64>();
        let mut improved = false;
        for _ in 0..8 {
            let mut matrix: Vec<Vec<f64>> =
                columns.iter().map(|a| columns.iter().map(|b| dot(a, b)).collect()).collect();
            let slope: Vec<f64> = columns.iter().map(|a| -dot(a, &now)).collect();
            for (j, row) in matrix.iter_mut().enumerate() {
                row[j] = row[j] * (1.0 + damping) + 1e-9;
            }
            let step = solve(matrix, slope);
            let next: Vec<f64> =
                x.iter().zip(&step).zip(parameters).map(|((x, s), p)| within(x + s.clamp(-1.0, 1.0), p)).collect();
            let then = errors(&next);
            if cost(&then) < cost(&now) {
                improved = cost(&then) < cost(&now) * (1.0 - 1e-6);
                (x, now) = (next, then);
                damping = (damping * 0.3_f64).max(1e-9);
                break;
            }
            damping *= 4.0;
        }
        if !improved {
            break;
        }
    }
    x
}

/// The sum of squares, with those beyond [`FAR`] growing linearly.
fn cost(errors: &[f64]) -> f64 {
    errors.iter().map(|e| (1.0 + (e / FAR).powi(2)).sqrt() - 1.0).sum()
}

/// Solves a system with a positive definite matrix, by elimination with the largest pivots.
fn solve(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let n = right.len();
    for i in 0..n {
        let pivot = (i..n).max_by(|&a, &b| matrix[a][i].abs().total_cmp(&matrix[b][i].abs())).unwrap_or(i);
        matrix.swap(i, pivot);
        right.swap(i, pivot);
        if matrix[i][i] == 0.0 {
            continue;
        }
        for r in i + 1..n {
            let factor = matrix[r][i] / matrix[i][i];
            for c in i..n {
                matrix[r][c] -= factor * matrix[i][c];
            }
            right[r] -= factor * right[i];
        }
    }
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|c| matrix[i][c] * right[c]).sum();
        right[i] = if matrix[i][i] == 0.0 { 0.0 } else { (right[i] - known) / matrix[i][i] };
    }
    right
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outlier_moves_little_and_a_bound_is_seen() {
        let parameters = [
            Parameter { name: "rate".into(), value: 1.0, low: 0.01, high: 100.0 },
            Parameter { name: "start".into(), value: 1.0, low: 0.5, high: 10.0 },
        ];
        // Seven points on x / 4 + 0.1, and one that is off by a factor of ten.
        let xs = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
        let mut measured = xs.map(|x| x / 4.0 + 0.1);
        measured[6] *= 10.0;
        let fitted = fit(&parameters, &measured, |p| xs.iter().map(|x| x / p[0] + p[1]).collect());
        assert!((fitted[0].value / 4.0 - 1.0).abs() < 0.25, "{fitted:?}");
        assert!(fitted[1].is_at_bound() && !fitted[0].is_at_bound(), "{fitted:?}");
    }

    #[test]
    fn what_is_hidden_behind_something_longer_is_found() {
        let parameters = [
            Parameter { name: "memory".into(), value: 1.0, low: 1e-3, high: 1e3 },
            Parameter { name: "arithmetic".into(), value: 4.0, low: 1e-3, high: 1e3 },
        ];
        // Copies, and sums that take twice as long; at the start their arithmetic is hidden.
        let fitted = fit(&parameters, &[1.0, 2.0, 2.0, 4.0], |p| {
            vec![1.0 / p[0], 2.0 / p[0], (1.0 / p[0]).max(1.0 / p[1]), (2.0 / p[0]).max(2.0 / p[1])]
        });
        assert!((fitted[0].value - 1.0).abs() < 1e-2 && (fitted[1].value - 0.5).abs() < 1e-2, "{fitted:?}");
    }

    #[test]
    fn errors_are_ordered() {
        let errors = Errors::of((1..=10).map(|i| (1.0 + f64::from(i) / 10.0, 1.0)));
        assert_eq!(errors.count, 10);
        assert!((errors.median - 0.6).abs() < 1e-9 && (errors.percentile_90 - 1.0).abs() < 1e-9);
        assert_eq!(Errors::of([]).count, 0);
    }
}
