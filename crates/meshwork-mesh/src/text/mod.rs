//! Shardy's text forms: printed by `Display`, read by [`Cursor`] and the functions here.
//!
//! | value | text |
//! |---|---|
//! | [`Mesh`] | `<["x"=2, "y"=4], device_ids=[0, 2, ...]>` |
//! | [`AxisRef`] | `"x"` or `"x":(1)2` |
//! | [`DimSharding`] | `{"x", "y"}`, `{"x", ?}`, `{?}p1` |
//! | [`Sharding`] | `<@mesh, [{"x"}, {?}], replicated={"y"}, unreduced=max{"z"}>` |
//!
//! Meshes and shardings are printed without the `#sdy.mesh` or `#sdy.sharding` before them, and read with or
//! without. What the text says may still be wrong for its mesh: reading and [`crate::verify`] are
//! separate, so that each error is found in its place.

mod cursor;
mod grammar;
mod print;

pub use cursor::{Cursor, ParseError, bare_identifier, unescape};
pub use print::{AxisList, Quoted, SymbolName, write_escaped};

use crate::axis::AxisRef;
use crate::mesh::Mesh;
use crate::sharding::{DimSharding, Sharding};

/// Reads a mesh.
///
/// ```
/// let mesh = meshwork_mesh::parse_mesh(r#"<["a"=2], device_ids=[1, 0]>"#)?;
/// assert_eq!(mesh.device_at(&[0]), Some(1));
/// # Ok::<(), meshwork_mesh::ParseError>(())
/// ```
pub fn parse_mesh(text: &str) -> Result<Mesh, ParseError> {
    whole(text, Cursor::parse_mesh)
}

/// Reads a sharding.
///
/// ```
/// let text = r#"<@mesh, [{"x", ?}p1, {}], replicated={"y"}>"#;
/// assert_eq!(meshwork_mesh::parse_sharding(text)?.to_string(), text);
/// # Ok::<(), meshwork_mesh::ParseError>(())
/// ```
pub fn parse_sharding(text: &str) -> Result<Sharding, ParseError> {
    whole(text, Cursor::parse_sharding)
}

/// Reads the sharding of one dimension.
pub fn parse_dim_sharding(text: &str) -> Result<DimSharding, ParseError> {
    whole(text, Cursor::parse_dim_sharding)
}

/// Reads a reference to an axis.
pub fn parse_axis(text: &str) -> Result<AxisRef, ParseError> {
    whole(text, Cursor::parse_axis)
}

/// Reads a list of axes in braces.
pub fn parse_axis_list(text: &str) -> Result<Vec<AxisRef>, ParseError> {
    whole(text, Cursor::parse_axis_list)
}

fn whole<'a, T>(text: &'a str, parse: impl FnOnce(&mut Cursor<'a>) -> Result<T, ParseError>) -> Result<T, ParseError> {
    let mut cursor = Cursor::new(text);
    let value = parse(&mut cursor)?;
    cursor.expect_end()?;
    Ok(value)
}

macro_rules! from_str {
    ($($ty:ty => $parse:ident),*) => {$(
        impl std::str::FromStr for $ty {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                $parse(text)
            }
        }
    )*};
}

from_str!(Mesh => parse_mesh, Sharding => parse_sharding, DimSharding => parse_dim_sharding, AxisRef => parse_axis);
