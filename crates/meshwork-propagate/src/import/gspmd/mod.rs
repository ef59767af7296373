//! Programs annotated for GSPMD: `mhlo.sharding` strings and the custom calls `@Sharding`, `@SPMDFullToShardShape` and
//! `@SPMDShardToFullShape` become shardings over one mesh, constraints and manual computations.
//!
//! - `text` reads a string.
//! - `digits` finds the mesh: axes such that every string is a list of them per dimension.
//! - `manual` makes a manual computation of what stands between full shapes and those of shards.
//!
//! What cannot be read is an error that quotes the string. A placement that a value has already stays.

mod digits;
mod manual;
mod text;

use std::sync::Arc;

use meshwork_ir::hash::HashMap;
use meshwork_ir::op::{ControlOp, SdyOp};
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, OpKind, OpSpec, TextPos, Type, ValueId, Walk};
use meshwork_mesh::{AxisRef, DimSharding, Mesh, MeshRef, Reduction, Sharding, sort_by_key};

use digits::{Cuts, Digit, digits};
use text::{Text, Use, listed, parse};

use crate::program::SHARDING;

const GSPMD: &str = "mhlo.sharding";

/// What a string says about a value.
#[derive(Clone, Debug)]
struct Placed {
    /// How it is placed; `None` if each device has its own.
    sharding: Option<Sharding>,
    /// The axes over which each device has its own.
    manual: Vec<AxisRef>,
}

/// Whether `module` has annotations for GSPMD.
pub fn has_gspmd(module: &Module) -> bool {
    !sites(module).is_empty()
}

/// Reads all annotations for GSPMD in `module`. See the module's documentation.
pub fn import_gspmd(module: &mut Module, diagnostics: &mut Vec<Diagnostic>) -> Result<(), Failed> {
    let sites = sites(module);
    let reader = Reader::new(module, &sites).map_err(|error| fail(diagnostics, error))?;
    let mut read = HashMap::default();
    for site in &sites {
        let placed = reader.place(module, site).map_err(|error| fail(diagnostics, error))?;
        match *site {
            Site::Argument(func, i) => {
                let old = module.arg_attr(func, i, SHARDING).cloned();
                let new = placed[0].sharding.clone().map(|s| Attr::Sharding(Arc::new(s)));
                module.set_arg_attr(func, i, SHARDING, old.or(new));
                module.set_arg_attr(func, i, GSPMD, None);
            }
            Site::Result(func, i) => {
                let old = module.res_attr(func, i, SHARDING).cloned();
                let new = placed[0].sharding.clone().map(|s| Attr::Sharding(Arc::new(s)));
                module.set_res_attr(func, i, SHARDING, old.or(new));
                module.set_res_attr(func, i, GSPMD, None);
            }
            Site::Op(op) => {
                module.op_mut(op).attrs.remove(GSPMD);
                match target(module, op) {
                    Some("Sharding") => {
                        let made = constrain(module, op, placed[0].sharding.clone());
                        // A value that a border says something about already keeps that.
                        made.map(|value| read.entry(value).or_insert_with(|| placed[0].clone()));
                    }
                    Some("SPMDFullToShardShape" | "SPMDShardToFullShape") => {
                        read.insert(module.result(op), placed[0].clone());
                    }
                    _ => annotate(module, op, &placed),
                }
            }
        }
    }
    manual::outline(module, &reader.mesh, &read).map_err(|error| fail(diagnostics, error))
}

fn fail(diagnostics: &mut Vec<Diagnostic>, error: Diagnostic) -> Failed {
    diagnostics.push(error);
    Failed
}

/// Where an annotation stands.
#[derive(Clone, Copy)]
enum Site {
    Argument(OpId, usize),
    Result(OpId, usize),
    Op(OpId),
}

impl Site {
    fn pos(self, module: &Module) -> TextPos {
        let (Site::Argument(op, _) | Site::Result(op, _) | Site::Op(op)) = self;
        module.op(op).pos
    }

    fn text(self, module: &Module) -> Option<&str> {
        match self {
            Site::Argument(func, i) => module.arg_attr(func, i, GSPMD)?.as_str(),
            Site::Result(func, i) => module.res_attr(func, i, GSPMD)?.as_str(),
            Site::Op(op) => module.op(op).attr(GSPMD)?.as_str(),
        }
    }

    /// The types of the values it is about.
    fn types(self, module: &Module) -> Vec<Type> {
        match self {
            Site::Argument(func, i) => vec![module.func_type(func).inputs[i].clone()],
            Site::Result(func, i) => vec![module.func_type(func).results[i].clone()],
            Site::Op(op) => module.op(op).results().iter().map(|&r| module.ty(r).clone()).collect(),
        }
    }

