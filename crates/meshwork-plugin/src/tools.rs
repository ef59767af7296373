//! What the Python package calls besides PJRT: plans and texts of programs, for functions of any backend.
//!
//! One function takes the name of a tool, a program (text or bytecode) and options as JSON, and gives text back.

use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

use meshwork_eval::{is_symbolic, refine};
use meshwork_explore::{Against, Page, Program, Run};
use meshwork_ir::text::PrintOptions;
use meshwork_ir::{Module, Type, ValueId, text};
use meshwork_mesh::Mesh;
use meshwork_partition::plan::{Detail, Explainer, json, short_type, table};
use meshwork_partition::{Causes, CompileOptions, Compiled, Contract, Lock, Machine, Plan};
use meshwork_planner::{Constraint, Planner, PlannerError};
use serde_json::Value;

use crate::border::{bytes, leak};
use crate::failure::{Failure, Outcome};
use crate::program::{compile_even, read};

/// The answer of a tool: text, or what is wrong.
#[repr(C)]
pub struct Answer {
    /// 0 for an answer, 1 for a broken contract or lock file, 2 for an error.
    pub status: i32,
    /// UTF-8, to be freed with [`meshwork_free`].
    pub text: *const c_char,
    /// How many bytes.
    pub size: usize,
    owner: *mut std::ffi::c_void,
}

/// Runs the tool `name` on a program.
///
/// # Safety
///
/// Each pointer is to as many bytes as the size beside it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshwork_tool(
    name: *const c_char,
    name_size: usize,
    program: *const c_char,
    program_size: usize,
    options: *const c_char,
    options_size: usize,
) -> Answer {
    let answer = catch_unwind(AssertUnwindSafe(|| {
        let name = String::from_utf8_lossy(bytes(name, name_size));
        let options: Value = serde_json::from_slice(bytes(options, options_size))
            .map_err(|e| Failure::invalid(format!("options of {name}: {e}")))?;
        tool(&name, bytes(program, program_size), &options)
    }));
    let (status, text) = match answer.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic))) {
        Ok(Answered::Text(text)) => (0, text),
        Ok(Answered::Broken(text)) => (1, text),
        Err(failure) => (2, failure.message),
    };
    let (text, size, owner) = leak(text.into_bytes());
    Answer { status, text, size, owner }
}

/// Frees an answer.
///
/// # Safety
///
/// It is one of [`meshwork_tool`], and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn meshwork_free(answer: Answer) {
    // SAFETY: `leak` made it.
    unsafe { crate::border::free_bytes(answer.owner) };
}

enum Answered {
    Text(String),
    Broken(String),
}

fn tool(name: &str, program: &[u8], options: &Value) -> Outcome<Answered> {
    let written = given_shapes(read(program)?, &options["shapes"])?;
    if name == "text" {
        let options =
            PrintOptions { locations: options["locations"].as_bool().unwrap_or(false), ..PrintOptions::default() };
        return Ok(Answered::Text(text::print_with(&written, &options)));
    }
    if name == "search" {
        return search(&written, options);
    }
    let (written, text) = if name == "explore" { shown(written, program) } else { (written, String::new()) };
    let causes = if name == "partition" { Causes::Operations } else { Causes::Annotations };
    let compiled = compile_even(&written, &CompileOptions { causes, ..CompileOptions::default() })?;
    let machine = CompileOptions::default().machine;
    if name == "explore" {
        return explore(Program::new(written, text, compiled, machine), options);
    }
    let plan = &compiled.plan;
    let answer = match name {
        "explain" => {
            let detail = if options["all"].as_bool().unwrap_or(false) { Detail::Full } else { Detail::Short };
            table(&compiled, &machine, detail)
        }
        "plan" => json(&compiled, &machine),
        "partition" => text::print(&compiled.module),
        "why" => why(&written, &compiled, options["value"].as_str().unwrap_or("result0"), &options["dim"])?,
        "lock" => Lock::of(plan).to_string(),
        "check" => return check(plan, options),
        "html" => plan.html(&table(&compiled, &machine, Detail::Short)),
        _ => return Err(Failure::invalid(format!("there is no tool {name:?}"))),
    };
    Ok(Answered::Text(answer))
}

