//! Which elements of its operands an operation reads for an element of its result, along each dimension.

use meshwork_ir::op::{BodyOp, ContractOp, MovementOp, SdyOp};
use meshwork_ir::{Attr, OpId, OpKind, ValueId};

use super::super::Splitter;
use super::super::window::padding_pairs;
use super::reach::{Along, Line, Spans};

/// How a dimension of an operand has to do with the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    /// Element `g` of this dimension of the result reads elements `g + first ..= g + last`.
    Reads { dim: usize, first: i64, last: i64 },
    /// All of it is read: no part of a line will do.
    All,
}

/// An array that an operation reads, and how.
pub type Source = (ValueId, Vec<Link>);

fn same(dim: usize) -> Link {
    Link::Reads { dim, first: 0, last: 0 }
}

/// Of a slide of `size` taps with `dilation` between them behind `low` of padding.
fn taps(dim: usize, size: i64, dilation: i64, low: i64) -> Link {
    Link::Reads { dim, first: -low, last: (size - 1) * dilation - low }
}

/// What a rotation of a whole line reads: of `source`, along `dim`, element `g + by`.
pub struct Rotation {
    pub source: ValueId,
    pub dim: usize,
    pub by: i64,
}

impl Splitter<'_> {
    /// What `op` reads. `None` if it is not known how it reads lines.
    pub(super) fn links(&self, op: OpId, spans: &Spans, lines: &[Line]) -> Option<Vec<Source>> {
        let data = self.src.op(op);
        let rank = |v: ValueId| self.src.ty(v).dims().len();
        let dims = |v: ValueId| self.src.ty(v).dims();
        let plain = |v: ValueId| (v, (0..rank(v)).map(same).collect::<Vec<Link>>());
        let all = |v: ValueId| (v, vec![Link::All; rank(v)]);
        let operands = || data.operands().iter().copied().filter(|&v| rank(v) > 0);
        let &[result, ..] = data.results() else { return None };
        match data.kind() {
            OpKind::Unary(_) | OpKind::Binary(_) | OpKind::Mixed(_) => Some(operands().map(plain).collect()),
            OpKind::Sdy(SdyOp::ShardingConstraint | SdyOp::Reshard) => Some(operands().map(plain).collect()),
            OpKind::Movement(MovementOp::BroadcastInDim) => {
                let (v, to) = (data.operands()[0], data.i64s("broadcast_dimensions")?);
                let link = |d: usize| {
                    let dim = to[d] as usize;
                    if dims(v)[d] == dims(result)[dim] { same(dim) } else { Link::All }
                };
                Some(vec![(v, (0..rank(v)).map(link).collect())])
            }
            OpKind::Movement(MovementOp::Transpose) => {
                let (v, from) = (data.operands()[0], data.i64s("permutation")?);
                let link = |d: usize| from.iter().position(|&f| f == d as i64).map(same);
                Some(vec![(v, (0..rank(v)).map(link).collect::<Option<_>>()?)])
            }
            OpKind::Movement(MovementOp::Reshape) => {
                let v = data.operands()[0];
                let long = |v: ValueId| (0..rank(v)).filter(|&d| dims(v)[d] != 1).collect::<Vec<usize>>();
                let (from, to) = (long(v), long(result));
                if !from.iter().map(|&d| dims(v)[d]).eq(to.iter().map(|&d| dims(result)[d])) {
                    return Some(vec![all(v)]);
                }
                let link = |d: usize| from.iter().position(|&f| f == d).map_or(Link::All, |i| same(to[i]));
                Some(vec![(v, (0..rank(v)).map(link).collect())])
            }
            OpKind::Movement(MovementOp::Slice) => {
                let (v, starts) = (data.operands()[0], data.i64s("start_indices")?);
                let strides = data.i64s("strides").unwrap_or_else(|| vec![1; rank(v)]);
                let link = |d: usize| match strides[d] {
                    1 => Link::Reads { dim: d, first: starts[d], last: starts[d] },
                    _ => Link::All,
                };
                Some(vec![(v, (0..rank(v)).map(link).collect())])
            }
            OpKind::Movement(MovementOp::Pad) => {
                let (v, low) = (data.operands()[0], data.i64s("edge_padding_low")?);
                let between = data.i64s("interior_padding")?;
                let link = |d: usize| match between[d] {
                    0 => Link::Reads { dim: d, first: -low[d], last: -low[d] },
                    _ => Link::All,
                };
                Some(vec![(v, (0..rank(v)).map(link).collect())])
            }
            OpKind::Movement(MovementOp::Concatenate) => {
                if let Some(Rotation { source, dim, by }) = self.rotation(op, spans, lines) {
                    let mut links = plain(source).1;
                    links[dim] = Link::Reads { dim, first: by, last: by };
                    return Some(vec![(source, links)]);
                }
                let dim = usize::try_from(data.int("dimension")?).ok()?;
                let mut start = 0;
                let pieces = data.operands().iter().map(|&v| {
                    let mut links = plain(v).1;
                    links[dim] = Link::Reads { dim, first: -start, last: -start };
                    start += dims(v)[dim];
                    (v, links)
                });
                Some(pieces.collect())
            }
            OpKind::Movement(MovementOp::DynamicUpdateSlice) | OpKind::Body(BodyOp::Scatter) => {
                let Some((update, starts, _)) = self.constant_assignment(op) else {
                    return Some(operands().map(all).collect());
                };
                let link = |d: usize| Link::Reads { dim: d, first: -starts[d], last: -starts[d] };
                Some(vec![plain(data.operands()[0]), (update, (0..starts.len()).map(link).collect())])
            }
            OpKind::Body(BodyOp::Reduce) => {
                let gone = data.i64s("dimensions")?;
                let link = |d: usize| {
                    let before = gone.iter().filter(|&&g| g < d as i64).count();
                    if gone.contains(&(d as i64)) { Link::All } else { same(d - before) }
                };
                Some(operands().map(|v| (v, (0..rank(v)).map(link).collect())).collect())
            }
            OpKind::Body(BodyOp::ReduceWindow) => {
                let slides = self.slides(op, rank(data.operands()[0]));
                let link = |(d, s): (usize, &super::super::window::Slide)| match (s.stride, s.base_dilation) {
                    (1, 1) => taps(d, s.size, s.dilation, s.low),
                    _ => Link::All,
                };
                let links: Vec<Link> = slides.iter().enumerate().map(link).collect();
                Some(operands().map(|v| (v, links.clone())).collect())
            }
            OpKind::Contract(ContractOp::Convolution) => {
                let Some(Attr::Conv(conv)) = data.attr("dimension_numbers") else { return None };
                let &[image, kernel] = data.operands() else { return None };
                let size = |i: usize| dims(kernel)[conv.kernel_spatial[i] as usize];
                let list = |name: &str| data.i64s(name).unwrap_or_else(|| vec![1; conv.input_spatial.len()]);
                let (stride, base, dilation) = (list("window_strides"), list("lhs_dilation"), list("rhs_dilation"));
                let padding = padding_pairs(data.attr("padding"), conv.input_spatial.len());
                let mut links = vec![Link::All; rank(image)];
                if data.int("batch_group_count").unwrap_or(1) == 1 {
                    links[conv.input_batch as usize] = same(conv.output_batch as usize);
                }
                for i in 0..conv.input_spatial.len() {
                    if (stride[i], base[i]) == (1, 1) {
                        let to = conv.output_spatial[i] as usize;
                        links[conv.input_spatial[i] as usize] = taps(to, size(i), dilation[i], padding[i].0);
                    }
                }
                Some(vec![(image, links), all(kernel)])
            }
            // On arrays that no line splits these are what they are anywhere.
            OpKind::Movement(_) | OpKind::Body(_) | OpKind::Contract(_) => Some(operands().map(all).collect()),
            _ => None,
        }
    }

    /// The rotation that `op`, a concatenation of the two pieces of an array, amounts to along a whole line.
    pub(super) fn rotation(&self, op: OpId, spans: &Spans, lines: &[Line]) -> Option<Rotation> {
        let data = self.src.op(op);
        let &[a, b] = data.operands() else { return None };
        let dim = usize::try_from(data.int("dimension")?).ok()?;
        let cut = |v: ValueId| {
            let slice = self.src.op(self.src.def_op(v)?);
            let source = *slice.operands().first()?;
            let (starts, limits) = (slice.i64s("start_indices")?, slice.i64s("limit_indices")?);
            let whole = |d: usize| d == dim || (starts[d] == 0 && limits[d] == self.src.ty(source).dims()[d]);
            let plain = slice.i64s("strides").is_none_or(|strides| strides.iter().all(|&s| s == 1));
            let is_slice = slice.kind() == MovementOp::Slice && plain && (0..starts.len()).all(whole);
            is_slice.then_some((source, starts[dim], limits[dim]))
        };
        let ((source, by, end), (other, zero, middle)) = (cut(a)?, cut(b)?);
        let n = self.src.ty(source).dims()[dim];
        let Some(Along::Line { line, .. }) = spans.get(&source)?.get(dim) else { return None };
        let turned = (other, zero, middle, end) == (source, 0, by, n) && lines[*line].extent == n;
        turned.then_some(Rotation { source, dim, by: if 2 * by > n { by - n } else { by } })
    }
}
