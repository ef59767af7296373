//! Attributes after `#`: aliases, and those of StableHLO.

use std::sync::Arc;

use super::{Parsed, Parser};
use crate::Attr;
use crate::attr::{ConvDims, EnumAttr, Field, Fields, GroupAxes};
use crate::op::form::hlo_cases;

/// StableHLO attributes that no stage computes with: kept as text.
const HLO_TEXT: &[&str] = &[
    "axis_ref",
    "bounds",
    "dot_algorithm",
    "mesh",
    "mesh_axis",
    "output_operand_alias",
    "result_accuracy",
    "sub_axis_info",
    "type_extensions",
];

impl<'a> Parser<'a> {
    /// Reads `#alias`, `#dialect.name<...>` or `#dialect<...>`.
    pub(super) fn hash_attr(&mut self, at: usize) -> Parsed<Attr> {
        self.lex.set_pos(at + 1);
        let Some(name) = self.lex.name_here() else { return Err(self.lex.expected("a name right after '#'")) };
        let has_body = self.lex.byte(0) == b'<';
        match name.split_once('.') {
            Some(("stablehlo", kind)) => self.hlo_attr(kind, at),
            Some(("sdy", kind)) => self.sdy_attr(kind, at),
            Some(_) => self.opaque_attr(at),
            None if has_body => self.bracketed_attr(name, at),
            None => {
                let Some(alias) = self.attr_aliases.get(name) else {
                    if let Some(loc) = self.loc_aliases.get(name) {
                        let bytes = loc.bytes;
                        self.charge_alias(bytes, at)?;
                        return Ok(Attr::Opaque(self.lex.text_from(at).into()));
                    }
                    return Err(self.error(at, format!("attribute alias '#{name}' is not defined before")));
                };
                let (attr, bytes) = (alias.value.clone(), alias.bytes);
                self.charge_alias(bytes, at)?;
                Ok(attr)
            }
        }
    }

    /// Keeps the attribute as text, its `<...>` body (at the offset) included.
    fn opaque_attr(&mut self, at: usize) -> Parsed<Attr> {
        if self.lex.byte(0) == b'<' {
            self.lex.skip_balanced()?;
        }
        Ok(Attr::Opaque(self.expand_aliases(at)?))
    }

    /// `#dialect<...>`: an enum of a dialect that this crate knows, a list of `sdy`, or text.
    fn bracketed_attr(&mut self, dialect: &'a str, at: usize) -> Parsed<Attr> {
        let open = self.lex.pos();
        if dialect == "sdy"
            && let Some(attr) = self.sdy_bracketed()?
        {
            return Ok(attr);
        }
        self.lex.set_pos(open + 1);
        if matches!(dialect, "stablehlo" | "chlo" | "sdy")
            && let Some(kind) = self.lex.eat_any_word()
            && let Some(value) = self.lex.eat_any_word()
            && self.lex.eat(b'>')
        {
            if dialect != "sdy" && !hlo_cases(kind).contains(&value) {
                return Err(self.error(at, format!("enum '{kind}' of dialect '{dialect}' has no case '{value}'")));
            }
            let attr = EnumAttr { dialect: dialect.into(), kind: kind.into(), value: value.into() };
            return Ok(Attr::Enum(Arc::new(attr)));
        }
        self.lex.set_pos(open);
        self.opaque_attr(at)
    }

    fn hlo_attr(&mut self, kind: &str, at: usize) -> Parsed<Attr> {
        match kind {
            "dot" => self.fields().map(|d| Attr::Dot(Arc::new(d))),
            "conv" => self.conv_attr().map(|d| Attr::Conv(Arc::new(d))),
            "gather" => self.fields().map(|d| Attr::Gather(Arc::new(d))),
            "scatter" => self.fields().map(|d| Attr::Scatter(Arc::new(d))),
            "channel_handle" => self.fields().map(Attr::Channel),
            "replica_group_mesh_axes" => self.group_axes(at),
            _ if HLO_TEXT.contains(&kind) => self.opaque_attr(at),
            _ => Err(self.error(at, format!("StableHLO has no attribute '{kind}'"))),
        }
    }

