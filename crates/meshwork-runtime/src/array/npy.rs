//! NumPy's `.npy` files: read whole, or only what the devices of this process hold.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use meshwork_ir::npy::{self, Layout};
use meshwork_mesh::{Mesh, P};

use super::slices::{copy, lengths, overlap};
use super::{Array, Placement, place};
use crate::boxes::{BoxCopy, Region};
use crate::error::ArrayError;

type Result<T> = std::result::Result<T, ArrayError>;

/// No header is longer than this.
const LONGEST_HEADER: u64 = 1 << 20;

impl Array {
    /// Reads a `.npy` file. Element types that NumPy has no name for come as integers of their width.
    pub fn load_npy(path: impl AsRef<Path>) -> Result<Array> {
        let path = path.as_ref();
        let bytes = std::fs::read(path).map_err(file_error(path))?;
        npy::read(&bytes).map(Array::from_literal).map_err(file_error(path))
    }

    /// Reads a `.npy` file as an array placed like this on `mesh`: of the file what devices of this process hold, each part
    /// once and to where it belongs. The array is never whole on the host.
    pub fn load_npy_sharded(path: impl AsRef<Path>, mesh: &Mesh, spec: &P) -> Result<Array> {
        Array::load_npy_pieces(&[path], 0, mesh, spec)
    }

    /// Reads `.npy` files that are pieces of one array, one after the other along dimension `dim`, as an array placed
    /// so on `mesh`. Each process reads what its devices hold, whichever files that is in.
    ///
    /// ```
    /// use meshwork_mesh::{Mesh, P};
    /// use meshwork_runtime::Array;
    ///
    /// let name = |i| std::env::temp_dir().join(format!("meshwork_doc_piece_{}_{i}.npy", std::process::id()));
    /// Array::from([1.0f32, 2.0, 3.0]).save_npy(name(0))?;
    /// Array::from([4.0f32]).save_npy(name(1))?;
    /// let x = Array::load_npy_pieces(&[name(0), name(1)], 0, &Mesh::linear("x", 2)?, &P!["x"])?;
    /// assert_eq!(x.shard_data(1)?.to_vec::<f32>()?, [3.0, 4.0]);
    /// # (0..2).for_each(|i| std::fs::remove_file(name(i)).unwrap());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn load_npy_pieces(paths: &[impl AsRef<Path>], dim: usize, mesh: &Mesh, spec: &P) -> Result<Array> {
        let mut files = paths.iter().map(|p| Npy::open(p.as_ref())).collect::<Result<Vec<_>>>()?;
        let Some(first) = files.first() else {
            return Err(ArrayError::NoFiles);
        };
        let (mut shape, elem) = (first.layout.shape.clone(), first.layout.elem);
        for file in &files {
            let other = &file.layout;
            let same = other.shape.len() == shape.len() && (files.len() == 1 || dim < shape.len());
            let fits = |d: usize| d == dim || other.shape[d] == shape[d];
            if !same || !(0..shape.len()).all(fits) || other.elem != elem {
                let (a, b) = (format!("{}{:?}", other.elem, other.shape), format!("{elem}{shape:?}"));
                return Err(file.fail(format!("it has {a} and the first file {b}; only dimension {dim} may differ")));
            }
        }
        if dim < shape.len() {
            shape[dim] = files.iter().map(|f| f.layout.shape[dim]).sum();
        }
        let placement = Placement { mesh: mesh.clone().into(), sharding: place(spec, mesh, &shape)? };
        Array::on_mesh(&shape, elem, &placement, |_, slice, local, buffer| {
            let mut start = 0;
            for file in &mut files {
                let mut held: Vec<Range<i64>> = file.layout.shape.iter().map(|&n| 0..n).collect();
                if let Some(r) = held.get_mut(dim) {
                    *r = start..start + r.end;
                    start = r.end;
                }
                if let Some(both) = overlap(slice, &held) {
                    let from = |base: &[Range<i64>]| both.iter().zip(base).map(|(r, b)| r.start - b.start).collect();
                    let (from, to): (Vec<i64>, Vec<i64>) = (from(&held), from(slice));
                    file.fill(&from, &lengths(&both), &Region { dims: local, start: &to }, buffer)?;
                }
            }
            Ok(())
        })
    }

    /// Writes a `.npy` file.
    ///
    /// ```
    /// use meshwork_mesh::{Mesh, P};
    /// use meshwork_runtime::Array;
    ///
    /// let path = std::env::temp_dir().join("meshwork_doc.npy");
    /// Array::from([1.0f32, 2.0]).save_npy(&path)?;
    /// assert_eq!(Array::load_npy(&path)?.to_vec::<f32>()?, [1.0, 2.0]);
    /// # std::fs::remove_file(path).unwrap();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save_npy(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        std::fs::write(path, npy::write(self.literal()?)).map_err(file_error(path))
    }
}

/// What went wrong with a file.
fn file_error<E: std::fmt::Display>(path: &Path) -> impl Fn(E) -> ArrayError {
    let path = path.display().to_string();
    move |e| ArrayError::File { path: path.clone(), what: e.to_string() }
}

/// An open file whose header is read.
struct Npy {
    file: File,
    name: String,
    layout: Layout,
}

impl Npy {
    fn open(path: &Path) -> Result<Npy> {
        let fails = |e: std::io::Error| file_error(path)(e);
        let mut file = File::open(path).map_err(fails)?;
        let mut head = vec![];
        (&mut file).take(LONGEST_HEADER).read_to_end(&mut head).map_err(fails)?;
        let layout = npy::layout(&head).map_err(|e| file_error(path)(e))?;
        let have = file.metadata().map_err(fails)?.len() - layout.start as u64;
        if layout.bytes() != Some(have) {
            return Err(file_error(path)(layout.wrong_length(have as usize)));
        }
        Ok(Npy { file, name: path.display().to_string(), layout })
    }

    /// Reads the box of extents `lengths` that starts at `from` to its place in `out`.
    fn fill(&mut self, from: &[i64], lengths: &[i64], to: &Region<'_>, out: &mut [u8]) -> Result<()> {
        let size = self.layout.elem.storage_bytes();
        let zero = vec![0; from.len()];
        // In the order of the file first: that of a Fortran array is the other way round.
        let turn = |dims: &[i64]| -> Vec<i64> {
            if self.layout.fortran { dims.iter().rev().copied().collect() } else { dims.to_vec() }
        };
        let (shape, from, extents) = (turn(&self.layout.shape), turn(from), turn(lengths));
        let mut block = vec![0u8; lengths.iter().product::<i64>() as usize * size];
        let (at, whole) = (Region { dims: &shape, start: &from }, Region { dims: &extents, start: &zero });
        let read = BoxCopy::new(&at, &whole, &extents, size).runs(usize::MAX, &mut |from, to, length| {
            self.file.seek(SeekFrom::Start((self.layout.start + from) as u64))?;
            self.file.read_exact(&mut block[to..to + length])
        });
        read.map_err(|e: std::io::Error| self.fail(e.to_string()))?;
        self.layout.convert(&mut block);
        if self.layout.fortran {
            block = npy::to_row_major(&block, lengths, size);
        }
        copy(&block, &Region { dims: lengths, start: &zero }, out, to, lengths, size);
        Ok(())
    }

    fn fail(&self, what: String) -> ArrayError {
        ArrayError::File { path: self.name.clone(), what }
    }
}
