//! Manual regions: a part of the program written for one device, with the communication spelled out.
//!
//! - Inside, tensors have the shape that one device sees along the manual axes; along the other axes of the mesh they
//!   are whole, and split automatically as elsewhere.
//! - What the body captures, every device has whole.
//! - A result that is replicated along a manual axis must be equal on all devices: [`vary`] tracks which values may differ.

mod collective;
mod vary;

use std::collections::BTreeSet;
use std::sync::Arc;

use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, ElementType, OpKind, OpSpec, TensorType, Type, ValueId};
use meshwork_mesh::{AxisRef, Mesh, Sharding, axis_list};

pub use collective::{axis_index, axis_size};

use crate::Tensor;
use crate::error::fail;
use crate::ops::iota;
use crate::rule::{Leaf, Rule};
use crate::spec::{MESH, P};
use crate::trace::{self, Placing, placing, with_top};
use crate::tree::{Path, Tree, replace};

const NAME: &str = "shard_map";

/// A manual axis of a region under construction.
#[derive(Clone)]
pub(crate) struct ManualAxis {
    pub(crate) name: String,
    /// The position of the device along it, a tensor of one element.
    index: Tensor,
}

/// Runs `body` on every device along the mesh axes `axes`, on that device's part of `args`.
///
/// `ins` says how the arguments are split: one placement for each member of a tuple, or one for all; `outs` says how
/// what the devices return makes up the results. Inside, devices exchange data by [`psum`](Tensor::psum),
/// [`ppermute`](Tensor::ppermute) and similar collectives, and [`axis_index`] identifies them. Mesh axes that are not named
/// stay automatic. It is what JAX calls `shard_map`, and `sdy.manual_computation` in the program.
///
/// Parts are equal: an extent that the axes do not divide is an error. The automatic program has no such limit.
///
/// ```
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::linear("x", 4)?;
/// // Each device squares and sums its part; then the sums are added up.
/// let norm = jit(|v: Tensor| {
///     shard_map(["x"], [P!["x"]], [P![]], v, |v: Tensor| {
///         assert_eq!(v.shape(), [2]);
///         (&v * &v).sum_all().psum("x").sqrt()
///     })
/// })
/// .on(&mesh);
/// let v = Array::from([1.0f32, 1.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0]);
/// assert!((norm.call(&v)?.item::<f32>()? - 24.0f32.sqrt()).abs() < 1e-6);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn shard_map<'n, A: Tree, B: Tree, I: Into<Rule>, O: Into<Rule>>(
    axes: impl IntoIterator<Item = &'n str>,
    ins: impl IntoIterator<Item = I>,
    outs: impl IntoIterator<Item = O>,
    args: A,
    body: impl FnOnce(A) -> B,
) -> B {
    let region = Region::new(axes.into_iter().map(Into::into).collect());
    let ins: Vec<Rule> = ins.into_iter().map(Into::into).collect();
    let outs: Vec<Rule> = outs.into_iter().map(Into::into).collect();
    let inputs = named("argument", &args);
    let mut placed = vec![];
    let mut types = vec![];
    let specs = region.specs("ins", &ins, &inputs);
    for ((name, tensor), spec) in inputs.iter().zip(specs) {
        let sharding = region.sharding(name, &spec, tensor);
        types.push(region.local(name, &spec, &sharding, tensor));
        placed.push(sharding);
    }
    // One more argument for each axis: the position of the device. Unused ones are left out below.
    types.extend(region.axes.iter().map(|_| Arc::new(TensorType::new([1], ElementType::I32))));
    let (guard, tensors) = trace::start(types.iter(), placing(NAME));
    let (own, indices) = tensors.split_at(inputs.len());
    with_top(NAME, |trace| {
        let axis = |(a, t): (&AxisRef, &Tensor)| ManualAxis { name: a.name.to_string(), index: t.clone() };
        trace.manual.extend(region.axes.iter().zip(indices).map(axis));
    });
    let out = body(replace(&args, own));
    let results = named("result", &out);
    let returned: Vec<Tensor> = results.iter().map(|(_, t)| t.clone()).collect();
    let finished = trace::finish(guard, NAME, &returned);
    let module = finished.module;
    let Some(from) = module.entry().and_then(|f| module.body_of(f, 0)) else { return out };

    // The arguments that the region takes: the given ones, places of devices, and what the body captured.
    let inner = module.block(from).args().to_vec();
    let first = inputs.len() + region.axes.len();
    let mut taken: Vec<(ValueId, Tensor, Sharding)> = vec![];
    for ((&v, (_, tensor)), sharding) in inner.iter().zip(&inputs).zip(placed) {
        taken.push((v, tensor.clone(), sharding));
    }
    for (&v, axis) in inner[inputs.len()..first].iter().zip(&region.axes) {
        if !module.value(v).uses().is_empty() {
            let places = iota([axis.size(&region.mesh)], ElementType::I32, 0);
            let sharding = region.sharding("place", &P::of(vec![vec![axis.clone()]]), &places);
            taken.push((v, places, sharding));
        }
    }
    for (&v, tensor) in inner[first..].iter().zip(finished.captures) {
        let sharding = region.sharding("captured tensor", &P::replicated(), &tensor);
        taken.push((v, tensor, sharding));
    }

    let arguments = taken.iter().map(|(v, _, s)| (*v, region.split_axes(s))).collect();
    let varying = vary::returned(&module, from, arguments, &region.mesh);
    let (mut types, mut placed) = (vec![], vec![]);
    let specs = region.specs("outs", &outs, &results);
    for (((name, tensor), spec), varying) in results.iter().zip(specs).zip(varying) {
        let sharding = region.sharding(name, &spec, tensor);
        region.check_equal(name, &spec, &sharding, &varying);
        types.push(region.global(&sharding, tensor));
        placed.push(sharding);
    }
    let results = with_top(NAME, |trace| {
        trace.declare(&region.mesh);
        let values: Vec<ValueId> = taken.iter().map(|(_, t, _)| trace.resolve(NAME, t)).collect();
        let spec = OpSpec::new(OpKind::Sdy(SdyOp::ManualComputation))
            .operands(values)
            .results(types.into_iter().map(Type::Tensor))
            .attr("in_shardings", Attr::ShardingPerValue(taken.iter().map(|(_, _, s)| s.clone()).collect()))
            .attr("out_shardings", Attr::ShardingPerValue(placed.into()))
            .attr("manual_axes", Attr::Axes(region.axes.clone().into()));
        let inner: Vec<ValueId> = taken.iter().map(|(v, _, _)| *v).collect();
        trace.wrap(NAME, spec, &module, &inner)
    });
    replace(&out, &results)
}

