//! How values show themselves in a notebook of evcxr.
//!
//! evcxr calls `evcxr_display` of a value that ends a cell, and shows what it prints between two marks. The methods of
//! that name in the workspace print what [`content`] makes.

use crate::mesh::Mesh;
use crate::picture::Picture;
use crate::sharding::Sharding;

/// The lines that make evcxr show `html`.
///
/// ```
/// assert_eq!(meshwork_mesh::notebook::content("<b>2</b>"), "EVCXR_BEGIN_CONTENT text/html\n<b>2</b>\nEVCXR_END_CONTENT");
/// ```
pub fn content(html: &str) -> String {
    format!("EVCXR_BEGIN_CONTENT text/html\n{html}\nEVCXR_END_CONTENT")
}

/// Text as HTML that looks the same.
///
/// ```
/// assert_eq!(meshwork_mesh::notebook::preformatted("a < b"), "<pre>a &lt; b</pre>");
/// ```
pub fn preformatted(text: &str) -> String {
    format!("<pre>{}</pre>", text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;"))
}

impl Picture {
    /// Shows the picture in a notebook of evcxr.
    pub fn evcxr_display(&self) {
        println!("{}", content(&self.svg()));
    }
}

impl Mesh {
    /// Shows axes and device order in a notebook of evcxr.
    pub fn evcxr_display(&self) {
        println!("{}", content(&preformatted(&self.to_string())));
    }
}

impl Sharding {
    /// Shows the axes of each dimension in a notebook of evcxr. An array shows its blocks too.
    pub fn evcxr_display(&self) {
        println!("{}", content(&preformatted(&self.to_string())));
    }
}
