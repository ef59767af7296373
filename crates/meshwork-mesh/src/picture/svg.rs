//! The picture as SVG: a tile per block, as wide and high as its share of the array, colored by its first device.

use std::fmt::Write;

use super::{Panel, Picture, devices, range, ranges};

/// Sizes in pixels.
const TILE: f64 = 44.0;
const ACROSS: f64 = 440.0;
const DOWN: f64 = 260.0;
const MARGIN: f64 = 24.0;
const GAP: f64 = 3.0;
const LETTER: f64 = 7.4;
const LINE: f64 = 18.0;

impl Picture {
    /// The picture as an SVG image.
    pub fn svg(&self) -> String {
        let mut body = String::new();
        let mut y = MARGIN + 14.0;
        text(&mut body, MARGIN, y, "start", 15, "#1f2430", &self.title);
        y += LINE + 2.0;
        text(&mut body, MARGIN, y, "start", 12, "#5b6472", &self.labels.join("   ·   "));
        y += LINE;
        let longest = self.title.chars().count().max(self.labels.join("   ·   ").chars().count()) as f64 * 7.6;
        let mut width = longest.max(220.0);
        match self.panels() {
            Some(panels) => {
                // As many panels side by side as fit.
                let scale = if panels.len() > 1 { 0.5 } else { 1.0 };
                let size = panels.first().map_or((0.0, 0.0), |p| extent(p, scale));
                let fit = ((2.0 * ACROSS) / (size.0 + MARGIN)).floor().clamp(1.0, 4.0) as usize;
                let across = (1..=fit).rev().find(|n| panels.len() % n == 0).unwrap_or(1);
                for (i, panel) in panels.iter().enumerate() {
                    let (column, row) = (i % across, i / across);
                    let at = (MARGIN + column as f64 * (size.0 + MARGIN), y + row as f64 * (size.1 + MARGIN));
                    draw(&mut body, panel, at, scale);
                    width = width.max(at.0 + size.0 - MARGIN);
                }
                y += panels.len().div_ceil(across) as f64 * (size.1 + MARGIN);
            }
            None => {
                const SHOWN: usize = 64;
                for block in self.blocks.iter().take(SHOWN) {
                    y += LINE;
                    let line = format!("{}   {}", ranges(&block.slice), devices(&block.devices));
                    width = width.max(line.chars().count() as f64 * LETTER);
                    text(&mut body, MARGIN, y, "start", 12, "#1f2430", &line);
                }
                if self.blocks.len() > SHOWN {
                    y += LINE;
                    let more = format!("and {} more blocks", self.blocks.len() - SHOWN);
                    text(&mut body, MARGIN, y, "start", 12, "#5b6472", &more);
                }
                y += LINE;
            }
        }
        if !self.idle.is_empty() {
            text(&mut body, MARGIN, y, "start", 12, "#5b6472", &format!("hold nothing: {}", devices(&self.idle)));
            y += LINE;
        }
        let (width, height) = (width + 2.0 * MARGIN, y + MARGIN / 2.0);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"ui-sans-serif, Helvetica, Arial, sans-serif\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" fill=\"#ffffff\"/>\n{body}</svg>\n"
        )
    }
}

/// Widths of columns and heights of rows: by share of the array, but no smaller than what is written in them.
fn sizes(panel: &Panel, scale: f64) -> (Vec<f64>, Vec<f64>) {
    let share = |ranges: &[std::ops::Range<i64>], length: f64| -> Vec<f64> {
        let total: i64 = ranges.iter().map(|r| r.end - r.start).sum::<i64>().max(1);
        ranges.iter().map(|r| length * (r.end - r.start) as f64 / total as f64).collect()
    };
    let letters = |j: usize| {
        let cells = panel.cells.iter().map(|row| devices(&row[j]).chars().count());
        cells.chain([range(&panel.columns[j]).len()]).max().unwrap_or(0) as f64
    };
    let columns = share(&panel.columns, ACROSS * scale);
    let columns = columns.into_iter().enumerate().map(|(j, w)| w.max(letters(j) * LETTER + 14.0).max(TILE)).collect();
    let rows = if panel.rows.is_empty() {
        vec![TILE * 1.4]
    } else {
        share(&panel.rows, DOWN * scale).into_iter().map(|h| h.max(TILE * 0.75)).collect()
    };
    (columns, rows)
}

/// Room that row names take on the left.
fn left(panel: &Panel) -> f64 {
    panel.rows.iter().map(|r| range(r).len()).max().map_or(0.0, |n| n as f64 * LETTER + 10.0)
}

/// Room that column names, and the panel's own, take above.
fn above(panel: &Panel) -> f64 {
    if panel.place.is_empty() { LINE } else { 2.0 * LINE }
}

fn extent(panel: &Panel, scale: f64) -> (f64, f64) {
    let (columns, rows) = sizes(panel, scale);
    (left(panel) + columns.iter().sum::<f64>(), above(panel) + rows.iter().sum::<f64>())
}

fn draw(out: &mut String, panel: &Panel, (x0, y0): (f64, f64), scale: f64) {
    let (columns, rows) = sizes(panel, scale);
    if !panel.place.is_empty() {
        text(out, x0 + left(panel), y0 + 13.0, "start", 12, "#1f2430", &ranges(&panel.place));
    }
    let mut y = y0 + above(panel);
    for (i, (cells, &height)) in panel.cells.iter().zip(&rows).enumerate() {
        let mut x = x0 + left(panel);
        if let Some(row) = panel.rows.get(i) {
            text(out, x - 8.0, y + height / 2.0 + 4.0, "end", 12, "#5b6472", &range(row));
        }
        for (j, (cell, &width)) in cells.iter().zip(&columns).enumerate() {
            if i == 0 {
                text(out, x + width / 2.0, y - 6.0, "middle", 12, "#5b6472", &range(&panel.columns[j]));
            }
            let fill = colour(cell.first().copied().unwrap_or(0));
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"5\" fill=\"{fill}\"/>",
                x + GAP / 2.0,
                y + GAP / 2.0,
                width - GAP,
                height - GAP
            );
            text(out, x + width / 2.0, y + height / 2.0 + 5.0, "middle", 13, "#1f2430", &devices(cell));
            x += width;
        }
        y += height;
    }
}

/// A light color for each device; the golden angle separates the hues of neighbors.
fn colour(device: i64) -> String {
    let hue = (device as f64 * 137.508 + 205.0).rem_euclid(360.0);
    let (saturation, lightness) = (0.62, 0.80);
    let a = saturation * f64::min(lightness, 1.0 - lightness);
    let channel = |n: f64| {
        let k = (n + hue / 30.0) % 12.0;
        let value = lightness - a * (k - 3.0).min(9.0 - k).clamp(-1.0, 1.0);
        (value * 255.0).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", channel(0.0), channel(8.0), channel(4.0))
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, size: u32, fill: &str, words: &str) {
    let escaped = words.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\" fill=\"{fill}\">{escaped}</text>"
    );
}