/// The tensors of a tree, called `argument`, or `argument 0/w` after their paths.
fn named(kind: &str, tree: &impl Tree) -> Vec<(String, Tensor)> {
    let name = |path: &str| if path.is_empty() { kind.to_string() } else { format!("{kind} {path}") };
    let mut out = vec![];
    tree.tensors(&mut Path::default(), &mut |p, t| out.push((name(p), t.clone())));
    out
}

/// The mesh of the program, of which `op` needs an axis.
#[track_caller]
fn mesh_for(op: &str) -> Arc<Mesh> {
    match placing(op) {
        Placing::On(mesh) | Placing::Ignored(Some(mesh)) => mesh,
        Placing::NoMesh | Placing::Ignored(None) => fail(
            op,
            "there is no mesh whose axes could be named; give jit one with .on(&mesh), or pass an array that is on one",
        ),
    }
}

/// The mesh and the axes along which a body is written for single devices.
struct Region {
    mesh: Arc<Mesh>,
    axes: Vec<AxisRef>,
}

impl Region {
    #[track_caller]
    fn new(axes: Vec<AxisRef>) -> Region {
        let mesh = mesh_for(NAME);
        let around = with_top(NAME, |trace| trace.manual.iter().map(|a| a.name.clone()).collect::<Vec<_>>());
        for (i, axis) in axes.iter().enumerate() {
            if mesh.axis_size(&axis.name).is_none() {
                fail(NAME, format!("unknown axis name: \"{}\"; the mesh is {mesh}", axis.name));
            }
            if axes[..i].contains(axis) {
                fail(NAME, format!("axis \"{}\" is named twice", axis.name));
            }
            if around.contains(&axis.name.to_string()) {
                fail(NAME, format!("axis \"{}\" is manual already, by a shard_map around this one", axis.name));
            }
        }
        Region { mesh, axes }
    }

