//! The parser: a recursive descent over the text that builds the module as it goes.
//!
//! | file | reads |
//! |---|---|
//! | `mod` | the file: aliases, top-level operations, resources |
//! | `value` | names of values, by scope |
//! | `types`, `attr`, `dense`, `dialect`, `sdy`, `resource`, `loc` | types, attributes, locations |
//! | `op`, `region` | operations in generic form; regions and blocks |
//! | `pretty` | pretty forms, as the op table gives them |
//! | `func`, `hlo`, `chlo`, `place` | the syntaxes of single operations: func, StableHLO, CHLO, `sdy` |
//! | `foreign` | pretty forms of a few operations of other dialects |
//!
//! Bounds: what nests (regions, types, attributes, locations) nests at most [`MAX_DEPTH`] deep, and aliases may
//! stand for at most [`MAX_ALIAS_BYTES`] of text in total, so that a short text cannot use much stack or memory.

mod attr;
mod chlo;
mod dense;
mod dialect;
mod foreign;
mod func;
mod hlo;
mod loc;
mod op;
mod place;
mod pretty;
mod region;
mod resource;
mod sdy;
mod types;
mod value;

use std::sync::Arc;

pub(crate) use foreign::may_be_unknown;

use super::lex::Lexer;
use crate::hash::HashMap;
use crate::{Attr, BlockId, Diagnostic, Loc, Module, OpId, Type};

/// How deep regions, types, attributes and locations may nest.
const MAX_DEPTH: u32 = 128;

/// Bytes of text that all uses of aliases may stand for, beyond what the file itself is long.
const MAX_ALIAS_BYTES: usize = 64 << 20;

type Parsed<T> = Result<T, Diagnostic>;

/// Reads a module.
///
/// A file with one top-level `module` is that module; anything else is the body of a module without a name.
///
/// ```
/// let module = meshwork_ir::text::parse("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {
///   %0 = stablehlo.add %x, %x : tensor<2xf32>
///   return %0 : tensor<2xf32>
/// }")?;
/// assert_eq!(module.funcs().count(), 1);
///
/// let error = meshwork_ir::text::parse("func.func @f() {\n  return %x : tensor<f32>\n}").unwrap_err();
/// assert_eq!(error.to_string(), "2:10: error: %x is used here but not defined before");
/// # Ok::<(), meshwork_ir::Diagnostic>(())
/// ```
pub fn parse(source: &str) -> Result<Module, Diagnostic> {
    let mut parser = Parser::new(source);
    parser.file()?;
    Ok(parser.module)
}

/// Reads one attribute.
pub fn parse_attr(source: &str) -> Result<Attr, Diagnostic> {
    let mut parser = Parser::new(source);
    let attr = parser.attr()?;
    parser.end()?;
    Ok(attr)
}

/// Reads one type.
pub fn parse_type(source: &str) -> Result<Type, Diagnostic> {
    let mut parser = Parser::new(source);
    let ty = parser.ty()?;
    parser.end()?;
    Ok(ty)
}

/// What an alias stands for, and the length of the text that this is.
struct Alias<T> {
    value: T,
    bytes: usize,
}

/// Something whose location is an alias that may be defined later.
enum Located {
    Op(OpId),
    Arg(BlockId, usize),
    Module,
}

struct Parser<'a> {
    lex: Lexer<'a>,
    module: Module,
    values: value::Scopes<'a>,
    /// Tensor types by their text.
    tensor_types: HashMap<&'a str, Type>,
    attr_aliases: HashMap<&'a str, Alias<Attr>>,
    type_aliases: HashMap<&'a str, Alias<Type>>,
    loc_aliases: HashMap<&'a str, Alias<Loc>>,
    /// Locations to fill in at the end of the file.
    later_locs: Vec<(Located, &'a str, usize)>,
    resources: Option<HashMap<String, resource::Blob<'a>>>,
    /// File names of locations, shared.
    files: HashMap<&'a str, Arc<str>>,
    depth: u32,
    alias_bytes: usize,
    /// The value or operation being read, for messages about its type.
    subject: &'a str,
}

impl<'a> Parser<'a> {
    fn new(source: &'a str) -> Self {
        let mut module = Module::new();
        // Roughly one operation to a line of a hundred characters; room that is not used costs no memory.
        module.reserve_ops(source.len() / 100);
        Parser {
            lex: Lexer::new(source),
            module,
            values: value::Scopes::default(),
            tensor_types: HashMap::default(),
            attr_aliases: HashMap::default(),
            type_aliases: HashMap::default(),
            loc_aliases: HashMap::default(),
            later_locs: vec![],
            resources: None,
            files: HashMap::default(),
            depth: 0,
            alias_bytes: 0,
            subject: "",
        }
    }

