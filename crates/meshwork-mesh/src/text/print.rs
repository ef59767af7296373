//! `Display` for meshes and shardings: the text that Shardy prints.

use std::fmt::{Display, Formatter, Result, Write};

use super::cursor::bare_identifier;
use crate::axis::AxisRef;
use crate::mesh::{Mesh, MeshAxis};
use crate::sharding::{DimSharding, MeshRef, Reduction, Sharding};

/// A string in double quotes, with MLIR's escapes.
pub struct Quoted<'a>(pub &'a str);

impl Quoted<'_> {
    fn write(&self, out: &mut impl Write) -> Result {
        out.write_char('"')?;
        write_escaped(out, self.0)?;
        out.write_char('"')
    }
}

/// Writes what stands between the quotes of a string: what is not printable ASCII as `\` and two hexadecimal digits.
pub fn write_escaped(out: &mut impl Write, text: &str) -> Result {
    let plain = |byte: u8| matches!(byte, b' '..=b'~') && byte != b'\\' && byte != b'"';
    if text.bytes().all(plain) {
        return out.write_str(text);
    }
    text.bytes().try_for_each(|byte| match byte {
        b'\\' => out.write_str("\\\\"),
        _ if plain(byte) => out.write_char(byte as char),
        _ => write!(out, "\\{byte:02X}"),
    })
}

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

/// A symbol: `@name`, with quotes where the name is not an identifier.
pub struct SymbolName<'a>(pub &'a str);

impl SymbolName<'_> {
    fn write(&self, out: &mut impl Write) -> Result {
        out.write_char('@')?;
        match bare_identifier(self.0) {
            Some(name) if name.len() == self.0.len() => out.write_str(name),
            _ => Quoted(self.0).write(out),
        }
    }
}

impl Display for SymbolName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

/// A list of axes in braces: `{"x", "y":(1)2}`.
pub struct AxisList<'a>(pub &'a [AxisRef]);

impl AxisList<'_> {
    fn write(&self, out: &mut impl Write) -> Result {
        out.write_char('{')?;
        commas(out, self.0, |out, axis| axis.write(out))?;
        out.write_char('}')
    }
}

impl Display for AxisList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

impl AxisRef {
    fn write(&self, out: &mut impl Write) -> Result {
        Quoted(&self.name).write(out)?;
        match self.sub {
            Some(sub) => write!(out, ":({}){}", sub.pre_size, sub.size),
            None => Ok(()),
        }
    }
}

impl Display for AxisRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

impl Display for MeshAxis {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{}={}", Quoted(&self.name), self.size)
    }
}

impl Display for Mesh {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str("<[")?;
        commas(f, self.axes(), |f, axis| axis.fmt(f))?;
        f.write_char(']')?;
        if let Some(ids) = self.device_ids() {
            f.write_str(", device_ids=[")?;
            commas(f, ids, |f, id| id.fmt(f))?;
            f.write_char(']')?;
        }
        f.write_char('>')
    }
}

impl MeshRef {
    fn write(&self, out: &mut impl Write) -> Result {
        match self {
            MeshRef::Symbol(name) => SymbolName(name).write(out),
            MeshRef::Inline(mesh) => write!(out, "mesh{mesh}"),
        }
    }
}

impl Display for MeshRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

impl Reduction {
    fn text(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
        }
    }
}

impl Display for Reduction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(self.text())
    }
}

impl DimSharding {
    fn write(&self, out: &mut impl Write) -> Result {
        out.write_char('{')?;
        commas(out, &self.axes, |out, axis| axis.write(out))?;
        if !self.is_closed {
            out.write_str(if self.axes.is_empty() { "?" } else { ", ?" })?;
        }
        out.write_char('}')?;
        match self.priority {
            Some(priority) => write!(out, "p{priority}"),
            None => Ok(()),
        }
    }
}

impl Display for DimSharding {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

impl Sharding {
    /// Writes what `Display` shows. Faster on a `String`: programs have a sharding for each argument.
    pub fn write(&self, out: &mut impl Write) -> Result {
        out.write_char('<')?;
        self.mesh.write(out)?;
        out.write_str(", [")?;
        commas(out, &self.dims, |out, dim| dim.write(out))?;
        out.write_char(']')?;
        if !self.replicated.is_empty() {
            out.write_str(", replicated=")?;
            AxisList(&self.replicated).write(out)?;
        }
        if !self.unreduced.is_empty() {
            out.write_str(", unreduced=")?;
            if self.reduction != Reduction::Sum {
                out.write_str(self.reduction.text())?;
            }
            AxisList(&self.unreduced).write(out)?;
        }
        out.write_char('>')
    }
}

impl Display for Sharding {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.write(f)
    }
}

fn commas<T, W: Write>(out: &mut W, items: &[T], mut item: impl FnMut(&mut W, &T) -> Result) -> Result {
    for (index, each) in items.iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        item(out, each)?;
    }
    Ok(())
}
