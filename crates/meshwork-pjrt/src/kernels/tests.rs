//! Kernels give the bits of the evaluator: their PTX runs on the host, for random stencils and known equations, called by the
//! evaluator and by XLA's CPU devices.

use meshwork_eval::{ForeignCall, set_foreign};
use meshwork_ir::{Attr, Literal, Module, text, verify};
use meshwork_partition::{CompileOptions, compile};
use meshwork_pjrt_abi::ffi::{CallFrame, Error};
use meshwork_runtime::{Array, Engine, Evaluator};
use meshwork_testing::Numbers as Random;

use super::call::{Launch, Numbers, TARGET, handle, passes, register_as};
use super::{FUNCTIONS, Wish, emulate, plan::THREADS};
use crate::rewrite::tests::{SPELLINGS, Spelling, Stencil};
use crate::rewrite::{Rewriting, rewrite};

/// Runs passes on the host, over buffers of these sizes.
fn emulate_passes(launches: &[Launch<'_>], memory: &[(u64, usize)]) {
    for launch in launches {
        let function = emulate::parse(launch.ptx, FUNCTIONS[launch.function]);
        // SAFETY: the buffers are whole, and nobody else uses them.
        unsafe { emulate::run(&function, launch.blocks, THREADS, &launch.params, memory) };
    }
}

/// Answers calls of kernels that the evaluator makes.
fn answer(call: &ForeignCall<'_>, results: &mut [Literal]) -> Option<Result<(), String>> {
    let Some(Attr::Dict(config)) = call.attrs.get("backend_config").filter(|_| call.target == TARGET) else {
        return None;
    };
    let numbers = Numbers::from_list(&config.get("numbers")?.as_i64s()?)?;
    // Memory of devices is aligned.
    let aligned = |bytes: &[u8]| {
        let mut words = vec![0u128; bytes.len().div_ceil(16)];
        // SAFETY: there is room for the bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), words.as_mut_ptr().cast(), bytes.len()) };
        words
    };
    let args: Vec<Vec<u128>> = call.operands.iter().map(|x| aligned(x.bytes())).collect();
    let mut rets: Vec<Vec<u128>> = results.iter().map(|x| vec![u128::MAX; x.bytes().len().div_ceil(16)]).collect();
    let addresses = |of: &mut dyn Iterator<Item = &Vec<u128>>| of.map(|b| b.as_ptr() as u64).collect::<Vec<u64>>();
    let from = addresses(&mut args.iter());
    let to: Vec<u64> = rets.iter_mut().map(|b| b.as_mut_ptr() as u64).collect();
    let sizes = call.operands.iter().map(|x| x.bytes().len()).chain(results.iter().map(|x| x.bytes().len()));
    let memory: Vec<(u64, usize)> = from.iter().chain(&to).copied().zip(sizes).collect();
    let launches = match passes(numbers, config.get("ptx")?.as_str()?, &from, &to) {
        Ok(launches) => launches,
        Err(message) => return Some(Err(message)),
    };
    emulate_passes(&launches, &memory);
    for (result, ret) in results.iter_mut().zip(&rets) {
        let size = result.bytes().len();
        // SAFETY: the buffer has at least so many bytes.
        result.bytes_mut().copy_from_slice(unsafe { std::slice::from_raw_parts(ret.as_ptr().cast(), size) });
    }
    Some(Ok(()))
}

fn inputs(module: &Module) -> Vec<Array> {
    let entry = module.entry().expect("a function");
    let types = module.func_type(entry).inputs;
    let array = |(k, ty): (usize, &meshwork_ir::Type)| {
        Array::from_fn(ty.dims().to_vec(), move |i| {
            let place: i64 = i.iter().enumerate().map(|(d, &n)| n * (7 + 4 * d as i64)).sum();
            ((place + 5 * k as i64) % 23) as f32 * 0.125 - 1.0
        })
    };
    types.iter().enumerate().map(array).collect()
}

fn run(module: &Module) -> Vec<Vec<u32>> {
    let program = compile(module, &CompileOptions::default()).expect("it compiles");
    let results = Evaluator.load(&program).expect("it loads").run(inputs(module)).expect("it runs");
    results.iter().map(|y| y.to_vec::<f32>().expect("f32").iter().map(|x| x.to_bits()).collect()).collect()
}

/// `source` with its loop as a kernel of so many steps.
fn with_kernel(source: &str, steps: Option<u64>) -> (Module, Module, Vec<String>) {
    let before = text::parse(source).unwrap_or_else(|e| panic!("{e:?}\n{source}"));
    let mut after = before.clone();
    let notes = rewrite(&mut after, Rewriting { turns: 1, kernels: Some(Wish { steps }) });
    assert_eq!(verify::verify(&after), [], "{source}");
    (before, after, notes)
}

/// Checks that the loop of `source` becomes a kernel that gives the same bits; the program with it.
fn check(source: &str, steps: Option<u64>) -> String {
    set_foreign(answer);
    let (before, after, notes) = with_kernel(source, steps);
    let shown = text::print(&after);
    assert_eq!(notes.len(), 1, "{source}\nhas no kernel:\n{shown}");
    let (want, got) = (run(&before), run(&after));
    for (want, got) in want.iter().zip(&got) {
        let differs = want.iter().zip(got).position(|(a, b)| a != b);
        let at = differs.map(|k| (k, f32::from_bits(want[k]), f32::from_bits(got[k])));
        assert_eq!(at, None, "{notes:?} {source}");
    }
    shown
}

#[test]
fn random_stencils_in_every_spelling() {
    let mut numbers = Random(5);
    for case in 0..40 {
        let rank = 1 + case % 3;
        let low: Vec<i64> = (0..rank).map(|_| numbers.between(0, 2)).collect();
        let high: Vec<i64> = (0..rank).map(|_| numbers.between(0, 2)).collect();
        let most = [700, 60, 12][rank - 1];
        let dims: Vec<i64> = (0..rank).map(|d| low[d] + high[d] + numbers.between(1, most)).collect();
        let terms = (0..1 + numbers.below(4)).map(|_| {
            let offset = (0..rank).map(|d| numbers.between(-low[d], high[d])).collect();
            (offset, numbers.between(-4, 4) as f64 * 0.25)
        });
        let stencil = Stencil { terms: terms.collect(), dims, low, high };
        let spelling = SPELLINGS[case % SPELLINGS.len()];
        let (turns, steps) = (numbers.between(2, 9), numbers.between(1, 5) as u64);
        check(&stencil.program(spelling, turns), Some(steps).filter(|_| case % 4 > 0));
    }
}

/// A loop that carries arrays of `elem`; `step` goes from `%a0`, `%a1` to `%b0`, `%b1`, may use `%n`, `%c` (an array), `%k` (a
/// scalar), and has `ty` for the type of the arrays.
fn program(dims: &[i64], elem: &str, arrays: usize, turns: i64, step: &str) -> String {
    let shape: String = dims.iter().map(|d| format!("{d}x")).collect();
    let (given, ty) = (format!("tensor<{shape}f32>"), format!("tensor<{shape}{elem}>"));
    let list = |f: &dyn Fn(usize) -> String| (0..arrays).map(f).collect::<Vec<_>>().join(", ");
    let convert = |from: &str, to: &str, a: &str, b: &str| {
        if from == to {
            format!("{b} = stablehlo.abs {a} : {to}")
        } else {
            format!("{b} = stablehlo.convert {a} : ({from}) -> {to}")
        }
    };
    let each = |f: &dyn Fn(usize) -> String| (0..arrays).map(f).collect::<Vec<_>>().join("\n");
    let step = step.replace("TY", &ty).replace("ELEM", elem).replace("BOOL", &format!("tensor<{shape}i1>"));
    format!(
        "func.func @main({}, %w: {given}) -> ({}) {{
           {}
           {}
           %half = stablehlo.constant dense<0.5> : tensor<f32>
           %k = stablehlo.convert %half : (tensor<f32>) -> tensor<{elem}>
           %zero = stablehlo.constant dense<3> : tensor<i32>
           %r:{} = stablehlo.while(%n = %zero, {}) : tensor<i32>, {}
           cond {{
             %end = stablehlo.constant dense<{}> : tensor<i32>
             %more = stablehlo.compare LT, %n, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %more : tensor<i1>
           }} do {{
             {step}
             %two = stablehlo.constant dense<2> : tensor<i32>
             %next = stablehlo.add %n, %two : tensor<i32>
             stablehlo.return %next, {} : tensor<i32>, {}
           }}
           {}
           return {} : {} }}",
        list(&|k| format!("%u{k}: {given}")),
        list(&|_| given.clone()),
        each(&|k| convert(&given, &ty, &format!("%u{k}"), &format!("%x{k}"))),
        convert(&given, &ty, "%w", "%c"),
        arrays + 1,
        list(&|k| format!("%a{k} = %x{k}")),
        list(&|_| ty.clone()),
        3 + 2 * turns - 1,
        list(&|k| format!("%b{k}")),
        list(&|_| ty.clone()),
        each(&|k| match elem {
            "f32" => format!("%y{k} = stablehlo.negate %r#{} : {ty}", k + 1),
            _ => convert(&ty, &given, &format!("%r#{}", k + 1), &format!("%y{k}")),
        }),
        list(&|k| format!("%y{k}")),
        list(&|_| given.clone()),
    )
}

