//! Attributes and types of VHLO, as those of StableHLO that they stand for.
//!
//! StableHLO's attributes that no stage computes with are text, spelled as MLIR prints them.

use std::sync::Arc;

use super::builtin::complex;
use super::cursor::{Cursor, Read, error, unsupported};
use super::dense;
use super::table::Table;
use crate::attr::GroupAxes;
use crate::op::form::hlo_cases;
use crate::text::parse_attr;
use crate::{Attr, DYNAMIC, ElementType, FunctionType, Type};

impl<'a> Table<'a> {
    pub(super) fn vhlo_attr(&mut self, c: &mut Cursor<'a>) -> Read<Attr> {
        let at = c.at();
        Ok(match c.varint()? {
            1 => Attr::Array(c.list(|c| self.next_attr(c))?.into()),
            2 => Attr::Bool(c.varint()? != 0),
            3 => enumeration(c, "comparison_direction", 0)?,
            4 => enumeration(c, "comparison_type", 0)?,
            5 => Attr::i32(c.varint()? as i64),
            6 => self.next_dict(c)?,
            7 => enumeration(c, "fft_type", 0)?,
            8 | 9 => match self.next_type(c)? {
                Type::Scalar(elem) => dense::number(c, elem)?,
                other => return Err(error(at, format_args!("a number of type {other}"))),
            },
            10 => {
                let (output, operand, tuple) = (c.signed_list()?, c.signed()?, c.signed_list()?);
                opaque(format!(
                    "#stablehlo.output_operand_alias<output_tuple_indices = {output:?}, operand_index = {operand}, \
                     operand_tuple_indices = {tuple:?}>"
                ))
            }
            11 => enumeration(c, "precision", 0)?,
            12 => enumeration(c, "rng_algorithm", 0)?,
            13 => enumeration(c, "rng_distribution", 1)?,
            14 => self.next_string(c)?,
            15 => {
                let ty = self.next_type(c)?;
                dense::dense(c, &ty)?
            }
            16 => enumeration(c, "transpose", 0)?,
            17 => Attr::Type(self.next_type(c)?),
            18 => {
                let bound = |&b: &i64| if b == DYNAMIC { "?".to_string() } else { b.to_string() };
                let bounds: Vec<String> = c.signed_list()?.iter().map(bound).collect();
                opaque(format!("#stablehlo.bounds<{}>", bounds.join(", ")))
            }
            19 => enumeration(c, "result_accuracy_mode", 0)?,
            20 => self.result_accuracy(c)?,
            21 => opaque(format!("#stablehlo.sub_axis_info({}){}", c.signed()?, c.signed()?)),
            22 => {
                let mut fields = format!("name = {}", self.next_attr(c)?);
                if c.varint()? != 0 {
                    fields += &format!(", sub_axis_info = {}", self.next_attr(c)?);
                }
                opaque(format!("#stablehlo.axis_ref<{fields}>"))
            }
            23 => {
                let mesh = match self.next_attr(c)? {
                    Attr::Str(name) => Attr::Symbol(name.as_ref().into()),
                    mesh => mesh,
                };
                let text = format!("{}<mesh = {mesh}, axes = {}>", GroupAxes::NAME, self.next_attr(c)?);
                parse_attr(&text).map_err(|e| error(at, e.message))?
            }
            24 => opaque(format!("#stablehlo.mesh_axis<name = {}, size = {}>", self.next_attr(c)?, c.signed()?)),
            25 => {
                let mut fields = format!("axes = {}", self.next_attr(c)?);
                if let Some(ids) = self.next_optional(c)? {
                    fields += &format!(", device_ids = {ids}");
                }
                opaque(format!("#stablehlo.mesh<{fields}>"))
            }
            code => return Err(unsupported(at, format_args!("VHLO attribute {code}"))),
        })
    }

    fn result_accuracy(&mut self, c: &mut Cursor<'a>) -> Read<Attr> {
        let (atol, rtol, ulps) = (dense::double(c)?, dense::double(c)?, c.signed()?);
        let mode = self.next_attr(c)?;
        let Some(mode) = mode.as_enum() else { return Err(c.error("expected a mode of accuracy")) };
        let number = |v: f64| {
            let text = Attr::Float(v, ElementType::F64).to_string();
            text.split(" : ").next().unwrap_or_default().to_string()
        };
        // Fields that are zero are not written.
        let mut fields = String::new();
        if atol != 0.0 {
            fields += &format!("atol = {}, ", number(atol));
        }
        if rtol != 0.0 {
            fields += &format!("rtol = {}, ", number(rtol));
        }
        if ulps != 0 {
            fields += &format!("ulps = {ulps}, ");
        }
        let mode = format!("mode = #stablehlo.result_accuracy_mode<{mode}>");
        Ok(opaque(format!("#stablehlo.result_accuracy<{fields}{mode}>")))
    }

    pub(super) fn vhlo_type(&mut self, c: &mut Cursor<'a>) -> Read<Type> {
        let at = c.at();
        let code = c.varint()?;
        if let Some(elem) = element(code) {
            return Ok(Type::Scalar(elem));
        }
        Ok(match code {
            1 => complex(&self.next_type(c)?),
            8 => {
                let (inputs, results) = (self.next_types(c)?, self.next_types(c)?);
                Type::Function(Arc::new(FunctionType { inputs, results }))
            }
            20 => self.tensor(c, None)?,
            21 => {
                let encoding = self.next_attr(c)?;
                self.tensor(c, Some(encoding))?
            }
            22 => Type::Token,
            23 => Type::Tuple(self.next_types(c)?.into()),
            24 | 30 => return Err(unsupported(at, "quantized types")),
            25 => Type::Opaque(format!("tensor<*x{}>", self.next_type(c)?).into()),
            26 => Type::Opaque("!shape.witness".into()),
            33 => Type::None,
            42 => {
                let types: Vec<String> = self.next_types(c)?.iter().map(Type::to_string).collect();
                Type::Opaque(format!("!stablehlo.future<{}>", types.join(", ")).into())
            }
            code => return Err(unsupported(at, format_args!("VHLO type {code}"))),
        })
    }
}

fn opaque(text: String) -> Attr {
    Attr::Opaque(text.into())
}

/// A case of the StableHLO enum `kind`, whose first case has number `first`.
fn enumeration(c: &mut Cursor<'_>, kind: &str, first: u64) -> Read<Attr> {
    let number = c.varint()?;
    let case = number.checked_sub(first).and_then(|i| hlo_cases(kind).get(usize::try_from(i).ok()?));
    match case {
        Some(case) => Ok(Attr::hlo_enum(kind, case)),
        None => Err(c.error(format_args!("enum '{kind}' has no case {number}"))),
    }
}

/// The element type of number `code`.
fn element(code: u64) -> Option<ElementType> {
    use ElementType::*;
    Some(match code {
        0 => I1,
        2 => BF16,
        3 => F16,
        4 => F32,
        5 => F64,
        6 => F8E4M3FN,
        7 => F8E5M2,
        9 => Index,
        10 => I4,
        11 => I8,
        12 => I16,
        13 => I32,
        14 => I64,
        15 => UI4,
        16 => UI8,
        17 => UI16,
        18 => UI32,
        19 => UI64,
        27 => F8E4M3FNUZ,
        28 => F8E5M2FNUZ,
        29 => F8E4M3B11FNUZ,
        31 => I2,
        32 => UI2,
        34 => TF32,
        35 => F8E4M3,
        36 => F8E3M4,
        37 => F4E2M1FN,
        38 => F6E2M3FN,
        39 => F6E3M2FN,
        40 => F8E8M0FNU,
        _ => return None,
    })
}
