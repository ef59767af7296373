//! The command from outside: exit status, messages, arrays in and out.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use meshwork_ir::{ElementType, Literal, npy};

/// The folder of one test.
fn folder(test: &str) -> PathBuf {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn meshwork(args: &[&str], stdin: impl AsRef<[u8]>) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_meshwork"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails early does not read its input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_ref());
    child.wait_with_output().unwrap()
}

/// Exit status, standard output, standard error.
fn said(args: &[&str], stdin: impl AsRef<[u8]>) -> (i32, String, String) {
    let out = meshwork(args, stdin);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code().unwrap(), text(&out.stdout), text(&out.stderr))
}

fn f32s(dims: &[i64], values: &[f32]) -> Literal {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    Literal::from_bytes(dims.iter().copied(), ElementType::F32, bytes).unwrap()
}

const ADD: &str = "func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.add %a, %b : tensor<2xf32>
  return %0 : tensor<2xf32>
}
";

#[test]
fn arrays_in_and_out() {
    let dir = folder("arrays_in_and_out");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_string();
    std::fs::write(path("a.npy"), npy::write(&f32s(&[2], &[1.0, 2.0]))).unwrap();
    std::fs::write(path("b.npy"), npy::write(&f32s(&[2], &[10.0, -0.5]))).unwrap();

    let (status, out, err) = said(&["run", "-", &path("a.npy"), &path("b.npy")], ADD);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "result 0: tensor<2xf32>\n[11.0,  1.5]\n", ""));

    let out_dir = path("out");
    let (status, out, err) = said(&["run", "-", "--out", &out_dir, &path("a.npy"), &path("b.npy")], ADD);
    assert_eq!((status, out.as_str(), err.as_str()), (0, "", ""));
    let result = npy::read(&std::fs::read(dir.join("out/0.npy")).unwrap()).unwrap();
    assert_eq!(result, f32s(&[2], &[11.0, 1.5]));
}

#[test]
fn inputs_that_do_not_fit_are_named() {
    let dir = folder("inputs_that_do_not_fit");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_string();
    let good = path("good.npy");
    std::fs::write(&good, npy::write(&f32s(&[2], &[1.0, 2.0]))).unwrap();
    let long = path("long.npy");
    std::fs::write(&long, npy::write(&f32s(&[3], &[1.0, 2.0, 3.0]))).unwrap();
    let ints = path("ints.npy");
    std::fs::write(&ints, npy::write(&Literal::zeros([2], ElementType::I32))).unwrap();

    let message = |inputs: &[&str]| {
        let (status, _, err) = said(&[&["run", "-"], inputs].concat(), ADD);
        assert_eq!(status, 2);
        err
    };
    assert_eq!(message(&[&good]), "error: @main takes 2 inputs (tensor<2xf32>, tensor<2xf32>), 1 given\n");
    assert_eq!(
        message(&[&good, &long]),
        format!("error: input 1 ({long}): @main expects tensor<2xf32>, the array is tensor<3xf32> (dtype <f4)\n")
    );
    assert_eq!(
        message(&[&ints, &good]),
        format!("error: input 0 ({ints}): @main expects tensor<2xf32>, the array is tensor<2xi32> (dtype <i4)\n")
    );
    let missing = path("missing.npy");
    assert!(message(&[&missing]).starts_with(&format!("error: cannot read {missing}: ")));
}

#[test]
fn entry_function_is_chosen() {
    let two = "func.func @f() -> tensor<i32> {
      %0 = stablehlo.constant dense<1> : tensor<i32>
      return %0 : tensor<i32>
    }
    func.func @g() -> tensor<i32> {
      %0 = stablehlo.constant dense<2> : tensor<i32>
      return %0 : tensor<i32>
    }";
    assert_eq!(said(&["run", "-", "--entry", "g"], two), (0, "result 0: tensor<i32>\n2\n".into(), "".into()));
    let (status, _, err) = said(&["run", "-"], two);
    assert_eq!(status, 2);
    assert_eq!(err, "error: the module has no function @main; choose another with --entry; its functions: @f, @g\n");
    let (status, _, err) = said(&["run", "-", "--entry", "h"], two);
    assert_eq!((status, err.as_str()), (2, "error: the module has no function @h; its functions: @f, @g\n"));
}

