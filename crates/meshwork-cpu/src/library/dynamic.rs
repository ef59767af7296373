//! Slices at positions that are data: `dynamic_slice` and `dynamic_update_slice`.

use std::sync::Arc;

use meshwork_ir::{ElementType, OpId, ValueId};

use super::copy::{BoxCopy, Copies, view_of};
use crate::compile::lower::Lower;
use crate::fuse::Moved;
use crate::program::Node;
use crate::step::{Buf, Fault, Frame, Scratch, Step, View, Work};

/// An integer in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub buf: Buf,
    pub offset: isize,
    pub elem: ElementType,
}

impl Place {
    /// Element zero of `view`.
    pub(crate) fn new(view: &View) -> Place {
        Place { buf: view.buf, offset: view.offset as isize, elem: view.elem }
    }

    /// The integer; unsigned ones beyond `i64` become its largest.
    ///
    /// # Safety
    /// The buffer is valid.
    pub(crate) unsafe fn get(&self, frame: &Frame<'_>) -> i64 {
        // SAFETY: the caller's.
        unsafe { read_index(frame.ptr(self.buf).offset(self.offset), self.elem) }
    }
}

/// The integer of type `elem` at `at`; unsigned ones beyond `i64` become its largest.
///
/// # Safety
/// `at` is valid for an element.
#[inline(always)]
pub(crate) unsafe fn read_index(at: *const u8, elem: ElementType) -> i64 {
    use ElementType::*;
    // SAFETY: the caller's.
    unsafe {
        match elem {
            I32 => i64::from(at.cast::<i32>().read_unaligned()),
            I64 | Index => at.cast::<i64>().read_unaligned(),
            UI32 => i64::from(at.cast::<u32>().read_unaligned()),
            UI64 => i64::try_from(at.cast::<u64>().read_unaligned()).unwrap_or(i64::MAX),
            I16 => i64::from(at.cast::<i16>().read_unaligned()),
            UI16 => i64::from(at.cast::<u16>().read_unaligned()),
            I8 | I4 | I2 => i64::from(at.cast::<i8>().read()),
            _ => i64::from(at.read()),
        }
    }
}

/// Whether [`read_index`] reads this type.
pub(super) fn is_index(elem: ElementType) -> bool {
    elem.is_integer() || elem == ElementType::I1
}

/// A box that is copied from or to a place found at run time.
#[derive(Debug)]
struct Moving {
    /// With the moving side at its lowest position.
    copy: BoxCopy,
    from: (Buf, isize),
    to: (Buf, isize),
    /// Start, largest start and byte stride per dimension.
    starts: Vec<(Place, i64, isize)>,
    /// Which side moves.
    reads: bool,
    /// Its bytes, if they are one piece.
    one_piece: Option<usize>,
}

impl Work for Moving {
    fn parts(&self) -> usize {
        self.copy.parts()
    }

    fn cost(&self) -> u64 {
        self.copy.cost() + 10
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, part: usize) -> Result<(), Fault> {
        // SAFETY: the trait's contract; clamped starts keep the box inside.
        unsafe {
            let shift: isize =
                self.starts.iter().map(|(p, most, stride)| p.get(frame).clamp(0, *most) as isize * stride).sum();
            let (from, to) = if self.reads { (shift, 0) } else { (0, shift) };
            let from = frame.ptr(self.from.0).offset(self.from.1 + from);
            let to = frame.ptr(self.to.0).offset(self.to.1 + to);
            match self.one_piece {
                Some(bytes) => std::ptr::copy_nonoverlapping(from.cast_const(), to, bytes),
                None => self.copy.run_at(from, to, part),
            }
        }
        Ok(())
    }
}

fn starts(cx: &Lower<'_>, places: &[ValueId], whole: &View, size: &[i64]) -> Result<Vec<(Place, i64, isize)>, String> {
    let start = |(d, &v): (usize, &ValueId)| {
        let view = view_of(cx, v)?;
        Ok((Place::new(&view), whole.dims[d] - size[d], whole.strides[d] as isize))
    };
    places.iter().enumerate().map(start).collect()
}

/// `stablehlo.dynamic_slice`.
pub(super) fn slice(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let result = data.results()[0];
    let from = view_of(cx, data.operands()[0])?;
    let (elem, dims) = cx.shape(result);
    let starts = starts(cx, &data.operands()[1..], &from, &dims)?;
    let buf = cx.result(result);
    let to = View::dense(buf, elem, &dims);
    let cut = View { dims: dims.clone(), ..from.clone() };
    let mut reads = vec![from.buf];
    reads.extend(starts.iter().map(|s| s.0.buf));
    let copy = BoxCopy::new(&cut, &to);
    let work = Moving {
        one_piece: copy.one_piece(),
        copy,
        from: (from.buf, from.offset as isize),
        to: (buf, 0),
        starts,
        reads: true,
    };
    cx.step(op, format!("dynamic_slice {elem} {dims:?}"), Arc::new(work), reads, vec![buf]);
    Ok(true)
}

