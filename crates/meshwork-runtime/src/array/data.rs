//! Where the elements of an array are.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use meshwork_ir::Literal;
use meshwork_mesh::{Mesh, Sharding};

use super::sharded::Sharded;
use crate::error::{ArrayError, SourceLine};

/// The elements of an array: on the host, on devices, or both. Each is made from the other on demand. A donated array
/// has neither.
#[derive(Debug, Default)]
pub(super) struct Data {
    host: OnceLock<Arc<Literal>>,
    devices: Mutex<Option<Sharded>>,
    /// The call that has its memory now.
    donated: OnceLock<SourceLine>,
}

impl Data {
    pub(super) fn from_host(literal: Literal) -> Data {
        Data { host: OnceLock::from(Arc::new(literal)), ..Data::default() }
    }

    pub(super) fn from_devices(sharded: Sharded) -> Data {
        Data { devices: Mutex::new(Some(sharded)), ..Data::default() }
    }

    /// The shards on devices, if there are some.
    pub(super) fn sharded(&self) -> Option<Sharded> {
        self.on_devices().clone()
    }

    /// Whether the elements can be read without other processes.
    pub(super) fn is_here(&self) -> bool {
        self.host.get().is_some() || self.on_devices().as_ref().is_some_and(Sharded::is_whole_here)
    }

    /// The elements as one array of the host; `None` if there are none.
    pub(super) fn host(&self) -> Result<Option<&Literal>, ArrayError> {
        if let Some(host) = self.host.get() {
            return Ok(Some(host));
        }
        let Some(devices) = self.on_devices().clone() else { return Ok(None) };
        let host = Arc::new(devices.to_host()?);
        Ok(Some(self.host.get_or_init(|| host)))
    }

    /// The elements in shards as wanted: on one device, or on a mesh. The first such placement is kept.
    pub(super) fn devices(&self, place: Place<'_>) -> Result<Option<Sharded>, ArrayError> {
        if let Some(devices) = self.on_devices().as_ref().filter(|d| is_placed(d, place)) {
            return Ok(Some(devices.clone()));
        }
        let made = self.placed(place)?;
        if let Some(made) = &made {
            self.on_devices().get_or_insert_with(|| made.clone());
        }
        Ok(made)
    }

    /// Keeps these shards, which have the same elements.
    pub(super) fn keep(&self, devices: &Sharded) {
        *self.on_devices() = Some(devices.clone());
    }

    /// As above, for uniquely owned elements: the shards are handed over.
    pub(super) fn into_devices(self, place: Place<'_>) -> Result<Option<Sharded>, ArrayError> {
        let own = self.on_devices().take_if(|d| is_placed(d, place));
        match own {
            Some(devices) => Ok(Some(devices)),
            None => self.placed(place),
        }
    }

    /// The elements, taken from here for a call that they are donated to.
    pub(super) fn donate(&self, at: SourceLine) -> Data {
        let taken = Data { devices: Mutex::new(self.on_devices().take()), ..Data::default() };
        if let Some(host) = self.host.get() {
            taken.host.get_or_init(|| host.clone());
        }
        self.donated.get_or_init(|| at);
        taken
    }

    /// The same elements with another owner.
    pub(super) fn hold(&self) -> Data {
        let held = Data { devices: Mutex::new(self.sharded()), ..Data::default() };
        if let Some(host) = self.host.get() {
            held.host.get_or_init(|| host.clone());
        }
        held
    }

    /// The call that its memory was donated to.
    pub(super) fn donated_at(&self) -> Option<SourceLine> {
        self.donated.get().copied()
    }

    /// Shards made from the elements on the host.
    fn placed(&self, place: Place<'_>) -> Result<Option<Sharded>, ArrayError> {
        let Some(host) = self.host()? else { return Ok(None) };
        let made = match place {
            None => Sharded::single(host),
            Some((mesh, sharding)) => Sharded::from_host(host, mesh, sharding),
        };
        made.map(Some)
    }

    /// The shards, if there are any. A thread that panicked with the lock has left them as they were.
    fn on_devices(&self) -> MutexGuard<'_, Option<Sharded>> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where elements are wanted: on one device, or on a mesh.
pub type Place<'p> = Option<(&'p Arc<Mesh>, &'p Arc<Sharding>)>;

/// Whether `array` is placed as wanted. For data it does not matter whether dimensions are open to further splitting.
fn is_placed(array: &Sharded, place: Place<'_>) -> bool {
    let Some((mesh, sharding)) = place else { return array.shards().len() == 1 };
    let same = |a: &Sharding, b: &Sharding| {
        let dims = a.dims.len() == b.dims.len() && a.dims.iter().zip(&b.dims).all(|(a, b)| a.axes == b.axes);
        let parts = a.unreduced == b.unreduced && (a.unreduced.is_empty() || a.reduction == b.reduction);
        dims && parts
    };
    let is_mesh = Arc::ptr_eq(array.mesh(), mesh) || array.mesh() == mesh;
    is_mesh && (Arc::ptr_eq(array.sharding(), sharding) || same(array.sharding(), sharding))
}
