//! Any index that ends in its checksum is a checkpoint or an error, and so is every array of it. Its folder has the data of a
//! real checkpoint; an empty input stands for the index of that one.
#![no_main]

use std::path::PathBuf;
use std::sync::LazyLock;

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use meshwork::prelude::*;
use meshwork::save::{Checkpoint, Checkpoints};

/// The folder of a checkpoint, and its index without the checksum.
static SAVED: LazyLock<(PathBuf, String)> = LazyLock::new(|| {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = base.join(format!("meshwork-fuzz-{}", std::process::id()));
    let two = Mesh::linear("x", 2).expect("a mesh");
    let split = Array::from_fn([6, 2], |i| i[0] as f32).shard(&two, P!["x"]).expect("an array");
    let mut saves = Checkpoints::open(&folder).expect("a folder");
    saves.save(7, &(split, Array::from([1i8, 2, 3])), &[("seed", "7")]).expect("a save");
    let found = saves.latest().expect("a checkpoint").expect("a checkpoint").folder().to_path_buf();
    let index = std::fs::read_to_string(found.join("index.json")).expect("an index");
    let end = index.rfind("\"checksum\"").expect("a checksum");
    (found, index[..end].to_string())
});

fuzz_target!(|body: &[u8]| {
    let (folder, saved) = &*SAVED;
    let body = if body.is_empty() { saved.as_bytes() } else { body };
    let mut index = body.to_vec();
    index.extend_from_slice(format!("\"checksum\":\"{:08x}\"}}\n", crc32fast::hash(body)).as_bytes());
    std::fs::write(folder.join("index.json"), index).expect("a file");
    let Ok(checkpoint) = Checkpoint::open(folder) else { return };
    for (path, elem, dims) in checkpoint.arrays() {
        let whole: Vec<_> = dims.iter().map(|&n| 0..n).collect();
        if let Ok(array) = checkpoint.slice(path, &whole) {
            assert_eq!((array.shape(), array.dtype()), (dims, elem));
        }
    }
    let _whole_or_error = checkpoint.verify();
});

fuzz_mutator!(|data: &mut [u8], size: usize, most: usize, seed: u32| {
    let saved = SAVED.1.as_bytes();
    let size = if size == 0 && saved.len() <= most {
        data[..saved.len()].copy_from_slice(saved);
        saved.len()
    } else {
        size
    };
    if seed.is_multiple_of(2) { fuzzer_mutate(data, size, most) } else { meshwork_fuzz::tokens(data, size, most, seed) }
});
