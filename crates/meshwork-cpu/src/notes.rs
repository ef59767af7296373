//! What people should know about how a program runs: which of its steps are slow, and why.

use meshwork_ir::Module;

use crate::exec::fallback::is_for_host;
use crate::program::{Block, Node, Program};

/// Steps that cost less than this, in nanoseconds, are not worth a word, unless a loop repeats them.
const LEAST_COST: u64 = 20_000;

/// A sentence for each step that takes much longer for an element than others do, and for each that runs on the evaluator.
pub(crate) fn notes(program: &Program) -> Vec<String> {
    let evaluated = program.fallbacks.iter().filter(|&&op| !is_for_host(&program.module, op));
    let mut found: Vec<String> =
        evaluated.map(|&op| format!("{} runs on the evaluator", program.module.describe(op))).collect();
    add(&program.module, &program.main, 1, &mut found);
    found
}

/// Adds those of `block`, which runs `times` times as far as is known.
fn add(module: &Module, block: &Block, times: u64, found: &mut Vec<String>) {
    for node in &block.nodes {
        match node {
            Node::Step(step) => {
                let Some(why) = step.work.slowness() else { continue };
                if step.work.cost().saturating_mul(times) >= LEAST_COST {
                    found.push(format!("{} {why} (step {})", module.describe(step.op), step.name));
                }
            }
            Node::While(w) => {
                let times = times.saturating_mul(w.trips.unwrap_or(1));
                add(module, &w.cond, times, found);
                add(module, &w.body, times, found);
            }
            Node::Case(case) => case.branches.iter().for_each(|branch| add(module, branch, times, found)),
            Node::Collective(_) | Node::Await(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::notes;
    use crate::compile::testing::compiled;

    /// Sorts `n` numbers by `compare`, a body that defines `%c`.
    fn sort(n: usize, compare: &str) -> String {
        format!(
            "func.func @main(%a: tensor<{n}xi32>) -> tensor<{n}xi32> {{
               %0 = \"stablehlo.sort\"(%a) ({{
               ^bb0(%x: tensor<i32>, %y: tensor<i32>):
                 {compare}
                 stablehlo.return %c : tensor<i1>
               }}) {{dimension = 0 : i64}} : (tensor<{n}xi32>) -> tensor<{n}xi32>
               return %0 : tensor<{n}xi32>
             }}"
        )
    }

    const BY_SIZE: &str = "%1 = stablehlo.abs %x : tensor<i32>
        %2 = stablehlo.abs %y : tensor<i32>
        %3 = stablehlo.multiply %1, %1 : tensor<i32>
        %4 = stablehlo.add %2, %3 : tensor<i32>
        %c = stablehlo.compare LT, %4, %2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>";
    const PLAIN: &str = "%c = stablehlo.compare LT, %x, %y, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>";

    #[test]
    fn comparators_are_named_where_they_are_general_and_much_is_sorted() {
        let found = notes(&compiled(&sort(3000, BY_SIZE)));
        assert!(found.len() == 1 && found[0].contains("runs for each pair of elements"), "{found:?}");
        assert!(found[0].contains("stablehlo.sort"), "{found:?}");
        assert_eq!(notes(&compiled(&sort(4, BY_SIZE))), Vec::<String>::new());
        assert_eq!(notes(&compiled(&sort(3000, PLAIN))), Vec::<String>::new());
    }

    #[test]
    fn gathers_are_named_where_they_are_of_single_elements() {
        let source = |row: usize| {
            format!(
                "func.func @main(%a: tensor<5000x{row}xf32>, %i: tensor<30000x1xi32>) -> tensor<30000x{row}xf32> {{
                   %0 = \"stablehlo.gather\"(%a, %i) {{dimension_numbers = #stablehlo.gather<offset_dims = [1],
                     collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>,
                     slice_sizes = array<i64: 1, {row}>}}
                     : (tensor<5000x{row}xf32>, tensor<30000x1xi32>) -> tensor<30000x{row}xf32>
                   return %0 : tensor<30000x{row}xf32>
                 }}"
            )
        };
        let found = notes(&compiled(&source(1)));
        assert!(found.len() == 1 && found[0].contains("gathers single elements"), "{found:?}");
        assert_eq!(notes(&compiled(&source(4))), Vec::<String>::new());
    }

    #[test]
    fn turns_of_loops_count() {
        let source = |turns: usize| {
            format!(
                "func.func @main(%a: tensor<40xi32>) -> tensor<40xi32> {{
                   %zero = stablehlo.constant dense<0> : tensor<i32>
                   %one = stablehlo.constant dense<1> : tensor<i32>
                   %most = stablehlo.constant dense<{turns}> : tensor<i32>
                   %0:2 = stablehlo.while(%i = %zero, %v = %a) : tensor<i32>, tensor<40xi32>
                   cond {{
                     %go = stablehlo.compare LT, %i, %most, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
                     stablehlo.return %go : tensor<i1>
                   }} do {{
                     %next = stablehlo.add %i, %one : tensor<i32>
                     %sorted = \"stablehlo.sort\"(%v) ({{
                     ^bb0(%x: tensor<i32>, %y: tensor<i32>):
                       {BY_SIZE}
                       stablehlo.return %c : tensor<i1>
                     }}) {{dimension = 0 : i64}} : (tensor<40xi32>) -> tensor<40xi32>
                     %turned = stablehlo.reverse %sorted, dims = [0] : tensor<40xi32>
                     stablehlo.return %next, %turned : tensor<i32>, tensor<40xi32>
                   }}
                   return %0#1 : tensor<40xi32>
                 }}"
            )
        };
        assert_eq!(notes(&compiled(&source(1))).len(), 0);
        assert_eq!(notes(&compiled(&source(1000))).len(), 1);
    }
}
