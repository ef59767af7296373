//! The arrays at the border of a program: arguments go to its devices, results come from them.

use std::sync::Arc;

use meshwork_ir::TensorType;
use meshwork_mesh::{Mesh, Sharding};
use meshwork_partition::Compiled;

use crate::array::{Array, Place, Placement, Sharded, Split};
use crate::device::DeviceBuffer;
use crate::engine::placements;
use crate::error::{ArrayError, LoadError, RunError};

/// Where the arguments of a program go.
pub struct Inputs {
    count: usize,
    /// `None` on one device.
    places: Option<Vec<(Arc<Mesh>, Arc<Sharding>)>>,
}

impl Inputs {
    /// Those of `program`.
    pub fn new(program: &Compiled) -> Inputs {
        let place = |p: &Arc<Placement>| (p.mesh.clone(), Arc::new(p.sharding.clone()));
        let mesh = program.mesh.as_ref().filter(|_| program.devices() > 1);
        let places = mesh.map(|mesh| placements(program.inputs(), mesh).iter().map(place).collect());
        Inputs { count: program.inputs().len(), places }
    }

    /// What `take` makes of each argument, given its number and where it is wanted.
    pub fn take<T>(
        &self,
        args: Vec<Array>,
        take: impl Fn(usize, Array, Place<'_>) -> Result<T, ArrayError>,
    ) -> Result<Vec<T>, RunError> {
        let (wanted, given) = (self.count, args.len());
        if given != wanted {
            return Err(RunError::Arguments(format!("the program takes {wanted} arguments, {given} given")));
        }
        let place = |i: usize| self.places.as_ref().map(|all| (&all[i].0, &all[i].1));
        let taken = args.into_iter().enumerate().map(|(i, arg)| take(i, arg, place(i)));
        Ok(taken.collect::<Result<_, ArrayError>>()?)
    }
}

/// How the results of a program are made of the shards on its devices.
pub struct Outputs(Vec<Output>);

struct Output {
    split: Arc<Split>,
    /// Its placement, if the program has a mesh.
    placement: Option<Arc<Placement>>,
}

impl Outputs {
    /// Those of `program`, whose results have the types `local` on a device.
    pub fn new(program: &Compiled, local: impl IntoIterator<Item = TensorType>) -> Result<Outputs, LoadError> {
        let devices = program.devices();
        let mut placed = program.mesh.as_ref().map_or(vec![], |mesh| placements(program.outputs(), mesh)).into_iter();
        let output = |(i, local): (usize, TensorType)| {
            let placement = placed.next();
            let whole = match program.outputs()[i].ty.as_tensor() {
                Some(ty) if devices > 1 => ty.clone(),
                _ => local,
            };
            let split = match placement.as_ref().filter(|_| devices > 1) {
                Some(p) => Split::new(whole.into(), &p.mesh, &Arc::new(p.sharding.clone())),
                None => Split::single(whole.into()),
            };
            let wrong = |e: ArrayError| LoadError::Invalid { op: "results".into(), message: e.to_string() };
            Ok(Output { split: split.map_err(wrong)?, placement })
        };
        Ok(Outputs(local.into_iter().enumerate().map(output).collect::<Result<_, LoadError>>()?))
    }

    /// The arrays that the shards of the results, one per device, make up.
    pub fn join<B: DeviceBuffer + 'static>(&self, results: Vec<Vec<Arc<B>>>) -> Result<Vec<Array>, RunError> {
        let join = |(shards, output): (Vec<Arc<B>>, &Output)| {
            let shards = shards.into_iter().map(|s| s as Arc<dyn DeviceBuffer>).collect();
            let array = Array::from_devices(Sharded::from_shards(&output.split, shards)?);
            Ok(match &output.placement {
                Some(placement) => array.placed(placement.clone()),
                None => array,
            })
        };
        Ok(results.into_iter().zip(&self.0).map(join).collect::<Result<_, ArrayError>>()?)
    }
}