/// Searches for placements: what was found as data and as text, and how many arguments and results there are.
fn search(program: &Module, options: &Value) -> Outcome<Answered> {
    let invalid = |e: &dyn std::fmt::Display| Failure::invalid(e.to_string());
    let machine = match options["machine"].as_str() {
        None => Machine::default(),
        Some(text) => match Machine::named(text) {
            Some(machine) => machine,
            None => text.parse().map_err(|e: String| invalid(&e))?,
        },
    };
    let mut planner = Planner::new(program, &machine);
    if let Some(axes) = options["mesh"].as_array() {
        let axes = axes.iter().map(|a| (a[0].as_str().unwrap_or_default().to_string(), a[1].as_i64().unwrap_or(0)));
        planner = planner.mesh(Mesh::new(axes).map_err(|e| invalid(&e))?);
    }
    if let Some(devices) = options["devices"].as_i64() {
        planner = planner.devices(devices);
    }
    if let Some(bytes) = options["memory"].as_f64() {
        planner = planner.memory(bytes as i64);
    }
    let pairs = |name: &str| options[name].as_array().cloned().unwrap_or_default();
    for pair in pairs("fix") {
        let spec = Constraint::spec(pair[1].as_str().unwrap_or_default()).map_err(|e| invalid(&e))?;
        planner = planner.fix(pair[0].as_str().unwrap_or_default(), spec);
    }
    for pair in pairs("forbid") {
        planner = planner.forbid(pair[0].as_str().unwrap_or_default(), pair[1].as_str().unwrap_or_default());
    }
    if options["even_only"].as_bool().unwrap_or(false) {
        planner = planner.even_only();
    }
    if options["fresh"].as_bool().unwrap_or(false) {
        planner = planner.fresh();
    }
    planner = match options["evaluations"].as_u64() {
        Some(most) => planner.evaluations(most as usize),
        None => planner.seconds(options["seconds"].as_f64().unwrap_or(60.0)),
    };
    let found = match planner.search() {
        Ok(found) => found,
        Err(error @ PlannerError::Infeasible { .. }) => return Ok(Answered::Broken(error.to_string())),
        Err(error) => return Err(invalid(&error)),
    };
    let ty = program.entry().map(|func| program.func_type(func)).unwrap_or_default();
    let answer = serde_json::json!({
        "found": found.json(),
        "text": found.text(),
        "arguments": ty.inputs.len(),
        "results": ty.results.len(),
    });
    Ok(Answered::Text(answer.to_string()))
}

/// The program with the text that a page shows of it: what was given, or else what is printed for bytecode.
fn shown(written: Module, given: &[u8]) -> (Module, String) {
    let has_lines = written.op_ids().any(|op| written.op(op).pos.line > 0);
    match std::str::from_utf8(given) {
        Ok(text) if has_lines => (written, text.to_string()),
        _ => Program::numbered(written),
    }
}

/// The page of a program.
fn explore(program: Program, options: &Value) -> Outcome<Answered> {
    let mut page = Page::new(options["title"].as_str().unwrap_or("program"), &program);
    if let Some(lock) = options["lock"].as_str() {
        let recorded = Lock::parse(lock).map_err(|e| Failure::invalid(e.to_string()))?;
        page = page.against(options["lock_name"].as_str().unwrap_or("lock file"), &program, &Against::Lock(recorded));
    }
    if let Some(trace) = options["profile"].as_str() {
        page = page.with_run(&Run::parse(trace).map_err(|e| Failure::invalid(e.to_string()))?);
    }
    if let Some(bytes) = options["budget"].as_u64() {
        page = page.budget(bytes);
    }
    Ok(Answered::Text(page.html()))
}

/// The program for arguments of these extents, if it leaves any open.
fn given_shapes(module: Module, shapes: &Value) -> Outcome<Module> {
    let (Some(entry), Some(shapes)) = (module.entry(), shapes.as_array()) else { return Ok(module) };
    if !is_symbolic(&module, entry) {
        return Ok(module);
    }
    let inputs = module.func_type(entry).inputs.into_iter().filter_map(|ty| ty.elem());
    let dims = |shape: &Value| shape.as_array().into_iter().flatten().filter_map(Value::as_i64).collect::<Vec<_>>();
    let types: Vec<Type> = inputs.zip(shapes).map(|(elem, shape)| Type::tensor(dims(shape), elem)).collect();
    refine(&module, entry, &types).map_err(|e| Failure::invalid(e.to_string()))
}

fn why(written: &Module, compiled: &Compiled, name: &str, dim: &Value) -> Outcome<String> {
    let provenance = compiled.provenance.as_ref().ok_or_else(|| Failure::internal("the plan has no history"))?;
    let module = &provenance.module;
    let value = find(module, name)?;
    let dim = dim.as_u64().map(|d| d as usize);
    let explainer = Explainer { written, provenance };
    if let Some(d) = dim.filter(|&d| d >= module.ty(value).dims().len()) {
        let (name, ty) = (explainer.name(value), short_type(module.ty(value)));
        return Err(Failure::invalid(format!("{name} is {ty}: it has no dimension {d}")));
    }
    Ok(explainer.explain(value, dim))
}

/// The value called `argN` or `resultN`.
fn find(module: &Module, name: &str) -> Outcome<ValueId> {
    let body = module.entry().and_then(|func| module.body_of(func, 0));
    let body = body.ok_or_else(|| Failure::invalid("the program has no entry function"))?;
    let (list, digits) = if let Some(digits) = name.trim_start_matches('%').strip_prefix("arg") {
        (module.block(body).args(), digits)
    } else if let Some(digits) = name.strip_prefix("result") {
        (module.returned(body), digits)
    } else {
        return Err(Failure::invalid(format!("{name:?} is neither argN nor resultN")));
    };
    let found = digits.parse::<usize>().ok().and_then(|n| list.get(n).copied());
    found.ok_or_else(|| Failure::invalid(format!("there is no {name}; the last is {}", list.len() as i64 - 1)))
}

