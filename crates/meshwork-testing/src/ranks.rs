//! Runs a test on several ranks: the test binary starts itself again under `mpirun`.

use std::process::{Command, Output};

use crate::Folder;

/// Set for processes that [`command`] starts.
const RANK: &str = "MESHWORK_TEST_RANK";

/// The folder in which each rank leaves a file when it is done: the output of several ranks may be interleaved.
const DONE: &str = "MESHWORK_TEST_DONE";

/// Whether this process is one of the ranks of a test.
pub fn is_rank() -> bool {
    std::env::var_os(RANK).is_some()
}

/// `mpirun` with the flags that tests need, on `ranks` ranks; the program and its arguments are still missing.
pub fn mpirun(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", &ranks.to_string()]);
    if std::env::var_os("MESHWORK_DEADLINE").is_none() {
        command.env("MESHWORK_DEADLINE", "30");
    }
    // When a rank dies, the others have this many seconds to report what they know.
    command.env("OMPI_MCA_odls_base_sigkill_timeout", "2");
    command
}

/// The command that runs the test `name` of this binary on `ranks` ranks.
pub fn command(ranks: usize, name: &str) -> Command {
    let mut command = mpirun(ranks);
    add_test(&mut command, name);
    command
}

/// Adds the test `name` of this binary to a launcher.
pub(crate) fn add_test(launcher: &mut Command, name: &str) {
    let own = std::env::current_exe().expect("the test binary has a path");
    launcher.arg(own).args(["--exact", name, "--nocapture", "--test-threads=1"]).env(RANK, "1");
}

/// Runs `command`, and panics with what to install if `mpirun` is missing.
pub fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|e| {
        panic!("cannot start mpirun ({e}): install Open MPI (apt-get install openmpi-bin libopenmpi-dev)")
    })
}

/// In the test `name`: runs `body` on each number of ranks, or on as many as `MESHWORK_TEST_RANKS` says, and checks that
/// every rank reached its end.
pub fn across(ranks: &[usize], name: &str, body: impl FnOnce()) {
    if is_rank() {
        return as_rank(body);
    }
    let asked = std::env::var("MESHWORK_TEST_RANKS").ok().and_then(|n| n.parse().ok());
    for n in asked.map_or(ranks.to_vec(), |n| vec![n]) {
        let done = Folder::new(&format!("{name}_{n}"));
        check_all_end(&mut command(n, name), n, &done);
    }
}

/// On a rank: runs `body`, and notes that it reached its end.
pub(crate) fn as_rank(body: impl FnOnce()) {
    body();
    if let Some(done) = std::env::var_os(DONE) {
        let own = std::path::Path::new(&done).join(std::process::id().to_string());
        std::fs::write(own, "").expect("the folder can be written");
    }
}

/// Runs `command`, which starts `ranks` ranks, and checks that every rank reached its end; they note it in `done`.
pub(crate) fn check_all_end(command: &mut Command, ranks: usize, done: &Folder) {
    let output = output(command.env(DONE, done.path()));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "on {ranks} ranks: {}\n{out}\n{err}", output.status);
    let ended = std::fs::read_dir(done.path()).expect("the folder exists").count();
    assert_eq!(ended, ranks, "{ranks} ranks:\n{out}\n{err}");
}
