//! Meshes of named device axes, and how arrays are placed on them.
//!
//! A [`Mesh`] arranges devices along named axes. A [`Sharding`] says which axes split which dimension of an
//! array. Together they determine what each device holds, by arithmetic on axes, never on lists of devices.
//!
//! ```
//! use meshwork_mesh::{Mesh, Sharding, parse_sharding, slice_of, verify_sharding};
//!
//! // Eight devices: two groups of four.
//! let mesh = Mesh::new([("data", 2), ("model", 4)])?;
//!
//! // A batch of 10 rows over "data", 102 features over "model". 102 is not divisible by 4: the
//! // blocks have 26 elements, and the last one is shorter.
//! let sharding = Sharding::on_dims("mesh", &[(0, &["data"]), (-1, &["model"])], 2)?;
//! verify_sharding(&sharding, &mesh, Some(2))?;
//! assert_eq!(sharding.local_shape(&mesh, &[10, 102])?, [5, 26]);
//! assert_eq!(slice_of(&sharding, &mesh, &[10, 102], 7)?, [5..10, 78..102]);
//!
//! // The text form is Shardy's.
//! assert_eq!(sharding.to_string(), r#"<@mesh, [{"data"}, {"model"}]>"#);
//! assert_eq!(parse_sharding(r#"<@mesh, [{"data"}, {"model"}]>"#)?, sharding);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | `mesh`, `coordinates` | [`Mesh`]: axes, device order, coordinates of each device |
//! | `axis` | [`AxisRef`]: an axis or a part of one, and the algebra of parts |
//! | [`axis_list`] | lists of axes: prefixes, merging, cutting |
//! | `sharding`, `query` | [`Sharding`]: constructors and queries |
//! | [`verify`] | the rules of a valid sharding |
//! | `shard` | which elements each device holds; groups of devices |
//! | `topology` | [`Topology`]: how devices are connected, and meshes that keep neighbors close |
//! | `number` | divisors |
//! | `sort` | sorting with little code |
//! | [`notebook`] | how values show themselves under evcxr |
//! | `picture` | [`Picture`]: which devices hold which block, as text and SVG |
//! | `text` | Shardy's text forms |

#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// Makes `Debug` of an error type read like its `Display`, so that `fn main() -> Result<..>` and `unwrap` print the
/// message that was written for people.
#[macro_export]
macro_rules! debug_as_display {
    ($error:ty) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                ::std::fmt::Display::fmt(self, f)
            }
        }
    };
}

mod axis;
pub mod axis_list;
mod coordinates;
mod error;
mod mesh;
pub mod notebook;
mod number;
mod picture;
mod query;
mod shard;
mod sharding;
mod sort;
pub mod spec;
mod text;
mod topology;
pub mod verify;

pub use axis::{AxisRef, SubAxis};
pub use axis_list::PrefixStatus;
pub use error::{MeshError, ShardingError};
pub use mesh::{Mesh, MeshAxis};
pub use number::{gcd, prime_factors};
pub use picture::{Block, Picture};
pub use shard::{ceil_div, device_groups, shard_index, shard_range, slice_at, slice_of, slices};
pub use sharding::{DimSharding, MeshRef, Reduction, Sharding};
pub use sort::{sort_by, sort_by_key};
pub use spec::{Axes, Dim, P, dim};
pub use text::{
    AxisList, Cursor, ParseError, Quoted, SymbolName, bare_identifier, parse_axis, parse_axis_list, parse_dim_sharding,
    parse_mesh, parse_sharding, unescape, write_escaped,
};
pub use topology::{Split, Topology};
pub use verify::verify_sharding;
