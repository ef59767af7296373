//! Random programs over the whole op table, with arguments and bounds of the rounding errors of their results.
//!
//! A program is a chain of random operations on values of a few types. The builder infers types, so what it refuses is
//! left out. Of each value its largest magnitude and its error are known ([`Value`]): an operation that would jump, such
//! as a comparison, takes only values without error, and one with a pole takes them from a safe distance. So two right
//! runs differ by at most the stated errors, and results without error in nothing but the signs of zeros.
//!
//! | file | operations |
//! |---|---|
//! | `elementwise` | functions of elements, by their slope and their domain |
//! | `movement` | what moves elements, sources, dynamic shapes |
//! | `bodies` | reductions, windows, scatters, sorts |
//! | `products` | contractions, convolutions, linear algebra |
//! | `control` | loops, branches, calls, tuples |
//! | `collective` | communication, if there are several devices |

mod bodies;
mod collective;
mod control;
mod elementwise;
mod movement;
mod products;
mod value;

use meshwork_ir::build::{Builder, FuncBuilder};
use meshwork_ir::{ElementClass, ElementType, Literal, Module, OpKind, Scalar, Type};

pub use value::Value;
#[cfg(feature = "fuzz")]
pub(crate) use value::unit;

use crate::Numbers;

/// What programs are made of.
#[derive(Clone, Debug)]
pub struct Options {
    /// Operations to try, about.
    pub ops: usize,
    /// How deep loops, branches and calls nest.
    pub depth: usize,
    /// Devices that run the program together; with one there is no communication.
    pub devices: usize,
    /// Element types to choose from.
    pub elems: Vec<ElementType>,
}

impl Default for Options {
    fn default() -> Options {
        Options { ops: 14, depth: 2, devices: 1, elems: ELEMS.to_vec() }
    }
}

/// Types of which a program takes some; common ones more often.
const ELEMS: &[ElementType] = {
    use ElementType::*;
    &[
        F32,
        F32,
        F32,
        F32,
        F64,
        F64,
        BF16,
        BF16,
        F16,
        I32,
        I32,
        I64,
        I1,
        I8,
        UI8,
        I16,
        UI16,
        UI32,
        UI64,
        C64,
        C128,
        I4,
        UI4,
        F8E4M3FN,
        F8E5M2,
        F8E3M4,
        F8E4M3,
        F8E4M3FNUZ,
        F8E5M2FNUZ,
        F8E4M3B11FNUZ,
    ]
};

/// A program, its arguments, and how far right results may be apart.
#[derive(Debug)]
pub struct Generated {
    /// One function, `@main`, and those it calls.
    pub module: Module,
    /// Arguments, per device.
    pub args: Vec<Vec<Literal>>,
    /// Per result, an upper bound of the rounding error of any run: the distance of two is at most twice that. Where it
    /// is 0, all but the signs of zeros is equal.
    pub errors: Vec<f64>,
}

/// The program number `seed`.
pub fn program(seed: u64, options: &Options) -> Generated {
    let mut maker = Maker::new(seed, options);
    let count = 2 + maker.numbers.below(3);
    let types: Vec<(ElementType, Vec<i64>, bool)> =
        (0..count).map(|_| (maker.elem(), maker.dims(), maker.numbers.below(2) == 0)).collect();
    let mut module = Module::new();
    let tensors: Vec<Type> = types.iter().map(|(elem, dims, _)| Type::tensor(dims.iter().copied(), *elem)).collect();
    let mut f = FuncBuilder::new(&mut module, "main", tensors);
    let mut scope: Vec<Value> = vec![];
    for (i, (elem, dims, whole)) in types.iter().enumerate() {
        scope.push(Value::argument(f.arg(i), *elem, dims, *whole));
    }
    let given = scope.len();
    for _ in 0..options.ops {
        maker.step(&mut f, &mut scope, options.depth);
    }
    // The last values, an earlier one, and sometimes an argument or the same twice.
    let mut results: Vec<Value> = scope[given..].iter().rev().take(1 + maker.numbers.below(4)).cloned().collect();
    for _ in 0..maker.numbers.below(3) {
        results.push(scope[maker.numbers.below(scope.len())].clone());
    }
    if results.is_empty() {
        results.push(scope[0].clone());
    }
    let errors = results.iter().map(|v| v.error).collect();
    f.finish(results.iter().map(|v| v.id)).expect("values of its own block");
    let one = |m: &mut Maker| types.iter().map(|(elem, dims, whole)| m.literal(*elem, dims, *whole)).collect();
    let args = (0..options.devices).map(|_| one(&mut maker)).collect();
    Generated { module, args, errors }
}

/// A program in the making.
struct Maker {
    numbers: Numbers,
    devices: usize,
    /// The types and extents of this program.
    elems: Vec<ElementType>,
    extents: Vec<i64>,
    functions: usize,
    channels: i64,
    /// Operations by class, and how often a class is chosen.
    kinds: Vec<(usize, Vec<OpKind>)>,
}

