//! Drawings of which device holds what.

use meshwork_mesh::{Picture, notebook};

use super::Array;

impl Array {
    /// A picture of the blocks of the array: each shows the devices that hold it. The last two dimensions are a table,
    /// and each combination of blocks of the dimensions before has its own; very fine splits are listed.
    ///
    /// ```
    /// use meshwork_mesh::{Mesh, P};
    /// use meshwork_runtime::Array;
    ///
    /// let mesh = Mesh::linear("x", 3)?;
    /// let x = Array::from_fn([7], |i| i[0] as f32).shard(&mesh, P!["x"])?;
    /// assert_eq!(x.picture(), "\
    ///       0..3 3..6 6..7
    ///       0    1    2   \n".replace("      ", ""));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn picture(&self) -> String {
        self.drawing().to_string()
    }

    /// The same picture as an SVG image: a tile per block, as large as its share of the array.
    ///
    /// ```
    /// use meshwork_ir::ElementType::F32;
    /// use meshwork_mesh::{Mesh, P};
    /// use meshwork_runtime::Array;
    ///
    /// let mesh = Mesh::grid(("x", 2), ("y", 2))?;
    /// let x = Array::zeros([4, 6], F32).shard(&mesh, P!["x", "y"])?;
    /// assert!(x.picture_svg().starts_with("<svg"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn picture_svg(&self) -> String {
        self.drawing().svg()
    }

    /// Shows the array in a notebook of evcxr: its blocks, and its elements if they are in this process.
    pub fn evcxr_display(&self) {
        let html = format!("{}{}", self.picture_svg(), notebook::preformatted(&self.to_string()));
        println!("{}", notebook::content(&html));
    }

    fn drawing(&self) -> Picture {
        let picture = match self.placement() {
            // The placement was checked against the shape when it was given.
            Some(p) => {
                Picture::new(&p.sharding, &p.mesh, self.shape()).unwrap_or_else(|_| Picture::whole(self.shape()))
            }
            None => Picture::whole(self.shape()),
        };
        let place = self.placement().map_or("one device".into(), |p| p.mesh.without_device_ids().to_string());
        picture.with_title(format!("{}{:?} on {place}", self.dtype(), self.shape()))
    }
}
