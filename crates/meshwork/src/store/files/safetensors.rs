//! Safetensors: named arrays behind a header with the offset of each, so that any part of one can be read alone.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::Path;

use meshwork_ir::{ElementType, Literal};
use meshwork_mesh::{Mesh, MeshRef, slice_of};
use safetensors::tensor::{Dtype, Metadata, TensorView};

use super::file_error;
use crate::error::{Error, Result};
use crate::rule::{Leaf, Rule};
use crate::spec::P;
use crate::tree::{HostTree, map_arrays, named_arrays};
use meshwork_runtime::array::place;
use meshwork_runtime::array::slices::lengths;
use meshwork_runtime::boxes::{BoxCopy, Region};
use meshwork_runtime::{Array, Placement, Shard};

/// An open safetensors file. Nothing but the header is read until an array is asked for.
///
/// ```
/// use meshwork::prelude::*;
/// use meshwork::SafeTensors;
///
/// let path = std::env::temp_dir().join("meshwork_doc.safetensors");
/// meshwork::save_safetensors(&path, &[("w", Array::from_fn([4, 2], |i| (2 * i[0] + i[1]) as f32))])?;
/// let mut file = SafeTensors::open(&path)?;
/// assert_eq!(file.slice("w", &[1..2, 0..2])?.to_vec::<f32>()?, [2.0, 3.0]);
///
/// let mesh = Mesh::linear("x", 2)?;
/// let w = file.sharded("w", &mesh, &P!["x"])?;
/// assert_eq!(w.shards()[1].slice, [2..4, 0..2]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), meshwork::Error>(())
/// ```
pub struct SafeTensors<R = BufReader<File>> {
    reader: R,
    metadata: Metadata,
    /// Where the data starts.
    start: u64,
    name: String,
}

/// No header is longer than this, which is the limit of the format.
const LONGEST_HEADER: u64 = 100_000_000;

impl SafeTensors {
    /// Opens a file.
    pub fn open(path: impl AsRef<Path>) -> Result<SafeTensors> {
        let path = path.as_ref();
        let file = File::open(path).map_err(file_error(path))?;
        SafeTensors::from_reader(BufReader::new(file), &path.display().to_string())
    }
}

