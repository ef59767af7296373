//! The comparators of sorts that order elements by keys, one after the other.
//!
//! ```
//! # use meshwork_ir::{comparator, text};
//! let module = text::parse(
//!     "func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
//!        %0 = \"stablehlo.sort\"(%x) <{dimension = 0 : i64}> ({
//!        ^bb0(%a: tensor<i32>, %b: tensor<i32>):
//!          %1 = stablehlo.compare GT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
//!          stablehlo.return %1 : tensor<i1>
//!        }) : (tensor<4xi32>) -> tensor<4xi32>
//!        return %0 : tensor<4xi32> }",
//! )
//! .unwrap();
//! let sort = module.ops_in(module.body_of(module.entry().unwrap(), 0).unwrap()).next().unwrap();
//! let keys = comparator::keys(&module, module.body_of(sort, 0).unwrap()).unwrap();
//! assert_eq!((keys.len(), keys[0].operand, keys[0].descending), (1, 0, true));
//! ```

use crate::op::{BinaryOp, MixedOp, SdyOp, SourceOp, UnaryOp};
use crate::{Attr, BlockId, Combine, ElementClass, ElementType, Module, OpKind, ValueId, float, identity};

/// A key that a sort goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key {
    /// Which operand of the sort.
    pub operand: usize,
    /// Which part of its elements.
    pub part: Part,
    /// The type of the key.
    pub elem: ElementType,
    /// Largest first.
    pub descending: bool,
    /// Zeros are equal, and so are NaNs (which are the largest); else floats are in IEEE 754's total order.
    pub canonical: bool,
}

/// What of an element is a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// The real part of a complex number.
    Real,
    /// The imaginary part of a complex number.
    Imaginary,
}

impl Key {
    /// The key that comes last, or as late as any, in storage format; `None` where that is not known.
    pub fn last(&self) -> Option<Vec<u8>> {
        if self.elem.class() != ElementClass::Float {
            return identity::identity(if self.descending { Combine::Max } else { Combine::Min }, self.elem);
        }
        let mut out = vec![];
        match (self.canonical, self.descending) {
            (true, true) => float::write(self.elem, float::lowest(self.elem), &mut out),
            (true, false) => {
                let nan = float::encode(self.elem, f64::NAN);
                if !float::decode(self.elem, nan).is_nan() {
                    return identity::identity(Combine::Min, self.elem);
                }
                float::write(self.elem, f64::NAN, &mut out);
            }
            // The NaN farthest out: all bits set but perhaps the sign.
            (false, descending) => {
                use ElementType::{BF16, F16, F32, F64};
                if !matches!(self.elem, F32 | F64 | F16 | BF16) {
                    return None;
                }
                out.resize(self.elem.storage_bytes(), 0xff);
                if let (Some(top), false) = (out.last_mut(), descending) {
                    *top = 0x7f;
                }
            }
        }
        Some(out)
    }
}

/// The keys that the comparator `block` sorts by, the most significant first, if it compares pairs of its arguments one
/// after the other. Anything else, equality included, is not taken for an order.
pub fn keys(module: &Module, block: BlockId) -> Option<Vec<Key>> {
    let &[out] = module.returned(block) else { return None };
    let (mut keys, mut rest) = (vec![], Some(out));
    while let Some(value) = rest {
        let (first, next) = match binary(module, block, value, BinaryOp::Or) {
            // first < second or (first = second and the next key decides)
            Some([first, both]) => {
                let [equal, next] = binary(module, block, both, BinaryOp::And)?;
                let (less, same) = (compared(module, block, first)?, compared(module, block, equal)?);
                let pair = |c: &Compared| (c.arguments[0].min(c.arguments[1]), c.arguments[0].max(c.arguments[1]));
                let alike = (less.part, less.canonical) == (same.part, same.canonical);
                if same.direction != "EQ" || pair(&less) != pair(&same) || !alike {
                    return None;
                }
                (first, Some(next))
            }
            None => (value, None),
        };
        let c = compared(module, block, first)?;
        let descending = match c.direction {
            "LT" => false,
            "GT" => true,
            _ => return None,
        };
        // `second < first` is `first > second`.
        let descending = descending != (c.arguments[0] > c.arguments[1]);
        keys.push(Key { operand: c.arguments[0] / 2, part: c.part, elem: c.elem, descending, canonical: c.canonical });
        rest = next;
    }
    Some(keys)
}

