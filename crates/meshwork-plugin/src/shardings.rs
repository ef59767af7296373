//! The extension for shardings of arguments and results.

use meshwork_pjrt_abi as abi;

use crate::border::{borrow, slot};
use crate::executable::{ExecutableHandle, Names};
use crate::failure::Outcome;

fn of_parameters(args: &mut abi::ShardingsOfExecutable) -> Outcome {
    let shardings = &borrow::<ExecutableHandle>(args.executable)?.input_shardings;
    fill(args, shardings);
    Ok(())
}

fn of_outputs(args: &mut abi::ShardingsOfExecutable) -> Outcome {
    let shardings = &borrow::<ExecutableHandle>(args.executable)?.output_shardings;
    fill(args, shardings);
    Ok(())
}

fn fill(args: &mut abi::ShardingsOfExecutable, all: &Names) {
    args.num = all.sizes.len();
    (args.shardings, args.sharding_sizes) = (all.starts.as_ptr(), all.sizes.as_ptr());
}

pub(crate) fn extension(next: *mut abi::ExtensionBase) -> abi::ShardingsExtension {
    let base = abi::ExtensionBase { struct_size: size_of::<abi::ShardingsExtension>(), kind: abi::SHARDINGS, next };
    abi::ShardingsExtension { base, executable_parameters: slot(of_parameters), executable_outputs: slot(of_outputs) }
}
