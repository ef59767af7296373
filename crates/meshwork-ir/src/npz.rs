//! NumPy's `.npz` files: zip archives of `.npy` entries, stored or deflated.
//!
//! Only what NumPy writes is read: no encryption, no split archives. Sizes come from the central directory, so an
//! entry is never inflated beyond what it declares, and an archive that declares far more than it has is refused before
//! anything is inflated.

/// One entry of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name without `.npy`.
    pub name: String,
    /// The uncompressed bytes.
    pub bytes: Vec<u8>,
}

/// An archive may declare this many bytes whatever its own size is.
const PLAUSIBLE: u64 = 256 << 20;
/// One that declares more holds at least one byte for so many: few arrays compress that well, and a file made to fill the
/// memory does.
const RATIO: u64 = 100;

/// The entries of the archive in the order of its directory.
pub fn read(file: &[u8]) -> Result<Vec<Entry>, String> {
    let (count, start) = find_directory(file).ok_or("not a zip archive: no end-of-directory record")?;
    let mut at = start;
    let mut listed = vec![];
    for _ in 0..count {
        let (entry, next) = directory_entry(file, at).ok_or("malformed zip directory")?;
        at = next;
        listed.push(entry);
    }
    let declared = listed.iter().fold(0u64, |sum, entry| sum.saturating_add(entry.size));
    if declared > PLAUSIBLE.max(RATIO.saturating_mul(file.len() as u64)) {
        return Err(format!(
            "its {count} entries declare {declared} bytes, more than {RATIO} times the {} bytes of the archive; unpack it \
             and read the .npy files if that is right",
            file.len()
        ));
    }
    let mut entries = vec![];
    for entry in listed {
        let bytes = entry_bytes(file, &entry).map_err(|e| format!("entry '{}': {e}", entry.name))?;
        entries.push(Entry { name: entry.name.trim_end_matches(".npy").to_string(), bytes });
    }
    Ok(entries)
}

/// An archive of these entries, stored without compression, as NumPy's `savez` writes it.
pub fn write(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let mut out = vec![];
    let mut directory = vec![];
    let small = |n: usize, what: &str| u32::try_from(n).map_err(|_| format!("{what} is longer than 4 GiB"));
    for entry in entries {
        let name = format!("{}.npy", entry.name);
        let name_length = u16::try_from(name.len()).map_err(|_| format!("the name '{}' is too long", entry.name))?;
        let (size, offset) = (small(entry.bytes.len(), &name)?, small(out.len(), "the archive")?);
        // Version needed, flags, method, time, date (1 January 1980), checksum, sizes, length of the name, no extra.
        let mut fields = vec![20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0];
        fields.extend(crc32fast::hash(&entry.bytes).to_le_bytes());
        fields.extend(size.to_le_bytes());
        fields.extend(size.to_le_bytes());
        fields.extend(name_length.to_le_bytes());
        fields.extend([0, 0]);
        out.extend(b"PK\x03\x04");
        out.extend(&fields);
        out.extend(name.as_bytes());
        out.extend(&entry.bytes);
        directory.extend(b"PK\x01\x02\x14\0");
        directory.extend(&fields);
        // No comment, disk 0, no attributes.
        directory.extend([0; 10]);
        directory.extend(offset.to_le_bytes());
        directory.extend(name.as_bytes());
    }
    let count = u16::try_from(entries.len()).map_err(|_| format!("{} arrays; at most 65535", entries.len()))?;
    let (start, length) = (small(out.len(), "the archive")?, small(directory.len(), "the directory")?);
    out.extend(directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend(count.to_le_bytes());
    out.extend(count.to_le_bytes());
    out.extend(length.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    Ok(out)
}

/// What the directory says about an entry.
struct Listed {
    name: String,
    method: u16,
    compressed: u64,
    size: u64,
    offset: u64,
}

fn u16_at(file: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*file.get(at..)?.first_chunk()?))
}

fn u32_at(file: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?))
}

fn u64_at(file: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*file.get(at..)?.first_chunk()?))
}

