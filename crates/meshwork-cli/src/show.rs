//! Arrays as text, laid out as NumPy does: nested brackets, aligned columns, long ones shortened.

use meshwork_ir::{ElementClass, ElementType, Literal};

/// Arrays with more elements than this are shortened.
const FULL: usize = 1000;
/// Elements shown at each end of a shortened dimension.
const EDGE: i64 = 3;

/// Every result under a line that gives its number and type.
pub fn results(results: &[Literal]) -> String {
    let mut out = String::new();
    for (i, r) in results.iter().enumerate() {
        out.push_str(&format!("result {i}: {}\n{}\n", r.ty(), array(r)));
    }
    out
}

/// The elements of one array.
pub fn array(a: &Literal) -> String {
    let shorten = a.len() > FULL;
    let mut cells = vec![];
    collect(a, shorten, 0, 0, &mut cells);
    let width = cells.iter().map(|c| c.len()).max().unwrap_or(0);
    let mut out = String::new();
    layout(a, shorten, 0, width, &mut cells.into_iter(), &mut out);
    out
}

/// Indices shown of a dimension; `None` stands for the ones left out.
fn shown(extent: i64, shorten: bool) -> Vec<Option<i64>> {
    if shorten && extent > 2 * EDGE {
        (0..EDGE).map(Some).chain([None]).chain((extent - EDGE..extent).map(Some)).collect()
    } else {
        (0..extent).map(Some).collect()
    }
}

fn collect(a: &Literal, shorten: bool, dim: usize, base: i64, cells: &mut Vec<String>) {
    match a.dims().get(dim) {
        None => cells.push(element(a, base as usize)),
        Some(&extent) => {
            for i in shown(extent, shorten).into_iter().flatten() {
                collect(a, shorten, dim + 1, base * extent + i, cells);
            }
        }
    }
}

fn layout(
    a: &Literal,
    shorten: bool,
    dim: usize,
    width: usize,
    cells: &mut impl Iterator<Item = String>,
    out: &mut String,
) {
    let Some(&extent) = a.dims().get(dim) else {
        let cell = cells.next().unwrap_or_default();
        out.push_str(&format!("{cell:>width$}"));
        return;
    };
    let innermost = dim + 1 == a.dims().len();
    let separator = if innermost {
        ", ".to_string()
    } else {
        // One blank line more between blocks of each higher dimension.
        format!(",{}{}", "\n".repeat(a.dims().len() - dim - 1), " ".repeat(dim + 1))
    };
    out.push('[');
    for (k, i) in shown(extent, shorten).into_iter().enumerate() {
        if k > 0 {
            out.push_str(&separator);
        }
        match i {
            Some(_) => layout(a, shorten, dim + 1, width, cells, out),
            None => out.push_str("..."),
        }
    }
    out.push(']');
}

/// Element `i` as text that reads back to the same value.
fn element(a: &Literal, i: usize) -> String {
    let bytes = a.element(i);
    match a.elem().class() {
        ElementClass::Bool => (bytes[0] != 0).to_string(),
        ElementClass::Signed => a.get_i64(i).to_string(),
        ElementClass::Unsigned => (a.get_i64(i) as u64).to_string(),
        ElementClass::Float => float(a.elem(), bytes),
        ElementClass::Complex => {
            let part = a.elem().real_part();
            let (re, im) = bytes.split_at(part.storage_bytes());
            let im = float(part, im);
            let sign = if im.starts_with('-') { "" } else { "+" };
            format!("{}{sign}{im}i", float(part, re))
        }
    }
}

/// The shortest decimal that reads back: to `f64` for `f64`, to `f32` for all narrower formats.
fn float(elem: ElementType, bytes: &[u8]) -> String {
    let value = meshwork_ir::float::read(elem, bytes);
    match elem {
        ElementType::F64 => format!("{value:?}"),
        _ => format!("{:?}", value as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f32s(dims: &[i64], values: impl IntoIterator<Item = f32>) -> Literal {
        let bytes = values.into_iter().flat_map(f32::to_le_bytes).collect();
        Literal::from_bytes(dims.iter().copied(), ElementType::F32, bytes).unwrap()
    }

    #[test]
    fn columns_are_aligned() {
        let shown = array(&f32s(&[2, 2], [1.0, -2.5, 125000.0, 0.0]));
        assert_eq!(shown, "[[     1.0,     -2.5],\n [125000.0,      0.0]]");
    }

    #[test]
    fn scalars_empty_and_high_rank() {
        assert_eq!(array(&f32s(&[], [1.5])), "1.5");
        assert_eq!(array(&f32s(&[0], [])), "[]");
        assert_eq!(array(&f32s(&[2, 0], [])), "[[],\n []]");
        assert_eq!(array(&f32s(&[2, 1, 1], [1.0, 2.0])), "[[[1.0]],\n\n [[2.0]]]");
    }

    #[test]
    fn long_arrays_are_shortened() {
        let bytes = (0..2000i32).flat_map(i32::to_le_bytes).collect();
        let a = Literal::from_bytes([2000], ElementType::I32, bytes).unwrap();
        assert_eq!(array(&a), "[   0,    1,    2, ..., 1997, 1998, 1999]");
    }
}