/// `%into` is `%from` turned by `by` along a dimension.
fn roll(into: &str, from: &str, dims: &[i64], elem: &str, d: usize, by: i64) -> String {
    let ty = |dims: &[i64]| format!("tensor<{}{elem}>", dims.iter().map(|n| format!("{n}x")).collect::<String>());
    let cut = (-by).rem_euclid(dims[d]);
    let part = |low: i64, high: i64| {
        let range = |k: usize| if k == d { format!("{low}:{high}") } else { format!("0:{}", dims[k]) };
        let mut size = dims.to_vec();
        size[d] = high - low;
        ((0..dims.len()).map(range).collect::<Vec<_>>().join(", "), ty(&size))
    };
    let ((end, end_ty), (begin, begin_ty)) = (part(cut, dims[d]), part(0, cut));
    format!(
        "%{into}e = stablehlo.slice {from} [{end}] : ({whole}) -> {end_ty}
         %{into}b = stablehlo.slice {from} [{begin}] : ({whole}) -> {begin_ty}
         %{into} = stablehlo.concatenate %{into}e, %{into}b, dim = {d} : ({end_ty}, {begin_ty}) -> {whole}\n",
        whole = ty(dims)
    )
}

/// The sum of all neighbors of `%a0` as `%sum`, round the ends.
fn around(dims: &[i64], elem: &str) -> String {
    let mut step = String::new();
    let mut sum = "%a0".to_string();
    for d in 0..dims.len() {
        for by in [1, -1] {
            let name = format!("r{d}{}", if by > 0 { "p" } else { "m" });
            step += &roll(&name, "%a0", dims, elem, d, by);
            step += &format!("%s{name} = stablehlo.add {sum}, %{name} : TY\n");
            sum = format!("%s{name}");
        }
    }
    step + &format!("%sum = stablehlo.subtract {sum}, %a0 : TY\n")
}

