//! Structure, control flow, and values that are not tensors.

op_class! {
    /// Functions, calls, branches and loops.
    Control ControlOp
    Module "builtin.module" [Symbol] {"sym_name" "sym_visibility"}
    Func "func.func" [Symbol] {"sym_name" "function_type" "sym_visibility" "arg_attrs" "res_attrs" "no_inline"}
    Call "func.call" [] {"callee" "arg_attrs" "res_attrs" "no_inline"}
    FuncReturn "func.return" [Terminator] {}
    Case "stablehlo.case" [] {}
    If "stablehlo.if" [] {}
    While "stablehlo.while" [] {}
    HloReturn "stablehlo.return" [Terminator] {}
    AsyncDone "stablehlo.async_done" [] {}
    AsyncStart "stablehlo.async_start" [] {}
    Composite "stablehlo.composite" [] {"name" "composite_attributes" "decomposition" "version"}
    CustomCall "stablehlo.custom_call" []
        {"call_target_name" "has_side_effect" "backend_config" "api_version" "called_computations" "operand_layouts"
         "result_layouts" "output_operand_aliases" "result_tilings"}
    OptimizationBarrier "stablehlo.optimization_barrier" [Pure] {}
}

op_class! {
    /// Tokens, tuples, and the transfers that tokens order.
    Token TokenOp
    AfterAll "stablehlo.after_all" [Pure] {}
    CreateToken "stablehlo.create_token" [Pure] {}
    GetTupleElement "stablehlo.get_tuple_element" [Pure] {"index"}
    Infeed "stablehlo.infeed" [] {"infeed_config" "layout"}
    Outfeed "stablehlo.outfeed" [] {"outfeed_config"}
    Recv "stablehlo.recv" [] {"channel_handle" "is_host_transfer" "source_target_pairs"}
    Send "stablehlo.send" [] {"channel_handle" "is_host_transfer" "source_target_pairs"}
    Tuple "stablehlo.tuple" [Pure] {}
}
