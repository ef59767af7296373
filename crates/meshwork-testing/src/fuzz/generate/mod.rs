//! Random one-device programs: a walk that adds one operation at a time to the values there are.
//!
//! Numbers stay exact, so that results can be compared by bits: integers wrap around, and floats are whole numbers with a
//! bound that every operation keeps track of.

mod control;
mod elementwise;
mod indexing;
mod linalg;
mod manual;
mod movement;
mod reductions;

use meshwork_mesh::Mesh;

use crate::Numbers;

/// A value of the program being written.
#[derive(Clone, Debug)]
pub(super) struct Val {
    name: String,
    dims: Vec<i64>,
    elem: &'static str,
    /// No element of a float value is greater.
    bound: f64,
}

impl Val {
    fn ty(&self) -> String {
        tensor(&self.dims, self.elem)
    }

    fn rank(&self) -> usize {
        self.dims.len()
    }

    fn is_float(&self) -> bool {
        self.elem.starts_with('f')
    }

    fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }
}

/// Floats below this are exact in `f32`, sums and products included.
const MOST: f64 = (1 << 22) as f64;

/// More elements than this make a program slow.
const MOST_ELEMENTS: i64 = 2000;

/// `tensor<2x3xf32>`.
pub(super) fn tensor(dims: &[i64], elem: &str) -> String {
    let dims: String = dims.iter().map(|d| format!("{d}x")).collect();
    format!("tensor<{dims}{elem}>")
}

/// A list as MLIR writes it.
fn list<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// The greatest element that an argument or value of integer type `elem` may have.
fn bound_of(elem: &str) -> f64 {
    match elem {
        "i1" => 1.0,
        "i8" => 128.0,
        "ui8" => 255.0,
        "f32" | "f64" => 17.0,
        _ => f64::INFINITY,
    }
}

/// Where the operation being written stands.
#[derive(Clone, Debug)]
struct Scope {
    /// Whether new function arguments can be seen from here.
    sees_arguments: bool,
    /// Whether devices may disagree about running it.
    diverges: bool,
    /// Axes that enclosing manual computations hold.
    manual: Vec<usize>,
    depth: usize,
}

/// A program being written.
pub(super) struct Writer<'a> {
    numbers: &'a mut Numbers,
    mesh: &'a Mesh,
    values: Vec<Val>,
    arguments: Vec<String>,
    body: String,
    functions: String,
    next: usize,
    scope: Scope,
}

/// The text of a program of about `steps` operations. Manual computations in it are over `mesh`, which they call `@mesh`;
/// it has no other placement.
pub fn program(numbers: &mut Numbers, mesh: &Mesh, steps: usize) -> String {
    let scope = Scope { sees_arguments: true, diverges: false, manual: vec![], depth: 0 };
    let (values, arguments, body, functions) = (vec![], vec![], String::new(), String::new());
    let mut writer = Writer { numbers, mesh, values, arguments, body, functions, next: 0, scope };
    for _ in 0..1 + writer.numbers.below(3) {
        let (dims, elem) = (writer.dims(), writer.elem());
        writer.argument(dims, elem);
    }
    writer.steps(steps);
    let count = (1 + writer.numbers.below(3)).min(writer.values.len());
    let returned: Vec<Val> = writer.values.iter().rev().take(count).cloned().collect();
    let names: Vec<&str> = returned.iter().map(|v| v.name.as_str()).collect();
    let types: Vec<String> = returned.iter().map(Val::ty).collect();
    let (arguments, names, types) = (writer.arguments.join(", "), names.join(", "), types.join(", "));
    let (body, functions) = (&writer.body, &writer.functions);
    format!("func.func @main({arguments}) -> ({types}) {{\n{body}return {names} : {types}\n}}\n{functions}")
}

