//! Runs bodies on literals.

use meshwork_cpu::kernel::Kernel;
use meshwork_cpu::kernel::ir::{Access, Arg, Body, Call, Extent, Op, Phase};
use meshwork_cpu::step::Scratch;
use meshwork_ir::{ElementType, Literal};

/// A body of one phase over the row: inputs of these types, then one output.
pub fn map_body(inputs: &[ElementType], output: ElementType, ops: Vec<Op>) -> Body {
    let arg = |elem, output| Arg { elem, access: Access::Unit, output };
    let mut args: Vec<Arg> = inputs.iter().map(|&e| arg(e, false)).collect();
    args.push(arg(output, true));
    Body { args, temps: vec![], scalars: 0, phases: vec![Phase { extent: Extent::Row, ops }] }
}

/// Runs a kernel whose arguments are all unit and whose last one is the output, on one row.
pub fn run_map(kernel: &Kernel, inputs: &[&Literal], output: ElementType) -> Literal {
    let n = inputs[0].len();
    let mut out = Literal::zeros([n as i64], output);
    let mut ptrs: Vec<*mut u8> = inputs.iter().map(|x| x.bytes().as_ptr().cast_mut()).collect();
    ptrs.push(out.bytes_mut().as_mut_ptr());
    let strides: Vec<isize> = kernel.body().args.iter().map(|a| a.elem.storage_bytes() as isize).collect();
    let rows = vec![0; strides.len()];
    let call = Call { ptrs: &ptrs, row_strides: &rows, strides: &strides, rows: 1, n, index: &[] };
    // SAFETY: the literals hold `n` elements of the types that the body says.
    unsafe { kernel.run(&call, &mut Scratch::default()) };
    out
}