const SHAPES: [&[i64]; 8] = [&[2], &[37], &[1031], &[8, 8], &[3, 131], &[40, 257], &[7, 6, 5], &[5, 9, 70]];

#[test]
fn periodic_arrays_of_all_types() {
    for elem in ["f32", "f64", "bf16", "f16", "i32", "i64", "ui8", "i16"] {
        for dims in SHAPES {
            let step = around(dims, elem)
                + "%kk = stablehlo.broadcast_in_dim %k, dims = [] : (tensor<ELEM>) -> TY
                   %p = stablehlo.multiply %sum, %c : TY
                   %b0 = stablehlo.subtract %p, %kk : TY";
            check(&program(dims, elem, 1, 5, &step), None);
        }
    }
}

/// Two carried arrays that change places.
#[test]
fn waves() {
    for dims in SHAPES {
        let step = around(dims, "f32")
            + "%q = stablehlo.constant dense<0.25> : TY
               %m = stablehlo.multiply %sum, %q : TY
               %b0 = stablehlo.subtract %m, %a1 : TY
               %b1 = stablehlo.maximum %a0, %c : TY";
        check(&program(dims, "f32", 2, 7, &step), None);
    }
}

/// The game of life, in truth values.
#[test]
fn life() {
    for dims in [&[9, 9][..], &[70, 131]] {
        let mut step = String::from("%z0 = stablehlo.convert %a0 : (TY) -> INTS\n");
        let mut sum = "%zero8".to_string();
        step += "%zero8 = stablehlo.constant dense<0> : INTS\n";
        for (k, (y, x)) in
            [(-1, -1), (-1, 0), (-1, 1), (0, -1), (0, 1), (1, -1), (1, 0), (1, 1)].into_iter().enumerate()
        {
            let mut from = "%z0".to_string();
            for (d, by) in [(0, y), (1, x)] {
                if by != 0 {
                    let name = format!("t{k}{d}");
                    step += &roll(&name, &from, dims, "i32", d, by);
                    from = format!("%{name}");
                }
            }
            step += &format!("%n{k} = stablehlo.add {sum}, {from} : INTS\n");
            sum = format!("%n{k}");
        }
        step += &format!(
            "%c2 = stablehlo.constant dense<2> : INTS
             %c3 = stablehlo.constant dense<3> : INTS
             %is2 = stablehlo.compare EQ, {sum}, %c2, SIGNED : (INTS, INTS) -> TY
             %is3 = stablehlo.compare EQ, {sum}, %c3, SIGNED : (INTS, INTS) -> TY
             %stay = stablehlo.and %is2, %a0 : TY
             %b0 = stablehlo.or %is3, %stay : TY"
        );
        let ints = format!("tensor<{}i32>", dims.iter().map(|d| format!("{d}x")).collect::<String>());
        check(&program(dims, "i1", 1, 6, &step.replace("INTS", &ints)), None);
    }
}