/// `stablehlo.dynamic_update_slice`: a copy of the operand, which needs no time where operand and result share
/// memory, and then the update.
pub(super) fn update_slice(cx: &mut Lower<'_>, op: OpId) -> Result<bool, String> {
    let data = cx.module.op(op);
    let update = view_of(cx, data.operands()[1])?;
    let (elem, dims) = cx.shape(data.results()[0]);
    let whole = View::dense(Buf(0), elem, &dims);
    let starts = starts(cx, &data.operands()[2..], &whole, &update.dims)?;
    let buf = keep(cx, op, data.operands()[0], data.results()[0])?;
    let to = View { dims: update.dims.clone(), ..View::dense(buf, elem, &dims) };
    let name = format!("update {elem} {:?} of {dims:?}", update.dims);
    if store_at_once(cx, &update, &to, &starts, &name) {
        return Ok(true);
    }
    let mut reads = vec![update.buf, buf];
    reads.extend(starts.iter().map(|s| s.0.buf));
    let copy = BoxCopy::new(&update, &to);
    let work = Moving {
        one_piece: copy.one_piece(),
        copy,
        from: (update.buf, update.offset as isize),
        to: (buf, 0),
        starts,
        reads: false,
    };
    cx.step(op, name, Arc::new(work), reads, vec![buf]);
    Ok(true)
}

/// Lets the fused step that computes `update` store it at its place in `to` too, whose step [`keep`] is the last one: so a turn of
/// a scan that logs its state has a step less. Whether it does.
fn store_at_once(cx: &mut Lower<'_>, update: &View, to: &View, starts: &[(Place, i64, isize)], name: &str) -> bool {
    let in_one_piece = BoxCopy::new(update, to).one_piece().is_some_and(|bytes| bytes > 0) && update.is_dense();
    let Some(Node::Step(keep)) = cx.nodes.last().filter(|_| in_one_piece) else { return false };
    let old = keep.reads[0];
    let writes = |node: &Node| matches!(node, Node::Step(s) if s.writes.contains(&update.buf));
    let Some(at) = cx.nodes.iter().rposition(writes) else { return false };
    let (before, last) = (at, cx.nodes.len() - 1);
    // Until then nothing reads the old array, and the numbers of the place are known.
    let is_free = |node: &Node| match node {
        Node::Step(s) => {
            let touches_old = s.reads.contains(&old) || s.writes.contains(&old);
            !touches_old && !starts.iter().any(|(place, ..)| s.writes.contains(&place.buf))
        }
        _ => false,
    };
    if !cx.nodes[before..last].iter().all(is_free) {
        return false;
    }
    let Node::Step(step) = &cx.nodes[at] else { return false };
    let moved = starts.iter().filter(|s| s.1 > 0);
    let moved: Vec<Moved> =
        moved.map(|&(by, most, stride)| Moved { by, along: vec![], most, stride: stride as i64 }).collect();
    let Some(work) = step.work.fused().and_then(|f| f.also_storing(update.buf, to.buf, &moved)) else { return false };
    let mut step = Step { work: Arc::new(work), name: format!("{}, {name}", step.name), ..step.clone() };
    step.reads.push(to.buf);
    step.reads.extend(moved.iter().map(|m| m.by.buf));
    step.writes.push(to.buf);
    cx.nodes[at] = Node::Step(step);
    if let Some(keep) = cx.nodes.pop() {
        cx.nodes.insert(at, keep);
    }
    true
}

/// A new buffer for `result` with the elements of `operand`, for steps that then change some of them: the copy is in
/// place where the plan lets both share memory.
pub(super) fn keep(cx: &mut Lower<'_>, op: OpId, operand: ValueId, result: ValueId) -> Result<Buf, String> {
    let from = view_of(cx, operand)?;
    let buf = cx.result(result);
    let to = View::dense(buf, from.elem, &from.dims);
    let whole = cx.bufs[from.buf.0 as usize].bytes == cx.bufs[buf.0 as usize].bytes;
    let in_place = if from.is_dense() && whole { vec![(from.buf, buf)] } else { vec![] };
    let work = Keep { copies: Copies::new(vec![BoxCopy::new(&from, &to)]), from: from.buf, to: buf };
    cx.nodes.push(Node::Step(Step {
        work: Arc::new(work),
        reads: vec![from.buf],
        writes: vec![buf],
        in_place,
        op,
        name: format!("keep {} {:?}", from.elem, from.dims),
    }));
    Ok(buf)
}

/// A copy that does nothing where both buffers are one piece of memory.
#[derive(Debug)]
struct Keep {
    copies: Copies,
    from: Buf,
    to: Buf,
}

impl Work for Keep {
    fn parts(&self) -> usize {
        self.copies.parts()
    }

    fn cost(&self) -> u64 {
        self.copies.cost()
    }

    fn nothing_in_place(&self) -> bool {
        true
    }

