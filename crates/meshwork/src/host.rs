//! Functions of the host that a running program calls: to look at values, to compute what no operation does.
//!
//! They run on the CPU engine and on the evaluator. A function is a plain `fn`: what it shares with the rest of the program is in
//! statics.

use std::sync::{Mutex, Once, PoisonError};

use meshwork_eval::{ForeignCall, set_foreign};
use meshwork_ir::op::ControlOp;
use meshwork_ir::{Attr, ElementType, Literal, OpKind, OpSpec, Type};

use crate::error::fail;
use crate::trace::compose::emit_all;
use crate::trace::with_top;
use crate::{Array, Tensor};

/// Prints values while the program runs, on standard output: each `{}` of the format stands for one of them.
///
/// In a program of whole arrays a line is printed once, by the first device, with the whole arrays, which are brought there for it.
/// Inside [`shard_map`](crate::shard_map) each device prints its own, with its number in front. In a loop there is a line each
/// turn, under [`vmap`](crate::vmap) one for each example.
///
/// ```
/// use meshwork::{debug_print, prelude::*};
///
/// let f = jit(|x: Tensor| {
///     let norm = x.square().sum_all().sqrt();
///     debug_print("x is {}, its norm {}", &[&x, &norm]);
///     x / norm
/// });
/// f.call(&Array::from([3.0f32, 4.0]))?; // prints: x is [3., 4.], its norm 5.
/// let wrong = jit(|x: Tensor| { debug_print("x", &[&x]); x }).call(&Array::from([1.0f32])).unwrap_err();
/// assert!(wrong.to_string().starts_with("debug_print: \"x\" has places for 0 values, and 1 are given"));
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn debug_print(format: &str, values: &[&Tensor]) {
    let places = format.matches("{}").count();
    if places != values.len() {
        fail("debug_print", format!("{format:?} has places for {places} values, and {} are given", values.len()));
    }
    effect("debug_print", "print", format.to_string(), values);
}

/// Calls a function of the host with values while the program runs: once with whole arrays, or inside
/// [`shard_map`](crate::shard_map) on each device with its own. The first argument is the number of the device.
///
/// ```
/// use std::sync::Mutex;
/// use meshwork::{debug_callback, prelude::*};
///
/// static SEEN: Mutex<Vec<f32>> = Mutex::new(vec![]);
///
/// let f = jit(|x: Tensor| {
///     for_loop(0..3, x, |_, x| {
///         debug_callback(|_, values| SEEN.lock().unwrap().push(values[0].item().unwrap()), &[&x]);
///         x * 2.0
///     })
/// });
/// f.call(&Array::scalar(1.0f32))?;
/// assert_eq!(*SEEN.lock().unwrap(), [1.0, 2.0, 4.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn debug_callback(function: fn(usize, &[Array]), values: &[&Tensor]) {
    effect("debug_callback", "call", number_of(Function::Effect(function)).to_string(), values);
}

/// Computes tensors of these shapes and types by a function of the host. It must depend on nothing but the values, because each
/// device calls it with the whole of them, as often as the program needs the results.
///
/// It has no derivative; [`custom_vjp`](crate::custom_vjp) gives it one.
///
/// ```
/// use meshwork::{prelude::*, pure_callback};
///
/// fn reversed(values: &[Array]) -> Vec<Array> {
///     let mut elements = values[0].to_vec::<f32>().expect("an array of f32");
///     elements.reverse();
///     vec![Array::from(elements)]
/// }
///
/// let f = jit(|x: Tensor| &pure_callback(reversed, &[&x], &[(x.shape(), F32)])[0] + 1.0);
/// assert_eq!(f.call(&Array::from([1.0f32, 2.0]))?.to_vec::<f32>()?, [3.0, 2.0]);
/// # Ok::<(), meshwork::Error>(())
/// ```
#[track_caller]
pub fn pure_callback(
    function: fn(&[Array]) -> Vec<Array>,
    values: &[&Tensor],
    results: &[(&[i64], ElementType)],
) -> Vec<Tensor> {
    let number = number_of(Function::Pure(function)).to_string();
    let types: Vec<Type> = results.iter().map(|(dims, elem)| Type::tensor(dims.iter().copied(), *elem)).collect();
    call("pure_callback", PURE, number, values, types)
}

