//! The likeliest mistakes: each message names the operation, the numbers and the line.

use std::cell::RefCell;

use meshwork::prelude::*;

/// The message of a program of one 2x3 matrix that cannot be traced.
fn message<O: Tree>(f: impl Fn(Tensor) -> O) -> String {
    match jit(f).call(&Array::zeros([2, 3], F32)) {
        Ok(_) => panic!("the program was traced"),
        Err(e) => e.to_string(),
    }
}

/// Compares a message without its line, and checks that the line is one of this file.
#[track_caller]
fn expect<O: Tree>(f: impl Fn(Tensor) -> O, wanted: &str) {
    let message = message(f);
    let (text, at) = message.split_once("\n  at ").unwrap_or((&message, ""));
    assert_eq!(text, wanted);
    assert!(at.contains("tests/errors.rs:"), "{message}");
}

#[test]
fn the_line_is_the_users() {
    let line = line!() + 1;
    let message = message(|x| x.matmul(&x));
    assert!(message.ends_with(&format!("tests/errors.rs:{line}:33")), "{message}");
}

#[test]
fn shapes_that_do_not_fit() {
    expect(|x| x.matmul(&x), "matmul: [2, 3] x [2, 3]: inner dimensions differ: 3 (left) vs 2 (right)");
    expect(
        |x| &x + x.t(),
        "add: shapes [2, 3] and [3, 2] do not broadcast: axis 2 from the end has extents 2 and 3, which must be equal or 1",
    );
    expect(|x| x.reshape([4, 2]), "reshape: shape [2, 3] has 6 elements, [4, 2] has 8");
    expect(|x| x.reshape([4, -1]), "reshape: 6 elements of shape [2, 3] do not fill [4, -1]");
    expect(
        |x| concatenate(&[x.clone(), x.t()], 0),
        "concatenate: part 1 of shape [3, 2] does not fit part 0 of shape [2, 3] along axis 0",
    );
    expect(
        |x| x.at(s![0]).set(zeros([2], F32)),
        "at.set: a value of shape [2] does not broadcast to the part of shape [3]",
    );
}

#[test]
fn axes_and_indices() {
    expect(|x| x.sum(&[2]), "sum: axis 2 is out of range for a tensor of rank 2; use -2..2");
    expect(|x| x.sum(&[0, -2]), "sum: axis 0 is named twice in [0, -2]");
    expect(|x| x.slice(s![2]), "slice: index 2 is out of range for axis 0 of extent 2, shape [2, 3]");
    expect(|x| x.slice(s![.., .., 0]), "slice: 3 indices for a tensor of rank 2, shape [2, 3]");
    expect(|x| einsum("ij,jk->ik", &[&x, &x]), "einsum: 'j' in \"ij,jk->ik\" has extent 3 and extent 2");
    expect(
        |x| einsum("ij->ijé", &[&x]),
        "einsum: 'é' of the result of \"ij->ijé\" must appear in a term, and only once in the result",
    );
    expect(|x| x.softmax(2), "softmax: axis 2 is out of range for a tensor of rank 2; use -2..2");
    expect(|x| x.sum_all().layer_norm(0.1), "layer_norm: axis -1: a scalar has no axes");
}

#[test]
fn element_types() {
    expect(
        |x| &x + x.to(F64),
        "add: element types f32 and f64 differ (shapes [2, 3] and [2, 3]); convert one with .to(..)",
    );
    expect(|x| x.to(I32) * 0.5, "mul: the float 0.5 with a tensor of i32; convert the tensor with .to(F32) first");
    expect(|x| x.to(I8) + 200, "add: the number 200 does not fit in i8");
    expect(
        |x| einsum("ij,ij->", &[&x, &x.to(F64)]),
        "einsum: element types f32 and f64 differ (shapes [2, 3] and [2, 3]); convert one with .to(..)",
    );
    expect(|x| x.to(I32).softmax(-1), "softmax: an i32 tensor of shape [2, 3] where the operation takes real floats");
    expect(
        |x| select(x.gt(0.0), x.to(I32), 0.5),
        "select: the float 0.5 with a tensor of i32; convert the tensor with .to(F32) first",
    );
    expect(
        |x| x.to(I32).sin(),
        "sin: an i32 tensor of shape [2, 3] where the operation takes floats; convert with .to(F32)",
    );
    expect(
        |x| select(&x, &x, 0.0),
        "select: the condition is an f32 tensor of shape [2, 3]; it must be i1: compare first",
    );
}

