//! Programs with unknown extents (`?`), for arguments whose extents are known.
//!
//! A program that JAX exports with symbolic shapes computes its extents from those of its arguments. Given the types of
//! the arguments, calls are inlined, and then, operation by operation:
//!
//! - integers that follow from extents and constants are computed, and become constants;
//! - an operation with a shape as operand becomes the one that has it as attribute (`statics`);
//! - assertions about shapes are checked;
//! - the type rules give the extents of everything else. Loops carry values of the types they start with.
//!
//! Extents that depend on the elements of arguments stay unknown.

mod statics;

use std::collections::HashMap;

use meshwork_ir::infer::infer_op;
use meshwork_ir::op::{ControlOp, MovementOp, SdyOp, SourceOp};
use meshwork_ir::transform::{dead, inline};
use meshwork_ir::{
    Attr, BlockId, DYNAMIC, Dense, ElementType, FunctionType, Literal, Module, OpId, OpKind, OpSpec, Scalar,
    TensorType, Type, ValueId,
};

use super::custom_call::keeps_type;
use super::error::EvalError;
use super::single::run_op;

/// Integer values with more elements are no shapes.
const MOST_ELEMENTS: usize = 1024;

/// Whether an argument of `func` has unknown extents.
pub fn is_symbolic(module: &Module, func: OpId) -> bool {
    module.func_type(func).inputs.iter().any(is_dynamic)
}

/// The program with function `func` for arguments of these types, one for each argument that is not a token. Where the
/// function says an extent, it must be that one.
///
/// ```
/// use meshwork_ir::{ElementType, Type, text};
///
/// let module = text::parse(
///     "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
///        %0 = stablehlo.add %x, %x : tensor<?xf32>
///        return %0 : tensor<?xf32>
///      }",
/// )?;
/// let main = module.func("main").unwrap();
/// let refined = meshwork_eval::refine(&module, main, &[Type::tensor([3], ElementType::F32)])?;
/// assert!(text::print(&refined).contains("stablehlo.add %arg0, %arg0 : tensor<3xf32>"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn refine(module: &Module, func: OpId, types: &[Type]) -> Result<Module, EvalError> {
    let mut module = module.clone();
    inline::composites_to_calls(&mut module);
    inline::inline_calls(&mut module);
    let Some(body) = module.body_of(func, 0) else {
        return Err(EvalError::invalid(&module, func, "a function without a body"));
    };
    give_types(&mut module, func, body, types)?;
    let mut refiner = Refiner { module, known: HashMap::new() };
    refiner.block(body)?;
    let Refiner { mut module, .. } = refiner;
    dead::remove_dead(&mut module);
    let of = |module: &Module, values: &[ValueId]| values.iter().map(|&v| module.ty(v).clone()).collect();
    let inputs = of(&module, module.block(body).args());
    let results = of(&module, module.returned(body));
    module.set_func_type(func, FunctionType { inputs, results });
    Ok(module)
}

fn give_types(module: &mut Module, func: OpId, body: BlockId, types: &[Type]) -> Result<(), EvalError> {
    let args: Vec<ValueId> = module.block(body).args().to_vec();
    let args: Vec<ValueId> = args.into_iter().filter(|&v| *module.ty(v) != Type::Token).collect();
    if args.len() != types.len() {
        let message = format!("takes {} arguments, {} given", args.len(), types.len());
        return Err(EvalError::invalid(module, func, message));
    }
    for (i, (arg, ty)) in args.into_iter().zip(types).enumerate() {
        if most_specific(module.ty(arg), ty).as_ref() != Some(ty) || is_dynamic(ty) {
            let message = format!("argument {i} is declared {}, and {ty} is given", module.ty(arg));
            return Err(EvalError::invalid(module, func, message));
        }
        module.set_ty(arg, ty.clone());
    }
    Ok(())
}

/// Of two types that agree, the extents that one of them knows.
fn most_specific(a: &Type, b: &Type) -> Option<Type> {
    match (a, b) {
        (Type::Tensor(x), Type::Tensor(y)) => {
            let agree = |(&p, &q): (&i64, &i64)| p == q || p == DYNAMIC || q == DYNAMIC;
            if x.elem != y.elem || x.rank() != y.rank() || !x.dims.iter().zip(&y.dims).all(agree) {
                return None;
            }
            let dims = x.dims.iter().zip(&y.dims).map(|(&p, &q)| if p == DYNAMIC { q } else { p });
            // A bound on an extent says nothing once it is known.
            let ty = TensorType { dims: dims.collect(), elem: x.elem, encoding: None };
            Some(if ty.is_static() { ty.into() } else { TensorType { encoding: x.encoding.clone(), ..ty }.into() })
        }
        _ => (a == b).then(|| a.clone()),
    }
}

