//! Structure, control flow, and values that are not tensors.

op_class! {
    /// Functions, calls, branches and loops.
    Control ControlOp
    Module "builtin.module" [Symbol Isolated] {"sym_name" "sym_visibility"}: Own(Module);
    Func "func.func" [Symbol Isolated] {"sym_name" "function_type" "sym_visibility" "arg_attrs" "res_attrs" "no_inline"}:
        Own(Func);
    Call "func.call" [] {"callee" "arg_attrs" "res_attrs" "no_inline"}: Own(Call);
    FuncReturn "func.return" [Terminator] {}: Own(Return);
    Case "stablehlo.case" [] {}: Generic;
    If "stablehlo.if" [] {}: Generic;
    While "stablehlo.while" [] {}: Own(While);
    HloReturn "stablehlo.return" [Terminator] {}: Own(HloReturn);
    AsyncDone "stablehlo.async_done" [] {}: Generic;
    AsyncStart "stablehlo.async_start" [Isolated] {}: Generic;
    Composite "stablehlo.composite" [] {"name" "composite_attributes" "decomposition" "version"}: Own(Composite);
    CustomCall "stablehlo.custom_call" []
        {"call_target_name" "has_side_effect" "backend_config" "api_version" "called_computations" "operand_layouts"
         "result_layouts" "output_operand_aliases" "result_tilings"}: Own(CustomCall);
    OptimizationBarrier "stablehlo.optimization_barrier" [Pure] {}: Own(OptimizationBarrier);
}

op_class! {
    /// Tokens, tuples, and the transfers that tokens order.
    Token TokenOp
    AfterAll "stablehlo.after_all" [Pure] {}: Same(AtLeast(0), &[]);
    CreateToken "stablehlo.create_token" [Pure] {}: Source(&[]);
    GetTupleElement "stablehlo.get_tuple_element" [Pure] {"index"}: Own(GetTupleElement);
    Infeed "stablehlo.infeed" [] {"infeed_config" "layout"}: Generic;
    Outfeed "stablehlo.outfeed" [] {"outfeed_config"}: Generic;
    Recv "stablehlo.recv" [] {"channel_handle" "is_host_transfer" "source_target_pairs"}: Generic;
    Send "stablehlo.send" [] {"channel_handle" "is_host_transfer" "source_target_pairs"}: Generic;
    Tuple "stablehlo.tuple" [Pure] {}: Own(Tuple);
}
