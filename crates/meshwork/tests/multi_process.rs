//! Batches and checkpoints of several processes: each test starts itself again under `mpirun`.
#![cfg(all(feature = "mpi", feature = "checkpoints"))]

use meshwork::data::{GlobalBatch, local_data_to_global_array};
use meshwork::prelude::*;
use meshwork::save::Checkpoints;
use meshwork_testing::{Folder, ranks};

/// Element of row `row` and column `column` of what `rank` has loaded.
fn element(rank: usize, row: i64, column: i64) -> f32 {
    (rank * 1000) as f32 + (row * 10 + column) as f32
}

#[test]
fn batches_of_processes_become_arrays_and_come_back() {
    ranks::across(&[2, 3], "batches_of_processes_become_arrays_and_come_back", || {
        let runtime = Runtime::init().unwrap();
        let (rank, size) = (runtime.rank(), runtime.size());
        let meshes = [
            Mesh::linear("d", size as i64).unwrap(),
            Mesh::linear("d", 2 * size as i64 + 1).unwrap(),
            Mesh::grid(("m", 2), ("d", size as i64)).unwrap(),
        ];
        let double = jit(|x: Tensor| x * 2.0);
        for mesh in &meshes {
            for dim in [0, 1] {
                for lengths in [[2, 2, 2], [3, 0, 5], [0, 1, 0], [0, 0, 0]] {
                    for more in [0, 3] {
                        let lengths = &lengths[..size];
                        let given: i64 = lengths.iter().sum();
                        let shape = |rows: i64| if dim == 0 { [rows, 2] } else { [2, rows] };
                        let own = Array::from_fn(shape(lengths[rank]), |i| element(rank, i[dim], i[1 - dim]));
                        let maker = GlobalBatch::new(mesh).along(dim).over(&["d"]).rows(given + more);
                        let batch = maker.assemble_local(&own).unwrap();
                        assert_eq!(batch.lengths, lengths);
                        let whole = Array::from_fn(shape(given + more), |i| {
                            let mut row = i[dim];
                            for (rank, &length) in lengths.iter().enumerate() {
                                if row < length {
                                    return element(rank, row, i[1 - dim]);
                                }
                                row -= length;
                            }
                            0.0
                        });
                        assert!(batch.array.all_close(&whole, 0.0), "{mesh} {dim} {lengths:?} {more}");
                        assert_eq!(batch.mask.to_vec::<f32>().unwrap().iter().sum::<f32>(), given as f32);
                        assert!(batch.local_piece().unwrap().all_close(&own, 0.0));
                        if given + more > 0 {
                            let twice = double.call(&batch.array).unwrap();
                            let back = batch.local_piece_of(&twice).unwrap();
                            assert!(back.all_close(
                                &Array::from_fn(own.shape(), |i| 2.0 * element(rank, i[dim], i[1 - dim])),
                                0.0
                            ));
                        }
                    }
                }
            }
        }
        // What one process does wrong is an error of all, and the next batch is fine.
        let wrong = if rank == 1 { Array::zeros([2, 3], F32) } else { Array::zeros([2, 2], F32) };
        let error = GlobalBatch::new(&meshes[0]).assemble_local(&wrong).unwrap_err().to_string();
        assert!(error.contains("piece 1 has shape [2, 3] and piece 0 [2, 2]"), "{error}");
        let wrong = if rank == 1 { Array::shape_only([2], F32) } else { Array::zeros([2], F32) };
        let error = GlobalBatch::new(&meshes[0]).assemble_local(&wrong).unwrap_err().to_string();
        assert!(error.contains("rank 1: ") && error.contains("abstract"), "{error}");
        assert!(GlobalBatch::new(&meshes[0]).assemble_local(&Array::zeros([2], F32)).is_ok());
    });
}

