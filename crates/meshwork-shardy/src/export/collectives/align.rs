//! Cutting the axes of two placements so that those that overlap are equal.

use meshwork_mesh::{AxisRef, Mesh};

/// The axes of each dimension.
pub type AxesPerDim = Vec<Vec<AxisRef>>;

/// Cuts the axes of both so that any two that overlap are equal.
pub fn align(first: AxesPerDim, second: AxesPerDim, mesh: &Mesh) -> (AxesPerDim, AxesPerDim) {
    let (of_first, of_second) = (sorted(&first), sorted(&second));
    (cut_at(first, &of_second, mesh), cut_at(second, &of_first, mesh))
}

fn sorted(axes: &AxesPerDim) -> Vec<AxisRef> {
    let mut all: Vec<AxisRef> = axes.iter().flatten().cloned().collect();
    all.sort();
    all
}

/// Cuts axes where one of `others`, in order, starts or ends within them.
pub fn cut_at(dims: AxesPerDim, others: &[AxisRef], mesh: &Mesh) -> AxesPerDim {
    dims.into_iter().map(|axes| axes.into_iter().flat_map(|axis| pieces(axis, others, mesh)).collect()).collect()
}

fn pieces(axis: AxisRef, others: &[AxisRef], mesh: &Mesh) -> Vec<AxisRef> {
    let mut pieces = vec![];
    let mut rest = axis;
    for other in others {
        if !other.overlaps(&rest) {
            continue;
        }
        if !other.can_coexist(&rest) || other.contains(&rest) {
            break;
        }
        pieces.extend(rest.prefix_without_overlap(other));
        pieces.extend(rest.overlap(other));
        match rest.suffix_without_overlap(other, mesh) {
            Some(suffix) => rest = suffix,
            None => return pieces,
        }
    }
    pieces.push(rest);
    pieces
}
