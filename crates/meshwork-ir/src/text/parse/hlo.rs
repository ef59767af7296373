//! Pretty forms of StableHLO operations with a syntax of their own.

use std::sync::Arc;

use super::op::Draft;
use super::region::Arg;
use super::types::Types;
use super::{Parsed, Parser};
use crate::attr::DotDims;
use crate::op::{BodyOp, ControlOp};
use crate::{Attr, Dense, ElementType, Literal, OpKind, OpSpec, TensorType, Trait, Type};

impl<'a> Parser<'a> {
    /// `%re, %im : tensor<complex<f32>>`, or a functional type.
    pub(super) fn complex(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operands_and_keys(draft, &[])?;
        self.attr_dict(draft)?;
        self.lex.expect(b':')?;
        if self.lex.peek() == b'(' {
            return self.one_result(draft);
        }
        let at = self.lex.pos();
        let ty = self.ty()?;
        let Some(t) = ty.as_tensor().filter(|t| t.elem.is_complex()) else {
            return Err(self.error(at, format!("expected a tensor of complex numbers, found {ty}")));
        };
        let part: Type = t.with_elem(t.elem.real_part()).into();
        self.operand_types(draft, &[part.clone(), part], at)?;
        draft.spec.result_types.push(ty);
        Ok(())
    }

