//! Arrays as text, as NumPy prints them: nested, aligned, long ones shortened; then the placement in a line.
//!
//! ```
//! use meshwork_runtime::Array;
//!
//! let x = Array::from([[1.0f32, 2.5], [-3.0, 40.0]]);
//! assert_eq!(x.to_string(), "[[ 1.   2.5]\n [-3.  40. ]]");
//! assert_eq!(Array::from([true, false]).to_string(), "[ true false]");
//! ```

use std::fmt;

use meshwork_ir::{ElementClass, ElementType, Literal, Scalar};

use super::Array;

/// More elements than this are shortened to [`EDGE`] at each end of each dimension.
const MOST: i64 = 1000;
const EDGE: i64 = 3;
/// Lines are at most this long, and floats have at most this many digits behind the point.
const WIDTH: usize = 75;
const DIGITS: usize = 8;

/// Elements, if they are here, then a line with type and placement, if it has one.
impl fmt::Display for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(literal) = self.here() else { return self.describe(f) };
        f.write_str(&Text::new(literal, self.size() > MOST).write())?;
        if self.placement.is_some() {
            f.write_str("\n")?;
            self.describe(f)?;
        }
        Ok(())
    }
}

/// Type, elements if there are few, and placement, in one line.
impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype(), self.shape())?;
        if let Some(literal) = self.here().filter(|_| self.size() <= 64) {
            let lines = Text::new(literal, false).write();
            write!(
                f,
                " {}",
                lines.split_whitespace().collect::<Vec<_>>().join(" ").replace("[ ", "[").replace(" ]", "]")
            )?;
        }
        self.placement.as_ref().map_or(Ok(()), |p| write!(f, " {}", p.sharding))
    }
}

impl Array {
    /// The elements, unless there are none, or they would have to be gathered from other processes for a message.
    fn here(&self) -> Option<&Literal> {
        self.data.as_ref().filter(|d| d.is_here()).and_then(|_| self.literal().ok())
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{:?}", self.dtype(), self.shape())?;
        self.placement.as_ref().map_or(Ok(()), |p| write!(f, " {}", p.sharding))
    }
}

/// What the elements of an array look like: all in one width.
struct Text<'a> {
    literal: &'a Literal,
    short: bool,
    form: Form,
}

enum Form {
    /// Integers and truth values, flush right.
    Words {
        width: usize,
    },
    Floats(Floats),
    Complex(Floats, Floats),
}

