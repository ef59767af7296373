//! The MLIR printer.
//!
//! The text is what MLIR's own printer gives for the same module, byte for byte, apart from two things it may do:
//! attributes and locations are written in place instead of under aliases, and an operation whose pretty form
//! would lose something (or that MLIR could not read back) is written in the generic form.
//!
//! - `mod.rs`: modules, blocks, regions, the generic form.
//! - `names.rs`: what each value is called.
//! - `pretty.rs`: pretty forms, as the op table gives them.
//! - `own.rs`, `func.rs`, `body.rs`: the syntaxes of single operations.
//! - `attr.rs`, `dense.rs`, `float.rs`, `structs.rs`, `sdy.rs`, `loc.rs`, `write.rs`: the parts.

mod attr;
mod body;
mod dense;
mod float;
mod func;
mod loc;
mod names;
mod own;
mod pretty;
mod sdy;
mod structs;
mod write;

use self::attr::{push_attr, push_named};
use self::loc::push_loc;
use self::names::Names;
use self::write::{push_int, push_list, push_quoted, push_type};
use crate::module::TypeId;
use crate::op::ControlOp;
use crate::{Attr, BlockId, Loc, Module, Op, OpId, OpKind, RegionId, Type, ValueId};

/// How a module is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// Every operation in the generic form, `"stablehlo.add"(%0, %1) : (...) -> ...`.
    pub generic: bool,
    /// With a `loc(...)` after every operation and block argument.
    pub locations: bool,
}

/// About the length of a line.
const LINE: usize = 128;

/// The module as MLIR text, in the pretty form, without locations.
pub fn print(module: &Module) -> String {
    print_with(module, &PrintOptions::default())
}

/// The module as MLIR text.
pub fn print_with(module: &Module, options: &PrintOptions) -> String {
    let names = Names::of_module(module, *options);
    let mut printer = Printer::new(module, names, *options);
    printer.out.reserve(LINE * module.op_slots());
    printer.module();
    printer.out
}

/// The module as [`print()`] gives it, and the line on which each operation starts, in the order of the text. Operations in
/// bodies that are written in short have no line of their own.
pub fn print_lines(module: &Module) -> (String, Vec<(OpId, u32)>) {
    let options = PrintOptions::default();
    let mut printer = Printer::new(module, Names::of_module(module, options), options);
    printer.out.reserve(LINE * module.op_slots());
    printer.starts = Some(Vec::with_capacity(module.op_slots()));
    printer.module();
    let (mut line, mut counted) = (1, 0);
    let lines = printer.starts.unwrap_or_default().into_iter().map(|(op, start)| {
        line += printer.out.as_bytes()[counted..start].iter().filter(|&&b| b == b'\n').count() as u32;
        counted = start;
        (op, line)
    });
    let lines = lines.collect();
    (printer.out, lines)
}

/// One operation with all that is nested in it, for messages: values have the names they have in the whole module.
pub fn print_op(module: &Module, op: OpId) -> String {
    let names = Names::around(module, op);
    let in_func = module.parent_op(op).is_some_and(|p| module.op(p).kind() == OpKind::Control(ControlOp::Func));
    let mut printer = Printer { in_func, ..Printer::new(module, names, PrintOptions::default()) };
    printer.op(module.op(op));
    printer.out
}

/// `loc(...)`.
pub(crate) fn loc_text(loc: &Loc) -> String {
    let mut out = String::new();
    push_loc(&mut out, loc);
    out
}

/// A string of any bytes in quotes.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        write::push_escaped(&mut out, chunk.valid());
        chunk.invalid().iter().for_each(|b| write::push_display(&mut out, format_args!("\\{b:02X}")));
    }
    out + "\""
}

/// One attribute as MLIR text.
pub(super) fn attr_text(attr: &Attr) -> String {
    let mut out = String::new();
    push_attr(&mut out, attr);
    out
}

struct Printer<'m> {
    module: &'m Module,
    out: String,
    /// The texts of the types that have been written, by number: a program has few types and many values.
    types: Vec<String>,
    names: Names,
    options: PrintOptions,
    /// What goes before each line: the end of the one above it, and its indentation.
    indent: String,
    /// In the body of a `func.func`, where the prefix `func.` is left out.
    in_func: bool,
    /// Where each operation starts, if that is asked for.
    starts: Option<Vec<(OpId, usize)>>,
}

