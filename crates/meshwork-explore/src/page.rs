//! The page: code, style and data in one file.

use std::io;
use std::path::Path;

use meshwork_mesh::notebook;
use meshwork_partition::plan;
use serde_json::Value;

use crate::against::{self, Against};
use crate::data::data;
use crate::pack::{attribute, pack};
use crate::program::Program;
use crate::trace::Run;

/// The code of the page, one file an idea, in the order in which they are read.
const CODE: [&str; 24] = [
    include_str!("../page/decode.js"),
    include_str!("../page/format.js"),
    include_str!("../page/dom.js"),
    include_str!("../page/model.js"),
    include_str!("../page/shards.js"),
    include_str!("../page/state.js"),
    include_str!("../page/list.js"),
    include_str!("../page/table.js"),
    include_str!("../page/text.js"),
    include_str!("../page/layout.js"),
    include_str!("../page/graph.js"),
    include_str!("../page/program.js"),
    include_str!("../page/value.js"),
    include_str!("../page/communication.js"),
    include_str!("../page/memory.js"),
    include_str!("../page/trace.js"),
    include_str!("../page/time.js"),
    include_str!("../page/compare.js"),
    include_str!("../page/roofline.js"),
    include_str!("../page/whatif.js"),
    include_str!("../page/overview.js"),
    include_str!("../page/inspector.js"),
    include_str!("../page/selftest.js"),
    include_str!("../page/main.js"),
];
const STYLE: &str = include_str!("../page/style.css");

/// Nothing is loaded from anywhere.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:";

/// The code without indentation and comments on lines of their own. No text of it goes over several lines.
fn code() -> String {
    let mut out = String::new();
    for line in CODE.iter().flat_map(|file| file.lines()).map(str::trim_start) {
        let is_comment = ["//", "/*", "* ", "*/"].iter().any(|mark| line.starts_with(mark));
        if !is_comment && !line.is_empty() {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

/// A page about a program.
pub struct Page {
    title: String,
    data: Value,
}

impl Page {
    /// The page of `program`, under `title`.
    pub fn new(title: &str, program: &Program) -> Page {
        let mut data = data(program);
        data["title"] = title.into();
        Page { title: title.into(), data }
    }

    /// With what changed since `against`.
    pub fn against(mut self, name: &str, program: &Program, against: &Against) -> Page {
        self.data["against"] = against.data(name, program);
        self
    }

    /// With a variant of the program, on another mesh or machine, in the table of what would be.
    pub fn what_if(mut self, name: &str, variant: &Program) -> Page {
        let row = against::totals(name, &plan::data(&variant.compiled, &variant.machine));
        if let Value::Array(rows) = &mut self.data["variants"] {
            rows.push(row);
        }
        self
    }

    /// With a measured run.
    pub fn with_run(mut self, run: &Run) -> Page {
        self.data["run"] = run.data();
        self
    }

    /// With a limit of the memory of a device, which the picture of its memory shows.
    pub fn budget(mut self, bytes: u64) -> Page {
        self.data["budget"] = bytes.into();
        self
    }

    /// The data of the page, before it is packed.
    pub fn data(&self) -> &Value {
        &self.data
    }

    /// The page as HTML.
    pub fn html(&self) -> String {
        let title = attribute(&self.title);
        let data = pack(&self.data);
        let code = code();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title} · Meshwork</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <noscript>This page shows its data with a script, which is switched off here.</noscript>\n\
             <div id=\"app\"></div>\n<script id=\"data\" type=\"text/plain\">{data}</script>\n\
             <script>\n'use strict';\n{code}</script>\n</body>\n</html>\n"
        )
    }

    /// Shows the page in a notebook of evcxr, which calls this for values that have it.
    pub fn evcxr_display(&self) {
        let page = self.html().replace('&', "&amp;").replace('"', "&quot;");
        let frame = format!("<iframe srcdoc=\"{page}\" style=\"width:100%;height:720px;border:0\"></iframe>");
        println!("{}", notebook::content(&frame));
    }

    /// Writes the page to a file.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        std::fs::write(path, self.html())
    }
}
