//! Runs a test on several ranks: the test binary starts itself again under `mpirun`.

use std::process::{Command, Output};

/// Whether this process is one of several.
pub fn is_rank() -> bool {
    meshwork_runtime::transport::launcher::launched().is_some()
}

/// What `mpirun` needs to start the test `name` of this binary on `ranks` ranks.
pub fn command(ranks: usize, name: &str) -> Command {
    let own = std::env::current_exe().expect("the test binary has a path");
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    command.arg(own).args(["--exact", name, "--nocapture", "--test-threads=1"]);
    command.env("MESHWORK_DEADLINE", "30");
    // When a rank dies, the others get this long to say what they know.
    command.env("OMPI_MCA_odls_base_sigkill_timeout", "5");
    command
}

/// Runs it, and says what is missing if it can not be.
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| {
        panic!("mpirun can not be started ({e}): install Open MPI (apt-get install openmpi-bin libopenmpi-dev)")
    })
}

/// In the test `name`: runs `body` on each number of ranks.
pub fn across(ranks: &[usize], name: &str, body: impl FnOnce()) {
    if is_rank() {
        return body();
    }
    for &n in ranks {
        let output = output(&mut command(n, name));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name} on {n} ranks: {}\n{out}\n{err}", output.status);
        assert_eq!(out.matches("test result: ok. 1 passed").count(), n, "{name} ran on {n} ranks:\n{out}\n{err}");
    }
}
