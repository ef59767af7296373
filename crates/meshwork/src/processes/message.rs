//! An array as a message: a line that says what it is, and its elements.

use meshwork_ir::{ElementType, Literal};
use meshwork_runtime::{Array, ProcessError};

use crate::error::{Error, Result};

pub(super) fn failed(message: String) -> Error {
    Error::Processes(ProcessError::Failed(message))
}

/// The message of an array.
pub(super) fn write(literal: &Literal) -> Vec<u8> {
    let mut message = head(literal.elem(), literal.dims());
    message.extend_from_slice(literal.bytes());
    message
}

/// The messages of consecutive rows: `counts[r]` of them for part `r`, which together are all.
pub(super) fn parts(literal: &Literal, counts: &[usize]) -> Vec<Vec<u8>> {
    let mut dims = literal.dims().to_vec();
    let row = dims[1..].iter().product::<i64>() as usize * literal.elem().storage_bytes();
    let mut rest = literal.bytes();
    let mut part = |count: usize| {
        let (bytes, after) = rest.split_at(count * row);
        rest = after;
        dims[0] = count as i64;
        let mut message = head(literal.elem(), &dims);
        message.extend_from_slice(bytes);
        message
    };
    counts.iter().map(|&count| part(count)).collect()
}

fn head(elem: ElementType, dims: &[i64]) -> Vec<u8> {
    let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("{elem} {}\n", dims.join("x")).into_bytes()
}

/// The array of a message.
pub(super) fn read(message: &[u8]) -> Result<Array> {
    let wrong = || failed("what came is not an array".into());
    let end = message.iter().position(|&b| b == b'\n').ok_or_else(wrong)?;
    let (head, bytes) = (String::from_utf8_lossy(&message[..end]), &message[end + 1..]);
    let (elem, dims) = head.split_once(' ').ok_or_else(wrong)?;
    let elem = ElementType::ALL.iter().copied().find(|e| e.to_string() == elem).ok_or_else(wrong)?;
    let dims = dims.split('x').filter(|d| !d.is_empty()).map(str::parse).collect::<std::result::Result<Vec<i64>, _>>();
    let literal = Literal::from_bytes(dims.map_err(|_| wrong())?, elem, bytes.to_vec()).ok_or_else(wrong)?;
    Ok(Array::from_literal(literal))
}

/// Arrays one after the other along the first dimension; they are known to fit.
pub(super) fn join(messages: &[Vec<u8>]) -> Result<Array> {
    let arrays = messages.iter().map(|m| read(m)).collect::<Result<Vec<_>>>()?;
    let mut dims = arrays[0].shape().to_vec();
    dims[0] = arrays.iter().map(|a| a.shape()[0]).sum();
    let mut bytes = vec![];
    for array in &arrays {
        bytes.extend_from_slice(array.literal()?.bytes());
    }
    array_of(&dims, arrays[0].dtype(), bytes)
}

/// An array of these bytes.
pub(super) fn array_of(dims: &[i64], elem: ElementType, bytes: Vec<u8>) -> Result<Array> {
    let literal = Literal::from_bytes(dims.iter().copied(), elem, bytes);
    literal.map(Array::from_literal).ok_or_else(|| failed(format!("what came is not an array of shape {dims:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_travel_as_messages_and_nonsense_is_refused() {
        for array in
            [Array::from_fn([2, 3], |i| i[1] as f32), Array::scalar(7i64), Array::zeros([0, 4], ElementType::BF16)]
        {
            let back = read(&write(array.literal().unwrap())).unwrap();
            assert_eq!(back.literal().unwrap(), array.literal().unwrap());
        }
        assert!(read(b"").is_err() && read(b"f32 3\nabc").is_err() && read(b"nothing 1\n").is_err());
    }

    #[test]
    fn parts_of_rows_join_to_the_whole() {
        let array = Array::from_fn([5, 2], |i| (2 * i[0] + i[1]) as i32);
        let parts = parts(array.literal().unwrap(), &[2, 0, 3]);
        assert_eq!(read(&parts[2]).unwrap().to_vec::<i32>().unwrap(), [4, 5, 6, 7, 8, 9]);
        assert_eq!(join(&parts).unwrap().literal().unwrap(), array.literal().unwrap());
    }
}
