//! Compiled programs on disk.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

/// A folder of compiled programs, each in a file with the key that it was compiled from.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub fn new(folder: PathBuf) -> Cache {
        Cache { folder }
    }

    fn file(&self, key: &str) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        self.folder.join(format!("{:016x}.pjrt", hasher.finish()))
    }

    /// What was put under `key`, unless its file is damaged or another key's.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        let bytes = std::fs::read(self.file(key)).ok()?;
        let (size, rest) = bytes.split_first_chunk::<8>()?;
        let (stored, rest) = rest.split_at_checked(u64::from_le_bytes(*size) as usize)?;
        let (sum, program) = rest.split_first_chunk::<4>()?;
        (stored == key.as_bytes() && u32::from_le_bytes(*sum) == crc32fast::hash(program)).then(|| program.to_vec())
    }

    /// Keeps `program` under `key`. A folder that cannot be written is no error: the program is compiled again.
    pub fn put(&self, key: &str, program: &[u8]) {
        let size = (key.len() as u64).to_le_bytes();
        let bytes = [&size, key.as_bytes(), &crc32fast::hash(program).to_le_bytes(), program].concat();
        let file = self.file(key);
        let own = file.with_extension(format!("{}.new", std::process::id()));
        // Other processes see it whole or not at all.
        let written = std::fs::create_dir_all(&self.folder).and_then(|()| std::fs::write(&own, bytes));
        if written.and_then(|()| std::fs::rename(&own, file)).is_err() {
            let _ = std::fs::remove_file(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_come_back_whole_or_not_at_all() {
        let folder = std::env::temp_dir().join(format!("meshwork-cache-{}", std::process::id()));
        let cache = Cache::new(folder.clone());
        assert_eq!(cache.get("a"), None);
        cache.put("a", b"program");
        assert_eq!(cache.get("a").as_deref(), Some(&b"program"[..]));
        assert_eq!(cache.get("b"), None);
        let file = cache.file("a");
        let whole = std::fs::read(&file).unwrap();
        for cut in 0..whole.len() {
            std::fs::write(&file, &whole[..cut]).unwrap();
            assert_eq!(cache.get("a"), None, "{cut}");
        }
        for i in 0..whole.len() {
            let mut wrong = whole.clone();
            wrong[i] ^= 1;
            std::fs::write(&file, wrong).unwrap();
            assert_eq!(cache.get("a"), None, "{i}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}
