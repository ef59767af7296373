//! The wire format of protocol buffers: enough for compile options and shardings.

/// A field of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A number or truth value.
    Number(u64),
    /// Text, bytes, or a message.
    Bytes(&'a [u8]),
}

/// What is wrong with the bytes of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(pub String);

/// Fields of a message in order, with their numbers. Fixed-width fields are left out: no message here has them.
pub fn fields(mut bytes: &[u8]) -> Result<Vec<(u64, Field<'_>)>, Malformed> {
    let mut all = vec![];
    while !bytes.is_empty() {
        let key = varint(&mut bytes)?;
        let number = key >> 3;
        match key & 7 {
            0 => all.push((number, Field::Number(varint(&mut bytes)?))),
            1 => drop(take(&mut bytes, 8)?),
            2 => {
                let size = varint(&mut bytes)? as usize;
                all.push((number, Field::Bytes(take(&mut bytes, size)?)));
            }
            5 => drop(take(&mut bytes, 4)?),
            other => return Err(Malformed(format!("a protocol buffer has wire type {other}"))),
        }
    }
    Ok(all)
}

/// The numbers of a repeated field, packed or one by one.
pub fn numbers(field: Field<'_>) -> Result<Vec<u64>, Malformed> {
    let mut bytes = match field {
        Field::Number(n) => return Ok(vec![n]),
        Field::Bytes(bytes) => bytes,
    };
    let mut all = vec![];
    while !bytes.is_empty() {
        all.push(varint(&mut bytes)?);
    }
    Ok(all)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Result<&'a [u8], Malformed> {
    let end = || Malformed("a protocol buffer ends too early".into());
    let (first, rest) = bytes.split_at_checked(count).ok_or_else(end)?;
    *bytes = rest;
    Ok(first)
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Malformed> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(bytes, 1)?[0];
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            return Ok(value);
        }
    }
    Err(Malformed("a number of a protocol buffer is too long".into()))
}

fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a number.
pub fn push_number(out: &mut Vec<u8>, field: u64, value: u64) {
    push_varint(out, field << 3);
    push_varint(out, value);
}

/// Appends bytes, or a message.
pub fn push_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_varint(out, field << 3 | 2);
    push_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Appends repeated numbers.
pub fn push_numbers(out: &mut Vec<u8>, field: u64, values: impl IntoIterator<Item = i64>) {
    let mut packed = vec![];
    values.into_iter().for_each(|v| push_varint(&mut packed, v as u64));
    push_bytes(out, field, &packed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut out = vec![];
        push_number(&mut out, 1, 300);
        push_numbers(&mut out, 200, [0, 127, 128, i64::MAX]);
        let all = fields(&out).unwrap();
        assert_eq!(all[0], (1, Field::Number(300)));
        assert_eq!(all[1].0, 200);
        assert_eq!(numbers(all[1].1).unwrap(), [0, 127, 128, i64::MAX as u64]);
    }

    #[test]
    fn broken_messages_are_errors() {
        for broken in [&[0x0a, 5, 1][..], &[0x08], &[0x0b], &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255]] {
            assert!(fields(broken).is_err(), "{broken:?}");
        }
    }
}
