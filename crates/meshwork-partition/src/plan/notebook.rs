//! A plan as a part of a page, as notebooks show it.

use meshwork_mesh::{Picture, notebook};

use super::explain::tables;
use super::{Border, Detail, Machine, Plan, human_bytes, short_type};

/// Arrays that are drawn, at most.
const PICTURES: usize = 12;

impl Plan {
    /// The plan as a part of a page: `table`, which [`table`](super::table) makes, and a picture of how each split argument
    /// and result is placed.
    pub fn html(&self, table: &str) -> String {
        let is_split = |b: &&Border| !b.sharding.has_no_axes();
        let borders = self.arguments.iter().chain(&self.results).filter(is_split);
        let pictures: String = borders
            .take(PICTURES)
            .filter_map(|b| {
                let picture = Picture::new(&b.sharding, &self.mesh, b.ty.dims()).ok()?;
                let title = format!("{} {}", b.name, short_type(&b.ty));
                Some(format!("<div style=\"display:inline-block\">{}</div>", picture.with_title(title.trim()).svg()))
            })
            .collect();
        let sent = human_bytes(self.wire_bytes());
        format!("<div><p>A device sends {sent} in a run.</p>{}{pictures}</div>", notebook::preformatted(table))
    }

    /// Shows the plan in a notebook of evcxr, with the times of default links.
    pub fn evcxr_display(&self) {
        let table = tables(self, &Machine::default(), Detail::Short, None);
        println!("{}", notebook::content(&self.html(&table)));
    }
}
