//! Execute: arguments from handles, results to handles, and the run in between, now or in the queue.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use meshwork_eval::forget_calls;
use meshwork_pjrt_abi as abi;
use meshwork_runtime::memory::Buffer;
use meshwork_runtime::{RunError, Shards};

use crate::border::{Handle, borrow, known, slice, slice_mut};
use crate::buffer::{BufferHandle, Contents};
use crate::client::ClientHandle;
use crate::event::Signal;
use crate::executable::LoadedHandle;
use crate::failure::{Failure, Outcome};
use crate::program::Program;
use crate::queue::{Queue, inside};

/// A run: what it reads, by argument and device, and what it writes, by result and device.
struct Run {
    program: Arc<Program>,
    args: Vec<Vec<Arc<Contents>>>,
    results: Vec<Vec<Arc<Contents>>>,
    done: Arc<Signal>,
    slow: Option<Duration>,
}

pub(crate) fn loaded_executable_execute(args: &mut abi::LoadedExecutableExecute) -> Outcome {
    let loaded = borrow::<LoadedHandle>(args.executable)?;
    loaded.check()?;
    let client = borrow::<ClientHandle>(loaded.client)?;
    let (program, devices) = (&loaded.program, loaded.memories.len());
    if args.num_devices != devices || args.num_args != program.inputs.len() {
        let (given, wanted) = ((args.num_args, args.num_devices), (program.inputs.len(), devices));
        return Err(Failure::invalid(format!(
            "{} takes {} arguments on {} devices, {} on {} given",
            program.name, wanted.0, wanted.1, given.0, given.1
        )));
    }
    let lists = slice(args.argument_lists, devices);
    let kept = known(args.options)
        .map_or(&[][..], |o| slice(o.non_donatable_input_indices, o.num_non_donatable_input_indices));
    let count = args.num_args;
    let handles = |i: usize| lists.iter().map(move |&list| borrow::<BufferHandle>(slice(list, count)[i]));
    for (i, shape) in program.inputs.iter().enumerate() {
        for (d, buffer) in handles(i).enumerate() {
            let given = &buffer?.shape;
            if !Arc::ptr_eq(given, shape) && given != shape {
                let (g, w) = (given, shape);
                return Err(Failure::invalid(format!(
                    "argument {i} of {} on device {d} is {}{:?}; the program takes {}{:?}",
                    program.name, g.elem, g.dims, w.elem, w.dims
                )));
            }
        }
    }
    // Of a program that is not split, one device's arguments serve for all.
    let mut arguments = Vec::with_capacity(program.inputs.len());
    for i in 0..program.inputs.len() {
        let is_donated = program.donated[i] && !kept.contains(&(i as i64));
        let mut of =
            handles(i).map(|b| if is_donated { b?.take() } else { b?.contents() }).collect::<Outcome<Vec<_>>>()?;
        of.truncate(program.split);
        arguments.push(of);
    }
    let done = Arc::new(Signal::default());
    let pending = || (0..devices).map(|_| Contents::pending(done.clone())).collect();
    let results: Vec<Vec<Arc<Contents>>> = program.outputs.iter().map(|_| pending()).collect();
    for (d, &list) in slice(args.output_lists, devices).iter().enumerate() {
        for (i, out) in slice_mut(list, program.outputs.len()).iter_mut().enumerate() {
            let (shape, memory) = (program.outputs[i].clone(), loaded.memories[d][i]);
            *out = BufferHandle::new(shape, memory, results[i][d].clone()).give();
        }
    }
    slice_mut(args.device_complete_events, devices).iter_mut().for_each(|event| *event = done.clone().give());
    let run = Run { program: program.clone(), args: arguments, results, done, slow: client.slow };
    if Queue::is_inside() || (program.is_short && client.queue.is_idle()) {
        inside(|| run.finish());
    } else {
        client.queue.push(Box::new(move || run.finish()));
    }
    Ok(())
}

impl Run {
    /// Runs, fills the results, and tells those who wait.
    fn finish(self) {
        let Run { program, args, results, done, slow } = self;
        let start = slow.map(|_| Instant::now());
        let work = || {
            let shards = run(&program, args)?;
            for (contents, shards) in results.iter().zip(shards) {
                for (d, contents) in contents.iter().enumerate() {
                    contents.fill(shards[d.min(shards.len() - 1)].clone());
                }
            }
            Ok(())
        };
        let outcome = catch_unwind(AssertUnwindSafe(work));
        let outcome = outcome.unwrap_or_else(|panic| Err(Failure::of_panic(&*panic)));
        if let (Some(start), Some(limit)) = (start, slow) {
            let time = start.elapsed();
            if time >= limit {
                eprintln!("meshwork: {} took {:.1} ms", program.name, time.as_secs_f64() * 1e3);
            }
        }
        if outcome.is_err() && !program.functions.is_empty() {
            forget_calls();
        }
        drop(results);
        done.set(outcome);
    }
}

fn run(program: &Program, args: Vec<Vec<Arc<Contents>>>) -> Outcome<Vec<Shards>> {
    let mut shards: Vec<Shards> = Vec::with_capacity(args.len());
    for (of, _) in args.into_iter().zip(&program.input_tokens).filter(|(_, is_token)| !**is_token) {
        shards.push(of.into_iter().map(Contents::into_memory).collect::<Outcome<_>>()?);
    }
    // Arguments that are not donated are kept, to be known by their addresses afterwards.
    let donated = program.donated.iter().zip(&program.input_tokens).filter(|(_, is_token)| !**is_token).map(|(d, _)| d);
    let lent = shards.iter().zip(donated).filter(|(_, is_donated)| !**is_donated).flat_map(|(s, _)| s);
    let lent: HashMap<*const Buffer, Arc<Buffer>> = lent.map(|b| (Arc::as_ptr(b), b.clone())).collect();
    let mut results = program.executable.run_shards(shards)?;
    let wanted = program.output_tokens.iter().filter(|is_token| !**is_token).count();
    if results.len() != wanted {
        let what = format!("the program has {wanted} results, {} came", results.len());
        return Err(RunError::Arguments(what).into());
    }
    // JAX hands arguments through by itself: a program that returns one is asked for a copy.
    let mut copies: HashMap<*const Buffer, Arc<Buffer>> = HashMap::new();
    for result in results.iter_mut().flatten() {
        let address = Arc::as_ptr(result);
        if let Some(copy) = copies.get(&address) {
            *result = copy.clone();
        } else if lent.contains_key(&address) {
            *result = Arc::new(Buffer::from_bytes(result.as_slice())?);
            copies.insert(address, result.clone());
        }
    }
    let mut results = results.into_iter();
    let token = || Ok(vec![Buffer::absent()?]);
    let of = |&is_token: &bool| if is_token { token() } else { Ok(results.next().unwrap_or_default()) };
    program.output_tokens.iter().map(of).collect()
}
