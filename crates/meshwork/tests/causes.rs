//! Plans, explanations and contract errors name the annotation that causes a collective.

use meshwork::prelude::*;

fn sums() -> meshwork::Jit<impl Fn(Tensor, Tensor) -> Tensor, (Tensor, Tensor)> {
    let mesh = Mesh::linear("x", 4).unwrap();
    jit(|a: Tensor, b: Tensor| a.matmul(&b)).on(&mesh).in_shardings([P![_, "x"], P!["x"]])
}

fn shapes() -> (Array, Array) {
    (Array::shape_only([64, 128], F32), Array::shape_only([128, 64], F32))
}

#[test]
fn a_plan_names_the_annotation_of_each_collective() {
    let (a, b) = shapes();
    let plan = sums().plan((&a, &b)).unwrap();
    assert_eq!(plan.collectives.len(), 1);
    let annotation = plan.collectives[0].causes[0].annotation.as_ref().map(ToString::to_string);
    let annotation = annotation.expect("both arguments are annotated");
    assert!(annotation.contains("argument"), "{annotation}");
}

#[test]
fn explain_lists_what_each_annotation_costs() {
    let (a, b) = shapes();
    let table = sums().explain((&a, &b)).unwrap();
    assert!(table.contains("argument 0") || table.contains("argument 1"), "{table}");
    assert!(!table.contains("none found"), "{table}");
}

#[test]
fn a_contract_error_names_the_annotation_to_change() {
    let (a, b) = shapes();
    let nothing = Contract { allowed: Some(vec![]), ..Contract::default() };
    let error = sums().contract(nothing).plan((&a, &b)).unwrap_err().to_string();
    assert!(error.contains("annotation to change: argument "), "{error}");
    assert!(!error.contains("none found"), "{error}");
}

#[test]
fn a_program_with_a_contract_is_compiled_once_and_runs() {
    let permutes = Contract { allowed: Some(vec!["all-reduce".into()]), ..Contract::default() };
    let f = sums().contract(permutes);
    let (a, b) = (Array::full([4, 8], 1.0f32), Array::full([8, 4], 2.0f32));
    assert_eq!(f.call((&a, &b)).unwrap().to_vec::<f32>().unwrap(), [16.0; 16]);
    let lowered = f.lower((&a, &b)).unwrap();
    assert!(lowered.compiled().unwrap().provenance.is_some(), "the program that was checked is the one that runs");
}