/// Holds the plan to limits, and to a lock file's text.
fn check(plan: &Plan, options: &Value) -> Outcome<Answered> {
    let list = |v: &Value| v.as_array().map(|all| all.iter().filter_map(|k| k.as_str().map(String::from)).collect());
    let contract = Contract {
        region: options["region"].as_str().map(String::from),
        allowed: list(&options["allow"]),
        max_bytes: options["max_bytes"].as_f64(),
        max_collective: options["max_collective"].as_i64(),
        nothing_implicit: options["nothing_implicit"].as_bool().unwrap_or(false),
    };
    if let Err(violation) = plan.check(&contract) {
        return Ok(Answered::Broken(violation.to_string()));
    }
    if let Some(lock) = options["lock"].as_str() {
        let recorded = Lock::parse(lock).map_err(|e| Failure::invalid(e.to_string()))?;
        let changes = recorded.changes(&Lock::of(plan));
        if !changes.is_empty() {
            let list: String = changes.iter().map(|change| format!("  {change}\n")).collect();
            return Ok(Answered::Broken(format!("the plan is not what the lock file records\n{list}")));
        }
    }
    Ok(Answered::Text(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PROGRAM: &str = r#"
        sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>},
                        %b: tensor<6x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<4x8xf32> {
          %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x8xf32>) -> tensor<4x8xf32>
          return %0 : tensor<4x8xf32>
        }"#;

    fn ask(name: &str, options: Value) -> Outcome<(i32, String)> {
        tool(name, PROGRAM.as_bytes(), &options).map(|answered| match answered {
            Answered::Text(text) => (0, text),
            Answered::Broken(text) => (1, text),
        })
    }

    #[test]
    fn every_tool_answers() {
        assert!(ask("explain", json!({})).unwrap().1.contains("all-reduce"));
        assert!(ask("partition", json!({})).unwrap().1.contains("tensor<4x3xf32>"));
        assert!(ask("why", json!({"value": "arg0", "dim": 1})).unwrap().1.contains("x"));
        assert!(ask("html", json!({})).unwrap().1.contains("<svg"));
        assert!(ask("explore", json!({"title": "dot"})).unwrap().1.contains("<title>dot"));
        let plan: Value = serde_json::from_str(&ask("plan", json!({})).unwrap().1).unwrap();
        assert_eq!(plan["totals"]["all-reduce"]["count"], 1);
    }

    #[test]
    fn a_search_gives_placements() {
        let options = json!({"mesh": [["x", 4]], "fresh": true, "evaluations": 200, "fix": [["arg0", "x,-"]]});
        let answer: Value = serde_json::from_str(&ask("search", options).unwrap().1).unwrap();
        assert_eq!((&answer["arguments"], &answer["results"]), (&json!(2), &json!(1)));
        let annotation = &answer["found"]["candidates"][0]["annotations"][0];
        assert_eq!((&annotation["number"], &annotation["axes"]), (&json!(0), &json!([["x"], []])));
        let (status, text) = ask("search", json!({"mesh": [["x", 2]], "fresh": true, "memory": 8})).unwrap();
        assert!(status == 1 && text.contains("memory"), "{text}");
        assert!(ask("search", json!({"devices": 0})).unwrap_err().message.contains("make no mesh"));
    }

    #[test]
    fn contracts_and_lock_files_are_held() {
        assert_eq!(ask("check", json!({"allow": ["all-reduce"]})), Ok((0, String::new())));
        let (status, text) = ask("check", json!({"allow": ["all-gather"]})).unwrap();
        assert!(status == 1 && text.contains("all-reduce"), "{text}");
        let lock = ask("lock", json!({})).unwrap().1;
        assert_eq!(ask("check", json!({"lock": lock})), Ok((0, String::new())));
        let other = lock.replace("all-reduce", "all-gather");
        assert_eq!(ask("check", json!({"lock": other})).unwrap().0, 1);
    }

    #[test]
    fn symbolic_programs_are_asked_about_for_some_shapes() {
        let program = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
          %0 = stablehlo.add %x, %x : tensor<?xf32>
          return %0 : tensor<?xf32>
        }";
        let Ok(Answered::Text(plan)) = tool("plan", program.as_bytes(), &json!({"shapes": [[5]]})) else { panic!() };
        assert_eq!(serde_json::from_str::<Value>(&plan).unwrap()["results"][0]["type"], "f32[5]");
    }

    #[test]
    fn unknown_values_and_tools_are_errors() {
        assert!(ask("why", json!({"value": "arg7"})).unwrap_err().message.contains("there is no arg7"));
        assert!(ask("draw", json!({})).unwrap_err().message.contains("no tool"));
    }
}
