//! Groups of neighbors that fill a lane, which a kernel loads and stores as one number.
//!
//! ```text
//! bytes  r g b a   ◄──►   ui32  r + 256 * g + 65536 * b + 16777216 * a
//! ```
//!
//! A lane is as wide as the widest number that the kernel computes with anyway: shifts and masks are all that it takes.

use meshwork_ir::ElementType;

use super::interleaved::Interleaved;
use super::nest::Array;
use crate::kernel::build::Builder;
use crate::kernel::ir::{Access, Arg, BinaryOp, Body, Cmp, Op, Phase, Ty, Val};

/// A group of which each element is an argument: their numbers in order.
#[derive(Debug)]
pub(super) struct Packed {
    members: Vec<usize>,
    word: Ty,
}

/// What stands for all elements of `groups`, if they are whole, where a number of their size may be, and no wider than `widest`, the
/// bytes of a lane.
pub(super) fn find(groups: &[Interleaved], arrays: &[Array], args: &[Arg], widest: usize) -> Vec<Packed> {
    let packed = |g: &Interleaved| {
        let members: Vec<usize> = g.whole()?.collect();
        let elem = args[members[0]].elem;
        let size = elem.storage_bytes();
        let fits = match elem {
            ElementType::I1 | ElementType::I8 | ElementType::UI8 | ElementType::I16 | ElementType::UI16 => true,
            ElementType::BF16 => widest >= 4,
            _ => false,
        };
        let word = match size * members.len() {
            2 => Ty::U16,
            4 => Ty::U32,
            8 => Ty::U64,
            _ => return None,
        };
        let first = &arrays[members[0]];
        let mut places =
            first.strides.iter().copied().chain(first.moved.iter().map(|m| m.stride)).chain([first.offset]);
        let is_aligned = places.all(|at| at % word.size() as i64 == 0);
        (fits && is_aligned && word.size() <= widest).then_some(Packed { members, word })
    };
    groups.iter().filter_map(packed).collect()
}

impl Packed {
    /// Whether `group` is this one.
    pub fn is(&self, group: &Interleaved) -> bool {
        group.arrays().any(|i| i == self.members[0])
    }

    /// The argument that becomes the whole group.
    pub fn first(&self) -> usize {
        self.members[0]
    }

    /// Whether `arg` is in the group and not the one that stands for it.
    pub fn replaces(&self, arg: usize) -> bool {
        self.members[1..].contains(&arg)
    }

    /// Bytes of the group.
    pub fn bytes(&self) -> i64 {
        self.word.size() as i64
    }
}

/// `body` with one argument for each of `groups`; `None` if it does not store all elements of a group in one phase.
pub(super) fn pack(body: &Body, groups: &[Packed]) -> Option<Body> {
    let mut numbers: Vec<u16> = vec![];
    let mut args: Vec<Arg> = vec![];
    for (i, arg) in body.args.iter().enumerate() {
        numbers.push(args.len() as u16);
        if let Some(group) = groups.iter().find(|g| g.first() == i) {
            args.push(Arg { elem: group.word.elem(), access: Access::Unit, ..*arg });
        } else if !groups.iter().any(|g| g.replaces(i)) {
            args.push(*arg);
        }
    }
    let phases = vec![];
    let mut out = Body { args, phases, ..body.clone() };
    for phase in &body.phases {
        let mut b = Builder::new(&out);
        let mut vals: Vec<Val> = vec![];
        let mut stored: Vec<Vec<Option<Val>>> = groups.iter().map(|g| vec![None; g.members.len()]).collect();
        let member = |arg: u16| {
            let place = |g: &Packed| g.members.iter().position(|&m| m == usize::from(arg));
            groups.iter().enumerate().find_map(|(i, g)| Some((i, place(g)?)))
        };
        for op in &phase.ops {
            let new = |arg: u16| numbers[usize::from(arg)];
            let v = match *op {
                Op::Load(arg) => match member(arg) {
                    Some((g, place)) => {
                        let word = b.push(Op::Load(new(groups[g].members[0] as u16)));
                        part(&mut b, body.args[usize::from(arg)].elem, word, place as u64)
                    }
                    None => b.push(Op::Load(new(arg))),
                },
                Op::Store(arg, v) => match member(arg) {
                    Some((g, place)) => {
                        stored[g][place] = Some(vals[usize::from(v)]);
                        if let Some(parts) = stored[g].iter().copied().collect::<Option<Vec<Val>>>() {
                            let elem = body.args[usize::from(arg)].elem;
                            let word = joined(&mut b, elem, groups[g].word, &parts);
                            b.push(Op::Store(new(groups[g].members[0] as u16), word));
                            stored[g].fill(None);
                        }
                        0
                    }
                    None => b.push(Op::Store(new(arg), vals[usize::from(v)])),
                },
                Op::LoadAt(arg, at) => b.push(Op::LoadAt(new(arg), vals[usize::from(at)])),
                Op::StoreAt(arg, at, v) => b.push(Op::StoreAt(new(arg), vals[usize::from(at)], vals[usize::from(v)])),
                op => b.push(op.map(|v| vals[usize::from(v)])),
            };
            vals.push(v);
        }
        if stored.iter().flatten().any(Option::is_some) {
            return None;
        }
        let ops = b.ops;
        out.phases.push(Phase { extent: phase.extent, ops });
    }
    Some(out)
}