/// Coefficients beside the elements that they belong to, a source that grows with the counter, places that are known.
#[test]
fn coefficients_counters_and_places() {
    for dims in SHAPES {
        let (d, n) = (dims.len() - 1, dims[dims.len() - 1]);
        let step = roll("a", "%a0", dims, "f32", d, 1)
            + &roll("c1", "%c", dims, "f32", d, 1)
            + &format!(
                "%p = stablehlo.multiply %a, %c1 : TY
                 %t = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
                 %tt = stablehlo.broadcast_in_dim %t, dims = [] : (tensor<f32>) -> TY
                 %i = stablehlo.iota dim = {d} : INTS
                 %x = stablehlo.iota dim = 0 : TY
                 %last = stablehlo.constant dense<{}> : INTS
                 %is = stablehlo.compare EQ, %i, %last, SIGNED : (INTS, INTS) -> BOOL
                 %in = stablehlo.add %tt, %x : TY
                 %s = stablehlo.select %is, %in, %p : BOOL, TY
                 %low = stablehlo.constant dense<-4.0> : tensor<f32>
                 %high = stablehlo.constant dense<9.5> : tensor<f32>
                 %b0 = stablehlo.clamp %low, %s, %high : (tensor<f32>, TY, tensor<f32>) -> TY",
                n / 2
            );
        let ints = format!("tensor<{}i32>", dims.iter().map(|d| format!("{d}x")).collect::<String>());
        check(&program(dims, "f32", 1, 5, &step.replace("INTS", &ints)), None);
    }
}

#[test]
fn other_loops_are_left_to_xla() {
    let tanh = around(&[40], "f32") + "%b0 = stablehlo.tanh %sum : TY";
    let turned = "%b0 = stablehlo.reverse %a0, dims = [0] : TY";
    let far = roll("x", "%a0", &[100], "f32", 0, 40) + "%b0 = stablehlo.add %x, %c : TY";
    for (dims, step) in [([40], tanh.as_str()), ([40], turned), ([100], &far)] {
        let (before, after, notes) = with_kernel(&program(&dims, "f32", 1, 5, step), None);
        assert_eq!(notes, [""; 0]);
        assert_eq!(run(&before), run(&after));
    }
    let once = around(&[40], "f32") + "%b0 = stablehlo.abs %sum : TY";
    assert_eq!(with_kernel(&program(&[40], "f32", 1, 1, &once), None).2, [""; 0]);
}

/// In the middle of an array there are seven operations for each element of this equation and turn, and two more where the
/// inner part is padded and added, once with what is beside it; a pass loads once.
#[test]
fn the_middle_has_few_operations() {
    let heat = Stencil {
        dims: vec![100_000],
        low: vec![1],
        high: vec![1],
        terms: vec![(vec![-1], 0.25), (vec![0], 0.5), (vec![1], 0.25)],
    };
    for spelling in SPELLINGS {
        let (_, after, notes) = with_kernel(&heat.program(spelling, 32), None);
        assert_eq!(notes, ["a loop of 32 turns over f32 of 100000 is an own kernel, 16 turns at a time"]);
        let shown = text::print(&after);
        assert!(shown.contains(TARGET) && !shown.contains("stablehlo.while"), "{shown}");
        let op = after.all_ops(meshwork_ir::Walk::PreOrder);
        let call = op.into_iter().find(|&op| after.op(op).call_target() == Some(TARGET)).expect("a call");
        let Some(Attr::Dict(config)) = after.op(call).attr("backend_config") else { panic!("{shown}") };
        let ptx = config.get("ptx").and_then(Attr::as_str).expect("a text");
        let middle = ptx.rsplit("$L1:").next().expect("a middle");
        let work = middle.lines().filter(|l| l.contains(".rn.f32") || l.contains("neg.f32")).count();
        let per_element = if spelling == Spelling::Pad { 9 } else { 7 };
        assert_eq!(work, 16 * 16 * per_element, "{spelling:?}");
        assert_eq!(middle.matches("ld.global.nc.v4.b32").count(), 4);
        assert_eq!(middle.matches("shfl").count(), 2 * 16);
    }
}

