//! Resources: constants that lie beside the program, named by `dense_resource<name>`.

use super::container::text_of;
use super::cursor::{Cursor, Read};

/// A constant of a dialect.
#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    /// What the program calls it.
    pub name: &'a str,
    /// Its elements, if they are stored.
    pub bytes: Option<&'a [u8]>,
}

/// The resources of all dialects, in the order of their numbers. Those of other tools are left out.
pub(super) fn resources<'a>(
    mut offsets: Cursor<'a>,
    mut data: Cursor<'a>,
    strings: &[&'a [u8]],
) -> Read<Vec<Resource<'a>>> {
    for _ in 0..offsets.count()? {
        offsets.index()?;
        group(&mut offsets, &mut data, strings)?;
    }
    let mut all = vec![];
    while offsets.left() > 0 {
        offsets.index()?;
        all.extend(group(&mut offsets, &mut data, strings)?);
    }
    Ok(all)
}

/// Resources of one owner: name, size and kind of each.
fn group<'a>(offsets: &mut Cursor<'a>, data: &mut Cursor<'a>, strings: &[&'a [u8]]) -> Read<Vec<Resource<'a>>> {
    const BLOB: u8 = 0;
    offsets.list(|c| {
        let name = c.index()?;
        let name = text_of(strings, name, c.at())?;
        let size = c.index()?;
        let kind = c.byte()?;
        let at = data.at();
        let mut entry = Cursor::new(data.take(size)?, at);
        if kind != BLOB || size == 0 {
            return Ok(Resource { name, bytes: None });
        }
        // The alignment stands before the size, the padding after it.
        let bytes = {
            let mut ahead = entry;
            ahead.index()?;
            let size = ahead.index()?;
            let skip = ahead.left().checked_sub(size).ok_or_else(|| ahead.error("a resource is cut short"))?;
            entry = ahead;
            entry.take(skip)?;
            entry.take(size)?
        };
        Ok(Resource { name, bytes: Some(bytes) })
    })
}