fn is_dynamic(ty: &Type) -> bool {
    ty.as_tensor().is_some_and(|ty| !ty.is_static())
}

struct Refiner {
    module: Module,
    /// Integers whose elements are known.
    known: HashMap<ValueId, Literal>,
}

impl Refiner {
    fn block(&mut self, block: BlockId) -> Result<(), EvalError> {
        for op in self.module.op_list(block) {
            self.op(op)?;
        }
        Ok(())
    }

    fn op(&mut self, op: OpId) -> Result<(), EvalError> {
        if self.compute(op)? || self.assertion(op)? {
            return Ok(());
        }
        let op = self.make_static(op)?.unwrap_or(op);
        self.bodies(op)?;
        self.types(op)
    }

    /// Computes the results of an operation on integers that are known, and replaces them by constants.
    fn compute(&mut self, op: OpId) -> Result<bool, EvalError> {
        let data = self.module.op(op);
        let is_number = |ty: &Type| ty.as_tensor().is_some_and(|t| t.elem.is_integer() || t.elem == ElementType::I1);
        let is_shape = |ty: &Type| {
            is_number(ty) && ty.as_tensor().and_then(TensorType::num_elements).is_none_or(|n| n <= MOST_ELEMENTS as i64)
        };
        let results = data.results().to_vec();
        if !data.kind().is_pure() || !data.regions().is_empty() || results.is_empty() {
            return Ok(false);
        }
        if !results.iter().all(|&v| is_shape(self.module.ty(v))) {
            return Ok(false);
        }
        let values = match data.kind() {
            OpKind::Source(SourceOp::Constant) => {
                let value = match data.attr("value") {
                    Some(Attr::Dense(dense)) => dense.to_literal(),
                    _ => None,
                };
                self.known.extend(value.map(|value| (results[0], value)));
                return Ok(false);
            }
            // Different on each device.
            OpKind::Source(SourceOp::PartitionId | SourceOp::ReplicaId) => return Ok(false),
            OpKind::Movement(MovementOp::GetDimensionSize) => {
                let ty = data.operands().first().map(|&v| self.module.ty(v));
                let extent = data.int("dimension").and_then(|d| ty?.dims().get(usize::try_from(d).ok()?).copied());
                let Some(extent) = extent.filter(|&n| n != DYNAMIC) else { return Ok(false) };
                vec![Literal::scalar(ElementType::I32, Scalar::Int(extent))]
            }
            _ => {
                let args = data.operands().iter().map(|v| self.known.get(v).cloned());
                let Some(args) = args.collect::<Option<Vec<Literal>>>() else { return Ok(false) };
                run_op(&self.module, op, args)?
            }
        };
        for (old, value) in results.into_iter().zip(values) {
            let loc = self.module.op(op).loc.clone();
            let dense = Attr::Dense(Dense::from_literal(&value).into());
            let spec = OpSpec::new(SourceOp::Constant).results([value.ty()]).attr("value", dense).loc(loc);
            let constant = self.module.push_before(op, spec);
            let new = self.module.result(constant);
            self.module.replace_all_uses(old, new);
            self.known.insert(new, value);
        }
        self.module.erase(op);
        Ok(true)
    }