    /// Groups of devices as axes of a mesh, from the `<`. A list that names no axis means nothing, but MLIR lets it stand
    /// beside the name of a mesh: it is kept as text.
    fn group_axes(&mut self, at: usize) -> Parsed<Attr> {
        let read = GroupAxes::read(self.lex.src(), self.lex.pos());
        let groups = match read {
            Ok((groups, end)) => {
                self.lex.set_pos(end);
                groups
            }
            Err(e) => {
                self.lex.skip_balanced()?;
                let text = self.expand_aliases(at)?;
                match GroupAxes::read(&text, GroupAxes::NAME.len()) {
                    Ok((groups, _)) => groups,
                    Err(_) if !text.contains("#stablehlo.axis_ref") && !text.contains("#stablehlo.mesh") => {
                        return Ok(Attr::Opaque(text));
                    }
                    Err(_) => return Err(self.error(e.offset, e.message)),
                }
            }
        };
        Ok(Attr::GroupAxes(Arc::new(groups)))
    }

    /// Reads `<name = value, ...>`, the fields in any order, each at most once.
    fn fields<T: Fields>(&mut self) -> Parsed<T> {
        self.lex.expect(b'<')?;
        self.fields_until_close()
    }

    fn fields_until_close<T: Fields>(&mut self) -> Parsed<T> {
        let mut value = T::default();
        let mut fields = value.fields();
        let mut seen = 0u32;
        while !self.lex.eat(b'>') {
            let word = self.lex.peek_word();
            let Some(i) = fields.iter().position(|(name, _)| Some(*name) == word) else {
                let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
                return Err(self.lex.expected(&format!("one of {}", names.join(", "))));
            };
            if seen & (1 << i) != 0 {
                let at = self.lex.pos();
                return Err(self.error(at, format!("field {} is given twice", fields[i].0)));
            }
            seen |= 1 << i;
            self.lex.eat_any_word();
            self.lex.expect(b'=')?;
            match &mut fields[i].1 {
                Field::Int(out) => **out = self.lex.int()?,
                Field::Ints(out) => **out = self.int_list()?,
            }
            if !self.lex.eat(b',') {
                self.lex.expect(b'>')?;
                break;
            }
        }
        Ok(value)
    }

    fn conv_attr(&mut self) -> Parsed<ConvDims> {
        self.lex.expect(b'<')?;
        if !self.lex.eat_word("raw") {
            let dims = self.conv_dims()?;
            self.lex.expect(b'>')?;
            return Ok(dims);
        }
        self.fields_until_close()
    }

    /// Reads `[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]`.
    pub(super) fn conv_dims(&mut self) -> Parsed<ConvDims> {
        let (input_batch, input_feature, input_spatial) = self.conv_side("b", "f")?;
        // `x` and the bracket after it are two tokens.
        self.lex.expect(b'x')?;
        let (kernel_input_feature, kernel_output_feature, kernel_spatial) = self.conv_side("i", "o")?;
        self.lex.expect_str("->")?;
        let (output_batch, output_feature, output_spatial) = self.conv_side("b", "f")?;
        Ok(ConvDims {
            input_batch,
            input_feature,
            input_spatial,
            kernel_input_feature,
            kernel_output_feature,
            kernel_spatial,
            output_batch,
            output_feature,
            output_spatial,
        })
    }

    /// One bracket of convolution dimensions: where the two letters and each spatial dimension stand.
    fn conv_side(&mut self, first: &str, second: &str) -> Parsed<(i64, i64, Vec<i64>)> {
        self.lex.expect(b'[')?;
        let at = self.lex.pos();
        let (mut letters, mut spatial, mut index) = ([None; 2], vec![], 0i64);
        self.list_until(b']', |p| {
            let here = p.lex.pos();
            let slot = match p.lex.eat_any_word() {
                Some(word) if word == first => &mut letters[0],
                Some(word) if word == second => &mut letters[1],
                Some(word) => {
                    return Err(p.error(here, format!("unexpected dimension {word}, expecting {first} or {second}")));
                }
                None => {
                    spatial.push((p.lex.int()?, index));
                    index += 1;
                    return Ok(());
                }
            };
            if slot.replace(index).is_some() {
                return Err(p.error(here, "this dimension is given twice"));
            }
            index += 1;
            Ok(())
        })?;
        let [Some(a), Some(b)] = letters else {
            return Err(self.error(at, format!("expected dimensions {first} and {second}, not both are given")));
        };
        spatial.sort_unstable();
        if let Some((i, _)) = spatial.iter().enumerate().find(|(i, (d, _))| *d != *i as i64) {
            return Err(self.error(at, format!("expected spatial dimension {i} once")));
        }
        Ok((a, b, spatial.into_iter().map(|(_, index)| index).collect()))
    }
}