/// What a program can call.
#[derive(Clone, Copy)]
enum Function {
    Effect(fn(usize, &[Array])),
    Pure(fn(&[Array]) -> Vec<Array>),
}

/// Targets of custom calls: `meshwork_host_` and what is done, once or on each device.
const PREFIX: &str = "meshwork_host_";
const PURE: &str = "meshwork_host_pure";

/// The functions that programs call, by number.
static FUNCTIONS: Mutex<Vec<Function>> = Mutex::new(vec![]);

/// The number of a function. The same one has one number, however often it is traced.
fn number_of(function: Function) -> usize {
    let address = |f: &Function| match *f {
        Function::Effect(f) => f as usize,
        Function::Pure(f) => f as usize,
    };
    let mut all = FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |f: &Function| {
        address(f) == address(&function) && std::mem::discriminant(f) == std::mem::discriminant(&function)
    };
    all.iter().position(same).unwrap_or_else(|| {
        all.push(function);
        all.len() - 1
    })
}

/// A call without results.
#[track_caller]
fn effect(op: &str, what: &str, config: String, values: &[&Tensor]) {
    let who = with_top(op, |trace| if trace.manual.is_empty() { "once" } else { "each" });
    call(op, &format!("{PREFIX}{what}_{who}"), config, values, vec![]);
}

#[track_caller]
fn call(op: &str, target: &str, config: String, values: &[&Tensor], types: Vec<Type>) -> Vec<Tensor> {
    static ANSWERED: Once = Once::new();
    ANSWERED.call_once(|| set_foreign(answer));
    let has_effect = target != PURE;
    emit_all(op, values, |b, v| {
        let spec = OpSpec::new(OpKind::Control(ControlOp::CustomCall)).operands(v.iter().copied()).results(types);
        let spec = spec.attr("call_target_name", Attr::str(target)).attr("backend_config", Attr::str(config));
        b.values(if has_effect { spec.attr("has_side_effect", Attr::Bool(true)) } else { spec })
    })
}

/// Answers the calls of programs.
fn answer(call: &ForeignCall<'_>, results: &mut [Literal]) -> Option<Result<(), String>> {
    let what = call.target.strip_prefix(PREFIX)?;
    let config = call.attrs.get("backend_config").and_then(Attr::as_str).unwrap_or_default();
    let arrays = || -> Vec<Array> { call.operands.iter().map(|&x| Array::from_literal(x.clone())).collect() };
    let (action, who) = what.split_once('_').unwrap_or((what, ""));
    if who == "once" && call.device != 0 {
        return Some(Ok(()));
    }
    if action == "print" {
        let line = line(config, &arrays());
        match who {
            "each" => println!("device {}: {line}", call.device),
            _ => println!("{line}"),
        }
        return Some(Ok(()));
    }
    let function = config
        .parse::<usize>()
        .ok()
        .and_then(|number| FUNCTIONS.lock().unwrap_or_else(PoisonError::into_inner).get(number).copied());
    Some(match function {
        None => Err(format!("this process has no function {config:?}: it was traced by another one")),
        Some(Function::Effect(function)) => {
            function(call.device, &arrays());
            Ok(())
        }
        Some(Function::Pure(function)) => fill(results, &function(&arrays())),
    })
}

/// Takes the results of a function, which must be those that the program was traced for.
fn fill(results: &mut [Literal], made: &[Array]) -> Result<(), String> {
    if made.len() != results.len() {
        return Err(format!("the function returned {} arrays; {} were declared", made.len(), results.len()));
    }
    for (number, (result, made)) in results.iter_mut().zip(made).enumerate() {
        let (dims, elem) = (result.dims().to_vec(), result.elem());
        if made.shape() != dims || made.dtype() != elem {
            let found = format!("{}{:?}", made.dtype(), made.shape());
            return Err(format!("array {number} that the function returned is {found}; {elem}{dims:?} was declared"));
        }
        *result = made.literal().map_err(|e| e.to_string())?.clone();
    }
    Ok(())
}

/// The format with the values in place of `{}`. An array of several dimensions starts on a line of its own.
fn line(format: &str, values: &[Array]) -> String {
    let mut parts = format.split("{}");
    let mut out = parts.next().unwrap_or_default().to_string();
    for (part, value) in parts.zip(values) {
        if value.shape().len() > 1 {
            out.push('\n');
        }
        out.push_str(&value.to_string());
        out.push_str(part);
    }
    out
}