    fn error(&mut self, at: usize, message: impl Into<String>) -> Diagnostic {
        self.lex.error(at, message)
    }

    fn end(&mut self) -> Parsed<()> {
        if self.lex.at_end() { Ok(()) } else { Err(self.lex.expected("the end of the text")) }
    }

    /// Runs `read` one level deeper.
    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            let at = self.lex.pos();
            return Err(self.error(at, format!("this nests deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Items separated by commas up to the closing mark; the opening one has been taken. Possibly none.
    fn list_until(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        if self.lex.eat(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.lex.eat(b',') {
                return self.lex.expect(close);
            }
        }
    }

    /// The items that [`Parser::list_until`] reads.
    fn list_of<T, C: Default + Extend<T>>(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<C> {
        let mut items = C::default();
        self.list_until(close, |p| {
            items.extend(Some(item(p)?));
            Ok(())
        })?;
        Ok(items)
    }

    fn file(&mut self) -> Parsed<()> {
        let body = self.module.body();
        let mut whole = false;
        while !self.lex.at_end() {
            match self.lex.peek() {
                b'#' => self.attr_alias()?,
                b'!' => self.type_alias()?,
                b'{' => self.file_metadata()?,
                _ => {
                    if whole {
                        self.wrap_module();
                        whole = false;
                    }
                    let first = self.module.block(body).first().is_none();
                    if first && matches!(self.lex.peek_word(), Some("module" | "builtin.module")) {
                        self.top_module()?;
                        whole = true;
                    } else {
                        self.op(body)?;
                    }
                }
            }
        }
        if !whole {
            self.unwrap_module();
        }
        for (target, name, at) in std::mem::take(&mut self.later_locs) {
            let loc = self.loc_alias(name, at)?;
            match target {
                Located::Op(op) => self.module.op_mut(op).loc = loc,
                Located::Arg(block, i) => self.module.block_mut(block).arg_locs[i] = loc,
                Located::Module => self.module.loc = loc,
            }
        }
        Ok(())
    }

    /// `#name = attribute`.
    fn attr_alias(&mut self) -> Parsed<()> {
        let (at, name) = self.alias_name("an attribute alias")?;
        let start = self.lex.pos();
        let before = self.alias_bytes;
        if self.lex.peek_word() == Some("loc") {
            self.lex.eat_word("loc");
            self.lex.expect(b'(')?;
            let value = self.loc_body()?;
            self.lex.expect(b')')?;
            let bytes = self.lex.pos() - start + (self.alias_bytes - before);
            if self.loc_aliases.insert(name, Alias { value, bytes }).is_some() {
                return Err(self.error(at, format!("location alias '#{name}' is defined twice")));
            }
            return Ok(());
        }
        let value = self.attr()?;
        let bytes = self.lex.pos() - start + (self.alias_bytes - before);
        if self.attr_aliases.insert(name, Alias { value, bytes }).is_some() {
            return Err(self.error(at, format!("attribute alias '#{name}' is defined twice")));
        }
        Ok(())
    }

    /// `!name = type`.
    fn type_alias(&mut self) -> Parsed<()> {
        let (at, name) = self.alias_name("a type alias")?;
        let start = self.lex.pos();
        let before = self.alias_bytes;
        self.lex.eat_word("type");
        let value = self.ty()?;
        let bytes = self.lex.pos() - start + (self.alias_bytes - before);
        if self.type_aliases.insert(name, Alias { value, bytes }).is_some() {
            return Err(self.error(at, format!("type alias '!{name}' is defined twice")));
        }
        Ok(())
    }

    fn alias_name(&mut self, what: &str) -> Parsed<(usize, &'a str)> {
        let at = self.lex.pos();
        self.lex.set_pos(at + 1);
        let Some(name) = self.lex.name_here() else { return Err(self.lex.expected(&format!("the name of {what}"))) };
        if name.contains('.') {
            return Err(self.error(at, format!("{what} must have no '.' in its name, found '{name}'")));
        }
        self.lex.expect(b'=')?;
        Ok((at, name))
    }

    /// Counts the text that a use of an alias stands for.
    fn charge_alias(&mut self, bytes: usize, at: usize) -> Parsed<()> {
        self.alias_bytes = self.alias_bytes.saturating_add(bytes);
        if self.alias_bytes > MAX_ALIAS_BYTES.saturating_add(self.lex.src().len().saturating_mul(64)) {
            Err(self.error(at, "the aliases used so far stand for too much text"))
        } else {
            Ok(())
        }
    }
}