impl Maker {
    fn new(seed: u64, options: &Options) -> Maker {
        let mut numbers = Numbers(seed);
        let elems = (0..3).map(|_| options.elems[numbers.below(options.elems.len())]).collect();
        let sizes = [1, 2, 3, 4, 4, 5, 6, 7, 8, 8, 12, 17];
        let mut extents: Vec<i64> = (0..3).map(|_| sizes[numbers.below(sizes.len())]).collect();
        if numbers.below(24) == 0 {
            extents.push(0);
        }
        let class = |weight: usize, wanted: fn(&OpKind) -> bool| {
            (weight, OpKind::ALL.iter().copied().filter(wanted).collect::<Vec<_>>())
        };
        let kinds = vec![
            class(6, |k| matches!(k, OpKind::Unary(_))),
            class(8, |k| matches!(k, OpKind::Binary(_))),
            class(5, |k| matches!(k, OpKind::Mixed(_))),
            class(10, |k| matches!(k, OpKind::Movement(_))),
            class(6, |k| matches!(k, OpKind::Body(_))),
            class(4, |k| matches!(k, OpKind::Contract(_))),
            class(2, |k| matches!(k, OpKind::Linalg(_))),
            class(2, |k| matches!(k, OpKind::Source(_))),
            class(1, |k| matches!(k, OpKind::Dynamic(_))),
            class(1, |k| matches!(k, OpKind::Chlo(_))),
            class(4, |k| matches!(k, OpKind::Control(_) | OpKind::Token(_))),
            class(if options.devices > 1 { 5 } else { 0 }, |k| matches!(k, OpKind::Collective(_))),
        ];
        Maker { numbers, devices: options.devices, elems, extents, functions: 0, channels: 0, kinds }
    }

    /// Adds an operation to `scope`, unless the one it tries is not possible.
    fn step(&mut self, b: &mut Builder<'_>, scope: &mut Vec<Value>, depth: usize) {
        let total: usize = self.kinds.iter().map(|k| k.0).sum();
        let mut at = self.numbers.below(total);
        let class = self.kinds.iter().position(|&(weight, _)| {
            let found = at < weight;
            at = at.wrapping_sub(weight);
            found
        });
        let kinds = &self.kinds[class.unwrap_or(0)].1;
        let kind = kinds[self.numbers.below(kinds.len())];
        let made = match kind {
            OpKind::Unary(op) => self.unary(b, scope, op),
            OpKind::Binary(op) => self.binary(b, scope, op),
            OpKind::Mixed(op) => self.mixed(b, scope, op),
            OpKind::Source(op) => self.source(b, scope, op),
            OpKind::Movement(op) => self.movement(b, scope, op),
            OpKind::Dynamic(op) => self.dynamic(b, scope, op),
            OpKind::Contract(op) => self.contract(b, scope, op),
            OpKind::Linalg(op) => self.linalg(b, scope, op),
            OpKind::Body(op) => self.body(b, scope, op),
            OpKind::Control(op) => self.control(b, scope, op, depth),
            OpKind::Token(op) => self.token(b, scope, op),
            OpKind::Collective(op) => self.collective(b, scope, op),
            OpKind::Chlo(op) => self.chlo(b, scope, op),
            // Placement, checks of tests, and what the table does not have.
            OpKind::Sdy(_) | OpKind::Check(_) | OpKind::Unregistered => None,
        };
        scope.extend(made.into_iter().flatten());
    }

    fn elem(&mut self) -> ElementType {
        self.elems[self.numbers.below(self.elems.len())]
    }

    fn extent(&mut self) -> i64 {
        self.extents[self.numbers.below(self.extents.len())]
    }

    fn dims(&mut self) -> Vec<i64> {
        (0..[0, 1, 1, 2, 2, 2, 3][self.numbers.below(7)]).map(|_| self.extent()).collect()
    }

    /// A value of `scope` for which `fits` holds, a recent one more often.
    fn pick(&mut self, scope: &[Value], fits: impl Fn(&Value) -> bool) -> Option<Value> {
        let fitting: Vec<&Value> = scope.iter().filter(|v| fits(v)).collect();
        let n = fitting.len();
        let back = if self.numbers.below(2) == 0 { n.min(4) } else { n };
        (n > 0).then(|| fitting[n - 1 - self.numbers.below(back)].clone())
    }

    fn any(&mut self, scope: &[Value]) -> Option<Value> {
        self.pick(scope, |_| true)
    }

    /// A value of this element type and shape: one of `scope`, or a constant.
    fn like(&mut self, b: &mut Builder<'_>, scope: &[Value], elem: ElementType, dims: &[i64]) -> Option<Value> {
        match self.pick(scope, |v| v.elem == elem && v.dims == dims) {
            Some(found) if self.numbers.below(8) > 0 => Some(found),
            _ => self.constant(b, elem, dims),
        }
    }

    /// A constant with elements of its own, or one number for all.
    fn constant(&mut self, b: &mut Builder<'_>, elem: ElementType, dims: &[i64]) -> Option<Value> {
        let splat = self.numbers.below(2) == 0;
        let literal = self.literal(elem, if splat { &[] } else { dims }, true);
        let id = match splat {
            true => b.splat_bytes(dims, elem, literal.bytes()).ok()?,
            false => b.constant(&literal).ok()?,
        };
        Some(Value::argument(id, elem, dims, true))
    }

    /// Numbers of the size that [`Value::argument`] promises.
    fn literal(&mut self, elem: ElementType, dims: &[i64], whole: bool) -> Literal {
        let mut x = Literal::zeros(dims.iter().copied(), elem);
        for i in 0..x.len() {
            let mut number = || match whole {
                true => self.numbers.below(2 * value::LARGEST + 1) as f64 - value::LARGEST as f64,
                false => (self.numbers.below(1 << 20) as f64 / f64::from(1 << 19) - 1.0) * value::LARGEST as f64,
            };
            let (re, im) = (number(), number());
            let value = match elem.class() {
                ElementClass::Bool => Scalar::Bool(re > 0.0),
                ElementClass::Signed => Scalar::from_i64(elem, re as i64),
                ElementClass::Unsigned => Scalar::from_i64(elem, re.abs() as i64),
                ElementClass::Float => Scalar::from_f64(elem, re),
                ElementClass::Complex => Scalar::Complex(re, im).cast_to(elem),
            };
            x.set(i, value);
        }
        x
    }
}
