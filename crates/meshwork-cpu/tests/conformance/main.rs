//! What every engine must do: each case is a program that the reference evaluator runs too. The suite is stamped once
//! per engine.

mod all_ops;
mod collectives;
mod control;
mod distributed;
mod harness;
mod ops;

/// Stamps the suite for an engine; `None` stands for one that is not installed, and has said so.
macro_rules! conformance {
    ($name:ident, $engine:expr) => {
        mod $name {
            use crate::harness::Check;
            use crate::{all_ops, collectives, control, ops};

            conformance!(@ programs $engine);
            conformance!(@ $engine; ops: bodies);
            conformance!(@ $engine; all_ops: elementwise, all_others);
            conformance!(@ $engine; control: errors);
            conformance!(@ $engine; collectives: torn_groups, ragged_misfits);
        }
    };
    // For an engine of others: which element types it has is its own affair, and a group that never meets ends in its
    // way, with the process in the case of XLA's.
    ($name:ident, of others, $engine:expr) => {
        mod $name {
            use crate::harness::Check;
            use crate::{collectives, control, ops};

            conformance!(@ programs $engine);
        }
    };
    (@ programs $engine:expr) => {
        conformance!(@ $engine; ops: chains, softmax, first_elements_of_sorted, slices_of_joined, products, results);
        conformance!(@ $engine; control: loops, branches, captured, scans, nested);
        conformance!(@ $engine; collectives: reduce, gather, scatter, exchange, ragged, permute, loops_with_communication,
            identity, shared_results, slices_by_device, parts_of_buffers, by_axes, equal_operands, past_the_caches);
    };
    (@ $engine:expr; $file:ident: $($case:ident),*) => {
        $(#[test] fn $case() {
            if let Some(engine) = $engine {
                $file::$case(&Check::new(engine));
            }
        })*
    };
}

conformance!(cpu_one_thread, Some(meshwork_cpu::CpuEngine::new(1)));
conformance!(cpu_two_threads, Some(meshwork_cpu::CpuEngine::new(2)));
conformance!(evaluator, Some(meshwork_runtime::Evaluator));
conformance!(xla_cpu, of others, meshwork_testing::xla::cpu());

/// The same bits on every run, on any number of threads.
#[test]
fn results_do_not_depend_on_threads() {
    let engines: Vec<_> = [1, 2, 5].into_iter().map(meshwork_cpu::CpuEngine::new).collect();
    for (source, devices) in control::DETERMINISM {
        let mut first = None;
        for engine in &engines {
            for _ in 0..3 {
                let got = harness::run(engine, source, *devices).expect("it runs");
                let want = first.get_or_insert_with(|| got.clone());
                assert_eq!(&got, want, "{source}");
            }
        }
    }
}

/// Algorithms for split dimensions, on one thread and on several.
macro_rules! distributed {
    ($($case:ident),*) => {
        mod distributed_algorithms {
            use meshwork_cpu::CpuEngine;

            $(#[test] fn $case() {
                [1, 3].into_iter().for_each(|threads| crate::distributed::$case(&CpuEngine::new(threads)));
            })*
        }
    };
}

distributed!(sorts, transforms, factors, systems, rings, rows, halos);