#[test]
fn failed_checks_exit_with_1() {
    let check = |value: &str| {
        let program = format!(
            "func.func @main() {{
               %0 = stablehlo.constant dense<1> : tensor<i32>
               check.expect_eq_const %0, dense<{value}> : tensor<i32>
               return
             }}"
        );
        said(&["run", "-"], &program)
    };
    assert_eq!(check("1"), (0, "".into(), "".into()));
    let (status, _, err) = check("2");
    assert_eq!(status, 1);
    assert!(
        err.starts_with("<stdin>:3:") && err.contains("'check.expect_eq_const'") && err.contains("got 1, expected 2"),
        "{err}"
    );
}

#[test]
fn what_is_not_supported_exits_with_77() {
    let quantized =
        "func.func @main(%a: tensor<2x!quant.uniform<i8:f32, 0.5>>) -> tensor<2x!quant.uniform<i8:f32, 0.5>> {
      return %a : tensor<2x!quant.uniform<i8:f32, 0.5>>
    }";
    let (status, _, err) = said(&["run", "-"], quantized);
    assert_eq!(status, 77, "{err}");
    assert!(err.contains("not supported: quantized type"), "{err}");
}

#[test]
fn bad_text_is_one_message_with_its_place() {
    let (status, out, err) = said(&["fmt", "-"], "func.func @main() {\n  %0 = stablehlo.add %x, %x : tensor<f32>\n}\n");
    assert_eq!((status, out.as_str()), (2, ""));
    assert!(err.starts_with("<stdin>:2:"), "{err}");
    assert!(err.contains("stablehlo.add %x, %x"), "{err}");
}

#[test]
fn files_that_are_no_text() {
    let dir = folder("files_that_are_no_text");
    let path = dir.join("x.mlir").to_str().unwrap().to_string();
    std::fs::write(&path, [b'a', 0xff]).unwrap();
    let (status, _, err) = said(&["verify", &path], "");
    assert_eq!(
        (status, err),
        (2, format!("error: {path} is neither a text file nor MLIR bytecode: byte 1 is not UTF-8\n"))
    );
}

#[test]
fn verify_reports_every_file() {
    let dir = folder("verify_reports_every_file");
    let path = |name: &str| dir.join(name).to_str().unwrap().to_string();
    std::fs::write(path("good.mlir"), ADD).unwrap();
    std::fs::write(path("bad.mlir"), "func.func @f(").unwrap();
    std::fs::write(path("worse.mlir"), "}").unwrap();
    assert_eq!(said(&["verify", &path("good.mlir")], ""), (0, "".into(), "".into()));
    let (status, _, err) = said(&["verify", &path("bad.mlir"), &path("good.mlir"), &path("worse.mlir")], "");
    assert_eq!(status, 2);
    assert!(err.contains("bad.mlir:1:") && err.contains("worse.mlir:1:"), "{err}");
}

#[test]
fn deep_nesting_is_no_stack_overflow() {
    let depth = 100_000;
    for text in [
        "(".repeat(depth),
        format!("func.func @f() {}", "{".repeat(depth)),
        format!("module attributes {{a = {}", "[".repeat(depth)),
        format!("func.func @f(%a: {}f32", "tuple<".repeat(depth)),
    ] {
        let (status, _, err) = said(&["verify", "-"], &text);
        assert_eq!(status, 2, "{}", &err[..err.len().min(300)]);
        assert!(err.len() < 2000, "{} bytes of message", err.len());
    }
}

