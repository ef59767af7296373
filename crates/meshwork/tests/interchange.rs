//! Programs and arrays from and to the outside: MLIR text, files, `ndarray`, `half`.

#![allow(clippy::single_range_in_vec_init)] // slices of arrays of one dimension

use meshwork::prelude::*;
use meshwork_testing::wave_f32 as wave;

/// What `jax.export` writes for `lambda w, x: (jax.nn.relu(x @ w).sum(), x + 1)`, shortened; programs as they come are in
/// `tests/data/exported`.
const EXPORTED: &str = r#"
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<3x2xf32> loc("w"), %arg1: tensor<4x3xf32> loc("x")) -> (tensor<f32> {jax.result_info = "result[0]"}, tensor<4x3xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x3xf32>, tensor<3x2xf32>) -> tensor<4x2xf32>
    %1 = call @relu(%0) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<4x3xf32>
    %3 = stablehlo.add %arg1, %cst_0 : tensor<4x3xf32>
    return %2, %3 : tensor<f32>, tensor<4x3xf32>
  }
  func.func private @relu(%arg0: tensor<4x2xf32>) -> tensor<4x2xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<4x2xf32>
    %0 = stablehlo.maximum %arg0, %cst : tensor<4x2xf32>
    return %0 : tensor<4x2xf32>
  }
}
"#;

#[test]
fn imported_functions_are_called_traced_differentiated_and_split() {
    let f = Imported::from_mlir(EXPORTED).unwrap();
    let own = |w: &Tensor, x: &Tensor| x.matmul(w).relu().sum_all();
    let (w, x) = (wave(&[3, 2]), wave(&[4, 3]));
    let out = f.call(&[&w, &x]).unwrap();
    let want = jit(move |w: Tensor, x: Tensor| own(&w, &x)).call((&w, &x)).unwrap();
    assert!(out[0].all_close(&want, 1e-6));

    let g = f.clone();
    let slope = jit(move |w: Tensor, x: Tensor| grad(|w: Tensor| g.apply(&[w, x])[0].clone(), w));
    let own_slope = jit(move |w: Tensor, x: Tensor| grad(|w: Tensor| own(&w, &x), w));
    let want = own_slope.call((&w, &x)).unwrap();
    assert!(slope.call((&w, &x)).unwrap().all_close(&want, 1e-6));

    let mesh = Mesh::linear("x", 4).unwrap();
    let (g, h) = (f.clone(), f.clone());
    let split = jit(move |w: Tensor, x: Tensor| grad(|w: Tensor| g.apply(&[w, x])[0].clone(), w)).on(&mesh);
    assert!(split.in_shardings([P![], P!["x"]]).call((&w, &x)).unwrap().all_close(&want, 1e-6));
    // Batched over several w.
    let many = jit(move |w: Tensor, x: Tensor| vmap(|w: Tensor| h.apply(&[w, x.clone()])[0].clone(), w));
    assert_eq!(many.call((&wave(&[5, 3, 2]), &x)).unwrap().shape(), [5]);
}

/// A program that JAX wrote (`bench/exchange.py record`), its arguments, and what JAX computed for them.
fn from_jax(name: &str) -> (Imported, Vec<Array>, Vec<Array>) {
    let path = |kind: &str| format!("{}/tests/data/exported/{name}.{kind}", env!("CARGO_MANIFEST_DIR"));
    let f = Imported::from_mlir(&std::fs::read_to_string(path("mlir")).unwrap()).unwrap();
    let numbers = Array::load_npy(path("npy")).unwrap().to_vec::<f32>().unwrap();
    let main = f.module().entry().unwrap();
    let results = f.module().func_type(main).results;
    let mut at = 0;
    let mut take = |ty: &meshwork_ir::Type| {
        let count = ty.dims().iter().product::<i64>() as usize;
        at += count;
        Array::from_slice(ty.dims(), &numbers[at - count..at]).unwrap()
    };
    let args = f.arguments().iter().map(&mut take).collect();
    let results = results.iter().map(&mut take).collect();
    assert_eq!(at, numbers.len(), "{name}");
    (f, args, results)
}

