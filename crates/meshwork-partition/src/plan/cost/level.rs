//! Levels of a machine: devices in a node, nodes in a cluster.

use super::link::Link;

/// How the members of a level are connected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Each with the next, the last with the first.
    Ring,
    /// Each with all others at full speed.
    Switch,
    /// A grid: each mesh axis lies along dimensions of its own, on which every device has a link in both directions. An
    /// axis whose size is a multiple of `wrap` is closed to a ring.
    Torus {
        /// Devices along a dimension that closes.
        wrap: i64,
    },
}

/// A level: a number of the groups below it, all connected in the same way.
#[derive(Clone, PartialEq, Debug)]
pub struct Level {
    /// What it is called.
    pub name: String,
    /// How many groups of the level below make one of it; `None`: as many as there are.
    pub size: Option<i64>,
    /// How they are connected.
    pub shape: Shape,
    /// The link of a device to the others of this level.
    pub link: Link,
    /// How many devices share that link, as they do a network card.
    pub shared: i64,
    /// The share of a device's arithmetic that is lost while it communicates over this level.
    pub lost: f64,
}

impl Level {
    /// What each device has of its link when all use it.
    pub fn each(&self) -> Link {
        let speed = self.link.gigabytes_per_second / self.shared.max(1) as f64;
        Link { latency_us: self.link.latency_us, gigabytes_per_second: speed }
    }
}
