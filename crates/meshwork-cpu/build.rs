//! Tells the crate how far the compiler optimizes it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-env=MESHWORK_OPT_LEVEL={}", std::env::var("OPT_LEVEL").unwrap_or_default());
}
