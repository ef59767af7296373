//! Operations whose pretty form spells numeric attributes in a syntax of its own.

use super::Printer;
use super::structs::push_conv;
use super::write::{push_dims, push_i64, push_list, push_quoted, push_type};
use crate::{Attr, ElementType, Op};

impl<'m> Printer<'m> {
    /// Operands, then lists of numbers: `%0, low = [1], high = [2]`.
    pub(super) fn with_lists(&mut self, op: &'m Op, operands: usize, lists: &[(&str, &str)]) -> Option<()> {
        self.operand_list(op, operands)?;
        self.tail(op, None, |p| {
            p.lists(op, lists)?;
            p.tail_hiding(op, lists, &[]);
            Some(())
        })
    }

    fn lists(&mut self, op: &'m Op, lists: &[(&str, &str)]) -> Option<()> {
        for (label, name) in lists {
            self.out.push_str(", ");
            self.out.push_str(label);
            self.list(op, " = ", name)?;
        }
        Some(())
    }

    fn tail_hiding(&mut self, op: &'m Op, lists: &[(&str, &str)], more: &[&str]) {
        let names = lists.iter().map(|(_, n)| *n).chain(more.iter().copied());
        let hidden: smallvec::SmallVec<[&str; 4]> = names.collect();
        self.tail_functional(op, &hidden);
    }

    /// Operands, an enum, lists: `%0, type = FFT, length = [8]`.
    pub(super) fn with_enum(
        &mut self,
        op: &'m Op,
        operands: usize,
        label: &str,
        name: &str,
        lists: &[(&str, &str)],
    ) -> Option<()> {
        self.operand_list(op, operands)?;
        self.out.push_str(", ");
        self.out.push_str(label);
        self.out.push_str(" = ");
        self.out.push_str(op.enum_value(name)?);
        self.lists(op, lists)?;
        self.tail_hiding(op, lists, &[name]);
        Some(())
    }

    /// Operands, then `dim = 0`.
    pub(super) fn with_dim(&mut self, op: &'m Op, operands: usize, name: &str) -> Option<()> {
        if operands == 0 {
            return None;
        }
        self.operand_list(op, operands)?;
        self.number(op, ", dim = ", name, ElementType::I64)?;
        self.tail_functional(op, &[name]);
        Some(())
    }

    pub(super) fn iota(&mut self, op: &'m Op) -> Option<()> {
        let &[result] = op.results() else { return None };
        self.tail(op, None, |p| {
            p.number(op, " dim = ", "iota_dimension", ElementType::I64)?;
            p.dict(op, &["iota_dimension"]);
            p.out.push_str(" : ");
            p.ty(result);
            Some(())
        })
    }

