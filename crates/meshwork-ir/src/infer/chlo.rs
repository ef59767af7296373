//! CHLO operations that are not plain elementwise.

use smallvec::SmallVec;
use smol_str::format_smolstr;

use super::check::{Elems, dims_agree, types_agree};
use super::{Inferred, OpTypes, ResultType, Wrong, type_list};
use crate::{Attr, DYNAMIC, Dims, ElementType, TensorType, Type};

/// `constant_like`: a scalar in the operand's shape.
pub(super) fn constant_like(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let elem = match t.attrs.get("value") {
        Some(Attr::Int(_, e) | Attr::Float(_, e)) => *e,
        Some(Attr::Bool(_)) => ElementType::I1,
        // Complex scalars are kept as text; the declared result says which.
        Some(Attr::Opaque(_)) => t.wanted_tensor(0, Elems::ANY)?.elem,
        _ => return Err(t.missing("value", "a number")),
    };
    Ok(t.result_like(x, elem).into())
}

/// `top_k`: the k largest of the innermost dimension, and where they stood.
pub(super) fn top_k(t: &OpTypes) -> Inferred {
    t.operand_count(1)?;
    let x = t.tensor(0, "operand")?;
    let k = t.int("k")?;
    let mut dims = x.dims.clone();
    match dims.last_mut() {
        Some(last) if k >= 0 && (*last == DYNAMIC || *last >= k) => *last = k,
        _ => {
            return Err(t.bad_operand(0, "operand", format_smolstr!("of at least {k} elements in its last dimension")));
        }
    }
    Ok([t.result(&dims, x.elem), t.result(&dims, ElementType::I32)].into_iter().collect())
}

/// The lists of `#chlo.ragged_dot<lhs_batching_dimensions = [0], ...>`.
struct RaggedDims {
    lhs_batch: Vec<i64>,
    rhs_batch: Vec<i64>,
    lhs_contract: Vec<i64>,
    rhs_contract: Vec<i64>,
    lhs_ragged: Vec<i64>,
    rhs_group: Vec<i64>,
}

impl RaggedDims {
    fn parse(text: &str) -> RaggedDims {
        let list = |name: &str| -> Vec<i64> {
            let rest = text.find(name).map_or("", |at| &text[at + name.len()..]);
            let inner = rest.split_once('[').and_then(|(_, r)| r.split_once(']')).map_or("", |(inner, _)| inner);
            inner.split(',').filter_map(|d| d.trim().parse().ok()).collect()
        };
        RaggedDims {
            lhs_batch: list("lhs_batching_dimensions"),
            rhs_batch: list("rhs_batching_dimensions"),
            lhs_contract: list("lhs_contracting_dimensions"),
            rhs_contract: list("rhs_contracting_dimensions"),
            lhs_ragged: list("lhs_ragged_dimensions"),
            rhs_group: list("rhs_group_dimensions"),
        }
    }
}

/// `ragged_dot`: a product whose groups along one dimension have sizes given by an operand.
pub(super) fn ragged_dot(t: &OpTypes) -> Inferred {
    t.operand_count(3)?;
    let (lhs, rhs) = (t.tensor(0, "lhs")?, t.tensor(1, "rhs")?);
    let sizes = t.tensor_of(2, "group_sizes", Elems::INT)?;
    let d = match t.attrs.get("ragged_dot_dimension_numbers") {
        Some(Attr::Opaque(text)) => RaggedDims::parse(text),
        _ => {
            let (attr, expected) = ("ragged_dot_dimension_numbers", "#chlo.ragged_dot<...>");
            return Err(t.missing(attr, expected));
        }
    };
    super::contract::precision(t)?;
    t.disjoint("lhs_batching_dimensions", &d.lhs_batch, "lhs_contracting_dimensions", &d.lhs_contract)?;
    let rhs_used: Vec<i64> = d.rhs_batch.iter().chain(&d.rhs_contract).copied().collect();
    t.disjoint("rhs_group_dimensions", &d.rhs_group, "other rhs dimensions", &rhs_used)?;
    let ranges = [
        ("lhs_batching_dimensions", &d.lhs_batch, lhs),
        ("lhs_contracting_dimensions", &d.lhs_contract, lhs),
        ("lhs_ragged_dimensions", &d.lhs_ragged, lhs),
        ("rhs_batching_dimensions", &d.rhs_batch, rhs),
        ("rhs_contracting_dimensions", &d.rhs_contract, rhs),
        ("rhs_group_dimensions", &d.rhs_group, rhs),
    ];
    for (name, dims, ty) in ranges {
        t.dims_in_range(name, dims, ty.rank())?;
    }
    for (left, right) in [(&d.lhs_batch, &d.rhs_batch), (&d.lhs_contract, &d.rhs_contract)] {
        let pairs = left.iter().zip(right);
        let same = pairs.clone().all(|(&l, &r)| dims_agree(lhs.dims[l as usize], rhs.dims[r as usize]));
        if left.len() != right.len() || !same {
            return Err(t.mismatch(format!("pairs dimensions of different sizes of lhs {lhs} and rhs {rhs}")));
        }
    }
    let groups = ragged_groups(t, &d, lhs, rhs, sizes)?;
    let mut dims = Dims::new();
    if d.lhs_contract.contains(&d.lhs_ragged[0]) {
        dims.push(groups);
    }
    dims.extend(d.lhs_batch.iter().map(|&b| lhs.dims[b as usize]));
    let free = |ty: &TensorType, used: &[&[i64]]| -> Dims {
        let unused = (0..ty.rank()).filter(|&i| !used.iter().any(|l| l.contains(&(i as i64))));
        unused.map(|i| ty.dims[i]).collect()
    };
    dims.extend(free(lhs, &[&d.lhs_batch, &d.lhs_contract]));
    dims.extend(free(rhs, &[&d.rhs_batch, &d.rhs_contract, &d.rhs_group]));
    Ok(t.result(&dims, t.wanted_elem(0, lhs.elem)).into())
}

