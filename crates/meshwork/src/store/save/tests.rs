//! Several ranks in one process: what they save together is there on any mesh, and damage is found at every byte.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{AxisRef, Mesh};

use super::index::{INDEX, Index};
use super::ranks::Ranks;
use super::*;
use crate::spec::P;
use crate::{Array, Tensor};

/// A folder of its own for each test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("meshwork_save_{name}_{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Saves as `size` ranks would, each with its own share of the devices.
fn save(folder: &Folder, size: usize, step: u64, tree: &Vec<Array>) -> Vec<Result<(), String>> {
    let token = Ranks::draw();
    let mut ranks: Vec<Checkpoints> = (0..size)
        .map(|rank| Checkpoints::of(&folder.0, Ranks::new(rank, size, &token, Duration::from_secs(5))))
        .collect();
    for rank in &mut ranks {
        rank.save(step, tree, &[]).unwrap();
    }
    ranks.iter_mut().map(|r| r.wait().map_err(|e| e.to_string())).collect()
}

fn noise(dims: &[i64], elem: ElementType) -> Array {
    let count = dims.iter().product::<i64>() as usize * elem.storage_bytes();
    let mut state = count as u32 ^ 0x9e37;
    let mut byte = || {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 24) as u8
    };
    let bytes = (0..count).map(|_| byte()).collect();
    Array::from_literal(Literal::from_bytes(dims.iter().copied(), elem, bytes).unwrap())
}

fn meshes() -> Vec<Mesh> {
    vec![
        Mesh::linear("x", 1).unwrap(),
        Mesh::linear("x", 2).unwrap(),
        Mesh::linear("x", 3).unwrap(),
        Mesh::grid(("x", 2), ("y", 2)).unwrap(),
        Mesh::grid(("x", 2), ("y", 3)).unwrap(),
    ]
}

/// Every way to give the axes of a mesh to `rank` dimensions, in every order.
fn specs(mesh: &Mesh, rank: usize) -> Vec<P> {
    let mut all: Vec<Vec<Vec<AxisRef>>> = vec![vec![vec![]; rank]];
    for axis in mesh.axes() {
        let axis: AxisRef = (&*axis.name).into();
        let mut next = all.clone();
        for spec in &all {
            for dim in 0..rank {
                for at in 0..=spec[dim].len() {
                    let mut with = spec.clone();
                    with[dim].insert(at, axis.clone());
                    next.push(with);
                }
            }
        }
        all = next;
    }
    all.into_iter().map(P::of).collect()
}

const SHAPES: [&[i64]; 6] = [&[], &[1], &[7], &[5, 3], &[4, 0], &[2, 3, 2]];

#[test]
fn every_sharding_on_every_mesh_from_any_number_of_ranks_to_every_other() {
    let mut restored = 0;
    for (m, from) in meshes().iter().enumerate() {
        let mut tree = vec![];
        for shape in SHAPES {
            for (i, spec) in specs(from, shape.len()).iter().enumerate() {
                let array = noise(shape, ElementType::F32).shard(from, spec).unwrap();
                if i % 2 == 0 {
                    let place = array.placement().unwrap();
                    array.clone().into_devices(Some((&place.mesh, &Arc::new(place.sharding.clone())))).unwrap();
                }
                tree.push(array);
            }
        }
        for size in 1..=3 {
            let folder = Folder::new(&format!("every_{m}_{size}"));
            assert_eq!(save(&folder, size, 1, &tree), vec![Ok(()); size]);
            let found = Checkpoints::open(&folder.0).unwrap().latest().unwrap().unwrap();
            for (i, array) in tree.iter().enumerate() {
                for to in meshes() {
                    for spec in specs(&to, array.shape().len()) {
                        let like = Array::shape_only(array.shape(), array.dtype()).shard(&to, &spec).unwrap();
                        let back = found.array(&i.to_string(), &like).unwrap();
                        assert_eq!(back.literal().unwrap(), array.literal().unwrap(), "{from} to {to} {spec}");
                        assert_eq!(back.shards(), like.shards());
                        restored += 1;
                    }
                }
            }
        }
    }
    assert!(restored > 10_000, "{restored}");
}

