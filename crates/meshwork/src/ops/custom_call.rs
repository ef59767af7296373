//! Operations that an engine knows by name, with a sharding rule of the user's.

use std::sync::Arc;

use meshwork_ir::attr::OpShardingRule;
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, AttrDict, ElementType, OpKind, OpSpec, Type};

use crate::Tensor;
use crate::error::fail;
use crate::trace::compose::emit_all;

/// A call of something that the engine knows by name, such as a LAPACK routine under the name that JAX has for it, or what a plugin of
/// XLA has registered.
///
/// Its [rule](CustomCall::rule) says which dimensions of operands and results belong together. Placements spread along it, and devices
/// that have parts of such dimensions call it on their parts.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::CustomCall;
///
/// // The QR decomposition of each matrix of a batch, by devices that have some of the matrices.
/// let f = jit(|x: Tensor| {
///     let call = CustomCall::new("lapack_sgeqrf_ffi").rule("b i j -> b k l, b m");
///     call.call(&[&x], &[(F32, &[8, 3, 2]), (F32, &[8, 2])])
/// });
/// let x = Array::from_fn([8, 3, 2], |i| (i[0] + 2 * i[1] + i[2] * i[2]) as f32);
/// let split = x.clone().shard(&Mesh::linear("x", 4)?, P!["x"])?;
/// assert!(f.plan(&split)?.collectives.is_empty());
/// let (alone, on_four) = (f.call(&x)?, f.call(&split)?);
/// assert_eq!(on_four[1].shards()[1].slice, [2..4, 0..2]);
/// assert!(on_four[0].all_close(&alone[0], 1e-5));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CustomCall {
    target: String,
    config: AttrDict,
    rule: Option<String>,
}

impl CustomCall {
    /// A call of `target`.
    pub fn new(target: &str) -> CustomCall {
        CustomCall { target: target.into(), config: AttrDict::new(), rule: None }
    }

    /// With a number for it in its configuration.
    pub fn config(mut self, name: &str, value: i64, dtype: ElementType) -> CustomCall {
        self.config.set(name, Attr::Int(value, dtype));
        self
    }

    /// Which dimensions belong together: one name for each dimension, tensors behind commas, results behind an arrow. `b i j -> b k`
    /// says that the call does the same to every element along `b`. A dimension whose name only operands or only results have is
    /// needed whole. Without a rule all operands are.
    pub fn rule(mut self, rule: &str) -> CustomCall {
        self.rule = Some(rule.into());
        self
    }

    /// Calls it; the results have these element types and shapes.
    #[track_caller]
    pub fn call(&self, operands: &[&Tensor], results: &[(ElementType, &[i64])]) -> Vec<Tensor> {
        let extents: Vec<Vec<i64>> = results.iter().map(|(_, shape)| shape.to_vec()).collect();
        let types: Vec<Type> =
            extents.iter().zip(results).map(|(dims, (e, _))| Type::tensor(dims.clone(), *e)).collect();
        let shapes: Vec<Vec<i64>> = operands.iter().map(|t| t.shape().to_vec()).collect();
        let rule = match self.rule.as_ref().map(|text| read(text, &shapes, &extents)) {
            None => None,
            Some(Ok(rule)) => Some(Attr::ShardingRule(Arc::new(rule))),
            Some(Err(why)) => fail(&self.target, format!("the rule {:?}: {why}", self.rule.as_deref().unwrap_or(""))),
        };
        emit_all(&self.target, operands, |b, v| {
            let spec = OpSpec::new(OpKind::Control(ControlOp::CustomCall)).operands(v.iter().copied()).results(types);
            let spec = spec
                .attr("call_target_name", Attr::str(&self.target))
                .attr("api_version", Attr::i32(4))
                .attr("mhlo.backend_config", Attr::Dict(Arc::new(self.config.clone())));
            b.values(match rule {
                Some(rule) => spec.attr("sdy.sharding_rule", rule),
                None => spec,
            })
        })
    }
}

/// The rule that a text stands for, with the extents of these operands and results.
fn read(text: &str, operands: &[Vec<i64>], results: &[Vec<i64>]) -> Result<OpShardingRule, String> {
    let (left, right) = text.split_once("->").ok_or("there is no ->")?;
    let mut names: Vec<&str> = vec![];
    let mut rule = OpShardingRule { custom: true, ..OpShardingRule::default() };
    for (side, text, shapes) in [("operand", left, operands), ("result", right, results)] {
        let tensors: Vec<Vec<&str>> = text.split(',').map(|t| t.split_whitespace().collect()).collect();
        if tensors.len() != shapes.len() {
            return Err(format!("it has {} {side}s, the call {}", tensors.len(), shapes.len()));
        }
        for (i, (dims, shape)) in tensors.iter().zip(shapes).enumerate() {
            if dims.len() != shape.len() {
                return Err(format!("{side} {i} has {} names for {} dimensions", dims.len(), shape.len()));
            }
            let mut mapping = vec![];
            for (name, &extent) in dims.iter().zip(shape) {
                let factor = names.iter().position(|n| n == name).unwrap_or_else(|| {
                    names.push(name);
                    rule.factor_sizes.push(extent);
                    names.len() - 1
                });
                if rule.factor_sizes[factor] != extent {
                    let other = rule.factor_sizes[factor];
                    return Err(format!("{name} stands for dimensions of {other} and of {extent}"));
                }
                if mapping.contains(&vec![factor]) {
                    return Err(format!("{name} stands twice in {side} {i}"));
                }
                mapping.push(vec![factor]);
            }
            if side == "operand" { rule.operands.push(mapping) } else { rule.results.push(mapping) }
        }
    }
    let has = |tensors: &[Vec<Vec<usize>>], factor: usize| tensors.iter().flatten().flatten().any(|&f| f == factor);
    let alone = |&f: &usize| !(has(&rule.operands, f) && has(&rule.results, f));
    rule.need_replication = (0..names.len()).filter(alone).collect();
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_and_mistakes_named() {
        let rule = read("b i j -> b k, b", &[vec![8, 3, 2]], &[vec![8, 5], vec![8]]).unwrap();
        assert_eq!(rule.factor_sizes, [8, 3, 2, 5]);
        assert_eq!(rule.results, [vec![vec![0], vec![3]], vec![vec![0]]]);
        assert_eq!(rule.need_replication, [1, 2, 3]);
        let error = |text: &str| read(text, &[vec![8, 3]], &[vec![8]]).unwrap_err();
        assert_eq!(error("b i"), "there is no ->");
        assert_eq!(error("b i, b -> b"), "it has 2 operands, the call 1");
        assert_eq!(error("b -> b"), "operand 0 has 1 names for 2 dimensions");
        assert_eq!(error("b i -> i"), "i stands for dimensions of 3 and of 8");
        assert_eq!(read("b b -> b", &[vec![8, 8]], &[vec![8]]).unwrap_err(), "b stands twice in operand 0");
    }
}