/// Checks the ragged dimension, the shape of the group sizes and the group dimension; the number of groups.
fn ragged_groups(
    t: &OpTypes,
    d: &RaggedDims,
    lhs: &TensorType,
    rhs: &TensorType,
    sizes: &TensorType,
) -> Result<i64, Wrong> {
    let [ragged] = d.lhs_ragged[..] else {
        return Err(
            t.bad_attr("lhs_ragged_dimensions", format!("must name one dimension, but names {}", d.lhs_ragged.len()))
        );
    };
    let Some(&groups) = sizes.dims.last() else {
        return Err(t.bad_operand(2, "group_sizes", "of rank 1 or more"));
    };
    let before = |list: &[i64]| -> Vec<i64> { list.iter().copied().take_while(|&x| x != ragged).collect() };
    let prefix: Vec<i64> = if d.lhs_batch.contains(&ragged) {
        before(&d.lhs_batch)
    } else if d.lhs_contract.contains(&ragged) {
        d.lhs_batch.iter().copied().chain(before(&d.lhs_contract)).collect()
    } else {
        let free = (0..ragged).filter(|x| !d.lhs_batch.contains(x) && !d.lhs_contract.contains(x));
        d.lhs_batch.iter().copied().chain(free).collect()
    };
    let prefix: Vec<i64> = prefix.iter().map(|&x| lhs.dims[x as usize]).collect();
    if sizes.rank() != 1 && sizes.dims[..sizes.rank() - 1] != prefix[..] {
        let expected = format_smolstr!("of shape {} and the number of groups", super::check::list(&prefix));
        return Err(t.bad_operand(2, "group_sizes", expected));
    }
    let non_contracting = !d.lhs_batch.contains(&ragged) && !d.lhs_contract.contains(&ragged);
    match (non_contracting, &d.rhs_group[..]) {
        (false, []) => Ok(groups),
        (true, &[g]) if dims_agree(groups, rhs.dims[g as usize]) => Ok(groups),
        (true, &[g]) => {
            Err(t.mismatch(format!("has {groups} groups, but rhs dimension {g} of {rhs} is {}", rhs.dims[g as usize])))
        }
        (_, dims) => {
            let needed = usize::from(non_contracting);
            Err(t
                .bad_attr("rhs_group_dimensions", format!("must name {needed} dimension(s), but names {}", dims.len())))
        }
    }
}

/// The sizes in `array<i32: 1, 2>`.
fn segments(attr: &Attr) -> Option<Vec<i64>> {
    match attr {
        Attr::Opaque(text) => {
            let list = text.strip_prefix("array<i32:")?.strip_suffix('>')?;
            list.split(',').map(|n| n.trim().parse().ok()).collect()
        }
        other => other.as_i64s(),
    }
}

/// `scan`: a body over slices along one dimension, with carries.
pub(super) fn scan(t: &OpTypes) -> Inferred {
    let args = t.args(0, "body")?;
    let returns = t.returns(0, "body")?;
    let (inputs, carries) = match t.attrs.get("operandSegmentSizes").and_then(segments).as_deref() {
        Some(&[a, b]) if a >= 0 && b >= 0 && (a + b) as usize == t.operands.len() => (a as usize, b as usize),
        // Without the split written out: the last operands whose body arguments have their own type are carries.
        _ => {
            let carried = t.operands.iter().zip(args.iter()).rev().take_while(|(o, a)| types_agree(o, a)).count();
            (t.operands.len() - carried, carried)
        }
    };
    let dim = t.int("dimension")?.max(0) as usize;
    if args.len() != t.operands.len() || returns.len() < carries {
        let detail = format!(
            "takes {} and returns {} values, but there are {} operands, {carries} of them carried",
            args.len(),
            returns.len(),
            t.operands.len()
        );
        return Err(t.bad_body("body", detail));
    }
    if inputs == 0 && returns.len() == carries {
        return Err(t.mismatch("has neither inputs nor outputs"));
    }
    let mut size = t.int_or("scan_dim_size", DYNAMIC)?;
    for (i, arg) in args.iter().enumerate() {
        let x = t.tensor(i, "inputs")?;
        let mut slice = x.clone();
        if i < inputs {
            if dim >= x.rank() || !dims_agree(size, x.dims[dim]) {
                return Err(t.bad_operand(
                    i,
                    "inputs",
                    format_smolstr!("of one size along dimension {dim} with the others"),
                ));
            }
            if x.dims[dim] != DYNAMIC {
                size = x.dims[dim];
            }
            slice.dims.remove(dim);
        }
        if !types_agree(&slice.clone().into(), arg) {
            let detail = format!("takes {} where it gets {slice} as argument {i}", type_list([arg]));
            return Err(t.bad_body("body", detail));
        }
    }
    let outputs = returns.len() - carries;
    let types = returns.iter().enumerate().map(|(i, ty)| match ty {
        Type::Tensor(r) if i < outputs && dim <= r.rank() => {
            let mut dims: SmallVec<[i64; 4]> = r.dims.clone();
            dims.insert(dim, size);
            Ok(t.result(&dims, r.elem))
        }
        Type::Tensor(_) if i >= outputs => Ok(ResultType::Known(returns.id(i))),
        _ => Err(t.bad_body("body", format!("returns {ty}, which has no dimension {dim} to stack along"))),
    });
    types.collect()
}
