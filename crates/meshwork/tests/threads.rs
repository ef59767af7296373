//! One `Jit` on several threads, and programs and training steps that move between threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use meshwork::named::NamedJit;
use meshwork::prelude::*;
use meshwork::train::{Optimizer, Step, Trainer};
use meshwork::{Jit, Lowered, LoweredFor};

const THREADS: usize = 8;

fn assert_send_sync<T: Send + Sync>() {}

fn assert_value<T: Send + Sync>(value: T) -> T {
    value
}

#[test]
fn compiled_functions_and_programs_are_send_and_sync() {
    assert_send_sync::<Tensor>();
    assert_send_sync::<Array>();
    assert_send_sync::<Rule>();
    assert_send_sync::<Lowered>();
    assert_send_sync::<LoweredFor<(Tensor, Vec<Tensor>)>>();
    assert_send_sync::<Imported>();
    assert_send_sync::<Error>();
    assert_send_sync::<Jit<fn(Tensor) -> Tensor, (Tensor,)>>();
    assert_send_sync::<Trainer<Tensor, Tensor>>();
    assert_send_sync::<Step<(Tensor, Tensor), Tensor>>();
    assert_send_sync::<NamedJit<Tensor, Tensor>>();
    assert_value(jit(|x: Tensor| x * 2.0));
}

/// The sum of squares and the doubled input, for `rows` rows.
fn expected(rows: i64, shift: f32) -> (f32, Vec<f32>) {
    let x: Vec<f32> = (0..rows * 4).map(|i| i as f32 + shift).collect();
    (x.iter().map(|v| v * v).sum(), x.iter().map(|v| v * 2.0).collect())
}

#[test]
fn eight_threads_share_one_jit_with_several_signatures() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let traces = AtomicUsize::new(0);
    let count = |x: Tensor| {
        traces.fetch_add(1, Ordering::Relaxed);
        ((&x * &x).sum_all(), x * 2.0)
    };
    let f = assert_value(jit(count).on(&mesh).in_shardings([P!["x"]]));
    let signatures = [2i64, 4, 6, 8];
    let barrier = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (f, barrier) = (&f, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for round in 0..4 {
                    for turn in 0..signatures.len() {
                        let rows = signatures[(turn + number) % signatures.len()];
                        let shift = (number + round) as f32;
                        let x = Array::from_fn([rows, 4], |i| (i[0] * 4 + i[1]) as f32 + shift);
                        let (sum, doubled) = f.call(&x).unwrap();
                        let (wanted_sum, wanted) = expected(rows, shift);
                        assert_eq!(sum.item::<f32>().unwrap(), wanted_sum);
                        assert_eq!(doubled.to_vec::<f32>().unwrap(), wanted);
                    }
                }
            });
        }
    });
    // Each thread traces a signature at most once: from then on it is known.
    let traces = traces.load(Ordering::Relaxed);
    assert!((signatures.len()..=signatures.len() * THREADS).contains(&traces), "{traces} traces");
}

#[test]
fn two_threads_trace_a_new_signature_at_most_twice_and_run_the_same_program() {
    let traces = AtomicUsize::new(0);
    let f = jit(|x: Tensor| {
        traces.fetch_add(1, Ordering::Relaxed);
        x.exp().sum_all()
    });
    let barrier = Barrier::new(2);
    let x = Array::from([0.0f32, 0.0]);
    let lowered: Vec<LoweredFor<Tensor>> = thread::scope(|scope| {
        let call = || {
            barrier.wait();
            assert_eq!(f.call(&x).unwrap().item::<f32>().unwrap(), 2.0);
            f.lower(&x).unwrap()
        };
        let both = [scope.spawn(call), scope.spawn(call)];
        both.map(|thread| thread.join().unwrap()).into_iter().collect()
    });
    assert!(traces.load(Ordering::Relaxed) <= 2);
    assert!(std::ptr::eq(&*lowered[0] as &Lowered, &*lowered[1]), "the first program wins");
}

#[test]
fn an_error_of_one_thread_leaves_the_function_usable_for_the_others() {
    let f = jit(|a: Tensor, b: Tensor| a.matmul(&b));
    let (a, b) = (Array::full([2, 3], 1.0f32), Array::full([3, 2], 1.0f32));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (f, a, b) = (&f, &a, &b);
            scope.spawn(move || {
                if number % 2 == 0 {
                    assert!(f.call((a, a)).unwrap_err().to_string().starts_with("matmul: [2, 3] x [2, 3]"));
                } else {
                    assert_eq!(f.call((a, b)).unwrap().to_vec::<f32>().unwrap(), [3.0; 4]);
                }
            });
        }
    });
}

#[test]
fn a_jit_that_is_called_while_another_program_is_traced_does_not_deadlock() {
    let inner = jit(|x: Tensor| x + 1.0);
    let ones = Array::from([1.0f32]);
    let outer = jit(|x: Tensor| {
        // On another thread and on this one, in the middle of a trace.
        let other = thread::scope(|s| s.spawn(|| inner.call(&ones).unwrap().item::<f32>().unwrap()).join().unwrap());
        let here = inner.call(&ones).unwrap().item::<f32>().unwrap();
        x * f64::from(other + here)
    });
    assert_eq!(outer.call(&ones).unwrap().to_vec::<f32>().unwrap(), [4.0]);
}

#[test]
fn a_trainer_is_built_on_one_thread_and_steps_on_another() {
    let loss = |w: &Tensor, x: &Tensor| (w * x).square().mean_all();
    let trainer = Trainer::new(loss, Optimizer::sgd(0.1));
    let step = Arc::new(thread::spawn(move || trainer.build()).join().unwrap());
    let w = Array::from([1.0f32, 2.0]);
    let x = Array::from([1.0f32, 1.0]);
    let here = step.step(&step.init(&w).unwrap(), &x).unwrap();
    let there = thread::spawn({
        let (step, x) = (step.clone(), x.clone());
        move || step.step(&step.init(&w).unwrap(), &x).unwrap()
    });
    let there = there.join().unwrap();
    assert_eq!(here.0.item::<f32>().unwrap(), there.0.item::<f32>().unwrap());
    assert_eq!(here.1.0.to_vec::<f32>().unwrap(), there.1.0.to_vec::<f32>().unwrap());
}

#[test]
fn a_lowered_program_answers_on_another_thread() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|x: Tensor| x.sum_all()).on(&mesh).in_shardings([P!["x"]]);
    let lowered = f.lower(&Array::shape_only([8], F32)).unwrap();
    let plan = thread::spawn(move || lowered.plan().unwrap().clone()).join().unwrap();
    assert_eq!(plan.totals()["all-reduce"].count, 1);
}