    /// Checks an assertion about shapes, if what it says is known.
    fn assertion(&mut self, op: OpId) -> Result<bool, EvalError> {
        let data = self.module.op(op);
        if data.kind() != ControlOp::CustomCall || data.call_target() != Some("shape_assertion") {
            return Ok(false);
        }
        let known: Vec<Option<i64>> = data.operands().iter().map(|v| Some(self.known.get(v)?.get_i64(0))).collect();
        match known.first() {
            Some(Some(0)) => {
                let text =
                    data.attr("error_message").and_then(Attr::as_str).unwrap_or("a shape assertion does not hold");
                Err(EvalError::invalid(&self.module, op, filled_in(text, &known[1..])))
            }
            Some(Some(_)) => {
                self.module.erase(op);
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// The bodies of control flow: what they take has the types that it is given.
    fn bodies(&mut self, op: OpId) -> Result<(), EvalError> {
        let data = self.module.op(op);
        let is_loop = data.kind() == OpKind::Control(ControlOp::While);
        let takes_operands = is_loop || data.kind() == OpKind::Sdy(SdyOp::NamedComputation);
        let is_branch = matches!(data.kind(), OpKind::Control(ControlOp::If | ControlOp::Case));
        if !takes_operands && !is_branch {
            return Ok(());
        }
        let (operands, regions) = (data.operands().to_vec(), data.regions().len());
        for block in (0..regions).filter_map(|i| self.module.body_of(op, i)).collect::<Vec<_>>() {
            for (arg, &operand) in self.module.block(block).args().to_vec().into_iter().zip(&operands) {
                let ty = self.module.ty(operand).clone();
                self.module.set_ty(arg, ty);
            }
        }
        if is_loop {
            self.invariants(op, &operands);
        }
        for block in (0..regions).filter_map(|i| self.module.body_of(op, i)).collect::<Vec<_>>() {
            self.block(block)?;
        }
        Ok(())
    }

    /// A known integer that a loop only hands round is known inside and after it.
    fn invariants(&mut self, op: OpId, operands: &[ValueId]) {
        let (Some(condition), Some(body)) = (self.module.body_of(op, 0), self.module.body_of(op, 1)) else { return };
        let returned = self.module.returned(body).to_vec();
        for (i, &operand) in operands.iter().enumerate() {
            let arg = self.module.block(body).args().get(i).copied();
            if arg.is_none() || returned.get(i).copied() != arg {
                continue;
            }
            if let Some(value) = self.known.get(&operand).cloned() {
                let same = [arg, self.module.block(condition).args().get(i).copied()];
                let same = same.into_iter().chain([self.module.op(op).results().get(i).copied()]);
                self.known.extend(same.flatten().map(|v| (v, value.clone())));
            }
        }
    }

    /// The extents of results, by the type rule of the operation.
    fn types(&mut self, op: OpId) -> Result<(), EvalError> {
        let results = self.module.op(op).results().to_vec();
        if !results.iter().any(|&v| is_dynamic(self.module.ty(v))) {
            return Ok(());
        }
        let data = self.module.op(op);
        let found: Vec<Type> = match data.kind() {
            OpKind::Movement(MovementOp::BitcastConvert) => self.same_bits(op).into_iter().collect(),
            _ if keeps_type(data) => data.operands().iter().map(|&v| self.module.ty(v).clone()).collect(),
            _ => {
                let wrong = |e: meshwork_ir::infer::InferError| EvalError::invalid(&self.module, op, e.to_string());
                infer_op(&self.module, op).map_err(wrong)?.into_iter().collect()
            }
        };
        for (result, ty) in results.into_iter().zip(found) {
            let declared = self.module.ty(result);
            let Some(ty) = most_specific(declared, &ty) else {
                let message = format!("a result declared {declared} is {ty} for these arguments");
                return Err(EvalError::invalid(&self.module, op, message));
            };
            self.module.set_ty(result, ty);
        }
        Ok(())
    }

    /// The type of a `bitcast_convert`: the operand's extents, but for an innermost one that makes up for the width.
    fn same_bits(&self, op: OpId) -> Option<Type> {
        let data = self.module.op(op);
        let from = self.module.ty(*data.operands().first()?).as_tensor()?;
        let to = self.module.ty(*data.results().first()?).as_tensor()?;
        let (from_bits, to_bits) = (from.elem.bits() as i64, to.elem.bits() as i64);
        let mut dims = from.dims.clone();
        if from_bits > to_bits {
            dims.push(from_bits / to_bits);
        } else if from_bits < to_bits {
            dims.pop();
        }
        Some(TensorType { dims, elem: to.elem, encoding: None }.into())
    }

    /// The elements of a known integer operand.
    fn ints(&self, value: ValueId) -> Option<Vec<i64>> {
        let value = self.known.get(&value)?;
        Some((0..value.len()).map(|i| value.get_i64(i)).collect())
    }
}

/// `{0}`, `{1}`, ... in a message, replaced by what is known.
fn filled_in(text: &str, values: &[Option<i64>]) -> String {
    let mut out = text.to_string();
    for (i, value) in values.iter().enumerate() {
        out = out.replace(&format!("{{{i}}}"), &value.map_or("?".to_string(), |v| v.to_string()));
    }
    out
}