#[test]
fn every_element_type_comes_back_and_other_tools_read_the_files() {
    let folder = Folder::new("types");
    let mesh = Mesh::linear("x", 2).unwrap();
    let tree: Vec<Array> =
        ElementType::ALL.iter().map(|&elem| noise(&[3, 2], elem).shard(&mesh, crate::P!["x"]).unwrap()).collect();
    assert_eq!(save(&folder, 2, 3, &tree), [Ok(()), Ok(())]);
    let found = Checkpoints::open(&folder.0).unwrap().latest().unwrap().unwrap();
    let back = found.restore(&tree).unwrap();
    for (a, b) in tree.iter().zip(&back) {
        assert_eq!(a.literal().unwrap(), b.literal().unwrap());
    }
    #[cfg(feature = "safetensors")]
    {
        let mut file = crate::SafeTensors::open(found.folder().join("rank-00001.safetensors")).unwrap();
        let f32s = ElementType::ALL.iter().position(|&e| e == ElementType::F32).unwrap();
        let piece = file.array(&format!("{f32s}[2:3,0:2]")).unwrap();
        assert_eq!(piece.literal().unwrap().bytes(), &tree[f32s].literal().unwrap().bytes()[16..]);
    }
}

#[test]
fn each_different_piece_is_written_once_and_the_work_is_shared() {
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let ranks = Ranks::new(0, 4, "t", Duration::ZERO);
    let arrays = vec![
        ("copied".to_string(), noise(&[8], ElementType::F32).shard(&mesh, crate::P![]).unwrap()),
        ("split".to_string(), noise(&[8], ElementType::F32).shard(&mesh, crate::P!["x"]).unwrap()),
        ("host".to_string(), noise(&[4], ElementType::F32)),
    ];
    let layout = layout::layout(&arrays, &ranks).unwrap();
    let ranks: Vec<Vec<usize>> = layout.leaves.iter().map(|l| l.pieces.iter().map(|p| p.rank).collect()).collect();
    // The halves of `split` are with ranks 0 and 1, and with 2 and 3.
    assert_eq!(ranks, [vec![0], vec![1, 2], vec![3]]);
    assert_eq!(layout.data, [32, 16, 16, 16]);
}

#[test]
fn a_changed_or_missing_byte_anywhere_is_refused_with_the_name_of_the_file() {
    let folder = Folder::new("bytes");
    let mesh = Mesh::linear("x", 2).unwrap();
    let tree = vec![noise(&[5], ElementType::F32).shard(&mesh, crate::P!["x"]).unwrap(), noise(&[0], ElementType::I8)];
    assert_eq!(save(&folder, 2, 1, &tree), [Ok(()), Ok(())]);
    let at = folder.0.join("step-00000001");
    let read = || -> Result<(), String> {
        let found = Checkpoint::open(&at).map_err(|e| e.to_string())?;
        found.restore(&tree).map_err(|e| e.to_string())?;
        Ok(())
    };
    assert_eq!(read(), Ok(()));
    let mut tried = 0;
    for name in ["index.json", "rank-00000.safetensors", "rank-00001.safetensors"] {
        let file = at.join(name);
        let whole = std::fs::read(&file).unwrap();
        for i in 0..whole.len() {
            for bit in [0, 5] {
                let mut changed = whole.clone();
                changed[i] ^= 1 << bit;
                std::fs::write(&file, &changed).unwrap();
                let error = read().unwrap_err();
                assert!(error.contains(name), "byte {i} of {name}: {error}");
            }
            std::fs::write(&file, &whole[..i]).unwrap();
            let error = read().unwrap_err();
            assert!(error.contains(name), "{name} cut at {i}: {error}");
            tried += 3;
        }
        let longer = [&whole[..], &[0]].concat();
        std::fs::write(&file, longer).unwrap();
        assert!(read().unwrap_err().contains(name));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(read().unwrap_err(), format!("{}: the file is missing", file.display()));
        std::fs::write(&file, &whole).unwrap();
    }
    assert_eq!(read(), Ok(()));
    assert!(tried > 1000);
}

