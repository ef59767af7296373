//! Where an operation came from: the position in the text it was read from and MLIR's `loc`.

use std::panic::Location;
use std::sync::Arc;

/// A line and column of a text, both counted from one; zero means unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct TextPos {
    /// Line, from one.
    pub line: u32,
    /// Column in bytes, from one.
    pub col: u32,
}

/// A location attribute.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum LocKind {
    /// `loc("file":line:col)`, or a range, `loc("file":line:col to line:col)`.
    File {
        /// File name.
        file: Arc<str>,
        /// Line.
        line: u32,
        /// Column.
        col: u32,
        /// Line and column of the end of a range.
        to: Option<(u32, u32)>,
    },
    /// `loc("name"(child))`.
    Name {
        /// The name, for instance the path of a traced operation.
        name: Arc<str>,
        /// The position of the name, if given.
        child: Option<Loc>,
    },
    /// `loc(callsite(callee at caller))`.
    CallSite {
        /// Inside.
        callee: Loc,
        /// Outside.
        caller: Loc,
    },
    /// `loc(fused[a, b])`, with an optional metadata attribute kept as text.
    Fused(Vec<Loc>, Option<Arc<str>>),
    /// A location kept as its exact text (locations of other dialects).
    Opaque(Arc<str>),
}

/// An optional location. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub enum Loc {
    /// Not known.
    #[default]
    Unknown,
    /// A line of a Rust program, written as `loc("file":line:col)`.
    Rust(&'static Location<'static>),
    /// Any other.
    Of(Arc<LocKind>),
}

impl Loc {
    /// `loc("file":line:col)`.
    pub fn file(file: &str, line: u32, col: u32) -> Loc {
        LocKind::File { file: file.into(), line, col, to: None }.into()
    }

    /// Not known.
    #[inline]
    pub fn unknown() -> Loc {
        Loc::Unknown
    }

    /// Whether it is known.
    pub fn is_known(&self) -> bool {
        !matches!(self, Loc::Unknown)
    }

    /// The first file position in the location, outermost call last: what to show a person.
    pub fn source(&self) -> Option<(&str, u32, u32)> {
        let kind = match self {
            Loc::Unknown => return None,
            Loc::Rust(at) => return Some((at.file(), at.line(), at.column())),
            Loc::Of(kind) => &**kind,
        };
        match kind {
            LocKind::File { file, line, col, .. } => Some((file, *line, *col)),
            LocKind::Name { child, .. } => child.as_ref()?.source(),
            LocKind::CallSite { callee, caller } => callee.source().or_else(|| caller.source()),
            LocKind::Fused(parts, _) => parts.iter().find_map(Loc::source),
            LocKind::Opaque(_) => None,
        }
    }
}

impl From<LocKind> for Loc {
    fn from(kind: LocKind) -> Loc {
        Loc::Of(Arc::new(kind))
    }
}