impl<'a> Text<'a> {
    fn new(literal: &'a Literal, short: bool) -> Text<'a> {
        let mut text = Text { literal, short, form: Form::Words { width: 0 } };
        let mut shown = vec![];
        text.visit(0, 0, &mut |i| shown.push(literal.get(i)));
        let elem = literal.elem();
        let part = |part: fn(&Scalar) -> f64| shown.iter().map(part).collect::<Vec<_>>();
        text.form = match elem.class() {
            ElementClass::Float => Form::Floats(Floats::new(&part(real), elem, "")),
            ElementClass::Complex => {
                let elem = if elem.bits() > 64 { ElementType::F64 } else { ElementType::F32 };
                Form::Complex(Floats::new(&part(real), elem, ""), Floats::new(&part(imaginary), elem, "+"))
            }
            _ => Form::Words { width: shown.iter().map(|s| word(s).len()).max().unwrap_or(0) },
        };
        text
    }

    /// The elements that are shown, in order.
    fn visit(&self, axis: usize, at: usize, see: &mut dyn FnMut(usize)) {
        let Some(&n) = self.literal.dims().get(axis) else { return see(at) };
        for i in self.positions(n).flatten() {
            self.visit(axis + 1, at * n as usize + i as usize, see);
        }
    }

    /// The positions of a dimension that are shown; `None` for those that are left out.
    fn positions(&self, n: i64) -> impl Iterator<Item = Option<i64>> {
        let cut = self.short && n > 2 * EDGE;
        let head = if cut { EDGE } else { n };
        (0..head).map(Some).chain(cut.then_some(None)).chain((if cut { n - EDGE } else { n }..n).map(Some))
    }

    fn write(&self) -> String {
        if self.literal.is_empty() { "[]".into() } else { self.nested(0, 0, " ", WIDTH) }
    }

    /// The part at `at` of the dimensions before `axis`; continued lines start with `indent`.
    fn nested(&self, axis: usize, at: usize, indent: &str, width: usize) -> String {
        let dims = self.literal.dims();
        let Some(&n) = dims.get(axis) else { return self.element(at) };
        let (mut text, deeper) = (String::new(), format!("{indent} "));
        let part = |i: Option<i64>| match i {
            Some(i) => self.nested(axis + 1, at * n as usize + i as usize, &deeper, width - 1),
            None => "...".into(),
        };
        if axis + 1 == dims.len() {
            let mut line = indent.to_string();
            for (k, word) in self.positions(n).map(part).enumerate() {
                if line.len() + usize::from(k > 0) + word.len() > width.saturating_sub(1) && line.len() > indent.len() {
                    text.push_str(line.trim_end());
                    text.push('\n');
                    line = indent.to_string();
                } else if k > 0 {
                    line.push(' ');
                }
                line.push_str(&word);
            }
            text.push_str(&line);
        } else {
            let parts: Vec<String> = self.positions(n).map(|i| format!("{indent}{}", part(i))).collect();
            text = parts.join(&"\n".repeat(dims.len() - axis - 1));
        }
        format!("[{}]", &text[indent.len()..])
    }

    fn element(&self, i: usize) -> String {
        let value = self.literal.get(i);
        match &self.form {
            Form::Words { width } => format!("{:>width$}", word(&value)),
            Form::Floats(form) => form.write(real(&value)),
            Form::Complex(re, im) => {
                let imaginary = im.write(imaginary(&value));
                let end = imaginary.trim_end().len();
                format!("{}{}j{}", re.write(real(&value)), &imaginary[..end], &imaginary[end..])
            }
        }
    }
}

fn word(value: &Scalar) -> String {
    match value {
        Scalar::Bool(v) => v.to_string(),
        Scalar::Int(v) => v.to_string(),
        Scalar::UInt(v) => v.to_string(),
        Scalar::Float(v) | Scalar::Complex(v, _) => v.to_string(),
    }
}

fn real(value: &Scalar) -> f64 {
    match *value {
        Scalar::Float(v) | Scalar::Complex(v, _) => v,
        _ => 0.0,
    }
}

fn imaginary(value: &Scalar) -> f64 {
    match *value {
        Scalar::Complex(_, v) => v,
        _ => 0.0,
    }
}

/// How all floats of an array are written: with their points below each other, or all by exponents.
struct Floats {
    elem: ElementType,
    /// What stands before numbers that are not negative.
    sign: &'static str,
    exponents: bool,
    /// Characters before and behind the point.
    before: usize,
    behind: usize,
}

impl Floats {
    fn new(values: &[f64], elem: ElementType, sign: &'static str) -> Floats {
        let sizes = || values.iter().filter(|v| v.is_finite() && **v != 0.0).map(|v| v.abs());
        let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
        let exponents = most > 0.0 && (most >= 1e8 || least < 1e-4 || most / least > 1000.0);
        let mut form = Floats { elem, sign, exponents, before: 0, behind: 0 };
        for &value in values.iter().filter(|v| v.is_finite()) {
            let text = form.digits(value);
            let (before, behind) = text.split_once('.').unwrap_or((&text, ""));
            form.before = form.before.max(before.len());
            form.behind = form.behind.max(behind.split('e').next().unwrap_or("").len());
        }
        let tail = form.tail();
        for &value in values.iter().filter(|v| !v.is_finite()) {
            form.before = form.before.max(form.special(value).len().saturating_sub(tail));
        }
        form
    }

    /// The characters from the point on.
    fn tail(&self) -> usize {
        1 + self.behind + if self.exponents { 4 } else { 0 }
    }

    fn special(&self, value: f64) -> String {
        match value {
            _ if value.is_nan() => format!("{}nan", self.sign),
            _ if value > 0.0 => format!("{}inf", self.sign),
            _ => "-inf".into(),
        }
    }

