//! Whether two modules are the same program.

use super::*;
use crate::attr::is_default;
use crate::op::ControlOp;

/// `Ok` if both modules hold the same operations in the same order with the same attributes, types, regions and
/// connections; otherwise the first difference in words. Locations, text positions and ids do not count, nor does
/// whether an attribute with its default value is written out.
pub fn same(a: &Module, b: &Module) -> Result<(), String> {
    if a.name != b.name {
        return Err(format!("module names differ: {:?} and {:?}", a.name, b.name));
    }
    same_attrs(OpKind::Control(ControlOp::Module), &a.attrs, &b.attrs).map_err(|e| format!("module: {e}"))?;
    let mut pair = Pair { a, b, map: vec![None; a.value_slots()], ops: vec![] };
    pair.blocks(a.body(), b.body(), "module")?;
    // Operands last: in a graph region a use may come before the definition.
    for (x, y) in std::mem::take(&mut pair.ops) {
        pair.operands(x, y)?;
    }
    Ok(())
}

struct Pair<'m> {
    a: &'m Module,
    b: &'m Module,
    /// The value of `b` that corresponds to each value of `a`.
    map: Vec<Option<ValueId>>,
    ops: Vec<(OpId, OpId)>,
}

impl Pair<'_> {
    // Recursion is as deep as regions nest, which the parser bounds.
    fn blocks(&mut self, x: BlockId, y: BlockId, place: &str) -> Result<(), String> {
        let (args_x, args_y) = (self.a.block(x).args(), self.b.block(y).args());
        self.values(args_x, args_y, "block arguments").map_err(|e| format!("{place}: {e}"))?;
        let (mut ops_x, mut ops_y) = (self.a.ops_in(x), self.b.ops_in(y));
        loop {
            match (ops_x.next(), ops_y.next()) {
                (None, None) => return Ok(()),
                (Some(p), Some(q)) => self.op(p, q)?,
                (Some(extra), None) => {
                    return Err(format!("{place}: {} is missing in the second module", self.a.describe(extra)));
                }
                (None, Some(extra)) => {
                    return Err(format!("{place}: {} is missing in the first module", self.b.describe(extra)));
                }
            }
        }
    }

    fn op(&mut self, x: OpId, y: OpId) -> Result<(), String> {
        let (p, q) = (self.a.op(x), self.b.op(y));
        let place = self.a.describe(x);
        if p.name() != q.name() {
            return Err(format!("{place}: the second module has {}", self.b.describe(y)));
        }
        same_attrs(p.kind(), &p.attrs, &q.attrs).map_err(|e| format!("{place}: {e}"))?;
        self.values(p.results(), q.results(), "results").map_err(|e| format!("{place}: {e}"))?;
        if p.regions().len() != q.regions().len() {
            return Err(format!("{place}: {} regions and {}", p.regions().len(), q.regions().len()));
        }
        for (&r, &s) in p.regions().iter().zip(q.regions()) {
            let (r, s) = (self.a.region(r).blocks(), self.b.region(s).blocks());
            if r.len() != s.len() {
                return Err(format!("{place}: a region of {} blocks and one of {}", r.len(), s.len()));
            }
            for (&inner_x, &inner_y) in r.iter().zip(s) {
                self.blocks(inner_x, inner_y, &place)?;
            }
        }
        self.ops.push((x, y));
        Ok(())
    }

    fn values(&mut self, x: &[ValueId], y: &[ValueId], what: &str) -> Result<(), String> {
        if x.len() != y.len() {
            return Err(format!("{} {what} and {}", x.len(), y.len()));
        }
        for (i, (&p, &q)) in x.iter().zip(y).enumerate() {
            if self.a.ty(p) != self.b.ty(q) {
                return Err(format!("types of {what} {i} differ: {} and {}", self.a.ty(p), self.b.ty(q)));
            }
            self.map[p.index()] = Some(q);
        }
        Ok(())
    }

    fn operands(&self, x: OpId, y: OpId) -> Result<(), String> {
        let (p, q) = (self.a.op(x).operands(), self.b.op(y).operands());
        if p.len() != q.len() {
            return Err(format!("{}: {} operands and {}", self.a.describe(x), p.len(), q.len()));
        }
        match p.iter().zip(q).position(|(v, w)| self.map[v.index()] != Some(*w)) {
            Some(i) => Err(format!("{}: operand {i} is another value in the second module", self.a.describe(x))),
            None => Ok(()),
        }
    }
}

fn same_attrs(kind: OpKind, a: &AttrDict, b: &AttrDict) -> Result<(), String> {
    for (name, value) in a.iter() {
        match b.get(name) {
            // Equal text covers NaN, which does not equal itself.
            Some(other) if value == other || value.to_string() == other.to_string() => {}
            Some(other) => return Err(format!("attribute '{name}' differs: {value} and {other}")),
            None if is_default(kind, name, value) => {}
            None => return Err(format!("attribute '{name}' is missing in the second module")),
        }
    }
    match b.iter().find(|(n, v)| !a.contains(n) && !is_default(kind, n, v)) {
        Some((name, _)) => Err(format!("attribute '{name}' is missing in the first module")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{BinaryOp, ControlOp};
    use crate::{ElementType, FunctionType};

    fn sample(kind: OpKind, swap: bool) -> Module {
        let ty = Type::tensor([2], ElementType::F32);
        let mut module = Module::new();
        let sig = FunctionType { inputs: vec![ty.clone(), ty.clone()], results: vec![ty.clone()] };
        let func = module.add_func(FuncSig { name: "f".into(), ty: sig, visibility: None });
        let Some(body) = module.body_of(func, 0) else { return module };
        let &[x, y] = module.block(body).args() else { return module };
        let operands = if swap { [y, x] } else { [x, y] };
        let op = module.push(body, OpSpec::new(kind).operands(operands).results([ty]));
        let result = module.result(op);
        module.push(body, OpSpec::new(OpKind::Control(ControlOp::FuncReturn)).operands([result]));
        module
    }

    #[test]
    fn names_the_first_difference() {
        let one = sample(OpKind::Binary(BinaryOp::Add), false);
        assert_eq!(same(&one, &sample(OpKind::Binary(BinaryOp::Add), false)), Ok(()));
        let other = same(&one, &sample(OpKind::Binary(BinaryOp::Subtract), false));
        assert_eq!(other, Err("'stablehlo.add': the second module has 'stablehlo.subtract'".into()));
        let swapped = same(&one, &sample(OpKind::Binary(BinaryOp::Add), true));
        assert_eq!(swapped, Err("'stablehlo.add': operand 0 is another value in the second module".into()));
    }

    #[test]
    fn attributes_count_and_nan_equals_itself() {
        let mut one = Module::new();
        one.attrs.set("x.a", Attr::Float(f64::NAN, ElementType::F32));
        assert_eq!(same(&one, &one.clone()), Ok(()));
        let other = same(&one, &Module::new());
        assert_eq!(other, Err("module: attribute 'x.a' is missing in the second module".into()));
    }
}