/// Number of entries and place of the directory.
fn find_directory(file: &[u8]) -> Option<(u64, usize)> {
    // The record is 22 bytes plus a comment of at most 65535.
    let from = file.len().saturating_sub(22 + 0xffff);
    let end = (from..file.len().checked_sub(21)?).rev().find(|&i| file[i..].starts_with(b"PK\x05\x06"))?;
    let (count, start) = (u16_at(file, end + 10)?, u32_at(file, end + 16)?);
    if count != 0xffff && start != u32::MAX {
        return Some((count.into(), start as usize));
    }
    let locator = end.checked_sub(20).filter(|&i| file[i..].starts_with(b"PK\x06\x07"))?;
    let end64 = usize::try_from(u64_at(file, locator + 8)?).ok()?;
    file.get(end64..)?.starts_with(b"PK\x06\x06").then_some(())?;
    Some((u64_at(file, end64.checked_add(32)?)?, usize::try_from(u64_at(file, end64.checked_add(48)?)?).ok()?))
}

/// The directory entry at `at` and the place of the next one.
fn directory_entry(file: &[u8], at: usize) -> Option<(Listed, usize)> {
    file.get(at..)?.starts_with(b"PK\x01\x02").then_some(())?;
    let name_len = u16_at(file, at + 28)? as usize;
    let extra_len = u16_at(file, at + 30)? as usize;
    let comment_len = u16_at(file, at + 32)? as usize;
    let name = file.get(at + 46..at + 46 + name_len)?;
    let extra = file.get(at + 46 + name_len..at + 46 + name_len + extra_len)?;
    let mut entry = Listed {
        name: String::from_utf8_lossy(name).into_owned(),
        method: u16_at(file, at + 10)?,
        compressed: u32_at(file, at + 20)?.into(),
        size: u32_at(file, at + 24)?.into(),
        offset: u32_at(file, at + 42)?.into(),
    };
    widen(&mut entry, extra);
    Some((entry, at + 46 + name_len + extra_len + comment_len))
}

/// Takes the 64-bit sizes from the extra field, where the 32-bit ones are all ones.
fn widen(entry: &mut Listed, mut extra: &[u8]) {
    while let (Some(id), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let Some(body) = extra.get(4..4 + len as usize) else { return };
        if id == 1 {
            let mut at = 0;
            for field in [&mut entry.size, &mut entry.compressed, &mut entry.offset] {
                if *field == u32::MAX.into()
                    && let Some(wide) = u64_at(body, at)
                {
                    *field = wide;
                    at += 8;
                }
            }
        }
        extra = &extra[4 + len as usize..];
    }
}

fn entry_bytes(file: &[u8], entry: &Listed) -> Result<Vec<u8>, String> {
    let data = entry_data(file, entry).ok_or("its data is outside the file")?;
    let size = usize::try_from(entry.size).map_err(|_| format!("its size {} does not fit in memory", entry.size))?;
    let bytes = match entry.method {
        0 => data.to_vec(),
        8 => miniz_oxide::inflate::decompress_to_vec_with_limit(data, size)
            .map_err(|e| format!("its compressed data is damaged ({e})"))?,
        other => return Err(format!("compression method {other} is not supported (0 stored and 8 deflated are)")),
    };
    if bytes.len() != size {
        return Err(format!("it holds {} bytes, but the directory says {size}", bytes.len()));
    }
    Ok(bytes)
}

