//! Options that say what a program is to run on.

use meshwork_mesh::Mesh;
use meshwork_partition::plan::{Device, Link, MACHINES, Machine};
use meshwork_partition::{Algorithm, Algorithms, Use};

use crate::fail::Failure;

/// The machine to split a program for.
#[derive(clap::Args)]
pub struct MachineArgs {
    /// A machine by name (a100, cpu, h100, h200, tpu-v4, tpu-v5e, tpu-v5p), or a file as `meshwork calibrate` writes
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "links")]
    machine: Option<String>,
    /// Latency in microseconds and 10⁹ bytes per second of the links, of all axes or of one [default: 1,50]
    #[arg(long, value_name = "[AXIS=]US,GBPS", value_parser = parse_link)]
    link: Vec<(Option<String>, Link)>,
    /// Links from a file of lines AXIS LATENCY_US GBPS, the axis * standing for all others, and device=TFLOPS,GBPS
    #[arg(long, value_name = "FILE")]
    links: Option<String>,
    /// 10¹² operations and 10⁹ bytes of memory per second of a device [default: 2,200]
    #[arg(long, value_name = "TFLOPS,GBPS", value_parser = parse_device)]
    device: Option<Device>,
    /// Do without these algorithms for split dimensions: distributed-sort, distributed-fft, distributed-cholesky,
    /// distributed-triangular-solve, ring-products, wide-halos, overlapped-halos
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
        let mut machine = self.plain()?;
        for (axis, link) in &self.link {
            machine.links.set(axis.as_deref(), *link);
        }
        if let Some(device) = &self.device {
            machine.device = device.clone();
        }
        Ok(machine)
    }

    /// Refuses a link of an axis that `mesh` does not have: it would change nothing.
    pub fn check_axes(&self, mesh: &Mesh) -> Result<(), Failure> {
        let unknown =
            self.link.iter().filter_map(|(axis, _)| axis.as_deref()).find(|axis| mesh.axis_index(axis).is_none());
        unknown.map_or(Ok(()), |axis| Err(Failure::error(format!("--link {axis}: {mesh} has no axis {axis}"))))
    }

    /// The machine without what is given one by one.
    pub fn plain(&self) -> Result<Machine, Failure> {
        match (&self.machine, &self.links) {
            (Some(name), _) => match Machine::named(name) {
                Some(machine) => Ok(machine),
                None => read(name, &format!("; known by name are {}", MACHINES.join(", "))),
            },
            (None, Some(path)) => read(path, ""),
            (None, None) => Ok(Machine::default()),
        }
    }
}

/// The machine of the file at `path`; `hint` follows if there is none.
fn read(path: &str, hint: &str) -> Result<Machine, Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| Failure::error(format!("cannot read {path}: {e}{hint}")))?;
    text.parse().map_err(|e| Failure::error(format!("{path}: {e}")))
}

/// A mesh from its axes: `data=8,model=2`.
pub fn parse_mesh(text: &str) -> Result<Mesh, String> {
    let axis = |part: &str| {
        let (name, size) = part.split_once('=')?;
        Some((name.trim().to_string(), size.trim().parse::<i64>().ok().filter(|&n| n > 0)?))
    };
    let axes: Option<Vec<(String, i64)>> = text.split(',').map(axis).collect();
    let axes = axes.ok_or_else(|| format!("'{text}' is not a list of axes, as data=8,model=2"))?;
    Mesh::new(axes).map_err(|e| e.to_string())
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