#[test]
fn opt_splits_and_verifies_diagnostics() {
    let text = "func.func @f() {
  return
}
// -----
func.func @g() {
  // expected-error @+1 {{%x}}
  %0 = stablehlo.negate %x : tensor<f32>
}
";
    let (status, _, err) = said(&["opt", "-split-input-file", "--verify-diagnostics"], text);
    assert_eq!((status, err.as_str()), (0, ""));
    let (status, _, err) = said(&["opt", "-split-input-file"], text);
    assert_eq!(status, 2);
    assert!(err.starts_with("<stdin>:7:"), "{err}");
    let (status, _, err) = said(&["opt", "-verify-diagnostics"], "// expected-error {{nothing}}\n");
    assert_eq!(status, 1);
    assert!(err.contains("expected error \"nothing\" on line 1 was not produced"), "{err}");
}

#[test]
fn opt_refuses_what_it_does_not_know() {
    let (status, _, err) = said(&["opt", "-canonicalise"], "");
    assert_eq!(
        (status, err.as_str()),
        (
            2,
            "error: unknown option or pass '-canonicalise' (is -canonicalize meant?); 'meshwork opt --help' lists them\n"
        )
    );
    let foreign = "\"other.op\"() : () -> ()\n";
    let (status, _, err) = said(&["opt"], foreign);
    assert_eq!(status, 2);
    assert!(err.contains("unknown operation 'other.op'"), "{err}");
    assert_eq!(said(&["opt", "-allow-unregistered-dialect"], foreign).0, 0);
}

#[test]
fn help_is_there() {
    for command in ["run", "fmt", "verify", "opt"] {
        let (status, out, _) = said(&[command, "--help"], "");
        assert_eq!(status, 0);
        assert!(out.contains("Usage: meshwork"), "{out}");
        assert!(out.contains("Example"), "{out}");
    }
    let (_, out, _) = said(&["opt", "--help"], "");
    for pass in ["-canonicalize", "-cse", "-inline", "-symbol-dce"] {
        assert!(out.contains(&format!("  {pass} ")), "{out}");
    }
}

#[test]
fn programs_too_large_for_memory_are_refused() {
    let constant = "func.func @main() -> tensor<1000000x1000000xf32> {
  %0 = stablehlo.constant dense<0.0> : tensor<1000000x1000000xf32>
  return %0 : tensor<1000000x1000000xf32>
}
";
    let (status, _, err) = said(&["run", "-"], constant);
    assert_eq!(status, 77, "{err}");
    assert!(
        err.starts_with("<stdin>:2:") && err.contains("'stablehlo.constant'") && err.contains("4000000000000 bytes"),
        "{err}"
    );

    let broadcast = "func.func @main() {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<9000000000x9000000000x9000000000xf32>
  return
}
";
    // No machine could hold it, so it is not a program at all.
    let (status, _, err) = said(&["run", "-"], broadcast);
    assert_eq!(status, 2, "{err}");
    assert!(err.starts_with("<stdin>:3:") && err.contains("more than 72057594037927936 bytes"), "{err}");
}

