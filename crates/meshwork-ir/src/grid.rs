//! How many devices run a program.

/// How many devices there are: `replicas` copies of a program split in `partitions`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeviceGrid {
    /// Number of replicas.
    pub replicas: usize,
    /// Number of partitions of each replica.
    pub partitions: usize,
}

impl DeviceGrid {
    /// Number of devices.
    pub fn len(self) -> usize {
        self.replicas * self.partitions
    }

    /// Whether there is no device.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}
