//! Running on many devices at once, one thread each, and the ops through which a program meets the host.
//!
//! `interpreter.run_parallel` starts one function per device. Each device reads its own copy of the infeed; outfeeds
//! are evaluated and dropped. `send` and `recv` with a host on the other side meet in one queue per channel, as if the
//! host passed every message on; between devices there is a queue per channel, sender and receiver.

use super::attrs;
use super::error::EvalError;
use super::fault::Fault;
use super::hub::Hub;
use super::machine::{Effects, Machine, STACK_BYTES, Site, StartedBy};
use super::value::Val;
use meshwork_ir::DeviceGrid;
use meshwork_ir::groups::{channel, rows};
use meshwork_ir::op::{CheckOp, TokenOp};
use meshwork_ir::{Attr, BlockId, Literal, OpId, OpKind};

/// What one device is to run.
pub(crate) struct Job {
    pub block: BlockId,
    /// The operation that errors name.
    pub owner: OpId,
    pub args: Vec<Val>,
}

/// Runs one job per device and returns the results of each. Effects of device 0 (statistics) and of
/// all devices in order (prints, probes) are added to `m`.
///
/// If devices fail, the error of the lowest-numbered one is reported that did not just wait for another.
pub(crate) fn run_grid(
    m: &mut Machine<'_>,
    grid: DeviceGrid,
    jobs: Vec<Job>,
    started: StartedBy,
) -> Result<Vec<Vec<Val>>, EvalError> {
    if let Some(first) = jobs.first() {
        check_devices(jobs.len()).map_err(|fault| fault.at(m.module, first.owner))?;
    }
    let hub = Hub::new(jobs.len());
    let (module, infeed) = (m.module, m.effects.infeed.clone());
    let outcomes = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs
            .into_iter()
            .enumerate()
            .map(|(device, job)| {
                let (hub, infeed, owner) = (&hub, infeed.clone(), job.owner);
                let work = move || {
                    let _finish = Finish(hub);
                    let mut machine = Machine::new(module, Site { device, grid, hub: Some(hub), started });
                    machine.effects.infeed = infeed;
                    let args = job.args.into_iter().map(|v| machine.adopt(v)).collect::<Result<_, _>>();
                    let results = args
                        .map_err(|fault| fault.at(module, job.owner))
                        .and_then(|args| machine.run_block(job.block, args, job.owner));
                    machine.effects.stats.peak_bytes = machine.meter.peak();
                    (results, machine.effects)
                };
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, work);
                (owner, thread)
            })
            .collect();
        threads
            .into_iter()
            .map(|(owner, thread)| match thread.map(|t| t.join()) {
                Ok(Ok(outcome)) => Ok(outcome),
                Ok(Err(_)) => Err(EvalError::invalid(module, owner, super::PANICKED)),
                Err(e) => {
                    // The device never ran; the others must not wait for it.
                    hub.finish();
                    Err(EvalError::unsupported(module, owner, format!("no thread for a device: {e}")))
                }
            })
            .collect::<Vec<_>>()
    });
    collect(m, outcomes)
}

/// Each device is a thread, and an operating system limits their number.
pub(crate) fn check_devices(count: usize) -> Result<(), Fault> {
    if count > super::MAX_DEVICES {
        return Err(Fault::unsupported(format!("running on {count} devices; at most {}", super::MAX_DEVICES)));
    }
    Ok(())
}

/// Reports to the hub that a device has ended, even by a panic.
struct Finish<'a>(&'a Hub);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.finish();
    }
}

type Outcome = (Result<Vec<Val>, EvalError>, Effects);

