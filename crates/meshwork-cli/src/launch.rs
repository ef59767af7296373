//! `meshwork launch`: a program on several processes of this machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::fail::Failure;

/// Run a program on several processes
///
/// Calls mpirun with what one machine needs: permission for root, more processes than cores, no binding to cores,
/// processes that give way when they wait. Each line of output is preceded by the rank that wrote it. The exit
/// status is that of the program. Plain mpirun does as well.
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
    /// Seconds after which a process that does not answer is given up
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

/// Kinds of launchers, which have different flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    OpenMpi,
    /// MPICH and what comes of it.
    Hydra,
}

/// Runs the command.
pub fn main(args: &Args) -> Result<(), Failure> {
    let launcher = find_launcher(args.mpirun.as_deref())?;
    let program = find_program(&args.program[0])?;
    let kind = kind_of(&launcher)?;
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let words = flags(kind, args, cores, is_root());

    let mut command = Command::new(&launcher);
    command.args(&words).arg(&program).args(&args.program[1..]);
    let mut set = vec![];
    if std::env::var_os("MESHWORK_THREADS").is_none() {
        set.push(("MESHWORK_THREADS", (cores / args.n as usize).max(1).to_string()));
    }
    set.extend(args.devices_per_rank.map(|n| ("MESHWORK_DEVICES_PER_RANK", n.to_string())));
    set.extend(args.deadline.map(|s| ("MESHWORK_DEADLINE", s.to_string())));
    command.envs(set.iter().map(|(k, v)| (*k, v)));
    if args.dry_run {
        let set = set.iter().map(|(k, v)| format!("{k}={v}"));
        let rest = std::iter::once(launcher.display().to_string()).chain(words);
        let rest = rest.chain([program.display().to_string()]).chain(args.program[1..].iter().cloned());
        println!("{}", set.chain(rest).collect::<Vec<_>>().join(" "));
        return Ok(());
    }
    run(command, &launcher)
}

/// The launcher's flags.
fn flags(kind: Kind, args: &Args, cores: usize, root: bool) -> Vec<String> {
    let crowded = args.n as usize > cores;
    let mut words: Vec<&str> = vec![];
    match kind {
        Kind::OpenMpi => {
            if root {
                words.push("--allow-run-as-root");
            }
            // Processes have threads of their own, which binding would put on one core.
            words.extend(["--oversubscribe", "--bind-to", "none", "--tag-output"]);
            // When one dies, the others get the time to say so before they are ended.
            words.extend(["--mca", "odls_base_sigkill_timeout", "3"]);
            if crowded {
                words.extend(["--mca", "mpi_yield_when_idle", "1"]);
            }
        }
        Kind::Hydra => {
            words.extend(["-prepend-rank", "-bind-to", "none"]);
        }
    }
    let count = ["-n".to_string(), args.n.to_string()];
    words.into_iter().map(str::to_string).chain(args.mpi_option.iter().cloned()).chain(count).collect()
}

fn is_root() -> bool {
    #[cfg(unix)]
    return std::os::unix::fs::MetadataExt::uid(&match std::fs::metadata("/proc/self") {
        Ok(of) => of,
        Err(_) => return false,
    }) == 0;
    #[cfg(not(unix))]
    false
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
    if let Some(found) = on_path(name) {
        return Ok(found);
    }
    let path = Path::new(name);
    Err(Failure::error(match path.exists() {
        true if path.is_dir() => format!("{name} is a folder, not a program"),
        true if name.contains('/') => format!("{name} is not executable"),
        true => format!("{name} is not on the path; for the one in this folder write ./{name}"),
        false => format!("there is no program {name}"),
    }))
}

/// An executable file: by its path if it has one, else on the search path.
fn on_path(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|p| is_executable(p));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|p| is_executable(p))
}

fn is_executable(path: &Path) -> bool {
    let Ok(of) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let may = std::os::unix::fs::PermissionsExt::mode(&of.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let may = true;
    of.is_file() && may
}

/// The kind of a launcher, by what it says of itself.
fn kind_of(launcher: &Path) -> Result<Kind, Failure> {
    let name = launcher.display();
    let out = Command::new(launcher).arg("--version").stdin(Stdio::null()).output();
    let out = out.map_err(|e| Failure::error(format!("{name} --version: {e}")))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    let says = |words: &[&str]| words.iter().any(|w| text.contains(w));
    if says(&["Open MPI", "OpenRTE", "PRRTE"]) {
        Ok(Kind::OpenMpi)
    } else if says(&["HYDRA", "MPICH", "Intel(R) MPI"]) {
        Ok(Kind::Hydra)
    } else {
        let first = text.lines().next().unwrap_or_default();
        Err(Failure::error(format!("{name} is neither Open MPI's nor MPICH's launcher: it says {first:?}")))
    }
}

/// Runs a launcher, and passes on what it prints and its status.
fn run(mut command: Command, launcher: &Path) -> Result<(), Failure> {
    let fails = |e: std::io::Error| Failure::error(format!("{}: {e}", launcher.display()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(fails)?;
    let (out, err) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        scope.spawn(|| out.map(|from| pass_on(from, std::io::stdout())));
        scope.spawn(|| err.map(|from| pass_on(from, std::io::stderr())));
    });
    let status = child.wait().map_err(fails)?;
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    match status.code().or(signal.map(|s| 128 + s)).unwrap_or(1) {
        0 => Ok(()),
        code => Err(Failure { status: u8::try_from(code).unwrap_or(1).max(1), text: String::new() }),
    }
}

/// Copies lines, with Open MPI's tags made short.
fn pass_on(from: impl Read, mut to: impl Write) {
    let mut lines = BufReader::new(from);
    let mut line = vec![];
    // When nobody reads any more, the program goes on all the same.
    while lines.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        let text = shorten(&line);
        let _ = to.write_all(&text).and_then(|()| to.flush());
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
