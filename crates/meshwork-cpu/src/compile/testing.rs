//! Runs compiled programs on one device, node after node, and compares them with the evaluator.

use meshwork_eval as eval;
use meshwork_ir::DeviceGrid;
use meshwork_ir::{Literal, Module, Scalar};

use super::{Span, compile};
use crate::library::testing::noise_args;
use crate::program::{Block, Node, Program};
use crate::step::{Buf, Frame, Scratch};

/// One device.
pub(crate) const ONE: DeviceGrid = DeviceGrid { replicas: 1, partitions: 1 };

/// The program that `source` becomes on one device.
pub(crate) fn compiled(source: &str) -> Program {
    let module = parse(source);
    compile(&module, None, ONE, Span::OneProcess).unwrap_or_else(|e| panic!("{e}\n{source}"))
}

pub(crate) fn parse(source: &str) -> Module {
    meshwork_ir::text::parse(source).unwrap_or_else(|e| panic!("{e:?}\n{source}"))
}

/// Compiles and runs `source` on random arguments and compares it with the evaluator; gives the program's text.
pub(crate) fn check(source: &str, tolerance: f64) -> String {
    let module = parse(source);
    let args = noise_args(&module);
    check_on(source, &args, tolerance)
}

/// [`check`] on given arguments.
pub(crate) fn check_on(source: &str, args: &[Literal], tolerance: f64) -> String {
    check_program(source, &compiled(source), args, tolerance)
}

/// Runs `program`, which `source` has become, and compares it with the evaluator.
pub(crate) fn check_program(source: &str, program: &Program, args: &[Literal], tolerance: f64) -> String {
    let module = parse(source);
    let got = run(program, args);
    let shared = run_in_place(program, args);
    assert!(
        got.iter().zip(&shared).all(|(a, b)| a.bytes() == b.bytes()),
        "in place it gives something else\n{program}"
    );
    let want = eval::run(&module, None, args).unwrap_or_else(|e| panic!("{e}\n{source}"));
    assert_eq!(got.len(), want.len());
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        assert_eq!(g.ty(), w.ty());
        if !w.elem().is_float() && !w.elem().is_complex() {
            assert_eq!(g.bytes(), w.bytes(), "result {i}\n{program}");
            continue;
        }
        for (j, (a, b)) in g.scalars().zip(w.scalars()).enumerate() {
            assert!(is_close(a, b, tolerance), "result {i}, element {j}: {a:?} instead of {b:?}\n{program}");
        }
    }
    program.to_string()
}

/// Whether `got` is `want` but for rounding. The parts of a complex number are held to its length: where one of them cancels,
/// what is left is the rounding of the other.
fn is_close(got: Scalar, want: Scalar, tolerance: f64) -> bool {
    let part = |a: f64, b: f64, length: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + length)
    };
    match (got, want) {
        (Scalar::Complex(a, b), Scalar::Complex(c, d)) => {
            let length = [c, d].into_iter().filter(|x| x.is_finite()).fold(0.0, |m: f64, x| m.max(x.abs()));
            part(a, c, length) && part(b, d, length)
        }
        _ => part(got.as_f64(), want.as_f64(), want.as_f64().abs()),
    }
}

/// The results of `program` on one device.
pub(crate) fn run(program: &Program, args: &[Literal]) -> Vec<Literal> {
    execute(program, args, false)
}

/// The same, with every step working in place wherever it says that it can.
fn run_in_place(program: &Program, args: &[Literal]) -> Vec<Literal> {
    execute(program, args, true)
}