#[test]
fn pieces_that_overlap_are_refused() {
    let folder = Folder::new("overlap");
    let mesh = Mesh::grid(("x", 2), ("y", 2)).unwrap();
    let tree = vec![noise(&[4, 6], ElementType::F32).shard(&mesh, crate::P!["x", "y"]).unwrap()];
    assert_eq!(save(&folder, 1, 1, &tree), [Ok(())]);
    let file = folder.0.join("step-00000001").join(INDEX);
    let saved = Index::read(&file).unwrap();
    let pieces: Vec<_> = saved.leaves[0].pieces.iter().map(|p| p.slice.clone()).collect();
    assert_eq!(pieces, [vec![0..2, 0..3], vec![0..2, 3..6], vec![2..4, 0..3], vec![2..4, 3..6]]);
    // All have the size that they had, so that there are as many elements as in the array.
    for (piece, slice) in [(1, vec![0..2, 2..5]), (2, vec![1..3, 0..3]), (3, vec![0..2, 0..3])] {
        let mut changed = saved.clone();
        changed.leaves[0].pieces[piece].slice = slice.clone();
        std::fs::write(&file, changed.text()).unwrap();
        let error = Index::read(&file).unwrap_err();
        assert!(error.is_damage(), "{error}");
        let text = error.to_string();
        assert!(
            text.contains("index.json") && text.contains("overlap") && text.contains(&format!("{slice:?}")),
            "{text}"
        );
    }
}

#[test]
fn a_rank_reads_its_slices_and_no_more() {
    let folder = Folder::new("slices");
    let mesh = Mesh::linear("x", 4).unwrap();
    let (rows, columns) = (16i64, 8192i64);
    let array = noise(&[rows, columns], ElementType::F32).shard(&mesh, crate::P!["x"]).unwrap();
    let whole = (rows * columns * 4) as u64;
    assert_eq!(save(&folder, 4, 1, &vec![array.clone()]), vec![Ok(()); 4]);
    let read = |slice: &[std::ops::Range<i64>]| {
        let found = Checkpoints::open(&folder.0).unwrap().latest().unwrap().unwrap();
        assert_eq!(found.bytes_read(), 0);
        found.slice("0", slice).unwrap();
        found.bytes_read()
    };
    assert_eq!(read(&[0..8, 0..columns]), whole / 2);
    // Half of every row: 16 KiB at a time.
    assert_eq!(read(&[0..rows, 4096..8192]), whole / 2);
    // One element: its block.
    assert_eq!(read(&[3..4, 100..101]), 4096);
    // Runs in one block are read once.
    assert_eq!(read(&[0..1, 0..1024]), 4096);
    assert_eq!(read(&[2..2, 0..columns]), 0);
}

/// What is saved is what the arrays were, also of those that are overwritten while the thread writes.
#[test]
fn donated_arrays_are_saved_as_they_were() {
    let folder = Folder::new("donated");
    let mesh = Mesh::linear("x", 4).unwrap();
    let step = crate::jit(|x: Tensor| x * 2.0).donate([0]);
    let ones = Array::full([1 << 20], 1.0f32).shard(&mesh, crate::P!["x"]).unwrap();
    let mut x = step.call(&ones).unwrap();
    let mut saves = Checkpoints::open(&folder.0).unwrap();
    saves.save(1, &x, &[]).unwrap();
    for _ in 0..5 {
        x = step.call(&x).unwrap();
    }
    saves.wait().unwrap();
    let found = saves.latest().unwrap().unwrap().restore(&x).unwrap();
    assert!(found.to_vec::<f32>().unwrap().iter().all(|&v| v == 2.0));
    assert!(x.to_vec::<f32>().unwrap().iter().all(|&v| v == 64.0));
}

