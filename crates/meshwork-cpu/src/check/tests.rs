//! Right tapes pass; each way to break one is found.

use meshwork_ir::DeviceGrid;
use meshwork_ir::text::parse;

use super::check;
use crate::compile::{Span, compile};
use crate::device_program::Replication;
use crate::exec::tape::{Item, Tape, tape};
use crate::exec::wave::Wave;
use crate::memory::plan::{Home, Plan, plan};
use crate::program::{Node, Program};
use crate::step::Buf;

/// A program with its plan and tape.
struct Compiled {
    program: Program,
    plan: Plan,
}

impl Compiled {
    fn new(source: &str, devices: usize) -> Compiled {
        let module = parse(source).unwrap_or_else(|e| panic!("{}", e.render("test", source)));
        let program = compile(&module, None, grid(devices), Span::OneProcess).expect("it compiles");
        let plan = plan(&program, devices, &Replication::default());
        let compiled = Compiled { program, plan };
        assert_eq!(compiled.check(devices), Ok(()), "{}", compiled.program);
        compiled
    }

    fn tape(&self, devices: usize) -> Tape {
        let made = tape(&self.program, &self.program.module, &self.plan, grid(devices), None);
        made.map_err(|e| e.1).expect("it has a tape")
    }

    fn check(&self, devices: usize) -> Result<(), String> {
        check(&self.program, &self.plan, &self.tape(devices))
    }

    /// `b` is where `a` is.
    fn put_together(&mut self, a: Buf, b: Buf) {
        let (to, from) = (self.plan.slot_of[a.0 as usize], self.plan.slot_of[b.0 as usize]);
        let members = std::mem::take(&mut self.plan.slots[from].members);
        members.iter().for_each(|m| self.plan.slot_of[m.0 as usize] = to);
        self.plan.slots[to].members.extend(members);
    }

    /// What is wrong now.
    fn fault(&self, devices: usize) -> String {
        self.check(devices).expect_err("it is broken")
    }
}

fn grid(devices: usize) -> DeviceGrid {
    DeviceGrid { replicas: 1, partitions: devices }
}

/// The steps of the entry block.
fn steps(program: &Program) -> Vec<&crate::step::Step> {
    let step = |n: &'_ Node| matches!(n, Node::Step(_));
    program
        .main
        .nodes
        .iter()
        .filter(|n| step(n))
        .map(|n| if let Node::Step(s) = n { s } else { unreachable!() })
        .collect()
}

const CHAIN: &str = "func.func @main(%a: tensor<8xf32>, %m: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = stablehlo.dot_general %m, %a, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = stablehlo.dot_general %m, %0, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = stablehlo.dot_general %m, %1, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = stablehlo.add %2, %0 : tensor<8xf32>
  return %2, %3 : tensor<8xf32>, tensor<8xf32> }";

#[test]
fn a_value_overwritten_while_it_is_still_read() {
    let mut c = Compiled::new(CHAIN, 1);
    let (first, second) = (steps(&c.program)[0].writes[0], steps(&c.program)[1].writes[0]);
    c.put_together(first, second);
    let fault = c.fault(1);
    assert!(fault.contains("over"), "{fault}");
}

#[test]
fn memory_that_overlaps_in_the_arena() {
    let mut c = Compiled::new(CHAIN, 1);
    let (first, second) = (steps(&c.program)[0].writes[0], steps(&c.program)[1].writes[0]);
    let slot = |b: Buf| c.plan.slot_of[b.0 as usize];
    let (a, b) = (slot(first), slot(second));
    c.plan.slots[b].home = c.plan.slots[a].home;
    let fault = c.fault(1);
    assert!(fault.contains("over"), "{fault}");
}

#[test]
fn steps_in_another_order() {
    let mut c = Compiled::new(CHAIN, 1);
    c.program.main.nodes.swap(0, 1);
    let fault = c.fault(1);
    assert!(fault.contains("not written on every path"), "{fault}");
}

#[test]
fn a_step_left_out_of_the_tape() {
    let c = Compiled::new(CHAIN, 1);
    let mut tape = c.tape(1);
    tape.main.items.remove(1);
    let end = tape.main.items.len();
    tape.main.sections.iter_mut().for_each(|s| s.range.end = s.range.end.min(end));
    let fault = check(&c.program, &c.plan, &tape).expect_err("it is broken");
    assert!(fault.contains("not on the tape"), "{fault}");
}

