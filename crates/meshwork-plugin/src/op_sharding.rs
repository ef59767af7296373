//! Shardings as `xla.OpSharding`: a grid of devices, one dimension of the grid per dimension of the array.

use meshwork_mesh::{AxisRef, Mesh, Sharding};

use meshwork_pjrt_abi::proto::{push_number, push_numbers};

const OTHER: u64 = 3;
const REPLICATED: i64 = 0;
const UNREDUCED: i64 = 6;

/// The serialized `OpSharding` of an array that is split so; no bytes if every device has all of it.
///
/// After the dimensions of the array the grid has one for the axes of partial sums and one for those that hold copies.
pub(crate) fn op_sharding(sharding: &Sharding, mesh: &Mesh) -> Vec<u8> {
    let mesh = sharding.mesh.inline().map_or(mesh, |own| own);
    let count = |axes: &[AxisRef]| axes.iter().map(|a| a.size(mesh)).product::<i64>();
    let unreduced = count(&sharding.unreduced);
    let mut dims: Vec<i64> = sharding.dims.iter().map(|d| d.num_shards(mesh)).collect();
    let tiles = dims.iter().product::<i64>() * unreduced;
    if tiles == 1 {
        return vec![];
    }
    let copies = mesh.device_count() / tiles;
    let mut kinds = vec![];
    if unreduced > 1 {
        dims.push(unreduced);
        kinds.push(UNREDUCED);
    }
    if copies > 1 {
        dims.push(copies);
        kinds.push(REPLICATED);
    }
    let mut out = vec![];
    push_number(&mut out, 1, OTHER);
    push_numbers(&mut out, 3, dims);
    push_numbers(&mut out, 4, devices(sharding, mesh));
    match kinds[..] {
        [] => {}
        [REPLICATED] => push_number(&mut out, 6, 1),
        _ => push_numbers(&mut out, 8, kinds),
    }
    out
}

/// The devices by tile, then by partial sum, then by copy.
fn devices(sharding: &Sharding, mesh: &Mesh) -> Vec<i64> {
    let axes: Vec<&AxisRef> = sharding.dim_axes().chain(&sharding.unreduced).collect();
    let mut all: Vec<(Vec<i64>, i64, i64)> = (0..mesh.device_count())
        .filter_map(|position| {
            let at = mesh.coordinates_at(position)?;
            let tile = axes.iter().map(|axis| axis.coordinate(&at, mesh)).collect();
            Some((tile, position, mesh.device_at(&at)?))
        })
        .collect();
    all.sort();
    all.into_iter().map(|(_, _, device)| device).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use meshwork_mesh::{DimSharding, Reduction};
    use meshwork_pjrt_abi::proto::{Field, fields, numbers};

    /// Numbers of a field of the sharding.
    fn field(bytes: &[u8], number: u64) -> Vec<u64> {
        let all = fields(bytes).unwrap();
        all.into_iter().filter(|f| f.0 == number).flat_map(|f| numbers(f.1).unwrap()).collect()
    }

    fn grid() -> Mesh {
        Mesh::grid(("x", 2), ("y", 4)).unwrap()
    }

    #[test]
    fn the_minor_axis_splits_the_major_dimension() {
        let sharding = Sharding::new("m", [DimSharding::closed(["y"]), DimSharding::closed(Vec::<&str>::new())]);
        let bytes = op_sharding(&sharding, &grid());
        assert_eq!(field(&bytes, 3), [4, 1, 2]);
        assert_eq!(field(&bytes, 4), [0, 4, 1, 5, 2, 6, 3, 7]);
        assert_eq!(fields(&bytes).unwrap().last(), Some(&(6, Field::Number(1))));
    }

    #[test]
    fn partial_sums_have_a_dimension_of_their_own() {
        let sharding = Sharding::new("m", [DimSharding::closed(["x"])]).with_unreduced(Reduction::Sum, ["y"]);
        let bytes = op_sharding(&sharding, &grid());
        assert_eq!((field(&bytes, 3), field(&bytes, 8)), (vec![2, 4], vec![6]));
        assert_eq!(field(&bytes, 4), [0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn copies_everywhere_are_no_bytes() {
        assert!(op_sharding(&Sharding::replicated("m", 2), &grid()).is_empty());
    }
}