#[test]
fn loops() {
    expect(
        |x| for_loop(0..2, x, |_, x| x.t()),
        "for_loop: the body takes an f32 tensor of shape [2, 3] at 1 and returns an f32 tensor of shape [3, 2] there",
    );
    expect(
        |x| while_loop(x, |x| x.lt(1.0), |x| x),
        "while_loop: the condition is an i1 tensor of shape [2, 3]; it must be an i1 scalar",
    );
    let leaked: RefCell<Option<Tensor>> = RefCell::default();
    expect(
        |x| {
            for_loop(0..2, x.clone(), |_, x| {
                *leaked.borrow_mut() = Some(x.sin());
                x
            });
            leaked.borrow().clone().unwrap() + 1.0
        },
        "add: an f32 tensor of shape [2, 3] was made inside a loop body or branch that has ended; return it from the \
         body to use it outside",
    );
}

#[test]
fn a_tensor_of_another_trace() {
    let leaked: RefCell<Option<Tensor>> = RefCell::default();
    jit(|x: Tensor| {
        *leaked.borrow_mut() = Some(x.clone());
        x
    })
    .call(&Array::zeros([2, 3], F32))
    .unwrap();
    expect(
        |x| x + leaked.borrow().clone().unwrap(),
        "add: an f32 tensor of shape [2, 3] belongs to another trace, which has ended; pass it to this function as an \
         argument or return it from the other",
    );
}

/// Compares the message of an error without its line, and checks that the line is one of this file.
#[track_caller]
fn fails<T, E: Into<Error>>(result: Result<T, E>, wanted: &str) {
    let Err(error) = result else { panic!("no error") };
    let message = error.into().to_string();
    let (text, at) = message.split_once("\n  at ").unwrap_or((&message, ""));
    assert_eq!(text, wanted);
    assert!(at.contains("tests/errors.rs:"), "{message}");
}

#[test]
fn placements() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let x = Array::zeros([2, 3], F32);
    let shard = |p: P| x.clone().shard(&mesh, p);
    fails(shard(P!["y"]), "P![\"y\"] for an array of shape [2, 3]: unknown axis name: \"y\"; the mesh is <[\"x\"=2]>");
    fails(
        shard(P!["x", "x"]),
        "P![\"x\", \"x\"] for an array of shape [2, 3]: duplicate axis ref: \"x\"; an axis can be used once in a sharding",
    );
    fails(
        shard(P![_, _, "x"]),
        "P![_, _, \"x\"] for an array of shape [2, 3]: it names 3 dimensions, and there are 2; one entry per dimension, _ \
         for none",
    );
    let inside = jit(|x: Tensor| x.shard(P!["y"])).on(&mesh).call(&x);
    fails(
        inside,
        "shard: P![\"y\"] for an f32 tensor of shape [2, 3]: unknown axis name: \"y\"; the mesh is <[\"x\"=2]>",
    );
    expect(
        |x| x.shard(P!["x"]),
        "shard: P![\"x\"] names mesh axes, but there is no mesh; give jit one with .on(&mesh), or pass an array that is \
         on one",
    );
    fails(
        jit(|x: Tensor| x).on(&mesh).in_shardings([P![], P![]]).call(&x),
        "jit: in_shardings has 2 rules for 1 arguments",
    );
    let weights = |p: (Tensor, Tensor)| p.0 + p.1;
    fails(
        jit(weights).on(&mesh).in_shardings([P!["model"]]).call(&(x.clone(), x.clone())),
        "P![\"model\"] for argument 0/0 of shape [2, 3]: unknown axis name: \"model\"; the mesh is <[\"x\"=2]>",
    );
    fails(
        jit(weights).on(&mesh).out_shardings([P![_, _, "x"]]).call(&(x.clone(), x.clone())),
        "P![_, _, \"x\"] for result of shape [2, 3]: it names 3 dimensions, and there are 2; one entry per dimension, _ \
         for none",
    );
    fails(
        jit(|x: Tensor| x).in_shardings([P!["x"]]).call(&x),
        "jit: in_shardings and out_shardings need a mesh: give jit one with .on(&mesh)",
    );
    let other = x.clone().shard(&Mesh::linear("x", 4).unwrap(), P![]).unwrap();
    fails(
        jit(|x: Tensor| x).on(&mesh).call(&other),
        "jit: argument 0 is on the mesh <[\"x\"=4]>, the program on <[\"x\"=2]>",
    );
}