    /// `LT, %a, %b, FLOAT : (types) -> type`.
    pub(super) fn compare(&mut self, draft: &mut Draft) -> Parsed<()> {
        let direction = self.enum_case("comparison_direction")?;
        draft.set("comparison_direction", direction);
        self.lex.expect(b',')?;
        if self.operands_and_comma(draft)? {
            let ty = self.enum_case("comparison_type")?;
            draft.set("compare_type", ty);
        }
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    /// `%p, %a, %b : type, type`, or a functional type.
    pub(super) fn select(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operands_and_keys(draft, &[])?;
        self.attr_dict(draft)?;
        self.lex.expect(b':')?;
        if self.lex.peek() == b'(' {
            return self.one_result(draft);
        }
        let at = self.lex.pos();
        let types = self.type_list()?;
        let [pred, ty] = &types[..] else {
            return Err(self.error(at, format!("expected a functional type or two types, found {}", types.len())));
        };
        self.operand_types(draft, &[pred.clone(), ty.clone(), ty.clone()], at)?;
        draft.spec.result_types.push(ty.clone());
        Ok(())
    }

    /// `{attrs} dense<...> : type`, or the generic form without the quotes.
    pub(super) fn constant(&mut self, draft: &mut Draft) -> Parsed<()> {
        if self.lex.eat(b'(') {
            return self.generic_tail(draft);
        }
        self.attr_dict(draft)?;
        let (value, ty) = self.elements_attr()?;
        draft.set("value", value);
        draft.spec.result_types.push(ty);
        Ok(())
    }

    /// Reads a dense constant and its type.
    pub(super) fn elements_attr(&mut self) -> Parsed<(Attr, Type)> {
        let at = self.lex.pos();
        match self.lex.peek_word() {
            Some("dense") => return self.dense(),
            Some("dense_resource") => return self.dense_resource(),
            _ => {}
        }
        if self.lex.peek() == b'#'
            && let Attr::Dense(dense) = self.attr()?
        {
            let ty = Type::Tensor(dense.ty.clone());
            return Ok((Attr::Dense(dense), ty));
        }
        self.lex.set_pos(at);
        Err(self.lex.expected("a constant such as 'dense<1> : tensor<2xi32>'"))
    }

    /// `%a [0:4, 1:9:2] : (type) -> type`.
    pub(super) fn slice(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operand(draft)?;
        let (mut start, mut limit, mut strides) = (vec![], vec![], vec![]);
        self.lex.expect(b'[')?;
        self.list_until(b']', |p| {
            start.push(p.lex.int()?);
            p.lex.expect(b':')?;
            limit.push(p.lex.int()?);
            strides.push(if p.lex.eat(b':') { p.lex.int()? } else { 1 });
            Ok(())
        })?;
        draft.set("start_indices", Attr::I64Array(start.into()));
        draft.set("limit_indices", Attr::I64Array(limit.into()));
        draft.set("strides", Attr::I64Array(strides.into()));
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    /// `%a, %b, precision = [HIGH, HIGH] : (types) -> type`.
    pub(super) fn dot(&mut self, draft: &mut Draft) -> Parsed<()> {
        if self.operands_and_comma(draft)? {
            self.precision(draft)?;
        }
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    fn precision(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect_word("precision")?;
        self.lex.expect(b'=')?;
        self.lex.expect(b'[')?;
        let items: Vec<Attr> = self.list_of(b']', |p| p.enum_case("precision"))?;
        draft.set("precision_config", Attr::Array(items.into()));
        Ok(())
    }

    /// `%a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [...], algorithm = <...>`.
    pub(super) fn dot_general(&mut self, draft: &mut Draft) -> Parsed<()> {
        if !self.operands_and_comma(draft)? {
            return Err(self.lex.expected("', contracting_dims ='"));
        }
        let mut dims = DotDims::default();
        if self.lex.eat_word("batching_dims") {
            (dims.lhs_batch, dims.rhs_batch) = self.dim_pair()?;
            self.lex.expect(b',')?;
        }
        self.lex.expect_word("contracting_dims")?;
        (dims.lhs_contract, dims.rhs_contract) = self.dim_pair()?;
        draft.set("dot_dimension_numbers", Attr::Dot(Arc::new(dims)));
        let mut more = self.lex.eat(b',');
        if more && self.lex.peek_word() == Some("precision") {
            self.precision(draft)?;
            more = self.lex.eat(b',');
        }
        if more {
            self.lex.expect_word("algorithm")?;
            self.lex.expect(b'=')?;
            let algorithm = self.algorithm()?;
            draft.set("algorithm", algorithm);
        }
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    fn dim_pair(&mut self) -> Parsed<(Vec<i64>, Vec<i64>)> {
        self.lex.expect(b'=')?;
        let lhs = self.int_list()?;
        self.lex.expect(b'x')?;
        Ok((lhs, self.int_list()?))
    }

    fn algorithm(&mut self) -> Parsed<Attr> {
        match self.lex.peek() {
            b'#' => self.attr(),
            b'<' => {
                let at = self.lex.pos();
                self.lex.skip_balanced()?;
                let body = self.expand_aliases(at)?;
                Ok(Attr::Opaque(format!("#stablehlo.dot_algorithm{body}").into()))
            }
            _ => Err(self.lex.expected("'<'")),
        }
    }

    /// `(%a, %b) dim_numbers = [...]x[...]->[...], window = {stride = [...], ...} {attrs} : (types) -> type`.
    pub(super) fn convolution(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        self.lex.expect_word("dim_numbers")?;
        self.lex.expect(b'=')?;
        let dims = match self.lex.peek() {
            b'#' => self.attr()?,
            _ => Attr::Conv(Arc::new(self.conv_dims()?)),
        };
        draft.set("dimension_numbers", dims);
        self.lex.expect(b',')?;
        self.lex.expect_word("window")?;
        self.lex.expect(b'=')?;
        self.lex.expect(b'{')?;
        self.list_until(b'}', |p| p.window_entry(draft))?;
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    fn window_entry(&mut self, draft: &mut Draft) -> Parsed<()> {
        let at = self.lex.pos();
        let name = match self.lex.eat_any_word() {
            Some("stride") => "window_strides",
            Some("pad") => "padding",
            Some("lhs_dilate") => "lhs_dilation",
            Some("rhs_dilate") => "rhs_dilation",
            Some("reverse") => "window_reversal",
            _ => {
                self.lex.set_pos(at);
                return Err(self.lex.expected("one of stride, pad, lhs_dilate, rhs_dilate, reverse"));
            }
        };
        if draft.spec.attrs.contains(name) {
            return Err(self.error(at, "this part of the window is given twice"));
        }
        self.lex.expect(b'=')?;
        let value = match name {
            "padding" => self.window_padding()?,
            "window_reversal" => {
                self.lex.expect(b'[')?;
                let mut items: Vec<bool> = vec![];
                self.list_until(b']', |p| {
                    let flag = match p.lex.peek_word() {
                        Some(word @ ("true" | "false")) => {
                            p.lex.eat_any_word();
                            word == "true"
                        }
                        _ => p.lex.int()? != 0,
                    };
                    items.push(flag);
                    Ok(())
                })?;
                Attr::BoolArray(items.into())
            }
            _ => Attr::I64Array(self.int_list()?.into()),
        };
        draft.set(name, value);
        Ok(())
    }

    /// `[[0, 1], [2, 3]]` as a constant of two columns.
    fn window_padding(&mut self) -> Parsed<Attr> {
        self.lex.expect(b'[')?;
        let mut bytes = vec![];
        let mut rows = 0;
        self.list_until(b']', |p| {
            let at = p.lex.pos();
            let pair = p.int_list()?;
            if pair.len() != 2 {
                return Err(p.error(at, format!("expected a low and a high padding, found {} numbers", pair.len())));
            }
            rows += 1;
            bytes.extend(pair.iter().flat_map(|v| v.to_le_bytes()));
            Ok(())
        })?;
        let at = self.lex.pos();
        match Literal::from_bytes([rows, 2], ElementType::I64, bytes) {
            Some(literal) => Ok(Attr::Dense(Arc::new(Dense::from_literal(&literal)))),
            None => Err(self.error(at, "this padding is too long")),
        }
    }

    /// `(%a init: %i), ... across dimensions = [0] : type reducer(%x: t, %y: t) {...}`, or with `applies op` and no
    /// body.
    pub(super) fn reduce(&mut self, draft: &mut Draft) -> Parsed<()> {
        let mut inits = Draft {
            spec: OpSpec::new(OpKind::Body(BodyOp::Reduce)),
            at: draft.at,
            operand_at: Default::default(),
            op: None,
        };
        loop {
            self.lex.expect(b'(')?;
            self.operand(draft)?;
            self.lex.expect_word("init")?;
            self.lex.expect(b':')?;
            self.operand(&mut inits)?;
            self.lex.expect(b')')?;
            if !self.lex.eat(b',') {
                break;
            }
        }
        draft.spec.operands.extend(inits.spec.operands);
        draft.operand_at.extend(inits.operand_at);
        let mut inner = None;
        if self.lex.eat_word("applies") {
            inner = Some(self.reduce_inner()?);
        }
        self.lex.expect_word("across")?;
        self.lex.expect_word("dimensions")?;
        self.lex.expect(b'=')?;
        let dims = self.int_list()?;
        self.attr_dict(draft)?;
        draft.set("dimensions", Attr::I64Array(dims.into()));
        self.colon_functional(draft)?;
        let op = self.begin(draft);
        match inner {
            Some(inner) => {
                let elem = draft.spec.operands.first().and_then(|&v| self.module.ty(v).elem());
                let Some(elem) = elem else { return Err(self.error(draft.at, "expected tensors to reduce")) };
                let ty: Type = TensorType::new([], elem).into();
                let block = self.module.add_body(op, [ty.clone(), ty.clone()]);
                let args = self.module.block(block).args().to_vec();
                let mut spec = OpSpec::new(inner).operands(args).results([ty]);
                spec.pos = draft.spec.pos;
                let inner = self.module.push(block, spec);
                let value = self.module.result(inner);
                let mut spec = OpSpec::new(OpKind::Control(ControlOp::HloReturn)).operands([value]);
                spec.pos = draft.spec.pos;
                self.module.push(block, spec);
                Ok(())
            }
            None => {
                self.lex.expect_word("reducer")?;
                let (mut args, mut accs): (Vec<Arg<'a>>, Vec<Arg<'a>>) = (vec![], vec![]);
                while self.lex.eat(b'(') {
                    args.push(self.typed_arg()?);
                    self.lex.expect(b',')?;
                    accs.push(self.typed_arg()?);
                    self.lex.expect(b')')?;
                }
                args.append(&mut accs);
                self.region(op, args)
            }
        }
    }

    fn reduce_inner(&mut self) -> Parsed<OpKind> {
        self.lex.skip();
        let at = self.lex.pos();
        let name = match self.lex.byte(0) {
            b'"' => self.lex.string()?.into_owned(),
            _ => self.lex.eat_any_word().unwrap_or("").to_string(),
        };
        let known = OpKind::from_name(&name);
        match known.filter(|k| k.has(Trait::Commutative) && k.dialect() == "stablehlo") {
            Some(kind) => Ok(kind),
            None => {
                Err(self
                    .error(at, format!("expected a commutative StableHLO operation of two operands, found '{name}'")))
            }
        }
    }

    /// `(%x = %init, ...) : types attributes {...} cond {...} do {...}`.
    pub(super) fn while_op(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.lex.expect(b'(')?;
        let mut names = vec![];
        self.list_until(b')', |p| {
            names.push(p.arg_name()?);
            p.lex.expect(b'=')?;
            p.operand(draft)
        })?;
        let mut types = Types::new();
        if !names.is_empty() {
            self.lex.expect(b':')?;
            let at = self.lex.pos();
            types = self.type_list()?;
            self.operand_types(draft, &types, at)?;
        }
        self.attr_dict_with_keyword(draft)?;
        let op = self.begin(draft);
        for word in ["cond", "do"] {
            self.lex.expect_word(word)?;
            let args = names.iter().zip(&types).map(|(&(name, at), ty)| Arg { name, at, ty: ty.clone(), loc: None });
            self.region(op, args.collect())?;
        }
        draft.spec.result_types = types.into_iter().collect();
        Ok(())
    }

    /// `"name" %a, %b (regions) {attrs} : (types) -> types`.
    pub(super) fn composite(&mut self, draft: &mut Draft) -> Parsed<()> {
        let name = self.lex.string()?;
        draft.set("name", Attr::str(name));
        self.operands_and_keys(draft, &[])?;
        if self.lex.eat(b'(') {
            let op = self.begin(draft);
            self.list_until(b')', |p| p.region(op, vec![]))?;
        }
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    /// `@target(%a, %b) {attrs} : (types) -> types`.
    pub(super) fn custom_call(&mut self, draft: &mut Draft) -> Parsed<()> {
        let target = self.lex.symbol()?;
        draft.set("call_target_name", Attr::str(target));
        self.lex.expect(b'(')?;
        self.operands_in_parens(draft)?;
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    /// `%a[0] : (tuple<...>) -> type`.
    pub(super) fn get_tuple_element(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operand(draft)?;
        self.lex.expect(b'[')?;
        let index = self.lex.int()?;
        self.lex.expect(b']')?;
        draft.set("index", Attr::i32(index));
        self.attr_dict(draft)?;
        self.colon_functional(draft)
    }

    /// `%a, %b : types`, or `()`.
    pub(super) fn optimization_barrier(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.attr_dict(draft)?;
        if self.lex.eat(b'(') {
            return self.lex.expect(b')');
        }
        self.operands_and_keys(draft, &[])?;
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let types = self.type_list()?;
        self.operand_types(draft, &types, at)?;
        draft.spec.result_types = types.into_iter().collect();
        Ok(())
    }

    /// `%a, %b : tuple<...>`.
    pub(super) fn tuple(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.operands_and_keys(draft, &[])?;
        self.attr_dict(draft)?;
        self.lex.expect(b':')?;
        let at = self.lex.pos();
        let ty = self.ty()?;
        let Type::Tuple(parts) = &ty else { return Err(self.error(at, format!("expected a tuple type, found {ty}"))) };
        self.operand_types(draft, parts, at)?;
        draft.spec.result_types.push(ty);
        Ok(())
    }
}
