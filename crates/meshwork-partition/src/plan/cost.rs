//! Predictions: how long a collective takes on a link, and an operation on a device.
//!
//! A link has a latency α and a bandwidth β. A collective over a group of g devices goes round a ring: an all-reduce
//! takes 2(g-1) steps, all-gather, reduce-scatter and all-to-all g-1, a permute one. Its time is steps·α + bytes/β,
//! bytes being what one device sends. Over several axes the slowest of their links counts.
//!
//! An operation takes as long as its arithmetic or its memory traffic, whichever is longer. The rates of links and
//! devices that are assumed where none are given stand here and nowhere else.

use std::str::FromStr;

use meshwork_mesh::{AxisRef, Mesh};

use crate::collective::{CollectiveKind, Peers};
use crate::plan::PlannedCollective;

/// A link between neighbors along a mesh axis.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Microseconds until the first byte arrives.
    pub latency_us: f64,
    /// Bytes per second and direction, in units of 10⁹.
    pub gigabytes_per_second: f64,
}

impl Default for Link {
    /// One microsecond and 50 GB/s: about what one link between accelerators of a node gives.
    fn default() -> Self {
        Link { latency_us: 1.0, gigabytes_per_second: 50.0 }
    }
}

/// How fast a device computes.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Device {
    /// Arithmetic operations per second, in units of 10¹².
    pub teraflops: f64,
    /// Bytes read and written per second, in units of 10⁹.
    pub memory_gigabytes_per_second: f64,
}

impl Default for Device {
    /// 2·10¹² operations a second and 200 GB/s: what accelerators sustain in single precision for each link of 50 GB/s
    /// that they have. Choices depend on the ratios, here 40 operations and 4 bytes of memory to a byte sent.
    fn default() -> Self {
        Device { teraflops: 2.0, memory_gigabytes_per_second: 200.0 }
    }
}

impl Device {
    /// A device from its speed in 10¹² operations and its memory's in 10⁹ bytes per second, in digits.
    pub fn parse(teraflops: &str, gigabytes_per_second: &str) -> Result<Device, String> {
        match (number(teraflops), number(gigabytes_per_second)) {
            (Some(teraflops), Some(memory_gigabytes_per_second))
                if teraflops > 0.0 && memory_gigabytes_per_second > 0.0 =>
            {
                Ok(Device { teraflops, memory_gigabytes_per_second })
            }
            _ => Err(format!("'{teraflops},{gigabytes_per_second}' is not TFLOPS,GBPS, two positive numbers")),
        }
    }

    /// Seconds for `flops` operations on `bytes` bytes.
    pub fn seconds(&self, flops: f64, bytes: f64) -> f64 {
        (flops / (self.teraflops * 1e12)).max(bytes / (self.memory_gigabytes_per_second * 1e9))
    }
}

/// What a program runs on.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Machine {
    /// How devices are connected.
    pub links: Links,
    /// What each of them can do.
    pub device: Device,
}

/// The lines of [`Links`], and one of `device=TFLOPS,GBPS`.
///
/// ```
/// # use meshwork_partition::plan::Machine;
/// let machine: Machine = "* 1 50\ndevice=20,1000".parse()?;
/// assert_eq!(machine.device.teraflops, 20.0);
/// # Ok::<(), String>(())
/// ```
impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Machine, String> {
        let mut machine = Machine::default();
        let mut links = String::new();
        for (i, line) in text.lines().enumerate() {
            if let Some(numbers) = line.split('#').next().and_then(|l| l.trim().strip_prefix("device=")) {
                let (teraflops, speed) = numbers.split_once(',').unwrap_or((numbers, ""));
                machine.device = Device::parse(teraflops, speed).map_err(|e| format!("line {}: {e}", i + 1))?;
            } else {
                links.push_str(line);
            }
            links.push('\n');
        }
        machine.links = links.parse()?;
        Ok(machine)
    }
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|n| n.is_finite())
}

/// The links of a mesh.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Links {
    /// Of every axis that is not named.
    pub default: Link,
    /// Of these axes.
    pub by_axis: Vec<(String, Link)>,
}

/// Lines of `AXIS LATENCY_US GBPS`; the axis `*` stands for all that are not named. `#` starts a comment.
///
/// ```
/// # use meshwork_partition::plan::Links;
/// let links: Links = "* 1 50  # within a machine\npod 20 5".parse()?;
/// assert_eq!(links.by_axis[0].1.gigabytes_per_second, 5.0);
/// # Ok::<(), String>(())
/// ```
impl FromStr for Links {
    type Err = String;

    fn from_str(text: &str) -> Result<Links, String> {
        let mut links = Links::default();
        for (i, line) in text.lines().enumerate() {
            let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
            let [axis, latency, speed] = words[..] else {
                if words.is_empty() {
                    continue;
                } else {
                    return Err(format!("line {}: '{line}' is not AXIS LATENCY_US GBPS", i + 1));
                }
            };
            let link = Link::parse(latency, speed).map_err(|e| format!("line {}: {e}", i + 1))?;
            links.set((axis != "*").then_some(axis), link);
        }
        Ok(links)
    }
}