impl<R: Read + Seek> SafeTensors<R> {
    /// Reads from anything that can be read at any place; `name` is used in errors.
    pub fn from_reader(mut reader: R, name: &str) -> Result<SafeTensors<R>> {
        let fail = |what: String| Error::File { path: name.to_string(), what };
        let mut length = [0; 8];
        reader.read_exact(&mut length).map_err(|e| fail(e.to_string()))?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(fail(format!("a header of {length} bytes; safetensors have at most {LONGEST_HEADER}")));
        }
        let mut header = vec![];
        let read = (&mut reader).take(length).read_to_end(&mut header).map_err(|e| fail(e.to_string()))?;
        if read as u64 != length {
            return Err(fail(format!("the header has {length} bytes, the file {read}")));
        }
        let metadata: Metadata = serde_json::from_slice(&header).map_err(|e| fail(format!("its header: {e}")))?;
        let end = reader.seek(SeekFrom::End(0)).map_err(|e| fail(e.to_string()))?;
        let needed = 8 + length + metadata.data_len() as u64;
        if end < needed {
            return Err(fail(format!("it has {end} bytes where its header says {needed}")));
        }
        Ok(SafeTensors { reader, metadata, start: 8 + length, name: name.to_string() })
    }

    /// The names of the arrays, in the order of their data.
    pub fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    /// Shape and element type of an array.
    pub fn describe(&self, name: &str) -> Result<(Vec<i64>, ElementType)> {
        let Some(info) = self.metadata.info(name) else {
            return Err(self.fail(format!("there is no array {name:?}; it has {:?}", self.names())));
        };
        let Some(elem) = element(info.dtype) else {
            return Err(self.fail(format!("array {name:?} has elements of type {:?}", info.dtype)));
        };
        let shape: Option<Vec<i64>> = info.shape.iter().map(|&n| i64::try_from(n).ok()).collect();
        let bytes = |dims: &Vec<i64>| dims.iter().try_fold(elem.storage_bytes() as i64, |n, &d| n.checked_mul(d));
        let shape = shape.filter(|dims| bytes(dims).is_some());
        Ok((shape.ok_or_else(|| self.fail(format!("array {name:?} has shape {:?}", info.shape)))?, elem))
    }

    /// Reads a whole array.
    pub fn array(&mut self, name: &str) -> Result<Array> {
        let (shape, _) = self.describe(name)?;
        let whole: Vec<Range<i64>> = shape.iter().map(|&n| 0..n).collect();
        self.slice(name, &whole)
    }

    /// Reads a part of an array, and of the file nothing but that part.
    pub fn slice(&mut self, name: &str, slice: &[Range<i64>]) -> Result<Array> {
        let (shape, elem) = self.describe(name)?;
        let fits = slice.len() == shape.len()
            && slice.iter().zip(&shape).all(|(r, &n)| 0 <= r.start && r.start <= r.end && r.end <= n);
        if !fits {
            return Err(self.fail(format!("{slice:?} is not a part of {name:?}, which has shape {shape:?}")));
        }
        let dims = lengths(slice);
        let mut bytes = vec![0u8; dims.iter().product::<i64>() as usize * elem.storage_bytes()];
        self.fill(name, slice, &dims, &mut bytes)?;
        let literal = Literal::from_bytes(dims, elem, bytes);
        literal.map(Array::from_literal).ok_or_else(|| self.fail(format!("array {name:?} is damaged")))
    }

    /// Reads `slice` of an array to the front of a buffer with extents `local`.
    fn fill(&mut self, name: &str, slice: &[Range<i64>], local: &[i64], out: &mut [u8]) -> Result<()> {
        let (shape, elem) = self.describe(name)?;
        let begin = self.metadata.info(name).map_or(0, |i| i.data_offsets.0 as u64) + self.start;
        let start: Vec<i64> = slice.iter().map(|r| r.start).collect();
        let zero = vec![0; start.len()];
        let (from, to) = (Region { dims: &shape, start: &start }, Region { dims: local, start: &zero });
        let read = BoxCopy::new(&from, &to, &lengths(slice), elem.storage_bytes()).runs(
            usize::MAX,
            &mut |from, to, length| {
                self.reader.seek(SeekFrom::Start(begin + from as u64))?;
                self.reader.read_exact(&mut out[to..to + length])
            },
        );
        read.map_err(|e: std::io::Error| self.fail(format!("array {name:?}: {e}")))
    }

    /// Reads what these devices hold of an array placed like this on `mesh`: blocks that several hold are read once.
    pub fn shards(&mut self, name: &str, mesh: &Mesh, spec: &P, devices: &[i64]) -> Result<Vec<(Shard, Array)>> {
        let (shape, _) = self.describe(name)?;
        let what = || format!("{spec} for {name:?} of shape {shape:?}");
        let wrong = |error| Error::Sharding { what: what(), error: Box::new(error) };
        let sharding = spec.sharding(MeshRef::from(mesh.clone()), mesh, shape.len()).map_err(wrong)?;
        let mut read: HashMap<Vec<Range<i64>>, Array> = HashMap::new();
        let mut out = vec![];
        for &device in devices {
            let slice = slice_of(&sharding, mesh, &shape, device).map_err(wrong)?;
            let array = match read.get(&slice) {
                Some(array) => array.clone(),
                None => self.slice(name, &slice)?,
            };
            read.insert(slice.clone(), array.clone());
            out.push((Shard { device, slice }, array));
        }
        Ok(out)
    }

    /// Reads an array placed like this on `mesh`: of the file what devices of this process hold, each part once and to where
    /// it belongs. The array is never whole on the host.
    pub fn sharded(&mut self, name: &str, mesh: &Mesh, spec: &P) -> Result<Array> {
        let (shape, elem) = self.describe(name)?;
        let placement = Placement { mesh: mesh.clone().into(), sharding: place(spec, mesh, &shape)? };
        Array::on_mesh(&shape, elem, &placement, |_, slice, local, buffer| self.fill(name, slice, local, buffer))
    }

    fn fail(&self, what: String) -> Error {
        Error::File { path: self.name.clone(), what }
    }
}