    /// The fewest digits that tell the number from others of its type, at most [`DIGITS`] behind the point.
    fn digits(&self, value: f64) -> String {
        let exact = shortest(value, self.elem);
        let sign = if value.is_sign_negative() { "" } else { self.sign };
        if self.exponents {
            let (mantissa, exponent) = exact.split_once('e').unwrap_or((&exact, "0"));
            let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
            if behind.len() > DIGITS {
                let rounded = format!("{value:.DIGITS$e}");
                let (mantissa, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
                return format!("{sign}{}e{}", mantissa.trim_end_matches('0'), exponent_text(exponent));
            }
            return format!("{sign}{whole}.{behind}e{}", exponent_text(exponent));
        }
        // The decimal that the shortest digits stand for.
        let decimal = exact.parse::<f64>().unwrap_or(value);
        let text = format!("{decimal}");
        let behind = text.split_once('.').map_or(0, |(_, behind)| behind.len());
        let text = if behind > DIGITS { format!("{value:.DIGITS$}") } else { text };
        match text.contains('.') {
            true => format!("{sign}{}", text.trim_end_matches('0')),
            false => format!("{sign}{text}."),
        }
    }

    fn write(&self, value: f64) -> String {
        let (before, tail) = (self.before, self.tail());
        if !value.is_finite() {
            return format!("{:>width$}", self.special(value), width = before + tail);
        }
        let text = self.digits(value);
        let (whole, behind) = text.split_once('.').unwrap_or((&text, ""));
        match behind.split_once('e') {
            Some((behind, exponent)) => {
                format!("{whole:>before$}.{behind:0<digits$}e{exponent}", digits = self.behind)
            }
            None => format!("{whole:>before$}.{behind:<digits$}", digits = self.behind),
        }
    }
}

/// With a sign and at least two digits.
fn exponent_text(exponent: &str) -> String {
    let value: i32 = exponent.parse().unwrap_or(0);
    format!("{}{:02}", if value < 0 { '-' } else { '+' }, value.abs())
}

/// The fewest digits that read back as the same number of type `elem`, with an exponent.
fn shortest(value: f64, elem: ElementType) -> String {
    match elem {
        ElementType::F64 => format!("{value:e}"),
        ElementType::F16 | ElementType::BF16 => {
            let same = |digits: &usize| {
                let text = format!("{value:.digits$e}", digits = *digits);
                let back = text.parse().unwrap_or(0.0);
                match elem {
                    ElementType::F16 => half::f16::from_f64(back).to_f64() == value,
                    _ => half::bf16::from_f64(back).to_f64() == value,
                }
            };
            let digits = (0..8).find(same).unwrap_or(8);
            format!("{value:.digits$e}")
        }
        _ => format!("{:e}", value as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from NumPy 2: `str` of the same arrays.
    #[test]
    fn like_numpy() {
        let cases: Vec<(Array, &str)> = vec![
            (Array::from([1.0f64, 2.5, -3.25]), "[ 1.    2.5  -3.25]"),
            (Array::from([0.1f32, 0.2]), "[0.1 0.2]"),
            (Array::from([0.00001f64, 1.0]), "[1.e-05 1.e+00]"),
            (Array::from([1e10f64, 1.5]), "[1.0e+10 1.5e+00]"),
            (Array::from([1.0f64 / 3.0, 2.0]), "[0.33333333 2.        ]"),
            (Array::from([1.0f32 / 3.0, 2.0]), "[0.33333334 2.        ]"),
            (Array::from([f64::NAN, 1.0, f64::INFINITY]), "[nan  1. inf]"),
            (Array::from([f64::NEG_INFINITY, 1.5]), "[-inf  1.5]"),
            (Array::from([1i32, -20, 300]), "[  1 -20 300]"),
            (Array::from([[1i64, 2], [3, 40]]), "[[ 1  2]\n [ 3 40]]"),
            (Array::from([[[1u8], [2]], [[3], [4]]]), "[[[1]\n  [2]]\n\n [[3]\n  [4]]]"),
            (Array::scalar(2.5f32), "2.5"),
            (Array::scalar(7i32), "7"),
            (Array::zeros([0], ElementType::F32), "[]"),
            (Array::from_fn([1001], |i| i[0] as i32), "[   0    1    2 ...  998  999 1000]"),
            (
                Array::from_fn([30], |i| i[0] as f32),
                "[ 0.  1.  2.  3.  4.  5.  6.  7.  8.  9. 10. 11. 12. 13. 14. 15. 16. 17.\n 18. 19. 20. 21. 22. 23. 24. 25. 26. 27. 28. 29.]",
            ),
            (Array::from([half::f16::from_f32(0.1), half::f16::from_f32(2.0)]), "[0.1 2. ]"),
        ];
        for (array, text) in cases {
            assert_eq!(array.to_string(), text, "{:?}", array.ty());
        }
    }

    #[test]
    fn complex_numbers_are_whole() {
        let bytes: Vec<u8> = [1.0f32, 2.0, 0.0, -1.5].iter().flat_map(|v| v.to_le_bytes()).collect();
        let elem = ElementType::C64;
        let literal = Literal::from_bytes([2], elem, bytes).expect("two complex numbers");
        assert_eq!(Array::from_literal(literal).to_string(), "[1.+2.j  0.-1.5j]");
    }

    #[test]
    fn placements_are_a_line_and_debug_is_one() {
        let mesh = meshwork_mesh::Mesh::linear("x", 2).expect("a mesh");
        let x = Array::from([[1.0f32, 2.0], [3.0, 4.5]]);
        let split = x.clone().shard(&mesh, meshwork_mesh::P!["x"]).expect("a placement");
        assert_eq!(split.to_string(), "[[1.  2. ]\n [3.  4.5]]\nf32[2, 2] <mesh<[\"x\"=2]>, [{\"x\"}, {}]>");
        assert_eq!(format!("{x:?}"), "f32[2, 2] [[1. 2.] [3. 4.5]]");
        assert_eq!(Array::shape_only([3], ElementType::F32).to_string(), "f32[3]");
    }
}
