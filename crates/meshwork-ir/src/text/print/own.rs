//! The syntaxes that belong to one or two operations.

use super::Printer;
use super::attr::push_attr;
use super::pretty::KeyStyle;
use super::sdy::push_stripped;
use super::structs::push_conv;
use super::write::{push_dims, push_display, push_int, push_list, push_quoted, push_symbol};
use crate::op::ChloOp;
use crate::op::form::{Count, Syntax, TOP_K, ULPS};
use crate::{Attr, ElementType, Op, OpKind, Type};

impl<'m> Printer<'m> {
    /// What follows the name of an operation with a syntax of its own.
    pub(super) fn own(&mut self, syntax: Syntax, op: &'m Op) -> Option<()> {
        match syntax {
            // These write their names themselves.
            Syntax::Module | Syntax::Func => None,
            Syntax::Call => self.call(op),
            Syntax::Return => self.return_values(op),
            Syntax::HloReturn => self.hlo_return(op),
            Syntax::Complex => self.complex(op),
            Syntax::Compare => self.compare(op),
            Syntax::Select => self.select(op),
            Syntax::Constant => self.constant(op),
            Syntax::Slice => self.slice(op),
            Syntax::Dot => self.dot(op),
            Syntax::DotGeneral => self.dot_general(op),
            Syntax::Convolution => self.convolution(op),
            Syntax::Reduce => self.reduce(op),
            Syntax::While => self.while_loop(op),
            Syntax::Composite => self.composite(op),
            Syntax::CustomCall => self.custom_call(op),
            Syntax::GetTupleElement => self.get_tuple_element(op),
            Syntax::OptimizationBarrier => self.optimization_barrier(op),
            Syntax::Tuple => self.tuple(op),
            Syntax::TopK => self.top_k(op),
            Syntax::Scan => self.scan(op),
            Syntax::Mesh => self.mesh(op),
            Syntax::Reshard => self.reshard(op),
            Syntax::ManualComputation => self.manual_computation(op),
            Syntax::NamedComputation => self.named_computation(op),
            Syntax::ExpectClose => self.expect_close(op),
        }
    }

    /// ` @f(%0, %1) : (types) -> types`.
    fn call(&mut self, op: &'m Op) -> Option<()> {
        self.symbol_operands(op, op.attr("callee")?.as_symbol()?);
        self.tail_functional(op, &["callee"]);
        Some(())
    }

    fn custom_call(&mut self, op: &'m Op) -> Option<()> {
        self.symbol_operands(op, op.attr("call_target_name")?.as_str()?);
        self.tail_functional(op, &["call_target_name"]);
        Some(())
    }

    fn symbol_operands(&mut self, op: &'m Op, symbol: &str) {
        self.out.push(' ');
        push_symbol(&mut self.out, symbol);
        self.out.push('(');
        self.operands(op.operands());
        self.out.push(')');
    }

    fn return_values(&mut self, op: &'m Op) -> Option<()> {
        self.dict(op, &[]);
        if !op.operands().is_empty() {
            self.out.push(' ');
            self.operands(op.operands());
            self.colon_types(op);
        }
        Some(())
    }

