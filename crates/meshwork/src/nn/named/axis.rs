//! A dimension with a name.

use std::fmt;
use std::sync::Arc;

/// A name and a size.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Axis {
    name: Arc<str>,
    size: i64,
}

impl Axis {
    /// The axis `name` of `size` elements.
    pub fn new(name: &str, size: i64) -> Axis {
        Axis { name: name.into(), size }
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of elements.
    pub fn size(&self) -> i64 {
        self.size
    }

    /// The same name with another size.
    pub fn resize(&self, size: i64) -> Axis {
        Axis { name: self.name.clone(), size }
    }

    /// The same size under another name: for a second axis of the same kind, as the keys of attention.
    pub fn alias(&self, name: &str) -> Axis {
        Axis::new(name, self.size)
    }
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.size)
    }
}

impl AsRef<Axis> for Axis {
    fn as_ref(&self) -> &Axis {
        self
    }
}
