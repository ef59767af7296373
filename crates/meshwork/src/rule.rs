//! Placements of whole trees: one for all arrays, by path, or by a function.

use std::fmt;
use std::rc::Rc;

use crate::spec::P;

/// The placement of an array by its path and shape.
pub type Policy = dyn Fn(&str, &[i64]) -> Option<P>;

/// How the arrays of one argument or result are placed.
#[derive(Clone)]
pub enum Rule {
    /// As propagation finds best.
    Free,
    /// All alike.
    All(P),
    /// By path and shape: `None` leaves it to propagation.
    Policy(Rc<Policy>),
}

impl Rule {
    /// The placement of the array at `path`.
    pub(crate) fn spec(&self, path: &str, shape: &[i64]) -> Option<P> {
        match self {
            Rule::Free => None,
            Rule::All(p) => Some(p.clone()),
            Rule::Policy(f) => f(path, shape),
        }
    }

    /// By a function of the path and the shape.
    pub fn policy(f: impl Fn(&str, &[i64]) -> Option<P> + 'static) -> Rule {
        Rule::Policy(Rc::new(f))
    }

    /// By the last step of the path: the first pair with that name. Others are copied to every device.
    pub fn by_name<const N: usize>(names: [(&str, P); N]) -> Rule {
        let names: Vec<(String, P)> = names.into_iter().map(|(name, p)| (name.to_string(), p)).collect();
        Rule::policy(move |path, _| {
            let last = path.rsplit('/').next().unwrap_or(path);
            Some(names.iter().find(|(name, _)| name == last).map_or_else(P::replicated, |(_, p)| p.clone()))
        })
    }

    /// Fully sharded: the largest dimension over `axis` (the first of equals), arrays of fewer than `least` elements
    /// copied.
    pub fn fully_sharded(axis: &str, least: i64) -> Rule {
        let axis = axis.to_string();
        Rule::policy(move |_, shape| {
            let largest = shape.iter().copied().max().unwrap_or(0);
            let dim = shape.iter().position(|&n| n == largest);
            match dim {
                Some(dim) if shape.iter().product::<i64>() >= least.max(1) => {
                    let mut dims = vec![vec![]; dim];
                    dims.push(vec![axis.as_str().into()]);
                    Some(P::of(dims))
                }
                _ => Some(P::replicated()),
            }
        })
    }
}

impl From<P> for Rule {
    fn from(spec: P) -> Rule {
        Rule::All(spec)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Free => f.write_str("Free"),
            Rule::All(p) => write!(f, "All({p})"),
            Rule::Policy(_) => f.write_str("Policy(..)"),
        }
    }
}
