//! Runs a test on several ranks: the test binary starts itself again under `mpirun`.

// Each test binary uses some of it.
#![allow(dead_code)]

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
    command.env("OMPI_MCA_odls_base_sigkill_timeout", "2");
    command
}

/// Runs it, and says what is missing if it can not be.
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| {
        panic!("mpirun can not be started ({e}): install Open MPI (apt-get install openmpi-bin libopenmpi-dev)")
    })
}

/// Where ranks leave a note that they came to the end; what they print may be torn.
const NOTES: &str = "MESHWORK_TEST_NOTES";

/// In the test `name`: runs `body` on each number of ranks.
pub fn across(ranks: &[usize], name: &str, body: impl FnOnce()) {
    if let Some(launch) = meshwork_runtime::transport::launcher::launched() {
        body();
        if let Some(notes) = std::env::var_os(NOTES) {
            std::fs::write(std::path::Path::new(&notes).join(launch.rank.to_string()), "").expect("a note");
        }
        return;
    }
    for &n in ranks {
        let notes = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}_{n}"));
        let _ = std::fs::remove_dir_all(&notes);
        std::fs::create_dir_all(&notes).expect("a folder");
        let output = output(command(n, name).env(NOTES, &notes));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name} on {n} ranks: {}\n{out}\n{err}", output.status);
        let ended = std::fs::read_dir(&notes).expect("the folder").count();
        assert_eq!(ended, n, "{name} ran on {n} ranks:\n{out}\n{err}");
    }
}