/// The operands of the operation that makes `value`, if it is of this kind and in the block.
fn binary(module: &Module, block: BlockId, value: ValueId, kind: BinaryOp) -> Option<[ValueId; 2]> {
    let op = module.op(module.def_op(value)?);
    let is_it = op.kind() == OpKind::Binary(kind) && op.parent() == Some(block);
    is_it.then(|| op.operands().try_into().ok())?
}

/// A comparison of the two arguments of one operand.
struct Compared<'m> {
    arguments: [usize; 2],
    part: Part,
    direction: &'m str,
    elem: ElementType,
    canonical: bool,
}

fn compared(module: &Module, block: BlockId, value: ValueId) -> Option<Compared<'_>> {
    let op = module.op(module.def_op(value)?);
    if op.kind() != OpKind::Mixed(MixedOp::Compare) || op.parent() != Some(block) {
        return None;
    }
    let args = module.block(block).args();
    let &[a, b] = op.operands() else { return None };
    let ((x, x_canonical), (y, y_canonical)) = (canonical(module, block, a), canonical(module, block, b));
    let elem = module.ty(x).elem()?;
    let ((x, x_part), (y, y_part)) = (part_of(module, block, x), part_of(module, block, y));
    let (i, j) = (args.iter().position(|&v| v == x)?, args.iter().position(|&v| v == y)?);
    // Arguments come in pairs, one per operand.
    if i / 2 != j / 2 || i == j || (x_canonical, x_part) != (y_canonical, y_part) || elem.is_complex() {
        return None;
    }
    let direction = op.enum_value("comparison_direction")?;
    // By the natural order of floats zeros are equal; where NaN go is not specified then, and they go last.
    let is_total = op.enum_value("compare_type") == Some("TOTALORDER");
    let canonical = x_canonical || (elem.is_float() && !is_total);
    Some(Compared { arguments: [i, j], part: x_part, direction, elem, canonical })
}

/// Looks through the real or imaginary part of a complex number.
fn part_of(module: &Module, block: BlockId, value: ValueId) -> (ValueId, Part) {
    let Some(op) = module.def_op(value).map(|op| module.op(op)) else { return (value, Part::Whole) };
    match op.kind() {
        OpKind::Unary(UnaryOp::Real) if op.parent() == Some(block) => (op.operands()[0], Part::Real),
        OpKind::Unary(UnaryOp::Imag) if op.parent() == Some(block) => (op.operands()[0], Part::Imaginary),
        _ => (value, Part::Whole),
    }
}

/// Looks through JAX's `select(x != x, nan, select(x == 0, 0, x))`: the number inside, and whether it was there.
fn canonical(module: &Module, block: BlockId, value: ValueId) -> (ValueId, bool) {
    let inside = || -> Option<ValueId> {
        let def = |v: ValueId, kind: OpKind| {
            let op = module.op(module.def_op(v)?);
            (op.kind() == kind && op.parent() == Some(block)).then_some(op)
        };
        // Constants may stand outside, where others share them.
        let constant = |v: ValueId| match module.op(module.def_op(v)?) {
            // Splitting leaves constants in Shardy's form.
            op if matches!(op.kind(), OpKind::Source(SourceOp::Constant) | OpKind::Sdy(SdyOp::Constant)) => {
                match op.attr("value")? {
                    Attr::Dense(d) => Some(d.to_literal()?.get(0).as_f64()),
                    _ => None,
                }
            }
            _ => None,
        };
        let compares = |v: ValueId, direction: &str| {
            let op = def(v, OpKind::Mixed(MixedOp::Compare))?;
            let natural = op.enum_value("compare_type") != Some("TOTALORDER");
            (natural && op.enum_value("comparison_direction") == Some(direction)).then(|| op.operands().to_vec())
        };
        let outer = def(value, OpKind::Mixed(MixedOp::Select))?.operands().to_vec();
        let inner = def(outer[2], OpKind::Mixed(MixedOp::Select))?.operands().to_vec();
        let x = inner[2];
        let nan = compares(outer[0], "NE")? == [x, x] && constant(outer[1])?.is_nan();
        let equal = compares(inner[0], "EQ")?;
        let positive = |v: f64| v == 0.0 && v.is_sign_positive();
        let zero = equal[0] == x && constant(equal[1])? == 0.0 && positive(constant(inner[1])?);
        (nan && zero).then_some(x)
    };
    match inside() {
        Some(x) => (x, true),
        None => (value, false),
    }
}