#[test]
fn a_step_in_place_that_cannot_be() {
    let mut c = Compiled::new(CHAIN, 1);
    let (read, written) = {
        let step = steps(&c.program)[1];
        (step.reads.iter().copied().find(|&b| b == steps(&c.program)[0].writes[0]).unwrap(), step.writes[0])
    };
    c.put_together(written, read);
    let fault = c.fault(1);
    assert!(fault.contains("which it reads"), "{fault}");
}

#[test]
fn a_written_argument_and_a_result_that_is_not_handed_out() {
    let mut c = Compiled::new(CHAIN, 1);
    let written = steps(&c.program)[0].writes[0];
    let slot = c.plan.slot_of[written.0 as usize];
    let before = c.plan.slots[slot].home;
    c.plan.slots[slot].home = Home::Arg(0);
    assert!(c.fault(1).contains("not its own"), "{}", c.fault(1));
    c.plan.slots[slot].home = before;
    let result = c.plan.slot_of[c.program.main.results[0].0 as usize];
    c.plan.slots[result].home = Home::Arena(0);
    c.plan.arena_bytes += 4096;
    assert!(c.fault(1).contains("over") || c.fault(1).contains("caller"), "{}", c.fault(1));
}

/// Two sums of one value in one exchange, of which one is where the value was.
#[test]
fn an_exchange_in_place_of_an_operand_it_has_twice() {
    let source = "func.func @main(%a: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %s = stablehlo.sine %a : tensor<8xf32>
      %r:2 = \"stablehlo.all_reduce\"(%s, %s) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %z = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %z : tensor<f32> }) {replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, use_global_device_ids}
        : (tensor<8xf32>, tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>)
      return %r#0, %r#1 : tensor<8xf32>, tensor<8xf32> }";
    let mut c = Compiled::new(source, 2);
    let ends = c.program.main.nodes.iter().find_map(|n| match n {
        Node::Collective(c) => Some((c.operands.clone(), c.results.clone())),
        _ => None,
    });
    let (operands, results) = ends.expect("an exchange");
    assert_eq!(operands[0], operands[1]);
    c.put_together(results[0], operands[0]);
    let fault = c.fault(2);
    assert!(fault.contains("other use"), "{fault}");
}

const BRANCH: &str = "func.func @main(%a: tensor<8xf32>, %i: tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %x = stablehlo.sine %a : tensor<8xf32>
  %y = stablehlo.cosine %x : tensor<8xf32>
  %c = \"stablehlo.case\"(%i) ({
    %1 = stablehlo.negate %x : tensor<8xf32>
    stablehlo.return %1 : tensor<8xf32>
  }, {
    %2 = stablehlo.multiply %x, %x : tensor<8xf32>
    stablehlo.return %2 : tensor<8xf32>
  }) : (tensor<i32>) -> tensor<8xf32>
  return %c, %y : tensor<8xf32>, tensor<8xf32> }";

/// A step of the entry block that stands in a branch.
#[test]
fn a_value_that_only_one_branch_computes() {
    let mut c = Compiled::new(BRANCH, 1);
    let result = c.program.main.results[1];
    let at = c.program.main.nodes.iter().position(|n| matches!(n, Node::Step(s) if s.writes.contains(&result)));
    let step = c.program.main.nodes.remove(at.expect("a step computes it"));
    let case = c.program.main.nodes.iter_mut().find_map(|n| if let Node::Case(case) = n { Some(case) } else { None });
    case.expect("a choice").branches[1].nodes.insert(0, step);
    let fault = c.fault(1);
    assert!(fault.contains("not written on every path"), "{fault}");
}

#[test]
fn a_branch_that_does_not_leave_its_result() {
    let c = Compiled::new(BRANCH, 1);
    let mut tape = c.tape(1);
    for item in &mut tape.main.items {
        if let Item::Choice(choice) = item {
            choice.branches[0].items.pop();
            choice.branches[0].sections.pop();
        }
    }
    let fault = check(&c.program, &c.plan, &tape).expect_err("it is broken");
    assert!(fault.contains("not on the tape") || fault.contains("does not have its value"), "{fault}");
}

const LOOP: &str = "func.func @main(%a: tensor<80xf32>, %m: tensor<80x80xf32>, %n: tensor<i32>) -> (tensor<80xf32>, tensor<80xf32>) {
  %z = stablehlo.constant dense<0> : tensor<i32>
  %r:3 = stablehlo.while(%i = %z, %x = %a, %y = %a) : tensor<i32>, tensor<80xf32>, tensor<80xf32>
    cond { %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %p : tensor<i1> }
    do { %o = stablehlo.constant dense<1> : tensor<i32>
         %j = stablehlo.add %i, %o : tensor<i32>
         %d = stablehlo.dot_general %m, %x, contracting_dims = [1] x [0] : (tensor<80x80xf32>, tensor<80xf32>) -> tensor<80xf32>
         %e = stablehlo.dot_general %m, %y, contracting_dims = [1] x [0] : (tensor<80x80xf32>, tensor<80xf32>) -> tensor<80xf32>
         stablehlo.return %j, %e, %d : tensor<i32>, tensor<80xf32>, tensor<80xf32> }
  return %r#1, %r#2 : tensor<80xf32>, tensor<80xf32> }";