/// Writes named arrays.
pub fn save_safetensors<N: AsRef<str>>(path: impl AsRef<Path>, arrays: &[(N, Array)]) -> Result<()> {
    let path = path.as_ref();
    let mut views = vec![];
    for (name, array) in arrays {
        let name = name.as_ref().to_string();
        let Some(dtype) = dtype(array.dtype()) else {
            let what = format!("array {name:?}: safetensors have no name for elements of type {}", array.dtype());
            return Err(file_error(path)(what));
        };
        let shape = array.shape().iter().map(|&n| n as usize).collect();
        let view = TensorView::new(dtype, shape, array.literal()?.bytes()).map_err(file_error(path))?;
        views.push((name, view));
    }
    safetensors::serialize_to_file(views, None, path).map_err(file_error(path))
}

/// Writes a tree of arrays: each under its path.
pub fn save_tree<H: HostTree>(path: impl AsRef<Path>, host: &H) -> Result<()> {
    save_safetensors(path, &named_arrays::<H::Tree>(host))
}

/// Reads a tree of arrays like `like`, whose elements are not used: [`Array::shape_only`] will do. With a mesh, each
/// array is placed as the rule says for its path.
///
/// ```
/// use meshwork::prelude::*;
///
/// let path = std::env::temp_dir().join("meshwork_doc_tree.safetensors");
/// meshwork::save_tree(&path, &(Array::from([1.0f32]), vec![Array::from([2.0f32, 3.0])]))?;
/// let like = (Array::shape_only([1], F32), vec![Array::shape_only([2], F32)]);
/// let mesh = Mesh::linear("x", 2)?;
/// let model = meshwork::load_tree(&path, &like, Some((&mesh, &P![].into())))?;
/// assert_eq!(model.1[0].to_vec::<f32>()?, [2.0, 3.0]);
/// # std::fs::remove_file(path).unwrap();
/// # Ok::<(), meshwork::Error>(())
/// ```
pub fn load_tree<H: HostTree>(path: impl AsRef<Path>, like: &H, placed: Option<(&Mesh, &Rule)>) -> Result<H> {
    let mut file = SafeTensors::open(path)?;
    map_arrays::<H::Tree, Error>(like, |name, old| {
        let (shape, elem) = file.describe(name)?;
        if shape != old.shape() || elem != old.dtype() {
            let what = format!("array {name:?} is {elem}{shape:?}, not {}{:?}", old.dtype(), old.shape());
            return Err(file.fail(what));
        }
        let Some((mesh, rule)) = placed else { return file.array(name) };
        match rule.spec(&Leaf::new(name, old.ty()), mesh)? {
            Some(spec) => file.sharded(name, mesh, &spec),
            None => file.array(name),
        }
    })
}

fn element(dtype: Dtype) -> Option<ElementType> {
    TYPES.iter().find(|(d, _)| *d == dtype).map(|(_, e)| *e)
}

fn dtype(elem: ElementType) -> Option<Dtype> {
    TYPES.iter().find(|(_, e)| *e == elem).map(|(d, _)| *d)
}

const TYPES: [(Dtype, ElementType); 13] = [
    (Dtype::BOOL, ElementType::I1),
    (Dtype::U8, ElementType::UI8),
    (Dtype::I8, ElementType::I8),
    (Dtype::I16, ElementType::I16),
    (Dtype::U16, ElementType::UI16),
    (Dtype::F16, ElementType::F16),
    (Dtype::BF16, ElementType::BF16),
    (Dtype::I32, ElementType::I32),
    (Dtype::U32, ElementType::UI32),
    (Dtype::F32, ElementType::F32),
    (Dtype::F64, ElementType::F64),
    (Dtype::I64, ElementType::I64),
    (Dtype::U64, ElementType::UI64),
];
