//! `meshwork run` as one of several processes.

use std::process::Output;

/// A sum over a mesh of 4, of numbers that differ from device to device.
const SPLIT: &str = "sdy.mesh @mesh = <[\"x\"=4]>
func.func @main() -> tensor<f32> {
  %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{\"x\"}]>]>} : tensor<10xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : (tensor<10xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}";

#[cfg(feature = "mpi")]
fn on_ranks(ranks: usize, file: &str) -> Output {
    let mut command = meshwork_testing::ranks::mpirun(ranks);
    meshwork_testing::ranks::output(command.args([env!("CARGO_BIN_EXE_meshwork"), "run", file]))
}

/// The file of one test.
fn file(name: &str, text: &str) -> String {
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[cfg(feature = "mpi")]
#[test]
fn a_split_program_runs_over_processes_and_one_prints() {
    let file = file("processes_split.mlir", SPLIT);
    for ranks in [2, 3, 5] {
        let out = on_ranks(ranks, &file);
        let (text, err) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{err}");
        assert_eq!(text.matches("45").count(), 1, "{ranks} ranks: {text}{err}");
    }
}

#[cfg(feature = "mpi")]
#[test]
fn a_trace_has_the_devices_of_all_processes() {
    let program = file("processes_traced.mlir", SPLIT);
    let trace = format!("{program}.json");
    for ranks in [2, 4] {
        let mut command = meshwork_testing::ranks::mpirun(ranks);
        let command = command.args([env!("CARGO_BIN_EXE_meshwork"), "run", &program, "--profile", &trace]);
        let out = meshwork_testing::ranks::output(command);
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let written: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&trace).unwrap()).unwrap();
        let events = written["traceEvents"].as_array().unwrap();
        for device in 0..4 {
            let name = format!("device {device} (rank {})", device * ranks / 4);
            assert!(events.iter().any(|e| e["args"]["name"] == name.as_str()), "{ranks} ranks: no {name} in {written}");
            let own = |category: &str| events.iter().any(|e| e["pid"] == device && e["cat"] == category);
            assert!(own("step") && own("allocation") && own("collective"), "{ranks} ranks, {device}: {written}");
        }
        // The first to come waits.
        assert!(events.iter().any(|e| e["cat"] == "waiting"), "{ranks} ranks: {written}");
    }
}

#[cfg(feature = "mpi")]
#[test]
fn a_program_that_starts_others_runs_over_processes() {
    let program = |first: i64| {
        format!(
            "module {{
  func.func @each(%x: tensor<2xi64>) -> tensor<2xi64> {{
    %0 = \"stablehlo.all_reduce\"(%x) ({{ ^bb0(%a: tensor<i64>, %b: tensor<i64>):
      %s = stablehlo.add %a, %b : tensor<i64>
      stablehlo.return %s : tensor<i64> }}) {{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}} : (tensor<2xi64>) -> tensor<2xi64>
    return %0 : tensor<2xi64>
  }}
  func.func @main() {{
    %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
    %1 = stablehlo.constant dense<[10, 20]> : tensor<2xi64>
    %r:2 = \"interpreter.run_parallel\"(%0, %1) {{programs = [[@each], [@each]]}} : (tensor<2xi64>, tensor<2xi64>) -> (tensor<2xi64>, tensor<2xi64>)
    check.expect_eq_const %r#0, dense<[11, 22]> : tensor<2xi64>
    check.expect_eq_const %r#1, dense<[{first}, 22]> : tensor<2xi64>
    return
  }}
}}"
        )
    };
    let out = on_ranks(2, &file("processes_right.mlir", &program(11)));
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    // A failed check is the status of the whole job.
    let out = on_ranks(2, &file("processes_wrong.mlir", &program(12)));
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{err}");
    assert!(err.contains("check failed"), "{err}");
}

/// Without MPI, one of several processes refuses to do all the work.
#[cfg(not(feature = "mpi"))]
#[test]
fn one_of_several_without_mpi_refuses() {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_meshwork"));
    command.args(["run", &file("processes_without.mlir", SPLIT)]);
    command.env("OMPI_COMM_WORLD_RANK", "1").env("OMPI_COMM_WORLD_SIZE", "4");
    let out: Output = command.output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{err}");
    assert!(
        err.contains("started by Open MPI's mpirun as one of 4 processes, but this program was built without MPI"),
        "{err}"
    );
}
