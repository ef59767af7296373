//! Operations, blocks and regions.

use super::container::Container;
use super::cursor::{Cursor, Read, error, unsupported};
use super::names::{OpName, resolve};
use super::stablehlo;
use super::table::{MAX_DEPTH, Table};
use crate::op::ControlOp;
use crate::op::form::name_sdy_cases;
use crate::{Attr, AttrDict, BlockId, Loc, Module, OpId, OpKind, OpSpec, Type, ValueId, Values};

/// What follows the name of an operation, by bit.
mod mask {
    pub const ATTRS: u8 = 0x01;
    pub const RESULTS: u8 = 0x02;
    pub const OPERANDS: u8 = 0x04;
    pub const SUCCESSORS: u8 = 0x08;
    pub const REGIONS: u8 = 0x10;
    pub const USES: u8 = 0x20;
    pub const PROPERTIES: u8 = 0x40;
}

/// The values that a region defines: its part of [`Reader::values`].
struct Scope {
    next: usize,
    end: usize,
}

struct Reader<'a> {
    table: Table<'a>,
    names: Vec<Result<OpName, String>>,
    properties: Vec<Cursor<'a>>,
    module: Module,
    /// Values by number, those of the region being read last.
    values: Vec<Option<ValueId>>,
    depth: u32,
}

/// The module of a file of `length` bytes.
pub(super) fn module(mut file: Container<'_>, length: usize) -> Read<Module> {
    let mut reader = Reader {
        table: Table::new(&mut file, length),
        names: file.names.into_iter().map(resolve).collect(),
        properties: file.properties,
        module: Module::new(),
        values: vec![],
        depth: 0,
    };
    // An operation takes about ten bytes.
    reader.module.reserve_ops(length / 16);
    let body = reader.module.body();
    let mut ir = file.ir;
    reader.block(&mut ir, body, None, &mut Scope { next: 0, end: 0 })?;
    ir.end("the program")?;
    reader.module.unwrap_single();
    Ok(reader.module)
}

impl<'a> Reader<'a> {
    /// Reads a block that has been made for it.
    fn block(&mut self, c: &mut Cursor<'a>, block: BlockId, parent: Option<OpKind>, scope: &mut Scope) -> Read<()> {
        let (ops, has_args) = c.flagged_index()?;
        if has_args {
            let mut locs = vec![];
            for _ in 0..c.count()? {
                let at = c.at();
                let (ty, has_loc) = c.flagged_index()?;
                let ty = self.table.ty(ty, at)?;
                locs.push(if has_loc { self.table.next_loc(c)? } else { Loc::Unknown });
                let value = self.module.add_block_arg(block, ty);
                self.define(value, scope, at)?;
            }
            if c.byte()? != 0 {
                skip_uses(c, locs.len())?;
            }
            if locs.iter().any(Loc::is_known) {
                self.module.block_mut(block).arg_locs = locs;
            }
        }
        for _ in 0..c.check_count(ops)? {
            if let Some(last) = self.module.terminator(block) {
                let name = self.module.op(last).name();
                return Err(c.error(format_args!("'{name}' must be the last operation of its block")));
            }
            self.op(c, block, parent, scope)?;
        }
        Ok(())
    }

    fn define(&mut self, value: ValueId, scope: &mut Scope, at: usize) -> Read<()> {
        if scope.next == scope.end {
            return Err(error(at, "a region defines more values than it announced"));
        }
        self.values[scope.next] = Some(value);
        scope.next += 1;
        Ok(())
    }

    fn op(&mut self, c: &mut Cursor<'a>, block: BlockId, parent: Option<OpKind>, scope: &mut Scope) -> Read<()> {
        let at = c.at();
        let index = c.index()?;
        let name = match self.names.get(index) {
            Some(Ok(name)) => name,
            Some(Err(message)) => return Err(unsupported(at, message)),
            None => return Err(error(at, format_args!("operation name {index} of {}", self.names.len()))),
        };
        let mut spec = OpSpec::new(name.kind);
        if name.kind == OpKind::Unregistered {
            spec.name = name.full.as_str().into();
        }
        let has = c.byte()?;
        spec.loc = self.table.next_loc(c)?;
        let discardable = if has & mask::ATTRS != 0 { Some(self.table.next_attr(c)?) } else { None };
        if has & mask::PROPERTIES != 0 {
            spec.attrs = self.properties(c, index)?;
        }
        self.name_attrs(&mut spec, index, parent).map_err(|message| error(at, message))?;
        match discardable {
            None => {}
            Some(Attr::Dict(dict)) => dict.iter().for_each(|(n, a)| drop(spec.attrs.set(n.clone(), a.clone()))),
            Some(other) => return Err(error(at, format_args!("expected a dictionary, found {other}"))),
        }
        if has & mask::RESULTS != 0 {
            spec.result_types = self.table.next_types(c)?.into_iter().collect();
        }
        if has & mask::OPERANDS != 0 {
            spec.operands = self.operands(c)?;
        }
        if has & mask::SUCCESSORS != 0 {
            return Err(unsupported(at, "successor blocks: control flow here is by regions"));
        }
        if has & mask::USES != 0 {
            skip_uses(c, spec.result_types.len())?;
        }
        if spec.name == "builtin.unrealized_conversion_cast" && has & mask::REGIONS == 0 {
            return self.cast(&spec, scope, at);
        }
        if spec.kind.is_terminator() && !spec.result_types.is_empty() {
            return Err(error(at, format_args!("'{}' has no results", spec.kind.name())));
        }
        let kind = spec.kind;
        let op = self.module.push(block, spec);
        for i in 0..self.module.op(op).results().len() {
            self.define(self.module.op(op).results()[i], scope, at)?;
        }
        if has & mask::REGIONS != 0 {
            self.regions(c, op, kind)?;
        }
        Ok(())
    }