    /// The placement of each tensor by the rules.
    #[track_caller]
    fn specs(&self, what: &str, rules: &[Rule], tensors: &[(String, Tensor)]) -> Vec<P> {
        let path = |name: &'_ str| name.split_once(' ').map_or("", |(_, path)| path).to_string();
        let member = |path: &str| path.split('/').next().and_then(|n| n.parse::<usize>().ok());
        let count = tensors.iter().filter_map(|(name, _)| member(&path(name))).max().map_or(1, |m| m + 1);
        if rules.len() != 1 && rules.len() != count {
            fail(NAME, format!("{what} has {} placements for {count} members", rules.len()));
        }
        let mut specs = vec![];
        for (name, tensor) in tensors {
            let path = path(name);
            let (rule, inside) = match (member(&path), path.split_once('/')) {
                (Some(n), inside) if rules.len() > 1 => (rules.get(n), inside.map_or("", |(_, inside)| inside)),
                _ => (rules.first(), path.as_str()),
            };
            match rule.unwrap_or(&Rule::Free).spec(&Leaf::new(inside, &tensor.ty), &self.mesh) {
                Ok(spec) => specs.push(spec.unwrap_or_default()),
                Err(e) => fail(NAME, format!("{what}: {e}")),
            }
        }
        specs
    }

    /// The placement of a tensor at the border of the region. Axes that are not manual may split it further.
    #[track_caller]
    fn sharding(&self, name: &str, spec: &P, tensor: &Tensor) -> Sharding {
        let mut sharding = match spec.sharding(MESH.into(), &self.mesh, tensor.rank()) {
            Ok(sharding) => sharding,
            Err(e) => {
                fail(NAME, format!("{spec} for {name}, {}: {}", tensor.describe(), meshwork_mesh::spec::explain(&e)))
            }
        };
        for axis in sharding.dims.iter().flat_map(|d| &d.axes) {
            if !self.axes.contains(axis) {
                let axes: Vec<&str> = self.axes.iter().map(|a| &*a.name).collect();
                fail(NAME, format!("{spec} for {name} names {axis}, which is not one of the manual axes {axes:?}"));
            }
        }
        let all = self.axes.len() == self.mesh.axes().len();
        sharding.dims.iter_mut().for_each(|d| d.is_closed = all);
        sharding
    }

    /// The names of the axes that split a tensor.
    fn split_axes(&self, sharding: &Sharding) -> Vec<String> {
        sharding.dims.iter().flat_map(|d| &d.axes).map(|a| a.name.to_string()).collect()
    }

    /// What one device has of a tensor.
    #[track_caller]
    fn local(&self, name: &str, spec: &P, sharding: &Sharding, tensor: &Tensor) -> Arc<TensorType> {
        let mut dims = tensor.shape().to_vec();
        for (d, (n, entry)) in dims.iter_mut().zip(&sharding.dims).enumerate() {
            let parts = axis_list::product(&entry.axes, &self.mesh);
            if *n % parts != 0 {
                let axes: Vec<&str> = entry.axes.iter().map(|a| &*a.name).collect();
                fail(
                    NAME,
                    format!(
                        "{name}, {}, is placed {spec}: dimension {d} has {n} elements, which {axes:?} cannot split \
                         in {parts} equal parts; pad it to {}, or leave it to the automatic program, which takes any \
                         extent",
                        tensor.describe(),
                        (*n + parts - 1) / parts * parts,
                    ),
                );
            }
            *n /= parts;
        }
        Arc::new(TensorType::new(dims, tensor.dtype()))
    }

    /// Whether a result that may differ along the axes `varying` may be placed like this.
    #[track_caller]
    fn check_equal(&self, name: &str, spec: &P, sharding: &Sharding, varying: &BTreeSet<String>) {
        let split = self.split_axes(sharding);
        let mut several = self.axes.iter().filter(|a| a.size(&self.mesh) > 1).map(|a| a.name.to_string());
        let Some(axis) = several.find(|a| varying.contains(a) && !split.contains(a)) else { return };
        fail(
            NAME,
            format!(
                "{name} is placed {spec}, so all devices along \"{axis}\" must return the same value, but it may differ between \
                 them; combine it by psum, pmean, pmax or all_gather over \"{axis}\", or split it over \"{axis}\" in outs"
            ),
        );
    }

    /// The type of the whole that the devices' parts make up.
    fn global(&self, sharding: &Sharding, part: &Tensor) -> Arc<TensorType> {
        let dims = part.shape().iter().zip(&sharding.dims);
        let dims: Vec<i64> = dims.map(|(n, entry)| n * axis_list::product(&entry.axes, &self.mesh)).collect();
        Arc::new(TensorType::new(dims, part.dtype()))
    }
}