/// Trees of what each process has loaded, as scalax has them.
#[test]
fn trees_of_processes_become_trees_of_arrays() {
    ranks::across(&[2, 3], "trees_of_processes_become_trees_of_arrays", || {
        let runtime = Runtime::init().unwrap();
        let (rank, size) = (runtime.rank(), runtime.size());
        let mesh = Mesh::grid(("data", size as i64), ("model", 2)).unwrap();
        let rows = |rank: usize| 2 + rank as i64;
        let x = |rank: usize| Array::from_fn([rows(rank), 2], |i| element(rank, i[0], i[1]));
        let y = |rank: usize| Array::from_fn([rows(rank)], |i| 100 * rank as i32 + i[0] as i32);
        let (all_x, all_y) = local_data_to_global_array(&(x(rank), y(rank)), &mesh, 0, Some(&["data"])).unwrap();
        let joined = |f: &dyn Fn(usize) -> Vec<f64>| (0..size).flat_map(f).collect::<Vec<f64>>();
        assert_eq!(all_x.to_f64s().unwrap(), joined(&|r| x(r).to_f64s().unwrap()));
        assert_eq!(all_y.to_f64s().unwrap(), joined(&|r| y(r).to_f64s().unwrap()));
        for array in [&all_x, &all_y] {
            let placement = array.placement().unwrap();
            assert_eq!(placement.sharding.num_shards(&mesh)[0], size as i64);
        }
        // Over all axes unless some are given.
        let (all_x, _) = local_data_to_global_array(&(x(rank), y(rank)), &mesh, 0, None).unwrap();
        assert_eq!(all_x.placement().unwrap().sharding.num_shards(&mesh)[0], 2 * size as i64);
        // Arrays of one tree have the same rows; what one process does wrong is the same error on all.
        let odd = if rank == 1 { Array::zeros([9], I32) } else { y(rank) };
        let error = local_data_to_global_array(&(x(rank), odd), &mesh, 0, None).unwrap_err().to_string();
        assert!(error.contains(r#""0" has [2, 3"#) && error.contains(r#"and "1" [2, 9"#), "{error}");
        runtime.barrier().unwrap();
    });
}

/// A file that counts what is read of it.
#[cfg(feature = "safetensors")]
struct Counting(std::fs::File, std::rc::Rc<std::cell::Cell<u64>>);

#[cfg(feature = "safetensors")]
impl std::io::Read for Counting {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(out)?;
        self.1.set(self.1.get() + read as u64);
        Ok(read)
    }
}

#[cfg(feature = "safetensors")]
impl std::io::Seek for Counting {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        self.0.seek(to)
    }
}

#[test]
#[cfg(feature = "safetensors")]
fn files_are_read_in_the_parts_that_each_process_needs() {
    ranks::across(&[2, 3], "files_are_read_in_the_parts_that_each_process_needs", || {
        let runtime = Runtime::init().unwrap();
        let folder = std::env::temp_dir().join(format!("meshwork_parts_{}", std::process::id())).display().to_string();
        let folder = String::from_utf8(runtime.broadcast(0, folder.as_bytes()).unwrap()).unwrap();
        let x = Array::from_fn([60, 128], |i| (i[0] * 128 + i[1]) as f32);
        let file = |name: &str| std::path::Path::new(&folder).join(name);
        if runtime.rank() == 0 {
            std::fs::create_dir_all(&folder).unwrap();
            meshwork::save_safetensors(file("x.safetensors"), &[("x", x.clone())]).unwrap();
            x.save_npy(file("x.npy")).unwrap();
        }
        runtime.barrier().unwrap();
        let mesh = Mesh::linear("x", 2 * runtime.size() as i64).unwrap();
        for spec in [P!["x"], P![_, "x"], P![]] {
            let count = std::rc::Rc::new(std::cell::Cell::new(0));
            let reader = Counting(std::fs::File::open(file("x.safetensors")).unwrap(), count.clone());
            let mut reader = meshwork::SafeTensors::from_reader(reader, "x").unwrap();
            let header = count.get();
            let back = reader.sharded("x", &mesh, &spec).unwrap();
            let here = runtime.local_devices_of(mesh.device_count() as usize);
            let bytes =
                |slice: &[std::ops::Range<i64>]| slice.iter().map(|r| r.end - r.start).product::<i64>() as u64 * 4;
            let slices: std::collections::HashSet<_> = here.map(|d| back.shards()[d].slice.clone()).collect();
            assert_eq!(count.get() - header, slices.iter().map(|s| bytes(s)).sum::<u64>(), "{spec}");
            assert!(back.all_close(&x, 0.0), "{spec}");
            assert!(Array::load_npy_sharded(file("x.npy"), &mesh, &spec).unwrap().all_close(&x, 0.0), "{spec}");
        }
        runtime.barrier().unwrap();
        if runtime.rank() == 0 {
            std::fs::remove_dir_all(&folder).unwrap();
        }
    });
}

