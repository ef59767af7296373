//! The engines, by name, and `meshwork devices`: what they run on.

use std::str::FromStr;
use std::sync::Arc;

use meshwork_cpu::CpuEngine;
use meshwork_pjrt::PjrtEngine;
use meshwork_runtime::{Engine, Evaluator};

use crate::fail::Failure;
use crate::source::write_stdout;

/// An engine that programs run on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EngineName {
    /// Fused kernels, planned memory, all cores.
    Cpu,
    /// The reference evaluator.
    Evaluator,
    /// The devices of a plugin.
    Pjrt(String),
}

impl FromStr for EngineName {
    type Err = String;

    fn from_str(name: &str) -> Result<EngineName, String> {
        match name {
            "cpu" => Ok(EngineName::Cpu),
            "evaluator" => Ok(EngineName::Evaluator),
            "pjrt" => Ok(EngineName::Pjrt(String::new())),
            _ => match name.strip_prefix("pjrt:") {
                Some(plugin) => Ok(EngineName::Pjrt(plugin.into())),
                None => Err("an engine is cpu, evaluator, or pjrt:PLUGIN".into()),
            },
        }
    }
}

impl EngineName {
    /// The engine.
    pub fn open(&self) -> Result<Arc<dyn Engine>, Failure> {
        Ok(match self {
            EngineName::Cpu => CpuEngine::shared().clone(),
            EngineName::Evaluator => Arc::new(Evaluator),
            EngineName::Pjrt(plugin) => Arc::new(open_plugin(plugin)?),
        })
    }
}

fn open_plugin(plugin: &str) -> Result<PjrtEngine, Failure> {
    PjrtEngine::open(plugin).map_err(|e| Failure::error(e.to_string()))
}

/// List the devices that programs can run on
///
/// Shows the cores of this machine, the PJRT plugins that pip has installed, and for each plugin named on the command
/// line its devices with their memory. Opening a plugin starts its runtime, so only those that are named are opened.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork devices\n  meshwork devices cuda\n  \
    meshwork devices cpu,cpu_device_count=4")]
pub struct Args {
    /// Plugins to open: names, or paths of libraries, with options
    #[arg(value_name = "PLUGIN")]
    plugins: Vec<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let threads = CpuEngine::shared().threads();
    let mut out = format!("cpu: {threads} threads; a mesh of any size runs on them\n");
    for plugin in meshwork_pjrt::installed() {
        out += &format!("pjrt:{}: {}\n", plugin.name, plugin.path.display());
    }
    for plugin in &args.plugins {
        let engine = open_plugin(plugin)?;
        let client = engine.client();
        let (major, minor) = client.plugin().version();
        let version = client.platform_version().lines().next().unwrap_or_default();
        out += &format!("\n{}: API {major}.{minor}, {version}\n", engine.name());
        for device in client.devices() {
            let memory = client.memory(device).map(|memory| format!(", {memory}")).unwrap_or_default();
            out += &format!("  {} {}{memory}\n", device.id, device.kind);
        }
    }
    write_stdout(&out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names() {
        assert_eq!("cpu".parse(), Ok(EngineName::Cpu));
        assert_eq!("pjrt:cuda,preallocate=false".parse(), Ok(EngineName::Pjrt("cuda,preallocate=false".into())));
        assert!("gpu".parse::<EngineName>().is_err());
    }
}