unsafe extern "C" fn on_the_host(frame: *mut CallFrame) -> *mut Error {
    // SAFETY: XLA gives a frame that lives through the call, with buffers of the sizes of their types.
    unsafe {
        handle(frame, |frame, launches| {
            let mut memory = vec![];
            for list in [&frame.args, &frame.rets] {
                for k in 0..list.size as usize {
                    let buffer = &**list.all.add(k);
                    let dims = std::slice::from_raw_parts(buffer.dims, buffer.rank as usize);
                    // All of 4 bytes here.
                    memory.push((buffer.data as u64, 4 * dims.iter().product::<i64>() as usize));
                }
            }
            emulate_passes(launches, &memory);
            Ok(())
        })
    }
}

/// XLA's CPU devices call kernels as its GPUs do: by the plugin's extension, with a frame that has their text.
#[test]
fn xla_calls_kernels() {
    let Some(found) = meshwork_testing::xla::cpu() else { return };
    let path = found.client().plugin().path().display().to_string();
    let mut engine = crate::PjrtEngine::plugin(&path).rewrites(true).open().expect("it opens");
    register_as(engine.client().plugin(), "Host", on_the_host).expect("it registers");
    engine.rewriting = Some(Rewriting { turns: 1, kernels: Some(Wish::default()) });
    for dims in [&[1031][..], &[40, 257], &[5, 9, 70]] {
        let step = around(dims, "f32")
            + "%q = stablehlo.constant dense<0.25> : TY
               %m = stablehlo.multiply %sum, %q : TY
               %b0 = stablehlo.subtract %m, %a1 : TY
               %b1 = stablehlo.maximum %a0, %c : TY";
        let module = text::parse(&program(dims, "f32", 2, 7, &step)).expect("a program");
        let compiled = compile(&module, &CompileOptions::default()).expect("it compiles");
        assert_eq!(engine.notes(&compiled).len(), 1);
        let loaded = engine.load(&compiled).expect("it loads");
        assert_eq!(loaded.fallbacks(), []);
        let results = loaded.run(inputs(&module)).expect("it runs");
        let got: Vec<Vec<u32>> =
            results.iter().map(|y| y.to_vec::<f32>().expect("f32").iter().map(|x| x.to_bits()).collect()).collect();
        assert!(got == run(&module), "{dims:?}");
    }
}

/// Writes the kernels of a few loops to the folder that `MESHWORK_PTX` names, for an assembler to look at, each with its
/// [`Numbers`] beside it.
#[test]
fn kernels_as_files() {
    let Some(folder) = std::env::var_os("MESHWORK_PTX") else { return };
    let folder = std::path::Path::new(&folder);
    let heat = |dims: &[i64]| {
        let rank = dims.len();
        let unit = |d: usize, by: i64| (0..rank).map(|k| if k == d { by } else { 0 }).collect::<Vec<i64>>();
        let mut terms = vec![(vec![0; rank], 0.5)];
        (0..rank).for_each(|d| terms.extend([(unit(d, -1), 0.125), (unit(d, 1), 0.375)]));
        let stencil = Stencil { dims: dims.to_vec(), low: vec![1; rank], high: vec![1; rank], terms };
        stencil.program(SPELLINGS[0], 100)
    };
    let mut sources = vec![];
    for (name, dims) in [("heat1", &[10_000_000][..]), ("heat2", &[4096, 4096]), ("heat3", &[256, 256, 256])] {
        for steps in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
            sources.push((format!("{name}_{steps}"), heat(dims), Some(steps)));
        }
        sources.push((name.to_string(), heat(dims), None));
    }
    for elem in ["f64", "bf16", "f16", "i64", "ui8", "i16"] {
        let step = around(&[40, 257], elem) + "%b0 = stablehlo.multiply %sum, %c : TY";
        sources.push((format!("round_{elem}"), program(&[40, 257], elem, 1, 5, &step), None));
    }
    for (name, source, steps) in sources {
        let (_, after, _) = with_kernel(&source, steps);
        let call = after.all_ops(meshwork_ir::Walk::PreOrder);
        let call = call.into_iter().find(|&op| after.op(op).call_target() == Some(TARGET)).expect("a call");
        let Some(Attr::Dict(config)) = after.op(call).attr("backend_config") else { panic!("{name}") };
        let ptx = config.get("ptx").and_then(Attr::as_str).expect("a text");
        let numbers = config.get("numbers").and_then(Attr::as_i64s).expect("numbers");
        std::fs::write(folder.join(format!("{name}.ptx")), ptx).expect("it is written");
        std::fs::write(folder.join(format!("{name}.txt")), format!("{numbers:?}")).expect("it is written");
    }
}
