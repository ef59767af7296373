//! Arrays in parts: devices along the unreduced axes of a sharding hold parts of one slice, to be combined.

use meshwork_eval::scalar::{ScalarOp, apply};
use meshwork_ir::identity::neutral;
use meshwork_ir::{Combine, ElementType, Literal};
use meshwork_mesh::{Mesh, Sharding, device_groups};

use crate::error::{ArrayError, placing};

/// Which devices hold parts of one slice, and how these combine.
pub(super) struct Parts {
    /// The devices that differ only in which part they hold, in order of the parts; none if everything is whole.
    groups: Vec<Vec<i64>>,
    /// Which part each device holds.
    index: Vec<usize>,
    elem: ElementType,
    how: Option<(ScalarOp, Vec<u8>)>,
}

impl Parts {
    /// The parts of an array of `elem` that is placed by `sharding`.
    pub fn of(sharding: &Sharding, mesh: &Mesh, elem: ElementType) -> Result<Parts, ArrayError> {
        if sharding.unreduced.is_empty() {
            return Ok(Parts { groups: vec![], index: vec![], elem, how: None });
        }
        let combine = Combine::from(sharding.reduction);
        let how = ScalarOp::new(combine.op(), elem, elem).zip(neutral(combine, elem));
        let how = how.ok_or_else(|| ArrayError::NoParts { elem, sharding: sharding.to_string() })?;
        let groups = device_groups(mesh, &sharding.unreduced).map_err(placing(&[]))?;
        let mut index = vec![0; mesh.device_count() as usize];
        for group in &groups {
            group.iter().enumerate().for_each(|(i, &device)| index[device as usize] = i);
        }
        Ok(Parts { groups, index, elem, how: Some(how) })
    }

    /// Which part `device` holds; 0 if everything is whole.
    pub fn index(&self, device: i64) -> usize {
        self.index.get(device as usize).copied().unwrap_or(0)
    }

    /// What an array of the host leaves to `device`, if that holds another part than the first.
    pub fn neutral(&self, device: i64) -> Option<&[u8]> {
        self.how.as_ref().filter(|_| self.index(device) > 0).map(|(_, neutral)| &neutral[..])
    }

    /// The devices with the other parts of what `first` holds, in order of the parts.
    pub fn others(&self, first: i64) -> &[i64] {
        self.groups.iter().find(|group| group.first() == Some(&first)).map_or(&[], |group| &group[1..])
    }

    /// Combines the elements of `part` into those of `into`.
    pub fn combine(&self, into: &mut [u8], part: &[u8]) {
        let Some((op, _)) = &self.how else { return };
        let count = (part.len() / self.elem.storage_bytes()) as i64;
        let read = |bytes: &[u8]| Literal::from_bytes([count], self.elem, bytes.to_vec());
        let (Some(mut sum), Some(part)) = (read(into), read(part)) else { return };
        for i in 0..sum.len() {
            let combined = apply(op, &[sum.get(i), part.get(i)]);
            sum.set(i, combined);
        }
        into.copy_from_slice(sum.bytes());
    }
}

/// Sets every element of `to`.
pub(super) fn fill(to: &mut [u8], element: &[u8]) {
    to.chunks_exact_mut(element.len()).for_each(|e| e.copy_from_slice(element));
}
