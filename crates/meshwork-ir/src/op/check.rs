//! Test support of StableHLO's own suites.

op_class! {
    /// Checks and probes of the reference interpreter.
    Check CheckOp
    ExpectAlmostEq "check.expect_almost_eq" [] {"tolerance"}
    ExpectAlmostEqConst "check.expect_almost_eq_const" [] {"value" "tolerance"}
    ExpectClose "check.expect_close" [] {"max_ulp_difference" "min_ulp_difference"}
    ExpectEq "check.expect_eq" [] {}
    ExpectEqConst "check.expect_eq_const" [] {"value"}
    ExpectSerializedEq "check.expect_serialized_eq" [] {"probe_id" "iteration"}
    Print "interpreter.print" [] {}
    Probe "interpreter.probe" [Pure] {"probe_id"}
    RunParallel "interpreter.run_parallel" [] {"infeed" "programs"}
}
