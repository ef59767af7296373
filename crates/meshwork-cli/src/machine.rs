//! Options that say what a program is to run on.

use meshwork_partition::{Algorithm, Algorithms, Use};
use meshwork_partition::plan::{Device, Link, Machine};

use crate::fail::Failure;

/// The machine to split a program for.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// Latency in microseconds and 10⁹ bytes per second of the links, of all axes or of one [default: 1,50]
    #[arg(long, value_name = "[AXIS=]US,GBPS", value_parser = parse_link)]
    link: Vec<(Option<String>, Link)>,
    /// Links from a file of lines AXIS LATENCY_US GBPS, the axis * standing for all others, and device=TFLOPS,GBPS
    #[arg(long, value_name = "FILE")]
    links: Option<String>,
    /// 10¹² operations and 10⁹ bytes of memory per second of a device [default: 2,200]
    #[arg(long, value_name = "TFLOPS,GBPS", value_parser = parse_device)]
    device: Option<Device>,
    /// Do without these algorithms for split dimensions: distributed-sort, distributed-fft
    #[arg(long, value_name = "ALGORITHM,..", value_delimiter = ',')]
    without: Vec<Algorithm>,
}

impl MachineArgs {
    /// Which algorithms are used.
    pub fn algorithms(&self) -> Algorithms {
        Algorithms::all(&self.without, Use::Never)
    }

    /// The machine of the file, if there is one, with what is given one by one.
    pub fn machine(&self) -> Result<Machine, Failure> {
        let mut machine = match &self.links {
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|e| Failure::error(format!("cannot read {path}: {e}")))?;
                text.parse().map_err(|e| Failure::error(format!("{path}: {e}")))?
            }
            None => Machine::default(),
        };
        for (axis, link) in &self.link {
            machine.links.set(axis.as_deref(), *link);
        }
        machine.device = self.device.unwrap_or(machine.device);
        Ok(machine)
    }
}

fn parse_link(text: &str) -> Result<(Option<String>, Link), String> {
    let (axis, numbers) = match text.split_once('=') {
        Some((axis, numbers)) => (Some(axis.to_string()), numbers),
        None => (None, text),
    };
    let wrong = || format!("'{numbers}' is not LATENCY_US,GBPS, two positive numbers");
    let (latency, speed) = numbers.split_once(',').ok_or_else(wrong)?;
    Ok((axis, Link::parse(latency, speed)?))
}

fn parse_device(text: &str) -> Result<Device, String> {
    let (teraflops, speed) = text.split_once(',').unwrap_or((text, ""));
    Device::parse(teraflops, speed)
}
