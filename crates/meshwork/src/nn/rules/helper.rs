//! A mesh with the functions that take rules: `sjit`, queries, shard and gather.

use meshwork_mesh::Mesh;

use super::apply::{gather_tree, match_rule_tree, match_sharding_rule, shard_tree};
use super::{Matched, Report, Rule, lint};
use crate::error::Result;
use crate::function::Function;
use crate::jit::{Jit, jit};
use crate::tree::{HostTree, Tree};

/// A mesh with methods that apply rules on it.
#[derive(Clone, Debug)]
pub struct MeshHelper {
    mesh: Mesh,
}

impl MeshHelper {
    /// The mesh with these axes over `devices` devices; the size of at most one axis may be left open.
    ///
    /// ```
    /// use meshwork::rules::MeshHelper;
    ///
    /// let helper = MeshHelper::new(&[("data", None), ("model", Some(2))], 8)?;
    /// assert_eq!(helper.mesh().axis_size("data"), Some(4));
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn new(axes: &[(&str, Option<i64>)], devices: i64) -> Result<MeshHelper> {
        Ok(MeshHelper { mesh: Mesh::infer(axes, devices)? })
    }

    /// A helper for an existing mesh.
    pub fn of(mesh: &Mesh) -> MeshHelper {
        MeshHelper { mesh: mesh.clone() }
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// A function on this mesh. It takes rules wherever a placement goes: [`in_shardings`](Jit::in_shardings),
    /// [`out_shardings`](Jit::out_shardings), [`constrain`](Jit::constrain), [`annotations`](Jit::annotations).
    ///
    /// ```
    /// use meshwork::prelude::*;
    /// use meshwork::rules::{FsdpRule, MeshHelper};
    ///
    /// // Parameters are stored in parts and used whole.
    /// let helper = MeshHelper::new(&[("data", None)], 4)?;
    /// let f = helper
    ///     .sjit(|w: Tensor, x: Tensor| annotate("y", x.matmul(&w)))
    ///     .in_shardings([Rule::from(FsdpRule::new("data").least(1)), P!["data"].into()])
    ///     .constrain([P![].into(), Rule::Free])
    ///     .annotations([("y", P!["data"])])
    ///     .out_shardings([P!["data"]]);
    /// let (w, x) = (Array::full([8, 4], 1.0f32), Array::full([16, 8], 1.0f32));
    /// assert_eq!(f.plan((&w, &x))?.totals().keys().collect::<Vec<_>>(), [&"all-gather"]);
    /// assert_eq!(f.call((&w, &x))?.to_vec::<f32>()?, [8.0; 64]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn sjit<A, F: Function<A>>(&self, function: F) -> Jit<F, A> {
        jit(function).on(&self.mesh)
    }

    /// The placement of each array of a tree by `rule`.
    pub fn match_rule<T: Tree>(&self, rule: &Rule, tree: &T::Host) -> Result<Vec<Matched>> {
        match_sharding_rule::<T>(rule, tree, &self.mesh)
    }

    /// The placement of each array of a tree by `rule`, as a tree of the same structure.
    ///
    /// ```
    /// use meshwork::prelude::*;
    /// use meshwork::rules::{MeshHelper, TreePathRule};
    ///
    /// let helper = MeshHelper::new(&[("tp", None)], 2)?;
    /// let rule = Rule::from(TreePathRule::new([("^0", P![_, "tp"]), ("^1", P!["tp"])])?);
    /// let params = (Array::zeros([4, 8], F32), vec![Array::zeros([8, 4], F32)]);
    /// let placed = helper.match_rule_tree(&rule, &params)?;
    /// assert_eq!(placed.0.placement().unwrap().sharding.to_string(), r#"<mesh<["tp"=2]>, [{}, {"tp"}]>"#);
    /// assert_eq!(placed.1[0].shards()[1].slice, [4..8, 0..4]);
    /// # Ok::<(), meshwork::Error>(())
    /// ```
    pub fn match_rule_tree<H: HostTree>(&self, rule: &Rule, tree: &H) -> Result<H> {
        match_rule_tree(rule, tree, &self.mesh)
    }

    /// The tree placed by `rule`.
    pub fn shard<T: Tree>(&self, tree: &T::Host, rule: &Rule) -> Result<T::Host> {
        shard_tree::<T>(tree, rule, &self.mesh)
    }

    /// The tree on the host, without placements.
    pub fn gather<T: Tree>(&self, tree: &T::Host) -> Result<T::Host> {
        gather_tree::<T>(tree)
    }

    /// Likely mistakes in `rule` for a tree, and the bytes per device.
    pub fn lint<T: Tree>(&self, rule: &Rule, tree: &T::Host) -> Result<Report> {
        lint::<T>(rule, tree, &self.mesh)
    }
}
