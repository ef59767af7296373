//! The grammar of meshes and shardings, one method per rule.
//!
//! ```text
//! mesh     ::= `<` `[` (string `=` int (`,` string `=` int)*)? `]` (`,` `device_ids` `=` `[` ints `]`)? `>`
//! axis     ::= string (`:` `(` int `)` int)?
//! axes     ::= axis (`,` axis)*
//! dim      ::= `{` (axes (`,` `?`)? | `?`)? `}` priority?
//! priority ::= `p` digits
//! mesh-ref ::= `@` name | `mesh` mesh
//! sharding ::= `<` mesh-ref `,` `[` (dim (`,` dim)*)? `]` (`,` set)* `>`
//! set      ::= `replicated` `=` `{` axes `}` | `unreduced` `=`? (`sum` | `max` | `min`)? `{` axes `}`
//! ```
//!
//! Each set appears at most once, in any order. A reduction is written only after `=`. A mesh may start
//! with `#sdy.mesh` and a sharding with `#sdy.sharding`, as MLIR allows wherever it prints them short.

use super::cursor::{Cursor, ParseError};
use crate::axis::AxisRef;
use crate::mesh::Mesh;
use crate::sharding::{DimSharding, MeshRef, Reduction, Sharding};

impl Cursor<'_> {
    /// Reads a mesh, with or without `#sdy.mesh` before it. It is not verified, but identity device ids
    /// are dropped.
    pub fn parse_mesh(&mut self) -> Result<Mesh, ParseError> {
        self.eat_attribute("sdy.mesh");
        self.expect('<')?;
        let axes = self.parse_list('[', ']', |cursor| {
            let name = cursor.parse_string()?;
            cursor.expect('=')?;
            Ok((name, cursor.parse_integer()?))
        })?;
        let mut ids = None;
        if self.eat(',') {
            self.expect_keyword("device_ids")?;
            self.expect('=')?;
            self.expect('[')?;
            ids = Some(self.parse_items(Cursor::parse_integer)?);
            self.expect(']')?;
        }
        self.expect('>')?;
        Ok(Mesh::from_raw(axes, ids).without_identity_ids())
    }

    /// Reads a reference to an axis.
    pub fn parse_axis(&mut self) -> Result<AxisRef, ParseError> {
        let name = self.parse_string()?;
        if !self.eat(':') {
            return Ok(AxisRef::full(name));
        }
        self.expect('(')?;
        let pre_size = self.parse_integer()?;
        self.expect(')')?;
        Ok(AxisRef::sub(name, pre_size, self.parse_integer()?))
    }

    /// Reads a list of axes in braces, possibly empty.
    pub fn parse_axis_list(&mut self) -> Result<Vec<AxisRef>, ParseError> {
        self.parse_list('{', '}', Cursor::parse_axis)
    }

    /// Reads lists of axes in brackets, one per dimension: `[{"x"}, {}]`.
    pub fn parse_axis_lists(&mut self) -> Result<Vec<Vec<AxisRef>>, ParseError> {
        self.parse_list('[', ']', Cursor::parse_axis_list)
    }

    /// Reads the sharding of one dimension.
    pub fn parse_dim_sharding(&mut self) -> Result<DimSharding, ParseError> {
        self.expect('{')?;
        let mut axes = Vec::new();
        let mut is_closed = true;
        while !self.eat('}') {
            if !axes.is_empty() {
                self.expect(',')?;
            }
            if self.eat('?') {
                is_closed = false;
                self.expect('}')?;
                break;
            }
            axes.push(self.parse_axis()?);
        }
        Ok(DimSharding { axes, is_closed, priority: self.parse_priority()? })
    }

    fn parse_priority(&mut self) -> Result<Option<i64>, ParseError> {
        self.skip_trivia();
        let offset = self.position();
        let Some(word) = self.eat_any_keyword() else {
            return Ok(None);
        };
        let fail = |what: &str| ParseError { offset, message: format!("{what}, got: {word}") };
        let digits = word.strip_prefix('p').unwrap_or("");
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(fail("expecting priority in format 'p<number>'"));
        }
        if digits.len() > 1 && digits.starts_with('0') {
            return Err(fail("priorities with leading zeros are not allowed"));
        }
        digits.parse().map(Some).map_err(|_| fail("expecting integer priority"))
    }

    /// Reads `@name` or `mesh<...>`.
    pub fn parse_mesh_ref(&mut self) -> Result<MeshRef, ParseError> {
        match self.peek() {
            Some('@') => Ok(MeshRef::Symbol(self.parse_symbol()?.into())),
            _ if self.eat_keyword("mesh") => Ok(self.parse_mesh()?.into()),
            _ => Err(self.expected("a mesh: '@name' or 'mesh<...>'")),
        }
    }

    /// Reads a sharding, with or without `#sdy.sharding` before it.
    pub fn parse_sharding(&mut self) -> Result<Sharding, ParseError> {
        self.eat_attribute("sdy.sharding");
        self.expect('<')?;
        let mesh = self.parse_mesh_ref()?;
        self.expect(',')?;
        let dims = self.parse_list('[', ']', Cursor::parse_dim_sharding)?;
        let mut sharding = Sharding::new(mesh, dims);
        while self.eat(',') {
            if sharding.replicated.is_empty() && self.eat_keyword("replicated") {
                self.expect('=')?;
                sharding.replicated = self.parse_axis_set()?;
            } else if sharding.unreduced.is_empty() && self.eat_keyword("unreduced") {
                if self.eat('=') {
                    sharding.reduction = self.parse_reduction();
                }
                sharding.unreduced = self.parse_axis_set()?;
            } else {
                return Err(self.expected("valid named axis list after comma: 'replicated' or 'unreduced', each once"));
            }
        }
        self.expect('>')?;
        Ok(sharding)
    }

    /// Reads shardings in brackets, one per value: `[<@mesh, [{}]>, <@mesh, []>]`.
    pub fn parse_shardings(&mut self) -> Result<Vec<Sharding>, ParseError> {
        self.parse_list('[', ']', Cursor::parse_sharding)
    }

    fn parse_reduction(&mut self) -> Reduction {
        if self.eat_keyword("max") {
            Reduction::Max
        } else if self.eat_keyword("min") {
            Reduction::Min
        } else {
            self.eat_keyword("sum");
            Reduction::Sum
        }
    }

    fn parse_axis_set(&mut self) -> Result<Vec<AxisRef>, ParseError> {
        self.expect('{')?;
        let axes = self.parse_items(Cursor::parse_axis)?;
        self.expect('}')?;
        Ok(axes)
    }
}
