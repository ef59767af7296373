//! What building needs: of the crates behind `meshwork`, none compiles C or C++, or brings a compiler along.

use std::process::Command;

/// Crates by which build scripts compile C and C++, or read its headers.
const TOOLCHAIN: [&str; 8] = ["autocxx", "bindgen", "cc", "clang-sys", "cmake", "cxx", "cxx-build", "meson"];

/// Crates that bring a compiler along: LLVM, MLIR, XLA.
const COMPILERS: [&str; 8] = ["inkwell", "llvm-sys", "melior", "mlir-sys", "pjrt-sys", "tblgen", "xla", "xla-sys"];

/// The crates that building a package needs, its build scripts included.
fn crates(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args([
        "tree",
        "--offline",
        "-e",
        "normal,build",
        "--prefix",
        "none",
    ]);
    let output = command.args(arguments).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("names");
    let mut names: Vec<String> = text.lines().filter_map(|line| line.split(' ').next()).map(String::from).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn no_cpp_toolchain_or_prebuilt_compiler() {
    for package in ["meshwork", "meshwork-cli", "meshwork-plugin"] {
        let names = crates(&["-p", package]);
        assert!(names.iter().any(|name| name == "meshwork-cpu"), "{names:?}");
        let found: Vec<&String> =
            names.iter().filter(|n| TOOLCHAIN.contains(&n.as_str()) || COMPILERS.contains(&n.as_str())).collect();
        assert!(found.is_empty(), "{package} needs {found:?}");
    }
    // MPI is C, and only who asks for it needs its headers: so the list above is one that finds something.
    let with_mpi = crates(&["-p", "meshwork", "--features", "mpi"]);
    assert!(with_mpi.iter().any(|name| name == "cc"), "{with_mpi:?}");
}
