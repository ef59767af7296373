//! A bounded run of the differential fuzzer.

use meshwork_testing::fuzz::{Engines, try_case};

#[test]
fn random_programs_give_the_same_however_they_are_placed() {
    let findings: Vec<String> = (0..1000)
        .filter_map(|seed| try_case(seed, &[], Engines::Evaluator))
        .map(|f| format!("seed {}: {:?}\n{}", f.seed, f.verdict, f.program))
        .collect();
    assert!(findings.is_empty(), "{} of 1000 cases fail, among them\n{}", findings.len(), findings[0]);
}
