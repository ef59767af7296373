//! Sorting along one dimension by one key or several, and the first elements of that order.
//!
//! Keys become unsigned integers of the same order; positions are sorted with them, and the operands permuted.

use std::sync::Arc;

use meshwork_ir::comparator::{self, Part};
use meshwork_ir::op::MovementOp;
use meshwork_ir::{BlockId, ElementType, Module, OpId, OpKind, ValueId};

use super::attrs;
use super::copy::view_of;
use super::key::{Order, first_keys, has_key, sort_positions, write_keys};
use super::nest::{offsets, parts_of, piece};
use crate::compile::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, View, Work};

/// One operand of a sort, and where it goes.
#[derive(Debug)]
struct Column {
    from: Buf,
    /// Byte offset of each line.
    starts: Vec<isize>,
    step: isize,
    to: Buf,
    targets: Vec<isize>,
    to_step: isize,
    size: usize,
}

/// An operand that is sorted by.
#[derive(Clone, Copy, Debug)]
struct Key {
    by: usize,
    /// Bytes from the start of an element: complex numbers have two keys.
    at: isize,
    elem: ElementType,
    order: Order,
}

/// Sorts lines.
#[derive(Debug)]
struct Sort {
    columns: Vec<Column>,
    /// The keys, the most significant first.
    keys: Vec<Key>,
    n: usize,
    /// How many of each line are wanted.
    first: usize,
    /// Where the positions go: buffer and element type.
    places: Option<(Buf, ElementType)>,
    parts: usize,
}

impl Work for Sort {
    fn parts(&self) -> usize {
        self.parts
    }