    fn operands(&self, c: &mut Cursor<'a>) -> Read<Values> {
        let mut operands = Values::new();
        for _ in 0..c.count()? {
            let at = c.at();
            let number = c.index()?;
            match self.values.get(number) {
                Some(Some(value)) => operands.push(*value),
                Some(None) => return Err(error(at, format_args!("value {number} is used before it is defined"))),
                None => return Err(error(at, format_args!("value {number} of {}", self.values.len()))),
            }
        }
        Ok(operands)
    }

    /// The operation's own attributes, by the names that the file's dialect gives them.
    fn properties(&mut self, c: &mut Cursor<'a>, name: usize) -> Read<AttrDict> {
        let at = c.at();
        let index = c.index()?;
        let Some(mut blob) = self.properties.get(index).copied() else {
            return Err(error(at, format_args!("properties {index} of {}", self.properties.len())));
        };
        let Ok(name) = &self.names[name] else { return Ok(AttrDict::new()) };
        let Some(properties) = &name.properties else {
            return Err(unsupported(at, format_args!("the properties of '{}'", name.full)));
        };
        let mut attrs = AttrDict::new();
        for property in properties {
            let attr = match property.optional {
                true => self.table.next_optional(&mut blob)?,
                false => Some(self.table.next_attr(&mut blob)?),
            };
            if let Some(attr) = attr {
                attrs.set(property.name, attr);
            }
        }
        blob.end(&format!("the properties of '{}'", name.full))?;
        Ok(attrs)
    }

    /// Gives the operation the name and the attributes that it has in StableHLO and in pretty text.
    fn name_attrs(&mut self, spec: &mut OpSpec, name: usize, parent: Option<OpKind>) -> Result<(), String> {
        let Ok(name) = &self.names[name] else { return Ok(()) };
        if name.vhlo {
            if spec.kind == ControlOp::HloReturn && parent.is_some_and(|kind| kind == ControlOp::Func) {
                spec.kind = ControlOp::FuncReturn.into();
            }
            spec.attrs = stablehlo::attrs(spec.kind, std::mem::take(&mut spec.attrs))
                .map_err(|message| format!("'{}': {message}", name.full))?;
        }
        name_sdy_cases(spec.kind, &mut spec.attrs);
        Ok(())
    }

    /// A type of one dialect for the same type of another: the value stays what it is.
    fn cast(&mut self, spec: &OpSpec, scope: &mut Scope, at: usize) -> Read<()> {
        let types: Vec<&Type> = spec.operands.iter().map(|&v| self.module.ty(v)).collect();
        if !types.iter().copied().eq(spec.result_types.iter()) {
            return Err(unsupported(at, "a cast between types that are not the same"));
        }
        spec.operands.iter().try_for_each(|&value| self.define(value, scope, at))
    }

    fn regions(&mut self, c: &mut Cursor<'a>, op: OpId, kind: OpKind) -> Read<()> {
        if self.depth >= MAX_DEPTH {
            return Err(c.error(format_args!("regions nest deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let (count, isolated) = c.flagged_index()?;
        if isolated {
            const IR: u8 = 4;
            let (id, mut section) = c.section()?;
            if id != IR {
                return Err(section.error(format_args!("expected section {IR}, found {id}")));
            }
            let outer = std::mem::take(&mut self.values);
            for _ in 0..section.check_count(count)? {
                self.region(&mut section, op, kind)?;
            }
            section.end("a region")?;
            self.values = outer;
        } else {
            for _ in 0..c.check_count(count)? {
                self.region(c, op, kind)?;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn region(&mut self, c: &mut Cursor<'a>, op: OpId, kind: OpKind) -> Read<()> {
        let region = self.module.add_region(op);
        let blocks = c.count()?;
        if blocks == 0 {
            return Ok(());
        }
        let outer = self.values.len();
        let count = c.count()?;
        self.values.resize(outer + count, None);
        let mut scope = Scope { next: outer, end: outer + count };
        for _ in 0..blocks {
            let block = self.module.add_block(region, []);
            self.block(c, block, Some(kind), &mut scope)?;
        }
        self.values.truncate(outer);
        Ok(())
    }
}

/// Skips the orders of the uses of `count` values.
fn skip_uses(c: &mut Cursor<'_>, count: usize) -> Read<()> {
    let several = count > 1;
    for _ in 0..if several { c.count()? } else { 1 } {
        if several {
            c.index()?;
        }
        let (numbers, _as_pairs) = c.flagged_index()?;
        for _ in 0..c.check_count(numbers)? {
            c.index()?;
        }
    }
    Ok(())
}
