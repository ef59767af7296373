//! A page of curves that a training run rewrites as it goes: loss, steps per second, memory, bytes sent.

use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use crate::pack::attribute;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 180.0;
/// Room for numbers at the left and below.
const MARGIN: (f64, f64) = (64.0, 22.0);
/// The most points of a curve that are drawn; longer curves are thinned out.
const POINTS: usize = 600;

/// Numbers over the steps of a run, and a page of curves of them that reloads itself.
///
/// ```
/// let mut curves = meshwork_explore::Curves::new("train");
/// for step in 0..3 {
///     curves.add(step, &[("loss", 2.0 / (1 + step) as f64), ("steps/s", 10.0)]);
/// }
/// assert!(curves.html().contains("loss"));
/// ```
pub struct Curves {
    title: String,
    names: Vec<String>,
    /// For each name, the steps and values.
    points: Vec<Vec<(u64, f64)>>,
    refresh: Option<u32>,
}

impl Curves {
    /// No points yet. The page reloads itself every five seconds.
    pub fn new(title: &str) -> Curves {
        Curves { title: title.into(), names: vec![], points: vec![], refresh: Some(5) }
    }

    /// Reloads the page every `seconds`, or not at all, as for a run that is over.
    pub fn refresh(mut self, seconds: Option<u32>) -> Curves {
        self.refresh = seconds;
        self
    }

    /// Adds the values of a step. Names appear in the order in which they come up; a value that is not finite leaves a gap.
    pub fn add(&mut self, step: u64, values: &[(&str, f64)]) {
        for (name, value) in values {
            let at = self.names.iter().position(|n| n == name).unwrap_or_else(|| {
                self.names.push((*name).into());
                self.points.push(vec![]);
                self.names.len() - 1
            });
            self.points[at].push((step, *value));
        }
    }

    /// Adds the memory that this process has at a step, in MiB, where the system says how much it is.
    pub fn add_memory(&mut self, step: u64) {
        if let Some(bytes) = resident_bytes() {
            self.add(step, &[("memory MiB", bytes as f64 / (1 << 20) as f64)]);
        }
    }

    /// The page, without any script.
    pub fn html(&self) -> String {
        let title = attribute(&self.title);
        let refresh =
            self.refresh.map(|s| format!("<meta http-equiv=\"refresh\" content=\"{s}\">\n")).unwrap_or_default();
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n{refresh}\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n\
             body {{ font: 0.875rem/1.45 system-ui, sans-serif; margin: 1rem 1.5rem; }}\n\
             main {{ display: flex; flex-wrap: wrap; gap: 1rem; }}\nfigure {{ margin: 0; }}\nh1 {{ font-size: 1.1rem; }}\n\
             figcaption {{ font-weight: 600; }}\npath {{ fill: none; stroke: #0072b2; stroke-width: 1.6; }}\n\
             line {{ stroke: #8886; }}\ntext {{ fill: currentColor; font-size: 11px; }}\n</style>\n</head>\n<body>\n\
             <h1>{title}</h1>\n<main>\n"
        );
        for (name, points) in self.names.iter().zip(&self.points) {
            curve(name, points, &mut out);
        }
        out.push_str("</main>\n</body>\n</html>\n");
        out
    }

    /// Writes the page. A reader never sees half of it: it takes the place of the one before at once.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(".part");
        let part = path.with_file_name(name);
        fs::write(&part, self.html())?;
        fs::rename(part, path)
    }
}

/// What Linux says is in memory of this process.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib << 10)
}

fn curve(name: &str, points: &[(u64, f64)], out: &mut String) {
    let finite = || points.iter().filter(|(_, v)| v.is_finite());
    let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), (_, v)| (a.min(*v), b.max(*v)));
    let Some((last, value)) = finite().next_back() else { return };
    let steps = || points.iter().map(|(step, _)| *step);
    let (first_step, last_step) = (steps().min().unwrap_or(0), steps().max().unwrap_or(0));
    let width = (WIDTH - MARGIN.0 - 8.0) / (last_step - first_step).max(1) as f64;
    let span = if high > low { high - low } else { 1.0 };
    let x = |step: u64| MARGIN.0 + width * (step - first_step) as f64;
    let y = |v: f64| 8.0 + (HEIGHT - MARGIN.1 - 8.0) * (low + span - v) / span;
    let name = attribute(name);
    // Writing to a string does not fail.
    let _ = write!(
        out,
        "<figure>\n<figcaption>{name}: {} at step {last}</figcaption>\n\
         <svg width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{name} from {} to {}\">\n",
        short(*value),
        short(low),
        short(high),
    );
    for v in [low, low + span / 2.0, low + span] {
        let (text, at) = (short(v), y(v));
        let _ = writeln!(
            out,
            "<line x1=\"{:.0}\" x2=\"{:.0}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            MARGIN.0,
            WIDTH - 8.0,
            MARGIN.0 - 6.0,
            at + 4.0
        );
    }
    let every = points.len().div_ceil(POINTS);
    let mut path = String::new();
    let mut pen = 'M';
    let is_drawn = |i: usize| i.is_multiple_of(every) || i + 1 == points.len();
    for (_, &(step, v)) in points.iter().enumerate().filter(|(i, _)| is_drawn(*i)) {
        if v.is_finite() {
            let _ = write!(path, "{pen}{:.1} {:.1}", x(step), y(v));
            pen = 'L';
        } else {
            pen = 'M';
        }
    }
    let _ = write!(
        out,
        "<path d=\"{path}\"/><text x=\"{:.0}\" y=\"{:.0}\">step {first_step}</text>\
         <text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{}</text>\n</svg>\n</figure>\n",
        MARGIN.0,
        HEIGHT - 6.0,
        WIDTH - 8.0,
        HEIGHT - 6.0,
        last_step,
    );
}

/// Four digits.
fn short(v: f64) -> String {
    match v.abs() {
        0.0 => "0".into(),
        a if (1e-3..1e6).contains(&a) => {
            let digits = (3 - a.log10().floor() as i32).clamp(0, 6) as usize;
            format!("{v:.digits$}")
        }
        _ => format!("{v:.3e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_have_gaps_where_values_are_not_finite() {
        let mut curves = Curves::new("run <1>").refresh(None);
        for (step, loss) in [2.0, f64::NAN, 1.0, 0.5].into_iter().enumerate() {
            curves.add(step as u64, &[("loss", loss)]);
        }
        let html = curves.html();
        // Two strokes of the pen.
        let path = html.split("<path d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(html.contains("run &lt;1&gt;") && html.contains("loss: 0.5000 at step 3"));
        assert!(!html.contains("refresh") && !html.contains("NaN"));
    }

    #[test]
    fn long_runs_and_single_points_are_drawn() {
        let mut curves = Curves::new("run");
        curves.add(0, &[("loss", 1.0), ("steps/s", 0.0)]);
        (0..100_000).for_each(|step| curves.add(step, &[("loss", 1.0 / (1 + step) as f64)]));
        let html = curves.html();
        assert!(html.len() < 40_000, "{} bytes", html.len());
        assert!(html.contains("steps/s: 0 at step 0"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_of_the_process_is_a_curve() {
        let mut curves = Curves::new("run");
        curves.add_memory(3);
        assert!(curves.html().contains("memory MiB: "), "{}", curves.html());
    }
}
