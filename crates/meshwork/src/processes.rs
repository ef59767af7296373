//! Host arrays between processes, in the style of MPI: who has them says to whom they go.
//!
//! ```
//! use meshwork::prelude::*;
//!
//! let runtime = Runtime::init()?;
//! // Rank 0 has the numbers; every rank gets a share, though 103 is not divisible.
//! let all = (runtime.rank() == 0).then(|| Array::from_fn([103], |i| i[0] as f64));
//! let mine = runtime.scatter_array(0, all.as_ref())?;
//! let doubled: Vec<f64> = mine.to_vec::<f64>()?.iter().map(|x| 2.0 * x).collect();
//! let gathered = runtime.gather_array(0, &Array::from(doubled))?;
//! if let Some(all) = gathered {
//!     assert_eq!(all.to_vec::<f64>()?[102], 204.0);
//! }
//! # Ok::<(), meshwork::Error>(())
//! ```
//!
//! The number of elements need not divide, and what is wrong with the arrays of one process is the same error on all.

use meshwork_ir::{ElementType, Literal};
use meshwork_runtime::{ProcessError, ReduceOp, Runtime};

use crate::error::{Error, Result};
use meshwork_runtime::Array;

/// Calls on host arrays that processes make together. A process on its own can make them too.
pub trait HostArrays {
    /// Each process gets its share of the array that `root` has, cut along the first dimension as evenly as can be.
    /// The others give none.
    fn scatter_array(&self, root: usize, array: Option<&Array>) -> Result<Array>;

    /// `root` gets the arrays of all, one after the other along the first dimension; the others get none.
    fn gather_array(&self, root: usize, array: &Array) -> Result<Option<Array>>;

    /// All get the arrays of all, one after the other along the first dimension.
    fn all_gather_array(&self, array: &Array) -> Result<Array>;

    /// All get the array that `root` has. The others give none.
    fn broadcast_array(&self, root: usize, array: Option<&Array>) -> Result<Array>;

    /// Sends an array to another process.
    fn send_array(&self, to: usize, array: &Array) -> Result<()>;

    /// Waits for the array that another process sends.
    fn receive_array(&self, from: usize) -> Result<Array>;

    /// All get the combination, element by element, of the arrays of all, which have one shape and type.
    fn all_reduce_array(&self, how: ReduceOp, array: &Array) -> Result<Array>;
}

impl HostArrays for Runtime {
    fn scatter_array(&self, root: usize, array: Option<&Array>) -> Result<Array> {
        let mut parts = vec![];
        if self.rank() == root {
            // What is wrong travels in place of the shares, so that all know it.
            parts = match present("scatter_array", root, array).and_then(|x| shares(self, x)) {
                Ok(parts) => parts,
                Err(error) => vec![refuse(&error); self.size()],
            };
        }
        read(&self.scatter(root, &parts)?)
    }

    fn gather_array(&self, root: usize, array: &Array) -> Result<Option<Array>> {
        let message = write(array.literal()?);
        self.gather(root, &message)?.map(|all| joined("gather_array", &all)).transpose()
    }

    fn all_gather_array(&self, array: &Array) -> Result<Array> {
        joined("all_gather_array", &self.all_gather(&write(array.literal()?))?)
    }

    fn broadcast_array(&self, root: usize, array: Option<&Array>) -> Result<Array> {
        let mut message = vec![];
        if self.rank() == root {
            let found = present("broadcast_array", root, array);
            message = found.and_then(|x| Ok(write(x.literal()?))).unwrap_or_else(|error| refuse(&error));
        }
        read(&self.broadcast(root, &message)?)
    }

    fn send_array(&self, to: usize, array: &Array) -> Result<()> {
        Ok(self.send(to, &write(array.literal()?))?)
    }

    fn receive_array(&self, from: usize) -> Result<Array> {
        read(&self.receive(from)?)
    }

    fn all_reduce_array(&self, how: ReduceOp, array: &Array) -> Result<Array> {
        let (literal, shape) = (array.literal()?, array.shape());
        let sum = self.all_reduce(array.dtype(), how, literal.bytes())?;
        let sum = Literal::from_bytes(shape.iter().copied(), array.dtype(), sum);
        sum.map(Array::from_literal).ok_or_else(|| failed(format!("all_reduce_array: not an array of shape {shape:?}")))
    }
}

fn failed(message: String) -> Error {
    Error::Processes(ProcessError::Failed(message))
}

fn present<'a>(call: &str, root: usize, array: Option<&'a Array>) -> Result<&'a Array> {
    array.ok_or_else(|| failed(format!("{call}: rank {root} is the root and gives no array")))
}

