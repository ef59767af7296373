//! Names of values: which value `%x` is, by scope.
//!
//! A name is known from its definition to the end of the region it is in, also in regions nested there, except
//! in functions and modules, which know no name from outside.

use super::{Parsed, Parser};
use crate::hash::HashMap;
use crate::{OpId, Type, ValueId};

/// What a name stands for.
#[derive(Clone, Copy)]
pub(super) enum Named {
    One(ValueId),
    /// `%x:3`: these results of an operation.
    Pack {
        op: OpId,
        first: u32,
        count: u32,
    },
}

/// The names known at a point of the text.
#[derive(Default)]
pub(super) struct Scopes<'a> {
    known: HashMap<&'a str, (Named, usize)>,
    /// Names in the order of their definition, to forget them at the end of their scope.
    order: Vec<&'a str>,
}

/// The point to go back to at the end of a scope.
pub(super) struct Mark<'a> {
    order: usize,
    outside: Option<Scopes<'a>>,
}

impl<'a> Scopes<'a> {
    /// Enters a region.
    pub fn enter(&mut self) -> Mark<'a> {
        Mark { order: self.order.len(), outside: None }
    }

    /// Enters a region that knows no name from outside.
    pub fn enter_isolated(&mut self) -> Mark<'a> {
        Mark { order: 0, outside: Some(std::mem::take(self)) }
    }

    /// Leaves a region.
    pub fn leave(&mut self, mark: Mark<'a>) {
        match mark.outside {
            Some(outside) => *self = outside,
            None => {
                for name in self.order.drain(mark.order..) {
                    self.known.remove(name);
                }
            }
        }
    }
}

impl<'a> Parser<'a> {
    /// Makes `name`, written at `at`, stand for `what`.
    pub(super) fn define(&mut self, name: &'a str, at: usize, what: Named) -> Parsed<()> {
        if let Some((_, before)) = self.values.known.insert(name, (what, at)) {
            let place = self.lex.text_pos(before);
            let message =
                format!("{name} is defined again; it was defined at line {}, column {}", place.line, place.col);
            return Err(self.error(at, message));
        }
        self.values.order.push(name);
        Ok(())
    }

    /// Reads a use of a value: `%x` or `%x#1`.
    pub(super) fn value_use(&mut self) -> Parsed<ValueId> {
        self.lex.skip();
        let at = self.lex.pos();
        let Some(name) = self.lex.eat_sigil(b'%') else { return Err(self.lex.expected("a value such as '%0'")) };
        let number = if self.lex.byte(0) == b'#' {
            self.lex.set_pos(self.lex.pos() + 1);
            let n = self.lex.int()?;
            Some(u32::try_from(n).map_err(|_| self.error(at, format!("{name}#{n} is not a result number")))?)
        } else {
            None
        };
        let Some(&(named, _)) = self.values.known.get(name) else {
            return Err(self.error(at, format!("{name} is used here but not defined before")));
        };
        match (named, number.unwrap_or(0)) {
            (Named::One(value), 0) => Ok(value),
            (Named::Pack { op, first, count }, n) if n < count => {
                Ok(self.module.op(op).results()[(first + n) as usize])
            }
            (Named::One(_), n) => Err(self.error(at, format!("{name}#{n} is used, but {name} is one value"))),
            (Named::Pack { count, .. }, n) => {
                Err(self.error(at, format!("{name}#{n} is used, but {name} is {count} values")))
            }
        }
    }

    /// Checks that the value used at `at` has the type written for it.
    pub(super) fn check_type(&mut self, value: ValueId, at: usize, ty: &Type) -> Parsed<()> {
        let have = self.module.ty(value);
        if have == ty || same_text(have, ty) {
            return Ok(());
        }
        let have = have.clone();
        let end = self.lex.src()[at..].find([',', ' ', ')', '\n', ':', ']', '}', '{', '[']).map_or(at, |n| at + n);
        let name = self.lex.src()[at..end].to_string();
        let base = name.split('#').next().unwrap_or(&name);
        let defined = match self.values.known.get(base) {
            Some(&(_, before)) => format!(" at line {}", self.lex.text_pos(before).line),
            None => String::new(),
        };
        Err(self.error(at, format!("use of {name} expects {ty} but it was defined as {have}{defined}")))
    }
}

/// Types that are kept as text are equal if they differ in white space only.
fn same_text(a: &Type, b: &Type) -> bool {
    let (Type::Opaque(a), Type::Opaque(b)) = (a, b) else { return false };
    let solid = |c: &u8| !c.is_ascii_whitespace();
    a.bytes().filter(|c| solid(c)).eq(b.bytes().filter(|c| solid(c)))
}
