//! One page that shows a program, its shardings, its plan and a run.
//!
//! The page is a single HTML file: code, style and data are inside. It asks no server and no network, which its content
//! security policy makes the browser enforce. All numbers are those of `meshwork explain --json`; the page adds none of its
//! own but sums of them.
//!
//! ```
//! use meshwork_explore::{Page, Program};
//!
//! let text = r#"
//!   sdy.mesh @mesh = <["x"=4]>
//!   func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) -> tensor<8xf32> {
//!     %0 = stablehlo.tanh %a : tensor<8xf32>
//!     return %0 : tensor<8xf32>
//!   }"#;
//! let module = meshwork_ir::text::parse(text)?;
//! let program = Program::compile(module, Some(text), &Default::default(), 4 << 20)?;
//! let html = Page::new("example", &program).html();
//! assert!(html.starts_with("<!doctype html>"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod against;
mod curves;
mod data;
mod pack;
mod page;
mod program;
mod trace;
mod tree;
mod why;

pub use against::Against;
pub use curves::Curves;
pub use page::Page;
pub use program::Program;
pub use trace::{Run, TraceError};
