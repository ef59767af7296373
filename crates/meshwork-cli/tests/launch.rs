//! `meshwork launch`: the flags for each launcher, the output and the status of the program.
#![cfg(unix)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use meshwork_testing::Folder;

fn script(folder: &Folder, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn launch(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwork"));
    command.env_remove("MESHWORK_THREADS").arg("launch").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn each_launcher_gets_its_own_flags() {
    let folder = Folder::new("launch_flags");
    let open = script(&folder, "open", "echo 'mpirun (Open MPI) 4.1.4'");
    let out = text(&launch(&["--mpirun", &open, "-n", "1000", "--dry-run", "/bin/echo", "-n", "hi"]).stdout);
    let tail = "--oversubscribe --bind-to none --tag-output --mca odls_base_sigkill_timeout 3 \
                --mca mpi_yield_when_idle 1 -n 1000 /bin/echo -n hi\n";
    assert!(out.starts_with("MESHWORK_THREADS=1 ") && out.ends_with(tail), "{out}");
    let hydra = script(&folder, "hydra", "echo 'HYDRA build details:'");
    let args =
        ["--mpirun", &hydra, "-n", "2", "--devices-per-rank", "3", "--deadline", "1.5", "--dry-run", "/bin/echo"];
    let out = text(&launch(&args).stdout);
    assert!(out.contains("MESHWORK_DEVICES_PER_RANK=3 MESHWORK_DEADLINE=1.5 "), "{out}");
    assert!(out.ends_with("hydra -prepend-rank -bind-to none -n 2 /bin/echo\n"), "{out}");
    let other = script(&folder, "other", "echo 'slurm 21.08'");
    let out = launch(&["--mpirun", &other, "-n", "2", "/bin/echo"]);
    assert!(text(&out.stderr).contains("is neither Open MPI's nor MPICH's launcher: it says \"slurm 21.08\""));
}

#[test]
fn lines_are_preceded_by_ranks_and_the_status_is_passed_on() {
    let folder = Folder::new("launch_lines");
    let run = "echo '[1,0]<stdout>:zero'; echo '[1,1]<stderr>:one' >&2; echo plain; exit 7";
    let open = script(&folder, "open", &format!("[ $1 = --version ] && echo 'Open MPI' && exit\n{run}"));
    let out = launch(&["--mpirun", &open, "-n", "2", "/bin/echo"]);
    assert_eq!((text(&out.stdout), text(&out.stderr)), ("[0] zero\nplain\n".into(), "[1] one\n".into()));
    assert_eq!(out.status.code(), Some(7));
}

#[test]
fn what_is_missing_is_named() {
    let folder = Folder::new("launch_missing");
    let open = script(&folder, "open", "echo 'Open MPI'");
    let fails = |args: &[&str]| {
        let out = launch(args);
        assert_eq!(out.status.code(), Some(2));
        text(&out.stderr)
    };
    assert_eq!(fails(&["--mpirun", &open, "-n", "2", "/no/such"]), "error: there is no program /no/such\n");
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let plain = plain.display().to_string();
    assert_eq!(fails(&["--mpirun", &open, "-n", "2", &plain]), format!("error: {plain} is not executable\n"));
    assert_eq!(fails(&["--mpirun", "/no/mpirun", "-n", "2", "true"]), "error: there is no launcher /no/mpirun\n");
    let mut command = Command::new(env!("CARGO_BIN_EXE_meshwork"));
    let out = command.env("PATH", folder.path()).args(["launch", "-n", "2", "/bin/echo"]).output().unwrap();
    assert!(text(&out.stderr).starts_with("error: neither mpirun nor mpiexec is on the path; install MPI"));
}

#[test]
fn a_program_runs_on_three_processes() {
    if !Path::new("/usr/bin/mpirun").exists() {
        eprintln!("not tried: there is no /usr/bin/mpirun");
        return;
    }
    let folder = Folder::new("launch_run");
    let rank = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}";
    let program = script(
        &folder,
        "program",
        &format!("echo rank {rank} has $MESHWORK_DEVICES_PER_RANK $1; [ {rank} != 2 ] || exit $2"),
    );
    let out = launch(&["-n", "3", "--devices-per-rank", "2", &program, "devices", "0"]);
    let stdout = text(&out.stdout);
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    let wanted = ["[0] rank 0 has 2 devices", "[1] rank 1 has 2 devices", "[2] rank 2 has 2 devices"];
    assert_eq!((&lines[..], out.status.code()), (&wanted[..], Some(0)), "{}", text(&out.stderr));
    assert_eq!(launch(&["-n", "3", &program, "devices", "9"]).status.code(), Some(9));
}
