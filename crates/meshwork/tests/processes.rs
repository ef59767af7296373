//! Programs and host arrays over several processes, started by `mpirun`.
#![cfg(feature = "mpi")]

use meshwork::prelude::*;
use meshwork::{ProcessError, ReduceOp};
use meshwork_testing::ranks::{self, across};

#[test]
fn host_arrays_go_from_process_to_process() {
    across(&[2, 3], "host_arrays_go_from_process_to_process", || {
        let runtime = Runtime::init().unwrap();
        let (rank, size) = (runtime.rank() as i64, runtime.size() as i64);
        let all = Array::from_fn([7, 2], |i| (10 * i[0] + i[1]) as f32);
        let mine = runtime.scatter_array(1, (rank == 1).then_some(&all)).unwrap();
        assert_eq!(mine.shape()[0], 7 / size + i64::from(rank < 7 % size));
        let gathered = runtime.gather_array(0, &mine).unwrap();
        assert_eq!(gathered.is_some(), rank == 0);
        assert!(gathered.is_none_or(|g| g.literal().unwrap() == all.literal().unwrap()));
        assert_eq!(runtime.all_gather_array(&mine).unwrap().literal().unwrap(), all.literal().unwrap());
        let sum = runtime.all_reduce_array(ReduceOp::Sum, &Array::full([3], rank)).unwrap();
        assert_eq!(sum.to_vec::<i64>().unwrap(), [size * (size - 1) / 2; 3]);
        let received = runtime.broadcast_array(1, (rank == 1).then_some(&all)).unwrap();
        assert_eq!(received.literal().unwrap(), all.literal().unwrap());
        if rank == 0 {
            runtime.send_array(1, &Array::scalar(5i32)).unwrap();
        }
        if rank == 1 {
            assert_eq!(runtime.receive_array(0).unwrap().item::<i32>().unwrap(), 5);
        }
    });
}

#[test]
fn what_is_wrong_with_the_root_is_the_same_error_on_all() {
    across(&[3], "what_is_wrong_with_the_root_is_the_same_error_on_all", || {
        let runtime = Runtime::init().unwrap();
        let scalar = Array::scalar(1.0f32);
        let errors = [
            runtime.scatter_array(0, None).unwrap_err(),
            runtime.scatter_array(2, Some(&scalar)).unwrap_err(),
            runtime.broadcast_array(1, None).unwrap_err(),
        ];
        let wanted = [
            "scatter_array: rank 0 is the root and gives no array",
            "scatter_array: a scalar has no dimension to cut; broadcast it",
            "broadcast_array: rank 1 is the root and gives no array",
        ];
        assert_eq!(errors.map(|e| e.to_string()), wanted);
        // All are still together.
        runtime.barrier().unwrap();
        assert!(matches!(runtime.broadcast(7, &[]), Err(ProcessError::Failed(_))));
    });
}

/// A rod of heat, by hand.
fn heat(mut u: Vec<f64>, steps: usize) -> Vec<f64> {
    for _ in 0..steps {
        let old = u.clone();
        for i in 1..u.len() - 1 {
            u[i] = 0.5 * old[i] + 0.25 * old[i - 1] + 0.25 * old[i + 1];
        }
    }
    u
}

#[test]
fn a_program_runs_on_devices_of_several_processes() {
    across(&[2, 3], "a_program_runs_on_devices_of_several_processes", || {
        let runtime = Runtime::init().unwrap();
        let mesh = Mesh::linear("x", 4).unwrap();
        let first = |i: i64| if i == 51 { 1.0 } else { 0.0 };
        let u = Array::from_fn([102], |i| first(i[0])).shard(&mesh, P!["x"]).unwrap();
        let simulate = jit(|u: Tensor| {
            for_loop(0..30, u, |_, u| {
                let next = 0.5 * u.slice(s![1..-1]) + 0.25 * u.slice(s![..-2]) + 0.25 * u.slice(s![2..]);
                u.at(s![1..-1]).set(next)
            })
        });
        let v = simulate.call(&u).unwrap();
        // Nobody gathers for a message.
        assert_eq!(v.to_string(), r#"f64[102] <mesh<["x"=4]>, [{"x"}]>"#);
        let want = heat((0..102).map(first).collect(), 30);
        let got = v.to_vec::<f64>().unwrap();
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12));
        // What all devices have can be read by one process alone.
        let total = jit(|u: Tensor| u.sum(&[0])).call(&v).unwrap();
        if runtime.rank() == 0 {
            assert!((total.item::<f64>().unwrap() - 1.0).abs() < 1e-12);
        }
        // From one placement to another.
        let w = simulate.call(&v.shard(&Mesh::linear("x", 3).unwrap(), P!["x"]).unwrap()).unwrap();
        let want = heat(want, 30);
        assert!(w.to_vec::<f64>().unwrap().iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-12));
    });
}

/// The example in both styles, which cargo builds with the tests.
#[test]
fn the_array_addition_of_the_tutorial() {
    let own = std::env::current_exe().unwrap();
    let example = own.parent().and_then(|deps| deps.parent()).unwrap().join("examples/mpi_add");
    assert!(example.exists(), "{} is missing: cargo build --features mpi --examples", example.display());
    for ranks in [1, 3, 4] {
        let output = ranks::output(ranks::mpirun(ranks).arg(&example));
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{err}");
        assert_eq!(out, format!("{ranks} processes: c[0] = 0, c[102] = 306\n"), "{err}");
    }
}