/// Regions written for one device: parts that do not come out equal, axes and results that do not fit.
#[test]
fn manual_regions() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let u = Array::zeros([102], F32);
    fails(
        jit(|u: Tensor| shard_map(["x"], [P!["x"]], [P!["x"]], u, |u: Tensor| u)).on(&mesh).call(&u),
        "shard_map: argument, an f32 tensor of shape [102], is placed P![\"x\"]: dimension 0 has 102 elements, which \
         [\"x\"] cannot split in 4 equal parts; pad it to 104, or leave it to the automatic program, which takes any extent",
    );
    let pair = (Array::zeros([8], F32), Array::zeros([4, 6], F32));
    let second =
        jit(|p: (Tensor, Tensor)| shard_map(["x"], [P!["x"], P![_, "x"]], [P!["x"]], p, |(a, _): (Tensor, Tensor)| a));
    fails(
        second.on(&mesh).call(&pair),
        "shard_map: argument 1, an f32 tensor of shape [4, 6], is placed P![_, \"x\"]: dimension 1 has 6 elements, which \
         [\"x\"] cannot split in 4 equal parts; pad it to 8, or leave it to the automatic program, which takes any extent",
    );
    let u = Array::zeros([8], F32);
    let on = |f: fn(Tensor) -> Tensor| jit(move |u: Tensor| shard_map(["x"], [P!["x"]], [P!["x"]], u, f)).on(&mesh);
    fails(on(|u| u.psum("y")).call(&u), "psum: \"y\" is not a manual axis: the manual axes here are [\"x\"]");
    fails(
        on(|u| u.shard(P!["x"])).call(&u),
        "shard: P![\"x\"] names \"x\", which is manual here: each device has its own part",
    );
    fails(on(|u| u.ppermute("x", &[(3, 4)])).call(&u), "ppermute: the pair (3, 4) is not within the 4 devices");
    fails(
        on(|u| u.ppermute("x", &[(0, 1), (2, 1)])).call(&u),
        "ppermute: the pairs (0, 1) and (2, 1) have the same target",
    );
    fails(
        on(|u| u.psum_scatter("x", 0)).call(&u),
        "psum_scatter: dimension 0 of an f32 tensor of shape [2] has 2 elements, which 4 devices cannot share equally",
    );
    fails(
        jit(|u: Tensor| u.psum("x")).on(&mesh).call(&u),
        "psum: \"x\" is not a manual axis: there is no shard_map around it",
    );
    fails(
        jit(|u: Tensor| shard_map(["z"], [P![]], [P![]], u, |u: Tensor| u)).on(&mesh).call(&u),
        "shard_map: unknown axis name: \"z\"; the mesh is <[\"x\"=4]>",
    );
    fails(
        jit(|u: Tensor| shard_map(["x"], [P!["x"]], [P![]], u, |u: Tensor| u.sum_all())).on(&mesh).call(&u),
        "shard_map: result is placed P![], so all devices along \"x\" must return the same value, but it may differ between \
         them; combine it by psum, pmean, pmax or all_gather over \"x\", or split it over \"x\" in outs",
    );
    fails(
        jit(|u: Tensor| shard_map(["x"], [P![], P![]], [P![]], u, |u: Tensor| u)).on(&mesh).call(&u),
        "shard_map: ins has 2 placements for 1 members",
    );
    fails(
        jit(|u: Tensor| shard_map(["x"], [P!["x"]], [P!["x"]], u, |u: Tensor| u)).call(&u),
        "shard_map: there is no mesh whose axes could be named; give jit one with .on(&mesh), or pass an array that is on \
         one",
    );
}

/// A maximum over devices has no derivative rule; the message says which operation of which line.
#[test]
fn a_derivative_that_a_region_does_not_have() {
    let mesh = Mesh::linear("x", 4).unwrap();
    let line = line!() + 2;
    let largest = |u: Tensor| shard_map(["x"], [P!["x"]], [P![]], u, |u: Tensor| u.max_all().pmax("x"));
    let f = jit(move |u: Tensor| grad(largest, u)).on(&mesh);
    let message = f.call(&Array::zeros([8], F32)).unwrap_err().to_string();
    assert!(message.contains("all_reduce") && message.contains("only sums over devices have a rule"), "{message}");
    assert!(message.contains(&format!("errors.rs:{line}")), "{message}");
}

#[test]
fn arrays() {
    fails(Array::from_vec([2, 2], vec![1.0f32]), "1 elements do not fill the shape [2, 2], which has 4");
    fails(
        Array::from([1.0f32]).to_vec::<f64>(),
        "the array has elements of type f32, not f64; read it with to_f64s, or convert it in the program",
    );
    fails(Array::from([1.0f32, 2.0]).item::<f32>(), "an array of shape [2] is not a single element");
    fails(
        jit(|x: Tensor| x).call(&Array::shape_only([2], F32)),
        "jit: argument 0: the array of shape [2] is abstract: it can be lowered and planned with, not run",
    );
    let mesh = Mesh::linear("x", 2).unwrap();
    let pieces = [Array::zeros([2], F32), Array::zeros([2], F32)];
    fails(Array::from_shards([3], &mesh, &P!["x"], &pieces), "piece 1 has shape [2]; device 1 holds [1] of the array");
    fails(
        Array::from_shards([3], &mesh, &P!["x"], &pieces[..1]),
        "1 pieces for 2 devices; give one piece per device, in order of device id",
    );
}