    fn hlo_return(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::AtLeast(0))?;
        self.dict(op, &[]);
        if !op.operands().is_empty() {
            self.colon_types(op);
        }
        Some(())
    }

    /// ` : operand types`.
    fn colon_types(&mut self, op: &'m Op) {
        self.out.push_str(" : ");
        self.types(op.operands());
    }

    fn constant(&mut self, op: &'m Op) -> Option<()> {
        let (value, &[result]) = (op.attr("value")?, op.results()) else { return None };
        let same = match (value, self.module.ty(result)) {
            (Attr::Dense(d), Type::Tensor(t)) => d.ty == *t,
            // The text of an attribute that is not interpreted ends with its type.
            (Attr::Opaque(text), ty) => text.ends_with(&ty.to_string()),
            _ => false,
        };
        if same {
            self.dict(op, &["value"]);
            self.out.push(' ');
            push_attr(&mut self.out, value);
        } else if op.kind() == OpKind::Chlo(ChloOp::Constant) {
            return None;
        } else {
            self.generic_tail(op);
        }
        Some(())
    }

    fn complex(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(2))?;
        let &[result] = op.results() else { return None };
        let real = self.module.ty(result).as_tensor().map(|t| Type::from(t.with_elem(t.elem.real_part())));
        if op.operands().iter().all(|&v| Some(self.module.ty(v)) == real.as_ref()) {
            self.dict(op, &[]);
            self.out.push_str(" : ");
            self.ty(result);
        } else {
            self.tail_functional(op, &[]);
        }
        Some(())
    }

    /// ` LT, %0, %1, SIGNED`.
    fn compare(&mut self, op: &'m Op) -> Option<()> {
        self.out.push(' ');
        self.out.push_str(op.enum_value("comparison_direction")?);
        self.out.push(',');
        self.operand_list(op, Count::Exactly(2))?;
        if let Some(ty) = op.attr("compare_type") {
            self.out.push_str(", ");
            self.out.push_str(ty.as_enum()?);
        }
        self.tail_functional(op, &["comparison_direction", "compare_type"]);
        Some(())
    }

    fn select(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(3))?;
        let &[result] = op.results() else { return None };
        if self.all_of_type(&op.operands()[1..], result) {
            self.dict(op, &[]);
            self.out.push_str(" : ");
            self.types(&[op.operands()[0], result]);
        } else {
            self.tail_functional(op, &[]);
        }
        Some(())
    }

    /// ` %0 [0:4, 1:8:2]`.
    fn slice(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(1))?;
        let Attr::I64Array(starts) = op.attr("start_indices")? else { return None };
        let Attr::I64Array(limits) = op.attr("limit_indices")? else { return None };
        let Attr::I64Array(strides) = op.attr("strides")? else { return None };
        if starts.len() != limits.len() || starts.len() != strides.len() {
            return None;
        }
        self.out.push_str(" [");
        push_list(&mut self.out, 0..starts.len(), |out, i| {
            push_int(out, starts[i]);
            out.push(':');
            push_int(out, limits[i]);
            if strides[i] != 1 {
                out.push(':');
                push_int(out, strides[i]);
            }
        });
        self.out.push(']');
        self.tail_functional(op, &["start_indices", "limit_indices", "strides"]);
        Some(())
    }

    fn dot(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(2))?;
        self.precision(op)?;
        self.tail_functional(op, &["precision_config"]);
        Some(())
    }

    /// ` %0, %1, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT]`.
    fn dot_general(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(2))?;
        let Attr::Dot(dims) = op.attr("dot_dimension_numbers")? else { return None };
        if !(dims.lhs_batch.is_empty() && dims.rhs_batch.is_empty()) {
            self.pair(", batching_dims = ", &dims.lhs_batch, &dims.rhs_batch);
        }
        self.pair(", contracting_dims = ", &dims.lhs_contract, &dims.rhs_contract);
        // Most products have no other attribute.
        if op.attrs.len() == 1 {
            self.out.push_str(" : ");
            self.functional_type(op);
            return Some(());
        }
        self.precision(op)?;
        if let Some(algorithm) = op.attr("algorithm") {
            let Attr::Opaque(text) = algorithm else { return None };
            self.out.push_str(", algorithm = ");
            self.out.push_str(text.strip_prefix("#stablehlo.dot_algorithm")?);
        }
        self.tail_functional(op, &["dot_dimension_numbers", "precision_config", "algorithm"]);
        Some(())
    }

    fn pair(&mut self, label: &str, lhs: &[i64], rhs: &[i64]) {
        self.out.push_str(label);
        push_dims(&mut self.out, lhs);
        self.out.push_str(" x ");
        push_dims(&mut self.out, rhs);
    }

    fn precision(&mut self, op: &Op) -> Option<()> {
        let Some(config) = op.attr("precision_config") else { return Some(()) };
        self.out.push_str(", precision = [");
        for (i, precision) in config.as_array()?.iter().enumerate() {
            self.out.push_str(if i > 0 { ", " } else { "" });
            self.out.push_str(precision.as_enum()?);
        }
        self.out.push(']');
        Some(())
    }

    /// `(%0, %1) dim_numbers = [b, 0, f]x[0, i, o]->[b, 0, f], window = {stride = [2], pad = [[0, 1]]}`.
    fn convolution(&mut self, op: &'m Op) -> Option<()> {
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
        let given = window.iter().filter_map(|&(label, name)| Some((label, op.attr(name)?)));
        for (i, (label, attr)) in given.enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            push_display(&mut self.out, format_args!("{comma}{label} = ["));
            match (attr, label) {
                (Attr::Dense(d), "pad") if d.ty.dims.get(1..) == Some(&[2]) => {
                    push_list(&mut self.out, d.to_i64s()?.chunks(2), push_dims);
                }
                (Attr::I64Array(values), "stride" | "lhs_dilate" | "rhs_dilate") => {
                    push_list(&mut self.out, values.iter(), |out, &v| push_int(out, v));
                }
                (Attr::BoolArray(values), "reverse") => push_list(&mut self.out, values.iter(), push_display),
                _ => return None,
            }
            self.out.push(']');
        }
        self.out.push('}');
        let hidden: Vec<&str> = window.iter().map(|&(_, name)| name).chain(["dimension_numbers"]).collect();
        self.tail_functional(op, &hidden);
        Some(())
    }

    fn composite(&mut self, op: &'m Op) -> Option<()> {
        if !op.regions().is_empty() {
            return None;
        }
        self.out.push(' ');
        push_quoted(&mut self.out, op.attr("name")?.as_str()?);
        self.operand_list(op, Count::AtLeast(0))?;
        self.tail_functional(op, &["name"]);
        Some(())
    }

    /// ` %0[1] : (tuple<...>) -> type`.
    fn get_tuple_element(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(1))?;
        let Attr::Int(index, ElementType::I32) = op.attr("index")? else { return None };
        push_display(&mut self.out, format_args!("[{index}]"));
        self.tail_functional(op, &["index"]);
        Some(())
    }

    fn optimization_barrier(&mut self, op: &'m Op) -> Option<()> {
        if !self.same_types(op.operands(), op.results()) {
            return None;
        }
        self.dict(op, &[]);
        if op.operands().is_empty() {
            self.out.push_str("()");
            return Some(());
        }
        self.out.push(' ');
        self.operands(op.operands());
        self.colon_types(op);
        Some(())
    }

    fn tuple(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::AtLeast(0))?;
        let &[result] = op.results() else { return None };
        let Type::Tuple(parts) = self.module.ty(result) else { return None };
        if !op.operands().iter().map(|&v| self.module.ty(v)).eq(parts.iter()) {
            return None;
        }
        self.dict(op, &[]);
        self.out.push_str(" : ");
        self.ty(result);
        Some(())
    }

    /// `(%0, k = 2) : tensor<4xi32> -> (tensor<2xi32>, tensor<2xi32>)`.
    fn top_k(&mut self, op: &'m Op) -> Option<()> {
        let (&[operand], &[_, _]) = (op.operands(), op.results()) else { return None };
        self.out.push('(');
        self.value(operand);
        self.keys(op, TOP_K, KeyStyle::Comma)?;
        self.out.push(')');
        self.dict(op, &["k", "is_stable"]);
        self.colon_types(op);
        self.out.push_str(" -> (");
        self.types(op.results());
        self.out.push(')');
        Some(())
    }

    /// ` @name = <["x"=2]>`.
    fn mesh(&mut self, op: &'m Op) -> Option<()> {
        let mesh @ Attr::Mesh(_) = op.attr("mesh")? else { return None };
        self.out.push(' ');
        push_symbol(&mut self.out, op.attr("sym_name")?.as_str()?);
        self.out.push_str(" = ");
        push_stripped(&mut self.out, mesh);
        self.dict(op, &["sym_name", "mesh"]);
        Some(())
    }

    /// ` %0 <@mesh, [{"x"}]> : type`.
    fn reshard(&mut self, op: &'m Op) -> Option<()> {
        let sharding @ Attr::Sharding(_) = op.attr("sharding")? else { return None };
        self.operand_list(op, Count::Exactly(1))?;
        self.out.push(' ');
        push_stripped(&mut self.out, sharding);
        self.tail_one_type(op, &[], &["sharding"])
    }

    /// ` %0, %1, max_ulp_difference = 3 : {attrs} type, type`.
    fn expect_close(&mut self, op: &'m Op) -> Option<()> {
        self.operand_list(op, Count::Exactly(2))?;
        self.keys(op, ULPS, KeyStyle::Comma)?;
        self.out.push_str(" :");
        self.dict(op, &["max_ulp_difference", "min_ulp_difference"]);
        self.out.push(' ');
        self.types(op.operands());
        Some(())
    }
}