impl<'m> Printer<'m> {
    fn new(module: &'m Module, names: Names, options: PrintOptions) -> Printer<'m> {
        let (out, types) = (String::new(), vec![String::new(); module.context.type_count()]);
        Printer { module, out, types, names, options, indent: "\n".into(), in_func: false, starts: None }
    }

    fn module(&mut self) {
        let module = self.module;
        if self.options.generic {
            self.out.push_str("\"builtin.module\"()");
            let own = OpKind::Control(ControlOp::Module).own_attrs();
            let name = module.name.as_ref().map(|n| ("sym_name", Attr::str(n)));
            let inherent = name
                .iter()
                .map(|(n, a)| (*n, a))
                .chain(module.attrs.iter().filter(|(n, _)| own.contains(&n.as_str())).map(|(n, a)| (n.as_str(), a)));
            self.attr_list(" <{", inherent, "}>");
            self.out.push_str(" ({");
            if module.block(module.body()).first().is_none() {
                self.out.push_str("\n^bb0:");
            }
            self.block_ops(module.body());
            self.out.push_str("\n})");
            let others = module.attrs.iter().filter(|(n, _)| !own.contains(&n.as_str()));
            self.attr_list(" {", others.map(|(n, a)| (n.as_str(), a)), "}");
            self.out.push_str(" : () -> ()");
        } else {
            self.module_header(module.name.as_deref(), module.attrs.iter().map(|(n, a)| (n.as_str(), a)));
            self.out.push_str(" {");
            self.block_ops(module.body());
            self.out.push_str("\n}");
        }
        self.trailing_loc(&module.loc);
        self.out.push('\n');
    }

    fn module_header<'a>(&mut self, name: Option<&str>, attrs: impl Iterator<Item = (&'a str, &'a Attr)>) {
        self.out.push_str("module");
        if let Some(name) = name {
            self.out.push(' ');
            write::push_symbol(&mut self.out, name);
        }
        self.attr_list(" attributes {", attrs, "}");
    }

