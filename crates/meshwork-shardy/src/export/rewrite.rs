//! What the passes that rewrite a program op by op share: errors about an op, and small helpers around one.

use meshwork_ir::attr::ChannelHandle;
use meshwork_ir::build::{BuildError, Builder};
use meshwork_ir::op::SdyOp;
use meshwork_ir::{Attr, Diagnostic, Failed, Module, OpId, TensorType, ValueId, Walk};
use meshwork_mesh::{Reduction, Sharding};
use meshwork_propagate::program::sharding_of;

/// What is wrong with an op.
pub(crate) struct Problem(pub String);

impl Problem {
    /// Reports the problem of `op`.
    pub fn report(self, module: &Module, op: OpId, diags: &mut Vec<Diagnostic>) -> Failed {
        let op = module.op(op);
        diags.push(Diagnostic::error(op.pos, format!("'{}' op {}", op.name(), self.0)));
        Failed
    }
}

impl From<String> for Problem {
    fn from(message: String) -> Self {
        Problem(message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Self {
        Problem(message.to_string())
    }
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Self {
        Problem(error.to_string())
    }
}

/// Numbers for the channels of new collectives.
pub(crate) struct Channels {
    next: i64,
}

impl Channels {
    /// Those after the last one that an op of `module` uses.
    pub fn unused(module: &Module) -> Channels {
        let used =
            module.all_ops(Walk::PreOrder).into_iter().filter_map(|op| match module.op(op).attr("channel_handle") {
                Some(Attr::Channel(channel)) => Some(channel.handle),
                _ => None,
            });
        Channels { next: used.max().unwrap_or(0).max(0) + 1 }
    }

    /// The `channel_handle` of the next collective.
    pub fn take(&mut self) -> Attr {
        self.next += 1;
        Attr::Channel(ChannelHandle { handle: self.next - 1, channel_type: 1 })
    }
}

/// A builder in front of `op`, at its location.
pub(crate) fn before(module: &mut Module, op: OpId) -> Builder<'_> {
    let loc = module.op(op).loc.clone();
    let mut builder = Builder::before(module, op);
    builder.set_loc(loc);
    builder
}

/// The tensor type of a value that the caller knows to be one.
pub(crate) fn tensor(module: &Module, value: ValueId) -> Result<TensorType, Problem> {
    let ty = module.ty(value);
    ty.as_tensor().cloned().ok_or_else(|| Problem(format!("has a value of type {ty}, not a tensor")))
}

/// The results of `op` and the arguments of its blocks.
pub(crate) fn own_values(module: &Module, op: OpId) -> Vec<ValueId> {
    let blocks = module.op(op).regions().iter().flat_map(|&r| module.region(r).blocks());
    blocks.flat_map(|&b| module.block(b).args()).chain(module.op(op).results()).copied().collect()
}

/// The reduction of an `sdy` collective: a sum unless it says otherwise.
pub(crate) fn collective_reduction(module: &Module, op: OpId) -> Reduction {
    match module.op(op).enum_value("reduction_op").map(str::to_ascii_lowercase).as_deref() {
        Some("max") => Reduction::Max,
        Some("min") => Reduction::Min,
        _ => Reduction::Sum,
    }
}

/// `value` before any propagation barriers.
pub(crate) fn skip_barriers(module: &Module, mut value: ValueId) -> ValueId {
    while let Some(op) = module.def_op(value)
        && module.op(op).kind() == SdyOp::PropagationBarrier
    {
        value = module.op(op).operands()[0];
    }
    value
}

/// The placement of `value` before any propagation barriers.
pub(crate) fn before_barriers(module: &Module, value: ValueId) -> Option<Sharding> {
    sharding_of(module, skip_barriers(module, value))
}
