//! `meshwork launch`: a program on several processes of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fail::Failure;

/// Run a program on several processes
///
/// Calls mpirun with the flags one machine needs: root is allowed, more processes than cores, no binding to cores,
/// waiting processes yield. Each line of output starts with the rank that wrote it. The exit status is that of the
/// program. Plain mpirun works too.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
#[command(after_help = "Examples:\n  meshwork launch -n 4 target/release/train --steps 100\n  \
                  meshwork launch -n 2 --devices-per-rank 4 ./heat\n  \
                  meshwork launch -n 8 --mpi-option=--hostfile --mpi-option=hosts.txt ./heat")]
pub struct Args {
    /// Number of processes
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    n: u32,
    /// Devices of each process
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    devices_per_rank: Option<u32>,
    /// Seconds after which an unresponsive process counts as failed
    #[arg(long, value_name = "SECONDS")]
    deadline: Option<f64>,
    /// The launcher, if it is not the mpirun or mpiexec of the path
    #[arg(long, value_name = "PATH")]
    mpirun: Option<String>,
    /// An option for the launcher; can be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    mpi_option: Vec<String>,
    /// Print the command instead of running it
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let launcher = find_launcher(args.mpirun.as_deref())?;
    let program = find_program(&args.program[0])?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut words = flags(&launcher, args.n as usize > cores)?;
    words.extend(args.mpi_option.iter().cloned());
    words.extend(["-n".into(), args.n.to_string(), program.display().to_string()]);
    words.extend(args.program[1..].iter().cloned());
    let mut variables = vec![];
    if std::env::var_os("MESHWORK_THREADS").is_none() {
        variables.push(("MESHWORK_THREADS", (cores / args.n as usize).max(1).to_string()));
    }
    variables.extend(args.devices_per_rank.map(|n| ("MESHWORK_DEVICES_PER_RANK", n.to_string())));
    variables.extend(args.deadline.map(|s| ("MESHWORK_DEADLINE", s.to_string())));
    if args.dry_run {
        let variables = variables.iter().map(|(name, value)| format!("{name}={value}"));
        let line = variables.chain([launcher.display().to_string()]).chain(words);
        println!("{}", line.collect::<Vec<_>>().join(" "));
        return Ok(());
    }
    let mut command = Command::new(&launcher);
    command.args(words).envs(variables).stdout(Stdio::piped()).stderr(Stdio::piped());
    run(command).map_err(|e| Failure::error(format!("{}: {e}", launcher.display())))?
}

/// The flags for this kind of launcher, which it names when asked for its version.
fn flags(launcher: &Path, crowded: bool) -> Result<Vec<String>, Failure> {
    let name = launcher.display();
    let out = Command::new(launcher).arg("--version").stdin(Stdio::null()).output();
    let out = out.map_err(|e| Failure::error(format!("{name} --version: {e}")))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let says = |words: &[&str]| words.iter().any(|w| text.contains(w));
    let mut flags = vec![];
    if says(&["Open MPI", "OpenRTE", "PRRTE"]) {
        if std::fs::metadata("/proc/self").is_ok_and(|of| of.uid() == 0) {
            flags.push("--allow-run-as-root");
        }
        // Binding would put all threads of a process on one core.
        flags.extend(["--oversubscribe", "--bind-to", "none", "--tag-output"]);
        // When one process dies, the others have time to report it before they are ended.
        flags.extend(["--mca", "odls_base_sigkill_timeout", "3"]);
        if crowded {
            flags.extend(["--mca", "mpi_yield_when_idle", "1"]);
        }
    } else if says(&["HYDRA", "MPICH", "Intel(R) MPI"]) {
        flags.extend(["-prepend-rank", "-bind-to", "none"]);
    } else {
        let first = text.lines().next().unwrap_or_default();
        return Err(Failure::error(format!("{name} is neither Open MPI's nor MPICH's launcher: it says {first:?}")));
    }
    Ok(flags.into_iter().map(str::to_string).collect())
}

fn find_launcher(asked: Option<&str>) -> Result<PathBuf, Failure> {
    if let Some(asked) = asked {
        return on_path(asked).ok_or_else(|| Failure::error(format!("there is no launcher {asked}")));
    }
    ["mpirun", "mpiexec"].iter().find_map(|name| on_path(name)).ok_or_else(|| {
        Failure::error(
            "neither mpirun nor mpiexec is on the path; install MPI (apt-get install openmpi-bin libopenmpi-dev, \
             or mpich libmpich-dev), or name the launcher with --mpirun",
        )
    })
}

fn find_program(name: &str) -> Result<PathBuf, Failure> {
    let path = Path::new(name);
    on_path(name).ok_or_else(|| {
        Failure::error(if !path.exists() {
            format!("there is no program {name}")
        } else if path.is_dir() {
            format!("{name} is a folder, not a program")
        } else if name.contains('/') {
            format!("{name} is not executable")
        } else {
            format!("{name} is not on the path; for the one in this folder write ./{name}")
        })
    })
}

/// An executable file: by its path if it has one, else on the search path.
fn on_path(name: &str) -> Option<PathBuf> {
    let is_executable = |p: &PathBuf| p.metadata().is_ok_and(|of| of.is_file() && of.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(is_executable);
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(name)).find(is_executable)
}

/// Runs a launcher, and passes on its output and its exit status.
fn run(mut command: Command) -> std::io::Result<Result<(), Failure>> {
    let mut child = command.spawn()?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| out.map(|from| pass_on(from, std::io::stdout())));
        scope.spawn(|| err.map(|from| pass_on(from, std::io::stderr())));
    });
    let status = child.wait()?;
    Ok(match status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(1) {
        0 => Ok(()),
        code => Err(Failure { status: u8::try_from(code).unwrap_or(1).max(1), text: String::new() }),
    })
}

/// Copies lines, with Open MPI's tags shortened. A closed output does not stop the program.
fn pass_on(from: impl Read, mut to: impl Write) {
    let (mut lines, mut line) = (BufReader::new(from), vec![]);
    while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let _ = to.write_all(&shorten(&line)).and_then(|()| to.flush());
        line.clear();
    }
}

/// `[1,3]<stdout>:text` as `[3] text`; other lines as they are.
fn shorten(line: &[u8]) -> Vec<u8> {
    let tagged = || {
        let rest = line.strip_prefix(b"[")?;
        let end = rest.iter().position(|&b| b == b']')?;
        let rank = rest[..end].split(|&b| b == b',').nth(1)?;
        let rest = &rest[end + 1..];
        let text = rest.strip_prefix(b"<stdout>:").or_else(|| rest.strip_prefix(b"<stderr>:"))?;
        rank.iter().all(u8::is_ascii_digit).then(|| [b"[", rank, b"] ", text].concat())
    };
    tagged().unwrap_or_else(|| line.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_become_ranks() {
        let short = |line: &str| String::from_utf8(shorten(line.as_bytes())).unwrap();
        assert_eq!(short("[1,3]<stdout>:hello [1]\n"), "[3] hello [1]\n");
        assert_eq!(short("[1,12]<stderr>:\n"), "[12] \n");
        assert_eq!(short("[3] hello\n"), "[3] hello\n");
        assert_eq!(short("[host:123] message\n"), "[host:123] message\n");
        assert_eq!(short("[1,x]<stdout>:a"), "[1,x]<stdout>:a");
    }
}
