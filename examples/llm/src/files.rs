//! The files of a model's weights: one `model.safetensors`, or several and an index that says where each weight is.
//!
//! Files are mapped: what a device holds is copied from there to its memory, and what no device of this process holds is never
//! read.

use std::collections::HashMap;
use std::fs::File;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use memmap2::Mmap;
use meshwork::SafeTensors;
use serde_json::Value;

use crate::error::{Error, Result, in_file};

const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// The weights of a model, by name.
pub struct Files {
    folder: PathBuf,
    files: Vec<SafeTensors<Cursor<Mmap>>>,
    /// The file of each weight.
    place: HashMap<String, usize>,
}

impl Files {
    /// Opens the files of a folder. Of each only the header is read.
    pub fn open(folder: &Path) -> Result<Files> {
        let mut out = Files { folder: folder.to_path_buf(), files: vec![], place: HashMap::new() };
        let (single, index) = (folder.join(SINGLE), folder.join(INDEX));
        if single.exists() {
            let file = map(&single)?;
            out.place = file.names().into_iter().map(|name| (name, 0)).collect();
            out.files = vec![file];
            return Ok(out);
        }
        if !index.exists() {
            let bin = folder.join("pytorch_model.bin").exists().then_some(
                "; there is a pytorch_model.bin: load it with transformers and save_pretrained writes safetensors",
            );
            let what = format!("there is neither {SINGLE} nor {INDEX}{}", bin.unwrap_or_default());
            return Err(Error::File { path: folder.to_path_buf(), what });
        }
        let text = std::fs::read_to_string(&index).map_err(in_file(&index))?;
        let value: Value = serde_json::from_str(&text).map_err(in_file(&index))?;
        let wrong = |what: &str| Error::File { path: index.clone(), what: what.into() };
        let names = value.get("weight_map").and_then(Value::as_object).ok_or_else(|| wrong("weight_map is missing"))?;
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        for (weight, file) in names {
            let file = file.as_str().ok_or_else(|| wrong("a file in weight_map is no text"))?;
            let number = match numbers.get(file) {
                Some(&number) => number,
                None => {
                    out.files.push(map(&folder.join(file))?);
                    out.files.len() - 1
                }
            };
            numbers.insert(file, number);
            out.place.insert(weight.clone(), number);
        }
        Ok(out)
    }

    /// Where they are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file that has this weight.
    pub fn of(&mut self, name: &str) -> Option<&mut SafeTensors<Cursor<Mmap>>> {
        self.place.get(name).map(|&number| &mut self.files[number])
    }
}

fn map(path: &Path) -> Result<SafeTensors<Cursor<Mmap>>> {
    let file = File::open(path).map_err(in_file(path))?;
    // SAFETY: the bytes change only if someone writes to the file meanwhile, which its users do not do: tools replace model
    // files by new ones. It is as with any map of a file; the alternative is a copy of all weights.
    let bytes = unsafe { Mmap::map(&file) }.map_err(in_file(path))?;
    Ok(SafeTensors::from_reader(Cursor::new(bytes), &path.display().to_string())?)
}
