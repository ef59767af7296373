//! Regions and blocks.

use super::loc::ReadLoc;
use super::value::Named;
use super::{Located, Parsed, Parser};
use crate::{BlockId, Loc, OpId, Trait, Type};

/// A block argument as it is read.
pub(super) struct Arg<'a> {
    pub name: &'a str,
    pub at: usize,
    pub ty: Type,
    pub loc: Option<ReadLoc<'a>>,
}

impl<'a> Parser<'a> {
    /// Reads `{ ... }` as the next region of `op`. Its first block has `args`, where the form names them outside.
    pub(super) fn region(&mut self, op: OpId, args: Vec<Arg<'a>>) -> Parsed<()> {
        self.lex.skip();
        let open = self.lex.pos();
        self.lex.expect(b'{')?;
        let isolated = self.module.op(op).kind().has(Trait::Isolated);
        let mark = if isolated { self.values.enter_isolated() } else { self.values.enter() };
        self.nested(|p| p.region_body(op, args, open))?;
        self.values.leave(mark);
        Ok(())
    }

    fn region_body(&mut self, op: OpId, args: Vec<Arg<'a>>, open: usize) -> Parsed<()> {
        let region = self.module.add_region(op);
        if args.is_empty() && self.lex.eat(b'}') {
            return Ok(());
        }
        let mut block = None;
        if !args.is_empty() || self.lex.peek() != b'^' {
            let entry = self.module.add_block(region, []);
            self.block_args(entry, args)?;
            block = Some(entry);
        }
        loop {
            match (self.lex.peek(), block) {
                (b'}', _) => {
                    self.lex.eat(b'}');
                    return Ok(());
                }
                (b'^', _) => {
                    self.lex.eat_sigil(b'^');
                    let mut args = vec![];
                    if self.lex.eat(b'(') {
                        args = self.list_of(b')', Self::typed_arg)?;
                    }
                    self.lex.expect(b':')?;
                    let next = self.module.add_block(region, []);
                    self.block_args(next, args)?;
                    block = Some(next);
                }
                (0, _) if self.lex.at_end() => {
                    let place = self.lex.text_pos(open);
                    let message = format!("'}}' that closes the '{{' at line {}, column {}", place.line, place.col);
                    return Err(self.lex.expected(&message));
                }
                (_, Some(block)) => {
                    self.op(block)?;
                }
                (_, None) => return Err(self.lex.expected("a block label or an operation")),
            }
        }
    }

    /// Reads `%x: type loc(...)`.
    pub(super) fn typed_arg(&mut self) -> Parsed<Arg<'a>> {
        let (name, at) = self.arg_name()?;
        self.lex.expect(b':')?;
        let outer = std::mem::replace(&mut self.subject, name);
        let ty = self.ty()?;
        self.subject = outer;
        Ok(Arg { name, at, ty, loc: self.optional_loc()? })
    }

    /// Reads `%x` where it is defined.
    pub(super) fn arg_name(&mut self) -> Parsed<(&'a str, usize)> {
        self.lex.skip();
        let at = self.lex.pos();
        match self.lex.eat_sigil(b'%') {
            Some(name) => Ok((name, at)),
            None => Err(self.lex.expected("an argument such as '%arg0'")),
        }
    }

    fn block_args(&mut self, block: BlockId, args: Vec<Arg<'a>>) -> Parsed<()> {
        let located = args.iter().any(|a| a.loc.is_some());
        for (i, arg) in args.into_iter().enumerate() {
            let value = self.module.add_block_arg(block, arg.ty);
            if located {
                let loc = arg.loc.map_or_else(Loc::unknown, |loc| self.place_loc(loc, Located::Arg(block, i)));
                self.module.block_mut(block).arg_locs.push(loc);
            }
            self.define(arg.name, arg.at, Named::One(value))?;
        }
        Ok(())
    }
}
