//! Pretty forms of the few operations of other dialects that stand beside StableHLO in its producers' programs.
//!
//! They have no kind: they are read so that a file with them can be read and printed back, in generic form.

use std::sync::Arc;

use super::op::Draft;
use super::types::Types;
use super::{Parsed, Parser};
use crate::{Attr, Dense, Diagnostic, ElementType, Literal, Type};

/// How an operation of another dialect is written.
enum Foreign {
    /// `1 : index`: the attribute `value` and its type.
    Constant,
    /// `%a, %b : type`: operands and result of one type.
    Same,
    /// `%a : type to type`.
    Cast,
    /// `%a, %b : type, type -> type`.
    Arrow,
    /// `%a, %b : (types) -> types`.
    Functional,
    /// `%t, %i : type`: an index into a tensor of that type gives an index.
    Dim,
    /// `%a, %b : tensor<2xi32>`: the elements of the result.
    Elements,
    /// `[1, 2] : type`: the attribute `shape`.
    Shape,
}

fn foreign(name: &str) -> Option<Foreign> {
    Some(match name {
        "arith.constant" => Foreign::Constant,
        "arith.addf" | "arith.addi" | "arith.subf" | "arith.subi" | "arith.mulf" | "arith.muli" | "arith.divf"
        | "arith.divsi" | "arith.divui" | "arith.remsi" | "arith.remui" | "arith.andi" | "arith.ori" | "arith.xori"
        | "arith.maxsi" | "arith.maxui" | "arith.minsi" | "arith.minui" | "arith.maximumf" | "arith.minimumf"
        | "arith.negf" => Foreign::Same,
        "arith.index_cast"
        | "arith.index_castui"
        | "arith.extsi"
        | "arith.extui"
        | "arith.trunci"
        | "arith.sitofp"
        | "arith.uitofp"
        | "arith.fptosi"
        | "arith.fptoui"
        | "arith.extf"
        | "arith.truncf"
        | "arith.bitcast"
        | "tensor.cast"
        | "builtin.unrealized_conversion_cast" => Foreign::Cast,
        "shape.shape_of" | "shape.num_elements" | "shape.broadcast" => Foreign::Arrow,
        "tensor.dim" => Foreign::Dim,
        "tensor.from_elements" => Foreign::Elements,
        "shape.const_shape" => Foreign::Shape,
        // The broadcasting operations of CHLO all have one form.
        _ if name.starts_with("chlo.broadcast_") => Foreign::Functional,
        _ => return None,
    })
}

/// Whether an operation of this name, which is not in the op table, may be read in generic form: the table has
/// all operations of its own dialects, but for the broadcasting ones of CHLO.
pub(crate) fn may_be_unknown(name: &str) -> bool {
    match name.split_once('.') {
        Some(("stablehlo" | "sdy" | "check" | "interpreter", _)) => false,
        Some(("chlo", rest)) => {
            rest.starts_with("broadcast_") && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        }
        _ => !name.is_empty(),
    }
}

impl<'a> Parser<'a> {
    /// Reads an operation that is not in the op table.
    pub(super) fn foreign_op(&mut self, name: &'a str, draft: &mut Draft) -> Parsed<()> {
        let Some(form) = foreign(name) else { return Err(self.no_such_form(name, draft)) };
        draft.spec.name = name.into();
        match form {
            Foreign::Constant => return self.foreign_constant(draft),
            Foreign::Shape => {
                let items = self.int_list()?;
                self.attr_dict(draft)?;
                self.lex.expect(b':')?;
                let result = self.ty()?;
                let pos = draft.spec.pos;
                let too_long = || Diagnostic::error(pos, "this shape is too long");
                let bytes = items.iter().flat_map(|v| v.to_le_bytes()).collect();
                let literal = Literal::from_bytes([items.len() as i64], ElementType::Index, bytes);
                let shape = Dense::from_literal(&literal.ok_or_else(too_long)?);
                draft.set("shape", Attr::Dense(Arc::new(shape)));
                draft.spec.result_types.push(result);
                return Ok(());
            }
            _ => {}
        }
        self.operands_and_keys(draft, &[])?;
        self.attr_dict(draft)?;
        if let Foreign::Functional = form {
            return self.colon_functional(draft);
        }
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let count = draft.spec.operands.len();
        let types = self.type_list()?;
        let (inputs, results): (Types, Types) = match (form, &types[..]) {
            (Foreign::Same, [ty]) => (Types::from_elem(ty.clone(), count), types.clone()),
            (Foreign::Elements, [ty @ Type::Tensor(t)]) => {
                (Types::from_elem(Type::Scalar(t.elem), count), Types::from_elem(ty.clone(), 1))
            }
            (Foreign::Dim, [ty]) => {
                let index = Type::Scalar(ElementType::Index);
                ([ty.clone(), index.clone()].into_iter().collect(), Types::from_elem(index, 1))
            }
            (Foreign::Cast, _) => {
                self.lex.expect_word("to")?;
                (types, self.type_list()?)
            }
            (Foreign::Arrow, _) => {
                self.lex.expect_str("->")?;
                (types, self.result_types()?)
            }
            _ => return Err(self.error(at, format!("these types do not suit '{name}'"))),
        };
        self.operand_types(draft, &inputs, at)?;
        draft.spec.result_types = results.into_iter().collect();
        Ok(())
    }

    fn foreign_constant(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.attr_dict(draft)?;
        self.lex.skip();
        let at = self.lex.pos();
        let (value, ty) = match self.lex.peek_word() {
            Some("dense" | "dense_resource") => self.elements_attr()?,
            _ => match self.attr()? {
                value @ Attr::Bool(_) => (value, Type::Scalar(ElementType::I1)),
                Attr::Int(v, elem) => (Attr::Int(v, elem), Type::Scalar(elem)),
                Attr::Float(v, elem) => (Attr::Float(v, elem), Type::Scalar(elem)),
                _ => return Err(self.error(at, "expected a constant with a type")),
            },
        };
        draft.set("value", value);
        draft.spec.result_types.push(ty);
        Ok(())
    }

    fn no_such_form(&mut self, name: &str, draft: &Draft) -> Diagnostic {
        if !name.contains('.') || !may_be_unknown(name) {
            return self.error(draft.at, format!("'{name}' is not an operation"));
        }
        let message = format!("the pretty form of '{name}'; its generic form \"{name}\"(...) can be read");
        Diagnostic::unsupported(draft.spec.pos, message)
    }
}