#[test]
fn the_newest_stay_and_a_step_saved_again_takes_the_place_of_the_old() {
    let folder = Folder::new("keep");
    let mut saves = Checkpoints::open(&folder.0).unwrap().keep(2);
    assert!(saves.latest().unwrap().is_none());
    for step in [1, 2, 3] {
        saves.save(step, &Array::scalar(step as f32), &[]).unwrap();
    }
    saves.wait().unwrap();
    assert_eq!(saves.steps().unwrap(), [3, 2]);
    saves.save(3, &Array::scalar(33.0f32), &[("again", "yes")]).unwrap();
    let found = saves.latest().unwrap().unwrap();
    assert_eq!(found.restore(&Array::scalar(0.0f32)).unwrap().item::<f32>().unwrap(), 33.0);
    assert_eq!(found.notes()["again"], "yes");
    assert_eq!(saves.steps().unwrap(), [3, 2]);
    let names: Vec<String> =
        std::fs::read_dir(&folder.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

fn save_scalars(saves: &mut Checkpoints, steps: &[u64]) {
    for &step in steps {
        saves.save(step, &Array::scalar(step as f32), &[]).unwrap();
        saves.wait().unwrap();
        let found = saves.latest().unwrap().unwrap();
        assert_eq!(found.restore(&Array::scalar(0f32)).unwrap().item::<f32>().unwrap(), step as f32);
    }
}

/// What was saved last is newest, whatever its step is.
#[test]
fn a_run_that_goes_back_and_a_fresh_run_keep_what_they_save() {
    let folder = Folder::new("back");
    let mut saves = Checkpoints::open(&folder.0).unwrap().keep(2);
    save_scalars(&mut saves, &[100, 200, 300]);
    save_scalars(&mut saves, &[150]);
    assert_eq!(saves.steps().unwrap(), [150, 300]);
    save_scalars(&mut saves, &[250, 350]);
    assert_eq!(saves.steps().unwrap(), [350, 250]);
    drop(saves);
    let mut fresh = Checkpoints::open(&folder.0).unwrap().keep(3);
    save_scalars(&mut fresh, &[1]);
    assert_eq!(fresh.steps().unwrap(), [1, 350, 250]);
    save_scalars(&mut fresh, &[2, 3, 2]);
    assert_eq!(fresh.steps().unwrap(), [2, 3, 1]);
    // Without a limit all stay, in this order, and of one step the last.
    let mut all = Checkpoints::open(&folder.0).unwrap();
    save_scalars(&mut all, &[1, 9, 3]);
    assert_eq!(all.steps().unwrap(), [3, 9, 1, 2]);
    assert_eq!(all.at(3).unwrap().folder(), folder.0.join("step-00000003.5"));
}

#[test]
fn damaged_checkpoints_take_no_place_of_whole_ones() {
    let folder = Folder::new("slots");
    let mut saves = Checkpoints::open(&folder.0).unwrap().keep(2);
    save_scalars(&mut saves, &[1, 2, 3]);
    let index = |step: u64| folder.0.join(format!("step-{step:08}")).join("index.json");
    std::fs::write(index(3), "{").unwrap();
    save_scalars(&mut saves, &[4]);
    assert_eq!(saves.steps().unwrap(), [4, 3, 2]);
    std::fs::remove_file(folder.0.join("step-00000004/rank-00000.safetensors")).unwrap();
    assert_eq!(saves.latest().unwrap().unwrap().step(), 2);
    save_scalars(&mut saves, &[5]);
    assert_eq!(saves.steps().unwrap(), [5, 4, 3, 2]);
    save_scalars(&mut saves, &[6]);
    assert_eq!(saves.steps().unwrap(), [6, 5]);
    // Nor does a damaged one replace a whole one of its step.
    let mut saves = Checkpoints::open(&folder.0).unwrap();
    let copy = folder.0.join("step-00000006.1");
    std::fs::create_dir(&copy).unwrap();
    save_scalars(&mut saves, &[7]);
    assert_eq!(saves.steps().unwrap(), [7, 6, 5]);
    assert_eq!(Checkpoint::open(folder.0.join("step-00000006")).unwrap().step(), 6);
}

#[test]
fn leftovers_of_a_crash_are_not_read_and_are_cleaned_up() {
    let folder = Folder::new("leftovers");
    let left = folder.0.join(".saving-1.2-0-00000009");
    std::fs::create_dir_all(&left).unwrap();
    std::fs::write(left.join("part-00001.json"), "{}").unwrap();
    assert!(Checkpoints::open(&folder.0).unwrap().latest().unwrap().is_none());
    assert_eq!(save(&folder, 2, 9, &vec![Array::scalar(1i32)]), [Ok(()), Ok(())]);
    assert!(!left.exists());
}

#[test]
fn the_newest_whole_one_is_found_and_says_what_was_passed_over() {
    let folder = Folder::new("fallback");
    let mut saves = Checkpoints::open(&folder.0).unwrap();
    for step in [1, 2, 3] {
        saves.save(step, &Array::scalar(step as f32), &[]).unwrap();
    }
    saves.wait().unwrap();
    let file = |step: u64, name: &str| folder.0.join(format!("step-{step:08}")).join(name);
    std::fs::write(file(3, "index.json"), "{").unwrap();
    std::fs::remove_file(file(2, "rank-00000.safetensors")).unwrap();
    let found = saves.latest().unwrap().unwrap();
    assert_eq!(found.step(), 1);
    assert_eq!(found.skipped()[0], format!("{}: the index is truncated", file(3, "index.json").display()));
    assert_eq!(found.skipped()[1], format!("{}: the file is missing", file(2, "rank-00000.safetensors").display()));
    // Damaged data is found when it is read.
    let like = Array::scalar(0.0f32);
    saves.save(4, &Array::scalar(4.0f32), &[]).unwrap();
    assert_eq!(saves.resume(&like).unwrap().unwrap().1.item::<f32>().unwrap(), 4.0);
    let mut bytes = std::fs::read(file(4, "rank-00000.safetensors")).unwrap();
    let data = bytes.len() - 8;
    bytes[data] ^= 1;
    std::fs::write(file(4, "rank-00000.safetensors"), &bytes).unwrap();
    assert_eq!(saves.latest().unwrap().unwrap().step(), 4);
    let (found, value) = saves.resume(&like).unwrap().unwrap();
    assert_eq!((found.step(), found.skipped().len(), value.item::<f32>().unwrap()), (1, 3, 1.0));
    assert!(found.skipped()[0].contains("the checksum of data bytes 0..4"), "{:?}", found.skipped());
    assert!(saves.resume(&Array::scalar(0i32)).is_err());
    std::fs::remove_dir_all(folder.0.join("step-00000004")).unwrap();
    std::fs::remove_file(file(1, "index.json")).unwrap();
    let error = saves.latest().err().unwrap().to_string();
    assert!(error.contains("none of 3 checkpoints can be used"), "{error}");
    let error = saves.at(7).err().unwrap().to_string();
    assert_eq!(error, format!("{}: the file is missing", file(7, "index.json").display()));
}

#[test]
fn another_tree_is_refused_with_names_and_shapes() {
    let folder = Folder::new("tree");
    let mut saves = Checkpoints::open(&folder.0).unwrap();
    let tree = (Array::from([1.0f32, 2.0]), vec![Array::scalar(3i32)]);
    saves.save(5, &tree, &[]).unwrap();
    let found = saves.latest().unwrap().unwrap();
    let place = found.folder().display().to_string();
    let wrong = |like: &(Array, Vec<Array>)| found.restore(like).unwrap_err().to_string();
    let shape = wrong(&(Array::from([1.0f32]), vec![Array::scalar(3i32)]));
    assert_eq!(shape, format!(r#"{place}: array "0" was saved as f32[2], not f32[1]"#));
    let more = wrong(&(Array::from([1.0f32, 2.0]), vec![]));
    assert_eq!(more, format!(r#"{place}: it has arrays that the tree asked for has not: "1/0""#));
    let less = wrong(&(Array::from([1.0f32, 2.0]), vec![Array::scalar(3i32); 2]));
    assert_eq!(less, format!(r#"{place}: there is no array "1/1"; it has "0", "1/0""#));
    let part = found.restore_part("1", &vec![Array::scalar(0i32)]).unwrap();
    assert_eq!(part[0].item::<i32>().unwrap(), 3);
}

#[test]
fn ranks_that_disagree_fail_or_are_silent_are_named() {
    let folder = Folder::new("ranks");
    let token = Ranks::draw();
    let rank = |rank| Checkpoints::of(&folder.0, Ranks::new(rank, 2, &token, Duration::from_millis(300)));
    let (mut zero, mut one) = (rank(0), rank(1));
    zero.save(1, &Array::from([1.0f32]), &[]).unwrap();
    one.save(1, &Array::from([1.0f32, 2.0]), &[]).unwrap();
    let (zero_says, one_says) = (zero.wait().unwrap_err().to_string(), one.wait().unwrap_err().to_string());
    assert_eq!(zero_says, "step 1 was not saved: rank 1 saves another tree than rank 0, or one with other placements");
    assert!(one_says.starts_with("step 1 was not saved: rank 0: step 1 was not saved: rank 1 saves"), "{one_says}");
    // Only rank 0 saves.
    zero.save(2, &Array::from([1.0f32]), &[]).unwrap();
    let error = zero.wait().unwrap_err().to_string();
    assert_eq!(error, "step 2 was not saved: rank 1 has not written its part within 0.3 s");
    assert!(zero.steps().unwrap().is_empty());
}

#[test]
fn of_three_ranks_the_one_with_another_tree_is_named_whichever_it_is() {
    for odd in 0..3 {
        let folder = Folder::new("odd");
        let token = Ranks::draw();
        let rank = |rank| Checkpoints::of(&folder.0, Ranks::new(rank, 3, &token, Duration::from_secs(5)));
        let mut ranks: Vec<Checkpoints> = (0..3).map(rank).collect();
        for (i, saves) in ranks.iter_mut().enumerate() {
            let tree = if i == odd { Array::from([1.0f32, 2.0]) } else { Array::from([1.0f32]) };
            saves.save(1, &tree, &[]).unwrap();
        }
        for saves in &mut ranks {
            let error = saves.wait().unwrap_err().to_string();
            assert!(error.contains(&format!("rank {odd} saves another tree than")), "{odd}: {error}");
        }
    }
}

#[test]
fn what_is_saved_is_what_the_arrays_were_even_if_they_are_donated_meanwhile() {
    let folder = Folder::new("snapshot");
    let mut saves = Checkpoints::open(&folder.0).unwrap();
    let mesh = Mesh::linear("x", 2).unwrap();
    let step = crate::jit(|x: Tensor| x + 1.0).on(&mesh).in_shardings([crate::P!["x"]]).donate([0]);
    let mut x = step.call(&Array::zeros([1 << 16], ElementType::F32)).unwrap();
    saves.save(1, &x, &[]).unwrap();
    for _ in 0..20 {
        x = step.call(&x).unwrap();
    }
    let found = saves.latest().unwrap().unwrap();
    let back = found.restore(&x).unwrap();
    assert!(back.to_vec::<f32>().unwrap().iter().all(|&v| v == 1.0));
    found.verify().unwrap();
}

#[test]
fn a_folder_that_can_not_be_written_is_an_error_of_the_next_call() {
    let folder = Folder::new("file");
    std::fs::write(&folder.0, "not a folder").unwrap();
    let mut saves = Checkpoints::open(&folder.0).unwrap();
    saves.save(1, &Array::scalar(1.0f32), &[]).unwrap();
    assert!(saves.save(2, &Array::scalar(1.0f32), &[]).is_err());
    std::fs::remove_file(&folder.0).unwrap();
}
