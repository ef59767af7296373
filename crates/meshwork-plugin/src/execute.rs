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
use crate::buffer::{BufferHandle, Contents, Shape};
use crate::client::ClientHandle;
use crate::copy::{copy_strided, minor_to_major, strides};
use crate::event::Signal;
use crate::executable::LoadedHandle;
use crate::failure::{Failure, Outcome};
use crate::program::Program;
use crate::queue::{Queue, inside};

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
    let run = Run { args: arguments(program, lists, kept)?, program: program.clone(), slow: client.slow };
    let outputs = slice(args.output_lists, devices);
    let events = slice_mut(args.device_complete_events, devices);
    if Queue::is_inside() || (program.is_short && client.queue.is_idle()) {
        let outcome = inside(|| run.shards());
        let failed = outcome.as_ref().err().map(|failure| Signal::with(Err(failure.clone())));
        give(loaded, outputs, |i, d| match (&outcome, &failed) {
            (Ok(shards), _) => Contents::ready(of_device(&shards[i], d).clone()),
            (Err(_), signal) => Contents::pending(signal.clone().unwrap_or_else(Signal::done)),
        });
        events.iter_mut().for_each(|event| *event = failed.clone().unwrap_or_else(Signal::done).give());
    } else {
        let done = Arc::new(Signal::default());
        let pending = |_| Contents::pending(done.clone());
        let results: Arc<[Arc<Contents>]> = (0..program.outputs.len() * devices).map(pending).collect();
        let (promise, filled) = (Promise(done.clone()), results.clone());
        client.queue.push(Box::new(move || run.fill(&filled, devices, &promise)));
        // What a function of Python says is raised where the program is called, as it is with XLA.
        if !program.functions.is_empty() {
            done.wait()?;
        }
        give(loaded, outputs, |i, d| results[i * devices + d].clone());
        events.iter_mut().for_each(|event| *event = done.clone().give());
    }
    Ok(())
}

/// The contents of the arguments, argument by argument. Of a program that is not split, one device's serve for all.
fn arguments(program: &Program, lists: &[*const *mut abi::Buffer], kept: &[i64]) -> Outcome<Vec<Arc<Contents>>> {
    let count = program.inputs.len();
    let handle = |i: usize, d: usize| borrow::<BufferHandle>(slice(lists[d], count)[i]);
    for (i, shape) in program.inputs.iter().enumerate() {
        for d in 0..lists.len() {
            let given = &handle(i, d)?.shape;
            // JAX has buffers of its own for tokens.
            if shape.elem.is_some() && !Arc::ptr_eq(given, shape) && given != shape {
                return Err(Failure::invalid(format!(
                    "argument {i} of {} on device {d} is {given}; the program takes {shape}",
                    program.name
                )));
            }
        }
    }
    let mut all = Vec::with_capacity(count * program.split);
    for i in 0..count {
        let is_donated = program.donated[i] && !kept.contains(&(i as i64));
        for d in 0..lists.len() {
            let contents = if is_donated { handle(i, d)?.take()? } else { handle(i, d)?.contents()? };
            if d < program.split {
                all.push(contents);
            }
        }
    }
    Ok(all)
}

/// Makes a handle for each result on each device.
fn give(loaded: &LoadedHandle, lists: &[*mut *mut abi::Buffer], contents: impl Fn(usize, usize) -> Arc<Contents>) {
    let outputs = &loaded.program.outputs;
    for (d, &list) in lists.iter().enumerate() {
        for (i, out) in slice_mut(list, outputs.len()).iter_mut().enumerate() {
            *out = BufferHandle::new(outputs[i].clone(), loaded.memories[d][i], contents(i, d)).give();
        }
    }
}

/// The shard that device `d` has: the only one, of a program that is not split.
fn of_device(shards: &Shards, d: usize) -> &Arc<Buffer> {
    &shards[d.min(shards.len() - 1)]
}

/// A signal that fails if it is dropped before it is set, so that no one waits for it forever.
struct Promise(Arc<Signal>);

impl Drop for Promise {
    fn drop(&mut self) {
        self.0.set_with(|| Err(Failure::internal("the run ended without results")));
    }
}

/// A run, and what it reads.
struct Run {
    program: Arc<Program>,
    args: Vec<Arc<Contents>>,
    slow: Option<Duration>,
}