    /// The dimensions that it says nothing about.
    fn unspecified(self, module: &Module) -> Vec<i64> {
        let Site::Op(op) = self else { return vec![] };
        let config = module.op(op).attr("backend_config").and_then(Attr::as_str);
        config.and_then(|config| listed(config, "unspecified_dims")).unwrap_or_default()
    }
}

fn sites(module: &Module) -> Vec<Site> {
    let mut out = vec![];
    for op in module.all_ops(Walk::PreOrder) {
        if module.op(op).kind() == ControlOp::Func {
            let ty = module.func_type(op);
            out.extend((0..ty.inputs.len()).map(|i| Site::Argument(op, i)));
            out.extend((0..ty.results.len()).map(|i| Site::Result(op, i)));
        } else {
            out.push(Site::Op(op));
        }
    }
    out.retain(|site| match site {
        Site::Argument(func, i) => module.arg_attr(*func, *i, GSPMD).is_some(),
        Site::Result(func, i) => module.res_attr(*func, *i, GSPMD).is_some(),
        Site::Op(op) => module.op(*op).attr(GSPMD).is_some(),
    });
    out
}

/// The target of `op`, if it is a custom call.
fn target(module: &Module, op: OpId) -> Option<&str> {
    let data = module.op(op);
    (data.kind() == ControlOp::CustomCall).then(|| data.attr("call_target_name")?.as_str())?
}

/// The mesh of a module's annotations.
struct Reader {
    mesh: Arc<Mesh>,
    cuts: Cuts,
}

impl Reader {
    fn new(module: &Module, sites: &[Site]) -> Result<Reader, Diagnostic> {
        let said = module.attrs.get("mhlo.num_partitions").and_then(Attr::as_int);
        let mut cuts: Option<Cuts> = said.filter(|&n| n > 1).map(Cuts::new);
        for &site in sites {
            for grid in grids(&read(module, site)?) {
                let devices = grid.devices().unwrap_or(0);
                let cuts = cuts.get_or_insert_with(|| Cuts::new(devices));
                if cuts.devices() != devices {
                    let what = format!("is over {devices} devices; the program is for {}", cuts.devices());
                    return Err(unreadable(module, site, &what));
                }
                let Some(digits) = digits(grid) else {
                    return Err(unreadable(module, site, "has an order of devices that no mesh axes have"));
                };
                if !cuts.add(&digits) {
                    return Err(unreadable(module, site, "fits no mesh together with the other shardings"));
                }
            }
        }
        let cuts = cuts.unwrap_or_else(|| Cuts::new(1));
        let mesh = cuts.mesh().map_err(|error| Diagnostic::error(TextPos::default(), error.to_string()))?;
        Ok(Reader { mesh: Arc::new(mesh), cuts })
    }

    /// What the annotation at `site` says about each value.
    fn place(&self, module: &Module, site: &Site) -> Result<Vec<Placed>, Diagnostic> {
        let (types, open) = (site.types(module), site.unspecified(module));
        let texts = match read(module, *site)? {
            Text::Tuple(all) => all,
            one => vec![one; types.len().max(1)],
        };
        if texts.len() != types.len().max(1) {
            let what = format!("is for {} values, not {}", texts.len(), types.len());
            return Err(unreadable(module, *site, &what));
        }
        let is_entry = |func: OpId| module.entry() == Some(func);
        let mut out = vec![];
        for (i, text) in texts.iter().enumerate() {
            let rank = types.get(i).map_or(Some(0), |ty| ty.as_tensor().map(|t| t.dims.len()));
            let placed = self.sharding(text, rank.unwrap_or(0), &open);
            let placed = placed.map_err(|what| unreadable(module, *site, &what))?;
            let own = *text == Text::Manual || !placed.manual.is_empty();
            match site {
                Site::Argument(func, _) | Site::Result(func, _) if is_entry(*func) && own => {
                    let what = "says that each device has its own value: the program is split already";
                    return Err(unreadable(module, *site, what));
                }
                // What is no array, a token for instance, is on all devices.
                _ if rank.is_none() => out.push(Placed { sharding: None, ..placed }),
                _ => out.push(placed),
            }
        }
        Ok(out)
    }

