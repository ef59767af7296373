//! The data of a page: the plan as `explain --json` has it, the texts, the history of placements and the outline.
//!
//! Numbers that point to rows are written relative to their own row, so that the layers of a deep program have the same
//! text, which deflates to little. `decode.js` undoes it.

use meshwork_ir::hash::HashMap;
use meshwork_ir::{OpId, text};
use meshwork_partition::plan;
use serde_json::{Value, json};

use crate::program::Program;
use crate::tree::outline;
use crate::why::history;

/// The version of the page's data.
const FORMAT: u32 = 1;

pub fn data(program: &Program) -> Value {
    let compiled = &program.compiled;
    let (run, values) = (plan::simulate(compiled, &program.machine), plan::values(compiled));
    let mut plan = plan::data_of(compiled, &program.machine, &run, &values);
    let (device, lines) = text::print_lines(&compiled.module);
    let line_of: HashMap<OpId, u32> = lines.into_iter().collect();
    let device_lines: Vec<u32> = run.ops.iter().map(|op| line_of.get(&op.op).copied().unwrap_or(0)).collect();
    let outline = outline(&plan["ops"]);
    let mut why = history(program, &values);
    let mut device_lines = json!(device_lines);
    for (table, name) in [("ops", "place"), ("values", "name")] {
        without_lines(&mut plan[table], name);
    }
    let columns = &mut plan["ops"];
    for name in ["line", "alive", "start"] {
        differences(&mut columns[name]);
    }
    for name in ["operands", "until", "parent", "value", "collective"] {
        relative(&mut columns[name]);
    }
    differences(&mut plan["values"]["line"]);
    differences(&mut device_lines);
    for name in ["next", "value", "from", "through"] {
        relative(&mut why["links"][name]);
    }
    json!({
        "format": FORMAT,
        "generator": concat!("meshwork ", env!("CARGO_PKG_VERSION")),
        "plan": plan,
        "text": program.text,
        "device": device,
        "device_line": device_lines,
        "outline": outline,
        "why": why,
        "against": null,
        "variants": [],
        "run": null,
        "budget": null,
    })
}

/// Stands for `line` and the number in the column `line`, at the end of a text. No name has it: it is for private use.
const LINE: char = '\u{e000}';

/// Texts of the column `name` that end in `line 12` without it, if that is what the column `line` has.
fn without_lines(table: &mut Value, name: &str) {
    let lines: Vec<i64> = table["line"].as_array().into_iter().flatten().map(|l| l.as_i64().unwrap_or(0)).collect();
    for (cell, line) in table[name].as_array_mut().into_iter().flatten().zip(lines) {
        let Value::String(text) = cell else { continue };
        let end = format!("line {line}");
        if text.ends_with(&end) {
            text.truncate(text.len() - end.len());
            text.push(LINE);
        }
    }
}

/// Each number as the difference from the one before; fractions as whole trillionths.
fn differences(column: &mut Value) {
    let mut last = 0;
    for cell in column.as_array_mut().into_iter().flatten() {
        let now = match cell.as_i64() {
            Some(n) => n,
            None => (cell.as_f64().unwrap_or(0.0) * 1e12).round() as i64,
        };
        *cell = json!(now - last);
        last = now;
    }
}

/// Each number, or each of a list, as the difference from its row; numbers below zero stay, and are told apart by being
/// written as texts.
fn relative(column: &mut Value) {
    for (row, cell) in column.as_array_mut().into_iter().flatten().enumerate() {
        match cell {
            Value::Array(list) => list.iter_mut().for_each(|n| shift(n, row)),
            n => shift(n, row),
        }
    }
}

fn shift(n: &mut Value, row: usize) {
    if let Some(number) = n.as_i64() {
        *n = if number < 0 { number.to_string().into() } else { (number - row as i64).into() };
    }
}
