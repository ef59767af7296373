//! Values show themselves in notebooks of evcxr: each prints HTML between the marks that evcxr looks for.

use std::process::Command;

use meshwork::prelude::*;

/// Shows something, in a process whose output is read.
#[test]
fn show() {
    let Ok(what) = std::env::var("MESHWORK_TEST_SHOW") else { return };
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let array = Array::from_fn([4, 6], |i| i[0] as f32).shard(&mesh, P!["x", "y"]).unwrap();
    let f = jit(|a: Tensor| a.sum_all());
    match what.as_str() {
        "array" => array.evcxr_display(),
        "sharding" => array.placement().unwrap().sharding.evcxr_display(),
        "mesh" => mesh.evcxr_display(),
        "picture" => meshwork::Picture::whole(&[2, 3]).evcxr_display(),
        "plan" => f.plan(&array).unwrap().evcxr_display(),
        "page" => f.explore(&array).unwrap().evcxr_display(),
        "profile" => f.profile(&array).unwrap().evcxr_display(),
        other => panic!("{other}"),
    }
}

#[test]
fn values_show_themselves() {
    let wanted: [(&str, &[&str]); 7] = [
        ("array", &["<svg", "<pre>[[0. 0.", "f32[4, 6]"]),
        ("sharding", &["<pre>", "{\"x\"}, {\"y\"}"]),
        ("mesh", &["<pre>", "\"x\"=2, \"y\"=2"]),
        ("picture", &["<svg"]),
        ("plan", &["<svg", "all-reduce", "A device sends"]),
        ("page", &["<iframe srcdoc=\"<!doctype html>"]),
        ("profile", &["<pre>", "computing", "waiting", "allocating"]),
    ];
    for (what, parts) in wanted {
        let own = std::env::current_exe().unwrap();
        let mut command = Command::new(own);
        command.args(["--exact", "show", "--nocapture"]).env("MESHWORK_TEST_SHOW", what);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, rest) = text.split_once("EVCXR_BEGIN_CONTENT text/html\n").unwrap_or_else(|| panic!("{what}: {text}"));
        let (html, _) = rest.split_once("\nEVCXR_END_CONTENT\n").unwrap_or_else(|| panic!("{what}: {text}"));
        for part in parts {
            assert!(html.contains(part), "{what} has no {part}: {}", &html[..html.len().min(2000)]);
        }
    }
}