impl Writer<'_> {
    /// Adds up to `count` operations.
    fn steps(&mut self, count: usize) {
        for _ in 0..count {
            match self.numbers.below(43) {
                0..=4 => self.binary(),
                5 => self.unary(),
                6 => self.select(),
                7 => self.convert(),
                8..=19 => self.movement(),
                20..=22 => self.reduce(),
                23..=24 => self.dot(),
                25..=26 => self.window(),
                27 | 40 => self.sort(),
                28..=29 => self.gather(),
                30..=31 => self.scatter(),
                32 => self.dynamic_slice(),
                33 => self.dynamic_update_slice(),
                34 => self.source(),
                35 => self.loop_(),
                36 => self.branch(),
                37 => self.call(),
                41 => self.triangular_solve(),
                42 => self.cholesky(),
                _ => self.manual(),
            }
        }
    }

    fn fresh_name(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next)
    }

    /// Writes an operation with one result; `text` gets its name and type.
    fn push(&mut self, dims: Vec<i64>, elem: &'static str, bound: f64, text: impl FnOnce(&str, &str) -> String) {
        if dims.iter().product::<i64>() > MOST_ELEMENTS {
            return;
        }
        let name = self.fresh_name();
        let value = Val { name, dims, elem, bound };
        self.body += &text(&value.name, &value.ty());
        self.body.push('\n');
        self.values.push(value);
    }

    /// A new argument of the function.
    fn argument(&mut self, dims: Vec<i64>, elem: &'static str) -> Val {
        let name = format!("%a{}", self.arguments.len());
        let value = Val { name, dims, elem, bound: bound_of(elem) };
        self.arguments.push(format!("{}: {}", value.name, value.ty()));
        self.values.push(value.clone());
        value
    }

    /// Any value of this type: one that exists, an argument, or a constant.
    fn some(&mut self, dims: &[i64], elem: &'static str) -> Val {
        let same: Vec<Val> = self.values.iter().filter(|v| v.dims == dims && v.elem == elem).cloned().collect();
        if !same.is_empty() && !self.numbers.one_in(3) {
            return self.numbers.pick(&same).clone();
        }
        if self.scope.sees_arguments && !self.numbers.one_in(4) {
            return self.argument(dims.to_vec(), elem);
        }
        self.counting(dims.to_vec(), elem, 3, -2)
    }

    /// A value whose elements follow from their places: `scale * i + offset`, modulo a small number.
    fn counting(&mut self, dims: Vec<i64>, elem: &'static str, scale: i64, offset: i64) -> Val {
        let n = dims.iter().product::<i64>().max(0);
        let element = |i: i64| {
            let value = (scale * i + offset).rem_euclid(11) + offset.min(0);
            match elem {
                "i1" => (value % 2 != 0).to_string(),
                "ui8" | "ui32" => value.abs().to_string(),
                _ if elem.starts_with('f') => format!("{value}.0"),
                _ => value.to_string(),
            }
        };
        let text = if n == 0 { String::new() } else { nested(&dims, &mut (0..n).map(element)) };
        let name = self.fresh_name();
        let value = Val { name, dims, elem, bound: if elem.starts_with('f') { 17.0 } else { bound_of(elem) } };
        self.body += &format!("{} = stablehlo.constant dense<{text}> : {}\n", value.name, value.ty());
        self.values.push(value.clone());
        value
    }

    /// One of the values for which `fits` holds, later ones more often.
    fn pick(&mut self, fits: impl Fn(&Val) -> bool) -> Option<Val> {
        let all: Vec<&Val> = self.values.iter().filter(|v| fits(v)).collect();
        if all.is_empty() {
            return None;
        }
        let (a, b) = (self.numbers.below(all.len()), self.numbers.below(all.len()));
        Some(all[a.max(b)].clone())
    }

    fn dims(&mut self) -> Vec<i64> {
        let rank = *self.numbers.pick(&[0, 1, 1, 2, 2, 2, 3]);
        (0..rank).map(|_| self.extent()).collect()
    }

    fn extent(&mut self) -> i64 {
        *self.numbers.pick(&[0, 1, 2, 2, 3, 4, 4, 5, 6, 6, 7, 8, 12])
    }

    fn elem(&mut self) -> &'static str {
        self.numbers.pick::<&str>(&["i32", "i32", "i32", "i32", "f32", "f32", "f64", "i1", "i8", "ui8", "i64", "ui32"])
    }

    /// A constant scalar of type `elem`.
    fn constant(&mut self, elem: &str, text: &str) -> String {
        let name = self.fresh_name();
        self.body += &format!("{name} = stablehlo.constant dense<{text}> : tensor<{elem}>\n");
        name
    }
}

/// The elements of a constant in brackets.
fn nested(dims: &[i64], elements: &mut impl Iterator<Item = String>) -> String {
    match dims.split_first() {
        None => elements.next().unwrap_or_default(),
        Some((&n, rest)) => format!("[{}]", (0..n).map(|_| nested(rest, elements)).collect::<Vec<_>>().join(", ")),
    }
}