/// The sum of eight numbers split over `devices`.
fn sum_over(devices: &str) -> String {
    format!(
        "sdy.mesh @m = <[\"x\"={devices}]>
func.func @main(%0: tensor<8xf32> {{sdy.sharding = #sdy.sharding<@m, [{{\"x\"}}]>}}) -> tensor<f32> {{
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %1 = stablehlo.reduce(%0 init: %z) applies stablehlo.add across dimensions = [0] : \
(tensor<8xf32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}}
"
    )
}

#[test]
fn meshes_too_large_to_run_are_refused() {
    let input = folder("meshes_too_large").join("ones.npy");
    std::fs::write(&input, npy::write(&f32s(&[8], &[1.0; 8]))).unwrap();
    let input = input.to_str().unwrap();
    let (status, out, err) = said(&["run", "-", input], sum_over("4"));
    assert_eq!((status, out.as_str()), (0, "result 0: tensor<f32>\n8.0\n"), "{err}");
    let (status, _, err) = said(&["run", "-", input], sum_over("65536"));
    assert_eq!(status, 77, "{err}");
    assert!(err.contains("the mesh has 65536 devices; the evaluator runs at most 4096"), "{err}");
    let (status, _, err) = said(&["partition", "-"], sum_over("4294967295"));
    assert_eq!(status, 77, "{err}");
    assert!(err.contains("mesh @m has 4294967295 devices"), "{err}");
}

#[test]
fn the_entry_of_a_split_program_can_be_chosen() {
    let source = "sdy.mesh @m = <[\"x\"=2]>
func.func @main() -> tensor<4xf32> {
  %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@m, [{\"x\"}]>]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @other() -> tensor<4xf32> {
  %0 = call @main() : () -> tensor<4xf32>
  %1 = stablehlo.negate %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}
";
    let (status, out, err) = said(&["run", "-", "--entry", "other"], source);
    assert_eq!((status, out.as_str()), (0, "result 0: tensor<4xf32>\n[-0.0, -1.0, -2.0, -3.0]\n"), "{err}");
}

#[test]
fn messages_stay_short() {
    let (status, _, err) = said(&["verify", "-"], "x".repeat(1_000_000));
    assert_eq!(status, 2);
    assert!(err.len() < 10_000 && err.starts_with("<stdin>:1:1: error: 'xxx"), "{} bytes", err.len());
}

/// Two functions over a mesh; one uses an unknown operation.
const TWO_FUNCTIONS: &str = r#"sdy.mesh @mesh = <["x"=2]>
func.func @first(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @second(%a: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<4xf32> {
  %0 = "foo.bar"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"#;

#[test]
fn one_of_several_functions_is_split_placed_and_explained() {
    for command in [&["partition", "-", "--entry", "first"][..], &["explain", "-", "--entry", "first"]] {
        let (status, out, err) = said(command, TWO_FUNCTIONS);
        assert_eq!((status, err.as_str()), (0, ""), "{command:?}: {out}");
    }
    let (status, out, _) = said(&["why", "-", "%arg0", "--entry", "first"], TWO_FUNCTIONS);
    assert!(status == 0 && out.contains("split by \"x\""), "{out}");
    let (status, _, err) = said(&["partition", "-", "--entry", "third"], TWO_FUNCTIONS);
    assert!(status == 2 && err.contains("no function @third; its functions: @first, @second"), "{err}");
    let (status, _, err) = said(&["partition", "-"], TWO_FUNCTIONS);
    assert!(status == 2 && err.contains("--entry"), "{err}");
}

#[test]
fn an_operation_that_cannot_be_split_is_shown_in_the_text() {
    let (status, _, err) = said(&["partition", "-", "--entry", "second"], TWO_FUNCTIONS);
    assert_eq!(status, 77, "{err}");
    assert!(err.starts_with("<stdin>:7:8: not supported: 'foo.bar': the operation is not known"), "{err}");
    assert!(err.contains("\n  "), "the line is quoted: {err}");
    assert!(err.contains(r#"%0 = "foo.bar"(%a)"#), "{err}");
}

/// The per-device program remembers where its operations come from.
#[test]
fn what_fails_on_the_devices_is_shown_in_the_text() {
    let source = r#"sdy.mesh @mesh = <["x"=2]>
func.func @main() -> tensor<4xi32> {
  %0 = stablehlo.iota dim = 0 {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}]>]>} : tensor<4xi32>
  %1 = stablehlo.custom_call @unknown(%0) : (tensor<4xi32>) -> tensor<4xi32>
  return %1 : tensor<4xi32>
}
"#;
    let (status, _, err) = said(&["run", "-"], source);
    assert_eq!(status, 77, "{err}");
    assert!(err.contains("<stdin>:4:8: not supported: 'stablehlo.custom_call': custom call @unknown"), "{err}");
}

/// Weights are split over the axis that splits the batch: the placement in which the batch leads is the quicker one.
const LED_BY_DATA: &str = r#"sdy.mesh @mesh = <["x"=4]>
func.func @main(
    %up: tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
    %down: tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
    %batch: tensor<8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<64x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
        tensor<256x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, tensor<8x64xf32>) {
  %h = stablehlo.dot_general %batch, %up, contracting_dims = [1] x [0] : (tensor<8x64xf32>, tensor<64x256xf32>) -> tensor<8x256xf32>
  %t = stablehlo.tanh %h : tensor<8x256xf32>
  %y = stablehlo.dot_general %t, %down, contracting_dims = [1] x [0] : (tensor<8x256xf32>, tensor<256x64xf32>) -> tensor<8x64xf32>
  %out = stablehlo.tanh %y : tensor<8x64xf32>
  %g = stablehlo.dot_general %t, %out, contracting_dims = [0] x [0] : (tensor<8x256xf32>, tensor<8x64xf32>) -> tensor<256x64xf32>
  %new_down = stablehlo.add %down, %g : tensor<256x64xf32>
  %new_up = stablehlo.add %up, %up : tensor<64x256xf32>
  return %new_up, %new_down, %out : tensor<64x256xf32>, tensor<256x64xf32>, tensor<8x64xf32>
}
"#;

#[test]
fn why_explains_the_placement_that_runs() {
    let (status, placed, _) = said(&["partition", "--placed", "-"], LED_BY_DATA);
    assert_eq!(status, 0);
    let tanh = placed.lines().find(|line| line.contains("stablehlo.tanh")).unwrap();
    assert!(tanh.contains(r#"[{"x"}, {}]"#), "the batch leads: {tanh}");
    let (status, why, _) = said(&["why", "-", "9"], LED_BY_DATA);
    assert_eq!(status, 0);
    assert!(why.contains(r#"dimension 0 (8): split by "x""#), "{why}");
    assert!(why.contains("dimension 1 (256): whole"), "{why}");
    assert!(why.contains("annotated: argument 2"), "{why}");
}

/// The sum of the numbers below 4: an extent is known at run time only.
const DYNAMIC: &str = "func.func @main() -> tensor<f32> {
  %n = stablehlo.constant dense<4> : tensor<1xi32>
  %d = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [0] : (tensor<?xf32>, tensor<f32>) -> tensor<f32>
  return %s : tensor<f32>
}
";

#[test]
fn what_runs_on_the_evaluator_is_noted_and_in_the_stats_and_the_profile() {
    let folder = folder("evaluator_noted");
    let (stats, profile) = (folder.join("stats.json"), folder.join("profile.json"));
    let files = ["--stats", stats.to_str().unwrap(), "--profile", profile.to_str().unwrap()];
    let (status, out, err) = said(&[&["run", "-"], &files[..]].concat(), DYNAMIC);
    assert_eq!((status, out.as_str()), (0, "result 0: tensor<f32>\n6.0\n"), "{err}");
    assert!(err.contains("note: the program runs on the evaluator: "), "{err}");
    for file in [stats, profile] {
        let text = std::fs::read_to_string(file).unwrap();
        assert!(text.contains("the program runs on the evaluator: "), "{text}");
    }
    let (_, _, err) = said(&["run", "-"], DYNAMIC);
    assert!(err.starts_with("note: the program runs on the evaluator: "), "{err}");
    let (_, _, err) = said(&["run", "--engine", "evaluator", "-"], DYNAMIC);
    assert_eq!(err, "");
}

#[test]
fn donation_marks_survive_partitioning() {
    let source = r#"sdy.mesh @mesh = <["x"=2]>
func.func public @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>, tf.aliasing_output = 0 : i32},
    %b: tensor<4xf32> {jax.buffer_donor = true}) -> (tensor<8xf32>) {
  %0 = stablehlo.add %a, %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"#;
    let (status, out, err) = said(&["partition", "-"], source);
    assert_eq!(status, 0, "{err}");
    assert!(out.contains("tf.aliasing_output = 0") && out.contains("jax.buffer_donor"), "{out}");
}

/// A program and its bytecode, which the tests of `meshwork-ir` check against each other.
const COLLECTIVES: (&str, &[u8]) = (
    include_str!("../../meshwork-ir/tests/bytecode/collectives.mlir"),
    include_bytes!("../../meshwork-ir/tests/bytecode/collectives.mlirbc"),
);

#[test]
fn bytecode_is_read_as_text_is() {
    let dir = folder("bytecode_is_read_as_text_is");
    let file = dir.join("program.mlirbc").to_str().unwrap().to_string();
    let (text, bytes) = COLLECTIVES;
    std::fs::write(&file, bytes).unwrap();
    for command in ["fmt", "verify", "opt", "partition"] {
        let (status, expected, err) = said(&[command, "-"], text);
        assert_eq!((status, err.as_str()), (0, ""), "{command}");
        assert_eq!(said(&[command, &file], ""), (0, expected.clone(), String::new()), "{command} of a file");
        assert_eq!(said(&[command, "-"], bytes), (0, expected, String::new()), "{command} of standard input");
    }
    let (status, _, err) = said(&["fmt", "-"], &bytes[..40]);
    assert_eq!(status, 2);
    assert!(err.starts_with("<stdin>: error: MLIR bytecode, byte "), "{err}");
}

#[test]
fn lines_of_bytecode_are_those_of_the_source() {
    let bytes = include_bytes!("../../meshwork-ir/tests/bytecode/locations.mlirbc");
    let (status, out, err) = said(&["why", "-", "12"], bytes);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(out.starts_with("add at train.py:12, f32[]"), "{out}");
    let (status, _, err) = said(&["why", "-", "99"], bytes);
    assert_eq!((status, err.as_str()), (2, "error: no operation with a tensor result starts on line 99\n"));
}

#[test]
fn explore_writes_one_page() {
    let folder = folder("explore_writes_one_page");
    let path = |name: &str| folder.join(name).to_str().unwrap().to_string();
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/mlir/split_matmul.mlir");
    let (lock, trace, page) = (path("plan.lock"), path("trace.json"), path("page.html"));
    assert_eq!(said(&["explain", program, "--write-lock", &lock], "").0, 0);
    assert_eq!(said(&["run", program, "--profile", &trace], "").0, 0);
    let all = ["explore", program, "--against", &lock, "--profile", &trace, "--budget", "1000", "--out", &page];
    assert_eq!(said(&all, ""), (0, String::new(), format!("wrote {page}: open it in a browser\n")));
    let first = std::fs::read_to_string(&page).unwrap();
    assert!(first.starts_with("<!doctype html>") && first.contains("<title>split_matmul.mlir"));
    assert_eq!(said(&all, "").0, 0);
    assert_eq!(first, std::fs::read_to_string(&page).unwrap());

    let variants = ["explore", program, "--what-if", "model=2", "--what-if", "model=8", "--out", &page];
    assert_eq!(said(&variants, "").0, 0);
    assert_ne!(first.len(), std::fs::read_to_string(&page).unwrap().len());
    let (status, _, err) = said(&["explore", program, "--what-if", "model"], "");
    assert!(status == 2 && err.contains("'model' is not a list of axes, as data=8,model=2"), "{err}");
    let (status, _, err) = said(&["explore", program, "--what-if", "other=2", "--out", &page], "");
    assert!(status == 2 && err.contains("model"), "{err}");

    let (status, out, _) = said(&["explore", "-"], ADD);
    assert!(status == 0 && out.starts_with("<!doctype html>"));
    let (status, _, err) = said(&["explore", program, "--profile", &lock, "--out", &page], "");
    assert!(status == 2 && err.contains("the trace is not JSON"), "{err}");
    std::fs::write(&lock, "meshwork plan 0\n").unwrap();
    let (status, _, err) = said(&["explore", program, "--against", &lock, "--out", &page], "");
    assert!(status == 2 && err.contains("a lock file starts with 'meshwork plan 1'"), "{err}");
}
