//! Operations that apply a body to elements.

op_class! {
    /// Reductions, windows, scatters and sorts.
    Body BodyOp
    Map "stablehlo.map" [Pure] {"dimensions"}
    Reduce "stablehlo.reduce" [Pure] {"dimensions"}
    ReduceWindow "stablehlo.reduce_window" [Pure]
        {"window_dimensions" "window_strides" "base_dilations" "window_dilations" "padding"}
    Scatter "stablehlo.scatter" [Pure] {"scatter_dimension_numbers" "indices_are_sorted" "unique_indices"}
    SelectAndScatter "stablehlo.select_and_scatter" [Pure] {"window_dimensions" "window_strides" "padding"}
    Sort "stablehlo.sort" [Pure] {"dimension" "is_stable"}
}
