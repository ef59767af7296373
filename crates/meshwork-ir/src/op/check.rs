//! Test support of StableHLO's own suites.

use crate::ElementType;

op_class! {
    /// Checks and probes of the reference interpreter.
    Check CheckOp
    ExpectAlmostEq "check.expect_almost_eq" [] {"tolerance"}: Effect(Exactly(2), TOLERANCE);
    ExpectAlmostEqConst "check.expect_almost_eq_const" [] {"value" "tolerance"}: Against(TOLERANCE);
    ExpectClose "check.expect_close" [] {"max_ulp_difference" "min_ulp_difference"}: Own(ExpectClose);
    ExpectEq "check.expect_eq" [] {}: Effect(Exactly(2), &[]);
    ExpectEqConst "check.expect_eq_const" [] {"value"}: Against(&[]);
    ExpectSerializedEq "check.expect_serialized_eq" [] {"probe_id" "iteration"}: Effect(Exactly(1), &[
            key("probe_id", "probe_id", Str),
            optional("iter", "iteration", Number(ElementType::UI32)),
        ]);
    Print "interpreter.print" [] {}: Effect(Exactly(1), &[]);
    Probe "interpreter.probe" [Pure] {"probe_id"}: Same(Exactly(1), &[key("probe_id", "probe_id", Str)]);
    RunParallel "interpreter.run_parallel" [] {"infeed" "programs"}: Generic;
}