impl Run {
    /// Runs, fills the results, and tells those who wait.
    fn fill(self, results: &[Arc<Contents>], devices: usize, done: &Promise) {
        let outcome = self.shards().map(|all| {
            for (contents, shards) in results.chunks(devices.max(1)).zip(&all) {
                contents.iter().enumerate().for_each(|(d, c)| c.fill(of_device(shards, d).clone()));
            }
        });
        done.0.set(outcome);
    }

    /// The shards of all results, tokens among them.
    fn shards(self) -> Outcome<Vec<Shards>> {
        let Run { program, args, slow } = self;
        let start = slow.map(|_| Instant::now());
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&program, args)));
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
        outcome
    }
}

fn run(program: &Program, args: Vec<Arc<Contents>>) -> Outcome<Vec<Shards>> {
    let mut args = args.into_iter();
    let mut shards: Vec<Shards> = Vec::with_capacity(program.inputs.len());
    // Arguments that are not donated, to be known by their addresses afterwards.
    let mut lent: Vec<*const Buffer> = vec![];
    for (i, &is_token) in program.input_tokens.iter().enumerate() {
        let of = args.by_ref().take(program.split);
        if is_token {
            of.for_each(drop);
            continue;
        }
        let mut of = of.map(Contents::into_memory).collect::<Outcome<Shards>>()?;
        if !program.donated[i] {
            lent.extend(of.iter().map(Arc::as_ptr));
        }
        if !program.inputs[i].is_row_major() {
            of.iter_mut().try_for_each(|shard| reorder(shard, &program.inputs[i], Direction::ToRowMajor))?;
        }
        shards.push(of);
    }
    let mut results = program.executable.run_shards(shards)?;
    let wanted = program.output_tokens.iter().filter(|is_token| !**is_token).count();
    if results.len() != wanted {
        let what = format!("the program has {wanted} results, {} came", results.len());
        return Err(RunError::Arguments(what).into());
    }
    own(&mut results, lent)?;
    let outputs = program.outputs.iter().filter(|shape| shape.elem.is_some());
    for (of, shape) in results.iter_mut().zip(outputs).filter(|(_, shape)| !shape.is_row_major()) {
        of.iter_mut().try_for_each(|shard| reorder(shard, shape, Direction::FromRowMajor))?;
    }
    if wanted == program.output_tokens.len() {
        return Ok(results);
    }
    let mut results = results.into_iter();
    let token = || Ok(vec![Buffer::absent()?]);
    let of = |&is_token: &bool| if is_token { token() } else { Ok(results.next().unwrap_or_default()) };
    program.output_tokens.iter().map(of).collect()
}

/// JAX hands arguments through by itself: a program that returns one is asked for a copy. So is one that returns a value
/// twice. Devices may share a result.
fn own(results: &mut [Shards], mut lent: Vec<*const Buffer>) -> Outcome {
    let mut is_sorted = false;
    let mut first: HashMap<*const Buffer, usize> = HashMap::new();
    let mut copies: HashMap<(*const Buffer, usize), Arc<Buffer>> = HashMap::new();
    for (i, shards) in results.iter_mut().enumerate() {
        // What has one owner is neither an argument nor another result.
        for shard in shards.iter_mut().filter(|shard| Arc::strong_count(shard) > 1) {
            if !is_sorted {
                lent.sort_unstable();
                is_sorted = true;
            }
            let address = Arc::as_ptr(shard);
            if *first.entry(address).or_insert(i) == i && lent.binary_search(&address).is_err() {
                continue;
            }
            if let Some(copy) = copies.get(&(address, i)) {
                *shard = copy.clone();
            } else {
                *shard = Arc::new(Buffer::from_bytes(shard.as_slice())?);
                copies.insert((address, i), shard.clone());
            }
        }
    }
    Ok(())
}

enum Direction {
    ToRowMajor,
    FromRowMajor,
}

/// Puts the elements of a shard in another order: the engine's arrays are row-major.
fn reorder(shard: &mut Arc<Buffer>, shape: &Shape, direction: Direction) -> Outcome {
    let size = shape.element_bytes();
    let rows = strides(&shape.dims, &minor_to_major(shape.dims.len()), size);
    let (from, to) = match direction {
        Direction::ToRowMajor => (shape.strides(), rows),
        Direction::FromRowMajor => (rows, shape.strides()),
    };
    let copy = Buffer::new(shape.bytes())?;
    // SAFETY: both have room for all elements of the shape.
    unsafe { copy_strided(&shape.dims, (shard.as_ptr(), &from), (copy.as_ptr(), &to), size) };
    *shard = Arc::new(copy);
    Ok(())
}