fn collect(m: &mut Machine<'_>, outcomes: Vec<Result<Outcome, EvalError>>) -> Result<Vec<Vec<Val>>, EvalError> {
    let (mut results, mut errors) = (vec![], vec![]);
    for (device, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Err(error) => errors.push(error),
            Ok((result, effects)) => {
                if device == 0 {
                    m.effects.stats.merge(&effects.stats);
                    m.effects.stats.peak_bytes = m.effects.stats.peak_bytes.max(effects.stats.peak_bytes);
                }
                m.effects.printed.extend(effects.printed);
                for (id, values) in effects.probes {
                    m.effects.probes.entry(id).or_default().extend(values);
                }
                match result {
                    Ok(values) => results.push(values),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    let waited =
        |e: &EvalError| matches!(e, EvalError::Invalid { message, .. } if message.starts_with(super::hub::STUCK));
    match errors.iter().position(|e| !waited(e)).or((!errors.is_empty()).then_some(0)) {
        Some(first) => Err(errors.swap_remove(first)),
        None => Ok(results),
    }
}

/// `stablehlo.infeed`.
pub(crate) fn infeed(m: &mut Machine<'_>) -> Result<Vec<Val>, Fault> {
    let mut values = m.effects.infeed.pop_front().ok_or_else(|| Fault::invalid("the infeed is empty"))?;
    values.push(Val::Token);
    Ok(values)
}

/// `stablehlo.send`.
pub(crate) fn send(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let op = m.module.op(id);
    let mut message = vec![];
    args.iter().for_each(|v| v.flatten(&mut message));
    let Some(hub) = m.site.hub else {
        return Err(Fault::unsupported("there is no device to send to: the program runs on one"));
    };
    let number = channel(op);
    if op.flag("is_host_transfer") {
        hub.send((OpKind::Token(TokenOp::Send), number, None, None), message);
        return Ok(vec![Val::Token]);
    }
    for pair in rows(op, "source_target_pairs").map_err(Fault::Invalid)? {
        if let &[from, to] = &pair[..]
            && from == m.site.device
        {
            hub.send((OpKind::Token(TokenOp::Send), number, Some(from), Some(to)), message.clone());
        }
    }
    Ok(vec![Val::Token])
}

/// `stablehlo.recv`.
pub(crate) fn receive(m: &mut Machine<'_>, id: OpId) -> Result<Vec<Val>, Fault> {
    let op = m.module.op(id);
    let Some(hub) = m.site.hub else {
        return Err(Fault::unsupported("there is no device to receive from: the program runs on one"));
    };
    let me = m.site.device;
    let key = if op.flag("is_host_transfer") {
        (OpKind::Token(TokenOp::Send), channel(op), None, None)
    } else {
        let pairs = rows(op, "source_target_pairs").map_err(Fault::Invalid)?;
        let source = pairs.iter().find(|p| p.get(1) == Some(&me)).map(|p| p[0]);
        let source = source.ok_or_else(|| Fault::invalid(format!("no source-target pair sends to device {me}")))?;
        (OpKind::Token(TokenOp::Send), channel(op), Some(source), Some(me))
    };
    let message = hub.receive(key, me, &m.module.describe(id))?;
    let mut values: Vec<Val> = message.into_iter().map(|x| m.hold(x)).collect();
    values.push(Val::Token);
    Ok(values)
}

/// `interpreter.run_parallel`.
pub(crate) fn run_parallel(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let module = m.module;
    let op = module.op(id);
    let func = |attr: &Attr| {
        let name = attr.as_symbol().ok_or_else(|| Fault::invalid("a program is not a function's name"))?;
        module.func(name).ok_or_else(|| Fault::invalid(format!("there is no function @{name}")))
    };
    let programs = op.attr("programs").and_then(Attr::as_array).ok_or_else(|| attrs::missing("programs", "a list"))?;
    let rows: Vec<&[Attr]> = programs.iter().filter_map(Attr::as_array).collect();
    let partitions = rows.first().map_or(0, |r| r.len());
    if rows.len() != programs.len() || partitions == 0 || rows.iter().any(|r| r.len() != partitions) {
        return Err(Fault::invalid("programs are not a list of lists of one length"));
    }
    let grid = DeviceGrid { replicas: rows.len(), partitions };
    for queue in op.attr("infeed").and_then(Attr::as_array).unwrap_or(&[]) {
        let values = m.call(func(queue)?, vec![], id)?;
        m.effects.infeed.push_back(values);
    }
    let mut args = args.into_iter();
    let mut jobs = vec![];
    for program in rows.concat() {
        let func = func(&program)?;
        let block = module.body_of(func, 0).ok_or_else(|| Fault::invalid("a program has no body"))?;
        let params = module.block(block).args().len();
        let given: Vec<Val> = args.by_ref().take(params).collect();
        if given.len() != params {
            return Err(Fault::invalid("the programs take more operands than there are"));
        }
        jobs.push(Job { block, owner: id, args: given });
    }
    let outcomes = run_grid(m, grid, jobs, StartedBy::Run)?;
    m.effects.infeed.clear();
    Ok(outcomes.into_iter().flatten().collect())
}

/// `interpreter.print`, `interpreter.probe` and `check.expect_serialized_eq`.
pub(crate) fn observe(m: &mut Machine<'_>, id: OpId, args: Vec<Val>) -> Result<Vec<Val>, Fault> {
    let op = m.module.op(id);
    let x = args.first().ok_or_else(|| Fault::invalid("it has no operand"))?.tensor()?;
    if op.kind() == OpKind::Check(CheckOp::Print) {
        let elements: Vec<String> = x.scalars().map(|s| s.to_string()).collect();
        m.effects.printed.push(format!("{} {{{}}}", x.ty(), elements.join(", ")));
        return Ok(vec![]);
    }
    let name = op.attr("probe_id").and_then(Attr::as_str).ok_or_else(|| attrs::missing("probe_id", "a string"))?;
    if op.kind() == OpKind::Check(CheckOp::Probe) {
        m.effects.probes.entry(name.to_string()).or_default().push(x.clone());
        return Ok(args);
    }
    let iteration = op.int("iteration").or(op.int("iter")).unwrap_or(0).max(0) as usize;
    let recorded = m.effects.probes.get(name).and_then(|values| values.get(iteration));
    let recorded = recorded.ok_or_else(|| Fault::invalid(format!("probe '{name}' has no iteration {iteration}")))?;
    if recorded == x {
        return Ok(vec![]);
    }
    Err(Fault::Inner(EvalError::CheckFailed {
        op: m.module.place(id),
        index: vec![],
        got: shown(x),
        want: shown(recorded),
        rule: format!("what probe '{name}' recorded"),
    }))
}

fn shown(x: &Literal) -> String {
    let first: Vec<String> = x.scalars().take(8).map(|s| s.to_string()).collect();
    format!("{} [{}{}]", x.ty(), first.join(", "), if x.len() > 8 { ", ..." } else { "" })
}