fn entry_data<'f>(file: &'f [u8], entry: &Listed) -> Option<&'f [u8]> {
    let at = usize::try_from(entry.offset).ok()?;
    file.get(at..)?.starts_with(b"PK\x03\x04").then_some(())?;
    let skip = 30 + u16_at(file, at + 26)? as usize + u16_at(file, at + 28)? as usize;
    file.get(at + skip..)?.get(..usize::try_from(entry.compressed).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An archive with one entry, built by hand.
    fn archive(method: u16, data: &[u8], size: u32) -> Vec<u8> {
        let mut out = b"PK\x03\x04".to_vec();
        out.extend_from_slice(&[0; 22]);
        out.extend_from_slice(&[5, 0, 0, 0]);
        out.extend_from_slice(b"x.npy");
        out.extend_from_slice(data);
        let start = out.len() as u32;
        out.extend_from_slice(b"PK\x01\x02\0\0\0\0\0\0");
        out.extend_from_slice(&method.to_le_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&(data.len() as u32).to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&[5, 0]);
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(b"x.npy");
        out.extend_from_slice(b"PK\x05\x06\0\0\0\0\x01\0\x01\0\0\0\0\0");
        out.extend_from_slice(&start.to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out
    }

    #[test]
    fn stored_and_deflated_entries() {
        let entry = || vec![Entry { name: "x".into(), bytes: b"aaaaaaaa".to_vec() }];
        assert_eq!(read(&archive(0, b"aaaaaaaa", 8)), Ok(entry()));
        let deflated = miniz_oxide::deflate::compress_to_vec(b"aaaaaaaa", 6);
        assert_eq!(read(&archive(8, &deflated, 8)), Ok(entry()));
    }

    #[test]
    fn what_is_written_is_read() {
        // The check value of the checksum's definition.
        assert_eq!(crc32fast::hash(b"123456789"), 0xcbf4_3926);
        let entries = vec![
            Entry { name: "w".into(), bytes: b"some bytes".to_vec() },
            Entry { name: "layers/0/b".into(), bytes: vec![] },
        ];
        assert_eq!(read(&write(&entries).unwrap()), Ok(entries));
        assert_eq!(read(&write(&[]).unwrap()), Ok(vec![]));
    }

    #[test]
    fn damaged_archives_are_errors() {
        assert_eq!(read(b"PK"), Err("not a zip archive: no end-of-directory record".into()));
        assert!(read(&archive(99, b"a", 1)).unwrap_err().contains("compression method 99"));
        assert!(read(&archive(0, b"a", 2)).unwrap_err().contains("holds 1 bytes, but the directory says 2"));
        let deflated = miniz_oxide::deflate::compress_to_vec(&[0; 10_000], 6);
        assert!(read(&archive(8, &deflated, 10)).unwrap_err().contains("damaged"));
        let whole = archive(0, b"aaaa", 4);
        for cut in 0..whole.len() {
            let _no_panic = read(&whole[cut..]);
        }
    }

    /// The directory says how large the entry is before a byte of it is inflated.
    #[test]
    fn an_archive_that_declares_far_more_than_it_has_is_refused() {
        for method in [0, 8] {
            let error = read(&archive(method, b"aaaa", u32::MAX - 1)).unwrap_err();
            assert!(error.starts_with("its 1 entries declare 4294967294 bytes, more than 100 times"), "{error}");
        }
        // Many entries of the same bytes.
        let one = archive(0, &[7; 100_000], 100_000);
        let directory = one.len() - 22 - 51;
        let mut many = one[..directory].to_vec();
        (0..10_000).for_each(|_| many.extend_from_slice(&one[directory..one.len() - 22]));
        let mut end = one[one.len() - 22..].to_vec();
        end[8..12].copy_from_slice(&[0x10, 0x27, 0x10, 0x27]);
        many.extend(end);
        let error = read(&many).unwrap_err();
        assert!(error.starts_with("its 10000 entries declare 1000000000 bytes"), "{error}");
        // What compresses well and is not large is read.
        let zeros = miniz_oxide::deflate::compress_to_vec(&vec![0; 1 << 20], 6);
        assert_eq!(read(&archive(8, &zeros, 1 << 20)).unwrap()[0].bytes.len(), 1 << 20);
    }

    #[test]
    fn files_that_numpy_wrote() {
        let arrays = |file: &[u8]| {
            let entries = read(file).unwrap().into_iter();
            entries.map(|e| (e.name, crate::npy::read(&e.bytes).unwrap())).collect::<Vec<_>>()
        };
        let stored = arrays(include_bytes!("../tests/data/stored.npz"));
        assert_eq!(
            stored.iter().map(|(n, a)| format!("{n} {}", a.ty())).collect::<Vec<_>>(),
            ["arr_0 tensor<2x3xf32>", "arr_1 tensor<2xi1>"]
        );
        assert_eq!(stored[1].1.bytes(), [1, 0]);
        let deflated = arrays(include_bytes!("../tests/data/deflated.npz"));
        assert_eq!(
            deflated.iter().map(|(n, a)| format!("{n} {}", a.ty())).collect::<Vec<_>>(),
            ["second tensor<2x3xf32>", "first tensor<2x3xi16>"]
        );
        assert_eq!(deflated[0].1, stored[0].1);
        assert_eq!((0..6).map(|i| deflated[1].1.get_i64(i)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    }
}
