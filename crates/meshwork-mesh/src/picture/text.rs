//! The picture with characters.

use std::fmt;

use super::{Panel, Picture, devices, range, ranges};

impl fmt::Display for Picture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.panels() {
            Some(panels) => {
                for panel in &panels {
                    if !panel.place.is_empty() {
                        writeln!(f, "{}", ranges(&panel.place))?;
                    }
                    table(f, panel)?;
                }
            }
            None => {
                for block in &self.blocks {
                    writeln!(f, "{} {}", ranges(&block.slice), devices(&block.devices))?;
                }
            }
        }
        if !self.idle.is_empty() {
            writeln!(f, "nothing: {}", devices(&self.idle))?;
        }
        Ok(())
    }
}

fn table(f: &mut fmt::Formatter<'_>, panel: &Panel) -> fmt::Result {
    let names: Vec<String> = panel.rows.iter().map(range).collect();
    let columns: Vec<String> = panel.columns.iter().map(range).collect();
    let cells: Vec<Vec<String>> = panel.cells.iter().map(|row| row.iter().map(|d| devices(d)).collect()).collect();
    let left = names.iter().map(String::len).max().unwrap_or(0);
    let width = columns.iter().chain(cells.iter().flatten()).map(|c| c.chars().count()).max().unwrap_or(0);
    let mut line = |name: &str, cells: &[String]| {
        if left > 0 {
            write!(f, "{name:<left$} ")?;
        }
        let cells: Vec<String> = cells.iter().map(|c| format!("{c:<width$}")).collect();
        writeln!(f, "{}", cells.join(" "))
    };
    line("", &columns)?;
    for (i, row) in cells.iter().enumerate() {
        line(names.get(i).map_or("", String::as_str), row)?;
    }
    Ok(())
}