impl Link {
    /// A link from its latency in microseconds and its speed in 10⁹ bytes per second, in digits.
    pub fn parse(latency_us: &str, gigabytes_per_second: &str) -> Result<Link, String> {
        match (number(latency_us), number(gigabytes_per_second)) {
            (Some(latency_us), Some(gigabytes_per_second)) if latency_us >= 0.0 && gigabytes_per_second > 0.0 => {
                Ok(Link { latency_us, gigabytes_per_second })
            }
            _ => Err(format!("'{latency_us},{gigabytes_per_second}' is not LATENCY_US,GBPS, two positive numbers")),
        }
    }
}

impl Links {
    /// Sets the link of an axis, or of all that are not named.
    pub fn set(&mut self, axis: Option<&str>, link: Link) {
        match axis {
            None => self.default = link,
            Some(axis) => {
                self.by_axis.retain(|(name, _)| name != axis);
                self.by_axis.push((axis.into(), link));
            }
        }
    }

    /// The link of an axis.
    pub fn of(&self, axis: &AxisRef) -> Link {
        self.by_axis.iter().find(|(name, _)| **name == *axis.name).map_or(self.default, |(_, link)| *link)
    }

    /// 10⁹ bytes per second over the fastest links of `mesh`.
    pub fn fastest(&self, mesh: &Mesh) -> f64 {
        let speeds = mesh.axes().iter().map(|a| self.of(&AxisRef::full(a.name.clone())).gigabytes_per_second);
        speeds.reduce(f64::max).unwrap_or(self.default.gigabytes_per_second)
    }

    /// The predicted seconds of one run of `planned` on `mesh`.
    pub fn seconds(&self, planned: &PlannedCollective, mesh: &Mesh) -> f64 {
        let c = &planned.collective;
        let links = || planned.axes.iter().map(|a| self.of(a));
        let latency = links().map(|l| l.latency_us).fold(0.0, f64::max);
        let speed = links().map(|l| l.gigabytes_per_second).fold(f64::INFINITY, f64::min);
        let (latency, speed) = if planned.axes.is_empty() {
            (self.default.latency_us, self.default.gigabytes_per_second)
        } else {
            (latency, speed)
        };
        let group: i64 = match c.peers {
            Peers::Given { group, .. } => group,
            Peers::Group(_) | Peers::Line { .. } | Peers::Relabel(_) | Peers::Devices(_) => {
                planned.axes.iter().map(|a| a.size(mesh)).product()
            }
        };
        let (steps, bytes) = match c.kind {
            CollectiveKind::AllReduce(_) => (2 * (group - 1), c.wire_bytes),
            CollectiveKind::AllGather | CollectiveKind::ReduceScatter(_) | CollectiveKind::AllToAll => {
                (group - 1, c.wire_bytes)
            }
            // Every sender sends its whole operand, however few they are.
            CollectiveKind::Permute => (1, c.operand_bytes as f64),
        };
        steps.max(0) as f64 * latency * 1e-6 + bytes / (speed * 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_from_text() {
        let slow = Link { latency_us: 20.0, gigabytes_per_second: 5.0 };
        let links: Links = "# measured\n* 2 25\n\npod 20 5\n".parse().unwrap();
        assert_eq!(links.default, Link { latency_us: 2.0, gigabytes_per_second: 25.0 });
        assert_eq!(links.of(&AxisRef::full("pod")), slow);
        assert_eq!(links.of(&AxisRef::full("x")), links.default);
        let wrong = |text: &str| text.parse::<Links>().unwrap_err();
        assert_eq!(wrong("x 1"), "line 1: 'x 1' is not AXIS LATENCY_US GBPS");
        assert_eq!(wrong("\nx 1 0"), "line 2: '1,0' is not LATENCY_US,GBPS, two positive numbers");
        assert_eq!(wrong("x nan 1"), "line 1: 'nan,1' is not LATENCY_US,GBPS, two positive numbers");
    }

    #[test]
    fn a_machine_from_text() {
        let machine: Machine = "* 2 25\ndevice=20, 1000 # dense\npod 20 5".parse().unwrap();
        assert_eq!(machine.device, Device { teraflops: 20.0, memory_gigabytes_per_second: 1000.0 });
        assert_eq!(machine.links, "* 2 25\npod 20 5".parse().unwrap());
        let wrong = |text: &str| text.parse::<Machine>().unwrap_err();
        assert_eq!(wrong("\ndevice=1"), "line 2: '1,' is not TFLOPS,GBPS, two positive numbers");
        assert_eq!(wrong("device=1,1\nx 1"), "line 2: 'x 1' is not AXIS LATENCY_US GBPS");
    }

    #[test]
    fn an_operation_takes_as_long_as_arithmetic_or_memory() {
        let device = Device { teraflops: 2.0, memory_gigabytes_per_second: 100.0 };
        assert_eq!(device.seconds(4e12, 1e9), 2.0);
        assert_eq!(device.seconds(1e9, 300e9), 3.0);
    }
}