/// Element `place` of a group of elements of type `elem`.
fn part(b: &mut Builder<'_>, elem: ElementType, word: Val, place: u64) -> Val {
    let whole = b.ty(word);
    let bits = 8 * elem.storage_bytes() as u64;
    let by = b.bits(whole, bits * place);
    match elem {
        ElementType::I1 => {
            let (own, zero) = (b.bits(whole, 0xFF << (bits * place)), b.bits(whole, 0));
            let own = b.bin(BinaryOp::And, word, own);
            b.cmp(Cmp::Ne, own, zero)
        }
        ElementType::BF16 => {
            let first = b.bin(BinaryOp::ShiftRightLogical, word, by);
            let (half, upper) = (b.convert(Ty::U32, first), b.bits(Ty::U32, bits));
            let number = b.bin(BinaryOp::ShiftLeft, half, upper);
            b.cast(Ty::F32, number)
        }
        _ => {
            let first = b.bin(BinaryOp::ShiftRightLogical, word, by);
            let own = b.convert(if bits == 8 { Ty::U8 } else { Ty::U16 }, first);
            b.cast(Ty::of(elem).unwrap_or(Ty::U8), own)
        }
    }
}

/// The group of these elements.
fn joined(b: &mut Builder<'_>, elem: ElementType, word: Ty, parts: &[Val]) -> Val {
    let bits = 8 * elem.storage_bytes() as u64;
    let mut all = b.bits(word, 0);
    for (&v, place) in parts.iter().zip(0..) {
        let own = match elem {
            ElementType::I1 => b.convert(word, v),
            ElementType::BF16 => {
                let rounded = b.push(Op::Round(elem, v));
                let (number, upper) = (b.cast(Ty::U32, rounded), b.bits(Ty::U32, bits));
                let half = b.bin(BinaryOp::ShiftRightLogical, number, upper);
                b.convert(word, half)
            }
            _ => {
                let own = b.cast(if bits == 8 { Ty::U8 } else { Ty::U16 }, v);
                b.convert(word, own)
            }
        };
        let by = b.bits(word, bits * place);
        let own = b.bin(BinaryOp::ShiftLeft, own, by);
        all = if place == 0 { own } else { b.bin(BinaryOp::Or, all, own) };
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::compile::testing::check;

    /// Stacks on the last axis of what is read from others, where numbers are as wide as a group of elements, or wider.
    #[test]
    fn groups_are_read_and_written_as_words() {
        for (elem, count, wide) in [
            ("ui8", 2, "ui16"),
            ("i8", 2, "i16"),
            ("i8", 2, "f32"),
            ("ui8", 4, "f32"),
            ("i8", 4, "i32"),
            ("i16", 2, "i32"),
            ("ui16", 2, "i64"),
            ("i16", 4, "i64"),
            ("bf16", 2, "f32"),
            ("bf16", 4, "f64"),
            ("i1", 4, "i32"),
            ("i1", 8, "i64"),
            ("ui8", 8, "ui64"),
        ] {
            for n in [1200, 1031, 33] {
                let part = |i: usize| {
                    format!(
                        "%s{i} = stablehlo.slice %x [0:{n}, {i}:{end}] : (tensor<{n}x{count}x{elem}>) -> tensor<{n}x1x{elem}>
                         %w{i} = stablehlo.convert %s{i} : (tensor<{n}x1x{elem}>) -> tensor<{n}x1x{wide}>
                         %m{i} = stablehlo.maximum %w{i}, %y : tensor<{n}x1x{wide}>
                         %p{i} = stablehlo.convert %m{i} : (tensor<{n}x1x{wide}>) -> tensor<{n}x1x{elem}>\n",
                        end = i + 1
                    )
                };
                let parts: String = (0..count).map(part).collect();
                let names: Vec<String> = (0..count).rev().map(|i| format!("%p{i}")).collect();
                let types = vec![format!("tensor<{n}x1x{elem}>"); count].join(", ");
                let text = check(
                    &format!(
                        "func.func @main(%x: tensor<{n}x{count}x{elem}>, %y: tensor<{n}x1x{wide}>) -> tensor<{n}x{count}x{elem}> {{
                        {parts} %r = stablehlo.concatenate {names}, dim = 1 : ({types}) -> tensor<{n}x{count}x{elem}>
                        return %r : tensor<{n}x{count}x{elem}> }}",
                        names = names.join(", ")
                    ),
                    0.0,
                );
                assert_eq!(text.matches("fused").count(), 1, "{elem} {count} {wide}: {text}");
            }
        }
    }

    /// Groups that do not start where a number of their size may be.
    #[test]
    fn groups_at_odd_places() {
        for from in [0, 1, 2, 4] {
            let (n, all) = (700, 4 * 700 + from);
            check(
                &format!(
                    "func.func @main(%x: tensor<{all}xui8>) -> tensor<{n}xi32> {{
                    %z = stablehlo.constant dense<0> : tensor<i32>
                    %s = stablehlo.slice %x [{from}:{all}] : (tensor<{all}xui8>) -> tensor<{len}xui8>
                    %g = stablehlo.reshape %s : (tensor<{len}xui8>) -> tensor<{n}x4xui8>
                    %w = stablehlo.convert %g : (tensor<{n}x4xui8>) -> tensor<{n}x4xi32>
                    %r = stablehlo.reduce(%w init: %z) applies stablehlo.maximum across dimensions = [1]
                        : (tensor<{n}x4xi32>, tensor<i32>) -> tensor<{n}xi32>
                    return %r : tensor<{n}xi32> }}",
                    len = 4 * n
                ),
                0.0,
            );
        }
    }

    /// What was cut to a byte or two and is a wide number again.
    #[test]
    fn numbers_that_were_narrow() {
        for (narrow, wide) in
            [("ui8", "i32"), ("i8", "ui32"), ("i16", "i32"), ("ui16", "ui32"), ("i8", "i16"), ("i8", "f32")]
        {
            for places in [0, 5, 8, 16, 24] {
                let of = if wide == "f32" { "i32" } else { wide };
                let places = if of == "i16" { places.min(8) } else { places };
                check(
                    &format!(
                        "func.func @main(%x: tensor<77x{of}>) -> (tensor<77x{wide}>, tensor<77x{narrow}>) {{
                        %c = stablehlo.constant dense<{places}> : tensor<77x{of}>
                        %s = stablehlo.shift_right_logical %x, %c : tensor<77x{of}>
                        %n = stablehlo.convert %s : (tensor<77x{of}>) -> tensor<77x{narrow}>
                        %w = stablehlo.convert %n : (tensor<77x{narrow}>) -> tensor<77x{wide}>
                        %t = stablehlo.add %w, %w : tensor<77x{wide}>
                        %u = stablehlo.convert %t : (tensor<77x{wide}>) -> tensor<77x{narrow}>
                        return %w, %u : tensor<77x{wide}>, tensor<77x{narrow}> }}"
                    ),
                    0.0,
                );
            }
        }
    }
}