#[test]
fn loops_whose_memory_does_not_change_hands() {
    let c = Compiled::new(LOOP, 1);
    let edits: [fn(&mut crate::exec::tape::Loop); 3] = [
        |l| {
            l.trades.clear();
            l.copies.clear();
        },
        |l| {
            if l.trades.len() > 1 {
                l.trades.truncate(1);
            } else {
                l.copies.clear();
                l.trades.clear();
            }
        },
        |l| {
            l.body.items.swap(0, 1);
        },
    ];
    for edit in edits {
        let mut tape = c.tape(1);
        for item in &mut tape.main.items {
            if let Item::Loop(l) = item {
                edit(l);
            }
        }
        check(&c.program, &c.plan, &tape).expect_err("it is broken");
    }
}

/// What the body of a loop reads from outside, overwritten by the body: right in the first turn only.
#[test]
fn a_loop_that_overwrites_what_its_next_turn_reads() {
    let source = LOOP.replace("@main(%a", "@main(%b: tensor<80x80xf32>, %a").replace(
        "%z = stablehlo.constant dense<0> : tensor<i32>",
        "%z = stablehlo.constant dense<0> : tensor<i32>
         %k = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : (tensor<80x80xf32>, tensor<80xf32>) -> tensor<80xf32>",
    );
    let source = source.replace("%m, %y, contracting", "%m, %k, contracting");
    let mut c = Compiled::new(&source, 1);
    let outside = steps(&c.program)[0].writes[0];
    let body = c.program.main.nodes.iter().find_map(|n| if let Node::While(w) = n { Some(&w.body) } else { None });
    let last = body.expect("a loop").nodes.iter().rev().find_map(|n| match n {
        Node::Step(s) if !s.reads.contains(&outside) && s.name.starts_with("dot") => Some(s.writes[0]),
        _ => None,
    });
    let slot = c.plan.slot_of[last.expect("a product").0 as usize];
    c.plan.slots[slot].home = c.plan.slots[c.plan.slot_of[outside.0 as usize]].home;
    c.check(1).expect_err("it is broken");
}

/// A loop over an array larger than the caches, each element with its neighbors.
const STENCIL: &str = "func.func @main(%a: tensor<700001xf32>, %n: tensor<i32>) -> tensor<700001xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<f32>
  %r:2 = stablehlo.while(%i = %zero, %x = %a) : tensor<i32>, tensor<700001xf32>
  cond {
    %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %l = stablehlo.slice %x [0:699999] : (tensor<700001xf32>) -> tensor<699999xf32>
    %m = stablehlo.slice %x [2:700001] : (tensor<700001xf32>) -> tensor<699999xf32>
    %s = stablehlo.add %l, %m : tensor<699999xf32>
    %y = stablehlo.pad %s, %f, low = [1], high = [1], interior = [0] : (tensor<699999xf32>, tensor<f32>) -> tensor<700001xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %y : tensor<i32>, tensor<700001xf32>
  }
  return %r#1 : tensor<700001xf32> }";

#[test]
fn waves_that_do_not_wait_or_do_not_do_all() {
    let c = Compiled::new(STENCIL, 1);
    let broken = |change: fn(&mut Wave)| {
        let mut tape = c.tape(1);
        let waves = tape.main.items.iter_mut().find_map(|i| if let Item::Loop(l) = i { l.wave.as_mut() } else { None });
        change(waves.expect("a loop in waves"));
        check(&c.program, &c.plan, &tape).expect_err("it is broken")
    };
    let fault = broken(|w| w.cells[1].after.clear());
    assert!(fault.contains("does not wait for"), "{fault}");
    let fault = broken(|w| drop(w.cells.pop()));
    assert!(fault.contains("its cells do the parts"), "{fault}");
    let fault = broken(|w| w.cells[3].touches.retain(|t| !t.1.written));
    assert!(fault.contains("its cells write"), "{fault}");
    let fault = broken(|w| w.little.clear());
    assert!(fault.contains("its cells do the parts"), "{fault}");
}
