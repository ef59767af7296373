//! Placements inside a program.

use std::sync::Arc;

use crate::Tensor;
use crate::error::fail;
use crate::spec::{MESH, P};
use crate::trace::compose::emit;
use crate::trace::{Placing, placing, with_top};

impl Tensor {
    /// The same value, constrained to this placement on the mesh.
    ///
    /// On a `jit` that uses a [single device](crate::Jit::single_device) this changes nothing; on one that
    /// has no mesh it is an error.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let mesh = Mesh::linear("x", 4)?;
    /// let f = jit(|a: Tensor| (a + 1.0).shard(P!["x"])).on(&mesh);
    /// let b = f.call(&Array::from([0.0f32; 8]))?;
    /// assert_eq!(b.shards()[1].slice, [2..4]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn shard(&self, spec: impl AsRef<P>) -> Tensor {
        let spec = spec.as_ref();
        let mesh: Arc<_> = match placing("shard") {
            Placing::On(mesh) => mesh,
            Placing::Ignored(_) => return self.clone(),
            Placing::NoMesh => fail(
                "shard",
                format!(
                    "{spec} names mesh axes, but there is no mesh; give jit one with .on(&mesh), or pass an array that is on one"
                ),
            ),
        };
        match spec.sharding(MESH.into(), &mesh, self.rank()) {
            Ok(sharding) => {
                let manual = with_top("shard", |trace| trace.manual_axis(&sharding));
                if let Some(axis) = manual {
                    fail("shard", format!("{spec} names {axis}, which is manual here: each device has its own part"));
                }
                emit("shard", &[self], |b, v| b.sharding_constraint(v[0], sharding))
            }
            Err(e) => fail("shard", format!("{spec} for {}: {}", self.describe(), meshwork_mesh::spec::explain(&e))),
        }
    }
}

impl Tensor {
    /// As [`shard`](Tensor::shard), on another mesh than that of the program, over the same number of devices: the same devices in
    /// another grid, or in another order.
    ///
    /// ```
    /// use meshwork::prelude::*;
    ///
    /// let (line, grid) = (Mesh::linear("x", 4)?, Mesh::grid(("a", 2), ("b", 2))?);
    /// let f = jit(move |x: Tensor| (x * 2.0).shard_on(&grid, P!["a", "b"]));
    /// let y = f.call(&Array::zeros([4, 4], F32).shard(&line, P!["x"])?)?;
    /// assert_eq!(y.shards()[3].slice, [2..4, 2..4]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    #[track_caller]
    pub fn shard_on(&self, mesh: &meshwork_mesh::Mesh, spec: impl AsRef<P>) -> Tensor {
        let spec = spec.as_ref();
        let program: Arc<_> = match placing("shard_on") {
            Placing::On(program) => program,
            Placing::Ignored(_) => return self.clone(),
            Placing::NoMesh => {
                fail("shard_on", "there is no mesh; give jit one with .on(&mesh), or pass an array that is on one")
            }
        };
        if mesh.device_count() != program.device_count() {
            let (own, devices) = (mesh.device_count(), program.device_count());
            fail("shard_on", format!("the mesh {mesh} has {own} devices, that of the program {program} has {devices}"));
        }
        if *mesh == *program {
            return self.shard(spec);
        }
        if with_top("shard_on", |trace| !trace.manual.is_empty()) {
            fail("shard_on", "inside a manual region each device has its own part");
        }
        match spec.sharding(mesh.clone().into(), mesh, self.rank()) {
            Ok(sharding) => emit("shard_on", &[self], |b, v| b.sharding_constraint(v[0], sharding)),
            Err(e) => fail("shard_on", format!("{spec} for {}: {}", self.describe(), meshwork_mesh::spec::explain(&e))),
        }
    }
}

/// Gives all these tensors of one rank the same placement, whichever propagation finds. JAX calls it `shard_alike`.
///
/// For values that meet later, or that no operation ties together, such as the state of an optimizer and the gradient.
///
/// ```
/// use meshwork::prelude::*;
///
/// let mesh = Mesh::linear("x", 4)?;
/// let f = jit(|a: Tensor, b: Tensor| {
///     shard_alike(&[&a, &b]);
///     b
/// })
/// .on(&mesh);
/// let a = Array::zeros([8], F32).shard(&mesh, P!["x"])?;
/// assert_eq!(f.call((&a, &Array::zeros([8], F32)))?.shards()[1].slice, [2..4]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn shard_alike(tensors: &[&Tensor]) {
    let Some(first) = tensors.first() else { return };
    if let Some(other) = tensors.iter().find(|t| t.rank() != first.rank()) {
        fail("shard_alike", format!("{} and {} have different ranks", first.describe(), other.describe()));
    }
    with_top("shard_alike", |trace| {
        if !matches!(trace.placing, Placing::On(_)) {
            return;
        }
        let group = trace.annotations.next_group();
        for tensor in tensors {
            let value = trace.resolve("shard_alike", tensor);
            trace.build("shard_alike", |b| b.sharding_group(value, group));
        }
    });
}