    fn sharding(&self, text: &Text, rank: usize, open: &[i64]) -> Result<Placed, String> {
        let mesh = MeshRef::Inline(self.mesh.clone());
        Ok(match text {
            Text::Replicated => {
                Placed { sharding: Some(opened(Sharding::replicated(mesh, rank), open)), manual: vec![] }
            }
            Text::Manual => Placed { sharding: None, manual: self.cuts.all() },
            Text::Unreduced => {
                let sharding = Sharding::replicated(mesh, rank).with_unreduced(Reduction::Sum, self.cuts.all());
                Placed { sharding: Some(opened(sharding, open)), manual: vec![] }
            }
            Text::Maximal(device) => {
                let single = Mesh::maximal(*device).map_err(|error| error.to_string())?;
                Placed { sharding: Some(Sharding::new(single, [])), manual: vec![] }
            }
            Text::Tuple(_) => return Err("is a tuple inside a tuple".into()),
            Text::Tiled(grid) => {
                let split = grid.dims.len() - grid.last.len();
                if split != rank {
                    return Err(format!("splits {split} dimensions of a value that has {rank}"));
                }
                let digits = digits(grid).unwrap_or_default();
                let of = |wanted: Use| -> Vec<AxisRef> {
                    let found = grid.last.iter().zip(&digits[split..]).filter(|(use_, _)| **use_ == wanted);
                    let found: Vec<Digit> = found.flat_map(|(_, digits)| digits.iter().copied()).collect();
                    self.cuts.axes(&found)
                };
                let dims = digits[..split].iter().map(|d| DimSharding::closed(self.cuts.axes(d)));
                let mut parts = of(Use::Unreduced);
                sort_by_key(&mut parts, |axis| self.mesh.axis_index(&axis.name));
                let sharding = Sharding::new(mesh, dims).with_unreduced(Reduction::Sum, parts);
                Placed { sharding: Some(opened(sharding, open)), manual: of(Use::Manual) }
            }
        })
    }
}

/// `sharding` with these dimensions open.
fn opened(mut sharding: Sharding, open: &[i64]) -> Sharding {
    for (d, dim) in sharding.dims.iter_mut().enumerate() {
        dim.is_closed &= !open.contains(&(d as i64));
    }
    sharding
}

fn read(module: &Module, site: Site) -> Result<Text, Diagnostic> {
    let text = site.text(module).and_then(parse);
    text.ok_or_else(|| unreadable(module, site, "is not a sharding that can be read"))
}

fn grids(text: &Text) -> Vec<&text::Grid> {
    match text {
        Text::Tiled(grid) => vec![grid],
        Text::Tuple(all) => all.iter().flat_map(grids).collect(),
        Text::Replicated | Text::Manual | Text::Unreduced | Text::Maximal(_) => vec![],
    }
}

fn unreadable(module: &Module, site: Site, what: &str) -> Diagnostic {
    let text = site.text(module).unwrap_or("that is not a string");
    Diagnostic::error(site.pos(module), format!("{GSPMD} \"{text}\" {what}"))
}

/// Puts a constraint in place of `op`, or its operand if there is nothing to say. Returns the value.
fn constrain(module: &mut Module, op: OpId, sharding: Option<Sharding>) -> Option<ValueId> {
    let (input, result) = (*module.op(op).operands().first()?, module.result(op));
    let value = match sharding.filter(|s| !s.is_fully_open() || s.dims.is_empty()) {
        Some(sharding) => {
            let mut spec = OpSpec::new(SdyOp::ShardingConstraint)
                .operands([input])
                .results([module.ty(result).clone()])
                .attr("sharding", Attr::Sharding(Arc::new(sharding)))
                .loc(module.op(op).loc.clone());
            spec.pos = module.op(op).pos;
            let constraint = module.push_before(op, spec);
            module.result(constraint)
        }
        None => input,
    };
    module.replace_op(op, &[value]);
    Some(value)
}

/// Notes the placements of the results of `op` on it.
fn annotate(module: &mut Module, op: OpId, placed: &[Placed]) {
    let rank = |i: usize| module.op(op).results().get(i).map_or(0, |&r| module.ty(r).rank().unwrap_or(0));
    if module.op(op).attr(SHARDING).is_some() || matches!(module.op(op).kind(), OpKind::Sdy(_)) {
        return;
    }
    let Some(mesh) = placed.iter().find_map(|p| Some(p.sharding.as_ref()?.mesh.clone())) else { return };
    let all = placed.iter().enumerate();
    let all = all.map(|(i, p)| p.sharding.clone().unwrap_or_else(|| Sharding::fully_open(&mesh, rank(i))));
    let all: Vec<Sharding> = all.collect();
    module.op_mut(op).attrs.set(SHARDING, Attr::ShardingPerValue(all.into()));
}