    pub(super) fn reverse(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 1)?;
        self.list(op, ", dims = ", "dimensions")?;
        self.tail_same(op, &["dimensions"])
    }

    /// Of rank zero, without indices, the pretty form would not read back.
    pub(super) fn dynamic_slice(&mut self, op: &'m Op) -> Option<()> {
        if op.operands().len() < 2 {
            return None;
        }
        self.operand_list(op, op.operands().len())?;
        self.list(op, ", sizes = ", "slice_sizes")?;
        self.tail_functional(op, &["slice_sizes"]);
        Some(())
    }

    /// `%0 [0:4, 1:8:2]`.
    pub(super) fn slice(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 1)?;
        let Attr::I64Array(starts) = op.attr("start_indices")? else { return None };
        let Attr::I64Array(limits) = op.attr("limit_indices")? else { return None };
        let Attr::I64Array(strides) = op.attr("strides")? else { return None };
        if starts.len() != limits.len() || starts.len() != strides.len() {
            return None;
        }
        self.out.push_str(" [");
        push_list(&mut self.out, 0..starts.len(), |out, i| {
            push_i64(out, starts[i]);
            out.push(':');
            push_i64(out, limits[i]);
            if strides[i] != 1 {
                out.push(':');
                push_i64(out, strides[i]);
            }
        });
        self.out.push(']');
        self.tail_functional(op, &["start_indices", "limit_indices", "strides"]);
        Some(())
    }

    /// `LT, %0, %1, SIGNED`.
    pub(super) fn compare(&mut self, op: &'m Op) -> Option<()> {
        self.out.push(' ');
        self.out.push_str(op.enum_value("comparison_direction")?);
        self.out.push(',');
        self.operand_list(op, 2)?;
        self.tail(op, None, |p| {
            if let Some(ty) = op.attr("compare_type") {
                p.out.push_str(", ");
                p.out.push_str(ty.as_enum()?);
            }
            p.tail_functional(op, &["comparison_direction", "compare_type"]);
            Some(())
        })
    }

    /// `%0, format = e5m10`.
    pub(super) fn reduce_precision(&mut self, op: &'m Op) -> Option<()> {
        // Widths below zero are wrong, but the generic form can still say them.
        if op.int("exponent_bits")? < 0 || op.int("mantissa_bits")? < 0 {
            return None;
        }
        self.operand_list(op, 1)?;
        self.number(op, ", format = e", "exponent_bits", ElementType::I32)?;
        self.number(op, "m", "mantissa_bits", ElementType::I32)?;
        self.tail_same(op, &["exponent_bits", "mantissa_bits"])
    }

    pub(super) fn cholesky(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 1)?;
        self.optional(op, Some(("lower", "lower")))?;
        self.tail_same(op, &["lower"])
    }

    pub(super) fn get_tuple_element(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 1)?;
        self.number(op, "[", "index", ElementType::I32)?;
        self.out.push(']');
        self.tail_functional(op, &["index"]);
        Some(())
    }

    pub(super) fn einsum(&mut self, op: &'m Op, operands: usize) -> Option<()> {
        self.operand_list(op, operands)?;
        self.out.push_str(", config = ");
        push_quoted(&mut self.out, op.attr("einsum_config")?.as_str()?);
        self.tail_functional(op, &["einsum_config"]);
        Some(())
    }

    pub(super) fn custom_call(&mut self, op: &'m Op) -> Option<()> {
        self.symbol_operands(op, op.attr("call_target_name")?.as_str()?);
        self.tail_functional(op, &["call_target_name"]);
        Some(())
    }

    pub(super) fn composite(&mut self, op: &'m Op) -> Option<()> {
        if !op.regions().is_empty() {
            return None;
        }
        self.out.push(' ');
        push_quoted(&mut self.out, op.attr("name")?.as_str()?);
        self.operand_list(op, op.operands().len())?;
        self.tail_functional(op, &["name"]);
        Some(())
    }

    /// `(%0, k = 2) : tensor<4xi32> -> (tensor<2xi32>, tensor<2xi32>)`.
    pub(super) fn top_k(&mut self, op: &'m Op) -> Option<()> {
        let (&[operand], &[_, _]) = (op.operands(), op.results()) else { return None };
        self.out.push('(');
        self.value(operand);
        self.number(op, ", k = ", "k", ElementType::I64)?;
        self.optional(op, Some(("is_stable", "is_stable")))?;
        self.out.push(')');
        self.dict(op, &["k", "is_stable"]);
        self.out.push_str(" : ");
        push_type(&mut self.out, self.module.ty(operand));
        self.out.push_str(" -> (");
        self.types(op.results());
        self.out.push(')');
        Some(())
    }

    pub(super) fn dot(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 2)?;
        self.precision(op)?;
        self.tail_functional(op, &["precision_config"]);
        Some(())
    }

    /// `%0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT]`.
    pub(super) fn dot_general(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, 2)?;
        self.tail(op, None, |p| p.dot_general_tail(op))
    }

    fn dot_general_tail(&mut self, op: &'m Op) -> Option<()> {
        let Attr::Dot(dims) = op.attr("dot_dimension_numbers")? else { return None };
        if !(dims.lhs_batch.is_empty() && dims.rhs_batch.is_empty()) {
            self.out.push_str(", batching_dims = ");
            self.pair(&dims.lhs_batch, &dims.rhs_batch);
        }
        self.out.push_str(", contracting_dims = ");
        self.pair(&dims.lhs_contract, &dims.rhs_contract);
        self.precision(op)?;
        if let Some(algorithm) = op.attr("algorithm") {
            let Attr::Opaque(text) = algorithm else { return None };
            self.out.push_str(", algorithm = ");
            self.out.push_str(text.strip_prefix("#stablehlo.dot_algorithm")?);
        }
        self.tail_functional(op, &["dot_dimension_numbers", "precision_config", "algorithm"]);
        Some(())
    }

    fn pair(&mut self, lhs: &[i64], rhs: &[i64]) {
        push_dims(&mut self.out, lhs);
        self.out.push_str(" x ");
        push_dims(&mut self.out, rhs);
    }

    fn precision(&mut self, op: &Op) -> Option<()> {
        let Some(config) = op.attr("precision_config") else { return Some(()) };
        let names: smallvec::SmallVec<[&str; 2]> =
            config.as_array()?.iter().map(Attr::as_enum).collect::<Option<_>>()?;
        self.out.push_str(", precision = [");
        push_list(&mut self.out, names, |out, name| out.push_str(name));
        self.out.push(']');
        Some(())
    }

    /// `(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[0, 1]]}`.
    pub(super) fn convolution(&mut self, op: &'m Op) -> Option<()> {
        let (Attr::Conv(dims), &[_, _]) = (op.attr("dimension_numbers")?, op.operands()) else { return None };
        self.out.push('(');
        self.operands(op.operands());
        self.out.push_str(") dim_numbers = ");
        push_conv(&mut self.out, dims)?;
        self.out.push_str(", window = {");
        let window = [
            ("stride", "window_strides"),
            ("pad", "padding"),
            ("lhs_dilate", "lhs_dilation"),
            ("rhs_dilate", "rhs_dilation"),
            ("reverse", "window_reversal"),
        ];
        let mut any = false;
        for (label, name) in window {
            let Some(attr) = op.attr(name) else { continue };
            if std::mem::replace(&mut any, true) {
                self.out.push_str(", ");
            }
            self.out.push_str(label);
            self.out.push_str(" = [");
            match (attr, label) {
                (Attr::Dense(d), "pad") if d.ty.dims.get(1..) == Some(&[2]) => {
                    let pads = d.to_i64s()?;
                    push_list(&mut self.out, pads.chunks(2), push_dims);
                }
                (Attr::I64Array(values), "stride" | "lhs_dilate" | "rhs_dilate") => {
                    push_list(&mut self.out, values.iter(), |out, &v| push_i64(out, v));
                }
                (Attr::BoolArray(values), "reverse") => {
                    push_list(&mut self.out, values.iter(), |out, &b| out.push_str(if b { "true" } else { "false" }));
                }
                _ => return None,
            }
            self.out.push(']');
        }
        self.out.push('}');
        self.tail_hiding(op, &window, &["dimension_numbers"]);
        Some(())
    }
}