#[track_caller]
fn all_close(name: &str, found: &[Array], wanted: &[Array]) {
    assert_eq!(found.len(), wanted.len());
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        assert!(found.all_close(wanted, 1e-5), "{name}, result {i}: {found} instead of {wanted}");
    }
}

#[test]
fn programs_that_jax_exports_give_what_jax_gave() {
    for name in ["classify", "slope", "recurrent", "halo", "placed"] {
        let (f, args, wanted) = from_jax(name);
        let given: Vec<&Array> = args.iter().collect();
        all_close(name, &f.call(&given).unwrap(), &wanted);
        // On the engine, and split over the mesh that the program is for, or over another one.
        let mesh = match name {
            "placed" => Mesh::grid(("x", 2), ("y", 4)).unwrap(),
            _ => Mesh::linear("x", 4).unwrap(),
        };
        let on_mesh = jit(move |args: Vec<Tensor>| f.apply(&args)).on(&mesh);
        all_close(name, &on_mesh.call(&args).unwrap(), &wanted);
    }
}

/// The gradient taken here of a program that JAX wrote is the gradient that JAX took.
#[test]
fn gradients_of_programs_that_jax_exports() {
    let (f, args, _) = from_jax("classify");
    let (_, _, wanted) = from_jax("slope");
    let slope = jit(move |args: Vec<Tensor>| {
        let rest = args[1..].to_vec();
        grad(|w: Tensor| f.apply(&[&[w], &rest[..]].concat())[0].slice(s![.., 0]).sum_all(), args[0].clone())
    });
    all_close("slope", &[slope.call(&args).unwrap()], &wanted);
}

#[test]
fn own_text_comes_back() {
    let f = jit(|x: Tensor| for_loop(0..3, x, |_, x| x.sin() * 2.0));
    let x = wave(&[4]);
    let back = Imported::from_mlir(&f.lower(&x).unwrap().text()).unwrap();
    assert!(back.call(&[&x]).unwrap()[0].all_close(&f.call(&x).unwrap(), 0.0));
}

#[test]
fn placements_of_imported_functions() {
    let mesh = Mesh::linear("x", 2).unwrap();
    let f = jit(|x: Tensor| x.sin().shard(P!["x"])).on(&mesh);
    let x = wave(&[4]);
    let text = f.lower(&x).unwrap().text().replace("@mesh", "@other");
    let back = Imported::from_mlir(&text).unwrap();
    let again = back.clone();
    let on_mesh = jit(move |x: Tensor| again.apply(&[x])[0].clone()).on(&mesh);
    assert_eq!(on_mesh.call(&x).unwrap().shards()[1].slice, [2..4]);
    let (again, free) = (back.clone(), back.without_placements());
    let larger = Mesh::linear("z", 4).unwrap();
    let error = jit(move |x: Tensor| again.apply(&[x])[0].clone()).on(&larger).call(&x).unwrap_err().to_string();
    assert!(error.contains(r#"it is placed on the mesh <["x"=2]>, the program on <["z"=4]>"#), "{error}");
    assert!(jit(move |x: Tensor| free.apply(&[x])[0].clone()).on(&larger).call(&x).is_ok());
    assert!(back.call(&[&x]).is_ok());
}

#[test]
fn invalid_imports_are_reported() {
    let error = Imported::from_mlir("func.func @main(").unwrap_err().to_string();
    assert!(error.starts_with("imported function: "), "{error}");
    let error =
        Imported::from_mlir("func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }");
    assert!(error.unwrap_err().to_string().contains("tensor<?xf32>; export the function for fixed shapes"));
    let f = Imported::from_mlir(EXPORTED).unwrap();
    let error = f.call(&[&wave(&[3, 2])]).unwrap_err().to_string();
    assert_eq!(error, "imported function: it takes (tensor<3x2xf32>, tensor<4x3xf32>), not (f32[3, 2])");
    let error = jit(move |x: Tensor| f.apply(&[x.clone(), x])[0].clone()).call(&wave(&[3, 2])).unwrap_err().to_string();
    assert!(error.starts_with("imported function: it takes (tensor<3x2xf32>"), "{error}");
}

#[test]
fn half_precision() {
    use half::{bf16, f16};
    let x = Array::from([f16::from_f32(1.5), f16::from_f32(-2.0)]);
    let y = jit(|x: Tensor| (&x * 2.0, x.to(BF16))).call(&x).unwrap();
    assert_eq!(y.0.to_vec::<f16>().unwrap(), [f16::from_f32(3.0), f16::from_f32(-4.0)]);
    assert_eq!(y.1.to_vec::<bf16>().unwrap(), [bf16::from_f32(1.5), bf16::from_f32(-2.0)]);
}

fn scratch(name: &str) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("meshwork_{}_{name}", std::process::id()))
}

