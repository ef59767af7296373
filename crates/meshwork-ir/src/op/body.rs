//! Operations that apply a body to elements.

op_class! {
    /// Reductions, windows, scatters and sorts.
    Body BodyOp
    Map "stablehlo.map" [Pure] {"dimensions"}: Generic;
    Reduce "stablehlo.reduce" [Pure] {"dimensions"}: Own(Reduce);
    ReduceWindow "stablehlo.reduce_window" [Pure]
        {"window_dimensions" "window_strides" "base_dilations" "window_dilations" "padding"}: Generic;
    Scatter "stablehlo.scatter" [Pure] {"scatter_dimension_numbers" "indices_are_sorted" "unique_indices"}: Generic;
    SelectAndScatter "stablehlo.select_and_scatter" [Pure] {"window_dimensions" "window_strides" "padding"}: Generic;
    Sort "stablehlo.sort" [Pure] {"dimension" "is_stable"}: Generic;
}
