//! `partition_id` and `replica_id`: a number that the device knows.

use std::sync::Arc;

use meshwork_ir::op::SourceOp;
use meshwork_ir::{OpId, OpKind};

use super::lower::Lower;
use crate::step::{Buf, Fault, Frame, Scratch, Work};

#[derive(Debug)]
struct DeviceId {
    partition: bool,
    to: Buf,
}

/// Adds the step for `op`, one of the two.
pub(crate) fn lower(cx: &mut Lower<'_>, op: OpId) {
    let data = cx.module.op(op);
    let (partition, result) = (data.kind() == OpKind::Source(SourceOp::PartitionId), data.results()[0]);
    let to = cx.result(result);
    let name = if partition { "partition_id" } else { "replica_id" };
    cx.step(op, name.into(), Arc::new(DeviceId { partition, to }), vec![], vec![to]);
}

impl Work for DeviceId {
    fn parts(&self) -> usize {
        1
    }

    fn cost(&self) -> u64 {
        1
    }

    fn is_uniform(&self) -> bool {
        false
    }

    unsafe fn run(&self, frame: &Frame<'_>, _: &mut Scratch, _: usize) -> Result<(), Fault> {
        let id = if self.partition { frame.partition } else { frame.replica };
        // SAFETY: the result is a `ui32` scalar, so its buffer holds four bytes, and buffers are 64-byte aligned.
        unsafe { *frame.ptr(self.to).cast::<u32>() = id };
        Ok(())
    }
}
