//! Generators of valid meshes, axis references and shardings.
#![allow(dead_code)]

use meshwork_mesh::{AxisRef, DimSharding, Mesh, Reduction, Sharding, axis_list};
use proptest::prelude::*;

/// All valid references to the axis `name` of `size`: the full axis and every sub-axis.
pub fn references(name: &str, size: i64) -> Vec<AxisRef> {
    let mut all = vec![AxisRef::full(name)];
    for pre in (1..=size).filter(|pre| size % pre == 0) {
        for part in (2..size).filter(|part| size % (pre * part) == 0) {
            all.push(AxisRef::sub(name, pre, part));
        }
    }
    all
}

/// Numbers that drive a generator; 0 for ever when they run out.
pub struct Choices(std::vec::IntoIter<u32>);

impl Choices {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.next().unwrap_or(0) as usize % limit.max(1)
    }
}

pub fn choices() -> impl Strategy<Value = Vec<u32>> {
    prop::collection::vec(any::<u32>(), 0..64)
}

/// A mesh of up to four axes, sometimes with a device order.
pub fn mesh(choices: &mut Choices) -> Mesh {
    let sizes = [2, 1, 3, 4, 6, 8, 12];
    let count = choices.below(4) + 1;
    let names = ["x", "y", "z", "w"].into_iter().take(count);
    let mesh = Mesh::new(names.map(|name| (name, sizes[choices.below(sizes.len())]))).unwrap();
    if choices.below(3) != 1 {
        return mesh;
    }
    let mut ids: Vec<i64> = (0..mesh.device_count()).collect();
    for index in (1..ids.len()).rev() {
        ids.swap(index, choices.below(index + 1));
    }
    mesh.with_device_ids(ids).unwrap()
}

/// Every axis of the mesh, cut into parts at random, in random order.
pub fn parts(mesh: &Mesh, choices: &mut Choices) -> Vec<AxisRef> {
    let mut parts = Vec::new();
    for axis in mesh.axes() {
        let mut pre = 1;
        while pre < axis.size {
            let rest = axis.size / pre;
            let sizes: Vec<i64> = (2..=rest).filter(|size| rest % size == 0).collect();
            let size = sizes[sizes.len() - 1 - choices.below(sizes.len())];
            parts.push(AxisRef::between(axis.name.clone(), pre, pre * size, mesh));
            pre *= size;
        }
        if axis.size == 1 {
            parts.push(AxisRef::full(axis.name.clone()));
        }
    }
    for index in (1..parts.len()).rev() {
        parts.swap(index, choices.below(index + 1));
    }
    parts
}

/// A valid sharding of rank 0 to 3 on a mesh.
pub fn sharding(mesh: &Mesh, choices: &mut Choices) -> Sharding {
    let rank = choices.below(4);
    let mut lists = vec![Vec::new(); rank + 3];
    for part in parts(mesh, choices) {
        let list = choices.below(rank + 3);
        axis_list::push(&mut lists[list], part, mesh);
    }
    let dims = lists[..rank].iter().map(|axes| {
        let dim = match choices.below(2) {
            0 => DimSharding::closed(axes),
            _ => DimSharding::open(axes),
        };
        let says_nothing = dim.is_closed && dim.axes.is_empty();
        match choices.below(4) {
            priority @ 1..=3 if !says_nothing => dim.with_priority(priority as i64 - 1),
            _ => dim,
        }
    });
    let sharding = Sharding::new("mesh", dims.collect::<Vec<_>>());
    for set in &mut lists[rank..] {
        axis_list::sort_and_merge(set, mesh);
    }
    let reduction = [Reduction::Sum, Reduction::Max, Reduction::Min][choices.below(3)];
    sharding.with_replicated(&lists[rank]).with_unreduced(reduction, &lists[rank + 1])
}

/// A mesh, a valid sharding on it and a shape of its rank.
pub fn placed() -> impl Strategy<Value = (Mesh, Sharding, Vec<i64>)> {
    choices().prop_map(|numbers| {
        let mut choices = Choices(numbers.into_iter());
        let mesh = mesh(&mut choices);
        let sharding = sharding(&mesh, &mut choices);
        let sizes = [7, 0, 1, 2, 3, 8, 12, 13, 102];
        let shape = (0..sharding.rank()).map(|_| sizes[choices.below(sizes.len())]).collect();
        (mesh, sharding, shape)
    })
}

/// A mesh and all its axes in parts, in two lists.
pub fn two_lists() -> impl Strategy<Value = (Mesh, Vec<AxisRef>, Vec<AxisRef>)> {
    choices().prop_map(|numbers| {
        let mut choices = Choices(numbers.into_iter());
        let mesh = mesh(&mut choices);
        let (mut first, mut second) = (Vec::new(), Vec::new());
        axis_list::extend(&mut first, parts(&mesh, &mut choices), &mesh);
        axis_list::extend(&mut second, parts(&mesh, &mut choices), &mesh);
        let (keep_first, keep_second) = (choices.below(first.len() + 1), choices.below(second.len() + 1));
        first.truncate(first.len() - keep_first);
        second.truncate(second.len() - keep_second);
        (mesh, first, second)
    })
}