    fn cost(&self) -> u64 {
        (self.columns[0].starts.len() * self.n * 15) as u64
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        let narrow = self.keys[0].elem.storage_bytes() <= 4 && self.n <= u32::MAX as usize;
        let (mut keys, mut order, mut spare, mut firsts) = (vec![], vec![], vec![], vec![]);
        let mut minor: Vec<u64> = vec![];
        for line in piece(self.columns[0].starts.len(), self.parts, part, 1) {
            // SAFETY: in the whole loop: elements of the lines of operands and results.
            unsafe {
                let start = |k: &Key| {
                    let by = &self.columns[k.by];
                    (frame.ptr(by.from).offset(by.starts[line] + k.at).cast_const(), by.step)
                };
                let read = |k: &Key, keys: &mut Vec<u64>| {
                    let ((from, step), have) = (start(k), keys.len());
                    keys.resize(have + self.n, 0);
                    write_keys(from, step, k.elem, k.order, &mut keys[have..]);
                };
                keys.clear();
                let few = self.first < self.n / 8 && self.keys.len() == 1 && self.n <= u32::MAX as usize;
                if !few {
                    read(&self.keys[0], &mut keys);
                }
                if self.keys.len() > 1 {
                    minor.clear();
                    self.keys[1..].iter().for_each(|k| read(k, &mut minor));
                    let of = |i: u32| minor.iter().skip(i as usize).step_by(self.n);
                    order.clear();
                    order.extend(0..self.n as u32);
                    order.sort_by(|&a, &b| keys[a as usize].cmp(&keys[b as usize]).then_with(|| of(a).cmp(of(b))));
                } else if few {
                    let (from, step) = start(&self.keys[0]);
                    first_keys((from, step, self.n), self.keys[0].elem, self.keys[0].order, self.first, &mut firsts);
                    order.clear();
                    order.extend(firsts.iter().map(|f| f.1));
                } else {
                    sort_positions(&keys, narrow, &mut order, &mut spare);
                }
                for column in &self.columns {
                    let from = frame.ptr(column.from).offset(column.starts[line]).cast_const();
                    let to = frame.ptr(column.to).offset(column.targets[line]);
                    for (i, &at) in order[..self.first].iter().enumerate() {
                        let from = from.offset(at as isize * column.step);
                        let to = to.offset(i as isize * column.to_step);
                        match column.size {
                            4 => to.cast::<[u8; 4]>().write(from.cast::<[u8; 4]>().read()),
                            8 => to.cast::<[u8; 8]>().write(from.cast::<[u8; 8]>().read()),
                            n => std::ptr::copy_nonoverlapping(from, to, n),
                        }
                    }
                }
                if let Some((buf, elem)) = self.places {
                    let size = elem.storage_bytes();
                    let to = frame.ptr(buf).add(line * self.first * size);
                    for (i, &at) in order[..self.first].iter().enumerate() {
                        let bytes = u64::from(at).to_le_bytes();
                        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.add(i * size), size);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Byte offsets of the lines of `x` along `dim`.
pub(super) fn lines(x: &View, dim: usize) -> Vec<isize> {
    let others: Vec<usize> = (0..x.dims.len()).filter(|&d| d != dim).collect();
    let pick = |list: &[i64]| -> Vec<i64> { others.iter().map(|&d| list[d]).collect() };
    offsets(&pick(&x.dims), &pick(&x.strides)).into_iter().map(|o| o + x.offset as isize).collect()
}

/// The keys that a comparator sorts by, if it has some, and kernels have them.
fn recognise_keys(module: &Module, block: BlockId) -> Option<Vec<Key>> {
    let found = comparator::keys(module, block)?;
    let key = |k: &comparator::Key| {
        let order = Order { descending: k.descending, canonical: k.canonical };
        let at = if k.part == Part::Imaginary { k.elem.storage_bytes() as isize } else { 0 };
        has_key(k.elem).then_some(Key { by: k.operand, at, elem: k.elem, order })
    };
    found.iter().map(key).collect()
}

/// `stablehlo.sort` by keys, or by any comparator.
pub(super) fn lower(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let keys = cx.module.body_of(op, 0).and_then(|b| recognise_keys(cx.module, b));
    let views = data.operands().iter().map(|&v| view_of(cx, v)).collect::<Result<Vec<_>, _>>()?;
    let rank = views[0].dims.len() as i64;
    let dim = data.int("dimension").unwrap_or(-1);
    let dim = if dim < 0 { dim + rank } else { dim };
    if !(0..rank).contains(&dim) {
        return Err(format!("{} along dimension {dim} of rank {rank}", data.name()));
    }
    let dim = dim as usize;
    let Some(keys) = keys else { return super::general::sort::lower(cx, op, dim) };
    let (mut columns, mut writes) = (vec![], vec![]);
    for (view, &result) in views.iter().zip(data.results()) {
        let to = View::dense(cx.result(result), view.elem, &view.dims);
        writes.push(to.buf);
        columns.push(Column {
            from: view.buf,
            starts: lines(view, dim),
            step: view.strides[dim] as isize,
            to: to.buf,
            targets: lines(&to, dim),
            to_step: to.strides[dim] as isize,
            size: view.elem.storage_bytes(),
        });
    }
    let n = views[0].dims[dim] as usize;
    let first = data.results().iter().map(|&r| wanted(cx.module, r, dim)).max().map_or(n, |most| n.min(most as usize));
    let elem = keys[0].elem;
    let parts = parts_of(views[0].len() * 8, 1 << 14, columns[0].starts.len());
    let reads = views.iter().map(|v| v.buf).collect();
    let work = Sort { columns, keys, n, first, places: None, parts };
    let what = if first < n { format!("first {first} of") } else { "sort".into() };
    cx.step(op, format!("{what} {elem} {:?}", views[0].dims), Arc::new(work), reads, writes);
    Ok(true)
}

/// How many elements of `value` from the start of `dim` on are used.
fn wanted(module: &Module, value: ValueId, dim: usize) -> i64 {
    let of_user = |op: OpId| {
        let user = module.op(op);
        let limit = user.i64s("limit_indices").filter(|_| user.kind() == OpKind::Movement(MovementOp::Slice));
        limit.and_then(|list| list.get(dim).copied()).unwrap_or(i64::MAX)
    };
    module.value(value).uses().iter().map(|u| of_user(u.op)).max().unwrap_or(0)
}

/// `chlo.top_k`.
pub(super) fn top_k(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let x = view_of(cx, data.operands()[0])?;
    let k = attrs::index(data, "k")?;
    let &[values, places] = data.results() else { return Ok(false) };
    let place = cx.shape(places).0;
    let Some(&n) = x.dims.last().filter(|&&n| k as i64 <= n) else { return Ok(false) };
    let real = x.elem.real_part();
    if !has_key(real) || !place.is_integer() || place.bits() < 8 {
        return Ok(false);
    }
    let dim = x.dims.len() - 1;
    let (elem, shape) = cx.shape(values);
    let to = View::dense(cx.result(values), elem, &shape);
    let place_buf = cx.result(places);
    let column = Column {
        from: x.buf,
        starts: lines(&x, dim),
        step: x.strides[dim] as isize,
        to: to.buf,
        targets: lines(&to, dim),
        to_step: to.strides[dim] as isize,
        size: elem.storage_bytes(),
    };
    let parts = parts_of(x.len() * 8, 1 << 14, column.starts.len());
    let order = Order { descending: true, canonical: false };
    let places = Some((place_buf, place));
    let (columns, n) = (vec![column], n as usize);
    // Complex numbers by their real parts, then by their imaginary parts.
    let parts_of_one = if elem.is_complex() { 2 } else { 1 };
    let key = |part: usize| Key { by: 0, at: (part * real.storage_bytes()) as isize, elem: real, order };
    let keys = (0..parts_of_one).map(key).collect();
    let work = Sort { columns, keys, n, first: k, places, parts };
    cx.step(op, format!("top {k} of {elem} {:?}", x.dims), Arc::new(work), vec![x.buf], vec![to.buf, place_buf]);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::library::testing::{check, check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    fn source(elem: &str, compare: &str, dims: &str, dim: i64) -> String {
        format!(
            "func.func @main(%a: tensor<{dims}x{elem}>, %b: tensor<{dims}xi32>) -> (tensor<{dims}x{elem}>, tensor<{dims}xi32>) {{
            %r:2 = \"stablehlo.sort\"(%a, %b) <{{dimension = {dim} : i64, is_stable = true}}> ({{
            ^bb0(%x: tensor<{elem}>, %y: tensor<{elem}>, %p: tensor<i32>, %q: tensor<i32>):
                {compare}
                stablehlo.return %c : tensor<i1>
            }}) : (tensor<{dims}x{elem}>, tensor<{dims}xi32>) -> (tensor<{dims}x{elem}>, tensor<{dims}xi32>)
            return %r#0, %r#1 : tensor<{dims}x{elem}>, tensor<{dims}xi32> }}"
        )
    }

    fn plain(elem: &str, direction: &str, order: &str) -> String {
        format!("%c = stablehlo.compare {direction}, %x, %y, {order} : (tensor<{elem}>, tensor<{elem}>) -> tensor<i1>")
    }

    #[test]
    fn one_key_of_all_types() {
        for (elem, order) in [
            ("i1", "UNSIGNED"),
            ("i8", "SIGNED"),
            ("ui8", "UNSIGNED"),
            ("i32", "SIGNED"),
            ("ui64", "UNSIGNED"),
            ("i64", "SIGNED"),
            ("f32", "TOTALORDER"),
            ("f64", "TOTALORDER"),
            ("bf16", "TOTALORDER"),
            ("f16", "TOTALORDER"),
        ] {
            for direction in ["LT", "GT"] {
                for (dims, dim) in [("4x33", 1), ("33x4", 0), ("1", 0), ("2x0", 1), ("0x2", 1)] {
                    check(&source(elem, &plain(elem, direction, order), dims, dim), 0.0);
                }
            }
        }
        check(&source("f32", &plain("f32", "LT", "TOTALORDER"), "5000", 0), 0.0);
        check(
            &source(
                "i32",
                "%c = stablehlo.compare GT, %q, %p, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>",
                "40",
                0,
            ),
            0.0,
        );
    }

    #[test]
    fn comparator_of_jax() {
        let compare = "%z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
            %n = stablehlo.constant dense<0x7FC00000> : tensor<f32>
            %1 = stablehlo.compare EQ, %x, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %2 = stablehlo.select %1, %z, %x : tensor<i1>, tensor<f32>
            %3 = stablehlo.compare NE, %x, %x, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %4 = stablehlo.select %3, %n, %2 : tensor<i1>, tensor<f32>
            %5 = stablehlo.compare EQ, %y, %z, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %6 = stablehlo.select %5, %z, %y : tensor<i1>, tensor<f32>
            %7 = stablehlo.compare NE, %y, %y, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
            %8 = stablehlo.select %7, %n, %6 : tensor<i1>, tensor<f32>
            %c = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>";
        let values = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0, f64::INFINITY, -1.0, 0.0, f64::NEG_INFINITY, f64::NAN, -0.0];
        let x = Literal::from_f64s([11], ElementType::F32, &values).unwrap();
        let args = [x, noise(&[11], ElementType::I32, 3)];
        check_on(&source("f32", compare, "11", 0), &args, 0.0);
        // As splitting leaves them.
        check_on(&source("f32", &compare.replace("stablehlo.constant", "sdy.constant"), "11", 0), &args, 0.0);
        let (constants, rest) = compare.split_at(compare.find("%1").expect("a first comparison"));
        let outside = source("f32", rest, "11", 0).replace("%r:2 =", &format!("{constants}\n%r:2 ="));
        check_on(&outside, &args, 0.0);
    }

    #[test]
    fn several_keys() {
        let compare = |first: &str, second: &str| {
            format!(
                "%1 = stablehlo.compare {first}, %x, %y, SIGNED : (tensor<i8>, tensor<i8>) -> tensor<i1>
                %2 = stablehlo.compare EQ, %x, %y, SIGNED : (tensor<i8>, tensor<i8>) -> tensor<i1>
                %3 = stablehlo.compare {second}, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
                %4 = stablehlo.and %2, %3 : tensor<i1>
                %c = stablehlo.or %1, %4 : tensor<i1>"
            )
        };
        for (first, second) in [("LT", "LT"), ("GT", "LT"), ("LT", "GT"), ("GT", "GT")] {
            for (dims, dim) in [("3x50", 1), ("50x3", 0), ("0", 0), ("1", 0)] {
                check(&source("i8", &compare(first, second), dims, dim), 0.0);
            }
        }
    }

    #[test]
    fn natural_order_of_floats() {
        let values = [0.0, -0.0, 1.0, f64::INFINITY, -1.0, 0.0, f64::NEG_INFINITY, -0.0];
        let x = Literal::from_f64s([8], ElementType::F32, &values).unwrap();
        let args = [x, noise(&[8], ElementType::I32, 3)];
        for direction in ["LT", "GT"] {
            check_on(&source("f32", &plain("f32", direction, "FLOAT"), "8", 0), &args, 0.0);
        }
    }

    #[test]
    fn other_comparators() {
        // By the absolute value, and among equal ones by the other operand, downwards.
        let compare = "%1 = stablehlo.abs %x : tensor<i32>
            %2 = stablehlo.abs %y : tensor<i32>
            %3 = stablehlo.compare LT, %1, %2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %4 = stablehlo.compare EQ, %1, %2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %5 = stablehlo.compare GT, %p, %q, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
            %6 = \"stablehlo.if\"(%4) ({ stablehlo.return %5 : tensor<i1> }, { stablehlo.return %3 : tensor<i1> })
                : (tensor<i1>) -> tensor<i1>
            %c = stablehlo.reshape %6 : (tensor<i1>) -> tensor<i1>";
        for (dims, dim) in [("3x50", 1), ("50x3", 0), ("0", 0), ("1", 0), ("3000", 0)] {
            let steps = check(&source("i32", compare, dims, dim), 0.0);
            assert!(steps.iter().any(|s| s.starts_with("general comparator")), "{steps:?}");
        }
        check(&source("i32", &plain("i32", "LE", "SIGNED"), "5", 0), 0.0);
        check(&source("f8E4M3FN", &plain("f8E4M3FN", "LT", "FLOAT"), "40", 0), 0.0);
    }

    #[test]
    fn top_k_of_lines() {
        for (elem, n, k) in [
            ("f32", 100, 3),
            ("i8", 9, 9),
            ("f64", 40, 2),
            ("bf16", 50, 0),
            ("f32", 2, 1),
            ("f32", 20_000, 600),
            ("i64", 9000, 5),
            ("i8", 9000, 300),
            ("f32", 4097, 8),
            ("bf16", 5000, 8),
            ("f16", 300, 1),
            ("ui32", 1000, 100),
            ("f64", 5000, 64),
            ("f32", 130, 16),
            ("i8", 1000, 16),
            ("f32", 200, 17),
        ] {
            check(
                &format!(
                    "func.func @main(%a: tensor<3x{n}x{elem}>) -> (tensor<3x{k}x{elem}>, tensor<3x{k}xi32>) {{
                    %v, %i = chlo.top_k(%a, k = {k}) : tensor<3x{n}x{elem}> -> (tensor<3x{k}x{elem}>, tensor<3x{k}xi32>)
                    return %v, %i : tensor<3x{k}x{elem}>, tensor<3x{k}xi32> }}"
                ),
                0.0,
            );
        }
    }
}