    unsafe fn run(&self, frame: &Frame<'_>, scratch: &mut Scratch, part: usize) -> Result<(), Fault> {
        if frame.ptr(self.from) == frame.ptr(self.to) {
            Ok(())
        } else {
            // SAFETY: the trait's contract.
            unsafe { self.copies.run(frame, scratch, part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::compile::testing as loops;
    use crate::library::testing::{check, check_on, noise};
    use meshwork_ir::{ElementType, Literal};

    #[test]
    fn slices_and_updates_stay_inside() {
        for (i, j) in [(0, 0), (1, 2), (-5, 7), (100, -1)] {
            let index = |v: i64, e| Literal::from_i64s([], e, &[v]).unwrap();
            let args = [
                noise(&[7, 9], ElementType::F32, 1),
                noise(&[3, 4], ElementType::F32, 2),
                index(i, ElementType::I32),
                index(j, ElementType::I64),
            ];
            check_on(
                "func.func @main(%a: tensor<7x9xf32>, %u: tensor<3x4xf32>, %i: tensor<i32>, %j: tensor<i64>)
                    -> (tensor<3x4xf32>, tensor<7x9xf32>, tensor<9x7xf32>) {
                %0 = \"stablehlo.dynamic_slice\"(%a, %i, %j) {slice_sizes = array<i64: 3, 4>}
                    : (tensor<7x9xf32>, tensor<i32>, tensor<i64>) -> tensor<3x4xf32>
                %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<7x9xf32>) -> tensor<9x7xf32>
                %2 = \"stablehlo.dynamic_update_slice\"(%t, %u, %i, %j)
                    : (tensor<9x7xf32>, tensor<3x4xf32>, tensor<i32>, tensor<i64>) -> tensor<9x7xf32>
                %1 = \"stablehlo.dynamic_update_slice\"(%a, %u, %i, %j)
                    : (tensor<7x9xf32>, tensor<3x4xf32>, tensor<i32>, tensor<i64>) -> tensor<7x9xf32>
                return %0, %1, %2 : tensor<3x4xf32>, tensor<7x9xf32>, tensor<9x7xf32> }",
                &args,
                0.0,
            );
        }
    }

    /// A recurrence over rows that logs its state, forwards and backwards, and one that reads the array it writes.
    #[test]
    fn rows_are_stored_where_they_belong() {
        for (elem, n) in
            [("f32", 1), ("f32", 7), ("f32", 64), ("bf16", 33), ("f64", 5), ("i32", 16), ("i8", 9), ("i1", 9)]
        {
            let (all, row, flat) =
                (format!("tensor<6x{n}x{elem}>"), format!("tensor<1x{n}x{elem}>"), format!("tensor<{n}x{elem}>"));
            for (at, reads) in [("%i", "%x"), ("%back", "%x"), ("%i", "%log"), ("%far", "%x")] {
                let source = format!(
                    "func.func @main(%x: {all}, %s: {flat}, %l: {all}) -> ({flat}, {all}, {all}) {{
                    %zero = stablehlo.constant dense<0> : tensor<i32>
                    %five = stablehlo.constant dense<5> : tensor<i32>
                    %0:3 = stablehlo.while(%i = %zero, %h = %s, %log = %l) : tensor<i32>, {flat}, {all}
                    cond {{
                        %n = stablehlo.constant dense<6> : tensor<i32>
                        %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
                        stablehlo.return %c : tensor<i1>
                    }} do {{
                        %one = stablehlo.constant dense<1> : tensor<i32>
                        %next = stablehlo.add %i, %one : tensor<i32>
                        %back = stablehlo.subtract %five, %i : tensor<i32>
                        %far = stablehlo.multiply %i, %five : tensor<i32>
                        %a = stablehlo.dynamic_slice {reads}, %next, %zero, sizes = [1, {n}] : ({all}, tensor<i32>, tensor<i32>) -> {row}
                        %b = stablehlo.reshape %a : ({row}) -> {flat}
                        %d = stablehlo.maximum %b, %h : {flat}
                        %t = stablehlo.add %d, %b : {flat}
                        %r = stablehlo.reshape %t : ({flat}) -> {row}
                        %u = stablehlo.dynamic_update_slice %log, %r, {at}, %zero : ({all}, {row}, tensor<i32>, tensor<i32>) -> {all}
                        stablehlo.return %next, %t, %u : tensor<i32>, {flat}, {all}
                    }}
                    return %0#1, %0#2, %l : {flat}, {all}, {all} }}"
                );
                let text = loops::check(&source, 0.0);
                let is_loop = !text.contains("turns") && !text.contains("routine");
                assert_eq!(text.contains(", update"), is_loop && reads == "%x", "{text}");
            }
        }
    }

    #[test]
    fn updates_of_scalars_and_of_nothing() {
        check(
            "func.func @main(%a: tensor<i8>, %u: tensor<i8>, %b: tensor<4xi8>, %v: tensor<0xi8>, %i: tensor<ui64>)
                -> (tensor<i8>, tensor<4xi8>) {
            %0 = \"stablehlo.dynamic_update_slice\"(%a, %u) : (tensor<i8>, tensor<i8>) -> tensor<i8>
            %1 = \"stablehlo.dynamic_update_slice\"(%b, %v, %i) : (tensor<4xi8>, tensor<0xi8>, tensor<ui64>) -> tensor<4xi8>
            return %0, %1 : tensor<i8>, tensor<4xi8> }",
            0.0,
        );
    }
}
