//! The file that `jax.export(...).serialize()` writes: a FlatBuffers table with the program's bytecode in one field.
//!
//! The other fields repeat what the program has: shapes, shardings, platforms. They are not read.

use super::is_bytecode;

/// The field of the table that holds the program.
const PROGRAM: usize = 13;

/// The bytecode in a file of `jax.export`; `None` if the file is something else.
pub(super) fn program(file: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(*file.get(at..)?.first_chunk()?) as usize);
    let short = |at: usize| Some(usize::from(u16::from_le_bytes(*file.get(at..)?.first_chunk()?)));
    let table = number(0)?;
    // A table starts with the distance back to the list of where its fields lie.
    let back = number(table)? as u32 as i32;
    let fields = usize::try_from(i64::try_from(table).ok()? - i64::from(back)).ok()?;
    let entry = 4 + 2 * PROGRAM;
    let field = (entry + 2 <= short(fields)?).then(|| short(fields + entry)).flatten().filter(|&f| f != 0)?;
    let vector = table.checked_add(field)?.checked_add(number(table + field)?)?;
    let start = vector.checked_add(4)?;
    file.get(start..start.checked_add(number(vector)?)?).filter(|bytes| is_bytecode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table whose field 13 is a vector of these bytes.
    fn file(bytes: &[u8]) -> Vec<u8> {
        let mut file = 36u32.to_le_bytes().to_vec();
        file.extend(32u16.to_le_bytes());
        file.extend(8u16.to_le_bytes());
        file.extend([0; 26]);
        file.extend(4u16.to_le_bytes());
        file.extend(32i32.to_le_bytes());
        file.extend(4u32.to_le_bytes());
        file.extend((bytes.len() as u32).to_le_bytes());
        file.extend(bytes);
        file
    }

    #[test]
    fn the_program_is_one_field_of_a_table() {
        let bytes = b"ML\xefR and more";
        let whole = file(bytes);
        assert_eq!(program(&whole), Some(&bytes[..]));
        assert_eq!(program(&file(b"something else")), None);
        for end in 0..whole.len() {
            assert_eq!(program(&whole[..end]), None, "{end}");
        }
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0xff;
            program(&changed);
        }
    }
}