    /// Appends the attributes between `open` and `close`; nothing if there are none.
    fn attr_list<'a>(&mut self, open: &str, attrs: impl Iterator<Item = (&'a str, &'a Attr)>, close: &str) {
        let mut any = false;
        for (name, attr) in attrs {
            self.out.push_str(if any { ", " } else { open });
            push_named(&mut self.out, name, attr);
            any = true;
        }
        if any {
            self.out.push_str(close);
        }
    }

    fn newline(&mut self) {
        self.out.push_str(&self.indent);
    }

    #[inline]
    fn trailing_loc(&mut self, loc: &Loc) {
        if self.options.locations {
            self.out.push(' ');
            push_loc(&mut self.out, loc);
        }
    }

    /// The operations of a block, each on its own line, one level deeper.
    fn block_ops(&mut self, block: BlockId) {
        self.indent.push_str("  ");
        for op in self.module.ops_in(block) {
            self.newline();
            if let Some(starts) = &mut self.starts {
                starts.push((op, self.out.len()));
            }
            self.op(self.module.op(op));
        }
        self.indent.truncate(self.indent.len() - 2);
    }

    // Recursion is as deep as regions nest, which the parser bounds.
    fn op(&mut self, op: &'m Op) {
        self.names.push_results(&mut self.out, op.results());
        let (start, indent, in_func) = (self.out.len(), self.indent.len(), self.in_func);
        if self.options.generic || self.pretty(op).is_none() {
            self.out.truncate(start);
            if let Some(starts) = &mut self.starts {
                // What is nested starts behind the name.
                starts.truncate(starts.partition_point(|(_, at)| *at <= start));
            }
            self.indent.truncate(indent);
            self.in_func = in_func;
            push_quoted(&mut self.out, op.name());
            self.generic_tail(op);
        }
        self.trailing_loc(&op.loc);
    }

    /// All of the generic form but the name.
    fn generic_tail(&mut self, op: &'m Op) {
        self.out.push('(');
        self.operands(op.operands());
        self.out.push(')');
        let own = op.kind().own_attrs();
        let named = || op.attrs.iter().map(|(n, a)| (n.as_str(), a));
        if !op.attrs.is_empty() {
            self.attr_list(" <{", named().filter(|(n, _)| own.contains(n)), "}>");
        }
        if !op.regions().is_empty() {
            self.out.push_str(" (");
            for (i, &region) in op.regions().iter().enumerate() {
                if i > 0 {
                    self.out.push_str(", ");
                }
                self.region(region, BlockLabel::WithArgs);
            }
            self.out.push(')');
        }
        if !op.attrs.is_empty() {
            self.attr_list(" {", named().filter(|(n, _)| !own.contains(n)), "}");
        }
        self.out.push_str(" : ");
        self.functional_type(op);
    }

    /// A region between braces.
    fn region(&mut self, region: RegionId, label: BlockLabel) {
        let (outer, scope) = (self.in_func, self.names.enter(self.module, region));
        let region = self.module.region(region);
        self.in_func = self.module.op(region.parent()).kind() == OpKind::Control(ControlOp::Func);
        self.out.push('{');
        for (i, &block) in region.blocks().iter().enumerate() {
            let data = self.module.block(block);
            let labelled = match label {
                _ if i > 0 => true,
                BlockLabel::WithArgs => !data.args().is_empty() || data.first().is_none(),
                BlockLabel::Args => !data.args().is_empty(),
                BlockLabel::Hidden => false,
            };
            if labelled {
                self.newline();
                self.out.push_str("^bb");
                push_int(&mut self.out, i as u64);
                if !data.args().is_empty() {
                    self.out.push('(');
                    self.block_args(block);
                    self.out.push(')');
                }
                self.out.push_str(if i > 0 { ":  // no predecessors" } else { ":" });
            }
            self.block_ops(block);
        }
        self.newline();
        self.out.push('}');
        self.names.leave(scope);
        self.in_func = outer;
    }

    /// `%arg0: tensor<f32>, %arg1: tensor<f32>`.
    fn block_args(&mut self, block: BlockId) {
        for i in 0..self.module.block(block).args().len() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.block_arg(block, i);
            self.arg_loc(block, i);
        }
    }

    /// `%arg0: tensor<f32>`.
    fn block_arg(&mut self, block: BlockId, index: usize) {
        let arg = self.module.block(block).args()[index];
        self.value(arg);
        self.out.push_str(": ");
        self.ty(arg);
    }

    fn arg_loc(&mut self, block: BlockId, index: usize) {
        if self.options.locations {
            let unknown = Loc::unknown();
            self.trailing_loc(self.module.block(block).arg_locs.get(index).unwrap_or(&unknown));
        }
    }

    fn value(&mut self, value: ValueId) {
        self.names.push(&mut self.out, value);
    }

    fn operands(&mut self, values: &[ValueId]) {
        push_list(&mut self.out, values, |out, &value| self.names.push(out, value));
    }

    /// The type of a value.
    #[inline]
    fn ty(&mut self, value: ValueId) {
        let id = self.module.type_id(value);
        if self.types[id.index()].is_empty() {
            self.write_type(id);
        }
        self.out.push_str(&self.types[id.index()]);
    }

    #[cold]
    fn write_type(&mut self, id: TypeId) {
        push_type(&mut self.types[id.index()], self.module.context.ty(id));
    }

    fn types(&mut self, values: &[ValueId]) {
        for (i, &value) in values.iter().enumerate() {
            if i > 0 {
                self.out.push_str(", ");
            }
            self.ty(value);
        }
    }

    /// `(operand types) -> result types`.
    fn functional_type(&mut self, op: &Op) {
        self.out.push('(');
        self.types(op.operands());
        self.out.push_str(") -> ");
        // One result needs no parentheses, unless it is a function.
        if let &[only] = op.results()
            && !matches!(self.module.ty(only), Type::Function(_))
        {
            return self.ty(only);
        }
        self.out.push('(');
        self.types(op.results());
        self.out.push(')');
    }
}

/// Whether the entry block of a region is announced.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockLabel {
    /// With its arguments; also an empty block without any, so that it is not taken for an empty region.
    WithArgs,
    /// With its arguments, if it has any.
    Args,
    /// Its arguments stand elsewhere.
    Hidden,
}
