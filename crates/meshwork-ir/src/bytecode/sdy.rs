//! Attributes of `sdy`.

use std::sync::Arc;

use meshwork_mesh::{AxisRef, DimSharding, Mesh, MeshRef, Reduction, Sharding, SubAxis};

use super::cursor::{Cursor, Read, error, unsupported};
use super::table::{Piece, Table};
use crate::Attr;
use crate::attr::{AllToAllParam, OpShardingRule};

impl<'a> Table<'a> {
    pub(super) fn sdy_attr(&mut self, c: &mut Cursor<'a>) -> Read<Piece> {
        let at = c.at();
        let attr = match c.varint()? {
            0 => Attr::Axes(c.list(|c| Ok(AxisRef::full(self.next_string_attr(c)?)))?.into()),
            1 => return Ok(Piece::MeshAxis(self.next_text(c)?.into(), c.signed()?)),
            2 => {
                let axes = c.list(|c| match self.next_piece(c)? {
                    Piece::MeshAxis(name, size) => Ok((name, size)),
                    _ => Err(c.error("expected an axis of a mesh")),
                })?;
                let ids = c.signed_list()?;
                Attr::Mesh(Arc::new(Mesh::from_raw(axes, Some(ids).filter(|ids| !ids.is_empty()))))
            }
            3 => return Ok(Piece::SubAxis(SubAxis { pre_size: c.signed()?, size: c.signed()? })),
            4 => {
                let name = self.next_text(c)?.into();
                let at = c.at();
                let (index, present) = c.flagged_index()?;
                let sub = match present.then(|| self.piece(index, at)).transpose()? {
                    None => None,
                    Some(Piece::SubAxis(sub)) => Some(sub),
                    Some(_) => return Err(error(at, "expected a part of an axis")),
                };
                return Ok(Piece::Axis(AxisRef { name, sub }));
            }
            5 => {
                let axes = self.axes(c)?;
                let is_closed = c.byte()? != 0;
                let (priority, present) = c.flagged()?;
                let priority = present.then_some(priority as i64);
                return Ok(Piece::Dim(Arc::new(DimSharding { axes, is_closed, priority })));
            }
            6 => Attr::Sharding(Arc::new(self.sharding(c)?)),
            15 => {
                let sharding = self.sharding(c)?;
                Attr::Sharding(Arc::new(Sharding { unreduced: self.axes(c)?, ..sharding }))
            }
            17 => {
                let sharding = self.sharding(c)?;
                let unreduced = self.axes(c)?;
                let reduction = match c.signed()? {
                    0 => Reduction::Sum,
                    1 => Reduction::Max,
                    2 => Reduction::Min,
                    code => return Err(error(at, format_args!("reduction {code}"))),
                };
                Attr::Sharding(Arc::new(Sharding { unreduced, reduction, ..sharding }))
            }
            7 | 16 => Attr::ShardingPerValue(
                c.list(|c| match self.next_attr(c)? {
                    Attr::Sharding(sharding) => Ok((*sharding).clone()),
                    other => Err(c.error(format_args!("expected a sharding, found {other}"))),
                })?
                .into(),
            ),
            8 => return Ok(Piece::Factors(indices(c)?.into())),
            9 => {
                let dims = c.list(|c| match self.next_piece(c)? {
                    Piece::Factors(factors) => Ok(factors.to_vec()),
                    _ => Err(c.error("expected the factors of a dimension")),
                })?;
                return Ok(Piece::Mapping(dims.into()));
            }
            10 => Attr::ShardingRule(Arc::new(self.rule(c)?)),
            11 => Attr::Axes(self.axes(c)?.into()),
            12 => {
                let lists = c.list(|c| match self.next_attr(c)? {
                    Attr::Axes(axes) => Ok(axes.to_vec()),
                    other => Err(c.error(format_args!("expected a list of axes, found {other}"))),
                })?;
                Attr::AxesPerDim(lists.into())
            }
            13 => {
                let (axes, src, tgt) = (self.axes(c)?, c.signed()?, c.signed()?);
                return Ok(Piece::Move(Arc::new(AllToAllParam { axes, src, tgt })));
            }
            14 => {
                let moves = c.list(|c| match self.next_piece(c)? {
                    Piece::Move(param) => Ok((*param).clone()),
                    _ => Err(c.error("expected a parameter of an all-to-all")),
                })?;
                Attr::AllToAll(moves.into())
            }
            code => return Err(unsupported(at, format_args!("sdy attribute {code}"))),
        };
        Ok(Piece::Attr(attr))
    }

    fn axes(&mut self, c: &mut Cursor<'a>) -> Read<Vec<AxisRef>> {
        c.list(|c| match self.next_piece(c)? {
            Piece::Axis(axis) => Ok(axis),
            _ => Err(c.error("expected an axis")),
        })
    }

    /// The part that all versions of a sharding have.
    fn sharding(&mut self, c: &mut Cursor<'a>) -> Read<Sharding> {
        let mesh = match self.next_attr(c)? {
            Attr::Symbol(name) => MeshRef::from(name.as_str()),
            Attr::Mesh(mesh) => MeshRef::Inline(mesh),
            other => return Err(c.error(format_args!("expected a mesh, found {other}"))),
        };
        let dims = c.list(|c| match self.next_piece(c)? {
            Piece::Dim(dim) => Ok((*dim).clone()),
            _ => Err(c.error("expected the sharding of a dimension")),
        })?;
        Ok(Sharding { replicated: self.axes(c)?, ..Sharding::new(mesh, dims) })
    }

    fn rule(&mut self, c: &mut Cursor<'a>) -> Read<OpShardingRule> {
        let factor_sizes = c.signed_list()?;
        let mut tensors = |c: &mut Cursor<'a>| {
            c.list(|c| match self.next_piece(c)? {
                Piece::Mapping(dims) => Ok(dims.to_vec()),
                _ => Err(c.error("expected the factors of a tensor")),
            })
        };
        let rule = OpShardingRule {
            factor_sizes,
            operands: tensors(c)?,
            results: tensors(c)?,
            reduction: indices(c)?,
            need_replication: indices(c)?,
            permutation: indices(c)?,
            blocked: indices(c)?,
            custom: c.byte()? != 0,
        };
        rule.check().map_err(|message| c.error(message))?;
        Ok(rule)
    }
}

/// A list of positions.
fn indices(c: &mut Cursor<'_>) -> Read<Vec<usize>> {
    c.list(|c| {
        let value = c.signed()?;
        usize::try_from(value).map_err(|_| c.error(format_args!("{value} is not a position")))
    })
}