#[test]
fn npy_files() {
    let path = scratch("a.npy");
    wave(&[2, 3]).save_npy(&path).unwrap();
    assert!(Array::load_npy(&path).unwrap().all_close(&wave(&[2, 3]), 0.0));
    std::fs::write(&path, b"no").unwrap();
    let error = Array::load_npy(&path).unwrap_err().to_string();
    assert!(error.contains("a.npy: not a .npy file"), "{error}");
    std::fs::remove_file(&path).unwrap();
    assert!(Array::load_npy(&path).unwrap_err().to_string().contains("a.npy"));
}

#[cfg(feature = "safetensors")]
mod safetensors {
    use super::*;
    use meshwork::{SafeTensors, load_tree, save_safetensors, save_tree};
    use std::cell::Cell;
    use std::io::{Cursor, Read, Result, Seek, SeekFrom};
    use std::rc::Rc;

    /// Counts the bytes that are read.
    struct Counting(Cursor<Vec<u8>>, Rc<Cell<usize>>);

    impl Read for Counting {
        fn read(&mut self, out: &mut [u8]) -> Result<usize> {
            let count = self.0.read(out)?;
            self.1.set(self.1.get() + count);
            Ok(count)
        }
    }

    impl Seek for Counting {
        fn seek(&mut self, to: SeekFrom) -> Result<u64> {
            self.0.seek(to)
        }
    }

    fn file(arrays: &[(&str, Array)]) -> (SafeTensors<Counting>, Rc<Cell<usize>>) {
        let path = scratch(&format!("{}.safetensors", arrays[0].0));
        save_safetensors(&path, arrays).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let count = Rc::new(Cell::new(0));
        let file = SafeTensors::from_reader(Counting(Cursor::new(bytes), count.clone()), "memory").unwrap();
        count.set(0);
        (file, count)
    }

    #[test]
    fn each_device_reads_only_its_part() {
        let w = wave(&[8, 6]);
        let (mut file, read) = file(&[("w", w.clone()), ("large", wave(&[1000]))]);
        let mesh = Mesh::grid(("x", 4), ("y", 2)).unwrap();
        // One device: a block of 2 x 3, in rows.
        let part = file.shards("w", &mesh, &P!["x", "y"], &[3]).unwrap();
        assert_eq!(read.get(), 2 * 3 * 4);
        assert_eq!(part[0].0.slice, [2..4, 3..6]);
        let placed = w.clone().shard(&mesh, P!["x", "y"]).unwrap();
        assert!(part[0].1.all_close(&placed.shard_data(3).unwrap(), 0.0));
        // Whole rows are one read; devices that hold the same block read it once.
        read.set(0);
        let rows = file.shards("w", &mesh, &P!["x"], &[0, 1, 2, 3]).unwrap();
        assert_eq!(read.get(), 2 * (2 * 6 * 4));
        assert_eq!(rows[0].1.to_vec::<f32>().unwrap(), rows[1].1.to_vec::<f32>().unwrap());
        // All devices of a copied array: once.
        read.set(0);
        assert!(file.sharded("w", &mesh, &P![]).unwrap().all_close(&w, 0.0));
        assert_eq!(read.get(), 8 * 6 * 4);
    }

