//! Functions of the host that running programs call: how often, with what, on which device.

use std::sync::Mutex;

use meshwork::prelude::*;
use meshwork::{Reference, debug_callback, debug_print, pure_callback};

type Seen = Mutex<Vec<(usize, Vec<f32>)>>;

/// What was seen so far, in order of devices and values.
fn taken(seen: &Seen) -> Vec<(usize, Vec<f32>)> {
    let mut all = std::mem::take(&mut *seen.lock().unwrap());
    all.sort_by(|a, b| a.partial_cmp(b).unwrap());
    all
}

/// Declares a function that notes what it is called with.
macro_rules! noting {
    ($name:ident, $seen:ident) => {
        static $seen: Seen = Mutex::new(vec![]);

        fn $name(device: usize, values: &[Array]) {
            $seen.lock().unwrap().push((device, values[0].to_vec::<f32>().unwrap()));
        }
    };
}

fn numbers() -> Array {
    Array::from_fn([6], |i| i[0] as f32)
}

#[test]
fn whole_arrays_are_given_once_on_any_mesh() {
    noting!(note, SEEN);
    let f = |x: Tensor| {
        let y = x * 2.0;
        debug_callback(note, &[&y]);
        y
    };
    let wanted = vec![(0, vec![0.0, 2.0, 4.0, 6.0, 8.0, 10.0])];
    jit(f).call(&numbers()).unwrap();
    assert_eq!(taken(&SEEN), wanted);
    jit(f).engine(Reference).call(&numbers()).unwrap();
    assert_eq!(taken(&SEEN), wanted);
    // Four devices with two elements each, the last with none.
    let mesh = Mesh::linear("x", 4).unwrap();
    let split = jit(f).on(&mesh).in_shardings([P!["x"]]).out_shardings([P!["x"]]);
    assert_eq!(split.call(&numbers()).unwrap().to_vec::<f32>().unwrap(), wanted[0].1);
    assert_eq!(taken(&SEEN), wanted);
}

#[test]
fn inside_shard_map_each_device_calls_with_its_own() {
    noting!(note, SEEN);
    let mesh = Mesh::linear("x", 3).unwrap();
    let f = jit(|x: Tensor| {
        shard_map(["x"], [P!["x"]], [P!["x"]], x, |x: Tensor| {
            debug_callback(note, &[&x]);
            x + 1.0
        })
    });
    f.on(&mesh).call(&numbers()).unwrap();
    assert_eq!(taken(&SEEN), [(0, vec![0.0, 1.0]), (1, vec![2.0, 3.0]), (2, vec![4.0, 5.0])]);
}

#[test]
fn loops_gradients_and_batches_call() {
    noting!(note, SEEN);
    let seen_values = || taken(&SEEN).into_iter().map(|(_, v)| v[0]).collect::<Vec<_>>();
    let looped = jit(|x: Tensor| {
        for_loop(0..3, x, |_, x| {
            debug_callback(note, &[&x]);
            x + 1.0
        })
    });
    looped.call(&Array::scalar(5.0f32)).unwrap();
    assert_eq!(seen_values(), [5.0, 6.0, 7.0]);

    let square = |x: Tensor| {
        debug_callback(note, &[&x]);
        x.square().sum_all()
    };
    let slope = jit(move |x: Tensor| grad(square, x)).call(&Array::scalar(3.0f32)).unwrap();
    assert_eq!((slope.item::<f32>().unwrap(), seen_values()), (6.0, vec![3.0]));

    let each = jit(move |x: Tensor| vmap(square, x)).call(&Array::from([1.0f32, 2.0])).unwrap();
    assert_eq!((each.to_vec::<f32>().unwrap(), seen_values()), (vec![1.0, 4.0], vec![1.0, 2.0]));
}

/// Nothing after the call uses what it is called with.
#[test]
fn a_call_is_not_dead_code() {
    noting!(note, SEEN);
    let f = jit(|x: Tensor| {
        debug_callback(note, &[&(&x + 1.0)]);
        debug_print("nothing of this is used: {}", &[&x.sum_all()]);
        x
    });
    f.call(&Array::from([1.0f32])).unwrap();
    assert_eq!(taken(&SEEN), [(0, vec![2.0])]);
}

fn reversed(values: &[Array]) -> Vec<Array> {
    let mut elements = values[0].to_vec::<f32>().unwrap();
    elements.reverse();
    vec![Array::from(elements)]
}

#[test]
fn pure_functions_compute_on_any_mesh() {
    let f = |x: Tensor| &pure_callback(reversed, &[&(&x * 2.0)], &[(x.shape(), F32)])[0] + &x;
    let wanted = jit(f).call(&numbers()).unwrap();
    assert_eq!(wanted.to_vec::<f32>().unwrap(), [10.0, 9.0, 8.0, 7.0, 6.0, 5.0]);
    let mesh = Mesh::linear("x", 4).unwrap();
    let split = jit(f).on(&mesh).in_shardings([P!["x"]]).out_shardings([P!["x"]]);
    assert!(split.call(&numbers()).unwrap().all_close(&wanted, 0.0));
}

#[test]
fn what_is_wrong_with_a_function_is_said() {
    let wrong = |f: &dyn Fn(Tensor) -> Tensor| jit(f).call(&numbers()).unwrap_err().to_string();
    let shape = wrong(&|x| pure_callback(reversed, &[&x], &[(&[3], F32)])[0].clone());
    assert!(shape.contains("array 0 that the function returned is f32[6]; f32[3] was declared"), "{shape}");
    let count = wrong(&|x| pure_callback(|_| vec![], &[&x], &[(&[3], F32)])[0].clone());
    assert!(count.contains("the function returned 0 arrays; 1 were declared"), "{count}");
    let slope = wrong(&|x| grad(|x: Tensor| pure_callback(reversed, &[&x], &[(&[6], F32)])[0].sum_all(), x));
    assert!(slope.contains("custom call"), "{slope}");
    let places = wrong(&|x| {
        debug_print("{} and {}", &[&x]);
        x
    });
    assert!(places.starts_with("debug_print: \"{} and {}\" has places for 2 values, and 1 are given"), "{places}");
}
