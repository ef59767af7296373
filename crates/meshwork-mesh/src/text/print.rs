//! `Display` for meshes and shardings: the text that Shardy prints.

use std::fmt::{Display, Formatter, Result, Write};

use super::cursor::bare_identifier;
use crate::axis::AxisRef;
use crate::mesh::{Mesh, MeshAxis};
use crate::sharding::{DimSharding, MeshRef, Reduction, Sharding};

/// A string in double quotes, with MLIR's escapes.
pub struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('"')?;
        for byte in self.0.bytes() {
            match byte {
                b'\\' => f.write_str("\\\\")?,
                b'"' => f.write_str("\\22")?,
                b' '..=b'~' => f.write_char(byte as char)?,
                _ => write!(f, "\\{byte:02X}")?,
            }
        }
        f.write_char('"')
    }
}

/// A symbol: `@name`, with quotes where the name is not an identifier.
pub struct SymbolName<'a>(pub &'a str);

impl Display for SymbolName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match bare_identifier(self.0) {
            Some(name) if name.len() == self.0.len() => write!(f, "@{name}"),
            _ => write!(f, "@{}", Quoted(self.0)),
        }
    }
}

/// A list of axes in braces: `{"x", "y":(1)2}`.
pub struct AxisList<'a>(pub &'a [AxisRef]);

impl Display for AxisList<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('{')?;
        commas(f, self.0)?;
        f.write_char('}')
    }
}

impl Display for AxisRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        Quoted(&self.name).fmt(f)?;
        match self.sub {
            Some(sub) => write!(f, ":({}){}", sub.pre_size, sub.size),
            None => Ok(()),
        }
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
        commas(f, self.axes())?;
        f.write_char(']')?;
        if let Some(ids) = self.device_ids() {
            f.write_str(", device_ids=[")?;
            commas(f, ids)?;
            f.write_char(']')?;
        }
        f.write_char('>')
    }
}

impl Display for MeshRef {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            MeshRef::Symbol(name) => SymbolName(name).fmt(f),
            MeshRef::Inline(mesh) => write!(f, "mesh{mesh}"),
        }
    }
}

impl Display for Reduction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Reduction::Sum => "sum",
            Reduction::Max => "max",
            Reduction::Min => "min",
        })
    }
}

impl Display for DimSharding {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('{')?;
        commas(f, &self.axes)?;
        if !self.is_closed {
            f.write_str(if self.axes.is_empty() { "?" } else { ", ?" })?;
        }
        f.write_char('}')?;
        match self.priority {
            Some(priority) => write!(f, "p{priority}"),
            None => Ok(()),
        }
    }
}

impl Display for Sharding {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "<{}, [", self.mesh)?;
        commas(f, &self.dims)?;
        f.write_char(']')?;
        if !self.replicated.is_empty() {
            write!(f, ", replicated={}", AxisList(&self.replicated))?;
        }
        if !self.unreduced.is_empty() {
            f.write_str(", unreduced=")?;
            if self.reduction != Reduction::Sum {
                self.reduction.fmt(f)?;
            }
            AxisList(&self.unreduced).fmt(f)?;
        }
        f.write_char('>')
    }
}

fn commas<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