/// The share of each process along the first dimension, as messages.
fn shares(runtime: &Runtime, array: &Array) -> Result<Vec<Vec<u8>>> {
    let literal = array.literal()?;
    let [rows, rest @ ..] = literal.dims() else {
        return Err(failed("scatter_array: a scalar has no dimension to cut; broadcast it".into()));
    };
    let row = rest.iter().product::<i64>() as usize * literal.elem().storage_bytes();
    let (size, rows) = (runtime.size(), *rows as usize);
    let start = |r: usize| r * (rows / size) + r.min(rows % size);
    let share = |r: usize| {
        let mut dims = literal.dims().to_vec();
        dims[0] = (start(r + 1) - start(r)) as i64;
        let mut message = head(literal.elem(), &dims);
        message.extend_from_slice(&literal.bytes()[start(r) * row..start(r + 1) * row]);
        message
    };
    Ok((0..size).map(share).collect())
}

/// The arrays of all, one after the other.
fn joined(call: &str, messages: &[Vec<u8>]) -> Result<Array> {
    let arrays = messages.iter().map(|m| read(m)).collect::<Result<Vec<_>>>()?;
    let first = &arrays[0];
    let rest = |a: &Array| (a.dtype(), a.shape().get(1..).map(<[i64]>::to_vec));
    for (rank, array) in arrays.iter().enumerate() {
        if rest(array) != rest(first) || array.shape().is_empty() {
            let show = |a: &Array| format!("{}{:?}", a.dtype(), a.shape());
            let (one, other) = (show(first), show(array));
            return Err(failed(format!("{call}: rank 0 has {one}, rank {rank} has {other}, which cannot be joined")));
        }
    }
    let mut dims = first.shape().to_vec();
    dims[0] = arrays.iter().map(|a| a.shape()[0]).sum();
    let mut bytes = vec![];
    for array in &arrays {
        bytes.extend_from_slice(array.literal()?.bytes());
    }
    let all = Literal::from_bytes(dims.iter().copied(), first.dtype(), bytes);
    all.map(Array::from_literal).ok_or_else(|| failed(format!("{call}: not an array of shape {dims:?}")))
}

/// An array as a message: a line that says what it is, and its elements.
fn write(literal: &Literal) -> Vec<u8> {
    let mut message = head(literal.elem(), literal.dims());
    message.extend_from_slice(literal.bytes());
    message
}

fn head(elem: ElementType, dims: &[i64]) -> Vec<u8> {
    let dims: Vec<String> = dims.iter().map(i64::to_string).collect();
    format!("{elem} {}\n", dims.join("x")).into_bytes()
}

/// Why there is no array, as a message.
fn refuse(error: &Error) -> Vec<u8> {
    format!("! {error}\n").into_bytes()
}

fn read(message: &[u8]) -> Result<Array> {
    let wrong = || failed("what came is not an array".into());
    let end = message.iter().position(|&b| b == b'\n').ok_or_else(wrong)?;
    let (head, bytes) = (String::from_utf8_lossy(&message[..end]), &message[end + 1..]);
    let (elem, dims) = head.split_once(' ').ok_or_else(wrong)?;
    if elem == "!" {
        let text = String::from_utf8_lossy(&message[2..]);
        return Err(failed(text.trim_end().to_string()));
    }
    let elem = ElementType::ALL.iter().copied().find(|e| e.to_string() == elem).ok_or_else(wrong)?;
    let dims = dims.split('x').filter(|d| !d.is_empty()).map(str::parse).collect::<std::result::Result<Vec<i64>, _>>();
    let literal = Literal::from_bytes(dims.map_err(|_| wrong())?, elem, bytes.to_vec()).ok_or_else(wrong)?;
    Ok(Array::from_literal(literal))
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
        assert_eq!(read(b"! why not\n").unwrap_err().to_string(), "why not");
    }

    #[test]
    fn one_process_can_make_all_calls() {
        let runtime = Runtime::init().unwrap();
        let x = Array::from_fn([5], |i| i[0] as f64);
        let same = |y: &Array| assert_eq!(y.literal().unwrap(), x.literal().unwrap());
        same(&runtime.scatter_array(0, Some(&x)).unwrap());
        same(&runtime.gather_array(0, &x).unwrap().unwrap());
        same(&runtime.all_gather_array(&x).unwrap());
        same(&runtime.broadcast_array(0, Some(&x)).unwrap());
        same(&runtime.all_reduce_array(ReduceOp::Sum, &x).unwrap());
        let error = runtime.scatter_array(0, None).unwrap_err().to_string();
        assert_eq!(error, "scatter_array: rank 0 is the root and gives no array");
    }
}