    #[test]
    fn every_slice_is_the_slice_of_the_whole() {
        let x = wave(&[3, 4, 5]);
        let all = x.to_vec::<f32>().unwrap();
        let (mut file, read) = file(&[("x", x)]);
        for a in 0..3 {
            for b in 0..4 {
                for c in 0..5 {
                    let slice = [a..3, b..4, 0..c];
                    read.set(0);
                    let part = file.slice("x", &slice).unwrap().to_vec::<f32>().unwrap();
                    let mut want = vec![];
                    for i in slice[0].clone() {
                        for j in slice[1].clone() {
                            want.extend(slice[2].clone().map(|k| all[(20 * i + 5 * j + k) as usize]));
                        }
                    }
                    assert_eq!(part, want);
                    assert_eq!(read.get(), 4 * want.len());
                }
            }
        }
        let short = SafeTensors::from_reader(Cursor::new(b"\x02\0\0\0\0\0\0\0{".to_vec()), "short");
        assert!(short.err().unwrap().to_string().starts_with("short: the header has 2 bytes, the file 1"));
        let long = SafeTensors::from_reader(Cursor::new(vec![0xff; 16]), "long");
        assert!(long.err().unwrap().to_string().contains("safetensors have at most 100000000"));
        assert!(file.slice("x", &[0..4, 0..4, 0..5]).unwrap_err().to_string().contains("is not a part of"));
        assert!(file.array("y").unwrap_err().to_string().contains(r#"there is no array "y"; it has ["x"]"#));
    }

    #[test]
    fn uneven_blocks_and_trees() {
        let mesh = Mesh::linear("x", 4).unwrap();
        let model = (wave(&[10]), vec![wave(&[3, 3]), Array::from([1i64, 2])]);
        let path = scratch("tree.safetensors");
        save_tree(&path, &model).unwrap();
        let like = (Array::shape_only([10], F32), vec![Array::shape_only([3, 3], F32), Array::shape_only([2], I64)]);
        let rule = Rule::policy(|path, _| (path == "0").then(|| P!["x"]));
        let back = load_tree(&path, &like, Some((&mesh, &rule))).unwrap();
        assert!(back.0.all_close(&model.0, 0.0) && back.1[0].all_close(&model.1[0], 0.0));
        assert_eq!(back.0.shards()[3].slice, [9..10]);
        assert_eq!(back.1[1].to_vec::<i64>().unwrap(), [1, 2]);
        let wrong = (Array::shape_only([11], F32), like.1.clone());
        let error = load_tree(&path, &wrong, None).unwrap_err().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains(r#"array "0" is f32[10], not f32[11]"#), "{error}");
    }
}

#[cfg(feature = "npz")]
#[test]
fn npz_files() {
    let path = scratch("a.npz");
    meshwork::save_npz(&path, &[("w", wave(&[2, 3])), ("b", Array::from([true, false]))]).unwrap();
    let back = meshwork::load_npz(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(back[0].0, "w");
    assert!(back[0].1.all_close(&wave(&[2, 3]), 0.0));
    assert_eq!(back[1].1.to_vec::<bool>().unwrap(), [true, false]);
}

#[cfg(feature = "ndarray")]
#[test]
fn ndarrays_in_any_memory_order() {
    let a = ndarray::Array3::from_shape_fn((2, 3, 4), |(i, j, k)| (100 * i + 10 * j + k) as i32);
    let turned = a.view().permuted_axes([2, 0, 1]);
    let x = Array::from(&turned);
    assert_eq!(x.shape(), [4, 2, 3]);
    let y = jit(|x: Tensor| x.permute(&[1, 2, 0])).call(&x).unwrap();
    assert_eq!(y.to_ndarray::<i32>().unwrap(), a.into_dyn());
    assert!(y.to_ndarray::<f32>().is_err());
}

#[cfg(feature = "tracing")]
#[test]
fn spans_name_the_stages() {
    use std::sync::{Arc, Mutex};
    use tracing::span;

    /// Notes the names of spans.
    struct Names(Arc<Mutex<Vec<&'static str>>>);

    impl tracing::Subscriber for Names {
        fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &span::Attributes<'_>) -> span::Id {
            let mut names = self.0.lock().unwrap();
            names.push(span.metadata().name());
            span::Id::from_u64(names.len() as u64)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    let names = Arc::new(Mutex::new(vec![]));
    tracing::subscriber::with_default(Names(names.clone()), || {
        let mesh = Mesh::linear("x", 2).unwrap();
        jit(|x: Tensor| x + 1.0).on(&mesh).call(&wave(&[4])).unwrap();
    });
    assert_eq!(*names.lock().unwrap(), ["trace", "import", "place", "split", "load", "run"]);
}

/// Writes the program, its arguments and its results to the folder that `MESHWORK_EXPORTS` names, for a run in JAX.
fn export(name: &str, text: &str, inputs: &[&Array], outputs: &[&Array]) {
    let again = Imported::from_mlir(text).unwrap_or_else(|e| panic!("{name}: {e}\n{text}"));
    for (i, (got, want)) in again.call(inputs).unwrap().iter().zip(outputs).enumerate() {
        assert!(got.all_close(want, 1e-6), "{name}, result {i}");
    }
    let Ok(folder) = std::env::var("MESHWORK_EXPORTS") else { return };
    std::fs::write(format!("{folder}/{name}.mlir"), text).unwrap();
    for (kind, arrays) in [("in", inputs), ("out", outputs)] {
        for (i, array) in arrays.iter().enumerate() {
            array.save_npy(format!("{folder}/{name}.{kind}{i}.npy")).unwrap();
        }
    }
}

#[test]
fn exported_programs_mean_the_same() {
    let x = wave(&[4, 6]);
    let one = |name: &str, f: &dyn Fn(Tensor) -> Tensor| {
        let f = jit(f);
        export(name, &f.lower(&x).unwrap().text(), &[&x], &[&f.call(&x).unwrap()]);
    };
    one("softmax", &|x| x.softmax(-1));
    one("gradient", &|x| grad(|x: Tensor| x.matmul(x.t()).tanh().sum_all(), x));
    one("loop", &|x| for_loop(0..4, x, |i, x| x.sin() + i.to(F32)));
    one("scan_gradient", &|x| {
        let total = |x: Tensor| scan(zeros([6], F32), x, |c, x| (&c * 0.5 + &x, c * x)).1.sum_all();
        grad(total, x)
    });
    one("while", &|x| vmap(|x: Tensor| while_loop(x, |x| x.sum_all().abs().lt(9.0), |x| x * 2.0 + 0.1), x));
    one("cond", &|x| cond(x.sum_all().gt(0.0), || x.cos(), || -&x));
    one("sort", &|x| x.sort(1) + x.cumsum(0));
    one("gather", &|x| vmap(|x: Tensor| x.take(&x.argsort(0), 0), x));
    one("random", &|x| x + Key::new(7).normal([4, 6], F32));
    one("checkpoint", &|x| grad(|x: Tensor| checkpoint(|x: Tensor| x.sin().exp(), x).sum_all(), x));
    one("erf", &|x| x.erf_inv());
    one("fft", &|x| x.rfft(1).real());
    let step = jit(|x: Tensor, w: Tensor| (x.matmul(&w).relu(), w)).donate([0, 1]);
    let w = wave(&[6, 6]);
    let (y, same) = step.call((&x.copy().unwrap(), &w.copy().unwrap())).unwrap();
    export("donation", &step.lower((&x, &w)).unwrap().text(), &[&x, &w], &[&y, &same]);
}

/// Halos by hand: real Shardy takes the region, and as many devices run it.
#[test]
fn exported_regions_mean_the_same() {
    let mesh = Mesh::grid(("x", 4), ("y", 2)).unwrap();
    let f = jit(|u: Tensor| {
        shard_map(["x"], [P!["x"]], [P!["x"], P![]], u, |u: Tensor| {
            let ring: Vec<(i64, i64)> = (0..4).map(|i| (i, (i + 1) % 4)).collect();
            let left = u.slice(s![-1..]).ppermute("x", &ring);
            let place = axis_index("x").to(F32);
            (concatenate(&[left, u.slice(s![..-1])], 0) * place, u.sum_all().psum("x"))
        })
    });
    let (f, u) = (f.on(&mesh).in_shardings([P![]]).out_shardings([P![], P![]]), wave(&[24]));
    let (shifted, sum) = f.call(&u).unwrap();
    export("region", &f.lower(&u).unwrap().text(), &[&u], &[&shifted, &sum]);
}

#[test]
fn exported_placements_mean_the_same() {
    let mesh = Mesh::grid(("x", 2), ("y", 4)).unwrap();
    let f = jit(|x: Tensor, w: Tensor| x.matmul(&w).shard(P!["x", "y"]).tanh().sum(&[0])).on(&mesh);
    let f = f.in_shardings([P!["x"], P![_, "y"]]).out_shardings([P!["y"]]);
    let (x, w) = (wave(&[4, 6]), wave(&[6, 8]));
    export("placed", &f.lower((&x, &w)).unwrap().text(), &[&x, &w], &[&f.call((&x, &w)).unwrap()]);
}

/// A `.npy` file as NumPy writes it, with this header and data.
fn npy_file(name: &str, header: &str, data: &[u8]) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("meshwork_npy_{name}_{}.npy", std::process::id()));
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn npy_files_are_read_to_where_their_parts_belong() {
    let grid = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let x = wave(&[5, 3]);
    let path = std::env::temp_dir().join(format!("meshwork_npy_parts_{}.npy", std::process::id()));
    x.save_npy(&path).unwrap();
    for spec in [P![], P!["x"], P![_, "y"], P!["y", "x"], P![["x", "y"]]] {
        let back = Array::load_npy_sharded(&path, &grid, &spec).unwrap();
        assert!(back.all_close(&x, 0.0), "{spec}");
        assert_eq!(back.shards(), x.clone().shard(&grid, &spec).unwrap().shards());
    }
    std::fs::remove_file(&path).unwrap();
    // Column by column and big-endian.
    let header = "{'descr': '>i2', 'fortran_order': True, 'shape': (2, 3), }\n";
    let path = npy_file("fortran", header, &[0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6]);
    let back = Array::load_npy_sharded(&path, &grid, &P!["x", "y"]).unwrap();
    assert_eq!(back.to_f64s().unwrap(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    std::fs::remove_file(&path).unwrap();
    // Cut short.
    let path = npy_file("short", "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", &[0; 8]);
    let error = Array::load_npy_sharded(&path, &grid, &P![]).unwrap_err().to_string();
    assert!(error.ends_with("array of shape [3] and dtype '<f4' needs 12 bytes of data, the file has 8"), "{error}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn files_that_are_pieces_of_one_array() {
    let mesh = Mesh::linear("x", 3).unwrap();
    let name = |i: i64| std::env::temp_dir().join(format!("meshwork_npy_piece_{i}_{}.npy", std::process::id()));
    let (x, cuts) = (wave(&[2, 7]), [0, 3, 3, 7]);
    let names: Vec<_> = (0..3).map(name).collect();
    for i in 0..3 {
        let columns = cuts[i + 1] - cuts[i];
        let all = x.to_vec::<f32>().unwrap();
        Array::from_fn([2, columns], |at| all[(at[0] * 7 + cuts[i] + at[1]) as usize]).save_npy(&names[i]).unwrap();
    }
    for spec in [P![], P!["x"], P![_, "x"]] {
        assert!(Array::load_npy_pieces(&names, 1, &mesh, &spec).unwrap().all_close(&x, 0.0), "{spec}");
    }
    let error = Array::load_npy_pieces(&names, 0, &mesh, &P![]).unwrap_err().to_string();
    assert!(error.contains("it has f32[2, 0] and the first file f32[2, 3]; only dimension 0 may differ"), "{error}");
    names.iter().for_each(|n| std::fs::remove_file(n).unwrap());
}
