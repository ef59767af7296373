//! From devices to mesh coordinates and back.
//!
//! Three numberings meet here: coordinates (one number per axis), positions (coordinates in row-major
//! order) and device ids (positions through the device order of the mesh).

use crate::axis::AxisRef;
use crate::mesh::Mesh;

impl Mesh {
    /// The coordinates of a device, one per axis; `None` if it is not in the mesh.
    ///
    /// With explicit device ids this searches the list; to visit all devices, walk the positions.
    pub fn coordinates(&self, device: i64) -> Option<Vec<i64>> {
        let position = match self.device_ids() {
            None => device,
            Some(ids) => ids.iter().position(|&id| id == device)? as i64,
        };
        self.coordinates_at(position)
    }

    /// The coordinates of a row-major position; `None` if it is out of range.
    pub fn coordinates_at(&self, position: i64) -> Option<Vec<i64>> {
        if !(0..self.device_count()).contains(&position) {
            return None;
        }
        let mut rest = position;
        let mut coordinates = vec![0; self.axes().len()];
        for (coordinate, axis) in coordinates.iter_mut().zip(self.axes()).rev() {
            // The product is positive here, so no size is zero.
            *coordinate = rest.checked_rem(axis.size)?;
            rest = rest.checked_div(axis.size)?;
        }
        Some(coordinates)
    }

    /// The device at these coordinates; `None` if they are not inside the mesh.
    pub fn device_at(&self, coordinates: &[i64]) -> Option<i64> {
        if coordinates.len() != self.axes().len() {
            return None;
        }
        let mut position: i64 = 0;
        for (&coordinate, axis) in coordinates.iter().zip(self.axes()) {
            if !(0..axis.size).contains(&coordinate) {
                return None;
            }
            position = position.checked_mul(axis.size)?.checked_add(coordinate)?;
        }
        self.device_at_position(position)
    }

    /// The device at a row-major position; `None` if it is out of range.
    pub fn device_at_position(&self, position: i64) -> Option<i64> {
        match self.device_ids() {
            None => (0..self.device_count()).contains(&position).then_some(position),
            Some(ids) => ids.get(usize::try_from(position).ok()?).copied(),
        }
    }
}

impl AxisRef {
    /// Index along this axis of the position with these mesh coordinates.
    ///
    /// The coordinate `c` of an axis of size `n`, seen through `[pre, size, n / (pre * size)]`.
    pub fn coordinate(&self, coordinates: &[i64], mesh: &Mesh) -> i64 {
        let Some(index) = mesh.axis_index(&self.name) else {
            return 0;
        };
        let coordinate = coordinates.get(index).copied().unwrap_or(0);
        match self.sub {
            None => coordinate,
            Some(sub) => {
                let stride = mesh.axes()[index].size / sub.next_pre_size().max(1);
                coordinate / stride.max(1) % sub.size.max(1)
            }
        }
    }
}
