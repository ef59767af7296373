//! Attributes of `sdy`: meshes and shardings (read by the mesh crate), sharding rules, lists of axes.

use std::sync::Arc;

use meshwork_mesh::{AxisRef, Cursor, ParseError};

use super::{Parsed, Parser};
use crate::Attr;
use crate::attr::{AllToAllParam, OpShardingRule};

impl<'a> Parser<'a> {
    /// Reads with the mesh crate's parser from here on.
    pub(super) fn with_cursor<T>(&mut self, read: impl FnOnce(&mut Cursor<'a>) -> Result<T, ParseError>) -> Parsed<T> {
        let mut cursor = Cursor::at(self.lex.src(), self.lex.pos());
        let result = read(&mut cursor);
        self.lex.set_pos(cursor.position());
        result.map_err(|e| self.error(e.offset, e.message))
    }

    /// `#sdy.kind...`; the offset is after the kind.
    pub(super) fn sdy_attr(&mut self, kind: &str, at: usize) -> Parsed<Attr> {
        match kind {
            "mesh" => Ok(Attr::Mesh(Arc::new(self.with_cursor(Cursor::parse_mesh)?))),
            "sharding" => Ok(Attr::Sharding(Arc::new(self.with_cursor(Cursor::parse_sharding)?))),
            "sharding_per_value" => {
                self.lex.expect(b'<')?;
                let attr = self.shardings()?;
                self.lex.expect(b'>')?;
                Ok(attr)
            }
            "op_sharding_rule" => Ok(Attr::ShardingRule(Arc::new(self.sharding_rule()?))),
            _ => {
                if self.lex.byte(0) == b'<' {
                    self.lex.skip_balanced()?;
                }
                Ok(Attr::Opaque(self.expand_aliases(at)?))
            }
        }
    }

    /// `#sdy<kind{...}>`, from its `<`; `None` if it is something else.
    pub(super) fn sdy_bracketed(&mut self) -> Parsed<Option<Attr>> {
        self.lex.expect(b'<')?;
        let attr = match self.lex.eat_any_word() {
            Some("axis_ref_list" | "manual_axes") => self.axes()?,
            Some("list_of_axis_ref_lists") => self.axes_per_dim()?,
            Some("all_to_all_param_list") => self.all_to_all_params()?,
            _ => return Ok(None),
        };
        self.lex.expect(b'>')?;
        Ok(Some(attr))
    }

    /// `[<@mesh, [...]>, ...]`.
    pub(super) fn shardings(&mut self) -> Parsed<Attr> {
        Ok(Attr::ShardingPerValue(self.with_cursor(Cursor::parse_shardings)?.into()))
    }

    /// `{"x", "y":(1)2}`.
    pub(super) fn axes(&mut self) -> Parsed<Attr> {
        Ok(Attr::Axes(self.with_cursor(Cursor::parse_axis_list)?.into()))
    }

    /// `[{"x"}, {}]`.
    pub(super) fn axes_per_dim(&mut self) -> Parsed<Attr> {
        Ok(Attr::AxesPerDim(self.with_cursor(Cursor::parse_axis_lists)?.into()))
    }

    /// `[{"x"}: 0->1, ...]`.
    pub(super) fn all_to_all_params(&mut self) -> Parsed<Attr> {
        self.lex.expect(b'[')?;
        let mut params = vec![];
        self.list_until(b']', |p| {
            let axes: Vec<AxisRef> = p.with_cursor(Cursor::parse_axis_list)?;
            p.lex.expect(b':')?;
            let src = p.lex.int()?;
            p.lex.expect_str("->")?;
            params.push(AllToAllParam { axes, src, tgt: p.lex.int()? });
            Ok(())
        })?;
        Ok(Attr::AllToAll(params.into()))
    }

    /// `<([i, k], [k, j])->([i, j]) {i=8, j=4, k=2} reduction={k}, custom>`.
    fn sharding_rule(&mut self) -> Parsed<OpShardingRule> {
        self.lex.expect(b'<')?;
        let at = self.lex.pos();
        let operands = self.rule_tensors()?;
        self.lex.expect_str("->")?;
        let mut rule = OpShardingRule { operands, results: self.rule_tensors()?, ..OpShardingRule::default() };
        if self.lex.eat(b'{') {
            let mut sizes = vec![];
            self.list_until(b'}', |p| {
                let here = p.lex.pos();
                let factor = p.one_factor()?;
                if factor != sizes.len() {
                    let want = OpShardingRule::factor_name(sizes.len());
                    return Err(p.error(here, format!("expecting factor sizes in order, the next is that of '{want}'")));
                }
                p.lex.expect(b'=')?;
                sizes.push(p.lex.int()?);
                Ok(())
            })?;
            rule.factor_sizes = sizes;
        }
        rule.reduction = self.factor_set("reduction")?;
        rule.need_replication = self.factor_set("need_replication")?;
        rule.permutation = self.factor_set("permutation")?;
        rule.blocked = self.factor_set("blocked_propagation")?;
        if self.lex.eat(b',') {
            self.lex.expect_word("custom")?;
            rule.custom = true;
        }
        self.lex.expect(b'>')?;
        rule.check().map_err(|message| self.error(at, message))?;
        Ok(rule)
    }

    /// `([i, jk], [])`.
    fn rule_tensors(&mut self) -> Parsed<Vec<Vec<Vec<usize>>>> {
        self.lex.expect(b'(')?;
        self.list_of(b')', |p| {
            p.lex.expect(b'[')?;
            p.list_of(b']', Self::factors)
        })
    }

    /// ` reduction={i, j}` if it is next.
    fn factor_set(&mut self, name: &str) -> Parsed<Vec<usize>> {
        if !self.lex.eat_word(name) {
            return Ok(vec![]);
        }
        self.lex.expect(b'=')?;
        self.lex.expect(b'{')?;
        self.list_of(b'}', Self::one_factor)
    }

    fn one_factor(&mut self) -> Parsed<usize> {
        let at = self.lex.pos();
        match self.factors()?[..] {
            [one] => Ok(one),
            _ => Err(self.error(at, "expecting a single factor symbol")),
        }
    }

    /// Factors written without a space: `ij`, `iz_1`.
    fn factors(&mut self) -> Parsed<Vec<usize>> {
        self.lex.skip();
        let at = self.lex.pos();
        let Some(word) = self.lex.eat_any_word() else {
            return Err(self.lex.expected("factors such as 'i' or 'ij' or 'z_1'"));
        };
        let mut out = vec![];
        let mut rest = word;
        while let Some(c) = rest.chars().next() {
            if let Some(tail) = rest.strip_prefix("z_") {
                let len = tail.bytes().take_while(u8::is_ascii_digit).count();
                let number =
                    tail[..len].parse::<usize>().ok().filter(|n| *n > 0 && *n < 1 << 20 && !tail.starts_with('0'));
                let number = number.ok_or_else(|| {
                    self.error(at, format!("expecting a positive number without leading zeros after 'z_' in '{word}'"))
                })?;
                out.push(17 + number);
                rest = &tail[len..];
            } else if c.is_ascii_lowercase() && c >= 'i' {
                out.push(c as usize - 'i' as usize);
                rest = &rest[1..];
            } else {
                return Err(self.error(at, format!("expecting symbol from 'i' to 'z', received '{c}'")));
            }
        }
        Ok(out)
    }
}