type HostState = (Array, Array, Array, Array);

const FOLDER: &str = "MESHWORK_TEST_SPREAD_FOLDER";

/// A state of `step` on as many devices as there are, or twice as many; all processes know all of it.
fn state(step: u64, devices: i64) -> HostState {
    let mesh = Mesh::linear("x", devices).unwrap();
    let f = |shape: [i64; 2]| Array::from_fn(shape, |i| (i[0] * 1000 + i[1]) as f32 + step as f32);
    (
        f([7, 5]).shard(&mesh, P!["x"]).unwrap(),
        f([64, 3072]).shard(&mesh, P!["x"]).unwrap(),
        f([5, 9]).shard(&mesh, P![_, "x"]).unwrap(),
        Array::scalar(step as i64),
    )
}

fn restore_and_save(folder: &str) {
    let runtime = Runtime::init().unwrap();
    let size = runtime.size() as i64;
    let mut saves = Checkpoints::open(folder).unwrap();
    let mut step = 0;
    for devices in [size, 2 * size] {
        let like = state(0, devices);
        if let Some((found, back)) = saves.resume(&like).unwrap() {
            step = found.step();
            let wanted = state(step, devices);
            let same = |a: &Array, b: &Array| a.literal().unwrap() == b.literal().unwrap();
            assert!(same(&back.0, &wanted.0) && same(&back.1, &wanted.1) && same(&back.2, &wanted.2));
            assert_eq!(back.3.item::<i64>().unwrap(), step as i64);
            // Of the large array this process reads its part, and no more than the blocks at its ends.
            let fresh = saves.at(step).unwrap();
            fresh.array("1", &like.1).unwrap();
            let part = runtime.local_devices_of(devices as usize);
            let rows: i64 = part.map(|d| like.1.shards()[d].slice[0].clone()).map(|r| r.end - r.start).sum();
            let (read, part) = (fresh.bytes_read(), rows as u64 * 3072 * 4);
            assert!(part <= read && read <= part + 16 * 4096, "{read} for {part}");
        }
        step += 1;
        // On devices, where each process has its own pieces only.
        let (a, b, c, n) = state(step - 1, devices);
        let next = jit(|a: Tensor, b: Tensor, c: Tensor| (a + 1.0, b + 1.0, c + 1.0));
        let (a, b, c) = next.call((&a, &b, &c)).unwrap();
        let n = Array::scalar(n.item::<i64>().unwrap() + 1);
        saves.save(step, &(a, b, c, n), &[]).unwrap();
    }
    saves.wait().unwrap();
}

/// Not a test: what the next one runs on several processes.
#[test]
fn ranks_that_restore_and_save() {
    if let Ok(folder) = std::env::var(FOLDER) {
        restore_and_save(&folder);
    }
}

#[test]
fn what_some_processes_save_any_other_number_restores() {
    let temporary = Folder::unused("multi_process");
    let folder = temporary.path().display().to_string();
    for n in [2, 1, 4, 3] {
        if n == 1 {
            restore_and_save(&folder);
            continue;
        }
        let output = ranks::output(ranks::command(n, "ranks_that_restore_and_save").env(FOLDER, &folder));
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{n} ranks: {}\n{err}", output.status);
    }
    let mut saves = Checkpoints::open(&folder).unwrap();
    assert_eq!(saves.steps().unwrap(), [8, 7, 6, 5, 4, 3, 2, 1]);
    saves.latest().unwrap().unwrap().verify().unwrap();
}