/// An array whose memory a call was given: its message names that call, and the one that wants it again its own line.
#[test]
fn donated_arrays() {
    let step = jit(|x: Tensor, v: Tensor| x + v).donate([0]);
    let (x, v) = (Array::zeros([3], F32), Array::zeros([3], F32));
    let (copy, clone, line) = (x.copy().unwrap(), x.clone(), line!() + 1);
    step.call((&x, &v)).unwrap();
    let gone = format!("the array of shape [3] was donated to the call at {}:{line}:10", file!());
    let rest = ", whose results have its memory now; use those, or leave the argument out of donate";
    fails(step.call((&x, &v)), &format!("jit: argument 0: {gone}{rest}"));
    fails(x.to_vec::<f32>(), &format!("{gone}{rest}"));
    fails(clone.item::<f32>(), &format!("{gone}{rest}"));
    assert!(copy.to_vec::<f32>().is_ok() && v.to_vec::<f32>().is_ok());
    fails(step.call((&v, &v)), "jit: argument 0 is donated, and argument 1 is the same array");
    // A call that fails before it runs takes nothing.
    step.call((&v, &Array::zeros([4], F32))).unwrap_err();
    assert!(v.to_vec::<f32>().is_ok());
}

#[test]
fn gradients_and_trees() {
    expect(
        |x| grad(|x: Tensor| x.sin(), x),
        "grad: the function returns an f32 tensor of shape [2, 3]; it must be a float scalar",
    );
    expect(
        |x| tree_map([&vec![x.clone()], &vec![x.clone(), x.clone()]], |[a, b]| a + b),
        "tree_map: tree 0 has 1 tensors, tree 1 has 2",
    );
}

/// A function that uses a tensor of the enclosing function is not a function of its arguments.
#[test]
fn a_tensor_of_the_trace_around() {
    let outer = jit(|x: Tensor| {
        let y = x.clone();
        let inner = jit(move |z: Tensor| z + &y).call(&Array::zeros([2, 3], F32));
        fails(
            inner,
            "jit: the function uses an f32 tensor of shape [2, 3] of the trace around it; pass it as an argument",
        );
        x
    });
    outer.call(&Array::zeros([2, 3], F32)).unwrap();
}

#[test]
fn other_panics_pass_through() {
    let f = jit(|x: Tensor| if x.rank() == 1 { panic!("mine") } else { x });
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f.call(&Array::zeros([2], F32))));
    assert_eq!(caught.err().and_then(|p| p.downcast_ref::<&str>().copied()), Some("mine"));
    // The trace that was abandoned leaves nothing behind.
    assert!(f.call(&Array::zeros([2, 2], F32)).is_ok());
}

/// Not a test: a program that uses a tensor where nothing is traced, for the next one.
#[test]
fn child_that_uses_a_tensor_outside() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let kept = RefCell::new(None);
    jit(|x: Tensor| {
        *kept.borrow_mut() = Some(x.clone());
        x
    })
    .call(&Array::zeros([2], F32))
    .unwrap();
    let kept = kept.take().unwrap();
    match std::env::var(CHILD).as_deref() {
        Ok("operator") => drop(&kept + &kept),
        Ok("creation") => drop(zeros([2], F32)),
        Ok("check") => drop(kept.matmul(kept.reshape([1, 2]))),
        Ok("gradient") => drop(grad(|x: Tensor| x.sum_all(), kept)),
        // It fails before there could be a result.
        Ok("misuse") => drop(grad(|x: Tensor| x.reshape([3]).sum_all(), kept)),
        Ok("annotation") => drop(annotate("a", kept)),
        other => panic!("{other:?}"),
    }
}

const CHILD: &str = "MESHWORK_TEST_OUTSIDE";

#[test]
fn a_tensor_outside_of_a_trace_panics_with_a_message() {
    for how in ["operator", "creation", "check", "gradient", "misuse", "annotation"] {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_that_uses_a_tensor_outside", "--nocapture"]).env(CHILD, how);
        let output = command.output().unwrap();
        assert!(!output.status.success(), "{how}");
        let said = String::from_utf8_lossy(&output.stderr);
        let is_named = said.contains("there is no trace: tensors exist only inside a function that jit traces");
        assert!(is_named || (how == "misuse" && said.contains("reshape: ")), "{how}: {said}");
        assert!(said.contains("tests/errors.rs:"), "{how}: {said}");
    }
}

/// What `fn main() -> Result<(), Error>` and `unwrap` print.
#[test]
fn debug_of_errors_reads_like_display() {
    let error = jit(|x: Tensor| x.matmul(&x)).call(&Array::zeros([2, 3], F32)).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = Mesh::linear("x", 0).unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = Array::zeros([4], F32).to_vec::<i32>().unwrap_err();
    assert_eq!(format!("{error:?}"), error.to_string());
    let error = Imported::from_mlir("func.func @main(").err().unwrap();
    assert_eq!(format!("{error:?}"), error.to_string());
}
