//! Tokens at the border of a function: calls from outside are in order already, so none has to come in or go out.

use crate::op::TokenOp;
use crate::{Attr, Module, OpId, OpSpec, Type};

const ALIAS: &str = "tf.aliasing_output";

/// Whether `func` takes or returns a token.
pub fn has_border_tokens(module: &Module, func: OpId) -> bool {
    let ty = module.func_type(func);
    ty.inputs.iter().chain(&ty.results).any(|ty| *ty == Type::Token)
}

/// Makes the tokens that `func` takes at its start, and lets it return none.
pub fn drop_border_tokens(module: &mut Module, func: OpId) {
    let Some(body) = module.body_of(func, 0) else { return };
    let ty = module.func_type(func);
    let kept = |types: &[Type]| (0..types.len()).filter(|&i| types[i] != Type::Token).collect::<Vec<_>>();
    let (inputs, results) = (kept(&ty.inputs), kept(&ty.results));
    for i in (0..ty.inputs.len()).rev().filter(|i| !inputs.contains(i)) {
        let made = module.create(OpSpec::new(TokenOp::CreateToken).results([Type::Token]));
        module.prepend(body, made);
        let (arg, token) = (module.block(body).args()[i], module.result(made));
        module.replace_all_uses(arg, token);
        module.remove_block_arg(body, i);
    }
    if let Some(end) = module.terminator(body) {
        let returned = module.returned(body).to_vec();
        module.set_operands(end, results.iter().map(|&i| returned[i]));
    }
    for (name, kept) in [("arg_attrs", &inputs), ("res_attrs", &results)] {
        if let Some(Attr::Array(list)) = module.op(func).attr(name) {
            let list = kept.iter().filter_map(|&i| list.get(i).cloned()).collect();
            module.op_mut(func).attrs.set(name, Attr::Array(list));
        }
    }
    module.edit_func_type(func, |ty| {
        ty.inputs.retain(|ty| *ty != Type::Token);
        ty.results.retain(|ty| *ty != Type::Token);
    });
    // An argument names the result that takes its memory by number.
    for i in 0..inputs.len() {
        if let Some(&Attr::Int(old, ty)) = module.arg_attr(func, i, ALIAS) {
            let new = results.iter().position(|&r| r as i64 == old).map(|new| Attr::Int(new as i64, ty));
            module.set_arg_attr(func, i, ALIAS, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;
    use crate::verify::verify;

    #[test]
    fn attributes_stay_with_their_values() {
        let source = "func.func @main(%t: !stablehlo.token {a}, %x: tensor<f32> {b, tf.aliasing_output = 1 : i32}, %u: !stablehlo.token)\n\
            -> (!stablehlo.token {d}, tensor<f32> {c}) {\n\
            %0 = stablehlo.after_all %t, %u : !stablehlo.token\n\
            return %0, %x : !stablehlo.token, tensor<f32>\n}\n";
        let mut module = text::parse(source).unwrap();
        let main = module.func("main").unwrap();
        assert!(has_border_tokens(&module, main));
        drop_border_tokens(&mut module, main);
        assert!(!has_border_tokens(&module, main));
        assert_eq!(verify(&module), []);
        let printed = text::print(&module);
        assert!(
            printed.contains("@main(%arg0: tensor<f32> {b, tf.aliasing_output = 0 : i32}) -> (tensor<f32> {c})"),
            "{printed}"
        );
        assert!(printed.matches("create_token").count() == 2, "{printed}");
    }
}
