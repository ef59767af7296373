//! Plugins that are missing, of another kind or version, that fail, and that end the process. Each is a small library in C; where
//! a process may end, it is another one.

use std::path::PathBuf;
use std::process::Command;

use meshwork_pjrt::PjrtEngine;
use meshwork_testing::Folder;

/// A library with these lines of C; `None`, with a line on standard error, where there is no C compiler.
fn library(folder: &Folder, name: &str, code: &str) -> Option<PathBuf> {
    let (source, path) = (folder.path().join(format!("{name}.c")), folder.path().join(format!("{name}.so")));
    std::fs::write(&source, code).expect("the folder can be written");
    match Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&path).arg(&source).status() {
        Ok(status) if status.success() => Some(path),
        other => {
            eprintln!("skipped: cc does not work ({other:?})");
            None
        }
    }
}

/// A plugin of this version, whose calls all run `call`.
fn plugin(major: i32, minor: i32, call: &str) -> String {
    format!(
        "#include <stddef.h>
         #include <stdlib.h>
         #include <string.h>
         struct version {{ size_t size; void *next; int major, minor; }};
         struct api {{ size_t size; void *next; struct version version; void *calls[140]; }};
         static struct api api;
         static void *call(void *args) {{ {call} }}
         static void message(void *args) {{
           ((char **)args)[3] = \"no such device\"; ((size_t *)args)[4] = 14; }}
         static void *nothing(void *args) {{ return 0; }}
         const void *GetPjrtApi(void) {{
           api.size = sizeof api; api.version.size = sizeof api.version;
           api.version.major = {major}; api.version.minor = {minor};
           for (int i = 0; i < 140; i++) api.calls[i] = call;
           api.calls[0] = nothing; api.calls[1] = message; api.calls[2] = nothing; api.calls[3] = nothing;
           return &api; }}"
    )
}

fn open(path: &std::path::Path) -> String {
    match PjrtEngine::open(&path.display().to_string()) {
        Ok(_) => "it opens".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_no_plugin_is_refused() {
    let folder = Folder::new("pjrt_faults");
    let missing = folder.path().join("missing.so");
    let error = open(&missing);
    assert!(error.starts_with(&format!("cannot load the PJRT plugin {}", missing.display())), "{error}");
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").expect("the folder can be written");
    let error = open(&text);
    assert!(error.starts_with("cannot load the PJRT plugin"), "{error}");
    let Some(other) = library(&folder, "other", "int answer(void) { return 42; }") else { return };
    let error = open(&other);
    assert!(error.contains("it is not a PJRT plugin"), "{error}");
    let error = PjrtEngine::open("no-such-plugin").map(|_| ()).expect_err("it opens").to_string();
    assert!(error.contains("install it with pip, or give the path of its library"), "{error}");
}

#[test]
fn other_versions_are_refused() {
    let folder = Folder::new("pjrt_versions");
    for (name, major, minor) in [("old", 0, 30), ("new", 1, 0)] {
        let Some(path) = library(&folder, name, &plugin(major, minor, "return 0;")) else { return };
        let error = open(&path);
        assert!(
            error.ends_with(&format!("has API version {major}.{minor}; version 0.54 or later is needed")),
            "{error}"
        );
    }
}

#[test]
fn errors_of_the_plugin_are_told() {
    let folder = Folder::new("pjrt_errors");
    let Some(path) = library(&folder, "failing", &plugin(0, 112, "return &api;")) else { return };
    assert_eq!(open(&path), "client_create: no such device (Unknown)");
}

/// A plugin that aborts takes the process with it, which says in which call.
#[test]
fn an_abort_names_the_call() {
    if let Some(path) = std::env::var_os("MESHWORK_TEST_ABORTS") {
        panic!("{}", open(&PathBuf::from(path)));
    }
    let folder = Folder::new("pjrt_aborts");
    let Some(path) = library(&folder, "aborting", &plugin(0, 112, "abort();")) else { return };
    let own = std::env::current_exe().expect("the test has a path");
    let child = Command::new(own)
        .args(["--exact", "an_abort_names_the_call", "--nocapture"])
        .env("MESHWORK_TEST_ABORTS", path)
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&child.stderr);
    assert!(!child.status.success());
    let wanted = "the process was aborted; the last call of a PJRT plugin was client_create";
    assert!(said.contains(wanted), "{said}");
}