fn execute(program: &Program, args: &[Literal], in_place: bool) -> Vec<Literal> {
    let mut machine = Machine {
        in_place,
        memory: program.bufs.iter().map(|b| vec![[0xA5; 64]; b.bytes.div_ceil(64).max(1)]).collect(),
        sizes: program.bufs.iter().map(|b| b.bytes).collect(),
        scratch: Scratch::default(),
    };
    for (i, info) in program.bufs.iter().enumerate() {
        if let Some(literal) = &info.constant {
            machine.set(Buf(i as u32), literal.bytes());
        }
    }
    for (&buf, arg) in program.main.args.iter().zip(args) {
        machine.set(buf, arg.bytes());
    }
    machine.block(&program.main);
    let one = |&buf: &Buf| {
        let info = &program.bufs[buf.0 as usize];
        Literal::from_bytes(info.dims.iter().copied(), info.elem, machine.get(buf)).unwrap()
    };
    let results: Vec<Literal> = program.main.results.iter().map(one).collect();
    let func = program.module.entry().unwrap();
    let types = program.module.func_type(func).results;
    let dims = |i: usize| types.get(i).map(|t| t.dims().to_vec());
    // A reshaped buffer keeps the extents it was made with.
    results
        .into_iter()
        .enumerate()
        .map(|(i, r)| match dims(i) {
            Some(dims) => retyped(r, &dims, types[i].elem()),
            None => r,
        })
        .collect()
}

fn retyped(literal: Literal, dims: &[i64], elem: Option<meshwork_ir::ElementType>) -> Literal {
    Literal::from_bytes(dims.iter().copied(), elem.unwrap(), literal.bytes().to_vec()).unwrap()
}

struct Machine {
    in_place: bool,
    memory: Vec<Vec<[u8; 64]>>,
    sizes: Vec<usize>,
    scratch: Scratch,
}

impl Machine {
    fn set(&mut self, buf: Buf, bytes: &[u8]) {
        let to = self.memory[buf.0 as usize].as_flattened_mut();
        to[..bytes.len()].copy_from_slice(bytes);
    }

    fn get(&self, buf: Buf) -> Vec<u8> {
        self.memory[buf.0 as usize].as_flattened()[..self.sizes[buf.0 as usize]].to_vec()
    }

    fn block(&mut self, block: &Block) {
        for node in &block.nodes {
            match node {
                Node::Step(step) => {
                    // What is written is on a copy of what is read, so that others still find the old value.
                    let pairs: &[(Buf, Buf)] = if self.in_place { &step.in_place } else { &[] };
                    let mut shared: Vec<(Buf, Buf)> = vec![];
                    for &(from, to) in pairs {
                        if !shared.iter().any(|&(f, t)| f == from || t == to) {
                            let bytes = self.get(from);
                            self.set(to, &bytes);
                            shared.push((from, to));
                        }
                    }
                    let mut ptrs: Vec<*mut u8> = self.memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
                    for (from, to) in shared {
                        ptrs[from.0 as usize] = ptrs[to.0 as usize];
                    }
                    let frame = Frame { ptrs: &ptrs, device: 0, partition: 0, replica: 0 };
                    // Parts may run in any order.
                    for part in (0..step.work.parts()).rev() {
                        // SAFETY: every buffer has its own memory of the planned size.
                        unsafe { step.work.run(&frame, &mut self.scratch, part) }.unwrap();
                    }
                }
                Node::While(w) => {
                    let mut carried: Vec<Vec<u8>> = w.init.iter().map(|&b| self.get(b)).collect();
                    loop {
                        for (&b, bytes) in w.cond.args.iter().chain(&w.body.args).zip(carried.iter().cycle()) {
                            self.set(b, bytes);
                        }
                        self.block(&w.cond);
                        if self.get(w.cond.results[0])[0] == 0 {
                            break;
                        }
                        self.block(&w.body);
                        carried = w.body.results.iter().map(|&b| self.get(b)).collect();
                    }
                }
                Node::Case(c) => {
                    let index = self.get(c.index);
                    let which = match index.len() {
                        1 => usize::from(index[0] == 0),
                        _ => i32::from_le_bytes(index.try_into().unwrap()) as usize,
                    };
                    let branch = &c.branches[which.min(c.branches.len() - 1)];
                    self.block(branch);
                    for (&from, &to) in branch.results.iter().zip(&c.results) {
                        let bytes = self.get(from);
                        self.set(to, &bytes);
                    }
                }
                Node::Collective(c) => {
                    for (&from, &to) in c.operands.iter().zip(&c.results) {
                        let bytes = self.get(from);
                        self.set(to, &bytes);
                    }
                }
                Node::Await(_) => {}
            }
        }
    }
}
