//! `meshwork run` under `mpirun`: every process runs its devices, the first one reports.

use meshwork_runtime::Runtime;

use crate::fail::Failure;
use crate::source::Source;

/// Finds out where this process runs.
pub fn join() -> Result<Runtime, Failure> {
    Runtime::init().map_err(|e| Failure::error(e.to_string()))
}

/// Whether this process reports for all of them.
pub fn reports() -> bool {
    Runtime::init().map_or(true, |r| r.rank() == 0)
}

/// Reads the program. Standard input belongs to the first process, which passes it on.
pub fn read_source(runtime: &Runtime, file: &str) -> Result<Source, Failure> {
    if file != "-" || !runtime.is_distributed() {
        return Source::read(file);
    }
    let lost = |e: meshwork_runtime::ProcessError| Failure::error(e.to_string());
    if runtime.rank() == 0 {
        let source = Source::read(file)?;
        runtime.broadcast(0, source.bytes()).map_err(lost)?;
        return Ok(source);
    }
    Source::new("<stdin>", runtime.broadcast(0, &[]).map_err(lost)?)
}
